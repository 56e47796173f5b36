//! How the program spells settings.
//!
//! The library names a setting by its field (`n_ctx`) and refers to others in backticks (`` `tokenizer = char` ``). On the
//! command line the same settings are flags and positional arguments: `--n-ctx`, `--tokenizer char`, `PATH`. The spelling
//! comes from the arguments of the command that runs, so a setting is never shown under a flag that does not exist.

use byrote::Error;
use clap::{ArgMatches, Command};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What the settings of the running command are called on the command line, by field.
static SPELLING: OnceLock<Spelling> = OnceLock::new();

#[derive(Debug, Default)]
struct Spelling(BTreeMap<String, String>);

/// Remembers the arguments of the command that was typed.
pub fn learn(command: &Command, matches: &ArgMatches) {
    let _ = SPELLING.set(Spelling::new(command, matches));
}

/// An error in the words of the command line.
pub fn of_error(error: &Error) -> String {
    SPELLING.get_or_init(Spelling::default).error(error)
}

/// A note of the library in the words of the command line.
pub fn of_text(text: &str) -> String {
    SPELLING.get_or_init(Spelling::default).text(text)
}

impl Spelling {
    fn new(command: &Command, mut matches: &ArgMatches) -> Self {
        let mut spelling = Self::default();
        let mut command = command.clone();
        command.build();
        spelling.add(&command);
        while let Some((name, below)) = matches.subcommand() {
            let Some(found) = command.find_subcommand(name).cloned() else { break };
            spelling.add(&found);
            (command, matches) = (found, below);
        }
        spelling
    }

    fn add(&mut self, command: &Command) {
        for arg in command.get_arguments() {
            let spelled = match (arg.get_long(), arg.get_value_names()) {
                (Some(long), _) => format!("--{long}"),
                (None, Some([name, ..])) => name.to_string(),
                (None, _) => arg.get_id().as_str().to_uppercase(),
            };
            self.0.insert(arg.get_id().as_str().to_owned(), spelled);
        }
    }

    fn error(&self, error: &Error) -> String {
        let text = error.to_string();
        let text = match error.setting_name() {
            Some(name) => match (self.0.get(name), text.strip_prefix(name)) {
                (Some(spelled), Some(rest)) => format!("{spelled}{rest}"),
                _ => text,
            },
            None => text,
        };
        self.text(&text)
    }

    /// Settings in backticks become flags; anything else in backticks stays.
    fn text(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('`') {
            out.push_str(before);
            let spelled =
                after.split_once('`').and_then(|(name, further)| Some((self.setting(name)?, further)));
            rest = match spelled {
                Some((spelled, further)) => {
                    out.push_str(&spelled);
                    further
                }
                None => {
                    out.push('`');
                    after
                }
            };
        }
        out + rest
    }

    /// `name` or `name = value` as it is typed.
    fn setting(&self, text: &str) -> Option<String> {
        let (name, value) = match text.split_once(" = ") {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let spelled = self.0.get(name)?;
        Some(match value {
            None | Some("true") => spelled.clone(),
            Some(value) => format!("{spelled} {value}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    fn spelling(typed: &[&str]) -> Spelling {
        let command = Cli::command();
        let matches = command.clone().try_get_matches_from(typed).unwrap();
        Spelling::new(&command, &matches)
    }

    #[test]
    fn settings_are_spelled_as_they_are_typed() {
        let corpus = spelling(&["byrote", "corpus", "a.txt"]);
        let error = Error::setting("n_ctx", "must be at least 1 (got 0)");
        assert_eq!(corpus.error(&error), "--n-ctx: must be at least 1 (got 0)");
        assert_eq!(corpus.error(&Error::setting("paths", "is empty")), "PATH: is empty");
        let error =
            Error::setting("max_memory", "allow more, or use `tokenizer = char`; `lossy = true` helps");
        assert_eq!(corpus.error(&error), "--max-memory: allow more, or use --tokenizer char; --lossy helps");
    }

    #[test]
    fn what_the_command_does_not_have_stays_as_it_is() {
        let show = spelling(&["byrote", "show", "m.safetensors"]);
        let error = Error::setting("batch", "`n_ctx` and a `stray backtick");
        assert_eq!(show.error(&error), "batch: `n_ctx` and a `stray backtick");
        assert_eq!(show.text("`nothing` `seed` `"), "`nothing` --seed `");
    }
}
