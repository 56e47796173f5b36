//! `byrote incontext`: transformers that learn a map from its sequence, layer by layer.

use crate::args::Common;
use crate::interrupt;
use crate::progress::Terminal;
use crate::ui::{self, Table, thousands};
use byrote::figures::Figure;
use byrote::incontext::construct::SHARPNESS;
use byrote::incontext::{
    Attention, ErrorAt, Form, Kernel, Map, Method, Outcome, Sequence, Step, Task, Until, file, predict,
    squared_errors, summarize,
};
use byrote::output::{OutputFile, csv_text};
use byrote::report::incontext_figure::{Series, errors_against_t};
use byrote::{Error, Result};
use clap::{Args, ValueEnum};
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
    pub source: SourceArgs,
    #[command(flatten)]
    pub method: MethodArgs,
    /// Draw squared error against t; FILE ends in .svg or .png, and may be given more than once
    #[arg(long, value_name = "FILE")]
    pub plot: Vec<PathBuf>,
    /// Write the errors, a row a t
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the transformer's weights (with --layers)
    #[arg(long, value_name = "FILE", requires = "layers")]
    pub save: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaskName {
    Linear,
    Periodic,
    Nonlinear,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MapName {
    Orthogonal,
    Rotations,
    Contractive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KernelName {
    Linear,
    Exp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AttentionName {
    Identity,
    Exp,
    Softmax,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sequences")]
pub struct SourceArgs {
    /// What makes the sequences [default: linear]
    #[arg(long, value_enum, value_name = "TASK")]
    pub task: Option<TaskName>,
    /// The matrix of linear sequences [default: orthogonal]
    #[arg(long, value_enum, value_name = "MAP")]
    pub map: Option<MapName>,
    /// The factor by which contractive sequences shrink a step [default: 0.99]
    #[arg(long, allow_negative_numbers = true, value_name = "R")]
    pub rho: Option<f64>,
    /// The period of periodic sequences, drawn uniformly; one number or A..B, both ends included [default: 20..40]
    #[arg(long, value_name = "A..B")]
    pub period: Option<String>,
    /// Instead of a task: one sequence from a file, CSV or .npy, one row a step
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task", "map", "rho", "period", "d", "length", "sequences"])]
    pub file: Option<PathBuf>,
    /// Scale the vectors of the file to norm 1
    #[arg(long, requires = "file")]
    pub unit_norm: bool,
    /// The dimension [default: 15, for nonlinear sequences 4]
    #[arg(long, allow_negative_numbers = true, value_name = "D")]
    pub d: Option<usize>,
    /// Vectors that are seen; one more is drawn, to know what comes after the last [default: 200]
    #[arg(long, allow_negative_numbers = true, value_name = "T")]
    pub length: Option<usize>,
    /// Sequences [default: 5]
    #[arg(long, allow_negative_numbers = true, value_name = "K")]
    pub sequences: Option<u64>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Method")]
pub struct MethodArgs {
    /// The kernel [default: linear for linear sequences, exp otherwise]
    #[arg(long, value_enum, value_name = "KERNEL")]
    pub kernel: Option<KernelName>,
    /// The inverse temperature of the exp kernel [default: 1]; try 16 for periodic sequences
    #[arg(long, allow_negative_numbers = true, value_name = "B")]
    pub beta: Option<f64>,
    /// Divide the kernel by sqrt(k(x, x) k(y, y)): for vectors of other norms than 1
    #[arg(long)]
    pub normalised: bool,
    /// The attention [default: identity for the linear kernel, softmax for exp]
    #[arg(long, value_enum, value_name = "ATTENTION")]
    pub attention: Option<AttentionName>,
    /// The transformer with so many layers of descent
    #[arg(long, allow_negative_numbers = true, value_name = "N", conflicts_with_all = ["direct", "recursion"])]
    pub layers: Option<u64>,
    /// The limit of infinitely many layers, by forward substitution (the default)
    #[arg(long, conflicts_with = "recursion")]
    pub direct: bool,
    /// The same limit by the recursion of the linear kernel: fast for long sequences
    #[arg(long)]
    pub recursion: bool,
    /// Fewer layers where the residual is at most this
    #[arg(long, allow_negative_numbers = true, value_name = "R", requires = "layers")]
    pub tol: Option<f64>,
    /// The step size: a number, universal, spectral or exact [default: universal: 1/(T max k(x, x)), for softmax 1]
    #[arg(long, allow_negative_numbers = true, value_name = "ETA", requires = "layers")]
    pub eta: Option<String>,
    /// How sharply the first layer copies the token before
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = SHARPNESS)]
    pub sharpness: f64,
}

/// What was typed, made ready.
struct Source {
    /// As they are known: one vector more than is seen, for sequences that are made up.
    known: Vec<Sequence>,
    /// As they are seen.
    seen: Vec<Sequence>,
    title: String,
    task: Value,
}

impl SourceArgs {
    /// The task that was typed.
    fn task(&self) -> Result<Task> {
        let name = self.task.unwrap_or(TaskName::Linear);
        let only = |given: bool, option: &'static str, of: &str| match given {
            true => Err(Error::setting(option, format!("is for {of}"))),
            false => Ok(()),
        };
        if name != TaskName::Linear {
            only(self.map.is_some(), "--map", "--task linear")?;
        }
        if self.map != Some(MapName::Contractive) {
            only(self.rho.is_some(), "--rho", "--map contractive")?;
        }
        if name != TaskName::Periodic {
            only(self.period.is_some(), "--period", "--task periodic")?;
        }
        Ok(match name {
            TaskName::Linear => Task::Linear(match self.map.unwrap_or(MapName::Orthogonal) {
                MapName::Orthogonal => Map::Orthogonal,
                MapName::Rotations => Map::Rotations,
                MapName::Contractive => Map::Contractive(self.rho.unwrap_or(0.99)),
            }),
            TaskName::Periodic => {
                let (least, most) = period(self.period.as_deref().unwrap_or("20..40"))?;
                Task::Periodic(least, most)
            }
            TaskName::Nonlinear => Task::Nonlinear,
        })
    }

    fn read(&self, seed: u64) -> Result<Source> {
        if let Some(path) = &self.file {
            let mut x = file::read(path)?;
            if self.unit_norm {
                x = x.to_unit_norm()?;
            }
            let title = format!("{}: {} vectors in dimension {}", path.display(), x.len(), x.d());
            return Ok(Source { known: vec![x.clone()], seen: vec![x], title, task: Value::Null });
        }
        let task = self.task()?;
        let d = self.d.unwrap_or(if task == Task::Nonlinear { 4 } else { 15 });
        let (length, sequences) = (self.length.unwrap_or(200), self.sequences.unwrap_or(5));
        if length < 2 {
            return Err(Error::setting(
                "length",
                format!("{length}; at least 2, since nothing comes before the first"),
            ));
        }
        if sequences == 0 || sequences > 100_000 {
            return Err(Error::setting("sequences", format!("{sequences}; from 1 to 100,000")));
        }
        let numbers = (length as u128) * u128::from(sequences) * d as u128;
        if numbers > 1 << 31 {
            return Err(Error::setting(
                "length",
                format!("{} numbers in all; fewer vectors, sequences or dimensions", thousands(numbers)),
            ));
        }
        let mut source =
            Source { known: Vec::new(), seen: Vec::new(), title: String::new(), task: json!(task.name()) };
        for index in 0..sequences {
            let x = task.generate(d, length.saturating_add(1), seed, index)?;
            source.seen.push(x.first(length)?);
            source.known.push(x);
        }
        let plural = if sequences == 1 { "" } else { "s" };
        source.title = format!(
            "{} {} sequence{plural} of {} vectors in dimension {d}",
            thousands(sequences),
            task.name(),
            thousands(length as u64)
        );
        Ok(source)
    }
}

/// "7" or "20..40".
fn period(text: &str) -> Result<(usize, usize)> {
    let wrong = || Error::setting("period", format!("{text:?}; a number, or A..B with both ends included"));
    let number = |s: &str| s.trim().parse::<usize>().map_err(|_| wrong());
    match text.split_once("..") {
        Some((least, most)) => Ok((number(least)?, number(most)?)),
        None => number(text).map(|p| (p, p)),
    }
}

impl MethodArgs {
    fn kernel(&self, source: &SourceArgs) -> Result<(Kernel, Attention)> {
        let linear = source.file.is_none() && matches!(source.task, None | Some(TaskName::Linear));
        let kernel = match self.kernel.unwrap_or(match (linear, self.beta.is_some(), self.attention) {
            (true, false, None | Some(AttentionName::Identity)) => KernelName::Linear,
            (_, _, Some(AttentionName::Identity)) => KernelName::Linear,
            _ => KernelName::Exp,
        }) {
            KernelName::Linear if self.beta.is_some() => {
                return Err(Error::setting("beta", "the linear kernel has none; add --kernel exp"));
            }
            KernelName::Linear => Kernel::LINEAR,
            KernelName::Exp => Kernel::exp(self.beta.unwrap_or(1.0))?,
        };
        let kernel = if self.normalised { kernel.normalised() } else { kernel };
        let attention = match self.attention {
            None => kernel.default_attention(),
            Some(AttentionName::Identity) => Attention::Identity,
            Some(AttentionName::Exp) => Attention::Exp,
            Some(AttentionName::Softmax) => Attention::Softmax,
        };
        kernel.goes_with(attention)?;
        Ok((kernel, attention))
    }

    fn step(&self) -> Result<Step> {
        Ok(match self.eta.as_deref() {
            None | Some("universal") => Step::Universal,
            Some("spectral") => Step::Spectral,
            Some("exact") => Step::Exact,
            Some(number) => Step::Fixed(number.parse().map_err(|_| {
                Error::setting("eta", format!("{number:?}; a number, universal, spectral or exact"))
            })?),
        })
    }

    fn method(&self) -> Result<Method> {
        let Some(layers) = self.layers else {
            return Ok(if self.recursion { Method::Recursion } else { Method::Direct });
        };
        if layers == 0 {
            return Err(Error::setting("layers", "0; at least 1"));
        }
        if let Some(tol) = self.tol
            && !(tol > 0.0 && tol.is_finite())
        {
            return Err(Error::setting("tol", format!("{tol}; a number above 0")));
        }
        let until = Until { layers, residual: self.tol };
        Ok(Method::Layers { until, step: self.step()?, sharpness: self.sharpness })
    }
}

pub fn run(args: &IncontextCommand, common: &Common) -> Result<ExitCode> {
    for path in &args.plot {
        figure_format(path)?;
    }
    for path in args.plot.iter().chain(&args.csv).chain(&args.save) {
        interrupt::clean_up_beside(path);
    }
    let (kernel, attention) = args.method.kernel(&args.source)?;
    let method = args.method.method()?;
    let source = args.source.read(common.seed)?;
    let outcome = predict(&source.seen, kernel, attention, method, &Terminal::new(common.quiet))?;
    let errors: Vec<Vec<f64>> =
        outcome.predictions.iter().zip(&source.known).map(|(u, x)| squared_errors(u, x)).collect();
    let errors = summarize(&errors);
    if !args.plot.is_empty() {
        let how = how(&outcome, kernel, attention, method);
        let series = Series { key: "sander2024".into(), label: how, errors: errors.clone() };
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
    fn periods_are_a_number_or_a_range() {
        assert_eq!(period("7").unwrap(), (7, 7));
        assert_eq!(period("20..40").unwrap(), (20, 40));
        for wrong in ["", "a", "1..", "..3", "-1", "1.5"] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn about_a_dozen_rows_show_a_long_curve() {
        let errors: Vec<ErrorAt> =
            (1..=200).map(|t| ErrorAt { t, squared_error: 1.0, lowest: 1.0, highest: 1.0 }).collect();
        let t: Vec<usize> = chosen(&errors).iter().map(|e| e.t).collect();
        assert_eq!((t[0], t[1], t.len()), (1, 2, 11));
        assert_eq!(t.last(), Some(&200));
    }
}
