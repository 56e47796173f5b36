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
    json!({"kind": error.kind(), "message": sentence(error), "setting": setting})
}

/// An error in words that need no knowledge of settings: what is no field of the page is called by its name, or not at all.
pub fn sentence(error: &Error) -> String {
    let Error::Setting { name, message } = error else { return error.to_string() };
    let is_predicate = ["is", "has", "must", "cannot", "contains", "could", "does", "needs"]
        .contains(&message.split(' ').next().unwrap_or_default());
    match *name {
        "corpus" | "model" | "text" if is_predicate => format!("the {name} {message}"),
        "corpus" | "model" | "text" => message.clone(),
        "settings" | "id" | "job" | "document" | "task" | "kind" | "action" if !is_predicate => {
            message.clone()
        }
        _ => error.to_string(),
    }
}

impl From<byrote::Result<Value>> for Answer {
    fn from(found: byrote::Result<Value>) -> Self {
        match found {
            Ok(value) => Self::json(&value),
            Err(error) => Self::error(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sentences_unless_they_belong_to_a_field() {
        for (name, message, says) in [
            ("corpus", "is still being read", "the corpus is still being read"),
            ("model", "has never seen the token \"cat\"", "the model has never seen the token \"cat\""),
            ("model", "training 5 parameters takes 3 GiB", "training 5 parameters takes 3 GiB"),
            ("id", "there is no model \"x\" here", "there is no model \"x\" here"),
            ("id", "is missing", "id: is missing"),
            ("n_heads", "must be at least 1 (got 0)", "n_heads: must be at least 1 (got 0)"),
        ] {
            assert_eq!(sentence(&Error::setting(name, message)), says);
        }
    }
}
