//! What run directories say, as they grow: journals of sweeps, and the gaps that running jobs report (`live.jsonl`).
//!
//! Files are read from where the last look ended, and only while a page listens. So a run does not notice how many pages watch it, and it
//! makes no difference which process runs it. What is new after a silence is sent within [`LOOK`]; while a run keeps talking, what it says
//! is collected for [`PAUSE`] and sent in one piece, because every piece makes every open page draw a frame.

use crate::places::Place;
use crate::runs_view;
use crate::state::{State, held};
use byrote::output::{Holds, LIVE_FILE, LiveLine, LivePoint, holder};
use byrote::sweep::{Job, JobRow, JobStatus, Record};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often directories are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long after something was sent they are looked at again. A page must show what is new within a second.
const PAUSE: Duration = Duration::from_millis(900);
/// The most points that are kept per job; beyond them every other one is dropped.
const POINTS: usize = 1200;
/// The most bytes that are read at a look.
const MOST_BYTES: u64 = 16 << 20;
/// A run whose process cannot be asked about is running if it has said something within this time.
const SILENT: Duration = Duration::from_secs(10);

/// Begins to follow all run directories, until the server ends.
pub fn start(state: &Arc<State>) -> JoinHandle<()> {
    let state = state.clone();
    std::thread::spawn(move || {
        while !state.should_stop() {
            let mut has_news = false;
            if state.events.has_listeners() {
                // A panic is a bug, and no reason to stop following.
                let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look(&state)));
                has_news = found.unwrap_or(false);
            }
            std::thread::sleep(if has_news { PAUSE } else { LOOK });
        }
    })
}

/// Looks at all directories and tells all pages what is new; whether anything is.
pub fn look(state: &State) -> bool {
    let places = state.places.directories();
    let mut runs = held(&state.runs);
    // Whoever looks must tell: what one request has read is not found again. The lock keeps events in order.
    let events = runs.refresh(&places);
    for (place, mut event) in events.iter().cloned() {
        if let Some(summary) = event.get_mut("summary") {
            runs_view::add_own(state, place, summary);
        }
        state.events.send("run", &event);
    }
    !events.is_empty()
}

/// All runs that are followed.
#[derive(Debug, Default)]
pub struct Runs(BTreeMap<PathBuf, Run>);

/// A run that is followed.
#[derive(Debug)]
pub struct Run {
    /// Its directory.
    pub place: Place,
    /// A sweep, a study's training runs, or one training.
    pub kind: Holds,
    /// The directory of the journal and of the curves.
    pub folder: PathBuf,
    /// The plan and the results of a sweep.
    pub record: Option<Record>,
    /// Why they cannot be read.
    pub error: Option<String>,
    /// What running jobs report.
    pub live: Live,
    /// The index in the plan of every row of the record.
    pub index: BTreeMap<String, usize>,
    journal: Option<u64>,
    /// Whether it was running when it was looked at last.
    was_running: bool,
}

/// One report: steps, seconds, gap in nats per prediction.
pub type Point = (u64, f64, f64);

/// What the jobs of a run report.
#[derive(Debug, Default)]
pub struct Live {
    /// The points of every job.
    pub points: BTreeMap<usize, Vec<Point>>,
    /// The steps that every job may take.
    pub steps: BTreeMap<usize, u64>,
    /// When the process began, in seconds since 1970.
    pub begun: u64,
    /// Seconds of earlier processes, then those of the last report.
    base: f64,
    last: f64,
    read: u64,
}

impl Live {
    /// Reads what was added since the last look; returns the new points.
    fn look(&mut self, path: &Path) -> Vec<(usize, Point)> {
        let Ok(mut file) = File::open(path) else { return Vec::new() };
        let length = file.metadata().map_or(0, |m| m.len());
        if length < self.read {
            *self = Self::default();
        }
        let mut bytes = Vec::new();
        let from = SeekFrom::Start(self.read);
        if length == self.read
            || file.seek(from).is_err()
            || file.take(MOST_BYTES).read_to_end(&mut bytes).is_err()
        {
            return Vec::new();
        }
        // A line that is being written is read at the next look.
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let lines =
            bytes[..whole].split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        lines.filter_map(|line| self.add(line)).collect()
    }

