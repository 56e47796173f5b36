//! Two-layer networks with smooth activations, for comparison: two hidden neurons for every d points.
//!
//! Sufficient: a two-layer network of m neurons on inputs of dimension d, with m d + 2 m parameters, gives at least
//! floor(m d / 2) generic points of R^d any real labels. In words: about half as many points as parameters, which
//! is within a factor of about two of the most possible.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, d, m | n, d, m | points, their dimension (`d_model`, or 16), neurons |
//!
//! Hypotheses. The activation is analytic at a point and, if it is a polynomial there, of sufficiently high degree;
//! every activation here except ReLU is analytic and not a polynomial, and ReLU is left to
//! [`bubeck2020`](super::bubeck2020) (checked). Generic points: the row carries this as its condition, since the
//! contexts would first have to be turned into points (see `feed_forward.rs`). The constant is explicit.
//! Changed: nothing.
//!
//! Reference: L. Madden, C. Thrampoulidis, arXiv:2308.02001v3 (2024), abstract.

use super::feed_forward::{self, NEEDS_CORPUS};
use super::madden2024;
use super::row::{Bound, BoundKind, Findings, MemorizationTask, Order};
use crate::bibliography::MADDEN2023;

/// The network with a smooth activation.
pub static NEURONS: Bound = Bound {
    key: "madden2023",
    name: "smooth network on points",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "n <= floor(m d / 2), k = m (d + 2)",
    statement: "A two-layer network with an analytic activation and two neurons for every d points gives \
                generic points of R^d any real labels; how contexts become points is not counted.",
    needs: NEEDS_CORPUS,
    paper: &MADDEN2023,
    place: "abstract",
    judge: |s| {
        madden2024::analytic(s.shape.as_ref().filter(|shape| shape.has_hidden_layer()))?;
        Ok(match &s.corpus {
            Some(corpus) => {
                feed_forward::two_layers(s, neurons(corpus.contexts, feed_forward::dimension(s)), parameters)
            }
            None => Findings::default(),
        })
    },
};

/// The least m with floor(m d / 2) >= n; `None` for points without a dimension.
pub fn neurons(n: u64, d: u64) -> Option<u64> {
    (d > 0).then(|| u64::try_from((2 * u128::from(n)).div_ceil(d.into())).unwrap_or(u64::MAX))
}

/// m (d + 2): the first layer with its biases, and the output.
pub fn parameters(neurons: u64, d: u64) -> u128 {
    u128::from(neurons) * (u128::from(d) + 2)
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::{Activation, Shape};

    #[test]
    fn two_neurons_for_every_sixteen_contexts() {
        // 2 * 2637 / 16 = 329.6, so 330 neurons: floor(330 * 16 / 2) = 2640 >= 2637; 330 * 18 = 5940.
        assert_eq!((neurons(2637, 16), neurons(1, 1), neurons(9, 0)), (Some(330), Some(2), None));
        let row = NEURONS.evaluate(&of_corpus(stories()));
        assert_eq!(row.required_parameters.unwrap().count(), Some(5940));
        let relu = Shape { activation: Activation::Relu, d_vocab: 1000, ..Shape::default() };
        assert!(NEURONS.evaluate(&both(stories(), relu)).why_not.unwrap().contains("relu"));
        assert!(neurons(u64::MAX, 1).is_some());
    }
}
