//! From the counted windows of a text to the figures that are reported.

use super::cells::LogTable;
use super::figures::Figures;
use super::repeats::{Repeats, ShortestUnique};
use super::{Code, Counted, Places, Text, WindowRule};
use crate::corpus::count::tally::floor_of;
use crate::corpus::sorted_run::Header;
use crate::corpus::summary::{Coverage, EPSILONS_1E5, LengthSummary, Summary};
use crate::corpus::vocabulary::{MARK_LABEL, MARK_LAST, Vocabulary};
use crate::units::Nats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// Its text.
    pub text: String,
}

/// The vocabulary of the windows: the tokens of the text that occur in some window.
pub(crate) fn vocabulary<C: Code>(text: &Text<C>, alphabet: &Vocabulary, rule: WindowRule) -> Vocabulary {
    let mut seen = vec![Places::default(); alphabet.len()];
    for document in (0..text.documents()).map(|i| text.document(i)) {
        let places = rule.places(document.len());
        for (i, code) in text.codes(document).iter().enumerate() {
            let (seen, here) = (&mut seen[code.get() as usize - 1], places(i));
            seen.inside |= here.inside;
            seen.follows |= here.follows;
            seen.ends_context |= here.ends_context;
        }
    }
    let marks = |places: Places| {
        (if places.follows { MARK_LABEL } else { 0 }) | if places.ends_context { MARK_LAST } else { 0 }
    };
    alphabet.restricted(|id| Some(seen[id as usize]).filter(|s| s.inside).map(marks))
}

/// The summary of counted windows.
pub(crate) fn summary<C: Code>(
    text: &Text<C>,
    rule: WindowRule,
    counted: &Counted,
    repeats: Vec<Repeats>,
    alphabet: &Vocabulary,
    vocabulary: &Vocabulary,
    header: Header,
) -> Summary {
    let Counted { figures, .. } = counted;
    let by_length = by_length(figures, rule.n_ctx);
    let sum = |figure: fn(&LengthSummary) -> u64| by_length.iter().map(figure).sum::<u64>();
    let mut logs = LogTable::default();
    let mut all: BTreeMap<u64, i128> = BTreeMap::new();
    for (_, count, n) in figures.excess.iter() {
        *all.entry(count).or_insert(0) += i128::from(n);
    }
    let floor = floor_of(all, |k| logs.xlnx(k));
    let predictions = sum(|l| l.predictions);
    let has_repeats = rule.repeats;
    let firsts = FirstTokens::new(text, 1);
    let powers = powers_of_two(rule.n_ctx);
    let dense = 1..=rule.n_ctx.min(MOST_POINTS);
    let lengths = dense.chain(powers.iter().copied().filter(|&n| n > MOST_POINTS)).collect();
    let every = curve(text, rule, counted, lengths);
    let at_powers = every.iter().filter(|point| powers.binary_search(&(point.n_ctx as usize)).is_ok());
    Summary {
        documents: text.documents() as u64,
        tokens: text.tokens() as u64,
        tokens_left_out: 0,
        d_vocab: vocabulary.len() as u64,
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
        labels: vocabulary.labels(),
        distinct_last_tokens: vocabulary.distinct_last_tokens(),
        full_support_contexts: figures.full_support,
        dropped: header.dropped,
        tokenizer: header.tokenizer,
        window: header.window,
        windows: Some(WindowSummary {
            windows: figures.windows,
            window_tokens: figures.window_tokens(),
            stride: rule.stride as u64,
            distinct_windows: figures.distinct_windows,
            joined: rule.joined,
            token_entropy_nats: token_entropy(&firsts),
            curve: at_powers.copied().collect(),
            every,
            repeats,
            longest_repeat: has_repeats.then(|| {
                counted.longest.length().map_or(u64::from(firsts.counts.iter().any(|&n| n > 1)), |n| n as u64)
            }),
            longest_repeats: counted.longest.passages(text, alphabet),
            shortest_unique: has_repeats.then(|| counted.unique.quantiles()),
        }),
    }
}

