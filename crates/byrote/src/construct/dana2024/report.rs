//! What the builder says of the weights it made.

use super::capacity::Census;
use super::codes::Layout;
use super::{Method, Task};
use crate::units::Nats;
use serde::Serialize;

/// What was asked of the model, what it can hold by count, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// How the last maps were found.
    pub solver: Method,
    /// What is stored.
    pub task: Task,
    /// The width of the stream.
    pub d_model: u64,
    /// Heads.
    pub n_heads: u64,
    /// The width of a head.
    pub d_head: u64,
    /// Draws before the one that was taken.
    pub retries: u64,
    /// The largest difference between a logit and what was solved for, through the public forward pass; under `truncate` over
    /// the contexts that are stored.
    pub max_logit_error: f64,
    /// The most contexts that can be stored exactly.
    pub capacity: usize,
    /// Contexts that were stored exactly; 0 under `refit`.
    pub stored: usize,
    /// What of the contexts the capacity depends on.
    #[serde(flatten)]
    pub census: Census,
    /// Corollary 2's figure for this capacity: an average over random labels, no guarantee.
    pub corollary2_accuracy: f64,
    /// The encoder that was aimed at.
    pub encoder: EncoderReport,
    /// An estimate of the condition number (1-norm) of the features, where a system was solved.
    pub condition: Option<f64>,
    /// The condition number of the map from the stream to the codes.
    pub skip_condition: Option<f64>,
    /// Under `refit` the gap to the smoothed targets after least squares, after the convex descent, and at the end.
    pub refit_gaps_nats: Option<[Nats; 3]>,
}

/// An encoder: what a model of its rank can at best be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EncoderReport {
    /// The numbers that the output reads.
    pub rank: usize,
    /// Its own gap on the corpus (for associations, to the tokens asked for), over all predictions.
    pub gap_nats: Nats,
    /// Whether the infimum over encoders is 0; otherwise the gap is an estimate of it from above.
    pub exact: bool,
    /// Of associations, how codes are laid out.
    pub codes: Option<Layout>,
    /// Of associations, the largest inner product of two codes.
    pub coherence: Option<f64>,
}
