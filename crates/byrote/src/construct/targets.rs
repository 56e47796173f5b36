//! The logits that a memorizing transformer should have.
//!
//! A next-token distribution P with zeros has no finite logits, so it is smoothed. With omega tokens,
//!
//! ```text
//! Q = (1 - omega eps) P + eps        Y = ln Q - ln eps
//! ```
//!
//! Adding a constant to the logits of a context changes nothing. This choice makes the logits of tokens that never
//! follow equal to 0, so Y is sparse and nonnegative. A context of count c with s next tokens then contributes about c
//! (omega - s) eps to the gap; eps follows from the requested gap,
//!
//! ```text
//! eps = 0.9 gap / sum_i c_i (omega - s_i),
//! ```
//!
//! and KL(P || Q) <= -ln(1 - omega eps) for every context. If every token follows every context, no smoothing is
//! needed: Y = ln P - ln min P.

use crate::dataset::Dataset;
use crate::units::{AtLeast, Nats};
use crate::{Error, Result};

/// Sparse target logits, one list per context.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// The smallest probability of a token; 0 if no smoothing was needed.
    pub eps: f64,
    starts: Vec<usize>,
    entries: Vec<(u32, f64)>,
}

impl Targets {
    /// Computes the targets of a dataset for a total gap of at most `gap`.
    pub fn new(dataset: &Dataset, gap: Nats) -> Result<Self> {
        if !(gap.0 > 0.0 && gap.0.is_finite()) {
            return Err(Error::setting("gap", format!("must be finite and above 0 nats (got {})", gap.0)));
        }
        let omega = dataset.d_vocab() as f64;
        let missing: f64 =
            (0..dataset.len()).map(|i| dataset.counts[i] * (omega - dataset.next_of(i).len() as f64)).sum();
        let eps = if missing > 0.0 { 0.9 * gap.0 / missing } else { 0.0 };
        if omega * eps >= 0.5 {
            // Rounded down, so that the limit that is printed is accepted.
            let most = AtLeast::computed(0.5 * missing / (0.9 * omega));
            let message = format!("must be at most {most:.3e} nats for this corpus (got {})", gap.0);
            return Err(Error::setting("gap", message));
        }
        if missing > 0.0 && eps < 1e-290 {
            return Err(Error::setting(
                "gap",
                format!("is too small for double precision (got {:e})", gap.0),
            ));
        }
        let (mut starts, mut entries) = (vec![0], Vec::with_capacity(dataset.next.len()));
        for i in 0..dataset.len() {
            let (next, count) = (dataset.next_of(i), dataset.counts[i]);
            let least = match eps > 0.0 {
                true => eps,
                false => next.iter().fold(f64::INFINITY, |m, &(_, n)| m.min(n / count)),
            };
            let scale = 1.0 - omega * eps;
            entries.extend(next.iter().map(|&(t, n)| (t, ((scale * n / count + eps) / least).ln())));
            let start = starts[i];
            entries[start..].sort_unstable_by_key(|e| e.0);
            starts.push(entries.len());
        }
        Ok(Self { eps, starts, entries })
    }

    /// Returns the nonzero logits of a context.
    pub fn of(&self, context: usize) -> &[(u32, f64)] {
        &self.entries[self.starts[context]..self.starts[context + 1]]
    }

    /// Returns the number of contexts.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are no contexts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the largest difference between a row of logits and the target.
    pub fn error_of(&self, context: usize, logits: &[f64]) -> f64 {
        let entries = self.of(context);
        let mut rest = entries.iter().peekable();
        let mut most = 0f64;
        for (token, &logit) in logits.iter().enumerate() {
            let target = rest.next_if(|e| e.0 as usize == token).map_or(0.0, |e| e.1);
            let error = (logit - target).abs();
            // NaN counts as the largest possible error.
            if error.is_nan() || error > most {
                most = error;
            }
            if most.is_nan() {
                return most;
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::examples::letters;
    use crate::model::reference::log_sum_exp;

    /// sum_i c_i KL(P_i || softmax of the targets).
    fn gap(dataset: &Dataset, d_vocab: u64, targets: &Targets) -> f64 {
        (0..dataset.len())
            .map(|i| {
                let mut logits = vec![0.0; d_vocab as usize];
                targets.of(i).iter().for_each(|&(t, y)| logits[t as usize] = y);
                let lse = log_sum_exp(&logits);
                let count = dataset.counts[i];
                let terms = dataset.next_of(i).iter();
                terms.map(|&(t, n)| n * ((n / count).ln() - logits[t as usize] + lse)).sum::<f64>()
            })
            .sum()
    }

    #[test]
    fn the_gap_asked_for_is_kept_and_nearly_used() {
        let (dataset, d_vocab) = letters("abc abd ace abc");
        for asked in [1e-2, 1e-4, 1e-8] {
            let targets = Targets::new(&dataset, Nats(asked)).unwrap();
            let found = gap(&dataset, d_vocab, &targets);
            assert!(found <= asked && found > 0.85 * asked, "{found} {asked}");
            assert!((0..targets.len()).all(|i| targets.of(i).iter().all(|&(_, y)| y > 0.0)));
        }
    }

    #[test]
    fn full_support_needs_no_smoothing() {
        // Two tokens, one context, followed by both.
        let (dataset, _) = letters("aa ab aa");
        let targets = Targets::new(&dataset, Nats(1e-9)).unwrap();
        assert_eq!(targets.eps, 0.0);
        assert_eq!(targets.of(0), [(0, 2f64.ln()), (1, 0.0)]);
    }

    #[test]
    fn impossible_gaps_are_refused() {
        let (dataset, _) = letters("abc abd");
        for gap in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9, 1e-300] {
            assert!(Targets::new(&dataset, Nats(gap)).is_err(), "{gap}");
        }
    }

    #[test]
    fn the_largest_gap_that_is_named_is_accepted() {
        for documents in ["abc abd", "abc abd ace abc", "abcab abdac caba bbdaa dab"] {
            let (dataset, _) = letters(documents);
            let refused = Targets::new(&dataset, Nats(1e9)).unwrap_err().to_string();
            let most = refused.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
            let most: f64 = most.parse().unwrap();
            assert!(Targets::new(&dataset, Nats(most)).is_ok(), "{documents}: {most}");
            assert!(Targets::new(&dataset, Nats(1.002 * most)).is_err(), "{documents}: {most}");
        }
    }

    #[test]
    fn an_error_that_is_not_a_number_is_seen() {
        let (dataset, d_vocab) = letters("abc abd");
        let targets = Targets::new(&dataset, Nats(1e-3)).unwrap();
        let mut logits = vec![0.0; d_vocab as usize];
        targets.of(0).iter().for_each(|&(t, y)| logits[t as usize] = y);
        assert_eq!(targets.error_of(0, &logits), 0.0);
        logits[0] = f64::NAN;
        assert!(targets.error_of(0, &logits).is_nan());
    }
}
