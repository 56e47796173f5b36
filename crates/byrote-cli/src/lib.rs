//! The program `byrote`: how much can a transformer memorize?
//!
//! It is a library so that the Python package can install the same program: [`run`] is all it offers.
//!
//! Thin glue over the library: arguments become ready objects (`args`), a command runs (`commands`), what it found is
//! shown as a table or as one JSON object (`ui`). Exit codes: 0 done; 1 done and the answer is no; 2 error; 130
//! interrupted.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod commands;
mod exact_network;
mod input;
mod interrupt;
mod paths;
mod progress;
mod spelling;
mod ui;

use args::{Cli, Command};
use clap::{CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// Runs the program with these arguments, the first of which is its name.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    args::remember(&arguments);
    let command = Cli::command();
    let matches = match command.clone().try_get_matches_from(args::typed(&command, arguments.into_iter())) {
        Ok(matches) => matches,
        Err(error) => return ui::usage_error(&error),
    };
    spelling::learn(&command, &matches);
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return ui::usage_error(&error),
    };
    let json = cli.common.json;
    // A panic is a bug: it is reported in one line, like any error. (Those of other crates on hostile input are caught by the
    // library and become errors; the hook must be silent for them.)
    static PANIC: Mutex<String> = Mutex::new(String::new());
    std::panic::set_hook(Box::new(|panic| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
    match std::panic::catch_unwind(AssertUnwindSafe(|| run_command(cli))) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => ui::report_error(&error, json),
        Err(_) => ui::report_bug(&PANIC.lock().unwrap_or_else(PoisonError::into_inner), json),
    }
}

fn run_command(cli: Cli) -> byrote::Result<ExitCode> {
    let common = cli.common;
    interrupt::install(common.json);
    common.in_pool(|| match cli.command {
        Command::Study(args) => commands::study::run(&args, &common),
        Command::Corpus(args) => commands::corpus::run(&args, &common),
        Command::Bounds(args) => commands::bounds::run(&args, &common),
        Command::Train(args) => commands::train::run(&args, &common),
        Command::Build(args) => commands::build::run(&args, &common),
        Command::Certify(args) => commands::certify::run(&args, &common),
        Command::Eval(args) => commands::eval::run(&args, &common),
        Command::Predict(args) => commands::predict::run(&args, &common),
        Command::Audit(args) => commands::audit::run(&args, &common),
        Command::Serve(args) => commands::serve::run(&args, &common),
        Command::Show(args) => commands::show::run(&args, &common),
        Command::Export(args) => commands::export::run(&args, &common),
        Command::Sweep(args) => commands::sweep::run(&args, &common),
        Command::Rank(args) => commands::rank::run(&args, &common),
        Command::Incontext(args) => commands::incontext::run(&args, &common),
        Command::Report(args) => commands::report::run(&args, &common),
        Command::Reproduce(args) => commands::reproduce::run(&args, &common),
        Command::Completions { shell } => commands::completions::run(shell, &common),
    })?
}
