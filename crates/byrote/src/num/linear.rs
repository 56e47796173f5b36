//! Dense linear systems in f64: factorisations of faer, behind calls that leave the machine as they found it.
//!
//! Matrices are faer's own [`Mat`]. Every call here uses the threads of the rayon pool it runs in; the factors and the
//! solutions are the same to the last bit for any number of threads (tested), because faer's blocking depends on the sizes
//! alone. faer returns with the upper halves of the vector registers in use, which slows down scalar code after it by an
//! order of magnitude; [`quietly`] puts that right.

pub use faer::{Mat, MatMut, MatRef};

use super::simd;
use faer::Par;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::householder;
use faer::linalg::lu::partial_pivoting::{factor, solve};
use faer::linalg::qr::{col_pivoting, no_pivoting};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::perm::PermRef;

/// Calls faer and clears the upper halves of the vector registers of every thread that may have worked for it.
pub fn quietly<T>(work: impl FnOnce(Par) -> T) -> T {
    let result = work(Par::rayon(0));
    rayon::broadcast(|_| simd::run(Rest));
    // The caller need not be a thread of the pool.
    simd::run(Rest);
    result
}

/// Does nothing: a function compiled for AVX clears the upper halves when it returns.
struct Rest;

impl simd::Kernel for Rest {
    type Output = ();

    #[inline(always)]
    fn call<I: simd::Isa>(self, isa: I) {
        let sum: f64 = super::rows::dot(isa, &std::hint::black_box([1.0; 16]), &[1.0; 16]);
        std::hint::black_box(sum);
    }
}

/// A row-major slice as a matrix of `columns` columns.
pub fn rows(values: &[f64], columns: usize) -> MatRef<'_, f64> {
    assert!(columns > 0 && values.len() % columns == 0, "{} values in rows of {columns}", values.len());
    MatRef::from_row_major_slice(values, values.len() / columns, columns)
}

/// The entries row by row.
pub fn to_rows(a: MatRef<'_, f64>) -> Vec<f64> {
    (0..a.nrows()).flat_map(|i| (0..a.ncols()).map(move |j| a[(i, j)])).collect()
}

/// A B.
pub fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    quietly(|par| faer::linalg::matmul::matmul(&mut out, faer::Accum::Replace, a, b, 1.0, par));
    out
}

/// `factor` A B in place of C, or added to it where `add` says so: on this thread alone, for work that is spread over threads
/// by its caller, inside [`quietly`].
pub fn multiply_into(c: MatMut<'_, f64>, add: bool, factor: f64, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    let accumulate = if add { faer::Accum::Add } else { faer::Accum::Replace };
    faer::linalg::matmul::matmul(c, accumulate, a, b, factor, Par::Seq);
}

/// C - A B, in place of C.
pub fn subtract_product(c: &mut Mat<f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    quietly(|par| faer::linalg::matmul::matmul(c, faer::Accum::Add, a, b, -1.0, par));
}

/// The largest sum of absolute values of a column.
pub fn norm_1(a: MatRef<'_, f64>) -> f64 {
    (0..a.ncols()).map(|j| (0..a.nrows()).map(|i| a[(i, j)].abs()).sum()).fold(0.0, f64::max)
}

/// P A = L U with partial pivoting.
#[derive(Debug, Clone)]
pub struct Lu {
    factors: Mat<f64>,
    forward: Vec<usize>,
    inverse: Vec<usize>,
    /// The 1-norm of the matrix that was factored.
    norm: f64,
}

impl Lu {
    /// Factors a square matrix in place.
    ///
    /// # Panics
    /// When it is not square.
    pub fn of(mut a: Mat<f64>) -> Self {
        let n = a.nrows();
        assert!(n == a.ncols(), "an LU factorisation of {n} x {}", a.ncols());
        let norm = norm_1(a.as_ref());
        let (mut forward, mut inverse) = (vec![0usize; n], vec![0usize; n]);
        quietly(|par| {
            let scratch = factor::lu_in_place_scratch::<usize, f64>(n, n, par, Default::default());
            let mut memory = MemBuffer::new(scratch);
            factor::lu_in_place(
                a.as_mut(),
                &mut forward,
                &mut inverse,
                par,
                MemStack::new(&mut memory),
                Default::default(),
            );
        });
        Self { factors: a, forward, inverse, norm }
    }

