//! How few parameters cannot give n contexts every choice of labels: explicit lower bounds.
//!
//! All of them are about arbitrary labels. One given corpus may need far fewer parameters.
//!
//! * `-lb-bits`: all weights together have at least n log2 C bits.
//! * `-lb-ops`: W >= n / (4 (t + 2)) if an output takes t operations + - * / and comparisons, from the VC
//!   dimension <= 4 W (t + 2).
//! * `-lb-relu`: the same with t <= 3 W, where each parameter is used once: 12 W^2 + 8 W >= n.
//! * `-lb-hardmax`: least W with (W + 1)(1 + W log2(16 e (W + 1) N T^3)) >= M for M binary labels over N
//!   sequences of T tokens, by counting the sign patterns layer by layer.
//! * `-lb-hardmax-next`: the same with one label per sequence, M = N.
//!
//! In words: k parameters, each used a bounded number of times, can distinguish only a limited number of labelings.
//!
//! | here | in the sources | meaning |
//! |---|---|---|
//! | n contexts | N | labelled inputs, one label each |
//! | M, N, T | | labels, distinct inputs, their length |
//! | k | W | parameters of the bounded network |
//!
//! **Contexts of a corpus.** A language model reads causally: positions with the same tokens before them get
//! the same output, so only the n distinct contexts can be labelled arbitrarily, not the T N_seq positions. Both
//! hardmax rows therefore take M = n for a corpus, and N = n inputs, which is never too few and so never overstates
//! the bound. For a bare number of parameters the first row counts positions (M = T N), the second contexts.
//!
//! Hypotheses. Arbitrary labels, at least two (checked). `-lb-relu`: ReLU or no activation, and no parameter used
//! twice. That is a network on one token (checked for a corpus and for a shape); it would also hold on sequences of
//! equal tokens without positions, which no corpus here consists of. `-lb-hardmax...`: hardmax or uniform attention,
//! ReLU, no LayerNorm, weights not shared between layers; no shape here has these (checked), and nothing comparable
//! is known for softmax. `-lb-ops` needs t, and no exponentials (assumed). All constants are explicit.
//!
//! Changed: the published statements are orders of growth; these constants are ours.
//!
//! Reference: P. Goldberg, M. Jerrum (1995); M. Anthony, P. Bartlett, "Neural Network Learning: Theoretical
//! Foundations" (1999), Theorems 8.3 and 8.4; the orders are those of the abstract of
//! [`kajitsuka2024`](super::kajitsuka2024).

use super::information::label_bits_at_least;
use super::kajitsuka2024::OURS;
use super::monotone::{affordable, least};
use super::row::{Bound, BoundKind, Findings, Measured, MemorizationTask, Order, POSITIONS, Quantity, Side};
use super::situation::{CorpusFacts, Situation, WhyNot};
use crate::bibliography::KAJITSUKA2024;
use crate::model::Activation;
use crate::units::AtLeast;

/// Bits of the weights.
pub static LB_BITS: Bound = Bound {
    key: "kajitsuka2024-lb-bits",
    name: "bits of the weights",
    task: MemorizationTask::Association,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "bits of all weights >= n log2 C",
    statement: "A network that can hold every choice of labels has at least as many bits in its weights as the \
                labels have, so parameters that are few must be long.",
    needs: "a corpus",
    paper: &KAJITSUKA2024,
    place: OURS,
    judge: |s| {
        two_labels(s)?;
        let bits = s.corpus.as_ref().map(|corpus| label_bits_at_least(corpus.contexts.into(), corpus.labels));
        Ok(Findings {
            figure: bits.map(|bits| {
                let (name, bound) = match s.parameter_count().filter(|&k| k > 0) {
                    Some(k) => {
                        let each = bits.0 / k as f64;
                        // Exact where nothing was rounded.
                        let exact = each.mul_add(k as f64, -bits.0) == 0.0;
                        let each = if exact { AtLeast(each) } else { AtLeast::computed(each) };
                        ("bits per parameter for every choice of labels", each)
                    }
                    None => ("bits of all parameters for every choice of labels", bits),
                };
                Measured { name, side: Some(Side::AtLeast), unit: "bits", quantity: bound.into() }
            }),
            shape_parameters: s.shape_parameters(),
            ..Findings::default()
        })
    },
};

