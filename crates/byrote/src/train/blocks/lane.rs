//! A lane: the chunks that one thread takes through all blocks to the loss and back.
//!
//! Rows are padded to whole lines; the padding of weights and activations is zero, that of the logits minus infinity. Backward,
//! with dx the derivatives of the stream after a block, `after` the stream between its mixer and its hidden layer:
//!
//! ```text
//! dW_out = h^T dx       dh = dx W_out^T      du = dh psi'(u)             dW_in = y2^T du      dy2 = du W_in^T
//! gated: h = g u,  g = psi(v):               du = dh g,  dv = dh u psi'(v)
//! d_after = dx + norm2'(dy2)                 (in parallel: d_after = dx, and norm2'(dy2) reaches the block's input)
//! dW_O = z^T d_after    dz = d_after W_O^T   dQKV by attention           dW_QKV = y1^T dQKV   dy1 = dQKV W_QKV^T
//! dx of the block before = d_after + norm1'(dy1)
//! ```

use super::super::cross_entropy::{GROUP, cross_entropy};
use super::super::gradient::activate::Activate;
use super::super::row_products::{affine, back, outer, sum_rows};
use super::lane_gradient::LaneGradient;
use super::normalization::Normalization;
use super::tree_mixers::{Path, attend, attend_back, average, average_back, rotate};
use super::trie::Chunk;
use super::weights::{BlockWeights, Sizes, Weights};
use crate::dataset::Dataset;
use crate::model::{Blocks, Config, Hidden, Mixer, Norm};
use crate::num::aligned::{AlignedVec, padded};
use crate::num::gemm::Update;
use crate::num::real::Real;
use crate::num::row_ops::{add, add_and_max};
use crate::num::simd::{Isa, SimdKernel};
use std::ops::Range;

/// Logits that are computed at a time: they stay in the cache.
const LOGITS: usize = 1 << 17;
/// The most rows whose logits are computed at a time, and the fewest.
const ROWS: Range<usize> = 16..145;

/// The input shared by all lanes.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a, T> {
    pub(super) config: &'a Config,
    pub(super) blocks: &'a Blocks,
    pub(super) dataset: &'a Dataset,
    pub(super) weights: &'a Weights<T>,
    /// The embedding, `[omega, d]`, and the positions, `[n_ctx, d]` or empty.
    pub(super) tables: (&'a [T], &'a [T]),
    pub(super) s: Sizes,
}

impl<T> Shared<'_, T> {
    fn normalization(&self) -> Normalization {
        let Blocks { norm, norm_eps: eps, .. } = *self.blocks;
        Normalization { norm, eps, d: self.s.d, d_row: self.s.d_row }
    }
}

/// What a block leaves for the way back.
struct Tape<T> {
    /// The normalized stream that the mixer reads, and its factors.
    x1: AlignedVec<T>,
    factors1: AlignedVec<T>,
    qkv: AlignedVec<T>,
    /// Attention weights.
    weights: AlignedVec<T>,
    z: AlignedVec<T>,
    /// The normalized stream that the hidden layer reads, and its factors.
    x2: AlignedVec<T>,
    factors2: AlignedVec<T>,
    /// The activation of a gate and its factor; both are empty without a gate.
    gate: AlignedVec<T>,
    up: AlignedVec<T>,
    /// What the hidden layer puts out, and the slope of its activation.
    h: AlignedVec<T>,
    slope: AlignedVec<T>,
}

impl<T: Real> Tape<T> {
    fn new(rows: usize, weights: usize, gated: bool, s: Sizes) -> Self {
        let gate = if gated { rows * s.m_row } else { 0 };
        Self {
            x1: AlignedVec::zeros(rows * s.d_row),
            factors1: AlignedVec::zeros(rows),
            qkv: AlignedVec::zeros(rows * s.qkv_row),
            weights: AlignedVec::zeros(weights * s.heads),
            z: AlignedVec::zeros(rows * s.mixed_row),
            x2: AlignedVec::zeros(rows * s.d_row),
            factors2: AlignedVec::zeros(rows),
            gate: AlignedVec::zeros(gate),
            up: AlignedVec::zeros(gate),
            h: AlignedVec::zeros(rows * s.m_row),
            slope: AlignedVec::zeros(rows * s.m_row),
        }
    }
}

