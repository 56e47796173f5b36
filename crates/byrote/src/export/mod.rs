//! Writing models for other programs.
//!
//! [`onnx()`] writes a model as one self-contained ONNX file, and [`onnx_network`] does so for a network of many layers.
//! [`rounding_error`] measures what a model stored in f64 would lose in f32. The library's own format, safetensors, is in
//! [`crate::model::ModelFile`].
//!
//! ```no_run
//! use byrote::export::onnx;
//! use byrote::model::{ModelFile, Precision};
//! use std::path::Path;
//!
//! let file = ModelFile::load(Path::new("model.safetensors"))?;
//! std::fs::write("model.onnx", onnx(&file, Precision::F32)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod onnx;
mod protobuf;
pub(crate) mod rounding;
mod to_file;

pub use onnx::{onnx, onnx_network};
pub use rounding::{RoundingError, rounding_error};
pub use to_file::{ExportFormat, Exported, export_model};
