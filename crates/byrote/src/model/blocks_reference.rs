//! The slow f64 forward pass of a model of blocks, the reference for every faster one.
//!
//! It processes one context at a time with plain loops, following the formulas in [`super::blocks`].

use super::blocks::{Blocks, Norm, Rotary};
use super::config::{Hidden, Positions};
use super::reference::{add, affine, dot, softmax};
use super::shape::Mixer;
use super::weights::Model;

impl Model {
    /// Logits after every token of a context that the model can read, `[length, d_vocab]`.
    pub(super) fn forward_blocks(&self, blocks: &Blocks, context: &[u32]) -> Vec<Vec<f64>> {
        let shape = &self.config().shape;
        let (d, d_vocab) = (shape.d_model as usize, shape.d_vocab as usize);
        let table = self.tensor("embed.W_E").unwrap_or_default();
        let positions = match self.config().positions {
            Positions::Learned => self.tensor("pos_embed.W_pos"),
            _ => None,
        };
        let mut x: Vec<Vec<f64>> = Vec::new();
        for (s, &token) in context.iter().enumerate() {
            let mut row = table[token as usize * d..][..d].to_vec();
            if let Some(positions) = positions {
                add(&mut row, &positions[s * d..][..d]);
            }
            x.push(row);
        }
        for block in 0..blocks.n_layers {
            x = Block { model: self, blocks, prefix: format!("blocks.{block}.") }.apply(&x);
        }
        let logits = |x: &Vec<f64>| {
            let y = match blocks.final_norm {
                true => self.normalized(blocks, x, "ln_final"),
                false => x.clone(),
            };
            let mut logits = match self.tensor("unembed.W_U") {
                Some(output) => affine(&y, output, d_vocab, None),
                None => table.chunks_exact(d).map(|token| dot(token, &y)).collect(),
            };
            add(&mut logits, self.tensor("unembed.b_U").unwrap_or_default());
            logits
        };
        x.iter().map(logits).collect()
    }

    fn normalized(&self, blocks: &Blocks, x: &[f64], name: &str) -> Vec<f64> {
        let n = x.len() as f64;
        let mean = if blocks.norm == Norm::Layer { x.iter().sum::<f64>() / n } else { 0.0 };
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        let factor = match blocks.norm {
            Norm::None => return x.to_vec(),
            // A variance that overflows would make the row zero, and nobody would notice.
            _ if !variance.is_finite() => f64::NAN,
            Norm::Layer | Norm::Rms => 1.0 / (variance + blocks.norm_eps).sqrt(),
        };
        let gain = self.tensor(&format!("{name}.w")).unwrap_or_default();
        let mut y: Vec<f64> = x.iter().zip(gain).map(|(x, w)| (x - mean) * factor * w).collect();
        add(&mut y, self.tensor(&format!("{name}.b")).unwrap_or_default());
        y
    }
}

/// One block of a model.
struct Block<'a> {
    model: &'a Model,
    blocks: &'a Blocks,
    prefix: String,
}

