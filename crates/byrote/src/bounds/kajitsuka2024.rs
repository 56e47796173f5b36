//! The optimal order: about sqrt n parameters label n contexts, and no fewer do.
//!
//! Published, up to logarithms: O~(sqrt n) parameters suffice, and are necessary, to give n contexts one
//! label each; O~(sqrt(T N_seq)) to label every position, necessary at least with hardmax attention. In
//! words: the labels go into the bits of few, very long weights; identifying a context is cheap, fetching its
//! label is what costs.
//!
//! Ours, with every constant (rows `-exact` and `-lb-...`):
//!
//! * `-exact`, sufficient: 2 sqrt(6 b n) + 4K + 3 kappa + 6 parameters, b = 3 (1 + bl(C (R + 1))) + 7, and
//!   the embedding's scalars. bl is the bit length, R the number of possible ids, K and kappa the layers that
//!   square and reduce the id. See [`IdMap`] for the sizes that always suffice.
//! * `-lb-bits`, necessary: all weights together have at least n log2 C bits.
//! * `-lb-ops`, necessary: W >= n / (4 (t + 2)) if an output takes t operations + - * / and comparisons, from
//!   the VC dimension <= 4 W (t + 2) (Goldberg and Jerrum 1995; Anthony and Bartlett 1999, Theorem 8.4).
//! * `-lb-relu`, necessary: the same with t <= 3 W, where each parameter is used once: 12 W^2 + 8 W >= n.
//! * `-lb-hardmax`, necessary: least W with (W + 1)(1 + W log2(16 e (W + 1) N T^3)) >= M for M binary labels
//!   over N sequences of T tokens (here M = T N; M = N for one label each), by counting the sign patterns
//!   layer by layer (Warren; Anthony and Bartlett, Theorem 8.3).
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n contexts | N input sequences | labelled inputs, one label each |
//! | N_seq, T | N, n | sequences labelled at every position, their length |
//! | W | parameters | parameters of the bounded network |
//!
//! Hypotheses. Upper: exact arithmetic, depth of the order of the number of parameters (assumed; a one-layer
//! shape is not meant, so no shape is judged, a number of parameters is). A context with several next tokens
//! is labelled with its most frequent one. Lower: arbitrary labels, at least two (checked). `-lb-relu`: ReLU
//! or no activation, contexts of one token, so that nothing is used twice (checked of a shape).
//! `-lb-hardmax`: hardmax or uniform attention, which no shape here has (checked); of softmax nothing
//! comparable is known. `-lb-ops` needs t, and no exponentials.
//!
//! Hidden constants and logarithms in `-next` and `-s2s` only. Changed: only the summary of the paper was at
//! hand, so the construction and the constants of the lower bounds are ours.
//!
//! Reference: T. Kajitsuka, I. Sato, "On the Optimal Memorization Capacity of Transformers", arXiv:2409.17677
//! (ICLR 2025), abstract.

use super::information::label_bits;
use super::monotone::{affordable, least};
use super::row::{Bound, Findings, Kind, Order, POSITIONS, Paper, Task};
use super::situation::{Situation, WhyNot};
use crate::model::Activation;

/// The publication.
pub static PAPER: Paper = Paper {
    key: "kajitsuka2024",
    title: "On the Optimal Memorization Capacity of Transformers",
    source: "arXiv:2409.17677, ICLR 2025",
};

const OURS: &str = "our construction and constants; the order is the abstract's";

/// Next token, the published order.
pub static NEXT: Bound = Bound {
    key: "kajitsuka2024-next",
    name: "square root of the contexts",
    task: Task::Association,
    kind: Kind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = Theta~(sqrt n)",
    statement: "About sqrt n parameters of about sqrt n bits give n contexts one label each, and fewer do \
                not.",
    needs: "a corpus, or a parameter count",
    paper: &PAPER,
    place: "abstract",
    judge: |s| {
        Ok(Findings {
            contexts: s.parameters.map(|k| (k as f64).powi(2).into()),
            required_parameters: s.contexts().map(|n| (n as f64).sqrt().into()),
            ..Findings::default()
        })
    },
};

