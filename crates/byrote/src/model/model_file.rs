//! Model files: self-contained safetensors.
//!
//! Tensors have the names of TransformerLens. Fixed positions are also written, as `W_pos`, so that other programs need
//! not know how to compute them; a model read from a file uses the values stored there. One metadata key, `byrote`,
//! holds canonical JSON (format, configuration, tokenizer, vocabulary, but no time, thread count or path), so equal
//! models give equal files.
//!
//! The reader checks everything: missing, superfluous or misshapen tensors, mixed or unknown types, numbers that are
//! not finite, unknown switches and a vocabulary of the wrong size are errors that say what is wrong.

use super::config::{Config, Positions, Tensor, TensorKind};
use super::container::{self, Stored};
use super::huggingface::Family;
use super::stored::{
    self, Files, Foreign, Memory, Single, StoredAs, StoredModel, TensorFiles, Text, Weights,
};
use super::tensor_name::TensorName;
use super::weights::Model;
use crate::corpus::{Key, Reading, Vocabulary};
use crate::output::OutputFile;
use crate::setting::choices;
use crate::{Error, Result};
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};
use std::path::Path;

const KEY: &str = "byrote";
const FORMAT: u32 = 1;

/// The type of the numbers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Single precision: how models are trained.
    #[default]
    F32,
    /// Double precision: how models are built.
    F64,
}

choices!(Precision, "precision" { F32 = "f32", F64 = "f64" });

/// A model with its vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFile {
    /// The model.
    pub model: Model,
    /// The precision in which it is stored.
    pub precision: Precision,
    /// The tokenizer by name, as in [`crate::corpus::Summary::tokenizer`].
    pub tokenizer: String,
    /// The tokens by id.
    pub vocabulary: Vocabulary,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metadata {
    format: u32,
    pub(super) config: Config,
    tokenizer: String,
    pub(super) vocabulary: Vocabulary,
}

impl Metadata {
    /// How the model reads text.
    pub(super) fn into_text(self) -> Text {
        Text {
            start: self.vocabulary.id(Key::Bos).into_iter().collect(),
            tokenizer: self.tokenizer,
            vocabulary: self.vocabulary,
            instruct: false,
        }
    }
}

impl ModelFile {
    /// Returns how the model reads text.
    pub fn reading(&self) -> Reading<'_> {
        let n_ctx = self.model.config().shape.n_ctx;
        Reading { tokenizer: &self.tokenizer, vocabulary: &self.vocabulary, n_ctx }
    }

    /// Returns the bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let config = *self.model.config();
        let mut stored: Vec<Stored> = Vec::new();
        for tensor in self.model.tensors() {
            let values = &self.model.parameters()[tensor.range.clone()];
            stored.push(Stored::new(tensor.name.to_string(), tensor.shape.clone(), self.precision, values));
        }
        if let Some(tensor) = stored_positions(&config) {
            let positions = self.model.positions().unwrap_or_default();
            stored.push(Stored::new(tensor.name.to_string(), tensor.shape, self.precision, positions));
        }
        container::write(KEY, &self.description(), &stored)
    }

    fn description(&self) -> Metadata {
        Metadata {
            format: FORMAT,
            config: *self.model.config(),
            tokenizer: self.tokenizer.clone(),
            vocabulary: self.vocabulary.clone(),
        }
    }

    /// Returns the metadata as JSON: format, configuration, tokenizer, vocabulary.
    pub(crate) fn metadata(&self) -> Result<String> {
        serde_json::to_string(&self.description())
            .map_err(|e| Error::setting("file", format!("cannot be written: {e}")))
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<()> {
        OutputFile::write(path, &self.to_bytes()?)
    }

    /// Reads a model from a file.
    pub fn load(path: &Path) -> Result<Self> {
        open(path)?.to_model_file()
    }

    /// Reads a model from bytes; `path` is the name used in messages.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let name = path.to_string_lossy();
        open_in(Box::new(Memory::new([(Path::new(&*name), bytes)])), &name)?.to_model_file()
    }
}

