//! Repeats: passages that occur more than once.
//!
//! A start is in a repeat of at least K tokens if its first K tokens occur at another start too. In the order of the windows
//! these starts are neighbours, so runs of rows with common prefixes of at least K tokens are all there is to look at.

use super::bins::BIN_DIGITS;
use super::keys::{Codebook, FREQUENT};
use super::marks::Marks;
use super::order::Position;
use super::range_file::LARGEST;
use super::summarize::Passage;
use super::text::{Code, Text};
use crate::corpus::vocabulary::Vocabulary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The lengths of repeats that are reported.
pub(crate) const LENGTHS: [usize; 6] = [10, 16, 20, 32, 50, 100];

/// The tokens in repeats of at least a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats {
    /// The length K.
    pub length: u32,
    /// The tokens inside passages of at least K tokens that occur more than once.
    pub repeated_tokens: u64,
    /// Those of them that remain after the first occurrence of every passage of K tokens is taken away: what removing
    /// duplicates would remove.
    pub redundant_tokens: u64,
}

/// How far one has to read from a position until what was read occurs nowhere else in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShortestUnique {
    /// The median over the positions of the text; `None` if that is never.
    pub median: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The number of positions from which the rest of the document occurs elsewhere too.
    pub never: u64,
}

/// Counts the tokens in repeats, given runs of equal marks in the order of the text.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    /// For repeated and redundant tokens, by length: the number of positions covered, and the end of the last of them.
    covered: [[(u64, u64); LENGTHS.len()]; 2],
    /// The number of positions so far.
    positions: u64,
}

impl Covered {
    /// The next positions, which have the same mark.
    pub(crate) fn run(&mut self, n: u64, mark: u8) {
        let start = self.positions;
        if mark > 0 {
            for (covered, level) in self.covered.iter_mut().zip([mark & 15, mark >> 4]) {
                for ((covered, until), length) in covered.iter_mut().zip(LENGTHS).take(level.into()) {
                    // The last start of the run reaches furthest.
                    let end = (start + n - 1).saturating_add(length as u64);
                    *covered += end - start.max(*until);
                    *until = end;
                }
            }
        }
        self.positions += n;
    }

    pub(crate) fn finish(self) -> Vec<Repeats> {
        let [repeated, redundant] = self.covered;
        let rows = LENGTHS.iter().zip(repeated.iter().zip(redundant));
        rows.map(|(&length, (&(repeated_tokens, _), (redundant_tokens, _)))| Repeats {
            length: length as u32,
            repeated_tokens,
            redundant_tokens,
        })
        .collect()
    }
}

/// The tokens in repeats, given marks as runs from several parts; `None` if they are not runs of this many positions.
pub(crate) fn count_runs(parts: &[Vec<u64>], positions: u64) -> Option<Vec<Repeats>> {
    let mut covered = Covered::default();
    joint_runs(parts, positions)?.into_iter().for_each(|(n, mark)| covered.run(n, mark));
    Some(covered.finish())
}

/// Runs of equal marks, where several parts have marked different positions; `None` if a repeat would reach beyond the text.
fn joint_runs(parts: &[Vec<u64>], positions: u64) -> Option<Vec<(u64, u8)>> {
    let mut ends: Vec<(u64, usize, u8)> = Vec::new();
    for (part, runs) in parts.iter().enumerate() {
        let mut end = 0u64;
        for run in runs.chunks(2) {
            let &[n, mark] = run else { return None };
            end = end.checked_add(n).filter(|&end| n > 0 && end <= positions)?;
            let mark = u8::try_from(mark).ok()?;
            if let Some(level) = usize::from((mark & 15).max(mark >> 4)).checked_sub(1)
                && positions - (end - 1) < *LENGTHS.get(level)? as u64
            {
                return None;
            }
            ends.push((end, part, mark));
        }
        if end != positions {
            return None;
        }
    }
    // From one end of a run to the next, every part has one mark: that of the run of the part that ends next.
    ends.sort_unstable();
    let mut next: Vec<u8> = vec![0; parts.len()];
    let mut joint: Vec<(u64, u8)> = Vec::new();
    let mut from = positions;
    for &(end, part, mark) in ends.iter().rev() {
        if end < from {
            joint.push((from - end, next.iter().fold(0, |all, mark| all | mark)));
            from = end;
        }
        next[part] = mark;
    }
    if from > 0 {
        joint.push((from, next.iter().fold(0, |all, mark| all | mark)));
    }
    joint.reverse();
    Some(joint)
}