    /// The smallest pivot by the largest, in absolute value: 0 where the matrix is singular to working precision.
    pub fn pivot_ratio(&self) -> f64 {
        let pivots = (0..self.factors.nrows()).map(|i| self.factors[(i, i)].abs());
        let (least, most) = pivots.fold((f64::INFINITY, 0.0), |(l, m), p| (p.min(l), p.max(m)));
        if most > 0.0 && least.is_finite() { least / most } else { 0.0 }
    }

    /// Solves A X = B in place of B.
    pub fn solve(&self, b: &mut Mat<f64>) {
        let n = self.factors.nrows();
        let k = b.ncols();
        let permutation = PermRef::new_checked(&self.forward, &self.inverse, n);
        let factors = self.factors.as_ref();
        quietly(|par| {
            let mut memory = MemBuffer::new(solve::solve_in_place_scratch::<usize, f64>(n, k, par));
            let stack = MemStack::new(&mut memory);
            solve::solve_in_place(factors, factors, permutation, b.as_mut(), par, stack);
        });
    }

    /// Solves A^T X = B in place of B.
    pub fn solve_transposed(&self, b: &mut Mat<f64>) {
        let n = self.factors.nrows();
        let k = b.ncols();
        let permutation = PermRef::new_checked(&self.forward, &self.inverse, n);
        let factors = self.factors.as_ref();
        quietly(|par| {
            let scratch = solve::solve_transpose_in_place_scratch::<usize, f64>(n, k, par);
            let mut memory = MemBuffer::new(scratch);
            let stack = MemStack::new(&mut memory);
            solve::solve_transpose_in_place(factors, factors, permutation, b.as_mut(), par, stack);
        });
    }

    /// An estimate of the 1-norm condition number (Hager 1984, Higham 1988): a lower bound that is seldom below a third.
    pub fn condition(&self) -> f64 {
        let n = self.factors.nrows();
        if n == 0 {
            return 1.0;
        }
        let mut x = Mat::from_fn(n, 1, |_, _| 1.0 / n as f64);
        let mut norm = 0.0f64;
        let mut last = None;
        for _ in 0..5 {
            let mut y = x.clone();
            self.solve(&mut y);
            norm = norm.max(norm_1(y.as_ref()));
            if !norm.is_finite() {
                return f64::INFINITY;
            }
            let mut z = Mat::from_fn(n, 1, |i, _| if y[(i, 0)] < 0.0 { -1.0 } else { 1.0 });
            self.solve_transposed(&mut z);
            let steepest = (0..n).fold(0, |m, i| if z[(i, 0)].abs() > z[(m, 0)].abs() { i } else { m });
            if last == Some(steepest) {
                break;
            }
            last = Some(steepest);
            x = Mat::from_fn(n, 1, |i, _| f64::from(u8::from(i == steepest)));
        }
        // A vector of alternating signs and growing size catches what the ascent misses.
        let signed = |i: usize| if i % 2 == 0 { 1.0 } else { -1.0 };
        let mut y = Mat::from_fn(n, 1, |i, _| signed(i) * (1.0 + i as f64 / (n.max(2) - 1) as f64));
        self.solve(&mut y);
        norm = norm.max(2.0 * norm_1(y.as_ref()) / (3.0 * n as f64));
        self.norm * norm
    }
}

/// A = Q R of a matrix with at least as many rows as columns, without pivoting; on one thread, because faer's reflections are
/// blocked by the number of threads and would round differently.
#[derive(Debug, Clone)]
pub struct Qr {
    /// R on and above the diagonal, the reflections below it.
    factors: Mat<f64>,
    coefficients: Mat<f64>,
    /// Columns that were found independent before the factorisation gave up.
    independent: usize,
}

