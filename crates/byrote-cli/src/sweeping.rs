//! Progress of a sweep on standard error.

use crate::interrupt;
use crate::ui;
use byrote::lab::{Observer, Row};
use byrote::train::Trainer;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Counts jobs, draws, and passes Ctrl-C on.
pub struct Sweep {
    bar: ProgressBar,
    started: Instant,
    jobs: usize,
    before: usize,
    over: AtomicUsize,
}

impl Sweep {
    /// A sweep of so many jobs, some of which were done before.
    pub fn new(quiet: bool, jobs: usize, before: usize) -> Self {
        let drawn = !quiet && std::io::stderr().is_terminal();
        let target = if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(jobs as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} jobs  {msg}") {
            bar.set_style(style);
        }
        bar.set_position(before as u64);
        Self { bar, started: Instant::now(), jobs, before, over: AtomicUsize::new(0) }
    }

    /// Clears the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Sweep {
    fn go_on(&self) -> bool {
        !interrupt::asked()
    }

    fn steps(&self, _: usize, trainer: &Trainer<'_>) {
        let progress = trainer.progress();
        if self.bar.is_hidden() || !progress.step.is_multiple_of(16) {
            return;
        }
        let over = self.over.load(Ordering::Relaxed) as f64;
        let jobs = (self.jobs - self.before) as f64;
        // Until one is over, the steps of the first tell how far it is, at least: it may stop before the last.
        let share = progress.step as f64 / trainer.limits().steps.max(1) as f64;
        let done = if over > 0.0 { over } else { share.min(1.0) };
        let seconds = self.started.elapsed().as_secs_f64() / done.max(1e-9) * (jobs - done);
        let eta = match done > 0.01 {
            true => {
                format!(", {} {} left", if over > 0.0 { "about" } else { "at most" }, ui::duration(seconds))
            }
            false => String::new(),
        };
        let contexts = ui::thousands(trainer.problem().len() as u64);
        self.bar.set_message(format!(
            "{contexts} contexts, step {}, gap {:.3}{eta}",
            progress.step,
            trainer.gap().0
        ));
    }

    fn over(&self, _: usize, _: &Row, _: f64) {
        let over = self.over.fetch_add(1, Ordering::Relaxed) + 1;
        self.bar.set_position((self.before + over) as u64);
    }
}
