//! Lower and upper bounds for whole distributions: about n omega parameters are necessary and sufficient.
//!
//! **Capacity** is the largest n such that, whatever n distinct contexts are chosen, the model reproduces
//! *every* choice of positive next-token distributions on them.
//!
//! * Lemma 1, necessary: capacity <= k / (omega - 1). Each distribution has omega - 1 free numbers, and a
//!   smooth map cannot raise the dimension. This is about *every* choice of distributions: one given corpus may need
//!   far fewer parameters.
//! * Theorem 1, necessary on some corpus: with n' = floor(k / (omega - 1)) + 1 and the least T >= 1 for which
//!   omega^T >= n', there is a corpus of documents of T + 1 tokens with at most M = (2 + 1/(omega-1))
//!   k/(omega-1) + 1 contexts whose floor the model does not approach. So restricting oneself to distributions that
//!   come from documents does not help, and a model that holds every corpus of up to n contexts has n <= M - 1, the
//!   number in the row.
//! * Theorem 5, sufficient: one layer of attention and m hidden neurons have capacity >= m.
//! * Theorem 7, sufficient: so does token averaging in place of attention.
//! * Equation (3): the limit of Lemma 1 for the model of Theorem 5, divided by m; it is k / ((omega - 1) m).
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | k | k | parameters |
//! | omega, T | omega, T | tokens, longest context |
//! | d, H, d_h | d, m_0, d_0 = d_1 | widths; the paper lets value and query dimensions differ |
//! | m | m | hidden neurons |
//! | n' | n' | one context too many |
//!
//! Hypotheses. Lemma 1: logits C^1 in the parameters (checked: ReLU fails). Theorem 1: also definable in
//! (R_an, exp), the real field with restricted analytic functions and exp, so that the closure of an image has no
//! more dimensions than the parameters. Nothing is checked here: every activation other than erf and GELU is a
//! composition or quotient of definable functions. Whether erf and GELU are definable in (R_an, exp), as the paper
//! says, is doubtful, but they are definable in its Pfaffian closure, which is o-minimal as well, and the argument
//! works in any o-minimal structure (`docs/errata.md`, smaller corrections). The model must also read contexts of
//! length T (checked against `n_ctx`). Theorems 5 and 7: the activation is analytic at some point and not a
//! polynomial there (checked: ReLU fails), a hidden layer feeds the output and the mixer is the right one (checked),
//! vocabulary and context window are wide enough for the corpus (checked). omega >= 2 throughout (checked): with one
//! token there is only one distribution.
//!
//! All constants are explicit. Integer facts are computed in integers, without logarithms.
//!
//! Changed: T of Theorem 1 is at least 1 (the published ceiling of a quotient of logarithms gives 0 for n' =
//! 1). Theorems 2 and 3, on the rank of psi(a b^T), are false as stated for b of mixed sign; the corrected
//! statements are in [`madden2024_rank`](super::madden2024_rank). Theorems 4 to 7 survive, because the mixed
//! values generically have distinct absolute values (E3).
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024): Lemma 1, Theorems 1, 5, 7, eq.
//! (3). From v2 on the title is "Next-token prediction capacity: general upper bounds and a lower bound for
//! transformers".

use super::row::{Bound, BoundKind, Findings, Judgement, Measured, MemorizationTask, Order, grouped};
use super::situation::{Situation, WhyNot};
use crate::bibliography::MADDEN2024;
use crate::model::{Mixer, Shape};

/// Lemma 1.
pub static LEMMA1: Bound = Bound {
    key: "madden2024-lemma1",
    name: "free numbers of the distributions",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "n <= k / (omega - 1)",
    statement: "No smooth model with k parameters reproduces every choice of distributions on more than k / \
                (omega - 1) contexts. It says nothing about one given corpus, which may need far fewer.",
    needs: "a corpus, or a shape, or a parameter count with a vocabulary",
    paper: &MADDEN2024,
    place: "Lemma 1",
    judge: |s| {
        s.smooth()?;
        at_least_two_tokens(s)?;
        Ok(Findings {
            contexts: s
                .parameter_count()
                .zip(s.vocabulary())
                .and_then(|(k, w)| max_contexts(k, w))
                .map(Into::into),
            shape_parameters: s.shape_parameters(),
            required_parameters: s.corpus.as_ref().map(|c| min_parameters(c.contexts, c.d_vocab).into()),
            ..Findings::default()
        })
    },
};

