//! Documents that are already in memory: texts, and token ids in arrays.
//!
//! Ids in one array of `u16` or `u32` are counted where they are, without a copy, as long as every document is kept as it is.
//! Everything else (other types, windows, start and end tokens, a limit, more than fits into memory) passes through slabs, as
//! files do.
//!
//! ```
//! use byrote::corpus::{Corpus, FlatIds, Options, Outputs};
//! use byrote::observe::Silent;
//!
//! let (ids, offsets) = ([7u16, 8, 9, 7, 8], [0, 3, 5]);
//! let documents = FlatIds::Offsets(&offsets);
//! let corpus = Corpus::from_flat_ids(&ids, documents, &Options::default(), Outputs::default(), &Silent)?;
//! assert_eq!((corpus.summary.documents, corpus.summary.contexts), (2, 2));
//! # Ok::<(), byrote::Error>(())
//! ```

use super::builtin::Stories;
use super::chunk::Dropped;
use super::collect::Collector;
use super::count::{self, Ends};
use super::finish::finish_sorted;
use super::options::Options;
use super::read::{Content, SLAB_BYTES, Slab};
use super::sealed::Sealed;
use super::sorted_run::Header;
use super::tokenizer::Tokenizer;
use super::vocabulary::Alphabet;
use super::window::{ContextRule, Window};
use super::{Corpus, Outputs};
use crate::observe::{Detail, Observer, Progress, Silent, Stage};
use crate::{Error, Result};
use std::ops::Range;

/// Where the documents are in one array of ids.
#[derive(Debug, Clone, Copy)]
pub enum FlatIds<'a> {
    /// One document after the other, of this many ids each.
    Rows(usize),
    /// Document i from offset i to offset i + 1, as in Arrow.
    Offsets(&'a [u64]),
}

impl FlatIds<'_> {
    /// Checks that the documents lie within `n` ids.
    fn check(&self, n: usize) -> Result<()> {
        let wrong = |name, message: String| Err(Error::setting(name, message));
        match self {
            Self::Rows(length) if *length == 0 || !n.is_multiple_of(*length) => {
                wrong("length", format!("{n} ids cannot be split into documents of {length}"))
            }
            Self::Rows(_) => Ok(()),
            Self::Offsets([]) => {
                wrong("offsets", "must be one more than there are documents (got none)".into())
            }
            Self::Offsets(offsets) => {
                if let Some(i) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
                    let (a, b) = (offsets[i], offsets[i + 1]);
                    return wrong("offsets", format!("must not decrease (got {a}, then {b})"));
                }
                match offsets.last() {
                    Some(&last) if last > n as u64 => {
                        wrong("offsets", format!("must be at most {n}, the number of ids (got {last})"))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// The number of documents.
    fn len(&self, n: usize) -> usize {
        match self {
            Self::Rows(length) => n / length,
            Self::Offsets(offsets) => offsets.len() - 1,
        }
    }

    /// Returns the place of every document among `n` ids.
    ///
    /// # Errors
    /// If the documents do not fit.
    pub fn ranges(&self, n: usize) -> Result<impl Iterator<Item = Range<usize>>> {
        self.check(n)?;
        Ok((0..self.len(n)).map(|i| self.range(i)))
    }

    fn range(&self, i: usize) -> Range<usize> {
        match self {
            Self::Rows(length) => i * length..(i + 1) * length,
            Self::Offsets(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
        }
    }
}

/// The ids of one document, in the type in which they come.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // The variants are the types.
pub enum IdSlice<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
}

/// Every conversion into an [`IdSlice`], and the functions that treat all types alike.
macro_rules! id_slices {
    ($($variant:ident($type:ty)),+) => {
        $(impl<'a> From<&'a [$type]> for IdSlice<'a> {
            fn from(ids: &'a [$type]) -> Self {
                Self::$variant(ids)
            }
        })+

        impl IdSlice<'_> {
            /// Returns the number of ids.
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(ids) => ids.len()),+ }
            }

            /// Appends some of the ids; the error is the first that is not one, in words.
            fn append(&self, range: Range<usize>, to: &mut Vec<u32>) -> std::result::Result<(), String> {
                match self {
                    $(Self::$variant(ids) => append(&ids[range], to)),+
                }
            }
        }
    };
}
id_slices!(U8(u8), U16(u16), U32(u32), U64(u64), I8(i8), I16(i16), I32(i32), I64(i64));

impl IdSlice<'_> {
    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn append<T: Copy + TryInto<u32> + std::fmt::Display>(
    ids: &[T],
    to: &mut Vec<u32>,
) -> std::result::Result<(), String> {
    to.reserve(ids.len());
    for &id in ids {
        to.push(id.try_into().map_err(|_| id.to_string())?);
    }
    Ok(())
}

