//! What is counted of the windows: integers only, so that parts can be counted in any order and added.

use super::cells::Cells;
use super::range_file::LARGEST;
use super::trie_pass::TrieVisitor;
use crate::corpus::count::tally::Histogram;
use serde::{Deserialize, Serialize};

/// A number for every length, as the differences between neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Differences(Vec<i64>);

impl Differences {
    /// Adds to the lengths `from..to`.
    #[inline]
    pub(crate) fn add(&mut self, from: usize, to: usize, value: u64) {
        if from >= to {
            return;
        }
        if to >= self.0.len() {
            self.0.resize(to + 1, 0);
        }
        self.0[from] = self.0[from].wrapping_add(value as i64);
        self.0[to] = self.0[to].wrapping_sub(value as i64);
    }

    /// Adds to all lengths from this one on.
    fn begin(&mut self, from: usize, value: u64) {
        if value == 0 {
            return;
        }
        if from >= self.0.len() {
            self.0.resize(from + 1, 0);
        }
        self.0[from] = self.0[from].wrapping_add(value as i64);
    }

    fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a = a.wrapping_add(*b));
    }

    /// The numbers for lengths 0, 1, ..., `lengths - 1`.
    pub(crate) fn sums(&self, lengths: usize) -> Vec<u64> {
        let mut sum = 0i64;
        let at = |i| self.0.get(i).copied().unwrap_or(0);
        (0..lengths)
            .map(|i| {
                sum = sum.wrapping_add(at(i));
                sum as u64
            })
            .collect()
    }
}

/// The contexts of windows, by length where that matters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figures {
    d_vocab: u64,
    pub(crate) windows: u64,
    pub(crate) distinct_windows: u64,
    /// Windows by length.
    lengths: Vec<u64>,
    /// Contexts that occur once and lie on an edge, which most contexts do; [`Figures::settle`] adds them to the others.
    lone: Differences,
    /// The depths at which edges of a single window begin, and those at which they end; [`Figures::settle`] adds them.
    #[serde(skip)]
    leaves: Vec<u64>,
    #[serde(skip)]
    leaf_ends: Vec<u64>,
    pub(crate) contexts: Differences,
    pub(crate) pairs: Differences,
    pub(crate) deterministic: Differences,
    pub(crate) deterministic_predictions: Differences,
    pub(crate) once: Differences,
    pub(crate) full_support: u64,
    /// Contexts by their count.
    pub(crate) context_counts: Histogram,
    /// Contexts minus (context, next token) pairs, by length and count.
    pub(crate) excess: Cells,
}

impl Figures {
    pub(crate) fn new(d_vocab: u64) -> Self {
        Self { d_vocab, ..Self::default() }
    }

    /// Adds a window of this length; `is_new` unless it equals the one before it.
    #[inline]
    pub(crate) fn window(&mut self, length: usize, is_new: bool) {
        self.windows += 1;
        self.distinct_windows += u64::from(is_new);
        increment(&mut self.lengths, length);
    }

    /// The number of tokens in the windows, each counted as often as it occurs in one.
    pub(crate) fn window_tokens(&self) -> u64 {
        (0..).zip(&self.lengths).map(|(length, n)| length * n).sum()
    }

    /// The number of windows longer than 0, 1, ..., `lengths - 1`: those that have a prediction after so many tokens.
    pub(crate) fn predictions(&self, lengths: usize) -> Vec<u64> {
        let mut left = self.windows;
        let at = |i: usize| self.lengths.get(i).copied().unwrap_or(0);
        (0..lengths)
            .map(|length| {
                left = left.saturating_sub(at(length));
                left
            })
            .collect()
    }

    /// A length that no window exceeds.
    pub(crate) fn longest_window(&self) -> usize {
        self.lengths.len()
    }

    /// Whether figures that were read from a file can be those of windows of at most `n_ctx` + 1 tokens.
    pub(crate) fn are_possible(&self, n_ctx: usize) -> bool {
        let arrays = [
            &self.lone,
            &self.contexts,
            &self.pairs,
            &self.deterministic,
            &self.deterministic_predictions,
            &self.once,
        ];
        let small = |n: u64| n <= LARGEST;
        arrays.iter().all(|a| a.0.len() <= n_ctx + 3 && a.0.iter().all(|n| small(n.unsigned_abs())))
            && self.lengths.len() <= n_ctx + 2
            && self.excess.longest() <= n_ctx + 2
            && self.lengths.iter().try_fold(0u64, |sum, &n| sum.checked_add(n)) == Some(self.windows)
            && [self.windows, self.distinct_windows, self.full_support].into_iter().all(small)
            && self.context_counts.iter().all(|(k, n)| k > 0 && small(k) && small(n))
    }

