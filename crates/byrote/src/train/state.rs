//! The state of a run: the weights and the optimizer's memory, in the arithmetic of the run.

use super::documents::Documents;
use super::evaluator::Evaluator;
use super::settings::{Optimizer, Sampling, TrainSettings};
use super::warmup::WarmupState;
use crate::dataset::Dataset;
use crate::model::{Config, Tensor, TensorName};
use crate::num::Real;
use crate::num::Stream;
use crate::num::optimize::adam::Constants;
use crate::num::optimize::lbfgs::Pair;
use crate::num::optimize::scaled::{Scaled, multiply};
use crate::num::optimize::{Adam, Halt, Lbfgs, Minimizer, Objective, Stopped, Wolfe};
use crate::observe::Observer;
use std::sync::Arc;

/// A trainer's state, whatever its arithmetic.
///
/// The observer is asked before every block of contexts whether to stop. What is stopped leaves the state as it was, so that
/// it can be repeated and does the same.
pub(super) trait State: Send {
    /// Returns the loss of the current weights. With batches this takes a pass over all contexts.
    fn loss(&mut self, observer: &dyn Observer) -> Result<f64, Stopped>;
    /// Takes one step. After an error the weights are those of the last good step.
    fn step(&mut self, step: u64, observer: &dyn Observer) -> Result<u64, Trouble>;
    /// Returns the state that takes over before this step, if there is one.
    fn successor(&self, _step: u64, _: &dyn Observer) -> Result<Option<Box<dyn State>>, Stopped> {
        Ok(None)
    }
    /// Returns the same state in finer arithmetic, if this one finds no lower point and a finer one might.
    fn finer(&self, _: &dyn Observer) -> Result<Option<Box<dyn State>>, Stopped> {
        Ok(None)
    }
    /// Whether the loss after this number of steps is known or cheap to compute.
    fn is_measured(&self, step: u64) -> bool;
    /// Returns the weights.
    fn parameters(&self) -> Vec<f64>;
    /// Returns what the next step needs besides the weights.
    fn memory(&self) -> OptimizerMemory;
    /// Returns the share of right predictions in the latest batches, each just before its step, oldest first.
    fn recent(&self) -> &[f64] {
        &[]
    }
}

/// The number of batches whose accuracy is remembered.
pub(super) const RECENT: usize = 101;

/// Stands for the loss where a tensor is named.
pub(super) const LOSS: TensorName = TensorName::of("loss");

/// Why a step could not be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The first tensor with a weight or derivative that is not finite; `loss` if only the loss is affected.
    NotFinite(TensorName),
    /// No lower point can be found.
    NoDescent,
    /// The observer asked to stop.
    Stopped,
}

impl From<Stopped> for Trouble {
    fn from(_: Stopped) -> Self {
        Trouble::Stopped
    }
}

/// What is trained, and how.
#[derive(Clone)]
pub(super) struct Problem {
    pub(super) config: Config,
    pub(super) dataset: Arc<Dataset>,
    pub(super) settings: TrainSettings,
    /// The memory that activations may take, if that is limited.
    bytes: Option<u64>,
}

impl Problem {
    pub(super) fn evaluator<T: Real>(&self) -> Evaluator<T> {
        Evaluator::training(self.config, self.dataset.clone(), self.settings.trained, self.bytes)
    }
}

/// Creates the state at the start, or after a number of steps with the memory of a checkpoint; activations take at most about
/// `bytes`, where that can be chosen.
pub(super) fn new<T: Real + 'static>(
    config: Config,
    dataset: &Arc<Dataset>,
    settings: TrainSettings,
    parameters: &[f64],
    memory: Option<(u64, OptimizerMemory)>,
    bytes: Option<u64>,
    observer: &dyn Observer,
) -> Result<Box<dyn State>, Stopped> {
    let x = narrow(parameters);
    let problem = Problem { config, dataset: dataset.clone(), settings, bytes };
    Ok(match (settings.method, memory) {
        (Optimizer::Lbfgs, Some((_, OptimizerMemory::Curvature { units, position, pairs }))) => {
            let pairs = pairs.iter().map(|(s, y)| (narrow::<T>(s), narrow::<T>(y))).collect();
            let lbfgs = Lbfgs::from_pairs(settings.memory, pairs);
            let (units, position) = (narrow(&units), narrow(&position));
            Box::new(LbfgsState::new(problem, units, position, lbfgs, observer)?)
        }
        (Optimizer::Lbfgs, None) if settings.warmup == 0 => {
            let (units, lbfgs) = (vec![T::from_f64(1.0); x.len()], Lbfgs::new(settings.memory));
            Box::new(LbfgsState::new(problem, units, x, lbfgs, observer)?)
        }
        (Optimizer::Lbfgs, memory @ (None | Some((_, OptimizerMemory::Averaged { .. }))))
            if settings.warmup_batches_of(&config) > 1 =>
        {
            Box::new(WarmupState::new(problem, x, memory))
        }
        (_, memory) => Box::new(AdamState::new(problem, x, memory)),
    })
}

