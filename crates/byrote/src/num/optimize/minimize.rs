//! L-BFGS with a line search, one step at a time, so that the caller can observe, save and stop.

use super::line_search::{LinePoint, Search, Wolfe};
use super::{Lbfgs, Objective, Stopped};
use crate::num::Real;
use std::mem::swap;

/// The state of a descent.
#[derive(Debug, Clone)]
pub struct Minimizer<T> {
    /// The conditions of the line search.
    pub wolfe: Wolfe,
    /// The curvature pairs.
    pub lbfgs: Lbfgs<T>,
    /// The initial step length: along the first direction divided by the 1-norm of the gradient, later as it is.
    pub rate: f64,
    x: Vec<T>,
    value: f64,
    gradient: Vec<T>,
    direction: Vec<T>,
    trial: Vec<T>,
    trial_gradient: Vec<T>,
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DescentStep {
    /// The step length along the direction.
    pub t: f64,
    /// The number of evaluations.
    pub evaluations: u32,
}

/// Why a descent cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// No point along the direction or the gradient is lower, within rounding.
    NoDescent,
    /// The value or the gradient is not finite.
    NotFinite,
    /// Someone asked the objective to stop; the state is that before the step.
    Stopped,
}

impl From<Stopped> for Halt {
    fn from(_: Stopped) -> Self {
        Halt::Stopped
    }
}

impl<T: Real> Minimizer<T> {
    /// Starts at `x` and evaluates the objective there.
    pub fn new<O: Objective<T> + ?Sized>(
        objective: &mut O,
        x: Vec<T>,
        lbfgs: Lbfgs<T>,
        wolfe: Wolfe,
        rate: f64,
    ) -> Result<Self, Stopped> {
        let n = x.len();
        let zeros = || vec![T::from_f64(0.0); n];
        let mut gradient = zeros();
        let value = objective.evaluate(&x, &mut gradient)?;
        let (direction, trial, trial_gradient) = (zeros(), zeros(), zeros());
        Ok(Self { wolfe, lbfgs, rate, x, value, gradient, direction, trial, trial_gradient })
    }

    /// Returns the current point.
    pub fn x(&self) -> &[T] {
        &self.x
    }

    /// Returns the value at the current point.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Returns the gradient at the current point.
    pub fn gradient(&self) -> &[T] {
        &self.gradient
    }

    /// Takes one step. After [`Halt::Stopped`], repeating it does the same evaluations again.
    pub fn step<O: Objective<T> + ?Sized>(&mut self, objective: &mut O) -> Result<DescentStep, Halt> {
        let mut evaluations = 0;
        let mut alone = self.lbfgs.pairs().len() == 0;
        loop {
            let slope = match alone {
                true => Lbfgs::new(0).direction(&self.gradient, &mut self.direction),
                false => self.lbfgs.direction(&self.gradient, &mut self.direction),
            };
            // The slope involves every component of the gradient, so it shows any that is not finite.
            if !self.value.is_finite() || !slope.is_finite() {
                return Err(Halt::NotFinite);
            }
            let guess = match alone {
                true => self.rate / self.gradient.iter().map(|g| g.to_f64().abs()).sum::<f64>().max(1.0),
                false => self.rate,
            };
            let mut search = Search {
                x: &self.x,
                direction: &self.direction,
                trial: &mut self.trial,
                trial_gradient: &mut self.trial_gradient,
                evaluations: 0,
            };
            let start = LinePoint { t: 0.0, value: self.value, slope };
            let found = if slope < 0.0 { search.run(objective, self.wolfe, start, guess)? } else { None };
            evaluations += search.evaluations;
            // The pairs are forgotten only when the step ends, so that one that is stopped can be repeated.
            if alone {
                self.lbfgs.clear();
            }
            if let Some(point) = found {
                self.lbfgs.learn(&self.x, &self.trial, &self.gradient, &self.trial_gradient);
                swap(&mut self.x, &mut self.trial);
                swap(&mut self.gradient, &mut self.trial_gradient);
                self.value = point.value;
                return Ok(DescentStep { t: point.t, evaluations });
            }
            if alone {
                return Err(Halt::NoDescent);
            }
            // The pairs are misleading: retry along the gradient.
            alone = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rosenbrock(x: &[f64], g: &mut [f64]) -> f64 {
        let mut value = 0.0;
        g.fill(0.0);
        for i in 0..x.len() - 1 {
            let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
            value += a * a + 100.0 * b * b;
            g[i] += -2.0 * a - 400.0 * x[i] * b;
            g[i + 1] += 200.0 * b;
        }
        value
    }

    #[test]
    fn the_minimum_of_the_rosenbrock_function_is_found() {
        let mut objective = rosenbrock;
        let start = vec![-1.2, 1.0, -1.2, 1.0, -1.2, 1.0];
        let mut descent =
            Minimizer::new(&mut objective, start, Lbfgs::new(5), Wolfe::default(), 1.0).unwrap();
        let mut evaluations = 0;
        for step in 0.. {
            match descent.step(&mut objective) {
                Ok(progress) => evaluations += progress.evaluations,
                Err(halt) => {
                    assert_eq!(halt, Halt::NoDescent);
                    assert!((30..300).contains(&step), "{step} steps");
                    break;
                }
            }
            assert!(step < 1000);
        }
        assert!(descent.x().iter().all(|x| (x - 1.0).abs() < 1e-6), "{:?}", descent.x());
        assert!(evaluations < 500, "{evaluations}");
    }

    #[test]
    fn values_that_are_not_finite_are_distinguished_from_convergence() {
        let mut objective = |_: &[f64], g: &mut [f64]| {
            g.fill(f64::NAN);
            0.0
        };
        let mut descent =
            Minimizer::new(&mut objective, vec![1.0], Lbfgs::new(5), Wolfe::default(), 1.0).unwrap();
        assert_eq!(descent.step(&mut objective), Err(Halt::NotFinite));
    }
}
