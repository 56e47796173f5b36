//! `byrote incontext`: transformers that learn a map from its sequence, layer by layer.

use crate::args::Common;
use crate::interrupt;
use crate::paths;
use crate::progress::Terminal;
use crate::ui::{self, Table, thousands};
use byrote::figures::Figure;
use byrote::incontext::{
    Attention, ErrorAt, ErrorSeries, Form, IncontextSpec, Kernel, Method, Outcome, Sequence, Sequences, Task,
    predict, squared_errors, summarize,
};
use byrote::output::{OutputFile, csv_text};
use byrote::report::incontext_figure::errors_against_t;
use byrote::{Error, Result};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
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
    fn read(spec: &IncontextSpec, seed: u64) -> Result<Self> {
        let Sequences { known, seen, task, .. } = spec.read(seed)?;
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
        figure_format(path)?;
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
    let source = Source::read(&args.spec, common.seed)?;
    let outcome = predict(&source.seen, kernel, attention, method, &Terminal::new(common.quiet))?;
    let errors: Vec<Vec<f64>> =
        outcome.predictions.iter().zip(&source.known).map(|(u, x)| squared_errors(u, x)).collect();
    let errors = summarize(&errors);
    if !args.plot.is_empty() {
        let how = how(&outcome, kernel, attention, method);
        let series = ErrorSeries { key: "sander2024".into(), label: how, errors: errors.clone() };
        let figure = errors_against_t("Squared error against t", &source.title, &[series], 1.0);
        for path in &args.plot {
            write_figure(path, &figure)?;
        }
    }
    if let Some(path) = &args.csv {
        OutputFile::write(path, csv(&errors).as_bytes())?;
    }
    if let (Some(path), Some(layers)) = (&args.save, &outcome.layers) {
        layers.file.save(path)?;
    }
    if common.json {
        ui::print_json(&as_json(&source, kernel, attention, method, &outcome, &errors, common.seed))?;
    } else {
        ui::print(&human(&source, kernel, attention, method, &outcome, &errors))?;
    }
    for path in args.plot.iter().chain(&args.csv).chain(&args.save) {
        ui::note(common.quiet, &format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The method in a few words.
fn how(outcome: &Outcome, kernel: Kernel, attention: Attention, method: Method) -> String {
    match (&outcome.layers, method) {
        (Some(l), _) => format!("{kernel}; {} layers of {attention} attention", thousands(l.layers)),
        (None, Method::Recursion) => format!("{kernel}; the limit, by recursion"),
        (None, _) => format!("{kernel}; the limit"),
    }
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

fn human(
    source: &Source,
    kernel: Kernel,
    attention: Attention,
    method: Method,
    outcome: &Outcome,
    errors: &[ErrorAt],
) -> String {
    let mut out = format!("{}\n\n", source.title);
    let mut table = Table::new(&["kernel", &kernel.to_string()], &[0, 1]);
    let mut row = |name: &str, value: String| table.row(vec![name.into(), value]);
    match (&outcome.layers, method) {
        (Some(l), _) => {
            row("attention", attention.to_string());
            row("layers", format!("{} of descent after the one that copies", thousands(l.layers)));
            row("step", format!("{:.6}", l.eta));
            row("residual", format!("{:.1e}", l.residual));
            let network = &l.file.network;
            row(
                "network",
                format!(
                    "d_model {}, {} stored numbers, equal layers once",
                    network.d_model(),
                    thousands(network.parameters() as u64)
                ),
            );
            if let Some(difference) = outcome.difference {
                row("agreement", format!("{difference:.1e} from the descent without a network"));
            }
        }
        (None, Method::Recursion) => row("method", "recursion, the limit of the layers".into()),
        (None, _) => {
            row("method", "forward substitution, the limit of the layers".into());
            if let Some(difference) = outcome.difference {
                row("agreement", format!("{difference:.1e} from the recursion"));
            }
        }
    }
    if !outcome.constant_diagonal {
        row("norms", "differ, so this is not Kaczmarz's method; --normalised makes it so".into());
    }
    out += &table.render();
    let many = source.seen.len() > 1;
    let heads: &[&str] =
        if many { &["t", "squared error", "lowest", "highest"] } else { &["t", "squared error"] };
    let mut table = Table::new(heads, &[]);
    for e in chosen(errors) {
        let mut cells = vec![thousands(e.t as u64), number(e.squared_error)];
        if many {
            cells.extend([number(e.lowest), number(e.highest)]);
        }
        table.row(cells);
    }
    let _ = write!(out, "\n{}", table.render());
    out
}

fn number(x: f64) -> String {
    if x == 0.0 || (1e-3..1e4).contains(&x) { format!("{x:.4}") } else { format!("{x:.2e}") }
}

/// A dozen of them, closer at first.
fn chosen(errors: &[ErrorAt]) -> Vec<ErrorAt> {
    let mut out: Vec<ErrorAt> = Vec::new();
    for (i, &e) in errors.iter().enumerate() {
        let next = out.last().map_or(1, |last| (last.t + 1).max((last.t as f64 * 1.6).ceil() as usize));
        if e.t >= next || i + 1 == errors.len() {
            out.push(e);
        }
    }
    out
}

/// Refuses a figure that ends in neither .svg nor .png; true for .svg.
pub fn figure_format(path: &Path) -> Result<bool> {
    match path.extension().map(|e| e.to_ascii_lowercase()) {
        Some(e) if e == "svg" => Ok(true),
        Some(e) if e == "png" => Ok(false),
        _ => Err(Error::setting("plot", format!("{} ends in neither .svg nor .png", path.display()))),
    }
}

/// Writes a figure in the format that its name says.
pub fn write_figure(path: &Path, figure: &Figure) -> Result<()> {
    match figure_format(path)? {
        true => OutputFile::write(path, figure.to_svg()?.as_bytes()),
        false => OutputFile::write(path, &figure.to_png(2.0)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_a_dozen_rows_show_a_long_curve() {
        let errors: Vec<ErrorAt> =
            (1..=200).map(|t| ErrorAt { t, squared_error: 1.0, lowest: 1.0, highest: 1.0 }).collect();
        let t: Vec<usize> = chosen(&errors).iter().map(|e| e.t).collect();
        assert_eq!((t[0], t[1], t.len()), (1, 2, 11));
        assert_eq!(t.last(), Some(&200));
    }
}
