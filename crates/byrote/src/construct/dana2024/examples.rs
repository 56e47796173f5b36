//! Datasets for tests.

use crate::dataset::Dataset;
use crate::num::Stream;
use std::collections::BTreeSet;

/// A context: its tokens, its count, and the shares of its next tokens.
pub(crate) type Context = (Vec<u32>, f64, Vec<(u32, f64)>);

/// The dataset of these contexts; shares are scaled to the count.
pub(crate) fn of_contexts(d_vocab: u64, contexts: impl Iterator<Item = Context>) -> Dataset {
    let scaled = |(tokens, count, mut shares): Context| {
        shares.sort_by_key(|s| s.0);
        let total: f64 = shares.iter().map(|s| s.1).sum();
        (tokens, shares.into_iter().map(|(t, s)| (t, s / total * count)).collect::<Vec<_>>())
    };
    let contexts = contexts.map(scaled).collect::<Vec<_>>();
    let n_ctx = contexts.iter().map(|c| c.0.len()).max().unwrap_or(1);
    Dataset::new(d_vocab, n_ctx as u64, contexts).unwrap()
}

/// Distinct random sequences of `length` tokens.
pub(crate) fn sequences(d_vocab: u32, length: usize, count: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut stream = Stream::new(seed, "sequences", 0);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    while all.len() < count {
        let tokens: Vec<u32> = (0..length).map(|_| stream.below(d_vocab.into()) as u32).collect();
        if seen.insert(tokens.clone()) {
            all.push(tokens);
        }
    }
    all
}

/// Random sequences, each with a random label.
pub(crate) fn associations(d_vocab: u32, length: usize, count: usize, seed: u64) -> Dataset {
    let mut stream = Stream::new(seed, "labels", 0);
    let label = |tokens| (tokens, 1.0, vec![(stream.below(d_vocab.into()) as u32, 1.0)]);
    of_contexts(d_vocab.into(), sequences(d_vocab, length, count, seed).into_iter().map(label))
}

/// Pairs of tokens whose second is one of `last` tokens, with random labels.
pub(crate) fn pairs_ending_in(d_vocab: u32, last: u32, count: u32) -> Dataset {
    let mut stream = Stream::new(1, "labels", 1);
    let pair = |i: u32| {
        let label = stream.below(d_vocab.into()) as u32;
        (vec![i / last, i % last], 1.0, vec![(label, 1.0)])
    };
    of_contexts(d_vocab.into(), (0..count).map(pair))
}

/// All sequences of `length` tokens, each with a label.
pub(crate) fn all_grams(d_vocab: u32, length: usize) -> Dataset {
    let count = d_vocab.pow(length as u32);
    let tokens = |i: u32| (0..length as u32).map(|p| i / d_vocab.pow(p) % d_vocab).collect();
    of_contexts(d_vocab.into(), (0..count).map(|i| (tokens(i), 1.0, vec![(i % d_vocab, 1.0)])))
}

/// Random sequences with random distributions: flat at concentration 1, peaked near 0; counts decrease like 1/rank.
pub(crate) fn distributions(
    d_vocab: u32,
    length: usize,
    count: usize,
    concentration: f64,
    seed: u64,
) -> Dataset {
    let mut stream = Stream::new(seed, "distributions", 0);
    let mut rank = 0.0;
    let context = |tokens| {
        let share =
            |stream: &mut Stream| -(1.0 - stream.unit()).ln() * stream.unit().powf(1.0 / concentration - 1.0);
        let shares = (0..d_vocab).map(|t| (t, share(&mut stream).max(1e-12))).collect();
        rank += 1.0;
        (tokens, 100.0 / rank, shares)
    };
    of_contexts(d_vocab.into(), sequences(d_vocab, length, count, seed).into_iter().map(context))
}

/// Distributions whose logits are of this rank.
pub(crate) fn of_rank(d_vocab: u32, count: usize, rank: usize, seed: u64) -> Dataset {
    let mut stream = Stream::new(seed, "of rank", 0);
    let w: Vec<f64> = (0..d_vocab as usize * rank).map(|_| stream.normal()).collect();
    let context = |tokens| {
        let e: Vec<f64> = (0..rank).map(|_| 1.5 * stream.normal()).collect();
        let logit = |t: u32| (0..rank).map(|k| w[t as usize * rank + k] * e[k]).sum::<f64>();
        (tokens, 1.0, (0..d_vocab).map(|t| (t, logit(t).exp())).collect())
    };
    of_contexts(d_vocab.into(), sequences(d_vocab, 2, count, seed).into_iter().map(context))
}
