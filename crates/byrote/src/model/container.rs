//! Safetensors files with one metadata key of JSON: what model files and checkpoints have in common.

use super::file::Precision;
use crate::{Error, Result};
use safetensors::tensor::{SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
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

/// What every such file says of itself first.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// The bytes of a file.
pub(crate) fn write(key: &str, metadata: &impl Serialize, tensors: &[Stored]) -> Result<Vec<u8>> {
    let fail = |e: String| Error::setting("file", format!("cannot be written: {e}"));
    let json = serde_json::to_string(metadata).map_err(|e| fail(e.to_string()))?;
    let views = tensors
        .iter()
        .map(|t| Ok((&*t.name, TensorView::new(t.precision.dtype(), t.shape.clone(), &t.bytes)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(|e| fail(e.to_string()))?;
    safetensors::serialize(views, Some(HashMap::from([(key.to_owned(), json)])))
        .map_err(|e| fail(e.to_string()))
}

/// Reads a file whole; what `from_bytes` finds wrong is told with the path.
pub(crate) fn load<T>(path: &Path, from_bytes: impl Fn(&[u8]) -> Result<T, String>) -> Result<T> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", e))?;
    from_bytes(&bytes).map_err(|message| Error::format(path, message))
}

/// Whether a file's metadata have this key: its header alone is read. What is no safetensors file has not.
pub(crate) fn has_key(path: &Path, key: &str) -> Result<bool> {
    let fail = |e| Error::io(path, "read", e);
    let mut file = File::open(path).map_err(fail)?;
    let mut start = Vec::new();
    file.by_ref().take(8).read_to_end(&mut start).map_err(fail)?;
    let Ok(length) = <[u8; 8]>::try_from(&start[..]).map(u64::from_le_bytes) else { return Ok(false) };
    if length > MOST_HEADER {
        return Ok(false);
    }
    file.take(length).read_to_end(&mut start).map_err(fail)?;
    let json: Option<serde_json::Value> = serde_json::from_slice(&start[8..]).ok();
    Ok(json.is_some_and(|j| j["__metadata__"].get(key).is_some()))
}

/// The longest header that safetensors reads.
const MOST_HEADER: u64 = 100_000_000;

/// The metadata and the tensors of a file of this format; the message says what is wrong with it. `what` is what the key
/// stands for.
pub(crate) fn read<'a, M: DeserializeOwned>(
    bytes: &'a [u8],
    key: &str,
    what: &str,
    format: u32,
) -> Result<(M, SafeTensors<'a>), String> {
    let (_, header) =
        SafeTensors::read_metadata(bytes).map_err(|e| format!("not a safetensors file, or damaged: {e}"))?;
    let json = header.metadata().as_ref().and_then(|m| m.get(key));
    let json = json
        .ok_or_else(|| format!("a safetensors file, but no {what} of byrote: the metadata lack its key"))?;
    let unreadable = |e: serde_json::Error| format!("unreadable metadata: {e}");
    let found: Format = serde_json::from_str(json).map_err(unreadable)?;
    if found.format != format {
        return Err(format!("format {}, this program reads {format}", found.format));
    }
    let metadata = serde_json::from_str(json).map_err(unreadable)?;
    let file = SafeTensors::deserialize(bytes).map_err(|e| format!("damaged: {e}"))?;
    Ok((metadata, file))
}
