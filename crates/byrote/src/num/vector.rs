//! Vector registers.
//!
//! Loops that write to the elements they read are left to the compiler, which vectorizes them reliably. Sums that must stay in
//! registers, such as the tile of a matrix product, are written with these registers explicitly: keeping them there changes
//! the speed tenfold, and the compiler does not always do it.

use super::simd::{Float, sealed::Sealed};

/// A register of numbers. Sealed, because unsafe code relies on [`Vector::LANES`].
pub trait Vector<T>: Sealed + Copy {
    /// The number of lanes.
    const LANES: usize;

    /// Puts the same number into every lane.
    ///
    /// # Safety
    /// The machine must have the instruction set of the register.
    unsafe fn splat(x: T) -> Self;

    /// Reads [`Self::LANES`] numbers, at any alignment.
    ///
    /// # Safety
    /// As for [`Self::splat`]; `from` must be valid for reading that many numbers.
    unsafe fn load(from: *const T) -> Self;

    /// Writes [`Self::LANES`] numbers, at any alignment.
    ///
    /// # Safety
    /// As for [`Self::splat`]; `to` must be valid for writing that many numbers.
    unsafe fn store(self, to: *mut T);

    /// Computes `self * b + c` in each lane.
    ///
    /// # Safety
    /// As for [`Self::splat`].
    unsafe fn fma(self, b: Self, c: Self) -> Self;

    /// Computes `self + b` in each lane.
    ///
    /// # Safety
    /// As for [`Self::splat`].
    unsafe fn add(self, b: Self) -> Self;

    /// Returns the larger number in each lane, or the lane of `b` where either is NaN.
    ///
    /// # Safety
    /// As for [`Self::splat`].
    unsafe fn max(self, b: Self) -> Self;
}

/// An array that the compiler keeps in whatever registers the machine has: the portable register.
#[derive(Clone, Copy)]
pub struct ArrayRegister<T, const N: usize>([T; N]);

impl<T, const N: usize> Sealed for ArrayRegister<T, N> {}

impl<T: Float + PartialOrd, const N: usize> Vector<T> for ArrayRegister<T, N> {
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn splat(x: T) -> Self {
        Self([x; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller guarantees that N numbers may be read.
        Self(unsafe { from.cast::<[T; N]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller guarantees that N numbers may be written.
        unsafe { to.cast::<[T; N]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn fma(mut self, b: Self, c: Self) -> Self {
        for i in 0..N {
            self.0[i] = if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
                self.0[i].fused(b.0[i], c.0[i])
            } else {
                self.0[i] * b.0[i] + c.0[i]
            };
        }
        self
    }

    #[inline(always)]
    unsafe fn add(mut self, b: Self) -> Self {
        for i in 0..N {
            self.0[i] = self.0[i] + b.0[i];
        }
        self
    }

    #[inline(always)]
    unsafe fn max(mut self, b: Self) -> Self {
        for i in 0..N {
            self.0[i] = if self.0[i] > b.0[i] { self.0[i] } else { b.0[i] };
        }
        self
    }
}

/// The registers of AVX2 and AVX-512.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Sealed, Vector};
    use std::arch::x86_64::*;

    macro_rules! register {
        ($register:ty, $number:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $fma:ident,
         $add:ident, $max:ident) => {
            impl Sealed for $register {}

            impl Vector<$number> for $register {
                const LANES: usize = $lanes;

                #[inline(always)]
                unsafe fn splat(x: $number) -> Self {
                    // SAFETY: the caller guarantees the instruction set.
                    unsafe { $splat(x) }
                }

                #[inline(always)]
                unsafe fn load(from: *const $number) -> Self {
                    // SAFETY: the caller guarantees the instruction set and that the numbers may be read.
                    unsafe { $load(from) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $number) {
                    // SAFETY: the caller guarantees the instruction set and that the numbers may be written.
                    unsafe { $store(to, self) }
                }

                #[inline(always)]
                unsafe fn fma(self, b: Self, c: Self) -> Self {
                    // SAFETY: the caller guarantees the instruction set.
                    unsafe { $fma(self, b, c) }
                }

                #[inline(always)]
                unsafe fn add(self, b: Self) -> Self {
                    // SAFETY: the caller guarantees the instruction set.
                    unsafe { $add(self, b) }
                }

                #[inline(always)]
                unsafe fn max(self, b: Self) -> Self {
                    // SAFETY: the caller guarantees the instruction set.
                    unsafe { $max(self, b) }
                }
            }
        };
    }

    register!(
        __m256,
        f32,
        8,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_fmadd_ps,
        _mm256_add_ps,
        _mm256_max_ps
    );
    register!(
        __m256d,
        f64,
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_fmadd_pd,
        _mm256_add_pd,
        _mm256_max_pd
    );
    register!(
        __m512,
        f32,
        16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps,
        _mm512_add_ps,
        _mm512_max_ps
    );
    register!(
        __m512d,
        f64,
        8,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_fmadd_pd,
        _mm512_add_pd,
        _mm512_max_pd
    );
}
