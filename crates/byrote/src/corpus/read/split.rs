//! Splits text into documents.

use crate::corpus::options::DocumentRule;
use memchr::{memchr_iter, memmem};
use std::ops::Range;

/// Finds the documents that are complete in `bytes` (all of them at the `end` of the file), appends them to
/// `documents`, and returns the number of bytes that they and their separators take.
pub(super) fn split(
    rule: &DocumentRule,
    bytes: &[u8],
    end: bool,
    documents: &mut Vec<Range<usize>>,
) -> usize {
    match rule {
        DocumentRule::Line => {
            let mut start = 0;
            for newline in memchr_iter(b'\n', bytes) {
                let cr = usize::from(newline > start && bytes[newline - 1] == b'\r');
                documents.push(start..newline - cr);
                start = newline + 1;
            }
            rest(bytes, start, end, documents)
        }
        DocumentRule::BlankLine => blank_line(bytes, end, documents),
        DocumentRule::Separator(separator) => {
            let mut start = 0;
            for found in memmem::find_iter(bytes, separator) {
                documents.push(start..found);
                start = found + separator.len();
            }
            rest(bytes, start, end, documents)
        }
        DocumentRule::File | DocumentRule::Chunk(_) => rest(bytes, 0, end, documents),
    }
}

/// The text after the last separator is a document only at the end of the file, and only if it is not empty.
fn rest(bytes: &[u8], start: usize, end: bool, documents: &mut Vec<Range<usize>>) -> usize {
    if end && start < bytes.len() {
        documents.push(start..bytes.len());
        return bytes.len();
    }
    start
}

/// The rest of a document that continues in `bytes`, and the number of bytes that it and its separator take; `None` if
/// its end is not among them.
pub(super) fn rest_of_document(
    rule: &DocumentRule,
    bytes: &[u8],
    end: bool,
) -> Option<(Range<usize>, usize)> {
    let found = match rule {
        DocumentRule::Line => memchr::memchr(b'\n', bytes).map(|newline| {
            let cr = usize::from(newline > 0 && bytes[newline - 1] == b'\r');
            (0..newline - cr, newline + 1)
        }),
        DocumentRule::Separator(separator) => {
            memmem::find(bytes, separator).map(|found| (0..found, found + separator.len()))
        }
        DocumentRule::BlankLine => {
            let (mut start, mut stop, mut found) = (0, 0, None);
            for (i, newline) in memchr_iter(b'\n', bytes).enumerate() {
                let line = &bytes[start..newline];
                // The first line continues one that was cut, so it is never blank.
                if i > 0 && line.iter().all(u8::is_ascii_whitespace) {
                    found = Some((0..stop, newline + 1));
                    break;
                }
                stop = newline - usize::from(line.ends_with(b"\r"));
                start = newline + 1;
            }
            let rest = &bytes[start..];
            if !rest.iter().all(u8::is_ascii_whitespace) {
                stop = bytes.len();
            }
            found.or(end.then_some((0..stop, bytes.len())))
        }
        DocumentRule::File | DocumentRule::Chunk(_) => None,
    };
    found.or(end.then_some((0..bytes.len(), bytes.len())))
}

fn blank_line(bytes: &[u8], end: bool, documents: &mut Vec<Range<usize>>) -> usize {
    let mut open: Option<Range<usize>> = None;
    let (mut start, mut consumed) = (0, 0);
    let last = (end && !bytes.ends_with(b"\n")).then_some(bytes.len());
    for newline in memchr_iter(b'\n', bytes).chain(last) {
        let line = &bytes[start..newline];
        let next = (newline + 1).min(bytes.len());
        if line.iter().all(u8::is_ascii_whitespace) {
            documents.extend(open.take());
            consumed = next;
        } else {
            let stop = newline - usize::from(line.ends_with(b"\r"));
            open.get_or_insert(start..stop).end = stop;
        }
        start = next;
    }
    if end {
        documents.extend(open);
        consumed = bytes.len();
    }
    consumed
}

/// Where a document that continues may be cut: not within a character, a separator or a blank line.
pub(super) fn safe_cut(rule: &DocumentRule, bytes: &[u8]) -> usize {
    let hold = match rule {
        DocumentRule::Separator(separator) => separator.len(),
        _ => 4,
    };
    let mut cut = bytes.len().saturating_sub(hold);
    if *rule == DocumentRule::BlankLine {
        // Keep the last line break with what follows it, unless that is a very long line.
        if let Some(newline) = memchr::memrchr(b'\n', &bytes[..cut]).filter(|&n| n > cut / 2) {
            cut = newline;
        }
    }
    cut -= usize::from(cut > 0 && bytes[cut - 1] == b'\r');
    // Back to the first byte of a character; if there is none nearby, the text is invalid anyway.
    let start = (cut.saturating_sub(3)..=cut).rev().find(|&i| bytes.get(i).is_some_and(|b| b & 0xc0 != 0x80));
    start.unwrap_or(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn documents<'a>(rule: &DocumentRule, text: &'a str) -> Vec<&'a str> {
        let mut ranges = Vec::new();
        split(rule, text.as_bytes(), true, &mut ranges);
        ranges.into_iter().map(|r| &text[r]).collect()
    }

    #[test]
    fn a_line_ends_at_lf_or_crlf_and_the_last_needs_neither() {
        assert_eq!(documents(&DocumentRule::Line, "a\r\nb\n\nc\rd"), ["a", "b", "", "c\rd"]);
        assert_eq!(documents(&DocumentRule::Line, "a\n"), ["a"]);
        assert_eq!(documents(&DocumentRule::Line, ""), [""; 0]);
    }

    #[test]
    fn blank_lines_of_any_number_separate_documents() {
        let text = "\n \na\nb\r\n\r\n\t\n\nc\n\n";
        assert_eq!(documents(&DocumentRule::BlankLine, text), ["a\nb", "c"]);
        assert_eq!(documents(&DocumentRule::BlankLine, "a\nb"), ["a\nb"]);
        assert_eq!(documents(&DocumentRule::BlankLine, "a\n\n   "), ["a"]);
    }

    #[test]
    fn separators_are_found_from_the_left() {
        let rule = DocumentRule::Separator(b"--".to_vec());
        assert_eq!(documents(&rule, "a---2----3"), ["a", "-2", "", "3"]);
        assert_eq!(documents(&rule, "a--"), ["a"]);
        assert_eq!(documents(&DocumentRule::File, "a\nb"), ["a\nb"]);
    }

    proptest! {
        #[test]
        fn reading_in_pieces_gives_the_same_documents(
            text in "[ab\r\n -]{0,40}", cut in 0usize..40, rule in 0..4
        ) {
            let rule = [
                DocumentRule::Line,
                DocumentRule::BlankLine,
                DocumentRule::Separator(b"--".to_vec()),
                DocumentRule::File,
            ][rule as usize].clone();
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            let mut ranges = Vec::new();
            let consumed = split(&rule, &bytes[..cut], false, &mut ranges);
            let mut found: Vec<&[u8]> = ranges.drain(..).map(|r| &bytes[r]).collect();
            split(&rule, &bytes[consumed..], true, &mut ranges);
            found.extend(ranges.into_iter().map(|r| &bytes[consumed..][r]));
            let whole: Vec<&[u8]> = documents(&rule, &text).into_iter().map(str::as_bytes).collect();
            prop_assert_eq!(found, whole);
        }
    }
}
