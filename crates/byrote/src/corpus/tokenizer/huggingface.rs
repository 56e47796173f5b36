//! Hugging Face `tokenizer.json` files, through the `tokenizers` crate.
//!
//! A whole document is encoded at once, since normalizers and pre-tokenizers may look anywhere in it. Special tokens
//! are not added around a document: the settings `bos` and `eos` add them for every tokenizer alike.

use crate::foreign::guarded;
use crate::input::{MOST_TOKENIZER, read_capped};
use crate::num::hash::fnv1a;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;
use tokenizers::{Encoding, Token};

/// The longest document, in bytes, that is passed whole to a `tokenizer.json`.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// A loaded `tokenizer.json`.
#[derive(Debug)]
pub struct HuggingFace {
    inner: tokenizers::Tokenizer,
    fingerprint: u64,
    special: BTreeSet<u32>,
}

impl HuggingFace {
    /// Reads a tokenizer from a file.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_bytes(path, &read_capped(path, MOST_TOKENIZER, "a tokenizer.json")?)
    }

    /// Reads a tokenizer from bytes; `path` is the name used in messages.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let wrong = |e: String| {
            Error::format(path, format!("not a tokenizer.json: {}", e.lines().next().unwrap_or_default()))
        };
        serde_json::from_slice::<serde::de::IgnoredAny>(bytes).map_err(|e| wrong(e.to_string()))?;
        let inner = guarded(|| tokenizers::Tokenizer::from_bytes(bytes)).map_err(wrong)?;
        let mut inner = inner.map_err(|e| wrong(e.to_string()))?;
        // A file may contain its own truncation and padding settings; both would alter the documents.
        inner
            .with_truncation(None)
            .map_err(|e| Error::format(path, format!("cannot switch off truncation: {e}")))?;
        inner.with_padding(None);
        let added = inner.get_added_tokens_decoder();
        let special = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        Ok(Self { inner, fingerprint: fnv1a(bytes), special })
    }

    /// Returns the ids of a document.
    pub fn encode(&self, text: &str) -> std::result::Result<Vec<u32>, String> {
        match guarded(|| self.inner.encode_fast(text, false))? {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Returns the ids of a document and where each of its tokens ends, in bytes. A token that holds a part of a character ends
    /// where the character does.
    pub fn encode_with_ends(&self, text: &str) -> std::result::Result<(Vec<u32>, Vec<usize>), String> {
        match guarded(|| self.inner.encode(text, false))? {
            Ok(encoding) => {
                let mut last = 0;
                let rising = |&(_, end): &(usize, usize)| {
                    last = last.max(end.min(text.len()));
                    last
                };
                Ok((encoding.get_ids().to_vec(), encoding.get_offsets().iter().map(rising).collect()))
            }
            Err(e) => Err(e.to_string()),
        }
    }

    /// Whether an id is that of a special token, such as `<|endoftext|>`.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    /// Returns the tokens that the file's post-processor puts in front of a text.
    pub fn start(&self) -> std::result::Result<Vec<u32>, String> {
        // A token that no vocabulary has stands for the text.
        let text = || Encoding::from_tokens(vec![Token::new(u32::MAX, "a".into(), (0, 1))], 0);
        let around = guarded(|| self.inner.post_process(text(), None, true))?.map_err(|e| e.to_string())?;
        Ok(around.get_ids().iter().copied().take_while(|&id| id != u32::MAX).collect())
    }

    /// Returns the text of a token id, if the vocabulary has one.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Returns the number of ids: one more than the largest.
    pub fn ids(&self) -> u64 {
        let largest = self.inner.get_vocab(true).into_values().max();
        largest.map_or(0, |id| u64::from(id) + 1)
    }

    /// Returns a hash of the file's bytes, so that summaries made with different files are not merged.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}
