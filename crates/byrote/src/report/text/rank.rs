//! Certified ranks as text.

use super::TextTable;
use crate::certify::rank::{RankCertificate, RankRange, ScalarFunction};
use std::fmt::Write as _;

/// Shows the certified ranks of psi(a b^T) beside those of the theorems.
pub fn rank(psi: &ScalarFunction, m: usize, n: usize, found: &RankCertificate) -> String {
    let mut out = format!("psi(a b^T) for psi = {psi}, {m} neurons, {n} contexts\n\n");
    let mut table = TextTable::new(&["", "rank", "Kruskal rank", ""], &[0, 3]);
    let verdict = match (found.rank.value(), found.kruskal.value()) {
        (Some(_), Some(_)) => "certified",
        (Some(_), None) => "the rank is certified, the Kruskal rank has bounds",
        (None, _) => "undecided: these are proven bounds",
    };
    let row = |name: &str, rank, kruskal, text: &str| {
        vec![name.to_owned(), shown(rank), shown(kruskal), text.to_owned()]
    };
    table.row(row("this matrix", Some(found.rank), Some(found.kruskal), verdict));
    let theorems = &found.theorems;
    for (name, t) in [("theory, corrected", &theorems.corrected), ("theory, as printed", &theorems.published)]
    {
        table.row(row(name, t.rank, t.kruskal, &t.place));
    }
    out += &table.render();
    let _ = write!(out, "\nrank: {}\nKruskal rank: {}\n", found.rank_by, found.kruskal_by);
    let printed = theorems.published.rank.map_or(0, |i| i.lower);
    if printed > found.rank_of_any_weights {
        out += "This matrix refutes the printed rank, and no other weights reach it (docs/errata.md, E1 and E2).\n";
    } else if printed > found.rank.upper {
        out += "These weights are special: the theorems are about generic weights, which may reach a higher rank.\n";
    }
    out
}

/// A rank, or its bounds.
fn shown(interval: Option<RankRange>) -> String {
    match interval {
        None => "-".into(),
        Some(i) => i.value().map_or_else(|| format!("{} to {}", i.lower, i.upper), |r| r.to_string()),
    }
}
