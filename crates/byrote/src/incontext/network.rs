//! A causal transformer of any number of layers on sequences of vectors. It is independent of what its weights are for.
//!
//! ```text
//! e_t = z_t W_E + W_pos[t]                                                     tokens [T, d_model]
//! e_t <- e_t + step sum_h ( sum_{s <= t} N(q_t . k_s)  v_s ) W_O,    q = e W_Q, k = e W_K, v = e W_V    a layer's heads
//! e_t <- e_t + relu(e_t W_in) W_out                                            its hidden layer, where it has one
//! output_t = e_t W_U
//! ```
//!
//! N is the identity, the exponential, or softmax over s <= t. There are no biases: a token may contain a constant 1. A
//! layer may be repeated, applying the same weights several times. Row t of every product is summed in the same order
//! whatever the other rows contain, and sums run only over s <= t, so later vectors cannot change a bit of earlier
//! outputs.
//!
//! ```
//! use byrote::incontext::{Network, Rows};
//! use byrote::observe::Silent;
//!
//! // No layers: a vector times W_E and W_U, plus its position times W_U.
//! let network = Network {
//!     w_e: Rows::new(1, vec![2.0])?,
//!     w_pos: Rows::new(1, vec![0.0, 1.0])?,
//!     layers: Vec::new(),
//!     w_u: Rows::new(1, vec![3.0])?,
//! };
//! network.check()?;
//! let outputs = network.evaluate(&Rows::new(1, vec![1.0, 1.0])?, &Silent)?;
//! assert_eq!(outputs.values(), [6.0, 9.0]);
//! # Ok::<(), byrote::Error>(())
//! ```

use super::kernel::Attention;
use super::rows::{Matrix, Rows, Transposed};
use crate::num::aligned::{AlignedVec, padded};
use crate::num::elementary::exp;
use crate::num::gemm::{Left, Product, TargetOrder, Update};
use crate::num::simd::{self, Isa, SimdKernel};
use crate::observe::Observer;
use crate::{Error, Result};

/// One head: matrices [d_model, d_head] for queries and keys, [d_model, d_value] and [d_value, d_model] for values.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionHead {
    /// Queries.
    pub w_q: Rows,
    /// Keys.
    pub w_k: Rows,
    /// Values.
    pub w_v: Rows,
    /// From values back to tokens.
    pub w_o: Rows,
}

/// A hidden layer with ReLU: [d_model, d_mlp] and [d_mlp, d_model].
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenLayer {
    /// From tokens to neurons.
    pub w_in: Rows,
    /// From neurons back to tokens.
    pub w_out: Rows,
}

/// A layer and its number of repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// What is done with the scores.
    pub attention: Attention,
    /// The factor of the heads' output.
    pub step: f64,
    /// The heads.
    pub heads: Vec<AttentionHead>,
    /// The hidden layer after the heads.
    pub hidden: Option<HiddenLayer>,
    /// The number of times the layer is applied.
    pub repeat: u64,
}

/// The network.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// [d_in, d_model].
    pub w_e: Rows,
    /// [n_ctx, d_model].
    pub w_pos: Rows,
    /// The layers, in order.
    pub layers: Vec<Layer>,
    /// [d_model, d_out].
    pub w_u: Rows,
}

impl Network {
    /// The width of tokens.
    pub fn d_model(&self) -> usize {
        self.w_e.columns()
    }

    /// The length of the longest sequence it reads.
    pub fn n_ctx(&self) -> usize {
        self.w_pos.len()
    }

    /// The number of layers, including repetitions.
    pub fn depth(&self) -> u64 {
        self.layers.iter().map(|layer| layer.repeat).sum()
    }

    /// The number of stored values: a repeated layer counts once.
    pub fn parameters(&self) -> usize {
        let rows = |m: &Rows| m.values().len();
        let layer = |layer: &Layer| {
            let heads: usize =
                layer.heads.iter().map(|h| rows(&h.w_q) + rows(&h.w_k) + rows(&h.w_v) + rows(&h.w_o)).sum();
            1 + heads + layer.hidden.as_ref().map_or(0, |h| rows(&h.w_in) + rows(&h.w_out))
        };
        rows(&self.w_e) + rows(&self.w_pos) + rows(&self.w_u) + self.layers.iter().map(layer).sum::<usize>()
    }

    /// Checks that all matrices fit together and are finite.
    ///
    /// # Errors
    /// If one does not; the message names it.
    pub fn check(&self) -> Result<()> {
        self.defect().map_err(|message| Error::setting("network", message))
    }

