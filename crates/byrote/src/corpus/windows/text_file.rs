//! A text on disk, for texts that are larger than memory: read at offsets, in pieces.

use crate::{Error, Result};
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

/// A file without a name whose bytes are read at any offset, by any thread.
#[derive(Debug)]
pub(crate) struct TextFile {
    file: File,
    /// The first read that failed: those who read go on with zeros, and [`TextFile::check`] tells.
    failed: OnceLock<std::io::Error>,
}

impl TextFile {
    pub(crate) fn new(file: File) -> Self {
        Self { file, failed: OnceLock::new() }
    }

    /// Fills a buffer of zeros with the bytes at an offset.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) {
        if let Err(e) = read_at(&self.file, bytes, offset) {
            bytes.fill(0);
            // Only the first failure is reported.
            let _ = self.failed.set(e);
        }
    }

    /// Fails if a read has failed; `directory` is where the file is.
    pub(crate) fn check(&self, directory: &Path) -> Result<()> {
        match self.failed.get() {
            Some(e) => Err(Error::io(directory, "read a temporary file in", std::io::Error::from(e.kind()))),
            None => Ok(()),
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    // The place in the file is shared by all threads.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(bytes)
}