    fn add(&mut self, line: LiveLine) -> Option<(usize, Point)> {
        let LivePoint { job, step, steps, seconds, gap_nats, predictions } = match line {
            LiveLine::Begun { begun } => {
                self.base = self.last;
                self.begun = begun;
                return None;
            }
            LiveLine::State(point) => point,
        };
        self.last = self.base + seconds;
        self.steps.insert(job, steps);
        let points = self.points.entry(job).or_default();
        let point = (step, self.last, gap_nats / predictions.max(1) as f64);
        // A run that was resumed repeats what came after its last checkpoint.
        while points.last().is_some_and(|last| last.0 > step) {
            points.pop();
        }
        points.push(point);
        if points.len() > POINTS {
            let mut i = 0;
            points.retain(|_| {
                i += 1;
                i % 2 == 1 || i > POINTS
            });
        }
        Some((job, point))
    }
}

impl Runs {
    /// Looks at all directories; returns what has changed, as events.
    pub fn refresh<'a>(&mut self, places: &'a [Place]) -> Vec<(&'a Place, Value)> {
        let known: BTreeSet<&PathBuf> = places.iter().map(|place| &place.path).collect();
        self.0.retain(|path, _| known.contains(path));
        let mut events = Vec::new();
        for place in places {
            let Some(kind) = place.holds() else { continue };
            let is_new = !self.0.contains_key(&place.path);
            let Some(folder) = folder(place, kind) else { continue };
            let run = self.0.entry(place.path.clone()).or_insert_with(|| Run::new(place, kind, folder));
            let event = run.look();
            match is_new {
                true => events.push((place, json!({"run": place.id, "new": true}))),
                false => events.extend(event.map(|event| (place, event))),
            }
        }
        events
    }

    /// The run in a directory.
    pub fn get(&self, path: &Path) -> Option<&Run> {
        self.0.get(path)
    }

    /// All runs.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.0.values()
    }
}

/// The directory of a run's journal: of a study, that of its training runs.
fn folder(place: &Place, kind: Holds) -> Option<PathBuf> {
    match kind {
        Holds::Sweep | Holds::Training => Some(place.path.clone()),
        Holds::Study => place.file("training"),
        Holds::Audit | Holds::Page => None,
    }
}

impl Run {
    fn new(place: &Place, kind: Holds, folder: PathBuf) -> Self {
        Self {
            place: place.clone(),
            kind,
            folder,
            record: None,
            error: None,
            live: Live::default(),
            index: BTreeMap::new(),
            journal: None,
            was_running: false,
        }
    }

    /// Reads what is new; returns it as an event.
    fn look(&mut self) -> Option<Value> {
        let inside = Place { path: self.folder.clone(), ..self.place.clone() };
        let points = match inside.file(LIVE_FILE) {
            Some(path) => self.live.look(&path),
            None => Vec::new(),
        };
        let mut rows = Vec::new();
        if self.kind != Holds::Training {
            let size = inside.file("journal.jsonl").and_then(|path| path.metadata().ok()).map(|m| m.len());
            if self.record.is_none() && self.error.is_none() || size != self.journal {
                self.journal = size;
                rows = self.load(&inside);
            }
        }
        // A process that ends says nothing, but pages must hear of it.
        let is_running = self.is_running();
        let was_running = std::mem::replace(&mut self.was_running, is_running);
        if points.is_empty() && rows.is_empty() && was_running == is_running {
            return None;
        }
        let points = points.iter().map(|(job, (step, seconds, gap))| json!([job, step, seconds, gap]));
        Some(json!({
            "run": self.place.id,
            "points": points.collect::<Vec<_>>(),
            "rows": rows,
            "summary": self.summary(),
        }))
    }

    /// Reads the record again; returns the rows that are new.
    fn load(&mut self, inside: &Place) -> Vec<Value> {
        if !inside.contains(&["manifest.toml", "journal.jsonl"]) {
            self.error = Some("a file of this run is a link that leads out of its directory".into());
            return Vec::new();
        }
        match Record::load_rows(&self.folder) {
            Ok(record) => {
                self.error = None;
                let text = |job: &Job| serde_json::to_string(job).unwrap_or_default();
                let at: BTreeMap<String, usize> = record.planned.iter().map(text).zip(0..).collect();
                let place = |row: &JobRow| Some((row.job.clone(), *at.get(&text(&row.settings))?));
                self.index = record.rows.iter().filter_map(place).collect();
                let before = self.record.replace(record);
                let before: BTreeSet<&str> =
                    before.iter().flat_map(|record| &record.rows).map(|row| row.job.as_str()).collect();
                let rows = self.record.iter().flat_map(|record| &record.rows);
                rows.filter(|row| !before.contains(row.job.as_str())).map(|row| self.row(row)).collect()
            }
            Err(error) => {
                self.error = Some(error.to_string());
                Vec::new()
            }
        }
    }

