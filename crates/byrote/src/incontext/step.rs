//! Step sizes: how to choose one, and whether it is safe.
//!
//! One layer multiplies the error u - u* by I - eta D^-1 L, a lower triangular matrix with 1 - eta K_tt / D_t on its
//! diagonal. So infinitely many layers converge exactly if 0 < eta < 2 min_t D_t / K_tt. That is a condition on
//! eigenvalues; the error may still grow at first, and a number that has grown by a factor of 10^k has lost k of its
//! sixteen digits.
//!
//! | step | eta | what is known |
//! |---|---|---|
//! | [`Step::Universal`] | 1 / (T max_t K_tt); 1 for softmax | no growth observed (proved for a constant kernel: growth
//! at most e for eta <= 2 / T); needs only a bound on the norms |
//! | [`Step::Spectral`] | 1 / largest eigenvalue of K | no growth observed; larger; depends on the whole sequence,
//! including the future |
//! | [`Step::Exact`] | 1 / max K_tt | exact after T layers in exact arithmetic (I - L / c is nilpotent), but numbers
//! grow geometrically along the way |
//! | [`Step::Fixed`] | as given | |
//! | [`Step::Euler`] | tau / n | n layers are n steps of Euler's method along [`super::flow`] |
//!
//! Softmax: K_tt / D_t <= 1, so every eta below 2 converges, and 1 is the natural choice; D_1 = K_11, so no eta above 2
//! does (at t = 1 there is nothing to predict from and u_1 = 0 for any eta, so the relevant limit is over t >= 2).
//!
//! A diverging step is refused in advance; a step for which numbers grow so much that rounding spoils them (peak |u|
//! 2^-52 T above 1e-10) is refused afterwards. Both errors name the largest step that passes.

use super::descent::{Descent, Until, Weights};
use super::flow::check_time;
use super::kernel::{Attention, Kernel};
use super::sequence::Sequence;
use crate::observe::Observer;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Rounding errors up to this size are ignored.
pub const TOLERANCE: f64 = 1e-10;

/// How a step size is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// From the length and the norms only.
    Universal,
    /// From the largest eigenvalue of the kernel matrix.
    Spectral,
    /// Exact after as many layers as there are vectors, in exact arithmetic.
    Exact,
    /// As given.
    Fixed(f64),
    /// An equal share of a total, so that more layers follow the same flow more closely.
    Euler {
        /// The sum of all steps.
        time: f64,
        /// The number of steps.
        layers: u64,
    },
}

impl Step {
    /// Returns the step size for sequences that one network will read.
    pub fn resolve(
        self,
        sequences: &[Sequence],
        kernel: Kernel,
        attention: Attention,
        observer: &dyn Observer,
    ) -> Result<f64> {
        kernel.goes_with(attention)?;
        let eta = match (self, attention) {
            (Step::Fixed(eta), _) => eta,
            (Step::Euler { time, layers }, _) => {
                check_time(time)?;
                time / layers.max(1) as f64
            }
            (Step::Universal | Step::Exact, Attention::Softmax) => 1.0,
            (Step::Spectral, Attention::Softmax) => {
                return Err(Error::setting(
                    "eta",
                    "spectral applies only to identity and exp attention; use 1 for softmax",
                ));
            }
            (Step::Exact, _) => 1.0 / largest_diagonal(sequences, kernel)?,
            (Step::Universal, _) => {
                let longest = sequences.iter().map(|x| x.len()).max().unwrap_or(1);
                1.0 / (longest as f64 * largest_diagonal(sequences, kernel)?)
            }
            (Step::Spectral, _) => {
                let values: Result<Vec<f64>> = sequences
                    .par_iter()
                    .map(|x| Ok(Weights::new(x, kernel, attention, observer)?.largest_eigenvalue()))
                    .collect();
                1.0 / values?.into_iter().fold(0.0, f64::max)
            }
        };
        if !(eta.is_finite() && eta > 0.0) {
            return Err(Error::setting("eta", format!("must be finite and above 0 (got {eta})")));
        }
        Ok(eta)
    }
}

/// max K_tt over all sequences.
fn largest_diagonal(sequences: &[Sequence], kernel: Kernel) -> Result<f64> {
    let mut most = 0.0f64;
    for x in sequences {
        most = kernel.points(x)?.diagonal()?.into_iter().fold(most, f64::max);
    }
    Ok(most)
}

/// The step size from which infinitely many layers diverge.
pub fn limit(sequence: &Sequence, kernel: Kernel, attention: Attention) -> Result<f64> {
    match attention {
        Attention::Softmax => Ok(2.0),
        _ => Ok(2.0 / largest_diagonal(std::slice::from_ref(sequence), kernel)?),
    }
}

