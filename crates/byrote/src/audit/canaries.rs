//! Canaries: strings inserted into the training text a known number of times.
//!
//! A canary that was never inserted has the bits of any string of its kind. The *exposure* of an inserted one compares it with those:
//! with R canaries that were never inserted, of which r have at most as many bits,
//!
//! ```text
//! exposure = log2(R + 1) - log2(r + 1)
//! ```
//!
//! which is largest, log2(R + 1), if the model finds it likelier than all of them (Carlini et al. 2019, arXiv 1802.08232, estimated
//! by rank among the strings at hand). A canary is *extracted* if greedy decoding continues its first half with the rest.

use super::collection::{AuditDocument, TextTokens};
use super::document_score::ScoredDocument;
use super::spec::AuditSettings;
use crate::corpus::Encoded;
use crate::input::{MOST_HELD, read_text_capped};
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A canary and how often it was inserted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Canary {
    /// The string.
    pub text: String,
    /// How often it was inserted; 0 for one that was not.
    pub count: u64,
}

impl Canary {
    /// Reads canaries: one JSON object per line, or a CSV file with a header, with `text` and `count`.
    pub fn load(path: &Path) -> Result<Vec<Self>> {
        let text = read_text_capped(path, MOST_HELD, "a list of canaries")?;
        let is_csv = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
        let wrong = |line: u64, message: String| {
            Error::format_at(path, line, format!("not a canary with `text` and `count`: {message}"))
        };
        let found: Vec<Self> = if is_csv {
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let rows = reader.deserialize().zip(2..);
            rows.map(|(row, line)| row.map_err(|e| wrong(line, e.to_string()))).collect::<Result<_>>()?
        } else {
            let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
            lines
                .map(|(line, at)| serde_json::from_str(line).map_err(|e| wrong(at, e.to_string())))
                .collect::<Result<_>>()?
        };
        match found.is_empty() {
            true => Err(Error::format(path, "holds no canaries")),
            false => Ok(found),
        }
    }

    /// The canary as a document of the model's tokens.
    pub(super) fn document(&self, tokens: &TextTokens, number: usize) -> Result<AuditDocument> {
        let Encoded { ids, ends } = tokens.encode(&self.text)?;
        let name = format!("canary {number}");
        Ok(AuditDocument { name, text: Some(self.text.clone()), ids, ends, copies: 1, special_tokens: 0 })
    }
}

/// What a model knows of a canary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CanaryScore {
    /// The string, unless text is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How often it was inserted.
    pub count: u64,
    /// Its code length.
    pub bits: f64,
    /// How it compares with those that were not inserted; none if there are none, or if it is one of them.
    pub exposure: Option<f64>,
    /// Whether its first half is continued with the rest.
    pub extracted: bool,
}

/// Canaries that were inserted equally often.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CanaryGroup {
    /// How often.
    pub count: u64,
    /// How many canaries.
    pub canaries: u64,
    /// How many are extracted.
    pub extracted: u64,
    /// Their mean code length.
    pub mean_bits: f64,
    /// Their mean exposure.
    pub mean_exposure: Option<f64>,
}

/// All canaries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CanaryFigures {
    /// By how often they were inserted.
    pub by_count: Vec<CanaryGroup>,
    /// One by one, in the order of the file.
    pub canaries: Vec<CanaryScore>,
}

