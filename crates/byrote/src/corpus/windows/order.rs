//! The window sort: the starts of windows in the lexicographic order of the windows.
//!
//! Starts come in *bins*, those whose keys agree in their highest bits. A bin is sorted by the keys, which are at hand. Windows
//! that agree in theirs form a group, which is sorted by the keys of what follows, and so on. Where windows agree in much more,
//! they are compared with one of them instead: each comparison ends where the window differs from that one, and the sort of
//! those that differ at the same place starts there. The longest common prefix of neighbours follows from their keys.

use super::copies::{Comparison, Copies};
use super::keys::{Codebook, common_tokens, has_end, tokens};
use super::text::{Code, Text};
use bytemuck::Pod;

/// A position in the text as it is stored: `u32` unless the text is larger.
pub(crate) trait Position: Pod + Send + Sync {
    /// A start of a window with its key, or with its common prefix with the start before it.
    type Row: Pod + Send + Sync;
    fn new(position: usize) -> Self;
    fn get(self) -> usize;
    fn row(key: u64, position: usize) -> Self::Row;
    fn key(row: &Self::Row) -> u64;
    fn position(row: &Self::Row) -> usize;
}

impl Position for u32 {
    type Row = [u32; 3];
    #[inline]
    fn new(position: usize) -> Self {
        position as u32
    }
    #[inline]
    fn get(self) -> usize {
        self as usize
    }
    #[inline]
    fn row(key: u64, position: usize) -> [u32; 3] {
        [key as u32, (key >> 32) as u32, position as u32]
    }
    #[inline]
    fn key(row: &[u32; 3]) -> u64 {
        u64::from(row[1]) << 32 | u64::from(row[0])
    }
    #[inline]
    fn position(row: &[u32; 3]) -> usize {
        row[2] as usize
    }
}

impl Position for u64 {
    type Row = [u64; 2];
    #[inline]
    fn new(position: usize) -> Self {
        position as u64
    }
    #[inline]
    fn get(self) -> usize {
        self as usize
    }
    #[inline]
    fn row(key: u64, position: usize) -> [u64; 2] {
        [key, position as u64]
    }
    #[inline]
    fn key(row: &[u64; 2]) -> u64 {
        row[0]
    }
    #[inline]
    fn position(row: &[u64; 2]) -> usize {
        row[1] as usize
    }
}

/// The number of pairs that are compared together.
const PAIRS: usize = 256;

/// Fewer rows are not worth a table of buckets.
const FEW: usize = 64;

/// Buckets of more rows are sorted on their own.
const CROWDED: u32 = 16;

/// More rows are sorted in place, so that no second copy of them is made.
const MANY: usize = 1 << 22;

/// A group whose windows seem to agree in so many more tokens is compared with one of its windows.
const LONG: usize = 64;

/// Sorts bins, one after the other, with the same buffers.
#[derive(Debug)]
pub(crate) struct Sorter<'t, C, P: Position> {
    text: &'t Text<C>,
    codes: &'t Codebook,
    copies: Copies<P>,
    groups: Vec<Group>,
    pairs: Vec<Pair>,
    spare: Vec<P::Row>,
    slots: Vec<u32>,
    /// The common prefixes of the windows of a group with one of them.
    lengths: Vec<P>,
}

/// Two windows, the first of them at this row, that agree in their first `depth` tokens; and what follows.
#[derive(Debug, Clone, Copy)]
struct Pair {
    first: usize,
    depth: usize,
    next: [u32; 2],
}

/// Windows that agree in their first `depth` tokens and are not sorted further yet.
#[derive(Debug, Clone, Copy)]
struct Group {
    first: usize,
    end: usize,
    depth: usize,
}

/// What the keys of windows that agree in some tokens say.
#[derive(Debug, Clone, Copy)]
enum Keys {
    /// The tokens after this depth.
    Tokens { depth: usize },
    /// How they compare with one of them, of a length: smaller windows have their common prefix as key, which grows towards
    /// that one; larger ones have it subtracted from the largest key.
    Pivot { length: usize },
}

