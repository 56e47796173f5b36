//! Figures that are sweeps: a plan is run in the figure's directory, and the page is drawn from the results.

use super::{Job, Reproduced};
use crate::construct::{Dana2024Spec, MAX_MEMORY, Madden2024Spec, dana2024, kajitsuka2024, madden2024};
use crate::corpus::{Corpus, CorpusSpec, Outputs};
use crate::dataset::Dataset;
use crate::model::{Activation, Counting};
use crate::observe::{Detail, Progress, Stage};
use crate::output::OutputFile;
use crate::report::papers::trained_capacity::Construction;
use crate::report::papers::{Found, found};
use crate::report::text::duration;
use crate::sweep::{self, Corpora, Directory, Plan, SweepOptions};
use crate::units::grouped;
use crate::{Result, report};
use serde_json::json;

/// The numbers of sequences that models are constructed for.
const SIZES: [u64; 5] = [64, 128, 256, 512, 1024];

/// Runs the plan of a figure and draws its page.
pub(super) fn make(job: &Job<'_>, key: &str, text: &str) -> Result<Reproduced> {
    let plan = Plan { command: Some(job.command.to_owned()), ..Plan::parse(text, key)?.moved(job.seed) };
    let corpora = Corpora::read(&plan.jobs, job.observer)?;
    if job.dry_run {
        let seconds = plan.estimated_seconds(&corpora);
        let text =
            format!("{} training runs, about {}\n", grouped(plan.jobs.len() as u64), duration(seconds));
        let json = json!({"jobs": plan.jobs.len(), "estimated_seconds": seconds, "full": job.full});
        return Ok(Reproduced::new(text, json, Vec::new()));
    }
    let mut directory = Directory::open(job.out, &plan, &corpora)?;
    let outcome = sweep::run(&plan, &corpora, &mut directory, SweepOptions::default(), job.observer)?;
    if key == "capacity" && !outcome.interrupted {
        write_constructions(job, &plan.jobs[0].corpus)?;
    }
    job.observer.progress(&Progress::new(Stage::Drawing, 0, None));
    let constructions = Construction::read(&job.out.join(Construction::FILE))?;
    let Found { page, lines, json: mut shown } = found(&directory.to_record(), &constructions)?;
    let report = report::write(job.out, &page)?;
    shown["jobs"] = json!(outcome.jobs);
    shown["done"] = json!(outcome.done);
    shown["failed"] = json!(outcome.failed);
    shown["interrupted"] = json!(outcome.interrupted);
    shown["full"] = json!(job.full);
    let (done, jobs) = (grouped(outcome.done as u64), grouped(outcome.jobs as u64));
    let mut text = format!("{key}: {done} of {jobs} training runs done\n");
    for line in lines {
        text += &format!("{line}\n");
    }
    if outcome.interrupted {
        text += "interrupted; run the same command again to resume\n";
    }
    let files = vec![job.out.join("results.csv"), report];
    Ok(Reproduced { outcome: Some(outcome), ..Reproduced::new(text, shown, files) })
}

/// Constructs models for the first sequences of a corpus and writes a table of their sizes.
fn write_constructions(job: &Job<'_>, spec: &CorpusSpec) -> Result<()> {
    let path = job.out.join(Construction::FILE);
    if path.exists() {
        return Ok(());
    }
    let labels = u64::from(spec.labels.unwrap_or_default());
    let observer = job.observer;
    let mut all = Vec::new();
    for n in SIZES {
        if observer.should_stop() {
            return Ok(());
        }
        let note = format!("constructing three models for {n} sequences");
        observer.progress(&Progress::new(Stage::Solving, 0, None).with(Detail::Note(&note)));
        let spec = spec.clone().random(n);
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let dataset = Dataset::from_corpus(&Corpus::from_spec(&spec, outputs, observer)?)?;
        let seed = job.seed;
        let hidden = Madden2024Spec::default().activation(Activation::Tanh).resolve(seed, MAX_MEMORY)?;
        let hidden = madden2024::build(&dataset, &hidden, observer)?.0.parameters().len() as u64;
        let task = dana2024::Task::Association;
        let attention = Dana2024Spec::default().task(task).resolve(seed, MAX_MEMORY)?;
        let attention = dana2024::build(&dataset, &attention, observer)?.0.parameters().len() as u64;
        let (square_root, _) = kajitsuka2024::build_for(&dataset, seed, observer)?;
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
