//! Tokenizers: text in, tokens out, with no state between documents.
//!
//! | name | tokens |
//! |---|---|
//! | `byte` | every byte; accepts any bytes |
//! | `char` | every Unicode scalar value |
//! | `whitespace` | maximal runs of `\S` |
//! | `wordpunct` | maximal runs of `\w+` or of `[^\w\s]+` |
//! | a file | a Hugging Face `tokenizer.json`, without its special tokens added around a document |
//!
//! `\w` and `\s` follow Unicode, as in the `regex` crate: `\s` is `White_Space`, `\w` is alphabetic, marks, decimal
//! digits, connector punctuation and join controls.
//!
//! ```
//! use byrote::corpus::{Corpus, Options, Outputs, Source, Tokenizer, TokenizerChoice};
//! use byrote::observe::Silent;
//!
//! let choice: TokenizerChoice = "wordpunct".parse()?;
//! let tokenizer = Tokenizer::load(&choice)?;
//! // The vocabulary of a corpus that was read with the same tokenizer.
//! let (source, options) = (Source::Stories { documents: 20, seed: 0 }, Options::default().tokenizer(choice));
//! let vocabulary = Corpus::read(&source, &options, Outputs::default(), &Silent)?.vocabulary;
//! let first = vocabulary.text(0);
//! assert_eq!(tokenizer.encode(&format!("{first} {first}"), &vocabulary)?, [0, 0]);
//! let error = tokenizer.encode("zyzzyva", &vocabulary).unwrap_err();
//! assert_eq!(error.setting_name(), Some("text")); // the vocabulary does not have this word
//! # Ok::<(), byrote::Error>(())
//! ```

mod character_runs;
mod encode;
mod held;

#[cfg(feature = "huggingface")]
mod huggingface;

use super::vocabulary::Alphabet;
use crate::setting::{as_text, nearest};
use crate::{Error, Result};
use std::fmt;
use std::ops::{ControlFlow, Range};
#[cfg(feature = "huggingface")]
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

use character_runs::Rule;

pub(crate) use character_runs::Class;

pub use encode::{Encoded, unknown_token};
pub use held::TokenizerJson;
#[cfg(feature = "huggingface")]
pub(crate) use held::name_of_file;
#[cfg(feature = "huggingface")]
pub use huggingface::{HuggingFace, MAX_DOCUMENT_BYTES};

/// The tokenizer, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TokenizerChoice {
    /// Every byte is a token.
    Byte,
    /// Every Unicode scalar value is a token.
    Char,
    /// Maximal runs of non-space characters.
    Whitespace,
    /// Maximal runs of word characters, or of characters that are neither word nor space.
    #[default]
    WordPunct,
    /// A Hugging Face `tokenizer.json`.
    File(PathBuf),
    /// The `tokenizer.json` that a model holds.
    Held(TokenizerJson),
}

impl TokenizerChoice {
    /// Those that need no file.
    const BUILT_IN: [Self; 4] = [Self::Byte, Self::Char, Self::Whitespace, Self::WordPunct];

    /// Returns the tokenizer with this name that needs no file.
    pub fn built_in(name: &str) -> Option<Self> {
        Self::BUILT_IN.into_iter().find(|choice| choice.to_string() == name)
    }
}

impl FromStr for TokenizerChoice {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        const NAMES: [&str; 4] = ["byte", "char", "whitespace", "wordpunct"];
        if let Some(choice) = Self::built_in(s) {
            return Ok(choice);
        }
        Ok(match s {
            file if file.contains(['.', '/', '\\']) => Self::File(file.into()),
            _ => {
                let hint = nearest(s, &NAMES).map_or(String::new(), |near| format!("; did you mean {near}?"));
                let message = format!(
                    "{s:?} is neither one of {} nor a file such as tokenizer.json{hint}",
                    NAMES.join(", ")
                );
                return Err(Error::setting("tokenizer", message));
            }
        })
    }
}

impl fmt::Display for TokenizerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte => f.write_str("byte"),
            Self::Char => f.write_str("char"),
            Self::Whitespace => f.write_str("whitespace"),
            Self::WordPunct => f.write_str("wordpunct"),
            Self::File(p) => write!(f, "{}", p.display()),
            Self::Held(json) => f.write_str(&json.name()),
        }
    }
}

as_text!(TokenizerChoice);

/// A tokenizer ready for use; threads share it.
#[derive(Debug)]
pub enum Tokenizer {
    /// Every byte.
    Byte,
    /// Every scalar value.
    Char,
    /// Runs of `\S`.
    Whitespace,
    /// Runs of `\w+` or `[^\w\s]+`.
    WordPunct,
    /// A `tokenizer.json`.
    #[cfg(feature = "huggingface")]
    HuggingFace(Box<HuggingFace>),
}

/// What takes the tokens of a text one by one, as byte ranges of it, until it breaks.
pub(crate) trait TakeRange {
    fn take(&mut self, range: Range<usize>) -> ControlFlow<()>;
}

impl<F: FnMut(Range<usize>) -> ControlFlow<()>> TakeRange for F {
    #[inline]
    fn take(&mut self, range: Range<usize>) -> ControlFlow<()> {
        self(range)
    }
}

