//! Running language models on token ids: what a model says of every position of a sequence.
//!
//! A [`LanguageModel`] is anything that gives logits z over a vocabulary for the token that follows a context. Logits are never
//! kept; six numbers per position are ([`PositionScore`]), from which every measure of memorization follows.

mod activate;
mod attention;
mod by_scoring;
mod contexts;
mod decode;
mod forward;
mod head;
mod network;
mod one_layer;
#[cfg(feature = "onnx")]
mod onnx;
pub(crate) mod onnx_frame;
mod statistics;
#[cfg(test)]
mod tests;
mod weights;

pub use network::Network;
#[cfg(feature = "onnx")]
pub use onnx::OnnxModel;

use crate::num::aligned::padded;
use crate::num::simd;
use crate::observe::Observer;
use crate::{Error, Result};
use statistics::{Seen, Target, Tile};
use std::ops::Range;

/// How a token is drawn: from the `top_k` most likely ones, at a temperature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Tokens whose logit is at least the k-th largest can be drawn; ties with it all stay.
    pub top_k: u32,
    /// The logits are divided by this first.
    pub temperature: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { top_k: 40, temperature: 1.0 }
    }
}

impl Sampling {
    /// The temperatures that are accepted.
    const TEMPERATURES: Range<f64> = 1e-6..1e6;

    /// Returns these settings if they are in range, or an error that names the field.
    pub fn checked(self) -> Result<Self> {
        let Range { start, end } = Self::TEMPERATURES;
        if self.top_k == 0 {
            return Err(Error::setting("top_k", "must be at least 1 (got 0)"));
        }
        if !(start..=end).contains(&self.temperature) {
            let message = format!("must be from {start:e} to {end:e} (got {})", self.temperature);
            return Err(Error::setting("temperature", message));
        }
        Ok(self)
    }
}

/// What a model says of one position, whose token is x. Terms are computed in f32 and summed in f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PositionScore {
    /// ln softmax(z)[x] over the whole vocabulary.
    pub log_prob: f64,
    /// ln of the probability of drawing x, minus infinity where it cannot be drawn:
    /// (z_x - max z) / T - ln sum over {z >= the k-th largest} of exp((z - max z) / T).
    pub log_prob_sampled: f64,
    /// z_x minus the largest logit of any other token, infinite if there is no other. Its sign decides whether x is the most
    /// likely token, its size how safely.
    pub margin: f64,
    /// How many logits are larger than z_x.
    pub rank: u32,
    /// The token with the largest logit, the smallest id among ties.
    pub top: u32,
    /// The mean of ln p under p itself.
    pub mean_log_prob: f64,
    /// The standard deviation of ln p under p itself, from the centred sum of squares, so that it is never negative.
    pub sd_log_prob: f64,
}

impl PositionScore {
    /// What logits say of a position whose token is `token`; `None` if one of them is not finite.
    ///
    /// ```
    /// use byrote::inference::{PositionScore, Sampling};
    /// let score = PositionScore::of_logits(vec![0.0, 1.0], 1, Sampling::default());
    /// assert!(score.is_some_and(|s| (s.log_prob - (1f64.exp() / (1.0 + 1f64.exp())).ln()).abs() < 1e-6 && s.margin == 1.0));
    /// assert_eq!(PositionScore::of_logits(vec![0.0, f32::NAN], 0, Sampling::default()), None);
    /// ```
    ///
    /// # Panics
    /// If the token has no logit.
    pub fn of_logits(mut logits: Vec<f32>, token: u32, sampling: Sampling) -> Option<Self> {
        let n = logits.len();
        let target = Target { token, logit: logits[token as usize] };
        let mut seen = Seen::of_target(target, sampling, n);
        logits.resize(padded(n), f32::MIN);
        let mut e = logits.clone();
        seen.moments = simd::run(Tile { seen: &mut seen, z: &logits, n, first: 0, e: &mut e });
        seen.score(sampling)
    }
}

/// Token ids and the positions to score: position i is predicted from the ids before it, alone, the first of them at position 0 of
/// the model.
#[derive(Debug, Clone)]
pub struct Sequence<'a> {
    /// The ids, all below `d_vocab`; at most `n_ctx + 1` of them, because nothing is predicted from the last.
    pub tokens: &'a [u32],
    /// The positions to score, from 1 to the number of ids.
    pub scored: Range<usize>,
}

