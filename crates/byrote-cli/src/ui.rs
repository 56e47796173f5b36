//! What is shown: tables for people, JSON for programs, errors for both.

use crate::args::Common;
use crate::{interrupt, progress, spelling};
use byrote::Error;
pub use byrote::units::grouped as thousands;
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output has been written to: an interrupt must not add a second JSON object.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Prints on standard output, with control characters escaped. A reader that has gone away (`| head`) is not an error.
pub fn print(text: &str) -> byrote::Result<()> {
    print_lines(&fitted(&escaped(text), &io::stdout()))
}

/// Prints lines as they are.
fn print_lines(text: &str) -> byrote::Result<()> {
    PRINTED.store(true, Ordering::SeqCst);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output", "write", e)),
        _ => Ok(()),
    }
}

/// Prints one JSON object.
pub fn print_json(value: &impl Serialize) -> byrote::Result<()> {
    // Not by way of a `Value`, which takes several times the memory.
    let text = serde_json::to_string_pretty(value);
    let mut text = text.map_err(|e| Error::io("standard output", "write", e.into()))?;
    text.push('\n');
    print_lines(&escaped(&text))
}

/// Shows a result: as a JSON object if `json` asks for one, otherwise as text.
pub fn show<J: Serialize>(
    common: &Common,
    json: impl FnOnce() -> J,
    text: impl FnOnce() -> String,
) -> byrote::Result<()> {
    if common.json { print_json(&json()) } else { print(&text()) }
}

/// Notes the files that were written.
pub fn wrote<'a>(common: &Common, paths: impl IntoIterator<Item = &'a PathBuf>) {
    for path in paths {
        note(common.quiet, &format!("wrote {}", path.display()));
    }
}

/// A note on standard error, unless `quiet`.
pub fn note(quiet: bool, text: &str) {
    if !quiet {
        progress::clear_line();
        let _ = writeln!(io::stderr(), "{}", fitted(&escaped(text), &io::stderr()));
    }
}

/// Shows an error in one line; returns the exit code.
pub fn report_error(error: &Error, json: bool) -> ExitCode {
    let interrupted = matches!(error, Error::Interrupted);
    let line = one_line(&escaped(&with_short_numbers(&spelling::of_error(error))));
    note(false, &format!("byrote: {line}"));
    if json {
        let object = json!({"error": {
            "kind": error.kind(),
            "message": line,
            "path": error.path().map(|p| p.to_string_lossy()),
            "line": error.line(),
        }});
        let _ = print_json(&object);
    }
    ExitCode::from(if interrupted { interrupt::EXIT_CODE } else { 2 })
}

/// Shows that the program was interrupted, unless it has shown its result already.
pub fn report_interrupt(json: bool) {
    if !PRINTED.load(Ordering::SeqCst) {
        report_error(&Error::Interrupted, json);
    }
}

/// Shows a panic, which is a bug of this program.
pub fn report_bug(panic: &str, json: bool) -> ExitCode {
    let line = format!("a bug in byrote, please report it: {}", one_line(panic));
    let _ = writeln!(io::stderr(), "byrote: {line}");
    if json {
        let _ = print_json(&json!({"error": {"kind": "bug", "message": line, "path": null, "line": null}}));
    }
    ExitCode::from(2)
}

/// Shows what clap says about wrong arguments, in one line; help and version are not errors.
pub fn usage_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let text = error.to_string();
    let what =
        text.lines().take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more information"));
    let line = one_line(&what.collect::<Vec<_>>().join(" "));
    let line = line.strip_prefix("error: ").unwrap_or(&line).replace(" tip: ", "; ");
    let line = byrote::setting::in_words(&line);
    let _ = writeln!(io::stderr(), "byrote: {line} (see --help)");
    if std::env::args_os().any(|a| a == "--json") {
        let _ = print_json(&json!({"error": {"kind": "usage", "message": line, "path": null, "line": null}}));
    }
    ExitCode::from(2)
}