/// How much of a forward pass is kept for the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Nothing: there is no way back.
    Nothing,
    /// The stream before every block, from which the rest is computed again.
    Streams,
    /// Everything.
    All,
}

/// The chunks of a lane and its thread's buffers.
pub(super) struct Lane<T> {
    keep: Keep,
    /// The residual stream and its derivatives, `[rows, d]`.
    x: AlignedVec<T>,
    dx: AlignedVec<T>,
    /// The stream before each block, with [`Keep::Streams`].
    streams: Vec<AlignedVec<T>>,
    /// One per block, or one for all.
    tapes: Vec<Tape<T>>,
    /// Rows of `d`: what a layer reads, what it adds to the stream, and their derivatives.
    y: AlignedVec<T>,
    added: AlignedVec<T>,
    dy: AlignedVec<T>,
    /// Sums over subtrees, for averaging.
    subtrees: AlignedVec<T>,
    /// Rows of `m`: arguments of the activation, and on the way back the derivatives of `h`; and those of the gate.
    hidden: AlignedVec<T>,
    d_gate: AlignedVec<T>,
    /// Derivatives of queries, keys and values, of mixed values, of the scores of a path.
    d_qkv: AlignedVec<T>,
    dz: AlignedVec<T>,
    d_scores: AlignedVec<T>,
    path: Path<T>,
    /// The normalized stream of the scored rows, `[scored, d]`, and its factors; `y` has what the output reads.
    read: AlignedVec<T>,
    read_factors: AlignedVec<T>,
    logits_rows: usize,
    logits: AlignedVec<T>,
    pub(super) gradient: LaneGradient<T>,
    pub(super) loss: f64,
    /// The number of predictions whose token has the largest logit.
    pub(super) hits: f64,
}

impl<T: Real> Lane<T> {
    /// A lane for these chunks.
    pub(super) fn new(chunks: &[&Chunk], config: &Config, blocks: &Blocks, s: Sizes, keep: Keep) -> Self {
        let most = |f: fn(&Chunk) -> usize| chunks.iter().map(|chunk| f(chunk)).max().unwrap_or(0);
        let (rows, scored) = (most(Chunk::len), most(|c| c.scored.len()));
        let (weights, deepest) = (most(|c| c.weights), most(|c| c.deepest));
        let backward = keep != Keep::Nothing;
        let back = |values: usize| if backward { values } else { 0 };
        let gate = if blocks.gated { rows * s.m_row } else { 0 };
        let n_tapes = if keep == Keep::All { blocks.n_layers } else { 1 };
        let streams = if keep == Keep::Streams { blocks.n_layers } else { 0 };
        let logits_rows =
            ((LOGITS / s.omega_row).clamp(ROWS.start, ROWS.end - 1) & !7).min(scored.next_multiple_of(8));
        let row_of_d = || AlignedVec::zeros(rows * s.d_row);
        Self {
            keep,
            x: row_of_d(),
            dx: AlignedVec::zeros(back(rows * s.d_row)),
            streams: (0..streams).map(|_| row_of_d()).collect(),
            tapes: (0..n_tapes).map(|_| Tape::new(rows, weights, blocks.gated, s)).collect(),
            y: row_of_d(),
            added: row_of_d(),
            dy: AlignedVec::zeros(back(rows * s.d_row)),
            subtrees: AlignedVec::zeros(back(if config.shape.mixer == Mixer::Average {
                rows * s.d_row
            } else {
                0
            })),
            hidden: AlignedVec::zeros(rows * s.m_row),
            d_gate: AlignedVec::zeros(back(gate)),
            d_qkv: AlignedVec::zeros(back(rows * s.qkv_row)),
            dz: AlignedVec::zeros(back(rows * s.mixed_row)),
            d_scores: AlignedVec::zeros(padded(deepest)),
            path: Path::new(deepest, s, backward),
            read: AlignedVec::zeros(scored * s.d_row),
            read_factors: AlignedVec::zeros(scored),
            logits_rows,
            logits: AlignedVec::zeros(logits_rows * s.omega_row),
            gradient: LaneGradient::new(config, blocks, s, backward),
            loss: 0.0,
            hits: 0.0,
        }
    }

