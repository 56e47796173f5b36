//! Activations as ONNX operators.
//!
//! ONNX Runtime has CPU kernels for `Erf` and `Atan` in f32 only. In f64 these two, and GELU, which needs the first, are composed
//! of other operators, with the reductions and polynomials of [`crate::num::elementary`]: an absolute
//! error of a few units in the last place of 1 (GELU: of x).

use super::graph::{Graph, Value};
use crate::model::{Activation, Precision};
use crate::num::elementary::Elementary;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, FRAC_PI_2, FRAC_PI_4, SQRT_2};

impl Graph {
    /// psi of every entry.
    pub(super) fn activation(&mut self, activation: Activation, x: &str) -> Value {
        let native = self.precision() == Precision::F32;
        match activation {
            Activation::Tanh => self.op("Tanh", &[x]),
            Activation::Logistic => self.op("Sigmoid", &[x]),
            Activation::Relu => self.op("Relu", &[x]),
            Activation::Arctan if native => self.op("Atan", &[x]),
            Activation::Arctan => self.arctan(x),
            Activation::Erf if native => self.op("Erf", &[x]),
            Activation::Erf => self.erf(x),
            Activation::Gelu if native => {
                let scaled = self.times(x, FRAC_1_SQRT_2);
                let erf = self.op("Erf", &[&scaled]);
                self.half_of_one_plus(x, &erf)
            }
            Activation::Gelu => {
                let normal = self.normal(x);
                self.op("Mul", &[x, &normal])
            }
            Activation::Silu => {
                let logistic = self.op("Sigmoid", &[x]);
                self.op("Mul", &[x, &logistic])
            }
            Activation::GeluTanh => {
                let square = self.op("Mul", &[x, x]);
                let cubic = self.times(&square, 0.044_715);
                let factor = self.plus(&cubic, 1.0);
                let inner = self.op("Mul", &[x, &factor]);
                let inner = self.times(&inner, FRAC_2_SQRT_PI / SQRT_2);
                let tanh = self.op("Tanh", &[&inner]);
                self.half_of_one_plus(x, &tanh)
            }
        }
    }

    fn times(&mut self, x: &str, factor: f64) -> Value {
        let factor = self.scalar(factor);
        self.op("Mul", &[x, &factor])
    }

    fn plus(&mut self, x: &str, term: f64) -> Value {
        let term = self.scalar(term);
        self.op("Add", &[x, &term])
    }

    /// x (1 + y) / 2.
    fn half_of_one_plus(&mut self, x: &str, y: &str) -> Value {
        let sum = self.plus(y, 1.0);
        let product = self.op("Mul", &[x, &sum]);
        self.times(&product, 0.5)
    }

    fn less(&mut self, x: &str, bound: f64) -> Value {
        let bound = self.scalar(bound);
        self.op("Less", &[x, &bound])
    }

    /// By Horner's rule; at least two coefficients.
    fn polynomial(&mut self, x: &str, coefficients: &[f64]) -> Value {
        let mut sum = self.scalar(coefficients[coefficients.len() - 1]);
        for &c in coefficients[..coefficients.len() - 1].iter().rev() {
            let product = self.op("Mul", &[&sum, x]);
            sum = self.plus(&product, c);
        }
        sum
    }

    /// With the sign of `sign`, for y >= 0.
    fn signed(&mut self, y: &str, sign: &str) -> Value {
        let negative = self.less(sign, 0.0);
        let opposite = self.op("Neg", &[y]);
        self.op("Where", &[&negative, &opposite, y])
    }

    /// |x|, limited to where every tail has long been zero, so that its square is finite.
    fn bounded(&mut self, x: &str) -> Value {
        let (size, bound) = (self.op("Abs", &[x]), self.scalar(1e4));
        self.op("Min", &[&size, &bound])
    }

    /// erfc of a >= 0.
    fn erfc(&mut self, a: &str) -> Value {
        let (shift, coefficients) = <f64 as Elementary>::ERFCX;
        let (sum, difference) = (self.plus(a, shift), self.plus(a, -shift));
        let ratio = self.op("Div", &[&difference, &sum]);
        let polynomial = self.polynomial(&ratio, coefficients);
        let scaled = self.op("Div", &[&polynomial, &sum]);
        let square = self.op("Mul", &[a, a]);
        let minus = self.op("Neg", &[&square]);
        let gauss = self.op("Exp", &[&minus]);
        self.op("Mul", &[&scaled, &gauss])
    }

    fn erf(&mut self, x: &str) -> Value {
        let a = self.bounded(x);
        let square = self.op("Mul", &[&a, &a]);
        let near = self.polynomial(&square, <f64 as Elementary>::ERF);
        let near = self.op("Mul", &[x, &near]);
        let (one, tail) = (self.scalar(1.0), self.erfc(&a));
        let far = self.op("Sub", &[&one, &tail]);
        let far = self.signed(&far, x);
        let is_near = self.less(&a, 1.0);
        self.op("Where", &[&is_near, &near, &far])
    }

    /// The distribution function of the standard normal law.
    fn normal(&mut self, x: &str) -> Value {
        let a = self.bounded(x);
        let scaled = self.times(&a, FRAC_1_SQRT_2);
        let tail = self.erfc(&scaled);
        let tail = self.times(&tail, 0.5);
        let one = self.scalar(1.0);
        let head = self.op("Sub", &[&one, &tail]);
        let negative = self.less(x, 0.0);
        self.op("Where", &[&negative, &tail, &head])
    }

    fn arctan(&mut self, x: &str) -> Value {
        let a = self.op("Abs", &[x]);
        // As in num::elementary: to pi/2 - arctan(1/a) beyond tan(3 pi/8), pi/4 + arctan((a-1)/(a+1)) beyond tan(pi/8).
        let (near, middle) = (self.less(&a, SQRT_2 - 1.0), self.less(&a, SQRT_2 + 1.0));
        let [zero, one, minus, quarter, half] =
            [0.0, 1.0, -1.0, FRAC_PI_4, FRAC_PI_2].map(|x| self.scalar(x));
        let (less, more) = (self.plus(&a, -1.0), self.plus(&a, 1.0));
        let mut choose = |values: [&str; 3]| {
            let rest = self.op("Where", &[&middle, values[1], values[2]]);
            self.op("Where", &[&near, values[0], &rest])
        };
        let base = choose([&zero, &quarter, &half]);
        let (top, bottom) = (choose([&a, &less, &minus]), choose([&one, &more, &a]));
        let z = self.op("Div", &[&top, &bottom]);
        let square = self.op("Mul", &[&z, &z]);
        let polynomial = self.polynomial(&square, <f64 as Elementary>::ARCTAN);
        let cube = self.op("Mul", &[&z, &square]);
        let rest = self.op("Mul", &[&cube, &polynomial]);
        let series = self.op("Add", &[&z, &rest]);
        let size = self.op("Add", &[&base, &series]);
        self.signed(&size, x)
    }
}
