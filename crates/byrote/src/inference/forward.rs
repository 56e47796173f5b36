//! A batch of rows through all blocks.
//!
//! A row is a token at a position; it reads the rows before it on its path ([`super::attention`]). Products and everything that
//! concerns a row alone are computed in blocks of rows, which threads take one after the other:
//!
//! ```text
//! read     y = norm1(x),  q k v = y W_QKV + b, rotated                              blocks of rows
//! mix      z = attention over the path                                              blocks of rows of a run
//! write    x += z W_O + b,   y = norm2(x),   x += psi(y W_in + b) W_out + b         blocks of rows
//! ```
//!
//! A block takes its rows through the hidden layer in slices of neurons, so that nothing leaves the cache in between. Each number
//! is a sum in a fixed order, whatever the block that its row is in.

use super::activate::{Neurons, add_bias};
use super::attention::{Attend, Average, BLOCK, Path, Run};
use super::weights::{Affine, BlockWeights, NormWeights, Sizes, Weights};
use crate::model::{Blocks, Config, Hidden, Mixer, Norm};
use crate::num::aligned::{AlignedVec, padded, spread_stride};
use crate::num::gemm::{Left, PANEL, Panels, Product, Right, TargetOrder, Update};
use crate::num::row_ops::{add, dot, sum};
use crate::num::simd::{self, Isa, SimdKernel};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The rows that a block should have: enough that a weight is used often while it is in the cache.
const ROWS: usize = 128;
/// The hidden neurons of a slice.
const SLICE: usize = 16 * PANEL;

/// A model of blocks.
pub(super) struct BlockNetwork {
    pub(super) config: Config,
    pub(super) blocks: Blocks,
    pub(super) weights: Weights,
}

/// The rows of one path.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) rows: Range<usize>,
    /// They cover the rows, in their order.
    pub(super) runs: Vec<Run>,
    /// The levels of the path.
    pub(super) levels: usize,
}

/// Rows that are evaluated together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) tokens: Vec<u32>,
    /// From 0.
    pub(super) positions: Vec<u32>,
    /// They cover the rows, in their order.
    pub(super) groups: Vec<Group>,
}

impl Batch {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Adds tokens that continue each other, the first of them at a level, as a group of their own.
    pub(super) fn push(&mut self, tokens: &[u32], level: usize, levels: usize) {
        let rows = self.len()..self.len() + tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.positions.extend((level as u32..).take(tokens.len()));
        self.groups.push(Group { rows: rows.clone(), runs: vec![Run { rows, level }], levels });
    }

    /// Empty paths for the groups.
    pub(super) fn paths(&self, network: &BlockNetwork) -> Vec<Path> {
        let averaging = network.config.shape.mixer == Mixer::Average;
        let path = |group: &Group| Path::new(group.levels, averaging, network.weights.sizes);
        self.groups.iter().map(path).collect()
    }
}

/// The rows of a tile of the products.
const TILE: usize = 8;

/// Divides rows into blocks of whole tiles, equally many for every thread and of almost the same size.
pub(super) fn row_blocks(n: usize) -> Vec<Range<usize>> {
    let tiles = n.div_ceil(TILE);
    let blocks = n.div_ceil(ROWS).next_multiple_of(rayon::current_num_threads()).min(tiles);
    (0..blocks).map(|i| TILE * (tiles * i / blocks)..n.min(TILE * (tiles * (i + 1) / blocks))).collect()
}

/// Buffers of a thread.
#[derive(Default)]
pub(super) struct Scratch {
    y: Buffer,
    hidden: Buffer,
    factors: Buffer,
    pub(super) scores: Buffer,
    pub(super) tile: Buffer,
    pub(super) exponentials: Buffer,
}

/// Memory that grows as needed.
pub(super) struct Buffer(pub(super) AlignedVec<f32>);

impl Default for Buffer {
    fn default() -> Self {
        Self(AlignedVec::zeros(0))
    }
}

