//! `byrote study`: the main job, and one report.

use crate::args::{Common, command_line};
use crate::commands::sweep::clean_up_in;
use crate::input::CorpusInput;
use crate::interrupt;
use crate::paths;
use crate::progress::Terminal;
use crate::ui;
use byrote::memory;
use byrote::report::{draw_study, json};
use byrote::study::{self, Study, StudyScale, StudySpec};
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote study                       the built-in stories
  byrote study my.txt --quick        a first look
  byrote study my.txt --out study    report.html, results and models in the directory study

The floor and the bounds are those of the whole text. Models are built and trained on as many
of its first documents as the time allows; --full uses all of them. An interrupted study keeps
what is finished: run the command again to resume.";

#[derive(Debug, Args)]
pub struct StudyCommand {
    #[command(flatten)]
    pub corpus: CorpusInput,
    #[command(flatten)]
    pub study: StudyArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Study")]
pub struct StudyArgs {
    /// Take a first look: part of the corpus, a few widths
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Use all documents and more widths, however long it takes
    #[arg(long)]
    pub full: bool,
    /// Also show a transformer that learns in context
    #[arg(long)]
    pub incontext: bool,
    /// Also train GPT-2 with L layers, and show depth beside width
    #[arg(long, allow_negative_numbers = true, value_name = "L")]
    pub n_layers: Option<u64>,
    /// The directory for the report, the results and the models
    #[arg(long, value_name = "DIR", default_value = "study")]
    pub out: PathBuf,
}

impl StudyArgs {
    fn scale(&self) -> StudyScale {
        match (self.quick, self.full) {
            (true, _) => StudyScale::Quick,
            (_, true) => StudyScale::Full,
            _ => StudyScale::Default,
        }
    }
}

pub fn run(args: &StudyCommand, common: &Common) -> Result<ExitCode> {
    let started = Instant::now();
    let out = &args.study.out;
    let written = paths::in_directory(out, &[study::FILE, "report.html"]);
    args.corpus.check([], written.iter().map(|path| ("out", path.as_path())))?;
    let mut spec = StudySpec::default()
        .corpus(args.corpus.seeded(common))
        .scale(args.study.scale())
        .incontext(args.study.incontext)
        .memory(memory::for_matrices(None));
    spec.n_layers = args.study.n_layers;
    clean_up_in(out);
    let outputs = args.corpus.open_outputs()?;
    if !common.quiet {
        interrupt::can_resume();
    }
    let observer = Terminal::new(common.quiet);
    let study = match study::run_with(&spec, outputs, out, Some(&command_line()), &observer) {
        Err(Error::Interrupted) => {
            drop(observer);
            if common.json {
                ui::print_json(&json!({"interrupted": true}))?;
            }
            ui::note(common.quiet, interrupt::RESUME);
            return Ok(ExitCode::from(interrupt::EXIT_CODE));
        }
        other => other?,
    };
    let report = draw_study(&study, out, &observer)?;
    drop(observer);
    show(&study, &report, started, common)?;
    if study.failed() > 0 {
        let results = out.join("training").join("results.csv");
        // Shown even by a quiet program: it is not a note.
        let (failed, all) = (study.failed(), study.trained.len());
        ui::note(
            false,
            &format!("byrote: {failed} of {all} training runs failed; see {}", results.display()),
        );
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(study: &Study, report: &Path, started: Instant, common: &Common) -> Result<()> {
    let verdict = study.verdict();
    if common.json {
        let mut object = json::study(study);
        object["report_file"] = json!(report);
        object["seconds"] = json!(started.elapsed().as_secs_f64());
        return ui::print_json(&object);
    }
    ui::print(&(verdict.join("\n") + "\n"))?;
    ui::note(common.quiet, &format!("wrote {}", report.display()));
    Ok(())
}
