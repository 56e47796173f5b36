//! Log-probabilities that another program computed, so that any model on any machine can be audited.
//!
//! | file | content |
//! |---|---|
//! | `.npy` | one number per token, in f32 or f64: the natural logarithm of its probability given the text before it |
//! | `.parquet`, `.csv` | one row per token; column `log_prob`, and any of `hit` (1 if the token is the most likely one), `margin`, `rank`, `log_prob_sampled`, `mean_log_prob`, `sd_log_prob` |
//!
//! Tokens follow each other in the order of the documents, those of a held-out text after those of the corpus. There is either a number for every token, where the first of a document
//! may be NaN (not scored), or one for every token but the first of each document.

use super::collection::Collection;
use super::document_score::ScoredDocument;
use super::text_audit::Known;
use crate::corpus::read::npy::read_header;
use crate::inference::PositionScore;
use crate::input::{MOST_HELD, read_capped};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Scores by token.
#[derive(Debug, Clone)]
pub struct GivenScores {
    path: PathBuf,
    /// Which numbers there are.
    pub(super) known: Known,
    columns: BTreeMap<&'static str, Vec<f64>>,
}

/// The columns that are read.
const COLUMNS: [&str; 7] =
    ["log_prob", "hit", "margin", "rank", "log_prob_sampled", "mean_log_prob", "sd_log_prob"];

impl GivenScores {
    /// Whether a file is one of scores, by its name.
    pub fn is_named(path: &Path) -> bool {
        matches!(extension(path).as_deref(), Some("npy" | "parquet" | "csv"))
    }

    /// Reads scores from a file.
    pub fn load(path: &Path) -> Result<Self> {
        let columns = match extension(path).as_deref() {
            Some("npy") => BTreeMap::from([("log_prob", numpy(path)?)]),
            #[cfg(feature = "parquet")]
            Some("parquet") => crate::corpus::read::numbers::columns(path, &COLUMNS)?,
            _ => csv_columns(path)?,
        };
        let Some(log_probs) = columns.get("log_prob") else {
            return Err(Error::format(path, "has no column `log_prob`"));
        };
        for (&name, values) in &columns {
            if values.len() != log_probs.len() {
                let (found, needed) = (values.len(), log_probs.len());
                let message = format!("column `{name}` has {found} rows, but `log_prob` has {needed}");
                return Err(Error::format(path, message));
            }
            if let Some(i) = values.iter().zip(log_probs).position(|(x, log_prob)| {
                // The first token of a document may be unscored; then nothing is known of it.
                !(log_prob.is_nan() || fits(name, *x))
            }) {
                return Err(Error::format(path, misfit(name, i + 1, values[i])));
            }
        }
        let has = |name: &str| columns.contains_key(name);
        let known = Known {
            hits: has("hit") || has("margin") || has("rank"),
            sampled: has("log_prob_sampled"),
            moments: has("mean_log_prob") && has("sd_log_prob"),
        };
        Ok(Self { path: path.to_path_buf(), known, columns })
    }

    /// The scores of the distinct documents of texts that follow each other.
    pub(super) fn documents(&self, texts: &[&Collection]) -> Result<Vec<Vec<ScoredDocument>>> {
        let n = self.columns.get("log_prob").map_or(0, Vec::len);
        let tokens_of =
            |text: &Collection| -> usize { text.order.iter().map(|&d| text.documents[d].ids.len()).sum() };
        let tokens: usize = texts.iter().map(|text| tokens_of(text)).sum();
        let documents: usize = texts.iter().map(|text| text.order.len()).sum();
        let skipped = match n {
            n if n == tokens => 0,
            n if n + documents == tokens => 1,
            _ => {
                let (text, order) = match texts.len() {
                    1 => ("the text has", ""),
                    _ => ("corpus and held-out text have", ", those of the held-out text last"),
                };
                let message = format!(
                    "has {n} log-probabilities, but {text} {tokens} tokens in {documents} documents: {tokens} are needed, or {} \
                     without the first of each document{order}",
                    tokens - documents
                );
                return Err(Error::format(&self.path, message));
            }
        };
        let mut at = 0;
        let mut scored = |text: &Collection| -> Result<Vec<ScoredDocument>> {
            let mut found: Vec<Option<ScoredDocument>> = vec![None; text.documents.len()];
            for &d in &text.order {
                let ids = &text.documents[d].ids;
                if found[d].is_none() {
                    found[d] = Some(self.document(ids, at, skipped)?);
                }
                at += ids.len() - skipped.min(ids.len());
            }
            Ok(found.into_iter().flatten().collect())
        };
        texts.iter().map(|text| scored(text)).collect()
    }

