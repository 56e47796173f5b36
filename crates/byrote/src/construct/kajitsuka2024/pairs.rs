//! Labelled sequences from a file: JSON Lines or tab-separated values.
//!
//! ```text
//! {"sequence": [17, 3, 250], "label": 4}                 ids
//! {"sequence": "to be or not", "label": "Hamlet"}        text, split by the tokenizer
//! {"sequence": [17, 3, 250], "label": [0, 1, 0]}         one label per token (sequence to sequence)
//! to be or not<TAB>Hamlet                                text, a label
//! to be or not<TAB>V V C A                               text, one label per token
//! ```
//!
//! Labels are names; the name of an integer is its decimal digits. All records must hold text, or all ids. A sequence with two
//! different labels is an error: in data labelled by hand it is a mistake.

use super::exact_file::Labels;
use super::task::{Defect, Goal, Samples, Task, Visibility};
use crate::corpus::{Alphabet, Key, Tokenizer, TokenizerChoice, Vocabulary};
use crate::input::{MOST_HELD, read_capped};
use crate::{Error, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

/// Samples with their vocabulary and labels.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// The samples.
    pub samples: Samples,
    /// The tokens by id.
    pub vocabulary: Vocabulary,
    /// The labels.
    pub labels: Labels,
    /// The tokenizer by name.
    pub tokenizer: String,
}

/// The switches of a task; its sizes follow from the data.
///
/// ```
/// use byrote::construct::kajitsuka2024::{Goal, Switches};
/// let switches = Switches::default().goal(Goal::EveryPosition).padded(true);
/// assert!(switches.task(5, 3, 2).padded);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Switches {
    /// What is labelled.
    pub goal: Goal,
    /// What a position sees.
    pub attention: Visibility,
    /// Whether sequences are filled up.
    pub padded: bool,
}

crate::setting::setters!(Switches { goal: plain(Goal), attention: plain(Visibility), padded: plain(bool) });

impl Switches {
    /// The task of data of these sizes.
    pub fn task(self, d_vocab: usize, n_ctx: usize, labels: usize) -> Task {
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let Self { goal, attention, padded } = self;
        Task { goal, attention, padded, d_vocab: size(d_vocab), n_ctx: size(n_ctx), labels: size(labels) }
    }
}

/// A token before there is a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    Symbol(u32),
    Word(Vec<u8>),
}

impl Token {
    fn key(&self) -> Key<'_> {
        match self {
            Token::Symbol(s) => Key::Symbol(*s),
            Token::Word(w) => Key::Word(w),
        }
    }
}

struct Record {
    line: u64,
    tokens: Vec<Token>,
    labels: Vec<String>,
}

/// Reads a file of labelled sequences.
pub fn read(path: &Path, switches: Switches, choice: &TokenizerChoice) -> Result<Labelled> {
    from_bytes(path, &read_capped(path, MOST_HELD, "a file of labelled sequences")?, switches, choice)
}

/// Reads the bytes of a file of labelled sequences; the ending of `path` says how they are written.
pub fn from_bytes(
    path: &Path,
    bytes: &[u8],
    switches: Switches,
    choice: &TokenizerChoice,
) -> Result<Labelled> {
    let text = std::str::from_utf8(bytes).map_err(|e| Error::InvalidUtf8 {
        path: path.to_path_buf(),
        line: 1 + bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count() as u64,
        offset: e.valid_up_to() as u64,
    })?;
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let json = match extension.as_str() {
        "jsonl" | "json" => true,
        "tsv" => false,
        _ => {
            let message = "labelled sequences are read from files that end in .jsonl or .tsv";
            return Err(Error::format(path, message));
        }
    };
    let tokenizer = Tokenizer::load(choice)?;
    let mut records: Vec<Record> = Vec::new();
    let mut ids = None;
    for (line, content) in (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty()) {
        let at = |message: String| Error::format_at(path, line, message);
        let (sequence, labels) = match json {
            true => parse_json(content).map_err(at)?,
            false => parse_tsv(content, switches.goal).map_err(at)?,
        };
        let is_ids = matches!(sequence, Sequence::Ids(_));
        if *ids.get_or_insert(is_ids) != is_ids {
            return Err(at("ids and text in one file; all sequences must be of one kind".into()));
        }
        let tokens = sequence.tokens(&tokenizer).map_err(at)?;
        records.push(Record { line, tokens, labels });
    }
    let alphabet = if ids == Some(true) { Alphabet::Id } else { tokenizer.alphabet() };
    let name = if ids == Some(true) { "ids".into() } else { choice.to_string() };
    assemble(path, &records, switches, alphabet, name)
}

