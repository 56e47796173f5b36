//! One training run from its first step to its files.
//!
//! A run may have a directory, which this process locks while it runs:
//!
//! ```text
//! model.safetensors        the model in its latest state
//! init.safetensors         the weights it began with
//! curve.csv                the loss by step
//! checkpoint.safetensors   everything needed to resume
//! live.jsonl               the gap as time passes, for those who watch
//! lock                     the process at work
//! ```
//!
//! A run never replaces another one that cannot be made again: without `resume`, a directory is refused if it holds an unfinished
//! run, or a finished one with other settings.

use super::checkpoint::{CHECKPOINT_EVERY, Checkpoint, Identity, Saver, check_interval};
use super::settings::{Limits, Stop, TrainSettings};
use super::trainer::Trainer;
use crate::dataset::Dataset;
use crate::model::ModelFile;
use crate::observe::{Detail, Observer, Progress, Stage};
use crate::output::{Holds, LiveLog, OutputFile, claim, lock};
use crate::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The directory of a run, locked by this process.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    _lock: File,
}

impl RunDirectory {
    /// Creates the directory where needed, and locks it. A directory that holds something else is refused.
    pub fn open(path: &Path) -> Result<Self> {
        let _claim = claim(path, Holds::Training)?;
        Ok(Self { path: path.to_path_buf(), _lock: lock(path)? })
    }

    /// Returns the path of the model.
    pub fn model(&self) -> PathBuf {
        self.path.join("model.safetensors")
    }

    /// Returns the path of the initial weights.
    pub fn init(&self) -> PathBuf {
        self.path.join("init.safetensors")
    }

    /// Returns the path of the curve.
    pub fn curve(&self) -> PathBuf {
        self.path.join("curve.csv")
    }

    /// Returns the path of the checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint.safetensors")
    }

    /// Loads the checkpoint, if there is one.
    fn saved(&self) -> Result<Option<Checkpoint>> {
        let path = self.checkpoint();
        if path.exists() { Checkpoint::load(&path).map(Some) } else { Ok(None) }
    }

    /// Prepares the directory for a new run: refuses to replace an unfinished or a different run, and removes the checkpoint of a
    /// finished run of the same settings, which can be repeated.
    fn clear(&self, identity: &Identity) -> Result<()> {
        let Some(saved) = self.saved()? else { return Ok(()) };
        let holds = match saved.identity.difference(identity) {
            _ if !saved.finished => {
                let step = saved.progress.step;
                format!(
                    "an unfinished run at step {step}; resume it with `resume`, or choose another directory"
                )
            }
            Some(what) => format!("a run with {what}; choose another directory"),
            None => {
                let path = self.checkpoint();
                return std::fs::remove_file(&path).map_err(|e| Error::io(&path, "remove", e));
            }
        };
        Err(Error::setting("out", format!("{} holds {holds}", self.path.display())))
    }
}

/// How a run is made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TrainOptions {
    /// Whether to continue from the checkpoint of the directory, if there is one.
    pub resume: bool,
    /// Seconds between checkpoints; 0 writes one after every step.
    pub checkpoint_every: f64,
}

crate::setting::setters!(TrainOptions { resume: plain(bool), checkpoint_every: plain(f64) });

impl TrainOptions {
    /// Refuses options outside their range.
    pub fn check(&self) -> Result<()> {
        check_interval(self.checkpoint_every)
    }
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self { resume: false, checkpoint_every: CHECKPOINT_EVERY }
    }
}

/// Milliseconds per step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTimes {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
}

/// A run that has ended.
pub struct Run {
    /// The trainer as it ended.
    pub trainer: Trainer,
    /// How the model was trained.
    pub settings: TrainSettings,
    /// The model that was trained.
    pub result: ModelFile,
    /// Why training stopped.
    pub stop: Stop,
    /// The step at which the run was resumed.
    pub resumed_at_step: Option<u64>,
    /// How long steps took; none where fewer than two were taken.
    pub milliseconds: Option<StepTimes>,
    /// Seconds of training, including those before the run was resumed.
    pub seconds: f64,
}

/// Trains a model, and writes the files of its directory, if it has one.
pub fn run(
    file: ModelFile,
    dataset: &Arc<Dataset>,
    how: (TrainSettings, Limits),
    directory: Option<&RunDirectory>,
    options: TrainOptions,
    observer: &dyn Observer,
) -> Result<Run> {
    run_with(file, dataset, how, directory, options, observer, |_| {})
}

/// Like [`run`], but `look` sees the trainer at the start and after every step.
pub fn run_with(
    file: ModelFile,
    dataset: &Arc<Dataset>,
    (settings, limits): (TrainSettings, Limits),
    directory: Option<&RunDirectory>,
    options: TrainOptions,
    observer: &dyn Observer,
    mut look: impl FnMut(&Trainer),
) -> Result<Run> {
    options.check()?;
    let live = directory.map(|directory| LiveLog::new(&directory.path, observer));
    let observer: &dyn Observer = live.as_ref().map_or(observer, |live| live);
    let saved = match directory {
        Some(directory) if options.resume => directory.saved()?,
        _ => None,
    };
    let resumed_at_step = saved.as_ref().map(|c| c.progress.step);
    if options.resume && saved.is_none() {
        let text = "there is no checkpoint yet: starting at the first step";
        observer.progress(&Progress::new(Stage::Training, 0, None).with(Detail::Note(text)));
    }
    let mut trainer = match saved {
        Some(checkpoint) => Trainer::resume(checkpoint, &file.model, dataset, settings, limits, observer)?,
        None => {
            if let Some(directory) = directory {
                directory.clear(&Identity::new(&file.model, dataset, settings))?;
                file.save(&directory.init())?;
            }
            Trainer::new(&file.model, dataset, settings, limits, observer)?
        }
    };
    let checkpoint = directory.map(RunDirectory::checkpoint);
    let mut saver = checkpoint.as_deref().map(|path| Saver::new(path, options.checkpoint_every));
    let mut times = Stopwatch::default();
    let stop = trainer.run_with(observer, |trainer| {
        times.stop();
        if let Some(saver) = &mut saver {
            saver.look(trainer, observer);
        }
        look(trainer);
        times.start();
    })?;
    let seconds = trainer.seconds();
    let result = ModelFile { model: trainer.model()?, precision: trainer.arithmetic(), ..file };
    if let Some(directory) = directory {
        result.save(&directory.model())?;
        OutputFile::write(
            &directory.curve(),
            trainer.curve().to_csv(dataset.floor(), dataset.predictions() as u64).as_bytes(),
        )?;
        // After a divergence the moments are beyond repair, so the previous checkpoint is kept.
        if !matches!(stop, Stop::Diverged { .. }) {
            let finished = stop != Stop::Interrupted;
            Checkpoint { finished, ..trainer.checkpoint() }.save(&directory.checkpoint())?;
        }
    }
    Ok(Run { trainer, settings, result, stop, resumed_at_step, milliseconds: times.finish(), seconds })
}

/// Measures how long steps take.
#[derive(Default)]
struct Stopwatch {
    started: Option<Instant>,
    milliseconds: Vec<f32>,
}

impl Stopwatch {
    /// The most steps that are kept.
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

    fn finish(mut self) -> Option<StepTimes> {
        self.milliseconds.sort_by(f32::total_cmp);
        let min = f64::from(*self.milliseconds.first()?);
        Some(StepTimes { median: f64::from(self.milliseconds[self.milliseconds.len() / 2]), min })
    }
}