/// Token ids as [`Corpus::from_rows`] and [`Corpus::from_flat_ids`] take them: `u16` or `u32`.
#[allow(private_bounds)] // Sealed: token lookup is private to the counter.
pub trait RowId: count::Token {
    /// One more than the largest id there can be, if a table of that size is small.
    #[doc(hidden)]
    fn size(ids: &[Self]) -> Option<usize>;
    #[doc(hidden)]
    fn slice(ids: &[Self]) -> IdSlice<'_>;
}

impl RowId for u16 {
    fn size(_: &[Self]) -> Option<usize> {
        Some(1 << 16)
    }

    fn slice(ids: &[Self]) -> IdSlice<'_> {
        IdSlice::U16(ids)
    }
}

impl RowId for u32 {
    fn size(ids: &[Self]) -> Option<usize> {
        let size = ids.iter().max().map_or(0, |&id| id as usize + 1);
        (size <= 1 << 26).then_some(size)
    }

    fn slice(ids: &[Self]) -> IdSlice<'_> {
        IdSlice::U32(ids)
    }
}

impl Corpus {
    /// Counts documents of equal length held in memory: `ids` holds `length` token ids per document.
    ///
    /// ```
    /// use byrote::corpus::Corpus;
    /// let corpus = Corpus::from_rows(&[7u16, 8, 9, 7, 8, 8], 3, 2)?;
    /// assert_eq!((corpus.summary.documents, corpus.summary.contexts), (2, 2));
    /// # Ok::<(), byrote::Error>(())
    /// ```
    pub fn from_rows<T: RowId>(ids: &[T], length: usize, n_ctx: u32) -> Result<Self> {
        let options = Options { window: Window { n_ctx, ..Window::default() }, ..Options::default() };
        let outputs = Outputs { may_be_empty: true, ..Outputs::default() };
        Self::from_flat_ids(ids, FlatIds::Rows(length), &options, outputs, &Silent)
    }

    /// Counts documents that lie in one array of ids, where they are if possible.
    pub fn from_flat_ids<T: RowId>(
        ids: &[T],
        documents: FlatIds<'_>,
        options: &Options,
        outputs: Outputs,
        observer: &dyn Observer,
    ) -> Result<Self> {
        options.window.check()?;
        documents.check(ids.len())?;
        let Some(size) = can_stay(&documents, ids.len(), options, &outputs).then(|| T::size(ids)).flatten()
        else {
            let slices = documents.ranges(ids.len())?.map(|range| T::slice(&ids[range]));
            return Self::from_ids(slices, options, outputs, observer);
        };
        let kept = options.window.kept();
        let (ends, tokens) = match documents {
            FlatIds::Rows(length) => {
                let kept = length.min(kept);
                (Ends::Every { length, kept }, kept * (ids.len() / length))
            }
            FlatIds::Offsets(offsets) => {
                let lengths = offsets.windows(2).map(|pair| ((pair[1] - pair[0]) as usize).min(kept));
                (Ends::Between { offsets, kept }, lengths.sum())
            }
        };
        let all = match documents {
            FlatIds::Rows(_) => ids.len(),
            FlatIds::Offsets(offsets) => (offsets[offsets.len() - 1] - offsets[0]) as usize,
        };
        observer.report(Stage::Sorting, 0, None)?;
        let sealed = Sealed::from_rows(ids, ends, size, options);
        let header = Header {
            window: options.window,
            tokenizer: "ids".into(),
            alphabet: Alphabet::Id,
            dropped: Dropped::default(),
            tokens_left_out: (all - tokens) as u64,
        };
        finish_sorted(&sealed.sort(options), &sealed.vocabulary, header, options, outputs, observer)
    }

    /// Counts documents of token ids held in memory.
    ///
    /// ```
    /// use byrote::corpus::{Corpus, Options, Outputs};
    /// use byrote::observe::Silent;
    /// let documents = [vec![7u32, 8, 9], vec![7, 8]];
    /// let corpus = Corpus::from_ids(documents.iter().map(Vec::as_slice), &Options::default(), Outputs::default(), &Silent)?;
    /// assert_eq!((corpus.summary.documents, corpus.summary.contexts), (2, 2));
    /// # Ok::<(), byrote::Error>(())
    /// ```
    pub fn from_ids<'a, D: Into<IdSlice<'a>>>(
        documents: impl IntoIterator<Item = D>,
        options: &Options,
        outputs: Outputs,
        observer: &dyn Observer,
    ) -> Result<Self> {
        options.window.check()?;
        let tokenizer = Tokenizer::Byte; // Ids are taken as they are.
        let mut feed = Feed::new(options, &tokenizer, Alphabet::Id, Content::Ids, &outputs, observer);
        for document in documents {
            if feed.ids(document.into())? {
                break;
            }
        }
        feed.finish(outputs)
    }