impl Tokenizer {
    /// Loads the chosen tokenizer.
    pub fn load(choice: &TokenizerChoice) -> Result<Self> {
        Ok(match choice {
            TokenizerChoice::Byte => Tokenizer::Byte,
            TokenizerChoice::Char => Tokenizer::Char,
            TokenizerChoice::Whitespace => Tokenizer::Whitespace,
            TokenizerChoice::WordPunct => Tokenizer::WordPunct,
            #[cfg(feature = "huggingface")]
            TokenizerChoice::File(path) => Tokenizer::HuggingFace(Box::new(HuggingFace::load(path)?)),
            #[cfg(feature = "huggingface")]
            TokenizerChoice::Held(json) => {
                let name = json.name();
                let loaded = HuggingFace::from_bytes(Path::new(&name), json.text().as_bytes())?;
                Tokenizer::HuggingFace(Box::new(loaded))
            }
            #[cfg(not(feature = "huggingface"))]
            TokenizerChoice::File(_) | TokenizerChoice::Held(_) => {
                let message =
                    format!("{choice}: this build cannot read tokenizer.json files (feature `huggingface`)");
                return Err(Error::setting("tokenizer", message));
            }
        })
    }

    /// Returns the alphabet of its tokens.
    pub fn alphabet(&self) -> Alphabet {
        match self {
            Tokenizer::Byte => Alphabet::Byte,
            Tokenizer::Char => Alphabet::Char,
            Tokenizer::Whitespace | Tokenizer::WordPunct => Alphabet::Word,
            #[cfg(feature = "huggingface")]
            Tokenizer::HuggingFace(_) => Alphabet::Id,
        }
    }

    /// Whether the text must be UTF-8. Only `byte` accepts any bytes.
    pub fn needs_utf8(&self) -> bool {
        !matches!(self, Tokenizer::Byte)
    }

    /// Passes on the tokens of `text` that are byte ranges of it, in order, until `taker` breaks. The last token is withheld
    /// if it touches the end of a text that is not `whole`, since it may continue; the return value is the offset up to
    /// which the text has been processed.
    ///
    /// `text` is UTF-8 unless the tokenizer is `byte`. A `tokenizer.json` does not work this way: see
    /// [`HuggingFace::encode`].
    pub(crate) fn ranges(&self, text: &str, whole: bool, taker: &mut impl TakeRange) -> usize {
        match self {
            Tokenizer::WordPunct => character_runs::runs(text, Rule::WordPunct, whole, taker),
            Tokenizer::Whitespace => character_runs::runs(text, Rule::Whitespace, whole, taker),
            other => unreachable!("{other:?} does not cut text into ranges"),
        }
    }
}

impl Tokenizer {
    /// Returns the number of tokens that begin in `text`, for the tokenizers whose tokens are characters or runs of
    /// them; `before` carries the class of the last character from one part of a document to the next.
    pub(crate) fn count(&self, text: &str, before: &mut Class) -> u64 {
        match self {
            Tokenizer::Byte => text.len() as u64,
            Tokenizer::Char => text.bytes().filter(|b| b & 0xc0 != 0x80).count() as u64,
            Tokenizer::Whitespace => character_runs::count(text, Rule::Whitespace, before),
            Tokenizer::WordPunct => character_runs::count(text, Rule::WordPunct, before),
            #[cfg(feature = "huggingface")]
            Tokenizer::HuggingFace(_) => unreachable!("a tokenizer.json encodes documents whole"),
        }
    }
}

/// The longest token, in bytes, that a document may contain: a longer one almost certainly means a wrong `tokenizer` or
/// `documents` setting, and would have to be held in memory.
pub const MAX_TOKEN_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        tokenizer.ranges(text, true, &mut |r: Range<usize>| {
            out.push(text[r].to_owned());
            ControlFlow::Continue(())
        });
        out
    }

    #[test]
    fn wordpunct_cuts_runs_of_word_characters_and_of_the_rest() {
        let cases: [(&str, &[&str]); 7] = [
            (
                "Once upon a time, \"Lily\" ran.",
                &["Once", "upon", "a", "time", ",", "\"", "Lily", "\"", "ran", "."],
            ),
            ("don't...stop", &["don", "'", "t", "...", "stop"]),
            ("naïve café_2 — ok", &["naïve", "café_2", "—", "ok"]),
            ("  \t ", &[]),
            ("", &[]),
            ("日本語。テスト", &["日本語", "。", "テスト"]),
            ("a\u{a0}b\u{200d}c", &["a", "b\u{200d}c"]), // no-break space is space, a joiner is a word character
        ];
        for (text, want) in cases {
            assert_eq!(cut(&Tokenizer::WordPunct, text), want, "{text:?}");
        }
    }

    #[test]
    fn whitespace_cuts_at_unicode_white_space_only() {
        assert_eq!(cut(&Tokenizer::Whitespace, " a,b\u{2003}c\r\nd "), ["a,b", "c", "d"]);
    }

    #[test]
    fn names_round_trip() {
        for name in ["byte", "char", "whitespace", "wordpunct", "some/tokenizer.json"] {
            let choice: TokenizerChoice = name.parse().unwrap();
            assert_eq!(choice.to_string(), name);
        }
    }
}
