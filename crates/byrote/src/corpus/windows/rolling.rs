//! The longest passage that occurs at two of many given starts, by rolling hashes.
//!
//! Sorting takes long where very many starts agree in very many tokens, as in a text of one letter. There, the length is found by
//! bisection: a pass over the text hashes what follows every start, and equal hashes are compared token by token, so that the
//! result does not rest on them.

use super::text::{Code, Text};

/// A prime: hashes are polynomials in [`BASE`] modulo it.
const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x16b1_5d41_b3e2_9f35 % PRIME;

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let sum = (product as u64 & PRIME) + (product >> 61) as u64;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn plus(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

/// The longest passage that occurs at two of the starts, which are in increasing order: its length, at least `known`, and one of
/// its places. Some two starts agree in `known` tokens.
pub(super) fn longest<C: Code>(text: &Text<C>, starts: &[usize], known: usize) -> Option<(usize, usize)> {
    let (mut low, mut found) = (known, pair(text, starts, known)?);
    let mut high = starts.iter().map(|&start| text.room(start)).max().unwrap_or(0) + 1;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match pair(text, starts, middle) {
            Some(place) => (low, found) = (middle, place),
            None => high = middle,
        }
    }
    Some((low, found))
}

/// A start whose next `length` tokens follow another one, too.
fn pair<C: Code>(text: &Text<C>, starts: &[usize], length: usize) -> Option<usize> {
    let mut hashes = hashes(text, starts, length);
    hashes.sort_unstable();
    let same = |a: usize, b: usize| text.codes(a..a + length) == text.codes(b..b + length);
    for group in hashes.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
        for (i, &(_, a)) in group.iter().enumerate() {
            // In a group of different passages, which would be an accident, all pairs are compared.
            if group[i + 1..].iter().any(|&(_, b)| same(a, b)) {
                return Some(a);
            }
        }
    }
    None
}

/// The hashes of the next `length` tokens, for the starts that have so many.
fn hashes<C: Code>(text: &Text<C>, starts: &[usize], length: usize) -> Vec<(u64, usize)> {
    let mut power = 1;
    (1..length).for_each(|_| power = times(power, BASE));
    let mut hashes = Vec::new();
    let mut at = None;
    for &start in starts.iter().filter(|&&start| text.room(start) >= length) {
        let code = |i: usize| u64::from(text.code(i));
        let hash = match at {
            Some((before, mut hash)) if start - before <= length => {
                for i in before..start {
                    let first = times(code(i), power);
                    hash = plus(times(plus(hash, PRIME - first), BASE), code(i + length));
                }
                hash
            }
            _ => (start..start + length).fold(0, |hash, i| plus(times(hash, BASE), code(i))),
        };
        hashes.push((hash, start));
        at = Some((start, hash));
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::super::text::text;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_passage_is_that_of_all_pairs(
            documents in prop::collection::vec(prop::collection::vec(0u32..2, 1..40), 1..5),
            every in 1usize..4,
        ) {
            let text = text::<u8>(&documents);
            let starts: Vec<usize> = (0..text.positions()).filter(|&i| text.code(i) != 0).step_by(every).collect();
            let pairs = starts.iter().flat_map(|&a| starts.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
            let expect = pairs.map(|(a, b)| text.common(a, b, usize::MAX).0).max().unwrap_or(0);
            let found = longest(&text, &starts, 1);
            prop_assert_eq!(found.map_or(0, |(length, _)| length), expect);
        }
    }
}
