//! Turning a bound round: a bound says what n contexts cost, a user asks how many contexts k parameters buy.

/// The least x for which `holds`, where `holds` is false up to some point and true from there on.
pub(super) fn least(holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (0, u64::MAX);
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

/// The most contexts, at least one, that cost no more than `budget`, where `cost` never falls.
pub(super) fn affordable(budget: u128, cost: impl Fn(u64) -> u128) -> Option<u64> {
    let too_many = least(|n| n > 0 && cost(n) > budget);
    too_many.map_or(Some(u64::MAX), |n| n.checked_sub(1)).filter(|&n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_found_at_both_ends_and_between() {
        assert_eq!(least(|_| true), Some(0));
        assert_eq!(least(|_| false), None);
        assert_eq!(least(|x| x == u64::MAX), Some(u64::MAX));
        assert_eq!(least(|x| x >= 12_345), Some(12_345));
    }

    #[test]
    fn what_is_affordable_just_fits_the_budget() {
        assert_eq!(affordable(100, |n| 7 * u128::from(n)), Some(14));
        assert_eq!(affordable(98, |n| 7 * u128::from(n)), Some(14));
        assert_eq!(affordable(6, |n| 7 * u128::from(n)), None);
        assert_eq!(affordable(0, |_| 0), Some(u64::MAX));
    }
}
