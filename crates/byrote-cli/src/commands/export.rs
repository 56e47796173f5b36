//! `byrote export`: writes a model for other programs.

use crate::args::Common;
use crate::{interrupt, paths, ui};
use byrote::any_model::AnyModel;
use byrote::export::{ExportFormat, export_model};
use byrote::model::Precision;
use byrote::report::text::TextTable;
use byrote::{Error, Result};
use clap::Args;
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

pub fn run(args: &ExportCommand, common: &Common) -> Result<ExitCode> {
    paths::check([args.model.as_path()], [("out", args.out.as_path())])?;
    let model = AnyModel::load(&args.model)?;
    interrupt::clean_up_beside(&args.out);
    let made = export_model(&model, args.to, &args.out, args.precision).map_err(|error| match error {
        // The model was named by its file.
        Error::Setting { name: "model", message } if message.starts_with("is ") => {
            Error::format(&args.model, message.replacen("is ", "holds ", 1))
        }
        other => other,
    })?;
    let text = || {
        let mut table = TextTable::new(&[args.to.name(), &args.out.to_string_lossy()], &[0, 1]);
        made.rows.iter().for_each(|(name, value)| table.row([*name, value]));
        table.render()
    };
    ui::show(common, || made.json.clone(), text)?;
    if let Some(note) = &made.note {
        ui::note(common.quiet, note);
    }
    Ok(ExitCode::SUCCESS)
}
