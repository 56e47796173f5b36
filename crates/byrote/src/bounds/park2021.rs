//! Narrow deep networks, for comparison: about n^(2/3) parameters for n points.
//!
//! Sufficient, up to a constant: a deep network, even one of width 3, with O(n^(2/3)) parameters gives n separated
//! points their labels. In words: this was the first construction with fewer parameters than points;
//! [`vardi2022`](super::vardi2022) later brought it down to about the square root.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n | N | points |
//!
//! Hypotheses. The points satisfy the paper's mild condition on their separation: the row carries this as its
//! condition, since the contexts would first have to be turned into points (see `feed_forward.rs`). The
//! constant is hidden, and so is the number of labels. Changed: nothing.
//!
//! Reference: S. Park, J. Lee, C. Yun, J. Shin, arXiv:2010.13363v2 (COLT 2021), abstract.

use super::feed_forward::{self, NEEDS_SIZE, SEPARATED};
use super::row::{Bound, BoundKind, MemorizationTask, Order};
use crate::bibliography::PARK2021;

/// The narrow deep network.
pub static DEEP: Bound = Bound {
    key: "park2021",
    name: "narrow deep network on points",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::UpToConstant,
    expression: "k = O(n^(2/3))",
    statement: "A deep network of width 3 labels n separated points with about n^(2/3) parameters; how contexts \
                become points is not counted.",
    needs: NEEDS_SIZE,
    paper: &PARK2021,
    place: "abstract",
    judge: |s| feed_forward::order(s, SEPARATED, |n| n.cbrt().powi(2), |k| k.powf(1.5)),
};

#[cfg(test)]
mod tests {
    use super::super::situation::{Situation, examples::*};
    use super::*;

    #[test]
    fn a_thousand_points_take_about_a_hundred_parameters() {
        let required = DEEP.evaluate(&of_corpus(bigrams(1000))).required_parameters.unwrap();
        assert_eq!((required.to_string().as_str(), required.number()), ("~100", None));
        let bare = Situation { parameters: Some(100), ..Situation::default() };
        assert_eq!(DEEP.evaluate(&bare).contexts.unwrap().to_string(), "~1,000");
    }
}
