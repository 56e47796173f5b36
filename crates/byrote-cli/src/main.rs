//! The program `byrote`; everything is in the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    byrote_cli::run(std::env::args_os())
}
