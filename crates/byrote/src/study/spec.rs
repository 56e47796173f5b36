//! What a study does.

use crate::Result;
use crate::corpus::CorpusSpec;
use crate::setting::{choices, setters};
use serde::{Deserialize, Serialize};

/// How much work a study does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// A first look: part of the corpus, a few widths.
    Quick,
    /// Part of the corpus if it is large, several widths.
    #[default]
    Default,
    /// The whole corpus, more widths, as long as it takes.
    Full,
}

choices!(Scale, "scale" { Quick = "quick", Default = "default", Full = "full" });

/// A study: the floor of a corpus, its bounds, models in closed form and trained ones.
///
/// ```
/// use byrote::corpus::CorpusSpec;
/// use byrote::study::{Scale, StudySpec};
/// let spec = StudySpec::default().corpus(CorpusSpec::default().builtin(100)).scale(Scale::Quick);
/// assert!(spec.check().is_ok());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StudySpec {
    /// The corpus.
    pub corpus: CorpusSpec,
    /// How much work is done.
    pub scale: Scale,
    /// Whether a transformer that learns in its context is shown too.
    pub incontext: bool,
}

setters!(StudySpec { corpus: plain(CorpusSpec), scale: plain(Scale), incontext: plain(bool) });

impl StudySpec {
    /// Makes every check before anything is read. The seed of the study is that of its corpus.
    pub fn check(&self) -> Result<()> {
        self.corpus.resolve().map(|_| ())
    }
}
