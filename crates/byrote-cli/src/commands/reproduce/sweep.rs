//! Figures that are sweeps: a plan is run in the figure's directory, and its page drawn from what is there.

use super::{Job, Made};
use crate::commands::sweep::{SweepArgs, estimate, execute_plan, exit_code};
use crate::interrupt;
use crate::progress::Terminal;
use crate::reporting::{command_line, write_page};
use crate::ui::{self, thousands};
use byrote::Result;
use byrote::construct::{dana2024, kajitsuka2024, madden2024};
use byrote::corpus::{Corpus, CorpusSpec, Outputs};
use byrote::dataset::Dataset;
use byrote::figures::html::Page;
use byrote::model::{Activation, Counting};
use byrote::output::OutputFile;
use byrote::report::papers::trained_capacity::Construction;
use byrote::report::papers::{Found, found};
use byrote::sweep::{Corpora, Plan, Record};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Where the constructions of `capacity` stand in its directory.
const CONSTRUCTIONS: &str = "constructions.csv";
/// Sequences that they are written down for.
const SIZES: [u64; 5] = [64, 128, 256, 512, 1024];

/// Runs a figure's plan, and draws its page.
pub fn make(job: &Job<'_>, key: &str, text: &str) -> Result<(Made, ExitCode)> {
    let plan = Plan { command: Some(command_line()), ..Plan::parse(text, key)?.moved(job.common.seed) };
    let common = job.common;
    let corpora = Corpora::read(&plan.jobs, &Terminal::new(common.quiet))?;
    if job.dry_run {
        let seconds: f64 = plan.jobs.iter().map(|j| estimate(j, &corpora)).sum();
        let text =
            format!("{} trainings, about {}\n", thousands(plan.jobs.len() as u64), ui::duration(seconds));
        let json = json!({"jobs": plan.jobs.len(), "estimated_seconds": seconds, "full": job.full});
        return Ok((Made { text, json, files: Vec::new() }, ExitCode::SUCCESS));
    }
    let running =
        SweepArgs { out: None, dry_run: false, fail_fast: false, keep_models: false, checkpoint_every: 30.0 };
    let (outcome, _) = execute_plan(&plan, &corpora, job.out, &running, common)?;
    if key == "capacity" && !outcome.interrupted {
        write_constructions(job, &plan.jobs[0].corpus)?;
    }
    let record = Record::load(job.out)?;
    let Found { page, lines, json: mut shown } =
        found(&record, &Construction::read(&job.out.join(CONSTRUCTIONS))?)?;
    let report = write_page(job.out, &page)?;
    shown["jobs"] = json!(outcome.jobs);
    shown["done"] = json!(outcome.done);
    shown["failed"] = json!(outcome.failed);
    shown["interrupted"] = json!(outcome.interrupted);
    shown["full"] = json!(job.full);
    let mut text = format!(
        "{key}: {} of {} trainings done\n",
        thousands(outcome.done as u64),
        thousands(outcome.jobs as u64)
    );
    for line in lines {
        text += &format!("{line}\n");
    }
    if outcome.interrupted {
        text += "interrupted; the same command goes on\n";
    }
    let files = vec![job.out.join("results.csv"), report];
    Ok((Made { text, json: shown, files }, exit_code(&outcome)))
}

/// The page of any run directory.
pub fn page_of(record: &Record, directory: &Path) -> Result<Page> {
    Ok(found(record, &Construction::read(&directory.join(CONSTRUCTIONS))?)?.page)
}

/// Writes the constructions of the first sequences of a corpus down, and what they came to.
fn write_constructions(job: &Job<'_>, spec: &CorpusSpec) -> Result<()> {
    let path = job.out.join(CONSTRUCTIONS);
    if path.exists() {
        return Ok(());
    }
    let labels = u64::from(spec.labels.unwrap_or_default());
    let observer = Terminal::new(job.common.quiet);
    let mut all = Vec::new();
    for n in SIZES {
        if interrupt::asked() {
            return Ok(());
        }
        ui::note(job.common.quiet, &format!("writing down three models of {n} sequences"));
        let spec = spec.clone().random(n);
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let dataset = Dataset::from_corpus(&Corpus::from_spec(&spec, outputs, &observer)?)?;
        let seed = job.common.seed;
        let hidden =
            madden2024::Settings { activation: Activation::Tanh, seed, ..madden2024::Settings::default() };
        let hidden = madden2024::build(&dataset, &hidden, &observer)?.0.parameters().len() as u64;
        let task = Some(dana2024::Task::Association);
        let attention = dana2024::Settings { task, seed, ..dana2024::Settings::default() };
        let attention = dana2024::build(&dataset, &attention, &observer)?.0.parameters().len() as u64;
        let (square_root, _) = kajitsuka2024::build_for(&dataset, seed, &observer)?;
        let count = |c| u64::try_from(square_root.parameters().total(c)).unwrap_or(u64::MAX);
        for (method, parameters, nonzero_parameters) in [
            ("madden2024", hidden, None),
            ("dana2024", attention, None),
            ("kajitsuka2024", count(Counting::Dense), Some(count(Counting::Nonzero))),
        ] {
            let method = method.into();
            all.push(Construction { method, contexts: n, labels, parameters, nonzero_parameters });
        }
    }
    OutputFile::write(&path, Construction::to_csv(&all).as_bytes())
}
