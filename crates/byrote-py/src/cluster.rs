//! What the jobs of a cluster need: the parts of a corpus, and a sweep whose jobs run elsewhere.

use crate::corpus::spec;
use crate::error::OrRaise;
use crate::whole::{finished, plan};
use crate::work::{self, How};
use byrote::corpus;
use byrote::output::{OutputFile, claim};
use byrote::sweep::{
    Corpora, Directory, Job, JobFiles, JobRow, JobStatus, Plan, SweepOptions, SweepOutcome, run_job,
};
use byrote::{Error, Result, output::Holds};
use pyo3::prelude::*;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The files that a corpus is read from, with directories and patterns spelled out.
#[pyfunction]
pub fn input_files(py: Python<'_>, settings: &str) -> PyResult<Vec<PathBuf>> {
    let spec = spec(py, settings)?;
    spec.resolve().or_raise(py)?;
    Ok(spec.tokenizer(corpus::TokenizerChoice::Byte).inputs())
}

/// Splits a summary into one file per class of documents; returns the files.
#[pyfunction]
#[pyo3(signature = (path, parts, directory, *, threads=None, watch=None))]
pub fn split_summary(
    py: Python<'_>,
    path: PathBuf,
    parts: u32,
    directory: PathBuf,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<Vec<PathBuf>> {
    work::run(py, How::new(threads, watch), move |watch| {
        corpus::split_summary(&path, parts, &directory, &**watch)
    })
}

/// An open sweep.
struct Open {
    plan: Plan,
    out: PathBuf,
    directory: Directory,
    started: Instant,
}

/// A sweep whose jobs run in other processes: its run directory, which this process holds.
#[pyclass(frozen, module = "byrote._byrote")]
pub struct ClusterSweep {
    /// `None` once it is closed.
    open: Arc<Mutex<Option<Open>>>,
}

impl ClusterSweep {
    fn with<T>(&self, py: Python<'_>, act: impl FnOnce(&mut Open) -> Result<T> + Send) -> PyResult<T>
    where
        T: Send,
    {
        let open = &self.open;
        let found = py.detach(|| {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            let closed = || Error::setting("out", "the run directory has been closed");
            act(open.as_mut().ok_or_else(closed)?)
        });
        found.or_raise(py)
    }
}

#[pymethods]
impl ClusterSweep {
    /// Opens or creates the run directory of a plan.
    #[staticmethod]
    #[pyo3(signature = (*, path=None, text=None, name="sweep", out=None, full=false, seed=0, command=None, threads=None, watch=None))]
    #[allow(clippy::too_many_arguments)] // The keywords of a Python call.
    fn open(
        py: Python<'_>,
        path: Option<PathBuf>,
        text: Option<&str>,
        name: &str,
        out: Option<PathBuf>,
        full: bool,
        seed: u64,
        command: Option<String>,
        threads: Option<usize>,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut plan = plan(path.as_deref(), text, name, seed, full).or_raise(py)?;
        plan.command = command;
        let open = work::run(py, How::new(threads, watch), move |watch| {
            let started = Instant::now();
            let out = out.unwrap_or_else(|| PathBuf::from(&plan.name));
            let _claim = claim(&out, Holds::Sweep)?;
            let corpora = Corpora::read(&plan.jobs, &**watch)?;
            let directory = Directory::open(&out, &plan, &corpora)?;
            Ok(Open { plan, out, directory, started })
        })?;
        Ok(Self { open: Arc::new(Mutex::new(Some(open))) })
    }

    /// The number of jobs.
    fn jobs(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |open| Ok(open.plan.jobs.len()))
    }

    /// The jobs that have no result yet: number, identity, settings as JSON, and the path of checkpoints.
    fn remaining(&self, py: Python<'_>) -> PyResult<Vec<(usize, String, String, PathBuf)>> {
        self.with(py, |open| {
            let Open { plan, directory, .. } = open;
            let remaining = (0..plan.jobs.len()).filter(|&i| !directory.is_done(i));
            Ok(remaining
                .map(|i| {
                    let JobFiles { id, checkpoint, .. } = directory.files(i);
                    (i, id, json!(plan.jobs[i]).to_string(), checkpoint)
                })
                .collect())
        })
    }

    /// Records a job that has ended, with its curve and its model; returns whether it has a result. A job that is recorded already
    /// is not recorded again.
    #[pyo3(signature = (job, row, *, seconds, curve=None, model=None))]
    fn record(
        &self,
        py: Python<'_>,
        job: usize,
        row: &str,
        seconds: f64,
        curve: Option<&[u8]>,
        model: Option<&[u8]>,
    ) -> PyResult<bool> {
        self.with(py, |open| {
            let (damaged, count) =
                (|| Error::setting("row", "is not that of this job"), open.plan.jobs.len());
            let row: JobRow = serde_json::from_str(row).map_err(|_| damaged())?;
            if job >= count || row.job != open.directory.id(job) {
                return Err(damaged());
            }
            let done = row.status == JobStatus::Done;
            if open.directory.is_done(job) {
                return Ok(done);
            }
            let files = open.directory.files(job);
            let write =
                |path: &Path, bytes: Option<&[u8]>| bytes.map(|b| OutputFile::write(path, b)).transpose();
            write(&files.curve, curve)?;
            write(&files.model, model)?;
            open.directory.record(row, seconds)?;
            Ok(done)
        })
    }

    /// Leaves the run directory, after drawing its report; returns what the program prints.
    #[pyo3(signature = (*, interrupted=false, threads=None, watch=None))]
    fn finish(
        &self,
        py: Python<'_>,
        interrupted: bool,
        threads: Option<usize>,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let open = self.open.clone();
        work::run(py, How::new(threads, watch), move |watch| {
            let open = open.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(Open { plan, out, mut directory, started }) = open else {
                return Err(Error::setting("out", "the run directory has been closed"));
            };
            let outcome = SweepOutcome::of(&directory, &plan, interrupted);
            directory.leave()?;
            finished(&plan.name, &out, &directory, &outcome, started, &**watch)
        })
    }
}

/// Runs one job of a sweep, whose identity is known, and writes its curve and its model into `folder`; returns its row as JSON, or
/// `None` if it was interrupted.
#[pyfunction(name = "run_job")]
#[pyo3(signature = (job, id, folder, *, checkpoint=None, checkpoint_every=None, keep_models=false, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn run_sweep_job(
    py: Python<'_>,
    job: &str,
    id: String,
    folder: PathBuf,
    checkpoint: Option<PathBuf>,
    checkpoint_every: Option<f64>,
    keep_models: bool,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<Option<String>> {
    let job = serde_json::from_str::<Job>(job);
    let job = job.map_err(|e| Error::setting("job", e.to_string())).or_raise(py)?;
    let every = checkpoint_every.unwrap_or(SweepOptions::default().checkpoint_every);
    let options = SweepOptions::default().checkpoint_every(every).keep_models(keep_models);
    options.check().or_raise(py)?;
    work::run(py, How::new(threads, watch), move |watch| {
        let corpora = Corpora::read(std::slice::from_ref(&job), &**watch)?;
        if job.id(corpora.of(&job)?) != id {
            let message = "is another text on this machine than where the sweep was started";
            return Err(Error::setting("corpus", message));
        }
        let files = JobFiles {
            id,
            curve: folder.join("curve.csv"),
            checkpoint: checkpoint.unwrap_or_else(|| folder.join("checkpoint.safetensors")),
            model: folder.join("model.safetensors"),
        };
        let row = run_job(&job, &corpora, &files, options, &**watch)?;
        Ok(row.map(|row| json!(row).to_string()))
    })
}
