//! Rescaled variables: f(scale z) as a function of z. A descent in z is a descent in x = scale z under the metric 1 / scale^2,
//! and a good metric saves many steps.

use super::vectors::PIECE;
use super::{Objective, Stopped};
use crate::num::Real;
use crate::num::simd::{self, Isa, SimdKernel};
use rayon::prelude::*;

/// An objective with rescaled variables.
pub struct Scaled<'a, T, O: ?Sized> {
    /// The function of x.
    pub objective: &'a mut O,
    /// The scale of each variable.
    pub scale: &'a [T],
    /// The buffer for x.
    pub x: &'a mut [T],
}

impl<T: Real, O: Objective<T> + ?Sized> Objective<T> for Scaled<'_, T, O> {
    fn evaluate(&mut self, z: &[T], gradient: &mut [T]) -> Result<f64, Stopped> {
        multiply(self.x, z, self.scale);
        let value = self.objective.evaluate(self.x, gradient)?;
        multiply_by(gradient, self.scale);
        Ok(value)
    }
}

/// Computes `out = a * b` element by element.
pub fn multiply<T: Real>(out: &mut [T], a: &[T], b: &[T]) {
    out.copy_from_slice(a);
    multiply_by(out, b);
}

/// Computes `a *= b` element by element.
pub fn multiply_by<T: Real>(a: &mut [T], b: &[T]) {
    let size = 8 * PIECE;
    a.par_chunks_mut(size).zip(b.par_chunks(size)).for_each(|(a, b)| simd::run(PieceMultiply { a, b }));
}

struct PieceMultiply<'a, T> {
    a: &'a mut [T],
    b: &'a [T],
}

impl<T: Real> SimdKernel for PieceMultiply<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        self.a.iter_mut().zip(self.b).for_each(|(a, b)| *a *= *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_derivatives_follow_the_chain_rule() {
        // f(x) = x_0^2 + 3 x_1 at x = (2, 5) z.
        let mut f = |x: &[f64], g: &mut [f64]| {
            g.copy_from_slice(&[2.0 * x[0], 3.0]);
            x[0] * x[0] + 3.0 * x[1]
        };
        let (mut x, mut g) = ([0.0; 2], [0.0; 2]);
        let mut scaled = Scaled { objective: &mut f, scale: &[2.0, 5.0], x: &mut x };
        assert_eq!(scaled.evaluate(&[3.0, 1.0], &mut g), Ok(36.0 + 15.0));
        assert_eq!(g, [24.0, 15.0]);
        assert_eq!(x, [6.0, 5.0]);
    }
}
