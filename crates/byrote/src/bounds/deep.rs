//! What bounds ask of a model of blocks.

use super::row::counted;
use super::situation::{Situation, WhyNot};
use crate::model::{Blocks, Config, Hidden, Norm, Positions};

impl Situation {
    /// The model of blocks, if it is one whose switches are known.
    pub(super) fn blocks(&self) -> Option<(&Config, &Blocks)> {
        let config = self.model.as_ref()?;
        Some((config, config.shape.blocks.as_ref()?))
    }

    /// Whether the theorems about one layer cover the model.
    pub(super) fn one_layer(&self) -> Result<(), WhyNot> {
        match self.shape.and_then(|shape| shape.blocks) {
            None => Ok(()),
            Some(blocks) => {
                let count = counted(blocks.n_layers, "block");
                Err(format!(
                    "the theorem is about the one-layer transformer of its paper, but the model has {count}"
                ))
            }
        }
    }

    /// Whether the model is one block of attention without normalization, which computes what the one-layer transformer of
    /// dana2024 computes.
    pub(super) fn is_one_block_of_attention(&self) -> bool {
        self.blocks().is_some_and(|(config, blocks)| {
            (blocks.n_layers, blocks.norm, blocks.tied) == (1, Norm::None, false)
                && (config.hidden, config.positions, config.skip)
                    == (Hidden::Absent, Positions::Learned, true)
                && blocks.n_kv_heads == config.shape.n_heads
        })
    }
}

/// Whether a normalization divides by something that is never 0.
pub(super) fn regular(blocks: &Blocks) -> Result<(), WhyNot> {
    match blocks.norm != Norm::None && blocks.norm_eps == 0.0 {
        true => Err("the eps of the normalization must be above 0".into()),
        false => Ok(()),
    }
}
