//! A model as an ONNX file.
//!
//! Inputs `tokens` `[batch, length]` and `lengths` `[batch]`, both int64; output `logits` `[batch, d_vocab]`. Batch and length
//! are free, up to `n_ctx`; tokens beyond the length of a row are padding and may be any numbers. The graph of a one-layer
//! transformer evaluates the formula at the head of [`crate::model::config`] for a whole batch at once (`blocks.rs` has that of a
//! model of blocks):
//!
//! ```text
//! mask[b, s] = s < lengths[b]                                          tokens outside the mask read as token 0
//! x = W_E[tokens] + W_pos[0..length]                                   [batch, length, d_model]; see there for other switches
//! scores[b, h, s] = factor q[b, h] . k[b, h, s], -infinity outside     softmax over s; [batch, n_heads, 1, length]
//! ```
//!
//! Weights keep the names and shapes of the model file, and the metadata key `byrote` holds the same as there: configuration,
//! tokenizer and vocabulary. The file uses operator set 13, so that old runtimes can read it. A protocol buffer is limited to
//! two gigabytes; larger models are refused.
//!
//! | numbers | for | logits as ONNX Runtime computes them |
//! |---|---|---|
//! | f32 | models trained in f32 | within 1e-5 of the reference, relative to the largest logit |
//! | f64 | built models and those trained in f64 | within 1e-9; operators that ONNX Runtime supports in f32 only are composed of others (`activation.rs`) |

mod activation;
mod blocks;
mod graph;
mod network;

use crate::model::{Config, Hidden, Mixer, Model, ModelFile, Precision};
use crate::units::counted;
use crate::{Error, Result};
use graph::{Dimension, Graph, Value};

pub use graph::{IR_VERSION, OPSET};
pub use network::onnx_network;

/// The most bytes of weights: two gigabytes less a reserve for the graph.
const MOST_BYTES: u64 = (1 << 31) - (1 << 24);

/// The bytes of a model as an ONNX file with numbers of this precision. Whether a model stored in f64 may be written in f32 is
/// up to the caller; [`super::rounding_error`] measures the loss.
pub fn onnx(file: &ModelFile, precision: Precision) -> Result<Vec<u8>> {
    let model = &file.model;
    let size = match precision {
        Precision::F32 => 4,
        Precision::F64 => 8,
    };
    let bytes = size * model.parameters().len() as u64;
    let metadata = file.metadata()?;
    if bytes + metadata.len() as u64 > MOST_BYTES {
        let message =
            format!("the model has {bytes} bytes of weights, and an ONNX file holds at most two gigabytes");
        return Err(Error::setting("to", message));
    }
    let mut writer = Writer { graph: Graph::new(precision), model, config: model.config() };
    let about = match &model.config().shape.blocks {
        Some(blocks) => {
            writer.write_blocks(blocks);
            format!("a transformer of {}: next-token logits", counted(blocks.n_layers, "block"))
        }
        None => {
            writer.write();
            "a one-layer transformer: next-token logits".to_owned()
        }
    };
    Ok(writer.graph.into_model("byrote", &about, ("byrote", &metadata)))
}

struct Writer<'a> {
    graph: Graph,
    model: &'a Model,
    config: &'a Config,
}

/// The rows of a batch.
struct Rows {
    /// 0, 1, ... length - 1.
    places: Value,
    /// Which of them belong to each row, `[batch, length]`.
    mask: Value,
    /// The tokens, 0 where there are none.
    known: Value,
    /// The last position of each row, `[batch, 1]`.
    last: Value,
}

