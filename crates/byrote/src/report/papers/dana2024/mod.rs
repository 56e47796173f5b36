//! dana2024, figures 1 to 4: how many associations attention alone learns, against heads, head width, model width and parameters.
//!
//! Every pair of tokens is followed by one token, drawn at random: T0 = N^2 associations. Memory X and accuracy are related by
//! accuracy = 1/N + (1 - 1/N) X / T0, because an association that is not remembered is guessed.
//!
//! Two kinds of training runs are compared: those of the authors' published program (batches, a decaying rate) and full-batch
//! L-BFGS.
//!
//! Reference: L. Dana, M. S. Pydi, Y. Chevaleyre, arXiv:2411.10115 (2024), section 4.2, Corollary 2, appendix B.

use super::{Agreement, Claim, Paper, agreement, law_json};
use crate::Result;
use crate::bounds::{dana2024, mahdavi2024};
use crate::fit::{self, Comparison, Law, Point, Scale};
use crate::report::averages::{Mean, Pairs, by_size};
use crate::report::laws::{Answer, Question, parameters};
use crate::report::numbers::{brief, thousands};
use crate::sweep::{Record, Row};
use byrote_figures::html::{Exhibit, Section};
use byrote_figures::{Axis, Figure, Line, MarkerForm, Points};
use serde_json::json;

/// Above this accuracy the memory is full, and no law of growth can hold.
const FULL_MEMORY: f64 = 0.9;

/// How a model was trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// As in the authors' program.
    Published,
    /// With every association at every step.
    Whole,
}

impl Protocol {
    const BOTH: [Protocol; 2] = [Protocol::Published, Protocol::Whole];

    fn of(row: &Row) -> Self {
        if row.settings.training.batch.is_some() { Protocol::Published } else { Protocol::Whole }
    }

    fn key(self) -> &'static str {
        match self {
            Protocol::Published => "published",
            Protocol::Whole => "whole",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Protocol::Published => "the authors' training",
            Protocol::Whole => "full-batch training",
        }
    }

    fn form(self) -> MarkerForm {
        match self {
            Protocol::Published => MarkerForm::Circle,
            Protocol::Whole => MarkerForm::Diamond,
        }
    }
}

/// A figure of accuracy against one size.
struct Scaling {
    title: &'static str,
    x: &'static str,
    size: fn(&Row) -> f64,
    laws: &'static [Law],
    /// The paper's law first, then its special cases.
    claimed: &'static [Law],
    /// Whether to draw the paper's law even where another one is supported.
    papers_law: bool,
    paper: &'static str,
}

fn heads(row: &Row) -> f64 {
    row.n_heads as f64
}

fn d_model(row: &Row) -> f64 {
    row.settings.model.width() as f64
}

const GROWTH: &[Law] = &[Law::Linear, Law::Square, Law::Quadratic, Law::Power, Law::PowerOffset];

/// The page of a figure; `None` if it is not one of this paper's.
pub(super) fn figure(key: &str, record: &Record) -> Result<Option<Paper>> {
    let scaling = match key {
        "dana2024-fig1a" => Scaling {
            title: "dana2024, figure 1a: accuracy against heads",
            x: "heads H",
            size: heads,
            laws: &[Law::Linear, Law::Quadratic, Law::Power, Law::SaturatingExponential],
            claimed: &[Law::Linear],
            paper: "accuracy grows linearly with the heads, faster than the lower bound.",
            papers_law: false,
        },
        "dana2024-fig1b" => Scaling {
            title: "dana2024, figure 1b: accuracy against head width",
            x: "head width d_h",
            size: |r| r.d_head as f64,
            laws: GROWTH,
            claimed: &[Law::Quadratic, Law::Square],
            paper: "with 20 heads, accuracy grows quadratically with the width of the heads, up to the width of the model.",
            papers_law: false,
        },
        "dana2024-fig2a" => Scaling {
            title: "dana2024, figure 2a: accuracy against model width",
            x: "model width d",
            size: d_model,
            laws: &[Law::Linear, Law::Quadratic, Law::BrokenLine, Law::SaturatingExponential],
            claimed: &[Law::BrokenLine],
            paper: "with 20 heads of width 10, accuracy follows two lines: it is steeper up to d = d_h = 10 than beyond.",
            papers_law: false,
        },
        "dana2024-fig2b" => return slopes(record).map(Some),
        "dana2024-fig3" => return equal_parameters(record).map(Some),
        "dana2024-fig4" => return two_dimensions(record).map(Some),
        _ => return Ok(None),
    };
    accuracy_figure(&scaling, record).map(Some)
}

