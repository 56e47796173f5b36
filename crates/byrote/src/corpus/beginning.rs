//! How tokens begin: numbers by which they are sorted and merged, nearly always without a look at their strings.

use super::vocabulary::Key;
use crate::num::huge_pages;
use std::cmp::Ordering;

/// What decides nearly all comparisons of tokens, without a look at the string: a special token, a symbol, or a string up to its
/// 15th byte. Its order is that of the tokens, but long strings may share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Beginning(u128);

impl Beginning {
    /// The bytes of a string above the lowest one, which tells the kind of token or the length.
    const BYTES: usize = 15;
    const SYMBOL: u128 = 2;

    /// The word that begins like this, if only one does: its bytes, and how many of them are the word's.
    pub(crate) fn word(self) -> Option<([u8; 16], usize)> {
        let n = (self.0 & 0xff).checked_sub(Self::SYMBOL)? as usize;
        (n <= Self::BYTES).then_some((self.0.to_be_bytes(), n))
    }

    /// Whether only one token begins like this.
    fn is_whole(self) -> bool {
        (self.0 & 0xff) <= Self::SYMBOL + Self::BYTES as u128
    }
}

impl Key<'_> {
    pub(crate) fn beginning(self) -> Beginning {
        Beginning(match self {
            Key::Bos => 0,
            Key::Eos => 1,
            Key::Symbol(symbol) => (u128::from(symbol) + 1) << 8 | Beginning::SYMBOL,
            Key::Word(word) => {
                let mut bytes = [0; 16];
                let n = word.len().min(Beginning::BYTES);
                bytes[..n].copy_from_slice(&word[..n]);
                u128::from_be_bytes(bytes)
                    | (Beginning::SYMBOL + word.len().min(Beginning::BYTES + 1) as u128)
            }
        })
    }

    /// Compares tokens whose beginnings are known.
    #[inline]
    pub(crate) fn order<'k>(
        (a, b): (Beginning, Beginning),
        keys: impl FnOnce() -> (Key<'k>, Key<'k>),
    ) -> Ordering {
        a.cmp(&b).then_with(|| match a.is_whole() {
            true => Ordering::Equal,
            false => {
                let (a, b) = keys();
                a.cmp(&b)
            }
        })
    }
}

/// A token in one of several lists: how it begins, the list, and its id there.
pub(crate) type Listed = (Beginning, u32, u32);

/// Merges sorted lists, in parallel; of equal tokens the one of the first list comes first.
pub(crate) fn merge(
    mut lists: Vec<Vec<Listed>>,
    order: &(impl Fn(&Listed, &Listed) -> Ordering + Sync),
) -> Vec<Listed> {
    if lists.len() < 2 {
        return lists.pop().unwrap_or_default();
    }
    let others = lists.split_off(lists.len() / 2);
    let (a, b) = rayon::join(|| merge(lists, order), || merge(others, order));
    let (mut a, mut b) = (&a[..], &b[..]);
    let mut out = Vec::new();
    huge_pages::reserve(&mut out, a.len() + b.len());
    while let ([first, a_rest @ ..], [other, b_rest @ ..]) = (a, b) {
        if order(first, other).is_le() {
            out.push(*first);
            a = a_rest;
        } else {
            out.push(*other);
            b = b_rest;
        }
    }
    out.extend_from_slice(a);
    out.extend_from_slice(b);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn beginnings_are_in_the_order_of_tokens(
            words in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 1..19), 2),
            symbols in prop::collection::vec(any::<u32>(), 2),
        ) {
            for word in &words {
                let found = Key::Word(word).beginning().word().map(|(bytes, n)| bytes[..n].to_vec());
                prop_assert_eq!(found, (word.len() <= Beginning::BYTES).then(|| word.clone()));
            }
            let keys = [Key::Bos, Key::Eos];
            let words: Vec<_> = keys.into_iter().chain(words.iter().map(|word| Key::Word(word))).collect();
            let symbols: Vec<_> = keys.into_iter().chain(symbols.into_iter().map(Key::Symbol)).collect();
            for (&a, &b) in words.iter().flat_map(|a| words.iter().map(move |b| (a, b))) {
                prop_assert_eq!(Key::order((a.beginning(), b.beginning()), || (a, b)), a.cmp(&b));
            }
            for (&a, &b) in symbols.iter().flat_map(|a| symbols.iter().map(move |b| (a, b))) {
                prop_assert_eq!(a.beginning().cmp(&b.beginning()), a.cmp(&b));
            }
        }
    }
}
