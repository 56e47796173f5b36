//! Whether residuals have a pattern: those of the right law are noise.
//!
//! - Where sizes were measured several times, *lack of fit*: F = (sum_k n_k rbar_k^2 / (m - p)) / (sum (r - rbar_k)^2 / (n - m))
//!   compares the mean residuals of the m sizes with the scatter within them; Fisher's law gives the probability of a ratio this large.
//! - Otherwise, and for robust fits, *runs* (Wald and Wolfowitz, Ann. Math. Stat. 11, 1940): residuals in order of size
//!   change sign too seldom when the curve is of the wrong form. The probability of this number of runs or fewer is exact.
//!
//! `deviation` is the size of the pattern as a part of the range of the measurements, so that negligible patterns can be
//! ignored.

use super::tails::fisher_tail;
use serde::Serialize;

/// The test for a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternTest {
    /// Means of sizes against the scatter within sizes.
    LackOfFit,
    /// Changes of sign along the sizes.
    Runs,
}

/// The pattern in the residuals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ResidualPattern {
    /// The test that was used.
    pub test: PatternTest,
    /// The probability of a pattern this strong under the right law; none if there are too few sizes for the test.
    pub probability: Option<f64>,
    /// The root mean square of the mean residuals of the sizes, divided by the range of the measurements.
    pub deviation: f64,
    /// The probability that residuals of one group (seed) agree as much as they do if groups did not matter. When it is small,
    /// points of a group carry less information than independent ones, and AICc is overconfident.
    pub groups: Option<f64>,
}

/// A residual with its size and group: z - f on the scale of the fit, times the square root of the weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub x: f64,
    pub group: u64,
    pub residual: f64,
}

/// Looks for a pattern in residuals that are ordered by x; `range` is that of the measurements on the scale of the fit.
pub(super) fn structure(placed: &[Placed], n_parameters: usize, range: f64, robust: bool) -> ResidualPattern {
    let means: Vec<(f64, usize)> = placed
        .chunk_by(|p, q| p.x == q.x)
        .map(|size| (size.iter().map(|p| p.residual).sum::<f64>() / size.len() as f64, size.len()))
        .collect();
    let (n, m) = (placed.len(), means.len());
    let square = |v: f64| v * v;
    let between: f64 = means.iter().map(|&(mean, count)| count as f64 * square(mean)).sum();
    let all: f64 = placed.iter().map(|p| square(p.residual)).sum();
    let deviation = if range > 0.0 { (between / n as f64).sqrt() / range } else { 0.0 };
    let groups = group_effect(placed);
    if n > m && m > n_parameters && !robust {
        let (free, within) = ((m - n_parameters) as f64, (n - m) as f64);
        let pure = (all - between).max(0.0);
        let probability = match pure > 0.0 {
            true => fisher_tail((between / free) / (pure / within), free, within),
            false => f64::from(u8::from(between == 0.0)),
        };
        return ResidualPattern {
            test: PatternTest::LackOfFit,
            probability: Some(probability),
            deviation,
            groups,
        };
    }
    let signs: Vec<bool> =
        means.iter().filter(|(mean, _)| *mean != 0.0).map(|(mean, _)| *mean > 0.0).collect();
    ResidualPattern { test: PatternTest::Runs, probability: runs(&signs), deviation, groups }
}

/// The probability of this number of runs or fewer among all orders of the signs; none when all signs are equal.
fn runs(signs: &[bool]) -> Option<f64> {
    let plus = signs.iter().filter(|s| **s).count();
    let minus = signs.len() - plus;
    if plus == 0 || minus == 0 {
        return None;
    }
    let seen = 1 + signs.windows(2).filter(|w| w[0] != w[1]).count();
    let ln_choose = |n: usize, k: usize| {
        if k > n {
            return f64::NEG_INFINITY;
        }
        let ln_factorial = |v: usize| libm::lgamma(v as f64 + 1.0);
        ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
    };
    let orders = ln_choose(plus + minus, plus);
    let product = |p: usize, q: usize| libm::exp(ln_choose(plus - 1, p) + ln_choose(minus - 1, q) - orders);
    let probability = |r: usize| match r % 2 {
        0 => 2.0 * product(r / 2 - 1, r / 2 - 1),
        _ => product(r / 2, r / 2 - 1) + product(r / 2 - 1, r / 2),
    };
    Some((2..=seen).map(probability).sum::<f64>().min(1.0))
}

