//! The documents of the corpus: the most and the least memorized.

use super::{cell, document_name, percent};
use crate::audit::{Audit, DocumentAudit, documents_csv};
use crate::report::numbers::{brief, thousands};
use byrote_figures::html::{Cell, Column, Section, Table};

/// How many documents a table has at either end.
const ENDS: usize = 10;

/// The documents; none if there is only one.
pub(super) fn section(audit: &Audit) -> Option<Section> {
    let documents = audit.text.documents.as_slice();
    if documents.len() < 2 {
        return None;
    }
    let (order, by) = ranked(audit);
    let all = thousands(documents.len() as u64);
    let section = Section::new("Documents").anchor("documents").paragraph(format!(
        "The {all} distinct documents of the corpus, ordered by {by}. The file behind the table has all of them, and those of the held-out \
         text."
    ));
    let csv = documents_csv(audit);
    Some(match documents.len() <= 2 * ENDS {
        true => section.table(
            table(audit, "All documents, the most memorized first.", &order).csv("documents.csv", csv),
        ),
        false => section
            .table(table(audit, "The most memorized documents.", &order[..ENDS]).csv("documents.csv", csv))
            .table(table(audit, "The least memorized documents.", &order[order.len() - ENDS..])),
    })
}

/// The documents from the most to the least memorized, and what decides it: what can be extracted, and where that is equal, what
/// the reference model or the code length says.
fn ranked(audit: &Audit) -> (Vec<usize>, &'static str) {
    let documents = &audit.text.documents;
    let share = |d: &DocumentAudit| d.extractable.map(|n| n as f64 / d.windows.max(1) as f64);
    let saved = |d: &DocumentAudit| Some(d.unintended_bits? / d.bits_reference.filter(|bits| *bits > 0.0)?);
    let has_windows = documents.iter().any(|d| d.windows > 0 && d.extractable.is_some());
    let by = match (has_windows, audit.reference.is_some()) {
        (true, true) => {
            "the share of extractable windows in document context, then by the share of bits saved against the reference model"
        }
        (true, false) => "the share of extractable windows in document context, then by bits per token",
        (false, true) => "the share of bits saved against the reference model",
        (false, false) => "bits per token",
    };
    let bits = |d: &DocumentAudit| d.bits_per_token.unwrap_or(f64::INFINITY);
    let mut order: Vec<usize> = (0..documents.len()).collect();
    order.sort_by(|&a, &b| {
        let (x, y) = (&documents[a], &documents[b]);
        let more = |of: &dyn Fn(&DocumentAudit) -> Option<f64>| {
            of(y).unwrap_or(-1.0).total_cmp(&of(x).unwrap_or(-1.0))
        };
        more(&|d| share(d)).then(more(&|d| saved(d))).then(bits(x).total_cmp(&bits(y))).then(a.cmp(&b))
    });
    (order, by)
}

type Cells = Box<dyn Fn(&DocumentAudit) -> Option<String>>;

fn table(audit: &Audit, caption: &str, order: &[usize]) -> Table {
    let documents = &audit.text.documents;
    let mut columns: Vec<(Column, Cells)> = vec![
        (Column::right("copies"), Box::new(|d| Some(thousands(d.copies)))),
        (Column::right("tokens"), Box::new(|d| Some(thousands(d.tokens)))),
        (
            Column::right("bits").unit("per token"),
            Box::new(|d| d.bits_per_token.map(|bits| format!("{bits:.3}"))),
        ),
        (
            Column::right("bits").unit("per byte"),
            Box::new(|d| d.bits_per_byte.map(|bits| format!("{bits:.3}"))),
        ),
        (Column::right("tokens right"), Box::new(|d| d.token_hits.map(percent))),
        (
            Column::right("extractable").unit("windows"),
            Box::new(|d| {
                let (n, of) = (d.extractable.filter(|_| d.windows > 0)?, d.windows);
                Some(format!("{} of {}", thousands(n), thousands(of)))
            }),
        ),
        (
            Column::right("fresh run").unit("tokens"),
            Box::new(|d| d.longest_fresh_run.as_ref().map(|run| thousands(run.tokens as u64))),
        ),
        (Column::right("unintended").unit("bits"), Box::new(|d| d.unintended_bits.map(brief))),
    ];
    // A column that no document fills is left out.
    columns.retain(|(_, of)| documents.iter().any(|d| of(d).is_some()));
    let heads =
        [Column::left("document")].into_iter().chain(columns.iter().map(|(column, _)| column.clone()));
    let mut table = Table::new(caption, heads);
    for (i, document) in order.iter().filter_map(|&i| Some((i, documents.get(i)?))) {
        let cells = columns.iter().map(|(_, of)| cell(of(document)));
        table = table.row([Cell::from(document_name(audit, i))].into_iter().chain(cells));
    }
    table
}
