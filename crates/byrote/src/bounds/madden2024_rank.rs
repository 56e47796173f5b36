//! The rank of the hidden features psi(a b^T): how many contexts m neurons can distinguish.
//!
//! Theorems 4 to 7 of madden2024 rest on a rank. Let a in R^m be generic weights, let b in R^n hold one mixed value
//! per context, and apply psi to every entry of a b^T. Column j is a function of a, and n columns are linearly
//! independent exactly when any n targets can be met.
//!
//! * psi a polynomial with exponents K: rank = min(m, rank B) and Kruskal rank = min(m, krank B), where B =
//!   [b_j^k] has a row for each k in K (E1). The monomials a^k are independent, so a set of columns spans as
//!   many dimensions as its columns of B, and m generic points reveal min(m, that many).
//! * psi analytic at 0 and not a polynomial there: both are min(m, n) if the |b_j| are distinct and not 0 (E2).
//!
//! In words: the feature matrix has as much rank as the powers of b that the activation uses, up to its size.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | psi, K | psi, K | activation, exponents of its Taylor series at 0 |
//! | a, b | a, b | weights, mixed values |
//! | m, n | m, n | neurons, contexts |
//!
//! Hypotheses. a generic: assumed, true of almost every draw. Distinct |b_j|: checked by [`analytic`]; the row
//! rests on E3, by which the mixers produce them for almost every choice of weights. The activation is analytic and
//! not a polynomial (checked).
//!
//! Changed: the paper states min(m, n, |K|) and asks only for distinct b_j, see [`published`]. That is right if all
//! b_j have one sign, and for consecutive exponents whatever the signs (the first rows of B are then a Vandermonde
//! matrix, even though other minors may vanish); it is false in general. Ranks of integer matrices are computed
//! exactly, by modular arithmetic.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 2 and 3.

use super::madden2024;
use super::row::{Bound, BoundKind, Findings, Measured, MemorizationTask, Order};
use super::situation::Situation;
use crate::bibliography::MADDEN2024;
use crate::num::modular::{power, rank_over_rationals};

/// The row of a shape and a corpus.
pub static RANK: Bound = Bound {
    key: "madden2024-rank",
    name: "rank of the hidden features",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "rank psi(a b^T) = min(m, n)",
    statement: "Almost every choice of the weights before the output gives features of this rank; the output alone \
                can then give that many contexts any distributions.",
    needs: "a corpus and a shape with a hidden layer",
    paper: &MADDEN2024,
    place: "Theorem 3 with E2, E3",
    judge: |s: &Situation| {
        let Some(shape) = &s.shape else { return Ok(Findings::default()) };
        s.one_layer()?;
        if !shape.has_hidden_layer() {
            return Err("the shape has no hidden layer (d_mlp is 0)".into());
        }
        madden2024::analytic(Some(shape))?;
        Ok(Findings {
            shape_parameters: s.shape_parameters(),
            figure: s.contexts().map(|n| Measured {
                name: "rank of the features",
                side: None,
                unit: "",
                quantity: n.min(shape.d_mlp).into(),
            }),
            ..Findings::default()
        })
    },
};

/// The rank and the Kruskal rank of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// Dimension of the span of the columns.
    pub rank: usize,
    /// The largest r for which every r columns are independent.
    pub kruskal: usize,
}

/// The most columns for which the Kruskal rank is computed, since every subset of columns is examined.
pub const MOST_COLUMNS: usize = 16;

/// The ranks of psi(a b^T) for generic a in R^m and a polynomial psi with these exponents; `None` for more than
/// [`MOST_COLUMNS`] columns.
pub fn polynomial(m: usize, exponents: &[u32], b: &[i64]) -> Option<Ranks> {
    if b.len() > MOST_COLUMNS {
        return None;
    }
    let columns = |subset: u32| (0..b.len()).filter(move |j| subset >> j & 1 == 1).map(|j| b[j]);
    let rank_of = |subset: u32| rank_of_powers(exponents, &columns(subset).collect::<Vec<_>>());
    let all = (1u32 << b.len()) - 1;
    let rank = rank_of(all);
    let dependent = (1..=all).filter(|&subset| rank_of(subset) < subset.count_ones() as usize);
    let kruskal = dependent.map(|subset| subset.count_ones() as usize - 1).min().unwrap_or(b.len());
    Some(Ranks { rank: rank.min(m), kruskal: kruskal.min(m) })
}

