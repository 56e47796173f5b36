//! Training towards the floor, with callbacks.

use crate::corpus::Corpus;
use crate::error::OrRaise;
use crate::model::Model;
use crate::work::{self, Ended, How, Watch};
use byrote::dataset::Dataset;
use byrote::evaluate::{Evaluation, TOLERANCE, check_tolerance, evaluate};
use byrote::memory;
use byrote::model::{ModelFile, ModelSpec};
use byrote::observe::{Observer, Progress};
use byrote::report::json;
use byrote::setting::Keywords;
use byrote::train::{
    CurvePoint, Run, RunDirectory, Start, TrainOptions, TrainSpec, Trainer, run_with, start as begin,
};
use byrote::units::Nats;
use byrote::{Error, Result};
use numpy::PyArray1;
use pyo3::prelude::*;
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a callback asks of the run that waits for it.
enum Request {
    /// The model as it is.
    Model(Sender<Result<byrote::model::Model>>),
    /// To go on, or to stop.
    Done { stop: bool },
}

/// A step of a training run, as a callback sees it. All losses are sums over predictions.
#[pyclass(frozen, module = "byrote._byrote")]
pub struct Step {
    /// Steps taken.
    #[pyo3(get)]
    step: u64,
    /// The loss when it was last measured, in nats.
    #[pyo3(get)]
    loss_nats: f64,
    /// The loss minus the floor.
    #[pyo3(get)]
    gap_nats: f64,
    /// The lowest loss that any model can reach.
    #[pyo3(get)]
    floor_nats: f64,
    /// Predictions, over which these are summed.
    #[pyo3(get)]
    predictions: u64,
    /// Seconds of training so far.
    #[pyo3(get)]
    seconds: f64,
    requests: Mutex<Option<Sender<Request>>>,
    file: Arc<ModelFile>,
}

#[pymethods]
impl Step {
    /// The model with its current weights; only while the callback runs.
    fn model(&self, py: Python<'_>) -> PyResult<Model> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let over = || Error::setting("step", "the model can be asked for only while the callback runs");
        let (reply, answer) = channel();
        let sent = requests.is_some_and(|requests| requests.send(Request::Model(reply)).is_ok());
        if !sent {
            return Err(over()).or_raise(py);
        }
        let model = py.detach(move || answer.recv()).map_err(|_| over()).or_raise(py)?.or_raise(py)?;
        Ok(Model::from(ModelFile { model, ..(*self.file).clone() }))
    }
}

/// A callback and how often it is called.
struct Callback {
    function: Arc<Py<PyAny>>,
    every: u64,
    file: Arc<ModelFile>,
}

/// Watches a run that a callback may end. The call itself goes on: the model is evaluated as after any other stop.
struct Until<'a> {
    watch: &'a Watch,
    ended: AtomicBool,
}

impl Observer for Until<'_> {
    fn progress(&self, progress: &Progress<'_>) {
        self.watch.progress(progress);
    }

    fn should_stop(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.watch.should_stop()
    }
}

impl Callback {
    /// Lets Python see the trainer, and answers what it asks; ends the run if it says so.
    fn look(&self, trainer: &Trainer, watch: &Arc<Watch>, run: &Until<'_>) {
        let step = trainer.progress().step;
        if !step.is_multiple_of(self.every) {
            return;
        }
        let (requests, asked) = channel();
        let seen = Step {
            step,
            loss_nats: trainer.loss().0,
            gap_nats: trainer.gap().0,
            floor_nats: trainer.dataset().floor().0,
            predictions: trainer.dataset().predictions() as u64,
            seconds: trainer.seconds(),
            requests: Mutex::new(Some(requests.clone())),
            file: self.file.clone(),
        };
        let (function, own) = (self.function.clone(), watch.clone());
        watch.errand(move |py| {
            let call = || -> PyResult<bool> {
                let step = Py::new(py, seen)?;
                let answer = function.call1(py, (step.clone_ref(py),));
                *step.get().requests.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let answer = answer?;
                let answer = answer.bind(py);
                Ok(!answer.is_none() && answer.is_truthy()?)
            };
            let stop = call().unwrap_or_else(|error| {
                own.raise(error);
                true
            });
            let _ = requests.send(Request::Done { stop });
        });
        // Ends when the errand has run, or when nobody is left to run it.
        while let Ok(request) = asked.recv() {
            match request {
                Request::Model(reply) => drop(reply.send(trainer.model())),
                Request::Done { stop } => {
                    if stop {
                        run.ended.store(true, Ordering::Relaxed);
                    }
                    return;
                }
            }
        }
    }
}

/// The columns of a curve: steps, evaluations, losses.
type Curve<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>);

/// What a call needs.
struct Task {
    model: ModelSpec,
    training: TrainSpec,
    options: TrainOptions,
    tolerance: Nats,
    seed: u64,
    out: Option<PathBuf>,
}

