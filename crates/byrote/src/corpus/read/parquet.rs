//! Parquet: a column of texts, or of lists of integers.

use super::input::Input;
use super::parquet_pages::CheckedPages;
use super::{Content, Holds, Reader, SLAB_BYTES, Slab};
use crate::corpus::options::Options;
use crate::foreign::guarded;
use crate::{Error, Result};
use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads one column, row group by row group.
pub(super) struct ParquetReader {
    path: PathBuf,
    file: Box<dyn FileReader>,
    column: usize,
    descriptor: Arc<ColumnDescriptor>,
    holds: Holds,
    /// Whether integers are read as unsigned.
    unsigned: bool,
    /// Whether the elements of lists are optional, so that the level below the highest is a null among them.
    element_may_be_null: bool,
    group: usize,
    open: Option<ColumnReader>,
    /// The number of the next row, from 1.
    row: u64,
    /// The number of rows read at a time: about a quarter of a slab.
    batch_rows: usize,
}

/// The largest number of rows read at a time, and the number read first, before their size is known.
const MOST_ROWS: usize = 4096;
const FIRST_ROWS: usize = 16;

impl ParquetReader {
    pub(super) fn new(path: &Path, options: &Options, input: Input) -> Result<Self> {
        let wrong = |e: String| Error::format(path, format!("not a Parquet file: {e}"));
        let opened: Result<Box<dyn FileReader>, ParquetError> = match input.held {
            Some(held) => {
                let held = Bytes::from_owner(held);
                guarded(|| SerializedFileReader::new(held).map(|f| Box::new(f) as _)).map_err(wrong)?
            }
            None => {
                let raw = crate::input::open(path)?;
                guarded(|| SerializedFileReader::new(raw).map(|f| Box::new(f) as _)).map_err(wrong)?
            }
        };
        let file = opened.map_err(|e| wrong(e.to_string()))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let [column] = columns(&schema, &options.field)[..] else {
            return Err(Error::format(
                path,
                format!(
                    "no single column {:?}; the columns are {}; choose one with `field`",
                    options.field,
                    names(&schema)
                ),
            ));
        };
        let descriptor = schema.column(column);
        let groups = file.metadata().row_groups().iter();
        let mut codecs = groups.filter_map(|group| group.columns().get(column)).map(|c| c.compression());
        if let Some(codec) = codecs.find(|c| matches!(c, Compression::BROTLI(_) | Compression::LZO)) {
            let name = if codec == Compression::LZO { "LZO" } else { "Brotli" };
            let message =
                format!("is compressed with {name}, which is not supported; use zstd, Snappy, gzip or LZ4");
            return Err(Error::format(path, message));
        }
        let holds = match (descriptor.physical_type(), descriptor.max_rep_level()) {
            (PhysicalType::BYTE_ARRAY, 0) => Holds::Text,
            (PhysicalType::INT32 | PhysicalType::INT64, 1) => Holds::Ids,
            (kind, depth) => {
                return Err(Error::format(
                    path,
                    format!(
                        "column {:?} has type {kind}, nested in {depth} lists; it must hold text or lists of integers",
                        options.field
                    ),
                ));
            }
        };
        use parquet::basic::ConvertedType::{UINT_8, UINT_16, UINT_32, UINT_64};
        let unsigned = matches!(descriptor.converted_type(), UINT_8 | UINT_16 | UINT_32 | UINT_64)
            || matches!(descriptor.logical_type_ref(), Some(LogicalType::Integer(int)) if !int.is_signed);
        let element_may_be_null = descriptor.self_type().is_optional();
        Ok(Self {
            path: path.to_path_buf(),
            file,
            column,
            descriptor,
            holds,
            unsigned,
            element_may_be_null,
            group: 0,
            open: None,
            row: 1,
            batch_rows: FIRST_ROWS,
        })
    }

    pub(super) fn holds(&self) -> Holds {
        self.holds
    }

    fn broken(&self, e: &ParquetError) -> Error {
        Error::format_at(&self.path, self.row, format!("cannot be decoded: {e}"))
    }

    /// Reads a batch of rows into the slab; returns `false` at the end of the row group.
    fn batch(&self, column: &mut ColumnReader, slab: &mut Slab) -> Result<bool> {
        let max_def = self.descriptor.max_def_level();
        let (mut def, mut rep) = (Vec::new(), Vec::new());
        macro_rules! read {
            ($reader:expr, $values:ident) => {{
                let mut $values = Vec::new();
                let got = $reader
                    .read_records(self.batch_rows, Some(&mut def), Some(&mut rep), &mut $values)
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

    /// Assembles lists from their levels: a repetition level of 0 begins a row.
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
            if d + 1 == max_def && self.element_may_be_null {
                let row = slab.first_line + slab.documents.len() as u64 - 1;
                return Err(Error::format_at(&self.path, row, "a null among the token ids"));
            }
            if d == max_def
                && let Some(value) = values.next()
            {
                let id = u32::try_from(value).map_err(|_| {
                    let row = slab.first_line + slab.documents.len() as u64 - 1;
                    let message = format!("{value} is not a token id from 0 to {}", u32::MAX);
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

/// The leaves of a column. A dot in its name leads into a struct, unless a column has the dot in its own name.
fn columns(schema: &SchemaDescriptor, name: &str) -> Vec<usize> {
    let of = |is: &dyn Fn(&ColumnDescriptor) -> bool| -> Vec<usize> {
        (0..schema.num_columns()).filter(|&i| is(&schema.column(i))).collect()
    };
    let literal = of(&|column| column.path().parts().first().is_some_and(|root| root == name));
    if !literal.is_empty() {
        return literal;
    }
    let nested = |path: String| path.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('.'));
    of(&|column| nested(column.path().string()))
}

/// The names of the columns, and those of the fields of structs.
fn names(schema: &SchemaDescriptor) -> String {
    let is_struct = |field: &Type| {
        let basic = field.get_basic_info();
        use parquet::basic::ConvertedType::NONE;
        field.is_group() && basic.converted_type() == NONE && basic.logical_type_ref().is_none()
    };
    let mut names = Vec::new();
    for root in schema.root_schema().get_fields() {
        match is_struct(root) {
            true => names.extend(root.get_fields().iter().map(|f| format!("{}.{}", root.name(), f.name()))),
            false => names.push(root.name().to_owned()),
        }
    }
    names.join(", ")
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
                    let opened = guarded(|| {
                        let group = self.file.get_row_group(self.group)?;
                        let pages = group.get_column_page_reader(self.column)?;
                        let pages = CheckedPages { pages, descriptor: self.descriptor.clone() };
                        Ok(get_column_reader(self.descriptor.clone(), Box::new(pages)))
                    });
                    self.group += 1;
                    opened.unwrap_or_else(|e| Err(ParquetError::General(e))).map_err(|e| self.broken(&e))?
                }
            };
            let held = |slab: &Slab| slab.bytes.len() + slab.ids.len() * 4;
            let before = (slab.documents.len(), held(slab));
            let more = guarded(|| self.batch(&mut column, slab))
                .unwrap_or_else(|e| Err(self.broken(&ParquetError::General(e))))?;
            if more {
                self.open = Some(column);
            }
            let rows = slab.documents.len() - before.0;
            self.row += rows as u64;
            let size = (held(slab) - before.1).div_ceil(rows.max(1)).max(1);
            self.batch_rows = (SLAB_BYTES / 4 / size).clamp(1, MOST_ROWS);
        }
        Ok(!slab.documents.is_empty())
    }
}
