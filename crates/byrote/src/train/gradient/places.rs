//! Everything that depends only on a token and its position: embeddings, queries, keys and values, and their gradients.
//!
//! Places are sorted by token. They are divided into *chunks* with about equally many readers, at token boundaries, so
//! that each chunk owns its rows of the gradient of `W_E`. The gradients of the weights shared by all places are kept
//! per chunk and summed in order.

use super::packed_weights::{Layout, Packed, Sizes, Weights};
use crate::dataset::Dataset;
use crate::model::{Config, Mixer, Positions};
use crate::num::aligned::{AlignedVec, LINE, line_at, line_at_mut};
use crate::num::gemm::{Left, Product, Right, TargetOrder, Update};
use crate::num::line_vector::LineVector;
use crate::num::real::Real;
use crate::num::row_ops::{add, add_scaled};
use crate::num::simd::{Isa, SimdKernel, run};
use crate::train::lane::Lane;
use rayon::prelude::*;
use std::ops::Range;

/// The number of places embedded at a time.
const EMBEDDED: usize = 128;
/// The number of readers that justifies a chunk, and the maximum number of chunks.
const CHUNK_READERS: usize = 400;
const MAX_CHUNKS: usize = 64;

/// The embeddings and projections of all places.
pub(in crate::train) struct Places<T> {
    /// Fixed positional encodings, or empty.
    sinusoids: Vec<T>,
    /// Embedded token, plus position if that is added here, `[places, d]`.
    pub(in crate::train) x: AlignedVec<T>,
    /// What attention reads, `[places, w]`; empty if that is `x`.
    read: AlignedVec<T>,
    /// Queries, keys and values side by side, `[places, 3 mixed]`.
    pub(in crate::train) qkv: AlignedVec<T>,
}

impl<T: Real> Places<T> {
    pub(in crate::train) fn new(config: &Config, dataset: &Dataset, s: Sizes) -> Self {
        let n = dataset.places.len();
        Self {
            sinusoids: config.sinusoids().into_iter().map(T::from_f64).collect(),
            x: AlignedVec::zeros(n * s.d_row),
            read: AlignedVec::zeros(if reads_apart(config) { n * s.w_row } else { 0 }),
            qkv: AlignedVec::zeros(n * 3 * s.mixed),
        }
    }

    /// Replaces the fixed positional encodings by those stored in a model's file.
    pub(in crate::train) fn set_sinusoids(&mut self, positions: &[f64]) {
        self.sinusoids = positions.iter().map(|&x| T::from_f64(x)).collect();
    }

    /// Embeds every place and projects it to queries, keys and values.
    pub(in crate::train) fn embed(
        &mut self,
        config: &Config,
        dataset: &Dataset,
        (parameters, layout): (&[T], &Layout),
        weights: &Weights<T>,
        s: Sizes,
    ) {
        let table = &parameters[layout.w_e.clone()];
        let positions = match config.positions {
            Positions::Learned => &parameters[layout.w_pos.clone()],
            Positions::Sinusoidal => &self.sinusoids[..],
            Positions::None | Positions::Rotary => &[],
        };
        let places = dataset.places.par_chunks(EMBEDDED);
        let x = self.x.par_chunks_mut(EMBEDDED * s.d_row);
        let embed = |places: &[(u32, u32)], x: &mut [T], read: &mut [T], qkv: &mut [T]| {
            run(Embed { config, places, x, read, qkv, table, positions, weights, s });
        };
        if s.mixed == 0 {
            places.zip(x).for_each(|(places, x)| embed(places, x, &mut [], &mut []));
            return;
        }
        let qkv = self.qkv.par_chunks_mut(EMBEDDED * 3 * s.mixed);
        if self.read.is_empty() {
            places.zip(x.zip(qkv)).for_each(|(places, (x, qkv))| embed(places, x, &mut [], qkv));
        } else {
            let read = self.read.par_chunks_mut(EMBEDDED * s.w_row);
            places
                .zip(x.zip(read.zip(qkv)))
                .for_each(|(places, (x, (read, qkv)))| embed(places, x, read, qkv));
        }
    }

    /// What attention reads, and the distance between its rows.
    fn read(&self, s: Sizes) -> (&[T], usize) {
        if self.read.is_empty() { (&self.x, s.d_row) } else { (&self.read, s.w_row) }
    }
}

/// Whether attention reads something other than the residual stream.
fn reads_apart(config: &Config) -> bool {
    config.bottleneck || config.positions_in_attention
}

/// A few places to embed and project.
struct Embed<'a, T> {
    config: &'a Config,
    places: &'a [(u32, u32)],
    x: &'a mut [T],
    read: &'a mut [T],
    qkv: &'a mut [T],
    table: &'a [T],
    positions: &'a [T],
    weights: &'a Weights<T>,
    s: Sizes,
}

