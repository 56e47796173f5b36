//! sander2024, figure 1: the scheme of the construction, the tokens, and the error by layer and position.

use super::super::{Agreement, Claim, Paper};
use crate::incontext::Rows;
use crate::report::numbers::brief;
use crate::units::grouped;
use byrote_figures::html::{Exhibit, Page, Section};
use byrote_figures::{Axis, Figure, Guide, Heat, Panels};
use serde_json::Value;

const SMALL: &str = "Networks of up to 1,024 layers; the full version goes up to 16,384.";
/// Errors below this have one colour.
const LEAST: f64 = 1e-8;

/// A sequence, and networks of several depths on it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The sequence and the kernel.
    pub title: String,
    /// The attention.
    pub attention: String,
    /// The step size.
    pub eta: f64,
    /// The number of layers, and |u^n_t - x_{t+1}|^2 for every t.
    pub errors: Vec<(u64, Vec<f64>)>,
    /// The same for infinitely many.
    pub limit: Vec<f64>,
    /// The largest difference between the network and the descent without one.
    pub agreement: f64,
}

/// Parts of the tokens of a sequence, [T, d] each.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// The layers after the first.
    pub layers: u64,
    /// Names and values.
    pub parts: Vec<(String, Rows)>,
}

/// The mean of errors.
pub fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}

/// The page.
pub fn fig1(cases: &[Case], tokens: &Tokens, full: bool, command: &str) -> Page {
    let claim = |case: &Case| {
        let first = case.errors.first().map_or(0.0, |e| mean(&e.1));
        let (layers, last) = case.errors.last().map_or((0, 0.0), |e| (e.0, mean(&e.1)));
        let limit = mean(&case.limit);
        let agrees = match last - limit {
            gap if gap.abs() <= 0.01 * limit.max(1e-12) => Agreement::Yes,
            gap if gap.abs() <= 0.5 * (first - limit).abs() => Agreement::Nearly,
            _ => Agreement::No,
        };
        Claim::new(
            format!(
                "{}: as layers are added, the estimates approach those of the causal descent's limit.",
                case.title
            ),
            format!(
                "the mean squared error over t is {} after one layer, {} after {}, and {} in the limit; the network differs \
                 from the descent without one by at most {:.0e}.",
                brief(first),
                brief(last),
                grouped(layers),
                brief(limit),
                case.agreement
            ),
            agrees,
        )
    };
    let sections = vec![
        Section::new("The construction").anchor("scheme").exhibit(
            Exhibit::new(scheme())
                .name("scheme")
                .caption("From top to bottom: what one token goes through. All layers but the first are the same."),
        ),
        Section::new("The tokens").anchor("tokens").exhibit(
            Exhibit::new(token_maps(tokens)).name("tokens").caption(
                "Four coordinates of every part of the tokens, linear kernel. The last two maps come closer as t grows and \
                 the method learns the map.",
            ),
        ),
        Section::new("The error by layer and position")
            .anchor("errors")
            .paragraph(
                "Read a column upwards: more layers solve the same equations more exactly. Read the top row to the right: more \
                 context, more equations. A softmax layer divides by the sum over the past, so later positions need more layers; \
                 a linear layer has one step for all positions.",
            )
            .exhibit(Exhibit::new(error_maps(cases)).name("errors").caption("Dark is a small error.")),
    ];
    let paper = Paper {
        title: "sander2024, figure 1: what the layers do".into(),
        subtitle:
            "A first layer prepares the tokens; every further layer is one step of a descent on the past."
                .into(),
        claims: cases.iter().map(claim).collect(),
        sections,
        json: Value::Null,
        references: &["sander2024"],
    };
    paper.into_page_with(SMALL, full, command)
}

