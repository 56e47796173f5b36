//! Ctrl-C and SIGTERM.
//!
//! The first one asks the work to stop: every long loop of the library asks `progress::Terminal` about it, at least every
//! tenth of a second. A few computations cannot be cut (an SVD, a read that waits for a pipe). If the program is still running
//! after [`GRACE`] and what it is doing has nothing to keep, a watchdog ends it. A second Ctrl-C ends it at once. However it
//! ends, no temporary files stay behind and the exit code is 130.

use crate::ui;
use byrote::observe::Stage;
use byrote::output::OutputFile;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

static ASKED: AtomicBool = AtomicBool::new(false);
/// The current stage saves what it has when it is asked to stop, so the watchdog leaves it alone.
static KEEPS: AtomicBool = AtomicBool::new(false);
/// Errors are wanted as JSON.
static JSON: AtomicBool = AtomicBool::new(false);
/// The same command resumes what is ended here, and the user is to be told.
static RESUMES: AtomicBool = AtomicBool::new(false);
/// Directories in which files are being written under temporary names.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The exit code after an interrupt.
pub const EXIT_CODE: u8 = 130;

/// How long work that has nothing to keep may take to stop.
const GRACE: Duration = Duration::from_millis(500);

/// Handles Ctrl-C and SIGTERM from now on.
pub fn install(json: bool) {
    JSON.store(json, Ordering::SeqCst);
    // Fails only where a handler is installed already, and there is none.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) {
            exit();
        }
        ui::note(false, "stopping; press Ctrl-C again to force");
        std::thread::spawn(|| {
            std::thread::sleep(GRACE);
            // Work that reaches a stage with nothing to keep only now is ended a little later.
            while KEEPS.load(Ordering::SeqCst) {
                std::thread::sleep(GRACE / 8);
            }
            exit();
        });
    });
}

/// Ends the program.
fn exit() -> ! {
    remove_temporary_files();
    ui::report_interrupt(JSON.load(Ordering::SeqCst));
    if RESUMES.load(Ordering::SeqCst) {
        ui::note(false, RESUME.trim_start_matches("interrupted; "));
    }
    #[allow(clippy::exit)] // The user insists, or nothing else would end the work in time.
    std::process::exit(i32::from(EXIT_CODE));
}

/// What is said where the same command resumes the work.
pub const RESUME: &str = "interrupted; run the same command again to resume";

/// Notes that the same command resumes the work, for an end by the watchdog.
pub fn can_resume() {
    RESUMES.store(true, Ordering::SeqCst);
}

/// Whether the user has asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Notes what the program is doing, for the watchdog.
pub fn in_stage(stage: Stage) {
    KEEPS.store(!stage.has_nothing_to_keep(), Ordering::Relaxed);
}

/// Notes that a file is about to be written under a temporary name beside `path`.
pub fn clean_up_beside(path: &Path) {
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).push(directory);
}

fn remove_temporary_files() {
    let prefix = OutputFile::temporary_prefix();
    for directory in DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // A model for `transformers` is a directory.
                let _ = std::fs::remove_file(entry.path()).or_else(|_| std::fs::remove_dir_all(entry.path()));
            }
        }
    }
}
