//! Windows: contexts and floor of a text as language models are trained on it.
//!
//! A window starts anywhere in a document (or at every `stride`-th token) and has T + 1 tokens, fewer at the end of the
//! document. The figures are those of a corpus whose documents are the windows, but no window is ever written out:
//!
//! ```text
//! documents -> Text (text) -> starts with keys (keys), in bins (bins) -> ordered (order) -> trie, compacted (trie_pass) -> Figures
//!                                                                                     '-> repeats
//! ```
//!
//! `docs/windows.md` derives the counting. All figures are integers until the last sum, so that threads, passes and parts of the
//! order can be added in any way.

mod bins;
mod cells;
mod copies;
mod corpus;
mod count;
mod facts;
mod figures;
#[cfg(test)]
mod input_tests;
mod keys;
mod marks;
mod order;
mod range_file;
mod repeats;
mod sample;
mod summarize;
#[cfg(test)]
mod tests;
mod text;
mod text_file;
mod trie_pass;

pub(crate) use corpus::corpus;
pub(crate) use range_file::{is_range_file, merge};
pub(crate) use text::{Code, Text};

use crate::corpus::options::PartOf;
use bins::{BinCounts, add_short_contexts};
use count::Job;
use figures::{Figures, Nodes};
use marks::Marks;
use repeats::{StoredPassage, UniqueLengths};
use serde::{Deserialize, Serialize};
use std::ops::Range;

pub use repeats::{Repeats, ShortestUnique};
pub use sample::WindowSample;
pub use summarize::{FloorPoint, Passage, WindowSummary};

/// Which windows are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowRule {
    /// The longest context T.
    pub(crate) n_ctx: usize,
    /// Count only windows of T + 1 tokens.
    pub(crate) exact_length: bool,
    /// The distance between the starts of windows.
    pub(crate) stride: usize,
    /// Look for repeats too, which needs a stride of 1.
    pub(crate) repeats: bool,
    /// Whether all documents were joined into one; only reported.
    pub(crate) joined: bool,
}

/// The figures of windows, or of a part of them, before the last sums.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) part: PartOf,
    pub(crate) figures: Figures,
    /// The nodes of the trie of all windows, if only full ones are counted.
    pub(crate) nodes: Option<Nodes>,
    pub(crate) unique: UniqueLengths,
    /// The bins that have starts, in increasing order.
    pub(crate) bins: Vec<BinCounts>,
    /// The longest repeats.
    pub(crate) passages: Vec<StoredPassage>,
    /// Where repeats are.
    pub(crate) marks: Option<Marks>,
}

impl Counted {
    /// Adds the contexts that are made up of whole bins, once all bins are counted.
    pub(crate) fn add_short_contexts(&mut self, n_ctx: usize) {
        add_short_contexts(&self.bins, n_ctx + 1, &mut self.figures, self.nodes.as_mut());
    }
}

/// The tokens that occur at some place of a window: anywhere, after a context, or as the last one of a context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) inside: bool,
    pub(crate) follows: bool,
    pub(crate) ends_context: bool,
}

impl WindowRule {
    /// The places of the tokens of a document of this length, by position.
    pub(crate) fn places(&self, length: usize) -> impl Fn(usize) -> Places + use<> {
        let (n_ctx, stride) = (self.n_ctx, self.stride);
        // The last start of a window.
        let last = match self.exact_length {
            true => length.checked_sub(n_ctx + 1).map(|last| last / stride * stride),
            false => length.checked_sub(1).map(|last| last / stride * stride),
        };
        move |i| {
            let Some(last) = last else { return Places::default() };
            // The nearest start at or before a position is that of the window in which it comes first.
            let start = |at: usize| (at / stride * stride).min(last);
            Places {
                inside: i - start(i) <= n_ctx,
                follows: i > 0 && i - start(i - 1) <= n_ctx,
                ends_context: i + 1 < length && i - start(i) < n_ctx,
            }
        }
    }

    /// The starts of windows in a document of this length.
    pub(crate) fn starts(&self, length: usize) -> std::iter::StepBy<Range<usize>> {
        let end = if self.exact_length { length.saturating_sub(self.n_ctx) } else { length };
        (0..end).step_by(self.stride)
    }
}
