//! Arrow IPC: a column of texts, or of lists of integers, from a stream (as Hugging Face's datasets are stored) or a file.
//!
//! ```text
//! stream: message ... end                      message: -1:i32 size:i32 metadata (FlatBuffers) body, end: -1:i32 0:i32, or nothing
//! file:   "ARROW1\0\0" stream end footer size:i32 "ARROW1"
//! ```
//!
//! The first message is the schema; of the others, record batches are read and dictionaries skipped. A file is read like the stream
//! in it, from its beginning to its end. The arrow-ipc crate would add a minute to a build from scratch, most of it for kernels that
//! nothing here calls.

use super::arrow_schema::{Column, Kind, Missing, Place, find};
use super::flatbuffer::{Damaged, Table, Vector};
use super::ids::IntegerType;
use super::input::{Input, fill_to};
use super::{Content, Holds, Reader, SLAB_BYTES, Slab};
use crate::corpus::options::Options;
use crate::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"ARROW1";
/// The largest metadata of a message, in bytes.
const MAX_METADATA_BYTES: usize = 256 << 20;

/// The largest compressed buffer, in bytes when it is decompressed.
const MAX_BUFFER_BYTES: u64 = 4 << 30;

/// Numbers of messages.
const SCHEMA: u8 = 1;
const DICTIONARY_BATCH: u8 = 2;
const RECORD_BATCH: u8 = 3;

/// Reads one column, batch by batch.
pub(super) struct ArrowReader {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    is_file: bool,
    column: Column,
    batch: Option<Batch>,
    ended: bool,
    /// The number of the next row, from 1.
    row: u64,
}

impl ArrowReader {
    pub(super) fn new(path: &Path, options: &Options, input: Input) -> Result<Self> {
        let mut input = input.bytes;
        let mut start = Vec::new();
        fill_to(&mut *input, &mut start, 8, path)?;
        let is_file = start.starts_with(MAGIC);
        if !is_file {
            input = Box::new(std::io::Cursor::new(start).chain(input));
        }
        let not = |why: &str| Error::format(path, format!("not an Arrow file or stream: {why}"));
        let metadata = metadata(&mut *input, path).map_err(|e| match e {
            Error::Format { message, .. } => not(&message),
            other => other,
        })?;
        let metadata = metadata.ok_or_else(|| not("it is empty"))?;
        let read = || -> Result<Column, Missing> {
            let message = Table::root(&metadata)?;
            let version = message.i16(0)?;
            match (message.u8(1)?, message.table(2)?, message.i64(3)?) {
                (SCHEMA, Some(schema), 0) if (3..=4).contains(&version) => {
                    find(schema, &options.field, version)
                }
                (SCHEMA, _, 0) if version < 3 => Err(Missing::Message("is of a version before 0.8".into())),
                _ => Err(Missing::Damaged),
            }
        };
        let column = read().map_err(|missing| match missing {
            Missing::Damaged => not("it does not begin with a schema"),
            Missing::Message(message) => Error::format(path, message),
        })?;
        Ok(Self { path: path.to_path_buf(), input, is_file, column, batch: None, ended: false, row: 1 })
    }

    pub(super) fn holds(&self) -> Holds {
        match self.column.kind {
            Kind::Text { .. } | Kind::View => Holds::Text,
            Kind::List { .. } | Kind::FixedList { .. } => Holds::Ids,
        }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::format_at(&self.path, self.row, format!("cannot be decoded: {what}"))
    }

    /// Reads the next record batch, if there is one.
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        loop {
            let Some(metadata) = metadata(&mut *self.input, &self.path)? else {
                self.end()?;
                return Ok(None);
            };
            let outside = |_: Damaged| self.damaged("its metadata are damaged");
            let message = Table::root(&metadata).map_err(outside)?;
            let kind = message.u8(1).map_err(outside)?;
            let length = usize::try_from(message.i64(3).map_err(outside)?)
                .map_err(|_| self.damaged("the length of a batch is negative"))?;
            let batch = message.table(2).map_err(outside)?;
            match (kind, batch) {
                (RECORD_BATCH, Some(batch)) => {
                    let body = read_exactly(&mut *self.input, length, &self.path)?;
                    let body = body.ok_or_else(|| self.damaged("it is cut short within a batch"))?;
                    return Batch::new(batch, &body, &self.column)
                        .map(Some)
                        .map_err(|what| self.damaged(what));
                }
                // The dictionaries of other columns.
                (DICTIONARY_BATCH, _) => {
                    let skipped =
                        std::io::copy(&mut self.input.by_ref().take(length as u64), &mut std::io::sink());
                    if skipped.map_err(|e| Error::io(&self.path, "read", e))? < length as u64 {
                        return Err(self.damaged("it is cut short within a dictionary"));
                    }
                }
                _ => return Err(self.damaged(&format!("a message of kind {kind} instead of a batch"))),
            }
        }
    }

    /// Checks that a file is complete.
    fn end(&mut self) -> Result<()> {
        if !self.is_file {
            return Ok(());
        }
        let (mut last, mut block) = (Vec::new(), Vec::new());
        loop {
            block.clear();
            let ended = fill_to(&mut *self.input, &mut block, 1 << 16, &self.path)?;
            last.extend_from_slice(&block);
            last.drain(..last.len().saturating_sub(MAGIC.len()));
            if ended {
                break;
            }
        }
        if last == MAGIC { Ok(()) } else { Err(self.damaged("it is cut short: its footer is missing")) }
    }
}

