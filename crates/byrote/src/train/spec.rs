//! How to train, and when to stop.

use super::{Limits, Optimizer, Sampling, Schedule, Stall, TrainSettings, Trained};
use crate::model::Precision;
use crate::setting::setters;
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The settings of a training run; anything not given takes the optimizer's default.
///
/// ```
/// use byrote::train::{Optimizer, TrainSpec};
/// let (settings, limits) = TrainSpec::default().optimizer(Optimizer::Adam).lr(1e-4).steps(500).resolve(0)?;
/// assert_eq!((settings.rate, limits.steps, limits.relative_gap), (1e-4, 500, Some(0.01)));
/// assert!(TrainSpec::default().batch(32).resolve(0).is_err(), "L-BFGS has no batches");
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Training"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TrainSpec {
    /// The optimizer; lbfgs begins with a warm-up by Adam
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", default_value_t))]
    pub optimizer: Optimizer,
    /// The rate of adam and adamw [default: 0.001]; the first step length that lbfgs tries along a direction [default: 1]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "RATE"))]
    pub lr: Option<f64>,
    /// How the rate of adam and adamw decreases over the steps
    #[cfg_attr(feature = "clap", arg(long, value_name = "KIND", default_value_t))]
    pub schedule: Schedule,
    /// The final rate of a schedule that decreases [default: 0]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "RATE"))]
    pub last_lr: Option<f64>,
    /// Stop after N steps; 0 writes the initial weights [default: 50000 for adam, 10000 for lbfgs]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    pub steps: Option<u64>,
    /// Weight decay of adamw [default: 0.01]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "W"))]
    pub weight_decay: Option<f64>,
    /// Scale the gradient of adam and adamw down to this norm, per prediction [default: never]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "NORM"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// The decay of the second moments of adam and adamw [default: 0.999]
    #[cfg_attr(feature = "clap", arg(long = "beta-2", allow_negative_numbers = true, value_name = "BETA"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta_2: Option<f64>,
    /// The number of curvature pairs that lbfgs keeps [default: 10]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    pub memory: Option<usize>,
    /// Steps of Adam before lbfgs [default: 200]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    pub warmup: Option<u64>,
    /// The rate of the warm-up [default: 0.01; in a model of blocks 0.32 / d_model between 0.001 and 0.01, or with one batch 0.64 / d_model
    /// between 0.003 and 0.03]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "RATE"))]
    pub warmup_lr: Option<f64>,
    /// Divide the contexts of a model of blocks into N batches for the warm-up, each of which keeps all next tokens of its contexts; 1
    /// uses all contexts at every step [default: 4]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_batches: Option<u64>,
    /// Contexts per step of adam and adamw, or documents for a model of blocks [default: all]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    pub batch: Option<usize>,
    /// How batches are drawn: every context once per epoch, uniformly with replacement, or from a fixed sample of such batches
    #[cfg_attr(feature = "clap", arg(long, value_name = "KIND", default_value_t))]
    pub sampling: Sampling,
    /// The number of batches in the fixed sample; with --schedule linear-epochs, the rate falls after every N steps, however
    /// batches are drawn
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u64>,
    /// The seed that draws the fixed sample; runs with different seeds can share it [default: 0]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "SEED"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_seed: Option<u64>,
    /// Train only this part of the model; the rest keeps its initial weights
    #[cfg_attr(feature = "clap", arg(long, value_name = "PART", default_value_t))]
    pub train_only: Trained,
    /// The arithmetic; lbfgs switches to f64 by itself once f32 finds no lower point
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE", default_value_t))]
    pub precision: Precision,
    /// Stop when the total loss is within this many nats of the floor
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "NATS"))]
    pub stop_gap: Option<f64>,
    /// Stop when the gap is at most R times the floor, or R nats per prediction if the floor is 0 [default: 0.01, unless
    /// another gap is given]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "R"))]
    pub stop_relative_gap: Option<f64>,
    /// Stop after S seconds
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "S"))]
    pub stop_seconds: Option<f64>,
    /// Stop as stalled when the gap decreases by less than this fraction over 500 steps of lbfgs or 1000 of adam; 0 turns this
    /// off
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "F", default_value_t = STALL))]
    pub stall: f64,
}

setters!(TrainSpec {
    optimizer: plain(Optimizer),
    lr: some(f64),
    schedule: plain(Schedule),
    last_lr: some(f64),
    steps: some(u64),
    weight_decay: some(f64),
    clip: some(f64),
    beta_2: some(f64),
    memory: some(usize),
    warmup: some(u64),
    warmup_lr: some(f64),
    warmup_batches: some(u64),
    batch: some(usize),
    sampling: plain(Sampling),
    sample: some(u64),
    sample_seed: some(u64),
    train_only: plain(Trained),
    precision: plain(Precision),
    stop_gap: some(f64),
    stop_relative_gap: some(f64),
    stop_seconds: some(f64),
    stall: plain(f64),
});

/// The default fraction below which progress counts as a stall.
const STALL: f64 = 1e-3;

