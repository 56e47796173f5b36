//! Linear systems in fixed-point numbers.
//!
//! P A = L U by elimination with row exchanges; entries are in units of 2^-bits. Multipliers are at most 1 in absolute value,
//! so the entries stay moderate and a truncated product costs one unit; a pivot of 2^-k has bits - k significant bits. The
//! factorization proves nothing. [`is_certainly_regular`] does, from an approximate inverse of any origin.
//!
//! **Certificate.** Let A* be a matrix within `radius` units of A in every entry, and R any matrix. If every row of
//! |I - R A| + radius |R| E (E all ones) sums to less than 1, then so does every row of |I - R A*|, so R A* is regular and A*
//! is too. With integers for A 2^bits and R 2^r, everything is computed without rounding.

use super::IBig;
use crate::Result;
use crate::observe::{Counter, Observer, Stage};
use dashu_base::Abs;
use rayon::prelude::*;

/// The factorization P A = L U in units of 2^-bits.
#[derive(Debug, Clone)]
pub struct Lu {
    n: usize,
    bits: usize,
    /// Row-major, with L below the diagonal; its unit diagonal is not stored.
    factors: Vec<IBig>,
    /// Row i of P A is row `rows[i]` of A.
    rows: Vec<usize>,
}

impl Lu {
    /// Factors a row-major square matrix. Returns `None` if a pivot is 0.
    pub fn of(mut a: Vec<IBig>, n: usize, bits: usize, observer: &dyn Observer) -> Result<Option<Self>> {
        assert_eq!(a.len(), n * n, "a square matrix");
        let mut rows: Vec<usize> = (0..n).collect();
        for k in 0..n {
            observer.report(Stage::Solving, k as u64, Some(n as u64))?;
            let size = |i: usize| a[i * n + k].clone().abs();
            let pivot = (k..n).fold(k, |best, i| if size(i) > size(best) { i } else { best });
            if a[pivot * n + k] == IBig::ZERO {
                return Ok(None);
            }
            if pivot != k {
                rows.swap(pivot, k);
                (0..n).for_each(|j| a.swap(pivot * n + j, k * n + j));
            }
            let (head, tail) = a.split_at_mut((k + 1) * n);
            let above = &head[k * n..];
            tail.par_chunks_mut(n).for_each(|row| {
                let factor: IBig = (&row[k] << bits) / &above[k];
                for (entry, u) in row[k + 1..].iter_mut().zip(&above[k + 1..]) {
                    *entry -= (&factor * u) >> bits;
                }
                row[k] = factor;
            });
        }
        Ok(Some(Self { n, bits, factors: a, rows }))
    }

    /// Solves A x = b.
    pub fn solve(&self, b: &[IBig]) -> Vec<IBig> {
        let (n, bits) = (self.n, self.bits);
        let mut x: Vec<IBig> = self.rows.iter().map(|&i| b[i].clone()).collect();
        for i in 0..n {
            let sum: IBig = (0..i).map(|j| &self.factors[i * n + j] * &x[j]).sum();
            x[i] -= sum >> bits;
        }
        for i in (0..n).rev() {
            let sum: IBig = (i + 1..n).map(|j| &self.factors[i * n + j] * &x[j]).sum();
            x[i] = ((&x[i] << bits) - sum) / &self.factors[i * n + i];
        }
        x
    }

    /// Returns the inverse, row-major.
    pub fn inverse(&self, observer: &dyn Observer) -> Result<Vec<IBig>> {
        let n = self.n;
        observer.report(Stage::Solving, 0, Some(n as u64))?;
        let counter = Counter::new(observer, Stage::Solving, Some(n as u64));
        let columns: Vec<Vec<IBig>> = (0..n)
            .into_par_iter()
            .map(|j| {
                let mut unit = vec![IBig::ZERO; n];
                unit[j] = IBig::ONE << self.bits;
                let solved = self.solve(&unit);
                counter.add(1).map(|()| solved)
            })
            .collect::<Result<_>>()?;
        Ok((0..n).flat_map(|i| columns.iter().map(move |c| c[i].clone())).collect())
    }
}