impl Writer<'_> {
    /// Adds a tensor of the model under its name, or returns `None` if the model has no such tensor.
    fn weight(&mut self, name: &str) -> Option<Value> {
        let tensor = self.model.tensors().iter().find(|t| t.name == name)?;
        let values = &self.model.parameters()[tensor.range.clone()];
        Some(self.graph.tensor(name, &tensor.shape, values))
    }

    /// `x M`, plus a bias if the model has one.
    fn affine(&mut self, x: &str, weight: &str, bias: &str) -> Value {
        let Some(weight) = self.weight(weight) else { return x.to_owned() };
        let product = self.graph.op("MatMul", &[x, &weight]);
        match self.weight(bias) {
            Some(bias) => self.graph.op("Add", &[&product, &bias]),
            None => product,
        }
    }

    /// The inputs, and what every graph derives from them.
    fn rows(&mut self) -> Rows {
        let g = &mut self.graph;
        let tokens = g.input("tokens", &[Dimension::Free("batch"), Dimension::Free("length")]);
        let lengths = g.input("lengths", &[Dimension::Free("batch")]);
        let sizes = g.op("Shape", &[&tokens]);
        let [zero, one] = [0, 1].map(|i| g.index(i));
        let length = g.op("Gather", &[&sizes, &one]);
        let places = g.op("Range", &[&zero, &length, &one]);
        let second = g.list(&[1]);
        let column = g.op("Unsqueeze", &[&lengths, &second]);
        let mask = g.op("Less", &[&places, &column]);
        let known = g.op("Where", &[&mask, &tokens, &zero]);
        let last = g.op("Sub", &[&column, &one]);
        Rows { places, mask, known, last }
    }

    fn write(&mut self) {
        let shape = self.config.shape;
        let Rows { places, mask, known, last } = self.rows();
        let Some(table) = self.weight("W_E") else { return };
        let mut x = self.graph.op("Gather", &[&table, &known]);
        if !self.config.positions_in_attention {
            x = self.placed(&x, &places);
        }
        let x_last = self.graph.op_with("GatherND", &[&x, &last], &[("batch_dims", 1)]); // [batch, d_model]
        let mut a = match shape.mixer {
            Mixer::Attention => {
                let mut read = self.affine(&x, "W_down", "");
                if self.config.positions_in_attention {
                    read = self.placed(&read, &places);
                }
                let query = self.graph.op_with("GatherND", &[&read, &last], &[("batch_dims", 1)]);
                let out = self.attention(&read, &query, &mask);
                self.affine(&out, "W_up", "")
            }
            Mixer::Average | Mixer::None => self.average(&x, &places, &mask),
        };
        if self.config.skip {
            a = self.graph.op("Add", &[&a, &x_last]);
        }
        let y = match self.config.hidden {
            Hidden::Absent => a,
            Hidden::Output => self.hidden(&a),
            Hidden::Residual => {
                let hidden = self.hidden(&a);
                let y = self.affine(&hidden, "W_out", "b_out");
                if self.config.skip { self.graph.op("Add", &[&y, &a]) } else { y }
            }
        };
        let logits = self.affine(&y, "W_U", "b_U");
        self.graph.output(&logits, "logits", &[Dimension::Free("batch"), Dimension::Fixed(shape.d_vocab)]);
    }

    /// `x` plus the vectors of its positions, if the model has any.
    fn placed(&mut self, x: &str, places: &str) -> Value {
        let Some(positions) = self.model.positions() else { return x.to_owned() };
        let dimensions = [self.config.shape.n_ctx as usize, self.config.position_width() as usize];
        let table = self.graph.tensor("W_pos", &dimensions, positions);
        // Looked up rather than sliced, so that a row longer than n_ctx is an error.
        let rows = self.graph.op("Gather", &[&table, places]);
        self.graph.op("Add", &[x, &rows])
    }

    fn hidden(&mut self, a: &str) -> Value {
        let z = self.affine(a, "W_in", "b_in");
        self.graph.activation(self.config.shape.activation, &z)
    }

    /// The output of the attention for each row, `[batch, attention_width]`.
    fn attention(&mut self, x: &str, x_last: &str, mask: &str) -> Value {
        let (first, second) = (self.graph.list(&[1]), self.graph.list(&[1, 2]));
        let all = self.graph.op("Unsqueeze", &[x, &first]); // [batch, 1, length, d_model]
        let last = self.graph.op("Unsqueeze", &[x_last, &second]); // [batch, 1, 1, d_model]
        let query = self.project(&last, "W_Q", "b_Q"); // [batch, n_heads, 1, d_head]
        let key = self.project(&all, "W_K", "b_K"); // [batch, n_heads, length, d_head]
        let value = self.project(&all, "W_V", "b_V");
        let key = self.graph.transpose(&key, &[0, 1, 3, 2]);
        let scores = self.graph.op("MatMul", &[&query, &key]); // [batch, n_heads, 1, length]
        let mask = self.graph.op("Unsqueeze", &[mask, &second]);
        let never = self.graph.scalar(f64::NEG_INFINITY);
        let mut scores = self.graph.op("Where", &[&mask, &scores, &never]);
        if self.config.scale_scores {
            // Not next to the product: ONNX Runtime fuses a product with a constant factor and keeps the factor in f32.
            let factor = self.graph.scalar(self.config.score_factor());
            scores = self.graph.op("Mul", &[&scores, &factor]);
        }
        let weights = self.graph.op_with("Softmax", &[&scores], &[("axis", -1)]);
        let mixed = self.graph.op("MatMul", &[&weights, &value]);
        let heads = self.project(&mixed, "W_O", ""); // [batch, n_heads, 1, d_model]
        let sum = self.graph.op_with("ReduceSum", &[&heads, &second], &[("keepdims", 0)]);
        match self.weight("b_O") {
            Some(bias) => self.graph.op("Add", &[&sum, &bias]),
            None => sum,
        }
    }

    /// `x W[h] + b[h]` for every head, `[batch, n_heads, .., ..]`.
    fn project(&mut self, x: &str, weight: &str, bias: &str) -> Value {
        let Some(weight) = self.weight(weight) else { return x.to_owned() };
        let product = self.graph.op("MatMul", &[x, &weight]);
        match self.weight(bias) {
            Some(bias) => {
                let axis = self.graph.list(&[1]);
                let bias = self.graph.op("Unsqueeze", &[&bias, &axis]); // [n_heads, 1, d_head]
                self.graph.op("Add", &[&product, &bias])
            }
            None => product,
        }
    }

    /// The weighted sum of each row, `[batch, d_model]`.
    fn average(&mut self, x: &str, places: &str, mask: &str) -> Value {
        let Some(weights) = self.weight("u_pos") else { return x.to_owned() };
        let weights = self.graph.op("Gather", &[&weights, places]);
        let (zero, axis) = (self.graph.scalar(0.0), self.graph.list(&[1]));
        let weights = self.graph.op("Where", &[mask, &weights, &zero]); // [batch, length]
        let row = self.graph.op("Unsqueeze", &[&weights, &axis]);
        let sum = self.graph.op("MatMul", &[&row, x]); // [batch, 1, d_model]
        self.graph.op("Squeeze", &[&sum, &axis])
    }
}
