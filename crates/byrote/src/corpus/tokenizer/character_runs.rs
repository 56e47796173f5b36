//! Splits text into maximal runs of characters of one class.

use super::TakeRange;
use crate::num::simd::{self, Isa, SimdKernel};
use std::sync::OnceLock;

/// The class of a character for a tokenizer that finds runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Class {
    #[default]
    Space,
    Word,
    Other,
}

/// The classes of `\w`, `\s` and the rest, for all of Unicode: built once, on the first character beyond ASCII.
fn unicode_wordpunct(c: char) -> Class {
    static TABLE: OnceLock<Vec<Class>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = vec![Class::Other; char::MAX as usize + 1];
        for c in '\0'..=char::MAX {
            table[c as usize] = if c.is_whitespace() {
                Class::Space
            } else if regex_syntax::is_word_character(c) {
                Class::Word
            } else {
                Class::Other
            };
        }
        table
    });
    table[c as usize]
}

const ASCII_WORDPUNCT: [Class; 128] = {
    let mut table = [Class::Other; 128];
    let mut b = 0u8;
    while b < 128 {
        if b.is_ascii_alphanumeric() || b == b'_' {
            table[b as usize] = Class::Word;
        } else if b == b' ' || (b >= 9 && b <= 13) {
            table[b as usize] = Class::Space;
        }
        b += 1;
    }
    table
};

/// Which characters form runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Everything that is not space is one class.
    Whitespace,
    /// Word characters and the rest are two classes.
    WordPunct,
}

impl Rule {
    /// The class of the character at byte `i`.
    fn class(self, text: &str, i: usize) -> Class {
        let b = text.as_bytes()[i];
        let class = match b {
            0..128 => ASCII_WORDPUNCT[b as usize],
            _ => unicode_wordpunct(text[i..].chars().next().unwrap_or('\0')),
        };
        if self == Rule::Whitespace && class == Class::Other { Class::Word } else { class }
    }
}

/// The number of bytes that are classified at once.
const BLOCK: usize = u64::BITS as usize;

/// The classes of the bytes of a block as bits, the first byte in the lowest one. All bytes of a character have its class.
#[derive(Debug, Clone, Copy)]
struct Block {
    word: u64,
    other: u64,
}

impl Block {
    /// The block at `at`; `before` is the class of the character before it, which
    /// may have bytes in it. Bytes beyond the text are space.
    #[inline(always)]
    fn new(rule: Rule, text: &str, at: usize, before: Class) -> Self {
        let rest = &text.as_bytes()[at..];
        let mut padded = [b' '; BLOCK];
        let bytes = rest.first_chunk().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        if bytes.is_ascii() { Self::ascii(rule, bytes) } else { Self::beyond_ascii(rule, text, at, before) }
    }

    #[inline(always)]
    fn ascii(rule: Rule, bytes: &[u8; BLOCK]) -> Self {
        let filled = !bits(bytes, |b| (b == b' ') | (b.wrapping_sub(b'\t') < 5));
        match rule {
            Rule::Whitespace => Self { word: filled, other: 0 },
            Rule::WordPunct => {
                let word = bits(bytes, |b| {
                    ((b | 0x20).wrapping_sub(b'a') < 26) | (b.wrapping_sub(b'0') < 10) | (b == b'_')
                });
                Self { word, other: filled & !word }
            }
        }
    }

    #[inline(never)]
    fn beyond_ascii(rule: Rule, text: &str, at: usize, before: Class) -> Self {
        let (mut block, mut class) = (Self { word: 0, other: 0 }, before);
        for (bit, i) in (at..text.len().min(at + BLOCK)).enumerate() {
            if text.is_char_boundary(i) {
                class = rule.class(text, i);
            }
            match class {
                Class::Space => {}
                Class::Word => block.word |= 1 << bit,
                Class::Other => block.other |= 1 << bit,
            }
        }
        block
    }

    /// Where runs start, and where they have ended: at the first byte after them.
    #[inline(always)]
    fn edges(self, before: Class) -> (u64, u64) {
        let word = self.word << 1 | u64::from(before == Class::Word);
        let other = self.other << 1 | u64::from(before == Class::Other);
        (self.word & !word | self.other & !other, !self.word & word | !self.other & other)
    }

    /// The class of a byte.
    #[inline(always)]
    fn class(self, bit: usize) -> Class {
        match (self.word >> bit & 1, self.other >> bit & 1) {
            (1, _) => Class::Word,
            (_, 1) => Class::Other,
            _ => Class::Space,
        }
    }
}

/// The bytes for which a test holds. Both loops compile to vector instructions where there are some.
#[inline(always)]
fn bits(bytes: &[u8; BLOCK], test: impl Fn(u8) -> bool) -> u64 {
    let mut flags = [0; BLOCK];
    for i in 0..BLOCK {
        flags[i] = u8::from(test(bytes[i]));
    }
    let (eights, _) = flags.as_chunks::<8>();
    let mut bits = 0;
    for &eight in eights.iter().rev() {
        // Moves the lowest bit of byte i to bit 56 + i.
        bits = bits << 8 | u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    }
    bits
}

/// Emits the maximal runs of one class other than space; see [`super::Tokenizer::ranges`] for `whole`.
pub(super) fn runs(text: &str, rule: Rule, whole: bool, taker: &mut impl TakeRange) -> usize {
    match rule {
        Rule::Whitespace => simd::run(Runs::<false, _> { text, whole, taker }),
        Rule::WordPunct => simd::run(Runs::<true, _> { text, whole, taker }),
    }
}