    /// Bytes of activations per lane for a number of rows; the gradient is not counted.
    pub(super) fn bytes(rows: usize, deepest: usize, blocks: &Blocks, s: Sizes, keep: Keep) -> usize {
        let gates = if blocks.gated { 2 } else { 0 };
        let weights = padded(deepest) * s.heads;
        let tape = 2 * s.d_row + s.qkv_row + weights + s.mixed_row + (2 + gates) * s.m_row;
        let layers = blocks.n_layers as usize;
        let kept = match keep {
            Keep::Nothing => tape,
            Keep::Streams => tape + layers * s.d_row,
            Keep::All => layers * tape,
        };
        let scratch = 6 * s.d_row + s.qkv_row + s.mixed_row + 2 * s.m_row;
        rows * (kept + scratch) * size_of::<T>()
    }

    fn tape_of(&self, block: usize) -> usize {
        if self.keep == Keep::All { block } else { 0 }
    }

    /// The blocks of scored rows of a chunk.
    pub(super) fn row_blocks(&self, chunk: &Chunk) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (rows, step) = (chunk.scored.len(), self.logits_rows.max(1));
        (0..rows).step_by(step).map(move |start| start..(start + step).min(rows))
    }

    /// The logits of a block of scored rows just computed.
    pub(super) fn logits(&self, rows: usize, s: Sizes) -> impl Iterator<Item = &[T]> {
        self.logits.chunks_exact(s.omega_row).take(rows).map(move |row| &row[..s.omega])
    }

    /// What the output reads in the scored rows.
    pub(super) fn read(&self, rows: usize, s: Sizes) -> impl Iterator<Item = &[T]> {
        self.y.chunks_exact(s.d_row).take(rows).map(move |row| &row[..s.d])
    }
}

/// Embeds the rows of a chunk.
pub(super) struct Embed<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) shared: Shared<'a, T>,
    pub(super) chunk: &'a Chunk,
}

impl<T: Real> SimdKernel for Embed<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Shared { tables: (embedding, positions), s, .. } = self.shared;
        let rows = self.lane.x.chunks_exact_mut(s.d_row).zip(&self.chunk.tokens).zip(&self.chunk.depths);
        for ((x, &token), &depth) in rows {
            x[..s.d].copy_from_slice(&embedding[token as usize * s.d..][..s.d]);
            x[s.d..].fill(T::from_f64(0.0));
            if !positions.is_empty() {
                add(&mut x[..s.d], &positions[(depth as usize - 1) * s.d..][..s.d]);
            }
        }
    }
}

/// Takes the stream of a chunk through a block.
pub(super) struct Forward<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) shared: Shared<'a, T>,
    pub(super) chunk: &'a Chunk,
    pub(super) block: usize,
}

impl<T: Real> SimdKernel for Forward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { lane, shared, chunk, block } = self;
        let (n, s) = (chunk.len(), shared.s);
        if let Some(stream) = lane.streams.get_mut(block) {
            stream[..n * s.d_row].copy_from_slice(&lane.x[..n * s.d_row]);
        }
        let weights = &shared.weights.blocks[block];
        let parallel = shared.blocks.parallel && shared.config.hidden != Hidden::Absent;
        if parallel {
            lane.read_for_mlp(isa, shared, n, block);
        }
        lane.mix(isa, shared, chunk, weights, block);
        if shared.config.hidden != Hidden::Absent {
            if !parallel {
                lane.read_for_mlp(isa, shared, n, block);
            }
            lane.mlp(isa, shared, n, weights, block);
        }
    }
}

