//! The result of scanning sorted documents, and the floor computed from it.
//!
//! The floor (madden2024, Lemma 2: the entropy lower bound) is a sum over integers,
//!
//! ```text
//! H = sum_i c_i ln c_i - sum_{i,g} n_ig ln n_ig = sum_k (A_k - B_k) k ln k
//! ```
//!
//! where A_k is the number of contexts that occur k times and B_k the number of (context, next token) pairs that do.
//! The histograms A and B are exact for any order of documents, any number of threads and any spilling, and the last sum
//! runs over increasing k in double-double arithmetic. So the floor is the same to the last bit in all these cases, and
//! correct to the last bit except for the final rounding.

use crate::num::dd::{Dd, xlnx};
use crate::units::Nats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A histogram of positive integers, most of which are small.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Histogram {
    /// `dense[k]` values were k.
    dense: Vec<u64>,
    sparse: BTreeMap<u64, u64>,
}

/// Values below this are counted in an array.
const DENSE: u64 = 512;

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, k: u64) {
        if let Some(slot) = self.dense.get_mut(k as usize) {
            *slot += 1;
        } else {
            self.add_many(k, 1);
        }
    }

    pub(crate) fn add_many(&mut self, k: u64, times: u64) {
        if times == 0 {
            return;
        }
        if k < DENSE {
            let size = (k + 1).next_power_of_two().max(4) as usize;
            if self.dense.len() < size {
                self.dense.resize(size, 0);
            }
            self.dense[k as usize] += times;
        } else {
            *self.sparse.entry(k).or_insert(0) += times;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (k, n) in other.iter() {
            self.add_many(k, n);
        }
    }

    /// Iterates over the values that occur and their frequencies, in increasing order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let dense = (0..).zip(&self.dense).filter(|(_, n)| **n > 0).map(|(k, n)| (k, *n));
        // `zip` with an open range is not double-ended, so the indices are counted.
        let dense: Vec<(u64, u64)> = dense.collect();
        dense.into_iter().chain(self.sparse.iter().map(|(k, n)| (*k, *n)))
    }
}

/// The contexts that the most distinct tokens follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Widest {
    /// The number of distinct next tokens.
    pub(crate) next: u64,
    /// The number of contexts with that many.
    pub(crate) contexts: u64,
}

impl Widest {
    #[inline]
    fn add(&mut self, next: u64, contexts: u64) {
        if next > self.next {
            *self = Self { next, contexts: 0 };
        }
        if next == self.next {
            self.contexts += contexts;
        }
    }
}

/// The contexts of one length, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// The number of distinct contexts.
    pub contexts: u64,
    /// The number of predictions: the sum of the counts of the contexts.
    pub predictions: u64,
    /// The number of contexts with a single next token.
    pub deterministic: u64,
    /// The number of predictions that they make.
    pub deterministic_predictions: u64,
    /// The number of (context, next token) pairs.
    pub pairs: u64,
    /// The largest number of distinct next tokens of a context, and the number of contexts that have it.
    pub(crate) widest: Widest,
    /// A: the contexts by their count.
    pub(crate) context_counts: Histogram,
    /// B: (context, next token) pairs by their count.
    pub(crate) next_counts: Histogram,
}

impl Tally {
    /// Adds a complete context.
    #[inline]
    pub(crate) fn context(&mut self, count: u64, distinct_next: u64) {
        self.contexts += 1;
        self.predictions += count;
        if distinct_next == 1 {
            self.deterministic += 1;
            self.deterministic_predictions += count;
        }
        self.pairs += distinct_next;
        self.widest.add(distinct_next, 1);
        self.context_counts.add(count);
    }

    /// Adds `times` contexts that occur `count` times each, always before the same token.
    pub(crate) fn unary_contexts(&mut self, count: u64, times: u64) {
        self.contexts += times;
        self.predictions += count * times;
        self.deterministic += times;
        self.deterministic_predictions += count * times;
        self.pairs += times;
        self.widest.add(1, times);
        self.context_counts.add_many(count, times);
        self.next_counts.add_many(count, times);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.contexts += other.contexts;
        self.predictions += other.predictions;
        self.deterministic += other.deterministic;
        self.deterministic_predictions += other.deterministic_predictions;
        self.pairs += other.pairs;
        self.widest.add(other.widest.next, other.widest.contexts);
        self.context_counts.merge(&other.context_counts);
        self.next_counts.merge(&other.next_counts);
    }

    /// Adds the figures of a single context of which another part of the documents was counted: the two are the same context,
    /// and no next token of it is in both parts.
    pub(crate) fn merge_same_context(&mut self, other: &Self) {
        let mut next_counts = std::mem::take(&mut self.next_counts);
        next_counts.merge(&other.next_counts);
        let (count, next) = (self.predictions + other.predictions, self.pairs + other.pairs);
        *self = Self::default();
        if next > 0 {
            self.context(count, next);
        }
        self.next_counts = next_counts;
    }

    /// Whether the figures can be those of contexts: what is counted twice agrees.
    pub(crate) fn is_consistent(&self) -> bool {
        let sums = |histogram: &Histogram| {
            histogram.iter().try_fold((0u64, 0u64), |(n, total), (k, times)| {
                let total = total.checked_add(k.checked_mul(times)?)?;
                (k > 0).then_some((n.checked_add(times)?, total))
            })
        };
        sums(&self.context_counts) == Some((self.contexts, self.predictions))
            && sums(&self.next_counts) == Some((self.pairs, self.predictions))
            && self.contexts <= self.pairs
            && self.deterministic <= self.contexts
            && self.deterministic_predictions <= self.predictions
            && self.widest.contexts <= self.contexts
            && self.widest.next <= self.pairs
    }

