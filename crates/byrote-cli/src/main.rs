//! The program `byrote`: how much can a transformer memorize?
//!
//! Thin glue over the library: arguments become ready objects (`args`), a command runs (`commands`), what it found is
//! shown as a table or as one JSON object (`ui`). Exit codes: 0 done; 1 done and the answer is no; 2 error; 130
//! interrupted.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod commands;
mod corpus_args;
mod interrupt;
mod progress;
mod ui;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ui::usage_error(&error),
    };
    let json = cli.common.json;
    match run(cli) {
        Ok(code) => code,
        Err(error) => ui::report_error(&error, json),
    }
}

fn run(cli: Cli) -> byrote::Result<ExitCode> {
    interrupt::install();
    let common = cli.common;
    common.in_pool(|| match cli.command {
        Command::Corpus(args) => commands::corpus::run(&args, &common),
        Command::Bounds(args) => commands::bounds::run(&args, &common),
        Command::Completions { shell } => commands::completions::run(shell),
    })?
}
