//! One point of a grid: a corpus, a model, a way to train it, a seed.
//!
//! Every field has a value: what a plan leaves out is filled in here, so that a job says in full what was done. Its identity
//! is a hash of that and of the corpus it reads.

use crate::corpus::random::Associations;
use crate::corpus::{ContextRule, Options, Source, TokenizerChoice, Window};
use crate::model::{Activation, Config, Hidden, Init, Mixer, Precision, Preset, Shape};
use crate::num::hash::fnv1a;
use crate::train::{Limits, Method, Problem, Sampling, Schedule, Settings, Stall, Trained};
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the contexts come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorpusSpec {
    /// A file; the built-in stories where there is none, or random associations where there are lengths.
    pub path: Option<PathBuf>,
    /// The first so many documents; for random associations, how many.
    pub documents: Option<u64>,
    /// How text becomes tokens.
    pub tokenizer: String,
    /// The longest context.
    pub n_ctx: Option<u32>,
    /// Only documents of at least n_ctx + 1 tokens.
    pub exact_length: bool,
    /// `prefixes` or `full`.
    pub contexts: Option<String>,
    /// Random associations: lengths as `A..B`, both included.
    pub lengths: Option<String>,
    /// Random associations: the vocabulary.
    pub d_vocab: Option<u32>,
    /// Random associations: labels.
    pub labels: Option<u32>,
    /// The seed of the stories or the associations.
    pub seed: u64,
    /// How it was read, where the fields above do not say all: that of a study. Plans have no such key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_as: Option<String>,
}

impl Default for CorpusSpec {
    fn default() -> Self {
        Self {
            path: None,
            documents: None,
            tokenizer: "wordpunct".into(),
            n_ctx: None,
            exact_length: false,
            contexts: None,
            lengths: None,
            d_vocab: None,
            labels: None,
            seed: 0,
            read_as: None,
        }
    }
}

impl CorpusSpec {
    /// The source and how it is read.
    pub fn resolve(&self) -> Result<(Source, Options)> {
        let random = self.lengths.is_some();
        if random && self.path.is_some() {
            return Err(Error::setting("corpus.lengths", "is for random associations, which have no path"));
        }
        for (name, given) in
            [("corpus.d_vocab", self.d_vocab.is_some()), ("corpus.labels", self.labels.is_some())]
        {
            if given && !random {
                return Err(Error::setting(
                    name,
                    "is for random associations, which are asked for by corpus.lengths",
                ));
            }
        }
        let contexts = match self.contexts.as_deref() {
            Some("full") => ContextRule::Full,
            Some("prefixes") => ContextRule::Prefixes,
            None if random => ContextRule::Full,
            None => ContextRule::Prefixes,
            Some(other) => {
                return Err(Error::setting(
                    "corpus.contexts",
                    format!("{other:?} is none of prefixes, full"),
                ));
            }
        };
        let lengths = self.lengths.as_deref().map(lengths).transpose()?;
        let longest = lengths.as_ref().map(|l| *l.end() as u32);
        let Ok(tokenizer) = self.tokenizer.parse::<TokenizerChoice>();
        let default = Options::default();
        let window = Window {
            n_ctx: self.n_ctx.or(longest).unwrap_or(default.window.n_ctx),
            exact_length: self.exact_length,
            contexts,
            ..default.window
        };
        let source = match (lengths, &self.path) {
            (Some(lengths), _) => {
                let n = self.documents.unwrap_or(1000);
                let n = usize::try_from(n).map_err(|_| Error::setting("corpus.documents", "too many"))?;
                let d_vocab = self.d_vocab.unwrap_or(50);
                let labels = self.labels.unwrap_or(d_vocab.min(10));
                Source::Random(Associations::new(n, d_vocab, lengths, labels, self.seed)?)
            }
            (None, Some(path)) => Source::Files(vec![path.clone()]),
            (None, None) => Source::Stories { documents: self.documents.unwrap_or(1000), seed: self.seed },
        };
        let limit = if matches!(source, Source::Files(_)) { self.documents } else { None };
        Ok((source, Options { window, tokenizer, limit, ..default }))
    }
}

