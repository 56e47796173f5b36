//! The program's observer: progress on standard error, and Ctrl-C.

use crate::ui::{self, thousands};
use crate::{interrupt, spelling};
use byrote::observe::{Detail, Observer, Progress, Stage};
use byrote::report::text::duration;
use byrote::units::{Nats, significant};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const REDRAW: Duration = Duration::from_millis(100);
/// The widths of the bar, in characters: it becomes shorter before a number is left out.
const BARS: [usize; 4] = [24, 16, 8, 0];

/// Whether a line is drawn on standard error now, which has to be cleared before anything else is written there.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Draws a line with a bar for any stage that takes longer than a second, and asks the work to stop after Ctrl-C.
pub struct Terminal {
    quiet: bool,
    /// The gap at which training stops, in nats over all predictions.
    target: Option<f64>,
    shared: Arc<Shared>,
    /// Redraws while the work is silent; none where nothing is to be drawn.
    drawer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    current: Option<Current>,
    ended: bool,
}

/// What is known of the current stage.
struct Current {
    stage: Stage,
    started: Instant,
    /// How much was done when the stage began: earlier runs' steps and jobs.
    first: u64,
    done: u64,
    total: Option<u64>,
    /// The current numbers, most important first.
    numbers: Vec<String>,
    written: Instant,
    /// How much of the first of the pieces is done, where the pieces are large.
    share: f64,
    /// How far training has come, where it stops at a gap.
    way: Option<Way>,
}

/// How far a gap has fallen towards its target.
#[derive(Debug, Clone, Copy)]
struct Way {
    first: f64,
    smallest: f64,
    target: f64,
}

impl Way {
    /// From 0 to 1, on a logarithmic scale: halving the gap counts the same anywhere.
    fn share(self) -> f64 {
        let share = (self.first / self.smallest).ln() / (self.first / self.target).ln();
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

impl Terminal {
    /// An observer that draws only on a terminal, and nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let shared = Arc::new(Shared::default());
        let drawer = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.redraw())
        });
        Self { quiet, target: None, shared, drawer }
    }

    /// The same observer for training that stops at a gap, in nats over all predictions: the bar shows how near that is, since
    /// the limit of steps says nothing about it. A target of 0 is none.
    pub fn toward(mut self, target: Option<f64>) -> Self {
        self.target = target.filter(|&gap| gap > 0.0);
        self
    }
}

impl Shared {
    /// Draws the line ten times a second until the work ends.
    fn redraw(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.ended {
            let waited = self.ended.wait_timeout(state, REDRAW);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(current) = state.current.as_ref().filter(|c| c.started.elapsed() > PATIENCE) {
                let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |s| s.0.0);
                let line = current.line(current.started.elapsed(), usize::from(width).saturating_sub(1));
                let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
                DRAWN.store(true, Ordering::Relaxed);
            }
        }
        clear_line();
    }
}

/// Clears the line that is drawn on standard error, if any, so that something else can be written.
pub fn clear_line() {
    if DRAWN.swap(false, Ordering::Relaxed) {
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.shared.ended.notify_all();
        if let Some(drawer) = self.drawer.take() {
            let _ = drawer.join();
        }
    }
}

impl Observer for Terminal {
    fn progress(&self, progress: &Progress<'_>) {
        interrupt::in_stage(progress.stage);
        match progress.detail {
            Detail::Note(text) => return ui::note(self.quiet, &spelling::of_text(text)),
            Detail::Estimate { seconds, .. } => ui::note(self.quiet, &estimate(progress.total, seconds)),
            Detail::Warning(text) => return ui::note(false, &format!("byrote: {text}")),
            _ => {}
        }
        if self.drawer.is_none() {
            return;
        }
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut state.current {
            Some(current) if current.stage == progress.stage => current.update(progress),
            current => *current = Some(Current::new(progress, self.target)),
        }
    }

    fn should_stop(&self) -> bool {
        interrupt::asked()
    }
}

impl Current {
    fn new(progress: &Progress<'_>, target: Option<f64>) -> Self {
        let now = Instant::now();
        let Progress { stage, done, total, .. } = *progress;
        let (numbers, share) = numbers(&progress.detail, target);
        let way =
            target.zip(gap(&progress.detail)).map(|(target, gap)| Way { first: gap, smallest: gap, target });
        Self { stage, started: now, first: done, done, total, numbers, written: now, share, way }
    }

    fn update(&mut self, progress: &Progress<'_>) {
        // A stage may begin again, as a search at twice the precision does; its line stays.
        if progress.done == 0 && self.done > 0 && self.stage != Stage::Jobs {
            let started = Instant::now().checked_sub(PATIENCE).unwrap_or(self.started);
            *self = Self { started, ..Self::new(progress, self.way.map(|way| way.target)) };
            return;
        }
        // Threads report out of order.
        let again = progress.done < self.first;
        self.done = if again { progress.done } else { self.done.max(progress.done) };
        self.total = progress.total;
        if let (Some(way), Some(gap)) = (&mut self.way, gap(&progress.detail)) {
            way.smallest = way.smallest.min(gap);
        }
        if self.written.elapsed() >= REDRAW && progress.detail != Detail::None {
            (self.numbers, self.share) = numbers(&progress.detail, self.way.map(|way| way.target));
            self.written = Instant::now();
        }
    }