fn assemble(
    path: &Path,
    records: &[Record],
    switches: Switches,
    alphabet: Alphabet,
    tokenizer: String,
) -> Result<Labelled> {
    let tokens: BTreeSet<&Token> = records.iter().flat_map(|r| &r.tokens).collect();
    let mut vocabulary = Vocabulary::new(alphabet);
    for token in &tokens {
        let fits = vocabulary.push(token.key(), 0);
        debug_assert!(fits, "a sorted set of one kind");
    }
    let names = sorted_names(records.iter().flat_map(|r| &r.labels));
    let n_ctx = records.iter().map(|r| r.tokens.len()).max().unwrap_or(0);
    let by_name: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let sequences: Vec<(Vec<u32>, Vec<u32>)> = records
        .iter()
        .map(|r| {
            let ids = r.tokens.iter().filter_map(|t| vocabulary.id(t.key())).collect();
            (ids, r.labels.iter().map(|l| by_name[l.as_str()]).collect())
        })
        .collect();
    let task = switches.task(vocabulary.len().max(1), n_ctx.max(1), names.len().max(1));
    let pairs = sequences.iter().map(|(s, l)| (&s[..], &l[..]));
    let samples = Samples::new(task, pairs).map_err(|Defect { sequence, message }| {
        match sequence.and_then(|i| records.get(i)) {
            Some(record) => Error::format_at(path, record.line, message),
            None => Error::format(path, message),
        }
    })?;
    Ok(Labelled { samples, vocabulary, labels: Labels::Names(names), tokenizer })
}

/// Distinct names: by value where all are whole numbers, by their bytes otherwise.
fn sorted_names<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    names.dedup();
    let value = |n: &&String| n.parse::<i64>().ok();
    if names.iter().all(|n| value(n).is_some()) {
        names.sort_by_key(|n| value(n));
    }
    names.into_iter().cloned().collect()
}

enum Sequence<'a> {
    Text(std::borrow::Cow<'a, str>),
    Ids(Vec<u32>),
}

impl Sequence<'_> {
    fn tokens(&self, tokenizer: &Tokenizer) -> Result<Vec<Token>, String> {
        let text = match self {
            Sequence::Ids(ids) => return Ok(ids.iter().map(|&id| Token::Symbol(id)).collect()),
            Sequence::Text(text) => text,
        };
        match tokenizer {
            Tokenizer::Byte => Ok(text.bytes().map(|b| Token::Symbol(b.into())).collect()),
            Tokenizer::Char => Ok(text.chars().map(|c| Token::Symbol(c.into())).collect()),
            #[cfg(feature = "huggingface")]
            Tokenizer::HuggingFace(tokenizer) => {
                Ok(tokenizer.encode(text)?.into_iter().map(Token::Symbol).collect())
            }
            Tokenizer::Whitespace | Tokenizer::WordPunct => {
                let mut tokens = Vec::new();
                tokenizer.ranges(text, true, &mut |range: std::ops::Range<usize>| {
                    tokens.push(Token::Word(text[range].as_bytes().to_vec()));
                    ControlFlow::Continue(())
                });
                Ok(tokens)
            }
        }
    }
}

fn parse_json(line: &str) -> Result<(Sequence<'_>, Vec<String>), String> {
    let record: Value = serde_json::from_str(line).map_err(|e| format!("not JSON: {e}"))?;
    let field = |name: &str| record.get(name).ok_or_else(|| format!("no field {name:?}"));
    let name = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(n) if n.is_i64() || n.is_u64() => Ok(n.to_string()),
        other => Err(format!("{other} is not a label; write a string or an integer")),
    };
    let sequence = match field("sequence")? {
        Value::String(text) => Sequence::Text(text.clone().into()),
        Value::Array(ids) => {
            let id = |v: &Value| {
                let id = v.as_u64().and_then(|id| u32::try_from(id).ok());
                id.ok_or_else(|| format!("{v} is not a token id between 0 and {}", u32::MAX))
            };
            Sequence::Ids(ids.iter().map(id).collect::<Result<_, String>>()?)
        }
        other => return Err(format!("the sequence is {other}; write a string or an array of token ids")),
    };
    let labels = match field("label")? {
        Value::Array(labels) => labels.iter().map(name).collect::<Result<_, String>>()?,
        one => vec![name(one)?],
    };
    Ok((sequence, labels))
}

