//! Transformers. Those of the papers have one layer: embedding and positions, a mixer over the tokens of the context (attention
//! with H heads, or token averaging), an optional hidden layer, and the output. Models of blocks have any number of layers, as
//! GPT-2, GPT-NeoX and Llama do ([`blocks`]).
//!
//! `shape` names the dimensions and counts the parameters as the papers do, `config` adds the switches and presets
//! and lists the tensors, `blocks` adds those of many layers, `activation` evaluates activation functions, `weights` holds and draws parameters,
//! [`reference`] is the slow forward pass that checks every other one, `model_file` reads and writes model files,
//! [`huggingface`] directories of Hugging Face, `gguf` GGUF files. [`StoredModel`] is a model in a file of any kind, with its weights unread.
//!
//! ```
//! use byrote::model::{Model, Preset, Shape};
//!
//! let shape = Shape { d_vocab: 10, n_ctx: 3, d_model: 4, n_heads: 1, d_head: 4, d_mlp: 8, ..Shape::default() };
//! let config = Preset::Madden2024Experiment.config(shape);
//! let model = Model::random(config, 0)?;
//! assert_eq!(model.logits(&[7, 2])?.len(), 10); // one logit per token of the vocabulary
//! assert!(model.tensor("W_E").is_some());
//! # Ok::<(), byrote::Error>(())
//! ```

pub(crate) mod activation;
pub mod blocks;
mod blocks_reference;
pub mod config;
pub(crate) mod container;
pub(crate) mod counting;
pub(crate) mod gguf;
pub mod huggingface;
pub(crate) mod model_file;
#[cfg(feature = "onnx")]
pub(crate) mod onnx_text;
pub mod reference;
pub(crate) mod shape;
pub(crate) mod spec;
mod stored;
mod tensor_name;
pub(crate) mod weights;

pub use blocks::{Blocks, Norm, Rotary, RotaryScaling};
pub use config::{Config, Hidden, Positions, Preset, Tensor, TensorKind};
pub use counting::{Counting, ParameterCount};
pub use model_file::{ModelFile, Precision};
pub use shape::{Activation, Mixer, ParametersByKind, Shape};
pub use spec::ModelSpec;
pub use stored::{StoredAs, StoredModel};
pub use tensor_name::TensorName;
pub use weights::{Init, Model};
