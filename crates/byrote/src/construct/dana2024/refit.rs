//! More contexts than capacity: the last maps are fitted to all of them.
//!
//! With the features F fixed, the logits W (X^T F) are linear in X, so
//!
//! ```text
//! min over X of  sum_i p_i KL(pi_i || softmax(W X^T f_i))
//! ```
//!
//! is convex. The fit starts with weighted least squares of the encoder's codes and continues with L-BFGS in
//! coordinates in which the features are white, sum_i p_i f_i f_i^T = I: with R from the QR factorisation of the rows
//! sqrt(p_i) f_i^T, stacked on a small multiple of the identity so that dependent features do no harm, the variables
//! are A = R X and the features R^-T f_i.
//!
//! Then W, which was made for codes that the features cannot produce, is improved together with X. That problem is not
//! convex, but the descent starts at the convex minimum and never increases the value.
//!
//! Storing the most frequent contexts exactly and ignoring the rest, as in Theorem 1 with eps > 0, was worse in every
//! case tried, mostly by an order of magnitude (E9). [`independent`] chooses the contexts that it would store.
//!
//! dana2024 (arXiv:2411.10115), Theorem 1 with eps > 0.

use super::encoder::loss::{Divergence, Gradient};
use super::encoder::minimize;
use crate::Result;
use crate::num::linear::{Mat, MatRef, Qr, product, subtract_product, to_rows};
use crate::observe::{Observer, Stage};

/// The numbers of steps of the convex descent, and of the joint descent with W.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Steps {
    /// X alone.
    pub convex: usize,
    /// W and X.
    pub joint: usize,
}

impl Default for Steps {
    fn default() -> Self {
        Self { convex: 150, joint: 150 }
    }
}

crate::setting::setters!(Steps { convex: plain(usize), joint: plain(usize) });

/// The ridge under the features before whitening, relative to their size: smaller directions are ignored.
const RIDGE: f64 = 1e-9;

/// Last maps that fit all contexts as well as possible.
pub struct FittedMaps {
    /// X = [G | M]^T, `[H d_h + d, rank]`.
    pub x: Mat<f64>,
    /// W, `[d_vocab, rank]`, row-major.
    pub w: Vec<f64>,
    /// The divergence after least squares, after the convex descent, and at the end, in nats per prediction.
    pub divergences: [f64; 3],
}

/// Fits X, then W and X, for features F `[H d_h + d, contexts]`, starting with an encoder W `[d_vocab, rank]`, E
/// `[contexts, rank]`, row-major. Where the contexts leave X free it stays as close as possible to `prior`, see
/// [`super::linear_system`].
pub fn refit(
    divergence: &Divergence<'_>,
    rank: usize,
    (w, e): (&[f64], &[f64]),
    f: MatRef<'_, f64>,
    prior: MatRef<'_, f64>,
    steps: Steps,
    observer: &dyn Observer,
) -> Result<FittedMaps> {
    let (k, n, at) = (f.nrows(), f.ncols(), w.len());
    let weights = divergence.weights();
    let trace: f64 = (0..n).map(|i| weights[i] * f.col(i).squared_norm_l2()).sum();
    let ridge = RIDGE * trace.sqrt();
    let stacked = Mat::from_fn(n + k, k, |i, j| match i < n {
        true => weights[i].sqrt() * f[(j, i)],
        false => ridge * f64::from(u8::from(i - n == j)),
    });
    let qr = Qr::of(stacked);
    let mut white = f.to_owned();
    qr.solve_r_transposed(&mut white);
    let white = white.as_ref();

    // Least squares: A = sum_i p_i f_i e_i^T, `[k, rank]` row-major.
    let codes = Mat::from_fn(n, rank, |i, j| weights[i] * e[i * rank + j]);
    let mut a = to_rows(product(white, codes.as_ref()).as_ref());
    // Codes of labels have no natural scale: use the best of a few.
    let codes_of =
        |a: &[f64]| to_rows(product(MatRef::from_column_major_slice(a, rank, k), white).transpose());
    let value_at = |size: f64| {
        let scaled: Vec<f64> = a.iter().map(|x| size * x).collect();
        (divergence.evaluate(rank, w, &codes_of(&scaled), None), size)
    };
    let sizes = (0..12).map(|i| f64::from(1u32 << i)).map(value_at);
    let (least_squares, size) = sizes.fold((f64::INFINITY, 1.0), |m, v| if v.0 < m.0 { v } else { m });
    a.iter_mut().for_each(|x| *x *= size);

    let mut dw = vec![0.0; at];
    let mut de = vec![0.0; n * rank];
    let mut back = |w: &[f64], a: &[f64], dw: &mut [f64], da: &mut [f64]| {
        let codes = codes_of(a);
        let value = divergence.evaluate(rank, w, &codes, Some(Gradient { w: dw, e: &mut de }));
        let slope = product(white, MatRef::from_row_major_slice(&de, n, rank));
        da.copy_from_slice(&to_rows(slope.as_ref()));
        value
    };
    let mut convex = |a: &[f64], da: &mut [f64]| back(w, a, &mut dw, da);
    let (a, after_convex) = minimize(&mut convex, a, steps.convex, 0.0, observer)?;
    let mut joint = |x: &[f64], dx: &mut [f64]| {
        let (dw, da) = dx.split_at_mut(at);
        back(&x[..at], &x[at..], dw, da)
    };
    let (mut x, value) = minimize(&mut joint, [w, &a].concat(), steps.joint, 0.0, observer)?;
    let a = x.split_off(at);
    let mut solution = MatRef::from_row_major_slice(&a, k, rank).to_owned();
    qr.solve_r(&mut solution);
    // ridge^2 (R^T R)^-1 selects what the contexts do not determine: there the prior replaces rounding noise.
    let codes = codes_of(&a);
    let size = (codes.iter().map(|c| c * c).sum::<f64>() / codes.len() as f64).sqrt();
    for _ in 0..2 {
        let mut free =
            Mat::from_fn(k, rank, |i, j| ridge * ridge * (size * prior[(i, j)] - solution[(i, j)]));
        qr.solve_r_transposed(&mut free);
        qr.solve_r(&mut free);
        solution += free;
    }
    Ok(FittedMaps { x: solution, w: x, divergences: [least_squares, after_convex, value] })
}

