//! A hash table of short strings, which are their own keys: a string is found without looking anywhere else.

/// The longest string that is a key.
const LONGEST: usize = 15;

/// A string of at most 15 bytes, and its length plus one in the last byte, so that no key is 0.
type Key = [u64; 2];

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// 0 if the slot is free.
    key: Key,
    value: u32,
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
            if slot.key == [0; 2] {
                return None;
            }
            i = (i + 1) & (self.slots.len() - 1);
        }
    }

    #[inline(always)]
    fn home(&self, key: Key) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        // Both halves of the product of two halves depend on all bytes.
        let product = u128::from(key[0] ^ 0x9e37_79b9_7f4a_7c15) * u128::from(key[1] ^ 0xd1b5_4a32_d192_ed03);
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
                if slot.key != [0; 2] {
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
        while self.slots[i].key != [0; 2] {
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
    let key = loaded & !(u128::MAX << (8 * len)) | (len as u128 + 1) << 120;
    [key as u64, (key >> 64) as u64]
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
