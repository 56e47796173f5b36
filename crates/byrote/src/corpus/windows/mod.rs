//! Windows: contexts and floor of a text as language models are trained on it.
//!
//! A window starts anywhere in a document (or at every `stride`-th token) and has T + 1 tokens, fewer at the end of the
//! document. The figures are those of a corpus whose documents are the windows, but no window is ever written out:
//!
//! ```text
//! documents -> Text (text) -> starts in the order of their windows (order) -> trie, compacted (trie_pass) -> Figures
//!                                                                         '-> repeats
//! ```
//!
//! `docs/windows.md` derives the counting. All figures are integers until the last sum, so that threads, passes and parts of the
//! order can be added in any way.

mod cells;
mod classes;
mod corpus;
mod facts;
mod figures;
mod order;
mod range_file;
mod repeats;
mod rolling;
mod sample;
mod summarize;
#[cfg(test)]
mod tests;
mod text;
mod trie_pass;

pub(crate) use corpus::corpus;
pub(crate) use range_file::{is_range_file, merge};
pub(crate) use text::{Code, Text};

use crate::Result;
use crate::corpus::options::PartOf;
use crate::corpus::vocabulary::Vocabulary;
use crate::num::huge_pages::HugePageArray;
use crate::observe::{Observer, Stage};
use classes::{Class, Classes, class_sizes, class_tokens};
use figures::{Counts, Figures, Nodes};
use order::{Position, Sorter};
use rayon::prelude::*;
use repeats::{Longest, Marks, RepeatFinder, StoredPassage, UniqueLengths};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use trie_pass::{Row, TriePass};

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

/// Common prefixes are measured to this depth when repeats are looked for, and beyond it only to find the longest repeat.
const DEEP: usize = 1024;

/// The figures of windows, or of a part of them, before the last sums.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) part: PartOf,
    pub(crate) figures: Figures,
    /// The nodes of the trie of all windows, if only full ones are counted.
    pub(crate) nodes: Option<Nodes>,
    pub(crate) unique: UniqueLengths,
    /// Classes of two tokens: the class, its starts, and those of them whose windows count.
    pub(crate) classes: Vec<(u64, u64, u64)>,
    /// The longest repeats.
    pub(crate) passages: Vec<StoredPassage>,
    /// Where repeats are.
    pub(crate) marks: Option<Marks>,
}

impl Counted {
    /// Adds the contexts that are shorter than what determines a class, once all classes are counted.
    pub(crate) fn add_short_contexts(&mut self) {
        self.classes.sort_unstable();
        for siblings in self.classes.chunk_by(|a, b| a.0 >> 8 == b.0 >> 8) {
            let kept = siblings.iter().map(|&(_, _, kept)| kept).filter(|&kept| kept > 0);
            let (count, next) = kept.clone().fold((0, 0), |(count, next), kept| (count + kept, next + 1));
            if next > 0 {
                self.figures.context(1, count, next);
            }
            kept.for_each(|kept| self.figures.continuation(1, kept));
        }
        if let Some(nodes) = &mut self.nodes {
            self.classes.iter().for_each(|&(_, starts, _)| nodes.edge(1, 2, starts));
        }
    }
}

/// A text to be counted: its codes are below `codes`, and `d_vocab` different tokens occur in its windows.
pub(crate) struct Job<'a, C> {
    pub(crate) text: &'a Text<C>,
    pub(crate) rule: WindowRule,
    pub(crate) codes: usize,
    pub(crate) d_vocab: usize,
    pub(crate) part: PartOf,
    pub(crate) max_memory: Option<u64>,
    pub(crate) alphabet: &'a Vocabulary,
}