/// What a context's features must add to those before it, relative to their length, to count as independent.
const ADDED: f64 = 1e-10;
/// The number of columns projected at a time.
const BLOCK: usize = 32;

/// The contexts, in this order, whose features do not depend on those before them, by the Gram-Schmidt method, applied
/// twice to every column.
pub fn independent(f: MatRef<'_, f64>, order: &[usize], observer: &dyn Observer) -> Result<Vec<usize>> {
    let k = f.nrows();
    let (mut basis, mut size, mut kept) = (Mat::<f64>::zeros(k, order.len().min(k)), 0, Vec::new());
    for (done, contexts) in order.chunks(BLOCK).enumerate() {
        observer.report(Stage::Solving, (done * BLOCK) as u64, Some(order.len() as u64))?;
        let mut block = Mat::from_fn(k, contexts.len(), |i, j| f[(i, contexts[j])]);
        let first = size;
        for _ in 0..2 {
            let known = basis.as_ref().get(.., ..first);
            let part = product(known.transpose(), block.as_ref());
            subtract_product(&mut block, known, part.as_ref());
        }
        for (j, &context) in contexts.iter().enumerate() {
            let length = f.col(context).norm_l2();
            let mut column = block.col(j).to_owned();
            for _ in 0..2 {
                for c in first..size {
                    let q = basis.col(c);
                    let along: f64 = (0..k).map(|i| q[i] * column[i]).sum();
                    (0..k).for_each(|i| column[i] -= along * q[i]);
                }
            }
            let left = column.norm_l2();
            if size < k && length > 0.0 && left > ADDED * length {
                (0..k).for_each(|i| basis[(i, size)] = column[i] / left);
                size += 1;
                kept.push(context);
            }
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Stream;
    use crate::observe::Silent;

    #[test]
    fn a_context_like_one_before_it_is_left_out() {
        let mut stream = Stream::new(2, "refit", 0);
        let mut f = Mat::from_fn(6, 5, |_, _| stream.normal());
        for i in 0..6 {
            f[(i, 3)] = f[(i, 0)] - 2.0 * f[(i, 1)];
        }
        let independent = |f, order: &[usize]| independent(f, order, &Silent).unwrap();
        assert_eq!(independent(f.as_ref(), &[0, 1, 2, 3, 4]), [0, 1, 2, 4]);
        assert_eq!(independent(f.as_ref(), &[3, 4, 1, 0]), [3, 4, 1]);
        // No more than there are features.
        assert_eq!(independent(f.as_ref().get(..2, ..), &[4, 2, 0]), [4, 2]);
    }
}
