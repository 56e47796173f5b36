//! Provisional token ids while text is being read.
//!
//! Tokens are numbered in the order in which they are met; the canonical ids of [`Vocabulary`] follow when a chunk is
//! sorted. Bytes and characters are their own numbers; ids and words are interned.

use super::beginning::Listed;
use super::provisional_ids::ProvisionalIds;
use super::short_words::ShortWords;
use super::vocabulary::{Alphabet, Arena, Key, Vocabulary};
use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;
use std::ops::Range;

/// The provisional id of the start token.
pub(crate) const BOS: u32 = 0;
/// The provisional id of the end token.
pub(crate) const EOS: u32 = 1;
/// The first provisional id of any other token.
pub(crate) const FIRST: u32 = 2;

/// Given ids below this are looked up in a table, larger ones in a hash map.
const SMALL_IDS: u32 = 1 << 20;

/// Numbers tokens in the order in which they are met.
#[derive(Debug)]
pub(crate) enum Lexicon {
    /// Bytes or characters: the number is the symbol.
    Symbols(Alphabet),
    /// Given ids.
    Ids { small: Vec<u32>, large: FxHashMap<u32, u32>, keys: Vec<u32> },
    /// Strings.
    Words(Words),
}

impl Lexicon {
    pub(crate) fn new(alphabet: Alphabet) -> Self {
        match alphabet {
            Alphabet::Byte | Alphabet::Char => Lexicon::Symbols(alphabet),
            Alphabet::Id => Lexicon::Ids { small: Vec::new(), large: FxHashMap::default(), keys: Vec::new() },
            Alphabet::Word => Lexicon::Words(Words::default()),
        }
    }

    pub(crate) fn alphabet(&self) -> Alphabet {
        match self {
            Lexicon::Symbols(alphabet) => *alphabet,
            Lexicon::Ids { .. } => Alphabet::Id,
            Lexicon::Words(_) => Alphabet::Word,
        }
    }

    /// Whether tokens have numbers because they were met, not whatever they are.
    pub(crate) fn is_interned(&self) -> bool {
        !matches!(self, Lexicon::Symbols(_))
    }

    /// Returns the number of a byte, a character or a given id.
    #[inline]
    pub(crate) fn symbol(&mut self, symbol: u32) -> u32 {
        match self {
            Lexicon::Symbols(_) => FIRST + symbol,
            Lexicon::Ids { small, large, keys } => {
                let slot = if symbol < SMALL_IDS {
                    if symbol as usize >= small.len() {
                        small.resize(symbol as usize + 1, 0);
                    }
                    &mut small[symbol as usize]
                } else {
                    large.entry(symbol).or_insert(0)
                };
                if *slot == 0 {
                    *slot = FIRST + keys.len() as u32;
                    keys.push(symbol);
                }
                *slot
            }
            Lexicon::Words(_) => unreachable!("a symbol among words"),
        }
    }

    /// Appends the numbers of bytes or characters.
    #[inline]
    pub(crate) fn extend_with_symbols(&self, tokens: &mut Vec<u32>, symbols: impl Iterator<Item = u32>) {
        debug_assert!(matches!(self, Lexicon::Symbols(_)), "symbols among words or ids");
        tokens.extend(symbols.map(|symbol| FIRST + symbol));
    }

    /// Returns the strings.
    #[inline]
    pub(crate) fn words(&mut self) -> &mut Words {
        match self {
            Lexicon::Words(words) => words,
            _ => unreachable!("a word among symbols"),
        }
    }

    /// Returns a number above all provisional ids in `tokens`.
    pub(crate) fn size(&self, tokens: &ProvisionalIds) -> usize {
        match self {
            Lexicon::Symbols(Alphabet::Byte) => FIRST as usize + 256,
            Lexicon::Symbols(_) => tokens.max().map_or(0, |t| t as usize + 1),
            Lexicon::Ids { keys, .. } => FIRST as usize + keys.len(),
            Lexicon::Words(Words { words, .. }) => FIRST as usize + words.len(),
        }
    }

