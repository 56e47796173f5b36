//! The part of an address behind the question mark.

use byrote::{Error, Result};
use serde_json::{Map, Value};

/// Names and values, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=1&b=x%20y`. Bytes that are not UTF-8 are replaced.
    pub fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        };
        Self(text.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The value of a name that must be there.
    pub fn required(&self, name: &'static str) -> Result<&str> {
        self.get(name).ok_or_else(|| Error::setting(name, "is missing from the address"))
    }

    /// A whole number.
    pub fn number(&self, name: &'static str) -> Result<Option<u64>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number =
            text.parse().map_err(|_| Error::setting(name, format!("must be a whole number (got {text})")))?;
        Ok(Some(number))
    }

    /// Token ids, separated by commas; none if there are none.
    pub fn tokens(&self, name: &'static str) -> Result<Option<Vec<u32>>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let ids = text.split(',').filter(|id| !id.is_empty());
        let ids = ids.map(|id| {
            id.trim().parse().map_err(|_| Error::setting(name, format!("{id:?} is not a token id")))
        });
        ids.collect::<Result<_>>().map(Some)
    }

    /// Everything but some names as settings: numbers and truth values as such, everything else as text. Empty values are left
    /// out.
    pub fn settings(&self, but: &[&str]) -> Map<String, Value> {
        let pairs = self.0.iter().filter(|(name, value)| !but.contains(&name.as_str()) && !value.is_empty());
        pairs.map(|(name, value)| (name.clone(), setting(value))).collect()
    }
}

/// A value that was typed: a number or a truth value as such, everything else as text.
pub fn setting(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

/// Text with `%41` and `+` decoded.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                match (digit(ahead.next()), digit(ahead.next())) {
                    (Some(high), Some(low)) => {
                        bytes.push((16 * high + low) as u8);
                        rest = ahead;
                    }
                    _ => bytes.push(b'%'),
                }
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_decoded_and_odd_ones_are_kept() {
        let query = Query::parse("text=a%20b+c%C3%A9&n=7&empty=&flag&bad=%zz%4");
        assert_eq!(query.get("text"), Some("a b cé"));
        assert_eq!(query.number("n").unwrap(), Some(7));
        assert_eq!((query.get("flag"), query.get("none"), query.get("bad")), (Some(""), None, Some("%zz%4")));
        assert_eq!(query.number("text").unwrap_err().setting_name(), Some("text"));
        assert_eq!(Query::parse("t=1,2,,3").tokens("t").unwrap(), Some(vec![1, 2, 3]));
        assert!(Query::parse("t=1,x").tokens("t").is_err());
    }

    #[test]
    fn settings_are_numbers_where_they_look_like_numbers() {
        let found = Query::parse("id=3&d_mlp=64&skip=true&preset=gpt2&lr=1e-3&none=").settings(&["id"]);
        assert_eq!(Value::Object(found), json!({"d_mlp": 64, "skip": true, "preset": "gpt2", "lr": 1e-3}));
    }
}
