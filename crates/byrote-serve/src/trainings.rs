//! Trainings that are started, paused, resumed and stopped from the page.
//!
//! Each has a directory with the files of `byrote train`, and its settings in `settings.json`, with what identifies its corpus. A
//! training that pauses saves a checkpoint and ends; resuming continues from it, with the same bytes as if it had never paused, even
//! after the server was started again, on the same corpus. No client is needed for a training to go on.
//!
//! Only directories in which the server writes anyway are controlled, and nothing is written through a link: a directory that came from
//! elsewhere could have one in the place of any file.

use crate::answer::sentence;
use crate::corpus_view::LoadedCorpus;
use crate::places::Place;
use crate::query;
use crate::state::{CorpusState, State, held};
use crate::typed;
use byrote::model::ModelSpec;
use byrote::observe::Observer;
use byrote::output::{OutputFile, holder};
use byrote::setting::Keywords;
use byrote::train::{self, RunDirectory, Start, Stop, TrainOptions, TrainSpec};
use byrote::{Error, Result, memory};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The most trainings at a time.
const MOST: usize = 4;
/// The file that holds the settings.
const SETTINGS: &str = "settings.json";
/// The file that says that a training is not to be resumed.
const ENDED: &str = "ended";
/// Seconds between checkpoints.
const CHECKPOINT_EVERY: f64 = 30.0;

/// What to train.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The name of its directory.
    name: Option<String>,
    seed: u64,
    model: ModelSpec,
    training: TrainSpec,
    /// What it is trained on; unknown of a training of an earlier version.
    corpus: Option<TrainedOn>,
}

/// A corpus, as a training remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TrainedOn {
    title: String,
    fingerprint: String,
}

impl TrainedOn {
    fn new(loaded: &LoadedCorpus) -> Option<Self> {
        Some(Self { title: loaded.spec.title(), fingerprint: loaded.fingerprint()?.to_owned() })
    }
}

/// The settings that belong to no spec.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Own {
    name: Option<String>,
    seed: Option<u64>,
}

impl Request {
    /// Reads settings by name; text that was typed becomes what it looks like.
    pub fn new(body: &Value) -> Result<Self> {
        let looks_like =
            |value: &Value| value.as_str().map_or_else(|| value.clone(), |text| query::setting(text.trim()));
        let given = body.as_object().ok_or_else(|| Error::setting("settings", "must be a JSON object"))?;
        let is_given = |value: &Value| value.as_str().is_none_or(|text| !text.trim().is_empty());
        let mut settings: Map<String, Value> = given
            .iter()
            .filter(|(_, value)| is_given(value))
            .map(|(k, v)| (k.clone(), looks_like(v)))
            .collect();
        // A name may look like a number.
        if let Some(name) = given.get("name").and_then(Value::as_str).filter(|name| !name.trim().is_empty()) {
            settings.insert("name".into(), json!(name.trim()));
        }
        let checked =
            |settings: &Map<String, Value>| Self::parse(settings).and_then(|read| read.check_settings());
        Self::parse(&settings)
            .map_err(|error| typed::reworded(error, &settings, |other| checked(other).err()))
    }

    fn parse(settings: &Map<String, Value>) -> Result<Self> {
        let mut keywords = Keywords::parse(&Value::Object(settings.clone()).to_string())?;
        let (own, model, training): (Own, ModelSpec, TrainSpec) =
            (keywords.take()?, keywords.take()?, keywords.take()?);
        keywords.finish()?;
        Ok(Self { name: own.name, seed: own.seed.unwrap_or(0), model, training, corpus: None })
    }

    /// Makes the checks that need no corpus.
    fn check_settings(&self) -> Result<()> {
        self.model.check()?;
        self.training.resolve(self.seed).map(|_| ())
    }

