//! A hash table of short strings, which are their own keys: a string is found without looking anywhere else.

/// The longest string that is a key. With it a slot has 16 bytes: four of them fill a cache line, and none is in two.
const LONGEST: usize = 11;

/// A string of at most 11 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Key {
    /// The first bytes.
    low: u64,
    /// The others, and the length plus one in the last byte, so that no key has a 0 here.
    high: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The default if the slot is free.
    key: Key,
    value: u32,
}

impl Slot {
    #[inline(always)]
    fn is_free(&self) -> bool {
        self.key.high == 0
    }
}

/// A map from short strings to numbers, with open addressing.
#[derive(Debug, Default)]
pub(crate) struct ShortWords {
    /// A power of two of them, or none.
    slots: Vec<Slot>,
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
            let slot = &self.slots[i];
            if slot.key == key {
                return Some(slot.value);
            }
            if slot.is_free() {
                return None;
            }
            i = (i + 1) & (self.slots.len() - 1);
        }
    }

    #[inline(always)]
    fn home(&self, key: Key) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
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
        // A table that is three quarters full is still faster than one that leaves the cache.
        if self.len * 4 >= self.slots.len() * 3 {
            let larger = vec![Slot::default(); (self.slots.len() * 2).max(64)];
            for slot in std::mem::replace(&mut self.slots, larger) {
                if !slot.is_free() {
                    self.place(slot);
                }
            }
        }
        self.place(Slot { key: key(text, start, end), value });
        self.len += 1;
        true
    }

    fn place(&mut self, slot: Slot) {
        let Some(mut i) = self.home(slot.key) else { return };
        while !self.slots[i].is_free() {
            i = (i + 1) & (self.slots.len() - 1);
        }
        self.slots[i] = slot;
    }

    /// The memory held, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
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
