//! The model that is audited, however it comes.

use super::collection::TextTokens;
use super::spec::AuditSettings;
use super::text_audit::Known;
use crate::inference::LanguageModel;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

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
    pub given: Option<super::given::GivenScores>,
    /// How text becomes its tokens.
    pub tokens: TextTokens,
    /// The id that its tokenizer puts in front of a text.
    pub start_token: Option<u32>,
}

impl Subject {
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
