//! The smallest gap on a corpus of any model whose output reads a given number of dimensions.

use super::{Effort, Encoder, Theorem2, theorem2};
use crate::dataset::Dataset;
use crate::observe::Observer;
use crate::units::Nats;
use crate::{Error, Result};
use serde::Serialize;

/// The total gap that smoothing may cost an encoder.
const SMOOTHING: Nats = Nats(5e-5);
/// The maximum number of dimensions that an output may read.
const MOST: u64 = 1 << 20;

/// The smallest gap of any model whose output reads `d_model` numbers, estimated by the best encoder that was found.
#[derive(Debug, Clone, Serialize)]
pub struct EncoderGap {
    /// The number of dimensions that the output reads.
    pub d_model: u64,
    /// The gap of the best encoder that was found, over all predictions.
    pub gap_nats: Nats,
    /// The same per prediction.
    pub gap_nats_per_prediction: f64,
    /// False if the gap is due to smoothing alone: the output is not a bottleneck.
    pub estimate: bool,
    /// The bounds of Theorem 2; `None` if its codes do not exist.
    pub theorem2: Option<Theorem2>,
}

impl EncoderGap {
    /// Refuses a rank outside its range.
    pub fn check(d_model: u64) -> Result<()> {
        match (1..=MOST).contains(&d_model) {
            true => Ok(()),
            false => Err(Error::setting("encoder", format!("must be between 1 and {MOST} (got {d_model})"))),
        }
    }

    /// Searches for the best encoder of rank `d_model`.
    pub fn search(dataset: &Dataset, d_model: u64, seed: u64, observer: &dyn Observer) -> Result<Self> {
        Self::check(d_model)?;
        let effort = Effort::default();
        let encoder = Encoder::solve(dataset, d_model as usize, SMOOTHING, effort, seed, observer)?;
        Ok(Self {
            d_model,
            gap_nats: encoder.gap,
            gap_nats_per_prediction: encoder.gap.0 / dataset.predictions(),
            estimate: !encoder.exact,
            // Codes need two dimensions, or one if there are only two tokens.
            theorem2: match theorem2(dataset, d_model, seed, observer) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                found => found.ok(),
            },
        })
    }
}