    /// What is wrong with the network, as a message.
    pub(super) fn defect(&self) -> Result<(), String> {
        let d = self.d_model();
        let shape = |name: &str, m: &Rows, rows: usize, columns: usize| {
            if (m.len(), m.columns()) != (rows, columns) {
                return Err(format!("{name} is [{}, {}], not [{rows}, {columns}]", m.len(), m.columns()));
            }
            match m.values().iter().position(|x| !x.is_finite()) {
                Some(i) => Err(format!("{name} contains {} (first at entry {i})", m.values()[i])),
                None => Ok(()),
            }
        };
        shape("W_E", &self.w_e, self.w_e.len(), d)?;
        shape("W_pos", &self.w_pos, self.w_pos.len(), d)?;
        shape("W_U", &self.w_u, d, self.w_u.columns())?;
        for (l, layer) in self.layers.iter().enumerate() {
            let name = |what: &str| format!("blocks.{l}.{what}");
            if !layer.step.is_finite() || layer.repeat == 0 {
                return Err(format!("{} is {}, repeated {} times", name("step"), layer.step, layer.repeat));
            }
            let Some(first) = layer.heads.first() else {
                return Err(name("attn has no heads"));
            };
            let (d_head, d_value) = (first.w_q.columns(), first.w_v.columns());
            for head in &layer.heads {
                shape(&name("attn.W_Q"), &head.w_q, d, d_head)?;
                shape(&name("attn.W_K"), &head.w_k, d, d_head)?;
                shape(&name("attn.W_V"), &head.w_v, d, d_value)?;
                shape(&name("attn.W_O"), &head.w_o, d_value, d)?;
            }
            if let Some(hidden) = &layer.hidden {
                shape(&name("mlp.W_in"), &hidden.w_in, d, hidden.w_in.columns())?;
                shape(&name("mlp.W_out"), &hidden.w_out, hidden.w_in.columns(), d)?;
            }
        }
        Ok(())
    }

    /// Returns the outputs for one sequence of inputs [T, d_in].
    pub fn evaluate(&self, inputs: &Rows, observer: &dyn Observer) -> Result<Rows> {
        let tokens = self.tokens(inputs, self.layers.len(), observer)?;
        Ok(self.read_out(&tokens))
    }

    /// Returns the tokens after the first of its stored layers, each with all its repetitions.
    ///
    /// # Errors
    /// If there are fewer layers, or the inputs do not fit the network.
    pub fn tokens_after(&self, inputs: &Rows, layers: usize, observer: &dyn Observer) -> Result<Rows> {
        let stored = self.layers.len();
        if layers > stored {
            let message = format!("must be at most {stored}, the number of stored layers (got {layers})");
            return Err(Error::setting("layers", message));
        }
        Ok(self.tokens(inputs, layers, observer)?.to_rows())
    }

    /// Returns the outputs for tokens.
    pub(super) fn read_out(&self, tokens: &Matrix) -> Rows {
        let mut out = Matrix::zeros(tokens.rows, self.w_u.columns());
        let w_u = Matrix::from_rows(&self.w_u);
        out.product(
            0..tokens.rows,
            Update::Replace,
            tokens.columns,
            tokens.left(0..tokens.rows),
            w_u.right(0),
        );
        out.to_rows()
    }

    /// Returns the tokens after the first layers.
    pub(super) fn tokens(&self, inputs: &Rows, layers: usize, observer: &dyn Observer) -> Result<Matrix> {
        let n = inputs.len();
        if n > self.n_ctx() {
            return Err(Error::setting(
                "length",
                format!("{n} vectors for a network that reads at most {}", self.n_ctx()),
            ));
        }
        if inputs.columns() != self.w_e.len() {
            return Err(Error::setting(
                "d",
                format!("inputs of {} numbers for a network that reads {}", inputs.columns(), self.w_e.len()),
            ));
        }
        let d = self.d_model();
        let mut tokens = Matrix::zeros(n, d);
        for t in 0..n {
            tokens.row_mut(t).copy_from_slice(self.w_pos.row(t));
        }
        let (z, w_e) = (Matrix::from_rows(inputs), Matrix::from_rows(&self.w_e));
        tokens.product(0..n, Update::Add, z.columns, z.left(0..n), w_e.right(0));
        for layer in &self.layers[..layers] {
            let mut pass = Pass::new(layer, n, d);
            for _ in 0..layer.repeat {
                observer.check()?;
                pass.apply(&mut tokens);
            }
        }
        Ok(tokens)
    }
}

