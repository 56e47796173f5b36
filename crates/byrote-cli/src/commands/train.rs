//! `byrote train`: train towards the floor.

use crate::args::Common;
use crate::commands::eval;
use crate::input::CorpusInput;
use crate::interrupt;
use crate::memory;
use crate::model_kind::ModelKind;
use crate::progress::Terminal;
use crate::ui::{self, Table, thousands, thousands_f64};
use byrote::corpus::Corpus;
use byrote::dataset::Dataset;
use byrote::evaluate::{Evaluation, evaluate};
use byrote::model::{Config, Model, ModelFile, ModelSpec, Precision};
use byrote::output::OutputFile;
use byrote::train::{Checkpoint, Method, Saver, Settings, Stop, TrainSpec, Trainer};
use byrote::units::Nats;
use byrote::{Error, Result};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote train                                           512 neurons on the built-in stories, to 1% of the floor
  byrote train names.txt --tokenizer char --n-ctx 15 --limit 500 --out run
  byrote train --builtin 100 --d-mlp 64 --optimizer adam --lr 1e-4 --steps 50000 --out run
  byrote train --preset dana2024 --d-model 32 --n-heads 4 --stop-seconds 60 --out run
  byrote train --builtin 100 --d-mlp 4 --require-floor   exit code 1: four neurons are too few
  byrote train --builtin 1000 --out run --resume         go on where it was interrupted";

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
    /// Start from the weights of this model
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// Write model.safetensors, init.safetensors, curve.csv and checkpoints here
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Resume from the checkpoint in --out, if there is one
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Seconds between checkpoints; 0 writes one after every step
    #[arg(long, allow_negative_numbers = true, value_name = "S", default_value_t = 30.0)]
    pub checkpoint_every: f64,
    /// Count a distribution as memorized if its KL divergence is at most this many nats
    #[arg(long, allow_negative_numbers = true, value_name = "NATS", default_value_t = 1e-3)]
    pub tol: f64,
}

impl RunArgs {
    fn check(&self) -> Result<()> {
        if self.checkpoint_every.is_nan() || self.checkpoint_every < 0.0 {
            let message = format!("must be at least 0 seconds (got {})", self.checkpoint_every);
            return Err(Error::setting("checkpoint_every", message));
        }
        if self.tol.is_nan() || self.tol < 0.0 {
            return Err(Error::setting("tol", format!("must be at least 0 nats (got {})", self.tol)));
        }
        Ok(())
    }
}

/// The files of a run.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn create(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "create", e))?;
        let files = Self { directory: directory.to_path_buf() };
        interrupt::clean_up_beside(&files.model());
        Ok(files)
    }

    fn model(&self) -> PathBuf {
        self.directory.join("model.safetensors")
    }

    fn init(&self) -> PathBuf {
        self.directory.join("init.safetensors")
    }

    fn curve(&self) -> PathBuf {
        self.directory.join("curve.csv")
    }

    fn checkpoint(&self) -> PathBuf {
        self.directory.join("checkpoint.safetensors")
    }
}