/// Boxes and arrows.
fn scheme() -> Figure {
    let steps = [
        "x_1, x_2, ..., x_t: a sequence with x_(t+1) = f(x_t), f unknown",
        "First layer T_0: two softmax heads that attend by position copy x_t and x_(t-1); neurons set both copies to 0 at t = 1",
        "e_t = (1, [t = 1], u_t = 0, x_t, x_(t-1), y_t)",
        "Layer T, n times: u_t grows by eta times [the sum over s of k(x_t, x_(s-1)) y_s (head 1) minus the sum over s of \
         k(x_t, x_s) u_s (head 2)]",
        "e_t = (1, [t = 1], u_t, x_t, x_(t-1), y_t) with a new u_t only",
        "P reads u_t, the estimate of x_(t+1)",
    ];
    let heights = [1.0, 1.5, 1.0, 2.0, 1.0, 1.0];
    let mut figure =
        Figure::new("The construction", Axis::linear(""), Axis::linear("")).hidden_axes().size(640.0, 896.0);
    let mut top = 0.0;
    for (i, (words, height)) in steps.into_iter().zip(heights).enumerate() {
        if i > 0 {
            figure = figure.guide(Guide::arrow((5.0, top), (5.0, top - 0.7)));
            top -= 0.7;
        }
        // What is computed is boxed; what flows between is framed more narrowly and pale.
        let data = i % 2 == 0;
        let side = if data { 0.5 } else { 0.0 };
        let guide = Guide::boxed((side, top - height), (10.0 - side, top), words);
        figure = figure.guide(if data { guide.faint() } else { guide });
        top -= height;
    }
    figure
}

fn token_maps(tokens: &Tokens) -> Panels {
    let map = |(title, rows): &(String, Rows)| {
        let (length, d) = (rows.len(), rows.columns());
        let cells = (0..d).map(|j| (0..length).map(|t| Some(rows.at(t, j))).collect()).collect();
        let heat = Heat::linear("value", places(length), places(d), cells);
        Figure::new(title.clone(), Axis::linear("t"), Axis::linear("coordinate")).heat(heat)
    };
    Panels::new("The parts of the tokens", tokens.parts.iter().map(map))
        .subtitle(format!(
            "One sequence of {} vectors under an orthogonal map; {} layers of descent.",
            tokens.parts.first().map_or(0, |p| p.1.len()),
            tokens.layers
        ))
        .columns(3)
}

fn places(n: usize) -> Vec<f64> {
    (1..=n).map(|i| i as f64).collect()
}

fn error_maps(cases: &[Case]) -> Panels {
    let map = |case: &Case| {
        let length = case.errors.first().map_or(0, |e| e.1.len());
        let rows = case.errors.iter().map(|e| e.0 as f64).collect();
        let cells = case.errors.iter().map(|e| e.1.iter().map(|x| Some(x.max(LEAST))).collect()).collect();
        let heat = Heat::log("squared error", places(length), rows, cells);
        let title = format!("{}, {} attention", case.title, case.attention);
        Figure::new(title, Axis::linear("t"), Axis::log("layers")).heat(heat)
    };
    Panels::new("Squared error by layer and position", cases.iter().map(map))
        .subtitle("|u_t - x_(t+1)|^2 after 1, 2, 4, ... layers; one sequence each.")
        .caption("Errors below 1e-8 have the colour of 1e-8.")
        .columns(3)
        .size(1000.0, 480.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(last: f64) -> Case {
        Case {
            title: "a sequence".into(),
            attention: "identity".into(),
            eta: 0.1,
            errors: vec![(1, vec![1.0, 0.9]), (2, vec![1.0, last])],
            limit: vec![1.0, 0.1],
            agreement: 1e-15,
        }
    }

    #[test]
    fn layers_that_reach_the_limit_agree_and_others_do_not() {
        let tokens = Tokens { layers: 3, parts: vec![("x_t".into(), Rows::zeros(3, 2))] };
        let html = |last: f64| {
            fig1(&[case(last)], &tokens, false, "byrote reproduce sander2024-fig1").to_html().unwrap()
        };
        assert!(html(0.1).contains("They agree") && html(0.9).contains("They do not agree"));
        assert!(html(0.3).contains("They nearly agree"));
    }

    #[test]
    fn the_words_of_the_scheme_stay_in_their_boxes_on_paper_and_on_a_phone() {
        for (width, height) in [(640.0, 896.0), (380.0, 532.0)] {
            let scene = scheme().size(width, height).to_scene().unwrap();
            for group in scene.groups.iter().filter(|g| g.role == "guide" && g.shapes.len() > 2) {
                let byrote_figures::Shape::Polyline { points, .. } = &group.shapes[0] else { continue };
                let (top, bottom) =
                    points.iter().fold((f64::MAX, 0.0f64), |(t, b), p| (t.min(p[1]), b.max(p[1])));
                for shape in &group.shapes[1..] {
                    let byrote_figures::Shape::Text(text) = shape else { continue };
                    assert!(
                        top <= text.area().top && text.area().bottom <= bottom,
                        "{width}: {}",
                        text.content
                    );
                    assert!(!text.content.ends_with('…'), "{}", text.content);
                }
            }
        }
    }
}
