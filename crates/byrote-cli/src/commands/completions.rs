//! `byrote completions SHELL`.

use crate::args::{Cli, Common};
use crate::ui;
use clap::CommandFactory;
use serde_json::json;
use std::process::ExitCode;

pub fn run(shell: clap_complete::Shell, common: &Common) -> byrote::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "byrote", &mut script);
    let script = String::from_utf8_lossy(&script);
    match common.json {
        true => ui::print_json(&json!({"shell": shell.to_string(), "script": script}))?,
        false => ui::print(&script)?,
    }
    Ok(ExitCode::SUCCESS)
}