/// Sequence to sequence, the published order.
pub static S2S: Bound = Bound {
    key: "kajitsuka2024-s2s",
    name: "square root of the positions",
    task: Task::SequenceToSequence,
    kind: Kind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = O~(sqrt(T N_seq))",
    statement: "About sqrt(T N_seq) parameters label every position of N_seq sequences, and with hardmax \
                attention fewer do not.",
    needs: "a corpus, or a parameter count",
    paper: &PAPER,
    place: "abstract",
    judge: |s| {
        let positions = s.corpus.as_ref().map(|c| c.sequences as f64 * c.longest_context() as f64);
        Ok(Findings {
            contexts: s.parameters.map(|k| (k as f64).powi(2).into()),
            required_parameters: positions.map(|positions| positions.sqrt().into()),
            note: s.parameters.map(|_| POSITIONS.into()),
            ..Findings::default()
        })
    },
};

/// The construction with its constants.
pub static EXACT: Bound = Bound {
    key: "kajitsuka2024-exact",
    name: "square-root construction, long weights",
    task: Task::Association,
    kind: Kind::Sufficient,
    order: Order::Exact,
    expression: "k = 2 sqrt(6 b n) + 4K + 3 kappa + 6 + omega + 1 + T, b = 3 (1 + bl(C (R + 1))) + 7",
    statement: "A transformer of width 3 in exact arithmetic, deep and with long weights, gives any n \
                contexts their labels with so many parameters, embedding included; search does with far \
                fewer.",
    needs: "a corpus, or a parameter count with a vocabulary and a context length",
    paper: &PAPER,
    place: OURS,
    judge: |s| {
        let known = s.parameters.zip(s.labels()).zip(s.vocabulary().zip(s.longest_context()));
        Ok(Findings {
            contexts: known
                .and_then(|((k, c), (omega, t))| affordable(k.into(), |n| exact_parameters(n, c, omega, t)))
                .map(Into::into),
            required_parameters: s
                .corpus
                .as_ref()
                .map(|c| exact_parameters(c.contexts, c.labels, c.d_vocab, c.longest_context()).into()),
            ..Findings::default()
        })
    },
};

/// Bits of the weights.
pub static LB_BITS: Bound = Bound {
    key: "kajitsuka2024-lb-bits",
    name: "bits a parameter must have",
    task: Task::Association,
    kind: Kind::Necessary,
    order: Order::Exact,
    expression: "bits of all weights >= n log2 C",
    statement: "Few parameters must be long ones: together their bits are no fewer than those of the labels.",
    needs: "a corpus",
    paper: &PAPER,
    place: OURS,
    judge: |s| {
        two_labels(s)?;
        let bits = s.corpus.as_ref().map(|corpus| label_bits(corpus.contexts, corpus.labels));
        Ok(Findings {
            figure: match (bits, s.parameter_count().filter(|&k| k > 0)) {
                (Some(bits), Some(k)) => Some(("bits a parameter, at least", "bits", bits / k as f64)),
                (Some(bits), None) => Some(("bits of all parameters, at least", "bits", bits)),
                (None, _) => None,
            },
            shape_parameters: s.shape_parameters(),
            ..Findings::default()
        })
    },
};

/// Parameters for a number of operations.
pub static LB_OPS: Bound = Bound {
    key: "kajitsuka2024-lb-ops",
    name: "parameters for given operations",
    task: Task::Association,
    kind: Kind::Necessary,
    order: Order::Exact,
    expression: "n <= 4 k (t + 2)",
    statement: "A network that computes an output in t operations labels no more than 4 k (t + 2) contexts \
                arbitrarily.",
    needs: "the operations of a prediction, and a corpus or a parameter count",
    paper: &PAPER,
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
    name: "least ReLU network",
    task: Task::Association,
    kind: Kind::Necessary,
    order: Order::Exact,
    expression: "n <= 12 k^2 + 8 k",
    statement: "A ReLU network that uses each parameter once labels no more than 12 k^2 + 8 k inputs \
                arbitrarily.",
    needs: "a corpus, or a parameter count, or a ReLU shape for contexts of one token",
    paper: &PAPER,
    place: OURS,
    judge: |s| {
        two_labels(s)?;
        if let Some(shape) = s.shape {
            if shape.has_hidden_layer() && shape.activation != Activation::Relu {
                return Err(format!("the activation must be ReLU, here it is {}", shape.activation));
            }
            if shape.n_ctx > 1 {
                return Err(format!(
                    "softmax over {} tokens is no ReLU network; n_ctx must be 1",
                    shape.n_ctx
                ));
            }
        }
        Ok(Findings {
            contexts: s.parameter_count().map(|k| lb_relu_contexts(k).into()),
            shape_parameters: s.shape_parameters(),
            required_parameters: s.contexts().map(|n| lb_relu(n).into()),
            ..Findings::default()
        })
    },
};

