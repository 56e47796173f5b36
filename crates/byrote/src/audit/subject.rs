//! The model that is audited, however it comes.

use super::collection::TextTokens;
use super::given::GivenScores;
use super::spec::AuditSettings;
use super::text_audit::Known;
use crate::corpus::{Alphabet, Tokenizer, TokenizerChoice, Vocabulary};
#[cfg(feature = "onnx")]
use crate::inference::OnnxModel;
use crate::inference::{LanguageModel, Network};
use crate::model::StoredModel;
#[cfg(feature = "onnx")]
use crate::model::onnx_text::onnx_text;
use crate::{Error, Result, units};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Its file or directory.
    pub path: String,
    /// Its family, such as `gpt2`.
    pub family: String,
    /// Its parameters, if they are known.
    pub parameters: Option<u64>,
    /// The type of its weights.
    pub dtype: Option<String>,
    /// The longest context.
    pub n_ctx: Option<u64>,
    /// Token ids.
    pub d_vocab: u64,
    /// Whether it has a chat template. The text is given without it, so what is found is a lower bound.
    pub instruct: bool,
    /// The tokenizer: its name, or a hash of its file.
    pub tokenizer: String,
}

/// A model, or what it said of a text.
pub struct Subject {
    /// What is known of it.
    pub facts: ModelFacts,
    /// The model itself, unless only its log-probabilities are given.
    pub model: Option<Box<dyn LanguageModel + Send>>,
    /// Log-probabilities that another program computed.
    pub given: Option<GivenScores>,
    /// How text becomes its tokens.
    pub tokens: TextTokens,
    /// The id that its tokenizer puts in front of a text.
    pub start_token: Option<u32>,
}

/// The longest context of a model that does not tell; the setting `n_ctx` makes it shorter.
#[cfg(feature = "onnx")]
const UNKNOWN_N_CTX: u64 = 1024;

/// Memory beside the weights: activations, a batch of logits, the text.
const BESIDE: u64 = 300 << 20;

impl Subject {
    /// Loads a model (a directory of Hugging Face, a GGUF file, a file of byrote, with the feature `onnx` an ONNX file), or a file of log-probabilities that another
    /// program computed. `tokenizer` replaces the model's own. A model whose weights take more than `max_memory` bytes is refused.
    pub fn load(path: &Path, tokenizer: Option<&TokenizerChoice>, max_memory: Option<u64>) -> Result<Self> {
        Self::load_within(path, tokenizer, Memory { most: max_memory, held: 0 })
    }

    /// Loads the model that this one is compared with. Both are in memory together, within `max_memory` bytes.
    pub fn load_reference(&self, path: &Path, max_memory: Option<u64>) -> Result<Self> {
        let held = self.model.as_ref().and(self.facts.parameters).map_or(0, weights);
        Self::load_within(path, None, Memory { most: max_memory, held })
    }

