//! What is kept of the logits of a position while they stream by, and the scores that follow from it.
//!
//! Logits come in tiles of some hundred tokens. With m the largest logit of a tile, y = z - m and e = exp y in f32:
//!
//! ```text
//! W = sum e      a = sum e y / W      Q = sum e (y - a)^2                                         sums in f64
//! ```
//!
//! Two tiles merge as two samples with weights do: the one with the smaller maximum is multiplied by exp(m' - m), and
//! Q = Q_1 + Q_2 + (a_1 - a_2)^2 W_1 W_2 / (W_1 + W_2). Nothing is subtracted from a sum of squares, so the deviation keeps its
//! accuracy even where it is small. At the end ln p = z - m - ln W, its mean under p is a - ln W, its variance Q / W.
//!
//! Tiles merge in a fixed order within segments of the vocabulary, and segments in order. Everything else here is exact: a
//! maximum, a count, the k largest values.

use super::{PositionScore, Sampling};
use crate::num::aligned::LINE;
use crate::num::elementary::{Elementary, exp};
use crate::num::line_vector::LineVector;
use crate::num::simd::{Isa, SimdKernel};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sums over the logits seen so far, relative to the largest of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    pub(super) largest: f32,
    /// The token with the largest logit, the smallest id among ties.
    pub(super) top: u32,
    weight: f64,
    mean: f64,
    squares: f64,
    /// The sum of exp(y / T), where it is needed.
    tempered: f64,
}

impl Moments {
    /// Nothing seen.
    pub(super) const NONE: Self =
        Self { largest: f32::NEG_INFINITY, top: 0, weight: 0.0, mean: 0.0, squares: 0.0, tempered: 0.0 };

    /// Both together. The tokens of `later` have larger ids.
    fn merged(self, later: Self, temperature: f64) -> Self {
        if self.weight == 0.0 {
            return later;
        }
        let (high, low) = if later.largest > self.largest { (later, self) } else { (self, later) };
        let shift = f64::from(low.largest) - f64::from(high.largest);
        let factor = shift.exp();
        let low_weight = factor * low.weight;
        let weight = high.weight + low_weight;
        let apart = low.mean + shift - high.mean;
        let share = low_weight / weight;
        // Where nothing is left of the lower tile, its distance is infinite or does not matter.
        let (mean, between) = match share > 0.0 {
            true => (high.mean + apart * share, apart * apart * high.weight * share),
            false => (high.mean, 0.0),
        };
        Self {
            largest: high.largest,
            top: high.top,
            weight,
            mean,
            squares: high.squares + factor * low.squares + between,
            tempered: high.tempered + (shift / temperature).exp() * low.tempered,
        }
    }

    /// Whether all logits so far are finite.
    pub(super) fn is_finite(&self) -> bool {
        self.largest.is_finite() && (self.weight + self.mean + self.squares).is_finite()
    }

    /// The logarithm of the probability of a token with this logit.
    pub(super) fn log_prob(&self, logit: f32) -> f64 {
        f64::from(logit) - f64::from(self.largest) - self.weight.ln()
    }
}

/// The k largest of the numbers seen so far, and how many more are equal to the smallest of them.
#[derive(Debug, Clone)]
struct Largest {
    k: usize,
    heap: BinaryHeap<Reverse<i32>>,
    ties: u64,
}

/// An integer that is ordered as the numbers are.
#[inline(always)]
fn key(x: f32) -> i32 {
    // Adding zero makes the two zeros one.
    let bits = (x + 0.0).to_bits().cast_signed();
    bits ^ ((bits >> 31) & i32::MAX)
}

/// The number of a key.
fn number(key: i32) -> f32 {
    f32::from_bits((key ^ ((key >> 31) & i32::MAX)).cast_unsigned())
}

