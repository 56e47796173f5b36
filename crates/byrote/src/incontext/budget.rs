//! Why the errors tend to 0: their squares have a finite sum.
//!
//! Let k(x, y) = <phi(x), phi(y)>, let all vectors have k(x, x) = c, and suppose that *some* linear W of finite norm
//! satisfies W phi(x_s) = x_{s+1} for all s. A step of Kaczmarz's method ([`super::direct`], [`super::recursion`]) projects
//! W_t onto the maps that satisfy equation t, so Pythagoras gives
//!
//! ```text
//! |W_{t+1} - W|^2 = |W_t - W|^2 - |u_t - x_{t+1}|^2 / c,     hence     sum_t |u_t - x_{t+1}|^2 <= c |W|^2
//! ```
//!
//! (Hilbert-Schmidt norms, W_1 = 0). The sum is over all t, so the errors tend to 0, and at most c |W|^2 / e of them have a
//! square of e or more. This is the whole of Theorems 2, 3 and 4 of sander2024 in our reading, with a constant:
//!
//! | sequence | kernel | W | c \|W\|^2 |
//! |---|---|---|---|
//! | x_{t+1} = A x_t | <x, y> (Theorem 2) | A | \|A\|_F^2 |
//! | x_{t+1} = A x_t | exp(beta <x, y>) (Theorem 3) | A / beta^(1/2) on the linear features | e^beta \|A\|_F^2 / beta |
//! | x_{t+p} = x_t | exp(beta <x, y>) (Theorem 4) | the interpolant of one period | e^beta tr(Y^T K_p^-1 Y) |
//!
//! Hypotheses: vectors of norm 1 (checked), so that the descent's limit is Kaczmarz's; for a period, distinct vectors, so
//! that the kernel matrix K_p of one period is invertible (checked by its pivots). What was changed: the summary of the
//! paper speaks of limits only; the sums and their constants are ours.

use super::kernel::{Form, Kernel};
use super::rows::Rows;
use super::sequence::Sequence;
use crate::num::linear::{Mat, factor};
use crate::observe::Observer;
use crate::{Error, Result};

/// The most that the squared errors on a sequence x_{t+1} = A x_t of unit vectors can add up to.
pub fn of_linear_map(kernel: Kernel, map: &Rows) -> f64 {
    let square: f64 = map.values().iter().map(|a| a * a).sum();
    match kernel.form() {
        Form::Linear => square,
        Form::Exp { beta } => beta.exp() * square / beta,
    }
}

/// The same for a sequence that repeats these unit vectors.
pub fn of_period(kernel: Kernel, period: &Sequence, observer: &dyn Observer) -> Result<f64> {
    period.expect_unit_norm("the bound on the errors of a period")?;
    let (p, d) = (period.len(), period.d());
    let k = |t: usize, s: usize| kernel.evaluate(period.row(t), period.row(s));
    let lu = factor(Mat::from_fn(p, p, k), observer)?;
    if lu.pivot_ratio() < 1e-12 {
        let message =
            "the vectors of a period must be distinct, and no more than the kernel can tell apart".into();
        return Err(Error::Sequence { t: None, message });
    }
    let next = Mat::from_fn(p, d, |s, j| period.at((s + 1) % p, j));
    let mut solved = next.clone();
    lu.solve(&mut solved);
    let trace: f64 =
        (0..p).flat_map(|s| (0..d).map(move |j| (s, j))).map(|(s, j)| next[(s, j)] * solved[(s, j)]).sum();
    Ok(k(0, 0) * trace)
}

#[cfg(test)]
mod tests {
    use super::super::direct::direct;
    use super::super::kernel::Over;
    use super::super::recursion::recursion;
    use super::super::sequence_task::{Map, SequenceTask, linear_map, unwatched};
    use super::super::squared_error::squared_errors;
    use super::*;
    use crate::num::Stream;
    use crate::observe::Silent;

    fn errors(x: &Sequence, kernel: Kernel) -> Vec<f64> {
        squared_errors(&direct(x, kernel, Over::Query, &Silent).unwrap(), x)
    }

    fn map(seed: u64, d: usize) -> Rows {
        linear_map(Map::Orthogonal, d, &mut Stream::new(seed, "incontext linear map", 0), &unwatched())
            .unwrap()
    }

