//! A rule of thumb from experiments: about 2 bits of knowledge per parameter.
//!
//! Empirical: language models of many sizes, trained until every fact had been seen about a thousand times,
//! held about 2 bits of knowledge per parameter, even with weights of 8 bits. In words: a bit of knowledge costs half a
//! parameter.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | k | P | parameters |
//! | n log2 C | bits of knowledge | the bits of arbitrary labels, see [`information`](super::information) |
//!
//! Nothing is proved, so nothing is checked except C >= 2. The constant was measured on synthetic biographies; with
//! a hundred exposures per fact it was about 1. It is shown as an order. Changed: the paper's bits are those of
//! (name, attribute, value) facts; here each context is a fact whose value is its most frequent next token.
//!
//! Reference: Z. Allen-Zhu, Y. Li, "Physics of Language Models: Part 3.3, Knowledge Capacity Scaling Laws",
//! arXiv:2404.05405 (2024), abstract.

use super::information::judge_bits;
use super::row::{Bound, BoundKind, MemorizationTask, Order};
use crate::bibliography::ALLENZHU2024;

/// Bits per parameter, as measured.
pub const BITS_PER_PARAMETER: f64 = 2.0;

/// The rule.
pub static BITS: Bound = Bound {
    key: "allenzhu2024",
    name: "2 bits of knowledge per parameter, trained",
    task: MemorizationTask::Association,
    kind: BoundKind::Empirical,
    order: Order::UpToConstant,
    expression: "n log2 C = 2 k",
    statement: "Language models that had seen every fact about a thousand times held about 2 bits of knowledge per \
                parameter.",
    needs: "a corpus, or a shape, or a parameter count with a vocabulary",
    paper: &ALLENZHU2024,
    place: "abstract",
    judge: |s| judge_bits(s, BITS_PER_PARAMETER, "the paper's models have more than one layer".into()),
};

#[cfg(test)]
mod tests {
    use super::super::situation::Situation;
    use super::*;

    #[test]
    fn a_million_parameters_are_about_200_thousand_labels_of_1024() {
        let bare = Situation { parameters: Some(1_000_000), d_vocab: Some(1024), ..Situation::default() };
        assert_eq!(BITS.evaluate(&bare).contexts.unwrap().to_string(), "~200,000");
        assert!(BITS.evaluate(&Situation::default()).why_not.unwrap().starts_with("needs a corpus"));
    }
}
