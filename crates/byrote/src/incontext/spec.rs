//! Describes sequences, and the transformer that learns them in context.

use super::construct::SHARPNESS;
use super::experiment::of_sequence;
use super::flow::check_time;
use super::{Attention, Kernel, Map, PredictionMethod, Sequence, SequenceTask, Step, Until, sequence_file};
use crate::observe::{Counter, Observer, Stage};
use crate::setting::{Span, choices, setters};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A family of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskKind {
    /// x_{t+1} = W x_t.
    #[default]
    Linear,
    /// x_{t+p} = x_t.
    Periodic,
    /// x_{t+1} in the direction of A x_t + tanh(B x_t).
    Nonlinear,
}

choices!(TaskKind, "task" { Linear = "linear", Periodic = "periodic", Nonlinear = "nonlinear" });

/// The matrix of linear sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapKind {
    /// Uniform on the orthogonal group.
    #[default]
    Orthogonal,
    /// Plane rotations along the diagonal.
    Rotations,
    /// An orthogonal matrix times `rho`.
    Contractive,
}

choices!(MapKind, "map" { Orthogonal = "orthogonal", Rotations = "rotations", Contractive = "contractive" });

/// A kernel without its temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// <x, y>.
    Linear,
    /// exp(beta <x, y>).
    Exp,
}

choices!(KernelKind, "kernel" { Linear = "linear", Exp = "exp" });

/// Sequences and the method that predicts them.
///
/// ```
/// use byrote::incontext::{IncontextSpec, TaskKind};
/// let spec = IncontextSpec::default().task(TaskKind::Nonlinear).length(20).count(2);
/// let sequences = spec.read(0, &byrote::observe::Silent)?;
/// assert_eq!((sequences.seen.len(), sequences.seen[0].len(), sequences.seen[0].d()), (2, 20, 4));
/// assert!(spec.layers(0).method().is_err());
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Sequences"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct IncontextSpec {
    /// The family of sequences to generate [default: linear]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TASK"))]
    pub task: Option<TaskKind>,
    /// The matrix of linear sequences [default: orthogonal]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MAP"))]
    pub map: Option<MapKind>,
    /// The factor by which contractive sequences shrink per step [default: 0.99]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "R"))]
    pub rho: Option<f64>,
    /// The period of periodic sequences, drawn uniformly; a number, or A..B with both ends included [default: 20..40]
    #[cfg_attr(feature = "clap", arg(long, value_name = "A..B"))]
    pub period: Option<String>,
    /// Read sequences from a file instead: CSV or .npy with one row per step, or .npy of shape [sequences, steps, d]; may be
    /// given more than once
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "FILE", conflicts_with_all = ["task", "map", "rho", "period", "d", "length", "sequences"])
    )]
    pub file: Vec<PathBuf>,
    /// Scale the vectors of the files to norm 1
    #[cfg_attr(feature = "clap", arg(long, requires = "file"))]
    pub unit_norm: bool,
    /// The dimension of the vectors [default: 15; 4 for nonlinear sequences]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d: Option<usize>,
    /// The number of vectors the transformer sees; one more is drawn as the target of the last prediction [default: 200]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "T"))]
    pub length: Option<usize>,
    /// The number of sequences [default: 5]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "K"))]
    pub sequences: Option<u64>,
    /// The kernel [default: linear for linear sequences, exp otherwise]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KERNEL", help_heading = "Method"))]
    pub kernel: Option<KernelKind>,
    /// The inverse temperature of the exp kernel [default: 1]; try 16 for periodic sequences
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "B", help_heading = "Method")
    )]
    pub beta: Option<f64>,
    /// Divide the kernel by sqrt(k(x, x) k(y, y)), for vectors whose norm is not 1
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Method"))]
    pub normalised: bool,
    /// The attention [default: identity for the linear kernel, softmax for exp]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ATTENTION", help_heading = "Method"))]
    pub attention: Option<Attention>,
    /// Run the transformer with N layers of descent
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            allow_negative_numbers = true,
            value_name = "N",
            conflicts_with_all = ["direct", "recursion"],
            help_heading = "Method"
        )
    )]
    pub layers: Option<u64>,
    /// Compute the limit of infinitely many layers by forward substitution (the default)
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "recursion", help_heading = "Method"))]
    pub direct: bool,
    /// Compute the same limit by the recursion of the linear kernel, which is fast for long sequences
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Method"))]
    pub recursion: bool,
    /// Stop adding layers once the residual is at most this
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            allow_negative_numbers = true,
            value_name = "R",
            requires = "layers",
            help_heading = "Method"
        )
    )]
    pub tol: Option<f64>,
    /// The step size: a number, universal, spectral or exact [default: universal, which is 1/(T max k(x, x)), or 1 for
    /// softmax]
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            allow_negative_numbers = true,
            value_name = "ETA",
            requires = "layers",
            help_heading = "Method"
        )
    )]
    pub eta: Option<String>,
    /// Hold the sum of all step sizes at TAU: with layers, each takes a step of TAU/N; without, infinitely many layers follow
    /// a flow, which is solved exactly (up to 1,000 vectors)
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            allow_negative_numbers = true,
            value_name = "TAU",
            conflicts_with_all = ["eta", "tol", "direct", "recursion"],
            help_heading = "Method"
        )
    )]
    pub flow_time: Option<f64>,
    /// How sharply the first layer copies the previous token
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            allow_negative_numbers = true,
            value_name = "N",
            default_value_t = SHARPNESS,
            help_heading = "Method"
        )
    )]
    pub sharpness: f64,
}