/// Parameters of a hardmax transformer, a label a position.
pub static LB_HARDMAX: Bound = Bound {
    key: "kajitsuka2024-lb-hardmax",
    name: "least hardmax transformer, a label a position",
    task: Task::SequenceToSequence,
    kind: Kind::Necessary,
    order: Order::Exact,
    expression: "(k + 1)(1 + k log2(16 e (k + 1) N_seq T^3)) >= T N_seq",
    statement: "A transformer with hardmax attention and ReLU that labels every position arbitrarily has at \
                least so many parameters.",
    needs: "a corpus, or a parameter count with a context length",
    paper: &PAPER,
    place: OURS,
    judge: |s| {
        two_labels(s)?;
        if s.shape.is_some() {
            return Err("proved for hardmax attention, which no shape here has".into());
        }
        let positions = |sequences, length| u128::from(sequences) * u128::from(length);
        let cost = |sequences, length| lb_hardmax(positions(sequences, length), sequences, length);
        Ok(Findings {
            contexts: s.parameters.zip(s.longest_context()).and_then(|(k, length)| {
                let sequences = affordable(k.into(), |sequences| cost(sequences, length).into())?;
                Some(positions(sequences, length).into())
            }),
            required_parameters: s.corpus.as_ref().map(|c| cost(c.sequences, c.longest_context()).into()),
            note: s.parameters.map(|_| POSITIONS.into()),
            ..Findings::default()
        })
    },
};

/// Sizes of the contextual map at which some table and modulus are sure to give n contexts distinct ids.
///
/// Contexts are padded to T tokens with one more token, so that the attention's average is a sum over T.
/// Token ids are 0..=omega. Position codes u_1..u_T are distinct integers below U, the largest of 2 n^2 + T,
/// omega + 1, 2T + 3 and C + 1. The modulus P is a prime with U <= P < 2U (Bertrand). A context has the sum X
/// of f(z + 2u) over its tokens, the last counted twice, where f(v) = floor(v^2 / 4); its id is the distance
/// of X from the multiples of P. Two contexts that differ at position k collide only if X = X' or X = -X' mod
/// P. As polynomials in u_k alone these have at most 1 and 2 roots, because P divides neither the difference
/// of two token ids nor the leading coefficient, 2 or 4, of the sum. With u_k free to take at least U - T + 1
/// values, all distinct mod P, some choice avoids all n (n - 1) / 2 pairs, since 3 n (n - 1) / 2 is below 2
/// n^2 + 1. Hence R = (P + 1) / 2 <= U ids.
///
/// Codes are below omega + 2U < 3U, so K = bl(U) + 2 squaring layers reach them; X is below 2.25 U^2 (T + 1),
/// so kappa = bl(U) + bl(T + 1) + 3 folds reduce it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMap {
    /// R: possible ids, at most.
    pub ids: u128,
    /// K: layers that square.
    pub square_layers: u32,
    /// kappa: layers that fold.
    pub fold_layers: u32,
}

impl IdMap {
    /// The sizes for `n` contexts of up to `length` tokens out of `omega`, with `labels` labels. Exact up to
    /// 2^63 contexts.
    pub fn sufficient(n: u64, labels: u64, omega: u64, length: u64) -> Self {
        let [n, labels, omega, length] = [n, labels, omega, length].map(u128::from);
        let by_pairs = n.saturating_mul(n).saturating_mul(2).saturating_add(length);
        let ids = by_pairs.max(omega + 1).max(2 * length + 3).max(labels + 1);
        let bits = bit_length(ids);
        IdMap { ids, square_layers: bits + 2, fold_layers: bits + bit_length(length + 1) + 3 }
    }
}

/// The guarantee of the construction for given sizes, embedding apart: 2 sqrt(6 b n) + 4K + 3 kappa + 6.
pub fn ub_params(n: u64, labels: u64, map: &IdMap) -> u128 {
    let labels = u128::from(labels.max(1));
    let ids = map.ids.saturating_add(1);
    let bits = match labels.checked_mul(ids) {
        Some(keys) => bit_length(keys),
        None => bit_length(labels) + bit_length(ids),
    };
    let an_entry = u128::from(3 * (1 + bits) + 7);
    (24 * an_entry * u128::from(n)).isqrt() + u128::from(4 * map.square_layers + 3 * map.fold_layers + 6)
}

/// Parameters that suffice for any `n` contexts: the guarantee, and a scalar for each token, the padding and
/// each position.
pub fn exact_parameters(n: u64, labels: u64, omega: u64, length: u64) -> u128 {
    let embedding = u128::from(omega) + 1 + u128::from(length);
    ub_params(n, labels, &IdMap::sufficient(n, labels, omega, length)) + embedding
}

