//! The part of a corpus that is built and trained on: as many of its first documents, or of its windows, as the scale of the study
//! allows.

use super::StudySpec;
use crate::corpus::{Corpus, Summary};
use crate::dataset::Dataset;
use crate::observe::Observer;
use crate::units::{Nats, grouped};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The part of a corpus that a study builds and trains on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Part {
    /// Documents, or windows.
    pub documents: u64,
    /// Distinct contexts.
    pub contexts: u64,
    /// Predictions.
    pub predictions: u64,
    /// Distinct tokens.
    pub d_vocab: u64,
    /// The floor, over all predictions.
    pub floor_nats: Nats,
    /// Whether this is the whole corpus.
    pub is_all: bool,
}

impl Part {
    /// Says which documents or windows these are, after "on".
    pub(crate) fn in_words(&self, whole: &Summary) -> String {
        match &whole.windows {
            Some(windows) => {
                format!(
                    "{} of {} windows, drawn at random",
                    grouped(self.documents),
                    grouped(windows.windows)
                )
            }
            None => format!("the first {} documents", grouped(self.documents)),
        }
    }
}

/// Bytes that a dense system takes per pair of contexts, about: the matrix, its factors, and what they are computed from.
const BYTES_PER_PAIR: u64 = 48;
/// Tokens kept of the first documents, per context that the part may have.
const TOKENS_PER_CONTEXT: u64 = 64;

/// The most contexts that the part may have. Where memory is limited, the dense system of the closed form must fit.
pub(super) fn most_contexts(spec: &StudySpec) -> u64 {
    let fit = spec.corpus.max_memory.map_or(u64::MAX, |bytes| (bytes / BYTES_PER_PAIR).isqrt());
    spec.scale.limits().contexts.min(fit.max(1))
}

/// How many tokens of the first documents to keep, so that a part can be taken from them.
pub(super) fn head_tokens(spec: &StudySpec) -> usize {
    let tokens = most_contexts(spec).saturating_mul(TOKENS_PER_CONTEXT);
    usize::try_from(tokens).unwrap_or(usize::MAX).clamp(1 << 12, 1 << 24)
}

/// Chooses the part: the whole corpus where it fits, else its first documents.
pub(super) fn choose(spec: &StudySpec, corpus: Corpus, observer: &dyn Observer) -> Result<(Part, Dataset)> {
    if let Some(whole) = &corpus.whole {
        let is_all = whole.windows.as_ref().is_some_and(|w| w.windows == corpus.summary.documents);
        return described(corpus, is_all);
    }
    let (most, work) = (most_contexts(spec), spec.scale.limits().work);
    let fits = |s: &Summary| s.contexts <= most && s.contexts.saturating_mul(s.d_vocab) <= work;
    if fits(&corpus.summary) && corpus.contexts.is_some() {
        return described(corpus, true);
    }
    let whole = corpus.summary;
    let Some(mut head) = corpus.head else {
        return Err(Error::setting(
            "merge",
            "summaries cannot be read in part; give files, or `scale = full`",
        ));
    };
    // Contexts grow a little more slowly than documents, their product with the vocabulary faster.
    let share = (most as f64 / whole.contexts as f64)
        .min((work as f64 / (whole.contexts as f64 * whole.d_vocab as f64)).sqrt());
    let documents = (whole.documents as f64 * share * 1.5) as usize;
    head.truncate(documents.clamp(1, head.documents().max(1)));
    loop {
        let part = head.count(observer)?;
        if fits(&part.summary) || head.documents() <= 1 {
            let is_all = part.summary.documents == whole.documents;
            return described(part, is_all);
        }
        head.truncate((head.documents() * 3 / 4).max(1));
    }
}

fn described(corpus: Corpus, is_all: bool) -> Result<(Part, Dataset)> {
    let s = &corpus.summary;
    let part = Part {
        documents: s.documents,
        contexts: s.contexts,
        predictions: s.predictions,
        d_vocab: s.d_vocab,
        floor_nats: s.floor_nats,
        is_all,
    };
    Ok((part, Dataset::from_corpus(&corpus)?))
}
