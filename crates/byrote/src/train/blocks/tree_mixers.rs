//! Attention and averaging over the ancestors of every node of a chunk, and the way back.
//!
//! Forward, a walk in preorder keeps the path to the current node: the keys of its ancestors, by level, in the columns of a
//! matrix, so that the scores of all ancestors are sums of scaled rows. A node that comes after a finished sibling overwrites
//! that sibling's column. With f the factor of the scores:
//!
//! ```text
//! s_l = f q . k_l,   p = softmax(s),   z = sum_l p_l v_l              l = the levels of the path, the node included
//! dp_l = dz . v_l,   ds_l = f p_l (dp_l - sum_r p_r dp_r),   dq = sum_l ds_l k_l,   dk_l += ds_l q,   dv_l += p_l dz
//! ```
//!
//! Backward, in reverse preorder, the derivatives of keys and values are collected by level; when a node is reached, all its
//! descendants have been seen, and its own derivatives are complete.
//!
//! Averaging, a_i = a_parent + u[depth] y_i, is a running sum along the path; its way back sums over subtrees.

use super::trie::{Chunk, NONE};
use super::weights::Sizes;
use crate::num::aligned::{AlignedVec, LINE, line_at, line_at_mut, padded};
use crate::num::line_vector::LineVector;
use crate::num::real::Real;
use crate::num::row_ops::{add, add_scaled, dot, exp_shifted, largest, scale, sum};
use crate::num::simd::Isa;

/// The path to the current node.
pub(super) struct Path<T> {
    /// The row of each level.
    rows: Vec<usize>,
    /// Keys, or values on the way back, `[kv * d_head, levels]`.
    columns: AlignedVec<T>,
    /// Derivatives of keys and values by level, `[levels, kv * head_row]`.
    d_keys: AlignedVec<T>,
    d_values: AlignedVec<T>,
    levels: usize,
}

impl<T: Real> Path<T> {
    pub(super) fn new(deepest: usize, s: Sizes, backward: bool) -> Self {
        let levels = padded(deepest);
        let back = if backward { levels * s.kv * s.head_row } else { 0 };
        Self {
            rows: vec![0; deepest],
            columns: AlignedVec::zeros(levels * s.kv * s.d_head),
            d_keys: AlignedVec::zeros(back),
            d_values: AlignedVec::zeros(back),
            levels,
        }
    }

    /// Puts a row on the path.
    #[inline(always)]
    fn put(&mut self, level: usize, row: usize, values: &[T], s: Sizes) {
        self.rows[level] = row;
        for head in 0..s.kv {
            let columns = &mut self.columns[head * s.d_head * self.levels..];
            for (c, &value) in values[head * s.head_row..][..s.d_head].iter().enumerate() {
                columns[c * self.levels + level] = value;
            }
        }
    }

    /// `out_l = sum_c x_c column_c[l]` for whole lines of levels.
    #[inline(always)]
    fn dots<I: Isa>(&self, isa: I, x: &[T], head: usize, out: &mut [T]) {
        let columns = &self.columns[head * x.len() * self.levels..][..x.len() * self.levels];
        for first in (0..out.len()).step_by(LINE) {
            // Two sums, because one waits for each of its additions.
            let mut sums = [LineVector::splat(isa, T::from_f64(0.0)); 2];
            let (pairs, rest) = x.as_chunks::<2>();
            for (i, pair) in pairs.iter().enumerate() {
                for (j, (sum, &x)) in sums.iter_mut().zip(pair).enumerate() {
                    let column = line_at(columns, (2 * i + j) * self.levels + first);
                    *sum = LineVector::splat(isa, x).fma(LineVector::load(isa, column), *sum);
                }
            }
            if let [x] = rest {
                let column = line_at(columns, (columns.len() / self.levels - 1) * self.levels + first);
                sums[0] = LineVector::splat(isa, *x).fma(LineVector::load(isa, column), sums[0]);
            }
            sums[0].plus(sums[1]).store(line_at_mut(out, first));
        }
    }
}

