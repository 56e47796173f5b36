//! The search for blocks: one linear hash per block, under which no slot may hold two labels.
//!
//! The facts are split into *classes*, consecutive ranges of ids. On block b the lookup computes H(x) = a_b x + c_(b,j) for a
//! fact of class j, an integer whose residue modulo 2^p selects the slot: all classes share the slope, and each has its own
//! offset and table. A block therefore holds a run of facts of every class, each as long as possible.
//!
//! Lines of neighbouring blocks must cross in the gap between the two runs: with D = H_b - H_(b-1) at the first id after the gap,
//! 1 <= |D| <= |a_b - a_(b-1)| gap - 1 and D has the sign of a_b - a_(b-1). Within that, slope and offsets are free. For each block
//! many slopes are drawn, for each slope and class many offsets; the longest run of every class is kept, and of all slopes the
//! one that advances most, where classes that lag behind count more. (Once a class is exhausted, its later lines cross
//! behind it.)
//!
//! Under a random hash n facts fit S slots with probability about exp(-c n^2 / (2 S)), c the chance that two facts have
//! different labels; so the best of T tries holds about sqrt(2 S ln T / c). A try ends at its first collision, after about
//! sqrt(S) facts: some ten nanoseconds.
//!
//! The slope has the sign that brings H back to 0, and |a| is at most 2^A over the ids that a run is expected to span, so
//! |H| stays near 2^A: this bounds the folds that undo it.

use super::context_map::Fact;
use super::halving::{CLOSED, Halving};
use crate::Result;
use crate::num::Stream;
use rayon::prelude::*;
use std::ops::Range;

/// A block: a slope, and a run of every class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedBlock {
    /// a_b.
    pub slope: i64,
    /// The runs.
    pub runs: Vec<FactRun>,
}

/// Consecutive facts of one class with the line of their hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactRun {
    /// The place of its first fact.
    pub start: usize,
    /// One after the place of its last fact.
    pub end: usize,
    /// An id at which the line is known.
    pub anchor: u64,
    /// H there.
    pub value: i64,
}

impl FactRun {
    /// H at an id, on a line of this slope.
    pub fn at(&self, id: u64, slope: i64) -> i128 {
        i128::from(self.value) + i128::from(slope) * (i128::from(id) - i128::from(self.anchor))
    }
}

/// The sizes of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchSizes {
    /// T: hashes tried per block.
    pub tries: u64,
    /// A: |H| stays near 2^A.
    pub reach_bits: u32,
}

/// Offsets tried for each slope and class.
const OFFSETS: u64 = 256;
/// Slopes that a thread tries at a time.
const LOT: u64 = 4;

/// Blocks for all facts, which are sorted by id and cut into these classes. `report` receives the number of facts that are
/// done; its error ends the search.
pub fn search(
    facts: &[Fact],
    classes: &[Range<usize>],
    plan: &Halving,
    effort: SearchSizes,
    seed: u64,
    report: &dyn Fn(usize) -> Result<()>,
) -> Result<Vec<HashedBlock>> {
    let mut blocks: Vec<HashedBlock> = Vec::new();
    let mut places: Vec<usize> = classes.iter().map(|c| c.start).collect();
    let mut expected = 2 * plan.slots.isqrt() + 1;
    loop {
        let done: usize = places.iter().zip(classes).map(|(p, c)| p - c.start).sum();
        if done == facts.len() {
            return Ok(blocks);
        }
        report(done)?;
        let key = Stream::new(seed, "kajitsuka2024 hashes", blocks.len() as u64).next_u64();
        let block = BlockSearch::new(facts, classes, &places, blocks.last(), plan, effort, expected, key)
            .best(effort.tries);
        let longest = block.runs.iter().map(|r| r.end - r.start).max().unwrap_or(0);
        expected = (expected + longest).div_ceil(2).max(1);
        places = block.runs.iter().map(|r| r.end).collect();
        blocks.push(block);
    }
}

