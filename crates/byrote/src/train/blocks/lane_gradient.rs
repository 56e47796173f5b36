//! The gradient of one lane, and the sum over lanes.
//!
//! Matrices are packed in panels as products write them ([`TargetOrder::Panels`](crate::num::gemm::TargetOrder)); tables have
//! rows of whole lines.

use super::lane::Lane;
use super::weights::{BlockLayout, Layout, Pair, Sizes};
use crate::model::{Blocks, Config, Hidden, Mixer, Norm, Positions};
use crate::num::aligned::{AlignedVec, LINE, line_at, padded};
use crate::num::gemm::{PANEL, panels};
use crate::num::real::Real;
use crate::num::row_ops::add;
use crate::num::simd::{Isa, SimdKernel, run};
use rayon::prelude::*;
use std::ops::Range;

/// Derivatives of gain and bias.
pub(super) struct NormGradient<T> {
    gain: AlignedVec<T>,
    bias: AlignedVec<T>,
}

impl<T: Real> NormGradient<T> {
    fn new(d: usize) -> Self {
        Self { gain: AlignedVec::zeros(d), bias: AlignedVec::zeros(d) }
    }

    pub(super) fn parts(&mut self) -> (&mut [T], &mut [T]) {
        (&mut self.gain, &mut self.bias)
    }

    fn start(&mut self) {
        self.gain.fill(T::from_f64(0.0));
        self.bias.fill(T::from_f64(0.0));
    }
}

/// The gradient of a block.
pub(super) struct BlockGradient<T> {
    pub(super) norm1: NormGradient<T>,
    pub(super) u_pos: AlignedVec<T>,
    pub(super) qkv: AlignedVec<T>,
    pub(super) b_qkv: AlignedVec<T>,
    pub(super) out: AlignedVec<T>,
    pub(super) b_out: AlignedVec<T>,
    pub(super) norm2: NormGradient<T>,
    pub(super) gate: AlignedVec<T>,
    pub(super) b_gate: AlignedVec<T>,
    pub(super) up: AlignedVec<T>,
    pub(super) b_up: AlignedVec<T>,
    pub(super) down: AlignedVec<T>,
    pub(super) b_down: AlignedVec<T>,
}

/// The gradient of a lane.
pub(super) struct LaneGradient<T> {
    pub(super) w_e: AlignedVec<T>,
    pub(super) w_pos: AlignedVec<T>,
    pub(super) blocks: Vec<BlockGradient<T>>,
    pub(super) norm: NormGradient<T>,
    pub(super) w_u: AlignedVec<T>,
    pub(super) b_u: AlignedVec<T>,
}

impl<T: Real> LaneGradient<T> {
    /// Zeros; nothing at all without a way back.
    pub(super) fn new(config: &Config, blocks: &Blocks, s: Sizes, backward: bool) -> Self {
        let zeros = |needed: bool, n: usize| AlignedVec::zeros(if needed && backward { n } else { 0 });
        let normed = |norm: Norm| NormGradient::new(if backward && norm != Norm::None { s.d } else { 0 });
        let attention = config.shape.mixer == Mixer::Attention;
        let hidden = config.hidden != Hidden::Absent;
        let width = padded(s.d);
        let block = || BlockGradient {
            norm1: normed(blocks.norm),
            u_pos: zeros(config.shape.mixer == Mixer::Average, s.n_ctx),
            qkv: zeros(attention, s.d * s.qkv),
            b_qkv: zeros(attention, s.qkv),
            out: zeros(attention, s.mixed * width),
            b_out: zeros(attention, s.d),
            norm2: normed(blocks.norm),
            gate: zeros(hidden && blocks.gated, s.d * padded(s.m)),
            b_gate: zeros(hidden && blocks.gated, s.m),
            up: zeros(hidden, s.d * padded(s.m)),
            b_up: zeros(hidden, s.m),
            down: zeros(hidden, s.m * width),
            b_down: zeros(hidden, s.d),
        };
        Self {
            w_e: zeros(true, s.omega * width),
            w_pos: zeros(config.positions == Positions::Learned, s.n_ctx * width),
            blocks: (0..blocks.n_layers).map(|_| block()).collect(),
            norm: normed(if blocks.final_norm { blocks.norm } else { Norm::None }),
            w_u: zeros(true, s.d * padded(s.omega)),
            b_u: zeros(config.output_bias, s.omega),
        }
    }

    /// The numbers in it.
    pub(super) fn values(config: &Config, s: Sizes) -> usize {
        config.n_parameters() + s.d * padded(s.omega)
    }

    /// Clears what is only ever added to; products replace the rest.
    pub(super) fn start(&mut self) {
        let zero = T::from_f64(0.0);
        self.w_e.fill(zero);
        self.w_pos.fill(zero);
        self.norm.start();
        for block in &mut self.blocks {
            block.norm1.start();
            block.norm2.start();
            block.u_pos.fill(zero);
        }
    }
}

