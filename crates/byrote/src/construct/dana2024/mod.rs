//! dana2024, Theorem 1: attention alone, with a skip connection, stores H d_h + d contexts.
//!
//! **Statement.** For a distribution over sequences whose next-token distributions have full support, eps >= 0 and
//! gamma > 0, there is a one-layer attention-only transformer with H d_h + d >= T_eps whose divergence is at most
//!
//! ```text
//! KL(pi, best encoder of rank d) + C eps |WE| + gamma
//! ```
//!
//! with T_eps the smallest number of sequences that have 1 - eps of the probability. Corollary 1: with one next token
//! per sequence, d = 2 is enough to get all H d_h + d of them right. In words: every head contributes d_h numbers per
//! context and the skip connection d; the output is linear in them, so as many contexts as there are numbers can be
//! given arbitrary codes.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | `d_model`, `d_head`, `n_heads` | d, d_h, H | dimensions |
//! | `W_E`, `W_pos` | e, pos | embedding, positions |
//! | F, [`features`] | W_V A' | the features in which the output is linear |
//! | `encoder`, `codes` | W, E | output matrix and codes that the model should have |
//! | [`Census::capacity`] | H d_h + d | the number of contexts that can be stored |
//!
//! **Corrected** (docs/errata.md): the capacity is at most H min(d_h, d) + min(d, distinct last tokens) (E4, E5), needs
//! contexts of two tokens or more (E7), and is not reached on structured sets (E11), so the numerical rank of F
//! decides. **Differences from the proof**: the skip connection is absorbed exactly instead of being imitated by a head
//! (E6, [`linear_system`]); values are orthonormal; draws are repeated until one is well conditioned; above capacity the last
//! maps are fitted to all contexts (E9, [`refit`]), where the theorem stores the most frequent ones and ignores the
//! rest (as `truncate` does).
//!
//! **It refuses**, under [`Method::Exact`], more contexts than the capacity, more contexts of one token than `d_model`,
//! features without full rank, and any result whose logits, measured with the public forward pass, are wrong by more
//! than the tolerance times the largest logit (or times 1, if that is larger).
//!
//! Dana, Pydi, Chevaleyre, "Memorization in attention-only transformers", arXiv:2411.10115 (version not marked), Theorem 1,
//! Corollaries 1 and 2, Propositions 1 to 3, Theorem 2.
//!
//! ```
//! use byrote::construct::dana2024::{Settings, build};
//! use byrote::dataset::Dataset;
//! use byrote::observe::Silent;
//!
//! // The token after two others is their sum, modulo 3.
//! let pairs = (0..9).map(|i| (i / 3, i % 3));
//! let dataset = Dataset::new(3, 2, pairs.map(|(a, b)| (vec![a, b], vec![((a + b) % 3, 1.0)])))?;
//! let (model, _) = build(&dataset, &Settings::default(), &Silent)?;
//! let logits = model.logits(&[2, 2])?;
//! assert!(logits[1] > logits[0].max(logits[2]));
//! # Ok::<(), byrote::Error>(())
//! ```

mod builder;
pub(crate) mod capacity;
pub(crate) mod codes;
pub(crate) mod encoder;
mod encoder_gap;
#[cfg(test)]
pub(crate) mod examples;
mod features;
mod linear_system;
mod refit;
mod report;
mod target;
#[cfg(test)]
mod tests;
pub(crate) mod theorem2;

pub use capacity::{Census, by_frequency, corollary2, t_epsilon};
pub use codes::{CodeLayout, Codes};
pub use encoder::{Effort, Encoder};
pub use encoder_gap::EncoderGap;
pub use features::KAPPA;
pub use refit::Steps;
pub use report::{EncoderReport, Report};
pub use theorem2::{Theorem2, theorem2, top_token};

use super::{Dana2024Spec, MAX_MEMORY, check_tolerance};
use crate::dataset::Dataset;
use crate::error::Refusal;
use crate::model::Model;
use crate::observe::Observer;
use crate::setting::choices;
use crate::units::Nats;
use crate::{Error, Result};
use builder::Builder;

/// The key of the paper, for errors.
pub(super) const KEY: &str = "dana2024";

