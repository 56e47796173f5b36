//! The metadata of a GGUF file, with errors that name keys.

use crate::corpus::vocabulary::Arena;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A value. Whole numbers of any width are one kind each, with and without a sign.
pub(super) enum Value {
    Count(u64),
    Integer(i64),
    Float(f64),
    Switch(bool),
    Text(String),
    Array(Array),
}

/// The values of an array.
pub(super) enum Array {
    /// Numbers or switches as they are in the file, with their type.
    Numbers { kind: u32, bytes: Vec<u8> },
    /// Strings in UTF-8.
    Texts(Arena),
    /// Arrays, which no key that byrote reads has.
    Nested,
}

impl Value {
    /// What the value is, for messages.
    fn described(&self) -> String {
        match self {
            Self::Count(n) => n.to_string(),
            Self::Integer(n) => n.to_string(),
            Self::Float(x) => x.to_string(),
            Self::Switch(on) => on.to_string(),
            Self::Text(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
            Self::Array(_) => "an array".to_owned(),
        }
    }
}

/// The metadata of a file, by key.
pub(super) struct Metadata {
    path: PathBuf,
    values: BTreeMap<String, Value>,
}

impl Metadata {
    pub(super) fn new(path: &Path, values: BTreeMap<String, Value>) -> Self {
        Self { path: path.to_path_buf(), values }
    }

    /// An error about the file.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::format(&self.path, message)
    }

    /// An error about a key.
    pub(super) fn wrong(&self, key: &str, message: &str) -> Error {
        self.error(format!("{key}: {message}"))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// The value of a key, read by `read`, which returns none if it has the wrong type.
    fn get<'a, T>(
        &'a self,
        key: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        match read(value) {
            Some(found) => Ok(Some(found)),
            None => Err(self.wrong(key, &format!("must be {what} (got {})", value.described()))),
        }
    }

    /// A whole number.
    pub(super) fn count(&self, key: &str) -> Result<Option<u64>> {
        self.get(key, "a whole number", |value| match value {
            Value::Count(n) => Some(*n),
            Value::Integer(n) => u64::try_from(*n).ok(),
            _ => None,
        })
    }

    /// A whole number above 0 that must be there.
    pub(super) fn size(&self, key: &str) -> Result<u64> {
        match self.count(key)? {
            Some(0) => Err(self.wrong(key, "must be above 0 (got 0)")),
            Some(n) => Ok(n),
            None => Err(self.error(format!("{key} is missing"))),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>> {
        self.get(key, "a number", |value| match value {
            Value::Float(x) => Some(*x),
            Value::Count(n) => Some(*n as f64),
            Value::Integer(n) => Some(*n as f64),
            _ => None,
        })
    }

    pub(super) fn switch(&self, key: &str) -> Result<Option<bool>> {
        self.get(key, "true or false", |value| match value {
            Value::Switch(on) => Some(*on),
            _ => None,
        })
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&str>> {
        self.get(key, "a string", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A list of strings.
    pub(super) fn texts(&self, key: &str) -> Result<Option<&Arena>> {
        self.get(key, "a list of strings", |value| match value {
            Value::Array(Array::Texts(texts)) => Some(texts),
            _ => None,
        })
    }

    /// A list of whole numbers.
    pub(super) fn integers(&self, key: &str) -> Result<Option<Vec<i64>>> {
        self.get(key, "a list of whole numbers", |value| match value {
            Value::Array(Array::Numbers { kind, bytes }) => match kind {
                4 => Some(bytes.as_chunks().0.iter().map(|b| i64::from(u32::from_le_bytes(*b))).collect()),
                5 => Some(bytes.as_chunks().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect()),
                _ => None,
            },
            _ => None,
        })
    }

    /// A list of numbers in f32.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<f32>>> {
        self.get(key, "a list of numbers", |value| match value {
            Value::Array(Array::Numbers { kind: 6, bytes }) => {
                Some(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
            }
            _ => None,
        })
    }
}
