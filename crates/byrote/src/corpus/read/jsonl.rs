//! JSON Lines: one object per line, with the text or the ids in one of its fields. Blank lines are not records.

use super::input::Input;
use super::text::TextReader;
use super::{Content, Holds, Reader, Slab};
use crate::corpus::options::{DocumentRule, Options};
use crate::{Error, Result};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// The longest record, in bytes.
const MAX_RECORD_BYTES: usize = 256 << 20;

/// What the field of a record holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Text(Cow<'a, str>),
    Ids(Vec<u32>),
    /// `null`: a record without a document.
    Null,
}

impl<'a> Field<'a> {
    /// Parses a record and takes its field; the error message says what is wrong.
    pub(crate) fn of(record: &'a [u8], name: &str) -> Result<Self, String> {
        let mut parser = serde_json::Deserializer::from_slice(record);
        let record = Record { name }.deserialize(&mut parser).and_then(|field| parser.end().map(|()| field));
        match record {
            Ok(Ok(field)) => Ok(field),
            Ok(Err(names)) if names.is_empty() => Err(format!("no field {name:?}; the record has no fields")),
            Ok(Err(names)) => Err(format!(
                "no field {name:?}; the record has {}; choose one with `field`",
                names.join(", ")
            )),
            Err(e) => Err(format!("not a JSON record with {name:?}: {}", reason(&e))),
        }
    }
}

/// What is wrong with a record, without a place: the record's line is known.
fn reason(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    match said.strip_prefix("invalid type: ").and_then(|said| said.split_once(", expected ")) {
        Some((found, expected)) => {
            let found = if found == "map" { "an object" } else { found };
            format!("expected {expected}, found {found}")
        }
        None => said.to_owned(),
    }
}

/// Takes one field of an object and skips the others; returns the names of the fields if it is missing.
///
/// A dot in the name leads into an object. A key that has the dot itself comes first: the longest key wins.
struct Record<'n> {
    name: &'n str,
}

type Taken<'de> = std::result::Result<Field<'de>, Vec<String>>;

impl<'de> DeserializeSeed<'de> for Record<'_> {
    type Value = Taken<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Record<'_> {
    type Value = Taken<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the field {:?}", self.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut taken, mut names, mut longest) = (None, Vec::new(), 0);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let rest = self.name.strip_prefix(&*key).filter(|_| key.len() >= longest);
            let found = match (rest, rest.and_then(|rest| rest.strip_prefix('.'))) {
                (Some(""), _) => Ok(map.next_value_seed(FieldSeed)?),
                (_, Some(name)) => map.next_value_seed(Below { name })?,
                _ => map.next_value::<IgnoredAny>().map(|_| Err(Vec::new()))?,
            };
            match found {
                Ok(field) => (taken, longest) = (Some(field), key.len()),
                Err(_) if names.len() >= 8 => {}
                Err(below) if below.is_empty() => names.push(key.into_owned()),
                Err(below) => names.extend(below.into_iter().map(|name| format!("{key}.{name}"))),
            }
        }
        Ok(taken.ok_or(names))
    }
}

/// The value of a key on the way to a field: an object, or the field is missing.
struct Below<'n> {
    name: &'n str,
}

impl<'de> DeserializeSeed<'de> for Below<'_> {
    type Value = Taken<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Below<'_> {
    type Value = Taken<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the field {:?}", self.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Record { name: self.name }.visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Err(Vec::new()))
    }

    /// An object that is `null` has no document either.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Ok(Field::Null))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Err(Vec::new()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Err(Vec::new()))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Err(Vec::new()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Err(Vec::new()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Err(Vec::new()))
    }
}

struct FieldSeed;

impl<'de> DeserializeSeed<'de> for FieldSeed {
    type Value = Field<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or an array of token ids")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Field::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut ids = Vec::new();
        while let Some(number) = sequence.next_element::<serde_json::Number>()? {
            let id = number.as_u64().and_then(|id| u32::try_from(id).ok());
            ids.push(id.ok_or_else(|| {
                A::Error::custom(format!("{number} is not a token id from 0 to {}", u32::MAX))
            })?);
        }
        Ok(Field::Ids(ids))
    }
}

/// Lines of text that are passed on as records; the threads that tokenize also parse them.
pub(super) struct JsonlReader {
    lines: TextReader,
    /// The first slab, read ahead to see what the field holds.
    first: Option<Slab>,
    /// `None` while no record has held anything.
    holds: Option<Holds>,
    path: PathBuf,
}

impl JsonlReader {
    pub(super) fn new(path: &Path, options: &Options, input: Input) -> Result<Self> {
        let by_line = Options { documents: Some(DocumentRule::Line), ..options.clone() };
        let lines = TextReader::new(path, &by_line, input)?;
        let mut reader = Self { lines, first: None, holds: None, path: path.to_path_buf() };
        // The first record that is not null decides; the others must match it.
        let mut slab = Slab::default();
        if reader.records(&mut slab)? {
            let mut fields = slab.documents.iter().map(|r| Field::of(&slab.bytes[r.clone()], &options.field));
            reader.holds = fields.find(|f| !matches!(f, Ok(Field::Null))).map(|field| match field {
                Ok(Field::Ids(_)) => Holds::Ids,
                _ => Holds::Text,
            });
            reader.first = Some(slab);
        }
        Ok(reader)
    }

