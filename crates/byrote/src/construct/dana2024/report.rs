//! The builder's report on the weights it constructed.

use super::capacity::Census;
use super::codes::CodeLayout;
use super::{Method, Task};
use crate::units::Nats;
use serde::Serialize;

/// The request, the capacity by count, and the measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// How the last maps were found.
    pub solver: Method,
    /// What is stored.
    pub task: Task,
    /// The width of the residual stream.
    pub d_model: u64,
    /// The number of heads.
    pub n_heads: u64,
    /// The width of a head.
    pub d_head: u64,
    /// The number of draws before the one that was used.
    pub retries: u64,
    /// The largest difference between a logit and its target, measured with the public forward pass; under `truncate`,
    /// over the stored contexts.
    pub max_logit_error: f64,
    /// The maximum number of contexts that can be stored exactly.
    pub capacity: usize,
    /// The number of contexts that were stored exactly; 0 under `refit`.
    pub stored: usize,
    /// The properties of the contexts that determine the capacity.
    #[serde(flatten)]
    pub census: Census,
    /// Corollary 2's figure for this capacity: an average over random labels, not a guarantee.
    pub corollary2_accuracy: f64,
    /// The target encoder.
    pub encoder: EncoderReport,
    /// An estimate of the condition number (1-norm) of the features, if a system was solved.
    pub condition: Option<f64>,
    /// The condition number of the map from the residual stream to the codes.
    pub skip_condition: Option<f64>,
    /// Under `refit`, the gap to the smoothed targets after least squares, after the convex descent, and at the end.
    pub refit_gaps_nats: Option<[Nats; 3]>,
}

/// An encoder: the best that a model of its rank can be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EncoderReport {
    /// The number of values that the output reads.
    pub rank: usize,
    /// Its own gap on the corpus (for associations, to the associated tokens), summed over all predictions.
    pub gap_nats: Nats,
    /// Whether the infimum over encoders is 0; otherwise the gap is an estimate of it from above.
    pub exact: bool,
    /// For associations, the arrangement of the codes.
    pub codes: Option<CodeLayout>,
    /// For associations, the largest inner product of two codes.
    pub coherence: Option<f64>,
}
