//! Row-major matrices: as callers see them ([`Rows`]), and as products need them ([`Matrix`], rows of whole lines).

use crate::num::aligned::{AlignedVec, padded};
use crate::num::gemm::{Left, Product, Right, TargetOrder, Update};
use crate::num::simd;
use crate::{Error, Result};
use std::ops::Range;

/// A row-major matrix.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    columns: usize,
    values: Vec<f64>,
}

impl Rows {
    /// Creates a matrix from its values.
    ///
    /// # Errors
    /// If the values do not form whole rows.
    pub fn new(columns: usize, values: Vec<f64>) -> Result<Self> {
        if columns == 0 || !values.len().is_multiple_of(columns) {
            let message = format!("{} values do not form rows of {columns}", values.len());
            return Err(Error::setting("columns", message));
        }
        Ok(Self { columns, values })
    }

    /// Like [`new`](Self::new), for values that are known to form whole rows.
    ///
    /// # Panics
    /// If `columns` is 0 or the length of `values` is not a multiple of `columns`.
    pub(crate) fn whole(columns: usize, values: Vec<f64>) -> Self {
        assert!(
            columns > 0 && values.len().is_multiple_of(columns),
            "{} values in rows of {columns}",
            values.len()
        );
        Self { columns, values }
    }

    /// Creates a matrix of zeros.
    ///
    /// # Panics
    /// If there are no columns.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self::whole(columns, vec![0.0; rows * columns])
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns a row, counted from 0.
    ///
    /// # Panics
    /// If there is no such row, as a slice does.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.columns..][..self.columns]
    }

    /// Returns all rows in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f64> {
        self.values.chunks_exact(self.columns.max(1))
    }

    /// Returns the values, row by row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the values, mutably.
    pub fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// Returns one element.
    ///
    /// # Panics
    /// If there is no such element, as a slice does.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.columns + j]
    }

    /// Returns one element, mutably.
    ///
    /// # Panics
    /// If there is no such element, as a slice does.
    pub fn at_mut(&mut self, i: usize, j: usize) -> &mut f64 {
        &mut self.values[i * self.columns + j]
    }

    /// Returns the largest difference between corresponding elements; infinite if one is not a number.
    ///
    /// # Panics
    /// When the matrices have different shapes.
    pub fn max_difference(&self, other: &Self) -> f64 {
        assert_eq!((self.columns, self.values.len()), (other.columns, other.values.len()), "shapes");
        let worst = |worst: f64, d: f64| if d <= worst { worst } else { d };
        let most = self.values.iter().zip(&other.values).map(|(a, b)| (a - b).abs()).fold(0.0, worst);
        if most.is_nan() { f64::INFINITY } else { most }
    }
}

/// A matrix whose rows are padded with zeros to whole lines.
pub(super) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub stride: usize,
    pub values: AlignedVec<f64>,
}

impl Matrix {
    pub fn zeros(rows: usize, columns: usize) -> Self {
        let stride = padded(columns);
        Self { rows, columns, stride, values: AlignedVec::zeros(rows * stride) }
    }