/// Looks for repeats in the rows of one class.
#[derive(Debug)]
pub(crate) struct RepeatFinder<'m> {
    marks: &'m Marks,
    /// For each of [`LENGTHS`], the smallest start of the run that the last row is in.
    smallest: [usize; LENGTHS.len()],
    /// The last row: its start, the number of runs it is in, and of those in which a smaller start is known.
    start: usize,
    repeated: usize,
    redundant: usize,
}

impl<'m> RepeatFinder<'m> {
    pub(crate) fn new(marks: &'m Marks) -> Self {
        Self { marks, smallest: [0; LENGTHS.len()], start: 0, repeated: 0, redundant: 0 }
    }

    /// The next start, and the length of its common prefix with the one before it.
    #[inline]
    pub(crate) fn row(&mut self, start: usize, common: usize) {
        let runs = if common < LENGTHS[0] {
            0
        } else {
            LENGTHS.iter().take_while(|&&length| common >= length).count()
        };
        self.repeated = self.repeated.max(runs);
        self.finish();
        (self.start, self.repeated, self.redundant) = (start, runs, 0);
        for (run, smallest) in self.smallest[..runs].iter_mut().enumerate() {
            if start < *smallest {
                self.marks.raise(*smallest, 0, run + 1);
                *smallest = start;
            } else {
                self.redundant = run + 1;
            }
        }
        self.smallest[runs..].fill(start);
    }

    /// Marks the last row.
    pub(crate) fn finish(&mut self) {
        if self.repeated > 0 {
            self.marks.raise(self.start, self.repeated, self.redundant);
        }
    }
}

/// The shortest unique substrings of starts, by length.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UniqueLengths {
    by_length: Vec<u64>,
    /// Those whose common prefixes with others have at least [`FEW`] tokens.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    longer: BTreeMap<u64, u64>,
    never: u64,
}

/// There are few common prefixes of so many tokens.
const FEW: usize = 1 << 16;

impl UniqueLengths {
    /// A start with `room` tokens in its document, whose longest common prefix with another start has `common` tokens.
    #[inline]
    pub(crate) fn add(&mut self, common: usize, room: usize) {
        if common >= room {
            self.never += 1;
            return;
        }
        if common >= FEW {
            *self.longer.entry(common as u64).or_insert(0) += 1;
            return;
        }
        if common >= self.by_length.len() {
            self.by_length.resize(common + 1, 0);
        }
        self.by_length[common] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if self.by_length.len() < other.by_length.len() {
            self.by_length.resize(other.by_length.len(), 0);
        }
        self.by_length.iter_mut().zip(&other.by_length).for_each(|(a, b)| *a += b);
        other.longer.iter().for_each(|(&common, n)| *self.longer.entry(common).or_insert(0) += n);
        self.never += other.never;
    }

    /// Whether numbers that were read from a file are of possible sizes.
    pub(crate) fn is_possible(&self) -> bool {
        let mut numbers = self.by_length.iter().chain(self.longer.values()).chain([&self.never]);
        numbers.all(|&n| n <= LARGEST)
            && self.by_length.len() <= FEW
            && self.longer.keys().all(|common| (FEW as u64..1 << 32).contains(common))
    }

