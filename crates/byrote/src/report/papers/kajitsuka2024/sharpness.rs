//! kajitsuka2024: how sharp a softmax must be in place of hardmax, and how even in place of the mean.
//!
//! The rule of the verdicts: the bound is confirmed if no measured sharpness exceeds it (the measurement stops with an error
//! otherwise) and its size is reported. From `FROM` facts on, beta is fitted in ln y by a logarithm, a power and a + b sqrt(N ln
//! N). Without rounding the last one is expected, because beta follows the length of the weights; with rounding, a logarithm.

use super::super::{Agreement, Claim, Paper, agreement, law_json};
use super::measured_law;
use crate::Result;
use crate::construct::kajitsuka2024::Sharpness;
use crate::fit::{self, Law, Point, ResidualScale};
use crate::report::laws::Question;
use crate::report::numbers::{brief, thousands};
use byrote_figures::html::{Column, Exhibit, Page, Section, Table};
use byrote_figures::{Axis, Figure, Line};
use serde::Serialize;
use serde_json::{Value, json};
use std::f64::consts::LN_2;

/// The smallest size that is fitted.
const FROM: u64 = 100;

/// What a softmax is to approach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Hardmax: heads that select one position each.
    Selecting,
    /// The mean: a head whose scores are equal.
    Uniform,
}

impl Limit {
    /// Both.
    pub const ALL: [Limit; 2] = [Limit::Selecting, Limit::Uniform];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Selecting => "selecting",
            Limit::Uniform => "uniform",
        }
    }
}

/// One network with one kind of attention.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharpnessRow {
    /// N: facts.
    pub samples: u64,
    /// The name of the memory.
    pub memory: &'static str,
    /// What the softmax approaches.
    pub limit: Limit,
    /// Bits of the network's longest weight.
    pub largest_weight_bits: u64,
    /// The bits needed by the network as built.
    pub plain: Sharpness,
    /// The bits needed if the id is rounded.
    pub rounded: Sharpness,
    /// The non-zero parameters of the network as built.
    pub parameters: u64,
    /// What rounding adds to them.
    pub rounding_parameters: u64,
}

impl SharpnessRow {
    fn of(&self, rounded: bool) -> Sharpness {
        if rounded { self.rounded } else { self.plain }
    }
}

/// beta of a number of bits.
fn beta(bits: u64) -> f64 {
    bits as f64 * LN_2
}

/// The memories in the order in which they are shown.
const MEMORIES: [&str; 2] = ["bounded", "searched"];

