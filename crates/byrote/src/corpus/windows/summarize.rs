//! From the counted windows of a text to the figures that are reported.

use super::cells::LogTable;
use super::facts::{Facts, FirstTokenCounts};
use super::figures::{Figures, Nodes};
use super::repeats::{EXCERPT, Repeats, ShortestUnique, StoredPassage};
use super::{Code, Counted, Places, Text, WindowRule};
use crate::corpus::count::tally::floor_of;
use crate::corpus::summary::{Coverage, EPSILONS_1E5, LengthSummary, Summary};
use crate::corpus::vocabulary::{MARK_LABEL, MARK_LAST, Vocabulary};
use crate::units::Nats;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The figures that a corpus of windows has besides those of any corpus. `documents` and `tokens` of the summary then describe
/// the text in which the windows lie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowSummary {
    /// The number of windows.
    pub windows: u64,
    /// The number of tokens in them, each counted once for every window it is in.
    pub window_tokens: u64,
    /// The distance between the starts of windows.
    pub stride: u64,
    /// The number of different windows.
    pub distinct_windows: u64,
    /// Whether all documents were joined into one.
    pub joined: bool,
    /// The entropy of a token of the text, given only how often each token occurs: the loss of the best model without contexts.
    pub token_entropy_nats: Nats,
    /// The floor at shorter longest contexts, powers of two, and at this one.
    pub curve: Vec<FloorPoint>,
    /// The floor at every longest context up to 4,096, and at powers of two above.
    #[serde(skip)]
    every: Vec<FloorPoint>,
    /// The tokens in repeats, by least length of a repeat; empty if `stride` is not 1.
    pub repeats: Vec<Repeats>,
    /// The longest passage that occurs more than once, in tokens.
    pub longest_repeat: Option<u64>,
    /// The longest passages that occur more than once.
    pub longest_repeats: Vec<Passage>,
    /// How far one has to read until what was read occurs nowhere else.
    pub shortest_unique: Option<ShortestUnique>,
}

impl WindowSummary {
    /// Returns the floor at every longest context up to 4,096, and at powers of two above, as far as they are known: a summary
    /// that was read from a file has the curve only.
    pub fn all_floors(&self) -> &[FloorPoint] {
        if self.every.is_empty() { &self.curve } else { &self.every }
    }
}

/// The floor at some longest context.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FloorPoint {
    /// The longest context T.
    pub n_ctx: u64,
    /// The floor of the windows of T + 1 tokens.
    pub floor_nats: Nats,
    /// The same per prediction.
    pub floor_nats_per_prediction: Option<Nats>,
}

/// A passage that occurs more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Its length in tokens.
    pub length: u64,
    /// The number of tokens before the first place where it occurs.
    pub position: u64,
    /// Its text, or that of its first 1,000 tokens.
    pub text: String,
}

impl Passage {
    /// Whether the text is that of the first tokens only.
    pub fn is_cut(&self) -> bool {
        self.length > EXCERPT as u64
    }
}

/// The vocabulary of the windows: the tokens of the text that occur in some window. `counts` is how often every token occurs in
/// the text, by code.
pub(crate) fn vocabulary<C: Code>(
    text: &Text<C>,
    alphabet: &Vocabulary,
    rule: WindowRule,
    counts: &[u64],
) -> Vocabulary {
    let mut seen = vec![Places::default(); alphabet.len()];
    let mut see = |code: C, here: Places| {
        let seen = &mut seen[code.get() as usize - 1];
        seen.inside |= here.inside;
        seen.follows |= here.follows;
        seen.ends_context |= here.ends_context;
    };
    for document in (0..text.documents()).map(|i| text.document(i)) {
        let places = rule.places(document.len());
        let at = |i: usize| C::new(text.code(document.start + i));
        // Where windows start at every token, all but the first and the last one are everywhere.
        if rule.stride == 1 && document.len() >= 2 {
            let (first, last) = (at(0), at(document.len() - 1));
            see(first, places(0));
            see(last, places(document.len() - 1));
            let inner = document.start + 1..document.end - 1;
            if text.documents() == 1 {
                let outer = |code: C| u64::from(code == first) + u64::from(code == last);
                let all = (0..).zip(counts).skip(1).map(|(code, &n)| (C::new(code), n));
                all.filter(|&(code, n)| n > outer(code)).for_each(|(code, _)| see(code, places(1)));
            } else if inner.len() < LONG {
                text.codes(inner).iter().enumerate().for_each(|(i, &code)| see(code, places(i + 1)));
            } else {
                occurring(text, inner, alphabet.len()).for_each(|code| see(code, places(1)));
            }
        } else {
            for (first, codes) in text.blocks(document.clone()) {
                let offset = first - document.start;
                codes.iter().enumerate().for_each(|(i, &code)| see(code, places(offset + i)));
            }
        }
    }
    let marks = |places: Places| {
        (if places.follows { MARK_LABEL } else { 0 }) | if places.ends_context { MARK_LAST } else { 0 }
    };
    alphabet.restricted(|id| Some(seen[id as usize]).filter(|s| s.inside).map(marks))
}