    pub(crate) fn quantiles(&self) -> ShortestUnique {
        let total = self.by_length.iter().chain(self.longer.values()).sum::<u64>() + self.never;
        // The smallest length that suffices for a share of the positions.
        let quantile = |percent: u64| {
            let (needed, mut sum) = ((total * percent).div_ceil(100), 0);
            let longer = self.longer.iter().map(|(&common, n)| (common + 1, n));
            (1..).zip(&self.by_length).chain(longer).find_map(|(length, &n)| {
                sum += n;
                (sum >= needed).then_some(length)
            })
        };
        ShortestUnique { median: quantile(50), p90: quantile(90), p99: quantile(99), never: self.never }
    }
}

/// The number of passages that are reported.
const PASSAGES: usize = 5;

/// The tokens of a passage that are kept: texts that are copied as a whole have passages as long as themselves.
pub(crate) const EXCERPT: usize = 1000;

/// The longest passages of at least two tokens that occur more than once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Longest {
    /// Lengths and first occurrences, the longest first; of the same length, in the order of their first tokens, then of the text.
    passages: Vec<(usize, usize)>,
}

/// The code of the token before a start, or before several if it is the same; 0 for several tokens or the start of a document:
/// what begins there cannot be continued to the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left(u32);

impl Left {
    const SEVERAL: Self = Self(0);

    fn of<C: Code>(text: &Text<C>, start: usize) -> Self {
        Self(start.checked_sub(1).map_or(0, |before| text.code(before)))
    }

    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::SEVERAL }
    }
}

/// A passage that is a prefix of the last start and of one before it.
struct Open<P> {
    length: P,
    left: Left,
    /// Its first occurrence so far.
    first: P,
}

impl Longest {
    /// Takes the passages that occur at sorted starts of a bin, given with their common prefixes, and that cannot be continued, to
    /// the left or to the right, wherever they occur. Two tokens whose code is shorter than what a bin has in common may occur in
    /// other bins too; they are left to [`Longest::add_frequent_pairs`].
    pub(crate) fn sorted<C: Code, P: Position>(&mut self, text: &Text<C>, codes: &Codebook, rows: &[P::Row]) {
        let mut open: Vec<Open<P>> = Vec::new();
        for pair in rows.windows(2) {
            let common = P::key(&pair[1]) as usize;
            let shortest = if self.passages.len() < PASSAGES { 2 } else { self.passages[PASSAGES - 1].0 };
            if common < shortest && open.is_empty() {
                continue;
            }
            let (left, first) = self.close(text, codes, &mut open, P::position(&pair[0]), common);
            match open.last_mut() {
                Some(passage) if passage.length.get() == common => {
                    passage.left = passage.left.and(left);
                    passage.first = P::new(passage.first.get().min(first));
                }
                _ if common >= shortest => {
                    open.push(Open { length: P::new(common), left, first: P::new(first) });
                }
                _ => {}
            }
        }
        if let Some(last) = rows.last() {
            self.close(text, codes, &mut open, P::position(last), 0);
        }
    }

    /// Closes the passages longer than `common`, all of which begin at `last` too; returns what comes before them, and the first
    /// of their occurrences.
    fn close<C: Code, P: Position>(
        &mut self,
        text: &Text<C>,
        codes: &Codebook,
        open: &mut Vec<Open<P>>,
        last: usize,
        common: usize,
    ) -> (Left, usize) {
        let (mut left, mut first) = (Left::of(text, last), last);
        while let Some(passage) = open.pop_if(|passage| passage.length.get() > common) {
            left = left.and(passage.left);
            first = first.min(passage.first.get());
            let length = passage.length.get();
            let is_whole = length > 2 || codes.digits(&text.codes(first..first + length)) >= BIN_DIGITS;
            if left == Left::SEVERAL && is_whole {
                self.insert(text, length, first);
            }
        }
        (left, first)
    }

