//! The gradient descent that the layers perform, without a network: the explicit transformer must reproduce it.
//!
//! ```text
//! u <- u - eta D^-1 (L u - N y)        L = K with its diagonal, N without, both lower triangular; y_s = x_{s+1}
//! ```
//!
//! D = 1 for identity and exp attention; for softmax D_t = sum_{s <= t} K_ts, which divides the rows and leaves the
//! fixed point unchanged. One layer is one step. The weights A = D^-1 L are computed once and kept: T^2 / 2 numbers.

use super::kernel::{Attention, Kernel, Over, PreparedSequence};
use super::rows::{Matrix, Rows};
use super::sequence::Sequence;
use crate::num::aligned::{AlignedVec, padded};
use crate::num::gemm::{Left, Update};
use crate::observe::Observer;
use crate::{Error, Result};

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Until {
    /// The maximum number of layers.
    pub layers: u64,
    /// Stop early once no entry of D^-1 (L u - N y) is larger than this.
    pub residual: Option<f64>,
}

impl Until {
    /// Stops after this number of layers, whatever the residual.
    pub fn layers(layers: u64) -> Self {
        Self { layers, residual: None }
    }
}

/// The result of a descent.
#[derive(Debug, Clone, PartialEq)]
pub struct Descent {
    /// u_1 .. u_T after the last layer.
    pub predictions: Rows,
    /// The number of layers taken.
    pub layers: u64,
    /// The largest entry of D^-1 (L u - N y) at the end.
    pub residual: f64,
    /// The largest entry of u along the way.
    pub peak: f64,
}

const ROWS: usize = 64;
/// The longest sequence whose weights are kept: they take 2 GB.
pub const MOST_LENGTH: usize = 20_000;

/// The weights of a sequence: rows in blocks, each as long as the last row of its block.
pub(super) struct Weights {
    blocks: Vec<(usize, usize, AlignedVec<f64>)>,
    /// A_tt.
    pub diagonal: Vec<f64>,
    n: usize,
}

impl Weights {
    pub fn new(
        sequence: &Sequence,
        kernel: Kernel,
        attention: Attention,
        observer: &dyn Observer,
    ) -> Result<Self> {
        kernel.goes_with(attention)?;
        if sequence.len() > MOST_LENGTH {
            return Err(Error::setting(
                "length",
                format!(
                    "must be at most {MOST_LENGTH} with layers, which compare each vector with all before it (got \
                     {}); `direct` has no such limit",
                    sequence.len()
                ),
            ));
        }
        let points = kernel.points(sequence)?;
        if attention == Attention::Exp {
            points.diagonal()?;
        }
        let n = points.len();
        let mut out = Self { blocks: Vec::new(), diagonal: vec![0.0; n], n };
        for from in (0..n).step_by(ROWS) {
            observer.check()?;
            out.block(&points, attention, from, (from + ROWS).min(n));
        }
        Ok(out)
    }

    fn block(&mut self, points: &PreparedSequence, attention: Attention, from: usize, to: usize) {
        let stride = padded(to);
        let mut block = AlignedVec::zeros((to - from) * stride);
        // With softmax any common factor of a row cancels: the ratio to the diagonal cannot overflow for unit vectors.
        let over = if attention == Attention::Softmax { Over::Query } else { Over::Nothing };
        points.weigh(from..to, 0..to, over, &mut block, stride);
        for (row, t) in block.chunks_exact_mut(stride).zip(from..) {
            if attention == Attention::Softmax {
                let sum: f64 = row[..=t].iter().sum();
                row[..=t].iter_mut().for_each(|w| *w /= sum);
            }
            self.diagonal[t] = row[t];
            // Entries to the right of the diagonal belong to later vectors, and the diagonal multiplies only u.
            row[t..].fill(0.0);
        }
        self.blocks.push((from, stride, block));
    }

    /// A_ts for s < t.
    pub fn before(&self, t: usize) -> &[f64] {
        let (from, stride, block) = &self.blocks[t / ROWS];
        &block[(t - from) * stride..][..t]
    }

    /// target = D^-1 (L u - N y), with `rest` holding u_s - y_s.
    fn residual(&self, u: &Matrix, rest: &Matrix, target: &mut Matrix) {
        for (from, stride, block) in &self.blocks {
            let rows = *from..(from + ROWS).min(self.n);
            let depth = rows.end;
            target.product(rows.clone(), Update::Replace, depth, Left::rows(block, *stride), rest.right(0));
            for t in rows {
                let weight = self.diagonal[t];
                target.row_mut(t).iter_mut().zip(u.row(t)).for_each(|(r, u)| *r += weight * u);
            }
        }
    }

