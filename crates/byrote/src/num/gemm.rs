//! Single-threaded matrix products for the shapes of training: a few hundred rows, operands that stay in the cache.
//!
//! ```text
//! C (+)= A B        A [rows, depth], element (i, k) at any stride;  B [depth, width];  C [rows, width], row-major
//! ```
//!
//! `B` is read in *panels* of three lines of columns, either packed beforehand (weights, once per step: [`Panels`]) or in
//! place (activations: rows of whole lines). A tile of C, eight rows of a panel, is accumulated in registers over the whole
//! depth. Widths are whole lines, so there are no remainders, and the padding of B determines the padding of C.
//!
//! Callers parallelize over blocks of rows. Each product runs on one thread and always adds in the same order, so results do
//! not depend on the number of threads.

use super::aligned::{AlignedVec, LINE, padded};
use super::real::Real;
use super::simd::{Isa, SimdKernel};
use super::vector::Vector;

/// The number of columns in a panel.
pub const PANEL: usize = 3 * LINE;

/// The left operand: element (i, k) is at `i * row + k * column`.
#[derive(Clone, Copy)]
pub struct Left<'a, T> {
    values: &'a [T],
    row: usize,
    column: usize,
}

impl<'a, T> Left<'a, T> {
    /// Describes a row-major matrix whose rows start `stride` apart.
    #[inline(always)]
    pub fn rows(values: &'a [T], stride: usize) -> Self {
        Self { values, row: stride, column: 1 }
    }

    /// Describes the transpose of a row-major matrix whose rows start `stride` apart.
    #[inline(always)]
    pub fn transposed(values: &'a [T], stride: usize) -> Self {
        Self { values, row: 1, column: stride }
    }
}

