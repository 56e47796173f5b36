//! Names of tensors.

use serde::{Serialize, Serializer};
use std::fmt;

/// The name of a tensor, as in TransformerLens: `W_E` in a one-layer transformer, `blocks.3.attn.W_Q` in a model of blocks.
///
/// ```
/// use byrote::model::TensorName;
/// assert_eq!(TensorName::of("W_E"), "W_E");
/// assert_eq!(TensorName::in_block(3, "attn.W_Q").to_string(), "blocks.3.attn.W_Q");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorName {
    block: Option<u32>,
    part: &'static str,
}

impl TensorName {
    /// A tensor outside of blocks.
    pub const fn of(part: &'static str) -> Self {
        Self { block: None, part }
    }

    /// A tensor of a block, counted from 0.
    pub const fn in_block(block: u32, part: &'static str) -> Self {
        Self { block: Some(block), part }
    }

    /// Returns the block, if the tensor is in one.
    pub fn block(self) -> Option<u32> {
        self.block
    }

    /// Returns the name within the block, or the whole name outside of blocks.
    pub fn part(self) -> &'static str {
        self.part
    }

    /// Returns the name of the weight without its place: `W_Q` for `blocks.3.attn.W_Q`.
    pub fn weight(self) -> &'static str {
        self.part.rsplit('.').next().unwrap_or(self.part)
    }
}

impl fmt::Display for TensorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.block {
            None => f.pad(self.part),
            Some(block) => f.pad(&format!("blocks.{block}.{}", self.part)),
        }
    }
}

impl Serialize for TensorName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialEq<str> for TensorName {
    fn eq(&self, name: &str) -> bool {
        match self.block {
            None => self.part == name,
            Some(block) => name
                .strip_prefix("blocks.")
                .and_then(|rest| rest.split_once('.'))
                .is_some_and(|(number, part)| part == self.part && number.parse() == Ok(block)),
        }
    }
}

impl PartialEq<&str> for TensorName {
    fn eq(&self, name: &&str) -> bool {
        *self == **name
    }
}
