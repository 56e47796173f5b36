//! The documents of a corpus as they are in its files: text, or token ids, of any length.
//!
//! What counts contexts never needs a document whole. A language model of somebody else's does: it has its own tokenizer, and its
//! predictions are shown in the text itself.

use super::builtin::Stories;
use super::chunk::Refusal;
use super::options::{DocumentRule, Options};
use super::read::input::Input;
use super::read::{self, Content, Field, Slab};
use super::slab_documents::{Own, lf, locate};
use super::{CorpusSpec, Source, Window};
use crate::observe::{Detail, Observer, Progress, Stage};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A document as its file holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeDocument {
    /// The file.
    pub path: PathBuf,
    /// The line or record at which it begins, from 1.
    pub line: u64,
    /// What it holds.
    pub body: DocumentBody,
}

/// What a document holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentBody {
    /// Text, in UTF-8.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
}

impl DocumentBody {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Ids(ids) => ids.is_empty(),
        }
    }
}

/// Reads the documents of a corpus. Empty documents are left out, as everywhere.
///
/// Settings about contexts and windows do not matter here. Text that is to be cut into blocks of tokens (`documents = chunk:L`) comes
/// as one document per file; blocks of ids come as they are.
///
/// ```
/// use byrote::corpus::{CorpusSpec, DocumentBody, whole_documents};
/// use byrote::observe::Silent;
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("two.txt");
/// std::fs::write(&path, "one line\n\nand another\n")?;
/// let found = whole_documents(&CorpusSpec::files([&path]), &Silent)?;
/// assert_eq!((found.len(), found[1].line), (2, 3));
/// assert_eq!(found[1].body, DocumentBody::Text("and another".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn whole_documents(spec: &CorpusSpec, observer: &dyn Observer) -> Result<Vec<WholeDocument>> {
    let (source, options) = spec.resolve()?;
    // A window that no document exceeds.
    let window =
        Window { n_ctx: super::MAX_N_CTX, exact_length: false, bos: false, eos: false, ..options.window };
    let options = Options { window, ..options };
    let mut documents = Documents { options: &options, found: Vec::new(), part: None, before: 0 };
    match source {
        Source::Files(paths) => {
            let paths = read::files::expand(&paths, options.format)?;
            let read = Arc::new(AtomicU64::new(0));
            for path in &paths {
                if documents.is_full() {
                    break;
                }
                let input = Input::open(path, None, &options, read.clone())?;
                let (_, mut reader) = read::open(path, &options, input)?;
                let mut slab = Slab::default();
                while !documents.is_full() && reader.fill(&mut slab)? {
                    documents.take(&slab)?;
                    let progress = Progress::new(Stage::Reading, read.load(Ordering::Relaxed), None);
                    observer.progress(&progress.with(Detail::Documents(documents.found.len() as u64)));
                    observer.check()?;
                    slab.clear();
                }
            }
        }
        Source::Stories { documents: n, seed } => {
            let stories = Stories::new(seed);
            for i in 0..n {
                if documents.is_full() {
                    break;
                }
                let mut text = String::new();
                stories.write(i, &mut text);
                documents.push(Path::new("built-in stories"), i + 1, DocumentBody::Text(text));
            }
        }
        Source::Random(_) | Source::Summaries(_) | Source::Memory(_) => {
            return Err(Error::setting(
                "paths",
                "text or token ids are needed: name files, or use `builtin`",
            ));
        }
    }
    Ok(documents.found)
}

/// The documents found so far.
struct Documents<'o> {
    options: &'o Options,
    found: Vec<WholeDocument>,
    /// The document whose parts are being read.
    part: Option<WholePart>,
    /// How many documents the input had before this slab.
    before: u64,
}

/// The beginning of a document.
struct WholePart {
    line: u64,
    bytes: Vec<u8>,
    ids: Vec<u32>,
}

