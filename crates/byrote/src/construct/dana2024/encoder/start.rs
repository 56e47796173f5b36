//! Where the search for an encoder begins: the best approximation of rank r to softened logits.
//!
//! ```text
//! A = (I - 1 1^T / omega) [ sqrt(p_i) ln(pi_i / 2 + 1 / (2 omega)) ]_i     [omega, contexts]
//! A ~ U S V^T of rank r,        W = U S^1/2,        sqrt(p_i) e_i = S^1/2 v_i
//! ```
//!
//! Halfway to uniform the logarithms are tame; those of the distributions themselves start the search far worse. Up to a
//! constant a column, ln(pi/2 + 1/(2 omega)) = ln(1 + omega pi) is as sparse as pi, so products with A cost what the next
//! tokens do, and a few steps of block power iteration give U (Halko, Martinsson & Tropp, SIAM Review 53, 2011).

use super::loss::Divergence;
use crate::num::Stream;
use crate::num::linear::{Mat, MatRef, Qr, Svd, product};

/// Directions beyond the rank, and steps of the power iteration.
const SPARE: usize = 8;
const STEPS: usize = 6;

/// W, `[d_vocab, rank]`, and sqrt(p) E, `[contexts, rank]`.
pub(super) fn start(f: &Divergence<'_>, rank: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let (omega, n) = (f.d_vocab(), f.problem().len());
    let k = (rank + SPARE).min(omega).min(n);
    let mut stream = Stream::new(seed, "dana2024 encoder", 0);
    let mut q = Qr::of(Mat::from_fn(omega, k, |_, _| stream.normal())).orthonormal();
    for _ in 0..STEPS {
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
    (w, e)
}

/// The entries of column i of A before it is centred.
fn column<'a>(f: &'a Divergence<'_>, i: usize) -> impl Iterator<Item = (usize, f64)> + 'a {
    let problem = f.problem();
    let (count, root, omega) = (problem.counts[i], f.weights()[i].sqrt(), f.d_vocab() as f64);
    problem.next_of(i).iter().map(move |&(t, c)| (t as usize, root * (omega * c / count).ln_1p()))
}

/// A^T Q, `[contexts, k]`.
fn transposed_times(f: &Divergence<'_>, q: MatRef<'_, f64>) -> Mat<f64> {
    let (omega, k) = (q.nrows(), q.ncols());
    let means: Vec<f64> = (0..k).map(|j| (0..omega).map(|t| q[(t, j)]).sum::<f64>() / omega as f64).collect();
    let mut out = Mat::zeros(f.problem().len(), k);
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

    #[test]
    fn the_start_is_the_best_approximation_of_its_rank() {
        let problem = distributions(12, 2, 40, 1.0, 3);
        let f = Divergence::new(&problem, 12, 0.0);
        let a = Mat::from_fn(12, 40, |t, i| {
            let entry = |t: usize| {
                let pi = problem.next_of(i).iter().find(|&&(v, _)| v as usize == t).map_or(0.0, |&(_, c)| c);
                (0.5 * pi / problem.counts[i] + 0.5 / 12.0).ln()
            };
            let mean = (0..12).map(entry).sum::<f64>() / 12.0;
            f.weights()[i].sqrt() * (entry(t) - mean)
        });
        let svd = Svd::of(a.as_ref()).unwrap();
        for rank in [1, 3, 11] {
            let (w, e) = start(&f, rank, 0);
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
