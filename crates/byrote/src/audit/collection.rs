//! Documents in the token ids of a model, each distinct one once.

use crate::corpus::{DocumentBody, Encoded, Key, Tokenizer, Vocabulary, WholeDocument};
use crate::num::hash::Fnv;
use crate::observe::{Observer, Stage};
use crate::{Error, Result};
use rayon::prelude::*;
use std::collections::HashMap;

/// A document in the ids of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditDocument {
    /// Where it comes from: the file and the line.
    pub name: String,
    /// Its text, unless it is given as ids.
    pub text: Option<String>,
    /// The ids of its tokens, without a start token.
    pub ids: Vec<u32>,
    /// Where each token ends in the text, in bytes; empty for a document of ids.
    pub ends: Vec<usize>,
    /// How often the document occurs.
    pub copies: u64,
    /// How many of its tokens are special ones that the text spells out.
    pub special_tokens: u64,
}

impl AuditDocument {
    /// The size of its text in bytes, or nothing for a document of ids.
    pub fn bytes(&self) -> u64 {
        self.text.as_ref().map_or(0, |text| text.len() as u64)
    }

    /// The bytes of its text that tokens cover, from the end of the token before the first to the end of the last.
    pub fn byte_range(&self, tokens: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let end = |i: usize| if i == 0 { 0 } else { self.ends.get(i - 1).copied().unwrap_or(0) };
        end(tokens.start)..end(tokens.end)
    }

    /// The text of some of its tokens, if it has one. Characters that are split between tokens come whole.
    pub fn text_of(&self, tokens: std::ops::Range<usize>) -> Option<&str> {
        let text = self.text.as_deref()?;
        let range = self.byte_range(tokens);
        let start = (0..=range.start).rev().find(|&i| text.is_char_boundary(i))?;
        let end = (range.end..=text.len()).find(|&i| text.is_char_boundary(i))?;
        text.get(start..end)
    }
}

/// How text becomes ids.
#[derive(Debug)]
pub struct TextTokens {
    /// The tokenizer; without one, only documents of ids can be read.
    pub tokenizer: Option<Tokenizer>,
    /// The tokens that the model knows; without one, ids are taken as they are.
    pub vocabulary: Option<Vocabulary>,
}

impl TextTokens {
    /// The ids of a text.
    pub fn encode(&self, text: &str) -> Result<Encoded> {
        match (&self.tokenizer, &self.vocabulary) {
            (Some(tokenizer), Some(vocabulary)) => tokenizer.encode_with_ends(text, vocabulary),
            #[cfg(feature = "huggingface")]
            (Some(Tokenizer::HuggingFace(tokenizer)), None) => {
                let (ids, ends) = tokenizer.encode_with_ends(text).map_err(|e| Error::setting("text", e))?;
                Ok(Encoded { ids, ends })
            }
            _ => {
                let message =
                    "the model has no tokenizer: name a tokenizer.json, or give the text as token ids";
                Err(Error::setting("tokenizer", message))
            }
        }
    }

    /// Ids of the corpus in those of the model.
    fn known(&self, ids: &[u32]) -> Result<Vec<u32>> {
        let Some(vocabulary) = &self.vocabulary else { return Ok(ids.to_vec()) };
        let find = |&id: &u32| {
            vocabulary.id(Key::Symbol(id)).ok_or_else(|| {
                let message = format!("token {id} is not one of the model's {}", vocabulary.len());
                Error::setting("text", message)
            })
        };
        ids.iter().map(find).collect()
    }

    #[cfg(feature = "huggingface")]
    fn is_special(&self, id: u32) -> bool {
        matches!(&self.tokenizer, Some(Tokenizer::HuggingFace(tokenizer)) if tokenizer.is_special(id))
    }

    /// Only a `tokenizer.json` has special tokens.
    #[cfg(not(feature = "huggingface"))]
    fn is_special(&self, _: u32) -> bool {
        false
    }
}

/// Documents, each distinct one once, in the order of their first occurrence.
#[derive(Debug, Clone, Default)]
pub struct Collection {
    /// The distinct documents.
    pub documents: Vec<AuditDocument>,
    /// The distinct document of every document of the input, in its order.
    pub order: Vec<usize>,
}

impl Collection {
    /// Tokenizes documents; with a block length, the tokens of each are cut into blocks.
    pub fn new(
        whole: Vec<WholeDocument>,
        tokens: &TextTokens,
        block: Option<usize>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        observer.report(Stage::Counting, 0, Some(whole.len() as u64))?;
        let read = |document: WholeDocument| -> Result<AuditDocument> {
            let name = format!("{}:{}", document.path.display(), document.line);
            let at = |error: Error| match error {
                Error::Setting { message, .. } if message.starts_with("the model has never seen") => {
                    Error::format_at(&document.path, document.line, message)
                }
                other => other,
            };
            Ok(match document.body {
                DocumentBody::Text(text) => {
                    let Encoded { ids, ends } = tokens.encode(&text).map_err(at)?;
                    let special_tokens = ids.iter().filter(|&&id| tokens.is_special(id)).count() as u64;
                    AuditDocument { name, text: Some(text), ids, ends, copies: 1, special_tokens }
                }
                DocumentBody::Ids(ids) => {
                    let ids = tokens.known(&ids)?;
                    AuditDocument { name, text: None, ids, ends: Vec::new(), copies: 1, special_tokens: 0 }
                }
            })
        };
        let read: Vec<AuditDocument> = whole.into_par_iter().map(read).collect::<Result<_>>()?;
        let blocks = read.into_iter().flat_map(|document| match block {
            Some(length) if document.text.is_some() => cut(&document, length),
            _ => vec![document],
        });
        Ok(Self::distinct(blocks))
    }

