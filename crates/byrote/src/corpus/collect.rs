//! From slabs of documents to sorted documents: tokenize, sort, and spill if memory is short.

use super::chunk::{Chunk, Dropped};
use super::documents::{Documents, Stretch};
use super::finish::{finish_sorted, merge_runs, merge_to_run, write_run};
use super::first_documents::FirstDocuments;
use super::options::{DocumentRule, Options};
use super::read::{Content, Slab};
use super::sealed::Sealed;
use super::slab_documents::{Own, document, documents, encodes_text, id_part, part, piece};
use super::sorted_run::{Header, RunReader};
use super::stored_documents::StoredDocuments;
use super::tokenizer::Tokenizer;
use super::vocabulary::{Alphabet, Vocabulary};
use super::window::ContextRule;
use super::{Corpus, Outputs, windows};
use crate::Result;
use crate::corpus::builtin::Stories;
use crate::observe::{Observer, Stage};
use rayon::prelude::*;
use std::fs::File;
use std::ops::{ControlFlow, Range};

/// The number of spilled runs that are merged into one, which bounds open files and buffers.
pub(crate) const MAX_RUNS: usize = 64;

/// Collects documents, and spills them to disk if memory is short.
pub(crate) struct Collector<'a> {
    options: &'a Options,
    tokenizer: &'a Tokenizer,
    stories: Stories,
    alphabet: Alphabet,
    chunks: Vec<Chunk>,
    runs: Vec<RunReader<File>>,
    /// The documents of the chunks in the order of the input, if that matters.
    order: Vec<Stretch>,
    /// The documents that were written to disk, if their order matters.
    stored: Option<StoredDocuments>,
    /// The document whose pieces are being taken, if one is.
    open: Option<OpenDocument>,
    dropped: Dropped,
    tokens_left_out: u64,
    /// The number of documents of the input so far, of whichever shard.
    seen: u64,
    /// The number of documents kept, and the number of them on disk.
    kept: u64,
    spilled: u64,
    /// A second copy of the first documents, if [`Outputs::head`] asks for them.
    head: Option<FirstDocuments>,
    observer: &'a dyn Observer,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        options: &'a Options,
        tokenizer: &'a Tokenizer,
        stories: Stories,
        alphabet: Alphabet,
        observer: &'a dyn Observer,
    ) -> Self {
        let mut collector = Self {
            options,
            tokenizer,
            stories,
            alphabet,
            chunks: Vec::new(),
            runs: Vec::new(),
            order: Vec::new(),
            stored: None,
            open: None,
            dropped: Dropped::default(),
            tokens_left_out: 0,
            seen: 0,
            kept: 0,
            spilled: 0,
            head: None,
            observer,
        };
        collector.renew_chunks();
        collector
    }

    /// Keeps the first documents as well, up to this many tokens. A part of windows is drawn from all of them instead.
    pub(crate) fn with_head(mut self, tokens: Option<usize>) -> Self {
        let tokens = tokens.filter(|_| self.options.window.contexts != ContextRule::Windows);
        self.head = tokens.map(|tokens| FirstDocuments::new(self.alphabet, self.options, tokens));
        self
    }

    /// Returns the number of documents kept so far.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    fn renew_chunks(&mut self) -> Vec<Chunk> {
        let mut fresh: Vec<Chunk> =
            (0..rayon::current_num_threads()).map(|_| Chunk::new(self.alphabet, self.options)).collect();
        // The first chunk has all the blocks of a text, whose count goes on.
        if let ([new, ..], [old, ..]) = (&mut fresh[..], &self.chunks[..]) {
            new.blocks = old.blocks;
        }
        std::mem::replace(&mut self.chunks, fresh)
    }

    /// Takes the documents of a slab; breaks when `limit` is reached.
    pub(crate) fn take(&mut self, slab: &Slab) -> Result<ControlFlow<()>> {
        self.observer.check()?;
        let held: Vec<usize> = self.chunks.iter().map(Chunk::len).collect();
        let left = self.options.limit.map(|limit| limit.saturating_sub(self.kept));
        let own = Own::new(self.options, self.seen, slab);
        self.seen += slab.ended();
        // A text that is cut into blocks is one document of a slab and many of a chunk.
        if let Some(limit) = self.options.limit {
            let others: u64 = self.spilled + self.chunks[1..].iter().map(|c| c.len() as u64).sum::<u64>();
            self.chunks[0].most_blocks = usize::try_from(limit.saturating_sub(others)).unwrap_or(usize::MAX);
        }
        if let Some(head) = &mut self.head {
            head.take(self.options, self.tokenizer, &self.stories, slab, own)?;
        }
        let is_shared = self.shares_parts() && matches!(slab.content, Content::Part { .. });
        // What is in pieces can be written to disk in the middle of a document.
        let in_pieces = is_shared || matches!(slab.content, Content::IdPart { .. }) && self.stores();
        if let Content::IdPart { first, last } = slab.content {
            if !own.has(0) {
                // Another shard has it.
            } else if in_pieces {
                self.take_id_piece(slab, first, last);
            } else {
                id_part(&mut self.chunks[0], slab, first, last);
            }
        } else if let Content::Part { first, last } = slab.content {
            if !own.has(0) {
                // Another shard has it.
            } else if is_shared {
                self.take_pieces(slab, first, last)?;
            } else {
                part(self.options, self.tokenizer, &mut self.chunks[0], slab, first, last)?;
            }
        } else if left.is_some_and(|left| left <= slab.documents.len() as u64) {
            // Near the limit, one thread takes exactly the remaining documents.
            for i in (0..slab.documents.len()).filter(|&i| own.has(i)) {
                if self.options.limit.is_some_and(|limit| self.count_kept() >= limit) {
                    break;
                }
                document(self.options, self.tokenizer, &self.stories, &mut self.chunks[0], slab, i)?;
            }
        } else {
            let n = slab.documents.len();
            let step = n.div_ceil(self.chunks.len()).max(1);
            let (options, tokenizer, stories) = (self.options, self.tokenizer, &self.stories);
            let results: Vec<Result<()>> = self
                .chunks
                .par_iter_mut()
                .enumerate()
                .map(|(piece, chunk)| {
                    let piece = (piece * step).min(n)..((piece + 1) * step).min(n);
                    documents(options, tokenizer, stories, chunk, slab, piece, own)
                })
                .collect();
            // The first error in file order, whichever thread found its error first.
            results.into_iter().collect::<Result<()>>()?;
        }
        self.kept = self.count_kept();
        if self.options.window.contexts == ContextRule::Windows && !in_pieces {
            let now = self.chunks.iter().map(Chunk::len);
            let new = held.into_iter().zip(now).enumerate().filter(|(_, (held, now))| now > held);
            let stretch = |(chunk, (held, now))| Stretch { chunk, documents: held..now, continues: false };
            self.order.extend(new.map(stretch));
        }
        let whole =
            !matches!(slab.content, Content::Part { last: false, .. } | Content::IdPart { last: false, .. });
        if self.options.limit.is_some_and(|limit| self.kept >= limit) && whole {
            return Ok(ControlFlow::Break(()));
        }
        if self.stores() && (whole || in_pieces) {
            self.store()?;
        } else if let Some(budget) = self.options.max_memory
            && whole
            && self.options.window.contexts != ContextRule::Windows
        {
            let held: usize = self.chunks.iter().map(Chunk::footprint).sum();
            if held as u64 > budget / 2 && self.chunks.iter().any(|c| c.len() > 0) {
                self.spill()?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether documents whose order matters are written to disk if memory is short.
    fn stores(&self) -> bool {
        self.options.window.contexts == ContextRule::Windows && self.options.max_memory.is_some()
    }

    /// Writes the documents in memory to disk in their order, if they take much.
    fn store(&mut self) -> Result<()> {
        let held: usize = self.chunks.iter().map(|chunk| chunk.tokens.footprint() + 8 * chunk.len()).sum();
        if held as u64 <= self.options.max_memory.map_or(u64::MAX, |budget| budget / 8) {
            return Ok(());
        }
        let chunks = std::mem::take(&mut self.chunks);
        let documents = Documents::new(chunks, std::mem::take(&mut self.order));
        let stored = match &mut self.stored {
            Some(stored) => stored,
            None => self.stored.insert(StoredDocuments::new(&self.options.temp_dir)?),
        };
        stored.push(&documents)?;
        self.spilled += documents.len() as u64;
        self.chunks = documents.chunks;
        for chunk in &mut self.chunks {
            chunk.tokens.clear();
            chunk.ends.clear();
        }
        Ok(())
    }

    /// Takes a part of a document of ids as a piece.
    fn take_id_piece(&mut self, slab: &Slab, first: bool, last: bool) {
        let mut open = match self.open.take() {
            Some(open) if !first => open,
            _ => OpenDocument { is_empty: true, carry: Vec::new() },
        };
        let bos = first && self.options.window.bos;
        let chunk = &mut self.chunks[0];
        chunk.begin_piece(slab.ids.len(), Vec::new(), bos);
        chunk.id_part(slab.ids.iter().copied());
        let (tokens, _) = chunk.finish_piece();
        if tokens > 0 {
            let documents = chunk.len() - 1..chunk.len();
            self.order.push(Stretch { chunk: 0, documents, continues: true });
        }
        open.is_empty &= tokens == usize::from(bos);
        if last {
            self.close(&open);
        } else {
            self.open = Some(open);
        }
    }

    fn count_kept(&self) -> u64 {
        let continued = self.order.iter().filter(|stretch| stretch.continues).count() as u64;
        self.spilled + self.chunks.iter().map(|c| c.len() as u64).sum::<u64>() - continued
    }

    /// Whether the parts of a long document are shared among the threads: all of its tokens are kept, in order, and tokens can
    /// be found from anywhere in it.
    fn shares_parts(&self) -> bool {
        self.options.window.contexts == ContextRule::Windows
            && !matches!(self.options.documents, Some(DocumentRule::Chunk(_)))
            && !encodes_text(self.tokenizer)
    }

    /// Takes a part of a long document in pieces, one per chunk.
    fn take_pieces(&mut self, slab: &Slab, first: bool, last: bool) -> Result<()> {
        let mut open = match self.open.take() {
            Some(open) if !first => open,
            _ => OpenDocument { is_empty: true, carry: Vec::new() },
        };
        let range = slab.documents.first().cloned().unwrap_or(0..0);
        let pieces = match slab.crlf {
            true => vec![range],
            false => pieces(self.tokenizer, &slab.bytes, range, self.chunks.len()),
        };
        let (options, tokenizer, end) = (self.options, self.tokenizer, pieces.len() - 1);
        let bos = first && options.window.bos;
        for (i, (chunk, piece)) in self.chunks.iter_mut().zip(&pieces).enumerate() {
            chunk.begin_piece(piece.len(), std::mem::take(&mut open.carry), bos && i == 0);
        }
        let results: Vec<Result<()>> = self
            .chunks
            .par_iter_mut()
            .zip(pieces)
            .enumerate()
            .map(|(i, (chunk, range))| piece(options, tokenizer, chunk, slab, range, last && i == end))
            .collect();
        results.into_iter().collect::<Result<()>>()?;
        for (chunk, held) in self.chunks.iter_mut().enumerate().take(end + 1) {
            let (tokens, carry) = held.finish_piece();
            if tokens > 0 {
                let documents = held.len() - 1..held.len();
                self.order.push(Stretch { chunk, documents, continues: true });
            }
            open.is_empty &= tokens == usize::from(bos && chunk == 0);
            open.carry = carry;
        }
        if last {
            self.close(&open);
        } else {
            self.open = Some(open);
        }
        Ok(())
    }

    /// Ends a document that was taken in pieces.
    fn close(&mut self, open: &OpenDocument) {
        let Some(last) = self.order.last_mut().filter(|last| last.continues) else {
            match &mut self.stored {
                Some(stored) if stored.is_open() => {
                    self.spilled += 1;
                    if self.options.window.eos {
                        // What was written cannot be continued, so the end token is a piece of its own.
                        self.chunks[0].begin_piece(0, Vec::new(), false);
                        self.chunks[0].push_eos();
                        self.chunks[0].finish_piece();
                        self.spilled -= 1;
                        self.order.push(Stretch { chunk: 0, documents: 0..1, continues: false });
                    } else {
                        stored.end_document();
                    }
                }
                _ => self.dropped.empty += 1,
            }
            return;
        };
        let chunk = &mut self.chunks[last.chunk];
        if open.is_empty {
            // All it has is a start token.
            self.dropped.empty += 1;
            chunk.truncate(last.documents.start);
            self.order.pop();
            return;
        }
        last.continues = false;
        if self.options.window.eos {
            chunk.push_eos();
        }
    }

    fn header(&self) -> Header {
        Header {
            window: self.options.window,
            tokenizer: tokenizer_name(self.tokenizer, self.alphabet),
            alphabet: self.alphabet,
            dropped: self.dropped,
            tokens_left_out: self.tokens_left_out,
        }
    }

    /// Sorts the documents in memory and writes them to disk as a run.
    fn spill(&mut self) -> Result<()> {
        let chunks = self.renew_chunks();
        self.note_dropped(&chunks);
        self.spilled += chunks.iter().map(|c| c.len() as u64).sum::<u64>();
        let sealed = Sealed::new(&chunks, self.options);
        let sorted = sealed.sort(self.options);
        let header = self.header();
        let run = write_run(self.options, &header, &sealed.vocabulary, |writer| {
            (0..sorted.parts()).for_each(|part| sorted.visit(part, writer));
            Ok(())
        })?;
        self.runs.push(run);
        // Runs are merged when there are many, or when the maps between their vocabularies take much memory.
        let maps = self.runs.iter().map(|r| r.d_vocab as u64 * 4).sum::<u64>();
        let crowded = self.runs.len() >= 8 && self.options.max_memory.is_some_and(|budget| maps > budget / 4);
        if self.runs.len() >= MAX_RUNS || crowded {
            let runs = std::mem::take(&mut self.runs);
            self.runs.push(merge_to_run(runs, &header, Some(self.spilled), self.options, self.observer)?);
        }
        Ok(())
    }

    fn note_dropped(&mut self, chunks: &[Chunk]) {
        for chunk in chunks {
            self.dropped.add(chunk.dropped);
            self.tokens_left_out += chunk.tokens_left_out;
        }
    }

    /// Ends the collection and produces the requested outputs.
    pub(crate) fn finish(mut self, outputs: Outputs) -> Result<Corpus> {
        if self.options.window.contexts == ContextRule::Windows {
            let chunks = self.renew_chunks();
            self.note_dropped(&chunks);
            let documents = Documents::new(chunks, std::mem::take(&mut self.order));
            let stored = match self.stored.take() {
                Some(mut stored) => {
                    stored.push(&documents)?;
                    Some(stored)
                }
                None => None,
            };
            let names = |vocabulary: &mut Vocabulary| name_ids(vocabulary, self.tokenizer);
            let documents = (documents, stored);
            return windows::corpus(documents, names, self.header(), self.options, outputs, self.observer);
        }
        if !self.runs.is_empty() {
            if self.chunks.iter().any(|c| c.len() > 0) {
                self.spill()?;
            } else {
                let chunks = self.renew_chunks();
                self.note_dropped(&chunks);
            }
            let header = self.header();
            let names = |vocabulary: &mut Vocabulary| name_ids(vocabulary, self.tokenizer);
            let total = Some(self.spilled);
            let head = self.head.take();
            let corpus =
                merge_runs(self.runs, header.clone(), names, total, self.options, outputs, self.observer)?;
            return Ok(with_head(corpus, head, header));
        }
        let chunks = self.renew_chunks();
        self.note_dropped(&chunks);
        let header = self.header();
        self.observer.report(Stage::Sorting, 0, None)?;
        let mut sealed = Sealed::new(&chunks, self.options);
        name_ids(&mut sealed.vocabulary, self.tokenizer);
        let sorted = sealed.sort(self.options);
        let corpus =
            finish_sorted(&sorted, &sealed.vocabulary, header.clone(), self.options, outputs, self.observer)?;
        Ok(with_head(corpus, self.head, header))
    }
}

fn with_head(mut corpus: Corpus, head: Option<FirstDocuments>, header: Header) -> Corpus {
    corpus.head = head.map(|head| head.sealed(header, &corpus.vocabulary));
    corpus
}

/// A document whose pieces are being taken.
#[derive(Debug)]
struct OpenDocument {
    /// Whether it has no token yet.
    is_empty: bool,
    /// Its text so far whose last token may continue.
    carry: Vec<u8>,
}

/// Cuts the text `bytes[range]` into at most `n` pieces of about the same size, at places where no token of the whole text
/// continues.
fn pieces(tokenizer: &Tokenizer, bytes: &[u8], range: Range<usize>, n: usize) -> Vec<Range<usize>> {
    let text = &bytes[range.clone()];
    let mut pieces = Vec::with_capacity(n);
    let mut start = 0;
    for i in 1..n {
        let target = (text.len() * i / n).max(start);
        let cut = match tokenizer {
            Tokenizer::Byte => Some(target),
            Tokenizer::Char => (target..text.len()).find(|&i| text[i] & 0xc0 != 0x80),
            // After white space.
            _ => (target..text.len()).find(|&i| text[i].is_ascii_whitespace()).map(|i| i + 1),
        };
        let Some(cut) = cut else { break };
        pieces.push(range.start + start..range.start + cut);
        start = cut;
    }
    pieces.push(range.start + start..range.end);
    pieces
}

impl Dropped {
    fn add(&mut self, other: Dropped) {
        self.empty += other.empty;
        self.short += other.short;
    }
}

/// The name of a tokenizer in summaries: tokenizers of the same name produce the same tokens.
fn tokenizer_name(tokenizer: &Tokenizer, alphabet: Alphabet) -> String {
    match tokenizer {
        #[cfg(feature = "huggingface")]
        Tokenizer::HuggingFace(file) => super::tokenizer::name_of_file(file.fingerprint()),
        _ if alphabet == Alphabet::Id => "ids".into(),
        Tokenizer::Byte => "byte".into(),
        Tokenizer::Char => "char".into(),
        Tokenizer::Whitespace => "whitespace".into(),
        Tokenizer::WordPunct => "wordpunct".into(),
    }
}

/// Names ids by the tokens of a `tokenizer.json`.
fn name_ids(vocabulary: &mut Vocabulary, tokenizer: &Tokenizer) {
    #[cfg(feature = "huggingface")]
    if let Tokenizer::HuggingFace(file) = tokenizer {
        vocabulary.set_names(|id| file.token(id));
    }
    let _ = (vocabulary, tokenizer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::corpus::{MemoryFile, Source, TokenizerChoice, Window};
    use crate::observe::Silent;
    use proptest::prelude::*;

    const TOKENIZERS: [TokenizerChoice; 4] = [
        TokenizerChoice::Byte,
        TokenizerChoice::Char,
        TokenizerChoice::Whitespace,
        TokenizerChoice::WordPunct,
    ];

    /// The figures and the vocabulary of a corpus, or its error.
    fn described(corpus: Result<Corpus>) -> String {
        match corpus {
            Ok(corpus) => {
                let tokens: Vec<String> =
                    (0..corpus.vocabulary.len() as u32).map(|id| corpus.vocabulary.text(id)).collect();
                format!("{} {tokens:?}", serde_json::to_string(&corpus.summary).unwrap())
            }
            Err(error) => format!("{error:?}"),
        }
    }

    /// Reads documents, each of which is given in parts.
    fn read(documents: &[Vec<Vec<u8>>], options: &Options, threads: usize) -> Result<Corpus> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let tokenizer = Tokenizer::load(&options.tokenizer)?;
            let mut collector =
                Collector::new(options, &tokenizer, Stories::new(0), tokenizer.alphabet(), &Silent);
            let mut offset = 0;
            for document in documents {
                for (i, bytes) in document.iter().enumerate() {
                    let content = match document.len() {
                        1 => Content::Text,
                        n => Content::Part { first: i == 0, last: i + 1 == n },
                    };
                    let (bytes, documents) = (bytes.clone(), Vec::from_iter([bytes.len()].map(|end| 0..end)));
                    let slab = Slab { content, bytes, documents, offset, first_line: 1, ..Slab::default() };
                    offset += slab.bytes.len() as u64;
                    let _ = collector.take(&slab)?;
                }
            }
            collector.finish(Outputs::default())
        })
    }

    /// Cuts a text near these places, never within a character.
    fn parts(text: &str, cuts: &[usize]) -> Vec<Vec<u8>> {
        let boundary = |at: usize| (0..=at % (text.len() + 1)).rev().find(|&i| text.is_char_boundary(i));
        let mut cuts: Vec<usize> = cuts.iter().filter_map(|&cut| boundary(cut)).collect();
        cuts.sort_unstable();
        cuts.push(text.len());
        let mut start = 0;
        cuts.into_iter().map(|cut| text[std::mem::replace(&mut start, cut)..cut].into()).collect()
    }

    proptest! {
        #[test]
        fn documents_in_parts_shared_by_threads_are_the_documents_whole(
            texts in prop::collection::vec(
                ("[ab ,é日\n]{0,60}|[ab]{0,40}| {0,9}", prop::collection::vec(0usize..100, 0..4)), 1..4
            ),
            (bos, eos, join) in any::<(bool, bool, bool)>(),
            tokenizer in prop::sample::select(TOKENIZERS.to_vec()),
        ) {
            let window = Window::default().n_ctx(3).bos(bos).eos(eos).contexts(ContextRule::Windows);
            let mut options = Options::default().window(window).tokenizer(tokenizer);
            options.documents = Some(DocumentRule::File);
            options.join = join;
            let whole: Vec<_> = texts.iter().map(|(text, _)| vec![text.clone().into_bytes()]).collect();
            let cut: Vec<_> = texts.iter().map(|(text, cuts)| parts(text, cuts)).collect();
            let expect = described(read(&whole, &options, 1));
            for threads in [1, 2, 5] {
                prop_assert_eq!(&described(read(&cut, &options, threads)), &expect, "{} threads", threads);
            }
        }

        #[test]
        fn lines_taken_together_are_the_lines_one_by_one(
            lines in prop::collection::vec("[ab ,é日\t]{0,30}|[ab, ]{0,90}", 0..12),
            n_ctx in 1u32..9,
            (bos, eos, exact_length) in any::<(bool, bool, bool)>(),
            tokenizer in prop::sample::select(TOKENIZERS.to_vec()),
        ) {
            let window = Window::default().n_ctx(n_ctx).bos(bos).eos(eos).exact_length(exact_length);
            let file = MemoryFile { name: "lines.txt".into(), bytes: lines.join("\n").into_bytes().into() };
            let source = Source::Memory(vec![file]);
            let mut options = Options::default().window(window).tokenizer(tokenizer);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            let mut read = |documents| {
                options.documents = Some(documents);
                described(pool.install(|| Corpus::read(&source, &options, Outputs::default(), &Silent)))
            };
            prop_assert_eq!(read(DocumentRule::Line), read(DocumentRule::Separator(b"\n".to_vec())));
        }
    }

    #[test]
    fn threads_report_the_first_error_of_a_part() {
        let window = Window::default().n_ctx(3).contexts(ContextRule::Windows);
        let mut text = "some words \n".repeat(50).into_bytes();
        (text[203], text[555]) = (0xff, 0xff);
        for tokenizer in [TokenizerChoice::Char, TokenizerChoice::WordPunct] {
            let mut options = Options::default().window(window).tokenizer(tokenizer);
            let documents = [vec![b"first\n".to_vec(), text.clone(), Vec::new()]];
            for threads in [1, 2, 5] {
                match read(&documents, &options, threads) {
                    Err(Error::InvalidUtf8 { offset, line, .. }) => assert_eq!((offset, line), (209, 17)),
                    other => panic!("{other:?}"),
                }
            }
            options.lossy = true;
            let expect = described(read(&documents, &options, 1));
            assert_eq!(described(read(&documents, &options, 4)), expect);
        }
    }

    #[test]
    fn pieces_are_cut_where_no_token_continues() {
        let text = "one two  three, four five".as_bytes();
        let cut = |tokenizer, n| pieces(&tokenizer, text, 4..text.len(), n);
        assert_eq!(cut(Tokenizer::WordPunct, 2), [4..16, 16..25]);
        assert_eq!(cut(Tokenizer::Byte, 3), [4..11, 11..18, 18..25]);
        assert_eq!(pieces(&Tokenizer::Whitespace, b"abcdef", 0..6, 3).len(), 1);
        let umlauts = "äöü".as_bytes();
        assert_eq!(pieces(&Tokenizer::Char, umlauts, 0..6, 2), [0..4, 4..6]);
    }
}
