//! The `tokenizer.json` that a model holds, so that it reads text without that file.

use crate::num::hash::fnv1a;
use std::fmt;
use std::sync::Arc;

/// The text of a `tokenizer.json`. Clones share it.
///
/// ```
/// use byrote::corpus::TokenizerJson;
/// let held = TokenizerJson::new("{}");
/// assert_eq!((held.text(), held.name().len()), ("{}", "tokenizer.json:".len() + 16));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TokenizerJson(Arc<str>);

impl TokenizerJson {
    /// Holds a text, which is not checked before it is used.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the name of the tokenizer in summaries and model files.
    pub fn name(&self) -> String {
        name_of_file(fnv1a(self.0.as_bytes()))
    }
}

impl fmt::Debug for TokenizerJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name(), self.0.len())
    }
}

/// The name of a tokenizer read from a file with this hash: equal names mean equal tokens.
pub(crate) fn name_of_file(hash: u64) -> String {
    format!("tokenizer.json:{hash:016x}")
}
