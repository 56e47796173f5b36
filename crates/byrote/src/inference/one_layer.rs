//! One-layer transformers of the papers as language models, by the slow reference in f64.
//!
//! They are small, and their contexts short: each position is computed on its own from the context before it.

use super::network::not_finite;
use super::{PositionScore, Sampling, Sequence};
use crate::Result;
use crate::model::{Config, Model};
use rayon::prelude::*;

/// A model that is evaluated by its reference.
pub(super) struct OneLayer(Model);

impl OneLayer {
    pub(super) fn new(model: Model) -> Self {
        Self(model)
    }

    pub(super) fn config(&self) -> &Config {
        self.0.config()
    }

    pub(super) fn score(
        &self,
        sequences: &[Sequence<'_>],
        sampling: Sampling,
    ) -> Result<Vec<Vec<PositionScore>>> {
        let at = |(number, sequence): (usize, &Sequence<'_>)| {
            let positions = sequence.scored.clone().into_par_iter();
            positions
                .map(|position| {
                    let logits = self.0.logits(&sequence.tokens[..position])?;
                    let z = logits.into_iter().map(|z| z as f32).collect();
                    let score = PositionScore::of_logits(z, sequence.tokens[position], sampling);
                    score.ok_or_else(|| not_finite(number, position))
                })
                .collect::<Vec<Result<PositionScore>>>()
        };
        let scores: Vec<_> = sequences.par_iter().enumerate().map(at).collect();
        // The first error, whichever thread was first.
        scores.into_iter().map(|scores| scores.into_iter().collect()).collect()
    }
}
