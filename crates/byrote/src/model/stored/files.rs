//! The files of a stored model, on disk or in memory.

use crate::{Error, Result, input};
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a tensor is read from.
pub(crate) trait Source: Read + Seek + Send {}

impl<T: Read + Seek + Send> Source for T {}

/// Files by name.
pub(crate) trait Files: Send + Sync {
    /// The path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Whether there is such a file.
    fn has(&self, name: &str) -> bool;

    /// Opens a file and returns its size in bytes.
    fn open(&self, name: &str) -> Result<(Box<dyn Source>, u64)>;

    /// Reads a file of at most `limit` bytes; `what` is what it should be.
    fn read(&self, name: &str, limit: u64, what: &str) -> Result<Vec<u8>>;
}

fn open_on_disk(path: &Path) -> Result<(Box<dyn Source>, u64)> {
    let (file, size) = input::open_regular(path, "a model")?;
    Ok((Box::new(file), size))
}

/// A directory on disk.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Files for Directory {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    fn open(&self, name: &str) -> Result<(Box<dyn Source>, u64)> {
        open_on_disk(&self.path(name))
    }

    fn read(&self, name: &str, limit: u64, what: &str) -> Result<Vec<u8>> {
        input::read_capped(&self.path(name), limit, what)
    }
}

/// A single file on disk, whatever the name that is asked for.
pub(crate) struct Single(pub(crate) PathBuf);

impl Files for Single {
    fn path(&self, _: &str) -> PathBuf {
        self.0.clone()
    }

    fn has(&self, _: &str) -> bool {
        self.0.exists()
    }

    fn open(&self, _: &str) -> Result<(Box<dyn Source>, u64)> {
        open_on_disk(&self.0)
    }

    fn read(&self, _: &str, limit: u64, what: &str) -> Result<Vec<u8>> {
        input::read_capped(&self.0, limit, what)
    }
}

/// Files in memory, by their paths.
pub(crate) struct Memory(BTreeMap<PathBuf, Arc<[u8]>>);

impl Memory {
    pub(crate) fn new<'a>(files: impl IntoIterator<Item = (&'a Path, &'a [u8])>) -> Self {
        Self(files.into_iter().map(|(path, bytes)| (path.to_path_buf(), bytes.into())).collect())
    }

    fn bytes(&self, name: &str) -> Result<Arc<[u8]>> {
        let missing = || Error::io(name, "open", std::io::ErrorKind::NotFound.into());
        self.0.get(Path::new(name)).cloned().ok_or_else(missing)
    }
}

impl Files for Memory {
    fn path(&self, name: &str) -> PathBuf {
        name.into()
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(Path::new(name))
    }

    fn open(&self, name: &str) -> Result<(Box<dyn Source>, u64)> {
        let bytes = self.bytes(name)?;
        let size = bytes.len() as u64;
        Ok((Box::new(Cursor::new(bytes)), size))
    }

    fn read(&self, name: &str, _: u64, _: &str) -> Result<Vec<u8>> {
        self.bytes(name).map(|bytes| bytes.to_vec())
    }
}