/// The key of windows that equal the pivot.
const EQUAL: u64 = 1 << 63;

impl Keys {
    /// The common prefix of windows whose keys differ.
    #[inline]
    fn common(self, a: u64, b: u64) -> usize {
        match self {
            Keys::Tokens { depth } => depth + common_tokens(a, b),
            Keys::Pivot { length } => pivot_common(a, length).min(pivot_common(b, length)),
        }
    }

    /// The common prefix of windows with this key as far as it is known, and whether they are equal.
    #[inline]
    fn same(self, key: u64) -> (usize, bool) {
        match self {
            Keys::Tokens { depth } => (depth + tokens(key), has_end(key)),
            Keys::Pivot { length } => (pivot_common(key, length), key == EQUAL),
        }
    }
}

/// The common prefix with a pivot of some length, given the key.
fn pivot_common(key: u64, length: usize) -> usize {
    match key {
        EQUAL => length,
        smaller if smaller < EQUAL => smaller as usize,
        larger => (u64::MAX - larger) as usize,
    }
}

impl<'t, C: Code, P: Position> Sorter<'t, C, P> {
    /// A sorter that takes at most about `max_copies` bytes to remember copies.
    pub(crate) fn new(text: &'t Text<C>, codes: &'t Codebook, max_copies: usize) -> Self {
        Self {
            text,
            codes,
            copies: Copies::new(text.positions(), max_copies),
            groups: Vec::new(),
            pairs: Vec::new(),
            spare: Vec::new(),
            slots: Vec::new(),
            lengths: Vec::new(),
        }
    }

    /// Sorts starts, given with their keys, and replaces the keys by the lengths of the common prefixes with the start before,
    /// which is `outer` for the first.
    pub(crate) fn sort(&mut self, rows: &mut [P::Row], outer: usize) {
        self.sort_by_keys(rows, 0, Keys::Tokens { depth: 0 }, outer);
        while let Some(group) = self.groups.pop() {
            self.refine(rows, group);
            if self.pairs.len() >= PAIRS {
                self.compare_pairs(rows);
            }
        }
        self.compare_pairs(rows);
    }

    /// Sorts a group by the next keys, and takes the groups that it leaves.
    fn refine(&mut self, rows: &mut [P::Row], Group { first, end, depth }: Group) {
        let group = &mut rows[first..end];
        let outer = P::key(&group[0]) as usize;
        // One pair tells whether copies of a long passage are likely. Its windows are not the last in the text, which may be
        // the shortest.
        let [a, b] = [1, 3].map(|i| P::position(&group[i * group.len() / 4]));
        let room = self.text.room(a).min(self.text.room(b)).min(depth + LONG) - depth;
        let keys = if self.text.equal(a + depth, b + depth, room) == LONG {
            self.compare_with_first(group, depth)
        } else {
            for row in group.iter_mut() {
                let position = P::position(row);
                *row = P::row(self.codes.key(self.text, position + depth), position);
            }
            Keys::Tokens { depth }
        };
        self.sort_by_keys(&mut rows[first..end], first, keys, outer);
    }

    fn compare(&mut self, a: usize, b: usize, depth: usize) -> Comparison {
        self.copies.compare(self.text, (a, b), depth, |token| self.codes.code(token))
    }

