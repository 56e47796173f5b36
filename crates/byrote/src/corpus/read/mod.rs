//! Readers turn files into slabs of documents; there is one module per format.
//!
//! A slab is a batch of whole documents, small enough to fit in memory and large enough to share among threads; the
//! collector tokenizes it while the reader fills the next one. A document too large for a slab comes in parts.

mod arrow;
mod arrow_schema;
mod bin;
pub(crate) mod files;
mod flatbuffer;
mod ids;
pub(crate) mod indexed;
pub(crate) mod input;
mod jsonl;
pub(crate) mod npy;
#[cfg(feature = "parquet")]
pub(crate) mod numbers;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_pages;
mod part_of_file;
mod split;
mod text;

pub(crate) use jsonl::Field;

use super::options::{Format, Options};
use super::vocabulary::Alphabet;
use crate::{Error, Result};
use input::Input;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What the documents of a slab are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Content {
    /// Text, with each document complete; lines are counted in the file.
    #[default]
    Text,
    /// A part of one document of text.
    Part { first: bool, last: bool },
    /// JSON records, one per line.
    Json,
    /// Texts of numbered records.
    Records,
    /// Token ids.
    Ids,
    /// A part of one document of token ids.
    IdPart { first: bool, last: bool },
    /// Built-in stories by number: `first_line - 1` is the first.
    Stories,
}

/// A batch of documents.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    pub(crate) content: Content,
    pub(crate) path: PathBuf,
    /// Text: documents with the separators between them.
    pub(crate) bytes: Vec<u8>,
    /// Ids, documents end to end.
    pub(crate) ids: Vec<u32>,
    /// Where each document is in `bytes` or `ids`.
    pub(crate) documents: Vec<Range<usize>>,
    /// The number of ids beyond the window that the reader has not kept, by document; empty if it keeps all.
    pub(crate) cut: Vec<u64>,
    /// Whether Windows line endings within documents are read as LF.
    pub(crate) crlf: bool,
    /// The offset of `bytes` in the file.
    pub(crate) offset: u64,
    /// The line of `bytes[0]`, or the number of the first record, from 1.
    pub(crate) first_line: u64,
}

impl Slab {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ids.clear();
        self.documents.clear();
        self.cut.clear();
        self.crlf = false;
    }

    /// The number of documents that end in this slab.
    pub(crate) fn ended(&self) -> u64 {
        match self.content {
            Content::Part { last, .. } | Content::IdPart { last, .. } => u64::from(last),
            _ => self.documents.len() as u64,
        }
    }

    /// The line or record of a document.
    pub(crate) fn line_of(&self, document: usize, byte: usize) -> u64 {
        match self.content {
            Content::Records | Content::Ids | Content::IdPart { .. } | Content::Stories => {
                self.first_line + document as u64
            }
            _ => self.first_line + memchr::memchr_iter(b'\n', &self.bytes[..byte]).count() as u64,
        }
    }
}

/// Reads the documents of one file, slab by slab.
pub(crate) trait Reader: Send {
    /// Fills an empty slab; returns `false` at the end of the file.
    fn fill(&mut self, slab: &mut Slab) -> Result<bool>;
}

/// The approximate size of a slab in bytes, if memory is not limited to less than 64 of them.
pub(crate) const SLAB_BYTES: usize = 4 << 20;

/// The approximate size of a slab in bytes: several of them are in memory, with their tokens.
pub(crate) fn slab_bytes(options: &Options) -> usize {
    let most = options.max_memory.map_or(usize::MAX, |budget| usize::try_from(budget).unwrap_or(usize::MAX));
    (most / 64).clamp(1 << 16, SLAB_BYTES)
}

/// The contents of a file: text for the tokenizer, or ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Text,
    Ids,
}

/// Opens a file by its format and determines its contents; `None` if it is empty.
pub(crate) fn open(path: &Path, options: &Options, input: Input) -> Result<(Option<Holds>, Box<dyn Reader>)> {
    let format = input.format;
    if options.documents.is_some() && !matches!(format, Format::Text | Format::Npy | Format::Bin) {
        return Err(Error::setting(
            "documents",
            format!(
                "each record of {} is a document; this setting applies only to text and 1-D ids",
                path.display()
            ),
        ));
    }
    if options.split.is_some() && !matches!(format, Format::Text | Format::Npy | Format::Bin) {
        return Err(Error::setting(
            "split",
            format!("does not apply to {}, but only to text and 1-D ids", path.display()),
        ));
    }
    Ok(match format {
        Format::Text => (Some(Holds::Text), Box::new(text::TextReader::new(path, options, input)?)),
        Format::Jsonl => {
            let reader = jsonl::JsonlReader::new(path, options, input)?;
            (reader.holds(), Box::new(reader))
        }
        Format::Npy => (Some(Holds::Ids), Box::new(npy::open(path, options, input)?)),
        Format::Bin => {
            let on_disk = input.held.is_none() && !input::is_stdin(path);
            let reader: Box<dyn Reader> = match indexed::index_of(path).filter(|_| on_disk) {
                Some(index) => Box::new(indexed::open(path, &index, options, input)?),
                None => Box::new(bin::open(path, options, input)?),
            };
            (Some(Holds::Ids), reader)
        }
        Format::Arrow => {
            let reader = arrow::ArrowReader::new(path, options, input)?;
            (Some(reader.holds()), Box::new(reader))
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            let reader = parquet::ParquetReader::new(path, options, input)?;
            (Some(reader.holds()), Box::new(reader))
        }
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => {
            return Err(Error::format(path, "this build cannot read Parquet files (feature `parquet`)"));
        }
    })
}

impl Holds {
    /// The alphabet of the corpus: that of `text` for text; ids are their own.
    pub(crate) fn alphabet(self, text: Alphabet) -> Alphabet {
        match self {
            Holds::Text => text,
            Holds::Ids => Alphabet::Id,
        }
    }
}
