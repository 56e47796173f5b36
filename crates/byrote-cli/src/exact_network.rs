//! `eval` and `predict` for exact networks (kajitsuka2024).

use crate::args::Common;
use crate::commands::eval::EvalCommand;
use crate::commands::predict;
use crate::commands::predict::PredictCommand;
use crate::progress::Terminal;
use crate::ui;
use byrote::construct::kajitsuka2024::{self as exact, Answer, ExactFile, Goal, Labels};
use byrote::dataset::Dataset;
use byrote::report::json;
use byrote::report::text::{self, TextTable, shown};
use byrote::units::Nats;
use byrote::{Error, Result};
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

/// `byrote predict`.
pub fn predict(file: &ExactFile, args: &PredictCommand, common: &Common) -> Result<ExitCode> {
    if args.corpus.spec.is_given() {
        let message = "exact networks are compared with a corpus by `byrote eval` only";
        return Err(Error::setting("paths", message));
    }
    if args.logits {
        return Err(Error::setting("logits", "an exact network answers with a label and has no logits"));
    }
    let tokens = predict::tokens(args, &file.reading())?;
    if tokens.is_empty() {
        return Err(Error::setting("text", "contains no token"));
    }
    let answers = file.answers(&tokens).map_err(|e| match e {
        Error::Setting { name: "tokens", message } => Error::setting("text", message),
        other => other,
    })?;
    let token_text = |token: u32| file.vocabulary.text(token);
    if common.json {
        ui::print_json(&json::exact_prediction(file, &tokens, &answers))?;
    } else {
        let mut table = TextTable::new(&["after", "answer"], &[0, 1]);
        for (p, answer) in &answers {
            let said = match answer {
                Answer::Label(label) => shown(&file.label_text(*label)),
                Answer::Nonsense(_) => "- (not a label: the network has not memorized this context)".into(),
                Answer::UnknownLength => "- (the network has memorized no context of this length)".into(),
            };
            table.row([shown(&token_text(tokens[*p])), said]);
        }
        ui::print(&table.render())?;
        ui::note(
            common.quiet,
            "an exact network answers correctly only for contexts it has memorized; other answers mean nothing",
        );
    }
    let known = answers.iter().all(|(_, a)| a.label().is_some());
    Ok(ExitCode::from(u8::from(!known)))
}

/// `byrote eval`.
pub fn evaluate(file: &ExactFile, args: &EvalCommand, common: &Common) -> Result<ExitCode> {
    let started = Instant::now();
    let (found, floor) = match &file.labels {
        Labels::Tokens(_) if file.model.task.goal == Goal::Next => {
            let corpus = args.corpus.for_model(&file.reading())?.read(common, true)?;
            let dataset = Dataset::from_corpus(&corpus)?.in_vocabulary(&file.vocabulary)?;
            (exact::evaluate(file, &dataset, &Terminal::new(common.quiet))?, corpus.summary.floor_nats)
        }
        _ => (on_labelled(args, common, file)?, Nats(0.0)),
    };
    let seconds = started.elapsed().as_secs_f64();
    let json = || {
        let mut object = json::exact_evaluation(file, &found, floor);
        object["method"] = json!("eval");
        object["seed"] = json!(common.seed);
        object["seconds"] = json!(seconds);
        object
    };
    ui::show(common, json, || text::exact_evaluation(&args.corpus.spec.title(), file, &found))?;
    Ok(ExitCode::SUCCESS)
}

/// Evaluates a network on labelled sequences.
fn on_labelled(args: &EvalCommand, common: &Common, file: &ExactFile) -> Result<exact::ExactEvaluation> {
    let data = file.labelled(&args.corpus.seeded(common))?;
    exact::evaluate_labelled(file, &data, &Terminal::new(common.quiet)).map_err(|e| {
        match (e, args.corpus.spec.paths.first()) {
            (Error::Setting { name: "tokens", message }, Some(path)) => Error::format(path, message),
            (Error::Setting { name: "tokens", message }, None) => Error::setting("random", message),
            (other, _) => other,
        }
    })
}