/// How the last maps are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Every context gets the code of the encoder.
    Exact,
    /// Fits all contexts as well as possible.
    Refit,
    /// Stores the most frequent contexts exactly and accepts whatever logits the others get.
    Truncate,
}

choices!(Method, "method" { Exact = "exact", Refit = "refit", Truncate = "truncate" });

/// What is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// One token per context: the most frequent next one.
    Association,
    /// The distribution of the next token.
    Distribution,
}

choices!(Task, "task" { Association = "association", Distribution = "distribution" });

/// Describes the model to build.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// The width of the residual stream; by default 16, or the number of one-token contexts if that is larger.
    pub d_model: Option<u64>,
    /// The number of heads; by default as many as the contexts need.
    pub n_heads: Option<u64>,
    /// The width of a head; by default `d_model`.
    pub d_head: Option<u64>,
    /// The method; by default exact if the contexts fit, otherwise refit.
    pub method: Option<Method>,
    /// What to store; by default associations if every context has one next token, otherwise distributions.
    pub task: Option<Task>,
    /// The requested total gap, if the rank of the output allows it.
    pub gap: Nats,
    /// Under [`Method::Truncate`], the fraction of predictions that may be left out; by default as many contexts are
    /// stored as fit.
    pub epsilon: Option<f64>,
    /// The spread of the attention scores.
    pub kappa: f64,
    /// The largest accepted error of a logit, relative to the largest logit or 1.
    pub tolerance: f64,
    /// The effort of the search for an encoder.
    pub effort: Effort,
    /// The effort of the refit.
    pub steps: Steps,
    /// The seed of the random draws.
    pub seed: u64,
    /// The memory limit for the matrices of the system, in bytes.
    pub max_memory: u64,
}

/// As in [`Dana2024Spec`].
impl Default for Settings {
    fn default() -> Self {
        Dana2024Spec::default().settings(0, MAX_MEMORY)
    }
}

crate::setting::setters!(Settings {
    d_model: into(impl Into<Option<u64>>),
    n_heads: into(impl Into<Option<u64>>),
    d_head: into(impl Into<Option<u64>>),
    method: into(impl Into<Option<Method>>),
    task: into(impl Into<Option<Task>>),
    gap: plain(Nats),
    epsilon: into(impl Into<Option<f64>>),
    kappa: plain(f64),
    tolerance: plain(f64),
    effort: plain(Effort),
    steps: plain(Steps),
    seed: plain(u64),
    max_memory: plain(u64),
});

impl Settings {
    /// Makes every check that does not need contexts.
    pub(in crate::construct) fn check(&self) -> Result<()> {
        if !(self.kappa > 0.0 && self.kappa.is_finite()) {
            let message = format!("must be finite and above 0 (got {})", self.kappa);
            return Err(Error::setting("kappa", message));
        }
        if let Some(epsilon) = self.epsilon.filter(|e| !(0.0..1.0).contains(e)) {
            return Err(Error::setting("epsilon", format!("must be at least 0 and below 1 (got {epsilon})")));
        }
        if self.epsilon.is_some() && self.method != Some(Method::Truncate) {
            let message = "applies only to `method = truncate`; the other methods leave no context out";
            return Err(Error::setting("epsilon", message));
        }
        check_tolerance(self.tolerance)
    }
}

/// Constructs a model that stores the dataset.
pub fn build(dataset: &Dataset, settings: &Settings, observer: &dyn Observer) -> Result<(Model, Report)> {
    settings.check()?;
    let mut builder = Builder::new(dataset, settings, observer)?;
    let method = match settings.method {
        Some(Method::Exact) => {
            builder.check_capacity()?;
            Method::Exact
        }
        Some(method) => method,
        None if builder.check_capacity().is_ok() => Method::Exact,
        None => Method::Refit,
    };
    builder.check_memory()?;
    let target = builder.target()?;
    match method {
        Method::Exact => match builder.exact(&target) {
            // Exact if the contexts fit; otherwise all are fitted as well as possible.
            Err(Error::Refused { refusal, .. })
                if settings.method.is_none() && !matches!(refusal, Refusal::Memory { .. }) =>
            {
                builder.refit(&target)
            }
            found => found,
        },
        Method::Refit => builder.refit(&target),
        Method::Truncate => builder.truncate(&target),
    }
}
