//! What an output of rank d_model can reach, whatever comes before it: the best *sequence encoder*.
//!
//! A model without a hidden layer before its output has logits W_U h with h in R^d. Replace h by any code of
//! the context: the best such *encoder* is at least as good as the model.
//!
//! * Propositions 1 to 3: no transformer whose W_U reads d_model numbers beats the best encoder of rank d. That infimum
//!   of KL is 0 for d >= omega - 1, and for associations from d = 2 on; in between a solver estimates it.
//! * Theorem 2, sufficient: random codes of width d > 128 ln(omega + 1) bound that infimum from above.
//!
//! In words: with d directions the output can only produce distributions whose logarithms lie in a space of
//! dimension d; a narrow output is a bottleneck unless the distributions are close to a single token each.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | omega, d | N, d | tokens, width |
//! | h | -H(pi) | mean entropy of the next token, the floor per prediction; the paper's H is minus the entropy |
//!
//! Hypotheses. No hidden layer between the residual stream and the output (checked). d > 128 ln(omega + 1) for
//! Theorem 2 (checked). All constants are explicit.
//!
//! Changed: Theorem 2 is used in a tighter form without its distance term (E10): with h the entropy of a context,
//! pi_g its largest probability and C = sqrt(32 ln(omega + 1) / d),
//!
//! ```text
//! KL <= (1 - pi_g) ln((omega - 1) / (e^h - 1)) (1 + 2C) / (1 - 2C).
//! ```
//!
//! To need only the floor we add 1 - pi_g <= h / (2 ln 2) (Hellman and Raviv 1970); the product h ln((omega -
//! 1) / (e^h - 1)) is concave in h, so its mean is at most its value at the mean entropy.
//!
//! Reference: L. Dana, M. S. Pydi, Y. Chevaleyre, arXiv:2411.10115 (version not marked; AISTATS 2025),
//! Propositions 1 to 3, Theorem 2, eqs. (3), (6).

use super::row::{Bound, BoundKind, Findings, Judgement, Measured, MemorizationTask, Order, Side};
use super::situation::Situation;
use crate::bibliography::DANA2024;
use crate::units::{AtLeast, AtMost, Nats};

/// Propositions 1 to 3.
pub static PROPOSITION1: Bound = Bound {
    key: "dana2024-proposition1",
    name: "rank of the output",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Estimate,
    order: Order::Exact,
    expression: "KL(pi, model) >= inf over rank d encoders, 0 for d >= omega - 1 or (associations) d >= 2",
    statement: "Whatever comes before it, an output matrix that reads d_model numbers leaves at least the \
                divergence of the best encoder of rank d_model.",
    needs: "a shape without a hidden layer",
    paper: &DANA2024,
    place: "Propositions 1, 2, 3, eq. (3)",
    judge: judge_proposition1,
};

/// Theorem 2.
pub static THEOREM2: Bound = Bound {
    key: "dana2024-theorem2",
    name: "random codes",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "KL <= h/(2 ln 2) ln((omega-1)/(e^h - 1)) (1+2C)/(1-2C), C = sqrt(32 ln(omega+1)/d)",
    statement: "Some encoder of rank d_model comes this close to the distributions; it is closer the more each \
                context favors a single next token.",
    needs: "a corpus and a shape without a hidden layer",
    paper: &DANA2024,
    place: "Theorem 2, eq. (6), with E10",
    judge: judge_theorem2,
};

/// C of Theorem 2: how far from orthonormal `omega` codes of width `d_model` are at worst.
pub fn code_distortion(d_model: u64, omega: u64) -> f64 {
    (32.0 * (omega as f64 + 1.0).ln() / d_model as f64).sqrt()
}

/// Theorem 2 (E10) from the mean entropy of the next token; `None` where it is vacuous, C >= 1/2.
pub fn encoder_divergence(mean_entropy: Nats, d_model: u64, omega: u64) -> Option<Nats> {
    let c = code_distortion(d_model, omega);
    let h = mean_entropy.0;
    let spread = (omega as f64 - 1.0) / h.exp_m1();
    let look_up_error = h / (2.0 * std::f64::consts::LN_2);
    let bound =
        if h > 0.0 { look_up_error * spread.ln().max(0.0) * (1.0 + 2.0 * c) / (1.0 - 2.0 * c) } else { 0.0 };
    (c < 0.5 && bound.is_finite()).then_some(Nats(bound))
}