impl Block<'_> {
    fn tensor(&self, name: &str) -> Option<&[f64]> {
        self.model.tensor(&format!("{}{name}", self.prefix))
    }

    fn normalized(&self, x: &[Vec<f64>], name: &str) -> Vec<Vec<f64>> {
        let name = format!("{}{name}", self.prefix);
        x.iter().map(|x| self.model.normalized(self.blocks, x, &name)).collect()
    }

    fn apply(&self, x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let config = self.model.config();
        let mut after = match config.shape.mixer {
            Mixer::Attention => self.attention(&self.normalized(x, "ln1")),
            Mixer::Average => self.average(&self.normalized(x, "ln1")),
            // Nothing is mixed, and what is not there cannot be skipped.
            Mixer::None => x.iter().map(|x| vec![0.0; x.len()]).collect(),
        };
        if config.skip || config.shape.mixer == Mixer::None {
            after.iter_mut().zip(x).for_each(|(a, x)| add(a, x));
        }
        if config.hidden == Hidden::Absent {
            return after;
        }
        let read = if self.blocks.parallel { x } else { &after };
        let mut out: Vec<Vec<f64>> = self.normalized(read, "ln2").iter().map(|y| self.mlp(y)).collect();
        if self.blocks.mlp_skip {
            out.iter_mut().zip(&after).for_each(|(o, a)| add(o, a));
        }
        out
    }

    fn attention(&self, y: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let config = self.model.config();
        let (d, d_head) = (config.shape.d_model as usize, config.shape.d_head as usize);
        let (heads, kv) = (config.shape.n_heads as usize, self.blocks.n_kv_heads as usize);
        let project = |weight: &str, bias: &str, head: usize| -> Vec<Vec<f64>> {
            let matrix = &self.tensor(weight).unwrap_or_default()[head * d * d_head..][..d * d_head];
            let bias = self.tensor(bias).map(|b| &b[head * d_head..][..d_head]);
            y.iter().map(|y| affine(y, matrix, d_head, bias)).collect()
        };
        let rotated = |rows: Vec<Vec<f64>>| match &self.blocks.rotary {
            Some(rotary) => rows.iter().enumerate().map(|(s, row)| rotate(rotary, row, s)).collect(),
            None => rows,
        };
        let start = self.tensor("attn.b_O").map_or_else(|| vec![0.0; d], <[f64]>::to_vec);
        let mut out = vec![start; y.len()];
        for head in 0..heads {
            let shared = head * kv / heads;
            let queries = rotated(project("attn.W_Q", "attn.b_Q", head));
            let keys = rotated(project("attn.W_K", "attn.b_K", shared));
            let values = project("attn.W_V", "attn.b_V", shared);
            let output = &self.tensor("attn.W_O").unwrap_or_default()[head * d_head * d..][..d_head * d];
            for (t, out) in out.iter_mut().enumerate() {
                let scores: Vec<f64> =
                    keys[..=t].iter().map(|key| config.score_factor() * dot(&queries[t], key)).collect();
                let mut mixed = vec![0.0; d_head];
                for (weight, value) in softmax(&scores).iter().zip(&values) {
                    mixed.iter_mut().zip(value).for_each(|(m, v)| *m += weight * v);
                }
                add(out, &affine(&mixed, output, d, None));
            }
        }
        out
    }

    fn average(&self, y: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let weights = self.tensor("attn.u_pos").unwrap_or_default();
        let mut sum = vec![0.0; y.first().map_or(0, Vec::len)];
        let mut out = Vec::new();
        for (u, y) in weights.iter().zip(y) {
            sum.iter_mut().zip(y).for_each(|(s, y)| *s += u * y);
            out.push(sum.clone());
        }
        out
    }

    fn mlp(&self, y: &[f64]) -> Vec<f64> {
        let shape = &self.model.config().shape;
        let (d, m, psi) = (shape.d_model as usize, shape.d_mlp as usize, shape.activation);
        let hidden = |weight: &str, bias: &str| {
            affine(y, self.tensor(weight).unwrap_or_default(), m, self.tensor(bias))
        };
        let mut h = hidden("mlp.W_in", "mlp.b_in");
        if self.blocks.gated {
            let gate = hidden("mlp.W_gate", "mlp.b_gate");
            h.iter_mut().zip(gate).for_each(|(h, gate)| *h *= psi.value(gate));
        } else {
            h.iter_mut().for_each(|h| *h = psi.value(*h));
        }
        affine(&h, self.tensor("mlp.W_out").unwrap_or_default(), d, self.tensor("mlp.b_out"))
    }
}

/// A query or key at a position.
fn rotate(rotary: &Rotary, row: &[f64], position: usize) -> Vec<f64> {
    let half = rotary.dims as usize / 2;
    let mut out = row.to_vec();
    for (i, frequency) in rotary.frequencies().into_iter().enumerate() {
        let (sin, cos) = (position as f64 * frequency).sin_cos();
        out[i] = row[i] * cos - row[i + half] * sin;
        out[i + half] = row[i + half] * cos + row[i] * sin;
    }
    out
}
