//! The distance to the floor, by context length.
//!
//! Over the distinct contexts c of t tokens, each run alone from position 0, with n_c predictions, next-token distribution p_c and
//! the model's q_c:
//!
//! ```text
//! loss_t - floor_t = sum over c of n_c KL(p_c || q_c) >= 0
//! ```
//!
//! Contexts, counts and floor are those of `byrote corpus`; a start token is the first token of its document.

use super::collection::Collection;
use super::scoring::Scorer;
use super::spec::{AuditSettings, GapContexts};
use crate::Result;
use crate::corpus::{ContextRule, Corpus, Options, Outputs, Vocabulary, Window};
use crate::dataset::Dataset;
use crate::inference::ContextScore;
use crate::observe::Observer;
use serde::{Deserialize, Serialize};

/// The gap of a corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditGap {
    /// Which contexts.
    pub contexts: GapContexts,
    /// The longest context.
    pub lengths: usize,
    /// The documents whose contexts were run, copies included, of all.
    pub documents: u64,
    /// All predictions.
    pub predictions: u64,
    /// The lowest loss that any model can have on them.
    pub floor_nats: f64,
    /// The model's.
    pub loss_nats: f64,
    /// Their difference.
    pub gap_nats: f64,
    /// One row per context length.
    pub by_length: Vec<GapRow>,
    /// The contexts that contribute most to the gap, unless text is left out.
    pub worst: Vec<WorstContext>,
}

/// The contexts of one length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GapRow {
    /// Tokens per context.
    pub length: usize,
    /// Distinct contexts.
    pub contexts: u64,
    /// Occurrences with a next token.
    pub predictions: u64,
    /// Contexts with a single next token.
    pub deterministic_contexts: u64,
    /// The lowest possible loss.
    pub floor_nats: f64,
    /// The model's loss.
    pub loss_nats: f64,
    /// Their difference.
    pub gap_nats: f64,
    /// Contexts whose most likely token is one of the most frequent next tokens.
    pub memorized: u64,
    /// Predictions whose token is the most likely one.
    pub right_predictions: u64,
    /// The largest KL divergence of a context.
    pub max_kl_nats: f64,
}

/// A context that the model predicts badly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorstContext {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// How often it occurs.
    pub count: u64,
    /// Its contribution to the gap.
    pub gap_nats: f64,
    /// Its most frequent next token.
    pub next: u32,
    /// The model's most likely token, and its probability.
    pub predicted: u32,
    /// The probability of the predicted token.
    pub probability: f64,
}

/// The most tokens of documents whose contexts are run.
const MOST_TOKENS: usize = 1 << 17;
/// How many bad contexts are listed.
const WORST: usize = 10;

/// The distinct contexts of a text.
pub(super) struct Contexts {
    pub(super) dataset: Dataset,
    floor_nats: f64,
    /// The documents that they come from, copies included.
    documents: u64,
}

/// Lists the contexts of a text in a model's vocabulary; none if it has none, or if lengths are left out.
pub(super) fn contexts(
    collection: &Collection,
    settings: &AuditSettings,
    d_vocab: u64,
    observer: &dyn Observer,
) -> Result<Option<Contexts>> {
    let t = settings.lengths;
    let windows = settings.contexts == GapContexts::Windows;
    let (mut documents, mut tokens, mut used): (Vec<Vec<u32>>, usize, u64) = (Vec::new(), 0, 0);
    for document in &collection.documents {
        let mut ids = [settings.start(), &document.ids].concat();
        if !windows {
            ids.truncate(t + 1);
        }
        let cost = if windows { ids.len() * t } else { ids.len() };
        if t == 0 || (tokens > 0 && tokens + cost > MOST_TOKENS) {
            break;
        }
        tokens += cost;
        used += document.copies;
        documents.extend((0..document.copies).map(|_| ids.clone()));
    }
    let rule = if windows { ContextRule::Windows } else { ContextRule::Prefixes };
    let options = Options::default().window(Window::default().n_ctx(t.max(1) as u32).contexts(rule));
    let outputs = Outputs::default().contexts(true).may_be_empty(true);
    let corpus = Corpus::from_ids(documents.iter().map(Vec::as_slice), &options, outputs, observer)?;
    if corpus.contexts.as_ref().is_none_or(|contexts| contexts.is_empty()) {
        return Ok(None);
    }
    let vocabulary = Vocabulary::of_ids(u32::try_from(d_vocab).unwrap_or(u32::MAX));
    let dataset = Dataset::from_corpus(&corpus)?.in_vocabulary(&vocabulary)?;
    Ok(Some(Contexts { dataset, floor_nats: corpus.summary.floor_nats.0, documents: used }))
}

