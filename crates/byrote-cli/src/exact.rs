//! `show`, `eval` and `predict` for exact networks (kajitsuka2024).

use crate::args::Common;
use crate::commands::eval::EvalCommand;
use crate::commands::predict::PredictCommand;
use crate::commands::{eval, predict};
use crate::ui::{self, Table, thousands};
use byrote::construct::kajitsuka2024::corpus_task::{from_problem, random_positions};
use byrote::construct::kajitsuka2024::{
    Answer, Attention, Built, ExactFile, Goal, Labelled, Labels, Model, Network, Settings, Switches, Tally,
    build, pairs,
};
use byrote::corpus::{Corpus, Source};
use byrote::lab::corpora::Material;
use byrote::observe::Observer;
use byrote::{Error, Result};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Parameters, depth and bits of a network, as JSON fields.
pub fn counts(model: &Model) -> Value {
    let (tally, embedding) = (model.network.tally(), model.network.embedding());
    let mut parts = serde_json::Map::new();
    parts.insert("embedding".into(), json!(embedding.parameters));
    for (part, tally) in model.network.tallies() {
        parts.insert(part.name().into(), json!(tally.parameters));
    }
    let kind = |names: &[&str]| -> u64 {
        parts.iter().filter(|(name, _)| names.contains(&name.as_str())).filter_map(|(_, n)| n.as_u64()).sum()
    };
    json!({
        "parameters": tally.parameters + embedding.parameters,
        "parameters_by_kind": {
            "embedding": model.network.tokens.len(),
            "position": model.network.positions.len(),
            "attention": kind(&["attention"]),
            "hidden": kind(&["square", "reduce", "lookup", "scan", "shift", "digit"]),
            "output": kind(&["head"]),
        },
        "parameters_by_part": parts,
        "depth": tally.depth,
        "width": model.network.width(),
        "channels": model.network.channels(),
        "distinct_weights": model.network.distinct_weights(),
        "largest_weight_bits": tally.largest_bits.max(embedding.largest_bits),
        "total_bits": tally.fixed_bits + embedding.fixed_bits,
        "total_bits_as_powers_of_two": tally.float_bits + embedding.float_bits,
    })
}

/// The stages of a network as a table.
pub fn parts(network: &Network) -> Table {
    let heads = ["stage", "parameters", "layers", "bits", "longest weight (bits)"];
    let mut table = Table::new(&heads, &[0]);
    let mut row = |name: &str, tally: Tally| {
        table.row(
            [name.to_owned()]
                .into_iter()
                .chain(
                    [tally.parameters, tally.depth, tally.fixed_bits, tally.largest_bits]
                        .map(|n| thousands(n as u64)),
                )
                .collect(),
        );
    };
    row("embedding", network.embedding());
    for (part, tally) in network.tallies() {
        row(part.name(), tally);
    }
    table
}

