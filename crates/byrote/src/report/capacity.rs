//! The figure of `byrote bounds --plot`: contexts against parameters, bounds as lines, corpus and model as points.

use super::{Axis, Figure, Line, Points};
use crate::bounds::curve::{Marker, picture};
use crate::bounds::{Kind, Situation, Task};

/// The figure of a situation; `None` while the vocabulary is not known.
///
/// `corpus` and `model` name the points.
pub fn capacity(situation: &Situation, corpus: &str, model: &str) -> Option<Figure> {
    let omega = situation.vocabulary()?;
    let (fewest, most) = range(situation)?;
    let picture = picture(situation, fewest, most)?;
    let mut figure = Figure::new(
        "Contexts against parameters",
        Axis::log("parameters").range(fewest as f64, most as f64),
        Axis::log("contexts"),
    )
    .subtitle(format!(
        "What is proved about storing contexts over {omega} tokens. Above a necessary bound no model of its task can \
         stand; a sufficient one is reached by some weights."
    ))
    .caption(format!(
        "Tasks must not be compared with each other: an association stores one token a context, a distribution {} \
         numbers. The information limit counts {} bits a parameter; kajitsuka2024 uses longer weights where it passes it.",
        omega.saturating_sub(1),
        situation.bits_per_parameter,
    ))
    .size(1080.0, 640.0);
    for curve in &picture.curves {
        let task = match curve.task {
            Task::Distribution => "distributions",
            Task::Association => "associations",
            Task::SequenceToSequence => "sequences",
        };
        let kind = match curve.kind {
            Kind::Necessary => "at most",
            Kind::Sufficient => "at least",
            Kind::Estimate => "estimate",
            Kind::Empirical => "in experiments",
        };
        let line = Line::new(curve.key, format!("{} ({task}, {kind})", curve.key), curve.points.clone());
        figure = figure.line(if curve.dashed { line.dashed() } else { line });
    }
    for (key, label, marker) in [("corpus", corpus, picture.corpus), ("model", model, picture.model)] {
        figure = match marker {
            Some(Marker { parameters: Some(x), contexts: Some(y) }) => {
                figure.points(Points::one(key, label, x, y))
            }
            Some(Marker { parameters: Some(x), contexts: None }) => figure.vertical(x, label),
            Some(Marker { parameters: None, contexts: Some(y) }) => figure.horizontal(y, label),
            _ => figure,
        };
    }
    Some(figure)
}

/// Two decades around what is known, at least from a hundred parameters to a hundred million.
fn range(situation: &Situation) -> Option<(u64, u64)> {
    let corpus = situation.corpus.as_ref().map(|c| {
        u128::from(c.contexts.max(1)) * u128::from(situation.vocabulary().unwrap_or(c.d_vocab).max(1))
    });
    let known = [corpus, situation.parameter_count()];
    let known = || known.iter().flatten().map(|&k| k.clamp(1, 1 << 60) as u64);
    let most = known().max()?.saturating_mul(100).max(100_000_000);
    let fewest = (known().min()? / 10_000).clamp(10, 100);
    Some((fewest, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::CorpusFacts;

    fn stories() -> Situation {
        let corpus = CorpusFacts {
            documents: 1000,
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
    fn the_corpus_stands_in_the_picture_with_its_bounds() {
        let figure = capacity(&stories(), "stories", "model").unwrap();
        assert!(figure.lines.len() >= 5 && figure.lines.len() <= 9);
        let svg = figure.to_svg().unwrap();
        assert!(svg.contains("madden2024-theorem5") && svg.contains("stories"));
    }

    #[test]
    fn nothing_known_gives_no_picture() {
        assert!(capacity(&Situation::default(), "", "").is_none());
        assert!(capacity(&Situation { d_vocab: Some(5), ..Situation::default() }, "", "").is_none());
    }
}
