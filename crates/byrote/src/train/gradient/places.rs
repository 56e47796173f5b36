//! Everything that depends only on a token and its position: embeddings, queries, keys and values, and their gradients.
//!
//! Places are sorted by token. They are divided into *chunks* with about equally many readers, at token boundaries, so
//! that each chunk owns its rows of the gradient of `W_E`. The gradients of the weights shared by all places are kept
//! per chunk and summed in order.

use super::packed_weights::{Layout, Sizes, Weights};
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
    /// Embedded token plus position, `[places, d]`.
    pub(in crate::train) x: AlignedVec<T>,
    /// Queries, keys and values side by side, `[places, 3 mixed]`.
    pub(in crate::train) qkv: AlignedVec<T>,
}

impl<T: Real> Places<T> {
    pub(in crate::train) fn new(config: &Config, dataset: &Dataset, s: Sizes) -> Self {
        let n = dataset.places.len();
        Self {
            sinusoids: config.sinusoids().into_iter().map(T::from_f64).collect(),
            x: AlignedVec::zeros(n * s.d_row),
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
            Positions::None => &[],
        };
        let places = dataset.places.par_chunks(EMBEDDED);
        let x = self.x.par_chunks_mut(EMBEDDED * s.d_row);
        if s.mixed == 0 {
            places
                .zip(x)
                .for_each(|(places, x)| run(Embed { places, x, qkv: &mut [], table, positions, weights, s }));
        } else {
            let qkv = self.qkv.par_chunks_mut(EMBEDDED * 3 * s.mixed);
            places
                .zip(x.zip(qkv))
                .for_each(|(places, (x, qkv))| run(Embed { places, x, qkv, table, positions, weights, s }));
        }
    }
}

/// A few places to embed and project.
struct Embed<'a, T> {
    places: &'a [(u32, u32)],
    x: &'a mut [T],
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
        let Self { places, x, qkv, table, positions, weights, s } = self;
        for (&(token, position), x) in places.iter().zip(x.chunks_exact_mut(s.d_row)) {
            let x = &mut x[..s.d];
            x.copy_from_slice(&table[token as usize * s.d..][..s.d]);
            if !positions.is_empty() {
                add(x, &positions[position as usize * s.d..][..s.d]);
            }
        }
        if s.mixed == 0 {
            return;
        }
        let width = 3 * s.mixed;
        isa.run(Product {
            target: qkv,
            order: TargetOrder::Rows(width),
            update: Update::Replace,
            rows: places.len(),
            depth: s.d,
            width,
            left: Left::rows(x, s.d_row),
            right: Right::Panels(&weights.qkv.plain),
        });
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
    dqkv: AlignedVec<T>,
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
                dqkv: AlignedVec::zeros((end - start) * 3 * s.mixed),
                w_qkv: AlignedVec::zeros(s.d * 3 * s.mixed),
                b_qkv: AlignedVec::zeros(3 * s.mixed),
                w_pos: AlignedVec::zeros(if learned { s.n_ctx * s.d_row } else { 0 }),
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
                let heads = gradient[weight.clone()].chunks_exact_mut((s.d * s.d_head).max(1)).enumerate();
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
            let positions = gradient[layout.w_pos.clone()].chunks_exact_mut(s.d);
            for (target, source) in positions.zip(chunk.w_pos.chunks_exact(s.d_row)) {
                add(target, source);
            }
        }
    }
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
        let n = chunk.places.len();
        chunk.stream(isa, way);
        if s.mixed > 0 {
            chunk.heads(isa, way);
            let width = 3 * s.mixed;
            isa.run(Product {
                target: &mut chunk.dx,
                order: TargetOrder::Rows(s.d_row),
                update: Update::Add,
                rows: n,
                depth: width,
                width: way.weights.qkv.transposed.width(),
                left: Left::rows(&chunk.dqkv, width),
                right: Right::Panels(&way.weights.qkv.transposed),
            });
            isa.run(Product {
                target: &mut chunk.w_qkv,
                order: TargetOrder::Rows(width),
                update: Update::Replace,
                rows: s.d,
                depth: n,
                width,
                left: Left::transposed(&way.places.x[chunk.places.start * s.d_row..], s.d_row),
                right: Right::Rows(&chunk.dqkv, width),
            });
            chunk.b_qkv.fill(T::from_f64(0.0));
            chunk.dqkv.chunks_exact(width).for_each(|row| add(&mut chunk.b_qkv, row));
        }
        w_e.fill(T::from_f64(0.0));
        chunk.w_pos.fill(T::from_f64(0.0));
        let places = &way.dataset.places[chunk.places.clone()];
        for (&(token, position), dx) in places.iter().zip(chunk.dx.chunks_exact(s.d_row)) {
            add(&mut w_e[(token as usize - chunk.tokens.start) * s.d..][..s.d], dx);
            if !chunk.w_pos.is_empty() {
                add(&mut chunk.w_pos[position as usize * s.d_row..][..s.d], dx);
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