/// Roughly the number of layers for a tolerance: 1.8 ln(1/tol) / (eta c), for softmax 1.5 ln(1/tol) max_t (D_t / K_tt)
/// / eta.
pub fn predicted_layers(
    eta: f64,
    sequence: &Sequence,
    kernel: Kernel,
    attention: Attention,
    tolerance: f64,
    observer: &dyn Observer,
) -> Result<u64> {
    let digits = (1.0 / tolerance).ln();
    let layers = match attention {
        Attention::Softmax => {
            let weights = Weights::new(sequence, kernel, attention, observer)?;
            let most = weights.diagonal.iter().fold(0.0f64, |most, a| most.max(1.0 / a));
            1.5 * digits * most / eta
        }
        _ => {
            let least = kernel.points(sequence)?.diagonal()?.into_iter().fold(f64::INFINITY, f64::min);
            1.8 * digits / (eta * least)
        }
    };
    Ok(layers.ceil().min(1e18) as u64)
}

/// The number of operations that a search for the largest safe step may take; above it, the spectral step is named.
const SEARCH: f64 = 5e10;
/// The number of trials of the search.
const TRIALS: u32 = 12;

/// Runs the descent, unless its step diverges or rounding would spoil it.
pub fn descend_safely(
    sequence: &Sequence,
    kernel: Kernel,
    attention: Attention,
    eta: f64,
    until: Until,
    observer: &dyn Observer,
) -> Result<Descent> {
    if attention == Attention::Softmax && !kernel.is_normalised() {
        sequence.expect_unit_norm("softmax attention")?;
    }
    let limit = limit(sequence, kernel, attention)?;
    let weights = Weights::new(sequence, kernel, attention, observer)?;
    let run = |eta: f64| weights.descend(sequence, eta, until, observer);
    let n = sequence.len() as f64;
    let spoilt = |d: &Descent| {
        // Vectors of a scale other than 1 have errors on that scale.
        let scale = sequence.magnitude();
        !(d.residual.is_finite() && d.peak * f64::EPSILON * n <= TOLERANCE * scale)
    };
    let why = if eta >= limit {
        format!("diverges: a layer multiplies an error by {:.4}", 2.0 * eta / limit - 1.0)
    } else {
        let descent = run(eta)?;
        if !spoilt(&descent) {
            return Ok(descent);
        }
        format!("makes numbers grow to {:.1e} before they shrink, and rounding with them", descent.peak)
    };
    // Steps this small have never been observed to grow.
    let mut safe = match attention {
        Attention::Softmax => 1.0,
        _ => 1.0 / weights.largest_eigenvalue(),
    };
    let mut high = eta.min(0.999 * limit);
    safe = safe.min(high);
    if n * n * sequence.d() as f64 * until.layers as f64 * f64::from(TRIALS) <= SEARCH {
        if !spoilt(&run(high)?) {
            safe = high;
        }
        for _ in 0..TRIALS {
            let middle = (safe * high).sqrt();
            if spoilt(&run(middle)?) {
                high = middle;
            } else {
                safe = middle;
            }
        }
    }
    Err(Error::UnstableStep { eta, largest: safe, why })
}

#[cfg(test)]
mod tests {
    use super::super::direct::direct;
    use super::super::kernel::Over;
    use super::super::rows::Rows;
    use super::super::sequence_task::{Map, SequenceTask};
    use super::*;
    use crate::observe::Silent;

    fn linear(d: usize, n: usize) -> Sequence {
        SequenceTask::Linear(Map::Orthogonal).generate(d, n, 5, 0).unwrap()
    }

