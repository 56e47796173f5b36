//! `byrote incontext`: transformers that learn a map from its sequence, layer by layer.

use crate::args::Common;
use crate::interrupt;
use crate::paths;
use crate::progress::Terminal;
use crate::spelling;
use crate::ui::{self, thousands};
use byrote::Result;
use byrote::incontext::{
    Attention, Baseline, ErrorAt, ErrorSeries, Form, IncontextSpec, Kernel, PredictionMethod,
    PredictionOutcome, Rows, Sequence, SequenceTask, Sequences, Step, errors_at, predict,
};
use byrote::observe::Observer;
use byrote::output::{OutputFile, csv_text};
use byrote::report::incontext_figure::errors_against_t;
use byrote::report::{self, text};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

pub const EXAMPLES: &str =
    "Kernels and attention: the linear kernel <x, y> goes with identity attention, the exp kernel
exp(beta <x, y>) with exp or softmax attention. Softmax needs vectors of norm 1 or the option
--normalised.

Examples:
  byrote incontext                           the limit of the layers, linear sequences
  byrote incontext --task periodic --kernel exp --beta 16 --plot periodic.svg
  byrote incontext --kernel exp --attention softmax --layers 500 --save network.safetensors
  byrote incontext --layers 5000 --tol 1e-8 --length 60
  byrote incontext --flow-time 2 --length 60                the limit of infinitely many small steps
  byrote incontext --flow-time 2 --layers 500 --length 60   500 layers and their distance from it
  byrote incontext --file orbit.csv --kernel exp --normalised --beta 4 --plot orbit.svg
  byrote incontext --file a.csv --file b.csv --normalised   errors are means over both sequences

For files, two simple baselines are shown as well: the last value, and a linear autoregression of
order 1 with a constant term, fitted to the past by least squares (ridge: 1e-8 times the square of
the first vector). Sequences of several files must have the same dimension, and errors end with the
shortest. With --json, `predictions` has one row per step; for several sequences, one such list
each.";

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
    fn read(spec: &IncontextSpec, seed: u64, observer: &dyn Observer) -> Result<Self> {
        let Sequences { known, seen, task, .. } = spec.read(seed, observer)?;
        let (count, d) = (seen.len(), seen[0].d());
        let lengths = lengths(&seen);
        let title = match (&spec.file[..], task) {
            ([path], _) if count == 1 => format!("{}: {lengths} vectors in dimension {d}", path.display()),
            ([], task) => format!(
                "{} {} sequence{} of {lengths} vectors in dimension {d}",
                thousands(count as u64),
                task.map_or("", SequenceTask::name),
                if count == 1 { "" } else { "s" }
            ),
            (files, _) => {
                let name = match files {
                    [path] => path.display().to_string(),
                    _ => format!("{} files", thousands(files.len() as u64)),
                };
                format!("{name}: {} sequences of {lengths} vectors in dimension {d}", thousands(count as u64))
            }
        };
        Ok(Self { known, seen, title, task: json!(task.map(SequenceTask::name)) })
    }

    /// The errors of the baselines, for files.
    fn baselines(&self, observer: &Terminal) -> Result<Vec<ErrorSeries>> {
        if !self.task.is_null() {
            return Ok(Vec::new());
        }
        let series = |baseline: Baseline| {
            let predict = |x: &Sequence| baseline.predict(x, observer);
            let predictions: Vec<Rows> = self.seen.iter().map(predict).collect::<Result<_>>()?;
            let errors = errors_at(&predictions, &self.known);
            Ok(ErrorSeries { key: baseline.key().into(), label: baseline.label().into(), errors })
        };
        Baseline::ALL.into_iter().map(series).collect()
    }
}

/// The length of the sequences in words, or the shortest and the longest.
fn lengths(sequences: &[Sequence]) -> String {
    let of = || sequences.iter().map(|x| x.len() as u64);
    let (shortest, longest) = (of().min().unwrap_or(0), of().max().unwrap_or(0));
    match shortest == longest {
        true => thousands(shortest),
        false => format!("{} to {}", thousands(shortest), thousands(longest)),
    }
}

