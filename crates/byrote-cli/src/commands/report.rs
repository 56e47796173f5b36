//! `byrote report`: the page of a run directory, a study or an audit, drawn again.

use crate::args::Common;
use crate::commands::sweep::clean_up_in;
use crate::progress::Terminal;
use crate::ui::{self, thousands};
use byrote::Result;
use byrote::output::{Holds, holds};
use byrote::report::{draw_audit, draw_study, draw_sweep, text};
use byrote::study::{self, Study};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote report widths          widths/report.html, from what byrote sweep has found so far
  byrote report madden2024-fig1
  byrote report audit           audit/report.html, from what byrote audit has saved";

#[derive(Debug, Args)]
pub struct ReportCommand {
    /// A run directory, complete or not
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

pub fn run(args: &ReportCommand, common: &Common) -> Result<ExitCode> {
    let directory = &args.directory;
    clean_up_in(directory);
    let observer = Terminal::new(common.quiet);
    if holds(directory) == Some(Holds::Audit) {
        let (audit, report) = draw_audit(directory, &observer)?;
        drop(observer);
        let json =
            || json!({"name": "audit", "verdict": audit.verdict, "complete": true, "report_file": report});
        ui::show(common, json, || text::audit(&audit))?;
        if !common.json {
            ui::wrote(common, [&report]);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (name, text, jobs, done, failed, report) = match directory.join(study::FILE).exists() {
        true => {
            let study = Study::load(directory)?;
            let report = draw_study(&study, directory, &observer)?;
            let (jobs, failed) = (study.trained.len(), study.failed());
            ("study".to_owned(), study.verdict().join("\n"), jobs, jobs - failed, failed, report)
        }
        false => {
            let (record, report) = draw_sweep(directory, &observer)?;
            let (jobs, done) = (record.jobs, record.done().count());
            let state = match record.is_complete() {
                true => "complete".to_owned(),
                false => format!("{} of {} jobs done", thousands(done as u64), thousands(jobs as u64)),
            };
            let text = format!("{}: {state}", record.name);
            (record.name, text, jobs, done, record.rows.len() - done, report)
        }
    };
    drop(observer);
    let json = || {
        json!({"name": name, "jobs": jobs, "done": done, "failed": failed, "complete": done == jobs,
               "report_file": report})
    };
    ui::show(common, json, || text + "\n")?;
    if !common.json {
        ui::wrote(common, [&report]);
    }
    Ok(ExitCode::SUCCESS)
}
