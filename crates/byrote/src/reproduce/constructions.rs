//! All constructions at equal N: parameters under both counts, depth, width and bits.
//!
//! N random sequences of one length, each with one label, so that as many theorems as possible apply. What the library builds is
//! built, and every fact is verified; what is known only as a formula or as an order is evaluated and marked as such.

use super::{Job, Reproduced};
use crate::bounds::families::{self, Guarantee};
use crate::bounds::{self, CorpusFacts, Situation};
use crate::construct::kajitsuka2024::corpus_task::from_dataset;
use crate::construct::kajitsuka2024::{
    ExactNetwork, Goal, MemoryKind, Samples, SelectingNetwork, Settings, Switches, Visibility, build,
};
use crate::construct::madden2024::literal;
use crate::construct::{Dana2024Spec, MAX_MEMORY, Madden2024Spec, dana2024, madden2024};
use crate::corpus::random::Associations;
use crate::corpus::{ContextRule, Corpus, Options, Outputs, Source, Window};
use crate::dataset::Dataset;
use crate::evaluate::evaluate;
use crate::model::{Activation, Mixer, Model};
use crate::observe::{Detail, Progress, Stage};
use crate::output::OutputFile;
use crate::report::papers::constructions::{self as pages, Known, Refused, Size};
use crate::units::{Nats, grouped};
use crate::{Error, Result, report};
use serde_json::json;

/// Sequences of the small figure, and of the full one.
const SMALL: [usize; 10] = [10, 30, 100, 200, 300, 600, 1_000, 2_000, 3_000, 10_000];
const FULL: [usize; 2] = [30_000, 100_000];
/// Tokens, length and labels of the sequences.
const D_VOCAB: u32 = 50;
const LENGTH: usize = 3;
const LABELS: u32 = 10;
/// Formulas and orders that are shown, by the key of their row in `byrote bounds`.
const FORMULAS: [&str; 9] = [
    "kajitsuka2023",
    "kim2023-classification",
    "kajitsuka2024-next",
    "kajitsuka2024-exact",
    "yun2019",
    "bubeck2020",
    "madden2023",
    "park2021",
    "vardi2022",
];
/// Families that are shown although their theorem does not cover these data.
const FAMILIES: [(&str, &str); 2] =
    [("mahdavi2024", "mahdavi2024, as wide as the context"), ("lookup-labels", "a table of the labels")];

/// The data for one N.
struct Data {
    dataset: Dataset,
    samples: Samples,
    facts: CorpusFacts,
}