fn bit_length(x: u128) -> u32 {
    u128::BITS - x.leading_zeros()
}

/// The least W with W >= n / (4 (t + 2)).
pub fn lb_ops(n: u64, operations: u64) -> u128 {
    u128::from(n).div_ceil(4 * (u128::from(operations) + 2))
}

/// The least W with 12 W^2 + 8 W >= n, which is (sqrt(4 + 3n) - 2) / 6 rounded up.
pub fn lb_relu(n: u64) -> u64 {
    least(|w| lb_relu_contexts(w.into()) >= n.into()).unwrap_or(u64::MAX)
}

/// 12 k^2 + 8 k.
pub fn lb_relu_contexts(k: u128) -> u128 {
    k.saturating_mul(12).saturating_add(8).saturating_mul(k)
}

/// The least W with (W + 1)(1 + W log2(16 e (W + 1) N T^3)) >= M, for `labels` M over `sequences` N of
/// `length` T.
pub fn lb_hardmax(labels: u128, sequences: u64, length: u64) -> u64 {
    let inputs = (16.0 * std::f64::consts::E).log2()
        + (sequences.max(1) as f64).log2()
        + 3.0 * (length.max(1) as f64).log2();
    let patterns = |w: f64| (w + 1.0) * (1.0 + w * (inputs + (w + 1.0).log2()));
    least(|w| patterns(w as f64) >= labels as f64).unwrap_or(u64::MAX)
}

