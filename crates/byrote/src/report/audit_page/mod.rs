//! The report of an audit: what a language model has memorized of a text, measure by measure.
//!
//! A page is made of the saved audit and of the saved passages of its text, so it can be drawn again from its directory. A section
//! without data is left out: an audit of log-probabilities that were computed elsewhere has no windows run alone, one without a
//! held-out text has no control, one that must not show text shows none.

mod answer;
mod capacity;
mod control;
mod documents;
mod gap;
mod margins;
mod marked_text;
mod measures;
mod recall;
mod repetition;
mod runs;
mod sampling;
mod windows;

use super::numbers::references;
use super::{new_page, write};
use crate::audit::{Audit, Audited, DocumentAudit, Passages, TextAudit, WindowFigures};
use crate::input::{MOST_HELD, read_text_capped};
use crate::output::OutputFile;
use crate::{Error, Result};
use byrote_figures::Palette;
use byrote_figures::html::{Cell, Page, Prose, Section};
use std::path::{Path, PathBuf};

/// The file that keeps the command, so that the page can be drawn again.
const COMMAND: &str = "command.txt";

/// Figures that not every audit has.
const FIGURES: [&str; 8] =
    ["decoding", "p-z", "frontier", "recall", "gap-by-length", "documents-by-bits", "duplicates", "canaries"];

/// Draws the report of an audit into its directory; `command` is what made it. Returns the path of the page.
pub fn audit_page(audited: &Audited, command: &str, directory: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "create", e))?;
    OutputFile::write(&directory.join(COMMAND), format!("{command}\n").as_bytes())?;
    drawn(&audited.audit, Passages::new(audited).as_ref(), command, directory)
}

/// Draws the report of an audit again, from what its directory holds. Returns the audit and the path of the page.
pub(super) fn again(directory: &Path) -> Result<(Audit, PathBuf)> {
    if directory.is_dir() && !directory.join(Audit::FILE).exists() {
        return Err(Error::format(directory, "the audit is not complete: run its command again to resume"));
    }
    let audit = Audit::load(directory)?;
    let passages = Passages::load(directory)?.filter(|_| !audit.settings.no_text);
    let path = directory.join(COMMAND);
    let command = match path.exists() {
        true => read_text_capped(&path, MOST_HELD, "a command")?,
        false => String::new(),
    };
    let report = drawn(&audit, passages.as_ref(), command.trim_end(), directory)?;
    Ok((audit, report))
}

fn drawn(audit: &Audit, passages: Option<&Passages>, command: &str, directory: &Path) -> Result<PathBuf> {
    let page = page(audit, passages, command);
    let report = write(directory, &page)?;
    for name in FIGURES.iter().filter(|name| page.exhibits().iter().all(|(n, _)| n != **name)) {
        for ending in ["svg", "png", "csv"] {
            // A figure of an earlier audit in this directory would pass for one of this audit.
            let _ = std::fs::remove_file(directory.join("figures").join(format!("{name}.{ending}")));
        }
    }
    Ok(report)
}

/// The page of an audit; an empty command is left out.
pub fn page(audit: &Audit, passages: Option<&Passages>, command: &str) -> Page {
    let title = Prose::new().text("What has ").name(model_name(audit)).text(" memorized?");
    let page = new_page(title).subtitle(
        Prose::new()
            .text("An audit of ")
            .name(text_name(&audit.text))
            .text(": what decoding and sampling repeat of it, what it costs in bits, and how far that is from the lowest possible."),
    );
    let sections: [Option<Section>; 14] = [
        Some(answer::answer(audit)),
        Some(answer::audited(audit)),
        marked_text::section(audit, passages),
        runs::section(audit),
        windows::section(audit),
        sampling::section(audit),
        recall::section(audit),
        gap::section(audit, passages),
        control::section(audit),
        repetition::duplicates(audit),
        repetition::canaries(audit),
        capacity::section(audit),
        documents::section(audit),
        margins::section(audit),
    ];
    let page = sections.into_iter().flatten().fold(page, Page::section).section(measures::section(audit));
    let page = settings(audit).into_iter().fold(page, |page, (name, value)| page.setting(name, value));
    let page = match command.is_empty() {
        true => page,
        false => page.command(command),
    };
    references(&measures::sources(audit)).into_iter().fold(page, Page::reference)
}

/// The settings with their values, in their order.
fn settings(audit: &Audit) -> Vec<(String, String)> {
    let mut all = vec![("version".to_owned(), audit.version.clone())];
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(&audit.settings) {
        all.extend(fields.into_iter().map(|(name, value)| match value {
            serde_json::Value::Null => (name, "none".to_owned()),
            serde_json::Value::String(text) => (name, text),
            other => (name, other.to_string()),
        }));
    }
    all
}

