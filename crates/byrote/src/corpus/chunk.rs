//! A growing batch of kept documents with provisional token ids.

use super::lexicon::{BOS, EOS, Lexicon, Words};
use super::options::{DocumentRule, Options, PartOf};
use super::provisional_ids::{BLOCK, ProvisionalIds};
#[cfg(feature = "huggingface")]
use super::tokenizer::MAX_DOCUMENT_BYTES;
use super::tokenizer::{Class, MAX_TOKEN_BYTES, TakeRange, Tokenizer};
use super::vocabulary::Alphabet;
use super::window::{ContextRule, Window};
use std::ops::{ControlFlow, Range};

/// Why a document was refused; the reader adds the location.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Invalid UTF-8 at this offset from the start of the given text.
    InvalidUtf8(usize),
    /// Any other reason.
    Message(String),
}

/// The number of documents that were not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Dropped {
    /// Documents without tokens.
    pub empty: u64,
    /// Documents shorter than `exact_length` requires.
    pub short: u64,
}

/// Kept documents, end to end. There is one chunk per thread, in one array: the alignment gives each its
/// own cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Chunk {
    pub(crate) lexicon: Lexicon,
    pub(crate) tokens: ProvisionalIds,
    pub(crate) ends: Vec<usize>,
    pub(crate) dropped: Dropped,
    /// Tokens of kept documents beyond the window.
    pub(crate) tokens_left_out: u64,
    window: Window,
    /// The number of tokens of a block, if text is cut into blocks.
    block: Option<usize>,
    /// Which of the blocks are kept, and the number of those seen so far.
    shard: PartOf,
    pub(crate) blocks: u64,
    /// The number of documents after which blocks are dropped.
    pub(crate) most_blocks: usize,
    /// Where the document being read starts.
    start: usize,
    /// Text of the document being read whose last token may continue.
    carry: Vec<u8>,
    /// Tokens of the document being read beyond the window, and the class of the last character counted among them.
    beyond: u64,
    before: Class,
}

impl Chunk {
    pub(crate) fn new(alphabet: Alphabet, options: &Options) -> Self {
        let block = match options.documents {
            Some(DocumentRule::Chunk(n)) => Some(n),
            _ => None,
        };
        // Prefixes are sorted in place, as they were read.
        let packs = options.window.contexts == ContextRule::Windows;
        Self {
            lexicon: Lexicon::new(alphabet),
            tokens: ProvisionalIds::new(packs, options.max_memory),
            ends: Vec::new(),
            dropped: Dropped::default(),
            tokens_left_out: 0,
            window: options.window,
            block,
            shard: options.shard,
            blocks: 0,
            most_blocks: options
                .limit
                .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            start: 0,
            carry: Vec::new(),
            beyond: 0,
            before: Class::default(),
        }
    }

    /// The number of documents kept.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Drops all but the first documents.
    pub(crate) fn truncate(&mut self, documents: usize) {
        if documents < self.ends.len() {
            self.ends.truncate(documents);
            self.tokens.truncate(self.ends.last().copied().unwrap_or(0));
            self.start = self.tokens.len();
        }
    }

    /// Whether the tokens are all those that the lexicon has numbered, without start and end tokens. Then they need not be looked
    /// at to find out which occur.
    pub(crate) fn has_all_numbered(&self) -> bool {
        self.lexicon.is_interned() && self.tokens.has_all() && !self.window.bos && !self.window.eos
    }

