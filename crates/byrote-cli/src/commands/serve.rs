//! `byrote serve`: a local web page.

use crate::args::Common;
use crate::{interrupt, spelling, ui};
use byrote::Result;
use byrote::corpus::CorpusSpec;
use byrote::observe::Stage;
use byrote_serve::{Host, ServeSpec, Server};
use clap::builder::Resettable;
use clap::{Args, Id};
use serde_json::json;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

pub const EXAMPLES: &str = "Examples:
  byrote serve                                          the built-in stories
  byrote serve names.txt --tokenizer char --n-ctx 15 --open
  byrote serve study widths run/model.safetensors       a study, a sweep that may be running, a model
  byrote serve --builtin 200 run                        a run on the first 200 built-in stories
  byrote serve audit book.txt                           an audit, and its text to read it in
  byrote serve --runs trainings                         keep the trainings that are started from the page
  byrote serve --host 0.0.0.0 --port 8000               for other machines, with a token

Ctrl-C stops the server after saving any running training.";

const PATHS: &str = "What to show, in any order: texts, directories of study, sweep, train or audit, models; or a directory of such \
                     directories [default: the built-in stories]";

// A model or a run may be named beside built-in stories or random sequences; a text beside them is refused when all paths are sorted.
#[derive(Debug, Args)]
#[command(mut_arg("builtin", |arg| arg.conflicts_with(Resettable::<Id>::Reset).conflicts_with_all(["random", "merge"])))]
#[command(mut_arg("random", |arg| arg.conflicts_with(Resettable::<Id>::Reset).conflicts_with("merge")))]
#[command(mut_arg("paths", |arg| arg.help(PATHS)))]
#[command(mut_arg("merge", |arg| arg.conflicts_with(Resettable::<Id>::Reset)))]
pub struct ServeCommand {
    #[command(flatten)]
    pub corpus: CorpusSpec,
    #[command(flatten)]
    pub server: ServeSpec,
}

/// The terminal, as the server sees it.
struct Terminal {
    quiet: bool,
}

impl Host for Terminal {
    fn should_stop(&self) -> bool {
        interrupt::asked()
    }

    fn note(&self, text: &str) {
        ui::note(self.quiet, &spelling::of_text(text));
    }

    fn keeps(&self, yes: bool) {
        interrupt::in_stage(if yes { Stage::Training } else { Stage::Drawing });
    }
}

pub fn run(args: &ServeCommand, common: &Common) -> Result<ExitCode> {
    let corpus = args.corpus.clone().seed(common.seed);
    let threads = common.threads.unwrap_or(0);
    let server = Server::bind(&args.server, &corpus, threads, Arc::new(Terminal { quiet: common.quiet }))?;
    let address = server.address().to_owned();
    ui::show(common, || json!({"address": address}), || format!("{address}\n"))?;
    if args.server.open && !open(&address) {
        ui::note(common.quiet, "no browser could be opened; open the address above");
    }
    server.run()?;
    Ok(ExitCode::from(interrupt::EXIT_CODE))
}

/// Opens an address in the browser; false if there is no program for that.
fn open(address: &str) -> bool {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/c", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
