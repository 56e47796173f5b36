//! `byrote show`: what a model file holds.

use crate::args::Common;
use crate::ui::{self, Table, thousands};
use byrote::Result;
use byrote::model::{Kind, ModelFile, Preset};
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ShowCommand {
    /// The model
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
}

pub fn run(args: &ShowCommand, common: &Common) -> Result<ExitCode> {
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
    let mut table = Table::new(&["model", preset.map_or("of no preset", Preset::name)], &[0, 1]);
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

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Embedding => "embedding",
        Kind::Position => "position",
        Kind::Attention => "attention",
        Kind::Hidden => "hidden",
        Kind::Output => "output",
    }
}

/// A few tokens.
fn sample(file: &ModelFile) -> String {
    let n = file.vocabulary.len() as u32;
    let few: Vec<String> = (0..n.min(5)).map(|id| ui::shown(&file.vocabulary.text(id))).collect();
    format!("{}{}", few.join(" "), if n > 5 { " ..." } else { "" })
}
