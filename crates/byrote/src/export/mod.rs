//! Models for other programs.
//!
//! [`onnx()`] writes a model as one self-contained ONNX file, [`onnx_network`] a network of many layers; [`rounding_error`] says what a model stored in f64 would lose
//! in f32. Safetensors files, the library's own format, are [`crate::model::file`]'s.

pub mod onnx;
mod protobuf;
pub mod rounding;

pub use onnx::{onnx, onnx_network};
pub use rounding::{RoundingError, rounding_error};