    /// Takes passages of two tokens that bins may divide, if there are few longer ones: both are among the most frequent tokens.
    pub(crate) fn add_frequent_pairs<C: Code>(&mut self, text: &Text<C>, codes: &Codebook) {
        if self.passages.len() == PASSAGES && self.passages[PASSAGES - 1].0 > 2 {
            return;
        }
        // What comes before and after a pair, where it was seen first, and whether it was seen again.
        let mut pairs: [Option<(Left, Left, usize, bool)>; FREQUENT * FREQUENT] = [None; FREQUENT * FREQUENT];
        let mut last = [C::new(0); 3];
        for (start, block) in text.blocks(0..text.positions()) {
            for (position, &after) in (start..).zip(block.iter()) {
                let [before, a, b] = last;
                last = [a, b, after];
                let (Some(i), Some(j)) = (codes.frequent(a), codes.frequent(b)) else { continue };
                let (left, right) = (Left(before.get()), Left(after.get()));
                match &mut pairs[FREQUENT * i + j] {
                    Some((lefts, rights, _, again)) => {
                        (*lefts, *rights, *again) = (lefts.and(left), rights.and(right), true);
                    }
                    new => *new = Some((left, right, position - 2, false)),
                }
            }
        }
        for &(left, right, first, again) in pairs.iter().flatten() {
            if again && [left, right] == [Left::SEVERAL; 2] {
                self.insert(text, 2, first);
            }
        }
    }

    fn insert<C: Code>(&mut self, text: &Text<C>, length: usize, first: usize) {
        let codes = |at: usize| text.codes(at..at + length.min(EXCERPT));
        let order = |&(other, at): &(usize, usize)| {
            let by_codes = || codes(at).iter().map(|c| c.get()).cmp(codes(first).iter().map(|c| c.get()));
            length.cmp(&other).then_with(by_codes).then(at.cmp(&first))
        };
        if let Err(at) = self.passages.binary_search_by(order) {
            self.passages.insert(at, (length, first));
            self.passages.truncate(PASSAGES);
        }
    }

    pub(crate) fn merge<C: Code>(&mut self, other: Self, text: &Text<C>) {
        other.passages.into_iter().for_each(|(length, first)| self.insert(text, length, first));
    }

    /// The passages themselves.
    pub(crate) fn passages<C: Code>(&self, text: &Text<C>, alphabet: &Vocabulary) -> Vec<StoredPassage> {
        let passage = |&(length, first): &(usize, usize)| {
            let codes = text.codes(first..first + length.min(EXCERPT));
            let ids: Vec<u32> = codes.iter().map(|code| code.get() - 1).collect();
            // An end mark for every document before this one.
            let position = (first - text.document_of(first)) as u64;
            let mut text = String::new();
            for (i, &id) in ids.iter().enumerate() {
                text += if i > 0 { alphabet.joiner() } else { "" };
                text += &alphabet.text(id);
            }
            StoredPassage { length: length as u64, position, ids, text }
        };
        self.passages.iter().map(passage).collect()
    }
}

/// A passage that occurs more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredPassage {
    pub(crate) length: u64,
    position: u64,
    /// Its first tokens.
    ids: Vec<u32>,
    text: String,
}

impl StoredPassage {
    pub(crate) fn passage(&self) -> Passage {
        Passage { length: self.length, position: self.position, text: self.text.clone() }
    }

    /// Whether what was read from a file is possible in a text of this many tokens.
    pub(crate) fn is_possible(&self, tokens: u64) -> bool {
        self.length >= 2
            && self.position.checked_add(self.length).is_some_and(|end| end <= tokens)
            && self.ids.len() as u64 == self.length.min(EXCERPT as u64)
    }
}

/// The longest of passages from several parts.
pub(crate) fn longest_of(mut passages: Vec<StoredPassage>) -> Vec<StoredPassage> {
    passages.sort_by(|a, b| {
        b.length.cmp(&a.length).then_with(|| a.ids.cmp(&b.ids)).then(a.position.cmp(&b.position))
    });
    passages.dedup();
    passages.truncate(PASSAGES);
    passages
}