    /// Replaces keys by how windows, which agree in `depth` tokens, compare with the one of them that comes first in the text.
    ///
    /// This is the Z algorithm where windows overlap: if a passage at `from` repeats the beginning of the pivot, what is known of
    /// windows in the pivot holds for those in the passage. So a text of one letter takes time linear in its length.
    fn compare_with_first(&mut self, group: &mut [P::Row], depth: usize) -> Keys {
        group.sort_unstable_by_key(|row| P::position(row));
        let pivot = P::position(&group[0]);
        let length = self.text.room(pivot);
        let (mut from, mut until) = (pivot, pivot);
        self.lengths.clear();
        self.lengths.push(P::new(length));
        group[0] = P::row(EQUAL, pivot);
        for i in 1..group.len() {
            let position = P::position(&group[i]);
            let same = (position < until).then(|| pivot + (position - from));
            let same =
                same.and_then(|same| group[..i].binary_search_by_key(&same, |row| P::position(row)).ok());
            let common = match same.map(|j| self.lengths[j].get().min(until - position)) {
                Some(common) if position + common < until => common,
                reaches_end => self.compare(position, pivot, reaches_end.unwrap_or(depth)).common,
            };
            if position + common > until {
                (from, until) = (position, position + common);
            }
            self.lengths.push(P::new(common));
            let next = |at: usize| self.codes.code(self.text.codes(at + common..at + common + 1)[0]);
            let key = match next(position).cmp(&next(pivot)) {
                std::cmp::Ordering::Less => common as u64,
                std::cmp::Ordering::Equal => EQUAL,
                std::cmp::Ordering::Greater => u64::MAX - common as u64,
            };
            group[i] = P::row(key, position);
        }
        Keys::Pivot { length }
    }

    /// Sorts rows by their keys and replaces these by common prefixes; takes the groups of equal keys. `first` is the number of the
    /// first row.
    fn sort_by_keys(&mut self, rows: &mut [P::Row], first: usize, keys: Keys, outer: usize) {
        if rows.len() < FEW || rows.len() > MANY {
            rows.sort_unstable_by_key(|row| P::key(row));
        } else {
            self.distribute(rows);
        }
        let (mut i, mut common) = (0, outer);
        while i < rows.len() {
            let key = P::key(&rows[i]);
            rows[i] = P::row(common as u64, P::position(&rows[i]));
            let mut end = i + 1;
            while end < rows.len() && P::key(&rows[end]) == key {
                end += 1;
            }
            if end - i > 1 {
                let (depth, is_equal) = keys.same(key);
                match end - i {
                    _ if is_equal => {
                        for row in &mut rows[i + 1..end] {
                            *row = P::row(depth as u64, P::position(row));
                        }
                    }
                    2 => self.pair(rows, i, first, depth),
                    _ => self.groups.push(Group { first: first + i, end: first + end, depth }),
                }
            }
            if end < rows.len() {
                common = keys.common(key, P::key(&rows[end]));
            }
            i = end;
        }
    }

    /// Takes two windows that agree in their first `depth` tokens.
    fn pair(&mut self, rows: &mut [P::Row], i: usize, first: usize, depth: usize) {
        let [a, b] = [0, 1].map(|j| P::position(&rows[i + j]));
        match self.copies.known(a, b) {
            Some(comparison) => order_pair::<P>(rows, i, comparison),
            None => self.pairs.push(Pair { first: first + i, depth, next: [0; 2] }),
        }
    }

    /// Compares the pairs that have been found. Where windows lie in the text is random, so the next tokens of all pairs are loaded
    /// before the first is looked at: the memory is then waited for once, not for each.
    fn compare_pairs(&mut self, rows: &mut [P::Row]) {
        let mut pairs = std::mem::take(&mut self.pairs);
        for Pair { first, depth, next } in &mut pairs {
            *next = [0, 1].map(|j| self.text.code(P::position(&rows[*first + j]) + *depth));
        }
        for Pair { first, depth, next } in pairs.drain(..) {
            let [a, b] = [0, 1].map(|j| P::position(&rows[first + j]));
            // Tokens that follow and agree show that there is more to compare.
            let depth = depth + usize::from(next[0] == next[1] && next[0] != 0);
            let comparison = self.compare(a, b, depth);
            order_pair::<P>(rows, first, comparison);
        }
        self.pairs = pairs;
    }

