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

/// Watches the building of an exact network and passes Ctrl-C on.
pub struct BuildWatcher {
    start: Instant,
    quiet: bool,
    bar: Mutex<Option<(Step, ProgressBar)>>,
}

impl BuildWatcher {
    pub fn new(quiet: bool) -> Self {
        let quiet = quiet || !std::io::stderr().is_terminal();
        Self { start: Instant::now(), quiet, bar: Mutex::new(None) }
    }
}

impl Watch for BuildWatcher {
    fn look(&self, step: Step, done: usize, total: usize) -> bool {
        if !self.quiet {
            let mut current = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, bar)) = current.take_if(|(s, _)| *s != step) {
                bar.finish_and_clear();
            }
            let (_, bar) = current.get_or_insert_with(|| {
                let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::hidden());
                let what = match step {
                    Step::Map => "ids",
                    Step::Search => "searching",
                    Step::Verify => "verifying",
                };
                let template = format!("{{bar:30}} {what}  {{pos}}/{{len}} samples  {{eta}} left");
                if let Ok(style) = ProgressStyle::with_template(&template) {
                    bar.set_style(style);
                }
                (step, bar)
            });
            if bar.is_hidden() && self.start.elapsed() > PATIENCE {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            // Threads finish out of order.
            bar.set_position(bar.position().max(done as u64));
        }
        !interrupt::asked()
    }
}

impl Drop for BuildWatcher {
    fn drop(&mut self) {
        let bar = self.bar.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bar)) = bar {
            bar.finish_and_clear();
        }
    }
}
