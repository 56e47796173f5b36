//! The tensors of a safetensors file, or of the shards that `model.safetensors.index.json` lists.
//!
//! Headers are read and checked first: every tensor lies inside its file, and none overlaps another.

use super::encoding::Encoding;
use super::tensors::TensorFiles;
use crate::model::container::{impossible, read_header};
use crate::{Error, Result};
use safetensors::tensor::{Dtype, Metadata};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The list of shards.
pub(crate) const INDEX: &str = "model.safetensors.index.json";
/// The largest list of shards, in bytes.
const MOST_INDEX: u64 = 64 << 20;

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Adds the tensors of a file, and returns its header.
pub(crate) fn add(tensors: &mut TensorFiles, name: &str) -> Result<Metadata> {
    let path = tensors.files().path(name);
    let (mut source, size) = tensors.files().open(name)?;
    let header = read_header(&mut source, size).map_err(|e| Error::io(&path, "read", e))?;
    if let Some(message) = impossible(&header, size) {
        return Err(Error::format(&path, message));
    }
    let wrong = |e: serde_json::Error| Error::format(&path, format!("damaged: {e}"));
    let metadata: Metadata = serde_json::from_slice(&header[8..]).map_err(wrong)?;
    let sorted: BTreeMap<String, _> = metadata.tensors().into_iter().collect();
    let found = sorted.into_iter().map(|(tensor, info)| {
        let start = (header.len() + info.data_offsets.0) as u64;
        (tensor, encoding(info.dtype), info.shape.clone(), start)
    });
    tensors.add(name, source, found)?;
    Ok(metadata)
}

fn encoding(dtype: Dtype) -> Result<Encoding, String> {
    match dtype {
        Dtype::F64 => Ok(Encoding::F64),
        Dtype::F32 => Ok(Encoding::F32),
        Dtype::F16 => Ok(Encoding::F16),
        Dtype::BF16 => Ok(Encoding::Bf16),
        other => Err(format!("the type {other:?}; byrote reads F64, F32, F16 and BF16")),
    }
}

/// Adds the tensors of all shards that the list names.
pub(crate) fn add_shards(tensors: &mut TensorFiles) -> Result<()> {
    let path = tensors.files().path(INDEX);
    let bytes = tensors.files().read(INDEX, MOST_INDEX, "a list of shards")?;
    let index: Index = serde_json::from_slice(&bytes)
        .map_err(|e| Error::format(&path, format!("not a list of shards: {e}")))?;
    let shards: BTreeSet<&String> = index.weight_map.values().collect();
    for shard in shards {
        if shard.contains(['/', '\\', '\0']) || !shard.ends_with(".safetensors") || shard.starts_with('.') {
            let message = format!("{shard:?} is not the name of a shard in this directory");
            return Err(Error::format(&path, message));
        }
        if !tensors.files().has(shard) {
            return Err(Error::format(&path, format!("the shard {shard} is missing")));
        }
        add(tensors, shard)?;
    }
    for (tensor, shard) in &index.weight_map {
        let held = tensors.entry(tensor).is_ok_and(|e| tensors.file_names()[e.file] == *shard);
        if !held {
            let message = format!("the tensor {tensor} is missing");
            return Err(Error::format(tensors.files().path(shard), message));
        }
    }
    Ok(())
}
