//! How a corpus is read: the checked form of a [`CorpusSpec`](super::CorpusSpec).

use super::tokenizer::TokenizerChoice;
use super::window::Window;
use crate::setting::{as_text, choices, nearest};
use crate::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How text, or a flat array of ids, is split into documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentRule {
    /// Each line is a document. A line ends at LF or CRLF.
    Line,
    /// Documents are separated by lines that are empty or blank; CRLF within them reads as LF.
    BlankLine,
    /// Each file is a document.
    File,
    /// Documents are separated by this text.
    Separator(Vec<u8>),
    /// Each run of this many tokens is a document.
    Chunk(usize),
}

impl fmt::Display for DocumentRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentRule::Line => f.write_str("line"),
            DocumentRule::BlankLine => f.write_str("blank-line"),
            DocumentRule::File => f.write_str("file"),
            DocumentRule::Separator(text) => {
                write!(f, "separator:{}", escape(&String::from_utf8_lossy(text)))
            }
            DocumentRule::Chunk(n) => write!(f, "chunk:{n}"),
        }
    }
}

impl FromStr for DocumentRule {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        let wrong = |message: String| Err(Error::setting("documents", message));
        if let Some(text) = s.strip_prefix("separator:") {
            let text = unescape(text);
            return if text.is_empty() {
                wrong("the separator is empty".into())
            } else {
                Ok(Self::Separator(text))
            };
        }
        if let Some(n) = s.strip_prefix("chunk:") {
            return match n.parse() {
                Ok(n) if n > 0 => Ok(Self::Chunk(n)),
                _ => wrong(format!("chunk:{n} is not a positive number of tokens")),
            };
        }
        match s {
            "line" => Ok(Self::Line),
            "blank-line" => Ok(Self::BlankLine),
            "file" => Ok(Self::File),
            _ => {
                let hint = nearest(s, &["line", "blank-line", "file", "separator:", "chunk:"]);
                let hint = hint.map_or(String::new(), |near| format!("; did you mean {near}?"));
                wrong(format!("{s:?} is not one of line, blank-line, file, separator:STR, chunk:L{hint}"))
            }
        }
    }
}

as_text!(DocumentRule);

/// The inverse of [`unescape`].
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push_str("\\0"),
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    out
}

/// Reads `\n`, `\r`, `\t`, `\0` and `\\` as in most languages; any other character means itself.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('0') => out.push('\0'),
            Some('\\') => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out.into_bytes()
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Plain text.
    Text,
    /// One JSON object per line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow, as a file or a stream.
    Arrow,
    /// A NumPy array of ids.
    Npy,
    /// Raw little-endian ids.
    Bin,
}

choices!(Format, "format" {
    Text = "text",
    Jsonl = "jsonl",
    Parquet = "parquet",
    Arrow = "arrow",
    Npy = "npy",
    Bin = "bin",
});

/// The size of the ids in a `.bin` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdType {
    /// Two bytes.
    #[default]
    U16,
    /// Four bytes.
    U32,
}

choices!(IdType, "dtype" { U16 = "u16", U32 = "u32" });

/// A part of a file, from one fraction of it to another.
///
/// ```
/// use byrote::corpus::Split;
/// let train: Split = "0..0.9".parse()?;
/// assert_eq!(train.of(1_115_394), 0..1_003_854);
/// assert!("0.9..0.1".parse::<Split>().is_err());
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    from: Fraction,
    to: Fraction,
}

/// One of several parts, such as 2/8.
///
/// ```
/// use byrote::corpus::PartOf;
/// let part: PartOf = "2/8".parse()?;
/// assert_eq!((part.number(), part.of()), (2, 8));
/// assert!("9/8".parse::<PartOf>().is_err() && "0/8".parse::<PartOf>().is_err());
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartOf {
    of: u64,
    number: u64,
}

impl PartOf {
    /// The only part of one.
    pub const ALL: Self = Self { of: 1, number: 1 };

    /// The part with this number, from 1, of so many.
    ///
    /// # Errors
    /// When there is no such part, or there are more than 2^20.
    pub fn new(number: u64, of: u64) -> Result<Self> {
        match (1..=of).contains(&number) && of <= 1 << 20 {
            true => Ok(Self { of, number }),
            false => Err(Error::setting("part", format!("{number}/{of} is not a part such as 2/8"))),
        }
    }

