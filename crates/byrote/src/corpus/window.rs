//! The part of a document that is kept, and the contexts it contains.

use crate::setting::choices;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Which prefixes of a document are contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContextRule {
    /// Every proper prefix predicts its next token.
    #[default]
    Prefixes,
    /// Only one: the kept document without its last token, which it predicts (the association task).
    Full,
    /// Every proper prefix of every window: T + 1 tokens that start anywhere in the document.
    Windows,
}

choices!(ContextRule, "contexts" { Prefixes = "prefixes", Full = "full", Windows = "windows" });

/// The settings that turn a token sequence into a kept document. Two summaries can be merged only if these agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Window {
    /// The longest context T; the first T + 1 tokens of a document are kept.
    pub n_ctx: u32,
    /// Keep only documents of at least T + 1 tokens.
    pub exact_length: bool,
    /// Put a start token before every document.
    pub bos: bool,
    /// Put an end token after every document that ends within the window.
    pub eos: bool,
    /// Which prefixes are contexts.
    pub contexts: ContextRule,
}

impl Default for Window {
    fn default() -> Self {
        Self { n_ctx: 9, exact_length: false, bos: false, eos: false, contexts: ContextRule::Prefixes }
    }
}

crate::setting::setters!(Window {
    n_ctx: plain(u32),
    exact_length: plain(bool),
    bos: plain(bool),
    eos: plain(bool),
    contexts: plain(ContextRule),
});

/// The longest accepted window; a larger one is almost certainly a typing error.
pub const MAX_N_CTX: u32 = 1 << 20;

/// The longest accepted context of windows, which are never written out: a window may be as long as any text.
const MAX_WINDOW_N_CTX: u32 = u32::MAX - 2;

impl Window {
    /// Refuses a window without a context.
    pub fn check(&self) -> Result<()> {
        if self.n_ctx == 0 {
            return Err(Error::setting("n_ctx", "must be at least 1 (got 0)"));
        }
        let most = if self.contexts == ContextRule::Windows { MAX_WINDOW_N_CTX } else { MAX_N_CTX };
        if self.n_ctx > most {
            return Err(Error::setting("n_ctx", format!("must be at most {most} (got {})", self.n_ctx)));
        }
        Ok(())
    }

    /// Returns the maximum number of tokens kept per document, or per window: T + 1.
    pub fn kept(&self) -> usize {
        self.n_ctx as usize + 1
    }

    /// Returns the number of tokens that are read of a document: windows start anywhere in it.
    pub(crate) fn read(&self) -> usize {
        if self.contexts == ContextRule::Windows { usize::MAX } else { self.kept() }
    }
}
