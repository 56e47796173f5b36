//! A training run.

use super::evaluation::{add_per_prediction, evaluation};
use super::extend;
use crate::evaluate::Evaluation;
use crate::train::{Run, RunDirectory};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A training run that has ended, and the evaluation of its model, unless it was interrupted.
pub fn training(run: &Run, found: Option<&Evaluation>, directory: Option<&RunDirectory>) -> Value {
    let (trainer, model) = (&run.trainer, &run.result.model);
    let mut object = match found {
        Some(found) => evaluation(model, found, trainer.dataset(), &run.result.vocabulary),
        None => {
            let (dataset, loss, gap) = (trainer.dataset(), trainer.loss(), trainer.gap());
            let mut object = json!({
                "loss_nats": loss,
                "floor_nats": dataset.floor(),
                "gap_nats": gap,
                "contexts": dataset.len(),
                "parameters": model.parameters().len(),
                "parameters_by_kind": model.config().parameters_by_kind(),
            });
            add_per_prediction(&mut object, loss, dataset.floor(), gap, dataset.predictions() as u64);
            object
        }
    };
    let progress = trainer.progress();
    let path = |f: fn(&RunDirectory) -> PathBuf| directory.map(f);
    let more = json!({
        "optimizer": run.settings.method.name(),
        "lr": run.settings.rate,
        "steps": progress.step,
        "evaluations": progress.evaluations,
        "accuracy_last_batches": trainer.accuracy_last_batches(),
        "stop": run.stop.name(),
        "stop_detail": run.stop,
        "arithmetic": trainer.arithmetic(),
        "resumed_at_step": run.resumed_at_step,
        "seconds_training": run.seconds,
        "milliseconds_per_step_median": run.milliseconds.map(|t| t.median),
        "milliseconds_per_step_min": run.milliseconds.map(|t| t.min),
        "model_file": path(RunDirectory::model),
        "init_file": path(RunDirectory::init),
        "curve_file": path(RunDirectory::curve),
    });
    extend(&mut object, more);
    object
}