/// The rows of one training, with and without a hidden layer.
fn rows_of(record: &Record, protocol: Protocol) -> Vec<&Row> {
    record.done().filter(|r| Protocol::of(r) == protocol).collect()
}

fn accuracy(row: &Row) -> f64 {
    row.result.as_ref().map_or(0.0, |r| r.accuracy)
}

/// The means over seeds at every size, with the range.
fn means(points: &[Point]) -> (Pairs, Pairs) {
    by_size(points.iter().map(|p| (p.x, p.y)), Mean::Plain)
}

/// The points before the memory is full.
fn growing(points: &[Point]) -> Vec<Point> {
    let (means, _) = means(points);
    let full = means.iter().find(|m| m.1 >= FULL_MEMORY).map_or(f64::INFINITY, |m| m.0);
    points.iter().copied().filter(|p| p.x < full).collect()
}

fn points_of(rows: &[&Row], size: fn(&Row) -> f64) -> Vec<Point> {
    rows.iter().map(|r| Point::new(size(r), accuracy(r), r.settings.seed)).collect()
}

/// Describes the training runs.
fn protocols(record: &Record) -> Section {
    let seeds = |protocol| {
        let mut seeds: Vec<u64> = rows_of(record, protocol).iter().map(|r| r.settings.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds.len()
    };
    let contexts = record.rows.first().map_or(0, |r| r.contexts);
    let tokens = record.rows.first().map_or(0, |r| r.d_vocab);
    Section::new("How it was trained").anchor("protocols").paragraph(format!(
        "Every pair of {tokens} tokens is followed by one token drawn at random: {} associations, drawn again for every seed.",
        thousands(contexts)
    ))
    .list([
        format!(
            "The authors' training: 64 epochs of 64 batches of 256 pairs drawn uniformly, Adam at a rate that decays linearly \
             from 1e-2 to 5e-4, embeddings drawn uniformly within 1/sqrt(d), Xavier initialization of the attention; {} seeds. \
             This is what their published program does. Appendix B of the paper describes another training: 10 epochs of \
             1,000 batches of 1,024 at 1e-3, and two seeds. Accuracy is measured on all associations with the final weights; \
             the program averages over the last 100 batches.",
            seeds(Protocol::Published)
        ),
        format!(
            "Full-batch training: every association at every step, L-BFGS after a warm-up by Adam; {} seeds.",
            seeds(Protocol::Whole)
        ),
    ])
}

/// The lower bounds on the accuracy of a row's model: Corollary 2, and the earlier Theorem 1 of mahdavi2024.
fn bounds(row: &Row) -> (f64, f64) {
    let (d, d_h, h) = (row.settings.model.width(), row.d_head, row.n_heads);
    let of = |held: u128| dana2024::accuracy(held, row.contexts.into(), row.d_vocab).unwrap_or(f64::NAN);
    let ours = dana2024::capacity_on_all_sequences(d, d_h, h, row.d_vocab, 2);
    (of(ours), of(mahdavi2024::capacity(h, d_h, 2)))
}

/// Draws accuracy against a size: both kinds of training runs, their laws, both lower bounds, chance.
fn accuracy_figure(scaling: &Scaling, record: &Record) -> Result<Paper> {
    let mut figure =
        Figure::new(scaling.title, Axis::linear(scaling.x), Axis::linear("accuracy").range(0.0, 1.0));
    let mut claims = Vec::new();
    let mut sections = Vec::new();
    let mut laws = json!({});
    for protocol in Protocol::BOTH {
        let all = points_of(&rows_of(record, protocol), scaling.size);
        let (mean, ends) = means(&all);
        if mean.is_empty() {
            continue;
        }
        if let Ok(points) = fit::Points::new(growing(&all)) {
            let question = question(scaling, &points, protocol);
            let answer = match scaling.papers_law {
                true => question.answer_by_the_papers_law()?,
                false => question.answer()?,
            };
            figure = drawn(figure, &answer, protocol);
            claims.push(claim(scaling, &answer, protocol, all.len() > points.as_slice().len()));
            laws[protocol.key()] = law_json(&answer.comparison);
            let section = Section::new(format!("Laws for {}", protocol.words()))
                .anchor(format!("laws-{}", protocol.key()))
                .paragraph(format!(
                    "Only sizes with an accuracy below {FULL_MEMORY} are used: a full memory cannot grow."
                ));
            sections.push(question.show(section, &answer));
        }
        let label = protocol.words();
        figure =
            figure.points(Points::new(protocol.key(), label, mean).with_errors(ends).form(protocol.form()));
    }
    figure = with_bounds(figure, record, scaling.size);
    let mut first = Section::new("Accuracy").anchor("accuracy");
    first = first.exhibit(
        Exhibit::new(figure)
            .name("accuracy")
            .alt(format!("Accuracy against {}, for two kinds of training runs, with two lower bounds.", scaling.x))
            .caption("Means over seeds with the range; solid lines are the fitted laws. Dashed lines are what the theorems guarantee."),
    );
    sections.insert(0, first);
    sections.push(protocols(record));
    Ok(Paper {
        title: scaling.title.into(),
        subtitle: "The associations that attention alone learns.".into(),
        claims,
        sections,
        json: json!({ "laws": laws }),
        references: &["dana2024", "mahdavi2024"],
    })
}

fn question<'a>(scaling: &Scaling, points: &'a fit::Points, protocol: Protocol) -> Question<'a> {
    Question {
        name: protocol.key(),
        title: protocol.words(),
        x: Axis::linear(scaling.x),
        y: Axis::linear("accuracy"),
        points,
        laws: scaling.laws,
        drawn: scaling.claimed[0],
        scale: Scale::Plain,
    }
}

