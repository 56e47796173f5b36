//! A lane: a range of contexts that one thread works off, from the mixer to the loss and back, in blocks of rows small
//! enough that logits, softmax and their gradient stay in the cache.
//!
//! The formulas are at the head of [`super::gradient`].

use super::problem::Problem;
use crate::model::{Activation, Config, Hidden, Mixer};
use crate::num::gemm::{Into, Real, View, times, times_transposed, transposed_times};
use std::ops::Range;

/// Rows worked off at a time.
pub(super) const BLOCK: usize = 64;

/// What depends on a place alone, and its gradient.
pub(super) struct PlaceBuffers<T> {
    /// Embedded token plus position, `[places, d]`.
    pub(super) x: Vec<T>,
    /// Queries, keys and values, `[places, heads * d_head]`.
    pub(super) qkv: [Vec<T>; 3],
    pub(super) dx: Vec<T>,
    pub(super) dqkv: [Vec<T>; 3],
}

/// A range of contexts with the buffers of its thread.
pub(super) struct Lane<T> {
    pub(super) contexts: Range<usize>,
    /// Attention weights, `[places of these contexts, heads]`, and the derivatives of the scores.
    pub(super) weights: Vec<T>,
    pub(super) d_scores: Vec<T>,
    /// Mixed values, `[contexts, heads * d_head]`, and their derivatives.
    pub(super) z: Vec<T>,
    pub(super) dz: Vec<T>,
    /// Derivatives of what the mixer adds at the last token, `[contexts, d]`.
    pub(super) da: Vec<T>,
    pub(super) block: Block<T>,
    /// The gradient of everything but the place tensors, the size of all parameters.
    pub(super) gradient: Vec<T>,
    pub(super) loss: f64,
}

/// Buffers of a block of rows.
#[derive(Default)]
pub(super) struct Block<T> {
    a: Vec<T>,
    u: Vec<T>,
    y: Vec<T>,
    slope: Vec<T>,
    r: Vec<T>,
    logits: Vec<T>,
    dy: Vec<T>,
    dr: Vec<T>,
}

