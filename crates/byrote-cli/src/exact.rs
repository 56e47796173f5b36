//! `show`, `eval` and `predict` for exact networks (kajitsuka2024).

use crate::args::Common;
use crate::commands::eval::EvalCommand;
use crate::commands::predict::PredictCommand;
use crate::commands::{eval, predict};
use crate::ui::{self, Table, thousands};
use byrote::construct::kajitsuka2024::corpus_task::random_positions;
use byrote::construct::kajitsuka2024::evaluate as exact;
use byrote::construct::kajitsuka2024::{
    Answer, Attention, ExactFile, Goal, Labelled, Labels, Network, Switches, Tally, pairs,
};
use byrote::corpus::Source;
use byrote::dataset::Dataset;
use byrote::model::{Counting, ParameterCount};
use byrote::{Error, Result};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// The stages of a network as a table.
pub fn parts(network: &Network) -> Table {
    let heads = ["stage", "non-zero", "dense", "layers", "bits", "longest weight (bits)"];
    let mut table = Table::new(&heads, &[0]);
    let mut row = |name: &str, tally: Tally| {
        table.row(
            [name.to_owned()]
                .into_iter()
                .chain(
                    [tally.nonzero, tally.dense, tally.depth, tally.fixed_bits, tally.largest_bits]
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
        let mut object = json!(file.size());
        object["method"] = json!("kajitsuka2024");
        object["memory"] = json!(file.model.method.name());
        object["task"] = json!(task);
        object["tokenizer"] = json!(file.tokenizer);
        object["d_vocab"] = json!(file.vocabulary.len());
        object["labels"] = json!((0..task.labels).map(|y| file.label_text(y)).collect::<Vec<_>>());
        let stages = network.stages.iter().map(|s| {
            let parameters: usize = s.layers.iter().map(|l| l.nonzero()).sum();
            let dense: usize = s.layers.iter().map(|l| l.dense(network.channels())).sum();
            json!({
                "part": s.part,
                "times": s.times,
                "layers": s.layers.len(),
                "parameters": parameters,
                "parameters_dense": dense,
            })
        });
        object["stages"] = json!(stages.collect::<Vec<_>>());
        ui::print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (tally, count) = (network.tally(), file.parameters());
    let mut table = Table::new(&["model", &format!("kajitsuka2024, {}", file.model.method.name())], &[0, 1]);
    let padded = if task.padded { ", padded" } else { "" };
    let several = |n: u64, one: &str| format!("{} {one}{}", thousands(n), if n == 1 { "" } else { "s" });
    let rows = [
        ("parameters", parameters_text(&count)),
        ("distinct weights", thousands(network.distinct_weights() as u64)),
        (
            "task",
            match task.goal {
                Goal::Next => format!("one label per context, {}{padded}", attention(task.attention)),
                Goal::EveryPosition => {
                    format!("one label per position, {}{padded}", attention(task.attention))
                }
            },
        ),
        ("tokenizer", file.tokenizer.clone()),
        ("vocabulary", several(task.d_vocab.into(), "token")),
        ("labels", format!("{}: {}", thousands(task.labels), some_labels(&file))),
        ("longest context", thousands(task.n_ctx)),
        ("layers", format!("{}, run in sequence", thousands(tally.depth as u64))),
        ("neurons per layer", format!("at most {}", network.width())),
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

/// Both counts of the parameters, with what they consist of.
pub fn parameters_text(count: &ParameterCount) -> String {
    let [nonzero, dense] = Counting::ALL.map(|c| grouped(count.total(c)));
    let table = match count.label_table {
        0 => String::new(),
        entries => format!(" and {} of the label table", grouped(entries)),
    };
    format!(
        "{nonzero} non-zero, {dense} dense; each with {} of the embedding{table}",
        grouped(count.embedding)
    )
}

/// A count with its digits in groups of three.
pub fn grouped(count: u128) -> String {
    thousands(u64::try_from(count).unwrap_or(u64::MAX))
}

fn some_labels(file: &ExactFile) -> String {
    let n = file.model.task.labels;
    let few: Vec<String> = (0..n.min(8)).map(|y| ui::shown(&file.label_text(y))).collect();
    format!("{}{}", few.join(" "), if n > 8 { " ..." } else { "" })
}

/// `byrote predict`.
pub fn predict(args: &PredictCommand, common: &Common) -> Result<ExitCode> {
    let file = ExactFile::load(&args.model)?;
    if args.corpus.spec.is_given() {
        let message = "beside a corpus only `byrote eval` compares exact networks";
        return Err(Error::setting("paths", message));
    }
    let tokens = predict::tokens(args, &file.tokenizer, &file.vocabulary)?;
    if tokens.is_empty() {
        return Err(Error::setting("text", "holds no token"));
    }
    let answers = file.answers(&tokens).map_err(|e| match e {
        Error::Setting { name: "tokens", message } => Error::setting("text", message),
        other => other,
    })?;
    let text = |token: u32| file.vocabulary.text(token);
    if common.json {
        let next: Vec<Value> = answers
            .iter()
            .map(|(p, answer)| {
                json!({
                    "position": p,
                    "label": answer.label(),
                    "text": answer.label().map(|y| file.label_text(y)),
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
        for (p, answer) in &answers {
            let said = match answer {
                Answer::Label(label) => ui::shown(&file.label_text(*label)),
                Answer::Nonsense(_) => "- (not a label: the network has not memorized this context)".into(),
                Answer::UnknownLength => "- (the network has memorized no context of this length)".into(),
            };
            table.row(vec![ui::shown(&text(tokens[*p])), said]);
        }
        ui::print(&table.render())?;
        ui::note(
            common.quiet,
            "an exact network is only right about the contexts it has memorized; for others its answer means nothing",
        );
    }
    let known = answers.iter().all(|(_, a)| a.label().is_some());
    Ok(ExitCode::from(u8::from(!known)))
}

/// `byrote eval`.
pub fn evaluate(args: &EvalCommand, common: &Common) -> Result<ExitCode> {
    args.corpus.check([args.model.as_path()], [])?;
    let file = ExactFile::load(&args.model)?;
    let started = Instant::now();
    let (found, floor) = match &file.labels {
        Labels::Tokens(_) if file.model.task.goal == Goal::Next => {
            let n_ctx = u64::from(file.model.task.n_ctx);
            let typed = eval::as_read_with(&args.corpus, &file.tokenizer, &file.vocabulary, n_ctx)?;
            let corpus = typed.read(common, true)?;
            let problem = Dataset::from_corpus(&corpus)?.in_vocabulary(&file.vocabulary)?;
            (exact::evaluate(&file, &problem)?, corpus.summary.floor_nats.0)
        }
        _ => (on_labelled(args, common, &file)?, 0.0),
    };
    let seconds = started.elapsed().as_secs_f64();
    if common.json {
        let mut object = json!(file.size());
        object["method"] = json!("eval");
        object["seed"] = json!(common.seed);
        object["contexts"] = json!(found.contexts);
        object["predictions"] = json!(found.predictions);
        object["memorized"] = json!(found.memorized);
        object["memorized_distribution"] = json!(found.certain);
        object["accuracy"] = json!(found.accuracy());
        object["prediction_accuracy"] = json!(found.prediction_accuracy());
        object["without_label"] = json!(found.without_label);
        object["floor_nats"] = json!(floor);
        for name in ["loss_nats", "gap_nats", "max_kl_nats"] {
            object[name] = json!(found.loss_nats());
        }
        object["seconds"] = json!(seconds);
        ui::print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let share = |n: u64, of: u64| format!("{:.2}%", 100.0 * n as f64 / of.max(1) as f64);
    let mut out = format!(
        "{}: an exact network of {}\n\n",
        args.corpus.spec.title(),
        parameters_text(&file.parameters())
    );
    let mut table = Table::new(&["contexts", &thousands(found.contexts), ""], &[0, 2]);
    let rows = [
        (
            "memorized",
            found.memorized,
            format!("{}: a most frequent label", share(found.memorized, found.contexts)),
        ),
        ("certain", found.certain, "of these have only this one".into()),
        ("without label", found.without_label, "the network gives no label".into()),
        ("right", found.right, format!("predictions, {}", share(found.right, found.predictions))),
    ];
    for (name, value, note) in rows {
        table.row(vec![name.into(), thousands(value), note]);
    }
    out += &table.render();
    ui::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// Evaluates a network on labelled sequences.
fn on_labelled(args: &EvalCommand, common: &Common, file: &ExactFile) -> Result<exact::ExactEvaluation> {
    let data = labelled(args, common, file)?;
    exact::evaluate_labelled(file, &data).map_err(|e| match (e, args.corpus.spec.paths.first()) {
        (Error::Setting { name: "tokens", message }, Some(path)) => Error::format(path, message),
        (Error::Setting { name: "tokens", message }, None) => Error::setting("random", message),
        (other, _) => other,
    })
}

/// The labelled sequences to evaluate on: those of a file, or random ones with one label per position.
fn labelled(args: &EvalCommand, common: &Common, file: &ExactFile) -> Result<Labelled> {
    let task = &file.model.task;
    let switches = Switches { goal: task.goal, attention: task.attention, padded: false };
    if let (Labels::Tokens(_), Some(_)) = (&file.labels, args.corpus.spec.random)
        && let Source::Random(associations) = args.corpus.seeded(common).resolve()?.0
    {
        return random_positions(&associations, common.seed, switches);
    }
    let [path] = &args.corpus.spec.paths[..] else {
        let message = "this network was built from labelled sequences: name one file of them, .jsonl or .tsv";
        return Err(Error::setting("paths", message));
    };
    let choice = match file.tokenizer.as_str() {
        "ids" => Default::default(),
        name => args.corpus.spec.tokenizer.clone().or_else(|| name.parse().ok()).unwrap_or_default(),
    };
    pairs::read(path, switches, &choice)
}
