//! Runs the jobs of a plan.
//!
//! Small jobs run side by side, one thread each; large ones run one after the other, with all threads. Training gives the
//! same bits either way. A job that fails becomes a row with its error; the remaining jobs continue.

use super::corpora::Corpora;
use super::directory::Directory;
use super::job::Job;
use super::job_row::{JobResult, JobRow, JobStatus};
use super::plan::Plan;
use super::record::points;
use crate::evaluate::{TOLERANCE, evaluate};
use crate::model::{Init, Model, ModelFile};
use crate::observe::{Detail, Observer, Progress, Stage};
use crate::output::{LiveLog, OutputFile};
use crate::train::checkpoint::check_interval;
use crate::train::{CHECKPOINT_EVERY, Checkpoint, Saver, Stop, Trainer};
use crate::units::grouped;
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The number of operations per step above which a job gets all threads.
const LARGE: f64 = 3e8;
/// The number of contexts with the largest contributions to the gap that a row keeps.
const WORST: usize = 10;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepOutcome {
    /// The total number of jobs.
    pub jobs: usize,
    /// The number of jobs with a result.
    pub done: usize,
    /// The number of jobs with an error.
    pub failed: usize,
    /// Whether the observer asked to stop.
    pub interrupted: bool,
}

/// How to run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SweepOptions {
    /// Seconds between checkpoints of a job.
    pub checkpoint_every: f64,
    /// Whether the first failing job ends the run.
    pub fail_fast: bool,
    /// Whether to write the trained models too.
    pub keep_models: bool,
}

impl SweepOptions {
    /// Refuses options outside their range.
    pub fn check(&self) -> Result<()> {
        check_interval(self.checkpoint_every)
    }
}

crate::setting::setters!(SweepOptions {
    checkpoint_every: plain(f64),
    fail_fast: plain(bool),
    keep_models: plain(bool),
});

impl Default for SweepOptions {
    fn default() -> Self {
        Self { checkpoint_every: CHECKPOINT_EVERY, fail_fast: false, keep_models: false }
    }
}

/// Reports to the observer which jobs an earlier run has finished.
fn note_what_is_done(plan: &Plan, directory: &Directory, options: SweepOptions, observer: &dyn Observer) {
    let (done, total) = (directory.done() as u64, plan.jobs.len() as u64);
    let note = |text: &str| {
        observer.progress(&Progress::new(Stage::Jobs, done, Some(total)).with(Detail::Note(text)));
    };
    if done > 0 {
        note(&format!("{} of {} jobs are already done", grouped(done), grouped(total)));
        let has_no_model = |i| directory.is_done(i) && !directory.model(i).exists();
        if options.keep_models && (0..plan.jobs.len()).any(has_no_model) {
            note("their models were not kept; `keep_models` applies to the remaining jobs");
        }
    }
}

