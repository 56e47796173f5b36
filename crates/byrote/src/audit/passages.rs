//! The passages of a text that a page shows, marked by what can be extracted of them.
//!
//! A character has the largest p_z of a window whose suffix covers it (the least of its bytes, see [`coverage`](super::coverage)),
//! in steps, and whether an extractable window covers it. Of many or long documents, the most memorized passages are kept: a
//! character weighs its step, and as much again as all steps together if it is extractable; passages with the largest sums are
//! taken first. Saved as `passages.json`, so that a page can be drawn again without the model and the text.

use super::collection::{AuditDocument, Collection};
use super::coverage::Strip;
use super::{Audit, Audited};
use crate::input::{MOST_HELD, read_capped};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// The steps of p_z that are told apart in a text. Fifty tokens of ordinary text have a p_z of 0 or far below the first.
pub const MARKED_STEPS: [f64; 5] = [1e-12, 1e-6, 1e-3, 0.1, 0.5];

/// What a page shows of a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Passages {
    /// Documents, the most memorized first.
    pub documents: Vec<MarkedDocument>,
    /// The contexts that cost the model most, in the order of the gap's.
    #[serde(default)]
    pub contexts: Vec<ContextText>,
}

/// The passages of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkedDocument {
    /// The document, among the distinct ones.
    pub document: usize,
    /// Its passages, in order.
    pub passages: Vec<MarkedPassage>,
}

/// A passage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkedPassage {
    /// Its first character in the document.
    pub character: u64,
    /// Its text.
    pub stretches: Vec<MarkedStretch>,
}

/// A stretch of text whose characters are covered alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkedStretch {
    /// The text.
    pub text: String,
    /// The step that its p_z reaches, if it reaches one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_z_at_least: Option<f64>,
    /// Whether an extractable window covers it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extractable: bool,
}

/// A context as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextText {
    /// Its text, without a start token.
    pub context: String,
    /// Its most frequent next token, if the text has it.
    pub next: Option<String>,
    /// The token that the model predicts, if it occurs in the text.
    pub predicted: Option<String>,
}

/// The most documents that are shown.
const MOST_DOCUMENTS: usize = 8;
/// A document of at most this many characters is shown whole.
const WHOLE: usize = 2400;
/// Of a longer one, so many passages of so many characters.
const PASSAGES: (usize, usize) = (3, 800);
/// How far a passage is shortened so that it begins and ends between words.
const SNAP: usize = 24;

/// How a character is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cover {
    step: usize,
    extractable: bool,
}

impl Cover {
    fn weight(self) -> u64 {
        self.step as u64 + if self.extractable { MARKED_STEPS.len() as u64 } else { 0 }
    }
}

impl Passages {
    /// The name of the file beside the audit.
    pub const FILE: &'static str = "passages.json";

    /// Chooses the passages of an audit; none if it has no text, or must not show any.
    pub fn new(audited: &Audited) -> Option<Self> {
        let Audited { audit, collection, strips, .. } = audited;
        if audit.settings.no_text || collection.documents.iter().all(|document| document.text.is_none()) {
            return None;
        }
        let mut weighed: Vec<(u64, usize, Vec<Cover>)> = Vec::new();
        for (i, (document, strip)) in collection.documents.iter().zip(strips).enumerate() {
            if let (Some(text), Some(strip)) = (&document.text, strip) {
                let covers = covers(strip, text);
                let weight = covers.iter().map(|cover| cover.weight()).sum();
                // Ranks are kept small: only the best so far stay in memory.
                weighed.push((weight, i, covers));
                weighed.sort_by_key(|(weight, i, _)| (std::cmp::Reverse(*weight), *i));
                weighed.truncate(MOST_DOCUMENTS);
            }
        }
        // Where nothing is covered, the beginning of the first document shows just that.
        let covered = weighed.iter().filter(|(weight, _, _)| *weight > 0).count().max(1);
        let documents = weighed
            .iter()
            .take(covered)
            .filter_map(|(_, i, covers)| {
                let text = collection.documents[*i].text.as_deref()?;
                Some(MarkedDocument { document: *i, passages: passages(text, covers) })
            })
            .collect();
        Some(Self { documents, contexts: contexts(audit, collection) })
    }