fn judge_proposition1(s: &Situation) -> Judgement {
    let Some(shape) = s.shape_of_rank_d_model()? else { return Ok(Findings::default()) };
    let free = shape.d_vocab.saturating_sub(1);
    let associations = s.corpus.as_ref().is_some_and(|corpus| corpus.contradictions() == 0);
    if shape.d_model < free && !(associations && shape.d_model >= 2) {
        return Err(format!("below d_model = omega - 1 = {free} only the encoder solver estimates it"));
    }
    Ok(Findings {
        shape_parameters: s.shape_parameters(),
        figure: Some(Measured {
            name: "divergence",
            side: Some(Side::AtLeast),
            unit: "nats per prediction",
            quantity: AtLeast(0.0).into(),
        }),
        note: Some("the output is not a bottleneck".into()),
        ..Findings::default()
    })
}

fn judge_theorem2(s: &Situation) -> Judgement {
    let (Some(shape), Some(corpus)) = (s.shape_of_rank_d_model()?, &s.corpus) else {
        return Ok(Findings::default());
    };
    let least = 128.0 * (shape.d_vocab as f64 + 1.0).ln();
    if shape.d_model as f64 <= least {
        return Err(format!("d_model must be above 128 ln(omega + 1) = {least:.1}"));
    }
    let entropy = corpus.floor.per(corpus.predictions);
    Ok(Findings {
        shape_parameters: s.shape_parameters(),
        // A dozen roundings, and an entropy that is itself rounded.
        figure: entropy.and_then(|h| encoder_divergence(h, shape.d_model, shape.d_vocab)).map(|Nats(kl)| {
            Measured {
                name: "divergence of an encoder",
                side: Some(Side::AtMost),
                unit: "nats per prediction",
                quantity: AtMost(kl * (1.0 + 1e-12)).into(),
            }
        }),
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::CorpusFacts;
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::Shape;
    use proptest::prelude::*;

    #[test]
    fn the_output_is_not_a_bottleneck_at_full_width_or_for_associations() {
        assert!(PROPOSITION1.evaluate(&of_shape(attention_only(49, 8, 1))).applies());
        assert!(PROPOSITION1.evaluate(&both(bigrams(100), attention_only(2, 2, 1))).applies());
        assert!(!PROPOSITION1.evaluate(&both(bigrams(100), attention_only(1, 1, 1))).applies());
    }

    #[test]
    fn theorem_2_is_vacuous_up_to_128_ln_omega_plus_1() {
        // 128 ln 51 = 503.27: nothing at 503, a number at 504. At d = 5000 and h = 0.2:
        // C = sqrt(32 ln 51 / 5000) = 0.158631, (1 + 2C) / (1 - 2C) = 1.929378, 0.2 / (2 ln 2) = 0.144270,
        // ln(49 / 0.2214028) = 5.399592; the product of the last three is 1.502979.
        assert_eq!(encoder_divergence(Nats(0.2), 503, 50), None);
        assert!(encoder_divergence(Nats(0.2), 504, 50).is_some());
        assert!((code_distortion(5000, 50) - 0.158_631).abs() < 1e-6);
        assert!((encoder_divergence(Nats(0.2), 5000, 50).unwrap().0 - 1.502_979).abs() < 1e-6);
        assert_eq!(encoder_divergence(Nats(0.0), 5000, 50), Some(Nats(0.0)));
        let corpus = CorpusFacts { floor: Nats(20.0), ..bigrams(100) };
        let row = THEOREM2.evaluate(&both(corpus.clone(), attention_only(5000, 5, 1)));
        assert!((row.figure.unwrap().value.number().unwrap() - 1.502_979).abs() < 1e-6);
        let why_not = THEOREM2.evaluate(&both(corpus, attention_only(503, 5, 1))).why_not.unwrap();
        assert!(why_not.contains("= 503.3"), "{why_not}");
    }

    #[test]
    fn a_hidden_layer_or_a_narrow_output_is_reported() {
        let why = |s: Situation| PROPOSITION1.evaluate(&s).why_not.unwrap();
        assert!(why(of_shape(Shape::default())).contains("rank is d_mlp 1"));
        assert!(why(of_shape(attention_only(48, 8, 1))).contains("omega - 1 = 49 only"));
    }

    proptest! {
        #[test]
        fn the_mean_entropy_never_gives_less_than_the_mean_of_the_contexts(
            h in prop::collection::vec(0.0f64..3.9, 1..9), d in 504u64..100_000,
        ) {
            let bound = |h| encoder_divergence(Nats(h), d, 50).unwrap().0;
            let mean = |x: &mut dyn Iterator<Item = f64>| x.sum::<f64>() / h.len() as f64;
            let by_context = mean(&mut h.iter().map(|&h| bound(h)));
            prop_assert!(bound(mean(&mut h.iter().copied())) >= by_context * (1.0 - 1e-9));
        }

        #[test]
        fn formulas_take_any_number(d in any_size(), omega in any_size(), h in any::<f64>()) {
            prop_assert!(encoder_divergence(Nats(h), d, omega).is_none_or(|kl| kl.0 >= 0.0));
        }
    }
}