impl Default for TrainSpec {
    fn default() -> Self {
        Self {
            optimizer: Optimizer::default(),
            lr: None,
            schedule: Schedule::default(),
            last_lr: None,
            steps: None,
            weight_decay: None,
            clip: None,
            beta_2: None,
            memory: None,
            warmup: None,
            warmup_lr: None,
            warmup_batches: None,
            batch: None,
            sampling: Sampling::default(),
            sample: None,
            sample_seed: None,
            train_only: Trained::default(),
            precision: Precision::default(),
            stop_gap: None,
            stop_relative_gap: None,
            stop_seconds: None,
            stall: STALL,
        }
    }
}

impl TrainSpec {
    /// The settings and limits of the trainer; `seed` draws the batches.
    pub fn resolve(&self, seed: u64) -> Result<(TrainSettings, Limits)> {
        let method = self.optimizer;
        for (name, given) in [
            ("memory", self.memory.is_some()),
            ("warmup", self.warmup.is_some()),
            ("warmup_lr", self.warmup_lr.is_some()),
            ("warmup_batches", self.warmup_batches.is_some()),
        ] {
            if given && method != Optimizer::Lbfgs {
                return Err(Error::setting(name, "applies only to `optimizer = lbfgs`"));
            }
        }
        if self.sample_seed.is_some() && self.sampling != Sampling::Sample {
            return Err(Error::setting("sample_seed", "needs `sampling = sample`"));
        }
        let default = TrainSettings::new(method);
        let steps = self.steps.unwrap_or(method.default_steps());
        let settings = TrainSettings {
            rate: self.lr.unwrap_or(default.rate),
            schedule: self.schedule,
            schedule_steps: if self.schedule == Schedule::Constant { 0 } else { steps },
            decay: self.weight_decay.unwrap_or(default.decay),
            beta_2: self.beta_2.unwrap_or(default.beta_2),
            clip: self.clip,
            memory: self.memory.unwrap_or(default.memory),
            warmup: self.warmup.unwrap_or(default.warmup),
            warmup_rate: self.warmup_lr,
            warmup_batches: self.warmup_batches,
            last_rate: self.last_lr.unwrap_or(0.0),
            batch: self.batch,
            sampling: self.sampling,
            sample: (self.sample.unwrap_or(0), self.sample_seed.unwrap_or(0)),
            trained: self.train_only,
            precision: self.precision,
            seed,
            ..default
        };
        let limits = Limits {
            steps,
            seconds: self.stop_seconds,
            gap: self.stop_gap.map(Nats),
            relative_gap: match (self.stop_relative_gap, self.stop_gap) {
                (None, None) => Limits::new(method).relative_gap,
                (given, _) => given,
            },
            stall: (self.stall != 0.0)
                .then(|| Stall { window: method.default_window(), fraction: self.stall }),
            memory: None,
        };
        Ok((settings.checked()?, limits.checked()?))
    }

    /// The same with every default filled in that does not depend on the model; unchanged where the settings are invalid.
    #[must_use]
    pub fn filled(self) -> Self {
        let Ok((settings, limits)) = self.resolve(0) else { return self };
        let lbfgs = self.optimizer == Optimizer::Lbfgs;
        Self {
            lr: Some(settings.rate),
            // A constant rate has no final one.
            last_lr: (settings.schedule != Schedule::Constant).then_some(settings.last_rate),
            steps: Some(limits.steps),
            weight_decay: Some(settings.decay),
            memory: lbfgs.then_some(settings.memory),
            warmup: lbfgs.then_some(settings.warmup),
            stop_relative_gap: limits.relative_gap,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_another_optimizer_is_refused_by_name() {
        let adam = TrainSpec::default().optimizer(Optimizer::Adam);
        for (spec, name) in [
            (adam.memory(5), "memory"),
            (adam.warmup(5), "warmup"),
            (adam.warmup_lr(0.1), "warmup_lr"),
            (adam.warmup_batches(4), "warmup_batches"),
            (TrainSpec::default().warmup_batches(0), "warmup_batches"),
            (TrainSpec::default().batch(5), "batch"),
            (TrainSpec::default().stall(2.0), "stall"),
            (adam.stop_gap(-1.0), "stop_gap"),
            (adam.clip(0.0), "clip"),
            (TrainSpec::default().clip(1.0), "clip"),
            (adam.beta_2(1.0), "beta_2"),
            (adam.batch(5).sampling(Sampling::Sample), "sample"),
            (adam.batch(5).sample(3), "sample"),
            (adam.batch(5).sampling(Sampling::Uniform).schedule(Schedule::Linear).sample(3), "sample"),
            (adam.sampling(Sampling::Sample).sample(3), "sampling"),
            (adam.batch(5).sample_seed(3), "sample_seed"),
            (adam.schedule(Schedule::LinearEpochs), "schedule"),
        ] {
            assert_eq!(spec.resolve(0).unwrap_err().setting_name(), Some(name), "{spec:?}");
        }
    }

    #[test]
    fn filling_in_changes_nothing_that_is_run() {
        for spec in [
            TrainSpec::default(),
            TrainSpec::default().optimizer(Optimizer::AdamW).schedule(Schedule::Cosine),
        ] {
            assert_eq!(spec.filled().resolve(3).unwrap(), spec.resolve(3).unwrap());
        }
    }
}