    fn load_within(path: &Path, tokenizer: Option<&TokenizerChoice>, memory: Memory) -> Result<Self> {
        if GivenScores::is_named(path) && !path.is_dir() {
            return Self::given(path, tokenizer);
        }
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("onnx")) && !path.is_dir() {
            return Self::onnx(path, tokenizer, memory);
        }
        let mut stored = StoredModel::open(path)?;
        memory.check(stored.parameters())?;
        let facts = ModelFacts {
            path: path.to_string_lossy().into_owned(),
            family: stored.family.clone(),
            parameters: Some(stored.parameters()),
            dtype: Some(stored.dtype.clone()),
            n_ctx: Some(stored.config.shape.n_ctx),
            d_vocab: stored.config.shape.d_vocab,
            instruct: stored.instruct,
            tokenizer: stored.tokenizer.clone(),
        };
        let start_token = stored.start_token()?;
        let tokens = tokens(&stored.tokenizer, &stored.vocabulary, tokenizer)?;
        let network = Network::new(stored.config, &mut |tensor, values| stored.read(tensor, values))?;
        Ok(Self { facts, model: Some(Box::new(network)), given: None, tokens, start_token })
    }

    /// A model in an ONNX file.
    #[cfg(feature = "onnx")]
    fn onnx(path: &Path, tokenizer: Option<&TokenizerChoice>, memory: Memory) -> Result<Self> {
        let model = OnnxModel::load(path)?;
        memory.check(model.parameters())?;
        let file = match tokenizer {
            Some(TokenizerChoice::File(file)) => Some(file.as_path()),
            _ => None,
        };
        let (text, n_ctx) = onnx_text(path, model.metadata("byrote"), file, model.d_vocab())?;
        let model = model.with_n_ctx(n_ctx.unwrap_or(UNKNOWN_N_CTX));
        model.probe()?;
        let facts = ModelFacts {
            path: path.to_string_lossy().into_owned(),
            family: "onnx".into(),
            parameters: Some(model.parameters()),
            dtype: None,
            n_ctx: Some(model.n_ctx()),
            d_vocab: model.d_vocab(),
            instruct: text.instruct,
            tokenizer: text.tokenizer.clone(),
        };
        let start_token = match text.start[..] {
            [start] => Some(start),
            _ => None,
        };
        let choice = tokenizer.filter(|_| file.is_none());
        let tokens = tokens(&text.tokenizer, &text.vocabulary, choice)?;
        Ok(Self { facts, model: Some(Box::new(model)), given: None, tokens, start_token })
    }

    /// A model in an ONNX file, which this build cannot run.
    #[cfg(not(feature = "onnx"))]
    fn onnx(path: &Path, _: Option<&TokenizerChoice>, _: Memory) -> Result<Self> {
        let message = "is an ONNX file, which this build of byrote cannot run; build it with the cargo feature `onnx`, or give the \
                       model's directory or a GGUF file";
        crate::input::open_regular(path, "a model")?;
        Err(Error::format(path, message))
    }

    /// A model that runs somewhere else: in another program, through a callback.
    pub fn new(
        facts: ModelFacts,
        model: Box<dyn LanguageModel + Send>,
        tokens: TextTokens,
        start_token: Option<u32>,
    ) -> Self {
        Self { facts, model: Some(model), given: None, tokens, start_token }
    }

    /// What another program has computed.
    fn given(path: &Path, tokenizer: Option<&TokenizerChoice>) -> Result<Self> {
        let given = GivenScores::load(path)?;
        let (tokenizer, vocabulary) = match tokenizer.map(Tokenizer::load).transpose()? {
            None => (None, None),
            Some(tokenizer) if tokenizer.alphabet() == Alphabet::Id => (Some(tokenizer), None),
            Some(_) => {
                let message = "must be a tokenizer.json here: log-probabilities belong to the tokens of a language model";
                return Err(Error::setting("tokenizer", message));
            }
        };
        let facts = ModelFacts {
            path: path.to_string_lossy().into_owned(),
            family: "log-probabilities".into(),
            parameters: None,
            dtype: None,
            n_ctx: None,
            d_vocab: u64::from(u32::MAX),
            instruct: false,
            tokenizer: tokenizer.as_ref().map_or("ids", |_| "tokenizer.json").into(),
        };
        let tokens = TextTokens { tokenizer, vocabulary };
        Ok(Self { facts, model: None, given: Some(given), tokens, start_token: None })
    }

    /// Which numbers it gives.
    pub fn known(&self) -> Known {
        self.given.as_ref().map_or(Known::ALL, |given| given.known)
    }

    /// The longest context that it reads; without a model there is no limit.
    pub fn n_ctx(&self) -> u64 {
        self.facts.n_ctx.unwrap_or(1 << 20)
    }

    /// Refuses settings that the model cannot follow.
    pub(super) fn check(&self, settings: &AuditSettings) -> Result<()> {
        match settings.start_token {
            Some(id) if u64::from(id) >= self.facts.d_vocab => {
                let message = format!("{id} is not one of the model's {} token ids", self.facts.d_vocab);
                Err(Error::setting("bos", message))
            }
            _ => Ok(()),
        }
    }
}

/// How text becomes the tokens of a model with this vocabulary, by its own tokenizer, given by name, or by another one.
fn tokens(own: &str, vocabulary: &Vocabulary, other: Option<&TokenizerChoice>) -> Result<TextTokens> {
    let tokenizer = match other {
        Some(choice) => {
            let chosen = Tokenizer::load(choice)?;
            if chosen.alphabet() != vocabulary.alphabet() {
                let message = match vocabulary.alphabet() {
                    Alphabet::Id => "must be a tokenizer.json, because the model reads token ids".to_owned(),
                    _ => format!("the model was made with {own}"),
                };
                return Err(Error::setting("tokenizer", message));
            }
            Some(chosen)
        }
        None => {
            let choice = match vocabulary.tokenizer() {
                Some(held) => Some(TokenizerChoice::Held(held.clone())),
                None => TokenizerChoice::built_in(own),
            };
            choice.as_ref().map(Tokenizer::load).transpose()?
        }
    };
    Ok(TextTokens { tokenizer, vocabulary: Some(vocabulary.clone()) })
}

/// The bytes of so many weights, in f32.
fn weights(parameters: u64) -> u64 {
    4 * parameters
}

/// The memory that models may take.
#[derive(Clone, Copy)]
struct Memory {
    /// The most, if there is a limit.
    most: Option<u64>,
    /// What the weights of another model take.
    held: u64,
}

impl Memory {
    /// Refuses a model whose weights do not fit.
    fn check(self, parameters: u64) -> Result<()> {
        let own = weights(parameters);
        let needed = own + self.held + BESIDE;
        match self.most {
            Some(most) if needed > most => {
                let other = match self.held {
                    0 => String::new(),
                    held => format!(", those of the audited one {}", units::bytes(held)),
                };
                let message = format!(
                    "{} is too little: the weights of this model take {} in f32{other}, and {} in all",
                    units::bytes(most),
                    units::bytes(own),
                    units::bytes(needed)
                );
                Err(Error::setting("max_memory", message))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_models_share_the_memory() {
        let million = 1_000_000;
        let alone = |most| Memory { most, held: 0 }.check(million);
        assert!(alone(None).is_ok() && alone(Some(BESIDE + 4 * million)).is_ok());
        assert!(alone(Some(BESIDE + 4 * million - 1)).is_err());
        let beside = |most| Memory { most: Some(most), held: 8 * million }.check(million);
        assert!(beside(BESIDE + 12 * million).is_ok());
        let error = beside(BESIDE + 12 * million - 1).unwrap_err();
        assert_eq!(error.setting_name(), Some("max_memory"));
        assert!(error.to_string().contains("those of the audited one 7.6 MiB"), "{error}");
    }
}
