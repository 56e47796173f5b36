//! LayerNorm and RMSNorm of balls.
//!
//! With centres c_j = x_j - mean x (RMSNorm: c_j = x_j) and sigma = sqrt(mean c^2 + eps), the centres of w_j c_j / sigma + b_j are
//! computed in integers of 2^-BITS. Points x' of the boxes have |c'_j - c_j| <= rho_j = r_j + mean r (RMSNorm: r_j), and sigma is
//! 1-Lipschitz in the root mean square, so |sigma' - sigma| <= rho, the root mean square of the rho_j, and
//!
//! ```text
//! |c'_j / sigma' - c_j / sigma| <= rho_j / sigma' + |c_j| |sigma' - sigma| / (sigma sigma')
//!                               <= (rho_j + |c_j| / sigma rho) / (sigma - rho).
//! ```
//!
//! Below sigma = 2^-40, or if rho reaches sigma, nothing is known.

use super::ball::{BITS, Ball, UNIT, WIDER};
use crate::model::Norm;
use crate::num::precise::{Dyadic, IBig, to_f64};
use dashu_base::{SquareRoot, UnsignedAbs};

/// The smallest sigma that is followed: the roundings of the integers are then below 2^-118 of it.
const SMALLEST: f64 = 1.0 / (1u64 << 40) as f64;
/// 2^-110 per unit of what is computed, which covers all roundings of the integers.
const ROUNDING: f64 = 1.0 / ((1u64 << 55) as f64 * (1u64 << 55) as f64);

/// A normalization with its gains and biases.
pub struct EnclosedNorm<'a> {
    kind: Norm,
    eps: f64,
    gain: &'a [f64],
    bias: Option<&'a [f64]>,
}

impl<'a> EnclosedNorm<'a> {
    /// The normalization of this kind; gains and biases as stored.
    pub fn new(kind: Norm, eps: f64, gain: &'a [f64], bias: Option<&'a [f64]>) -> Self {
        Self { kind, eps, gain, bias }
    }

    /// Normalizes a vector.
    pub fn apply(&self, x: &[Ball]) -> Vec<Ball> {
        if self.kind == Norm::None {
            return x.to_vec();
        }
        if !x.iter().all(Ball::is_known) {
            return vec![Ball::UNKNOWN; x.len()];
        }
        let d = x.len();
        let fixed: Vec<IBig> = x.iter().map(Ball::fixed).collect();
        let layer = self.kind == Norm::Layer;
        let sum: IBig = if layer { fixed.iter().sum() } else { IBig::ZERO };
        // d c_j, and d^2 times the sum of squares.
        let centred: Vec<IBig> = fixed.iter().map(|x| x * IBig::from(d) - &sum).collect();
        let squares: IBig = centred.iter().map(|c| c * c).sum();
        let variance = squares / IBig::from(d as u128 * d as u128 * d as u128);
        let eps = Dyadic::from(self.eps).floor(2 * BITS);
        let root = IBig::from((variance + eps).unsigned_abs().sqrt());
        let sigma = to_f64(&root, BITS) * (1.0 - 1e-12);
        // Rounding down to units widens the boxes.
        let spread = |ball: &Ball| ball.radius + 2.0 * UNIT;
        let mean = if layer { x.iter().map(spread).sum::<f64>() / d as f64 } else { 0.0 };
        let rho = |ball: &Ball| (spread(ball) + mean) * WIDER;
        let mean_square = x.iter().map(|b| rho(b) * rho(b)).sum::<f64>() / d as f64;
        let all = mean_square.sqrt() * WIDER;
        let least = (sigma - all) * (1.0 - 1e-12);
        if least.is_nan() || least <= SMALLEST {
            return vec![Ball::UNKNOWN; d];
        }
        let below = &root * IBig::from(d);
        let entry = |j: usize| {
            let (gain, bias) = (self.gain[j], self.bias.map_or(0.0, |b| b[j]));
            let value = Dyadic::from(gain).floor(BITS) * &centred[j] / &below;
            let direction = to_f64(&centred[j], BITS).abs() / (d as f64 * sigma);
            let carried = gain.abs() * (rho(&x[j]) + direction * all) / least;
            let rounding = ROUNDING * (gain.abs() * (d as f64).sqrt() + gain.abs() + bias.abs() + 1.0);
            Ball::of_fixed(&(value + Dyadic::from(bias).floor(BITS)), (carried + rounding) * WIDER)
        };
        (0..d).map(entry).collect()
    }
}