/// Adds the law of an answer in the colour of its training.
fn drawn(mut figure: Figure, answer: &Answer, protocol: Protocol) -> Figure {
    for mut band in answer.figure.bands.iter().cloned() {
        protocol.key().clone_into(&mut band.key);
        figure = figure.band(band);
    }
    for mut line in answer.figure.lines.iter().cloned() {
        protocol.key().clone_into(&mut line.key);
        line.label = format!("{}: {} law", protocol.words(), answer.law);
        figure = figure.line(line);
    }
    figure
}

fn with_bounds(figure: Figure, record: &Record, size: fn(&Row) -> f64) -> Figure {
    let mut rows: Vec<&Row> = record.done().collect();
    rows.sort_by(|a, b| size(a).total_cmp(&size(b)));
    rows.dedup_by(|a, b| size(a) == size(b));
    let line = |f: &dyn Fn(&Row) -> f64| rows.iter().map(|r| (size(r), f(r))).collect::<Vec<_>>();
    let chance = rows.first().map_or(0.0, |r| 1.0 / r.d_vocab as f64);
    figure
        .line(Line::new("dana2024", "Corollary 2", line(&|r| bounds(r).0)).dashed())
        .line(Line::new("mahdavi2024", "mahdavi2024, Theorem 1", line(&|r| bounds(r).1)).dashed())
        .horizontal(chance, "chance")
        .dash_key("measured and fitted", "lower bounds")
}

fn claim(scaling: &Scaling, answer: &Answer, protocol: Protocol, cut: bool) -> Claim {
    let c = &answer.comparison;
    let fitted = c.row(scaling.claimed[0]).and_then(|row| {
        let fit = row.fit.as_ref()?;
        let r = fit.r_squared.map_or(String::new(), |r| format!(", R\u{b2} = {r:.3}"));
        Some(format!("{} is {}{r}", row.law.formula(), parameters(row)))
    });
    let cut = if cut { " Sizes with a full memory are left out." } else { "" };
    let measured = format!("with {}, {}; {}.{cut}", protocol.words(), c.sentence, fitted.unwrap_or_default());
    let law = if scaling.claimed.contains(&answer.law) { answer.law } else { scaling.claimed[0] };
    let shape = has_the_shape(c, law);
    match (agreement(c, scaling.claimed), shape) {
        (Agreement::Yes | Agreement::Nearly, false) => {
            let measured =
                format!("{measured} But this is not the reported growth: the curve bends the other way.");
            Claim::new(scaling.paper, measured, Agreement::No)
        }
        (agrees, _) => Claim::new(scaling.paper, measured, agrees),
    }
}