impl<T: Real> Lane<T> {
    /// Adds what the mixer puts out to the stream.
    #[inline(always)]
    fn mix<I: Isa>(
        &mut self,
        isa: I,
        shared: Shared<'_, T>,
        chunk: &Chunk,
        weights: &BlockWeights<T>,
        block: usize,
    ) {
        let Shared { config, s, .. } = shared;
        let n = chunk.len();
        if config.shape.mixer == Mixer::None {
            return;
        }
        let tape = self.tape_of(block);
        let tape = &mut self.tapes[tape];
        let norm = shared.normalization();
        norm.forward(isa, n, &self.x, &mut tape.x1, &mut tape.factors1);
        norm.output(isa, n, &tape.x1, &weights.norm1, &mut self.y);
        if config.shape.mixer == Mixer::Average {
            average(isa, chunk, s, &weights.u_pos, &self.y, &mut self.added);
        } else {
            let y = (&self.y[..], s.d_row, s.d);
            affine(isa, &mut tape.qkv, s.qkv_row, n, y, &weights.qkv, Some(&weights.b_qkv));
            rotate(chunk, s, (&shared.weights.cos, &shared.weights.sin), false, &mut tape.qkv);
            let factor = T::from_f64(config.score_factor());
            attend(isa, chunk, s, factor, &tape.qkv, &mut self.path, &mut tape.weights, &mut tape.z);
            let z = (&tape.z[..], s.mixed_row, s.mixed);
            affine(isa, &mut self.added, s.d_row, n, z, &weights.out, Some(&weights.b_out));
        }
        match config.skip {
            true => add(&mut self.x[..n * s.d_row], &self.added),
            false => self.x[..n * s.d_row].copy_from_slice(&self.added[..n * s.d_row]),
        }
    }

    /// Normalizes the stream for the hidden layer.
    #[inline(always)]
    fn read_for_mlp<I: Isa>(&mut self, isa: I, shared: Shared<'_, T>, n: usize, block: usize) {
        let tape = self.tape_of(block);
        let tape = &mut self.tapes[tape];
        shared.normalization().forward(isa, n, &self.x, &mut tape.x2, &mut tape.factors2);
    }

    /// Adds what the hidden layer puts out to the stream.
    #[inline(always)]
    fn mlp<I: Isa>(
        &mut self,
        isa: I,
        shared: Shared<'_, T>,
        n: usize,
        weights: &BlockWeights<T>,
        block: usize,
    ) {
        let Shared { config, blocks, s, .. } = shared;
        let tape = self.tape_of(block);
        let tape = &mut self.tapes[tape];
        shared.normalization().output(isa, n, &tape.x2, &weights.norm2, &mut self.y);
        let used = n * s.m_row;
        let y = (&self.y[..], s.d_row, s.d);
        let (map, bias, out) = match blocks.gated {
            true => (&weights.gate, &weights.b_gate[..], &mut tape.gate),
            false => (&weights.up, &weights.b_up[..], &mut tape.h),
        };
        affine(isa, &mut self.hidden, s.m_row, n, y, map, None);
        let (activation, u, row) = (config.shape.activation, &self.hidden[..used], s.m_row);
        isa.run(Activate { activation, u, bias, y: &mut out[..used], slope: &mut tape.slope[..used], row });
        if blocks.gated {
            affine(isa, &mut tape.up, s.m_row, n, y, &weights.up, Some(&weights.b_up));
            for ((h, gate), up) in tape.h[..used].iter_mut().zip(&tape.gate[..used]).zip(&tape.up[..used]) {
                *h = *gate * *up;
            }
        }
        let h = (&tape.h[..], s.m_row, s.m);
        affine(isa, &mut self.added, s.d_row, n, h, &weights.down, Some(&weights.b_down));
        match blocks.mlp_skip {
            true => add(&mut self.x[..n * s.d_row], &self.added),
            false => self.x[..n * s.d_row].copy_from_slice(&self.added[..n * s.d_row]),
        }
    }
}

