//! Optimisers of smooth functions of many variables: they know vectors and slopes, nothing of models.
//!
//! [`adam`] takes a gradient at a time, [`lbfgs`] turns gradients into directions, [`line_search`] finds a step along one,
//! [`minimize`] puts the last two together, [`scaled`] changes the units first. [`vectors`] has the sums they are made of, which do not depend on the number of
//! threads.

pub mod adam;
pub mod lbfgs;
pub mod line_search;
pub mod minimize;
pub mod scaled;
pub mod vectors;

pub use adam::Adam;
pub use lbfgs::Lbfgs;
pub use line_search::{Point, Search, Wolfe};
pub use minimize::{Descent, Halt, Progress};
pub use scaled::Scaled;

/// A function with a gradient.
pub trait Objective<T> {
    /// The value at `x`; `gradient` is overwritten.
    fn evaluate(&mut self, x: &[T], gradient: &mut [T]) -> f64;
}

impl<T, F: FnMut(&[T], &mut [T]) -> f64> Objective<T> for F {
    fn evaluate(&mut self, x: &[T], gradient: &mut [T]) -> f64 {
        self(x, gradient)
    }
}
