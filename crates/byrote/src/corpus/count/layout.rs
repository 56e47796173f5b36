//! Packing a document into one integer whose order is the order of documents.
//!
//! Position p gets just enough bits for the largest token id that occurs there, plus one for "ended"; tokens are
//! stored as id + 1, the first on top, and 0 after the end. So integers compare as documents do, a document that is a
//! prefix of another coming first; the longest common prefix of two documents follows from the leading zeros of the
//! exclusive or, and a document's length from its trailing zeros.

use crate::corpus::vocabulary::{MARK_LABEL, MARK_LAST};
use crate::corpus::window::ContextRule;
use std::ops::Range;

/// Positions from this one on share a bit.
const CLASSES: usize = 62;
const BIT_LABEL: u64 = 1 << 62;
const BIT_LAST: u64 = 1 << 63;

/// The positions at which a token occurs, and its roles there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Positions(u64);

impl Positions {
    /// The role of an occurrence at a position. Under `prefixes` a token is the next token of a context unless it is
    /// the first of its document, and ends a context unless it is the last; under `full` only the last token is
    /// predicted.
    pub(crate) fn occurrence(position: usize, is_last: bool, rule: ContextRule) -> Self {
        let place = 1 << position.min(CLASSES - 1);
        let label = match rule {
            ContextRule::Prefixes | ContextRule::Windows => position > 0,
            ContextRule::Full => position > 0 && is_last,
        };
        let last = rule != ContextRule::Full && !is_last;
        Self(place | if label { BIT_LABEL } else { 0 } | if last { BIT_LAST } else { 0 })
    }

    /// Records an occurrence. Most are repetitions: a load and a predicted branch are cheaper than a chain of stores.
    #[inline]
    pub(crate) fn note(&mut self, occurrence: Self) {
        if self.0 & occurrence.0 != occurrence.0 {
            self.0 |= occurrence.0;
        }
    }

    pub(crate) fn add_context_end(&mut self) {
        self.0 |= BIT_LAST;
    }

    pub(crate) fn union(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The roles, for [`crate::corpus::vocabulary::Vocabulary`]; `None` if the token does not occur.
    pub(crate) fn marks(self) -> Option<u8> {
        let label = if self.0 & BIT_LABEL != 0 { MARK_LABEL } else { 0 };
        let last = if self.0 & BIT_LAST != 0 { MARK_LAST } else { 0 };
        (self.0 != 0).then_some(label | last)
    }

    fn at(self, position: usize) -> bool {
        self.0 >> position.min(CLASSES - 1) & 1 != 0
    }
}

/// An unsigned integer that holds a packed document.
pub(crate) trait PackedKey: bytemuck::Pod + Ord + Send + Sync {
    /// Its width.
    const BITS: u32;
    /// The empty document.
    const EMPTY: Self;
    /// Writes `bits` at `shift` from the bottom, where the integer must be empty.
    fn place(self, bits: u64, shift: u32) -> Self;
    /// The `width` bits that end `offset` bits below the top.
    fn field(self, offset: u32, width: u32) -> u32;
    /// The number of leading bits that agree.
    fn common_bits(self, other: Self) -> u32;
    /// The number of zero bits at the bottom.
    fn trailing(self) -> u32;
    /// The `bits` topmost bits.
    fn top(self, bits: u32) -> usize;
}

macro_rules! packed_key {
    ($t:ty) => {
        impl PackedKey for $t {
            const BITS: u32 = <$t>::BITS;
            const EMPTY: Self = 0;
            #[inline]
            fn place(self, bits: u64, shift: u32) -> Self {
                self | <$t>::from(bits) << shift
            }
            #[inline]
            fn field(self, offset: u32, width: u32) -> u32 {
                ((self >> (Self::BITS - offset - width)) & ((1 << width) - 1)) as u32
            }
            #[inline]
            fn common_bits(self, other: Self) -> u32 {
                (self ^ other).leading_zeros()
            }
            #[inline]
            fn trailing(self) -> u32 {
                self.trailing_zeros()
            }
            #[inline]
            fn top(self, bits: u32) -> usize {
                (self >> (Self::BITS - bits)) as usize
            }
        }
    };
}
packed_key!(u64);
packed_key!(u128);

/// Words from the top, so that arrays compare like the integers they represent.
impl<const N: usize> PackedKey for [u64; N] {
    const BITS: u32 = 64 * N as u32;
    const EMPTY: Self = [0; N];

