//! Bounds on the rounding errors of evaluating a model in floating point.
//!
//! The certificate of [`super::verdict`] is about real arithmetic. What a program computes differs from that by rounding errors,
//! and this module bounds the difference for every program that evaluates the formulas at the head of
//! [`crate::model::config`] under these assumptions (docs/derivations/certificates.md has the derivation):
//!
//! - Sums, products, quotients and square roots are rounded to nearest, or fused in any way (multiply-add); results in the
//!   subnormal range may be flushed to zero. Weights are first rounded to the format.
//! - A sum may be taken in any order and in any number of parts; the terms of a layer's sum are its products, its bias and its
//!   skip connection. The factor 1/sqrt(d_head) may be applied anywhere between the query weights and the softmax.
//! - The softmax subtracts the largest score, and normalizes before or after the values are mixed. `exp` has a relative error of
//!   at most [`EXP_UNITS`] u (4 units in the last place); an exponential of an argument below -460 in f64, or below -46 in f32,
//!   may be set to zero ([`FloatFormat::negligible`]).
//! - An activation has an absolute error of at most [`ACTIVATION_UNITS`] u (8 units in the last place of 1); for arctan twice
//!   that, 32 u; for GELU, it is multiplied by max(1, |x|). ReLU is exact.
//!
//! Our own kernels are written and tested to meet these assumptions. Of any other program, including PyTorch and ONNX Runtime,
//! they are assumed: the certificate says nothing about a program that does not meet them.
//!
//! Where an intermediate result may overflow in some order of summation, the error is infinite: infinity minus infinity is not a
//! number, and nothing is known about what follows. Sums of more than [`MOST_TERMS`] terms have infinite errors, too.
//!
//! With unit roundoff u and gamma_n = n u / (1 - n u), a sum of n products of weights w_k and inputs that are computed as
//! x_k + e_k is computed with an error of at most
//!
//! ```text
//! sum_k |w_k| (|e_k| + gamma_N (|x_k| + |e_k|)),         N = n + 8,
//! ```
//!
//! where the 8 counts the roundings of a product that do not come from additions. All quantities here are sums and products of
//! non-negative doubles, so computing them costs a relative error below the factor [`WIDER`] that each bound is multiplied by.

use super::activation_enclosure::exp;
use super::interval::Interval;
use crate::model::Precision;

/// The relative error of `exp`, in units of u.
pub const EXP_UNITS: f64 = 8.0;
/// The absolute error of an activation, in units of u.
pub const ACTIVATION_UNITS: f64 = 16.0;

/// Roundings of a term of a sum that are not additions: of the product, of the weight to the format, and of the factor of the
/// scores (a square root, a reciprocal and a product, wherever it is applied); and three to spare.
const PER_TERM: usize = 8;

/// The most terms of a sum that the analysis covers. Beyond it there is no bound.
pub const MOST_TERMS: usize = 1 << 22;

/// Covers the roundings of computing a bound: fewer than 2^23 operations in succession, each of relative error at most 2^-53.
/// A sum of [`MOST_TERMS`] terms takes half of them.
pub const WIDER: f64 = 1.0 + 1.0 / (1u64 << 30) as f64;

/// A floating-point format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloatFormat {
    /// Its name.
    pub precision: Precision,
    /// The unit roundoff u: half the distance from 1 to the next number.
    pub unit: f64,
    /// The smallest normal number.
    pub smallest: f64,
    /// The largest finite number.
    pub largest: f64,
    /// An upper bound of e^-460 in f64 and of e^-46 in f32: a softmax may drop exponentials that are smaller than this,
    /// relative to the largest. Our kernels do ([`crate::num::elementary::Elementary::NEGLIGIBLE`]).
    pub negligible: f64,
}

/// The formats that errors are bounded for.
pub const FORMATS: [FloatFormat; 2] = [
    FloatFormat {
        precision: Precision::F64,
        unit: f64::EPSILON / 2.0,
        smallest: f64::MIN_POSITIVE,
        largest: f64::MAX,
        negligible: 1.7e-200,
    },
    FloatFormat {
        precision: Precision::F32,
        unit: (f32::EPSILON / 2.0) as f64,
        smallest: f32::MIN_POSITIVE as f64,
        largest: f32::MAX as f64,
        negligible: 1.1e-20,
    },
];

/// A bound for each of [`FORMATS`].
pub type Errors = [f64; FORMATS.len()];

/// A real number known to lie in an interval, and bounds on how far off it is when computed in each format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnclosedValue {
    /// The exact value.
    pub exact: Interval,
    /// Bounds on the errors of the computed values.
    pub errors: Errors,
}

impl EnclosedValue {
    /// An upper bound on the absolute value of the exact number.
    pub fn size(&self) -> f64 {
        self.exact.magnitudes().1
    }
}

impl FloatFormat {
    /// gamma_N for a sum of `terms` terms, or infinity where there are too many for the analysis.
    pub fn gamma(&self, terms: usize) -> f64 {
        if terms > MOST_TERMS {
            return f64::INFINITY;
        }
        let nu = (terms + PER_TERM) as f64 * self.unit;
        nu / (1.0 - nu) * WIDER
    }

    /// The format as it appears to numbers that are divided by `root` at least 1: flushing a quotient to zero changes the
    /// dividend by up to `root` times the smallest normal number.
    pub fn flushing(&self, root: f64) -> Self {
        Self { smallest: self.smallest * root, ..*self }
    }

