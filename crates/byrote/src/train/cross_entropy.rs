//! From logits to the loss and its derivatives.

use crate::dataset::Dataset;
use crate::num::aligned::{padded, spread_stride};
use crate::num::real::Real;
use crate::num::row_ops::{exp_shifted, scale, sum};
use crate::num::simd::Isa;

/// Rows whose softmax is computed together: the sums and logarithms of one row depend on each other, those of several
/// rows do not.
pub(super) const GROUP: usize = 8;

/// Turns the logits of a group of contexts, padded with minus infinity, into the gradient of their loss, and returns the loss
/// and the number of predictions whose token has the largest logit. Row i belongs to the context of the dataset with the index
/// `context(i).0`, whose loss and predictions are multiplied by `context(i).1`. Each step is taken for the whole group before the next.
#[inline(always)]
pub(super) fn cross_entropy<T: Real, I: Isa>(
    isa: I,
    group: &mut [T],
    largest: &[T; GROUP],
    dataset: &Dataset,
    context: impl Fn(usize) -> (usize, f64),
    omega: usize,
) -> (f64, f64) {
    let stride = spread_stride(omega);
    let (mut loss, mut hits) = (0.0, 0.0);
    let mut sums = [0.0; GROUP];
    for (i, row) in group.chunks_exact_mut(stride).enumerate() {
        let top = largest[i].to_f64();
        let (context, factor) = context(i);
        for &(token, n) in dataset.next_of(context) {
            let below = row[token as usize].to_f64() - top;
            loss -= factor * n * below;
            hits += if below == 0.0 { factor * n } else { 0.0 };
        }
        exp_shifted(isa, &mut row[..padded(omega)], largest[i]);
    }
    for (row, total) in group.chunks_exact(stride).zip(&mut sums) {
        *total = sum(isa, &row[..padded(omega)]);
    }
    for (i, row) in group.chunks_exact_mut(stride).enumerate() {
        let (context, factor) = context(i);
        let count = factor * dataset.counts[context];
        loss += count * sums[i].ln();
        scale(&mut row[..padded(omega)], T::from_f64(count / sums[i]));
        for &(token, n) in dataset.next_of(context) {
            row[token as usize] -= T::from_f64(factor * n);
        }
    }
    (loss, hits)
}
