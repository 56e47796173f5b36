//! The best codes for a given output matrix: one convex problem per context, solved by damped Newton steps.
//!
//! ```text
//! g = W^T (q - t),        (W^T (diag q - q q^T) W + ridge) step = g
//! ```
//!
//! A step is halved until the divergence decreases; if that does not help, the ridge grows: far out the softmax is
//! flat, and Newton steps are much too long. A step that does not decrease the value is not taken.

use super::loss::Divergence;
use rayon::prelude::*;

/// The maximum number of steps, and the decrement at which to stop.
const STEPS: usize = 50;
const DECREMENT: f64 = 1e-15;

/// Improves every row of `e`, `[contexts, rank]`.
pub(super) fn polish(f: &Divergence<'_>, rank: usize, w: &[f64], e: &mut [f64]) {
    e.par_chunks_mut(rank).enumerate().for_each(|(context, e)| polish_one(f, rank, w, context, e));
}

fn polish_one(f: &Divergence<'_>, rank: usize, w: &[f64], context: usize, e: &mut [f64]) {
    let dataset = f.dataset();
    let mut t = vec![f.least(); f.d_vocab()];
    for &(v, n) in dataset.next_of(context) {
        t[v as usize] = f.smoothed(n / dataset.counts[context]);
    }
    let mut q = vec![0.0; f.d_vocab()];
    let mut value = softmax(w, e, &t, &mut q);
    let steepest = w.chunks_exact(rank).map(|row| row.iter().map(|x| x * x).sum::<f64>()).fold(0.0, f64::max);
    for _ in 0..STEPS {
        let mut gradient = vec![0.0; rank];
        let mut mean = vec![0.0; rank];
        let mut hessian = vec![0.0; rank * rank];
        for ((row, &q), &t) in w.chunks_exact(rank).zip(&q).zip(&t) {
            for i in 0..rank {
                gradient[i] += (q - t) * row[i];
                mean[i] += q * row[i];
                for j in 0..=i {
                    hessian[i * rank + j] += q * row[i] * row[j];
                }
            }
        }
        let mut trace = 0.0;
        for i in 0..rank {
            for j in 0..=i {
                hessian[i * rank + j] -= mean[i] * mean[j];
            }
            trace += hessian[i * rank + i];
        }
        // A step along the gradient divided by the largest curvature always decreases the value, so the loop ends.
        let mut ridge = 1e-10 * trace / rank as f64;
        let taken = loop {
            if let Some(taken) =
                step(&hessian, ridge, &gradient, e, value, |e, q| softmax(w, e, &t, q), &mut q)
            {
                break taken;
            }
            if ridge > steepest {
                return;
            }
            ridge = (1e3 * ridge).max(1e-12 * steepest);
        };
        if value - taken <= DECREMENT * (1.0 + value.abs()) {
            return;
        }
        value = taken;
    }
}

/// Takes a Newton step with this ridge, halved until the value decreases; returns the value if it does.
fn step(
    hessian: &[f64],
    ridge: f64,
    gradient: &[f64],
    e: &mut [f64],
    value: f64,
    at: impl Fn(&[f64], &mut [f64]) -> f64,
    q: &mut Vec<f64>,
) -> Option<f64> {
    let rank = gradient.len();
    let mut damped = hessian.to_vec();
    (0..rank).for_each(|i| damped[i * rank + i] += ridge);
    let mut step = gradient.to_vec();
    if !solve(&mut damped, rank, &mut step) {
        return None;
    }
    let mut p = vec![0.0; q.len()];
    for halving in 0..8 {
        let size = 0.5f64.powi(halving);
        let trial: Vec<f64> = e.iter().zip(&step).map(|(e, s)| e - size * s).collect();
        let found = at(&trial, &mut p);
        if found < value {
            e.copy_from_slice(&trial);
            *q = p;
            return Some(found);
        }
    }
    None
}

/// lse(W e) - t . W e; `q` becomes the softmax.
fn softmax(w: &[f64], e: &[f64], t: &[f64], q: &mut [f64]) -> f64 {
    for (q, row) in q.iter_mut().zip(w.chunks_exact(e.len())) {
        *q = row.iter().zip(e).map(|(w, e)| w * e).sum();
    }
    let largest = q.iter().fold(f64::NEG_INFINITY, |m: f64, &x| m.max(x));
    // Relative to the largest logit, so that large ones do not swamp the difference.
    let expected: f64 = q.iter().zip(t).map(|(x, t)| t * (x - largest)).sum();
    let mut sum = 0.0;
    for q in q.iter_mut() {
        *q = (*q - largest).exp();
        sum += *q;
    }
    q.iter_mut().for_each(|q| *q /= sum);
    sum.ln() - expected
}

/// Solves a positive definite system given by its lower triangle with Cholesky's method; returns false if it is not
/// positive definite.
pub(super) fn solve(a: &mut [f64], n: usize, b: &mut [f64]) -> bool {
    for j in 0..n {
        for k in 0..j {
            let factor = a[j * n + k];
            for i in j..n {
                a[i * n + j] -= a[i * n + k] * factor;
            }
        }
        if a[j * n + j].is_nan() || a[j * n + j] <= 0.0 {
            return false;
        }
        let root = a[j * n + j].sqrt();
        (j..n).for_each(|i| a[i * n + j] /= root);
    }
    for i in 0..n {
        let known: f64 = (0..i).map(|j| a[i * n + j] * b[j]).sum();
        b[i] = (b[i] - known) / a[i * n + i];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| a[j * n + i] * b[j]).sum();
        b[i] = (b[i] - known) / a[i * n + i];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::dana2024::encoder::loss::Gradient;
    use crate::construct::dana2024::examples::*;
    use crate::num::Stream;

    #[test]
    fn polished_codes_have_no_slope_and_none_is_worse() {
        let dataset = distributions(9, 2, 30, 1.0, 8);
        let f = Divergence::new(&dataset, 1e-4);
        let mut stream = Stream::new(1, "newton", 0);
        let w: Vec<f64> = (0..9 * 3).map(|_| stream.normal()).collect();
        let mut e: Vec<f64> = (0..30 * 3).map(|_| 3.0 * stream.normal()).collect();
        let before = f.evaluate(3, &w, &e, None);
        polish(&f, 3, &w, &mut e);
        let (mut dw, mut de) = (vec![0.0; 27], vec![0.0; 90]);
        let after = f.evaluate(3, &w, &e, Some(Gradient { w: &mut dw, e: &mut de }));
        assert!(after < before);
        assert!(de.iter().all(|g| g.abs() < 1e-8), "{de:?}");
    }

    #[test]
    fn a_system_that_is_not_positive_definite_is_seen() {
        // [4 2; 2 3] x = (2, 5): x = (-1/2, 2).
        let (mut a, mut b) = ([4.0, 0.0, 2.0, 3.0], [2.0, 5.0]);
        assert!(solve(&mut a, 2, &mut b));
        assert!((b[0] + 0.5).abs() < 1e-15 && (b[1] - 2.0).abs() < 1e-15);
        assert!(!solve(&mut [1.0, 0.0, 2.0, 1.0], 2, &mut [1.0, 1.0]));
    }
}
