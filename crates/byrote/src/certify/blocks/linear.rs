//! Linear maps of balls.
//!
//! The compensated dot product of Ogita, Rump and Oishi (2005), whose result is kept as two doubles. With inputs x_k = h_k + l_k,
//! |l_k| <= u |h_k|, weights v_k and a bias,
//!
//! ```text
//! p = fl(v h),  e = v h - p,  s = fl(sum + p),  f = (sum + p) - s         e and f are exact doubles
//! low += (f + e) + v l
//! ```
//!
//! the exact sum is that of the last s and of all f + e + v l. Their absolute values add up to at most (n + 2) u S 1.01 with
//! S = |bias| + sum_k |v_k| |x_k|, and adding them up in doubles costs at most (n + 3) u times that. So the two doubles are off by less than
//! 4 (n + 4)^2 u^2 S. Underflow costs the smallest normal double per term. The radii of the inputs add sum_k |v_k| r_k.

use super::ball::{Ball, U, WIDER};
use crate::num::simd::{Isa, SimdKernel, run};

/// A linear map with a bias.
pub struct BallLayer {
    /// Row-major `[depth, columns]`.
    matrix: Vec<f64>,
    bias: Vec<f64>,
    depth: usize,
}

impl BallLayer {
    /// A row-major matrix `[depth, columns]`.
    pub fn new(matrix: Vec<f64>, bias: Option<&[f64]>, columns: usize) -> Self {
        let depth = matrix.len() / columns.max(1);
        assert_eq!(matrix.len(), depth * columns, "{depth} x {columns}");
        Self { matrix, bias: bias.map_or_else(|| vec![0.0; columns], <[f64]>::to_vec), depth }
    }

    /// Applies the map.
    pub fn apply(&self, inputs: &[Ball]) -> Vec<Ball> {
        debug_assert_eq!(inputs.len(), self.depth);
        let n = self.depth as f64 + 4.0;
        let factor = 4.0 * n * n * U * U;
        let mut sums = Sums {
            high: self.bias.clone(),
            low: vec![0.0; self.bias.len()],
            radius: self.bias.iter().map(|b| factor * b.abs()).collect(),
        };
        run(Accumulate { matrix: &self.matrix, inputs, factor, sums: &mut sums });
        let Sums { high, low, radius } = sums;
        let rest = n * f64::MIN_POSITIVE;
        let columns = high.iter().zip(&low).zip(&radius);
        // The sums of non-negative terms are off by n u at most, relatively.
        columns.map(|((&h, &l), &r)| Ball::new(h, l, (r * (1.0 + 4.0 * n * U) + rest) * WIDER)).collect()
    }
}

/// Partial sums of all columns.
struct Sums {
    high: Vec<f64>,
    low: Vec<f64>,
    radius: Vec<f64>,
}

struct Accumulate<'a> {
    matrix: &'a [f64],
    inputs: &'a [Ball],
    factor: f64,
    sums: &'a mut Sums,
}

impl SimdKernel for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Self { matrix, inputs, factor, sums } = self;
        let n = sums.high.len();
        for (input, row) in inputs.iter().zip(matrix.chunks_exact(n.max(1))) {
            let (h, l) = (input.hi, input.lo);
            let carried = input.radius + factor * input.size();
            let columns = sums.high.iter_mut().zip(&mut sums.low).zip(&mut sums.radius);
            for (((high, low), radius), &v) in columns.zip(row) {
                // `mul_add` rounds once on every machine, so the error of the product is exact.
                let product = v * h;
                let product_error = v.mul_add(h, -product);
                let sum = *high + product;
                let part = sum - *high;
                let sum_error = (*high - (sum - part)) + (product - part);
                *high = sum;
                *low += (sum_error + product_error) + v * l;
                *radius = v.abs().mul_add(carried, *radius);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Stream;
    use crate::num::precise::Dyadic;

    /// Points of the input boxes are mapped into the output boxes, also when everything cancels.
    #[test]
    fn enclosures_hold_the_exact_sums() {
        let (depth, columns) = (50, 7);
        for (case, cancel) in [(0, false), (1, true), (2, true)] {
            let mut stream = Stream::new(case, "ball layer", 0);
            let mut matrix: Vec<f64> = (0..depth * columns).map(|_| stream.normal() * 1e4).collect();
            let mut inputs: Vec<Ball> = (0..depth)
                .map(|_| Ball::new(stream.normal(), 1e-17 * stream.normal(), 1e-26 * stream.unit()))
                .collect();
            if cancel {
                for k in depth / 2..depth {
                    inputs[k] = inputs[k - depth / 2];
                    for j in 0..columns {
                        matrix[k * columns + j] = -matrix[(k - depth / 2) * columns + j] * (1.0 + 1e-14);
                    }
                }
            }
            let bias: Vec<f64> = (0..columns).map(|_| stream.normal()).collect();
            let out = BallLayer::new(matrix.clone(), Some(&bias), columns).apply(&inputs);
            for corner in 0..3 {
                let point = |k: usize| {
                    let sign = if (k + corner).is_multiple_of(3) { 1.0 } else { -1.0 };
                    inputs[k].centre().plus(&Dyadic::from(sign * inputs[k].radius))
                };
                for (j, ball) in out.iter().enumerate() {
                    let exact = (0..depth).fold(Dyadic::from(bias[j]), |sum, k| {
                        sum.plus(&Dyadic::from(matrix[k * columns + j]).times(&point(k)))
                    });
                    let off = exact.minus(&ball.centre()).abs();
                    assert!(off <= Dyadic::from(ball.radius), "case {case}: {:e} {ball:?}", off.to_f64());
                    let carried: f64 =
                        (0..depth).map(|k| matrix[k * columns + j].abs() * inputs[k].radius).sum();
                    let size: f64 =
                        (0..depth).map(|k| matrix[k * columns + j].abs() * inputs[k].size()).sum();
                    assert!(ball.radius < 1.01 * carried + 2e-28 * size, "{ball:?} {carried:e} {size:e}");
                }
            }
        }
        let overflow = BallLayer::new(vec![1e300, 1e300], None, 1);
        assert!(!overflow.apply(&[Ball::exact(1e300), Ball::exact(-1e300)])[0].is_known());
    }
}
