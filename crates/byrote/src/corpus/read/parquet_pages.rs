//! Checks pages of a Parquet file before they are decoded.
//!
//! The delta encodings begin with the number of their values, and the parquet crate reserves memory for that many at once: a
//! damaged file of 300 bytes that claims 2^51 values ends the process. No page holds more values than its header says, so that
//! is checked first.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescriptor;
use std::sync::Arc;

/// The pages of a column chunk, checked one by one.
pub(super) struct CheckedPages {
    pub(super) pages: Box<dyn PageReader>,
    pub(super) descriptor: Arc<ColumnDescriptor>,
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page
            && let Some(values) = values_of(page, &self.descriptor)?
        {
            check(values, page.encoding(), u64::from(page.num_values()))?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

fn cut_short() -> ParquetError {
    ParquetError::EOF("a page is cut short".into())
}

/// The encoded values of a data page, after its levels; `None` for other pages.
fn values_of<'a>(page: &'a Page, descriptor: &ColumnDescriptor) -> Result<Option<&'a [u8]>> {
    match page {
        Page::DictionaryPage { .. } => Ok(None),
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let start = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
            buf.get(start..).ok_or_else(cut_short).map(Some)
        }
        Page::DataPage { buf, num_values, rep_level_encoding, def_level_encoding, .. } => {
            let mut values = &buf[..];
            let levels = [
                (descriptor.max_rep_level(), rep_level_encoding),
                (descriptor.max_def_level(), def_level_encoding),
            ];
            for (most, encoding) in levels.into_iter().filter(|(most, _)| *most > 0) {
                let length = match (encoding, values.first_chunk()) {
                    (Encoding::RLE, Some(&length)) => 4 + u32::from_le_bytes(length) as usize,
                    (Encoding::RLE, None) => return Err(cut_short()),
                    // Levels in fixed numbers of bits, which only old writers use.
                    _ => (*num_values as usize * (16 - most.leading_zeros() as usize)).div_ceil(8),
                };
                values = values.get(length..).ok_or_else(cut_short)?;
            }
            Ok(Some(values))
        }
    }
}

/// Refuses sequences of lengths or integers that claim more than `most` values.
fn check(values: &[u8], encoding: Encoding, most: u64) -> Result<()> {
    match encoding {
        Encoding::DELTA_BINARY_PACKED | Encoding::DELTA_LENGTH_BYTE_ARRAY => {
            sequence(values, most).map(|_| ())
        }
        // The lengths of the prefixes, then those of the suffixes.
        Encoding::DELTA_BYTE_ARRAY => sequence(sequence(values, most)?, most).map(|_| ()),
        _ => Ok(()),
    }
}

/// Walks over one sequence of the encoding DELTA_BINARY_PACKED and returns what follows it.
fn sequence(mut bytes: &[u8], most: u64) -> Result<&[u8]> {
    let block = number(&mut bytes)?;
    let miniblocks = number(&mut bytes)?;
    let count = number(&mut bytes)?;
    number(&mut bytes)?; // The first value.
    if count > most {
        let message = format!("a page of {most} values holds {count} encoded ones");
        return Err(ParquetError::General(message));
    }
    let values = block.checked_div(miniblocks).filter(|&n| n > 0).ok_or_else(cut_short)?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        number(&mut bytes)?; // The smallest difference.
        let n = usize::try_from(miniblocks).map_err(|_| cut_short())?;
        let (widths, mut rest) = bytes.split_at_checked(n).ok_or_else(cut_short)?;
        for &width in widths {
            if left == 0 {
                break;
            }
            let size = values.checked_mul(u64::from(width)).map(|bits| bits / 8).ok_or_else(cut_short)?;
            let size = usize::try_from(size).map_err(|_| cut_short())?;
            // The last one need not be padded to its full length.
            rest = match rest.get(size..) {
                Some(rest) => rest,
                None if left <= values => &[],
                None => return Err(cut_short()),
            };
            left = left.saturating_sub(values);
        }
        bytes = rest;
    }
    Ok(bytes)
}

/// Reads a number of seven bits per byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(cut_short)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ParquetError::General("a number of more than 64 bits".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 7, 5, 3, 1, 2, 3, 4, 5 as in the format's description: one block of 128 values, 4 miniblocks.
    const SEQUENCE: [u8; 19] =
        [0x80, 0x01, 4, 8, 14, 3, 2, 0, 0, 0, 0b1100_0000, 0x3f, 0, 0, 0, 0, 0, 0, b'x'];

    #[test]
    fn sequences_are_walked_to_their_ends() {
        assert_eq!(sequence(&SEQUENCE, 8).unwrap(), b"x");
        // A single value has no block.
        assert_eq!(sequence(&[0x80, 0x01, 4, 1, 14, b'x'], 1).unwrap(), b"x");
    }

    #[test]
    fn more_values_than_the_page_has_and_missing_bytes_are_refused() {
        let said = sequence(&SEQUENCE, 7).unwrap_err().to_string();
        assert!(said.contains("a page of 7 values holds 8 encoded ones"), "{said}");
        for end in 0..10 {
            assert!(sequence(&SEQUENCE[..end], 8).is_err(), "{end}");
        }
        assert!(sequence(&[0x80, 0x01, 0, 8, 14, 3], 8).is_err(), "no miniblocks");
        assert!(sequence(&[0xff; 40], 8).is_err());
    }
}
