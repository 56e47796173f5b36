//! sander2024, figure 2: products of projections on the sphere.
//!
//! The caption: random nu and nu_1 .. nu_6 in S^2; P_6 nu, P_5 P_6 nu, ..., P_1 ... P_6 nu. The statement about the norm of
//! the product, and its check on many draws, are in [`crate::incontext::projection`].

use super::super::{Job, Reproduced};
use crate::incontext::{Projections, Rows};
use crate::output::{OutputFile, csv_text};
use crate::report::papers::sander2024::sphere::{self as pages, Check, Drawn};
use crate::report::text::TextTable;
use crate::{Error, Result, report};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// As published.
const DIRECTIONS: usize = 6;
/// The draws from which the picture is taken.
const PICTURES: u64 = 100;
/// Products of up to this many projections are checked.
const MOST: usize = 12;
/// Norms this close to 1 are 1 up to rounding.
const ROUNDING: f64 = 1e-12;

pub fn fig2(job: &Job<'_>) -> Result<Reproduced> {
    let draws: u64 = if job.full { 10_000 } else { 500 };
    let text = format!(
        "sander2024, figure 2: a point on the sphere and {DIRECTIONS} projections; {draws} draws to check their norms\n"
    );
    let about = json!({
        "full": job.full, "dry_run": job.dry_run, "directions": DIRECTIONS, "draws": draws, "seed": job.seed,
    });
    if job.dry_run {
        return Ok(Reproduced::new(text, about, Vec::new()));
    }
    let drawn = draw(job.seed)?;
    let checks = check(job, draws)?;
    let page = pages::fig2(&drawn, &checks, job.full, job.command);
    let path = job.out.join("sander2024-fig2.csv");
    OutputFile::write(&path, csv(&drawn).as_bytes())?;
    let mut files = vec![path];
    for (name, figure) in pages::figures(&drawn, &checks) {
        for ending in ["svg", "png"] {
            let path = job.out.join(format!("sander2024-fig2-{name}.{ending}"));
            report::write_figure(&path, &figure)?;
            files.push(path);
        }
    }
    files.push(report::write(job.out, &page)?);
    let text = format!("{text}\n{}", table(&drawn, &checks));
    let mut json = about;
    json["nu"] = json!(drawn.path.row(0));
    json["projected_along"] = rows(drawn.projections.directions());
    json["points"] = rows(&drawn.path);
    json["norms"] = json!(drawn.norms());
    json["product_norm"] = json!(drawn.product_norm);
    json["checks"] = json!(checks);
    Ok(Reproduced::new(text, json, files))
}

fn rows(rows: &Rows) -> Value {
    rows.iter().map(|row| json!(row)).collect()
}

/// One point and six directions: of many draws, the one whose neighbouring points are farthest apart, so that the picture shows
/// them all.
fn draw(seed: u64) -> Result<Drawn> {
    let mut best: Option<(f64, Drawn)> = None;
    for index in 0..PICTURES {
        let all = Projections::random(DIRECTIONS + 1, 3, 3, seed, index);
        let (nu, others) = all.directions().values().split_at(3);
        let projections = Projections::new(Rows::whole(3, others.to_vec()))?;
        let path = projections.path(nu);
        let step =
            |i: usize| path.row(i).iter().zip(path.row(i + 1)).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let apart = (0..DIRECTIONS).map(step).fold(f64::INFINITY, f64::min);
        if best.as_ref().is_none_or(|(least, _)| apart > *least) {
            let product_norm = projections.norm();
            best = Some((apart, Drawn { projections, path, product_norm, of: PICTURES }));
        }
    }
    best.map(|(_, drawn)| drawn).ok_or_else(|| Error::setting("draws", "must be at least 1 (got 0)"))
}

/// Norms of products of 1 to twelve projections along directions that span all dimensions or only two.
fn check(job: &Job<'_>, draws: u64) -> Result<Vec<Check>> {
    let mut out = Vec::new();
    for dimensions in [3, 2] {
        for n in 1..=MOST {
            let mut check = Check::new(dimensions, n, draws);
            for index in 0..draws {
                if index % 256 == 0 {
                    job.observer.check()?;
                }
                let all = Projections::random(n, 3, dimensions, job.seed, PICTURES + index);
                let (norm, rank) = (all.norm(), all.rank());
                check.add(norm, rank == 3, norm < 1.0 - ROUNDING);
            }
            out.push(check);
        }
    }
    Ok(out)
}

fn csv(drawn: &Drawn) -> String {
    let number = |x: f64| format!("{x:e}");
    let row = |name: String, x: &[f64]| {
        let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        [name, number(x[0]), number(x[1]), number(x[2]), number(length)]
    };
    let points = drawn.path.iter().enumerate().map(|(i, x)| row(drawn.name(i), x));
    let directions = drawn.projections.directions().iter().enumerate();
    let directions = directions.map(|(i, x)| row(format!("nu{}", i + 1), x));
    csv_text(["point", "x", "y", "z", "norm"], points.chain(directions))
}

fn table(drawn: &Drawn, checks: &[Check]) -> String {
    let mut points = TextTable::new(&["point", "length"], &[0]);
    for (i, length) in drawn.norms().into_iter().enumerate() {
        points.row([drawn.name(i), format!("{length:.4}")]);
    }
    points.row(["the largest for any nu".into(), format!("{:.4}", drawn.product_norm)]);
    let mut table = TextTable::new(
        &["directions in", "projections", "mean norm", "lowest", "highest", "below 1 and span"],
        &[0],
    );
    for c in checks.iter().filter(|c| c.projections <= DIRECTIONS) {
        table.row([
            if c.dimensions == 3 { "space" } else { "a plane" }.to_owned(),
            c.projections.to_string(),
            format!("{:.6}", c.mean),
            format!("{:.6}", c.lowest),
            format!("{:.6}", c.highest),
            format!("agree in {} of {}", c.agree, c.draws),
        ]);
    }
    let mut out = points.render();
    let _ = write!(out, "\n{}", table.render());
    out
}