impl Buffer {
    /// Room for `n` numbers, whatever they are.
    pub(super) fn of(&mut self, n: usize) -> &mut [f32] {
        if self.0.len() < n {
            self.0 = AlignedVec::zeros(n);
        }
        &mut self.0[..n]
    }
}

/// Buffers that threads take and return.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<Scratch>>);

impl Pool {
    /// Calls a function with buffers that nobody else uses.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = lock().pop().unwrap_or_default();
        let out = work(&mut scratch);
        lock().push(scratch);
        out
    }
}

impl BlockNetwork {
    /// Takes a batch through all blocks, and returns what the output reads in the rows that are `wanted`, `[wanted, d]`. `paths`
    /// holds the paths of the groups, of each block or one after the other of all blocks; they keep what they had below the levels of
    /// the batch.
    pub(super) fn forward(
        &self,
        batch: &Batch,
        pool: &Pool,
        paths: &mut [Vec<Path>],
        wanted: &[usize],
    ) -> AlignedVec<f32> {
        let s = self.weights.sizes;
        let n = batch.len();
        let mut blocks = row_blocks(n);
        let mut x = AlignedVec::zeros(n * s.d_row);
        let tokens = batch.tokens.par_iter().zip(&batch.positions);
        x.par_chunks_exact_mut(s.d_row).zip(tokens).for_each(|(x, (&token, &position))| {
            self.weights.embed(token as usize, position as usize, x);
        });
        let (read_row, z_row) = match self.config.shape.mixer {
            Mixer::Attention => (s.qkv_row, s.mixed_row),
            Mixer::Average => (s.d_row, s.d_row),
            Mixer::None => (0, 0),
        };
        let mut read = AlignedVec::zeros(n * read_row);
        let mut z = AlignedVec::zeros(n * z_row);
        let mut all_rows = true;
        for (b, weights) in self.weights.blocks.iter().enumerate() {
            if read_row > 0 {
                in_blocks(&mut read, &blocks, read_row, |rows, read| {
                    let x = &x[rows.start * s.d_row..rows.end * s.d_row];
                    let positions = &batch.positions[rows];
                    pool.with(|scratch| {
                        simd::run(Read { network: self, weights, x, positions, read, scratch })
                    });
                });
                let paths = if paths.len() == 1 { &mut paths[0] } else { &mut paths[b] };
                self.mix(batch, weights, pool, paths, &read, &mut z);
            }
            // Nobody reads the other rows of the last block.
            if b + 1 == self.weights.blocks.len() && wanted.len() < n {
                (x, z) = (gathered(&x, wanted, s.d_row), gathered(&z, wanted, z_row));
                (blocks, all_rows) = (row_blocks(wanted.len()), false);
            }
            in_blocks(&mut x, &blocks, s.d_row, |rows, x| {
                let z = &z[rows.start * z_row..rows.end * z_row];
                pool.with(|scratch| simd::run(Write { network: self, weights, x, z, scratch }));
            });
        }
        match all_rows {
            true => self.read_for_output(&gathered(&x, wanted, s.d_row), wanted.len()),
            false => self.read_for_output(&x, wanted.len()),
        }
    }