    /// The largest eigenvalue of the symmetric matrix K = L + N^T by power iteration, from below, for unnormalised
    /// weights.
    pub fn largest_eigenvalue(&self) -> f64 {
        let mut v = vec![1.0; self.n];
        let mut value = 0.0;
        for _ in 0..200 {
            let mut image: Vec<f64> = v.iter().zip(&self.diagonal).map(|(v, d)| v * d).collect();
            for (from, stride, block) in &self.blocks {
                for (row, t) in block.chunks_exact(*stride).zip(*from..) {
                    let mut sum = 0.0;
                    for (s, w) in row[..t].iter().enumerate() {
                        sum += w * v[s];
                        image[s] += w * v[t];
                    }
                    image[t] += sum;
                }
            }
            let length = image.iter().map(|x| x * x).sum::<f64>().sqrt();
            if length == 0.0 {
                return 0.0;
            }
            let before = std::mem::replace(&mut value, length / v.iter().map(|x| x * x).sum::<f64>().sqrt());
            v = image.into_iter().map(|x| x / length).collect();
            if (value - before).abs() <= 1e-10 * value {
                break;
            }
        }
        value
    }

    /// Runs the descent.
    pub fn descend(
        &self,
        sequence: &Sequence,
        eta: f64,
        until: Until,
        observer: &dyn Observer,
    ) -> Result<Descent> {
        let (n, d) = (self.n, sequence.d());
        let (mut u, mut rest, mut r) = (Matrix::zeros(n, d), Matrix::zeros(n, d), Matrix::zeros(n, d));
        let subtract_next = |u: &Matrix, rest: &mut Matrix| {
            for t in 0..n - 1 {
                let (next, u) = (sequence.row(t + 1), u.row(t));
                rest.row_mut(t).iter_mut().zip(u).zip(next).for_each(|((r, u), x)| *r = u - x);
            }
        };
        subtract_next(&u, &mut rest);
        let mut out = Descent { predictions: Rows::default(), layers: 0, residual: f64::NAN, peak: 0.0 };
        loop {
            self.residual(&u, &rest, &mut r);
            out.residual = largest(&r);
            let reached = until.residual.is_some_and(|tolerance| out.residual <= tolerance);
            if out.layers == until.layers || reached || !out.residual.is_finite() {
                break;
            }
            observer.check()?;
            u.values.iter_mut().zip(r.values.iter()).for_each(|(u, r)| *u -= eta * r);
            out.layers += 1;
            out.peak = out.peak.max(largest(&u));
            subtract_next(&u, &mut rest);
        }
        out.predictions = u.to_rows();
        Ok(out)
    }
}

fn largest(matrix: &Matrix) -> f64 {
    matrix.values.iter().fold(0.0, |most: f64, x| if x.abs() <= most { most } else { x.abs() })
}

/// Runs the descent on one sequence with the given step size, unchecked; [`super::descend_safely`] chooses and checks one.
pub fn descend(
    sequence: &Sequence,
    kernel: Kernel,
    attention: Attention,
    eta: f64,
    until: Until,
    observer: &dyn Observer,
) -> Result<Descent> {
    Weights::new(sequence, kernel, attention, observer)?.descend(sequence, eta, until, observer)
}

#[cfg(test)]
mod tests {
    use super::super::direct::direct;
    use super::super::sequence_task::{Map, SequenceTask};
    use super::*;
    use crate::observe::Silent;
    use proptest::prelude::*;

    /// The descent by its definition.
    fn plain(x: &Sequence, kernel: Kernel, attention: Attention, eta: f64, layers: u64) -> Rows {
        let (n, d) = (x.len(), x.d());
        let k = |t: usize, s: usize| kernel.evaluate(x.row(t), x.row(s));
        let mut u = Rows::zeros(n, d);
        for _ in 0..layers {
            let old = u.clone();
            for t in 0..n {
                let by = match attention {
                    Attention::Softmax => (0..=t).map(|s| k(t, s)).sum(),
                    _ => 1.0,
                };
                for j in 0..d {
                    let past: f64 = (0..t).map(|s| k(t, s) * (old.at(s, j) - x.at(s + 1, j))).sum();
                    *u.at_mut(t, j) -= eta / by * (past + k(t, t) * old.at(t, j));
                }
            }
        }
        u
    }