/// The right operand.
#[derive(Clone, Copy)]
pub enum Right<'a, T> {
    /// A packed matrix.
    Panels(&'a Panels<T>),
    /// A part of a packed matrix, from a row and a column on. The column is a multiple of [`PANEL`]; so is the width of the part,
    /// unless it reaches the last column.
    Part(&'a Panels<T>, (usize, usize)),
    /// A row-major matrix and its row stride; rows are padded to whole lines.
    Rows(&'a [T], usize),
}

/// What a product does to the previous values of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Replaces them.
    Replace,
    /// Is added to them.
    Add,
}

/// A right operand packed into panels: for each block of [`PANEL`] columns (the last may be narrower), all rows end to end.
pub struct Panels<T> {
    values: AlignedVec<T>,
    depth: usize,
    width: usize,
}

impl<T: Real> Panels<T> {
    /// Creates a matrix of zeros, its rows padded to whole lines.
    pub fn zeros(depth: usize, width: usize) -> Self {
        let width = padded(width);
        Self { values: AlignedVec::zeros(depth * width), depth, width }
    }

    /// Returns the number of columns, including padding.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Copies a column.
    pub fn copy_column(&self, column: usize, target: &mut [T]) {
        let (depth, width) = (self.depth, self.width);
        assert!(column < width && target.len() == depth, "column {column} of [{depth}, {width}]");
        let at = place(depth, width, 0, column);
        let step = PANEL.min(width - (column - column % PANEL));
        for (target, &x) in target.iter_mut().zip(self.values[at..].iter().step_by(step)) {
            *target = x;
        }
    }

    /// Returns the size of a panel and all values; threads may fill chunks of that size independently.
    pub fn parts(&mut self) -> (usize, &mut [T]) {
        ((self.depth * PANEL).max(1), &mut self.values)
    }

    /// Writes a row-major matrix at the given row and column.
    pub fn set(&mut self, (row, column): (usize, usize), source: &[T], columns: usize) {
        let (depth, width) = (self.depth, self.width);
        let rows = source.len() / columns.max(1);
        assert!(row + rows <= depth && column + columns <= width, "a block outside of [{depth}, {width}]");
        for (i, source) in source.chunks_exact(columns.max(1)).enumerate() {
            let mut rest = source;
            while !rest.is_empty() {
                let j = column + (columns - rest.len());
                let (part, after) = rest.split_at(rest.len().min(PANEL - j % PANEL));
                let at = place(depth, width, row + i, j);
                self.values[at..at + part.len()].copy_from_slice(part);
                rest = after;
            }
        }
    }

    /// Writes the transpose of a row-major matrix at the given row and column.
    pub fn set_transposed(&mut self, (row, column): (usize, usize), source: &[T], columns: usize) {
        let (depth, width) = (self.depth, self.width);
        let rows = source.len() / columns.max(1);
        assert!(row + columns <= depth && column + rows <= width, "a block outside of [{depth}, {width}]");
        for (source, j) in source.chunks_exact(columns.max(1)).zip(column..) {
            let at = place(depth, width, row, j);
            let step = PANEL.min(width - (j - j % PANEL));
            for (target, &x) in self.values[at..].iter_mut().step_by(step).zip(source) {
                *target = x;
            }
        }
    }
}

/// Fills the panel of [`Panels::parts`] that starts at column `first` from a row-major matrix with `columns` columns.
pub fn fill_panel<T: Real>(panel: &mut [T], first: usize, source: &[T], columns: usize) {
    let n = PANEL.min(columns - first);
    let width = padded(n);
    for (target, source) in panel.chunks_exact_mut(width).zip(source.chunks_exact(columns)) {
        target[..n].copy_from_slice(&source[first..first + n]);
    }
}

/// Fills the panel of [`Panels::parts`] that starts at column `first` from the transpose of a row-major matrix.
pub fn fill_panel_transposed<T: Real>(panel: &mut [T], first: usize, source: &[T], columns: usize) {
    let rows = source.len() / columns.max(1);
    let n = PANEL.min(rows - first);
    let width = padded(n);
    let source = &source[first * columns..(first + n) * columns];
    // One line of columns at a time, so that source and target both stay in the cache.
    for start in (0..columns).step_by(LINE) {
        let end = (start + LINE).min(columns);
        for (i, row) in source.chunks_exact(columns).enumerate() {
            for (target, &x) in
                panel[start * width..end * width].chunks_exact_mut(width).zip(&row[start..end])
            {
                target[i] = x;
            }
        }
    }
}

/// Iterates over the panels of a packed matrix: the first column and the values of each.
#[inline(always)]
pub fn panels<T>(values: &[T], rows: usize, width: usize) -> impl Iterator<Item = (usize, &[T])> {
    (0..width)
        .step_by(PANEL)
        .map(move |first| (first, &values[first * rows..(first + PANEL.min(width - first)) * rows]))
}

/// Returns the index of element (k, j) in packed panels.
#[inline(always)]
fn place(depth: usize, width: usize, k: usize, j: usize) -> usize {
    let first = j - j % PANEL;
    first * depth + k * PANEL.min(width - first) + (j - first)
}

/// Returns the length of a slice that holds `n` parts of `length` numbers, `stride` apart, or `usize::MAX` where that
/// overflows.
fn span(n: usize, stride: usize, length: usize) -> usize {
    (n - 1).saturating_mul(stride).saturating_add(length)
}

/// The memory layout of a target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TargetOrder {
    /// Row-major with this row stride.
    Rows(usize),
    /// Packed like [`Panels`], so that adding to a large target reads and writes it in one sweep.
    Panels,
}

/// A matrix product to compute, as described at the head of the file.
pub struct Product<'a, T> {
    /// The target, C.
    pub target: &'a mut [T],
    /// The layout of the target.
    pub order: TargetOrder,
    /// What happens to the previous values of the target.
    pub update: Update,
    /// The rows of A and C.
    pub rows: usize,
    /// The columns of A and rows of B.
    pub depth: usize,
    /// The columns of B and C, a multiple of [`LINE`].
    pub width: usize,
    /// The left operand, A.
    pub left: Left<'a, T>,
    /// The right operand, B.
    pub right: Right<'a, T>,
}