    /// Refuses parts in files that are not all the parts there are, each once.
    pub(crate) fn check_complete<'p>(parts: impl Iterator<Item = (Self, &'p Path)>) -> Result<()> {
        let mut found: Vec<(Self, &Path)> = parts.collect();
        found.sort();
        if let Some(pair) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::Incompatible {
                left: pair[0].1.to_path_buf(),
                right: pair[1].1.to_path_buf(),
                message: format!("both are part {}", pair[0].0),
            });
        }
        let of = found.first().map_or(0, |(part, _)| part.of);
        let numbers = found.iter().map(|(part, _)| part.number).chain([0]);
        match (1..=of).zip(numbers).find(|(i, number)| i != number) {
            Some((missing, _)) => Err(Error::setting("merge", format!("part {missing}/{of} is missing"))),
            None => Ok(()),
        }
    }

    /// Returns the number of this part, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns how many parts there are.
    pub fn of(&self) -> u64 {
        self.of
    }

    /// Whether this is everything.
    pub fn is_all(&self) -> bool {
        self.of == 1
    }

    /// Whether an item belongs to this part if the items are dealt out in turn, given how many come before it.
    pub(crate) fn is_dealt(&self, before: u64) -> bool {
        before % self.of == self.number - 1
    }

    /// Whether an item belongs to this part, given how many of all the items come before it.
    pub(crate) fn has(&self, before: u64, all: u64) -> bool {
        u128::from(before) * u128::from(self.of) / u128::from(all.max(1)) + 1 == u128::from(self.number)
    }
}

impl fmt::Display for PartOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for PartOf {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        let parts = s.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match parts.map(|(number, of)| Self::new(number, of)) {
            Some(Ok(part)) => Ok(part),
            // Several settings are parts (`range`, `shard`); whoever reads one names it.
            _ => Err(Error::setting("part", format!("{s:?} is not a part such as 2/8, the second of eight"))),
        }
    }
}

as_text!(PartOf);

/// A decimal fraction from 0 to 1, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fraction {
    digits: u64,
    scale: u64,
}

impl Fraction {
    fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = !text.is_empty() && text != "." && (whole.len() + decimals.len()) <= 18;
        if !is_number || !whole.bytes().chain(decimals.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = format!("0{whole}{decimals}").parse().ok()?;
        let scale = 10u64.pow(decimals.len() as u32);
        (digits <= scale).then_some(Self { digits, scale })
    }

    /// This fraction of n, rounded down.
    fn of(self, n: u64) -> u64 {
        (u128::from(n) * u128::from(self.digits) / u128::from(self.scale)) as u64
    }

    fn is_less(self, other: Self) -> bool {
        u128::from(self.digits) * u128::from(other.scale) < u128::from(other.digits) * u128::from(self.scale)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = self.scale.ilog10() as usize;
        match decimals {
            0 => write!(f, "{}", self.digits),
            _ => write!(f, "{}.{:0decimals$}", self.digits / self.scale, self.digits % self.scale),
        }
    }
}

impl Split {
    /// Returns the part of n items, both ends rounded down.
    pub fn of(&self, n: u64) -> std::ops::Range<u64> {
        self.from.of(n)..self.to.of(n)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}

impl FromStr for Split {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        let parts = s.split_once("..").and_then(|(a, b)| Some((Fraction::parse(a)?, Fraction::parse(b)?)));
        match parts {
            Some((from, to)) if from.is_less(to) => Ok(Self { from, to }),
            Some(_) => Err(Error::setting(
                "split",
                format!("{s:?} is empty: the first fraction must be the smaller"),
            )),
            None => Err(Error::setting(
                "split",
                format!("{s:?} is not a part such as 0..0.9, from one fraction to another, both from 0 to 1"),
            )),
        }
    }
}

as_text!(Split);

