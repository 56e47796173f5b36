//! The weights of a model of blocks in f32, packed for products as they are read.
//!
//! Every tensor is read once, into its final place where the layout allows it; only the maps of attention heads pass through a
//! buffer, of one tensor. An output that is the transposed embedding is kept once: packed, with rows of the embedding as columns.

use crate::model::{Blocks, Config, Mixer, Norm, Tensor};
use crate::num::aligned::{AlignedVec, padded, spread_stride};
use crate::num::gemm::Panels;
use crate::{Error, Result};

/// Dimensions as indices. `..._row` is the distance in memory between the rows of a matrix of that width.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) d: usize,
    pub(super) d_row: usize,
    /// Heads of queries, and of keys and values; 0 without attention.
    pub(super) heads: usize,
    pub(super) kv: usize,
    pub(super) d_head: usize,
    /// The padded width of a head.
    pub(super) head_row: usize,
    /// The padded width of all heads of queries.
    pub(super) mixed: usize,
    pub(super) mixed_row: usize,
    /// The padded width of queries, keys and values side by side, and where keys and values begin.
    pub(super) qkv: usize,
    pub(super) qkv_row: usize,
    pub(super) keys: usize,
    pub(super) values: usize,
    pub(super) m: usize,
    pub(super) d_vocab: usize,
}

impl Sizes {
    fn new(config: &Config, blocks: &Blocks) -> Self {
        let shape = &config.shape;
        let (heads, kv, d_head) = match shape.mixer {
            Mixer::Attention => (shape.n_heads as usize, blocks.n_kv_heads as usize, shape.d_head as usize),
            Mixer::Average | Mixer::None => (0, 0, 0),
        };
        let d = shape.d_model as usize;
        let head_row = padded(d_head);
        let (mixed, qkv) = (heads * head_row, (heads + 2 * kv) * head_row);
        Self {
            d,
            d_row: spread_stride(d),
            heads,
            kv,
            d_head,
            head_row,
            mixed,
            mixed_row: spread_stride(mixed),
            qkv,
            qkv_row: spread_stride(qkv),
            keys: mixed,
            values: mixed + kv * head_row,
            m: shape.d_mlp as usize,
            d_vocab: shape.d_vocab as usize,
        }
    }
}

/// A linear map and its bias, which is empty where the model has none.
pub(super) struct Affine {
    pub(super) map: Panels<f32>,
    pub(super) bias: AlignedVec<f32>,
}

impl Affine {
    fn new(depth: usize, width: usize, bias: bool) -> Self {
        let bias = if bias { width } else { 0 };
        Self { map: Panels::zeros(depth, width), bias: AlignedVec::zeros(bias) }
    }
}

/// Gain and bias of a normalization, padded with zeros; empty where the model has none.
pub(super) struct NormWeights {
    pub(super) gain: AlignedVec<f32>,
    pub(super) bias: AlignedVec<f32>,
}

impl NormWeights {
    fn new(d: usize, norm: Norm) -> Self {
        let width = |present: bool| AlignedVec::zeros(if present { d } else { 0 });
        Self { gain: width(norm != Norm::None), bias: width(norm == Norm::Layer) }
    }
}

/// The weights of a block.
pub(super) struct BlockWeights {
    pub(super) norm1: NormWeights,
    /// The weights of token averaging.
    pub(super) u_pos: Vec<f32>,
    /// Queries, keys and values side by side, `[d, qkv]`.
    pub(super) qkv: Affine,
    pub(super) out: Affine,
    pub(super) norm2: NormWeights,
    pub(super) gate: Affine,
    pub(super) up: Affine,
    pub(super) down: Affine,
}

/// The weights of a model.
pub(super) struct Weights {
    pub(super) sizes: Sizes,
    tied: bool,
    /// The embedding, `[d_vocab, d]`; empty if it is the transposed output.
    embedding: Vec<f32>,
    /// Learned positions, `[n_ctx, d]`; empty without.
    positions: Vec<f32>,
    pub(super) blocks: Vec<BlockWeights>,
    pub(super) norm: NormWeights,
    pub(super) output: Affine,
    /// Cosines and sines of rotary positions, `[n_ctx, dims / 2]`; empty without.
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
}

/// Writes the values of a tensor, row-major.
pub(super) type Read<'a> = dyn FnMut(&Tensor, &mut [f32]) -> Result<()> + 'a;

impl Weights {
    /// Reads all tensors of a checked configuration, in their order.
    pub(super) fn read(config: &Config, blocks: &Blocks, read: &mut Read<'_>) -> Result<Self> {
        let mut weights = Self::zeros(config, blocks);
        let mut checked = |tensor: &Tensor, values: &mut [f32]| {
            read(tensor, values)?;
            match values.iter().all(|x| x.is_finite()) {
                true => Ok(()),
                false => {
                    let message = format!("{} contains a number that is not finite in f32", tensor.name);
                    Err(Error::setting("parameters", message))
                }
            }
        };
        for tensor in config.tensors() {
            weights.read_tensor(&tensor, &mut checked)?;
        }
        Ok(weights)
    }