impl Largest {
    fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new(), ties: 0 }
    }

    /// The k-th largest number; minus infinity if there are fewer.
    fn least(&self) -> f32 {
        match self.heap.peek() {
            Some(Reverse(least)) if self.heap.len() == self.k => number(*least),
            _ => f32::NEG_INFINITY,
        }
    }

    fn offer(&mut self, x: f32) {
        if self.heap.len() < self.k {
            self.heap.push(Reverse(key(x)));
            return;
        }
        let least = self.least();
        if x == least {
            self.ties += 1;
        } else if x > least {
            if let Some(mut first) = self.heap.peek_mut() {
                *first = Reverse(key(x));
            }
            self.ties = if self.least() == least { self.ties + 1 } else { 0 };
        }
    }

    fn merge(&mut self, other: Self) {
        let (least, ties) = (other.least(), other.ties);
        other.heap.into_iter().for_each(|Reverse(key)| self.offer(number(key)));
        // The k-th largest of both is at least that of one.
        if self.least() == least {
            self.ties += ties;
        }
    }

    /// The sum of exp((x - largest) / T) over all kept numbers and ties, from the largest on.
    fn sum(self, largest: f32, temperature: f64) -> f64 {
        let term = |x: f32| ((f64::from(x) - f64::from(largest)) / temperature).exp();
        let ties = if self.ties > 0 { self.ties as f64 * term(self.least()) } else { 0.0 };
        self.heap.into_sorted_vec().into_iter().map(|Reverse(key)| term(number(key))).sum::<f64>() + ties
    }
}

/// What is asked of a position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) token: u32,
    /// Its logit.
    pub(super) logit: f32,
}

/// The logits of a position, as far as they were seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) moments: Moments,
    target: Option<Target>,
    /// The largest logit of another token than the target.
    others: f32,
    /// The number of logits above that of the target.
    above: u32,
    kept: Option<Largest>,
    /// The temperature, if every token can be drawn and it is not 1.
    tempered: Option<f64>,
    /// Tokens in increasing order, with their logits once these were seen.
    wanted: Vec<(u32, Option<f32>)>,
}

impl Seen {
    /// Nothing seen, and nothing asked but the moments.
    pub(super) fn nothing() -> Self {
        Self {
            moments: Moments::NONE,
            target: None,
            others: f32::NEG_INFINITY,
            above: 0,
            kept: None,
            tempered: None,
            wanted: Vec::new(),
        }
    }

    /// Nothing seen, and the logits of some tokens wanted.
    pub(super) fn of_tokens(tokens: &[u32]) -> Self {
        let mut wanted: Vec<(u32, Option<f32>)> = tokens.iter().map(|&token| (token, None)).collect();
        wanted.sort_unstable_by_key(|w| w.0);
        wanted.dedup_by_key(|w| w.0);
        Self { wanted, ..Self::nothing() }
    }

    /// Nothing seen of a position that is to be scored.
    pub(super) fn of_target(target: Target, sampling: Sampling, d_vocab: usize) -> Self {
        let k = sampling.top_k as usize;
        let all = k >= d_vocab;
        let tempered = (all && sampling.temperature != 1.0).then_some(sampling.temperature);
        Self { target: Some(target), kept: (!all).then(|| Largest::new(k)), tempered, ..Self::nothing() }
    }

    /// Takes in what does not depend on the order: counts, maxima, the k largest.
    #[inline(always)]
    fn exact(&mut self, lines: &[[f32; LINE]], z: &[f32], first: u32, largest: f32) {
        if let Some(Target { token, logit }) = self.target {
            // Not above also where one of the two is not a number.
            if largest > logit {
                let mut above = [0u32; LINE];
                for line in lines {
                    for i in 0..LINE {
                        above[i] += u32::from(line[i] > logit);
                    }
                }
                self.above += above.iter().sum::<u32>();
            }
            let at = token.wrapping_sub(first) as usize;
            let others = match at < z.len() {
                true => z[..at].iter().chain(&z[at + 1..]).copied().fold(f32::NEG_INFINITY, f32::max),
                false => largest,
            };
            self.others = self.others.max(others);
        }
        let from = self.wanted.partition_point(|w| w.0 < first);
        let own = self.wanted[from..].iter_mut().take_while(|w| ((w.0 - first) as usize) < z.len());
        own.for_each(|w| w.1 = Some(z[(w.0 - first) as usize]));
        if let Some(kept) = &mut self.kept {
            let mut least = kept.least();
            // Most tiles hold nothing that is large enough.
            let lines = if largest >= least { lines } else { &[] };
            for (line, real) in lines.iter().zip(z.chunks(LINE)) {
                if line.iter().fold(false, |any, &z| any | (z >= least)) {
                    real.iter().for_each(|&z| kept.offer(z));
                    least = kept.least();
                }
            }
        }
    }