/// Parameters for a number of operations.
pub static LB_OPS: Bound = Bound {
    key: "kajitsuka2024-lb-ops",
    name: "parameters for a given number of operations",
    task: MemorizationTask::Association,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "n <= 4 k (t + 2)",
    statement: "A network that computes an output in t operations cannot give more than 4 k (t + 2) contexts \
                every choice of labels.",
    needs: "the number of operations per prediction, and a corpus or a parameter count",
    paper: &KAJITSUKA2024,
    place: OURS,
    judge: |s| {
        two_labels(s)?;
        let Some(t) = s.operations else { return Ok(Findings::default()) };
        let each = 4 * (u128::from(t) + 2);
        Ok(Findings {
            contexts: s.parameter_count().map(|k| k.saturating_mul(each).into()),
            shape_parameters: s.shape_parameters(),
            required_parameters: s.contexts().map(|n| lb_ops(n, t).into()),
            ..Findings::default()
        })
    },
};

/// Parameters of a ReLU network.
pub static LB_RELU: Bound = Bound {
    key: "kajitsuka2024-lb-relu",
    name: "smallest ReLU network",
    task: MemorizationTask::Association,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "n <= 12 k^2 + 8 k",
    statement: "A ReLU network that reads one token and uses each parameter once cannot give more than 12 k^2 + \
                8 k inputs every choice of labels.",
    needs: "a corpus of contexts of one token, or a parameter count, or a ReLU shape for such contexts",
    paper: &KAJITSUKA2024,
    place: OURS,
    judge: |s| {
        two_labels(s)?;
        s.one_layer()?;
        if let Some(shape) = s.shape.filter(|m| m.has_hidden_layer() && m.activation != Activation::Relu) {
            return Err(format!("the activation must be ReLU, but is {}", shape.activation));
        }
        let longest = match &s.corpus {
            Some(corpus) => Some(corpus.longest_context()),
            None => s.shape.map(|shape| shape.n_ctx),
        };
        if let Some(longest) = longest.filter(|&longest| longest > 1) {
            return Err(format!(
                "each parameter must be used once, so contexts must have one token, but they have up to {longest}"
            ));
        }
        Ok(Findings {
            contexts: s.parameter_count().map(|k| lb_relu_contexts(k).into()),
            shape_parameters: s.shape_parameters(),
            required_parameters: s.contexts().map(|n| lb_relu(n.into()).into()),
            condition: s.shape.is_none().then_some("for ReLU networks that read one token"),
            ..Findings::default()
        })
    },
};

/// Parameters of a hardmax transformer, one label per position.
pub static LB_HARDMAX: Bound = Bound {
    key: "kajitsuka2024-lb-hardmax",
    name: "smallest hardmax transformer, one label per position",
    task: MemorizationTask::SequenceToSequence,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "M <= (k + 1)(1 + k log2(16 e (k + 1) N T^3))",
    statement: "A transformer with hardmax attention and ReLU that can give M positions of N sequences of T tokens \
                every choice of labels has at least this many parameters; where text is read causally, the \
                positions that can differ are the n contexts.",
    needs: "a corpus, or a parameter count with a context length",
    paper: &KAJITSUKA2024,
    place: OURS,
    judge: |s| {
        hardmax(s)?;
        let positions = |sequences: u128, length| sequences.saturating_mul(u128::from(length));
        let cost = |sequences, length| lb_hardmax(positions(sequences, length), sequences, length);
        Ok(Findings {
            contexts: s.parameters.zip(s.longest_context()).and_then(|(k, length)| {
                let sequences = affordable(k.into(), |sequences| cost(sequences, length))?;
                Some(positions(sequences, length).into())
            }),
            required_parameters: s.corpus.as_ref().map(hardmax_of_corpus),
            note: s.parameters.map(|_| POSITIONS.into()),
            condition: Some(HARDMAX),
            ..Findings::default()
        })
    },
};

/// Parameters of a hardmax transformer, one label per context.
pub static LB_HARDMAX_NEXT: Bound = Bound {
    key: "kajitsuka2024-lb-hardmax-next",
    name: "smallest hardmax transformer, one label per context",
    task: MemorizationTask::Association,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "n <= (k + 1)(1 + k log2(16 e (k + 1) n T^3))",
    statement: "A transformer with hardmax attention and ReLU that can give n contexts of up to T tokens every \
                choice of next tokens has at least this many parameters.",
    needs: "a corpus, or a parameter count with a context length",
    paper: &KAJITSUKA2024,
    place: OURS,
    judge: |s| {
        hardmax(s)?;
        Ok(Findings {
            contexts: s
                .parameters
                .zip(s.longest_context())
                .and_then(|(k, length)| affordable(k.into(), |n| lb_hardmax(n, n, length)))
                .map(Into::into),
            required_parameters: s.corpus.as_ref().map(hardmax_of_corpus),
            condition: Some(HARDMAX),
            ..Findings::default()
        })
    },
};

