//! Splits text into maximal runs of characters of one class.

use std::ops::{ControlFlow, Range};
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

/// The class of the character at byte `i`, and its length in bytes.
#[inline]
pub(super) fn wordpunct_class(text: &str, i: usize) -> (Class, usize) {
    let b = text.as_bytes()[i];
    if b < 128 { (ASCII_WORDPUNCT[b as usize], 1) } else { beyond_ascii(text, i, unicode_wordpunct) }
}

/// Like [`wordpunct_class`], with everything that is not space in one class.
#[inline]
pub(super) fn whitespace_class(text: &str, i: usize) -> (Class, usize) {
    let (class, len) = wordpunct_class(text, i);
    (if class == Class::Space { Class::Space } else { Class::Word }, len)
}

#[cold]
fn beyond_ascii(text: &str, i: usize, class: impl Fn(char) -> Class) -> (Class, usize) {
    let c = text[i..].chars().next().unwrap_or('\0');
    (class(c), c.len_utf8())
}

/// Emits the maximal runs of one class other than space; see [`super::Tokenizer::ranges`] for `whole`.
#[inline]
pub(super) fn runs(
    text: &str,
    class_at: impl Fn(&str, usize) -> (Class, usize),
    whole: bool,
    emit: &mut impl FnMut(Range<usize>) -> ControlFlow<()>,
) -> usize {
    let n = text.len();
    let mut i = 0;
    while i < n {
        let (class, len) = class_at(text, i);
        let start = i;
        i += len;
        if class == Class::Space {
            continue;
        }
        while i < n {
            let (next, len) = class_at(text, i);
            if next != class {
                break;
            }
            i += len;
        }
        if i == n && !whole {
            return start;
        }
        if emit(start..i).is_break() {
            return i;
        }
    }
    n
}

/// Counts the runs that [`runs`] would emit and that begin in `text`; `before` is the class of the character before
/// `text`, and becomes that of its last one.
pub(super) fn count(text: &str, class_at: impl Fn(&str, usize) -> (Class, usize), before: &mut Class) -> u64 {
    let (mut n, mut i) = (0, 0);
    while i < text.len() {
        let (class, len) = class_at(text, i);
        n += u64::from(class != Class::Space && class != *before);
        *before = class;
        i += len;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ascii_table_agrees_with_unicode() {
        for c in '\0'..='\x7f' {
            assert_eq!(wordpunct_class(&c.to_string(), 0).0, unicode_wordpunct(c), "{c:?}");
        }
    }

    #[test]
    fn a_run_that_touches_the_end_of_a_part_is_withheld() {
        let mut seen = Vec::new();
        let done = runs("one two thr", wordpunct_class, false, &mut |r| {
            seen.push(r);
            ControlFlow::Continue(())
        });
        assert_eq!((seen, done), (vec![0..3, 4..7], 8));
        assert_eq!(runs("one ", wordpunct_class, false, &mut |_| ControlFlow::Continue(())), 4);
    }
}