setters!(IncontextSpec {
    task: some(TaskKind),
    map: some(MapKind),
    rho: some(f64),
    d: some(usize),
    length: some(usize),
    kernel: some(KernelKind),
    beta: some(f64),
    normalised: plain(bool),
    attention: some(Attention),
    layers: some(u64),
    recursion: plain(bool),
    tol: some(f64),
    flow_time: some(f64),
    sharpness: plain(f64),
});

impl Default for IncontextSpec {
    fn default() -> Self {
        Self {
            task: None,
            map: None,
            rho: None,
            period: None,
            file: Vec::new(),
            unit_norm: false,
            d: None,
            length: None,
            sequences: None,
            kernel: None,
            beta: None,
            normalised: false,
            attention: None,
            layers: None,
            direct: false,
            recursion: false,
            tol: None,
            eta: None,
            flow_time: None,
            sharpness: SHARPNESS,
        }
    }
}

/// The sequences to predict.
#[derive(Debug, Clone)]
pub struct Sequences {
    /// The full sequences: generated ones have one vector more than the transformer sees.
    pub known: Vec<Sequence>,
    /// The sequences as the transformer sees them.
    pub seen: Vec<Sequence>,
    /// The family; `None` for files.
    pub task: Option<SequenceTask>,
}

impl IncontextSpec {
    /// Sets the number of `sequences`.
    #[must_use]
    pub fn count(mut self, sequences: u64) -> Self {
        self.sequences = Some(sequences);
        self
    }

