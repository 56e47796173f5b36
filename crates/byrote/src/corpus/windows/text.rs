//! A text as the window sort reads it: the codes of its tokens, with an end mark after every document.

use crate::num::huge_pages::HugePageArray;
use bytemuck::Pod;
use std::ops::Range;

/// A token code as it is stored. The end of a document has code 0, tokens have codes from 1.
pub(crate) trait Code: Pod + Eq + Send + Sync {
    /// The number of codes in a 64-bit key.
    const PER_KEY: usize;
    /// The number of bits of a code.
    const BITS: u32;
    fn new(code: u32) -> Self;
    fn get(self) -> u32;
    /// The next codes, the first one in the highest bits.
    fn key(codes: &[Self]) -> u64;

    /// The number of codes before the first end mark in a key.
    #[inline]
    fn until_end(key: u64) -> Option<usize> {
        // A borrow can make a code look like an end mark only if a code below it is one, so the test for there being any
        // is exact.
        let ones = u64::MAX / (u64::MAX >> (64 - Self::BITS));
        if key.wrapping_sub(ones) & !key & (ones << (Self::BITS - 1)) == 0 {
            return None;
        }
        let mask = u64::MAX >> (64 - Self::BITS);
        (0..Self::PER_KEY).find(|&i| (key >> (64 - Self::BITS * (i as u32 + 1))) & mask == 0)
    }

    /// The first codes of a key, with zeros for the others.
    #[inline]
    fn first(key: u64, codes: usize) -> u64 {
        match codes {
            0 => 0,
            n if n >= Self::PER_KEY => key,
            n => key & (u64::MAX << (64 - Self::BITS * n as u32)),
        }
    }
}

macro_rules! code {
    ($type:ty, $per_key:literal, $key:expr) => {
        impl Code for $type {
            const PER_KEY: usize = $per_key;
            const BITS: u32 = <$type>::BITS;
            #[inline]
            fn new(code: u32) -> Self {
                code as $type
            }
            #[inline]
            fn get(self) -> u32 {
                u32::from(self)
            }
            #[inline]
            fn key(codes: &[Self]) -> u64 {
                let codes: &[Self; $per_key] = codes.first_chunk().unwrap_or(&[0; $per_key]);
                $key(*codes)
            }
        }
    };
}

code!(u8, 8, u64::from_be_bytes);
// One load and a few rotations are faster than four loads.
code!(u16, 4, |codes: [u16; 4]| {
    let key: u64 = bytemuck::cast(codes);
    if cfg!(target_endian = "big") {
        return key;
    }
    let swapped = key.rotate_left(32);
    (swapped & 0x0000_ffff_0000_ffff) << 16 | (swapped >> 16) & 0x0000_ffff_0000_ffff
});
code!(u32, 2, |codes: [u32; 2]| u64::from(codes[0]) << 32 | u64::from(codes[1]));

/// A text: documents as codes, each followed by an end mark.
#[derive(Debug)]
pub(crate) struct Text<C> {
    codes: HugePageArray<C>,
    /// Where the end marks are.
    ends: Vec<usize>,
    /// The first end mark at or after every 64th position.
    next: Vec<u32>,
}

/// A text that is being written: its codes in any order, and the ends of its documents in theirs.
pub(crate) struct TextBuilder<C> {
    text: Text<C>,
}

impl<C: Code> TextBuilder<C> {
    /// A text of this many tokens and documents, all of whose codes are end marks.
    pub(crate) fn new(tokens: usize, documents: usize) -> Self {
        // A key may be loaded at the last end mark.
        let codes = HugePageArray::zeroed(tokens + documents + C::PER_KEY);
        Self { text: Text { codes, ends: Vec::with_capacity(documents), next: Vec::new() } }
    }

    /// The codes of the tokens and end marks.
    pub(crate) fn codes(&mut self) -> &mut [C] {
        &mut self.text.codes
    }

    /// Ends the next document at an end mark.
    pub(crate) fn end_document(&mut self, mark: usize) {
        self.text.ends.push(mark);
    }

    /// Completes the text.
    pub(crate) fn finish(self) -> Text<C> {
        let mut text = self.text;
        let mut document = 0;
        for start in (0..text.positions()).step_by(64) {
            while text.ends.get(document).is_some_and(|&end| end < start) {
                document += 1;
            }
            text.next.push(document as u32);
        }
        text
    }
}

impl<C: Code> Text<C> {
    /// The number of documents.
    pub(crate) fn documents(&self) -> usize {
        self.ends.len()
    }