    /// The scores of a document whose numbers begin at `at`.
    fn document(&self, ids: &[u32], at: usize, skipped: usize) -> Result<ScoredDocument> {
        let column = |name: &str| self.columns.get(name);
        let number = |name: &str, i: usize, otherwise: f64| column(name).map_or(otherwise, |c| c[i]);
        let is_scored = |i: usize| !number("log_prob", i, f64::NAN).is_nan();
        let first = if skipped == 0 && !ids.is_empty() && !is_scored(at) { 1 } else { skipped };
        let mut scores = Vec::with_capacity(ids.len());
        for (position, &token) in ids.iter().enumerate().skip(first) {
            let i = at + position - skipped;
            if !is_scored(i) {
                let message =
                    format!("entry {} is NaN; only the first token of a document may be unscored", i + 1);
                return Err(Error::format(&self.path, message));
            }
            let margin = number("margin", i, f64::NAN);
            let rank = number("rank", i, f64::NAN);
            let hit = match (column("hit"), rank.is_nan()) {
                (Some(hits), _) => hits[i] != 0.0,
                (None, false) => rank == 0.0,
                (None, true) => margin > 0.0,
            };
            // A margin that is not given is far: its sign is all that is known.
            let far = if hit { f64::INFINITY } else { f64::NEG_INFINITY };
            scores.push(PositionScore {
                log_prob: number("log_prob", i, 0.0),
                log_prob_sampled: number("log_prob_sampled", i, f64::NEG_INFINITY),
                margin: if margin.is_nan() { far } else { margin },
                rank: if rank.is_nan() { u32::from(!hit) } else { rank as u32 },
                top: if hit { token } else { u32::MAX },
                mean_log_prob: number("mean_log_prob", i, 0.0),
                sd_log_prob: number("sd_log_prob", i, 0.0),
            });
        }
        Ok(ScoredDocument { first: first.min(ids.len()), scores })
    }
}

/// The most that rounding lifts a log-probability above 0.
const ROUNDING: f64 = 1e-6;

/// Whether a number can stand in a column.
fn fits(column: &str, x: f64) -> bool {
    match column {
        "log_prob" | "mean_log_prob" => x.is_finite() && x <= ROUNDING,
        // Minus infinity is a token that is never drawn.
        "log_prob_sampled" => x <= ROUNDING,
        "hit" => x == 0.0 || x == 1.0,
        "rank" => x.is_finite() && x >= 0.0,
        "sd_log_prob" => x.is_finite() && x >= 0.0,
        _ => !x.is_nan(),
    }
}

/// Why a number cannot stand in a column.
fn misfit(column: &str, entry: usize, x: f64) -> String {
    let place = match column {
        "log_prob" => format!("entry {entry}"),
        _ => format!("entry {entry} of column `{column}`"),
    };
    let why = match column {
        "log_prob" if x == f64::NEG_INFINITY => {
            "a token that occurs in the text cannot have probability 0 (a code for it would be infinitely long)"
        }
        "log_prob" | "log_prob_sampled" | "mean_log_prob" => "a log-probability is a number of at most 0",
        "hit" => "it must be 1 (the token is the most likely one) or 0",
        "rank" => "it must be the number of more likely tokens",
        "sd_log_prob" => "a standard deviation is a number of at least 0",
        _ => "every scored token needs a number",
    };
    format!("{place} is {x}: {why}")
}

fn extension(path: &Path) -> Option<String> {
    path.extension().map(|e| e.to_string_lossy().to_lowercase())
}

