//! Fewer parameters than facts: an exact transformer that memorizes N facts with about sqrt(N) parameters.
//!
//! The result is due to Kajitsuka and Sato: transformers label N contexts with O~(sqrt N) parameters, sequences of n tokens at every
//! position with O~(sqrt(n N)), and no fewer suffice up to logarithms. The construction here is ours, in the tradition of bit
//! extraction (Vardi, Yehudai and Shamir): the facts are stored in the digits of a few very long weights, and a deep network of
//! narrow layers extracts the requested one. The builder verifies every fact in exact arithmetic.
//!
//! ```text
//! task           contexts, positions and labels to memorize                     corpus_task, pairs: where they come from
//! context_map    tokens --square--> --attention--> --reduce--> one id per context
//! bounded        blocks --lookup--> the word of the id's block --scan--> its label       with a worst-case guarantee
//! searched       hash_search, halving: --lookup--> table and slot --shift--> --digit-->  smaller, found by search
//! exact_network  layers and weights as data; dyadic: the numbers                exact_file: the text format
//! interpret      evaluates layer by layer                                       compiled: the same, fast
//! build          builds and verifies; exact_model: answers queries              evaluate: on a text
//! selecting      the variant whose heads choose one position each
//! sharpness      how sharp or even a softmax must be; magnification, rounding: what follows the attention
//! crossing       the number of facts above which there are fewer parameters than facts
//! ```
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | N | N (next token), n N (sequence to sequence) | distinct samples |
//! | C | | labels |
//! | x < R | | the id of a context |
//!
//! Checked: conflicting labels (an error) and every sample (exactly, by both evaluators). Not checked: the answer to a context
//! that was not memorized is arbitrary. The network needs exact arithmetic; any rounding destroys it. It saves parameters, not
//! bits: see docs/derivations/kajitsuka2024.md.
//!
//! Reference: T. Kajitsuka, I. Sato, "On the Optimal Memorization Capacity of Transformers", arXiv:2409.17677 (abstract; version
//! not stated); G. Vardi, G. Yehudai, O. Shamir, "On the Optimal Memorization Power of ReLU Neural Networks", arXiv:2110.03187.
//!
//! ```
//! use byrote::construct::kajitsuka2024::{Goal, Samples, Settings, Task, Visibility, build};
//! use byrote::observe::Silent;
//!
//! let (goal, attention) = (Goal::Next, Visibility::Causal);
//! let task = Task { goal, attention, padded: false, d_vocab: 2, n_ctx: 2, labels: 3 };
//! let facts: [(&[u32], &[u32]); 3] = [(&[0], &[2]), (&[1], &[0]), (&[0, 1], &[1])];
//! let samples = Samples::new(task, facts).map_err(byrote::Error::from)?;
//! let built = build(&samples, &Settings::default(), &Silent)?;
//! assert_eq!(built.verified, 3);
//! assert_eq!(built.model.ready().answer(&[0, 1], None)?.label(), Some(1));
//! # Ok::<(), byrote::Error>(())
//! ```

pub(crate) mod blocks;
pub(crate) mod bounded;
pub(crate) mod build;
pub(crate) mod compiled;
pub(crate) mod context_map;
pub mod corpus_task;
pub(crate) mod crossing;
pub(crate) mod dyadic;
pub(crate) mod evaluate;
pub(crate) mod exact_file;
pub(crate) mod exact_model;
pub(crate) mod exact_network;
pub(crate) mod halving;
pub(crate) mod hash_search;
pub(crate) mod interpret;
pub(crate) mod lookup;
pub(crate) mod magnification;
pub mod pairs;
pub(crate) mod rounding;
pub(crate) mod searched;
pub(crate) mod selecting;
pub(crate) mod sharpness;
pub(crate) mod task;
pub(crate) mod word_scan;

pub use build::{Built, MemoryKind, Settings, build};
pub use context_map::ContextMap;
pub use crossing::{crossing, measured_crossing, random_facts, random_facts_of};
pub use dyadic::Dyadic;
pub use evaluate::{ExactEvaluation, NetworkSize, build_for, evaluate, evaluate_labelled};
pub use exact_file::{ExactFile, Labels};
pub use exact_model::{Answer, ExactModel, Method, Ready};
pub use exact_network::{
    Channel, ExactNetwork, NetworkStage, Neuron, Readout, StagePurpose, SubLayer, Weight, WeightTally,
};
pub use lookup::Lookup;
pub use magnification::magnification;
pub use pairs::{Labelled, Switches};
pub use rounding::{rounding_parameters, with_rounding};
pub use selecting::SelectingNetwork;
pub use sharpness::{Sharpness, evenness, sharpness};
pub use task::{Defect, Goal, MAX_CONTEXT, Sample, Samples, Task, Visibility};
