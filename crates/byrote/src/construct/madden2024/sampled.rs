//! The algorithm at the end of section 6: sample all weights, shrink the hidden ones, solve for the output.
//!
//! ```text
//! w_k standard normal, eps = (r / 2) / max |w_k . h_i|        b_k uniform in (-r / 2, r / 2)
//! ```
//!
//! where r is the radius of convergence of psi's series at 0, so that every argument eps w_k . h_i + b_k is inside it. For
//! almost all draws the features are then independent, whatever the size of eps; in double precision they are independent
//! only while they are few. A function that is nearly a polynomial of degree k on the interval has hardly more independent
//! features than there are monomials of degree k in `d_model` variables, so the condition number grows with the number of
//! contexts, the faster the narrower the model. What came out is measured with the public forward pass, like every method.
//! docs/derivations/madden2024.md says how far it goes.

use super::hyperplanes::attempt;
use super::{Attempt, Draw, Solver};
use crate::model::Activation;
use crate::num::Stream;
use crate::{Error, Result};

/// The radius of convergence of the series at 0, or 4 where there is no limit. `None` for ReLU, which has no series there.
fn radius(activation: Activation) -> Option<f64> {
    use std::f64::consts::PI;
    match activation {
        Activation::Gelu | Activation::Erf => Some(4.0),
        // The nearest zero of cosh(sqrt(2 / pi) (x + 0.044715 x^3)).
        Activation::GeluTanh => Some(2.826),
        Activation::Tanh => Some(PI / 2.0),
        Activation::Logistic | Activation::Silu => Some(PI),
        Activation::Arctan => Some(1.0),
        Activation::Relu => None,
    }
}

/// Refuses functions without a series at 0.
pub(in crate::construct) fn check(activation: Activation) -> Result<()> {
    match radius(activation) {
        Some(_) => Ok(()),
        None => {
            let message = format!("{activation} has no Taylor series at 0, which the sampled method needs");
            Err(Error::setting("activation", message))
        }
    }
}

pub(super) fn solve(draw: &Draw<'_>) -> Result<Attempt> {
    check(draw.config.shape.activation)?;
    let half = radius(draw.config.shape.activation).unwrap_or(0.0) / 2.0;
    let mut stream = Stream::new(draw.seed, "sampled", 0);
    let mut neurons: Vec<(Vec<f64>, f64)> = (0..draw.neurons())
        .map(|_| {
            let w = (0..draw.d()).map(|_| stream.normal()).collect();
            (w, half * (2.0 * stream.unit() - 1.0))
        })
        .collect();
    let largest = (0..draw.dataset.len())
        .flat_map(|i| neurons.iter().map(move |(w, _)| dot(w, draw.mixed(i)).abs()))
        .fold(0.0, f64::max);
    let eps = if largest > 0.0 { half / largest } else { half };
    neurons.iter_mut().for_each(|(w, _)| w.iter_mut().for_each(|x| *x *= eps));
    attempt(draw, Solver::Sampled, eps, neurons)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, build};
    use super::*;
    use crate::dataset::examples::stories;
    use crate::evaluate::evaluate;
    use crate::observe::Silent;
    use crate::units::Nats;

    /// The radius is that of the nearest singularity: beyond it, partial sums of the series no longer approach psi.
    #[test]
    fn the_nearest_singularity_of_the_tanh_approximation_is_where_it_is_said_to_be() {
        // cosh(c (x + a x^3)) = 0 at c (x + a x^3) = i pi / 2; with x = i y, a y^3 - y + pi / (2 c) = 0.
        let (a, c) = (0.044715, (2.0 / std::f64::consts::PI).sqrt());
        let target = std::f64::consts::FRAC_PI_2 / c;
        let (mut low, mut high) = (-10.0f64, 0.0f64);
        for _ in 0..200 {
            let y = 0.5 * (low + high);
            if a * y.powi(3) - y + target < 0.0 { low = y } else { high = y }
        }
        // The product of the three roots is -target / a; the other two are conjugate.
        let modulus = (target / a / low.abs()).sqrt();
        assert!((modulus - radius(Activation::GeluTanh).unwrap()).abs() < 1e-3, "{modulus}");
    }

    #[test]
    fn it_memorizes_few_contexts_and_refuses_many_of_a_narrow_model() {
        let (few, _) = stories(10);
        for activation in Activation::ALL.into_iter().filter(|&a| a != Activation::Relu) {
            let settings = Settings::default().activation(activation).sampled(true);
            let (model, report) = build(&few, &settings, &Silent).unwrap();
            assert_eq!((report.solver, report.neurons_per_context), (Solver::Sampled, 1.0));
            assert!(report.max_logit_error <= 1e-6 && report.condition.unwrap() > 1e3, "{report:?}");
            let found = evaluate(&model, &few, Nats(1e-3), 0, &Silent).unwrap();
            assert_eq!(found.memorized, found.contexts, "{activation}");
        }
        let narrow = Settings::default().d_model(1).sampled(true);
        let refused = build(&few, &narrow, &Silent).unwrap_err().to_string();
        assert!(refused.contains("closed"), "{refused}");
        let relu = Settings::default().activation(Activation::Relu).sampled(true);
        assert!(build(&few, &relu, &Silent).is_err_and(|e| e.to_string().contains("Taylor series")));
    }
}
