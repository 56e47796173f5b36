//! Ctrl-C: the first asks the work to stop, the second ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// The exit code after an interrupt.
pub const EXIT_CODE: u8 = 130;

/// Watches for Ctrl-C and for termination from now on.
pub fn install() {
    // A second handler in one process is the only way to fail, and there is none.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) {
            #[allow(clippy::exit)] // The user insists.
            std::process::exit(i32::from(EXIT_CODE));
        }
    });
}

/// Whether the user has asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
