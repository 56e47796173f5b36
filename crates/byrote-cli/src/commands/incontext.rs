//! `byrote incontext`: transformers that learn a map from its sequence, layer by layer.

use crate::args::Common;
use crate::interrupt;
use crate::paths;
use crate::progress::Terminal;
use crate::spelling;
use crate::ui::{self, thousands};
use byrote::Result;
use byrote::incontext::{
    ErrorAt, ErrorSeries, InContextResult, IncontextSpec, Sequence, SequenceTask, Sequences,
    run as run_experiment,
};
use byrote::output::{OutputFile, csv_text};
use byrote::report::incontext_figure::errors_against_t;
use byrote::report::{self, json, text};
use clap::Args;
use serde_json::json;
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

/// What is read, in words.
fn title(spec: &IncontextSpec, sequences: &Sequences) -> String {
    let Sequences { seen, task, .. } = sequences;
    let (count, d) = (seen.len(), seen[0].d());
    let lengths = lengths(seen);
    match (&spec.file[..], *task) {
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

pub fn run(args: &IncontextCommand, common: &Common) -> Result<ExitCode> {
    for path in &args.plot {
        report::check_figure_path("plot", path)?;
    }
    args.spec.check()?;
    let plots = args.plot.iter().map(|path| ("plot", path.as_path()));
    let others = [("csv", &args.csv), ("save", &args.save)];
    let others = others.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)));
    paths::check(args.spec.file.iter().map(PathBuf::as_path), plots.chain(others))?;
    for path in args.plot.iter().chain(&args.csv).chain(&args.save) {
        interrupt::clean_up_beside(path);
    }
    let observer = Terminal::new(common.quiet);
    let found = run_experiment(&args.spec, common.seed, &observer)?;
    drop(observer);
    let title = title(&args.spec, &found.sequences);
    write(args, &title, &found)?;
    let json = || {
        let mut object = json::incontext(&found);
        object["seed"] = json!(common.seed);
        object
    };
    let InContextResult { kernel, attention, method, outcome, errors, baselines, .. } = &found;
    let text = || text::incontext(&title, *kernel, *attention, *method, outcome, errors, baselines);
    ui::show(common, json, || spelling::of_text(&text()))?;
    ui::wrote(common, args.plot.iter().chain(&args.csv).chain(&args.save));
    Ok(ExitCode::SUCCESS)
}

/// Writes the files that were asked for.
fn write(args: &IncontextCommand, title: &str, found: &InContextResult) -> Result<()> {
    let InContextResult { kernel, attention, method, outcome, errors, baselines, .. } = found;
    if !args.plot.is_empty() {
        let how = text::method(outcome, *kernel, *attention, *method);
        let mut series = vec![ErrorSeries { key: "sander2024".into(), label: how, errors: errors.clone() }];
        series.extend(baselines.iter().cloned());
        let figure = errors_against_t("Squared error against t", title, &series, 1.0);
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