/// Whether a law has the reported shape: an upward parabola, a broken line that flattens.
fn has_the_shape(comparison: &Comparison, law: Law) -> bool {
    let Some(fit) = comparison.row(law).and_then(|row| row.fit.as_ref()) else { return true };
    let value = |name: &str| fit.parameters.iter().find(|p| p.name == name).map_or(0.0, |p| p.value);
    match law {
        Law::Linear | Law::Square | Law::Cube => value("b") > 0.0,
        Law::Quadratic => value("c") > 0.0,
        Law::BrokenLine => value("b") > value("c"),
        _ => true,
    }
}

/// The page of figure 2b: with d = d_h, the growth of accuracy with the heads against d.
fn slopes(record: &Record) -> Result<Paper> {
    let laws: &[Law] = &[Law::Linear, Law::Square, Law::Quadratic, Law::Cube, Law::CubicFromZero, Law::Power];
    let claimed: &[Law] = &[Law::Cube, Law::CubicFromZero, Law::Cubic];
    let title = "dana2024, figure 2b: growth with the heads, against the width";
    let mut figure =
        Figure::new(title, Axis::linear("width d = d_h"), Axis::linear("accuracy per head").from_zero());
    let (mut claims, mut sections, mut json) = (Vec::new(), Vec::new(), json!({}));
    for protocol in Protocol::BOTH {
        let rows = rows_of(record, protocol);
        let slopes = slopes_by_width(&rows);
        let (mean, ends) = means(&slopes);
        let Ok(points) = fit::Points::new(slopes) else { continue };
        let question = Question {
            name: protocol.key(),
            title: protocol.words(),
            x: Axis::linear("width d = d_h"),
            y: Axis::linear("accuracy per head"),
            points: &points,
            laws,
            drawn: Law::Cube,
            scale: Scale::Plain,
        };
        let answer = question.answer()?;
        figure = drawn(figure, &answer, protocol).points(
            Points::new(protocol.key(), protocol.words(), mean).with_errors(ends).form(protocol.form()),
        );
        let power = answer.comparison.row(Law::Power).map(parameters).unwrap_or_default();
        let exponent =
            answer.comparison.row(Law::Power).and_then(|r| r.replicates.as_ref()?.interval("p").copied());
        // A cubic whose leading coefficient may be 0 is a parabola: the coefficient must be clearly above 0, or the interval of the
        // exponent must contain 3.
        let cubic = answer.comparison.row(Law::CubicFromZero);
        let cubed =
            cubic.and_then(|r| r.replicates.as_ref()?.interval("d").copied()).is_some_and(|d| d.low > 0.0);
        let third = exponent.is_none_or(|p| p.holds(3.0));
        let supported = answer.comparison.verdict.laws().contains(&Law::Cube);
        let agrees = match agreement(&answer.comparison, claimed) {
            Agreement::Yes | Agreement::Nearly if !(supported || cubed || third) => Agreement::No,
            agrees => agrees,
        };
        claims.push(Claim::new(
            "the growth with the heads is cubic in d where d = d_h.",
            format!("with {}, {}; as b x^p: {power}.", protocol.words(), answer.comparison.sentence),
            agrees,
        ));
        json[protocol.key()] = law_json(&answer.comparison);
        let section =
            Section::new(format!("Laws for {}", protocol.words())).anchor(format!("laws-{}", protocol.key()));
        sections.push(question.show(section, &answer));
    }
    let first = Section::new("Growth with the heads").anchor("slopes").exhibit(
        Exhibit::new(figure)
            .name("slopes")
            .alt("The slope of accuracy over heads against the width, for two kinds of training runs.")
            .caption("Each point is the slope of a line through the accuracies at several numbers of heads, before the memory is full."),
    );
    sections.insert(0, first);
    sections.push(protocols(record));
    Ok(Paper {
        title: title.into(),
        subtitle: "The associations that attention alone learns.".into(),
        claims,
        sections,
        json: json!({ "laws": json }),
        references: &["dana2024"],
    })
}