fn by_length(figures: &Figures, n_ctx: usize) -> Vec<LengthSummary> {
    let n = n_ctx + 1;
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

/// The entropy of tokens, each of which counts once.
fn token_entropy(tokens: &FirstTokens) -> Nats {
    let mut terms: BTreeMap<u64, i128> = BTreeMap::from([(tokens.windows, 1)]);
    tokens.counts.iter().for_each(|&n| *terms.entry(n).or_insert(0) -= 1);
    floor_of(terms, crate::num::dd::xlnx).per(tokens.windows).unwrap_or(Nats(0.0))
}

/// The powers of two up to n, and n.
fn powers_of_two(n: usize) -> Vec<usize> {
    let powers = (0..).map(|i| 1 << i).take_while(|&power| power < n);
    powers.chain([n]).collect()
}

/// The floor at several longest contexts, increasing and at most that of the rule, from one order of the windows.
///
/// If all windows count, the contexts of a length do not depend on the longest context, and their floors add up. If only full
/// windows count, the floor telescopes: it is the sum of c ln c over first tokens minus that of m ln m over the different
/// windows of T + 1 tokens, which are the nodes of depth T + 1 in the trie of all windows.
pub(crate) fn curve<C: Code>(
    text: &Text<C>,
    rule: WindowRule,
    counted: &Counted,
    n_ctx: Vec<usize>,
) -> Vec<FloorPoint> {
    let mut logs = LogTable::default();
    let mut terms: BTreeMap<u64, i128> = BTreeMap::new();
    let add = |terms: &mut BTreeMap<u64, i128>, k: u64, n: i128| {
        let sum = terms.entry(k).or_insert(0);
        *sum += n;
        if *sum == 0 {
            terms.remove(&k);
        }
    };
    let mut points = Vec::with_capacity(n_ctx.len());
    let mut point = |n_ctx: usize, predictions: u64, terms: &BTreeMap<u64, i128>| {
        let floor = floor_of(terms.iter().map(|(&k, &n)| (k, n)), |k| logs.xlnx(k));
        points.push(FloorPoint {
            n_ctx: n_ctx as u64,
            floor_nats: floor,
            floor_nats_per_prediction: floor.per(predictions),
        });
    };
    let Some(nodes) = &counted.nodes else {
        let predictions = counted.figures.predictions(rule.n_ctx + 1);
        let (mut length, mut sum) = (0, 0);
        for t in n_ctx {
            while length < t {
                length += 1;
                sum += predictions[length];
                for (k, n) in counted.figures.excess.of_length(length) {
                    add(&mut terms, k, n);
                }
            }
            point(t, sum, &terms);
        }
        return points;
    };
    let mut firsts = FirstTokens::new(text, rule.stride);
    firsts.counts.iter().for_each(|&c| add(&mut terms, c, 1));
    let mut depth = 1;
    for t in n_ctx {
        firsts.advance(text, t, |from, to| {
            add(&mut terms, from, -1);
            add(&mut terms, to, 1);
        });
        while depth < t + 1 {
            depth += 1;
            for (k, n) in nodes.0.of_length(depth) {
                add(&mut terms, k, -n);
            }
        }
        point(t, firsts.windows * t as u64, &terms);
    }
    points
}

/// How often every token is the first one of a full window, at a growing longest context.
struct FirstTokens {
    counts: Vec<u64>,
    windows: u64,
    n_ctx: usize,
    stride: usize,
}

impl FirstTokens {
    /// The counts at context 0, where every start has a full window.
    fn new<C: Code>(text: &Text<C>, stride: usize) -> Self {
        let (mut counts, mut windows) = (Vec::new(), 0);
        for document in (0..text.documents()).map(|i| text.document(i)) {
            for code in text.codes(document).iter().step_by(stride) {
                let code = code.get() as usize;
                if code >= counts.len() {
                    counts.resize(code + 1, 0);
                }
                counts[code] += 1;
                windows += 1;
            }
        }
        Self { counts, windows, n_ctx: 0, stride }
    }

    /// Goes on to a longer context, and reports every change of a count.
    fn advance<C: Code>(&mut self, text: &Text<C>, n_ctx: usize, mut change: impl FnMut(u64, u64)) {
        for document in (0..text.documents()).map(|i| text.document(i)) {
            // Starts with at most `n_ctx` and more than `self.n_ctx` tokens after and including them.
            let from = document.len().saturating_sub(n_ctx);
            let to = document.len().saturating_sub(self.n_ctx);
            for start in (from.next_multiple_of(self.stride)..to).step_by(self.stride) {
                let count = &mut self.counts[text.code(document.start + start) as usize];
                change(*count, *count - 1);
                *count -= 1;
                self.windows -= 1;
            }
        }
        self.n_ctx = n_ctx;
    }
}
