//! `byrote bounds`: the capacity bounds of 20 papers for a corpus, a model, or both.

use crate::args::Common;
use crate::commands::bounds_text::Text;
use crate::commands::corpus::as_json;
use crate::input::CorpusInput;
use crate::progress::Terminal;
use crate::ui::{self, Table, thousands};
use byrote::bounds::{self, CorpusFacts, Situation, SizeSpec, families};
use byrote::construct::dana2024::{Effort, Encoder, Theorem2, theorem2};
use byrote::corpus::{Corpus, Window};
use byrote::dataset::Dataset;
use byrote::observe::Observer;
use byrote::output::OutputFile;
use byrote::report::bounds_figure::capacity;
use byrote::units::{AtMost, Nats};
use byrote::{Error, Result};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote bounds                                    the built-in stories
  byrote bounds names.txt --tokenizer char --n-ctx 15 --plot bounds.svg
  byrote bounds --d-model 16 --n-heads 4 --d-mlp 512 --d-vocab 780
  byrote bounds names.txt --tokenizer char --n-ctx 15 --d-model 64 --d-mlp 4096
  byrote bounds --builtin 100 --encoder 8          the smallest gap left by an output that reads 8 numbers
  byrote bounds --parameters 124000000 --d-vocab 50257 --n-ctx 1024";

/// What smoothing may cost an encoder in total.
const SMOOTHING: Nats = Nats(5e-5);

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
        PlotFormat::of(path)?;
    }
    args.model.check()?;
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
    let situation = Situation {
        corpus: summary.map(CorpusFacts::from),
        shape: args.model.shape(typed.or(summary.map(|s| s.d_vocab)), n_ctx)?,
        parameters: args.model.parameters,
        d_vocab: typed,
        n_ctx: args.model.parameters.map(|_| n_ctx),
        operations: args.model.operations,
        bits_per_parameter: args.model.bits_per_parameter,
    };
    let rows = bounds::evaluate(&situation);
    let families = match (&situation.corpus, situation.parameter_count()) {
        (Some(facts), None) => families::smallest(facts),
        _ => Vec::new(),
    };
    let verdict = bounds::verdict(&situation);
    let encoders = match &corpus {
        Some(corpus) if searches => {
            encoders(&args.encoder, corpus, common.seed, &Terminal::new(common.quiet))?
        }
        _ => Vec::new(),
    };
    draw(&args.plot, &situation, &args.corpus.spec.title())?;
    if common.json {
        ui::print_json(&json!({
            "corpus": summary.map(as_json),
            "shape": situation.shape,
            "parameters": situation.parameter_count().map(count),
            "parameters_by_kind": situation.shape.map(|s| s.parameters()),
            "rows": rows,
            "smallest_models": families,
            "verdict": verdict,
            "encoders": encoders,
        }))?;
    } else {
        let title = args.corpus.spec.title();
        let text = Text {
            situation: &situation,
            title: &title,
            rows: &rows,
            families: &families,
            verdict: &verdict,
        };
        let text = text.render() + &encoders_text(&encoders);
        ui::print(&text)?;
    }
    for path in args.plot.iter().chain(&args.corpus.save).chain(&args.corpus.list) {
        ui::note(common.quiet, &format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// What an output that reads `d_model` numbers can reach on a corpus, whatever comes before it.
#[derive(Debug, Serialize)]
struct EncoderRow {
    d_model: u64,
    /// The gap of the best encoder that was found, over all predictions.
    gap_nats: Nats,
    gap_nats_per_prediction: f64,
    /// False where the gap is due to smoothing alone: the output is not a bottleneck.
    estimate: bool,
    theorem2: Option<Theorem2>,
}

fn encoders(ranks: &[u64], corpus: &Corpus, seed: u64, observer: &dyn Observer) -> Result<Vec<EncoderRow>> {
    let problem = Dataset::from_corpus(corpus)?;
    let row = |&d_model: &u64| {
        if !(1..=1 << 20).contains(&d_model) {
            return Err(Error::setting("encoder", format!("{d_model} is not between 1 and {}", 1 << 20)));
        }
        let (rank, effort) = (d_model as usize, Effort::default());
        let encoder = Encoder::solve(&problem, rank, SMOOTHING, effort, seed, observer)?;
        Ok(EncoderRow {
            d_model,
            gap_nats: encoder.gap,
            gap_nats_per_prediction: encoder.gap.0 / problem.predictions(),
            estimate: !encoder.exact,
            // Codes need two dimensions, or one if there are only two tokens.
            theorem2: match theorem2(&problem, d_model, seed, observer) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                found => found.ok(),
            },
        })
    };
    ranks.iter().map(row).collect()
}

fn encoders_text(encoders: &[EncoderRow]) -> String {
    if encoders.is_empty() {
        return String::new();
    }
    let heads = [
        "  output reads",
        "gap (nats)",
        "per prediction",
        "random codes: at most",
        "codes found: at most",
        "",
    ];
    let mut table = Table::new(&heads, &[5]);
    // Upper bounds, each computed with a few hundred roundings.
    let nats =
        |n: Option<Nats>| n.map_or("infinite".into(), |n| format!("{:.4}", AtMost(n.0 * (1.0 + 1e-12))));
    for e in encoders {
        let note = match e.estimate {
            true => "an estimate: the best encoder found",
            false => "smoothing alone: the output is not a bottleneck",
        };
        table.row(vec![
            format!("  {}", thousands(e.d_model)),
            format!("{:.4e}", e.gap_nats.0),
            format!("{:.3e}", e.gap_nats_per_prediction),
            e.theorem2.map_or("-".into(), |t| nats(t.paper_nats)),
            e.theorem2.map_or("-".into(), |t| nats(t.unit_nats)),
            note.into(),
        ]);
    }
    let about = "Encoders (dana2024, Propositions 1 to 3, Theorem 2): the estimated smallest gap of any model whose output \
                 reads this many\nnumbers. The last two columns are upper bounds on it, in nats per prediction.\n";
    format!("\n{about}{}", table.render())
}

/// A count as a JSON number: an integer where it fits into 64 bits, a float above.
fn count(k: u128) -> serde_json::Value {
    u64::try_from(k).map_or_else(|_| json!(k as f64), |k| json!(k))
}

enum PlotFormat {
    Svg,
    Png,
}

impl PlotFormat {
    fn of(path: &Path) -> Result<Self> {
        match path.extension().map(|e| e.to_ascii_lowercase()) {
            Some(e) if e == "svg" => Ok(Self::Svg),
            Some(e) if e == "png" => Ok(Self::Png),
            _ => Err(Error::setting("plot", format!("{} ends in neither .svg nor .png", path.display()))),
        }
    }
}

fn draw(paths: &[PathBuf], situation: &Situation, title: &str) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let named = situation.corpus.as_ref().map(|c| format!("{title}: {} contexts", thousands(c.contexts)));
    let model = situation.parameter_count().map(|k| format!("model: {} parameters", thousands(k)));
    let figure =
        capacity(situation, &named.unwrap_or_default(), &model.unwrap_or_default()).ok_or_else(|| {
            Error::setting("plot", "nothing to draw without a vocabulary: give a corpus or --d-vocab")
        })?;
    for path in paths {
        match PlotFormat::of(path)? {
            PlotFormat::Svg => OutputFile::write(path, figure.to_svg()?.as_bytes())?,
            PlotFormat::Png => OutputFile::write(path, &figure.to_png(2.0)?)?,
        }
    }
    Ok(())
}