/// The contribution of one class to a block.
struct Entry<'a> {
    /// The remaining facts, or as many of them as could matter.
    left: &'a [Fact],
    /// The number of remaining facts.
    remaining: usize,
    start: usize,
    /// Ids minus the first one, modulo 2^32.
    offsets: Vec<u32>,
    /// The previous line at the first remaining id, and the gap to that id; if none remains, at the last id of all.
    value: i64,
    gap: u64,
    anchor: u64,
}

/// The search for one block.
struct BlockSearch<'a> {
    plan: &'a Halving,
    key: u64,
    sign: i64,
    most_slope: u64,
    /// The slope of the previous block.
    before: Option<i64>,
    entries: Vec<Entry<'a>>,
}

impl<'a> BlockSearch<'a> {
    #[allow(clippy::too_many_arguments)] // All of one block.
    fn new(
        facts: &'a [Fact],
        classes: &[Range<usize>],
        places: &[usize],
        last: Option<&HashedBlock>,
        plan: &'a Halving,
        effort: SearchSizes,
        expected: usize,
        key: u64,
    ) -> Self {
        let entry = |(j, (class, &start)): (usize, (&Range<usize>, &usize))| {
            let remaining = class.end - start;
            let left = &facts[start..start + remaining.min(64 * plan.slots.max(4))];
            // If nothing remains, the last fact of the class.
            let anchor = facts[start.min(class.end - 1)].id;
            let value = last.map_or(0, |block| block.runs[j].at(anchor, block.slope));
            let gap = if start > class.start { anchor - facts[start - 1].id } else { u64::MAX };
            Entry {
                offsets: left.iter().map(|f| (f.id - left[0].id) as u32).collect(),
                left,
                remaining,
                start,
                // Near 0 by the choice of the slopes, and far within 64 bits in any case.
                value: value.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64,
                gap,
                anchor,
            }
        };
        let entries: Vec<Entry<'_>> = classes.iter().zip(places).enumerate().map(entry).collect();
        let span = |e: &Entry<'_>| {
            e.left.get(expected.min(e.left.len().saturating_sub(1))).map_or(1, |f| f.id - e.left[0].id)
        };
        let span = entries.iter().map(span).max().unwrap_or(1).max(1);
        let height: i128 = entries.iter().filter(|e| e.remaining > 0).map(|e| i128::from(e.value)).sum();
        Self {
            plan,
            key,
            sign: if height > 0 { -1 } else { 1 },
            most_slope: ((1u64 << effort.reach_bits) / span).max(3),
            before: last.map(|block| block.slope),
            entries,
        }
    }

    /// Slope number `t`.
    fn slope(&self, t: u64) -> i64 {
        self.sign * (1 + scaled(mix(self.key ^ mix(t + 1)), self.most_slope)) as i64
    }

    /// The largest distance of an offset above 1; `None` where the lines cannot cross in the gap.
    fn room(&self, entry: &Entry<'_>, slope: i64) -> Option<u64> {
        let period = 1 << self.plan.period_bits;
        let Some(before) = self.before else { return Some(period) };
        let room = slope.abs_diff(before).saturating_mul(entry.gap).saturating_sub(1);
        (room > 0).then(|| room.min(period))
    }

    /// H at the first id of an entry, moved by an offset from 1 on.
    fn value(&self, entry: &Entry<'_>, slope: i64, offset: u64) -> i64 {
        let sign = self.before.map_or(1, |before| (slope - before).signum());
        entry.value + sign * offset as i64
    }

    /// The longest run of an entry under a slope, and where its line begins; `None` where the slope is not possible.
    fn longest(&self, j: usize, slope: i64, t: u64, slots: &mut Slots) -> Option<(usize, i64)> {
        let entry = &self.entries[j];
        let room = self.room(entry, slope)?;
        let key = mix(self.key ^ mix(t + 1) ^ mix(!(j as u64)));
        let mut best = (0, self.value(entry, slope, 1));
        for i in 0..OFFSETS {
            let offset = 1 + scaled(mix(key.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))), room);
            let value = self.value(entry, slope, offset);
            let run = slots.run(self.plan, entry, slope, value);
            if run > best.0 {
                best = (run, value);
            }
        }
        Some(best)
    }

    /// The score of slope number `t`: the sum of the runs of all classes, each weighted by the remaining facts of its class.
    fn score(&self, t: u64, slots: &mut Slots) -> u128 {
        let slope = self.slope(t);
        if self.before == Some(slope) {
            return 0;
        }
        let mut sum = 0;
        for (j, entry) in self.entries.iter().enumerate().filter(|(_, e)| e.remaining > 0) {
            match self.longest(j, slope, t, slots) {
                Some((run, _)) => sum += run as u128 * entry.remaining as u128,
                None => return 0,
            }
        }
        sum
    }

    /// The block of the best slope; of several, the first.
    fn best(&self, tries: u64) -> HashedBlock {
        let active = self.entries.iter().filter(|e| e.remaining > 0).count().max(1) as u64;
        let slopes = (tries / (OFFSETS * active)).max(1);
        let lot = |lot: u64| {
            let mut slots = Slots::new(self.plan);
            let scored = (lot * LOT..slopes.min((lot + 1) * LOT)).map(|t| (self.score(t, &mut slots), t));
            scored.fold((0, u64::MAX), better)
        };
        let (score, t) = (0..slopes.div_ceil(LOT)).into_par_iter().map(lot).reduce(|| (0, u64::MAX), better);
        let mut slots = Slots::new(self.plan);
        match score {
            0 => self.steep(),
            _ => {
                let slope = self.slope(t);
                self.block(slope, |j| self.longest(j, slope, t, &mut slots).unwrap_or((0, 0)))
            }
        }
    }

    /// A block with the runs that `run` gives for the classes that are not exhausted.
    fn block(&self, slope: i64, mut run: impl FnMut(usize) -> (usize, i64)) -> HashedBlock {
        let runs = (0..self.entries.len()).map(|j| {
            let e = &self.entries[j];
            let (length, value) = match e.remaining {
                // The line crosses the previous one behind the last fact.
                0 => (0, self.value(e, slope, 1) - 2 * (self.value(e, slope, 1) - e.value)),
                _ => run(j),
            };
            FactRun { start: e.start, end: e.start + length, anchor: e.anchor, value }
        });
        HashedBlock { slope, runs: runs.collect() }
    }

    /// A block of one fact per class, with a slope so steep that every offset is allowed: it always exists.
    fn steep(&self) -> HashedBlock {
        let period = 1u64 << self.plan.period_bits;
        let slope = self.before.unwrap_or(0) + self.sign * (period + 2) as i64;
        self.block(slope, |j| {
            let e = &self.entries[j];
            let mut values = (1..=period).map(|offset| self.value(e, slope, offset));
            let open = values.find(|v| self.plan.digit_of[(v & (period as i64 - 1)) as usize] != CLOSED);
            (1, open.unwrap_or(e.value))
        })
    }
}

