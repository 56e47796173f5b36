//! Threshold networks, for comparison: one hidden neuron for every d points.
//!
//! Sufficient: a two-layer network of ceil(n / d) threshold neurons gives n points of R^d in general position
//! any binary labels. In words: a hyperplane can be laid through d points, and two parallel ones enclose exactly
//! those.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, d | N, d | points, their dimension (`d_model`, or 16) |
//!
//! Hypotheses. Two labels (checked). Points in general position, no d + 1 of them on a hyperplane; the row carries
//! this as its condition, since the contexts would first have to be turned into points (see `feed_forward.rs`).
//! The constant is explicit. A network of h neurons is counted with its biases, h (d + 2) + 1 parameters; the paper
//! counts neurons. Changed: nothing.
//!
//! Reference: E. B. Baum, "On the capabilities of multilayer perceptrons", Journal of Complexity 4 (1988),
//! 193-215.

use super::feed_forward::{self, NEEDS_CORPUS};
use super::row::{Bound, BoundKind, Findings, MemorizationTask, Order, grouped};
use crate::bibliography::BAUM1988;

/// The threshold network.
pub static NEURONS: Bound = Bound {
    key: "baum1988",
    name: "threshold network on points, two labels",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "ceil(n / d) neurons, k = (d + 2) ceil(n / d) + 1",
    statement: "A two-layer threshold network with one neuron for every d points can label any points of R^d in \
                general position with two labels in any way; how contexts become points is not counted.",
    needs: NEEDS_CORPUS,
    paper: &BAUM1988,
    place: "as quoted in bubeck2020",
    judge: |s| match &s.corpus {
        Some(corpus) if corpus.labels > 2 => {
            Err(format!("there must be two labels, but there are {}", grouped(corpus.labels)))
        }
        Some(corpus) => {
            Ok(feed_forward::two_layers(s, neurons(corpus.contexts, feed_forward::dimension(s)), parameters))
        }
        None => Ok(Findings::default()),
    },
};

/// ceil(n / d); `None` for points without a dimension.
pub fn neurons(n: u64, d: u64) -> Option<u64> {
    (d > 0).then(|| n.div_ceil(d))
}

/// Weights and biases of `neurons` on `d` inputs, and of one output: h (d + 2) + 1.
pub fn parameters(neurons: u64, d: u64) -> u128 {
    u128::from(neurons).saturating_mul(u128::from(d) + 2).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::super::CorpusFacts;
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::Shape;

    #[test]
    fn a_thousand_points_of_dimension_16_take_63_neurons() {
        assert_eq!(neurons(1000, 16), Some(63)); // 62.5
        assert_eq!(parameters(63, 16), 63 * 18 + 1);
        assert_eq!(neurons(1000, 0), None);
        let corpus = CorpusFacts { labels: 2, ..bigrams(1000) };
        let row = NEURONS.evaluate(&of_corpus(corpus));
        assert_eq!(row.required_parameters.unwrap().count(), Some(1135));
        assert_eq!(row.contexts, None);
    }

    #[test]
    fn more_labels_or_no_corpus_are_outside_the_theorem() {
        assert!(NEURONS.evaluate(&of_corpus(bigrams(1000))).why_not.unwrap().contains("but there are 50"));
        let alone = NEURONS.evaluate(&of_shape(Shape::default()));
        assert!(alone.why_not.unwrap().contains("not about a transformer"));
    }
}
