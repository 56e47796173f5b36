//! Dense linear systems in `f64`, solved with the factorizations of faer.
//!
//! Matrices are faer's [`Mat`]. Results are the same to the last bit for any number of threads (tested). Products and LU use
//! the threads of the current rayon pool, because faer blocks them by size alone. It blocks Householder reflections by the
//! number of threads, so QR and SVD run on one thread. faer returns with the upper halves of the vector registers in use,
//! which slows down later scalar code by an order of magnitude; [`quietly`] clears them.

mod qr;

pub use faer::{Mat, MatMut, MatRef};
pub use qr::{Qr, rank};

use faer::Par;
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::{factor, solve};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::linalg::triangular_solve::solve_unit_lower_triangular_in_place;
use faer::perm::PermRef;

/// Calls faer and then clears the upper halves of the vector registers of every thread that may have worked for it.
pub fn quietly<T>(work: impl FnOnce(Par) -> T) -> T {
    let result = work(Par::rayon(0));
    rayon::broadcast(|_| clear_upper_halves());
    // The calling thread may not belong to the pool.
    clear_upper_halves();
    result
}

fn clear_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX. No value lives in the upper halves here: the compiler keeps none in them across a call.
        unsafe { std::arch::x86_64::_mm256_zeroupper() }
    }
}

/// Views a row-major slice as a matrix with `columns` columns.
pub fn from_rows(values: &[f64], columns: usize) -> MatRef<'_, f64> {
    assert!(
        columns > 0 && values.len().is_multiple_of(columns),
        "{} values in rows of {columns}",
        values.len()
    );
    MatRef::from_row_major_slice(values, values.len() / columns, columns)
}

/// Returns the entries row by row.
pub fn to_rows(a: MatRef<'_, f64>) -> Vec<f64> {
    (0..a.nrows()).flat_map(|i| (0..a.ncols()).map(move |j| a[(i, j)])).collect()
}

/// Returns A B.
pub fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    quietly(|par| faer::linalg::matmul::matmul(&mut out, faer::Accum::Replace, a, b, 1.0, par));
    out
}

/// Replaces C by `factor` A B, or adds it to C if `add` is set. Runs on this thread alone, for callers that parallelize
/// themselves inside [`quietly`].
pub fn multiply_into(c: MatMut<'_, f64>, add: bool, factor: f64, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    let accumulate = if add { faer::Accum::Add } else { faer::Accum::Replace };
    faer::linalg::matmul::matmul(c, accumulate, a, b, factor, Par::Seq);
}

/// Replaces C by C - A B.
pub fn subtract_product(c: &mut Mat<f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    quietly(|par| faer::linalg::matmul::matmul(c, faer::Accum::Add, a, b, -1.0, par));
}

/// Returns the 1-norm: the largest column sum of absolute values.
pub fn norm_1(a: MatRef<'_, f64>) -> f64 {
    (0..a.ncols()).map(|j| (0..a.nrows()).map(|i| a[(i, j)].abs()).sum()).fold(0.0, f64::max)
}

/// The width of a panel: as wide as keeps the work between two reports at a fraction of a second. Depends on
/// the size alone, so that results do not depend on the threads.
fn panel_width(n: usize) -> usize {
    const OPERATIONS: usize = 20_000_000_000;
    if n <= 1024 { n.max(1) } else { (OPERATIONS / (2 * n * n)).clamp(64, 512) }
}

/// Factors a panel in place with partial pivoting; returns the row that each row came from.
fn factor_panel(mut panel: MatMut<'_, f64>) -> Vec<usize> {
    let (m, k) = (panel.nrows(), panel.ncols());
    let (mut forward, mut inverse) = (vec![0usize; m], vec![0usize; m]);
    quietly(|par| {
        let scratch = factor::lu_in_place_scratch::<usize, f64>(m, k, par, Default::default());
        let mut memory = MemBuffer::new(scratch);
        let stack = MemStack::new(&mut memory);
        factor::lu_in_place(panel.as_mut(), &mut forward, &mut inverse, par, stack, Default::default());
    });
    forward
}

/// Replaces value i by value `from[i]`.
fn permute<T: Copy>(values: &mut [T], from: &[usize]) {
    let moved: Vec<(usize, T)> =
        from.iter().enumerate().filter(|&(i, &j)| i != j).map(|(i, &j)| (i, values[j])).collect();
    moved.into_iter().for_each(|(i, value)| values[i] = value);
}

/// Replaces row i by row `from[i]`.
fn permute_rows(mut a: MatMut<'_, f64>, from: &[usize]) {
    let moved: Vec<(usize, usize)> = from.iter().copied().enumerate().filter(|&(i, j)| i != j).collect();
    let mut held = vec![0.0; moved.len()];
    for column in 0..a.ncols() {
        let mut column = a.as_mut().col_mut(column);
        held.iter_mut().zip(&moved).for_each(|(h, &(_, j))| *h = column[j]);
        held.iter().zip(&moved).for_each(|(&h, &(i, _))| column[i] = h);
    }
}

