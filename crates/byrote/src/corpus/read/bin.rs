//! Raw token ids: `.bin`, little-endian u16 or u32, split into documents by `separator_id` or into chunks.

use super::ids::{Cut, IdReader, IntegerType};
use super::input::Input;
use crate::corpus::options::{IdType, Options};
use crate::{Error, Result};
use std::path::Path;

pub(super) fn open(path: &Path, options: &Options, input: Input) -> Result<IdReader> {
    let dtype = options.dtype.unwrap_or_default();
    if let (IdType::U16, Some(id)) = (dtype, options.separator_id.filter(|&id| id > u32::from(u16::MAX))) {
        return Err(Error::setting(
            "separator_id",
            format!("{id} does not fit in u16; is this `dtype = u32`?"),
        ));
    }
    let bytes = match dtype {
        IdType::U16 => 2,
        IdType::U32 => 4,
    };
    let integer = IntegerType { bytes, signed: false, big_endian: false };
    IdReader::new(path, options, input, integer, Cut::flat(path, options)?, None)
}
