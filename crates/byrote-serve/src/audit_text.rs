//! The text of a document of an audit, in pieces that are marked alike, with the numbers of its tokens.
//!
//! An audit keeps the most memorized passages as text (`passages.json`), what can be extracted of every document (`strip.csv`) and what
//! the model said of every token (`positions.csv`), but not the text itself. If the text was named on the command line too, whole
//! documents are shown; otherwise the passages. The text is split into documents as the audit did, whatever the rule of the
//! corpus that is served: by that rule, the document begins in the line and has the length that the audit says.

use crate::places::Place;
use crate::state::State;
use byrote::audit::{
    Audit, DocumentAudit, MARKED_STEPS, MarkedPassage, MarkedStretch, POSITIONS_FILE, Passages,
};
use byrote::corpus::{CorpusSpec, DocumentBody, DocumentRule, whole_documents};
use byrote::observe::Silent;
use byrote::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// The most bytes of text, or of a table, that are searched for a document.
const MOST_BYTES: u64 = 256 << 20;
/// The most characters of a document that are sent.
const MOST_CHARACTERS: usize = 100_000;

/// What can be read: `all` documents, or a list of those with passages.
pub fn readable(state: &State, audit: &Audit, passages: Option<&Passages>) -> Value {
    if audit.text.documents.first().is_some_and(|document| text(state, document).is_some()) {
        return json!("all");
    }
    let documents: BTreeSet<usize> = passages.iter().flat_map(|p| &p.documents).map(|d| d.document).collect();
    json!(documents)
}

/// The text of a document of the audit, if its file was named on the command line.
fn text(state: &State, document: &DocumentAudit) -> Option<String> {
    let (path, line) = document.name.rsplit_once(':')?;
    let line: u64 = line.parse().ok()?;
    let sought = std::fs::canonicalize(path).ok()?;
    let spec = &state.places.corpus;
    let inputs = spec.inputs();
    let own = inputs.iter().find(|input| std::fs::canonicalize(input).is_ok_and(|real| real == sought))?;
    if own.metadata().map_or(0, |m| m.len()) > MOST_BYTES {
        return None;
    }
    let mut spec = spec.clone();
    spec.paths = vec![own.clone()];
    let found = |spec: &CorpusSpec| {
        let documents = whole_documents(spec, &Silent).ok()?;
        let found = documents.into_iter().find(|document| document.line == line)?;
        match found.body {
            DocumentBody::Text(text) => Some(text).filter(|text| text.len() as u64 == document.bytes),
            DocumentBody::Ids(_) => None,
        }
    };
    found(&spec).or_else(|| {
        // The parts of a text that are served need not be those that were audited.
        (spec.limit, spec.split, spec.shard) = (None, None, None);
        let mut other = |rule| {
            spec.documents = Some(rule);
            found(&spec)
        };
        [DocumentRule::Line, DocumentRule::BlankLine, DocumentRule::File].into_iter().find_map(&mut other)
    })
}

/// A document, marked.
pub fn marked(state: &State, place: &Place, audit: &Audit, number: usize) -> Result<Value> {
    let positions =
        place.file(POSITIONS_FILE).map_or_else(|| Ok(Vec::new()), |path| positions(&path, number))?;
    let whole = text(state, &audit.text.documents[number]);
    let strip = place.file("strip.csv").map_or_else(|| Ok(Vec::new()), |path| strip(&path, number))?;
    let covered = |text: &String| strip.last().is_none_or(|stretch| stretch.end == text.len());
    let (passages, is_whole) = match whole.filter(covered) {
        Some(text) => (vec![passage(&text, &strip)], true),
        None => {
            let found = Passages::load(&place.path)?.unwrap_or_default();
            let own = found.documents.into_iter().find(|document| document.document == number);
            let own = own.ok_or_else(|| {
                let message =
                    "the audit keeps no text of this document; name the text on the command line to read it";
                Error::setting("document", message)
            })?;
            (own.passages, false)
        }
    };
    let shown = passages.iter().map(|passage| {
        let range = passage.character..passage.character + passage.characters();
        let tokens = positions.iter().filter(|p| p.start >= range.start && p.end <= range.end);
        let tokens = tokens.map(|p| json!([p.start, p.end, p.ln_p, p.rank, p.entropy_nats]));
        let stretches = passage.stretches.iter().map(|stretch| {
            json!({"text": stretch.text, "step": stretch.step(), "p_z_at_least": stretch.p_z_at_least,
                   "extractable": stretch.extractable})
        });
        json!({"character": passage.character, "stretches": stretches.collect::<Vec<_>>(), "tokens": tokens.collect::<Vec<_>>()})
    });
    Ok(json!({"whole": is_whole, "steps": MARKED_STEPS, "passages": shown.collect::<Vec<_>>()}))
}

