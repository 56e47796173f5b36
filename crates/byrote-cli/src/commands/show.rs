//! `byrote show`: what a model contains.

use crate::args::Common;
use crate::ui;
use byrote::Result;
use byrote::any_model::AnyModel;
use byrote::report::{json, text};
use clap::Args;
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
        AnyModel::OneLayer(file) => ui::show(common, || json::model(&file), || text::model(&file)),
        AnyModel::InContext(file) => ui::show(common, || json::network(&file), || text::network(&file)),
        AnyModel::Exact(file) => {
            ui::show(common, || json::exact_network(&file), || text::exact_network(&file))
        }
        other => Err(other.refused(&args.model, "it cannot be shown")),
    }?;
    Ok(ExitCode::SUCCESS)
}