fn is_f64<T: Real>() -> bool {
    size_of::<T>() == size_of::<f64>()
}

pub(super) fn narrow<T: Real>(v: &[f64]) -> Vec<T> {
    v.iter().map(|&x| T::from_f64(x)).collect()
}

pub(super) fn wide<T: Real>(v: &[T]) -> Vec<f64> {
    v.iter().map(|x| x.to_f64()).collect()
}

/// The loss of a model, which an observer can stop.
struct Watched<'a, T> {
    evaluator: &'a mut Evaluator<T>,
    observer: &'a dyn Observer,
}

impl<T: Real> Objective<T> for Watched<'_, T> {
    fn evaluate(&mut self, x: &[T], gradient: &mut [T]) -> Result<f64, Stopped> {
        self.evaluator.evaluate_while(x, gradient, || !self.observer.should_stop())
    }
}

/// What an optimizer remembers besides the weights and the number of steps.
#[derive(Debug, Clone, PartialEq)]
pub enum OptimizerMemory {
    /// The memory of Adam, and of a warm-up of L-BFGS without batches.
    Moments {
        /// First moments.
        first: Vec<f64>,
        /// Second moments.
        second: Vec<f64>,
        /// The accuracy of the latest batches, oldest first.
        recent: Vec<f64>,
    },
    /// The memory of a warm-up of L-BFGS with batches, whose weights are averages.
    Averaged {
        /// First moments.
        first: Vec<f64>,
        /// Second moments.
        second: Vec<f64>,
        /// The weights that are averaged, after the last step.
        iterate: Vec<f64>,
    },
    /// The memory of L-BFGS.
    Curvature {
        /// The units of the weights.
        units: Vec<f64>,
        /// The weights in these units (the weights themselves are rounded products).
        position: Vec<f64>,
        /// The pairs in these units, oldest first.
        pairs: Vec<Pair<f64>>,
    },
}

/// A run with Adam.
struct AdamState<T> {
    problem: Problem,
    /// The documents that batches are drawn from; `None` where they are drawn from the contexts.
    documents: Option<Documents>,
    evaluator: Evaluator<T>,
    adam: Adam<T>,
    x: Vec<T>,
    /// The buffer for the next weights; after a step, the weights before it.
    next: Vec<T>,
    gradient: Vec<T>,
    /// The loss at `x`, once evaluated (without batches, `gradient` is then the gradient there).
    loss: Option<f64>,
    /// The fixed sample, or empty.
    sample: Vec<usize>,
    /// An epoch and the order in which it visits the contexts.
    order: Option<(u64, Vec<usize>)>,
    /// The accuracy of the batch of the current step.
    accuracy: f64,
    recent: Vec<f64>,
}