impl<T: Real> SimdKernel for Embed<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { config, places, x, read, qkv, table, positions, weights, s } = self;
        let (n, width) = (places.len(), 3 * s.mixed);
        let place = |target: &mut [T], position: u32| {
            if !positions.is_empty() {
                add(target, &positions[position as usize * s.position..][..s.position]);
            }
        };
        for (&(token, position), x) in places.iter().zip(x.chunks_exact_mut(s.d_row)) {
            let x = &mut x[..s.d];
            x.copy_from_slice(&table[token as usize * s.d..][..s.d]);
            if !config.positions_in_attention {
                place(x, position);
            }
        }
        if s.mixed == 0 {
            return;
        }
        let multiply = |isa: I,
                        target: &mut [T],
                        row,
                        (left, stride): (&[T], usize),
                        depth,
                        by: &Packed<T>| {
            let (order, left) = (TargetOrder::Rows(row), Left::rows(left, stride));
            let (width, right) = (by.plain.width(), Right::Panels(&by.plain));
            isa.run(Product { target, order, update: Update::Replace, rows: n, depth, width, left, right });
        };
        let (from, from_row) = match reads_apart(config) {
            false => (&*x, s.d_row),
            true => {
                if config.bottleneck {
                    multiply(isa, read, s.w_row, (x, s.d_row), s.d, &weights.down);
                } else {
                    read.copy_from_slice(x);
                }
                if config.positions_in_attention {
                    let rows = places.iter().zip(read.chunks_exact_mut(s.w_row));
                    rows.for_each(|(&(_, position), read)| place(&mut read[..s.w], position));
                }
                (&*read, s.w_row)
            }
        };
        multiply(isa, qkv, width, (from, from_row), s.w, &weights.qkv);
        qkv.chunks_exact_mut(width).for_each(|row| add(row, &weights.b_qkv));
    }
}

/// A context that reads a place.
#[derive(Clone, Copy)]
struct Reader {
    lane: u32,
    /// The index of the context in the lane.
    row: u32,
    /// The index of the place among those of the lane's contexts.
    entry: u32,
    /// The place of the context's last token.
    query: u32,
}

/// A range of places with the gradients it accumulates.
pub(in crate::train) struct Chunk<T> {
    places: Range<usize>,
    tokens: Range<usize>,
    /// Where the readers of each place begin, and the readers.
    starts: Vec<usize>,
    readers: Vec<Reader>,
    dx: AlignedVec<T>,
    /// The derivatives of what attention reads; empty if that is `x`.
    d_read: AlignedVec<T>,
    dqkv: AlignedVec<T>,
    w_down: AlignedVec<T>,
    w_qkv: AlignedVec<T>,
    b_qkv: AlignedVec<T>,
    w_pos: AlignedVec<T>,
}

/// The input of a chunk.
pub(in crate::train) struct Way<'a, T> {
    pub(in crate::train) config: &'a Config,
    pub(in crate::train) dataset: &'a Dataset,
    pub(in crate::train) weights: &'a Weights<T>,
    pub(in crate::train) places: &'a Places<T>,
    pub(in crate::train) lanes: &'a [Lane<T>],
    pub(in crate::train) s: Sizes,
}

impl<T: Real> Chunk<T> {
    /// All chunks of a dataset.
    pub(in crate::train) fn all(
        config: &Config,
        dataset: &Dataset,
        lanes: &[Lane<T>],
        s: Sizes,
    ) -> Vec<Self> {
        let mut readers = vec![Vec::new(); dataset.places.len()];
        for (lane, number) in lanes.iter().zip(0..) {
            let mut entry = 0;
            for (context, row) in lane.contexts.clone().zip(0..) {
                let read = dataset.places_of(context);
                for &place in read {
                    let query = read[read.len() - 1];
                    readers[place as usize].push(Reader { lane: number, row, entry, query });
                    entry += 1;
                }
            }
        }
        let total = dataset.context_places.len();
        let enough = total.div_ceil(total.div_ceil(CHUNK_READERS).clamp(1, MAX_CHUNKS)).max(1);
        let mut chunks = Vec::new();
        let (mut start, mut token) = (0, 0);
        while start < dataset.places.len() || chunks.is_empty() {
            let mut size = 0;
            let end = (start..dataset.places.len())
                .find(|&i| {
                    let full = size >= enough && dataset.places[i].0 != dataset.places[i - 1].0;
                    size += readers[i].len();
                    full
                })
                .unwrap_or(dataset.places.len());
            let next = dataset.places.get(end).map_or(s.omega, |p| p.0 as usize);
            let mut starts = vec![0];
            starts.extend(readers[start..end].iter().scan(0, |sum, r| {
                *sum += r.len();
                Some(*sum)
            }));
            let learned = config.positions == Positions::Learned;
            chunks.push(Self {
                places: start..end,
                tokens: token..next,
                starts,
                readers: readers[start..end].concat(),
                dx: AlignedVec::zeros((end - start) * s.d_row),
                d_read: AlignedVec::zeros(if reads_apart(config) { (end - start) * s.w_row } else { 0 }),
                dqkv: AlignedVec::zeros((end - start) * 3 * s.mixed),
                w_down: AlignedVec::zeros(if config.bottleneck { s.d * s.w_row } else { 0 }),
                w_qkv: AlignedVec::zeros(s.w * 3 * s.mixed),
                b_qkv: AlignedVec::zeros(3 * s.mixed),
                w_pos: AlignedVec::zeros(if learned { s.n_ctx * s.position } else { 0 }),
            });
            (start, token) = (end, next);
        }
        chunks
    }