    /// Collects documents, identical ones once.
    fn distinct(documents: impl Iterator<Item = AuditDocument>) -> Self {
        let (mut found, mut order): (Vec<AuditDocument>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut by_hash: HashMap<u64, Vec<usize>> = HashMap::new();
        for document in documents.filter(|document| !document.ids.is_empty()) {
            let mut hash = Fnv::new();
            hash.write(document.text.as_deref().unwrap_or_default().as_bytes());
            document.ids.iter().for_each(|id| hash.write(&id.to_le_bytes()));
            let places = by_hash.entry(hash.finish()).or_default();
            let same = |&&i: &&usize| found[i].ids == document.ids && found[i].text == document.text;
            match places.iter().find(same) {
                Some(&i) => {
                    order.push(i);
                    found[i].copies += document.copies;
                }
                None => {
                    places.push(found.len());
                    order.push(found.len());
                    found.push(document);
                }
            }
        }
        Self { documents: found, order }
    }

    /// All documents, copies included.
    pub fn count(&self) -> u64 {
        self.documents.iter().map(|document| document.copies).sum()
    }

    /// All tokens, copies included.
    pub fn tokens(&self) -> u64 {
        self.total(|document| document.ids.len() as u64)
    }

    /// A sum over all documents, copies included.
    pub fn total(&self, of: impl Fn(&AuditDocument) -> u64) -> u64 {
        self.documents.iter().map(|document| document.copies * of(document)).sum()
    }
}

/// The blocks of a document.
fn cut(document: &AuditDocument, length: usize) -> Vec<AuditDocument> {
    let starts = (0..document.ids.len()).step_by(length);
    let block = |start: usize| {
        let tokens = start..(start + length).min(document.ids.len());
        let bytes = document.byte_range(tokens.clone());
        AuditDocument {
            name: format!("{} token {start}", document.name),
            text: document.text.as_ref().and_then(|text| text.get(bytes.clone()).map(str::to_owned)),
            ids: document.ids[tokens.clone()].to_vec(),
            ends: document.ends[tokens].iter().map(|end| end - bytes.start).collect(),
            copies: document.copies,
            special_tokens: 0,
        }
    };
    starts.map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Alphabet;
    use crate::observe::Silent;

    fn letters(text: &str) -> TextTokens {
        let mut vocabulary = Vocabulary::new(Alphabet::Char);
        let mut all: Vec<char> = text.chars().collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().for_each(|c| assert!(vocabulary.push(Key::Symbol(u32::from(c)), 0)));
        TextTokens { tokenizer: Some(Tokenizer::Char), vocabulary: Some(vocabulary) }
    }

    fn of(texts: &[&str], block: Option<usize>) -> Result<Collection> {
        let whole = texts.iter().zip(1..).map(|(text, line)| WholeDocument {
            path: "t.txt".into(),
            line,
            body: DocumentBody::Text((*text).into()),
        });
        Collection::new(whole.collect(), &letters("abé"), block, &Silent)
    }

    #[test]
    fn identical_documents_are_kept_once_and_counted() {
        let found = of(&["ab", "é", "ab", "a", "ab"], None).unwrap();
        let copies: Vec<_> = found.documents.iter().map(|d| (d.name.as_str(), d.copies)).collect();
        assert_eq!(copies, [("t.txt:1", 3), ("t.txt:2", 1), ("t.txt:4", 1)]);
        assert_eq!((found.count(), found.tokens()), (5, 8));
    }

    #[test]
    fn tokens_know_their_bytes_and_their_text() {
        let found = of(&["aéb"], None).unwrap();
        let document = &found.documents[0];
        assert_eq!((document.ends.as_slice(), document.byte_range(1..2)), ([1, 3, 4].as_slice(), 1..3));
        assert_eq!((document.text_of(1..3), document.text_of(0..0)), (Some("éb"), Some("")));
    }

    #[test]
    fn blocks_share_out_the_tokens_and_the_text() {
        let found = of(&["abéab"], Some(2)).unwrap();
        let texts: Vec<_> = found.documents.iter().map(|d| (d.text.as_deref().unwrap(), d.copies)).collect();
        assert_eq!(texts, [("ab", 1), ("éa", 1), ("b", 1)]);
        assert_eq!(found.documents[1].ends, [2, 3]);
    }

    #[test]
    fn an_unknown_token_is_located() {
        let error = of(&["ab", "axb"], None).unwrap_err();
        assert_eq!(error.to_string(), "t.txt, line 2: the model has never seen the token \"x\"");
    }
}
