//! The loss of a network on sequences, and its gradient through all attention layers.
//!
//! ```text
//! loss = 1 / (sequences known d) sum over sequences and t of |output_t - x_{t+1}|^2
//! ```
//!
//! The parameters are the head matrices and the step of every layer after the first ones, layer by layer and head by
//! head: W_Q, W_K, W_V, W_O, then the step. The first layers, with their positions and neurons, are not trained. Going
//! backward through a head, with E the tokens before it, A = N(Q K^T), O = A V, and G the gradient with respect to the
//! tokens after it:
//!
//! ```text
//! dO = step G W_O^T     dW_O = step O^T G     dstep = <sum_h O W_O, G>
//! dA = dO V^T           dV = A^T dO           dS = dA (identity), dA A (exp), A (dA - row sum of dA A) (softmax)
//! dQ = dS K             dK = dS^T Q           G <- G + dQ W_Q^T + dK W_K^T + dV W_V^T,    dW = E^T dQ and so on
//! ```
//!
//! One thread handles one sequence, and the gradients of sequences are added in order, so the bits are the same for any
//! number of threads.

use super::kernel::Attention;
use super::network::{AttentionHead, Layer, Network, Normalise};
use super::rows::{Matrix, Rows, Transposed};
use crate::num::gemm::Update;
use crate::num::simd;
use crate::observe::Silent;
use crate::{Error, Result};
use rayon::prelude::*;

/// A sequence to learn from: the network's input, and the vectors that follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The inputs, [T, d_in].
    pub inputs: Rows,
    /// The vector that follows each input, [T, d]: x_2 .. x_{T+1}.
    pub next: Rows,
}

/// The number of parameters in the layers from `first` on.
pub fn n_parameters(network: &Network, first: usize) -> usize {
    let head = |h: &AttentionHead| {
        [&h.w_q, &h.w_k, &h.w_v, &h.w_o].map(|m| m.values().len()).into_iter().sum::<usize>()
    };
    network.layers[first..].iter().map(|l| l.heads.iter().map(head).sum::<usize>() + 1).sum()
}

/// Returns the parameters of the layers from `first` on.
pub fn parameters(network: &Network, first: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(n_parameters(network, first));
    for layer in &network.layers[first..] {
        for head in &layer.heads {
            for matrix in [&head.w_q, &head.w_k, &head.w_v, &head.w_o] {
                out.extend_from_slice(matrix.values());
            }
        }
        out.push(layer.step);
    }
    out
}

/// Writes the parameters back.
pub fn set_parameters(network: &mut Network, first: usize, values: &[f64]) {
    assert_eq!(values.len(), n_parameters(network, first), "parameters of the layers from {first} on");
    let mut rest = values;
    let mut take = |target: &mut [f64]| {
        let (head, tail) = rest.split_at(target.len());
        target.copy_from_slice(head);
        rest = tail;
    };
    for layer in &mut network.layers[first..] {
        for head in &mut layer.heads {
            for matrix in [&mut head.w_q, &mut head.w_k, &mut head.w_v, &mut head.w_o] {
                take(matrix.values_mut());
            }
        }
        take(std::slice::from_mut(&mut layer.step));
    }
}

/// Refuses a network whose layers from `first` on have neurons or are repeated: each layer is trained on its own.
pub fn trainable(network: &Network, first: usize) -> Result<()> {
    let wrong = |l: usize, what: &str| Error::setting("network", format!("layer {l} {what}"));
    for (l, layer) in network.layers.iter().enumerate().skip(first) {
        if layer.hidden.is_some() {
            return Err(wrong(l, "has neurons, whose gradient is not computed"));
        }
        if layer.repeat != 1 {
            return Err(wrong(l, "is repeated; layers that are trained are stored one by one"));
        }
    }
    network.check()
}

/// Returns the loss over examples and its gradient. The tokens of an example are those after the first layers, which do
/// not change: compute them once with [`prepare`].
pub fn loss_and_gradient(network: &Network, first: usize, prepared: &[Prepared]) -> (f64, Vec<f64>) {
    let total: usize = prepared.iter().map(|p| p.next.values().len()).sum();
    let weight = 1.0 / total.max(1) as f64;
    let each: Vec<(f64, Vec<f64>)> =
        prepared.par_iter().map(|example| one(network, first, example, weight)).collect();
    let mut gradient = vec![0.0; n_parameters(network, first)];
    let mut loss = 0.0;
    for (part, more) in each {
        loss += part;
        gradient.iter_mut().zip(more).for_each(|(g, m)| *g += m);
    }
    (loss, gradient)
}

/// An example with its tokens after the first layers.
pub struct Prepared {
    tokens: Matrix,
    next: Rows,
}

/// Runs the first layers.
pub fn prepare(network: &Network, first: usize, examples: &[Example]) -> Result<Vec<Prepared>> {
    let one = |example: &Example| {
        let tokens = network.tokens(&example.inputs, first, &Silent)?;
        Ok(Prepared { tokens, next: example.next.clone() })
    };
    examples.par_iter().map(one).collect()
}

