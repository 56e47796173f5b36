//! Kernels, and the attention that computes them.
//!
//! ```text
//! linear      k(x, y) = <x, y>                      with identity attention: the scores as they are
//! exp         k(x, y) = exp(beta <x, y>)            with exp attention, or softmax
//! normalised  k(x, y) / sqrt(k(x, x) k(y, y))       linear: the cosine; exp: exp(-beta |x - y|^2 / 2)
//! ```
//!
//! Softmax divides a row of exp scores by its sum, so it only works with the exp kernel; the linear kernel can be
//! negative and only works with identity attention.
//!
//! All are functions of k = <p_t, p_s> + a_t + a_s with one vector p_t and one number a_t per token: p = x, x / |x|, or
//! sqrt(beta) x; a = 0, or -beta |x|^2 / 2 for the normalised exp kernel. Sums are over ratios K_ts / K_tt = exp(k_ts -
//! k_tt), never over the exponentials themselves, so a large beta does not overflow.

use super::rows::{Matrix, Rows, Transposed};
use super::sequence::{Sequence, norm};
use crate::num::aligned::padded;
use crate::num::elementary::exp;
use crate::num::gemm::{Left, Product, TargetOrder, Update};
use crate::num::simd::{self, Isa, SimdKernel};
use crate::setting::choices;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// What attention does with a row of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attention {
    /// Leaves them unchanged.
    Identity,
    /// Takes the exponential of each.
    Exp,
    /// Takes the exponentials and divides them by their sum.
    Softmax,
}

choices!(Attention, "attention" { Identity = "identity", Exp = "exp", Softmax = "softmax" });

/// The function before normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// <x, y>.
    Linear,
    /// exp(beta <x, y>).
    Exp {
        /// The inverse temperature.
        beta: f64,
    },
}

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    form: Form,
    normalised: bool,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.normalised { "normalised " } else { "" })?;
        match self.form {
            Form::Linear => f.write_str("linear"),
            Form::Exp { beta } => write!(f, "exp, beta {beta}"),
        }
    }
}

/// The largest exponent a kernel may reach if its exponentials are not divided by anything.
const MOST_EXPONENT: f64 = 600.0;

impl Kernel {
    /// <x, y>.
    pub const LINEAR: Kernel = Kernel { form: Form::Linear, normalised: false };

    /// exp(beta <x, y>).
    pub fn exp(beta: f64) -> Result<Self> {
        if !(beta > 0.0 && beta <= 1e6) {
            return Err(Error::setting("beta", format!("must be above 0 and at most 1e6 (got {beta})")));
        }
        Ok(Kernel { form: Form::Exp { beta }, normalised: false })
    }

    /// Returns this kernel divided by the square root of k(x, x) k(y, y).
    pub fn normalised(self) -> Self {
        Kernel { normalised: true, ..self }
    }

    /// Returns the function before normalisation.
    pub fn form(self) -> Form {
        self.form
    }

    /// Whether the kernel is normalised.
    pub fn is_normalised(self) -> bool {
        self.normalised
    }

