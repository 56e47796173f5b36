//! Some of the windows of a text as documents of their own, for models.

use super::{Code, Text, WindowRule};
use crate::Result;
use crate::corpus::count::Ends;
use crate::corpus::count::trie_scan::scan;
use crate::corpus::finish::finish_sorted;
use crate::corpus::options::Options;
use crate::corpus::sealed::Sealed;
use crate::corpus::sorted_run::Header;
use crate::corpus::vocabulary::Vocabulary;
use crate::corpus::{Corpus, Outputs};
use crate::num::stream::Stream;
use crate::observe::Observer;
use crate::units::{Nats, grouped};
use serde::Serialize;
use std::fmt;

/// Contexts are listed one by one for windows of about this many tokens in all, unless `windows` says otherwise.
const SAMPLE_TOKENS: u64 = 1 << 20;

/// Which windows contexts are of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WindowSample {
    /// The number of windows drawn.
    pub windows: u64,
    /// The number of all windows.
    pub of: u64,
    /// The floor of the windows drawn.
    pub floor_nats_per_prediction: Option<Nats>,
    /// The floor of all windows.
    pub floor_nats_per_prediction_of_all: Option<Nats>,
}

impl fmt::Display for WindowSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let floor = |nats: Option<Nats>| nats.map_or("-".into(), |nats| format!("{:.6}", nats.at_least()));
        if self.windows == self.of {
            return write!(f, "all {} windows", grouped(self.windows));
        }
        write!(
            f,
            "{} of {} windows, drawn at random (`windows`): their floor is {} nats per prediction, that of all {}",
            grouped(self.windows),
            grouped(self.of),
            floor(self.floor_nats_per_prediction),
            floor(self.floor_nats_per_prediction_of_all)
        )
    }
}

/// The contexts of some of the windows, which are drawn at random if there are too many, as documents of their own. Their
/// vocabulary is that of the whole text, so that a model of them can be evaluated on the other windows too.
pub(super) fn sampled<C: Code>(
    text: &Text<C>,
    rule: WindowRule,
    alphabet: &Vocabulary,
    header: Header,
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    let most =
        outputs.max_contexts.map_or(SAMPLE_TOKENS, |most| most.saturating_add(most / rule.n_ctx as u64));
    let mut n = options.windows.unwrap_or((most / (rule.n_ctx as u64 + 1)).max(1));
    loop {
        let (mut tokens, mut ends) = (Vec::new(), Vec::new());
        for start in sample(text, rule, n, options.seed) {
            let length = text.room(start).min(rule.n_ctx + 1);
            tokens.extend(text.codes(start..start + length).iter().map(|code| code.get() - 1));
            ends.push(tokens.len());
        }
        let sealed = Sealed::from_ids(&tokens, Ends::At(&ends), alphabet, options);
        let sorted = sealed.sort(options);
        // Contexts are at most the tokens of the windows, which is nearly their number where windows are long.
        let contexts = scan(&sorted, options.window.contexts).contexts();
        let fits = outputs.max_contexts.is_none_or(|most| contexts <= most)
            && outputs
                .max_work
                .is_none_or(|most| contexts.saturating_mul(sealed.vocabulary.len() as u64) <= most);
        if fits || options.windows.is_some() || n == 1 {
            return finish_sorted(&sorted, &sealed.vocabulary, header, options, outputs, observer);
        }
        n = (n * 3 / 4).max(1);
    }
}

/// The starts of `n` windows drawn at random, or of all if there are not more, in increasing order.
fn sample<C: Code>(text: &Text<C>, rule: WindowRule, n: u64, seed: u64) -> Vec<usize> {
    let documents = || (0..text.documents()).map(|i| text.document(i));
    let windows: u64 = documents().map(|d| rule.starts(d.len()).len() as u64).sum();
    let mut random = Stream::new(seed, "windows", 0);
    let (mut left, mut wanted) = (windows, n.min(windows));
    let mut starts = Vec::with_capacity(wanted as usize);
    for document in documents() {
        for start in rule.starts(document.len()) {
            // Each window is taken with the probability that keeps every sample equally likely.
            if wanted == left || wanted > 0 && random.below(left) < wanted {
                starts.push(document.start + start);
                wanted -= 1;
            }
            left -= 1;
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::super::text::text;
    use super::*;

    #[test]
    fn every_window_is_drawn_equally_often() {
        let text = text::<u8>(&[vec![0; 5], vec![1; 2], vec![0; 6]]);
        let rule = WindowRule { n_ctx: 2, exact_length: true, stride: 1, repeats: false, joined: false };
        let mut drawn = [0; 16];
        for seed in 0..7000 {
            let starts = sample(&text, rule, 3, seed);
            assert!(starts.len() == 3 && starts.is_sorted());
            starts.iter().for_each(|&s| drawn[s] += 1);
        }
        // The first document has starts 0 to 2, the second none, the third 9 to 12.
        for (start, n) in drawn.into_iter().enumerate() {
            let expect = if matches!(start, 0..=2 | 9..=12) { 3000 } else { 0 };
            assert!(i32::abs(n - expect) < 200, "{start} {n}");
        }
        assert_eq!(sample(&text, rule, 9, 0), [0, 1, 2, 9, 10, 11, 12]);
    }
}
