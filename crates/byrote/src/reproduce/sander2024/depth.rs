//! sander2024: many layers of small steps follow a flow.
//!
//! The paper's summary names a "Neural ODE viewpoint for the infinite-depth limit" and gives no experiment; this one is
//! ours. The statement, its constant and the exact solution are in [`crate::incontext::flow`](mod@crate::incontext::flow).

use super::super::{Job, Reproduced};
use crate::fit::{self, Law, Point, ResidualScale};
use crate::incontext::construct::SHARPNESS;
use crate::incontext::experiment::largest_difference;
use crate::incontext::{
    Attention, Kernel, Map, Over, PredictionMethod, Rows, Sequence, SequenceTask, Step, Until, direct_all,
    errors_at, euler_constant, flow_all, predict, sequences,
};
use crate::output::{OutputFile, csv_text};
use crate::report::papers::sander2024::depth::{self as pages, Rate, Series};
use crate::report::text::TextTable;
use crate::{Result, report};
use rayon::prelude::*;
use serde_json::json;

/// The sum of the steps.
const TIME: f64 = 2.0;
/// The fit begins at this number of layers; below it, terms of higher order are visible.
const ASYMPTOTIC: u64 = 1024;

struct Sizes {
    d: usize,
    length: usize,
    sequences: u64,
    layers: Vec<u64>,
    times: Vec<f64>,
}

impl Sizes {
    fn new(full: bool) -> Self {
        let (d, length, sequences, most) = if full { (15, 100, 20, 14) } else { (4, 32, 10, 12) };
        let times = (-4..=if full { 24 } else { 18 }).map(|i| (0.5 * f64::from(i)).exp2());
        Self { d, length, sequences, layers: (4..=most).map(|i| 1 << i).collect(), times: times.collect() }
    }
}

fn cases() -> Result<[(&'static str, &'static str, Kernel, Attention); 3]> {
    let exp = Kernel::exp(1.0)?;
    Ok([
        ("linear", "linear kernel", Kernel::LINEAR, Attention::Identity),
        ("exp", "exp kernel, exp attention", exp, Attention::Exp),
        ("softmax", "exp kernel, softmax", exp, Attention::Softmax),
    ])
}

pub fn depth(job: &Job<'_>) -> Result<Reproduced> {
    let sizes = Sizes::new(job.full);
    let (first, last) = (sizes.layers[0], sizes.layers[sizes.layers.len() - 1]);
    let text = format!(
        "sander2024, depth: {} linear sequences of {} vectors, d = {}; {first} to {last} layers whose steps add up to {TIME}\n",
        sizes.sequences, sizes.length, sizes.d
    );
    let about = json!({
        "full": job.full, "dry_run": job.dry_run, "d": sizes.d, "length": sizes.length, "sequences": sizes.sequences,
        "flow_time": TIME, "layers": sizes.layers, "fitted_from": ASYMPTOTIC, "seed": job.seed,
    });
    if job.dry_run {
        return Ok(Reproduced::new(text, about, Vec::new()));
    }
    let task = SequenceTask::Linear(Map::Orthogonal);
    let known = sequences(task, sizes.d, sizes.length, job.seed, 0, sizes.sequences)?;
    let mut all = Vec::new();
    for (key, label, kernel, attention) in cases()? {
        all.push(series(job, &sizes, &known, (key, label), (kernel, attention))?);
    }
    let path = job.out.join("sander2024-depth.csv");
    OutputFile::write(&path, csv(&all).as_bytes())?;
    let mut files = vec![path];
    for (name, figure) in pages::figures(&all, TIME) {
        for ending in ["svg", "png"] {
            let path = job.out.join(format!("sander2024-depth-{name}.{ending}"));
            report::write_figure(&path, &figure)?;
            files.push(path);
        }
    }
    files.push(report::write(job.out, &pages::depth(&all, TIME, &text, job.full, job.command))?);
    let text = format!("{text}\n{}", table(&all));
    let mut json = about;
    json["series"] = json!(all);
    Ok(Reproduced::new(text, json, files))
}