    /// Reads the passages beside an audit; none if there are none.
    pub fn load(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(Self::FILE);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = read_capped(&path, MOST_HELD, "passages of an audit")?;
        let found = serde_json::from_slice(&bytes);
        found.map(Some).map_err(|e| Error::format(&path, format!("not passages of an audit: {e}")))
    }

    /// The passages as JSON.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|e| Error::setting("passages", e.to_string()))
    }
}

impl MarkedPassage {
    /// How many characters it has.
    pub fn characters(&self) -> u64 {
        self.stretches.iter().map(|stretch| stretch.text.chars().count() as u64).sum()
    }
}

impl MarkedStretch {
    /// The number of steps that its p_z reaches, from 0 to 5.
    pub fn step(&self) -> usize {
        self.p_z_at_least.map_or(0, |p_z| MARKED_STEPS.iter().filter(|step| p_z >= **step).count())
    }
}

/// How the characters of a text are covered.
fn covers(strip: &Strip, text: &str) -> Vec<Cover> {
    let cover = |(p_z, extractable): (f32, bool)| {
        let step = MARKED_STEPS.iter().filter(|step| f64::from(p_z) >= **step).count();
        Cover { step, extractable }
    };
    strip.characters(text).map(cover).collect()
}

/// The passages of a text, in order.
fn passages(text: &str, covers: &[Cover]) -> Vec<MarkedPassage> {
    let letters: Vec<char> = text.chars().collect();
    let passage = |range: Range<usize>| {
        let mut stretches: Vec<(Cover, MarkedStretch)> = Vec::new();
        for i in range.clone() {
            match stretches.last_mut().filter(|(cover, _)| *cover == covers[i]) {
                Some((_, stretch)) => stretch.text.push(letters[i]),
                None => {
                    let Cover { step, extractable } = covers[i];
                    let p_z_at_least = step.checked_sub(1).map(|step| MARKED_STEPS[step]);
                    let text = letters[i].to_string();
                    stretches.push((covers[i], MarkedStretch { text, p_z_at_least, extractable }));
                }
            }
        }
        let stretches = stretches.into_iter().map(|(_, stretch)| stretch).collect();
        MarkedPassage { character: range.start as u64, stretches }
    };
    let mut ranges =
        if letters.len() <= WHOLE { std::iter::once(0..letters.len()).collect() } else { heaviest(covers) };
    ranges.sort_by_key(|range| range.start);
    ranges.into_iter().map(|range| passage(snapped(&letters, range))).collect()
}

/// The ranges of a long text with the largest weights, which do not overlap. A text without weight has its beginning.
fn heaviest(covers: &[Cover]) -> Vec<Range<usize>> {
    let (most, length) = PASSAGES;
    let mut before = vec![0u64];
    for cover in covers {
        before.push(before[before.len() - 1] + cover.weight());
    }
    let mut found: Vec<Range<usize>> = Vec::new();
    while found.len() < most {
        let free =
            |start: usize| found.iter().all(|range| start + length <= range.start || start >= range.end);
        let weight = |start: usize| before[start + length] - before[start];
        let best = (0..=covers.len() - length)
            .filter(|&start| free(start))
            .max_by_key(|&start| (weight(start), std::cmp::Reverse(start)));
        match best.filter(|&start| found.is_empty() || weight(start) > 0) {
            // What is covered stands in the middle of its passage, where there is room around it.
            Some(first) if weight(first) > 0 => {
                let equal = |&start: &usize| free(start) && weight(start) == weight(first);
                let last = (first..=covers.len() - length).take_while(equal).last().unwrap_or(first);
                let start = usize::midpoint(first, last);
                found.push(start..start + length);
            }
            Some(start) => found.push(start..start + length),
            None => break,
        }
    }
    found
}

/// Moves the ends of a range to nearby spaces, inwards.
fn snapped(letters: &[char], range: Range<usize>) -> Range<usize> {
    let space = |i: &usize| letters[*i].is_whitespace();
    let start = match range.start {
        0 => 0,
        start => (start..(start + SNAP).min(range.end)).find(space).map_or(start, |i| i + 1),
    };
    let end = match range.end {
        end if end == letters.len() => end,
        end => (end.saturating_sub(SNAP).max(start + 1)..end).rev().find(space).unwrap_or(end),
    };
    start..end
}