/// Reads the metadata of the next message; `None` at the end.
fn metadata(input: &mut (dyn Read + Send), path: &Path) -> Result<Option<Vec<u8>>> {
    let mut prefix = Vec::new();
    let ended = fill_to(input, &mut prefix, 8, path)?;
    let wrong = |message: &str| Err(Error::format(path, message));
    let size = match prefix[..] {
        [] => return Ok(None),
        [255, 255, 255, 255, a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
        [255, 255, 255, 255, ..] if ended => return wrong("it is cut short at the beginning of a message"),
        _ => return wrong("a message does not begin as one"),
    };
    match usize::try_from(size) {
        Ok(0) => Ok(None),
        Ok(size) if size <= MAX_METADATA_BYTES => match read_exactly(input, size, path)? {
            Some(metadata) => Ok(Some(metadata)),
            None => wrong("it is cut short within the metadata of a message"),
        },
        _ => wrong("the metadata of a message have an impossible size"),
    }
}

/// Reads so many bytes, or `None` if there are fewer. Memory grows with what there is, not with what is promised.
fn read_exactly(input: &mut (dyn Read + Send), length: usize, path: &Path) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let target = length.min(bytes.len() + bytes.len().max(1 << 20));
        if fill_to(input, &mut bytes, target, path)? {
            return Ok(None);
        }
    }
    Ok(Some(bytes))
}

/// The rows of the column in a record batch.
#[derive(Debug)]
struct Batch {
    rows: usize,
    next: usize,
    /// Which rows are not null, of the column and of the structs around it.
    valid: Vec<Bits>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Texts { offsets: Offsets, bytes: Vec<u8> },
    Views { views: Vec<u8>, buffers: Vec<Vec<u8>> },
    Lists { offsets: Offsets, ids: Vec<u8>, valid: Bits, integer: IntegerType },
}

/// Which elements are not null; all of them if there are no bits.
#[derive(Debug)]
struct Bits(Option<Vec<u8>>);

impl Bits {
    fn has(&self, i: usize) -> bool {
        self.0.as_ref().is_none_or(|bits| bits.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1))
    }
}

/// Where elements begin and end.
#[derive(Debug)]
enum Offsets {
    Narrow(Vec<u8>),
    Wide(Vec<u8>),
    Every(usize),
}

impl Offsets {
    fn new(bytes: Vec<u8>, wide: bool, rows: usize) -> Result<Self, &'static str> {
        let width = if wide { 8 } else { 4 };
        // A batch without rows may have no offsets.
        match rows == 0
            || rows.checked_add(1).and_then(|n| n.checked_mul(width)).is_some_and(|n| n <= bytes.len())
        {
            true if wide => Ok(Self::Wide(bytes)),
            true => Ok(Self::Narrow(bytes)),
            false => Err("a buffer of offsets is too short"),
        }
    }

    fn at(&self, i: usize) -> Option<usize> {
        match self {
            Self::Narrow(bytes) => usize::try_from(i32::from_le_bytes(number(bytes, i)?)).ok(),
            Self::Wide(bytes) => usize::try_from(i64::from_le_bytes(number(bytes, i)?)).ok(),
            Self::Every(length) => i.checked_mul(*length),
        }
    }

    /// The elements of row `i`, if there are so many of them.
    fn range(&self, i: usize, elements: usize) -> Option<std::ops::Range<usize>> {
        let range = self.at(i)?..self.at(i + 1)?;
        (range.start <= range.end && range.end <= elements).then_some(range)
    }
}

/// Number `i` of an array of numbers of N bytes.
fn number<const N: usize>(bytes: &[u8], i: usize) -> Option<[u8; N]> {
    bytes.get(i.checked_mul(N)?..)?.first_chunk().copied()
}

