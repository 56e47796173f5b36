//! Runtime dispatch over instruction sets: each kernel is compiled once per set, and the widest available copy is called.
//!
//! A [`SimdKernel`] is plain scalar code over slices, which the compiler vectorizes, or code over the registers of
//! [`super::vector`]. [`run`] calls the copy compiled for the widest instruction set of this machine: AVX-512, AVX2 with FMA,
//! or the baseline of the target. The set is detected once per process, so results may differ between machines but never
//! between runs on one machine.
//!
//! # Safety
//!
//! A value of an instruction set's type (an *ISA token*) proves that the machine has the set, and unsafe code relies on that
//! proof. [`Isa`] is therefore sealed, and the tokens have private fields: only [`run`] and [`each`] create them, after
//! detection. Safe code outside the crate can write kernels, but cannot implement the trait. The two examples are the test of
//! that: the first shows that the names they use can be imported, so only the seal can be what the second one fails at. They
//! need the feature `bench-internals`, with which `.ci/run` runs them.
//!
#![cfg_attr(feature = "bench-internals", doc = "```")]
#![cfg_attr(not(feature = "bench-internals"), doc = "```ignore")]
//! use byrote::bench_internals::{Isa, SimdKernel, run};
//!
//! struct Name;
//!
//! impl SimdKernel for Name {
//!     type Output = &'static str;
//!     fn call<I: Isa>(self, _: I) -> &'static str {
//!         I::NAME
//!     }
//! }
//! assert!(["portable", "AVX2", "AVX-512"].contains(&run(Name)));
//! ```
//!
#![cfg_attr(feature = "bench-internals", doc = "```compile_fail,E0277")]
#![cfg_attr(not(feature = "bench-internals"), doc = "```ignore")]
//! use byrote::bench_internals::{Isa, SimdKernel};
//!
//! #[derive(Clone, Copy)]
//! struct Forged;
//!
//! impl Isa for Forged {
//!     const FMA: bool = true;
//!     const NAME: &'static str = "forged";
//!     type F32 = std::arch::x86_64::__m512;
//!     type F64 = std::arch::x86_64::__m512d;
//!     fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
//!         kernel.call(self)
//!     }
//! }
//! ```

use super::vector::{ArrayRegister, Vector};

/// Closes the traits that unsafe code relies on to implementations outside of this module and [`super::vector`].
pub(super) mod sealed {
    /// A supertrait that foreign code cannot name.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}
use sealed::Sealed;

/// An instruction set, as a token that proves that this machine has it.
pub trait Isa: Sealed + Copy + Send + Sync {
    /// Whether fused multiply-add is one instruction. Without it, `mul_add` is a slow function call.
    const FMA: bool;
    /// The name of the instruction set.
    const NAME: &'static str;
    /// The vector register of `f32`.
    type F32: Vector<f32>;
    /// The vector register of `f64`.
    type F64: Vector<f64>;

    /// Computes `a * b + c`, fused where that is one instruction.
    #[inline(always)]
    fn fma<T: Float>(self, a: T, b: T, c: T) -> T {
        if Self::FMA { a.fused(b, c) } else { a * b + c }
    }

    /// Calls the copy of a kernel that was compiled for this set. The copy is a separate function, so a kernel that many
    /// others call is compiled only once per set.
    fn run<K: SimdKernel>(self, kernel: K) -> K::Output;
}

/// The arithmetic of `f32` and `f64` that [`Isa::fma`] needs.
pub trait Float: Sealed + Copy + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> {
    /// Computes `self * b + c` with one rounding.
    fn fused(self, b: Self, c: Self) -> Self;
}

impl Float for f32 {
    #[inline(always)]
    fn fused(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
}

impl Float for f64 {
    #[inline(always)]
    fn fused(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
}

/// Work that is compiled separately for each instruction set. Implementations mark `call` and everything it calls
/// `#[inline(always)]`: only inlined code is compiled for the set.
pub trait SimdKernel {
    /// The result of the kernel.
    type Output;
    /// Does the work with the instructions of `isa`.
    fn call<I: Isa>(self, isa: I) -> Self::Output;
}

/// The baseline instruction set that every machine of the target has.
#[derive(Clone, Copy)]
pub struct Portable(());

impl Sealed for Portable {}

impl Isa for Portable {
    const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
    const NAME: &'static str = "portable";
    type F32 = ArrayRegister<f32, 4>;
    type F64 = ArrayRegister<f64, 2>;

