//! Sorting documents.
//!
//! Documents that fit in 64 to 256 bits ([`Layout`]) are packed, distributed by their topmost bits into buckets that
//! fit in the cache, and each bucket is sorted separately: the data is written once and sorted in place. Longer
//! documents are sorted by a cached 128-bit window of their tokens; the next window is read only if windows tie.

use super::layout::{Layout, PackedKey, Positions};
use super::{Segment, Token};
use crate::num::huge_pages::HugePageArray;
use rayon::prelude::*;
use std::ops::Range;

/// Visits the rows of a sorted set of documents: distinct documents in order, with their multiplicity.
pub(crate) trait RowVisitor {
    /// Visits a document of `len` tokens that occurs `count` times and shares its first `lcp` tokens with the row
    /// before it (in the whole order, not only in this part); `token(p)` is the id at position p.
    fn row(&mut self, lcp: usize, len: usize, count: u64, token: impl Fn(usize) -> u32);
}

/// Documents in order.
pub(crate) enum Sorted<'a, T> {
    /// Packed into 64 bits.
    Narrow(Packed<u64>),
    /// Packed into 128 bits.
    Double(Packed<u128>),
    /// Packed into 192 bits.
    Triple(Packed<[u64; 3]>),
    /// Packed into 256 bits.
    Quadruple(Packed<[u64; 4]>),
    /// Too long to pack.
    Indexed(Indexed<'a, T>),
}

impl<'a, T: Token> Sorted<'a, T> {
    /// Sorts the documents of all segments; `seen` gives the positions at which each canonical id occurs.
    pub(crate) fn new(segments: &'a [Segment<'a, T>], kept: usize, seen: &[Positions]) -> Self {
        let fit = |bits| Layout::new(kept, seen, bits);
        if let Some(layout) = fit(64) {
            Sorted::Narrow(Packed::new(segments, layout))
        } else if let Some(layout) = fit(128) {
            Sorted::Double(Packed::new(segments, layout))
        } else if let Some(layout) = fit(192) {
            Sorted::Triple(Packed::new(segments, layout))
        } else if let Some(layout) = fit(256) {
            Sorted::Quadruple(Packed::new(segments, layout))
        } else {
            Sorted::Indexed(Indexed::new(segments, seen.len()))
        }
    }

    /// The number of parts of the order; equal documents are never in two parts.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Sorted::Narrow(p) => p.parts.len(),
            Sorted::Double(p) => p.parts.len(),
            Sorted::Triple(p) => p.parts.len(),
            Sorted::Quadruple(p) => p.parts.len(),
            Sorted::Indexed(p) => p.parts.len(),
        }
    }

    /// Passes the rows of a part to the visitor.
    pub(crate) fn visit(&self, part: usize, visitor: &mut impl RowVisitor) {
        match self {
            Sorted::Narrow(p) => p.visit(part, visitor),
            Sorted::Double(p) => p.visit(part, visitor),
            Sorted::Triple(p) => p.visit(part, visitor),
            Sorted::Quadruple(p) => p.visit(part, visitor),
            Sorted::Indexed(p) => p.visit(part, visitor),
        }
    }
}

