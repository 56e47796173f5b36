//! The limit of the descent, by forward substitution.
//!
//! With K_ts = k(x_t, x_s), the descent in the layers causally solves a triangular system (see [`super`]); its solution
//! is
//!
//! ```text
//! u_t = sum_{s < t} (K_ts / K_tt) (x_{s+1} - u_s),      u_1 = 0            [`Over::Query`]
//! ```
//!
//! u_t is the prediction of x_{t+1} and uses only x_1 .. x_t. Dividing by K_ss instead of K_tt gives Kaczmarz's method
//! in the kernel's feature space: W_1 = 0, and W_{t+1} is the projection of W_t onto the maps with W x_t = x_{t+1}
//! ([`Over::Key`]). The two agree exactly if K_tt is constant, as it is for vectors of norm 1 and for normalised
//! kernels.
//!
//! It takes O(T^2 d) operations, in blocks of rows: the kernel of a block is a matrix product and vectorised
//! exponentials, a second product applies it to all earlier residuals, and only the block's own triangle is solved row
//! by row. It takes O(T d) memory. One thread handles one sequence; several sequences are spread over threads. The sums
//! of a row are always taken in the same order.

use super::kernel::{Kernel, Over, PreparedSequence};
use super::rows::{Matrix, Rows};
use super::sequence::Sequence;
use crate::num::aligned::AlignedVec;
use crate::num::gemm::Update;
use crate::num::simd::{self, Isa, SimdKernel};
use crate::observe::Observer;
use crate::{Error, Result};
use rayon::prelude::*;

/// The number of rows per block.
const ROWS: usize = 64;
/// The number of columns whose weights are held at once.
const COLUMNS: usize = 512;

/// Returns the predictions u_1 .. u_T of x_2 .. x_{T+1}.
pub fn direct(sequence: &Sequence, kernel: Kernel, over: Over, observer: &dyn Observer) -> Result<Rows> {
    let points = kernel.points(sequence)?;
    let (n, d) = (sequence.len(), sequence.d());
    let mut predictions = Matrix::zeros(n, d);
    // x_{s+1} - u_s; 0 after the last, which is never read.
    let mut residuals = Matrix::zeros(n, d);
    let mut weights = AlignedVec::zeros(ROWS * COLUMNS);
    for from in (0..n).step_by(ROWS) {
        observer.check()?;
        let rows = from..(from + ROWS).min(n);
        for first in (0..from).step_by(COLUMNS) {
            let columns = first..(first + COLUMNS).min(from);
            points.weigh(rows.clone(), columns.clone(), over, &mut weights, COLUMNS);
            let left = crate::num::gemm::Left::rows(&weights, COLUMNS);
            predictions.product(rows.clone(), Update::Add, columns.len(), left, residuals.right(first));
        }
        points.weigh(rows.clone(), rows.clone(), over, &mut weights, COLUMNS);
        let stride = predictions.stride;
        let of = rows.start * stride..rows.end * stride;
        let next = sequence.values();
        simd::run(Triangle {
            weights: &weights,
            predictions: &mut predictions.values[of.clone()],
            residuals: &mut residuals.values[of],
            next: &next[((from + 1) * d).min(next.len())..],
            d,
            stride,
        });
    }
    finite(&predictions.to_rows(), &points)
}

/// Like [`direct`], for several sequences.
pub fn direct_all(
    sequences: &[Sequence],
    kernel: Kernel,
    over: Over,
    observer: &dyn Observer,
) -> Result<Vec<Rows>> {
    sequences.par_iter().map(|sequence| direct(sequence, kernel, over, observer)).collect()
}

/// Refuses predictions that are not finite.
fn finite(predictions: &Rows, points: &PreparedSequence) -> Result<Rows> {
    match predictions.iter().position(|u| u.iter().any(|x| !x.is_finite())) {
        None => Ok(predictions.clone()),
        Some(i) => Err(Error::Sequence {
            t: Some(i + 1),
            message: format!(
                "the prediction overflows{}",
                if points.has_constant_diagonal() {
                    ""
                } else {
                    ": the norms differ too much; scale the vectors (`unit_norm`) or take the normalised kernel \
                     (`normalised`)"
                }
            ),
        }),
    }
}

/// Solves the triangle of a block whose predictions hold the sums over all earlier blocks.
struct Triangle<'a> {
    /// Rows are [`COLUMNS`] apart.
    weights: &'a [f64],
    predictions: &'a mut [f64],
    residuals: &'a mut [f64],
    /// The vectors that follow those of the block; the last may be missing.
    next: &'a [f64],
    d: usize,
    stride: usize,
}

