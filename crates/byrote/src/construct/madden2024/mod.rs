//! madden2024, Theorems 5 and 7: one hidden neuron per context suffices to memorize any next-token distributions.
//!
//! **Statement.** Let psi have, at some point, a convergent Taylor series that is not a polynomial. For n distinct
//! contexts of at most T tokens and any target distributions of full support there is a one-layer transformer with
//! self-attention (Theorem 5) or token averaging (Theorem 7), any d_model >= 1 and m = n hidden neurons, whose
//! next-token distributions are the targets.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | `W_E`, `W_pos` | Z, U | embedding, positions |
//! | `W_Q W_K^T`, `W_V W_O` | W_1 W_2^T, W_3 W_0 | the two bilinear maps of a head |
//! | `W_in`, `b_in` | W, b | hidden layer |
//! | `W_U` | V | output |
//! | `a`, layer `Mixed` | h_2 | the mixer's output for a context |
//!
//! **Differences from the proof.** The proof draws the mixer and the hidden layer at random, near 0, and inverts the n
//! x n matrix of features, whose condition number doubles with every few contexts: in double precision it is singular
//! at 6. Here the mixer is random as in the proof (`random_mixer`), but the hidden layer is placed where the contexts are:
//!
//! - `sorted`: for functions that saturate (tanh, logistic, erf). Contexts are sorted along one direction and neuron
//!   k steps between contexts k - 1 and k; features are +-1 to the last bit, the output is a difference of neighbouring
//!   targets, no system is solved, and the output matrix is as sparse as the targets. Works for any d_model.
//! - [`hyperplanes`]: for all other functions. A neuron's hyperplane lies halfway between two contexts, in a random
//!   direction; one n x n system is solved. Works for d_model of about 4 or more.
//! - `ramps`: for GELU and ReLU where `hyperplanes` fails (d_model 1 to 3): a piecewise linear function along one
//!   direction. Its error grows with the ratio of the range to the smallest gap.
//!
//! - `sampled`, on request: the proof's own draw, for any `d_model`. It shows how far double precision carries it.
//!
//! **Measured error.** See docs/derivations/madden2024.md. **It refuses** fewer neurons than contexts, contexts that
//! the mixer cannot distinguish, systems that do not fit in memory, and any result whose largest logit error, measured
//! with the public forward pass, is above the tolerance.
//!
//! Madden, Fox, Thrampoulidis, "Next-token prediction capacity: general upper bounds and a lower bound for transformers",
//! arXiv:2405.13718v1, Theorems 4 to 7.
//!
//! ```
//! use byrote::construct::madden2024::{Settings, build};
//! use byrote::dataset::Dataset;
//! use byrote::model::Activation;
//! use byrote::observe::Silent;
//!
//! // After 0 comes 1; after 0 1 comes 0 or 2, equally often.
//! let contexts = [(vec![0], vec![(1, 4.0)]), (vec![0, 1], vec![(0, 1.0), (2, 1.0)])];
//! let dataset = Dataset::new(3, 2, contexts)?;
//! let settings = Settings::default().activation(Activation::Gelu);
//! let (model, report) = build(&dataset, &settings, &Silent)?;
//! assert_eq!(model.config().shape.d_mlp, 2); // one neuron per context
//! assert!(report.max_logit_error < 1e-6);
//! # Ok::<(), byrote::Error>(())
//! ```

pub(crate) mod hyperplanes;
pub mod literal;
pub(crate) mod ramps;
pub(crate) mod random_mixer;
pub(in crate::construct) mod sampled;
pub(crate) mod sorted;

use super::{MAX_MEMORY, Madden2024Spec, Targets, check_tolerance};
use crate::dataset::Dataset;
use crate::error::Refusal;
use crate::model::{Activation, Config, Mixer, Model, Preset, Shape};
use crate::observe::{Observer, Stage};
use crate::train::{Evaluator, ProbePoint};
use crate::units::Nats;
use crate::{Error, Result};
use serde::Serialize;

