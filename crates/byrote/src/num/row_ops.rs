//! Loops over rows padded to whole lines: sums, maxima, exponentials.
//!
//! A sum runs in [`LINE`] lanes that are combined in a fixed order, so it is the same under every instruction set with fused
//! multiply-adds. All functions are meant to be inlined into a [`super::simd::SimdKernel`].

use super::aligned::LINE;
use super::elementary::exp;
use super::line_vector::LineVector;
use super::real::Real;
use super::simd::Isa;

/// Returns `sum_i a_i b_i`.
#[inline(always)]
pub fn dot<T: Real, I: Isa>(isa: I, a: &[T], b: &[T]) -> T {
    let mut sum = LineVector::splat(isa, T::from_f64(0.0));
    for (a, b) in a.as_chunks().0.iter().zip(b.as_chunks().0) {
        sum = LineVector::load(isa, a).fma(LineVector::load(isa, b), sum);
    }
    sum.sum()
}

/// Computes `a += b`.
#[inline(always)]
pub fn add<T: Real>(a: &mut [T], b: &[T]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += *b;
    }
}

/// Computes `a += factor * b`.
#[inline(always)]
pub fn add_scaled<T: Real, I: Isa>(isa: I, a: &mut [T], factor: T, b: &[T]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = isa.fma(factor, *b, *a);
    }
}

/// Computes `a *= factor`.
#[inline(always)]
pub fn scale<T: Real>(a: &mut [T], factor: T) {
    for a in a.iter_mut() {
        *a *= factor;
    }
}

/// Computes `a += bias` and returns the largest sum, ignoring NaN.
#[inline(always)]
pub fn add_and_max<T: Real, I: Isa>(isa: I, a: &mut [T], bias: &[T]) -> T {
    let mut largest = LineVector::splat(isa, T::from_f64(f64::NEG_INFINITY));
    for (a, b) in a.as_chunks_mut().0.iter_mut().zip(bias.as_chunks().0) {
        let sum = LineVector::load(isa, a).plus(LineVector::load(isa, b));
        sum.store(a);
        largest = sum.max(largest);
    }
    largest.largest()
}

/// Returns the largest element of a row, ignoring NaN.
#[inline(always)]
pub fn largest<T: Real, I: Isa>(isa: I, a: &[T]) -> T {
    let mut largest = LineVector::splat(isa, T::from_f64(f64::NEG_INFINITY));
    for a in a.as_chunks().0 {
        largest = LineVector::load(isa, a).max(largest);
    }
    largest.largest()
}

/// Computes `a = e^(a - shift)`, set to 0 where that is negligible compared with 1.
#[inline(always)]
pub fn exp_shifted<T: Real, I: Isa>(isa: I, a: &mut [T], shift: T) {
    for a in a.iter_mut() {
        let x = *a - shift;
        *a = if x < T::NEGLIGIBLE { T::from_f64(0.0) } else { exp(isa, x) };
    }
}

/// Returns the sum of a row, its lanes combined in `f64`.
#[inline(always)]
pub fn sum<T: Real, I: Isa>(isa: I, a: &[T]) -> f64 {
    let mut lanes = LineVector::splat(isa, T::from_f64(0.0));
    for a in a.as_chunks::<LINE>().0 {
        lanes = lanes.plus(LineVector::load(isa, a));
    }
    let lanes = lanes.array();
    let mut four = [0.0; 4];
    for i in 0..4 {
        let (a, b) =
            (lanes[i].to_f64() + lanes[i + 8].to_f64(), lanes[i + 4].to_f64() + lanes[i + 12].to_f64());
        four[i] = a + b;
    }
    (four[0] + four[2]) + (four[1] + four[3])
}

#[cfg(test)]
mod tests {
    use super::super::simd::{SimdKernel, each};
    use super::*;

    struct All<T>(Vec<T>, Vec<T>);
    impl<T: Real + std::fmt::Debug> SimdKernel for All<T> {
        type Output = (f64, f64, T, Vec<T>);
        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> Self::Output {
            let Self(mut a, b) = self;
            let product = dot(isa, &a, &b).to_f64();
            add(&mut a, &b);
            add_scaled(isa, &mut a, T::from_f64(2.0), &b);
            scale(&mut a, T::from_f64(0.5));
            let largest_sum = add_and_max(isa, &mut a, &b);
            assert_eq!(largest(isa, &a), largest_sum);
            exp_shifted(isa, &mut a, largest_sum);
            (product, sum(isa, &a), largest_sum, a)
        }
    }

    #[test]
    fn every_instruction_set_agrees_with_plain_loops() {
        // The largest element is at every place in turn.
        for shift in 0..48 {
            let mut a: Vec<f64> = (0..48).map(|i| f64::from(i % 7) - 3.0).collect();
            let mut b: Vec<f64> = (0..48).map(|i| f64::from(i % 5) - 2.0).collect();
            a.rotate_left(shift);
            b.rotate_left(shift);
            agrees_with_plain_loops(&a, &b);
        }
    }

    fn agrees_with_plain_loops(a: &[f64], b: &[f64]) {
        let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
        let after: Vec<f64> = a.iter().zip(b).map(|(a, b)| 0.5 * (a + 3.0 * b) + b).collect();
        let largest = after.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = after.iter().map(|x| (x - largest).exp()).sum();
        let narrow = |v: &[f64]| v.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        each(
            |_| All(a.to_vec(), b.to_vec()),
            |(p, s, m, e)| {
                assert_eq!((p, m), (product, largest));
                assert!((s / total - 1.0).abs() < 1e-15);
                assert!(e.iter().zip(&after).all(|(e, x)| (e - (x - largest).exp()).abs() < 1e-15));
            },
        );
        each(
            |_| All(narrow(a), narrow(b)),
            |(p, s, m, _)| {
                assert_eq!((p, m.to_f64()), (product, largest));
                assert!((s / total - 1.0).abs() < 1e-6);
            },
        );
    }

    struct Largest(Vec<f32>);
    impl SimdKernel for Largest {
        type Output = f32;
        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> f32 {
            largest(isa, &self.0)
        }
    }

    #[test]
    fn the_largest_element_is_found_beside_nan_and_infinity() {
        for at in 0..32 {
            let mut row = vec![f32::NEG_INFINITY; 32];
            row[(at + 5) % 32] = f32::NAN;
            row[at] = -2.0;
            each(|_| Largest(row.clone()), |found| assert_eq!(found, -2.0));
        }
    }
}