/// Returns the largest row sum of absolute values, in the units of the entries.
pub fn norm(a: &[IBig], n: usize) -> IBig {
    let sums = a.chunks(n).map(|row| row.iter().map(|x| x.clone().abs()).sum::<IBig>());
    sums.max().unwrap_or(IBig::ZERO)
}

/// The bits of R after the point that a certificate uses.
const INVERSE_BITS: usize = 64;

/// Returns `true` only if every matrix within `radius` units of 2^-bits of A is regular. This is a proof; `false` proves
/// nothing. `inverse` is an approximate inverse in the same units.
pub fn is_certainly_regular(a: &[IBig], inverse: &[IBig], n: usize, bits: usize, radius: u32) -> bool {
    let kept = INVERSE_BITS.min(bits);
    let r: Vec<IBig> = inverse.iter().map(|x| x >> (bits - kept)).collect();
    // R A and |R| are in units of 2^-(bits + kept).
    let one = IBig::ONE << (bits + kept);
    (0..n).into_par_iter().all(|i| {
        let row = &r[i * n..(i + 1) * n];
        let size: IBig = row.iter().map(|x| x.clone().abs()).sum();
        let mut sum = size * IBig::from(radius) * IBig::from(n);
        for j in 0..n {
            let product: IBig = row.iter().enumerate().map(|(k, r)| r * &a[k * n + j]).sum();
            sum += (if i == j { &one - product } else { product }).abs();
        }
        sum < one
    })
}

#[cfg(test)]
mod tests {
    use super::super::to_f64;
    use super::*;
    use crate::num::Stream;
    use crate::observe::Silent;

    const BITS: usize = 200;

    fn fixed(x: f64) -> IBig {
        super::super::Dyadic::from(x).floor(BITS)
    }

    fn random(n: usize, index: u64) -> Vec<IBig> {
        let mut stream = Stream::new(1, "precise-linear", index);
        (0..n * n).map(|_| fixed(stream.normal())).collect()
    }

    #[test]
    fn a_system_is_solved_to_almost_full_precision() {
        for n in [1, 2, 5, 12] {
            let a = random(n, n as u64);
            let lu = Lu::of(a.clone(), n, BITS, &Silent).unwrap().unwrap();
            let b: Vec<IBig> = (0..n).map(|i| fixed(i as f64 - 1.5)).collect();
            let x = lu.solve(&b);
            for i in 0..n {
                let sum: IBig = (0..n).map(|j| &a[i * n + j] * &x[j]).sum();
                assert!(to_f64(&((sum >> BITS) - &b[i]).abs(), BITS) < 1e-50);
            }
            assert!(is_certainly_regular(&a, &lu.inverse(&Silent).unwrap(), n, BITS, 1));
        }
    }

    #[test]
    fn a_singular_matrix_is_never_certified() {
        // [1 2; 2 4], and the same with the last entry 2^20 units larger: regular within one unit, not within 2^20.
        let singular = [1.0, 2.0, 2.0, 4.0].map(fixed).to_vec();
        assert!(Lu::of(singular.clone(), 2, BITS, &Silent).unwrap().is_none());
        let mut near = singular.clone();
        near[3] += IBig::ONE << 20;
        let inverse = Lu::of(near.clone(), 2, BITS, &Silent).unwrap().unwrap().inverse(&Silent).unwrap();
        assert!(is_certainly_regular(&near, &inverse, 2, BITS, 1));
        assert!(!is_certainly_regular(&near, &inverse, 2, BITS, 1 << 20));
        assert!(!is_certainly_regular(&singular, &inverse, 2, BITS, 0));
    }

    #[test]
    fn the_hilbert_matrix_of_order_20_is_certified_at_200_bits_but_not_at_53() {
        let n = 20;
        let entries = |bits: usize| -> Vec<IBig> {
            (0..n * n).map(|k| (IBig::ONE << bits) / IBig::from(k / n + k % n + 1)).collect()
        };
        let certified = |bits: usize| {
            let a = entries(bits);
            Lu::of(a.clone(), n, bits, &Silent)
                .unwrap()
                .is_some_and(|lu| is_certainly_regular(&a, &lu.inverse(&Silent).unwrap(), n, bits, 1))
        };
        assert!(certified(200) && !certified(53));
    }
}
