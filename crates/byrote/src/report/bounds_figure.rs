//! Contexts against parameters: bounds as lines, corpus and model as points.

use crate::bounds::curve::{BoundCurve, Marker, Picture, picture, tokens};
use crate::bounds::row::grouped;
use crate::bounds::{BoundKind, MemorizationTask, Situation};
use byrote_figures::{Axis, Figure, Line, MarkerForm, Palette, Points};

/// Draws a situation; `None` if the vocabulary is not known.
///
/// `corpus` and `model` name the points.
pub fn capacity(situation: &Situation, corpus: &str, model: &str) -> Option<Figure> {
    let omega = tokens(situation)?;
    let (fewest, most) = range(situation)?;
    let picture = picture(situation, fewest, most)?;
    let mut figure = Figure::new(
        "Contexts against parameters",
        Axis::log("parameters").range(fewest as f64, most as f64),
        Axis::log("contexts"),
    )
    .subtitle(subtitle(&picture, omega))
    .caption(caption(&picture, omega, situation.bits_per_parameter))
    .palette(Palette::default().in_ink(["corpus", "model"]))
    .size(1080.0, 640.0);
    for curve in &picture.curves {
        let line = Line::new(curve.key, label(curve, situation.bits_per_parameter), curve.points.clone());
        figure = figure.line(if curve.dashed { line.dashed() } else { line });
    }
    for (key, form, label, marker) in [
        ("corpus", MarkerForm::Circle, corpus, picture.corpus),
        ("model", MarkerForm::Diamond, model, picture.model),
    ] {
        let Some(Marker { parameters, contexts, task, condition }) = marker else { continue };
        let held = task.map(|task| format!(", {}", plural(task)));
        let label = [Some(label.to_owned()), held, condition.map(|c| format!(" {c}"))]
            .into_iter()
            .flatten()
            .collect::<String>();
        figure = match (parameters, contexts) {
            (Some(x), Some(y)) => figure.points(Points::one(key, label, x, y).form(form)),
            (Some(x), None) => figure.vertical(x, label),
            (None, Some(y)) => figure.horizontal(y, label),
            (None, None) => figure,
        };
    }
    Some(figure)
}

fn plural(task: MemorizationTask) -> &'static str {
    match task {
        MemorizationTask::Distribution => "distributions",
        MemorizationTask::Association => "associations",
        MemorizationTask::SequenceToSequence => "sequences",
    }
}

fn label(curve: &BoundCurve, bits: u32) -> String {
    let kind = match curve.kind {
        BoundKind::Necessary => "at most",
        BoundKind::Sufficient => "at least",
        BoundKind::Estimate => "estimate",
        BoundKind::Empirical => "in experiments",
    };
    let condition = match (curve.key, curve.condition) {
        ("information", _) => format!(", {bits} bits per parameter"),
        (_, Some(condition)) => format!(", {condition}"),
        (_, None) => String::new(),
    };
    format!("{} ({}, {kind}{condition})", curve.key, plural(curve.task))
}

/// Explains the kinds of lines that are drawn.
fn subtitle(picture: &Picture, omega: u64) -> String {
    let any = |kind| picture.curves.iter().any(|curve| curve.kind == kind);
    let mut text = format!("What is known about storing contexts over {} tokens.", grouped(omega));
    if any(BoundKind::Necessary) {
        text += " No model above a line marked \u{201c}at most\u{201d} holds every choice of targets.";
    }
    if any(BoundKind::Sufficient) {
        text += " Every line marked \u{201c}at least\u{201d} is reached by some weights.";
    }
    if picture.curves.iter().any(|curve| curve.dashed) {
        text += " Dashed lines are known only up to a constant, which is set to one.";
    }
    text
}

fn caption(picture: &Picture, omega: u64, bits: u32) -> String {
    let drawn = |key| picture.curves.iter().any(|curve| curve.key == key);
    let of = |task| picture.curves.iter().any(|curve| curve.task == task);
    let mut text = Vec::new();
    if of(MemorizationTask::Distribution) && of(MemorizationTask::Association) {
        text.push(format!(
            "Lines for different tasks cannot be compared: an association stores one token per context, a distribution {} numbers.",
            grouped(omega.saturating_sub(1))
        ));
    }
    if drawn("information") {
        text.push(format!("The information limit is for weights of {bits} bits."));
        if drawn("kajitsuka2024-exact") || drawn("kajitsuka2024-next") {
            text.push("Where the lines of kajitsuka2024 exceed it, its weights are longer.".into());
        }
    }
    text.join(" ")
}

/// The parameters to draw: two decades above what is known and some below, at least a hundred to a hundred million.
fn range(situation: &Situation) -> Option<(u128, u128)> {
    let corpus = situation.corpus.as_ref().map(|c| {
        u128::from(c.contexts.max(1)).saturating_mul(u128::from(c.d_vocab.saturating_sub(1).max(1)))
    });
    let known = [corpus, situation.parameter_count()].into_iter().flatten().map(|k| k.max(1));
    let (least, largest) = (known.clone().min()?, known.max()?);
    Some(((least / 10).clamp(1, 100), largest.saturating_mul(100).max(100_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::CorpusFacts;

    fn stories() -> Situation {
        let corpus = CorpusFacts {
            sequences: 900,
            d_vocab: 609,
            n_ctx: 9,
            contexts: 2610,
            predictions: 9000,
            distinct_last_tokens: 400,
            labels: 500,
            ..CorpusFacts::default()
        };
        Situation { corpus: Some(corpus), ..Situation::default() }
    }

    #[test]
    fn the_corpus_is_in_the_figure_with_its_bounds() {
        let figure = capacity(&stories(), "stories", "model").unwrap();
        assert!(figure.lines.len() >= 5 && figure.lines.len() <= 9);
        assert!(figure.lines.iter().any(|line| line.key == "kajitsuka2024-next" && line.dashed));
        let svg = figure.to_svg().unwrap();
        assert!(svg.contains("madden2024-theorem5") && svg.contains("stories"));
    }

    #[test]
    fn markers_lie_within_the_range_however_small_or_large() {
        for parameters in [1, 9, 1 << 40, u64::MAX] {
            let situation = Situation { parameters: Some(parameters), ..stories() };
            let (fewest, most) = range(&situation).unwrap();
            for k in [u128::from(parameters), 2610 * 608] {
                assert!(fewest <= k && k <= most, "{k} outside {fewest} to {most}");
            }
            assert!(capacity(&situation, "stories", "model").unwrap().to_svg().is_ok());
        }
    }

    #[test]
    fn the_captions_mention_only_what_is_drawn() {
        let alone = Picture { curves: vec![], corpus: None, model: None };
        assert_eq!(caption(&alone, 50, 32), "");
        assert_eq!(subtitle(&alone, 50_257), "What is known about storing contexts over 50,257 tokens.");
        let wide = Situation { d_vocab: Some(5000), parameters: Some(99), ..stories() };
        assert_eq!(tokens(&wide), Some(609));
    }

    #[test]
    fn without_a_vocabulary_there_is_no_figure() {
        assert!(capacity(&Situation::default(), "", "").is_none());
        assert!(capacity(&Situation { d_vocab: Some(5), ..Situation::default() }, "", "").is_none());
    }
}
