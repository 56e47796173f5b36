//! A hash table of short strings, which are their own keys: a string is found without looking anywhere else.

use crate::num::huge_pages;

/// The longest string that is a key. With it a string and its number take 16 bytes: four of them fill a cache line.
const LONGEST: usize = 11;

/// The number of strings in a bucket.
const BUCKET: usize = 4;

/// A string of at most 11 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    /// The first bytes.
    low: u64,
    /// The others, and the length plus one in the last byte, so that no key has a 0 here.
    high: u32,
}

/// A cache line of strings with their numbers. The first ones are taken; a key of 0 is free.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    low: [u64; BUCKET],
    high: [u32; BUCKET],
    /// The numbers plus one.
    value: [u32; BUCKET],
}

impl Bucket {
    /// The number of a key plus one, or 0. All strings are compared: a branch on which of them it is would often be mispredicted.
    #[inline(always)]
    fn find(&self, key: Key) -> u32 {
        (0..BUCKET).fold(0, |found, i| {
            let is_equal = (self.low[i] == key.low) & (self.high[i] == key.high);
            found | self.value[i] & u32::from(is_equal).wrapping_neg()
        })
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.high[BUCKET - 1] != 0
    }

    /// Takes a string; returns whether there was room.
    fn push(&mut self, key: Key, value: u32) -> bool {
        let Some(i) = (0..BUCKET).find(|&i| self.high[i] == 0) else { return false };
        (self.low[i], self.high[i], self.value[i]) = (key.low, key.high, value);
        true
    }
}

/// A map from short strings to numbers. A string is in the bucket of its hash, or in the next one that was not full.
#[derive(Debug, Default)]
pub(crate) struct ShortWords {
    /// A power of two of them, or none.
    buckets: Vec<Bucket>,
    len: usize,
}

impl ShortWords {
    /// The number of the string `text[start..end]`, if it has one.
    #[inline(always)]
    pub(crate) fn get(&self, text: &[u8], start: usize, end: usize) -> Option<u32> {
        if end - start > LONGEST {
            return None;
        }
        let key = key(text, start, end);
        let mut i = self.home(key)?;
        loop {
            let bucket = &self.buckets[i];
            let found = bucket.find(key);
            if found != 0 {
                return Some(found - 1);
            }
            if !bucket.is_full() {
                return None;
            }
            i = (i + 1) & (self.buckets.len() - 1);
        }
    }

    #[inline(always)]
    fn home(&self, key: Key) -> Option<usize> {
        let mask = self.buckets.len().checked_sub(1)?;
        // Both halves of the product of two halves depend on all bytes.
        let product = u128::from(key.low ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from(u64::from(key.high) ^ 0xd1b5_4a32_d192_ed03);
        Some(((product >> 64) as u64 ^ product as u64) as usize & mask)
    }

    /// Gives a string that has no number one, unless it is too long; returns whether it did.
    pub(crate) fn insert(&mut self, text: &[u8], start: usize, end: usize, value: u32) -> bool {
        if end - start > LONGEST {
            return false;
        }
        // A table that is seven eighths full is still faster than one that leaves the cache.
        if self.len * 8 >= self.buckets.len() * BUCKET * 7 {
            let (mut larger, n) = (Vec::new(), (self.buckets.len() * 2).max(16));
            huge_pages::reserve(&mut larger, n);
            larger.resize(n, Bucket::default());
            for Bucket { low, high, value } in std::mem::replace(&mut self.buckets, larger) {
                for i in (0..BUCKET).filter(|&i| high[i] != 0) {
                    self.place(Key { low: low[i], high: high[i] }, value[i]);
                }
            }
        }
        self.place(key(text, start, end), value + 1);
        self.len += 1;
        true
    }

    fn place(&mut self, key: Key, value: u32) {
        let Some(mut i) = self.home(key) else { return };
        while !self.buckets[i].push(key, value) {
            i = (i + 1) & (self.buckets.len() - 1);
        }
    }

    /// The memory held, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }
}

#[inline(always)]
fn key(text: &[u8], start: usize, end: usize) -> Key {
    let len = end - start;
    // Bytes after the string are loaded and masked, which takes no branch on its length.
    let loaded = match text[start..].first_chunk() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 16];
            bytes[..len].copy_from_slice(&text[start..end]);
            u128::from_le_bytes(bytes)
        }
    };
    let own = loaded & !(u128::MAX << (8 * len));
    Key { low: own as u64, high: (own >> 64) as u32 | (len as u32 + 1) << 24 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_keeps_its_number_wherever_it_is() {
        let text = b"to be or not to be, that is the question of otherwise";
        let mut words = ShortWords::default();
        let mut first = std::collections::BTreeMap::new();
        for _ in 0..2 {
            for start in 0..text.len() {
                for end in start..text.len() {
                    let new = first.len() as u32;
                    let (word, found) = (&text[start..end], words.get(text, start, end));
                    assert_eq!(found, first.get(word).copied());
                    if found.is_none() && words.insert(text, start, end, new) {
                        first.insert(word, new);
                    }
                    assert_eq!(first.contains_key(word), word.len() <= LONGEST);
                }
            }
        }
        assert_eq!(words.len, first.len());
    }
}
