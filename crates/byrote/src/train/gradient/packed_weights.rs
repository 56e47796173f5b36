//! The parameters of a model as the kernels read them: the location of each tensor, and copies packed once per
//! evaluation.

use crate::model::{Config, Hidden, Mixer};
use crate::num::aligned::{AlignedVec, padded, spread_stride};
use crate::num::gemm::{PANEL, Panels, fill_panel, fill_panel_transposed};
use crate::num::real::Real;
use rayon::prelude::*;
use std::ops::Range;

/// The size from which a matrix is packed by several threads.
const SPLIT: usize = 1 << 14;

/// The locations of the tensors in the vector of all parameters; empty ranges for those a model lacks.
#[derive(Default)]
pub(in crate::train) struct Layout {
    pub(in crate::train) w_e: Range<usize>,
    pub(in crate::train) w_pos: Range<usize>,
    pub(in crate::train) u_pos: Range<usize>,
    /// Weights and biases of queries, keys and values.
    pub(in crate::train) qkv: [(Range<usize>, Range<usize>); 3],
    /// The maps of a bottleneck.
    pub(in crate::train) w_down: Range<usize>,
    pub(in crate::train) w_up: Range<usize>,
    pub(in crate::train) w_o: Range<usize>,
    pub(in crate::train) b_o: Range<usize>,
    pub(in crate::train) w_in: Range<usize>,
    pub(in crate::train) b_in: Range<usize>,
    pub(in crate::train) w_out: Range<usize>,
    pub(in crate::train) b_out: Range<usize>,
    pub(in crate::train) w_u: Range<usize>,
    pub(in crate::train) b_u: Range<usize>,
    /// The number of parameters.
    pub(in crate::train) n: usize,
}

impl Layout {
    pub(in crate::train) fn new(config: &Config) -> Self {
        let tensors = config.tensors();
        let of = |name: &str| tensors.iter().find(|t| t.name == name).map_or(0..0, |t| t.range.clone());
        Self {
            w_e: of("W_E"),
            w_pos: of("W_pos"),
            u_pos: of("u_pos"),
            qkv: [("W_Q", "b_Q"), ("W_K", "b_K"), ("W_V", "b_V")].map(|(w, b)| (of(w), of(b))),
            w_down: of("W_down"),
            w_up: of("W_up"),
            w_o: of("W_O"),
            b_o: of("b_O"),
            w_in: of("W_in"),
            b_in: of("b_in"),
            w_out: of("W_out"),
            b_out: of("b_out"),
            w_u: of("W_U"),
            b_u: of("b_U"),
            n: tensors.last().map_or(0, |t| t.range.end),
        }
    }
}

/// Dimensions as indices. `..._row` is the distance in memory between the rows of a matrix of that width.
#[derive(Clone, Copy)]
pub(in crate::train) struct Sizes {
    pub(in crate::train) n_ctx: usize,
    pub(in crate::train) d: usize,
    pub(in crate::train) d_row: usize,
    /// The width of what attention reads and writes.
    pub(in crate::train) w: usize,
    pub(in crate::train) w_row: usize,
    /// The width of a position vector.
    pub(in crate::train) position: usize,
    pub(in crate::train) heads: usize,
    pub(in crate::train) d_head: usize,
    /// The padded width of a head.
    pub(in crate::train) head_row: usize,
    /// The padded width of all heads.
    pub(in crate::train) mixed: usize,
    pub(in crate::train) m: usize,
    pub(in crate::train) m_row: usize,
    pub(in crate::train) omega: usize,
    pub(in crate::train) omega_row: usize,
    /// The width of the output layer's input.
    pub(in crate::train) read: usize,
    pub(in crate::train) read_row: usize,
}

impl Sizes {
    pub(in crate::train) fn new(config: &Config) -> Self {
        let shape = &config.shape;
        let (heads, d_head) = match shape.mixer {
            Mixer::Attention => (shape.n_heads as usize, shape.d_head as usize),
            Mixer::Average | Mixer::None => (0, 0),
        };
        let (d, m, omega) = (shape.d_model as usize, shape.d_mlp as usize, shape.d_vocab as usize);
        let read = if config.hidden == Hidden::Output { m } else { d };
        let head_row = padded(d_head);
        Self {
            n_ctx: shape.n_ctx as usize,
            d,
            d_row: spread_stride(d),
            w: config.attention_width() as usize,
            w_row: spread_stride(config.attention_width() as usize),
            position: config.position_width() as usize,
            heads,
            d_head,
            head_row,
            mixed: heads * head_row,
            m,
            m_row: spread_stride(m),
            omega,
            omega_row: spread_stride(omega),
            read,
            read_row: spread_stride(read),
        }
    }
}

