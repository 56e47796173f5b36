//! dana2024 with depth: attention alone in one, three and five layers, with equal numbers of heads in all layers together.
//!
//! L layers of H heads have the parameters of one layer of L H heads. The paper counts the heads of one layer: its memory grows
//! linearly with them (figure 1a), and at least H d_h + d associations fit (Corollary 1). The rules were fixed before the runs on the
//! seeds of the plans:
//!
//! - *law*, for every depth: as in figure 1a, a line of accuracy against heads is supported, below a full memory;
//! - *depth*: the slopes of the lines of L layers and of one layer have overlapping 95% intervals ([`compared`]).
//!
//! Reference: L. Dana, M. S. Pydi, Y. Chevaleyre, arXiv:2411.10115 (2024), section 4.2, Corollaries 1 and 2. The experiment with depth
//! is ours.

use super::super::line_slope::{Slope, compared};
use super::super::{by_depth, layers, n_layers};
use super::scaling::growing;
use super::{Agreement, Claim, FULL_MEMORY, Paper, agreement, d_model, law_json, means, over_all};
use crate::Result;
use crate::bounds::dana2024::{accuracy, capacity_on_all_sequences};
use crate::fit::{self, Law, Point, ResidualScale};
use crate::report::laws::{Answer, Question, parameters};
use crate::report::numbers::thousands;
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Line, MarkerForm, Points};
use serde_json::json;

const LAWS: &[Law] = &[Law::Linear, Law::Quadratic, Law::Power, Law::SaturatingExponential];
const FORMS: [MarkerForm; 3] = [MarkerForm::Circle, MarkerForm::Square, MarkerForm::Diamond];

/// The heads of all layers together.
fn all_heads(row: &JobRow) -> f64 {
    (n_layers(row) * row.n_heads) as f64
}

/// What was found at one depth.
struct Found {
    n_layers: u64,
    words: String,
    points: fit::Points,
    answer: Answer,
    slope: Option<Slope>,
}

fn question<'a>(name: &'a str, title: &'a str, points: &'a fit::Points) -> Question<'a> {
    Question {
        name,
        title,
        x: Axis::linear("heads of all layers"),
        y: Axis::linear("accuracy"),
        points,
        laws: LAWS,
        drawn: Law::Linear,
        scale: ResidualScale::Plain,
    }
}

/// The page.
pub(super) fn page(record: &Record) -> Result<Paper> {
    let mut figure = Figure::new(
        "Accuracy against the heads of all layers",
        Axis::linear("heads of all layers"),
        Axis::linear("accuracy").range(0.0, 1.0),
    );
    let mut all = Vec::new();
    for ((n, rows), form) in by_depth(record).into_iter().zip(FORMS) {
        let accuracies: Vec<Point> =
            rows.iter().map(|r| Point::new(all_heads(r), over_all(r), r.settings.seed)).collect();
        let (mean, ends) = means(&accuracies);
        let (key, words) = (format!("layers-{n}"), layers(n));
        if let Ok(points) = fit::Points::new(growing(&accuracies)) {
            let answer = question(&key, &words, &points).answer_by_the_papers_law()?;
            figure = answer.drawn_in(figure, &key, &words);
            let slope = Slope::of(&answer);
            all.push(Found { n_layers: n, words: words.clone(), points, answer, slope });
        }
        figure = figure.points(Points::new(key, words, mean).with_errors(ends).form(form));
    }
    let mut claims: Vec<Claim> = all.iter().map(law_claim).collect();
    claims.extend(depth_claims(&all));
    let section = Section::new("Accuracy")
        .anchor("accuracy")
        .exhibit(
            Exhibit::new(with_bound(figure, record))
                .name("accuracy")
                .alt("Accuracy against the heads of all layers together, for attention alone in one, three and five layers.")
                .caption(
                    "Means over seeds with the range, and lines with their 95% intervals. Models with equally many heads have equally many \
                     parameters. The dashed line is what Corollary 2 guarantees for one layer.",
                ),
        )
        .table(table(record));
    let mut sections = vec![section];
    for found in &all {
        let section = Section::new(format!("Laws for {}", found.words))
            .anchor(format!("laws-{}", found.n_layers))
            .paragraph(format!(
                "Only sizes with an accuracy below {FULL_MEMORY} are used: a full memory cannot grow."
            ));
        let name = format!("layers-{}", found.n_layers);
        sections.push(question(&name, &found.words, &found.points).show(section, &found.answer));
    }
    sections.push(setting(record));
    let entry = |f: &Found| {
        let slope = f.slope.as_ref().map(Slope::json);
        json!({"n_layers": f.n_layers, "law": law_json(&f.answer.comparison), "line": slope})
    };
    Ok(Paper {
        title: "dana2024 with depth: attention alone in many layers".into(),
        subtitle: "Are heads in later layers worth as much as heads in the first?".into(),
        claims,
        sections,
        json: json!({ "depths": all.iter().map(entry).collect::<Vec<_>>() }),
        references: &["dana2024"],
    })
}

