//! Training towards the floor.
//!
//! [`problem`] turns a set of contexts into the arrays a trainer reads, [`gradient`] evaluates the loss and its gradient,
//! [`settings`] says how to train and when to stop, [`trainer`] does it a step at a time, [`curve`] is what it has seen on
//! the way, [`checkpoint`] is everything it needs to go on another day.

pub mod checkpoint;
pub mod curve;
pub mod gradient;
mod lane;
pub mod problem;
pub mod settings;
mod state;
pub mod trainer;

pub use checkpoint::{Checkpoint, Saver};
pub use curve::{Curve, Row};
pub use gradient::{Evaluator, Layer};
pub use problem::Problem;
pub use settings::{Limits, Method, Sampling, Schedule, Settings, Stall, Stop, Trained};
pub use state::Memory;
pub use trainer::{Progress, Trainer};
