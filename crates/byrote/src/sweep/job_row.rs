//! A row of results.
//!
//! Rows contain no times, thread counts or machine names: equal plans give equal rows. Times are in the journal.

use super::job::Job;
use crate::dataset::Dataset;
use crate::evaluate::{Evaluation, Worst};
use crate::model::{Config, Init};
use crate::output::{csv_field, csv_text};
use crate::train::StopKind;
use serde::{Deserialize, Serialize};

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobStatus {
    /// With a result.
    Done,
    /// With an error.
    Failed,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its identity.
    pub job: String,
    /// How it ended.
    pub status: JobStatus,
    /// The job.
    pub settings: Job,
    /// The number of documents kept.
    pub documents: u64,
    /// The number of contexts.
    pub contexts: u64,
    /// The number of predictions.
    pub predictions: u64,
    /// The size of the vocabulary.
    pub d_vocab: u64,
    /// The longest context.
    #[serde(default)]
    pub n_ctx: u64,
    /// The lowest loss any model can reach.
    pub floor_nats: f64,
    /// The number of heads.
    pub n_heads: u64,
    /// The width of a head.
    pub d_head: u64,
    /// The number of hidden neurons.
    pub d_mlp: u64,
    /// The number of parameters.
    pub parameters: u64,
    /// The result, unless the job failed.
    pub result: Option<JobResult>,
    /// Why the job failed.
    pub error: Option<String>,
}

/// The result of a training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The number of steps taken.
    pub steps: u64,
    /// The number of evaluations of the loss.
    pub evaluations: u64,
    /// Why it ended.
    pub stop: StopKind,
    /// The loss.
    pub loss_nats: f64,
    /// The loss minus the floor.
    pub gap_nats: f64,
    /// The number of memorized contexts.
    pub memorized: u64,
    /// The number of contexts whose distribution is memorized to within 1e-3 nats.
    pub memorized_distribution: u64,
    /// The fraction of contexts that are memorized.
    pub accuracy: f64,
    /// The fraction of right predictions in the last batches, while the weights still moved; absent without batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_last_batches: Option<f64>,
    /// The largest KL divergence of a context.
    pub max_kl_nats: f64,
    /// The contexts with the largest contributions to the gap, worst first.
    #[serde(default)]
    pub worst: Vec<Worst>,
}

impl JobRow {
    /// A row without a result.
    pub fn new(job: &Job, id: &str, dataset: &Dataset, config: Option<&Config>) -> Self {
        let shape = config.map(|c| c.shape);
        Self {
            job: id.to_owned(),
            status: JobStatus::Failed,
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

    /// Returns the loss per prediction, in nats.
    pub fn loss_per_prediction(&self) -> Option<f64> {
        self.result.as_ref().map(|r| r.loss_nats / self.predictions.max(1) as f64)
    }

    /// Returns the gap per prediction, in nats.
    pub fn gap_per_prediction(&self) -> Option<f64> {
        self.result.as_ref().map(|r| r.gap_nats / self.predictions.max(1) as f64)
    }

    /// Returns the gap divided by the floor, or by the number of predictions if the floor is 0.
    pub fn relative_gap(&self) -> Option<f64> {
        let by = if self.floor_nats > 0.0 { self.floor_nats } else { self.predictions.max(1) as f64 };
        self.result.as_ref().map(|r| r.gap_nats / by)
    }
}

impl JobResult {
    /// Creates a result from an evaluation and the end of the training run.
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
            accuracy_last_batches: None,
            max_kl_nats: found.max_kl_nats.0,
            worst: found.worst.clone(),
        }
    }
}

const COLUMNS: [&str; 48] = [
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
    "loss_nats_per_prediction",
    "gap_nats_per_prediction",
    "accuracy_last_batches",
    "positions",
    "positions_in_attention",
    "bottleneck",
    "n_layers",
    "norm",
    "tied",
];

/// Returns rows as CSV, in order, with a header.
pub fn to_csv<'a>(rows: impl IntoIterator<Item = &'a JobRow>) -> String {
    let fields = |row: &JobRow| [row.settings_fields(), row.result_fields()].concat();
    csv_text(COLUMNS, rows.into_iter().map(fields))
}

impl JobRow {
    /// The columns up to `seed`: the settings.
    fn settings_fields(&self) -> Vec<String> {
        let Job { corpus, model, training, seed } = &self.settings.filled(self.d_vocab, self.n_ctx);
        let config = model.resolve(self.d_vocab, self.n_ctx).ok();
        vec![
            self.job.clone(),
            if self.status == JobStatus::Done { "done" } else { "failed" }.into(),
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
            csv_field(model.init.or(config.as_ref().map(Init::default_for))),
            csv_field(training.steps),
            seed.to_string(),
        ]
    }

    /// The columns from `steps` on: the results, and the switches that were added later. Columns keep their places.
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
        fields.push(csv_field(self.loss_per_prediction()));
        fields.push(csv_field(self.gap_per_prediction()));
        fields.push(csv_field(self.result.as_ref().and_then(|r| r.accuracy_last_batches)));
        let config = self.settings.model.resolve(self.d_vocab, self.n_ctx).ok();
        fields.push(csv_field(config.map(|c| c.positions)));
        fields.push(csv_field(config.map(|c| c.positions_in_attention)));
        fields.push(csv_field(config.map(|c| c.bottleneck)));
        let blocks = config.and_then(|c| c.shape.blocks);
        fields.push(csv_field(blocks.map(|b| b.n_layers)));
        fields.push(csv_field(blocks.map(|b| b.norm)));
        fields.push(csv_field(blocks.map(|b| b.tied)));
        fields
    }
}