    pub fn from_rows(rows: &Rows) -> Self {
        let mut out = Self::zeros(rows.len(), rows.columns());
        for (i, row) in rows.iter().enumerate() {
            out.row_mut(i).copy_from_slice(row);
        }
        out
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.stride..][..self.columns]
    }

    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.values[i * self.stride..][..self.columns]
    }

    /// A row with its padding.
    pub fn line_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.values[i * self.stride..][..self.stride]
    }

    pub fn to_rows(&self) -> Rows {
        Rows::whole(self.columns, (0..self.rows).flat_map(|i| self.row(i).iter().copied()).collect())
    }

    /// The rows of a range, as a left operand.
    pub fn left(&self, rows: Range<usize>) -> Left<'_, f64> {
        Left::rows(&self.values[rows.start * self.stride..], self.stride)
    }

    /// The rows of a range transposed, as a left operand.
    pub fn left_transposed(&self, rows: Range<usize>) -> Left<'_, f64> {
        Left::transposed(&self.values[rows.start * self.stride..], self.stride)
    }

    /// The rows from `first` on, as a right operand.
    pub fn right(&self, first: usize) -> Right<'_, f64> {
        Right::Rows(&self.values[(first * self.stride).min(self.values.len())..], self.stride)
    }

    /// Sets the rows of a range to a product of this depth, or adds the product to them.
    pub fn product(
        &mut self,
        rows: Range<usize>,
        update: Update,
        depth: usize,
        left: Left<'_, f64>,
        right: Right<'_, f64>,
    ) {
        let (stride, first) = (self.stride, rows.start * self.stride);
        simd::run(Product {
            target: &mut self.values[first..],
            order: TargetOrder::Rows(stride),
            update,
            rows: rows.len(),
            depth,
            width: stride,
            left,
            right,
        });
    }
}

/// The transpose of a matrix, with rows far enough apart that they do not all map to the same cache sets.
pub(super) struct Transposed {
    pub apart: usize,
    pub depth: usize,
    values: AlignedVec<f64>,
}

impl Transposed {
    pub fn new(matrix: &Matrix) -> Self {
        let apart = crate::num::aligned::spread_stride(matrix.rows);
        let mut out =
            Self { apart, depth: matrix.columns, values: AlignedVec::zeros(matrix.columns * apart) };
        out.fill(matrix, 0);
        out
    }

    /// Takes [`Self::depth`] columns from `first` on of a matrix with as many rows.
    pub fn fill(&mut self, matrix: &Matrix, first: usize) {
        // A few rows at a time, so that the written part stays in the cache.
        for from in (0..matrix.rows).step_by(16) {
            for j in 0..self.depth {
                let to = (from + 16).min(matrix.rows);
                let target = &mut self.values[j * self.apart..][from..to];
                for (x, i) in target.iter_mut().zip(from..) {
                    *x = matrix.values[i * matrix.stride + first + j];
                }
            }
        }
    }

    /// The columns from `first` on, as a right operand.
    pub fn right(&self, first: usize) -> Right<'_, f64> {
        Right::Rows(&self.values[first..], self.apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_padded_matrices_are_products() {
        let a = Rows::whole(2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = Rows::whole(3, vec![1.0, 0.0, -1.0, 2.0, 1.0, 0.0]);
        let (left, right) = (Matrix::from_rows(&a), Matrix::from_rows(&b));
        let mut c = Matrix::zeros(3, 3);
        c.product(0..3, Update::Replace, 2, left.left(0..3), right.right(0));
        assert_eq!(c.to_rows().values(), [5.0, 2.0, -1.0, 11.0, 4.0, -3.0, 17.0, 6.0, -5.0]);
        // A A^T through the transpose.
        let transposed = Transposed::new(&left);
        c.product(0..3, Update::Replace, 2, left.left(0..3), transposed.right(0));
        assert_eq!(c.to_rows().values(), [5.0, 11.0, 17.0, 11.0, 25.0, 39.0, 17.0, 39.0, 61.0]);
        assert_eq!(c.to_rows().max_difference(&Rows::zeros(3, 3)), 61.0);
        let nan = Rows::whole(3, vec![f64::NAN; 9]);
        assert_eq!(c.to_rows().max_difference(&nan), f64::INFINITY);
    }

    #[test]
    fn values_that_are_not_whole_rows_are_refused() {
        assert_eq!(Rows::new(2, vec![1.0; 4]).unwrap().len(), 2);
        assert!(Rows::new(2, Vec::new()).unwrap().is_empty());
        for columns in [0, 2] {
            let error = Rows::new(columns, vec![1.0; 3]).unwrap_err().to_string();
            assert!(error.contains(&format!("3 values do not form rows of {columns}")), "{error}");
        }
    }
}
