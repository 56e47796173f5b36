//! `byrote bounds`: the capacity bounds of 21 papers for a corpus, a model, or both.

use crate::args::Common;
use crate::input::CorpusInput;
use crate::progress::Terminal;
use crate::spelling;
use crate::ui::{self, thousands};
use byrote::bounds::{self, CorpusFacts, Situation, SizeSpec, families};
use byrote::construct::dana2024::EncoderGap;
use byrote::corpus::{Summary, Window};
use byrote::dataset::Dataset;
use byrote::report::bounds_figure::capacity;
use byrote::report::{self, text};
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
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
    if typed == Some(0) {
        return Err(Error::setting("d_vocab", "must be at least 1 (got 0)"));
    }
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
    // As given, else that of the corpus (summaries have their own), else the default.
    let n_ctx = args.corpus.spec.n_ctx.or(summary.map(|s| s.n_ctx)).unwrap_or(Window::default().n_ctx);
    let n_ctx = u64::from(n_ctx);
    let d_vocab = typed.or(summary.map(|s| s.d_vocab));
    let situation = Situation::default()
        .corpus(summary.map(CorpusFacts::from))
        .of_model(args.model.model(d_vocab, n_ctx)?)
        .shape(args.model.shape(d_vocab, n_ctx)?)
        .parameters(args.model.parameters)
        .d_vocab(typed)
        .n_ctx(args.model.parameters.map(|_| n_ctx))
        .operations(args.model.operations)
        .bits_per_parameter(args.model.bits_per_parameter);
    let rows = bounds::evaluate(&situation);
    let families = match (&situation.corpus, situation.parameter_count()) {
        (Some(facts), None) => families::smallest(facts),
        _ => Vec::new(),
    };
    let verdict = bounds::verdict(&situation);
    let encoders = match &corpus {
        Some(corpus) if searches => {
            let (dataset, observer) = (Dataset::from_corpus(corpus)?, Terminal::new(common.quiet));
            let search = |&d: &u64| EncoderGap::search(&dataset, d, common.seed, &observer);
            args.encoder.iter().map(search).collect::<Result<_>>()?
        }
        _ => Vec::new(),
    };
    draw(&args.plot, &situation, &args.corpus.spec.title())?;
    let json = || {
        json!({
            "corpus": summary,
            "shape": situation.shape,
            "model": situation.model,
            "parameters": situation.parameter_count().map(count),
            "parameters_by_kind": situation.parameters_by_kind(),
            "rows": rows,
            "smallest_models": families,
            "verdict": verdict,
            "encoders": encoders,
        })
    };
    let title = args.corpus.spec.title();
    let text = || text::bounds(&situation, &title, &rows, &families, &verdict) + &text::encoders(&encoders);
    ui::show(common, json, text)?;
    if let Some(hint) = summary.and_then(Summary::hint) {
        ui::note(common.quiet, &format!("hint: {}", spelling::of_text(hint)));
    }
    ui::wrote(common, args.plot.iter().chain(&args.corpus.save).chain(&args.corpus.list));
    Ok(ExitCode::SUCCESS)
}

/// A count as a JSON number: an integer where it fits into 64 bits, a float above.
fn count(k: u128) -> serde_json::Value {
    u64::try_from(k).map_or_else(|_| json!(k as f64), |k| json!(k))
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
