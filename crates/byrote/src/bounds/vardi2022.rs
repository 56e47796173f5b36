//! Deep ReLU networks, for comparison: about the square root of the number of points.
//!
//! Sufficient, up to logarithms: a deep narrow ReLU network with O~(sqrt n) parameters gives n separated
//! points labels from C. In words: labels are packed into the bits of a few long weights and unpacked by
//! depth.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, C | N, C | points, labels |
//!
//! Hypotheses, assumed: points separated from each other by a distance of no small order (it enters a
//! logarithm); weights of about sqrt n bits. It is no statement about a transformer, so no shape is judged; a
//! number of parameters is. Constants and logarithms are hidden. A context with several next tokens counts
//! with its most frequent one. Changed: nothing. The exact construction of
//! [`kajitsuka2024`](super::kajitsuka2024) is of this kind, with its constants.
//!
//! Reference: G. Vardi, G. Yehudai, O. Shamir, "On the Optimal Memorization Power of ReLU Neural Networks",
//! ICLR 2022, arXiv:2110.03187v1, abstract.

use super::row::{Bound, Findings, Kind, Order, Paper, Task};

/// The publication.
pub static PAPER: Paper = Paper {
    key: "vardi2022",
    title: "On the Optimal Memorization Power of ReLU Neural Networks",
    source: "arXiv:2110.03187v1, ICLR 2022",
};

/// The deep network.
pub static DEEP: Bound = Bound {
    key: "vardi2022",
    name: "deep ReLU network on points",
    task: Task::Association,
    kind: Kind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = O~(sqrt n)",
    statement: "A deep narrow ReLU network labels n separated points with about sqrt n parameters of about \
                sqrt n bits.",
    needs: "a corpus, or a parameter count",
    paper: &PAPER,
    place: "abstract",
    judge: |s| {
        Ok(Findings {
            contexts: s.parameters.map(|k| (k as f64).powi(2).into()),
            required_parameters: s.contexts().map(|n| parameters(n).into()),
            ..Findings::default()
        })
    },
};

/// sqrt n, constant and logarithms set to one.
pub fn parameters(n: u64) -> f64 {
    (n as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::situation::{Situation, examples::*};
    use super::*;
    use crate::model::Shape;

    #[test]
    fn a_square_root_is_shown_as_an_order() {
        let required = DEEP.evaluate(&of_corpus(bigrams(2500))).required_parameters.unwrap();
        assert_eq!((required.to_string().as_str(), required.number()), ("~50", None));
        let bare = Situation { parameters: Some(50), ..Situation::default() };
        assert_eq!(DEEP.evaluate(&bare).contexts.unwrap().order_of(), Some(2500.0));
    }

    #[test]
    fn a_one_layer_shape_is_not_judged_by_it() {
        assert!(!DEEP.evaluate(&of_shape(Shape::default())).applies());
    }
}
