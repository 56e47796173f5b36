//! The counterexamples of docs/errata.md, and properties.

use super::*;
use crate::model::Activation;
use crate::num::Stream;
use crate::observe::Silent;
use proptest::prelude::*;

fn ranks(psi: &ScalarFunction, a: &[f64], b: &[f64]) -> (usize, usize) {
    let found = certify(psi, a, b, &Silent).unwrap();
    let value = |i: RankRange| i.value().unwrap_or_else(|| panic!("{psi} {b:?}: {found:?}"));
    (value(found.rank), value(found.kruskal))
}

fn polynomial(exponents: &[usize]) -> ScalarFunction {
    let mut c = vec![0.0; exponents.iter().max().unwrap() + 1];
    exponents.iter().for_each(|&k| c[k] = 1.0);
    ScalarFunction::Polynomial(c)
}

fn named(name: &str) -> ScalarFunction {
    name.parse().unwrap()
}

fn draw(m: usize, index: u64) -> Vec<f64> {
    let mut stream = Stream::new(5, "rank-test", index);
    (0..m).map(|_| stream.normal()).collect()
}

#[test]
fn e1_mixed_signs_have_the_corrected_ranks_not_the_printed_ones() {
    for (exponents, b, rank, kruskal, printed) in [
        (&[0, 2][..], &[1.0, -1.0][..], 1, 1, 2),
        (&[0, 1, 3], &[1.0, 2.0, -3.0], 2, 2, 3),
        (&[0, 1, 3], &[1.0, 2.0, -3.0, 5.0], 3, 2, 3),
        (&[1, 3, 5], &[1.0, -1.0, 2.0, 3.0], 3, 1, 3),
    ] {
        let psi = polynomial(exponents);
        let found = certify(&psi, &draw(6, 1), b, &Silent).unwrap();
        assert_eq!((found.rank.value(), found.kruskal.value()), (Some(rank), Some(kruskal)), "{psi}");
        let RankTheorems { corrected, published } = found.theorems;
        assert_eq!(corrected.rank, Some(RankRange::exactly(rank)), "{psi}");
        assert_eq!(corrected.kruskal, Some(RankRange::exactly(kruskal)), "{psi}");
        assert_eq!(published.rank, Some(RankRange::exactly(printed)), "{psi}");
    }
}

#[test]
fn e2_opposite_values_lose_rank_that_the_paper_prints() {
    for (name, b, rank, kruskal) in [
        ("tanh", &[1.0, -1.0][..], 1, 1),
        ("cos", &[1.0, -1.0], 1, 1),
        ("gelu", &[1.0, -1.0, 2.0, -2.0], 3, 3),
        ("logistic", &[1.0, -1.0, 2.0, -2.0], 3, 3),
        ("logistic", &[1.0, -1.0, 0.0], 2, 2),
        ("gelu", &[1.0, -1.0], 2, 2),
        ("gelu", &[1.0, 0.0], 1, 0),
        ("arctan", &[0.5, -1.5, 2.5, -0.5], 3, 1),
    ] {
        let psi = named(name);
        let found = certify(&psi, &draw(b.len() + 1, 2), b, &Silent).unwrap();
        assert_eq!(
            (found.rank.value(), found.kruskal.value()),
            (Some(rank), Some(kruskal)),
            "{name} {b:?}: {found:?}"
        );
        assert_eq!(found.theorems.corrected.rank, None, "nothing is said where |b| agree or vanish");
        let zero = b.contains(&0.0);
        let printed = (!zero).then_some(RankRange::exactly(b.len()));
        assert_eq!(found.theorems.published.rank, printed, "{name} {b:?}");
    }
    // exp has both ranks in full, as its series has every exponent.
    let found = certify(&ScalarFunction::Exp, &[0.5, -2.0], &[1.0, -1.0], &Silent).unwrap();
    assert_eq!((found.rank.value(), found.theorems.corrected.rank), (Some(2), Some(RankRange::exactly(2))));
}

#[test]
fn e3_distinct_values_are_not_enough_for_a_mixer() {
    // Two tokens, contexts (1) and (2), embeddings 1 and -1: distinct, not 0, and of one size.
    assert_eq!(ranks(&named("tanh"), &[0.3, 0.7], &[1.0, -1.0]), (1, 1));
    assert_eq!(ranks(&named("tanh"), &[0.3, 0.7], &[1.0, -0.5]), (2, 2));
}

