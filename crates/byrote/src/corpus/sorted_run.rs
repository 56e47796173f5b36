//! A sorted run of documents in a file: spilled to disk, or saved as a shard summary.
//!
//! A run holds the settings, the vocabulary of its documents and the distinct documents in order, each written as its
//! difference from the one before it:
//!
//! ```text
//! "byrote\0" version:u8                                 8 bytes, then a zstd frame with a checksum (saved files only)
//! header                                               length, then JSON: settings, documents not kept
//! vocabulary                                           size, then per token: kind, marks, token, name
//! rows                                                 per document: suffix length, common prefix, suffix, count
//! 0, rows, documents                                   the end, and the expected numbers of both
//! ```
//!
//! Numbers are LEB128. Ids are canonical within the run; a vocabulary's map into a larger one is increasing, so runs
//! merge without being sorted again. A reader checks everything it relies on: a damaged file is an error, never a wrong
//! number.

use super::chunk::Dropped;
use super::count::sort::RowVisitor;
use super::options::PartOf;
use super::parts::{class_of, deciding_token};
use super::vocabulary::{Alphabet, Key, Vocabulary};
use super::window::Window;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"byrote\0\x02";

/// The settings and counts at the head of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) window: Window,
    /// The tokenizer by name, with the fingerprint of its file if it has one.
    pub(crate) tokenizer: String,
    pub(crate) alphabet: Alphabet,
    pub(crate) dropped: Dropped,
    /// The number of tokens of the documents that lie beyond the window.
    pub(crate) tokens_left_out: u64,
}

impl Header {
    /// Adds a header with the same settings; the error names the setting that differs.
    pub(crate) fn join(&mut self, other: &Header) -> Result<(), String> {
        let differ = |name: &str, a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug| {
            Err(format!("{name} is {a:?} in one and {b:?} in the other"))
        };
        let (a, b) = (self.window, other.window);
        if self.tokenizer != other.tokenizer {
            return differ("`tokenizer`", &self.tokenizer, &other.tokenizer);
        } else if a.n_ctx != b.n_ctx {
            return differ("`n_ctx`", &a.n_ctx, &b.n_ctx);
        } else if a.exact_length != b.exact_length {
            return differ("`exact_length`", &a.exact_length, &b.exact_length);
        } else if a.bos != b.bos {
            return differ("`bos`", &a.bos, &b.bos);
        } else if a.eos != b.eos {
            return differ("`eos`", &a.eos, &b.eos);
        } else if a.contexts != b.contexts {
            return differ("`contexts`", &a.contexts, &b.contexts);
        } else if self.alphabet != other.alphabet {
            return differ("the kind of token", &self.alphabet, &other.alphabet);
        }
        for (sum, more) in [
            (&mut self.dropped.empty, other.dropped.empty),
            (&mut self.dropped.short, other.dropped.short),
            (&mut self.tokens_left_out, other.tokens_left_out),
        ] {
            *sum = sum.checked_add(more).ok_or("their counts exceed 2^64")?;
        }
        Ok(())
    }
}

/// Writes a run as a visitor of rows. The first error is kept and reported by [`RunWriter::finish`].
pub(crate) struct RunWriter<W: Write> {
    out: W,
    buffer: Vec<u8>,
    rows: u64,
    documents: u64,
    error: Option<io::Error>,
}

const FLUSH: usize = 1 << 16;

impl<W: Write> RunWriter<W> {
    /// Begins a spilled run.
    pub(crate) fn new(out: W, header: &Header, vocabulary: &Vocabulary) -> io::Result<Self> {
        let mut writer = Self { out, buffer: Vec::new(), rows: 0, documents: 0, error: None };
        let json = serde_json::to_vec(header)?;
        put(&mut writer.buffer, json.len() as u64);
        writer.buffer.extend_from_slice(&json);
        put(&mut writer.buffer, vocabulary.len() as u64);
        writer.buffer.push(u8::from(vocabulary.has_names()));
        for (id, key) in (0..).zip(vocabulary.keys()) {
            let marks = vocabulary.marks()[id as usize];
            match key {
                Key::Bos => writer.buffer.extend_from_slice(&[0, marks]),
                Key::Eos => writer.buffer.extend_from_slice(&[1, marks]),
                Key::Symbol(s) => {
                    writer.buffer.extend_from_slice(&[2, marks]);
                    put(&mut writer.buffer, u64::from(s));
                    if let Some(name) = vocabulary.name(id) {
                        put_bytes(&mut writer.buffer, name);
                    }
                }
                Key::Word(w) => {
                    writer.buffer.extend_from_slice(&[3, marks]);
                    put_bytes(&mut writer.buffer, w);
                }
            }
            if writer.buffer.len() > FLUSH {
                writer.flush();
            }
        }
        Ok(writer)
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// Ends the run and returns the writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        for n in [0, self.rows, self.documents] {
            put(&mut self.buffer, n);
        }
        self.flush();
        match self.error {
            Some(e) => Err(e),
            None => Ok(self.out),
        }
    }
}