    const EXP: fn(f64) -> Kernel = |beta| Kernel::exp(beta).unwrap();

    #[test]
    fn a_few_layers_are_those_of_the_definition() {
        let x = SequenceTask::Linear(Map::Orthogonal).generate(5, 130, 1, 0).unwrap();
        let stretched = SequenceTask::Linear(Map::Contractive(0.99)).generate(5, 130, 1, 0).unwrap();
        for (x, kernel, attention, eta) in [
            (&x, Kernel::LINEAR, Attention::Identity, 0.01),
            (&x, EXP(1.0), Attention::Exp, 0.003),
            (&x, EXP(2.0), Attention::Softmax, 1.0),
            (&stretched, EXP(2.0).normalised(), Attention::Softmax, 1.9),
            (&stretched, Kernel::LINEAR.normalised(), Attention::Identity, 0.01),
        ] {
            let found = descend(x, kernel, attention, eta, Until::layers(7), &Silent).unwrap();
            let gap = found.predictions.max_difference(&plain(x, kernel, attention, eta, 7));
            assert!(gap < 1e-13 && found.layers == 7, "{kernel} {attention}: {gap}");
        }
    }

    #[test]
    fn it_stops_at_a_residual_and_gets_where_forward_substitution_is() {
        let x = SequenceTask::Linear(Map::Orthogonal).generate(6, 40, 3, 0).unwrap();
        for (kernel, attention, eta) in [
            (Kernel::LINEAR, Attention::Identity, 1.0 / 40.0),
            (EXP(1.0), Attention::Exp, 1.0 / (40.0 * 1f64.exp())),
            (EXP(1.0), Attention::Softmax, 1.0),
        ] {
            let until = Until { layers: 100_000, residual: Some(1e-14) };
            let found = descend(&x, kernel, attention, eta, until, &Silent).unwrap();
            assert!(found.layers < 100_000 && found.residual <= 1e-14);
            let exact = direct(&x, kernel, Over::Query, &Silent).unwrap();
            let gap = found.predictions.max_difference(&exact);
            assert!(gap < 1e-11, "{kernel} {attention}: {gap} after {}", found.layers);
        }
    }

    #[test]
    fn the_eigenvalue_of_a_constant_sequence_is_its_length() {
        let x = Sequence::new(Rows::whole(2, [0.6, 0.8].repeat(90))).unwrap();
        let weights = Weights::new(&x, Kernel::LINEAR, Attention::Identity, &Silent).unwrap();
        assert!((weights.largest_eigenvalue() - 90.0).abs() < 1e-7);
    }

    #[test]
    fn lengths_without_end_and_overflows_are_refused() {
        let long = Sequence::new(Rows::zeros(MOST_LENGTH + 1, 1)).unwrap();
        let error = descend(&long, EXP(1.0), Attention::Exp, 0.1, Until::layers(1), &Silent).unwrap_err();
        assert!(error.to_string().contains("direct"), "{error}");
        let x = SequenceTask::Nonlinear.generate(2, 5, 0, 0).unwrap();
        let error = descend(&x, EXP(800.0), Attention::Exp, 0.1, Until::layers(1), &Silent).unwrap_err();
        assert!(error.to_string().contains("softmax"), "{error}");
        assert!(descend(&x, EXP(800.0), Attention::Softmax, 1.0, Until::layers(1), &Silent).is_ok());
    }

    proptest! {
        #[test]
        fn what_comes_later_changes_nothing(seed in any::<u64>(), n in 3usize..90, at in 1usize..90) {
            let at = 1 + at % (n - 1);
            let x = SequenceTask::Linear(Map::Orthogonal).generate(3, n, seed, 0).unwrap();
            let mut other = (*x).clone();
            other.values_mut()[at * 3..].iter_mut().for_each(|x| *x = 0.5 - *x);
            let other = Sequence::new(other).unwrap();
            for (kernel, attention) in [(Kernel::LINEAR, Attention::Identity), (EXP(1.0), Attention::Softmax)] {
                let bits = |x: &Sequence| -> Vec<u64> {
                    let u = descend(x, kernel, attention, 0.1, Until::layers(5), &Silent).unwrap().predictions;
                    u.values()[..at * 3].iter().map(|x| x.to_bits()).collect()
                };
                prop_assert_eq!(bits(&x), bits(&other));
            }
        }
    }
}