impl<T: Real> AdamState<T> {
    fn new(problem: Problem, x: Vec<T>, memory: Option<(u64, OptimizerMemory)>) -> Self {
        let Problem { config, ref dataset, settings, .. } = problem;
        let constants = Constants { decay: settings.decay, beta_2: settings.beta_2, ..Constants::default() };
        let mut adam = Adam::new(constants, x.len());
        let mut recent = Vec::new();
        if let Some((steps, OptimizerMemory::Moments { first, second, recent: latest })) = memory {
            (adam.steps, adam.first, adam.second) = (steps, narrow(&first), narrow(&second));
            recent = latest;
        }
        let (batches, seed) = match settings.sampling {
            Sampling::Sample => settings.sample,
            Sampling::Epochs | Sampling::Uniform => (0, 0),
        };
        let by_document = settings.batch.is_some() && config.shape.blocks.is_some();
        let documents = if by_document { Documents::of(dataset) } else { None };
        let units = documents.as_ref().map_or(dataset.len(), Documents::len);
        let mut stream = Stream::new(seed, "sample", 0);
        let sample = (0..batches * settings.batch.unwrap_or(0) as u64)
            .map(|_| stream.below(units as u64) as usize)
            .collect();
        let evaluator = problem.evaluator();
        let (next, gradient) = (x.clone(), x.clone());
        Self {
            problem,
            documents,
            evaluator,
            adam,
            x,
            next,
            gradient,
            loss: None,
            sample,
            order: None,
            accuracy: 0.0,
            recent,
        }
    }
}

impl<T: Real + 'static> State for AdamState<T> {
    fn loss(&mut self, observer: &dyn Observer) -> Result<f64, Stopped> {
        if let Some(loss) = self.loss {
            return Ok(loss);
        }
        let go_on = || !observer.should_stop();
        let loss = match self.problem.settings.batch {
            None => self.evaluator.evaluate_while(&self.x, &mut self.gradient, go_on)?,
            Some(_) => self.evaluator.loss_while(&self.x, go_on)?,
        };
        self.loss = Some(loss);
        Ok(loss)
    }

    fn step(&mut self, step: u64, observer: &dyn Observer) -> Result<u64, Trouble> {
        let loss = match self.problem.settings.batch {
            None => self.loss(observer)?,
            Some(size) => self.batch(size, step, observer)?,
        };
        if !loss.is_finite() {
            return Err(self.back(LOSS));
        }
        let Problem { ref config, settings, .. } = self.problem;
        let rate = match settings.method {
            Optimizer::Lbfgs => settings.warmup_rate_of(config),
            Optimizer::Adam | Optimizer::AdamW => settings.rate_of(step, self.units()),
        };
        self.clip();
        let measures = self.is_measured(step + 1);
        self.adam.remembers = measures;
        let finite = self.adam.step(&self.x, &mut self.next, &self.gradient, rate);
        std::mem::swap(&mut self.x, &mut self.next);
        let before = self.loss.take();
        let measured = match finite && measures {
            true => self.loss(observer),
            false => Ok(0.0),
        };
        let Ok(measured) = measured else {
            // The gradient is still that at the weights before the step.
            std::mem::swap(&mut self.x, &mut self.next);
            self.adam.undo();
            // A clipped gradient is computed again: clipped twice, it might differ in its last bit.
            self.loss = before.filter(|_| self.problem.settings.clip.is_none());
            return Err(Trouble::Stopped);
        };
        if !finite || !measured.is_finite() {
            // A derivative that is not finite spoils moments and weights alike, so it is checked first.
            let tensor = not_finite(&self.problem.config, &self.gradient)
                .or_else(|| not_finite(&self.problem.config, &self.adam.second))
                .or_else(|| not_finite(&self.problem.config, &self.x));
            return Err(self.back(tensor.unwrap_or(LOSS)));
        }
        if self.problem.settings.batch.is_some() {
            if self.recent.len() == RECENT {
                self.recent.remove(0);
            }
            self.recent.push(self.accuracy);
        }
        Ok(1)
    }

    fn successor(&self, step: u64, observer: &dyn Observer) -> Result<Option<Box<dyn State>>, Stopped> {
        if self.problem.settings.method != Optimizer::Lbfgs || step < self.problem.settings.warmup {
            return Ok(None);
        }
        Ok(Some(Box::new(LbfgsState::after(&self.problem, &self.x, &self.adam.second, observer)?)))
    }

    fn is_measured(&self, step: u64) -> bool {
        self.problem.settings.batch.is_none() || step.is_multiple_of(self.per_epoch())
    }

    fn parameters(&self) -> Vec<f64> {
        wide(&self.x)
    }

    fn memory(&self) -> OptimizerMemory {
        let (first, second) = (wide(&self.adam.first), wide(&self.adam.second));
        OptimizerMemory::Moments { first, second, recent: self.recent.clone() }
    }

    fn recent(&self) -> &[f64] {
        &self.recent
    }
}

