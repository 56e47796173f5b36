//! Opens files: detects the format by name, decompresses, and counts bytes for progress.

use crate::corpus::options::{Format, Options};
use crate::corpus::tokenizer::TokenizerChoice;
use crate::num::huge_pages;
use crate::{Error, Result};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

/// A file about to be read.
pub(crate) struct Input {
    pub(crate) format: Format,
    /// The decompressed bytes; empty for Parquet, which is read by random access.
    pub(crate) bytes: Box<dyn Read + Send>,
    /// The file itself, if it is in memory.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code))]
    pub(crate) held: Option<Arc<[u8]>>,
}

/// The name that denotes standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The ending of a name, in lower case and without the one of its compression.
fn ending(path: &Path) -> (String, Compression) {
    let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let (stem, compression) = match (name.strip_suffix(".gz"), name.strip_suffix(".zst")) {
        (Some(stem), _) => (stem, Compression::Gzip),
        (_, Some(stem)) => (stem, Compression::Zstd),
        _ => (name.as_str(), Compression::None),
    };
    (stem.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_owned()), compression)
}

/// Whether a file is read as part of a directory: by a name that says what is in it.
pub(crate) fn is_known(path: &Path) -> bool {
    let (ending, compression) = ending(path);
    match by_name(path).0 {
        None => matches!(ending.as_str(), "txt" | "text"),
        Some(Format::Text | Format::Jsonl) => true,
        Some(_) => compression == Compression::None,
    }
}

fn by_name(path: &Path) -> (Option<Format>, Compression) {
    let (ending, compression) = ending(path);
    let format = match ending.as_str() {
        "jsonl" | "ndjson" => Some(Format::Jsonl),
        "parquet" => Some(Format::Parquet),
        "arrow" => Some(Format::Arrow),
        "npy" => Some(Format::Npy),
        "bin" => Some(Format::Bin),
        _ => None,
    };
    (format, compression)
}

impl Input {
    /// Opens `path`, or standard input for `-`; `held` is the file if it is in memory, and `path` is then only its
    /// name. `read` counts the bytes taken from the file, before decompression.
    pub(crate) fn open(
        path: &Path,
        held: Option<&Arc<[u8]>>,
        options: &Options,
        read: Arc<AtomicU64>,
    ) -> Result<Self> {
        let (named, compression) = by_name(path);
        let format = options.format.or(named).unwrap_or(Format::Text);
        let is_text = matches!(format, Format::Text | Format::Jsonl);
        if compression != Compression::None && !is_text {
            return Err(Error::format(path, "only text and JSONL may be compressed; decompress it first"));
        }
        let raw: Box<dyn Read + Send> = match held {
            Some(held) => Box::new(Counting { inner: io::Cursor::new(held.clone()), read }),
            None if is_stdin(path) => {
                if format == Format::Parquet {
                    let message = "Parquet cannot be read from standard input; pass a file";
                    return Err(Error::format(path, message));
                }
                Box::new(Counting { inner: io::stdin(), read })
            }
            None if format == Format::Parquet => Box::new(io::empty()),
            None => Box::new(Counting { inner: crate::input::open(path)?, read }),
        };
        let bytes: Box<dyn Read + Send> = match compression {
            Compression::None if is_text && options.tokenizer != TokenizerChoice::Byte => {
                refuse_compressed(path, raw)?
            }
            Compression::None => raw,
            Compression::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(1 << 18, raw)))
            }
            Compression::Zstd => Box::new(zstd::Decoder::new(raw).map_err(|e| Error::io(path, "read", e))?),
        };
        Ok(Self { format, bytes, held: held.cloned() })
    }
}

/// Refuses compressed data whose name does not say so, which would otherwise be reported as invalid UTF-8.
fn refuse_compressed(path: &Path, mut raw: Box<dyn Read + Send>) -> Result<Box<dyn Read + Send>> {
    let mut start = Vec::new();
    fill_to(&mut *raw, &mut start, 4, path)?;
    let (kind, ending, decompress) = match start[..] {
        [0x1f, 0x8b, 8, _] => ("gzip", ".gz", "gzip -dc"),
        [0x28, 0xb5, 0x2f, 0xfd] => ("zstd", ".zst", "zstd -dc"),
        _ => return Ok(Box::new(io::Cursor::new(start).chain(raw))),
    };
    let message = match is_stdin(path) {
        true => format!("standard input is compressed ({kind}); pipe it through {decompress:?} first"),
        false => format!("is compressed ({kind}), but its name does not end in {ending}; rename it"),
    };
    Err(Error::format(path, message))
}

struct Counting<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Appends to `bytes` until it holds `target` bytes; returns `true` at the end of the input.
pub(crate) fn fill_to(
    input: &mut (impl Read + ?Sized),
    bytes: &mut Vec<u8>,
    target: usize,
    path: &Path,
) -> Result<bool> {
    let mut end = bytes.len();
    huge_pages::reserve(bytes, target.saturating_sub(end));
    bytes.resize(target.max(end), 0);
    let ended = loop {
        if end == bytes.len() {
            break false;
        }
        match input.read(&mut bytes[end..]) {
            Ok(0) => break true,
            Ok(n) => end += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io(path, "read", e)),
        }
    };
    bytes.truncate(end);
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_compressions_go_by_the_name() {
        let cases = [
            ("a.txt", None, Compression::None),
            ("a.JSONL.gz", Some(Format::Jsonl), Compression::Gzip),
            ("dir.npy/a.txt.zst", None, Compression::Zstd),
            ("a.parquet", Some(Format::Parquet), Compression::None),
            ("a.bin", Some(Format::Bin), Compression::None),
            ("data.Arrow", Some(Format::Arrow), Compression::None),
            ("README", None, Compression::None),
        ];
        for (name, format, compression) in cases {
            assert_eq!(by_name(Path::new(name)), (format, compression), "{name}");
        }
    }
}
