//! `byrote report`: the page of a run directory, drawn again.

use crate::args::Common;
use crate::commands::reproduce::sweep::page_of;
use crate::commands::study::draw;
use crate::reporting::write_page;
use crate::ui::{self, thousands};
use byrote::Result;
use byrote::study::{self, Study};
use byrote::sweep::Record;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
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
    if args.directory.join(study::FILE).exists() {
        return redraw_study(&args.directory, common);
    }
    let directory = &args.directory;
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

/// Draws the report of a study again, from what it saved.
fn redraw_study(directory: &Path, common: &Common) -> Result<ExitCode> {
    let study = Study::load(directory)?;
    let report = draw(&study, directory)?;
    if common.json {
        let done = study.trained.len() - study.failed();
        ui::print_json(&json!({
            "name": "study",
            "jobs": study.trained.len(),
            "done": done,
            "failed": study.failed(),
            "complete": study.failed() == 0,
            "report_file": report,
        }))?;
    } else {
        ui::print(&(study.verdict().join("\n") + "\n"))?;
        ui::note(common.quiet, &format!("wrote {}", report.display()));
    }
    Ok(ExitCode::SUCCESS)
}