/// Documents of fewer tokens are not worth a table of codes.
const LONG: usize = 1 << 16;

/// The different codes at some positions, where all are at most `most`.
fn occurring<C: Code>(text: &Text<C>, positions: Range<usize>, most: usize) -> impl Iterator<Item = C> {
    let step = positions.len().div_ceil(rayon::current_num_threads()).max(1);
    let seen = (0..positions.len().div_ceil(step))
        .into_par_iter()
        .map(|part| {
            let first = positions.start + part * step;
            let mut seen = vec![false; most + 1];
            for (_, codes) in text.blocks(first..positions.end.min(first + step)) {
                codes.iter().for_each(|code| seen[code.get() as usize] = true);
            }
            seen
        })
        .reduce_with(|mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
            a
        });
    (0..).zip(seen.unwrap_or_default()).filter(|&(_, seen)| seen).map(|(code, _)| C::new(code))
}

/// The longest contexts at which the floor is reported.
pub(crate) fn curve_points(n_ctx: usize) -> Vec<usize> {
    let powers = (0..).map(|i| 1 << i).take_while(|&power| power < n_ctx);
    powers.chain([n_ctx]).collect()
}

/// The longest contexts at which the floor is computed for comparisons.
pub(crate) fn dense_points(n_ctx: usize) -> Vec<usize> {
    let above = curve_points(n_ctx).into_iter().filter(|&n| n > MOST_POINTS);
    (1..=n_ctx.min(MOST_POINTS)).chain(above).collect()
}

/// The summary of windows that were counted; `points` are the longest contexts for which `firsts` knows the counts.
pub(crate) fn summary(
    facts: &Facts,
    counted: &Counted,
    repeats: Vec<Repeats>,
    points: &[usize],
    firsts: &mut dyn FirstTokenCounts,
) -> Summary {
    let Counted { figures, nodes, unique, passages, part, .. } = counted;
    let rule = facts.rule;
    let by_length = by_length(figures, rule.n_ctx);
    let sum = |figure: fn(&LengthSummary) -> u64| by_length.iter().map(figure).fold(0, u64::saturating_add);
    let mut logs = LogTable::default();
    let mut all: BTreeMap<u64, i128> = BTreeMap::new();
    for (_, count, n) in figures.excess.iter() {
        *all.entry(count).or_insert(0) += i128::from(n);
    }
    let floor = floor_of(all, |k| logs.xlnx(k));
    let predictions = sum(|l| l.predictions);
    // What depends on windows of several classes is known only of all.
    let is_all = part.is_all();
    let every = if is_all { curve(rule.n_ctx, figures, nodes.as_ref(), points, firsts) } else { Vec::new() };
    let reported = curve_points(rule.n_ctx);
    let at_powers = every.iter().filter(|point| reported.binary_search(&(point.n_ctx as usize)).is_ok());
    let has_repeats = rule.repeats && is_all;
    let repeated_token = facts.tokens_by_count.iter().any(|&(k, _)| k > 1);
    Summary {
        documents: facts.documents,
        tokens: facts.tokens,
        tokens_left_out: 0,
        d_vocab: facts.d_vocab,
        n_ctx: rule.n_ctx as u32,
        contexts: sum(|l| l.contexts),
        predictions,
        floor_nats: floor,
        floor_nats_per_prediction: floor.per(predictions),
        floor_bits_per_prediction: floor.per(predictions).map(Nats::bits),
        deterministic_contexts: sum(|l| l.deterministic_contexts),
        deterministic_predictions: sum(|l| l.deterministic_predictions),
        once: sum(|l| l.once),
        pairs: sum(|l| l.pairs),
        coverage: EPSILONS_1E5
            .iter()
            .map(|&e| Coverage {
                epsilon: f64::from(e) / 1e5,
                contexts: figures.context_counts.coverage(predictions, e),
            })
            .collect(),
        by_length,
        sequences: figures.distinct_windows,
        labels: facts.labels,
        distinct_last_tokens: facts.distinct_last_tokens,
        full_support_contexts: figures.full_support,
        dropped: facts.header.dropped,
        tokenizer: facts.header.tokenizer.clone(),
        window: facts.header.window,
        range: (!is_all).then_some(*part),
        windows: Some(WindowSummary {
            windows: figures.windows,
            window_tokens: figures.window_tokens(),
            stride: rule.stride as u64,
            distinct_windows: figures.distinct_windows,
            joined: rule.joined,
            token_entropy_nats: token_entropy(facts),
            curve: at_powers.copied().collect(),
            every,
            repeats: if is_all { repeats } else { Vec::new() },
            longest_repeat: has_repeats
                .then(|| passages.first().map_or(u64::from(repeated_token), |p| p.length)),
            longest_repeats: passages.iter().filter(|_| is_all).map(StoredPassage::passage).collect(),
            shortest_unique: has_repeats.then(|| unique.quantiles()),
        }),
    }
}

