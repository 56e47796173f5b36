//! Contexts against parameters: the bounds as lines for a log-log picture, the corpus and the model as
//! points.
//!
//! Every line shows the parameters that n contexts take by one bound, with n on the vertical axis: a model above a
//! necessary line cannot hold every choice of targets on that many contexts, and every family reaches its sufficient
//! line. A bound known only up to a constant or logarithms is dashed. A bound whose hypotheses the corpus or the
//! activation violates is left out; one that depends on a condition carries it. The tokens are those of the corpus,
//! where there is one, since they are what is stored. Other sizes that the picture does not vary (T, d, C) come from
//! the shape, then from what is stated, then from the corpus; widths that are not given are the program's defaults,
//! d = 16 with four heads of 4. Attention alone is drawn for distributions at d >= omega - 1, where it reaches the
//! floor, and for associations at d = 2. Of the hidden layers, whose lines nearly coincide, the one with the shape's
//! mixer is drawn.

use super::answer::promised;
use super::monotone::affordable;
use super::row::{Bound, BoundKind, MemorizationTask, Order};
use super::situation::{CorpusFacts, Situation};
use super::{dana2024, information, kajitsuka2024, kajitsuka2024_lower, madden2024, morris2025};
use crate::model::{Counting, Mixer, Shape};
use serde::Serialize;

/// One bound as a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoundCurve {
    /// The bound's key.
    pub key: &'static str,
    /// What the line depends on, where that is neither checked nor always true.
    pub condition: Option<&'static str>,
    /// Whether only the order is known.
    pub dashed: bool,
    /// What is memorized.
    pub task: MemorizationTask,
    /// What kind of statement the bound is.
    pub kind: BoundKind,
    /// (parameters, contexts), both rising.
    pub points: Vec<(f64, f64)>,
}

/// A corpus or a model in the picture: a point, or a line where one coordinate is not known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Marker {
    /// Its horizontal position; `None` for a horizontal line.
    pub parameters: Option<f64>,
    /// Its vertical position; `None` for a vertical line.
    pub contexts: Option<f64>,
    /// The task of those contexts, where they are what a model is guaranteed to hold.
    pub task: Option<MemorizationTask>,
    /// The condition of that guarantee.
    pub condition: Option<&'static str>,
}

/// The whole picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// At most nine lines.
    pub curves: Vec<BoundCurve>,
    /// The contexts of the corpus, at the fewest parameters that can hold every choice of distributions on as many.
    pub corpus: Option<Marker>,
    /// The parameters of the model, at the contexts it is guaranteed to hold.
    pub model: Option<Marker>,
}

/// The most points per line.
const POINTS: u32 = 64;

/// The tokens of the picture: those of the corpus, else of the model.
pub(crate) fn tokens(situation: &Situation) -> Option<u64> {
    situation.corpus.as_ref().map(|corpus| corpus.d_vocab).or_else(|| situation.vocabulary())
}

/// The picture for models from `fewest` to `most` parameters; `None` while the vocabulary is not known.
pub fn picture(situation: &Situation, fewest: u128, most: u128) -> Option<Picture> {
    let omega = tokens(situation)?;
    let n_ctx = situation.longest_context().unwrap_or(Shape::default().n_ctx);
    let labels = situation.labels()?;
    let like = Shape { d_vocab: omega, n_ctx, blocks: None, ..situation.shape.unwrap_or_default() };
    let last = situation.corpus.as_ref().map_or(omega, |corpus| corpus.distinct_last_tokens);
    let bits = f64::from(situation.bits_per_parameter.max(1));
    // A shape has at most 2^64 of anything; beyond that a family has no member.
    let total = |n: u128, shape: &dyn Fn(u64) -> Shape| {
        u64::try_from(n).map_or(u128::MAX, |n| shape(n).parameters().total())
    };
    let attention_only = |d: u64, n| {
        let like = Shape { d_model: d, d_head: like.d_head.min(d), mixer: Mixer::Attention, ..like };
        match &situation.corpus {
            Some(corpus) => dana2024::sized_for(corpus, n, &like),
            None => dana2024::sized(n, last, &like),
        }
    };
    let hidden_layer = match like.mixer {
        Mixer::Attention => &madden2024::THEOREM5,
        Mixer::Average | Mixer::None => &madden2024::THEOREM7,
    };
    let full = like.d_model.max(dana2024::full_width(omega));
    let costs: [(&'static Bound, &dyn Fn(u128) -> u128); 9] = [
        (&madden2024::LEMMA1, &|n| madden2024::min_parameters(n, omega)),
        (hidden_layer, &|n| total(n, &|n| Shape { d_mlp: n, ..like })),
        (&dana2024::THEOREM1, &|n| total(n, &|n| attention_only(full, n))),
        (&dana2024::D2, &|n| total(n, &|n| attention_only(2, n))),
        (&kajitsuka2024::EXACT, &|n| {
            kajitsuka2024::exact_parameters(n, labels, omega, n_ctx).total(Counting::Dense)
        }),
        (&kajitsuka2024::NEXT, &|n| n.isqrt()),
        (&kajitsuka2024_lower::LB_RELU, &kajitsuka2024_lower::lb_relu),
        (&information::LIMIT, &|n| information::min_parameters(n, labels, bits)),
        (&morris2025::BITS, &|n| information::min_parameters(n, labels, morris2025::BITS_PER_PARAMETER)),
    ];
    let curves = costs.into_iter().filter_map(|(bound, cost)| {
        let condition = drawable(bound, situation, n_ctx).ok()?;
        curve(bound, condition, cost, fewest, most)
    });
    Some(Picture {
        curves: curves.collect(),
        corpus: corpus_marker(situation),
        model: model_marker(situation),
    })
}

/// The condition under which a line may be drawn; an error where its hypotheses fail.
fn drawable(
    bound: &'static Bound,
    situation: &Situation,
    n_ctx: u64,
) -> Result<Option<&'static str>, super::situation::WhyNot> {
    if bound.key == madden2024::LEMMA1.key {
        situation.smooth()?;
    }
    if [madden2024::THEOREM5.key, madden2024::THEOREM7.key].contains(&bound.key) {
        madden2024::analytic(situation.shape.as_ref().filter(|shape| shape.has_hidden_layer()))?;
    }
    // The hypotheses that the corpus violates; without a corpus, those of a stand-in with a single context.
    let stand_in = || CorpusFacts {
        sequences: 1,
        d_vocab: 2,
        n_ctx,
        contexts: 1,
        deterministic_contexts: 1,
        distinct_last_tokens: 1,
        labels: 2,
        ..CorpusFacts::default()
    };
    let corpus = situation.corpus.clone().unwrap_or_else(stand_in);
    let row = bound.evaluate(&Situation { corpus: Some(corpus), ..Situation::default() });
    match row.why_not {
        Some(why_not) => Err(why_not),
        None => Ok(row.condition),
    }
}

