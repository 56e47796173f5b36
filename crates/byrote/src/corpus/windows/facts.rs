//! What is known of a text without sorting its windows.

use super::range_file::LARGEST;
use super::{Code, Text, WindowRule};
use crate::corpus::sorted_run::Header;
use crate::corpus::vocabulary::Vocabulary;
use crate::num::hash::Fnv;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many tokens occur how often: (count, tokens), by increasing count.
pub(crate) type Frequencies = Vec<(u64, u64)>;

/// A text and its windows, as far as no order of them is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Facts {
    pub(crate) documents: u64,
    pub(crate) tokens: u64,
    /// Tokens and ends of documents.
    pub(crate) positions: u64,
    pub(crate) d_vocab: u64,
    pub(crate) labels: u64,
    pub(crate) distinct_last_tokens: u64,
    /// The number of windows.
    pub(crate) windows: u64,
    /// The tokens of the text by how often they occur.
    pub(crate) tokens_by_count: Frequencies,
    pub(crate) rule: WindowRule,
    pub(crate) header: Header,
}

impl Facts {
    pub(crate) fn new<C: Code>(
        text: &Text<C>,
        rule: WindowRule,
        vocabulary: &Vocabulary,
        counts: &[u64],
        header: Header,
    ) -> Self {
        Self {
            documents: text.documents() as u64,
            tokens: text.tokens() as u64,
            positions: text.positions() as u64,
            d_vocab: vocabulary.len() as u64,
            labels: vocabulary.labels(),
            distinct_last_tokens: vocabulary.distinct_last_tokens(),
            windows: (0..text.documents()).map(|i| rule.starts(text.document(i).len()).len() as u64).sum(),
            tokens_by_count: frequencies(counts.iter().copied()),
            rule,
            header,
        }
    }
}

fn frequencies(counts: impl Iterator<Item = u64>) -> Frequencies {
    // Most tokens of a large vocabulary are rare.
    let (mut rare, mut frequent) = ([0; 256], BTreeMap::new());
    for n in counts {
        match usize::try_from(n).ok().and_then(|n| rare.get_mut(n)) {
            Some(tokens) => *tokens += 1,
            None => *frequent.entry(n).or_insert(0) += 1,
        }
    }
    let rare = (0..).zip(rare).skip(1).filter(|&(_, tokens)| tokens > 0);
    rare.chain(frequent).collect()
}

/// A hash of a text: its tokens in order, and where documents end.
pub(crate) fn fingerprint<C: Code>(text: &Text<C>, alphabet: &Vocabulary) -> u64 {
    let mut hash = Fnv::new();
    hash.write(&alphabet.fingerprint().to_le_bytes());
    for (_, codes) in text.blocks(0..text.positions()) {
        codes.iter().for_each(|code| hash.write(&code.get().to_le_bytes()));
    }
    hash.finish()
}

/// How often tokens are the first one of a full window, at growing longest contexts.
pub(crate) trait FirstTokenCounts {
    /// Goes on to a longer context: reports (count, change) of how many tokens have that count, and returns the number of full
    /// windows.
    fn advance(&mut self, n_ctx: usize, change: &mut dyn FnMut(u64, i128)) -> u64;
}

/// The counts at some longest context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredCounts {
    pub(crate) n_ctx: u64,
    windows: u64,
    counts: Frequencies,
}

impl StoredCounts {
    /// Whether numbers that were read from a file are of possible sizes.
    pub(crate) fn is_possible(&self) -> bool {
        let small = |n: u64| n <= LARGEST;
        small(self.windows) && self.counts.iter().all(|&(k, n)| small(k) && small(n))
    }
}

/// The counts at chosen longest contexts.
pub(crate) fn stored_counts<C: Code>(text: &Text<C>, stride: usize, n_ctx: &[usize]) -> Vec<StoredCounts> {
    let mut firsts = FirstTokens::new(text, stride);
    n_ctx
        .iter()
        .map(|&n_ctx| {
            firsts.drop_short(n_ctx, |_, _| {});
            let counts = frequencies(firsts.counts.iter().copied());
            StoredCounts { n_ctx: n_ctx as u64, windows: firsts.windows, counts }
        })
        .collect()
}

/// Counts that were stored, for the same longest contexts in the same order.
pub(crate) struct Stored<'s> {
    left: std::slice::Iter<'s, StoredCounts>,
    before: &'s [(u64, u64)],
}

impl<'s> Stored<'s> {
    pub(crate) fn new(counts: &'s [StoredCounts]) -> Self {
        Self { left: counts.iter(), before: &[] }
    }
}