/// Measures the gap on the contexts of a text.
pub(super) fn gap(
    contexts: &Contexts,
    settings: &AuditSettings,
    scorer: &mut Scorer<'_>,
) -> Result<AuditGap> {
    let Contexts { dataset, floor_nats, documents } = contexts;
    let (t, floor_nats) = (settings.lengths, *floor_nats);
    let scores = scorer.contexts(dataset)?;
    let mut rows = vec![GapRow::default(); t];
    let mut worst: Vec<(f64, usize)> = Vec::new();
    for (i, score) in scores.iter().enumerate() {
        let gap = add(&mut rows[dataset.tokens_of(i).len() - 1], dataset.next_of(i), score);
        worst.push((gap, i));
    }
    rows.iter_mut().zip(1..).for_each(|(row, length)| row.length = length);
    rows.retain(|row| row.contexts > 0);
    worst.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    // Ids are text to whoever has the tokenizer.
    let listed = if settings.no_text { 0 } else { WORST };
    let worst = worst.into_iter().take(listed).map(|(gap, i)| {
        let next = dataset.next_of(i);
        let most = next.iter().fold((0, 0.0), |best, &(token, n)| if n > best.1 { (token, n) } else { best });
        WorstContext {
            tokens: dataset.tokens_of(i),
            count: next.iter().map(|n| n.1).sum::<f64>() as u64,
            gap_nats: gap,
            next: most.0,
            predicted: scores[i].top,
            probability: scores[i].top_log_prob.exp(),
        }
    });
    let sum = |of: fn(&GapRow) -> f64| rows.iter().map(of).sum::<f64>();
    let gap_nats = sum(|row| row.gap_nats);
    Ok(AuditGap {
        contexts: settings.contexts,
        lengths: t,
        documents: *documents,
        predictions: rows.iter().map(|row| row.predictions).sum(),
        floor_nats,
        loss_nats: floor_nats + gap_nats,
        gap_nats,
        worst: worst.collect(),
        by_length: rows,
    })
}

/// Adds a context to its row and returns its contribution to the gap.
fn add(row: &mut GapRow, next: &[(u32, f64)], score: &ContextScore) -> f64 {
    let n: f64 = next.iter().map(|(_, n)| n).sum();
    let most = next.iter().map(|(_, n)| *n).fold(0.0, f64::max);
    let right = next.iter().find(|(token, _)| *token == score.top).map_or(0.0, |(_, n)| *n);
    let floor: f64 = next.iter().map(|(_, k)| k * (n / k).ln()).sum();
    let loss: f64 = next.iter().zip(&score.log_probs).map(|((_, k), lp)| -k * lp).sum();
    row.contexts += 1;
    row.predictions += n as u64;
    row.deterministic_contexts += u64::from(next.len() == 1);
    row.floor_nats += floor;
    row.loss_nats += loss;
    row.gap_nats += loss - floor;
    row.memorized += u64::from(right == most);
    row.right_predictions += right as u64;
    row.max_kl_nats = row.max_kl_nats.max((loss - floor) / n);
    loss - floor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_adds_its_divergence() {
        let mut row = GapRow::default();
        let half = 0.5f64.ln();
        let score = ContextScore { log_probs: vec![half, half], top: 4, top_log_prob: half };
        assert!(add(&mut row, &[(3, 2.0), (4, 2.0)], &score).abs() < 1e-15, "the model is exact");
        let score = ContextScore { log_probs: vec![0.25f64.ln()], top: 9, top_log_prob: 0.75f64.ln() };
        let gap = add(&mut row, &[(3, 5.0)], &score);
        assert!((gap - 5.0 * 4f64.ln()).abs() < 1e-12);
        assert_eq!((row.contexts, row.predictions, row.deterministic_contexts), (2, 9, 1));
        assert_eq!((row.memorized, row.right_predictions), (1, 2));
        assert!((row.loss_nats - row.floor_nats - row.gap_nats).abs() < 1e-12);
        assert!((row.max_kl_nats - 4f64.ln()).abs() < 1e-12);
    }
}
