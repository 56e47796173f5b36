//! `byrote export`: writes a model for other programs.

use crate::args::Common;
use crate::ui::{self, thousands};
use crate::{interrupt, paths};
use byrote::any_model::AnyModel;
use byrote::export::{RoundingError, onnx, onnx_network, rounding_error};
use byrote::incontext::NetworkFile;
use byrote::model::{ModelFile, Precision, huggingface};
use byrote::output::OutputFile;
use byrote::report::text::TextTable;
use byrote::units::significant;
use byrote::{Error, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote export run/model.safetensors --to onnx --out model.onnx
  byrote export built.safetensors --to onnx --out built.onnx --json
  byrote export run/model.safetensors --to huggingface --out my-gpt2

An ONNX file takes `tokens` [batch, length] and `lengths` [batch], both int64, and returns `logits`
[batch, d_vocab]; tokens beyond the length of a row are ignored. A Hugging Face
directory holds config.json, model.safetensors and, if the model holds one, tokenizer.json;
`transformers` loads it. docs/loading.md and docs/huggingface.md show
how to run them.";

#[derive(Debug, Args)]
pub struct ExportCommand {
    /// The model: a file (safetensors or GGUF), or a directory of Hugging Face
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// The format
    #[arg(long, value_name = "FORMAT")]
    pub to: ExportFormat,
    /// The file to write, or the directory for huggingface
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// The precision of the numbers in the file; f32 is refused for a model stored in f64 if rounding the weights would
    /// change the logits, evaluated in f64 [default: as the model is stored]
    #[arg(long, value_name = "TYPE")]
    pub precision: Option<Precision>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ExportFormat {
    Onnx,
    Huggingface,
}

/// Why an exact network cannot be written for other programs.
const EXACT: &str =
    "its weights are exact numbers that no floating-point format holds; use the file itself, which is text";

pub fn run(args: &ExportCommand, common: &Common) -> Result<ExitCode> {
    paths::check([args.model.as_path()], [("out", args.out.as_path())])?;
    let model = AnyModel::load(&args.model)?;
    if matches!(model, AnyModel::Exact(_)) {
        return Err(model.refused(&args.model, EXACT));
    }
    if matches!(args.to, ExportFormat::Huggingface) {
        return to_directory(&model.one_layer(&args.model, EXACT)?, args, common);
    }
    interrupt::clean_up_beside(&args.out);
    let mut out = OutputFile::create(&args.out)?;
    let (bytes, mut json, rows) = match model {
        AnyModel::InContext(file) => of_network(&file, args)?,
        other => of_model(&other.one_layer(&args.model, EXACT)?, args)?,
    };
    out.write_all(&bytes).map_err(|e| Error::io(&args.out, "write", e))?;
    out.commit()?;
    json["format"] = json!("onnx");
    json["file"] = json!(args.out.to_string_lossy());
    json["bytes"] = json!(bytes.len());
    json["opset"] = json!(onnx::OPSET);
    json["ir_version"] = json!(onnx::IR_VERSION);
    let text = || {
        let mut table = TextTable::new(&["onnx", &args.out.to_string_lossy()], &[0, 1]);
        table.row(["size", &format!("{} bytes", thousands(bytes.len() as u64))]);
        rows.into_iter().for_each(|(name, value)| table.row([name, &value]));
        table.render()
    };
    ui::show(common, || json, text)?;
    Ok(ExitCode::SUCCESS)
}

/// The bytes of a file, and what is said about it: as JSON, and as rows of a name and a value.
type Exported = (Vec<u8>, Value, Vec<(&'static str, String)>);

fn of_model(file: &ModelFile, args: &ExportCommand) -> Result<Exported> {
    let (precision, loss) = precision(file, args)?;
    let bytes = onnx(file, precision)?;
    let shape = &file.model.config().shape;
    let json = json!({
        "precision": precision,
        "stored_precision": file.precision,
        "parameters": file.model.parameters().len(),
        "inputs": {"tokens": ["batch", "length"], "lengths": ["batch"]},
        "outputs": {"logits": ["batch", shape.d_vocab]},
        "n_ctx": shape.n_ctx,
        "rounding": loss,
    });
    let mut rows = numbers(file, precision, loss);
    let tokens = format!("tokens [batch, length], lengths [batch]; int64, length up to {}", shape.n_ctx);
    rows.extend([("inputs", tokens), ("output", format!("logits [batch, {}]", shape.d_vocab))]);
    Ok((bytes, json, rows))
}

/// The precision to write in, and what is lost by it.
fn precision(file: &ModelFile, args: &ExportCommand) -> Result<(Precision, Option<RoundingError>)> {
    let precision = args.precision.unwrap_or(file.precision);
    let narrowed = (precision, file.precision) == (Precision::F32, Precision::F64);
    let loss = narrowed.then(|| rounding_error(&file.model));
    if let Some(loss) = loss {
        loss.checked()?;
    }
    Ok((precision, loss))
}

/// What is said about the numbers of a file.
fn numbers(
    file: &ModelFile,
    precision: Precision,
    loss: Option<RoundingError>,
) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("parameters", thousands(file.model.parameters().len() as u64)),
        ("numbers", format!("{precision}, stored as {}", file.precision)),
    ];
    if let Some(loss) = loss {
        let largest = significant(loss.max_logit_error, 2);
        let text = format!("{largest} on {} random contexts, evaluated in f64", loss.contexts);
        rows.push(("largest change of a logit by rounding the weights", text));
    }
    rows
}

/// Writes a directory of Hugging Face.
fn to_directory(file: &ModelFile, args: &ExportCommand, common: &Common) -> Result<ExitCode> {
    interrupt::clean_up_beside(&args.out);
    let (precision, loss) = precision(file, args)?;
    let saved = huggingface::save(file, &args.out, precision)?;
    let shape = &file.model.config().shape;
    let tokenizer = saved.files.iter().any(|(name, _)| *name == "tokenizer.json");
    let json = || {
        let files = saved.files.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
        json!({
            "format": "huggingface",
            "directory": args.out.to_string_lossy(),
            "files": files.collect::<Vec<_>>(),
            "model_type": saved.family.name(),
            "architecture": saved.family.architecture(),
            "precision": precision,
            "stored_precision": file.precision,
            "parameters": file.model.parameters().len(),
            "n_ctx": shape.n_ctx,
            "d_vocab": shape.d_vocab,
            "tokenizer": tokenizer,
            "rounding": loss,
        })
    };
    let text = || {
        let mut table = TextTable::new(&["huggingface", &args.out.to_string_lossy()], &[0, 1]);
        table.row(["architecture", saved.family.architecture()]);
        for (name, bytes) in &saved.files {
            table.row([*name, &format!("{} bytes", thousands(*bytes as u64))]);
        }
        for (name, value) in numbers(file, precision, loss) {
            table.row([name, &value]);
        }
        table.render()
    };
    ui::show(common, json, text)?;
    if !tokenizer {
        let message = format!(
            "there is no tokenizer.json for this model (tokenizer: {}): give ids of its vocabulary to `transformers`",
            file.tokenizer
        );
        ui::note(common.quiet, &message);
    }
    Ok(ExitCode::SUCCESS)
}

fn of_network(file: &NetworkFile, args: &ExportCommand) -> Result<Exported> {
    if matches!(args.precision, Some(Precision::F32)) {
        return Err(Error::setting("precision", "in-context networks are written in f64 only (got f32)"));
    }
    let bytes = onnx_network(file)?;
    let network = &file.network;
    let (d_in, d_out) = (network.w_e.len(), network.w_u.columns());
    let json = json!({
        "precision": Precision::F64,
        "stored_precision": Precision::F64,
        "parameters": network.parameters(),
        "inputs": {"inputs": ["batch", "length", d_in]},
        "outputs": {"outputs": ["batch", "length", d_out]},
        "n_ctx": network.n_ctx(),
        "layers": network.depth(),
    });
    let rows = vec![
        ("layers", thousands(network.depth())),
        ("input", format!("inputs [batch, length, {d_in}]; length up to {}, f64", network.n_ctx())),
        ("output", format!("outputs [batch, length, {d_out}]")),
    ];
    Ok((bytes, json, rows))
}