/// The slope of accuracy over heads for every width and seed, before the memory is full.
fn slopes_by_width(rows: &[&Row]) -> Vec<Point> {
    let mut rows: Vec<&Row> = rows.iter().copied().filter(|r| accuracy(r) < FULL_MEMORY).collect();
    let group = |r: &Row| (r.settings.model.width(), r.settings.seed);
    rows.sort_by_key(|r| (group(r), r.n_heads));
    let slope = |part: &[&Row]| {
        let n = part.len() as f64;
        let (x, y) = part.iter().fold((0.0, 0.0), |(x, y), r| (x + heads(r) / n, y + accuracy(r) / n));
        let (xy, xx) = part.iter().fold((0.0, 0.0), |(xy, xx), r| {
            (xy + (heads(r) - x) * (accuracy(r) - y), xx + (heads(r) - x) * (heads(r) - x))
        });
        (xx > 0.0).then(|| Point::new(d_model(part[0]), xy / xx, part[0].settings.seed))
    };
    rows.chunk_by(|a, b| group(a) == group(b)).filter_map(slope).collect()
}

/// The page of figure 3: attention alone and a hidden layer at equal numbers of parameters.
fn equal_parameters(record: &Record) -> Result<Paper> {
    let title = "dana2024, figure 3: attention alone and a hidden layer";
    let mut figure = Figure::new(title, Axis::linear("parameters"), Axis::linear("accuracy").range(0.0, 1.0));
    let (mut claims, mut json) = (Vec::new(), json!({}));
    for protocol in Protocol::BOTH {
        let rows = rows_of(record, protocol);
        let (hidden, alone): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|r| r.d_mlp > 0);
        let parameters = |r: &Row| r.parameters as f64;
        let curves = [alone, hidden].map(|rows| means(&points_of(&rows, parameters)));
        for ((mean, ends), (key, words)) in
            curves.iter().zip([("attention", "attention alone"), ("hidden", "with a hidden layer")])
        {
            if !mean.is_empty() {
                let key = format!("{key} {}", protocol.key());
                figure = figure
                    .line(Line::new(key.clone(), format!("{words}, {}", protocol.words()), mean.clone()))
                    .points(
                        Points::new(key, "", mean.clone()).with_errors(ends.clone()).form(protocol.form()),
                    );
            }
        }
        let [(alone, _), (hidden, _)] = &curves;
        let differences: Vec<f64> =
            alone.iter().filter_map(|&(x, y)| Some(interpolated(hidden, x)? - y)).collect();
        if differences.is_empty() {
            continue;
        }
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        let most = differences.iter().fold(0.0f64, |a, d| a.max(d.abs()));
        let agrees = match most {
            m if m <= 0.05 => Agreement::Yes,
            m if m <= 0.1 => Agreement::Nearly,
            _ => Agreement::No,
        };
        claims.push(Claim::new(
            "attention alone and a transformer with a hidden layer scale alike at equal numbers of parameters.",
            format!(
                "with {}, the hidden layer is ahead by {} in accuracy on average over {} sizes; the largest difference is {}.",
                protocol.words(),
                brief(mean),
                differences.len(),
                brief(most)
            ),
            agrees,
        ));
        json[protocol.key()] =
            json!({"mean_difference": mean, "largest_difference": most, "sizes": differences.len()});
    }
    let first = Section::new("Accuracy against parameters").anchor("accuracy").exhibit(
        Exhibit::new(figure)
            .name("parameters")
            .alt("Accuracy against parameters for attention alone and for one head with a hidden layer.")
            .caption("Attention alone: d = d_h, more heads. Hidden layer: one head with d_h = d, more neurons (GELU)."),
    );
    Ok(Paper {
        title: title.into(),
        subtitle: "Which remembers more, attention or a hidden layer?".into(),
        claims,
        sections: vec![first, protocols(record)],
        json: json!({ "differences": json }),
        references: &["dana2024"],
    })
}

