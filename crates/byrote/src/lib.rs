//! How much can a transformer memorize?
//!
//! For any text: the *floor* (the lowest training loss that any model can reach) and the number of distinct contexts to
//! store ([`corpus`]); every published capacity bound, with its hypotheses checked ([`bounds`]); transformers ([`model`]) trained
//! to the floor ([`train`]), or written down in closed form ([`construct`]), and measured against it
//! ([`evaluate`](mod@evaluate)); transformers that learn in the context instead ([`incontext`]); figures ([`report`]).
//!
//! The layers point one way: `num` -> `corpus` -> `model` -> `bounds` -> `train` -> `evaluate` -> `construct`, `certify` -> `report`. The library never prints, never
//! exits, reads no environment variable, sets no global thread pool and has no global seed.

pub mod bounds;
pub mod certify;
pub mod construct;
pub mod corpus;
pub mod error;
pub mod evaluate;
pub mod export;
#[cfg(any(feature = "huggingface", feature = "parquet"))]
mod foreign;
pub mod incontext;
pub mod model;
pub mod num;
pub mod output;
pub mod report;
pub mod train;
pub mod units;

pub use error::{Error, Result};