    pub(super) fn holds(&self) -> Option<Holds> {
        self.holds
    }

    /// Fills a slab with whole records, however long they are.
    fn records(&mut self, slab: &mut Slab) -> Result<bool> {
        if !self.lines.fill(slab)? {
            return Ok(false);
        }
        if let Content::Part { .. } = slab.content {
            while slab.content != (Content::Part { first: false, last: true }) {
                let mut next = Slab::default();
                if slab.bytes.len() > MAX_RECORD_BYTES || !self.lines.fill(&mut next)? {
                    return Err(Error::format_at(
                        &self.path,
                        slab.first_line,
                        format!("a record of more than {} MiB", MAX_RECORD_BYTES >> 20),
                    ));
                }
                let end = slab.bytes.len() + next.documents[0].end;
                slab.bytes.append(&mut next.bytes);
                slab.documents[0] = 0..end;
                slab.content = next.content;
            }
        }
        slab.documents.retain(|r| !slab.bytes[r.clone()].iter().all(u8::is_ascii_whitespace));
        slab.content = Content::Json;
        Ok(true)
    }
}

impl Reader for JsonlReader {
    fn fill(&mut self, slab: &mut Slab) -> Result<bool> {
        match self.first.take() {
            Some(first) => {
                *slab = first;
                Ok(true)
            }
            None => self.records(slab),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_of_a_record_is_taken() {
        let of = |json: &'static str| Field::of(json.as_bytes(), "text");
        assert_eq!(of(r#"{"id": [1, {"a": 2}], "text": "x\ny"}"#), Ok(Field::Text("x\ny".into())));
        assert_eq!(of(r#"{"text": [0, 4294967295]}"#), Ok(Field::Ids(vec![0, u32::MAX])));
        assert_eq!(of(r#"{"text": null}"#), Ok(Field::Null));
        for (json, says) in [
            (r#"{"body": "x"}"#, "no field \"text\"; the record has body"),
            (r#"{}"#, "the record has no fields"),
            (r#"{"text": [4294967296]}"#, "4294967296 is not a token id"),
            (r#"{"text": [-1]}"#, "-1 is not a token id"),
            (r#"{"text": [1.5]}"#, "1.5 is not a token id"),
            (r#"{"text": 3}"#, "a text or an array of token ids"),
            (r#"{"text": "x"} junk"#, "trailing"),
            (r#"["text"]"#, "an object"),
            (r#"{"text": "x""#, "EOF"),
        ] {
            let message = of(json).unwrap_err();
            assert!(message.contains(says), "{json}: {message}");
        }
    }

    #[test]
    fn dots_lead_into_objects_unless_a_key_has_them() {
        let of = |json: &'static str| Field::of(json.as_bytes(), "a.b.c");
        let text = |text: &'static str| Ok(Field::Text(text.into()));
        assert_eq!(of(r#"{"n": 1, "a": {"x": [{}], "b": {"c": "1"}}}"#), text("1"));
        assert_eq!(of(r#"{"a": {"b": {"c": "1"}, "b.c": "2"}}"#), text("2"));
        assert_eq!(of(r#"{"a.b": {"c": "3"}, "a": {"b.c": "2"}}"#), text("3"));
        assert_eq!(of(r#"{"a.b.c": "4", "a.b": {"c": "3"}, "a": {"b.c": "2"}}"#), text("4"));
        assert_eq!(of(r#"{"a": {"b.c": "2"}, "a.b.c": "4"}"#), text("4"));
        assert_eq!(of(r#"{"a": {"b": {"c": [7]}}}"#), Ok(Field::Ids(vec![7])));
        for null in [r#"{"a": null}"#, r#"{"a": {"b": null}}"#, r#"{"a": {"b": {"c": null}}}"#] {
            assert_eq!(of(null), Ok(Field::Null), "{null}");
        }
        for (json, has) in [
            (r#"{"id": 1, "a": {"x": 2, "b": {}}}"#, "the record has id, a.x, a.b; choose"),
            (r#"{"a": {"b": {"d": 2}}}"#, "the record has a.b.d; choose"),
            (r#"{"a": "text"}"#, "the record has a; choose"),
            (r#"{"a": [1, 2], "a.b": 1.5}"#, "the record has a, a.b; choose"),
            (r#"{"a": {"b": true}}"#, "the record has a.b; choose"),
            (r#"{"a": {"b": -1, "c": "x"}}"#, "the record has a.b, a.c; choose"),
        ] {
            let message = of(json).unwrap_err();
            assert!(message.contains("no field \"a.b.c\"") && message.contains(has), "{json}: {message}");
        }
        assert!(of(r#"{"a": {"b": {"c": {}}}}"#).unwrap_err().contains("a text or an array of token ids"));
        assert!(of(r#"{"a": {"b": {"c": "1""#).unwrap_err().contains("EOF"));
        assert_eq!(Field::of(br#"{"a": {"": "x"}, "a.": "y"}"#, "a."), text("y"));
        assert_eq!(Field::of(br#"{"a": {"": "x"}}"#, "a."), text("x"));
    }
}
