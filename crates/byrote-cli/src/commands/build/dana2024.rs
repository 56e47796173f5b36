//! `byrote build dana2024`.

use super::{BuildArgs, Built};
use crate::args::Common;
use crate::input::CorpusInput;
use crate::memory;
use crate::progress::Terminal;
use crate::ui::thousands;
use byrote::Result;
use byrote::construct::Dana2024Spec;
use byrote::construct::dana2024::{Method, Report, Task, build};
use byrote::dataset::Dataset;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build dana2024 --random 210 --lengths 2..2 --labels 50 --d-model 10 --n-heads 20
  byrote build dana2024 --builtin 100 --out stories.safetensors      every context exactly, heads as needed
  byrote build dana2024 --builtin 100 --n-heads 4                    too few for that: as well as they can
  byrote build dana2024 --builtin 100 --n-heads 4 --method truncate  the most frequent contexts and nothing else";

#[derive(Debug, Args)]
pub struct Dana2024Command {
    #[command(flatten)]
    pub corpus: CorpusInput,
    #[command(flatten)]
    pub model: Dana2024Spec,
    #[command(flatten)]
    pub output: BuildArgs,
}

pub fn run(args: &Dana2024Command, common: &Common) -> Result<ExitCode> {
    let begun = Instant::now();
    let settings = args.model.resolve(common.seed, memory::for_matrices(args.corpus.spec.max_memory))?;
    args.output.check(&args.corpus)?;
    let corpus = args.corpus.read(common, true)?;
    let problem = Dataset::from_corpus(&corpus)?;
    let building = Instant::now();
    let (model, report) = build(&problem, &settings, &Terminal::new(common.quiet))?;
    let seconds_building = building.elapsed().as_secs_f64();
    let rows = rows(&report);
    let report = json!(report);
    let built = Built {
        method: "dana2024",
        model,
        problem: &problem,
        corpus: &corpus,
        report,
        rows,
        begun,
        seconds_building,
    };
    built.finish(&args.corpus.spec.title(), &args.output, common)
}

fn rows(report: &Report) -> Vec<[String; 3]> {
    let count = |n: usize| thousands(n as u64);
    let how = match report.solver {
        Method::Exact => "exact: every context has the logits that were asked for",
        Method::Refit => {
            "refit: more contexts than capacity; the last maps fit all of them as well as they can"
        }
        Method::Truncate => "truncate: the most frequent contexts have the logits that were asked for",
    };
    let mut rows = vec![
        ["largest logit error".into(), format!("{:.1e}", report.max_logit_error), how.into()],
        [
            "capacity".into(),
            count(report.capacity),
            format!(
                "contexts at most: {} heads of min({}, {}), and {} distinct last tokens",
                thousands(report.n_heads),
                report.d_head,
                report.d_model,
                count(report.census.distinct_last_tokens)
            ),
        ],
    ];
    if report.solver != Method::Refit {
        rows.push(["stored exactly".into(), count(report.stored), "contexts".into()]);
    }
    rows.push([
        "Corollary 2".into(),
        format!("{:.2}%", 100.0 * report.corollary2_accuracy),
        "of contexts right, on average over random labels: no guarantee".into(),
    ]);
    let encoder = &report.encoder;
    let note = match (report.task, encoder.exact) {
        (Task::Association, _) => format!("nats: that of codes of dimension {}", encoder.rank),
        (_, true) => format!("nats: smoothing alone, as {} dimensions hold all distributions", encoder.rank),
        (_, false) => {
            format!("nats: about what any output that reads {} numbers leaves (an estimate)", encoder.rank)
        }
    };
    rows.push(["gap of the encoder".into(), format!("{:.3e}", encoder.gap_nats.0), note]);
    if let Some([least_squares, convex, _]) = report.refit_gaps_nats {
        let note = format!("nats after the convex descent, {:.3e} after least squares", least_squares.0);
        rows.push(["gap on the way".into(), format!("{:.3e}", convex.0), note]);
    }
    if let Some(condition) = report.condition {
        let note = "an estimate (1-norm) of the condition number of the features";
        rows.push(["condition".into(), format!("{condition:.1e}"), note.into()]);
    }
    let note = if report.retries == 0 { "the first draw was good" } else { "draws before a good one" };
    rows.push(["retries".into(), report.retries.to_string(), note.into()]);
    rows
}