/// What the forward pass of a head keeps for the backward pass.
struct Trace {
    q: Matrix,
    k: Matrix,
    v: Matrix,
    weights: Matrix,
    o: Matrix,
}

fn times(left: &Matrix, right: &Matrix) -> Matrix {
    let mut out = Matrix::zeros(left.rows, right.columns);
    out.product(0..left.rows, Update::Replace, left.columns, left.left(0..left.rows), right.right(0));
    out
}

/// left right^T.
fn times_transposed(left: &Matrix, right: &Matrix) -> Matrix {
    let mut out = Matrix::zeros(left.rows, right.rows);
    let transposed = Transposed::new(right);
    out.product(0..left.rows, Update::Replace, left.columns, left.left(0..left.rows), transposed.right(0));
    out
}

/// left^T right.
fn transposed_times(left: &Matrix, right: &Matrix) -> Matrix {
    let mut out = Matrix::zeros(left.columns, right.columns);
    let all = 0..left.rows;
    out.product(0..left.columns, Update::Replace, left.rows, left.left_transposed(all), right.right(0));
    out
}

fn add(target: &mut Matrix, more: &Matrix, by: f64) {
    target.values.iter_mut().zip(more.values.iter()).for_each(|(t, m)| *t += by * m);
}

fn forward(layer: &Layer, tokens: &mut Matrix) -> (Vec<Trace>, Matrix) {
    let n = tokens.rows;
    let mut sum = Matrix::zeros(n, tokens.columns);
    let mut traces = Vec::with_capacity(layer.heads.len());
    for head in &layer.heads {
        let project = |w: &Rows| times(tokens, &Matrix::from_rows(w));
        let (q, k, v) = (project(&head.w_q), project(&head.w_k), project(&head.w_v));
        let mut weights = times_transposed(&q, &k);
        let (attention, stride) = (layer.attention, weights.stride);
        simd::run(Normalise { attention, from: 0, stride, scores: &mut weights.values[..n * stride] });
        let o = times(&weights, &v);
        add(&mut sum, &times(&o, &Matrix::from_rows(&head.w_o)), 1.0);
        traces.push(Trace { q, k, v, weights, o });
    }
    add(tokens, &sum, layer.step);
    (traces, sum)
}

fn one(network: &Network, first: usize, example: &Prepared, weight: f64) -> (f64, Vec<f64>) {
    let layers = &network.layers[first..];
    let n = example.tokens.rows;
    let mut tokens = Matrix::zeros(n, example.tokens.columns);
    tokens.values.copy_from_slice(&example.tokens.values);
    let mut past = Vec::with_capacity(layers.len());
    for layer in layers {
        let mut before = Matrix::zeros(n, tokens.columns);
        before.values.copy_from_slice(&tokens.values);
        let (traces, sum) = forward(layer, &mut tokens);
        past.push((before, traces, sum));
    }
    // The loss, and its gradient with respect to the outputs.
    let mut outputs = Matrix::from_rows(&network.read_out(&tokens));
    let mut loss = 0.0;
    for t in 0..n {
        for (u, x) in outputs.row_mut(t).iter_mut().zip(example.next.row(t)) {
            let gap = *u - x;
            loss += weight * gap * gap;
            *u = 2.0 * weight * gap;
        }
    }
    let mut gradient = times_transposed(&outputs, &Matrix::from_rows(&network.w_u));
    let mut parts = Vec::with_capacity(layers.len());
    for (layer, (before, traces, sum)) in layers.iter().zip(past).rev() {
        parts.push(backward(layer, &before, &traces, &sum, &mut gradient));
    }
    (loss, parts.into_iter().rev().flatten().collect())
}

/// Computes the gradient of a layer's parameters, and turns the gradient of the tokens after the layer into that of the
/// tokens before it.
fn backward(
    layer: &Layer,
    before: &Matrix,
    traces: &[Trace],
    sum: &Matrix,
    gradient: &mut Matrix,
) -> Vec<f64> {
    let step: f64 = sum.values.iter().zip(gradient.values.iter()).map(|(a, b)| a * b).sum();
    let mut more = Matrix::zeros(gradient.rows, gradient.columns);
    let mut out = Vec::new();
    for (head, Trace { q, k, v, weights, o }) in layer.heads.iter().zip(traces) {
        let w_o = Matrix::from_rows(&head.w_o);
        let mut d_o = times_transposed(gradient, &w_o);
        d_o.values.iter_mut().for_each(|x| *x *= layer.step);
        let mut d_w_o = transposed_times(o, gradient);
        d_w_o.values.iter_mut().for_each(|x| *x *= layer.step);
        let mut d_s = times_transposed(&d_o, v);
        let d_v = transposed_times(weights, &d_o);
        for t in 0..d_s.rows {
            let (row, a) = (d_s.line_mut(t), &weights.values[t * weights.stride..]);
            match layer.attention {
                Attention::Identity => row[t + 1..].fill(0.0),
                // Later weights are 0, and with them their gradients.
                Attention::Exp => row.iter_mut().zip(a).for_each(|(g, a)| *g *= a),
                Attention::Softmax => {
                    let mean: f64 = row.iter().zip(a).map(|(g, a)| g * a).sum();
                    row.iter_mut().zip(a).for_each(|(g, a)| *g = a * (*g - mean));
                }
            }
        }
        let (d_q, d_k) = (times(&d_s, k), transposed_times(&d_s, q));
        for (d, w) in [(&d_q, &head.w_q), (&d_k, &head.w_k), (&d_v, &head.w_v)] {
            out.extend_from_slice(transposed_times(before, d).to_rows().values());
            add(&mut more, &times_transposed(d, &Matrix::from_rows(w)), 1.0);
        }
        out.extend_from_slice(d_w_o.to_rows().values());
    }
    add(gradient, &more, 1.0);
    out.push(step);
    out
}