    /// The memory that this chunk holds and that sorting it will take, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.tokens.footprint() + self.ends.len() * (8 + 48) + self.lexicon.footprint()
    }

    /// Begins a document.
    pub(crate) fn begin(&mut self) {
        self.carry.clear();
        self.before = Class::default();
        self.begin_block();
    }

    /// Begins a piece of a document whose pieces go to several chunks, of so many bytes or ids; `carry` is text before it whose last
    /// token may continue.
    pub(crate) fn begin_piece(&mut self, size: usize, carry: Vec<u8>, bos: bool) {
        self.carry = carry;
        self.start = self.tokens.len();
        self.beyond = 0;
        // Words of fewer than four bytes with their spaces are rare.
        let tokens = if self.lexicon.alphabet() == Alphabet::Word { size / 4 } else { size };
        self.tokens.reserve(tokens + 2);
        if bos {
            self.tokens.push(BOS);
        }
    }

    /// Ends a piece as if it were a document, unless it has no tokens; returns their number, and text whose last token may
    /// continue.
    pub(crate) fn finish_piece(&mut self) -> (usize, Vec<u8>) {
        let tokens = self.tokens.len() - self.start;
        if tokens > 0 {
            self.ends.push(self.tokens.len());
        }
        (tokens, std::mem::take(&mut self.carry))
    }

    /// Puts an end token after the last document.
    pub(crate) fn push_eos(&mut self) {
        self.tokens.push(EOS);
        if let Some(end) = self.ends.last_mut() {
            *end += 1;
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.tokens.len() - self.start >= self.window.read()
    }

    /// The number of tokens of the document being read that are kept, without a start token.
    fn own_kept(&self) -> usize {
        self.tokens.len() - self.start - usize::from(self.window.bos)
    }

    /// The number of tokens of the document being read, without a start token.
    fn own(&self) -> u64 {
        self.own_kept() as u64 + self.beyond
    }

    /// Takes a token of a document that is not full.
    fn push(&mut self, id: u32) {
        match self.block {
            Some(block) => self.push_to_block(id, block as u64),
            None => self.tokens.push(id),
        }
    }

    /// Takes a token of a text that is cut into blocks.
    fn push_to_block(&mut self, id: u32, block: u64) {
        if self.own() == block {
            self.finish();
            self.begin_block();
        }
        if self.is_full() {
            self.beyond += 1;
        } else {
            self.tokens.push(id);
        }
    }

    fn begin_block(&mut self) {
        self.start = self.tokens.len();
        self.beyond = 0;
        if self.window.bos {
            self.tokens.push(BOS);
        }
    }

    /// Ends a document of text, or a block of it: keeps it, or drops it if it belongs to another shard or is beyond the limit.
    pub(crate) fn finish(&mut self) {
        if self.block.is_some() {
            let is_own = self.shard.is_dealt(self.blocks);
            // A text without tokens has no block.
            self.blocks += u64::from(self.own_kept() > 0);
            if !is_own || self.ends.len() >= self.most_blocks {
                return self.tokens.truncate(self.start);
            }
        }
        self.close();
    }

    /// Ends a document: keeps it, or drops it as empty or too short.
    fn close(&mut self) {
        if self.own_kept() == 0 {
            self.dropped.empty += 1;
            return self.tokens.truncate(self.start);
        }
        if self.window.eos && !self.is_full() {
            self.tokens.push(EOS);
        }
        // A document without a full window may still have shorter ones.
        let too_short = self.tokens.len() - self.start < self.window.kept();
        if too_short && self.window.exact_length && self.window.contexts != ContextRule::Windows {
            self.dropped.short += 1;
            return self.tokens.truncate(self.start);
        }
        self.tokens_left_out += self.beyond;
        self.ends.push(self.tokens.len());
        self.tokens.pack_many();
    }

    /// Takes a document of given ids; `cut` more followed them and were not kept by the reader.
    pub(crate) fn ids(&mut self, ids: impl IntoIterator<Item = u32>, cut: u64) {
        self.begin();
        self.id_part(ids);
        self.beyond += cut;
        self.close();
    }

    /// Takes the next ids of a document between [`Chunk::begin`] and [`Chunk::finish`].
    pub(crate) fn id_part(&mut self, ids: impl IntoIterator<Item = u32>) {
        for id in ids {
            if self.is_full() {
                self.beyond += 1;
                continue;
            }
            let id = self.lexicon.symbol(id);
            self.tokens.push(id);
        }
        self.tokens.pack_many();
    }

    /// Takes a document of text that is entirely in memory.
    pub(crate) fn text(&mut self, tokenizer: &Tokenizer, text: &[u8]) -> Result<(), Refusal> {
        self.begin();
        match self.part(tokenizer, text, true) {
            Ok(()) => self.finish(),
            Err(refusal) => {
                self.tokens.truncate(self.start);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Takes documents that lie in one text with white space between them, where the text begins at `base` of what they are
    /// ranges of; returns whether it could. Documents need not be looked at one by one.
    pub(crate) fn texts(
        &mut self,
        tokenizer: &Tokenizer,
        text: &str,
        documents: &[Range<usize>],
        base: usize,
    ) -> bool {
        if self.block.is_some() || text.len() > MAX_TOKEN_BYTES {
            return false;
        }
        let mut own = documents.iter().map(|document| document.start - base..document.end - base);
        match tokenizer {
            Tokenizer::Byte => return false,
            Tokenizer::Char => own.for_each(|document| {
                self.begin();
                let text = &text[document];
                let done = self.characters(text);
                self.beyond += tokenizer.count(&text[done..], &mut self.before);
                self.finish();
            }),
            Tokenizer::Whitespace | Tokenizer::WordPunct => {
                let Some(Range { mut end, .. }) = own.next() else { return true };
                self.begin();
                tokenizer.ranges(text, true, &mut |range: Range<usize>| {
                    while range.start >= end {
                        let Some(next) = own.next() else { return ControlFlow::Break(()) };
                        self.finish();
                        self.begin();
                        end = next.end;
                    }
                    if self.is_full() {
                        self.beyond += 1;
                    } else {
                        let id = self.lexicon.words().number(text.as_bytes(), range);
                        self.tokens.push(id);
                    }
                    ControlFlow::Continue(())
                });
                self.finish();
                own.for_each(|_| {
                    self.begin();
                    self.finish();
                });
            }
            #[cfg(feature = "huggingface")]
            Tokenizer::HuggingFace(_) => return false,
        }
        true
    }

    /// Takes the next part of a document between [`Chunk::begin`] and [`Chunk::finish`]. If the tokenizer needs UTF-8,
    /// a part ends at a character boundary. All of the text must be valid, including the part beyond the window, whose
    /// tokens are only counted.
    pub(crate) fn part(&mut self, tokenizer: &Tokenizer, text: &[u8], last: bool) -> Result<(), Refusal> {
        let taken = self.take_part(tokenizer, text, last);
        self.tokens.pack_many();
        taken
    }

    fn take_part(&mut self, tokenizer: &Tokenizer, text: &[u8], last: bool) -> Result<(), Refusal> {
        if !tokenizer.needs_utf8() {
            self.bytes(text);
            return Ok(());
        }
        let mut text = std::str::from_utf8(text).map_err(|e| Refusal::InvalidUtf8(e.valid_up_to()))?;
        if !self.carry.is_empty() {
            let end = match tokenizer {
                // The token that may continue ends at white space, if not before it.
                Tokenizer::Whitespace | Tokenizer::WordPunct => {
                    text.bytes().position(|b| b.is_ascii_whitespace()).map_or(text.len(), |i| i + 1)
                }
                _ => text.len(),
            };
            let (first, rest) = text.split_at(end);
            let mut joined = std::mem::take(&mut self.carry);
            joined.extend_from_slice(first.as_bytes());
            let whole = std::str::from_utf8(&joined).map_err(|e| Refusal::InvalidUtf8(e.valid_up_to()))?;
            let done = self.tokens_of(tokenizer, whole, last && rest.is_empty())?;
            joined.drain(..done);
            self.carry = joined;
            text = rest;
            if text.is_empty() {
                return Ok(());
            }
        }
        let done = self.tokens_of(tokenizer, text, last)?;
        self.carry.extend_from_slice(&text.as_bytes()[done..]);
        Ok(())
    }

    /// The number of tokens that are still kept of the document being read.
    fn room(&self) -> usize {
        self.window.read().saturating_sub(self.tokens.len() - self.start)
    }

    /// Takes text whose bytes are its tokens.
    fn bytes(&mut self, text: &[u8]) {
        if self.block.is_some() {
            for &b in text {
                let id = self.lexicon.symbol(u32::from(b));
                self.push(id);
            }
            return;
        }
        let kept = text.len().min(self.room());
        for block in text[..kept].chunks(1 << 15) {
            self.lexicon.extend_with_symbols(self.tokens.fresh(), block.iter().map(|&b| u32::from(b)));
            self.tokens.pack_many();
        }
        self.beyond += (text.len() - kept) as u64;
    }

    /// Takes the characters that are kept of a text, and returns the number of their bytes.
    fn characters(&mut self, text: &str) -> usize {
        const BLOCK: usize = 64;
        let (bytes, mut at) = (text.as_bytes(), 0);
        while at < text.len() && self.room() > 0 {
            self.tokens.pack_many();
            let block = &bytes[at..text.len().min(at + BLOCK)];
            if block.is_ascii() {
                let kept = block.len().min(self.room());
                self.lexicon
                    .extend_with_symbols(self.tokens.fresh(), block[..kept].iter().map(|&b| u32::from(b)));
                at += kept;
                continue;
            }
            let end =
                (at + block.len()..text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(text.len());
            for c in text[at..end].chars().take(self.room()) {
                self.tokens.push(self.lexicon.symbol(u32::from(c)));
                at += c.len_utf8();
            }
        }
        at
    }

    /// Takes the words of a document that is not full; returns the length of the longest, and the number of bytes processed.
    fn words(&mut self, tokenizer: &Tokenizer, text: &str, last: bool) -> (usize, usize) {
        if let Some(block) = self.block {
            let mut longest = 0;
            let done = tokenizer.ranges(text, last, &mut |range: Range<usize>| {
                longest = longest.max(range.len());
                if longest > MAX_TOKEN_BYTES {
                    return ControlFlow::Break(());
                }
                let id = self.lexicon.words().number(text.as_bytes(), range);
                self.push_to_block(id, block as u64);
                ControlFlow::Continue(())
            });
            return (longest, done);
        }
        let (mut longest, mut done) = (0, 0);
        loop {
            // As many as are packed at a time.
            let room = self.room().min(BLOCK);
            let rest = &text[done..];
            let (words, tokens) = (self.lexicon.words(), &mut self.tokens);
            let mut taker = WordTaker { text: rest.as_bytes(), words, tokens, room, longest };
            done += tokenizer.ranges(rest, last, &mut taker);
            longest = taker.longest;
            let is_over = taker.room > 0;
            self.tokens.pack_many();
            if is_over || self.is_full() {
                return (longest, done);
            }
        }
    }

    /// Takes the tokens of `text`, and counts those beyond the window; returns the number of bytes processed.
    fn tokens_of(&mut self, tokenizer: &Tokenizer, text: &str, last: bool) -> Result<usize, Refusal> {
        let done = match tokenizer {
            Tokenizer::Byte => unreachable!("bytes are taken as they are"),
            _ if self.is_full() && self.block.is_none() => 0,
            Tokenizer::Char if self.block.is_none() => self.characters(text),
            Tokenizer::Char => {
                for c in text.chars() {
                    let id = self.lexicon.symbol(u32::from(c));
                    self.push(id);
                }
                text.len()
            }
            Tokenizer::WordPunct | Tokenizer::Whitespace => {
                let (longest, done) = self.words(tokenizer, text, last);
                let is_done = self.is_full() && self.block.is_none();
                if longest.max(text.len() - done) > MAX_TOKEN_BYTES && !is_done {
                    return Err(Refusal::Message(format!(
                        "a token of more than {} MiB; check `tokenizer` and `documents`",
                        MAX_TOKEN_BYTES >> 20
                    )));
                }
                done
            }
            #[cfg(feature = "huggingface")]
            Tokenizer::HuggingFace(tokenizer) => {
                if text.len() > MAX_DOCUMENT_BYTES {
                    return Err(Refusal::Message(format!(
                        "a document of more than {} MiB: a tokenizer.json encodes documents whole; split it with `documents`",
                        MAX_DOCUMENT_BYTES >> 20
                    )));
                }
                if !last {
                    return Ok(0);
                }
                for id in tokenizer.encode(text).map_err(Refusal::Message)? {
                    if self.is_full() && self.block.is_none() {
                        self.beyond += 1;
                        continue;
                    }
                    let id = self.lexicon.symbol(id);
                    self.push(id);
                }
                return Ok(text.len());
            }
        };
        if self.block.is_some() || !self.is_full() {
            return Ok(done);
        }
        self.beyond += tokenizer.count(&text[done..], &mut self.before);
        Ok(text.len())
    }
}

/// Numbers words and takes them as tokens, while there is room. It is not a closure because those are not inlined where they are
/// called for every word.
struct WordTaker<'a> {
    text: &'a [u8],
    words: &'a mut Words,
    tokens: &'a mut ProvisionalIds,
    /// At least 1.
    room: usize,
    longest: usize,
}

impl TakeRange for WordTaker<'_> {
    #[inline(always)]
    fn take(&mut self, range: Range<usize>) -> ControlFlow<()> {
        self.longest = self.longest.max(range.len());
        if self.longest > MAX_TOKEN_BYTES {
            return ControlFlow::Break(());
        }
        self.tokens.push(self.words.number(self.text, range));
        self.room -= 1;
        if self.room == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(window: Window, tokenizer: &Tokenizer, documents: &[&str]) -> Vec<Vec<u32>> {
        let mut chunk = Chunk::new(tokenizer.alphabet(), &Options::default().window(window));
        for d in documents {
            chunk.text(tokenizer, d.as_bytes()).unwrap();
        }
        let mut start = 0;
        chunk
            .ends
            .iter()
            .map(|&end| chunk.tokens.wide()[std::mem::replace(&mut start, end)..end].to_vec())
            .collect()
    }

    #[test]
    fn the_window_keeps_one_token_more_than_the_longest_context() {
        let window = Window { n_ctx: 2, ..Window::default() };
        assert_eq!(chunk(window, &Tokenizer::WordPunct, &["a b c d", "a", ""]), [vec![2, 3, 4], vec![2]]);
    }

    #[test]
    fn an_end_token_is_added_only_within_the_window_and_counts_towards_the_exact_length() {
        let window = Window { n_ctx: 2, eos: true, ..Window::default() };
        let documents = ["a b c", "a b", "a", " "];
        assert_eq!(
            chunk(window, &Tokenizer::WordPunct, &documents),
            [vec![2, 3, 4], vec![2, 3, EOS], vec![2, EOS]]
        );
        let exact = Window { exact_length: true, ..window };
        assert_eq!(chunk(exact, &Tokenizer::WordPunct, &documents), [vec![2, 3, 4], vec![2, 3, EOS]]);
        let both = Window { bos: true, ..exact };
        assert_eq!(
            chunk(both, &Tokenizer::WordPunct, &documents),
            [vec![BOS, 2, 3], vec![BOS, 2, 3], vec![BOS, 2, EOS]]
        );
    }

    #[test]
    fn a_document_in_parts_is_the_document_whole() {
        let text = "Once upon   a time, naïve Zoë… said: \"hi\"  ";
        for tokenizer in [Tokenizer::WordPunct, Tokenizer::Whitespace, Tokenizer::Char, Tokenizer::Byte] {
            let window = Window { n_ctx: 50, ..Window::default() };
            let whole = chunk(window, &tokenizer, &[text]);
            for cut in (0..=text.len()).filter(|&i| text.is_char_boundary(i)) {
                let mut parts = Chunk::new(tokenizer.alphabet(), &Options::default().window(window));
                parts.begin();
                parts.part(&tokenizer, &text.as_bytes()[..cut], false).unwrap();
                parts.part(&tokenizer, &text.as_bytes()[cut..], false).unwrap();
                parts.part(&tokenizer, b"", true).unwrap();
                parts.finish();
                assert_eq!(parts.tokens.wide(), whole[0], "{tokenizer:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn tokens_beyond_the_window_are_counted_whole_or_in_parts() {
        let text = "Once upon   a time, naïve Zoë… said: \"hi\"  ";
        for tokenizer in [Tokenizer::WordPunct, Tokenizer::Whitespace, Tokenizer::Char, Tokenizer::Byte] {
            let all = chunk(Window { n_ctx: 99, ..Window::default() }, &tokenizer, &[text])[0].len() as u64;
            for window in [1, 2, 3, 4, 5, 6, 7, 12, 99].map(|n_ctx| Window { n_ctx, ..Window::default() }) {
                let window = Window { bos: window.n_ctx.is_multiple_of(3), eos: true, ..window };
                let own = (window.kept() - usize::from(window.bos)) as u64;
                for cut in (0..=text.len()).filter(|&i| text.is_char_boundary(i)) {
                    let mut parts = Chunk::new(tokenizer.alphabet(), &Options::default().window(window));
                    parts.begin();
                    parts.part(&tokenizer, &text.as_bytes()[..cut], false).unwrap();
                    parts.part(&tokenizer, &text.as_bytes()[cut..], true).unwrap();
                    parts.finish();
                    let expect = all.saturating_sub(own);
                    assert_eq!(parts.tokens_left_out, expect, "{tokenizer:?} {window:?} cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn documents_that_are_dropped_leave_no_tokens_out() {
        let mut chunk = Chunk::new(
            Alphabet::Id,
            &Options::default().window(Window::default().n_ctx(2).exact_length(true)),
        );
        chunk.ids([1, 2, 3, 4], 10);
        chunk.ids([1, 2], 0);
        chunk.ids([], 0);
        assert_eq!((chunk.tokens_left_out, chunk.dropped), (11, Dropped { empty: 1, short: 1 }));
    }

    #[test]
    fn blocks_are_cut_every_so_many_tokens_whole_or_in_parts() {
        let text = "Once upon   a time, naïve Zoë… said: \"hi\"  ";
        for tokenizer in [Tokenizer::WordPunct, Tokenizer::Whitespace, Tokenizer::Char, Tokenizer::Byte] {
            let all = chunk(Window { n_ctx: 99, ..Window::default() }, &tokenizer, &[text]).remove(0);
            for (block, n_ctx, bos) in
                [(1, 3, false), (3, 1, false), (3, 2, true), (4, 9, true), (99, 99, false)]
            {
                let options = Options::default()
                    .window(Window::default().n_ctx(n_ctx).bos(bos))
                    .documents(DocumentRule::Chunk(block));
                let kept = n_ctx as usize + 1 - usize::from(bos);
                let blocks: Vec<Vec<u32>> = all
                    .chunks(block)
                    .map(|b| bos.then_some(BOS).into_iter().chain(b.iter().copied().take(kept)).collect())
                    .collect();
                let left_out = all.chunks(block).map(|b| b.len().saturating_sub(kept) as u64).sum::<u64>();
                for cut in (0..=text.len()).filter(|&i| text.is_char_boundary(i)) {
                    let mut parts = Chunk::new(tokenizer.alphabet(), &options);
                    parts.begin();
                    parts.part(&tokenizer, &text.as_bytes()[..cut], false).unwrap();
                    parts.part(&tokenizer, &text.as_bytes()[cut..], true).unwrap();
                    parts.finish();
                    let mut start = 0;
                    let found: Vec<Vec<u32>> = parts
                        .ends
                        .iter()
                        .map(|&end| parts.tokens.wide()[std::mem::replace(&mut start, end)..end].to_vec())
                        .collect();
                    assert_eq!(found, blocks, "{tokenizer:?} cut at {cut}");
                    assert_eq!(parts.tokens_left_out, left_out);
                }
            }
        }
    }
}
