//! Proofs that the mixer maps the contexts of a corpus to different vectors.
//!
//! Theorems 4 (self-attention) and 6 (token averaging) of madden2024 (arXiv:2405.13718v1) say that for almost all parameters
//! the mixer maps different contexts to different numbers. Theorems 5 and 7 need a little more: different *absolute values*
//! (docs/errata.md, E2 and E3). For given parameters and contexts this can be checked: the sorted enclosures of the
//! absolute values must not touch. Each coordinate of the mixer's output is tried, and the one with the widest smallest gap is
//! reported, between absolute values if some coordinate separates them and between values otherwise.

use super::interval::Interval;
use super::mixer_enclosure::Enclosures;
use crate::units::AtLeast;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// What is proven about one coordinate of the mixer's output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Injectivity {
    /// The coordinate with the widest gap.
    pub coordinate: usize,
    /// Whether the values of all contexts in it are proven to differ.
    pub distinct: bool,
    /// A lower bound on the smallest distance between two values; not positive if none is proven.
    pub smallest_gap_lower_bound: AtLeast,
    /// Whether the absolute values of all contexts in it are proven to differ.
    pub distinct_absolute_values: bool,
    /// A lower bound on the smallest distance between two absolute values.
    pub smallest_absolute_gap_lower_bound: AtLeast,
}

impl Injectivity {
    /// Finds the coordinate that separates the contexts best.
    pub fn of(mixed: &Enclosures) -> Self {
        let coordinates: Vec<Self> = (0..mixed.d_model())
            .into_par_iter()
            .map(|coordinate| Self::in_coordinate(mixed, coordinate))
            .collect();
        let none = Self {
            coordinate: 0,
            distinct: mixed.len() < 2,
            smallest_gap_lower_bound: AtLeast(0.0),
            distinct_absolute_values: mixed.len() < 2,
            smallest_absolute_gap_lower_bound: AtLeast(0.0),
        };
        coordinates
            .into_iter()
            .reduce(|a, b| {
                // Compare absolute values if some coordinate proves that they differ, and plain values otherwise.
                let proven = a.distinct_absolute_values || b.distinct_absolute_values;
                let gap = |x: &Self| match proven {
                    true => x.smallest_absolute_gap_lower_bound,
                    false => x.smallest_gap_lower_bound,
                };
                if gap(&b) > gap(&a) { b } else { a }
            })
            .unwrap_or(none)
    }

    fn in_coordinate(mixed: &Enclosures, coordinate: usize) -> Self {
        let values = || {
            (0..mixed.len()).map(|i| {
                let entry = mixed.of(i)[coordinate];
                Interval::around(entry.centre, entry.radius)
            })
        };
        let plain = smallest_gap(values().map(|x| (x.lo, x.hi)).collect());
        let absolute = smallest_gap(values().map(Interval::magnitudes).collect());
        Self {
            coordinate,
            distinct: plain > 0.0,
            smallest_gap_lower_bound: AtLeast(plain),
            distinct_absolute_values: absolute > 0.0,
            smallest_absolute_gap_lower_bound: AtLeast(absolute),
        }
    }
}

/// A lower bound on the smallest distance between numbers in these intervals; infinite if there are fewer than two.
fn smallest_gap(mut intervals: Vec<(f64, f64)>) -> f64 {
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut reached = f64::NEG_INFINITY;
    let mut gap = f64::INFINITY;
    for (lo, hi) in intervals {
        if reached > f64::NEG_INFINITY {
            gap = gap.min((lo - reached).next_down());
        }
        reached = reached.max(hi);
    }
    gap
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_those_between_intervals() {
        assert_eq!(smallest_gap(vec![(1.0, 1.5)]), f64::INFINITY);
        let gap = smallest_gap(vec![(3.0, 3.5), (1.0, 1.5), (2.0, 2.25)]);
        assert!(gap <= 0.5 && gap > 0.499);
        // One interval covers the others.
        assert!(smallest_gap(vec![(0.0, 9.0), (1.0, 1.0), (4.0, 5.0)]) < 0.0);
    }
}
