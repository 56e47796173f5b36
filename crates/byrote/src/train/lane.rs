//! A lane: a range of contexts that one thread takes from the mixer to the loss and back, in blocks of rows small
//! enough that the logits, the softmax and their gradient stay in the cache.
//!
//! The formulas are in the documentation of [`super::gradient`]. Rows are padded to whole lines (see
//! [`crate::num::line`]); the padding of weights and activations is zero, that of the logits minus infinity.

use super::cross_entropy::{GROUP, cross_entropy};
use super::gradient::activate::Activate;
use super::gradient::packed_weights::{Sizes, Weights};
use super::gradient::places::Places;
use super::row_products::{affine, back, outer, sum_rows};
use crate::dataset::Dataset;
use crate::model::{Config, Hidden, Mixer};
use crate::num::aligned::{AlignedVec, LINE, line_at, line_at_mut, padded};
use crate::num::gemm::Update;
use crate::num::line_vector::LineVector;
use crate::num::real::Real;
use crate::num::row_ops::{add, add_and_max, add_scaled, dot, exp_shifted};
use crate::num::simd::{Isa, SimdKernel};
use std::ops::Range;

/// Rows per block: enough to amortize the gradient of `W_U`, which every block reads and writes.
pub(super) const BLOCK: usize = 144;
/// Hidden values per block without a gradient: a wide layer takes fewer rows at a time.
const FORWARD_VALUES: usize = 1 << 19;

/// The input shared by all lanes.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a, T> {
    pub(super) config: &'a Config,
    pub(super) dataset: &'a Dataset,
    pub(super) weights: &'a Weights<T>,
    pub(super) places: &'a Places<T>,
    pub(super) s: Sizes,
}

/// A range of contexts with its thread's buffers.
pub(super) struct Lane<T> {
    pub(super) contexts: Range<usize>,
    /// Attention weights, `[places of these contexts, heads]`, and the derivatives of the scores before scaling.
    pub(super) weights: AlignedVec<T>,
    pub(super) d_scores: AlignedVec<T>,
    /// Mixed values, `[contexts, mixed]`, their derivatives, and those of the queries.
    pub(super) z: AlignedVec<T>,
    pub(super) dz: AlignedVec<T>,
    pub(super) dq: AlignedVec<T>,
    /// Derivatives of the mixer's output at the last token, `[contexts, d]`.
    pub(super) da: AlignedVec<T>,
    /// Rows of a block.
    block_rows: usize,
    block: Block<T>,
    pub(super) gradient: LaneGradient<T>,
    pub(super) loss: f64,
    /// The number of predictions whose token has the largest logit.
    pub(super) hits: f64,
}

/// The buffers of a block of rows.
struct Block<T> {
    /// The sum of the heads before a bottleneck's way back, and its derivatives; without a bottleneck, both are empty.
    o: AlignedVec<T>,
    d_o: AlignedVec<T>,
    a: AlignedVec<T>,
    u: AlignedVec<T>,
    y: AlignedVec<T>,
    slope: AlignedVec<T>,
    r: AlignedVec<T>,
    dr: AlignedVec<T>,
    logits: AlignedVec<T>,
}

/// The gradient of everything after the places: matrices in panels, see [`TargetOrder::Panels`].
pub(super) struct LaneGradient<T> {
    pub(super) u_pos: AlignedVec<T>,
    pub(super) w_up: AlignedVec<T>,
    pub(super) w_o: AlignedVec<T>,
    pub(super) b_o: AlignedVec<T>,
    pub(super) w_in: AlignedVec<T>,
    pub(super) b_in: AlignedVec<T>,
    pub(super) w_out: AlignedVec<T>,
    pub(super) b_out: AlignedVec<T>,
    pub(super) w_u: AlignedVec<T>,
    pub(super) b_u: AlignedVec<T>,
}