impl<W: Write> RowVisitor for RunWriter<W> {
    fn row(&mut self, lcp: usize, len: usize, count: u64, token: impl Fn(usize) -> u32) {
        put(&mut self.buffer, (len - lcp) as u64);
        put(&mut self.buffer, lcp as u64);
        for p in lcp..len {
            put(&mut self.buffer, u64::from(token(p)));
        }
        put(&mut self.buffer, count);
        self.rows += 1;
        self.documents += count;
        if self.buffer.len() > FLUSH {
            self.flush();
        }
    }
}

/// The container of a saved summary: the magic number and a checked zstd frame.
pub(crate) fn save_shell<W: Write>(mut out: W) -> io::Result<zstd::Encoder<'static, W>> {
    out.write_all(MAGIC)?;
    let mut frame = zstd::Encoder::new(out, 3)?;
    frame.include_checksum(true)?;
    Ok(frame)
}

/// A run whose bytes come from anywhere.
pub(crate) type AnyRun = RunReader<Box<dyn Read + Send>>;

/// Opens a saved summary.
pub(crate) fn open_saved(path: &Path) -> Result<AnyRun> {
    read_saved(Box::new(crate::input::open(path)?), path)
}

/// Opens a saved summary given as a stream; `path` is its name.
pub(crate) fn read_saved(mut file: Box<dyn Read + Send>, path: &Path) -> Result<AnyRun> {
    let mut magic = [0; 8];
    let wrong = |message: String| Error::format(path, message);
    let read = file.read_exact(&mut magic);
    if read.is_err() || magic[..7] != MAGIC[..7] {
        return Err(wrong("not a shard summary written by byrote".into()));
    }
    if magic[7] != MAGIC[7] {
        return Err(wrong(format!(
            "a shard summary of format {}; this version reads format {}: count the shard again",
            magic[7], MAGIC[7]
        )));
    }
    let frame = zstd::Decoder::new(file).map_err(|e| Error::io(path, "read", e))?;
    RunReader::new(Box::new(frame), path.to_path_buf())
}

/// A token of a run's vocabulary, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredToken {
    /// 0 start, 1 end, 2 symbol, 3 word: the order of [`Key`].
    kind: u8,
    symbol: u32,
    word: Vec<u8>,
    pub(crate) marks: u8,
    pub(crate) name: Option<Vec<u8>>,
}

impl StoredToken {
    pub(crate) fn key(&self) -> Key<'_> {
        match self.kind {
            0 => Key::Bos,
            1 => Key::Eos,
            2 => Key::Symbol(self.symbol),
            _ => Key::Word(&self.word),
        }
    }
}

/// Reads a run: first the tokens of its vocabulary, one by one, then its documents. Neither is ever entirely in memory.
pub(crate) struct RunReader<R> {
    pub(crate) header: Header,
    /// The number of tokens in its vocabulary.
    pub(crate) d_vocab: usize,
    tokens_left: u64,
    with_names: bool,
    input: Varints<R>,
    /// The current document.
    document: Vec<u32>,
    rows: u64,
    documents: u64,
    /// The documents that are read, and the class of every token that was read, if not all are.
    only: Option<(PartOf, Vec<u32>)>,
}