    fn zeros(config: &Config, blocks: &Blocks) -> Self {
        let s = Sizes::new(config, blocks);
        let n_ctx = config.shape.n_ctx as usize;
        let averaged = if config.shape.mixer == Mixer::Average { n_ctx } else { 0 };
        let gate = if blocks.gated { s.m } else { 0 };
        let block = || BlockWeights {
            norm1: NormWeights::new(s.d, blocks.norm),
            u_pos: vec![0.0; averaged],
            qkv: Affine::new(s.d, s.qkv, config.attention_bias),
            out: Affine::new(s.mixed, s.d, blocks.attention_output_bias),
            norm2: NormWeights::new(s.d, blocks.norm),
            gate: Affine::new(s.d, gate, blocks.mlp_bias),
            up: Affine::new(s.d, s.m, blocks.mlp_bias),
            down: Affine::new(s.m, s.d, blocks.mlp_bias),
        };
        let (cos, sin) = blocks.rotary.map_or_else(Default::default, |rotary| rotary.tables(n_ctx));
        let narrow = |table: Vec<f64>| table.into_iter().map(|x| x as f32).collect();
        Self {
            sizes: s,
            tied: blocks.tied,
            embedding: Vec::new(),
            positions: Vec::new(),
            blocks: (0..blocks.n_layers).map(|_| block()).collect(),
            norm: NormWeights::new(s.d, if blocks.final_norm { blocks.norm } else { Norm::None }),
            output: Affine::new(s.d, s.d_vocab, config.output_bias),
            cos: narrow(cos),
            sin: narrow(sin),
        }
    }

    fn read_tensor(&mut self, tensor: &Tensor, read: &mut Read<'_>) -> Result<()> {
        let s = self.sizes;
        let n = tensor.range.len();
        let mut whole = || {
            let mut values = vec![0.0; n];
            read(tensor, &mut values).map(|()| values)
        };
        let Some(block) = tensor.name.block() else {
            return match tensor.name.part() {
                "embed.W_E" if self.tied => {
                    self.output.map.read_columns(s.d_vocab, |values| read(tensor, values))
                }
                "embed.W_E" => whole().map(|values| self.embedding = values),
                "pos_embed.W_pos" => whole().map(|values| self.positions = values),
                "ln_final.w" => read(tensor, &mut self.norm.gain[..n]),
                "ln_final.b" => read(tensor, &mut self.norm.bias[..n]),
                "unembed.W_U" => self.output.map.read_rows(s.d_vocab, |values| read(tensor, values)),
                "unembed.b_U" => read(tensor, &mut self.output.bias[..n]),
                other => unknown(other),
            };
        };
        let block = &mut self.blocks[block as usize];
        match tensor.name.part() {
            "ln1.w" => read(tensor, &mut block.norm1.gain[..n]),
            "ln1.b" => read(tensor, &mut block.norm1.bias[..n]),
            "attn.u_pos" => read(tensor, &mut block.u_pos),
            part @ ("attn.W_Q" | "attn.W_K" | "attn.W_V") => {
                let (values, first) = (whole()?, s.first(part));
                for (head, values) in values.chunks_exact(s.d * s.d_head).enumerate() {
                    block.qkv.map.set((0, first + head * s.head_row), values, s.d_head);
                }
                Ok(())
            }
            part @ ("attn.b_Q" | "attn.b_K" | "attn.b_V") => {
                let (values, first) = (whole()?, s.first(part));
                for (head, values) in values.chunks_exact(s.d_head).enumerate() {
                    block.qkv.bias[first + head * s.head_row..][..s.d_head].copy_from_slice(values);
                }
                Ok(())
            }
            "attn.W_O" if s.d_head == s.head_row => {
                block.out.map.read_rows(s.d, |values| read(tensor, values))
            }
            "attn.W_O" => {
                for (head, values) in whole()?.chunks_exact(s.d_head * s.d).enumerate() {
                    block.out.map.set((head * s.head_row, 0), values, s.d);
                }
                Ok(())
            }
            "attn.b_O" => read(tensor, &mut block.out.bias[..n]),
            "ln2.w" => read(tensor, &mut block.norm2.gain[..n]),
            "ln2.b" => read(tensor, &mut block.norm2.bias[..n]),
            "mlp.W_gate" => block.gate.map.read_rows(s.m, |values| read(tensor, values)),
            "mlp.b_gate" => read(tensor, &mut block.gate.bias[..n]),
            "mlp.W_in" => block.up.map.read_rows(s.m, |values| read(tensor, values)),
            "mlp.b_in" => read(tensor, &mut block.up.bias[..n]),
            "mlp.W_out" => block.down.map.read_rows(s.d, |values| read(tensor, values)),
            "mlp.b_out" => read(tensor, &mut block.down.bias[..n]),
            other => unknown(other),
        }
    }

    /// Writes the embedding of a token at a position, counted from 0, to a row of the stream.
    pub(super) fn embed(&self, token: usize, position: usize, x: &mut [f32]) {
        let d = self.sizes.d;
        let (x, padding) = x.split_at_mut(d);
        match self.tied {
            true => self.output.map.copy_column(token, x),
            false => x.copy_from_slice(&self.embedding[token * d..][..d]),
        }
        padding.fill(0.0);
        if !self.positions.is_empty() {
            x.iter_mut().zip(&self.positions[position * d..][..d]).for_each(|(x, p)| *x += p);
        }
    }
}

impl Sizes {
    /// Where queries, keys or values begin, by the last letter of a tensor's name.
    fn first(&self, part: &str) -> usize {
        match part.as_bytes().last() {
            Some(b'Q') => 0,
            Some(b'K') => self.keys,
            _ => self.values,
        }
    }
}

/// The list of tensors has a part that is not read here.
fn unknown(part: &str) -> Result<()> {
    unreachable!("a tensor named {part}")
}