/// The key of the paper, for errors.
pub(super) const KEY: &str = "madden2024";

/// The maximum number of random draws.
const DRAWS: u64 = 8;

/// Describes the model to build.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Attention or token averaging.
    pub mixer: Mixer,
    /// Whether the last embedding is added to the mixer's output.
    pub skip: bool,
    /// The function of the hidden neurons.
    pub activation: Activation,
    /// The width of the residual stream.
    pub d_model: u64,
    /// The number of heads; by default 4, or 1 for `d_model` below 4.
    pub n_heads: Option<u64>,
    /// The width of a head; by default `d_model` divided by the number of heads, rounded up.
    pub d_head: Option<u64>,
    /// Neurons beyond one per context, as a fraction of the contexts.
    pub slack: f64,
    /// The number of neurons, instead of `slack`.
    pub d_mlp: Option<u64>,
    /// The requested total gap.
    pub gap: Nats,
    /// The largest accepted error of a logit.
    pub tolerance: f64,
    /// Whether the hidden layer is sampled as in the paper's section 6 instead of placed where the contexts are. In double
    /// precision that works for few contexts.
    pub sampled: bool,
    /// The seed of the random draws.
    pub seed: u64,
    /// The memory limit for the matrices of a system, in bytes.
    pub max_memory: u64,
}

/// As in [`Madden2024Spec`].
impl Default for Settings {
    fn default() -> Self {
        Madden2024Spec::default().settings(0, MAX_MEMORY)
    }
}

crate::setting::setters!(Settings {
    mixer: plain(Mixer),
    skip: plain(bool),
    activation: plain(Activation),
    d_model: plain(u64),
    n_heads: into(impl Into<Option<u64>>),
    d_head: into(impl Into<Option<u64>>),
    slack: plain(f64),
    d_mlp: into(impl Into<Option<u64>>),
    gap: plain(Nats),
    tolerance: plain(f64),
    sampled: plain(bool),
    seed: plain(u64),
    max_memory: plain(u64),
});

/// How the hidden layer and the output were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Solver {
    /// Steps along one direction.
    Sorted,
    /// Random hyperplanes halfway between two contexts.
    Pairs,
    /// Ramps along one direction.
    Ramps,
    /// Small random weights, as in the paper's section 6.
    Sampled,
}

/// The builder's report on the weights it constructed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The method.
    pub solver: Solver,
    /// The seed of the draw that succeeded.
    pub seed: u64,
    /// The number of draws before it.
    pub retries: u64,
    /// The slope of the neurons, if it was searched for.
    pub gain: Option<f64>,
    /// The largest difference between a logit and its target, through the public forward pass.
    pub max_logit_error: f64,
    /// The smallest distance between two contexts along the direction, divided by the range, if there is a direction.
    pub relative_gap: Option<f64>,
    /// An estimate of the condition number (1-norm) of the features, if a system was solved.
    pub condition: Option<f64>,
    /// The number of neurons per context.
    pub neurons_per_context: f64,
    /// The fraction of nonzero entries in the output matrix.
    pub output_density: f64,
    /// The smallest probability of a token.
    pub eps: f64,
}