/// The line of one bound between two numbers of parameters, at contexts in equal ratios; `None` where fewer than two
/// points lie between them.
fn curve(
    bound: &'static Bound,
    condition: Option<&'static str>,
    cost: &dyn Fn(u128) -> u128,
    fewest: u128,
    most: u128,
) -> Option<BoundCurve> {
    let below = fewest.checked_sub(1).and_then(|below| affordable(below, cost));
    let low = below.map_or(1, |n| n.saturating_add(1));
    let high = affordable(most, cost)?;
    let ratio = (high as f64 / low as f64).ln();
    let mut contexts: Vec<u128> = (0..POINTS)
        .map(|i| (low as f64 * (ratio * f64::from(i) / f64::from(POINTS - 1)).exp()).round() as u128)
        .map(|n| n.clamp(low, high.max(low)))
        .collect();
    contexts.dedup();
    let points: Vec<_> =
        contexts.into_iter().map(|n| (cost(n) as f64, n as f64)).filter(|&(k, _)| k > 0.0).collect();
    (low < high && points.len() > 1).then(|| BoundCurve {
        key: bound.key,
        condition,
        dashed: bound.order != Order::Exact,
        task: bound.task,
        kind: bound.kind,
        points,
    })
}

fn corpus_marker(situation: &Situation) -> Option<Marker> {
    let alone = Situation { corpus: situation.corpus.clone(), ..Situation::default() };
    let required = madden2024::LEMMA1.evaluate(&alone).required_parameters.and_then(|k| k.number());
    let contexts = situation.contexts().filter(|&n| n > 0)? as f64;
    let parameters = required.filter(|&k| k > 0.0 && situation.smooth().is_ok());
    Some(Marker { parameters, contexts: Some(contexts), task: None, condition: None })
}

