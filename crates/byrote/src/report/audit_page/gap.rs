//! The distance to the floor, by context length.

use super::runs::shown;
use super::{cell, colours, percent};
use crate::audit::{Audit, AuditGap, GapContexts, GapRow, Passages};
use crate::output::csv_text;
use crate::report::numbers::{share_of_floor, thousands};
use crate::units::{Nats, counted};
use byrote_figures::html::{Cell, Column, Exhibit, Prose, Section, Table};
use byrote_figures::{Axis, Figure, Line};

/// Loss and floor; none if they were not measured.
pub(super) fn section(audit: &Audit, passages: Option<&Passages>) -> Option<Section> {
    let gap = audit.gap.as_ref()?;
    let what = match gap.contexts {
        GapContexts::Prefixes => "the first tokens of a document",
        GapContexts::Windows => "any tokens in a row of a document",
    };
    let part = match gap.documents < audit.text.corpus.documents {
        true => format!(" It is measured on the first {} documents.", thousands(gap.documents)),
        false => String::new(),
    };
    let relative = match gap.floor_nats > 0.0 {
        true => format!(", {} the floor", of_floor(gap.gap_nats / gap.floor_nats)),
        false => String::new(),
    };
    let about = format!(
        "A *context* is {what}, at most {} long. Where the same context is followed by different tokens, no model can know which one \
         comes: the entropy of the next token, summed over all predictions, is the *floor*. The distance of the loss to it is \
         what the model has not memorized of this text and could: {:.3} bits per token{relative}.{part}",
        counted(gap.lengths as u64, "token"),
        Nats(gap.gap_nats / gap.predictions.max(1) as f64).bits(),
    );
    let section = Section::new("The gap to the floor")
        .anchor("gap")
        .paragraph(Prose::parse(&about))
        .exhibit(
            Exhibit::new(figure(gap))
                .name("gap-by-length")
                .alt("Loss and floor in bits per prediction against the length of the context.")
                .caption("Every distinct context counts as often as it occurs. The distance between the lines is the gap."),
        )
        .table(table(gap));
    Some(match worst(gap, passages) {
        Some(table) => section.table(table),
        None => section,
    })
}

/// A multiple of the floor, in a sentence.
fn of_floor(relative: f64) -> String {
    let share = share_of_floor(relative);
    if share.ends_with('%') { format!("{share} of") } else { share }
}

fn per(nats: f64, row: &GapRow) -> f64 {
    Nats(nats / row.predictions.max(1) as f64).bits()
}

fn figure(gap: &AuditGap) -> Figure {
    let line = |key: &str, label: &str, of: fn(&GapRow) -> f64| {
        let points = gap.by_length.iter().map(|row| (row.length as f64, per(of(row), row)));
        Line::new(key, label, points.filter(|(_, bits)| bits.is_finite())).with_markers()
    };
    Figure::new(
        "Loss and floor by context length",
        Axis::linear("context length (tokens)"),
        Axis::linear("bits per prediction").from_zero(),
    )
    .line(line("corpus", "loss of the model", |row| row.loss_nats))
    .line(line("floor", "floor", |row| row.floor_nats))
    .palette(colours())
    .size(900.0, 460.0)
}

fn table(gap: &AuditGap) -> Table {
    let columns = [
        Column::right("length").unit("tokens"),
        Column::right("contexts"),
        Column::right("predictions"),
        Column::right("floor").unit("bits per prediction"),
        Column::right("loss").unit("bits per prediction"),
        Column::right("gap").unit("bits per prediction"),
        Column::right("contexts right"),
        Column::right("predictions right"),
    ];
    let plain = |row: &GapRow| {
        vec![
            row.length.to_string(),
            row.contexts.to_string(),
            row.predictions.to_string(),
            row.deterministic_contexts.to_string(),
            row.floor_nats.to_string(),
            row.loss_nats.to_string(),
            row.gap_nats.to_string(),
            row.memorized.to_string(),
            row.right_predictions.to_string(),
            row.max_kl_nats.to_string(),
        ]
    };
    let head = [
        "length",
        "contexts",
        "predictions",
        "deterministic_contexts",
        "floor_nats",
        "loss_nats",
        "gap_nats",
        "memorized",
        "right_predictions",
        "max_kl_nats",
    ];
    let caption = "Loss and floor by context length. A context is right if its most likely token is one of the most frequent next \
                   tokens, a prediction if it is the token that follows.";
    let table = Table::new(caption, columns)
        .csv("gap-by-length.csv", csv_text(head, gap.by_length.iter().map(plain)));
    gap.by_length.iter().fold(table, |table, row| {
        table.row([
            row.length.to_string(),
            thousands(row.contexts),
            thousands(row.predictions),
            format!("{:.4}", per(row.floor_nats, row)),
            format!("{:.4}", per(row.loss_nats, row)),
            format!("{:.4}", per(row.gap_nats, row)),
            percent(row.memorized as f64 / row.contexts.max(1) as f64),
            percent(row.right_predictions as f64 / row.predictions.max(1) as f64),
        ])
    })
}

/// The contexts that cost most, where their text is known.
fn worst(gap: &AuditGap, passages: Option<&Passages>) -> Option<Table> {
    let contexts = &passages?.contexts;
    if contexts.is_empty() {
        return None;
    }
    let columns = [
        Column::left("after"),
        Column::right("count"),
        Column::left("comes"),
        Column::left("the model expects"),
        Column::right("with"),
        Column::right("gap").unit("bits in total"),
    ];
    let mut table = Table::new("The contexts that contribute most to the gap.", columns);
    for (text, worst) in contexts.iter().zip(&gap.worst) {
        let quote = |text: &str| Cell::from(Prose::new().quote(shown(text)));
        let token = |text: &Option<String>, id: u32| match text {
            Some(text) => quote(text),
            None => format!("token {id}").into(),
        };
        table = table.row([
            if text.context.is_empty() { "the start".into() } else { quote(&text.context) },
            thousands(worst.count).into(),
            token(&text.next, worst.next),
            token(&text.predicted, worst.predicted),
            percent(worst.probability).into(),
            cell(Some(format!("{:.1}", Nats(worst.gap_nats).bits()))),
        ]);
    }
    Some(table)
}
