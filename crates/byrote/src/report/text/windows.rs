//! A corpus of windows as text, and what a loss means.

use super::TextTable;
use crate::corpus::{LossReading, Summary, WindowSummary};
use crate::units::{bytes, grouped, significant};
use std::fmt::Write as _;

/// The lengths of contexts that are shown: all of the first ones, then some.
pub(super) fn shown_lengths(n: usize) -> Vec<usize> {
    let some = (3..).flat_map(|i| [1 << i, 3 << (i - 1)]).take_while(|&length| length < n);
    (1..8.min(n)).chain(some).chain([n]).filter(|&length| length > 0).collect()
}

/// What only windows have.
pub(super) fn windows(summary: &Summary, windows: &WindowSummary) -> String {
    let mut out = String::new();
    let mut curve = TextTable::new(&["longest context", "floor (nats per prediction)"], &[]);
    for point in &windows.curve {
        let floor = point.floor_nats_per_prediction.map_or("-".into(), |f| format!("{:.6}", f.at_least()));
        curve.row([grouped(point.n_ctx), floor]);
    }
    let _ = write!(out, "\n{}", curve.render());
    if windows.repeats.is_empty() {
        return out;
    }
    let percent = |n: u64| format!("{:.2}%", 100.0 * n as f64 / summary.tokens.max(1) as f64);
    let mut repeats =
        TextTable::new(&["repeats of at least", "tokens in them", "share", "beyond the first time"], &[]);
    for row in &windows.repeats {
        repeats.row([
            format!("{} tokens", row.length),
            grouped(row.repeated_tokens),
            percent(row.repeated_tokens),
            grouped(row.redundant_tokens),
        ]);
    }
    let _ = write!(out, "\n{}", repeats.render());
    if let Some(unique) = windows.shortest_unique {
        let length = |x: Option<u64>| x.map_or("never".into(), grouped);
        let _ = writeln!(
            out,
            "\nTokens to read until a passage is unique: median {}, 90% {}, 99% {}; never for {} positions.",
            length(unique.median),
            length(unique.p90),
            length(unique.p99),
            grouped(unique.never)
        );
    }
    if !windows.longest_repeats.is_empty() {
        out += "The longest passages that occur more than once:\n";
    }
    for passage in &windows.longest_repeats {
        let _ = writeln!(out, "  {} tokens: {}", grouped(passage.length), shortened(&passage.text));
    }
    out
}

/// A passage on one line, without its middle if it is long.
fn shortened(text: &str) -> String {
    const SIDE: usize = 28;
    let text = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    let n = text.chars().count();
    if n <= 2 * SIDE + 5 {
        return text;
    }
    let start: String = text.chars().take(SIDE).collect();
    let end: String = text.chars().skip(n - SIDE).collect();
    format!("{start} ... {end}")
}

/// Shows what a loss means.
pub fn loss(reading: &LossReading, summary: &Summary) -> String {
    let number = |x: f64| significant(x, 5);
    let mut table = TextTable::new(&["", "nats per prediction", "bits", "perplexity"], &[0]);
    table.row([
        "loss".into(),
        number(reading.loss_nats_per_prediction),
        number(reading.loss_bits_per_prediction),
        number(reading.perplexity),
    ]);
    let floor = reading.floor_nats_per_prediction;
    table.row([
        "floor".into(),
        significant(floor.at_least(), 5),
        significant(floor.bits_at_least(), 5),
        number(reading.floor_perplexity),
    ]);
    table.row([
        "gap".into(),
        number(reading.gap_nats_per_prediction),
        number(reading.gap_bits_per_prediction),
        String::new(),
    ]);
    let mut out = table.render();
    if reading.is_below_floor {
        out += "The loss is below the floor, which no model can reach that sees only the tokens before the prediction: a \
                leak, another text or window, or the noise of a sampled loss.\n";
    } else {
        let _ = writeln!(
            out,
            "Over the {} tokens of the text, the gap leaves {} unmemorized.",
            grouped(summary.tokens),
            bytes((reading.unmemorized_bits / 8.0) as u64)
        );
        if let Some(share) = reading.unmemorized_share {
            let _ = writeln!(
                out,
                "That is {:.1}% of what a model can learn beyond how often each token occurs.",
                100.0 * share
            );
        }
    }
    out += &match reading.equivalent_n_ctx {
        Some(n) if n >= u64::from(summary.n_ctx) => String::new(),
        Some(n) => format!(
            "A model that sees only {} could not do better than this loss.\n",
            crate::units::counted(n, "token")
        ),
        None => "Even a model that sees only one token could do better than this loss.\n".into(),
    };
    let below = reading.by_position.iter().filter(|p| p.is_below_floor).count();
    if !reading.by_position.is_empty() {
        let mut table = TextTable::new(&["position", "loss (nats)", "floor (nats)", "gap (nats)"], &[]);
        for length in shown_lengths(reading.by_position.len()) {
            let p = reading.by_position[length - 1];
            table.row([
                p.length.to_string(),
                number(p.loss_nats),
                significant(p.floor_nats.at_least(), 5),
                number(p.gap_nats),
            ]);
        }
        let _ = write!(out, "\n{}", table.render());
        if below > 0 {
            let _ = writeln!(
                out,
                "The loss is below the floor at {}.",
                crate::units::counted(below as u64, "position")
            );
        }
    }
    out
}
