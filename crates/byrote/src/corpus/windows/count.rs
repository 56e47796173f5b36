//! Counting: bins are sorted and counted on all threads, and what they give is added.

use super::bins::{BINS, BinCounts, Bins, bin_sizes, common_of, shared_tokens};
use super::figures::{Counts, Figures, Nodes};
use super::keys::Codebook;
use super::marks::Marks;
use super::order::{Position, Sorter};
use super::repeats::{LENGTHS, Longest, RepeatFinder, UniqueLengths};
use super::trie_pass::{Row, TriePass};
use super::{Code, Counted, Text, WindowRule};
use crate::Result;
use crate::corpus::options::PartOf;
use crate::corpus::vocabulary::Vocabulary;
use crate::observe::{Observer, Stage};
use rayon::prelude::*;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A text to be counted, given how often its tokens occur by code; `d_vocab` different tokens occur in its windows.
pub(crate) struct Job<'a, C> {
    pub(crate) text: &'a Text<C>,
    pub(crate) rule: WindowRule,
    pub(crate) counts: &'a [u64],
    pub(crate) d_vocab: usize,
    pub(crate) part: PartOf,
    pub(crate) max_memory: Option<u64>,
    /// Where temporary files are put.
    pub(crate) temp_dir: &'a Path,
    pub(crate) alphabet: &'a Vocabulary,
}

impl<C: Code> Job<'_, C> {
    /// Counts the windows of a text, or of some bins of it.
    pub(crate) fn count(&self, observer: &dyn Observer) -> Result<Counted> {
        match u32::try_from(self.text.positions()) {
            Ok(_) => self.count_with::<u32>(observer),
            Err(_) => self.count_with::<u64>(observer),
        }
    }

    pub(super) fn count_with<P: Position>(&self, observer: &dyn Observer) -> Result<Counted> {
        observer.report(Stage::Sorting, 0, None)?;
        let Self { text, rule, .. } = *self;
        let codes = &Codebook::new(self.counts);
        let sizes = &bin_sizes(text, codes, rule.stride);
        let own = self.own_bins(sizes);
        let marks = match rule.repeats {
            false => None,
            // Where the text does not fit in memory, marks do not either.
            true if text.footprint() == 0 => Some(Marks::in_file(text.positions(), self.temp_dir)?),
            true => Some(Marks::in_memory(text.positions())),
        };
        let total: usize = sizes[own.clone()].iter().sum();
        let tasks = tasks(sizes, own, self.starts_at_once::<P>(total, marks.as_ref()));
        let largest = tasks.iter().map(|bins| sizes[bins.clone()].iter().sum()).max().unwrap_or(0);
        let (tasks, done) = (Mutex::new(tasks.into_iter()), AtomicU64::new(0));
        let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
        let threads = rayon::current_num_threads();
        let max_copies =
            self.max_memory.map_or(usize::MAX, |b| usize::try_from(b).unwrap_or(usize::MAX) / (16 * threads));
        let (d_vocab, marks_of) = (self.d_vocab, marks.as_ref());
        let pass = Pass { text, rule, codes, sizes, d_vocab, marks: marks_of, max_copies };
        let workers: Result<Vec<Tally>> = (0..rayon::current_num_threads())
            .into_par_iter()
            .map(|_| {
                let mut worker = Worker::<C, P>::new(&pass, largest);
                while let Some(bins) = next() {
                    worker.task(bins, |starts| {
                        let done = done.fetch_add(starts as u64, Ordering::Relaxed) + starts as u64;
                        observer.report(Stage::Counting, done, Some(total as u64))
                    })?;
                }
                Ok(worker.tally)
            })
            .collect();
        let mut all = Tally::new(&pass);
        workers?.into_iter().for_each(|tally| all.merge(tally, text));
        if rule.repeats {
            all.longest.add_frequent_pairs(text, codes);
        }
        all.figures.settle();
        all.bins.sort_unstable();
        Ok(Counted {
            part: self.part,
            passages: all.longest.passages(text, self.alphabet),
            figures: all.figures,
            nodes: all.nodes,
            unique: all.unique,
            bins: all.bins,
            marks,
        })
    }

    /// The bins of the part that is counted: a range, in which every part has about as many starts.
    fn own_bins(&self, sizes: &[usize]) -> Range<usize> {
        if self.part.is_all() {
            return 0..sizes.len();
        }
        let total: usize = sizes.iter().sum();
        let (mut before, mut first, mut end) = (0, sizes.len(), 0);
        for (bin, &size) in sizes.iter().enumerate() {
            if size > 0 && self.part.has(before as u64, total as u64) {
                first = first.min(bin);
                end = bin + 1;
            }
            before += size;
        }
        first.min(end)..end
    }

    /// The number of starts that a thread sorts at once.
    fn starts_at_once<P: Position>(&self, starts: usize, marks: Option<&Marks>) -> usize {
        let threads = rayon::current_num_threads();
        let usual = starts.div_ceil(TASKS_PER_THREAD * threads);
        let most = self.max_memory.map_or(usize::MAX, |budget| {
            let fixed = self.text.footprint() + marks.map_or(0, Marks::footprint);
            let left = usize::try_from(budget).unwrap_or(usize::MAX).saturating_sub(fixed);
            // A third for the rows, the rest for what else the threads hold.
            left / (3 * threads * size_of::<P::Row>())
        });
        usual.min(most).max(1 << 16)
    }
}

/// The bins are divided into so many tasks per thread, each of which computes all keys once more: more of them take less memory.
const TASKS_PER_THREAD: usize = 3;