    /// Returns the family of sequences, checked.
    pub fn family(&self) -> Result<SequenceTask> {
        let kind = self.task.unwrap_or_default();
        let only = |given: bool, name: &'static str, of: &str| match given {
            true => Err(Error::setting(name, format!("applies only to {of}"))),
            false => Ok(()),
        };
        only(kind != TaskKind::Linear && self.map.is_some(), "map", "`task = linear`")?;
        only(self.map != Some(MapKind::Contractive) && self.rho.is_some(), "rho", "`map = contractive`")?;
        only(kind != TaskKind::Periodic && self.period.is_some(), "period", "`task = periodic`")?;
        Ok(match kind {
            TaskKind::Linear => SequenceTask::Linear(match self.map.unwrap_or_default() {
                MapKind::Orthogonal => Map::Orthogonal,
                MapKind::Rotations => Map::Rotations,
                MapKind::Contractive => Map::Contractive(self.rho.unwrap_or(0.99)),
            }),
            TaskKind::Periodic => {
                let (first, last) = period(self.period.as_deref().unwrap_or("20..40"))?;
                SequenceTask::Periodic(first, last)
            }
            TaskKind::Nonlinear => SequenceTask::Nonlinear,
        })
    }

    /// Returns the sequences, generated or read from files.
    pub fn read(&self, seed: u64, observer: &dyn Observer) -> Result<Sequences> {
        if !self.file.is_empty() {
            let mut all = sequence_file::read_all(&self.file)?;
            if self.unit_norm {
                let count = all.len();
                let unit = |(i, x): (usize, Sequence)| x.to_unit_norm().map_err(|e| of_sequence(e, i, count));
                all = all.into_iter().enumerate().map(unit).collect::<Result<_>>()?;
            }
            return Ok(Sequences { known: all.clone(), seen: all, task: None });
        }
        let (task, d, length, count) = self.sizes()?;
        let mut all = Sequences { known: Vec::new(), seen: Vec::new(), task: Some(task) };
        let longer = length.saturating_add(1);
        let total = task.vectors(d, longer).saturating_mul(count);
        let counter = Counter::new(observer, Stage::Sequences, Some(total));
        for index in 0..count {
            let x = task.generate_counted(d, longer, seed, index, &counter)?;
            all.seen.push(x.first(length)?);
            all.known.push(x);
        }
        Ok(all)
    }

    /// Returns the family, dimension, length and number of generated sequences.
    fn sizes(&self) -> Result<(SequenceTask, usize, usize, u64)> {
        let task = self.family()?;
        let d = self.d.unwrap_or(if task == SequenceTask::Nonlinear { 4 } else { 15 });
        let (length, count) = (self.length.unwrap_or(200), self.sequences.unwrap_or(5));
        if length < 2 {
            let message =
                format!("must be at least 2, since nothing precedes the first vector (got {length})");
            return Err(Error::setting("length", message));
        }
        if count == 0 || count > 100_000 {
            return Err(Error::setting("sequences", format!("must be from 1 to 100,000 (got {count})")));
        }
        let numbers = (length as u128).saturating_mul(u128::from(count)).saturating_mul(d as u128);
        if numbers > 1 << 31 {
            let message = format!(
                "{} numbers in all are too many; take fewer vectors, `sequences` or dimensions (`d`)",
                crate::units::grouped(numbers)
            );
            return Err(Error::setting("length", message));
        }
        Ok((task, d, length, count))
    }

    /// Returns the kernel and the attention, checked against each other.
    pub fn kernel_and_attention(&self) -> Result<(Kernel, Attention)> {
        let linear = self.file.is_empty() && self.task.unwrap_or_default() == TaskKind::Linear;
        let implied = match (linear, self.beta.is_some(), self.attention) {
            (_, _, Some(Attention::Identity)) | (true, false, None) => KernelKind::Linear,
            _ => KernelKind::Exp,
        };
        let kernel = match self.kernel.unwrap_or(implied) {
            KernelKind::Linear if self.beta.is_some() => {
                return Err(Error::setting("beta", "applies only to `kernel = exp`"));
            }
            KernelKind::Linear => Kernel::LINEAR,
            KernelKind::Exp => Kernel::exp(self.beta.unwrap_or(1.0))?,
        };
        let kernel = if self.normalised { kernel.normalised() } else { kernel };
        let attention = self.attention.unwrap_or_else(|| kernel.default_attention());
        kernel.goes_with(attention)?;
        Ok((kernel, attention))
    }

    /// Returns how predictions are computed.
    pub fn method(&self) -> Result<PredictionMethod> {
        if let Some(time) = self.flow_time {
            check_time(time)?;
            let settings = [
                (self.eta.is_some(), "`eta`"),
                (self.tol.is_some(), "`tol`"),
                (self.direct, "`direct`"),
                (self.recursion, "`recursion`"),
            ];
            if let Some((_, other)) = settings.into_iter().find(|s| s.0) {
                return Err(Error::setting("flow_time", format!("cannot be combined with {other}")));
            }
        }
        let Some(layers) = self.layers else {
            return Ok(match (self.flow_time, self.recursion) {
                (Some(time), _) => PredictionMethod::Flow { time },
                (None, true) => PredictionMethod::Recursion,
                (None, false) => PredictionMethod::Direct,
            });
        };
        if layers == 0 {
            return Err(Error::setting("layers", "must be at least 1 (got 0)"));
        }
        if let Some(tol) = self.tol
            && !(tol > 0.0 && tol.is_finite())
        {
            return Err(Error::setting("tol", format!("must be finite and above 0 (got {tol})")));
        }
        let until = Until { layers, residual: self.tol };
        let step = match self.flow_time {
            Some(time) => Step::Euler { time, layers },
            None => self.step()?,
        };
        Ok(PredictionMethod::Layers { until, step, sharpness: self.sharpness })
    }

    fn step(&self) -> Result<Step> {
        Ok(match self.eta.as_deref() {
            None | Some("universal") => Step::Universal,
            Some("spectral") => Step::Spectral,
            Some("exact") => Step::Exact,
            Some(number) => Step::Fixed(number.parse().map_err(|_| {
                Error::setting(
                    "eta",
                    format!("must be a number, universal, spectral or exact (got {number:?})"),
                )
            })?),
        })
    }

    /// Makes every check that does not need a sequence.
    pub fn check(&self) -> Result<()> {
        self.kernel_and_attention()?;
        self.method()?;
        match self.file.is_empty() {
            false => Ok(()),
            true => self.sizes().map(|_| ()),
        }
    }
}

