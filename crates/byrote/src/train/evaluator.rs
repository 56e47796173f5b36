//! The loss of a model on a dataset, and its gradient: one interface for one-layer transformers and models of blocks.

use super::blocks::BlocksEvaluator;
use super::gradient::OneLayerEvaluator;
use super::lane::ProbePoint;
use super::settings::Trained;
use crate::dataset::Dataset;
use crate::model::{Config, Model};
use crate::num::optimize::Stopped;
use crate::num::real::Real;
use std::ops::Range;
use std::sync::Arc;

/// Evaluates the loss and its gradient; owns all the memory it needs.
///
/// A token or a position outside of the model's tables panics, now or in a later call; [`Dataset::fits`] checks that there is
/// none. So does a vector of parameters that is not as long as the configuration says.
pub struct Evaluator<T, D = Arc<Dataset>> {
    kind: Kind<T, D>,
    /// Parameters whose derivatives are reported as 0.
    frozen: Vec<Range<usize>>,
}

enum Kind<T, D> {
    OneLayer(Box<OneLayerEvaluator<T, D>>),
    Blocks(Box<BlocksEvaluator<T, D>>),
}

impl<T: Real, D: AsRef<Dataset>> Evaluator<T, D> {
    /// Creates an evaluator for models of this configuration, which must be [`Config::checked`] and large enough for
    /// the dataset ([`Dataset::fits`]).
    pub fn new(config: Config, dataset: D) -> Self {
        Self::made(config, dataset, true, None)
    }

    /// Creates an evaluator whose gradient is 0 for every weight that is not trained. Where blocks would keep more than `memory`
    /// bytes of activations for the way back, they keep the residual stream alone and compute the rest again.
    pub fn training(config: Config, dataset: D, trained: Trained, memory: Option<u64>) -> Self {
        Self { frozen: trained.frozen(&config), ..Self::made(config, dataset, true, memory) }
    }

    /// Creates an evaluator for forward passes only: it takes less memory, and exploits a sparse `W_U`.
    pub fn forward(config: Config, dataset: D) -> Self {
        Self::made(config, dataset, false, None)
    }

    /// Creates an evaluator for forward passes of one model only, with the positions that the model stores.
    pub fn of_model(model: &Model, dataset: D) -> Self {
        let mut evaluator = Self::forward(*model.config(), dataset);
        if let Kind::OneLayer(one) = &mut evaluator.kind {
            one.use_positions_of(model);
        }
        evaluator
    }

    /// Divides the contexts into batches for [`Evaluator::evaluate_batch_while`]: about `k`, which `seed` draws. There are none for
    /// one-layer transformers.
    pub(crate) fn divided(mut self, k: usize, seed: u64) -> Self {
        if let Kind::Blocks(blocks) = &mut self.kind {
            blocks.divide(k, seed);
        }
        self
    }

    /// The number of batches that the contexts are divided into.
    pub(crate) fn n_batches(&self) -> usize {
        match &self.kind {
            Kind::OneLayer(_) => 0,
            Kind::Blocks(blocks) => blocks.n_batches(),
        }
    }

    fn made(config: Config, dataset: D, backward: bool, memory: Option<u64>) -> Self {
        let kind = match config.shape.blocks {
            None => Kind::OneLayer(Box::new(OneLayerEvaluator::new(config, dataset, backward))),
            Some(blocks) => {
                Kind::Blocks(Box::new(BlocksEvaluator::new(config, blocks, dataset, backward, memory)))
            }
        };
        Self { kind, frozen: Vec::new() }
    }

    /// Returns the loss in nats, summed over all predictions, and overwrites `gradient`.
    ///
    /// # Panics
    /// If `parameters` or `gradient` is not as long as the configuration says, if the evaluator only goes forward, or if a
    /// token or a position of the dataset exceeds the model's tables.
    pub fn evaluate(&mut self, parameters: &[T], gradient: &mut [T]) -> f64 {
        self.evaluate_while(parameters, gradient, || true).unwrap_or(f64::NAN)
    }

    /// Like [`Evaluator::evaluate`], but stops once `go_on` is false, which is asked often. `gradient` is then left as it was.
    ///
    /// # Panics
    /// Where [`Evaluator::evaluate`] does.
    pub(crate) fn evaluate_while(
        &mut self,
        parameters: &[T],
        gradient: &mut [T],
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        let loss = match &mut self.kind {
            Kind::OneLayer(one) => one.evaluate_while(parameters, gradient, go_on)?,
            Kind::Blocks(blocks) => blocks.evaluate_while(parameters, Some(gradient), go_on)?,
        };
        self.freeze(gradient);
        Ok(loss)
    }