/// The numbers of a one-dimensional array.
fn numpy(path: &Path) -> Result<Vec<f64>> {
    let bytes = read_capped(path, MOST_HELD, "an array of log-probabilities")?;
    let wrong = |message: String| Error::format(path, message);
    let mut rest = bytes.as_slice();
    let header = read_header(&mut rest).ok_or_else(|| wrong("not a NumPy array".into()))?;
    let [length] = header.shape[..] else {
        let message = format!("has {} dimensions, but log-probabilities have one", header.shape.len());
        return Err(wrong(message));
    };
    let size: usize = match header.descr.as_str() {
        "<f4" => 4,
        "<f8" => 8,
        other => {
            return Err(wrong(format!("holds {other:?}, but log-probabilities are f32 or f64 (<f4, <f8)")));
        }
    };
    if length.checked_mul(size as u64) != Some(rest.len() as u64) {
        return Err(wrong(format!("promises {length} numbers, but has {} bytes of them", rest.len())));
    }
    let number = |bytes: &[u8]| match bytes.try_into() {
        Ok(eight) => f64::from_le_bytes(eight),
        Err(_) => bytes.try_into().map_or(f64::NAN, |four| f64::from(f32::from_le_bytes(four))),
    };
    Ok(rest.chunks_exact(size).map(number).collect())
}