impl<C: Code> Job<'_, C> {
    /// Counts the windows of a text, or of some classes of it.
    pub(crate) fn count(&self, observer: &dyn Observer) -> Result<Counted> {
        match u32::try_from(self.text.positions()) {
            Ok(_) => self.count_with::<u32>(observer),
            Err(_) => self.count_with::<u64>(observer),
        }
    }

    fn count_with<P: Position>(&self, observer: &dyn Observer) -> Result<Counted> {
        observer.report(Stage::Sorting, 0, None)?;
        let Self { text, rule, .. } = *self;
        let stride = rule.stride;
        let is_start = |position: usize| {
            stride == 1 || (position - text.document(text.document_of(position)).start).is_multiple_of(stride)
        };
        let sizes = class_sizes(text, self.codes, &is_start);
        let own = self.own_classes(&sizes);
        let marks = rule.repeats.then(|| Marks::new(text.positions()));
        let total: usize = sizes[own.clone()].iter().sum();
        let most = starts_at_once::<C, P>(text, total, marks.is_some(), self.max_memory);
        let done = AtomicU64::new(0);
        let d_vocab = self.d_vocab;
        let pass =
            Pass { text, rule, d_vocab, sizes: &sizes, marks: marks.as_ref(), observer, done: &done, total };
        let mut all = Worker::<P>::new(&pass);
        let mut first = own.start;
        while first < own.end {
            let (mut end, mut starts) = (first, 0);
            while end < own.end && (end == first || starts + sizes[end] <= most) {
                starts += sizes[end];
                end += 1;
            }
            let classes = Classes::<P>::new(text, &sizes, first..end, &is_start);
            all.merge(pass.run(classes)?, text);
            first = end;
        }
        for run in std::mem::take(&mut all.deep) {
            all.longest.run(text, run, pass.depth());
            observer.check()?;
        }
        let mut counted = Counted {
            part: self.part,
            passages: all.longest.passages(text, self.alphabet),
            figures: all.figures,
            nodes: all.nodes,
            unique: all.unique,
            classes: all.classes,
            marks,
        };
        counted.figures.settle();
        counted.classes.sort_unstable();
        Ok(counted)
    }

    /// The classes of the part that is counted: a range, in which every part has about as many starts.
    fn own_classes(&self, sizes: &[usize]) -> Range<usize> {
        if self.part.is_all() {
            return 0..sizes.len();
        }
        let total: usize = sizes.iter().sum();
        let (mut before, mut first, mut end) = (0, sizes.len(), 0);
        for (class, &size) in sizes.iter().enumerate() {
            if size > 0 && self.part.has(before as u64, total as u64) {
                first = first.min(class);
                end = class + 1;
            }
            before += size;
        }
        first.min(end)..end
    }
}

/// The number of starts that are sorted in one pass over the text.
fn starts_at_once<C: Code, P: Position>(
    text: &Text<C>,
    starts: usize,
    marks: bool,
    max_memory: Option<u64>,
) -> usize {
    let Some(budget) = max_memory else { return starts };
    let fixed = text.positions() * (size_of::<C>() + usize::from(marks));
    let left = usize::try_from(budget).unwrap_or(usize::MAX).saturating_sub(fixed);
    // Half for the starts themselves, half for the common prefixes and buckets of the classes in work.
    (left / (2 * size_of::<P>())).max(1 << 16)
}

/// What the passes over a text share.
struct Pass<'a, C> {
    text: &'a Text<C>,
    rule: WindowRule,
    d_vocab: usize,
    /// The number of starts by class.
    sizes: &'a [usize],
    marks: Option<&'a Marks>,
    observer: &'a dyn Observer,
    done: &'a AtomicU64,
    total: usize,
}

impl<C: Code> Pass<'_, C> {
    /// Counts some classes.
    fn run<P: Position>(&self, mut classes: Classes<P>) -> Result<Worker<P>> {
        let mut queue: Vec<Class<'_, P>> =
            classes.each().filter(|class| !class.positions.is_empty()).collect();
        // The largest classes come first, so that no thread is left alone with one at the end.
        queue.sort_by_key(|class| std::cmp::Reverse(class.positions.len()));
        let queue = Mutex::new(queue.into_iter());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let workers: Result<Vec<Worker<P>>> = (0..rayon::current_num_threads())
            .into_par_iter()
            .map(|_| {
                let mut worker = Worker::new(self);
                while let Some(class) = next() {
                    let n = class.positions.len() as u64;
                    worker.class(self, class);
                    let done = self.done.fetch_add(n, Ordering::Relaxed) + n;
                    self.observer.report(Stage::Counting, done, Some(self.total as u64))?;
                }
                Ok(worker)
            })
            .collect();
        let mut workers = workers?.into_iter();
        let mut all = workers.next().unwrap_or_else(|| Worker::new(self));
        workers.for_each(|worker| all.merge(worker, self.text));
        Ok(all)
    }

    /// The depth to which windows are sorted.
    fn depth(&self) -> usize {
        let window = self.rule.n_ctx + 1;
        if self.rule.repeats { window.max(DEEP) } else { window }
    }

    /// The common prefix of a class that has a single start with its neighbours.
    fn outer_common(&self, class: usize) -> usize {
        if class_tokens::<C>() == 1 {
            return 0;
        }
        let siblings = class >> 8 << 8..((class >> 8) + 1) << 8;
        usize::from(self.sizes[siblings].iter().sum::<usize>() > self.sizes[class])
    }
}

/// The figures of the classes that one thread has counted.
struct Worker<P> {
    figures: Figures,
    nodes: Option<Nodes>,
    unique: UniqueLengths,
    longest: Longest,
    /// Classes of two tokens: the class, its starts, and those of them whose windows count.
    classes: Vec<(u64, u64, u64)>,
    /// Starts whose common prefix is as long as the depth of the sort.
    deep: Vec<Vec<usize>>,
    sorter: Sorter<P>,
    common: HugePageArray<P>,
}

