//! `byrote build madden2024`.

use super::{BuildArgs, Built};
use crate::args::Common;
use crate::commands::eval;
use crate::input::CorpusInput;
use crate::memory;
use crate::progress::Terminal;
use crate::ui::{self, Table, thousands};
use byrote::construct::madden2024::literal::{Arithmetic, LiteralSettings, literal};
use byrote::construct::madden2024::{Report, Settings, Solver, build};
use byrote::model::{Activation, Mixer};
use byrote::train::Problem;
use byrote::units::Nats;
use byrote::{Error, Result};
use clap::{Args, ValueEnum};
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
    pub model: Madden2024Args,
    #[command(flatten)]
    pub output: BuildArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub struct Madden2024Args {
    /// gelu, gelu-tanh, tanh, logistic, arctan, relu or erf
    #[arg(long, value_name = "NAME", default_value = "tanh",
          value_parser = |s: &str| s.parse::<Activation>().map_err(|e| e.to_string()))]
    pub activation: Activation,
    /// attention (Theorem 5) or average (Theorem 7)
    #[arg(long, value_name = "NAME", default_value = "attention",
          value_parser = |s: &str| s.parse::<Mixer>().map_err(|e| e.to_string()))]
    pub mixer: Mixer,
    /// Width of the stream, from 1
    #[arg(long, allow_negative_numbers = true, value_name = "D", default_value_t = 16)]
    pub d_model: u64,
    /// Attention heads [default: 4, or 1 below --d-model 4]
    #[arg(long, allow_negative_numbers = true, value_name = "H")]
    pub n_heads: Option<u64>,
    /// Dimension of queries, keys and values of a head [default: d_model / n_heads, rounded up]
    #[arg(long, allow_negative_numbers = true, value_name = "D")]
    pub d_head: Option<u64>,
    /// Neurons beyond one a context, as a share of the contexts: 0.05 gains a digit where a system is solved
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", default_value_t = 0.0)]
    pub slack: f64,
    /// Hidden neurons, at least one a context [default: contexts, and --slack]
    #[arg(long, allow_negative_numbers = true, value_name = "M", conflicts_with = "slack")]
    pub d_mlp: Option<u64>,
    /// closed is what works at any size; literal the proof as it stands, for a few dozen contexts, reported and not stored
    #[arg(long, value_name = "HOW", default_value = "closed")]
    pub method: MethodArg,
    /// The arithmetic of --method literal
    #[arg(long, value_name = "KIND", default_value = "bits")]
    pub arithmetic: ArithmeticArg,
    /// The largest |eps w f| of --method literal
    #[arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = 1.0)]
    pub scale: f64,
    /// The bias of all neurons of --method literal
    #[arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = 0.5)]
    pub eta: f64,
    /// The total gap to the floor asked for, in nats
    #[arg(long, allow_negative_numbers = true, value_name = "NATS", default_value_t = 5e-5)]
    pub gap: f64,
    /// Refuse a model whose largest logit error is above this
    #[arg(long, allow_negative_numbers = true, value_name = "E", default_value_t = 1e-6)]
    pub logit_tolerance: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    Closed,
    Literal,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ArithmeticArg {
    /// As many bits as it takes
    Bits,
    /// Double precision, where it can work
    F64,
}

impl Madden2024Args {
    fn settings(&self, seed: u64, max_memory: u64) -> Settings {
        Settings {
            mixer: self.mixer,
            activation: self.activation,
            d_model: self.d_model,
            n_heads: self.n_heads,
            d_head: self.d_head,
            slack: self.slack,
            d_mlp: self.d_mlp,
            gap: Nats(self.gap),
            tolerance: self.logit_tolerance,
            seed,
            max_memory,
        }
    }
}

pub fn run(args: &Madden2024Command, common: &Common) -> Result<ExitCode> {
    let begun = Instant::now();
    let corpus = args.corpus.read(common, true)?;
    let problem = eval::problem_of(&corpus)?;
    if args.model.method == MethodArg::Literal {
        return run_literal(args, common, &problem, corpus.summary.d_vocab, begun);
    }
    let memory = memory::for_matrices(args.corpus.spec.max_memory);
    let settings = args.model.settings(common.seed, memory);
    let building = Instant::now();
    let (d_vocab, n_ctx) = (corpus.summary.d_vocab, u64::from(corpus.summary.n_ctx));
    let (model, report) = build(&problem, d_vocab, n_ctx, &settings, &Terminal::new(common.quiet))?;
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
    problem: &Problem,
    d_vocab: u64,
    begun: Instant,
) -> Result<ExitCode> {
    if args.output.out.is_some() {
        return Err(Error::setting(
            "out",
            "the literal construction has weights of hundreds of bits; it is reported, not stored",
        ));
    }
    let model = &args.model;
    if model.slack != 0.0 || model.d_mlp.is_some() || model.n_heads.is_some() || model.d_head.is_some() {
        return Err(Error::setting("method", "literal has one head of dimension 1 and a neuron a context"));
    }
    let settings = LiteralSettings {
        mixer: model.mixer,
        activation: model.activation,
        scale: model.scale,
        eta: model.eta,
        arithmetic: match model.arithmetic {
            ArithmeticArg::Bits => Arithmetic::Bits,
            ArithmeticArg::F64 => Arithmetic::F64,
        },
        gap: Nats(model.gap),
        tolerance: model.logit_tolerance,
        seed: common.seed,
    };
    let report = literal(problem, d_vocab, &settings, &Terminal::new(common.quiet))?;
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