    #[test]
    fn the_squared_errors_of_a_linear_map_add_up_to_less_than_its_norm() {
        for (seed, d, beta) in [(1, 2, 1.0), (2, 5, 0.5), (3, 5, 2.0), (4, 9, 1.0)] {
            let x = SequenceTask::Linear(Map::Orthogonal).generate(d, 600, seed, 0).unwrap();
            for kernel in [Kernel::LINEAR, Kernel::exp(beta).unwrap()] {
                let (sum, budget) =
                    (errors(&x, kernel).iter().sum::<f64>(), of_linear_map(kernel, &map(seed, d)));
                // The bound is not idle either: at least a tenth of it is spent.
                assert!(
                    sum <= budget * (1.0 + 1e-12) && sum > 0.1 * budget,
                    "{kernel}, d = {d}: {sum} of {budget}"
                );
            }
        }
    }

    #[test]
    fn what_the_linear_kernel_has_not_spent_is_its_distance_from_the_map() {
        let (seed, d) = (7, 6);
        let x = SequenceTask::Linear(Map::Orthogonal).generate(d, 80, seed, 0).unwrap();
        let (map, found) = (map(seed, d), recursion(&x, Kernel::LINEAR, Over::Key, &Silent).unwrap());
        let spent: f64 = squared_errors(&found.predictions, &x).iter().sum();
        let left: f64 = found.matrix.values().iter().zip(map.values()).map(|(w, a)| (w - a).powi(2)).sum();
        assert!((of_linear_map(Kernel::LINEAR, &map) - spent - left).abs() < 1e-10, "{spent} {left}");
    }

    #[test]
    fn the_squared_errors_of_a_period_add_up_to_less_than_the_norm_of_its_interpolant() {
        for (p, d, beta) in [(3, 2, 1.0), (8, 3, 4.0), (12, 4, 8.0), (20, 15, 16.0)] {
            let kernel = Kernel::exp(beta).unwrap();
            let x = SequenceTask::Periodic(p, p).generate(d, 40 * p, 5, 0).unwrap();
            let budget = of_period(kernel, &x.first(p).unwrap(), &Silent).unwrap();
            let sum: f64 = errors(&x, kernel).iter().sum();
            assert!(sum <= budget * (1.0 + 1e-9), "period {p}: {sum} of {budget}");
            // A sharp kernel has learnt the period by then, and all of it is spent.
            assert!(beta < 16.0 || sum > 0.999 * budget, "period {p}: {sum} of {budget}");
        }
        // The linear kernel cannot tell more vectors apart than there are dimensions.
        let x = SequenceTask::Periodic(8, 8).generate(3, 8, 5, 0).unwrap();
        assert!(of_period(Kernel::LINEAR, &x, &Silent).is_err());
    }

    #[test]
    fn the_exp_kernel_is_kaczmarzs_method_in_the_space_of_its_monomials() {
        // d = 2: exp(<x, y>) is the sum over a, b of x1^a x2^b y1^a y2^b / (a! b!); degree 24 is exact to rounding.
        let degree = 24;
        let x = SequenceTask::Nonlinear.generate(2, 60, 3, 0).unwrap();
        let factorial = |n: i32| (1..=n).map(f64::from).product::<f64>();
        let features = |x: &[f64]| -> Vec<f64> {
            let pairs = (0..=degree).flat_map(|n| (0..=n).map(move |a| (a, n - a)));
            pairs.map(|(a, b)| x[0].powi(a) * x[1].powi(b) / (factorial(a) * factorial(b)).sqrt()).collect()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut w = vec![vec![0.0; features(x.row(0)).len()]; 2];
        let u = direct(&x, Kernel::exp(1.0).unwrap(), Over::Query, &Silent).unwrap();
        for t in 0..59 {
            let phi = features(x.row(t));
            for (j, w) in w.iter_mut().enumerate() {
                let prediction = dot(w, &phi);
                assert!((prediction - u.at(t, j)).abs() < 1e-10, "t = {}", t + 1);
                let step = (x.at(t + 1, j) - prediction) / dot(&phi, &phi);
                w.iter_mut().zip(&phi).for_each(|(w, p)| *w += step * p);
            }
        }
    }
}
