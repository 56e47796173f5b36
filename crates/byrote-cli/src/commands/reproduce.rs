//! `byrote reproduce`: a paper's figure, small by default, `--full` as published.

use crate::args::{Common, command_line};
use crate::commands::sweep::{clean_up_in, exit_code};
use crate::progress::Terminal;
use crate::ui;
use byrote::Result;
use byrote::report::text::TextTable;
use byrote::reproduce::{self, FIGURES, PaperFigure};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote reproduce                             the list of figures
  byrote reproduce madden2024-fig1             the report in madden2024-fig1/report.html
  byrote reproduce madden2024-fig1 --full --dry-run
  byrote reproduce madden2024-theorem1         corpora that a given model cannot learn
  byrote reproduce sander2024-fig3 --out figures
  byrote reproduce sander2024-depth            layers of small steps, and the flow that they follow
  byrote reproduce sander2024-fig4 --full
  byrote reproduce kajitsuka2024-scaling --out scaling";

#[derive(Debug, Args)]
pub struct ReproduceCommand {
    /// The figure; without one, all figures are listed
    #[arg(value_name = "FIGURE")]
    pub figure: Option<String>,
    /// The directory for its files [default: the figure's name]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Make the figure as published instead of a small version
    #[arg(long)]
    pub full: bool,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

pub fn run(args: &ReproduceCommand, common: &Common) -> Result<ExitCode> {
    let Some(name) = &args.figure else { return list(common) };
    let figure = PaperFigure::by_key(name)?;
    let observer = Terminal::new(common.quiet);
    let made = match args.dry_run {
        true => reproduce::preview(figure, args.full, common.seed, &observer)?,
        false => {
            let out = args.out.clone().unwrap_or_else(|| PathBuf::from(figure.key));
            clean_up_in(&out);
            reproduce::run(figure, args.full, common.seed, &out, Some(&command_line()), &observer)?
        }
    };
    drop(observer);
    let json = || {
        let mut json = made.json;
        json["figure"] = json!(figure.key);
        json["files"] = made.files.iter().map(|f| json!(f.to_string_lossy())).collect();
        json
    };
    ui::show(common, json, || made.text)?;
    ui::wrote(common, &made.files);
    Ok(made.outcome.map_or(ExitCode::SUCCESS, |outcome| exit_code(&outcome)))
}

/// Lists the figures.
fn list(common: &Common) -> Result<ExitCode> {
    let json = || {
        let list = FIGURES.iter().map(|f| json!({"figure": f.key, "what": f.description}));
        json!({"figures": list.collect::<Vec<Value>>()})
    };
    let text = || {
        let mut table = TextTable::new(&["figure", "what"], &[0, 1]);
        FIGURES.iter().for_each(|f| table.row([f.key, f.description]));
        table.render()
    };
    ui::show(common, json, text)?;
    Ok(ExitCode::SUCCESS)
}