    /// Accumulates the gradients of all chunks; `w_e` is the gradient of the embeddings of their tokens and is
    /// overwritten.
    pub(in crate::train) fn gather(chunks: &mut [Self], w_e: &mut [T], way: &Way<'_, T>) {
        match chunks {
            [] => {}
            [chunk] => run(Gather { chunk, w_e, way }),
            _ => {
                let (left, right) = chunks.split_at_mut(chunks.len() / 2);
                let cut = (right[0].tokens.start - left[0].tokens.start) * way.s.d;
                let (w_left, w_right) = w_e.split_at_mut(cut);
                rayon::join(|| Self::gather(left, w_left, way), || Self::gather(right, w_right, way));
            }
        }
    }

    /// Adds the shared gradients of all chunks, in order, to a gradient that is zero there.
    pub(in crate::train) fn sum(chunks: &[Self], gradient: &mut [T], layout: &Layout, s: Sizes) {
        for chunk in chunks {
            for (i, (weight, bias)) in layout.qkv.iter().enumerate() {
                let heads = gradient[weight.clone()].chunks_exact_mut((s.w * s.d_head).max(1)).enumerate();
                for (head, target) in heads {
                    let column = i * s.mixed + head * s.head_row;
                    for (k, target) in target.chunks_exact_mut(s.d_head).enumerate() {
                        add(target, &chunk.w_qkv[k * 3 * s.mixed + column..]);
                    }
                }
                let heads = gradient[bias.clone()].chunks_exact_mut(s.d_head.max(1)).enumerate();
                for (head, target) in heads {
                    add(target, &chunk.b_qkv[i * s.mixed + head * s.head_row..]);
                }
            }
            add(&mut gradient[layout.w_pos.clone()], &chunk.w_pos);
            let down = gradient[layout.w_down.clone()].chunks_exact_mut(s.w.max(1));
            down.zip(chunk.w_down.chunks_exact(s.w_row)).for_each(|(target, row)| add(target, row));
        }
    }
}

/// `target (+)= g W^T` for `n` rows of g, given as values, distance between rows, and width.
#[inline(always)]
fn back<T: Real, I: Isa>(
    isa: I,
    target: &mut [T],
    stride: usize,
    update: Update,
    n: usize,
    (g, g_row, depth): (&[T], usize, usize),
    weights: &Packed<T>,
) {
    let (left, right) = (Left::rows(g, g_row), Right::Panels(&weights.transposed));
    let width = weights.transposed.width();
    isa.run(Product { target, order: TargetOrder::Rows(stride), update, rows: n, depth, width, left, right });
}

/// `target = x^T g` over `n` rows of x and g, given as values and distance between rows; `width` columns of x are used, all of g.
#[inline(always)]
fn outer<T: Real, I: Isa>(
    isa: I,
    target: &mut [T],
    stride: usize,
    width: usize,
    (x, x_row): (&[T], usize),
    n: usize,
    (g, g_row): (&[T], usize),
) {
    let (left, right) = (Left::transposed(x, x_row), Right::Rows(g, g_row));
    let (order, update) = (TargetOrder::Rows(stride), Update::Replace);
    isa.run(Product { target, order, update, rows: width, depth: n, width: g_row, left, right });
}

/// The backward pass of a chunk.
struct Gather<'a, T> {
    chunk: &'a mut Chunk<T>,
    w_e: &'a mut [T],
    way: &'a Way<'a, T>,
}

