//! What a model holds: shape, switches, parameters by kind, vocabulary.

use crate::construct::kajitsuka2024::ExactFile;
use crate::incontext::NetworkFile;
use crate::model::{ModelFile, Preset};
use serde_json::{Value, json};

/// What a transformer holds.
pub fn model(file: &ModelFile) -> Value {
    let config = file.model.config();
    let preset = Preset::ALL.into_iter().find(|p| p.config(config.shape) == *config);
    let tensors = file.model.tensors();
    let tensors = tensors
        .iter()
        .map(|t| json!({"name": t.name, "shape": t.shape, "kind": t.kind, "parameters": t.range.len()}));
    json!({
        "preset": preset.map(Preset::name),
        "config": config,
        "parameters": file.model.parameters().len(),
        "parameters_by_kind": config.parameters_by_kind(),
        "precision": file.precision,
        "tokenizer": file.tokenizer,
        "d_vocab": file.vocabulary.len(),
        "tensors": tensors.collect::<Vec<_>>(),
    })
}

/// What a network that learns in context holds.
pub fn network(file: &NetworkFile) -> Value {
    let network = &file.network;
    let layers = network.layers.iter().map(|l| {
        json!({
            "attention": l.attention, "step": l.step, "heads": l.heads.len(), "repeat": l.repeat,
            "d_head": l.heads.first().map(|h| h.w_q.columns()),
            "d_value": l.heads.first().map(|h| h.w_v.columns()),
            "d_mlp": l.hidden.as_ref().map(|h| h.w_in.columns()),
        })
    });
    json!({
        "kind": "network", "input": file.input, "d_in": network.w_e.len(), "d_model": network.d_model(),
        "d_out": network.w_u.columns(), "n_ctx": network.n_ctx(), "depth": network.depth(),
        "parameters": network.parameters(), "precision": "f64", "layers": layers.collect::<Vec<_>>(),
    })
}

/// What an exact network holds.
pub fn exact_network(file: &ExactFile) -> Value {
    let (task, network) = (&file.model.task, &file.model.network);
    let mut object = json!(file.size());
    object["method"] = json!("kajitsuka2024");
    object["memory"] = json!(file.model.method.name());
    object["task"] = json!(task);
    object["tokenizer"] = json!(file.tokenizer);
    object["d_vocab"] = json!(file.vocabulary.len());
    object["labels"] = json!((0..task.labels).map(|y| file.label_text(y)).collect::<Vec<_>>());
    let stages = network.stages.iter().map(|s| {
        let parameters: usize = s.layers.iter().map(|l| l.nonzero()).sum();
        let dense: usize = s.layers.iter().map(|l| l.dense(network.channels())).sum();
        json!({
            "part": s.part,
            "times": s.times,
            "layers": s.layers.len(),
            "parameters": parameters,
            "parameters_dense": dense,
        })
    });
    object["stages"] = json!(stages.collect::<Vec<_>>());
    object
}
