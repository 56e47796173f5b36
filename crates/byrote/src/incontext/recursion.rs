//! The same predictions for the linear kernel in O(T d^2): a matrix carries all that matters of the past.
//!
//! ```text
//! M_1 = 0,    u_t = M_t x_t / <x_t, x_t>,    M_{t+1} = M_t + (x_{t+1} - u_t) x_t^T                [`Over::Query`]
//! W_1 = 0,    u_t = W_t x_t,                 W_{t+1} = W_t + (x_{t+1} - u_t) x_t^T / <x_t, x_t>    [`Over::Key`]
//! ```
//!
//! The first is [`super::direct`] with the sum over s carried along; the second is Kaczmarz's method: W_{t+1} x_t = x_{t+1},
//! and if x_{t+1} = A x_t throughout, |W_t - A| never grows. For vectors of norm 1 they are the same.

use super::direct::Stop;
use super::kernel::{Form, Kernel, Over};
use super::rows::{Matrix, Rows};
use super::sequence::Sequence;
use crate::num::simd::{self, Isa, Kernel as Compiled};
use crate::{Error, Result};
use rayon::prelude::*;

/// What the recursion leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Recursion {
    /// u_1 .. u_T.
    pub predictions: Rows,
    /// M_T or W_T, [d, d]: after the last vector whose successor is known.
    pub matrix: Rows,
}

/// Steps between two looks at the stop.
const PATIENCE: usize = 4096;

/// Runs the recursion.
pub fn recursion(sequence: &Sequence, kernel: Kernel, over: Over, stop: Stop<'_>) -> Result<Recursion> {
    if kernel.form() != Form::Linear {
        return Err(Error::setting(
            "--kernel",
            format!("{} has no recursion of finite size; the linear kernel has", kernel.name()),
        ));
    }
    let points = kernel.points(sequence)?;
    let (n, d) = (sequence.len(), sequence.d());
    let mut predictions = Matrix::zeros(n, d);
    // Row j is column j of M, so that a product with a vector adds whole rows.
    let mut state = Matrix::zeros(d, d);
    for from in (0..n).step_by(PATIENCE) {
        if stop() {
            return Err(Error::Interrupted);
        }
        let to = (from + PATIENCE).min(n);
        simd::run(Steps {
            from,
            to,
            keys: points.p(),
            own: points.own(),
            over,
            values: sequence,
            state: &mut state,
            predictions: &mut predictions,
        });
    }
    let predictions = predictions.to_rows();
    if let Some(i) = predictions.iter().position(|u| u.iter().any(|x| !x.is_finite())) {
        return Err(Error::Sequence {
            t: Some(i + 1),
            message: "the prediction is too large for a number; scale the vectors (--unit-norm)".into(),
        });
    }
    let state = state.to_rows();
    let matrix = Rows::new(d, (0..d * d).map(|i| state.at(i % d, i / d)).collect());
    Ok(Recursion { predictions, matrix })
}

/// The predictions of several sequences.
pub fn recursion_all(
    sequences: &[Sequence],
    kernel: Kernel,
    over: Over,
    stop: Stop<'_>,
) -> Result<Vec<Rows>> {
    sequences.par_iter().map(|x| Ok(recursion(x, kernel, over, stop)?.predictions)).collect()
}

struct Steps<'a> {
    from: usize,
    to: usize,
    keys: &'a Matrix,
    own: &'a [f64],
    over: Over,
    values: &'a Sequence,
    state: &'a mut Matrix,
    predictions: &'a mut Matrix,
}