impl<T: Real> Lane<T> {
    /// Creates a lane; one without a backward pass holds no gradient.
    pub(super) fn new(
        config: &Config,
        dataset: &Dataset,
        s: Sizes,
        contexts: Range<usize>,
        backward: bool,
    ) -> Self {
        let n = contexts.len();
        let entries = dataset.context_starts[contexts.end] - dataset.context_starts[contexts.start];
        let most = if backward { BLOCK } else { (FORWARD_VALUES / s.m_row.max(1)).clamp(8, BLOCK) & !7 };
        // Blocks of roughly equal size, made of whole tiles: a small last block would read and write all gradients for
        // little work.
        let block_rows = n.div_ceil(n.div_ceil(most).max(1)).max(1).next_multiple_of(8);
        let b = n.min(block_rows);
        let (d_width, w_width) = (padded(s.d), padded(s.w));
        let narrow = if config.bottleneck { s.w_row } else { 0 };
        let back = |values: usize| if backward { values } else { 0 };
        let out = if config.hidden == Hidden::Residual { s.m } else { 0 };
        let averaged = config.shape.mixer == Mixer::Average;
        Self {
            weights: AlignedVec::zeros(entries * s.heads),
            d_scores: AlignedVec::zeros(back(entries * s.heads)),
            z: AlignedVec::zeros(n * s.mixed),
            dz: AlignedVec::zeros(back(n * s.mixed)),
            dq: AlignedVec::zeros(back(n * s.mixed)),
            da: AlignedVec::zeros(back(n * s.d_row)),
            block_rows,
            block: Block {
                o: AlignedVec::zeros(b * narrow),
                d_o: AlignedVec::zeros(back(b * narrow)),
                a: AlignedVec::zeros(b * s.d_row),
                u: AlignedVec::zeros(b * s.m_row),
                y: AlignedVec::zeros(b * s.m_row),
                slope: AlignedVec::zeros(b * s.m_row),
                r: AlignedVec::zeros(if out > 0 { b * s.d_row } else { 0 }),
                dr: AlignedVec::zeros(if out > 0 { b * s.d_row } else { 0 }),
                logits: AlignedVec::zeros(b * s.omega_row),
            },
            gradient: LaneGradient {
                u_pos: AlignedVec::zeros(back(if averaged { s.n_ctx } else { 0 })),
                w_up: AlignedVec::zeros(back(if config.bottleneck { s.w * d_width } else { 0 })),
                w_o: AlignedVec::zeros(back(s.mixed * w_width)),
                b_o: AlignedVec::zeros(back(s.w)),
                w_in: AlignedVec::zeros(back(s.d * padded(s.m))),
                b_in: AlignedVec::zeros(back(s.m)),
                w_out: AlignedVec::zeros(back(out * d_width)),
                b_out: AlignedVec::zeros(back(s.d)),
                w_u: AlignedVec::zeros(back(s.read * padded(s.omega))),
                b_u: AlignedVec::zeros(back(s.omega)),
            },
            loss: 0.0,
            hits: 0.0,
            contexts,
        }
    }

    /// The blocks of rows.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (rows, step) = (self.contexts.len(), self.block_rows);
        (0..rows).step_by(step).map(move |start| start..(start + step).min(rows))
    }

    /// Visits the output of a layer for the block just computed, one row at a time.
    pub(super) fn rows(
        &self,
        layer: ProbePoint,
        rows: Range<usize>,
        shared: &Shared<'_, T>,
    ) -> impl Iterator<Item = (usize, &[T])> {
        let s = shared.s;
        let (values, row, width) = match layer {
            ProbePoint::Mixed => (&self.block.a, s.d_row, s.d),
            ProbePoint::Read => (self.block.read(shared.config), s.read_row, s.read),
            ProbePoint::Logits => (&self.block.logits, s.omega_row, s.omega),
        };
        let first = self.contexts.start + rows.start;
        (first..first + rows.len()).zip(values.chunks_exact(row).map(move |row| &row[..width]))
    }
}

impl<T> Block<T> {
    /// The input of the output layer.
    fn read(&self, config: &Config) -> &AlignedVec<T> {
        match config.hidden {
            Hidden::Absent => &self.a,
            Hidden::Output => &self.y,
            Hidden::Residual => &self.r,
        }
    }
}

/// A point in the network at which its values can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePoint {
    /// The mixer's output at the last token, including the skip connection: the input of the hidden layer. `[d_model]`
    Mixed,
    /// The input of the output layer. `[d_mlp]` or `[d_model]`
    Read,
    /// The logits. `[d_vocab]`
    Logits,
}

/// How far a pass goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Up to a layer, whose values remain for [`Lane::rows`].
    Layer(ProbePoint),
    /// Up to the loss, which is added to the lane's.
    Loss,
    /// Up to the loss and back: the loss and the gradient are added to the lane's.
    Gradient,
}

/// Attention for all contexts of a lane: weights and mixed values.
pub(super) struct Mix<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) shared: Shared<'a, T>,
}

