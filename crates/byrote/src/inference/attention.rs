//! Causal attention and token averaging over the path to each row.
//!
//! A *path* holds keys and values by level, that is by position. Rows come in *runs*: consecutive rows, each of which continues the
//! one before it. A run that begins at a level replaces what the path had from there on, so a walk through a tree of prefixes in
//! preorder needs one path only, and a sequence that grows token by token appends to its own.
//!
//! With f the factor of the scores, a row at level t and l running over the levels 0 to t:
//!
//! ```text
//! s_l = f q . k_l,      p = softmax(s),      z = sum_l p_l v_l
//! ```
//!
//! Keys are stored as columns, so that the scores of some rows are one matrix product, and so are the mixed values. Each number is
//! a sum in the order of its index, and each softmax depends on its own row only: the result does not depend on how rows are
//! divided into runs and blocks.

use super::weights::Sizes;
use crate::num::aligned::{AlignedVec, LINE, padded, spread_stride};
use crate::num::gemm::{Left, Product, Right, TargetOrder, Update};
use crate::num::line_vector::LineVector;
use crate::num::row_ops::{add_scaled, exp_shifted, scale, sum};
use crate::num::simd::{Isa, SimdKernel};
use std::ops::Range;

/// The most rows whose scores are computed together.
pub(super) const BLOCK: usize = 32;

/// Rows that continue each other, the first of them at a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) rows: Range<usize>,
    pub(super) level: usize,
}

/// Keys and values by level; for token averaging, sums by level.
pub(super) struct Path {
    /// The distance between the columns' rows.
    stride: usize,
    /// Keys as columns, `[kv, d_head, levels]`.
    keys: AlignedVec<f32>,
    /// Values, `[kv, levels, head_row]`.
    values: AlignedVec<f32>,
    /// Sums, `[levels, d_row]`.
    sums: AlignedVec<f32>,
    levels: usize,
}

impl Path {
    /// A path of at most `levels` levels.
    pub(super) fn new(levels: usize, averaging: bool, s: Sizes) -> Self {
        let stride = spread_stride(levels);
        Self {
            stride,
            keys: AlignedVec::zeros(s.kv * s.d_head * stride),
            values: AlignedVec::zeros(s.kv * levels * s.head_row),
            sums: AlignedVec::zeros(if averaging { levels * s.d_row } else { 0 }),
            levels,
        }
    }

    /// The bytes of a path of `levels` levels.
    pub(super) fn bytes(levels: usize, averaging: bool, s: Sizes) -> usize {
        let attention = s.kv * (s.d_head * spread_stride(levels) + levels * s.head_row);
        let sums = if averaging { levels * s.d_row } else { 0 };
        (attention + sums) * size_of::<f32>()
    }

    /// Keys and values of each head, for writing.
    pub(super) fn heads_mut(&mut self, s: Sizes) -> impl Iterator<Item = PathHead<'_>> {
        let stride = self.stride;
        let keys = self.keys.chunks_mut((s.d_head * stride).max(1));
        let values = self.values.chunks_mut((self.levels * s.head_row).max(1));
        keys.zip(values).take(s.kv).enumerate().map(move |(head, (keys, values))| PathHead {
            head,
            stride,
            keys,
            values,
        })
    }
}

/// One head of a path, for writing.
pub(super) struct PathHead<'a> {
    head: usize,
    stride: usize,
    keys: &'a mut [f32],
    values: &'a mut [f32],
}

impl PathHead<'_> {
    /// Puts the keys and values of a run on the path; `qkv` has all rows.
    pub(super) fn put(&mut self, run: &Run, qkv: &[f32], s: Sizes) {
        for (level, row) in (run.level..).zip(run.rows.clone()) {
            let row = &qkv[row * s.qkv_row + self.head * s.head_row..];
            for (column, &key) in row[s.keys..][..s.d_head].iter().enumerate() {
                self.keys[column * self.stride + level] = key;
            }
            self.values[level * s.head_row..][..s.head_row].copy_from_slice(&row[s.values..][..s.head_row]);
        }
    }
}