pub fn run(args: &TrainCommand, common: &Common) -> Result<ExitCode> {
    let begun = Instant::now();
    let training = &args.run;
    let (settings, limits) = args.training.resolve(common.seed)?;
    training.check()?;
    args.model.check()?;
    args.corpus.check(training.init.as_deref(), [])?;
    if let Some(path) = &training.init {
        ModelKind::expect_tensors(path, "it is made of whole numbers and cannot be trained")?;
    }
    let init = training.init.as_deref().map(ModelFile::load).transpose()?;
    if init.is_some() && !args.model.is_empty() {
        return Err(Error::setting("init", "has a model of its own; leave the model options out"));
    }
    let corpus_args = match &init {
        Some(file) => eval::as_the_model_reads(&args.corpus, file)?,
        None => args.corpus.clone(),
    };
    let corpus = corpus_args.read(common, true)?;
    let (problem, file) = start(args, common, &corpus, init, settings.precision)?;
    let files = training.out.as_deref().map(Files::create).transpose()?;

    let saved = match &files {
        Some(files) if training.resume && files.checkpoint().exists() => {
            Some(Checkpoint::load(&files.checkpoint())?)
        }
        _ => None,
    };
    let resumed = saved.as_ref().map(|c| c.progress.step);
    let mut trainer = match saved {
        Some(checkpoint) => Trainer::resume(checkpoint, &file.model, &problem, settings, limits)?,
        None => {
            if let Some(files) = &files {
                // A checkpoint of another run must not be taken for one of this.
                match std::fs::remove_file(files.checkpoint()) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                        return Err(Error::io(files.checkpoint(), "remove", e));
                    }
                    _ => {}
                }
                file.save(&files.init())?;
            }
            Trainer::new(&file.model, &problem, settings, limits)?
        }
    };
    if training.resume && resumed.is_none() {
        ui::note(common.quiet, "no checkpoint yet: beginning at the start");
    }
    let observer = Terminal::new(common.quiet);
    let checkpoint = files.as_ref().map(Files::checkpoint);
    let mut saver = checkpoint.as_deref().map(|path| Saver::new(path, training.checkpoint_every));
    let mut times = StepTimes::default();
    let stop = trainer.run_with(&observer, |trainer| {
        times.stop();
        if let Some(saver) = &mut saver {
            saver.look(trainer, &observer);
        }
        times.start();
    })?;
    drop(observer);
    let times = times.finish();

    let seconds_training = trainer.seconds();
    let result = ModelFile { model: trainer.model()?, precision: trainer.arithmetic(), ..file };
    if let Some(files) = &files {
        result.save(&files.model())?;
        OutputFile::write(&files.curve(), trainer.curve().to_csv(problem.floor()).as_bytes())?;
        // After a divergence the moments are beyond repair: the checkpoint before it stays.
        if !matches!(stop, Stop::Diverged { .. }) {
            trainer.checkpoint().save(&files.checkpoint())?;
        }
        if !common.json {
            ui::note(common.quiet, &format!("wrote {}", files.model().display()));
        }
    }
    // Who has interrupted does not want to wait for an evaluation.
    let found = match stop {
        Stop::Interrupted => None,
        _ => Some(evaluate(&result.model, &problem, Nats(training.tol), 10)?),
    };
    let reached = stop == Stop::Reached;
    let outcome =
        Outcome { trainer: &trainer, settings, result: &result, stop, found, times, seconds_training };
    if common.json {
        let mut object = outcome.as_json(&files);
        object["seed"] = json!(common.seed);
        object["resumed_at_step"] = json!(resumed);
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        ui::print_json(&object)?;
    } else {
        ui::print(&outcome.human(&args.corpus.spec.title(), files.is_some()))?;
    }
    Ok(match stop {
        Stop::Interrupted => ExitCode::from(interrupt::EXIT_CODE),
        _ if training.require_floor && !reached => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

/// The dataset, and the model to begin with.
fn start(
    args: &TrainCommand,
    common: &Common,
    corpus: &Corpus,
    init: Option<ModelFile>,
    precision: Precision,
) -> Result<(Arc<Dataset>, ModelFile)> {
    match init {
        Some(mut file) => {
            let problem = eval::dataset_for(&file, corpus)?;
            let largest = file.model.parameters().iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            if precision == Precision::F32 && largest > f64::from(f32::MAX) {
                let message = format!("holds {largest:e}, too large for f32; --precision f64 takes it");
                return Err(Error::setting("init", message));
            }
            file.precision = precision;
            Ok((Arc::new(problem), file))
        }
        None => {
            let problem = Dataset::from_corpus(corpus)?;
            let summary = &corpus.summary;
            let config = args.model.resolve(summary.d_vocab, u64::from(summary.n_ctx))?;
            check_memory(&config, &problem, args)?;
            let file = ModelFile {
                model: Model::random(config, common.seed)?,
                precision,
                tokenizer: summary.tokenizer.clone(),
                vocabulary: corpus.vocabulary.clone(),
            };
            Ok((Arc::new(problem), file))
        }
    }
}

/// Refuses a model that this machine cannot hold while it is trained, before the system kills the program for it.
fn check_memory(config: &Config, problem: &Dataset, args: &TrainCommand) -> Result<()> {
    let parameters = config.n_parameters();
    let pairs = match args.training.optimizer {
        Method::Lbfgs => 2 * args.training.memory.unwrap_or(Settings::new(Method::Lbfgs).memory),
        Method::Adam | Method::AdamW => 0,
    };
    // The model in f64, the vectors of the optimizer, and all of them once more while a checkpoint is written.
    let (model, vectors) = (24, 4 * (8 + pairs));
    let copies = if args.run.out.is_some() { 4 } else { 1 };
    let weights = (parameters as u64).saturating_mul((model + copies * vectors) as u64);
    // Queries, keys, values and their derivatives of every place; what attention mixes for every context.
    let mixed = config.shape.n_heads.saturating_mul(config.shape.d_head);
    let rows = 6 * problem.places().len() as u64 + 2 * problem.len() as u64;
    let needed = weights.saturating_add(rows.saturating_mul(mixed).saturating_mul(4));
    match memory::free() {
        Some(free) if needed > free => {
            let gigabytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let message = format!(
                "{} parameters take about {:.1} GiB to train this way, {:.1} GiB are free; a smaller model, --memory or \
                 --optimizer adam take less",
                thousands(parameters as u64),
                gigabytes(needed),
                gigabytes(free),
            );
            Err(Error::setting("model", message))
        }
        _ => Ok(()),
    }
}

/// Milliseconds per step: the median and the least.
type Times = Option<(f64, f64)>;

/// Measures steps.
#[derive(Default)]
struct StepTimes {
    started: Option<Instant>,
    milliseconds: Vec<f32>,
}

impl StepTimes {
    /// Steps whose times are kept.
    const MOST: usize = 100_000;

    fn start(&mut self) {
        self.started = Some(Instant::now());
    }

    fn stop(&mut self) {
        if let Some(started) = self.started
            && self.milliseconds.len() < Self::MOST
        {
            self.milliseconds.push(started.elapsed().as_secs_f32() * 1e3);
        }
    }

    fn finish(mut self) -> Times {
        self.milliseconds.sort_by(f32::total_cmp);
        let least = *self.milliseconds.first()?;
        Some((f64::from(self.milliseconds[self.milliseconds.len() / 2]), f64::from(least)))
    }
}

/// How a training ended.
struct Outcome<'a> {
    trainer: &'a Trainer,
    settings: Settings,
    result: &'a ModelFile,
    stop: Stop,
    /// Unless it was interrupted.
    found: Option<Evaluation>,
    times: Times,
    seconds_training: f64,
}

impl Outcome<'_> {
    fn as_json(&self, files: &Option<Files>) -> Value {
        let (trainer, model) = (self.trainer, &self.result.model);
        let mut object = match &self.found {
            Some(found) => eval::as_json(model, found, trainer.dataset(), &self.result.vocabulary),
            None => json!({
                "loss_nats": trainer.loss(),
                "floor_nats": trainer.dataset().floor(),
                "gap_nats": trainer.gap(),
                "contexts": trainer.dataset().len(),
                "parameters": model.parameters().len(),
                "parameters_by_kind": model.config().parameters_by_kind(),
            }),
        };
        let progress = trainer.progress();
        let path = |f: fn(&Files) -> PathBuf| files.as_ref().map(f);
        let more = json!({
            "optimizer": self.settings.method.name(),
            "lr": self.settings.rate,
            "steps": progress.step,
            "evaluations": progress.evaluations,
            "stop": self.stop.name(),
            "stop_detail": self.stop,
            "arithmetic": trainer.arithmetic(),
            "seconds_training": self.seconds_training,
            "milliseconds_per_step_median": self.times.map(|t| t.0),
            "milliseconds_per_step_min": self.times.map(|t| t.1),
            "model_file": path(Files::model),
            "init_file": path(Files::init),
            "curve_file": path(Files::curve),
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut object, more) {
            all.extend(more);
        }
        object
    }

    fn human(&self, title: &str, has_files: bool) -> String {
        let (trainer, model) = (self.trainer, &self.result.model);
        let shape = &model.config().shape;
        let mut out = format!(
            "{title}: {} parameters, d_model {}, d_mlp {}, {}\n\n",
            thousands(model.parameters().len() as u64),
            shape.d_model,
            shape.d_mlp,
            self.settings.method.name(),
        );
        let why = match self.stop {
            Stop::Reached => "the gap asked for is reached".to_owned(),
            Stop::Steps => "the step limit; --steps raises it".into(),
            Stop::Time => "the time limit".into(),
            Stop::Stalled { since } => format!("hardly lower since step {}", thousands(since)),
            Stop::Diverged { step, tensor } => format!(
                "at step {}: {tensor} is not finite; the weights are the last good ones",
                thousands(step)
            ),
            Stop::Interrupted if has_files => "--resume goes on".into(),
            Stop::Interrupted => "with --out it could be resumed".into(),
        };
        let progress = trainer.progress();
        let pace = self.times.map_or(String::new(), |(median, _)| format!(", {median:.2} ms a step"));
        let mut table = Table::new(&["stop", self.stop.name(), &why], &[0, 2]);
        table.row(vec![
            "steps".into(),
            thousands(progress.step),
            format!("{} evaluations, {:.1} s{pace}", thousands(progress.evaluations), self.seconds_training),
        ]);
        match &self.found {
            Some(found) => eval::figures(&mut table, found),
            None => table.row(vec!["gap".into(), thousands_f64(trainer.gap().0, 4), "nats".into()]),
        }
        out += &table.render();
        out
    }
}
