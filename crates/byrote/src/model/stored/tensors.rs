//! The tensors of one or more files, by name. A tensor is read when it is needed, in pieces, so that no more than a few megabytes
//! of a file are in memory.

use super::encoding::Encoding;
use super::files::{Files, Source};
use super::place::Part;
use crate::num::Real;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io::SeekFrom;
use std::ops::Range;
use std::path::PathBuf;

/// Where a tensor is.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The file, by its number.
    pub(crate) file: usize,
    /// How its numbers are stored, or the end of a sentence "... has the type ..." about a type that byrote does not read.
    pub(crate) encoding: Result<Encoding, String>,
    /// Its dimensions, row-major.
    pub(crate) shape: Vec<usize>,
    /// The position of its bytes in the file.
    pub(crate) start: u64,
}

/// How many entries of a tensor are read at once.
const PIECE: usize = 1 << 20;

/// All tensors of a model's files.
pub(crate) struct TensorFiles {
    files: Box<dyn Files>,
    names: Vec<String>,
    entries: BTreeMap<String, Entry>,
    /// The file that was read last.
    current: Option<(usize, Box<dyn Source>)>,
    bytes: Vec<u8>,
}

impl TensorFiles {
    pub(crate) fn new(files: Box<dyn Files>) -> Self {
        Self { files, names: Vec::new(), entries: BTreeMap::new(), current: None, bytes: Vec::new() }
    }

    pub(crate) fn files(&self) -> &dyn Files {
        &*self.files
    }

    /// The names of the files with tensors.
    pub(super) fn file_names(&self) -> &[String] {
        &self.names
    }

    /// Adds a file and its tensors, whose positions have been checked. The `source` they were found in stays open.
    pub(crate) fn add(
        &mut self,
        file: &str,
        source: Box<dyn Source>,
        tensors: impl IntoIterator<Item = (String, Result<Encoding, String>, Vec<usize>, u64)>,
    ) -> Result<()> {
        for (tensor, encoding, shape, start) in tensors {
            let entry = Entry { file: self.names.len(), encoding, shape, start };
            if let Some(before) = self.entries.get(&tensor) {
                let message = match self.names.get(before.file) {
                    Some(other) => format!("the tensor {tensor} is also in {other}"),
                    None => format!("has two tensors {tensor}"),
                };
                return Err(Error::format(self.files.path(file), message));
            }
            self.entries.insert(tensor, entry);
        }
        self.current = Some((self.names.len(), source));
        self.names.push(file.to_owned());
        Ok(())
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.entries.contains_key(tensor)
    }

    /// The names of all tensors, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub(crate) fn entry(&self, tensor: &str) -> Result<&Entry> {
        let missing = || self.wrong(tensor, format!("the tensor {tensor} is missing"));
        self.entries.get(tensor).ok_or_else(missing)
    }

    /// The path of the file that a tensor is in or should be in.
    fn path(&self, tensor: &str) -> PathBuf {
        match (self.entries.get(tensor), &self.names[..]) {
            (Some(entry), names) => self.files.path(names.get(entry.file).map_or("", String::as_str)),
            (None, [only]) => self.files.path(only),
            (None, _) => self.files.path(super::safetensors_files::INDEX),
        }
    }

    /// An error about a tensor, with the file that it is in or should be in.
    pub(crate) fn wrong(&self, tensor: &str, message: String) -> Error {
        Error::format(self.path(tensor), message)
    }

    /// Checks a tensor without reading it, and returns how its numbers are stored. `needs` is what a wrong shape contradicts:
    /// "config.json needs".
    pub(crate) fn check(&self, tensor: &str, shape: &[usize], needs: &str) -> Result<Encoding> {
        let entry = self.entry(tensor)?;
        if entry.shape != shape {
            let message = format!("{tensor} has shape {:?}, but {needs} {shape:?}", entry.shape);
            return Err(self.wrong(tensor, message));
        }
        entry.encoding.clone().map_err(|what| self.wrong(tensor, format!("{tensor} has {what}")))
    }

    /// Fills one of our tensors from the tensor of these files that holds it, which was [`check`](Self::check)ed.
    pub(crate) fn fill<T: Real>(&mut self, tensor: &str, part: &Part, values: &mut [T]) -> Result<()> {
        let entry = self.entry(tensor)?.clone();
        let width = entry.shape.last().copied().unwrap_or(1).max(1);
        part.fill(values, width, PIECE, |range, window| self.piece(tensor, &entry, range, window))
    }

    /// Reads a range of the entries of a tensor, which consists of whole blocks.
    fn piece<T: Real>(
        &mut self,
        tensor: &str,
        entry: &Entry,
        range: Range<usize>,
        values: &mut Vec<T>,
    ) -> Result<()> {
        let Ok(encoding) = entry.encoding else { return Ok(()) };
        let (block, size) = encoding.block();
        let path = self.files.path(&self.names[entry.file]);
        if self.current.as_ref().is_none_or(|(open, _)| *open != entry.file) {
            self.current = Some((entry.file, self.files.open(&self.names[entry.file])?.0));
        }
        let Some((_, source)) = &mut self.current else { return Ok(()) };
        self.bytes.resize(range.len() / block * size, 0);
        let start = entry.start + (range.start / block * size) as u64;
        let read = source.seek(SeekFrom::Start(start)).and_then(|_| source.read_exact(&mut self.bytes));
        read.map_err(|e| Error::io(&path, "read", e))?;
        values.clear();
        encoding.decode(&self.bytes, values);
        match values.iter().position(|x| !x.to_f64().is_finite()) {
            Some(i) => {
                let at = range.start + i;
                let value = values[i].to_f64();
                let narrowed = encoding == Encoding::F64 && size_of::<T>() < size_of::<f64>();
                let what = match value.is_infinite() && narrowed {
                    true => "a number outside the range of f32".to_owned(),
                    false => value.to_string(),
                };
                Err(self.wrong(tensor, format!("{tensor} contains {what} (first at entry {at})")))
            }
            None => Ok(()),
        }
    }
}
