//! Training towards the floor.
//!
//! [`problem`] turns a set of contexts into the arrays a trainer reads, [`gradient`] evaluates the loss and its gradient.

pub mod gradient;
mod lane;
pub mod problem;

pub use gradient::Evaluator;
pub use problem::Problem;