/// Text for a terminal: file names and tokens may hold control characters, which could move the cursor or change colours.
/// They are escaped; line ends and tabs are kept.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && !matches!(c, '\n' | '\t') {
            true => out.extend(c.escape_debug()),
            false => out.push(c),
        }
    }
    out
}

/// Text as it is shown there: on a terminal, lines longer than its width are broken between words. A pipe or a file gets the
/// lines as they are.
#[cfg(unix)]
fn fitted(text: &str, to: &(impl io::IsTerminal + std::os::fd::AsFd)) -> String {
    match terminal_size::terminal_size_of(to).filter(|_| to.is_terminal()) {
        Some((width, _)) => wrapped(text, usize::from(width.0)),
        None => text.to_owned(),
    }
}

#[cfg(not(unix))]
fn fitted(text: &str, _: &impl io::IsTerminal) -> String {
    text.to_owned()
}

/// Breaks lines longer than `width` between words. A row of a table is broken only within its last column, where the rest
/// stays, and not at all if that column is narrow.
fn wrapped(text: &str, width: usize) -> String {
    let line = |line: &str| {
        if line.chars().count() <= width {
            return line.to_owned();
        }
        let column = line.trim_end().rfind("  ").map_or(0, |at| line[..at].chars().count() + 2);
        let is_row = line.trim().contains("  ");
        if is_row && 2 * column >= width {
            return line.to_owned();
        }
        let indent = if 2 * column < width { column } else { 2.min(width / 4) };
        let mut lines = vec![String::new()];
        let mut length = 0;
        // Spaces that align columns belong to the word that follows them.
        for word in line.split_inclusive(' ') {
            let (bare, full) = (word.trim_end_matches(' ').chars().count(), word.chars().count());
            if length + bare > width && length > indent && bare > 0 {
                lines.push(" ".repeat(indent));
                length = indent;
            }
            if let Some(last) = lines.last_mut() {
                last.push_str(word);
            }
            length += full;
        }
        lines.iter().map(|l| l.trim_end()).collect::<Vec<_>>().join("\n")
    };
    let mut out = text.lines().map(line).collect::<Vec<_>>().join("\n");
    if text.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Numbers of hundreds of digits, as `f64` prints 1e300, in scientific notation.
fn with_short_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        let (number, after) = number.split_at(end);
        out.push_str(before);
        match number.parse::<f64>() {
            Ok(x) if number.len() > 24 => out.push_str(&format!("{x:e}")),
            _ => out.push_str(number),
        }
        rest = after;
    }
    out + rest
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_shortened() {
        let text = format!("must be above 0 (got {}), 0.25 or 12.", -1e300);
        assert_eq!(with_short_numbers(&text), "must be above 0 (got -1e300), 0.25 or 12.");
        assert_eq!(with_short_numbers(&format!("{}", 1.5e-200)), "1.5e-200");
    }

    #[test]
    fn long_lines_are_broken_between_words_and_stay_in_their_column() {
        let text = "stop   reached  the gap asked for is reached\nsteps      1,234  few\n";
        let expect = "stop   reached  the gap asked for\n                is reached\nsteps      1,234  few\n";
        assert_eq!(wrapped(text, 34), expect);
        assert_eq!(wrapped(text, 80), text);
        assert_eq!(wrapped("no width came within the floor", 12), "no width\ncame within\nthe floor");
        let row = "madden2024-lemma1  distribution  at least 62,008";
        assert_eq!(wrapped(row, 40), row, "a row of a table is not broken");
        let long = "a".repeat(30);
        assert_eq!(wrapped(&long, 10), long, "a word that is too long is left to the terminal");
        for width in 1..60 {
            let words = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&wrapped(text, width)), words(text));
        }
    }

    #[test]
    fn control_characters_are_escaped_and_lines_are_kept() {
        assert_eq!(escaped("a\u{1b}[31m\tb\r\n\u{9b}c"), "a\\u{1b}[31m\tb\\r\n\\u{9b}c");
    }
}