impl<R: Read> RunReader<R> {
    pub(crate) fn new(input: R, path: PathBuf) -> Result<Self> {
        let mut input = Varints { input, path, buffer: vec![0; FLUSH].into(), at: 0, end: 0 };
        let n = input.number()?;
        let json = input.bytes(n)?;
        let header: Header = serde_json::from_slice(&json).map_err(|e| input.damaged(&e.to_string()))?;
        header.window.check().map_err(|e| input.damaged(&e.to_string()))?;
        let tokens_left = input.number()?;
        let with_names = input.byte()? != 0;
        let d_vocab = usize::try_from(tokens_left).ok().filter(|&n| n < u32::MAX as usize);
        let d_vocab = d_vocab.ok_or_else(|| input.damaged("an impossible vocabulary"))?;
        Ok(Self {
            header,
            d_vocab,
            tokens_left,
            with_names,
            input,
            document: Vec::new(),
            rows: 0,
            documents: 0,
            only: None,
        })
    }

    /// Reads the documents of one part only; see [`super::parts`]. No token may have been read.
    pub(crate) fn only(mut self, part: PartOf) -> Self {
        self.only = (!part.is_all()).then_some((part, Vec::new()));
        self
    }

    /// Returns the next token of the vocabulary; `None` after the last.
    pub(crate) fn next_token(&mut self) -> Result<Option<StoredToken>> {
        if self.tokens_left == 0 {
            return Ok(None);
        }
        self.tokens_left -= 1;
        let (kind, marks) = (self.input.byte()?, self.input.byte()?);
        let mut token = StoredToken { kind, symbol: 0, word: Vec::new(), marks, name: None };
        match kind {
            0 | 1 => {}
            2 => {
                token.symbol = self.input.number_u32()?;
                if self.with_names {
                    let n = self.input.number()?;
                    token.name = Some(self.input.bytes(n)?);
                }
            }
            3 => {
                let n = self.input.number()?;
                token.word = self.input.bytes(n)?;
            }
            _ => return Err(self.input.damaged("an unknown kind of token")),
        }
        let fits = matches!((token.kind, self.header.alphabet), (0 | 1, _))
            || (kind == 3) == (self.header.alphabet == Alphabet::Word);
        if !fits {
            return Err(self.input.damaged("a token of the wrong kind"));
        }
        if let Some((part, classes)) = &mut self.only {
            classes.push(class_of(token.key(), *part));
        }
        Ok(Some(token))
    }

    pub(crate) fn damaged(&self, what: &str) -> Error {
        self.input.damaged(what)
    }

    /// Moves to the next document that is wanted and returns its multiplicity; `None` at the end. [`RunReader::document`] returns
    /// the document. All tokens must have been read.
    pub(crate) fn advance(&mut self) -> Result<Option<u64>> {
        loop {
            let count = self.advance_any()?;
            let is_wanted = match &self.only {
                Some((part, classes)) if count.is_some() => {
                    let decides = deciding_token(&self.document, self.header.window.bos);
                    decides.is_some_and(|token| u64::from(classes[token as usize]) + 1 == part.number())
                }
                _ => true,
            };
            if is_wanted {
                return Ok(count);
            }
        }
    }

    fn advance_any(&mut self) -> Result<Option<u64>> {
        let suffix = self.input.number()?;
        if suffix == 0 {
            if self.input.number()? != self.rows || self.input.number()? != self.documents {
                return Err(self.input.damaged("fewer documents than its header declares"));
            }
            return if self.input.is_at_end()? {
                Ok(None)
            } else {
                Err(self.input.damaged("data after its end"))
            };
        }
        let lcp = self.input.number()?;
        if lcp > self.document.len() as u64 || suffix > self.header.window.kept() as u64 - lcp {
            return Err(self.input.damaged("a document of impossible length"));
        }
        let next_before = self.document.get(lcp as usize).copied();
        self.document.truncate(lcp as usize);
        for i in 0..suffix {
            let token = self.input.number_u32()?;
            if token as usize >= self.d_vocab || (i == 0 && next_before.is_some_and(|b| token <= b)) {
                return Err(self.input.damaged("documents out of order, or a token outside the vocabulary"));
            }
            self.document.push(token);
        }
        let count = self.input.number()?;
        self.rows += 1;
        self.documents = match self.documents.checked_add(count) {
            Some(sum) if count > 0 => sum,
            _ => return Err(self.input.damaged("an impossible count")),
        };
        Ok(Some(count))
    }

    /// The current document, in the ids of this run's vocabulary.
    pub(crate) fn document(&self) -> &[u32] {
        &self.document
    }

    pub(crate) fn path(&self) -> &Path {
        &self.input.path
    }
}

