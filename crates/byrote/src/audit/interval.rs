//! Intervals for shares of windows, and how well scores tell two sets of documents apart.
//!
//! Windows of one document are not independent, so documents are drawn, not windows: 1,000 draws of as many documents, with
//! replacement, and the 2.5% and 97.5% quantiles of the share. With fewer than ten documents there is too little to draw from; if
//! windows do not overlap in what they score, Wilson's interval over windows is given instead, and otherwise none.

use crate::num::Stream;
use serde::{Deserialize, Serialize};

/// An interval of 95% and how it was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShareInterval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How it was found.
    pub method: IntervalMethod,
}

/// How an interval was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntervalMethod {
    /// By drawing documents.
    Documents,
    /// By Wilson's formula over windows.
    Wilson,
}

/// The fewest documents to draw from.
const FEWEST: usize = 10;
const DRAWS: u64 = 1000;

/// The interval of a share, given successes and trials per document.
pub fn share_interval(documents: &[(f64, f64)], overlapping: bool, seed: u64) -> Option<ShareInterval> {
    let with_windows: Vec<(f64, f64)> = documents.iter().copied().filter(|(_, n)| *n > 0.0).collect();
    let documents = with_windows.as_slice();
    let trials: f64 = documents.iter().map(|d| d.1).sum();
    if documents.len() < FEWEST {
        if overlapping || trials == 0.0 {
            return None;
        }
        let (low, high) = wilson(documents.iter().map(|d| d.0).sum(), trials);
        return Some(ShareInterval { low, high, method: IntervalMethod::Wilson });
    }
    let mut shares: Vec<f64> = (0..DRAWS)
        .map(|i| {
            let mut stream = Stream::new(seed, "audit interval", i);
            let drawn =
                (0..documents.len()).map(|_| documents[stream.below(documents.len() as u64) as usize]);
            let (hits, n) = drawn.fold((0.0, 0.0), |(a, b), (hits, n)| (a + hits, b + n));
            hits / n
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    let at = |q: f64| shares[(q * (DRAWS - 1) as f64).round() as usize];
    Some(ShareInterval { low: at(0.025), high: at(0.975), method: IntervalMethod::Documents })
}

/// Wilson's interval for a share of `k` out of `n`.
pub fn wilson(k: f64, n: f64) -> (f64, f64) {
    if n == 0.0 {
        return (0.0, 1.0);
    }
    let z = 1.959_963_984_540_054_f64;
    let (p, d) = (k / n, 1.0 + z * z / n);
    let centre = (p + z * z / (2.0 * n)) / d;
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / d;
    // Rounding must not move an end that is exactly 0 or 1.
    let low = if k == 0.0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if k == n { 1.0 } else { (centre + half).min(1.0) };
    (low, high)
}

/// The probability that one of `above` is larger than one of `below`; ties count half. None if one of the two is empty.
pub fn auroc(above: &[f64], below: &[f64]) -> Option<f64> {
    let mut sorted = below.to_vec();
    sorted.sort_by(f64::total_cmp);
    let wins = |x: &f64| sorted.partition_point(|y| y < x) + sorted.partition_point(|y| y <= x);
    let twice: usize = above.iter().map(wins).sum();
    let pairs = above.len() * below.len();
    (pairs > 0).then(|| twice as f64 / (2 * pairs) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_is_the_published_formula() {
        let (low, high) = wilson(38.0, 78.0);
        assert!((low - 0.379489519).abs() < 1e-7 && (high - 0.596072989).abs() < 1e-7, "{low} {high}");
        let (low, high) = wilson(0.0, 399.0);
        assert!(low == 0.0 && (high - 0.00953590748).abs() < 1e-8);
        assert!(
            (1..200)
                .all(|n| wilson(0.0, f64::from(n)).0 == 0.0 && wilson(f64::from(n), f64::from(n)).1 == 1.0)
        );
    }

    #[test]
    fn intervals_hold_the_share_and_widen_when_documents_differ() {
        let even = vec![(5.0, 10.0); 40];
        let found = share_interval(&even, true, 0).unwrap();
        assert_eq!((found.low, found.high, found.method), (0.5, 0.5, IntervalMethod::Documents));
        let uneven: Vec<_> = (0..40).map(|i| (if i % 2 == 0 { 10.0 } else { 0.0 }, 10.0)).collect();
        let found = share_interval(&uneven, true, 0).unwrap();
        assert!(found.low < 0.4 && found.high > 0.6 && found.low > 0.2, "{found:?}");
        assert_eq!(share_interval(&uneven, true, 0), share_interval(&uneven, true, 0));
    }

    #[test]
    fn few_documents_get_wilson_or_nothing() {
        assert_eq!(share_interval(&[(1.0, 4.0)], true, 0), None);
        assert_eq!(share_interval(&[(1.0, 4.0)], false, 0).unwrap().method, IntervalMethod::Wilson);
        assert_eq!(share_interval(&[(0.0, 0.0); 20], false, 0), None);
    }

    #[test]
    fn auroc_counts_pairs_and_halves_ties() {
        assert_eq!(auroc(&[2.0, 3.0], &[1.0, 0.0]), Some(1.0));
        assert_eq!(auroc(&[1.0], &[1.0]), Some(0.5));
        assert_eq!(auroc(&[1.0, 3.0], &[2.0, 1.0]), Some((0.5 + 2.0) / 4.0));
        assert_eq!(auroc(&[], &[1.0]), None);
    }
}
