//! Safetensors files with one metadata key that holds JSON: what model files, networks and checkpoints have in common.

use super::model_file::Precision;
use crate::{Error, Result};
use safetensors::tensor::{Metadata, SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// A tensor as it is stored.
pub(crate) struct Stored {
    pub(crate) name: Cow<'static, str>,
    pub(crate) shape: Vec<usize>,
    pub(crate) precision: Precision,
    pub(crate) bytes: Vec<u8>,
}

impl Stored {
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        shape: Vec<usize>,
        precision: Precision,
        values: &[f64],
    ) -> Self {
        Self { name: name.into(), shape, precision, bytes: precision.bytes(values) }
    }
}

/// The first field of the metadata of every such file.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Returns the bytes of a file.
pub(crate) fn write(key: &str, metadata: &impl Serialize, tensors: &[Stored]) -> Result<Vec<u8>> {
    let fail = |e: String| Error::setting("file", format!("cannot be written: {e}"));
    let json = serde_json::to_string(metadata).map_err(|e| fail(e.to_string()))?;
    write_metadata(key, json, tensors)
}

/// Returns the bytes of a file with any text under the key.
pub(crate) fn write_metadata(key: &str, text: String, tensors: &[Stored]) -> Result<Vec<u8>> {
    let fail = |e: String| Error::setting("file", format!("cannot be written: {e}"));
    let views = tensors
        .iter()
        .map(|t| Ok((&*t.name, TensorView::new(t.precision.dtype(), t.shape.clone(), &t.bytes)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(|e| fail(e.to_string()))?;
    let bytes = safetensors::serialize(views, Some(HashMap::from([(key.to_owned(), text)])))
        .map_err(|e| fail(e.to_string()))?;
    match header_length(&bytes) {
        Some(length) if length > MOST_HEADER => Err(fail(format!(
            "its description (configuration, tokenizer, vocabulary) takes {}, but a safetensors file has at most {}",
            crate::units::bytes(length),
            crate::units::bytes(MOST_HEADER),
        ))),
        _ => Ok(bytes),
    }
}

/// Reads a whole file, once its header is known to be that of a safetensors file of the right size; errors of
/// `from_bytes` are reported with the path.
pub(crate) fn load<T>(path: &Path, from_bytes: impl Fn(&[u8]) -> Result<T, String>) -> Result<T> {
    let fail = |e| Error::io(path, "read", e);
    let (mut file, size) = crate::input::open_regular(path, "a model")?;
    let header = read_header(&mut file, size).map_err(fail)?;
    if let Some(message) = impossible(&header, size) {
        return Err(Error::format(path, message));
    }
    let mut bytes = header;
    file.read_to_end(&mut bytes).map_err(fail)?;
    parse(path, &bytes, from_bytes)
}

/// Reads a file held in memory; errors of `from_bytes` are reported with the path.
pub(crate) fn parse<T>(
    path: &Path,
    bytes: &[u8],
    from_bytes: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<T> {
    from_bytes(bytes).map_err(|message| Error::format(path, message))
}

/// Whether a file's metadata has this key; only its header is read. A file that is not safetensors does not have it.
pub(crate) fn has_key(path: &Path, key: &str) -> Result<bool> {
    let (mut file, size) = crate::input::open_regular(path, "a model")?;
    let header = read_header(&mut file, size).map_err(|e| Error::io(path, "read", e))?;
    let json: Option<serde_json::Value> = header.get(8..).and_then(|json| serde_json::from_slice(json).ok());
    Ok(json.is_some_and(|j| j["__metadata__"].get(key).is_some()))
}

/// Reads the length and the header of a file of `size` bytes, or as much as there is of them if the length is
/// impossible.
pub(super) fn read_header(file: &mut impl Read, size: u64) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.by_ref().take(8).read_to_end(&mut start)?;
    if let Some(length) = header_length(&start).filter(|&n| n <= MOST_HEADER.min(size.saturating_sub(8))) {
        file.by_ref().take(length).read_to_end(&mut start)?;
    }
    Ok(start)
}

fn header_length(start: &[u8]) -> Option<u64> {
    start.first_chunk().map(|length| u64::from_le_bytes(*length))
}

/// Why a file with this header cannot be a safetensors file of `size` bytes, determined before the rest is read.
pub(super) fn impossible(header: &[u8], size: u64) -> Option<String> {
    #[derive(Deserialize)]
    struct Entry {
        data_offsets: Option<(u64, u64)>,
    }
    let Some(length) = header_length(header) else {
        return Some(format!("not a safetensors file: it has {size} bytes"));
    };
    if length > MOST_HEADER.min(size - 8) {
        return Some(format!("not a safetensors file: a header of {length} bytes in a file of {size}"));
    }
    let entries = match serde_json::from_slice::<HashMap<Cow<'_, str>, Entry>>(&header[8..]) {
        Ok(entries) => entries,
        Err(e) => return Some(format!("not a safetensors file, or damaged: its header is unreadable: {e}")),
    };
    let end = entries.into_values().filter_map(|e| e.data_offsets).map(|(_, end)| end).max().unwrap_or(0);
    let found = size - 8 - length;
    (end != found).then(|| format!("damaged: its header declares {end} bytes of tensors, but it has {found}"))
}

/// The longest header that safetensors accepts.
const MOST_HEADER: u64 = 100_000_000;

/// What a file of another program is.
pub(super) const FOREIGN: &str = "a safetensors file not written by byrote";

/// The kinds of files and their keys.
const KINDS: [(&str, &str); 3] = [
    ("byrote", "a one-layer transformer"),
    ("byrote-network", "an in-context network of many layers"),
    ("byrote-checkpoint", "a training checkpoint"),
];

/// Returns the metadata and the tensors of a file of this format; the error message says what is wrong with it. `what`
/// names the kind of file that has the key.
pub(crate) fn read<'a, M: DeserializeOwned>(
    bytes: &'a [u8],
    key: &str,
    what: &str,
    format: u32,
) -> Result<(M, SafeTensors<'a>), String> {
    let (_, header) =
        SafeTensors::read_metadata(bytes).map_err(|e| format!("not a safetensors file, or damaged: {e}"))?;
    let metadata = metadata(&header, key, what, format)?;
    let file = SafeTensors::deserialize(bytes).map_err(|e| format!("damaged: {e}"))?;
    Ok((metadata, file))
}

/// Returns the metadata under a key of a header; see [`read`].
pub(super) fn metadata<M: DeserializeOwned>(
    header: &Metadata,
    key: &str,
    what: &str,
    format: u32,
) -> Result<M, String> {
    let json = header.metadata().as_ref().and_then(|m| m.get(key));
    let json = json.ok_or_else(|| {
        let has = |key: &str| header.metadata().as_ref().is_some_and(|m| m.contains_key(key));
        match KINDS.iter().find(|(key, _)| has(key)) {
            Some((_, found)) => format!("{found}; {what} is needed here"),
            None => format!("{FOREIGN}: its metadata is missing"),
        }
    })?;
    let unreadable = |e: serde_json::Error| format!("unreadable metadata: {e}");
    let found: Format = serde_json::from_str(json).map_err(unreadable)?;
    if found.format != format {
        return Err(format!("has format {}, but this version reads format {format}", found.format));
    }
    serde_json::from_str(json).map_err(unreadable)
}
