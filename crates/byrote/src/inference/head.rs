//! From the residual stream to statistics of the logits, which are never all in memory.
//!
//! A block of rows meets the output matrix tile by tile: the logits of some hundred tokens are computed, reduced
//! ([`super::statistics`]) and overwritten by the next. Threads share the rows, or, where there are few rows, segments of the
//! vocabulary. The segments depend on the vocabulary only, and their sums are merged in order, so the result does not depend on
//! which of the two it was.

use super::forward::{BlockNetwork, Pool, Scratch, in_blocks, multiply, row_blocks};
use super::statistics::{Moments, Seen, Target, Tile};
use crate::num::aligned::{padded, spread_stride};
use crate::num::gemm::{PANEL, Right, Update};
use crate::num::simd::{self, Isa, SimdKernel};
use rayon::prelude::*;
use std::ops::Range;

/// The tokens of a tile.
const TILE: usize = 8 * PANEL;
/// The tokens of a segment.
const SEGMENT: usize = 21 * TILE;
/// The fewest rows per thread for which threads share the rows.
const FEW: usize = 32;

impl BlockNetwork {
    /// Lets statistics see the logits of as many rows as there are; `y` is what the output reads.
    pub(super) fn see(&self, y: &[f32], seen: &mut [Seen], pool: &Pool) {
        let (d_row, d_vocab) = (self.weights.sizes.d_row, self.weights.sizes.d_vocab);
        if seen.len() >= FEW * rayon::current_num_threads() {
            in_blocks(seen, &row_blocks(seen.len()), 1, |rows, seen| {
                let y = &y[rows.start * d_row..rows.end * d_row];
                pool.with(|scratch| {
                    simd::run(Tiles { network: self, y, tokens: 0..d_vocab, seen, scratch });
                });
            });
            return;
        }
        let segments: Vec<usize> = (0..d_vocab).step_by(SEGMENT).collect();
        let parts: Vec<Vec<Seen>> = segments
            .into_par_iter()
            .map(|first| {
                let mut seen = seen.to_vec();
                let tokens = first..(first + SEGMENT).min(d_vocab);
                pool.with(|scratch| {
                    simd::run(Tiles { network: self, y, tokens, seen: &mut seen, scratch });
                });
                seen
            })
            .collect();
        for part in parts {
            seen.iter_mut().zip(part).for_each(|(seen, later)| seen.merge(later));
        }
    }

    /// The logits of one token per row.
    pub(super) fn logits(&self, y: &[f32], tokens: &[u32]) -> Vec<Target> {
        let s = self.weights.sizes;
        let (map, bias) = self.output();
        let rows = y.par_chunks_exact(s.d_row).zip(tokens);
        rows.map_init(
            || vec![0.0; s.d],
            |column, (y, &token)| {
                map.copy_column(token as usize, column);
                let logit = simd::run(Dot { y, column });
                Target { token, logit: bias.get(token as usize).map_or(logit, |bias| logit + bias) }
            },
        )
        .collect()
    }
}

/// The product of a row and a column, added in the order of [`crate::num::gemm`].
struct Dot<'a> {
    y: &'a [f32],
    column: &'a [f32],
}

impl SimdKernel for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) -> f32 {
        self.y.iter().zip(self.column).fold(0.0, |sum, (&y, &w)| isa.fma(y, w, sum))
    }
}

/// The logits of some rows for a range of tokens that begins with a segment.
struct Tiles<'a> {
    network: &'a BlockNetwork,
    y: &'a [f32],
    tokens: Range<usize>,
    seen: &'a mut [Seen],
    scratch: &'a mut Scratch,
}

impl SimdKernel for Tiles<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let Self { network, y, tokens, seen, scratch } = self;
        let s = network.weights.sizes;
        let (map, bias) = network.output();
        let (n, stride) = (seen.len(), spread_stride(TILE));
        let mut moments = vec![Moments::NONE; n];
        for segment in tokens.clone().step_by(SEGMENT) {
            moments.fill(Moments::NONE);
            let end = tokens.end.min(segment + SEGMENT);
            for first in (segment..end).step_by(TILE) {
                let real = TILE.min(end - first);
                let width = padded(real);
                let right = Right::Part(map, (0, first));
                let tile = scratch.tile.of(n * stride);
                multiply(isa, (tile, stride), Update::Replace, n, (y, s.d_row, s.d), (right, width));
                let bias = bias.get(first..).unwrap_or_default();
                for ((row, seen), moments) in tile.chunks_exact_mut(stride).zip(&mut *seen).zip(&mut moments)
                {
                    row[..real].iter_mut().zip(bias).for_each(|(z, b)| *z += b);
                    row[real..width].fill(f32::MIN);
                    let e = scratch.exponentials.of(TILE);
                    let tile = Tile { seen, z: &row[..width], n: real, first: first as u32, e };
                    let later = isa.run(tile);
                    *moments = seen.joined(*moments, later);
                }
            }
            for (seen, moments) in seen.iter_mut().zip(&moments) {
                seen.moments = seen.joined(seen.moments, *moments);
            }
        }
    }
}
