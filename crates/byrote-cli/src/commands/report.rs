//! `byrote report`: the page of a run directory, drawn again.

use crate::args::Common;
use crate::commands::reproduce::sweep::page_of;
use crate::reporting::write_page;
use crate::ui::{self, thousands};
use byrote::Result;
use byrote::lab::Record;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote report widths          widths/report.html, from what byrote sweep has found so far
  byrote report madden2024-fig1";

#[derive(Debug, Args)]
pub struct ReportCommand {
    /// A run directory, complete or not
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

pub fn run(args: &ReportCommand, common: &Common) -> Result<ExitCode> {
    let trainings = args.directory.join("training");
    let is_study = !args.directory.join("manifest.toml").exists() && trainings.join("manifest.toml").exists();
    let directory = if is_study { &trainings } else { &args.directory };
    if is_study {
        let words =
            "a study: drawing its trainings; the `byrote study` that made it draws the whole page again";
        ui::note(common.quiet, words);
    }
    let record = Record::load(directory)?;
    let page = page_of(&record, directory)?;
    let report = write_page(directory, &page)?;
    let done = record.done().count();
    if common.json {
        ui::print_json(&json!({
            "name": record.name,
            "jobs": record.jobs,
            "done": done,
            "failed": record.rows.len() - done,
            "complete": record.is_complete(),
            "report_file": report,
        }))?;
    } else {
        let state = match record.is_complete() {
            true => "complete".to_owned(),
            false => format!("{} of {} jobs done", thousands(done as u64), thousands(record.jobs as u64)),
        };
        ui::print(&format!("{}: {state}\n", record.name))?;
        ui::note(common.quiet, &format!("wrote {}", report.display()));
    }
    Ok(ExitCode::SUCCESS)
}