#[test]
fn total_positivity_needs_no_computation() {
    let psi = polynomial(&[0, 1, 2, 5]);
    let b = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0];
    let found = certify(&psi, &[0.5, 1.0, 1.5, 2.0, 2.5, 3.0], &b, &Silent).unwrap();
    assert!(found.rank_by.contains("total positivity"));
    assert_eq!((found.rank.value(), found.kruskal.value()), (Some(4), Some(4)));
    // A negative coefficient: the same ranks, by residues.
    let psi = ScalarFunction::Polynomial(vec![1.0, -1.0, 1.0, 0.0, 0.0, 1.0]);
    let found = certify(&psi, &[0.5, 1.0, 1.5, 2.0, 2.5, 3.0], &b, &Silent).unwrap();
    assert!(found.rank_by.contains("residues"));
    assert_eq!((found.rank.value(), found.kruskal.value()), (Some(4), Some(4)));
}

#[test]
fn twenty_four_contexts_are_certified_where_f64_sees_eight_at_most() {
    let n = 24;
    let (a, b) = (draw(n, 3), draw(n, 4));
    for name in ["tanh", "gelu", "arctan"] {
        let found = certify(&named(name), &a, &b, &Silent).unwrap();
        assert_eq!((found.rank.value(), found.kruskal.value()), (Some(n), Some(n)), "{name}: {found:?}");
        assert!(found.bits.unwrap() > 64, "{name}: {found:?}");
    }
    let small = certify(&named("tanh"), &draw(3, 5), &draw(3, 6), &Silent).unwrap();
    assert_eq!((small.rank.value(), small.bits), (Some(3), Some(64)));
}

#[test]
fn special_weights_lose_rank_and_it_is_seen() {
    // a repeats itself, or is opposite: rows coincide.
    assert_eq!(ranks(&named("tanh"), &[0.5, 0.5, -0.5], &[1.0, 2.0, 3.0]), (1, 1));
    assert_eq!(ranks(&polynomial(&[0, 1, 2]), &[1.0, 2.0, 1.0], &[1.0, -2.0, 3.0]), (2, 2));
    // psi = x + x^2, b = (1, 2): the determinant is 2 a1 a2 (a2 - a1), and 0 for a1 = 0.
    assert_eq!(ranks(&polynomial(&[1, 2]), &[0.0, 3.0], &[1.0, 2.0]), (1, 1));
    assert_eq!(ranks(&polynomial(&[1, 2]), &[1.0, 3.0], &[1.0, 2.0]), (2, 2));
    // That does not refute a theorem on generic weights: others reach more, unless b is the cause.
    let relu = ScalarFunction::Activation(Activation::Relu);
    for (psi, a, b, any) in [
        (named("tanh"), [0.5, 0.5], [1.0, 2.0], 2),
        (named("tanh"), [0.5, 0.7], [1.0, -1.0], 1),
        (named("exp"), [0.5, 0.5], [1.0, -1.0], 2),
        (polynomial(&[0, 1]), [-1.0, -1.0], [1.0, 2.0], 2),
        (polynomial(&[0, 2]), [-1.0, 2.0], [1.0, -1.0], 1),
        (relu.clone(), [1.0, 2.0], [1.0, -1.0], 2),
        (relu, [1.0, -2.0], [1.0, 2.0], 1),
    ] {
        assert_eq!(certify(&psi, &a, &b, &Silent).unwrap().rank_of_any_weights, any, "{psi} {a:?} {b:?}");
    }
}

#[test]
fn relu_has_rank_two_at_most() {
    let relu = ScalarFunction::Activation(Activation::Relu);
    assert_eq!(ranks(&relu, &[1.0, -1.0, 2.0], &[1.0, 2.0, -0.5]), (2, 1));
    assert_eq!(ranks(&relu, &[1.0, 3.0], &[1.0, 2.0]), (1, 1));
    assert_eq!(ranks(&relu, &[1.0, -3.0], &[-1.0, 2.0]), (2, 2));
}

#[test]
fn fewer_weights_than_contexts_give_as_many_as_there_are() {
    let found = certify(&named("tanh"), &draw(3, 7), &draw(7, 8), &Silent).unwrap();
    assert_eq!((found.rank.value(), found.kruskal.value()), (Some(3), Some(3)), "{found:?}");
    assert_eq!(ranks(&polynomial(&[0, 1, 2, 3, 4]), &draw(3, 7), &draw(7, 8)), (3, 3));
}

