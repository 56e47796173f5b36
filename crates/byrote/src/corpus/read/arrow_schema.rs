//! The schema of an Arrow file, and where the buffers of one of its columns are.
//!
//! A record batch has its buffers one after the other: for each field, in depth-first order, a node (its length and its nulls)
//! and as many buffers as its type has. Finding a column is counting the nodes and buffers before it.

use super::flatbuffer::{Damaged, Table};
use super::ids::IntegerType;

/// The most fields of a schema, and the deepest: more are a lie, or would take long to read.
const MOST_FIELDS: usize = 1 << 16;
const DEEPEST: usize = 64;

/// Arrow's numbers of types.
mod tag {
    pub(super) const INT: u8 = 2;
    pub(super) const BINARY: u8 = 4;
    pub(super) const UTF8: u8 = 5;
    pub(super) const LIST: u8 = 12;
    pub(super) const STRUCT: u8 = 13;
    pub(super) const UNION: u8 = 14;
    pub(super) const FIXED_SIZE_LIST: u8 = 16;
    pub(super) const LARGE_BINARY: u8 = 19;
    pub(super) const LARGE_UTF8: u8 = 20;
    pub(super) const LARGE_LIST: u8 = 21;
    pub(super) const BINARY_VIEW: u8 = 23;
    pub(super) const UTF8_VIEW: u8 = 24;
}

/// Why there is no such column.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The metadata are damaged.
    Damaged,
    /// The column does not exist, or cannot be read.
    Message(String),
}

impl From<Damaged> for Missing {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Texts, with offsets of 64 or 32 bits.
    Text { wide: bool },
    /// Texts by their views.
    View,
    /// Lists of integers, with offsets of 64 or 32 bits.
    List { wide: bool, integer: IntegerType },
    /// Lists of `length` integers each.
    FixedList { length: usize, integer: IntegerType },
}

/// A column to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) kind: Kind,
    /// Where the structs around it are.
    pub(super) around: Vec<Place>,
    /// Where the column itself is.
    pub(super) place: Place,
}

/// Where a field is in a batch: the nodes and buffers before it, and the columns of views, whose numbers of buffers only the
/// batch knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) buffer: usize,
    pub(super) views: usize,
}

#[derive(Debug, Clone)]
struct Field {
    name: String,
    tag: u8,
    /// The number of its own buffers, without those of its children.
    buffers: usize,
    /// The integers of a column of integers, and the length of the lists of a list of fixed size.
    integer: Option<IntegerType>,
    length: i32,
    has_dictionary: bool,
    children: Vec<Field>,
}

impl Field {
    fn read(
        table: Table<'_>,
        unions_have_nulls: bool,
        depth: usize,
        left: &mut usize,
    ) -> Result<Self, Missing> {
        *left = left.checked_sub(1).filter(|_| depth < DEEPEST).ok_or(Damaged)?;
        let (tag, of) = (table.u8(2)?, table.table(3)?);
        let has_dictionary = table.table(4)?.is_some();
        let children = table.vector(5, 4)?;
        let number = |n| of.map_or(Ok(0), |of: Table<'_>| of.i32(n));
        let (integer, length) = match tag {
            tag::INT => {
                let (bits, signed) = (number(0)?, of.map_or(Ok(0), |of| of.u8(1))? != 0);
                let bytes = bits as usize / 8;
                let known = matches!(bits, 8 | 16 | 32 | 64);
                (known.then_some(IntegerType { bytes, signed, big_endian: false }), 0)
            }
            tag::FIXED_SIZE_LIST => (None, number(0)?),
            _ => (None, 0),
        };
        let buffers = match tag {
            _ if has_dictionary => 2,
            // Null, and run ends with their values.
            1 | 22 => 0,
            tag::STRUCT | tag::FIXED_SIZE_LIST => 1,
            // Types, and offsets if it is dense.
            tag::UNION => {
                let dense = of.map_or(Ok(0), |of| of.i16(0))? == 1;
                1 + usize::from(dense) + usize::from(unions_have_nulls)
            }
            tag::BINARY | tag::UTF8 | tag::LARGE_BINARY | tag::LARGE_UTF8 | 25 | 26 => 3,
            2..=26 => 2,
            _ => return Err(Missing::Message(format!("has a column of unknown type {tag}"))),
        };
        let mut field = Self {
            name: table.text(0)?,
            tag,
            buffers,
            integer,
            length,
            has_dictionary,
            children: Vec::new(),
        };
        // The values of a column with a dictionary are not in the batches, but in the dictionary.
        if !has_dictionary {
            for i in 0..children.len {
                let child = Self::read(children.table(i)?, unions_have_nulls, depth + 1, left)?;
                field.children.push(child);
            }
        }
        Ok(field)
    }

    /// The name of the type, as Arrow's documentation has it.
    fn type_name(&self) -> &'static str {
        const NAMES: [&str; 26] = [
            "Null",
            "Int",
            "FloatingPoint",
            "Binary",
            "Utf8",
            "Bool",
            "Decimal",
            "Date",
            "Time",
            "Timestamp",
            "Interval",
            "List",
            "Struct",
            "Union",
            "FixedSizeBinary",
            "FixedSizeList",
            "Map",
            "Duration",
            "LargeBinary",
            "LargeUtf8",
            "LargeList",
            "RunEndEncoded",
            "BinaryView",
            "Utf8View",
            "ListView",
            "LargeListView",
        ];
        usize::from(self.tag).checked_sub(1).and_then(|i| NAMES.get(i)).copied().unwrap_or("unknown")
    }