/// The known columns of a CSV file.
fn csv_columns(path: &Path) -> Result<BTreeMap<&'static str, Vec<f64>>> {
    let bytes = read_capped(path, MOST_HELD, "a table of log-probabilities")?;
    let mut reader = csv::Reader::from_reader(bytes.as_slice());
    let wrong = |e: csv::Error| Error::format(path, format!("not a table: {e}"));
    let names = reader.headers().map_err(wrong)?.clone();
    let wanted: Vec<(usize, &'static str)> = COLUMNS
        .iter()
        .filter_map(|&name| Some((names.iter().position(|found| found.trim() == name)?, name)))
        .collect();
    let mut columns: BTreeMap<&'static str, Vec<f64>> =
        wanted.iter().map(|&(_, name)| (name, Vec::new())).collect();
    for (row, line) in reader.records().zip(2u64..) {
        let row = row.map_err(wrong)?;
        for &(i, name) in &wanted {
            let text = row.get(i).unwrap_or_default().trim();
            let number = match text.to_lowercase().as_str() {
                "" | "nan" => f64::NAN,
                "true" => 1.0,
                "false" => 0.0,
                "-inf" => f64::NEG_INFINITY,
                other => other.parse().map_err(|_| {
                    Error::format_at(path, line, format!("{text:?} in column `{name}` is not a number"))
                })?,
            };
            columns.entry(name).or_default().push(number);
        }
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::super::collection::AuditDocument;
    use super::*;

    fn text(ids: &[&[u32]]) -> Collection {
        let document = |ids: &&[u32]| AuditDocument {
            name: String::new(),
            text: None,
            ids: ids.to_vec(),
            ends: vec![],
            copies: 1,
            special_tokens: 0,
        };
        Collection { documents: ids.iter().map(document).collect(), order: (0..ids.len()).collect() }
    }

    fn given(name: &str, bytes: &[u8]) -> Result<GivenScores> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        GivenScores::load(&path)
    }

    fn npy(numbers: &[f32], shape: &str) -> Vec<u8> {
        let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        numbers.iter().for_each(|x| bytes.extend(x.to_le_bytes()));
        bytes
    }

    #[test]
    fn numbers_are_shared_out_to_documents_with_or_without_their_first_token() {
        let collection = text(&[&[1, 2, 3], &[4], &[5, 6]]);
        let log_probs = |given: GivenScores| -> Vec<(usize, Vec<f64>)> {
            let found = given.documents(&[&collection]).unwrap().remove(0);
            found.iter().map(|d| (d.first, d.scores.iter().map(|s| s.log_prob).collect())).collect()
        };
        let short = given("a.npy", &npy(&[-1.0, -2.0, -3.0], "(3,)")).unwrap();
        assert_eq!(log_probs(short), [(1, vec![-1.0, -2.0]), (1, vec![]), (1, vec![-3.0])]);
        let whole = given("a.npy", &npy(&[f32::NAN, -1.0, -2.0, -4.0, f32::NAN, -3.0], "(6,)")).unwrap();
        assert_eq!(log_probs(whole), [(1, vec![-1.0, -2.0]), (0, vec![-4.0]), (1, vec![-3.0])]);
        let wrong = given("a.npy", &npy(&[-1.0], "(1,)")).unwrap();
        let error = wrong.documents(&[&collection]).unwrap_err().to_string();
        assert!(
            error.contains("has 1 log-probabilities, but the text has 6 tokens in 3 documents"),
            "{error}"
        );
    }

    #[test]
    fn the_numbers_of_a_held_out_text_follow_those_of_the_corpus() {
        let (corpus, held_out) = (text(&[&[1, 2, 3]]), text(&[&[4, 5, 6]]));
        let log_probs = |numbers: &[f32], texts: &[&Collection]| -> Result<Vec<Vec<f64>>> {
            let found = given("a.npy", &npy(numbers, &format!("({},)", numbers.len())))?.documents(texts)?;
            Ok(found.iter().map(|text| text[0].scores.iter().map(|s| s.log_prob).collect()).collect())
        };
        let both = log_probs(&[-1.0, -2.0, -3.0, -4.0], &[&corpus, &held_out]).unwrap();
        assert_eq!(both, [[-1.0, -2.0], [-3.0, -4.0]]);
        // As many as one of the texts has: they belong to one of them only.
        let error = log_probs(&[-1.0, -2.0], &[&corpus, &held_out]).unwrap_err().to_string();
        assert!(error.contains("corpus and held-out text have 6 tokens in 2 documents"), "{error}");
        assert!(error.ends_with("those of the held-out text last"), "{error}");
    }

    #[test]
    fn tables_may_know_more_than_log_probabilities() {
        let table = b"token,log_prob,hit\n7,nan,\n8,-0.5,true\n9,-2,0\n";
        let found = given("t.csv", table).unwrap();
        assert_eq!(found.known, Known { hits: true, sampled: false, moments: false });
        let scored = &found.documents(&[&text(&[&[7, 8, 9]])]).unwrap()[0][0];
        assert!(
            scored.is_hit(&[7, 8, 9], 1) && !scored.is_hit(&[7, 8, 9], 2) && !scored.is_hit(&[7, 8, 9], 0)
        );
    }

    #[test]
    fn a_token_that_is_never_drawn_is_a_fact() {
        let table = b"log_prob,hit,log_prob_sampled,margin\nnan,,,\n-3,0,-inf,-2\n-0.1,1,-0.05,inf\n";
        let found = given("t.csv", table).unwrap().documents(&[&text(&[&[7, 8, 9]])]).unwrap().remove(0);
        let sampled: Vec<f64> = found[0].scores.iter().map(|score| score.log_prob_sampled).collect();
        assert_eq!(sampled, [f64::NEG_INFINITY, -0.05]);
    }

    #[test]
    fn what_is_not_a_log_probability_is_refused() {
        for (name, bytes, message) in [
            ("a.npy", npy(&[0.5], "(1,)"), "entry 1 is 0.5: a log-probability is a number of at most 0"),
            ("a.npy", npy(&[-1.0, f32::INFINITY], "(2,)"), "entry 2 is inf: a log-probability"),
            ("a.npy", npy(&[-1.0, f32::NEG_INFINITY], "(2,)"), "entry 2 is -inf: a token that occurs"),
            ("a.csv", b"log_prob\n-1\n-inf\n".to_vec(), "entry 2 is -inf: a token that occurs"),
            ("a.csv", b"log_prob,hit\n-1,\n".to_vec(), "entry 1 of column `hit` is NaN: it must be 1"),
            ("a.csv", b"log_prob,rank\n-1,-2\n".to_vec(), "entry 1 of column `rank` is -2: it must be"),
            ("a.csv", b"log_prob,margin\n-1,\n".to_vec(), "entry 1 of column `margin` is NaN"),
            ("a.csv", b"log_prob,log_prob_sampled\n-1,0.1\n".to_vec(), "`log_prob_sampled` is 0.1"),
            ("a.csv", b"log_prob,mean_log_prob,sd_log_prob\n-1,-2,-1\n".to_vec(), "`sd_log_prob` is -1"),
            ("a.npy", npy(&[-0.5], "(2,)"), "promises 2 numbers"),
            ("a.npy", npy(&[-0.5], "(1, 1)"), "2 dimensions"),
            ("a.npy", b"nothing".to_vec(), "not a NumPy array"),
            ("a.csv", b"prob\n-1\n".to_vec(), "no column `log_prob`"),
            ("a.csv", b"log_prob\nhigh\n".to_vec(), "line 2"),
        ] {
            let error = given(name, &bytes).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
