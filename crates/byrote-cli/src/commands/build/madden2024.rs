//! `byrote build madden2024`.

use super::{BuildArgs, Built};
use crate::args::Common;
use crate::input::CorpusInput;
use crate::memory;
use crate::progress::Terminal;
use crate::ui::{self, Table, thousands};
use byrote::construct::madden2024::literal::literal;
use byrote::construct::madden2024::{Report, Solver, build};
use byrote::construct::{Madden2024Method, Madden2024Spec};
use byrote::dataset::Dataset;
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build madden2024                                    the built-in stories, attention, tanh
  byrote build madden2024 --mixer average --d-model 1        one dimension is enough
  byrote build madden2024 names.txt --tokenizer char --out names.safetensors
  byrote build madden2024 --activation gelu --slack 0.05 --out gelu.safetensors
  byrote build madden2024 --builtin 5 --method literal       the proof as it stands, in hundreds of bits";

#[derive(Debug, Args)]
pub struct Madden2024Command {
    #[command(flatten)]
    pub corpus: CorpusInput,
    #[command(flatten)]
    pub model: Madden2024Spec,
    #[command(flatten)]
    pub output: BuildArgs,
}

pub fn run(args: &Madden2024Command, common: &Common) -> Result<ExitCode> {
    let begun = Instant::now();
    let settings = args.model.resolve(common.seed, memory::for_matrices(args.corpus.spec.max_memory))?;
    args.output.check(&args.corpus)?;
    if args.model.method == Madden2024Method::Literal && args.output.out.is_some() {
        let message = "the literal construction has weights of hundreds of bits; it is reported, not stored";
        return Err(Error::setting("out", message));
    }
    let corpus = args.corpus.read(common, true)?;
    let problem = Dataset::from_corpus(&corpus)?;
    if args.model.method == Madden2024Method::Literal {
        return run_literal(args, common, &problem, begun);
    }
    let building = Instant::now();
    let (model, report) = build(&problem, &settings, &Terminal::new(common.quiet))?;
    let seconds_building = building.elapsed().as_secs_f64();
    let rows = rows(&report);
    let report = json!(report);
    let built = Built {
        method: "madden2024",
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

/// The proof as it stands: a report, no model.
fn run_literal(
    args: &Madden2024Command,
    common: &Common,
    problem: &Dataset,
    begun: Instant,
) -> Result<ExitCode> {
    let settings = args.model.literal(common.seed)?;
    let report = literal(problem, &settings, &Terminal::new(common.quiet))?;
    if common.json {
        let mut object = json!(report);
        object["method"] = json!("madden2024");
        object["solver"] = json!("literal");
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        ui::print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let contexts = thousands(report.contexts as u64);
    let mut out =
        format!("{}: madden2024, the proof as it stands, {contexts} contexts\n\n", args.corpus.spec.title());
    let mut table = Table::new(&["bits", &report.bits.to_string(), "after the point"], &[0, 2]);
    let rows = [
        ("largest logit error", format!("{:.1e}", report.max_logit_error), "with that many bits".to_owned()),
        (
            "in double precision",
            report.max_logit_error_in_f64.map_or("-".into(), |e| format!("{e:.1e}")),
            "the same weights, rounded".into(),
        ),
        ("condition", format!("2^{:.0}", report.log2_condition), "of the features".into()),
        ("largest weight", format!("2^{:.0}", report.log2_largest_weight), "of the output".into()),
        (
            "features",
            if report.certified_regular { "regular" } else { "not proven" }.into(),
            "proven, whatever the rounding".into(),
        ),
        (
            "smallest gap",
            format!("{:.1e}", report.smallest_gap),
            "between the absolute values of two contexts".into(),
        ),
        ("retries", report.retries.to_string(), String::new()),
    ];
    for (name, value, note) in rows {
        table.row(vec![name.into(), value, note]);
    }
    out += &table.render();
    ui::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn rows(report: &Report) -> Vec<[String; 3]> {
    let solver = match report.solver {
        Solver::Sorted => "sorted: a step between every two neighbours along one direction",
        Solver::Pairs => "pairs: random hyperplanes halfway between two contexts, one linear system",
        Solver::Ramps => "ramps: a piecewise linear function along one direction",
    };
    let mut rows = vec![
        ["largest logit error".into(), format!("{:.1e}", report.max_logit_error), solver.into()],
        [
            "neurons a context".into(),
            format!("{:.3}", report.neurons_per_context),
            format!("output matrix: {:.2}% of its entries are not 0", 100.0 * report.output_density),
        ],
    ];
    if let Some(gap) = report.relative_gap {
        let note = "between two contexts along the direction, by the range";
        rows.push(["smallest gap".into(), format!("{gap:.1e}"), note.into()]);
    }
    if let Some(condition) = report.condition {
        let note = "an estimate (1-norm) of the condition number of the features";
        rows.push(["condition".into(), format!("{condition:.1e}"), note.into()]);
    }
    let note = if report.retries == 0 { "the first draw was good" } else { "draws before a good one" };
    rows.push(["retries".into(), report.retries.to_string(), note.into()]);
    rows
}
