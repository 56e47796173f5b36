//! The corpus of madden2024's Theorem 1, and how far above its floor a model must stay.
//!
//! Theorem 1 promises a corpus that k parameters do not learn. Its proof only says that almost every choice of distributions will
//! do: if n' contexts have more than k free numbers, n' (omega - 1) of them, the image of the parameters has no interior there, nor
//! has its closure. For counts from a finite grid we expect the same, without proof. [`documents`] follows the proof with counts
//! drawn at random: the first n' sequences of T tokens, each followed by every token 1, 2, 4, 8 or 16 times.
//!
//! Two functions say what is known of such a corpus, or of any other one.
//!
//! * [`gap_at_least`] is proved. Let the logits of a model have rank r, as those of r hidden neurons do. Let Y hold the
//!   logarithms of the counts, one column per context that is followed by every token, with the mean of every column
//!   subtracted, let s_1 >= s_2 >= ... be its singular values, and let c be its smallest count. Then
//!
//!   ```text
//!   gap >= (c / 2) (exp(-R) + R - 1),    R^2 = 2 (s_{r+1}^2 + s_{r+2}^2 + ...).
//!   ```
//!
//! * [`dimension`] is measured. It is the rank of the derivative of the predictions by the parameters at a random point,
//!   and hence the dimension of what the model can reach, unless arithmetic misses some of it. Symmetries make it smaller
//!   than k. If the true dimension is smaller than the [`free_numbers`] of the corpus, almost every choice of distributions
//!   is out of reach. Upper bounds on it come from the rank of the logits and from the symmetries, and the measured values
//!   are equal to them (docs/derivations/madden2024.md).
//!
//! Proof of the first. Let the logits of a context be y + d, where softmax(y) = P is its distribution, and let g(t) =
//! lse(y + t d). Then KL = g(1) - g(0) - g'(0), and g'' is the variance of d under softmax(y + t d), whose derivative is
//! the third central moment: |g'''| <= r g'' with r = max d - min d. So g''(t) >= g''(0) exp(-r t), which integrates to
//! KL >= g''(0) (exp(-r) + r - 1) / r^2. Here g''(0) >= p |d'|^2, with p the smallest probability and d' = d minus its
//! mean; r <= sqrt(2) |d'|; and the quotient falls with r. So KL >= (p / 2) f(2 |d'|^2) with f(x) = exp(-sqrt x) +
//! sqrt x - 1. A context that occurs n times contributes n KL, and n p >= c. Since f is concave and f(0) = 0, the sum over
//! contexts is at least (c / 2) f(2 sum |d'|^2); and the sum is the squared distance of Y from a matrix of rank r, which is
//! at least s_{r+1}^2 + ... (Eckart and Young).
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | k, omega, T | k, omega, T | parameters, tokens, longest context |
//! | n' | n' | contexts of T tokens |
//! | Y | log of Y | the targets; the paper's Y holds probabilities |
//!
//! Changed: the paper proves that a suitable corpus exists, and gives none. Which of them is out of reach depends on the
//! model, and no single corpus is out of reach of every model with k parameters. The bound on the gap is ours.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorem 1; F. Bach, Electronic Journal of
//! Statistics 4 (2010), Proposition 1, for the inequality between the second and the third derivative.

