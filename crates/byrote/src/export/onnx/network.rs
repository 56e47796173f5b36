//! A network of many layers on vectors as an ONNX file.
//!
//! Input `inputs` `[batch, length, d_in]`, output `outputs` `[batch, length, d_out]`, both f64; batch and length are free, the
//! length up to `n_ctx`. The graph evaluates the formula at the head of [`crate::incontext::network`]. A layer that is repeated
//! is written once per repetition, with its weights stored once: a loop in ONNX Runtime would not be faster in f64.

use super::graph::{Dimension, Graph, Value};
use crate::incontext::{Attention, Layer, NetworkFile};
use crate::model::{Activation, Precision};
use crate::{Error, Result};

/// The most layers, counting repetitions.
const MOST_LAYERS: u64 = 5000;

/// The bytes of a network as an ONNX file.
pub fn onnx_network(file: &NetworkFile) -> Result<Vec<u8>> {
    let network = &file.network;
    network.check()?;
    if network.depth() > MOST_LAYERS {
        return Err(Error::setting(
            "to",
            format!(
                "the network has {} layers, and an ONNX file can hold at most {MOST_LAYERS}",
                network.depth()
            ),
        ));
    }
    if 8 * network.parameters() as u64 > super::MOST_BYTES {
        return Err(Error::setting("to", "an ONNX file holds at most two gigabytes of weights"));
    }
    let g = &mut Graph::new(Precision::F64);
    let (batch, length) = (|| Dimension::Free("batch"), || Dimension::Free("length"));
    let inputs = g.input_numbers("inputs", &[batch(), length(), Dimension::Fixed(network.w_e.len() as u64)]);
    let [zero, one] = [0, 1].map(|i| g.index(i));
    let sizes = g.op("Shape", &[&inputs]);
    let n = g.op("Gather", &[&sizes, &one]);
    let places = g.op("Range", &[&zero, &n, &one]);
    let (row, column) = (g.list(&[0]), g.list(&[1]));
    let keys = g.op("Unsqueeze", &[&places, &row]);
    let queries = g.op("Unsqueeze", &[&places, &column]);
    let past = g.op("LessOrEqual", &[&keys, &queries]); // [length, length]: s <= t
    let matrix = |g: &mut Graph, name: &str, m: &crate::incontext::Rows| {
        g.tensor(name, &[m.len(), m.columns()], m.values())
    };
    let w_e = matrix(g, "W_E", &network.w_e);
    // Looked up rather than sliced, so that a sequence longer than n_ctx is an error.
    let table = matrix(g, "W_pos", &network.w_pos);
    let positions = g.op("Gather", &[&table, &places]);
    let embedded = g.op("MatMul", &[&inputs, &w_e]);
    let mut x = g.op("Add", &[&embedded, &positions]);
    for (l, layer) in network.layers.iter().enumerate() {
        let weights = Weights::new(g, l, layer);
        for _ in 0..layer.repeat {
            x = weights.apply(g, layer, &x, &past);
        }
    }
    let w_u = matrix(g, "W_U", &network.w_u);
    let outputs = g.op("MatMul", &[&x, &w_u]);
    g.output(&outputs, "outputs", &[batch(), length(), Dimension::Fixed(network.w_u.columns() as u64)]);
    let graph = std::mem::replace(g, Graph::new(Precision::F64));
    let about = "a causal transformer on vectors: predictions of what comes next";
    Ok(graph.into_model("byrote", about, ("byrote-network", &file.metadata()?)))
}

/// The names of a layer's weights.
struct Weights {
    heads: [Value; 4],
    step: Value,
    hidden: Option<(Value, Value)>,
}

impl Weights {
    fn new(g: &mut Graph, l: usize, layer: &Layer) -> Self {
        let parts = NetworkFile::stacked(layer);
        let heads =
            parts.map(|(name, shape, values)| g.tensor(&format!("blocks.{l}.attn.{name}"), &shape, &values));
        let hidden = layer.hidden.as_ref().map(|h| {
            let mut matrix = |name: &str, m: &crate::incontext::Rows| {
                g.tensor(&format!("blocks.{l}.mlp.{name}"), &[m.len(), m.columns()], m.values())
            };
            (matrix("W_in", &h.w_in), matrix("W_out", &h.w_out))
        });
        Self { heads, step: g.scalar(layer.step), hidden }
    }

    fn apply(&self, g: &mut Graph, layer: &Layer, x: &str, past: &str) -> Value {
        let [w_q, w_k, w_v, w_o] = &self.heads;
        let axis = g.list(&[1]);
        let tokens = g.op("Unsqueeze", &[x, &axis]); // [batch, 1, length, d_model]
        let [q, k, v] = [w_q, w_k, w_v].map(|w| g.op("MatMul", &[&tokens, w])); // [batch, n_heads, length, ..]
        let k = g.transpose(&k, &[0, 1, 3, 2]);
        let scores = g.op("MatMul", &[&q, &k]);
        // Masked before the exponential, where a later score could overflow.
        let later = g.scalar(if layer.attention == Attention::Identity { 0.0 } else { f64::NEG_INFINITY });
        let known = g.op("Where", &[past, &scores, &later]);
        let weights = match layer.attention {
            Attention::Identity => known,
            Attention::Exp => g.op("Exp", &[&known]),
            Attention::Softmax => g.op_with("Softmax", &[&known], &[("axis", -1)]),
        };
        let mixed = g.op("MatMul", &[&weights, &v]);
        let heads = g.op("MatMul", &[&mixed, w_o]); // [batch, n_heads, length, d_model]
        let sum = g.op_with("ReduceSum", &[&heads, &axis], &[("keepdims", 0)]);
        let step = g.op("Mul", &[&sum, &self.step]);
        let mut x = g.op("Add", &[x, &step]);
        if let Some((w_in, w_out)) = &self.hidden {
            let z = g.op("MatMul", &[&x, w_in]);
            let neurons = g.activation(Activation::Relu, &z);
            let more = g.op("MatMul", &[&neurons, w_out]);
            x = g.op("Add", &[&x, &more]);
        }
        x
    }
}