    /// Counts texts held in memory, each of which is a document.
    ///
    /// ```
    /// use byrote::corpus::{Corpus, Options, Outputs};
    /// use byrote::observe::Silent;
    /// let corpus = Corpus::from_texts(["the cat sat", "the cat ran"], &Options::default(), Outputs::default(), &Silent)?;
    /// assert_eq!((corpus.summary.documents, corpus.summary.contexts), (2, 2));
    /// # Ok::<(), byrote::Error>(())
    /// ```
    pub fn from_texts<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        options: &Options,
        outputs: Outputs,
        observer: &dyn Observer,
    ) -> Result<Self> {
        options.window.check()?;
        let tokenizer = Tokenizer::load(&options.tokenizer)?;
        let alphabet = tokenizer.alphabet();
        let mut feed = Feed::new(options, &tokenizer, alphabet, Content::Records, &outputs, observer);
        for text in texts {
            if feed.text(text)? {
                break;
            }
        }
        feed.finish(outputs)
    }
}

/// Whether all documents are kept just as they are, and sorting them takes no more memory than allowed.
fn can_stay(documents: &FlatIds<'_>, n: usize, options: &Options, outputs: &Outputs) -> bool {
    let Window { exact_length, bos, eos, contexts, .. } = options.window;
    let plain = !bos && !eos && contexts != ContextRule::Windows && options.shard.is_all();
    let shortest = match documents {
        FlatIds::Rows(length) => Some(*length),
        FlatIds::Offsets(offsets) => offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).min(),
    };
    // No document may be dropped: none is empty, nor too short.
    let least = if exact_length { options.window.kept() } else { 1 };
    // A document is sorted as a number of up to 48 bytes.
    let needed = 48 * documents.len(n) as u64;
    plain
        && options.limit.is_none()
        && outputs.head.is_none()
        && shortest.is_none_or(|shortest| shortest >= least)
        && options.max_memory.is_none_or(|most| needed <= most / 2)
}

/// Passes documents on in slabs.
struct Feed<'a> {
    options: &'a Options,
    collector: Collector<'a>,
    observer: &'a dyn Observer,
    slab: Slab,
    content: Content,
    /// The number of documents before those of the slab.
    passed: u64,
}

impl<'a> Feed<'a> {
    fn new(
        options: &'a Options,
        tokenizer: &'a Tokenizer,
        alphabet: Alphabet,
        content: Content,
        outputs: &Outputs,
        observer: &'a dyn Observer,
    ) -> Self {
        let collector =
            Collector::new(options, tokenizer, Stories::new(0), alphabet, observer).with_head(outputs.head);
        let path = if content == Content::Ids { "ids" } else { "texts" };
        let slab = Slab { content, first_line: 1, path: path.into(), ..Slab::default() };
        Self { options, collector, observer, slab, content, passed: 0 }
    }

