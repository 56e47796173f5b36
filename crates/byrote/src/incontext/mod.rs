//! Transformers that learn in the context.

pub mod construct;
pub mod descent;
pub mod direct;
pub mod errors;
pub mod experiment;
pub mod file;
pub mod gradient;
pub mod kernel;
pub mod network;
pub mod network_file;
pub mod recursion;
pub mod rows;
pub mod sequence;
pub mod step;
pub mod task;
pub mod train;

pub use construct::{Plan, Token};
pub use descent::{Descent, Until, descend};
pub use direct::{direct, direct_all};
pub use errors::{ErrorAt, squared_errors, summarize};
pub use experiment::{Layers, Method, Outcome, predict};
pub use kernel::{Attention, Form, Kernel, Over};
pub use network::{Head, Hidden, Layer, Network};
pub use network_file::{Input, NetworkFile};
pub use recursion::{Recursion, recursion, recursion_all};
pub use rows::Rows;
pub use sequence::Sequence;
pub use step::{Step, descend_safely};
pub use task::{Map, Task};
