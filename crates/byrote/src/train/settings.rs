//! How to train: optimizer, rate and its schedule, and when to stop. The checked form of a
//! [`TrainSpec`](super::TrainSpec).

use crate::model::{Config, Precision, TensorKind, TensorName};
use crate::num::optimize::Stopped;
use crate::setting::choices;
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
use std::ops::Range;

/// How weights are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Optimizer {
    /// Adam, in PyTorch's arithmetic.
    Adam,
    /// Adam with decoupled weight decay.
    AdamW,
    /// L-BFGS with a strong Wolfe line search, after a warm-up by Adam whose second moments become the units of the
    /// weights.
    #[default]
    Lbfgs,
}

choices!(Optimizer, "optimizer" { Lbfgs = "lbfgs", Adam = "adam", AdamW = "adamw" | "adam-w" });

impl Optimizer {
    /// The default rate.
    pub fn default_rate(self) -> f64 {
        match self {
            Optimizer::Adam | Optimizer::AdamW => 1e-3,
            Optimizer::Lbfgs => 1.0,
        }
    }

    /// The default limit of steps.
    pub fn default_steps(self) -> u64 {
        match self {
            Optimizer::Adam | Optimizer::AdamW => 50_000,
            Optimizer::Lbfgs => 10_000,
        }
    }

    /// The number of steps over which progress is judged.
    pub fn default_window(self) -> u64 {
        match self {
            Optimizer::Adam | Optimizer::AdamW => 1000,
            Optimizer::Lbfgs => 500,
        }
    }
}

/// How the rate decreases over the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Not at all.
    #[default]
    Constant,
    /// Linearly to the last rate, which is 0 unless given.
    Linear,
    /// As half a cosine wave, to the last rate.
    Cosine,
    /// Linearly to the last rate from one epoch of batches to the next, and constant within each.
    LinearEpochs,
}

choices!(Schedule, "schedule" {
    Constant = "constant",
    Linear = "linear",
    Cosine = "cosine",
    LinearEpochs = "linear-epochs",
});

impl Schedule {
    /// The factor of the rate at a step, counted from 0, of `steps`.
    pub fn factor(self, step: u64, steps: u64) -> f64 {
        let done = if steps == 0 { 0.0 } else { (step as f64 / steps as f64).min(1.0) };
        match self {
            Schedule::Constant => 1.0,
            Schedule::Linear | Schedule::LinearEpochs => 1.0 - done,
            Schedule::Cosine => 0.5 * (1.0 + (PI * done).cos()),
        }
    }
}

/// How batches are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sampling {
    /// Each epoch visits every context once, in a fresh random order.
    #[default]
    Epochs,
    /// Each batch is drawn uniformly from all contexts, with replacement.
    Uniform,
    /// A sample of contexts is drawn once, uniformly and with replacement; each epoch visits it in a fresh random order.
    Sample,
}

choices!(Sampling, "sampling" { Epochs = "epochs", Uniform = "uniform", Sample = "sample" });

/// Which weights are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trained {
    /// Every weight.
    #[default]
    All,
    /// The hidden layer and the output; embeddings, positions and attention keep their initial values.
    FeedForward,
}

choices!(Trained, "train_only" { All = "all", FeedForward = "feed-forward" });

impl Trained {
    /// Whether tensors of this kind keep their initial values.
    pub fn freezes(self, kind: TensorKind) -> bool {
        match (self, kind) {
            (Trained::All, _) | (Trained::FeedForward, TensorKind::Hidden | TensorKind::Output) => false,
            (Trained::FeedForward, _) => true,
        }
    }

    /// The ranges of the parameters that keep their initial values.
    pub fn frozen(self, config: &Config) -> Vec<Range<usize>> {
        config.tensors().into_iter().filter(|t| self.freezes(t.kind)).map(|t| t.range).collect()
    }
}

