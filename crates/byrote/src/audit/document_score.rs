//! What a whole document scores.
//!
//! | measure | formula |
//! |---|---|
//! | bits | -sum of log2 p over the scored positions |
//! | zlib and xz ratio | bits / (8 times the compressed bytes) |
//! | Min-k% | mean of the k% smallest ln p, at least one |
//! | Min-k%++ | the same of (ln p - mean) / sd, 0 where the sd is 0 |
//! | longest runs | maximal runs of hits; fresh runs hold no copyable position |
//! | extraction strength | share of scored positions after the last miss |
//!
//! A position is *copyable* if the last G tokens, itself included, stand before in the same document: a model that has memorized
//! nothing can still copy them.

use crate::inference::PositionScore;
use crate::units::Nats;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Consecutive hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitRun {
    /// The position of the first.
    pub start: usize,
    /// How many there are.
    pub tokens: usize,
}

/// The scores of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentScore {
    /// Scored positions.
    pub scored: u64,
    /// The code length of the scored tokens.
    pub bits: f64,
    /// Hits.
    pub hits: u64,
    /// Positions that are not copyable, and hits among them.
    pub fresh: u64,
    /// Hits among the fresh positions.
    pub fresh_hits: u64,
    /// The share of scored positions after the last miss.
    pub extraction_strength: f64,
    /// The mean of the smallest log-probabilities, in nats.
    pub min_k: f64,
    /// The same of standardized log-probabilities.
    pub min_k_plus_plus: f64,
    /// The longest runs of hits, longest first.
    pub runs: Vec<HitRun>,
    /// The longest runs without copyable positions.
    pub fresh_runs: Vec<HitRun>,
    /// The smallest margin, in either direction.
    pub smallest_margin: f64,
}

/// How many runs of a document are kept.
const RUNS: usize = 5;

/// The positions of a document that have scores: those from `first` on.
#[derive(Debug, Clone)]
pub struct ScoredDocument {
    /// The first scored position: 0 behind a start token, 1 without.
    pub first: usize,
    /// One score per position.
    pub scores: Vec<PositionScore>,
}

impl ScoredDocument {
    /// Whether the token at a position is the most likely one; false where it is not scored.
    pub fn is_hit(&self, ids: &[u32], position: usize) -> bool {
        position >= self.first
            && self.scores.get(position - self.first).is_some_and(|s| s.top == ids[position])
    }
}

impl DocumentScore {
    /// Scores a document; none if nothing in it is scored.
    pub fn new(ids: &[u32], scored: &ScoredDocument, share: f64, copyable: &[bool]) -> Option<Self> {
        let scores = &scored.scores;
        if scores.is_empty() {
            return None;
        }
        let hit: Vec<bool> = (0..ids.len()).map(|i| scored.is_hit(ids, i)).collect();
        let fresh: Vec<bool> = hit.iter().zip(copyable).map(|(hit, copyable)| *hit && !copyable).collect();
        let last_miss = (scored.first..ids.len()).rev().find(|&i| !hit[i]);
        let count = |flags: &[bool]| flags.iter().filter(|flag| **flag).count() as u64;
        let standard = |s: &PositionScore| match s.sd_log_prob > 0.0 {
            true => (s.log_prob - s.mean_log_prob) / s.sd_log_prob,
            false => 0.0,
        };
        Some(Self {
            scored: scores.len() as u64,
            bits: Nats(-scores.iter().map(|s| s.log_prob).sum::<f64>()).bits(),
            hits: count(&hit),
            fresh: copyable[scored.first..].iter().filter(|copyable| !**copyable).count() as u64,
            fresh_hits: count(&fresh),
            extraction_strength: last_miss.map_or(1.0, |i| (ids.len() - 1 - i) as f64 / scores.len() as f64),
            min_k: mean_of_smallest(scores.iter().map(|s| s.log_prob), share),
            min_k_plus_plus: mean_of_smallest(scores.iter().map(standard), share),
            runs: longest_runs(&hit),
            fresh_runs: longest_runs(&fresh),
            smallest_margin: scores.iter().map(|s| s.margin.abs()).fold(f64::INFINITY, f64::min),
        })
    }

    /// Bits per scored token.
    pub fn bits_per_token(&self) -> f64 {
        self.bits / self.scored as f64
    }
}

/// The mean of the smallest values: a share of them, rounded down, at least one.
fn mean_of_smallest(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let n = ((values.len() as f64 * share) as usize).max(1);
    values[..n].iter().sum::<f64>() / n as f64
}