    #[test]
    fn steps_are_what_they_are_called() {
        let x = [linear(6, 50)];
        let exp = Kernel::exp(2.0).unwrap();
        let resolve = |step: Step, kernel, attention| step.resolve(&x, kernel, attention, &Silent);
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
        near(resolve(Step::Universal, Kernel::LINEAR, Attention::Identity).unwrap(), 1.0 / 50.0);
        near(resolve(Step::Universal, exp, Attention::Exp).unwrap(), (-2f64).exp() / 50.0);
        near(resolve(Step::Exact, exp, Attention::Exp).unwrap(), (-2f64).exp());
        near(resolve(Step::Universal, exp, Attention::Softmax).unwrap(), 1.0);
        let euler = Step::Euler { time: 3.0, layers: 12 };
        near(resolve(euler, Kernel::LINEAR, Attention::Identity).unwrap(), 0.25);
        let spectral = resolve(Step::Spectral, Kernel::LINEAR, Attention::Identity).unwrap();
        // The trace of K is T, its rank 6: the largest eigenvalue lies between T / 6 and T.
        assert!(1.0 / 50.0 < spectral && spectral <= 6.0 / 50.0 + 1e-9, "{spectral}");
        assert!(resolve(Step::Spectral, exp, Attention::Softmax).is_err());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(resolve(Step::Fixed(bad), exp, Attention::Softmax).is_err(), "{bad}");
        }
        assert!(resolve(Step::Fixed(1.0), exp, Attention::Identity).is_err());
    }

    #[test]
    fn a_step_that_diverges_or_loses_its_digits_is_refused_with_one_that_does_not() {
        let exp = Kernel::exp(1.0).unwrap();
        for (x, kernel, attention, eta, says) in [
            (linear(8, 60), Kernel::LINEAR, Attention::Identity, 2.5, "diverges"),
            (linear(8, 60), exp, Attention::Exp, 1.0, "diverges"),
            (linear(8, 60), exp, Attention::Softmax, 2.0, "diverges"),
            (linear(15, 200), Kernel::LINEAR, Attention::Identity, 1.0, "grow"),
            (linear(15, 100), exp, Attention::Exp, (-1f64).exp(), "grow"),
        ] {
            let until = Until::layers(x.len() as u64);
            let error = descend_safely(&x, kernel, attention, eta, until, &Silent).unwrap_err();
            let Error::UnstableStep { largest, .. } = error else { panic!("{error}") };
            assert!(error.to_string().contains(says), "{error}");
            assert!(largest < eta);
            descend_safely(&x, kernel, attention, largest, until, &Silent).unwrap();
            // A step larger by a tenth is not safe, unless the requested step was safe already.
            if says == "grow" {
                assert!(descend_safely(&x, kernel, attention, 1.1 * largest, until, &Silent).is_err());
            }
        }
    }

    #[test]
    fn the_exact_step_is_exact_after_as_many_layers_as_vectors() {
        let x = linear(8, 30);
        let eta = Step::Exact.resolve(std::slice::from_ref(&x), Kernel::LINEAR, Attention::Identity, &Silent);
        let found =
            descend_safely(&x, Kernel::LINEAR, Attention::Identity, eta.unwrap(), Until::layers(30), &Silent);
        let exact = direct(&x, Kernel::LINEAR, Over::Query, &Silent).unwrap();
        assert!(found.unwrap().predictions.max_difference(&exact) < 1e-10);
        // A periodic sequence with a sharp kernel never grows.
        let x = SequenceTask::Periodic(20, 40).generate(15, 200, 1, 0).unwrap();
        let kernel = Kernel::exp(16.0).unwrap();
        let eta = (-16f64).exp();
        let found = descend_safely(&x, kernel, Attention::Exp, eta, Until::layers(200), &Silent).unwrap();
        let exact = direct(&x, kernel, Over::Query, &Silent).unwrap();
        assert!(found.predictions.max_difference(&exact) < 1e-12);
    }

    #[test]
    fn the_universal_step_never_grows_not_even_on_constant_and_alternating_sequences() {
        let constant = Sequence::new(Rows::whole(2, [0.6, 0.8].repeat(120))).unwrap();
        let alternating = Sequence::new(Rows::whole(2, [0.6, 0.8, -0.6, -0.8].repeat(60))).unwrap();
        for x in
            [constant, alternating, linear(15, 120), SequenceTask::Nonlinear.generate(4, 120, 0, 0).unwrap()]
        {
            for (kernel, attention) in [
                (Kernel::LINEAR, Attention::Identity),
                (Kernel::exp(1.0).unwrap(), Attention::Exp),
                (Kernel::exp(1.0).unwrap(), Attention::Softmax),
            ] {
                let eta =
                    Step::Universal.resolve(std::slice::from_ref(&x), kernel, attention, &Silent).unwrap();
                let found = descend_safely(&x, kernel, attention, eta, Until::layers(500), &Silent).unwrap();
                assert!(found.peak < 3.0, "{kernel} {attention}: {}", found.peak);
            }
        }
    }

    #[test]
    fn predictions_of_depth_are_of_the_right_size() {
        let x = linear(15, 100);
        for (kernel, attention) in
            [(Kernel::LINEAR, Attention::Identity), (Kernel::exp(1.0).unwrap(), Attention::Softmax)]
        {
            let eta = Step::Universal.resolve(std::slice::from_ref(&x), kernel, attention, &Silent).unwrap();
            let predicted = predicted_layers(eta, &x, kernel, attention, 1e-6, &Silent).unwrap();
            let exact = direct(&x, kernel, Over::Query, &Silent).unwrap();
            let error = |layers| {
                let found = descend_safely(&x, kernel, attention, eta, Until::layers(layers), &Silent);
                found.unwrap().predictions.max_difference(&exact)
            };
            assert!(error(2 * predicted) < 1e-6 && error(predicted / 4) > 1e-6, "{predicted}");
        }
    }

    #[test]
    fn softmax_wants_vectors_of_norm_one_unless_the_kernel_is_normalised() {
        let x = SequenceTask::Linear(Map::Contractive(0.9)).generate(3, 10, 0, 0).unwrap();
        let exp = Kernel::exp(1.0).unwrap();
        let run = |kernel| descend_safely(&x, kernel, Attention::Softmax, 1.0, Until::layers(3), &Silent);
        let error = run(exp).unwrap_err();
        assert!(error.to_string().contains("norm 1") && error.to_string().contains("t = 2"), "{error}");
        assert!(run(exp.normalised()).is_ok());
    }
}
