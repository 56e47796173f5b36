//! Contexts against parameters: the bounds as lines for a log-log picture, the corpus and the model as
//! points.
//!
//! Every line is a bound's cost, the parameters of n contexts, drawn with n upwards: no model stands above a
//! necessary bound for its task, and every family reaches its sufficient one. A bound known only up to a
//! constant or logarithms is dashed. Sizes that the picture does not vary (omega, T, d, C) come from the
//! shape, then from what is stated, then from the corpus; widths not given are the program's defaults, d = 16
//! with four heads of 4. Attention alone is drawn for distributions at d >= omega - 1, where it reaches the
//! floor, and for associations at d = 2.

use super::monotone::affordable;
use super::row::{Bound, Kind, Order, Task};
use super::situation::Situation;
use super::{dana2024, information, kajitsuka2024, madden2024, morris2025};
use crate::model::{Mixer, Shape};
use serde::Serialize;

/// One bound as a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The bound's key.
    pub key: &'static str,
    /// A few words for the legend.
    pub label: &'static str,
    /// Whether only the order is known.
    pub dashed: bool,
    /// What is memorized.
    pub task: Task,
    /// What the bound is worth.
    pub kind: Kind,
    /// (parameters, contexts), both rising.
    pub points: Vec<(f64, f64)>,
}

/// A corpus or a model in the picture: a point, or a line where one coordinate is not known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Marker {
    /// Where it stands across; `None` for a horizontal line.
    pub parameters: Option<f64>,
    /// Where it stands upwards; `None` for a vertical line.
    pub contexts: Option<f64>,
}

/// The whole picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// At most nine lines.
    pub curves: Vec<Curve>,
    /// The contexts of the corpus, at the parameters without which not every distribution on them is reached.
    pub corpus: Option<Marker>,
    /// The parameters of the model, at the contexts it is guaranteed to hold.
    pub model: Option<Marker>,
}

/// Points of a line, at most.
const POINTS: u32 = 64;