    /// Whether its process is at work, as far as can be told from outside.
    pub fn is_running(&self) -> bool {
        if self.record.as_ref().is_some_and(Record::is_complete) {
            return false;
        }
        let spoke = self.folder.join(LIVE_FILE).metadata().and_then(|m| m.modified()).ok();
        if spoke.and_then(|time| time.elapsed().ok()).is_some_and(|time| time < SILENT / 5) {
            return true;
        }
        match holder(&self.folder) {
            Some((process, _)) if cfg!(target_os = "linux") => {
                process != std::process::id() && Path::new(&format!("/proc/{process}")).exists()
            }
            Some(_) => spoke.and_then(|time| time.elapsed().ok()).is_some_and(|time| time < SILENT),
            None => false,
        }
    }

    /// The jobs that have reported and have no result yet.
    pub fn running_jobs(&self) -> impl Iterator<Item = usize> + '_ {
        let over: BTreeSet<usize> = self.index.values().copied().collect();
        let recent = self.live.last - 30.0;
        let is_recent = move |points: &[Point]| points.last().is_some_and(|point| point.1 >= recent);
        self.live
            .points
            .iter()
            .filter(move |(job, points)| !over.contains(job) && is_recent(points))
            .map(|(job, _)| *job)
    }

    /// How far the run is, as far as its files tell.
    pub fn summary(&self) -> Value {
        let running = self.is_running();
        let (jobs, done, failed) = match &self.record {
            Some(record) => {
                let done = record.done().count();
                (record.jobs, done, record.rows.iter().filter(|row| row.status == JobStatus::Failed).count())
            }
            None => (1, 0, 0),
        };
        // A training writes its model when it ends.
        let complete = match self.kind {
            Holds::Training => !running && self.place.file("model.safetensors").is_some(),
            _ => self.record.as_ref().is_some_and(Record::is_complete),
        };
        let state = match (running, complete) {
            (_, true) => "done",
            (true, _) => "running",
            _ => "not running",
        };
        let is_training = self.kind == Holds::Training;
        let last = self.live.points.get(&0).and_then(|points| points.last()).copied().filter(|_| is_training);
        // Between its last report and its end a training goes on.
        let last = if is_training && complete { self.end_of_curve().or(last) } else { last };
        json!({
            "id": self.place.id,
            "name": self.place.name,
            "kind": match self.kind { Holds::Study => "study", Holds::Training => "training", _ => "sweep" },
            "title": self.record.as_ref().map(|record| &record.name),
            "state": state,
            "jobs": jobs,
            "done": done,
            "failed": failed,
            "running": if running { self.running_jobs().count() } else { 0 },
            "eta_seconds": running.then(|| self.eta(jobs, done + failed)).flatten(),
            "seconds": self.live.last,
            "step": last.map(|point| point.0),
            "steps": self.live.steps.get(&0).filter(|_| is_training),
            "gap_nats_per_prediction": last.map(|point| point.2),
            "lowest_gap_nats_per_prediction": self.lowest_gap(),
            "error": self.error,
        })
    }

    /// The last point of the curve that a training writes when it ends.
    fn end_of_curve(&self) -> Option<Point> {
        let mut file = File::open(self.place.file("curve.csv")?).ok()?;
        let length = file.metadata().ok()?.len();
        let mut heads = String::new();
        BufReader::new(&file).take(1 << 10).read_line(&mut heads).ok()?;
        file.seek(SeekFrom::Start(length.saturating_sub(1 << 10))).ok()?;
        let mut end = Vec::new();
        file.take(1 << 10).read_to_end(&mut end).ok()?;
        let end = String::from_utf8_lossy(&end);
        let last = end.trim_end().lines().last()?;
        let column = |name: &str| {
            let at = heads.trim_end().split(',').position(|head| head == name)?;
            last.split(',').nth(at)
        };
        let step = column("step")?.parse().ok()?;
        Some((step, self.live.last, column("gap_nats_per_prediction")?.parse().ok()?))
    }

    /// The smallest gap of the jobs that are done.
    fn lowest_gap(&self) -> Option<f64> {
        let done = self.record.iter().flat_map(Record::done);
        done.filter_map(JobRow::gap_per_prediction).min_by(f64::total_cmp)
    }

    /// How long the rest takes, by the mean of what is over; of a training, at most.
    fn eta(&self, jobs: usize, over: usize) -> Option<f64> {
        if self.kind == Holds::Training {
            let points = self.live.points.get(&0)?;
            let (first, last) = (points.first()?, points.last()?);
            let pace = (last.1 - first.1) / (last.0.checked_sub(first.0).filter(|steps| *steps > 0)? as f64);
            return Some(pace * self.live.steps.get(&0)?.saturating_sub(last.0) as f64);
        }
        let record = self.record.as_ref()?;
        let mean = record.job_seconds.values().sum::<f64>() / (record.job_seconds.len().max(1) as f64);
        let running: Vec<usize> = self.running_jobs().collect();
        let begun = running.iter().filter_map(|job| {
            let done = self.live.points.get(job)?.last()?.0 as f64;
            Some((done / *self.live.steps.get(job)? as f64).min(1.0))
        });
        let left = (jobs - over.min(jobs)) as f64 - begun.sum::<f64>();
        (!record.job_seconds.is_empty()).then(|| mean * left.max(0.0) / running.len().max(1) as f64)
    }

    /// A job that has ended.
    pub fn row(&self, row: &JobRow) -> Value {
        let record = self.record.as_ref();
        let result = row.result.as_ref();
        json!({
            "index": self.index.get(&row.job),
            "job": row.job,
            "status": row.status,
            "documents": row.documents,
            "contexts": row.contexts,
            "d_mlp": row.d_mlp,
            "parameters": row.parameters,
            "seed": row.settings.seed,
            "steps": result.map(|r| r.steps),
            "stop": result.map(|r| r.stop),
            "loss_nats_per_prediction": row.loss_per_prediction(),
            "gap_nats_per_prediction": row.gap_per_prediction(),
            "memorized": result.map(|r| r.memorized),
            "accuracy": result.map(|r| r.accuracy),
            "seconds": record.and_then(|record| record.job_seconds.get(&row.job)),
            "error": row.error,
        })
    }

    /// What tells the jobs of the plan apart: the settings that differ, as text per job.
    pub fn labels(&self) -> Vec<String> {
        let Some(record) = &self.record else { return vec![self.place.name.clone()] };
        let flat: Vec<Map<String, Value>> = record.planned.iter().map(|job| flattened(&json!(job))).collect();
        let keys: BTreeSet<&String> = flat.iter().flat_map(Map::keys).collect();
        let differs = |key: &&String| {
            let first = flat.first().and_then(|job| job.get(key.as_str()));
            flat.iter().any(|job| job.get(key.as_str()) != first)
        };
        let keys: Vec<&String> = keys.into_iter().filter(differs).collect();
        let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let label = |(i, job): (usize, &Map<String, Value>)| {
            let parts =
                keys.iter().filter_map(|key| Some(format!("{key} {}", value(job.get(key.as_str())?))));
            let text = parts.collect::<Vec<_>>().join(", ");
            if text.is_empty() { format!("job {}", i + 1) } else { text }
        };
        flat.iter().enumerate().map(label).collect()
    }
}