/// Fisher's test of the mean residuals of the groups.
fn group_effect(placed: &[Placed]) -> Option<f64> {
    let mut sorted: Vec<Placed> = placed.to_vec();
    sorted.sort_by_key(|p| p.group);
    let n = sorted.len();
    let mean = sorted.iter().map(|p| p.residual).sum::<f64>() / n as f64;
    let (mut between, mut within, mut groups) = (0.0, 0.0, 0);
    for group in sorted.chunk_by(|p, q| p.group == q.group) {
        let own = group.iter().map(|p| p.residual).sum::<f64>() / group.len() as f64;
        between += group.len() as f64 * (own - mean) * (own - mean);
        within += group.iter().map(|p| (p.residual - own) * (p.residual - own)).sum::<f64>();
        groups += 1;
    }
    if groups < 2 || n <= groups || within <= 0.0 {
        return None;
    }
    let (free, rest) = ((groups - 1) as f64, (n - groups) as f64);
    Some(fisher_tail((between / free) / (within / rest), free, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(values: &[(f64, u64, f64)]) -> Vec<Placed> {
        values.iter().map(|&(x, group, residual)| Placed { x, group, residual }).collect()
    }

    #[test]
    fn runs_are_counted_exactly() {
        let signs = |text: &str| text.chars().map(|c| c == '+').collect::<Vec<_>>();
        let near = |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < 1e-12);
        // Of the C(6, 3) = 20 orders 2 have two runs, and 4 have three.
        near(runs(&signs("+++---")), 2.0 / 20.0);
        near(runs(&signs("+---++")), 6.0 / 20.0);
        near(runs(&signs("+-+-+-")), 1.0);
        // Five and five, three runs: (2 + 8) / 252.
        near(runs(&signs("++-----+++")), 10.0 / 252.0);
        // One against four: two of five orders have two runs.
        near(runs(&signs("+----")), 2.0 / 5.0);
        assert_eq!(runs(&signs("++++")), None);
    }

    #[test]
    fn lack_of_fit_is_the_textbook_ratio() {
        // Means 1, -1, 0.5 of two each, scatter 0.1 about each: between = 2 (1 + 1 + 0.25) = 4.5, within = 6 * 0.01,
        // F = (4.5 / 1) / (0.06 / 3) = 225 for p = 2.
        let points = placed(&[
            (1.0, 0, 1.1),
            (1.0, 1, 0.9),
            (2.0, 0, -1.1),
            (2.0, 1, -0.9),
            (3.0, 0, 0.6),
            (3.0, 1, 0.4),
        ]);
        let found = structure(&points, 2, 10.0, false);
        assert_eq!(found.test, PatternTest::LackOfFit);
        assert!((found.probability.unwrap() - fisher_tail(225.0, 1.0, 3.0)).abs() < 1e-12);
        assert!((found.deviation - (4.5f64 / 6.0).sqrt() / 10.0).abs() < 1e-15);
        assert_eq!(structure(&points, 2, 10.0, true).test, PatternTest::Runs);
    }

    #[test]
    fn groups_with_shared_errors_are_detected() {
        let apart = placed(&[
            (1.0, 0, 1.0),
            (1.0, 1, -1.1),
            (2.0, 0, 0.9),
            (2.0, 1, -1.0),
            (3.0, 0, 1.1),
            (3.0, 1, -0.9),
        ]);
        assert!(structure(&apart, 1, 1.0, false).groups.unwrap() < 1e-4);
        let mixed = placed(&[(1.0, 0, 1.0), (1.0, 1, -1.1), (2.0, 0, -0.9), (2.0, 1, 1.0)]);
        assert!(structure(&mixed, 1, 1.0, false).groups.unwrap() > 0.5);
        assert_eq!(structure(&placed(&[(1.0, 0, 1.0), (2.0, 0, 2.0)]), 1, 1.0, false).groups, None);
    }
}
