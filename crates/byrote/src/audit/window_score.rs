//! What a window's suffix scores: k tokens are given, m must follow.
//!
//! With hits h_i (whether the suffix token i is the most likely one, given the true tokens before it):
//!
//! | measure | formula | names in the literature |
//! |---|---|---|
//! | extractable | all m hits | k-extractable (Carlini et al. 2023), "exact match" of sequences |
//! | teacher-forced accuracy | hits / m | "exact memorization" of tokens |
//! | first | hits before the first miss | |
//! | extraction strength | 1 - k* / m, where k* - 1 is the last miss, or k* = 0 | |
//! | ln p_z | sum of ln q_i under top-k sampling | probabilistic extraction |
//!
//! **Lemma.** Greedy decoding from the prefix reproduces the suffix if and only if every position is a hit, and it agrees with the
//! suffix up to the first miss: by induction, as long as all tokens so far agree, decoding and teacher forcing see the same context.
//! So one pass decides what can be extracted, and only what follows a first miss takes decoding.

use crate::inference::PositionScore;
use serde::{Deserialize, Serialize};

/// The scores of a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WindowScore {
    /// The number of suffix tokens, m.
    pub suffix: u32,
    /// How many are hits.
    pub hits: u32,
    /// How many are hits before the first miss.
    pub first: u32,
    /// How many tokens of the suffix must be given before the rest follows: 1 + the last miss, or 0.
    pub needed: u32,
    /// The log-probability of the suffix.
    pub ln_p: f64,
    /// The log-probability of sampling the suffix; none if it cannot be sampled.
    pub ln_p_z: Option<f64>,
    /// The smallest margin.
    pub min_margin: f64,
    /// Whether the verdict on extraction changes when every margin of at most the tolerance changes sign.
    pub close: bool,
    /// How many positions tie exactly for the largest logit.
    pub ties: u32,
}

impl WindowScore {
    /// Scores a suffix; margins of at most `tolerance` are close.
    pub fn new(tokens: &[u32], scores: &[PositionScore], tolerance: f64) -> Self {
        debug_assert_eq!(tokens.len(), scores.len());
        let hit = |i: usize| scores[i].top == tokens[i];
        let m = tokens.len();
        let misses = || (0..m).filter(|&i| !hit(i));
        let ln_p_z: f64 = scores.iter().map(|s| s.log_prob_sampled).sum();
        let min_margin = scores.iter().map(|s| s.margin).fold(f64::INFINITY, f64::min);
        let last = misses().next_back();
        Self {
            suffix: m as u32,
            hits: (m - misses().count()) as u32,
            first: misses().next().unwrap_or(m) as u32,
            needed: last.map_or(0, |i| i as u32 + 1),
            ln_p: scores.iter().map(|s| s.log_prob).sum(),
            ln_p_z: ln_p_z.is_finite().then_some(ln_p_z),
            min_margin,
            close: match last {
                None => min_margin <= tolerance,
                Some(_) => misses().all(|i| scores[i].margin >= -tolerance),
            },
            ties: scores.iter().filter(|s| s.margin == 0.0).count() as u32,
        }
    }

    /// Whether the suffix follows from the prefix, token for token, under greedy decoding.
    pub fn extractable(&self) -> bool {
        self.needed == 0
    }

    /// The share of hits.
    pub fn teacher_forced_accuracy(&self) -> f64 {
        f64::from(self.hits) / f64::from(self.suffix)
    }

    /// The share of the suffix that follows from the rest.
    pub fn extraction_strength(&self) -> f64 {
        1.0 - f64::from(self.needed) / f64::from(self.suffix)
    }

    /// The probability of sampling the suffix.
    pub fn p_z(&self) -> f64 {
        self.ln_p_z.map_or(0.0, f64::exp)
    }
}

