//! Starting points for the search for an encoder.
//!
//! **Flat distributions**: the best approximation of rank r to softened logits ([`singular`]),
//!
//! ```text
//! A = (I - 1 1^T / omega) [ sqrt(p_i) ln(pi_i / 2 + 1 / (2 omega)) ]_i     [omega, contexts]
//! A ~ U S V^T of rank r,        W = U S^1/2,        sqrt(p_i) e_i = S^1/2 v_i
//! ```
//!
//! Halfway to uniform the logarithms are moderate; starting from those of the distributions themselves is far worse. Up
//! to a constant per column, ln(pi/2 + 1/(2 omega)) = ln(1 + omega pi) is as sparse as pi, so products with A cost only
//! as much as the number of next tokens, and a few steps of block power iteration give U (Halko, Martinsson & Tropp,
//! SIAM Review 53, 2011).
//!
//! **Peaked distributions**, where few tokens follow a context ([`coded`]): the rows of W are unit vectors far apart,
//! and e_i is the shortest vector with W_S e_i = lambda + ln t_S on the set S of tokens that follow (approximately, for
//! more than r / 2 of them). The others then have logits far below lambda. The best of a few values of lambda is chosen
//! for each context.

use super::super::codes::Codes;
use super::loss::Divergence;
use super::newton::solve;
use crate::Result;
use crate::model::reference::log_sum_exp;
use crate::num::Stream;
use crate::num::linear::{Mat, MatRef, Qr, Svd, product};
use crate::observe::{Observer, Stage};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The number of directions beyond the rank, and of power iterations.
const SPARE: usize = 8;
const STEPS: usize = 6;

/// W, `[d_vocab, rank]`, and sqrt(p) E, `[contexts, rank]`.
pub(super) type Encoding = (Vec<f64>, Vec<f64>);