    /// What an input of a sum contributes to the error of the sum, per unit of its weight: |e| + gamma (|x| + |e|), and what
    /// flushing to zero costs.
    #[inline(always)]
    pub fn carried(&self, gamma: f64, size: f64, error: f64) -> f64 {
        error + gamma * (size + error) + 4.0 * self.smallest
    }

    /// The error of a sum from the contributions of its inputs, that of a term without a weight (a bias), its number of terms,
    /// an upper bound on its inputs as computed, and one on the sum of the absolute values of its terms. Infinite where a
    /// partial sum may overflow.
    pub fn of_sum(&self, carried: f64, plain: f64, gamma: f64, terms: usize, input: f64, total: f64) -> f64 {
        // Each product and each addition may flush to zero, and a weight as well.
        let flushed = 4.0 * (terms + 1) as f64 * self.smallest * (1.0 + input);
        let error = (carried + gamma * plain + flushed) * WIDER;
        // Written so that what is not a number is not known.
        if error.is_finite() && 4.0 * total <= self.largest { error } else { f64::INFINITY }
    }

    /// The error, in the format with this index, of the mean of `values` with softmax weights. `taus` are bounds on the relative
    /// errors of the exponentials, `weights` upper bounds of the exact weights, and `mean` encloses the exact mean. The errors of
    /// the scores must be finite: if a score can overflow, its softmax can be anything, not a number included.
    ///
    /// The computed weights are proportional to a_s (1 + t_s) with |t_s| <= tau_s, up to roundings that are counted in gamma,
    /// and sum_s a_s (1 + t_s) v_s / sum_r a_r (1 + t_r) - mean = sum_s a_s t_s (v_s - mean) / (1 + sum_r a_r t_r).
    pub fn of_mean(
        &self,
        index: usize,
        taus: &[f64],
        weights: impl Iterator<Item = f64>,
        values: impl Iterator<Item = EnclosedValue>,
        mean: Interval,
    ) -> f64 {
        let n = taus.len() as f64;
        // Products and sums of numerator and denominator, and the quotient.
        let gamma = self.gamma(2 * taus.len());
        let largest_tau = taus.iter().copied().fold(0.0, f64::max);
        let (mut spread, mut sum) = (0.0, 0.0);
        let (mut widest, mut most, mut largest) = (0.0f64, 0.0f64, 0.0f64);
        for ((value, &tau), weight) in values.zip(taus).zip(weights) {
            let apart = (value.exact.hi - mean.lo).max(mean.hi - value.exact.lo);
            let own = self.carried(gamma, value.size(), value.errors[index]);
            // Written so that what is not a number is not known; `max` would pass over it.
            if !(apart.is_finite() && own.is_finite()) {
                return f64::INFINITY;
            }
            spread += weight * tau * apart;
            sum += weight * (1.0 + tau) * own;
            (widest, most) = (widest.max(apart), most.max(own));
            largest = largest.max(value.size() + value.errors[index]);
        }
        // The sum of exponentials times values, before it is normalized. No exponential is above 1 by more than its error.
        if 4.0 * n * largest > self.largest {
            return f64::INFINITY;
        }
        // A mean never leaves the values, however wrong its weights.
        let any = widest + most;
        let near = (spread + sum) / (1.0 - largest_tau);
        let error = if largest_tau < 0.5 { near.min(any) } else { any };
        // Each exponential below `dropped` that is set to zero moves the mean by at most that times the distance of two values,
        // and each weight or product that is flushed to zero by at most the smallest number times (1 + largest).
        let dropped = self.negligible.max(4.0 * self.smallest);
        let error = (error + 2.0 * n * dropped * (1.0 + 2.0 * largest)) * WIDER;
        if error.is_finite() { error } else { f64::INFINITY }
    }

    /// tau_s: how far the computed exponential of a score may be off, relatively, from the exact one, up to a common factor.
    /// `error` is that of the score, `largest_error` that of all scores, `below` how far the score lies below the largest.
    pub fn of_exponential(&self, error: f64, largest_error: f64, below: f64) -> f64 {
        let shift = (error + self.unit * (below + 2.0 * largest_error)) * WIDER;
        // e^x - 1 <= x + x^2 for 0 <= x <= 1.
        let grown = match shift {
            x if x <= 1.0 => x + x * x,
            x => exp(Interval::exact(x)).hi - 1.0,
        };
        let tau = (grown + EXP_UNITS * self.unit * (1.0 + grown)) * WIDER;
        if tau.is_finite() { tau } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::elementary::Elementary;

    #[test]
    fn what_the_kernels_drop_is_allowed_for() {
        let [double, single] = FORMATS.map(|f| f.negligible);
        assert!(double > f64::NEGLIGIBLE.exp() && double < 1.02 * f64::NEGLIGIBLE.exp());
        let dropped = f64::from(f32::NEGLIGIBLE).exp();
        assert!(single > dropped && single < 1.05 * dropped);
    }

    #[test]
    fn sums_with_too_many_terms_have_no_bound() {
        for format in FORMATS {
            let most = format.gamma(MOST_TERMS);
            assert!(most.is_finite() && most >= MOST_TERMS as f64 * format.unit);
            assert_eq!(format.gamma(MOST_TERMS + 1), f64::INFINITY);
            assert_eq!(format.of_sum(0.0, 1.0, format.gamma(MOST_TERMS + 1), 2, 1.0, 1.0), f64::INFINITY);
        }
    }
}
