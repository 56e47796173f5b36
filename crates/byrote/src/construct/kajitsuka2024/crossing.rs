//! The number of facts above which the network has fewer parameters than facts.
//!
//! The number of parameters P(N) grows like sqrt(N log N) with an overhead, so it starts above N and ends below it. The
//! crossing depends on how parameters are counted: a dense count is about three times the count of non-zero weights.

use super::build::{Settings, build};
use super::pairs::Switches;
use super::task::{Goal, Samples, Visibility};
use crate::Result;
use crate::corpus::random::Associations;
use crate::model::{Counting, ParameterCount};
use crate::observe::Observer;
use std::ops::RangeInclusive;

/// The random facts of the scaling experiment: contexts of 1 to 8 tokens out of 50, each with one of 10 labels.
pub fn random_facts(facts: usize, seed: u64) -> Result<Samples> {
    random_facts_of(facts, 1..=8, seed)
}

/// The same for contexts of these lengths.
pub fn random_facts_of(facts: usize, lengths: RangeInclusive<usize>, seed: u64) -> Result<Samples> {
    let longest = *lengths.end();
    let associations = Associations::new(facts, 50, lengths, 10, seed)?;
    let list: Vec<Vec<u32>> = associations.draw().collect();
    let switches = Switches { goal: Goal::Next, attention: Visibility::Causal, padded: false };
    let task = switches.task(50, longest, 10);
    let pairs =
        list.iter().filter_map(|d| d.split_last_chunk::<1>()).map(|(context, label)| (context, &label[..]));
    Ok(Samples::new(task, pairs)?)
}

/// The smallest N that bisection finds with fewer parameters than facts, all tables included, to within 1%.
///
/// `count` gives the parameters for N facts. P(N) is only nearly monotone, so a neighbouring N may cross earlier.
pub fn crossing(counting: Counting, mut count: impl FnMut(usize) -> Result<ParameterCount>) -> Result<usize> {
    let mut fewer = |n: usize| Ok::<bool, crate::Error>(count(n)?.total(counting) < n as u128);
    let (mut low, mut high) = (0, 64);
    while !fewer(high)? {
        (low, high) = (high, 2 * high);
    }
    while high - low > (high / 100).max(1) {
        let middle = low + (high - low) / 2;
        match fewer(middle)? {
            true => high = middle,
            false => low = middle,
        }
    }
    Ok(high)
}

/// The crossing of random facts ([`random_facts`]), with networks that are built and verified.
pub fn measured_crossing(counting: Counting, seed: u64, observer: &dyn Observer) -> Result<usize> {
    crossing(counting, |n| {
        let settings = Settings { seed, ..Settings::default() };
        Ok(build(&random_facts(n, seed)?, &settings, observer)?.parameters())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;

    #[test]
    fn bisection_finds_the_first_size_of_a_growing_count() {
        // P(N) = 30 sqrt(N) < N from N = 901 on; dense 60 sqrt(N) from N = 3601 on.
        let count = |n: usize| {
            let root = (n as f64).sqrt();
            let [nonzero, dense] = [30.0 * root, 60.0 * root].map(|p| p.ceil() as u128);
            Ok(ParameterCount { nonzero, dense, ..ParameterCount::default() })
        };
        let found = Counting::ALL.map(|counting| crossing(counting, count).unwrap());
        assert!((901..=909).contains(&found[0]) && (3_601..=3_637).contains(&found[1]), "{found:?}");
    }

    #[test]
    fn random_facts_cross_at_the_sizes_that_the_documentation_states() {
        let found = Counting::ALL.map(|counting| measured_crossing(counting, 0, &Silent).unwrap());
        assert_eq!(found, [408, 2_304]);
    }
}
