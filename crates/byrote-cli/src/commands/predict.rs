//! `byrote predict`: the next-token distribution of a model for a text.

use crate::args::Common;
use crate::exact_network;
use crate::input::CorpusInput;
use crate::ui;
use byrote::any_model::AnyModel;
use byrote::corpus::Reading;
use byrote::dataset::Dataset;
use byrote::model::ModelFile;
use byrote::model::reference::softmax;
use byrote::report::text::{TextTable, shown as escaped};
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
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
    let tokens = context(args, &file)?;
    let logits = file.model.logits(&tokens)?;
    let probabilities: Vec<f64> = softmax(&logits);
    if probabilities.iter().any(|p| !p.is_finite()) {
        return Err(Error::setting("model", "the logits are not finite because the weights are too large"));
    }
    let own = match args.corpus.spec.is_given() {
        true => {
            let corpus = args.corpus.for_model(&file.reading())?.read(common, true)?;
            let dataset = Dataset::for_model(&corpus, &file)?;
            Some(dataset.next_after(&tokens).iter().copied().collect::<BTreeMap<u32, f64>>())
        }
        false => None,
    };
    let mut order: Vec<u32> = (0..probabilities.len() as u32).collect();
    order.sort_by(|&a, &b| probabilities[b as usize].total_cmp(&probabilities[a as usize]).then(a.cmp(&b)));
    // The most likely tokens, then every other token that follows in the corpus.
    let mut shown: Vec<u32> = order.iter().copied().take(args.top).collect();
    if let Some(own) = &own {
        let mut more: Vec<u32> = own.keys().copied().filter(|t| !shown.contains(t)).collect();
        more.sort_by(|a, b| own[b].total_cmp(&own[a]).then(a.cmp(b)));
        shown.extend(more);
    }
    let count: Option<f64> = own.as_ref().map(|own| own.values().sum());
    let share = |token: u32| {
        let (own, count) = (own.as_ref()?, count?);
        (count > 0.0).then(|| own.get(&token).copied().unwrap_or(0.0) / count)
    };
    let text = |token: u32| file.vocabulary.text(token);
    if common.json {
        let next: Vec<_> = shown
            .iter()
            .map(|&t| {
                json!({
                    "token": t,
                    "text": text(t),
                    "probability": probabilities[t as usize],
                    "corpus_probability": share(t),
                })
            })
            .collect();
        let mut object = json!({
            "tokens": tokens,
            "texts": tokens.iter().map(|&t| text(t)).collect::<Vec<_>>(),
            "next": next,
            "corpus_count": count,
        });
        if args.logits {
            object["logits"] = json!(logits);
        }
        ui::print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let optional = [("corpus", own.is_some()), ("logit", args.logits)];
    let optional = optional.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name);
    let mut table = TextTable::new(&["next", "model"].into_iter().chain(optional).collect::<Vec<_>>(), &[0]);
    for &t in &shown {
        let mut row = vec![escaped(&text(t)), format!("{:.4}%", 100.0 * probabilities[t as usize])];
        if own.is_some() {
            row.push(share(t).map_or("-".into(), |p| format!("{:.4}%", 100.0 * p)));
        }
        if args.logits {
            row.push(format!("{:.4}", logits[t as usize]));
        }
        table.row(row);
    }
    ui::print(&table.render())?;
    if count == Some(0.0) {
        ui::note(common.quiet, "this context does not occur in the corpus");
    }
    Ok(ExitCode::SUCCESS)
}

/// The token ids of TEXT, if the model can read them.
fn context(args: &PredictCommand, file: &ModelFile) -> Result<Vec<u32>> {
    let tokens = tokens(args, &file.reading())?;
    let n_ctx = file.model.config().shape.n_ctx;
    if tokens.is_empty() {
        return Err(Error::setting("text", "contains no token"));
    }
    if tokens.len() as u64 > n_ctx {
        let message = format!("{} tokens, but this model reads at most {n_ctx}", tokens.len());
        return Err(Error::setting("text", message));
    }
    Ok(tokens)
}

/// The token ids of TEXT.
pub fn tokens(args: &PredictCommand, reading: &Reading<'_>) -> Result<Vec<u32>> {
    reading.tokens(&args.text, args.ids, args.corpus.spec.tokenizer.as_ref())
}