/// The rank, and Kruskal rank, of psi(a b^T) for generic a in R^m near 0 and psi analytic at 0 and not a polynomial
/// there; `None` where an entry of b is 0 or two have the same absolute value, so that nothing is proved.
pub fn analytic(m: usize, b: &[f64]) -> Option<usize> {
    let mut sizes: Vec<f64> = b.iter().map(|b| b.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let distinct = sizes.windows(2).all(|pair| pair[0] < pair[1]) && sizes.first().is_none_or(|&b| b > 0.0);
    distinct.then(|| m.min(b.len()))
}

/// What the paper states for both ranks of a polynomial with `exponents` exponents.
pub fn published(m: usize, n: usize, exponents: usize) -> usize {
    m.min(n).min(exponents)
}

/// The rank of [b_j^k], one row per exponent.
fn rank_of_powers(exponents: &[u32], b: &[i64]) -> usize {
    let bits_of = |b: &i64| u64::from(u64::BITS - b.unsigned_abs().leading_zeros());
    let bits =
        b.iter().map(bits_of).max().unwrap_or(0) * u64::from(exponents.iter().copied().max().unwrap_or(0));
    let most = exponents.len().min(b.len());
    let powers = |prime: u64| {
        let reduced = |b: i64| b.rem_euclid(prime as i64) as u64;
        let row = |&k: &u32| b.iter().map(|&b| power(reduced(b), k.into(), prime)).collect();
        exponents.iter().map(row).collect()
    };
    rank_over_rationals(most, bits, u64::MAX, powers).lower
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::{Activation, Shape};
    use proptest::prelude::*;

    fn ranks(m: usize, exponents: &[u32], b: &[i64]) -> (usize, usize, usize) {
        let Ranks { rank, kruskal } = polynomial(m, exponents, b).unwrap();
        (rank, kruskal, published(m, b.len(), exponents.len()))
    }

    #[test]
    fn mixed_signs_lose_rank_that_the_paper_claims() {
        assert_eq!(ranks(2, &[0, 2], &[1, -1]), (1, 1, 2)); // equal columns 1 + a^2
        assert_eq!(ranks(3, &[0, 1, 3], &[1, 2, -3]), (2, 2, 3)); // 1 + 2 - 3 = 0
        assert_eq!(ranks(4, &[0, 1, 3], &[1, 2, -3, 5]), (3, 2, 3));
        assert_eq!(ranks(4, &[1, 3, 5], &[1, -1, 2, 3]), (3, 1, 3)); // odd: opposite columns
    }

    #[test]
    fn one_sign_has_the_published_ranks() {
        assert_eq!(ranks(6, &[0, 1, 2, 5], &[1, 2, 3, 4, 5, 7]), (4, 4, 4));
        assert_eq!(ranks(3, &[0, 1, 2, 5], &[-1, -2, -3, -4, -5, -7]), (3, 3, 3)); // three neurons
        assert_eq!(ranks(9, &[1, 2], &[0, 1, 2]), (2, 0, 2)); // a zero is a zero column
        assert_eq!(polynomial(1, &[1], &[1; MOST_COLUMNS + 1]), None);
    }

    #[test]
    fn an_analytic_activation_needs_distinct_absolute_values() {
        assert_eq!(analytic(6, &[1.0, -2.0, 3.0]), Some(3));
        assert_eq!(analytic(2, &[1.0, -2.0, 3.0]), Some(2));
        // tanh is odd, so these columns are opposite; GELU has rank 3 on the second.
        assert_eq!((analytic(2, &[1.0, -1.0]), analytic(4, &[1.0, -1.0, 2.0, -2.0])), (None, None));
        assert_eq!((analytic(2, &[0.0, 1.0]), analytic(2, &[f64::NAN, f64::NAN])), (None, None));
    }

    #[test]
    fn a_minor_may_vanish_for_consecutive_exponents_although_the_rank_is_full() {
        // K = {0, 1, 2}, b = (1, -1): rows 0 and 2 of B are equal, rows 0 and 1 are independent.
        assert_eq!((rank_of_powers(&[0, 2], &[1, -1]), rank_of_powers(&[0, 1], &[1, -1])), (1, 2));
        assert_eq!(ranks(2, &[0, 1, 2], &[1, -1]), (2, 2, 2));
    }

    #[test]
    fn powers_divisible_by_the_first_prime_count_too() {
        assert_eq!(rank_of_powers(&[1], &[(1i64 << 61) - 1]), 1);
    }

    #[test]
    fn the_row_gives_the_smaller_of_neurons_and_contexts() {
        let shape = |d_mlp| Shape { d_vocab: 1000, d_mlp, ..Shape::default() };
        let row = |shape| RANK.evaluate(&Situation { shape: Some(shape), ..of_corpus(stories()) });
        let rank = |d_mlp| row(shape(d_mlp)).figure.unwrap().value.count();
        assert_eq!((rank(512), rank(5000)), (Some(512), Some(2637)));
        assert!(row(Shape { activation: Activation::Relu, ..shape(9) }).why_not.unwrap().contains("relu"));
        assert!(row(shape(0)).why_not.unwrap().contains("no hidden layer"));
    }

    proptest! {
        #[test]
        fn consecutive_exponents_have_full_rank_whatever_the_signs(
            b in prop::collection::btree_set(-1000i64..1000, 1..7), m in 1usize..9, exponents in 1u32..9,
        ) {
            let b: Vec<_> = b.into_iter().collect();
            let exponents: Vec<_> = (0..exponents).collect();
            let (rank, kruskal, published) = ranks(m, &exponents, &b);
            // Any r <= |K| columns contain an r x r Vandermonde matrix, in the rows of the first r exponents.
            prop_assert_eq!((rank, kruskal), (published, published));
        }
    }
}
