//! All constructions at equal N, as a page: parameters under both counts, depth, width and bits.
//!
//! The rule of the verdicts (`growth`): from `FROM` sequences on, dense parameters of one-layer constructions should be a + b N, within
//! `NEAR` of themselves at every size. A power b N^p is fitted in ln y to every measure of every construction that was built at four
//! sizes or more; an overhead that does not grow bends p downwards. Square-root constructions should have p below 3/4 in non-zero
//! parameters (the law itself is the subject of `kajitsuka2024-scaling`). No construction may have fewer bits than the labels.

mod growth;

use super::{Claim, Paper};
use crate::Result;
use crate::output::{csv_field, csv_text};
use crate::report::numbers::thousands;
use crate::report::text::TextTable;
use crate::units::grouped;
use byrote_figures::html::{Cell, Column, Exhibit, Page, Section, Table};
use byrote_figures::{Axis, Figure, Line, Palette};
use growth::{exponent, exponent_table, information, linear, square_root, straight_lines};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Constructions that are not drawn as built, because another curve covers theirs.
const COVERED: [&str; 1] = ["madden2024-average"];
/// Formulas that are not drawn, for the same reason.
const COVERED_FORMULAS: [&str; 2] = ["vardi2022", "madden2023"];
/// Curves for comparison, drawn in ink.
const INK: [&str; 3] = ["identity", "information", "lookup-labels"];

/// How a size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// Weights were built, and every fact was checked.
    Built,
    /// By a formula with all constants.
    Formula,
    /// Up to a constant or logarithms, which are set to one.
    Order,
}

impl Known {
    /// The word in tables.
    fn word(self) -> &'static str {
        match self {
            Known::Built => "built",
            Known::Formula => "formula",
            Known::Order => "order",
        }
    }
}

/// The size of one construction for one number of sequences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Size {
    /// The key that determines the colour.
    pub key: String,
    /// The name.
    pub name: String,
    /// N.
    pub samples: u64,
    /// C.
    pub labels: u64,
    /// How it is known.
    pub known: Known,
    /// All entries of all matrices and vectors, tables included.
    pub dense: Option<f64>,
    /// Those that are not zero.
    pub nonzero: Option<f64>,
    /// Layers, those of attention and feed-forward ones counted alike.
    pub depth: Option<u64>,
    /// The most numbers that a layer holds per position: the residual stream, all heads together, or hidden neurons.
    pub width: Option<u64>,
    /// Bits of all weights as stored.
    pub bits: Option<f64>,
    /// Bits of the longest weight.
    pub longest_bits: Option<u64>,
    /// A condition, or the hypothesis that fails.
    pub remark: Option<String>,
}

impl Size {
    /// A size of which nothing is known.
    pub fn new(samples: u64, labels: u64, known: Known) -> Self {
        Self {
            key: String::new(),
            name: String::new(),
            samples,
            labels,
            known,
            dense: None,
            nonzero: None,
            depth: None,
            width: None,
            bits: None,
            longest_bits: None,
            remark: None,
        }
    }

    /// N log2 C.
    fn information(&self) -> f64 {
        self.samples as f64 * (self.labels as f64).log2()
    }

    fn is_square_root(&self) -> bool {
        self.key.starts_with("kajitsuka2024")
    }

    /// Whether weights are used again, so that there are only O(log N).
    fn is_looped(&self) -> bool {
        self.key == "kajitsuka2024-looped"
    }
}

/// A construction that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The construction.
    pub name: String,
    /// N.
    pub samples: u64,
    /// Why.
    pub reason: String,
}

/// One thing to compare.
#[derive(Clone, Copy)]
struct Measure {
    key: &'static str,
    title: &'static str,
    axis: &'static str,
    of: fn(&Size) -> Option<f64>,
}

const MEASURES: [Measure; 5] = [
    Measure { key: "dense", title: "Parameters, all entries", axis: "dense parameters", of: |s| s.dense },
    Measure {
        key: "nonzero",
        title: "Parameters that are not zero",
        axis: "non-zero parameters",
        of: |s| s.nonzero,
    },
    Measure { key: "depth", title: "Depth", axis: "layers", of: |s| s.depth.map(|d| d as f64) },
    Measure { key: "width", title: "Width", axis: "numbers per layer", of: |s| s.width.map(|w| w as f64) },
    Measure { key: "bits", title: "Bits", axis: "bits of all weights", of: |s| s.bits },
];

