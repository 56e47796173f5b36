//! A model of blocks as a graph.
//!
//! The formulas at the head of [`crate::model::blocks`] for a whole batch at once, at every position: a stream
//! `[batch, length, d_model]` passes through the blocks, and the output reads the last position of each row. Padding comes after
//! the last position, and no position reads what comes after it, so padding changes nothing.
//!
//! ```text
//! before[t, s] = s < t + 1
//! scores[b, h, t, s] = factor q[b, h, t] . k[b, h, s], -infinity unless before      softmax over s
//! rotated(q)[.., t, :] = q cos[t] + (q R) sin[t]                                    (q R)_i = -q_(i+half), (q R)_(i+half) = q_i
//! average[t, s] = u_pos[s] if before, else 0
//! ```
//!
//! Cosines and sines are constants of the graph, `[n_ctx, d_head]`, with 1 and 0 where nothing is rotated.

use super::Writer;
use super::graph::{Dimension, Value};
use crate::model::{Blocks, Hidden, Mixer, Norm, Rotary};

/// What every block of a graph shares.
pub(super) struct Shared {
    /// 0, 1, ... length - 1.
    places: Value,
    /// Which positions each position reads, `[length, length]`.
    before: Value,
    /// R, cosines and sines, the last two `[length, d_head]`.
    rotary: Option<[Value; 3]>,
}

