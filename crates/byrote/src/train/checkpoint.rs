//! Checkpoints: everything a run needs to continue as if it had never stopped.
//!
//! A checkpoint is a safetensors file. Its metadata key `byrote-checkpoint` holds JSON: the format, the configuration,
//! the settings, a fingerprint of the dataset and the step. The tensors are the weights (`parameters`), the optimizer's
//! memory (`first` and `second`, in a warm-up with batches also `iterate`, or `units`, `position`, and `s` and `y` with one row per pair, oldest first), the
//! curve, and `progress` (numbers that must be restored bit for bit). Random streams are addressed by seed and step, so
//! they need not be stored. The reader checks everything it reads.

use super::loss_curve::CurvePoint;
use super::settings::{Optimizer, TrainSettings};
use super::state::{OptimizerMemory, RECENT};
use super::trainer::{TrainProgress, Trainer};
use crate::dataset::Dataset;
use crate::model::container::{self, Stored};
use crate::model::{Config, Model, Precision};
use crate::num::hash::Fnv;
use crate::observe::{Detail, Observer, Progress as Report, Stage};
use crate::output::OutputFile;
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

const KEY: &str = "byrote-checkpoint";
const FORMAT: u32 = 1;

/// A run at one of its steps.
///
/// ```
/// use byrote::dataset::Dataset;
/// use byrote::model::{Model, Preset, Shape};
/// use byrote::observe::Silent;
/// use byrote::train::{Checkpoint, Limits, Optimizer, TrainSettings, Trainer};
/// use std::{path::Path, sync::Arc};
///
/// let dataset = Arc::new(Dataset::new(2, 1, [(vec![0], vec![(1, 1.0)]), (vec![1], vec![(0, 1.0)])])?);
/// let model = Model::random(Preset::Madden2024.config(Shape { d_vocab: 2, d_mlp: 4, ..Shape::default() }), 0)?;
/// let settings = TrainSettings::new(Optimizer::Adam);
/// let limits = Limits::new(Optimizer::Adam).relative_gap(None).stall(None);
/// let mut trainer = Trainer::new(&model, &dataset, settings, limits.steps(10), &Silent)?;
/// trainer.run(&Silent)?;
///
/// // Ten steps, a file, and ten more steps are twenty steps, to the last bit.
/// let file = trainer.checkpoint().to_bytes()?;
/// let checkpoint = Checkpoint::from_bytes(Path::new("run.safetensors"), &file)?;
/// let mut resumed = Trainer::resume(checkpoint, &model, &dataset, settings, limits.steps(20), &Silent)?;
/// let mut whole = Trainer::new(&model, &dataset, settings, limits.steps(20), &Silent)?;
/// resumed.run(&Silent)?;
/// whole.run(&Silent)?;
/// assert_eq!(resumed.model()?.parameters(), whole.model()?.parameters());
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Identifies the run.
    pub identity: Identity,
    /// The progress so far.
    pub progress: TrainProgress,
    /// The seconds spent so far.
    pub seconds: f64,
    /// The arithmetic in use.
    pub arithmetic: Precision,
    /// The weights.
    pub parameters: Vec<f64>,
    /// The optimizer's memory.
    pub memory: OptimizerMemory,
    /// The losses recorded so far.
    pub curve: Vec<CurvePoint>,
    /// Whether the run ended here by itself. It can still be resumed, for example with more steps.
    pub finished: bool,
}

/// The default number of seconds between checkpoints.
pub const CHECKPOINT_EVERY: f64 = 30.0;

/// Refuses a number of seconds between checkpoints that is none.
pub(crate) fn check_interval(seconds: f64) -> Result<()> {
    match seconds >= 0.0 {
        true => Ok(()),
        false => {
            Err(Error::setting("checkpoint_every", format!("must be at least 0 seconds (got {seconds})")))
        }
    }
}

/// Saves checkpoints of a run at intervals, for [`Trainer::run_with`].
#[derive(Debug)]
pub struct Saver<'a> {
    path: &'a Path,
    every: Duration,
    saved: Instant,
}

impl<'a> Saver<'a> {
    /// Saves to `path` at this interval in seconds, starting now.
    pub fn new(path: &'a Path, seconds: f64) -> Self {
        let every = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Self { path, every, saved: Instant::now() }
    }

    /// Saves if the interval has passed. Failing to write a checkpoint is only a warning: the previous file remains,
    /// and the next attempt may succeed.
    pub fn look(&mut self, trainer: &Trainer, observer: &dyn Observer) {
        let step = trainer.progress().step;
        if self.saved.elapsed() < self.every || step == 0 {
            return;
        }
        if let Err(error) = trainer.checkpoint().save(self.path) {
            let text = format!("could not save a checkpoint at step {step}: {error}; training continues");
            observer.progress(&Report::new(Stage::Training, step, None).with(Detail::Warning(&text)));
        }
        self.saved = Instant::now();
    }
}

