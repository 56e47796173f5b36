//! What all requests share.

use crate::Host;
use crate::corpus_view::LoadedCorpus;
use crate::events::Events;
use crate::follow::Runs;
use crate::guard::Guard;
use crate::models_view::Models;
use crate::places::Places;
use crate::tasks::Tasks;
use crate::trainings::Trainings;
use byrote::{Error, Result};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The text: being read, there, or not to be had.
#[derive(Debug, Clone)]
pub enum CorpusState {
    /// Being read, and how far.
    Loading(Value),
    /// Read.
    Ready(Arc<LoadedCorpus>),
    /// It cannot be read, and why.
    Failed(Value),
}

/// What all requests share.
pub struct State {
    /// What may be read.
    pub places: Places,
    /// Who may ask.
    pub guard: Guard,
    /// Pages that listen.
    pub events: Events,
    /// Run directories, as they grow.
    pub runs: Mutex<Runs>,
    /// Models that were loaded.
    pub models: Models,
    /// Long computations.
    pub tasks: Tasks,
    /// Trainings that were started from a page.
    pub trainings: Trainings,
    /// Threads per computation.
    pub threads: usize,
    corpus: Mutex<CorpusState>,
    host: Arc<dyn Host>,
    ended: AtomicBool,
}

impl State {
    /// Nothing is loaded yet.
    pub fn new(places: Places, guard: Guard, threads: usize, host: Arc<dyn Host>) -> Result<Self> {
        Ok(Self {
            places,
            guard,
            events: Events::new(),
            runs: Mutex::default(),
            models: Models::default(),
            tasks: Tasks::default(),
            trainings: Trainings::default(),
            threads,
            corpus: Mutex::new(CorpusState::Loading(Value::Null)),
            host,
            ended: AtomicBool::new(false),
        })
    }

    /// Whether everything should end.
    pub fn should_stop(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.host.should_stop()
    }

    /// Ends what is at work, and waits for trainings to be saved.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.trainings.wait();
    }

    /// Tells the terminal.
    pub fn note(&self, text: &str) {
        self.host.note(text);
    }

    /// Whether there is work to save.
    pub fn keeps(&self, yes: bool) {
        self.host.keeps(yes);
    }

    /// The text, as far as it is there.
    pub fn corpus_state(&self) -> CorpusState {
        held(&self.corpus).clone()
    }

    /// Changes the text, and tells all pages.
    pub fn set_corpus(&self, new: CorpusState) {
        let data = match &new {
            CorpusState::Loading(progress) => serde_json::json!({"state": "loading", "progress": progress}),
            CorpusState::Ready(_) => serde_json::json!({"state": "ready"}),
            CorpusState::Failed(_) => serde_json::json!({"state": "failed"}),
        };
        *held(&self.corpus) = new;
        self.events.send("corpus", &data);
    }

    /// The text, or an error if it is not there.
    pub fn corpus(&self) -> Result<Arc<LoadedCorpus>> {
        match self.corpus_state() {
            CorpusState::Ready(corpus) => Ok(corpus),
            CorpusState::Loading(_) => {
                Err(Error::setting("corpus", "is still being read; try again in a moment"))
            }
            CorpusState::Failed(error) => {
                let message = error["message"].as_str().unwrap_or("unknown reason");
                Err(Error::setting("corpus", format!("could not be read: {message}")))
            }
        }
    }

    /// Runs work in a pool of the threads asked for.
    pub fn in_pool<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads).build();
        let pool = pool.map_err(|e| Error::setting("threads", e.to_string()))?;
        Ok(pool.install(work))
    }
}

/// What a lock holds, even if a thread has panicked with it: every value is whole at any time.
pub fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
