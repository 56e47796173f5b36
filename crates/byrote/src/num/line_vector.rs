//! One line of numbers held in vector registers: the accumulator of sums over padded rows.

use super::aligned::LINE;
use super::real::Real;
use super::simd::Isa;
use super::vector::Vector;

/// The most registers that a line takes: registers of two `f64`.
const MOST: usize = 8;

/// [`LINE`] numbers in as many registers as they take.
#[derive(Clone, Copy)]
pub struct LineVector<T: Real, I: Isa>([T::Register<I>; MOST]);

// All unsafe blocks below are sound for two reasons. A `LineVector` is created only from an `I`, which proves that the machine
// has the instruction set. Loads and stores stay inside one line, because `REGISTERS * LANES == LINE` (checked when compiled).
impl<T: Real, I: Isa> LineVector<T, I> {
    const REGISTERS: usize = {
        let lanes = T::Register::<I>::LANES;
        assert!(LINE.is_multiple_of(lanes) && LINE / lanes <= MOST, "registers divide a line");
        LINE / lanes
    };

    /// Puts the same number everywhere.
    #[inline(always)]
    pub fn splat(_: I, x: T) -> Self {
        // SAFETY: the instruction set is proven by `I`.
        Self([unsafe { T::Register::<I>::splat(x) }; MOST])
    }

    /// Loads a line.
    #[inline(always)]
    pub fn load(isa: I, line: &[T; LINE]) -> Self {
        let mut out = Self::splat(isa, T::from_f64(0.0));
        for i in 0..Self::REGISTERS {
            // SAFETY: the instruction set is proven by `I`, and register i lies inside the line.
            out.0[i] = unsafe { T::Register::<I>::load(line.as_ptr().add(i * T::Register::<I>::LANES)) };
        }
        out
    }

    /// Stores the numbers in a line.
    #[inline(always)]
    pub fn store(self, line: &mut [T; LINE]) {
        for i in 0..Self::REGISTERS {
            // SAFETY: the instruction set is proven by `I`, and register i lies inside the line.
            unsafe { self.0[i].store(line.as_mut_ptr().add(i * T::Register::<I>::LANES)) };
        }
    }

    /// Computes `self * b + c`.
    #[inline(always)]
    pub fn fma(mut self, b: Self, c: Self) -> Self {
        for i in 0..Self::REGISTERS {
            // SAFETY: the instruction set is proven by `I`.
            self.0[i] = unsafe { self.0[i].fma(b.0[i], c.0[i]) };
        }
        self
    }

    /// Computes `self + b`.
    #[inline(always)]
    pub fn plus(mut self, b: Self) -> Self {
        for i in 0..Self::REGISTERS {
            // SAFETY: the instruction set is proven by `I`.
            self.0[i] = unsafe { self.0[i].add(b.0[i]) };
        }
        self
    }

    /// Returns the larger of each pair of numbers, or the one of `b` where either is NaN.
    #[inline(always)]
    pub fn max(mut self, b: Self) -> Self {
        for i in 0..Self::REGISTERS {
            // SAFETY: the instruction set is proven by `I`.
            self.0[i] = unsafe { self.0[i].max(b.0[i]) };
        }
        self
    }

    /// Returns the numbers.
    #[inline(always)]
    pub fn array(self) -> [T; LINE] {
        let mut line = [T::from_f64(0.0); LINE];
        self.store(&mut line);
        line
    }

    /// Returns the sum of all numbers, added pairwise in a fixed order.
    #[inline(always)]
    pub fn sum(self) -> T {
        let line = self.array();
        let mut four = [T::from_f64(0.0); 4];
        for i in 0..4 {
            four[i] = (line[i] + line[i + 8]) + (line[i + 4] + line[i + 12]);
        }
        (four[0] + four[2]) + (four[1] + four[3])
    }

    /// Returns the largest number, if none is NaN.
    #[inline(always)]
    pub fn largest(self) -> T {
        // In the shape of the sum, which the compiler turns into a few instructions.
        let larger = |a: T, b: T| if b > a { b } else { a };
        let line = self.array();
        let mut four = [T::from_f64(0.0); 4];
        for i in 0..4 {
            four[i] = larger(larger(line[i], line[i + 8]), larger(line[i + 4], line[i + 12]));
        }
        larger(larger(four[0], four[2]), larger(four[1], four[3]))
    }
}
