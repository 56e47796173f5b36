//! `byrote predict`: the next-token distribution of a model for a text.

use crate::args::Common;
use crate::exact_network;
use crate::input::CorpusInput;
use crate::ui;
use byrote::any_model::AnyModel;
use byrote::corpus::Reading;
use byrote::dataset::Dataset;
use byrote::predict::{check_context, predict};
use byrote::report::text::{TextTable, shown as escaped};
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote predict run/model.safetensors \"Once upon a\"
  byrote predict run/model.safetensors \"Once upon a\" --builtin 1000    compare with the corpus
  byrote predict run/model.safetensors \"17 3 250\" --ids
  byrote predict gpt2/ --ids 5,3,9 --logits --json                       a directory of Hugging Face";

#[derive(Debug, Args)]
pub struct PredictCommand {
    /// The model: a file (safetensors or GGUF), or a directory of Hugging Face
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// The text whose next token is predicted
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub text: String,
    #[command(flatten)]
    pub corpus: CorpusInput,
    /// Read TEXT as token ids of the model's vocabulary, separated by spaces or commas
    #[arg(long)]
    pub ids: bool,
    /// Show the logits; with --json, those of the whole vocabulary
    #[arg(long)]
    pub logits: bool,
    /// The number of tokens to show
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub top: usize,
}

pub fn run(args: &PredictCommand, common: &Common) -> Result<ExitCode> {
    args.corpus.check([args.model.as_path()], [])?;
    let file = match AnyModel::load(&args.model)? {
        AnyModel::Exact(file) => return exact_network::predict(&file, args, common),
        other => other.one_layer(&args.model, "")?,
    };
    let tokens = tokens(args, &file.reading())?;
    check_context(&file, &tokens).map_err(|error| named(args, error))?;
    let dataset = match args.corpus.spec.is_given() {
        true => {
            let corpus = args.corpus.for_model(&file.reading())?.read(common, true)?;
            Some(Dataset::for_model(&corpus, &file)?)
        }
        false => None,
    };
    let found = predict(&file, &tokens, args.top, dataset.as_ref())?;
    if common.json {
        let mut object = json!(found);
        if args.logits {
            object["logits"] = json!(found.logits);
        }
        ui::print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let optional = [("corpus", dataset.is_some()), ("logit", args.logits)];
    let optional = optional.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name);
    let mut table = TextTable::new(&["next", "model"].into_iter().chain(optional).collect::<Vec<_>>(), &[0]);
    for next in &found.next {
        let mut row = vec![escaped(&next.text), format!("{:.4}%", 100.0 * next.probability)];
        if dataset.is_some() {
            row.push(next.corpus_probability.map_or("-".into(), |p| format!("{:.4}%", 100.0 * p)));
        }
        if args.logits {
            row.push(format!("{:.4}", found.logits[next.token as usize]));
        }
        table.row(row);
    }
    ui::print(&table.render())?;
    if found.corpus_count == Some(0.0) {
        ui::note(common.quiet, "this context does not occur in the corpus");
    }
    Ok(ExitCode::SUCCESS)
}

/// The token ids of TEXT.
pub fn tokens(args: &PredictCommand, reading: &Reading<'_>) -> Result<Vec<u32>> {
    let tokens = reading.tokens(&args.text, args.ids, args.corpus.spec.tokenizer.as_ref());
    tokens.map_err(|error| named(args, error))
}

/// An error about TEXT, under the option that says how it is read.
fn named(args: &PredictCommand, error: Error) -> Error {
    match error {
        Error::Setting { name: "text", message } if args.ids => Error::setting("ids", message),
        other => other,
    }
}