#[test]
fn where_sets_are_too_many_pairs_are_still_told_apart() {
    let b = draw(700, 10);
    for psi in [named("tanh"), named("gelu"), polynomial(&[0, 1, 3])] {
        let found = certify(&psi, &draw(3, 11), &b, &Silent).unwrap();
        assert_eq!(found.kruskal, RankRange { lower: 2, upper: 3 }, "{psi}");
        // Two parallel columns among as many: never two.
        let mut parallel = b.clone();
        parallel[699] = parallel[0];
        let found = certify(&psi, &draw(3, 11), &parallel, &Silent).unwrap();
        assert_eq!(found.kruskal.lower, 1, "{psi}");
    }
    // Opposite columns of an odd polynomial.
    let mut opposite = b;
    opposite[699] = -opposite[0];
    let found = certify(&polynomial(&[1, 3, 5]), &draw(3, 11), &opposite, &Silent).unwrap();
    assert_eq!(found.kruskal.lower, 1);
}

#[test]
fn rounded_entries_would_have_full_rank() {
    // 1 + x^2 at twelve weights and six contexts: rank 2, whatever f64 makes of the entries.
    let b: Vec<f64> = (1..=6).map(|i| f64::from(i) / 7.0).collect();
    let (rank, _) = ranks(&polynomial(&[0, 2]), &draw(12, 9), &b);
    assert_eq!(rank, 2);
}

#[test]
fn impossible_input_is_refused() {
    let tanh = named("tanh");
    for (psi, a, b, says) in [
        (&tanh, vec![], vec![1.0], "a"),
        (&tanh, vec![1.0], vec![f64::NAN], "b"),
        (&tanh, vec![1e6], vec![1.0], "4096"),
        (&ScalarFunction::Polynomial(vec![]), vec![1.0], vec![1.0], "polynomial"),
        (&ScalarFunction::Polynomial(vec![f64::INFINITY]), vec![1.0], vec![1.0], "polynomial"),
    ] {
        let error = certify(psi, &a, &b, &Silent).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn generic_weights_have_the_corrected_ranks(
        exponents in prop::collection::btree_set(0usize..8, 1..5),
        b in prop::collection::btree_set(-9i64..10, 1..6),
        m in 1usize..6,
        seed in 0u64..1000,
    ) {
        let exponents: Vec<usize> = exponents.into_iter().collect();
        let b: Vec<f64> = b.into_iter().map(|b| b as f64 / 4.0).collect();
        let found = certify(&polynomial(&exponents), &draw(m, seed), &b, &Silent).unwrap();
        prop_assert_eq!(Some(found.rank), found.theorems.corrected.rank);
        prop_assert_eq!(Some(found.kruskal), found.theorems.corrected.kruskal);
        // The older function of the bounds, for whole numbers, agrees.
        let whole: Vec<i64> = b.iter().map(|b| (b * 4.0) as i64).collect();
        let small: Vec<u32> = exponents.iter().map(|&k| k as u32).collect();
        let known = crate::bounds::madden2024_rank::polynomial(m, &small, &whole).unwrap();
        prop_assert_eq!((found.rank.value(), found.kruskal.value()), (Some(known.rank), Some(known.kruskal)));
    }

    #[test]
    fn distinct_sizes_give_the_full_rank_of_every_function(
        b in prop::collection::btree_set(1u32..40, 1..5), signs in any::<u8>(), m in 1usize..6,
        which in 0usize..7, seed in 0u64..1000,
    ) {
        let signed = |(i, b): (usize, u32)| f64::from(b) / 16.0 * if signs >> i & 1 == 1 { -1.0 } else { 1.0 };
        let b: Vec<f64> = b.into_iter().enumerate().map(signed).collect();
        let psi = named(["tanh", "gelu", "logistic", "arctan", "erf", "cos", "gelu-tanh"][which]);
        let found = certify(&psi, &draw(m, seed), &b, &Silent).unwrap();
        prop_assert_eq!(found.rank.value(), Some(m.min(b.len())));
        prop_assert_eq!(found.theorems.corrected.rank, Some(found.rank));
        prop_assert!(found.kruskal.upper <= found.rank.upper && found.kruskal.lower <= found.kruskal.upper);
    }
}