/// A construction: its key, its name, the most sequences it is built for, and how.
struct Recipe {
    key: &'static str,
    name: &'static str,
    most: usize,
    build: fn(&Data, &Job<'_>) -> Result<Size>,
}

const RECIPES: [Recipe; 10] = [
    Recipe {
        key: "madden2024",
        name: "madden2024, width 16",
        most: 10_000,
        build: |data, job| madden(data, job, Madden2024Spec::default()),
    },
    Recipe {
        key: "madden2024-attention",
        name: "madden2024, width 1",
        most: 10_000,
        build: |data, job| madden(data, job, Madden2024Spec::default().d_model(1)),
    },
    Recipe {
        key: "madden2024-average",
        name: "madden2024, averaging, width 1",
        most: 10_000,
        build: |data, job| madden(data, job, Madden2024Spec::default().mixer(Mixer::Average).d_model(1)),
    },
    Recipe { key: "madden2024-literal", name: "madden2024, literal", most: 30, build: to_the_letter },
    Recipe {
        key: "dana2024",
        name: "dana2024, width 16",
        most: 3_000,
        build: |data, job| dana(data, job, Dana2024Spec::default().d_model(16)),
    },
    Recipe {
        key: "dana2024-d2",
        name: "dana2024, width 2",
        most: 3_000,
        build: |data, job| dana(data, job, Dana2024Spec::default().d_model(2)),
    },
    Recipe {
        key: "kajitsuka2024-exact",
        name: "kajitsuka2024, bounded",
        most: usize::MAX,
        build: |data, job| square_root(data, job, MemoryKind::Bounded),
    },
    Recipe {
        key: "kajitsuka2024",
        name: "kajitsuka2024, searched",
        most: usize::MAX,
        build: |data, job| square_root(data, job, MemoryKind::Searched),
    },
    Recipe {
        key: "kajitsuka2024-looped",
        name: "kajitsuka2024, looped",
        most: 1_000,
        build: |data, job| square_root(data, job, MemoryKind::Looped),
    },
    Recipe {
        key: "kajitsuka2024-selecting",
        name: "kajitsuka2024, selecting heads, id rounded",
        most: usize::MAX,
        build: selecting,
    },
];

pub fn constructions(job: &Job<'_>) -> Result<Reproduced> {
    let sizes: Vec<usize> = SMALL.iter().chain(if job.full { &FULL[..] } else { &[] }).copied().collect();
    let list: Vec<String> = sizes.iter().map(|&n| grouped(n as u64)).collect();
    let about = format!(
        "{} random sequences of {LENGTH} tokens out of {D_VOCAB}, one of {LABELS} labels each.",
        list.join(", ")
    );
    let mut json = json!({
        "full": job.full, "dry_run": job.dry_run, "seed": job.seed, "samples": sizes, "length": LENGTH,
        "d_vocab": D_VOCAB, "labels": LABELS,
    });
    if job.dry_run {
        return Ok(Reproduced::new(about + "\n", json, Vec::new()));
    }
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for &n in &sizes {
        let data = Data::draw(n, job)?;
        all.extend(formulas(&data));
        for recipe in RECIPES.iter().filter(|r| n <= r.most) {
            let note = format!("{} for {} sequences", recipe.name, grouped(n as u64));
            job.observer.progress(&Progress::new(Stage::Solving, 0, None).with(Detail::Note(&note)));
            match (recipe.build)(&data, job) {
                Ok(size) => all.push(Size { key: recipe.key.into(), name: recipe.name.into(), ..size }),
                Err(error) => {
                    job.observer.check()?;
                    let reason = error.to_string();
                    refused.push(Refused { name: recipe.name.into(), samples: n as u64, reason });
                }
            }
        }
    }
    let (page, found) = pages::constructions(&all, &refused, &about, job.full, job.command)?;
    let path = job.out.join("constructions.csv");
    OutputFile::write(&path, pages::csv(&all).as_bytes())?;
    job.observer.progress(&Progress::new(Stage::Drawing, 0, None));
    let mut files = vec![path];
    for (name, figure) in pages::figures(&all) {
        for ending in ["svg", "png"] {
            let path = job.out.join(format!("{name}.{ending}"));
            report::write_figure(&path, &figure)?;
            files.push(path);
        }
    }
    files.push(report::write(job.out, &page)?);
    let text = pages::text(&all, &refused, &about, &found);
    json["sizes"] = json!(all);
    json["refused"] = json!(refused);
    json["found"] = found;
    Ok(Reproduced::new(text, json, files))
}

impl Data {
    fn draw(n: usize, job: &Job<'_>) -> Result<Self> {
        let source = Source::Random(Associations::new(n, D_VOCAB, LENGTH..=LENGTH, LABELS, job.seed)?);
        let window = Window { n_ctx: LENGTH as u32, contexts: ContextRule::Full, ..Window::default() };
        let options = Options { window, ..Options::default() };
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let corpus = Corpus::read(&source, &options, outputs, job.observer)?;
        let dataset = Dataset::from_corpus(&corpus)?;
        let switches = Switches { goal: Goal::Next, attention: Visibility::Causal, padded: false };
        let samples = from_dataset(&dataset, switches)?.samples;
        Ok(Self { dataset, samples, facts: CorpusFacts::from(&corpus.summary) })
    }

    fn n(&self) -> u64 {
        self.samples.len() as u64
    }

