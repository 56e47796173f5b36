//! How sharp a softmax must be where hardmax would choose, and how even where the mean should be uniform.
//!
//! The attention of the construction is uniform: its scores are 0, so softmax and hardmax agree, and all that can go wrong is
//! that the scores are not exactly equal. Heads that choose one position each are the variant of
//! [`selecting`](super::selecting); softmax comes near to hardmax there as beta grows.
//!
//! **Bound.** A head of gap delta (here 1) between its largest score and the others leaves at most (n - 1) e^(-beta delta) of its
//! weight elsewhere. A head whose scores lie in an interval of length eps is within tanh(eps / 4) of the uniform one in total
//! variation. Let F be the range of the values, L the magnification of the layers behind ([`magnification`]), and lambda or c_o
//! the output weights. Every fact is answered right (the output rounds to its label) as soon as
//!
//! ```text
//! M (sum_o c_o) (n - 1) F L e^(-beta delta) < 1/2        selecting heads
//! lambda F L eps / 4 < 1/2                               a uniform head
//! ```
//!
//! With the id rounded ([`with_rounding`]) it is enough that the left sides, without L, are at most M / 4.
//!
//! | here | meaning |
//! |---|---|
//! | bits | beta / ln 2, or log2(1 / eps): e^(-beta) and eps are powers of 2, so that all weights of the softmax are rational |
//! | measured | the least number of bits, by bisection, with which all facts are answered right |
//! | sufficient | the least number of bits for which the bound says so |
//!
//! **Certified.** Attention is computed to `P` bits, 96 more than the layers behind it can magnify to 1; what is rounded away
//! cannot change an output by 2^-32, and an answer counts only if it is right with that much to spare. Everything else is exact.
//! Answers need not get better with every bit, so bisection finds *a* border between right and wrong, not necessarily the only one.

use super::build::{Built, verify};
use super::compiled::Compiled;
use super::dyadic::Dyadic;
use super::exact_model::Method;
use super::exact_network::{Channel, ExactNetwork, SubLayer, Weight};
use super::interpret::State;
use super::magnification::{magnification, product, size};
use super::rounding::with_rounding;
use super::selecting::SelectingNetwork;
use super::task::{Sample, Samples};
use crate::observe::{Counter, Observer, Stage};
use crate::{Error, Result};
use dashu_int::IBig;
use rayon::prelude::*;
use serde::Serialize;

/// How many bits the attention needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sharpness {
    /// The least number with which all facts are answered right.
    pub measured_bits: u64,
    /// The least number that the bound guarantees.
    pub sufficient_bits: u64,
    /// The bits before the point of L, the magnification of the layers behind the attention.
    pub magnification_bits: u64,
}

/// The bits of beta / ln 2 that selecting heads need, with the id rounded or not.
///
/// # Errors
/// When the observer asks to stop.
pub fn sharpness(
    network: &SelectingNetwork,
    samples: &Samples,
    rounded: bool,
    observer: &dyn Observer,
) -> Result<Sharpness> {
    let mut network = network.clone();
    if rounded {
        network = network.rounded();
        network.verify(samples, observer)?;
    }
    let m = IBig::from(network.multiplier);
    let outputs: Vec<Dyadic> = network.weights.iter().map(|&c| (&m * c).into()).collect();
    let mut all = Dyadic::default();
    outputs.iter().for_each(|c| all.add(c));
    let codes: Vec<Dyadic> = network.codes.iter().map(|&z| IBig::from(z).into()).collect();
    // M sum c (n - 1) F.
    let others = Dyadic::from(outputs.len() as i64 - 1);
    let deviation = product(&product(&all, &others), &range(codes.iter()));
    let attention = Attention::Selecting { outputs, codes };
    let bound = Bound::new(&network.behind, Channel::U, deviation, rounded.then_some(network.multiplier));
    let compiled = Compiled::new(&network.behind);
    Soft { compiled, samples, attention, precision: bound.precision }.measure(&bound, observer)
}

