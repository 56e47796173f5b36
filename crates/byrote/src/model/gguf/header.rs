//! The header of a GGUF file.
//!
//! All numbers are little endian; a string is its length in bytes (u64) and its bytes:
//!
//! ```text
//! "GGUF"   version (u32: 2 or 3)   tensors (u64)   entries of metadata (u64)
//! entry:   key (string)   type (u32)   value
//! tensor:  name (string)   dimensions (u32)   sizes (u64 each, the fastest first)   type (u32)   offset (u64)
//! zeros up to a multiple of the alignment, then the tensors, each at its offset from here
//! ```
//!
//! Nothing is believed: a length must fit into the file before anything of that length is read, counts are limited, and every
//! tensor must lie inside the file and overlap no other.

use super::metadata::{Array, Metadata, Value};
use super::quantization;
use crate::corpus::vocabulary::Arena;
use crate::model::stored::{Encoding, Source};
use crate::units;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The first bytes of a GGUF file.
pub(super) const MAGIC: &[u8; 4] = b"GGUF";
/// The largest header, in bytes.
const MOST_HEADER: u64 = 256 << 20;
/// The longest key or name, in bytes.
const MOST_NAME: u64 = u16::MAX as u64;
/// The largest number of entries of metadata.
const MOST_ENTRIES: u64 = 1 << 16;
/// The largest number of tensors.
const MOST_TENSORS: u64 = 1 << 17;
/// The deepest nesting of arrays.
const MOST_NESTED: u32 = 4;
/// Where tensors begin, if the file does not say otherwise.
const ALIGNMENT: u64 = 32;

/// A tensor of a file.
pub(super) struct TensorInfo {
    pub(super) name: String,
    pub(super) encoding: Result<Encoding, String>,
    /// Row-major: the fastest dimension last.
    pub(super) shape: Vec<usize>,
    /// The position of its first byte in the file.
    pub(super) start: u64,
}

/// Reads and checks the header of a file of `size` bytes.
pub(super) fn read(path: &Path, source: &mut dyn Source, size: u64) -> Result<(Metadata, Vec<TensorInfo>)> {
    let mut reader = Reader { path: path.to_path_buf(), source: BufReader::new(source), at: 0, size };
    if size < 4 || reader.bytes::<4>("the first bytes")? != *MAGIC {
        return Err(reader.wrong("not a GGUF file: it does not begin with \"GGUF\""));
    }
    let version = reader.u32("the version")?;
    match version {
        2 | 3 => {}
        _ if (1..=3).contains(&version.swap_bytes()) => {
            return Err(reader.wrong("is big endian; byrote reads little-endian GGUF files"));
        }
        _ => return Err(reader.wrong(format!("has GGUF version {version}; byrote reads versions 2 and 3"))),
    }
    let tensors = reader.count("tensors", MOST_TENSORS)?;
    let entries = reader.count("entries of metadata", MOST_ENTRIES)?;
    let mut values = BTreeMap::new();
    for _ in 0..entries {
        let key = reader.text("a key", MOST_NAME)?;
        let kind = reader.u32(&key)?;
        let value = reader.value(&key, kind)?;
        if values.insert(key.clone(), value).is_some() {
            return Err(reader.wrong(format!("damaged: the key {key} occurs twice")));
        }
    }
    let metadata = Metadata::new(path, values);
    let alignment = metadata.count("general.alignment")?.unwrap_or(ALIGNMENT);
    if !alignment.is_power_of_two() {
        return Err(metadata.wrong("general.alignment", &format!("must be a power of two (got {alignment})")));
    }
    let mut found = Vec::new();
    for _ in 0..tensors {
        found.push(reader.tensor()?);
    }
    let Some(base) = reader.at.checked_next_multiple_of(alignment) else {
        return Err(metadata.wrong("general.alignment", &format!("is too large ({alignment})")));
    };
    place(&reader, &mut found, base, alignment)?;
    Ok((metadata, found))
}