/// The fewest samples of which at least one is the suffix with probability `p`: n with 1 - (1 - p_z)^n >= p. None if no number is
/// enough, because p_z is 0.
///
/// ```
/// use byrote::audit::draws_needed;
/// assert_eq!(draws_needed(0.5, Some(0.5f64.ln())), Some(1.0));
/// assert_eq!(draws_needed(0.75, Some(0.5f64.ln())), Some(2.0));
/// assert_eq!(draws_needed(0.5, None), None);
/// ```
pub fn draws_needed(p: f64, ln_p_z: Option<f64>) -> Option<f64> {
    let ln_p_z = ln_p_z?;
    let p_z = ln_p_z.exp();
    if p_z >= 1.0 {
        return Some(1.0);
    }
    // For p_z below the precision of 1 - p_z, ln(1 - p_z) is -p_z; for p_z that underflows, the number exceeds every double.
    let n = (-p).ln_1p() / (-p_z).ln_1p();
    let n = if n.is_finite() { n } else { (-(-p).ln_1p()).ln() - ln_p_z };
    if p_z == 0.0 {
        return Some(n.exp());
    }
    // A product of roundings must not push an exact solution to the next integer.
    Some((n - 1e-12 * n.max(1.0)).ceil().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(margin: f64, sampled: f64) -> PositionScore {
        PositionScore {
            log_prob: -0.5,
            log_prob_sampled: sampled,
            margin,
            rank: u32::from(margin < 0.0),
            top: if margin > 0.0 { 7 } else { 3 },
            mean_log_prob: -1.0,
            sd_log_prob: 1.0,
        }
    }

    #[test]
    fn a_window_of_hits_is_extractable_and_one_miss_says_where() {
        let hits = [score(1.0, -0.1), score(2.0, -0.2)];
        let all = WindowScore::new(&[7, 7], &hits, 1e-3);
        assert!(all.extractable() && !all.close && all.extraction_strength() == 1.0);
        assert_eq!((all.first, all.hits, all.min_margin), (2, 2, 1.0));
        assert!((all.p_z() - (-0.3f64).exp()).abs() < 1e-15);
        let miss = [hits[0], score(-0.5, -3.0), hits[1], hits[1]];
        let some = WindowScore::new(&[7; 4], &miss, 1e-3);
        assert!(!some.extractable() && !some.close);
        assert_eq!((some.first, some.hits, some.needed), (1, 3, 2));
        assert_eq!((some.teacher_forced_accuracy(), some.extraction_strength()), (0.75, 0.5));
    }

    #[test]
    fn verdicts_within_the_tolerance_are_close() {
        let near = |margin| WindowScore::new(&[7, 7], &[score(1.0, -0.1), score(margin, -0.1)], 0.01).close;
        assert!(near(0.01) && near(-0.01) && !near(0.011) && !near(-0.011));
        let two = [score(-0.001, 0.0), score(-0.5, 0.0)];
        assert!(!WindowScore::new(&[7, 7], &two, 0.01).close, "one miss is far");
        assert_eq!(WindowScore::new(&[7], &[score(0.0, -0.7)], 0.0).ties, 1);
    }

    #[test]
    fn what_cannot_be_sampled_has_no_probability() {
        let scores = [score(1.0, -0.1), score(-9.0, f64::NEG_INFINITY)];
        let window = WindowScore::new(&[7, 7], &scores, 0.0);
        assert_eq!((window.ln_p_z, window.p_z()), (None, 0.0));
        assert!(window.ln_p.is_finite());
    }

    #[test]
    fn draws_are_counted_at_the_ends_of_the_range() {
        assert_eq!(draws_needed(0.9, Some(0.0)), Some(1.0));
        assert_eq!(draws_needed(0.5, Some((1.0 - 2f64.powi(-53)).ln())), Some(1.0));
        let tiny = draws_needed(0.5, Some(1e-300f64.ln())).unwrap();
        assert!((tiny / (2f64.ln() * 1e300) - 1.0).abs() < 1e-9, "{tiny}");
        assert_eq!(draws_needed(0.5, Some(-1e6)), Some(f64::INFINITY));
        // 1 - (1 - 1/10)^n >= 1/2 from n = 7 on: 0.9^6 = 0.531, 0.9^7 = 0.478.
        assert_eq!(draws_needed(0.5, Some(0.1f64.ln())), Some(7.0));
    }

    #[test]
    fn more_draws_reach_more_and_a_higher_probability_takes_more() {
        for ln_p_z in [-0.01, -1.0, -5.0, -40.0] {
            let needed: Vec<f64> =
                [0.1, 0.5, 0.9, 0.99].map(|p| draws_needed(p, Some(ln_p_z)).unwrap()).into();
            assert!(needed.is_sorted(), "{needed:?}");
            let p_z = f64::exp(ln_p_z);
            let reached = |n: f64| -(n * (-p_z).ln_1p()).exp_m1();
            assert!(
                reached(needed[1]) >= 0.5 - 1e-9
                    && (needed[1] == 1.0 || reached(needed[1] - 1.0) < 0.5 + 1e-9)
            );
        }
    }
}