    /// The line, of at most `width` characters: what is least important is left out, first of all the bar.
    fn line(&self, elapsed: Duration, width: usize) -> String {
        let count = |n: u64| match self.stage.unit() {
            "bytes" => byrote::units::bytes(n),
            _ => thousands(n),
        };
        let unit =
            if self.stage.unit() == "bytes" { String::new() } else { format!(" {}", self.stage.unit()) };
        let mut parts = vec![self.stage.to_string()];
        match self.total {
            Some(total) => parts.push(format!("{} of {}{unit}", count(self.done), count(total))),
            None if self.done > 0 => parts.push(format!("{}{unit}", count(self.done))),
            None => {}
        }
        let bar = |length: usize| {
            let total = self.total.filter(|&t| t > 0 && length > 0)?;
            let share = self.way.map_or(self.done as f64 / total as f64, Way::share);
            let full = (share * length as f64).min(length as f64) as usize;
            Some(format!("{}{}", "█".repeat(full), "░".repeat(length - full)))
        };
        let time = match self.seconds_left(elapsed) {
            Some(seconds) => format!("{} left", duration(seconds)),
            None => duration(elapsed.as_secs_f64()),
        };
        for numbers in (0..=self.numbers.len()).rev() {
            let tries = BARS.map(|length| (bar(length), parts.as_slice()));
            // The last number is worth more than the name of the stage, which the unit tells as well.
            let nameless = (numbers == 1 && parts.len() > 1).then(|| (None, &parts[1..]));
            for (bar, parts) in tries.into_iter().chain(nameless) {
                let all = bar.iter().chain(parts).chain(&self.numbers[..numbers]).chain([&time]);
                let line = all.map(String::as_str).collect::<Vec<_>>().join("  ");
                if line.chars().count() <= width {
                    return line;
                }
            }
        }
        parts.swap_remove(0).chars().take(width).collect()
    }

    /// An estimate of the time that is left; none for training that stops at a gap, usually long before its limit of steps.
    fn seconds_left(&self, elapsed: Duration) -> Option<f64> {
        let total = self.total.filter(|_| self.way.is_none())?;
        let done = self.done.saturating_sub(self.first) as f64;
        // Until the first of a few large pieces is done, its own progress has to do.
        let done = if done > 0.0 { done } else { self.share };
        let left = total.saturating_sub(self.first) as f64 - done;
        (done > 0.0).then(|| elapsed.as_secs_f64() / done * left.max(0.0))
    }
}

/// A total as an amount per prediction.
fn each(total: Nats, predictions: u64) -> String {
    significant(total.per(predictions).unwrap_or(total).0, 3)
}

/// How much there is to do and how long it will take, as a sentence.
fn estimate(tokens: Option<u64>, seconds: Option<f64>) -> String {
    let tokens = byrote::units::counted(tokens.unwrap_or(0), "token");
    match seconds {
        Some(seconds) if seconds >= 1.0 => {
            format!("{tokens} to evaluate, which takes about {}", duration(seconds))
        }
        Some(_) => format!("{tokens} to evaluate, which takes less than a second"),
        None => format!("{tokens} to evaluate"),
    }
}

/// The gap of a training run, where it is reported.
fn gap(detail: &Detail<'_>) -> Option<f64> {
    match *detail {
        Detail::Training { gap, .. } => Some(gap.0),
        _ => None,
    }
}

