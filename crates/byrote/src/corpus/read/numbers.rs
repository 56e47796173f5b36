//! Parquet: columns of numbers, read whole.

use super::parquet_pages::CheckedPages;
use crate::foreign::guarded;
use crate::{Error, Result};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::BTreeMap;
use std::path::Path;

/// Reads those of the named columns that a file has; a null is NaN.
pub(crate) fn columns(path: &Path, names: &[&'static str]) -> Result<BTreeMap<&'static str, Vec<f64>>> {
    let wrong = |e: String| Error::format(path, format!("not a Parquet file: {e}"));
    let raw = crate::input::open(path)?;
    let file =
        guarded(|| SerializedFileReader::new(raw)).map_err(wrong)?.map_err(|e| wrong(e.to_string()))?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let mut found = BTreeMap::new();
    for &name in names {
        let Some(column) = schema.columns().iter().position(|c| c.path().string() == name) else { continue };
        let descriptor = schema.column(column);
        if descriptor.max_rep_level() > 0 {
            return Err(Error::format(path, format!("column `{name}` holds lists, not numbers")));
        }
        let mut values = Vec::new();
        for group in 0..file.num_row_groups() {
            let read = || -> Result<(), ParquetError> {
                let group = file.get_row_group(group)?;
                let pages = Box::new(CheckedPages {
                    pages: group.get_column_page_reader(column)?,
                    descriptor: descriptor.clone(),
                });
                take(get_column_reader(descriptor.clone(), pages), descriptor.max_def_level(), &mut values)
            };
            guarded(read).map_err(wrong)?.map_err(|e| wrong(format!("column `{name}`: {e}")))?;
        }
        found.insert(name, values);
    }
    Ok(found)
}

/// Reads all values of a column.
fn take(reader: ColumnReader, defined: i16, values: &mut Vec<f64>) -> Result<(), ParquetError> {
    const ROWS: usize = 1 << 12;
    macro_rules! read {
        ($reader:ident, $number:expr) => {{
            let mut $reader = $reader;
            let (mut part, mut levels) = (Vec::new(), Vec::new());
            loop {
                part.clear();
                levels.clear();
                let (rows, _, _) = $reader.read_records(ROWS, Some(&mut levels), None, &mut part)?;
                if rows == 0 {
                    return Ok(());
                }
                let mut numbers = part.iter().map($number);
                match defined {
                    0 => values.extend(numbers),
                    _ => values.extend(levels.iter().map(|&level| match level == defined {
                        true => numbers.next().unwrap_or(f64::NAN),
                        false => f64::NAN,
                    })),
                }
            }
        }};
    }
    match reader {
        ColumnReader::DoubleColumnReader(reader) => read!(reader, |x: &f64| *x),
        ColumnReader::FloatColumnReader(reader) => read!(reader, |x: &f32| f64::from(*x)),
        ColumnReader::Int32ColumnReader(reader) => read!(reader, |x: &i32| f64::from(*x)),
        ColumnReader::Int64ColumnReader(reader) => read!(reader, |x: &i64| *x as f64),
        ColumnReader::BoolColumnReader(reader) => read!(reader, |x: &bool| f64::from(u8::from(*x))),
        _ => Err(ParquetError::General("holds no numbers".into())),
    }
}
