//! Bins: the starts of windows by the highest bits of their keys.
//!
//! The keys of all positions are computed in one pass from the end of the text to its beginning, each from the one after it.
//! Windows that share a context whose code is longer than the bits of a bin are in one bin, so that bins are counted
//! separately and added. Shorter contexts are made up of whole bins.

use super::figures::{Figures, Nodes};
use super::keys::{Codebook, common_tokens, tokens};
use super::order::Position;
use super::text::{Code, Text};
use crate::num::huge_pages::HugePageArray;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The number of digits that determine a bin.
pub(crate) const BIN_DIGITS: usize = 3;

/// The number of bins.
pub(crate) const BINS: usize = 1 << (4 * BIN_DIGITS);

/// The first bits of the keys of a bin.
fn first_bits(bin: usize) -> u64 {
    (bin as u64) << (64 - 4 * BIN_DIGITS)
}

/// The bin of a key.
#[inline]
fn bin_of(key: u64) -> usize {
    (key >> (64 - 4 * BIN_DIGITS)) as usize
}

/// The number of tokens that all windows of a bin share.
pub(crate) fn shared_tokens(bin: usize) -> usize {
    tokens(first_bits(bin))
}

/// The number of tokens that the windows of two bins share.
pub(crate) fn common_of(a: usize, b: usize) -> usize {
    common_tokens(first_bits(a), first_bits(b))
}

/// Gives the starts among some positions with their keys, from the last to the first.
fn each_start<C: Code>(
    text: &Text<C>,
    codes: &Codebook,
    stride: usize,
    positions: Range<usize>,
    mut take: impl FnMut(usize, u64),
) {
    if positions.is_empty() {
        return;
    }
    let mut number = text.document_of(positions.end - 1) + 1;
    while number > 0 && text.document(number - 1).end > positions.start {
        number -= 1;
        let document = text.document(number);
        let (first, end) = (document.start.max(positions.start), document.end.min(positions.end));
        let mut key = codes.key(text, end);
        for (first, tokens) in text.blocks(first..end).rev() {
            if stride == 1 {
                for (i, &token) in tokens.iter().enumerate().rev() {
                    key = codes.before(token, key);
                    take(first + i, key);
                }
            } else {
                let offset = first - document.start;
                for (i, &token) in tokens.iter().enumerate().rev() {
                    key = codes.before(token, key);
                    if (offset + i).is_multiple_of(stride) {
                        take(first + i, key);
                    }
                }
            }
        }
    }
}

/// The number of starts in every bin.
pub(crate) fn bin_sizes<C: Code>(text: &Text<C>, codes: &Codebook, stride: usize) -> Vec<usize> {
    let n = text.positions();
    let step = n.div_ceil(rayon::current_num_threads()).max(1 << 16);
    (0..n.div_ceil(step))
        .into_par_iter()
        .map(|part| {
            let mut sizes = vec![0; BINS];
            let positions = part * step..((part + 1) * step).min(n);
            each_start(text, codes, stride, positions, |_, key| sizes[bin_of(key)] += 1);
            sizes
        })
        .reduce_with(|mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        })
        .unwrap_or_else(|| vec![0; BINS])
}

/// The starts of some bins with their keys.
#[derive(Debug)]
pub(crate) struct Bins<P: Position> {
    rows: HugePageArray<P::Row>,
}

impl<P: Position> Bins<P> {
    /// Room for this many starts.
    pub(crate) fn new(starts: usize) -> Self {
        Self { rows: HugePageArray::zeroed(starts + 1) }
    }

    /// Collects the starts of the bins in `range`, given the sizes of all bins; returns them bin after bin.
    pub(crate) fn collect<C: Code>(
        &mut self,
        text: &Text<C>,
        codes: &Codebook,
        stride: usize,
        sizes: &[usize],
        range: Range<usize>,
    ) -> &mut [P::Row] {
        let starts: usize = sizes[range.clone()].iter().sum();
        let rows = &mut self.rows[..=starts];
        // Starts of other bins go to a place at the end, which is cheaper than not to write them.
        let mut next = [starts; BINS];
        let mut first = 0;
        for bin in range.clone() {
            next[bin] = first;
            first += sizes[bin];
        }
        each_start(text, codes, stride, 0..text.positions(), |position, key| {
            let bin = bin_of(key);
            let slot = &mut next[bin];
            rows[*slot] = P::row(key, position);
            *slot += usize::from(bin.wrapping_sub(range.start) < range.len());
        });
        &mut rows[..starts]
    }
}

/// What is counted of a bin besides the figures of its windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BinCounts {
    pub(crate) bin: u64,
    /// The number of starts, and of those whose windows count.
    pub(crate) starts: u64,
    pub(crate) kept: u64,
    /// Of the windows that count, those that have no more tokens than all windows of the bin share, and the number of different
    /// next tokens of the others.
    pub(crate) ended: u64,
    pub(crate) children: u64,
}

impl BinCounts {
    /// Whether numbers that were read from a file can be those of a text of this many positions.
    pub(crate) fn is_possible(&self, positions: u64) -> bool {
        let Self { bin, starts, kept, ended, children } = *self;
        bin < BINS as u64
            && starts <= positions
            && kept <= starts
            && ended <= kept
            && children <= kept - ended
    }
}

/// Adds the contexts that are made up of whole bins, which are given in increasing order; `full` is the length of a full window.
pub(crate) fn add_short_contexts(
    bins: &[BinCounts],
    full: usize,
    figures: &mut Figures,
    mut nodes: Option<&mut Nodes>,
) {
    for digits in 1..=BIN_DIGITS {
        let prefix = |bin: &BinCounts| (bin.bin as usize) >> (4 * (BIN_DIGITS - digits));
        for node in bins.chunk_by(|a, b| prefix(a) == prefix(b)) {
            let bits = prefix(&node[0]) << (4 * (BIN_DIGITS - digits));
            let depth = shared_tokens(bits);
            // A token ends with these digits, and windows reach so far.
            if prefix(&node[0]) & 1 == 0 || depth > full {
                continue;
            }
            let sum = |count: fn(&BinCounts) -> u64| node.iter().map(count).sum::<u64>();
            let kept = sum(|bin| bin.kept);
            if let Some(nodes) = &mut nodes {
                nodes.edge(depth - 1, depth, sum(|bin| bin.starts));
            }
            if kept == 0 {
                continue;
            }
            if depth > 1 {
                figures.continuation(depth - 1, kept);
            }
            figures.distinct_windows += u64::from(depth == full);
            let (ended, children) = below(node, depth, full);
            if children > 0 {
                figures.context(depth, kept - ended, children);
            }
        }
    }
}

/// Of the windows that share `depth` tokens, the number of those that end there, and the number of different next tokens.
fn below(node: &[BinCounts], depth: usize, full: usize) -> (u64, u64) {
    let (mut ended, mut children) = (0, 0);
    let next = |bin: &BinCounts| {
        // The bits up to the end of the next token.
        let ends = (1..=BIN_DIGITS).map(|digits| 4 * (BIN_DIGITS - digits));
        ends.map(|left| bin.bin as usize >> left << left).find(|&bits| shared_tokens(bits) > depth)
    };
    for siblings in node.chunk_by(|a, b| next(a) == next(b)) {
        if depth < full && next(&siblings[0]).is_some() {
            children += u64::from(siblings.iter().any(|bin| bin.kept > 0));
        } else {
            ended += siblings.iter().map(|bin| bin.ended).sum::<u64>();
            children += siblings.iter().map(|bin| bin.children).sum::<u64>();
        }
    }
    (ended, children)
}
