//! Arrays of numbers that begin at a cache line, with rows padded to whole lines.
//!
//! Kernels over such rows have no tails: they work in steps of [`LINE`] numbers, and vectors never straddle cache lines.

use std::ops::{Deref, DerefMut};

/// Numbers in a step: one AVX-512 register of f32, two of f64.
pub const LINE: usize = 16;

/// The length of a row of `n` numbers, padded to whole lines.
pub const fn padded(n: usize) -> usize {
    n.next_multiple_of(LINE)
}

/// A row length for `n` numbers such that the rows of a tall matrix do not all fall on the same few sets of the cache: an
/// odd number of lines.
pub const fn spread(n: usize) -> usize {
    let lines = n.div_ceil(LINE);
    if lines < 4 { lines * LINE } else { (lines | 1) * LINE }
}

/// The line that begins at an index, which need not be a multiple of [`LINE`].
#[inline(always)]
pub fn line<T>(values: &[T], at: usize) -> &[T; LINE] {
    // A slice of LINE values has a first chunk of as many; the other arm is never reached.
    values[at..at + LINE].first_chunk().unwrap_or_else(|| unreachable!())
}

/// As [`line`], to be written.
#[inline(always)]
pub fn line_mut<T>(values: &mut [T], at: usize) -> &mut [T; LINE] {
    values[at..at + LINE].first_chunk_mut().unwrap_or_else(|| unreachable!())
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line<T>([T; LINE]);

/// An array of whole lines, aligned to 64 bytes.
pub struct Lines<T>(Vec<Line<T>>);

impl<T: Copy + Default> Lines<T> {
    /// At least `n` zeros.
    pub fn zeros(n: usize) -> Self {
        const { assert!(size_of::<Line<T>>() == LINE * size_of::<T>(), "a line has no padding") };
        Self(vec![Line([T::default(); LINE]); n.div_ceil(LINE)])
    }
}

impl<T> Deref for Lines<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: a line is an array of LINE numbers without padding, as `zeros` asserts, so that many of them are one array.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) }
    }
}

impl<T> DerefMut for Lines<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * LINE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_flat_aligned_and_zero() {
        let mut lines = Lines::<f64>::zeros(33);
        assert_eq!(lines.len(), 48);
        assert!(lines.iter().all(|&x| x == 0.0));
        assert_eq!(lines.as_ptr() as usize % 64, 0);
        lines.iter_mut().zip(0..).for_each(|(x, i)| *x = f64::from(i));
        assert_eq!((lines[0], lines[17], lines[47]), (0.0, 17.0, 47.0));
        assert_eq!(Lines::<f32>::zeros(0).len(), 0);
    }

    #[test]
    fn long_rows_are_an_odd_number_of_lines() {
        assert_eq!([1, 16, 17, 48].map(spread), [16, 16, 32, 48]);
        assert_eq!([64, 512, 609].map(spread), [80, 528, 624]);
        assert_eq!([0, 1, 16, 17].map(padded), [0, 16, 16, 32]);
    }
}