/// A record batch: its nodes, its buffers, and the bytes that they are in.
struct Parts<'a> {
    nodes: Vector<'a>,
    buffers: Vector<'a>,
    /// The number of buffers of every column of views, beside those that it has in any case.
    of_views: Vector<'a>,
    body: &'a [u8],
    compression: Option<Compression>,
}

/// How the buffers of a batch are compressed.
#[derive(Debug, Clone, Copy)]
enum Compression {
    Lz4,
    Zstd,
}

const METADATA: &str = "its metadata are damaged";

impl Parts<'_> {
    /// The number of buffers with the texts of a column of views.
    fn of_views(&self, column: usize) -> Result<usize, &'static str> {
        let count = self.of_views.i64(column, 0).ok().and_then(|n| usize::try_from(n).ok());
        count.filter(|&n| n <= self.buffers.len).ok_or(METADATA)
    }

    /// The first buffer of a field.
    fn first(&self, place: Place) -> Result<usize, &'static str> {
        let of_views = (0..place.views).map(|column| self.of_views(column)).sum::<Result<usize, _>>()?;
        Ok(place.buffer + of_views)
    }

    /// A buffer, decompressed.
    fn buffer(&self, i: usize) -> Result<Vec<u8>, &'static str> {
        let number = |k| self.buffers.i64(i, k).map_err(|_| METADATA);
        let bytes = usize::try_from(number(0)?)
            .ok()
            .zip(usize::try_from(number(1)?).ok())
            .and_then(|(offset, length)| self.body.get(offset..offset.checked_add(length)?));
        let bytes = bytes.ok_or("a buffer lies outside of its batch")?;
        let Some(compression) = self.compression.filter(|_| !bytes.is_empty()) else {
            return Ok(bytes.to_vec());
        };
        let (length, bytes) = bytes.split_first_chunk().ok_or("a compressed buffer is cut short")?;
        match i64::from_le_bytes(*length) {
            -1 => Ok(bytes.to_vec()),
            length => {
                let mut out = Vec::new();
                let length = u64::try_from(length).ok().filter(|&length| length <= MAX_BUFFER_BYTES);
                let length = length.ok_or("a compressed buffer has an impossible length")?;
                let frame: Box<dyn Read> = match compression {
                    Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(bytes)),
                    Compression::Zstd => {
                        Box::new(zstd::Decoder::new(bytes).map_err(|_| "a buffer cannot be decompressed")?)
                    }
                };
                let read = frame.take(length.saturating_add(1)).read_to_end(&mut out);
                read.map_err(|_| "a buffer cannot be decompressed")?;
                if out.len() as u64 == length { Ok(out) } else { Err("a buffer lies about its length") }
            }
        }
    }

    /// The length of a node and which of its elements are not null.
    fn node(&self, node: usize, buffer: usize) -> Result<(usize, Bits), &'static str> {
        let number = |k| self.nodes.i64(node, k).map_err(|_| METADATA);
        let length = usize::try_from(number(0)?).map_err(|_| "a column of negative length")?;
        if number(1)? == 0 {
            return Ok((length, Bits(None)));
        }
        let bits = self.buffer(buffer)?;
        if bits.len() < length.div_ceil(8) {
            return Err("a buffer of nulls is too short");
        }
        Ok((length, Bits(Some(bits))))
    }
}

