//! Work that takes time: in threads of its own, with the interpreter released, watched from the thread that called.
//!
//! Every call has a pool of its own, so calls do not wait for each other and nothing is left to break after a `fork`. The calling
//! thread wakes every few milliseconds: it lets Python handle signals, shows the progress, and runs errands, which are calls of
//! Python code that the work needs. If a signal handler raises (Ctrl-C does), the work is asked to stop. Work that does not stop
//! within a tenth of a second and has nothing to keep is left to end by itself; no new work starts while much is left, because each
//! holds its memory.

use crate::error::raised;
use byrote::observe::{Detail, Observer, Progress, Stage};
use byrote::{Error, Result};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The name of the threads.
const THREADS: &str = "byrote";
/// How often the calling thread looks for signals.
const LOOK: Duration = Duration::from_millis(20);
/// How often progress is shown.
const SHOW: Duration = Duration::from_millis(100);
/// How long work may take to stop if it has nothing to keep.
const GRACE: Duration = Duration::from_millis(60);
/// How long it may take if it has.
const LONG_GRACE: Duration = Duration::from_secs(10);

/// How many jobs may be left to end by themselves before a new one waits for them.
const MOST_LEFT: u64 = 2;

/// Jobs that were left to end by themselves and have not ended, with the process they belong to in the upper half: after a `fork`
/// they are not there.
static LEFT: AtomicU64 = AtomicU64::new(0);

fn own(count: u64) -> u64 {
    u64::from(std::process::id()) << 32 | count
}

fn left() -> u64 {
    let found = LEFT.load(Ordering::SeqCst);
    if found >> 32 == u64::from(std::process::id()) { found & u64::from(u32::MAX) } else { 0 }
}

fn count_left(change: impl Fn(u64) -> u64) {
    let update = |_| Some(own(change(left())));
    let _ = LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update);
}

/// Where a job is: [`RUNS`], [`ENDED`] or [`IS_LEFT`].
#[derive(Debug, Default)]
struct Place(AtomicU8);

const RUNS: u8 = 0;
const ENDED: u8 = 1;
const IS_LEFT: u8 = 2;

impl Place {
    /// The job has ended.
    fn end(&self) {
        if self.0.swap(ENDED, Ordering::SeqCst) == IS_LEFT {
            count_left(|n| n.saturating_sub(1));
        }
    }

    /// Nobody waits for the job any more.
    fn leave(&self) {
        count_left(|n| n + 1);
        if self.0.compare_exchange(RUNS, IS_LEFT, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            count_left(|n| n.saturating_sub(1));
        }
    }
}

/// How a call works: its threads, and the Python object that shows progress (`byrote._progress.Watch`).
#[derive(Debug, Default)]
pub struct How {
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
}

impl How {
    /// From what Python gives.
    pub fn new(threads: Option<usize>, watch: Option<Py<PyAny>>) -> Self {
        Self { threads, watch }
    }
}

/// A call of Python code.
type Errand = Box<dyn FnOnce(Python<'_>) + Send>;

enum Event {
    Errand(Errand),
    Done,
}

/// What the work has reported.
#[derive(Debug, Default)]
struct Seen {
    latest: Option<Latest>,
    notes: Vec<(bool, String)>,
    /// An exception that an errand has raised.
    raised: Option<PyErr>,
}

#[derive(Debug, Clone)]
struct Latest {
    stage: Stage,
    done: u64,
    total: Option<u64>,
    details: Vec<(&'static str, f64)>,
}

/// The observer of a call.
pub struct Watch {
    stop: AtomicBool,
    keeps: AtomicBool,
    seen: Mutex<Seen>,
    events: Mutex<Sender<Event>>,
}

impl Watch {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, event: Event) -> bool {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event).is_ok()
    }

    /// Asks the work to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Runs Python code in the calling thread without waiting for it; returns whether somebody is there to run it.
    pub fn errand(&self, run: impl FnOnce(Python<'_>) + Send + 'static) -> bool {
        self.send(Event::Errand(Box::new(run)))
    }

    /// Runs Python code in the calling thread and returns what it returns. An exception ends the work and is raised.
    pub fn in_python<R: Send + 'static>(
        self: &Arc<Self>,
        run: impl FnOnce(Python<'_>) -> PyResult<R> + Send + 'static,
    ) -> Result<R> {
        let (reply, answer) = channel();
        let watch = self.clone();
        self.errand(move |py| match run(py) {
            Ok(value) => drop(reply.send(value)),
            Err(error) => watch.raise(error),
        });
        answer.recv().map_err(|_| Error::Interrupted)
    }

    /// Ends the work with an exception.
    pub fn raise(&self, error: PyErr) {
        self.seen().raised.get_or_insert(error);
        self.stop();
    }
}

impl Observer for Watch {
    fn progress(&self, progress: &Progress<'_>) {
        self.keeps.store(!progress.stage.has_nothing_to_keep(), Ordering::Relaxed);
        let mut seen = self.seen();
        match progress.detail {
            Detail::Note(text) => return seen.notes.push((false, text.to_owned())),
            Detail::Warning(text) => return seen.notes.push((true, text.to_owned())),
            _ => {}
        }
        let per = |nats: f64, predictions: u64| nats / predictions.max(1) as f64;
        let details = match progress.detail {
            Detail::Documents(documents) => vec![("documents", documents as f64)],
            Detail::Training { loss, gap, predictions, .. } => {
                vec![("loss", per(loss.0, predictions)), ("gap", per(gap.0, predictions))]
            }
            _ => Vec::new(),
        };
        let Progress { stage, done, total, .. } = *progress;
        seen.latest = Some(Latest { stage, done, total, details });
    }

    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How a call ended: its result, and the exception that a signal or Python code raised meanwhile.
pub struct Ended<T> {
    /// What the work returned; interrupted if it was left to end by itself.
    pub result: Result<T>,
    /// What is to be raised.
    pub raised: Option<PyErr>,
}

impl<T> Ended<T> {
    /// The result, or the exception.
    pub fn done(self, py: Python<'_>) -> PyResult<T> {
        match self.raised {
            Some(error) => Err(error),
            None => self.result.map_err(|error| raised(py, &error)),
        }
    }
}

/// What a job leaves behind.
type Outcome<T> = std::thread::Result<Result<T>>;

/// Runs a job and returns its result, or raises.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    how: How,
    job: impl FnOnce(&Arc<Watch>) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    run_to_end(py, how, job)?.done(py)
}

/// Like [`run`], for work that returns something even if it is interrupted.
pub fn run_to_end<T: Send + 'static>(
    py: Python<'_>,
    how: How,
    job: impl FnOnce(&Arc<Watch>) -> Result<T> + Send + 'static,
) -> PyResult<Ended<T>> {
    while left() >= MOST_LEFT {
        py.detach(|| std::thread::sleep(LOOK));
        py.check_signals()?;
    }
    let pool = pool(how.threads).map_err(|error| raised(py, &error))?;
    let (send, receive) = channel();
    let watch = Arc::new(Watch {
        stop: AtomicBool::new(false),
        keeps: AtomicBool::new(false),
        seen: Mutex::default(),
        events: Mutex::new(send),
    });
    let outcome: Arc<Mutex<Option<Outcome<T>>>> = Arc::default();
    let place: Arc<Place> = Arc::default();
    let (kept, seen, ended) = (outcome.clone(), watch.clone(), place.clone());
    let thread = std::thread::Builder::new().name(THREADS.into()).spawn(move || {
        let found = catch_unwind(AssertUnwindSafe(|| pool.install(|| job(&seen))));
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        ended.end();
        seen.send(Event::Done);
    });
    thread.map_err(|e| PyRuntimeError::new_err(format!("cannot start a thread: {e}")))?;
    let interrupted = follow(py, &watch, receive, how.watch.as_ref());
    let found = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    let result = match found {
        Some(Ok(result)) => result,
        Some(Err(panic)) => return Err(bug(&*panic)),
        None => {
            place.leave();
            Err(Error::Interrupted)
        }
    };
    let raised = interrupted.or_else(|| watch.seen().raised.take());
    Ok(Ended { result, raised })
}