/// Opens a file, and reads and checks everything but the weights.
pub(super) fn open(path: &Path) -> Result<StoredModel> {
    open_in(Box::new(Single(path.to_path_buf())), "").map_err(|error| match error {
        Error::Format { path, line, message } if message.contains(container::FOREIGN) => {
            let beside = path.with_file_name("config.json").exists();
            let advice = if beside { "; give its directory, which has a config.json" } else { "" };
            Error::Format { path, line, message: message + advice }
        }
        error => error,
    })
}

fn open_in(files: Box<dyn Files>, name: &str) -> Result<StoredModel> {
    let mut tensors = TensorFiles::new(files);
    let header = stored::add(&mut tensors, name)?;
    let path = tensors.files().path(name);
    let wrong = |message: String| Error::format(&path, message);
    let metadata: Metadata =
        container::metadata(&header, KEY, "a one-layer transformer", FORMAT).map_err(wrong)?;
    let config = metadata.config.checked().map_err(|e| wrong(format!("invalid configuration: {e}")))?;
    if metadata.vocabulary.len() as u64 != config.shape.d_vocab {
        let (found, needed) = (metadata.vocabulary.len(), config.shape.d_vocab);
        return Err(wrong(format!("a vocabulary of {found} tokens for a model with {needed}")));
    }
    if metadata.vocabulary.tokenizer().is_some_and(|held| held.name() != metadata.tokenizer) {
        return Err(wrong(format!("holds another tokenizer than {}", metadata.tokenizer)));
    }
    let layout = config
        .tensors()
        .into_iter()
        .chain(stored_positions(&config))
        .map(|tensor| Foreign::same(tensor.name.to_string(), tensor.name, &tensor.shape))
        .collect();
    let weights = Weights::new(tensors, layout, "the configuration", "this configuration", |_| false)?;
    match weights.dtype().as_str() {
        "f32" | "f64" => {}
        other => return Err(wrong(format!("the weights must be all f32 or all f64 (got {other})"))),
    }
    let family = match Family::of(&config) {
        Ok(family) => family.name(),
        Err(_) if config.shape.blocks.is_some() => "blocks",
        Err(_) => "one-layer",
    };
    Ok(StoredModel::new(config, StoredAs::Byrote, family.to_owned(), weights, metadata.into_text()))
}

/// The tensor of fixed positions in a file, which is not among the parameters.
pub(super) fn stored_positions(config: &Config) -> Option<Tensor> {
    let shape = vec![config.shape.n_ctx as usize, config.position_width() as usize];
    let range = 0..shape.iter().product();
    (config.positions == Positions::Sinusoidal).then(|| Tensor {
        name: TensorName::of("W_pos"),
        shape,
        kind: TensorKind::Position,
        range,
    })
}

impl Precision {
    pub(crate) fn dtype(self) -> Dtype {
        match self {
            Precision::F32 => Dtype::F32,
            Precision::F64 => Dtype::F64,
        }
    }

