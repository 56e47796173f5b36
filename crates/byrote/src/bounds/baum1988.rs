//! Threshold networks, for comparison: one hidden neuron for every d points.
//!
//! Sufficient: a two-layer network of ceil(n / d) threshold neurons gives n points of R^d in general position
//! any binary labels. In words: a hyperplane can be laid through d points, and two parallel ones enclose just
//! those.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, d | N, d | points, their dimension (`d_model`, or 16) |
//!
//! Hypotheses. Two labels (checked). Points in general position, no d + 1 of them on a hyperplane (assumed:
//! the contexts would have to be given as points first, which a transformer's mixer does). It is no statement
//! about a transformer, so a shape alone gets no number. The constant is explicit. A network of h neurons is
//! counted with its biases, h (d + 2) + 1 parameters; the paper counts neurons. Changed: nothing.
//!
//! Reference: E. B. Baum, "On the capabilities of multilayer perceptrons", Journal of Complexity 4 (1988),
//! 193-215.

use super::row::{Bound, Findings, Kind, Order, Paper, Task, counted, grouped};
use super::situation::Situation;

/// The publication.
pub static PAPER: Paper = Paper {
    key: "baum1988",
    title: "On the capabilities of multilayer perceptrons",
    source: "Journal of Complexity 4, 1988",
};

/// The threshold network.
pub static NEURONS: Bound = Bound {
    key: "baum1988",
    name: "threshold network on points, two labels",
    task: Task::Association,
    kind: Kind::Sufficient,
    order: Order::Exact,
    expression: "ceil(n / d) neurons, k = (d + 2) ceil(n / d) + 1",
    statement: "A two-layer threshold network with one neuron for every d points gives points of R^d in \
                general position any of two labels.",
    needs: "a corpus (it speaks of points, not of a transformer)",
    paper: &PAPER,
    place: "as quoted in bubeck2020",
    judge: |s| match &s.corpus {
        Some(corpus) if corpus.labels > 2 => {
            Err(format!("the labels must be two, here there are {}", grouped(corpus.labels)))
        }
        Some(corpus) => Ok(on_points(s, neurons(corpus.contexts, dimension(s)))),
        None => Ok(Findings::default()),
    },
};

/// ceil(n / d); `None` for points without a dimension.
pub fn neurons(n: u64, d: u64) -> Option<u64> {
    (d > 0).then(|| n.div_ceil(d))
}

/// The dimension of the points: the width of the shape, or the program's default.
pub(super) fn dimension(s: &Situation) -> u64 {
    s.shape.unwrap_or_default().d_model
}

/// The parameters of a two-layer network with one output and so many neurons on points of that dimension.
pub(super) fn on_points(s: &Situation, neurons: Option<u64>) -> Findings {
    let d = dimension(s);
    Findings {
        required_parameters: neurons.map(|h| parameters(h, d).into()),
        note: neurons.map(|h| format!("{} on points of dimension {d}", counted(h, "neuron"))),
        ..Findings::default()
    }
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
        assert!(NEURONS.evaluate(&of_corpus(bigrams(1000))).why_not.unwrap().contains("here there are 50"));
        assert!(
            NEURONS.evaluate(&of_shape(Shape::default())).why_not.unwrap().contains("not of a transformer")
        );
    }
}
