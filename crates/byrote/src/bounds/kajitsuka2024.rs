//! The optimal order: about sqrt n parameters label n contexts, and every choice of labels takes that many.
//!
//! Published, up to logarithms: O~(sqrt n) parameters suffice, and are necessary, to give n contexts one
//! label each; O~(sqrt(T N_seq)) to label every position, necessary at least with hardmax attention. In
//! words: the labels go into the bits of a few very long weights; identifying a context is cheap, and fetching its
//! label is what costs.
//!
//! Ours, with every constant, the row `-exact`, sufficient. With l = bl(C (R + 1)) the network has at most
//!
//! ```text
//! nonzero  2 sqrt(6 b n) + 4K + 3 kappa + 6,         b = 3 (1 + l) + 7     entries that are not 0, as the paper counts
//! dense    2 sqrt(17 b n) + 10 (K + kappa) + 53,     b = 10 (1 + l) + 30   all entries, as the other rows count
//! ```
//!
//! parameters; on top come omega + 1 + T scalars of the embedding and a table of C labels. bl is the bit length, R the number
//! of possible ids, K and kappa the layers that square and reduce the id. See [`IdMap`] for the sizes that always suffice. The
//! row gives the dense count, since madden2024 and dana2024 count that way, and the other one in its note.
//!
//! Where the dense constants come from: the network has three channels, so a layer of one neuron has 2 * 3 + 1 + 3 = 10
//! entries and one of two neurons 17, attention 4 * 9 = 36, the output 4. A block of the lookup is a layer of two neurons; a
//! word of L bits takes L folds, one more neuron and two more layers, at most 10 L + 30; the last word takes 10, a bias alone
//! 3, and 36 + 4 + 10 + 3 = 53. Blocks of isqrt(17 n / b) + 1 facts balance the two.
//!
//! The lower bounds with their constants are in [`kajitsuka2024_lower`](super::kajitsuka2024_lower).
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n contexts | N input sequences | labelled inputs, one label each |
//! | N_seq, T | N, n | sequences labelled at every position, their length |
//!
//! Hypotheses, assumed: exact arithmetic, and depth of the order of the number of parameters (so a one-layer shape
//! gets no number, while a number of parameters does). A context with several next tokens is labelled with its most
//! frequent one.
//!
//! Constants and logarithms are hidden in `-next`, `-next-lb` and `-s2s` only. Changed: only the abstract of the
//! paper was available, so the construction is ours.
//!
//! Reference: T. Kajitsuka, I. Sato, "On the Optimal Memorization Capacity of Transformers", arXiv:2409.17677
//! (ICLR 2025), abstract; version not marked.

use super::monotone::affordable;
use super::row::{Bound, BoundKind, Findings, MemorizationTask, Order, POSITIONS, grouped};
use crate::bibliography::KAJITSUKA2024;
use crate::model::{Counting, ParameterCount};

pub(super) const OURS: &str = "construction and constants ours; order as in the abstract";

/// Next token, the published order.
pub static NEXT: Bound = Bound {
    key: "kajitsuka2024-next",
    name: "square root of the contexts",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = O~(sqrt n)",
    statement: "About sqrt n parameters of about sqrt n bits give n contexts one label each.",
    needs: "a corpus, or a parameter count",
    paper: &KAJITSUKA2024,
    place: "abstract",
    judge: |s| {
        Ok(Findings {
            contexts: s.parameters.map(|k| (k as f64).powi(2).into()),
            required_parameters: s.contexts().map(|n| (n as f64).sqrt().into()),
            ..Findings::default()
        })
    },
};

/// Next token, the other side of the published order.
pub static NEXT_LB: Bound = Bound {
    key: "kajitsuka2024-next-lb",
    name: "square root of the contexts, necessary",
    task: MemorizationTask::Association,
    kind: BoundKind::Necessary,
    order: Order::UpToLogs,
    expression: "k = Omega~(sqrt n)",
    statement: "Up to logarithms, giving n contexts every possible choice of labels takes at least sqrt n \
                parameters.",
    needs: "a corpus, or a parameter count",
    paper: &KAJITSUKA2024,
    place: "abstract",
    judge: |s| (NEXT.judge)(s),
};