/// Runs the remaining jobs of a plan in a directory.
pub fn run(
    plan: &Plan,
    corpora: &Corpora,
    directory: &mut Directory,
    options: SweepOptions,
    observer: &dyn Observer,
) -> Result<SweepOutcome> {
    options.check()?;
    let observer = &LiveLog::new(directory.path(), observer);
    note_what_is_done(plan, directory, options, observer);
    let open: Vec<usize> = (0..plan.jobs.len()).filter(|&i| !directory.is_done(i)).collect();
    let is_large = |&i: &usize| {
        let job = &plan.jobs[i];
        corpora.of(job).is_ok_and(|dataset| {
            let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx());
            config.is_ok_and(|c| job.operations(&c, dataset) > LARGE)
        })
    };
    let (large, small): (Vec<usize>, Vec<usize>) = open.into_iter().partition(is_large);
    let done = AtomicU64::new(directory.done() as u64);
    let total = plan.jobs.len() as u64;
    observer.progress(&Progress::new(Stage::Jobs, done.load(Ordering::Relaxed), Some(total)));
    let shared = Mutex::new(directory);
    let broken = AtomicBool::new(false);
    let one = |i: usize| -> Result<()> {
        if broken.load(Ordering::Relaxed) || observer.should_stop() {
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
        let started = Instant::now();
        let watching = JobObserver { outer: observer, job: i, done: &done, total };
        let found = work(&plan.jobs[i], corpora, &files, options, &watching);
        let (row, curve) = match found {
            Ok(Some((row, curve))) => (row, Some(curve)),
            // Interrupted: its checkpoint remains, if it has one.
            Ok(None) | Err(Error::Interrupted) => return Ok(()),
            Err(error) => {
                broken.fetch_or(options.fail_fast, Ordering::Relaxed);
                let dataset = corpora.of(&plan.jobs[i])?;
                let config = plan.jobs[i].model.resolve(dataset.d_vocab(), dataset.n_ctx()).ok();
                let row = JobRow::new(&plan.jobs[i], &files.id, dataset, config.as_ref());
                (JobRow { error: Some(error.to_string()), ..row }, None)
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        let mut directory = locked();
        directory.record(row, curve, seconds)?;
        drop(directory);
        let finished = done.fetch_add(1, Ordering::Relaxed) + 1;
        observer.progress(&Progress::new(Stage::Jobs, finished, Some(total)));
        // Only now is the checkpoint no longer needed.
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
    let (done, failed) =
        (directory.done(), directory.rows().filter(|r| r.status == JobStatus::Failed).count());
    let interrupted = observer.should_stop();
    directory.leave()?;
    Ok(SweepOutcome { jobs: plan.jobs.len(), done, failed, interrupted })
}

/// Runs the jobs in order, as many at a time as the pool has threads, each on one thread.
///
/// Separate threads rather than tasks of the pool: a pool thread that waits for another pool picks up further tasks
/// meanwhile, and all jobs would be started at once.
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
        // A panic propagates to the caller.
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

/// The row of a job that has ended, with its steps and gaps in nats.
type Ended = (JobRow, Vec<(f64, f64)>);

/// Trains; `None` if interrupted.
fn work(
    job: &Job,
    corpora: &Corpora,
    files: &Files,
    options: SweepOptions,
    observer: &dyn Observer,
) -> Result<Option<Ended>> {
    let dataset = corpora.of(job)?;
    let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx())?;
    let (settings, limits) = job.training.resolve(job.seed)?;
    let init = job.model.init.unwrap_or(Init::default_for(&config));
    let model = Model::drawn(config, job.seed, init)?;
    // A damaged checkpoint, or one from another version, is ignored.
    let saved = Checkpoint::load(&files.checkpoint).ok();
    let resumed = saved.and_then(|c| Trainer::resume(c, &model, dataset, settings, limits, observer).ok());
    let mut trainer = match resumed {
        Some(trainer) => trainer,
        None => Trainer::new(&model, dataset, settings, limits, observer)?,
    };
    let mut saver = Saver::new(&files.checkpoint, options.checkpoint_every);
    let stop = trainer.run_with(observer, |trainer| saver.look(trainer, observer))?;
    if stop == Stop::Interrupted {
        trainer.checkpoint().save(&files.checkpoint)?;
        return Ok(None);
    }
    let curve = trainer.curve().to_csv(dataset.floor(), dataset.predictions() as u64);
    OutputFile::write(&files.curve, curve.as_bytes())?;
    let file = ModelFile {
        model: trainer.model()?,
        precision: trainer.arithmetic(),
        tokenizer: dataset.tokenizer().to_owned(),
        vocabulary: dataset.vocabulary().as_ref().clone(),
    };
    if options.keep_models {
        file.save(&files.model)?;
    }
    let found = match evaluate(&file.model, dataset, TOLERANCE, WORST, observer) {
        Err(Error::Interrupted) => {
            trainer.checkpoint().save(&files.checkpoint)?;
            return Ok(None);
        }
        other => other?,
    };
    let progress = trainer.progress();
    let mut result = JobResult::new(&found, progress.step, progress.evaluations, stop.kind());
    result.accuracy_last_batches = trainer.accuracy_last_batches();
    let row = JobRow::new(job, &files.id, dataset, Some(&config));
    let row = JobRow { status: JobStatus::Done, result: Some(result), ..row };
    // As they are read back from the file, to the last digit.
    Ok(Some((row, points(curve.as_bytes()))))
}

/// Turns the progress reports of one job into reports of the sweep.
struct JobObserver<'a> {
    outer: &'a dyn Observer,
    job: usize,
    done: &'a AtomicU64,
    total: u64,
}

impl Observer for JobObserver<'_> {
    fn progress(&self, progress: &Progress<'_>) {
        let detail = match progress.detail {
            Detail::Training { step, gap, contexts, predictions, .. } => {
                let steps = progress.total.unwrap_or(step);
                Detail::Job { job: self.job, step, steps, gap, contexts, predictions }
            }
            other => other,
        };
        let report = Progress::new(Stage::Jobs, self.done.load(Ordering::Relaxed), Some(self.total));
        self.outer.progress(&report.with(detail));
    }

    fn should_stop(&self) -> bool {
        self.outer.should_stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Impatient, Silent};
    use crate::sweep::Record;

    /// Two jobs that train and one that fails.
    const PLAN: &str = "[corpus]\nbuiltin = 8\n[model]\npreset = [\"average\", \"madden2024-experiment\", \"dana2024\"]\n\
                        d_model = 2\nd_mlp = 3\n[training]\nsteps = 12";

    #[test]
    fn the_record_in_memory_is_the_one_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan::parse(PLAN, "plan").unwrap();
        let corpora = Corpora::read(&plan.jobs, &Silent).unwrap();
        for again in [false, true] {
            let mut directory = Directory::open(folder.path(), &plan, &corpora).unwrap();
            let outcome = run(&plan, &corpora, &mut directory, SweepOptions::default(), &Silent).unwrap();
            assert_eq!((outcome.done, outcome.failed), (2, 1), "{again}");
            let record = directory.to_record();
            assert_eq!(record, Record::load(folder.path()).unwrap(), "{again}");
            assert_eq!((record.rows.len(), record.curves.len()), (3, 2));
        }
    }

    #[test]
    fn a_sweep_that_is_stopped_anywhere_resumes_to_the_same_results() {
        let plan = Plan::parse(PLAN, "plan").unwrap();
        let corpora = Corpora::read(&plan.jobs, &Silent).unwrap();
        let finish = |folder: &std::path::Path| {
            let mut directory = Directory::open(folder, &plan, &corpora).unwrap();
            run(&plan, &corpora, &mut directory, SweepOptions::default(), &Silent).unwrap();
            let Record { rows, curves, .. } = directory.to_record();
            (rows, curves)
        };
        let whole = finish(tempfile::tempdir().unwrap().path());
        for patience in (0..60).step_by(7) {
            let folder = tempfile::tempdir().unwrap();
            let mut directory = Directory::open(folder.path(), &plan, &corpora).unwrap();
            let observer = Impatient::new(patience);
            let stopped = run(&plan, &corpora, &mut directory, SweepOptions::default(), &observer).unwrap();
            assert!(stopped.interrupted, "{patience}");
            drop(directory);
            assert_eq!(finish(folder.path()), whole, "{patience}");
        }
    }
}
