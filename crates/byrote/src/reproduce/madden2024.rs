//! madden2024: the corpora that Theorem 1 promises for three given models, and training on them.
//!
//! The paper proves that the corpora exist; the experiment is ours.

use super::{Job, Reproduced};
use crate::bounds::madden2024::hard_corpus;
use crate::bounds::madden2024_out_of_reach::{
    dataset, dimension, documents, free_numbers, full_contexts, gap_at_least, logit_rank,
};
use crate::dataset::Dataset;
use crate::model::{Activation, Config, Model, ModelSpec, Preset};
use crate::observe::{Observer, Stage};
use crate::output::{OutputFile, csv_text};
use crate::report::papers::madden2024::theorem1::{self as pages, Case, Neurons, REACHED};
use crate::report::text::TextTable;
use crate::train::{Stop, TrainSpec, Trained, Trainer};
use crate::{Error, Result, report};
use rayon::prelude::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most steps of a run.
const STEPS: u64 = 60_000;
/// A run has stalled when its gap falls by less than this part over 500 steps.
const STALL: f64 = 1e-4;

/// A given model, and the numbers of neurons to train with.
struct Given {
    key: &'static str,
    title: &'static str,
    about: &'static str,
    d_vocab: u64,
    d_model: u64,
    neurons: u64,
    trained: Trained,
    /// Numbers of neurons beside that of the given model; the number of contexts is added.
    others: Vec<u64>,
}

fn cases(full: bool) -> [Given; 3] {
    let (wide, m, narrow) = if full { (96, 12, 6) } else { (64, 8, 4) };
    [
        Given {
            key: "feed-forward",
            title: "Wide vocabulary, feed-forward parameters",
            about: "Embeddings and attention keep their initial weights; the hidden layer and the output are trained. The \
                    vocabulary is so wide that k / (omega - 1) is between m and m + 1, so the theorem's corpus has one context more than there \
                    are neurons, and one neuron more is enough by Theorem 5.",
            d_vocab: wide,
            d_model: 4,
            neurons: m,
            trained: Trained::FeedForward,
            others: (m - 4..=m + 2).collect(),
        },
        Given {
            key: "all",
            title: "Wide vocabulary, all parameters",
            about: "Every weight is trained and counts, so the theorem's corpus is larger. The embedding does not help with it: \
                    the rank of the output requires as many neurons as contexts.",
            d_vocab: wide,
            d_model: 4,
            neurons: m,
            trained: Trained::All,
            others: (m - 4..=m + 8).collect(),
        },
        Given {
            key: "narrow",
            title: "Narrow vocabulary, all parameters",
            about: "With few tokens the rank of the output is soon full and proves nothing. What remains is counting \
                    dimensions, and training as evidence.",
            d_vocab: 4,
            d_model: 2,
            neurons: narrow,
            trained: Trained::All,
            others: (1..=8 * narrow).collect(),
        },
    ]
}

impl Given {
    fn config(&self, neurons: u64, n_ctx: u64) -> Result<Config> {
        ModelSpec::default()
            .preset(Preset::Madden2024)
            .activation(Activation::Tanh)
            .d_model(self.d_model)
            .d_mlp(neurons)
            .resolve(self.d_vocab, n_ctx)
    }

    /// The number of parameters that are trained.
    fn parameters(&self, config: &Config) -> u64 {
        let frozen: usize = self.trained.frozen(config).iter().map(ExactSizeIterator::len).sum();
        (config.n_parameters() - frozen) as u64
    }

    /// T, and the trained parameters of the given model. Positions are parameters, so a longer T may need a longer one.
    fn size(&self) -> Result<(u64, u64)> {
        let mut n_ctx = 1;
        loop {
            let k = self.parameters(&self.config(self.neurons, n_ctx)?);
            match hard_corpus(k.into(), self.d_vocab) {
                Some(corpus) if corpus.n_ctx > n_ctx => n_ctx = corpus.n_ctx,
                _ => return Ok((n_ctx, k)),
            }
        }
    }
}

/// Passes on that the work should stop, and no progress.
struct Unreported<'a>(&'a dyn Observer);

impl Observer for Unreported<'_> {
    fn should_stop(&self) -> bool {
        self.0.should_stop()
    }
}