    pub(crate) fn bytes(self, values: &[f64]) -> Vec<u8> {
        match self {
            Precision::F32 => values.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
            Precision::F64 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    pub(crate) fn values(self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Precision::F32 => bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
            Precision::F64 => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Alphabet, Corpus};
    use crate::model::{Preset, Shape};
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<ModelFile> {
        ModelFile::from_bytes(Path::new("memory"), bytes)
    }

    fn example(preset: Preset, precision: Precision) -> ModelFile {
        let corpus = Corpus::from_rows(&[1u16, 2, 5, 1, 2, 7], 3, 2).unwrap();
        let shape =
            Shape { d_vocab: 4, n_ctx: 2, d_model: 4, n_heads: 2, d_head: 2, d_mlp: 3, ..Shape::default() };
        let model = Model::random(preset.config(shape), 5).unwrap();
        let parameters = match precision {
            Precision::F32 => model.parameters().iter().map(|&x| f64::from(x as f32)).collect(),
            Precision::F64 => model.parameters().to_vec(),
        };
        ModelFile {
            model: Model::new(*model.config(), parameters).unwrap(),
            precision,
            tokenizer: "ids".into(),
            vocabulary: serde_json::from_value(serde_json::to_value(&corpus.vocabulary).unwrap()).unwrap(),
        }
    }

    #[test]
    fn what_is_saved_is_loaded_and_equal_models_are_equal_files() {
        for preset in Preset::ALL {
            for precision in [Precision::F32, Precision::F64] {
                let file = example(preset, precision);
                let bytes = file.to_bytes().unwrap();
                assert_eq!(bytes, file.clone().to_bytes().unwrap());
                assert_eq!(parse(&bytes).unwrap(), file, "{preset} {precision:?}");
            }
        }
    }

    #[test]
    fn stored_positions_are_kept_as_they_are() {
        let mut file = example(Preset::Madden2024Experiment, Precision::F64);
        let moved = |by: f64| file.model.positions().unwrap().iter().map(|p| p + by).collect::<Vec<f64>>();
        let near = file.model.clone().with_stored_positions(moved(9e-7)).unwrap();
        assert!(file.model.clone().with_stored_positions(moved(2e-6)).is_err());
        file.model = near;
        let read = parse(&file.to_bytes().unwrap()).unwrap();
        assert_eq!(read, file);
        assert_ne!(read.model.positions().unwrap(), read.model.config().sinusoids());
        // Other parameters do not change the positions.
        let other = read.model.with_parameters(vec![0.5; read.model.parameters().len()]).unwrap();
        assert_eq!(other.positions(), read.model.positions());
    }

    /// The file with its header JSON altered and the length in front of it corrected.
    fn with_header(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
        let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = String::from_utf8(bytes[8..8 + size].to_vec()).unwrap();
        assert!(header.contains(from), "{header}");
        let header = header.replacen(from, to, 1);
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + size..]].concat()
    }

    #[test]
    fn lies_are_found_out() {
        let bytes = example(Preset::Madden2024, Precision::F64).to_bytes().unwrap();
        let wrong = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert!(wrong(b"").contains("not a safetensors file"));
        assert!(wrong(&bytes[..bytes.len() - 1]).contains("damaged"));
        assert!(wrong(&with_header(&bytes, "\"W_in\"", "\"W_on\"")).contains("W_in is missing"));
        assert!(wrong(&with_header(&bytes, "\"shape\":[4,3]", "\"shape\":[3,4]")).contains("W_in has shape"));
        assert!(wrong(&with_header(&bytes, "\\\"d_vocab\\\":4", "\\\"d_vocab\\\":5")).contains("4 tokens"));
        assert!(wrong(&with_header(&bytes, "\\\"format\\\":1", "\\\"format\\\":2")).contains("format 2"));
        assert!(wrong(&with_header(&bytes, "\\\"skip\\\"", "\\\"skap\\\"")).contains("skap"));
        assert!(wrong(&with_header(&bytes, "\\\"gelu\\\"", "\\\"golu\\\"")).contains("golu"));
        assert!(wrong(&with_header(&bytes, "{\"byrote\"", "{\"other\"")).contains("not written by byrote"));
        let network = with_header(&bytes, "{\"byrote\"", "{\"byrote-network\"");
        assert_eq!(
            wrong(&network),
            "memory: an in-context network of many layers; a one-layer transformer is needed here"
        );
        let mut nan = bytes.clone();
        let end = nan.len();
        nan[end - 8..].copy_from_slice(&f64::NAN.to_le_bytes());
        assert!(wrong(&nan).contains("NaN"));
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_refused_or_read_but_never_panics(
            at in prop::collection::vec((0usize..4096, any::<u8>()), 1..4), cut in prop::option::of(0usize..4096)
        ) {
            let mut bytes = example(Preset::Madden2024Experiment, Precision::F32).to_bytes().unwrap();
            for (at, to) in at {
                let n = bytes.len();
                bytes[at % n] = to;
            }
            if let Some(cut) = cut {
                let n = bytes.len();
                bytes.truncate(cut % n);
            }
            if let Ok(file) = parse(&bytes) {
                prop_assert!(file.model.parameters().iter().all(|x| x.is_finite()));
                prop_assert_eq!(file.vocabulary.alphabet(), Alphabet::Id);
            }
        }
    }
}