impl<T: Real> SimdKernel for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Self { target, order, update, rows, depth, width, left, right } = self;
        if rows == 0 || width == 0 {
            return;
        }
        // If the last element of each operand is inside its slice, so is everything that the tiles touch. The indices are
        // computed with saturation, so that sizes that overflow are refused as well.
        let stride = if let TargetOrder::Rows(stride) = order { stride } else { width };
        assert!(width % LINE == 0 && width <= stride, "a width of {width} in rows of stride {stride}");
        assert!(span(rows, stride, width) <= target.len(), "[{rows}, {width}] in {} values", target.len());
        if depth > 0 {
            let last = span(rows, left.row, span(depth, left.column, 1));
            assert!(last <= left.values.len(), "[{rows}, {depth}] in {} values", left.values.len());
            match right {
                Right::Panels(p) => {
                    let (d, w) = (p.depth, p.width);
                    assert!(d == depth && w == width, "panels of [{d}, {w}] for [{depth}, {width}]");
                }
                Right::Part(p, (row, column)) => {
                    let (d, w) = (p.depth, p.width);
                    let inside = row.saturating_add(depth) <= d && column.saturating_add(width) <= w;
                    let whole =
                        column.is_multiple_of(PANEL) && (width.is_multiple_of(PANEL) || column + width == w);
                    assert!(inside && whole, "[{depth}, {width}] at {row}, {column} of panels of [{d}, {w}]");
                }
                Right::Rows(values, apart) => {
                    let last = span(depth, apart, width);
                    assert!(
                        last <= values.len() && width <= apart,
                        "[{depth}, {width}] in {} values",
                        values.len()
                    );
                }
            }
        }
        for first in (0..width).step_by(PANEL) {
            let panel = PANEL.min(width - first);
            let (b, step) = match right {
                Right::Panels(p) => (p.values[first * depth..].as_ptr(), panel),
                Right::Part(p, (row, column)) => {
                    (p.values[(column + first) * p.depth + row * panel..].as_ptr(), panel)
                }
                Right::Rows(values, apart) => (values[first.min(values.len())..].as_ptr(), apart),
            };
            let (c, stride) = match order {
                TargetOrder::Rows(stride) => (target[first..].as_mut_ptr(), stride),
                TargetOrder::Panels => (target[first * rows..].as_mut_ptr(), panel),
            };
            let at = Panel {
                depth,
                a: left.values.as_ptr(),
                a_row: left.row,
                a_column: left.column,
                b,
                b_step: step,
                c,
                c_row: stride,
                add: update == Update::Add,
                ahead: Ahead::new((c, order), right, first, (rows, depth, width)),
            };
            // SAFETY: the assertions above put all elements inside their slices; `I` proves the instruction set.
            unsafe {
                if left.column == 1 {
                    at.sweep::<T::Register<I>, false>(rows, panel);
                } else {
                    at.sweep::<T::Register<I>, true>(rows, panel);
                }
            }
        }
    }
}

/// The steps of a tile between two prefetches.
const STEPS: usize = 8;

/// What to prefetch while a tile is accumulated. Weights and their gradients exceed the caches near a core, so a tile would
/// stall on its first reads. Each tile therefore prefetches the part of the target that the next tile will write, where the
/// target is laid out in the order of the tiles, and otherwise its share of the next panel of B.
#[derive(Clone, Copy)]
struct Ahead<T> {
    at: *const T,
    /// How far the address advances per row of the panel.
    row: usize,
    /// The cache lines to prefetch every [`STEPS`] steps of a tile.
    lines: usize,
}

impl<T: Real> Ahead<T> {
    /// The numbers in a cache line.
    const LINE: usize = 64 / size_of::<T>();
    /// The rows of a tile that spans a whole panel.
    const TILE: usize = 8;

    #[inline(always)]
    fn new(
        (c, order): (*const T, TargetOrder),
        right: Right<'_, T>,
        first: usize,
        (rows, depth, width): (usize, usize, usize),
    ) -> Self {
        let panel = PANEL.min(width - first);
        let next = first + panel;
        let (at, row) = match (order, right) {
            (TargetOrder::Panels, _) => (c.wrapping_add(Self::TILE * panel), panel),
            (TargetOrder::Rows(_), Right::Panels(panels)) if next < width && rows >= Self::TILE => {
                let at = panels.values[next * depth..].as_ptr();
                (at, (depth * PANEL.min(width - next)).div_ceil(rows))
            }
            // What follows the last panel of a part is usually the next part.
            (TargetOrder::Rows(_), Right::Part(p, (row, column)))
                if column + next < p.width && rows >= Self::TILE =>
            {
                let panel = PANEL.min(p.width - column - next);
                let at = p.values[(column + next) * p.depth + row * panel..].as_ptr();
                (at, (depth * panel).div_ceil(rows))
            }
            _ => (std::ptr::null(), 0),
        };
        let lines = (Self::TILE * row).div_ceil(Self::LINE).div_ceil(depth.div_ceil(STEPS).max(1));
        Self { at, row, lines }
    }
}