/// Theorem 1.
pub static THEOREM1: Bound = Bound {
    key: "madden2024-theorem1",
    name: "a corpus out of reach",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "n <= (2 + 1/(omega - 1)) k / (omega - 1)",
    statement: "A smooth model with k parameters does not approach the floor of every corpus with one context \
                more than this. It says nothing about one given corpus, which may need far fewer.",
    needs: "a corpus, or a shape, or a parameter count with a vocabulary",
    paper: &MADDEN2024,
    place: "Theorem 1",
    judge: judge_theorem1,
};

/// Theorem 5.
pub static THEOREM5: Bound = Bound {
    key: "madden2024-theorem5",
    name: "one hidden neuron per context, attention",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "n >= m, k = omega m + m (d + 1) + 4 H d_h d + (omega + T) d",
    statement: "One layer of attention followed by m hidden neurons reproduces any distributions on any m \
                contexts.",
    needs: "a corpus, or a shape with attention and a hidden layer",
    paper: &MADDEN2024,
    place: "Theorem 5",
    judge: |s| judge_hidden_layer(s, Mixer::Attention),
};

/// Theorem 7.
pub static THEOREM7: Bound = Bound {
    key: "madden2024-theorem7",
    name: "one hidden neuron per context, averaging",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "n >= m, k = omega d + T + d m + m + omega m",
    statement: "A weighted average of the tokens followed by m hidden neurons reproduces any distributions \
                on any m contexts.",
    needs: "a corpus, or a shape with token averaging and a hidden layer",
    paper: &MADDEN2024,
    place: "Theorem 7",
    judge: |s| judge_hidden_layer(s, Mixer::Average),
};

/// Equation (3).
pub static EQ3: Bound = Bound {
    key: "madden2024-eq3",
    name: "ratio of the two sides",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Estimate,
    order: Order::Exact,
    expression: "1 + (d+2)/(omega-1) + 4 H d_h d / ((omega-1) m) + (omega+T) d / ((omega-1) m)",
    statement: "How many times more contexts Lemma 1 leaves possible than Theorem 5 guarantees.",
    needs: "a shape with attention and a hidden layer",
    paper: &MADDEN2024,
    place: "eq. (3)",
    judge: |s| {
        let shape = s.shape_with_hidden_layer(Mixer::Attention)?;
        s.smooth()?;
        analytic(shape)?;
        at_least_two_tokens(s)?;
        Ok(Findings {
            shape_parameters: shape.and(s.shape_parameters()),
            figure: shape.and_then(ratio).map(|ratio| Measured {
                name: "upper bound / lower bound",
                side: None,
                unit: "",
                quantity: ratio.into(),
            }),
            ..Findings::default()
        })
    },
};

/// Lemma 1: the most contexts on which `k` parameters can reproduce every distribution; `None` for one token,
/// where there is nothing to reproduce.
pub fn max_contexts(k: u128, omega: u64) -> Option<u128> {
    k.checked_div(u128::from(omega).saturating_sub(1))
}

/// Lemma 1 in the other direction: the fewest parameters that can reach every choice of distributions on `n`
/// contexts.
pub fn min_parameters(n: impl Into<u128>, omega: u64) -> u128 {
    n.into().saturating_mul(u128::from(omega.saturating_sub(1)))
}

/// The corpus of Theorem 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardCorpus {
    /// T: every document has one token more.
    pub n_ctx: u64,
    /// It has at most this many contexts.
    pub contexts: u128,
}

/// Theorem 1: the size of a corpus that `k` parameters cannot learn to its floor; `None` for one token, and
/// where the arithmetic leaves 128 bits.
pub fn hard_corpus(k: u128, omega: u64) -> Option<HardCorpus> {
    let free = u128::from(omega.checked_sub(1).filter(|&free| free > 0)?);
    // (2 + 1/free) k/free = (2 free + 1) k / free^2
    let contexts = (2 * free + 1).checked_mul(k)? / (free * free) + 1;
    Some(HardCorpus { n_ctx: least_length(k / free + 1, omega), contexts })
}

/// The least T >= 1 with `omega`^T >= `n`, for omega >= 2.
fn least_length(n: u128, omega: u64) -> u64 {
    let mut sequences = u128::from(omega);
    let mut length = 1;
    while sequences < n {
        sequences = sequences.saturating_mul(omega.into());
        length += 1;
    }
    length
}

/// Theorem 1 in the other direction: below this many parameters some corpus of at most `n` contexts is out of
/// reach.
pub fn min_parameters_for_corpora(n: u64, omega: u64) -> Option<u128> {
    let free = u128::from(omega.checked_sub(1).filter(|&free| free > 0)?);
    // The least k with (2 free + 1) k / free^2 >= n.
    Some((free * free).checked_mul(n.into())?.div_ceil(2 * free + 1))
}

