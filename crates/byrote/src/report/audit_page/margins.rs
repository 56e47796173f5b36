//! How safe the verdicts are: margins within the numerical error, and ties.

use super::WindowSet;
use crate::audit::{Audit, DocumentAudit};
use crate::report::numbers::thousands;
use crate::units::significant;
use byrote_figures::html::{Cell, Column, Prose, Section, Table};

/// Close verdicts; none without windows.
pub(super) fn section(audit: &Audit) -> Option<Section> {
    let sets = WindowSet::all(audit);
    if sets.is_empty() {
        return None;
    }
    let margin = audit.settings.margin;
    let mut about = format!(
        "The *margin* of a token is its logit minus the largest other one; its sign decides whether it is the most likely token. A verdict \
         on a window is *close* if it changes when every margin of at most {margin} changes sign: another machine, or another order \
         of summation, might decide it otherwise. A *tie* is a margin of exactly 0, which the smaller token id wins."
    );
    let margins =
        |documents: &[DocumentAudit]| documents.iter().filter_map(|d| d.smallest_margin).reduce(f64::min);
    if let Some(smallest) = margins(&audit.text.documents) {
        about += &format!(" The smallest margin in document context is {}.", significant(smallest, 3));
    }
    let columns = [
        Column::left("windows"),
        Column::left("text"),
        Column::right("all"),
        Column::right("close"),
        Column::right("ties").unit("positions"),
    ];
    let mut table = Table::new("Verdicts within the numerical error.", columns);
    for set in &sets {
        for (key, figures) in set.sides() {
            table = table.row([
                Cell::from(set.name),
                key.into(),
                thousands(figures.count).into(),
                thousands(figures.close_verdicts).into(),
                thousands(figures.ties).into(),
            ]);
        }
    }
    Some(Section::new("Numerical margins").anchor("margins").paragraph(Prose::parse(&about)).table(table))
}
