//! `byrote eval`: how well a model knows a corpus.

use crate::args::Common;
use crate::exact_network;
use crate::input::CorpusInput;
use crate::progress::Terminal;
use crate::ui;
use byrote::Result;
use byrote::any_model::AnyModel;
use byrote::dataset::Dataset;
use byrote::evaluate::{TOLERANCE, check_tolerance, evaluate};
use byrote::report::{json, text};
use byrote::units::Nats;
use clap::Args;
use serde_json::json;
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
        let mut object = json::evaluation(&file.model, &found, &dataset, &file.vocabulary);
        object["method"] = json!("eval");
        object["seed"] = json!(common.seed);
        object["window_sample"] = json!(corpus.window_sample());
        object["seconds"] = json!(seconds);
        object
    };
    ui::show(common, json, || text::evaluation(&args.corpus.spec.title(), &file, &dataset, &found))?;
    Ok(ExitCode::SUCCESS)
}
