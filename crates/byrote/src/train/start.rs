//! Where a training run begins: its dataset, its first weights, and whether they fit into memory.

use super::settings::{Optimizer, Sampling, TrainSettings};
use super::spec::TrainSpec;
use crate::corpus::Corpus;
use crate::dataset::Dataset;
use crate::model::{Config, Model, ModelFile, ModelSpec, Precision};
use crate::units::grouped;
use crate::{Error, Result};
use std::sync::Arc;

/// What a run begins with, besides its corpus.
#[derive(Debug)]
pub enum Start<'a> {
    /// Random weights of a model, drawn by a seed.
    Random(&'a ModelSpec, u64),
    /// The weights of a model.
    Weights(Box<ModelFile>),
}

/// Returns the dataset of a run, and its first weights. `free` bytes of memory are there for it, if that is known; `saved` says
/// whether the run writes checkpoints.
///
/// # Errors
/// When the model cannot read the corpus, or training it takes more memory than there is.
pub fn start(
    corpus: &Corpus,
    start: Start<'_>,
    training: &TrainSpec,
    saved: bool,
    free: Option<u64>,
) -> Result<(Arc<Dataset>, ModelFile)> {
    let precision = training.precision;
    match start {
        Start::Weights(mut file) => {
            let dataset = Dataset::for_model(corpus, &file).map_err(|error| match error {
                Error::Setting { name: "model", message } => Error::setting("init", message),
                other => other,
            })?;
            let largest = file.model.parameters().iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            if precision == Precision::F32 && largest > f64::from(f32::MAX) {
                let message = format!("holds {largest:e}, too large for f32; use `precision = f64`");
                return Err(Error::setting("init", message));
            }
            file.precision = precision;
            Ok((Arc::new(dataset), *file))
        }
        Start::Random(spec, seed) => {
            let dataset = Dataset::from_corpus(corpus)?;
            let summary = &corpus.summary;
            let config = spec.resolve(summary.d_vocab, u64::from(summary.n_ctx))?;
            check_memory(&config, &dataset, training, saved, free)?;
            let file = ModelFile {
                model: Model::random(config, seed)?,
                precision,
                tokenizer: summary.tokenizer.clone(),
                vocabulary: corpus.vocabulary.clone(),
            };
            Ok((Arc::new(dataset), file))
        }
    }
}

/// Refuses a model that this machine cannot hold while it is trained, before the system kills the program for it.
fn check_memory(
    config: &Config,
    dataset: &Dataset,
    training: &TrainSpec,
    saved: bool,
    free: Option<u64>,
) -> Result<()> {
    check_free(memory_needed(training, config, dataset, saved), config, free)
}

/// Refuses a model whose weights alone are too large for the `free` bytes while it is trained. This needs no dataset; [`start`] also
/// counts what the contexts take.
pub fn check_weights(config: &Config, training: &TrainSpec, saved: bool, free: Option<u64>) -> Result<()> {
    check_free(weights_needed(training, config, saved), config, free)
}

fn check_free(needed: u64, config: &Config, free: Option<u64>) -> Result<()> {
    match free {
        Some(free) if needed > free => {
            let gigabytes = |bytes: u64| match bytes as f64 / f64::from(1 << 30) {
                few @ 0.0..100.0 => format!("{few:.1}"),
                many => grouped(many as u64),
            };
            let message = format!(
                "training {} parameters this way takes about {} GiB, but only {} GiB are free; use a smaller \
                 model, a smaller `memory` or `optimizer = adam`",
                grouped(config.n_parameters() as u64),
                gigabytes(needed),
                gigabytes(free),
            );
            Err(Error::setting("model", message))
        }
        _ => Ok(()),
    }
}

/// Estimates the bytes that the weights take while they are trained, with all that the optimizer keeps per weight.
fn weights_needed(spec: &TrainSpec, config: &Config, saved: bool) -> u64 {
    let pairs = match spec.optimizer {
        Optimizer::Lbfgs => 2 * spec.memory.unwrap_or(TrainSettings::new(Optimizer::Lbfgs).memory),
        Optimizer::Adam | Optimizer::AdamW => 0,
    };
    // The model in f64, the vectors of the optimizer, and all of them once more while a checkpoint is written.
    let (model, vectors) = (24, 4 * (8 + pairs));
    let copies = if saved { 4 } else { 1 };
    (config.n_parameters() as u64).saturating_mul((model + copies * vectors) as u64)
}

/// Estimates the bytes that training a model takes, with checkpoints if `saved`.
pub fn memory_needed(spec: &TrainSpec, config: &Config, dataset: &Dataset, saved: bool) -> u64 {
    let weights = weights_needed(spec, config, saved);
    if config.shape.blocks.is_some() {
        // The gradients of up to 16 lanes; activations adapt to what there is.
        return weights.saturating_add((config.n_parameters() as u64).saturating_mul(8 * 4));
    }
    // Queries, keys, values and their derivatives of every place; what attention mixes for every context.
    let mixed = config.shape.n_heads.saturating_mul(config.shape.d_head);
    let rows = 6 * dataset.places().len() as u64 + 2 * dataset.len() as u64;
    // A fixed sample, and the order of an epoch.
    let batches = if spec.sampling == Sampling::Sample { spec.sample.unwrap_or(0) } else { 0 };
    let sample = batches.saturating_mul(spec.batch.unwrap_or(0) as u64).saturating_mul(16);
    weights.saturating_add(rows.saturating_mul(mixed).saturating_mul(4)).saturating_add(sample)
}
