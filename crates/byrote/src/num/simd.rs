//! Code compiled several times, once an instruction set, and chosen when it runs.
//!
//! A [`Kernel`] is plain scalar code over slices that the compiler turns into vector instructions, or code over the vectors
//! of [`super::vector`]. What [`run`] does with it is to call the copy for the widest instruction set of this machine:
//! AVX-512, AVX2 with FMA, or what every machine of the target has. The choice is made once and is the same for the whole
//! run, so results may differ between machines but not between runs.
//!
//! A value of an instruction set's type is the proof that this machine has it: only [`run`] and [`each`] make them.

use super::vector::{Few, Vector};

/// An instruction set.
pub trait Isa: Copy + Send + Sync {
    /// Whether a fused multiply-add is an instruction (without one, `mul_add` is a slow function call).
    const FMA: bool;
    /// Its name.
    const NAME: &'static str;
    /// A register of f32.
    type F32: Vector<f32>;
    /// A register of f64.
    type F64: Vector<f64>;

    /// a b + c, fused where that is one instruction.
    #[inline(always)]
    fn fma<T: Float>(self, a: T, b: T, c: T) -> T {
        if Self::FMA { a.fused(b, c) } else { a * b + c }
    }

    /// Calls a kernel as compiled for this set: a function of its own, so that a kernel used by many others is compiled
    /// once.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;
}

/// f32 or f64, as far as [`Isa::fma`] needs them.
pub trait Float: Copy + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> {
    /// self * b + c with one rounding.
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

/// Work that is worth compiling for each instruction set. Implementations mark `call`, and what it calls, `#[inline(always)]`:
/// only code that is inlined is compiled for the set.
pub trait Kernel {
    /// What it gives.
    type Output;
    /// Does the work.
    fn call<I: Isa>(self, isa: I) -> Self::Output;
}

/// What every machine of the target has.
#[derive(Clone, Copy)]
pub struct Portable(());

impl Isa for Portable {
    const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
    const NAME: &'static str = "portable";
    type F32 = Few<f32, 4>;
    type F64 = Few<f64, 2>;

    #[inline(never)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.call(self)
    }
}

/// Calls a kernel as compiled for the widest instruction set of this machine.
#[inline]
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        x86::run(kernel)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Portable(()).run(kernel)
    }
}

/// Calls a kernel as compiled for every instruction set that this machine has, from the narrowest: for tests.
pub fn each<K: Kernel>(mut kernel: impl FnMut(&'static str) -> K, mut check: impl FnMut(K::Output)) {
    check(Portable(()).run(kernel(Portable::NAME)));
    #[cfg(target_arch = "x86_64")]
    x86::each(&mut kernel, &mut check);
}

/// The instruction sets of x86-64.
#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::{Isa, Kernel, Portable};
    use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};
    use std::sync::OnceLock;

    /// AVX2 and FMA.
    #[derive(Clone, Copy)]
    pub struct Avx2(());
    impl Isa for Avx2 {
        const FMA: bool = true;
        const NAME: &'static str = "AVX2";
        type F32 = __m256;
        type F64 = __m256d;

        #[inline(always)]
        fn run<K: Kernel>(self, kernel: K) -> K::Output {
            // SAFETY: an `Avx2` is made only where `find` has seen AVX2 and FMA.
            unsafe { with_avx2(self, kernel) }
        }
    }

    /// AVX-512 with its byte, word, double-word and vector-length parts.
    #[derive(Clone, Copy)]
    pub struct Avx512(());
    impl Isa for Avx512 {
        const FMA: bool = true;
        const NAME: &'static str = "AVX-512";
        type F32 = __m512;
        type F64 = __m512d;

        #[inline(always)]
        fn run<K: Kernel>(self, kernel: K) -> K::Output {
            // SAFETY: an `Avx512` is made only where `find` has seen AVX2, FMA and the four parts of AVX-512.
            unsafe { with_avx512(self, kernel) }
        }
    }

    #[derive(Clone, Copy)]
    enum Found {
        Portable(Portable),
        Avx2(Avx2),
        Avx512(Avx512),
    }

    static FOUND: OnceLock<Found> = OnceLock::new();

    fn find() -> Found {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx2, avx512) {
            (true, true) => Found::Avx512(Avx512(())),
            (true, false) => Found::Avx2(Avx2(())),
            (false, _) => Found::Portable(Portable(())),
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn with_avx2<K: Kernel>(isa: Avx2, kernel: K) -> K::Output {
        kernel.call(isa)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn with_avx512<K: Kernel>(isa: Avx512, kernel: K) -> K::Output {
        kernel.call(isa)
    }

    #[inline]
    pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
        match *FOUND.get_or_init(find) {
            Found::Portable(isa) => isa.run(kernel),
            Found::Avx2(isa) => isa.run(kernel),
            Found::Avx512(isa) => isa.run(kernel),
        }
    }

    pub(super) fn each<K: Kernel>(
        kernel: &mut impl FnMut(&'static str) -> K,
        check: &mut impl FnMut(K::Output),
    ) {
        let found = *FOUND.get_or_init(find);
        if let Found::Avx2(_) | Found::Avx512(_) = found {
            check(Avx2(()).run(kernel(Avx2::NAME)));
        }
        if let Found::Avx512(isa) = found {
            check(isa.run(kernel(Avx512::NAME)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [f32]);
    impl Kernel for Sum<'_> {
        type Output = f32;
        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> f32 {
            self.0.iter().fold(0.0, |sum, &x| isa.fma(x, x, sum))
        }
    }

    #[test]
    fn every_instruction_set_gives_what_plain_code_gives() {
        let values: Vec<f32> = (0..100).map(|i| i as f32 * 0.5).collect();
        // Small whole multiples of 1/4: exact, so fused or not, in any order.
        let plain: f32 = values.iter().map(|x| x * x).sum();
        assert_eq!(run(Sum(&values)), plain);
        each(|_| Sum(&values), |sum| assert_eq!(sum, plain));
    }
}
