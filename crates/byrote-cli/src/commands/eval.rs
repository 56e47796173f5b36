//! `byrote eval`: how well a model knows a corpus.

use crate::args::Common;
use crate::exact_network;
use crate::input::CorpusInput;
use crate::progress::Terminal;
use crate::ui;
use byrote::Result;
use byrote::any_model::AnyModel;
use byrote::corpus::Vocabulary;
use byrote::dataset::Dataset;
use byrote::evaluate::{Evaluation, TOLERANCE, check_tolerance, evaluate};
use byrote::model::Model;
use byrote::report::text;
use byrote::units::Nats;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote eval run/model.safetensors                          on the built-in stories
  byrote eval run/model.safetensors names.txt --limit 500
  byrote eval run/model.safetensors --builtin 100 --json";

#[derive(Debug, Args)]
pub struct EvalCommand {
    /// The model: a file (safetensors or GGUF), or a directory of Hugging Face
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub corpus: CorpusInput,
    /// Count a distribution as memorized if its KL divergence is at most this many nats
    #[arg(long, allow_negative_numbers = true, value_name = "NATS", default_value_t = TOLERANCE.0)]
    pub tol: f64,
    /// How many of the worst contexts to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub worst: usize,
}

pub fn run(args: &EvalCommand, common: &Common) -> Result<ExitCode> {
    check_tolerance(Nats(args.tol))?;
    args.corpus.check([args.model.as_path()], [])?;
    let file = match AnyModel::load(&args.model)? {
        AnyModel::Exact(file) => return exact_network::evaluate(&file, args, common),
        other => other.one_layer(&args.model, "")?,
    };
    let corpus = args.corpus.for_model(&file.reading())?.read(common, true)?;
    let dataset = Dataset::for_model(&corpus, &file)?;
    let started = Instant::now();
    let found = evaluate(&file.model, &dataset, Nats(args.tol), args.worst, &Terminal::new(common.quiet))?;
    let seconds = started.elapsed().as_secs_f64();
    let json = || {
        let mut object = as_json(&file.model, &found, &dataset, &file.vocabulary);
        object["method"] = json!("eval");
        object["seed"] = json!(common.seed);
        object["window_sample"] = json!(corpus.window_sample());
        object["seconds"] = json!(seconds);
        object
    };
    ui::show(common, json, || text::evaluation(&args.corpus.spec.title(), &file, &dataset, &found))?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the losses per prediction, in nats and in bits.
pub fn add_per_prediction(object: &mut Value, loss: Nats, floor: Nats, gap: Nats, predictions: u64) {
    for (name, total) in [("loss", loss), ("floor", floor), ("gap", gap)] {
        let each = total.per(predictions);
        object[format!("{name}_nats_per_prediction")] = json!(each);
        object[format!("{name}_bits_per_prediction")] = json!(each.map(Nats::bits));
    }
}

/// The fields that `eval` and `train` share.
pub fn as_json(model: &Model, found: &Evaluation, dataset: &Dataset, vocabulary: &Vocabulary) -> Value {
    // A struct of numbers and lists: it always serialises.
    let mut object = serde_json::to_value(found).unwrap_or(Value::Null);
    object["parameters"] = json!(model.parameters().len());
    object["parameters_by_kind"] = json!(model.config().parameters_by_kind());
    object["relative_gap"] = json!((found.floor_nats.0 > 0.0).then(|| found.gap_nats.0 / found.floor_nats.0));
    add_per_prediction(&mut object, found.loss_nats, found.floor_nats, found.gap_nats, found.predictions);
    if let Some(worst) = object["worst"].as_array_mut() {
        for (row, w) in worst.iter_mut().zip(&found.worst) {
            row["text"] = json!(dataset.text_of(w.context));
            row["tokens"] = json!(dataset.tokens_of(w.context));
            row["next"] = json!(
                dataset
                    .next_of(w.context)
                    .iter()
                    .map(|&(t, n)| json!({"token": t, "text": vocabulary.text(t), "count": n}))
                    .collect::<Vec<_>>()
            );
            row["predicted_text"] = json!(vocabulary.text(w.predicted));
        }
    }
    object
}
