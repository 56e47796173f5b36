//! Inverting a bound: a bound says how many parameters n contexts take, a user asks how many contexts k parameters
//! hold.
//!
//! Counts are searched in 128 bits: a square-root bound gives k parameters about k^2 contexts, which no longer fit
//! into 64 bits from k = 2^32 on.

/// The least x for which `holds`, where `holds` is false up to some point and true from there on.
pub(super) fn least(holds: impl Fn(u128) -> bool) -> Option<u128> {
    let (mut low, mut high) = (0, u128::MAX);
    if !holds(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// The most contexts, at least one, whose `cost` does not exceed `budget`, where `cost` never falls; `None` if not
/// even one is affordable, or if any number is.
pub(super) fn affordable(budget: u128, cost: impl Fn(u128) -> u128) -> Option<u128> {
    least(|n| n > 0 && cost(n) > budget)?.checked_sub(1).filter(|&n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_found_at_both_ends_and_between() {
        assert_eq!(least(|_| true), Some(0));
        assert_eq!(least(|_| false), None);
        assert_eq!(least(|x| x == u128::MAX), Some(u128::MAX));
        assert_eq!(least(|x| x >= 12_345), Some(12_345));
    }

    #[test]
    fn what_is_affordable_just_fits_the_budget() {
        assert_eq!(affordable(100, |n| n.saturating_mul(7)), Some(14));
        assert_eq!(affordable(98, |n| n.saturating_mul(7)), Some(14));
        assert_eq!(affordable(6, |n| n.saturating_mul(7)), None);
        assert_eq!(affordable(1 << 40, |n| n.isqrt()), Some((1 << 80) + (1 << 41)));
    }

    #[test]
    fn what_costs_nothing_has_no_last_context() {
        assert_eq!(affordable(0, |_| 0), None);
    }
}
