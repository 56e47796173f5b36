//! Progress on standard error: bytes, rate and time left, on a terminal, for work that takes more than a second.

use crate::interrupt;
use byrote::corpus::{Observer, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Watches the reading of a corpus and passes Ctrl-C on.
pub struct Watcher {
    start: Instant,
    quiet: bool,
    bar: OnceLock<ProgressBar>,
}

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

impl Watcher {
    pub fn new(quiet: bool) -> Self {
        Self { start: Instant::now(), quiet: quiet || !std::io::stderr().is_terminal(), bar: OnceLock::new() }
    }

    /// Clears the line.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Observer for Watcher {
    fn progress(&self, progress: &Progress) {
        if self.quiet || self.start.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let (bar, template) = match progress.total_bytes {
                Some(total) => (
                    ProgressBar::new(total),
                    "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {msg}  {eta} left",
                ),
                None => (ProgressBar::no_length(), "{spinner} {bytes}  {bytes_per_sec}  {msg}  {elapsed}"),
            };
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.reset_elapsed();
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        bar.set_position(progress.bytes);
        bar.set_message(format!("{} documents", crate::ui::thousands(progress.documents)));
    }

    fn should_stop(&self) -> bool {
        interrupt::asked()
    }
}
