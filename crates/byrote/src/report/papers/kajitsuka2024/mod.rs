//! kajitsuka2024: parameters against facts.
//!
//! The rule of the verdict, fixed before the figure was drawn with it: from 300 facts on, the parameters are fitted in ln y by
//! a line, a power, and the law of the theory with a constant overhead, a + b sqrt(N ln N). The claim is confirmed if
//! the last one is supported by the criteria of docs/laws.md, separately for each convention of counting. The exponent
//! of the plain power is shown and decides nothing: a constant overhead bends it below one half. It has an interval only
//! if the power fits nearly as well as the best law.
//!
//! Reference: T. Kajitsuka, I. Sato, arXiv:2409.17677 (2024), abstract.

pub mod sharpness;

use super::{Agreement, Claim, Paper, agreement, law_json};
use crate::Result;
use crate::fit::{self, Comparison, Law, Point, ResidualScale};
use crate::model::Counting;
use crate::report::laws::Question;
use crate::report::numbers::{brief, thousands};
use crate::report::square_root_figures::{Crossings, ScalingRow};
use crate::units::grouped_number;
use byrote_figures::html::{Column, Exhibit, Page, Section, Table};
use byrote_figures::{Axis, Figure};
use serde_json::{Value, json};

/// The smallest size that is fitted: below, the parts that do not grow are most of the network.
const FROM: u64 = 300;

/// Returns the page of the scaling and its results as JSON, given the rows of random facts, one row of a text, and their figures.
pub fn scaling(
    rows: &[ScalingRow],
    text: &ScalingRow,
    crossings: &Crossings,
    figures: &[Figure],
    full: bool,
    command: &str,
) -> Result<(Page, Value)> {
    let mut claims = Vec::new();
    let mut law = Section::new("The law").anchor("law");
    let mut json = json!({});
    for counting in Counting::ALL {
        let points = rows.iter().filter(|r| r.samples >= FROM);
        let points = points.map(|r| Point::new(r.samples as f64, r.parameters(counting) as f64, 0));
        let Ok(points) = fit::Points::new(points) else { continue };
        if points.sizes().len() < 4 {
            continue;
        }
        let title = format!("Parameters against facts, {counting}");
        let question = Question {
            name: counting.name(),
            title: &title,
            x: Axis::log("facts"),
            y: Axis::log("parameters"),
            points: &points,
            laws: &[Law::Linear, Law::Power, Law::RootLog],
            drawn: Law::RootLog,
            scale: ResidualScale::Relative,
        };
        let answer = question.answer()?;
        let figure = Exhibit::new(answer.figure.clone())
            .name(format!("law-{}", counting.name()))
            .alt(format!("{title}: measurements and the {} law.", answer.law));
        law = question.show(law.exhibit(figure), &answer);
        claims.push(Claim::new(
            format!(
                "N facts take about sqrt N parameters, up to logarithms ({counting} parameters counted)."
            ),
            measured_law(&answer.comparison, Law::RootLog, FROM),
            agreement(&answer.comparison, &[Law::RootLog]),
        ));
        json[counting.name()] = law_json(&answer.comparison);
    }
    if claims.is_empty() {
        let paper = "N facts take about sqrt N parameters, up to logarithms.";
        claims.push(Claim::new(paper, "too few sizes to fit a law.", Agreement::Open));
    }
    claims.push(Claim::new(
        "there are sizes with fewer parameters than facts.",
        crossings.sentence(),
        Agreement::Yes,
    ));
    let mut first = Section::new("Parameters and bits").anchor("scaling").paragraph(
        "Parameters are saved, not storage: the few weights are long, and together have more bits than a plain table of the \
         labels.",
    );
    for (i, figure) in figures.iter().enumerate() {
        let alt = format!("{}.", figure.title);
        first = first.exhibit(Exhibit::new(figure.clone()).name(format!("scaling-{}", i + 1)).alt(alt));
    }
    let paper = Paper {
        title: "kajitsuka2024: fewer parameters than facts".into(),
        subtitle: "An exact transformer whose parameters grow like the square root of the number of facts."
            .into(),
        claims,
        sections: vec![first.table(table(rows, text)), law],
        json: Value::Null,
        references: &["kajitsuka2024"],
    };
    json["lines"] = json!(paper.claims.iter().map(Claim::line).collect::<Vec<_>>());
    Ok((paper.into_page(full, command), json))
}

