//! `byrote completions SHELL`.

use crate::args::Cli;
use crate::ui;
use clap::CommandFactory;
use std::process::ExitCode;

pub fn run(shell: clap_complete::Shell) -> byrote::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "byrote", &mut script);
    ui::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