fn lengths(text: &str) -> Result<std::ops::RangeInclusive<usize>> {
    let wrong = || Error::setting("corpus.lengths", format!("{text:?} is not A..B, e.g. 1..8"));
    let (a, b) = text.split_once("..").ok_or_else(wrong)?;
    let number = |t: &str| t.trim().trim_start_matches('=').parse().map_err(|_| wrong());
    Ok(number(a)?..=number(b)?)
}

/// What is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSpec {
    /// A model of a paper.
    pub preset: Preset,
    /// The width of the stream.
    pub d_model: u64,
    /// Heads.
    pub n_heads: u64,
    /// The width of a head; by default `d_model` by heads, rounded up.
    pub d_head: Option<u64>,
    /// Hidden neurons; by default 512 where there is a hidden layer.
    pub d_mlp: Option<u64>,
    /// The function of the neurons.
    pub activation: Activation,
    /// Attention or averaging; by default that of the preset.
    pub mixer: Option<Mixer>,
    /// How its weights are drawn.
    pub init: Init,
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self {
            preset: Preset::Madden2024Experiment,
            d_model: 16,
            n_heads: 1,
            d_head: None,
            d_mlp: None,
            activation: Activation::Gelu,
            mixer: None,
            init: Init::Pytorch,
        }
    }
}

impl ModelSpec {
    /// The configuration for a corpus.
    pub fn config(&self, d_vocab: u64, n_ctx: u64) -> Result<Config> {
        let shape = Shape {
            d_vocab,
            n_ctx,
            d_model: self.d_model,
            n_heads: self.n_heads,
            d_head: self.d_head.unwrap_or(self.d_model.div_ceil(self.n_heads.max(1))),
            d_mlp: self.d_mlp.unwrap_or(512),
            activation: self.activation,
            mixer: self.mixer.unwrap_or_default(),
        };
        let mut config = self.preset.config(shape);
        if config.shape.n_heads != self.n_heads {
            return Err(Error::setting("model.n_heads", format!("the preset {} has one head", self.preset)));
        }
        if let Some(mixer) = self.mixer {
            config.shape.mixer = mixer;
        }
        if let Some(d_mlp) = self.d_mlp.filter(|&m| m != config.shape.d_mlp) {
            let message = format!("{d_mlp}; the preset {} has no hidden layer", self.preset);
            return Err(Error::setting("model.d_mlp", message));
        }
        config.checked()
    }
}

/// How it is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingSpec {
    /// `lbfgs`, `adam` or `adamw`.
    pub optimizer: Method,
    /// The rate.
    pub lr: Option<f64>,
    /// How it falls.
    pub schedule: Schedule,
    /// What it falls to.
    pub last_lr: Option<f64>,
    /// Steps at most.
    pub steps: Option<u64>,
    /// Weight decay of adamw.
    pub weight_decay: Option<f64>,
    /// Curvature pairs of lbfgs.
    pub memory: Option<usize>,
    /// Steps of Adam before lbfgs.
    pub warmup: Option<u64>,
    /// Their rate.
    pub warmup_lr: Option<f64>,
    /// Contexts a step.
    pub batch: Option<usize>,
    /// How they are drawn: `epochs` or `uniform`.
    pub sampling: Sampling,
    /// `all`, or `feed-forward`: the rest stays as it was drawn.
    pub train_only: Trained,
    /// The arithmetic.
    pub precision: Precision,
    /// Stop within so many nats of the floor.
    pub stop_gap: Option<f64>,
    /// Stop at this gap relative to the floor.
    pub stop_relative_gap: Option<f64>,
    /// Stop as stalled when the gap falls by less than this fraction over a window; 0 is never.
    pub stall: f64,
}

impl Default for TrainingSpec {
    fn default() -> Self {
        Self {
            optimizer: Method::Lbfgs,
            lr: None,
            schedule: Schedule::Constant,
            last_lr: None,
            steps: None,
            weight_decay: None,
            memory: None,
            warmup: None,
            warmup_lr: None,
            batch: None,
            sampling: Sampling::Epochs,
            train_only: Trained::All,
            precision: Precision::F32,
            stop_gap: None,
            stop_relative_gap: None,
            stall: 1e-3,
        }
    }
}