/// `target` = the sum over the lanes, in order, of a part of a packed matrix: `columns` columns from `at.1` on, of all rows that the
/// target has, from `at.0` on.
struct Sum<'a, T> {
    target: &'a mut [T],
    columns: usize,
    /// The padded width of the packed matrix.
    width: usize,
    at: (usize, usize),
    lanes: &'a [Lane<T>],
    of: Of<T>,
}

/// One of a lane's tensors.
#[derive(Clone, Copy)]
enum Of<T> {
    Model(fn(&LaneGradient<T>) -> &[T]),
    Block(usize, fn(&BlockGradient<T>) -> &[T]),
}

impl<T: Real> SimdKernel for Sum<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Self { target, columns, width, at: (row, column), lanes, of } = self;
        target.fill(T::from_f64(0.0));
        for lane in lanes {
            let values = match of {
                Of::Model(of) => of(&lane.gradient),
                Of::Block(block, of) => of(&lane.gradient.blocks[block]),
            };
            for (first, panel) in panels(values, values.len() / width, width) {
                let n = PANEL.min(width - first);
                let (from, to) = (first.max(column), (first + n).min(column + columns));
                if from >= to {
                    continue;
                }
                let rows = target.chunks_exact_mut(columns).zip(panel[row * n..].chunks_exact(n));
                rows.for_each(|(target, source)| {
                    add(&mut target[from - column..to - column], &source[from - first..to - first]);
                });
            }
        }
    }
}

/// `target += sum of the lanes' W_U, transposed`: the output of a tied model.
struct AddTransposed<'a, T> {
    /// `[tokens, d]`
    target: &'a mut [T],
    /// A multiple of [`LINE`].
    first: usize,
    lanes: &'a [Lane<T>],
    s: Sizes,
}

impl<T: Real> SimdKernel for AddTransposed<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Self { target, first, lanes, s } = self;
        let width = padded(s.omega);
        for (token, target) in (first..).step_by(LINE).zip(target.chunks_mut(LINE * s.d)) {
            let panel = token - token % PANEL;
            let n = PANEL.min(width - panel);
            for k in 0..s.d {
                let mut sums = [T::from_f64(0.0); LINE];
                for lane in lanes {
                    add(&mut sums, line_at(&lane.gradient.w_u, panel * s.d + k * n + (token - panel)));
                }
                for (x, sum) in target[k..].iter_mut().step_by(s.d).zip(sums) {
                    *x += sum;
                }
            }
        }
    }
}

/// Gradient values summed at a time.
const SUMMED: usize = 1 << 14;

/// Writes the gradient of all parameters: the sum of the lanes, in order.
pub(super) fn gather<T: Real>(gradient: &mut [T], layout: &Layout, lanes: &[Lane<T>], s: Sizes) {
    // The tables come first, then the blocks, which have equal sizes, then the output.
    let (tables_end, blocks_end) = (layout.w_e.end.max(layout.w_pos.end), layout.blocks_end());
    let (before, output) = gradient.split_at_mut(blocks_end);
    let (tables, blocks) = before.split_at_mut(tables_end);
    let size = (blocks.len() / layout.blocks.len()).max(1);
    rayon::join(
        || sum_tables(tables, layout, lanes, s),
        || {
            rayon::join(
                || sum_output(output, blocks_end, layout, lanes, s),
                || {
                    blocks.par_chunks_mut(size).zip(&layout.blocks).enumerate().for_each(
                        |(i, (target, block))| {
                            let sums = BlockSums { target, start: tables_end + i * size, index: i, lanes, s };
                            sums.write(block);
                        },
                    );
                },
            )
        },
    );
}

/// What comes after the blocks.
fn sum_output<T: Real>(output: &mut [T], start: usize, layout: &Layout, lanes: &[Lane<T>], s: Sizes) {
    let (norms, output) = output.split_at_mut(layout.norm.0.len() + layout.norm.1.len());
    let (gain, bias) = norms.split_at_mut(layout.norm.0.len());
    debug_assert!(layout.norm.0.is_empty() || layout.norm.0.start == start);
    sum_table(gain, 0, lanes, |g| &g.norm.gain, s.d);
    sum_table(bias, 0, lanes, |g| &g.norm.bias, s.d);
    let (w_u, b_u) = output.split_at_mut(layout.w_u.len());
    let rows = (SUMMED / s.omega).max(1);
    w_u.par_chunks_mut(rows * s.omega).enumerate().for_each(|(i, target)| {
        let (columns, width, at) = (s.omega, padded(s.omega), (i * rows, 0));
        run(Sum { target, columns, width, at, lanes, of: Of::Model(|g| &g.w_u) });
    });
    sum_table(b_u, 0, lanes, |g| &g.b_u, s.omega);
}

