//! The fields of a `config.json`, with errors that name them.

use crate::{Error, Result};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The fields of a JSON object. A field that is `null` counts as missing, as in `transformers`.
pub(in crate::model) struct Settings {
    path: PathBuf,
    fields: Map<String, Value>,
    /// The name of the object within the file, in front of the names of its fields.
    prefix: String,
}

impl Settings {
    pub(in crate::model) fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|e| Error::format(path, format!("not JSON: {e}")))?;
        match value {
            Value::Object(fields) => Ok(Self { path: path.to_path_buf(), fields, prefix: String::new() }),
            _ => Err(Error::format(path, "must hold a JSON object")),
        }
    }

    /// An error about the file.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::format(&self.path, message)
    }

    /// An error about a field.
    pub(super) fn wrong(&self, name: &str, message: &str) -> Error {
        self.error(format!("{}{name}: {message}", self.prefix))
    }

    pub(in crate::model) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// The first of several names for the same setting that is there.
    fn first<'a>(&self, names: &[&'a str]) -> (&'a str, Option<&Value>) {
        let found = names.iter().find_map(|name| Some((*name, self.get(name)?)));
        match found {
            Some((name, value)) => (name, Some(value)),
            None => (names.first().copied().unwrap_or_default(), None),
        }
    }

    /// A whole number that must be there.
    pub(super) fn count(&self, names: &[&str]) -> Result<u64> {
        match self.count_if_any(names)? {
            Some(count) => Ok(count),
            None => Err(self.error(format!(
                "{}{} is missing",
                self.prefix,
                names.first().copied().unwrap_or_default()
            ))),
        }
    }

    pub(super) fn count_if_any(&self, names: &[&str]) -> Result<Option<u64>> {
        let (name, value) = self.first(names);
        let of = |value: &Value| {
            let count = value.as_u64().filter(|&n| n > 0);
            count.ok_or_else(|| {
                self.wrong(name, &format!("must be a whole number above 0 (got {})", short(value)))
            })
        };
        value.map(of).transpose()
    }

    pub(super) fn number(&self, names: &[&str]) -> Result<Option<f64>> {
        let (name, value) = self.first(names);
        let of = |value: &Value| {
            value
                .as_f64()
                .ok_or_else(|| self.wrong(name, &format!("must be a number (got {})", short(value))))
        };
        value.map(of).transpose()
    }

    pub(super) fn switch(&self, name: &str) -> Result<Option<bool>> {
        let of = |value: &Value| {
            value
                .as_bool()
                .ok_or_else(|| self.wrong(name, &format!("must be true or false (got {})", short(value))))
        };
        self.get(name).map(of).transpose()
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>> {
        let of = |value: &'_ Value| -> Error {
            self.wrong(name, &format!("must be a string (got {})", short(value)))
        };
        match self.get(name) {
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(of(other)),
            None => Ok(None),
        }
    }

    /// The fields of an object within this one; none if it is missing.
    pub(super) fn object(&self, name: &str) -> Result<Self> {
        let fields = match self.get(name) {
            None => Map::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(other) => {
                return Err(self.wrong(name, &format!("must be an object (got {})", short(other))));
            }
        };
        Ok(Self { path: self.path.clone(), fields, prefix: format!("{}{name}.", self.prefix) })
    }

    /// This object with the fields of another, which take precedence.
    pub(super) fn merged(mut self, other: Self) -> Self {
        if !other.fields.is_empty() {
            self.prefix = other.prefix;
        }
        self.fields.extend(other.fields);
        self
    }

    /// The first field that is an object itself.
    pub(super) fn nested(&self) -> Option<&str> {
        self.fields.iter().find(|(_, value)| value.is_object()).map(|(name, _)| name.as_str())
    }
}

/// A value for a message.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
