//! `byrote bounds`: every published capacity bound for a corpus, a model, or both.

use crate::args::Common;
use crate::commands::corpus::as_json;
use crate::commands::eval;
use crate::corpus_args::CorpusArgs;
use crate::model_args::ShapeArgs;
use crate::progress::Terminal;
use crate::ui::{self, Table, thousands};
use byrote::bounds::families::{self, Family, Guarantee};
use byrote::bounds::{self, CorpusFacts, Order, Row, Side, Situation, Value, Verdict};
use byrote::construct::dana2024::{Effort, Encoder, Theorem2, theorem2};
use byrote::corpus::Corpus;
use byrote::model::{Mixer, Shape};
use byrote::observe::Observer;
use byrote::output::OutputFile;
use byrote::report::bounds_figure::capacity;
use byrote::units::{AtMost, Nats};
use byrote::{Error, Result};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote bounds                                    the built-in stories
  byrote bounds names.txt --tokenizer char --n-ctx 15 --plot bounds.svg
  byrote bounds --d-model 16 --n-heads 4 --d-mlp 512 --d-vocab 780
  byrote bounds names.txt --tokenizer char --n-ctx 15 --d-model 64 --d-mlp 4096
  byrote bounds --builtin 100 --encoder 8          about the least gap that an output which reads 8 numbers leaves
  byrote bounds --parameters 124000000 --d-vocab 50257 --n-ctx 1024";

/// What smoothing may cost an encoder, in all.
const SMOOTHING: Nats = Nats(5e-5);

#[derive(Debug, Args)]
pub struct BoundsCommand {
    #[command(flatten)]
    pub corpus: CorpusArgs,
    #[command(flatten)]
    pub model: SizeArgs,
    /// Draw contexts against parameters; FILE ends in .svg or .png, and may be given more than once
    #[arg(long, value_name = "FILE")]
    pub plot: Vec<PathBuf>,
    /// Search for the best encoder of rank D: about the gap below which no output that reads D numbers can go; may be given
    /// more than once
    #[arg(long, allow_negative_numbers = true, value_name = "D")]
    pub encoder: Vec<u64>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub struct SizeArgs {
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Instead of a shape: a model of any kind with so many parameters
    #[arg(long, value_name = "K",
          conflicts_with_all = ["d_model", "n_heads", "d_head", "d_mlp", "activation", "mixer"])]
    pub parameters: Option<u64>,
    /// Bits that store a parameter, for the limits that count them
    #[arg(long, value_name = "B", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub bits_per_parameter: u32,
    /// Arithmetic operations of one prediction, for the bound that counts them
    #[arg(long, allow_negative_numbers = true, value_name = "T")]
    pub operations: Option<u64>,
}

impl SizeArgs {
    /// The shape that was typed, with the defaults for what was not; `None` where nothing was.
    fn shape(&self, d_vocab: Option<u64>, n_ctx: u64) -> Result<Option<Shape>> {
        if self.shape.is_empty() {
            return Ok(None);
        }
        let d_vocab = d_vocab.ok_or_else(|| {
            Error::setting(
                "d_vocab",
                "a shape needs the size of its vocabulary, or a corpus (--builtin 1000)",
            )
        })?;
        self.shape.shape(d_vocab, n_ctx, 4, 0).checked().map(Some)
    }
}

pub fn run(args: &BoundsCommand, common: &Common) -> Result<ExitCode> {
    for path in &args.plot {
        PlotFormat::of(path)?;
    }
    let model_only =
        args.model.parameters.is_some() || args.model.shape(Some(1), 1).is_ok_and(|s| s.is_some());
    let searches = !args.encoder.is_empty();
    let corpus = match args.corpus.is_given() || !model_only || searches {
        true => Some(args.corpus.read(common, searches)?),
        false => None,
    };
    let summary = corpus.as_ref().map(|c| &c.summary);
    // --d-vocab is that of the random corpus where there is one, otherwise of the model.
    let typed = args.corpus.d_vocab.filter(|_| args.corpus.random.is_none());
    if typed == Some(0) {
        return Err(Error::setting("d_vocab", "0 tokens; at least 1"));
    }
    // Typed, else that of the corpus (summaries carry their own), else the default.
    let n_ctx = args.corpus.n_ctx.or(summary.map(|s| s.n_ctx)).unwrap_or(args.corpus.options().window.n_ctx);
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
    draw(&args.plot, &situation, &args.corpus.title())?;
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
        let mut text = human(&situation, &args.corpus.title(), &rows, &families, &verdict);
        text += &encoders_text(&encoders);
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
    /// False where the gap is nothing but smoothing: no output is a bottleneck.
    estimate: bool,
    theorem2: Option<Theorem2>,
}

