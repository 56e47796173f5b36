//! NumPy arrays of token ids: `.npy`, format versions 1 to 3. A 2-D array has one document per row; a 1-D one is
//! split by `separator_id` or into chunks.

use super::ids::{Cut, IdReader, IntegerType};
use super::input::Input;
use crate::corpus::options::Options;
use crate::{Error, Result};
use std::io::Read;
use std::path::Path;

pub(super) fn open(path: &Path, options: &Options, mut input: Input) -> Result<IdReader> {
    let header = read_header(&mut input.bytes)
        .ok_or_else(|| Error::format(path, "not a NumPy .npy file, or its header is damaged"))?;
    let integer = integer_type(&header.descr).ok_or_else(|| {
        Error::format(
            path,
            format!("contains elements of type {:?}; token ids must be integers", header.descr),
        )
    })?;
    let (cut, total) = match header.shape[..] {
        [n] => (Cut::flat(path, options)?, n),
        [rows, columns] => {
            let given = [
                ("documents", options.documents.is_some()),
                ("separator_id", options.separator_id.is_some()),
                ("split", options.split.is_some()),
            ];
            if let Some((name, _)) = given.into_iter().find(|&(_, given)| given) {
                return Err(Error::setting(
                    name,
                    format!("does not apply to {}: each of its rows is a document", path.display()),
                ));
            }
            if header.fortran_order && rows > 1 && columns > 1 {
                return Err(Error::format(
                    path,
                    "is stored in column order; save numpy.ascontiguousarray(array) instead",
                ));
            }
            if columns == 0 {
                (Cut::Every(1), 0)
            } else {
                let total = rows.checked_mul(columns);
                (Cut::Every(columns), total.ok_or_else(|| Error::format(path, "an impossible shape"))?)
            }
        }
        _ => {
            return Err(Error::format(
                path,
                format!("has {} dimensions; ids must have one or two", header.shape.len()),
            ));
        }
    };
    IdReader::new(path, options, input, integer, cut, Some(total))
}

/// The header of an array.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    /// NumPy's name of the type.
    pub(crate) descr: String,
    /// Whether it is stored by columns.
    pub(crate) fortran_order: bool,
    /// Its dimensions.
    pub(crate) shape: Vec<u64>,
}

/// Reads the header; the values follow it.
pub(crate) fn read_header(input: &mut impl Read) -> Option<NpyHeader> {
    let mut start = [0; 8];
    input.read_exact(&mut start).ok()?;
    if !start.starts_with(b"\x93NUMPY") {
        return None;
    }
    let mut size = [0; 4];
    let bytes = if start[6] == 1 { 2 } else { 4 };
    input.read_exact(&mut size[..bytes]).ok()?;
    let size = u32::from_le_bytes(size);
    if size > 1 << 20 {
        return None;
    }
    let mut text = vec![0; size as usize];
    input.read_exact(&mut text).ok()?;
    parse_header(std::str::from_utf8(&text).ok()?)
}

/// Reads the header's Python dictionary: `{'descr': '<u2', 'fortran_order': False, 'shape': (2, 10), }`.
fn parse_header(text: &str) -> Option<NpyHeader> {
    let value = |key: &str| {
        let rest = &text[text.find(&format!("'{key}'"))? + key.len() + 2..];
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    };
    let descr = value("descr")?.strip_prefix('\'')?;
    let descr = descr[..descr.find('\'')?].to_owned();
    let order = value("fortran_order")?;
    let fortran_order = order.starts_with("True");
    if !fortran_order && !order.starts_with("False") {
        return None;
    }
    let shape = value("shape")?.strip_prefix('(')?;
    let shape = shape[..shape.find(')')?]
        .split(',')
        .map(str::trim)
        .filter(|n| !n.is_empty())
        .map(|n| n.parse().ok())
        .collect::<Option<Vec<u64>>>()?;
    Some(NpyHeader { descr, fortran_order, shape })
}

fn integer_type(descr: &str) -> Option<IntegerType> {
    let big_endian = descr.starts_with('>');
    let kind = descr.trim_start_matches(['<', '>', '|', '=']);
    let signed = match kind.chars().next()? {
        'u' => false,
        'i' => true,
        _ => return None,
    };
    let bytes: usize = kind[1..].parse().ok()?;
    matches!(bytes, 1 | 2 | 4 | 8).then_some(IntegerType { bytes, signed, big_endian })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_writes_them_are_read() {
        let header =
            parse_header("{'descr': '<u2', 'fortran_order': False, 'shape': (2000000, 10), }   \n").unwrap();
        assert_eq!(
            header,
            NpyHeader { descr: "<u2".into(), fortran_order: false, shape: vec![2_000_000, 10] }
        );
        assert_eq!(
            parse_header("{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }").unwrap().shape,
            [7]
        );
        assert_eq!(parse_header("{'descr': '<u2', 'shape': (7,)}"), None);
        assert_eq!(parse_header("{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': ()}"), None);
    }

    #[test]
    fn only_integers_are_ids() {
        assert_eq!(integer_type("<i4"), Some(IntegerType { bytes: 4, signed: true, big_endian: false }));
        assert_eq!(integer_type(">u8"), Some(IntegerType { bytes: 8, signed: false, big_endian: true }));
        assert_eq!(integer_type("|u1"), Some(IntegerType { bytes: 1, signed: false, big_endian: false }));
        assert_eq!(
            [integer_type("<f4"), integer_type("|b1"), integer_type("<U3"), integer_type("")],
            [None; 4]
        );
    }
}
