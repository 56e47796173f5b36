//! How few parameters cannot label every set of points: at least (n - 1) / 2.
//!
//! Necessary: a network with k parameters that gives every set of n points of R^d in general position all of their
//! binary labelings has n <= 2 k + 1. In words: if nothing may be assumed about where the points lie, labels cost
//! half a parameter each, however deep the network is.
//!
//! This does not contradict the square-root constructions ([`vardi2022`](super::vardi2022),
//! [`kajitsuka2024`](super::kajitsuka2024)): their points are separated by a known distance, which excludes some sets
//! in general position.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, k | k, the number of parameters | points, parameters |
//!
//! Hypotheses. The network is definable in an o-minimal structure in which sets have finitely many components, which
//! covers the activations here (assumed). Points of R^d in general position: tokens are discrete, so a corpus is not
//! such a set, and the row carries what it is about as its condition. The constant is explicit. Changed: nothing.
//! Theorem 1 of [`madden2024`](super::madden2024) is the counterpart for contexts made of tokens.
//!
//! Reference: E. D. Sontag, Neural Computation 9 (1997), 337-348; the title states the theorem.

use super::feed_forward::NEEDS_SIZE;
use super::row::{Bound, BoundKind, Findings, MemorizationTask, Order};
use crate::bibliography::SONTAG1997;

/// The bound on shattering.
pub static SHATTERING: Bound = Bound {
    key: "sontag1997",
    name: "every set of points in general position",
    task: MemorizationTask::Association,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "n <= 2 k + 1",
    statement: "A network with k parameters cannot give every set of more than 2 k + 1 points in general position \
                all of their binary labelings.",
    needs: NEEDS_SIZE,
    paper: &SONTAG1997,
    place: "title",
    judge: |s| {
        Ok(Findings {
            contexts: s.parameters.map(|k| (2 * u128::from(k) + 1).into()),
            required_parameters: s.contexts().map(|n| min_parameters(n).into()),
            condition: Some("for a network that must label every set of points in general position"),
            ..Findings::default()
        })
    },
};

/// The least k with 2 k + 1 >= n.
pub fn min_parameters(n: u64) -> u64 {
    n / 2
}

#[cfg(test)]
mod tests {
    use super::super::situation::{Situation, examples::*};
    use super::*;

    #[test]
    fn a_label_costs_half_a_parameter() {
        assert_eq!([1, 2, 3, 4, 5].map(min_parameters), [0, 1, 1, 2, 2]); // (n - 1) / 2 rounded up
        assert_eq!(
            SHATTERING.evaluate(&of_corpus(bigrams(1000))).required_parameters.unwrap().count(),
            Some(500)
        );
        let bare = Situation { parameters: Some(500), ..Situation::default() };
        assert_eq!(SHATTERING.evaluate(&bare).contexts.unwrap().count(), Some(1001));
    }
}