    /// Sorts rows by their keys: first by the highest bits in which they can differ.
    fn distribute(&mut self, rows: &mut [P::Row]) {
        let (mut least, mut most) = (u64::MAX, 0);
        for row in rows.iter() {
            let key = P::key(row);
            (least, most) = (key.min(least), key.max(most));
        }
        // Buckets of a few rows each, if keys were spread evenly.
        let bits = rows.len().ilog2();
        let shift = (most - least).checked_ilog2().unwrap_or(0).saturating_sub(bits - 1);
        let bucket = |row: &P::Row| ((P::key(row) - least) >> shift) as usize;
        self.slots.clear();
        self.slots.resize(((most - least) >> shift) as usize + 2, 0);
        rows.iter().for_each(|row| self.slots[bucket(row) + 1] += 1);
        let mut end = 0;
        for slot in &mut self.slots {
            end += *slot;
            *slot = end;
        }
        self.spare.clear();
        self.spare.extend_from_slice(rows);
        // Every slot moves from the start of its bucket to the end.
        for row in &self.spare {
            let slot = &mut self.slots[bucket(row)];
            rows[*slot as usize] = *row;
            *slot += 1;
        }
        if shift > 0 {
            let mut first = 0;
            for &end in &self.slots[..self.slots.len() - 1] {
                if end - first > CROWDED {
                    rows[first as usize..end as usize].sort_unstable_by_key(|row| P::key(row));
                }
                first = end;
            }
            // Other rows are near their places.
            for i in 1..rows.len() {
                let (row, mut place) = (rows[i], i);
                while place > 0 && P::key(&rows[place - 1]) > P::key(&row) {
                    rows[place] = rows[place - 1];
                    place -= 1;
                }
                rows[place] = row;
            }
        }
    }
}

/// Orders two rows as they compare; the first keeps its common prefix.
#[inline]
fn order_pair<P: Position>(rows: &mut [P::Row], i: usize, comparison: Comparison) {
    let [a, b] = [0, 1].map(|j| P::position(&rows[i + j]));
    let (a, b) = if comparison.is_larger { (b, a) } else { (a, b) };
    rows[i] = P::row(P::key(&rows[i]), a);
    rows[i + 1] = P::row(comparison.common as u64, b);
}

#[cfg(test)]
mod tests {
    use super::super::bins::{BINS, Bins, bin_sizes};
    use super::super::facts::token_counts;
    use super::super::text::text;
    use super::*;
    use proptest::prelude::*;

    /// The starts of all bins in order, and the common prefix of each with the one before it in its bin.
    fn sorted<C: Code, P: Position>(text: &Text<C>, codes: &Codebook) -> Vec<(usize, Option<usize>)> {
        let sizes = bin_sizes(text, codes, 1);
        let mut sorter = Sorter::<C, P>::new(text, codes, usize::MAX);
        let (mut bins, mut sorted) = (Bins::<P>::new(text.tokens()), Vec::new());
        let mut rows = bins.collect(text, codes, 1, &sizes, 0..BINS);
        for &size in &sizes {
            let (own, others) = std::mem::take(&mut rows).split_at_mut(size);
            sorter.sort(own, 0);
            let common = |i: usize| (i > 0).then(|| P::key(&own[i]) as usize);
            sorted.extend(own.iter().enumerate().map(|(i, row)| (P::position(row), common(i))));
            rows = others;
        }
        sorted
    }