fn by_length(figures: &Figures, n_ctx: usize) -> Vec<LengthSummary> {
    // However long contexts may be, none is as long as the longest window.
    let n = figures.longest_window().min(n_ctx + 1);
    let predictions = figures.predictions(n);
    let [contexts, pairs, deterministic, deterministic_predictions, once] = [
        &figures.contexts,
        &figures.pairs,
        &figures.deterministic,
        &figures.deterministic_predictions,
        &figures.once,
    ]
    .map(|figure| figure.sums(n));
    let mut logs = LogTable::default();
    (1..n)
        // As for documents, lengths end with the longest context that there is.
        .take_while(|&t| predictions[t] > 0)
        .map(|t| {
            let floor = floor_of(figures.excess.of_length(t), |k| logs.xlnx(k));
            LengthSummary {
                length: t as u32,
                contexts: contexts[t],
                predictions: predictions[t],
                floor_nats: floor,
                floor_nats_per_prediction: floor.per(predictions[t]),
                pairs: pairs[t],
                deterministic_contexts: deterministic[t],
                deterministic_predictions: deterministic_predictions[t],
                once: once[t],
            }
        })
        .collect()
}

/// The floor is computed at every longest context up to this one.
const MOST_POINTS: usize = 4096;

/// The entropy of a token of a text.
fn token_entropy(facts: &Facts) -> Nats {
    let mut terms: BTreeMap<u64, i128> = BTreeMap::from([(facts.tokens, 1)]);
    facts.tokens_by_count.iter().for_each(|&(k, n)| *terms.entry(k).or_insert(0) -= i128::from(n));
    floor_of(terms, crate::num::dd::xlnx).per(facts.tokens).unwrap_or(Nats(0.0))
}

/// The floor at several longest contexts, increasing and at most that of the rule, from one order of the windows.
///
/// If all windows count, the contexts of a length do not depend on the longest context, and their floors add up. If only full
/// windows count, the floor telescopes: it is the sum of c ln c over first tokens minus that of m ln m over the different
/// windows of T + 1 tokens, which are the nodes of depth T + 1 in the trie of all windows.
fn curve(
    longest: usize,
    figures: &Figures,
    nodes: Option<&Nodes>,
    points: &[usize],
    firsts: &mut dyn FirstTokenCounts,
) -> Vec<FloorPoint> {
    let mut logs = LogTable::default();
    let mut terms: BTreeMap<u64, i128> = BTreeMap::new();
    let predictions = figures.predictions(figures.longest_window().min(longest) + 1);
    let deepest = nodes.map_or(predictions.len() - 1, |nodes| nodes.0.longest());
    let (mut depth, mut sum) = (0, 0);
    points
        .iter()
        .map(|&n_ctx| {
            let predictions = match nodes {
                None => {
                    while depth < n_ctx.min(deepest) {
                        depth += 1;
                        sum += predictions[depth];
                        figures.excess.of_length(depth).into_iter().for_each(|(k, n)| add(&mut terms, k, n));
                    }
                    sum
                }
                Some(nodes) => {
                    let windows = firsts.advance(n_ctx, &mut |k, n| add(&mut terms, k, n));
                    while depth < deepest.min(n_ctx + 1) {
                        depth += 1;
                        nodes.0.of_length(depth).into_iter().for_each(|(k, n)| add(&mut terms, k, -n));
                    }
                    windows.saturating_mul(n_ctx as u64)
                }
            };
            let floor = floor_of(terms.iter().map(|(&k, &n)| (k, n)), |k| logs.xlnx(k));
            FloorPoint {
                n_ctx: n_ctx as u64,
                floor_nats: floor,
                floor_nats_per_prediction: floor.per(predictions),
            }
        })
        .collect()
}

/// Adds to a term of a sum.
fn add(terms: &mut BTreeMap<u64, i128>, k: u64, n: i128) {
    let sum = terms.entry(k).or_insert(0);
    *sum += n;
    if *sum == 0 {
        terms.remove(&k);
    }
}