/// Everything that determines the trained weights: two runs with equal settings, data and initial weights end with equal
/// weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TrainSettings {
    /// How weights are moved.
    pub method: Optimizer,
    /// The rate of Adam; for L-BFGS the first step length tried along a direction.
    pub rate: f64,
    /// How the rate decreases.
    pub schedule: Schedule,
    /// Steps over which it decreases.
    pub schedule_steps: u64,
    /// The final rate.
    #[serde(default)]
    pub last_rate: f64,
    /// Weight decay of AdamW.
    pub decay: f64,
    /// The decay of Adam's second moments.
    #[serde(default = "beta_2", skip_serializing_if = "is_default_beta_2")]
    pub beta_2: f64,
    /// The largest norm of the gradient of the loss per prediction, for Adam; a larger gradient is scaled down to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// The number of curvature pairs that L-BFGS keeps.
    pub memory: usize,
    /// Steps of Adam before L-BFGS; without any, L-BFGS works in unscaled weights.
    pub warmup: u64,
    /// The rate of those steps; `None` for the one that suits the model ([`default_warmup_rate`]).
    pub warmup_rate: Option<f64>,
    /// The number of batches that those steps visit in turn, 1 for all contexts at every step; `None` for the number that suits the
    /// model ([`default_warmup_batches`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_batches: Option<u64>,
    /// Contexts per step, or documents for models of blocks; `None` for all of them.
    pub batch: Option<usize>,
    /// How they are drawn.
    #[serde(default)]
    pub sampling: Sampling,
    /// The number of batches in a fixed sample, and the seed that draws it; 0 without one. With
    /// [`Schedule::LinearEpochs`] and any sampling, the number is also that of the steps after which the rate falls.
    #[serde(default)]
    pub sample: (u64, u64),
    /// Which weights are trained.
    #[serde(default)]
    pub trained: Trained,
    /// The arithmetic.
    pub precision: Precision,
    /// The seed of the batches.
    pub seed: u64,
}

/// The number of batches in a pass of the warm-up of L-BFGS (`docs/depth.md`).
pub fn default_warmup_batches(config: &Config) -> u64 {
    if config.shape.blocks.is_some() { 4 } else { 1 }
}

/// The rate of the warm-up of L-BFGS: the wider the blocks of a model, the smaller. With all contexts at every step, on 100 stories with
/// two layers, 0.02 instead of 0.01 takes 0.7 times the steps to 1% of the floor at width 32, and 9 times the steps at width 128.
pub fn default_warmup_rate(config: &Config, batches: u64) -> f64 {
    let d_model = config.shape.d_model as f64;
    match (config.shape.blocks, batches) {
        (None, _) => 1e-2,
        (Some(_), 1) => (0.64 / d_model).clamp(3e-3, 3e-2),
        (Some(_), _) => (0.32 / d_model).clamp(1e-3, 1e-2),
    }
}

impl TrainSettings {
    /// An optimizer with defaults for everything else.
    pub fn new(method: Optimizer) -> Self {
        Self {
            method,
            rate: method.default_rate(),
            schedule: Schedule::Constant,
            schedule_steps: 0,
            last_rate: 0.0,
            decay: if method == Optimizer::AdamW { 0.01 } else { 0.0 },
            beta_2: beta_2(),
            clip: None,
            memory: 10,
            warmup: if method == Optimizer::Lbfgs { 200 } else { 0 },
            warmup_rate: None,
            warmup_batches: None,
            batch: None,
            sampling: Sampling::Epochs,
            sample: (0, 0),
            trained: Trained::All,
            precision: Precision::F32,
            seed: 0,
        }
    }

    /// The number of batches in an epoch over this number of contexts.
    pub(super) fn per_epoch(&self, contexts: usize) -> u64 {
        match (self.sampling, self.batch) {
            (Sampling::Sample, _) => self.sample.0,
            (Sampling::Epochs | Sampling::Uniform, Some(size)) => contexts.div_ceil(size) as u64,
            (Sampling::Epochs | Sampling::Uniform, None) => 1,
        }
    }

    /// The rate of the warm-up of a model.
    pub(super) fn warmup_rate_of(&self, config: &Config) -> f64 {
        self.warmup_rate.unwrap_or_else(|| default_warmup_rate(config, self.warmup_batches_of(config)))
    }

    /// The number of batches of the warm-up of a model.
    pub(super) fn warmup_batches_of(&self, config: &Config) -> u64 {
        self.warmup_batches.unwrap_or_else(|| default_warmup_batches(config))
    }

    /// Refuses settings that do not suit a model.
    pub(super) fn check_model(&self, config: &Config) -> Result<()> {
        match self.warmup_batches {
            Some(2..) if config.shape.blocks.is_none() => {
                Err(Error::setting("warmup_batches", "must be 1 for a model that is not made of blocks"))
            }
            _ => Ok(()),
        }
    }

    /// The rate of a step of Adam, counted from 0, where an epoch visits this number of contexts; not of a warm-up.
    pub(super) fn rate_of(&self, step: u64, contexts: usize) -> f64 {
        let step = match (self.schedule, self.sample.0) {
            (Schedule::LinearEpochs, 0) => step - step % self.per_epoch(contexts),
            (Schedule::LinearEpochs, batches) => step - step % batches,
            _ => step,
        };
        self.last_rate + (self.rate - self.last_rate) * self.schedule.factor(step, self.schedule_steps)
    }

