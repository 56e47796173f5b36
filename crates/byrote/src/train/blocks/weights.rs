//! Where the tensors of a model of blocks are, their sizes, and copies packed once per evaluation.

use super::super::gradient::packed_weights::Packed;
use crate::model::{Blocks, Config, Mixer, Norm};
use crate::num::aligned::{AlignedVec, padded, spread_stride};
use crate::num::real::Real;
use rayon::prelude::*;
use std::ops::Range;

/// A weight and its bias among all parameters; empty where the model has none.
pub(super) type Pair = (Range<usize>, Range<usize>);

/// The tensors of a block.
#[derive(Default)]
pub(super) struct BlockLayout {
    pub(super) norm1: Pair,
    pub(super) u_pos: Range<usize>,
    /// Queries, keys and values.
    pub(super) qkv: [Pair; 3],
    pub(super) out: Pair,
    pub(super) norm2: Pair,
    pub(super) gate: Pair,
    pub(super) up: Pair,
    pub(super) down: Pair,
}

/// The tensors of a model.
pub(super) struct Layout {
    pub(super) w_e: Range<usize>,
    pub(super) w_pos: Range<usize>,
    pub(super) blocks: Vec<BlockLayout>,
    pub(super) norm: Pair,
    pub(super) w_u: Range<usize>,
    pub(super) b_u: Range<usize>,
    /// The number of parameters.
    pub(super) n: usize,
}

impl Layout {
    pub(super) fn new(config: &Config, blocks: &Blocks) -> Self {
        let tensors = config.tensors();
        let find = |block: Option<u32>, part: &str| {
            let tensor = tensors.iter().find(|t| t.name.block() == block && t.name.part() == part);
            tensor.map_or(0..0, |t| t.range.clone())
        };
        let block = |b: u32| {
            let pair = |w: &str, bias: &str| (find(Some(b), w), find(Some(b), bias));
            BlockLayout {
                norm1: pair("ln1.w", "ln1.b"),
                u_pos: find(Some(b), "attn.u_pos"),
                qkv: [("attn.W_Q", "attn.b_Q"), ("attn.W_K", "attn.b_K"), ("attn.W_V", "attn.b_V")]
                    .map(|(w, b)| pair(w, b)),
                out: pair("attn.W_O", "attn.b_O"),
                norm2: pair("ln2.w", "ln2.b"),
                gate: pair("mlp.W_gate", "mlp.b_gate"),
                up: pair("mlp.W_in", "mlp.b_in"),
                down: pair("mlp.W_out", "mlp.b_out"),
            }
        };
        Self {
            w_e: find(None, "embed.W_E"),
            w_pos: find(None, "pos_embed.W_pos"),
            blocks: (0..blocks.n_layers as u32).map(block).collect(),
            norm: (find(None, "ln_final.w"), find(None, "ln_final.b")),
            w_u: find(None, "unembed.W_U"),
            b_u: find(None, "unembed.b_U"),
            n: tensors.last().map_or(0, |t| t.range.end),
        }
    }
}

impl Layout {
    /// Where the parameters of the blocks end.
    pub(super) fn blocks_end(&self) -> usize {
        let after = [&self.norm.0, &self.w_u, &self.b_u];
        after.into_iter().filter(|range| !range.is_empty()).map(|range| range.start).min().unwrap_or(self.n)
    }
}

/// Dimensions as indices. `..._row` is the distance in memory between the rows of a matrix of that width.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) n_ctx: usize,
    pub(super) d: usize,
    pub(super) d_row: usize,
    /// Heads of queries, and of keys and values.
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
    pub(super) m_row: usize,
    pub(super) omega: usize,
    pub(super) omega_row: usize,
}

impl Sizes {
    pub(super) fn new(config: &Config, blocks: &Blocks) -> Self {
        let shape = &config.shape;
        let (heads, kv, d_head) = match shape.mixer {
            Mixer::Attention => (shape.n_heads as usize, blocks.n_kv_heads as usize, shape.d_head as usize),
            Mixer::Average | Mixer::None => (0, 0, 0),
        };
        let (d, m, omega) = (shape.d_model as usize, shape.d_mlp as usize, shape.d_vocab as usize);
        let head_row = padded(d_head);
        let (mixed, qkv) = (heads * head_row, (heads + 2 * kv) * head_row);
        Self {
            n_ctx: shape.n_ctx as usize,
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
            m,
            m_row: spread_stride(m),
            omega,
            omega_row: spread_stride(omega),
        }
    }

    /// The head of keys and values that serves a head of queries.
    #[inline(always)]
    pub(super) fn serving(&self, head: usize) -> usize {
        head * self.kv / self.heads
    }
}

/// Gain and bias of a normalization, padded with zeros; empty where the model has none.
pub(super) struct NormWeights<T> {
    pub(super) gain: AlignedVec<T>,
    pub(super) bias: AlignedVec<T>,
}

impl<T: Real> NormWeights<T> {
    fn new(d: usize, norm: Norm) -> Self {
        let width = if norm == Norm::None { 0 } else { d };
        Self { gain: AlignedVec::zeros(width), bias: AlignedVec::zeros(width) }
    }

    fn set(&mut self, parameters: &[T], (gain, bias): &Pair) {
        copy(&mut self.gain, parameters, gain);
        copy(&mut self.bias, parameters, bias);
    }
}

fn copy<T: Real>(target: &mut AlignedVec<T>, parameters: &[T], range: &Range<usize>) {
    target[..range.len()].copy_from_slice(&parameters[range.clone()]);
}