    #[inline]
    fn place(mut self, bits: u64, shift: u32) -> Self {
        let (word, up) = ((shift / 64) as usize, shift % 64);
        if word < N {
            self[N - 1 - word] |= bits << up;
        }
        if up > 0 && word + 1 < N {
            self[N - 2 - word] |= bits >> (64 - up);
        }
        self
    }

    #[inline]
    fn field(self, offset: u32, width: u32) -> u32 {
        let (word, within) = ((offset / 64) as usize, offset % 64);
        let mut top = self[word] << within;
        if within + width > 64 {
            top |= self[word + 1] >> (64 - within);
        }
        (top >> (64 - width)) as u32
    }

    #[inline]
    fn common_bits(self, other: Self) -> u32 {
        let differ = self.iter().zip(&other).position(|(a, b)| a != b);
        differ.map_or(Self::BITS, |i| 64 * i as u32 + (self[i] ^ other[i]).leading_zeros())
    }

    #[inline]
    fn trailing(self) -> u32 {
        let last = self.iter().rposition(|&w| w != 0);
        last.map_or(Self::BITS, |i| 64 * (N - 1 - i) as u32 + self[i].trailing_zeros())
    }

    #[inline]
    fn top(self, bits: u32) -> usize {
        (self[0] >> (64 - bits)) as usize
    }
}

/// The number of bits of each position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The width of each position, at most 33 bits for 32-bit ids.
    widths: Vec<u32>,
    /// `offsets[p]` bits lie above position p; one entry more than `widths`.
    offsets: Vec<u32>,
    /// For each bit from the top, the position it belongs to.
    position_of_bit: Vec<u16>,
    /// The positions divided into groups of at most 64 bits.
    words: Vec<Range<usize>>,
    /// The distance of each position from the bottom of its group, in bits.
    shifts: Vec<u32>,
}

impl Layout {
    /// The layout for documents of at most `kept` tokens, if it fits in `max_bits`; `seen` gives the positions at which
    /// each canonical id occurs.
    pub(crate) fn new(kept: usize, seen: &[Positions], max_bits: u32) -> Option<Self> {
        let (mut widths, mut offsets, mut position_of_bit) = (Vec::new(), vec![0], Vec::new());
        let mut total = 0;
        for position in 0..kept {
            // A position at which nothing occurs ends every document.
            let Some(largest) = seen.iter().rposition(|s| s.at(position)) else { break };
            let width = u64::BITS - (largest as u64 + 1).leading_zeros();
            total += width;
            if total > max_bits {
                return None;
            }
            widths.push(width);
            offsets.push(total);
            position_of_bit.resize(total as usize, position as u16);
        }
        position_of_bit.resize(max_bits as usize + 1, widths.len() as u16);
        let (mut words, mut start) = (Vec::new(), 0);
        for end in 1..=widths.len() {
            if end == widths.len() || offsets[end + 1] - offsets[start] > 64 {
                words.push(start..end);
                start = end;
            }
        }
        let shifts =
            words.iter().flat_map(|word| word.clone().map(|p| offsets[word.end] - offsets[p + 1])).collect();
        Some(Self { widths, offsets, position_of_bit, words, shifts })
    }

    /// The number of bits of a packed document.
    pub(crate) fn bits(&self) -> u32 {
        self.offsets[self.widths.len()]
    }

    /// Packs a document, aligned to the top. Positions are collected in 64-bit words, each token directly at its place,
    /// so that no shift depends on another.
    #[inline]
    pub(crate) fn pack<K: PackedKey, T: Copy>(&self, document: &[T], rank: impl Fn(T) -> u32) -> K {
        let mut key = K::EMPTY;
        for word in &self.words {
            let end = word.end.min(document.len());
            let mut bits = 0u64;
            for (&token, &shift) in document[word.start.min(end)..end].iter().zip(&self.shifts[word.clone()])
            {
                bits |= (u64::from(rank(token)) + 1) << shift;
            }
            key = key.place(bits, K::BITS - self.offsets[word.end]);
        }
        key
    }

