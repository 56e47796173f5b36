//! `byrote train`: train towards the floor.

use crate::args::Common;
use crate::input::CorpusInput;
use crate::interrupt;
use crate::paths;
use crate::progress::Terminal;
use crate::spelling;
use crate::ui;
use byrote::any_model::AnyModel;
use byrote::evaluate::{TOLERANCE, check_tolerance, evaluate};
use byrote::memory;
use byrote::model::ModelSpec;
use byrote::output::{Holds, claim};
use byrote::report::{json, text};
use byrote::train::{self, CHECKPOINT_EVERY, RunDirectory, Start, Stop, TrainOptions, TrainSpec};
use byrote::units::{Nats, counted};
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote train                                           512 neurons, the built-in stories
  byrote train names.txt --tokenizer char --n-ctx 15 --limit 500 --out run
  byrote train --builtin 100 --d-mlp 64 --optimizer adam --lr 1e-4 --steps 50000 --out run
  byrote train --preset dana2024 --d-model 32 --n-heads 4 --stop-seconds 60 --out run
  byrote train --builtin 100 --d-mlp 4 --require-floor   exit code 1: four neurons are too few
  byrote train --builtin 1000 --out run --resume         resume an interrupted run";

#[derive(Debug, Args)]
pub struct TrainCommand {
    #[command(flatten)]
    pub corpus: CorpusInput,
    #[command(flatten)]
    pub model: ModelSpec,
    #[command(flatten)]
    pub training: TrainSpec,
    #[command(flatten)]
    pub run: RunArgs,
}

/// How a training begins, and what it writes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Exit with code 1 unless the target gap is reached
    #[arg(long)]
    pub require_floor: bool,
    /// Start from the weights of this model: a file (safetensors or GGUF), or a directory of Hugging Face
    #[arg(long, value_name = "MODEL")]
    pub init: Option<PathBuf>,
    /// Write model.safetensors, init.safetensors, curve.csv and checkpoints here. A directory with an unfinished run, or
    /// with a finished run of other settings, is refused unless --resume is given
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Resume from the checkpoint in --out, if there is one
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Seconds between checkpoints; 0 writes one after every step
    #[arg(long, allow_negative_numbers = true, value_name = "S", default_value_t = CHECKPOINT_EVERY)]
    pub checkpoint_every: f64,
    /// Count a distribution as memorized if its KL divergence is at most this many nats
    #[arg(long, allow_negative_numbers = true, value_name = "NATS", default_value_t = TOLERANCE.0)]
    pub tol: f64,
}

/// The files in a run directory.
const FILES: [&str; 4] = ["model.safetensors", "init.safetensors", "curve.csv", "checkpoint.safetensors"];

impl RunArgs {
    fn check(&self) -> Result<TrainOptions> {
        let options = TrainOptions::default().resume(self.resume).checkpoint_every(self.checkpoint_every);
        options.check()?;
        check_tolerance(Nats(self.tol))?;
        Ok(options)
    }
}

pub fn run(args: &TrainCommand, common: &Common) -> Result<ExitCode> {
    let begun = Instant::now();
    let (settings, limits) = args.training.resolve(common.seed)?;
    // Where blocks would take more than half of the free memory, they are computed again on the way back.
    let memory = args.corpus.spec.max_memory.or(memory::free().map(|free| free / 2));
    let settings = (settings, limits.memory(memory));
    let options = args.run.check()?;
    args.model.check()?;
    let written = args.run.out.as_deref().map(|out| paths::in_directory(out, &FILES)).unwrap_or_default();
    args.corpus.check(args.run.init.as_deref(), written.iter().map(|path| ("out", path.as_path())))?;
    let _claim = args.run.out.as_deref().map(|out| claim(out, Holds::Training)).transpose()?;
    let load = |path: &PathBuf| {
        AnyModel::load(path)?.one_layer(path, "its weights are exact numbers, which cannot be trained")
    };
    let init = args.run.init.as_ref().map(load).transpose()?;
    if init.is_some() && !args.model.is_empty() {
        return Err(Error::setting("init", "already has a shape; leave the model options out"));
    }
    let corpus_args = match &init {
        Some(file) => args.corpus.for_model(&file.reading())?,
        None => args.corpus.clone(),
    };
    let corpus = corpus_args.read(common, true)?;
    let saved = args.run.out.is_some();
    let start = match init {
        Some(file) => Start::Weights(Box::new(file)),
        None => Start::Random(&args.model, common.seed),
    };
    let (dataset, file) = train::start(&corpus, start, &args.training, saved, memory::free())?;
    let directory = args.run.out.as_deref().map(RunDirectory::open).transpose()?;
    if let Some(directory) = &directory {
        interrupt::clean_up_beside(&directory.model());
    }
    let target = settings.1.target(dataset.floor(), dataset.predictions());
    let observer = Terminal::new(common.quiet).toward(target);
    let run = train::run(file, &dataset, settings, directory.as_ref(), options, &observer)?;
    drop(observer);
    if let Some(directory) = directory.as_ref().filter(|_| !common.json) {
        ui::wrote(common, [&directory.model()]);
    }
    // After an interrupt the user does not want to wait for an evaluation.
    let found = match run.stop {
        Stop::Interrupted => None,
        _ => {
            Some(evaluate(&run.result.model, &dataset, Nats(args.run.tol), 10, &Terminal::new(common.quiet))?)
        }
    };
    let json = || {
        let mut object = json::training(&run, found.as_ref(), directory.as_ref());
        object["seed"] = json!(common.seed);
        object["window_sample"] = json!(corpus.window_sample());
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        object
    };
    let text = || {
        let kind = run.result.model.config().shape.blocks.map(|blocks| kind(args, blocks.n_layers));
        let title = format!("{}{}", kind.unwrap_or_default(), args.corpus.spec.title());
        spelling::of_text(&text::training(&title, &run, found.as_ref(), directory.is_some()))
    };
    ui::show(common, json, text)?;
    Ok(match run.stop {
        Stop::Interrupted => ExitCode::from(interrupt::EXIT_CODE),
        stop if args.run.require_floor && stop != Stop::Reached => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

/// The kind of a model of blocks, as a line above its figures: its preset, unless its weights come from a file, and its layers.
fn kind(args: &TrainCommand, n_layers: u64) -> String {
    let preset = match args.run.init {
        Some(_) => String::new(),
        None => format!("{}, ", args.model.preset_or_default()),
    };
    format!("{preset}{}\n", counted(n_layers, "layer"))
}
