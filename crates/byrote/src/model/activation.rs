//! The activations: values and derivatives in f64, the oracle for every faster path.
//!
//! | name | psi(x) | psi'(x) |
//! |---|---|---|
//! | gelu | x Phi(x) | Phi(x) + x phi(x) |
//! | gelu-tanh | x (1 + tanh t) / 2, t = sqrt(2/pi) (x + 0.044715 x^3) | (1 + tanh t) / 2 + x (1 - tanh^2 t) t' / 2 |
//! | tanh | tanh x | 1 - tanh^2 x |
//! | logistic | s = 1 / (1 + e^-x) | s (1 - s) |
//! | arctan | arctan x | 1 / (1 + x^2) |
//! | relu | max(x, 0) | 1 for x > 0, else 0 |
//! | erf | erf x | 2 / sqrt(pi) e^(-x^2) |
//! | silu | x s, s = 1 / (1 + e^-x) | s + x s (1 - s) |
//!
//! Phi and phi are the distribution function and the density of the standard normal distribution.

use super::Activation;
use crate::num::precise::{Dyadic, IBig, Precise};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

/// sqrt(2 / pi).
const SQRT_2_OVER_PI: f64 = FRAC_2_SQRT_PI / SQRT_2;
/// The cubic coefficient of the approximation of GELU by tanh.
const GELU_CUBIC: f64 = 0.044_715;

impl Activation {
    /// psi(x).
    pub fn value(self, x: f64) -> f64 {
        match self {
            Activation::Gelu => x * normal_cdf(x),
            Activation::GeluTanh => 0.5 * x * (1.0 + gelu_inner(x).0.tanh()),
            Activation::Tanh => x.tanh(),
            Activation::Logistic => logistic(x),
            Activation::Arctan => x.atan(),
            Activation::Relu => x.max(0.0),
            Activation::Erf => libm::erf(x),
            Activation::Silu => x * logistic(x),
        }
    }

    /// psi(x) in units of 2^-bits, within one of them, for |x| up to [`crate::num::precise::LARGEST`].
    pub(crate) fn precise(self, precise: &Precise, x: &Dyadic) -> IBig {
        match self {
            Activation::Gelu => precise.gelu(x),
            Activation::GeluTanh => precise.gelu_tanh(x),
            Activation::Tanh => precise.tanh(x),
            Activation::Logistic => precise.logistic(x),
            Activation::Arctan => precise.arctan(x),
            Activation::Relu => x.floor(precise.bits()).max(IBig::ZERO),
            Activation::Erf => precise.erf(x),
            Activation::Silu => precise.silu(x),
        }
    }

    /// psi'(x); 0 at the corner of ReLU, as in PyTorch.
    pub fn derivative(self, x: f64) -> f64 {
        match self {
            Activation::Gelu => normal_cdf(x) + x * normal_density(x),
            Activation::GeluTanh => {
                let (inner, slope) = gelu_inner(x);
                let t = inner.tanh();
                // Where tanh has saturated, the second term is zero however steep t is.
                let flat = 1.0 - t * t;
                0.5 * (1.0 + t) + if flat == 0.0 { 0.0 } else { 0.5 * x * flat * slope }
            }
            Activation::Tanh => 1.0 - x.tanh().powi(2),
            Activation::Logistic => {
                let s = logistic(x);
                s * (1.0 - s)
            }
            Activation::Arctan => 1.0 / (1.0 + x * x),
            Activation::Relu => f64::from(u8::from(x > 0.0)),
            Activation::Erf => FRAC_2_SQRT_PI * (-x * x).exp(),
            Activation::Silu => {
                let s = logistic(x);
                // Where s has reached 0 or 1, the second term is zero however large x is.
                let flat = s * logistic(-x);
                s + if flat == 0.0 { 0.0 } else { x * flat }
            }
        }
    }
}

/// Phi(x), also accurate in the left tail.
fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// phi(x).
fn normal_density(x: f64) -> f64 {
    0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI * (-0.5 * x * x).exp()
}

/// t and dt/dx of GELU's approximation by tanh.
fn gelu_inner(x: f64) -> (f64, f64) {
    (SQRT_2_OVER_PI * (x + GELU_CUBIC * x.powi(3)), SQRT_2_OVER_PI * (1.0 + 3.0 * GELU_CUBIC * x * x))
}

/// 1 / (1 + e^-x), without overflow on either side.
fn logistic(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_tables() {
        // To 16 digits, from 40-digit arithmetic.
        let cases = [
            (Activation::Gelu, 1.0, 0.841_344_746_068_542_9),
            (Activation::Gelu, -3.0, -0.004_049_694_094_890_284),
            (Activation::GeluTanh, 1.0, 0.841_191_990_608_276_7),
            (Activation::Tanh, 0.5, 0.462_117_157_260_009_76),
            (Activation::Logistic, -1.0, 0.268_941_421_369_995_1),
            (Activation::Arctan, 1.0, std::f64::consts::FRAC_PI_4),
            (Activation::Erf, 0.5, 0.520_499_877_813_046_5),
            (Activation::Relu, -2.0, 0.0),
        ];
        for (activation, x, value) in cases {
            // Phi has relative condition number x^2 in its left tail: a rounded argument costs that many units.
            let tolerance = 4e-16 * (1.0 + x * x) * value.abs();
            assert!((activation.value(x) - value).abs() <= tolerance, "{activation}({x})");
        }
    }

    #[test]
    fn more_bits_say_the_same() {
        let precise = Precise::new(120);
        for activation in Activation::ALL {
            for i in -40..=40 {
                let x = f64::from(i) * 0.23 + 0.011;
                let value = crate::num::precise::to_f64(&activation.precise(&precise, &Dyadic::from(x)), 120);
                let own = activation.value(x);
                assert!(
                    (value - own).abs() <= 2e-15 * own.abs().max(1.0),
                    "{activation} at {x}: {value} {own}"
                );
            }
        }
    }

    #[test]
    fn derivatives_are_those_of_the_values() {
        for activation in Activation::ALL {
            for i in -40..=40 {
                let x = f64::from(i) * 0.23 + 0.011;
                let h = 1e-5;
                let slope = (activation.value(x + h) - activation.value(x - h)) / (2.0 * h);
                assert!((activation.derivative(x) - slope).abs() < 1e-9, "{activation} at {x}");
            }
        }
    }

    #[test]
    fn extreme_arguments_give_limits_not_nan() {
        for activation in Activation::ALL {
            for x in [-1e300, -800.0, 800.0, 1e300] {
                assert!(!activation.value(x).is_nan(), "{activation}({x})");
                assert!(!activation.derivative(x).is_nan(), "{activation}'({x})");
            }
        }
    }
}
