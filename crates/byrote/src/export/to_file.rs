//! Any model, written in a format of other programs, with what there is to say about it.

use super::{RoundingError, onnx, onnx_network, rounding_error};
use crate::any_model::AnyModel;
use crate::incontext::NetworkFile;
use crate::model::{ModelFile, Precision, huggingface};
use crate::output::OutputFile;
use crate::setting::choices;
use crate::units::{grouped, significant};
use crate::{Error, Result};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;

/// A format of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One ONNX file.
    Onnx,
    /// A directory for Hugging Face's transformers.
    Huggingface,
}

choices!(ExportFormat, "to" { Onnx = "onnx", Huggingface = "huggingface" });

/// What was written: as JSON, and as a table of names and values.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// The JSON object of `byrote export --json`.
    pub json: Value,
    /// Names and values.
    pub rows: Vec<(&'static str, String)>,
    /// What the reader of the files must know besides.
    pub note: Option<String>,
}

/// Why an exact network cannot be written for other programs.
const EXACT: &str =
    "its weights are exact numbers that no floating-point format holds; use the file itself, which is text";

/// Writes a model to `out`, a file or a directory; by default in the precision in which it is stored.
///
/// # Errors
/// If the format cannot hold the model, if rounding to f32 would change the logits, or if `out` cannot be written.
pub fn export_model(
    model: &AnyModel,
    to: ExportFormat,
    out: &Path,
    precision: Option<Precision>,
) -> Result<Exported> {
    match (model, to) {
        (AnyModel::OneLayer(file), ExportFormat::Onnx) => one_file(out, || of_model(file, precision)),
        (AnyModel::InContext(file), ExportFormat::Onnx) => one_file(out, || of_network(file, precision)),
        (AnyModel::OneLayer(file), ExportFormat::Huggingface) => directory(file, out, precision),
        (AnyModel::InContext(_), ExportFormat::Huggingface) => Err(Error::setting(
            "model",
            format!("is {}; a transformer that reads tokens is needed", model.kind()),
        )),
        (AnyModel::Exact(_), _) => Err(Error::setting("model", format!("is {}; {EXACT}", model.kind()))),
    }
}

/// The bytes of a file, and what is said about it.
type Bytes = (Vec<u8>, Value, Vec<(&'static str, String)>);

/// Writes one ONNX file. It is opened first, so that one that cannot be written is reported at once.
fn one_file(path: &Path, make: impl FnOnce() -> Result<Bytes>) -> Result<Exported> {
    let mut out = OutputFile::create(path)?;
    let (bytes, mut json, more) = make()?;
    out.write_all(&bytes).map_err(|e| Error::io(path, "write", e))?;
    out.commit()?;
    json["format"] = json!("onnx");
    json["file"] = json!(path.to_string_lossy());
    json["bytes"] = json!(bytes.len());
    json["opset"] = json!(onnx::OPSET);
    json["ir_version"] = json!(onnx::IR_VERSION);
    let mut rows = vec![("size", format!("{} bytes", grouped(bytes.len() as u64)))];
    rows.extend(more);
    Ok(Exported { json, rows, note: None })
}

fn of_model(file: &ModelFile, precision: Option<Precision>) -> Result<Bytes> {
    let (precision, loss) = checked(file, precision)?;
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
fn checked(file: &ModelFile, given: Option<Precision>) -> Result<(Precision, Option<RoundingError>)> {
    let precision = given.unwrap_or(file.precision);
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
        ("parameters", grouped(file.model.parameters().len() as u64)),
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
fn directory(file: &ModelFile, out: &Path, precision: Option<Precision>) -> Result<Exported> {
    let (precision, loss) = checked(file, precision)?;
    let saved = huggingface::save(file, out, precision)?;
    let shape = &file.model.config().shape;
    let tokenizer = saved.files.iter().any(|(name, _)| *name == "tokenizer.json");
    let files = saved.files.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
    let json = json!({
        "format": "huggingface",
        "directory": out.to_string_lossy(),
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
    });
    let mut rows = vec![("architecture", saved.family.architecture().to_owned())];
    rows.extend(saved.files.iter().map(|(name, bytes)| (*name, format!("{} bytes", grouped(*bytes as u64)))));
    rows.extend(numbers(file, precision, loss));
    let note = (!tokenizer).then(|| {
        let name = &file.tokenizer;
        format!(
            "there is no tokenizer.json for this model (tokenizer: {name}): give ids of its vocabulary to `transformers`"
        )
    });
    Ok(Exported { json, rows, note })
}

fn of_network(file: &NetworkFile, precision: Option<Precision>) -> Result<Bytes> {
    if matches!(precision, Some(Precision::F32)) {
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
        ("layers", grouped(network.depth())),
        ("input", format!("inputs [batch, length, {d_in}]; length up to {}, f64", network.n_ctx())),
        ("output", format!("outputs [batch, length, {d_out}]")),
    ];
    Ok((bytes, json, rows))
}