/// Prefetches a cache line. Any address is allowed.
#[inline(always)]
fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has the instruction, and it never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// A panel of the target with the operands that it is computed from.
#[derive(Clone, Copy)]
struct Panel<T> {
    depth: usize,
    a: *const T,
    a_row: usize,
    a_column: usize,
    b: *const T,
    b_step: usize,
    c: *mut T,
    c_row: usize,
    add: bool,
    ahead: Ahead<T>,
}

impl<T: Real> Panel<T> {
    /// Computes all rows of the panel, `width` columns wide. Under `TRANSPOSED` the row stride of A is 1, otherwise its column
    /// stride is.
    ///
    /// # Safety
    /// The machine must have the instruction set of `V`, and all elements must lie inside their slices.
    #[inline(always)]
    unsafe fn sweep<V: Vector<T>, const TRANSPOSED: bool>(mut self, rows: usize, width: usize) {
        // Accumulators that fit the registers: 24 of 32 with AVX-512, 12 of 16 otherwise.
        let wide = size_of::<V>() == 64;
        let mut left = rows;
        while left > 0 {
            // SAFETY: guaranteed by the caller; a tile covers only rows and columns of the panel.
            let done = unsafe {
                match left {
                    // One register of columns: eight accumulators would not hide the latency.
                    16.. if wide && width == V::LANES => {
                        self.tile::<V, 16, 1, TRANSPOSED>();
                        16
                    }
                    8.. if wide => self.across::<V, 8, TRANSPOSED>(width),
                    4.. => self.across::<V, 4, TRANSPOSED>(width),
                    _ => self.across::<V, 1, TRANSPOSED>(width),
                }
            };
            left -= done;
            self.ahead.at = self.ahead.at.wrapping_add(done * self.ahead.row);
            self.a = self.a.wrapping_add(done * self.a_row);
            self.c = self.c.wrapping_add(done * self.c_row);
        }
    }

    /// Computes `R` rows of the panel.
    ///
    /// # Safety
    /// As for [`Self::sweep`].
    #[inline(always)]
    unsafe fn across<V: Vector<T>, const R: usize, const TRANSPOSED: bool>(mut self, width: usize) -> usize {
        let mut left = width / V::LANES;
        while left > 0 {
            // SAFETY: guaranteed by the caller; the tiles stay inside `width` columns.
            let done = unsafe {
                match left {
                    1 => self.tile::<V, R, 1, TRANSPOSED>(),
                    2 | 4 => self.tile::<V, R, 2, TRANSPOSED>(),
                    _ => self.tile::<V, R, 3, TRANSPOSED>(),
                }
            };
            left -= done;
            self.b = self.b.wrapping_add(done * V::LANES);
            self.c = self.c.wrapping_add(done * V::LANES);
        }
        R
    }