impl TrainingSpec {
    /// Settings and limits.
    pub fn resolve(&self, seed: u64) -> Result<(Settings, Limits)> {
        let method = self.optimizer;
        let default = Settings::new(method);
        let steps = self.steps.unwrap_or(method.default_steps());
        let settings = Settings {
            rate: self.lr.unwrap_or(default.rate),
            schedule: self.schedule,
            schedule_steps: if self.schedule == Schedule::Constant { 0 } else { steps },
            decay: self.weight_decay.unwrap_or(default.decay),
            memory: self.memory.unwrap_or(default.memory),
            warmup: self.warmup.unwrap_or(default.warmup),
            warmup_rate: self.warmup_lr.unwrap_or(default.warmup_rate),
            last_rate: self.last_lr.unwrap_or(0.0),
            batch: self.batch,
            sampling: self.sampling,
            trained: self.train_only,
            precision: self.precision,
            seed,
            ..default
        };
        let limits = Limits {
            steps,
            seconds: None,
            gap: self.stop_gap.map(Nats),
            relative_gap: match (self.stop_relative_gap, self.stop_gap) {
                (None, None) => Limits::new(method).relative_gap,
                (given, _) => given,
            },
            stall: (self.stall != 0.0)
                .then(|| Stall { window: method.default_window(), fraction: self.stall }),
        };
        Ok((settings.checked()?, limits.checked()?))
    }
}

/// A training to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Where the contexts come from.
    pub corpus: CorpusSpec,
    /// What is trained.
    pub model: ModelSpec,
    /// How.
    pub training: TrainingSpec,
    /// The seed of the weights and the batches.
    pub seed: u64,
}

impl Job {
    /// A name that no other job has: a hash of the settings and of the corpus as it was read.
    pub fn id(&self, problem: &Problem) -> String {
        // A struct of numbers and names always serialises.
        let settings = serde_json::to_string(self).unwrap_or_default();
        let text = format!("{settings} {:016x}", problem.fingerprint());
        format!("{:016x}", fnv1a(text.as_bytes()))
    }

    /// The same with every setting that is left out filled in, for a corpus of this vocabulary and window. What the model or
    /// the training cannot be made of stays as it is.
    pub fn filled(&self, d_vocab: u64, n_ctx: u64) -> Self {
        let mut job = self.clone();
        job.corpus.n_ctx = job.corpus.n_ctx.or(u32::try_from(n_ctx).ok());
        if let Ok(Config { shape, .. }) = self.model.config(d_vocab, n_ctx) {
            job.model.d_head = Some(shape.d_head);
            job.model.d_mlp = Some(shape.d_mlp);
            job.model.mixer = Some(shape.mixer);
        }
        if let Ok((settings, limits)) = self.training.resolve(self.seed) {
            job.training = TrainingSpec {
                lr: Some(settings.rate),
                // What does not fall has no last rate.
                last_lr: (settings.schedule != Schedule::Constant).then_some(settings.last_rate),
                steps: Some(limits.steps),
                weight_decay: Some(settings.decay),
                memory: Some(settings.memory),
                warmup: Some(settings.warmup),
                warmup_lr: Some(settings.warmup_rate),
                stop_relative_gap: limits.relative_gap,
                ..job.training
            };
        }
        job
    }

    /// Operations of a step, about: multiplications and additions of the output layer, the hidden layer and attention, forward
    /// and twice back.
    pub fn operations(&self, config: &Config, problem: &Problem) -> f64 {
        let Shape { d_vocab, d_model, n_heads, d_head, d_mlp, mixer, .. } = config.shape;
        let read = match config.hidden {
            Hidden::Output => d_mlp,
            _ => d_model,
        };
        let contexts = problem.len() as f64;
        let heads = if mixer == Mixer::Attention { (n_heads * d_head) as f64 } else { 0.0 };
        let layers = (read * d_vocab + d_model * d_mlp) as f64 + heads * d_model as f64;
        // Keys, values and queries once a place, scores and mixtures once a token of a context.
        let places = 3.0 * heads * (problem.places.len() as u64 * d_model) as f64;
        6.0 * (contexts * layers + places + 2.0 * heads * problem.context_places.len() as f64)
    }
}