/// The weights of a block.
pub(super) struct BlockWeights<T> {
    pub(super) norm1: NormWeights<T>,
    pub(super) u_pos: Vec<T>,
    /// Queries, keys and values side by side, `[d, qkv]`.
    pub(super) qkv: Packed<T>,
    pub(super) b_qkv: AlignedVec<T>,
    pub(super) out: Packed<T>,
    pub(super) b_out: AlignedVec<T>,
    pub(super) norm2: NormWeights<T>,
    pub(super) gate: Packed<T>,
    pub(super) b_gate: AlignedVec<T>,
    pub(super) up: Packed<T>,
    pub(super) b_up: AlignedVec<T>,
    pub(super) down: Packed<T>,
    pub(super) b_down: AlignedVec<T>,
}

/// The weights of a model.
pub(super) struct Weights<T> {
    pub(super) blocks: Vec<BlockWeights<T>>,
    pub(super) norm: NormWeights<T>,
    pub(super) u: Packed<T>,
    /// Minus infinity beyond the vocabulary, so that the padding of the logits never counts.
    pub(super) b_u: AlignedVec<T>,
    /// Cosines and sines of rotary positions, `[n_ctx, dims / 2]`; empty without.
    pub(super) cos: Vec<T>,
    pub(super) sin: Vec<T>,
}

impl<T: Real> Weights<T> {
    pub(super) fn new(config: &Config, blocks: &Blocks, s: Sizes) -> Self {
        let averaged = if config.shape.mixer == Mixer::Average { s.n_ctx } else { 0 };
        let gate = if blocks.gated { s.m } else { 0 };
        let block = || BlockWeights {
            norm1: NormWeights::new(s.d, blocks.norm),
            u_pos: vec![T::from_f64(0.0); averaged],
            qkv: Packed::new(s.d, s.qkv),
            b_qkv: AlignedVec::zeros(s.qkv),
            out: Packed::new(s.mixed, s.d),
            b_out: AlignedVec::zeros(s.d),
            norm2: NormWeights::new(s.d, blocks.norm),
            gate: Packed::new(s.d, gate),
            b_gate: AlignedVec::zeros(gate),
            up: Packed::new(s.d, s.m),
            b_up: AlignedVec::zeros(s.m),
            down: Packed::new(s.m, s.d),
            b_down: AlignedVec::zeros(s.d),
        };
        let mut b_u = AlignedVec::zeros(s.omega);
        b_u[s.omega..].fill(T::from_f64(f64::NEG_INFINITY));
        let (cos, sin) = blocks.rotary.map_or_else(Default::default, |rotary| rotary.tables(s.n_ctx));
        let narrow = |table: Vec<f64>| table.into_iter().map(T::from_f64).collect();
        Self {
            blocks: (0..blocks.n_layers).map(|_| block()).collect(),
            norm: NormWeights::new(s.d, if blocks.final_norm { blocks.norm } else { Norm::None }),
            u: Packed::new(s.d, s.omega),
            b_u,
            cos: narrow(cos),
            sin: narrow(sin),
        }
    }

    /// Copies all weights.
    pub(super) fn pack(&mut self, parameters: &[T], layout: &Layout, s: Sizes) {
        let Self { blocks, norm, u, b_u, .. } = self;
        rayon::join(
            || {
                let blocks = blocks.par_iter_mut().zip(&layout.blocks);
                blocks.for_each(|(weights, layout)| weights.pack(parameters, layout, s));
            },
            || {
                norm.set(parameters, &layout.norm);
                copy(b_u, parameters, &layout.b_u);
                match layout.w_u.is_empty() {
                    true => u.fill_from_transpose(&parameters[layout.w_e.clone()], s.d),
                    false => u.fill(&parameters[layout.w_u.clone()], s.omega),
                }
            },
        );
    }
}

impl<T: Real> BlockWeights<T> {
    fn pack(&mut self, parameters: &[T], layout: &BlockLayout, s: Sizes) {
        self.norm1.set(parameters, &layout.norm1);
        self.norm2.set(parameters, &layout.norm2);
        self.u_pos.copy_from_slice(&parameters[layout.u_pos.clone()]);
        for ((weight, bias), first) in layout.qkv.iter().zip([0, s.keys, s.values]) {
            let heads = parameters[weight.clone()].chunks_exact((s.d * s.d_head).max(1));
            for (head, weight) in heads.enumerate() {
                self.qkv.set((0, first + head * s.head_row), weight, s.d_head);
            }
            let heads = parameters[bias.clone()].chunks_exact(s.d_head.max(1));
            for (head, bias) in heads.enumerate() {
                self.b_qkv[first + head * s.head_row..][..s.d_head].copy_from_slice(bias);
            }
        }
        let heads = parameters[layout.out.0.clone()].chunks_exact((s.d_head * s.d).max(1));
        for (head, weight) in heads.enumerate() {
            self.out.set((head * s.head_row, 0), weight, s.d);
        }
        copy(&mut self.b_out, parameters, &layout.out.1);
        for (packed, b, (weight, bias), columns) in [
            (&mut self.gate, &mut self.b_gate, &layout.gate, s.m),
            (&mut self.up, &mut self.b_up, &layout.up, s.m),
            (&mut self.down, &mut self.b_down, &layout.down, s.d),
        ] {
            if !weight.is_empty() {
                packed.fill(&parameters[weight.clone()], columns);
            }
            copy(b, parameters, bias);
        }
    }
}
