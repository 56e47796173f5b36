//! Common prefixes of windows, with a memory of copied passages.
//!
//! If the windows at a and b agree in n tokens, those at a + 1 and b + 1 agree in n - 1: a passage and its copy are compared once, and
//! the end of what they share is remembered by their distance, once for every block of the text that was compared.

use super::order::Position;
use super::text::{Code, Text};

/// Passages of fewer tokens are not worth being remembered.
const SHORT: usize = 24;

/// The number of positions in a block.
const BLOCK: usize = 256;

/// What is known about pairs of positions at some distance, of which the first is in some block.
#[derive(Debug, Clone, Copy)]
struct Copied<P> {
    /// The distance of the two; 0 if nothing is known.
    distance: P,
    /// From the first of these positions, which is in the block, up to the second, tokens equal those at the distance.
    start: P,
    end: P,
    /// Whether what follows then is larger than at the distance.
    is_larger: bool,
}

/// Common prefixes that have been found.
#[derive(Debug)]
pub(crate) struct Copies<P> {
    /// By distance and block.
    found: Vec<Copied<P>>,
    shift: u32,
}

/// How two windows compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// The number of tokens in which they agree.
    pub(crate) common: usize,
    /// Whether the first is the larger one.
    pub(crate) is_larger: bool,
}

impl<P: Position> Copies<P> {
    /// A memory for a text of this many positions, of at most about so many bytes.
    pub(crate) fn new(positions: usize, most: usize) -> Self {
        let slots = (positions / 64).min(most / size_of::<Copied<P>>());
        let bits = slots.checked_ilog2().unwrap_or(0).clamp(4, 20);
        let nothing = Copied { distance: P::new(0), start: P::new(0), end: P::new(0), is_larger: false };
        Self { found: vec![nothing; 1 << bits], shift: 64 - bits }
    }

    #[inline]
    fn slot(&self, distance: usize, position: usize) -> usize {
        let mixed = (distance as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (position / BLOCK) as u64;
        (mixed.wrapping_mul(0xd1b5_4a32_d192_ed03) >> self.shift) as usize
    }

    /// What is known about the block of a position.
    #[inline]
    fn at(&self, distance: usize, position: usize) -> Option<&Copied<P>> {
        let copied = &self.found[self.slot(distance, position)];
        let holds = copied.distance.get() == distance && copied.start.get() / BLOCK == position / BLOCK;
        holds.then_some(copied)
    }

    /// How two windows at different positions compare, if that is known.
    #[inline]
    pub(crate) fn known(&self, a: usize, b: usize) -> Option<Comparison> {
        let first = a.min(b);
        let copied = self.at(a.abs_diff(b), first)?;
        (copied.start.get()..copied.end.get())
            .contains(&first)
            .then(|| Comparison { common: copied.end.get() - first, is_larger: copied.is_larger == (a < b) })
    }

    /// Compares two windows at different positions, which agree in `depth` tokens. `order` gives the order of tokens.
    pub(crate) fn compare<C: Code>(
        &mut self,
        text: &Text<C>,
        (a, b): (usize, usize),
        depth: usize,
        order: impl Fn(C) -> u64,
    ) -> Comparison {
        let (first, distance) = (a.min(b), a.abs_diff(b));
        let last = first + text.room(first).min(text.room(first + distance));
        let from = first + depth;
        let mut at = from;
        let (end, is_larger) = loop {
            // A comparison ends where something is known, or with the block.
            let mut until = last.min((at / BLOCK + 1) * BLOCK);
            if let Some(copied) = self.at(distance, at).filter(|copied| at < copied.end.get()) {
                if copied.start.get() <= at {
                    break (copied.end.get(), copied.is_larger);
                }
                until = until.min(copied.start.get());
            }
            at += text.equal(at, at + distance, until - at);
            if at < until || at == last {
                let next = |at: usize| order(text.codes(at..at + 1)[0]);
                break (at, next(at) > next(at + distance));
            }
        };
        if end - first >= SHORT {
            for block in from / BLOCK..=at / BLOCK {
                let start = P::new(first.max(block * BLOCK));
                let slot = self.slot(distance, block * BLOCK);
                if start.get() < end {
                    self.found[slot] =
                        Copied { distance: P::new(distance), start, end: P::new(end), is_larger };
                }
            }
        }
        Comparison { common: end - first, is_larger: is_larger == (a < b) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::text;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comparisons_are_the_same_however_much_is_known(
            (period, times) in (prop::collection::vec(0u32..3, 1..200), 1usize..12),
            rest in prop::collection::vec(0u32..3, 1..300),
            pairs in prop::collection::vec((any::<u16>(), any::<u16>(), 0usize..40), 1..80),
        ) {
            let text = text::<u8>(&[period.repeat(times), rest, period]);
            let mut copies = Copies::<u32>::new(text.positions(), usize::MAX);
            let starts: Vec<usize> = (0..text.positions()).filter(|&at| text.code(at) != 0).collect();
            let window = |at: usize| text.codes(at..at + text.room(at));
            for (a, b, depth) in pairs {
                let [a, b] = [a, b].map(|i| starts[usize::from(i) % starts.len()]);
                if a == b {
                    continue;
                }
                let common = window(a).iter().zip(window(b).iter()).take_while(|(x, y)| x == y).count();
                let found = copies.compare(&text, (a, b), depth.min(common), u64::from);
                prop_assert_eq!(found.common, common);
                if window(a) != window(b) {
                    prop_assert_eq!(found.is_larger, window(a) > window(b));
                }
                prop_assert!(copies.known(a, b).is_none_or(|known| known == found));
            }
        }
    }
}