/// The value between two neighbours of a curve; `None` beyond its ends.
fn interpolated(curve: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = curve.iter().position(|p| p.0 >= x)?;
    if curve[after].0 == x {
        return Some(curve[after].1);
    }
    let (a, b) = (curve.get(after.checked_sub(1)?)?, curve[after]);
    Some(a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0))
}

/// The page of figure 4: ten tokens in two dimensions, against the lower bound.
fn two_dimensions(record: &Record) -> Result<Paper> {
    let scaling = Scaling {
        title: "dana2024, figure 4: two dimensions",
        x: "heads H",
        size: heads,
        laws: &[Law::Linear, Law::Quadratic, Law::Power, Law::SaturatingExponential],
        claimed: &[Law::Linear],
        paper: "with d = 2 and N = 10 the memory grows by about 1.7 d_h per head, while the lower bound is d_h.",
        papers_law: true,
    };
    let mut paper = accuracy_figure(&scaling, record)?;
    paper.claims.clear();
    for protocol in Protocol::BOTH {
        let rows = rows_of(record, protocol);
        let (Some(first), Ok(points)) = (rows.first(), fit::Points::new(growing(&points_of(&rows, heads))))
        else {
            continue;
        };
        // The line of the figure in units of memory: associations per head, divided by the width of a head.
        let guess = 1.0 / first.d_vocab as f64;
        let scale = first.contexts as f64 / (1.0 - guess) / first.d_head as f64;
        let answer = question(&scaling, &points, protocol).answer_by_the_papers_law()?;
        let comparison = &answer.comparison;
        let Some(row) = comparison.row(Law::Linear) else { continue };
        let Some(b) = row.fit.as_ref().and_then(|f| f.parameters.iter().find(|p| p.name == "b")) else {
            continue;
        };
        let (slope, interval) =
            (scale * b.value, row.replicates.as_ref().and_then(|r| r.interval("b").copied()));
        let interval = interval.map(|i| (scale * i.low, scale * i.high));
        let (words, agrees) = memory_slope(slope, interval);
        let measured = format!(
            "with {}, the line in the figure grows by {words} times d_h per head. Of the laws compared, {}.",
            protocol.words(),
            comparison.sentence
        );
        paper.claims.push(Claim::new(scaling.paper, measured, agrees));
        let interval = interval.map(|(low, high)| json!({"low": low, "high": high}));
        paper.json["memory"][protocol.key()] = json!({"slope_by_d_head": slope, "interval": interval});
    }
    Ok(paper)
}

/// The growth of the memory per head in words, and whether it is the 1.7 d_h of the paper.
fn memory_slope(slope: f64, interval: Option<(f64, f64)>) -> (String, Agreement) {
    let Some((low, high)) = interval else { return (brief(slope), Agreement::Open) };
    let words = format!("{} (95% interval: {} to {})", brief(slope), brief(low), brief(high));
    let agrees = match slope {
        _ if (low..=high).contains(&1.7) => Agreement::Yes,
        slope if slope > 1.2 && slope < 2.2 => Agreement::Nearly,
        _ => Agreement::No,
    };
    (words, agrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_memory_is_left_out() {
        let points: Vec<Point> =
            [(1.0, 0.2), (2.0, 0.5), (3.0, 0.95), (4.0, 0.85)].map(|(x, y)| Point::new(x, y, 0)).to_vec();
        assert_eq!(growing(&points).iter().map(|p| p.x).collect::<Vec<_>>(), [1.0, 2.0]);
    }

    #[test]
    fn curves_are_compared_where_both_are_known() {
        let curve = [(1.0, 0.0), (3.0, 1.0)];
        assert_eq!(
            [0.5, 1.0, 2.0, 3.0, 3.5].map(|x| interpolated(&curve, x)),
            [None, Some(0.0), Some(0.5), Some(1.0), None]
        );
    }
}