impl<R: Read + Send + 'static> RunReader<R> {
    /// The same reader, of a type that all readers share.
    pub(crate) fn boxed(self) -> RunReader<Box<dyn Read + Send>> {
        let Varints { input, path, buffer, at, end } = self.input;
        RunReader {
            header: self.header,
            d_vocab: self.d_vocab,
            tokens_left: self.tokens_left,
            with_names: self.with_names,
            input: Varints { input: Box::new(input), path, buffer, at, end },
            document: self.document,
            rows: self.rows,
            documents: self.documents,
            only: self.only,
        }
    }
}

/// A buffered reader of LEB128 numbers.
struct Varints<R> {
    input: R,
    path: PathBuf,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
}

impl<R: Read> Varints<R> {
    fn damaged(&self, what: &str) -> Error {
        Error::format(&self.path, format!("a damaged summary: {what}"))
    }

    fn refill(&mut self) -> Result<bool> {
        self.at = 0;
        self.end = loop {
            match self.input.read(&mut self.buffer) {
                Ok(n) => break n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.damaged(&e.to_string())),
            }
        };
        Ok(self.end > 0)
    }

    fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.at == self.end && !self.refill()?)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8> {
        if self.at == self.end && !self.refill()? {
            return Err(self.damaged("it ends too early"));
        }
        let b = self.buffer[self.at];
        self.at += 1;
        Ok(b)
    }

    #[inline]
    fn number(&mut self) -> Result<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            n |= u64::from(b & 127) << shift;
            if b < 128 {
                return if shift == 63 && b > 1 {
                    Err(self.damaged("a number beyond 64 bits"))
                } else {
                    Ok(n)
                };
            }
        }
        Err(self.damaged("a number beyond 64 bits"))
    }

    fn number_u32(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| self.damaged("a number beyond 32 bits"))
    }

    /// Reads `n` bytes, growing as they arrive, so that a false length costs no memory.
    fn bytes(&mut self, n: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for _ in 0..n {
            bytes.push(self.byte()?);
        }
        Ok(bytes)
    }
}

#[inline]
fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 128 {
        out.push(n as u8 | 128);
        n >>= 7;
    }
    out.push(n as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Vec<u8> {
        let mut vocabulary = Vocabulary::new(Alphabet::Word);
        for w in ["a", "b", "c"] {
            vocabulary.push(Key::Word(w.as_bytes()), 3);
        }
        let header = Header {
            window: Window { n_ctx: 3, ..Window::default() },
            tokenizer: "wordpunct".into(),
            alphabet: Alphabet::Word,
            dropped: Dropped::default(),
            tokens_left_out: 0,
        };
        let mut writer = RunWriter::new(Vec::new(), &header, &vocabulary).unwrap();
        let documents: [&[u32]; 3] = [&[0, 1, 0, 1], &[0, 1, 0, 2], &[0, 1, 1]];
        for (lcp, d) in [0, 3, 2].into_iter().zip(documents) {
            writer.row(lcp, d.len(), 300, |p| d[p]);
        }
        writer.finish().unwrap()
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<(Vec<u32>, u64)>> {
        let mut reader = RunReader::new(bytes, "memory".into())?;
        let mut before: Option<StoredToken> = None;
        while let Some(token) = reader.next_token()? {
            if before.is_some_and(|b| b.key() >= token.key()) {
                return Err(reader.damaged("out of order"));
            }
            before = Some(token);
        }
        let mut out = Vec::new();
        while let Some(count) = reader.advance()? {
            out.push((reader.document().to_vec(), count));
        }
        Ok(out)
    }

    #[test]
    fn what_is_written_is_read() {
        let rows = read_all(&example()).unwrap();
        assert_eq!(rows, [(vec![0, 1, 0, 1], 300), (vec![0, 1, 0, 2], 300), (vec![0, 1, 1], 300)]);
    }

    #[test]
    fn a_run_cut_short_anywhere_is_refused() {
        let bytes = example();
        for n in 0..bytes.len() {
            assert!(read_all(&bytes[..n]).is_err(), "cut to {n} bytes");
        }
        assert!(read_all(&[bytes, vec![0]].concat()).is_err(), "with something after its end");
    }

    proptest! {
        #[test]
        fn a_damaged_run_is_refused_or_read_in_order(at in 0usize..200, to: u8) {
            let mut bytes = example();
            let at = at % bytes.len();
            bytes[at] = to;
            if let Ok(rows) = read_all(&bytes) {
                prop_assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
            }
        }
    }
}
