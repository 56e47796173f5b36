//! Plain text, streamed.

use super::input::{Input, fill_to};
use super::part_of_file;
use super::split::{rest_of_document, safe_cut, split};
use super::{Content, Reader, SLAB_BYTES, Slab, slab_bytes};
use crate::Result;
use crate::corpus::options::{DocumentRule, Options};
use crate::corpus::tokenizer::TokenizerChoice;
use std::io::Read;
use std::path::{Path, PathBuf};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads text and splits it by a document rule.
pub(super) struct TextReader {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    rule: DocumentRule,
    /// Bytes read but not yet passed on: usually less than a document.
    rest: Vec<u8>,
    offset: u64,
    line: u64,
    /// The size of the next slab, and of those after it.
    next_bytes: usize,
    slab_bytes: usize,
    ended: bool,
    /// Whether the reader is in the middle of a document too large for a slab.
    inside: bool,
}

impl TextReader {
    pub(super) fn new(path: &Path, options: &Options, input: Input) -> Result<Self> {
        let rule = options.documents.clone().unwrap_or(DocumentRule::Line);
        let (mut input, mut rest, mut offset) = (input.bytes, Vec::new(), 0);
        let ended = fill_to(&mut *input, &mut rest, BOM.len(), path)?;
        if rest.starts_with(BOM) {
            rest.clear();
            offset = BOM.len() as u64;
        }
        let mut line = 1;
        if let Some(split) = options.split {
            let by_character = options.tokenizer != TokenizerChoice::Byte;
            let (range, lines) = part_of_file::of_text(split, &mut input, &mut rest, by_character, path)?;
            offset += range.start as u64;
            line += lines;
            input = Box::new(std::io::empty());
        }
        let slab_bytes = slab_bytes(options);
        // What a list of words is must not depend on how much memory there is.
        let next_bytes = if options.letters_of_words { SLAB_BYTES } else { slab_bytes };
        let path = path.to_path_buf();
        Ok(Self { path, input, rule, rest, offset, line, next_bytes, slab_bytes, ended, inside: false })
    }
}

impl Reader for TextReader {
    fn fill(&mut self, slab: &mut Slab) -> Result<bool> {
        let bytes = &mut slab.bytes;
        bytes.append(&mut self.rest);
        if !self.ended {
            let size = std::mem::replace(&mut self.next_bytes, self.slab_bytes);
            let target = size.max(bytes.len() + size / 2);
            self.ended = fill_to(&mut *self.input, bytes, target, &self.path)?;
        }
        if bytes.is_empty() && !self.inside {
            return Ok(false);
        }
        let consumed;
        if self.inside {
            let found = rest_of_document(&self.rule, bytes, self.ended);
            let last = found.is_some();
            let (document, end) = found.unwrap_or_else(|| {
                let cut = safe_cut(&self.rule, bytes);
                (0..cut, cut)
            });
            slab.documents.push(document);
            slab.content = Content::Part { first: false, last };
            self.inside = !last;
            consumed = end;
        } else {
            let end = split(&self.rule, bytes, self.ended, &mut slab.documents);
            if end > 0 {
                slab.content = Content::Text;
                consumed = end;
            } else {
                consumed = safe_cut(&self.rule, bytes);
                slab.documents.push(0..consumed);
                slab.content = Content::Part { first: true, last: false };
                self.inside = true;
            }
        }
        slab.crlf =
            self.rule == DocumentRule::BlankLine && memchr::memchr(b'\r', &bytes[..consumed]).is_some();
        self.rest.extend_from_slice(&bytes[consumed..]);
        bytes.truncate(consumed);
        slab.path.clone_from(&self.path);
        (slab.offset, slab.first_line) = (self.offset, self.line);
        self.offset += consumed as u64;
        self.line += memchr::memchr_iter(b'\n', bytes).count() as u64;
        Ok(true)
    }
}