impl Batch {
    fn new(batch: Table<'_>, body: &[u8], column: &Column) -> Result<Self, &'static str> {
        let compression = batch.table(3).map_err(|_| METADATA)?;
        let compression = match compression.map(|c| c.u8(0)).transpose().map_err(|_| METADATA)? {
            None => None,
            Some(0) => Some(Compression::Lz4),
            Some(1) => Some(Compression::Zstd),
            Some(_) => return Err("it is compressed in an unknown way"),
        };
        let parts = Parts {
            nodes: batch.vector(1, 16).map_err(|_| METADATA)?,
            buffers: batch.vector(2, 16).map_err(|_| METADATA)?,
            of_views: batch.vector(4, 8).map_err(|_| METADATA)?,
            body,
            compression,
        };
        let rows =
            batch.i64(0).ok().and_then(|n| usize::try_from(n).ok()).ok_or("a batch of negative length")?;
        let mut valid = Vec::new();
        for place in column.around.iter().copied().chain([column.place]) {
            let (length, bits) = parts.node(place.node, parts.first(place)?)?;
            if length != rows {
                return Err("a column has another length than its batch");
            }
            valid.push(bits);
        }
        // The buffers after the one of nulls.
        let first = parts.first(column.place)? + 1;
        let lists = |offsets: Offsets, buffer: usize, integer: IntegerType| {
            let (length, valid) = parts.node(column.place.node + 1, buffer)?;
            let ids = parts.buffer(buffer + 1)?;
            match length.checked_mul(integer.bytes) {
                Some(bytes) if bytes <= ids.len() => Ok(Values::Lists { offsets, ids, valid, integer }),
                _ => Err("a buffer of ids is too short"),
            }
        };
        let values = match column.kind {
            Kind::Text { wide } => {
                let offsets = Offsets::new(parts.buffer(first)?, wide, rows)?;
                Values::Texts { offsets, bytes: parts.buffer(first + 1)? }
            }
            Kind::View => {
                let views = parts.buffer(first)?;
                if rows.checked_mul(16).is_none_or(|bytes| bytes > views.len()) {
                    return Err("a buffer of views is too short");
                }
                let own = parts.of_views(column.place.views)?;
                let buffers = (0..own).map(|k| parts.buffer(first + 1 + k)).collect::<Result<_, _>>()?;
                Values::Views { views, buffers }
            }
            Kind::List { wide, integer } => {
                let offsets = Offsets::new(parts.buffer(first)?, wide, rows)?;
                lists(offsets, first + 1, integer)?
            }
            Kind::FixedList { length, integer } => {
                let lists = lists(Offsets::Every(length), first, integer)?;
                let fits =
                    |ids: &[u8]| rows.checked_mul(length).is_some_and(|n| n <= ids.len() / integer.bytes);
                match &lists {
                    Values::Lists { ids, .. } if fits(ids) => lists,
                    _ => return Err("a buffer of ids is too short"),
                }
            }
        };
        Ok(Self { rows, next: 0, valid, values })
    }

    /// Appends the next row to a slab as a document; the error says what is wrong with it.
    fn row(&mut self, slab: &mut Slab) -> Result<(), String> {
        const OUTSIDE: &str = "cannot be decoded: it lies outside of its batch";
        let i = self.next;
        self.next += 1;
        let is_valid = self.valid.iter().all(|bits| bits.has(i));
        match &self.values {
            Values::Texts { .. } | Values::Views { .. } => {
                let start = slab.bytes.len();
                if is_valid {
                    slab.bytes.extend_from_slice(self.text(i).ok_or(OUTSIDE)?);
                }
                slab.documents.push(start..slab.bytes.len());
            }
            Values::Lists { offsets, ids, valid, integer } => {
                let start = slab.ids.len();
                let range =
                    if is_valid { offsets.range(i, ids.len() / integer.bytes).ok_or(OUTSIDE)? } else { 0..0 };
                for k in range {
                    if !valid.has(k) {
                        return Err("a null among the token ids".into());
                    }
                    let id = integer.id(&ids[k * integer.bytes..(k + 1) * integer.bytes]);
                    let outside = |value| format!("{value} is not a token id from 0 to {}", u32::MAX);
                    slab.ids.push(id.map_err(outside)?);
                }
                slab.documents.push(start..slab.ids.len());
            }
        }
        Ok(())
    }

    /// The text of row `i`, unless it lies outside of the batch.
    fn text(&self, i: usize) -> Option<&[u8]> {
        match &self.values {
            Values::Texts { offsets, bytes } => bytes.get(offsets.range(i, bytes.len())?),
            // 16 bytes: the length, and the text itself or its first four bytes, its buffer and its place in that.
            Values::Views { views, buffers } => {
                let view = views.get(i * 16..i * 16 + 16)?;
                let part = |k| u32::from_le_bytes(number(view, k).unwrap_or_default()) as usize;
                let length = part(0);
                match length {
                    0..=12 => view.get(4..4 + length),
                    _ => buffers.get(part(2))?.get(part(3)..part(3).checked_add(length)?),
                }
            }
            Values::Lists { .. } => None,
        }
    }
}

impl Reader for ArrowReader {
    fn fill(&mut self, slab: &mut Slab) -> Result<bool> {
        slab.content = if self.holds() == Holds::Text { Content::Records } else { Content::Ids };
        slab.path.clone_from(&self.path);
        slab.first_line = self.row;
        while slab.bytes.len() + slab.ids.len() * 4 < SLAB_BYTES && slab.documents.len() < 1 << 20 {
            let mut batch = match self.batch.take() {
                Some(batch) => batch,
                None if self.ended => break,
                None => match self.next_batch()? {
                    Some(batch) => batch,
                    None => {
                        self.ended = true;
                        break;
                    }
                },
            };
            // A few rows at a time, however long they are.
            for _ in 0..(batch.rows - batch.next).min(64) {
                batch.row(slab).map_err(|message| Error::format_at(&self.path, self.row, message))?;
                self.row += 1;
            }
            self.batch = (batch.next < batch.rows).then_some(batch);
        }
        Ok(!slab.documents.is_empty())
    }
}
