//! `byrote show`: what a model file contains.

use crate::args::Common;
use crate::exact;
use crate::model_kind::ModelKind;
use crate::ui::{self, Table, thousands};
use byrote::Result;
use byrote::incontext::NetworkFile;
use byrote::model::{Kind, ModelFile, Preset};
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ShowCommand {
    /// The model file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
}

pub fn run(args: &ShowCommand, common: &Common) -> Result<ExitCode> {
    match ModelKind::of(&args.model)? {
        ModelKind::Exact => return exact::show(&args.model, common),
        ModelKind::Network => return show_network(&NetworkFile::load(&args.model)?, common),
        ModelKind::Tensors => {}
    }
    let file = ModelFile::load(&args.model)?;
    let config = file.model.config();
    let preset = Preset::ALL.into_iter().find(|p| p.config(config.shape) == *config);
    let by_kind = config.parameters_by_kind();
    if common.json {
        let tensors: Vec<_> = file
            .model
            .tensors()
            .iter()
            .map(|t| json!({"name": t.name, "shape": t.shape, "kind": t.kind, "parameters": t.range.len()}))
            .collect();
        ui::print_json(&json!({
            "preset": preset.map(Preset::name),
            "config": config,
            "parameters": file.model.parameters().len(),
            "parameters_by_kind": by_kind,
            "precision": file.precision,
            "tokenizer": file.tokenizer,
            "d_vocab": file.vocabulary.len(),
            "tensors": tensors,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let shape = &config.shape;
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut table = Table::new(&["model", preset.map_or("custom configuration", Preset::name)], &[0, 1]);
    let rows = [
        ("parameters", thousands(file.model.parameters().len() as u64)),
        ("precision", word(json!(file.precision))),
        ("tokenizer", file.tokenizer.clone()),
        ("vocabulary", format!("{} tokens, {}", thousands(shape.d_vocab), sample(&file))),
        ("longest context", thousands(shape.n_ctx)),
        ("d_model", thousands(shape.d_model)),
        ("mixer", shape.mixer.name().to_owned()),
        ("heads", format!("{} of {}", shape.n_heads, shape.d_head)),
        ("attention biases", yes(config.attention_bias)),
        ("scores scaled", yes(config.scale_scores)),
        ("positions", word(json!(config.positions))),
        ("skip connections", yes(config.skip)),
        (
            "hidden layer",
            format!(
                "{} neurons, {}, {}",
                thousands(shape.d_mlp),
                shape.activation,
                word(json!(config.hidden))
            ),
        ),
        ("output bias", yes(config.output_bias)),
    ];
    for (name, value) in rows {
        table.row(vec![name.into(), value]);
    }
    let mut out = table.render();
    let mut tensors = Table::new(&["tensor", "shape", "parameters", "kind"], &[0, 1, 3]);
    for t in file.model.tensors() {
        tensors.row(vec![
            t.name.into(),
            format!("{:?}", t.shape),
            thousands(t.range.len() as u64),
            kind(t.kind).into(),
        ]);
    }
    let _ = write!(out, "\n{}", tensors.render());
    ui::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows an in-context network.
fn show_network(file: &NetworkFile, common: &Common) -> Result<ExitCode> {
    let network = &file.network;
    let (d_in, d_out) = (network.w_e.len(), network.w_u.columns());
    if common.json {
        let layers: Vec<_> = network
            .layers
            .iter()
            .map(|l| {
                json!({
                    "attention": l.attention, "step": l.step, "heads": l.heads.len(), "repeat": l.repeat,
                    "d_head": l.heads.first().map(|h| h.w_q.columns()),
                    "d_value": l.heads.first().map(|h| h.w_v.columns()),
                    "d_mlp": l.hidden.as_ref().map(|h| h.w_in.columns()),
                })
            })
            .collect();
        ui::print_json(&json!({
            "kind": "network", "input": file.input, "d_in": d_in, "d_model": network.d_model(), "d_out": d_out,
            "n_ctx": network.n_ctx(), "depth": network.depth(), "parameters": network.parameters(),
            "precision": "f64", "layers": layers,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["network", "a causal transformer on vectors"], &[0, 1]);
    let input = json!(file.input).as_str().unwrap_or_default().to_owned();
    for (name, value) in [
        (
            "reads",
            format!("{input}: {d_in} numbers per step, up to {} steps", thousands(network.n_ctx() as u64)),
        ),
        ("predicts", format!("{d_out} numbers")),
        ("d_model", thousands(network.d_model() as u64)),
        ("layers", thousands(network.depth())),
        ("stored numbers", thousands(network.parameters() as u64)),
    ] {
        table.row(vec![name.into(), value]);
    }
    let mut out = table.render();
    let mut table = Table::new(&["layer", "times", "attention", "heads", "step", "neurons"], &[2]);
    for (l, layer) in network.layers.iter().enumerate() {
        let neurons = layer.hidden.as_ref().map_or(0, |h| h.w_in.columns());
        table.row(vec![
            l.to_string(),
            thousands(layer.repeat),
            layer.attention.to_string(),
            layer.heads.len().to_string(),
            format!("{:.6}", layer.step),
            thousands(neurons as u64),
        ]);
    }
    let _ = write!(out, "\n{}", table.render());
    ui::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Embedding => "embedding",
        Kind::Position => "position",
        Kind::Attention => "attention",
        Kind::Hidden => "hidden",
        Kind::Output => "output",
    }
}

/// The first few tokens of the vocabulary.
fn sample(file: &ModelFile) -> String {
    let n = file.vocabulary.len() as u32;
    let few: Vec<String> = (0..n.min(5)).map(|id| ui::shown(&file.vocabulary.text(id))).collect();
    format!("{}{}", few.join(" "), if n > 5 { " ..." } else { "" })
}