/// The law of the theory and the plain power, with their intervals.
fn measured_law(comparison: &Comparison, law: Law, from: u64) -> String {
    let one = |law: Law, name: &str| {
        let row = comparison.row(law)?;
        let value = row.fit.as_ref()?.parameters.iter().find(|p| p.name == name)?.value;
        let interval = row.replicates.as_ref().and_then(|r| r.interval(name));
        let within =
            interval.map_or(String::new(), |i| format!(" (95%: {} to {})", brief(i.low), brief(i.high)));
        Some(format!("{}{within}", brief(value)))
    };
    let formula = if law == Law::RootLog { "a + b sqrt(N ln N)" } else { "a + b ln N" };
    let parts = [
        one(law, "a")
            .zip(one(law, "b"))
            .map(|(a, b)| format!("from {from} facts on, {formula} with a = {a} and b = {b}")),
        one(Law::Power, "p").map(|p| format!("a plain power has the exponent {p}")),
        Some(comparison.sentence.clone()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ") + "."
}

fn table(rows: &[ScalingRow], text: &ScalingRow) -> Table {
    let columns = [
        Column::left("facts"),
        Column::right("parameters").unit("non-zero"),
        Column::right("parameters").unit("dense"),
        Column::right("non-zero / sqrt N"),
        Column::right("non-zero per fact"),
        Column::right("dense per fact"),
        Column::right("bits of weights"),
        Column::right("bits of facts"),
    ];
    let caption =
        "The smaller of the two networks, embedding and label table included; every fact verified exactly.";
    rows.iter().chain([text]).fold(Table::new(caption, columns), |table, row| {
        let [nonzero, dense] = Counting::ALL.map(|c| row.parameters(c));
        let n = row.samples as f64;
        table.row([
            row.data.clone(),
            thousands(nonzero),
            thousands(dense),
            brief(row.per_root(Counting::Nonzero)),
            brief(nonzero as f64 / n),
            brief(dense as f64 / n),
            thousands(row.total_bits),
            grouped_number(row.information_bits, 0),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ParameterCount;

    /// Rows whose parameters follow a formula, with a little noise; dense counts are three times as large.
    fn rows(law: impl Fn(f64) -> f64) -> Vec<ScalingRow> {
        let row = |n: u64| {
            let noise = 1.0 + 0.002 * (12.9898 * n as f64).sin();
            let nonzero = (law(n as f64) * noise).round() as u128;
            let count = ParameterCount { nonzero, dense: 3 * nonzero, embedding: 0, label_table: 0 };
            ScalingRow {
                data: format!("random {n}"),
                samples: n,
                labels: 10,
                bounded: count,
                guarantee: 0,
                searched: count,
                depth: 1,
                largest_weight_bits: 1,
                total_bits: 1,
                information_bits: crate::units::AtLeast(1.0),
                lower_bound: 1,
                linear: Vec::new(),
            }
        };
        [300, 350, 450, 1_000, 3_000, 10_000, 30_000].map(row).into()
    }

    /// The claims on the law, as lines.
    fn lines(rows: &[ScalingRow]) -> Vec<String> {
        let crossings = Crossings { nonzero: 400, dense: 1_500 };
        let (_, json) = scaling(rows, &rows[0], &crossings, &[], false, "byrote reproduce").unwrap();
        let lines = json["lines"].as_array().unwrap().iter();
        lines.filter_map(|l| l.as_str()).filter(|l| l.contains("sqrt N")).map(str::to_owned).collect()
    }

    /// `b = VALUE (95%: LOW to HIGH)` of a line.
    fn interval(line: &str) -> (f64, f64, f64) {
        let number = |text: &str| text.replace(',', "").replace('\u{2212}', "-").parse::<f64>().unwrap();
        let (value, rest) = line.split_once("and b = ").unwrap().1.split_once(" (95%: ").unwrap();
        let (low, high) = rest.split_once(')').unwrap().0.split_once(" to ").unwrap();
        (number(value), number(low), number(high))
    }

    #[test]
    fn the_verdict_agrees_with_the_interval_of_its_law() {
        let found = lines(&rows(|n| 200.0 + 10.0 * (n * n.ln()).sqrt()));
        assert_eq!(found.len(), Counting::ALL.len());
        for (line, b) in found.iter().zip([10.0, 30.0]) {
            let (value, low, high) = interval(line);
            assert!(line.ends_with("So they agree."), "{line}");
            assert!(0.0 < low && low <= value && value <= high, "{line}");
            assert!(low <= 1.05 * b && high >= 0.95 * b, "{line}");
        }
        // Parameters that grow with the facts are no square root.
        for line in lines(&rows(|n| 200.0 + 4.0 * n)) {
            assert!(!line.ends_with("So they agree."), "{line}");
        }
    }
}