/// A matrix and its transpose, both packed.
pub(in crate::train) struct Packed<T> {
    pub(in crate::train) plain: Panels<T>,
    pub(in crate::train) transposed: Panels<T>,
}

impl<T: Real> Packed<T> {
    pub(in crate::train) fn new(rows: usize, columns: usize) -> Self {
        Self { plain: Panels::zeros(rows, columns), transposed: Panels::zeros(columns, rows) }
    }

    /// Writes a part at the given row and column.
    pub(in crate::train) fn set(&mut self, (row, column): (usize, usize), source: &[T], columns: usize) {
        self.plain.set((row, column), source, columns);
        self.transposed.set_transposed((column, row), source, columns);
    }

    /// Writes the whole matrix, on all threads where that pays off.
    pub(in crate::train) fn fill(&mut self, source: &[T], columns: usize) {
        Self::fill_both(&mut self.plain, &mut self.transposed, source, columns);
    }

    /// Writes the whole matrix, given its transpose.
    pub(in crate::train) fn fill_from_transpose(&mut self, source: &[T], columns: usize) {
        Self::fill_both(&mut self.transposed, &mut self.plain, source, columns);
    }

    fn fill_both(plain: &mut Panels<T>, transposed: &mut Panels<T>, source: &[T], columns: usize) {
        let (size, plain) = plain.parts();
        let (transposed_size, transposed) = transposed.parts();
        if source.len() < SPLIT {
            let parts = plain.chunks_mut(size).enumerate();
            parts.for_each(|(i, part)| fill_panel(part, i * PANEL, source, columns));
            let parts = transposed.chunks_mut(transposed_size).enumerate();
            parts.for_each(|(i, part)| fill_panel_transposed(part, i * PANEL, source, columns));
            return;
        }
        rayon::join(
            || {
                let parts = plain.par_chunks_mut(size).enumerate();
                parts.for_each(|(i, part)| fill_panel(part, i * PANEL, source, columns));
            },
            || {
                let parts = transposed.par_chunks_mut(transposed_size).enumerate();
                parts.for_each(|(i, part)| fill_panel_transposed(part, i * PANEL, source, columns));
            },
        );
    }
}

/// A matrix with few nonzero entries, stored row by row.
pub(in crate::train) struct Sparse<T> {
    starts: Vec<usize>,
    entries: Vec<(u32, T)>,
}

impl<T: Real> Sparse<T> {
    /// The entries of a row-major matrix; `None` if more than one in `most` is nonzero.
    fn of(source: &[T], columns: usize, most: usize) -> Option<Self> {
        let zero = T::from_f64(0.0);
        let n: usize = source.par_chunks(SPLIT).map(|part| part.iter().filter(|&&x| x != zero).count()).sum();
        if n > source.len() / most {
            return None;
        }
        let (mut starts, mut entries) = (vec![0], Vec::with_capacity(n));
        for row in source.chunks_exact(columns) {
            entries.extend((0u32..).zip(row).filter(|&(_, &x)| x != zero).map(|(j, &x)| (j, x)));
            starts.push(entries.len());
        }
        Some(Self { starts, entries })
    }

    /// `target = x M`.
    pub(in crate::train) fn multiply(&self, x: &[T], target: &mut [T]) {
        target.fill(T::from_f64(0.0));
        for (&x, range) in x.iter().zip(self.starts.windows(2)) {
            for &(j, value) in &self.entries[range[0]..range[1]] {
                target[j as usize] += x * value;
            }
        }
    }
}

/// A matrix is treated as sparse if at most one entry in this many is nonzero.
const SPARSE: usize = 16;

