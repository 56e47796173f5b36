//! The same predictions for the linear kernel in O(T d^2): a matrix summarises the past.
//!
//! ```text
//! M_1 = 0,    u_t = M_t x_t / <x_t, x_t>,    M_{t+1} = M_t + (x_{t+1} - u_t) x_t^T                [`Over::Query`]
//! W_1 = 0,    u_t = W_t x_t,                 W_{t+1} = W_t + (x_{t+1} - u_t) x_t^T / <x_t, x_t>    [`Over::Key`]
//! ```
//!
//! The first is [`super::direct`] with the sum over s accumulated; the second is Kaczmarz's method: W_{t+1} x_t =
//! x_{t+1}, and if x_{t+1} = A x_t throughout, |W_t - A| never grows. For vectors of norm 1 they agree.

use super::kernel::{Form, Kernel, Over, zero_vector};
use super::rows::{Matrix, Rows};
use super::sequence::Sequence;
use crate::num::aligned::{AlignedVec, LINE, line_at, line_at_mut};
use crate::num::line_vector::LineVector;
use crate::num::simd::{self, Isa, SimdKernel};
use crate::observe::Observer;
use crate::{Error, Result};
use rayon::prelude::*;
use std::ops::Range;

/// The result of the recursion.
#[derive(Debug, Clone, PartialEq)]
pub struct Recursion {
    /// u_1 .. u_T.
    pub predictions: Rows,
    /// M_T or W_T, [d, d]: after the last vector whose successor is known.
    pub matrix: Rows,
}

/// The number of steps between two checks whether to stop.
const PATIENCE: usize = 4096;

/// Runs the recursion.
pub fn recursion(
    sequence: &Sequence,
    kernel: Kernel,
    over: Over,
    observer: &dyn Observer,
) -> Result<Recursion> {
    if kernel.form() != Form::Linear {
        return Err(Error::setting(
            "kernel",
            format!("the {} kernel has no recursion of finite size; use the linear kernel", kernel.name()),
        ));
    }
    let unit = if kernel.is_normalised() { Some(sequence.to_unit_norm()?) } else { None };
    let keys = unit.as_ref().unwrap_or(sequence);
    let (n, d) = (sequence.len(), sequence.d());
    let mut predictions = Rows::zeros(n, d);
    // Row j is column j of M, so that a product with a vector adds whole rows.
    let mut state = Matrix::zeros(d, d);
    let mut prediction = AlignedVec::zeros(state.stride);
    for from in (0..n).step_by(PATIENCE) {
        observer.check()?;
        let range = from..(from + PATIENCE).min(n);
        let (state, prediction, predictions) = (&mut state, &mut prediction, &mut predictions);
        simd::run(Steps { range, keys, over, values: sequence, state, prediction, predictions })?;
    }
    let state = state.to_rows();
    let matrix = Rows::whole(d, (0..d * d).map(|i| state.at(i % d, i / d)).collect());
    Ok(Recursion { predictions, matrix })
}

/// The predictions of several sequences.
pub fn recursion_all(
    sequences: &[Sequence],
    kernel: Kernel,
    over: Over,
    observer: &dyn Observer,
) -> Result<Vec<Rows>> {
    sequences.par_iter().map(|x| Ok(recursion(x, kernel, over, observer)?.predictions)).collect()
}

struct Steps<'a> {
    range: Range<usize>,
    keys: &'a Sequence,
    over: Over,
    values: &'a Sequence,
    state: &'a mut Matrix,
    /// u_t without its divisor, as far as it is known when a range begins.
    prediction: &'a mut [f64],
    predictions: &'a mut Rows,
}

impl SimdKernel for Steps<'_> {
    type Output = Result<()>;
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) -> Result<()> {
        let Self { range, keys, over, values, state, prediction, predictions } = self;
        let (n, d, stride) = (values.len(), values.d(), state.stride);
        let mut residual = vec![0.0; stride];
        for t in range {
            let now = keys.row(t);
            let square: f64 = now.iter().map(|x| x * x).sum();
            if square == 0.0 {
                return Err(zero_vector(t));
            }
            let inverse = if over == Over::Nothing { 1.0 } else { 1.0 / square };
            let (query, key) = if over == Over::Query { (inverse, 1.0) } else { (1.0, inverse) };
            let out = &mut predictions.values_mut()[t * d..][..d];
            let mut good = true;
            for (u, sum) in out.iter_mut().zip(&*prediction) {
                *u = query * sum;
                good &= u.is_finite();
            }
            if !good {
                return Err(Error::Sequence {
                    t: Some(t + 1),
                    message: "the prediction overflows; scale the vectors (`unit_norm`)".into(),
                });
            }
            if t + 1 == n {
                break;
            }
            for ((r, x), u) in residual.iter_mut().zip(values.row(t + 1)).zip(&*out) {
                *r = key * (x - u);
            }
            // One pass advances the matrix to the next step and multiplies it with the next vector.
            let then = keys.row(t + 1);
            for at in (0..stride).step_by(LINE) {
                let r = LineVector::load(isa, line_at(&residual, at));
                // Two independent sums, so that neither waits for the other.
                let (mut even, mut odd) = (LineVector::splat(isa, 0.0), LineVector::splat(isa, 0.0));
                for j in (0..d - d % 2).step_by(2) {
                    even = update(isa, &mut state.values[j * stride + at..], now[j], r, then[j], even);
                    let next = &mut state.values[(j + 1) * stride + at..];
                    odd = update(isa, next, now[j + 1], r, then[j + 1], odd);
                }
                if d % 2 == 1 {
                    let last = &mut state.values[(d - 1) * stride + at..];
                    even = update(isa, last, now[d - 1], r, then[d - 1], even);
                }
                even.plus(odd).store(line_at_mut(prediction, at));
            }
        }
        Ok(())
    }
}