impl<T: Real> SimdKernel for Mix<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Shared { config, dataset, places, s, .. } = self.shared;
        let Lane { contexts, weights, z, .. } = self.lane;
        if s.mixed == 0 {
            return;
        }
        let factor = T::from_f64(config.score_factor());
        let width = 3 * s.mixed;
        let mut at = 0;
        for context in contexts.clone() {
            let read = dataset.places_of(context);
            let query = read[read.len() - 1] as usize;
            for head in 0..s.heads {
                let column = head * s.head_row;
                let q = &places.qkv[query * width + column..][..s.head_row];
                let mut largest = T::from_f64(f64::NEG_INFINITY);
                for (i, &place) in read.iter().enumerate() {
                    let k = &places.qkv[place as usize * width + s.mixed + column..][..s.head_row];
                    let score = factor * dot(isa, q, k);
                    weights[at + i * s.heads + head] = score;
                    largest = if score > largest { score } else { largest };
                }
                for i in 0..read.len() {
                    weights[at + i * s.heads + head] -= largest;
                }
            }
            at += read.len() * s.heads;
        }
        exp_shifted(isa, weights, T::from_f64(0.0));
        let mut at = 0;
        for (context, z) in contexts.clone().zip(z.chunks_exact_mut(s.mixed)) {
            let read = dataset.places_of(context);
            for head in 0..s.heads {
                let mut sum = T::from_f64(0.0);
                for i in 0..read.len() {
                    sum += weights[at + i * s.heads + head];
                }
                let inverse = T::from_f64(1.0) / sum;
                for i in 0..read.len() {
                    weights[at + i * s.heads + head] *= inverse;
                }
            }
            for column in (0..s.mixed).step_by(LINE) {
                let head = column / s.head_row;
                let mut mixed = LineVector::splat(isa, T::from_f64(0.0));
                for (i, &place) in read.iter().enumerate() {
                    let v = line_at(&places.qkv, place as usize * width + 2 * s.mixed + column);
                    let weight = LineVector::splat(isa, weights[at + i * s.heads + head]);
                    mixed = weight.fma(LineVector::load(isa, v), mixed);
                }
                mixed.store(line_at_mut(z, column));
            }
            at += read.len() * s.heads;
        }
    }
}

/// Everything from the mixer's output to the logits, to the loss, or to the loss and back, for a block of rows of a
/// lane.
pub(super) struct Output<'a, T> {
    pub(super) lane: &'a mut Lane<T>,
    pub(super) shared: Shared<'a, T>,
    pub(super) rows: Range<usize>,
    pub(super) until: Until,
}

impl<T: Real> SimdKernel for Output<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { lane, shared, rows, until } = self;
        lane.forward(isa, shared, rows.clone(), until);
        if matches!(until, Until::Layer(ProbePoint::Mixed | ProbePoint::Read)) {
            return;
        }
        let (dataset, s) = (shared.dataset, shared.s);
        let b_u = &mut lane.gradient.b_u;
        if until == Until::Gradient && rows.start == 0 {
            b_u.fill(T::from_f64(0.0));
        }
        let first = lane.contexts.start + rows.start;
        let logits = lane.block.logits[..rows.len() * s.omega_row].chunks_mut(GROUP * s.omega_row);
        for (group, first) in logits.zip((first..).step_by(GROUP)) {
            let mut largest = [T::from_f64(0.0); GROUP];
            for (row, largest) in group.chunks_exact_mut(s.omega_row).zip(&mut largest) {
                *largest = add_and_max(isa, &mut row[..padded(s.omega)], &shared.weights.b_u);
            }
            if until != Until::Layer(ProbePoint::Logits) {
                let contexts = |row: usize| (first + row, 1.0);
                let (loss, hits) = cross_entropy(isa, group, &largest, dataset, contexts, s.omega);
                lane.loss += loss;
                lane.hits += hits;
            }
            if until == Until::Gradient {
                group.chunks_exact(s.omega_row).for_each(|row| add(b_u, row));
            }
        }
        if until == Until::Gradient {
            lane.backward(isa, shared, rows);
        }
    }
}