/// Identifies a run: two runs with equal identities take the same steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The model.
    pub config: Config,
    /// How it is trained.
    pub settings: TrainSettings,
    /// The fingerprint of the dataset.
    #[serde(rename = "problem")]
    pub dataset: u64,
    /// A hash of the initial weights.
    pub start: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    format: u32,
    identity: Identity,
    step: u64,
    evaluations: u64,
    measured: u64,
    mark: u64,
    arithmetic: Precision,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
}

impl Identity {
    /// The identity of a run that starts from a model's weights.
    pub fn new(model: &Model, dataset: &Dataset, settings: TrainSettings) -> Self {
        let mut start = Fnv::new();
        model.parameters().iter().for_each(|x| start.write(&x.to_bits().to_le_bytes()));
        Self { config: *model.config(), settings, dataset: dataset.fingerprint(), start: start.finish() }
    }

    /// Returns an error that names the first difference, if there is one.
    pub fn agrees(&self, other: &Identity) -> Result<()> {
        match self.difference(other) {
            None => Ok(()),
            Some(what) => {
                let message = format!(
                    "the checkpoint belongs to a run with {what}; use its settings, or choose another `out`"
                );
                Err(Error::setting("resume", message))
            }
        }
    }

    /// Describes the first difference.
    pub(crate) fn difference(&self, other: &Identity) -> Option<&'static str> {
        let TrainSettings { method, rate, schedule, schedule_steps, decay, memory, .. } = self.settings;
        let TrainSettings { warmup, batch, precision, seed, last_rate, trained, .. } = self.settings;
        let TrainSettings { sampling, sample, .. } = self.settings;
        let o = &other.settings;
        let warmup_rate = |of: &Identity| of.settings.warmup_rate_of(&of.config);
        let warmup_batches = |of: &Identity| of.settings.warmup_batches_of(&of.config);
        let checks = [
            (self.dataset == other.dataset, "another corpus"),
            (self.config == other.config, "another model"),
            (method == o.method, "another optimizer"),
            (rate == o.rate, "a different rate (`lr`)"),
            (schedule == o.schedule, "another `schedule`"),
            (
                schedule_steps == o.schedule_steps,
                "a different number of `steps`, over which the rate decreases",
            ),
            (last_rate == o.last_rate, "another `last_lr`"),
            (sampling == o.sampling, "another `sampling`"),
            (sample == o.sample, "another `sample`"),
            (trained == o.trained, "a different part of the model (`train_only`)"),
            (decay == o.decay, "another `weight_decay`"),
            (memory == o.memory, "another `memory`"),
            (warmup == o.warmup && warmup_rate(self) == warmup_rate(other), "another `warmup`"),
            (warmup_batches(self) == warmup_batches(other), "another `warmup_batches`"),
            (batch == o.batch, "another `batch`"),
            (precision == o.precision, "another `precision`"),
            (seed == o.seed, "another `seed`"),
            (self.start == other.start, "different initial weights"),
        ];
        checks.into_iter().find(|c| !c.0).map(|c| c.1)
    }
}