/// The loop of [`runs`], by [`Rule`]: compiled for each, it has no branch on it.
struct Runs<'a, const WORD_PUNCT: bool, T> {
    text: &'a str,
    whole: bool,
    taker: &'a mut T,
}

impl<const WORD_PUNCT: bool, T: TakeRange> SimdKernel for Runs<'_, WORD_PUNCT, T> {
    type Output = usize;

    #[inline(always)]
    fn call<I: Isa>(self, _: I) -> usize {
        let Self { text, whole, taker } = self;
        let rule = if WORD_PUNCT { Rule::WordPunct } else { Rule::Whitespace };
        let n = text.len();
        // The start of a run that has not ended.
        let (mut start, mut before) = (0, Class::Space);
        for at in (0..n).step_by(BLOCK) {
            let block = Block::new(rule, text, at, before);
            let (mut starts, mut ends) = block.edges(before);
            if n - at < BLOCK {
                ends &= (1 << (n - at)) - 1;
            }
            if before == Class::Space {
                start = at + starts.trailing_zeros() as usize;
                starts &= starts.wrapping_sub(1);
            }
            while ends != 0 {
                let end = at + ends.trailing_zeros() as usize;
                ends &= ends - 1;
                if taker.take(start..end).is_break() {
                    return end;
                }
                start = at + starts.trailing_zeros() as usize;
                starts &= starts.wrapping_sub(1);
            }
            before = block.class((n - at).min(BLOCK) - 1);
        }
        match before {
            Class::Space => n,
            _ if !whole => start,
            _ => {
                let _ = taker.take(start..n);
                n
            }
        }
    }
}

/// Counts the runs that [`runs`] would emit and that begin in `text`; `before` is the class of the character before
/// `text`, and becomes that of its last one.
pub(super) fn count(text: &str, rule: Rule, before: &mut Class) -> u64 {
    simd::run(Count { text, rule, before })
}

struct Count<'a> {
    text: &'a str,
    rule: Rule,
    before: &'a mut Class,
}

impl SimdKernel for Count<'_> {
    type Output = u64;

    #[inline(always)]
    fn call<I: Isa>(self, _: I) -> u64 {
        let Self { text, rule, before } = self;
        let mut n = 0;
        for at in (0..text.len()).step_by(BLOCK) {
            let block = Block::new(rule, text, at, *before);
            n += u64::from(block.edges(*before).0.count_ones());
            *before = block.class((text.len() - at).min(BLOCK) - 1);
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::{ControlFlow, Range};

    #[test]
    fn the_ascii_table_and_the_blocks_agree_with_unicode() {
        for c in '\0'..='\x7f' {
            assert_eq!(Rule::WordPunct.class(&c.to_string(), 0), unicode_wordpunct(c), "{c:?}");
            let block = Block::new(Rule::WordPunct, &c.to_string(), 0, Class::Space);
            assert_eq!(block.class(0), unicode_wordpunct(c), "{c:?}");
        }
    }

    #[test]
    fn a_run_that_touches_the_end_of_a_part_is_withheld() {
        let mut seen = Vec::new();
        let done = runs("one two thr", Rule::WordPunct, false, &mut |r: Range<usize>| {
            seen.push(r);
            ControlFlow::Continue(())
        });
        assert_eq!((seen, done), (vec![0..3, 4..7], 8));
        assert_eq!(runs("one ", Rule::WordPunct, false, &mut |_: Range<usize>| ControlFlow::Continue(())), 4);
    }

    /// The runs of a text, character by character.
    fn expected(text: &str, rule: Rule) -> Vec<Range<usize>> {
        let mut found: Vec<(Class, Range<usize>)> = Vec::new();
        for (i, c) in text.char_indices() {
            let (class, end) = (rule.class(text, i), i + c.len_utf8());
            match found.last_mut() {
                Some((last, run)) if *last == class => run.end = end,
                _ => found.push((class, i..end)),
            }
        }
        found.into_iter().filter(|(class, _)| *class != Class::Space).map(|(_, run)| run).collect()
    }

    proptest! {
        #[test]
        fn runs_are_those_found_character_by_character(
            text in prop_oneof!["[ab.]{0,80}[a .\n]{0,150}", "[a .,é日\u{a0}\u{200d}😀\n]{0,200}", "[a日]{0,90}"],
            cut in 0usize..400,
        ) {
            for rule in [Rule::Whitespace, Rule::WordPunct] {
                let all = expected(&text, rule);
                let mut found = Vec::new();
                let done = runs(&text, rule, true, &mut |run: Range<usize>| {
                    found.push(run);
                    ControlFlow::Continue(())
                });
                prop_assert_eq!((&found, done), (&all, text.len()));
                found.clear();
                let done = runs(&text, rule, false, &mut |run: Range<usize>| {
                    found.push(run);
                    ControlFlow::Continue(())
                });
                let open = all.last().filter(|run| run.end == text.len());
                prop_assert_eq!((&found[..], done), match open {
                    Some(run) => (&all[..all.len() - 1], run.start),
                    None => (&all[..], text.len()),
                });
                let cut = (0..=cut.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap();
                let mut before = Class::Space;
                let counted = count(&text[..cut], rule, &mut before) + count(&text[cut..], rule, &mut before);
                prop_assert_eq!(counted, all.len() as u64);
                // Stopping after a run says where it ended.
                let mut left = cut % 7;
                let done = runs(&text, rule, true, &mut |_: Range<usize>| {
                    left = left.saturating_sub(1);
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                let stopped = all.get((cut % 7).max(1) - 1).map_or(text.len(), |run| run.end);
                prop_assert_eq!(done, stopped);
            }
        }
    }
}