impl<T: Real> Lane<T> {
    /// Computes the logits of a block, without their bias.
    #[inline(always)]
    fn forward<I: Isa>(&mut self, isa: I, shared: Shared<'_, T>, rows: Range<usize>, until: Until) {
        let Shared { config, dataset, weights, places, s } = shared;
        let n = rows.len();
        let first = self.contexts.start + rows.start;
        let Block { o, a, u, y, slope, r, logits, .. } = &mut self.block;
        if config.shape.mixer == Mixer::Attention {
            let z = (&self.z[rows.start * s.mixed..], s.mixed, s.mixed);
            if config.bottleneck {
                affine(isa, o, s.w_row, n, z, &weights.o, Some(&weights.b_o));
                affine(isa, a, s.d_row, n, (o, s.w_row, s.w), &weights.up, None);
            } else {
                affine(isa, a, s.d_row, n, z, &weights.o, Some(&weights.b_o));
            }
        } else {
            for (row, a) in a.chunks_exact_mut(s.d_row).take(n).enumerate() {
                a.fill(T::from_f64(0.0));
                for (&place, &weight) in dataset.places_of(first + row).iter().zip(&weights.u_pos) {
                    add_scaled(isa, a, weight, &places.x[place as usize * s.d_row..][..s.d_row]);
                }
            }
        }
        if config.skip {
            for (row, a) in a.chunks_exact_mut(s.d_row).take(n).enumerate() {
                let read = dataset.places_of(first + row);
                add(a, &places.x[read[read.len() - 1] as usize * s.d_row..][..s.d_row]);
            }
        }
        if until == Until::Layer(ProbePoint::Mixed) {
            return;
        }
        if config.hidden != Hidden::Absent {
            affine(isa, u, s.m_row, n, (a, s.d_row, s.d), &weights.w_in, None);
            let used = n * s.m_row;
            let (activation, bias) = (config.shape.activation, &weights.b_in[..]);
            let (u, y, slope) = (&u[..used], &mut y[..used], &mut slope[..used]);
            isa.run(Activate { activation, u, bias, y, slope, row: s.m_row });
        }
        if config.hidden == Hidden::Residual {
            affine(isa, r, s.d_row, n, (y, s.m_row, s.m), &weights.w_out, Some(&weights.b_out));
            if config.skip {
                add(r, a);
            }
        }
        if until == Until::Layer(ProbePoint::Read) {
            return;
        }
        let read: &[T] = match config.hidden {
            Hidden::Absent => a,
            Hidden::Output => y,
            Hidden::Residual => r,
        };
        if let Some(sparse) = &weights.u_sparse {
            for (read, logits) in
                read.chunks_exact(s.read_row).zip(logits.chunks_exact_mut(s.omega_row)).take(n)
            {
                sparse.multiply(&read[..s.read], &mut logits[..padded(s.omega)]);
            }
            return;
        }
        affine(isa, logits, s.omega_row, n, (read, s.read_row, s.read), &weights.u, None);
    }

    /// From the gradient that replaces the logits of a block to the derivatives of the scores.
    #[inline(always)]
    fn backward<I: Isa>(&mut self, isa: I, shared: Shared<'_, T>, rows: Range<usize>) {
        let Shared { config, weights, s, .. } = shared;
        let n = rows.len();
        // The first block overwrites what the last evaluation left.
        let update = if rows.start == 0 { Update::Replace } else { Update::Add };
        let Block { o, d_o, a, u, y, slope, r, dr, logits } = &mut self.block;
        let gradient = &mut self.gradient;
        let da = &mut self.da[rows.start * s.d_row..rows.end * s.d_row];
        // The pre-activations are no longer needed.
        let dy = u;
        let (read, d_read): (&[T], &mut [T]) = match config.hidden {
            Hidden::Absent => (a, &mut *da),
            Hidden::Output => (y, &mut *dy),
            Hidden::Residual => (r, &mut *dr),
        };
        let outer = |isa: I, target: &mut [T], x: (&[T], usize, usize), g: (&[T], usize, usize)| {
            outer(isa, target, update, n, x, g);
        };
        outer(isa, &mut gradient.w_u, (read, s.read_row, s.read), (logits, s.omega_row, s.omega));
        back(isa, d_read, s.read_row, n, (logits, s.omega_row, s.omega), &weights.u);
        if config.hidden == Hidden::Residual {
            outer(isa, &mut gradient.w_out, (y, s.m_row, s.m), (dr, s.d_row, s.d));
            sum_rows(update, &mut gradient.b_out, dr, s.d_row, n);
            back(isa, dy, s.m_row, n, (dr, s.d_row, s.d), &weights.w_out);
        }
        if config.hidden != Hidden::Absent {
            if update == Update::Replace {
                gradient.b_in.fill(T::from_f64(0.0));
            }
            for (dy, slope) in dy.chunks_exact_mut(s.m_row).zip(slope.chunks_exact(s.m_row)).take(n) {
                for ((d, slope), sum) in dy.iter_mut().zip(slope).zip(gradient.b_in.iter_mut()) {
                    *d *= *slope;
                    *sum += *d;
                }
            }
            outer(isa, &mut gradient.w_in, (a, s.d_row, s.d), (dy, s.m_row, s.m));
            back(isa, da, s.d_row, n, (dy, s.m_row, s.m), &weights.w_in);
            if config.hidden == Hidden::Residual && config.skip {
                add(da, dr);
            }
        }
        if config.shape.mixer == Mixer::Attention {
            let d_out: (&[T], usize, usize) = match config.bottleneck {
                true => {
                    outer(isa, &mut gradient.w_up, (o, s.w_row, s.w), (da, s.d_row, s.d));
                    back(isa, d_o, s.w_row, n, (da, s.d_row, s.d), &weights.up);
                    (d_o, s.w_row, s.w)
                }
                false => (da, s.d_row, s.d),
            };
            let z = &self.z[rows.start * s.mixed..rows.end * s.mixed];
            outer(isa, &mut gradient.w_o, (z, s.mixed, s.mixed), d_out);
            sum_rows(update, &mut gradient.b_o, d_out.0, d_out.1, n);
            let dz = &mut self.dz[rows.start * s.mixed..rows.end * s.mixed];
            back(isa, dz, s.mixed, n, d_out, &weights.o);
            self.unmix(isa, shared, rows);
        } else {
            self.unaverage(isa, shared, rows);
        }
    }