    /// These settings if they are valid, or an error that names the one that is not.
    pub fn checked(self) -> Result<Self> {
        positive("lr", self.rate)?;
        self.warmup_rate.map_or(Ok(()), |rate| positive("warmup_lr", rate))?;
        if let Some(batches @ (0 | 1001..)) = self.warmup_batches {
            let message = format!("must be from 1 to 1000 (got {batches})");
            return Err(Error::setting("warmup_batches", message));
        }
        if self.warmup > 0 && self.method != Optimizer::Lbfgs {
            return Err(Error::setting("warmup", "applies only to `optimizer = lbfgs`"));
        }
        if !(self.decay >= 0.0 && self.decay.is_finite()) {
            let message = format!("must be finite and at least 0 (got {})", self.decay);
            return Err(Error::setting("weight_decay", message));
        }
        if self.decay > 0.0 && self.method != Optimizer::AdamW {
            return Err(Error::setting("weight_decay", "applies only to `optimizer = adamw`"));
        }
        self.check_moments()?;
        let lbfgs = self.method == Optimizer::Lbfgs;
        if lbfgs && self.batch.is_some() {
            return Err(Error::setting(
                "batch",
                "L-BFGS uses every context at every step; batches need `optimizer = adam`",
            ));
        }
        if lbfgs && self.schedule != Schedule::Constant {
            return Err(Error::setting(
                "schedule",
                "L-BFGS chooses its own step lengths; schedules need `optimizer = adam`",
            ));
        }
        if lbfgs && !(1..=1000).contains(&self.memory) {
            return Err(Error::setting("memory", format!("must be from 1 to 1000 (got {})", self.memory)));
        }
        if !(self.last_rate >= 0.0 && self.last_rate <= self.rate) {
            return Err(Error::setting(
                "last_lr",
                format!("must be from 0 to `lr` (got {})", self.last_rate),
            ));
        }
        if self.last_rate > 0.0 && self.schedule == Schedule::Constant {
            return Err(Error::setting(
                "last_lr",
                "needs a decreasing rate: `schedule = linear` or `schedule = cosine`",
            ));
        }
        if self.sampling != Sampling::Epochs && self.batch.is_none() {
            return Err(Error::setting("sampling", format!("{} draws batches; set `batch`", self.sampling)));
        }
        if self.schedule == Schedule::LinearEpochs && self.batch.is_none() {
            return Err(Error::setting("schedule", "an epoch has batches; set `batch`"));
        }
        match (self.sampling == Sampling::Sample, self.sample.0) {
            (true, 0) => return Err(Error::setting("sample", "must be at least 1 with `sampling = sample`")),
            (true, n) if n.saturating_mul(self.batch.unwrap_or(1) as u64) > MAX_SAMPLE => {
                let message = format!("must be at most {MAX_SAMPLE} contexts (got {n} batches)");
                return Err(Error::setting("sample", message));
            }
            (false, 1..) if self.schedule != Schedule::LinearEpochs => {
                let message = "needs `sampling = sample` or `schedule = linear-epochs`";
                return Err(Error::setting("sample", message));
            }
            _ => {}
        }
        if self.trained != Trained::All && self.decay > 0.0 {
            return Err(Error::setting("weight_decay", "would move weights that are not trained"));
        }
        if self.batch == Some(0) {
            return Err(Error::setting("batch", "must be at least 1 (got 0)"));
        }
        Ok(self)
    }

    /// Checks what only Adam has.
    fn check_moments(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.beta_2) {
            let message = format!("must be at least 0 and below 1 (got {})", self.beta_2);
            return Err(Error::setting("beta_2", message));
        }
        match self.clip {
            Some(_) if self.method == Optimizer::Lbfgs => {
                Err(Error::setting("clip", "applies only to `optimizer = adam` and `optimizer = adamw`"))
            }
            Some(clip) => positive("clip", clip),
            None => Ok(()),
        }
    }
}

/// Refuses a setting that must be above 0.
fn positive(name: &'static str, x: f64) -> Result<()> {
    match x > 0.0 && x.is_finite() {
        true => Ok(()),
        false => Err(Error::setting(name, format!("must be finite and above 0 (got {x})"))),
    }
}

