//! The frame of an ONNX file, which is a protocol buffer: whether its fields, and those of its graph, fit into it.
//!
//! The runtime does not return from some files that are not protocol buffers, so this is checked first.

use std::io::{self, Read, Seek};

/// The field of an ONNX file that holds its graph.
const GRAPH: u64 = 7;

/// Whether the next `length` bytes are the fields of an ONNX file.
pub(crate) fn is_framed(file: &mut (impl Read + Seek), length: u64) -> io::Result<bool> {
    are_fields(file, length, true)
}

/// Whether the next `length` bytes are a sequence of fields, and with `has_graph` those of the graph among them too.
fn are_fields(file: &mut (impl Read + Seek), length: u64, has_graph: bool) -> io::Result<bool> {
    let mut left = length;
    while left > 0 {
        let Some(tag) = varint(file, &mut left)? else { return Ok(false) };
        let size = match tag & 7 {
            0 => match varint(file, &mut left)? {
                Some(_) => continue,
                None => return Ok(false),
            },
            1 => 8,
            2 => match varint(file, &mut left)? {
                Some(size) => size,
                None => return Ok(false),
            },
            5 => 4,
            _ => return Ok(false),
        };
        if tag >> 3 == 0 || size > left {
            return Ok(false);
        }
        if has_graph && tag == GRAPH << 3 | 2 {
            if !are_fields(file, size, false)? {
                return Ok(false);
            }
        } else {
            file.seek_relative(i64::try_from(size).unwrap_or(i64::MAX))?;
        }
        left -= size;
    }
    Ok(true)
}

/// The next number, and `None` if it does not end within `left` bytes or ten.
fn varint(file: &mut impl Read, left: &mut u64) -> io::Result<Option<u64>> {
    let (mut value, mut byte) = (0, [0]);
    for shift in (0..64).step_by(7) {
        if *left == 0 {
            return Ok(None);
        }
        file.read_exact(&mut byte)?;
        *left -= 1;
        value |= u64::from(byte[0] & 127) << shift;
        if byte[0] < 128 {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn fields_must_fit_into_the_file_and_the_graph() {
        let framed = |bytes: &[u8]| is_framed(&mut Cursor::new(bytes), bytes.len() as u64).unwrap();
        // A number, four bytes, a text; a graph with a text in it.
        assert!(framed(b""));
        assert!(framed(b"\x08\x09\x15abcd\x12\x02ab"));
        assert!(framed(b"\x08\x09\x3a\x04\x0a\x02ab"));
        // A text, or one in the graph, that is longer than what holds it.
        assert!(!framed(b"\x12\x03ab"));
        assert!(!framed(b"\x08\x09\x3a\x04\x0a\x03abc"));
        // A field without a number, a type that does not exist, a number without an end.
        assert!(!framed(b"\x02\x00"));
        assert!(!framed(b"\x0e\x00"));
        assert!(!framed(&[0xff; 100]));
        assert!(!framed(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
    }
}
