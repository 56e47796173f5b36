//! The halving plan: how a hash moves one of S digits to the top of a word.
//!
//! A word has S digits of base C. A hash u in [0, 2^(p-1)] picks a slot by halving: at a stage with S remaining slots, S1 = ceil(S / 2)
//! of them lie below a threshold t, the other k = S - S1 above it. Above, the word is multiplied by C^k (its k top digits
//! overflow and are folded away) and u is mirrored at t; below, nothing happens. After ceil(log2 S) stages the digit of the slot
//! is on top. The number of that digit is the sum of k over the stages where u was above.
//!
//! Thresholds lie halfway between integers and are kept doubled, so all of this is integer arithmetic. Where S1 > k, some
//! hashes near a border could reach one digit in two ways. The rarer way is closed (such hashes are never used), because
//! the two would disagree on whether the digit is stored mirrored.
//!
//! *Mirroring.* Folding away an odd number of multiples of the word's range W mirrors the remainder, d -> C - 1 - d in every
//! digit. Whether that happens depends on the digits above alone, so a builder that fills words from the top knows it.

/// One stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halve {
    /// k: digits that a hash above the threshold skips.
    pub digits: usize,
    /// Twice the threshold: odd.
    pub twice_threshold: i64,
}

/// The plan for a number of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halving {
    /// S.
    pub slots: usize,
    /// p: hashes have the period 2^p.
    pub period_bits: u32,
    /// The stages in order.
    pub stages: Vec<Halve>,
    /// The digit that a number reads, by the number modulo 2^p; [`CLOSED`] where it reads none.
    pub digit_of: Vec<u16>,
    /// The stages at which the hashes of a digit are above, by digit.
    pub ways: Vec<Vec<bool>>,
}

/// No digit.
pub const CLOSED: u16 = u16::MAX;

/// The maximum number of slots: digits are numbered by 16 bits.
pub const MOST_SLOTS: usize = 1 << 14;

impl Halving {
    /// The plan for `slots` slots, at most [`MOST_SLOTS`], and hashes of period `2^period_bits`.
    pub fn new(slots: usize, period_bits: u32) -> Self {
        let half = 1i64 << (period_bits - 1);
        let mut stages = Vec::new();
        let (mut left, mut range) = (slots, 2 * half);
        while left > 1 {
            let below = left.div_ceil(2);
            // Twice the threshold: the share of the range, made odd.
            let twice_threshold = (range * below as i64 / left as i64) | 1;
            stages.push(Halve { digits: left - below, twice_threshold });
            (left, range) = (below, twice_threshold);
        }
        let walk = |hash: i64| {
            let (mut u, mut digit) = (2 * hash, 0);
            let way: Vec<bool> = stages
                .iter()
                .map(|stage| {
                    let above = u > stage.twice_threshold;
                    if above {
                        u = 2 * stage.twice_threshold - u;
                        digit += stage.digits;
                    }
                    above
                })
                .collect();
            (digit, way)
        };
        let walks: Vec<(usize, Vec<bool>)> = (0..=half).map(walk).collect();
        let ways: Vec<Vec<bool>> = (0..slots).map(|digit| commonest(&walks, digit)).collect();
        let read = |hash: usize| {
            let (digit, way) = &walks[hash];
            if ways[*digit] == *way { *digit as u16 } else { CLOSED }
        };
        let period = 2 * half as usize;
        let digit_of = (0..period).map(|r| read(r.min(period - r))).collect();
        Self { slots, period_bits, stages, digit_of, ways }
    }

    /// Parameters of the stages for base `labels`: 7 + 3 bl(C^k - 1) each, the last without the two that mirror the hash.
    pub fn parameters(&self, labels: u32) -> usize {
        let stages: usize = self.stages.iter().map(|s| 7 + 3 * overflow_bits(labels, s.digits)).sum();
        stages.saturating_sub(2)
    }
}

/// bl(C^k - 1), by logarithms: exact but for powers of two, where it is counted from them.
pub fn overflow_bits(labels: u32, digits: usize) -> usize {
    match labels.is_power_of_two() {
        true => labels.trailing_zeros() as usize * digits,
        false => (f64::from(labels).log2() * digits as f64) as usize + 1,
    }
}

/// The most common way to a digit, the first of several equally common ones; empty for a digit that no hash reaches.
fn commonest(walks: &[(usize, Vec<bool>)], digit: usize) -> Vec<bool> {
    let mut counts: Vec<(&Vec<bool>, usize)> = Vec::new();
    for (_, way) in walks.iter().filter(|w| w.0 == digit) {
        match counts.iter_mut().find(|c| c.0 == way) {
            Some(count) => count.1 += 1,
            None => counts.push((way, 1)),
        }
    }
    let most = counts.iter().map(|c| c.1).max();
    counts.into_iter().find(|c| Some(c.1) == most).map(|c| c.0.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn five_slots_are_halved_by_hand() {
        // 5 -> 3 (k = 2) -> 2 (k = 1) -> 1 (k = 1); hashes 0..=8, doubled 0..=16.
        let plan = Halving::new(5, 4);
        let thresholds: Vec<i64> = plan.stages.iter().map(|s| s.twice_threshold).collect();
        // 16 * 3 / 5 = 9; 9 * 2 / 3 = 6, made odd 7; 7 / 2 = 3.
        assert_eq!(thresholds, [9, 7, 3]);
        assert_eq!(plan.stages.iter().map(|s| s.digits).collect::<Vec<_>>(), [2, 1, 1]);
        // u = 0, 2 | 4, 6 | 8 | mirrored at 9 from 10: 8 -> at 7: 6, | 12: 6 | 14: 4 | 16: 2.
        // 0, 2: digit 0. 4, 6: above 3: digit 1. 8: above 7 (1), then 6 above 3 (1): digit 2.
        // 10: above 9 (2), 8 above 7 (1), 6 above 3 (1): 4. 12: 2, 6 below 7, above 3 (1): 3. 14: 2 + 1 = 3. 16: u = 2: 2.
        // Digit 2 is reached by hash 4 (u = 8) and by hash 8 (u = 16) on different ways: the first is kept.
        assert_eq!(plan.digit_of[..9], [0, 0, 1, 1, 2, 4, 3, 3, CLOSED]);
        assert_eq!(plan.digit_of[15], 0);
    }

    #[test]
    fn overflow_bits_are_bit_lengths() {
        for labels in [2u32, 3, 4, 10, 26, 64] {
            for digits in 1..=(100.0 / f64::from(labels).log2()) as usize {
                let power = u128::from(labels).pow(digits as u32) - 1;
                assert_eq!(
                    overflow_bits(labels, digits),
                    (128 - power.leading_zeros()) as usize,
                    "{labels}^{digits}"
                );
            }
        }
        assert_eq!(overflow_bits(1, 5), 0);
    }

    proptest! {
        #[test]
        fn every_digit_is_reached_about_equally_often(slots in 1usize..200) {
            let plan = Halving::new(slots, 13);
            let mut counts = vec![0usize; slots];
            let mut closed = 0;
            for &digit in &plan.digit_of {
                match digit {
                    CLOSED => closed += 1,
                    digit => counts[usize::from(digit)] += 1,
                }
            }
            let mean = 8192 / slots;
            prop_assert!(counts.iter().all(|&n| n * 2 >= mean && n <= 2 * mean + 16), "{counts:?}");
            prop_assert!(closed * 10 <= 8192, "{closed}");
            prop_assert_eq!(plan.stages.len(), slots.next_power_of_two().trailing_zeros() as usize);
        }
    }
}
