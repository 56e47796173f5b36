//! Unintended bits, beside what parameters are known to hold.

use super::percent;
use crate::audit::Audit;
use crate::bounds::{allenzhu2024, morris2025};
use crate::report::numbers::{brief, thousands};
use byrote_figures::html::{Cell, Column, KeyFigure, Prose, Section, Table};

/// What the parameters of trained models were measured to hold: bits per parameter, in what, and where.
fn published() -> [(f64, &'static str, &'static str); 3] {
    [
        (allenzhu2024::BITS_PER_PARAMETER, "facts, each seen about a thousand times", "allenzhu2024"),
        (morris2025::BITS_PER_PARAMETER, "random strings, weights in half precision", "morris2025"),
        (morris2025::BITS_PER_PARAMETER_F32, "random strings, weights in full precision", "morris2025"),
    ]
}

/// The comparison with a reference model; none without one.
pub(super) fn section(audit: &Audit) -> Option<Section> {
    let reference = audit.reference.as_ref()?;
    let about = Prose::new()
        .text("A document counts by how much shorter its code is under this model than under the reference model, ")
        .name(reference.path.as_str())
        .text(", or not at all if it is longer; each distinct document counts once ")
        .then(Prose::parse("([@morris2025]). What both models can predict is not memorization of this text. "))
        .text(match reference.held_out_unintended_bits {
            Some(_) => "On the held-out text the sum should be small: what it has there is better prediction, not memory.",
            None => "",
        });
    let mut figures = vec![
        KeyFigure::new("unintended memorization", brief(reference.unintended_bits), "bits")
            .detail(format!("of {} under the reference model", brief(reference.bits))),
    ];
    figures.extend(
        reference.bits_per_parameter.map(|bits| KeyFigure::new("per parameter", brief(bits), "bits")),
    );
    figures.extend(
        reference
            .held_out_unintended_bits
            .map(|bits| KeyFigure::new("on the held-out text", brief(bits), "bits")),
    );
    let section =
        Section::new("Unintended memorization").anchor("capacity").paragraph(about).key_figures(figures);
    Some(match reference.bits_per_parameter.zip(audit.model.parameters) {
        Some((bits, parameters)) => section.table(table(bits, parameters)),
        None => section,
    })
}

fn table(bits: f64, parameters: u64) -> Table {
    let columns = [
        Column::left("what was stored"),
        Column::left("source"),
        Column::right("capacity").unit("bits per parameter"),
        Column::right("of this model").unit("bits"),
        Column::right("this text takes"),
    ];
    let caption = "What trained transformers were measured to hold when they stored nothing else, and the share of it that this text \
                   takes. The constants are rules of thumb from experiments, not bounds.";
    published().into_iter().fold(Table::new(caption, columns), |table, (capacity, what, key)| {
        table.row([
            Cell::from(what),
            Prose::new().cite(key).into(),
            format!("{capacity}").into(),
            thousands((capacity * parameters as f64).round() as u64).into(),
            percent(bits / capacity).into(),
        ])
    })
}