/// Turns offsets into positions in the file, each inside the file and none inside another tensor.
fn place(reader: &Reader<'_>, tensors: &mut [TensorInfo], base: u64, alignment: u64) -> Result<()> {
    let mut ranges = Vec::new();
    for tensor in tensors {
        let name = &tensor.name;
        if !tensor.start.is_multiple_of(alignment) {
            let message = format!("damaged: {name} is at {}, not a multiple of {alignment}", tensor.start);
            return Err(reader.wrong(message));
        }
        // A tensor of a type that byrote does not read is refused if the model needs it.
        let length = match tensor.encoding {
            Ok(encoding) => bytes(&tensor.shape, encoding).ok_or_else(|| {
                let message = format!(
                    "damaged: {name} has shape {:?}, which is impossible for {}",
                    tensor.shape,
                    encoding.name()
                );
                reader.wrong(message)
            })?,
            Err(_) => 0,
        };
        let start = base.checked_add(tensor.start);
        let end = start.and_then(|start| start.checked_add(length)).filter(|&end| end <= reader.size);
        match (start, end) {
            (Some(start), Some(end)) => {
                tensor.start = start;
                ranges.push((start, end, name));
            }
            _ => {
                let message = format!(
                    "damaged or incomplete: {name} has {} at offset {}, but the file has {}",
                    units::bytes(length),
                    tensor.start,
                    units::bytes(reader.size)
                );
                return Err(reader.wrong(message));
            }
        }
    }
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(reader.wrong(format!("damaged: {} and {} overlap", pair[0].2, pair[1].2))),
        None => Ok(()),
    }
}

/// The bytes of a tensor, whose rows are whole blocks.
fn bytes(shape: &[usize], encoding: Encoding) -> Option<u64> {
    let (block, size) = encoding.block();
    let entries = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n))?;
    let whole = shape.last().is_none_or(|width| width.is_multiple_of(block));
    (entries / block).checked_mul(size).filter(|_| whole).map(|bytes| bytes as u64)
}

/// Reads numbers and strings in order.
struct Reader<'a> {
    path: PathBuf,
    source: BufReader<&'a mut dyn Source>,
    at: u64,
    size: u64,
}