impl Documents<'_> {
    fn is_full(&self) -> bool {
        self.options.limit.is_some_and(|limit| self.found.len() as u64 >= limit)
    }

    fn push(&mut self, path: &Path, line: u64, body: DocumentBody) {
        if !body.is_empty() && !self.is_full() {
            self.found.push(WholeDocument { path: path.to_path_buf(), line, body });
        }
    }

    fn take(&mut self, slab: &Slab) -> Result<()> {
        match slab.content {
            Content::Part { first, last } | Content::IdPart { first, last } => {
                if first {
                    let line = slab.line_of(0, slab.documents.first().map_or(0, |range| range.start));
                    self.part = Some(WholePart { line, bytes: Vec::new(), ids: Vec::new() });
                }
                let is_ids = matches!(slab.content, Content::IdPart { .. });
                if let Some(part) = &mut self.part {
                    if is_ids {
                        part.ids.extend_from_slice(&slab.ids);
                    } else if let Some(range) = slab.documents.first() {
                        part.bytes.extend_from_slice(&slab.bytes[range.clone()]);
                    }
                }
                if last && let Some(part) = self.part.take() {
                    let own = Own::new(self.options, self.before, slab);
                    self.before += 1;
                    if own.has(0) {
                        let body = match is_ids {
                            true => DocumentBody::Ids(part.ids),
                            false => {
                                let text = lf(&part.bytes, slab.crlf);
                                DocumentBody::Text(self.text(&text).map_err(|valid| Error::InvalidUtf8 {
                                    path: slab.path.clone(),
                                    line: part.line
                                        + memchr::memchr_iter(b'\n', &text[..valid]).count() as u64,
                                    offset: valid as u64,
                                })?)
                            }
                        };
                        self.push(&slab.path, part.line, body);
                    }
                }
            }
            _ => {
                let own = Own::new(self.options, self.before, slab);
                self.before += slab.documents.len() as u64;
                for i in (0..slab.documents.len()).filter(|&i| own.has(i)) {
                    let range = slab.documents[i].clone();
                    let line = slab.line_of(i, if slab.content == Content::Ids { 0 } else { range.start });
                    let body = self.body(slab, i).map_err(|refusal| locate(slab, i, range, refusal))?;
                    self.push(&slab.path, line, body);
                }
            }
        }
        Ok(())
    }

    /// What document `i` of a slab holds.
    fn body(&self, slab: &Slab, i: usize) -> Result<DocumentBody, Refusal> {
        let range = slab.documents[i].clone();
        let text = |bytes: &[u8]| self.text(bytes).map_err(Refusal::InvalidUtf8);
        Ok(match slab.content {
            Content::Ids => DocumentBody::Ids(slab.ids[range].to_vec()),
            Content::Json => {
                let record = text(&slab.bytes[range])?;
                match Field::of(record.as_bytes(), &self.options.field).map_err(Refusal::Message)? {
                    Field::Null => DocumentBody::Ids(Vec::new()),
                    Field::Text(text) => DocumentBody::Text(text.into_owned()),
                    Field::Ids(ids) => DocumentBody::Ids(ids),
                }
            }
            _ => DocumentBody::Text(text(&lf(&slab.bytes[range], slab.crlf))?),
        })
    }

    /// Bytes as text, or how many of them are valid.
    fn text(&self, bytes: &[u8]) -> Result<String, usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) if self.options.lossy => Ok(String::from_utf8_lossy(bytes).into_owned()),
            Err(e) => Err(e.valid_up_to()),
        }
    }
}

/// The block length, if text is to be cut into blocks of tokens.
pub(crate) fn block_length(spec: &CorpusSpec) -> Option<usize> {
    match spec.documents {
        Some(DocumentRule::Chunk(length)) => Some(length),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;

    fn texts(spec: &CorpusSpec) -> Vec<String> {
        let found = whole_documents(spec, &Silent).unwrap();
        let text = |document: WholeDocument| match document.body {
            DocumentBody::Text(text) => text,
            DocumentBody::Ids(ids) => format!("{ids:?}"),
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn a_document_larger_than_a_slab_comes_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long.txt");
        let long = "çà et là ".repeat(1 << 20);
        std::fs::write(&path, format!("short\n{long}\nlast")).unwrap();
        assert_eq!(texts(&CorpusSpec::files([&path])), ["short", long.as_str(), "last"]);
        let whole = std::fs::read_to_string(&path).unwrap();
        assert_eq!(texts(&CorpusSpec::files([&path]).documents(DocumentRule::File)), [whole]);
    }

    #[test]
    fn records_hold_text_or_ids_and_a_limit_counts_documents() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records.jsonl");
        std::fs::write(
            &path,
            "{\"text\": \"a\\nb\"}\n{\"text\": [3, 4]}\n{\"text\": null}\n{\"text\": \"c\"}\n",
        )
        .unwrap();
        assert_eq!(texts(&CorpusSpec::files([&path])), ["a\nb", "[3, 4]", "c"]);
        assert_eq!(texts(&CorpusSpec::files([&path]).limit(1)), ["a\nb"]);
        assert_eq!(texts(&CorpusSpec::default().builtin(3)).len(), 3);
    }

    #[test]
    fn invalid_text_is_refused_with_its_line_or_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.txt");
        std::fs::write(&path, b"good\nb\xffd\n").unwrap();
        let error = whole_documents(&CorpusSpec::files([&path]), &Silent).unwrap_err();
        assert!(matches!(error, Error::InvalidUtf8 { line: 2, offset: 6, .. }), "{error}");
        assert_eq!(texts(&CorpusSpec::files([&path]).lossy(true)), ["good", "b\u{fffd}d"]);
    }
}