/// Attention weights, one row of whole lines per node and head, and mixed values, `[n, mixed]`.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // What the formula has.
pub(super) fn attend<T: Real, I: Isa>(
    isa: I,
    chunk: &Chunk,
    s: Sizes,
    factor: T,
    qkv: &[T],
    path: &mut Path<T>,
    weights: &mut [T],
    z: &mut [T],
) {
    for row in 0..chunk.len() {
        let depth = chunk.depths[row] as usize;
        let values = &qkv[row * s.qkv_row..][..s.qkv];
        path.put(depth - 1, row, &values[s.keys..], s);
        let lines = padded(depth);
        let weights = &mut weights[chunk.weight_starts[row] * s.heads..][..lines * s.heads];
        for (head, weights) in weights.chunks_exact_mut(lines).enumerate() {
            path.dots(isa, &values[head * s.head_row..][..s.d_head], s.serving(head), weights);
            scale(weights, factor);
            weights[depth..].fill(T::from_f64(f64::NEG_INFINITY));
            let largest = largest(isa, weights);
            exp_shifted(isa, weights, largest);
            scale(weights, T::from_f64(1.0 / sum(isa, weights)));
        }
        let z = &mut z[row * s.mixed_row..][..s.mixed];
        for column in (0..s.mixed).step_by(LINE) {
            let head = column / s.head_row;
            let at = s.values + s.serving(head) * s.head_row + column % s.head_row;
            let mut mixed = LineVector::splat(isa, T::from_f64(0.0));
            for (&row, &weight) in path.rows[..depth].iter().zip(&weights[head * lines..]) {
                let v = line_at(qkv, row * s.qkv_row + at);
                mixed = LineVector::splat(isa, weight).fma(LineVector::load(isa, v), mixed);
            }
            mixed.store(line_at_mut(z, column));
        }
    }
}

/// From the derivatives of the mixed values to those of queries, keys and values; `d_scores` has room for one path.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // What the formula has.
pub(super) fn attend_back<T: Real, I: Isa>(
    isa: I,
    chunk: &Chunk,
    s: Sizes,
    factor: T,
    qkv: &[T],
    path: &mut Path<T>,
    weights: &[T],
    dz: &[T],
    d_scores: &mut [T],
    d_qkv: &mut [T],
) {
    let width = s.kv * s.head_row;
    // Levels beyond the path have weight zero, but zero times what an earlier evaluation left may not be zero.
    path.columns.fill(T::from_f64(0.0));
    path.d_keys.fill(T::from_f64(0.0));
    path.d_values.fill(T::from_f64(0.0));
    // Levels of the path that are in place.
    let mut placed = 0;
    for row in (0..chunk.len()).rev() {
        let depth = chunk.depths[row] as usize;
        let (mut level, mut node) = (depth, row);
        while level > placed {
            level -= 1;
            path.put(level, node, &qkv[node * s.qkv_row + s.values..][..width], s);
            node = chunk.parents[node] as usize;
        }
        placed = depth - 1;
        let lines = padded(depth);
        let weights = &weights[chunk.weight_starts[row] * s.heads..][..lines * s.heads];
        let dz = &dz[row * s.mixed_row..][..s.mixed];
        for (head, weights) in weights.chunks_exact(lines).enumerate() {
            let ds = &mut d_scores[..lines];
            path.dots(isa, &dz[head * s.head_row..][..s.d_head], s.serving(head), ds);
            let mean = dot(isa, weights, ds);
            for (ds, &p) in ds.iter_mut().zip(weights) {
                *ds = factor * p * (*ds - mean);
            }
            path.collect(isa, s, (row, head, depth), qkv, (ds, weights, dz), d_qkv);
        }
        let d_row = &mut d_qkv[row * s.qkv_row..][..s.qkv];
        for (source, at) in [(&mut path.d_keys, s.keys), (&mut path.d_values, s.values)] {
            let level = &mut source[(depth - 1) * width..][..width];
            d_row[at..at + width].copy_from_slice(level);
            level.fill(T::from_f64(0.0));
        }
    }
}