// Files of runs without the later settings stay as they are.
fn beta_2() -> f64 {
    0.999
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The signature that serde calls.
fn is_default_beta_2(given: &f64) -> bool {
    *given == beta_2()
}

crate::setting::setters!(TrainSettings {
    rate: plain(f64),
    beta_2: plain(f64),
    clip: into(impl Into<Option<f64>>),
    schedule: plain(Schedule),
    schedule_steps: plain(u64),
    last_rate: plain(f64),
    decay: plain(f64),
    memory: plain(usize),
    warmup: plain(u64),
    warmup_rate: some(f64),
    warmup_batches: some(u64),
    batch: into(impl Into<Option<usize>>),
    sampling: plain(Sampling),
    sample: plain((u64, u64)),
    trained: plain(Trained),
    precision: plain(Precision),
    seed: plain(u64),
});

/// The most contexts in a fixed sample.
const MAX_SAMPLE: u64 = 1 << 28;

/// When to stop. None of this changes the weights before that point.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The total number of steps.
    pub steps: u64,
    /// The total time in seconds.
    pub seconds: Option<f64>,
    /// Stop at this gap to the floor.
    pub gap: Option<Nats>,
    /// Stop at this gap relative to the floor; where the floor is 0, in nats per prediction.
    pub relative_gap: Option<f64>,
    /// Stop when the gap decreases by less than a fraction over a window of steps.
    pub stall: Option<Stall>,
    /// Bytes that the activations of a model of blocks may take; above that, blocks are computed again on the way back.
    pub memory: Option<u64>,
}

/// What counts as a stall.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Stall {
    /// Steps over which the gap is compared.
    pub window: u64,
    /// The gap must decrease by this fraction.
    pub fraction: f64,
}

impl Stall {
    /// The gap must decrease by a fraction over a window of steps.
    pub fn new(window: u64, fraction: f64) -> Self {
        Self { window, fraction }
    }
}

impl Limits {
    /// The default limits of an optimizer: 1% of the floor.
    pub fn new(method: Optimizer) -> Self {
        Self {
            steps: method.default_steps(),
            seconds: None,
            gap: None,
            relative_gap: Some(0.01),
            stall: Some(Stall { window: method.default_window(), fraction: 1e-3 }),
            memory: None,
        }
    }

    /// These limits if they are valid, or an error that names the one that is not.
    pub fn checked(self) -> Result<Self> {
        let from_zero = |name, x: Option<f64>| match x {
            Some(x) if !(x >= 0.0 && x.is_finite()) => {
                Err(Error::setting(name, format!("must be finite and at least 0 (got {x})")))
            }
            _ => Ok(()),
        };
        from_zero("stop_gap", self.gap.map(|g| g.0))?;
        from_zero("stop_relative_gap", self.relative_gap)?;
        from_zero("stop_seconds", self.seconds)?;
        if let Some(stall) = self.stall
            && !(stall.fraction > 0.0 && stall.fraction < 1.0 && stall.window > 0)
        {
            return Err(Error::setting("stall", format!("must be between 0 and 1 (got {})", stall.fraction)));
        }
        Ok(self)
    }

    /// The gap to stop at, in nats; `None` if there is no such limit.
    pub fn target(&self, floor: Nats, predictions: f64) -> Option<f64> {
        let relative = self.relative_gap.map(|r| r * if floor.0 > 0.0 { floor.0 } else { predictions });
        match (self.gap.map(|g| g.0), relative) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        }
    }
}

crate::setting::setters!(Limits {
    steps: plain(u64),
    seconds: into(impl Into<Option<f64>>),
    gap: into(impl Into<Option<Nats>>),
    relative_gap: plain(Option<f64>),
    stall: plain(Option<Stall>),
    memory: plain(Option<u64>),
});

/// Why training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "stop", rename_all = "kebab-case")]
pub enum Stop {
    /// The target gap is reached.
    Reached,
    /// The step limit is reached.
    Steps,
    /// The time limit is reached.
    Time,
    /// The gap no longer decreases: by the rule of [`Stall`], or because no lower point is found in this arithmetic.
    Stalled {
        /// The last step at which it did.
        since: u64,
    },
    /// A number is no longer finite. The weights are those of the last step where all were finite.
    Diverged {
        /// The step at which it was seen.
        step: u64,
        /// The first tensor with such a weight or derivative; `loss` if only the loss is affected.
        tensor: TensorName,
    },
    /// The observer asked to stop.
    Interrupted,
}

/// Why training ended, without the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// [`Stop::Reached`].
    Reached,
    /// [`Stop::Steps`].
    Steps,
    /// [`Stop::Time`].
    Time,
    /// [`Stop::Stalled`].
    Stalled,
    /// [`Stop::Diverged`].
    Diverged,
    /// [`Stop::Interrupted`].
    Interrupted,
}

choices!(StopKind, "stop" {
    Reached = "reached",
    Steps = "steps",
    Time = "time",
    Stalled = "stalled",
    Diverged = "diverged",
    Interrupted = "interrupted",
});