    /// Attention or averaging of all rows.
    fn mix(
        &self,
        batch: &Batch,
        weights: &BlockWeights,
        pool: &Pool,
        paths: &mut [Path],
        read: &[f32],
        z: &mut [f32],
    ) {
        let s = self.weights.sizes;
        let groups = &batch.groups;
        if self.config.shape.mixer == Mixer::Average {
            let parts: Vec<_> = groups.iter().zip(paths).zip(divided(z, lengths(groups), s.d_row)).collect();
            parts.into_par_iter().for_each(|((group, path), a)| {
                for run in &group.runs {
                    let within = run.rows.start - group.rows.start..run.rows.end - group.rows.start;
                    let a = &mut a[within.start * s.d_row..within.end * s.d_row];
                    let y = &read[run.rows.start * s.d_row..run.rows.end * s.d_row];
                    let (path, weights) = (&mut *path, &weights.u_pos);
                    simd::run(Average { path, sizes: s, weights, level: run.level, y, a });
                }
            });
            return;
        }
        let attend = |path: &Path, level: usize, rows: Range<usize>, z: &mut [f32]| {
            let (factor, qkv) = (self.config.score_factor() as f32, &read[rows.start * s.qkv_row..]);
            pool.with(|scratch| {
                let scores = &mut scratch.scores.0;
                simd::run(Attend { path, sizes: s, factor, level, qkv, z, scores });
            });
        };
        if groups.iter().any(|group| group.runs.len() > 1) {
            let parts: Vec<_> =
                groups.iter().zip(paths).zip(divided(z, lengths(groups), s.mixed_row)).collect();
            parts.into_par_iter().for_each(|((group, path), mut z)| {
                for run in &group.runs {
                    path.heads_mut(s).for_each(|mut head| head.put(run, read, s));
                    let (own, rest) = z.split_at_mut(run.rows.len() * s.mixed_row);
                    attend(path, run.level, run.rows.clone(), own);
                    z = rest;
                }
            });
            return;
        }
        // Each group is one run: all keys first, then blocks of rows in any order.
        let heads: Vec<_> = groups
            .iter()
            .zip(paths.iter_mut())
            .flat_map(|(group, path)| path.heads_mut(s).map(move |head| (head, &group.runs[0])))
            .collect();
        heads.into_par_iter().for_each(|(mut head, run)| head.put(run, read, s));
        let paths = &*paths;
        let parts: Vec<_> = groups
            .iter()
            .zip(paths)
            .zip(divided(z, lengths(groups), s.mixed_row))
            .flat_map(|((group, path), z)| {
                let run = &group.runs[0];
                z.chunks_mut(BLOCK * s.mixed_row).enumerate().map(move |(i, z)| {
                    let first = i * BLOCK;
                    (path, run.level + first, run.rows.start + first..run.rows.end, z)
                })
            })
            .collect();
        parts.into_par_iter().for_each(|(path, level, rows, z)| attend(path, level, rows, z));
    }

    /// What the output reads in rows of the stream, `[rows, d]`.
    fn read_for_output(&self, x: &[f32], rows: usize) -> AlignedVec<f32> {
        let s = self.weights.sizes;
        let norm = if self.blocks.final_norm { self.blocks.norm } else { Norm::None };
        let mut y = AlignedVec::zeros(rows * s.d_row);
        y.par_chunks_exact_mut(s.d_row).zip(x.par_chunks_exact(s.d_row)).for_each(|(y, x)| {
            let (weights, eps) = (&self.weights.norm, self.blocks.norm_eps);
            simd::run(Normalize { norm, eps, sizes: s, weights, x, y });
        });
        y
    }
}

/// The rows of each group.
fn lengths(groups: &[Group]) -> impl Iterator<Item = usize> {
    groups.iter().map(|group| group.rows.len())
}

/// Divides rows of `row` values into parts with these numbers of rows.
fn divided<T>(mut z: &mut [T], rows: impl Iterator<Item = usize>, row: usize) -> Vec<&mut [T]> {
    let mut parts = Vec::new();
    for n in rows {
        let (own, rest) = z.split_at_mut(n * row);
        parts.push(own);
        z = rest;
    }
    parts
}

/// Calls a function for every block of rows of `row` values, on all threads.
pub(super) fn in_blocks<T: Send>(
    values: &mut [T],
    blocks: &[Range<usize>],
    row: usize,
    work: impl Fn(Range<usize>, &mut [T]) + Sync,
) {
    let parts = divided(values, blocks.iter().map(ExactSizeIterator::len), row);
    let parts: Vec<_> = blocks.iter().cloned().zip(parts).collect();
    parts.into_par_iter().with_max_len(1).for_each(|(rows, part)| work(rows, part));
}

/// Some rows of `row` values, one after the other.
fn gathered(values: &[f32], rows: &[usize], row: usize) -> AlignedVec<f32> {
    let mut found = AlignedVec::zeros(rows.len() * row);
    for (to, &from) in found.chunks_exact_mut(row.max(1)).zip(rows) {
        to.copy_from_slice(&values[from * row..][..row]);
    }
    found
}

