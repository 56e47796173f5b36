//! The Kruskal rank from the independence of column subsets.

use super::RankRange;

/// How many subsets may be examined.
pub(super) type Budget = u64;

/// Whether some columns are independent: a proof of either, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubsetVerdict {
    Independent,
    Dependent,
    Unknown,
}

/// Binomial coefficient, at most `u64::MAX`.
pub(super) fn choose(n: usize, k: usize) -> u64 {
    let mut product = 1u128;
    for i in 0..k.min(n - k.min(n)) {
        product = product * (n - i) as u128 / (i + 1) as u128;
        if product > u64::MAX.into() {
            return u64::MAX;
        }
    }
    if k > n { 0 } else { product as u64 }
}

/// The next subset of 0..n of the same size, in order; `false` after the last.
fn advance(subset: &mut [usize], n: usize) -> bool {
    let k = subset.len();
    let Some(i) = (0..k).rev().find(|&i| subset[i] < n - k + i) else { return false };
    let start = subset[i] + 1;
    subset[i..].iter_mut().zip(start..).for_each(|(s, v)| *s = v);
    true
}

/// Whether every subset of size k is independent, up to the first that is not known to be.
fn all(n: usize, k: usize, judge: &mut impl FnMut(&[usize]) -> SubsetVerdict) -> SubsetVerdict {
    let mut subset: Vec<usize> = (0..k).collect();
    loop {
        let verdict = judge(&subset);
        if verdict != SubsetVerdict::Independent || !advance(&mut subset, n) {
            return verdict;
        }
    }
}

/// The Kruskal rank of n columns, known to be at most `upper`.
pub(super) fn kruskal(
    n: usize,
    upper: usize,
    budget: Budget,
    mut judge: impl FnMut(&[usize]) -> SubsetVerdict,
) -> RankRange {
    let mut upper = upper.min(n);
    // Independence passes to subsets: the largest size alone decides, where it can be afforded.
    if upper > 0 && choose(n, upper) <= budget / 4 && all(n, upper, &mut judge) == SubsetVerdict::Independent
    {
        return RankRange::exactly(upper);
    }
    let (mut lower, mut left) = (0, budget);
    for k in 1..=upper {
        let count = choose(n, k);
        if count > left {
            break;
        }
        left -= count;
        match all(n, k, &mut judge) {
            SubsetVerdict::Independent => lower = k,
            SubsetVerdict::Dependent => {
                upper = k - 1;
                break;
            }
            SubsetVerdict::Unknown => break,
        }
    }
    RankRange { lower, upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_counted_and_listed() {
        assert_eq!((choose(5, 2), choose(5, 0), choose(5, 6), choose(1000, 500)), (10, 1, 0, u64::MAX));
        let mut seen = 0;
        all(6, 3, &mut |s: &[usize]| {
            assert!(s.windows(2).all(|w| w[0] < w[1]) && s[2] < 6);
            seen += 1;
            SubsetVerdict::Independent
        });
        assert_eq!(seen, 20);
    }

    #[test]
    fn the_smallest_dependent_set_decides() {
        // Columns 1, 4 and 5 are dependent, nothing else of at most three.
        let judge = |s: &[usize]| match s.len() > 3 || [1, 4, 5].iter().all(|c| s.contains(c)) {
            true => SubsetVerdict::Dependent,
            false => SubsetVerdict::Independent,
        };
        assert_eq!(kruskal(7, 7, 10_000, judge), RankRange::exactly(2));
        assert_eq!(kruskal(7, 7, 20, judge), RankRange { lower: 1, upper: 7 });
        assert_eq!(kruskal(3, 5, 100, judge), RankRange::exactly(3));
        assert_eq!(kruskal(4, 4, 100, |_| SubsetVerdict::Unknown), RankRange { lower: 0, upper: 4 });
    }
}
