//! The search for blocks: a linear hash each, under which no slot must hold two labels.
//!
//! On block b the lookup computes H(x) = a_b x + c_b, an integer, of which the slot is read modulo 2^p. Lines of neighbouring
//! blocks must cross in the gap between them: with D = H_b - H_{b-1} at the first id of the block, 1 <= |D| <= |a_b - a_{b-1}| gap - 1
//! and D has the sign of a_b - a_{b-1}. Within that, slope and offset are free. For each block so many hashes are drawn, and
//! the one under which the longest run of facts from the start of the block fits the slots is taken; the block ends there.
//!
//! Under a random hash n facts fit S slots with probability about exp(-c n^2 / (2 S)), c the chance that two facts have
//! different labels; so the best of T tries holds about sqrt(2 S ln T / c). A try ends at its first clash, after about
//! sqrt(S) facts, so a million tries a block take a few hundredths of a second.
//!
//! The slope has the sign that brings H back to 0, and |a| is at most 2^A over the ids that a block is expected to span, so
//! |H| stays near 2^A: this bounds the folds that undo it.

use super::context_map::Fact;
use super::halving::{CLOSED, Halving};
use crate::num::Stream;
use rayon::prelude::*;

/// A block: consecutive facts, and the line of its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashedBlock {
    /// The place of its first fact.
    pub start: usize,
    /// One after the place of its last fact.
    pub end: usize,
    /// a_b.
    pub slope: i64,
    /// H at its first id.
    pub at_first: i64,
}

/// The sizes of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// T: hashes tried a block.
    pub tries: u64,
    /// A: |H| stays near 2^A.
    pub reach_bits: u32,
}

/// Tries that one task of the pool makes.
const LOT: u64 = 1 << 13;

/// The facts in the form the inner loop wants.
struct Candidates {
    /// Id minus the first one, modulo 2^32.
    offsets: Vec<u32>,
    labels: Vec<u32>,
}

/// Blocks for all facts, which are sorted by id; `None` where `look` asks to stop, which sees how many facts are done.
pub fn search(
    facts: &[Fact],
    plan: &Halving,
    effort: Effort,
    seed: u64,
    look: &dyn Fn(usize) -> bool,
) -> Option<Vec<HashedBlock>> {
    let mut blocks: Vec<HashedBlock> = Vec::new();
    let mut expected = 2 * plan.slots.isqrt() + 1;
    let mut start = 0;
    while start < facts.len() {
        if !look(start) {
            return None;
        }
        let before = blocks.last().map(|b| before(facts, b, start));
        let number = blocks.len() as u64;
        let draws = Draws::new(facts, start, expected, before, plan, effort, seed, number);
        let (run, slope, at_first) = best(facts, start, plan, &draws, effort.tries);
        blocks.push(HashedBlock { start, end: start + run, slope, at_first });
        // The last block is as short as what is left.
        if start + run < facts.len() {
            expected = (expected + run).div_ceil(2);
        }
        start += run;
    }
    Some(blocks)
}

/// The line before: its slope, its value at the first id of the new block, and the gap to that id.
fn before(facts: &[Fact], block: &HashedBlock, start: usize) -> (i64, i64, u64) {
    let span = facts[start].id - facts[block.start].id;
    let value = i128::from(block.at_first) + i128::from(block.slope) * i128::from(span);
    // Within the reach by the choice of the slope, and within 64 bits in any case.
    let value = value.clamp(i128::from(i64::MIN / 2), i128::from(i64::MAX / 2)) as i64;
    (block.slope, value, facts[start].id - facts[start - 1].id)
}

/// Draws slopes and offsets that the block before allows.
struct Draws {
    key: u64,
    sign: i64,
    most_slope: u64,
    before: Option<(i64, i64, u64)>,
    period: u64,
}

impl Draws {
    #[allow(clippy::too_many_arguments)] // All of one block.
    fn new(
        facts: &[Fact],
        start: usize,
        expected: usize,
        before: Option<(i64, i64, u64)>,
        plan: &Halving,
        effort: Effort,
        seed: u64,
        number: u64,
    ) -> Self {
        let end = (start + expected).min(facts.len() - 1);
        let span = (facts[end].id - facts[start].id).max(1);
        let key = Stream::new(seed, "kajitsuka2024 hashes", number).next_u64();
        let sign = before.map_or(1, |(_, value, _)| if value > 0 { -1 } else { 1 });
        Self {
            key,
            sign,
            most_slope: ((1u64 << effort.reach_bits) / span).max(3),
            before,
            period: 1 << plan.period_bits,
        }
    }