/// Scores canaries, given the scores of their tokens.
pub(super) fn figures(
    canaries: &[Canary],
    documents: &[AuditDocument],
    scored: &[ScoredDocument],
    settings: &AuditSettings,
) -> CanaryFigures {
    let bits: Vec<f64> =
        scored.iter().map(|s| Nats(-s.scores.iter().map(|s| s.log_prob).sum::<f64>()).bits()).collect();
    let mut others: Vec<f64> =
        canaries.iter().zip(&bits).filter(|(canary, _)| canary.count == 0).map(|(_, bits)| *bits).collect();
    others.sort_by(f64::total_cmp);
    let exposure = |bits: f64| {
        let below = others.partition_point(|other| *other <= bits);
        ((others.len() + 1) as f64).log2() - ((below + 1) as f64).log2()
    };
    let score = |i: usize| {
        let ids = &documents[i].ids;
        // At least one token is given, and at least one must follow.
        let given = (ids.len() / 2).max(scored[i].first);
        CanaryScore {
            text: (!settings.no_text).then(|| canaries[i].text.clone()),
            count: canaries[i].count,
            bits: bits[i],
            exposure: (canaries[i].count > 0 && !others.is_empty()).then(|| exposure(bits[i])),
            extracted: given < ids.len() && (given..ids.len()).all(|at| scored[i].is_hit(ids, at)),
        }
    };
    let scores: Vec<CanaryScore> = (0..canaries.len()).map(score).collect();
    let mut groups: BTreeMap<u64, Vec<&CanaryScore>> = BTreeMap::new();
    scores.iter().for_each(|score| groups.entry(score.count).or_default().push(score));
    let group = |(count, members): (u64, Vec<&CanaryScore>)| {
        let n = members.len() as f64;
        let exposures: Option<Vec<f64>> = members.iter().map(|score| score.exposure).collect();
        CanaryGroup {
            count,
            canaries: members.len() as u64,
            extracted: members.iter().filter(|score| score.extracted).count() as u64,
            mean_bits: members.iter().map(|score| score.bits).sum::<f64>() / n,
            mean_exposure: exposures.map(|all| all.iter().sum::<f64>() / n),
        }
    };
    CanaryFigures { by_count: groups.into_iter().map(group).collect(), canaries: scores }
}

#[cfg(test)]
mod tests {
    use super::super::spec::AuditSpec;
    use super::*;
    use crate::inference::PositionScore;

    fn scored(log_probs: &[f64], hits: &[bool]) -> ScoredDocument {
        let scores = log_probs.iter().zip(hits).map(|(&log_prob, &hit)| PositionScore {
            log_prob,
            log_prob_sampled: log_prob,
            margin: 1.0,
            rank: 0,
            top: if hit { 1 } else { 2 },
            mean_log_prob: 0.0,
            sd_log_prob: 0.0,
        });
        ScoredDocument { first: 0, scores: scores.collect() }
    }

    #[test]
    fn exposure_ranks_an_inserted_canary_among_the_others() {
        let counts = [4, 0, 0, 0, 1];
        let canaries: Vec<Canary> = counts.iter().map(|&count| Canary { text: "aa".into(), count }).collect();
        let document = AuditDocument {
            name: String::new(),
            text: None,
            ids: vec![1, 1],
            ends: vec![],
            copies: 1,
            special_tokens: 0,
        };
        let documents = vec![document; 5];
        let bits = [1.0, 8.0, 9.0, 10.0, 9.0];
        let scored: Vec<_> =
            bits.iter().map(|b| scored(&[-b * std::f64::consts::LN_2, 0.0], &[false, *b < 2.0])).collect();
        let settings = AuditSpec::default().resolve(100, None).unwrap();
        let found = figures(&canaries, &documents, &scored, &settings);
        assert_eq!(found.canaries[0].exposure, Some(2.0));
        // Two of three others have at most as many bits: log2 4 - log2 3.
        assert!((found.canaries[4].exposure.unwrap() - (2.0 - 3f64.log2())).abs() < 1e-12);
        assert_eq!(found.canaries[1].exposure, None);
        let plain: Vec<_> = found.by_count.iter().map(|g| (g.count, g.canaries, g.extracted)).collect();
        assert_eq!(plain, [(0, 3, 0), (1, 1, 0), (4, 1, 1)]);
    }

    #[test]
    fn lists_are_json_lines_or_csv_and_mistakes_are_located() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let wanted = [Canary { text: "a, b".into(), count: 3 }, Canary { text: "c".into(), count: 0 }];
        let json =
            write("c.jsonl", "{\"text\": \"a, b\", \"count\": 3}\n\n{\"text\": \"c\", \"count\": 0}\n");
        let csv = write("c.csv", "text,count\n\"a, b\",3\nc,0\n");
        assert_eq!(Canary::load(&json).unwrap(), wanted);
        assert_eq!(Canary::load(&csv).unwrap(), wanted);
        let bad = write("d.jsonl", "{\"text\": \"a\", \"count\": 3}\n{\"text\": \"b\"}\n");
        assert!(Canary::load(&bad).unwrap_err().to_string().contains("line 2"));
        assert!(Canary::load(&write("e.jsonl", "\n")).unwrap_err().to_string().contains("no canaries"));
    }
}