/// The packed weights and the padded biases.
pub(in crate::train) struct Weights<T> {
    /// From the residual stream to what attention reads, and back; without a bottleneck, both are empty.
    pub(in crate::train) down: Packed<T>,
    pub(in crate::train) up: Packed<T>,
    /// Queries, keys and values side by side, `[w, 3 mixed]`.
    pub(in crate::train) qkv: Packed<T>,
    pub(in crate::train) b_qkv: AlignedVec<T>,
    pub(in crate::train) o: Packed<T>,
    pub(in crate::train) b_o: AlignedVec<T>,
    /// The weights of token averaging.
    pub(in crate::train) u_pos: Vec<T>,
    pub(in crate::train) w_in: Packed<T>,
    pub(in crate::train) b_in: AlignedVec<T>,
    pub(in crate::train) w_out: Packed<T>,
    pub(in crate::train) b_out: AlignedVec<T>,
    pub(in crate::train) u: Packed<T>,
    /// Used instead of `u` if `W_U` is sparse and there is no backward pass.
    pub(in crate::train) u_sparse: Option<Sparse<T>>,
    /// Minus infinity beyond the vocabulary, so that the padding of the logits never counts.
    pub(in crate::train) b_u: AlignedVec<T>,
}

impl<T: Real> Weights<T> {
    pub(in crate::train) fn new(config: &Config, s: Sizes) -> Self {
        let (m, out) = (s.m, if config.hidden == Hidden::Residual { s.m } else { 0 });
        let mut b_u = AlignedVec::zeros(padded(s.omega));
        b_u[s.omega..].fill(T::from_f64(f64::NEG_INFINITY));
        let n_pos = if config.shape.mixer == Mixer::Average { s.n_ctx } else { 0 };
        let narrow = if config.bottleneck { s.w } else { 0 };
        Self {
            down: Packed::new(s.d, narrow),
            up: Packed::new(narrow, s.d),
            qkv: Packed::new(s.w, 3 * s.mixed),
            b_qkv: AlignedVec::zeros(3 * s.mixed),
            o: Packed::new(s.mixed, s.w),
            b_o: AlignedVec::zeros(s.w),
            u_pos: vec![T::from_f64(0.0); n_pos],
            w_in: Packed::new(s.d, m),
            b_in: AlignedVec::zeros(m),
            w_out: Packed::new(out, s.d),
            b_out: AlignedVec::zeros(s.d),
            u: Packed::new(s.read, s.omega),
            u_sparse: None,
            b_u,
        }
    }

    /// Copies the weights that the places need.
    pub(in crate::train) fn pack_mixer(&mut self, parameters: &[T], layout: &Layout, s: Sizes) {
        self.u_pos.copy_from_slice(&parameters[layout.u_pos.clone()]);
        if s.mixed == 0 {
            return;
        }
        for (i, (weight, bias)) in layout.qkv.iter().enumerate() {
            let heads = parameters[weight.clone()].chunks_exact(s.w * s.d_head).enumerate();
            for (head, weight) in heads {
                self.qkv.set((0, i * s.mixed + head * s.head_row), weight, s.d_head);
            }
            for (head, bias) in parameters[bias.clone()].chunks_exact(s.d_head).enumerate() {
                self.b_qkv[i * s.mixed + head * s.head_row..][..s.d_head].copy_from_slice(bias);
            }
        }
        for (head, weight) in parameters[layout.w_o.clone()].chunks_exact(s.d_head * s.w).enumerate() {
            self.o.set((head * s.head_row, 0), weight, s.w);
        }
        if !layout.w_down.is_empty() {
            self.down.fill(&parameters[layout.w_down.clone()], s.w);
            self.up.fill(&parameters[layout.w_up.clone()], s.d);
        }
    }

    /// Copies the weights that come after the mixer.
    pub(in crate::train) fn pack_rest(&mut self, parameters: &[T], layout: &Layout, s: Sizes) {
        for (target, bias) in [
            (&mut self.b_o, &layout.b_o),
            (&mut self.b_in, &layout.b_in),
            (&mut self.b_out, &layout.b_out),
            (&mut self.b_u, &layout.b_u),
        ] {
            target[..bias.len()].copy_from_slice(&parameters[bias.clone()]);
        }
        if !layout.w_in.is_empty() {
            self.w_in.fill(&parameters[layout.w_in.clone()], s.m);
        }
        if !layout.w_out.is_empty() {
            self.w_out.fill(&parameters[layout.w_out.clone()], s.d);
        }
        if self.u_sparse.is_none() {
            self.u.fill(&parameters[layout.w_u.clone()], s.omega);
        }
    }

    /// Checks whether `W_U` is sparse, for passes without a backward pass.
    pub(in crate::train) fn look_for_zeros(&mut self, parameters: &[T], layout: &Layout, s: Sizes) {
        self.u_sparse = Sparse::of(&parameters[layout.w_u.clone()], s.omega, SPARSE);
    }
}
