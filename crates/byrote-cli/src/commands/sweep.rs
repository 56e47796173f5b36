//! `byrote sweep`: many trainings from a plan.

use crate::args::Common;
use crate::commands::reproduce::sweep::page_of;
use crate::interrupt;
use crate::progress::Terminal;
use crate::reporting::{command_line, write_page};
use crate::ui::{self, Table, thousands, thousands_f64};
use byrote::sweep::{Corpora, Directory, Job, Outcome, Plan, Record, Row, RunOptions, run};
use byrote::train::{Method, TrainSpec};
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote sweep widths.toml --dry-run          jobs, parameters, estimated time
  byrote sweep widths.toml --out widths       run it; the same command goes on after Ctrl-C or a crash

A plan is a grid: every list is an axis.
  seeds = [0, 1, 2]
  [corpus]
  documents = [100, 200, 400]     # of the built-in stories, or of `path`
  [model]
  d_mlp = [16, 64, 256]
  [training]
  optimizer = \"lbfgs\"";

#[derive(Debug, Args)]
pub struct SweepCommand {
    /// A TOML file
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Every job takes all its steps: no stop near the floor, none for standing still
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
    /// List the jobs, their parameters and an estimate of the time, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Stop at the first job that fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Write the trained models too
    #[arg(long)]
    pub keep_models: bool,
    /// Seconds between the checkpoints of a job; 0 writes one after every step
    #[arg(long, allow_negative_numbers = true, value_name = "S", default_value_t = 30.0)]
    pub checkpoint_every: f64,
}

pub fn execute(args: &SweepCommand, common: &Common) -> Result<ExitCode> {
    let mut plan = Plan { command: Some(command_line()), ..Plan::load(&args.plan)?.moved(common.seed) };
    if args.full {
        for job in &mut plan.jobs {
            job.training.stop_gap = None;
            job.training.stop_relative_gap = Some(0.0);
            job.training.stall = 0.0;
        }
    }
    let out = args.running.out.clone().unwrap_or_else(|| PathBuf::from(&plan.name));
    let corpora = Corpora::read(&plan.jobs, &Terminal::new(common.quiet))?;
    if args.running.dry_run {
        return dry_run(&plan, &corpora, common);
    }
    let started = Instant::now();
    let (outcome, rows) = execute_plan(&plan, &corpora, &out, &args.running, common)?;
    let seconds = started.elapsed().as_secs_f64();
    let record = Record::load(&out)?;
    let report = write_page(&out, &page_of(&record, &out)?)?;
    if common.json {
        ui::print_json(&json!({
            "name": plan.name,
            "directory": out,
            "jobs": outcome.jobs,
            "done": outcome.done,
            "failed": outcome.failed,
            "interrupted": outcome.interrupted,
            "results_file": out.join("results.csv"),
            "report_file": report,
            "seconds": seconds,
        }))?;
    } else {
        ui::print(&human(&plan, &rows, &outcome))?;
        ui::note(common.quiet, &format!("wrote {}", out.join("results.csv").display()));
        ui::note(common.quiet, &format!("wrote {}", report.display()));
    }
    Ok(exit_code(&outcome))
}