impl<'a> Sequence<'a> {
    /// The tokens that the model reads to score what is scored.
    fn read(&self) -> &'a [u32] {
        if self.scored.is_empty() { &[] } else { &self.tokens[..self.scored.end - 1] }
    }

    /// Refuses what a model cannot read; `number` says which sequence it is.
    fn check(&self, number: usize, d_vocab: u64, n_ctx: u64) -> Result<()> {
        let refuse = |message: String| Err(Error::setting("context", format!("sequence {number} {message}")));
        let (length, most) = (self.tokens.len(), n_ctx + 1);
        if length as u64 > most {
            return refuse(format!("must have at most {most} tokens for this model (got {length})"));
        }
        if let Some(token) = self.tokens.iter().find(|&&token| u64::from(token) >= d_vocab) {
            return refuse(format!("has the token {token}, but the model's vocabulary has {d_vocab} tokens"));
        }
        let Range { start, end } = self.scored;
        if start < end && (start == 0 || end > length) {
            return refuse(format!(
                "has {length} tokens, so positions from 1 to {} can be scored (got {start} to {})",
                length.saturating_sub(1),
                end - 1
            ));
        }
        Ok(())
    }
}

/// A context, and tokens whose probabilities after it are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The ids, from 1 to `n_ctx` of them, the first at position 0 of the model.
    pub tokens: &'a [u32],
    /// The wanted tokens, in any order.
    pub next: &'a [u32],
}

impl Context<'_> {
    /// Refuses what a model cannot read; `number` says which context it is.
    fn check(&self, number: usize, d_vocab: u64, n_ctx: u64) -> Result<()> {
        let refuse = |message: String| Err(Error::setting("context", format!("context {number} {message}")));
        let length = self.tokens.len() as u64;
        if length == 0 || length > n_ctx {
            return refuse(format!("must have from 1 to {n_ctx} tokens for this model (got {length})"));
        }
        match self.tokens.iter().chain(self.next).find(|&&token| u64::from(token) >= d_vocab) {
            Some(token) => {
                refuse(format!("has the token {token}, but the model's vocabulary has {d_vocab} tokens"))
            }
            None => Ok(()),
        }
    }
}

/// What a model says of the token after a context.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContextScore {
    /// The logarithms of the probabilities of the wanted tokens, in their order.
    pub log_probs: Vec<f64>,
    /// The most likely token, the smallest id among ties.
    pub top: u32,
    /// The logarithm of its probability.
    pub top_log_prob: f64,
}

/// A model of language: logits for the token that follows a context.
pub trait LanguageModel: Sync {
    /// The number of token ids.
    fn d_vocab(&self) -> u64;

    /// The longest context.
    fn n_ctx(&self) -> u64;

    /// Scores positions: one list per sequence, one score per scored position. The numbers of a sequence do not depend on the other
    /// sequences of the call, nor on the number of threads.
    fn score(&self, sequences: &[Sequence<'_>], sampling: Sampling) -> Result<Vec<Vec<PositionScore>>>;

    /// Continues each prefix by its `n` most likely tokens, one after the other; a tie goes to the smallest id. The last token is
    /// not read, so a prefix and `n - 1` tokens must fit the longest context.
    fn decode(&self, prefixes: &[&[u32]], n: usize) -> Result<Vec<Vec<u32>>> {
        by_scoring::decode(self, prefixes, n)
    }

    /// The distribution of the next token after each context: the probabilities of some tokens, and the most likely one.
    fn score_contexts(&self, contexts: &[Context<'_>], observer: &dyn Observer) -> Result<Vec<ContextScore>> {
        by_scoring::score_contexts(self, contexts, observer)
    }

    /// Like [`score`](Self::score), for sequences many of which begin with the same tokens.
    fn score_shared(
        &self,
        sequences: &[Sequence<'_>],
        sampling: Sampling,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<PositionScore>>> {
        by_scoring::score_shared(self, sequences, sampling, observer)
    }
}