impl Reader<'_> {
    fn wrong(&self, message: impl Into<String>) -> Error {
        Error::format(&self.path, message)
    }

    /// Checks that `n` more bytes can belong to the header.
    fn expect(&self, n: u64, what: &str) -> Result<()> {
        if n > self.size - self.at {
            let left = self.size - self.at;
            return Err(
                self.wrong(format!("damaged or incomplete: {what} takes {n} bytes, but {left} are left"))
            );
        }
        if self.at + n > MOST_HEADER {
            let message = format!("its header has more than {}, at {what}", units::bytes(MOST_HEADER));
            return Err(self.wrong(message));
        }
        Ok(())
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        self.expect(N as u64, what)?;
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(|e| Error::io(&self.path, "read", e))?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// Appends `n` bytes to `bytes`.
    fn append(&mut self, n: u64, what: &str, bytes: &mut Vec<u8>) -> Result<()> {
        self.expect(n, what)?;
        let read =
            self.source.by_ref().take(n).read_to_end(bytes).map_err(|e| Error::io(&self.path, "read", e))?;
        if read as u64 != n {
            return Err(Error::io(&self.path, "read", std::io::ErrorKind::UnexpectedEof.into()));
        }
        self.at += n;
        Ok(())
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        self.bytes(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    fn count(&mut self, what: &str, most: u64) -> Result<u64> {
        match self.u64(what)? {
            n if n <= most => Ok(n),
            n => Err(self.wrong(format!("damaged: {n} {what}; byrote reads at most {most}"))),
        }
    }

    /// A string in UTF-8 of at most `most` bytes.
    fn text(&mut self, what: &str, most: u64) -> Result<String> {
        let n = self.u64(what)?;
        if n > most {
            return Err(self.wrong(format!("damaged: {what} of {n} bytes; byrote reads at most {most}")));
        }
        let mut bytes = Vec::new();
        self.append(n, what, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.wrong(format!("damaged: {what} is not text in UTF-8")))
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<Value> {
        let float = |x: f64| Value::Float(x);
        Ok(match kind {
            0 => Value::Count(u64::from(self.bytes::<1>(key)?[0])),
            1 => Value::Integer(i64::from(i8::from_le_bytes(self.bytes(key)?))),
            2 => Value::Count(u64::from(u16::from_le_bytes(self.bytes(key)?))),
            3 => Value::Integer(i64::from(i16::from_le_bytes(self.bytes(key)?))),
            4 => Value::Count(u64::from(self.u32(key)?)),
            5 => Value::Integer(i64::from(i32::from_le_bytes(self.bytes(key)?))),
            6 => float(f64::from(f32::from_le_bytes(self.bytes(key)?))),
            7 => match self.bytes::<1>(key)? {
                [0] => Value::Switch(false),
                [1] => Value::Switch(true),
                [other] => {
                    return Err(self.wrong(format!("damaged: {key} is {other}, neither true nor false")));
                }
            },
            8 => Value::Text(self.text(key, MOST_HEADER)?),
            9 => Value::Array(self.array(key, 0)?),
            10 => Value::Count(self.u64(key)?),
            11 => Value::Integer(i64::from_le_bytes(self.bytes(key)?)),
            12 => float(f64::from_le_bytes(self.bytes(key)?)),
            other => return Err(self.wrong(format!("damaged: {key} has the unknown type {other}"))),
        })
    }

    fn array(&mut self, key: &str, nested: u32) -> Result<Array> {
        let (kind, n) = (self.u32(key)?, self.u64(key)?);
        let width = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 => return self.texts(key, n),
            9 if nested < MOST_NESTED => {
                for _ in 0..n {
                    self.array(key, nested + 1)?;
                }
                return Ok(Array::Nested);
            }
            9 => return Err(self.wrong(format!("damaged: {key} nests arrays more than {MOST_NESTED} deep"))),
            other => {
                return Err(self.wrong(format!("damaged: {key} holds values of the unknown type {other}")));
            }
        };
        let length = n.saturating_mul(width);
        let mut bytes = Vec::new();
        self.append(length, key, &mut bytes)?;
        Ok(Array::Numbers { kind, bytes })
    }

    /// An array of strings.
    fn texts(&mut self, key: &str, n: u64) -> Result<Array> {
        // Each has a length of 8 bytes at least.
        self.expect(n.saturating_mul(8), key)?;
        let (mut texts, mut text) = (Arena::default(), Vec::new());
        for _ in 0..n {
            let length = self.u64(key)?;
            text.clear();
            self.append(length, key, &mut text)?;
            if std::str::from_utf8(&text).is_err() {
                let message = format!("damaged: {key} holds a string that is not text in UTF-8");
                return Err(self.wrong(message));
            }
            texts.push(&text);
        }
        Ok(Array::Texts(texts))
    }

    /// The description of a tensor, whose `start` is still relative to the first tensor.
    fn tensor(&mut self) -> Result<TensorInfo> {
        let name = self.text("the name of a tensor", MOST_NAME)?;
        let dimensions = self.u32(&name)?;
        if !(1..=4).contains(&dimensions) {
            return Err(
                self.wrong(format!("damaged: {name} has {dimensions} dimensions; it must have 1 to 4"))
            );
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let n = self.u64(&name)?;
            match usize::try_from(n) {
                Ok(n) if n > 0 => shape.push(n),
                _ => return Err(self.wrong(format!("damaged: {name} has a dimension of {n}"))),
            }
        }
        shape.reverse();
        let encoding = quantization::encoding(self.u32(&name)?);
        let start = self.u64(&name)?;
        Ok(TensorInfo { name, encoding, shape, start })
    }
}
