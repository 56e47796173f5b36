//! Controls: held-out text, and a reference model.
//!
//! A high share of hits proves nothing by itself: easy text is predicted without having been memorized. What a model knows of its
//! training text stands out against text of the same kind that it has not seen, or against a model that has not seen the text.

use super::collection::{AuditDocument, Collection};
use super::interval::auroc;
use super::passes::{self, Pieces};
use super::score_file::ScoreFile;
use super::scoring::Scorer;
use super::spec::AuditSettings;
use super::subject::Subject;
use super::text_audit::{DocumentAudit, TextAudit};
use crate::inference::LanguageModel;
use crate::num::Stream;
use crate::observe::Observer;
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The corpus minus the held-out text, for one measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The measure.
    pub measure: String,
    /// Its value on the corpus.
    pub corpus: f64,
    /// Its value on the held-out text.
    pub held_out: f64,
    /// Corpus minus held-out text.
    pub difference: f64,
    /// An interval of 95% by drawing documents of both; none with fewer than ten of either.
    pub interval: Option<(f64, f64)>,
}

/// The comparison with a reference model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReferenceFigures {
    /// The reference model.
    pub path: String,
    /// The code length of the corpus under it.
    pub bits: f64,
    /// By how much the model's code is shorter, summed over documents for which it is: unintended memorization in the sense of Morris
    /// et al. 2025, arXiv 2505.24832. Each distinct document counts once.
    pub unintended_bits: f64,
    /// The same per parameter of the model.
    pub bits_per_parameter: Option<f64>,
    /// The same on the held-out text, which should be near 0.
    pub held_out_unintended_bits: Option<f64>,
}

/// The scores of documents that should be higher on the corpus.
type MemberScore = fn(&DocumentAudit) -> Option<f64>;

const SCORES: [(&str, MemberScore); 5] = [
    ("loss", |d| d.bits_per_token.map(|bits| -bits)),
    ("zlib", |d| d.zlib_ratio.map(|ratio| -ratio)),
    ("min_k", |d| d.min_k),
    ("min_k_plus_plus", |d| d.min_k_plus_plus),
    ("reference", |d| Some(d.bits_reference? - d.bits?)),
];

/// How well each score tells documents of the corpus from held-out ones. Distinct documents count once.
pub(super) fn aurocs(corpus: &TextAudit, held_out: &TextAudit) -> BTreeMap<String, f64> {
    let all = |text: &TextAudit, score: MemberScore| -> Vec<f64> {
        text.documents.iter().filter_map(score).collect()
    };
    SCORES
        .into_iter()
        .filter_map(|(name, score)| {
            Some((name.to_owned(), auroc(&all(corpus, score), &all(held_out, score))?))
        })
        .collect()
}

/// A numerator and a denominator per document, whose sums have the measure as their ratio.
type Ratio = fn(&DocumentAudit) -> Option<(f64, f64)>;

const RATIOS: [(&str, Ratio); 5] = [
    ("bits_per_byte", |d| Some((d.bits?, d.bytes as f64))),
    ("bits_per_token", |d| Some((d.bits?, d.scored as f64))),
    ("token_hits", |d| Some((d.token_hits? * d.scored as f64, d.scored as f64))),
    ("extractable", |d| Some((d.extractable? as f64, d.windows as f64))),
    ("p_z_at_least_0_001", |d| Some((d.p_z_at_least_0_001? as f64, d.windows as f64))),
];

const FEWEST: usize = 10;
const DRAWS: u64 = 1000;

/// The differences of the measures that both texts have.
pub(super) fn differences(corpus: &TextAudit, held_out: &TextAudit, seed: u64) -> Vec<Difference> {
    let all = |text: &TextAudit, of: Ratio| -> Vec<(f64, f64)> {
        let weigh = |d: &DocumentAudit| of(d).map(|(a, b)| (d.copies as f64 * a, d.copies as f64 * b));
        text.documents.iter().filter_map(weigh).filter(|(_, n)| *n > 0.0).collect()
    };
    let value = |documents: &[(f64, f64)]| {
        let (a, b) = documents.iter().fold((0.0, 0.0), |(a, b), d| (a + d.0, b + d.1));
        a / b
    };
    let one = |(name, of): (&str, Ratio)| {
        let (ours, theirs) = (all(corpus, of), all(held_out, of));
        if ours.is_empty() || theirs.is_empty() {
            return None;
        }
        let drawn = |documents: &[(f64, f64)], stream: &mut Stream| {
            let pick = |_| documents[stream.below(documents.len() as u64) as usize];
            value(&(0..documents.len()).map(pick).collect::<Vec<_>>())
        };
        let interval = (ours.len().min(theirs.len()) >= FEWEST).then(|| {
            let mut found: Vec<f64> = (0..DRAWS)
                .map(|i| {
                    let mut stream = Stream::new(seed, "audit difference", i);
                    drawn(&ours, &mut stream) - drawn(&theirs, &mut stream)
                })
                .collect();
            found.sort_by(f64::total_cmp);
            (found[(DRAWS as usize) / 40], found[DRAWS as usize - 1 - (DRAWS as usize) / 40])
        });
        let (a, b) = (value(&ours), value(&theirs));
        Some(Difference { measure: name.to_owned(), corpus: a, held_out: b, difference: a - b, interval })
    };
    RATIOS.into_iter().filter_map(one).collect()
}