/// Consecutive documents of one segment: the unit of work of a thread.
fn pieces<T: Token>(segments: &[Segment<'_, T>]) -> Vec<(usize, Range<usize>)> {
    let total: usize = segments.iter().map(Segment::len).sum();
    let size = total.div_ceil(rayon::current_num_threads() * 2).max(1 << 12);
    let mut pieces = Vec::new();
    for (s, segment) in segments.iter().enumerate() {
        let n = segment.len();
        pieces.extend((0..n).step_by(size).map(|start| (s, start..(start + size).min(n))));
    }
    pieces
}

/// Cuts a slice into consecutive parts of the given lengths.
fn split_lengths<E>(mut slice: &mut [E], lengths: impl Iterator<Item = usize>) -> Vec<&mut [E]> {
    let mut parts = Vec::new();
    for length in lengths {
        let (head, tail) = slice.split_at_mut(length);
        parts.push(head);
        slice = tail;
    }
    parts
}

/// Divides `n` sorted elements into about `wanted` parts, never between two that are `same`.
fn cut(n: usize, wanted: usize, same: impl Fn(usize, usize) -> bool) -> Vec<Range<usize>> {
    let size = n.div_ceil(wanted.max(1)).max(1);
    let mut parts = Vec::new();
    let mut start = 0;
    while start < n {
        let mut end = (start + size).min(n);
        while end < n && same(end - 1, end) {
            end += 1;
        }
        parts.push(start..end);
        start = end;
    }
    parts
}

/// Smaller parts are not worth a separate task.
fn wanted_parts(n: usize) -> usize {
    (rayon::current_num_threads() * 4).min(n >> 12).max(1)
}

/// Packed documents in order, including repeated ones.
pub(crate) struct Packed<K> {
    keys: HugePageArray<K>,
    layout: Layout,
    parts: Vec<Range<usize>>,
}

/// The number of buckets, chosen by the topmost bits: few enough that scattering stays within the cache.
const BUCKET_BITS: u32 = 10;

impl<K: PackedKey> Packed<K> {
    fn new<T: Token>(segments: &[Segment<'_, T>], layout: Layout) -> Self {
        let bits = layout.bits().clamp(1, BUCKET_BITS);
        let pieces = pieces(segments);
        let total: usize = pieces.iter().map(|(_, r)| r.len()).sum();

        // The number of documents that each piece puts into each bucket: only the first few tokens are read.
        let sizes: Vec<Vec<u32>> = pieces
            .par_iter()
            .map(|(s, documents)| {
                let mut sizes = vec![0; 1 << bits];
                for i in documents.clone() {
                    sizes[layout.bucket(segments[*s].document(i), |t| segments[*s].rank(t), bits)] += 1;
                }
                sizes
            })
            .collect();

        // Every piece writes its share of every bucket.
        let mut keys = HugePageArray::zeroed(total);
        let mut shares: Vec<Vec<&mut [K]>> = pieces.iter().map(|_| Vec::with_capacity(1 << bits)).collect();
        let mut rest = &mut keys[..];
        for bucket in 0..1 << bits {
            for (sizes, shares) in sizes.iter().zip(&mut shares) {
                let (share, after) = rest.split_at_mut(sizes[bucket] as usize);
                shares.push(share);
                rest = after;
            }
        }
        pieces.par_iter().zip(shares).for_each(|((s, documents), mut shares)| {
            let segment = &segments[*s];
            let mut filled = vec![0u32; 1 << bits];
            for i in documents.clone() {
                let key: K = layout.pack(segment.document(i), |t| segment.rank(t));
                let bucket = key.top(bits);
                shares[bucket][filled[bucket] as usize] = key;
                filled[bucket] += 1;
            }
        });

        // Sort each bucket separately.
        let lengths = (0..1 << bits).map(|b| sizes.iter().map(|s| s[b] as usize).sum());
        split_lengths(&mut keys, lengths)
            .into_par_iter()
            .for_each_init(Vec::new, |spare, bucket| sort_from_bit(bucket, spare, bits));
        let parts = cut(total, wanted_parts(total), |i, j| keys[i] == keys[j]);
        Self { keys, layout, parts }
    }

    fn visit(&self, part: usize, visitor: &mut impl RowVisitor) {
        let Range { start, end } = self.parts[part].clone();
        let mut before = start.checked_sub(1).map(|i| self.keys[i]);
        let mut i = start;
        while i < end {
            let key = self.keys[i];
            let mut j = i + 1;
            while j < end && self.keys[j] == key {
                j += 1;
            }
            let lcp = before.map_or(0, |before| self.layout.common_prefix(before, key));
            visitor.row(lcp, self.layout.len(key), (j - i) as u64, |p| self.layout.token(key, p));
            before = Some(key);
            i = j;
        }
    }
}

/// Slices shorter than this are sorted by comparison.
const RADIX_LEAST: usize = 384;
const RADIX_BITS: u32 = 8;

/// Sorts keys that agree in their first `from` bits: by the next few bits as long as there are many, then by
/// comparison.
fn sort_from_bit<K: PackedKey>(keys: &mut [K], spare: &mut Vec<K>, from: u32) {
    if keys.len() < RADIX_LEAST || from + RADIX_BITS > K::BITS {
        return keys.sort_unstable();
    }
    let mut starts = [0usize; (1 << RADIX_BITS) + 1];
    for key in keys.iter() {
        starts[key.field(from, RADIX_BITS) as usize + 1] += 1;
    }
    if !starts.contains(&keys.len()) {
        for b in 0..1 << RADIX_BITS {
            starts[b + 1] += starts[b];
        }
        let mut next = starts;
        spare.clear();
        spare.resize(keys.len(), K::EMPTY);
        for &key in keys.iter() {
            let slot = &mut next[key.field(from, RADIX_BITS) as usize];
            spare[*slot] = key;
            *slot += 1;
        }
        keys.copy_from_slice(spare);
        for b in 0..1 << RADIX_BITS {
            if starts[b + 1] - starts[b] > 1 {
                sort_from_bit(&mut keys[starts[b]..starts[b + 1]], spare, from + RADIX_BITS);
            }
        }
    } else {
        sort_from_bit(keys, spare, from + RADIX_BITS);
    }
}

/// A document too long to pack, with a window of its tokens.
#[derive(Debug, Clone, Copy)]
struct Entry {
    window: [u64; 2],
    segment: u32,
    document: u32,
}

/// Documents too long to pack, in order.
pub(crate) struct Indexed<'a, T> {
    segments: &'a [Segment<'a, T>],
    entries: Vec<Entry>,
    parts: Vec<Range<usize>>,
}

