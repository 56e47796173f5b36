//! Models of blocks, enclosed.
//!
//! The formulas at the head of [`crate::model::blocks`], once per node of the [`trie`] of the contexts and block, in real arithmetic
//! on the stored weights:
//!
//! - [`ball`]: numbers of about 106 bits with a radius, since radii grow by thousands per block;
//! - [`linear`]: linear maps, in compensated doubles;
//! - [`norm`], [`function`], [`rotary`]: normalization, activations, softmax means and rotary positions, in integers of 160 bits after
//!   the point.
//!
//! Rounding errors of programs that evaluate the model are not bounded: a certificate of a model of blocks is about exact arithmetic
//! alone.

pub mod ball;
pub mod function;
pub mod linear;
pub mod norm;
pub mod rotary;
pub mod trie;

use super::floating::FORMATS;
use super::layer::Entry;
use crate::dataset::Dataset;
use crate::model::{Blocks, Config, Hidden, Mixer, Model};
use crate::num::precise::Precise;
use crate::observe::{Counter, Observer, Stage};
use crate::{Error, Result};
use ball::{BITS, Ball, U};
use function::{FixedVector, Score, Scores, activation, mean};
use linear::BallLayer;
use norm::EnclosedNorm;
use rayon::prelude::*;
use rotary::EnclosedRotary;
use trie::Trie;

/// What the output of a model of blocks reads and writes, for each context.
pub(super) struct DeepEnclosures {
    /// What the output reads, `[contexts * d_model]`.
    pub stream: Vec<Entry>,
    /// The logits, `[contexts][d_vocab]`.
    pub logits: Vec<Vec<Entry>>,
}

impl DeepEnclosures {
    /// Encloses the logits of all contexts.
    pub(super) fn new(
        model: &Model,
        blocks: &Blocks,
        dataset: &Dataset,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let trie = Trie::of(dataset);
        let work = trie.nodes.len() as u64 * blocks.n_layers + dataset.len() as u64;
        let counter = Counter::new(observer, Stage::Enclosing, Some(work));
        let network = DeepNetwork::new(model, blocks, dataset)?;
        let mut stream = network.embedded(&trie);
        for block in 0..blocks.n_layers {
            stream = BlockLayers::new(&network, block).apply(&trie, &stream, &counter)?;
        }
        let output = network.output();
        let norm = network.norm("ln_final");
        let found: Vec<(Vec<Entry>, Vec<Entry>)> = trie
            .ends
            .par_iter()
            .map(|&node| {
                let y = if blocks.final_norm { norm.apply(&stream[node]) } else { stream[node].clone() };
                let logits = output.apply(&y);
                counter.add(1)?;
                Ok((y.iter().map(entry).collect(), logits.iter().map(entry).collect()))
            })
            .collect::<Result<_>>()?;
        let (stream, logits): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        Ok(Self { stream: stream.concat(), logits })
    }
}

/// A ball around a double. Errors of computed values are not bounded.
fn entry(ball: &Ball) -> Entry {
    let radius = (ball.radius + ball.lo.abs()) * (1.0 + 4.0 * U);
    Entry { centre: ball.hi, radius, errors: [f64::INFINITY; FORMATS.len()] }
}

/// A model of blocks with what all blocks share.
struct DeepNetwork<'a> {
    model: &'a Model,
    config: &'a Config,
    blocks: &'a Blocks,
    precise: Precise,
    rotary: Option<EnclosedRotary>,
    scores: Scores,
}

impl<'a> DeepNetwork<'a> {
    fn new(model: &'a Model, blocks: &'a Blocks, dataset: &Dataset) -> Result<Self> {
        let config = model.config();
        if !model.parameters().iter().all(|x| x.is_finite()) {
            return Err(Error::setting("model", "a certificate is not available: a weight is not finite"));
        }
        let precise = Precise::new(BITS);
        // No context is longer than those of the dataset.
        let n_ctx = dataset.n_ctx().min(config.shape.n_ctx) as usize;
        let rotary = match &blocks.rotary {
            Some(rotary) => Some(EnclosedRotary::new(rotary, n_ctx, &precise)?),
            None => None,
        };
        let scores = Scores::new(config.shape.d_head as usize, config.scale_scores);
        Ok(Self { model, config, blocks, precise, rotary, scores })
    }

