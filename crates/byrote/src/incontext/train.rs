//! The same network, trained: Adam adjusts the head matrices and step sizes of all descent layers, on an endless supply
//! of sequences.
//!
//! Every step draws a fresh batch, so the loss is measured on sequences never seen before. The first layer, which
//! copies, stays as constructed; each descent layer has separate weights from the start. They start either as
//! constructed, so that training can only improve on the descent it starts from, or at random: Gaussian matrices whose
//! products preserve the size of a token, and a step of 1 / layers.
//!
//! The rate follows half a cosine down to a hundredth of its first value. Reference: Sander and Peyre, arXiv
//! 2410.03011, figure 4 (the paper's own network, rates and numbers are not known to us).

use super::construct::NetworkPlan;
use super::gradient::{
    Example, loss_and_gradient, n_parameters, parameters, prepare, set_parameters, trainable,
};
use super::kernel::{Attention, Kernel};
use super::network::Network;
use super::rows::Rows;
use super::sequence::Sequence;
use super::sequence_task::SequenceTask;
use crate::num::Stream;
use crate::num::optimize::Adam;
use crate::num::optimize::adam::Constants;
use crate::observe::{Observer, Stage};
use crate::{Error, Result};
use serde::Serialize;

/// The initial weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// As constructed.
    Constructed,
    /// At random.
    Random,
}

/// Describes a training run.
///
/// ```
/// use byrote::incontext::train::NetworkTrainSettings;
/// use byrote::incontext::{Attention, Kernel, Map, SequenceTask};
/// let task = SequenceTask::Linear(Map::Orthogonal);
/// let settings = NetworkTrainSettings::new(task, 3, 10, Kernel::exp(1.0)?, Attention::Softmax).layers(2);
/// assert_eq!(settings.constructed()?.n_ctx(), 10);
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct NetworkTrainSettings {
    /// How the sequences are generated.
    pub task: SequenceTask,
    /// Their dimension.
    pub d: usize,
    /// The number of vectors seen of each.
    pub length: usize,
    /// The kernel of the construction.
    pub kernel: Kernel,
    /// The attention.
    pub attention: Attention,
    /// The number of descent layers.
    pub layers: u64,
    /// The step size of the construction.
    pub eta: f64,
    /// The initial weights.
    pub start: Start,
    /// The number of steps of Adam.
    pub steps: u64,
    /// The number of sequences per step.
    pub batch: u64,
    /// The initial rate.
    pub rate: f64,
    /// The seed of the weights and the sequences.
    pub seed: u64,
}

/// A trained network.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainedNetwork {
    /// The network.
    pub network: Network,
    /// The loss of each step's batch, before the step: squared error per coordinate.
    pub losses: Vec<f64>,
}

/// Test sequences have numbers from here on; training sequences have smaller ones.
pub const TEST: u64 = 1 << 48;
/// The number of layers before those that are trained.
const FIRST: usize = 1;

crate::setting::setters!(NetworkTrainSettings {
    layers: plain(u64),
    eta: plain(f64),
    start: plain(Start),
    steps: plain(u64),
    batch: plain(u64),
    rate: plain(f64),
    seed: plain(u64),
});

impl NetworkTrainSettings {
    /// Describes a run of 600 steps of 32 sequences, for five descent layers that start as constructed with a step size of 1.
    pub fn new(task: SequenceTask, d: usize, length: usize, kernel: Kernel, attention: Attention) -> Self {
        Self {
            task,
            d,
            length,
            kernel,
            attention,
            layers: 5,
            eta: 1.0,
            start: Start::Constructed,
            steps: 600,
            batch: 32,
            rate: 3e-3,
            seed: 0,
        }
    }

    fn check(&self) -> Result<()> {
        self.kernel.goes_with(self.attention)?;
        if self.kernel.is_normalised() {
            return Err(Error::setting(
                "normalised",
                "networks are trained on vectors of norm 1, which need no normalised kernel",
            ));
        }
        if !(1..=1000).contains(&self.layers) {
            return Err(Error::setting("layers", format!("must be from 1 to 1000 (got {})", self.layers)));
        }
        if self.batch == 0 || self.batch > 1 << 20 || self.steps > 1 << 27 {
            return Err(Error::setting(
                "batch",
                "must be at least 1 sequence, and fewer than 2^47 over all steps",
            ));
        }
        if !(self.rate > 0.0 && self.rate.is_finite() && self.eta > 0.0 && self.eta.is_finite()) {
            return Err(Error::setting("rate", "must be finite and above 0, and so must `eta`"));
        }
        Ok(())
    }

    /// The constructed network, with its repeated layers written out.
    pub fn constructed(&self) -> Result<Network> {
        self.check()?;
        let plan = NetworkPlan::new(self.d, self.length, self.kernel, self.attention).eta(self.eta);
        let mut network = plan.network()?;
        for _ in 1..self.layers {
            network.layers.push(network.layers[FIRST].clone());
        }
        Ok(network)
    }

    /// The network that training begins with.
    pub fn initial(&self) -> Result<Network> {
        let mut network = self.constructed()?;
        if self.start == Start::Random {
            let draw = &mut Stream::new(self.seed, "incontext weights", 0);
            let scale = 1.0 / (network.d_model() as f64).sqrt();
            for layer in &mut network.layers[FIRST..] {
                layer.step = 1.0 / self.layers as f64;
                for head in &mut layer.heads {
                    for matrix in [&mut head.w_q, &mut head.w_k, &mut head.w_v, &mut head.w_o] {
                        matrix.values_mut().iter_mut().for_each(|x| *x = scale * draw.normal());
                    }
                }
            }
        }
        Ok(network)
    }