const HARDMAX: &str = "for hardmax attention and ReLU";

fn hardmax(s: &Situation) -> Result<(), WhyNot> {
    two_labels(s)?;
    match s.shape {
        Some(_) => Err("proved only for hardmax attention, which no shape here has".into()),
        None => Ok(()),
    }
}

/// M = N = n: each context is one labelled input.
fn hardmax_of_corpus(corpus: &CorpusFacts) -> Quantity {
    let n = u128::from(corpus.contexts);
    lb_hardmax(n, n, corpus.longest_context()).into()
}

/// The least W with W >= n / (4 (t + 2)).
pub fn lb_ops(n: u64, operations: u64) -> u128 {
    u128::from(n).div_ceil(4 * (u128::from(operations) + 2))
}

/// The least W with 12 W^2 + 8 W >= n, which is (sqrt(4 + 3n) - 2) / 6 rounded up.
pub fn lb_relu(n: u128) -> u128 {
    least(|w| lb_relu_contexts(w) >= n).unwrap_or(u128::MAX)
}

/// 12 k^2 + 8 k.
pub fn lb_relu_contexts(k: u128) -> u128 {
    k.saturating_mul(12).saturating_add(8).saturating_mul(k)
}

/// The least W with (W + 1)(1 + W log2(16 e (W + 1) N T^3)) >= M, for `labels` M over `sequences` N of
/// `length` T. The left side is computed in f64 and raised by its rounding, so W is never too large.
pub fn lb_hardmax(labels: u128, sequences: u128, length: u64) -> u128 {
    let inputs = (16.0 * std::f64::consts::E).log2()
        + (sequences.max(1) as f64).log2()
        + 3.0 * (length.max(1) as f64).log2();
    let patterns = |w: f64| (w + 1.0) * (1.0 + w * (inputs + (w + 1.0).log2()));
    least(|w| patterns(w as f64) * (1.0 + 1e-12) >= labels as f64).unwrap_or(u128::MAX)
}