    /// Adds what was seen of later tokens. The moments are those of the two merged.
    pub(super) fn merge(&mut self, later: Self) {
        self.moments = self.joined(self.moments, later.moments);
        self.others = self.others.max(later.others);
        self.above += later.above;
        if let (Some(kept), Some(later)) = (&mut self.kept, later.kept) {
            kept.merge(later);
        }
        for (wanted, later) in self.wanted.iter_mut().zip(later.wanted) {
            wanted.1 = wanted.1.or(later.1);
        }
    }

    /// The logarithm of the probability of a wanted token once all logits were seen; NaN of another token.
    pub(super) fn log_prob(&self, token: u32) -> f64 {
        let at = self.wanted.binary_search_by_key(&token, |w| w.0).ok();
        let logit = at.and_then(|at| self.wanted[at].1);
        logit.map_or(f64::NAN, |logit| self.moments.log_prob(logit))
    }

    /// The moments of tokens and of later ones together.
    pub(super) fn joined(&self, earlier: Moments, later: Moments) -> Moments {
        earlier.merged(later, self.tempered.unwrap_or(1.0))
    }

    /// The scores of the position once all logits were seen; `None` if one is not finite.
    pub(super) fn score(self, sampling: Sampling) -> Option<PositionScore> {
        let Self { moments, others, above, kept, tempered, .. } = self;
        let logit = self.target?.logit;
        if !(moments.is_finite() && logit.is_finite()) {
            return None;
        }
        let temperature = sampling.temperature;
        let below = f64::from(logit) - f64::from(moments.largest);
        let drawn = match kept {
            Some(kept) if logit < kept.least() => f64::NEG_INFINITY,
            Some(kept) => below / temperature - kept.sum(moments.largest, temperature).ln(),
            None if tempered.is_some() => below / temperature - moments.tempered.ln(),
            None => moments.log_prob(logit),
        };
        let log_weight = moments.weight.ln();
        Some(PositionScore {
            log_prob: moments.log_prob(logit),
            log_prob_sampled: drawn,
            margin: f64::from(logit) - f64::from(others),
            rank: above,
            top: moments.top,
            mean_log_prob: moments.mean - log_weight,
            sd_log_prob: (moments.squares / moments.weight).sqrt(),
        })
    }
}

/// Takes in a tile, and returns its moments.
pub(super) struct Tile<'a> {
    pub(super) seen: &'a mut Seen,
    /// The logits, padded to whole lines with `f32::MIN`.
    pub(super) z: &'a [f32],
    /// The number of tokens.
    pub(super) n: usize,
    /// The first token.
    pub(super) first: u32,
    /// Room for as many numbers.
    pub(super) e: &'a mut [f32],
}

impl SimdKernel for Tile<'_> {
    type Output = Moments;

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) -> Moments {
        let Self { seen, z, n, first, e } = self;
        let (lines, _) = z.as_chunks::<LINE>();
        let (exponentials, _) = e.as_chunks_mut::<LINE>();
        let largest = largest(isa, lines);
        for (z, e) in lines.iter().zip(exponentials.iter_mut()) {
            for i in 0..LINE {
                let y = z[i] - largest;
                e[i] = if y < f32::NEGLIGIBLE { 0.0 } else { exp(isa, y) };
            }
        }
        let exponentials = &exponentials[..lines.len()];
        let weight = total(isa, exponentials, |line, i| exponentials[line][i]);
        let mean = total(isa, lines, |line, i| exponentials[line][i] * (lines[line][i] - largest)) / weight;
        let centre = mean as f32;
        let squares = total(isa, lines, |line, i| {
            let y = (lines[line][i] - largest) - centre;
            // In this order, because the square of the padding is infinite.
            exponentials[line][i] * y * y
        });
        let mut tempered = 0.0;
        if let Some(temperature) = seen.tempered {
            let inverse = (1.0 / temperature) as f32;
            tempered = total(isa, lines, |line, i| {
                let y = (lines[line][i] - largest) * inverse;
                if y < f32::NEGLIGIBLE { 0.0 } else { exp(isa, y) }
            });
        }
        seen.exact(lines, &z[..n], first, largest);
        let top = first_equal(lines, largest);
        Moments { largest, top: first + top as u32, weight, mean, squares, tempered }
    }
}