fn model_marker(situation: &Situation) -> Option<Marker> {
    let parameters = situation.parameter_count().filter(|&k| k > 0)?;
    let held = promised(situation).filter(|(held, _)| *held > 0);
    Some(Marker {
        parameters: Some(parameters as f64),
        contexts: held.as_ref().map(|(held, _)| *held as f64),
        task: held.as_ref().map(|(_, row)| row.bound.task),
        condition: held.and_then(|(_, row)| row.condition),
    })
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use proptest::prelude::*;

    fn find<'a>(picture: &'a Picture, key: &str) -> &'a BoundCurve {
        picture.curves.iter().find(|curve| curve.key == key).unwrap()
    }

    #[test]
    fn the_stories_have_their_lines_and_a_point() {
        let picture = picture(&of_corpus(stories()), 1_000, 10_000_000).unwrap();
        // Contexts of one to nine tokens: the theorems on attention alone and on one token do not apply.
        let keys: Vec<_> = picture.curves.iter().map(|curve| curve.key).collect();
        assert_eq!(
            keys,
            [
                "madden2024-lemma1",
                "madden2024-theorem5",
                "kajitsuka2024-exact",
                "kajitsuka2024-next",
                "information",
                "morris2025"
            ]
        );
        let corpus = picture.corpus.unwrap();
        assert_eq!((corpus.parameters, corpus.contexts), (Some(2_634_363.0), Some(2637.0)));
        assert_eq!(picture.model, None);
        // 10^7 / 999 = 10,010.01
        let limit = find(&picture, "madden2024-lemma1");
        assert_eq!(limit.points.last(), Some(&(9_999_990.0, 10_010.0)));
        assert_eq!(limit.points.first(), Some(&(1998.0, 2.0)));
        // What suffices for distributions never passes what is necessary for them.
        for curve in picture
            .curves
            .iter()
            .filter(|c| c.task == MemorizationTask::Distribution && c.kind == BoundKind::Sufficient)
        {
            assert!(curve.points.iter().all(|&(k, n)| n <= k / 999.0), "{}", curve.key);
        }
        let dashed: Vec<_> = picture.curves.iter().filter(|c| c.dashed).map(|c| c.key).collect();
        assert_eq!(dashed, ["kajitsuka2024-next", "morris2025"]);
    }

    #[test]
    fn the_model_is_drawn_at_what_it_is_guaranteed_to_hold() {
        let shape = Shape { d_vocab: 1000, n_heads: 1, d_head: 16, d_mlp: 2637, ..Shape::default() };
        let picture = picture(&of_shape(shape), 1_000_000, 10_000_000).unwrap();
        let model = picture.model.unwrap();
        assert_eq!((model.parameters, model.contexts), (Some(2_698_997.0), Some(2637.0)));
        assert_eq!((model.task, model.condition), (Some(MemorizationTask::Distribution), None));
        assert_eq!(picture.corpus, None);
    }

    #[test]
    fn without_a_vocabulary_there_is_no_picture_and_outside_its_range_no_line() {
        assert_eq!(picture(&Situation::default(), 1, 1000), None);
        let narrow = picture(&of_corpus(stories()), 1, 900).unwrap();
        assert!(narrow.curves.iter().all(|curve| curve.key != "madden2024-theorem5"));
    }

    #[test]
    fn bigrams_have_the_lines_of_attention_alone_with_their_condition() {
        let shape = attention_only(10, 10, 20);
        let picture =
            picture(&Situation { shape: Some(shape), ..of_corpus(bigrams(300)) }, 10, 1 << 40).unwrap();
        for key in ["dana2024-theorem1", "dana2024-d2"] {
            assert_eq!(find(&picture, key).condition, Some("if in general position"));
        }
        // 210 associations in 9,020 parameters; 184 distributions is the most they could be.
        let model = picture.model.unwrap();
        assert_eq!((model.contexts, model.task), (Some(210.0), Some(MemorizationTask::Association)));
    }

    #[test]
    fn relu_breaks_the_bounds_of_smooth_models_and_averaging_draws_its_own() {
        let keys = |shape| {
            let picture = picture(&of_shape(shape), 100, 10_000_000).unwrap();
            picture
                .curves
                .iter()
                .map(|curve| curve.key)
                .filter(|key| key.starts_with("madden"))
                .collect::<Vec<_>>()
        };
        let shape = Shape { d_vocab: 50, d_mlp: 9, ..Shape::default() };
        assert_eq!(keys(Shape { activation: crate::model::Activation::Relu, ..shape }), [""; 0]);
        let average = Shape { mixer: Mixer::Average, ..shape };
        assert_eq!(keys(average), ["madden2024-lemma1", "madden2024-theorem7"]);
    }

    #[test]
    fn every_line_reaches_the_edge_of_the_picture() {
        let bare = Situation { d_vocab: Some(50), n_ctx: Some(1), ..Situation::default() };
        let most = 1u128 << 50;
        let picture = picture(&bare, 100, most).unwrap();
        for curve in &picture.curves {
            assert!(curve.points.last().unwrap().0 > 0.9 * most as f64, "{}", curve.key);
        }
        assert!(picture.curves.iter().any(|curve| curve.key == "kajitsuka2024-lb-relu"));
    }

    proptest! {
        #[test]
        fn a_model_is_never_above_the_limit_of_its_task(
            d_vocab in 2u64..100, d_model in 1u64..200, d_head in 1u64..200, n_heads in 1u64..200,
            d_mlp in 0u64..2000, average in any::<bool>(), n_ctx in 1u64..20,
        ) {
            let mixer = if average { Mixer::Average } else { Mixer::Attention };
            let shape =
                Shape { d_vocab, d_model, d_head, n_heads, d_mlp, n_ctx, mixer, ..Shape::default() };
            let model = model_marker(&of_shape(shape)).unwrap();
            if model.task == Some(MemorizationTask::Distribution) {
                prop_assert!(model.contexts.unwrap() <= model.parameters.unwrap() / (d_vocab - 1) as f64);
            }
        }

        #[test]
        fn lines_rise_and_stay_in_the_picture(
            situation in any_situation(), a in any_size(), b in any_size(),
        ) {
            let (fewest, most) = (u128::from(a.min(b)), u128::from(a.max(b)));
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
