//! Runs the jobs of a plan.
//!
//! Small jobs run side by side, one thread each; large ones run one after the other, with all threads. Training gives the
//! same bits either way. A job that fails becomes a row with its error; the remaining jobs continue.

use super::corpora::Corpora;
use super::directory::{Directory, JobFiles};
use super::job::Job;
use super::job_row::{JobResult, JobRow, JobStatus};
use super::plan::Plan;
use crate::evaluate::{TOLERANCE, evaluate};
use crate::model::{Init, Model, ModelFile};
use crate::observe::{Detail, Observer, Progress, Stage};
use crate::output::{LiveLog, OutputFile};
use crate::train::checkpoint::check_interval;
use crate::train::{CHECKPOINT_EVERY, Checkpoint, Saver, Stop, Trainer};
use crate::units::grouped;
use crate::{Error, Result};
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

impl SweepOutcome {
    /// Counts the jobs of a plan that have ended.
    pub fn of(directory: &Directory, plan: &Plan, interrupted: bool) -> Self {
        let failed = directory.rows().filter(|row| row.status == JobStatus::Failed).count();
        Self { jobs: plan.jobs.len(), done: directory.done(), failed, interrupted }
    }
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
        let files = locked().files(i);
        let started = Instant::now();
        let watching = JobObserver { outer: observer, job: i, done: &done, total };
        // Interrupted: its checkpoint remains, if it has one.
        let Some(row) = run_job(&plan.jobs[i], corpora, &files, options, &watching)? else { return Ok(()) };
        broken.fetch_or(options.fail_fast && row.status == JobStatus::Failed, Ordering::Relaxed);
        locked().record(row, started.elapsed().as_secs_f64())?;
        let finished = done.fetch_add(1, Ordering::Relaxed) + 1;
        observer.progress(&Progress::new(Stage::Jobs, finished, Some(total)));
        Ok(())
    };
    side_by_side(&small, one)?;
    large.into_iter().try_for_each(one)?;
    let directory = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let outcome = SweepOutcome::of(directory, plan, observer.should_stop());
    directory.leave()?;
    Ok(outcome)
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

/// Runs one job, of a process that may be another one than that of its run directory; `None` if interrupted.
///
/// Its curve, its model if that is kept, and its checkpoints are in `files`; a checkpoint that is there is resumed. A job that fails
/// has a row with its error. [`Directory::record`] records the row.
///
/// ```
/// use byrote::observe::Silent;
/// use byrote::sweep::{Corpora, Directory, JobStatus, Plan, SweepOptions, run_job};
///
/// let plan = Plan::parse("[corpus]\nbuiltin = 10\n[model]\nd_mlp = 4\n[training]\nsteps = 5\n", "small")?;
/// let corpora = Corpora::read(&plan.jobs, &Silent)?;
/// let folder = tempfile::tempdir()?;
/// let mut directory = Directory::open(folder.path(), &plan, &corpora)?;
/// let row = run_job(&plan.jobs[0], &corpora, &directory.files(0), SweepOptions::default(), &Silent)?;
/// let row = row.ok_or("interrupted")?;
/// assert_eq!(row.status, JobStatus::Done);
/// directory.record(row, 0.1)?;
/// assert!(directory.is_done(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_job(
    job: &Job,
    corpora: &Corpora,
    files: &JobFiles,
    options: SweepOptions,
    observer: &dyn Observer,
) -> Result<Option<JobRow>> {
    match work(job, corpora, files, options, observer) {
        Err(Error::Interrupted) => Ok(None),
        Err(error) => {
            let dataset = corpora.of(job)?;
            let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx()).ok();
            let row = JobRow::new(job, &files.id, dataset, config.as_ref());
            Ok(Some(JobRow { error: Some(error.to_string()), ..row }))
        }
        found => found,
    }
}

/// Trains; `None` if interrupted.
fn work(
    job: &Job,
    corpora: &Corpora,
    files: &JobFiles,
    options: SweepOptions,
    observer: &dyn Observer,
) -> Result<Option<JobRow>> {
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
    Ok(Some(JobRow { status: JobStatus::Done, result: Some(result), ..row }))
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
