//! The figures of many windows.

use super::interval::{ShareInterval, share_interval};
use super::window_score::{WindowScore, draws_needed};
use serde::{Deserialize, Serialize};

/// Windows added up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowFigures {
    /// The number of windows, copies included.
    pub count: u64,
    /// The number of distinct windows.
    pub distinct: u64,
    /// How many are extractable.
    pub extractable: u64,
    /// Their share.
    pub share: Option<f64>,
    /// The interval of that share.
    pub interval: Option<ShareInterval>,
    /// The share of windows with at least this probability of being sampled.
    pub p_z_at_least: Vec<ThresholdShare>,
    /// The mean share of hits.
    pub mean_teacher_forced_accuracy: Option<f64>,
    /// The mean share of positions at which greedy decoding agrees, if windows were decoded.
    pub mean_free_running_accuracy: Option<f64>,
    /// The mean ROUGE-L of greedy decoding, if windows were decoded.
    pub mean_rouge_l: Option<f64>,
    /// The mean share of a suffix that follows from the rest.
    pub mean_extraction_strength: Option<f64>,
    /// How many windows have 0, 1, 2, ... hits before the first miss.
    pub first_histogram: Vec<u64>,
    /// How many windows have a p_z in each decade.
    pub p_z_histogram: Vec<DecadeCount>,
    /// The share of windows that n samples produce at least once with probability p.
    pub frontier: Vec<FrontierPoint>,
    /// The largest log-probability of sampling a suffix.
    pub largest_ln_p_z: Option<f64>,
    /// How many verdicts would change within the numerical tolerance.
    pub close_verdicts: u64,
    /// How many positions tie exactly for the largest logit.
    pub ties: u64,
    /// The share of characters in the suffix of an extractable window, and of one with p_z of at least 0.001.
    pub coverage: Option<CoverageShares>,
}

/// The share of windows above a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ThresholdShare {
    /// The threshold.
    pub p_z: f64,
    /// How many windows reach it.
    pub count: u64,
    /// Their share.
    pub share: f64,
}

/// The windows of one decade.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DecadeCount {
    /// The lower end, as a power of ten; none for windows that cannot be sampled.
    pub log10_from: Option<i32>,
    /// How many windows.
    pub count: u64,
}

/// The share of windows that n samples produce with probability p.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FrontierPoint {
    /// The probability.
    pub p: f64,
    /// The number of samples.
    pub n: u64,
    /// The share.
    pub share: f64,
}

/// How much of the text is covered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoverageShares {
    /// Characters of the text.
    pub characters: u64,
    /// The share in the suffix of an extractable window.
    pub extractable: f64,
    /// The share in the suffix of a window with p_z of at least 0.001.
    pub p_z: f64,
}

/// The thresholds of p_z that are reported.
pub const THRESHOLDS: [f64; 5] = [1e-6, 1e-3, 0.01, 0.1, 0.5];
const PROBABILITIES: [f64; 4] = [0.1, 0.5, 0.9, 0.99];
const SAMPLES: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// The lowest decade that is told apart from those below.
const LOWEST: i32 = -30;

/// What greedy decoding of a window gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DecodedScore {
    /// The share of positions at which it agrees with the suffix.
    pub free_running_accuracy: f64,
    /// The longest common subsequence with the suffix, as a share of it.
    pub rouge_l: f64,
}

impl DecodedScore {
    /// Compares a decoded suffix with the true one.
    pub fn new(decoded: &[u32], suffix: &[u32]) -> Self {
        let same = decoded.iter().zip(suffix).filter(|(a, b)| a == b).count();
        let m = suffix.len() as f64;
        Self {
            free_running_accuracy: same as f64 / m,
            rouge_l: common_subsequence(decoded, suffix) as f64 / m,
        }
    }
}