/// Sequence to sequence, the published order.
pub static S2S: Bound = Bound {
    key: "kajitsuka2024-s2s",
    name: "square root of the positions",
    task: MemorizationTask::SequenceToSequence,
    kind: BoundKind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = O~(sqrt(T N_seq))",
    statement: "About sqrt(T N_seq) parameters label every position of N_seq sequences; with hardmax attention \
                every possible choice of labels also takes that many.",
    needs: "a corpus, or a parameter count",
    paper: &KAJITSUKA2024,
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
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "k = 2 sqrt(17 b n) + 10 (K + kappa) + 53 + omega + 1 + T + C, b = 10 bl(C (R + 1)) + 40",
    statement: "A deep transformer of width 3 in exact arithmetic, with very long weights, gives any n contexts their \
                labels with this many parameters, embedding and label table included; a search finds far smaller ones.",
    needs: "a corpus, or a parameter count with a vocabulary and a context length",
    paper: &KAJITSUKA2024,
    place: OURS,
    judge: |s| {
        let known = s.parameters.zip(s.labels()).zip(s.vocabulary().zip(s.longest_context()));
        let for_corpus = s
            .corpus
            .as_ref()
            .map(|c| exact_parameters(c.contexts.into(), c.labels, c.d_vocab, c.longest_context()));
        Ok(Findings {
            contexts: known
                .and_then(|((k, c), (omega, t))| {
                    affordable(k.into(), |n| exact_parameters(n, c, omega, t).total(Counting::Dense))
                })
                .map(Into::into),
            required_parameters: for_corpus.map(|count| count.total(Counting::Dense).into()),
            note: Some(match for_corpus {
                Some(count) => format!("{EXACT_ONLY}; {}", nonzero_note(&count)),
                None => EXACT_ONLY.into(),
            }),
            ..Findings::default()
        })
    },
};

/// What to know before using the construction.
pub(super) const EXACT_ONLY: &str = "needs exact arithmetic: deep, with weights of very many bits";

/// The other count, and why the builder's guarantee is another number: it knows the ids of its contexts.
pub(super) fn nonzero_note(count: &ParameterCount) -> String {
    format!(
        "{} parameters if only non-zero weights count; for any data (the guarantee of `build` is for the ids it finds)",
        grouped(count.total(Counting::Nonzero))
    )
}

/// Sizes of the contextual map at which some table and modulus are certain to give n contexts distinct ids.
///
/// Contexts are padded to T tokens with one extra token, so that the attention's average is a sum over T.
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
    /// R: possible ids, at most; where that leaves 128 bits, the largest number of 128 bits.
    pub ids: u128,
    /// The bits of R, or one or two more where R leaves 128 bits.
    pub id_bits: u32,
    /// K: layers that square.
    pub square_layers: u32,
    /// kappa: layers that fold.
    pub fold_layers: u32,
}

impl IdMap {
    /// The sizes for `n` contexts of up to `length` tokens out of `omega`, with `labels` labels.
    pub fn sufficient(n: u128, labels: u64, omega: u64, length: u64) -> Self {
        let [labels, omega, length] = [labels, omega, length].map(u128::from);
        let by_pairs = n.checked_mul(n).and_then(|pairs| pairs.checked_mul(2)?.checked_add(length));
        let (ids, id_bits) = match by_pairs {
            Some(by_pairs) => {
                let ids = by_pairs.max(omega + 1).max(2 * length + 3).max(labels + 1);
                (ids, bit_length(ids))
            }
            // n >= 2^63, so 2 n^2 exceeds every other term, and 2 n^2 + T is below 2^(2 bl(n) + 2).
            None => (u128::MAX, 2 * bit_length(n) + 2),
        };
        let fold_layers = id_bits + bit_length(length + 1) + 3;
        IdMap { ids, id_bits, square_layers: id_bits + 2, fold_layers }
    }
}

/// The most parameters that the network takes for given sizes, without embedding and label table.
pub fn ub_params(counting: Counting, n: u128, labels: u64, map: &IdMap) -> u128 {
    let labels = u128::from(labels.max(1));
    let bits = match map.ids.checked_add(1).and_then(|ids| labels.checked_mul(ids)) {
        Some(keys) => bit_length(keys),
        None => bit_length(labels) + map.id_bits + 1,
    };
    let (a_block, an_entry, rest) = match counting {
        Counting::Nonzero => (6, 3 * (1 + bits) + 7, 4 * map.square_layers + 3 * map.fold_layers + 6),
        Counting::Dense => (17, 10 * (1 + bits) + 30, 10 * (map.square_layers + map.fold_layers) + 53),
    };
    n.saturating_mul(4 * a_block * u128::from(an_entry)).isqrt() + u128::from(rest)
}

