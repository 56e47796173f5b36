//! Figures 1a, 1b, 2a and 4: accuracy against one size, with the laws of growth and the lower bounds.

use super::{Agreement, Claim, FULL_MEMORY, Family, Paper, accuracies, agreement, d_model, described};
use super::{heads, law_json, means, protocols};
use crate::Result;
use crate::bounds::{dana2024, mahdavi2024};
use crate::fit::{self, Comparison, Law, Point, ResidualScale};
use crate::report::laws::{Answer, Question, parameters};
use crate::report::numbers::brief;
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Exhibit, Section};
use byrote_figures::{Axis, Figure, Line, Points};
use serde_json::json;

/// A figure of accuracy against one size.
struct Scaling {
    title: &'static str,
    x: &'static str,
    size: fn(&JobRow) -> f64,
    laws: &'static [Law],
    /// The paper's law first, then its special cases.
    claimed: &'static [Law],
    /// The paper's law in words.
    law: &'static str,
    paper: &'static str,
}

const GROWTH: &[Law] = &[Law::Linear, Law::Square, Law::Quadratic, Law::Power, Law::PowerOffset];
const WITH_HEADS: &[Law] = &[Law::Linear, Law::Quadratic, Law::Power, Law::SaturatingExponential];

/// The page of a figure; `None` if it is not one of these.
pub(super) fn page(key: &str, record: &Record) -> Result<Option<Paper>> {
    let scaling = match key {
        "dana2024-fig1a" => Scaling {
            title: "dana2024, figure 1a: accuracy against heads",
            x: "heads H",
            size: heads,
            laws: WITH_HEADS,
            claimed: &[Law::Linear],
            law: "The line that the paper reports",
            paper: "accuracy grows linearly with the heads, faster than the lower bound.",
        },
        "dana2024-fig1b" => Scaling {
            title: "dana2024, figure 1b: accuracy against head width",
            x: "head width d_h",
            size: |r| r.d_head as f64,
            laws: GROWTH,
            claimed: &[Law::Quadratic, Law::Square],
            law: "The quadratic law that the paper reports",
            paper: "with 20 heads, accuracy grows quadratically with the width of the heads, up to the width of the model.",
        },
        "dana2024-fig2a" => Scaling {
            title: "dana2024, figure 2a: accuracy against model width",
            x: "model width d",
            size: d_model,
            laws: &[Law::Linear, Law::Quadratic, Law::BrokenLine, Law::SaturatingExponential],
            claimed: &[Law::BrokenLine],
            law: "The broken line that the paper reports",
            paper: "with 20 heads of width 10, accuracy follows two lines: it is steeper up to d = d_h = 10 than beyond.",
        },
        "dana2024-fig4" => return two_dimensions(record).map(Some),
        _ => return Ok(None),
    };
    let mut paper = accuracy_figure(&scaling, record, |q| q.answer())?;
    let mut found = Vec::new();
    for (family, answer, cut) in &paper.answers {
        let claim = claim(&scaling, answer, *family, *cut);
        found.push((*family, claim.agrees));
        paper.page.claims.push(claim);
    }
    Ok(Some(paper.finished(&scaling, record, &found)))
}

/// The page of figure 4: ten tokens in two dimensions, against the lower bound.
fn two_dimensions(record: &Record) -> Result<Paper> {
    let scaling = Scaling {
        title: "dana2024, figure 4: two dimensions",
        x: "heads H",
        size: heads,
        laws: WITH_HEADS,
        claimed: &[Law::Linear],
        law: "The growth of 1.7 d_h per head that the paper reports",
        paper: "with d = 2 and N = 10 the memory grows by about 1.7 d_h per head, while the lower bound is d_h.",
    };
    // The growth is that of a line, so the line is drawn even where another law is supported.
    let mut paper = accuracy_figure(&scaling, record, |q| q.answer_by_the_papers_law())?;
    let mut found = Vec::new();
    for (family, answer, _) in &paper.answers {
        let rows = family.rows(record);
        let comparison = &answer.comparison;
        let (Some(first), Some(row)) = (rows.first(), comparison.row(Law::Linear)) else { continue };
        let Some(b) = row.fit.as_ref().and_then(|f| f.parameters.iter().find(|p| p.name == "b")) else {
            continue;
        };
        // The line of the figure in units of memory: associations per head, divided by the width of a head.
        let guess = 1.0 / first.d_vocab as f64;
        let scale = first.contexts as f64 / (1.0 - guess) / first.d_head as f64;
        let (slope, interval) =
            (scale * b.value, row.replicates.as_ref().and_then(|r| r.interval("b").copied()));
        let interval = interval.map(|i| (scale * i.low, scale * i.high));
        let (words, agrees) = memory_slope(slope, interval);
        let measured = format!(
            "with {}, the line in the figure grows by {words} times d_h per head. Of the laws compared, {}.",
            family.named(),
            comparison.sentence
        );
        found.push((*family, agrees));
        paper.page.claims.push(Claim::new(scaling.paper, measured, agrees));
        let interval = interval.map(|(low, high)| json!({"low": low, "high": high}));
        paper.page.json["memory"][family.key()] = json!({"slope_by_d_head": slope, "interval": interval});
    }
    Ok(paper.finished(&scaling, record, &found))
}

/// A page without its claims, and what they are made from: the answers, and whether sizes with a full memory were left out.
struct Draft {
    page: Paper,
    answers: Vec<(Family, Answer, bool)>,
    figure: Figure,
}