/// Starts from the best approximation of this rank.
pub(super) fn singular(
    f: &Divergence<'_>,
    rank: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Encoding> {
    let (omega, n) = (f.d_vocab(), f.dataset().len());
    let k = (rank + SPARE).min(omega).min(n);
    let mut stream = Stream::new(seed, "dana2024 encoder", 0);
    let mut q = Qr::of(Mat::from_fn(omega, k, |_, _| stream.normal())).orthonormal();
    for step in 0..STEPS {
        observer.report(Stage::Fitting, step as u64, Some(STEPS as u64))?;
        let z = transposed_times(f, q.as_ref());
        q = Qr::of(times(f, z.as_ref())).orthonormal();
    }
    // A^T Q = P S O^T, so that U = Q O.
    let t = transposed_times(f, q.as_ref());
    let qr = Qr::of(t);
    let (mut w, mut e) = (vec![0.0; omega * rank], vec![0.0; n * rank]);
    if let Some(svd) = Svd::of(qr.r().as_ref()) {
        let u = product(q.as_ref(), svd.v.as_ref());
        let v = product(qr.orthonormal().as_ref(), svd.u.as_ref());
        for j in 0..rank.min(k) {
            let root = svd.s[j].sqrt();
            (0..omega).for_each(|i| w[i * rank + j] = u[(i, j)] * root);
            (0..n).for_each(|i| e[i * rank + j] = v[(i, j)] * root);
        }
    }
    Ok((w, e))
}

/// Starts from codes of the tokens that follow somewhere: W, `[d_vocab, rank]`, and sqrt(p) E, `[contexts, rank]`;
/// `None` in one dimension, where there is no room for them.
pub(super) fn coded(
    f: &Divergence<'_>,
    rank: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Option<Encoding>> {
    let dataset = f.dataset();
    let mut answers: BTreeMap<u32, usize> = dataset.next.iter().map(|&(t, _)| (t, 0)).collect();
    answers.values_mut().zip(0..).for_each(|(index, i)| *index = i);
    if rank == 1 && answers.len() > 2 {
        return Ok(None);
    }
    let codes = Codes::roughly(answers.len(), rank, seed, observer)?;
    let mut w = vec![0.0; f.d_vocab() * rank];
    for (&token, &label) in &answers {
        w[token as usize * rank..][..codes.dimension].copy_from_slice(codes.of(label));
    }
    let mut e = vec![0.0; dataset.len() * rank];
    e.par_chunks_mut(rank).enumerate().for_each(|(i, e)| f.code(i, &w, e));
    for (row, &p) in e.chunks_exact_mut(rank).zip(f.weights()) {
        row.iter_mut().for_each(|x| *x *= p.sqrt());
    }
    // Of equal length, so that their curvatures are similar.
    let length = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let balance = (length(&e) / length(&w)).sqrt();
    if balance > 0.0 && balance.is_finite() {
        w.iter_mut().for_each(|x| *x *= balance);
        e.iter_mut().for_each(|x| *x /= balance);
    }
    Ok(Some((w, e)))
}

impl Divergence<'_> {
    /// The code of a context for unit vectors W: see [`coded`].
    fn code(&self, context: usize, w: &[f64], e: &mut [f64]) {
        let rank = e.len();
        let next = self.dataset().next_of(context);
        let count = self.dataset().counts[context];
        let row = |t: u32| &w[t as usize * rank..(t as usize + 1) * rank];
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        // W_S W_S^T, with a ridge if it would be nearly singular; the code is linear in lambda.
        let n = next.len();
        let ridge = if 2 * n > rank { 0.1 } else { 1e-6 };
        let gram: Vec<f64> = (0..n * n)
            .map(|k| dot(row(next[k / n].0), row(next[k % n].0)) + if k / n == k % n { ridge } else { 0.0 })
            .collect();
        let combine = |mut b: Vec<f64>| -> Option<Vec<f64>> {
            if !solve(&mut gram.clone(), n, &mut b) {
                return None;
            }
            let mut sum = vec![0.0; rank];
            for (&(t, _), c) in next.iter().zip(&b) {
                sum.iter_mut().zip(row(t)).for_each(|(s, x)| *s += c * x);
            }
            Some(sum)
        };
        let logs = next.iter().map(|&(_, c)| self.smoothed(c / count).ln()).collect();
        let (Some(level), Some(shape)) = (combine(vec![1.0; n]), combine(logs)) else { return };
        let mut least = f64::INFINITY;
        for lambda in [0.0, 2.0, 4.0, 7.0, 10.0, 15.0, 20.0, 30.0, 45.0, 70.0] {
            let trial: Vec<f64> = level.iter().zip(&shape).map(|(l, s)| lambda * l + s).collect();
            let logits: Vec<f64> = w.chunks_exact(rank).map(|row| dot(row, &trial)).collect();
            let expected: f64 = next.iter().map(|&(t, c)| c / count * logits[t as usize]).sum();
            let value = log_sum_exp(&logits) - expected;
            if value < least {
                least = value;
                e.copy_from_slice(&trial);
            }
        }
    }
}

/// The entries of column i of A before centring.
fn column<'a>(f: &'a Divergence<'_>, i: usize) -> impl Iterator<Item = (usize, f64)> + 'a {
    let dataset = f.dataset();
    let (count, root, omega) = (dataset.counts[i], f.weights()[i].sqrt(), f.d_vocab() as f64);
    dataset.next_of(i).iter().map(move |&(t, c)| (t as usize, root * (omega * c / count).ln_1p()))
}

/// A^T Q, `[contexts, k]`.
fn transposed_times(f: &Divergence<'_>, q: MatRef<'_, f64>) -> Mat<f64> {
    let (omega, k) = (q.nrows(), q.ncols());
    let means: Vec<f64> = (0..k).map(|j| (0..omega).map(|t| q[(t, j)]).sum::<f64>() / omega as f64).collect();
    let mut out = Mat::zeros(f.dataset().len(), k);
    for i in 0..out.nrows() {
        for (t, a) in column(f, i) {
            (0..k).for_each(|j| out[(i, j)] += a * (q[(t, j)] - means[j]));
        }
    }
    out
}

/// A Z, `[d_vocab, k]`.
fn times(f: &Divergence<'_>, z: MatRef<'_, f64>) -> Mat<f64> {
    let (omega, k) = (f.d_vocab(), z.ncols());
    let mut out = Mat::<f64>::zeros(omega, k);
    for i in 0..z.nrows() {
        for (t, a) in column(f, i) {
            (0..k).for_each(|j| out[(t, j)] += a * z[(i, j)]);
        }
    }
    for j in 0..k {
        let mean = (0..omega).map(|t| out[(t, j)]).sum::<f64>() / omega as f64;
        (0..omega).for_each(|t| out[(t, j)] -= mean);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::dana2024::examples::*;
    use crate::num::linear::to_rows;
    use crate::observe::Silent;

    #[test]
    fn the_start_is_the_best_approximation_of_its_rank() {
        let dataset = distributions(12, 2, 40, 1.0, 3);
        let f = Divergence::new(&dataset, 0.0);
        let a = Mat::from_fn(12, 40, |t, i| {
            let entry = |t: usize| {
                let pi = dataset.next_of(i).iter().find(|&&(v, _)| v as usize == t).map_or(0.0, |&(_, c)| c);
                (0.5 * pi / dataset.counts[i] + 0.5 / 12.0).ln()
            };
            let mean = (0..12).map(entry).sum::<f64>() / 12.0;
            f.weights()[i].sqrt() * (entry(t) - mean)
        });
        let svd = Svd::of(a.as_ref()).unwrap();
        for rank in [1, 3, 11] {
            let (w, e) = singular(&f, rank, 0, &Silent).unwrap();
            let near = product(
                MatRef::from_row_major_slice(&w, 12, rank),
                MatRef::from_row_major_slice(&e, 40, rank).transpose(),
            );
            let error: f64 = to_rows((&a - &near).as_ref()).iter().map(|x| x * x).sum::<f64>().sqrt();
            let best: f64 = svd.s[rank..].iter().map(|s| s * s).sum::<f64>().sqrt();
            assert!(error <= best * 1.001 + 1e-12, "{rank}: {error} {best}");
        }
    }
}
