//! A line of numbers in registers: what sums over rows of whole lines are kept in.

use super::line::LINE;
use super::real::Real;
use super::simd::Isa;
use super::vector::Vector;

/// The most registers a line takes: those of two f64.
const MOST: usize = 8;

/// [`LINE`] numbers in as many registers as that takes.
#[derive(Clone, Copy)]
pub struct Wide<T: Real, I: Isa>([T::Register<I>; MOST]);

// SAFETY of all blocks here: an `I` is given only where the machine has the instruction set, a `Wide` is made only with an
// `I`, and loads and stores stay inside a line: `REGISTERS` times the lanes of a register are LINE.
impl<T: Real, I: Isa> Wide<T, I> {
    const REGISTERS: usize = LINE / T::Register::<I>::LANES;

    /// The same number everywhere.
    #[inline(always)]
    pub fn splat(_: I, x: T) -> Self {
        // SAFETY: see above.
        Self([unsafe { T::Register::<I>::splat(x) }; MOST])
    }

    /// A line.
    #[inline(always)]
    pub fn load(isa: I, line: &[T; LINE]) -> Self {
        let mut out = Self::splat(isa, T::of(0.0));
        for i in 0..Self::REGISTERS {
            // SAFETY: see above.
            out.0[i] = unsafe { T::Register::<I>::load(line.as_ptr().add(i * T::Register::<I>::LANES)) };
        }
        out
    }

    /// Writes a line.
    #[inline(always)]
    pub fn store(self, line: &mut [T; LINE]) {
        for i in 0..Self::REGISTERS {
            // SAFETY: see above.
            unsafe { self.0[i].store(line.as_mut_ptr().add(i * T::Register::<I>::LANES)) };
        }
    }

    /// self b + c.
    #[inline(always)]
    pub fn fma(mut self, b: Self, c: Self) -> Self {
        for i in 0..Self::REGISTERS {
            // SAFETY: see above.
            self.0[i] = unsafe { self.0[i].fma(b.0[i], c.0[i]) };
        }
        self
    }

    /// self + b.
    #[inline(always)]
    pub fn plus(mut self, b: Self) -> Self {
        for i in 0..Self::REGISTERS {
            // SAFETY: see above.
            self.0[i] = unsafe { self.0[i].add(b.0[i]) };
        }
        self
    }

    /// The larger of each two numbers; `b` where one is NaN.
    #[inline(always)]
    pub fn max(mut self, b: Self) -> Self {
        for i in 0..Self::REGISTERS {
            // SAFETY: see above.
            self.0[i] = unsafe { self.0[i].max(b.0[i]) };
        }
        self
    }

    /// The numbers.
    #[inline(always)]
    pub fn array(self) -> [T; LINE] {
        let mut line = [T::of(0.0); LINE];
        self.store(&mut line);
        line
    }

    /// The sum of all, halves added until one is left.
    #[inline(always)]
    pub fn sum(self) -> T {
        let line = self.array();
        let mut four = [T::of(0.0); 4];
        for i in 0..4 {
            four[i] = (line[i] + line[i + 8]) + (line[i + 4] + line[i + 12]);
        }
        (four[0] + four[2]) + (four[1] + four[3])
    }
}