/// The settings of a job by their own names, without those that are not given.
fn flattened(job: &Value) -> Map<String, Value> {
    let mut flat = Map::new();
    for (name, value) in job.as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => flat.extend(inner.iter().map(|(k, v)| (k.clone(), v.clone()))),
            other => {
                flat.insert(name.clone(), other.clone());
            }
        }
    }
    flat.retain(|_, value| !value.is_null());
    flat
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn points_are_read_once_and_a_line_that_is_being_written_later() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(LIVE_FILE);
        let mut file = File::create(&path).unwrap();
        let mut live = Live::default();
        let line = |step: u64, seconds: f64| {
            format!(
                "{{\"job\":1,\"step\":{step},\"steps\":100,\"seconds\":{seconds},\"gap_nats\":8.0,\"predictions\":4}}\n"
            )
        };
        write!(file, "{{\"begun\":5}}\n{}{}", line(0, 0.5), &line(10, 1.5)[..20]).unwrap();
        assert_eq!(live.look(&path), [(1, (0, 0.5, 2.0))]);
        write!(file, "{}", &line(10, 1.5)[20..]).unwrap();
        assert_eq!(live.look(&path), [(1, (10, 1.5, 2.0))]);
        assert!(live.look(&path).is_empty());
        // Another process resumes from step 5: time goes on, later steps are repeated.
        write!(file, "{{\"begun\":9}}\nrubbish\n{}", line(5, 0.25)).unwrap();
        assert_eq!(live.look(&path), [(1, (5, 1.75, 2.0))]);
        assert_eq!(live.points[&1], [(0, 0.5, 2.0), (5, 1.75, 2.0)]);
    }

    #[test]
    fn a_long_run_keeps_few_points_and_the_last() {
        let mut live = Live::default();
        for step in 0..10_000 {
            live.add(LiveLine::State(LivePoint {
                job: 0,
                step,
                steps: 9,
                seconds: step as f64,
                gap_nats: 1.0,
                predictions: 1,
            }));
        }
        assert!(live.points[&0].len() <= POINTS + 1);
        assert_eq!(live.points[&0].last().unwrap().0, 9_999);
        assert_eq!(live.points[&0][0].0, 0);
    }
}