impl From<Stopped> for Stop {
    fn from(_: Stopped) -> Self {
        Stop::Interrupted
    }
}

impl Stop {
    /// The reason without its details.
    pub fn kind(self) -> StopKind {
        match self {
            Stop::Reached => StopKind::Reached,
            Stop::Steps => StopKind::Steps,
            Stop::Time => StopKind::Time,
            Stop::Stalled { .. } => StopKind::Stalled,
            Stop::Diverged { .. } => StopKind::Diverged,
            Stop::Interrupted => StopKind::Interrupted,
        }
    }

    /// A stable name for programs.
    pub fn name(self) -> &'static str {
        self.kind().name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_begin_at_one_and_end_at_zero() {
        for schedule in [Schedule::Linear, Schedule::Cosine] {
            assert_eq!(schedule.factor(0, 10), 1.0);
            assert!((schedule.factor(5, 10) - 0.5).abs() < 1e-15);
            assert!(schedule.factor(10, 10).abs() < 1e-15);
        }
        assert_eq!(Schedule::Constant.factor(7, 10), 1.0);
        assert_eq!(Schedule::Linear.factor(0, 0), 1.0);
    }

    #[test]
    fn the_rate_falls_after_the_same_steps_however_batches_are_drawn() {
        let one = |sampling, batches| {
            let settings = TrainSettings {
                rate: 1e-2,
                last_rate: 5e-4,
                schedule: Schedule::LinearEpochs,
                schedule_steps: 4096,
                batch: Some(256),
                sampling,
                sample: (batches, 0),
                ..TrainSettings::new(Optimizer::Adam)
            };
            settings.checked().unwrap()
        };
        // Ten batches visit 2500 contexts; the sample has 64.
        let staircase = |settings: TrainSettings| -> Vec<f64> {
            (0..4096).map(|step| settings.rate_of(step, 2500)).collect()
        };
        let expect = staircase(one(Sampling::Sample, 64));
        let steps: Vec<usize> = (1..4096).filter(|&i| expect[i] < expect[i - 1]).collect();
        assert_eq!(steps, (1..64).map(|epoch| 64 * epoch).collect::<Vec<usize>>());
        for sampling in [Sampling::Uniform, Sampling::Epochs] {
            assert_eq!(staircase(one(sampling, 64)), expect, "{sampling}");
            assert_eq!(one(sampling, 64).per_epoch(2500), 10);
            // Without the setting, an epoch is a pass over the contexts.
            let own = staircase(one(sampling, 0));
            assert!(own[9] == own[0] && own[10] < own[9] && own[19] == own[10], "{sampling}");
        }
    }

    #[test]
    fn a_relative_gap_of_a_floor_of_zero_is_in_nats_per_prediction() {
        let limits = Limits { relative_gap: Some(0.01), ..Limits::new(Optimizer::Adam) };
        assert_eq!(limits.target(Nats(200.0), 50.0), Some(2.0));
        assert_eq!(limits.target(Nats(0.0), 50.0), Some(0.5));
        assert_eq!(Limits { gap: Some(Nats(3.0)), ..limits }.target(Nats(200.0), 50.0), Some(3.0));
        assert_eq!(Limits { relative_gap: None, ..limits }.target(Nats(200.0), 50.0), None);
    }

    #[test]
    fn invalid_settings_are_refused() {
        let adam = TrainSettings::new(Optimizer::Adam);
        let lbfgs = TrainSettings::new(Optimizer::Lbfgs);
        for wrong in [
            TrainSettings { rate: 0.0, ..adam },
            TrainSettings { rate: f64::NAN, ..adam },
            TrainSettings { decay: 0.1, ..adam },
            TrainSettings { batch: Some(0), ..adam },
            TrainSettings { batch: Some(5), ..lbfgs },
            TrainSettings { schedule: Schedule::Cosine, ..lbfgs },
            TrainSettings { memory: 0, ..lbfgs },
            TrainSettings { last_rate: 1e-4, ..adam },
            TrainSettings { last_rate: 1.0, schedule: Schedule::Linear, ..adam },
            TrainSettings { sampling: Sampling::Uniform, ..adam },
            TrainSettings { trained: Trained::FeedForward, ..TrainSettings::new(Optimizer::AdamW) },
        ] {
            assert!(wrong.checked().is_err(), "{wrong:?}");
        }
        assert!(adam.checked().is_ok() && lbfgs.checked().is_ok());
        assert!(Limits { gap: Some(Nats(-1.0)), ..Limits::new(Optimizer::Adam) }.checked().is_err());
    }
}
