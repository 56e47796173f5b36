//! Values and derivatives of the activation functions, for whole arrays.

use crate::model::Activation;
use crate::num::elementary::{arctan, erf, logistic, normal, tanh};
use crate::num::real::Real;
use crate::num::simd::{Isa, SimdKernel};

/// `y = psi(u + bias)` and `slope = psi'(u + bias)`, for rows that are `row` values apart.
pub(in crate::train) struct Activate<'a, T> {
    pub(in crate::train) activation: Activation,
    pub(in crate::train) u: &'a [T],
    pub(in crate::train) bias: &'a [T],
    pub(in crate::train) y: &'a mut [T],
    pub(in crate::train) slope: &'a mut [T],
    pub(in crate::train) row: usize,
}

impl<T: Real> SimdKernel for Activate<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let one = T::from_f64(1.0);
        match self.activation {
            Activation::Gelu => self.each(|x| {
                let (cdf, density) = normal(isa, x);
                (x * cdf, isa.fma(bounded(x), density, cdf))
            }),
            Activation::GeluTanh => self.each(|x| {
                // sqrt(2 / pi), and that times the cubic coefficient.
                let (root, cubic) =
                    (T::from_f64(0.797_884_560_802_865_4), T::from_f64(0.797_884_560_802_865_4 * 0.044_715));
                let b = bounded(x);
                let t = tanh(isa, b * isa.fma(cubic, b * b, root));
                let half = T::from_f64(0.5) * (one + t);
                let inner = isa.fma(T::from_f64(3.0) * cubic, b * b, root);
                (x * half, isa.fma(T::from_f64(0.5) * b * (one - t * t), inner, half))
            }),
            Activation::Tanh => self.each(|x| {
                let t = tanh(isa, x);
                (t, one - t * t)
            }),
            Activation::Logistic => self.each(|x| logistic(isa, x)),
            Activation::Arctan => self.each(|x| (arctan(isa, x), one / isa.fma(x, x, one))),
            Activation::Relu => self.each(|x| {
                let zero = T::from_f64(0.0);
                (if x < zero { zero } else { x }, if x > zero { one } else { zero })
            }),
            Activation::Erf => self.each(|x| erf(isa, x)),
            Activation::Silu => self.each(|x| {
                let (s, slope) = logistic(isa, x);
                (x * s, isa.fma(bounded(x), slope, s))
            }),
        }
    }
}

impl<T: Real> Activate<'_, T> {
    #[inline(always)]
    fn each(self, function: impl Fn(T) -> (T, T)) {
        let rows = self.y.chunks_exact_mut(self.row).zip(self.slope.chunks_exact_mut(self.row));
        for (u, (y, slope)) in self.u.chunks_exact(self.row).zip(rows) {
            for (((u, bias), y), slope) in u.iter().zip(self.bias).zip(y).zip(slope) {
                (*y, *slope) = function(*u + *bias);
            }
        }
    }
}

/// x, clamped to where GELU's slope has long reached its limits, so that infinity times zero cannot occur. NaN is kept.
#[inline(always)]
fn bounded<T: Real>(x: T) -> T {
    let bound = T::from_f64(1e4);
    let x = if x > bound { bound } else { x };
    if x < -bound { -bound } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::simd::each;

    struct Values<'a, T>(Activation, &'a [T]);
    impl<T: Real> SimdKernel for Values<'_, T> {
        type Output = (Vec<T>, Vec<T>);
        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> (Vec<T>, Vec<T>) {
            let (mut y, mut slope) = (self.1.to_vec(), self.1.to_vec());
            let bias = vec![T::from_f64(0.0); y.len()];
            let (activation, u, row) = (self.0, self.1, y.len());
            isa.run(Activate { activation, u, bias: &bias, y: &mut y, slope: &mut slope, row });
            (y, slope)
        }
    }

    fn are_those_of_the_reference<T: Real>(unit: f64) {
        let mut u: Vec<T> = (-3000..=3000).map(|i| T::from_f64(f64::from(i) * 0.004 + 1e-3)).collect();
        u.extend([-1e30, -800.0, -30.0, 0.0, 30.0, 800.0, 1e30].map(T::from_f64));
        for activation in Activation::ALL {
            each(
                |_| Values(activation, &u),
                |(y, slope)| {
                    for ((&u, &y), &slope) in u.iter().zip(&y).zip(&slope) {
                        let x = u.to_f64();
                        let (value, derivative) = (activation.value(x), activation.derivative(x));
                        let near = |a: f64, b: f64| (a - b).abs() <= 8.0 * unit * b.abs().max(1.0);
                        assert!(near(y.to_f64(), value), "{activation}({x}) = {} {value}", y.to_f64());
                        assert!(
                            near(slope.to_f64(), derivative),
                            "{activation}'({x}) = {} {derivative}",
                            slope.to_f64()
                        );
                    }
                },
            );
        }
    }

    #[test]
    fn values_and_slopes_are_those_of_the_reference_on_every_instruction_set() {
        are_those_of_the_reference::<f32>(f64::from(f32::EPSILON));
        are_those_of_the_reference::<f64>(f64::EPSILON);
    }

    #[test]
    fn nan_stays_nan() {
        for activation in Activation::ALL {
            each(
                |_| Values(activation, &[f32::NAN; 16]),
                |(y, _)| assert!(y.iter().all(|y| y.is_nan()), "{activation}"),
            );
        }
    }
}
