//! Three-layer ReLU networks, for comparison: about as many parameters as points.
//!
//! Sufficient, up to a constant: a ReLU network of three layers with Omega(sqrt n) hidden neurons, and more
//! generally one of any fixed depth with Omega(n) parameters in its hidden layers, gives n points their labels. In
//! words: two hidden layers of width about sqrt n are enough, because the weights between them are about n.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, k | N, W | points, parameters in the hidden layers |
//!
//! Hypotheses. Points in general position ("most data sets" in the abstract): the row carries this as its
//! condition, since the contexts would first have to be turned into points (see `feed_forward.rs`). The
//! constant is hidden. Changed: nothing.
//!
//! Reference: C. Yun, S. Sra, A. Jadbabaie, arXiv:1810.07770v3 (NeurIPS 2019), abstract.

use super::feed_forward::{self, IN_GENERAL_POSITION, NEEDS_SIZE};
use super::row::{Bound, BoundKind, MemorizationTask, Order};
use crate::bibliography::YUN2019;

/// The three-layer network.
pub static THREE_LAYERS: Bound = Bound {
    key: "yun2019",
    name: "three-layer ReLU network on points",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::UpToConstant,
    expression: "k = O(n), in hidden layers of width O(sqrt n)",
    statement: "A ReLU network with two hidden layers of about sqrt n neurons, so with about n parameters, labels \
                n points; how contexts become points is not counted.",
    needs: NEEDS_SIZE,
    paper: &YUN2019,
    place: "abstract",
    judge: |s| feed_forward::order(s, IN_GENERAL_POSITION, |n| n, |k| k),
};
