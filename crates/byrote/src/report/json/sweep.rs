//! Sweeps.

use crate::Result;
use crate::sweep::{Corpora, JobRow, Plan, Record, SweepOutcome};
use serde_json::{Value, json};
use std::path::Path;

/// How a sweep went, with a row per job.
pub fn sweep(name: &str, directory: &Path, outcome: &SweepOutcome, record: &Record) -> Value {
    json!({
        "name": name,
        "directory": directory,
        "jobs": outcome.jobs,
        "done": outcome.done,
        "failed": outcome.failed,
        "interrupted": outcome.interrupted,
        "rows": record.rows.iter().map(row).collect::<Vec<Value>>(),
    })
}

/// What a job came to, losses per prediction first; everything else is in results.csv.
fn row(row: &JobRow) -> Value {
    let result = row.result.as_ref();
    json!({
        "job": row.job,
        "status": row.status,
        "documents": row.documents,
        "contexts": row.contexts,
        "d_mlp": row.d_mlp,
        "parameters": row.parameters,
        "seed": row.settings.seed,
        "steps": result.map(|r| r.steps),
        "stop": result.map(|r| r.stop),
        "loss_nats_per_prediction": row.loss_per_prediction(),
        "gap_nats_per_prediction": row.gap_per_prediction(),
        "loss_nats": result.map(|r| r.loss_nats),
        "gap_nats": result.map(|r| r.gap_nats),
        "memorized": result.map(|r| r.memorized),
        "error": row.error,
    })
}

/// Describes every job of a plan.
pub fn jobs(plan: &Plan, corpora: &Corpora) -> Result<Value> {
    let jobs = plan.jobs.iter().map(|job| {
        let dataset = corpora.of(job)?;
        let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx());
        Ok(json!({
            "job": job.id(dataset),
            "settings": job,
            "contexts": dataset.len(),
            "parameters": config.as_ref().map_or(0, |c| c.n_parameters()),
            "estimated_seconds": job.estimated_seconds(corpora),
            "error": config.err().map(|e| e.to_string()),
        }))
    });
    let jobs = jobs.collect::<Result<Vec<Value>>>()?;
    Ok(json!({"name": plan.name, "jobs": jobs, "estimated_seconds": plan.estimated_seconds(corpora)}))
}
