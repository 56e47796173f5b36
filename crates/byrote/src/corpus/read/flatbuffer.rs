//! Reads FlatBuffers, the encoding of Arrow's metadata, without trusting them: every offset is checked when it is followed.
//!
//! A table begins with the distance back to its vtable, which has the offsets of its fields by their number, 0 for a field that is
//! absent and has its default value. Strings and vectors are a length and what follows it. Everything is little-endian.

/// The metadata point outside of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

type Result<T> = std::result::Result<T, Damaged>;

fn bytes<const N: usize>(buffer: &[u8], at: usize) -> Result<[u8; N]> {
    buffer.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(Damaged)
}

/// Follows an offset.
fn follow(buffer: &[u8], at: usize) -> Result<usize> {
    let offset = u32::from_le_bytes(bytes(buffer, at)?);
    at.checked_add(offset as usize).filter(|&to| to < buffer.len()).ok_or(Damaged)
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    /// The outermost table.
    pub(super) fn root(buffer: &'a [u8]) -> Result<Self> {
        Ok(Self { buffer, at: follow(buffer, 0)? })
    }

    /// Where a field is, if it is present.
    fn field(self, number: usize) -> Result<Option<usize>> {
        let back = i32::from_le_bytes(bytes(self.buffer, self.at)?);
        let vtable = (self.at as i64).checked_sub(i64::from(back)).and_then(|at| usize::try_from(at).ok());
        let vtable = vtable.ok_or(Damaged)?;
        let size = usize::from(u16::from_le_bytes(bytes(self.buffer, vtable)?));
        let entry = 4 + 2 * number;
        if entry + 2 > size {
            return Ok(None);
        }
        match u16::from_le_bytes(bytes(self.buffer, vtable + entry)?) {
            0 => Ok(None),
            offset => Ok(Some(self.at + usize::from(offset))),
        }
    }

    fn number<const N: usize>(self, number: usize) -> Result<[u8; N]> {
        self.field(number)?.map_or(Ok([0; N]), |at| bytes(self.buffer, at))
    }

    pub(super) fn u8(self, number: usize) -> Result<u8> {
        Ok(self.number::<1>(number)?[0])
    }

    pub(super) fn i16(self, number: usize) -> Result<i16> {
        Ok(i16::from_le_bytes(self.number(number)?))
    }

    pub(super) fn i32(self, number: usize) -> Result<i32> {
        Ok(i32::from_le_bytes(self.number(number)?))
    }

    pub(super) fn i64(self, number: usize) -> Result<i64> {
        Ok(i64::from_le_bytes(self.number(number)?))
    }

    pub(super) fn table(self, number: usize) -> Result<Option<Table<'a>>> {
        let at = self.field(number)?.map(|at| follow(self.buffer, at)).transpose()?;
        Ok(at.map(|at| Table { buffer: self.buffer, at }))
    }

    /// A vector of elements of `width` bytes, empty if it is absent.
    pub(super) fn vector(self, number: usize, width: usize) -> Result<Vector<'a>> {
        let buffer = self.buffer;
        let Some(at) = self.field(number)? else { return Ok(Vector { buffer, at: 0, len: 0, width }) };
        let at = follow(buffer, at)?;
        let len = u32::from_le_bytes(bytes(buffer, at)?) as usize;
        let end = len.checked_mul(width).and_then(|size| (at + 4).checked_add(size));
        match end {
            Some(end) if end <= buffer.len() => Ok(Vector { buffer, at: at + 4, len, width }),
            _ => Err(Damaged),
        }
    }

    pub(super) fn text(self, number: usize) -> Result<String> {
        let text = self.vector(number, 1)?;
        Ok(String::from_utf8_lossy(&text.buffer[text.at..text.at + text.len]).into_owned())
    }
}

/// A vector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vector<'a> {
    buffer: &'a [u8],
    at: usize,
    pub(super) len: usize,
    width: usize,
}

impl<'a> Vector<'a> {
    fn place(self, i: usize) -> Result<usize> {
        if i < self.len { Ok(self.at + i * self.width) } else { Err(Damaged) }
    }

    /// Element `i` of a vector of tables.
    pub(super) fn table(self, i: usize) -> Result<Table<'a>> {
        Ok(Table { buffer: self.buffer, at: follow(self.buffer, self.place(i)?)? })
    }

    /// Number `k` of element `i` of a vector of structs of 64-bit numbers.
    pub(super) fn i64(self, i: usize, k: usize) -> Result<i64> {
        Ok(i64::from_le_bytes(bytes(self.buffer, self.place(i)? + 8 * k)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of a number, a text, and nothing: the vtable is at 4, the table at 14.
    fn example() -> Vec<u8> {
        let mut buffer = vec![14, 0, 0, 0];
        buffer.extend([10, 0, 12, 0, 4, 0, 8, 0, 0, 0]);
        buffer.extend([10, 0, 0, 0, 0xfe, 0xff, 0, 0, 4, 0, 0, 0]);
        buffer.extend([2, 0, 0, 0, b'h', b'i']);
        buffer
    }

    #[test]
    fn fields_are_read_or_have_their_default() {
        let buffer = example();
        let table = Table::root(&buffer).unwrap();
        assert_eq!((table.i16(0), table.text(1).as_deref()), (Ok(-2), Ok("hi")));
        assert_eq!((table.i64(2), table.i32(3), table.text(7).as_deref()), (Ok(0), Ok(0), Ok("")));
        assert!(table.table(2).unwrap().is_none());
        assert_eq!(table.vector(1, 1).unwrap().len, 2);
        assert_eq!(table.vector(1, 2).unwrap_err(), Damaged);
        assert_eq!(table.vector(1, 1).unwrap().table(2).unwrap_err(), Damaged);
    }

    #[test]
    fn no_offset_leads_outside() {
        for at in 0..example().len() {
            for byte in [0, 1, 127, 128, 255] {
                let mut damaged = example();
                damaged[at] = byte;
                for buffer in [&damaged[..], &damaged[..at]] {
                    let Ok(table) = Table::root(buffer) else { continue };
                    let _ = (table.i64(0), table.text(1), table.table(1), table.u8(2));
                    let _ = table.vector(1, 4).and_then(|v| v.table(0)).and_then(|t| t.i32(0));
                }
            }
        }
    }
}