    #[inline(never)]
    fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        kernel.call(self)
    }
}

/// Calls the copy of a kernel that was compiled for the widest instruction set of this machine.
#[inline]
pub fn run<K: SimdKernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        x86::run(kernel)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Portable(()).run(kernel)
    }
}

/// Calls every copy of a kernel that this machine can run, from the narrowest instruction set to the widest, for tests.
#[cfg(test)]
pub fn each<K: SimdKernel>(mut kernel: impl FnMut(&'static str) -> K, mut check: impl FnMut(K::Output)) {
    check(Portable(()).run(kernel(Portable::NAME)));
    #[cfg(target_arch = "x86_64")]
    x86::each(&mut kernel, &mut check);
}

/// The vector instruction sets of x86-64.
#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::{Isa, Portable, Sealed, SimdKernel};
    use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};
    use std::sync::OnceLock;

    /// AVX2 with FMA.
    #[derive(Clone, Copy)]
    pub struct Avx2(());

    impl Sealed for Avx2 {}

    impl Isa for Avx2 {
        const FMA: bool = true;
        const NAME: &'static str = "AVX2";
        type F32 = __m256;
        type F64 = __m256d;

        #[inline(always)]
        fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
            // SAFETY: an `Avx2` is created only after `detect` has found AVX2 and FMA.
            unsafe { with_avx2(self, kernel) }
        }
    }

    /// AVX-512 with its foundation, byte-and-word, doubleword-and-quadword and vector-length parts.
    #[derive(Clone, Copy)]
    pub struct Avx512(());

    impl Sealed for Avx512 {}

    impl Isa for Avx512 {
        const FMA: bool = true;
        const NAME: &'static str = "AVX-512";
        type F32 = __m512;
        type F64 = __m512d;

        #[inline(always)]
        fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
            // SAFETY: an `Avx512` is created only after `detect` has found AVX2, FMA and the four parts of AVX-512.
            unsafe { with_avx512(self, kernel) }
        }
    }

    #[derive(Clone, Copy)]
    enum Detected {
        Portable(Portable),
        Avx2(Avx2),
        Avx512(Avx512),
    }

    static DETECTED: OnceLock<Detected> = OnceLock::new();

    fn detect() -> Detected {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx2, avx512) {
            (true, true) => Detected::Avx512(Avx512(())),
            (true, false) => Detected::Avx2(Avx2(())),
            (false, _) => Detected::Portable(Portable(())),
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn with_avx2<K: SimdKernel>(isa: Avx2, kernel: K) -> K::Output {
        kernel.call(isa)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn with_avx512<K: SimdKernel>(isa: Avx512, kernel: K) -> K::Output {
        kernel.call(isa)
    }

    #[inline]
    pub(super) fn run<K: SimdKernel>(kernel: K) -> K::Output {
        match *DETECTED.get_or_init(detect) {
            Detected::Portable(isa) => isa.run(kernel),
            Detected::Avx2(isa) => isa.run(kernel),
            Detected::Avx512(isa) => isa.run(kernel),
        }
    }

    #[cfg(test)]
    pub(super) fn each<K: SimdKernel>(
        kernel: &mut impl FnMut(&'static str) -> K,
        check: &mut impl FnMut(K::Output),
    ) {
        let detected = *DETECTED.get_or_init(detect);
        if let Detected::Avx2(_) | Detected::Avx512(_) = detected {
            check(Avx2(()).run(kernel(Avx2::NAME)));
        }
        if let Detected::Avx512(isa) = detected {
            check(isa.run(kernel(Avx512::NAME)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [f32]);
    impl SimdKernel for Sum<'_> {
        type Output = f32;
        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> f32 {
            self.0.iter().fold(0.0, |sum, &x| isa.fma(x, x, sum))
        }
    }

    #[test]
    fn every_instruction_set_agrees_with_plain_code() {
        let values: Vec<f32> = (0..100).map(|i| i as f32 * 0.5).collect();
        // Small multiples of 1/4: every sum is exact, fused or not, in any order.
        let plain: f32 = values.iter().map(|x| x * x).sum();
        assert_eq!(run(Sum(&values)), plain);
        each(|_| Sum(&values), |sum| assert_eq!(sum, plain));
    }
}
