//! Models in files, without their weights in memory: a directory of Hugging Face, a GGUF file, or a file of byrote.
//!
//! [`StoredModel::open`] reads and checks headers, configuration and tokenizer. The weights stay in the files until
//! [`StoredModel::read`] is asked for a tensor, which it returns under byrote's name and in byrote's order, in f32, whatever the
//! type and the order in the file. A tensor is read in pieces of a few megabytes, so opening a model and copying its weights
//! somewhere takes no more memory than the copy.
//!
//! | file | what it does |
//! |---|---|
//! | `files` | files on disk or in memory |
//! | `encoding` | numbers of all types to f32 and f64 |
//! | `tensors`, `safetensors_files` | where tensors are in files |
//! | `place` | where our tensors are in those of a file |
//! | `weights` | both together, checked |

mod encoding;
mod files;
mod place;
mod safetensors_files;
mod tensors;
mod weights;

pub(crate) use encoding::{Encoding, of_f16};
pub(crate) use files::{Directory, Files, Memory, Single, Source};
pub(crate) use place::{Foreign, Part};
pub(crate) use safetensors_files::{INDEX, add, add_shards};
pub(crate) use tensors::TensorFiles;
pub(crate) use weights::Weights;

use super::{Config, Model, ModelFile, Tensor, gguf, huggingface, model_file};
use crate::corpus::{Reading, Vocabulary};
use crate::{Error, Result, input};
use std::fmt;
use std::io::Read;
use std::path::Path;

/// What a model is stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredAs {
    /// A directory of Hugging Face.
    HuggingFace,
    /// A GGUF file.
    Gguf,
    /// A safetensors file of byrote.
    Byrote,
}

/// A model in files, with its weights unread.
///
/// ```
/// use byrote::corpus::Vocabulary;
/// use byrote::model::{Model, ModelFile, ModelSpec, Precision, Preset, StoredModel, huggingface};
///
/// let config = ModelSpec::default().preset(Preset::Gpt2).d_model(32).n_layers(2).resolve(100, 16)?;
/// let model = Model::random(config, 0)?.rounded_to_f32().ok_or("too large")?;
/// let file = ModelFile { model, precision: Precision::F32, tokenizer: "ids".into(), vocabulary: Vocabulary::of_ids(100) };
/// let place = tempfile::tempdir()?;
/// let directory = place.path().join("gpt2");
/// huggingface::save(&file, &directory, Precision::F32)?;
///
/// let mut stored = StoredModel::open(&directory)?;
/// assert_eq!((stored.config, stored.family.as_str(), stored.dtype.as_str()), (config, "gpt2", "f32"));
/// for tensor in stored.config.tensors() {
///     let mut values = vec![0.0; tensor.range.len()];
///     stored.read(&tensor, &mut values)?; // one tensor in f32
/// }
/// assert_eq!(stored.to_model_file()?, file);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StoredModel {
    /// The model without its weights.
    pub config: Config,
    /// What it is stored as.
    pub stored_as: StoredAs,
    /// The family: `gpt2`, `llama`, ...; for a model of byrote that belongs to none, `one-layer` or `blocks`.
    pub family: String,
    /// The type of the stored weights: `f32`, `bf16`, `q4_1 and others`, ...
    pub dtype: String,
    /// Whether the files hold a chat template, as those of models that were tuned to follow instructions do.
    pub instruct: bool,
    /// The tokenizer by name, as in [`ModelFile::tokenizer`].
    pub tokenizer: String,
    /// The tokens by id.
    pub vocabulary: Vocabulary,
    start: Vec<u32>,
    weights: Weights,
}

impl StoredModel {
    /// Opens a directory of Hugging Face or a model file, and reads and checks everything but the weights.
    ///
    /// # Errors
    /// When a file is missing, damaged or contradicts another, or when byrote does not compute what the model needs.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return huggingface::open(path);
        }
        let mut start = Vec::new();
        let (file, _) = input::open_regular(path, "a model")?;
        file.take(4).read_to_end(&mut start).map_err(|e| Error::io(path, "read", e))?;
        if gguf::is_gguf(path, &start) {
            return gguf::open(path);
        }
        model_file::open(path)
    }

    /// A model of these parts.
    pub(crate) fn new(
        config: Config,
        stored_as: StoredAs,
        family: String,
        weights: Weights,
        text: Text,
    ) -> Self {
        Self {
            config,
            stored_as,
            family,
            dtype: weights.dtype(),
            instruct: text.instruct,
            tokenizer: text.tokenizer,
            vocabulary: text.vocabulary,
            start: text.start,
            weights,
        }
    }

    /// Returns the number of parameters.
    pub fn parameters(&self) -> u64 {
        self.config.n_parameters() as u64
    }

    /// Returns how the model reads text.
    pub fn reading(&self) -> Reading<'_> {
        Reading { tokenizer: &self.tokenizer, vocabulary: &self.vocabulary, n_ctx: self.config.shape.n_ctx }
    }

    /// Returns the token that the model expects in front of a text, if any: what `tokenizer.json` or a GGUF file puts there, or the
    /// start token of a model of byrote.
    ///
    /// # Errors
    /// When the tokenizer puts several tokens there.
    pub fn start_token(&self) -> Result<Option<u32>> {
        match self.start[..] {
            [] => Ok(None),
            [start] => Ok(Some(start)),
            _ => {
                let ids: Vec<String> = self.start.iter().map(u32::to_string).collect();
                let message = format!(
                    "the tokenizer puts the tokens {} in front of a text; name one of them, or none",
                    ids.join(", ")
                );
                Err(Error::setting("bos", message))
            }
        }
    }

    /// Reads a tensor of [`Config::tensors`] in f32, row-major.
    ///
    /// # Errors
    /// When the file cannot be read, or the tensor contains a number that is not finite in f32.
    ///
    /// # Panics
    /// When the model has no such tensor, or `values` does not have its size.
    pub fn read(&mut self, tensor: &Tensor, values: &mut [f32]) -> Result<()> {
        self.weights.read(tensor, values)
    }

    /// Reads the whole model, in f64.
    pub fn to_model_file(mut self) -> Result<ModelFile> {
        let mut parameters = vec![0.0; self.config.n_parameters()];
        for tensor in self.config.tensors() {
            self.weights.read(&tensor, &mut parameters[tensor.range.clone()])?;
        }
        let mut model = Model::new(self.config, parameters)?;
        // Fixed positions are stored beside the parameters.
        if let Some(tensor) = model_file::stored_positions(&self.config) {
            let mut positions = vec![0.0; tensor.range.len()];
            self.weights.read(&tensor, &mut positions)?;
            let differ = |e: Error| self.weights.tensors().wrong("W_pos", e.to_string());
            model = model.with_stored_positions(positions).map_err(differ)?;
        }
        Ok(ModelFile {
            model,
            precision: self.weights.precision(),
            tokenizer: self.tokenizer,
            vocabulary: self.vocabulary,
        })
    }
}

/// How a stored model reads text.
pub(crate) struct Text {
    pub(crate) tokenizer: String,
    pub(crate) vocabulary: Vocabulary,
    /// The tokens in front of a text.
    pub(crate) start: Vec<u32>,
    pub(crate) instruct: bool,
}

impl fmt::Debug for StoredModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredModel")
            .field("config", &self.config)
            .field("stored_as", &self.stored_as)
            .field("family", &self.family)
            .field("dtype", &self.dtype)
            .field("instruct", &self.instruct)
            .field("tokenizer", &self.tokenizer)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