/// Equation (3), from exact counts; `None` for one token or no hidden neuron.
pub fn ratio(shape: &Shape) -> Option<f64> {
    let held = min_parameters(shape.d_mlp, shape.d_vocab);
    (held > 0).then(|| shape.parameters().total() as f64 / held as f64)
}

/// The smallest model of Theorem 5 or 7 for `n` contexts: width one, and one head of one where there are
/// heads.
pub fn smallest(mixer: Mixer, n: u64, omega: u64, n_ctx: u64) -> Shape {
    Shape { d_vocab: omega, n_ctx, d_model: 1, n_heads: 1, d_head: 1, d_mlp: n, mixer, ..Shape::default() }
}

pub(super) fn at_least_two_tokens(s: &Situation) -> Result<(), WhyNot> {
    let corpus = s.corpus.as_ref().map(|corpus| corpus.d_vocab);
    match [s.vocabulary(), corpus].into_iter().flatten().min() {
        Some(0 | 1) => Err("with one token there is only one distribution, which every model has".into()),
        _ => Ok(()),
    }
}

fn judge_theorem1(s: &Situation) -> Judgement {
    s.smooth()?;
    at_least_two_tokens(s)?;
    let corpus = s.parameter_count().zip(s.vocabulary()).and_then(|(k, w)| hard_corpus(k, w));
    let window = s.shape.map(|shape| shape.n_ctx).or(s.n_ctx);
    if let Some((HardCorpus { n_ctx, .. }, window)) =
        corpus.zip(window).filter(|(c, window)| c.n_ctx > *window)
    {
        return Err(format!("its corpus has contexts of {n_ctx} tokens, but the model reads {window}"));
    }
    Ok(Findings {
        contexts: corpus.map(|corpus| (corpus.contexts - 1).into()),
        shape_parameters: s.shape_parameters(),
        required_parameters: s
            .corpus
            .as_ref()
            .and_then(|c| min_parameters_for_corpora(c.contexts, c.d_vocab))
            .map(Into::into),
        note: corpus.map(|corpus| {
            format!(
                "some corpus of n_ctx {} with at most {} contexts is out of reach",
                corpus.n_ctx,
                grouped(corpus.contexts)
            )
        }),
        ..Findings::default()
    })
}

/// Whether the activation is analytic at some point and not a polynomial there.
pub(super) fn analytic(shape: Option<&Shape>) -> Result<(), WhyNot> {
    match shape {
        Some(Shape { activation, .. }) if !activation.is_analytic_non_polynomial_somewhere() => Err(format!(
            "the activation must be analytic and not a polynomial at some point, which {activation} is not"
        )),
        _ => Ok(()),
    }
}