fn two_labels(s: &Situation) -> Result<(), WhyNot> {
    match &s.corpus {
        Some(corpus) if corpus.labels < 2 => Err("a single label needs no memory".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::LengthFacts;
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::Shape;
    use proptest::prelude::*;

    #[test]
    fn the_relu_bound_has_its_tabulated_values() {
        // N = 100: 12*9 + 24 = 132 >= 100 > 12*4 + 16 = 64, so 3; and so on.
        assert_eq!([100, 1_000, 10_000, 100_000, 1_000_000].map(lb_relu), [3, 9, 29, 91, 289]);
        assert_eq!([0, 1, 20, 21].map(lb_relu), [0, 1, 1, 2]);
        for n in [100u128, 1_000, 10_000, 100_000, 1_000_000] {
            let closed_form = (((4 + 3 * n) as f64).sqrt() - 2.0) / 6.0;
            assert_eq!(lb_relu(n), closed_form.ceil() as u128);
        }
    }

    #[test]
    fn the_hardmax_bound_has_its_tabulated_values() {
        // N = 10, n = 8: W = 1 gives 2 (1 + log2(16 e 2 * 10 * 512)) = 2 (1 + 18.76) = 39.5 < 80;
        // W = 2 gives 3 (1 + 2 * 19.35) = 119 >= 80.
        assert_eq!([10, 100, 1000].map(|n| lb_hardmax(8 * n, n, 8)), [2, 6, 17]);
    }

    #[test]
    fn operations_divide_the_contexts() {
        assert_eq!(lb_ops(1000, 8), 25); // 1000 / 40
        assert_eq!(lb_ops(1001, 8), 26);
        let s = Situation { operations: Some(8), parameters: Some(25), ..of_corpus(bigrams(1000)) };
        let row = LB_OPS.evaluate(&s);
        assert_eq!(
            (row.contexts.unwrap().count(), row.required_parameters.unwrap().count()),
            (Some(1000), Some(25))
        );
        assert!(
            LB_OPS
                .evaluate(&of_corpus(bigrams(9)))
                .why_not
                .unwrap()
                .starts_with("needs the number of operations")
        );
    }

    #[test]
    fn few_parameters_must_be_long() {
        let bits = |s: &Situation| LB_BITS.evaluate(s).figure.unwrap().value.number().unwrap();
        let mut s = of_corpus(stories());
        assert!((bits(&s) - 25_878.9).abs() < 0.1); // 2637 log2 900
        s.parameters = Some(100);
        assert!((bits(&s) - 258.789).abs() < 1e-3);
        // One bit per label: nothing is rounded.
        let mut two = bigrams(100);
        two.labels = 2;
        let mut s = of_corpus(two);
        assert_eq!(bits(&s), 100.0);
        s.parameters = Some(8);
        assert_eq!(bits(&s), 12.5);
    }

    #[test]
    fn a_softmax_shape_is_outside_the_lower_bounds() {
        let why = |bound: &'static Bound, shape| bound.evaluate(&of_shape(shape)).why_not.unwrap();
        assert!(why(&LB_HARDMAX, Shape::default()).contains("hardmax attention"));
        assert!(why(&LB_RELU, Shape::default()).contains("but is gelu"));
        let relu = Shape { activation: Activation::Relu, ..Shape::default() };
        assert!(why(&LB_RELU, relu).contains("they have up to 9"));
        assert!(LB_RELU.evaluate(&of_shape(Shape { n_ctx: 1, ..relu })).applies());
    }

    #[test]
    fn a_parameter_count_inverts_the_hardmax_bound_by_hand() {
        // k = 1, T = 1, M = N: 2 (1 + log2(32 e N)). N = 24: 32 e * 24 = 2087.64, log2 = 11.0277, 24.055 >= 24;
        // N = 25: 2174.63, 11.0866, 24.173 < 25.
        let of = |parameters, n_ctx| Situation {
            parameters: Some(parameters),
            n_ctx: Some(n_ctx),
            ..Situation::default()
        };
        let held =
            |bound: &'static Bound, s: Situation| bound.evaluate(&s).contexts.unwrap().count().unwrap();
        assert_eq!(held(&LB_HARDMAX_NEXT, of(1, 1)), 24);
        assert_eq!(held(&LB_HARDMAX, of(1, 1)), 24);
        // T = 8, positions 8 N: N = 4: 2 (1 + log2(32 e * 4 * 512)) = 2 (1 + 17.4426) = 36.9 >= 32;
        // N = 5: 2 (1 + 17.7646) = 37.5 < 40.
        assert_eq!(held(&LB_HARDMAX, of(1, 8)), 32);
        // At k = 10^12 the answer is far beyond 64 bits: 10^24 times about 250.
        let held = held(&LB_HARDMAX_NEXT, of(1_000_000_000_000, 1024));
        assert!((1e26..1e27).contains(&(held as f64)), "{held}");
    }

    #[test]
    fn both_hardmax_rows_count_the_contexts_of_a_corpus() {
        // M = N = 2637, T = 9: k = 8 gives 9 (1 + 8 log2(16 e * 9 * 2637 * 729)) = 9 (1 + 8 * 29.488) = 2132;
        // k = 9 gives 10 (1 + 9 * 29.640) = 2678 >= 2637.
        let required = |bound: &'static Bound| bound.evaluate(&of_corpus(stories())).required_parameters;
        assert_eq!(required(&LB_HARDMAX).unwrap().count(), Some(9));
        assert_eq!(required(&LB_HARDMAX_NEXT), required(&LB_HARDMAX));
    }

    #[test]
    fn the_relu_bound_is_about_contexts_of_one_token() {
        assert!(LB_RELU.evaluate(&of_corpus(stories())).why_not.unwrap().contains("they have up to 9"));
        let by_length = vec![LengthFacts { length: 1, contexts: 50 }];
        let row = LB_RELU.evaluate(&of_corpus(CorpusFacts { by_length, n_ctx: 1, ..bigrams(50) }));
        assert_eq!(row.required_parameters.unwrap().count(), Some(2)); // 20 < 50 <= 64
        assert_eq!(row.condition, Some("for ReLU networks that read one token"));
    }

    proptest! {
        #[test]
        fn the_two_directions_agree(n in 1u128..1 << 100, t in 1u64..10_000) {
            prop_assert!(lb_relu_contexts(lb_relu(n)) >= n && lb_relu_contexts(lb_relu(n) - 1) < n);
            let k = lb_hardmax(n, n, t);
            let held = affordable(k, |n| lb_hardmax(n, n, t)).unwrap();
            prop_assert!(held >= n && lb_hardmax(held + held / 1_000_000 + 1, held, t) > k);
        }

        #[test]
        fn formulas_take_any_number(a in any_size(), b in any_size(), c in any_size()) {
            lb_ops(a, b);
            prop_assert!(lb_relu(a.into()) <= a.into());
            prop_assert!(lb_hardmax(a.into(), b.into(), c) <= a.into());
        }
    }
}
