//! Arrays aligned to cache lines, with rows padded to whole lines.
//!
//! Kernels over such rows have no remainders: they advance in steps of [`LINE`] numbers, and vectors never straddle cache
//! lines.

use std::ops::{Deref, DerefMut};

/// The numbers in a line: one AVX-512 register of `f32`, two of `f64`.
pub const LINE: usize = 16;

/// Returns the length of a row of `n` numbers after padding to whole lines.
pub const fn padded(n: usize) -> usize {
    n.next_multiple_of(LINE)
}

/// Returns a row length for `n` numbers that keeps the rows of a tall matrix from all mapping to the same few cache sets: an
/// odd number of lines.
pub const fn spread_stride(n: usize) -> usize {
    let lines = n.div_ceil(LINE);
    if lines < 4 { lines * LINE } else { (lines | 1) * LINE }
}

/// Returns the line that starts at an index, which need not be a multiple of [`LINE`].
#[inline(always)]
pub fn line_at<T>(values: &[T], at: usize) -> &[T; LINE] {
    // A slice of LINE values always has a first chunk of LINE values.
    values[at..at + LINE].first_chunk().unwrap_or_else(|| unreachable!())
}

/// Returns the line that starts at an index, for writing.
#[inline(always)]
pub fn line_at_mut<T>(values: &mut [T], at: usize) -> &mut [T; LINE] {
    values[at..at + LINE].first_chunk_mut().unwrap_or_else(|| unreachable!())
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line<T>([T; LINE]);

/// An array of whole lines, aligned to 64 bytes.
pub struct AlignedVec<T>(Vec<Line<T>>);

impl<T: Copy + Default> AlignedVec<T> {
    /// Creates at least `n` zeros.
    pub fn zeros(n: usize) -> Self {
        const { assert!(size_of::<Line<T>>() == LINE * size_of::<T>(), "a line has no padding") };
        Self(vec![Line([T::default(); LINE]); n.div_ceil(LINE)])
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: a `Line` is an array of LINE numbers without padding (asserted in `zeros`, the only constructor), so the
        // lines of the vector form one initialized array of `len * LINE` numbers.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) }
    }
}

impl<T> DerefMut for AlignedVec<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the unique borrow of the vector carries over to its elements.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * LINE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_flat_aligned_and_zero() {
        let mut lines = AlignedVec::<f64>::zeros(33);
        assert_eq!(lines.len(), 48);
        assert!(lines.iter().all(|&x| x == 0.0));
        assert_eq!(lines.as_ptr() as usize % 64, 0);
        lines.iter_mut().zip(0..).for_each(|(x, i)| *x = f64::from(i));
        assert_eq!((lines[0], lines[17], lines[47]), (0.0, 17.0, 47.0));
        assert_eq!(AlignedVec::<f32>::zeros(0).len(), 0);
    }

    #[test]
    fn long_rows_are_an_odd_number_of_lines() {
        assert_eq!([1, 16, 17, 48].map(spread_stride), [16, 16, 32, 48]);
        assert_eq!([64, 512, 609].map(spread_stride), [80, 528, 624]);
        assert_eq!([0, 1, 16, 17].map(padded), [0, 16, 16, 32]);
    }
}