    /// The number of tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.positions() - self.ends.len()
    }

    /// The number of positions: tokens and end marks.
    pub(crate) fn positions(&self) -> usize {
        self.ends.last().map_or(0, |end| end + 1)
    }

    /// The positions of a document.
    pub(crate) fn document(&self, i: usize) -> Range<usize> {
        (if i == 0 { 0 } else { self.ends[i - 1] + 1 })..self.ends[i]
    }

    /// The document that holds a position.
    pub(crate) fn document_of(&self, position: usize) -> usize {
        let mut document = self.next[position / 64] as usize;
        while self.ends[document] < position {
            document += 1;
        }
        document
    }

    /// The number of tokens from a position to the end of its document.
    #[inline]
    pub(crate) fn room(&self, position: usize) -> usize {
        match self.ends[..] {
            [end] => end - position,
            _ => self.ends[self.document_of(position)] - position,
        }
    }

    /// The code at a position.
    #[inline]
    pub(crate) fn code(&self, position: usize) -> u32 {
        self.codes[position].get()
    }

    /// The codes at these positions.
    pub(crate) fn codes(&self, positions: Range<usize>) -> &[C] {
        &self.codes[positions]
    }

    /// The next codes as a key, with zeros from the end of the document on.
    #[inline]
    pub(crate) fn whole_key(&self, position: usize) -> u64 {
        let key = C::key(&self.codes[position..position + C::PER_KEY]);
        match C::until_end(key) {
            Some(codes) => C::first(key, codes),
            None => key,
        }
    }

    /// The next `room` codes as a key, with zeros from the end of the document on.
    #[inline]
    pub(crate) fn key(&self, position: usize, room: usize) -> u64 {
        C::first(self.whole_key(position), room)
    }

    /// The length of the common prefix of what follows two positions, at most `most`, within their documents; and whether the
    /// first one continues with the larger code.
    pub(crate) fn common(&self, a: usize, b: usize, most: usize) -> (usize, bool) {
        // Most prefixes end within a key.
        let (x, y) = (self.key(a, most), self.key(b, most));
        if x != y {
            return (((x ^ y).leading_zeros() / C::BITS) as usize, x > y);
        }
        let (first, second) = (self.room(a).min(most), self.room(b).min(most));
        let room = first.min(second);
        let (x, y) = (&self.codes[a..a + room], &self.codes[b..b + room]);
        let length = equal_codes(x, y);
        match (x.get(length), y.get(length)) {
            (Some(x), Some(y)) => (length, x.get() > y.get()),
            _ => (length, first > second),
        }
    }
}

/// The number of equal codes at the start of two slices of one length.
fn equal_codes<C: Code>(x: &[C], y: &[C]) -> usize {
    let mut equal = equal_blocks::<512, C>(x, y);
    equal += equal_blocks::<32, C>(&x[equal..], &y[equal..]);
    equal += equal_blocks::<4, C>(&x[equal..], &y[equal..]);
    equal + equal_blocks::<1, C>(&x[equal..], &y[equal..])
}

/// The number of codes in equal blocks at the start of two slices.
#[inline]
fn equal_blocks<const N: usize, C: Code>(x: &[C], y: &[C]) -> usize {
    N * x.chunks_exact(N).zip(y.chunks_exact(N)).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
pub(super) fn text<C: Code>(documents: &[Vec<u32>]) -> Text<C> {
    let mut text = TextBuilder::new(documents.iter().map(Vec::len).sum(), documents.len());
    let mut length = 0;
    for document in documents {
        for &token in document {
            text.codes()[length] = C::new(token + 1);
            length += 1;
        }
        text.end_document(length);
        length += 1;
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_has_its_first_code_in_the_highest_bits() {
        assert_eq!(u8::key(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0x0102_0304_0506_0708);
        assert_eq!(u16::key(&[0x102, 0x304, 0x506, 0x708, 9]), 0x0102_0304_0506_0708);
        assert_eq!(u32::key(&[0x0102_0304, 0x0506_0708, 9]), 0x0102_0304_0506_0708);
    }

    #[test]
    fn an_end_mark_is_found_where_it_is() {
        assert_eq!(u8::until_end(0x0101_0101_0101_0101), None);
        assert_eq!(u8::until_end(0x8001_0001_0101_0101), Some(2));
        assert_eq!(u8::until_end(0x0100_0101_0101_0100), Some(1));
        assert_eq!(u16::until_end(0x0100_0001_8000_0100), None);
        assert_eq!(u16::until_end(0x0100_0001_0000_0100), Some(2));
        assert_eq!(u32::until_end(0x0000_0001_0000_0000), Some(1));
        assert_eq!(u32::until_end(0xffff_ffff_0000_0001), None);
    }

    proptest! {
        #[test]
        fn common_prefixes_end_with_their_documents(
            documents in prop::collection::vec(prop::collection::vec(0u32..2, 1..20), 1..6),
            room in 1usize..25,
        ) {
            fn check<C: Code>(documents: &[Vec<u32>], room: usize) -> Result<(), TestCaseError> {
                let text = text::<C>(documents);
                let mut starts = Vec::new();
                for (i, document) in documents.iter().enumerate() {
                    let first = text.document(i).start;
                    for s in 0..document.len() {
                        prop_assert_eq!(text.room(first + s), document.len() - s);
                        prop_assert_eq!(text.document_of(first + s), i);
                        starts.push((first + s, &document[s..]));
                    }
                }
                for &(a, x) in &starts {
                    for &(b, y) in &starts {
                        let (x, y) = (&x[..x.len().min(room)], &y[..y.len().min(room)]);
                        let expect = x.iter().zip(y).take_while(|(x, y)| x == y).count();
                        prop_assert_eq!(text.common(a, b, room), (expect, x > y && !y.starts_with(x)));
                    }
                }
                Ok(())
            }
            check::<u8>(&documents, room)?;
            check::<u16>(&documents, room)?;
            check::<u32>(&documents, room)?;
        }
    }
}
