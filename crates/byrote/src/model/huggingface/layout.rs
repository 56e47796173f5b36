//! Where the weights of a model are in the tensors of its family.
//!
//! Starts and strides are those of [`Part`]: entry (i, j, k) of our tensor is entry `start + i strides[0] + j strides[1] +
//! k strides[2]` of the tensor there. With H heads of dimension e, D = H e, and width d:
//!
//! | tensor there | shape there | ours | start, strides |
//! |---|---|---|---|
//! | `c_attn.weight` (GPT-2) | [d, 3 D] | W_Q, W_K, W_V [H, d, e] | 0, D or 2 D; e, 3 D, 1 |
//! | `query_key_value.weight` (GPT-NeoX) | [3 D, d], head by head | W_Q, W_K, W_V [H, d, e] | 0, e d or 2 e d; 3 e d, 1, d |
//! | `q_proj.weight` (Llama) | [D, d] | W_Q [H, d, e] | 0; e d, 1, d |
//! | other weights of GPT-2 | [in, out] | [in, out] | the same order |
//! | other weights of the rest | [out, in] | [in, out] | 0; 0, 1, in |

use super::family::Family;
use crate::model::stored::{Foreign, Part};
use crate::model::{Blocks, Config, TensorName};

/// Lists the tensors of a model, in the order in which they are written.
struct Layout {
    d: usize,
    heads: usize,
    kv: usize,
    e: usize,
    all: Vec<Foreign>,
}

impl Layout {
    fn add(&mut self, name: String, shape: Vec<usize>, parts: Vec<Part>) {
        self.all.push(Foreign { name, shape, parts });
    }

    /// A tensor in our order.
    fn same(&mut self, name: String, tensor: TensorName, shape: &[usize]) {
        self.all.push(Foreign::same(name, tensor, shape));
    }

    /// A map stored as [out, in].
    fn transposed(&mut self, name: String, tensor: TensorName, inputs: usize, outputs: usize) {
        self.all.push(Foreign::transposed(name, tensor, inputs, outputs));
    }

    /// Queries, keys or values of all heads, stored as [heads e, d].
    fn projection(&mut self, name: String, tensor: TensorName, heads: usize) {
        let (d, e) = (self.d, self.e);
        let part = Part::new(tensor, 0, [(heads, e * d), (d, 1), (e, d)]);
        self.add(name, vec![heads * e, d], vec![part]);
    }
}

/// The tensors of a model of a family. `prefix` is in front of GPT-2's names, and `output` is the name of the output matrix.
pub(super) fn tensors(family: Family, config: &Config, prefix: &str, output: &str) -> Vec<Foreign> {
    let shape = &config.shape;
    let Some(blocks) = &shape.blocks else { return Vec::new() };
    let (d, d_vocab) = (shape.d_model as usize, shape.d_vocab as usize);
    let mut layout = Layout {
        d,
        heads: shape.n_heads as usize,
        kv: blocks.n_kv_heads as usize,
        e: shape.d_head as usize,
        all: Vec::new(),
    };
    let (embedding, last) = match family {
        Family::Gpt2 => (format!("{prefix}wte"), format!("{prefix}ln_f")),
        Family::GptNeox => ("gpt_neox.embed_in".into(), "gpt_neox.final_layer_norm".into()),
        Family::Llama | Family::Qwen2 => ("model.embed_tokens".into(), "model.norm".into()),
    };
    layout.same(format!("{embedding}.weight"), TensorName::of("embed.W_E"), &[d_vocab, d]);
    if family == Family::Gpt2 {
        let positions = [shape.n_ctx as usize, d];
        layout.same(format!("{prefix}wpe.weight"), TensorName::of("pos_embed.W_pos"), &positions);
    }
    for block in 0..blocks.n_layers as u32 {
        match family {
            Family::Gpt2 => gpt2_block(&mut layout, config, &format!("{prefix}h.{block}"), block),
            Family::GptNeox => neox_block(&mut layout, config, blocks, block),
            Family::Llama | Family::Qwen2 => llama_block(&mut layout, config, blocks, block),
        }
    }
    layout.same(format!("{last}.weight"), TensorName::of("ln_final.w"), &[d]);
    if matches!(family, Family::Gpt2 | Family::GptNeox) {
        layout.same(format!("{last}.bias"), TensorName::of("ln_final.b"), &[d]);
    }
    if !blocks.tied {
        layout.transposed(output.to_owned(), TensorName::of("unembed.W_U"), d, d_vocab);
    }
    layout.all
}

