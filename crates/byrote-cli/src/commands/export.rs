//! `byrote export`: writes a model for other programs.

use crate::args::Common;
use crate::model_kind::ModelKind;
use crate::paths;
use crate::ui::{self, Table, thousands};
use byrote::export::{onnx, onnx_network, rounding_error};
use byrote::incontext::NetworkFile;
use byrote::model::{ModelFile, Precision};
use byrote::output::OutputFile;
use byrote::{Error, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote export run/model.safetensors --to onnx --out model.onnx
  byrote export built.safetensors --to onnx --out built.onnx --json

The file takes `tokens` [batch, length] and `lengths` [batch], both int64, and gives `logits` [batch, d_vocab]; tokens
beyond the length of a row are ignored. docs/loading.md shows how to run it.";

#[derive(Debug, Args)]
pub struct ExportCommand {
    /// The model
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// The format
    #[arg(long, value_name = "FORMAT")]
    pub to: Format,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The precision of the numbers in the file; f32 is refused for a model stored in f64 if it would change the logits
    /// [default: as the model is stored]
    #[arg(long, value_name = "TYPE")]
    pub precision: Option<Precision>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Format {
    Onnx,
}

pub fn run(args: &ExportCommand, common: &Common) -> Result<ExitCode> {
    paths::check([args.model.as_path()], [("out", args.out.as_path())])?;
    let why = "its weights are exact integers that no floating-point format holds, so ONNX cannot represent it; use the \
               file itself, which is text";
    ModelKind::expect_tensors(&args.model, why)?;
    if ModelKind::of(&args.model)? == ModelKind::Network {
        return export_network(&NetworkFile::load(&args.model)?, args, common);
    }
    let file = ModelFile::load(&args.model)?;
    let mut out = OutputFile::create(&args.out)?;
    let precision = args.precision.unwrap_or(file.precision);
    let narrowed = (precision, file.precision) == (Precision::F32, Precision::F64);
    let loss = narrowed.then(|| rounding_error(&file.model));
    if let Some(loss) = loss {
        loss.checked()?;
    }
    let bytes = match args.to {
        Format::Onnx => onnx(&file, precision)?,
    };
    out.write_all(&bytes).map_err(|e| Error::io(&args.out, "write", e))?;
    out.commit()?;
    let config = file.model.config();
    let shape = &config.shape;
    if common.json {
        ui::print_json(&json!({
            "format": "onnx",
            "file": args.out.to_string_lossy(),
            "bytes": bytes.len(),
            "precision": precision,
            "stored_precision": file.precision,
            "opset": onnx::OPSET,
            "ir_version": onnx::IR_VERSION,
            "parameters": file.model.parameters().len(),
            "inputs": {"tokens": ["batch", "length"], "lengths": ["batch"]},
            "outputs": {"logits": ["batch", shape.d_vocab]},
            "n_ctx": shape.n_ctx,
            "rounding": loss,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["onnx", &args.out.to_string_lossy()], &[0, 1]);
    let word = |p: Precision| json!(p).as_str().unwrap_or_default().to_owned();
    table.row(vec!["size".into(), format!("{} bytes", thousands(bytes.len() as u64))]);
    table.row(vec!["parameters".into(), thousands(file.model.parameters().len() as u64)]);
    table.row(vec!["numbers".into(), format!("{}, stored as {}", word(precision), word(file.precision))]);
    if let Some(loss) = loss {
        let text = format!("{:.1e} on {} random contexts", loss.max_logit_error, loss.contexts);
        table.row(vec!["largest change of a logit by rounding".into(), text]);
    }
    let tokens = format!("tokens [batch, length], lengths [batch]; int64, length up to {}", shape.n_ctx);
    table.row(vec!["inputs".into(), tokens]);
    table.row(vec!["output".into(), format!("logits [batch, {}]", shape.d_vocab)]);
    ui::print(&table.render())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a network of many layers, always in f64.
fn export_network(file: &NetworkFile, args: &ExportCommand, common: &Common) -> Result<ExitCode> {
    if matches!(args.precision, Some(Precision::F32)) {
        return Err(Error::setting("precision", "f32; networks of many layers are written in f64"));
    }
    let mut out = OutputFile::create(&args.out)?;
    let bytes = match args.to {
        Format::Onnx => onnx_network(file)?,
    };
    out.write_all(&bytes).map_err(|e| Error::io(&args.out, "write", e))?;
    out.commit()?;
    let network = &file.network;
    let (d_in, d_out) = (network.w_e.len(), network.w_u.columns());
    if common.json {
        ui::print_json(&json!({
            "format": "onnx",
            "file": args.out.to_string_lossy(),
            "bytes": bytes.len(),
            "precision": Precision::F64,
            "stored_precision": Precision::F64,
            "opset": onnx::OPSET,
            "ir_version": onnx::IR_VERSION,
            "parameters": network.parameters(),
            "inputs": {"inputs": ["batch", "length", d_in]},
            "outputs": {"outputs": ["batch", "length", d_out]},
            "n_ctx": network.n_ctx(),
            "layers": network.depth(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["onnx", &args.out.to_string_lossy()], &[0, 1]);
    table.row(vec!["size".into(), format!("{} bytes", thousands(bytes.len() as u64))]);
    table.row(vec!["layers".into(), thousands(network.depth())]);
    let length = format!("length up to {}, f64", network.n_ctx());
    table.row(vec!["input".into(), format!("inputs [batch, length, {d_in}]; {length}")]);
    table.row(vec!["output".into(), format!("outputs [batch, length, {d_out}]")]);
    ui::print(&table.render())?;
    Ok(ExitCode::SUCCESS)
}
