//! Directories of Hugging Face's `transformers`.
//!
//! | file | content |
//! |---|---|
//! | `config.json` | the architecture and its settings (`read_config`, `write_config`, `rope`) |
//! | `model.safetensors`, or `model.safetensors.index.json` and shards | the weights, in f32, f16 or bf16 (`stored`), under the names and in the layout of the architecture (`layout`) |
//! | `tokenizer.json` | the tokenizer, if there is one; without it the model reads ids |
//!
//! The architectures are those of [`Family`]. Everything is checked before it is used: a setting that byrote does not compute, a
//! missing, superfluous or misshapen tensor, or a number that is not finite is an error that names it. Buffers that older versions
//! stored next to the weights (attention masks, rotary frequencies) are ignored, and so is an output matrix in the file of a model
//! whose output is its embedding.
//!
//! ```
//! use byrote::corpus::Vocabulary;
//! use byrote::model::{Model, ModelFile, ModelSpec, Precision, Preset, huggingface};
//!
//! let config = ModelSpec::default().preset(Preset::Llama).d_model(32).n_layers(2).resolve(100, 16)?;
//! let model = Model::random(config, 0)?.rounded_to_f32().ok_or("too large")?;
//! let file = ModelFile { model, precision: Precision::F32, tokenizer: "ids".into(), vocabulary: Vocabulary::of_ids(100) };
//! let place = tempfile::tempdir()?;
//! let directory = place.path().join("llama");
//! huggingface::save(&file, &directory, Precision::F32)?;
//! assert_eq!(huggingface::load(&directory)?, file);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod family;
mod layout;
mod not_a_model;
mod read_config;
mod rope;
pub(super) mod settings;
mod write_config;

pub use family::Family;

use super::container::{Stored, write_metadata};
use super::stored::{
    self, Directory, Files, INDEX, Memory, StoredAs, StoredModel, TensorFiles, Text, Weights,
};
use super::{Config, Model, ModelFile, Precision};
use crate::corpus::{TokenizerJson, Vocabulary};
use crate::input::MOST_TOKENIZER;
use crate::output::OutputFile;
use crate::{Error, Result};
use settings::Settings;
use std::collections::HashMap;
use std::path::Path;

/// The file with all weights.
const WEIGHTS: &str = "model.safetensors";
/// Weights in formats that can hold programs.
const OLD_WEIGHTS: [&str; 3] = ["pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"];
pub(super) const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
/// Tokenizers in other formats.
const OTHER_TOKENIZERS: [&str; 5] =
    ["tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tekken.json"];
/// The largest `config.json`, in bytes.
pub(super) const MOST_CONFIG: u64 = 16 << 20;

/// Reads a model from a directory.
pub fn load(directory: &Path) -> Result<ModelFile> {
    open(directory)?.to_model_file()
}

/// Opens a directory, and reads and checks everything but the weights.
pub(super) fn open(directory: &Path) -> Result<StoredModel> {
    let files = Directory(directory.to_path_buf());
    if let Some(message) = not_a_model::adapter(directory) {
        return Err(Error::format(directory, message));
    }
    if !files.has(CONFIG) {
        return Err(Error::format(directory, not_a_model::without_config(directory)));
    }
    open_in(Box::new(files))
}

/// Reads a model from the content of `config.json`, of `model.safetensors` or of one shard and the list of shards.
pub(crate) fn from_bytes(config: &[u8], index: Option<&[u8]>, weights: &[u8]) -> Result<ModelFile> {
    let shard = index.map_or(WEIGHTS, |_| "model-00001-of-00001.safetensors");
    let files = [(CONFIG, Some(config)), (INDEX, index), (shard, Some(weights))];
    let files = files.into_iter().filter_map(|(name, bytes)| Some((Path::new(name), bytes?)));
    open_in(Box::new(Memory::new(files)))?.to_model_file()
}

fn open_in(files: Box<dyn Files>) -> Result<StoredModel> {
    let bytes = files.read(CONFIG, MOST_CONFIG, "a config.json")?;
    let (family, config) = read_config::read(&files.path(CONFIG), &bytes)?;
    let weights = open_weights(family, &config, files)?;
    let text = read_text(weights.tensors().files(), config.shape.d_vocab)?;
    Ok(StoredModel::new(config, StoredAs::HuggingFace, family.name().to_owned(), weights, text))
}

fn open_weights(family: Family, config: &Config, files: Box<dyn Files>) -> Result<Weights> {
    let tensors = open_tensors(files)?;
    let prefix = match family {
        Family::Gpt2 if !tensors.has("wte.weight") => "transformer.",
        _ => "",
    };
    let outputs = ["lm_head.weight", "embed_out.weight"];
    let output = match family {
        Family::GptNeox if !tensors.has(outputs[0]) => outputs[1],
        _ => outputs[0],
    };
    let tied = config.shape.blocks.is_some_and(|blocks| blocks.tied);
    let layout = layout::tensors(family, config, prefix, output);
    let ignored = |name: &str| is_buffer(name) || (tied && outputs.contains(&name));
    Weights::new(tensors, layout, CONFIG, &format!("the family {}", family.name()), ignored)
}

