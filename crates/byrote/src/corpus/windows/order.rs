//! The window sort: the starts of windows in the lexicographic order of the windows.
//!
//! Starts are first distributed by their first tokens, a *class* for each; classes are sorted one by one, in parallel. A class
//! is sorted by the next 64 bits of its windows; windows that agree in these form a group, which is sorted by the 64 bits
//! after them, and so on. Where windows agree in much more, they are compared with one of them instead: each such comparison
//! ends where the window differs from that one, and the sort of those that differ at the same place starts there. The longest
//! common prefix of neighbours follows from their keys, so no array of common prefixes over the whole text is ever needed.
//!
//! A group is sorted in a buffer that fits in a core's cache. A larger one is first divided, in place, by keys that a sample
//! of it suggests.

use super::text::{Code, Text};
use bytemuck::Pod;

/// A position in the text as it is stored: `u32` unless the text is larger.
pub(crate) trait Position: Pod + Send + Sync {
    fn new(position: usize) -> Self;
    fn get(self) -> usize;
}

impl Position for u32 {
    fn new(position: usize) -> Self {
        position as u32
    }
    fn get(self) -> usize {
        self as usize
    }
}

impl Position for u64 {
    fn new(position: usize) -> Self {
        position as u64
    }
    fn get(self) -> usize {
        self as usize
    }
}

/// Groups of at most so many starts are sorted in a buffer, which then fits in a core's cache; larger ones are divided first.
const SMALL: usize = 1 << 14;

/// The keys by which a large group is divided are those of every so many starts.
const SAMPLE: usize = 1024;

/// The largest number of keys that divide a group.
const SPLITTERS: usize = 127;

/// Sorts classes, one after the other, with the same buffers.
#[derive(Debug)]
pub(crate) struct Sorter<P> {
    entries: Vec<Entry<P>>,
    spare: Vec<Entry<P>>,
    groups: Vec<Group>,
    pairs: Vec<Pair>,
    buckets: Vec<u8>,
    slots: Vec<u32>,
}

/// Two windows, the first of them at this row, that agree in their first `depth` tokens.
#[derive(Debug, Clone, Copy)]
struct Pair {
    first: usize,
    depth: usize,
    keys: [u64; 2],
}

/// The number of pairs that are compared together.
const PAIRS: usize = 256;

/// A start with its key.
#[derive(Debug, Clone, Copy)]
struct Entry<P> {
    key: u64,
    position: P,
}

/// Windows that agree in their first `depth` tokens and are not sorted further yet.
#[derive(Debug, Clone, Copy)]
struct Group {
    first: usize,
    end: usize,
    depth: usize,
    keys: Keys,
}

/// What the windows of a group are sorted by.
#[derive(Debug, Clone, Copy)]
enum Keys {
    /// Their next 64 bits.
    Codes,
    /// Their common prefix with the window at a position of the group, of a length, and on which side of it they are. This
    /// goes through long common passages at once, and through those that overlap with themselves, as in a text of one letter.
    Pivot { position: usize, length: usize },
}

/// The key of windows that equal the pivot. Smaller windows have their common prefix as key, which grows towards the pivot;
/// larger ones have it subtracted from the largest key.
const EQUAL: u64 = 1 << 63;

impl Group {
    /// Gives starts with their keys.
    #[inline]
    fn keys<C: Code, P: Position>(
        &self,
        text: &Text<C>,
        positions: impl Iterator<Item = P>,
        limit: usize,
        mut take: impl FnMut(P, u64),
    ) {
        let (depth, room) = (self.depth, limit - self.depth);
        match self.keys {
            Keys::Codes if room >= C::PER_KEY => {
                positions.for_each(|p| take(p, text.whole_key(p.get() + depth)))
            }
            Keys::Codes => positions.for_each(|p| take(p, text.key(p.get() + depth, room))),
            Keys::Pivot { position: pivot, length } => positions.for_each(|p| {
                let (more, larger) = text.common(p.get() + depth, pivot + depth, room);
                let key = match depth + more {
                    common if larger => u64::MAX - common as u64,
                    common if common == length => EQUAL,
                    common => common as u64,
                };
                take(p, key);
            }),
        }
    }