    /// Returns the number of contexts that every token of a vocabulary of this size follows at least once.
    pub fn full_support(&self, d_vocab: u64) -> u64 {
        if self.widest.next == d_vocab { self.widest.contexts } else { 0 }
    }

    /// Returns the number of contexts that occur once.
    pub fn once(&self) -> u64 {
        self.context_counts.iter().next().map_or(0, |(k, n)| if k == 1 { n } else { 0 })
    }

    /// Returns the lowest training loss that any model can reach on these contexts.
    pub fn floor(&self) -> Nats {
        let mut terms: BTreeMap<u64, i128> = BTreeMap::new();
        for (k, n) in self.context_counts.iter() {
            *terms.entry(k).or_insert(0) += i128::from(n);
        }
        for (k, n) in self.next_counts.iter() {
            *terms.entry(k).or_insert(0) -= i128::from(n);
        }
        floor_of(terms, xlnx)
    }

    /// Returns T_eps of dana2024: the smallest number of contexts whose counts make up at least 1 - epsilon of all
    /// predictions, for `epsilon` in thousandths of a percent (1e-5), in exact integer arithmetic.
    pub fn coverage(&self, epsilon_1e5: u32) -> u64 {
        self.context_counts.coverage(self.predictions, epsilon_1e5)
    }
}

/// The sum of n k ln k over terms (k, n) in increasing order of k; `xlnx` gives k ln k. The sum is that of a floor, which is
/// not negative.
///
/// The returned double exceeds the true value by at most one unit in its last place: the error of the double-double
/// sum is at most a bound that is computed alongside, which is subtracted in the rare case that it matters
/// (billions of predictions and a tiny floor), and rounding the sum to a double costs half a unit.
/// [`Nats::at_least`] accounts for that.
pub(crate) fn floor_of(
    terms: impl IntoIterator<Item = (u64, i128)>,
    mut xlnx: impl FnMut(u64) -> Dd,
) -> Nats {
    let mut sum = Dd::default();
    let (mut magnitude, mut count) = (0.0, 0.0);
    for (k, n) in terms {
        // k = 1 contributes 1 ln 1 = 0, and n is below 2^53 in any corpus that can be stored.
        if k > 1 && n != 0 {
            let term = xlnx(k) * Dd::from(n as f64);
            magnitude += term.to_f64().abs();
            count += 1.0;
            sum += term;
        }
    }
    // A term has a relative error below 1.1e-30 (x ln x and a product), and each partial sum, which is at most
    // `magnitude`, one below 3.1 u^2 = 3.9e-32 (num::dd).
    let error = magnitude * (1.2e-30 + 4e-32 * count);
    let nearest = sum.to_f64();
    let lower = if error > 0.25 * f64::EPSILON * nearest { nearest - error } else { nearest };
    // A sum of non-negative entropies: anything below zero is rounding.
    Nats(lower.max(0.0))
}

impl Histogram {
    /// The smallest number of contexts whose counts make up at least 1 - epsilon of `predictions`.
    pub(crate) fn coverage(&self, predictions: u64, epsilon_1e5: u32) -> u64 {
        let needed = u128::from(predictions) * u128::from(100_000 - epsilon_1e5.min(100_000));
        let (mut covered, mut contexts) = (0u128, 0u64);
        for (k, n) in self.iter().rev() {
            if covered * 100_000 >= needed {
                break;
            }
            // The smallest number of contexts of count k that reach the rest: ceil((needed / 1e5 - covered) / k).
            let missing = needed - covered * 100_000;
            let take = missing.div_ceil(u128::from(k) * 100_000).min(u128::from(n)) as u64;
            covered += u128::from(take) * u128::from(k);
            contexts += take;
        }
        contexts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(contexts: &[&[u64]]) -> Tally {
        let mut t = Tally::default();
        for next in contexts {
            t.context(next.iter().sum(), next.len() as u64);
            next.iter().for_each(|&n| t.next_counts.add(n));
        }
        t
    }

    #[test]
    fn the_worked_example_has_its_floor() {
        // a: b b b; ab: a a b; aba: b c. Floor (2 ln(3/2) + ln 3) + 2 ln 2.
        let t = tally(&[&[3], &[2, 1], &[1, 1]]);
        assert_eq!((t.contexts, t.predictions, t.deterministic, t.pairs), (3, 8, 1, 5));
        assert!((t.floor().0 - 3.295_836_866_004_329).abs() < 4e-16 * 3.3);
    }

    #[test]
    fn two_parts_of_one_context_are_one_context() {
        let mut part = tally(&[&[3, 1]]);
        part.merge_same_context(&tally(&[&[2]]));
        assert_eq!(part, tally(&[&[3, 1, 2]]));
        assert_eq!((part.full_support(3), part.full_support(2)), (1, 0));
        let mut nothing = Tally::default();
        nothing.merge_same_context(&Tally::default());
        assert_eq!(nothing, Tally::default());
    }

    #[test]
    fn the_floor_does_not_lose_small_terms_beside_large_ones() {
        let large = 1u64 << 40;
        let t = tally(&[&[large], &[large, 1], &[1, 1]]);
        // (L+1) ln(L+1) - L ln L = ln L + 1 + 1/(2L) + ..., then 2 ln 2.
        let expect = (large as f64).ln() + 1.0 + 0.5 / large as f64 + 2.0 * 2f64.ln();
        assert!((t.floor().0 - expect).abs() < 1e-14, "{} {expect}", t.floor().0);
    }

    #[test]
    fn coverage_counts_the_fewest_contexts() {
        let t = tally(&[&[50], &[30], &[10], &[10]]);
        assert_eq!([0, 10_000, 15_000, 20_000, 50_000, 100_000].map(|e| t.coverage(e)), [4, 3, 3, 2, 1, 0]);
    }
}
