//! Training towards the floor.
//!
//! [`problem`] turns a set of contexts into the arrays a trainer reads, [`gradient`] evaluates the loss and its gradient,
//! [`spec`] and [`settings`] say how to train and when to stop, [`trainer`] trains step by step, [`curve`] records the loss,
//! [`checkpoint`] holds everything needed to resume.

pub mod checkpoint;
pub mod curve;
pub mod gradient;
mod lane;
pub mod problem;
pub mod settings;
pub mod spec;
mod state;
pub mod trainer;

pub use checkpoint::{Checkpoint, Saver};
pub use curve::{Curve, Row};
pub use gradient::{Evaluator, Layer};
pub use problem::Problem;
pub use settings::{Limits, Method, Sampling, Schedule, Settings, Stall, Stop, Trained};
pub use spec::TrainSpec;
pub use state::Memory;
pub use trainer::{Progress, Trainer};
