//! How much memory is free, so that a caller can decide how much of it work may take.

use sysinfo::System;

/// Memory assumed to be available for large matrices where the system does not say.
const UNKNOWN: u64 = 8 << 30;

/// The memory that is free, within the limit of this group of processes, in bytes; `None` where the system does not say.
pub fn free() -> Option<u64> {
    let mut system = System::new();
    system.refresh_memory();
    // On some systems only the unused memory is known, without what caches would give back.
    let free = system.available_memory().max(system.free_memory());
    let limited = match system.cgroup_limits() {
        Some(limits) => free.min(limits.total_memory.saturating_sub(limits.rss)),
        None => free,
    };
    (limited > 0).then_some(limited)
}

/// The default limit for reading a corpus: half of what is free.
pub fn share() -> Option<u64> {
    free().map(|free| (free / 2).max(64 << 20))
}

/// The limit for dense systems: what was asked for, or half of what is free.
pub fn for_matrices(asked: Option<u64>) -> u64 {
    asked.or_else(|| free().map(|free| free / 2)).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_known_and_sane() {
        let free = free().unwrap();
        assert!((1 << 20..1 << 50).contains(&free), "{free}");
        assert_eq!(for_matrices(Some(5)), 5);
    }
}