/// The number of rows whose scores are held at once.
pub(super) const ROWS: usize = 64;

/// Where the columns of a head begin in the joint product; each part begins at a whole line.
#[derive(Clone, Copy)]
struct Place {
    query: usize,
    key: usize,
    value: usize,
    /// The same in the joint values.
    out: usize,
    d_head: usize,
    d_value: usize,
}

/// A layer prepared for sequences of one length.
struct Pass<'a> {
    layer: &'a Layer,
    places: Vec<Place>,
    /// All queries, keys and values in one product.
    w_all: Matrix,
    /// The joint map from all heads back to tokens, including the step.
    w_o: Matrix,
    hidden: Option<(Matrix, Matrix, Matrix)>,
    all: Matrix,
    outputs: Matrix,
    keys: Vec<Transposed>,
    scores: AlignedVec<f64>,
}

impl<'a> Pass<'a> {
    fn new(layer: &'a Layer, n: usize, d: usize) -> Self {
        let (mut width, mut out) = (0, 0);
        let mut places = Vec::new();
        for head in &layer.heads {
            let (d_head, d_value) = (head.w_q.columns(), head.w_v.columns());
            let query = width;
            let key = query + padded(d_head);
            let value = key + padded(d_head);
            width = value + padded(d_value);
            places.push(Place { query, key, value, out, d_head, d_value });
            out += padded(d_value);
        }
        let (mut w_all, mut w_o) = (Matrix::zeros(d, width), Matrix::zeros(out, d));
        for (head, place) in layer.heads.iter().zip(&places) {
            for (from, w) in [(place.query, &head.w_q), (place.key, &head.w_k), (place.value, &head.w_v)] {
                for (i, row) in w.iter().enumerate() {
                    w_all.row_mut(i)[from..from + row.len()].copy_from_slice(row);
                }
            }
            for (i, row) in head.w_o.iter().enumerate() {
                let target = w_o.row_mut(place.out + i);
                target.iter_mut().zip(row).for_each(|(target, x)| *target = layer.step * x);
            }
        }
        let all = Matrix::zeros(n, width);
        let keys = places
            .iter()
            .map(|p| {
                let empty = Matrix::zeros(n, p.d_head);
                Transposed::new(&empty)
            })
            .collect();
        let hidden = layer.hidden.as_ref().map(|h| {
            (Matrix::from_rows(&h.w_in), Matrix::from_rows(&h.w_out), Matrix::zeros(n, h.w_in.columns()))
        });
        let scores = AlignedVec::zeros(ROWS * padded(n));
        Self { layer, places, w_all, w_o, hidden, all, outputs: Matrix::zeros(n, out), keys, scores }
    }

    fn apply(&mut self, tokens: &mut Matrix) {
        let n = tokens.rows;
        if !self.places.is_empty() {
            self.all.product(0..n, Update::Replace, tokens.columns, tokens.left(0..n), self.w_all.right(0));
            for (h, place) in self.places.iter().enumerate() {
                self.keys[h].fill(&self.all, place.key);
                for from in (0..n).step_by(ROWS) {
                    let to = (from + ROWS).min(n);
                    let stride = padded(to);
                    let queries = &self.all.values[from * self.all.stride + place.query..];
                    let scores = &mut self.scores[..(to - from) * stride];
                    simd::run(Product {
                        target: scores,
                        order: TargetOrder::Rows(stride),
                        update: Update::Replace,
                        rows: to - from,
                        depth: place.d_head,
                        width: stride,
                        left: Left::rows(queries, self.all.stride),
                        right: self.keys[h].right(0),
                    });
                    simd::run(Normalise { attention: self.layer.attention, from, stride, scores });
                    simd::run(Product {
                        target: &mut self.outputs.values[from * self.outputs.stride + place.out..],
                        order: TargetOrder::Rows(self.outputs.stride),
                        update: Update::Replace,
                        rows: to - from,
                        depth: to,
                        width: padded(place.d_value),
                        left: Left::rows(&self.scores, stride),
                        right: crate::num::gemm::Right::Rows(
                            &self.all.values[place.value..],
                            self.all.stride,
                        ),
                    });
                }
            }
            let outputs = &self.outputs;
            tokens.product(0..n, Update::Add, outputs.columns, outputs.left(0..n), self.w_o.right(0));
        }
        if let Some((w_in, w_out, neurons)) = &mut self.hidden {
            neurons.product(0..n, Update::Replace, tokens.columns, tokens.left(0..n), w_in.right(0));
            neurons.values.iter_mut().for_each(|x| *x = x.max(0.0));
            tokens.product(0..n, Update::Add, neurons.columns, neurons.left(0..n), w_out.right(0));
        }
    }
}

