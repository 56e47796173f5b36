//! From the documents of a slab to the tokens of a chunk.

use super::builtin::Stories;
use super::chunk::{Chunk, Refusal};
use super::options::{DocumentRule, Options, PartOf};
use super::read::{Content, Field, Slab};
use super::tokenizer::Tokenizer;
use super::vocabulary::Alphabet;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;

/// The documents of a slab that belong to the shard that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    shard: PartOf,
    /// The number of documents of the input before the slab.
    before: u64,
}

impl Own {
    pub(super) fn new(options: &Options, before: u64, slab: &Slab) -> Self {
        let is_text = matches!(slab.content, Content::Text | Content::Part { .. });
        // A text that is cut into blocks is one document here; its chunk deals out the blocks.
        let shard = match options.documents {
            Some(DocumentRule::Chunk(_)) if is_text => PartOf::ALL,
            _ => options.shard,
        };
        Self { shard, before }
    }

    /// Whether document `i` of the slab is among them.
    pub(super) fn has(self, i: usize) -> bool {
        self.shard.is_dealt(self.before + i as u64)
    }
}

/// Takes one part of a document of ids.
pub(super) fn id_part(chunk: &mut Chunk, slab: &Slab, first: bool, last: bool) {
    if first {
        chunk.begin();
    }
    chunk.id_part(slab.ids.iter().copied());
    if last {
        chunk.finish();
    }
}

/// Takes one part of a document that is longer than a slab; all its parts go to the same chunk.
pub(super) fn part(
    options: &Options,
    tokenizer: &Tokenizer,
    chunk: &mut Chunk,
    slab: &Slab,
    first: bool,
    last: bool,
) -> Result<()> {
    if first {
        chunk.begin();
    }
    let range = slab.documents.first().cloned().unwrap_or(0..0);
    piece(options, tokenizer, chunk, slab, range, last)?;
    if last {
        chunk.finish();
    }
    Ok(())
}

/// Takes a piece of a document.
pub(super) fn piece(
    options: &Options,
    tokenizer: &Tokenizer,
    chunk: &mut Chunk,
    slab: &Slab,
    range: Range<usize>,
    last: bool,
) -> Result<()> {
    let text = lf(&slab.bytes[range.clone()], slab.crlf);
    let taken = match chunk.part(tokenizer, &text, last) {
        Err(Refusal::InvalidUtf8(_)) if options.lossy => {
            chunk.part(tokenizer, String::from_utf8_lossy(&text).as_bytes(), last)
        }
        taken => taken,
    };
    taken.map_err(|refusal| locate(slab, 0, range, refusal))
}

/// Takes documents of a slab into a chunk.
pub(super) fn documents(
    options: &Options,
    tokenizer: &Tokenizer,
    stories: &Stories,
    chunk: &mut Chunk,
    slab: &Slab,
    range: Range<usize>,
    own: Own,
) -> Result<()> {
    let lines = matches!(options.documents, None | Some(DocumentRule::Line | DocumentRule::BlankLine));
    if slab.content == Content::Text
        && lines
        && !slab.crlf
        && own.shard.is_all()
        && let [first, .., last] = &slab.documents[range.clone()]
        && let Ok(text) = std::str::from_utf8(&slab.bytes[first.start..last.end])
        && chunk.texts(tokenizer, text, &slab.documents[range.clone()], first.start)
    {
        return Ok(());
    }
    range.filter(|&i| own.has(i)).try_for_each(|i| document(options, tokenizer, stories, chunk, slab, i))
}

/// Takes document `i` of a slab into a chunk.
pub(super) fn document(
    options: &Options,
    tokenizer: &Tokenizer,
    stories: &Stories,
    chunk: &mut Chunk,
    slab: &Slab,
    i: usize,
) -> Result<()> {
    let range = slab.documents[i].clone();
    let text = |chunk: &mut Chunk, text: &[u8]| match chunk.text(tokenizer, text) {
        Err(Refusal::InvalidUtf8(_)) if options.lossy => {
            chunk.text(tokenizer, String::from_utf8_lossy(text).as_bytes())
        }
        taken => taken,
    };
    let taken = match slab.content {
        Content::Ids => {
            chunk.ids(slab.ids[range.clone()].iter().copied(), slab.cut.get(i).copied().unwrap_or(0));
            Ok(())
        }
        Content::Stories => {
            let mut story = String::new();
            stories.write(slab.first_line - 1 + i as u64, &mut story);
            text(chunk, story.as_bytes())
        }
        Content::Json => record(options, tokenizer, chunk, &slab.bytes[range.clone()]),
        _ => text(chunk, &lf(&slab.bytes[range.clone()], slab.crlf)),
    };
    taken.map_err(|refusal| locate(slab, i, range, refusal))
}

/// Takes a JSON record.
fn record(options: &Options, tokenizer: &Tokenizer, chunk: &mut Chunk, line: &[u8]) -> Result<(), Refusal> {
    let line = match std::str::from_utf8(line) {
        Ok(_) => Cow::Borrowed(line),
        Err(_) if options.lossy => Cow::Owned(String::from_utf8_lossy(line).into_owned().into_bytes()),
        Err(e) => return Err(Refusal::InvalidUtf8(e.valid_up_to())),
    };
    let holds_ids = chunk.lexicon.alphabet() == Alphabet::Id && !encodes_text(tokenizer);
    match Field::of(&line, &options.field).map_err(Refusal::Message)? {
        Field::Null => chunk.ids([], 0),
        Field::Text(text) if !holds_ids => chunk.text(tokenizer, text.as_bytes())?,
        Field::Ids(ids) if chunk.lexicon.alphabet() == Alphabet::Id => chunk.ids(ids, 0),
        _ => {
            let (found, before) = if holds_ids { ("text", "token ids") } else { ("token ids", "text") };
            return Err(Refusal::Message(format!(
                "{:?} contains {found} here but {before} in earlier records",
                options.field
            )));
        }
    }
    Ok(())
}

/// Whether the tokenizer turns text into given ids.
pub(super) fn encodes_text(tokenizer: &Tokenizer) -> bool {
    match tokenizer {
        #[cfg(feature = "huggingface")]
        Tokenizer::HuggingFace(_) => true,
        _ => false,
    }
}

/// Windows line endings as LF.
pub(super) fn lf(text: &[u8], crlf: bool) -> Cow<'_, [u8]> {
    if !crlf || memchr::memchr(b'\r', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    for (i, &b) in text.iter().enumerate() {
        if b != b'\r' || text.get(i + 1) != Some(&b'\n') {
            out.push(b);
        }
    }
    Cow::Owned(out)
}

/// The error for a refused document, with its location.
pub(super) fn locate(slab: &Slab, i: usize, range: Range<usize>, refusal: Refusal) -> Error {
    let path = slab.path.clone();
    match refusal {
        Refusal::InvalidUtf8(valid) => {
            let (at, offset) = match slab.content {
                Content::Records => (range.start, valid as u64),
                _ => (range.start + valid, slab.offset + (range.start + valid) as u64),
            };
            Error::InvalidUtf8 { path, line: slab.line_of(i, at), offset }
        }
        Refusal::Message(message) => {
            Error::Format { path, line: Some(slab.line_of(i, range.start)), message }
        }
    }
}