/// The longest maximal runs of true, longest first, then in order.
fn longest_runs(flags: &[bool]) -> Vec<HitRun> {
    let mut runs = Vec::new();
    let mut start = None;
    for (i, &flag) in flags.iter().chain([&false]).enumerate() {
        match (flag, start) {
            (true, None) => start = Some(i),
            (false, Some(first)) => {
                runs.push(HitRun { start: first, tokens: i - first });
                start = None;
            }
            _ => {}
        }
    }
    runs.sort_by_key(|run| (std::cmp::Reverse(run.tokens), run.start));
    runs.truncate(RUNS);
    runs
}

/// The positions whose last `g` tokens, themselves included, stand before in the document; none for `g` = 0. In a document longer
/// than the context, the model may no longer see the first occurrence: fresh figures err on the safe side.
pub fn copyable(ids: &[u32], g: usize) -> Vec<bool> {
    let mut found = vec![false; ids.len()];
    if g == 0 {
        return found;
    }
    let mut seen: HashSet<&[u32]> = HashSet::new();
    for end in g..=ids.len() {
        found[end - 1] = !seen.insert(&ids[end - g..end]);
    }
    found
}

/// The sizes of a text compressed by zlib (level 9) and xz (preset 9e), in bytes.
pub fn compressed(text: &[u8]) -> (u64, u64) {
    use std::io::Write;
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    // Writing to memory does not fail.
    let zlib = zlib.write_all(text).and_then(|()| zlib.finish()).map_or(0, |bytes| bytes.len());
    let mut options = lzma_rust2::XzOptions::with_preset(9);
    // As preset 9e, but with a dictionary no larger than the text: the encoder takes memory for all of it.
    options.lzma_options.nice_len = 273;
    options.lzma_options.depth_limit = 512;
    options.lzma_options.dict_size =
        u32::try_from(text.len().next_power_of_two()).unwrap_or(u32::MAX).clamp(1 << 12, 1 << 26);
    let xz = lzma_rust2::XzWriter::new(Vec::new(), options)
        .and_then(|mut xz| xz.write_all(text).and_then(|()| xz.finish()))
        .map_or(0, |bytes: Vec<u8>| bytes.len());
    (zlib as u64, xz as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(log_prob: f64, top: u32) -> PositionScore {
        PositionScore {
            log_prob,
            log_prob_sampled: log_prob,
            margin: if top == 1 { 1.0 } else { -0.5 },
            rank: 0,
            top,
            mean_log_prob: -2.0,
            sd_log_prob: 2.0,
        }
    }

    #[test]
    fn runs_are_maximal_and_the_longest_come_first() {
        let flags = [true, false, true, true, false, true, true];
        let runs = longest_runs(&flags);
        let plain: Vec<_> = runs.iter().map(|run| (run.start, run.tokens)).collect();
        assert_eq!(plain, [(2, 2), (5, 2), (0, 1)]);
        assert!(longest_runs(&[false, false]).is_empty() && longest_runs(&[]).is_empty());
    }

    #[test]
    fn copies_are_found_wherever_they_stand_before() {
        let ids = [1, 2, 3, 9, 1, 2, 3, 1, 2];
        let found = copyable(&ids, 2);
        assert_eq!(found, [false, false, false, false, false, true, true, false, true]);
        assert!(copyable(&ids, 0).iter().all(|c| !c));
        assert_eq!(copyable(&[1], 4), [false]);
    }

    #[test]
    fn a_document_scores_as_worked_by_hand() {
        let ids = [1, 1, 1, 1, 1, 1];
        let tops = [1, 1, 5, 1, 1];
        let scores =
            tops.iter().zip([-1.0, -2.0, -6.0, -0.5, -0.5]).map(|(&top, lp)| score(lp, top)).collect();
        let scored = ScoredDocument { first: 1, scores };
        let found = DocumentScore::new(&ids, &scored, 0.4, &[false; 6]).unwrap();
        assert!((found.bits - 10.0 / 2f64.ln()).abs() < 1e-12);
        assert_eq!((found.scored, found.hits), (5, 4));
        assert_eq!(found.extraction_strength, 2.0 / 5.0);
        assert_eq!(found.min_k, (-6.0 - 2.0) / 2.0);
        assert_eq!(found.min_k_plus_plus, f64::midpoint((-6.0 + 2.0) / 2.0, 0.0));
        assert_eq!(found.runs[0], HitRun { start: 1, tokens: 2 });
        let all_copied = DocumentScore::new(&ids, &scored, 0.4, &[true; 6]).unwrap();
        assert_eq!((all_copied.fresh, all_copied.fresh_runs.len()), (0, 0));
        assert!(
            DocumentScore::new(&[1], &ScoredDocument { first: 1, scores: vec![] }, 0.2, &[false]).is_none()
        );
    }

    #[test]
    fn a_repetitive_text_compresses_and_noise_does_not() {
        let (zlib, xz) = compressed(&b"the same again and again ".repeat(100));
        assert!(zlib < 100 && xz < 150 && zlib > 8, "{zlib} {xz}");
    }
}
