//! ReLU networks, for comparison: four hidden neurons for every d points.
//!
//! Sufficient: a two-layer network of 4 ceil(n / d) ReLU neurons gives n points of R^d in general position
//! any real labels. In words: four ReLUs make a bump on the d points of one hyperplane, steep enough to touch
//! no other point.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, d | n, d | points, their dimension (`d_model`, or 16) |
//!
//! Hypotheses. Points in general position: the row carries this as its condition, since the contexts would first
//! have to be turned into points (see `feed_forward.rs`). Real labels: an index among C labels is one. The
//! constant is explicit; the parameters of h neurons are counted as h (d + 2) + 1. A context with several next
//! tokens counts with its most frequent one. Changed: nothing.
//!
//! Reference: S. Bubeck, R. Eldan, Y. T. Lee, D. Mikulincer, "Network size and size of the weights in
//! memorization with two-layers neural networks", NeurIPS 2020, arXiv:2006.02855, abstract.

use super::baum1988;
use super::feed_forward::{self, NEEDS_CORPUS};
use super::row::{Bound, BoundKind, Findings, MemorizationTask, Order};
use crate::bibliography::BUBECK2020;

/// The ReLU network.
pub static NEURONS: Bound = Bound {
    key: "bubeck2020",
    name: "ReLU network on points",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "4 ceil(n / d) neurons, k = 4 (d + 2) ceil(n / d) + 1",
    statement: "A two-layer ReLU network with four neurons for every d points can assign any real labels to any \
                points of R^d in general position; how contexts become points is not counted.",
    needs: NEEDS_CORPUS,
    paper: &BUBECK2020,
    place: "abstract",
    judge: |s| match &s.corpus {
        Some(corpus) => {
            let neurons = neurons(corpus.contexts, feed_forward::dimension(s));
            Ok(feed_forward::two_layers(s, neurons, baum1988::parameters))
        }
        None => Ok(Findings::default()),
    },
};

/// 4 ceil(n / d); `None` for points without a dimension.
pub fn neurons(n: u64, d: u64) -> Option<u64> {
    baum1988::neurons(n, d).map(|neurons| neurons.saturating_mul(4))
}

#[cfg(test)]
mod tests {
    use super::super::situation::{Situation, examples::*};
    use super::*;

    #[test]
    fn the_stories_take_four_neurons_for_every_sixteen_contexts() {
        // ceil(2637 / 16) = 165, times four is 660; 660 * 18 + 1 = 11,881.
        assert_eq!(neurons(2637, 16), Some(660));
        let row = NEURONS.evaluate(&of_corpus(stories()));
        assert_eq!(row.required_parameters.unwrap().count(), Some(11_881));
        assert_eq!(row.note.unwrap(), "660 neurons on points of dimension 16");
        assert_eq!(row.condition, Some(feed_forward::IN_GENERAL_POSITION));
    }

    #[test]
    fn the_points_are_as_wide_as_the_shape() {
        let s = Situation { shape: Some(attention_only(100, 4, 4)), ..of_corpus(bigrams(1000)) };
        // 40 neurons: 40 * 102 + 1.
        assert_eq!(NEURONS.evaluate(&s).required_parameters.unwrap().count(), Some(4081));
    }
}
