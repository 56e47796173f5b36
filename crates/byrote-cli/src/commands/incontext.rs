//! `byrote incontext`: transformers that learn a map from its sequence, layer by layer.

use crate::args::Common;
use crate::interrupt;
use crate::paths;
use crate::progress::Terminal;
use crate::spelling;
use crate::ui::{self, thousands};
use byrote::Result;
use byrote::incontext::{
    Attention, ErrorAt, ErrorSeries, Form, IncontextSpec, Kernel, Method, Outcome, Sequence, Sequences, Task,
    predict, squared_errors, summarize,
};
use byrote::output::{OutputFile, csv_text};
use byrote::report::incontext_figure::errors_against_t;
use byrote::report::{self, text};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str =
    "Kernels and attention: the linear kernel <x, y> goes with identity attention, the exp kernel
exp(beta <x, y>) with exp or softmax attention (and softmax with vectors of norm 1, or --normalised).

Examples:
  byrote incontext                                          the limit of the layers, linear sequences
  byrote incontext --task periodic --kernel exp --beta 16 --plot periodic.svg
  byrote incontext --kernel exp --attention softmax --layers 500 --save network.safetensors
  byrote incontext --layers 5000 --tol 1e-8 --length 60
  byrote incontext --file orbit.csv --kernel exp --normalised --beta 4 --json";

#[derive(Debug, Args)]
pub struct IncontextCommand {
    #[command(flatten)]
    pub spec: IncontextSpec,
    /// Draw squared error against t; FILE ends in .svg or .png, and may be given more than once
    #[arg(long, value_name = "FILE")]
    pub plot: Vec<PathBuf>,
    /// Write the errors as CSV, one row per t
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the transformer's weights (with --layers)
    #[arg(long, value_name = "FILE", requires = "layers")]
    pub save: Option<PathBuf>,
}

/// The sequences, with what is shown of them.
struct Source {
    /// In full: generated sequences have one vector more than is seen.
    known: Vec<Sequence>,
    /// As they are seen.
    seen: Vec<Sequence>,
    title: String,
    task: Value,
}

impl Source {
    fn read(spec: &IncontextSpec, common: &Common) -> Result<Self> {
        let observer = Terminal::new(common.quiet);
        let Sequences { known, seen, task, .. } = spec.read(common.seed, &observer)?;
        let (count, length, d) = (seen.len(), seen[0].len(), seen[0].d());
        let title = match (&spec.file, task) {
            (Some(path), _) => format!("{}: {length} vectors in dimension {d}", path.display()),
            (None, task) => format!(
                "{} {} sequence{} of {} vectors in dimension {d}",
                thousands(count as u64),
                task.map_or("", Task::name),
                if count == 1 { "" } else { "s" },
                thousands(length as u64)
            ),
        };
        Ok(Self { known, seen, title, task: json!(task.map(Task::name)) })
    }
}

pub fn run(args: &IncontextCommand, common: &Common) -> Result<ExitCode> {
    for path in &args.plot {
        report::check_figure_path("plot", path)?;
    }
    args.spec.check()?;
    let (kernel, attention) = args.spec.kernel_and_attention()?;
    let method = args.spec.method()?;
    let plots = args.plot.iter().map(|path| ("plot", path.as_path()));
    let others = [("csv", &args.csv), ("save", &args.save)];
    let others = others.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)));
    paths::check(args.spec.file.as_deref(), plots.chain(others))?;
    for path in args.plot.iter().chain(&args.csv).chain(&args.save) {
        interrupt::clean_up_beside(path);
    }
    let source = Source::read(&args.spec, common)?;
    let outcome = predict(&source.seen, kernel, attention, method, &Terminal::new(common.quiet))?;
    let errors: Vec<Vec<f64>> =
        outcome.predictions.iter().zip(&source.known).map(|(u, x)| squared_errors(u, x)).collect();
    let errors = summarize(&errors);
    if !args.plot.is_empty() {
        let how = text::method(&outcome, kernel, attention, method);
        let series = ErrorSeries { key: "sander2024".into(), label: how, errors: errors.clone() };
        let figure = errors_against_t("Squared error against t", &source.title, &[series], 1.0);
        for path in &args.plot {
            report::write_figure(path, &figure)?;
        }
    }
    if let Some(path) = &args.csv {
        OutputFile::write(path, csv(&errors).as_bytes())?;
    }
    if let (Some(path), Some(layers)) = (&args.save, &outcome.layers) {
        layers.file.save(path)?;
    }
    let json = || as_json(&source, kernel, attention, method, &outcome, &errors, common.seed);
    let text = || text::incontext(&source.title, kernel, attention, method, &outcome, &errors);
    ui::show(common, json, || spelling::of_text(&text()))?;
    ui::wrote(common, args.plot.iter().chain(&args.csv).chain(&args.save));
    Ok(ExitCode::SUCCESS)
}

fn csv(errors: &[ErrorAt]) -> String {
    let number = |x: f64| format!("{x:e}");
    let row = |e: &ErrorAt| [e.t.to_string(), number(e.squared_error), number(e.lowest), number(e.highest)];
    csv_text(["t", "squared_error", "lowest", "highest"], errors.iter().map(row))
}

fn as_json(
    source: &Source,
    kernel: Kernel,
    attention: Attention,
    method: Method,
    outcome: &Outcome,
    errors: &[ErrorAt],
    seed: u64,
) -> Value {
    let first = &source.seen[0];
    let beta = match kernel.form() {
        Form::Linear => None,
        Form::Exp { beta } => Some(beta),
    };
    let layers = outcome.layers.as_ref();
    let mut json = json!({
        "task": source.task,
        "d": first.d(),
        "length": first.len(),
        "sequences": source.seen.len(),
        "seed": seed,
        "kernel": kernel.name(),
        "beta": beta,
        "normalised": kernel.is_normalised(),
        "attention": attention,
        "method": match method {
            Method::Direct => "direct",
            Method::Recursion => "recursion",
            Method::Layers { .. } => "layers",
        },
        "layers": layers.map(|l| l.layers),
        "eta": layers.map(|l| l.eta),
        "residual": layers.map(|l| l.residual),
        "d_model": layers.map(|l| l.file.network.d_model()),
        "parameters": layers.map(|l| l.file.network.parameters()),
        "constant_diagonal": outcome.constant_diagonal,
        "explicit_vs_recursion_max_difference": outcome.difference,
        "errors": errors,
    });
    if source.task.is_null() {
        json["predictions"] = outcome.predictions[0].iter().map(|u| json!(u)).collect();
    }
    json
}
