//! `byrote build dana2024`.

use super::{BuildArgs, Built};
use crate::args::Common;
use crate::input::CorpusInput;
use crate::progress::Terminal;
use byrote::Result;
use byrote::construct::Dana2024Spec;
use byrote::construct::dana2024::build;
use byrote::dataset::Dataset;
use byrote::memory;
use byrote::report::text;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build dana2024 --random 210 --lengths 2..2 --labels 50 --d-model 10 --n-heads 20
  byrote build dana2024 --builtin 100 --out stories.safetensors
      every context exactly, with as many heads as needed
  byrote build dana2024 --builtin 100 --n-heads 4
      too few heads: the best possible fit
  byrote build dana2024 --builtin 100 --n-heads 4 --method truncate
      only the most frequent contexts";

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
    let dataset = Dataset::from_corpus(&corpus)?;
    let building = Instant::now();
    let (model, report) = build(&dataset, &settings, &Terminal::new(common.quiet))?;
    let seconds_building = building.elapsed().as_secs_f64();
    let built = Built {
        method: "dana2024",
        model,
        dataset: &dataset,
        corpus: &corpus,
        report: json!(report),
        rows: text::dana2024(&report),
        begun,
        seconds_building,
    };
    built.finish(&args.corpus.spec.title(), &args.output, common)
}