/// The larger score; of equal ones the earlier try.
fn better(a: (u128, u64), b: (u128, u64)) -> (u128, u64) {
    if (b.0, std::cmp::Reverse(b.1)) > (a.0, std::cmp::Reverse(a.1)) { b } else { a }
}

/// A number below n from 64 random bits.
fn scaled(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

/// Spreads a number over 64 bits: cheap, and addressed by the number of the try.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Which slot holds which label, under the hash that is being tried.
struct Slots {
    /// The number of the try in the high half, the label in the low one.
    held: Vec<u64>,
    stamp: u64,
}

impl Slots {
    fn new(plan: &Halving) -> Self {
        Self { held: vec![0; plan.slots], stamp: 0 }
    }

    /// The number of leading facts that fit.
    #[inline]
    fn run(&mut self, plan: &Halving, entry: &Entry<'_>, slope: i64, value: i64) -> usize {
        self.stamp += 1;
        let stamp = self.stamp << 32;
        let mask = (1u32 << plan.period_bits) - 1;
        let (slope, value) = (slope as u32, value as u32);
        for (i, (&offset, fact)) in entry.offsets.iter().zip(entry.left).enumerate() {
            let hash = value.wrapping_add(slope.wrapping_mul(offset)) & mask;
            let digit = plan.digit_of[hash as usize];
            // A closed hash has no slot.
            let Some(held) = self.held.get_mut(usize::from(digit)) else { return i };
            let label = stamp | u64::from(fact.label);
            if *held < stamp {
                *held = label;
            } else if *held != label {
                return i;
            }
        }
        entry.offsets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    fn facts(ids: impl IntoIterator<Item = u64>, labels: u32) -> Vec<Fact> {
        let label = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 9) % labels;
        ids.into_iter().enumerate().map(|(i, id)| Fact { id, label: label(i) }).collect()
    }

    fn classes(n: usize, k: usize) -> Vec<Range<usize>> {
        (0..k).map(|j| j * n / k..(j + 1) * n / k).filter(|c| !c.is_empty()).collect()
    }

    /// No slot holds two labels, lines cross in the gaps, runs cover everything.
    fn check(facts: &[Fact], classes: &[Range<usize>], plan: &Halving, blocks: &[HashedBlock]) {
        for (j, class) in classes.iter().enumerate() {
            let runs: Vec<(i64, FactRun)> = blocks.iter().map(|b| (b.slope, b.runs[j])).collect();
            assert_eq!((runs[0].1.start, runs[runs.len() - 1].1.end), (class.start, class.end));
            for (slope, run) in &runs {
                let mut held = vec![None; plan.slots];
                for fact in &facts[run.start..run.end] {
                    let hash = run.at(fact.id, *slope).rem_euclid(1 << plan.period_bits) as usize;
                    let digit = usize::from(plan.digit_of[hash]);
                    assert!(held[digit].is_none_or(|label| label == fact.label), "{run:?}");
                    held[digit] = Some(fact.label);
                }
            }
            for pair in runs.windows(2) {
                let ((s, a), (t, b)) = (pair[0], pair[1]);
                assert_eq!(a.end, b.start);
                let sign = i128::from((t - s).signum());
                assert_ne!(sign, 0);
                let difference = |id: u64| sign * (b.at(id, t) - a.at(id, s));
                for (i, fact) in facts[class.clone()].iter().enumerate() {
                    let d = difference(fact.id);
                    assert!(if class.start + i < b.start { d <= -1 } else { d >= 1 }, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_the_same_for_any_number_of_threads() {
        let plan = Halving::new(24, 14);
        let facts = facts((0..600).map(|i| i * i % 100_003).collect::<std::collections::BTreeSet<u64>>(), 10);
        let effort = SearchSizes { tries: 40_000, reach_bits: 20 };
        let count = |k: usize| {
            let classes = classes(facts.len(), k);
            let of = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| search(&facts, &classes, &plan, effort, 5, &|_| Ok(()))).unwrap()
            };
            let blocks = of(1);
            check(&facts, &classes, &plan, &blocks);
            assert_eq!(blocks, of(3));
            blocks.len()
        };
        // 3, 4 and 5 parameters per block.
        let counts = [1, 2, 3].map(count);
        assert!(
            counts[0] <= 40 && 4 * counts[1] < 3 * counts[0] && 5 * counts[2] < 4 * counts[1],
            "{counts:?}"
        );
    }

    #[test]
    fn whoever_watches_can_stop_it() {
        let plan = Halving::new(4, 8);
        let effort = SearchSizes { tries: 10, reach_bits: 12 };
        let (facts, classes) = (facts(0..100, 7), classes(100, 2));
        let until_20 = |done| if done < 20 { Ok(()) } else { Err(Error::Interrupted) };
        let stopped = search(&facts, &classes, &plan, effort, 0, &until_20);
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }

    proptest! {
        #[test]
        fn the_facts_of_a_run_fit_its_slots(
            ids in prop::collection::btree_set(0u64..1 << 34, 1..80), labels in 2u32..8, slots in 1usize..40,
            k in 1usize..4, dense in any::<bool>()
        ) {
            let n = ids.len() as u64;
            let facts = if dense { facts(0..n, labels) } else { facts(ids, labels) };
            let (plan, classes) = (Halving::new(slots, 12), classes(facts.len(), k));
            let effort = SearchSizes { tries: 600, reach_bits: 20 };
            check(&facts, &classes, &plan, &search(&facts, &classes, &plan, effort, 1, &|_| Ok(())).unwrap());
        }
    }
}
