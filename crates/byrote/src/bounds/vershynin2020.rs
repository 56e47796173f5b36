//! Threshold and ReLU networks of any depth, for comparison: about as many connections as points.
//!
//! Sufficient, up to logarithms: networks of threshold or ReLU neurons with somewhat more connections than there
//! are points memorize binary labels. In words: a count of connections is enough, whatever the depth; this settles
//! a question that [`baum1988`](super::baum1988) left open.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | n, k | K, W | points, connections |
//!
//! Hypotheses. The points are separated: the row carries this as its condition, since the contexts would first have
//! to be turned into points (see `feed_forward.rs`). Two labels (checked). Constants and logarithms are hidden.
//! Changed: nothing.
//!
//! Reference: R. Vershynin, arXiv:2001.06938v2 (2020), abstract.

use super::feed_forward::{self, NEEDS_SIZE, SEPARATED};
use super::row::{Bound, BoundKind, MemorizationTask, Order, grouped};
use crate::bibliography::VERSHYNIN2020;

/// The network of threshold or ReLU neurons.
pub static CONNECTIONS: Bound = Bound {
    key: "vershynin2020",
    name: "threshold or ReLU network on points, two labels",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::UpToLogs,
    expression: "k = O~(n)",
    statement: "A network of threshold or ReLU neurons with somewhat more connections than points labels n \
                separated points with two labels; how contexts become points is not counted.",
    needs: NEEDS_SIZE,
    paper: &VERSHYNIN2020,
    place: "abstract",
    judge: |s| match s.corpus.as_ref().filter(|corpus| corpus.labels > 2) {
        Some(corpus) => Err(format!("there must be two labels, but there are {}", grouped(corpus.labels))),
        None => feed_forward::order(s, SEPARATED, |n| n, |k| k),
    },
};
