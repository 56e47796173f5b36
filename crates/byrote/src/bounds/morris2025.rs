//! A rule of thumb from experiments: about 3.6 bits per parameter.
//!
//! Empirical: GPT-style transformers trained to saturation on uniformly random token sequences held about 3.6 bits
//! per parameter, whatever their size. In words: count the bits of what is to be memorized and divide by 3.6.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | k | parameters | parameters |
//! | n log2 C | bits memorized | the bits of arbitrary labels, see [`information`](super::information) |
//!
//! Nothing is proved, so nothing is checked except C >= 2. The constant was measured on models of 0.5 million to
//! 1.5 billion parameters in half precision. It is shown as an order, because a shallow model, a short training run
//! or a text that is not random changes it. Changed: the paper's bits are those of whole sequences; here each
//! context has one label, and a context with several next tokens counts with its most frequent one.
//!
//! Reference: J. X. Morris et al., "How much do language models memorize?", arXiv:2505.24832 (2025),
//! abstract.

use super::information::judge_bits;
use super::row::{Bound, BoundKind, MemorizationTask, Order};
use crate::bibliography::MORRIS2025;

/// Bits per parameter, as measured in half precision.
pub const BITS_PER_PARAMETER: f64 = 3.6;
/// The same in full precision, which twice the bits of storage raise by little.
pub const BITS_PER_PARAMETER_F32: f64 = 3.83;

/// The rule.
pub static BITS: Bound = Bound {
    key: "morris2025",
    name: "3.6 bits per parameter, trained",
    task: MemorizationTask::Association,
    kind: BoundKind::Empirical,
    order: Order::UpToConstant,
    expression: "n log2 C = 3.6 k",
    statement: "GPT-style models trained on random sequences were saturated at about 3.6 bits per parameter.",
    needs: "a corpus, or a shape, or a parameter count with a vocabulary",
    paper: &MORRIS2025,
    place: "abstract",
    judge: |s| judge_bits(s, BITS_PER_PARAMETER, "the paper's models have more than one layer".into()),
};

#[cfg(test)]
mod tests {
    use super::super::situation::{Situation, examples::*};
    use super::*;

    #[test]
    fn a_million_parameters_are_about_360_thousand_labels_of_1024() {
        let bare = Situation { parameters: Some(1_000_000), d_vocab: Some(1024), ..Situation::default() };
        assert_eq!(BITS.evaluate(&bare).contexts.unwrap().to_string(), "~360,000");
        // 25,878.94 bits / 3.6 = 7188.6
        let required = BITS.evaluate(&of_corpus(stories())).required_parameters.unwrap();
        assert_eq!((required.order_of(), required.number()), (Some(7189.0), None));
    }
}
