//! How much can a transformer memorize?
//!
//! For any text: the *floor* (the lowest training loss that any model can reach) and the number of distinct contexts to
//! store ([`corpus`]); the capacity bounds of 21 papers, with their hypotheses checked ([`bounds`]); transformers ([`model`]) trained
//! to the floor ([`train`]), or constructed in closed form ([`construct`]), and measured against it
//! ([`evaluate`](mod@evaluate)); proofs of what they do ([`certify`](mod@certify)); transformers that learn in the context
//! instead ([`incontext`]); sweeps ([`sweep`]) and laws through them ([`fit`]); figures, pages and
//! text ([`report`]); the figures of the papers ([`reproduce`]). [`any_model`] reads every kind of model file.
//!
//! The layers point one way, kept by a test: a module uses only itself and modules further left.
//!
//! ```text
//! units < bibliography, error, memory < observe, foreign, setting < num, input, output < corpus < model < dataset < bounds < train < evaluate, inference, predict
//!   < construct, incontext < certify, any_model < export, audit < sweep, fit < study < report < reproduce < fuzzing
//! ```
//!
//! The library never prints, never exits, reads no environment variable, sets no global thread pool and has no global seed.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "a test reads better as one list of cases"))]

pub mod any_model;
pub mod audit;
pub mod bibliography;
pub mod bounds;
pub mod certify;
pub mod construct;
pub mod corpus;
pub mod dataset;
pub mod error;
pub mod evaluate;
pub mod export;
pub mod fit;
#[cfg(any(feature = "huggingface", feature = "parquet"))]
mod foreign;
#[doc(hidden)]
pub mod fuzzing;
pub mod incontext;
pub mod inference;
pub mod input;
pub mod memory;
pub mod model;
mod num;
pub mod observe;
pub mod output;
pub mod predict;
pub mod report;
pub mod reproduce;
pub mod setting;
pub mod study;
pub mod sweep;
pub mod train;
pub mod units;

/// The figure and page engine that [`report`] draws with.
pub use byrote_figures as figures;
pub use error::{Error, Result};
pub use num::Stream;

/// Parts of the private module `num` that the benchmarks of this repository measure. Not part of the API.
#[cfg(feature = "bench-internals")]
#[doc(hidden)]
pub mod bench_internals {
    pub use crate::construct::madden2024::hyperplanes::System;
    pub use crate::num::Real;
    pub use crate::num::aligned::{AlignedVec, spread_stride};
    pub use crate::num::gemm::{Left, Panels, Product, Right, TargetOrder, Update};
    pub use crate::num::linear::to_rows;
    pub use crate::num::simd::{Isa, SimdKernel, run};
    pub use crate::num::vector::Vector;
}

/// The examples of the README, compiled and run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