fn law_claim(found: &Found) -> Claim {
    let comparison = &found.answer.comparison;
    let line =
        comparison.row(Law::Linear).map_or(String::new(), |row| format!(" The line is {}.", parameters(row)));
    Claim::new(
        "with one layer, accuracy grows linearly with the heads (figure 1a).",
        format!("with {}, {}.{line}", found.words, comparison.sentence),
        agreement(comparison, &[Law::Linear]),
    )
}

/// Compares every depth with one layer.
fn depth_claims(all: &[Found]) -> Vec<Claim> {
    let paper = "the paper counts the heads of one layer; if heads of later layers are worth as much, L layers of H heads memorize what one \
                 layer of L H heads does.";
    let Some((one, deeper)) = all.split_first().filter(|f| f.0.n_layers == 1) else { return Vec::new() };
    let claim = |found: &Found| {
        let (Some(a), Some(b)) = (&found.slope, &one.slope) else {
            return Claim::new(paper, format!("{}: too few sizes.", found.words), Agreement::Open);
        };
        let (words, agrees) = compared((a, &found.words), (b, &one.words), false);
        let measured = format!(
            "accuracy gains {} per head with {}, and {} with one (95% intervals).{words}",
            a.words(),
            found.words,
            b.words()
        );
        Claim::new(paper, measured, agrees)
    };
    deeper.iter().map(claim).collect()
}

/// Adds what Corollary 2 guarantees for one layer with all the heads.
fn with_bound(figure: Figure, record: &Record) -> Figure {
    let mut rows: Vec<&JobRow> = record.done().collect();
    rows.sort_by(|a, b| all_heads(a).total_cmp(&all_heads(b)));
    rows.dedup_by(|a, b| all_heads(a) == all_heads(b));
    let bound = |r: &&JobRow| {
        let held = capacity_on_all_sequences(d_model(r) as u64, r.d_head, all_heads(r) as u64, r.d_vocab, 2);
        (all_heads(r), accuracy(held, r.contexts.into(), r.d_vocab).unwrap_or(f64::NAN))
    };
    let line: Vec<(f64, f64)> = rows.iter().map(bound).collect();
    let chance = rows.first().map_or(0.0, |r| 1.0 / r.d_vocab as f64);
    figure
        .line(Line::new("dana2024", "Corollary 2, one layer", line).dashed())
        .horizontal(chance, "chance")
        .dash_key("measured and fitted", "lower bound")
}

/// The mean accuracy at every number of heads, by depth.
fn table(record: &Record) -> Table {
    let depths = by_depth(record);
    let mut columns = vec![Column::right("heads of all layers"), Column::right("parameters")];
    columns.extend(depths.keys().map(|&n| Column::right("accuracy").unit(layers(n))));
    let mut table = Table::new("Mean accuracy over the seeds, over all associations.", columns);
    let mut sizes: Vec<(u64, u64)> = record.done().map(|r| (all_heads(r) as u64, r.parameters)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for (heads, parameters) in sizes {
        let mut cells = vec![Cell::from(thousands(heads)), thousands(parameters).into()];
        for rows in depths.values() {
            let found: Vec<f64> =
                rows.iter().filter(|r| all_heads(r) as u64 == heads).map(|r| over_all(r)).collect();
            let mean = found.iter().sum::<f64>() / found.len().max(1) as f64;
            cells.push(if found.is_empty() { Cell::none() } else { format!("{mean:.3}").into() });
        }
        table = table.row(cells);
    }
    table
}

fn setting(record: &Record) -> Section {
    let first = record.rows.first();
    let steps = first.and_then(|r| r.settings.training.steps).unwrap_or(0);
    Section::new("How it was measured")
        .anchor("setting")
        .paragraph(format!(
            "Every pair of {} tokens is followed by one token drawn at random: {} associations, the same for all seeds. Blocks of attention with \
             skip connections and nothing else, d = d_h = {}, trained on all associations at once by L-BFGS after a warm-up by Adam, for at most {} \
             steps: as in the paper, accuracy is what a fixed training budget reaches, not what a model could hold.",
            first.map_or(0, |r| r.d_vocab),
            thousands(first.map_or(0, |r| r.contexts)),
            first.map_or(0, |r| r.d_head),
            thousands(steps)
        ))
        .list([
            "Law: as in figure 1a, a line has to be supported.",
            "Depth: the 95% intervals of the slopes have to overlap; nearly: the slopes are within 10%.",
        ])
        .note("These rules were fixed before the runs on the seeds of the plan.")
}
