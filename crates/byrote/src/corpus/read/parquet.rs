//! Parquet: a column of texts, or of lists of integers.

use super::{Content, Holds, Reader, SLAB_BYTES, Slab};
use crate::corpus::options::Options;
use crate::corpus::read::input::open_file;
use crate::{Error, Result};
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads one column, row group by row group.
pub(super) struct ParquetReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    column: usize,
    descriptor: Arc<ColumnDescriptor>,
    holds: Holds,
    /// Integers are to be read as unsigned.
    unsigned: bool,
    group: usize,
    open: Option<ColumnReader>,
    /// The number of the next row, from 1.
    row: u64,
}

const BATCH_ROWS: usize = 4096;

impl ParquetReader {
    pub(super) fn new(path: &Path, options: &Options) -> Result<Self> {
        let file = SerializedFileReader::new(open_file(path)?)
            .map_err(|e| Error::format(path, format!("not a Parquet file: {e}")))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let leaves: Vec<usize> = (0..schema.num_columns())
            .filter(|&i| schema.column(i).path().parts().first() == Some(&options.field))
            .collect();
        let names = || {
            let roots = schema.root_schema().get_fields();
            roots.iter().map(|f| f.name().to_owned()).collect::<Vec<_>>().join(", ")
        };
        let [column] = leaves[..] else {
            return Err(Error::format(
                path,
                format!("no single column {:?}; there are {}; --field NAME chooses", options.field, names()),
            ));
        };
        let descriptor = schema.column(column);
        let holds = match (descriptor.physical_type(), descriptor.max_rep_level()) {
            (PhysicalType::BYTE_ARRAY, 0) => Holds::Text,
            (PhysicalType::INT32 | PhysicalType::INT64, 1) => Holds::Ids,
            (kind, depth) => {
                return Err(Error::format(
                    path,
                    format!(
                        "column {:?} is of type {kind}, {depth} lists deep; a text, or a list of integers, is needed",
                        options.field
                    ),
                ));
            }
        };
        let unsigned = format!("{:?} {:?}", descriptor.logical_type_ref(), descriptor.converted_type());
        let unsigned = unsigned.contains("is_signed: false") || unsigned.contains("UINT");
        Ok(Self {
            path: path.to_path_buf(),
            file,
            column,
            descriptor,
            holds,
            unsigned,
            group: 0,
            open: None,
            row: 1,
        })
    }

    pub(super) fn holds(&self) -> Holds {
        self.holds
    }

    fn broken(&self, e: &ParquetError) -> Error {
        Error::format_at(&self.path, self.row, format!("cannot be decoded: {e}"))
    }

    /// Reads a batch of rows into the slab; `false` when the row group has ended.
    fn batch(&self, column: &mut ColumnReader, slab: &mut Slab) -> Result<bool> {
        let max_def = self.descriptor.max_def_level();
        let (mut def, mut rep) = (Vec::new(), Vec::new());
        macro_rules! read {
            ($reader:expr, $values:ident) => {{
                let mut $values = Vec::new();
                let got = $reader
                    .read_records(BATCH_ROWS, Some(&mut def), Some(&mut rep), &mut $values)
                    .map_err(|e| self.broken(&e))?;
                (got.0, got.2, $values)
            }};
        }
        match column {
            ColumnReader::ByteArrayColumnReader(reader) => {
                let (records, _, values) = read!(reader, values);
                let mut values = values.into_iter();
                for i in 0..records {
                    let start = slab.bytes.len();
                    if max_def == 0 || def.get(i) == Some(&max_def) {
                        slab.bytes.extend_from_slice(values.next().as_ref().map_or(&[][..], |v| v.data()));
                    }
                    slab.documents.push(start..slab.bytes.len());
                }
                Ok(records > 0)
            }
            ColumnReader::Int32ColumnReader(reader) => {
                let (records, levels, values) = read!(reader, values);
                let wide = values
                    .into_iter()
                    .map(|v| if self.unsigned { i64::from(v as u32) } else { i64::from(v) });
                self.lists(wide, &def[..levels], &rep[..levels], slab)?;
                Ok(records > 0)
            }
            ColumnReader::Int64ColumnReader(reader) => {
                let (records, levels, values) = read!(reader, values);
                self.lists(values.into_iter(), &def[..levels], &rep[..levels], slab)?;
                Ok(records > 0)
            }
            _ => unreachable!("the column's type was checked when the file was opened"),
        }
    }

    /// Puts lists together from their levels: a repetition level of 0 begins a row.
    fn lists(
        &self,
        mut values: impl Iterator<Item = i64>,
        def: &[i16],
        rep: &[i16],
        slab: &mut Slab,
    ) -> Result<()> {
        let max_def = self.descriptor.max_def_level();
        for (&d, &r) in def.iter().zip(rep) {
            if r == 0 {
                slab.documents.push(slab.ids.len()..slab.ids.len());
            }
            if d == max_def
                && let Some(value) = values.next()
            {
                let id = u32::try_from(value).map_err(|_| {
                    let row = slab.first_line + slab.documents.len() as u64 - 1;
                    let message = format!("{value} is no token id from 0 to {}", u32::MAX);
                    Error::format_at(&self.path, row, message)
                })?;
                slab.ids.push(id);
                if let Some(document) = slab.documents.last_mut() {
                    document.end = slab.ids.len();
                }
            }
        }
        Ok(())
    }
}

impl Reader for ParquetReader {
    fn fill(&mut self, slab: &mut Slab) -> Result<bool> {
        slab.content = if self.holds == Holds::Text { Content::Records } else { Content::Ids };
        slab.path.clone_from(&self.path);
        slab.first_line = self.row;
        while slab.bytes.len() + slab.ids.len() * 4 < SLAB_BYTES && slab.documents.len() < 1 << 20 {
            let mut column = match self.open.take() {
                Some(column) => column,
                None if self.group == self.file.num_row_groups() => break,
                None => {
                    let group = self.file.get_row_group(self.group).map_err(|e| self.broken(&e))?;
                    self.group += 1;
                    group.get_column_reader(self.column).map_err(|e| self.broken(&e))?
                }
            };
            let before = slab.documents.len() as u64;
            if self.batch(&mut column, slab)? {
                self.open = Some(column);
            }
            self.row += slab.documents.len() as u64 - before;
        }
        Ok(!slab.documents.is_empty())
    }
}
