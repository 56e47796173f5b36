//! A corpus of windows as text, and what a loss means.

use super::TextTable;
use crate::corpus::{LossReading, Passage, PositionReading, Summary, WindowSummary};
use crate::units::{bytes, counted, grouped, significant};
use std::fmt::Write as _;

/// The lengths of contexts that are shown: all of the first ones, then some.
pub(super) fn shown_lengths(n: usize) -> Vec<usize> {
    let some = (3..).flat_map(|i| [1 << i, 3 << (i - 1)]).take_while(|&length| length < n);
    (1..8.min(n)).chain(some).chain([n]).filter(|&length| length > 0).collect()
}

/// The floor for shorter windows, where all windows are known.
pub(super) fn curve(windows: &WindowSummary) -> String {
    if windows.curve.is_empty() {
        return String::new();
    }
    let mut curve = TextTable::new(&["longest context", "floor (nats per prediction)"], &[]);
    for point in &windows.curve {
        let floor = point.floor_nats_per_prediction.map_or("-".into(), |f| format!("{:.6}", f.at_least()));
        curve.row([grouped(point.n_ctx), floor]);
    }
    format!("\n{}", curve.render())
}

/// What occurs more than once, and how far one has to read until it does not.
pub(super) fn repeats(summary: &Summary, windows: &WindowSummary) -> String {
    if windows.repeats.is_empty() {
        return String::new();
    }
    let mut out = String::new();
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
        let _ = writeln!(out, "  {} tokens: {}", grouped(passage.length), shortened(passage));
    }
    out
}

/// A passage on one line, without its middle if it is long, and without its end if that is not known.
fn shortened(passage: &Passage) -> String {
    const SIDE: usize = 28;
    let text = passage.text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    let n = text.chars().count();
    if n <= 2 * SIDE + 5 {
        return text;
    }
    if passage.is_cut() {
        return format!("{} ...", text.chars().take(2 * SIDE).collect::<String>());
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
        let left = match reading.unmemorized_bits {
            n if n < 64.0 => format!("{} bits", significant(n, 3)),
            n if n < 8e15 => bytes((n / 8.0) as u64),
            n if n.is_finite() => format!("{} bytes", number(n / 8.0)),
            _ => "more bits than can be counted".into(),
        };
        let _ = writeln!(
            out,
            "Over the {} of the text, the gap leaves {left} unmemorized.",
            counted(summary.tokens, "token")
        );
        match reading.unmemorized_share {
            Some(share) if share > 1.0 => {
                out += "The loss is above that of a model that knows only how often each token occurs.\n";
            }
            Some(share) => {
                let _ = writeln!(
                    out,
                    "That is {:.1}% of what a model can learn beyond how often each token occurs.",
                    100.0 * share
                );
            }
            None => {}
        }
    }
    let own = if summary.windows.is_some() { "windows" } else { "predictions" };
    out += &match reading.equivalent_n_ctx {
        Some(n) if n >= u64::from(summary.n_ctx) => String::new(),
        Some(n) => format!(
            "If {own} had at most {} of context, no model could get below this loss.\n",
            counted(n, "token")
        ),
        None => format!("Even if {own} had one token of context, a model could get below this loss.\n"),
    };
    if !reading.by_position.is_empty() {
        out += &by_position(&reading.by_position);
    }
    out
}

/// Losses and floors by position, and where a loss is below its floor.
fn by_position(positions: &[PositionReading]) -> String {
    let number = |x: f64| significant(x, 5);
    let mut table = TextTable::new(&["position", "loss (nats)", "floor (nats)", "gap (nats)"], &[]);
    for length in shown_lengths(positions.len()) {
        let p = positions[length - 1];
        table.row([
            p.length.to_string(),
            number(p.loss_nats),
            significant(p.floor_nats.at_least(), 5),
            number(p.gap_nats),
        ]);
    }
    let mut out = format!("\n{}", table.render());
    let below: Vec<u32> = positions.iter().filter(|p| p.is_below_floor).map(|p| p.length).collect();
    if let [first, ..] = below[..] {
        let place = match below.len() {
            1 => format!("position {first}"),
            n => format!("{n} positions, the first of which is {first}"),
        };
        let _ = writeln!(
            out,
            "The loss is below the floor at {place}: a leak, another text or window, or the noise of a sampled loss."
        );
    }
    out
}
