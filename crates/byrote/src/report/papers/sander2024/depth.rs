//! sander2024: the limit of many small layers, as a page.

use super::super::{Agreement, Claim, Paper};
use crate::report::numbers::brief;
use byrote_figures::html::{Exhibit, Page, Section};
use byrote_figures::{Axis, Figure, Line, Points};
use serde::Serialize;
use serde_json::Value;

const SMALL: &str = "A small version: ten sequences and up to 4,096 layers; the full version takes longer sequences and up to 16,384.";
/// How far a fitted exponent may be from -1: terms of higher order remain at any depth.
const NEAR: f64 = 0.02;

/// An exponent with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// p in distance = b layers^p.
    pub exponent: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// One kernel and attention.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// The key that determines the colour.
    pub key: String,
    /// The name.
    pub label: String,
    /// The limit of layers times distance, by Euler's method, one per sequence.
    pub constants: Vec<f64>,
    /// The number of layers, and the largest distance from the flow of every sequence.
    pub distances: Vec<(u64, Vec<f64>)>,
    /// The fitted rate.
    pub rate: Option<Rate>,
    /// The time of the flow, and the squared error of its predictions, averaged over t and sequences.
    pub errors: Vec<(f64, f64)>,
    /// The same for infinite time.
    pub limit: f64,
}

/// The mean of a list.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The figures with their names.
pub fn figures(all: &[Series], time: f64) -> [(&'static str, Figure); 2] {
    [("distance", distances(all, time)), ("time", errors(all))]
}

/// The page.
pub fn depth(all: &[Series], time: f64, about: &str, full: bool, command: &str) -> Page {
    let claim = |s: &Series| {
        let theory = format!(
            "{}: n layers of step {time}/n are steps of Euler's method, so their distance from the flow falls as 1/n.",
            s.label
        );
        let Some(rate) = s.rate else {
            return Claim::new(theory, "too few depths with a stable step.", Agreement::Open);
        };
        let (layers, each) = s.distances.last().map_or((1, &[][..]), |(n, each)| (*n, &each[..]));
        let ratio = layers as f64 * mean(each) / mean(&s.constants);
        let agrees = match ((rate.exponent + 1.0).abs(), (ratio - 1.0).abs()) {
            (p, r) if p <= NEAR && r <= 2.0 * NEAR => Agreement::Yes,
            (p, _) if p <= 5.0 * NEAR => Agreement::Nearly,
            _ => Agreement::No,
        };
        let measured = format!(
            "the exponent is {:.4} (95% interval over sequences {:.4} to {:.4}), and at {layers} layers the distance is {} \
             times the one that the constant of Euler's method predicts.",
            rate.exponent,
            rate.low,
            rate.high,
            brief(ratio)
        );
        Claim::new(theory, measured, agrees)
    };
    let [(_, distance), (_, error)] = figures(all, time);
    let sections = vec![
        Section::new("Layers and the flow")
            .anchor("distance")
            .paragraph(about)
            .paragraph(
                "A layer is u <- u - eta (A u - b) with a lower triangular A. If eta = tau/n and n grows, n layers converge to \
                 the flow u' = -(A u - b), whose solution is exact: u(tau) = (1 - exp(-tau A)) u*, with u* the limit of \
                 infinitely many layers of a fixed step. The theory also gives the constant: n (u^n - u(tau)) tends to \
                 (tau^2/2) A^2 exp(-tau A) u*.",
            )
            .exhibit(
                Exhibit::new(distance)
                    .name("distance")
                    .alt("The distance between networks and the flow against their layers, on logarithmic axes.")
                    .caption(
                        "Points are networks (means over sequences, bars from the lowest to the highest), lines the constant of \
                         Euler's method divided by the layers. The fit takes 1,024 layers and more. Its interval is over sequences; it does not cover the terms of order 1/n^2, which bend all curves alike.",
                    ),
            ),
        Section::new("What the flow knows at which time")
            .anchor("time")
            .paragraph(
                "The sum of the steps is the budget that depth and step size share. Depth beyond what makes the steps small \
                 buys nothing if that sum stays fixed; a longer time brings the predictions to those of the limit.",
            )
            .exhibit(Exhibit::new(error).name("time").caption("Means over t and sequences; solved exactly.")),
    ];
    let paper = Paper {
        title: "sander2024: the limit of many small layers".into(),
        subtitle: "Residual layers as steps of a differential equation, against its exact solution.".into(),
        claims: all.iter().map(claim).collect(),
        sections,
        json: Value::Null,
        references: &["sander2024"],
    };
    paper.into_page_with(SMALL, full, command)
}

fn distances(all: &[Series], time: f64) -> Figure {
    let mut figure =
        Figure::new("Distance from the flow against layers", Axis::log("layers"), Axis::log("distance"))
            .subtitle(format!(
                "The largest difference between a network of n layers with steps {time}/n and the exact flow."
            ));
    for s in all {
        let places = || s.distances.iter().map(|d| d.0 as f64);
        let predicted = places().map(|n| (n, mean(&s.constants) / n));
        let points = places().zip(s.distances.iter().map(|d| mean(&d.1)));
        let ends = s.distances.iter().map(|(_, each)| {
            each.iter().fold((f64::INFINITY, 0.0f64), |(lo, hi), x| (lo.min(*x), hi.max(*x)))
        });
        figure = figure
            .line(Line::new(&s.key, format!("{}: theory", s.label), predicted))
            .points(Points::new(&s.key, format!("{}: networks", s.label), points).with_errors(ends));
    }
    figure
}

fn errors(all: &[Series]) -> Figure {
    let mut figure = Figure::new(
        "Squared error of the flow against its time",
        Axis::log("time: the sum of all steps"),
        Axis::log("mean squared error"),
    );
    for s in all {
        figure = figure.line(Line::new(&s.key, s.label.clone(), s.errors.iter().copied()));
    }
    // The two attentions of the exp kernel share a limit.
    let mut limits: Vec<(f64, &str)> = Vec::new();
    for s in all {
        if !limits.iter().any(|l| (l.0 - s.limit).abs() < 1e-12) {
            limits.push((
                s.limit,
                if s.key == "linear" { "limit, linear kernel" } else { "limit, exp kernel" },
            ));
        }
    }
    limits.into_iter().fold(figure, |figure, (value, label)| figure.horizontal(value, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(power: f64) -> Series {
        let distances = [256u64, 512, 1024].map(|n| (n, vec![3.0 * (n as f64).powf(power); 4]));
        Series {
            key: "linear".into(),
            label: "linear kernel".into(),
            constants: vec![3.0; 4],
            distances: distances.to_vec(),
            rate: Some(Rate { exponent: power, low: power, high: power }),
            errors: vec![(1.0, 0.5), (2.0, 0.4)],
            limit: 0.3,
        }
    }

    #[test]
    fn only_the_rate_of_euler_with_its_constant_agrees() {
        let page =
            |s: Series| depth(&[s], 2.0, "", false, "byrote reproduce sander2024-depth").to_html().unwrap();
        assert!(page(series(-1.0)).contains("They agree"));
        assert!(page(series(-0.5)).contains("They do not agree"));
        let twice = Series { constants: vec![1.5; 4], ..series(-1.0) };
        assert!(page(twice).contains("They nearly agree"));
        let none = Series { rate: None, ..series(-1.0) };
        assert!(page(none).contains("Not decided"));
    }
}
