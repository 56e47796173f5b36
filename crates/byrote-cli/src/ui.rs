//! What is shown: tables for people, JSON for programs, errors for both.

use crate::{interrupt, progress, spelling};
use byrote::Error;
pub use byrote::units::{grouped as thousands, grouped_number as thousands_f64};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output has been written to: an interrupt must not add a second JSON object.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Prints on standard output, with control characters escaped. A reader that has gone away (`| head`) is not an error.
pub fn print(text: &str) -> byrote::Result<()> {
    PRINTED.store(true, Ordering::SeqCst);
    let text = escaped(text);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output", "write", e)),
        _ => Ok(()),
    }
}

/// Prints one JSON object.
pub fn print_json(value: &Value) -> byrote::Result<()> {
    print(&format!("{value:#}\n"))
}

/// A note on standard error, unless `quiet`.
pub fn note(quiet: bool, text: &str) {
    if !quiet {
        progress::clear_line();
        let _ = writeln!(io::stderr(), "{}", escaped(text));
    }
}

/// Shows an error, a line a cause, and gives the exit code.
pub fn report_error(error: &Error, json: bool) -> ExitCode {
    let interrupted = matches!(error, Error::Interrupted);
    let line = one_line(&escaped(&spelling::of_error(error)));
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

/// Shows what clap says of wrong arguments, in one line; help and version are no errors.
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
    let _ = writeln!(io::stderr(), "byrote: {line} (see --help)");
    if std::env::args_os().any(|a| a == "--json") {
        let _ = print_json(&json!({"error": {"kind": "usage", "message": line, "path": null, "line": null}}));
    }
    ExitCode::from(2)
}

/// A text in a table: what would break the line or the terminal is escaped, everything else is as it is.
pub fn shown(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c.is_control() {
            true => c.escape_debug().collect::<Vec<_>>(),
            false => vec![c],
        })
        .collect()
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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A table of aligned columns: the first to the left, the others to the right, unless `left` says otherwise.
pub struct Table {
    rows: Vec<Vec<String>>,
    left: Vec<usize>,
}

impl Table {
    pub fn new(heads: &[&str], left: &[usize]) -> Self {
        Self { rows: vec![heads.iter().map(|&h| h.to_owned()).collect()], left: left.to_vec() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                let cell =
                    if self.left.contains(&c) { format!("{cell}{pad}") } else { format!("{pad}{cell}") };
                line.push_str(if c == 0 { "" } else { "  " });
                line.push_str(&cell);
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// 75 seconds as 1m15s.
pub fn duration(seconds: f64) -> String {
    let s = seconds.min(1e9) as u64;
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_lines_are_kept() {
        assert_eq!(escaped("a\u{1b}[31m\tb\r\n\u{9b}c"), "a\\u{1b}[31m\tb\\r\n\\u{9b}c");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!([5.9, 75.0, 3725.0].map(duration), ["5s", "1m15s", "1h02m"]);
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(thousands_f64(-218851.00176, 4), "-218,851.0018");
        assert_eq!(thousands_f64(0.5, 0), "0");
    }

    #[test]
    fn tables_align() {
        let mut table = Table::new(&["name", "n"], &[0]);
        table.row(vec!["a".into(), "1,000".into()]);
        table.row(vec!["long".into(), "1".into()]);
        assert_eq!(table.render(), "name      n\na     1,000\nlong      1\n");
    }
}