    /// Computes `R` rows of `N` registers.
    ///
    /// # Safety
    /// As for [`Self::sweep`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Indices as in the formula; the compiler unrolls the loops.
    unsafe fn tile<V: Vector<T>, const R: usize, const N: usize, const TRANSPOSED: bool>(self) -> usize {
        // SAFETY: guaranteed by the caller; all loads and stores stay inside R rows and N registers.
        unsafe {
            let (a_row, a_column) = if TRANSPOSED { (1, self.a_column) } else { (self.a_row, 1) };
            let mut sums = [[V::splat(T::from_f64(0.0)); N]; R];
            let (mut a, mut b, mut ahead) = (self.a, self.b, self.ahead.at);
            let mut left = self.depth;
            while left > 0 {
                for _ in 0..self.ahead.lines {
                    prefetch(ahead);
                    ahead = ahead.wrapping_add(Ahead::<T>::LINE);
                }
                let steps = left.min(STEPS);
                left -= steps;
                for _ in 0..steps {
                    let mut row = [V::splat(T::from_f64(0.0)); N];
                    for n in 0..N {
                        row[n] = V::load(b.add(n * V::LANES));
                    }
                    for r in 0..R {
                        let x = V::splat(*a.add(r * a_row));
                        for n in 0..N {
                            sums[r][n] = x.fma(row[n], sums[r][n]);
                        }
                    }
                    a = a.wrapping_add(a_column);
                    b = b.wrapping_add(self.b_step);
                }
            }
            for r in 0..R {
                for n in 0..N {
                    let to = self.c.add(r * self.c_row + n * V::LANES);
                    let sum = if self.add {
                        V::splat(T::from_f64(1.0)).fma(V::load(to), sums[r][n])
                    } else {
                        sums[r][n]
                    };
                    sum.store(to);
                }
            }
        }
        N
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::each;
    use super::*;

    /// Returns small integers, so that every order of summation gives the same bits.
    fn numbers<T: Real>(n: usize, seed: usize) -> Vec<T> {
        (0..n).map(|i| T::from_f64(((i * 7 + seed * 13 + i * i % 11) % 9) as f64 - 4.0)).collect()
    }

    fn products_match_the_definition<T: Real + std::fmt::Debug>() {
        for (rows, depth, columns) in [
            (1, 1, 1),
            (2, 3, 5),
            (8, 16, 16),
            (13, 7, 33),
            (31, 20, 48),
            (9, 5, 49),
            (24, 64, 130),
            (3, 0, 20),
        ] {
            let (a, b) = (numbers::<T>(rows * depth, 1), numbers::<T>(depth * columns, 2));
            let width = padded(columns);
            let expect = |i: usize, j: usize| {
                (0..depth).map(|k| a[i * depth + k].to_f64() * b[k * columns + j].to_f64()).sum::<f64>()
            };
            let transpose = |m: &[T], rows: usize, columns: usize| -> Vec<T> {
                (0..rows * columns).map(|i| m[i % rows * columns + i / rows]).collect()
            };
            let (a_t, b_t) = (transpose(&a, rows, depth), transpose(&b, depth, columns));
            let mut packed = Panels::<T>::zeros(depth, columns);
            packed.set((0, 0), &b, columns);
            let mut from_transpose = Panels::<T>::zeros(depth, columns);
            from_transpose.set_transposed((0, 0), &b_t, depth);
            let mut filled = Panels::<T>::zeros(depth, columns);
            let mut filled_from_transpose = Panels::<T>::zeros(depth, columns);
            let (size, parts) = filled.parts();
            parts.chunks_mut(size).enumerate().for_each(|(i, part)| fill_panel(part, i * PANEL, &b, columns));
            let (size, parts) = filled_from_transpose.parts();
            for (i, part) in parts.chunks_mut(size).enumerate() {
                fill_panel_transposed(part, i * PANEL, &b_t, depth);
            }
            let mut in_rows = vec![T::from_f64(0.0); depth * width];
            for k in 0..depth {
                in_rows[k * width..][..columns].copy_from_slice(&b[k * columns..][..columns]);
            }
            let lefts = [Left::rows(&a, depth), Left::transposed(&a_t, rows)];
            let rights = [
                Right::Panels(&packed),
                Right::Panels(&from_transpose),
                Right::Panels(&filled),
                Right::Panels(&filled_from_transpose),
                Right::Rows(&in_rows, width),
            ];
            for (left, right, update) in lefts.into_iter().flat_map(|l| {
                rights.into_iter().flat_map(move |r| [Update::Replace, Update::Add].map(|i| (l, r, i)))
            }) {
                let stride = width + 16;
                each(
                    |_| Check { left, right, update, rows, depth, width, order: TargetOrder::Panels },
                    |target: Vec<T>| {
                        for (first, panel) in panels(&target, rows, width) {
                            let n = PANEL.min(width - first);
                            for (i, j) in (0..rows).flat_map(|i| (0..n).map(move |j| (i, j))) {
                                let at = i * n + j;
                                let old = if update == Update::Add {
                                    (first * rows + at) as f64 % 5.0
                                } else {
                                    0.0
                                };
                                let new = if first + j < columns { expect(i, first + j) } else { 0.0 } + old;
                                assert_eq!(panel[at].to_f64(), new, "{rows} {depth} {columns}: {i} {j}");
                            }
                        }
                    },
                );
                each(
                    |_| Check { left, right, update, rows, depth, width, order: TargetOrder::Rows(stride) },
                    |target: Vec<T>| {
                        for i in 0..rows {
                            for j in 0..stride {
                                let old = (i * stride + j) as f64 % 5.0;
                                let new = match j {
                                    _ if j >= width => old,
                                    _ if j >= columns => {
                                        if update == Update::Add {
                                            old
                                        } else {
                                            0.0
                                        }
                                    }
                                    _ => expect(i, j) + if update == Update::Add { old } else { 0.0 },
                                };
                                assert_eq!(
                                    target[i * stride + j].to_f64(),
                                    new,
                                    "{rows} {depth} {columns}: {i} {j}"
                                );
                            }
                        }
                    },
                );
            }
        }
    }

    #[test]
    fn a_part_of_a_packed_matrix_is_that_part() {
        let (rows, depth, columns) = (13, 20, 130);
        let (a, b) = (numbers::<f32>(rows * depth, 1), numbers::<f32>(depth * columns, 2));
        let mut packed = Panels::<f32>::zeros(depth, columns);
        packed.set((0, 0), &b, columns);
        for (row, column, part, width) in [(0, 0, 20, 48), (3, 48, 9, 48), (19, 96, 1, 48), (5, 48, 15, 96)] {
            let left = Left::rows(&a[row..], depth);
            let right = Right::Part(&packed, (row, column));
            let (order, update) = (TargetOrder::Rows(width), Update::Replace);
            each(
                |_| Check { left, right, update, rows, depth: part, width, order },
                |target| {
                    for (i, j) in (0..rows).flat_map(|i| (0..width).map(move |j| (i, j))) {
                        let terms = (row..row + part)
                            .map(|k| a[i * depth + k] * b.get(k * columns + column + j).map_or(0.0, |b| *b));
                        let expect = if column + j < columns { terms.sum::<f32>() } else { 0.0 };
                        assert_eq!(target[i * width + j], expect, "{row} {column}: {i} {j}");
                    }
                },
            );
        }
        let mut copied = vec![0.0; depth];
        for column in [0, 47, 48, 95, 96, 129] {
            packed.copy_column(column, &mut copied);
            assert!((0..depth).all(|k| copied[k] == b[k * columns + column]), "column {column}");
        }
    }

    #[test]
    #[should_panic(expected = "[4, 32] at 0, 48 of panels of [4, 144]")]
    fn a_part_that_cuts_a_panel_is_refused() {
        let (mut target, a, b) = ([0.0; 32], [0.0; 4], Panels::zeros(4, 144));
        super::super::simd::run(Product {
            target: &mut target,
            order: TargetOrder::Rows(32),
            update: Update::Replace,
            rows: 1,
            depth: 4,
            width: 32,
            left: Left::rows(&a, 4),
            right: Right::Part(&b, (0, 48)),
        });
    }

    struct Check<'a, T> {
        left: Left<'a, T>,
        right: Right<'a, T>,
        update: Update,
        rows: usize,
        depth: usize,
        width: usize,
        order: TargetOrder,
    }