fn encoders(ranks: &[u64], corpus: &Corpus, seed: u64, observer: &dyn Observer) -> Result<Vec<EncoderRow>> {
    let problem = eval::problem_of(corpus)?;
    let omega = corpus.summary.d_vocab;
    let row = |&d_model: &u64| {
        if !(1..=1 << 20).contains(&d_model) {
            return Err(Error::setting("encoder", format!("{d_model} is not between 1 and {}", 1 << 20)));
        }
        let (rank, effort) = (d_model as usize, Effort::default());
        let encoder = Encoder::solve(&problem, omega, rank, SMOOTHING, effort, seed, observer)?;
        Ok(EncoderRow {
            d_model,
            gap_nats: encoder.gap,
            gap_nats_per_prediction: encoder.gap.0 / problem.predictions(),
            estimate: !encoder.exact,
            // Codes need two dimensions, or one for two tokens.
            theorem2: match theorem2(&problem, omega, d_model, seed, observer) {
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
    let heads =
        ["  output reads", "gap (nats)", "a prediction", "random codes at most", "codes at hand at most", ""];
    let mut table = Table::new(&heads, &[5]);
    // Upper bounds, each computed with a few hundred roundings.
    let nats =
        |n: Option<Nats>| n.map_or("infinite".into(), |n| format!("{:.4}", AtMost(n.0 * (1.0 + 1e-12))));
    for e in encoders {
        let note = match e.estimate {
            true => "an estimate: the best encoder that was found",
            false => "smoothing alone: the output is no bottleneck",
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
    let about = "Encoders (dana2024, Propositions 1 to 3, Theorem 2): about the least gap of any model whose output reads so \
                 many numbers;\nthe last two are bounds on it, in nats a prediction.\n";
    format!("\n{about}{}", table.render())
}

/// A count as a JSON number: an integer as far as JSON values have them, a float above.
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

fn human(situation: &Situation, title: &str, rows: &[Row], families: &[Family], verdict: &Verdict) -> String {
    let mut out = String::new();
    if let Some(c) = &situation.corpus {
        let _ = writeln!(
            out,
            "corpus  {title}: {} contexts, {} tokens, longest context {}",
            thousands(c.contexts),
            thousands(c.d_vocab),
            c.longest_context()
        );
        if c.contradictions() > 0 {
            let _ = writeln!(
                out,
                "        {} of them with more than one next token: an association is the most frequent one",
                thousands(c.contradictions())
            );
        }
    }
    if let Some(s) = &situation.shape {
        let mixer = match s.mixer {
            Mixer::Attention => {
                format!("{} head{} of {}", s.n_heads, if s.n_heads == 1 { "" } else { "s" }, s.d_head)
            }
            Mixer::Average => "token averaging".into(),
        };
        let hidden = if s.d_mlp > 0 {
            format!("{} {} neuron{}", thousands(s.d_mlp), s.activation, if s.d_mlp == 1 { "" } else { "s" })
        } else {
            "no hidden layer".into()
        };
        let _ = writeln!(
            out,
            "model   width {}, {mixer}, {hidden}, {} tokens, contexts up to {}: {} parameters",
            s.d_model,
            thousands(s.d_vocab),
            s.n_ctx,
            thousands(s.parameters().total())
        );
    } else if let Some(k) = situation.parameters {
        let tokens = situation.vocabulary().map(|omega| format!(", {} tokens", thousands(omega)));
        let n_ctx = situation.longest_context().map(|n| format!(", contexts up to {n}"));
        let sizes = [tokens, n_ctx].into_iter().flatten().collect::<String>();
        let _ = writeln!(out, "model   {} parameters{sizes}", thousands(k));
    }

    let (applies, rest): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|r| r.applies());
    let with_model = situation.parameter_count().is_some();
    let mut heads = vec!["bound", "task", "kind"];
    heads.extend(with_model.then_some(match situation.shape {
        Some(_) => "the model holds (contexts)",
        None => "a model of this size holds (contexts)",
    }));
    heads.extend(situation.corpus.is_some().then_some("the corpus needs (parameters)"));
    heads.push("also");
    let also_column = heads.len() - 1;
    let mut table = Table::new(&heads, &[0, 1, 2, also_column]);
    for row in &applies {
        let mut cells =
            vec![row.bound.key.to_owned(), row.bound.task.to_string(), row.bound.kind.to_string()];
        if with_model {
            cells.push(row.contexts.map_or("-".into(), |held| holds(row, held)));
        }
        if situation.corpus.is_some() {
            cells.push(row.required_parameters.map_or("-".into(), |needed| needs(row, needed)));
        }
        cells.push(also(row));
        table.row(cells);
    }
    if !applies.is_empty() {
        let _ = write!(out, "\n{}", table.render());
    }
    if applies.iter().any(|row| row.bound.order != Order::Exact) {
        out += "~ known only up to a constant or logarithms: the value with the constant set to one\n";
    }
    let notes: Vec<_> = applies.iter().filter_map(|row| Some((row.bound.key, row.note.as_ref()?))).collect();
    if !notes.is_empty() {
        out += "\nNotes:\n";
        let mut table = Table::new(&[], &[0, 1]);
        for (key, note) in notes {
            table.row(vec![format!("  {key}"), note.clone()]);
        }
        out += table.render().trim_start_matches('\n');
    }
    if !rest.is_empty() {
        out += "\nDo not apply here:\n";
        let mut table = Table::new(&[], &[0, 1, 2]);
        for row in rest {
            let why = row.why_not.clone().unwrap_or_default();
            table.row(vec![format!("  {}", row.bound.key), row.bound.task.to_string(), why]);
        }
        out += table.render().trim_start_matches('\n');
    }
    if !families.is_empty() {
        out += "\nSmallest models for this corpus:\n";
        let mut table =
            Table::new(&["  family", "task", "width", "heads", "neurons", "parameters", ""], &[0, 1, 6]);
        for f in families {
            let dimension =
                |get: fn(&Shape) -> u64| f.shape.as_ref().map_or("-".into(), |s| thousands(get(s)));
            let heads = f.shape.as_ref().filter(|s| s.mixer == Mixer::Attention);
            let known = match f.guarantee {
                Guarantee::Proved => "guaranteed".into(),
                Guarantee::Conditional => f.reason.clone().unwrap_or_default(),
                Guarantee::Unproved => format!("not guaranteed: {}", f.reason.clone().unwrap_or_default()),
            };
            let known = f.note.iter().fold(known, |known, note| format!("{known}; {note}"));
            table.row(vec![
                format!("  {}", f.name),
                f.task.to_string(),
                dimension(|s| s.d_model),
                heads.map_or("-".into(), |s| format!("{} x {}", thousands(s.n_heads), thousands(s.d_head))),
                dimension(|s| s.d_mlp),
                thousands(f.parameters),
                known,
            ]);
        }
        out += &table.render();
    }
    let _ = write!(out, "\nVerdict: {}.\n", verdict.sentence.trim_end_matches('.'));
    out
}

/// How many contexts the model holds, with the side the bound is on. A value known by its order alone is about
/// so many in any case.
fn holds(row: &Row, held: Value) -> String {
    match row.bound.kind.side() {
        Side::AtLeast => format!("at least {held}"),
        Side::AtMost => format!("at most {held}"),
        Side::About if held.order_of().is_some() => held.to_string(),
        Side::About => format!("about {held}"),
    }
}

/// How many parameters the corpus needs: without them it cannot be, or with them it can.
fn needs(row: &Row, needed: Value) -> String {
    match row.bound.kind.side() {
        Side::AtLeast => format!("{needed} suffice"),
        Side::AtMost => format!("at least {needed}"),
        Side::About if needed.order_of().is_some() => needed.to_string(),
        Side::About => format!("about {needed}"),
    }
}

/// What else a row says: its figure, the condition it holds on, and its formula where that is all that is known.
fn also(row: &Row) -> String {
    let figure = row.figure.map(|f| format!("{} {} {}", f.name, f.value, f.unit).trim_end().to_owned());
    let formula = (row.bound.order != Order::Exact).then(|| row.bound.expression.to_owned());
    let condition = row.condition.map(str::to_owned);
    [figure, formula, condition].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
