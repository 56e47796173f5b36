//! The exponential of a square matrix, by scaling and squaring.
//!
//! ```text
//! exp(M) = (exp(M / 2^s))^(2^s),    |M / 2^s|_1 <= 1/2,    exp of the small matrix by its Taylor series to degree 17
//! ```
//!
//! The remainder of the series is below (1/2)^18 / 18! = 6e-22, less than rounding. Every squaring doubles the relative
//! error, so that the result is accurate to about |M|_1 2^-53 times the size of its largest power along the way.
//!
//! Reference for the method and its errors: C. Moler and C. Van Loan, "Nineteen dubious ways to compute the exponential
//! of a matrix, twenty-five years later", SIAM Review 45 (2003), method 3 with Taylor's series.

use super::rows::{Matrix, Rows};
use crate::Result;
use crate::num::gemm::Update;
use crate::observe::Observer;

/// The degree of the series.
const DEGREE: u32 = 17;
/// The largest norm for which the series is used.
const SMALL: f64 = 0.5;

/// Returns exp(M) of a square matrix.
///
/// # Panics
/// If the matrix is not square.
pub(super) fn exponential(matrix: &Rows, observer: &dyn Observer) -> Result<Rows> {
    let n = matrix.len();
    assert_eq!(matrix.columns(), n, "[{n}, {}] is not square", matrix.columns());
    let norm = norm_1(matrix);
    let squarings = if norm > SMALL { (norm / SMALL).log2().ceil() as i32 } else { 0 };
    let mut small = Matrix::from_rows(matrix);
    let factor = (-f64::from(squarings)).exp2();
    small.values.iter_mut().for_each(|x| *x *= factor);
    // Horner's rule: I + M (I + M / 2 (I + M / 3 (...))).
    let (mut sum, mut product) = (identity(n), Matrix::zeros(n, n));
    for k in (1..=DEGREE).rev() {
        observer.check()?;
        product.product(0..n, Update::Replace, n, small.left(0..n), sum.right(0));
        for i in 0..n {
            let (row, from) = (sum.row_mut(i), product.row(i));
            row.iter_mut().zip(from).for_each(|(s, p)| *s = p / f64::from(k));
            row[i] += 1.0;
        }
    }
    for _ in 0..squarings {
        observer.check()?;
        product.product(0..n, Update::Replace, n, sum.left(0..n), sum.right(0));
        std::mem::swap(&mut sum, &mut product);
    }
    Ok(sum.to_rows())
}

/// The largest sum of magnitudes of a column.
pub(super) fn norm_1(matrix: &Rows) -> f64 {
    let mut sums = vec![0.0; matrix.columns()];
    for row in matrix.iter() {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x.abs());
    }
    sums.into_iter().fold(0.0, f64::max)
}

fn identity(n: usize) -> Matrix {
    let mut out = Matrix::zeros(n, n);
    (0..n).for_each(|i| out.row_mut(i)[i] = 1.0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Impatient, Silent};

    fn exp(columns: usize, values: Vec<f64>) -> Rows {
        exponential(&Rows::whole(columns, values), &Silent).unwrap()
    }

    #[test]
    fn small_matrices_have_the_exponentials_worked_out_by_hand() {
        // A rotation by 3, a shear, a diagonal matrix, and [[-1, 0], [c, -2]], whose corner is c (e^-1 - e^-2).
        for (matrix, expect) in [
            ([0.0, -3.0, 3.0, 0.0], [3f64.cos(), -(3f64.sin()), 3f64.sin(), 3f64.cos()]),
            ([0.0, 0.0, 7.0, 0.0], [1.0, 0.0, 7.0, 1.0]),
            ([-40.0, 0.0, 0.0, 2.0], [(-40f64).exp(), 0.0, 0.0, 2f64.exp()]),
            (
                [-1.0, 0.0, 5.0, -2.0],
                [(-1f64).exp(), 0.0, 5.0 * ((-1f64).exp() - (-2f64).exp()), (-2f64).exp()],
            ),
        ] {
            let found = exp(2, matrix.to_vec());
            for (a, b) in found.values().iter().zip(expect) {
                assert!((a - b).abs() < 1e-14 * b.abs().max(1.0), "{matrix:?}: {found:?}");
            }
        }
        assert_eq!(exp(1, vec![0.0]).values(), [1.0]);
    }

    /// exp(-c) sum_k L_k^(-1)(c) z^k = exp(-c / (1 - z)), and 1 / (1 - z) is the matrix of ones on and below the diagonal:
    /// generalised Laguerre polynomials, by their recurrence.
    #[test]
    fn the_triangle_of_ones_has_laguerre_polynomials() {
        for (n, c) in [(1, 1.0), (5, 0.3), (40, 2.5), (60, 8.0)] {
            let triangle = (0..n * n).map(|i| if i % n <= i / n { -c } else { 0.0 }).collect();
            let found = exp(n, triangle);
            let (mut before, mut now) = (1.0f64, -c);
            let mut expect = vec![1.0, -c];
            for k in 1..n {
                let k = k as f64;
                (before, now) = (now, ((2.0 * k - c) * now - (k - 1.0) * before) / (k + 1.0));
                expect.push(now);
            }
            for i in 0..n {
                for j in 0..n {
                    let expect = if j <= i { (-c).exp() * expect[i - j] } else { 0.0 };
                    assert!((found.at(i, j) - expect).abs() < 1e-12, "{n} {c} {i} {j}: {}", found.at(i, j));
                }
            }
        }
    }

    #[test]
    fn it_can_be_interrupted() {
        let matrix = Rows::whole(2, vec![1.0; 4]);
        assert!(exponential(&matrix, &Impatient::new(0)).is_err());
    }
}