/// The tensors of a model in a vector of parameters.
#[derive(Default)]
pub(super) struct Layout(pub(super) Vec<(&'static str, Range<usize>)>);

impl Layout {
    pub(super) fn of(&self, name: &str) -> Range<usize> {
        self.0.iter().find(|(n, _)| *n == name).map_or(0..0, |(_, r)| r.clone())
    }
}

/// Dimensions as indices.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) d: usize,
    pub(super) heads: usize,
    pub(super) d_head: usize,
    pub(super) m: usize,
    pub(super) omega: usize,
    pub(super) mixed: usize,
}

pub(super) fn sizes(config: &Config) -> Sizes {
    let shape = &config.shape;
    let (heads, d_head) = match shape.mixer {
        Mixer::Attention => (shape.n_heads as usize, shape.d_head as usize),
        Mixer::Average => (0, 0),
    };
    Sizes {
        d: shape.d_model as usize,
        heads,
        d_head,
        m: shape.d_mlp as usize,
        omega: shape.d_vocab as usize,
        mixed: heads * d_head,
    }
}

impl<T: Real> Lane<T> {
    /// Attention of all contexts of the lane: weights and mixed values.
    pub(super) fn mix(&mut self, config: &Config, problem: &Problem, places: &PlaceBuffers<T>, s: Sizes) {
        if config.shape.mixer == Mixer::Average {
            return;
        }
        let factor = T::of(config.score_factor());
        let [q, k, v] = &places.qkv;
        self.z.fill(T::of(0.0));
        let mut at = 0;
        for (row, context) in self.contexts.clone().enumerate() {
            let read = problem.places_of(context);
            let query = read[read.len() - 1] as usize;
            let weights = &mut self.weights[at * s.heads..(at + read.len()) * s.heads];
            at += read.len();
            for head in 0..s.heads {
                let cut = head * s.d_head..(head + 1) * s.d_head;
                let q = &q[query * s.mixed..][cut.clone()];
                let mut largest = T::of(f64::NEG_INFINITY);
                for (i, &place) in read.iter().enumerate() {
                    let score = factor * dot(q, &k[place as usize * s.mixed..][cut.clone()]);
                    weights[i * s.heads + head] = score;
                    if score > largest {
                        largest = score;
                    }
                }
                let mut sum = T::of(0.0);
                for i in 0..read.len() {
                    let e = (weights[i * s.heads + head] - largest).e_to();
                    weights[i * s.heads + head] = e;
                    sum += e;
                }
                let z = &mut self.z[row * s.mixed..][cut.clone()];
                for (i, &place) in read.iter().enumerate() {
                    let weight = weights[i * s.heads + head] / sum;
                    weights[i * s.heads + head] = weight;
                    axpy(z, weight, &v[place as usize * s.mixed..][cut.clone()]);
                }
            }
        }
    }

    /// Everything from the mixer's output to the loss and back, for a block of rows of the lane.
    #[allow(clippy::too_many_arguments)] // What a block needs; a struct of them would only rename the list.
    pub(super) fn output(
        &mut self,
        config: &Config,
        problem: &Problem,
        places: &PlaceBuffers<T>,
        parameters: &[T],
        layout: &Layout,
        s: Sizes,
        rows: Range<usize>,
    ) {
        let n = rows.len();
        let tensor = |name: &str| &parameters[layout.of(name)];
        let attention = config.shape.mixer == Mixer::Attention;
        let first = self.contexts.start + rows.start;
        let Block { a, u, y, slope, r, logits, dy, dr } = &mut self.block;

        // Forward: the mixer's output.
        a.clear();
        a.resize(n * s.d, T::of(0.0));
        if attention {
            let z = View::new(&self.z[rows.start * s.mixed..rows.end * s.mixed], n, s.mixed);
            times(a, s.d, Into::Replace, z, View::new(tensor("W_O"), s.mixed, s.d));
            let bias = tensor("b_O");
            if !bias.is_empty() {
                a.chunks_exact_mut(s.d).for_each(|row| add(row, bias));
            }
        } else {
            let weights = tensor("u_pos");
            for (row, a) in a.chunks_exact_mut(s.d).enumerate() {
                for (&place, &weight) in problem.places_of(first + row).iter().zip(weights) {
                    axpy(a, weight, &places.x[place as usize * s.d..][..s.d]);
                }
            }
        }
        if config.skip {
            for (row, a) in a.chunks_exact_mut(s.d).enumerate() {
                let read = problem.places_of(first + row);
                add(a, &places.x[read[read.len() - 1] as usize * s.d..][..s.d]);
            }
        }

        // Forward: the hidden layer.
        let hidden = config.hidden != Hidden::Absent;
        if hidden {
            u.resize(n * s.m, T::of(0.0));
            times(u, s.m, Into::Replace, View::new(a, n, s.d), View::new(tensor("W_in"), s.d, s.m));
            let bias = tensor("b_in");
            u.chunks_exact_mut(s.m).for_each(|row| add(row, bias));
            y.resize(n * s.m, T::of(0.0));
            slope.resize(n * s.m, T::of(0.0));
            activate(config.shape.activation, u, y, slope);
        }
        if config.hidden == Hidden::Residual {
            r.resize(n * s.d, T::of(0.0));
            times(r, s.d, Into::Replace, View::new(y, n, s.m), View::new(tensor("W_out"), s.m, s.d));
            let bias = tensor("b_out");
            r.chunks_exact_mut(s.d).for_each(|row| add(row, bias));
            if config.skip {
                add(r, a);
            }
        }
        let (read, width): (&[T], usize) = match config.hidden {
            Hidden::Absent => (a, s.d),
            Hidden::Output => (y, s.m),
            Hidden::Residual => (r, s.d),
        };

        // Logits, loss, and the gradient in place of the logits.
        logits.resize(n * s.omega, T::of(0.0));
        times(
            logits,
            s.omega,
            Into::Replace,
            View::new(read, n, width),
            View::new(tensor("W_U"), width, s.omega),
        );
        let bias = tensor("b_U");
        for (row, logits) in logits.chunks_exact_mut(s.omega).enumerate() {
            if !bias.is_empty() {
                add(logits, bias);
            }
            self.loss += cross_entropy(logits, problem.counts[first + row], problem.next_of(first + row));
        }

        // Backward.
        let gradient = &mut self.gradient;
        let g = View::new(logits, n, s.omega);
        transposed_times(&mut gradient[layout.of("W_U")], s.omega, Into::Add, View::new(read, n, width), g);
        let bias = &mut gradient[layout.of("b_U")];
        if !bias.is_empty() {
            logits.chunks_exact(s.omega).for_each(|row| add(bias, row));
        }
        let da = &mut self.da[rows.start * s.d..rows.end * s.d];
        let read_target: &mut [T] = match config.hidden {
            Hidden::Absent => &mut *da,
            Hidden::Output => {
                dy.resize(n * s.m, T::of(0.0));
                dy
            }
            Hidden::Residual => {
                dr.resize(n * s.d, T::of(0.0));
                dr
            }
        };
        let w_u = View::new(tensor("W_U"), width, s.omega);
        times_transposed(read_target, width, Into::Replace, View::new(logits, n, s.omega), w_u);
        if config.hidden == Hidden::Residual {
            transposed_times(
                &mut gradient[layout.of("W_out")],
                s.d,
                Into::Add,
                View::new(y, n, s.m),
                View::new(dr, n, s.d),
            );
            let bias = &mut gradient[layout.of("b_out")];
            dr.chunks_exact(s.d).for_each(|row| add(bias, row));
            dy.resize(n * s.m, T::of(0.0));
            let w_out = View::new(tensor("W_out"), s.m, s.d);
            times_transposed(dy, s.m, Into::Replace, View::new(dr, n, s.d), w_out);
        }
        if hidden {
            dy.iter_mut().zip(&*slope).for_each(|(d, s)| *d *= *s);
            let du = View::new(dy, n, s.m);
            transposed_times(&mut gradient[layout.of("W_in")], s.m, Into::Add, View::new(a, n, s.d), du);
            let bias = &mut gradient[layout.of("b_in")];
            dy.chunks_exact(s.m).for_each(|row| add(bias, row));
            let w_in = View::new(tensor("W_in"), s.d, s.m);
            times_transposed(da, s.d, Into::Replace, View::new(dy, n, s.m), w_in);
            if config.hidden == Hidden::Residual && config.skip {
                add(da, dr);
            }
        }
        if !attention {
            let weights = &mut gradient[layout.of("u_pos")];
            for (row, da) in da.chunks_exact(s.d).enumerate() {
                for (&place, weight) in problem.places_of(first + row).iter().zip(weights.iter_mut()) {
                    *weight += dot(da, &places.x[place as usize * s.d..][..s.d]);
                }
            }
            return;
        }
        let z = View::new(&self.z[rows.start * s.mixed..rows.end * s.mixed], n, s.mixed);
        transposed_times(&mut gradient[layout.of("W_O")], s.d, Into::Add, z, View::new(da, n, s.d));
        let bias = &mut gradient[layout.of("b_O")];
        if !bias.is_empty() {
            da.chunks_exact(s.d).for_each(|row| add(bias, row));
        }
        let dz = &mut self.dz[rows.start * s.mixed..rows.end * s.mixed];
        let w_o = View::new(tensor("W_O"), s.mixed, s.d);
        times_transposed(dz, s.mixed, Into::Replace, View::new(da, n, s.d), w_o);
        let start = problem.context_starts[self.contexts.start];
        let v = &places.qkv[2];
        for (row, dz) in dz.chunks_exact(s.mixed).enumerate() {
            let read = problem.places_of(first + row);
            let at = problem.context_starts[first + row] - start;
            let weights = &self.weights[at * s.heads..(at + read.len()) * s.heads];
            let d_scores = &mut self.d_scores[at * s.heads..(at + read.len()) * s.heads];
            for head in 0..s.heads {
                let cut = head * s.d_head..(head + 1) * s.d_head;
                let mut mean = T::of(0.0);
                for (i, &place) in read.iter().enumerate() {
                    let d_weight = dot(&dz[cut.clone()], &v[place as usize * s.mixed..][cut.clone()]);
                    d_scores[i * s.heads + head] = d_weight;
                    mean += weights[i * s.heads + head] * d_weight;
                }
                for i in 0..read.len() {
                    let slot = &mut d_scores[i * s.heads + head];
                    *slot = weights[i * s.heads + head] * (*slot - mean);
                }
            }
        }
    }
}

/// Turns the logits of a context into the gradient of its loss, and gives the loss.
pub(super) fn cross_entropy<T: Real>(logits: &mut [T], count: f64, next: &[(u32, f64)]) -> f64 {
    let mut largest = T::of(f64::NEG_INFINITY);
    for &l in logits.iter() {
        if l > largest {
            largest = l;
        }
    }
    let top = largest.wide();
    let mut loss: f64 = next.iter().map(|&(token, n)| -n * (logits[token as usize].wide() - top)).sum();
    let mut sum = T::of(0.0);
    for l in logits.iter_mut() {
        *l = (*l - largest).e_to();
        sum += *l;
    }
    loss += count * sum.wide().ln();
    let scale = T::of(count) / sum;
    logits.iter_mut().for_each(|l| *l *= scale);
    for &(token, n) in next {
        logits[token as usize] -= T::of(n);
    }
    loss
}

/// Values and slopes of the activation.
pub(super) fn activate<T: Real>(activation: Activation, u: &[T], y: &mut [T], slope: &mut [T]) {
    for ((u, y), slope) in u.iter().zip(y).zip(slope) {
        let x = u.wide();
        (*y, *slope) = (T::of(activation.value(x)), T::of(activation.derivative(x)));
    }
}

pub(super) fn add<T: Real>(a: &mut [T], b: &[T]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += *b);
}

pub(super) fn axpy<T: Real>(a: &mut [T], factor: T, b: &[T]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += factor * *b);
}

pub(super) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::of(0.0), |sum, (a, b)| sum + *a * *b)
}
