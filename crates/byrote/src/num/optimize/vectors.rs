//! Sums over long vectors. Vectors are cut into pieces of fixed size that any number of threads may process; the results are
//! added in order, so a sum is the same to the last bit. Products are accumulated in f64 whatever the element type.

use crate::num::Real;
use crate::num::simd::{self, Isa, SimdKernel};
use rayon::prelude::*;
use std::ops::Range;

/// The elements of a piece; several pieces fit into the first-level cache together.
pub(super) const PIECE: usize = 2048;
/// The work (elements times vectors) below which threads cost more than they save.
const ALONE: usize = 1 << 16;
/// The number of independent partial sums, so that they can be vectorized.
const LANES: usize = 16;

/// Returns the inner product of `a` and `b`.
pub fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    let mut sum = [0.0];
    dots(a.len(), &[(a, b)], &mut sum);
    sum[0]
}

/// Computes many inner products of vectors of length `n` in one pass over memory.
pub fn dots<T: Real>(n: usize, pairs: &[(&[T], &[T])], sums: &mut [f64]) {
    let width = pairs.len();
    sums.fill(0.0);
    let work = |piece: usize, out: &mut [f64]| {
        let range = piece * PIECE..((piece + 1) * PIECE).min(n);
        simd::run(PieceDots { pairs, range, out });
    };
    let n_pieces = n.div_ceil(PIECE);
    if n * width <= ALONE {
        let mut one = vec![0.0; width];
        for piece in 0..n_pieces {
            work(piece, &mut one);
            sums.iter_mut().zip(&one).for_each(|(s, x)| *s += x);
        }
        return;
    }
    let mut all = vec![0.0; n_pieces * width];
    all.par_chunks_mut(width).enumerate().for_each(|(piece, out)| work(piece, out));
    for one in all.chunks_exact(width) {
        sums.iter_mut().zip(one).for_each(|(s, x)| *s += x);
    }
}

struct PieceDots<'a, 'b, T> {
    pairs: &'a [(&'b [T], &'b [T])],
    range: Range<usize>,
    out: &'a mut [f64],
}

impl<T: Real> SimdKernel for PieceDots<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        for ((a, b), out) in self.pairs.iter().zip(self.out) {
            *out = short_dot(isa, &a[self.range.clone()], &b[self.range.clone()]);
        }
    }
}

#[inline(always)]
fn short_dot<I: Isa, T: Real>(isa: I, a: &[T], b: &[T]) -> f64 {
    let mut sums = [0.0f64; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            sums[i] = isa.fma(a[i].to_f64(), b[i].to_f64(), sums[i]);
        }
    }
    for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[i] = isa.fma(a.to_f64(), b.to_f64(), sums[i]);
    }
    sums.iter().sum()
}

/// Computes `out = sum_i c_i v_i` in f64, rounded once.
pub fn combine<T: Real>(out: &mut [T], terms: &[(f64, &[T])]) {
    let alone = out.len() * terms.len() <= ALONE;
    let work = |(piece, out): (usize, &mut [T])| {
        simd::run(PieceCombine { terms, start: piece * PIECE, out });
    };
    if alone {
        out.chunks_mut(PIECE).enumerate().for_each(work);
    } else {
        out.par_chunks_mut(PIECE).enumerate().for_each(work);
    }
}

struct PieceCombine<'a, 'b, T> {
    terms: &'a [(f64, &'b [T])],
    start: usize,
    out: &'a mut [T],
}

impl<T: Real> SimdKernel for PieceCombine<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let mut sums = [0.0f64; PIECE];
        let sums = &mut sums[..self.out.len()];
        for (factor, vector) in self.terms {
            let vector = &vector[self.start..self.start + sums.len()];
            for (sum, x) in sums.iter_mut().zip(vector) {
                *sum = isa.fma(*factor, x.to_f64(), *sum);
            }
        }
        for (out, sum) in self.out.iter_mut().zip(sums) {
            *out = T::from_f64(*sum);
        }
    }
}

/// Computes `out = a + t (b - a)` in the arithmetic of the vectors.
pub fn mix<T: Real>(out: &mut [T], a: &[T], b: &[T], t: f64) {
    let t = T::from_f64(t);
    // Many pieces at a time, because this is little work per element.
    let size = 16 * PIECE;
    let pieces = out.par_chunks_mut(size).zip(a.par_chunks(size)).zip(b.par_chunks(size));
    pieces.for_each(|((out, a), b)| simd::run(PieceMix { out, a, b, t }));
}

struct PieceMix<'a, T> {
    out: &'a mut [T],
    a: &'a [T],
    b: &'a [T],
    t: T,
}

impl<T: Real> SimdKernel for PieceMix<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        for ((out, &a), &b) in self.out.iter_mut().zip(self.a).zip(self.b) {
            *out = a + self.t * (b - a);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_lies_between_its_parts() {
        let (a, b) = example(40_000);
        let mut c = vec![0.0f32; a.len()];
        mix(&mut c, &a, &b, 0.25);
        assert!(c.iter().zip(a.iter().zip(&b)).all(|(c, (a, b))| (c - (0.75 * a + 0.25 * b)).abs() < 1e-5));
        mix(&mut c, &a, &a, 0.1);
        assert_eq!(c, a, "equal numbers keep their bits");
        mix(&mut c, &b, &a, 0.0);
        assert_eq!(c, b);
    }

    fn example(n: usize) -> (Vec<f32>, Vec<f32>) {
        let at = |i: usize, k: usize| ((i * k) % 101) as f32 / 7.0 - 5.0;
        ((0..n).map(|i| at(i, 37)).collect(), (0..n).map(|i| at(i, 53)).collect())
    }

    #[test]
    fn sums_match_the_definition_for_any_number_of_threads() {
        for n in [0, 1, 17, PIECE, 3 * PIECE + 5, 100_000] {
            let (a, b) = example(n);
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let found: Vec<f64> = [1, 2, 3]
                .map(|t| {
                    rayon::ThreadPoolBuilder::new().num_threads(t).build().unwrap().install(|| dot(&a, &b))
                })
                .to_vec();
            assert!((found[0] - plain).abs() <= 1e-12 * (1.0 + n as f64), "{n}: {} {plain}", found[0]);
            assert!(found.iter().all(|x| x.to_bits() == found[0].to_bits()));
            let mut many = [0.0; 2];
            dots(n, &[(&a, &a), (&b, &a)], &mut many);
            assert_eq!(
                many[1].to_bits(),
                found[0].to_bits(),
                "neither the order of the factors nor other products in the batch matter"
            );
            let mut c = vec![0.0f32; n];
            combine(&mut c, &[(2.0, &a), (-0.5, &b)]);
            for i in 0..n {
                assert_eq!(c[i], (2.0 * f64::from(a[i]) - 0.5 * f64::from(b[i])) as f32);
            }
        }
    }
}