/// A stretch of bytes that are covered alike.
struct Covered {
    start: usize,
    end: usize,
    p_z: f64,
    extractable: bool,
}

/// A token that was scored.
struct Position {
    start: u64,
    end: u64,
    ln_p: f64,
    rank: Option<u64>,
    entropy_nats: Option<f64>,
}

/// The rows of a table that belong to a document.
fn rows(path: &Path, document: usize) -> Result<Vec<csv::StringRecord>> {
    let size = path.metadata().map_or(0, |m| m.len());
    if size > MOST_BYTES {
        return Err(Error::format(path, "is too large to be shown"));
    }
    let fail = |e: csv::Error| Error::format(path, e.to_string());
    let mut reader = csv::Reader::from_path(path).map_err(fail)?;
    let number = document.to_string();
    let own =
        |row: &csv::Result<csv::StringRecord>| row.as_ref().map_or(true, |row| row.get(0) == Some(&number));
    reader.records().filter(own).collect::<csv::Result<_>>().map_err(fail)
}

fn strip(path: &Path, document: usize) -> Result<Vec<Covered>> {
    let row = |row: &csv::StringRecord| {
        Some(Covered {
            start: row.get(1)?.parse().ok()?,
            end: row.get(2)?.parse().ok()?,
            p_z: row.get(3)?.parse().ok()?,
            extractable: row.get(4)? == "1",
        })
    };
    let found = rows(path, document)?.iter().map(row).collect::<Option<_>>();
    found.ok_or_else(|| Error::format(path, "is not a table of stretches"))
}

fn positions(path: &Path, document: usize) -> Result<Vec<Position>> {
    let row = |row: &csv::StringRecord| {
        Some(Position {
            start: row.get(1)?.parse().ok()?,
            end: row.get(2)?.parse().ok()?,
            ln_p: row.get(3)?.parse().ok()?,
            rank: row.get(4)?.parse().ok(),
            entropy_nats: row.get(5)?.parse().ok(),
        })
    };
    let found = rows(path, document)?.iter().map(row).collect::<Option<_>>();
    found.ok_or_else(|| Error::format(path, "is not a table of positions"))
}

/// A whole text in stretches. A character that is split between two belongs to the first.
fn passage(text: &str, strip: &[Covered]) -> MarkedPassage {
    let mut stretches: Vec<MarkedStretch> = Vec::new();
    let mut at = 0;
    let mut add = |end: usize, p_z: f64, extractable: bool| {
        let end =
            (end.min(text.len())..=text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(text.len());
        let Some(piece) = text.get(at..end).filter(|piece| !piece.is_empty()) else { return };
        at = end;
        let p_z_at_least = MARKED_STEPS.iter().rev().find(|step| p_z >= **step).copied();
        match stretches.last_mut() {
            Some(last) if last.p_z_at_least == p_z_at_least && last.extractable == extractable => {
                last.text.push_str(piece)
            }
            _ => stretches.push(MarkedStretch { text: piece.to_owned(), p_z_at_least, extractable }),
        }
    };
    for covered in strip {
        add(covered.start, 0.0, false);
        add(covered.end, covered.p_z, covered.extractable);
    }
    add(text.len(), 0.0, false);
    let mut left = MOST_CHARACTERS;
    stretches.retain_mut(|stretch| {
        let kept = left;
        if let Some((end, _)) = stretch.text.char_indices().nth(kept) {
            stretch.text.truncate(end);
        }
        left = left.saturating_sub(stretch.text.chars().count());
        kept > 0
    });
    MarkedPassage { character: 0, stretches }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_its_cover_changes() {
        let strip = [
            Covered { start: 0, end: 2, p_z: 0.2, extractable: true },
            Covered { start: 2, end: 3, p_z: 0.3, extractable: true },
            Covered { start: 3, end: 5, p_z: 0.0, extractable: false },
        ];
        let found = passage("aébcd", &strip);
        let plain: Vec<_> =
            found.stretches.iter().map(|s| (s.text.as_str(), s.p_z_at_least, s.extractable)).collect();
        assert_eq!(plain, [("aé", Some(0.1), true), ("bcd", None, false)]);
        assert_eq!(passage("abc", &[]).stretches.len(), 1);
        let long = "x".repeat(MOST_CHARACTERS + 5);
        assert_eq!(passage(&long, &[]).characters(), MOST_CHARACTERS as u64);
    }
}
