//! sander2024, figures 3 and 4: causal kernel descent on three kinds of sequences, compared with trained networks.
//!
//! The paper says of figure 3: means over five sequences, d = 15, 15 and 4, periods from 20 to 40. Lengths, inverse
//! temperatures, the nonlinear map and all settings of figure 4 are ours.

mod depth;
mod layers;
mod sphere;

pub use depth::depth;
pub use layers::fig1;
pub use sphere::fig2;

use super::{Job, Reproduced};
use crate::incontext::train::{NetworkTrainSettings, Start, TEST};
use crate::incontext::{
    Attention, ErrorAt, ErrorSeries, Input, Kernel, Map, Network, NetworkFile, Over, Rows, Sequence,
    SequenceTask, direct_all, errors_at, sequences,
};
use crate::observe::{Progress, Stage};
use crate::output::{OutputFile, csv_text};
use crate::report::incontext_figure::errors_against_t;
use crate::report::papers::sander2024 as pages;
use crate::report::text::TextTable;
use crate::{Result, report};
use rayon::prelude::*;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Sequences averaged in figure 3, as published.
const SEQUENCES: u64 = 5;

struct Panel {
    name: &'static str,
    title: &'static str,
    d: usize,
    /// How many of the lines have a band; more would hide each other.
    bands: usize,
    lines: Vec<(&'static str, String, SequenceTask, Kernel)>,
}

fn panels() -> Result<Vec<Panel>> {
    let linear = SequenceTask::Linear(Map::Orthogonal);
    let rotations = SequenceTask::Linear(Map::Rotations);
    let periodic = SequenceTask::Periodic(20, 40);
    let exp = |beta: f64| Kernel::exp(beta);
    Ok(vec![
        Panel {
            name: "left",
            bands: 2,
            title: "Linear sequences, d = 15",
            d: 15,
            lines: vec![
                ("linear", "linear kernel, orthogonal W".into(), linear, Kernel::LINEAR),
                ("exp", "exp kernel, orthogonal W".into(), linear, exp(1.0)?),
                ("linear-rotations", "linear kernel, rotations".into(), rotations, Kernel::LINEAR),
                ("exp-rotations", "exp kernel, rotations".into(), rotations, exp(1.0)?),
            ],
        },
        Panel {
            name: "center",
            bands: 3,
            title: "Periodic sequences, periods 20 to 40, d = 15",
            d: 15,
            lines: vec![
                ("exp", "exp kernel, beta 1".into(), periodic, exp(1.0)?),
                ("exp-4", "exp kernel, beta 4".into(), periodic, exp(4.0)?),
                ("exp-16", "exp kernel, beta 16".into(), periodic, exp(16.0)?),
            ],
        },
        Panel {
            name: "right",
            bands: 0,
            title: "Nonlinear sequences, d = 4",
            d: 4,
            lines: vec![
                ("linear", "linear kernel".into(), SequenceTask::Nonlinear, Kernel::LINEAR),
                ("exp", "exp kernel, beta 1".into(), SequenceTask::Nonlinear, exp(1.0)?),
                ("exp-4", "exp kernel, beta 4".into(), SequenceTask::Nonlinear, exp(4.0)?),
            ],
        },
    ])
}

/// Squared error against t for linear, periodic and nonlinear sequences.
pub fn fig3(job: &Job<'_>) -> Result<Reproduced> {
    let length = if job.full { 1000 } else { 200 };
    let panels = panels()?;
    let mut files = Vec::new();
    let mut text =
        format!("sander2024, figure 3: {SEQUENCES} sequences of {length} vectors, the limit of the layers\n");
    let mut all = Vec::new();
    let mut shown = Vec::new();
    for panel in &panels {
        let mut series = Vec::new();
        let mut table = TextTable::new(&[panel.title, "t = 16", "31", "61", "101", "last"], &[0]);
        for (key, label, task, kernel) in &panel.lines {
            if job.dry_run {
                table.row(vec![label.clone()]);
                continue;
            }
            let known = sequences(*task, panel.d, length, job.seed, 0, SEQUENCES)?;
            let seen: Vec<Sequence> = known.iter().map(|x| x.first(length)).collect::<Result<_>>()?;
            let predictions = direct_all(&seen, *kernel, Over::Query, job.observer)?;
            let errors = errors_at(&predictions, &known);
            let mut cells = vec![label.clone()];
            cells.extend([16, 31, 61, 101, length].map(|t| format!("{:.1e}", errors[t - 1].squared_error)));
            table.row(cells);
            all.push(json!({
                "panel": panel.name, "task": task.name(), "kernel": kernel.name(), "label": label, "d": panel.d,
                "errors": errors,
            }));
            series.push(ErrorSeries { key: (*key).into(), label: label.clone(), errors });
        }
        let _ = write!(text, "\n{}", table.render());
        if job.dry_run {
            continue;
        }
        let subtitle = format!("Means of {SEQUENCES} sequences.");
        let drawn: Vec<ErrorSeries> = series
            .iter()
            .enumerate()
            .map(|(i, s)| if i < panel.bands { s.clone() } else { without_band(s) })
            .collect();
        let figure = errors_against_t(panel.title, subtitle, &drawn, 1.0);
        for ending in ["svg", "png"] {
            let path = job.out.join(format!("sander2024-fig3-{}.{ending}", panel.name));
            report::write_figure(&path, &figure)?;
            files.push(path);
        }
        let path = job.out.join(format!("sander2024-fig3-{}.csv", panel.name));
        OutputFile::write(&path, csv(&series).as_bytes())?;
        files.push(path);
        shown.push((panel.title.to_owned(), figure, series));
    }
    if !job.dry_run {
        files.push(report::write(job.out, &pages::fig3(&shown, job.full, job.command))?);
    }
    let json = json!({
        "full": job.full, "dry_run": job.dry_run, "sequences": SEQUENCES, "length": length, "series": all,
    });
    Ok(Reproduced::new(text, json, files))
}

fn without_band(series: &ErrorSeries) -> ErrorSeries {
    let mean = |e: &ErrorAt| ErrorAt { lowest: e.squared_error, highest: e.squared_error, ..*e };
    ErrorSeries { errors: series.errors.iter().map(mean).collect(), ..series.clone() }
}

fn csv(series: &[ErrorSeries]) -> String {
    let number = |x: f64| format!("{x:e}");
    let row = |label: &str, e: &ErrorAt| {
        [label.to_owned(), e.t.to_string(), number(e.squared_error), number(e.lowest), number(e.highest)]
    };
    let rows = series.iter().flat_map(|s| s.errors.iter().map(|e| row(&s.label, e)));
    csv_text(["series", "t", "squared_error", "lowest", "highest"], rows)
}

/// The setting of figure 4: smaller unless the full figure is asked for.
fn fig4_settings(job: &Job<'_>) -> Result<NetworkTrainSettings> {
    Ok(NetworkTrainSettings {
        task: SequenceTask::Linear(Map::Orthogonal),
        d: if job.full { 10 } else { 5 },
        length: if job.full { 100 } else { 40 },
        kernel: Kernel::exp(1.0)?,
        attention: Attention::Softmax,
        layers: if job.full { 10 } else { 5 },
        eta: 1.9,
        start: Start::Constructed,
        steps: if job.full { 3000 } else { 600 },
        batch: if job.full { 64 } else { 32 },
        rate: 3e-3,
        seed: job.seed,
    })
}

/// The ideal method, the constructed network and trained ones: errors per coordinate against t.
pub fn fig4(job: &Job<'_>) -> Result<Reproduced> {
    let settings = fig4_settings(job)?;
    let NetworkTrainSettings { d, length, layers, steps, batch, .. } = settings;
    let tested: u64 = if job.full { 1000 } else { 200 };
    let mut text = format!(
        "sander2024, figure 4: linear sequences of {length} vectors, d = {d}; exp kernel, {layers} layers of softmax attention, \
         step {}; {steps} steps of Adam on {batch} fresh sequences each; tested on {tested} others\n",
        settings.eta
    );
    let mut json = json!({
        "full": job.full, "dry_run": job.dry_run, "d": d, "length": length, "layers": layers, "steps": steps,
        "batch": batch, "rate": settings.rate, "eta": settings.eta, "tested": tested,
    });
    if job.dry_run {
        return Ok(Reproduced::new(text, json, Vec::new()));
    }
    let mut files = Vec::new();
    let series = fig4_series(job, &settings, tested, &mut files)?;
    let mut table = TextTable::new(&["squared error / d", "mean over t", "t = 5", "10", "20", "last"], &[0]);
    for ErrorSeries { label, errors, .. } in &series {
        let mean = errors.iter().map(|e| e.squared_error).sum::<f64>() / errors.len() as f64;
        let mut cells = vec![label.clone(), format!("{:.4}", mean / d as f64)];
        cells.extend([5, 10, 20, length].map(|t| format!("{:.4}", errors[t - 1].squared_error / d as f64)));
        table.row(cells);
    }
    let said = text.lines().next().unwrap_or_default().to_owned();
    let _ = write!(text, "\n{}", table.render());
    job.observer.progress(&Progress::new(Stage::Drawing, 0, None));
    // A range over hundreds of sequences would hide the lines.
    let drawn: Vec<ErrorSeries> = series.iter().map(without_band).collect();
    let subtitle = format!("Linear sequences, d = {d}, means over {tested} sequences not seen in training.");
    let figure = errors_against_t("Constructed and trained", subtitle, &drawn, d as f64);
    for ending in ["svg", "png"] {
        let path = job.out.join(format!("sander2024-fig4.{ending}"));
        report::write_figure(&path, &figure)?;
        files.push(path);
    }
    let path = job.out.join("sander2024-fig4.csv");
    OutputFile::write(&path, csv(&series).as_bytes())?;
    files.push(path);
    files.push(report::write(job.out, &pages::fig4(&figure, &drawn, d, &said, job.full, job.command))?);
    json["series"] = series.iter().map(|s| json!({"label": s.label, "errors": s.errors})).collect();
    Ok(Reproduced::new(text, json, files))
}

/// Tests the ideal method and the constructed network, then trains two networks and tests them; their weights and losses are
/// written.
fn fig4_series(
    job: &Job<'_>,
    settings: &NetworkTrainSettings,
    tested: u64,
    files: &mut Vec<PathBuf>,
) -> Result<Vec<ErrorSeries>> {
    let NetworkTrainSettings { task, d, length, layers, .. } = *settings;
    let known = sequences(task, d, length, settings.seed, TEST, tested)?;
    let seen: Vec<Sequence> = known.iter().map(|x| x.first(length)).collect::<Result<_>>()?;
    let test = |network: &Network| -> Result<Vec<ErrorAt>> {
        let predictions: Vec<Rows> =
            seen.par_iter().map(|x| network.evaluate(x, job.observer)).collect::<Result<_>>()?;
        Ok(errors_at(&predictions, &known))
    };
    let series = |key: &str, label: String, errors| ErrorSeries { key: key.into(), label, errors };
    let ideal = errors_at(&direct_all(&seen, settings.kernel, Over::Query, job.observer)?, &known);
    let constructed = test(&settings.constructed()?)?;
    let mut all = vec![
        series("ideal", "the ideal method".to_owned(), ideal),
        series("constructed", format!("constructed, {layers} layers"), constructed),
    ];
    let mut losses = Vec::new();
    for (start, key, label) in [
        (Start::Constructed, "trained", format!("trained from the constructed, {layers} layers")),
        (Start::Random, "random", format!("trained from random weights, {layers} layers")),
    ] {
        let trained = NetworkTrainSettings { start, ..*settings }.train(job.observer)?;
        all.push(series(key, label, test(&trained.network)?));
        losses.push((key, trained.losses));
        let path = job.out.join(format!("sander2024-fig4-{key}.safetensors"));
        NetworkFile { network: trained.network, input: Input::Vector }.save(&path)?;
        files.push(path);
    }
    files.push(save_losses(job, &losses)?);
    Ok(all)
}

fn save_losses(job: &Job<'_>, losses: &[(&str, Vec<f64>)]) -> Result<PathBuf> {
    let row = |key: &str, step: usize, loss: &f64| [key.to_owned(), step.to_string(), format!("{loss:e}")];
    let rows = losses.iter().flat_map(|(key, v)| v.iter().zip(1..).map(|(loss, step)| row(key, step, loss)));
    let out = csv_text(["start", "step", "loss"], rows);
    let path = job.out.join("sander2024-fig4-losses.csv");
    OutputFile::write(&path, out.as_bytes())?;
    Ok(path)
}