/// Our names of queries, keys and values: weights and biases.
const PROJECTIONS: [(&str, &str); 3] =
    [("attn.W_Q", "attn.b_Q"), ("attn.W_K", "attn.b_K"), ("attn.W_V", "attn.b_V")];

fn gpt2_block(layout: &mut Layout, config: &Config, name: &str, block: u32) {
    let of = |part| TensorName::in_block(block, part);
    let (d, m, heads, e) = (layout.d, config.shape.d_mlp as usize, layout.heads, layout.e);
    let all = heads * e;
    layout.same(format!("{name}.ln_1.weight"), of("ln1.w"), &[d]);
    layout.same(format!("{name}.ln_1.bias"), of("ln1.b"), &[d]);
    let weight = |(p, (weight, _)): (usize, (&'static str, _))| {
        Part::new(of(weight), p * all, [(heads, e), (d, 3 * all), (e, 1)])
    };
    let weights = PROJECTIONS.into_iter().enumerate().map(weight).collect();
    layout.add(format!("{name}.attn.c_attn.weight"), vec![d, 3 * all], weights);
    let bias = |(p, (_, bias)): (usize, (_, &'static str))| Part::new(of(bias), p * all, [(all, 1)]);
    let biases = PROJECTIONS.into_iter().enumerate().map(bias).collect();
    layout.add(format!("{name}.attn.c_attn.bias"), vec![3 * all], biases);
    layout.same(format!("{name}.attn.c_proj.weight"), of("attn.W_O"), &[all, d]);
    layout.same(format!("{name}.attn.c_proj.bias"), of("attn.b_O"), &[d]);
    layout.same(format!("{name}.ln_2.weight"), of("ln2.w"), &[d]);
    layout.same(format!("{name}.ln_2.bias"), of("ln2.b"), &[d]);
    layout.same(format!("{name}.mlp.c_fc.weight"), of("mlp.W_in"), &[d, m]);
    layout.same(format!("{name}.mlp.c_fc.bias"), of("mlp.b_in"), &[m]);
    layout.same(format!("{name}.mlp.c_proj.weight"), of("mlp.W_out"), &[m, d]);
    layout.same(format!("{name}.mlp.c_proj.bias"), of("mlp.b_out"), &[d]);
}

fn neox_block(layout: &mut Layout, config: &Config, blocks: &Blocks, block: u32) {
    let of = |part| TensorName::in_block(block, part);
    let name = format!("gpt_neox.layers.{block}");
    let (d, m, heads, e) = (layout.d, config.shape.d_mlp as usize, layout.heads, layout.e);
    layout.same(format!("{name}.input_layernorm.weight"), of("ln1.w"), &[d]);
    layout.same(format!("{name}.input_layernorm.bias"), of("ln1.b"), &[d]);
    let weight = |(p, (weight, _)): (usize, (&'static str, _))| {
        Part::new(of(weight), p * e * d, [(heads, 3 * e * d), (d, 1), (e, d)])
    };
    let fused = format!("{name}.attention.query_key_value");
    let weights = PROJECTIONS.into_iter().enumerate().map(weight).collect();
    layout.add(format!("{fused}.weight"), vec![3 * heads * e, d], weights);
    if config.attention_bias {
        let bias =
            |(p, (_, bias)): (usize, (_, &'static str))| Part::new(of(bias), p * e, [(heads, 3 * e), (e, 1)]);
        let biases = PROJECTIONS.into_iter().enumerate().map(bias).collect();
        layout.add(format!("{fused}.bias"), vec![3 * heads * e], biases);
    }
    layout.transposed(format!("{name}.attention.dense.weight"), of("attn.W_O"), heads * e, d);
    if blocks.attention_output_bias {
        layout.same(format!("{name}.attention.dense.bias"), of("attn.b_O"), &[d]);
    }
    layout.same(format!("{name}.post_attention_layernorm.weight"), of("ln2.w"), &[d]);
    layout.same(format!("{name}.post_attention_layernorm.bias"), of("ln2.b"), &[d]);
    layout.transposed(format!("{name}.mlp.dense_h_to_4h.weight"), of("mlp.W_in"), d, m);
    layout.same(format!("{name}.mlp.dense_h_to_4h.bias"), of("mlp.b_in"), &[m]);
    layout.transposed(format!("{name}.mlp.dense_4h_to_h.weight"), of("mlp.W_out"), m, d);
    layout.same(format!("{name}.mlp.dense_4h_to_h.bias"), of("mlp.b_out"), &[d]);
}

fn llama_block(layout: &mut Layout, config: &Config, blocks: &Blocks, block: u32) {
    let of = |part| TensorName::in_block(block, part);
    let name = format!("model.layers.{block}");
    let (d, m, e) = (layout.d, config.shape.d_mlp as usize, layout.e);
    layout.same(format!("{name}.input_layernorm.weight"), of("ln1.w"), &[d]);
    let heads = [layout.heads, layout.kv, layout.kv];
    for ((letter, heads), (weight, bias)) in ["q", "k", "v"].into_iter().zip(heads).zip(PROJECTIONS) {
        let name = format!("{name}.self_attn.{letter}_proj");
        layout.projection(format!("{name}.weight"), of(weight), heads);
        if config.attention_bias {
            layout.same(format!("{name}.bias"), of(bias), &[heads * e]);
        }
    }
    layout.transposed(format!("{name}.self_attn.o_proj.weight"), of("attn.W_O"), layout.heads * e, d);
    if blocks.attention_output_bias {
        layout.same(format!("{name}.self_attn.o_proj.bias"), of("attn.b_O"), &[d]);
    }
    layout.same(format!("{name}.post_attention_layernorm.weight"), of("ln2.w"), &[d]);
    for (part, weight, bias, inputs, outputs) in [
        ("gate_proj", "mlp.W_gate", "mlp.b_gate", d, m),
        ("up_proj", "mlp.W_in", "mlp.b_in", d, m),
        ("down_proj", "mlp.W_out", "mlp.b_out", m, d),
    ] {
        layout.transposed(format!("{name}.mlp.{part}.weight"), of(weight), inputs, outputs);
        if blocks.mlp_bias {
            layout.same(format!("{name}.mlp.{part}.bias"), of(bias), &[outputs]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Preset, Shape};

    #[test]
    fn every_parameter_has_one_place_and_every_place_one_parameter() {
        let shape =
            Shape { d_vocab: 7, n_ctx: 5, d_model: 12, n_heads: 3, d_head: 4, d_mlp: 10, ..Shape::default() };
        for preset in [Preset::Gpt2, Preset::GptNeox, Preset::Llama] {
            let config = preset.config(shape);
            let family = Family::of(&config).unwrap();
            let ours = config.tensors();
            let mut seen = vec![0; ours.len()];
            for foreign in tensors(family, &config, "", "lm_head.weight") {
                let mut places: Vec<usize> = foreign.parts.iter().flat_map(Part::indices).collect();
                places.sort_unstable();
                let size: usize = foreign.shape.iter().product();
                assert!(places.into_iter().eq(0..size), "{preset}: {}", foreign.name);
                for part in &foreign.parts {
                    let i = ours.iter().position(|t| t.name == part.tensor).unwrap();
                    assert_eq!(part.indices().count(), ours[i].range.len(), "{preset}: {}", ours[i].name);
                    seen[i] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{preset}");
        }
    }
}