    /// The common prefix of windows with these keys, which differ.
    #[inline]
    fn common<C: Code>(&self, a: u64, b: u64) -> usize {
        match self.keys {
            Keys::Codes => self.depth + ((a ^ b).leading_zeros() / C::BITS) as usize,
            Keys::Pivot { length, .. } => pivot_common(a, length).min(pivot_common(b, length)),
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

impl<P: Position> Sorter<P> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            spare: Vec::new(),
            groups: Vec::new(),
            pairs: Vec::new(),
            buckets: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Sorts a class of windows that agree in their first `prefix` tokens by at most their first `limit` tokens, and gives the
    /// length of the common prefix of each with the one before it, which is `prefix` for the first. Windows that agree in all
    /// of these tokens are in any order.
    pub(crate) fn sort<C: Code>(
        &mut self,
        text: &Text<C>,
        positions: &mut [P],
        common: &mut [P],
        prefix: usize,
        limit: usize,
    ) {
        let Some(first) = common.first_mut() else { return };
        *first = P::new(prefix);
        self.equal(text, positions, 0, prefix, limit);
        while let Some(group) = self.groups.pop() {
            let rows = (&mut positions[group.first..group.end], &mut common[group.first..group.end]);
            if group.end - group.first <= SMALL {
                self.refine(text, rows, group, limit);
            } else {
                self.divide(text, rows, group, limit);
            }
            if self.pairs.len() >= PAIRS {
                self.compare(text, positions, common, limit);
            }
        }
        self.compare(text, positions, common, limit);
    }

    /// Compares the pairs that have been found. Where windows lie in the text is random, so the keys of all pairs are loaded
    /// before the first is looked at: the memory is then waited for once, not for each.
    fn compare<C: Code>(&mut self, text: &Text<C>, positions: &mut [P], common: &mut [P], limit: usize) {
        for Pair { first, depth, keys } in &mut self.pairs {
            *keys = [0, 1].map(|i| text.key(positions[*first + i].get() + *depth, limit - *depth));
        }
        for Pair { first, depth, keys: [x, y] } in self.pairs.drain(..) {
            let (more, larger) = if x == y {
                text.common(positions[first].get() + depth, positions[first + 1].get() + depth, limit - depth)
            } else {
                (((x ^ y).leading_zeros() / C::BITS) as usize, x > y)
            };
            if larger {
                positions.swap(first, first + 1);
            }
            common[first + 1] = P::new(depth + more);
        }
    }

    /// Takes windows that agree in their first `depth` tokens.
    #[inline]
    fn equal<C: Code>(&mut self, text: &Text<C>, positions: &[P], first: usize, depth: usize, limit: usize) {
        match positions {
            [] | [_] => {}
            [_, _] => self.pairs.push(Pair { first, depth, keys: [0; 2] }),
            [a, ..] => {
                // One pair tells whether copies of a long passage are likely.
                let (a, b) = (a.get(), positions[positions.len() / 2].get());
                let long = text.common(a + depth, b + depth, limit - depth).0 >= 4 * C::PER_KEY;
                let length = if long { text.room(b).min(limit) } else { 0 };
                let keys = if long { Keys::Pivot { position: b, length } } else { Keys::Codes };
                self.groups.push(Group { first, end: first + positions.len(), depth, keys });
            }
        }
    }

    /// Takes starts of a group that have the same key.
    #[inline]
    fn same_key<C: Code>(
        &mut self,
        text: &Text<C>,
        (positions, common): (&[P], &mut [P]),
        (group, first): (Group, usize),
        key: u64,
        limit: usize,
    ) {
        let room = limit - group.depth;
        let (depth, complete) = match group.keys {
            Keys::Codes => match C::until_end(key) {
                Some(codes) => (group.depth + codes.min(room), true),
                None if room <= C::PER_KEY => (limit, true),
                None => (group.depth + C::PER_KEY, false),
            },
            Keys::Pivot { length, .. } => (pivot_common(key, length), key == EQUAL),
        };
        if complete {
            common[1..].fill(P::new(depth));
        } else {
            self.equal(text, positions, group.first + first, depth, limit);
        }
    }

    /// Sorts a small group by its keys, and adds the groups that it leaves.
    fn refine<C: Code>(
        &mut self,
        text: &Text<C>,
        (positions, common): (&mut [P], &mut [P]),
        group: Group,
        limit: usize,
    ) {
        let (mut entries, mut spare) = (std::mem::take(&mut self.entries), std::mem::take(&mut self.spare));
        entries.clear();
        let (mut least, mut most) = (u64::MAX, 0);
        group.keys(text, positions.iter().copied(), limit, |position, key| {
            (least, most) = (key.min(least), key.max(most));
            entries.push(Entry { key, position });
        });
        let sorted = if entries.len() < FEW {
            entries.sort_unstable_by_key(|entry| entry.key);
            &entries[..]
        } else {
            distribute(&entries, &mut spare, &mut self.slots, least, most)
        };
        let mut first = 0;
        while let Some(&Entry { key, position }) = sorted.get(first) {
            positions[first] = position;
            let mut end = first + 1;
            while let Some(entry) = sorted.get(end).filter(|entry| entry.key == key) {
                positions[end] = entry.position;
                end += 1;
            }
            if end - first > 1 {
                let rows = (&positions[first..end], &mut common[first..end]);
                self.same_key(text, rows, (group, first), key, limit);
            }
            if let Some(next) = sorted.get(end) {
                common[end] = P::new(group.common::<C>(key, next.key));
            }
            first = end;
        }
        (self.entries, self.spare) = (entries, spare);
    }

    /// Divides a large group into ranges of keys, which are groups, and into those of single keys between them.
    fn divide<C: Code>(
        &mut self,
        text: &Text<C>,
        (positions, common): (&mut [P], &mut [P]),
        group: Group,
        limit: usize,
    ) {
        let mut sample = Vec::new();
        let some = positions.iter().copied().step_by(positions.len() / SAMPLE);
        group.keys(text, some, limit, |_, key| sample.push(key));
        let splitters = splitters(sample);
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.clear();
        let (mut sizes, mut least, mut most) = ([0usize; 256], [u64::MAX; 256], [0u64; 256]);
        buckets.reserve(positions.len());
        group.keys(text, positions.iter().copied(), limit, |_, key| {
            let bucket = bucket_of(&splitters, key);
            sizes[bucket] += 1;
            least[bucket] = least[bucket].min(key);
            most[bucket] = most[bucket].max(key);
            buckets.push(bucket as u8);
        });
        permute(positions, &mut buckets, &sizes);
        // Most groups are small: the memory for a large one is not kept.
        if buckets.capacity() <= 64 * SMALL {
            self.buckets = buckets;
        }
        let (mut first, mut before) = (0, None);
        for bucket in (0..256).filter(|&bucket| sizes[bucket] > 0) {
            let end = first + sizes[bucket];
            if let Some(before) = before {
                common[first] = P::new(group.common::<C>(before, least[bucket]));
            }
            if least[bucket] == most[bucket] {
                let rows = (&positions[first..end], &mut common[first..end]);
                self.same_key(text, rows, (group, first), least[bucket], limit);
            } else {
                self.groups.push(Group { first: group.first + first, end: group.first + end, ..group });
            }
            (first, before) = (end, Some(most[bucket]));
        }
    }
}

/// Keys that divide those of a sample into ranges of about the same size, in increasing order; the rest is filled with the
/// largest key.
fn splitters(mut sample: Vec<u64>) -> [u64; SPLITTERS + 1] {
    sample.sort_unstable();
    let mut chosen: Vec<u64> =
        (1..=SPLITTERS).filter_map(|i| sample.get(i * sample.len() / (SPLITTERS + 1)).copied()).collect();
    chosen.dedup();
    let mut splitters = [u64::MAX; SPLITTERS + 1];
    splitters[..chosen.len()].copy_from_slice(&chosen);
    splitters
}

/// The bucket of a key: twice the number of smaller splitters, and one more if it is a splitter itself.
#[inline]
fn bucket_of(splitters: &[u64; SPLITTERS + 1], key: u64) -> usize {
    let mut smaller = 0;
    for step in [64, 32, 16, 8, 4, 2, 1] {
        smaller += if splitters[(smaller + step - 1) & SPLITTERS] < key { step } else { 0 };
    }
    2 * smaller + usize::from(splitters[smaller & SPLITTERS] == key)
}

/// Orders starts by their buckets, in place.
fn permute<P: Position>(positions: &mut [P], buckets: &mut [u8], sizes: &[usize; 256]) {
    let (mut next, mut end) = ([0; 256], 0);
    for (next, size) in next.iter_mut().zip(sizes) {
        *next = end;
        end += size;
    }
    end = 0;
    for (bucket, size) in sizes.iter().enumerate() {
        end += size;
        while next[bucket] < end {
            let (from, own) = (next[bucket], usize::from(buckets[next[bucket]]));
            let to = next[own];
            positions.swap(from, to);
            buckets.swap(from, to);
            next[own] += 1;
        }
    }
}

/// Fewer entries are not worth a table of buckets.
const FEW: usize = 128;

/// Sorts entries, whose keys are between `least` and `most`: first by the highest bits in which they can differ.
fn distribute<'s, P: Position>(
    entries: &[Entry<P>],
    sorted: &'s mut Vec<Entry<P>>,
    slots: &mut Vec<u32>,
    least: u64,
    most: u64,
) -> &'s [Entry<P>] {
    // Buckets of a few entries each, if keys were spread evenly.
    let bits = entries.len().ilog2() - 2;
    let shift = (most - least).checked_ilog2().unwrap_or(0).saturating_sub(bits - 1);
    let bucket = |key: u64| ((key - least) >> shift) as usize;
    slots.clear();
    slots.resize(bucket(most) + 2, 0);
    entries.iter().for_each(|entry| slots[bucket(entry.key) + 1] += 1);
    let mut end = 0;
    for slot in slots.iter_mut() {
        end += *slot;
        *slot = end;
    }
    if sorted.len() < entries.len() {
        sorted.resize(entries.len(), entries[0]);
    }
    let sorted = &mut sorted[..entries.len()];
    // Every slot moves from the start of its bucket to the end.
    for entry in entries {
        let slot = &mut slots[bucket(entry.key)];
        sorted[*slot as usize] = *entry;
        *slot += 1;
    }
    if shift > 0 {
        let (mut rest, mut first) = (&mut *sorted, 0);
        for &end in &slots[..slots.len() - 1] {
            let (own, others) = rest.split_at_mut((end - first) as usize);
            if own.len() > 1 {
                own.sort_unstable_by_key(|entry| entry.key);
            }
            (rest, first) = (others, end);
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::super::classes::{Classes, class_sizes, class_tokens};
    use super::super::text::text;
    use super::*;
    use proptest::prelude::*;

    /// The starts of all classes in order, and the common prefix of each with the one before it in its class.
    fn sorted<C: Code>(text: &Text<C>, codes: usize, depth: usize) -> Vec<(usize, Option<usize>)> {
        let all = |_| true;
        let sizes = class_sizes(text, codes, &all);
        let mut classes = Classes::<u32>::new(text, &sizes, 0..sizes.len(), &all);
        let mut sorted = Vec::new();
        let mut sorter = Sorter::new();
        for class in classes.each() {
            let mut common = vec![0; class.positions.len()];
            if class.positions.first().is_some_and(|&start| text.room(start as usize) >= class_tokens::<C>())
            {
                sorter.sort(text, class.positions, &mut common, class_tokens::<C>(), depth);
            }
            let common = |i: usize| (i > 0).then(|| common[i] as usize);
            sorted.extend(class.positions.iter().enumerate().map(|(i, &start)| (start as usize, common(i))));
        }
        sorted
    }

    /// Compares with the suffix array and the common prefixes of libsais.
    fn check_with_libsais(tokens: Vec<u32>) -> Result<(), TestCaseError> {
        let depth = tokens.len();
        let suffixes: Vec<u16> = tokens.iter().map(|&token| token as u16).collect();
        let array = libsais::SuffixArrayConstruction::for_text(&suffixes[..]);
        let array = array.in_owned_buffer32().single_threaded().run().unwrap();
        let array = array.plcp_construction().single_threaded().run().unwrap();
        let row = |&start: &i32| (start as usize, array.plcp()[start as usize] as usize);
        let expect: Vec<(usize, usize)> = array.suffix_array().iter().map(row).collect();
        let documents = [tokens];
        let found = [
            sorted(&text::<u8>(&documents), 202, depth),
            sorted(&text::<u16>(&documents), 202, depth),
            sorted(&text::<u32>(&documents), 202, depth),
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
    fn large_classes_are_in_the_order_of_libsais() {
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

    proptest! {
        #[test]
        fn the_order_and_common_prefixes_are_those_of_libsais(
            tokens in prop_oneof![
                prop::collection::vec(0u32..2, 1..300),
                prop::collection::vec(0u32..200, 1..300),
                prop::collection::vec(0u32..3, 1..40).prop_map(|period| period.repeat(7)),
            ],
        ) {
            check_with_libsais(tokens)?;
        }

        #[test]
        fn classes_are_sorted_as_windows_are(
            documents in prop::collection::vec(prop::collection::vec(0u32..3, 1..40), 1..6),
            depth in 2usize..40,
        ) {
            fn check<C: Code>(documents: &[Vec<u32>], depth: usize) -> Result<(), TestCaseError> {
                let text = text::<C>(documents);
                let window = |s: usize| text.codes(s..s + text.room(s).min(depth)).iter().map(|c| c.get()).collect::<Vec<_>>();
                let mut rows = sorted(&text, 4, depth);
                for pair in rows.windows(2) {
                    let ((a, _), (b, Some(found))) = (pair[0], pair[1]) else { continue };
                    let (a, b) = (window(a), window(b));
                    // Windows that end before their class is determined are not sorted.
                    if b.len() >= class_tokens::<C>() {
                        prop_assert_eq!(found, a.iter().zip(&b).take_while(|(a, b)| a == b).count());
                    }
                }
                let mut sorted: Vec<usize> = rows.drain(..).map(|(start, _)| start).collect();
                let windows: Vec<_> = sorted.iter().map(|&s| window(s)).collect();
                prop_assert!(windows.is_sorted());
                sorted.sort_unstable();
                prop_assert_eq!(sorted.len(), text.tokens());
                sorted.dedup();
                prop_assert_eq!(sorted.len(), text.tokens());
                Ok(())
            }
            check::<u8>(&documents, depth)?;
            check::<u16>(&documents, depth)?;
            check::<u32>(&documents, depth)?;
        }
    }
}
