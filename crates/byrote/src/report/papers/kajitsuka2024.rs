//! kajitsuka2024: parameters against facts.
//!
//! Reference: T. Kajitsuka, I. Sato, arXiv:2409.17677 (2024), abstract.

use super::{Agreement, Claim, Paper};
use crate::Result;
use crate::fit::{self, Law, Point};
use crate::report::numbers::{brief, thousands};
use crate::report::square_root_figures::ScalingRow;
use byrote_figures::html::{Column, Exhibit, Page, Section, Table};
use byrote_figures::{Axis, Figure};
use serde_json::Value;

/// Facts from which on a power is fitted: below, the parts that do not grow are most of the network.
const FROM: u64 = 300;

/// The page of the scaling: rows of random facts, one of a text, and the figures that were drawn of them.
pub fn scaling(rows: &[ScalingRow], text: &ScalingRow, figures: &[Figure], command: &str) -> Result<Page> {
    let points = rows.iter().filter(|r| r.samples >= FROM);
    let points = points.map(|r| Point::new(r.samples as f64, r.parameters() as f64, 0));
    let (mut measured, mut agrees) = ("too few sizes to fit a power.".to_owned(), Agreement::Open);
    let mut section = Section::new("The law").anchor("law");
    if let Ok(points) = fit::Points::new(points)
        && points.sizes().len() >= 3
    {
        let question = crate::report::laws::Question {
            name: "law",
            title: "Parameters against facts",
            x: Axis::log("facts"),
            y: Axis::log("parameters"),
            points: &points,
            laws: &[Law::Linear, Law::Power],
            drawn: Law::Power,
            scale: fit::Scale::Plain,
        };
        let answer = question.answer()?;
        let row = answer.comparison.row(Law::Power);
        if let Some(p) = row.and_then(|r| r.fit.as_ref()?.parameters.iter().find(|p| p.name == "p")) {
            let interval = row.and_then(|r| r.replicates.as_ref()?.interval("p").copied());
            let within =
                interval.map_or(String::new(), |i| format!(" (95%: {} to {})", brief(i.low), brief(i.high)));
            measured = format!("from {FROM} facts on, parameters grow as N^{}{within}.", brief(p.value));
            agrees = if (0.4..=0.6).contains(&p.value) { Agreement::Yes } else { Agreement::No };
        }
        section = question.show(section, &answer);
    }
    let crossover = rows.iter().find(|r| r.parameters() < r.samples).map(|r| r.samples);
    let crossing = match crossover {
        Some(n) => format!(
            "of the sizes tried, from {} facts on there are fewer parameters than facts.",
            thousands(n)
        ),
        None => "no size tried has fewer parameters than facts.".into(),
    };
    let columns = [
        Column::left("facts"),
        Column::right("parameters"),
        Column::right("by sqrt N"),
        Column::right("a fact"),
        Column::right("bits of weights"),
        Column::right("bits of facts"),
    ];
    let mut table =
        Table::new("The smaller of the two networks, embedding apart; every fact verified exactly.", columns);
    for row in rows.iter().chain([text]) {
        let (n, p) = (row.samples as f64, row.parameters() as f64);
        table = table.row([
            row.data.clone(),
            thousands(row.parameters()),
            brief(p / n.sqrt()),
            brief(p / n),
            thousands(row.total_bits),
            thousands(row.information_bits.ceil() as u64),
        ]);
    }
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
        subtitle: "An exact transformer with about the square root of as many parameters as facts.".into(),
        claims: vec![
            Claim::new(
                "N facts take about sqrt N parameters, up to logarithms, and no fewer suffice.",
                measured,
                agrees,
            ),
            Claim::new(
                "so there are sizes with fewer parameters than facts.",
                crossing,
                match crossover {
                    Some(_) => Agreement::Yes,
                    None => Agreement::Open,
                },
            ),
        ],
        sections: vec![first.table(table), section],
        json: Value::Null,
        references: &["kajitsuka2024"],
    };
    Ok(paper.into_page(command))
}
