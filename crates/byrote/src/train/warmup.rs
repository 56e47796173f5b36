//! The warm-up of L-BFGS in models of blocks: Adam on batches that keep all next tokens of their contexts, with averaged weights.
//!
//! An ordinary batch has few of the next tokens of a context, so its gradient is noisy even at the floor. Here every context keeps the
//! next tokens of the whole corpus: at the floor the gradient of each context is zero, and that of each batch is too. The steps of a pass
//! over k batches therefore make nearly k times the progress of one step with all contexts, for the same work. The noise that remains
//! is averaged away:
//!
//! ```text
//! x  = x - p rate m' / sqrt(v)     m' the first moment with Nesterov's momentum, v the second, of the gradients of batches
//! w += (1 - a) / (1 - a^t) (x - w)       the weights of the run after t steps: a mean of the iterates in which older ones count less
//! ```
//!
//! The multiple p of the rate depends on the tensor: the rows of a table, each of which belongs to one token, may move far, the matrices
//! that all contexts share may not. The recipe was chosen on the built-in stories (`docs/depth.md`).

use super::evaluator::Evaluator;
use super::state::{LOSS, LbfgsState, OptimizerMemory, Problem, State, Trouble, narrow, not_finite, wide};
use crate::model::TensorName;
use crate::num::Real;
use crate::num::optimize::adam::Constants;
use crate::num::optimize::vectors::mix;
use crate::num::optimize::{Adam, Stopped};
use crate::observe::Observer;

const CONSTANTS: Constants = Constants { beta_1: 0.93, beta_2: 0.9, eps: 1e-8, decay: 0.0, nesterov: true };
/// How much an iterate counts in the mean, relative to the next one.
const AVERAGE: f64 = 0.85;
/// The number of passes between measurements of the loss, each of which takes about a third of a pass.
const PASSES: u64 = 2;

/// The multiple of the rate at which a tensor moves.
fn pace(tensor: TensorName) -> f64 {
    match tensor.weight() {
        // What belongs to a token, as it is read and as it is predicted.
        "W_E" | "W_U" => 4.0,
        "w" => 2.0,
        "W_in" | "W_gate" => 0.5,
        "W_Q" | "W_K" | "W_V" | "W_O" | "W_out" => 0.125,
        // Positions and biases.
        _ => 1.0,
    }
}

/// A warm-up with batches.
pub(super) struct WarmupState<T> {
    problem: Problem,
    evaluator: Evaluator<T>,
    adam: Adam<T>,
    /// The last iterate, and a buffer for the next one.
    x: Vec<T>,
    next: Vec<T>,
    /// The mean of the iterates, which are the weights of the run, and a buffer for the next one.
    mean: Vec<T>,
    next_mean: Vec<T>,
    gradient: Vec<T>,
    /// The loss of the mean, once measured.
    loss: Option<f64>,
}

impl<T: Real> WarmupState<T> {
    /// Begins at `x`, or continues where the weights are `x` after a number of steps.
    pub(super) fn new(problem: Problem, x: Vec<T>, memory: Option<(u64, OptimizerMemory)>) -> Self {
        let k = problem.settings.warmup_batches_of(&problem.config) as usize;
        let evaluator = problem.evaluator().divided(k, problem.settings.seed);
        let mut adam = Adam::new(CONSTANTS, x.len());
        adam.paces = problem.config.tensors().iter().map(|t| (t.range.end, pace(t.name))).collect();
        let (mean, mut x) = (x.clone(), x);
        if let Some((steps, OptimizerMemory::Averaged { first, second, iterate })) = memory {
            (adam.steps, adam.first, adam.second) = (steps, narrow(&first), narrow(&second));
            x = narrow(&iterate);
        }
        let (next, next_mean, gradient) = (x.clone(), x.clone(), x.clone());
        Self { problem, evaluator, adam, x, next, mean, next_mean, gradient, loss: None }
    }
}

impl<T: Real + 'static> State for WarmupState<T> {
    fn loss(&mut self, observer: &dyn Observer) -> Result<f64, Stopped> {
        if let Some(loss) = self.loss {
            return Ok(loss);
        }
        let loss = self.evaluator.loss_while(&self.mean, || !observer.should_stop())?;
        self.loss = Some(loss);
        Ok(loss)
    }

    fn step(&mut self, step: u64, observer: &dyn Observer) -> Result<u64, Trouble> {
        let go_on = || !observer.should_stop();
        let batch = (step % self.evaluator.n_batches() as u64) as usize;
        let loss = self.evaluator.evaluate_batch_while(batch, &self.x, &mut self.gradient, go_on)?;
        if !loss.is_finite() {
            return Err(Trouble::NotFinite(LOSS));
        }
        let measures = self.is_measured(step + 1);
        self.adam.remembers = measures;
        let rate = self.problem.settings.warmup_rate_of(&self.problem.config);
        let finite = self.adam.step(&self.x, &mut self.next, &self.gradient, rate);
        let new = (1.0 - AVERAGE) / (1.0 - AVERAGE.powf((step + 1) as f64));
        mix(&mut self.next_mean, &self.mean, &self.next, new);
        let measured = match finite && measures {
            true => self.evaluator.loss_while(&self.next_mean, go_on).map(Some),
            false => Ok(None),
        };
        let Ok(measured) = measured else {
            self.adam.undo();
            return Err(Trouble::Stopped);
        };
        if !finite || measured.is_some_and(|loss| !loss.is_finite()) {
            // A derivative that is not finite spoils moments and weights alike, so it is checked first.
            let tensor = [&self.gradient, &self.adam.second, &self.next, &self.next_mean]
                .into_iter()
                .find_map(|values| not_finite(&self.problem.config, values));
            return Err(Trouble::NotFinite(tensor.unwrap_or(LOSS)));
        }
        std::mem::swap(&mut self.x, &mut self.next);
        std::mem::swap(&mut self.mean, &mut self.next_mean);
        self.loss = measured;
        Ok(1)
    }

    fn successor(&self, step: u64, observer: &dyn Observer) -> Result<Option<Box<dyn State>>, Stopped> {
        if step < self.problem.settings.warmup {
            return Ok(None);
        }
        Ok(Some(Box::new(LbfgsState::after(&self.problem, &self.mean, &self.adam.second, observer)?)))
    }

    fn is_measured(&self, step: u64) -> bool {
        step.is_multiple_of(PASSES * self.evaluator.n_batches() as u64)
    }

    fn parameters(&self) -> Vec<f64> {
        wide(&self.mean)
    }

    fn memory(&self) -> OptimizerMemory {
        let (first, second) = (wide(&self.adam.first), wide(&self.adam.second));
        OptimizerMemory::Averaged { first, second, iterate: wide(&self.x) }
    }
}