    /// A size of which nothing is known yet.
    fn size(&self, known: Known) -> Size {
        Size::new(self.n(), u64::from(self.samples.task().labels), known)
    }
}

/// Formulas and orders.
fn formulas(data: &Data) -> Vec<Size> {
    let situation = Situation { corpus: Some(data.facts.clone()), ..Situation::default() };
    let rows = bounds::evaluate(&situation);
    let of_rows = FORMULAS.iter().filter_map(|key| {
        let row = rows.iter().find(|row| row.bound.key == *key)?;
        let required = row.required_parameters?;
        let (known, parameters) = match (required.count(), required.order_of()) {
            (Some(count), _) => (Known::Formula, count as f64),
            (None, order) => (Known::Order, order?),
        };
        Some(Size {
            key: (*key).into(),
            name: format!("{key}: {}", row.bound.name),
            dense: Some(parameters),
            remark: row.condition.map(str::to_owned),
            ..data.size(known)
        })
    });
    let smallest = families::smallest(&data.facts);
    let of_families = FAMILIES.iter().filter_map(|(key, name)| {
        let family = smallest.iter().find(|family| family.key == *key)?;
        Some(Size {
            key: (*key).into(),
            name: (*name).into(),
            dense: Some(family.parameters as f64),
            depth: family.shape.map(|_| 1),
            width: family.shape.map(|shape| shape.d_model.max(shape.n_heads * shape.d_head)),
            remark: family.reason.clone().filter(|_| family.guarantee != Guarantee::Proved),
            ..data.size(Known::Formula)
        })
    });
    of_rows.chain(of_families).collect()
}

/// The size of a one-layer model, after checking that it answers every context.
fn one_layer(data: &Data, job: &Job<'_>, model: &Model) -> Result<Size> {
    let found = evaluate(model, &data.dataset, Nats(1e-3), 0, job.observer)?;
    if found.memorized < data.n() {
        let message = format!("{} of {} contexts are memorized", grouped(found.memorized), grouped(data.n()));
        return Err(Error::setting("samples", message));
    }
    let shape = model.config().shape;
    let parameters = model.parameters();
    let dense = parameters.len();
    Ok(Size {
        dense: Some(dense as f64),
        nonzero: Some(parameters.iter().filter(|&&x| x != 0.0).count() as f64),
        depth: Some(1 + u64::from(shape.d_mlp > 0)),
        width: Some(shape.d_model.max(shape.n_heads * shape.d_head).max(shape.d_mlp)),
        bits: Some(64.0 * dense as f64),
        longest_bits: Some(64),
        ..data.size(Known::Built)
    })
}

fn madden(data: &Data, job: &Job<'_>, spec: Madden2024Spec) -> Result<Size> {
    let settings = spec.activation(Activation::Tanh).resolve(job.seed, MAX_MEMORY)?;
    one_layer(data, job, &madden2024::build(&data.dataset, &settings, job.observer)?.0)
}

fn dana(data: &Data, job: &Job<'_>, spec: Dana2024Spec) -> Result<Size> {
    let settings = spec.task(dana2024::Task::Association).resolve(job.seed, MAX_MEMORY)?;
    one_layer(data, job, &dana2024::build(&data.dataset, &settings, job.observer)?.0)
}

/// The proof of madden2024 to the letter, at width 1: as many bits as it takes, for the output only. Its weights are not
/// returned, so those that are 0 are not counted.
fn to_the_letter(data: &Data, job: &Job<'_>) -> Result<Size> {
    let settings = literal::LiteralSettings::default().seed(job.seed);
    let found = literal::literal(&data.dataset, &settings, job.observer)?;
    let shape = bounds::madden2024::smallest(Mixer::Attention, data.n(), data.facts.d_vocab, LENGTH as u64);
    let dense = shape.parameters().total() as f64;
    let longest = found.bits as f64 + found.log2_largest_weight.max(0.0).ceil() + 1.0;
    let output = (data.n() * data.facts.d_vocab) as f64;
    Ok(Size {
        dense: Some(dense),
        nonzero: None,
        depth: Some(2),
        width: Some(data.n()),
        bits: Some(output * longest + 64.0 * (dense - output)),
        longest_bits: Some(longest as u64),
        ..data.size(Known::Built)
    })
}

/// The size of an exact network. `heads` selecting heads precede its layers: each has six weights (a query and a key of two
/// entries, a value, an output). They read two more channels, which hold s and s^2 at every position s; there are as many
/// positions as heads. An entry of the label table takes the bits of a token.
fn exact(data: &Data, network: &ExactNetwork, heads: usize) -> Size {
    let (tally, embedding) = (network.tally(), network.embedding());
    let d = network.channels() + if heads > 0 { 2 } else { 0 };
    let dense: usize = network.layers().map(|layer| layer.dense(d)).sum::<usize>() + d + 1 + 6 * d * heads;
    let positions = 2 * heads;
    let labels = data.samples.label_table();
    let bits_of_a_token =
        data.facts.d_vocab.saturating_sub(1).checked_ilog2().map_or(0, |log| log as usize + 1);
    let tables = embedding.nonzero + positions + labels;
    let table_bits = embedding.fixed_bits + 64 * positions + bits_of_a_token * labels;
    Size {
        dense: Some((dense + tables) as f64),
        nonzero: Some((tally.nonzero + 6 * heads + tables) as f64),
        depth: Some((tally.depth + usize::from(heads > 0)) as u64),
        width: Some(d.max(network.width()).max(2 * heads) as u64),
        bits: Some((tally.fixed_bits + 64 * 6 * heads + table_bits) as f64),
        longest_bits: Some(tally.largest_bits as u64),
        ..data.size(Known::Built)
    }
}

fn square_root(data: &Data, job: &Job<'_>, memory: MemoryKind) -> Result<Size> {
    let settings = Settings { seed: job.seed, memory: Some(memory), ..Settings::default() };
    let built = build(&data.samples, &settings, job.observer)?;
    Ok(exact(data, &built.model.network, 0))
}

/// The searched memory behind heads that select, with the id rounded.
fn selecting(data: &Data, job: &Job<'_>) -> Result<Size> {
    let memory = Some(MemoryKind::Searched);
    let settings = Settings { seed: job.seed, memory, ..Settings::default() };
    let network = SelectingNetwork::build(&data.samples, &settings, job.observer)?.rounded();
    network.verify(&data.samples, job.observer)?;
    Ok(exact(data, &network.behind, network.weights.len()))
}
