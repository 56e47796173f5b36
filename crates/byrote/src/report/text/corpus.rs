//! The summary of a corpus as text.

use super::TextTable;
use crate::corpus::Summary;
use crate::units::{grouped, grouped_number};
use std::fmt::Write as _;

/// Shows the contexts and the floor of a corpus.
pub fn corpus(title: &str, summary: &Summary) -> String {
    let mut out = format!("{title}, {} tokens, contexts up to {}\n\n", summary.tokenizer, summary.n_ctx);
    let percent = |part: u64, whole: u64| format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64);
    let mut figures = TextTable::new(&["documents", &grouped(summary.documents), &dropped(summary)], &[0, 2]);
    let left_out = match summary.tokens_left_out {
        0 => "kept: at most one more than the longest context".into(),
        n => format!("kept; left out: {} tokens beyond the window", grouped(n)),
    };
    figures.row(vec!["tokens".into(), grouped(summary.tokens), left_out]);
    figures.row(vec!["vocabulary".into(), grouped(summary.d_vocab), String::new()]);
    figures.row(vec![
        "contexts".into(),
        grouped(summary.contexts),
        format!(
            "{} with a single next token ({}), {} contradictions",
            grouped(summary.deterministic_contexts),
            percent(summary.deterministic_contexts, summary.contexts),
            grouped(summary.contradictions()),
        ),
    ]);
    figures.row(vec!["predictions".into(), grouped(summary.predictions), String::new()]);
    let total = grouped_number(summary.floor_nats.at_least(), 4);
    let floor = match summary.floor_nats_per_prediction {
        Some(nats) => [
            format!("{:.6}", nats.at_least()),
            format!("nats = {:.6} bits per prediction; {total} nats in total", nats.bits_at_least()),
        ],
        None => [total, "nats; nothing is predicted".into()],
    };
    figures.row(["floor".to_owned()].into_iter().chain(floor));
    out += &figures.render();
    if summary.predictions > 0 {
        out +=
            "No model that sees only the preceding tokens of its own document has a loss below the floor.\n";
    }

    if !summary.by_length.is_empty() {
        let mut table = TextTable::new(
            &["length", "contexts", "predictions", "floor (nats)", "bits per prediction"],
            &[],
        );
        let shown = summary.by_length.len().min(40);
        for l in &summary.by_length[..shown] {
            let bits =
                l.floor_nats.per(l.predictions).map_or("-".into(), |n| format!("{:.4}", n.bits_at_least()));
            table.row(vec![
                l.length.to_string(),
                grouped(l.contexts),
                grouped(l.predictions),
                grouped_number(l.floor_nats.at_least(), 3),
                bits,
            ]);
        }
        let _ = write!(out, "\n{}", table.render());
        if shown < summary.by_length.len() {
            let _ =
                writeln!(out, "... {} more lengths: see `csv` or `json`", summary.by_length.len() - shown);
        }
        let mut coverage = TextTable::new(&["share of predictions", "contexts that cover it (T_eps)"], &[]);
        for c in &summary.coverage {
            coverage.row(vec![format!("{}%", 100.0 - 100.0 * c.epsilon), grouped(c.contexts)]);
        }
        let _ = write!(out, "\n{}", coverage.render());
    }
    out
}

fn dropped(summary: &Summary) -> String {
    let parts: Vec<String> = [(summary.dropped.empty, "empty"), (summary.dropped.short, "too short")]
        .into_iter()
        .filter(|&(n, _)| n > 0)
        .map(|(n, what)| format!("{} {what}", grouped(n)))
        .collect();
    let kept = format!("kept, {} of them distinct", grouped(summary.sequences));
    if parts.is_empty() { kept } else { format!("{kept}; left out: {}", parts.join(", ")) }
}
