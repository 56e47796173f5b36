//! Enclosures of what the mixer makes of every context.
//!
//! Plain interval arithmetic along the formulas at the head of [`crate::model::config`]: queries, keys and values once a
//! place (token and position), then scores, exponentials, weights and mixed values a context. The positions of a model with
//! sinusoids are the doubles that the forward pass uses.

use super::function::exp;
use super::interval::Interval;
use super::layer::{BLOCK, Block};
use crate::model::{Mixer, Model};
use crate::train::Problem;
use rayon::prelude::*;
use std::ops::Range;

/// What the mixer gives for all contexts: centres and radii, `[contexts, d_model]`.
pub struct Enclosures {
    d: usize,
    balls: Vec<(f64, f64)>,
}

impl Enclosures {
    /// Those of a model on the contexts of a problem.
    pub fn new(model: &Model, problem: &Problem) -> Self {
        let d = model.config().shape.d_model as usize;
        let places = Places::new(model, problem);
        let balls = (0..problem.len())
            .into_par_iter()
            .flat_map_iter(|i| places.mixed(problem.places_of(i)).into_iter().map(Interval::ball))
            .collect();
        Self { d, balls }
    }

    /// How many contexts.
    pub fn len(&self) -> usize {
        self.balls.len() / self.d.max(1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.balls.is_empty()
    }

    /// The dimensions of a context.
    pub fn d_model(&self) -> usize {
        self.d
    }

    /// The centre and radius of each coordinate of a context.
    pub fn of(&self, context: usize) -> &[(f64, f64)] {
        &self.balls[context * self.d..(context + 1) * self.d]
    }

    /// A few contexts side by side.
    pub(super) fn block(&self, contexts: Range<usize>) -> Block {
        debug_assert!(contexts.len() <= BLOCK);
        let mut block = Block::zeros(self.d);
        for (lane, i) in contexts.enumerate() {
            for (j, &(centre, radius)) in self.of(i).iter().enumerate() {
                block.set(j, lane, centre, radius);
            }
        }
        block
    }
}

fn exact(values: &[f64]) -> impl Iterator<Item = Interval> {
    values.iter().map(|&x| Interval::exact(x))
}

/// A row times a row-major matrix, plus a bias.
fn affine(x: &[Interval], matrix: &[f64], columns: usize, bias: Option<&[f64]>) -> Vec<Interval> {
    let zero = Interval::exact(0.0);
    let mut out: Vec<Interval> = match bias {
        Some(bias) => exact(bias).collect(),
        None => vec![zero; columns],
    };
    for (x, row) in x.iter().zip(matrix.chunks_exact(columns)) {
        out.iter_mut().zip(exact(row)).for_each(|(o, w)| *o = *o + *x * w);
    }
    out
}

/// Everything that depends on a token and its position alone.
struct Places<'m> {
    model: &'m Model,
    /// Embedding and position, `[places][d_model]`.
    x: Vec<Vec<Interval>>,
    /// Queries, keys and values, `[heads][places][d_head]`.
    heads: Vec<Vec<[Vec<Interval>; 3]>>,
}

impl<'m> Places<'m> {
    fn new(model: &'m Model, problem: &Problem) -> Self {
        let shape = &model.config().shape;
        let (d, d_head) = (shape.d_model as usize, shape.d_head as usize);
        let table = model.tensor("W_E").unwrap_or_default();
        let positions = model.positions();
        let x: Vec<Vec<Interval>> = problem
            .places
            .iter()
            .map(|&(token, position)| {
                let mut x: Vec<Interval> = exact(&table[token as usize * d..][..d]).collect();
                if let Some(positions) = &positions {
                    let row = exact(&positions[position as usize * d..][..d]);
                    x.iter_mut().zip(row).for_each(|(x, p)| *x = *x + p);
                }
                x
            })
            .collect();
        let n_heads = match shape.mixer {
            Mixer::Attention => shape.n_heads as usize,
            Mixer::Average => 0,
        };
        let heads = (0..n_heads)
            .map(|head| {
                let project = |weight: &str, bias: &str, x: &[Interval]| {
                    let matrix = &model.tensor(weight).unwrap_or_default()[head * d * d_head..][..d * d_head];
                    let bias = model.tensor(bias).map(|b| &b[head * d_head..][..d_head]);
                    affine(x, matrix, d_head, bias)
                };
                x.par_iter()
                    .map(|x| [("W_Q", "b_Q"), ("W_K", "b_K"), ("W_V", "b_V")].map(|(w, b)| project(w, b, x)))
                    .collect()
            })
            .collect();
        Self { model, x, heads }
    }

    /// What the mixer, and the skip connection, make of a context.
    fn mixed(&self, read: &[u32]) -> Vec<Interval> {
        let config = self.model.config();
        let d = config.shape.d_model as usize;
        let mut out = match config.shape.mixer {
            Mixer::Attention => self.attention(read),
            Mixer::Average => {
                let mut sum = vec![Interval::exact(0.0); d];
                let weights = exact(self.model.tensor("u_pos").unwrap_or_default());
                for (u, &place) in weights.zip(read) {
                    sum.iter_mut().zip(&self.x[place as usize]).for_each(|(s, x)| *s = *s + u * *x);
                }
                sum
            }
        };
        if config.skip {
            let last = &self.x[read[read.len() - 1] as usize];
            out.iter_mut().zip(last).for_each(|(o, x)| *o = *o + *x);
        }
        out
    }

    fn attention(&self, read: &[u32]) -> Vec<Interval> {
        let config = self.model.config();
        let shape = &config.shape;
        let (d, d_head) = (shape.d_model as usize, shape.d_head as usize);
        // 1 / sqrt(d_head), or 1: the root and the quotient are rounded once each.
        let factor = match config.scale_scores {
            true => {
                let root = (d_head as f64).sqrt();
                Interval::exact(1.0) / Interval { lo: root.next_down(), hi: root.next_up() }
            }
            false => Interval::exact(1.0),
        };
        let zero = Interval::exact(0.0);
        let mut out: Vec<Interval> = match self.model.tensor("b_O") {
            Some(bias) => exact(bias).collect(),
            None => vec![zero; d],
        };
        for (head, places) in self.heads.iter().enumerate() {
            let query = &places[read[read.len() - 1] as usize][0];
            let scores: Vec<Interval> = read
                .iter()
                .map(|&place| {
                    let key = &places[place as usize][1];
                    factor * query.iter().zip(key).fold(zero, |sum, (q, k)| sum + *q * *k)
                })
                .collect();
            // Any common shift leaves the weights as they are.
            let shift = scores.iter().map(|s| s.hi).fold(f64::NEG_INFINITY, f64::max);
            let shift = Interval::exact(if shift.is_finite() { shift } else { 0.0 });
            let parts: Vec<Interval> = scores.iter().map(|&s| exp(s - shift)).collect();
            let sum = parts.iter().fold(zero, |sum, &e| sum + e);
            let mut mixed = vec![zero; d_head];
            for (&part, &place) in parts.iter().zip(read) {
                let weight = part / sum;
                let value = &places[place as usize][2];
                mixed.iter_mut().zip(value).for_each(|(m, v)| *m = *m + weight * *v);
            }
            let output = &self.model.tensor("W_O").unwrap_or_default()[head * d_head * d..][..d_head * d];
            let part = affine(&mixed, output, d, None);
            out.iter_mut().zip(part).for_each(|(o, p)| *o = *o + p);
        }
        out
    }
}