/// The names of the constructions of a kind in the order of the list, each with its key.
fn names(all: &[Size], is: impl Fn(&Size) -> bool) -> Vec<(&str, &str)> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for size in all.iter().filter(|s| is(s)) {
        if !names.iter().any(|n| n.1 == size.name) {
            names.push((&size.key, &size.name));
        }
    }
    names
}

fn series(all: &[Size], name: &str, of: fn(&Size) -> Option<f64>) -> Vec<(f64, f64)> {
    let sizes = all.iter().filter(|s| s.name == name);
    sizes.filter_map(|s| Some((s.samples as f64, of(s)?))).filter(|p| p.1 > 0.0).collect()
}

/// The figures with their names.
pub fn figures(all: &[Size]) -> Vec<(&'static str, Figure)> {
    let mut figures: Vec<(&'static str, Figure)> =
        MEASURES.iter().map(|measure| (measure.key, built(all, *measure))).collect();
    figures.insert(2, ("formulas", by_formula(all)));
    figures
}

/// One measure of everything that was built.
fn built(all: &[Size], measure: Measure) -> Figure {
    let title = format!("{}, as built", measure.title);
    let mut figure = Figure::new(title, Axis::log("sequences N"), Axis::log(measure.axis));
    let shown = names(all, |s| s.known == Known::Built && !COVERED.contains(&s.key.as_str()));
    figure = figure.palette(Palette::for_keys(shown.iter().map(|n| n.0)).in_ink(INK));
    for (key, name) in shown {
        figure = figure.line(Line::new(key, name, series(all, name, measure.of)).with_markers());
    }
    let figure = figure.dash_key("built, every sequence checked", "for comparison");
    match measure.key {
        "bits" => {
            let mut points: Vec<(f64, f64)> =
                all.iter().map(|s| (s.samples as f64, s.information())).collect();
            points.dedup();
            figure.line(Line::new("information", "the labels, N log2 C", points).dashed())
        }
        "dense" | "nonzero" => {
            let mut points: Vec<(f64, f64)> =
                all.iter().map(|s| (s.samples as f64, s.samples as f64)).collect();
            points.dedup();
            figure.line(Line::new("identity", "one per sequence", points).dashed())
        }
        _ => figure,
    }
}

/// What is known by formula, and one built construction for comparison.
fn by_formula(all: &[Size]) -> Figure {
    let built = "kajitsuka2024, searched";
    let shown = names(all, |s| {
        let formula = s.known != Known::Built && !COVERED_FORMULAS.contains(&s.key.as_str());
        formula || s.name == built
    });
    let mut figure =
        Figure::new("Parameters by formula", Axis::log("sequences N"), Axis::log("dense parameters"))
            .subtitle("Published constructions that are not built here, and a built one for comparison.")
            .palette(Palette::for_keys(shown.iter().map(|n| n.0)).in_ink(INK));
    for (key, name) in shown {
        let order = all.iter().any(|s| s.name == name && s.known == Known::Order);
        let line = Line::new(key, short(name), series(all, name, |s| s.dense));
        figure = figure.line(match (name == built, order) {
            (true, _) => line.with_markers(),
            (_, true) => line.dashed(),
            _ => line,
        });
    }
    figure.dash_key("all constants known", "an order: constants and logarithms set to one")
}

/// The name up to the colon: the paper's key.
fn short(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// The page, and what was found as JSON.
pub fn constructions(
    all: &[Size],
    refused: &[Refused],
    about: &str,
    full: bool,
    command: &str,
) -> Result<(Page, Value)> {
    let mut exponents = Vec::new();
    for (_, name) in names(all, |s| s.known == Known::Built) {
        for measure in MEASURES {
            exponents.extend(exponent(all, name, measure)?);
        }
    }
    let straight = straight_lines(all)?;
    let claims = vec![linear(&straight), square_root(all, &exponents), information(all)];
    let lines: Vec<String> = claims.iter().map(Claim::line).collect();
    let mut sections = vec![Section::new("What is compared").anchor("compared").paragraph(about).list([
        "Dense parameters are all entries of all matrices and vectors, non-zero parameters those that are not 0; both include \
         embeddings and tables.",
        "Depth counts layers of attention and feed-forward layers alike. Width is the most numbers that a layer holds per \
         position: the residual stream, all heads together, or the hidden neurons.",
        "Bits are those of all weights as stored: 64 per entry for models in double precision, and as long as they are for exact \
         networks.",
        "madden2024 and dana2024 give probabilities, and madden2024 could store any distribution; the others store labels only. \
         Exact networks tolerate no rounding.",
    ])];
    let captions = |key: &str| match key {
        "dense" | "nonzero" => {
            "Every sequence was answered right by every model. Averaging of width 1 coincides with attention of width 1."
        }
        "formulas" => {
            "An order shows how a construction grows, not how large it is. Networks on points (yun2019, bubeck2020, park2021) do not \
             count how contexts become points, kajitsuka2023 labels every position, and mahdavi2024 is proved only where all last tokens \
             differ."
        }
        "depth" => "Layers of attention and feed-forward layers.",
        "width" => "The residual stream, all heads together, or hidden neurons, whichever is largest.",
        _ => "64 bits per entry for double precision; exact networks as long as their weights are.",
    };
    let mut shown = Section::new("Sizes").anchor("sizes");
    for (name, figure) in figures(all) {
        let alt = format!("{}, against the number of sequences.", figure.title);
        shown = shown.exhibit(Exhibit::new(figure).name(name).alt(alt).caption(captions(name)));
    }
    sections.push(shown.table(table(all)));
    sections.push(Section::new("Exponents").anchor("exponents").table(exponent_table(&exponents)));
    if !refused.is_empty() {
        let lines = refused.iter().map(|r| format!("{}, N = {}: {}", r.name, thousands(r.samples), r.reason));
        sections.push(Section::new("Refused").anchor("refused").list(lines));
    }
    let paper = Paper {
        title: "All constructions at equal N".into(),
        subtitle: "Parameters under both counts, depth, width and bits of every construction that byrote builds or can evaluate."
            .into(),
        claims,
        sections,
        json: Value::Null,
        references: &["madden2024", "dana2024", "kajitsuka2024", "mahdavi2024", "kim2023", "kajitsuka2023", "yun2019"],
    };
    let small = "A small version: up to 10,000 sequences; the full version has up to 100,000.";
    Ok((
        paper.into_page_with(small, full, command),
        json!({"lines": lines, "linear": straight, "exponents": exponents}),
    ))
}

/// A number of a table.
fn number(x: Option<f64>) -> Option<String> {
    x.map(|x| grouped(x.round() as u64))
}

fn table(all: &[Size]) -> Table {
    let columns = [
        Column::right("sequences"),
        Column::left("construction"),
        Column::left("known as"),
        Column::right("parameters").unit("dense"),
        Column::right("parameters").unit("non-zero"),
        Column::right("depth"),
        Column::right("width"),
        Column::right("bits"),
        Column::right("longest weight").unit("bits"),
        Column::left("remark"),
    ];
    let caption = "One label per sequence; every sequence answered right by what was built.";
    let cell = |text: Option<String>| text.map_or_else(Cell::none, Cell::from);
    let table = all.iter().fold(Table::new(caption, columns), |table, s| {
        let count = |x: Option<u64>| cell(x.map(grouped));
        table.row([
            Cell::from(thousands(s.samples)),
            Cell::from(s.name.clone()),
            Cell::from(s.known.word()),
            cell(number(s.dense)),
            cell(number(s.nonzero)),
            count(s.depth),
            count(s.width),
            cell(number(s.bits)),
            count(s.longest_bits),
            cell(s.remark.clone()),
        ])
    });
    table.csv("constructions.csv", csv(all))
}

/// The table as CSV.
pub fn csv(all: &[Size]) -> String {
    let columns = [
        "samples",
        "construction",
        "known_as",
        "dense",
        "nonzero",
        "depth",
        "width",
        "bits",
        "longest_weight_bits",
        "remark",
    ];
    let fields = |s: &Size| {
        let real = |x: Option<f64>| csv_field(x.map(|x| x.round() as u64));
        [
            s.samples.to_string(),
            s.name.clone(),
            s.known.word().to_owned(),
            real(s.dense),
            real(s.nonzero),
            csv_field(s.depth),
            csv_field(s.width),
            real(s.bits),
            csv_field(s.longest_bits),
            s.remark.clone().unwrap_or_default(),
        ]
    };
    csv_text(columns, all.iter().map(fields))
}

/// The result as text.
pub fn text(all: &[Size], refused: &[Refused], about: &str, found: &Value) -> String {
    let heads = ["N", "construction", "known as", "dense", "non-zero", "depth", "width", "bits", "longest"];
    let mut table = TextTable::new(&heads, &[1, 2]);
    for s in all {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let about = |text: String| if s.known == Known::Order { format!("~{text}") } else { text };
        table.row([
            grouped(s.samples),
            s.name.clone(),
            s.known.word().to_owned(),
            or_dash(number(s.dense).map(about)),
            or_dash(number(s.nonzero)),
            or_dash(s.depth.map(grouped)),
            or_dash(s.width.map(grouped)),
            or_dash(number(s.bits)),
            or_dash(s.longest_bits.map(grouped)),
        ]);
    }
    let mut out = format!("{about}\n\n{}\n", table.render());
    for r in refused {
        let _ = writeln!(out, "refused: {}, N = {}: {}", r.name, grouped(r.samples), r.reason);
    }
    for line in found["lines"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "{line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(linear: f64, root: f64, bits: f64) -> Vec<Size> {
        let mut all = Vec::new();
        for n in [100u64, 300, 1_000, 3_000, 10_000] {
            let of = |key: &str, name: &str, power: f64, known| {
                let parameters = (40.0 * (n as f64).powf(power)).round();
                Size {
                    key: key.into(),
                    name: name.into(),
                    dense: Some(parameters),
                    nonzero: (known == Known::Built).then_some(parameters),
                    depth: Some(2),
                    width: Some(n),
                    bits: Some(bits * parameters),
                    longest_bits: Some(64),
                    ..Size::new(n, 10, known)
                }
            };
            all.push(of("dana2024-d2", "dana2024, width 2", linear, Known::Built));
            all.push(of("kajitsuka2024", "kajitsuka2024, searched", root, Known::Built));
            all.push(of("kim2023", "kim2023: deep", 0.5, Known::Order));
        }
        all
    }

    fn verdicts(all: &[Size]) -> Vec<String> {
        let (page, found) = constructions(all, &[], "", false, "byrote reproduce constructions").unwrap();
        assert!(page.to_html().is_ok());
        let lines = found["lines"].as_array().unwrap().iter();
        lines.map(|l| l.as_str().unwrap().rsplit("So ").next().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_claim_is_judged_by_its_own_measure() {
        let (yes, no) = ("they agree.", "they do not agree.");
        assert_eq!(verdicts(&sizes(1.0, 0.5, 64.0)), [yes, yes, yes]);
        assert_eq!(verdicts(&sizes(1.2, 0.5, 64.0)), [no, yes, yes]);
        // An overhead does not matter.
        let mut overhead = sizes(1.0, 0.5, 64.0);
        overhead.iter_mut().for_each(|s| s.dense = s.dense.map(|d| d + 3_000.0));
        assert_eq!(verdicts(&overhead), [yes, yes, yes]);
        assert_eq!(verdicts(&sizes(1.0, 0.9, 64.0)), [yes, no, yes]);
        assert_eq!(verdicts(&sizes(1.0, 0.5, 0.01)), [yes, yes, no]);
        assert_eq!(verdicts(&sizes(1.0, 0.5, 64.0)[..3])[..2], ["not decided.", "not decided."]);
    }

    #[test]
    fn formulas_and_orders_are_marked() {
        let all = sizes(1.0, 0.5, 64.0);
        let figures = figures(&all);
        assert_eq!(
            figures.iter().map(|f| f.0).collect::<Vec<_>>(),
            ["dense", "nonzero", "formulas", "depth", "width", "bits"]
        );
        let dashed: Vec<&str> =
            figures[2].1.lines.iter().filter(|l| l.dashed).map(|l| l.label.as_str()).collect();
        assert_eq!(dashed, ["kim2023"]);
        let refused = [Refused { name: "dana2024".into(), samples: 600, reason: "no rank".into() }];
        let (_, found) = constructions(&all, &refused, "", true, "").unwrap();
        let text = text(&all, &refused, "About.", &found);
        assert!(text.contains("refused: dana2024, N = 600: no rank") && text.contains("~400"), "{text}");
        assert_eq!(csv(&all).lines().count(), 16);
        assert!(csv(&all).contains("100,kim2023: deep,order,400,,2,100,"), "{}", csv(&all));
    }
}