impl<T: Real> SimdKernel for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { chunk, w_e, way } = self;
        let s = way.s;
        chunk.stream(isa, way);
        if s.mixed > 0 {
            chunk.heads(isa, way);
            chunk.project(isa, way);
        }
        w_e.fill(T::from_f64(0.0));
        chunk.w_pos.fill(T::from_f64(0.0));
        let places = &way.dataset.places[chunk.places.clone()];
        for (&(token, _), dx) in places.iter().zip(chunk.dx.chunks_exact(s.d_row)) {
            add(&mut w_e[(token as usize - chunk.tokens.start) * s.d..][..s.d], dx);
        }
        if !chunk.w_pos.is_empty() {
            let (values, row) = match way.config.positions_in_attention {
                true => (&chunk.d_read, s.w_row),
                false => (&chunk.dx, s.d_row),
            };
            for (&(_, position), row) in places.iter().zip(values.chunks_exact(row)) {
                add(&mut chunk.w_pos[position as usize * s.position..][..s.position], row);
            }
        }
    }
}

impl<T: Real> Chunk<T> {
    /// The part that reaches the embeddings directly, through the skip connection and through averaging.
    #[inline(always)]
    fn stream<I: Isa>(&mut self, isa: I, way: &Way<'_, T>) {
        let s = way.s;
        self.dx.fill(T::from_f64(0.0));
        let averaged = way.config.shape.mixer == Mixer::Average;
        if !averaged && !way.config.skip {
            return;
        }
        for (i, dx) in self.dx.chunks_exact_mut(s.d_row).enumerate() {
            let place = self.places.start + i;
            for reader in &self.readers[self.starts[i]..self.starts[i + 1]] {
                let da = &way.lanes[reader.lane as usize].da[reader.row as usize * s.d_row..][..s.d_row];
                if averaged {
                    add_scaled(isa, dx, way.weights.u_pos[way.dataset.places[place].1 as usize], da);
                }
                if way.config.skip && reader.query as usize == place {
                    add(dx, da);
                }
            }
        }
    }

    /// From the derivatives of queries, keys and values to those of their weights and of what attention reads, and through
    /// a bottleneck to the embeddings.
    #[inline(always)]
    fn project<I: Isa>(&mut self, isa: I, way: &Way<'_, T>) {
        let s = way.s;
        let (n, width) = (self.places.len(), 3 * s.mixed);
        let (read, read_row) = way.places.read(s);
        let apart = !self.d_read.is_empty();
        let (target, row, update): (&mut [T], _, _) = match apart {
            true => (&mut self.d_read, s.w_row, Update::Replace),
            false => (&mut self.dx, s.d_row, Update::Add),
        };
        back(isa, target, row, update, n, (&self.dqkv, width, width), &way.weights.qkv);
        let first = self.places.start;
        let read = (&read[first * read_row..], read_row);
        outer(isa, &mut self.w_qkv, width, s.w, read, n, (&self.dqkv, width));
        self.b_qkv.fill(T::from_f64(0.0));
        self.dqkv.chunks_exact(width).for_each(|row| add(&mut self.b_qkv, row));
        if way.config.bottleneck {
            let d_read = (&self.d_read[..], s.w_row, s.w);
            back(isa, &mut self.dx, s.d_row, Update::Add, n, d_read, &way.weights.down);
            let x = (&way.places.x[first * s.d_row..], s.d_row);
            outer(isa, &mut self.w_down, s.w_row, s.d, x, n, (&self.d_read, s.w_row));
        } else if apart {
            let rows = self.dx.chunks_exact_mut(s.d_row).zip(self.d_read.chunks_exact(s.w_row));
            rows.for_each(|(dx, d_read)| add(dx, d_read));
        }
    }

    /// The derivatives of queries, keys and values, one line of columns at a time.
    #[inline(always)]
    fn heads<I: Isa>(&mut self, isa: I, way: &Way<'_, T>) {
        let s = way.s;
        let width = 3 * s.mixed;
        for (i, target) in self.dqkv.chunks_exact_mut(width).enumerate() {
            let place = self.places.start + i;
            for column in (0..s.mixed).step_by(LINE) {
                let head = column / s.head_row;
                let zero = LineVector::splat(isa, T::from_f64(0.0));
                let (mut dq, mut dk, mut dv) = (zero, zero, zero);
                for reader in &self.readers[self.starts[i]..self.starts[i + 1]] {
                    let lane = &way.lanes[reader.lane as usize];
                    let entry = reader.entry as usize * s.heads + head;
                    let row = reader.row as usize * s.mixed + column;
                    let query = reader.query as usize;
                    let (dz, q) = (line_at(&lane.dz, row), line_at(&way.places.qkv, query * width + column));
                    dv = LineVector::splat(isa, lane.weights[entry]).fma(LineVector::load(isa, dz), dv);
                    dk = LineVector::splat(isa, lane.d_scores[entry]).fma(LineVector::load(isa, q), dk);
                    if query == place {
                        dq = dq.plus(LineVector::load(isa, line_at(&lane.dq, row)));
                    }
                }
                dq.store(line_at_mut(target, column));
                dk.store(line_at_mut(target, s.mixed + column));
                dv.store(line_at_mut(target, 2 * s.mixed + column));
            }
        }
    }
}
