//! Progress of a training on standard error, and its checkpoints.

use crate::commands::train::{Files, Times};
use crate::interrupt;
use crate::ui::{self, thousands};
use byrote::Result;
use byrote::train::{Trainer, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Draws, saves, and passes Ctrl-C on.
pub struct Watcher<'a> {
    files: Option<&'a Files>,
    every: Duration,
    bar: Option<ProgressBar>,
    started: Instant,
    /// Steps that earlier runs took.
    first_step: Option<u64>,
    drawn: Instant,
    saved: Instant,
    /// When the last look ended: what passes until the next one is a step.
    last: Option<Instant>,
    milliseconds: Vec<f32>,
}

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const REDRAW: Duration = Duration::from_millis(100);
/// Steps whose times are kept.
const MOST_TIMES: usize = 100_000;

impl<'a> Watcher<'a> {
    /// `every` is the number of seconds between checkpoints.
    pub fn new(quiet: bool, files: Option<&'a Files>, every: f64) -> Self {
        let now = Instant::now();
        let drawn = !quiet && std::io::stderr().is_terminal();
        Self {
            files,
            every: Duration::try_from_secs_f64(every).unwrap_or(Duration::MAX),
            bar: drawn.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())),
            started: now,
            first_step: None,
            drawn: now,
            saved: now,
            last: None,
            milliseconds: Vec::new(),
        }
    }

    /// The times of the steps, once it is over.
    pub fn finish(mut self) -> Times {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.milliseconds.sort_by(f32::total_cmp);
        let least = *self.milliseconds.first()?;
        Some((f64::from(self.milliseconds[self.milliseconds.len() / 2]), f64::from(least)))
    }

    fn draw(&mut self, trainer: &Trainer<'_>) {
        let Some(bar) = &self.bar else { return };
        let now = Instant::now();
        let progress = trainer.progress();
        let first = *self.first_step.get_or_insert(progress.step);
        if now - self.started < PATIENCE || now - self.drawn < REDRAW {
            return;
        }
        if bar.is_hidden() {
            bar.set_length(trainer.limits().steps);
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}") {
                bar.set_style(style);
            }
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.drawn = now;
        let pace = (progress.step - first) as f64 / (now - self.started).as_secs_f64();
        let left = trainer.limits().steps.saturating_sub(progress.step) as f64 / pace.max(1e-9);
        let (gap, floor) = (trainer.gap().0, trainer.problem().floor.0);
        let relative =
            if floor > 0.0 { format!(" = {:.2}% of the floor", 100.0 * gap / floor) } else { String::new() };
        bar.set_message(format!(
            "loss {:.3}  gap {gap:.3}{relative}  {pace:.0} steps/s  at most {} left",
            trainer.loss().0,
            ui::duration(left),
        ));
        bar.set_position(progress.step);
    }

    /// A checkpoint that cannot be written is no reason to lose the training: the one before it stays, and the next may
    /// succeed.
    fn save(&mut self, trainer: &Trainer<'_>) {
        let Some(files) = self.files else { return };
        if self.saved.elapsed() < self.every || trainer.progress().step == 0 {
            return;
        }
        if let Err(error) = trainer.checkpoint().save(&files.checkpoint()) {
            let step = thousands(trainer.progress().step);
            // Not a note: it is told even to who asked for quiet.
            ui::note(false, &format!("byrote: no checkpoint at step {step}: {error}; going on"));
        }
        self.saved = Instant::now();
    }
}

impl Watch for Watcher<'_> {
    fn look(&mut self, trainer: &Trainer<'_>) -> Result<bool> {
        if let Some(last) = self.last
            && self.milliseconds.len() < MOST_TIMES
        {
            self.milliseconds.push(last.elapsed().as_secs_f32() * 1e3);
        }
        self.draw(trainer);
        self.save(trainer);
        self.last = Some(Instant::now());
        Ok(!interrupt::asked())
    }
}
