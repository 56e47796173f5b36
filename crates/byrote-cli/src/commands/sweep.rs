//! `byrote sweep`: a grid of training runs from a plan.

use crate::args::{Common, command_line};
use crate::interrupt;
use crate::paths;
use crate::progress::Terminal;
use crate::{spelling, ui};
use byrote::output::{Holds, claim};
use byrote::report::{self, json, text};
use byrote::sweep::{self, Corpora, Directory, Plan, SweepOptions, SweepOutcome};
use byrote::train::CHECKPOINT_EVERY;
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote sweep widths.toml --dry-run       jobs, parameters, estimated time
  byrote sweep widths.toml --out widths    run the plan; the same command resumes it

A plan is a grid: every list is an axis.
  seeds = [0, 1, 2]
  [corpus]
  builtin = [100, 200, 400]     # numbers of built-in stories; or paths = [\"my.txt\"]
  [model]
  d_mlp = [16, 64, 256]
  [training]
  optimizer = \"lbfgs\"";

#[derive(Debug, Args)]
pub struct SweepCommand {
    /// A TOML file
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Take all steps of every job: do not stop near the floor or when training stalls
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub running: SweepArgs,
}

/// How a plan is run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub struct SweepArgs {
    /// The run directory [default: the plan's name]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// List the jobs with their parameters and estimated time, without running them
    #[arg(long)]
    pub dry_run: bool,
    /// Stop at the first job that fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Write the trained models too
    #[arg(long)]
    pub keep_models: bool,
    /// Seconds between the checkpoints of a job; 0 writes one after every step
    #[arg(long, allow_negative_numbers = true, value_name = "S", default_value_t = CHECKPOINT_EVERY)]
    pub checkpoint_every: f64,
}

pub fn run(args: &SweepCommand, common: &Common) -> Result<ExitCode> {
    let mut plan = Plan { command: Some(command_line()), ..Plan::load(&args.plan)?.moved(common.seed) };
    if args.full {
        plan.without_stops();
    }
    let out = args.running.out.clone().unwrap_or_else(|| PathBuf::from(&plan.name));
    let inputs: Vec<PathBuf> = plan.jobs.iter().flat_map(|job| job.corpus.inputs()).collect();
    let inputs = inputs.iter().map(PathBuf::as_path).chain([args.plan.as_path()]);
    let written =
        paths::in_directory(&out, &["results.csv", "journal.jsonl", "manifest.toml", "report.html"]);
    paths::check(inputs, written.iter().map(|path| ("out", path.as_path())))?;
    let SweepArgs { checkpoint_every, fail_fast, keep_models, dry_run, .. } = args.running;
    let options = SweepOptions::default()
        .checkpoint_every(checkpoint_every)
        .fail_fast(fail_fast)
        .keep_models(keep_models);
    options.check()?;
    let _claim = (!dry_run).then(|| claim(&out, Holds::Sweep)).transpose()?;
    let observer = Terminal::new(common.quiet);
    // The plan is what was typed, so it is named beside a file that it asks for in vain.
    let corpora = Corpora::read(&plan.jobs, &observer).map_err(|error| match error {
        Error::Io { action: "open" | "read", .. } => Error::format(&args.plan, format!("[corpus] {error}")),
        other => other,
    })?;
    if dry_run {
        let json = json::jobs(&plan, &corpora)?;
        let text = spelling::of_text(&text::jobs(&plan, &corpora)?);
        ui::show(common, || json, || text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let started = Instant::now();
    clean_up_in(&out);
    let mut directory = Directory::open(&out, &plan, &corpora)?;
    let outcome = sweep::run(&plan, &corpora, &mut directory, options, &observer)?;
    let seconds = started.elapsed().as_secs_f64();
    let record = directory.to_record();
    let report = report::draw_record(&record, &out, &observer)?;
    drop(observer);
    let results = out.join("results.csv");
    let json = || {
        let mut object = json::sweep(&plan.name, &out, &outcome, &record);
        object["results_file"] = json!(results);
        object["report_file"] = json!(report);
        object["seconds"] = json!(seconds);
        object
    };
    ui::show(common, json, || text::results(&plan, &record.rows, &outcome))?;
    if !common.json {
        ui::wrote(common, [&results, &report]);
    }
    Ok(exit_code(&outcome))
}

/// Returns the exit code of a sweep: 0 if all jobs are done, 1 if some failed, 130 if it was interrupted.
pub fn exit_code(outcome: &SweepOutcome) -> ExitCode {
    match (outcome.interrupted, outcome.done == outcome.jobs) {
        (true, _) => ExitCode::from(interrupt::EXIT_CODE),
        (_, true) => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}

/// Notes the folders of a run directory in which files are written under temporary names.
pub fn clean_up_in(directory: &Path) {
    for folder in ["", "curves", "checkpoints", "models", "figures"] {
        interrupt::clean_up_beside(&directory.join(folder).join("file"));
    }
}