    fn tensor(&self, name: &str) -> &'a [f64] {
        self.model.tensor(name).unwrap_or_default()
    }

    /// The normalization of this name; it changes nothing in models without.
    fn norm(&self, name: &str) -> EnclosedNorm<'a> {
        let (gain, bias) = (self.tensor(&format!("{name}.w")), self.model.tensor(&format!("{name}.b")));
        EnclosedNorm::new(self.blocks.norm, self.blocks.norm_eps, gain, bias)
    }

    fn embedded(&self, trie: &Trie) -> Vec<Vec<Ball>> {
        let d = self.config.shape.d_model as usize;
        let (table, positions) = (self.tensor("embed.W_E"), self.model.tensor("pos_embed.W_pos"));
        let row = |table: &[f64], row: usize| -> Vec<Ball> {
            table[row * d..][..d].iter().map(|&x| Ball::exact(x)).collect()
        };
        let embedded = |node: &trie::Node| match positions {
            Some(positions) => sum(&row(table, node.token as usize), &row(positions, node.position)),
            None => row(table, node.token as usize),
        };
        trie.nodes.iter().map(embedded).collect()
    }

    fn output(&self) -> BallLayer {
        let shape = &self.config.shape;
        let (d, d_vocab) = (shape.d_model as usize, shape.d_vocab as usize);
        let bias = self.model.tensor("unembed.b_U");
        match self.model.tensor("unembed.W_U") {
            Some(matrix) => BallLayer::new(matrix.to_vec(), bias, d_vocab),
            None => {
                let table = self.tensor("embed.W_E");
                let transposed = (0..d * d_vocab).map(|i| table[i % d_vocab * d + i / d_vocab]).collect();
                BallLayer::new(transposed, bias, d_vocab)
            }
        }
    }
}

fn sum(a: &[Ball], b: &[Ball]) -> Vec<Ball> {
    a.iter().zip(b).map(|(a, b)| a.plus(*b)).collect()
}

/// The maps of one block.
struct BlockLayers<'n, 'a> {
    network: &'n DeepNetwork<'a>,
    norms: [EnclosedNorm<'a>; 2],
    /// Queries, keys and values of all heads, and the output of attention.
    attention: Option<[BallLayer; 4]>,
    average: &'a [f64],
    hidden: Option<HiddenLayer>,
}

struct HiddenLayer {
    input: BallLayer,
    gate: Option<BallLayer>,
    output: BallLayer,
}

/// Queries, keys and values of a node.
struct Place {
    query: FixedVector,
    key: FixedVector,
    value: FixedVector,
}

impl<'n, 'a> BlockLayers<'n, 'a> {
    fn new(network: &'n DeepNetwork<'a>, block: u64) -> Self {
        let shape = &network.config.shape;
        let (d, m) = (shape.d_model as usize, shape.d_mlp as usize);
        let name = |part: &str| format!("blocks.{block}.{part}");
        let tensor = |part: &str| network.tensor(&name(part));
        let bias = |part: &str| network.model.tensor(&name(part));
        let layer =
            |weight: &str, b: &str, columns: usize| BallLayer::new(tensor(weight).to_vec(), bias(b), columns);
        // [heads, d_model, d_head] as one matrix [d_model, heads * d_head].
        let heads = |weight: &str, b: &str, heads: u64| {
            let (width, columns) = (shape.d_head as usize, (heads * shape.d_head) as usize);
            let from = tensor(weight);
            let at = |i: usize| from[(i % columns / width * d + i / columns) * width + i % columns % width];
            BallLayer::new((0..d * columns).map(at).collect(), bias(b), columns)
        };
        let kv = network.blocks.n_kv_heads;
        let attention = (shape.mixer == Mixer::Attention).then(|| {
            [
                heads("attn.W_Q", "attn.b_Q", shape.n_heads),
                heads("attn.W_K", "attn.b_K", kv),
                heads("attn.W_V", "attn.b_V", kv),
                layer("attn.W_O", "attn.b_O", d),
            ]
        });
        let hidden = (network.config.hidden == Hidden::Residual).then(|| HiddenLayer {
            input: layer("mlp.W_in", "mlp.b_in", m),
            gate: network.blocks.gated.then(|| layer("mlp.W_gate", "mlp.b_gate", m)),
            output: layer("mlp.W_out", "mlp.b_out", d),
        });
        Self {
            network,
            norms: [network.norm(&name("ln1")), network.norm(&name("ln2"))],
            attention,
            average: tensor("attn.u_pos"),
            hidden,
        }
    }

