//! Matrix products of row-major slices, on one thread, by faer.
//!
//! Threads are put to use outside, on blocks of rows: a product on one thread always adds in the same order, so results do
//! not depend on the number of threads.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// f32 or f64.
pub trait Real:
    faer::traits::RealField
    + Copy
    + Send
    + Sync
    + Default
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::AddAssign
    + std::ops::SubAssign
    + std::ops::MulAssign
{
    /// The nearest value.
    fn of(x: f64) -> Self;
    /// As f64.
    fn wide(self) -> f64;
    /// e^x.
    fn e_to(self) -> Self;
}

impl Real for f32 {
    #[inline]
    fn of(x: f64) -> Self {
        x as f32
    }
    #[inline]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline]
    fn e_to(self) -> Self {
        self.exp()
    }
}

impl Real for f64 {
    #[inline]
    fn of(x: f64) -> Self {
        x
    }
    #[inline]
    fn wide(self) -> f64 {
        self
    }
    #[inline]
    fn e_to(self) -> Self {
        self.exp()
    }
}

/// A row-major matrix in a slice: element (i, j) at `i * stride + j`.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a, T: Real> View<'a, T> {
    /// All of a slice.
    pub fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// A matrix whose rows lie further apart than they are long.
    pub fn strided(values: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        Self { values, rows, columns, stride }
    }

    fn mat(self) -> MatRef<'a, T> {
        let end = if self.rows == 0 { 0 } else { (self.rows - 1) * self.stride + self.columns };
        MatRef::from_row_major_slice_with_stride(&self.values[..end], self.rows, self.columns, self.stride)
    }
}

/// How a product meets what its target holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Into {
    /// Replaces it.
    Replace,
    /// Is added to it.
    Add,
}

fn product<T: Real>(target: &mut [T], stride: usize, into: Into, a: MatRef<'_, T>, b: MatRef<'_, T>) {
    let (rows, columns) = (a.nrows(), b.ncols());
    if rows == 0 || columns == 0 {
        return;
    }
    let end = (rows - 1) * stride + columns;
    // The transpose of a column-major view: faer 0.24.4's own row-major one with a stride swaps its strides.
    let target = MatMut::from_column_major_slice_with_stride_mut(&mut target[..end], columns, rows, stride);
    let target = target.transpose_mut();
    let accum = match into {
        Into::Replace => Accum::Replace,
        Into::Add => Accum::Add,
    };
    matmul(target, accum, a, b, T::of(1.0), Par::Seq);
}

/// `target (+)= a b`, the target's rows `stride` apart.
pub fn times<T: Real>(target: &mut [T], stride: usize, into: Into, a: View<'_, T>, b: View<'_, T>) {
    product(target, stride, into, a.mat(), b.mat());
}

/// `target (+)= a^T b`.
pub fn transposed_times<T: Real>(
    target: &mut [T],
    stride: usize,
    into: Into,
    a: View<'_, T>,
    b: View<'_, T>,
) {
    product(target, stride, into, a.mat().transpose(), b.mat());
}

/// `target (+)= a b^T`.
pub fn times_transposed<T: Real>(
    target: &mut [T],
    stride: usize,
    into: Into,
    a: View<'_, T>,
    b: View<'_, T>,
) {
    product(target, stride, into, a.mat(), b.mat().transpose());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_definition() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // [2, 3]
        let b = [1.0, 0.0, 2.0, 1.0, 0.0, 3.0]; // [3, 2]
        let mut c = [10.0; 4];
        times(&mut c, 2, Into::Replace, View::new(&a, 2, 3), View::new(&b, 3, 2));
        assert_eq!(c, [5.0, 11.0, 14.0, 23.0]);
        times(&mut c, 2, Into::Add, View::new(&a, 2, 3), View::new(&b, 3, 2));
        assert_eq!(c, [10.0, 22.0, 28.0, 46.0]);
        let mut d = [0.0f32; 9];
        let (e, f) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0]);
        transposed_times(&mut d, 3, Into::Replace, View::new(&e, 2, 3), View::new(&f, 2, 3));
        assert_eq!(d, [5.0, 4.0, 4.0, 7.0, 5.0, 5.0, 9.0, 6.0, 6.0]);
        let mut g = [0.0f32; 4];
        times_transposed(&mut g, 2, Into::Replace, View::new(&e, 2, 3), View::new(&f, 2, 3));
        assert_eq!(g, [1.0, 6.0, 4.0, 15.0]);
        // The middle column of a wider matrix.
        let mut h = [0.0f32; 6];
        times(&mut h[1..], 3, Into::Replace, View::new(&e, 2, 3), View::strided(&f[1..], 3, 1, 2));
        assert_eq!(h, [0.0, 5.0, 0.0, 0.0, 11.0, 0.0]);
    }
}
