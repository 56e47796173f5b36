//! Keys: what follows a position as 64 bits, in which frequent tokens take fewer bits than rare ones.
//!
//! A token is written in digits of four bits, an end-tagged dense code (Brisaboa et al. 2003): the lowest bit of a digit is set
//! in the last digit of a token only. The eight most frequent tokens take one digit, the next 7 x 8 two, the next 7 x 7 x 8
//! three. No digit of a token is 0, and from the end of a document on all digits are. So
//!
//! - no code is the beginning of another, and keys order windows as the codes order tokens, shorter windows first;
//! - the tokens in the first bits of a key are counted by the lowest bits of its digits;
//! - a key reaches the end of its document if its last digit is 0.
//!
//! The order of tokens is that of their codes, which no figure depends on.

use super::text::{Code, Text};

/// The lowest bit of every digit.
const LAST: u64 = 0x1111_1111_1111_1111;

/// Last digits, and digits that are not last.
const LASTS: u64 = 8;
/// The number of tokens that take one digit.
pub(crate) const FREQUENT: usize = LASTS as usize;
const OTHERS: u64 = 7;

/// The codes of tokens.
#[derive(Debug)]
pub(crate) struct Codebook {
    /// For every token, its code in the highest bits, and the number of its bits in the lowest six.
    codes: Vec<u64>,
}

impl Codebook {
    /// The codes for tokens that occur this often, by the number of the token; number 0 is the end of documents.
    pub(crate) fn new(counts: &[u64]) -> Self {
        let mut tokens: Vec<usize> = (1..counts.len()).collect();
        tokens.sort_by_key(|&token| std::cmp::Reverse(counts[token]));
        let mut codes = vec![0; counts.len()];
        (0..).zip(tokens).for_each(|(rank, token)| codes[token] = code(rank));
        Self { codes }
    }

    /// The key of a position, given its token and the key of the position after it.
    #[inline]
    pub(crate) fn before<C: Code>(&self, token: C, key: u64) -> u64 {
        let code = self.codes[token.get() as usize];
        code & !63 | key >> (code & 63)
    }

    /// The code of a token, by which tokens are ordered.
    #[inline]
    pub(crate) fn code<C: Code>(&self, token: C) -> u64 {
        self.codes[token.get() as usize]
    }

    /// The number of digits of some tokens.
    pub(crate) fn digits<C: Code>(&self, tokens: &[C]) -> usize {
        tokens.iter().map(|&token| (self.code(token) & 63) as usize / 4).sum()
    }

    /// The number of a token below [`FREQUENT`] if it takes one digit.
    #[inline]
    pub(crate) fn frequent<C: Code>(&self, token: C) -> Option<usize> {
        let code = self.code(token);
        (code & 63 == 4).then_some((code >> 61) as usize)
    }

    /// The key of a position.
    pub(crate) fn key<C: Code>(&self, text: &Text<C>, position: usize) -> u64 {
        let (mut key, mut bits) = (0, 0);
        // A token takes at least four bits.
        for token in text.codes(position..text.positions().min(position + 16)).iter() {
            let code = self.codes[token.get() as usize];
            key |= (code & !63) >> bits;
            bits += code & 63;
            if bits >= 64 || code == 0 {
                break;
            }
        }
        key
    }
}

/// The code of the token of this rank, with its number of bits.
fn code(mut rank: u64) -> u64 {
    let (mut bits, mut codes) = (4, LASTS);
    while rank >= codes {
        rank -= codes;
        codes *= OTHERS;
        bits += 4;
    }
    let mut code = (rank % LASTS) << 1 | 1;
    rank /= LASTS;
    for digit in 1..bits / 4 {
        code |= (rank % OTHERS + 1) << (4 * digit + 1);
        rank /= OTHERS;
    }
    code << (64 - bits) | bits
}

/// The number of tokens in a key.
#[inline]
pub(crate) fn tokens(key: u64) -> usize {
    (key & LAST).count_ones() as usize
}

/// The number of tokens in which keys agree, which differ.
#[inline]
pub(crate) fn common_tokens(a: u64, b: u64) -> usize {
    tokens(a & !(u64::MAX >> (a ^ b).leading_zeros()))
}

/// Whether a key reaches the end of its document.
#[inline]
pub(crate) fn has_end(key: u64) -> bool {
    key & 15 == 0
}

#[cfg(test)]
mod tests {
    use super::super::text::text;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frequent_tokens_have_short_codes() {
        let bits = |rank| code(rank) & 63;
        let last_of = [(7, 4), (63, 8), (455, 12), (3199, 16), (u64::from(u32::MAX), 48)];
        for (rank, expect) in last_of {
            assert_eq!(bits(rank), expect);
        }
        assert_eq!((bits(8), bits(64), bits(456)), (8, 12, 16));
        assert_eq!(code(0) & !63, 1 << 60);
    }

    #[test]
    fn codes_differ_and_none_begins_another() {
        let mut codes: Vec<u64> = (0..50_000).map(code).collect();
        codes.sort_unstable();
        for pair in codes.windows(2) {
            let bits = (pair[0] & 63).min(pair[1] & 63);
            assert_ne!(pair[0] >> (64 - bits), pair[1] >> (64 - bits));
        }
        // No digit is 0.
        assert!(codes.iter().all(|code| (1..=(code & 63) / 4).all(|i| code >> (64 - 4 * i) & 15 != 0)));
    }

    proptest! {
        #[test]
        fn keys_order_windows_and_count_their_common_tokens(
            documents in prop::collection::vec(prop::collection::vec(0u32..80, 1..30), 1..4),
        ) {
            let text = text::<u8>(&documents);
            let counts: Vec<u64> = (0..82).map(|token| 100 - token).collect();
            let book = Codebook::new(&counts);
            let starts: Vec<usize> = (0..text.positions()).filter(|&at| text.code(at) != 0).collect();
            let window = |at: usize| text.codes(at..at + text.room(at));
            for &a in &starts {
                let key = book.key(&text, a);
                prop_assert_eq!(key, book.before(text.codes(a..a + 1)[0], book.key(&text, a + 1)));
                prop_assert!(!has_end(key) || tokens(key) == text.room(a));
                for &b in &starts {
                    let (other, x, y) = (book.key(&text, b), window(a), window(b));
                    let common = x.iter().zip(y.iter()).take_while(|(x, y)| x == y).count();
                    if key == other {
                        prop_assert!(common >= tokens(key));
                    } else {
                        prop_assert_eq!(common_tokens(key, other), common);
                        prop_assert!(common < y.len() || key > other);
                    }
                }
            }
        }
    }
}