/// After the first `k` columns of A are factored: solves L11 U12 = A12 in place of A12, then subtracts L21 U12 from A22.
fn eliminate(a: MatMut<'_, f64>, k: usize) {
    let (left, right) = a.split_at_col_mut(k);
    let (l11, l21) = left.as_ref().split_at_row(k);
    let (mut u12, mut a22) = right.split_at_row_mut(k);
    quietly(|par| {
        solve_unit_lower_triangular_in_place(l11, u12.as_mut(), par);
        faer::linalg::matmul::matmul(a22.as_mut(), faer::Accum::Add, l21, u12.as_ref(), -1.0, par);
    });
}

/// What is told how far a factorization is, and may end it.
pub type ProgressCallback<'a, E> = &'a mut dyn FnMut(usize, usize) -> Result<(), E>;

/// The factorization P A = L U with partial pivoting.
#[derive(Debug, Clone)]
pub struct Lu {
    factors: Mat<f64>,
    forward: Vec<usize>,
    inverse: Vec<usize>,
    /// The 1-norm of the factored matrix.
    norm: f64,
}

impl Lu {
    /// Factors a square matrix in place, one panel of columns at a time. `progress` is told the number of columns done and of
    /// all columns between panels; an error that it returns ends the work.
    ///
    /// # Panics
    /// When the matrix is not square.
    pub fn of<E>(a: Mat<f64>, progress: ProgressCallback<'_, E>) -> Result<Self, E> {
        let n = a.nrows();
        Self::by_panels(a, panel_width(n), progress)
    }

    fn by_panels<E>(mut a: Mat<f64>, width: usize, progress: ProgressCallback<'_, E>) -> Result<Self, E> {
        let n = a.nrows();
        assert!(n == a.ncols(), "an LU factorization of {n} x {}", a.ncols());
        let norm = norm_1(a.as_ref());
        let mut forward: Vec<usize> = (0..n).collect();
        for first in (0..n).step_by(width) {
            progress(first, n)?;
            let last = (first + width).min(n);
            let rows = factor_panel(a.as_mut().get_mut(first.., first..last));
            permute_rows(a.as_mut().get_mut(first.., ..first), &rows);
            permute_rows(a.as_mut().get_mut(first.., last..), &rows);
            permute(&mut forward[first..], &rows);
            if last < n {
                eliminate(a.as_mut().get_mut(first.., first..), last - first);
            }
        }
        progress(n, n)?;
        let mut inverse = vec![0; n];
        forward.iter().enumerate().for_each(|(i, &from)| inverse[from] = i);
        Ok(Self { factors: a, forward, inverse, norm })
    }

    /// Returns the ratio of the smallest pivot to the largest, in absolute value: 0 if the matrix is singular to working
    /// precision.
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

    /// Estimates the 1-norm condition number (Hager 1984, Higham 1988): a lower bound, seldom below a third of the true value.
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
        // A vector of alternating signs and growing size catches matrices on which the ascent fails.
        let signed = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let mut y = Mat::from_fn(n, 1, |i, _| signed(i) * (1.0 + i as f64 / (n.max(2) - 1) as f64));
        self.solve(&mut y);
        norm = norm.max(2.0 * norm_1(y.as_ref()) / (3.0 * n as f64));
        self.norm * norm
    }
}

/// The thin decomposition A = U diag(s) V^T with singular values in decreasing order, computed on one thread.
#[derive(Debug, Clone)]
pub struct Svd {
    /// The left singular vectors, one per column.
    pub u: Mat<f64>,
    /// The singular values.
    pub s: Vec<f64>,
    /// The right singular vectors, one per column.
    pub v: Mat<f64>,
}

impl Svd {
    /// Decomposes a matrix. Returns `None` if the iteration does not converge, as for a matrix that is not finite.
    pub fn of(a: MatRef<'_, f64>) -> Option<Self> {
        let (m, n) = (a.nrows(), a.ncols());
        let size = m.min(n);
        let (mut u, mut v, mut s) = (Mat::zeros(m, size), Mat::zeros(n, size), Diag::<f64>::zeros(size));
        quietly(|_| {
            let thin = ComputeSvdVectors::Thin;
            let scratch = svd::svd_scratch::<f64>(m, n, thin, thin, Par::Seq, Default::default());
            let mut memory = MemBuffer::new(scratch);
            let stack = MemStack::new(&mut memory);
            let (u, v) = (Some(u.as_mut()), Some(v.as_mut()));
            svd::svd(a, s.as_mut(), u, v, Par::Seq, stack, Default::default())
        })
        .ok()?;
        let s = s.column_vector().iter().copied().collect();
        Some(Self { u, s, v })
    }

    /// Counts the singular values above `tolerance` times the largest.
    pub fn rank(&self, tolerance: f64) -> usize {
        let most = self.s.first().copied().unwrap_or(0.0);
        self.s.iter().filter(|&&s| s > tolerance * most).count()
    }

