//! Two audits of one text, side by side.

use super::{TextTable, shown};
use crate::audit::{AuditComparison, ComparedFigure};
use crate::report::audit_page::percent;
use crate::units::{counted, grouped};
use std::fmt::Write as _;

/// How many characters of a document's name are shown.
const NAME: usize = 28;

/// Shows what has changed from one audit to the other.
pub fn audit_comparison(compared: &AuditComparison) -> String {
    let mut out = format!("before  {}\nafter   {}\n", shown(&compared.before), shown(&compared.after));
    if !compared.different_settings.is_empty() {
        let names: Vec<String> = compared.different_settings.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(
            out,
            "The audits differ in {}: figures that depend on it cannot be compared.",
            names.join(", ")
        );
    }
    let mut texts: Vec<&str> = Vec::new();
    for figure in compared.figures.iter().filter(|figure| !figure.text.is_empty()) {
        if !texts.contains(&figure.text.as_str()) {
            texts.push(&figure.text);
        }
    }
    for text in texts {
        let mut table = TextTable::new(&[text, "before", "after", "change"], &[0]);
        for figure in compared.figures.iter().filter(|figure| figure.text == text) {
            let (name, value) = described(figure);
            let change = figure.after - figure.before;
            let sign = if change < 0.0 { "-" } else { "+" };
            let change =
                if change == 0.0 { "none".to_owned() } else { format!("{sign}{}", value(change.abs())) };
            table.row([name, value(figure.before), value(figure.after), change]);
        }
        let _ = write!(out, "\n{}", table.fitted(&[]));
    }
    let _ = writeln!(
        out,
        "\nOf {}, {} cheaper, {} dearer, {} the same within 1%.",
        counted(compared.cheaper + compared.dearer + compared.same, "distinct document"),
        are(compared.cheaper),
        are(compared.dearer),
        grouped(compared.same)
    );
    if !compared.documents.is_empty() {
        let with_windows = compared.documents.iter().any(|document| document.extractable.is_some());
        let heads = ["changed most, bits per token", "before", "after", "longest run", "extractable"];
        let mut table = TextTable::new(&heads[..if with_windows { 5 } else { 4 }], &[0]);
        for document in &compared.documents {
            let mut cells = vec![
                end(&shown(&document.name)),
                format!("{:.3}", document.before),
                format!("{:.3}", document.after),
                arrow(document.longest_run.0 as u64, document.longest_run.1 as u64),
            ];
            if with_windows {
                cells.push(document.extractable.map_or_else(String::new, |(a, b)| arrow(a, b)));
            }
            table.row(cells);
        }
        let _ = write!(out, "\n{}", table.fitted(&[3]));
    }
    out
}

/// A figure's name with its unit, and how its values are written.
fn described(figure: &ComparedFigure) -> (String, fn(f64) -> String) {
    let plain: fn(f64) -> String = |x| format!("{x:.3}");
    let count: fn(f64) -> String = |x| grouped(x as u64);
    match figure.measure.as_str() {
        "bits_per_byte" => ("bits per byte".into(), plain),
        "bits_per_token" => ("bits per token".into(), plain),
        "zlib_ratio" => ("bits / bits of zlib".into(), plain),
        "token_hits" => ("tokens predicted right".into(), percent),
        "fresh_token_hits" => ("fresh tokens predicted right".into(), percent),
        "longest run, tokens" => ("longest run (tokens)".into(), count),
        share if share.starts_with("extractable") || share.starts_with("p_z") => {
            (format!("windows {share}"), percent)
        }
        other => (other.to_owned(), plain),
    }
}

fn are(n: u64) -> String {
    format!("{} {}", grouped(n), if n == 1 { "is" } else { "are" })
}

fn arrow(before: u64, after: u64) -> String {
    format!("{} -> {}", grouped(before), grouped(after))
}

/// The end of a long name, where documents of one directory differ.
fn end(name: &str) -> String {
    let n = name.chars().count();
    match n > NAME {
        true => format!("...{}", name.chars().skip(n + 3 - NAME).collect::<String>()),
        false => name.to_owned(),
    }
}
