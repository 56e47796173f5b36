//! Transformers that learn in context (sander2024).
//!
//! Each sequence obeys x_{t+1} = f(x_t) with its own map f. A causal transformer predicts x_{t+1} from x_1 .. x_t
//! because its layers perform gradient descent: with a kernel k, K_ts = k(x_t, x_s), L its lower triangle and N the
//! same without the diagonal, a layer is
//!
//! ```text
//! u <- u - eta D^-1 (L u - N y),    y_s = x_{s+1},        and the limit of many layers solves  L u = N y
//! ```
//!
//! There are several ways to compute the predictions, with these modules:
//!
//! | what | where |
//! |---|---|
//! | sequences: synthetic (`sequence_task`), read from files ([`sequence_file`](mod@sequence_file)), checked (`sequence`) | |
//! | kernels, and which attention computes which (`kernel`) | |
//! | the limit by forward substitution, O(T^2 d) | `direct` |
//! | the limit for the linear kernel, O(T d^2) | `recursion` |
//! | n layers without a network | `descent` |
//! | n layers of step tau / n for n without end: a flow, solved exactly | [`flow`](mod@flow) |
//! | n layers as a transformer: weights (`construct`), a causal evaluator independent of their origin ([`network`]),
//! files (`network_file`) | |
//! | the error as a product of projections ([`projection`]), and the sum of all squared errors ([`budget`]) | |
//! | step sizes, and which are refused (`step`) | |
//! | what else a user would try: the last value, a linear autoregression ([`baseline`]) | |
//! | the trained variant: gradients (`gradient`), Adam ([`train`]) | |
//! | all of these on several sequences (`experiment`), squared errors (`squared_error`) | |
//!
//! docs/derivations/sander2024.md derives the method and lists the differences from the paper. Reference: M. E. Sander
//! and G. Peyre, arXiv 2410.03011 (only its abstract was available, so the derivation is ours).
//!
//! ```
//! use byrote::incontext::{Attention, Kernel, Map, PredictionMethod, SequenceTask, predict};
//! use byrote::observe::Silent;
//!
//! let sequence = SequenceTask::Linear(Map::Orthogonal).generate(3, 20, 0, 0)?;
//! let kernel = Kernel::exp(1.0)?;
//! let outcome = predict(&[sequence], kernel, Attention::Softmax, PredictionMethod::layers(50), &Silent)?;
//! assert!(outcome.difference.is_some_and(|d| d < 1e-12)); // the transformer and the descent without one
//! # Ok::<(), byrote::Error>(())
//! ```

pub mod baseline;
pub mod budget;
pub(crate) mod construct;
pub(crate) mod descent;
pub(crate) mod direct;
pub(crate) mod experiment;
mod exponential;
pub mod flow;
pub(crate) mod gradient;
pub(crate) mod kernel;
pub mod network;
pub(crate) mod network_file;
pub mod projection;
pub(crate) mod recursion;
pub(crate) mod rows;
mod run;
pub(crate) mod sequence;
pub mod sequence_file;
pub(crate) mod sequence_task;
pub(crate) mod spec;
pub(crate) mod squared_error;
pub(crate) mod step;
pub mod train;

pub use baseline::{Baseline, autoregression};
pub use construct::{NetworkPlan, TokenLayout};
pub use descent::{Descent, Until, descend};
pub use direct::{direct, direct_all};
pub use experiment::{Layers, PredictionMethod, PredictionOutcome, predict};
pub use flow::{euler_constant, flow, flow_all};
pub use kernel::{Attention, Form, Kernel, Over};
pub use network::{AttentionHead, HiddenLayer, Layer, Network};
pub use network_file::{Input, NetworkFile};
pub use projection::Projections;
pub use recursion::{Recursion, recursion, recursion_all};
pub use rows::Rows;
pub use run::{InContextResult, run};
pub use sequence::Sequence;
pub use sequence_task::{Map, SequenceTask, sequences};
pub use spec::{IncontextSpec, KernelKind, MapKind, Sequences, TaskKind};
pub use squared_error::{ErrorAt, ErrorSeries, errors_at, squared_errors, summarize};
pub use step::{Step, descend_safely, predicted_layers};
