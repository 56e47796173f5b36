//! What a view answers: JSON, a file, or an error that names its setting.

use byrote::Error;
use serde_json::{Value, json};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The type of the body.
    pub kind: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// JSON.
    pub fn json(value: &Value) -> Self {
        Self::with_status(200, value)
    }

    /// JSON with a status.
    pub fn with_status(status: u16, value: &Value) -> Self {
        Self { status, kind: "application/json", body: value.to_string().into_bytes() }
    }

    /// Refuses a request.
    pub fn refused(status: u16, message: &str) -> Self {
        Self::with_status(status, &json!({"error": {"kind": "request", "message": message, "setting": null}}))
    }

    /// What went wrong with something that a person typed: an answer like any other, which a browser does not log as a failure.
    pub fn problem(error: &Error) -> Self {
        Self::json(&json!({"problem": error_json(error)}))
    }

    /// What went wrong: a setting is the request's fault, everything else that of what is read.
    pub fn error(error: &Error) -> Self {
        Self::with_status(422, &json!({"error": error_json(error)}))
    }
}

/// An error as the page shows it: at the field of its setting, if it has one.
pub fn error_json(error: &Error) -> Value {
    let setting = match error {
        Error::UnknownSetting { name, .. } => Some(name.as_str()),
        other => other.setting_name(),
    };
    json!({"kind": error.kind(), "message": error.to_string(), "setting": setting})
}

impl From<byrote::Result<Value>> for Answer {
    fn from(found: byrote::Result<Value>) -> Self {
        match found {
            Ok(value) => Self::json(&value),
            Err(error) => Self::error(&error),
        }
    }
}