/// The numbers of a report in words, most important first, and how much of the current piece is done; for training that stops at a
/// gap, with this target.
fn numbers(detail: &Detail<'_>, target: Option<f64>) -> (Vec<String>, f64) {
    if let (Detail::Training { loss, gap, predictions, .. }, Some(target)) = (*detail, target) {
        let [loss, gap, target] = [loss, gap, Nats(target)].map(|nats| each(nats, predictions));
        return (vec![format!("gap {gap}, target {target} nats/prediction"), format!("loss {loss}")], 0.0);
    }
    match *detail {
        Detail::Documents(n) => (vec![format!("{} documents", thousands(n))], 0.0),
        Detail::Training { loss, gap, floor, predictions, .. } => {
            let both =
                format!("gap {}, loss {} nats/prediction", each(gap, predictions), each(loss, predictions));
            let share = (floor.0 > 0.0 && gap.0 <= floor.0)
                .then(|| format!("{:.2}% of the floor", 100.0 * gap.0 / floor.0));
            ([both].into_iter().chain(share).collect(), 0.0)
        }
        Detail::Job { step, steps, gap, contexts, predictions, .. } => {
            let numbers = vec![
                format!("gap {} nats/prediction", each(gap, predictions)),
                format!("step {}", thousands(step)),
                format!("{} contexts", thousands(contexts)),
            ];
            (numbers, (step as f64 / steps.max(1) as f64).min(1.0))
        }
        _ => (Vec::new(), 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(done: u64, total: Option<u64>) -> Current {
        let mut current = Current::new(&Progress::new(Stage::Training, 0, total), None);
        current.done = done;
        current.numbers = vec!["gap 0.00123, loss 0.355 nats/prediction".into(), "0.35% of the floor".into()];
        current
    }

    #[test]
    fn a_line_never_exceeds_the_width() {
        for width in [0, 10, 20, 40, 60, 79, 100, 200] {
            for total in [None, Some(0), Some(10_000_000), Some(u64::MAX)] {
                let line = training(1_234_567, total).line(Duration::from_secs(100_000), width);
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_line_drops_the_least_important_numbers_first() {
        let current = training(250, Some(1000));
        let half_a_minute = Duration::from_secs(30);
        assert_eq!(
            current.line(half_a_minute, 200),
            "██████░░░░░░░░░░░░░░░░░░  training  250 of 1,000 steps  gap 0.00123, loss 0.355 nats/prediction  \
             0.35% of the floor  1m30s left"
        );
        assert_eq!(
            current.line(half_a_minute, 115),
            "██░░░░░░  training  250 of 1,000 steps  gap 0.00123, loss 0.355 nats/prediction  0.35% of the floor  \
             1m30s left"
        );
        assert_eq!(
            current.line(half_a_minute, 79),
            "250 of 1,000 steps  gap 0.00123, loss 0.355 nats/prediction  1m30s left"
        );
        assert_eq!(current.line(half_a_minute, 50), "██░░░░░░  training  250 of 1,000 steps  1m30s left");
    }

    #[test]
    fn training_that_stops_at_a_gap_shows_how_near_that_is_and_no_time_left() {
        let mut current = training(63, Some(10_000));
        current.way = Some(Way { first: 4.0, smallest: 2.0, target: 0.25 });
        current.numbers = vec!["gap 2.11, target 0.00497 nats/prediction".into(), "loss 2.47".into()];
        let seventeen = Duration::from_secs(17);
        assert_eq!(
            current.line(seventeen, 120),
            "██████░░░░░░░░░░░░░░░░░░  training  63 of 10,000 steps  gap 2.11, target 0.00497 nats/prediction  loss 2.47  17s"
        );
        let narrow = current.line(seventeen, 79);
        assert_eq!(narrow, "training  63 of 10,000 steps  gap 2.11, target 0.00497 nats/prediction  17s");
        assert_eq!(current.seconds_left(seventeen), None);
    }

    #[test]
    fn the_way_to_a_gap_is_measured_by_its_logarithm() {
        let share = |first, smallest, target| Way { first, smallest, target }.share();
        assert_eq!([share(4.0, 4.0, 0.25), share(4.0, 1.0, 0.25), share(4.0, 0.2, 0.25)], [0.0, 0.5, 1.0]);
        // Nothing to go, or no number yet.
        assert_eq!([share(1.0, 1.0, 1.0), share(f64::NAN, 1.0, 0.1), share(1.0, -1.0, 0.1)], [0.0, 0.0, 0.0]);
    }

    #[test]
    fn an_estimate_is_a_sentence() {
        assert_eq!(estimate(Some(46_120), Some(95.0)), "46,120 tokens to evaluate, which takes about 1m35s");
        assert_eq!(
            estimate(Some(1_000), Some(0.2)),
            "1,000 tokens to evaluate, which takes less than a second"
        );
        assert_eq!(estimate(Some(1), None), "1 token to evaluate");
    }

    #[test]
    fn losses_are_per_prediction() {
        assert_eq!(each(Nats(319.5), 900), "0.355");
        assert_eq!((each(Nats(0.045), 900), each(Nats(2.0), 0)), ("5.00e-5".into(), "2.00".into()));
    }

    #[test]
    fn a_stage_that_begins_again_is_counted_again() {
        let mut current = Current::new(&Progress::new(Stage::Ranking, 0, Some(200)), None);
        current.update(&Progress::new(Stage::Ranking, 199, Some(200)));
        current.update(&Progress::new(Stage::Ranking, 198, Some(200)));
        assert_eq!(current.done, 199, "threads report out of order");
        current.update(&Progress::new(Stage::Ranking, 0, Some(150)));
        assert_eq!((current.done, current.total), (0, Some(150)));
        // Jobs that another thread has finished in the meantime are not undone.
        let mut jobs = Current::new(&Progress::new(Stage::Jobs, 0, Some(9)), None);
        jobs.update(&Progress::new(Stage::Jobs, 1, Some(9)));
        jobs.update(&Progress::new(Stage::Jobs, 0, Some(9)));
        assert_eq!(jobs.done, 1);
    }

    #[test]
    fn an_estimate_leaves_out_what_earlier_runs_did() {
        let mut current = training(30, Some(100));
        (current.first, current.done) = (20, 30);
        assert_eq!(current.seconds_left(Duration::from_secs(5)), Some(35.0));
        current.done = 20;
        assert_eq!(current.seconds_left(Duration::from_secs(5)), None);
        current.share = 0.5;
        assert_eq!(current.seconds_left(Duration::from_secs(5)), Some(795.0));
    }
}
