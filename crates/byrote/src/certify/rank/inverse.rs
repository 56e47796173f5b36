//! A verified inverse in f64: a proof that a matrix given to within known errors is regular.
//!
//! Let |A* - A| <= rho |A| + r in every entry, and R any matrix, say an approximate inverse. If the largest row sum of
//!
//! ```text
//! |I - R A| + (rho |R| |A| + r |R| E)            (E all ones)
//! ```
//!
//! is below 1, so is that of |I - R A*|, and A* is regular. In floating point with unit u = 2^-53 and gamma_k = k u / (1 - k u),
//! the computed product R A is off by at most gamma_n |R| |A| in every entry, in whatever order it is summed, fused or not
//! (Higham, "Accuracy and stability of numerical algorithms", 2002, section 3.5), and a computed sum of k numbers that are not
//! negative is below the true one by at most gamma_k of it. Each product that underflows is off by less than 2^-1074, which the
//! last term covers.

use crate::Result;
use crate::num::linear::{Mat, MatRef, factor, product};
use crate::observe::Observer;

/// gamma_k.
fn gamma(k: usize) -> f64 {
    let ku = k as f64 * (f64::EPSILON / 2.0);
    ku / (1.0 - ku)
}

/// The bound on |I - R A*|; below 1 it proves that every matrix within `relative` |A| + `absolute` of A is regular. Infinite or
/// NaN if no inverse was found.
pub fn regularity(a: MatRef<'_, f64>, relative: f64, absolute: f64, observer: &dyn Observer) -> Result<f64> {
    let n = a.nrows();
    assert_eq!(n, a.ncols(), "a square matrix");
    // Rows of one size: a row's scale changes neither regularity nor, by a power of two, any relative error.
    let scale: Vec<f64> = (0..n)
        .map(|i| {
            let largest = (0..n).map(|j| a[(i, j)].abs()).fold(0.0, f64::max);
            if largest > 0.0 && largest.is_finite() {
                2f64.powi(-(largest.log2().floor() as i32))
            } else {
                1.0
            }
        })
        .collect();
    let scaled = Mat::from_fn(n, n, |i, j| scale[i] * a[(i, j)]);
    let lu = factor(scaled.clone(), observer)?;
    if lu.pivot_ratio() == 0.0 {
        return Ok(f64::INFINITY);
    }
    let mut r = Mat::identity(n, n);
    lu.solve(&mut r);
    let residual = product(r.as_ref(), scaled.as_ref());
    // |A| 1 and the absolute radius, row by row.
    let sizes: Vec<f64> = (0..n).map(|i| (0..n).map(|j| scaled[(i, j)].abs()).sum()).collect();
    let up = 1.0 + gamma(2 * n + 8);
    let mut most = 0f64;
    for i in 0..n {
        let mut defect = 0.0;
        let (mut by_size, mut by_radius) = (0.0, 0.0);
        for j in 0..n {
            defect += (f64::from(u8::from(i == j)) - residual[(i, j)]).abs();
            by_size += r[(i, j)].abs() * sizes[j];
            by_radius += r[(i, j)].abs() * scale[j];
        }
        let beta = up * defect
            + up * up * (gamma(n + 3) + relative) * by_size
            + up * absolute * n as f64 * by_radius
            + n as f64 * f64::EPSILON
            + n as f64 * 1e-300;
        // NaN proves nothing.
        most = if beta.is_nan() || most.is_nan() { f64::NAN } else { most.max(beta) };
    }
    Ok(most * (1.0 + 1e-10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Stream;
    use crate::observe::Silent;

    fn random(n: usize) -> Mat<f64> {
        let mut stream = Stream::new(2, "verified", n as u64);
        Mat::from_fn(n, n, |_, _| stream.normal())
    }

    #[test]
    fn a_random_matrix_is_proven_regular() {
        for n in [1, 5, 60, 200] {
            let beta = regularity(random(n).as_ref(), 1e-15, 1e-12, &Silent).unwrap();
            assert!(beta < 1e-6, "{n}: {beta}");
        }
    }

    #[test]
    fn a_singular_matrix_never_is() {
        // Rank one less: the last row is the sum of the others, as near as f64 has it.
        for n in [2, 5, 60] {
            let mut a = random(n);
            for j in 0..n {
                a[(n - 1, j)] = (0..n - 1).map(|i| a[(i, j)]).sum();
            }
            let beta = regularity(a.as_ref(), f64::EPSILON, 0.0, &Silent).unwrap();
            assert!(beta.is_nan() || beta >= 1.0, "{n}: {beta}");
        }
        assert!(regularity(Mat::zeros(3, 3).as_ref(), 0.0, 0.0, &Silent).unwrap() >= 1.0);
    }

    #[test]
    fn a_radius_that_reaches_a_singular_matrix_is_not_proven() {
        // diag(1, 2^-20) is regular, and singular when its last entry may move by 2^-20.
        let a = Mat::from_fn(2, 2, |i, j| f64::from(u8::from(i == j)) * [1.0, 2f64.powi(-20)][i]);
        assert!(regularity(a.as_ref(), 0.0, 2f64.powi(-22), &Silent).unwrap() < 1.0);
        assert!(regularity(a.as_ref(), 0.0, 2f64.powi(-20), &Silent).unwrap() >= 1.0);
        assert!(
            regularity(a.as_ref(), 0.4, 0.0, &Silent).unwrap() < 1.0
                && regularity(a.as_ref(), 1.0, 0.0, &Silent).unwrap() >= 1.0
        );
    }

    #[test]
    fn scaled_rows_change_nothing() {
        let n = 30;
        let a = random(n);
        let wild = Mat::from_fn(n, n, |i, j| a[(i, j)] * 2f64.powi((i as i32 * 37) % 200 - 100));
        let (one, other) = (
            regularity(a.as_ref(), 1e-15, 0.0, &Silent).unwrap(),
            regularity(wild.as_ref(), 1e-15, 0.0, &Silent).unwrap(),
        );
        assert!(one < 1e-6 && (one - other).abs() <= 1e-9 * one, "{one} {other}");
    }
}