/// Collects what the output reads in the scored rows of a chunk.
pub(super) struct Read<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) shared: Shared<'a, T>,
    pub(super) chunk: &'a Chunk,
}

impl<T> Shared<'_, T> {
    /// The normalization before the output.
    fn final_normalization(&self) -> Normalization {
        let norm = if self.blocks.final_norm { self.blocks.norm } else { Norm::None };
        Normalization { norm, ..self.normalization() }
    }
}

impl<T: Real> SimdKernel for Read<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { lane, shared, chunk } = self;
        let (n, d_row) = (chunk.scored.len(), shared.s.d_row);
        for (&(row, _), target) in chunk.scored.iter().zip(lane.added.chunks_exact_mut(d_row)) {
            target.copy_from_slice(&lane.x[row as usize * d_row..][..d_row]);
        }
        let norm = shared.final_normalization();
        norm.forward(isa, n, &lane.added, &mut lane.read, &mut lane.read_factors);
        norm.output(isa, n, &lane.read, &shared.weights.norm, &mut lane.y);
    }
}

/// How far the output of a block of scored rows is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// To the logits.
    Logits,
    /// To the loss, which is added to the lane's.
    Loss,
    /// To the loss and back to what the output reads. The gradient replaces what was there if this is the first block of rows
    /// of the lane.
    Gradient(Update),
}

/// The output for a block of scored rows.
pub(super) struct Output<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) shared: Shared<'a, T>,
    pub(super) chunk: &'a Chunk,
    pub(super) rows: Range<usize>,
    pub(super) until: Until,
}

impl<T: Real> SimdKernel for Output<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { lane, shared: Shared { weights, dataset, s, .. }, chunk, rows, until } = self;
        let n = rows.len();
        let read = (&lane.y[rows.start * s.d_row..], s.d_row, s.d);
        affine(isa, &mut lane.logits, s.omega_row, n, read, &weights.u, None);
        let b_u = &mut lane.gradient.b_u;
        if until == Until::Gradient(Update::Replace) {
            b_u.fill(T::from_f64(0.0));
        }
        let groups = lane.logits[..n * s.omega_row].chunks_mut(GROUP * s.omega_row);
        for (group, first) in groups.zip(rows.clone().step_by(GROUP)) {
            let mut largest = [T::from_f64(0.0); GROUP];
            for (row, largest) in group.chunks_exact_mut(s.omega_row).zip(&mut largest) {
                *largest = add_and_max(isa, &mut row[..padded(s.omega)], &weights.b_u);
            }
            if until != Until::Logits {
                let context = |row: usize| (chunk.scored[first + row].1 as usize, chunk.factors[first + row]);
                let (loss, hits) = cross_entropy(isa, group, &largest, dataset, context, s.omega);
                lane.loss += loss;
                lane.hits += hits;
            }
            if matches!(until, Until::Gradient(_)) && !b_u.is_empty() {
                group.chunks_exact(s.omega_row).for_each(|row| add(b_u, row));
            }
        }
        if let Until::Gradient(update) = until {
            let g = (&lane.logits[..], s.omega_row, s.omega);
            outer(isa, &mut lane.gradient.w_u, update, n, read, g);
            back(isa, &mut lane.dy[rows.start * s.d_row..], s.d_row, n, g, &weights.u);
        }
    }
}

/// From the derivatives of what the output reads to those of the stream.
pub(super) struct ReadBack<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) shared: Shared<'a, T>,
    pub(super) chunk: &'a Chunk,
}

impl<T: Real> SimdKernel for ReadBack<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { lane, shared, chunk } = self;
        let (n, d_row) = (chunk.scored.len(), shared.s.d_row);
        let sums = lane.gradient.norm.parts();
        let (read, factors, weights) = (&lane.read, &lane.read_factors, &shared.weights.norm);
        shared.final_normalization().backward(isa, n, read, factors, weights, &mut lane.dy, sums);
        lane.dx[..chunk.len() * d_row].fill(T::from_f64(0.0));
        for (&(row, _), source) in chunk.scored.iter().zip(lane.dy.chunks_exact(d_row)) {
            lane.dx[row as usize * d_row..][..d_row].copy_from_slice(source);
        }
    }
}