#[inline(always)]
fn largest<I: Isa>(isa: I, lines: &[[f32; LINE]]) -> f32 {
    let mut largest = LineVector::splat(isa, f32::NEG_INFINITY);
    for line in lines {
        largest = LineVector::load(isa, line).max(largest);
    }
    largest.array().into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// The index of the first number that equals another; 0 if there is none.
#[inline(always)]
fn first_equal(lines: &[[f32; LINE]], x: f32) -> usize {
    for (i, line) in lines.iter().enumerate() {
        if line.iter().fold(false, |any, &z| any | (z == x)) {
            return i * LINE + line.iter().position(|&z| z == x).unwrap_or(0);
        }
    }
    0
}

/// The sum of a term per number, given its line and its place there: in f64, in a fixed order.
#[inline(always)]
fn total<I: Isa>(isa: I, lines: &[[f32; LINE]], term: impl Fn(usize, usize) -> f32) -> f64 {
    let mut sums = LineVector::splat(isa, 0.0f64);
    for line in 0..lines.len() {
        let mut terms = [0.0f64; LINE];
        for (i, wide) in terms.iter_mut().enumerate() {
            *wide = f64::from(term(line, i));
        }
        sums = sums.plus(LineVector::load(isa, &terms));
    }
    let lanes = sums.array();
    let mut four = [0.0; 4];
    for i in 0..4 {
        four[i] = (lanes[i] + lanes[i + 8]) + (lanes[i + 4] + lanes[i + 12]);
    }
    (four[0] + four[2]) + (four[1] + four[3])
}

#[cfg(test)]
mod tests {
    use super::super::tests::{near, plain};
    use super::*;
    use crate::num::Stream;
    use crate::num::aligned::padded;
    use crate::num::simd::each;

    /// Logits seen in tiles of some size, in segments of three tiles, the segments one after the other or apart.
    struct InTiles<'a> {
        logits: &'a [f32],
        token: usize,
        sampling: Sampling,
        tile: usize,
        apart: bool,
    }

    impl SimdKernel for InTiles<'_> {
        type Output = Option<PositionScore>;

        #[inline(always)]
        fn call<I: Isa>(self, isa: I) -> Option<PositionScore> {
            let Self { logits, token, sampling, tile, apart } = self;
            let target = Target { token: token as u32, logit: logits[token] };
            let nothing = Seen::of_target(target, sampling, logits.len());
            let mut seen = nothing.clone();
            for (i, segment) in logits.chunks(3 * tile).enumerate() {
                let mut own = if apart { nothing.clone() } else { seen.clone() };
                let mut moments = Moments::NONE;
                for (j, z) in segment.chunks(tile).enumerate() {
                    let (n, first) = (z.len(), ((3 * i + j) * tile) as u32);
                    let mut z = z.to_vec();
                    z.resize(padded(n), f32::MIN);
                    let mut e = z.clone();
                    let later = isa.run(Tile { seen: &mut own, z: &z, n, first, e: &mut e });
                    moments = own.joined(moments, later);
                }
                own.moments = own.joined(own.moments, moments);
                match apart {
                    true => seen.merge(own),
                    false => seen = own,
                }
            }
            seen.score(sampling)
        }
    }

    fn all_ways(
        logits: &[f32],
        token: usize,
        sampling: Sampling,
        mut check: impl FnMut(Option<PositionScore>),
    ) {
        for tile in [16, 48, 1 << 20] {
            let mut found = Vec::new();
            for apart in [false, true] {
                each(
                    |_| InTiles { logits, token, sampling, tile, apart },
                    |score| {
                        found.push(score);
                        check(score);
                    },
                );
            }
            let half = found.len() / 2;
            assert_eq!(found[..half], found[half..], "one after the other or apart");
        }
    }

    fn are_those_of_the_definition(logits: &[f32], sampling: Sampling, tolerance: f64) {
        let wide: Vec<f64> = logits.iter().map(|&z| f64::from(z)).collect();
        for token in [0, logits.len() / 2, logits.len() - 1] {
            let expect = plain(&wide, token, sampling);
            all_ways(logits, token, sampling, |score| {
                let score = score.unwrap();
                near(&score, &expect, tolerance, tolerance);
                assert_eq!((score.rank, score.top), (expect.rank, expect.top));
            });
        }
    }

    #[test]
    fn scores_are_those_of_their_definition() {
        let mut stream = Stream::new(0, "logits", 0);
        for (n, scale) in [(1, 1.0), (2, 3.0), (15, 1.0), (16, 5.0), (17, 5.0), (500, 0.01), (1000, 8.0)] {
            let logits: Vec<f32> = (0..n).map(|_| (scale * stream.normal()) as f32 + 3.0).collect();
            for top_k in [1, 2, 40, 999, 1000, 5000] {
                for temperature in [1.0, 0.5, 3.0] {
                    are_those_of_the_definition(&logits, Sampling { top_k, temperature }, 2e-6);
                }
            }
        }
    }

    #[test]
    fn ties_are_all_kept() {
        // Half of the tokens have the largest logit, or all of them; some have zeros of both signs.
        let pairs: Vec<f32> = (0..200).map(|i| (i % 2) as f32).collect();
        let few: Vec<f32> = (0..200).map(|i| (i % 7) as f32 * 0.5).collect();
        let zeros: Vec<f32> = (0..200).map(|i| [0.0, -0.0, -1.0][i % 3]).collect();
        for logits in [vec![2.5; 200], pairs, few, zeros] {
            for top_k in [1, 28, 29, 40, 100, 101, 199, 200] {
                are_those_of_the_definition(&logits, Sampling { top_k, temperature: 1.5 }, 1e-6);
            }
        }
    }

    #[test]
    fn a_small_deviation_is_accurate() {
        // One token stands out from thousands of equal ones: the variance is far below the square of the mean.
        for out in [1e-3f32, 0.1, 1.0, 4.0, 12.0, 30.0, 200.0] {
            let mut logits = vec![-3.0f32; 20_000];
            logits[7_777] += out;
            let wide: Vec<f64> = logits.iter().map(|&z| f64::from(z)).collect();
            let expect = plain(&wide, 7_777, Sampling::default());
            all_ways(&logits, 7_777, Sampling::default(), |score| {
                let (found, expect) = (score.unwrap().sd_log_prob, expect.sd_log_prob);
                assert!((found - expect).abs() <= 1e-5 * expect + 1e-15, "{out}: {found} {expect}");
            });
        }
    }

    #[test]
    fn one_token_can_have_all_the_mass() {
        let mut logits = vec![-100.0f32; 300];
        logits[123] = 100.0;
        all_ways(&logits, 123, Sampling::default(), |score| {
            let score = score.unwrap();
            assert_eq!((score.log_prob, score.log_prob_sampled, score.margin), (0.0, 0.0, 200.0));
            assert!(score.mean_log_prob.abs() < 1e-30 && score.sd_log_prob < 1e-30 && score.rank == 0);
        });
        all_ways(&logits, 5, Sampling { top_k: 1, temperature: 1.0 }, |score| {
            let score = score.unwrap();
            assert_eq!((score.log_prob, score.rank, score.top), (-200.0, 1, 123));
            assert_eq!(score.log_prob_sampled, f64::NEG_INFINITY);
        });
    }

    #[test]
    fn a_vocabulary_of_one_token_leaves_no_choice() {
        all_ways(&[3.5], 0, Sampling::default(), |score| {
            let score = score.unwrap();
            assert_eq!((score.log_prob, score.log_prob_sampled, score.sd_log_prob), (0.0, 0.0, 0.0));
            assert_eq!((score.margin, score.rank, score.top), (f64::INFINITY, 0, 0));
        });
    }

    #[test]
    fn a_logit_that_is_not_finite_leaves_no_score() {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 20, 99] {
                let mut logits: Vec<f32> = (0..100).map(|i| i as f32).collect();
                logits[at] = wrong;
                for top_k in [1, 40, 100] {
                    let sampling = Sampling { top_k, temperature: 2.0 };
                    for token in [50, at] {
                        all_ways(&logits, token, sampling, |score| assert_eq!(score, None));
                    }
                }
            }
        }
    }
}