/// Waits for the work to end; returns the exception that a signal handler has raised.
fn follow(
    py: Python<'_>,
    watch: &Watch,
    mut events: Receiver<Event>,
    show: Option<&Py<PyAny>>,
) -> Option<PyErr> {
    let mut interrupted: Option<(PyErr, Instant)> = None;
    let mut shown = Instant::now();
    loop {
        let event;
        (events, event) = py.detach(move || {
            let event = events.recv_timeout(LOOK);
            (events, event)
        });
        match event {
            Ok(Event::Done) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Event::Errand(run)) => run(py),
            Err(RecvTimeoutError::Timeout) => {}
        }
        match &interrupted {
            None => {
                if let Err(error) = py.check_signals() {
                    watch.stop();
                    interrupted = Some((error, Instant::now()));
                }
            }
            Some((_, since)) => {
                let grace = if watch.keeps.load(Ordering::Relaxed) { LONG_GRACE } else { GRACE };
                // A second Ctrl-C does not wait.
                if since.elapsed() > grace || py.check_signals().is_err() {
                    break;
                }
            }
        }
        if let Some(show) = show.filter(|_| shown.elapsed() >= SHOW) {
            shown = Instant::now();
            if let Err(error) = report(py, watch, show) {
                watch.raise(error);
            }
        }
    }
    if let Some(show) = show {
        let told = notes(py, watch, show).and_then(|()| show.call_method0(py, "close").map(|_| ()));
        if let Err(error) = told {
            watch.raise(error);
        }
    }
    interrupted.map(|(error, _)| error)
}

/// Tells the Python object how far the work has come.
fn report(py: Python<'_>, watch: &Watch, show: &Py<PyAny>) -> PyResult<()> {
    notes(py, watch, show)?;
    let Some(latest) = watch.seen().latest.clone() else { return Ok(()) };
    let details = PyDict::new(py);
    for (name, value) in latest.details {
        details.set_item(name, value)?;
    }
    let stage = latest.stage;
    show.call_method1(py, "show", (stage.to_string(), stage.unit(), latest.done, latest.total, details))?;
    Ok(())
}

fn notes(py: Python<'_>, watch: &Watch, show: &Py<PyAny>) -> PyResult<()> {
    let notes = std::mem::take(&mut watch.seen().notes);
    for (is_warning, text) in notes {
        show.call_method1(py, "note", (text, is_warning))?;
    }
    Ok(())
}

fn pool(threads: Option<usize>) -> Result<rayon::ThreadPool> {
    let threads = match threads {
        Some(0) => return Err(Error::setting("threads", "must be at least 1 (got 0)")),
        Some(n) if n > 4096 => {
            return Err(Error::setting("threads", format!("must be at most 4096 (got {n})")));
        }
        Some(n) => n,
        None => 0, // rayon's word for all cores
    };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|_| THREADS.into())
        .build()
        .map_err(|e| Error::setting("threads", e.to_string()))
}

/// Lets panics in the threads of this module pass in silence: they become exceptions, or errors if another crate panics on hostile
/// input. Panics elsewhere are reported as before.
pub fn silence_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(THREADS) {
            before(panic);
        }
    }));
}

/// The exception for a panic, which is a bug.
fn bug(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    PyRuntimeError::new_err(format!("a bug in byrote: {}", text.unwrap_or("a panic")))
}
