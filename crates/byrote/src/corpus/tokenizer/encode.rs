//! Encodes a text in the ids of a vocabulary.

use super::Tokenizer;
use crate::corpus::{Key, Vocabulary};
use crate::{Error, Result};
use std::ops::ControlFlow;

impl Tokenizer {
    /// Returns the ids of the tokens of a text. A token missing from the vocabulary is an error, never silently
    /// replaced.
    pub fn encode(&self, text: &str, vocabulary: &Vocabulary) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let mut unknown = None;
        let mut push = |key: Key<'_>, text: &str| match vocabulary.id(key) {
            Some(id) => {
                ids.push(id);
                ControlFlow::Continue(())
            }
            None => {
                unknown = Some(text.to_owned());
                ControlFlow::Break(())
            }
        };
        match self {
            Tokenizer::Byte => {
                let _ = text
                    .bytes()
                    .try_for_each(|b| push(Key::Symbol(u32::from(b)), &char::from(b).to_string()));
            }
            Tokenizer::Char => {
                let _ = text.chars().try_for_each(|c| push(Key::Symbol(u32::from(c)), &c.to_string()));
            }
            Tokenizer::Whitespace | Tokenizer::WordPunct => {
                self.ranges(text, true, &mut |range| {
                    push(Key::Word(text[range.clone()].as_bytes()), &text[range])
                });
            }
            #[cfg(feature = "huggingface")]
            Tokenizer::HuggingFace(tokenizer) => {
                let found = tokenizer.encode(text).map_err(|e| Error::setting("text", e))?;
                let name = |id: u32| tokenizer.token(id).unwrap_or_else(|| id.to_string());
                let _ = found.into_iter().try_for_each(|id| push(Key::Symbol(id), &name(id)));
            }
        }
        match unknown {
            None => Ok(ids),
            Some(token) => Err(unknown_token(&token)),
        }
    }
}

/// The error for a token missing from the vocabulary.
pub fn unknown_token(token: &str) -> Error {
    let shown: String = token.chars().take(60).collect();
    Error::setting("text", format!("the model has never seen the token {shown:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Alphabet;

    #[test]
    fn known_tokens_become_ids_and_an_unknown_one_is_named() {
        let mut words = Vocabulary::new(Alphabet::Word);
        for word in [",", "a", "time"] {
            assert!(words.push(Key::Word(word.as_bytes()), 0));
        }
        assert_eq!(Tokenizer::WordPunct.encode("a time, a", &words).unwrap(), [1, 2, 0, 1]);
        let error = Tokenizer::WordPunct.encode("a lime", &words).unwrap_err();
        assert!(error.to_string().contains("\"lime\""), "{error}");
        assert_eq!(Tokenizer::Whitespace.encode(" ", &words).unwrap(), [0u32; 0]);
        let mut symbols = Vocabulary::new(Alphabet::Byte);
        assert!(symbols.push(Key::Symbol(97), 0));
        assert_eq!(Tokenizer::Byte.encode("aa", &symbols).unwrap(), [0, 0]);
        assert!(Tokenizer::Char.encode("é", &symbols).is_err());
    }
}