/// Takes the derivatives of the stream of a chunk back through a block; the gradient of the first chunk of a lane replaces what
/// was there.
pub(super) struct Backward<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) shared: Shared<'a, T>,
    pub(super) chunk: &'a Chunk,
    pub(super) block: usize,
    pub(super) update: Update,
}

impl<T: Real> SimdKernel for Backward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { lane, shared, chunk, block, update } = self;
        let (n, used) = (chunk.len(), chunk.len() * shared.s.d_row);
        let Blocks { parallel, mlp_skip, .. } = *shared.blocks;
        if shared.config.hidden != Hidden::Absent {
            lane.mlp_back(isa, shared, n, block, update);
            // `dy` has the derivatives of the stream that the hidden layer reads.
            match (parallel, mlp_skip) {
                (false, true) => add(&mut lane.dx[..used], &lane.dy),
                (false, false) => lane.dx[..used].copy_from_slice(&lane.dy[..used]),
                (true, true) => lane.added[..used].copy_from_slice(&lane.dy[..used]),
                (true, false) => {
                    lane.added[..used].copy_from_slice(&lane.dy[..used]);
                    lane.dx[..used].fill(T::from_f64(0.0));
                }
            }
        }
        if shared.config.shape.mixer != Mixer::None {
            lane.mix_back(isa, shared, chunk, block, update);
            match shared.config.skip {
                true => add(&mut lane.dx[..used], &lane.dy),
                false => lane.dx[..used].copy_from_slice(&lane.dy[..used]),
            }
        }
        if parallel {
            add(&mut lane.dx[..used], &lane.added);
        }
    }
}

impl<T: Real> Lane<T> {
    /// From the derivatives of what the hidden layer puts out, `dx`, to those of what it reads, `dy`.
    #[inline(always)]
    fn mlp_back<I: Isa>(&mut self, isa: I, shared: Shared<'_, T>, n: usize, block: usize, update: Update) {
        let Shared { weights, blocks, s, .. } = shared;
        let weights = &weights.blocks[block];
        let tape = self.tape_of(block);
        let tape = &mut self.tapes[tape];
        let gradient = &mut self.gradient.blocks[block];
        let norm = shared.normalization();
        norm.output(isa, n, &tape.x2, &weights.norm2, &mut self.y);
        let (used, y) = (n * s.m_row, (&self.y[..], s.d_row, s.d));
        let dx = (&self.dx[..], s.d_row, s.d);
        outer(isa, &mut gradient.down, update, n, (&tape.h, s.m_row, s.m), dx);
        sum_rows(update, &mut gradient.b_down, &self.dx, s.d_row, n);
        let dh = &mut self.hidden;
        back(isa, dh, s.m_row, n, dx, &weights.down);
        if blocks.gated {
            let gates = tape.gate[..used].iter().zip(&tape.up[..used]).zip(&tape.slope[..used]);
            for ((dh, dg), ((gate, up), slope)) in
                dh[..used].iter_mut().zip(&mut self.d_gate[..used]).zip(gates)
            {
                *dg = *dh * *up * *slope;
                *dh *= *gate;
            }
            let dg = (&self.d_gate[..], s.m_row, s.m);
            outer(isa, &mut gradient.gate, update, n, y, dg);
            sum_rows(update, &mut gradient.b_gate, &self.d_gate, s.m_row, n);
            back(isa, &mut self.dy, s.d_row, n, dg, &weights.gate);
        } else {
            dh[..used].iter_mut().zip(&tape.slope[..used]).for_each(|(dh, slope)| *dh *= *slope);
        }
        let du = (&dh[..], s.m_row, s.m);
        outer(isa, &mut gradient.up, update, n, y, du);
        sum_rows(update, &mut gradient.b_up, dh, s.m_row, n);
        if blocks.gated {
            // The scratch of the forward pass is free unless the block is parallel, where it is written after this.
            back(isa, &mut self.added, s.d_row, n, du, &weights.up);
            add(&mut self.dy[..n * s.d_row], &self.added);
        } else {
            back(isa, &mut self.dy, s.d_row, n, du, &weights.up);
        }
        let sums = gradient.norm2.parts();
        norm.backward(isa, n, &tape.x2, &tape.factors2, &weights.norm2, &mut self.dy, sums);
    }