/// `y = norm(x)` for rows of the stream.
struct Normalize<'a> {
    norm: Norm,
    eps: f64,
    sizes: Sizes,
    weights: &'a NormWeights,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl SimdKernel for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { norm, eps, sizes: Sizes { d, d_row, .. }, weights, x, y } = self;
        if norm == Norm::None {
            y.copy_from_slice(x);
            return;
        }
        let width = padded(d);
        for (x, y) in x.chunks_exact(d_row).zip(y.chunks_exact_mut(d_row)) {
            y.copy_from_slice(x);
            if norm == Norm::Layer {
                let mean = (sum(isa, &x[..width]) / d as f64) as f32;
                // Not the padding, which stays zero.
                y[..d].iter_mut().for_each(|y| *y -= mean);
            }
            let square = f64::from(dot(isa, &y[..width], &y[..width])) / d as f64;
            // A square that overflows would make the row zero, and nobody would notice.
            let factor = if square.is_finite() { (1.0 / (square + eps).sqrt()) as f32 } else { f32::NAN };
            for (y, w) in y[..d].iter_mut().zip(&weights.gain[..d]) {
                *y = *y * factor * w;
            }
            add_bias(&mut y[..d], d, &weights.bias[..d.min(weights.bias.len())]);
        }
    }
}

/// What the mixer of a block reads: queries, keys and values, or the normalized stream.
struct Read<'a> {
    network: &'a BlockNetwork,
    weights: &'a BlockWeights,
    x: &'a [f32],
    positions: &'a [u32],
    read: &'a mut [f32],
    scratch: &'a mut Scratch,
}

impl SimdKernel for Read<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { network, weights, x, positions, read, scratch } = self;
        let s = network.weights.sizes;
        let norm = network.normalize(&weights.norm1);
        if network.config.shape.mixer == Mixer::Average {
            isa.run(Normalize { x, y: read, ..norm });
            return;
        }
        let y = scratch.y.of(x.len());
        isa.run(Normalize { x, y, ..norm });
        let n = positions.len();
        affine(isa, (read, s.qkv_row), n, (scratch.y.of(x.len()), s.d_row, s.d), &weights.qkv);
        rotate(s, (&network.weights.cos, &network.weights.sin), positions, read, &network.blocks);
    }
}

impl BlockNetwork {
    /// The normalization of a block, without rows.
    #[inline(always)]
    fn normalize<'a>(&self, weights: &'a NormWeights) -> Normalize<'a> {
        let Blocks { norm, norm_eps: eps, .. } = self.blocks;
        Normalize { norm, eps, sizes: self.weights.sizes, weights, x: &[], y: &mut [] }
    }
}

