//! What a run is doing now, for those who watch it from another process: `live.jsonl` in its directory.
//!
//! ```text
//! {"begun":1794817114}                                                              a process began, in seconds since 1970
//! {"job":3,"step":120,"steps":10000,"seconds":4.25,"gap_nats":7.5,"predictions":900}   at most one line per job and quarter second
//! ```
//!
//! Seconds are those since the process began. Nothing depends on the file: a run whose file cannot be written continues, and results
//! are the same with or without it.

use super::lock::now;
use crate::observe::{Detail, Observer, Progress};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name of the file.
pub const LIVE_FILE: &str = "live.jsonl";
/// The least time between two lines of a job, and the largest least time, which a run of a quarter of an hour reaches.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));
/// The most bytes of the file: beyond them nothing is added.
const MOST: u64 = 64 << 20;

/// A line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LiveLine {
    /// A process began.
    Begun {
        /// When, in seconds since 1970.
        begun: u64,
    },
    /// The state of a job.
    State(LivePoint),
}

/// The state of a job at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LivePoint {
    /// Its index in the plan; 0 for a training run.
    pub job: usize,
    /// Steps it has taken.
    pub step: u64,
    /// Steps it may take.
    pub steps: u64,
    /// Seconds since the process began.
    pub seconds: f64,
    /// Its loss minus the floor.
    pub gap_nats: f64,
    /// Its predictions, over which the gap is summed.
    pub predictions: u64,
}

/// An observer that writes what it sees to the file, and passes everything on to another observer.
pub struct LiveLog<'a> {
    inner: &'a dyn Observer,
    began: Instant,
    state: Mutex<Option<State>>,
}

struct State {
    file: File,
    bytes: u64,
    written: BTreeMap<usize, Instant>,
}

impl State {
    fn append(&mut self, line: &LiveLine) -> Option<()> {
        let text = serde_json::to_string(line).ok()? + "\n";
        self.bytes += text.len() as u64;
        // One write per line, so that a reader never sees lines of two threads mixed.
        (self.bytes <= MOST).then(|| self.file.write_all(text.as_bytes()).ok()).flatten()
    }
}

impl<'a> LiveLog<'a> {
    /// Begins to write into a directory.
    pub fn new(directory: &Path, inner: &'a dyn Observer) -> Self {
        let open = || {
            let file = OpenOptions::new().create(true).append(true).open(directory.join(LIVE_FILE)).ok()?;
            let bytes = file.metadata().ok()?.len();
            let mut state = State { file, bytes, written: BTreeMap::new() };
            state.append(&LiveLine::Begun { begun: now() })?;
            Some(state)
        };
        Self { inner, began: Instant::now(), state: Mutex::new(open()) }
    }

    fn write(&self, point: LivePoint) {
        let elapsed = self.began.elapsed();
        let mut locked = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = locked.as_mut() else { return };
        let pause = (elapsed / 1000).clamp(PAUSE.0, PAUSE.1);
        let now = Instant::now();
        let is_due = |last: &Instant| now.duration_since(*last) >= pause;
        if state.written.get(&point.job).is_none_or(is_due) {
            state.written.insert(point.job, now);
            let line = LiveLine::State(LivePoint { seconds: elapsed.as_secs_f64(), ..point });
            if state.append(&line).is_none() {
                *locked = None;
            }
        }
    }
}

impl Observer for LiveLog<'_> {
    fn progress(&self, progress: &Progress<'_>) {
        let point = |job, step, steps, gap_nats, predictions| {
            self.write(LivePoint { job, step, steps, seconds: 0.0, gap_nats, predictions });
        };
        match progress.detail {
            Detail::Training { step, gap, predictions, .. } => {
                point(0, step, progress.total.unwrap_or(step), gap.0, predictions);
            }
            Detail::Job { job, step, steps, gap, predictions, .. } => {
                point(job, step, steps, gap.0, predictions);
            }
            _ => {}
        }
        self.inner.progress(progress);
    }

    fn should_stop(&self) -> bool {
        self.inner.should_stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Silent, Stage};
    use crate::units::Nats;

    #[test]
    fn the_first_report_of_every_job_is_written_and_a_burst_is_not() {
        let place = tempfile::tempdir().unwrap();
        let log = LiveLog::new(place.path(), &Silent);
        for step in 0..1000 {
            for job in [4, 7] {
                let detail =
                    Detail::Job { job, step, steps: 1000, gap: Nats(2.5), contexts: 3, predictions: 9 };
                log.progress(&Progress::new(Stage::Jobs, 0, Some(9)).with(detail));
            }
        }
        let text = std::fs::read_to_string(place.path().join(LIVE_FILE)).unwrap();
        let lines: Vec<LiveLine> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(lines[0], LiveLine::Begun { begun } if begun > 0));
        let LiveLine::State(point) = lines[1] else { panic!("{text}") };
        assert_eq!((point.job, point.step, point.gap_nats, point.predictions), (4, 0, 2.5, 9));
        assert!(lines.len() < 100, "{} lines", lines.len());
    }

    #[test]
    fn a_directory_that_is_not_there_changes_nothing() {
        let log = LiveLog::new(Path::new("/nowhere/at/all"), &Silent);
        let progress = Progress::new(Stage::Jobs, 0, None);
        let detail = Detail::Job { job: 0, step: 1, steps: 2, gap: Nats(1.0), contexts: 3, predictions: 9 };
        log.progress(&progress.with(detail));
        assert!(log.report(Stage::Jobs, 1, None).is_ok());
    }
}