/// Distances from the flow by the number of layers, and errors by time.
fn series(
    job: &Job<'_>,
    sizes: &Sizes,
    known: &[Sequence],
    (key, label): (&str, &str),
    (kernel, attention): (Kernel, Attention),
) -> Result<Series> {
    let seen: Vec<Sequence> = known.iter().map(|x| x.first(sizes.length)).collect::<Result<_>>()?;
    let exact = flow_all(&seen, kernel, attention, TIME, job.observer)?;
    let constants: Vec<Rows> = seen
        .par_iter()
        .map(|x| euler_constant(x, kernel, attention, TIME, job.observer))
        .collect::<Result<_>>()?;
    let size = |rows: &Rows| rows.values().iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let mut out = Series {
        key: key.into(),
        label: label.into(),
        constants: constants.iter().map(size).collect(),
        distances: Vec::new(),
        rate: None,
        errors: Vec::new(),
        limit: 0.0,
    };
    let distance = |u: &Rows, e: &Rows| largest_difference(std::slice::from_ref(u), std::slice::from_ref(e));
    for &layers in &sizes.layers {
        let step = Step::Euler { time: TIME, layers };
        let method = PredictionMethod::Layers { until: Until::layers(layers), step, sharpness: SHARPNESS };
        // Too few layers take steps that diverge; such a depth has no point.
        let Ok(outcome) = predict(&seen, kernel, attention, method, job.observer) else {
            job.observer.check()?;
            continue;
        };
        let each = outcome.predictions.iter().zip(&exact).map(|(u, e)| distance(u, e)).collect();
        out.distances.push((layers, each));
    }
    out.rate = rate(&out, job.seed)?;
    let mean = |predictions: &[Rows]| {
        let errors = errors_at(predictions, known);
        errors.iter().map(|e| e.squared_error).sum::<f64>() / errors.len().max(1) as f64
    };
    for &time in &sizes.times {
        let Ok(predictions) = flow_all(&seen, kernel, attention, time, job.observer) else {
            job.observer.check()?;
            continue;
        };
        out.errors.push((time, mean(&predictions)));
    }
    out.limit = mean(&direct_all(&seen, kernel, Over::Query, job.observer)?);
    Ok(out)
}

/// The exponent of a power law through the distances, with its interval over sequences.
fn rate(series: &Series, seed: u64) -> Result<Option<Rate>> {
    let deep = series.distances.iter().filter(|(layers, _)| *layers >= ASYMPTOTIC);
    let points = deep.flat_map(|(layers, each)| {
        each.iter().zip(0..).map(move |(distance, group)| Point::new(*layers as f64, *distance, group))
    });
    let points: Vec<Point> = points.filter(|p| p.y > 0.0).collect();
    if points.len() < 3 {
        return Ok(None);
    }
    let points = fit::Points::new(points)?;
    let method = fit::FitMethod { scale: ResidualScale::Relative, ..fit::FitMethod::default() };
    let found = fit::fit(&points, Law::Power, &method)?;
    let settings = fit::Bootstrap { resample: fit::Resample::Groups, seed, ..fit::Bootstrap::default() };
    let replicates = fit::bootstrap(&points, &found, &settings)?;
    Ok(replicates.interval("p").map(|p| Rate { exponent: p.value, low: p.low, high: p.high }))
}

fn csv(all: &[Series]) -> String {
    let rows = all.iter().flat_map(|s| {
        s.distances.iter().flat_map(move |(layers, each)| {
            each.iter().zip(&s.constants).zip(1..).map(move |((distance, constant), sequence)| {
                let predicted = constant / *layers as f64;
                [
                    s.label.clone(),
                    layers.to_string(),
                    format!("{sequence}"),
                    format!("{distance:e}"),
                    format!("{predicted:e}"),
                ]
            })
        })
    });
    csv_text(["series", "layers", "sequence", "distance_from_flow", "predicted"], rows)
}

fn table(all: &[Series]) -> String {
    let mut table = TextTable::new(
        &[
            "distance from the flow",
            "1,024 layers",
            "last",
            "predicted",
            "exponent",
            "95% interval",
            "theory",
        ],
        &[0],
    );
    for s in all {
        let at = |layers: u64| s.distances.iter().find(|d| d.0 >= layers).map(|d| pages::mean(&d.1));
        let last = s.distances.last();
        let number = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.2e}"));
        let predicted = last.map(|d| pages::mean(&s.constants) / d.0 as f64);
        let (exponent, interval) = match &s.rate {
            Some(r) => (format!("{:.4}", r.exponent), format!("{:.4} to {:.4}", r.low, r.high)),
            None => ("-".into(), "-".into()),
        };
        let last = last.map(|d| pages::mean(&d.1));
        table.row([
            s.label.clone(),
            number(at(ASYMPTOTIC)),
            number(last),
            number(predicted),
            exponent,
            interval,
            "-1".into(),
        ]);
    }
    table.render()
}