/// The sums of a block's tensors.
struct BlockSums<'a, T> {
    /// The parameters of the block, and where they begin among all.
    target: &'a mut [T],
    start: usize,
    index: usize,
    lanes: &'a [Lane<T>],
    s: Sizes,
}

impl<T: Real> BlockSums<'_, T> {
    fn write(mut self, layout: &BlockLayout) {
        let s = self.s;
        self.vectors(&layout.norm1, s.d, |g| &g.norm1.gain, |g| &g.norm1.bias);
        self.vectors(&layout.norm2, s.d, |g| &g.norm2.gain, |g| &g.norm2.bias);
        self.vector(&layout.u_pos, s.n_ctx, |g| &g.u_pos);
        for ((weight, bias), first) in layout.qkv.iter().zip([0, s.keys, s.values]) {
            for head in 0..weight.len() / (s.d * s.d_head).max(1) {
                let column = first + head * s.head_row;
                let range = part(weight, head, s.d * s.d_head);
                self.matrix(&range, (s.d_head, s.qkv), (0, column), |g| &g.qkv);
                let range = part(bias, head, s.d_head);
                self.matrix(&range, (s.d_head, s.qkv), (0, column), |g| &g.b_qkv);
            }
        }
        for head in 0..layout.out.0.len() / (s.d_head * s.d).max(1) {
            let range = part(&layout.out.0, head, s.d_head * s.d);
            self.matrix(&range, (s.d, padded(s.d)), (head * s.head_row, 0), |g| &g.out);
        }
        self.vector(&layout.out.1, s.d, |g| &g.b_out);
        let m = (s.m, padded(s.m));
        self.matrix(&layout.gate.0, m, (0, 0), |g| &g.gate);
        self.matrix(&layout.up.0, m, (0, 0), |g| &g.up);
        self.matrix(&layout.down.0, (s.d, padded(s.d)), (0, 0), |g| &g.down);
        self.vector(&layout.gate.1, s.m, |g| &g.b_gate);
        self.vector(&layout.up.1, s.m, |g| &g.b_up);
        self.vector(&layout.down.1, s.d, |g| &g.b_down);
    }

    fn matrix(
        &mut self,
        range: &Range<usize>,
        (columns, width): (usize, usize),
        at: (usize, usize),
        of: fn(&BlockGradient<T>) -> &[T],
    ) {
        if range.is_empty() {
            return;
        }
        let target = &mut self.target[range.start - self.start..range.end - self.start];
        run(Sum { target, columns, width, at, lanes: self.lanes, of: Of::Block(self.index, of) });
    }

    /// A vector is a matrix of one row.
    fn vector(&mut self, range: &Range<usize>, n: usize, of: fn(&BlockGradient<T>) -> &[T]) {
        self.matrix(range, (n, padded(n)), (0, 0), of);
    }

    fn vectors(
        &mut self,
        (a, b): &Pair,
        n: usize,
        of_a: fn(&BlockGradient<T>) -> &[T],
        of_b: fn(&BlockGradient<T>) -> &[T],
    ) {
        self.vector(a, n, of_a);
        self.vector(b, n, of_b);
    }
}

/// The part of a tensor that belongs to a head; empty if the tensor is.
fn part(range: &Range<usize>, head: usize, size: usize) -> Range<usize> {
    let start = (range.start + head * size).min(range.end);
    start..(start + size).min(range.end)
}

fn sum_tables<T: Real>(tables: &mut [T], layout: &Layout, lanes: &[Lane<T>], s: Sizes) {
    let (w_e, w_pos) = tables.split_at_mut(layout.w_e.len());
    let rows = (SUMMED / s.d).max(1).next_multiple_of(LINE);
    let tied = layout.w_u.is_empty();
    w_e.par_chunks_mut(rows * s.d).enumerate().for_each(|(i, target)| {
        sum_table(target, i * rows, lanes, |g| &g.w_e, s.d);
        if tied {
            run(AddTransposed { target, first: i * rows, lanes, s });
        }
    });
    sum_table(w_pos, 0, lanes, |g| &g.w_pos, s.d);
}

/// Sums rows of whole lines.
fn sum_table<T: Real>(
    target: &mut [T],
    first: usize,
    lanes: &[Lane<T>],
    of: fn(&LaneGradient<T>) -> &[T],
    d: usize,
) {
    target.fill(T::from_f64(0.0));
    let width = padded(d);
    for lane in lanes {
        let rows = of(&lane.gradient).get(first * width..).unwrap_or_default().chunks_exact(width);
        target.chunks_exact_mut(d).zip(rows).for_each(|(target, row)| add(target, row));
    }
}