/// `byrote show`.
pub fn show(path: &Path, common: &Common) -> Result<ExitCode> {
    let file = ExactFile::load(path)?;
    let (task, network) = (&file.model.task, &file.model.network);
    if common.json {
        let mut object = counts(&file.model);
        object["method"] = json!("kajitsuka2024");
        object["memory"] = json!(file.model.method.name());
        object["task"] = json!(task);
        object["tokenizer"] = json!(file.tokenizer);
        object["d_vocab"] = json!(file.vocabulary.len());
        object["labels"] = json!((0..task.labels).map(|y| label_text(&file, y)).collect::<Vec<_>>());
        let stages = network.stages.iter().map(|s| {
            let parameters: usize = s.layers.iter().map(|l| l.parameters()).sum();
            json!({"part": s.part, "times": s.times, "layers": s.layers.len(), "parameters": parameters})
        });
        object["stages"] = json!(stages.collect::<Vec<_>>());
        ui::print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (tally, embedding) = (network.tally(), network.embedding());
    let mut table = Table::new(&["model", &format!("kajitsuka2024, {}", file.model.method.name())], &[0, 1]);
    let padded = if task.padded { ", padded" } else { "" };
    let several = |n: u64, one: &str| format!("{} {one}{}", thousands(n), if n == 1 { "" } else { "s" });
    let rows = [
        (
            "parameters",
            format!(
                "{} and {} of the embedding; {} different numbers",
                thousands(tally.parameters as u64),
                thousands(embedding.parameters as u64),
                thousands(network.distinct_weights() as u64)
            ),
        ),
        (
            "task",
            match task.goal {
                Goal::Next => format!("one label a context, {}{padded}", attention(task.attention)),
                Goal::EveryPosition => format!("one label a position, {}{padded}", attention(task.attention)),
            },
        ),
        ("tokenizer", file.tokenizer.clone()),
        ("vocabulary", several(task.d_vocab.into(), "token")),
        ("labels", format!("{}: {}", thousands(task.labels), some_labels(&file))),
        ("longest context", thousands(task.n_ctx)),
        ("layers", format!("{}, run one after the other", thousands(tally.depth as u64))),
        ("neurons a layer", format!("at most {}", network.width())),
        ("channels", network.channels().to_string()),
        ("longest weight", several(tally.largest_bits as u64, "bit")),
    ];
    for (name, value) in rows {
        table.row(vec![name.into(), value]);
    }
    let mut out = table.render();
    let _ = write!(out, "\n{}", parts(network).render());
    ui::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn attention(attention: Attention) -> &'static str {
    match attention {
        Attention::Causal => "causal",
        Attention::Bidirectional => "bidirectional",
    }
}

fn label_text(file: &ExactFile, label: u32) -> String {
    file.labels.text(label, &file.vocabulary)
}

fn some_labels(file: &ExactFile) -> String {
    let n = file.model.task.labels;
    let few: Vec<String> = (0..n.min(8)).map(|y| ui::shown(&label_text(file, y))).collect();
    format!("{}{}", few.join(" "), if n > 8 { " ..." } else { "" })
}

/// `byrote predict`.
pub fn predict(args: &PredictCommand, common: &Common) -> Result<ExitCode> {
    let file = ExactFile::load(&args.model)?;
    if args.corpus.is_given() {
        let message = "beside a corpus only `byrote eval` compares exact networks";
        return Err(Error::setting("paths", message));
    }
    let tokens = predict::tokens(args, &file.tokenizer, &file.vocabulary)?;
    if tokens.is_empty() {
        return Err(Error::setting("text", "holds no token"));
    }
    let ready = file.model.ready();
    let positions: Vec<usize> = match file.model.task.goal {
        Goal::Next => vec![tokens.len() - 1],
        Goal::EveryPosition => (0..tokens.len()).collect(),
    };
    let answers =
        positions.iter().map(|&p| ready.answer(&tokens, Some(p))).collect::<Result<Vec<Answer>>>().map_err(
            |e| match e {
                Error::Setting { name: "tokens", message } => Error::setting("text", message),
                other => other,
            },
        )?;
    let text = |token: u32| file.vocabulary.text(token);
    if common.json {
        let next: Vec<Value> = positions
            .iter()
            .zip(&answers)
            .map(|(p, answer)| {
                json!({
                    "position": p,
                    "label": answer.label(),
                    "text": answer.label().map(|y| label_text(&file, y)),
                    "token": answer.label().and_then(|y| file.labels.token(y)),
                    "answer": match answer {
                        Answer::Label(_) => "label",
                        Answer::Nonsense(_) => "nonsense",
                        Answer::UnknownLength => "unknown length",
                    },
                })
            })
            .collect();
        let texts: Vec<String> = tokens.iter().map(|&t| text(t)).collect();
        ui::print_json(&json!({"tokens": tokens, "texts": texts, "next": next}))?;
    } else {
        let mut table = Table::new(&["after", "answer"], &[0, 1]);
        for (&p, answer) in positions.iter().zip(&answers) {
            let said = match answer {
                Answer::Label(label) => ui::shown(&label_text(&file, *label)),
                Answer::Nonsense(_) => "- (no label: this context was never learnt)".into(),
                Answer::UnknownLength => "- (no context of this length was learnt)".into(),
            };
            table.row(vec![ui::shown(&text(tokens[p])), said]);
        }
        ui::print(&table.render())?;
        ui::note(
            common.quiet,
            "an exact network answers what it has learnt; to other contexts it says anything",
        );
    }
    let known = answers.iter().all(|a| a.label().is_some());
    Ok(ExitCode::from(u8::from(!known)))
}

/// What an evaluation counts.
#[derive(Default, Clone, Copy)]
struct Found {
    contexts: u64,
    predictions: u64,
    /// The answer is a most frequent next token.
    memorized: u64,
    /// It is the only one.
    certain: u64,
    /// Predictions that are right.
    right: u64,
    /// Contexts that get no label at all.
    no_label: u64,
}

impl Found {
    fn join(self, other: Self) -> Self {
        Self {
            contexts: self.contexts + other.contexts,
            predictions: self.predictions + other.predictions,
            memorized: self.memorized + other.memorized,
            certain: self.certain + other.certain,
            right: self.right + other.right,
            no_label: self.no_label + other.no_label,
        }
    }
}

/// `byrote eval`.
pub fn evaluate(args: &EvalCommand, common: &Common) -> Result<ExitCode> {
    let file = ExactFile::load(&args.model)?;
    let started = Instant::now();
    let (found, floor) = match &file.labels {
        Labels::Tokens(_) if file.model.task.goal == Goal::Next => {
            let n_ctx = u64::from(file.model.task.n_ctx);
            let typed = eval::as_read_with(&args.corpus, &file.tokenizer, &file.vocabulary, n_ctx)?;
            let corpus = typed.read(common, true)?;
            (on_corpus(&file, &corpus)?, corpus.summary.floor_nats.0)
        }
        _ => (on_pairs(&labelled(args, common, &file)?, args, &file)?, 0.0),
    };
    let seconds = started.elapsed().as_secs_f64();
    let all = found.certain == found.contexts;
    let zero = |yes: bool| if yes { json!(0.0) } else { Value::Null };
    if common.json {
        let mut object = counts(&file.model);
        object["method"] = json!("eval");
        object["seed"] = json!(common.seed);
        object["contexts"] = json!(found.contexts);
        object["predictions"] = json!(found.predictions);
        object["memorized"] = json!(found.memorized);
        object["memorized_distribution"] = json!(found.certain);
        object["accuracy"] = json!(found.memorized as f64 / found.contexts.max(1) as f64);
        object["prediction_accuracy"] = json!(found.right as f64 / found.predictions.max(1) as f64);
        object["without_label"] = json!(found.no_label);
        object["floor_nats"] = json!(floor);
        for name in ["loss_nats", "gap_nats", "max_kl_nats"] {
            object[name] = zero(all);
        }
        object["seconds"] = json!(seconds);
        ui::print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let share = |n: u64, of: u64| format!("{:.2}%", 100.0 * n as f64 / of.max(1) as f64);
    let parameters = thousands(file.model.network.tally().parameters as u64);
    let mut out = format!("{}: an exact network of {parameters} parameters\n\n", args.corpus.title());
    let mut table = Table::new(&["contexts", &thousands(found.contexts), ""], &[0, 2]);
    let rows = [
        (
            "memorized",
            found.memorized,
            format!("{}: a most frequent label", share(found.memorized, found.contexts)),
        ),
        ("certain", found.certain, "of these have no other".into()),
        ("without label", found.no_label, "the network gives no label".into()),
        ("right", found.right, format!("predictions, {}", share(found.right, found.predictions))),
    ];
    for (name, value, note) in rows {
        table.row(vec![name.into(), thousands(value), note]);
    }
    out += &table.render();
    ui::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn on_corpus(file: &ExactFile, corpus: &Corpus) -> Result<Found> {
    let problem = eval::problem_in(&file.vocabulary, corpus)?;
    let ready = file.model.ready();
    let one = |i: usize| -> Result<Found> {
        let answer = ready.answer(&problem.tokens_of(i), None)?.label().and_then(|y| file.labels.token(y));
        let next = problem.next_of(i);
        let most = next.iter().fold(0.0f64, |m, n| m.max(n.1));
        let own = next.iter().find(|n| Some(n.0) == answer).map_or(0.0, |n| n.1);
        Ok(Found {
            contexts: 1,
            predictions: next.iter().map(|n| n.1).sum::<f64>() as u64,
            memorized: (own == most).into(),
            certain: (own == most && next.len() == 1).into(),
            right: own as u64,
            no_label: answer.is_none().into(),
        })
    };
    (0..problem.len()).into_par_iter().map(one).try_reduce(Found::default, |a, b| Ok(a.join(b)))
}

/// The labelled sequences that a network is to be asked: those of a file, or random ones with a label a position.
fn labelled(args: &EvalCommand, common: &Common, file: &ExactFile) -> Result<Labelled> {
    let task = &file.model.task;
    let switches = Switches { goal: task.goal, attention: task.attention, padded: false };
    if let (Labels::Tokens(_), Some(_)) = (&file.labels, args.corpus.random)
        && let Source::Random(associations) = args.corpus.source(common)?
    {
        return random_positions(&associations, common.seed, switches);
    }
    let [path] = &args.corpus.paths[..] else {
        let message = "this network was built from labelled sequences: name one file of them, .jsonl or .tsv";
        return Err(Error::setting("paths", message));
    };
    let choice = match file.tokenizer.as_str() {
        "ids" => Default::default(),
        name => args.corpus.tokenizer.clone().or_else(|| name.parse().ok()).unwrap_or_default(),
    };
    pairs::read(path, switches, &choice)
}

/// Labelled sequences in the words of the model.
fn on_pairs(data: &Labelled, args: &EvalCommand, file: &ExactFile) -> Result<Found> {
    let ids = data.vocabulary.ids_in(&file.vocabulary).map_err(|token| {
        let message = format!("the model has never seen the token {:?}", data.vocabulary.text(token));
        match args.corpus.paths.first() {
            Some(path) => Error::format(path, message),
            None => Error::setting("random", message),
        }
    })?;
    let ready = file.model.ready();
    let one = |sample: &byrote::construct::kajitsuka2024::task::Sample| -> Result<Found> {
        let tokens: Vec<u32> = data.samples.visible(sample).iter().map(|&t| ids[t as usize]).collect();
        let answer = ready.answer(&tokens, Some(sample.read as usize))?.label();
        let wanted = data.labels.text(sample.label, &data.vocabulary);
        let right = u64::from(answer.is_some_and(|y| label_text(file, y) == wanted));
        let no_label = u64::from(answer.is_none());
        Ok(Found { contexts: 1, predictions: 1, memorized: right, certain: right, right, no_label })
    };
    data.samples.list().par_iter().map(one).try_reduce(Found::default, |a, b| Ok(a.join(b)))
}

/// The network of the most frequent next tokens of a corpus, verified, and its parameters with the embedding.
pub fn of_material(part: &Material, seed: u64, observer: &dyn Observer) -> Result<(Built, u64)> {
    let switches = Switches { goal: Goal::Next, attention: Attention::Causal, padded: false };
    let task = from_problem(&part.problem, part.d_vocab as usize, switches)?;
    let built = build(&task.samples, &Settings { seed, ..Settings::default() }, observer)?;
    let network = &built.model.network;
    let parameters = (network.tally().parameters + network.embedding().parameters) as u64;
    Ok((built, parameters))
}