/// The last part of the model's path.
fn model_name(audit: &Audit) -> String {
    let path = &audit.model.path;
    Path::new(path).file_name().map_or_else(|| path.clone(), |name| name.to_string_lossy().into_owned())
}

/// The files of a text, by the names of its documents.
fn text_name(text: &TextAudit) -> String {
    let file = |document: &DocumentAudit| -> String {
        // "file:line", and " token n" after it for a block of tokens.
        let place = document.name.rsplit_once(':').map_or(document.name.as_str(), |(path, _)| path);
        Path::new(place)
            .file_name()
            .map_or_else(|| place.to_owned(), |name| name.to_string_lossy().into_owned())
    };
    let mut files: Vec<String> = Vec::new();
    for document in &text.documents {
        let name = file(document);
        // Documents of one file follow each other.
        if files.last() != Some(&name) {
            files.push(name);
        }
    }
    match files.as_slice() {
        [] => "a text".into(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, rest @ ..] => format!("{one} and {} other files", rest.len()),
    }
}

/// The colours of the series: the floor in ink, because it is not a measurement of the model.
fn colours() -> Palette {
    Palette::for_keys(["corpus", "held-out"]).in_ink(["floor"])
}

/// The corpus and, if there is one, the held-out text, with the key of their series.
fn texts(audit: &Audit) -> impl Iterator<Item = (&'static str, &TextAudit)> {
    [("corpus", Some(&audit.text)), ("held-out", audit.held_out.as_ref())]
        .into_iter()
        .filter_map(|(key, text)| Some((key, text?)))
}

/// Windows of one kind, in the corpus and in the held-out text.
struct WindowSet<'a> {
    /// What the windows are given, and which ones they are.
    name: &'static str,
    corpus: &'a WindowFigures,
    held_out: Option<&'a WindowFigures>,
}

impl<'a> WindowSet<'a> {
    /// All kinds of windows that the corpus has, the most telling first.
    fn all(audit: &'a Audit) -> Vec<Self> {
        type Of = fn(&TextAudit) -> Option<&WindowFigures>;
        let kinds: [(&'static str, Of); 3] = [
            ("alone", |text| text.windows.as_ref()),
            ("in document", |text| text.document_context.as_ref().map(|context| &context.all)),
            ("in document, fresh", |text| text.document_context.as_ref()?.fresh.as_ref()),
        ];
        let held_out = audit.held_out.as_ref();
        kinds
            .into_iter()
            .filter_map(|(name, of)| {
                let corpus = of(&audit.text).filter(|figures| figures.count > 0)?;
                let held_out = held_out.and_then(of).filter(|figures| figures.count > 0);
                Some(Self { name, corpus, held_out })
            })
            .collect()
    }

    /// The kind in a sentence: "windows ...".
    fn in_words(&self) -> &'static str {
        match self.name {
            "alone" => "run alone",
            "in document" => "in their document",
            _ => "in their document without copyable positions",
        }
    }

    /// The windows of both texts, with the key of their series.
    fn sides(&self) -> impl Iterator<Item = (&'static str, &'a WindowFigures)> {
        [("corpus", Some(self.corpus)), ("held-out", self.held_out)]
            .into_iter()
            .filter_map(|(key, figures)| Some((key, figures?)))
    }
}

/// A share in percent, with as many digits as say something.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent.abs() {
        0.0 => "0%".into(),
        p if p >= 1.0 || !p.is_finite() => format!("{percent:.1}%"),
        p if p >= 0.01 => format!("{percent:.2}%"),
        p if p >= 1e-4 => format!("{percent:.4}%"),
        _ => format!("{percent:.1e}%"),
    }
}

/// A cell that may be empty.
fn cell(text: Option<String>) -> Cell {
    text.map_or_else(Cell::none, Cell::from)
}

/// The name of a document, by its number, without the directory that all documents share.
fn document_name(audit: &Audit, document: usize) -> String {
    match audit.text.documents.get(document) {
        Some(found) => found.name[directory(&audit.text).len()..].to_owned(),
        None => format!("document {document}"),
    }
}

/// The directory that all documents of a text share, with the slash behind it.
fn directory(text: &TextAudit) -> &str {
    let above = |name: &'_ str| name.trim_end_matches('/').rfind('/').map_or(0, |slash| slash + 1);
    let Some(first) = text.documents.first() else { return "" };
    let mut shared = &first.name[..above(&first.name)];
    for document in &text.documents {
        while !document.name.starts_with(shared) {
            shared = &shared[..above(shared)];
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_as_many_digits_as_say_something() {
        let shares = [0.0, 1.0, 0.1234, 0.0042, 0.000_31, 9.6e-5, 3e-7, -0.02];
        let written = ["0%", "100.0%", "12.3%", "0.42%", "0.03%", "0.0096%", "3.0e-5%", "-2.0%"];
        assert_eq!(shares.map(percent), written);
    }
}