    /// The stream after the block, from that before it, at every node.
    fn apply(&self, trie: &Trie, stream: &[Vec<Ball>], counter: &Counter<'_>) -> Result<Vec<Vec<Ball>>> {
        let mixed = match self.network.config.shape.mixer {
            Mixer::Attention => self.attended(trie, stream),
            Mixer::Average => self.averaged(trie, stream),
            Mixer::None => None,
        };
        (0..stream.len())
            .into_par_iter()
            .map(|node| {
                let x = &stream[node];
                let after = match &mixed {
                    Some(mixed) if self.network.config.skip => sum(&mixed[node], x),
                    Some(mixed) => mixed[node].clone(),
                    None => x.clone(),
                };
                let read = if self.network.blocks.parallel { x } else { &after };
                let out = match &self.hidden {
                    Some(hidden) => {
                        let written = self.written(hidden, &self.norms[1].apply(read));
                        if self.network.blocks.mlp_skip { sum(&written, &after) } else { written }
                    }
                    None => after,
                };
                counter.add(1)?;
                Ok(out)
            })
            .collect()
    }

    fn written(&self, hidden: &HiddenLayer, y: &[Ball]) -> Vec<Ball> {
        let function = self.network.config.shape.activation;
        let psi = |z: &Ball| activation(function, &self.network.precise, z);
        let input = hidden.input.apply(y);
        let features: Vec<Ball> = match &hidden.gate {
            Some(gate) => gate.apply(y).iter().zip(&input).map(|(g, z)| psi(g).times(*z)).collect(),
            None => input.iter().map(psi).collect(),
        };
        hidden.output.apply(&features)
    }

    fn attended(&self, trie: &Trie, stream: &[Vec<Ball>]) -> Option<Vec<Vec<Ball>>> {
        let [query, key, value, output] = self.attention.as_ref()?;
        let shape = &self.network.config.shape;
        let (d_head, n_heads) = (shape.d_head as usize, shape.n_heads as usize);
        let kv = self.network.blocks.n_kv_heads as usize;
        let rotated = |mut rows: Vec<Ball>, position: usize| {
            if let Some(rotary) = &self.network.rotary {
                rows.chunks_exact_mut(d_head).for_each(|head| rotary.rotate(head, position));
            }
            FixedVector::new(rows)
        };
        let places: Vec<Place> = stream
            .par_iter()
            .zip(&trie.nodes)
            .map(|(x, node)| {
                let y = self.norms[0].apply(x);
                Place {
                    query: rotated(query.apply(&y), node.position),
                    key: rotated(key.apply(&y), node.position),
                    value: FixedVector::new(value.apply(&y)),
                }
            })
            .collect();
        let attend = |node: usize| {
            let path = trie.path(node);
            let values: Vec<&FixedVector> = path.iter().map(|&s| &places[s].value).collect();
            let mixed: Vec<Ball> = (0..n_heads)
                .flat_map(|head| {
                    let shared = head * kv / n_heads * d_head;
                    let score = |&s: &usize| -> Score {
                        let query = &places[node].query;
                        self.network.scores.of(query, head * d_head, &places[s].key, shared, d_head)
                    };
                    let scores: Vec<Score> = path.iter().map(score).collect();
                    mean(&self.network.precise, &scores, &values, shared, d_head)
                })
                .collect();
            output.apply(&mixed)
        };
        Some((0..stream.len()).into_par_iter().map(attend).collect())
    }

    fn averaged(&self, trie: &Trie, stream: &[Vec<Ball>]) -> Option<Vec<Vec<Ball>>> {
        let read: Vec<Vec<Ball>> = stream.par_iter().map(|x| self.norms[0].apply(x)).collect();
        let average = |node: usize| {
            let mut total = vec![Ball::exact(0.0); stream[node].len()];
            for s in trie.path(node) {
                let weight = Ball::exact(self.average[trie.nodes[s].position]);
                total.iter_mut().zip(&read[s]).for_each(|(t, y)| *t = t.plus(y.times(weight)));
            }
            total
        };
        Some((0..stream.len()).into_par_iter().map(average).collect())
    }
}

#[cfg(test)]
mod tests;
