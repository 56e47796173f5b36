//! Least squares with a few columns: Householder QR of columns that are scaled to length 1.
//!
//! The systems here have at most four columns and some dozens of rows, and intervals solve thousands of them concurrently on
//! all threads. faer's factorizations (`num::linear`) are made for the opposite case and wake every thread at each call.

use super::law::MOST_PARAMETERS;

/// The least diagonal entry of R, for columns of length 1, that counts as independent of those before it.
const INDEPENDENT: f64 = 1e-12;

/// Minimises |A x - b|^2. `a` holds columns of `b.len()` numbers one after the other; both are overwritten.
///
/// `None` when the columns are not finite or depend on each other.
pub(super) fn least_squares(a: &mut [f64], b: &mut [f64]) -> Option<[f64; MOST_PARAMETERS]> {
    let (r, k) = triangle(a, b)?;
    let mut x = [0.0; MOST_PARAMETERS];
    for i in (0..k).rev() {
        let known: f64 = (i + 1..k).map(|j| r[i][j] * x[j]).sum();
        x[i] = (b[i] - known) / r[i][i];
    }
    x[..k].iter().all(|v| v.is_finite()).then_some(x)
}

/// The diagonal of (A^T A)^-1; `a` as in [`least_squares`], of `n` rows.
pub(super) fn inverse_diagonal(a: &mut [f64], n: usize) -> Option<Vec<f64>> {
    let mut none = vec![0.0; n];
    let (r, k) = triangle(a, &mut none)?;
    // (A^T A)^-1 = R^-1 R^-T: squared lengths of the rows of R^-1, which is computed one column at a time.
    let mut squares = vec![0.0; k];
    for column in 0..k {
        let mut v = [0.0; MOST_PARAMETERS];
        for i in (0..=column).rev() {
            let known: f64 = (i + 1..=column).map(|j| r[i][j] * v[j]).sum();
            v[i] = (f64::from(u8::from(i == column)) - known) / r[i][i];
        }
        squares.iter_mut().zip(v).for_each(|(sum, v)| *sum += v * v);
    }
    Some(squares)
}

type Triangle = [[f64; MOST_PARAMETERS]; MOST_PARAMETERS];

/// R of A = Q R (for the columns as given), with Q^T applied to `b`.
fn triangle(a: &mut [f64], b: &mut [f64]) -> Option<(Triangle, usize)> {
    let n = b.len();
    let k = a.len() / n.max(1);
    if k > n || k > MOST_PARAMETERS {
        return None;
    }
    let mut r = [[0.0; MOST_PARAMETERS]; MOST_PARAMETERS];
    let mut norms = [0.0; MOST_PARAMETERS];
    for (column, norm) in a.chunks_exact_mut(n).zip(&mut norms) {
        // Twice, so that squares neither overflow nor vanish.
        let most = column.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        if !(most > 0.0 && most.is_finite()) {
            return None;
        }
        let length = most * column.iter().map(|v| (v / most) * (v / most)).sum::<f64>().sqrt();
        column.iter_mut().for_each(|v| *v /= length);
        *norm = length;
    }
    for j in 0..k {
        let (done, rest) = a.split_at_mut((j + 1) * n);
        let v = &mut done[j * n..];
        let tail = v[j..].iter().map(|x| x * x).sum::<f64>().sqrt();
        if tail.is_nan() || tail <= INDEPENDENT {
            return None;
        }
        let diagonal = if v[j] > 0.0 { -tail } else { tail };
        v[j] -= diagonal;
        // |v|^2 = 2 tail (tail + |v_j|).
        let half = tail * v[j].abs();
        let reflect = |column: &mut [f64]| {
            let dot: f64 = v[j..].iter().zip(&column[j..]).map(|(p, q)| p * q).sum();
            let factor = dot / half;
            column[j..].iter_mut().zip(&v[j..]).for_each(|(q, p)| *q -= factor * p);
        };
        r[j][j] = diagonal;
        for (later, column) in rest.chunks_exact_mut(n).enumerate() {
            reflect(column);
            r[j][j + 1 + later] = column[j];
        }
        reflect(b);
    }
    for row in &mut r {
        row.iter_mut().zip(&norms).for_each(|(entry, norm)| *entry *= norm);
    }
    Some((r, k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_three_points() {
        // y = 1, 3, 4 at x = 0, 1, 2: slope 3/2, intercept 7/6 by the normal equations.
        let mut a = [1.0, 1.0, 1.0, 0.0, 1.0, 2.0];
        let x = least_squares(&mut a, &mut [1.0, 3.0, 4.0]).unwrap();
        assert!((x[0] - 7.0 / 6.0).abs() < 1e-15 && (x[1] - 1.5).abs() < 1e-15);
        // (A^T A)^-1 of [[3, 3], [3, 5]] is [[5, -3], [-3, 3]] / 6.
        let diagonal = inverse_diagonal(&mut [1.0, 1.0, 1.0, 0.0, 1.0, 2.0], 3).unwrap();
        assert!((diagonal[0] - 5.0 / 6.0).abs() < 1e-15 && (diagonal[1] - 0.5).abs() < 1e-15);
    }

    #[test]
    fn columns_of_any_size_and_dependent_ones() {
        let (tiny, huge) = (1e-200, 1e200);
        let mut a = [tiny, tiny, tiny, 0.0, huge, 2.0 * huge];
        let x = least_squares(&mut a, &mut [1.0, 3.0, 4.0]).unwrap();
        assert!((x[0] * tiny * 6.0 / 7.0 - 1.0).abs() < 1e-14 && (x[1] * huge / 1.5 - 1.0).abs() < 1e-14);
        assert!(least_squares(&mut [1.0, 2.0, 3.0, 2.0, 4.0, 6.0], &mut [1.0, 0.0, 0.0]).is_none());
        assert!(least_squares(&mut [1.0, f64::NAN], &mut [1.0, 0.0]).is_none());
        assert!(least_squares(&mut [0.0, 0.0], &mut [1.0, 0.0]).is_none());
        assert!(least_squares(&mut [1.0, 2.0], &mut [1.0]).is_none(), "more columns than rows");
    }
}
