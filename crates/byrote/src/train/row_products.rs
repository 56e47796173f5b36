//! Products of blocks of rows with packed weights, forward and backward.
//!
//! A matrix of rows is given as its values, the distance between rows, and its width.

use super::gradient::packed_weights::Packed;
use crate::num::aligned::padded;
use crate::num::gemm::{Left, Product, Right, TargetOrder, Update};
use crate::num::real::Real;
use crate::num::row_ops::add;
use crate::num::simd::Isa;

/// `target = x W + bias` for `n` rows of x, given as values, distance between rows, and width.
#[inline(always)]
pub(super) fn affine<T: Real, I: Isa>(
    isa: I,
    target: &mut [T],
    stride: usize,
    n: usize,
    (x, x_row, depth): (&[T], usize, usize),
    weights: &Packed<T>,
    bias: Option<&[T]>,
) {
    let (left, right) = (Left::rows(x, x_row), Right::Panels(&weights.plain));
    let width = weights.plain.width();
    let order = TargetOrder::Rows(stride);
    isa.run(Product { target, order, update: Update::Replace, rows: n, depth, width, left, right });
    if let Some(bias) = bias {
        target.chunks_exact_mut(stride).take(n).for_each(|row| add(row, bias));
    }
}

/// `target = g W^T` for `n` rows of g.
#[inline(always)]
pub(super) fn back<T: Real, I: Isa>(
    isa: I,
    target: &mut [T],
    stride: usize,
    n: usize,
    (g, g_row, depth): (&[T], usize, usize),
    weights: &Packed<T>,
) {
    let (left, right) = (Left::rows(g, g_row), Right::Panels(&weights.transposed));
    let width = weights.transposed.width();
    let order = TargetOrder::Rows(stride);
    isa.run(Product { target, order, update: Update::Replace, rows: n, depth, width, left, right });
}

/// `target (+)=` the sum of the first `n` rows.
#[inline(always)]
pub(super) fn sum_rows<T: Real>(update: Update, target: &mut [T], rows: &[T], stride: usize, n: usize) {
    if update == Update::Replace {
        target.fill(T::from_f64(0.0));
    }
    rows.chunks_exact(stride).take(n).for_each(|row| add(target, row));
}

/// `target (+)= x^T g` for `n` rows of both, in panels.
#[inline(always)]
pub(super) fn outer<T: Real, I: Isa>(
    isa: I,
    target: &mut [T],
    update: Update,
    n: usize,
    (x, x_row, x_width): (&[T], usize, usize),
    (g, g_row, g_width): (&[T], usize, usize),
) {
    let (left, right) = (Left::transposed(x, x_row), Right::Rows(g, g_row));
    let (order, width) = (TargetOrder::Panels, padded(g_width));
    isa.run(Product { target, order, update, rows: x_width, depth: n, width, left, right });
}