impl Checkpoint {
    /// Returns the bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let TrainProgress { step, evaluations, measured, mark, lowest } = self.progress;
        let metadata = Metadata {
            format: FORMAT,
            identity: self.identity,
            step,
            evaluations,
            measured: measured.0,
            mark: mark.0,
            arithmetic: self.arithmetic,
            finished: self.finished,
        };
        let precision = self.arithmetic;
        let n = self.parameters.len();
        let mut stored = vec![Stored::new("parameters", vec![n], precision, &self.parameters)];
        let mut vector = |name, values: &[f64]| stored.push(Stored::new(name, vec![n], precision, values));
        match &self.memory {
            OptimizerMemory::Moments { first, second, recent } => {
                vector("first", first);
                vector("second", second);
                if !recent.is_empty() {
                    stored.push(Stored::new("recent", vec![recent.len()], Precision::F64, recent));
                }
            }
            OptimizerMemory::Averaged { first, second, iterate } => {
                vector("first", first);
                vector("second", second);
                vector("iterate", iterate);
            }
            OptimizerMemory::Curvature { units, position, pairs } => {
                vector("units", units);
                vector("position", position);
                let (s, y): (Vec<&[f64]>, Vec<&[f64]>) = pairs.iter().map(|(s, y)| (&s[..], &y[..])).unzip();
                let shape = || vec![pairs.len(), n];
                stored.push(Stored::new("s", shape(), precision, &s.concat()));
                stored.push(Stored::new("y", shape(), precision, &y.concat()));
            }
        }
        let exact = Precision::F64;
        let numbers = [self.seconds, measured.1, mark.1, lowest];
        stored.push(Stored::new("progress", vec![numbers.len()], exact, &numbers));
        let curve: Vec<f64> =
            self.curve.iter().flat_map(|r| [r.step as f64, r.evaluations as f64, r.loss.0]).collect();
        stored.push(Stored::new("curve", vec![self.curve.len(), 3], exact, &curve));
        container::write(KEY, &metadata, &stored)
    }

    /// Writes the file; the previous one remains until the new one is complete.
    pub fn save(&self, path: &Path) -> Result<()> {
        OutputFile::write(path, &self.to_bytes()?)
    }

    /// Reads a checkpoint from a file.
    pub fn load(path: &Path) -> Result<Self> {
        container::load(path, Self::parse)
    }

    /// Reads a checkpoint from bytes; `path` is the name used in messages.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        container::parse(path, bytes, Self::parse)
    }

    /// Reads a checkpoint from bytes; the error message says what is wrong with them.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let (metadata, file) = container::read::<Metadata>(bytes, KEY, "a checkpoint", FORMAT)?;
        let Identity { config, settings, .. } = metadata.identity;
        config.checked().map_err(|e| format!("invalid configuration: {e}"))?;
        let n = config.n_parameters();
        let read = |name: &str, precision: Precision, columns: Option<usize>| -> Result<Vec<f64>, String> {
            let view = file.tensor(name).map_err(|_| format!("{name} is missing"))?;
            let fits = match (columns, view.shape()) {
                (None, [_]) => true,
                (Some(c), [_, found]) => c == *found,
                _ => false,
            };
            if !fits || view.dtype() != precision.dtype() {
                return Err(format!("{name} has shape {:?} and type {:?}", view.shape(), view.dtype()));
            }
            let values = precision.values(view.data());
            match values.iter().all(|x| x.is_finite()) {
                true => Ok(values),
                false => Err(format!("{name} holds a number that is not finite")),
            }
        };
        let arithmetic = metadata.arithmetic;
        let vector = |name: &str| match read(name, arithmetic, None)? {
            v if v.len() == n => Ok(v),
            v => Err(format!("{name} has {} numbers, but the configuration has {n}", v.len())),
        };
        let has = |name: &str| settings.method == Optimizer::Lbfgs && file.tensor(name).is_ok();
        let memory = match has("units") {
            false if has("iterate") => OptimizerMemory::Averaged {
                first: vector("first")?,
                second: vector("second")?,
                iterate: vector("iterate")?,
            },
            false => {
                let recent = match file.tensor("recent") {
                    Ok(_) => read("recent", Precision::F64, None)?,
                    Err(_) => Vec::new(),
                };
                if recent.len() > RECENT {
                    return Err(format!("{} batches are remembered, at most {RECENT}", recent.len()));
                }
                OptimizerMemory::Moments { first: vector("first")?, second: vector("second")?, recent }
            }
            true => {
                let rows = |name| {
                    let values = read(name, arithmetic, Some(n))?;
                    Ok::<_, String>(values.chunks_exact(n).map(<[f64]>::to_vec).collect::<Vec<_>>())
                };
                let (s, y) = (rows("s")?, rows("y")?);
                if s.len() != y.len() || s.len() > settings.memory {
                    return Err(format!(
                        "{} and {} curvature pairs, at most {}",
                        s.len(),
                        y.len(),
                        settings.memory
                    ));
                }
                let pairs = s.into_iter().zip(y).collect();
                OptimizerMemory::Curvature { units: vector("units")?, position: vector("position")?, pairs }
            }
        };
        let numbers = read("progress", Precision::F64, None)?;
        let [seconds, loss, marked, lowest] =
            numbers[..].try_into().map_err(|_| format!("progress has {} numbers, not 4", numbers.len()))?;
        let curve = read("curve", Precision::F64, Some(3))?;
        Ok(Self {
            identity: metadata.identity,
            progress: TrainProgress {
                step: metadata.step,
                evaluations: metadata.evaluations,
                measured: (metadata.measured, loss),
                mark: (metadata.mark, marked),
                lowest,
            },
            seconds,
            arithmetic,
            parameters: vector("parameters")?,
            memory,
            curve: curve.as_chunks::<3>().0.iter().map(curve_point).collect(),
            finished: metadata.finished,
        })
    }
}