    /// Returns "linear" or "exp".
    pub fn name(self) -> &'static str {
        match self.form {
            Form::Linear => "linear",
            Form::Exp { .. } => "exp",
        }
    }

    /// Returns the attention used unless another is requested.
    pub fn default_attention(self) -> Attention {
        match self.form {
            Form::Linear => Attention::Identity,
            Form::Exp { .. } => Attention::Softmax,
        }
    }

    /// Refuses an attention that does not compute this kernel.
    pub fn goes_with(self, attention: Attention) -> Result<()> {
        match (self.form, attention) {
            (Form::Linear, Attention::Identity) | (Form::Exp { .. }, Attention::Exp | Attention::Softmax) => {
                Ok(())
            }
            (Form::Linear, _) => Err(Error::setting(
                "attention",
                format!(
                    "{attention} attention computes the exp kernel; the linear kernel needs identity attention"
                ),
            )),
            (Form::Exp { .. }, Attention::Identity) => Err(Error::setting(
                "attention",
                "identity attention computes the linear kernel; the exp kernel needs exp or softmax attention",
            )),
        }
    }

    /// Evaluates the kernel of two vectors by its definition.
    pub fn evaluate(self, x: &[f64], y: &[f64]) -> f64 {
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
        match (self.form, self.normalised) {
            (Form::Linear, false) => dot(x, y),
            (Form::Linear, true) => dot(x, y) / (norm(x) * norm(y)),
            (Form::Exp { beta }, false) => (beta * dot(x, y)).exp(),
            (Form::Exp { beta }, true) => {
                (-0.5 * beta * x.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum::<f64>()).exp()
            }
        }
    }

    /// Returns what a network for this kernel reads of a vector: x, and for a normalised kernel also x / |x| (linear)
    /// or |x|^2 (exp).
    pub fn inputs(self, sequence: &Sequence) -> Result<Rows> {
        let d = sequence.d();
        let mut values = Vec::with_capacity(sequence.len() * self.input_width(d));
        let unit = match (self.form, self.normalised) {
            (Form::Linear, true) => Some(sequence.to_unit_norm()?),
            _ => None,
        };
        for (i, row) in sequence.iter().enumerate() {
            values.extend_from_slice(row);
            if let Some(unit) = &unit {
                values.extend_from_slice(unit.row(i));
            } else if self.normalised {
                values.push(row.iter().map(|x| x * x).sum());
            }
        }
        Ok(Rows::whole(self.input_width(d), values))
    }

    /// Returns the width of [`Self::inputs`].
    pub fn input_width(self, d: usize) -> usize {
        match (self.form, self.normalised) {
            (_, false) => d,
            (Form::Linear, true) => 2 * d,
            (Form::Exp { .. }, true) => d + 1,
        }
    }

    /// Prepares a sequence.
    pub(super) fn points(self, sequence: &Sequence) -> Result<PreparedSequence> {
        let (n, d) = (sequence.len(), sequence.d());
        let scale = match self.form {
            Form::Linear => 1.0,
            Form::Exp { beta } => beta.sqrt(),
        };
        let unit = match (self.form, self.normalised) {
            (Form::Linear, true) => Some(sequence.to_unit_norm()?),
            _ => None,
        };
        let mut p = Matrix::zeros(n, d);
        let mut offsets = vec![0.0; n];
        let mut own = vec![0.0; n];
        for t in 0..n {
            let source = unit.as_ref().unwrap_or(sequence).row(t);
            p.row_mut(t).iter_mut().zip(source).for_each(|(p, x)| *p = scale * x);
            let square: f64 = p.row(t).iter().map(|x| x * x).sum();
            if !square.is_finite() {
                return Err(Error::Sequence {
                    t: Some(t + 1),
                    message: "the square of this vector's norm is too large; scale the sequence".into(),
                });
            }
            match (self.form, self.normalised) {
                (Form::Linear, true) => own[t] = 1.0,
                (Form::Linear, false) if square == 0.0 => return Err(zero_vector(t)),
                (Form::Exp { .. }, true) => offsets[t] = -0.5 * square,
                _ => own[t] = square,
            }
        }
        let transposed = Transposed::new(&p);
        let exponential = matches!(self.form, Form::Exp { .. });
        Ok(PreparedSequence { p, transposed, offsets, own, exponential })
    }
}

/// The error of the linear kernel for a vector that it cannot divide by.
pub(super) fn zero_vector(index: usize) -> Error {
    Error::Sequence {
        t: Some(index + 1),
        message: "a zero vector (or one so short that its square is 0): the linear kernel divides by <x, x>; use the \
                  exp kernel or leave the vector out"
            .into(),
    }
}

/// A sequence prepared for a kernel.
pub(super) struct PreparedSequence {
    p: Matrix,
    transposed: Transposed,
    offsets: Vec<f64>,
    /// k_tt: the logarithm of the diagonal of an exp kernel, the diagonal itself of a linear one.
    own: Vec<f64>,
    exponential: bool,
}

/// The divisor of a weight K_ts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// K_tt: the fixed point of the descent.
    Query,
    /// K_ss: Kaczmarz's projections.
    Key,
    /// No divisor.
    Nothing,
}

impl PreparedSequence {
    pub fn len(&self) -> usize {
        self.p.rows
    }

    /// K_tt, refused if it is too large and nothing divides it.
    pub fn diagonal(&self) -> Result<Vec<f64>> {
        if !self.exponential {
            return Ok(self.own.clone());
        }
        if let Some(t) = self.own.iter().position(|&k| k > MOST_EXPONENT) {
            return Err(Error::Sequence {
                t: Some(t + 1),
                message: format!(
                    "k(x, x) = exp({:.4}) is too large for exp attention; use softmax, a smaller `beta`, or \
                     `normalised`",
                    self.own[t]
                ),
            });
        }
        Ok(self.own.iter().map(|k| k.exp()).collect())
    }