/// A reference model at work.
pub(super) struct Reference<'a> {
    subject: &'a Subject,
    model: &'a dyn LanguageModel,
    settings: AuditSettings,
}

impl<'a> Reference<'a> {
    /// The reference sees the same settings, but its own start token and its own longest context.
    pub(super) fn new(subject: &'a Subject, settings: &AuditSettings) -> Result<Self> {
        let Some(model) = &subject.model else {
            return Err(Error::setting("reference", "must be a model, not log-probabilities"));
        };
        let start_token = settings.start_token.and(subject.start_token.or(settings.start_token));
        let n_ctx = settings.n_ctx.min(usize::try_from(model.n_ctx()).unwrap_or(usize::MAX));
        let settings = AuditSettings { start_token, n_ctx, ..settings.clone() };
        subject.check(&settings)?;
        Ok(Self { subject, model: &**model, settings })
    }

    /// Runs it over the documents of the corpus, then of the held-out text if there is one, and fills in what it says of each.
    /// `parameters` are those of the audited model; with a path, scores are kept there.
    pub(super) fn compare(
        &self,
        texts: Vec<(&mut TextAudit, &Collection)>,
        path: Option<&Path>,
        parameters: Option<u64>,
        observer: &dyn Observer,
    ) -> Result<ReferenceFigures> {
        let mut file = None;
        if let Some(path) = path {
            let opened = ScoreFile::open(path, super::identity(&self.subject.facts, &self.settings))?;
            opened.probe(self.model, self.settings.sampling())?;
            file = Some(opened);
        }
        let mut scorer = Scorer::new(self.model, self.settings.sampling(), file.as_mut(), observer);
        let mut sums = Vec::with_capacity(texts.len());
        for (text, collection) in texts {
            let documents = self.documents(collection)?;
            let pieces = Pieces::new(&documents, &self.settings);
            let scored = passes::documents(&pieces, &self.settings, &mut scorer)?;
            let (mut bits, mut unintended) = (0.0, 0.0);
            for (document, scored) in text.documents.iter_mut().zip(scored) {
                let reference = Nats(-scored.scores.iter().map(|s| s.log_prob).sum::<f64>()).bits();
                document.bits_reference = Some(reference);
                document.unintended_bits = document.bits.map(|bits| (reference - bits).max(0.0));
                bits += document.copies as f64 * reference;
                unintended += document.unintended_bits.unwrap_or(0.0);
            }
            sums.push((bits, unintended));
        }
        let (bits, unintended_bits) = sums.first().copied().unwrap_or_default();
        Ok(ReferenceFigures {
            path: self.subject.facts.path.clone(),
            bits,
            unintended_bits,
            bits_per_parameter: parameters.filter(|n| *n > 0).map(|n| unintended_bits / n as f64),
            held_out_unintended_bits: sums.get(1).map(|sums| sums.1),
        })
    }

    /// Documents in its own tokens; ids are the same for both models.
    fn documents(&self, collection: &Collection) -> Result<Vec<AuditDocument>> {
        let d_vocab = self.model.d_vocab();
        let own = |document: &AuditDocument| match &document.text {
            Some(text) => {
                let encoded = self.subject.tokens.encode(text)?;
                Ok(AuditDocument { ids: encoded.ids, ends: encoded.ends, ..document.clone() })
            }
            None => match document.ids.iter().find(|&&id| u64::from(id) >= d_vocab) {
                Some(id) => {
                    let message = format!("the text has the token {id}, but its vocabulary has {d_vocab}");
                    Err(Error::setting("reference", message))
                }
                None => Ok(document.clone()),
            },
        };
        collection.documents.iter().map(own).collect()
    }
}
