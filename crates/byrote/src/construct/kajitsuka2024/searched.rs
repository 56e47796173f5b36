//! The smaller construction: a hash a block, and a table of digits read by a barrel shifter. Four channels.
//!
//! The word of block b is a table of S digits of base C: Z_b = 2 (digits) + 1, below W = 2 C^S. The lookup is one
//! piecewise-linear function of the id x in U, a neuron a block:
//!
//! ```text
//! Z = Q (a_b x + c_b) + Z_b = Q H + Z_b      on block b, Q = W 2^j,
//! ```
//!
//! so one neuron brings both the word and the hash H of the id, which [`hash_search`](super::hash_search) has chosen. Then
//!
//! 1. folds of Z down to dist(Z, 2^p Q): the hash modulo its period, on top of the word; a copy of it goes to U;
//! 2. folds of Z down to dist(Z, 2 W) = Z_b: the word alone;
//! 3. for each stage of the [`halving`](super::halving) with k digits and threshold tau: U holds the hash minus tau. If U > 0
//!    then Z <- Z C^k and U <- -U, by relu(Z + 4U) and relu(4U); then U += tau - tau', and folds bring Z back below W;
//! 4. the top digit becomes the label by the same halving on C: where Z is above tau, O += k and Z is mirrored.
//!
//! *Margins.* U is a multiple of Q plus at most W + R in magnitude (the word and the id are still in it), taps halfway between
//! multiples; with Q / 2 >= 5 W / 4 + 1 + R therefore |4U| > W > Z, so that relu(Z + 4U) is 0 where U < 0 and Z + 4U where not.
//!
//! *Digits.* Z C^k = (top k digits) W + (2 (other digits) + 1) C^k; the folds remove the multiples of W and mirror the rest
//! where they are odd in number. The 1 makes the mirror exact: every digit d becomes C - 1 - d.
//!
//! Parameters: 4K + 3 kappa + 2 + 3B + 3 F1 + 3 + sum over stages (7 + 3 bl(C^k - 1)) - 2 + 7 levels(C) - 1 + 1. The number of
//! blocks comes from search, so there is no worst-case bound: the builder compares with [`bounded`](super::bounded).

use super::context_map::{ContextMap, Fact};
use super::dyadic::Dyadic;
use super::halving::{Halving, MOST_SLOTS, overflow_bits};
use super::hash_search::{Effort, HashedBlock, search};
use super::network::Channel::{O, U, Z};
use super::network::{Head, Layer, Network, Neuron, Part, Stage};
use dashu_int::IBig;
use dashu_int::ops::BitTest;

/// p: hashes have the period 2^p.
const PERIOD_BITS: u32 = 14;
/// A: the hash function moves within about 2^A. More tries are different tries only if there are more slopes.
fn reach_bits(tries: u64) -> u32 {
    22 + (tries / 100_000).checked_ilog2().unwrap_or(0) / 2
}

/// Tries a block while the number of slots is being chosen.
const QUICK_TRIES: u64 = 1 << 10;
/// Facts that are looked at for that.
const SAMPLE: usize = 3_000;

/// The smallest network that the search finds; `None` where `look` asks to stop. `look` sees how many of how many facts are
/// done.
pub fn build(
    map: &ContextMap,
    facts: &[Fact],
    labels: u32,
    tries: u64,
    seed: u64,
    look: &dyn Fn(usize, usize) -> bool,
) -> Option<Network> {
    let slots = best_slots(facts, labels, tries, seed, look)?;
    let plan = Halving::new(slots, PERIOD_BITS);
    let effort = Effort { tries, reach_bits: reach_bits(tries) };
    let blocks = search(facts, &plan, effort, seed, &|done| look(done, facts.len()))?;
    Some(assemble(map, facts, labels, &plan, &blocks))
}

/// The number of slots that costs least, by trying several with few tries and correcting for the tries to come.
fn best_slots(
    facts: &[Fact],
    labels: u32,
    tries: u64,
    seed: u64,
    look: &dyn Fn(usize, usize) -> bool,
) -> Option<usize> {
    let quick = QUICK_TRIES.min(tries);
    // The best of T tries holds about sqrt(2 S ln T / c) facts.
    let gain = ((quick.max(2) as f64).ln() / (tries.max(2) as f64).ln()).sqrt();
    // A part of very many facts tells as much as all of them.
    let sample = &facts[..facts.len().min(SAMPLE)];
    let scale = facts.len() as f64 / sample.len() as f64;
    let mut best: Option<(f64, usize)> = None;
    let mut slots = 1usize;
    let mut worse = 0;
    while slots <= MOST_SLOTS && worse < 4 {
        let plan = Halving::new(slots, PERIOD_BITS);
        let effort = Effort { tries: quick, reach_bits: reach_bits(tries) };
        let blocks = search(sample, &plan, effort, seed, &|_| look(0, facts.len()))?.len();
        let cost = plan.parameters(labels) as f64 + 3.0 * scale * gain * blocks as f64;
        match best {
            Some((least, _)) if cost >= least => worse += 1,
            _ => {
                worse = 0;
                best = Some((cost, slots));
            }
        }
        slots += (slots / 8).max(1);
    }
    best.map(|(_, slots)| slots)
}