impl Compiled for Steps<'_> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { from, to, keys, own, over, values, state, predictions } = self;
        let stride = state.stride;
        let mut residual = vec![0.0; stride];
        // u_t of the first step: every later one is summed in the pass that updates the matrix for it.
        if from == 0 {
            predictions.line_mut(0).fill(0.0);
        }
        for t in from..to {
            if t + 1 == keys.rows {
                return;
            }
            let (query, key) = match over {
                Over::Query => (1.0 / own[t + 1], 1.0),
                Over::Key => (1.0, 1.0 / own[t]),
                Over::Nothing => (1.0, 1.0),
            };
            let next = values.row(t + 1);
            for ((r, x), u) in residual.iter_mut().zip(next).zip(predictions.line_mut(t)) {
                *r = key * (x - *u);
            }
            let (now, then) = (keys.row(t), keys.row(t + 1));
            let prediction = predictions.line_mut(t + 1);
            prediction.fill(0.0);
            for ((column, &k), &q) in state.values.chunks_exact_mut(stride).zip(now).zip(then) {
                for ((m, &r), u) in column.iter_mut().zip(&residual).zip(prediction.iter_mut()) {
                    *m = isa.fma(k, r, *m);
                    *u = isa.fma(q, *m, *u);
                }
            }
            prediction.iter_mut().for_each(|u| *u *= query);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::direct::direct;
    use super::super::task::{Map, Task};
    use super::*;
    use proptest::prelude::*;

    fn never() -> bool {
        false
    }

    fn distance(a: &Rows, b: &Rows) -> f64 {
        a.values().iter().zip(b.values()).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn the_matrix_maps_every_vector_to_the_next_and_nears_the_true_one() {
        let x = Task::Linear(Map::Orthogonal).generate(6, 120, 9, 0).unwrap();
        let draw = &mut crate::num::Stream::new(9, "incontext linear map", 0);
        let a = super::super::task::linear_map(Map::Orthogonal, 6, draw).unwrap();
        let mut before = distance(&Rows::zeros(6, 6), &a);
        for t in 2..=120 {
            let w = recursion(&x.first(t).unwrap(), Kernel::LINEAR, Over::Key, &never).unwrap().matrix;
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
        let x = Task::Nonlinear.generate(2, 5, 0, 0).unwrap();
        let error = recursion(&x, Kernel::exp(1.0).unwrap(), Over::Query, &never).unwrap_err();
        assert!(error.to_string().contains("--kernel"), "{error}");
        assert!(matches!(
            recursion(&x, Kernel::LINEAR, Over::Query, &|| true),
            Err(Error::Interrupted)
        ));
    }

    proptest! {
        #[test]
        fn it_agrees_with_forward_substitution(
            seed in any::<u64>(), d in 1usize..20, n in 2usize..300, shrink in prop::option::of(0.99f64..0.9999)
        ) {
            let map = shrink.map_or(Map::Orthogonal, Map::Contractive);
            let x = Task::Linear(map).generate(d, n, seed, 0).unwrap();
            for kernel in [Kernel::LINEAR, Kernel::LINEAR.normalised()] {
                for over in [Over::Query, Over::Key] {
                    let slow = direct(&x, kernel, over, &never).unwrap();
                    let fast = recursion(&x, kernel, over, &never).unwrap().predictions;
                    let scale = slow.values().iter().fold(1.0f64, |most, x| most.max(x.abs()));
                    prop_assert!(slow.max_difference(&fast) <= 1e-11 * scale, "{}", slow.max_difference(&fast));
                }
            }
        }

        #[test]
        fn what_comes_later_changes_nothing(seed in any::<u64>(), n in 3usize..60, at in 1usize..60) {
            let at = 1 + at % (n - 1);
            let x = Task::Linear(Map::Orthogonal).generate(3, n, seed, 0).unwrap();
            let mut other = (*x).clone();
            other.values_mut()[at * 3..].iter_mut().for_each(|x| *x = 5.0 - *x);
            let bits = |x: Sequence| -> Vec<u64> {
                let u = recursion(&x, Kernel::LINEAR, Over::Query, &never).unwrap().predictions;
                u.values()[..at * 3].iter().map(|x| x.to_bits()).collect()
            };
            prop_assert_eq!(bits(x), bits(Sequence::new(other).unwrap()));
        }
    }
}
