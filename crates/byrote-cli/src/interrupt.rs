//! Ctrl-C: the first asks the work to stop, the second ends the program at once. Neither leaves temporary files.

use byrote::output::OutputFile;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static ASKED: AtomicBool = AtomicBool::new(false);
/// Waiting for standard input cannot be interrupted, so there the first Ctrl-C is the last.
static READS_STANDARD_INPUT: AtomicBool = AtomicBool::new(false);
/// Directories in which files are being written under temporary names.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The exit code after an interrupt.
pub const EXIT_CODE: u8 = 130;

/// Watches for Ctrl-C and for termination from now on.
pub fn install() {
    // A second handler in one process is the only way to fail, and there is none.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) || READS_STANDARD_INPUT.load(Ordering::SeqCst) {
            remove_temporary_files();
            #[allow(clippy::exit)] // The user insists, or nothing else would end a read.
            std::process::exit(i32::from(EXIT_CODE));
        }
    });
}

/// Whether the user has asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// Says that standard input is being read, or no more.
pub fn reads_standard_input(yes: bool) {
    READS_STANDARD_INPUT.store(yes, Ordering::SeqCst);
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
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