impl<T: Real> AdamState<T> {
    /// Returns to the weights before the last step.
    fn back(&mut self, tensor: TensorName) -> Trouble {
        std::mem::swap(&mut self.x, &mut self.next);
        self.loss = None;
        Trouble::NotFinite(tensor)
    }

    /// The number of contexts or documents that an epoch visits.
    fn units(&self) -> usize {
        self.documents.as_ref().map_or(self.problem.dataset.len(), Documents::len)
    }

    /// Scales a gradient that is too long.
    fn clip(&mut self) {
        let Some(most) = self.problem.settings.clip else { return };
        let square: f64 = self.gradient.iter().map(|g| g.to_f64() * g.to_f64()).sum();
        let most = most * self.problem.dataset.predictions();
        if square > most * most {
            let factor = T::from_f64(most / square.sqrt());
            self.gradient.iter_mut().for_each(|g| *g *= factor);
        }
    }

    /// The number of batches in an epoch.
    fn per_epoch(&self) -> u64 {
        self.problem.settings.per_epoch(self.units())
    }

    /// The contexts of a batch, in order.
    fn chosen(&mut self, size: usize, step: u64) -> Vec<usize> {
        let n = self.units();
        if self.problem.settings.sampling == Sampling::Uniform {
            let mut stream = Stream::new(self.problem.settings.seed, "uniform batches", step);
            let mut chosen: Vec<usize> = (0..size).map(|_| stream.below(n as u64) as usize).collect();
            chosen.sort_unstable();
            return chosen;
        }
        let per_epoch = self.per_epoch();
        let (epoch, batch) = (step / per_epoch, (step % per_epoch) as usize);
        let order = match self.order.take() {
            Some((known, order)) if known == epoch => order,
            _ => {
                let mut order = if self.sample.is_empty() { (0..n).collect() } else { self.sample.clone() };
                let mut stream = Stream::new(self.problem.settings.seed, "batches", epoch);
                for i in (1..order.len()).rev() {
                    order.swap(i, stream.below(i as u64 + 1) as usize);
                }
                order
            }
        };
        let mut chosen = order[batch * size..((batch + 1) * size).min(order.len())].to_vec();
        self.order = Some((epoch, order));
        chosen.sort_unstable();
        chosen
    }

    /// The gradient of one batch, scaled to the whole dataset, and the batch's loss.
    fn batch(&mut self, size: usize, step: u64, observer: &dyn Observer) -> Result<f64, Stopped> {
        let chosen = self.chosen(size, step);
        let Problem { config, dataset, settings, bytes } = &self.problem;
        let part = match &self.documents {
            Some(documents) => documents.part(dataset, &chosen),
            None => dataset.part(&chosen),
        };
        let mut evaluator = Evaluator::training(*config, &part, settings.trained, *bytes);
        let loss = evaluator.evaluate_while(&self.x, &mut self.gradient, || !observer.should_stop())?;
        self.accuracy = evaluator.accuracy();
        let scale = T::from_f64(dataset.predictions() / part.predictions());
        self.gradient.iter_mut().for_each(|g| *g *= scale);
        Ok(loss)
    }
}

/// A run with L-BFGS.
pub(super) struct LbfgsState<T> {
    problem: Problem,
    evaluator: Evaluator<T>,
    units: Vec<T>,
    /// The weights: units times the position of the descent.
    x: Vec<T>,
    descent: Minimizer<T>,
}

impl<T: Real> LbfgsState<T> {
    fn new(
        problem: Problem,
        units: Vec<T>,
        position: Vec<T>,
        lbfgs: Lbfgs<T>,
        observer: &dyn Observer,
    ) -> Result<Self, Stopped> {
        let epsilon = if is_f64::<T>() { f64::EPSILON } else { f64::from(f32::EPSILON) };
        // The rounding error of the loss: sums are in f64, but the summands are rounded to T.
        let wolfe = Wolfe { noise: 4.0 * epsilon, ..Wolfe::default() };
        let mut evaluator = problem.evaluator();
        let mut x = position.clone();
        let mut watched = Watched { evaluator: &mut evaluator, observer };
        let mut objective = Scaled { objective: &mut watched, scale: &units, x: &mut x };
        let descent = Minimizer::new(&mut objective, position, lbfgs, wolfe, problem.settings.rate)?;
        Ok(Self { problem, evaluator, units, x, descent })
    }

