//! Encodes a text in the ids of a vocabulary.

use super::Tokenizer;
use crate::corpus::{Key, Vocabulary};
use crate::{Error, Result};
use std::ops::{ControlFlow, Range};

impl Tokenizer {
    /// Returns the ids of the tokens of a text. A token missing from the vocabulary is an error, never silently
    /// replaced.
    pub fn encode(&self, text: &str, vocabulary: &Vocabulary) -> Result<Vec<u32>> {
        Ok(self.encode_with_ends(text, vocabulary)?.ids)
    }

    /// Returns the ids of the tokens of a text and where each of them ends in it.
    pub fn encode_with_ends(&self, text: &str, vocabulary: &Vocabulary) -> Result<Encoded> {
        let mut encoded = Encoded::default();
        let mut unknown = None;
        let mut push = |key: Key<'_>, end: usize, text: &str| match vocabulary.id(key) {
            Some(id) => {
                encoded.ids.push(id);
                encoded.ends.push(end);
                ControlFlow::Continue(())
            }
            None => {
                unknown = Some(text.to_owned());
                ControlFlow::Break(())
            }
        };
        match self {
            Tokenizer::Byte => {
                let _ = text.bytes().enumerate().try_for_each(|(i, b)| {
                    push(Key::Symbol(u32::from(b)), i + 1, &char::from(b).to_string())
                });
            }
            Tokenizer::Char => {
                let _ = text
                    .char_indices()
                    .try_for_each(|(i, c)| push(Key::Symbol(u32::from(c)), i + c.len_utf8(), &c.to_string()));
            }
            Tokenizer::Whitespace | Tokenizer::WordPunct => {
                self.ranges(text, true, &mut |range: Range<usize>| {
                    push(Key::Word(text[range.clone()].as_bytes()), range.end, &text[range])
                });
            }
            #[cfg(feature = "huggingface")]
            Tokenizer::HuggingFace(tokenizer) => {
                let (ids, ends) = tokenizer.encode_with_ends(text).map_err(|e| Error::setting("text", e))?;
                let name = |id: u32| tokenizer.token(id).unwrap_or_else(|| id.to_string());
                let _ =
                    ids.into_iter().zip(ends).try_for_each(|(id, end)| push(Key::Symbol(id), end, &name(id)));
            }
        }
        match unknown {
            None => Ok(encoded),
            Some(token) => Err(unknown_token(&token)),
        }
    }
}

/// A text in token ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoded {
    /// The ids.
    pub ids: Vec<u32>,
    /// Where each token ends in the text, in bytes: they never fall. What stands between two tokens belongs to the second.
    pub ends: Vec<usize>,
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