use super::madden2024::{HardCorpus, hard_corpus};
use crate::dataset::Dataset;
use crate::model::{Config, Hidden, Model};
use crate::num::Stream;
use crate::num::linear::{Svd, from_rows};
use crate::units::AtLeast;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// The most (document, count) pairs of a corpus.
const MOST: u128 = 1 << 22;
/// Next tokens follow 2^0 to 2^4 times.
const EXPONENTS: u64 = 5;
/// A part of the largest singular value that covers the rounding of the others, many times over.
const ROUNDING: f64 = 1e-10;
/// The step of the differences that a derivative is computed from.
const STEP: f64 = 1e-3;
/// A singular value of the derivative below this part of the largest counts as 0.
const ZERO: f64 = 1e-9;
/// A column of the derivative below this part of the largest has lost too many digits to count.
const UNRELIABLE: f64 = 1e-3;
/// Standard deviations of the weights at which a derivative is computed.
const SIZES: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// The documents of T + 1 tokens of a corpus as Theorem 1 promises for `k` parameters and `omega` tokens, in order, each
/// with the number of its copies.
///
/// # Errors
/// If `omega` is below 2, or if the corpus would be too large.
pub fn documents(k: u128, omega: u64, seed: u64) -> Result<Vec<(Vec<u32>, u64)>> {
    if omega < 2 {
        return Err(Error::setting("d_vocab", format!("must be at least 2 (got {omega})")));
    }
    let n = full_contexts(k, omega);
    let too_large = || {
        let message = format!("{k}: its corpus has more than {MOST} distinct documents");
        Error::setting("parameters", message)
    };
    let HardCorpus { n_ctx, .. } = hard_corpus(k, omega).ok_or_else(too_large)?;
    if n.saturating_mul(omega.into()) > MOST {
        return Err(too_large());
    }
    let mut stream = Stream::new(seed, "madden2024 theorem 1", 0);
    let mut all = Vec::new();
    for context in 0..n as u64 {
        for next in 0..omega {
            let digits = (0..n_ctx).rev().map(|place| digit(context, place, omega));
            let document = digits.chain([next]).map(|token| token as u32).collect();
            all.push((document, 1 << stream.below(EXPONENTS)));
        }
    }
    Ok(all)
}

/// n' of Theorem 1: one context more than `k` parameters can give every choice of distributions.
pub fn full_contexts(k: u128, omega: u64) -> u128 {
    k / u128::from(omega).saturating_sub(1).max(1) + 1
}

/// The digit of a number at a place, counted from the last one. Places beyond the number hold 0.
fn digit(number: u64, place: u64, base: u64) -> u64 {
    let mut rest = number;
    for _ in 0..place {
        rest /= base;
    }
    rest % base
}

/// The contexts of documents, with what follows them.
///
/// # Errors
/// If there are none, or if a token is not below `omega`.
pub fn dataset(documents: &[(Vec<u32>, u64)], omega: u64) -> Result<Dataset> {
    let mut contexts: BTreeMap<(usize, &[u32]), BTreeMap<u32, u64>> = BTreeMap::new();
    for (document, copies) in documents {
        for t in 1..document.len() {
            let next = contexts.entry((t, &document[..t])).or_default();
            *next.entry(document[t]).or_default() += copies;
        }
    }
    let n_ctx = documents.iter().map(|d| d.0.len().saturating_sub(1)).max().unwrap_or(0);
    let counted = contexts.into_iter().map(|((_, tokens), next)| {
        (tokens.to_vec(), next.into_iter().map(|(token, n)| (token, n as f64)).collect())
    });
    Dataset::new(omega, n_ctx as u64, counted)
}

/// The free numbers of a corpus: one less than the next tokens of every context.
pub fn free_numbers(dataset: &Dataset) -> u64 {
    (0..dataset.len()).map(|i| dataset.next_of(i).len() as u64 - 1).sum()
}

/// The rank of the logits of a model, less the multiples of 1 that softmax does not see, is at most this.
pub fn logit_rank(config: &Config) -> u64 {
    let read = match config.hidden {
        Hidden::Output => config.shape.d_mlp,
        Hidden::Absent | Hidden::Residual => config.shape.d_model,
    };
    read + u64::from(config.output_bias)
}

/// A lower bound on the gap, in nats, of every model whose logits have at most this rank. It looks only at contexts that
/// are followed by every token, and is 0 where those say nothing.
///
/// The singular values are computed in double precision, with a margin that is far larger than its rounding.
pub fn gap_at_least(dataset: &Dataset, rank: u64) -> AtLeast {
    let omega = usize::try_from(dataset.d_vocab()).unwrap_or(usize::MAX);
    let full: Vec<usize> = (0..dataset.len()).filter(|&i| dataset.next_of(i).len() == omega).collect();
    let mut least = f64::INFINITY;
    let mut targets = Vec::new();
    for &i in &full {
        let logs: Vec<f64> = dataset.next_of(i).iter().map(|&(_, n)| libm::log(n)).collect();
        let mean = logs.iter().sum::<f64>() / omega as f64;
        targets.extend(logs.iter().map(|log| log - mean));
        least = dataset.next_of(i).iter().fold(least, |least, &(_, n)| least.min(n));
    }
    if full.is_empty() {
        return AtLeast(0.0);
    }
    let Some(Svd { s, .. }) = Svd::of(from_rows(&targets, omega)) else { return AtLeast(0.0) };
    let margin = ROUNDING * s.first().copied().unwrap_or(0.0);
    let beyond = s.iter().skip(usize::try_from(rank).unwrap_or(usize::MAX));
    let distance = beyond.map(|s| (s - margin).max(0.0)).map(|s| s * s).sum::<f64>();
    let r = (2.0 * distance).sqrt();
    // What is subtracted covers the rounding of the last steps.
    AtLeast(0.5 * least * (libm::expm1(-r) + r - ROUNDING * r).max(0.0))
}