    fn has_views(&self) -> bool {
        matches!(self.tag, tag::BINARY_VIEW | tag::UTF8_VIEW) && !self.has_dictionary
    }

    /// What the column holds, if that can be read.
    fn kind(&self) -> Result<Kind, Missing> {
        let wrong = |why: &str| {
            let message = format!("column {:?} {why}; it must hold text or lists of integers", self.name);
            Err(Missing::Message(message))
        };
        if self.has_dictionary {
            return wrong("is encoded by a dictionary, which is not supported");
        }
        let items = self.children.first().filter(|_| self.children.len() == 1);
        let integer = items.and_then(|items| items.integer.filter(|_| !items.has_dictionary));
        match (self.tag, integer) {
            (tag::UTF8 | tag::BINARY, _) => Ok(Kind::Text { wide: false }),
            (tag::LARGE_UTF8 | tag::LARGE_BINARY, _) => Ok(Kind::Text { wide: true }),
            (tag::UTF8_VIEW | tag::BINARY_VIEW, _) => Ok(Kind::View),
            (tag::LIST, Some(integer)) => Ok(Kind::List { wide: false, integer }),
            (tag::LARGE_LIST, Some(integer)) => Ok(Kind::List { wide: true, integer }),
            (tag::FIXED_SIZE_LIST, Some(integer)) => match usize::try_from(self.length) {
                Ok(length @ 1..) => Ok(Kind::FixedList { length, integer }),
                _ => wrong(&format!("has lists of {} elements", self.length)),
            },
            (tag::LIST | tag::LARGE_LIST | tag::FIXED_SIZE_LIST, None) => {
                wrong(&format!("holds lists of {}", items.map_or("nothing", |items| items.type_name())))
            }
            _ => wrong(&format!("has the type {}", self.type_name())),
        }
    }
}

impl Place {
    /// Moves on to what follows a field.
    fn skip(&mut self, field: &Field) {
        self.node += 1;
        self.buffer += field.buffers;
        self.views += usize::from(field.has_views());
        field.children.iter().for_each(|child| self.skip(child));
    }
}

/// Finds a column in the schema of a message of metadata version `version`. A dot in its name leads into a struct, unless a
/// column has the dot in its own name.
pub(super) fn find(schema: Table<'_>, name: &str, version: i16) -> Result<Column, Missing> {
    if schema.i16(0)? != 0 {
        return Err(Missing::Message("has numbers of big-endian machines, which are not supported".into()));
    }
    let mut left = MOST_FIELDS;
    let vector = schema.vector(1, 4)?;
    let mut fields = Vec::new();
    for i in 0..vector.len {
        fields.push(Field::read(vector.table(i)?, version < 4, 0, &mut left)?);
    }
    let (mut place, mut around, mut among, mut rest) = (Place::default(), Vec::new(), &fields[..], name);
    loop {
        let below = |field: &Field| {
            let is_struct = field.tag == tag::STRUCT && !field.has_dictionary;
            is_struct && rest.strip_prefix(&*field.name).is_some_and(|rest| rest.starts_with('.'))
        };
        let literal = among.iter().position(|field| field.name == rest);
        let longest = || {
            let structs = among.iter().enumerate().filter(|(_, field)| below(field));
            structs.max_by_key(|(_, field)| field.name.len()).map(|(i, _)| i)
        };
        let Some(at) = literal.or_else(longest) else {
            let names = names(&fields);
            let has = if names.is_empty() { "there are no columns" } else { "the columns are " };
            return Err(Missing::Message(format!(
                "no column {name:?}; {has}{}; choose one with `field`",
                names.join(", ")
            )));
        };
        among[..at].iter().for_each(|field| place.skip(field));
        let field = &among[at];
        if literal.is_some() {
            return Ok(Column { kind: field.kind()?, around, place });
        }
        around.push(place);
        (place.node, place.buffer) = (place.node + 1, place.buffer + 1);
        (among, rest) = (&field.children, &rest[field.name.len() + 1..]);
    }
}

/// The names of columns, and of the fields of structs.
fn names(fields: &[Field]) -> Vec<String> {
    let mut names = Vec::new();
    for field in fields.iter().take(32) {
        match field.tag == tag::STRUCT && !field.children.is_empty() {
            true => {
                names.extend(field.children.iter().take(32).map(|f| format!("{}.{}", field.name, f.name)))
            }
            false => names.push(field.name.clone()),
        }
    }
    names
}