/// Trains a model on a corpus. Returns it, a report as JSON, and the curve of losses. If Ctrl-C ends the run, the exception has
/// the same three as its attribute `partial`.
#[pyfunction]
#[pyo3(signature = (corpus, settings, *, seed=0, init=None, out=None, resume=false, checkpoint_every=None, tol=None,
                    callback=None, callback_every=1, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn train<'py>(
    py: Python<'py>,
    corpus: &Bound<'py, Corpus>,
    settings: &str,
    seed: u64,
    init: Option<&Bound<'py, Model>>,
    out: Option<PathBuf>,
    resume: bool,
    checkpoint_every: Option<f64>,
    tol: Option<f64>,
    callback: Option<Py<PyAny>>,
    callback_every: u64,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<(Model, String, Curve<'py>)> {
    let every = checkpoint_every.unwrap_or(TrainOptions::default().checkpoint_every);
    let task = || -> Result<(Task, Option<ModelFile>)> {
        let mut given = Keywords::parse(settings)?;
        let (model, training): (ModelSpec, TrainSpec) = (given.take()?, given.take()?);
        given.finish()?;
        let options = TrainOptions::default().resume(resume).checkpoint_every(every);
        options.check()?;
        model.check()?;
        training.resolve(seed)?;
        let tolerance = tol.map_or(TOLERANCE, Nats);
        check_tolerance(tolerance)?;
        if resume && out.is_none() {
            return Err(Error::setting("resume", "needs `out`, the directory of the run"));
        }
        if callback_every == 0 {
            return Err(Error::setting("callback_every", "must be at least 1 (got 0)"));
        }
        let exact = "its weights are exact numbers, which cannot be trained";
        let init = init.map(|model| model.get().transformer(exact).cloned()).transpose()?;
        if init.is_some() && !model.is_empty() {
            return Err(Error::setting("init", "already has a shape; leave the settings of the model out"));
        }
        Ok((Task { model, training, options, tolerance, seed, out }, init))
    };
    let (task, init) = task().or_raise(py)?;
    let held = corpus.get().held.clone();
    let callback = callback.map(|function| (Arc::new(function), callback_every));
    let ended = work::run_to_end(py, How::new(threads, watch), move |watch| {
        let begun = Instant::now();
        let corpus = held.full(&**watch)?;
        let start = match init {
            Some(file) => Start::Weights(Box::new(file)),
            None => Start::Random(&task.model, task.seed),
        };
        let (dataset, file) = begin(&corpus, start, &task.training, task.out.is_some(), memory::free())?;
        let directory = task.out.as_deref().map(RunDirectory::open).transpose()?;
        let limit = held.spec.max_memory.or(memory::free().map(|free| free / 2));
        let run = steps(file, &dataset, &task, directory.as_ref(), limit, callback, watch)?;
        let found = measured(&run, &dataset, task.tolerance, watch)?;
        let mut object = json::training(&run, found.as_ref(), directory.as_ref());
        object["seed"] = json!(task.seed);
        object["window_sample"] = json!(corpus.window_sample());
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        let curve = run.trainer.curve().rows().to_vec();
        Ok((run.result, object.to_string(), curve))
    })?;
    let Ended { result, raised } = ended;
    let shown = |(file, report, curve): (ModelFile, String, Vec<CurvePoint>)| {
        let steps = curve.iter().map(|p| p.step as i64).collect();
        let evaluations = curve.iter().map(|p| p.evaluations as i64).collect();
        let losses = curve.iter().map(|p| p.loss.0).collect();
        let curve = (
            PyArray1::from_vec(py, steps),
            PyArray1::from_vec(py, evaluations),
            PyArray1::from_vec(py, losses),
        );
        (Model::from(file), report, curve)
    };
    match raised {
        None => Ok(shown(result.or_raise(py)?)),
        Some(error) => {
            if let Ok(partial) = result {
                // An exception without room for attributes keeps its own.
                let _ = error.value(py).setattr("partial", shown(partial));
            }
            Err(error)
        }
    }
}

fn steps(
    file: ModelFile,
    dataset: &Arc<Dataset>,
    task: &Task,
    directory: Option<&RunDirectory>,
    memory: Option<u64>,
    callback: Option<(Arc<Py<PyAny>>, u64)>,
    watch: &Arc<Watch>,
) -> Result<Run> {
    let (settings, limits) = task.training.resolve(task.seed)?;
    let callback =
        callback.map(|(function, every)| Callback { function, every, file: Arc::new(file.clone()) });
    let run = Until { watch, ended: AtomicBool::new(false) };
    let look = |trainer: &Trainer| {
        if let Some(callback) = &callback {
            callback.look(trainer, watch, &run);
        }
    };
    run_with(file, dataset, (settings, limits.memory(memory)), directory, task.options, &run, look)
}

/// Evaluates the model of a run, unless the call is interrupted: then nobody wants to wait, and the run is kept without.
fn measured(run: &Run, dataset: &Dataset, tolerance: Nats, watch: &Arc<Watch>) -> Result<Option<Evaluation>> {
    match evaluate(&run.result.model, dataset, tolerance, 10, &**watch) {
        Err(Error::Interrupted) => Ok(None),
        found => found.map(Some),
    }
}
