//! Safetensors files with one metadata key of JSON: what model files and checkpoints have in common.

use super::file::Precision;
use crate::{Error, Result};
use safetensors::tensor::{SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;

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
