//! `byrote show`: what a model contains.

use crate::args::Common;
use crate::ui;
use byrote::Result;
use byrote::any_model::AnyModel;
use byrote::construct::kajitsuka2024::ExactFile;
use byrote::incontext::NetworkFile;
use byrote::model::{ModelFile, Preset};
use byrote::report::text;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ShowCommand {
    /// The model: a file (safetensors or GGUF), or a directory of Hugging Face
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
}

pub fn run(args: &ShowCommand, common: &Common) -> Result<ExitCode> {
    match AnyModel::load(&args.model)? {
        AnyModel::OneLayer(file) => ui::show(common, || of_model(&file), || text::model(&file)),
        AnyModel::InContext(file) => ui::show(common, || of_network(&file), || text::network(&file)),
        AnyModel::Exact(file) => ui::show(common, || of_exact(&file), || text::exact_network(&file)),
        other => Err(other.refused(&args.model, "it cannot be shown")),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn of_model(file: &ModelFile) -> Value {
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

fn of_network(file: &NetworkFile) -> Value {
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

fn of_exact(file: &ExactFile) -> Value {
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