/// The figures with their names.
pub fn figures(rows: &[SharpnessRow]) -> [(&'static str, Figure); 2] {
    [("beta", selecting(rows)), ("evenness", uniform(rows))]
}

/// Lines of measured and sufficient values of one kind of attention.
fn lines(mut figure: Figure, rows: &[SharpnessRow], limit: Limit, y: fn(u64) -> f64) -> Figure {
    let of = |memory: &str, rounded: bool, value: fn(Sharpness) -> u64| -> Vec<(f64, f64)> {
        let rows = rows.iter().filter(|r| r.limit == limit && r.memory == memory);
        rows.map(|r| (r.samples as f64, y(value(r.of(rounded))))).filter(|p| p.1 > 0.0).collect()
    };
    // With rounding both memories need the same, since they have the same ids.
    let kinds = MEMORIES.map(|m| (m, false, m.to_owned())).into_iter();
    for (memory, rounded, name) in kinds.chain([(MEMORIES[1], true, "either, id rounded".to_owned())]) {
        let key = if rounded { "rounded" } else { memory };
        let measured = Line::new(key, format!("{name}: measured"), of(memory, rounded, |s| s.measured_bits));
        let bound = Line::new(key, format!("{name}: bound"), of(memory, rounded, |s| s.sufficient_bits));
        figure = figure.line(measured.with_markers()).line(bound.dashed());
    }
    figure.dash_key("measured: the least that works", "bound: always enough")
}

fn selecting(rows: &[SharpnessRow]) -> Figure {
    let figure = Figure::new(
        "The sharpness that softmax needs in place of hardmax",
        Axis::log("facts N"),
        Axis::log("beta"),
    )
    .subtitle("One head per position, with the scores -beta (s - o)^2; the least beta with which every fact is answered right.");
    lines(figure, rows, Limit::Selecting, beta)
}

fn uniform(rows: &[SharpnessRow]) -> Figure {
    let figure = Figure::new(
        "How even the uniform attention must be",
        Axis::log("facts N"),
        Axis::log("log2(1 / eps)"),
    )
    .subtitle("Scores of eps at every other position, 0 elsewhere; the largest eps found with which every fact is answered right.");
    lines(figure, rows, Limit::Uniform, |bits| bits as f64)
}

/// The page, and its results as JSON.
pub fn sharpness(rows: &[SharpnessRow], about: &str, full: bool, command: &str) -> Result<(Page, Value)> {
    let mut claims: Vec<Claim> = Limit::ALL.map(|limit| bound_claim(rows, limit)).into();
    let mut law = Section::new("The laws").anchor("law");
    let mut json = json!({});
    let expected = [("bounded", false), ("searched", false), ("searched", true)];
    for (memory, rounded) in expected {
        let name = if rounded { "rounded" } else { memory };
        let rows =
            rows.iter().filter(|r| r.limit == Limit::Selecting && r.memory == memory && r.samples >= FROM);
        let points = rows.map(|r| Point::new(r.samples as f64, beta(r.of(rounded).measured_bits), 0));
        let Ok(points) = fit::Points::new(points) else { continue };
        if points.sizes().len() < 5 {
            continue;
        }
        let (wanted, words) = match rounded {
            true => (Law::Logarithmic, "with the id rounded, beta grows like ln N."),
            false => {
                (Law::RootLog, "without rounding, beta grows like the longest weights, about sqrt(N ln N)")
            }
        };
        let title = format!("beta against facts, {}", if rounded { "id rounded" } else { memory });
        let question = Question {
            name,
            title: &title,
            x: Axis::log("facts"),
            y: Axis::log("beta"),
            points: &points,
            laws: &[Law::Logarithmic, Law::Power, Law::RootLog],
            drawn: wanted,
            scale: ResidualScale::Relative,
        };
        let answer = question.answer()?;
        let figure = Exhibit::new(answer.figure.clone())
            .name(format!("law-{name}"))
            .alt(format!("{title}: measurements and the {} law.", answer.law));
        law = question.show(law.exhibit(figure), &answer);
        let paper = if rounded { words.to_owned() } else { format!("{words} ({memory} memory).") };
        let agrees = agreement(&answer.comparison, &[wanted]);
        claims.push(Claim::new(paper, measured_law(&answer.comparison, wanted, FROM), agrees));
        json[name] = law_json(&answer.comparison);
    }
    json["lines"] = json!(claims.iter().map(Claim::line).collect::<Vec<_>>());
    let paper = Paper {
        title: "kajitsuka2024: softmax in place of hardmax".into(),
        subtitle: "How sharp attention must be where it selects, and how even where it averages.".into(),
        claims,
        sections: vec![shown(rows, about), law],
        json: Value::Null,
        references: &["kajitsuka2024"],
    };
    let small = "A small version: up to 10,000 facts; the full version has up to 30,000.";
    Ok((paper.into_page_with(small, full, command), json))
}

/// Whether the bound suffices, and by how much.
fn bound_claim(rows: &[SharpnessRow], limit: Limit) -> Claim {
    let theory = match limit {
        Limit::Selecting => {
            "selecting heads (ours): beta = ln(2 M c (n - 1) F L) suffices, with c the sum of the heads' output weights, and \
             ln(4 c (n - 1) F) if the id is rounded."
        }
        Limit::Uniform => {
            "a uniform head (ours): scores may differ by eps = 2 / (lambda F L), and by M / (lambda F) if the id is rounded."
        }
    };
    let share = |rounded: bool| -> Option<(f64, f64)> {
        let rows = rows.iter().filter(|r| r.limit == limit).map(|r| r.of(rounded));
        let shares = rows.map(|s| s.measured_bits as f64 / s.sufficient_bits.max(1) as f64);
        shares.fold(None, |ends: Option<(f64, f64)>, x| {
            Some(ends.map_or((x, x), |(low, high)| (low.min(x), high.max(x))))
        })
    };
    let (Some(plain), Some(rounded)) = (share(false), share(true)) else {
        return Claim::new(theory, "no measurement.", Agreement::Open);
    };
    let percent = |(low, high): (f64, f64)| format!("{:.0}% to {:.0}%", 100.0 * low, 100.0 * high);
    let measured = format!(
        "every fact was answered right at the bound. The least number of bits that works is {} of the bound without rounding, \
         {} with it.",
        percent(plain),
        percent(rounded)
    );
    let agrees = if plain.1.max(rounded.1) <= 1.0 { Agreement::Yes } else { Agreement::No };
    Claim::new(theory, measured, agrees)
}

fn shown(rows: &[SharpnessRow], about: &str) -> Section {
    let [(_, beta), (_, even)] = figures(rows);
    Section::new("Sharpness against facts")
        .anchor("sharpness")
        .paragraph(about)
        .paragraph(
            "The construction averages, so its scores are all 0. In a variant, one head per position selects that position, as \
             hardmax does, and the heads have different output weights. What a softmax gets wrong is magnified by the layers \
             behind it: a lookup whose values have hundreds of bits has a slope of hundreds of bits. Rounding the id \
             first, with 8 parameters per bit of it, forgives every deviation up to a quarter.",
        )
        .paragraph(
            "Uniform attention is measured for one pattern of scores, eps at every other position and 0 elsewhere. Another pattern \
             may fail earlier, so the measured eps is an upper bound on what is tolerable. Bisection finds a border between right \
             and wrong answers, which is not proved to be the only one.",
        )
        .paragraph(
            "In the bounds, n is the length of a context, F the range of the values that are mixed, c and lambda the output \
             weights of the heads, M the factor by which the memory expects its ids multiplied, and L the magnification of the \
             layers behind the attention, computed from their weights.",
        )
        .exhibit(Exhibit::new(beta).name("beta").alt(
            "The beta that selecting heads need against the number of facts, measured and bounded, with and without rounding.",
        ))
        .exhibit(Exhibit::new(even).name("evenness").alt(
            "How even uniform attention must be against the number of facts, measured and bounded, with and without rounding.",
        ))
        .table(table(rows))
}

fn table(rows: &[SharpnessRow]) -> Table {
    let columns = [
        Column::right("facts"),
        Column::left("memory"),
        Column::left("attention"),
        Column::right("longest weight").unit("bits"),
        Column::right("needed").unit("bits"),
        Column::right("bound").unit("bits"),
        Column::right("rounded").unit("bits"),
        Column::right("its bound").unit("bits"),
        Column::right("parameters").unit("non-zero"),
        Column::right("rounding adds"),
    ];
    let caption = "Bits: beta / ln 2 of selecting heads, log2(1 / eps) of a uniform one whose scores are eps at every other \
                   position. A border between right and wrong answers, found by bisection to within one bit. Parameters are those of the layers (behind the heads, where they select), without the embedding.";
    rows.iter().fold(Table::new(caption, columns), |table, r| {
        table.row([
            thousands(r.samples),
            r.memory.to_owned(),
            r.limit.name().to_owned(),
            thousands(r.largest_weight_bits),
            thousands(r.plain.measured_bits),
            thousands(r.plain.sufficient_bits),
            thousands(r.rounded.measured_bits),
            thousands(r.rounded.sufficient_bits),
            thousands(r.parameters),
            thousands(r.rounding_parameters),
        ])
    })
}

/// beta and eps of a row, for a text.
pub fn in_words(row: &SharpnessRow, rounded: bool) -> String {
    let found = row.of(rounded);
    match row.limit {
        Limit::Selecting => {
            format!("{} ({})", brief(beta(found.measured_bits)), brief(beta(found.sufficient_bits)))
        }
        Limit::Uniform => format!("2^-{} (2^-{})", found.measured_bits, found.sufficient_bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(measured: impl Fn(f64, bool) -> f64) -> Vec<SharpnessRow> {
        let mut rows = Vec::new();
        for n in [100u64, 200, 300, 600, 1_000, 3_000, 10_000] {
            for memory in MEMORIES {
                for limit in Limit::ALL {
                    let of = |rounded| {
                        let bits = measured(n as f64, rounded).round() as u64;
                        Sharpness { measured_bits: bits, sufficient_bits: bits + 20, magnification_bits: 60 }
                    };
                    rows.push(SharpnessRow {
                        samples: n,
                        memory,
                        limit,
                        largest_weight_bits: 50,
                        plain: of(false),
                        rounded: of(true),
                        parameters: 500,
                        rounding_parameters: 100,
                    });
                }
            }
        }
        rows
    }

    #[test]
    fn laws_are_found_where_they_hold_and_the_bound_is_judged() {
        let root = |n: f64| 30.0 + 4.0 * (n * n.ln()).sqrt();
        let expected = rows(|n, rounded| if rounded { 20.0 + 30.0 * n.ln() } else { root(n) });
        let agreeing = |rows: &[SharpnessRow]| {
            let (page, json) =
                sharpness(rows, "", false, "byrote reproduce kajitsuka2024-sharpness").unwrap();
            assert_eq!(json["lines"].as_array().unwrap().len(), 5);
            page.to_html().unwrap().matches("They agree").count()
        };
        assert_eq!(agreeing(&expected), 5);
        assert!(figures(&expected).iter().all(|(_, f)| f.to_svg().is_ok()));
        let last = expected[1].rounded;
        let words = format!("2^-{} (2^-{})", last.measured_bits, last.sufficient_bits);
        assert_eq!(in_words(&expected[1], true), words);
        // A square root is not a logarithm, and more than the bound is too much.
        assert_eq!(agreeing(&rows(|n, _| root(n))), 4);
        let mut above = expected;
        above[0].plain.sufficient_bits = 1;
        assert_eq!(agreeing(&above), 4);
    }
}