/// The worst contexts as text.
fn contexts(audit: &Audit, collection: &Collection) -> Vec<ContextText> {
    let Some(gap) = &audit.gap else { return Vec::new() };
    let documents = || collection.documents.iter().filter(|document| document.text.is_some());
    let token = |id: u32| -> Option<String> {
        let place = |document: &AuditDocument| {
            let at = document.ids.iter().position(|other| *other == id)?;
            document.text_of(at..at + 1).map(str::to_owned)
        };
        documents().find_map(place)
    };
    let text = |tokens: &[u32]| -> Option<String> {
        let tokens = match audit.settings.start_token {
            Some(start) if tokens.first() == Some(&start) => &tokens[1..],
            _ => tokens,
        };
        if tokens.is_empty() {
            return Some(String::new());
        }
        let begins = |document: &AuditDocument| {
            let text = document.text_of(0..tokens.len()).map(str::to_owned);
            text.filter(|_| document.ids.starts_with(tokens))
        };
        let holds = |document: &AuditDocument| {
            let at = document.ids.windows(tokens.len()).position(|window| window == tokens)?;
            document.text_of(at..at + tokens.len()).map(str::to_owned)
        };
        documents().find_map(begins).or_else(|| documents().find_map(holds))
    };
    gap.worst
        .iter()
        .map_while(|worst| {
            Some(ContextText {
                context: text(&worst.tokens)?,
                next: token(worst.next),
                predicted: token(worst.predicted),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::window_score::WindowScore;
    use super::*;

    fn window(extractable: bool, p_z: f64) -> WindowScore {
        WindowScore {
            suffix: 2,
            hits: 2,
            first: 2,
            needed: u32::from(!extractable),
            ln_p: -1.0,
            ln_p_z: (p_z > 0.0).then(|| p_z.ln()),
            min_margin: 1.0,
            close: false,
            ties: 0,
        }
    }

    #[test]
    fn a_text_is_cut_where_its_cover_changes() {
        let text = "aébcd";
        let mut strip = Strip::new(text.len());
        strip.add(0..3, &window(true, 0.2));
        strip.add(2..5, &window(false, 1e-4));
        let found = passages(text, &covers(&strip, text));
        let plain: Vec<_> = found[0]
            .stretches
            .iter()
            .map(|s| (s.text.as_str(), s.p_z_at_least, s.step(), s.extractable))
            .collect();
        assert_eq!(plain, [("aé", Some(0.1), 4, true), ("bc", Some(1e-6), 2, false), ("d", None, 0, false)]);
        assert_eq!((found.len(), found[0].character, found[0].characters()), (1, 0, 5));
    }

    #[test]
    fn of_a_long_text_the_most_memorized_passages_are_kept_in_order() {
        let text: String = "word ".repeat(2000);
        let mut strip = Strip::new(text.len());
        strip.add(7000..7300, &window(true, 0.6));
        strip.add(2000..2599, &window(false, 0.01));
        let found = passages(&text, &covers(&strip, &text));
        assert_eq!(found.len(), 2, "what is not covered is left out");
        assert!(found[0].character < found[1].character);
        let covered = |p: &MarkedPassage, holds: fn(&MarkedStretch) -> bool| -> usize {
            p.stretches.iter().filter(|s| holds(s)).map(|s| s.text.len()).sum()
        };
        assert_eq!(covered(&found[0], |s| s.p_z_at_least == Some(1e-3)), 599);
        assert_eq!(covered(&found[1], |s| s.extractable), 300);
        assert!(found.iter().all(|p| p.characters() <= 800));
        assert!(
            found.iter().all(|p| p.stretches[0].text.starts_with("word")),
            "a passage begins with a word"
        );
    }

    #[test]
    fn a_text_that_nothing_covers_has_its_beginning() {
        let text = "é".repeat(5000);
        let found = passages(&text, &covers(&Strip::new(text.len()), &text));
        assert_eq!((found.len(), found[0].character, found[0].characters()), (1, 0, 800));
    }
}
