//! Computations that take longer than a request: a page starts one, hears of its progress, and asks for its result.
//!
//! One runs at a time, so that pages cannot take all threads from a training. Results are kept, so nothing is computed twice.

use crate::answer::error_json;
use crate::corpus_view::progress_json;
use crate::state::{State, held};
use byrote::observe::{Observer, Progress};
use byrote::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The most computations that wait or run.
const MOST: usize = 8;
/// The most results that are kept.
const KEPT: usize = 64;

/// Where a computation is.
#[derive(Debug, Clone)]
enum Task {
    Running(Value),
    Done(Arc<Value>),
    Failed(Value),
}

/// All computations, by key.
#[derive(Debug, Default)]
pub struct Tasks {
    all: Mutex<BTreeMap<String, Task>>,
    /// Whoever holds this computes.
    turn: Mutex<()>,
}

impl Tasks {
    /// What is known of a computation.
    pub fn state(&self, key: &str) -> Value {
        match held(&self.all).get(key) {
            None => json!({"state": "none"}),
            Some(Task::Running(progress)) => json!({"state": "running", "progress": progress}),
            Some(Task::Done(result)) => json!({"state": "done", "result": **result}),
            Some(Task::Failed(error)) => json!({"state": "failed", "error": error}),
        }
    }
}

/// Starts a computation, unless it runs or its result is there.
pub fn start(
    state: &Arc<State>,
    key: String,
    work: impl FnOnce(&State, &dyn Observer) -> Result<Value> + Send + 'static,
) -> Result<()> {
    {
        let mut all = held(&state.tasks.all);
        if matches!(all.get(&key), Some(Task::Running(_) | Task::Done(_))) {
            return Ok(());
        }
        if all.values().filter(|task| matches!(task, Task::Running(_))).count() >= MOST {
            return Err(Error::setting("task", "too many computations are waiting; try again later"));
        }
        let ended = |all: &BTreeMap<String, Task>| {
            all.iter().find(|(_, task)| !matches!(task, Task::Running(_))).map(|(key, _)| key.clone())
        };
        while all.len() >= KEPT {
            let Some(old) = ended(&all) else { break };
            all.remove(&old);
        }
        all.insert(key.clone(), Task::Running(Value::Null));
    }
    let state = state.clone();
    std::thread::spawn(move || {
        let observer = Watch { state: &state, key: &key, told: Mutex::new(Instant::now()) };
        let compute = || {
            let _turn = held(&state.tasks.turn);
            state.in_pool(|| work(&state, &observer))?
        };
        let found = match std::panic::catch_unwind(AssertUnwindSafe(compute)) {
            Ok(Ok(value)) => Task::Done(Arc::new(value)),
            Ok(Err(error)) => Task::Failed(error_json(&error)),
            Err(_) => {
                let message = "a bug in byrote, please report it: this computation failed";
                Task::Failed(json!({"kind": "bug", "message": message, "setting": null}))
            }
        };
        held(&state.tasks.all).insert(key.clone(), found);
        state.events.send("task", &json!({"key": key}));
    });
    Ok(())
}

/// Notes the progress of a computation, and tells pages a few times a second.
struct Watch<'a> {
    state: &'a State,
    key: &'a str,
    told: Mutex<Instant>,
}

impl Observer for Watch<'_> {
    fn progress(&self, progress: &Progress<'_>) {
        let mut told = held(&self.told);
        if told.elapsed() > Duration::from_millis(250) {
            *told = Instant::now();
            let progress = progress_json(progress);
            held(&self.state.tasks.all).insert(self.key.to_owned(), Task::Running(progress.clone()));
            self.state.events.send("task", &json!({"key": self.key, "progress": progress}));
        }
    }

    fn should_stop(&self) -> bool {
        self.state.should_stop()
    }
}
