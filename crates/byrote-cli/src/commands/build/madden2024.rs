//! `byrote build madden2024`.

use super::{BuildArgs, Built};
use crate::args::Common;
use crate::input::CorpusInput;
use crate::progress::Terminal;
use crate::ui;
use byrote::construct::madden2024::{build, literal::literal};
use byrote::construct::{Madden2024Method, Madden2024Spec};
use byrote::dataset::Dataset;
use byrote::memory;
use byrote::report::{json, text};
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build madden2024                                 the built-in stories, attention, tanh
  byrote build madden2024 --mixer average --d-model 1     one dimension is enough
  byrote build madden2024 names.txt --tokenizer char --out names.safetensors
  byrote build madden2024 --activation gelu --slack 0.05 --out gelu.safetensors
  byrote build madden2024 --builtin 5 --method literal    the proof taken literally";

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
    let dataset = Dataset::from_corpus(&corpus)?;
    if args.model.method == Madden2024Method::Literal {
        return run_literal(args, common, &dataset, begun);
    }
    let building = Instant::now();
    let (model, report) = build(&dataset, &settings, &Terminal::new(common.quiet))?;
    let seconds_building = building.elapsed().as_secs_f64();
    let built = Built {
        method: "madden2024",
        model,
        dataset: &dataset,
        corpus: &corpus,
        report: json!(report),
        rows: text::madden2024(&report),
        begun,
        seconds_building,
    };
    built.finish(&args.corpus.spec.title(), &args.output, common)
}

/// The proof taken literally: a report, no model.
fn run_literal(
    args: &Madden2024Command,
    common: &Common,
    dataset: &Dataset,
    begun: Instant,
) -> Result<ExitCode> {
    let settings = args.model.literal(common.seed)?;
    let report = literal(dataset, &settings, &Terminal::new(common.quiet))?;
    let json = || {
        let mut object = json::literal(&report);
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        object
    };
    ui::show(common, json, || text::literal(&args.corpus.spec.title(), &report))?;
    Ok(ExitCode::SUCCESS)
}