/// Turns rows of scores, of which the first belongs to token `from`, into weights; later tokens get 0.
pub(super) struct Normalise<'a> {
    pub attention: Attention,
    pub from: usize,
    pub stride: usize,
    pub scores: &'a mut [f64],
}

impl SimdKernel for Normalise<'_> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { attention, from, stride, scores } = self;
        for (row, t) in scores.chunks_exact_mut(stride).zip(from..) {
            let (past, later) = row.split_at_mut(t + 1);
            later.fill(0.0);
            match attention {
                Attention::Identity => {}
                Attention::Exp => past.iter_mut().for_each(|w| *w = exp(isa, *w)),
                Attention::Softmax => {
                    let most = past.iter().fold(f64::NEG_INFINITY, |most: f64, &w| most.max(w));
                    past.iter_mut().for_each(|w| *w = exp(isa, *w - most));
                    let sum = sum(past);
                    past.iter_mut().for_each(|w| *w /= sum);
                }
            }
        }
    }
}

/// A sum in eight lanes.
#[inline(always)]
fn sum(x: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (chunks, rest) = x.as_chunks::<8>();
    for chunk in chunks {
        for i in 0..8 {
            lanes[i] += chunk[i];
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += x;
    }
    lanes.iter().sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::num::Stream;
    use crate::observe::{Impatient, Silent};
    use proptest::prelude::*;

    fn random(rows: usize, columns: usize, draw: &mut Stream) -> Rows {
        Rows::whole(columns, (0..rows * columns).map(|_| 0.4 * draw.normal()).collect())
    }

    /// Two layers of different kinds, the second one twice.
    pub fn example(attention: Attention, seed: u64) -> Network {
        let draw = &mut Stream::new(seed, "network", 0);
        let d = 6;
        let head = |draw: &mut Stream, d_head, d_value| AttentionHead {
            w_q: random(d, d_head, draw),
            w_k: random(d, d_head, draw),
            w_v: random(d, d_value, draw),
            w_o: random(d_value, d, draw),
        };
        let hidden = HiddenLayer { w_in: random(d, 7, draw), w_out: random(7, d, draw) };
        let first = Layer {
            attention: Attention::Softmax,
            step: 1.0,
            heads: vec![head(draw, 3, 2)],
            hidden: Some(hidden),
            repeat: 1,
        };
        let second = Layer {
            attention,
            step: 0.02,
            heads: vec![head(draw, 4, 2), head(draw, 4, 2)],
            hidden: None,
            repeat: 2,
        };
        Network {
            w_e: random(3, d, draw),
            w_pos: random(150, d, draw),
            layers: vec![first, second],
            w_u: random(d, 2, draw),
        }
    }

    fn times(a: &Rows, b: &Rows) -> Rows {
        let cell = |i: usize, j: usize| (0..b.len()).map(|k| a.at(i, k) * b.at(k, j)).sum();
        let all = (0..a.len()).flat_map(|i| (0..b.columns()).map(move |j| (i, j)));
        Rows::whole(b.columns(), all.map(|(i, j)| cell(i, j)).collect())
    }

    /// The network by its definition.
    fn plain(network: &Network, z: &Rows) -> Rows {
        let mut e = times(z, &network.w_e);
        let d = network.d_model();
        let add = |e: &mut Rows, more: &Rows, by: f64| {
            e.values_mut().iter_mut().zip(more.values()).for_each(|(e, m)| *e += by * m);
        };
        let positions = Rows::whole(d, network.w_pos.values()[..z.len() * d].to_vec());
        add(&mut e, &positions, 1.0);
        for layer in &network.layers {
            for _ in 0..layer.repeat {
                let mut more = Rows::zeros(z.len(), d);
                for head in &layer.heads {
                    let (q, k, v) = (times(&e, &head.w_q), times(&e, &head.w_k), times(&e, &head.w_v));
                    let mut out = Rows::zeros(z.len(), head.w_v.columns());
                    for t in 0..z.len() {
                        let score = |s: usize| q.row(t).iter().zip(k.row(s)).map(|(a, b)| a * b).sum::<f64>();
                        let total: f64 = (0..=t).map(|s| score(s).exp()).sum();
                        for s in 0..=t {
                            let weight = match layer.attention {
                                Attention::Identity => score(s),
                                Attention::Exp => score(s).exp(),
                                Attention::Softmax => score(s).exp() / total,
                            };
                            for j in 0..out.columns() {
                                *out.at_mut(t, j) += weight * v.at(s, j);
                            }
                        }
                    }
                    add(&mut more, &times(&out, &head.w_o), layer.step);
                }
                add(&mut e, &more, 1.0);
                if let Some(hidden) = &layer.hidden {
                    let mut neurons = times(&e, &hidden.w_in);
                    neurons.values_mut().iter_mut().for_each(|x| *x = x.max(0.0));
                    add(&mut e, &times(&neurons, &hidden.w_out), 1.0);
                }
            }
        }
        times(&e, &network.w_u)
    }

    #[test]
    fn layers_that_are_not_there_are_refused() {
        let network = example(Attention::Softmax, 1);
        let inputs = Rows::zeros(2, network.w_e.len());
        assert!(network.tokens_after(&inputs, network.layers.len(), &Silent).is_ok());
        let error = network.tokens_after(&inputs, network.layers.len() + 1, &Silent).unwrap_err();
        assert_eq!(error.setting_name(), Some("layers"));
    }

    #[test]
    fn it_computes_what_its_definition_says() {
        for attention in [Attention::Identity, Attention::Exp, Attention::Softmax] {
            let network = example(attention, 3);
            network.check().unwrap();
            for n in [1, 2, 64, 65, 150] {
                let z = random(n, 3, &mut Stream::new(1, "inputs", n as u64));
                let found = network.evaluate(&z, &Silent).unwrap();
                let expect = plain(&network, &z);
                let scale = expect.values().iter().fold(1.0f64, |most, x| most.max(x.abs()));
                let gap = found.max_difference(&expect);
                assert!(gap < 1e-12 * scale, "{attention} {n}: {gap}");
            }
        }
    }

    #[test]
    fn misfits_are_reported() {
        let network = example(Attention::Softmax, 3);
        assert!(network.evaluate(&Rows::zeros(151, 3), &Silent).unwrap_err().to_string().contains("151"));
        assert!(network.evaluate(&Rows::zeros(5, 4), &Silent).unwrap_err().to_string().contains("d"));
        assert!(matches!(network.evaluate(&Rows::zeros(5, 3), &Impatient::new(0)), Err(Error::Interrupted)));
        let mut broken = network.clone();
        broken.layers[1].heads[1].w_k = Rows::zeros(6, 3);
        assert_eq!(broken.defect().unwrap_err(), "blocks.1.attn.W_K is [6, 3], not [6, 4]");
        broken = network.clone();
        *broken.layers[0].heads[0].w_o.at_mut(1, 1) = f64::NAN;
        assert!(broken.defect().unwrap_err().contains("NaN"));
        broken = network;
        broken.layers[1].repeat = 0;
        assert!(broken.defect().unwrap_err().contains("repeated 0 times"));
    }

    #[test]
    fn depth_and_parameters_are_counted() {
        let network = example(Attention::Exp, 3);
        assert_eq!(network.depth(), 3);
        // W_E 18, W_pos 900, W_U 12; heads 6 (2 d_head + 2 d_value): 60, 72, 72; neurons 84; two steps.
        assert_eq!(network.parameters(), 18 + 900 + 12 + 60 + 72 + 72 + 84 + 2);
    }

    proptest! {
        #[test]
        fn what_comes_later_changes_nothing(seed in any::<u64>(), n in 2usize..140, at in 1usize..140, kind in 0..3) {
            let at = 1 + at % (n - 1).max(1);
            let attention = [Attention::Identity, Attention::Exp, Attention::Softmax][kind as usize];
            let network = example(attention, seed);
            let z = random(n, 3, &mut Stream::new(seed, "inputs", 0));
            let mut other = z.clone();
            other.values_mut()[at.min(n) * 3..].iter_mut().for_each(|x| *x = 1.0 - 3.0 * *x);
            let bits = |z: &Rows| -> Vec<u64> {
                let out = network.evaluate(z, &Silent).unwrap();
                out.values()[..at.min(n) * 2].iter().map(|x| x.to_bits()).collect()
            };
            prop_assert_eq!(bits(&z), bits(&other));
        }
    }
}