    /// From the derivatives of what the mixer puts out, `dx`, to those of what it reads, `dy`.
    #[inline(always)]
    fn mix_back<I: Isa>(
        &mut self,
        isa: I,
        shared: Shared<'_, T>,
        chunk: &Chunk,
        block: usize,
        update: Update,
    ) {
        let Shared { config, weights: all, s, .. } = shared;
        let (n, weights) = (chunk.len(), &all.blocks[block]);
        let tape = self.tape_of(block);
        let tape = &mut self.tapes[tape];
        let gradient = &mut self.gradient.blocks[block];
        let norm = shared.normalization();
        norm.output(isa, n, &tape.x1, &weights.norm1, &mut self.y);
        if config.shape.mixer == Mixer::Average {
            let sums = &mut self.subtrees[..n * s.d_row];
            sums.copy_from_slice(&self.dx[..n * s.d_row]);
            average_back(isa, chunk, s, &weights.u_pos, (&self.y, &mut self.dy), sums, &mut gradient.u_pos);
        } else {
            let (y, dx) = ((&self.y[..], s.d_row, s.d), (&self.dx[..], s.d_row, s.d));
            outer(isa, &mut gradient.out, update, n, (&tape.z, s.mixed_row, s.mixed), dx);
            sum_rows(update, &mut gradient.b_out, &self.dx, s.d_row, n);
            back(isa, &mut self.dz, s.mixed_row, n, dx, &weights.out);
            let factor = T::from_f64(config.score_factor());
            let (path, d_scores, d_qkv) = (&mut self.path, &mut self.d_scores, &mut self.d_qkv);
            attend_back(isa, chunk, s, factor, &tape.qkv, path, &tape.weights, &self.dz, d_scores, d_qkv);
            rotate(chunk, s, (&all.cos, &all.sin), true, d_qkv);
            let dq = (&d_qkv[..], s.qkv_row, s.qkv);
            outer(isa, &mut gradient.qkv, update, n, y, dq);
            sum_rows(update, &mut gradient.b_qkv, d_qkv, s.qkv_row, n);
            back(isa, &mut self.dy, s.d_row, n, dq, &weights.qkv);
        }
        let sums = gradient.norm1.parts();
        norm.backward(isa, n, &tape.x1, &tape.factors1, &weights.norm1, &mut self.dy, sums);
    }
}

/// Adds the derivatives of the stream of a chunk to those of the tables.
pub(super) struct EmbedBack<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) chunk: &'a Chunk,
    pub(super) s: Sizes,
}

impl<T: Real> SimdKernel for EmbedBack<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Self { lane, chunk, s } = self;
        let width = padded(s.d);
        let LaneGradient { w_e, w_pos, .. } = &mut lane.gradient;
        for ((dx, &token), &depth) in lane.dx.chunks_exact(s.d_row).zip(&chunk.tokens).zip(&chunk.depths) {
            add(&mut w_e[token as usize * width..][..width], dx);
            if !w_pos.is_empty() {
                add(&mut w_pos[(depth as usize - 1) * width..][..width], dx);
            }
        }
    }
}

impl<T: Real> Lane<T> {
    /// Prepares the lane for an evaluation.
    pub(super) fn start(&mut self) {
        (self.loss, self.hits) = (0.0, 0.0);
        self.gradient.start();
    }

    /// Restores the stream before a block, with [`Keep::Streams`]; whether the block must be computed again.
    pub(super) fn rewind(&mut self, block: usize) -> bool {
        match self.streams.get(block) {
            Some(stream) => {
                self.x.copy_from_slice(stream);
                true
            }
            None => false,
        }
    }
}
