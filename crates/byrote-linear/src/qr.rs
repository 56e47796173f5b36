//! A = Q R by Householder reflections: solutions of least norm, orthonormal bases and numerical ranks, on one thread (see
//! [`super`]).

use super::quietly;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::householder;
use faer::linalg::qr::{col_pivoting, no_pivoting};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Mat, MatRef, Par};

/// The factorization A = Q R, without pivoting, of a matrix with at least as many rows as columns.
#[derive(Debug, Clone)]
pub struct Qr {
    /// R on and above the diagonal, the reflections below it.
    factors: Mat<f64>,
    coefficients: Mat<f64>,
    /// The number of columns found to be independent before the factorization stopped.
    independent: usize,
}

impl Qr {
    /// Factors a matrix in place.
    ///
    /// # Panics
    /// When it has more columns than rows.
    pub fn of(mut a: Mat<f64>) -> Self {
        let (m, n) = (a.nrows(), a.ncols());
        assert!(m >= n, "a QR factorization of {m} x {n}");
        let block = no_pivoting::factor::recommended_block_size::<f64>(m, n);
        let mut coefficients = Mat::zeros(block, n);
        let independent = quietly(|_| {
            let scratch =
                no_pivoting::factor::qr_in_place_scratch::<f64>(m, n, block, Par::Seq, Default::default());
            let mut memory = MemBuffer::new(scratch);
            let stack = MemStack::new(&mut memory);
            no_pivoting::factor::qr_in_place(
                a.as_mut(),
                coefficients.as_mut(),
                Par::Seq,
                stack,
                Default::default(),
            )
            .rank
        });
        Self { factors: a, coefficients, independent }
    }

    /// Returns R, `[n, n]`.
    pub fn r(&self) -> Mat<f64> {
        let n = self.factors.ncols();
        Mat::from_fn(n, n, |i, j| if i <= j { self.factors[(i, j)] } else { 0.0 })
    }

    /// Returns the ratio of the smallest diagonal entry of R to the largest, in absolute value: 0 if a column depends on
    /// earlier ones to working precision.
    pub fn pivot_ratio(&self) -> f64 {
        let n = self.factors.ncols();
        if self.independent < n {
            return 0.0;
        }
        let pivots = (0..n).map(|i| self.factors[(i, i)].abs());
        let (least, most) = pivots.fold((f64::INFINITY, 0.0), |(l, m), p| (p.min(l), p.max(m)));
        if most > 0.0 && least.is_finite() { least / most } else { 0.0 }
    }

    /// Solves R X = B in place of B.
    pub fn solve_r(&self, b: &mut Mat<f64>) {
        let r = self.factors.as_ref().get(..self.factors.ncols(), ..);
        quietly(|par| solve_upper_triangular_in_place(r, b.as_mut(), par));
    }

    /// Solves R^T X = B in place of B.
    pub fn solve_r_transposed(&self, b: &mut Mat<f64>) {
        let r = self.factors.as_ref().get(..self.factors.ncols(), ..).transpose();
        quietly(|par| solve_lower_triangular_in_place(r, b.as_mut(), par));
    }

    /// Returns the x of least norm with A^T x = b, for every column of b.
    pub fn least_norm(&self, b: MatRef<'_, f64>) -> Mat<f64> {
        let n = self.factors.ncols();
        assert!(b.nrows() == n, "{} equations, {n} columns", b.nrows());
        let mut x = Mat::zeros(self.factors.nrows(), b.ncols());
        x.as_mut().get_mut(..n, ..).copy_from(b);
        let r = self.factors.as_ref().get(..n, ..).transpose();
        quietly(|_| solve_lower_triangular_in_place(r, x.as_mut().get_mut(..n, ..), Par::Seq));
        self.rotate(&mut x);
        x
    }

    /// Returns Q, `[m, n]`, whose columns are orthonormal.
    pub fn orthonormal(&self) -> Mat<f64> {
        let mut q =
            Mat::from_fn(self.factors.nrows(), self.factors.ncols(), |i, j| f64::from(u8::from(i == j)));
        self.rotate(&mut q);
        q
    }

    /// Replaces x by Q x.
    fn rotate(&self, x: &mut Mat<f64>) {
        let (m, k, block) = (self.factors.nrows(), x.ncols(), self.coefficients.nrows());
        quietly(|_| {
            let scratch = householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<f64>(
                m, block, k,
            );
            let mut memory = MemBuffer::new(scratch);
            householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
                self.factors.as_ref(),
                self.coefficients.as_ref(),
                faer::Conj::No,
                x.as_mut(),
                Par::Seq,
                MemStack::new(&mut memory),
            );
        });
    }
}