/// How a corpus is read, with every setting decided.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// What is kept of a document.
    pub window: Window,
    /// How text becomes tokens.
    pub tokenizer: TokenizerChoice,
    /// Whether to read characters instead if every document is a single word, judged by the first few megabytes of a text: a
    /// list of words has no contexts by words.
    pub letters_of_words: bool,
    /// How a file is split into documents; `None` for the default of the format.
    pub documents: Option<DocumentRule>,
    /// The format of all files; `None` to decide by their names.
    pub format: Option<Format>,
    /// The field or column that holds the text or the ids.
    pub field: String,
    /// The type of raw ids; `None` for u16.
    pub dtype: Option<IdType>,
    /// The id that separates documents in a flat array.
    pub separator_id: Option<u32>,
    /// Read only this part of every file.
    pub split: Option<Split>,
    /// Join all documents into one.
    pub join: bool,
    /// The distance between the starts of windows.
    pub stride: u64,
    /// The number of windows of which the contexts are kept, if contexts are asked for; `None` for as many as fit.
    pub windows: Option<u64>,
    /// The part of the windows that is counted.
    pub range: PartOf,
    /// The part of the documents that is read, dealt out in turn.
    pub shard: PartOf,
    /// The seed with which these windows are drawn.
    pub seed: u64,
    /// Keep only the first N documents.
    pub limit: Option<u64>,
    /// Replace invalid UTF-8 instead of refusing it.
    pub lossy: bool,
    /// Work on disk above this many bytes.
    pub max_memory: Option<u64>,
    /// The directory for temporary files.
    pub temp_dir: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            window: Window::default(),
            tokenizer: TokenizerChoice::default(),
            letters_of_words: false,
            documents: None,
            format: None,
            field: "text".into(),
            dtype: None,
            separator_id: None,
            split: None,
            join: false,
            stride: 1,
            windows: None,
            range: PartOf::ALL,
            shard: PartOf::ALL,
            seed: 0,
            limit: None,
            lossy: false,
            max_memory: None,
            temp_dir: std::env::temp_dir(),
        }
    }
}

crate::setting::setters!(Options {
    window: plain(Window),
    tokenizer: plain(TokenizerChoice),
    documents: into(impl Into<Option<DocumentRule>>),
    format: into(impl Into<Option<Format>>),
    field: into(impl Into<String>),
    dtype: into(impl Into<Option<IdType>>),
    separator_id: into(impl Into<Option<u32>>),
    split: into(impl Into<Option<Split>>),
    join: plain(bool),
    stride: plain(u64),
    windows: into(impl Into<Option<u64>>),
    range: plain(PartOf),
    shard: plain(PartOf),
    seed: plain(u64),
    limit: into(impl Into<Option<u64>>),
    lossy: plain(bool),
    max_memory: into(impl Into<Option<u64>>),
    temp_dir: into(impl Into<PathBuf>),
    letters_of_words: plain(bool),
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_rules_are_read_as_they_are_typed() {
        assert_eq!("line".parse::<DocumentRule>().unwrap(), DocumentRule::Line);
        assert_eq!(
            "separator:\\n---\\n".parse::<DocumentRule>().unwrap(),
            DocumentRule::Separator(b"\n---\n".to_vec())
        );
        assert_eq!(
            "separator:a\\qb\\".parse::<DocumentRule>().unwrap(),
            DocumentRule::Separator(b"a\\qb\\".to_vec())
        );
        let odd = DocumentRule::Separator(b"\n\\n\t".to_vec());
        assert_eq!(odd.to_string().parse::<DocumentRule>().unwrap(), odd);
        assert_eq!("chunk:128".parse::<DocumentRule>().unwrap(), DocumentRule::Chunk(128));
        for wrong in ["", "lines", "separator:", "chunk:0", "chunk:x", "chunk:-1"] {
            assert_eq!(wrong.parse::<DocumentRule>().unwrap_err().kind(), "setting", "{wrong}");
        }
    }

    #[test]
    fn every_item_is_dealt_to_one_part() {
        let parts: Vec<PartOf> = ["1/3", "2/3", "3/3"].map(|text| text.parse().unwrap()).to_vec();
        for before in 0..20 {
            let dealt: Vec<bool> = parts.iter().map(|part| part.is_dealt(before)).collect();
            assert_eq!(dealt.iter().filter(|own| **own).count(), 1, "{before}");
            assert!(dealt[before as usize % 3] && PartOf::ALL.is_dealt(before));
        }
        for wrong in ["", "1", "/", "0/3", "4/3", "1/0", "-1/3", "1/3/3", "1/99999999"] {
            assert!(wrong.parse::<PartOf>().is_err(), "{wrong}");
        }
    }
}
