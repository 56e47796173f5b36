//! Transformers that learn in their context.

use crate::incontext::{
    ErrorAt, ErrorSeries, Form, InContextResult, PredictionMethod, Rows, SequenceTask, Step,
};
use serde_json::{Value, json};

/// An experiment: errors by step, and for given sequences also the predictions and the errors of baselines.
pub fn incontext(found: &InContextResult) -> Value {
    let InContextResult { sequences, kernel, attention, method, outcome, errors, baselines } = found;
    let task = json!(sequences.task.map(SequenceTask::name));
    let first = &sequences.seen[0];
    let beta = match kernel.form() {
        Form::Linear => None,
        Form::Exp { beta } => Some(beta),
    };
    let layers = outcome.layers.as_ref();
    let mut json = json!({
        "task": task,
        "d": first.d(),
        "length": sequences.seen.iter().map(|x| x.len()).min(),
        "sequences": sequences.seen.len(),
        "kernel": kernel.name(),
        "beta": beta,
        "normalised": kernel.is_normalised(),
        "attention": attention,
        "method": match method {
            PredictionMethod::Direct => "direct",
            PredictionMethod::Recursion => "recursion",
            PredictionMethod::Flow { .. } => "flow",
            PredictionMethod::Layers { .. } => "layers",
        },
        "flow_time": match method {
            PredictionMethod::Flow { time }
            | PredictionMethod::Layers { step: Step::Euler { time, .. }, .. } => Some(*time),
            _ => None,
        },
        "layers": layers.map(|l| l.layers),
        "eta": layers.map(|l| l.eta),
        "residual": layers.map(|l| l.residual),
        "flow_max_difference": layers.and_then(|l| l.from_flow),
        "d_model": layers.map(|l| l.file.network.d_model()),
        "parameters": layers.map(|l| l.file.network.parameters()),
        "constant_diagonal": outcome.constant_diagonal,
        "explicit_vs_recursion_max_difference": outcome.difference,
        "errors": errors,
    });
    if sequences.task.is_none() {
        let rows = |u: &Rows| u.iter().map(|u| json!(u)).collect::<Value>();
        json["predictions"] = match &outcome.predictions[..] {
            [one] => rows(one),
            several => several.iter().map(rows).collect(),
        };
        let error = |e: &ErrorAt| json!({"t": e.t, "squared_error": e.squared_error});
        let baseline = |b: &ErrorSeries| json!({"name": b.key, "errors": b.errors.iter().map(error).collect::<Vec<Value>>()});
        json["baselines"] = baselines.iter().map(baseline).collect();
    }
    json
}