/// How windows of tokens are packed.
#[derive(Debug, Clone, Copy)]
struct WindowFormat {
    /// Bits per token.
    width: u32,
    /// Tokens per window.
    tokens: usize,
}

impl<'a, T: Token> Indexed<'a, T> {
    fn new(segments: &'a [Segment<'a, T>], d_vocab: usize) -> Self {
        let width = u64::BITS - (d_vocab as u64).leading_zeros();
        let format = WindowFormat { width, tokens: (128 / width) as usize };
        let mut entries: Vec<Entry> = pieces(segments)
            .into_par_iter()
            .flat_map_iter(|(s, documents)| {
                documents.map(move |d| Entry {
                    window: window(&segments[s], d, 0, format),
                    segment: s as u32,
                    document: d as u32,
                })
            })
            .collect();
        entries.par_sort_unstable_by_key(|e| e.window);
        entries.par_chunk_by_mut(|a, b| a.window == b.window).for_each(|ties| {
            sort_ties(segments, ties, format);
        });
        let mut sorted = Self { segments, entries, parts: Vec::new() };
        let n = sorted.entries.len();
        sorted.parts = cut(n, wanted_parts(n), |i, j| sorted.same(&sorted.entries[i], &sorted.entries[j]));
        sorted
    }

    fn ranks(&self, e: &Entry) -> impl Iterator<Item = u32> {
        let segment = &self.segments[e.segment as usize];
        segment.document(e.document as usize).iter().map(|&t| segment.rank(t))
    }

    fn same(&self, a: &Entry, b: &Entry) -> bool {
        self.ranks(a).eq(self.ranks(b))
    }

    fn visit(&self, part: usize, visitor: &mut impl RowVisitor) {
        let Range { start, end } = self.parts[part].clone();
        let mut i = start;
        while i < end {
            let entry = &self.entries[i];
            let mut j = i + 1;
            while j < end && self.same(entry, &self.entries[j]) {
                j += 1;
            }
            let lcp = i.checked_sub(1).map_or(0, |before| {
                self.ranks(&self.entries[before]).zip(self.ranks(entry)).take_while(|(a, b)| a == b).count()
            });
            let segment = &self.segments[entry.segment as usize];
            let document = segment.document(entry.document as usize);
            visitor.row(lcp, document.len(), (j - i) as u64, |p| segment.rank(document[p]));
            i = j;
        }
    }
}

/// The tokens from position `from` on, as many as fit in a window.
fn window<T: Token>(
    segment: &Segment<'_, T>,
    document: usize,
    from: usize,
    format: WindowFormat,
) -> [u64; 2] {
    let tokens = segment.document(document);
    let mut packed = 0u128;
    let tail = &tokens[from.min(tokens.len())..];
    let taken = tail.len().min(format.tokens);
    for &t in &tail[..taken] {
        packed = packed << format.width | u128::from(segment.rank(t) + 1);
    }
    packed <<= format.width * (format.tokens - taken) as u32;
    [(packed >> 64) as u64, packed as u64]
}

/// Sorts entries that agree in their first window by the windows after it.
fn sort_ties<T: Token>(segments: &[Segment<'_, T>], ties: &mut [Entry], format: WindowFormat) {
    let length = |e: &Entry| segments[e.segment as usize].document(e.document as usize).len();
    // An explicit stack, because equal long documents would recurse as deep as they are long.
    let mut open: Vec<(Range<usize>, usize)> = vec![(0..ties.len(), format.tokens)];
    while let Some((range, from)) = open.pop() {
        let group = &mut ties[range.clone()];
        if group.len() < 2 || group.iter().all(|e| length(e) <= from) {
            continue;
        }
        for e in group.iter_mut() {
            e.window = window(&segments[e.segment as usize], e.document as usize, from, format);
        }
        group.sort_unstable_by_key(|e| e.window);
        let mut at = range.start;
        for same in group.chunk_by(|a, b| a.window == b.window) {
            open.push((at..at + same.len(), from + format.tokens));
            at += same.len();
        }
    }
}
