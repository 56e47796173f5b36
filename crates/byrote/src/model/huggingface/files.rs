//! The files of a directory, on disk or in memory.

use crate::{Error, Result, input};
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};

/// What a tensor is read from.
pub(super) trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// Files by name.
pub(super) trait Files {
    /// The path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Whether there is such a file.
    fn has(&self, name: &str) -> bool;

    /// Opens a file and returns its size in bytes.
    fn open(&self, name: &str) -> Result<(Box<dyn Source + '_>, u64)>;

    /// Reads a file of at most `limit` bytes; `what` is what it should be.
    fn read(&self, name: &str, limit: u64, what: &str) -> Result<Vec<u8>>;
}

/// A directory on disk.
pub(super) struct Directory<'a>(pub(super) &'a Path);

impl Files for Directory<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    fn open(&self, name: &str) -> Result<(Box<dyn Source + '_>, u64)> {
        let (file, size) = input::open_regular(&self.path(name), "a model")?;
        Ok((Box::new(file), size))
    }

    fn read(&self, name: &str, limit: u64, what: &str) -> Result<Vec<u8>> {
        input::read_capped(&self.path(name), limit, what)
    }
}

/// Files in memory.
pub(super) struct Memory<'a>(pub(super) BTreeMap<&'a str, &'a [u8]>);

impl Memory<'_> {
    fn bytes(&self, name: &str) -> Result<&[u8]> {
        let missing = || Error::io(name, "open", std::io::ErrorKind::NotFound.into());
        self.0.get(name).copied().ok_or_else(missing)
    }
}

impl Files for Memory<'_> {
    fn path(&self, name: &str) -> PathBuf {
        name.into()
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn open(&self, name: &str) -> Result<(Box<dyn Source + '_>, u64)> {
        let bytes = self.bytes(name)?;
        Ok((Box::new(Cursor::new(bytes)), bytes.len() as u64))
    }

    fn read(&self, name: &str, _: u64, _: &str) -> Result<Vec<u8>> {
        self.bytes(name).map(<[u8]>::to_vec)
    }
}