    /// Whether K_tt is the same for all t, up to rounding.
    pub fn has_constant_diagonal(&self) -> bool {
        let (least, most) =
            self.own.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &k| (lo.min(k), hi.max(k)));
        let scale = if self.exponential { 1.0f64.max(most.abs()) } else { most };
        most - least <= 1e-8 * scale
    }

    /// Computes the weights from the rows of one range to the columns of another, which begins at a whole line and is
    /// padded to one; the contents of the padding are unspecified. `stride` is the distance between rows in `target`.
    pub fn weigh(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        over: Over,
        target: &mut [f64],
        stride: usize,
    ) {
        let width = padded(columns.len());
        simd::run(Product {
            target,
            order: TargetOrder::Rows(stride),
            update: Update::Replace,
            rows: rows.len(),
            depth: self.p.columns,
            width,
            left: Left::rows(&self.p.values[rows.start * self.p.stride..], self.p.stride),
            right: self.transposed.right(columns.start),
        });
        for (row, t) in target.chunks_mut(stride).zip(rows) {
            let row = &mut row[..columns.len()];
            let (own, offsets) = (&self.own[columns.clone()], &self.offsets[columns.clone()]);
            if self.exponential {
                let shift = self.offsets[t] - if over == Over::Query { self.own[t] } else { 0.0 };
                let own = (over == Over::Key).then_some(own);
                simd::run(Exponentials { row, shift, offsets, own });
            } else {
                match over {
                    Over::Query => row.iter_mut().for_each(|w| *w /= self.own[t]),
                    Over::Key => row.iter_mut().zip(own).for_each(|(w, k)| *w /= k),
                    Over::Nothing => {}
                }
            }
        }
    }
}

/// row_s = exp(row_s + offset_s + shift - own_s).
struct Exponentials<'a> {
    row: &'a mut [f64],
    shift: f64,
    offsets: &'a [f64],
    own: Option<&'a [f64]>,
}

impl SimdKernel for Exponentials<'_> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { row, shift, offsets, own } = self;
        match own {
            None => {
                for (w, a) in row.iter_mut().zip(offsets) {
                    *w = exp(isa, *w + a + shift);
                }
            }
            Some(own) => {
                for ((w, a), k) in row.iter_mut().zip(offsets).zip(own) {
                    *w = exp(isa, *w + a + shift - k);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequence_task::{Map, SequenceTask};
    use super::*;

    #[test]
    fn only_the_attention_that_computes_a_kernel_goes_with_it() {
        let exp = Kernel::exp(2.0).unwrap();
        for (kernel, attention, fine) in [
            (Kernel::LINEAR, Attention::Identity, true),
            (Kernel::LINEAR, Attention::Exp, false),
            (Kernel::LINEAR, Attention::Softmax, false),
            (exp, Attention::Identity, false),
            (exp, Attention::Exp, true),
            (exp.normalised(), Attention::Softmax, true),
            (Kernel::LINEAR.normalised(), Attention::Softmax, false),
        ] {
            assert_eq!(kernel.goes_with(attention).is_ok(), fine, "{kernel} {attention}");
        }
        for beta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Kernel::exp(beta).unwrap_err().to_string().contains("beta"));
        }
    }

    #[test]
    fn blocks_of_weights_are_the_kernel_by_its_definition() {
        let x = SequenceTask::Linear(Map::Contractive(0.97)).generate(5, 70, 3, 0).unwrap();
        let exp = Kernel::exp(1.7).unwrap();
        for kernel in [Kernel::LINEAR, Kernel::LINEAR.normalised(), exp, exp.normalised()] {
            let points = kernel.points(&x).unwrap();
            let k = |t: usize, s: usize| kernel.evaluate(x.row(t), x.row(s));
            for over in [Over::Query, Over::Key, Over::Nothing] {
                let (rows, columns) = (33..70, 16..60);
                let mut block = vec![0.0; rows.len() * 64];
                points.weigh(rows.clone(), columns.clone(), over, &mut block, 64);
                for t in rows.clone() {
                    for s in columns.clone() {
                        let by = match over {
                            Over::Query => k(t, t),
                            Over::Key => k(s, s),
                            Over::Nothing => 1.0,
                        };
                        let (found, expect) = (block[(t - 33) * 64 + s - 16], k(t, s) / by);
                        assert!((found - expect).abs() <= 1e-13 * expect.abs().max(1.0), "{kernel} {t} {s}");
                    }
                }
            }
            assert_eq!(points.has_constant_diagonal(), kernel.is_normalised());
        }
    }

    #[test]
    fn zero_and_huge_vectors_are_refused_where_they_cannot_be_divided_by() {
        let rows = |v: [f64; 4]| Sequence::new(Rows::whole(2, v.to_vec())).unwrap();
        let zero = rows([1.0, 0.0, 0.0, 0.0]);
        for kernel in [Kernel::LINEAR, Kernel::LINEAR.normalised()] {
            let error = kernel.points(&zero).err().unwrap();
            assert!(matches!(error, Error::Sequence { t: Some(2), .. }), "{error}");
        }
        assert!(Kernel::exp(1.0).unwrap().points(&zero).is_ok());
        assert!(Kernel::exp(1.0).unwrap().points(&rows([1e200, 0.0, 1.0, 0.0])).is_err());
        let long = Kernel::exp(1.0).unwrap().points(&rows([30.0, 0.0, 1.0, 0.0])).unwrap();
        assert!(long.diagonal().unwrap_err().to_string().contains("softmax"));
    }
}
