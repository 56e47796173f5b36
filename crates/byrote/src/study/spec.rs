//! What a study does.

use crate::Result;
use crate::construct::MAX_MEMORY;
use crate::corpus::CorpusSpec;
use crate::model::ModelSpec;
use crate::setting::{choices, setters};
use serde::{Deserialize, Serialize};

/// How much work a study does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StudyScale {
    /// A first look: part of the corpus, a few widths.
    Quick,
    /// Part of the corpus if it is large, several widths.
    #[default]
    Default,
    /// The whole corpus, more widths, as long as it takes.
    Full,
}

/// What a scale allows.
pub(super) struct StudyLimits {
    /// The most contexts to build and train on.
    pub(super) contexts: u64,
    /// The largest product of contexts and vocabulary: the work of one step.
    pub(super) work: u64,
    /// The widths to train.
    pub(super) widths: &'static [u64],
    /// The widths of the residual stream of models of blocks.
    pub(super) streams: &'static [u64],
    /// Steps of training.
    pub(super) steps: u64,
}

impl StudyScale {
    pub(super) fn limits(self) -> StudyLimits {
        match self {
            StudyScale::Quick => StudyLimits {
                contexts: 3000,
                work: 1_000_000,
                widths: &[16, 64, 256],
                streams: &[8, 16, 32],
                steps: 400,
            },
            StudyScale::Default => StudyLimits {
                contexts: 6000,
                work: 3_000_000,
                widths: &[8, 16, 32, 64, 128, 256, 512],
                streams: &[4, 8, 16, 32, 64],
                steps: 1500,
            },
            StudyScale::Full => StudyLimits {
                contexts: u64::MAX,
                work: u64::MAX,
                widths: &[4, 8, 16, 32, 64, 128, 256, 512, 1024],
                streams: &[4, 8, 16, 32, 64, 128],
                steps: 10_000,
            },
        }
    }
}

choices!(StudyScale, "scale" { Quick = "quick", Default = "default", Full = "full" });

/// A study: the floor of a corpus, its bounds, models in closed form and trained ones.
///
/// ```
/// use byrote::corpus::CorpusSpec;
/// use byrote::study::{StudyScale, StudySpec};
/// let spec = StudySpec::default().corpus(CorpusSpec::default().builtin(100)).scale(StudyScale::Quick);
/// assert!(spec.check().is_ok());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StudySpec {
    /// The corpus.
    pub corpus: CorpusSpec,
    /// How much work is done.
    pub scale: StudyScale,
    /// Whether a transformer that learns in its context is shown too.
    pub incontext: bool,
    /// Also train GPT-2 with this many layers, by width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<u64>,
    /// The memory limit in bytes for reading and dense systems, unless the corpus sets one.
    #[serde(skip)]
    pub memory: Option<u64>,
}

setters!(StudySpec {
    corpus: plain(CorpusSpec),
    scale: plain(StudyScale),
    incontext: plain(bool),
    n_layers: some(u64),
    memory: some(u64)
});

impl StudySpec {
    /// Bytes that a dense system may take.
    pub(super) fn matrix_memory(&self) -> u64 {
        self.corpus.max_memory.or(self.memory).unwrap_or(MAX_MEMORY)
    }

    /// Makes every check before anything is read. The seed of the study is that of its corpus.
    pub fn check(&self) -> Result<()> {
        if let Some(layers) = self.n_layers {
            ModelSpec::default().n_layers(layers).check()?;
        }
        self.corpus.resolve().map(|_| ())
    }
}
