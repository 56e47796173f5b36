//! Training towards the floor.
//!
//! `evaluator` gives the loss and its gradient, which `gradient` computes for one-layer transformers and `blocks` for models of
//! many layers; `spec` and `settings` say how to train and when to stop,
//! `trainer` trains step by step, `loss_curve` records the loss, `checkpoint` holds everything needed to resume, `start`
//! makes the dataset and the first weights, and `run` does the rest, with the files of a run directory.
//!
//! ```
//! use byrote::dataset::Dataset;
//! use byrote::model::{Model, Preset, Shape};
//! use byrote::observe::Silent;
//! use byrote::train::{Limits, Optimizer, Stop, TrainSettings, Trainer};
//! use std::sync::Arc;
//!
//! // Two contexts: after 0 comes 1; after 1 comes 0 or 2, equally often.
//! let contexts = [(vec![0], vec![(1, 4.0)]), (vec![1], vec![(0, 1.0), (2, 1.0)])];
//! let dataset = Arc::new(Dataset::new(3, 1, contexts)?);
//! let shape = Shape { d_vocab: 3, n_ctx: 1, d_model: 4, n_heads: 1, d_head: 4, d_mlp: 8, ..Shape::default() };
//! let model = Model::random(Preset::Madden2024Experiment.config(shape), 0)?;
//! let (settings, limits) = (TrainSettings::new(Optimizer::Lbfgs), Limits::new(Optimizer::Lbfgs));
//! let mut trainer = Trainer::new(&model, &dataset, settings, limits, &Silent)?;
//! assert_eq!(trainer.run(&Silent)?, Stop::Reached);
//! assert!(trainer.gap().0 <= 0.01 * dataset.floor().0); // within 1% of the lowest loss that any model can reach
//! # Ok::<(), byrote::Error>(())
//! ```

mod blocks;
pub(crate) mod checkpoint;
mod cross_entropy;
mod documents;
pub(crate) mod evaluator;
pub(crate) mod gradient;
mod lane;
pub(crate) mod loss_curve;
mod row_products;
pub(crate) mod run;
pub(crate) mod settings;
pub(crate) mod spec;
mod start;
mod state;
pub(crate) mod trainer;
mod warmup;

pub(crate) use blocks::prefixes;
pub use checkpoint::{CHECKPOINT_EVERY, Checkpoint, Identity, Saver};
pub use evaluator::Evaluator;
pub use lane::ProbePoint;
pub use loss_curve::{CurvePoint, LossCurve};
pub use run::{Run, RunDirectory, StepTimes, TrainOptions, run, run_with};
pub use settings::{
    Limits, Optimizer, Sampling, Schedule, Stall, Stop, StopKind, TrainSettings, Trained,
    default_warmup_batches, default_warmup_rate,
};
pub use spec::TrainSpec;
pub use start::{Start, check_weights, memory_needed, start};
pub use state::OptimizerMemory;
pub use trainer::{TrainProgress, Trainer};
