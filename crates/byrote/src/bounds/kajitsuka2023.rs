//! One layer of attention with low-rank weights: about one parameter per labelled position.
//!
//! Sufficient, up to a constant: a transformer with a single self-attention layer and feed-forward layers labels
//! every position of N_seq sequences of T tokens with O(T N_seq) parameters. In words: one softmax layer can already
//! tell sequences apart; the labels are then stored one by one.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | N_seq, T | N, n | sequences, their length |
//!
//! Hypotheses, all assumed: the embedded tokens are separated (an embedding table sees to it), and the labels of
//! equal sequences agree. The constant is hidden. Changed: nothing. Only the abstract was available; the count of
//! parameters is the one that madden2024 quotes (section 1.2).
//!
//! Reference: T. Kajitsuka, I. Sato, arXiv:2307.14023 (ICLR 2024), abstract.

use super::row::{Bound, BoundKind, Findings, MemorizationTask, Order, POSITIONS};
use crate::bibliography::KAJITSUKA2023;

/// Sequence to sequence with one attention layer.
pub static ONE_LAYER: Bound = Bound {
    key: "kajitsuka2023",
    name: "one attention layer, one label per position",
    task: MemorizationTask::SequenceToSequence,
    kind: BoundKind::Sufficient,
    order: Order::UpToConstant,
    expression: "k = O(T N_seq)",
    statement: "A transformer with one self-attention layer labels every position of N_seq sequences with about T \
                N_seq parameters.",
    needs: "a corpus, or a parameter count",
    paper: &KAJITSUKA2023,
    place: "abstract; the count as quoted in madden2024, section 1.2",
    judge: |s| {
        let positions = s.corpus.as_ref().map(|c| c.sequences as f64 * c.longest_context() as f64);
        Ok(Findings {
            contexts: s.parameters.map(|k| (k as f64).into()),
            required_parameters: positions.map(Into::into),
            note: s.parameters.map(|_| POSITIONS.into()),
            ..Findings::default()
        })
    },
};

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;

    #[test]
    fn every_position_takes_about_a_parameter() {
        let required = ONE_LAYER.evaluate(&of_corpus(stories())).required_parameters.unwrap();
        assert_eq!((required.to_string().as_str(), required.number()), ("~9,000", None)); // 9 * 1000
    }
}
