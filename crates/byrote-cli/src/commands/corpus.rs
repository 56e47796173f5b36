//! `byrote corpus`: contexts and floor.

use crate::args::Common;
use crate::input::CorpusInput;
use crate::interrupt;
use crate::progress::Terminal;
use crate::spelling;
use crate::ui::{self, thousands};
use byrote::corpus::builtin::Stories;
use byrote::corpus::{CorpusSpec, Loss, LossReading, Summary};
use byrote::report::text;
use byrote::{Error, Result};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote corpus                                          the built-in stories
  byrote corpus names.txt --tokenizer char --n-ctx 15
  byrote corpus 'books/**/*.jsonl.gz' --field meta.body --max-memory 2G
  byrote corpus tokens.bin --dtype u16 --separator-id 50256 --n-ctx 32
  byrote corpus book.txt --documents file --tokenizer char --contexts windows --n-ctx 256 --loss 1.2
  byrote corpus a.txt --save a.summary; byrote corpus --merge a.summary b.summary
  byrote corpus --random 10000 --d-vocab 50 --lengths 1..8 --labels 10";

#[derive(Debug, Args)]
pub struct CorpusCommand {
    #[command(flatten)]
    pub corpus: CorpusInput,
    /// Print the table of context lengths as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Say what this training loss means: in nats per prediction (per token), one number or a list by position
    #[arg(long, value_name = "NATS", value_parser = loss, allow_negative_numbers = true)]
    pub loss: Option<Loss>,
    /// Write the built-in stories to FILE, one per line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "random", "merge"])]
    pub write: Option<PathBuf>,
}

/// The summary and what was asked for beside it.
#[derive(Serialize)]
struct CorpusJson<'a, S> {
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<&'a LossReading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_sample: Option<S>,
}

/// Reads a loss; the error is the message without the setting's name, which the parser adds.
fn loss(text: &str) -> Result<Loss, String> {
    text.parse().map_err(|error| match error {
        Error::Setting { message, .. } => message,
        other => other.to_string(),
    })
}

pub fn run(args: &CorpusCommand, common: &Common) -> Result<ExitCode> {
    args.corpus.check([], args.write.as_deref().map(|path| ("write", path)))?;
    let written = match &args.write {
        Some(path) => {
            let documents = args.corpus.spec.builtin.unwrap_or(CorpusSpec::BUILTIN_DOCUMENTS);
            interrupt::clean_up_beside(path);
            Some((path, Stories::new(common.seed).save(path, documents, &Terminal::new(common.quiet))?))
        }
        None => None,
    };
    if args.corpus.spec.windows.is_some() && args.corpus.list.is_none() {
        let message = "draws the windows that `list` writes; the figures here are those of all windows";
        return Err(Error::setting("windows", message));
    }
    let corpus = args.corpus.read(common, false)?;
    // The contexts of windows are listed for some of them; the figures are those of all.
    let summary = corpus.whole.as_deref().unwrap_or(&corpus.summary);
    let reading = args.loss.as_ref().map(|loss| LossReading::new(loss, summary)).transpose()?;
    let json = || CorpusJson {
        summary,
        written: written.map(|(path, bytes)| json!({"path": path, "bytes": bytes})),
        loss: reading.as_ref(),
        window_sample: corpus.window_sample(),
    };
    let text = || {
        if args.csv {
            return summary.to_csv();
        }
        let mut text = text::corpus(&args.corpus.spec.title(), summary);
        if let Some(reading) = &reading {
            text += &format!("\n{}", text::loss(reading, summary));
        }
        spelling::of_text(&text)
    };
    ui::show(common, json, text)?;
    if let Some((path, bytes)) = written {
        ui::note(common.quiet, &format!("wrote {} ({} bytes)", path.display(), thousands(bytes)));
    }
    if let Some(hint) = args.corpus.spec.hint(summary) {
        ui::note(common.quiet, &format!("hint: {}", spelling::of_text(&hint)));
    }
    ui::wrote(common, [&args.corpus.save, &args.corpus.list].into_iter().flatten());
    Ok(ExitCode::SUCCESS)
}