impl Writer<'_> {
    pub(super) fn write_blocks(&mut self, blocks: &Blocks) {
        let shape = self.config.shape;
        let rows = self.rows();
        let Some(table) = self.weight("embed.W_E") else { return };
        let mut x = self.graph.op("Gather", &[&table, &rows.known]);
        if let Some(positions) = self.weight("pos_embed.W_pos") {
            let vectors = self.graph.op("Gather", &[&positions, &rows.places]);
            x = self.graph.op("Add", &[&x, &vectors]);
        }
        let shared = self.shared(blocks, rows.places);
        for block in 0..blocks.n_layers {
            x = self.block(blocks, &shared, &format!("blocks.{block}."), &x);
        }
        x = self.graph.op_with("GatherND", &[&x, &rows.last], &[("batch_dims", 1)]); // [batch, d_model]
        if blocks.final_norm {
            x = self.normalized(blocks, &x, "ln_final");
        }
        let mut logits = match self.weight("unembed.W_U") {
            Some(output) => self.graph.op("MatMul", &[&x, &output]),
            None => {
                let output = self.graph.transpose(&table, &[1, 0]);
                self.graph.op("MatMul", &[&x, &output])
            }
        };
        if let Some(bias) = self.weight("unembed.b_U") {
            logits = self.graph.op("Add", &[&logits, &bias]);
        }
        self.graph.output(&logits, "logits", &[Dimension::Free("batch"), Dimension::Fixed(shape.d_vocab)]);
    }

    fn shared(&mut self, blocks: &Blocks, places: Value) -> Shared {
        let (axis, one) = (self.graph.list(&[1]), self.graph.index(1));
        let column = self.graph.op("Unsqueeze", &[&places, &axis]);
        let next = self.graph.op("Add", &[&column, &one]);
        let before = self.graph.op("Less", &[&places, &next]);
        let rotary = blocks.rotary.as_ref().map(|rotary| self.rotary(rotary, &places));
        Shared { places, before, rotary }
    }

    /// R, and the cosines and sines of the positions.
    fn rotary(&mut self, rotary: &Rotary, places: &str) -> [Value; 3] {
        let (n_ctx, d_head) = (self.config.shape.n_ctx as usize, self.config.shape.d_head as usize);
        let half = rotary.dims as usize / 2;
        let (cos, sin) = rotary.tables(n_ctx);
        let spread = |table: &[f64], rest: f64| -> Vec<f64> {
            let entry = |i: usize| match i % d_head {
                j if j < 2 * half => table[i / d_head * half + j % half],
                _ => rest,
            };
            (0..n_ctx * d_head).map(entry).collect()
        };
        let turn = |i: usize| match (i / d_head, i % d_head) {
            (from, to) if to < half && from == to + half => -1.0,
            (from, to) if from < half && to == from + half => 1.0,
            _ => 0.0,
        };
        let matrix: Vec<f64> = (0..d_head * d_head).map(turn).collect();
        let g = &mut self.graph;
        let matrix = g.tensor("rotary_turn", &[d_head, d_head], &matrix);
        let [cos, sin] =
            [("rotary_cos", spread(&cos, 1.0)), ("rotary_sin", spread(&sin, 0.0))].map(|(name, values)| {
                let table = g.tensor(name, &[n_ctx, d_head], &values);
                // Looked up rather than sliced, so that a row longer than n_ctx is an error.
                g.op("Gather", &[&table, places])
            });
        [matrix, cos, sin]
    }

    fn block(&mut self, blocks: &Blocks, shared: &Shared, prefix: &str, x: &str) -> Value {
        let mixed = match self.config.shape.mixer {
            Mixer::None => None,
            Mixer::Attention => {
                let y = self.normalized(blocks, x, &format!("{prefix}ln1"));
                Some(self.attention_of_block(blocks, shared, prefix, &y))
            }
            Mixer::Average => {
                let y = self.normalized(blocks, x, &format!("{prefix}ln1"));
                Some(self.average_of_block(shared, prefix, &y))
            }
        };
        let after = match mixed {
            Some(mixed) if self.config.skip => self.graph.op("Add", &[&mixed, x]),
            Some(mixed) => mixed,
            None => x.to_owned(),
        };
        if self.config.hidden == Hidden::Absent {
            return after;
        }
        let read = if blocks.parallel { x } else { &after };
        let y = self.normalized(blocks, read, &format!("{prefix}ln2"));
        let mut hidden = self.affine(&y, &format!("{prefix}mlp.W_in"), &format!("{prefix}mlp.b_in"));
        let activation = self.config.shape.activation;
        if blocks.gated {
            let gate = self.affine(&y, &format!("{prefix}mlp.W_gate"), &format!("{prefix}mlp.b_gate"));
            let gate = self.graph.activation(activation, &gate);
            hidden = self.graph.op("Mul", &[&hidden, &gate]);
        } else {
            hidden = self.graph.activation(activation, &hidden);
        }
        let out = self.affine(&hidden, &format!("{prefix}mlp.W_out"), &format!("{prefix}mlp.b_out"));
        if blocks.mlp_skip { self.graph.op("Add", &[&out, &after]) } else { out }
    }

    /// Normalized over the last dimension.
    fn normalized(&mut self, blocks: &Blocks, x: &str, name: &str) -> Value {
        let centred = match blocks.norm {
            Norm::None => return x.to_owned(),
            Norm::Rms => x.to_owned(),
            Norm::Layer => {
                let mean = self.graph.mean(x);
                self.graph.op("Sub", &[x, &mean])
            }
        };
        let square = self.graph.op("Mul", &[&centred, &centred]);
        let variance = self.graph.mean(&square);
        let eps = self.graph.scalar(blocks.norm_eps);
        let sum = self.graph.op("Add", &[&variance, &eps]);
        let root = self.graph.op("Sqrt", &[&sum]);
        let (gain, bias) = (self.weight(&format!("{name}.w")), self.weight(&format!("{name}.b")));
        let y = match gain {
            // A gain of one number goes before the division: ONNX Runtime fuses a product with a constant number next to it, and keeps
            // that in f32.
            Some(gain) if self.config.shape.d_model == 1 => {
                let scaled = self.graph.op("Mul", &[&centred, &gain]);
                self.graph.op("Div", &[&scaled, &root])
            }
            Some(gain) => {
                let y = self.graph.op("Div", &[&centred, &root]);
                self.graph.op("Mul", &[&y, &gain])
            }
            None => self.graph.op("Div", &[&centred, &root]),
        };
        match bias {
            Some(bias) => self.graph.op("Add", &[&y, &bias]),
            None => y,
        }
    }

    /// The output of attention at every position, `[batch, length, d_model]`.
    fn attention_of_block(&mut self, blocks: &Blocks, shared: &Shared, prefix: &str, y: &str) -> Value {
        let axis = self.graph.list(&[1]);
        let all = self.graph.op("Unsqueeze", &[y, &axis]); // [batch, 1, length, d_model]
        // Queries, keys and values, [batch, n_heads, length, d_head].
        let [query, key, value] = ["Q", "K", "V"].map(|kind| {
            let shared_heads = kind != "Q" && blocks.n_kv_heads != self.config.shape.n_heads;
            self.heads(&all, prefix, kind, shared_heads.then_some(blocks.n_kv_heads))
        });
        let [query, key] = [query, key].map(|rows| match &shared.rotary {
            Some(rotary) => self.rotated(rotary, &rows),
            None => rows,
        });
        let key = self.graph.transpose(&key, &[0, 1, 3, 2]);
        let scores = self.graph.op("MatMul", &[&query, &key]); // [batch, n_heads, length, length]
        let never = self.graph.scalar(f64::NEG_INFINITY);
        let mut scores = self.graph.op("Where", &[&shared.before, &scores, &never]);
        if self.config.scale_scores {
            // Not next to the product: ONNX Runtime fuses a product with a constant factor and keeps the factor in f32.
            let factor = self.graph.scalar(self.config.score_factor());
            scores = self.graph.op("Mul", &[&scores, &factor]);
        }
        let weights = self.graph.op_with("Softmax", &[&scores], &[("axis", -1)]);
        let mixed = self.graph.op("MatMul", &[&weights, &value]);
        let heads = self.project(&mixed, &format!("{prefix}attn.W_O"), ""); // [batch, n_heads, length, d_model]
        let sum = self.graph.op_with("ReduceSum", &[&heads, &axis], &[("keepdims", 0)]);
        match self.weight(&format!("{prefix}attn.b_O")) {
            Some(bias) => self.graph.op("Add", &[&sum, &bias]),
            None => sum,
        }
    }

    /// Queries, keys or values of all heads; heads of keys and values that serve several heads of queries are repeated.
    fn heads(&mut self, all: &str, prefix: &str, kind: &str, n_kv_heads: Option<u64>) -> Value {
        let (weight, bias) = (format!("{prefix}attn.W_{kind}"), format!("{prefix}attn.b_{kind}"));
        let Some(kv) = n_kv_heads else { return self.project(all, &weight, &bias) };
        let n_heads = self.config.shape.n_heads;
        let which: Vec<i64> = (0..n_heads).map(|h| (h * kv / n_heads) as i64).collect();
        let which = self.graph.list(&which);
        let Some(weight) = self.weight(&weight) else { return all.to_owned() };
        let weight = self.graph.op("Gather", &[&weight, &which]); // [n_heads, d_model, d_head]
        let product = self.graph.op("MatMul", &[all, &weight]);
        match self.weight(&bias) {
            Some(bias) => {
                let bias = self.graph.op("Gather", &[&bias, &which]);
                let axis = self.graph.list(&[1]);
                let bias = self.graph.op("Unsqueeze", &[&bias, &axis]); // [n_heads, 1, d_head]
                self.graph.op("Add", &[&product, &bias])
            }
            None => product,
        }
    }

    fn rotated(&mut self, [matrix, cos, sin]: &[Value; 3], rows: &str) -> Value {
        let turned = self.graph.op("MatMul", &[rows, matrix]);
        let (kept, turned) = (self.graph.op("Mul", &[rows, cos]), self.graph.op("Mul", &[&turned, sin]));
        self.graph.op("Add", &[&kept, &turned])
    }

    /// The weighted sums up to every position, `[batch, length, d_model]`.
    fn average_of_block(&mut self, shared: &Shared, prefix: &str, y: &str) -> Value {
        let Some(weights) = self.weight(&format!("{prefix}attn.u_pos")) else { return y.to_owned() };
        let weights = self.graph.op("Gather", &[&weights, &shared.places]);
        let zero = self.graph.scalar(0.0);
        let weights = self.graph.op("Where", &[&shared.before, &weights, &zero]); // [length, length]
        self.graph.op("MatMul", &[&weights, y])
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::*;
    use crate::model::{Model, ModelSpec, Precision, Preset};

    /// What comes after the root of a normalization: the first two operators, by the names of their results.
    fn after_the_root(d_model: u64) -> [String; 2] {
        let spec = ModelSpec::default().preset(Preset::Gpt2).norm(Norm::Rms).d_model(d_model);
        let model = Model::random(spec.resolve(5, 3).unwrap(), 0).unwrap();
        let config = model.config();
        let mut writer = Writer { graph: Graph::new(Precision::F64), model: &model, config };
        writer.write_blocks(config.shape.blocks.as_ref().unwrap());
        let bytes = writer.graph.into_model("byrote", "", ("byrote", ""));
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<_> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let root = (0..).find(|i| names.contains(&format!("sqrt_{i}").as_str())).unwrap();
        [root + 1, root + 2].map(|i| {
            let mut known = ["mul", "div"].into_iter();
            known.find(|name| names.contains(&format!("{name}_{i}").as_str())).unwrap().to_owned()
        })
    }

    #[test]
    fn a_gain_of_one_number_is_not_beside_a_product() {
        assert_eq!(after_the_root(4), ["div", "mul"]);
        assert_eq!(after_the_root(1), ["mul", "div"]);
    }
}