fn judge_hidden_layer(s: &Situation, mixer: Mixer) -> Judgement {
    let shape = s.shape_with_hidden_layer(mixer)?;
    analytic(shape)?;
    let sized = s.corpus.as_ref().map(|corpus| match shape {
        Some(shape) => Shape { d_mlp: corpus.contexts, ..*shape },
        None => smallest(mixer, corpus.contexts, corpus.d_vocab, corpus.longest_context()),
    });
    Ok(Findings {
        contexts: shape.map(|shape| shape.d_mlp.into()),
        shape_parameters: shape.and(s.shape_parameters()),
        required_parameters: sized.map(|sized| sized.parameters().total().into()),
        note: sized.map(|sized| format!("with d_model {}, d_mlp {}", sized.d_model, grouped(sized.d_mlp))),
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::Activation;
    use proptest::prelude::*;

    /// omega = 1000, T = 9, d = d_0 = d_1 = 16, m_0 = 1, m = 2637.
    fn stories_shape() -> Shape {
        Shape { d_vocab: 1000, n_heads: 1, d_head: 16, d_mlp: 2637, ..Shape::default() }
    }

    #[test]
    fn lemma_1_divides_by_the_free_numbers_of_a_distribution() {
        // 2,698,997 / 999 = 2701.69...; 2637 * 999 = 2,634,363.
        assert_eq!(max_contexts(2_698_997, 1000), Some(2701));
        assert_eq!(min_parameters(2637u64, 1000), 2_634_363);
        assert_eq!(max_contexts(2_634_363, 1000), Some(2637));
        assert_eq!(max_contexts(2_634_362, 1000), Some(2636));
        assert_eq!((max_contexts(5, 1), max_contexts(5, 0)), (None, None));
    }

    #[test]
    fn theorem_1_takes_the_least_length_at_and_just_above_a_power() {
        // omega = 2: n' = k + 1, and the bound is 3 k + 1.
        assert_eq!(hard_corpus(7, 2), Some(HardCorpus { n_ctx: 3, contexts: 22 })); // n' = 8 = 2^3
        assert_eq!(hard_corpus(8, 2), Some(HardCorpus { n_ctx: 4, contexts: 25 })); // n' = 9
        assert_eq!(hard_corpus(0, 2), Some(HardCorpus { n_ctx: 1, contexts: 1 })); // n' = 1
        // omega = 10: n' = 1000 = 10^3 at k = 8991, 1001 at k = 9000; (19 * 8991) / 81 + 1 = 2109 + 1.
        assert_eq!(hard_corpus(8991, 10), Some(HardCorpus { n_ctx: 3, contexts: 2110 }));
        assert_eq!(hard_corpus(9000, 10).map(|c| c.n_ctx), Some(4));
        // omega = 5: n' = 125 = 5^3 at k = 496; ln 125 / ln 5 = 3.0000000000000004 in f64, whose ceiling is
        // 4.
        assert_eq!(hard_corpus(496, 5).map(|c| c.n_ctx), Some(3));
        assert_eq!(hard_corpus(500, 5).map(|c| c.n_ctx), Some(4));
    }

    #[test]
    fn theorem_1_on_the_stories() {
        // k = 2,698,997, omega = 1000: n' = 2702, T = 2; (1999 * 2,698,997) / 998,001 = 5406.10..., and one
        // more.
        assert_eq!(hard_corpus(2_698_997, 1000), Some(HardCorpus { n_ctx: 2, contexts: 5407 }));
        // 2637 * 998,001 / 1999 = 1,316,522.57...
        assert_eq!(min_parameters_for_corpora(2637, 1000), Some(1_316_523));
        assert_eq!(hard_corpus(1_316_522, 1000).map(|c| c.contexts), Some(2637));
        assert_eq!(hard_corpus(1_316_523, 1000).map(|c| c.contexts), Some(2638));
    }

    #[test]
    fn the_ratio_of_equation_3_comes_out_by_hand() {
        // 1 + 18/999 + 1024/(999*2637) + 1009*16/(999*2637)
        //   = 1 + 0.018018018 + 0.000388709 + 0.006128237 = 1.024534963
        let by_terms = 1.0 + 18.0 / 999.0 + 1024.0 / (999.0 * 2637.0) + 1009.0 * 16.0 / (999.0 * 2637.0);
        let ratio = ratio(&stories_shape()).unwrap();
        assert!((ratio - by_terms).abs() < 1e-15);
        assert!((ratio - 1.024_534_963).abs() < 1e-9);
    }

    #[test]
    fn the_rows_of_the_stories_agree_with_the_hand_count() {
        let s = Situation { shape: Some(stories_shape()), ..of_corpus(stories()) };
        let count = |bound: &'static Bound| {
            let row = bound.evaluate(&s);
            assert!(row.applies(), "{:?}", row.why_not);
            [row.contexts, row.shape_parameters, row.required_parameters].map(|v| v.and_then(|v| v.count()))
        };
        assert_eq!(count(&LEMMA1), [Some(2701), Some(2_698_997), Some(2_634_363)]);
        assert_eq!(count(&THEOREM1), [Some(5406), Some(2_698_997), Some(1_316_523)]);
        assert_eq!(count(&THEOREM5), [Some(2637), Some(2_698_997), Some(2_698_997)]);
        assert_eq!(THEOREM7.evaluate(&s).why_not.unwrap(), "the mixer must be average, but is attention");
    }

    #[test]
    fn a_corpus_alone_is_held_at_width_one() {
        // d = 1: omega m + 2 m + 4 + omega + T = 2,637,000 + 5,274 + 4 + 1,009 = 2,643,287;
        // averaging: omega + T + m + m + omega m = 1,009 + 5,274 + 2,637,000 = 2,643,283.
        let s = of_corpus(stories());
        let required = |bound: &'static Bound| bound.evaluate(&s).required_parameters.unwrap().count();
        assert_eq!(required(&THEOREM5), Some(2_643_287));
        assert_eq!(required(&THEOREM7), Some(2_643_283));
    }

    #[test]
    fn a_failed_hypothesis_is_named() {
        let why = |bound: &'static Bound, shape| bound.evaluate(&of_shape(shape)).why_not.unwrap();
        let relu = Shape { activation: Activation::Relu, ..stories_shape() };
        assert!(why(&LEMMA1, relu).contains("C^1, which relu"));
        assert!(why(&THEOREM1, relu).contains("C^1, which relu"));
        assert!(why(&THEOREM5, relu).contains("analytic"));
        assert!(why(&EQ3, relu).contains("C^1, which relu"));
        assert!(why(&THEOREM5, Shape { d_mlp: 0, ..relu }).contains("no hidden layer"));
        assert!(why(&LEMMA1, Shape { d_vocab: 1, ..stories_shape() }).contains("one token"));
        assert!(
            why(&THEOREM1, Shape { n_ctx: 1, ..stories_shape() }).contains("2 tokens, but the model reads 1")
        );
        let small =
            Situation { shape: Some(Shape { d_vocab: 10, ..stories_shape() }), ..of_corpus(stories()) };
        assert!(THEOREM5.evaluate(&small).why_not.unwrap().contains("1,000 tokens"));
        assert!(
            LEMMA1.evaluate(&Situation::default()).why_not.unwrap().starts_with("needs a corpus, or a shape")
        );
        let bare = Situation { parameters: Some(9990), d_vocab: Some(1000), ..Situation::default() };
        assert_eq!(LEMMA1.evaluate(&bare).contexts.unwrap().count(), Some(10));
    }

    proptest! {
        #[test]
        fn equation_3_is_parameters_over_free_numbers(
            d_vocab in 2u64..5000, n_ctx in 1u64..100, d_model in 1u64..200, n_heads in 1u64..20,
            d_head in 1u64..100, d_mlp in 1u64..5000,
        ) {
            let shape = Shape { d_vocab, n_ctx, d_model, n_heads, d_head, d_mlp, ..Shape::default() };
            let free = (d_vocab - 1) as f64;
            let by_terms = 1.0
                + (d_model + 2) as f64 / free
                + (4 * n_heads * d_head * d_model) as f64 / (free * d_mlp as f64)
                + ((d_vocab + n_ctx) * d_model) as f64 / (free * d_mlp as f64);
            let k = shape.parameters().total();
            prop_assert!((ratio(&shape).unwrap() / by_terms - 1.0).abs() < 1e-12);
            // The two sides never cross: what is guaranteed is never excluded.
            prop_assert!(max_contexts(k, d_vocab).unwrap() >= u128::from(d_mlp));
        }

        #[test]
        fn the_hard_corpus_grows_with_the_model_and_has_room_for_one_context_too_many(
            k in any::<u64>(), more in 0u64..1000, omega in 2u64..100_000,
        ) {
            let hard = |k| hard_corpus(k, omega).unwrap();
            let (small, large) = (hard(u128::from(k)), hard(u128::from(k) + u128::from(more)));
            prop_assert!(large.contexts >= small.contexts && large.n_ctx >= small.n_ctx);
            let too_many = max_contexts(k.into(), omega).unwrap() + 1;
            let length = u32::try_from(small.n_ctx).unwrap();
            prop_assert!(u128::from(omega).saturating_pow(length) >= too_many);
            prop_assert!(length == 1 || u128::from(omega).pow(length - 1) < too_many);
            // The proof's own count of contexts stays within the bound.
            let prefixes: u128 = (1..length).map(|t| u128::from(omega).pow(t)).sum();
            prop_assert!(too_many + prefixes <= small.contexts);
        }

        #[test]
        fn below_the_required_size_the_hard_corpus_fits(n in 1u64..1_000_000, omega in 2u64..10_000) {
            let k = min_parameters_for_corpora(n, omega).unwrap();
            prop_assert!(hard_corpus(k - 1, omega).unwrap().contexts <= n.into());
            prop_assert!(hard_corpus(k, omega).unwrap().contexts > n.into());
        }

        #[test]
        fn theorem_1_holds_n_contexts_exactly_from_the_parameters_n_contexts_require(
            k in 1u64..1 << 40, n in 1u64..1 << 40, omega in 2u64..100_000, near in 0u64..3,
        ) {
            let held = |k| {
                let s = Situation { parameters: Some(k), d_vocab: Some(omega), ..Situation::default() };
                THEOREM1.evaluate(&s).contexts.unwrap().count().unwrap()
            };
            let required = min_parameters_for_corpora(n, omega).unwrap();
            let close = u64::try_from(required).unwrap().saturating_add(near).saturating_sub(1).max(1);
            for k in [k, close] {
                prop_assert_eq!(held(k) >= n.into(), u128::from(k) >= required);
            }
        }
    }
}