/// Attention of some rows of a run, whose keys and values are on the path.
pub(super) struct Attend<'a> {
    pub(super) path: &'a Path,
    pub(super) sizes: Sizes,
    /// The factor of the scores.
    pub(super) factor: f32,
    /// The level of the first row.
    pub(super) level: usize,
    /// Queries of the rows, with keys and values behind them.
    pub(super) qkv: &'a [f32],
    /// Mixed values, `[rows, mixed]`.
    pub(super) z: &'a mut [f32],
    /// Room for the scores of [`BLOCK`] rows.
    pub(super) scores: &'a mut AlignedVec<f32>,
}

impl SimdKernel for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { path, sizes: s, factor, level, qkv, z, scores } = self;
        let n = z.len() / s.mixed_row;
        for first in (0..n).step_by(BLOCK) {
            let rows = BLOCK.min(n - first);
            let levels = level + first + rows;
            let width = padded(levels);
            let stride = spread_stride(levels);
            if scores.len() < rows * stride {
                *scores = AlignedVec::zeros(BLOCK * stride);
            }
            for head in 0..s.heads {
                let serving = head * s.kv / s.heads;
                let keys = &path.keys[serving * s.d_head * path.stride..];
                isa.run(Product {
                    target: scores,
                    order: TargetOrder::Rows(stride),
                    update: Update::Replace,
                    rows,
                    depth: s.d_head,
                    width,
                    left: Left::rows(&qkv[first * s.qkv_row + head * s.head_row..], s.qkv_row),
                    right: Right::Rows(keys, path.stride),
                });
                for (row, scores) in scores.chunks_exact_mut(stride).take(rows).enumerate() {
                    softmax(isa, &mut scores[..width], level + first + row + 1, factor);
                }
                let values = &path.values[serving * path.levels * s.head_row..];
                isa.run(Product {
                    target: &mut z[first * s.mixed_row + head * s.head_row..],
                    order: TargetOrder::Rows(s.mixed_row),
                    update: Update::Replace,
                    rows,
                    depth: levels,
                    width: s.head_row,
                    left: Left::rows(scores, stride),
                    right: Right::Rows(values, s.head_row),
                });
            }
        }
    }
}

/// The softmax of the first `n` scores times a factor; the others become 0.
#[inline(always)]
fn softmax<I: Isa>(isa: I, scores: &mut [f32], n: usize, factor: f32) {
    let (scores, rest) = scores.split_at_mut(padded(n));
    rest.fill(0.0);
    scale(scores, factor);
    scores[n..].fill(f32::NEG_INFINITY);
    let mut largest = LineVector::splat(isa, f32::NEG_INFINITY);
    for line in scores.as_chunks::<LINE>().0 {
        largest = LineVector::load(isa, line).max(largest);
    }
    let largest = largest.array().into_iter().fold(f32::NEG_INFINITY, f32::max);
    exp_shifted(isa, scores, largest);
    let total = sum(isa, scores);
    scale(scores, (1.0 / total) as f32);
}

/// Token averaging of a run: `a_t = a_(t-1) + u[t] y_t`. `y` has the rows of the run; so has `a`.
pub(super) struct Average<'a> {
    pub(super) path: &'a mut Path,
    pub(super) sizes: Sizes,
    pub(super) weights: &'a [f32],
    pub(super) level: usize,
    pub(super) y: &'a [f32],
    pub(super) a: &'a mut [f32],
}

impl SimdKernel for Average<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { path, sizes: Sizes { d_row, .. }, weights, level, y, a } = self;
        for (level, (y, a)) in (level..).zip(y.chunks_exact(d_row).zip(a.chunks_exact_mut(d_row))) {
            match level {
                0 => a.fill(0.0),
                _ => a.copy_from_slice(&path.sums[(level - 1) * d_row..][..d_row]),
            }
            add_scaled(isa, a, weights[level], y);
            path.sums[level * d_row..][..d_row].copy_from_slice(a);
        }
    }
}