/// Trains one model; returns its gap.
fn train(
    config: Config,
    trained: Trained,
    dataset: &Arc<Dataset>,
    seed: u64,
    observer: &dyn Observer,
) -> Result<f64> {
    let spec =
        TrainSpec::default().steps(STEPS).stop_relative_gap(REACHED / 2.0).stall(STALL).train_only(trained);
    let (settings, limits) = spec.resolve(seed)?;
    let model = Model::random(config, seed)?;
    let mut trainer = Trainer::new(&model, dataset, settings, limits, observer)?;
    match trainer.run(observer)? {
        Stop::Interrupted => Err(Error::Interrupted),
        _ => Ok(trainer.gap().0),
    }
}

/// Makes the corpus of a given model, and trains models of all widths on it with several seeds.
fn case(given: Given, seeds: u64, job: &Job<'_>) -> Result<(Case, String)> {
    let (n_ctx, k) = given.size()?;
    let written = documents(k.into(), given.d_vocab, job.seed)?;
    let known = Arc::new(dataset(&written, given.d_vocab)?);
    let contexts = known.len() as u64;
    let mut widths: Vec<u64> = given.others.iter().copied().chain([given.neurons, contexts]).collect();
    widths.sort_unstable();
    widths.dedup();
    widths.retain(|&m| m <= contexts);
    let runs: Vec<(u64, u64)> =
        widths.iter().flat_map(|&m| (0..seeds).map(move |s| (m, job.seed + s))).collect();
    let done = AtomicU64::new(0);
    let gaps: Vec<f64> = runs
        .par_iter()
        .map(|&(m, seed)| {
            let gap = train(given.config(m, n_ctx)?, given.trained, &known, seed, &Unreported(job.observer))?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            job.observer.report(Stage::Jobs, done, Some(runs.len() as u64))?;
            Ok(gap)
        })
        .collect::<Result<_>>()?;
    let models = widths.par_iter().zip(gaps.par_chunks(seeds as usize)).map(|(&neurons, gaps)| {
        let config = given.config(neurons, n_ctx)?;
        let (model, frozen) = (Model::random(config, job.seed)?, given.trained.frozen(&config));
        Ok(Neurons {
            neurons,
            parameters: given.parameters(&config),
            dimension: dimension(&model, &frozen, &known, job.seed)?,
            gap_at_least_nats: gap_at_least(&known, logit_rank(&config)),
            gaps_nats: gaps.to_vec(),
        })
    });
    let made = Case {
        key: given.key,
        title: given.title,
        about: given.about,
        d_vocab: given.d_vocab,
        n_ctx,
        d_model: given.d_model,
        given_neurons: given.neurons,
        parameters: k,
        full_contexts: full_contexts(k.into(), given.d_vocab) as u64,
        contexts,
        promised_contexts: hard_corpus(k.into(), given.d_vocab).map_or(0, |c| c.contexts as u64),
        documents: written.iter().map(|d| d.1).sum(),
        free_numbers: free_numbers(&known),
        floor_nats: known.floor().0,
        models: models.collect::<Result<_>>()?,
    };
    Ok((made, text_of(&written)))
}

/// One document per line, its tokens as numbers.
fn text_of(documents: &[(Vec<u32>, u64)]) -> String {
    let mut text = String::new();
    for (document, copies) in documents {
        let words: Vec<String> = document.iter().map(u32::to_string).collect();
        let line = words.join(" ") + "\n";
        (0..*copies).for_each(|_| text += &line);
    }
    text
}

pub fn theorem1(job: &Job<'_>) -> Result<Reproduced> {
    let seeds = if job.full { 40 } else { 10 };
    let mut about = json!({"full": job.full, "dry_run": job.dry_run, "seed": job.seed, "seeds": seeds, "reached": REACHED});
    let mut text =
        format!("madden2024, Theorem 1: corpora out of reach of three models, {seeds} seeds each\n");
    if job.dry_run {
        for given in cases(job.full) {
            let (n_ctx, k) = given.size()?;
            let n = full_contexts(k.into(), given.d_vocab);
            text += &format!(
                "{}: {} neurons, {k} trained parameters; {n} contexts of length {n_ctx} over {} tokens\n",
                given.title, given.neurons, given.d_vocab
            );
        }
        return Ok(Reproduced::new(text, about, Vec::new()));
    }
    let (mut all, mut files) = (Vec::new(), Vec::new());
    for given in cases(job.full) {
        let (case, corpus) = case(given, seeds, job)?;
        let path = job.out.join(format!("corpus-{}.txt", case.key));
        OutputFile::write(&path, corpus.as_bytes())?;
        files.push(path);
        for ending in ["svg", "png"] {
            let path = job.out.join(format!("theorem1-{}.{ending}", case.key));
            report::write_figure(&path, &case.figure())?;
            files.push(path);
        }
        text += &format!("\n{}\n{}", case.title, table(&case));
        all.push(case);
    }
    let path = job.out.join("theorem1.csv");
    OutputFile::write(&path, csv(&all).as_bytes())?;
    files.push(path);
    files.push(report::write(job.out, &pages::page(&all, job.full, job.command))?);
    about["cases"] = json!(all);
    Ok(Reproduced::new(text, about, files))
}