/// What was computed.
struct Found {
    outcome: PredictionOutcome,
    errors: Vec<ErrorAt>,
    baselines: Vec<ErrorSeries>,
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
    paths::check(args.spec.file.iter().map(PathBuf::as_path), plots.chain(others))?;
    for path in args.plot.iter().chain(&args.csv).chain(&args.save) {
        interrupt::clean_up_beside(path);
    }
    let observer = Terminal::new(common.quiet);
    let source = Source::read(&args.spec, common.seed, &observer)?;
    let outcome = predict(&source.seen, kernel, attention, method, &observer)?;
    let errors = errors_at(&outcome.predictions, &source.known);
    let found = Found { outcome, errors, baselines: source.baselines(&observer)? };
    drop(observer);
    write(args, &source, &found, (kernel, attention, method))?;
    let Found { outcome, errors, baselines } = &found;
    let json = || as_json(&source, kernel, attention, method, &found, common.seed);
    let text = || text::incontext(&source.title, kernel, attention, method, outcome, errors, baselines);
    ui::show(common, json, || spelling::of_text(&text()))?;
    ui::wrote(common, args.plot.iter().chain(&args.csv).chain(&args.save));
    Ok(ExitCode::SUCCESS)
}

/// Writes the files that were asked for.
fn write(
    args: &IncontextCommand,
    source: &Source,
    found: &Found,
    (kernel, attention, method): (Kernel, Attention, PredictionMethod),
) -> Result<()> {
    let Found { outcome, errors, baselines } = found;
    if !args.plot.is_empty() {
        let how = text::method(outcome, kernel, attention, method);
        let mut series = vec![ErrorSeries { key: "sander2024".into(), label: how, errors: errors.clone() }];
        series.extend(baselines.iter().cloned());
        let figure = errors_against_t("Squared error against t", &source.title, &series, 1.0);
        for path in &args.plot {
            report::write_figure(path, &figure)?;
        }
    }
    if let Some(path) = &args.csv {
        OutputFile::write(path, csv(errors, baselines).as_bytes())?;
    }
    if let (Some(path), Some(layers)) = (&args.save, &outcome.layers) {
        layers.file.save(path)?;
    }
    Ok(())
}

fn csv(errors: &[ErrorAt], baselines: &[ErrorSeries]) -> String {
    let number = |x: f64| format!("{x:e}");
    let mut head = vec!["t", "squared_error", "lowest", "highest"];
    head.extend(baselines.iter().map(|b| b.key.as_str()));
    let row = |(i, e): (usize, &ErrorAt)| {
        let mut row = vec![e.t.to_string(), number(e.squared_error), number(e.lowest), number(e.highest)];
        let at = |b: &ErrorSeries| b.errors.get(i).map_or(String::new(), |e| number(e.squared_error));
        row.extend(baselines.iter().map(at));
        row
    };
    csv_text(head, errors.iter().enumerate().map(row))
}

fn as_json(
    source: &Source,
    kernel: Kernel,
    attention: Attention,
    method: PredictionMethod,
    found: &Found,
    seed: u64,
) -> Value {
    let Found { outcome, errors, baselines } = found;
    let first = &source.seen[0];
    let beta = match kernel.form() {
        Form::Linear => None,
        Form::Exp { beta } => Some(beta),
    };
    let layers = outcome.layers.as_ref();
    let mut json = json!({
        "task": source.task,
        "d": first.d(),
        "length": source.seen.iter().map(|x| x.len()).min(),
        "sequences": source.seen.len(),
        "seed": seed,
        "kernel": kernel.name(),
        "beta": beta,
        "normalised": kernel.is_normalised(),
        "attention": attention,
        "method": match method {
            PredictionMethod::Direct => "direct",
            PredictionMethod::Recursion => "recursion",
            PredictionMethod::Flow { .. } => "flow",
            PredictionMethod::Layers { .. } => "layers",
        },
        "flow_time": match method {
            PredictionMethod::Flow { time }
            | PredictionMethod::Layers { step: Step::Euler { time, .. }, .. } => Some(time),
            _ => None,
        },
        "layers": layers.map(|l| l.layers),
        "eta": layers.map(|l| l.eta),
        "residual": layers.map(|l| l.residual),
        "flow_max_difference": layers.and_then(|l| l.from_flow),
        "d_model": layers.map(|l| l.file.network.d_model()),
        "parameters": layers.map(|l| l.file.network.parameters()),
        "constant_diagonal": outcome.constant_diagonal,
        "explicit_vs_recursion_max_difference": outcome.difference,
        "errors": errors,
    });
    if source.task.is_null() {
        let rows = |u: &Rows| u.iter().map(|u| json!(u)).collect::<Value>();
        json["predictions"] = match &outcome.predictions[..] {
            [one] => rows(one),
            several => several.iter().map(rows).collect(),
        };
        let error = |e: &ErrorAt| json!({"t": e.t, "squared_error": e.squared_error});
        let baseline = |b: &ErrorSeries| json!({"name": b.key, "errors": b.errors.iter().map(error).collect::<Vec<Value>>()});
        json["baselines"] = baselines.iter().map(baseline).collect();
    }
    json
}
