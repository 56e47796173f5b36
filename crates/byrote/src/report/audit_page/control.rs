//! The corpus against text of the same kind that the model has not seen.

use super::{cell, colours, percent, texts};
use crate::audit::{Audit, Difference, DocumentAudit};
use byrote_figures::html::{Cell, Column, Exhibit, Prose, Section, Table};
use byrote_figures::{Axis, Figure, Line};

/// The most documents whose places are drawn one by one.
const MOST: usize = 1000;

/// Differences, AUROC and the documents of both texts; none without a held-out text.
pub(super) fn section(audit: &Audit) -> Option<Section> {
    audit.held_out.as_ref()?;
    let mut section = Section::new("Corpus against held-out text").anchor("control").paragraph(
        "A high share of right tokens proves nothing by itself: text that is easy to predict has it without having been memorized. What \
         the model knows of the corpus shows against text of the same kind that it has not seen. The two must match in style and \
         subject, or the differences show that instead.",
    );
    if !audit.differences.is_empty() {
        section = section.table(differences(&audit.differences));
    }
    if let Some((figure, unit)) = documents(audit) {
        section = section.exhibit(
            Exhibit::new(figure)
                .name("documents-by-bits")
                .alt(format!("The share of documents below a number of bits per {unit}, for the corpus and the held-out text."))
                .caption(format!(
                    "The share of distinct documents that cost at most so many bits per {unit}. The further the line of the corpus \
                     lies to the left, the more it stands out."
                )),
        );
    }
    if !audit.auroc.is_empty() {
        section = section.table(auroc(audit));
    }
    Some(section)
}

/// What a measure is called here, and whether it is a share.
fn named(measure: &str) -> (&str, bool) {
    match measure {
        "bits_per_byte" => ("bits per byte", false),
        "bits_per_token" => ("bits per token", false),
        "token_hits" => ("tokens predicted right", true),
        "extractable" => ("extractable windows, in their document", true),
        "p_z_at_least_0_001" => ("windows with p_z of at least 0.001, in their document", true),
        other => (other, false),
    }
}

fn differences(all: &[Difference]) -> Table {
    let columns = [
        Column::left("measure"),
        Column::right("corpus"),
        Column::right("held-out"),
        Column::right("difference"),
        Column::right("95% interval"),
    ];
    let caption = match all.iter().any(|d| d.interval.is_some()) {
        true => "Corpus minus held-out text. Intervals come from drawing the documents of both again.",
        false => "Corpus minus held-out text. There are too few documents for intervals.",
    };
    all.iter().fold(Table::new(caption, columns), |table, d| {
        let (name, is_share) = named(&d.measure);
        let value = |x: f64| if is_share { percent(x) } else { format!("{x:.3}") };
        let signed = |x: f64| {
            let text = value(x.abs());
            if x < 0.0 { format!("\u{2212}{text}") } else { format!("+{text}") }
        };
        table.row([
            Cell::from(name),
            value(d.corpus).into(),
            value(d.held_out).into(),
            signed(d.difference).into(),
            cell(d.interval.map(|(low, high)| format!("{} to {}", signed(low), signed(high)))),
        ])
    })
}

fn auroc(audit: &Audit) -> Table {
    let columns = [Column::left("score of a document"), Column::right("AUROC"), Column::left("source")];
    let caption = "How well a score tells the documents of the corpus from held-out ones: the share of pairs in which the document \
                   of the corpus scores higher, ties half. 0.5 is chance.";
    let about = |name: &str| match name {
        "loss" => ("bits per token, negative", None),
        "zlib" => ("bits by zlib's, negative", Some("carlini2021")),
        "min_k" => ("Min-k%", Some("shi2024")),
        "min_k_plus_plus" => ("Min-k%++", Some("zhang2025")),
        "reference" => ("bits under the reference model minus bits", None),
        _ => ("", None),
    };
    audit.auroc.iter().fold(Table::new(caption, columns), |table, (name, value)| {
        let (words, source) = about(name);
        let words = if words.is_empty() { name.as_str() } else { words };
        let source = source.map_or_else(Prose::new, |key| Prose::new().cite(key));
        table.row([Cell::from(words), format!("{value:.3}").into(), source.into()])
    })
}

/// The share of documents below a number of bits, and the unit.
fn documents(audit: &Audit) -> Option<(Figure, &'static str)> {
    type Of = fn(&DocumentAudit) -> Option<f64>;
    let kinds: [(&'static str, Of); 2] = [("byte", |d| d.bits_per_byte), ("token", |d| d.bits_per_token)];
    let values = |text: &crate::audit::TextAudit, of: Of| {
        let mut found: Vec<f64> =
            text.documents.iter().filter_map(of).filter(|bits| bits.is_finite()).collect();
        found.sort_by(f64::total_cmp);
        found
    };
    let (unit, of) =
        kinds.into_iter().find(|(_, of)| texts(audit).all(|(_, text)| values(text, *of).len() > 1))?;
    let figure = Figure::new(
        format!("Documents by bits per {unit}"),
        Axis::linear(format!("bits per {unit}")),
        Axis::linear("documents that cost at most this (%)").from_zero(),
    )
    .palette(colours())
    .size(900.0, 420.0);
    let figure = texts(audit).fold(figure, |figure, (key, text)| {
        let values = values(text, of);
        let share = |i: usize| 100.0 * i as f64 / values.len() as f64;
        // A staircase: every document is a step. Of very many, some.
        let step = values.len().div_ceil(MOST).max(1);
        let places = (0..values.len()).filter(|i| i % step == 0 || i + 1 == values.len());
        let points = places.flat_map(|i| [(values[i], share(i)), (values[i], share(i + 1))]);
        figure.line(Line::new(key, key, points))
    });
    Some((figure, unit))
}