    /// Sequences starting at a number, with the vectors that follow them.
    pub fn sequences(&self, from: u64, n: u64) -> Result<Vec<Sequence>> {
        (from..from + n).map(|i| self.task.generate(self.d, self.length + 1, self.seed, i)).collect()
    }

    fn examples(&self, from: u64, n: u64) -> Result<Vec<Example>> {
        let d = self.d;
        let one = |x: &Sequence| Example {
            inputs: Rows::whole(d, x.values()[..self.length * d].to_vec()),
            next: Rows::whole(d, x.values()[d..].to_vec()),
        };
        Ok(self.sequences(from, n)?.iter().map(one).collect())
    }

    /// Trains the network.
    pub fn train(&self, observer: &dyn Observer) -> Result<TrainedNetwork> {
        let mut network = self.initial()?;
        trainable(&network, FIRST)?;
        let mut at = parameters(&network, FIRST);
        let mut next = at.clone();
        let mut adam = Adam::new(Constants::default(), n_parameters(&network, FIRST));
        let mut losses = Vec::new();
        for step in 0..self.steps {
            observer.report(Stage::Training, step, Some(self.steps))?;
            let batch = prepare(&network, FIRST, &self.examples(step * self.batch, self.batch)?)?;
            let (loss, mut gradient) = loss_and_gradient(&network, FIRST, &batch);
            if !loss.is_finite() {
                return Err(self.diverged(step));
            }
            losses.push(loss);
            clip(&mut gradient, 1.0);
            let share = step as f64 / self.steps as f64;
            let rate = self.rate * (0.01 + 0.99 * 0.5 * (1.0 + (std::f64::consts::PI * share).cos()));
            if !adam.step(&at, &mut next, &gradient, rate) {
                return Err(self.diverged(step));
            }
            std::mem::swap(&mut at, &mut next);
            set_parameters(&mut network, FIRST, &at);
        }
        Ok(TrainedNetwork { network, losses })
    }

    fn diverged(&self, step: u64) -> Error {
        Error::setting("rate", format!("{} makes the training diverge at step {}", self.rate, step + 1))
    }
}

/// Scales a gradient longer than `most` down to that length.
fn clip(gradient: &mut [f64], most: f64) {
    let length = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    if length > most {
        gradient.iter_mut().for_each(|g| *g *= most / length);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequence_task::Map;
    use super::super::squared_error::{squared_errors, summarize};
    use super::*;
    use crate::observe::{Impatient, Silent};

    fn settings(start: Start) -> NetworkTrainSettings {
        NetworkTrainSettings {
            task: SequenceTask::Linear(Map::Orthogonal),
            d: 3,
            length: 16,
            kernel: Kernel::exp(1.0).unwrap(),
            attention: Attention::Softmax,
            layers: 3,
            eta: 1.0,
            start,
            steps: 60,
            batch: 16,
            rate: 5e-3,
            seed: 1,
        }
    }

    /// Returns the mean squared error of a network on sequences not seen in training.
    fn test_error(settings: &NetworkTrainSettings, network: &Network) -> f64 {
        let all = settings.sequences(TEST, 64).unwrap();
        let errors: Vec<Vec<f64>> = all
            .iter()
            .map(|x| squared_errors(&network.evaluate(&x.first(16).unwrap(), &Silent).unwrap(), x))
            .collect();
        summarize(&errors).iter().map(|e| e.squared_error).sum::<f64>() / 16.0
    }

    #[test]
    fn training_from_the_construction_makes_it_better() {
        let settings = settings(Start::Constructed);
        let before = test_error(&settings, &settings.constructed().unwrap());
        let trained = settings.train(&Silent).unwrap();
        let after = test_error(&settings, &trained.network);
        assert!(after < 0.8 * before, "{before} -> {after}");
        assert_eq!(trained.losses.len(), 60);
        // The loss of the first batch is that of the construction, per coordinate.
        assert!((trained.losses[0] * 3.0 / before - 1.0).abs() < 0.3, "{} {before}", trained.losses[0]);
    }

    #[test]
    fn training_from_random_weights_learns_too_and_repeats_to_the_bit() {
        let settings = settings(Start::Random);
        let before = test_error(&settings, &settings.initial().unwrap());
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| settings.train(&Silent)).unwrap()
        };
        let trained = run(1);
        assert!(test_error(&settings, &trained.network) < 0.9 * before);
        assert_eq!(trained, run(2));
    }

    #[test]
    fn wrong_settings_stops_and_divergence_are_reported() {
        let good = settings(Start::Constructed);
        for (settings, says) in [
            (NetworkTrainSettings { layers: 0, ..good }, "layers"),
            (NetworkTrainSettings { attention: Attention::Identity, ..good }, "attention"),
            (NetworkTrainSettings { kernel: good.kernel.normalised(), ..good }, "normalised"),
            (NetworkTrainSettings { batch: 0, ..good }, "batch"),
            (NetworkTrainSettings { rate: f64::NAN, ..good }, "rate"),
            (NetworkTrainSettings { rate: 1e200, ..good }, "diverge"),
        ] {
            let error = settings.train(&Silent).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(matches!(good.train(&Impatient::new(0)), Err(Error::Interrupted)));
    }
}