#[cfg(test)]
mod tests {
    use super::super::network::tests::example;
    use super::*;
    use crate::num::Stream;

    fn case(attention: Attention) -> (Network, Vec<Example>) {
        let mut network = example(attention, 4);
        // The repeated layer becomes two layers.
        let mut second = network.layers[1].clone();
        second.repeat = 1;
        network.layers[1].repeat = 1;
        second.step = -0.7;
        network.layers[1].step = 0.3;
        network.layers.push(second);
        let draw = &mut Stream::new(2, "examples", 0);
        let mut random =
            |n: usize, d: usize| Rows::whole(d, (0..n * d).map(|_| 0.5 * draw.normal()).collect());
        let examples =
            [9, 17].map(|n| Example { inputs: random(n, 3), next: random(n, 2) }).into_iter().collect();
        (network, examples)
    }

    #[test]
    fn gradients_are_those_of_central_differences() {
        for attention in [Attention::Identity, Attention::Exp, Attention::Softmax] {
            let (network, examples) = case(attention);
            trainable(&network, 1).unwrap();
            let prepared = prepare(&network, 1, &examples).unwrap();
            let (loss, gradient) = loss_and_gradient(&network, 1, &prepared);
            // The loss agrees with that of the evaluator.
            let mut expect = 0.0;
            for e in &examples {
                let out = network.evaluate(&e.inputs, &Silent).unwrap();
                expect += out
                    .values()
                    .iter()
                    .zip(e.next.values())
                    .map(|(u, x)| (u - x) * (u - x) / (26.0 * 2.0))
                    .sum::<f64>();
            }
            assert!((loss / expect - 1.0).abs() < 1e-12, "{loss} {expect}");
            let at = parameters(&network, 1);
            assert_eq!((at.len(), gradient.len()), (n_parameters(&network, 1), at.len()));
            let value = |x: &[f64]| {
                let mut moved = network.clone();
                set_parameters(&mut moved, 1, x);
                loss_and_gradient(&moved, 1, &prepared).0
            };
            let scale = gradient.iter().fold(0.0f64, |most, g| most.max(g.abs()));
            let mut zero = 0;
            for i in 0..at.len() {
                let h = 1e-5;
                let moved = |by: f64| {
                    let mut x = at.clone();
                    x[i] += by;
                    value(&x)
                };
                // Fourth order, so that the error of the formula itself does not matter.
                let slope = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h);
                zero += usize::from(gradient[i] == 0.0);
                assert!(
                    (slope - gradient[i]).abs() < 1e-8 * scale,
                    "{attention}, parameter {i}: {slope} {}",
                    gradient[i]
                );
            }
            assert!(zero < at.len() / 10, "most parameters matter");
        }
    }

    #[test]
    fn parameters_go_out_and_in() {
        let (network, _) = case(Attention::Softmax);
        let values: Vec<f64> = parameters(&network, 1).iter().map(|x| x + 1.0).collect();
        let mut moved = network.clone();
        set_parameters(&mut moved, 1, &values);
        assert_eq!(parameters(&moved, 1), values);
        assert_eq!(moved.layers[0], network.layers[0]);
    }

    #[test]
    fn neurons_and_repetitions_are_not_trained() {
        let (network, _) = case(Attention::Softmax);
        assert!(trainable(&network, 0).unwrap_err().to_string().contains("neurons"));
        let mut repeated = network;
        repeated.layers[2].repeat = 3;
        assert!(trainable(&repeated, 1).unwrap_err().to_string().contains("repeated"));
    }

    #[test]
    fn the_same_bits_for_one_thread_and_for_many() {
        let (network, examples) = case(Attention::Softmax);
        let prepared = prepare(&network, 1, &examples).unwrap();
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| loss_and_gradient(&network, 1, &prepared))
        };
        assert_eq!(run(1), run(3));
    }
}
