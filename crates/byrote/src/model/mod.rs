//! The one-layer transformers of the papers: embedding and positions, a mixer over the tokens of the context
//! (attention with H heads, or token averaging), an optional hidden layer, the output.
//!
//! [`shape`] names the dimensions and counts the parameters; nothing there holds a weight.

pub mod shape;

pub use shape::{Activation, Mixer, ParametersByKind, Shape};