    /// Returns the token of a provisional id.
    pub(crate) fn key(&self, id: u32) -> Key<'_> {
        match (id, self) {
            (BOS, _) => Key::Bos,
            (EOS, _) => Key::Eos,
            (id, Lexicon::Symbols(_)) => Key::Symbol(id - FIRST),
            (id, Lexicon::Ids { keys, .. }) => Key::Symbol(keys[(id - FIRST) as usize]),
            (id, Lexicon::Words(Words { words, .. })) => Key::Word(words.get((id - FIRST) as usize)),
        }
    }

    /// Returns the vocabulary of the provisional ids that have `marks`, and the map from provisional ids below `end` to
    /// its ids (0 for those that do not occur).
    pub(crate) fn vocabulary(&self, end: u32, marks: impl Fn(u32) -> Option<u8>) -> (Vocabulary, Vec<u32>) {
        let listed = self.listed(0, (0..end).filter(|&id| marks(id).is_some()));
        let mut map = vec![0; end as usize];
        let vocabulary =
            Vocabulary::merged(self.alphabet(), vec![listed], &|_, id| self.key(id), |rank, same| {
                map[same[0].2 as usize] = rank;
                marks(same[0].2).unwrap_or(0)
            });
        (vocabulary, map)
    }

    /// Provisional ids in the order of their tokens, as the elements of a list with this number.
    pub(crate) fn listed(&self, list: u32, ids: impl Iterator<Item = u32>) -> Vec<Listed> {
        let mut listed: Vec<Listed> = ids.map(|id| (self.key(id).beginning(), list, id)).collect();
        listed.sort_unstable_by(|a, b| Key::order((a.0, b.0), || (self.key(a.2), self.key(b.2))));
        listed
    }

    /// Returns the memory held, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        match self {
            Lexicon::Symbols(_) => 0,
            Lexicon::Ids { small, large, keys } => small.len() * 4 + large.len() * 16 + keys.len() * 4,
            Lexicon::Words(Words { short, long, words }) => {
                short.footprint() + long.capacity() * 5 + words.footprint()
            }
        }
    }
}

/// Strings; short ones are found without looking into the arena.
#[derive(Debug, Default)]
pub(crate) struct Words {
    short: ShortWords,
    long: HashTable<u32>,
    words: Arena,
}

impl Words {
    /// Returns the number of a string: a range of `text`.
    #[inline(always)]
    pub(crate) fn number(&mut self, text: &[u8], range: Range<usize>) -> u32 {
        match self.short.get(text, range.start, range.end) {
            Some(id) => FIRST + id,
            None => self.long_or_new(text, range),
        }
    }

    #[cold]
    fn long_or_new(&mut self, text: &[u8], range: Range<usize>) -> u32 {
        let (word, next) = (&text[range.clone()], self.words.len() as u32);
        if !self.short.insert(text, range.start, range.end, next) {
            let hash = hash(word);
            if let Some(&id) = self.long.find(hash, |&id| self.words.get(id as usize) == word) {
                return FIRST + id;
            }
            self.long.insert_unique(hash, next, |&id| self::hash(self.words.get(id as usize)));
        }
        self.words.push(word);
        FIRST + next
    }
}

#[inline]
fn hash(word: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(word);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_has_a_number_of_its_own() {
        let mut words = Lexicon::new(Alphabet::Word);
        let mut seen = std::collections::BTreeMap::new();
        for len in 0..=18 {
            for at in 0..=len {
                for byte in [b'a', b'b', 0, 255] {
                    let mut word = vec![b'a'; len];
                    if let Some(b) = word.get_mut(at) {
                        *b = byte;
                    }
                    let id = words.words().number(&word, 0..len);
                    assert_eq!(*seen.entry(word).or_insert(id), id);
                }
            }
        }
        let ids: std::collections::BTreeSet<u32> = seen.values().copied().collect();
        assert_eq!(ids.len(), seen.len());
    }

    #[test]
    fn words_and_ids_keep_their_numbers_and_sort_into_a_vocabulary() {
        let mut words = Lexicon::new(Alphabet::Word);
        let numbers =
            [(b"ba", 0), (b"ba", 1), (b"bc", 0)].map(|(text, i)| words.words().number(text, i..i + 1));
        assert_eq!(numbers, [2, 3, 2]);
        let (vocabulary, map) = words.vocabulary(4, |id| (id != EOS).then_some(0));
        assert_eq!((vocabulary.len(), map), (3, vec![0, 0, 2, 1]));
        let mut ids = Lexicon::new(Alphabet::Id);
        assert_eq!([ids.symbol(u32::MAX), ids.symbol(0), ids.symbol(u32::MAX)], [2, 3, 2]);
        let (vocabulary, map) = ids.vocabulary(4, |id| (id >= 2).then_some(0));
        assert_eq!((vocabulary.key(1), map), (Key::Symbol(u32::MAX), vec![0, 0, 1, 0]));
    }
}
