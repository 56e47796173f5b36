//! Depth instead of width: about the square root of the number of labels.
//!
//! * Sequence to sequence, sufficient up to logarithms: O~(d + T + sqrt(T N_seq)) parameters give N_seq
//!   sequences of T tokens any label at every position.
//! * Classification, sufficient up to logarithms: O~(T + omega + sqrt(n log n)) parameters give n sequences
//!   one label each. dana2024 (section 6) quotes it in this form, for tokens instead of separated vectors.
//!
//! In words: many narrow layers read the labels out of long weights, bit by bit, so there are few parameters and
//! they are very precise.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | N_seq, T, d | N, n, d | sequences, their length, width of a token |
//! | n | N (there T_0 in dana2024) | contexts, each with one label |
//!
//! Hypotheses, all assumed: depth grows with the number of sequences (so a one-layer shape gets no number), tokens
//! are separated (an embedding table sees to it), labels are arbitrary, weights have as many bits as needed. A
//! context with several next tokens counts with its most frequent one. Constants and logarithms are hidden; only
//! orders are given. Changed: nothing.
//!
//! Reference: J. Kim, M. Kim, B. Mozafari, "Provable Memorization Capacity of Transformers", ICLR 2023 (version
//! not marked): abstract, and Theorem 4.1 as quoted in dana2024.

use super::monotone::affordable;
use super::row::{Bound, BoundKind, Findings, MemorizationTask, Order, POSITIONS};
use crate::bibliography::KIM2023;

/// Sequence to sequence.
pub static SEQUENCE: Bound = Bound {
    key: "kim2023",
    name: "deep transformer, one label per position",
    task: MemorizationTask::SequenceToSequence,
    kind: BoundKind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = O~(d + T + sqrt(T N_seq))",
    statement: "A deep narrow transformer labels every position of N_seq sequences with about sqrt(T N_seq) \
                parameters of many bits.",
    needs: "a corpus, or a parameter count with a context length",
    paper: &KIM2023,
    place: "abstract",
    judge: |s| {
        let d = s.shape.map_or(1, |shape| shape.d_model);
        let cost = |sequences: u128, length| parameters(d, length, sequences);
        Ok(Findings {
            contexts: s.parameters.map(u128::from).zip(s.longest_context()).and_then(|(k, length)| {
                let sequences = affordable(k, |sequences| cost(sequences, length).ceil() as u128)?;
                Some(sequences.saturating_mul(length.into()).into())
            }),
            required_parameters: s
                .corpus
                .as_ref()
                .map(|c| cost(c.sequences.into(), c.longest_context()).into()),
            note: s.parameters.map(|_| POSITIONS.into()),
            ..Findings::default()
        })
    },
};

/// Classification.
pub static CLASSIFICATION: Bound = Bound {
    key: "kim2023-classification",
    name: "deep transformer, one label per sequence",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = O~(T + omega + sqrt(n log n))",
    statement: "A deep narrow transformer gives n contexts one label each with about sqrt(n log n) \
                parameters of many bits, besides its embedding.",
    needs: "a corpus, or a parameter count with a vocabulary and a context length",
    paper: &KIM2023,
    place: "Theorem 4.1, as quoted in dana2024, section 6",
    judge: |s| {
        let known = s.parameters.map(u128::from).zip(s.vocabulary()).zip(s.longest_context());
        Ok(Findings {
            contexts: known.and_then(|((k, omega), length)| {
                affordable(k, |n| classification_parameters(n, omega, length).ceil() as u128).map(Into::into)
            }),
            required_parameters: s
                .corpus
                .as_ref()
                .map(|c| classification_parameters(c.contexts.into(), c.d_vocab, c.longest_context()).into()),
            ..Findings::default()
        })
    },
};

/// d + T + sqrt(T N_seq), the constant and the logarithms set to one.
pub fn parameters(d_model: u64, length: u64, sequences: u128) -> f64 {
    let [d, length] = [d_model, length].map(|x| x as f64);
    d + length + (length * sequences as f64).sqrt()
}

/// T + omega + sqrt(n ln n), the constant set to one.
pub fn classification_parameters(n: u128, omega: u64, length: u64) -> f64 {
    let n = n.max(1) as f64;
    length as f64 + omega as f64 + (n * n.ln()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::situation::{Situation, examples::*};
    use super::*;

    #[test]
    fn the_orders_come_out_by_hand() {
        assert_eq!(parameters(16, 4, 100), 40.0); // 16 + 4 + sqrt(400)
        // 9 + 1000 + sqrt(2637 * 7.877397) = 1009 + 144.127
        assert!((classification_parameters(2637, 1000, 9) - 1153.127).abs() < 1e-3);
    }

    #[test]
    fn only_an_order_is_shown() {
        let row = SEQUENCE.evaluate(&of_corpus(stories()));
        let required = row.required_parameters.unwrap();
        // 1 + 9 + sqrt(9 * 1000) = 104.868
        assert!((required.order_of().unwrap() - 104.868).abs() < 1e-3);
        assert_eq!(required.number(), None);
        assert_eq!(required.to_string(), "~105");
    }

    #[test]
    fn a_parameter_count_buys_the_square_of_its_surplus() {
        // d = 1, T = 9: 105 parameters leave 95; 95^2 / 9 = 1002.7 sequences of 9 positions.
        let bare =
            Situation { parameters: Some(105), d_vocab: Some(50), n_ctx: Some(9), ..Situation::default() };
        assert_eq!(SEQUENCE.evaluate(&bare).contexts.unwrap().order_of(), Some(1002.0 * 9.0));
        // T + omega = 59 leaves 46, and n ln n <= 46^2 = 2116 up to n = 359: 359 ln 359 = 2112.11.
        assert_eq!(CLASSIFICATION.evaluate(&bare).contexts.unwrap().order_of(), Some(359.0));
        // 10^12 parameters: (10^12 - 10)^2 positions, far beyond 64 bits.
        let large = Situation { parameters: Some(1_000_000_000_000), ..bare };
        let positions = SEQUENCE.evaluate(&large).contexts.unwrap().order_of().unwrap();
        assert!((positions / 1e24 - 1.0).abs() < 1e-9, "{positions}");
    }
}