    /// Makes every check of a training; returns how large it would be.
    pub fn check(&self, state: &State) -> Result<Value> {
        if let Some(name) = &self.name {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if name.len() > 60 || !name.chars().all(allowed) || name.is_empty() {
                return Err(Error::setting("name", "must have at most 60 letters, digits, - and _"));
            }
            state.places.check_new(name)?;
        }
        self.check_settings()?;
        let (_, limits) = self.training.resolve(self.seed)?;
        let summary = &state.corpus()?.corpus.summary;
        let config = self.model.resolve(summary.d_vocab, u64::from(summary.n_ctx))?;
        train::check_weights(&config, &self.training, true, memory::free())?;
        Ok(json!({
            "parameters": config.n_parameters(),
            "parameters_by_kind": config.parameters_by_kind(),
            "contexts": summary.contexts,
            "steps": limits.steps,
        }))
    }
}

/// Where a training is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Pausing,
    Paused,
    /// Paused, and cannot be resumed here.
    Foreign,
    Stopping,
    Over,
    Failed,
}

/// A training of this process.
struct Training {
    phase: Phase,
    stop: Arc<AtomicBool>,
    error: Option<String>,
    ended: Option<String>,
    thread: Option<JoinHandle<()>>,
}

/// What a page shows of a training.
#[derive(Debug)]
pub struct Shown {
    /// One or two words.
    pub state: &'static str,
    /// Why it failed.
    pub error: Option<String>,
    /// Why it ended.
    pub stop: Option<String>,
    phase: Phase,
}

impl Shown {
    /// What can be done with it.
    pub fn controls(&self) -> &'static [&'static str] {
        match self.phase {
            Phase::Running => &["pause", "stop"],
            Phase::Paused => &["resume", "stop"],
            Phase::Foreign => &["stop"],
            Phase::Pausing | Phase::Stopping | Phase::Over | Phase::Failed => &[],
        }
    }
}

/// All trainings of this process, by directory.
#[derive(Default)]
pub struct Trainings(Mutex<BTreeMap<PathBuf, Training>>);