/// The dimension of what a model can reach on the contexts of a dataset, without the parameters in `frozen`, which keep the
/// values of the model: the rank of the derivative of its predictions by its parameters at random points.
///
/// The rank is the same almost everywhere, but arithmetic does not see all of it everywhere: small weights make all neurons
/// alike, and large ones saturate them. So the largest rank at weights of several sizes is taken.
///
/// # Errors
/// If the model cannot read a context.
pub fn dimension(model: &Model, frozen: &[Range<usize>], dataset: &Dataset, seed: u64) -> Result<u64> {
    let is_frozen = |i: usize| frozen.iter().any(|r| r.contains(&i));
    let trained: Vec<usize> = (0..model.parameters().len()).filter(|&i| !is_frozen(i)).collect();
    let contexts: Vec<Vec<u32>> = (0..dataset.len()).map(|i| dataset.tokens_of(i)).collect();
    let all = contexts.len() as u64 * dataset.d_vocab().saturating_sub(1);
    let most = all.min(trained.len() as u64);
    let mut dimension = 0;
    for (size, index) in SIZES.into_iter().zip(0..) {
        if dimension < most {
            let mut stream = Stream::new(seed, "madden2024 dimension", index);
            let mut at = model.parameters().to_vec();
            trained.iter().for_each(|&i| at[i] = size * stream.normal());
            dimension = dimension.max(rank_of_derivative(model, at, &trained, &contexts)?.min(most));
        }
    }
    Ok(dimension)
}

/// The rank of the derivative of the predictions by some of the parameters.
fn rank_of_derivative(model: &Model, at: Vec<f64>, by: &[usize], contexts: &[Vec<u32>]) -> Result<u64> {
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for &i in by {
        // The difference of fourth order.
        let mut sum = Vec::new();
        for (steps, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
            let mut moved = at.clone();
            moved[i] += steps * STEP;
            let predictions = centred_logits(&model.with_parameters(moved)?, contexts)?;
            sum.resize(predictions.len(), 0.0);
            sum.iter_mut().zip(&predictions).for_each(|(s, p)| *s += weight * p / (12.0 * STEP));
        }
        columns.push(sum);
    }
    // The rank does not depend on the units of the parameters, but its computation does. What is mostly rounding is left out.
    let norm = |column: &[f64]| column.iter().map(|x| x * x).sum::<f64>().sqrt();
    let largest = columns.iter().map(|c| norm(c)).fold(0.0, f64::max);
    columns.retain(|c| norm(c) > UNRELIABLE * largest);
    let Some(rows) = columns.first().map(Vec::len) else { return Ok(0) };
    let unit = |c: &Vec<f64>| {
        let norm = norm(c);
        c.iter().map(|x| x / norm).collect::<Vec<f64>>()
    };
    let scaled: Vec<f64> = columns.iter().flat_map(unit).collect();
    Ok(Svd::of(from_rows(&scaled, rows)).map_or(0, |svd| svd.rank(ZERO) as u64))
}