/// The bits of 1 / eps that uniform attention needs, if its scores are eps at every other position and 0 elsewhere (to be exact,
/// ln(1 + eps)), with the id rounded or not.
///
/// Other scores within eps of each other may do more harm than this pattern, so the measured eps is an upper bound on what is
/// tolerable.
///
/// # Errors
/// When the network has no attention, because all labels are equal; or when the observer asks to stop.
pub fn evenness(
    built: &Built,
    samples: &Samples,
    rounded: bool,
    observer: &dyn Observer,
) -> Result<Sharpness> {
    let multiplier = if built.model.method == Method::Searched { 1 } else { samples.task().labels };
    let mut network = built.model.network.clone();
    if rounded {
        network = with_rounding(&network, multiplier, built.ids);
        verify(&network, samples, observer)?;
    }
    let attention = network.layers().find_map(|layer| match layer {
        SubLayer::Attend { value, output } => Some((value.clone(), output.clone())),
        SubLayer::Feed { .. } => None,
    });
    let Some((value, output)) = attention else {
        return Err(Error::setting("samples", "all facts have the same label, so nothing is attended to"));
    };
    let longest = samples.lengths().last().copied().unwrap_or(1);
    let compiled = Compiled::new(&network);
    let tokens = 0..network.tokens.len() as u32;
    let before: Vec<Vec<State>> = (0..longest)
        .map(|position| tokens.clone().map(|t| compiled.before_attention(t, position)).collect())
        .collect();
    let values = range(before.iter().flatten().map(|state| &state[value.0.index()]));
    // lambda F / 4.
    let weight = product(&size(&value.1), &size(&output.1));
    let deviation = product(&product(&weight, &values), &Dyadic::half_to_the(2));
    let bound = Bound::new(&network, output.0, deviation, rounded.then_some(multiplier));
    let attention = Attention::Uniform { value, output, before };
    Soft { compiled, samples, attention, precision: bound.precision }.measure(&bound, observer)
}

/// Bits of precision beyond what the layers behind the attention magnify.
const GUARD: usize = 96;
/// An answer must be right by this power of 1/2.
const TO_SPARE: usize = 32;

/// What suffices.
struct Bound {
    sufficient_bits: u64,
    magnification_bits: u64,
    /// P: the bits behind the point of what the attention returns.
    precision: usize,
}

impl Bound {
    /// `deviation` is what the attention may be off by, times 2 to the power of the bits; `rounded` is M if the id is rounded.
    fn new(network: &ExactNetwork, channel: Channel, deviation: Dyadic, rounded: Option<u32>) -> Self {
        let slope = magnification(network, channel);
        // 2, and what answers have to spare.
        let twice = Dyadic::new((IBig::ONE << TO_SPARE) + 4u8, TO_SPARE - 1);
        let magnified = product(&deviation, &slope);
        let sufficient_bits = match rounded {
            None => product(&magnified, &twice).whole_bits() as u64,
            Some(m) => bits_at_least(&product(&deviation, &4.into()), m),
        };
        let magnification_bits = slope.whole_bits() as u64;
        Self { sufficient_bits, magnification_bits, precision: magnified.whole_bits() + GUARD }
    }
}

/// F: the largest difference between two values.
fn range<'a>(values: impl Iterator<Item = &'a Dyadic> + Clone) -> Dyadic {
    let mut range = values.clone().max().cloned().unwrap_or_default();
    range.add(&-values.min().cloned().unwrap_or_default());
    range
}

/// The least b >= 0 with 2^b m >= x.
fn bits_at_least(x: &Dyadic, m: u32) -> u64 {
    let mut bits = 0;
    while *x > Dyadic::from(IBig::from(m) << bits) {
        bits += 1;
    }
    bits as u64
}

/// The attention that is not exact.
enum Attention {
    /// Heads with the scores -beta (s - o)^2, and their output weights.
    Selecting { outputs: Vec<Dyadic>, codes: Vec<Dyadic> },
    /// A head whose scores are nearly equal, and the states before it, by position and token.
    Uniform { value: Weight, output: Weight, before: Vec<Vec<State>> },
}

/// A network whose attention is a softmax that is not exact.
struct Soft<'n> {
    compiled: Compiled<'n>,
    samples: &'n Samples,
    attention: Attention,
    precision: usize,
}

