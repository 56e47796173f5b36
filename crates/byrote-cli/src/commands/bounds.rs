//! `byrote bounds`: the capacity bounds of 21 papers for a corpus, a model, or both.

use crate::args::Common;
use crate::input::CorpusInput;
use crate::progress::Terminal;
use crate::spelling;
use crate::ui::{self, thousands};
use byrote::bounds::{Situation, SizeSpec};
use byrote::construct::dana2024::EncoderGap;
use byrote::corpus::Summary;
use byrote::dataset::Dataset;
use byrote::report::bounds_figure::capacity;
use byrote::report::json::{self, BoundsResult};
use byrote::report::{self, text};
use byrote::{Error, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote bounds                                    the built-in stories
  byrote bounds names.txt --tokenizer char --n-ctx 15 --plot bounds.svg
  byrote bounds --d-model 16 --n-heads 4 --d-mlp 512 --d-vocab 780
  byrote bounds names.txt --tokenizer char --n-ctx 15 --d-model 64 --d-mlp 4096
  byrote bounds --builtin 1000 --n-layers 4 --d-model 64    a GPT-2 of four blocks
  byrote bounds --builtin 100 --encoder 8          the smallest gap of an output of rank 8
  byrote bounds --parameters 124000000 --d-vocab 50257 --n-ctx 1024

Without --random, --d-vocab is the vocabulary size of the model.";

#[derive(Debug, Args)]
pub struct BoundsCommand {
    #[command(flatten)]
    pub corpus: CorpusInput,
    #[command(flatten)]
    pub model: SizeSpec,
    /// Plot contexts against parameters; FILE ends in .svg or .png; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub plot: Vec<PathBuf>,
    /// Search for the best encoder of rank D: it estimates the smallest gap of any model whose output reads D numbers;
    /// may be given more than once
    #[arg(long, allow_negative_numbers = true, value_name = "D")]
    pub encoder: Vec<u64>,
}

pub fn run(args: &BoundsCommand, common: &Common) -> Result<ExitCode> {
    for path in &args.plot {
        report::check_figure_path("plot", path)?;
    }
    args.model.check()?;
    args.encoder.iter().try_for_each(|&d| EncoderGap::check(d))?;
    let model_only = args.model.parameters.is_some() || args.model.has_shape();
    // `d_vocab` is that of random sequences if there are any, otherwise of the model.
    let typed = args.corpus.spec.d_vocab.filter(|_| args.corpus.spec.random.is_none());
    let mut input = args.corpus.clone();
    if typed.is_some() {
        input.spec.d_vocab = None;
    }
    input.check([], args.plot.iter().map(|path| ("plot", path.as_path())))?;
    let searches = !args.encoder.is_empty();
    let corpus = match args.corpus.spec.is_given() || !model_only || searches {
        true => Some(input.read(common, searches)?),
        false => None,
    };
    let summary = corpus.as_ref().map(|c| &c.summary);
    let situation = args.model.situation(summary, typed, args.corpus.spec.n_ctx)?;
    let found = BoundsResult::new(&situation);
    let encoders: Vec<EncoderGap> = match &corpus {
        Some(corpus) if searches => {
            let (dataset, observer) = (Dataset::from_corpus(corpus)?, Terminal::new(common.quiet));
            let search = |&d: &u64| EncoderGap::search(&dataset, d, common.seed, &observer);
            args.encoder.iter().map(search).collect::<Result<_>>()?
        }
        _ => Vec::new(),
    };
    draw(&args.plot, &situation, &args.corpus.spec.title())?;
    let json = || json::bounds(summary, &situation, &found, &encoders);
    let title = args.corpus.spec.title();
    let text = || {
        text::bounds(&situation, &title, &found.rows, &found.families, &found.verdict)
            + &text::encoders(&encoders)
    };
    ui::show(common, json, text)?;
    if let Some(hint) = summary.and_then(Summary::hint) {
        ui::note(common.quiet, &format!("hint: {}", spelling::of_text(hint)));
    }
    ui::wrote(common, args.plot.iter().chain(&args.corpus.save).chain(&args.corpus.list));
    Ok(ExitCode::SUCCESS)
}

fn draw(paths: &[PathBuf], situation: &Situation, title: &str) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let named = situation.corpus.as_ref().map(|c| format!("{title}: {} contexts", thousands(c.contexts)));
    let model = situation.parameter_count().map(|k| format!("model: {} parameters", thousands(k)));
    let figure =
        capacity(situation, &named.unwrap_or_default(), &model.unwrap_or_default()).ok_or_else(|| {
            Error::setting("plot", "nothing to draw without a vocabulary: give a corpus or `d_vocab`")
        })?;
    paths.iter().try_for_each(|path| report::write_figure(path, &figure))
}