    /// Returns the pseudoinverse; singular values below `tolerance` times the largest count as 0.
    pub fn pseudoinverse(&self, tolerance: f64) -> Mat<f64> {
        let rank = self.rank(tolerance);
        let scaled = Mat::from_fn(self.v.nrows(), rank, |i, j| self.v[(i, j)] / self.s[j]);
        product(scaled.as_ref(), self.u.as_ref().get(.., ..rank).transpose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Entries uniform in [-1, 1), by splitmix64.
    pub(super) fn random(rows: usize, columns: usize, seed: u64) -> Mat<f64> {
        let mut state = seed.wrapping_mul(0xd129_0b26_88cc_84cf);
        Mat::from_fn(rows, columns, |_, _| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
    }

    fn lu(a: Mat<f64>, width: usize) -> Lu {
        let Ok(lu) = Lu::by_panels::<Infallible>(a, width, &mut |_, _| Ok(()));
        lu
    }

    pub(super) fn largest(a: MatRef<'_, f64>) -> f64 {
        to_rows(a).into_iter().fold(0.0, |m, x| m.max(x.abs()))
    }

    #[test]
    fn a_factored_matrix_solves_with_itself_and_its_transpose() {
        for n in [1, 2, 7, 65, 200] {
            let a = random(n, n, n as u64);
            let b = random(n, 3, 1000);
            let factored = lu(a.clone(), 1024);
            let (mut x, mut y) = (b.clone(), b.clone());
            factored.solve(&mut x);
            factored.solve_transposed(&mut y);
            let (mut r, mut s) = (b.clone(), b.clone());
            subtract_product(&mut r, a.as_ref(), x.as_ref());
            subtract_product(&mut s, a.transpose(), y.as_ref());
            assert!(largest(r.as_ref()) < 1e-10 && largest(s.as_ref()) < 1e-10, "{n}");
        }
    }

    #[test]
    fn panels_give_the_factors_of_the_whole() {
        for (n, width) in [(50, 7), (64, 64), (65, 64), (130, 16), (200, 1)] {
            let a = random(n, n, n as u64);
            let whole = lu(a.clone(), n);
            let factored = lu(a.clone(), width);
            assert_eq!(factored.forward, whole.forward, "{n} by {width}");
            let mut difference = factored.factors.clone();
            difference -= &whole.factors;
            assert!(largest(difference.as_ref()) < 1e-11, "{n} by {width}");
        }
    }

    #[test]
    fn a_factorization_stops_between_panels() {
        let mut reports = Vec::new();
        let stopped = Lu::by_panels(random(60, 60, 1), 10, &mut |done, n| {
            reports.push((done, n));
            if done < 20 { Ok(()) } else { Err("stop") }
        });
        assert_eq!(stopped.err(), Some("stop"));
        assert_eq!(reports, [(0, 60), (10, 60), (20, 60)]);
    }

    #[test]
    fn the_estimated_condition_number_matches_the_inverse() {
        let n = 40;
        let a = random(n, n, 3);
        let factored = lu(a.clone(), 1024);
        let mut inverse = Mat::identity(n, n);
        factored.solve(&mut inverse);
        let exact = norm_1(a.as_ref()) * norm_1(inverse.as_ref());
        let estimate = factored.condition();
        assert!(estimate <= exact * (1.0 + 1e-9) && estimate > exact / 3.0, "{estimate} {exact}");
        let singular = Mat::from_fn(3, 3, |i, j| (i + j) as f64);
        assert!(lu(singular, 1024).pivot_ratio() < 1e-15);
    }

    #[test]
    fn factors_do_not_depend_on_the_threads() {
        let n = 700;
        let a = random(n, n, 5);
        let work = || {
            let factored = lu(a.clone(), 256);
            let mut x = random(n, 300, 6);
            factored.solve(&mut x);
            let svd = Svd::of(a.as_ref().get(..60, ..90)).unwrap();
            let square = Svd::of(a.as_ref().get(..400, ..300)).unwrap();
            let qr = Qr::of(a.as_ref().get(.., ..500).to_owned());
            let x_of_least_norm = qr.least_norm(random(500, 30, 8).as_ref());
            let mut fit = random(500, 30, 9);
            qr.solve_r(&mut fit);
            qr.solve_r_transposed(&mut fit);
            (
                (square.s, to_rows(square.u.as_ref()), to_rows(square.v.as_ref())),
                (to_rows(qr.r().as_ref()), to_rows(x_of_least_norm.as_ref()), to_rows(fit.as_ref())),
                to_rows(factored.factors.as_ref()),
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
    fn rows_round_trip() {
        let values: Vec<f64> = (0..6).map(f64::from).collect();
        let a = from_rows(&values, 3);
        assert_eq!((a.nrows(), a[(1, 0)]), (2, 3.0));
        assert_eq!(to_rows(a), values);
    }
}