/// A row of the tensor `curve`.
fn curve_point(&[step, evaluations, loss]: &[f64; 3]) -> CurvePoint {
    CurvePoint { step: step as u64, evaluations: evaluations as u64, loss: Nats(loss) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Preset, Shape};
    use proptest::prelude::*;

    fn example(method: Optimizer) -> Checkpoint {
        let shape =
            Shape { d_vocab: 3, n_ctx: 2, d_model: 2, n_heads: 1, d_head: 2, d_mlp: 2, ..Shape::default() };
        let config = Preset::Madden2024.config(shape);
        let n = config.n_parameters();
        let vector = |k: u32| (0..n).map(|i| f64::from(i as u32 + k)).collect::<Vec<_>>();
        let memory = match method {
            Optimizer::Lbfgs => OptimizerMemory::Curvature {
                units: vector(8),
                position: vector(9),
                pairs: vec![(vector(1), vector(2)), (vector(3), vector(4))],
            },
            _ => OptimizerMemory::Moments { first: vector(5), second: vector(6), recent: vec![0.5, 1.0] },
        };
        Checkpoint {
            identity: Identity {
                config,
                settings: TrainSettings::new(method),
                dataset: u64::MAX - 5,
                start: 3,
            },
            progress: TrainProgress {
                step: 7,
                evaluations: 9,
                measured: (7, 0.1 + 0.2),
                mark: (5, 1.0 / 3.0),
                lowest: 0.25,
            },
            seconds: 1.5,
            arithmetic: Precision::F32,
            parameters: vector(0),
            memory,
            curve: vec![CurvePoint { step: 7, evaluations: 9, loss: Nats(0.1 + 0.2) }],
            finished: method == Optimizer::AdamW,
        }
    }

    #[test]
    fn the_fingerprint_of_the_dataset_keeps_its_name_on_disk() {
        let written = serde_json::to_value(example(Optimizer::Adam).identity).unwrap();
        assert_eq!(written["problem"], u64::MAX - 5);
        assert!(written.get("dataset").is_none());
    }

    #[test]
    fn what_is_saved_is_loaded() {
        for method in [Optimizer::Adam, Optimizer::AdamW, Optimizer::Lbfgs] {
            let checkpoint = example(method);
            assert_eq!(Checkpoint::parse(&checkpoint.to_bytes().unwrap()).unwrap(), checkpoint);
        }
        let v = example(Optimizer::Adam).parameters;
        let none = OptimizerMemory::Curvature { units: v.clone(), position: v, pairs: Vec::new() };
        for memory in [none, example(Optimizer::Adam).memory] {
            let other = Checkpoint { memory, ..example(Optimizer::Lbfgs) };
            assert_eq!(Checkpoint::parse(&other.to_bytes().unwrap()).unwrap(), other);
        }
    }

    #[test]
    fn lies_are_found_out() {
        let good = example(Optimizer::Lbfgs);
        let wrong = |c: &Checkpoint| Checkpoint::parse(&c.to_bytes().unwrap()).unwrap_err();
        let three = vec![1.0; 3];
        let short =
            OptimizerMemory::Curvature { units: three.clone(), position: three.clone(), pairs: Vec::new() };
        let short = Checkpoint { parameters: three, memory: short, ..good.clone() };
        assert!(wrong(&short).contains("3"), "{}", wrong(&short));
        let nan = Checkpoint { seconds: f64::NAN, ..good.clone() };
        assert!(wrong(&nan).contains("not finite"));
        let other = Checkpoint { memory: good.memory.clone(), ..example(Optimizer::Adam) };
        assert!(wrong(&other).contains("first is missing"));
        let bytes = good.to_bytes().unwrap();
        assert!(Checkpoint::parse(&bytes[..bytes.len() - 1]).unwrap_err().contains("damaged"));
        assert!(Checkpoint::parse(b"").unwrap_err().contains("not a safetensors file"));
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_refused_or_read_but_never_panics(
            at in prop::collection::vec((0usize..4096, any::<u8>()), 1..4), cut in prop::option::of(0usize..4096)
        ) {
            let mut bytes = example(Optimizer::Lbfgs).to_bytes().unwrap();
            for (at, to) in at {
                let n = bytes.len();
                bytes[at % n] = to;
            }
            if let Some(cut) = cut {
                let n = bytes.len();
                bytes.truncate(cut % n);
            }
            if let Ok(found) = Checkpoint::parse(&bytes) {
                prop_assert!(found.parameters.iter().all(|x| x.is_finite()));
            }
        }
    }
}