impl Draft {
    /// Adds the figure, with a sentence on what the paper's law describes, and how everything was trained.
    fn finished(mut self, scaling: &Scaling, record: &Record, found: &[(Family, Agreement)]) -> Paper {
        let mut section = Section::new("Accuracy").anchor("accuracy").exhibit(
            Exhibit::new(self.figure)
                .name("accuracy")
                .alt(format!(
                    "Accuracy against {}, for three families of training runs, with two lower bounds.",
                    scaling.x
                ))
                .caption(
                    "Means over seeds with the range; solid lines are the fitted laws. The authors' program is measured over \
                     its last 100 batches, the paper's model over all associations. Dashed lines are what the theorems \
                     say about the paper's model.",
                ),
        );
        if let Some(words) = described(scaling.law, found) {
            section = section.paragraph(words);
        }
        section = section.table(accuracies(record, scaling.x, scaling.size));
        self.page.sections.insert(0, section);
        self.page.sections.push(protocols(record));
        self.page
    }
}

/// Draws accuracy against a size: every family, their laws, both lower bounds, chance.
fn accuracy_figure(
    scaling: &Scaling,
    record: &Record,
    answered: fn(&Question<'_>) -> Result<Answer>,
) -> Result<Draft> {
    let mut figure =
        Figure::new(scaling.title, Axis::linear(scaling.x), Axis::linear("accuracy").range(0.0, 1.0));
    let mut answers = Vec::new();
    let mut sections = Vec::new();
    let mut laws = json!({});
    for family in Family::ALL {
        let all = family.points(&family.rows(record), scaling.size);
        let (mean, ends) = means(&all);
        if mean.is_empty() {
            continue;
        }
        if let Ok(points) = fit::Points::new(growing(&all)) {
            let question = question(scaling, &points, family);
            let answer = answered(&question)?;
            figure = answer.drawn_in(figure, family.key(), family.words());
            laws[family.key()] = law_json(&answer.comparison);
            let section = Section::new(format!("Laws for {}", family.words()))
                .anchor(format!("laws-{}", family.key()))
                .paragraph(format!(
                    "Only sizes with an accuracy below {FULL_MEMORY} are used: a full memory cannot grow."
                ));
            sections.push(question.show(section, &answer));
            answers.push((family, answer, all.len() > points.as_slice().len()));
        }
        let points = Points::new(family.key(), family.words(), mean);
        figure = figure.points(points.with_errors(ends).form(family.form()));
    }
    let page = Paper {
        title: scaling.title.into(),
        subtitle: "The associations that attention alone learns.".into(),
        claims: Vec::new(),
        sections,
        json: json!({ "laws": laws }),
        references: &["dana2024", "mahdavi2024"],
    };
    Ok(Draft { page, answers, figure: with_bounds(figure, record, scaling.size) })
}

/// The points before the memory is full.
pub(super) fn growing(points: &[Point]) -> Vec<Point> {
    let (means, _) = means(points);
    let full = means.iter().find(|m| m.1 >= FULL_MEMORY).map_or(f64::INFINITY, |m| m.0);
    points.iter().copied().filter(|p| p.x < full).collect()
}

fn question<'a>(scaling: &Scaling, points: &'a fit::Points, family: Family) -> Question<'a> {
    Question {
        name: family.key(),
        title: family.words(),
        x: Axis::linear(scaling.x),
        y: Axis::linear("accuracy"),
        points,
        laws: scaling.laws,
        drawn: scaling.claimed[0],
        scale: ResidualScale::Plain,
    }
}

/// The lower bounds on the accuracy of a row's model: Corollary 2, and the earlier Theorem 1 of mahdavi2024.
fn bounds(row: &JobRow) -> (f64, f64) {
    let (d, d_h, h) = (row.settings.model.width(), row.d_head, row.n_heads);
    let of = |held: u128| dana2024::accuracy(held, row.contexts.into(), row.d_vocab).unwrap_or(f64::NAN);
    let ours = dana2024::capacity_on_all_sequences(d, d_h, h, row.d_vocab, 2);
    (of(ours), of(mahdavi2024::capacity(h, d_h, 2)))
}

fn with_bounds(figure: Figure, record: &Record, size: fn(&JobRow) -> f64) -> Figure {
    let mut rows: Vec<&JobRow> = record.done().collect();
    rows.sort_by(|a, b| size(a).total_cmp(&size(b)));
    rows.dedup_by(|a, b| size(a) == size(b));
    let line = |f: &dyn Fn(&JobRow) -> f64| rows.iter().map(|r| (size(r), f(r))).collect::<Vec<_>>();
    let chance = rows.first().map_or(0.0, |r| 1.0 / r.d_vocab as f64);
    figure
        .line(Line::new("dana2024", "Corollary 2", line(&|r| bounds(r).0)).dashed())
        .line(Line::new("mahdavi2024", "mahdavi2024, Theorem 1", line(&|r| bounds(r).1)).dashed())
        .horizontal(chance, "chance")
        .dash_key("measured and fitted", "lower bounds")
}

fn claim(scaling: &Scaling, answer: &Answer, family: Family, cut: bool) -> Claim {
    let c = &answer.comparison;
    let fitted = c.row(scaling.claimed[0]).and_then(|row| {
        let fit = row.fit.as_ref()?;
        let r = fit.r_squared.map_or(String::new(), |r| format!(", R\u{b2} = {r:.3}"));
        Some(format!("{} is {}{r}", row.law.formula(), parameters(row)))
    });
    let cut = if cut { " Sizes with a full memory are left out." } else { "" };
    let measured = format!("with {}, {}; {}.{cut}", family.named(), c.sentence, fitted.unwrap_or_default());
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
}
