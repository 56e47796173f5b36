//! Progress on standard error: how much, how fast, how long still; on a terminal, for work that takes over a second.

use crate::interrupt;
use crate::ui::thousands;
use byrote::construct::kajitsuka2024::{Step, Watch};
use byrote::corpus::{Observer, Phase, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Watches the reading of a corpus and passes Ctrl-C on.
pub struct Watcher {
    start: Instant,
    quiet: bool,
    /// The bar of the phase that is going on, hidden at first.
    bar: Mutex<Option<(Phase, ProgressBar)>>,
}

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

impl Watcher {
    pub fn new(quiet: bool) -> Self {
        Self {
            start: Instant::now(),
            quiet: quiet || !std::io::stderr().is_terminal(),
            bar: Mutex::new(None),
        }
    }
}

/// A bar that measures from the start of its phase and is not yet drawn.
fn hidden_bar(progress: &Progress) -> ProgressBar {
    let template = match (progress.phase, progress.total) {
        (Phase::Reading, Some(_)) => "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {msg}  {eta} left",
        (Phase::Reading, None) => "{spinner} {bytes}  {bytes_per_sec}  {msg}  {elapsed}",
        (Phase::Merging, Some(_)) => "{bar:30} merging  {msg}  {eta} left",
        (Phase::Merging, None) => "{spinner} merging  {msg}  {elapsed}",
    };
    let bar = ProgressBar::with_draw_target(progress.total, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let bar = self.bar.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bar)) = bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Watcher {
    fn progress(&self, progress: &Progress) {
        if self.quiet {
            return;
        }
        let mut current = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bar)) = current.take_if(|(phase, _)| *phase != progress.phase) {
            bar.finish_and_clear();
        }
        let (_, bar) = current.get_or_insert_with(|| (progress.phase, hidden_bar(progress)));
        if bar.is_hidden() && self.start.elapsed() > PATIENCE {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_message(format!("{} documents", thousands(progress.documents)));
        bar.set_position(progress.done);
    }

    fn should_stop(&self) -> bool {
        interrupt::asked()
    }
}

/// Counts pieces of work on a terminal, with the time that is left, and passes Ctrl-C on.
pub struct Counter {
    bar: Option<ProgressBar>,
    start: Instant,
}

impl Counter {
    /// `words` is an indicatif template; it follows the bar.
    pub fn new(quiet: bool, total: u64, words: &str) -> Self {
        let drawn = !quiet && std::io::stderr().is_terminal();
        let bar = drawn.then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
            if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:30}} {words}")) {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, start: Instant::now() }
    }

    /// So many pieces are done, or more: threads finish out of order. Whether to go on.
    pub fn reached(&self, done: u64) -> bool {
        if let Some(bar) = self.shown() {
            bar.set_position(bar.position().max(done));
        }
        !interrupt::asked()
    }

    /// One more piece is done, by any thread: whether to stop.
    pub fn one_more(&self) -> bool {
        if let Some(bar) = self.shown() {
            bar.inc(1);
        }
        interrupt::asked()
    }

    /// The bar, drawn once the work has taken a while.
    fn shown(&self) -> Option<&ProgressBar> {
        let bar = self.bar.as_ref()?;
        if bar.is_hidden() && self.start.elapsed() > PATIENCE {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Some(bar)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Says on a terminal that work goes on whose end cannot be told, and for how long already.
pub struct Waiting(Option<ProgressBar>);

impl Waiting {
    pub fn new(quiet: bool, words: &str) -> Self {
        let drawn = !quiet && std::io::stderr().is_terminal();
        Self(drawn.then(|| {
            let bar = ProgressBar::new_spinner().with_message(words.to_owned());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        }))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Watches the building of an exact network and passes Ctrl-C on.
pub struct BuildWatcher {
    quiet: bool,
    step: Mutex<Option<(Step, Counter)>>,
}

impl BuildWatcher {
    pub fn new(quiet: bool) -> Self {
        Self { quiet, step: Mutex::new(None) }
    }
}

impl Watch for BuildWatcher {
    fn look(&self, step: Step, done: usize, total: usize) -> bool {
        let mut current = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(s, _)| *s != step) {
            let what = match step {
                Step::Map => "ids",
                Step::Search => "searching",
                Step::Verify => "verifying",
            };
            // The one before is cleared first.
            drop(current.take());
            let words = format!("{what}  {{pos}}/{{len}} samples  {{eta}} left");
            *current = Some((step, Counter::new(self.quiet, total as u64, &words)));
        }
        current.as_ref().is_none_or(|(_, counter)| counter.reached(done as u64))
    }
}
