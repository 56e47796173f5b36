//! The recall curve: bits and hits by how much of the text the model has seen.

use super::{cell, colours, percent, texts};
use crate::audit::{Audit, RecallPoint};
use crate::report::numbers::thousands;
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Line, Panels};

/// The curve; none if it was left out, or if no document is long enough.
pub(super) fn section(audit: &Audit) -> Option<Section> {
    let points = &audit.text.recall_curve;
    let windows = points.first()?.windows;
    let about = format!(
        "{} windows of {} tokens, spread evenly over the text, each run alone and without a start token. On text that a model knows by heart, the \
         bits fall as soon as it recognizes the place; on new text they flatten out. The floor is what a model would pay that knew \
         the text perfectly, but not where in it a window begins.",
        thousands(windows),
        points.len() + 1
    );
    Some(
        Section::new("The recall curve")
            .anchor("recall")
            .paragraph(about)
            .exhibit(
                Exhibit::new(figure(audit))
                    .name("recall")
                    .alt("Bits per token and the share of tokens predicted right against the number of tokens seen.")
                    .caption("The cost of the next token, and how often it is the most likely one, by the number of tokens seen."),
            )
            .table(table(audit)),
    )
}

fn figure(audit: &Audit) -> Panels {
    let x = || Axis::linear("tokens seen");
    let mut bits = Figure::new("Bits", x(), Axis::linear("bits per token").from_zero());
    let mut hits = Figure::new("Hits", x(), Axis::linear("tokens predicted right (%)").from_zero());
    let line = |key: &str, points: &[RecallPoint], of: &dyn Fn(&RecallPoint) -> Option<f64>| {
        let values = points.iter().filter_map(|p| Some((p.length as f64, of(p).filter(|y| y.is_finite())?)));
        Line::new(key, key, values)
    };
    for (key, text) in texts(audit).filter(|(_, text)| !text.recall_curve.is_empty()) {
        bits = bits.line(line(key, &text.recall_curve, &|p| Some(p.bits)));
        hits = hits.line(line(key, &text.recall_curve, &|p| Some(100.0 * p.hits)));
    }
    if audit.text.recall_curve.iter().any(|p| p.floor_bits.is_some()) {
        bits = bits.line(line("floor", &audit.text.recall_curve, &|p| p.floor_bits));
    }
    Panels::new("What the model recalls of the text", [bits, hits])
        .share(true, false)
        .palette(colours())
        .size(900.0, 420.0)
}

/// The curve at some lengths.
fn table(audit: &Audit) -> Table {
    let curves: Vec<(&str, &[RecallPoint])> = texts(audit)
        .map(|(key, text)| (key, text.recall_curve.as_slice()))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let mut columns = vec![Column::right("tokens seen")];
    columns.extend(curves.iter().map(|(key, _)| Column::right(*key).unit("bits per token")));
    columns.push(Column::right("floor").unit("bits per token"));
    columns.extend(curves.iter().map(|(key, _)| Column::right(*key).unit("predicted right")));
    let longest = audit.text.recall_curve.len();
    let lengths = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024];
    let lengths = lengths.into_iter().filter(|&t| t < longest).chain([longest]);
    let mut table = Table::new("The recall curve at some lengths.", columns);
    for t in lengths {
        let at = |points: &[RecallPoint]| points.iter().find(|p| p.length == t).copied();
        let mut cells: Vec<Cell> = vec![thousands(t as u64).into()];
        cells.extend(curves.iter().map(|(_, points)| cell(at(points).map(|p| format!("{:.3}", p.bits)))));
        cells.push(cell(
            at(&audit.text.recall_curve).and_then(|p| p.floor_bits).map(|bits| format!("{bits:.3}")),
        ));
        cells.extend(curves.iter().map(|(_, points)| cell(at(points).map(|p| percent(p.hits)))));
        table = table.row(cells);
    }
    table
}
