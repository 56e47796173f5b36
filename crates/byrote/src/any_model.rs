//! Models of every kind: files, recognized by how they begin, and directories of Hugging Face.

use crate::construct::kajitsuka2024::ExactFile;
use crate::construct::kajitsuka2024::exact_file::{MAGIC, is_exact};
use crate::incontext::NetworkFile;
use crate::model::{ModelFile, StoredModel, gguf};
use crate::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A model of any kind.
///
/// ```
/// use byrote::any_model::AnyModel;
/// use byrote::corpus::{Corpus, CorpusSpec, Outputs};
/// use byrote::model::{Model, ModelFile, ModelSpec, Precision};
///
/// let corpus = Corpus::from_spec(&CorpusSpec::default().builtin(3), Outputs::default(), &byrote::observe::Silent)?;
/// let config = ModelSpec::default().resolve(corpus.summary.d_vocab, 9)?;
/// let (model, vocabulary) = (Model::random(config, 0)?, corpus.vocabulary);
/// let path = tempfile::tempdir()?.path().with_extension("safetensors");
/// ModelFile { model, precision: Precision::F64, tokenizer: "wordpunct".into(), vocabulary }.save(&path)?;
/// let found = AnyModel::load(&path)?;
/// assert_eq!(found.kind(), "a one-layer transformer");
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AnyModel {
    /// A transformer of one layer or of blocks, as safetensors, as GGUF or as a directory of Hugging Face.
    OneLayer(ModelFile),
    /// A network of many layers that learns in context, as safetensors.
    InContext(NetworkFile),
    /// An exact network of kajitsuka2024, as text.
    Exact(ExactFile),
}

impl AnyModel {
    /// Loads a model of any kind from a file or a directory. A file of no known kind is read as a one-layer transformer, whose reader says what is
    /// wrong with it.
    pub fn load(path: &Path) -> Result<Self> {
        let stored = || Ok(Self::OneLayer(StoredModel::open(path)?.to_model_file()?));
        if path.is_dir() {
            return stored();
        }
        let fail = |e| Error::io(path, "read", e);
        let mut start = Vec::new();
        File::open(path).map_err(fail)?.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(fail)?;
        if gguf::is_gguf(path, &start) {
            return stored();
        }
        Ok(match is_exact(&start) {
            true => Self::Exact(ExactFile::load(path)?),
            false if NetworkFile::is_network(path)? => Self::InContext(NetworkFile::load(path)?),
            false => Self::OneLayer(ModelFile::load(path)?),
        })
    }

    /// Names the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::OneLayer(file) if file.model.config().shape.blocks.is_some() => "a transformer of blocks",
            Self::OneLayer(_) => "a one-layer transformer",
            Self::InContext(_) => "an in-context network",
            Self::Exact(_) => "an exact network (kajitsuka2024)",
        }
    }

    /// Returns the error for a model of the wrong kind: what the file holds, and why that will not do.
    pub fn refused(&self, path: &Path, why: &str) -> Error {
        Error::format(path, format!("holds {}; {why}", self.kind()))
    }

    /// Returns the transformer, or an error that says `why` an exact network will not do.
    pub fn one_layer(self, path: &Path, why: &str) -> Result<ModelFile> {
        match self {
            Self::OneLayer(file) => Ok(file),
            Self::Exact(_) => Err(self.refused(path, why)),
            Self::InContext(_) => Err(self.refused(path, "a transformer that reads tokens is needed")),
        }
    }
}