    /// Takes a document of ids; returns whether there are enough.
    fn ids(&mut self, ids: IdSlice<'_>) -> Result<bool> {
        let document = self.passed + self.slab.documents.len() as u64 + 1;
        let wrong = |id: String| {
            let message =
                format!("document {document} has the id {id}: token ids are from 0 to {}", u32::MAX);
            Error::setting("ids", message)
        };
        let (all, kept) = (ids.len(), ids.len().min(self.options.window.read()));
        let most = SLAB_BYTES / 4;
        if kept <= most {
            let start = self.slab.ids.len();
            ids.append(0..kept, &mut self.slab.ids).map_err(wrong)?;
            self.slab.documents.push(start..self.slab.ids.len());
            self.slab.cut.push((all - kept) as u64);
            return self.pass(self.slab.ids.len() >= most || self.slab.documents.len() >= most);
        }
        // A long document comes in parts of its own.
        if self.pass(!self.slab.documents.is_empty())? {
            return Ok(true);
        }
        for start in (0..all).step_by(most) {
            let end = (start + most).min(all);
            ids.append(start..end, &mut self.slab.ids).map_err(wrong)?;
            self.slab.documents.push(0..self.slab.ids.len());
            self.slab.content = Content::IdPart { first: start == 0, last: end == all };
            if self.pass(true)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a text; returns whether there are enough.
    fn text(&mut self, text: &str) -> Result<bool> {
        let start = self.slab.bytes.len();
        self.slab.bytes.extend_from_slice(text.as_bytes());
        self.slab.documents.push(start..self.slab.bytes.len());
        self.pass(self.slab.bytes.len() >= SLAB_BYTES || self.slab.documents.len() >= SLAB_BYTES / 4)
    }

    /// Passes the slab on if it is full; returns whether there are enough documents.
    fn pass(&mut self, is_full: bool) -> Result<bool> {
        if !is_full {
            return Ok(false);
        }
        let enough = self.collector.take(&self.slab)?.is_break();
        self.passed += self.slab.ended();
        self.slab.clear();
        self.slab.content = self.content;
        self.slab.first_line = self.passed + 1;
        let progress = Progress::new(Stage::Reading, self.passed, None);
        self.observer.progress(&progress.with(Detail::Documents(self.collector.kept())));
        Ok(enough)
    }

    fn finish(mut self, outputs: Outputs) -> Result<Corpus> {
        self.pass(!self.slab.documents.is_empty())?;
        self.collector.finish(outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{CorpusSpec, PartOf};
    use proptest::prelude::*;

    fn described(corpus: Result<Corpus>) -> String {
        match corpus {
            Ok(c) => format!("{:?} {:?} {:?}", c.summary, c.vocabulary, c.contexts),
            Err(error) => error.to_string(),
        }
    }

    proptest! {
        #[test]
        fn documents_count_the_same_however_they_are_handed_over(
            documents in prop::collection::vec(prop::collection::vec(0u16..7, 0..9), 0..20),
            n_ctx in 1u32..6,
            exact_length: bool,
            rule in 0usize..3,
            bos: bool,
            limit in prop::option::of(1u64..9),
        ) {
            let window = Window { n_ctx, exact_length, bos, contexts: ContextRule::ALL[rule], ..Window::default() };
            let options = Options { window, limit, ..Options::default() };
            let outputs = || Outputs { may_be_empty: true, contexts: true, ..Outputs::default() };
            let flat = documents.concat();
            let offsets: Vec<u64> = std::iter::once(0)
                .chain(documents.iter().scan(0, |end, d| { *end += d.len() as u64; Some(*end) }))
                .collect();
            let wide: Vec<Vec<i64>> = documents.iter().map(|d| d.iter().map(|&id| i64::from(id)).collect()).collect();
            let expect = described(Corpus::from_ids(documents.iter().map(Vec::as_slice), &options, outputs(), &Silent));
            let found = [
                described(Corpus::from_ids(wide.iter().map(Vec::as_slice), &options, outputs(), &Silent)),
                described(Corpus::from_flat_ids(&flat, FlatIds::Offsets(&offsets), &options, outputs(), &Silent)),
            ];
            prop_assert_eq!(&found[0], &expect);
            prop_assert_eq!(&found[1], &expect);
        }
    }

    #[test]
    fn texts_count_as_the_lines_of_a_file_do() {
        let spec = CorpusSpec::default().builtin(50);
        let (_, options) = spec.resolve().unwrap();
        let texts: Vec<String> = Stories::new(0).documents(50).collect();
        let expect = described(Corpus::from_spec(&spec, Outputs::default(), &Silent));
        let texts = texts.iter().map(String::as_str);
        assert_eq!(described(Corpus::from_texts(texts, &options, Outputs::default(), &Silent)), expect);
    }

    #[test]
    fn a_long_document_comes_in_parts_and_counts_as_one() {
        let ids: Vec<u32> = (0..(SLAB_BYTES as u32 / 4 + 5)).map(|i| i * i % 1013).collect();
        let window = Window { n_ctx: 3, contexts: ContextRule::Windows, ..Window::default() };
        let options = Options { window, ..Options::default() };
        let corpus = Corpus::from_ids([&ids[..]], &options, Outputs::default(), &Silent).unwrap();
        assert_eq!(corpus.summary.windows.unwrap().windows, ids.len() as u64);
    }

    #[test]
    fn what_cannot_be_counted_is_refused_by_name() {
        let options = Options::default();
        let flat = |offsets: &[u64]| {
            let documents = FlatIds::Offsets(offsets);
            let found =
                Corpus::from_flat_ids(&[1u16, 2, 3], documents, &options, Outputs::default(), &Silent);
            found.unwrap_err().to_string()
        };
        assert_eq!(flat(&[]), "offsets: must be one more than there are documents (got none)");
        assert_eq!(flat(&[0, 2, 1]), "offsets: must not decrease (got 2, then 1)");
        assert_eq!(flat(&[0, 4]), "offsets: must be at most 3, the number of ids (got 4)");
        let negative = Corpus::from_ids([&[1i64, -1][..]], &options, Outputs::default(), &Silent);
        let says = "ids: document 1 has the id -1: token ids are from 0 to 4294967295";
        assert_eq!(negative.unwrap_err().to_string(), says);
        let shard = Options { shard: "2/2".parse::<PartOf>().unwrap(), ..Options::default() };
        let rows =
            Corpus::from_flat_ids(&[1u16, 2, 3, 4], FlatIds::Rows(2), &shard, Outputs::default(), &Silent);
        assert_eq!(rows.unwrap().summary.documents, 1);
    }
}