/// Ranges of bins with at most this many starts each, if a bin has no more.
fn tasks(sizes: &[usize], own: Range<usize>, most: usize) -> Vec<Range<usize>> {
    let mut tasks = Vec::new();
    let mut first = own.start;
    while first < own.end {
        let (mut end, mut starts) = (first, 0);
        while end < own.end && (starts == 0 || starts + sizes[end] <= most) {
            starts += sizes[end];
            end += 1;
        }
        tasks.push(first..end);
        first = end;
    }
    tasks
}

/// What the tasks share.
struct Pass<'a, C> {
    text: &'a Text<C>,
    rule: WindowRule,
    codes: &'a Codebook,
    /// The number of starts by bin.
    sizes: &'a [usize],
    d_vocab: usize,
    marks: Option<&'a Marks>,
    /// The bytes that a thread may take to remember copies.
    max_copies: usize,
}

/// The figures of some bins.
struct Tally {
    figures: Figures,
    nodes: Option<Nodes>,
    unique: UniqueLengths,
    longest: Longest,
    bins: Vec<BinCounts>,
}

impl Tally {
    fn new<C: Code>(pass: &Pass<'_, C>) -> Self {
        Self {
            figures: Figures::new(pass.d_vocab as u64),
            nodes: pass.rule.exact_length.then(Nodes::default),
            unique: UniqueLengths::default(),
            longest: Longest::default(),
            bins: Vec::new(),
        }
    }

    fn merge<C: Code>(&mut self, other: Self, text: &Text<C>) {
        self.figures.merge(&other.figures);
        if let (Some(nodes), Some(others)) = (&mut self.nodes, &other.nodes) {
            nodes.0.merge(&others.0);
        }
        self.unique.merge(&other.unique);
        self.longest.merge(other.longest, text);
        self.bins.extend(other.bins);
    }
}

/// One thread.
struct Worker<'a, C, P: Position> {
    pass: &'a Pass<'a, C>,
    bins: Bins<P>,
    sorter: Sorter<'a, C, P>,
    tally: Tally,
}

impl<'a, C: Code, P: Position> Worker<'a, C, P> {
    fn new(pass: &'a Pass<'a, C>, starts: usize) -> Self {
        let sorter = Sorter::new(pass.text, pass.codes, pass.max_copies);
        Self { pass, bins: Bins::new(starts), sorter, tally: Tally::new(pass) }
    }

    /// Counts some bins, and reports the number of starts of each.
    fn task(&mut self, bins: Range<usize>, report: impl Fn(usize) -> Result<()>) -> Result<()> {
        let Pass { text, rule, codes, sizes, .. } = *self.pass;
        let mut rows = self.bins.collect(text, codes, rule.stride, sizes, bins.clone());
        for bin in bins.filter(|&bin| sizes[bin] > 0) {
            let (own, others) = std::mem::take(&mut rows).split_at_mut(sizes[bin]);
            self.sorter.sort(own, shared_tokens(bin));
            if self.pass.marks.is_some() {
                self.tally.repeats::<C, P>(self.pass, bin, own);
            }
            self.tally.windows::<C, P>(self.pass, bin, own);
            report(own.len())?;
            rows = others;
        }
        Ok(())
    }
}

impl Tally {
    /// Counts the windows of a bin in their order.
    fn windows<C: Code, P: Position>(&mut self, pass: &Pass<'_, C>, bin: usize, rows: &[P::Row]) {
        let full = pass.rule.n_ctx + 1;
        let shared = shared_tokens(bin).min(full);
        let mut trie = TriePass::new(shared);
        let mut counts = Counts { figures: &mut self.figures, nodes: self.nodes.as_mut() };
        let (mut common, mut is_new) = (shared, shared < full);
        for (i, row) in rows.iter().enumerate() {
            let length = pass.text.room(P::position(row)).min(full);
            let next = rows.get(i + 1).map_or(shared, |row| (P::key(row) as usize).min(full));
            let is_kept = length == full || !pass.rule.exact_length;
            trie.window(Row { common, next, length, is_kept }, &mut counts);
            if is_kept {
                counts.figures.window(length, is_new || common < length);
            }
            (common, is_new) = (next, false);
        }
        let root = trie.finish(&mut counts);
        let (bin, starts) = (bin as u64, rows.len() as u64);
        self.bins.push(BinCounts {
            bin,
            starts,
            kept: root.kept,
            ended: root.ended,
            children: root.children,
        });
    }

    /// Looks for repeats.
    fn repeats<C: Code, P: Position>(&mut self, pass: &Pass<'_, C>, bin: usize, rows: &[P::Row]) {
        let Some(marks) = pass.marks else { return };
        let has_starts = |&other: &usize| pass.sizes[other] > 0;
        let common_with = |other: Option<usize>| other.map_or(0, |other| common_of(bin, other));
        let mut common = common_with((0..bin).rev().find(has_starts));
        let after = common_with((bin + 1..BINS).find(has_starts));
        for (i, row) in rows.iter().enumerate() {
            let next = rows.get(i + 1).map_or(after, |row| P::key(row) as usize);
            self.unique.add(common.max(next), pass.text.room(P::position(row)));
            common = next;
        }
        self.longest.sorted::<C, P>(pass.text, pass.codes, rows);
        for run in runs::<P>(rows, LENGTHS[0]) {
            let mut finder = RepeatFinder::new(marks);
            rows[run].iter().for_each(|row| finder.row(P::position(row), P::key(row) as usize));
            finder.finish();
        }
    }
}

/// Runs of at least two rows, each of which has a common prefix of at least `least` tokens with the one before it in its run.
fn runs<P: Position>(rows: &[P::Row], least: usize) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let agrees = |row: &P::Row| P::key(row) as usize >= least;
        let first = end + rows.get(end + 1..)?.iter().position(agrees)?;
        end = first + 1 + rows[first + 1..].iter().take_while(|row| agrees(row)).count();
        Some(first..end)
    })
}
