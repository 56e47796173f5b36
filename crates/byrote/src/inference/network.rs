//! The forward pass of a transformer in f32: a [`LanguageModel`] with its weights in memory, packed for products.
//!
//! Rows of many sequences are stacked into the same products ([`super::forward`]), and the logits are reduced as they are computed
//! ([`super::head`]). Every number is a sum in a fixed order, so scores are the same to the last bit for any number of threads and
//! for any sequences scored together.
//!
//! ```
//! use byrote::inference::{LanguageModel, Network, Sampling, Sequence};
//! use byrote::model::{Model, ModelSpec, Preset};
//!
//! let config = ModelSpec::default().preset(Preset::Llama).n_layers(2).d_model(32).resolve(100, 16)?;
//! let network = Network::from_model(&Model::random(config, 0)?)?;
//! let sequence = Sequence { tokens: &[7, 2, 50, 3], scored: 1..4 };
//! let scores = network.score(&[sequence], Sampling::default())?;
//! assert_eq!(scores[0].len(), 3);
//! assert!(scores[0].iter().all(|score| score.log_prob < 0.0));
//! # Ok::<(), byrote::Error>(())
//! ```

use super::forward::{Batch, BlockNetwork, Pool};
use super::one_layer::OneLayer;
use super::statistics::Seen;
use super::weights::Weights;
use super::{Context, ContextScore, LanguageModel, PositionScore, Sampling, Sequence, by_scoring};
use crate::model::{Config, Model, Tensor};
use crate::observe::Observer;
use crate::{Error, Result};

/// The rows that a batch should have at most; a longer sequence is a batch of its own.
pub(super) const ROWS: usize = 1024;

/// A transformer in f32, ready to be run.
pub struct Network(Kind);

enum Kind {
    Blocks(Box<BlockNetwork>),
    OneLayer(Box<OneLayer>),
}

impl Network {
    /// Reads the tensors of a configuration one by one, in the order of [`Config::tensors`]: `read` fills the values of a tensor,
    /// row-major. Models of blocks are never in memory twice.
    ///
    /// # Errors
    /// If the configuration contradicts itself, if `read` fails, or if a tensor has a number that is not finite.
    pub fn new(config: Config, read: &mut dyn FnMut(&Tensor, &mut [f32]) -> Result<()>) -> Result<Self> {
        let config = config.checked()?;
        let Some(blocks) = config.shape.blocks else {
            let mut parameters = vec![0.0; config.n_parameters()];
            for tensor in config.tensors() {
                let mut values = vec![0.0; tensor.range.len()];
                read(&tensor, &mut values)?;
                parameters[tensor.range].iter_mut().zip(values).for_each(|(p, x)| *p = f64::from(x));
            }
            return Ok(Self(Kind::OneLayer(Box::new(OneLayer::new(Model::new(config, parameters)?)))));
        };
        let weights = Weights::read(&config, &blocks, read)?;
        Ok(Self(Kind::Blocks(Box::new(BlockNetwork { config, blocks, weights }))))
    }