/// The picture for models from `fewest` to `most` parameters; `None` while the vocabulary is not known.
pub fn picture(situation: &Situation, fewest: u64, most: u64) -> Option<Picture> {
    let omega = situation.vocabulary()?;
    let n_ctx = situation.longest_context().unwrap_or(Shape::default().n_ctx);
    let labels = situation.labels()?;
    let like = Shape { d_vocab: omega, n_ctx, ..situation.shape.unwrap_or_default() };
    let last = situation.corpus.as_ref().map_or(omega, |corpus| corpus.distinct_last_tokens);
    let bits = f64::from(situation.bits_per_parameter.max(1));
    let total = |shape: Shape| shape.parameters().total();
    let with_hidden_layer = |mixer, n| Shape { d_mlp: n, mixer, ..like };
    let attention_only = |d: u64, n| {
        let d_head = like.d_head.min(d);
        dana2024::sized(n, last, &Shape { d_model: d, d_head, mixer: Mixer::Attention, ..like })
    };
    let costs: [(&'static Bound, &dyn Fn(u64) -> u128); 9] = [
        (&madden2024::LEMMA1, &|n| madden2024::min_parameters(n, omega)),
        (&madden2024::THEOREM5, &|n| total(with_hidden_layer(Mixer::Attention, n))),
        (&madden2024::THEOREM7, &|n| total(with_hidden_layer(Mixer::Average, n))),
        (&dana2024::THEOREM1, &|n| total(attention_only(like.d_model.max(dana2024::full_width(omega)), n))),
        (&dana2024::D2, &|n| total(attention_only(2, n))),
        (&kajitsuka2024::EXACT, &|n| kajitsuka2024::exact_parameters(n, labels, omega, n_ctx)),
        (&kajitsuka2024::LB_RELU, &|n| kajitsuka2024::lb_relu(n).into()),
        (&information::LIMIT, &|n| information::min_parameters(n, labels, bits)),
        (&morris2025::BITS, &|n| information::min_parameters(n, labels, morris2025::BITS_PER_PARAMETER)),
    ];
    let curves = costs.into_iter().filter_map(|(bound, cost)| curve(bound, cost, fewest, most)).collect();
    Some(Picture { curves, corpus: corpus_marker(situation), model: model_marker(situation) })
}

/// The line of one bound between two numbers of parameters, at contexts in equal ratios; `None` where it has
/// no two points there.
fn curve(bound: &'static Bound, cost: &dyn Fn(u64) -> u128, fewest: u64, most: u64) -> Option<Curve> {
    let low = fewest
        .checked_sub(1)
        .and_then(|below| affordable(below.into(), cost))
        .map_or(1, |n| n.saturating_add(1));
    let high = affordable(most.into(), cost)?;
    let ratio = (high as f64 / low as f64).ln();
    let mut contexts: Vec<u64> = (0..POINTS)
        .map(|i| (low as f64 * (ratio * f64::from(i) / f64::from(POINTS - 1)).exp()).round() as u64)
        .map(|n| n.clamp(low, high.max(low)))
        .collect();
    contexts.dedup();
    let points: Vec<_> =
        contexts.into_iter().map(|n| (cost(n) as f64, n as f64)).filter(|&(k, _)| k > 0.0).collect();
    (low < high && points.len() > 1).then(|| Curve {
        key: bound.key,
        label: bound.name,
        dashed: bound.order != Order::Exact,
        task: bound.task,
        kind: bound.kind,
        points,
    })
}

fn corpus_marker(situation: &Situation) -> Option<Marker> {
    let row = madden2024::LEMMA1.evaluate(situation);
    let contexts = situation.contexts()? as f64;
    Some(Marker { parameters: row.required_parameters.and_then(|k| k.number()), contexts: Some(contexts) })
}

fn model_marker(situation: &Situation) -> Option<Marker> {
    let held = [&madden2024::THEOREM5, &madden2024::THEOREM7, &dana2024::THEOREM1, &dana2024::D2]
        .into_iter()
        .find_map(|bound| bound.evaluate(situation).contexts?.number());
    Some(Marker { parameters: Some(situation.parameter_count()? as f64), contexts: held })
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use proptest::prelude::*;

    fn find<'a>(picture: &'a Picture, key: &str) -> &'a Curve {
        picture.curves.iter().find(|curve| curve.key == key).unwrap()
    }

    #[test]
    fn the_stories_have_nine_lines_and_a_point() {
        let picture = picture(&of_corpus(stories()), 1_000, 10_000_000).unwrap();
        assert_eq!(picture.curves.len(), 9);
        assert_eq!(picture.corpus, Some(Marker { parameters: Some(2_634_363.0), contexts: Some(2637.0) }));
        assert_eq!(picture.model, None);
        // 10^7 / 999 = 10,010.01
        let limit = find(&picture, "madden2024-lemma1");
        assert_eq!(limit.points.last(), Some(&(9_999_990.0, 10_010.0)));
        assert_eq!(limit.points.first(), Some(&(1998.0, 2.0)));
        // What suffices for distributions never passes what is necessary for them.
        for curve in
            picture.curves.iter().filter(|c| c.task == Task::Distribution && c.kind == Kind::Sufficient)
        {
            assert!(curve.points.iter().all(|&(k, n)| n <= k / 999.0), "{}", curve.key);
        }
        let dashed: Vec<_> = picture.curves.iter().filter(|c| c.dashed).map(|c| c.key).collect();
        assert_eq!(dashed, ["morris2025"]);
    }

    #[test]
    fn the_model_stands_at_what_it_is_guaranteed() {
        let shape = Shape { d_vocab: 1000, n_heads: 1, d_head: 16, d_mlp: 2637, ..Shape::default() };
        let picture = picture(&of_shape(shape), 1_000_000, 10_000_000).unwrap();
        assert_eq!(picture.model, Some(Marker { parameters: Some(2_698_997.0), contexts: Some(2637.0) }));
        assert_eq!(picture.corpus, None);
    }

    #[test]
    fn without_a_vocabulary_there_is_no_picture_and_outside_its_range_no_line() {
        assert_eq!(picture(&Situation::default(), 1, 1000), None);
        let narrow = picture(&of_corpus(stories()), 1, 900).unwrap();
        assert!(narrow.curves.iter().all(|curve| curve.key != "madden2024-theorem5"));
    }

    proptest! {
        #[test]
        fn lines_rise_and_stay_in_the_picture(
            situation in any_situation(), a in any_size(), b in any_size(),
        ) {
            let (fewest, most) = (a.min(b), a.max(b));
            for curve in picture(&situation, fewest, most).iter().flat_map(|picture| &picture.curves) {
                for &(k, n) in &curve.points {
                    prop_assert!(k >= 1.0 && k <= most as f64 * (1.0 + 1e-9) && n >= 1.0);
                }
                for pair in curve.points.windows(2) {
                    prop_assert!(pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1, "{} {pair:?}", curve.key);
                }
            }
        }
    }
}
