//! What is wrong with what a person typed into a field, as that person would say it.

use byrote::Error;
use serde_json::{Map, Value, json};

/// An error of a parser about one setting, which speaks of types, in the words of the page: "must be a whole number of at least 1 (got
/// abc)". Which numbers are allowed is found by asking for 0: `check` makes every check of the settings. Any other error is as it was.
pub fn reworded(
    error: Error,
    given: &Map<String, Value>,
    check: impl Fn(&Map<String, Value>) -> Option<Error>,
) -> Error {
    let Error::Setting { name, message } = &error else { return error };
    let Some((_, expected)) = message.rsplit_once("expected ").filter(|_| message.starts_with("invalid "))
    else {
        return error;
    };
    let range = || {
        let mut with_zero = given.clone();
        with_zero.insert((*name).to_owned(), json!(0));
        match check(&with_zero)? {
            Error::Setting { name: own, message } if own == *name => {
                let (range, _) = message.strip_prefix("must be ")?.split_once(" (got 0)")?;
                range.starts_with(['a', 'f']).then(|| range.replacen("at least", "of at least", 1))
            }
            _ => None,
        }
    };
    let kind = match expected.strip_prefix("a whole number ") {
        Some(types) => format!("a whole number {}", range().unwrap_or_else(|| types.to_owned())),
        None if ["a number", "true or false"].contains(&expected) => expected.to_owned(),
        None => return error,
    };
    let got = given.get(*name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    Error::setting(name, format!("must be {kind} (got {})", got.unwrap_or_default()))
}

/// The help of a setting of the command line, for a field: without the names of values and with those of settings, "Stop after this
/// many steps" and `schedule` instead of `--schedule`.
pub fn help(text: &str, value: &str) -> String {
    let word = |word: &str| match word.strip_prefix("--") {
        Some(name) => name.replace('-', "_"),
        None if word == value && value.len() == 1 => "this many".to_owned(),
        None => word.to_owned(),
    };
    let text = text.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.replace("after every this many steps", "each time this many steps are done")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_says_which_numbers_it_takes() {
        let reword = |given: Value, message: &str, at_zero: Option<&str>| {
            let given = Map::from_iter([("d_model".to_owned(), given)]);
            let check = |_: &Map<String, Value>| at_zero.map(|message| Error::setting("d_model", message));
            reworded(Error::setting("d_model", message), &given, check).to_string()
        };
        let wrong = "invalid type: string \"abc\", expected a whole number of at least 0";
        for (at_zero, says) in [
            (None, "d_model: must be a whole number of at least 0 (got abc)"),
            (Some("must be at least 1 (got 0)"), "d_model: must be a whole number of at least 1 (got abc)"),
            (Some("must be from 1 to 9 (got 0)"), "d_model: must be a whole number from 1 to 9 (got abc)"),
            (
                Some("must be at least 1 (got 0); `hidden = absent` leaves it out"),
                "d_model: must be a whole number of at least 1 (got abc)",
            ),
            (Some("has no heads"), "d_model: must be a whole number of at least 0 (got abc)"),
        ] {
            assert_eq!(reword(json!("abc"), wrong, at_zero), says);
        }
        let negative = "invalid value: integer `-5`, expected a whole number of at least 0";
        assert!(reword(json!(-5), negative, None).ends_with("(got -5)"));
        assert_eq!(
            reword(json!("x"), "invalid type: string \"x\", expected a number", None),
            "d_model: must be a number (got x)"
        );
        assert_eq!(reword(json!(0), "must be even", None), "d_model: must be even");
    }

    #[test]
    fn help_speaks_of_fields() {
        assert_eq!(help("Stop after N steps; 0 is none", "N"), "Stop after this many steps; 0 is none");
        assert_eq!(
            help("with --schedule linear-epochs, the rate falls after every N steps", "N"),
            "with schedule linear-epochs, the rate falls each time this many steps are done"
        );
        assert_eq!(help("Width of the residual stream", "D"), "Width of the residual stream");
    }
}
