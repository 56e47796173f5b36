//! Token ids, streamed from a file of fixed-size integers.

use super::input::{Input, fill_to};
use super::{Content, Reader, Slab, part_of_file, slab_bytes};
use crate::corpus::options::{DocumentRule, Options};
use crate::corpus::window::ContextRule;
use crate::units::counted;
use crate::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// How an integer is stored in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IntegerType {
    pub(super) bytes: usize,
    pub(super) signed: bool,
    pub(super) big_endian: bool,
}

impl IntegerType {
    /// The value of an element, or its text if it is not a u32.
    pub(super) fn id(self, element: &[u8]) -> Result<u32, String> {
        let mut wide = [0; 8];
        for (i, &b) in element.iter().enumerate() {
            wide[if self.big_endian { self.bytes - 1 - i } else { i }] = b;
        }
        let unsigned = u64::from_le_bytes(wide);
        let shift = 64 - 8 * self.bytes as u32;
        let value =
            if self.signed { i128::from((unsigned << shift) as i64 >> shift) } else { i128::from(unsigned) };
        u32::try_from(value).map_err(|_| value.to_string())
    }

    /// Appends all elements to `ids`, if their bytes are those of ids; returns whether they are.
    fn extend(self, ids: &mut Vec<u32>, raw: &[u8]) -> bool {
        match self {
            Self { bytes: 2, signed: false, big_endian: false } => {
                ids.extend(raw.as_chunks().0.iter().map(|&element| u32::from(u16::from_le_bytes(element))));
            }
            Self { bytes: 4, signed: false, big_endian: false } => {
                ids.extend(raw.as_chunks().0.iter().map(|&element| u32::from_le_bytes(element)));
            }
            _ => return false,
        }
        true
    }
}

/// Where documents end in a flat array of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// After every N ids.
    Every(u64),
    /// At this id, which belongs to no document.
    At(u32),
    /// Only at the end of the file.
    Never,
}

impl Cut {
    /// The splitting that the options request for a flat array.
    pub(super) fn flat(path: &Path, options: &Options) -> Result<Self> {
        match (&options.documents, options.separator_id) {
            (Some(DocumentRule::Chunk(n)), None) => Ok(Cut::Every(*n as u64)),
            (None, Some(id)) => Ok(Cut::At(id)),
            (Some(DocumentRule::File), None) => Ok(Cut::Never),
            (None, None) if options.window.contexts == ContextRule::Windows => Ok(Cut::Never),
            (None, None) => Err(Error::format(
                path,
                "one row of ids: set `separator_id` or `documents = chunk:L` to mark where documents end",
            )),
            (Some(DocumentRule::Chunk(_)), Some(_)) => {
                Err(Error::setting("separator_id", "cannot be combined with `documents = chunk:L`"))
            }
            (Some(_), _) => Err(Error::setting(
                "documents",
                format!(
                    "{} contains ids; only file, chunk:L or `separator_id` can say where documents end",
                    path.display()
                ),
            )),
        }
    }
}

/// Reads ids and splits them into documents, keeping no more of each than the window does.
pub(super) struct IdReader {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    integer: IntegerType,
    cut: Cut,
    kept: usize,
    /// The number of ids that the file should still hold, if it declares one.
    left: Option<u64>,
    raw: Vec<u8>,
    /// The number of bytes that are read at once. Ids of two bytes take twice as many in a slab.
    raw_bytes: usize,
    /// The kept start of the document being read, and its length so far.
    open: Vec<u32>,
    length: u64,
    document: u64,
    position: u64,
    /// Whether the last part of a document as long as the file was passed on.
    ended: bool,
}

impl IdReader {
    pub(super) fn new(
        path: &Path,
        options: &Options,
        input: Input,
        integer: IntegerType,
        cut: Cut,
        left: Option<u64>,
    ) -> Result<Self> {
        let (input, left) = match options.split {
            None => (input.bytes, left),
            Some(split) => part_of_file::of_ids(split, input.bytes, integer.bytes, left, path)?,
        };
        Ok(Self {
            path: path.to_path_buf(),
            input,
            integer,
            cut,
            kept: if cut == Cut::Never { usize::MAX } else { options.window.read() },
            left,
            raw: Vec::new(),
            raw_bytes: slab_bytes(options) / 4,
            open: Vec::new(),
            length: 0,
            document: 1,
            position: 0,
            ended: false,
        })
    }

