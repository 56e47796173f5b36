//! Bits: what is stored must fit into the weights.
//!
//! Necessary: k parameters of b bits have at most 2^(k b) settings, there are C^n ways to give n contexts labels
//! from C, and different labelings need different settings; so k b >= n log2 C. In words: to be able to hold every
//! labeling, a model needs as many bits as a labeling has.
//!
//! | here | meaning |
//! |---|---|
//! | k, b | parameters, bits of each (`bits_per_parameter`) |
//! | n, C | contexts, labels: distinct next tokens of the corpus, or any token where only a model is known |
//!
//! Hypotheses: labels are arbitrary, and everything that may depend on them is counted among the parameters
//! (assumed: an architecture chosen after seeing the labels is information as well). A real corpus is compressible
//! and may need far less. C >= 2 (checked). The constant is explicit; the roundings of its evaluation are absorbed
//! outwards, so that the row never claims more than the inequality.
//!
//! The rules of thumb of morris2025 and allenzhu2024 are the same inequality with a measured number of bits per
//! parameter, so they share these functions.
//!
//! Reference: C. E. Shannon, "A Mathematical Theory of Communication", Bell System Technical Journal 27
//! (1948); the argument is a count.

use super::row::{Bound, BoundKind, Findings, Judgement, MemorizationTask, Order};
use super::situation::Situation;
use crate::bibliography::INFORMATION;
use crate::units::{AtLeast, AtMost};

/// The information limit.
pub static LIMIT: Bound = Bound {
    key: "information",
    name: "bits of the labels, b bits per parameter",
    task: MemorizationTask::Association,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "n log2 C <= k b",
    statement: "It takes n log2 C bits to distinguish all labelings of n contexts with C labels, and k parameters of \
                b bits have at most k b.",
    needs: "a corpus, or a shape, or a parameter count with a vocabulary",
    paper: &INFORMATION,
    place: "counting",
    judge: |s| match s.bits_per_parameter {
        0 => Err("a parameter of 0 bits holds nothing".into()),
        bits => judge_bits(s, bits.into(), format!("at {bits} bits per parameter")),
    },
};

/// n log2 C: the bits of arbitrary labels.
pub fn label_bits(n: u128, labels: u64) -> f64 {
    n as f64 * (labels.max(1) as f64).log2()
}

/// A lower bound on n log2 C: the number itself if C is a power of two, and otherwise a little less than what is computed.
pub fn label_bits_at_least(n: u128, labels: u64) -> AtLeast {
    let bits = label_bits(n, labels);
    // Both factors and their product are whole numbers that a double holds.
    let exact = labels.max(1).is_power_of_two() && bits < (1u64 << f64::MANTISSA_DIGITS) as f64;
    if exact { AtLeast(bits) } else { AtLeast::computed(bits) }
}

/// The fewest parameters of `bits` each that can hold every labeling of `n` contexts, never overstated.
pub fn min_parameters(n: u128, labels: u64, bits: f64) -> u128 {
    AtLeast::computed(label_bits(n, labels) / bits).0.ceil() as u128
}

/// The most contexts whose every labeling `k` parameters of `bits` each can hold, never understated; `None` for a
/// single label.
pub fn max_contexts(k: u128, labels: u64, bits: f64) -> Option<u128> {
    (labels > 1).then(|| AtMost::computed(k as f64 * bits / (labels as f64).log2()).0.floor() as u128)
}

/// What `bits` per parameter mean for the model and the corpus.
pub(super) fn judge_bits(s: &Situation, bits: f64, note: String) -> Judgement {
    if matches!(s.labels(), Some(0 | 1)) {
        return Err("a single label needs no bits".into());
    }
    Ok(Findings {
        contexts: s
            .parameter_count()
            .zip(s.labels())
            .and_then(|(k, c)| max_contexts(k, c, bits))
            .map(Into::into),
        shape_parameters: s.shape_parameters(),
        required_parameters: s
            .corpus
            .as_ref()
            .map(|c| min_parameters(c.contexts.into(), c.labels, bits).into()),
        note: Some(note),
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_thousand_labels_of_1024_are_ten_thousand_bits() {
        assert_eq!(label_bits(1000, 1024), 10_000.0);
        assert_eq!(min_parameters(1000, 1024, 32.0), 313); // 312.5
        assert_eq!(max_contexts(313, 1024, 32.0), Some(1001)); // 10,016 / 10
        assert_eq!(max_contexts(313, 1, 32.0), None);
    }

    #[test]
    fn bits_of_labels_are_exact_for_powers_of_two_and_never_overstated() {
        assert_eq!(label_bits_at_least(100, 2), AtLeast(100.0));
        assert_eq!(label_bits_at_least(1000, 1024), AtLeast(10_000.0));
        assert_eq!(label_bits_at_least(7, 1), AtLeast(0.0));
        // 10,000 log2 10 = 33,219.280948...
        let bits = label_bits_at_least(10_000, 10);
        assert!(bits.0 < label_bits(10_000, 10));
        assert_eq!(format!("{bits:.4}"), "33219.2809");
    }

    #[test]
    fn the_row_counts_with_the_labels_of_the_corpus() {
        // 2637 log2 900 = 2637 * 9.813781 = 25,878.94 bits: 809 parameters of 32 bits.
        let s = Situation { parameters: Some(809), ..of_corpus(stories()) };
        let row = LIMIT.evaluate(&s);
        assert_eq!(row.required_parameters.unwrap().count(), Some(809));
        assert_eq!(row.contexts.unwrap().count(), Some(2637)); // 809 * 32 / 9.813781 = 2637.92
    }

    #[test]
    fn one_label_or_no_bits_give_no_bound() {
        let mut s = of_corpus(bigrams(100));
        s.bits_per_parameter = 0;
        assert!(LIMIT.evaluate(&s).why_not.unwrap().contains("0 bits"));
        let mut one = bigrams(100);
        one.labels = 1;
        assert!(LIMIT.evaluate(&of_corpus(one)).why_not.unwrap().contains("single label"));
    }

    proptest! {
        #[test]
        fn the_two_readings_agree(n in 1u128..1_000_000, labels in 2u64..100_000, bits in 1u32..64) {
            let k = min_parameters(n, labels, bits.into());
            prop_assert!(max_contexts(k, labels, bits.into()).unwrap() + 1 >= n);
            prop_assert!(max_contexts(k - 1, labels, bits.into()).unwrap() <= n);
        }
    }
}