/// Reads the headers of all files with weights.
fn open_tensors(files: Box<dyn Files>) -> Result<TensorFiles> {
    let mut tensors = TensorFiles::new(files);
    let files = tensors.files();
    if files.has(WEIGHTS) {
        stored::add(&mut tensors, WEIGHTS)?;
        return Ok(tensors);
    }
    if !files.has(INDEX) {
        let mut message = format!("has neither {WEIGHTS} nor {INDEX}");
        if let Some(name) = OLD_WEIGHTS.iter().find(|name| files.has(name)) {
            message += &format!(
                "; byrote does not read {name}. Load it with from_pretrained of transformers and write it with save_pretrained"
            );
        }
        return Err(Error::format(files.path(""), message));
    }
    stored::add_shards(&mut tensors)?;
    Ok(tensors)
}

/// What older versions of `transformers` stored beside the weights.
fn is_buffer(name: &str) -> bool {
    [".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// The tokenizer and the tokens by id.
pub(super) fn read_text(files: &dyn Files, d_vocab: u64) -> Result<Text> {
    let n = u32::try_from(d_vocab).map_err(|_| {
        let message = format!("vocab_size: must be at most {} (got {d_vocab})", u32::MAX);
        Error::format(files.path(CONFIG), message)
    })?;
    let vocabulary = Vocabulary::of_ids(n);
    let instruct = has_chat_template(files)?;
    if !files.has(TOKENIZER) {
        let tokenizer = match OTHER_TOKENIZERS.iter().find(|name| files.has(name)) {
            Some(name) => format!(
                "{name}, which byrote does not read (AutoTokenizer of transformers loads it and saves a {TOKENIZER})"
            ),
            None => "ids".into(),
        };
        return Ok(Text { tokenizer, vocabulary, start: Vec::new(), instruct });
    }
    let path = files.path(TOKENIZER);
    let bytes = files.read(TOKENIZER, MOST_TOKENIZER, "a tokenizer.json")?;
    let text = String::from_utf8(bytes).map_err(|_| Error::format(&path, "it is not text in UTF-8"))?;
    with_tokenizer(Text { tokenizer: String::new(), vocabulary, start: Vec::new(), instruct }, &path, &text)
}

/// The same with the content of a `tokenizer.json`.
pub(super) fn with_tokenizer(text: Text, path: &Path, json: &str) -> Result<Text> {
    let (vocabulary, start) = held(text.vocabulary, path, json)?;
    let tokenizer = vocabulary.tokenizer().map_or_else(String::new, TokenizerJson::name);
    Ok(Text { tokenizer, vocabulary, start, ..text })
}

/// Whether there is a chat template: a file of its own, or a field of `tokenizer_config.json`.
fn has_chat_template(files: &dyn Files) -> Result<bool> {
    const SETTINGS: &str = "tokenizer_config.json";
    if ["chat_template.jinja", "chat_template.json"].iter().any(|name| files.has(name)) {
        return Ok(true);
    }
    if !files.has(SETTINGS) {
        return Ok(false);
    }
    let bytes = files.read(SETTINGS, MOST_CONFIG, "a tokenizer_config.json")?;
    let settings = Settings::parse(&files.path(SETTINGS), &bytes)?;
    Ok(settings.get("chat_template").is_some())
}

/// A vocabulary of ids with a `tokenizer.json` and the names of its tokens, and the tokens that it puts in front of a text.
#[cfg(feature = "huggingface")]
pub(super) fn held(mut vocabulary: Vocabulary, path: &Path, text: &str) -> Result<(Vocabulary, Vec<u32>)> {
    let tokenizer = crate::corpus::tokenizer::HuggingFace::from_bytes(path, text.as_bytes())?;
    let (ids, d_vocab) = (tokenizer.ids(), vocabulary.len() as u64);
    if ids > d_vocab {
        let message =
            format!("has token ids up to {}, but the model's vocabulary has {d_vocab} tokens", ids - 1);
        return Err(Error::format(path, message));
    }
    vocabulary.set_names(|id| tokenizer.token(id));
    let start = tokenizer.start().map_err(|e| Error::format(path, format!("cannot be used: {e}")))?;
    Ok((vocabulary.with_tokenizer(TokenizerJson::new(text)), start))
}

#[cfg(not(feature = "huggingface"))]
pub(super) fn held(vocabulary: Vocabulary, _: &Path, text: &str) -> Result<(Vocabulary, Vec<u32>)> {
    Ok((vocabulary.with_tokenizer(TokenizerJson::new(text)), Vec::new()))
}

/// What [`save`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The architecture.
    pub family: Family,
    /// The files by name, with their sizes in bytes.
    pub files: Vec<(&'static str, usize)>,
}

/// Writes a model as a directory that `transformers` loads: `config.json`, `model.safetensors`, and `tokenizer.json` if the model
/// holds one. The directory appears complete or not at all. One that exists is replaced if it holds nothing but such files.
///
/// # Errors
/// When `transformers` has no architecture for the model, with the reason; when the directory holds other files.
pub fn save(file: &ModelFile, directory: &Path, precision: Precision) -> Result<Saved> {
    let family = family_of(file)?;
    let (config, weights) = to_bytes(file, precision)?;
    let mut contents = vec![(CONFIG, config), (WEIGHTS, weights)];
    // A tokenizer makes the ids of its own vocabulary; a model that renumbered them cannot use it there.
    if let Some(held) = file.vocabulary.tokenizer().filter(|_| file.vocabulary.is_plain_ids()) {
        contents.push((TOKENIZER, held.text().as_bytes().to_vec()));
    }
    replace(directory, &contents)?;
    Ok(Saved { family, files: contents.iter().map(|(name, bytes)| (*name, bytes.len())).collect() })
}

fn family_of(file: &ModelFile) -> Result<Family> {
    let refuse = |reason| Error::setting("model", format!("cannot be written for `transformers`: {reason}"));
    Family::of(file.model.config()).map_err(refuse)
}

/// Returns the content of `config.json` and of `model.safetensors`.
pub(crate) fn to_bytes(file: &ModelFile, precision: Precision) -> Result<(Vec<u8>, Vec<u8>)> {
    let (family, config) = (family_of(file)?, file.model.config());
    let fields = serde_json::to_vec_pretty(&write_config::write(family, config, precision))
        .map_err(|e| Error::setting("model", format!("cannot be written: {e}")))?;
    Ok((fields, weights(family, &file.model, precision)?))
}

/// The bytes of `model.safetensors`.
fn weights(family: Family, model: &Model, precision: Precision) -> Result<Vec<u8>> {
    let output = if family == Family::GptNeox { "embed_out.weight" } else { "lm_head.weight" };
    let prefix = if family == Family::Gpt2 { "transformer." } else { "" };
    let ours: HashMap<_, _> = model.tensors().iter().map(|t| (t.name, t.range.clone())).collect();
    let stored = layout::tensors(family, model.config(), prefix, output).into_iter().map(|tensor| {
        let mut values = vec![0.0; tensor.shape.iter().product()];
        for part in &tensor.parts {
            let own = ours.get(&part.tensor).map_or(&[][..], |range| &model.parameters()[range.clone()]);
            own.iter().zip(part.indices()).for_each(|(own, at)| values[at] = *own);
        }
        Stored::new(tensor.name, tensor.shape, precision, &values)
    });
    let stored: Vec<Stored> = stored.collect();
    write_metadata("format", "pt".to_owned(), &stored)
}

/// Makes a directory of these files, in place of one that holds nothing else.
fn replace(directory: &Path, contents: &[(&str, Vec<u8>)]) -> Result<()> {
    let fail = |e| Error::io(directory, "write", e);
    let target = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let exists = target.exists();
    if exists {
        if !target.is_dir() {
            let message = format!("{} is a file, not a directory", directory.display());
            return Err(Error::setting("out", message));
        }
        for entry in std::fs::read_dir(&target).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            if ![CONFIG, WEIGHTS, TOKENIZER].iter().any(|known| name == *known) {
                let message = format!(
                    "{} holds {}, which does not belong to a model; choose another directory",
                    directory.display(),
                    name.display()
                );
                return Err(Error::setting("out", message));
            }
        }
    }
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Not the error of the system, which names a temporary directory.
    let unwritable = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => fail(std::io::Error::new(e.kind(), "its directory does not exist")),
        kind => fail(std::io::Error::from(kind)),
    };
    let fresh = temporary(parent).map_err(unwritable)?;
    for (name, bytes) in contents {
        OutputFile::write(&fresh.path().join(name), bytes)?;
    }
    if exists {
        let old = temporary(parent).map_err(unwritable)?;
        std::fs::rename(&target, old.path().join("old")).map_err(unwritable)?;
        if let Err(e) = std::fs::rename(fresh.path(), &target) {
            let _ = std::fs::rename(old.path().join("old"), &target);
            return Err(unwritable(e));
        }
    } else {
        std::fs::rename(fresh.path(), &target).map_err(unwritable)?;
    }
    // It has another name now, and stays.
    let _ = fresh.keep();
    Ok(())
}

/// A directory that is removed unless it is renamed.
fn temporary(parent: &Path) -> std::io::Result<tempfile::TempDir> {
    let prefix = OutputFile::temporary_prefix();
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Reduced by the umask, as for any new directory.
        builder.permissions(std::fs::Permissions::from_mode(0o777));
    }
    builder.tempdir_in(parent)
}
