//! A line of results.
//!
//! Nothing of time, threads or machine: equal plans give equal rows. Times stand in the journal.

use super::corpora::Material;
use super::job::Job;
use crate::evaluate::Evaluation;
use crate::model::Config;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

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
    pub stop: String,
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
}

impl Row {
    /// A row without a result.
    pub fn new(job: &Job, id: &str, material: &Material, config: Option<&Config>) -> Self {
        let shape = config.map(|c| c.shape);
        Self {
            job: id.to_owned(),
            status: Status::Failed,
            settings: job.clone(),
            documents: material.documents,
            contexts: material.problem.len() as u64,
            predictions: material.problem.predictions() as u64,
            d_vocab: material.d_vocab,
            n_ctx: material.n_ctx,
            floor_nats: material.problem.floor.0,
            n_heads: shape.map_or(job.model.n_heads, |s| s.n_heads),
            d_head: shape.map_or(job.model.d_head.unwrap_or_default(), |s| s.d_head),
            d_mlp: shape.map_or(job.model.d_mlp.unwrap_or_default(), |s| s.d_mlp),
            parameters: config.map_or(0, |c| c.n_parameters() as u64),
            result: None,
            error: None,
        }
    }

    /// The gap by the floor; by the predictions where the floor is 0.
    pub fn relative_gap(&self) -> Option<f64> {
        let by = if self.floor_nats > 0.0 { self.floor_nats } else { self.predictions.max(1) as f64 };
        self.result.as_ref().map(|r| r.gap_nats / by)
    }
}

impl RowResult {
    /// From an evaluation and how the training ended.
    pub fn new(found: &Evaluation, steps: u64, evaluations: u64, stop: &str) -> Self {
        Self {
            steps,
            evaluations,
            stop: stop.to_owned(),
            loss_nats: found.loss_nats.0,
            gap_nats: found.gap_nats.0,
            memorized: found.memorized,
            memorized_distribution: found.memorized_distribution,
            accuracy: found.accuracy,
            max_kl_nats: found.max_kl_nats.0,
        }
    }
}

const HEAD: &str = "job,status,corpus,documents,tokenizer,n_ctx,contexts,predictions,d_vocab,floor_nats,preset,d_model,\
n_heads,d_head,d_mlp,activation,mixer,parameters,optimizer,lr,last_lr,schedule,batch,sampling,train_only,init,max_steps,seed,steps,evaluations,stop,loss_nats,gap_nats,\
relative_gap,memorized,memorized_distribution,accuracy,max_kl_nats,error";

/// Rows as CSV, in their order, with a header.
pub fn to_csv<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let mut out = format!("{HEAD}\n");
    for row in rows {
        let Job { corpus, model, training, seed } = &row.settings.filled(row.d_vocab, row.n_ctx);
        let text = |x: &Option<String>| x.as_deref().map_or(String::new(), quoted);
        let name = match (&corpus.path, &corpus.lengths) {
            _ if corpus.read_as.is_some() => corpus.read_as.clone().unwrap_or_default(),
            (Some(path), _) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            (None, Some(lengths)) => format!("random {lengths}"),
            (None, None) => "stories".into(),
        };
        let lr = training.lr.map_or(String::new(), |x| x.to_string());
        let batch = training.batch.map_or(String::new(), |x| x.to_string());
        let _ = write!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            row.job,
            if row.status == Status::Done { "done" } else { "failed" },
            quoted(&name),
            row.documents,
            quoted(&corpus.tokenizer),
            row.n_ctx,
            row.contexts,
            row.predictions,
            row.d_vocab,
            row.floor_nats,
            model.preset,
            model.d_model,
            row.n_heads,
            row.d_head,
            row.d_mlp,
            model.activation,
            model.mixer.map_or(String::new(), |m| m.to_string()),
            row.parameters,
            training.optimizer.name(),
            lr,
            training.last_lr.map_or(String::new(), |x| x.to_string()),
            name_of(&training.schedule),
            batch,
            name_of(&training.sampling),
            name_of(&training.train_only),
            name_of(&model.init),
            training.steps.map_or(String::new(), |n| n.to_string()),
            seed,
        );
        match &row.result {
            Some(r) => {
                let _ = write!(
                    out,
                    ",{},{},{},{},{},{},{},{},{},{}",
                    r.steps,
                    r.evaluations,
                    r.stop,
                    r.loss_nats,
                    r.gap_nats,
                    row.relative_gap().unwrap_or(f64::NAN),
                    r.memorized,
                    r.memorized_distribution,
                    r.accuracy,
                    r.max_kl_nats
                );
            }
            None => out.push_str(",,,,,,,,,,"),
        }
        let _ = writeln!(out, ",{}", text(&row.error));
    }
    out
}

/// The name of a setting, as a plan writes it.
fn name_of(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| Some(v.as_str()?.to_owned())).unwrap_or_default()
}

/// A field, in quotes where it needs them.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