impl SimdKernel for Triangle<'_> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { weights, predictions, residuals, next, d, stride } = self;
        for (t, residual) in residuals.chunks_exact_mut(stride).enumerate() {
            let (done, later) = predictions.split_at_mut((t + 1) * stride);
            let Some(next) = next.get(t * d..(t + 1) * d) else { return };
            for ((r, x), u) in residual.iter_mut().zip(next).zip(&done[t * stride..]) {
                *r = x - u;
            }
            for (i, prediction) in later.chunks_exact_mut(stride).enumerate() {
                let weight = weights[(t + 1 + i) * COLUMNS + t];
                for (u, r) in prediction.iter_mut().zip(&*residual) {
                    *u = isa.fma(weight, *r, *u);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequence_task::{self, Map, SequenceTask};
    use super::*;
    use crate::observe::{Impatient, Silent};
    use proptest::prelude::*;

    pub(crate) fn plain(x: &Sequence, kernel: Kernel, over: Over) -> Rows {
        let (n, d) = (x.len(), x.d());
        let mut u = Rows::zeros(n, d);
        for t in 1..n {
            let mut sum = vec![0.0; d];
            for s in 0..t {
                let by = if over == Over::Query { t } else { s };
                let w = kernel.evaluate(x.row(t), x.row(s)) / kernel.evaluate(x.row(by), x.row(by));
                for (j, sum) in sum.iter_mut().enumerate() {
                    *sum += w * (x.at(s + 1, j) - u.at(s, j));
                }
            }
            u.values_mut()[t * d..][..d].copy_from_slice(&sum);
        }
        u
    }

    /// (1, 0), (0, 1), (-1, 0), (0, -1), ...
    fn quarter_turns(n: usize) -> Sequence {
        let turn = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]];
        Sequence::new(Rows::whole(2, (0..n).flat_map(|t| turn[t % 4]).collect())).unwrap()
    }

    #[test]
    fn a_quarter_turn_is_known_after_three_steps_with_the_linear_kernel() {
        let u = direct(&quarter_turns(9), Kernel::LINEAR, Over::Query, &Silent).unwrap();
        let expect = [[0.0, 0.0], [0.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]];
        for (t, expect) in expect.iter().enumerate() {
            assert_eq!(u.row(t), expect, "u_{}", t + 1);
        }
    }

    #[test]
    fn a_quarter_turn_by_hand_with_the_exp_kernel() {
        // K_tt = e; neighbours 1, opposite e^-1. u_2 = (x_2 - 0) / e; u_3 = ((0, 1) e^-1 + ((-1, 0) - u_2)) / e
        // = (-1, 0) / e; and so on.
        let u = direct(&quarter_turns(5), Kernel::exp(1.0).unwrap(), Over::Query, &Silent).unwrap();
        let e = (-1.0f64).exp();
        let expect = [(0.0, 0.0), (0.0, e), (-e, 0.0), (0.0, -0.049787), (0.049787, 0.747645)];
        for (t, (a, b)) in expect.into_iter().enumerate() {
            assert!((u.at(t, 0) - a).abs() < 5e-7 && (u.at(t, 1) - b).abs() < 5e-7, "{t}: {:?}", u.row(t));
        }
        assert!((u.at(1, 1) - e).abs() < 1e-16 && (u.at(2, 0) + e).abs() < 1e-16);
    }

    #[test]
    fn blocks_give_what_the_definition_gives() {
        let exp = Kernel::exp(1.3).unwrap();
        for n in [2, 3, 63, 64, 65, 128, 200, 700] {
            for (d, task) in [
                (1, SequenceTask::Linear(Map::Orthogonal)),
                (3, SequenceTask::Nonlinear),
                (15, SequenceTask::Linear(Map::Orthogonal)),
                (17, SequenceTask::Periodic(20, 40)),
            ] {
                let x = task.generate(d, n, 4, n as u64).unwrap();
                for kernel in [Kernel::LINEAR, exp, exp.normalised()] {
                    let found = direct(&x, kernel, Over::Query, &Silent).unwrap();
                    let gap = found.max_difference(&plain(&x, kernel, Over::Query));
                    assert!(gap < 1e-11, "{n} {d} {kernel}: {gap}");
                }
            }
        }
    }

    #[test]
    fn a_large_beta_does_not_overflow() {
        let x = SequenceTask::Periodic(5, 5).generate(8, 40, 1, 0).unwrap();
        let u = direct(&x, Kernel::exp(2000.0).unwrap(), Over::Query, &Silent).unwrap();
        // A kernel this sharp looks up the last occurrence of a vector.
        for t in 5..39 {
            assert!(u.row(t).iter().zip(x.row(t + 1)).all(|(a, b)| (a - b).abs() < 1e-12));
        }
    }

    #[test]
    fn norms_too_different_are_reported_and_so_is_a_stop() {
        let x = Sequence::new(Rows::whole(1, vec![1e150, 1e150, 1e-150, 1.0])).unwrap();
        let error = direct(&x, Kernel::LINEAR, Over::Query, &Silent).unwrap_err();
        assert!(error.to_string().contains("normalised"), "{error}");
        assert!(matches!(
            direct(&x, Kernel::LINEAR, Over::Query, &Impatient::new(0)),
            Err(Error::Interrupted)
        ));
    }

    proptest! {
        #[test]
        fn the_fixed_point_is_kaczmarz_for_unit_vectors_and_normalised_kernels(
            seed in any::<u64>(), d in 1usize..6, n in 2usize..80, beta in 0.1f64..8.0
        ) {
            let x = SequenceTask::Nonlinear.generate(d, n, seed, 0).unwrap();
            let stretched = stretched(&x, seed);
            let exp = Kernel::exp(beta).unwrap();
            for (x, kernel) in [(&x, Kernel::LINEAR), (&x, exp), (&stretched, exp.normalised()),
                                (&stretched, Kernel::LINEAR.normalised())] {
                let u = direct(x, kernel, Over::Query, &Silent).unwrap();
                let kaczmarz = direct(x, kernel, Over::Key, &Silent).unwrap();
                let scale = u.values().iter().fold(1.0f64, |most, x| most.max(x.abs()));
                prop_assert!(u.max_difference(&kaczmarz) < 1e-11 * scale, "{}", u.max_difference(&kaczmarz));
            }
        }

        #[test]
        fn they_part_where_the_diagonal_is_not_constant(seed in any::<u64>(), beta in 0.5f64..3.0) {
            let x = stretched(&SequenceTask::Nonlinear.generate(3, 20, seed, 0).unwrap(), seed);
            for kernel in [Kernel::LINEAR, Kernel::exp(beta).unwrap()] {
                let u = direct(&x, kernel, Over::Query, &Silent).unwrap();
                let kaczmarz = direct(&x, kernel, Over::Key, &Silent).unwrap();
                prop_assert!(u.max_difference(&kaczmarz) > 1e-3);
            }
        }

        #[test]
        fn turning_the_sequence_turns_the_predictions(seed in any::<u64>(), d in 2usize..7, beta in 0.1f64..8.0) {
            let x = SequenceTask::Linear(Map::Orthogonal).generate(d, 70, seed, 0).unwrap();
            let mut stream = crate::num::Stream::new(seed, "turn", 0);
            let turn = sequence_task::orthogonal(d, &mut stream, &sequence_task::unwatched()).unwrap();
            let turned = |rows: &Rows| {
                let image = rows.iter().flat_map(|x| {
                    turn.iter().map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>()).collect::<Vec<_>>()
                });
                Rows::whole(d, image.collect())
            };
            let y = Sequence::new(turned(&x)).unwrap();
            for kernel in [Kernel::LINEAR, Kernel::exp(beta).unwrap()] {
                let u = direct(&x, kernel, Over::Query, &Silent).unwrap();
                let v = direct(&y, kernel, Over::Query, &Silent).unwrap();
                prop_assert!(turned(&u).max_difference(&v) < 1e-10, "{}", turned(&u).max_difference(&v));
            }
        }

        #[test]
        fn what_comes_later_changes_nothing(seed in any::<u64>(), n in 3usize..150, at in 1usize..150) {
            let at = 1 + at % (n - 1);
            let x = SequenceTask::Linear(Map::Orthogonal).generate(4, n, seed, 0).unwrap();
            let mut other = (*x).clone();
            other.values_mut()[at * 4..].iter_mut().for_each(|x| *x = 3.0 - 2.0 * *x);
            let other = Sequence::new(other).unwrap();
            for kernel in [Kernel::LINEAR, Kernel::exp(1.0).unwrap(), Kernel::exp(2.0).unwrap().normalised()] {
                let u = direct(&x, kernel, Over::Query, &Silent).unwrap();
                let v = direct(&other, kernel, Over::Query, &Silent).unwrap();
                let bits = |u: &Rows| u.values()[..at * 4].iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(&u), bits(&v));
            }
        }
    }

    /// Vectors whose norm is not 1.
    fn stretched(x: &Sequence, seed: u64) -> Sequence {
        let mut draw = crate::num::Stream::new(seed, "stretch", 0);
        let mut rows = (**x).clone();
        let d = x.d();
        for row in rows.values_mut().chunks_exact_mut(d) {
            let factor = 0.7 + 0.6 * draw.unit();
            row.iter_mut().for_each(|x| *x *= factor);
        }
        Sequence::new(rows).unwrap()
    }
}