/// 0 all done, 1 some failed, 130 interrupted.
pub fn exit_code(outcome: &Outcome) -> ExitCode {
    match (outcome.interrupted, outcome.done == outcome.jobs) {
        (true, _) => ExitCode::from(interrupt::EXIT_CODE),
        (_, true) => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}

/// Runs a plan in a directory, with progress on standard error.
pub fn execute_plan(
    plan: &Plan,
    corpora: &Corpora,
    out: &std::path::Path,
    args: &SweepArgs,
    common: &Common,
) -> Result<(Outcome, Vec<Row>)> {
    if args.checkpoint_every.is_nan() || args.checkpoint_every < 0.0 {
        return Err(Error::setting(
            "checkpoint_every",
            format!("must be at least 0 seconds (got {})", args.checkpoint_every),
        ));
    }
    let mut directory = Directory::open(out, plan, corpora)?;
    interrupt::clean_up_beside(&out.join("results.csv"));
    interrupt::clean_up_beside(&directory_file(out, "curves"));
    interrupt::clean_up_beside(&directory_file(out, "checkpoints"));
    let before = directory.done();
    if before > 0 {
        let message = format!(
            "{} of {} jobs are done already",
            thousands(before as u64),
            thousands(plan.jobs.len() as u64)
        );
        ui::note(common.quiet, &message);
        if args.keep_models
            && (0..plan.jobs.len()).any(|i| directory.is_done(i) && !directory.model(i).exists())
        {
            ui::note(common.quiet, "their models were not kept; --keep-models is for those that are left");
        }
    }
    let options = RunOptions {
        checkpoint_every: args.checkpoint_every,
        fail_fast: args.fail_fast,
        keep_models: args.keep_models,
    };
    let outcome = run(plan, corpora, &mut directory, options, &Terminal::new(common.quiet))?;
    Ok((outcome, directory.rows().cloned().collect()))
}

fn directory_file(out: &std::path::Path, part: &str) -> PathBuf {
    out.join(part).join("file")
}

/// Operations a second that training reaches, about, for estimates.
const PACE: f64 = 1e11;
/// Steps of L-BFGS, about, for estimates: what most need to 1% of the floor, or to see that they stall.
const STEPS: f64 = 1500.0;

/// An estimate, in seconds, of what a job takes with all threads.
pub fn estimate(job: &Job, corpora: &Corpora) -> f64 {
    let Ok(dataset) = corpora.of(job) else { return 0.0 };
    let Ok(config) = job.model.resolve(dataset.d_vocab(), dataset.n_ctx()) else { return 0.0 };
    let TrainSpec { optimizer, steps, stall, .. } = job.training;
    let given = steps.unwrap_or(optimizer.default_steps()) as f64;
    // Adam, and what does not look whether it stalls, take what they are given.
    let steps = if optimizer == Method::Lbfgs && stall > 0.0 { given.min(STEPS) } else { given };
    let share = match job.training.batch {
        Some(batch) => (batch as f64 / dataset.len() as f64).min(1.0),
        None => 1.0,
    };
    steps * (1e-4 + share * job.operations(&config, dataset) / PACE)
}

fn dry_run(plan: &Plan, corpora: &Corpora, common: &Common) -> Result<ExitCode> {
    let jobs: Vec<_> = plan
        .jobs
        .iter()
        .map(|job| {
            let dataset = corpora.of(job)?;
            let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx());
            let error = config.as_ref().err().map(ToString::to_string);
            let parameters = config.map_or(0, |c| c.n_parameters());
            Ok((job, job.id(dataset), dataset, parameters, estimate(job, corpora), error))
        })
        .collect::<Result<_>>()?;
    let total: f64 = jobs.iter().map(|j| j.4).sum();
    if common.json {
        let list: Vec<_> = jobs
            .iter()
            .map(|(job, id, dataset, parameters, seconds, error)| {
                json!({"job": id, "settings": job, "contexts": dataset.len(), "parameters": parameters,
                       "estimated_seconds": seconds, "error": error})
            })
            .collect();
        ui::print_json(&json!({"name": plan.name, "jobs": list, "estimated_seconds": total}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let heads =
        ["job", "documents", "contexts", "preset", "d_model", "d_mlp", "parameters", "seed", "about (s)"];
    let mut table = Table::new(&heads, &[0, 3]);
    for (job, id, dataset, parameters, seconds, error) in jobs.iter().take(200) {
        table.row(vec![
            id.clone(),
            thousands(dataset.documents()),
            thousands(dataset.len() as u64),
            job.model.preset.unwrap_or_default().to_string(),
            job.model.width().to_string(),
            job.model.d_mlp.map_or(String::new(), thousands),
            error.clone().unwrap_or_else(|| thousands(*parameters as u64)),
            job.seed.to_string(),
            format!("{seconds:.1}"),
        ]);
    }
    let mut out = table.render();
    if jobs.len() > 200 {
        out += &format!("... {} more: --json\n", jobs.len() - 200);
    }
    out += &format!("\n{} jobs, about {}\n", thousands(jobs.len() as u64), ui::duration(total));
    ui::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn human(plan: &Plan, rows: &[Row], outcome: &Outcome) -> String {
    let mut out = format!(
        "{}: {} of {} jobs done, {} failed\n\n",
        plan.name,
        thousands(outcome.done as u64),
        thousands(outcome.jobs as u64),
        outcome.failed
    );
    let heads = [
        "documents",
        "contexts",
        "d_model",
        "d_mlp",
        "parameters",
        "seed",
        "steps",
        "stop",
        "gap (nats)",
        "of the floor",
        "memorized",
    ];
    let mut table = Table::new(&heads, &[7]);
    for row in rows.iter().take(100) {
        let result = row.result.as_ref();
        table.row(vec![
            thousands(row.documents),
            thousands(row.contexts),
            row.settings.model.width().to_string(),
            thousands(row.d_mlp),
            thousands(row.parameters),
            row.settings.seed.to_string(),
            result.map_or(String::new(), |r| thousands(r.steps)),
            result.map_or_else(|| row.error.clone().unwrap_or_default(), |r| r.stop.to_string()),
            result.map_or(String::new(), |r| thousands_f64(r.gap_nats, 3)),
            row.relative_gap().map_or(String::new(), |g| match row.floor_nats > 0.0 {
                true => format!("{:.2}%", 100.0 * g),
                false => format!("{g:.3} nats a prediction"),
            }),
            result.map_or(String::new(), |r| thousands(r.memorized)),
        ]);
    }
    out += &table.render();
    if rows.len() > 100 {
        out += &format!("... {} more in results.csv\n", rows.len() - 100);
    }
    out
}