    impl<T: Real> SimdKernel for Check<'_, T> {
        type Output = Vec<T>;
        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> Vec<T> {
            let Self { left, right, update, rows, depth, width, order } = self;
            let stride = if let TargetOrder::Rows(stride) = order { stride } else { width };
            let mut target: Vec<T> = (0..rows * stride).map(|i| T::from_f64(i as f64 % 5.0)).collect();
            isa.run(Product { target: &mut target, order, update, rows, depth, width, left, right });
            target
        }
    }

    #[test]
    fn products_match_the_definition_on_every_instruction_set() {
        products_match_the_definition::<f32>();
        products_match_the_definition::<f64>();
    }

    #[test]
    #[should_panic(expected = "[3, 16] in 40 values")]
    fn a_target_that_is_too_short_is_refused() {
        let (mut target, a, b) = ([0.0; 40], [0.0; 3], Panels::zeros(1, 16));
        let (left, right) = (Left::rows(&a, 1), Right::Panels(&b));
        super::super::simd::run(Product {
            target: &mut target,
            order: TargetOrder::Rows(16),
            update: Update::Replace,
            rows: 3,
            depth: 1,
            width: 16,
            left,
            right,
        });
    }

    #[test]
    #[should_panic(expected = "in 16 values")]
    fn sizes_that_overflow_are_refused() {
        let (mut target, a, b) = ([0.0; 16], [0.0; 3], Panels::zeros(1, 16));
        let (left, right) = (Left::rows(&a, 1), Right::Panels(&b));
        super::super::simd::run(Product {
            target: &mut target,
            order: TargetOrder::Rows(1 << 60),
            update: Update::Replace,
            rows: 17, // 16 * 2^60 wraps to 0
            depth: 1,
            width: 16,
            left,
            right,
        });
    }
}
