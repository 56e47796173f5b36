//! The part of a file that `split` asks for: a fraction of its characters, bytes or ids.

use super::input::fill_to;
use crate::corpus::options::Split;
use crate::{Error, Result};
use std::io::{Cursor, Read};
use std::ops::Range;
use std::path::Path;

/// Reads the rest of an input.
fn read_all(input: &mut (impl Read + ?Sized), bytes: &mut Vec<u8>, path: &Path) -> Result<()> {
    while !fill_to(input, bytes, bytes.len() + (1 << 20).max(bytes.len()), path)? {}
    Ok(())
}

/// Whether a byte is the first of a character.
fn starts_character(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

/// Replaces a text by a part of it; returns where that was. A text of characters is cut between them.
pub(super) fn of_text(
    split: Split,
    input: &mut (impl Read + ?Sized),
    text: &mut Vec<u8>,
    by_character: bool,
    path: &Path,
) -> Result<(Range<usize>, u64)> {
    read_all(input, text, path)?;
    let range = if by_character {
        let characters = text.iter().filter(|&&b| starts_character(b)).count() as u64;
        let part = split.of(characters);
        let mut starts = text.iter().enumerate().filter(|(_, b)| starts_character(**b)).map(|(i, _)| i);
        let start = starts.by_ref().nth(part.start as usize).unwrap_or(text.len());
        // The start was taken.
        let ahead = (part.end - part.start).checked_sub(1);
        let end = ahead.map_or(start, |ahead| starts.nth(ahead as usize).unwrap_or(text.len()));
        start..end
    } else {
        let part = split.of(text.len() as u64);
        part.start as usize..part.end as usize
    };
    let lines_before = memchr::memchr_iter(b'\n', &text[..range.start]).count() as u64;
    text.truncate(range.end);
    text.drain(..range.start);
    Ok((range, lines_before))
}

/// A part of a file of integers, and the number of integers in it; `declared` is how many the file says it has.
pub(super) fn of_ids(
    split: Split,
    mut input: Box<dyn Read + Send>,
    bytes_per_id: usize,
    declared: Option<u64>,
    path: &Path,
) -> Result<(Box<dyn Read + Send>, Option<u64>)> {
    let mut bytes = Vec::new();
    read_all(&mut *input, &mut bytes, path)?;
    let found = bytes.len() / bytes_per_id;
    if !bytes.len().is_multiple_of(bytes_per_id) || declared.is_some_and(|n| n > found as u64) {
        return Err(Error::format(
            path,
            format!("ends in the middle of an id, after {found} ids of {bytes_per_id} bytes"),
        ));
    }
    let part = split.of(declared.unwrap_or(found as u64));
    bytes.truncate(part.end as usize * bytes_per_id);
    bytes.drain(..part.start as usize * bytes_per_id);
    Ok((Box::new(Cursor::new(bytes)), declared.map(|_| part.end - part.start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_cut_whole() {
        let text = "aé日b\nc";
        for (split, expect) in
            [("0..1", text), ("0..0.5", "aé日"), ("0.5..1", "b\nc"), ("0.2..0.7", "é日b"), ("0..0.1", "")]
        {
            let mut rest = text.as_bytes()[..2].to_vec();
            let (range, lines) = of_text(
                split.parse().unwrap(),
                &mut &text.as_bytes()[2..],
                &mut rest,
                true,
                Path::new("memory"),
            )
            .unwrap();
            assert_eq!(std::str::from_utf8(&rest).unwrap(), expect, "{split}");
            assert_eq!(&text[range.clone()], expect);
            assert_eq!(lines, text[..range.start].matches('\n').count() as u64);
        }
    }
}