/// The network of a plan and the blocks found for it.
fn assemble(
    map: &ContextMap,
    facts: &[Fact],
    labels: u32,
    plan: &Halving,
    blocks: &[HashedBlock],
) -> Network {
    let c = IBig::from(labels);
    let w = c.pow(plan.slots) * 2;
    // The least j >= 2 with 2 Q >= 5 W + 4 + 4 R.
    let mut j = 2;
    while &w << (j + 1) < &w * 5 + 4 + IBig::from(map.ids()) * 4 {
        j += 1;
    }
    let q: IBig = &w << j;
    let lines = Lines::new(facts, labels, plan, blocks, &q);
    // Thresholds W 2^(F1 - 1), ..., W; the period 2^p Q ends at W 2^(j + p - 1).
    let periodic = j + plan.period_bits as usize;
    // Z <= Q H + W.
    let folds = (&lines.highest << j).bit_len().max(periodic);
    let mut lookup = lines.layers;
    lookup.extend(ladder(&w, periodic - 1..folds));
    let mut shift = Vec::new();
    // tau = Q t / 2 for twice the threshold t.
    let tau = |twice: i64| Dyadic::new(&q * twice, 1);
    if let Some(first) = plan.stages.first() {
        let copy = vec![Neuron::simple(Z, 0, U, 1)];
        shift.push(Layer::Feed { neurons: copy, bias: vec![(U, -tau(first.twice_threshold))] });
    }
    shift.extend(ladder(&w, 0..periodic - 1));
    for (i, stage) in plan.stages.iter().enumerate() {
        let factor: IBig = c.pow(stage.digits) - 1;
        let grow = Neuron {
            input: vec![(Z, 1.into()), (U, 4.into())],
            bias: Dyadic::default(),
            output: vec![(Z, factor.clone().into())],
        };
        let mut turn = Neuron {
            input: vec![(U, 4.into())],
            bias: Dyadic::default(),
            output: vec![(Z, (-factor).into())],
        };
        let mut bias = Vec::new();
        if let Some(next) = plan.stages.get(i + 1) {
            turn.output.push((U, -Dyadic::half_to_the(1)));
            bias.push((U, tau(stage.twice_threshold - next.twice_threshold)));
        }
        shift.push(Layer::Feed { neurons: vec![grow, turn], bias });
        shift.extend(ladder(&w, 0..overflow_bits(labels, stage.digits)));
    }
    let mut stages = map.stages(1);
    stages.push(Stage::once(Part::Lookup, lookup));
    stages.push(Stage::once(Part::Shift, shift));
    stages.push(Stage::once(Part::Digit, digit_layers(labels, plan.slots)));
    Network {
        tokens: map.tokens.clone(),
        positions: map.positions.clone(),
        stages,
        head: Head { weight: Some((O, 1.into())), bias: Dyadic::default() },
    }
}

/// Folds of Z with W 2^i, from the highest i to the lowest.
fn ladder(w: &IBig, powers: std::ops::Range<usize>) -> impl Iterator<Item = Layer> {
    powers.rev().map(move |i| Layer::of(vec![Neuron::fold(Z, (w << i).into())]))
}

/// The levels of the halving of C: how many digits are below, and how many above.
fn levels(labels: u32) -> Vec<(u32, u32)> {
    let mut levels = Vec::new();
    let mut left = labels;
    while left > 1 {
        let below = left.div_ceil(2);
        levels.push((below, left - below));
        left = below;
    }
    levels
}

/// The label that [`digit_layers`] makes of a digit.
fn label_of(digit: u32, labels: u32) -> u32 {
    let (mut digit, mut label) = (digit, 0);
    for (below, above) in levels(labels) {
        if digit >= below {
            label += above;
            digit = 2 * below - 1 - digit;
        }
    }
    label
}