impl<T: Real> Path<T> {
    /// Adds what one head of a node contributes to the derivatives of keys and values on its path, and writes those of its query.
    #[inline(always)]
    fn collect<I: Isa>(
        &mut self,
        isa: I,
        s: Sizes,
        (row, head, depth): (usize, usize, usize),
        qkv: &[T],
        (ds, weights, dz): (&[T], &[T], &[T]),
        d_qkv: &mut [T],
    ) {
        let width = s.kv * s.head_row;
        let serving = s.serving(head) * s.head_row;
        for column in (0..s.head_row).step_by(LINE) {
            let own = head * s.head_row + column;
            let q = LineVector::load(isa, line_at(qkv, row * s.qkv_row + own));
            let dz = LineVector::load(isa, line_at(dz, own));
            let mut dq = LineVector::splat(isa, T::from_f64(0.0));
            for level in 0..depth {
                let (ds, p) = (LineVector::splat(isa, ds[level]), LineVector::splat(isa, weights[level]));
                let k = line_at(qkv, self.rows[level] * s.qkv_row + s.keys + serving + column);
                dq = ds.fma(LineVector::load(isa, k), dq);
                let at = level * width + serving + column;
                let dk = line_at_mut(&mut self.d_keys, at);
                ds.fma(q, LineVector::load(isa, dk)).store(dk);
                let dv = line_at_mut(&mut self.d_values, at);
                p.fma(dz, LineVector::load(isa, dv)).store(dv);
            }
            dq.store(line_at_mut(d_qkv, row * s.qkv_row + own));
        }
    }
}

/// Rotates the queries and keys of every row by its position, or back.
#[inline(always)]
pub(super) fn rotate<T: Real>(chunk: &Chunk, s: Sizes, (cos, sin): (&[T], &[T]), back: bool, qkv: &mut [T]) {
    let half = cos.len() / s.n_ctx.max(1);
    if half == 0 {
        return;
    }
    for (row, &depth) in qkv.chunks_exact_mut(s.qkv_row).zip(&chunk.depths) {
        let at = (depth as usize - 1) * half;
        let (cos, sin) = (&cos[at..at + half], &sin[at..at + half]);
        for head in row[..s.values].chunks_exact_mut(s.head_row) {
            let (first, second) = head.split_at_mut(half);
            for (((a, b), &cos), &sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                let sin = if back { -sin } else { sin };
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}

/// Running sums along the paths: `a_i = a_parent + u[depth] y_i`.
#[inline(always)]
pub(super) fn average<T: Real, I: Isa>(isa: I, chunk: &Chunk, s: Sizes, u: &[T], y: &[T], a: &mut [T]) {
    for row in 0..chunk.len() {
        let (before, own) = a.split_at_mut(row * s.d_row);
        let own = &mut own[..s.d_row];
        match chunk.parents[row] {
            NONE => own.fill(T::from_f64(0.0)),
            parent => own.copy_from_slice(&before[parent as usize * s.d_row..][..s.d_row]),
        }
        let weight = u[chunk.depths[row] as usize - 1];
        add_scaled(isa, own, weight, &y[row * s.d_row..][..s.d_row]);
    }
}

/// From the derivatives of the averages, which become sums over subtrees, to those of `y`; those of `u` are added.
#[inline(always)]
pub(super) fn average_back<T: Real, I: Isa>(
    isa: I,
    chunk: &Chunk,
    s: Sizes,
    u: &[T],
    (y, dy): (&[T], &mut [T]),
    da: &mut [T],
    du: &mut [T],
) {
    let width = padded(s.d);
    for row in (0..chunk.len()).rev() {
        let (before, own) = da.split_at_mut(row * s.d_row);
        let own = &own[..s.d_row];
        if chunk.parents[row] != NONE {
            add(&mut before[chunk.parents[row] as usize * s.d_row..][..s.d_row], own);
        }
        let level = chunk.depths[row] as usize - 1;
        du[level] += dot(isa, &own[..width], &y[row * s.d_row..][..width]);
        for (dy, da) in dy[row * s.d_row..][..s.d_row].iter_mut().zip(own) {
            *dy = u[level] * *da;
        }
    }
}