/// Returns the numerical rank by QR with column pivoting: the number of diagonal entries of R above `tolerance` times the
/// first. Columns are first scaled to length 1, so that a long one does not hide the others.
pub fn rank(a: MatRef<'_, f64>, tolerance: f64) -> usize {
    let (m, n) = (a.nrows(), a.ncols());
    let lengths: Vec<f64> = (0..n).map(|j| a.col(j).norm_l2()).collect();
    let mut a = Mat::from_fn(m, n, |i, j| if lengths[j] > 0.0 { a[(i, j)] / lengths[j] } else { 0.0 });
    let size = m.min(n);
    if size == 0 {
        return 0;
    }
    let block = col_pivoting::factor::recommended_block_size::<f64>(m, n);
    let mut coefficients = Mat::zeros(block, size);
    let (mut forward, mut inverse) = (vec![0usize; n], vec![0usize; n]);
    quietly(|_| {
        let scratch = col_pivoting::factor::qr_in_place_scratch::<usize, f64>(
            m,
            n,
            block,
            Par::Seq,
            Default::default(),
        );
        let mut memory = MemBuffer::new(scratch);
        col_pivoting::factor::qr_in_place(
            a.as_mut(),
            coefficients.as_mut(),
            &mut forward,
            &mut inverse,
            Par::Seq,
            MemStack::new(&mut memory),
            Default::default(),
        );
    });
    let first = a[(0, 0)].abs();
    (0..size).filter(|&i| first > 0.0 && a[(i, i)].abs() > tolerance * first).count()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{largest, random};
    use super::super::{product, subtract_product};
    use super::*;

    #[test]
    fn solutions_have_least_norm() {
        let a = random(30, 12, 11);
        let qr = Qr::of(a.clone());
        let q = qr.orthonormal();
        let mut eye = Mat::<f64>::identity(12, 12);
        subtract_product(&mut eye, q.transpose(), q.as_ref());
        let mut back = a.clone();
        subtract_product(&mut back, q.as_ref(), qr.r().as_ref());
        assert!(largest(eye.as_ref()) < 1e-14 && largest(back.as_ref()) < 1e-13);

        // A^T x = b with x in the range of A: no shorter x solves it.
        let b = random(12, 3, 12);
        let x = qr.least_norm(b.as_ref());
        let mut residual = b.clone();
        subtract_product(&mut residual, a.transpose(), x.as_ref());
        let mut outside = x.clone();
        let inside = product(q.transpose(), x.as_ref());
        subtract_product(&mut outside, q.as_ref(), inside.as_ref());
        assert!(largest(residual.as_ref()) < 1e-13 && largest(outside.as_ref()) < 1e-13);

        let (mut up, mut down) = (b.clone(), b.clone());
        qr.solve_r(&mut up);
        qr.solve_r_transposed(&mut down);
        let (mut above, mut below) = (b.clone(), b.clone());
        subtract_product(&mut above, qr.r().as_ref(), up.as_ref());
        subtract_product(&mut below, qr.r().transpose(), down.as_ref());
        assert!(largest(above.as_ref()) < 1e-13 && largest(below.as_ref()) < 1e-13);
    }

    #[test]
    fn dependent_columns_show_in_the_pivots_and_in_the_rank() {
        let full = random(20, 8, 14);
        assert!(Qr::of(full.clone()).pivot_ratio() > 1e-3);
        assert_eq!(rank(full.as_ref(), 1e-12), 8);
        // The last column is the sum of two others; then five columns of rank 3 and of very different lengths.
        let twice =
            Mat::from_fn(20, 8, |i, j| if j == 7 { full[(i, 0)] + full[(i, 3)] } else { full[(i, j)] });
        assert!(Qr::of(twice.clone()).pivot_ratio() < 1e-14);
        assert_eq!((rank(twice.as_ref(), 1e-12), rank(twice.transpose(), 1e-12)), (7, 7));
        let low = product(random(6, 3, 1).as_ref(), random(3, 5, 2).as_ref());
        let uneven = Mat::from_fn(6, 5, |i, j| low[(i, j)] * 10f64.powi(5 * j as i32));
        assert_eq!(rank(uneven.as_ref(), 1e-12), 3);
        assert_eq!(rank(Mat::<f64>::zeros(4, 3).as_ref(), 1e-12), 0);
        assert_eq!(Qr::of(Mat::zeros(4, 3)).pivot_ratio(), 0.0);
    }
}