/// From the top digit in Z to its label in O.
fn digit_layers(labels: u32, slots: usize) -> Vec<Layer> {
    let unit = IBig::from(labels).pow(slots - 1) * 2;
    let levels = levels(labels);
    let last = levels.len() - 1;
    let level = |(i, (below, above)): (usize, (u32, u32))| {
        let below = -IBig::from(&unit * below);
        let mut second = Neuron::simple(Z, below.clone(), O, -i64::from(above));
        if i < last {
            second.output.push((Z, (-2).into()));
        }
        Layer::of(vec![Neuron::simple(Z, below + 1, O, i64::from(above)), second])
    };
    levels.into_iter().enumerate().map(level).collect()
}

/// The piecewise-linear lookup.
struct Lines {
    layers: Vec<Layer>,
    /// The largest H.
    highest: IBig,
}

impl Lines {
    fn new(facts: &[Fact], labels: u32, plan: &Halving, blocks: &[HashedBlock], q: &IBig) -> Self {
        // H at both ends of every block, and a multiple of the period that makes all of them positive.
        let ends = blocks.iter().flat_map(|b| {
            let span = IBig::from(facts[b.end - 1].id - facts[b.start].id);
            [IBig::from(b.at_first), IBig::from(b.at_first) + span * b.slope]
        });
        let (low, high) =
            ends.fold((IBig::ZERO, IBig::ZERO), |(low, high), h: IBig| (low.min(h.clone()), high.max(h)));
        // Rounded down, so at least as far up.
        let offset = -((low >> plan.period_bits as usize) << plan.period_bits as usize);
        let inverse = inverse(labels);
        // The value that the line of a block would have at x = 0.
        let intercept = |b: &HashedBlock| {
            let c = IBig::from(b.at_first) - IBig::from(b.slope) * facts[b.start].id + &offset;
            q * c + word(&facts[b.start..b.end], b, labels, plan, &inverse)
        };
        let mut layers = Vec::with_capacity(blocks.len());
        let (mut last, mut slope) = (IBig::ZERO, 0);
        for block in blocks {
            let at_zero = intercept(block);
            let change = block.slope - slope;
            let sign = IBig::from(change.signum());
            layers.push(match layers.is_empty() {
                true => Layer::Feed {
                    neurons: vec![Neuron::simple(U, 0, Z, q * block.slope)],
                    bias: vec![(Z, at_zero.clone().into())],
                },
                false => Layer::of(vec![Neuron {
                    input: vec![(U, (q * change.unsigned_abs()).into())],
                    bias: (&sign * (&at_zero - last)).into(),
                    output: vec![(Z, sign.into())],
                }]),
            });
            (last, slope) = (at_zero, block.slope);
        }
        Self { layers, highest: high + offset }
    }
}

/// The digit that stands for each label.
fn inverse(labels: u32) -> Vec<u32> {
    let mut inverse = vec![0; labels as usize];
    for digit in 0..labels {
        inverse[label_of(digit, labels) as usize] = digit;
    }
    inverse
}

/// 2 (digits) + 1 for the facts of a block, filled from the top: whether a digit is stored mirrored depends on those above it.
fn word(facts: &[Fact], block: &HashedBlock, labels: u32, plan: &Halving, inverse: &[u32]) -> IBig {
    let mask = (1u64 << plan.period_bits) - 1;
    let mut wanted: Vec<Option<u32>> = vec![None; plan.slots];
    for fact in facts {
        let hash = (block.at_first as u64)
            .wrapping_add((block.slope as u64).wrapping_mul(fact.id - facts[0].id))
            & mask;
        wanted[usize::from(plan.digit_of[hash as usize])] = Some(inverse[fact.label as usize]);
    }
    let mut digits = vec![0u32; plan.slots];
    for i in 0..plan.slots {
        let Some(digit) = wanted[i] else { continue };
        let (mut passed, mut mirrored) = (0, false);
        for (stage, above) in plan.stages.iter().zip(&plan.ways[i]) {
            if *above {
                let seen = &digits[passed..passed + stage.digits];
                let shown = seen.iter().map(|&d| if mirrored { labels - 1 - d } else { d });
                mirrored ^= is_odd(shown, labels);
                passed += stage.digits;
            }
        }
        digits[i] = if mirrored { labels - 1 - digit } else { digit };
    }
    digits.iter().fold(IBig::ZERO, |number, &d| number * labels + d) * 2 + 1
}

/// Whether the number of these digits is odd: its last digit decides in an even base, their sum in an odd one.
fn is_odd(digits: impl Iterator<Item = u32>, labels: u32) -> bool {
    let (last, sum) = digits.fold((0, 0), |(_, sum), d| (d, sum ^ (d & 1)));
    match labels % 2 {
        0 => last % 2 == 1,
        _ => sum == 1,
    }
}