    /// From the derivatives of the mixed values to those of the scores and queries.
    #[inline(always)]
    fn unmix<I: Isa>(&mut self, isa: I, shared: Shared<'_, T>, rows: Range<usize>) {
        let Shared { config, dataset, places, s, .. } = shared;
        let factor = T::from_f64(config.score_factor());
        let width = 3 * s.mixed;
        let start = dataset.context_starts[self.contexts.start];
        for row in rows {
            let context = self.contexts.start + row;
            let read = dataset.places_of(context);
            let at = (dataset.context_starts[context] - start) * s.heads;
            let entries = at..at + read.len() * s.heads;
            let (weights, d_scores) = (&self.weights[entries.clone()], &mut self.d_scores[entries]);
            let dz = &self.dz[row * s.mixed..][..s.mixed];
            for head in 0..s.heads {
                let column = head * s.head_row;
                let dz = &dz[column..][..s.head_row];
                let mut mean = T::from_f64(0.0);
                for (i, &place) in read.iter().enumerate() {
                    let v = &places.qkv[place as usize * width + 2 * s.mixed + column..][..s.head_row];
                    let d_weight = dot(isa, dz, v);
                    d_scores[i * s.heads + head] = d_weight;
                    mean = isa.fma(weights[i * s.heads + head], d_weight, mean);
                }
                for i in 0..read.len() {
                    let slot = &mut d_scores[i * s.heads + head];
                    *slot = factor * weights[i * s.heads + head] * (*slot - mean);
                }
            }
            for column in (0..s.mixed).step_by(LINE) {
                let head = column / s.head_row;
                let mut dq = LineVector::splat(isa, T::from_f64(0.0));
                for (i, &place) in read.iter().enumerate() {
                    let k = line_at(&places.qkv, place as usize * width + s.mixed + column);
                    let d_score = LineVector::splat(isa, d_scores[i * s.heads + head]);
                    dq = d_score.fma(LineVector::load(isa, k), dq);
                }
                dq.store(line_at_mut(&mut self.dq, row * s.mixed + column));
            }
        }
    }

    /// The derivatives of the weights of token averaging.
    #[inline(always)]
    fn unaverage<I: Isa>(&mut self, isa: I, shared: Shared<'_, T>, rows: Range<usize>) {
        let Shared { dataset, places, s, .. } = shared;
        if rows.start == 0 {
            self.gradient.u_pos.fill(T::from_f64(0.0));
        }
        for row in rows {
            let da = &self.da[row * s.d_row..][..s.d_row];
            let read = dataset.places_of(self.contexts.start + row);
            for (&place, weight) in read.iter().zip(self.gradient.u_pos.iter_mut()) {
                *weight += dot(isa, da, &places.x[place as usize * s.d_row..][..s.d_row]);
            }
        }
    }
}
