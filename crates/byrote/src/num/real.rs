//! The two precisions, as one trait.

use super::elementary::Elementary;
use super::simd::{Float, Isa};
use super::vector::Vector;
use std::ops::{AddAssign, Div, MulAssign, Neg, Sub, SubAssign};

/// f32 or f64.
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
    /// The register of an instruction set that holds this type.
    type Register<I: Isa>: Vector<Self>;
    /// The nearest value.
    fn of(x: f64) -> Self;
    /// As f64.
    fn wide(self) -> f64;
    /// The square root.
    fn root(self) -> Self;
}

impl Real for f32 {
    type Register<I: Isa> = I::F32;
    #[inline(always)]
    fn of(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }
}

impl Real for f64 {
    type Register<I: Isa> = I::F64;
    #[inline(always)]
    fn of(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }
}
