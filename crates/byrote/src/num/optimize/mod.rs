//! Optimizers for smooth functions of many variables. They know nothing about models.
//!
//! [`adam`] takes one step per gradient, [`lbfgs`] turns gradients into directions, [`line_search`] finds a step along a
//! direction, [`minimize`] combines the last two, and [`scaled`] rescales the variables. [`vectors`] has the sums they share,
//! which do not depend on the number of threads.

pub mod adam;
pub mod lbfgs;
pub mod line_search;
pub mod minimize;
pub mod scaled;
pub mod vectors;

pub use adam::Adam;
pub use lbfgs::Lbfgs;
pub use line_search::Wolfe;
pub use minimize::{Halt, Minimizer};

use crate::Error;

/// Someone asked an evaluation to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

impl From<Stopped> for Error {
    fn from(_: Stopped) -> Self {
        Error::Interrupted
    }
}

/// A differentiable function.
pub trait Objective<T> {
    /// Returns the value at `x` and overwrites `gradient`.
    fn evaluate(&mut self, x: &[T], gradient: &mut [T]) -> Result<f64, Stopped>;
}

impl<T, F: FnMut(&[T], &mut [T]) -> f64> Objective<T> for F {
    fn evaluate(&mut self, x: &[T], gradient: &mut [T]) -> Result<f64, Stopped> {
        Ok(self(x, gradient))
    }
}
