//! Vector registers.
//!
//! Loops that write what they read are left to the compiler, which finds the vectors in them. Sums that must stay in
//! registers, as in the tile of a product, are not: whether they do decides the speed tenfold, and the compiler's answer
//! changes from one loop to the next.

use super::simd::Float;

/// A register of numbers.
pub trait Vector<T>: Copy {
    /// How many.
    const LANES: usize;

    /// The same number in every lane.
    ///
    /// # Safety
    /// The machine has the instruction set of the register.
    unsafe fn splat(x: T) -> Self;

    /// Reads [`Self::LANES`] numbers, at any alignment.
    ///
    /// # Safety
    /// As [`Self::splat`], and `from` is valid for reading them.
    unsafe fn load(from: *const T) -> Self;

    /// Writes [`Self::LANES`] numbers, at any alignment.
    ///
    /// # Safety
    /// As [`Self::splat`], and `to` is valid for writing them.
    unsafe fn store(self, to: *mut T);

    /// self b + c in each lane.
    ///
    /// # Safety
    /// As [`Self::splat`].
    unsafe fn fma(self, b: Self, c: Self) -> Self;

    /// The sum in each lane.
    ///
    /// # Safety
    /// As [`Self::splat`].
    unsafe fn add(self, b: Self) -> Self;

    /// The larger in each lane; `b` where a number is NaN.
    ///
    /// # Safety
    /// As [`Self::splat`].
    unsafe fn max(self, b: Self) -> Self;
}

/// A register as an array, for the compiler to place: what every machine has.
#[derive(Clone, Copy)]
pub struct Few<T, const N: usize>([T; N]);

impl<T: Float + PartialOrd, const N: usize> Vector<T> for Few<T, N> {
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn splat(x: T) -> Self {
        Self([x; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { from.cast::<[T; N]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller's promise.
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
    use super::Vector;
    use std::arch::x86_64::*;

    macro_rules! register {
        ($register:ty, $number:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $fma:ident,
         $add:ident, $max:ident) => {
            impl Vector<$number> for $register {
                const LANES: usize = $lanes;

                #[inline(always)]
                unsafe fn splat(x: $number) -> Self {
                    // SAFETY: the caller's promise of the instruction set.
                    unsafe { $splat(x) }
                }

                #[inline(always)]
                unsafe fn load(from: *const $number) -> Self {
                    // SAFETY: the caller's promises of the instruction set and of what may be read.
                    unsafe { $load(from) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $number) {
                    // SAFETY: the caller's promises of the instruction set and of what may be written.
                    unsafe { $store(to, self) }
                }

                #[inline(always)]
                unsafe fn fma(self, b: Self, c: Self) -> Self {
                    // SAFETY: the caller's promise of the instruction set.
                    unsafe { $fma(self, b, c) }
                }

                #[inline(always)]
                unsafe fn add(self, b: Self) -> Self {
                    // SAFETY: the caller's promise of the instruction set.
                    unsafe { $add(self, b) }
                }

                #[inline(always)]
                unsafe fn max(self, b: Self) -> Self {
                    // SAFETY: the caller's promise of the instruction set.
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