impl Soft<'_> {
    /// Bisects between no bits and the number that suffices.
    fn measure(&self, bound: &Bound, observer: &dyn Observer) -> Result<Sharpness> {
        let &Bound { sufficient_bits, magnification_bits, .. } = bound;
        let (mut low, mut high) = (0, sufficient_bits);
        if !self.all_right(high, observer)? {
            let message = format!("a bug in the bound: {high} bits do not suffice");
            return Err(Error::setting("samples", message));
        }
        if self.all_right(0, observer)? {
            high = 0;
        }
        while high > low + 1 {
            let middle = low + (high - low) / 2;
            match self.all_right(middle, observer)? {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok(Sharpness { measured_bits: high, sufficient_bits, magnification_bits })
    }

    /// Whether every fact is answered right; stops at one that is not.
    fn all_right(&self, bits: u64, observer: &dyn Observer) -> Result<bool> {
        let counter = Counter::new(observer, Stage::Verifying, Some(self.samples.len() as u64));
        let found = self.samples.list().par_chunks(64).map(|lot| {
            counter.add(lot.len() as u64)?;
            Ok(lot.iter().all(|sample| self.is_right(sample, bits)))
        });
        found.find_any(|right| !matches!(right, Ok(true))).unwrap_or(Ok(true))
    }

    /// Whether the output is within 1/2 of the label, with something to spare.
    fn is_right(&self, sample: &Sample, bits: u64) -> bool {
        let state = self.after_attention(self.samples.visible(sample), sample.read as usize, bits);
        let mut out = self.compiled.after_attention(state);
        out.add(&Dyadic::from(-i64::from(sample.label)));
        let mut off = size(&out);
        off.add(&Dyadic::half_to_the(TO_SPARE));
        off < Dyadic::half_to_the(1)
    }

    /// The state of the position that is read.
    fn after_attention(&self, tokens: &[u32], read: usize, bits: u64) -> State {
        match &self.attention {
            Attention::Selecting { outputs, codes } => {
                let values: Vec<&Dyadic> = tokens.iter().map(|&t| &codes[t as usize]).collect();
                let mut heads = Dyadic::default();
                for (o, output) in outputs.iter().enumerate() {
                    let weights = self.selecting_weights(o, values.len(), bits);
                    heads.add_product(output, &self.mean(&values, &weights));
                }
                [values[read].clone(), heads, Dyadic::default(), Dyadic::default()]
            }
            Attention::Uniform { value, output, before } => {
                let states: Vec<&State> =
                    tokens.iter().zip(before).map(|(&t, row)| &row[t as usize]).collect();
                let values: Vec<&Dyadic> = states.iter().map(|s| &s[value.0.index()]).collect();
                let weight = |s: usize| (IBig::ONE << bits as usize) + u8::from(s.is_multiple_of(2));
                let weights: Vec<IBig> = (0..values.len()).map(weight).collect();
                let mixed = product(&value.1, &self.mean(&values, &weights));
                let mut state = states[read].clone();
                state[output.0.index()].add_product(&output.1, &mixed);
                state
            }
        }
    }

    /// 2^(P - bits (s - o)^2), without what is below 1.
    fn selecting_weights(&self, o: usize, n: usize, bits: u64) -> Vec<IBig> {
        let weight = |s: usize| {
            let off = (bits as usize).saturating_mul(s.abs_diff(o).pow(2));
            match self.precision.checked_sub(off) {
                Some(power) => IBig::ONE << power,
                None => IBig::ZERO,
            }
        };
        (0..n).map(weight).collect()
    }

    /// The mean of integers with these weights, rounded down at the last bit.
    fn mean(&self, values: &[&Dyadic], weights: &[IBig]) -> Dyadic {
        let total: IBig = weights.iter().sum();
        let mixed: IBig = values.iter().zip(weights).map(|(v, w)| v.mantissa() * w).sum();
        Dyadic::new((mixed << self.precision) / total, self.precision)
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::{MemoryKind, Settings, build};
    use super::super::crossing::{random_facts, random_facts_of};
    use super::*;
    use crate::observe::Silent;

    const MEMORIES: [MemoryKind; 3] = [MemoryKind::Bounded, MemoryKind::Searched, MemoryKind::Looped];

    fn settings(memory: MemoryKind) -> Settings {
        Settings { memory: Some(memory), tries: 200, ..Settings::default() }
    }

    /// That the sufficient number of bits does suffice is checked on the way.
    fn check(found: [Sharpness; 2]) {
        let [plain, rounded] = found;
        for found in [plain, rounded] {
            assert!(0 < found.measured_bits && found.measured_bits <= found.sufficient_bits, "{found:?}");
        }
        assert!(rounded.sufficient_bits < 40 && plain.sufficient_bits > 40, "{plain:?} {rounded:?}");
        assert!(rounded.measured_bits < plain.measured_bits, "{plain:?} {rounded:?}");
    }

    #[test]
    fn the_bound_suffices_and_rounding_makes_it_independent_of_the_weights() {
        let samples = random_facts_of(60, 4..=4, 3).unwrap();
        let lengths = random_facts(60, 3).unwrap();
        for memory in MEMORIES {
            let network = SelectingNetwork::build(&samples, &settings(memory), &Silent).unwrap();
            check([false, true].map(|rounded| sharpness(&network, &samples, rounded, &Silent).unwrap()));
            let built = build(&lengths, &settings(memory), &Silent).unwrap();
            check([false, true].map(|rounded| evenness(&built, &lengths, rounded, &Silent).unwrap()));
        }
    }

    #[test]
    fn softmax_weighs_as_worked_by_hand() {
        let samples = random_facts_of(20, 3..=3, 0).unwrap();
        let network = ExactNetwork::constant(0);
        let numbers = || [0i64, 84, 168].map(Dyadic::from).to_vec();
        let state = |attention, bits| {
            let compiled = Compiled::new(&network);
            let soft = Soft { compiled, samples: &samples, attention, precision: 40 };
            let [_, u, ..] = soft.after_attention(&[0, 1, 2], 2, bits);
            i64::try_from(u.mantissa().clone()).unwrap() as f64 / (u.exponent() as f64).exp2()
        };
        let selecting = |bits| {
            state(
                Attention::Selecting { outputs: [1i64, 3, 7].map(Dyadic::from).to_vec(), codes: numbers() },
                bits,
            )
        };
        // Weights 1, 1/2, 1/16 of the outer heads and 1/2, 1, 1/2 of the inner one.
        let mean = |a: f64, b: f64, c: f64| (84.0 * b + 168.0 * c) / (a + b + c);
        let wanted = mean(1.0, 0.5, 0.0625) + 3.0 * mean(0.5, 1.0, 0.5) + 7.0 * mean(0.0625, 0.5, 1.0);
        assert!((selecting(1) - wanted).abs() < 1e-9);
        // Sharp heads select: 0 + 3 * 84 + 7 * 168.
        assert!((selecting(60) - 1_428.0).abs() < 1e-9);
        // An uneven mean: weights 9/8, 1, 9/8 and the output weight 3.
        let before = numbers().into_iter().map(|x| {
            let row: State = [Dyadic::default(), x, Dyadic::default(), Dyadic::default()];
            vec![row.clone(), row.clone(), row]
        });
        let (value, output) = ((Channel::U, 1.into()), (Channel::U, 3.into()));
        let uneven = state(Attention::Uniform { value, output, before: before.collect() }, 3);
        assert!((uneven - 168.0 - 3.0 * mean(9.0, 8.0, 9.0)).abs() < 1e-9);
    }

    #[test]
    fn bits_are_counted_by_hand() {
        let of = |a: i64, e| Dyadic::new(a.into(), e).whole_bits();
        assert_eq!([of(0, 0), of(1, 0), of(7, 0), of(8, 0), of(15, 1), of(1, 3)], [0, 1, 3, 4, 3, 0]);
        assert_eq!([1, 3, 4, 7].map(|x| bits_at_least(&x.into(), 3)), [0, 0, 1, 2]);
    }
}
