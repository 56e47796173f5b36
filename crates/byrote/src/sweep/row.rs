//! A line of results.
//!
//! Nothing of time, threads or machine: equal plans give equal rows. Times stand in the journal.

use super::job::Job;
use crate::dataset::Dataset;
use crate::evaluate::{Evaluation, Worst};
use crate::model::Config;
use crate::output::{csv_field, csv_text};
use crate::train::StopKind;
use serde::{Deserialize, Serialize};

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// With a result.
    Done,
    /// With an error.
    Failed,
}

/// What a job gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its identity.
    pub job: String,
    /// How it ended.
    pub status: Status,
    /// What was asked for.
    pub settings: Job,
    /// Documents kept.
    pub documents: u64,
    /// Contexts.
    pub contexts: u64,
    /// Predictions.
    pub predictions: u64,
    /// Vocabulary.
    pub d_vocab: u64,
    /// The longest context.
    #[serde(default)]
    pub n_ctx: u64,
    /// The lowest loss of any model.
    pub floor_nats: f64,
    /// Heads.
    pub n_heads: u64,
    /// The width of a head.
    pub d_head: u64,
    /// Hidden neurons.
    pub d_mlp: u64,
    /// Parameters.
    pub parameters: u64,
    /// What it found, unless it failed.
    pub result: Option<RowResult>,
    /// Why it failed.
    pub error: Option<String>,
}

/// What a training found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowResult {
    /// Steps taken.
    pub steps: u64,
    /// Evaluations of the loss.
    pub evaluations: u64,
    /// Why it ended.
    pub stop: StopKind,
    /// The loss.
    pub loss_nats: f64,
    /// The loss less the floor.
    pub gap_nats: f64,
    /// Contexts memorized.
    pub memorized: u64,
    /// Contexts whose distribution is right to 1e-3 nats.
    pub memorized_distribution: u64,
    /// Memorized contexts by contexts.
    pub accuracy: f64,
    /// The largest KL.
    pub max_kl_nats: f64,
    /// The contexts with the largest part of the gap, the worst first.
    #[serde(default)]
    pub worst: Vec<Worst>,
}

impl Row {
    /// A row without a result.
    pub fn new(job: &Job, id: &str, dataset: &Dataset, config: Option<&Config>) -> Self {
        let shape = config.map(|c| c.shape);
        Self {
            job: id.to_owned(),
            status: Status::Failed,
            settings: job.clone(),
            documents: dataset.documents(),
            contexts: dataset.len() as u64,
            predictions: dataset.predictions() as u64,
            d_vocab: dataset.d_vocab(),
            n_ctx: dataset.n_ctx(),
            floor_nats: dataset.floor().0,
            n_heads: shape.map_or(job.model.n_heads.unwrap_or_default(), |s| s.n_heads),
            d_head: shape.map_or(job.model.d_head.unwrap_or_default(), |s| s.d_head),
            d_mlp: shape.map_or(job.model.d_mlp.unwrap_or_default(), |s| s.d_mlp),
            parameters: config.map_or(0, |c| c.n_parameters() as u64),
            result: None,
            error: None,
        }
    }

    /// The gap per prediction, in nats.
    pub fn gap_per_prediction(&self) -> Option<f64> {
        self.result.as_ref().map(|r| r.gap_nats / self.predictions.max(1) as f64)
    }

    /// The gap divided by the floor, or by the number of predictions if the floor is 0.
    pub fn relative_gap(&self) -> Option<f64> {
        let by = if self.floor_nats > 0.0 { self.floor_nats } else { self.predictions.max(1) as f64 };
        self.result.as_ref().map(|r| r.gap_nats / by)
    }
}

impl RowResult {
    /// From an evaluation and how the training ended.
    pub fn new(found: &Evaluation, steps: u64, evaluations: u64, stop: StopKind) -> Self {
        Self {
            steps,
            evaluations,
            stop,
            loss_nats: found.loss_nats.0,
            gap_nats: found.gap_nats.0,
            memorized: found.memorized,
            memorized_distribution: found.memorized_distribution,
            accuracy: found.accuracy,
            max_kl_nats: found.max_kl_nats.0,
            worst: found.worst.clone(),
        }
    }
}

const COLUMNS: [&str; 39] = [
    "job",
    "status",
    "corpus",
    "documents",
    "tokenizer",
    "n_ctx",
    "contexts",
    "predictions",
    "d_vocab",
    "floor_nats",
    "preset",
    "d_model",
    "n_heads",
    "d_head",
    "d_mlp",
    "activation",
    "mixer",
    "parameters",
    "optimizer",
    "lr",
    "last_lr",
    "schedule",
    "batch",
    "sampling",
    "train_only",
    "init",
    "max_steps",
    "seed",
    "steps",
    "evaluations",
    "stop",
    "loss_nats",
    "gap_nats",
    "relative_gap",
    "memorized",
    "memorized_distribution",
    "accuracy",
    "max_kl_nats",
    "error",
];

/// Rows as CSV, in their order, with a header.
pub fn to_csv<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let fields = |row: &Row| [row.settings_fields(), row.result_fields()].concat();
    csv_text(COLUMNS, rows.into_iter().map(fields))
}

impl Row {
    /// The columns up to `seed`: what was asked for.
    fn settings_fields(&self) -> Vec<String> {
        let Job { corpus, model, training, seed } = &self.settings.filled(self.d_vocab, self.n_ctx);
        vec![
            self.job.clone(),
            if self.status == Status::Done { "done" } else { "failed" }.into(),
            corpus.label(),
            self.documents.to_string(),
            corpus.tokenizer.clone().unwrap_or_default().to_string(),
            self.n_ctx.to_string(),
            self.contexts.to_string(),
            self.predictions.to_string(),
            self.d_vocab.to_string(),
            self.floor_nats.to_string(),
            model.preset.unwrap_or_default().to_string(),
            model.width().to_string(),
            self.n_heads.to_string(),
            self.d_head.to_string(),
            self.d_mlp.to_string(),
            model.activation.unwrap_or_default().to_string(),
            csv_field(model.mixer),
            self.parameters.to_string(),
            training.optimizer.name().into(),
            csv_field(training.lr),
            csv_field(training.last_lr),
            training.schedule.to_string(),
            csv_field(training.batch),
            training.sampling.to_string(),
            training.train_only.to_string(),
            model.init.to_string(),
            csv_field(training.steps),
            seed.to_string(),
        ]
    }

    /// The columns from `steps` on: what came out.
    fn result_fields(&self) -> Vec<String> {
        let mut fields = match &self.result {
            Some(r) => vec![
                r.steps.to_string(),
                r.evaluations.to_string(),
                r.stop.to_string(),
                r.loss_nats.to_string(),
                r.gap_nats.to_string(),
                self.relative_gap().unwrap_or(f64::NAN).to_string(),
                r.memorized.to_string(),
                r.memorized_distribution.to_string(),
                r.accuracy.to_string(),
                r.max_kl_nats.to_string(),
            ],
            None => vec![String::new(); 10],
        };
        fields.push(csv_field(self.error.as_ref()));
        fields
    }
}