impl Qr {
    /// Factors a matrix in place.
    ///
    /// # Panics
    /// When it has more columns than rows.
    pub fn of(mut a: Mat<f64>) -> Self {
        let (m, n) = (a.nrows(), a.ncols());
        assert!(m >= n, "a QR factorisation of {m} x {n}");
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

    /// R, `[n, n]`.
    pub fn r(&self) -> Mat<f64> {
        let n = self.factors.ncols();
        Mat::from_fn(n, n, |i, j| if i <= j { self.factors[(i, j)] } else { 0.0 })
    }

    /// The smallest entry on the diagonal of R by the largest, in absolute value: 0 where a column depends on those before
    /// it to working precision.
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

    /// The x of least norm with A^T x = b, for every column of b.
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

    /// The x that minimises |A x - b|, for every column of b.
    pub fn least_squares(&self, mut b: Mat<f64>) -> Mat<f64> {
        let (m, n) = (self.factors.nrows(), self.factors.ncols());
        assert!(b.nrows() == m, "{} equations, {m} rows", b.nrows());
        let (k, block) = (b.ncols(), self.coefficients.nrows());
        let r = self.factors.as_ref().get(..n, ..);
        quietly(|_| {
            let scratch =
                householder::apply_block_householder_sequence_transpose_on_the_left_in_place_scratch::<f64>(
                    m, block, k,
                );
            let mut memory = MemBuffer::new(scratch);
            householder::apply_block_householder_sequence_transpose_on_the_left_in_place_with_conj(
                self.factors.as_ref(),
                self.coefficients.as_ref(),
                faer::Conj::No,
                b.as_mut(),
                Par::Seq,
                MemStack::new(&mut memory),
            );
            solve_upper_triangular_in_place(r, b.as_mut().get_mut(..n, ..), Par::Seq);
        });
        b.as_ref().get(..n, ..).to_owned()
    }

    /// Q, `[m, n]`: columns of length 1, at right angles to each other.
    pub fn orthonormal(&self) -> Mat<f64> {
        let mut q =
            Mat::from_fn(self.factors.nrows(), self.factors.ncols(), |i, j| f64::from(u8::from(i == j)));
        self.rotate(&mut q);
        q
    }

    /// Q x in place of x.
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

/// The numerical rank, by QR with column pivoting: how many entries on the diagonal of R are above `tolerance` times the
/// first. Columns are scaled to length 1 beforehand, so that a long one does not hide the others.
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

/// A = U diag(s) V^T, thin, the singular values in decreasing order.
#[derive(Debug, Clone)]
pub struct Svd {
    /// Left singular vectors, a column each.
    pub u: Mat<f64>,
    /// Singular values.
    pub s: Vec<f64>,
    /// Right singular vectors, a column each.
    pub v: Mat<f64>,
}

impl Svd {
    /// The decomposition; `None` where the iteration does not converge (a matrix that is not finite).
    pub fn of(a: MatRef<'_, f64>) -> Option<Self> {
        let decomposition = quietly(|_| a.thin_svd()).ok()?;
        let s = decomposition.S().column_vector();
        Some(Self {
            u: decomposition.U().to_owned(),
            s: (0..s.nrows()).map(|i| s[i]).collect(),
            v: decomposition.V().to_owned(),
        })
    }

    /// How many singular values are above `tolerance` times the largest.
    pub fn rank(&self, tolerance: f64) -> usize {
        let most = self.s.first().copied().unwrap_or(0.0);
        self.s.iter().filter(|&&s| s > tolerance * most).count()
    }

    /// The pseudoinverse, with singular values below `tolerance` times the largest taken as 0.
    pub fn pseudoinverse(&self, tolerance: f64) -> Mat<f64> {
        let rank = self.rank(tolerance);
        let scaled = Mat::from_fn(self.v.nrows(), rank, |i, j| self.v[(i, j)] / self.s[j]);
        product(scaled.as_ref(), self.u.as_ref().get(.., ..rank).transpose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Stream;

    fn random(rows: usize, columns: usize, index: u64) -> Mat<f64> {
        let mut stream = Stream::new(7, "linear", index);
        Mat::from_fn(rows, columns, |_, _| stream.normal())
    }

    fn largest(a: MatRef<'_, f64>) -> f64 {
        to_rows(a).into_iter().fold(0.0, |m, x| m.max(x.abs()))
    }

    #[test]
    fn a_factored_matrix_solves_both_ways() {
        for n in [1, 2, 7, 65, 200] {
            let a = random(n, n, n as u64);
            let b = random(n, 3, 1000);
            let lu = Lu::of(a.clone());
            let (mut x, mut y) = (b.clone(), b.clone());
            lu.solve(&mut x);
            lu.solve_transposed(&mut y);
            let (mut r, mut s) = (b.clone(), b.clone());
            subtract_product(&mut r, a.as_ref(), x.as_ref());
            subtract_product(&mut s, a.transpose(), y.as_ref());
            assert!(largest(r.as_ref()) < 1e-10 && largest(s.as_ref()) < 1e-10, "{n}");
        }
    }

    #[test]
    fn the_condition_number_is_that_of_the_inverse() {
        let n = 40;
        let a = random(n, n, 3);
        let lu = Lu::of(a.clone());
        let mut inverse = Mat::identity(n, n);
        lu.solve(&mut inverse);
        let exact = norm_1(a.as_ref()) * norm_1(inverse.as_ref());
        let estimate = lu.condition();
        assert!(estimate <= exact * (1.0 + 1e-9) && estimate > exact / 3.0, "{estimate} {exact}");
        assert!(Lu::of(Mat::from_fn(3, 3, |i, j| (i + j) as f64)).pivot_ratio() < 1e-15);
    }

    #[test]
    fn least_norm_and_least_squares_are_what_they_say() {
        let a = random(30, 12, 11);
        let qr = Qr::of(a.clone());
        let q = qr.orthonormal();
        let mut eye = Mat::<f64>::identity(12, 12);
        subtract_product(&mut eye, q.transpose(), q.as_ref());
        let mut back = a.clone();
        subtract_product(&mut back, q.as_ref(), qr.r().as_ref());
        assert!(largest(eye.as_ref()) < 1e-14 && largest(back.as_ref()) < 1e-13);

        // A^T x = b, and x in the range of A: nothing shorter solves it.
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

        // The residual of least squares is at right angles to the columns.
        let c = random(30, 3, 13);
        let y = qr.least_squares(c.clone());
        let mut residual = c.clone();
        subtract_product(&mut residual, a.as_ref(), y.as_ref());
        assert!(largest(product(a.transpose(), residual.as_ref()).as_ref()) < 1e-12);
        assert!(largest(residual.as_ref()) > 0.1);
    }

    #[test]
    fn dependent_columns_show_in_the_pivots_and_in_the_rank() {
        let full = random(20, 8, 14);
        assert!(Qr::of(full.clone()).pivot_ratio() > 1e-3);
        assert_eq!(rank(full.as_ref(), 1e-12), 8);
        // The last column is the sum of two others; then five columns of rank 3, whatever their lengths.
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

    #[test]
    fn factors_do_not_depend_on_the_threads() {
        let n = 700;
        let a = random(n, n, 5);
        let work = || {
            let lu = Lu::of(a.clone());
            let mut x = random(n, 300, 6);
            lu.solve(&mut x);
            let svd = Svd::of(a.as_ref().get(..60, ..90)).unwrap();
            let qr = Qr::of(a.as_ref().get(.., ..500).to_owned());
            let x_of_least_norm = qr.least_norm(random(500, 30, 8).as_ref());
            let mut fit = qr.least_squares(random(n, 30, 9));
            qr.solve_r(&mut fit);
            qr.solve_r_transposed(&mut fit);
            (
                (to_rows(qr.r().as_ref()), to_rows(x_of_least_norm.as_ref()), to_rows(fit.as_ref())),
                to_rows(lu.factors.as_ref()),
                to_rows(x.as_ref()),
                svd.s,
                to_rows(product(a.as_ref(), a.as_ref()).as_ref()),
            )
        };
        let run =
            |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
        let one = run(1);
        assert!(one == run(2) && one == run(3));
    }

    #[test]
    fn a_pseudoinverse_inverts_on_the_range() {
        // Rank 3 of 6 x 5.
        let a = product(random(6, 3, 1).as_ref(), random(3, 5, 2).as_ref());
        let svd = Svd::of(a.as_ref()).unwrap();
        assert_eq!(svd.rank(1e-12), 3);
        let p = svd.pseudoinverse(1e-12);
        let mut r = a.clone();
        subtract_product(&mut r, a.as_ref(), product(p.as_ref(), a.as_ref()).as_ref());
        assert!(largest(r.as_ref()) < 1e-13);
    }

    #[test]
    fn rows_and_back() {
        let values: Vec<f64> = (0..6).map(f64::from).collect();
        let a = rows(&values, 3);
        assert_eq!((a.nrows(), a[(1, 0)]), (2, 3.0));
        assert_eq!(to_rows(a), values);
    }
}