fn csv(all: &[Case]) -> String {
    let rows = all.iter().flat_map(|case| {
        case.models.iter().flat_map(move |m| {
            m.gaps_nats.iter().zip(0u64..).map(move |(gap, run)| {
                [
                    case.key.to_owned(),
                    m.neurons.to_string(),
                    m.parameters.to_string(),
                    m.dimension.to_string(),
                    format!("{:e}", m.gap_at_least_nats.0),
                    run.to_string(),
                    format!("{gap:e}"),
                ]
            })
        })
    });
    csv_text(["corpus", "neurons", "parameters", "dimension", "gap_at_least_nats", "run", "gap_nats"], rows)
}

fn table(case: &Case) -> String {
    let mut table = TextTable::new(
        &[
            "neurons",
            "parameters",
            "dimension (measured)",
            "gap at least",
            "smallest gap",
            "gap/floor",
            "reached",
        ],
        &[],
    );
    for m in &case.models {
        let given = if m.neurons == case.given_neurons { "* " } else { "" };
        let proved = m.gap_at_least_nats;
        table.row([
            format!("{given}{}", m.neurons),
            m.parameters.to_string(),
            m.dimension.to_string(),
            if proved.0 > 0.0 { format!("{proved:.2}") } else { "-".into() },
            format!("{:.3e}", m.smallest_gap()),
            format!("{:.1e}", m.smallest_gap() / case.floor_nats),
            format!("{} of {}", case.reached(m), m.gaps_nats.len()),
        ]);
    }
    let head = format!(
        "{} documents, {} contexts ({} of length {}; at most {} promised), {} free numbers, floor {:.1} nats; * the given model\n",
        case.documents,
        case.contexts,
        case.full_contexts,
        case.n_ctx,
        case.promised_contexts,
        case.free_numbers,
        case.floor_nats
    );
    head + &table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;

    fn small() -> Given {
        let [given, ..] = cases(false);
        Given { d_vocab: 16, neurons: 2, others: vec![1], ..given }
    }

    #[test]
    fn training_stays_above_the_floor_of_the_promised_corpus_and_one_neuron_more_reaches_it() {
        let folder = tempfile::tempdir().unwrap();
        let job =
            Job { out: folder.path(), full: false, dry_run: false, seed: 0, command: "", observer: &Silent };
        let made = || case(small(), 2, &job).unwrap().0;
        let case = made();
        // k = 2 (16 + 4 + 1) = 42, n' = 42 / 15 + 1 = 3, T = 1, at most 31 * 42 / 225 + 1 = 6 contexts.
        assert_eq!(
            (case.parameters, case.full_contexts, case.contexts, case.promised_contexts),
            (42, 3, 3, 6)
        );
        let widths: Vec<u64> = case.models.iter().map(|m| m.neurons).collect();
        assert_eq!(widths, [1, 2, 3]);
        for model in &case.models[..2] {
            let proved = model.gap_at_least_nats.0;
            assert!(proved > 0.5 && model.gaps_nats.iter().all(|&gap| gap >= proved), "{model:?}");
            assert!(model.dimension < case.free_numbers);
        }
        let enough = &case.models[2];
        assert_eq!((case.reached(enough), enough.dimension), (2, case.free_numbers), "{enough:?}");
        assert_eq!(enough.gap_at_least_nats.0, 0.0);
        // The same on one thread.
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(json!(one.install(made)), json!(case));
    }

    #[test]
    fn the_length_of_a_context_fits_the_parameters_of_its_positions() {
        for full in [false, true] {
            for given in cases(full) {
                let (n_ctx, k) = given.size().unwrap();
                assert_eq!(hard_corpus(k.into(), given.d_vocab).unwrap().n_ctx, n_ctx, "{}", given.key);
            }
        }
        let [feed_forward, all, narrow] = cases(false);
        // m (omega + d + 1) = 8 * 69; with (omega + T) d + 4 d^2 = 65 * 4 + 64; 4 * 7 + 7 * 2 + 16 = 58.
        assert_eq!(feed_forward.size().unwrap(), (1, 552));
        assert_eq!(all.size().unwrap(), (1, 876));
        assert_eq!(narrow.size().unwrap(), (3, 58));
    }
}
