//! The longest runs of tokens that are each the most likely one, as text.

use super::document_name;
use crate::audit::{Audit, TextRun};
use crate::report::numbers::thousands;
use crate::units::counted;
use byrote_figures::html::{Cell, Column, Prose, Section, Table};

/// How many runs a table has; `audit.json` has more.
const ROWS: usize = 8;
/// The most characters of a run.
const LONGEST: usize = 600;

/// The longest runs, all and fresh; none if it is not known which token is the most likely one.
pub(super) fn section(audit: &Audit) -> Option<Section> {
    let text = &audit.text;
    if text.longest_runs.is_empty() {
        return None;
    }
    let fresh = audit.settings.fresh > 0;
    let mut about = "A *run* is consecutive tokens that are each the most likely one, given the true text before them: greedy \
                     decoding that starts there repeats the run."
        .to_owned();
    if fresh {
        about += &format!(
            " A model that has memorized nothing still copies what its context repeats, so *fresh* runs hold no token that ends \
             {} seen before in the same document.",
            counted(audit.settings.fresh as u64, "token")
        );
    }
    if let Some(held_out) = &audit.held_out {
        let longest = |runs: &[TextRun]| runs.first().map_or(0, |run| run.tokens as u64);
        about += &format!(
            " On the held-out text the longest run has {}",
            counted(longest(&held_out.longest_runs), "token")
        );
        about += &match fresh {
            true => format!(", the longest fresh one {}.", thousands(longest(&held_out.longest_fresh_runs))),
            false => ".".to_owned(),
        };
    }
    let mut section = Section::new("The longest runs").anchor("runs").paragraph(Prose::parse(&about));
    if fresh && !text.longest_fresh_runs.is_empty() {
        section =
            section.table(table(audit, "The longest fresh runs, equal ones once.", &text.longest_fresh_runs));
    }
    Some(section.table(table(audit, "The longest runs, copied or not, equal ones once.", &text.longest_runs)))
}

fn table(audit: &Audit, caption: &str, runs: &[TextRun]) -> Table {
    let with_text = runs.iter().any(|run| run.text.is_some());
    let mut columns = vec![Column::right("tokens"), Column::left("document"), Column::right("from token")];
    columns.extend(with_text.then(|| Column::left("text")));
    let mut table = Table::new(caption, columns);
    // A passage of several documents is one find.
    let is_new =
        |i: &usize| runs[*i].text.is_none() || runs[..*i].iter().all(|other| other.text != runs[*i].text);
    for run in (0..runs.len()).filter(is_new).take(ROWS).map(|i| &runs[i]) {
        let mut cells: Vec<Cell> = vec![
            thousands(run.tokens as u64).into(),
            document_name(audit, run.document).into(),
            thousands(run.token as u64).into(),
        ];
        if with_text {
            let text = run.text.as_deref().unwrap_or_default();
            cells.push(Prose::new().quote(shown(text)).into());
        }
        table = table.row(cells);
    }
    table
}

/// A text on one line, with visible line ends, and without its middle if it is long.
pub(super) fn shown(text: &str) -> String {
    let line: Vec<char> = text.replace("\r\n", "\u{21b5}").replace('\n', "\u{21b5}").chars().collect();
    if line.len() <= LONGEST {
        return crate::report::numbers::visible(&line.into_iter().collect::<String>());
    }
    let (start, end) = (&line[..LONGEST / 2], &line[line.len() - LONGEST / 2..]);
    format!("{} \u{2026} {}", start.iter().collect::<String>(), end.iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_visible_and_long_runs_lose_their_middle() {
        assert_eq!(shown("a\r\nb\nc"), "a\u{21b5}b\u{21b5}c");
        assert_eq!(shown("  "), "\u{2420}\u{2420}");
        let long = shown(&format!("{}{}", "a".repeat(500), "é".repeat(500)));
        assert_eq!(long.chars().count(), 603);
        assert!(long.starts_with("aaa") && long.ends_with("ééé"));
    }
}
