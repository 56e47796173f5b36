//! The two floating-point precisions behind one trait.

use super::elementary::Elementary;
use super::simd::{Float, Isa};
use super::vector::Vector;
use std::ops::{AddAssign, Div, MulAssign, Neg, Sub, SubAssign};

/// A floating-point type: `f32` or `f64`, and no other ([`Float`] is sealed).
pub trait Real:
    Float
    + Elementary
    + Send
    + Sync
    + Default
    + PartialOrd
    + Sub<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + 'static
{
    /// The vector register that holds this type under an instruction set.
    type Register<I: Isa>: Vector<Self>;
    /// Rounds to the nearest value of this type.
    fn from_f64(x: f64) -> Self;
    /// Converts to `f64`, exactly.
    fn to_f64(self) -> f64;
    /// Returns the square root.
    fn sqrt(self) -> Self;
}

impl Real for f32 {
    type Register<I: Isa> = I::F32;
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }
}

impl Real for f64 {
    type Register<I: Isa> = I::F64;
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
}