    /// Passes on what was read of a document that is as long as the file; returns `false` after its last part.
    fn part(&mut self, slab: &mut Slab, ended: bool) -> bool {
        let first = self.document == 1;
        if first && ended {
            return false;
        }
        self.document = 2;
        slab.ids.append(&mut self.open);
        slab.documents.push(0..slab.ids.len());
        slab.content = Content::IdPart { first, last: ended };
        !std::mem::replace(&mut self.ended, ended)
    }

    fn end_document(&mut self, slab: &mut Slab) {
        let start = slab.ids.len();
        slab.cut.push(self.length - self.open.len() as u64);
        slab.ids.append(&mut self.open);
        slab.documents.push(start..slab.ids.len());
        self.length = 0;
    }
}

impl Reader for IdReader {
    fn fill(&mut self, slab: &mut Slab) -> Result<bool> {
        self.raw.clear();
        let want = self.left.map_or(self.raw_bytes, |left| {
            self.raw_bytes.min(usize::try_from(left).unwrap_or(usize::MAX).saturating_mul(self.integer.bytes))
        });
        fill_to(&mut *self.input, &mut self.raw, want, &self.path)?;
        let n = self.raw.len() / self.integer.bytes;
        if !self.raw.len().is_multiple_of(self.integer.bytes)
            || self.left.is_some_and(|_| self.raw.len() < want)
        {
            return Err(Error::format(
                &self.path,
                format!(
                    "ends in the middle of an id, after {} of {}",
                    counted(self.position + n as u64, "id"),
                    counted(self.integer.bytes as u64, "byte"),
                ),
            ));
        }
        self.left = self.left.map(|left| left - n as u64);
        slab.content = Content::Ids;
        slab.path.clone_from(&self.path);
        slab.first_line = self.document;
        if self.cut == Cut::Never && self.integer.extend(&mut self.open, &self.raw) {
            self.position += n as u64;
            self.length += n as u64;
            return Ok(self.part(slab, n == 0));
        }
        let raw = std::mem::take(&mut self.raw);
        for element in raw.chunks_exact(self.integer.bytes) {
            let id = self.integer.id(element).map_err(|value| {
                Error::format_at(
                    &self.path,
                    slab.first_line + slab.documents.len() as u64,
                    format!("id number {} is {value}: token ids are from 0 to {}", self.position, u32::MAX),
                )
            })?;
            self.position += 1;
            if self.cut == Cut::At(id) {
                self.end_document(slab);
                continue;
            }
            if self.open.len() < self.kept {
                self.open.push(id);
            }
            self.length += 1;
            if let Cut::Every(n) = self.cut
                && self.length == n
            {
                self.end_document(slab);
            }
        }
        self.raw = raw;
        if self.cut == Cut::Never {
            return Ok(self.part(slab, n == 0));
        }
        let ended = n == 0;
        if ended && self.length > 0 {
            self.end_document(slab);
        }
        self.document += slab.documents.len() as u64;
        Ok(!ended || !slab.documents.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_kind_are_read_or_named() {
        let kind = |bytes, signed, big_endian| IntegerType { bytes, signed, big_endian };
        assert_eq!(kind(2, false, false).id(&[1, 2]), Ok(0x0201));
        assert_eq!(kind(2, false, true).id(&[1, 2]), Ok(0x0102));
        assert_eq!(kind(1, true, false).id(&[255]), Err("-1".into()));
        assert_eq!(kind(4, true, false).id(&[255, 255, 255, 127]), Ok(0x7fff_ffff));
        assert_eq!(kind(8, false, false).id(&[0, 0, 0, 0, 1, 0, 0, 0]), Err("4294967296".into()));
        assert_eq!(kind(8, true, true).id(&[0, 0, 0, 0, 255, 255, 255, 255]), Ok(u32::MAX));
    }
}