    /// Completes the figures.
    pub(crate) fn settle(&mut self) {
        for (p, n) in std::mem::take(&mut self.leaves).into_iter().enumerate() {
            self.lone.begin(p + 1, n);
            self.pairs.begin(p.max(1), n);
        }
        for (q, n) in std::mem::take(&mut self.leaf_ends).into_iter().enumerate() {
            self.lone.begin(q, n.wrapping_neg());
            self.pairs.begin(q, n.wrapping_neg());
        }
        let lone = std::mem::take(&mut self.lone);
        let contexts: u64 = lone.sums(lone.0.len()).iter().sum();
        for figure in
            [&mut self.contexts, &mut self.deterministic, &mut self.deterministic_predictions, &mut self.once]
        {
            figure.merge(&lone);
        }
        self.context_counts.add_many(1, contexts);
        if self.d_vocab == 1 {
            self.full_support += contexts;
        }
    }

    /// Adds the node of a class as the continuation of a context of this length.
    pub(crate) fn continuation(&mut self, length: usize, count: u64) {
        self.pairs.add(length, length + 1, 1);
        self.excess.add(length, count, -1);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.windows += other.windows;
        self.distinct_windows += other.distinct_windows;
        merge(&mut self.lengths, &other.lengths);
        self.lone.merge(&other.lone);
        merge(&mut self.leaves, &other.leaves);
        merge(&mut self.leaf_ends, &other.leaf_ends);
        self.contexts.merge(&other.contexts);
        self.pairs.merge(&other.pairs);
        self.deterministic.merge(&other.deterministic);
        self.deterministic_predictions.merge(&other.deterministic_predictions);
        self.once.merge(&other.once);
        self.full_support += other.full_support;
        self.context_counts.merge(&other.context_counts);
        self.excess.merge(&other.excess);
    }
}

/// Counts one more of a number.
#[inline]
fn increment(counts: &mut Vec<u64>, number: usize) {
    if number >= counts.len() {
        counts.resize(number + 1, 0);
    }
    counts[number] += 1;
}

fn merge(counts: &mut Vec<u64>, others: &[u64]) {
    if counts.len() < others.len() {
        counts.resize(others.len(), 0);
    }
    counts.iter_mut().zip(others).for_each(|(a, b)| *a += b);
}

impl Figures {
    /// The nodes of depths `p + 1..=q` on an edge.
    fn edge(&mut self, p: usize, q: usize, through: u64) {
        let contexts = q - 1 - p;
        if through == 1 {
            self.lone.add(p + 1, q, 1);
        } else if contexts > 0 {
            self.contexts.add(p + 1, q, 1);
            self.deterministic.add(p + 1, q, 1);
            self.deterministic_predictions.add(p + 1, q, through);
            self.context_counts.add_many(through, contexts as u64);
            if self.d_vocab == 1 {
                self.full_support += contexts as u64;
            }
        }
        self.pairs.add(p.max(1), q, 1);
        if p >= 1 {
            self.excess.add(p, through, -1);
        }
    }

    pub(crate) fn context(&mut self, depth: usize, count: u64, next: u64) {
        self.contexts.add(depth, depth + 1, 1);
        self.context_counts.add_many(count, 1);
        self.excess.add(depth, count, 1);
        if count == 1 {
            self.once.add(depth, depth + 1, 1);
        }
        if next == 1 {
            self.deterministic.add(depth, depth + 1, 1);
            self.deterministic_predictions.add(depth, depth + 1, count);
        }
        self.full_support += u64::from(next == self.d_vocab);
    }
}

/// The nodes of a trie by depth and number of windows through them, as differences over the depth.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Nodes(pub(crate) Cells);

impl Nodes {
    pub(crate) fn edge(&mut self, p: usize, q: usize, through: u64) {
        self.0.add(p + 1, through, 1);
        self.0.add(q + 1, through, -1);
    }
}

/// Where the windows of a class are counted.
pub(crate) struct Counts<'c> {
    pub(crate) figures: &'c mut Figures,
    pub(crate) nodes: Option<&'c mut Nodes>,
}

impl TrieVisitor for Counts<'_> {
    #[inline]
    fn edge(&mut self, p: usize, q: usize, through: u64) {
        self.figures.edge(p, q, through);
    }

    #[inline]
    fn leaf(&mut self, p: usize, q: usize) {
        increment(&mut self.figures.leaves, p);
        increment(&mut self.figures.leaf_ends, q);
    }

    #[inline]
    fn context(&mut self, depth: usize, count: u64, next: u64) {
        self.figures.context(depth, count, next);
    }

    #[inline]
    fn edge_of_all(&mut self, p: usize, q: usize, through: u64) {
        if let Some(nodes) = &mut self.nodes {
            nodes.edge(p, q, through);
        }
    }
}