/// Constructs a model that memorizes the dataset.
pub fn build(dataset: &Dataset, settings: &Settings, observer: &dyn Observer) -> Result<(Model, Report)> {
    check_tolerance(settings.tolerance)?;
    let config = config(dataset, settings)?;
    let targets = Targets::new(dataset, settings.gap)?;
    let saturates = sorted::Step::of(settings.activation).is_some() && !settings.sampled;
    if !saturates {
        hyperplanes::check_memory(&config, dataset, settings)?;
    }
    let mut best: Option<Attempt> = None;
    let mut refusal = None;
    for retry in 0..DRAWS {
        let seed = settings.seed.wrapping_add(retry);
        observer.report(Stage::Solving, 0, (!saturates).then_some(dataset.len() as u64))?;
        let draw = Draw::new(config, dataset, &targets, seed, observer)?;
        let found = match (settings.sampled, saturates) {
            (true, _) => sampled::solve(&draw),
            (_, true) => sorted::solve(&draw),
            _ => hyperplanes::solve(&draw, settings.tolerance),
        };
        match found {
            Ok(attempt) if attempt.error <= settings.tolerance => {
                return attempt.finish(&draw, retry);
            }
            Ok(attempt) => {
                if best.as_ref().is_none_or(|b| b.error.is_nan() || attempt.error < b.error) {
                    best = Some(attempt);
                }
            }
            Err(Error::Refused { refusal: reason, .. }) => refusal = Some(reason),
            Err(other) => return Err(other),
        }
        if !saturates && !settings.sampled && ramps::applies(settings.activation) {
            match ramps::solve(&draw) {
                Ok(attempt) if attempt.error <= settings.tolerance => return attempt.finish(&draw, retry),
                _ => {}
            }
        }
        // A system of thousands of contexts takes seconds; if three draws and their gains do not suffice, eight will
        // not.
        if !saturates && retry == 2 {
            break;
        }
    }
    let refusal = match (best, refusal) {
        (Some(best), _) => Refusal::Residual {
            error: best.error,
            tolerance: settings.tolerance,
            advice: match settings.sampled {
                true => {
                    "the sampled features of this many contexts are too nearly dependent: use `method = closed`"
                }
                false => {
                    "try a function that saturates (tanh, logistic, erf), a larger `d_model` or `slack = 0.05`"
                }
            },
        },
        (None, Some(refusal)) => refusal,
        (None, None) => Refusal::Residual { error: f64::NAN, tolerance: settings.tolerance, advice: "" },
    };
    Err(Error::Refused { builder: KEY, refusal })
}

/// The configuration that the settings describe.
fn config(dataset: &Dataset, settings: &Settings) -> Result<Config> {
    let n = dataset.len() as u64;
    if !(0.0..=100.0).contains(&settings.slack) {
        return Err(Error::setting("slack", format!("must be from 0 to 100 (got {})", settings.slack)));
    }
    let neurons = settings.d_mlp.unwrap_or((n as f64 * (1.0 + settings.slack)).ceil() as u64);
    if neurons < n {
        let refusal = Refusal::TooFewNeurons { neurons, contexts: n };
        return Err(Error::Refused { builder: KEY, refusal });
    }
    if settings.d_model == 0 {
        return Err(Error::setting("d_model", "must be at least 1 (got 0)"));
    }
    let n_heads = settings.n_heads.unwrap_or(if settings.d_model < 4 { 1 } else { 4 });
    let d_head = settings.d_head.unwrap_or(settings.d_model.div_ceil(n_heads.max(1)));
    let shape = Shape {
        d_vocab: dataset.d_vocab(),
        n_ctx: dataset.n_ctx(),
        d_model: settings.d_model,
        n_heads,
        d_head,
        d_mlp: neurons,
        activation: settings.activation,
        mixer: settings.mixer,
        blocks: None,
    }
    .checked()?;
    let preset = match settings.mixer {
        Mixer::Attention => Preset::Madden2024,
        Mixer::Average | Mixer::None => Preset::Average,
    };
    let config = Config { skip: settings.skip, ..preset.config(shape) }.checked()?;
    dataset.fits(&config)?;
    Ok(config)
}

/// A random mixer and its output for the contexts.
pub(crate) struct Draw<'a> {
    observer: &'a dyn Observer,
    dataset: &'a Dataset,
    targets: &'a Targets,
    config: Config,
    seed: u64,
    /// All parameters; those of the hidden layer and the output are 0.
    parameters: Vec<f64>,
    /// `[contexts, d_model]`.
    mixed: Vec<f64>,
}

