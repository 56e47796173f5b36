//! A text as the window sort reads it: the codes of its tokens, with an end mark after every document.

use super::text_file::TextFile;
use crate::Result;
use crate::num::huge_pages::HugePageArray;
use bytemuck::Pod;
use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// A token code as it is stored. The end of a document has code 0, tokens have codes from 1.
pub(crate) trait Code: Pod + Eq + Send + Sync {
    fn new(code: u32) -> Self;
    fn get(self) -> u32;
}

macro_rules! code {
    ($type:ty) => {
        impl Code for $type {
            #[inline]
            fn new(code: u32) -> Self {
                code as $type
            }
            #[inline]
            fn get(self) -> u32 {
                u32::from(self)
            }
        }
    };
}

code!(u8);
code!(u16);
code!(u32);

/// A text: documents as codes, each followed by an end mark.
#[derive(Debug)]
pub(crate) struct Text<C> {
    codes: Codes<C>,
    /// Where the end marks are.
    ends: Vec<usize>,
    /// The first end mark at or after every 64th position; empty if there is one document.
    next: Vec<u32>,
}

/// Where the codes of a text are.
#[derive(Debug)]
enum Codes<C> {
    Memory(HugePageArray<C>),
    File(TextFile),
}

/// The number of codes that are read at once.
const BLOCK: usize = 1 << 16;

/// A text that is being written: its codes in any order, and the ends of its documents in theirs.
pub(crate) struct TextBuilder<C> {
    codes: HugePageArray<C>,
    ends: Vec<usize>,
}

impl<C: Code> TextBuilder<C> {
    /// A text of this many tokens and documents, all of whose codes are end marks.
    pub(crate) fn new(tokens: usize, documents: usize) -> Self {
        let codes = HugePageArray::zeroed(tokens + documents);
        Self { codes, ends: Vec::with_capacity(documents) }
    }

    /// The codes of the tokens and end marks.
    pub(crate) fn codes(&mut self) -> &mut [C] {
        &mut self.codes
    }

    /// Ends the next document at an end mark.
    pub(crate) fn end_document(&mut self, mark: usize) {
        self.ends.push(mark);
    }

    /// Completes the text.
    pub(crate) fn finish(self) -> Text<C> {
        Text::new(Codes::Memory(self.codes), self.ends)
    }
}

impl<C: Code> Text<C> {
    fn new(codes: Codes<C>, ends: Vec<usize>) -> Self {
        let mut text = Self { codes, ends, next: Vec::new() };
        if text.documents() == 1 {
            return text;
        }
        let mut document = 0;
        for start in (0..text.positions()).step_by(64) {
            while text.ends.get(document).is_some_and(|&end| end < start) {
                document += 1;
            }
            text.next.push(document as u32);
        }
        text
    }

    /// A text whose codes are in a file, with end marks at these positions.
    pub(crate) fn in_file(file: File, ends: Vec<usize>) -> Self {
        Self::new(Codes::File(TextFile::new(file)), ends)
    }

    /// The number of bytes that the codes take in memory.
    pub(crate) fn footprint(&self) -> usize {
        match &self.codes {
            Codes::Memory(codes) => size_of_val(&codes[..]),
            Codes::File(_) => 0,
        }
    }

    /// Fails if the text could not be read, from a file in `directory`.
    pub(crate) fn check(&self, directory: &Path) -> Result<()> {
        match &self.codes {
            Codes::Memory(_) => Ok(()),
            Codes::File(file) => file.check(directory),
        }
    }

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
        let mut document = self.next.get(position / 64).map_or(0, |&document| document as usize);
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
        match &self.codes {
            Codes::Memory(codes) => codes[position].get(),
            Codes::File(_) => self.codes(position..position + 1)[0].get(),
        }
    }

    /// The codes at these positions.
    #[inline]
    pub(crate) fn codes(&self, positions: Range<usize>) -> Cow<'_, [C]> {
        match &self.codes {
            Codes::Memory(codes) => Cow::Borrowed(&codes[positions]),
            Codes::File(file) => {
                let mut codes = vec![C::zeroed(); positions.len()];
                file.read(bytemuck::cast_slice_mut(&mut codes), (positions.start * size_of::<C>()) as u64);
                Cow::Owned(codes)
            }
        }
    }

    /// The codes at these positions in blocks, each with its first position.
    pub(crate) fn blocks(
        &self,
        positions: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (usize, Cow<'_, [C]>)> {
        let Range { start, end } = positions;
        (0..positions.len().div_ceil(BLOCK)).map(move |block| {
            let first = start + block * BLOCK;
            (first, self.codes(first..end.min(first + BLOCK)))
        })
    }

    /// The number of equal codes, at most `most`, that follow two positions.
    #[inline]
    pub(crate) fn equal(&self, a: usize, b: usize, most: usize) -> usize {
        equal_codes(&self.codes(a..a + most), &self.codes(b..b + most))
    }
}

/// The number of equal codes at the start of two slices of one length.
fn equal_codes<C: Code>(x: &[C], y: &[C]) -> usize {
    let mut equal = equal_blocks::<32, C>(x, y);
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

/// The same in a file.
#[cfg(test)]
pub(super) fn text_in_file<C: Code>(documents: &[Vec<u32>]) -> Text<C> {
    let text = text::<C>(documents);
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, bytemuck::cast_slice(&text.codes(0..text.positions()))).unwrap();
    Text::in_file(file, text.ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
                        prop_assert_eq!(text.equal(a, b, x.len().min(y.len())), expect);
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