impl Trainings {
    /// The settings of a training that was started from a page.
    pub fn settings(&self, place: &Place) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(place.file(SETTINGS)?).ok()?).ok()
    }

    fn running(&self) -> usize {
        held(&self.0)
            .values()
            .filter(|t| matches!(t.phase, Phase::Running | Phase::Pausing | Phase::Stopping))
            .count()
    }

    /// Waits until all have saved what they have. They are asked to by the server's end.
    pub fn wait(&self) {
        let threads: Vec<JoinHandle<()>> =
            held(&self.0).values_mut().filter_map(|t| t.thread.take()).collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// The state of a training; none if it was not started from a page, or is not written by this server. One of an earlier process is
/// paused.
pub fn shown(state: &State, place: &Place) -> Option<Shown> {
    let known = held(&state.trainings.0)
        .get(&place.path)
        .map(|training| (training.phase, training.error.clone(), training.ended.clone()));
    let (mut phase, mut error, stop) = match known {
        Some(known) => known,
        None => {
            let is_own = place.path.parent() == Some(&state.places.runs) && place.file(SETTINGS).is_some();
            let is_over = place.path.join(ENDED).symlink_metadata().is_ok();
            if !is_own || is_over || runs_elsewhere(&place.path) {
                return None;
            }
            (Phase::Paused, None, None)
        }
    };
    if phase == Phase::Paused
        && let Err(why) = can_be_resumed(state, place)
    {
        (phase, error) = (Phase::Foreign, Some(why));
    }
    let name = match phase {
        Phase::Running => "running",
        Phase::Pausing => "pausing",
        Phase::Paused | Phase::Foreign => "paused",
        Phase::Stopping => "stopping",
        Phase::Over => "done",
        Phase::Failed => "failed",
    };
    Some(Shown { state: name, error, stop, phase })
}

/// Whether a training that is paused can be resumed on the corpus that is served, or why not. While the corpus is being read, nobody
/// knows yet.
fn can_be_resumed(state: &State, place: &Place) -> std::result::Result<(), String> {
    let request = stored(place).ok_or("its settings.json cannot be read")?;
    let (Some(before), CorpusState::Ready(loaded)) = (request.corpus, state.corpus_state()) else {
        return Ok(());
    };
    match TrainedOn::new(&loaded) {
        Some(now) if now.fingerprint == before.fingerprint => Ok(()),
        _ => Err(format!(
            "this training was started on another corpus ({}); serve that corpus to resume it",
            before.title
        )),
    }
}

/// The settings of a training, as it was started.
fn stored(place: &Place) -> Option<Request> {
    serde_json::from_slice(&std::fs::read(place.file(SETTINGS)?).ok()?).ok()
}

/// Starts a training; returns the id of its directory.
pub fn start(state: &Arc<State>, mut request: Request) -> Result<String> {
    if state.trainings.running() >= MOST {
        return Err(Error::setting(
            "settings",
            format!("{MOST} trainings are running; wait for one, or pause it"),
        ));
    }
    let name = match &request.name {
        Some(name) => name.clone(),
        None => {
            let free = |name: &String| state.places.check_new(name).is_ok();
            (1..).map(|n: u32| format!("training-{n}")).find(free).unwrap_or_default()
        }
    };
    request.corpus = TrainedOn::new(&*state.corpus()?);
    let directory = state.places.runs.join(&name);
    std::fs::create_dir(&directory).map_err(|e| Error::io(&directory, "create", e))?;
    let text = serde_json::to_string_pretty(&request).unwrap_or_default();
    OutputFile::write(&directory.join(SETTINGS), text.as_bytes())?;
    // So that it is a training run from its first moment on, before its weights are drawn.
    OutputFile::write(&directory.join(byrote::output::LIVE_FILE), b"")?;
    spawn(state, directory.clone(), request, false);
    // Its directory is known by its files, which the thread is about to write.
    for _ in 0..100 {
        if let Some(place) = state.places.directories().into_iter().find(|place| place.path == directory) {
            return Ok(place.id);
        }
        let failed = held(&state.trainings.0).get(&directory).and_then(|training| training.error.clone());
        if let Some(error) = failed {
            let _ = std::fs::remove_dir_all(&directory);
            held(&state.trainings.0).remove(&directory);
            return Err(Error::setting("settings", error));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(name)
}

/// Pauses, resumes or stops a training.
pub fn control(state: &Arc<State>, place: &Place, action: &str) -> Result<()> {
    let shown = shown(state, place)
        .ok_or_else(|| Error::setting("id", "only trainings started from this page can be controlled"))?;
    if let Some(link) = link_in(&place.path) {
        let message =
            format!("the directory of this training holds a link ({link}), and nothing is written there");
        return Err(Error::setting("id", message));
    }
    if !shown.controls().contains(&action) {
        return Err(Error::setting(
            "action",
            format!("cannot {action:?} a training that is {}", shown.state),
        ));
    }
    match (action, shown.phase) {
        ("resume", _) => {
            can_be_resumed(state, place).map_err(|why| Error::setting("action", why))?;
            let request = stored(place)
                .ok_or_else(|| Error::format(&place.path, "its settings.json cannot be read"))?;
            // One that was killed before its first checkpoint starts over.
            let has_checkpoint = place.file("checkpoint.safetensors").is_some();
            spawn(state, place.path.clone(), request, has_checkpoint);
        }
        ("stop", Phase::Paused | Phase::Foreign) => {
            finish(&place.path);
            if let Some(training) = held(&state.trainings.0).get_mut(&place.path) {
                training.phase = Phase::Over;
                training.ended = Some("stopped".into());
            }
        }
        _ => {
            if let Some(training) = held(&state.trainings.0).get_mut(&place.path) {
                training.phase = if action == "pause" { Phase::Pausing } else { Phase::Stopping };
                training.stop.store(true, Ordering::Relaxed);
            }
        }
    }
    state.events.send("runs", &json!({"id": place.id}));
    Ok(())
}

/// Whether another process is at work in a directory, as far as can be told: a process that was killed leaves its lock behind.
fn runs_elsewhere(directory: &Path) -> bool {
    let is_alive = |process: u32| Path::new(&format!("/proc/{process}")).exists();
    cfg!(target_os = "linux")
        && holder(directory).is_some_and(|(process, _)| process != std::process::id() && is_alive(process))
}

/// Notes that a training is not to be resumed. A file that is there already, or a link, is left alone.
fn finish(directory: &Path) {
    let _ = std::fs::File::create_new(directory.join(ENDED));
}

/// A link in the directory of a training; byrote writes none.
fn link_in(directory: &Path) -> Option<String> {
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let link = entries.find(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()))?;
    Some(link.file_name().to_string_lossy().into_owned())
}

/// Runs a training in a thread of its own.
fn spawn(state: &Arc<State>, directory: PathBuf, request: Request, resume: bool) {
    let stop = Arc::new(AtomicBool::new(false));
    let training =
        Training { phase: Phase::Running, stop: stop.clone(), error: None, ended: None, thread: None };
    held(&state.trainings.0).insert(directory.clone(), training);
    state.keeps(true);
    let (shared, place) = (state.clone(), directory.clone());
    let thread = std::thread::spawn(move || {
        let work = || shared.in_pool(|| train(&shared, &request, &place, resume, &stop))?;
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // Asked to stop before the first step, it has nothing to show, but it has not failed.
        let found = found.map(|result| match result {
            Err(Error::Interrupted) => Ok(Stop::Interrupted),
            other => other,
        });
        let mut all = held(&shared.trainings.0);
        if let Some(training) = all.get_mut(&place) {
            match found {
                Ok(Ok(Stop::Interrupted)) if training.phase == Phase::Stopping => {
                    training.phase = Phase::Over;
                    training.ended = Some("stopped".into());
                    finish(&place);
                }
                Ok(Ok(Stop::Interrupted)) => training.phase = Phase::Paused,
                Ok(Ok(stop)) => {
                    training.phase = Phase::Over;
                    training.ended = json!(stop.kind()).as_str().map(str::to_owned);
                    finish(&place);
                }
                Ok(Err(error)) => {
                    training.phase = Phase::Failed;
                    training.error = Some(sentence(&error));
                }
                Err(_) => {
                    training.phase = Phase::Failed;
                    training.error = Some("a bug in byrote, please report it".into());
                }
            }
        }
        drop(all);
        shared.keeps(shared.trainings.running() > 0);
        shared.events.send("runs", &Value::Null);
    });
    if let Some(training) = held(&state.trainings.0).get_mut(&directory) {
        training.thread = Some(thread);
    }
    state.events.send("runs", &Value::Null);
}

/// Asks to stop if the page, or the terminal, does.
struct Watch<'a> {
    state: &'a State,
    stop: &'a AtomicBool,
}

impl Observer for Watch<'_> {
    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.state.should_stop()
    }
}

fn train(
    state: &State,
    request: &Request,
    directory: &Path,
    resume: bool,
    stop: &AtomicBool,
) -> Result<Stop> {
    let loaded = state.corpus()?;
    let Request { seed, model, training, .. } = request;
    let (settings, limits) = training.resolve(*seed)?;
    let limits = limits.memory(memory::free().map(|free| free / 2));
    let (dataset, file) =
        train::start(&loaded.corpus, Start::Random(model, *seed), training, true, memory::free())?;
    let opened = RunDirectory::open(directory)?;
    let options = TrainOptions::default().resume(resume).checkpoint_every(CHECKPOINT_EVERY);
    let watch = Watch { state, stop };
    Ok(train::run(file, &dataset, (settings, limits), Some(&opened), options, &watch)?.stop)
}
