//! The tensors of `model.safetensors`, or of the shards that `model.safetensors.index.json` lists.
//!
//! Headers are read and checked first: every tensor lies inside its file, and none overlaps another. A tensor is read when it is
//! needed, so that no more than the model and one tensor are in memory.

use super::files::{Files, Source};
use crate::model::container::{impossible, read_header};
use crate::{Error, Result};
use safetensors::tensor::{Dtype, Metadata};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::SeekFrom;

/// The file with all weights.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// The list of shards.
const INDEX: &str = "model.safetensors.index.json";
/// The largest list of shards, in bytes.
const MOST_INDEX: u64 = 64 << 20;

/// Where a tensor is.
struct Entry {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    /// The position of its bytes in the file.
    start: u64,
    length: usize,
}

/// All tensors of a directory.
pub(super) struct Weights<'a> {
    files: &'a dyn Files,
    names: Vec<String>,
    entries: BTreeMap<String, Entry>,
    /// The file that was read last.
    current: Option<(usize, Box<dyn Source + 'a>)>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl<'a> Weights<'a> {
    /// Reads the headers of all files.
    pub(super) fn open(files: &'a dyn Files) -> Result<Self> {
        let mut weights = Self { files, names: Vec::new(), entries: BTreeMap::new(), current: None };
        if files.has(WEIGHTS) {
            weights.add(WEIGHTS)?;
            return Ok(weights);
        }
        if !files.has(INDEX) {
            let message = match ["pytorch_model.bin", "pytorch_model.bin.index.json"]
                .iter()
                .any(|n| files.has(n))
            {
                true => format!(
                    "has no {WEIGHTS}; byrote does not read pytorch_model.bin, which `transformers` can save as safetensors"
                ),
                false => format!("has neither {WEIGHTS} nor {INDEX}"),
            };
            return Err(Error::format(files.path(""), message));
        }
        let path = files.path(INDEX);
        let bytes = files.read(INDEX, MOST_INDEX, "a list of shards")?;
        let index: Index = serde_json::from_slice(&bytes)
            .map_err(|e| Error::format(&path, format!("not a list of shards: {e}")))?;
        let shards: BTreeSet<&String> = index.weight_map.values().collect();
        for shard in shards {
            if shard.contains(['/', '\\', '\0']) || !shard.ends_with(".safetensors") || shard.starts_with('.')
            {
                let message = format!("{shard:?} is not the name of a shard in this directory");
                return Err(Error::format(&path, message));
            }
            if !files.has(shard) {
                return Err(Error::format(&path, format!("the shard {shard} is missing")));
            }
            weights.add(shard)?;
        }
        for (tensor, shard) in &index.weight_map {
            let held = weights.entries.get(tensor).is_some_and(|e| weights.names[e.file] == *shard);
            if !held {
                return Err(Error::format(files.path(shard), format!("the tensor {tensor} is missing")));
            }
        }
        Ok(weights)
    }

    /// Adds the tensors of a file.
    fn add(&mut self, name: &str) -> Result<()> {
        let path = self.files.path(name);
        let (mut source, size) = self.files.open(name)?;
        let header = read_header(&mut source, size).map_err(|e| Error::io(&path, "read", e))?;
        if let Some(message) = impossible(&header, size) {
            return Err(Error::format(&path, message));
        }
        let wrong = |e: serde_json::Error| Error::format(&path, format!("damaged: {e}"));
        let metadata: Metadata = serde_json::from_slice(&header[8..]).map_err(wrong)?;
        let tensors: BTreeMap<String, _> = metadata.tensors().into_iter().collect();
        for (tensor, info) in tensors {
            let (start, end) = info.data_offsets;
            let entry = Entry {
                file: self.names.len(),
                dtype: info.dtype,
                shape: info.shape.clone(),
                start: header.len() as u64 + start as u64,
                length: end - start,
            };
            if let Some(before) = self.entries.get(&tensor) {
                let message = format!("the tensor {tensor} is also in {}", self.names[before.file]);
                return Err(Error::format(&path, message));
            }
            self.entries.insert(tensor, entry);
        }
        self.names.push(name.to_owned());
        Ok(())
    }

    pub(super) fn has(&self, tensor: &str) -> bool {
        self.entries.contains_key(tensor)
    }

    /// The names of all tensors, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// An error about a tensor, with the file that it is in or should be in.
    pub(super) fn wrong(&self, tensor: &str, message: String) -> Error {
        let file = match (self.entries.get(tensor), &self.names[..]) {
            (Some(entry), names) => names.get(entry.file).map_or("", String::as_str),
            (None, [only]) => only,
            (None, _) => INDEX,
        };
        Error::format(self.files.path(file), message)
    }

    fn entry(&self, tensor: &str) -> Result<&Entry> {
        let missing = || self.wrong(tensor, format!("the tensor {tensor} is missing"));
        self.entries.get(tensor).ok_or_else(missing)
    }

    /// Checks a tensor without reading it, and returns its type.
    pub(super) fn check(&self, tensor: &str, shape: &[usize]) -> Result<Dtype> {
        let entry = self.entry(tensor)?;
        if entry.shape != shape {
            let message = format!("{tensor} has shape {:?}, but config.json needs {shape:?}", entry.shape);
            return Err(self.wrong(tensor, message));
        }
        match entry.dtype {
            Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(entry.dtype),
            other => {
                let message = format!("{tensor} has the type {other:?}; byrote reads F64, F32, F16 and BF16");
                Err(self.wrong(tensor, message))
            }
        }
    }

    /// Reads the numbers of a tensor that was [`check`](Self::check)ed into `values`.
    pub(super) fn read(&mut self, tensor: &str, bytes: &mut Vec<u8>, values: &mut Vec<f64>) -> Result<()> {
        let &Entry { file, dtype, start, length, .. } = self.entry(tensor)?;
        let path = self.files.path(&self.names[file]);
        if self.current.as_ref().is_none_or(|(open, _)| *open != file) {
            self.current = Some((file, self.files.open(&self.names[file])?.0));
        }
        let Some((_, source)) = &mut self.current else { return Ok(()) };
        bytes.resize(length, 0);
        let read = source.seek(SeekFrom::Start(start)).and_then(|_| source.read_exact(bytes));
        read.map_err(|e| Error::io(&path, "read", e))?;
        values.clear();
        match dtype {
            Dtype::F64 => values.extend(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b))),
            Dtype::F32 => {
                values.extend(bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))))
            }
            Dtype::F16 => values.extend(bytes.as_chunks().0.iter().map(|b| of_f16(u16::from_le_bytes(*b)))),
            _ => values.extend(bytes.as_chunks().0.iter().map(|b| of_bf16(u16::from_le_bytes(*b)))),
        }
        match values.iter().position(|x| !x.is_finite()) {
            Some(i) => {
                Err(self.wrong(tensor, format!("{tensor} contains {} (first at entry {i})", values[i])))
            }
            None => Ok(()),
        }
    }
}

/// A number of 16 bits with the exponent of f32.
fn of_bf16(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// A number of 16 bits with 5 bits of exponent.
fn of_f16(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    sign * match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read_exactly() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2f64.powi(-24)),
            (0x03ff, 1023.0 * 2f64.powi(-24)),
            (0x3555, 0.333_251_953_125),
        ] {
            assert_eq!(of_f16(bits), value);
        }
        assert!(of_f16(0x7c00).is_infinite() && of_f16(0x7e00).is_nan() && of_f16(0x8000).is_sign_negative());
        assert_eq!((of_bf16(0x3f80), of_bf16(0xc0a0)), (1.0, -5.0));
    }
}
