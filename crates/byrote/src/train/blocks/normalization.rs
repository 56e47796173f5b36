//! LayerNorm and RMSNorm of rows, and the way back.
//!
//! ```text
//! xh = (x - mean x) r,   r = 1 / sqrt(mean (x - mean x)^2 + eps),   y = w xh + b
//! dx = r (w dy - mean(w dy) - xh mean(w dy xh)),   dw = sum dy xh,   db = sum dy
//! ```
//!
//! RMSNorm leaves out the means of x and of w dy, and the bias. Without normalization y = xh = x.

use super::weights::NormWeights;
use crate::model::Norm;
use crate::num::aligned::padded;
use crate::num::real::Real;
use crate::num::row_ops::{add_scaled, dot, scale, sum};
use crate::num::simd::Isa;

/// How rows are normalized.
#[derive(Clone, Copy)]
pub(super) struct Normalization {
    pub(super) norm: Norm,
    pub(super) eps: f64,
    pub(super) d: usize,
    pub(super) d_row: usize,
}

impl Normalization {
    /// Normalizes the first `n` rows of x: `xh`, and one factor per row.
    #[inline(always)]
    pub(super) fn forward<T: Real, I: Isa>(self, isa: I, n: usize, x: &[T], xh: &mut [T], factors: &mut [T]) {
        let Self { norm, eps, d, d_row } = self;
        if norm == Norm::None {
            xh[..n * d_row].copy_from_slice(&x[..n * d_row]);
            return;
        }
        let width = padded(d);
        let factors = &mut factors[..n];
        for ((x, xh), factor) in x.chunks_exact(d_row).zip(xh.chunks_exact_mut(d_row)).zip(&mut *factors) {
            if norm == Norm::Layer {
                let mean = T::from_f64(sum(isa, &x[..width]) / d as f64);
                for (xh, x) in xh[..d].iter_mut().zip(x) {
                    *xh = *x - mean;
                }
            } else {
                xh[..width].copy_from_slice(&x[..width]);
            }
            *factor = dot(isa, &xh[..width], &xh[..width]);
        }
        // For all rows at once: roots and quotients take long one by one.
        for factor in &mut *factors {
            let square = factor.to_f64() / d as f64;
            // A square that overflows would make the row zero, and nobody would notice.
            let inverse = if square.is_finite() { 1.0 / (square + eps).sqrt() } else { f64::NAN };
            *factor = T::from_f64(inverse);
        }
        for (xh, factor) in xh.chunks_exact_mut(d_row).zip(factors) {
            // Not the padding, which must stay zero even where a factor is not finite.
            scale(&mut xh[..d], *factor);
        }
    }

    /// `y = w xh + b` for the first `n` rows.
    #[inline(always)]
    pub(super) fn output<T: Real, I: Isa>(
        self,
        isa: I,
        n: usize,
        xh: &[T],
        weights: &NormWeights<T>,
        y: &mut [T],
    ) {
        let Self { norm, d, d_row, .. } = self;
        if norm == Norm::None {
            y[..n * d_row].copy_from_slice(&xh[..n * d_row]);
            return;
        }
        let width = padded(d);
        for (xh, y) in xh.chunks_exact(d_row).zip(y.chunks_exact_mut(d_row)).take(n) {
            let rows = xh[..width].iter().zip(&mut y[..width]);
            for (((xh, y), w), b) in rows.zip(&weights.gain[..width]).zip(&weights.bias[..width]) {
                *y = isa.fma(*w, *xh, *b);
            }
        }
    }

    /// From the derivatives of y to those of x, in place, for the first `n` rows; those of gain and bias are added.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // What the formula has.
    pub(super) fn backward<T: Real, I: Isa>(
        self,
        isa: I,
        n: usize,
        xh: &[T],
        factors: &[T],
        weights: &NormWeights<T>,
        dy: &mut [T],
        (d_gain, d_bias): (&mut [T], &mut [T]),
    ) {
        let Self { norm, d, d_row, .. } = self;
        if norm == Norm::None {
            return;
        }
        let width = padded(d);
        for ((xh, dy), factor) in xh.chunks_exact(d_row).zip(dy.chunks_exact_mut(d_row)).zip(factors).take(n)
        {
            let (xh, dy) = (&xh[..width], &mut dy[..width]);
            let sums = d_gain[..width].iter_mut().zip(&mut d_bias[..width]);
            for (((dy, xh), w), (d_gain, d_bias)) in
                dy.iter_mut().zip(xh).zip(&weights.gain[..width]).zip(sums)
            {
                *d_gain = isa.fma(*dy, *xh, *d_gain);
                *d_bias += *dy;
                *dy *= *w;
            }
            let along = T::from_f64(-(dot(isa, dy, xh).to_f64() / d as f64));
            let mean = match norm {
                Norm::Layer => T::from_f64(sum(isa, dy) / d as f64),
                Norm::Rms | Norm::None => T::from_f64(0.0),
            };
            add_scaled(isa, dy, along, xh);
            // The padding stays zero.
            for dy in &mut dy[..d] {
                *dy = (*dy - mean) * *factor;
            }
        }
    }
}
