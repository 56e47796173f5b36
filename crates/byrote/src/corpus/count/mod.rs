//! Counting contexts by sorting documents.
//!
//! The distinct contexts are the inner nodes of the prefix trie of the documents. After sorting, the prefix of length
//! t of a document is new exactly when t exceeds the longest common prefix with the document before it, so counts,
//! next-token counts and the floor follow in one scan; no hash table of contexts is ever built.
//!
//! - [`layout`]: how a document is packed into an integer whose order is the order of documents.
//! - [`sort`]: sorting documents, packed or not.
//! - [`trie_scan`]: the scan, on any division of the sorted order into parts.
//! - [`tally`]: the result of the scan, and the floor computed from it.

pub(crate) mod layout;
pub(crate) mod sort;
pub mod tally;
pub(crate) mod trie_scan;

use crate::corpus::window::ContextRule;
use layout::Positions;
use rayon::prelude::*;
use std::ops::Range;

/// Where the documents of a segment end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ends<'a> {
    /// After every `length` tokens, of which the first `kept` are used.
    Every { length: usize, kept: usize },
    /// At these offsets.
    At(&'a [usize]),
    /// One before each offset but the first, of which the first `kept` tokens are used.
    Between { offsets: &'a [u64], kept: usize },
}

/// A token as stored in memory.
pub(crate) trait Token: Copy + Sync + Send {
    /// Its index into the rank table.
    fn index(self) -> usize;
}

impl Token for u16 {
    fn index(self) -> usize {
        usize::from(self)
    }
}

impl Token for u32 {
    fn index(self) -> usize {
        self as usize
    }
}

/// Documents end to end, with provisional token ids and the map from these to ranks in the vocabulary.
#[derive(Debug)]
pub(crate) struct Segment<'a, T> {
    pub(crate) tokens: &'a [T],
    pub(crate) ends: Ends<'a>,
    /// The canonical id of each provisional one.
    pub(crate) rank: Vec<u32>,
}

impl<'a, T: Token> Segment<'a, T> {
    /// The number of documents.
    pub(crate) fn len(&self) -> usize {
        match self.ends {
            Ends::Every { length, .. } => self.tokens.len() / length,
            Ends::At(ends) => ends.len(),
            Ends::Between { offsets, .. } => offsets.len() - 1,
        }
    }

    /// The tokens of a document.
    #[inline]
    pub(crate) fn document(&self, i: usize) -> &'a [T] {
        match self.ends {
            Ends::Every { length, kept } => &self.tokens[i * length..i * length + kept],
            Ends::At(ends) => &self.tokens[if i == 0 { 0 } else { ends[i - 1] }..ends[i]],
            Ends::Between { offsets, kept } => {
                let (start, end) = (offsets[i] as usize, offsets[i + 1] as usize);
                &self.tokens[start..end.min(start + kept)]
            }
        }
    }

    /// The canonical id of token `t` of a document.
    #[inline]
    pub(crate) fn rank(&self, token: T) -> u32 {
        self.rank[token.index()]
    }
}

/// For each provisional id below `size`: the positions at which it occurs, and whether it ends a context or follows
/// one.
pub(crate) fn occurrences<T: Token>(
    segment: &Segment<'_, T>,
    size: usize,
    rule: ContextRule,
) -> Vec<Positions> {
    let n = segment.len();
    let step = n.div_ceil(rayon::current_num_threads()).max(1 << 14);
    (0..n.div_ceil(step))
        .into_par_iter()
        .map(|i| occurrences_in(segment, i * step..((i + 1) * step).min(n), size, rule))
        .reduce_with(|mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| a.union(b));
            a
        })
        .unwrap_or_else(|| vec![Positions::default(); size])
}

fn occurrences_in<T: Token>(
    segment: &Segment<'_, T>,
    documents: Range<usize>,
    size: usize,
    rule: ContextRule,
) -> Vec<Positions> {
    let mut seen = vec![Positions::default(); size];
    let longest = documents.clone().map(|i| segment.document(i).len()).max().unwrap_or(0);
    let within: Vec<Positions> = (0..longest).map(|p| Positions::occurrence(p, false, rule)).collect();
    let last: Vec<Positions> = (0..longest).map(|p| Positions::occurrence(p, true, rule)).collect();
    for i in documents {
        let Some((&end, tokens)) = segment.document(i).split_last() else { continue };
        for (&token, &occurrence) in tokens.iter().zip(&within) {
            seen[token.index()].note(occurrence);
        }
        seen[end.index()].note(last[tokens.len()]);
        if let (ContextRule::Full, Some(token)) = (rule, tokens.last()) {
            seen[token.index()].add_context_end();
        }
    }
    seen
}