fn parse_tsv(line: &str, goal: Goal) -> Result<(Sequence<'_>, Vec<String>), String> {
    let fields: Vec<&str> = line.trim_end_matches('\r').split('\t').collect();
    let [sequence, label] = fields[..] else {
        return Err(format!("must have two columns, a sequence and a label (got {})", fields.len()));
    };
    let labels = match goal {
        Goal::Next => vec![label.trim().to_owned()],
        Goal::EveryPosition => label.split_whitespace().map(str::to_owned).collect(),
    };
    Ok((Sequence::Text(sequence.into()), labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Switches = Switches { goal: Goal::Next, attention: Visibility::Causal, padded: false };

    fn of(name: &str, text: &str, switches: Switches) -> Result<Labelled> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        read(&path, switches, &TokenizerChoice::WordPunct)
    }

    #[test]
    fn records_of_both_formats_become_samples() {
        let ids = "{\"sequence\": [7, 3], \"label\": 10}\n\n{\"sequence\": [3], \"label\": 9}\n";
        let found = of("a.jsonl", ids, NEXT).unwrap();
        assert_eq!(found.labels, Labels::Names(vec!["9".into(), "10".into()]), "by value, not by spelling");
        assert_eq!((found.samples.len(), found.vocabulary.len(), found.tokenizer.as_str()), (2, 2, "ids"));
        assert_eq!(found.samples.task().n_ctx, 2);
        let text = of("a.tsv", "to be or not\tHamlet\r\nto be\tNobody\n", NEXT).unwrap();
        assert_eq!((text.vocabulary.len(), text.samples.task().n_ctx), (4, 4));
        assert_eq!(text.labels, Labels::Names(vec!["Hamlet".into(), "Nobody".into()]));
        let each = Switches { goal: Goal::EveryPosition, ..NEXT };
        assert_eq!(of("a.tsv", "to be\tV C\n", each).unwrap().samples.len(), 2);
        let json = of("a.jsonl", "{\"sequence\": \"to be\", \"label\": [\"V\", 3]}", each).unwrap();
        assert_eq!(json.labels, Labels::Names(vec!["3".into(), "V".into()]));
    }

    #[test]
    fn errors_name_their_line() {
        for (name, text, says) in [
            ("a.jsonl", "", "nothing to memorize"),
            ("a.csv", "x,y", ".jsonl or .tsv"),
            ("a.jsonl", "{\"sequence\": [1], \"label\": 1}\n{\"label\": 2}", "line 2: no field \"sequence\""),
            ("a.jsonl", "{\"sequence\": [1], \"label\": 1.5}", "1.5 is not a label"),
            ("a.jsonl", "{\"sequence\": [-1], \"label\": 1}", "-1 is not a token id"),
            ("a.jsonl", "{\"sequence\": 3, \"label\": 1}", "the sequence is 3"),
            ("a.jsonl", "{\"sequence\": [], \"label\": 1}", "line 1: no token"),
            ("a.jsonl", "{\"sequence\": [1], \"label\": [1, 2]}", "2 labels for 1 token"),
            (
                "a.jsonl",
                "{\"sequence\": [1], \"label\": 1}\n{\"sequence\": \"a\", \"label\": 1}",
                "ids and text",
            ),
            (
                "a.jsonl",
                "{\"sequence\": [1], \"label\": 1}\n{\"sequence\": [1], \"label\": 2}",
                "line 2: a conflict",
            ),
            ("a.jsonl", "[1]", "no field"),
            ("a.jsonl", "{", "not JSON"),
            ("a.tsv", "only text", "two columns, a sequence and a label (got 1)"),
            ("a.tsv", "a\tb\tc", "(got 3)"),
        ] {
            let message = of(name, text, NEXT).unwrap_err().to_string();
            assert!(message.contains(says), "{text}: {message}");
        }
    }
}