/// Rotates the queries and keys of rows by their positions.
#[inline(always)]
fn rotate(s: Sizes, (cos, sin): (&[f32], &[f32]), positions: &[u32], qkv: &mut [f32], blocks: &Blocks) {
    let half = blocks.rotary.map_or(0, |rotary| rotary.dims as usize / 2);
    if half == 0 {
        return;
    }
    for (row, &position) in qkv.chunks_exact_mut(s.qkv_row).zip(positions) {
        let at = position as usize * half;
        let (cos, sin) = (&cos[at..at + half], &sin[at..at + half]);
        for head in row[..s.values].chunks_exact_mut(s.head_row) {
            let (first, second) = head.split_at_mut(half);
            for (((a, b), &cos), &sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}

/// What a block adds to the stream, or puts in its place.
struct Write<'a> {
    network: &'a BlockNetwork,
    weights: &'a BlockWeights,
    x: &'a mut [f32],
    /// What the mixer found.
    z: &'a [f32],
    scratch: &'a mut Scratch,
}

impl SimdKernel for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { network, weights, x, z, scratch } = self;
        let (config, blocks, s) = (&network.config, &network.blocks, network.weights.sizes);
        let n = x.len() / s.d_row;
        let hidden = config.hidden != Hidden::Absent;
        let norm = || network.normalize(&weights.norm2);
        if hidden && blocks.parallel {
            isa.run(Normalize { x, y: scratch.y.of(x.len()), ..norm() });
        }
        let update = if config.skip { Update::Add } else { Update::Replace };
        match config.shape.mixer {
            Mixer::Attention => {
                let right = Right::Panels(&weights.out.map);
                multiply(isa, (x, s.d_row), update, n, (z, s.mixed_row, s.mixed), (right, padded(s.d)));
                add_bias(x, s.d_row, &weights.out.bias);
            }
            Mixer::Average if config.skip => add(x, z),
            Mixer::Average => x.copy_from_slice(z),
            Mixer::None => {}
        }
        if !hidden {
            return;
        }
        if !blocks.parallel {
            isa.run(Normalize { x, y: scratch.y.of(x.len()), ..norm() });
        }
        let mut update = if blocks.mlp_skip { Update::Add } else { Update::Replace };
        let (all, stride) = (padded(s.m), spread_stride(SLICE));
        for first in (0..s.m).step_by(SLICE) {
            let width = SLICE.min(all - first);
            let y = (&*scratch.y.of(x.len()), s.d_row, s.d);
            let (map, factor) = match blocks.gated {
                true => (&weights.gate, Some(&weights.up)),
                false => (&weights.up, None),
            };
            let slice = |bias: &'_ AlignedVec<f32>| first.min(bias.len())..(first + width).min(bias.len());
            let values = scratch.hidden.of(n * stride);
            let right = Right::Part(&map.map, (0, first));
            multiply(isa, (values, stride), Update::Replace, n, y, (right, width));
            let factors = match factor {
                Some(factor) => {
                    let factors = scratch.factors.of(n * stride);
                    let right = Right::Part(&factor.map, (0, first));
                    multiply(isa, (factors, stride), Update::Replace, n, y, (right, width));
                    factors
                }
                None => &mut [],
            };
            let factor_bias = factor.map_or(&[][..], |factor| &factor.bias[slice(&factor.bias)]);
            let neurons = Neurons {
                activation: config.shape.activation,
                values,
                bias: &map.bias[slice(&map.bias)],
                factors,
                factor_bias,
                stride,
                width,
            };
            isa.run(neurons);
            let depth = SLICE.min(s.m - first);
            let right = Right::Part(&weights.down.map, (first, 0));
            let h = (&*scratch.hidden.of(n * stride), stride, depth);
            multiply(isa, (x, s.d_row), update, n, h, (right, padded(s.d)));
            update = Update::Add;
        }
        add_bias(x, s.d_row, &weights.down.bias);
    }
}

/// `target = x W + b` for `n` rows; x is given as values, distance between rows, and width.
#[inline(always)]
fn affine<I: Isa>(
    isa: I,
    (target, stride): (&mut [f32], usize),
    n: usize,
    x: (&[f32], usize, usize),
    weights: &Affine,
) {
    let right = (Right::Panels(&weights.map), weights.map.width());
    multiply(isa, (target, stride), Update::Replace, n, x, right);
    add_bias(target, stride, &weights.bias);
}

/// `target (+)= x W` for `n` rows.
#[inline(always)]
pub(super) fn multiply<I: Isa>(
    isa: I,
    (target, stride): (&mut [f32], usize),
    update: Update,
    rows: usize,
    (x, x_row, depth): (&[f32], usize, usize),
    (right, width): (Right<'_, f32>, usize),
) {
    let (left, order) = (Left::rows(x, x_row), TargetOrder::Rows(stride));
    isa.run(Product { target, order, update, rows, depth, width, left, right });
}

/// The panels of the output, for [`super::head`].
impl BlockNetwork {
    pub(super) fn output(&self) -> (&Panels<f32>, &[f32]) {
        (&self.weights.output.map, &self.weights.output.bias)
    }
}