    /// Compares with the suffix array and the common prefixes of libsais, for tokens of which lower ones are more frequent.
    fn check_with_libsais(tokens: Vec<u32>) -> Result<(), TestCaseError> {
        let counts: Vec<u64> = (0..202).map(|token| 300 - token).collect();
        let codes = Codebook::new(&counts);
        // Tokens in the order of their codes.
        let mut order: Vec<u32> = (0..201).collect();
        order.sort_by_key(|&token| codes.code(token + 1));
        let rank = |token: u32| order.iter().position(|&other| other == token).unwrap() as u16;
        let suffixes: Vec<u16> = tokens.iter().map(|&token| rank(token)).collect();
        let array = libsais::SuffixArrayConstruction::for_text(&suffixes[..]);
        let array = array.in_owned_buffer32().single_threaded().run().unwrap();
        let array = array.plcp_construction().single_threaded().run().unwrap();
        let row = |&start: &i32| (start as usize, array.plcp()[start as usize] as usize);
        let expect: Vec<(usize, usize)> = array.suffix_array().iter().map(row).collect();
        let documents = [tokens];
        let found = [
            sorted::<_, u32>(&text::<u8>(&documents), &codes),
            sorted::<_, u64>(&text::<u16>(&documents), &codes),
            sorted::<_, u32>(&text::<u32>(&documents), &codes),
        ];
        for found in found {
            prop_assert_eq!(found.len(), expect.len());
            for ((start, common), expect) in found.into_iter().zip(&expect) {
                prop_assert_eq!((start, common.unwrap_or(expect.1)), *expect);
            }
        }
        Ok(())
    }

    #[test]
    fn large_bins_are_in_the_order_of_libsais() {
        let mut random = crate::num::stream::Stream::new(3, "test", 0);
        let passage: Vec<u32> = (0..2000).map(|_| random.below(3) as u32).collect();
        let mut tokens: Vec<u32> =
            (0..150_000).map(|_| (random.below(20) * random.below(10)) as u32).collect();
        for _ in 0..15 {
            tokens.extend(&passage);
            tokens.extend((0..1000).map(|_| random.below(2) as u32));
        }
        // Runs of one token, and of two in turn.
        tokens.extend([7; 30_000]);
        tokens.extend((0..20_000).map(|i| 5 + i % 2));
        check_with_libsais(tokens).unwrap();
    }

    #[test]
    fn fibonacci_words_and_repeated_texts_are_in_the_order_of_libsais() {
        let (mut word, mut before) = (vec![0, 1], vec![0]);
        while word.len() < 30_000 {
            let next = [&word[..], &before].concat();
            before = std::mem::replace(&mut word, next);
        }
        let mut random = crate::num::stream::Stream::new(4, "test", 0);
        let passage: Vec<u32> = (0..3000).map(|_| random.below(9) as u32).collect();
        word.extend(passage.repeat(10));
        check_with_libsais(word).unwrap();
    }

    proptest! {
        #[test]
        fn the_order_and_common_prefixes_are_those_of_libsais(
            tokens in prop_oneof![
                prop::collection::vec(0u32..2, 1..300),
                prop::collection::vec(0u32..200, 1..300),
                prop::collection::vec(0u32..3, 1..40).prop_map(|period| period.repeat(7)),
                prop::collection::vec(0u32..2, 1..300).prop_map(|period| period.repeat(5)),
            ],
        ) {
            check_with_libsais(tokens)?;
        }

        #[test]
        fn bins_are_sorted_as_windows_are(
            documents in prop::collection::vec(prop::collection::vec(0u32..3, 1..40), 1..6),
            copies in 1usize..6,
        ) {
            let documents = vec![documents; copies].concat();
            let text = text::<u16>(&documents);
            let codes = Codebook::new(&token_counts(&text));
            let window = |s: usize| -> Vec<u64> {
                text.codes(s..s + text.room(s)).iter().map(|&token| codes.code(token)).collect()
            };
            let mut rows = sorted::<_, u32>(&text, &codes);
            for pair in rows.windows(2) {
                let ((a, _), (b, Some(found))) = (pair[0], pair[1]) else { continue };
                prop_assert_eq!(found, window(a).iter().zip(&window(b)).take_while(|(a, b)| a == b).count());
            }
            let mut sorted: Vec<usize> = rows.drain(..).map(|(start, _)| start).collect();
            let windows: Vec<_> = sorted.iter().map(|&s| window(s)).collect();
            prop_assert!(windows.is_sorted());
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(sorted.len(), text.tokens());
        }
    }
}
