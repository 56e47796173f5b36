//! One linear map between random codes, the simplest associative memory.
//!
//! Sufficient, up to a constant: a d x d matrix W = sum of u_y e_x^T over associations x -> y, with random
//! codes e_x and u_y of width d, ranks the right answer first for about d associations. In words: a sum of outer
//! products can be read back while its terms are nearly orthogonal, which allows about d of them.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | d | d | width of the codes, `d_model` |
//! | n | N | associations |
//!
//! Hypotheses, assumed: codes drawn at random and fixed, one next token per input (a contradictory context counts
//! with its most frequent one). The memory reads one code per context and mixes no tokens, so a shape of a
//! transformer gets no number; a number of parameters does, as the entries of one matrix. The constant and the
//! dependence on the distribution of the inputs are hidden. Changed: nothing.
//!
//! Reference: V. Cabannes, E. Dohmatob, A. Bietti, "Scaling laws for associative memories", arXiv:2310.02984,
//! ICLR 2024; the model is that of A. Bietti et al. (bietti2023), "Birth of a Transformer", arXiv:2306.00802,
//! NeurIPS 2023.

use super::row::{Bound, BoundKind, Findings, MemorizationTask, Order};
use crate::bibliography::CABANNES2024;

/// The linear memory.
pub static MEMORY: Bound = Bound {
    key: "cabannes2024",
    name: "linear associative memory",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::UpToConstant,
    expression: "n = Omega(d), k = d^2",
    statement: "A d x d matrix of summed outer products of random codes holds about d associations.",
    needs: "a corpus, or a parameter count",
    paper: &CABANNES2024,
    place: "abstract; quoted in dana2024, section 6",
    judge: |s| {
        Ok(Findings {
            contexts: s.parameters.map(|k| (k as f64).sqrt().into()),
            required_parameters: s.contexts().map(|n| parameters(n).into()),
            ..Findings::default()
        })
    },
};

/// The entries of a square matrix as wide as there are associations.
pub fn parameters(n: u64) -> u128 {
    u128::from(n) * u128::from(n)
}

#[cfg(test)]
mod tests {
    use super::super::situation::{Situation, examples::*};
    use super::*;

    #[test]
    fn a_memory_of_width_d_holds_about_d() {
        let bare = Situation { parameters: Some(100), ..Situation::default() };
        let contexts = MEMORY.evaluate(&bare).contexts.unwrap();
        assert!(!MEMORY.evaluate(&of_shape(attention_only(10, 5, 2))).applies());
        assert_eq!((contexts.order_of(), contexts.number()), (Some(10.0), None));
        let required = MEMORY.evaluate(&of_corpus(bigrams(100))).required_parameters.unwrap();
        assert_eq!(required.to_string(), "~10,000");
        assert_eq!(parameters(u64::MAX), u128::from(u64::MAX).pow(2));
    }
}