fn two_labels(s: &Situation) -> Result<(), WhyNot> {
    match &s.corpus {
        Some(corpus) if corpus.labels < 2 => Err("a single label needs no memory".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::Shape;
    use proptest::prelude::*;

    #[test]
    fn the_relu_bound_has_its_tabulated_values() {
        // N = 100: 12*9 + 24 = 132 >= 100 > 12*4 + 16 = 64, so 3; and so on.
        assert_eq!([100, 1_000, 10_000, 100_000, 1_000_000].map(lb_relu), [3, 9, 29, 91, 289]);
        assert_eq!([0, 1, 20, 21].map(lb_relu), [0, 1, 1, 2]);
        for n in [100u64, 1_000, 10_000, 100_000, 1_000_000] {
            let closed_form = (((4 + 3 * n) as f64).sqrt() - 2.0) / 6.0;
            assert_eq!(lb_relu(n), closed_form.ceil() as u64);
        }
    }

    #[test]
    fn the_hardmax_bound_has_its_tabulated_values() {
        // N = 10, n = 8: W = 1 gives 2 (1 + log2(16 e 2 * 10 * 512)) = 2 (1 + 18.76) = 39.5 < 80;
        // W = 2 gives 3 (1 + 2 * 19.35) = 119 >= 80.
        assert_eq!([10u64, 100, 1000].map(|n| lb_hardmax(8 * u128::from(n), n, 8)), [2, 6, 17]);
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
        assert!(LB_OPS.evaluate(&of_corpus(bigrams(9))).why_not.unwrap().starts_with("needs the operations"));
    }

    #[test]
    fn the_guarantee_of_measured_builds_comes_out() {
        // N = 100, C = 10, R = 1384, K = 8, kappa = 14: C (R + 1) = 13,850 has 14 bits, b = 52,
        // sqrt(24 * 52 * 100) = 353.27, 353 + 32 + 42 + 6 = 433, the tabulated worst case.
        assert_eq!(ub_params(100, 10, &IdMap { ids: 1384, square_layers: 8, fold_layers: 14 }), 433);
        // N = 1000: R = 60,217, K = 10, kappa = 12: 602,180 has 20 bits, b = 70, sqrt(1,680,000) = 1296.1,
        // 1296 + 40 + 36 + 6 = 1378.
        assert_eq!(ub_params(1000, 10, &IdMap { ids: 60_217, square_layers: 10, fold_layers: 12 }), 1378);
    }

    #[test]
    fn the_unconditional_guarantee_comes_out_by_hand() {
        // N = 100, C = 10, omega = 50, T = 8: U = 20,008 (15 bits), K = 17, kappa = 15 + 4 + 3 = 22; 10 *
        // 20,009 has 18 bits, b = 64, sqrt(24 * 64 * 100) = 391.9; 391 + 68 + 66 + 6 = 531, and 59 scalars.
        let map = IdMap::sufficient(100, 10, 50, 8);
        assert_eq!(map, IdMap { ids: 20_008, square_layers: 17, fold_layers: 22 });
        assert_eq!(ub_params(100, 10, &map), 531);
        assert_eq!(exact_parameters(100, 10, 50, 8), 590);
    }

    #[test]
    fn a_table_and_a_modulus_of_the_sufficient_size_do_exist() {
        // The 2 single tokens and 4 pairs over 2 tokens, padded to T = 2 with token 2; U = 2 * 36 + 2 = 74, P
        // = 79.
        let contexts = [[0, 2], [1, 2], [0, 0], [0, 1], [1, 0], [1, 1]];
        let (map, modulus) = (IdMap::sufficient(6, 2, 2, 2), 79u64);
        assert_eq!(map.ids, 74);
        let f = |token: u64, u: u64| (token + 2 * u).pow(2) / 4;
        let id = |[a, b]: [u64; 2], [u, v]: [u64; 2]| {
            let x = (f(a, u) + 2 * f(b, v)) % modulus; // read at the last position: its term counts twice
            x.min(modulus - x)
        };
        let distinct = |codes: [u64; 2]| {
            let mut ids = contexts.map(|context| id(context, codes));
            ids.sort_unstable();
            ids.windows(2).all(|pair| pair[0] != pair[1])
        };
        assert!((0..74).any(|u| (0..74).any(|v| u != v && distinct([u, v]))));
    }

    #[test]
    fn the_published_orders_are_square_roots() {
        let required =
            |bound: &'static Bound| bound.evaluate(&of_corpus(stories())).required_parameters.unwrap();
        assert!((required(&NEXT).order_of().unwrap() - 51.352).abs() < 1e-3); // sqrt 2637
        assert!((required(&S2S).order_of().unwrap() - 94.868).abs() < 1e-3); // sqrt 9000
        assert_eq!(required(&NEXT).number(), None);
    }

    #[test]
    fn few_parameters_must_be_long() {
        let bits = |s: &Situation| LB_BITS.evaluate(s).figure.unwrap().value.number().unwrap();
        let mut s = of_corpus(stories());
        assert!((bits(&s) - 25_878.9).abs() < 0.1); // 2637 log2 900
        s.parameters = Some(100);
        assert!((bits(&s) - 258.789).abs() < 1e-3);
    }

    #[test]
    fn a_softmax_shape_is_outside_the_lower_bounds() {
        let why = |bound: &'static Bound, shape| bound.evaluate(&of_shape(shape)).why_not.unwrap();
        assert!(why(&LB_HARDMAX, Shape::default()).contains("hardmax attention"));
        assert!(why(&LB_RELU, Shape::default()).contains("here it is gelu"));
        let relu = Shape { activation: Activation::Relu, ..Shape::default() };
        assert!(why(&LB_RELU, relu).contains("n_ctx must be 1"));
        assert!(LB_RELU.evaluate(&of_shape(Shape { n_ctx: 1, ..relu })).applies());
    }

    proptest! {
        #[test]
        fn the_construction_is_never_below_the_lower_bounds_and_never_shrinks(
            n in 1u64..1 << 40, more in 0u64..1 << 40, labels in 2u64..100_000, omega in 1u64..100_000,
            t in 1u64..10_000,
        ) {
            let k = exact_parameters(n, labels, omega, t);
            prop_assert!(exact_parameters(n + more, labels, omega, t) >= k);
            prop_assert!(u128::from(lb_relu(n)) <= k);
            prop_assert!(u128::from(lb_hardmax(n.into(), n, t)) <= k);
        }

        #[test]
        fn a_budget_of_what_n_contexts_take_holds_n_and_no_more_than_it_pays_for(n in 1u64..1_000_000) {
            let k = exact_parameters(n, 50, 50, 8);
            let parameters = Some(u64::try_from(k).unwrap());
            let s = Situation { parameters, d_vocab: Some(50), n_ctx: Some(8), ..Situation::default() };
            let held = u64::try_from(EXACT.evaluate(&s).contexts.unwrap().count().unwrap()).unwrap();
            prop_assert!(held >= n && exact_parameters(held + 1, 50, 50, 8) > k);
            prop_assert!(lb_relu_contexts(lb_relu(n).into()) >= n.into());
        }

        #[test]
        fn formulas_take_any_number(a in any_size(), b in any_size(), c in any_size(), d in any_size()) {
            exact_parameters(a, b, c, d);
            lb_ops(a, b);
            prop_assert!(lb_relu(a) <= a);
            prop_assert!(lb_hardmax(a.into(), b, c) <= a);
        }
    }
}