/// Parameters that suffice for any `n` contexts. The embedding has a scalar for each token, the padding and each position.
///
/// Each convention has its own best block size, so the two counts belong to two networks of the same kind.
pub fn exact_parameters(n: u128, labels: u64, omega: u64, length: u64) -> ParameterCount {
    let map = IdMap::sufficient(n, labels, omega, length);
    let network = |counting| ub_params(counting, n, labels, &map);
    ParameterCount {
        nonzero: network(Counting::Nonzero),
        dense: network(Counting::Dense),
        embedding: u128::from(omega) + 1 + u128::from(length),
        label_table: labels.into(),
    }
}

fn bit_length(x: u128) -> u32 {
    u128::BITS - x.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::super::kajitsuka2024_lower::{lb_hardmax, lb_relu};
    use super::super::situation::{Situation, examples::*};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_guarantee_of_measured_builds_comes_out() {
        // N = 100, C = 10, R = 1384, K = 8, kappa = 14: C (R + 1) = 13,850 has 14 bits, b = 52,
        // sqrt(24 * 52 * 100) = 353.27, 353 + 32 + 42 + 6 = 433, the tabulated worst case.
        assert_eq!(
            ub_params(
                Counting::Nonzero,
                100,
                10,
                &IdMap { ids: 1384, id_bits: 11, square_layers: 8, fold_layers: 14 }
            ),
            433
        );
        // N = 1000: R = 60,217, K = 10, kappa = 12: 602,180 has 20 bits, b = 70, sqrt(1,680,000) = 1296.1,
        // 1296 + 40 + 36 + 6 = 1378.
        assert_eq!(
            ub_params(
                Counting::Nonzero,
                1000,
                10,
                &IdMap { ids: 60_217, id_bits: 16, square_layers: 10, fold_layers: 12 }
            ),
            1378
        );
    }

    #[test]
    fn the_unconditional_guarantee_comes_out_by_hand() {
        // N = 100, C = 10, omega = 50, T = 8: U = 20,008 (15 bits), K = 17, kappa = 15 + 4 + 3 = 22; 10 *
        // 20,009 has 18 bits, b = 64, sqrt(24 * 64 * 100) = 391.9; 391 + 68 + 66 + 6 = 531, and 59 scalars.
        let map = IdMap::sufficient(100, 10, 50, 8);
        assert_eq!(map, IdMap { ids: 20_008, id_bits: 15, square_layers: 17, fold_layers: 22 });
        // Dense: b = 10 * 19 + 30 = 220, sqrt(68 * 220 * 100) = 1223.1; 1223 + 10 * 39 + 53 = 1666.
        let count = exact_parameters(100, 10, 50, 8);
        assert_eq!(count, ParameterCount { nonzero: 531, dense: 1666, embedding: 59, label_table: 10 });
        assert_eq!(Counting::ALL.map(|c| count.total(c)), [600, 1735]);
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
        assert_eq!(required(&NEXT_LB), required(&NEXT));
        assert_eq!(required(&NEXT).number(), None);
    }

    proptest! {
        #[test]
        fn the_construction_is_never_below_the_lower_bounds_and_never_shrinks(
            n in 1u128..1 << 90, more in 0u128..1 << 90, labels in 2u64..100_000, omega in 1u64..100_000,
            t in 1u64..10_000,
        ) {
            let count = exact_parameters(n, labels, omega, t);
            for counting in Counting::ALL {
                let k = count.total(counting);
                prop_assert!(exact_parameters(n + more, labels, omega, t).total(counting) >= k);
                prop_assert!(lb_relu(n) <= k);
                prop_assert!(lb_hardmax(n, n, t) <= k);
            }
            prop_assert!(count.nonzero <= count.dense);
        }

        #[test]
        fn a_budget_of_what_n_contexts_take_holds_n_and_no_more_than_it_pays_for(n in 1u128..1 << 90) {
            let cost = |n| exact_parameters(n, 50, 50, 8).total(Counting::Dense);
            let k = cost(n);
            let parameters = Some(u64::try_from(k).unwrap());
            let s = Situation { parameters, d_vocab: Some(50), n_ctx: Some(8), ..Situation::default() };
            let held = EXACT.evaluate(&s).contexts.unwrap().count().unwrap();
            prop_assert!(held >= n && cost(held + 1) > k);
        }

        #[test]
        fn formulas_take_any_number(a in any_size(), b in any_size(), c in any_size(), d in any_size()) {
            prop_assert!(exact_parameters(a.into(), b, c, d).total(Counting::Nonzero) > u128::from(c));
        }
    }
}
