//! Values of the activation functions, for rows of hidden neurons.
//!
//! ```text
//! h = psi(u + b)      gated: h = psi(u + b) (g + c)
//! ```

use crate::model::Activation;
use crate::num::elementary::{arctan, erf, logistic, normal, tanh};
use crate::num::simd::{Isa, SimdKernel};

/// The arguments of the neurons become their values, for rows that are `stride` values apart. Biases may be empty.
pub(super) struct Neurons<'a> {
    pub(super) activation: Activation,
    pub(super) values: &'a mut [f32],
    pub(super) bias: &'a [f32],
    /// The factors of a gated layer, and their bias; the factors are empty without a gate.
    pub(super) factors: &'a mut [f32],
    pub(super) factor_bias: &'a [f32],
    pub(super) stride: usize,
    pub(super) width: usize,
}

impl SimdKernel for Neurons<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(mut self, isa: I) {
        add_bias(self.values, self.stride, self.bias);
        match self.activation {
            Activation::Gelu => self.each(|x| x * normal(isa, x).0),
            Activation::GeluTanh => self.each(|x| {
                // sqrt(2 / pi), and that times the cubic coefficient.
                let (root, cubic) = (0.797_884_6f32, 0.797_884_6f32 * 0.044_715);
                let b = x.clamp(-1e4, 1e4);
                0.5 * x * (1.0 + tanh(isa, b * isa.fma(cubic, b * b, root)))
            }),
            Activation::Tanh => self.each(|x| tanh(isa, x)),
            Activation::Logistic => self.each(|x| logistic(isa, x).0),
            Activation::Arctan => self.each(|x| arctan(isa, x)),
            Activation::Relu => self.each(|x| if x < 0.0 { 0.0 } else { x }),
            Activation::Erf => self.each(|x| erf(isa, x).0),
            Activation::Silu => self.each(|x| x * logistic(isa, x).0),
        }
        if !self.factors.is_empty() {
            add_bias(self.factors, self.stride, self.factor_bias);
            for (value, factor) in self.values.iter_mut().zip(&*self.factors) {
                *value *= *factor;
            }
        }
    }
}

impl Neurons<'_> {
    #[inline(always)]
    fn each(&mut self, function: impl Fn(f32) -> f32) {
        for row in self.values.chunks_mut(self.stride) {
            for x in &mut row[..self.width] {
                *x = function(*x);
            }
        }
    }
}

/// Adds a bias, which may be empty, to rows that are `stride` values apart.
#[inline(always)]
pub(super) fn add_bias(rows: &mut [f32], stride: usize, bias: &[f32]) {
    if !bias.is_empty() {
        for row in rows.chunks_mut(stride) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::simd::each;

    struct Values<'a>(Activation, &'a [f32], bool);
    impl SimdKernel for Values<'_> {
        type Output = Vec<f32>;
        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> Vec<f32> {
            let Self(activation, x, gated) = self;
            let mut values = x.to_vec();
            let mut factors = if gated { vec![2.0; x.len()] } else { Vec::new() };
            let bias = vec![0.25; 8];
            let neurons = Neurons {
                activation,
                values: &mut values,
                bias: &bias,
                factors: &mut factors,
                factor_bias: &bias,
                stride: 8,
                width: 8,
            };
            isa.run(neurons);
            values
        }
    }

    #[test]
    fn values_are_those_of_the_reference_on_every_instruction_set() {
        let mut x: Vec<f32> = (-3000..3000).map(|i| i as f32 * 0.004).collect();
        x.extend([-1e30, -800.0, -30.0, 0.0, 30.0, 800.0, 1e30, 1e-3]);
        for activation in Activation::ALL {
            for (gated, factor) in [(false, 1.0), (true, 2.25)] {
                each(
                    |_| Values(activation, &x, gated),
                    |values| {
                        for (&x, &value) in x.iter().zip(&values) {
                            let expect = activation.value(f64::from(x + 0.25)) * factor;
                            let error = (f64::from(value) - expect).abs();
                            let allowed = 8.0 * f64::from(f32::EPSILON) * expect.abs().max(1.0);
                            assert!(error <= allowed, "{activation}({x}) = {value} {expect}");
                        }
                    },
                );
            }
        }
    }

    #[test]
    fn nan_stays_nan() {
        for activation in Activation::ALL {
            each(
                |_| Values(activation, &[f32::NAN; 16], false),
                |values| assert!(values.iter().all(|x| x.is_nan()), "{activation}"),
            );
        }
    }
}