impl<'a> Draw<'a> {
    fn new(
        config: Config,
        dataset: &'a Dataset,
        targets: &'a Targets,
        seed: u64,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        let parameters = random_mixer::draw(&config, seed);
        let mixed = Evaluator::<f64, _>::forward(config, dataset).rows(ProbePoint::Mixed, &parameters);
        Ok(Self { observer, dataset, targets, config, seed, parameters, mixed })
    }

    fn d(&self) -> usize {
        self.config.shape.d_model as usize
    }

    fn omega(&self) -> usize {
        self.config.shape.d_vocab as usize
    }

    fn neurons(&self) -> usize {
        self.config.shape.d_mlp as usize
    }

    /// The mixer's output for a context.
    fn mixed(&self, context: usize) -> &[f64] {
        &self.mixed[context * self.d()..(context + 1) * self.d()]
    }

    /// Mean and spread of each coordinate over the contexts; the spread of a constant coordinate is 1.
    fn moments(&self) -> Vec<(f64, f64)> {
        let n = self.dataset.len() as f64;
        (0..self.d())
            .map(|j| {
                let values = || (0..self.dataset.len()).map(|i| self.mixed(i)[j]);
                let mean = values().sum::<f64>() / n;
                let spread = (values().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
                (mean, if spread > 0.0 { spread } else { 1.0 })
            })
            .collect()
    }

    /// The parameters with this hidden layer: one direction and one bias per neuron, `[neurons][d_model]`.
    fn with_hidden(&self, neurons: &[(Vec<f64>, f64)]) -> Vec<f64> {
        let mut parameters = self.parameters.clone();
        for tensor in self.config.tensors() {
            let values = &mut parameters[tensor.range.clone()];
            match tensor.name.part() {
                "W_in" => {
                    for (k, (w, _)) in neurons.iter().enumerate() {
                        for (j, w) in w.iter().enumerate() {
                            values[j * self.neurons() + k] = *w;
                        }
                    }
                }
                "b_in" => values.iter_mut().zip(neurons).for_each(|(b, (_, bias))| *b = *bias),
                _ => {}
            }
        }
        parameters
    }

    /// The range of `W_U` among the parameters.
    fn output(&self) -> std::ops::Range<usize> {
        self.config.tensors().into_iter().find(|t| t.name == "W_U").map_or(0..0, |t| t.range)
    }

    /// The largest error of a logit, through the public forward pass.
    fn error(&self, parameters: &[f64]) -> f64 {
        let errors = Evaluator::<f64, _>::forward(self.config, self.dataset).for_each_row(
            ProbePoint::Logits,
            parameters,
            || 0f64,
            |most, context, logits| {
                let error = self.targets.error_of(context, logits);
                if !most.is_nan() && (error.is_nan() || error > *most) {
                    *most = error;
                }
            },
        );
        errors.into_iter().fold(0.0, |m, e| if e.is_nan() || m.is_nan() { f64::NAN } else { m.max(e) })
    }
}

/// Weights with their measured error.
pub(crate) struct Attempt {
    solver: Solver,
    parameters: Vec<f64>,
    error: f64,
    gain: Option<f64>,
    relative_gap: Option<f64>,
    condition: Option<f64>,
}

impl Attempt {
    fn finish(self, draw: &Draw<'_>, retries: u64) -> Result<(Model, Report)> {
        let output = &self.parameters[draw.output()];
        let filled = output.iter().filter(|&&v| v != 0.0).count();
        let report = Report {
            solver: self.solver,
            seed: draw.seed,
            retries,
            gain: self.gain,
            max_logit_error: self.error,
            relative_gap: self.relative_gap,
            condition: self.condition,
            neurons_per_context: draw.neurons() as f64 / draw.dataset.len() as f64,
            output_density: filled as f64 / output.len() as f64,
            eps: draw.targets.eps,
        };
        Ok((Model::new(draw.config, self.parameters)?, report))
    }
}

#[cfg(test)]
mod tests;
