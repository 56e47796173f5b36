//! Works off the jobs of a plan.
//!
//! Small jobs run side by side, a thread each; large ones one after the other, with all threads. Training gives the same
//! bits either way. A job that fails is a row with its error; the others go on.

use super::corpora::Corpora;
use super::directory::Directory;
use super::job::Job;
use super::plan::Plan;
use super::row::{Row, RowResult, Status};
use crate::evaluate::evaluate;
use crate::model::{Model, ModelFile};
use crate::output::OutputFile;
use crate::train::{Checkpoint, Stop, Trainer, Watch};
use crate::units::Nats;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Operations of a step above which a job gets all threads.
const LARGE: f64 = 3e8;
/// Contexts whose distribution is off by at most this are memorized as distributions.
const TOLERANCE: Nats = Nats(1e-3);

/// Looks on, from several threads, and may ask to stop.
pub trait Observer: Sync {
    /// Whether to go on; asked after every step.
    fn go_on(&self) -> bool {
        true
    }
    /// A job begins.
    fn begins(&self, _job: usize) {}
    /// A job has made a step.
    fn steps(&self, _job: usize, _trainer: &Trainer<'_>) {}
    /// A job is over.
    fn over(&self, _job: usize, _row: &Row, _seconds: f64) {}
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Jobs in all.
    pub jobs: usize,
    /// With a result.
    pub done: usize,
    /// With an error.
    pub failed: usize,
    /// It was asked to stop.
    pub interrupted: bool,
}

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Seconds between checkpoints of a job.
    pub checkpoint_every: f64,
    /// The first job that fails ends the run.
    pub fail_fast: bool,
    /// Write the trained models too.
    pub keep_models: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self { checkpoint_every: 30.0, fail_fast: false, keep_models: false }
    }
}

/// Runs what is left of a plan in a directory.
pub fn run(
    plan: &Plan,
    corpora: &Corpora,
    directory: &mut Directory,
    manner: Manner,
    observer: &dyn Observer,
) -> Result<Outcome> {
    let open: Vec<usize> = (0..plan.jobs.len()).filter(|&i| !directory.is_done(i)).collect();
    let is_large = |&i: &usize| {
        let job = &plan.jobs[i];
        let material = corpora.of(job);
        let config = job.model.config(material.d_vocab, material.n_ctx);
        config.is_ok_and(|c| job.operations(&c, &material.problem) > LARGE)
    };
    let (large, small): (Vec<usize>, Vec<usize>) = open.into_iter().partition(is_large);
    let shared = Mutex::new(directory);
    let broken = AtomicBool::new(false);
    let one = |i: usize| -> Result<()> {
        if broken.load(Ordering::Relaxed) || !observer.go_on() {
            return Ok(());
        }
        let locked = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let files = {
            let directory = locked();
            Files {
                id: directory.id(i).to_owned(),
                curve: directory.curve(i),
                checkpoint: directory.checkpoint(i),
                model: directory.model(i),
            }
        };
        observer.begins(i);
        let started = Instant::now();
        let found = work(&plan.jobs[i], i, corpora, &files, manner, observer);
        let row = match found {
            Ok(Some(row)) => row,
            // Interrupted: its checkpoint stays.
            Ok(None) => return Ok(()),
            Err(error) => {
                broken.fetch_or(manner.fail_fast, Ordering::Relaxed);
                let material = corpora.of(&plan.jobs[i]);
                let config = plan.jobs[i].model.config(material.d_vocab, material.n_ctx).ok();
                Row {
                    error: Some(error.to_string()),
                    ..Row::new(&plan.jobs[i], &files.id, material, config.as_ref())
                }
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        observer.over(i, &row, seconds);
        let mut directory = locked();
        directory.record(row, seconds)?;
        // Only now is it of no use.
        match std::fs::remove_file(&files.checkpoint) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(&files.checkpoint, "remove", e))
            }
            _ => Ok(()),
        }
    };
    side_by_side(&small, one)?;
    large.into_iter().try_for_each(one)?;
    let directory = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (done, failed) = (directory.done(), directory.rows().filter(|r| r.status == Status::Failed).count());
    let interrupted = !observer.go_on();
    directory.leave()?;
    Ok(Outcome { jobs: plan.jobs.len(), done, failed, interrupted })
}

/// Works on the jobs in order, as many at a time as the pool has threads, each with one thread.
///
/// Threads of their own, not tasks of the pool: a task that waits for another pool is used for further tasks meanwhile, and
/// all jobs would be begun at once.
fn side_by_side(jobs: &[usize], one: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<()> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|e| Error::setting("threads", e.to_string()))?;
        while let Some(&job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            pool.install(|| one(job))?;
        }
        Ok(())
    };
    let threads = rayon::current_num_threads().min(jobs.len());
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        // A panic goes on in the caller.
        running
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

struct Files {
    id: String,
    curve: PathBuf,
    checkpoint: PathBuf,
    model: PathBuf,
}

/// Trains; `None` where it was interrupted.
fn work(
    job: &Job,
    index: usize,
    corpora: &Corpora,
    files: &Files,
    manner: Manner,
    observer: &dyn Observer,
) -> Result<Option<Row>> {
    let material = corpora.of(job);
    let problem = &material.problem;
    let config = job.model.config(material.d_vocab, material.n_ctx)?;
    let (settings, limits) = job.training.resolve(job.seed)?;
    let model = Model::drawn(config, job.seed, job.model.init)?;
    // A checkpoint that is damaged, or of another version, is as good as none.
    let saved = Checkpoint::load(&files.checkpoint).ok();
    let resumed = saved.and_then(|c| Trainer::resume(c, &model, problem, settings, limits).ok());
    let mut trainer = match resumed {
        Some(trainer) => trainer,
        None => Trainer::new(&model, problem, settings, limits)?,
    };
    let every = Duration::try_from_secs_f64(manner.checkpoint_every).unwrap_or(Duration::MAX);
    let mut watcher = Watcher { index, observer, path: &files.checkpoint, every, saved: Instant::now() };
    let stop = trainer.run(&mut watcher)?;
    if stop == Stop::Interrupted {
        trainer.checkpoint().save(&files.checkpoint)?;
        return Ok(None);
    }
    OutputFile::write(&files.curve, trainer.curve().to_csv(problem.floor).as_bytes())?;
    let file = ModelFile {
        model: trainer.model()?,
        precision: trainer.arithmetic(),
        tokenizer: material.tokenizer.clone(),
        vocabulary: material.vocabulary.clone(),
    };
    if manner.keep_models {
        file.save(&files.model)?;
    }
    let found = evaluate(&file.model, problem, TOLERANCE, 0)?;
    let progress = trainer.progress();
    let result = RowResult::new(&found, progress.step, progress.evaluations, stop.name());
    let row = Row::new(job, &files.id, material, Some(&config));
    Ok(Some(Row { status: Status::Done, result: Some(result), ..row }))
}

struct Watcher<'a> {
    index: usize,
    observer: &'a dyn Observer,
    path: &'a Path,
    every: Duration,
    saved: Instant,
}

impl Watch for Watcher<'_> {
    fn look(&mut self, trainer: &Trainer<'_>) -> Result<bool> {
        self.observer.steps(self.index, trainer);
        if self.saved.elapsed() >= self.every && trainer.progress().step > 0 {
            // One that cannot be written is no reason to lose the training: the next may succeed.
            let _ = trainer.checkpoint().save(self.path);
            self.saved = Instant::now();
        }
        Ok(self.observer.go_on())
    }
}