impl FirstTokenCounts for Stored<'_> {
    fn advance(&mut self, n_ctx: usize, change: &mut dyn FnMut(u64, i128)) -> u64 {
        let Some(next) = self.left.find(|stored| stored.n_ctx == n_ctx as u64) else { return 0 };
        self.before.iter().for_each(|&(k, n)| change(k, -i128::from(n)));
        next.counts.iter().for_each(|&(k, n)| change(k, i128::from(n)));
        self.before = &next.counts;
        next.windows
    }
}

/// How often every token of a text occurs, by code.
pub(crate) fn token_counts<C: Code>(text: &Text<C>) -> Vec<u64> {
    let n = text.positions();
    let step = n.div_ceil(rayon::current_num_threads()).max(1 << 16);
    let parts = (0..n.div_ceil(step)).into_par_iter().map(|part| {
        let mut counts = Vec::new();
        for (_, codes) in text.blocks(part * step..n.min((part + 1) * step)) {
            codes.iter().for_each(|&code| increment(&mut counts, code));
        }
        counts
    });
    let mut counts = parts.reduce(Vec::new, |mut a, mut b| {
        if a.len() < b.len() {
            std::mem::swap(&mut a, &mut b);
        }
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    });
    // The end marks.
    counts.iter_mut().take(1).for_each(|ends| *ends = 0);
    counts
}

/// Counts one more of a code.
#[inline]
fn increment<C: Code>(counts: &mut Vec<u64>, code: C) {
    let code = code.get() as usize;
    if code >= counts.len() {
        counts.resize(code + 1, 0);
    }
    counts[code] += 1;
}

/// Counts that are taken from a text.
pub(crate) struct FirstTokens<'t, C> {
    text: &'t Text<C>,
    counts: Vec<u64>,
    windows: u64,
    n_ctx: usize,
    stride: usize,
    is_new: bool,
    /// The documents of more than `n_ctx` tokens; none before the first context is dropped.
    long: Option<Vec<usize>>,
}

impl<'t, C: Code> FirstTokens<'t, C> {
    /// The counts at context 0, where every start has a full window.
    pub(crate) fn new(text: &'t Text<C>, stride: usize) -> Self {
        if stride == 1 {
            return Self::of_all(text, token_counts(text));
        }
        let (mut counts, mut windows) = (Vec::new(), 0);
        for document in (0..text.documents()).map(|i| text.document(i)) {
            for (first, codes) in text.blocks(document.clone()) {
                let skipped = (first - document.start).next_multiple_of(stride) - (first - document.start);
                for &code in codes.iter().skip(skipped).step_by(stride) {
                    increment(&mut counts, code);
                    windows += 1;
                }
            }
        }
        Self { text, counts, windows, n_ctx: 0, stride, is_new: true, long: None }
    }

    /// The same where windows start at every token, given how often every token occurs.
    pub(crate) fn of_all(text: &'t Text<C>, counts: Vec<u64>) -> Self {
        let windows = text.tokens() as u64;
        Self { text, counts, windows, n_ctx: 0, stride: 1, is_new: true, long: None }
    }

    /// The number of documents that the next step looks at.
    #[cfg(test)]
    pub(super) fn long_documents(&self) -> usize {
        self.long.as_ref().map_or(self.text.documents(), Vec::len)
    }

    /// Goes on to a longer context, and reports every change of a count.
    fn drop_short(&mut self, n_ctx: usize, mut change: impl FnMut(u64, u64)) {
        let mut long = self.long.take().unwrap_or_else(|| (0..self.text.documents()).collect());
        // All steps together take time in proportion to the text.
        long.retain(|&i| {
            let document = self.text.document(i);
            // Starts with at most `n_ctx` and more than `self.n_ctx` tokens after and including them.
            let from = document.len().saturating_sub(n_ctx);
            let to = document.len().saturating_sub(self.n_ctx);
            for start in (from.next_multiple_of(self.stride)..to).step_by(self.stride) {
                let count = &mut self.counts[self.text.code(document.start + start) as usize];
                change(*count, *count - 1);
                *count -= 1;
                self.windows -= 1;
            }
            from > 0
        });
        self.long = Some(long);
        self.n_ctx = n_ctx;
    }
}

impl<C: Code> FirstTokenCounts for FirstTokens<'_, C> {
    fn advance(&mut self, n_ctx: usize, change: &mut dyn FnMut(u64, i128)) -> u64 {
        if std::mem::take(&mut self.is_new) {
            self.counts.iter().for_each(|&n| change(n, 1));
        }
        self.drop_short(n_ctx, |from, to| {
            change(from, -1);
            change(to, 1);
        });
        self.windows
    }
}