impl<P: Position> Worker<P> {
    fn new<C: Code>(pass: &Pass<'_, C>) -> Self {
        Self {
            figures: Figures::new(pass.d_vocab as u64),
            nodes: pass.rule.exact_length.then(Nodes::default),
            unique: UniqueLengths::default(),
            longest: Longest::default(),
            classes: Vec::new(),
            deep: Vec::new(),
            sorter: Sorter::new(),
            common: HugePageArray::zeroed(0),
        }
    }

    fn merge<C: Code>(&mut self, other: Self, text: &Text<C>) {
        self.figures.merge(&other.figures);
        if let (Some(nodes), Some(others)) = (&mut self.nodes, &other.nodes) {
            nodes.0.merge(&others.0);
        }
        self.unique.merge(&other.unique);
        self.longest.merge(other.longest, text);
        self.classes.extend(other.classes);
        self.deep.extend(other.deep);
    }

    /// Counts a class.
    fn class<C: Code>(&mut self, pass: &Pass<'_, C>, class: Class<'_, P>) {
        let Class { number, positions } = class;
        let (prefix, n) = (class_tokens::<C>(), positions.len());
        let mut common = std::mem::replace(&mut self.common, HugePageArray::zeroed(0));
        if common.len() < n {
            // Zeros take no memory until they are written to.
            common = HugePageArray::zeroed(n);
        }
        // A window that ends before its class is determined is all the class has.
        let is_short = prefix == 2 && number & 255 == 0;
        if is_short {
            common[..n].fill(P::new(1));
        } else {
            self.sorter.sort(pass.text, positions, &mut common[..n], prefix, pass.depth());
        }
        if pass.marks.is_some() {
            self.repeats(pass, number, positions, &common[..n]);
        }
        if is_short {
            self.short_windows(pass, n);
        } else {
            let kept = self.windows(pass, positions, &common[..n]);
            if prefix == 2 {
                self.classes.push((number as u64, n as u64, kept));
            }
        }
        self.common = common;
    }

    /// Counts windows of one token.
    fn short_windows<C: Code>(&mut self, pass: &Pass<'_, C>, windows: usize) {
        if !pass.rule.exact_length {
            (0..windows).for_each(|i| self.figures.window(1, i == 0));
        }
    }

    /// Counts the windows of a class in their order; returns how many are kept.
    fn windows<C: Code>(&mut self, pass: &Pass<'_, C>, starts: &[P], commons: &[P]) -> u64 {
        let (prefix, full) = (class_tokens::<C>(), pass.rule.n_ctx + 1);
        let mut trie = TriePass::new(prefix);
        let mut counts = Counts { figures: &mut self.figures, nodes: self.nodes.as_mut() };
        let mut common = prefix;
        for (i, start) in starts.iter().enumerate() {
            let length = pass.text.room(start.get()).min(full);
            let next = commons.get(i + 1).map_or(prefix, |common| common.get().min(full));
            let is_kept = length == full || !pass.rule.exact_length;
            trie.window(Row { common, next, length, is_kept }, &mut counts);
            if is_kept {
                counts.figures.window(length, i == 0 || common < length);
            }
            common = next;
        }
        trie.finish(&mut counts)
    }

    /// Looks for repeats.
    fn repeats<C: Code>(&mut self, pass: &Pass<'_, C>, class: usize, starts: &[P], commons: &[P]) {
        let Some(marks) = pass.marks else { return };
        let (outer, depth) = (pass.outer_common(class), pass.depth());
        let mut common = outer;
        for (i, start) in starts.iter().enumerate() {
            let next = commons.get(i + 1).map_or(outer, |common| common.get());
            self.unique.add(common.max(next), pass.text.room(start.get()), depth);
            common = next;
        }
        self.longest.sorted(pass.text, starts, commons, depth);
        for run in runs(commons, repeats::LENGTHS[0]) {
            let mut finder = RepeatFinder::new(marks);
            for (start, common) in starts[run.clone()].iter().zip(&commons[run.clone()]) {
                finder.row(*start, common.get());
            }
            finder.finish();
            for deep in runs(&commons[run.clone()], depth) {
                let starts = &starts[run.start + deep.start..run.start + deep.end];
                self.deep.extend(repeats::left_maximal(pass.text, starts));
            }
        }
    }
}

/// Runs of at least two rows, each of which has a common prefix of at least `least` tokens with the one before it in its run.
fn runs<P: Position>(commons: &[P], least: usize) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let agrees = |common: &P| common.get() >= least;
        let first = end + commons.get(end + 1..)?.iter().position(agrees)?;
        end = first + 1 + commons[first + 1..].iter().take_while(|common| agrees(common)).count();
        Some(first..end)
    })
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
