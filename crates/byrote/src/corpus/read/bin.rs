//! Raw token ids: `.bin`, little-endian u16 or u32, documents cut by `--separator-id` or `--documents chunk:L`.

use super::ids::{Cut, IdReader, IntegerType};
use super::input::Input;
use crate::Result;
use crate::corpus::options::{IdType, Options};
use std::path::Path;

pub(super) fn open(path: &Path, options: &Options, input: Input) -> Result<IdReader> {
    let bytes = match options.dtype {
        IdType::U16 => 2,
        IdType::U32 => 4,
    };
    let integer = IntegerType { bytes, signed: false, big_endian: false };
    Ok(IdReader::new(path, options, input, integer, Cut::flat(path, options)?, None))
}
