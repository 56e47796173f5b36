//! dana2024, Theorem 1: attention alone, with a skip connection, stores H d_h + d contexts.
//!
//! **Statement.** For a distribution over sequences whose next-token distributions have full support, eps >= 0 and gamma > 0,
//! there is a one-layer transformer of attention alone with H d_h + d >= T_eps whose divergence is at most
//!
//! ```text
//! KL(pi, best encoder of rank d) + C eps |WE| + gamma
//! ```
//!
//! T_eps the least number of sequences that have 1 - eps of the probability. Corollary 1: with one next token a sequence,
//! d = 2 is enough to get all H d_h + d of them right. In words: every head contributes d_h numbers a context and the skip
//! connection d, the output is linear in them, so as many contexts as numbers can be given any codes.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | `d_model`, `d_head`, `n_heads` | d, d_h, H | dimensions |
//! | `W_E`, `W_pos` | e, pos | embedding, positions |
//! | F, [`features`] | W_V A' | what the output is linear in |
//! | [`encoder`], [`codes`] | W, E | output matrix and codes that the model is to have |
//! | [`Census::capacity`] | H d_h + d | contexts that can be stored |
//!
//! **Repaired** (docs/errata.md): the capacity is H min(d_h, d) + min(d, distinct last tokens) at most (E4, E5), needs contexts
//! of two tokens or more (E7), and is not reached on structured sets (E11), so the numerical rank of F decides. **Deviations**:
//! the skip connection is absorbed exactly instead of being imitated by a head (E6, [`solve`]); values are orthonormal; draws
//! are made again until one is well conditioned; above capacity the last maps are fitted to all contexts (E9, [`refit`])
//! where the theorem stores the most frequent ones and ignores the rest (`truncate` does that).
//!
//! **It refuses**, under [`Method::Exact`], more contexts than the capacity, more contexts of one token than `d_model`, features
//! without full rank, and any result whose logits, measured with the public forward pass, are off by more than the tolerance
//! times the largest logit (times 1 where that is less).
//!
//! Dana, Pydi, Chevaleyre, "Memorization in attention-only transformers", arXiv:2411.10115 (version not marked), Theorem 1,
//! Corollaries 1 and 2, Propositions 1 to 3, Theorem 2.

pub mod capacity;
pub mod codes;
pub mod encoder;
#[cfg(test)]
pub(crate) mod examples;
mod features;
mod job;
mod refit;
mod report;
mod solve;
mod target;
#[cfg(test)]
mod tests;
pub mod theorem2;

pub use capacity::Census;
pub use codes::Codes;
pub use encoder::{Effort, Encoder};
pub use features::KAPPA;
pub use refit::Steps;
pub use report::{EncoderReport, Report};
pub use theorem2::{Theorem2, theorem2};

use super::check_tolerance;
use crate::dataset::Dataset;
use crate::error::Refusal;
use crate::model::Model;
use crate::observe::Observer;
use crate::setting::choices;
use crate::units::Nats;
use crate::{Error, Result};
use job::Job;

/// The key of the paper, in errors.
pub(super) const KEY: &str = "dana2024";

/// What to do with the last maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Every context gets the code of the encoder.
    Exact,
    /// All contexts as well as they can be.
    Refit,
    /// The most frequent contexts exactly, the rest as it comes.
    Truncate,
}

choices!(Method, "method" { Exact = "exact", Refit = "refit", Truncate = "truncate" });

/// What is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// One token a context: the most frequent next one.
    Association,
    /// The distribution of the next token.
    Distribution,
}

choices!(Task, "task" { Association = "association", Distribution = "distribution" });

/// What to build.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The width of the stream; by default 16, or the contexts of one token if they are more.
    pub d_model: Option<u64>,
    /// Heads; by default as many as the contexts need.
    pub n_heads: Option<u64>,
    /// The width of a head; by default `d_model`.
    pub d_head: Option<u64>,
    /// By default exact where it fits, refit where not.
    pub method: Option<Method>,
    /// By default association where every context has one next token, distribution where not.
    pub task: Option<Task>,
    /// The total gap asked for, where the rank of the output allows it.
    pub gap: Nats,
    /// Under [`Method::Truncate`], the share of the predictions that may be left out; by default as many contexts are stored as
    /// there is room for.
    pub epsilon: Option<f64>,
    /// The spread of the attention scores.
    pub kappa: f64,
    /// The largest error of a logit that is accepted, by the largest logit or 1.
    pub tolerance: f64,
    /// How long to search for an encoder.
    pub effort: Effort,
    /// How long to refit.
    pub steps: Steps,
    /// The seed of the random draws.
    pub seed: u64,
    /// The most memory for the matrices of the system, in bytes.
    pub max_memory: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            d_model: None,
            n_heads: None,
            d_head: None,
            method: None,
            task: None,
            gap: Nats(5e-5),
            epsilon: None,
            kappa: KAPPA,
            tolerance: 1e-6,
            effort: Effort { restarts: 0, work: 4e11, ..Effort::default() },
            steps: Steps::default(),
            seed: 0,
            max_memory: 8 << 30,
        }
    }
}

impl Settings {
    /// Makes every check that needs no contexts.
    pub(in crate::construct) fn check(&self) -> Result<()> {
        if !(self.kappa > 0.0 && self.kappa.is_finite()) {
            return Err(Error::setting("kappa", format!("must be above 0 (got {})", self.kappa)));
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

/// Writes down a model that stores the problem.
pub fn build(problem: &Dataset, settings: &Settings, observer: &dyn Observer) -> Result<(Model, Report)> {
    if problem.is_empty() {
        return Err(Error::EmptyCorpus { message: "no context is followed by a token".into() });
    }
    settings.check()?;
    let mut job = Job::new(problem, settings, observer)?;
    let method = match settings.method {
        Some(Method::Exact) => {
            job.check_capacity()?;
            Method::Exact
        }
        Some(method) => method,
        None if job.check_capacity().is_ok() => Method::Exact,
        None => Method::Refit,
    };
    job.check_memory()?;
    let target = job.target()?;
    match method {
        Method::Exact => match job.exact(&target) {
            // Exact where it fits: what it does not reach is fitted as well as can be.
            Err(Error::Refused { refusal, .. })
                if settings.method.is_none() && !matches!(refusal, Refusal::Memory { .. }) =>
            {
                job.refit(&target)
            }
            found => found,
        },
        Method::Refit => job.refit(&target),
        Method::Truncate => job.truncate(&target),
    }
}
