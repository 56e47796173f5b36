//! `byrote certify`: proves that a model memorizes a corpus.

use crate::args::Common;
use crate::input::CorpusInput;
use crate::progress::Terminal;
use crate::ui;
use byrote::Result;
use byrote::any_model::AnyModel;
use byrote::certify::{Verdict, certify};
use byrote::dataset::Dataset;
use byrote::report::{json, text};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build madden2024 --out built.safetensors && byrote certify built.safetensors
  byrote certify run/model.safetensors names.txt --limit 500
  byrote certify run/model.safetensors --builtin 100 --json

The exit code is 0 if every context is proven to be memorized, and 1 if one is refuted or
undecided.";

#[derive(Debug, Args)]
pub struct CertifyCommand {
    /// The model
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub corpus: CorpusInput,
}

pub fn run(args: &CertifyCommand, common: &Common) -> Result<ExitCode> {
    args.corpus.check([args.model.as_path()], [])?;
    let exact = "`byrote eval` runs it without rounding, so its counts are proven";
    let file = AnyModel::load(&args.model)?.one_layer(&args.model, exact)?;
    let corpus = args.corpus.for_model(&file.reading())?.read(common, true)?;
    let dataset = Dataset::for_model(&corpus, &file)?;
    let started = Instant::now();
    let found = certify(&file.model, &dataset, &Terminal::new(common.quiet))?;
    let seconds = started.elapsed().as_secs_f64();
    let json = || {
        let mut object = json::certificate(&file.model, &found, &dataset);
        object["seconds"] = json!(seconds);
        object["window_sample"] = json!(corpus.window_sample());
        object
    };
    ui::show(common, json, || {
        text::certificate(&args.corpus.spec.title(), &file, &dataset, &found, seconds)
    })?;
    Ok(match found.verdict {
        Verdict::Certified => ExitCode::SUCCESS,
        Verdict::Refuted | Verdict::Undecided => ExitCode::from(1),
    })
}