/// Adds `key` times the residual to a line of a column of the matrix; returns `sum` plus `query` times the line.
#[inline(always)]
fn update<I: Isa>(
    isa: I,
    column: &mut [f64],
    key: f64,
    residual: LineVector<f64, I>,
    query: f64,
    sum: LineVector<f64, I>,
) -> LineVector<f64, I> {
    let column = line_at_mut(column, 0);
    let m = LineVector::splat(isa, key).fma(residual, LineVector::load(isa, column));
    m.store(column);
    LineVector::splat(isa, query).fma(m, sum)
}

#[cfg(test)]
mod tests {
    use super::super::direct::direct;
    use super::super::sequence_task::{Map, SequenceTask};
    use super::*;
    use crate::observe::{Impatient, Silent};
    use proptest::prelude::*;

    fn distance(a: &Rows, b: &Rows) -> f64 {
        a.values().iter().zip(b.values()).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn the_matrix_maps_every_vector_to_the_next_and_nears_the_true_one() {
        let x = SequenceTask::Linear(Map::Orthogonal).generate(6, 120, 9, 0).unwrap();
        let draw = &mut crate::num::Stream::new(9, "incontext linear map", 0);
        let a = super::super::sequence_task::linear_map(
            Map::Orthogonal,
            6,
            draw,
            &super::super::sequence_task::unwatched(),
        )
        .unwrap();
        let mut before = distance(&Rows::zeros(6, 6), &a);
        for t in 2..=120 {
            let w = recursion(&x.first(t).unwrap(), Kernel::LINEAR, Over::Key, &Silent).unwrap().matrix;
            for (row, expect) in w.iter().zip(x.row(t - 1)) {
                let image: f64 = row.iter().zip(x.row(t - 2)).map(|(a, b)| a * b).sum();
                assert!((image - expect).abs() < 1e-14);
            }
            let now = distance(&w, &a);
            assert!(now <= before + 1e-14, "{t}: {now} after {before}");
            before = now;
        }
        assert!(before < 0.6 * 6f64.sqrt(), "{before}");
    }

    #[test]
    fn only_the_linear_kernel_has_one() {
        let x = SequenceTask::Nonlinear.generate(2, 5, 0, 0).unwrap();
        let error = recursion(&x, Kernel::exp(1.0).unwrap(), Over::Query, &Silent).unwrap_err();
        assert!(error.to_string().contains("kernel"), "{error}");
        assert!(matches!(
            recursion(&x, Kernel::LINEAR, Over::Query, &Impatient::new(0)),
            Err(Error::Interrupted)
        ));
    }

    proptest! {
        #[test]
        fn it_agrees_with_forward_substitution(
            seed in any::<u64>(), d in 1usize..20, n in 2usize..300, shrink in prop::option::of(0.99f64..0.9999)
        ) {
            let map = shrink.map_or(Map::Orthogonal, Map::Contractive);
            let x = SequenceTask::Linear(map).generate(d, n, seed, 0).unwrap();
            for kernel in [Kernel::LINEAR, Kernel::LINEAR.normalised()] {
                for over in [Over::Query, Over::Key] {
                    let slow = direct(&x, kernel, over, &Silent).unwrap();
                    let fast = recursion(&x, kernel, over, &Silent).unwrap().predictions;
                    let scale = slow.values().iter().fold(1.0f64, |most, x| most.max(x.abs()));
                    prop_assert!(slow.max_difference(&fast) <= 1e-11 * scale, "{}", slow.max_difference(&fast));
                }
            }
        }

        #[test]
        fn what_comes_later_changes_nothing(seed in any::<u64>(), n in 3usize..60, at in 1usize..60) {
            let at = 1 + at % (n - 1);
            let x = SequenceTask::Linear(Map::Orthogonal).generate(3, n, seed, 0).unwrap();
            let mut other = (*x).clone();
            other.values_mut()[at * 3..].iter_mut().for_each(|x| *x = 5.0 - *x);
            let bits = |x: Sequence| -> Vec<u64> {
                let u = recursion(&x, Kernel::LINEAR, Over::Query, &Silent).unwrap().predictions;
                u.values()[..at * 3].iter().map(|x| x.to_bits()).collect()
            };
            prop_assert_eq!(bits(x), bits(Sequence::new(other).unwrap()));
        }
    }
}
