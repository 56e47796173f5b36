//! An exact transformer that memorizes N facts with about sqrt(N) parameters.
pub mod blocks;
pub mod bounded;
pub mod build;
pub mod compiled;
pub mod context_map;
pub mod dyadic;
pub mod interpret;
pub mod lookup;
pub mod model;
pub mod network;
pub mod scan;
pub mod task;
pub use build::{Built, Memory, Settings, Step, Unwatched, Watch, build};
pub use dyadic::Dyadic;
pub use lookup::Lookup;
pub use model::{Answer, Method, Model};
pub use network::{Channel, Layer, Network, Neuron, Part, Stage, Tally};
pub use task::{Attention, Defect, Goal, Samples, Task};
