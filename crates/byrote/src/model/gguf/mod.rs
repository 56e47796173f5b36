//! GGUF files, as llama.cpp uses them: metadata, tokenizer and weights in one file.
//!
//! | file | content |
//! |---|---|
//! | `header`, `metadata` | the header of a file: keys with values, and where tensors are |
//! | `quantization`, `blocks`, `superblocks` | the types of tensors, and how quantized numbers become f32 |
//! | `architecture` | settings and tensors of the supported architectures |
//! | `tokenizer` | the tokenizer of a file as a `tokenizer.json` |

mod architecture;
mod blocks;
mod header;
mod metadata;
mod quantization;
mod superblocks;
mod tokenizer;

pub(crate) use quantization::Quantization;

use super::stored::{Files, Foreign, Memory, Single, StoredAs, StoredModel, TensorFiles, Weights};
use super::{ModelFile, TensorName};
use crate::Result;
use architecture::{Architecture, ROPE_FACTORS};
use std::path::Path;

/// Whether a file that begins with these bytes is a GGUF file, or is named as one.
pub(crate) fn is_gguf(path: &Path, start: &[u8]) -> bool {
    start.starts_with(header::MAGIC) || path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
}

/// Opens a file, and reads and checks everything but the weights.
pub(super) fn open(path: &Path) -> Result<StoredModel> {
    open_in(Box::new(Single(path.to_path_buf())), "")
}

/// Reads a model from bytes; `path` is the name used in messages.
pub(crate) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<ModelFile> {
    let name = path.to_string_lossy();
    open_in(Box::new(Memory::new([(Path::new(&*name), bytes)])), &name)?.to_model_file()
}

fn open_in(files: Box<dyn Files>, name: &str) -> Result<StoredModel> {
    let path = files.path(name);
    let (mut source, size) = files.open(name)?;
    let (metadata, found) = header::read(&path, &mut *source, size)?;
    let mut tensors = TensorFiles::new(files);
    let found = found.into_iter().map(|info| (info.name, info.encoding, info.shape, info.start));
    tensors.add(name, source, found)?;
    let architecture = Architecture::read(&metadata)?;
    let factors = rope_factors(&mut tensors)?;
    let config = architecture.config(&metadata, &tensors, &factors)?;
    let layout = architecture.layout(&config);
    let model = format!("the architecture {}", architecture.name());
    let weights = Weights::new(tensors, layout, "the metadata", &model, |other| other == ROPE_FACTORS)?;
    let text = tokenizer::read(&metadata, &path, config.shape.d_vocab)?;
    Ok(StoredModel::new(config, StoredAs::Gguf, architecture.name().to_owned(), weights, text))
}

/// The factors of the rotary frequencies; none if the file has none.
fn rope_factors(tensors: &mut TensorFiles) -> Result<Vec<f32>> {
    /// More than any head has.
    const MOST: usize = 1 << 16;
    if !tensors.has(ROPE_FACTORS) {
        return Ok(Vec::new());
    }
    let shape = tensors.entry(ROPE_FACTORS)?.shape.clone();
    let [n] = shape[..] else {
        return Err(tensors.wrong(ROPE_FACTORS, format!("{ROPE_FACTORS} has shape {shape:?}")));
    };
    if n > MOST {
        return Err(tensors.wrong(ROPE_FACTORS, format!("{ROPE_FACTORS} has {n} factors")));
    }
    tensors.check(ROPE_FACTORS, &shape, "the metadata needs")?;
    let whole = Foreign::same(ROPE_FACTORS.into(), TensorName::of(ROPE_FACTORS), &shape);
    let mut factors = vec![0.0; n];
    for part in &whole.parts {
        tensors.fill(ROPE_FACTORS, part, &mut factors)?;
    }
    Ok(factors)
}