    /// Like [`Evaluator::evaluate_while`], for one of the [batches](Self::divided). Its contexts keep all their next tokens, and the
    /// mean over the batches is the loss over all contexts.
    ///
    /// # Panics
    /// Where [`Evaluator::evaluate`] does, and if there is no such batch.
    pub(crate) fn evaluate_batch_while(
        &mut self,
        batch: usize,
        parameters: &[T],
        gradient: &mut [T],
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        let loss = match &mut self.kind {
            Kind::OneLayer(_) => panic!("a one-layer transformer has no batches that are known in advance"),
            Kind::Blocks(blocks) => blocks.evaluate_batch_while(batch, parameters, gradient, go_on)?,
        };
        self.freeze(gradient);
        Ok(loss)
    }

    fn freeze(&self, gradient: &mut [T]) {
        for range in &self.frozen {
            gradient[range.clone()].fill(T::from_f64(0.0));
        }
    }

    /// Returns the loss alone.
    ///
    /// # Panics
    /// When `parameters` is not as long as the configuration says.
    pub fn loss(&mut self, parameters: &[T]) -> f64 {
        self.loss_while(parameters, || true).unwrap_or(f64::NAN)
    }

    /// Like [`Evaluator::loss`], but stops once `go_on` is false, which is asked often.
    ///
    /// # Panics
    /// When `parameters` is not as long as the configuration says.
    pub(crate) fn loss_while(
        &mut self,
        parameters: &[T],
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        match &mut self.kind {
            Kind::OneLayer(one) => one.loss_while(parameters, go_on),
            Kind::Blocks(blocks) => blocks.evaluate_while(parameters, None, go_on),
        }
    }

    /// Returns the share of predictions whose token had the largest logit when the loss was last evaluated.
    pub fn accuracy(&self) -> f64 {
        let (hits, dataset) = match &self.kind {
            Kind::OneLayer(one) => (one.hits(), one.dataset()),
            Kind::Blocks(blocks) => (blocks.hits(), blocks.dataset()),
        };
        hits / dataset.predictions()
    }

    /// Calls `visit` with the output of a layer for every context: the state of its lane, the context's index in the
    /// dataset, and the row of values. The states, one per lane, are created by `start`. For one-layer transformers they are
    /// returned in the order of the contexts, and the contexts of a lane are visited in order; for models of blocks the order is
    /// that of the trie.
    ///
    /// # Panics
    /// When `parameters` is not as long as the configuration says, and for [`ProbePoint::Mixed`] of a model of blocks.
    pub fn for_each_row<S: Send>(
        &mut self,
        layer: ProbePoint,
        parameters: &[T],
        start: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, usize, &[T]) + Sync,
    ) -> Vec<S> {
        self.for_each_row_while(layer, parameters, || true, start, visit)
    }

    /// Like [`Evaluator::for_each_row`], but visits no more contexts once `go_on` is false, which is asked often.
    ///
    /// # Panics
    /// Where [`Evaluator::for_each_row`] does.
    pub(crate) fn for_each_row_while<S: Send>(
        &mut self,
        layer: ProbePoint,
        parameters: &[T],
        go_on: impl Fn() -> bool + Sync,
        start: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, usize, &[T]) + Sync,
    ) -> Vec<S> {
        match &mut self.kind {
            Kind::OneLayer(one) => one.for_each_row_while(layer, parameters, go_on, start, visit),
            Kind::Blocks(blocks) => blocks.for_each_row_while(layer, parameters, go_on, start, visit),
        }
    }

    /// Returns the output of a layer for all contexts, row by row.
    ///
    /// # Panics
    /// Where [`Evaluator::for_each_row`] does.
    pub fn rows(&mut self, layer: ProbePoint, parameters: &[T]) -> Vec<T> {
        let push =
            |seen: &mut Vec<(usize, Vec<T>)>, context: usize, row: &[T]| seen.push((context, row.to_vec()));
        let mut rows = self.for_each_row(layer, parameters, Vec::new, push).concat();
        rows.sort_by_key(|row| row.0);
        rows.into_iter().flat_map(|row| row.1).collect()
    }

    /// Calls `visit` with the output of attention for every context before `W_O`: the state of its lane, the context's
    /// index, the mixed values of all heads end to end (`[n_heads, d_head]`, empty for token averaging), and the
    /// embedded last token (`[d_model]`). States and order are those of [`Evaluator::for_each_row`], and the values
    /// agree with it bit for bit.
    ///
    /// # Panics
    /// For models of blocks, and when `parameters` is not as long as the configuration says.
    pub fn for_each_attended<S: Send>(
        &mut self,
        parameters: &[T],
        start: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, usize, &[T], &[T]) + Sync,
    ) -> Vec<S> {
        match &mut self.kind {
            Kind::OneLayer(one) => one.for_each_attended(parameters, start, visit),
            Kind::Blocks(_) => panic!("a model of blocks attends in every block"),
        }
    }
}