/// "7" or "20..40".
fn period(text: &str) -> Result<(usize, usize)> {
    let wrong = || {
        Error::setting("period", format!("must be a number, or A..B with both ends included (got {text:?})"))
    };
    match text.contains("..") {
        true => text.parse::<Span>().map(|s| (s.first, s.last)).map_err(|_| wrong()),
        false => text.trim().parse().map(|p| (p, p)).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let spec = IncontextSpec::default();
        for (spec, name) in [
            (spec.clone().rho(0.5), "rho"),
            (spec.clone().task(TaskKind::Nonlinear).map(MapKind::Rotations), "map"),
            (IncontextSpec { period: Some("3".into()), ..spec.clone() }, "period"),
            (IncontextSpec { sequences: Some(0), ..spec.clone() }, "sequences"),
            (spec.clone().length(1), "length"),
            (spec.clone().layers(0), "layers"),
            (spec.clone().kernel(KernelKind::Linear).beta(2.0), "beta"),
            (spec.clone().flow_time(0.0), "flow_time"),
            (spec.clone().flow_time(f64::NAN).layers(3), "flow_time"),
            (spec.clone().flow_time(1.0).layers(3).tol(0.1), "flow_time"),
            (spec.clone().flow_time(1.0).recursion(true), "flow_time"),
            (IncontextSpec { eta: Some("fast".into()), ..spec.layers(3) }, "eta"),
        ] {
            assert_eq!(spec.check().unwrap_err().setting_name(), Some(name), "{spec:?}");
        }
    }

    #[test]
    fn a_flow_time_is_shared_by_the_layers_or_followed_exactly() {
        let spec = IncontextSpec::default().flow_time(2.0);
        assert_eq!(spec.method().unwrap(), PredictionMethod::Flow { time: 2.0 });
        let PredictionMethod::Layers { step, .. } = spec.layers(50).method().unwrap() else {
            panic!("layers")
        };
        assert_eq!(step, Step::Euler { time: 2.0, layers: 50 });
    }

    #[test]
    fn a_period_is_a_number_or_a_range() {
        assert_eq!(period("7").unwrap(), (7, 7));
        assert_eq!(period("20..40").unwrap(), (20, 40));
        for wrong in ["", "a", "1..", "..3", "-1", "1.5", "1..b"] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }
}