/// The logits of every context, with their mean subtracted.
fn centred_logits(model: &Model, contexts: &[Vec<u32>]) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for context in contexts {
        let logits = model.logits(context)?;
        let mean = logits.iter().sum::<f64>() / logits.len() as f64;
        all.extend(logits.iter().map(|l| l - mean));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, MemoryFile, Options, Outputs, Source};
    use crate::model::{Activation, ModelSpec, Preset};
    use crate::observe::Silent;
    use proptest::prelude::*;

    fn config(d_vocab: u64, n_ctx: u64, d_model: u64, d_mlp: u64) -> Config {
        let spec = ModelSpec::default().preset(Preset::Madden2024).activation(Activation::Tanh);
        spec.d_model(d_model).d_mlp(d_mlp).resolve(d_vocab, n_ctx).unwrap()
    }

    /// The gap of logits on a dataset, one row per context.
    fn gap(dataset: &Dataset, logits: &[Vec<f64>]) -> f64 {
        let one = |(i, row): (usize, &Vec<f64>)| {
            let lse = row.iter().map(|l| l.exp()).sum::<f64>().ln();
            dataset.next_of(i).iter().map(|&(token, n)| n * (lse - row[token as usize])).sum::<f64>()
        };
        logits.iter().enumerate().map(one).sum::<f64>() - dataset.floor().0
    }

    #[test]
    fn the_corpus_has_the_size_that_the_theorem_promises() {
        for (k, omega) in [(58, 4), (111, 32), (7, 2), (8, 2), (40, 3), (0, 5)] {
            let promised = hard_corpus(k, omega).unwrap();
            let documents = documents(k, omega, 3).unwrap();
            let made = dataset(&documents, omega).unwrap();
            let full = full_contexts(k, omega);
            assert!(made.len() as u128 <= promised.contexts, "{k}, {omega}");
            assert_eq!(made.n_ctx(), promised.n_ctx);
            assert!(documents.iter().all(|d| d.0.len() as u64 == promised.n_ctx + 1));
            let long = (0..made.len()).filter(|&i| made.tokens_of(i).len() as u64 == promised.n_ctx);
            assert_eq!(long.clone().count() as u128, full);
            assert!(long.clone().all(|i| made.next_of(i).len() as u64 == omega));
            // More free numbers at full length than parameters, but not by a whole context.
            assert!(full * u128::from(omega - 1) > k && (full - 1) * u128::from(omega - 1) <= k);
        }
        assert_eq!(documents(5, 1, 0).unwrap_err().setting_name(), Some("d_vocab"));
        assert_eq!(documents(1 << 60, 2, 0).unwrap_err().setting_name(), Some("parameters"));
        assert_ne!(documents(58, 4, 0).unwrap(), documents(58, 4, 1).unwrap());
    }

    #[test]
    fn the_same_documents_read_as_text_have_the_same_contexts_and_floor() {
        let documents = documents(58, 4, 0).unwrap();
        let mut text = String::new();
        for (document, copies) in &documents {
            let words: Vec<String> = document.iter().map(|token| format!("w{token}")).collect();
            (0..*copies).for_each(|_| text += &(words.join(" ") + "\n"));
        }
        let file = MemoryFile { name: "hard.txt".into(), bytes: text.into_bytes().into() };
        let outputs = Outputs::default().contexts(true);
        let read = Corpus::read(&Source::Memory(vec![file]), &Options::default(), outputs, &Silent).unwrap();
        let (made, read) = (dataset(&documents, 4).unwrap(), Dataset::from_corpus(&read).unwrap());
        assert_eq!((made.len(), made.predictions()), (read.len(), read.predictions()));
        assert!((made.floor().0 - read.floor().0).abs() < 1e-9 * made.floor().0);
    }

    #[test]
    fn the_bound_vanishes_from_full_rank_on_and_falls_with_the_rank() {
        // Two contexts over three tokens: centred logarithms (1, 0, -1) ln 2 and (0, 1, -1) ln 2, whose products are 2, 2
        // and 1 times (ln 2)^2. So s^2 = 3 and 1 times (ln 2)^2.
        let counts = [[4.0, 2.0, 1.0], [2.0, 4.0, 1.0]];
        let next = |row: [f64; 3]| (0..3).zip(row).collect::<Vec<(u32, f64)>>();
        let made = Dataset::new(3, 1, [(vec![0], next(counts[0])), (vec![1], next(counts[1]))]).unwrap();
        let by_hand = |squares: f64| {
            let r = (2.0 * squares).sqrt() * std::f64::consts::LN_2;
            0.5 * ((-r).exp() + r - 1.0)
        };
        for (rank, squares) in [(0, 4.0), (1, 1.0), (2, 0.0), (9, 0.0)] {
            let bound = gap_at_least(&made, rank).0;
            assert!(bound <= by_hand(squares) && bound > by_hand(squares) - 1e-8, "{rank}: {bound}");
        }
        // Uniform predictions have rank 0; their gap is above the bound.
        assert!(gap(&made, &[vec![0.0; 3], vec![0.0; 3]]) >= gap_at_least(&made, 0).0);
        // A context that some token never follows says nothing.
        let partial = Dataset::new(3, 1, [(vec![0], vec![(0, 1.0), (1, 8.0)])]).unwrap();
        assert_eq!(gap_at_least(&partial, 0), AtLeast(0.0));
    }

    #[test]
    fn the_dimension_is_that_of_matrices_of_low_rank() {
        // Frozen inputs in general position: m neurons reach all n x (omega - 1) matrices of rank m, of dimension
        // m (n + omega - 1 - m), because m (d + 1) hidden weights are more than the m (n - m) that choose the row space.
        let (omega, n, d) = (12, 5, 4);
        let made = dataset(&documents(4 * 11, omega, 0).unwrap(), omega).unwrap();
        assert_eq!(made.len(), n);
        for m in 1..=5 {
            let config = config(omega, 1, d, m);
            let frozen: Vec<Range<usize>> = config
                .tensors()
                .into_iter()
                .filter(|t| !["W_in", "b_in", "W_U"].contains(&t.name.part()))
                .map(|t| t.range)
                .collect();
            let model = Model::random(config, 1).unwrap();
            let expected = m * (n as u64 + omega - 1 - m);
            assert_eq!(dimension(&model, &frozen, &made, 0).unwrap(), expected, "{m}");
            assert_eq!(free_numbers(&made), 55);
        }
    }

    #[test]
    fn the_measured_dimension_is_what_the_symmetries_leave() {
        let (omega, n_ctx, d) = (4, 3, 2);
        let made = dataset(&documents(58, omega, 0).unwrap(), omega).unwrap();
        assert_eq!((made.len(), made.n_ctx()), (27, n_ctx));
        for m in [1, 2, 4, 7, 11] {
            let config = config(omega, n_ctx, d, m);
            let k = config.n_parameters() as u64;
            assert_eq!(k, 7 * m + 30);
            // A shift of the logits per neuron; bases of values, of what the head writes, of queries and of the residual
            // stream; a shift between embeddings and positions.
            let at_most = k - m - 4 * d * d - d;
            let model = Model::random(config, 1).unwrap();
            assert_eq!(dimension(&model, &[], &made, 0).unwrap(), at_most, "{m}");
            assert_eq!(at_most < free_numbers(&made), m < 11);
        }
    }

    proptest! {
        #[test]
        fn no_logits_of_a_rank_are_below_its_bound(
            rank in 0usize..4, seed in 0u64..1000, size in 0.0f64..3.0, towards in 0.0f64..1.0,
        ) {
            let (omega, n) = (7u64, 5);
            let made = dataset(&documents(4 * 6, omega, seed).unwrap(), omega).unwrap();
            prop_assert_eq!(made.len(), n);
            let mut stream = Stream::new(seed, "test", 0);
            // The best of that rank in one norm, moved at random within the rank.
            let targets: Vec<f64> = (0..n).flat_map(|i| {
                let logs: Vec<f64> = made.next_of(i).iter().map(|x| x.1.ln()).collect();
                let mean = logs.iter().sum::<f64>() / omega as f64;
                logs.into_iter().map(move |l| l - mean)
            }).collect();
            let svd = Svd::of(from_rows(&targets, omega as usize)).unwrap();
            let mut logits = vec![vec![0.0; omega as usize]; n];
            for k in 0..rank {
                let (a, b): (Vec<f64>, Vec<f64>) = (
                    (0..n).map(|_| size * stream.normal()).collect(),
                    (0..omega).map(|_| size * stream.normal()).collect(),
                );
                for (i, row) in logits.iter_mut().enumerate() {
                    for (g, l) in row.iter_mut().enumerate() {
                        let left = svd.u[(i, k)] * svd.s[k] + towards * a[i];
                        *l += left * (svd.v[(g, k)] + 0.1 * towards * b[g]);
                    }
                }
            }
            prop_assert!(gap(&made, &logits) >= gap_at_least(&made, rank as u64).0);
        }
    }
}