    /// Copies a model. Weights are rounded to f32, except those of one-layer transformers.
    ///
    /// # Errors
    /// If a weight is outside the range of f32.
    pub fn from_model(model: &Model) -> Result<Self> {
        if model.config().shape.blocks.is_none() {
            return Ok(Self(Kind::OneLayer(Box::new(OneLayer::new(model.clone())))));
        }
        Self::new(*model.config(), &mut |tensor, values| {
            let source = &model.parameters()[tensor.range.clone()];
            values.iter_mut().zip(source).for_each(|(value, &x)| *value = x as f32);
            Ok(())
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        match &self.0 {
            Kind::Blocks(network) => &network.config,
            Kind::OneLayer(network) => network.config(),
        }
    }
}

impl LanguageModel for Network {
    fn d_vocab(&self) -> u64 {
        self.config().shape.d_vocab
    }

    fn n_ctx(&self) -> u64 {
        self.config().shape.n_ctx
    }

    fn score(&self, sequences: &[Sequence<'_>], sampling: Sampling) -> Result<Vec<Vec<PositionScore>>> {
        self.check(sequences, sampling)?;
        match &self.0 {
            Kind::Blocks(network) => network.score(sequences, sampling),
            Kind::OneLayer(network) => network.score(sequences, sampling),
        }
    }

    fn decode(&self, prefixes: &[&[u32]], n: usize) -> Result<Vec<Vec<u32>>> {
        let Kind::Blocks(network) = &self.0 else {
            return by_scoring::decode(self, prefixes, n);
        };
        for (i, tokens) in prefixes.iter().enumerate() {
            Context { tokens, next: &[] }.check(i, self.d_vocab(), self.n_ctx())?;
            let read = tokens.len() as u64 + (n as u64).saturating_sub(1);
            if read > self.n_ctx() {
                let (length, most) = (tokens.len(), self.n_ctx());
                let message = format!(
                    "context {i} has {length} tokens; with {n} more, the model would read {read} (it reads at most {most})"
                );
                return Err(Error::setting("context", message));
            }
        }
        network.decode(prefixes, n)
    }

    fn score_contexts(&self, contexts: &[Context<'_>], observer: &dyn Observer) -> Result<Vec<ContextScore>> {
        for (i, context) in contexts.iter().enumerate() {
            context.check(i, self.d_vocab(), self.n_ctx())?;
        }
        match &self.0 {
            Kind::Blocks(network) => network.score_contexts(contexts, observer),
            Kind::OneLayer(_) => by_scoring::score_contexts(self, contexts, observer),
        }
    }

    fn score_shared(
        &self,
        sequences: &[Sequence<'_>],
        sampling: Sampling,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<PositionScore>>> {
        let Kind::Blocks(network) = &self.0 else {
            return by_scoring::score_shared(self, sequences, sampling, observer);
        };
        self.check(sequences, sampling)?;
        network.score_shared(sequences, sampling, observer)
    }
}

impl Network {
    fn check(&self, sequences: &[Sequence<'_>], sampling: Sampling) -> Result<()> {
        sampling.checked()?;
        let mut numbered = sequences.iter().enumerate();
        numbered.try_for_each(|(i, sequence)| sequence.check(i, self.d_vocab(), self.n_ctx()))
    }
}

impl BlockNetwork {
    fn score(&self, sequences: &[Sequence<'_>], sampling: Sampling) -> Result<Vec<Vec<PositionScore>>> {
        let pool = Pool::default();
        let mut scores = Vec::with_capacity(sequences.len());
        let mut rest = sequences;
        while !rest.is_empty() {
            let mut rows = 0;
            let fits = |sequence: &&Sequence<'_>| {
                rows += sequence.read().len();
                rows <= ROWS
            };
            let n = rest.iter().take_while(fits).count().max(1);
            let (batch, later) = rest.split_at(n);
            self.score_batch(batch, sampling, &pool, &mut scores)?;
            rest = later;
        }
        Ok(scores)
    }

    fn score_batch(
        &self,
        sequences: &[Sequence<'_>],
        sampling: Sampling,
        pool: &Pool,
        scores: &mut Vec<Vec<PositionScore>>,
    ) -> Result<()> {
        let mut batch = Batch::default();
        let (mut rows, mut targets) = (Vec::new(), Vec::new());
        for sequence in sequences {
            let read = sequence.read();
            rows.extend(sequence.scored.clone().map(|i| batch.len() + i - 1));
            targets.extend_from_slice(&sequence.tokens[sequence.scored.clone()]);
            if !read.is_empty() {
                batch.push(read, 0, read.len());
            }
        }
        let y = self.forward(&batch, pool, &mut [batch.paths(self)], &rows);
        let mut seen: Vec<Seen> = self
            .logits(&y, &targets)
            .into_iter()
            .map(|target| Seen::of_target(target, sampling, self.weights.sizes.d_vocab))
            .collect();
        self.see(&y, &mut seen, pool);
        let mut seen = seen.into_iter();
        for sequence in sequences {
            let own = seen.by_ref().take(sequence.scored.len()).zip(sequence.scored.clone());
            let score = |(seen, position): (Seen, usize)| {
                seen.score(sampling).ok_or_else(|| not_finite(scores.len(), position))
            };
            let own = own.map(score).collect::<Result<_>>()?;
            scores.push(own);
        }
        Ok(())
    }
}

/// The error for logits that are infinite or not numbers.
pub(super) fn not_finite(sequence: usize, position: usize) -> Error {
    let message = format!(
        "the logits at position {position} of sequence {sequence} are not finite: its weights are too large"
    );
    Error::setting("model", message)
}
