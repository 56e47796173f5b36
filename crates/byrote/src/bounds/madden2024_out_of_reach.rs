//! The corpus of madden2024's Theorem 1, and how far above its floor a model must stay.
//!
//! Theorem 1 promises a corpus that k parameters do not learn, and its proof only says that almost any will do: the image
//! of k parameters has no interior in the n' (omega - 1) free numbers of n' > k / (omega - 1) contexts, nor has its closure.
//! [`documents`] follows the proof with counts drawn at random: the first n' sequences of T tokens, each followed by every
//! token 1, 2, 4, 8 or 16 times.
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
//!   and hence the dimension of what the model can reach. Symmetries make it smaller than k. If it is also smaller than
//!   the [`free_numbers`] of the corpus, almost every choice of distributions is out of reach.
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

/// The dimension of what a model can reach on the contexts of a dataset, without the parameters in `frozen`: the rank of
/// the derivative of its predictions by its parameters, all drawn from a normal distribution. Frozen parameters keep the
/// values of the model.
///
/// # Errors
/// If the model cannot read a context.
pub fn dimension(model: &Model, frozen: &[Range<usize>], dataset: &Dataset, seed: u64) -> Result<u64> {
    let mut stream = Stream::new(seed, "madden2024 dimension", 0);
    let is_frozen = |i: usize| frozen.iter().any(|r| r.contains(&i));
    let mut at = model.parameters().to_vec();
    let trained: Vec<usize> = (0..at.len()).filter(|&i| !is_frozen(i)).collect();
    trained.iter().for_each(|&i| at[i] = stream.normal());
    let mut columns = Vec::new();
    let contexts: Vec<Vec<u32>> = (0..dataset.len()).map(|i| dataset.tokens_of(i)).collect();
    for &i in &trained {
        // The difference of fourth order.
        let mut sum = Vec::new();
        for (by, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
            let mut moved = at.clone();
            moved[i] += by * STEP;
            let predictions = centred_logits(&model.with_parameters(moved)?, &contexts)?;
            sum.resize(predictions.len(), 0.0);
            sum.iter_mut().zip(&predictions).for_each(|(s, p)| *s += weight * p / (12.0 * STEP));
        }
        columns.extend(sum);
    }
    let rows = columns.len() / trained.len().max(1);
    if rows == 0 {
        return Ok(0);
    }
    Ok(Svd::of(from_rows(&columns, rows)).map_or(0, |svd| svd.rank(ZERO) as u64))
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