    /// Slope and value at the first id of try number `t`.
    fn draw(&self, t: u64) -> Option<(i64, i64)> {
        // Two rounds of a mixer whose increments are odd: cheap, and addressed by the number of the try.
        let bits = mix(self.key ^ mix(t.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let scaled = |bits: u64, n: u64| ((u128::from(bits) * u128::from(n)) >> 64) as u64;
        let slope = self.sign * (1 + scaled(bits, self.most_slope)) as i64;
        let more = mix(bits);
        let Some((last_slope, value, gap)) = self.before else {
            return Some((slope, scaled(more, self.period) as i64));
        };
        let change = slope - last_slope;
        let room = change.unsigned_abs().saturating_mul(gap).saturating_sub(1).min(self.period);
        (room > 0).then(|| (slope, value + change.signum() * (1 + scaled(more, room)) as i64))
    }
}

fn mix(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The longest run with its hash; of several, that of the first try.
fn best(facts: &[Fact], start: usize, plan: &Halving, draws: &Draws, tries: u64) -> (usize, i64, i64) {
    let left = &facts[start..facts.len().min(start + 64 * plan.slots.max(4))];
    let candidates = Candidates {
        offsets: left.iter().map(|f| (f.id - left[0].id) as u32).collect(),
        labels: left.iter().map(|f| f.label).collect(),
    };
    let lot = |lot: u64| {
        let mut slots = Slots::new(plan);
        let mut found = (0, u64::MAX);
        for t in lot * LOT..tries.min((lot + 1) * LOT) {
            if let Some((slope, at_first)) = draws.draw(t) {
                let run = slots.run(plan, &candidates, slope, at_first);
                if run > found.0 {
                    found = (run, t);
                }
            }
        }
        found
    };
    let lots = tries.max(1).div_ceil(LOT);
    let found = (0..lots).into_par_iter().map(lot).reduce(
        || (0, u64::MAX),
        |a, b| if (b.0, std::cmp::Reverse(b.1)) > (a.0, std::cmp::Reverse(a.1)) { b } else { a },
    );
    // A single fact fits under some offset in any case.
    let drawn = draws.draw(found.1).filter(|_| found.0 > 0);
    let (slope, at_first) = drawn.unwrap_or_else(|| single(plan, draws));
    (found.0.max(1), slope, at_first)
}

fn open(plan: &Halving, hash: i64) -> bool {
    let mask = (1i64 << plan.period_bits) - 1;
    plan.digit_of[(hash & mask) as usize] != CLOSED
}

/// A hash for one fact alone, with a slope so steep that every offset is allowed.
fn single(plan: &Halving, draws: &Draws) -> (i64, i64) {
    let Some((last_slope, value, _)) = draws.before else { return (1, 0) };
    let period = 1i64 << plan.period_bits;
    let slope = last_slope + draws.sign * (period + 2);
    let change = (slope - last_slope).signum();
    let offset = (1..=period).find(|d| open(plan, value + change * d)).unwrap_or(1);
    (slope, value + change * offset)
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

    /// How many facts from the first on fit.
    #[inline]
    fn run(&mut self, plan: &Halving, candidates: &Candidates, slope: i64, at_first: i64) -> usize {
        self.stamp += 1;
        let stamp = self.stamp << 32;
        let mask = (1u32 << plan.period_bits) - 1;
        let (slope, at_first) = (slope as u32, at_first as u32);
        for (i, (&offset, &label)) in candidates.offsets.iter().zip(&candidates.labels).enumerate() {
            let hash = at_first.wrapping_add(slope.wrapping_mul(offset)) & mask;
            let digit = plan.digit_of[hash as usize];
            // A closed hash has no slot.
            let Some(held) = self.held.get_mut(usize::from(digit)) else { return i };
            let fact = stamp | u64::from(label);
            if *held < stamp {
                *held = fact;
            } else if *held != fact {
                return i;
            }
        }
        candidates.offsets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts(ids: impl IntoIterator<Item = u64>, labels: u32) -> Vec<Fact> {
        let label = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 9) % labels;
        ids.into_iter().enumerate().map(|(i, id)| Fact { id, label: label(i) }).collect()
    }

    /// No slot holds two labels, lines cross in the gaps, blocks cover everything.
    fn check(facts: &[Fact], plan: &Halving, blocks: &[HashedBlock]) {
        assert_eq!((blocks[0].start, blocks[blocks.len() - 1].end), (0, facts.len()));
        let value = |b: &HashedBlock, id: u64| {
            i128::from(b.at_first) + i128::from(b.slope) * (i128::from(id) - i128::from(facts[b.start].id))
        };
        for block in blocks {
            let mut held = vec![None; plan.slots];
            for fact in &facts[block.start..block.end] {
                let hash = value(block, fact.id).rem_euclid(1 << plan.period_bits) as usize;
                let digit = usize::from(plan.digit_of[hash]);
                assert!(held[digit].is_none_or(|label| label == fact.label), "{block:?}");
                held[digit] = Some(fact.label);
            }
        }
        for pair in blocks.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            assert_eq!(a.end, b.start);
            let sign = i128::from((b.slope - a.slope).signum());
            let difference = |id: u64| sign * (value(b, id) - value(a, id));
            assert!(difference(facts[b.start].id) >= 1, "{a:?} {b:?}");
            assert!(difference(facts[b.start - 1].id) <= -1, "{a:?} {b:?}");
        }
    }

    #[test]
    fn blocks_are_the_same_for_any_number_of_threads() {
        let plan = Halving::new(24, 12);
        let facts = facts((0..600).map(|i| i * i % 100_003).collect::<std::collections::BTreeSet<u64>>(), 10);
        let effort = Effort { tries: 40_000, reach_bits: 20 };
        let of = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| search(&facts, &plan, effort, 5, &|_| true)).unwrap()
        };
        let blocks = of(1);
        check(&facts, &plan, &blocks);
        assert_eq!(blocks, of(3));
        assert!(blocks.len() < 50, "{} blocks", blocks.len());
    }

    #[test]
    fn whoever_watches_can_stop_it() {
        let plan = Halving::new(4, 8);
        let effort = Effort { tries: 10, reach_bits: 12 };
        assert_eq!(search(&facts(0..100, 7), &plan, effort, 0, &|done| done < 20), None);
    }

    proptest! {
        #[test]
        fn the_facts_of_a_block_fit_its_slots(
            ids in prop::collection::btree_set(0u64..1 << 34, 1..80), labels in 2u32..8, slots in 1usize..40,
            dense in any::<bool>()
        ) {
            let n = ids.len() as u64;
            let facts = if dense { facts(0..n, labels) } else { facts(ids, labels) };
            let plan = Halving::new(slots, 12);
            let effort = Effort { tries: 30, reach_bits: 20 };
            check(&facts, &plan, &search(&facts, &plan, effort, 1, &|_| true).unwrap());
        }
    }
}