    /// Continues from Adam, in the units of its second moments: a weight whose derivatives have been large takes small
    /// steps.
    pub(super) fn after(
        problem: &Problem,
        x: &[T],
        second: &[T],
        observer: &dyn Observer,
    ) -> Result<Self, Stopped> {
        let roots: Vec<f64> = second.iter().map(|v| v.to_f64().sqrt()).collect();
        let mean = roots.iter().sum::<f64>() / roots.len() as f64;
        let least = (LEAST_METRIC * mean).max(f64::from(f32::MIN_POSITIVE));
        let mut units: Vec<f64> = roots.iter().map(|r| (r + least).sqrt().recip()).collect();
        // Untrained weights keep their bits.
        for range in problem.settings.trained.frozen(&problem.config) {
            units[range].fill(1.0);
        }
        let position: Vec<f64> = x.iter().zip(&units).map(|(x, u)| x.to_f64() / u).collect();
        let lbfgs = Lbfgs::new(problem.settings.memory);
        let (units, position) = (narrow(&units), narrow(&position));
        Self::new(problem.clone(), units, position, lbfgs, observer)
    }
}

/// Added to the metric, relative to its mean, so that weights that have had no derivative so far do not take huge
/// steps.
const LEAST_METRIC: f64 = 0.03;

impl<T: Real + 'static> State for LbfgsState<T> {
    fn loss(&mut self, _: &dyn Observer) -> Result<f64, Stopped> {
        Ok(self.descent.value())
    }

    fn step(&mut self, _: u64, observer: &dyn Observer) -> Result<u64, Trouble> {
        let mut watched = Watched { evaluator: &mut self.evaluator, observer };
        let mut objective = Scaled { objective: &mut watched, scale: &self.units, x: &mut self.x };
        match self.descent.step(&mut objective) {
            Ok(progress) => Ok(u64::from(progress.evaluations)),
            Err(Halt::NoDescent) => Err(Trouble::NoDescent),
            Err(Halt::Stopped) => Err(Trouble::Stopped),
            Err(Halt::NotFinite) => {
                let tensor = not_finite(&self.problem.config, self.descent.gradient());
                Err(Trouble::NotFinite(tensor.unwrap_or(LOSS)))
            }
        }
    }

    fn finer(&self, observer: &dyn Observer) -> Result<Option<Box<dyn State>>, Stopped> {
        if is_f64::<T>() {
            return Ok(None);
        }
        let pairs = self.descent.lbfgs.pairs().map(|(s, y)| (wide(s), wide(y))).collect();
        let lbfgs = Lbfgs::from_pairs(self.problem.settings.memory, pairs);
        let (units, position) = (wide(&self.units), wide(self.descent.x()));
        let finer = LbfgsState::new(self.problem.clone(), units, position, lbfgs, observer)?;
        Ok(Some(Box::new(finer)))
    }

    fn is_measured(&self, _: u64) -> bool {
        true
    }

    fn parameters(&self) -> Vec<f64> {
        let mut x = self.x.clone();
        multiply(&mut x, self.descent.x(), &self.units);
        wide(&x)
    }

    fn memory(&self) -> OptimizerMemory {
        OptimizerMemory::Curvature {
            units: wide(&self.units),
            position: wide(self.descent.x()),
            pairs: self.descent.lbfgs.pairs().map(|(s, y)| (wide(s), wide(y))).collect(),
        }
    }
}

/// The first tensor with a number that is not finite.
pub(super) fn not_finite<T: Real>(config: &Config, values: &[T]) -> Option<TensorName> {
    if values.iter().all(|x| x.to_f64().is_finite()) {
        return None;
    }
    let wrong = |t: &Tensor| values[t.range.clone()].iter().any(|x| !x.to_f64().is_finite());
    config.tensors().into_iter().find(wrong).map(|t| t.name)
}