/// The length of the longest common subsequence.
fn common_subsequence(a: &[u32], b: &[u32]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

/// Adds up windows.
#[derive(Debug, Clone, Default)]
pub struct WindowTally {
    /// Extractable windows and windows, by document.
    documents: Vec<(f64, f64)>,
    distinct: u64,
    sums: [f64; 2],
    decoded: [f64; 3],
    first: Vec<u64>,
    close: u64,
    ties: u64,
    /// Log-probabilities of samples, with how many windows have them.
    ln_p_z: Vec<(Option<f64>, u64)>,
}

impl WindowTally {
    /// Adds a window.
    pub fn add(&mut self, document: usize, weight: u64, score: &WindowScore, decoded: Option<DecodedScore>) {
        if self.documents.len() <= document {
            self.documents.resize(document + 1, (0.0, 0.0));
        }
        let w = weight as f64;
        let cell = &mut self.documents[document];
        cell.0 += if score.extractable() { w } else { 0.0 };
        cell.1 += w;
        self.distinct += 1;
        self.sums[0] += w * score.teacher_forced_accuracy();
        self.sums[1] += w * score.extraction_strength();
        if let Some(decoded) = decoded {
            self.decoded[0] += w * decoded.free_running_accuracy;
            self.decoded[1] += w * decoded.rouge_l;
            self.decoded[2] += w;
        }
        let first = score.first as usize;
        if self.first.len() <= first {
            self.first.resize(first + 1, 0);
        }
        self.first[first] += weight;
        self.close += if score.close { weight } else { 0 };
        self.ties += weight * u64::from(score.ties);
        self.ln_p_z.push((score.ln_p_z, weight));
    }

    /// The figures; `overlapping` says whether suffixes of neighbouring windows overlap.
    pub fn figures(&self, overlapping: bool, seed: u64) -> WindowFigures {
        let (extractable, count) = self.documents.iter().fold((0.0, 0.0), |(a, b), d| (a + d.0, b + d.1));
        let mean = |sum: f64, n: f64| (n > 0.0).then(|| sum / n);
        let number = |holds: &dyn Fn(Option<f64>) -> bool| -> u64 {
            self.ln_p_z.iter().filter(|(ln, _)| holds(*ln)).map(|(_, weight)| weight).sum()
        };
        let share = |n: u64| if count > 0.0 { n as f64 / count } else { 0.0 };
        let p_z_at_least = THRESHOLDS.map(|p_z| {
            let n = number(&|ln| ln.is_some_and(|ln| ln >= p_z.ln()));
            ThresholdShare { p_z, count: n, share: share(n) }
        });
        let decade = |ln: f64| ((ln / std::f64::consts::LN_10).floor() as i32).clamp(LOWEST, -1);
        let mut p_z_histogram = vec![DecadeCount { log10_from: None, count: number(&|ln| ln.is_none()) }];
        p_z_histogram.extend((LOWEST..0).map(|from| DecadeCount {
            log10_from: Some(from),
            count: number(&|ln| ln.is_some_and(|ln| decade(ln) == from)),
        }));
        let mut frontier = Vec::new();
        for p in PROBABILITIES {
            let needed: Vec<(f64, u64)> = self
                .ln_p_z
                .iter()
                .filter_map(|(ln, weight)| Some((draws_needed(p, *ln)?, *weight)))
                .collect();
            frontier.extend(SAMPLES.map(|n| {
                let reached = needed.iter().filter(|(needed, _)| *needed <= n as f64).map(|(_, w)| w).sum();
                FrontierPoint { p, n, share: share(reached) }
            }));
        }
        WindowFigures {
            count: count as u64,
            distinct: self.distinct,
            extractable: extractable as u64,
            share: mean(extractable, count),
            interval: share_interval(&self.documents, overlapping, seed),
            p_z_at_least: p_z_at_least.to_vec(),
            mean_teacher_forced_accuracy: mean(self.sums[0], count),
            mean_free_running_accuracy: mean(self.decoded[0], self.decoded[2]),
            mean_rouge_l: mean(self.decoded[1], self.decoded[2]),
            mean_extraction_strength: mean(self.sums[1], count),
            first_histogram: self.first.clone(),
            p_z_histogram,
            frontier,
            largest_ln_p_z: self.ln_p_z.iter().filter_map(|(ln, _)| *ln).max_by(f64::total_cmp),
            close_verdicts: self.close,
            ties: self.ties,
            coverage: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(hits: &[bool], ln_p_z: Option<f64>) -> WindowScore {
        let m = hits.len() as u32;
        let last = hits.iter().rposition(|h| !h);
        WindowScore {
            suffix: m,
            hits: hits.iter().filter(|h| **h).count() as u32,
            first: hits.iter().position(|h| !h).unwrap_or(hits.len()) as u32,
            needed: last.map_or(0, |i| i as u32 + 1),
            ln_p: -1.0,
            ln_p_z,
            min_margin: 1.0,
            close: false,
            ties: 0,
        }
    }

    #[test]
    fn copies_count_and_shares_are_those_of_all_windows() {
        let mut tally = WindowTally::default();
        tally.add(0, 3, &score(&[true, true], Some(0.2f64.ln())), None);
        tally.add(2, 1, &score(&[true, false], None), None);
        let found = tally.figures(false, 0);
        assert_eq!((found.count, found.distinct, found.extractable, found.share), (4, 2, 3, Some(0.75)));
        assert_eq!(found.mean_teacher_forced_accuracy, Some((3.0 + 0.5) / 4.0));
        assert_eq!(found.mean_extraction_strength, Some(0.75));
        assert_eq!(found.first_histogram, [0, 1, 3]);
        let at = |p: f64| found.p_z_at_least.iter().find(|t| t.p_z == p).unwrap().count;
        assert_eq!((at(0.1), at(0.5)), (3, 0));
        assert_eq!(found.p_z_histogram[0].count, 1);
        assert_eq!(found.p_z_histogram.iter().find(|d| d.log10_from == Some(-1)).unwrap().count, 3);
        assert_eq!(found.mean_rouge_l, None);
    }

    #[test]
    fn the_frontier_rises_with_samples_and_falls_with_the_probability() {
        let mut tally = WindowTally::default();
        for (i, p) in [0.9f64, 0.1, 1e-3, 1e-8].into_iter().enumerate() {
            tally.add(i, 1, &score(&[true], Some(p.ln())), None);
        }
        let found = tally.figures(true, 0).frontier;
        let at = |p: f64, n: u64| found.iter().find(|f| f.p == p && f.n == n).unwrap().share;
        for p in PROBABILITIES {
            assert!(SAMPLES.map(|n| at(p, n)).is_sorted());
        }
        for n in SAMPLES {
            assert!(PROBABILITIES.map(|p| 1.0 - at(p, n)).is_sorted());
        }
        assert_eq!((at(0.5, 1), at(0.5, 10), at(0.5, 1000)), (0.25, 0.5, 0.75));
    }

    #[test]
    fn nothing_has_no_shares() {
        let found = WindowTally::default().figures(false, 0);
        assert_eq!((found.count, found.share, found.largest_ln_p_z), (0, None, None));
    }

    #[test]
    fn decoding_is_compared_by_position_and_by_subsequence() {
        let score = DecodedScore::new(&[1, 9, 2, 3], &[1, 2, 3, 4]);
        assert_eq!((score.free_running_accuracy, score.rouge_l), (0.25, 0.75));
        assert_eq!(common_subsequence(&[], &[1]), 0);
    }
}
