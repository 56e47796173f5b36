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
//! Hypotheses. The points are separated (the distance enters a logarithm): the row carries this as its condition,
//! since the contexts would first have to be turned into points (see `feed_forward.rs`). Weights of about
//! sqrt n bits (assumed). Constants and logarithms are hidden. A context with several next tokens counts with its
//! most frequent one. Changed: nothing. The exact construction of [`kajitsuka2024`](super::kajitsuka2024) is of
//! this kind, with its constants and with the map from contexts to numbers counted.
//!
//! Reference: G. Vardi, G. Yehudai, O. Shamir, "On the Optimal Memorization Power of ReLU Neural Networks",
//! ICLR 2022, arXiv:2110.03187v1, abstract.

use super::feed_forward::{self, NEEDS_SIZE, SEPARATED};
use super::row::{Bound, BoundKind, MemorizationTask, Order};
use crate::bibliography::VARDI2022;

/// The deep network.
pub static DEEP: Bound = Bound {
    key: "vardi2022",
    name: "deep ReLU network on points",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = O~(sqrt n)",
    statement: "A deep narrow ReLU network labels n separated points with about sqrt n parameters of about \
                sqrt n bits; how contexts become points is not counted.",
    needs: NEEDS_SIZE,
    paper: &VARDI2022,
    place: "abstract",
    judge: |s| feed_forward::order(s, SEPARATED, f64::sqrt, |k| k * k),
};

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
    fn a_one_layer_shape_gets_no_number() {
        assert!(!DEEP.evaluate(&of_shape(Shape::default())).applies());
    }
}