    /// The topmost bits of a packed document, read from only as many tokens as needed.
    #[inline]
    pub(crate) fn bucket<T: Copy>(&self, document: &[T], rank: impl Fn(T) -> u32, bits: u32) -> usize {
        let (mut top, mut used) = (0u64, 0);
        for (&token, &width) in document.iter().zip(&self.widths) {
            top = top << width | (u64::from(rank(token)) + 1);
            used += width;
            if used >= bits {
                return (top >> (used - bits)) as usize;
            }
        }
        (top << (bits - used)) as usize
    }

    /// The longest common prefix of two different documents, in tokens.
    #[inline]
    pub(crate) fn common_prefix<K: PackedKey>(&self, a: K, b: K) -> usize {
        usize::from(self.position_of_bit[a.common_bits(b) as usize])
    }

    /// The length of a nonempty document.
    #[inline]
    pub(crate) fn len<K: PackedKey>(&self, key: K) -> usize {
        usize::from(self.position_of_bit[(K::BITS - 1 - key.trailing()) as usize]) + 1
    }

    /// The token at a position within the document.
    #[inline]
    pub(crate) fn token<K: PackedKey>(&self, key: K, position: usize) -> u32 {
        key.field(self.offsets[position], self.widths[position]) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(documents: &[Vec<u32>], max_bits: u32) -> Option<Layout> {
        let size = documents.iter().flatten().max().map_or(0, |&m| m as usize + 1);
        let mut seen = vec![Positions::default(); size];
        for d in documents {
            for (p, &t) in d.iter().enumerate() {
                seen[t as usize].note(Positions::occurrence(p, p + 1 == d.len(), ContextRule::Prefixes));
            }
        }
        Layout::new(documents.iter().map(Vec::len).max().unwrap_or(0), &seen, max_bits)
    }

    proptest! {
        #[test]
        fn packed_documents_compare_measure_and_unpack_as_documents_do(
            documents in prop::collection::vec(prop::collection::vec(0u32..40, 1..12), 2..20)
        ) {
            check::<u128>(&documents)?;
            check::<[u64; 3]>(&documents)?;
            check::<[u64; 4]>(&documents)?;
        }
    }

    fn check<K: PackedKey>(documents: &[Vec<u32>]) -> Result<(), TestCaseError> {
        let layout = layout(documents, K::BITS).unwrap();
        let keys: Vec<K> = documents.iter().map(|d| layout.pack(d, |t| t)).collect();
        for (a, ka) in documents.iter().zip(&keys) {
            prop_assert_eq!(layout.len(*ka), a.len());
            let back: Vec<u32> = (0..a.len()).map(|p| layout.token(*ka, p)).collect();
            prop_assert_eq!(&back, a);
            for bits in 1..=layout.bits().min(12) {
                prop_assert_eq!(layout.bucket(a, |t| t, bits), ka.top(bits));
            }
            for (b, kb) in documents.iter().zip(&keys) {
                prop_assert_eq!(a.cmp(b), ka.cmp(kb));
                if a != b {
                    let lcp = a.iter().zip(b).take_while(|(x, y)| x == y).count();
                    prop_assert_eq!(layout.common_prefix(*ka, *kb), lcp);
                }
            }
        }
        Ok(())
    }

    #[test]
    fn a_layout_takes_just_the_bits_that_occur() {
        // ids 0..=2 at the first position need 2 bits (1, 2, 3), ids 0..=6 at the second need 3.
        let documents = vec![vec![2, 6], vec![0, 0]];
        assert_eq!(layout(&documents, 64).map(|l| l.bits()), Some(5));
        assert_eq!(layout(&[vec![1 << 13; 10]], 128), None);
    }

    #[test]
    fn a_document_that_fills_the_integer_is_measured_to_its_last_bit() {
        let documents = vec![vec![(1 << 16) - 2; 4], vec![(1 << 16) - 2; 3]];
        let layout = layout(&documents, 64).unwrap();
        assert_eq!(layout.bits(), 64);
        let keys: Vec<u64> = documents.iter().map(|d| layout.pack(d, |t| t)).collect();
        assert_eq!((layout.len(keys[0]), layout.len(keys[1])), (4, 3));
        assert_eq!(layout.common_prefix(keys[0], keys[1]), 3);
        assert!(keys[1] < keys[0]);
    }
}
