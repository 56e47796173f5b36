//! How well the next token is recalled, by how much of the text the model has seen.
//!
//! Windows of T + 1 tokens, run alone: position t of a window is predicted from exactly t tokens. On text that a model knows by
//! heart, the curve of bits falls steeply as soon as the place in the text is recognized; on new text it flattens out. Beside it
//! stands the floor: what a model would pay that knew the text perfectly but not where in it a window begins.

use super::collection::{AuditDocument, Collection};
use super::scoring::{ScoreUnit, Scorer};
use super::spec::AuditSettings;
use crate::Result;
use crate::corpus::{ContextRule, Corpus, Options, Outputs, Window};
use crate::num::Stream;
use crate::units::Nats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The curve at one number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RecallPoint {
    /// The number of tokens seen.
    pub length: usize,
    /// Windows.
    pub windows: u64,
    /// The mean code length of the next token.
    pub bits: f64,
    /// The share of hits.
    pub hits: f64,
    /// The lowest possible mean code length over all windows of the text.
    pub floor_bits: Option<f64>,
}

/// The most windows of a curve.
const MOST: u64 = 1000;

/// The windows of a curve, without a start token, and how many each stands for.
#[derive(Default)]
pub(super) struct CurveWindows {
    pub(super) units: Vec<ScoreUnit>,
    weights: Vec<u64>,
}

/// Chooses the windows of the curve of a text; none if it has no full window.
pub(super) fn curve_windows(collection: &Collection, settings: &AuditSettings) -> CurveWindows {
    let t = settings.lengths;
    // Every start of a full window, copies included; of many, evenly spread ones from a drawn offset.
    let starts = |document: &AuditDocument| document.ids.len().saturating_sub(t) as u64;
    let total: u64 = collection.total(starts);
    if t == 0 || total == 0 {
        return CurveWindows::default();
    }
    let stride = total.div_ceil(MOST);
    let mut next = Stream::new(settings.seed, "recall curve", 0).below(stride);
    let (mut units, mut weights) = (Vec::new(), Vec::new());
    let mut before = 0;
    for document in &collection.documents {
        let n = starts(document);
        let end = before + document.copies * n;
        let mut taken: BTreeMap<usize, u64> = BTreeMap::new();
        while next < end {
            *taken.entry(((next - before) % n) as usize).or_default() += 1;
            next += stride;
        }
        for (start, weight) in taken {
            units.push(ScoreUnit { tokens: document.ids[start..=start + t].to_vec(), from: 1 });
            weights.push(weight);
        }
        before = end;
    }
    CurveWindows { units, weights }
}

/// Measures the curve of a text on its windows.
pub(super) fn recall_curve(
    collection: &Collection,
    windows: &CurveWindows,
    settings: &AuditSettings,
    scorer: &mut Scorer<'_>,
) -> Result<Vec<RecallPoint>> {
    let (t, CurveWindows { units, weights }) = (settings.lengths, windows);
    if units.is_empty() {
        return Ok(Vec::new());
    }
    let scores = scorer.score(units)?;
    let floors = floors(collection, t, scorer)?;
    let windows: u64 = weights.iter().sum();
    let point = |length: usize| {
        let at = || {
            scores
                .iter()
                .zip(units)
                .zip(weights)
                .map(|((scores, unit), w)| (&scores[length - 1], unit.tokens[length], *w as f64))
        };
        let nats: f64 = at().map(|(score, _, w)| -w * score.log_prob).sum();
        let hits: f64 = at().filter(|(score, token, _)| score.top == *token).map(|(_, _, w)| w).sum();
        RecallPoint {
            length,
            windows,
            bits: Nats(nats / windows as f64).bits(),
            hits: hits / windows as f64,
            floor_bits: floors.get(length - 1).copied(),
        }
    };
    Ok((1..=t).map(point).collect())
}

/// The floor by length over all full windows of the text, in bits per prediction.
fn floors(collection: &Collection, t: usize, scorer: &Scorer<'_>) -> Result<Vec<f64>> {
    let window = Window::default().n_ctx(t as u32).exact_length(true).contexts(ContextRule::Windows);
    let options = Options::default().window(window);
    let documents = collection
        .documents
        .iter()
        .flat_map(|document| (0..document.copies).map(|_| document.ids.as_slice()));
    let corpus = Corpus::from_ids(documents, &options, Outputs::default(), scorer.observer())?;
    let per =
        |row: &crate::corpus::LengthSummary| row.floor_nats.per(row.predictions).map_or(0.0, Nats::bits);
    Ok(corpus.summary.by_length.iter().map(per).collect())
}
