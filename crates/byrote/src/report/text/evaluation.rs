//! Evaluations as text.

use super::model::parameters;
use super::{TextTable, shown};
use crate::construct::kajitsuka2024::ExactFile;
use crate::construct::kajitsuka2024::evaluate::ExactEvaluation;
use crate::corpus::Vocabulary;
use crate::dataset::Dataset;
use crate::evaluate::{Evaluation, Worst};
use crate::model::ModelFile;
use crate::report::numbers::share_of_floor;
use crate::units::{Nats, fixed, grouped, grouped_number, significant};
use std::fmt::Write as _;

/// Rows for loss, gap and memorized contexts.
pub(super) fn figures(table: &mut TextTable, found: &Evaluation) {
    losses(table, found.loss_nats, found.floor_nats, found.gap_nats, found.predictions);
    let share = |n: u64| {
        format!(
            "of {} contexts ({:.2}%)",
            grouped(found.contexts),
            100.0 * n as f64 / found.contexts.max(1) as f64
        )
    };
    let rows = [
        (
            "memorized",
            grouped(found.memorized),
            format!("{}: the likeliest token is a most frequent one", share(found.memorized)),
        ),
        (
            "as distributions",
            grouped(found.memorized_distribution),
            format!(
                "{}; worst KL {} nats",
                share(found.memorized_distribution),
                significant(found.max_kl_nats.0, 3)
            ),
        ),
        (
            "predictions right",
            format!("{:.2}%", 100.0 * found.prediction_accuracy),
            "the likeliest token is the one that follows".into(),
        ),
    ];
    for (name, value, note) in rows {
        table.row(vec![name.into(), value, note]);
    }
}

/// Rows for loss, floor and gap: nats and bits per prediction first, then the total.
pub(super) fn losses(table: &mut TextTable, loss: Nats, floor: Nats, gap: Nats, predictions: u64) {
    let each = |total: Nats| total.per(predictions).unwrap_or(total);
    let note = |bits: String, total: String, more: &str| {
        format!("nats = {bits} bits per prediction; {total} nats in total{more}")
    };
    let small = |x: f64| if x > 0.0 && x < 1e-3 { format!("{x:.2e}") } else { grouped_number(x, 4) };
    let share = match floor.0 > 0.0 {
        true if gap.0 <= floor.0 => {
            format!(", {}% of the floor", significant(100.0 * gap.0 / floor.0, 3))
        }
        true => format!(", {} the floor", share_of_floor(gap.0 / floor.0)),
        false => String::new(),
    };
    let (l, f, g) = (each(loss), each(floor), each(gap));
    table.row(["loss".into(), fixed(l.0, 6), note(fixed(l.bits(), 6), grouped_number(loss.0, 4), "")]);
    let total = grouped_number(floor.at_least(), 4);
    table.row(["floor".into(), fixed(f.at_least(), 6), note(fixed(f.bits_at_least(), 6), total, "")]);
    table.row(["gap".into(), significant(g.0, 4), note(significant(g.bits(), 4), small(gap.0), &share)]);
}

/// Shows how well a model knows a corpus: the loss by context length, and the worst contexts.
pub fn evaluation(title: &str, file: &ModelFile, dataset: &Dataset, found: &Evaluation) -> String {
    let mut out =
        format!("{title}: a model of {} parameters\n\n", grouped(file.model.parameters().len() as u64));
    let mut table = TextTable::new(&["predictions", &grouped(found.predictions), ""], &[0, 2]);
    figures(&mut table, found);
    out += &table.render();
    let heads =
        ["length", "contexts", "predictions", "loss", "floor", "gap", "memorized", "distributions", "right"];
    let mut table = TextTable::new(&heads, &[]);
    for l in found.by_length.iter().take(40) {
        table.row(vec![
            l.length.to_string(),
            grouped(l.contexts),
            grouped(l.predictions),
            fixed(l.loss_nats_per_prediction.0, 4),
            fixed(l.floor_nats_per_prediction.0, 4),
            significant(l.gap_nats_per_prediction.0, 3),
            grouped(l.memorized),
            grouped(l.memorized_distribution),
            format!("{:.2}%", 100.0 * l.prediction_accuracy),
        ]);
    }
    let about = "By context length, in nats per prediction; \"right\" is the share of predictions:";
    let _ = write!(out, "\n{about}\n{}", table.fitted(&[2, 7]));
    if found.by_length.len() > 40 {
        let _ = writeln!(out, "... {} more lengths in `by_length`", found.by_length.len() - 40);
    }
    if !found.worst.is_empty() {
        let heads = ["gap/prediction", "count", "predicted", "with", "next"];
        let mut table = TextTable::new(&heads, &[2, 4]);
        for w in &found.worst {
            let [context, cells @ ..] = worst_row(w, dataset, &file.vocabulary);
            table.row(cells);
            table.note(format!("after: {context}"));
        }
        let about = "Worst contexts, by gap per prediction (nats) times count:";
        let _ = write!(out, "\n{about}\n{}", table.fitted(&[1]));
    }
    out
}

/// The context, then the cells of its row.
fn worst_row(w: &Worst, dataset: &Dataset, vocabulary: &Vocabulary) -> [String; 6] {
    let text = shown(&dataset.text_of(w.context));
    // The end of a long context tells more than its beginning.
    let length = text.chars().count();
    let text = match length > 68 {
        true => format!("...{}", text.chars().skip(length - 65).collect::<String>()),
        false => text,
    };
    [
        text,
        significant(w.kl_nats.0, 3),
        grouped(w.count),
        beginning(&shown(&vocabulary.text(w.predicted)), 14),
        format!("{:.1}%", 100.0 * w.probability),
        beginning(&shown(&dataset.next_text_of(w.context, 3)), 33),
    ]
}

/// The first characters of a text, at most `most` of them.
fn beginning(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => format!("{}...", text.chars().take(most.saturating_sub(3)).collect::<String>()),
        false => text.to_owned(),
    }
}

/// Shows what an exact network knows of a corpus.
pub fn exact_evaluation(title: &str, file: &ExactFile, found: &ExactEvaluation) -> String {
    let share = |n: u64, of: u64| format!("{:.2}%", 100.0 * n as f64 / of.max(1) as f64);
    let mut table = TextTable::new(&["contexts", &grouped(found.contexts), ""], &[0, 2]);
    let memorized = format!("{}: a most frequent label", share(found.memorized, found.contexts));
    let right = format!("predictions, {}", share(found.right, found.predictions));
    for (name, value, note) in [
        ("memorized", found.memorized, memorized.as_str()),
        ("certain", found.certain, "of these contexts have a single next token"),
        ("without label", found.without_label, "the network gives no label"),
        ("right", found.right, &right),
    ] {
        table.row([name, &grouped(value), note]);
    }
    let parameters = parameters(&file.parameters(), " parameters");
    format!("{title}: an exact network with {parameters}\n\n{}", table.render())
}
