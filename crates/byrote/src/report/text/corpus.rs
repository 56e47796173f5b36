//! The summary of a corpus as text.

use super::TextTable;
use crate::corpus::Summary;
use crate::units::{counted, grouped, grouped_number, significant};
use std::fmt::Write as _;

/// Shows the contexts and the floor of a corpus.
pub fn corpus(title: &str, summary: &Summary) -> String {
    let mut out = heading(title, summary);
    let percent = |part: u64, whole: u64| format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64);
    let mut figures = TextTable::new(&["documents", &grouped(summary.documents), &dropped(summary)], &[0, 2]);
    let left_out = match (&summary.windows, summary.tokens_left_out) {
        (Some(_), _) => String::new(),
        (None, 0) => "kept: at most one more than the longest context".into(),
        (None, n) => format!("kept; left out: {} tokens beyond the window", grouped(n)),
    };
    figures.row(vec!["tokens".into(), grouped(summary.tokens), left_out]);
    if let Some(windows) = &summary.windows {
        let distinct = match windows.distinct_windows {
            n if n == windows.windows => "all different".into(),
            n => format!("{} of them distinct", grouped(n)),
        };
        figures.row(["windows".into(), grouped(windows.windows), distinct]);
    }
    figures.row(vec!["vocabulary".into(), grouped(summary.d_vocab), String::new()]);
    figures.row(vec![
        "contexts".into(),
        grouped(summary.contexts),
        format!(
            "{} with a single next token ({}), {}",
            grouped(summary.deterministic_contexts),
            percent(summary.deterministic_contexts, summary.contexts),
            counted(summary.contradictions(), "contradiction"),
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
    if summary.predictions > 0 && summary.range.is_none() {
        let own = if summary.windows.is_some() { "window" } else { "document" };
        let _ = writeln!(
            out,
            "No model that sees only the preceding tokens of its own {own} has a loss below the floor."
        );
    }

    if let Some(windows) = &summary.windows {
        if !summary.by_length.is_empty() {
            out += &positions(summary);
            out += &super::windows::curve(windows);
        }
        out += &super::windows::repeats(summary, windows);
    } else if !summary.by_length.is_empty() {
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

fn heading(title: &str, summary: &Summary) -> String {
    let part = match summary.range {
        Some(part) => format!("; part {part} of them"),
        None => String::new(),
    };
    let tokens = match summary.tokenizer.as_str() {
        "ids" => "token ids".into(),
        tokenizer => format!("{tokenizer} tokens"),
    };
    let Some(windows) = &summary.windows else {
        return format!("{title}, {tokens}, contexts up to {}{part}\n\n", summary.n_ctx);
    };
    let kind = if summary.window.exact_length { "full windows" } else { "windows" };
    let stride = match windows.stride {
        1 => "starting anywhere".into(),
        stride => format!("one every {stride} tokens"),
    };
    let length = summary.n_ctx + 1;
    format!("{title}, {tokens}, {kind} of {length} tokens, {stride}{part}\n\n")
}

/// The floor by position in the window.
fn positions(summary: &Summary) -> String {
    let mut table = TextTable::new(
        &["position", "contexts", "floor (nats)", "bits", "determined", "context occurs once"],
        &[],
    );
    for length in super::windows::shown_lengths(summary.by_length.len()) {
        let l = &summary.by_length[length - 1];
        let share = |n: u64| format!("{:.2}%", 100.0 * n as f64 / l.predictions.max(1) as f64);
        let floor = l.floor_nats.per(l.predictions);
        table.row([
            l.length.to_string(),
            grouped(l.contexts),
            floor.map_or("-".into(), |n| significant(n.at_least(), 5)),
            floor.map_or("-".into(), |n| significant(n.bits_at_least(), 5)),
            share(l.deterministic_predictions),
            share(l.once),
        ]);
    }
    format!("\nBy position, that is, by the number of tokens seen:\n{}", table.render())
}

fn dropped(summary: &Summary) -> String {
    let parts: Vec<String> = [(summary.dropped.empty, "empty"), (summary.dropped.short, "too short")]
        .into_iter()
        .filter(|&(n, _)| n > 0)
        .map(|(n, what)| format!("{} {what}", grouped(n)))
        .collect();
    let kept = match &summary.windows {
        Some(windows) if windows.joined => "joined into one".into(),
        Some(_) => String::new(),
        None => format!("kept, {} of them distinct", grouped(summary.sequences)),
    };
    if parts.is_empty() { kept } else { format!("{kept}; left out: {}", parts.join(", ")) }
}
