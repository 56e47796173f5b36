//! The smaller construction: one hash per block, and tables of digits read by a barrel shifter. Four channels.
//!
//! A table is a word of S digits of base C: 2 (digits) + 1, below W = 2 C^S. The facts are split into one to three classes by id,
//! and a block holds a table of each. With v_1 = [x >= t_1], v_2 = [x >= t_2] the class of the id x in U, the lookup is one
//! piecewise-linear function with one neuron per block:
//!
//! ```text
//! Z = Q (a_b x + c_(b,j)) + (table of block b and class j) = Q H + word,      Q = W 2^j',
//! ```
//!
//! since a neuron can add (T_1 - T_0) v_1 + (T_2 - T_1) v_2 to its argument. So three parameters, and one more for each further
//! class, provide a table *and* the hash H of the id, which [`hash_search`](super::hash_search) has chosen.
//!
//! *Why it is the right line.* v_1 and v_2 are 0 or 1, and v_2 <= v_1, so on an id of class j the sum telescopes and neuron b
//! adds relu(s D) s, where D = Q (H_b - H_(b-1)) + (difference of two tables), all of class j, and s is the sign of the change
//! of slope. The search has made |H_b - H_(b-1)| >= 1 at every id of the class, of sign s from the first id of run b on and of
//! sign -s before it; tables differ by less than W < Q. So exactly the neurons of the runs up to that of the id are active, and
//! their sum telescopes to the line of its run. Then
//!
//! 1. folds of Z down to dist(Z, 2^p Q): the hash modulo its period, on top of the word; a copy of it goes to U;
//! 2. folds of Z down to dist(Z, 2 W): the word alone;
//! 3. for each stage of the [`halving`](super::halving) with k digits and threshold tau: U holds the hash minus tau. If U > 0
//!    then Z <- Z C^k and U <- -U, by relu(Z + 4U) and relu(4U); then U += tau - tau', and folds bring Z back below W;
//! 4. the top digit becomes the label by the same halving on C: where Z is above tau, O += k and Z is mirrored.
//!
//! The bits v_1 and v_2 are kept in O and V, which are not used during the lookup and are emptied before (V) or after (O) it.
//!
//! *Margins.* U is a multiple of Q plus at most W + R in magnitude (the word and the id are still in it), thresholds lie halfway
//! between multiples; with Q / 2 >= 5 W / 4 + 1 + R therefore |4U| > W > Z, so that relu(Z + 4U) is 0 where U < 0 and Z + 4U
//! otherwise.
//!
//! *Digits.* Z C^k = (top k digits) W + (2 (other digits) + 1) C^k; the folds remove the multiples of W and mirror the rest
//! where they are odd in number. The 1 makes the mirror exact: every digit d becomes C - 1 - d.
//!
//! Parameters, with m classes: 4K + 3 kappa + 2 + (2 + m) B + 3 F1 + 3 + sum over stages (7 + 3 bl(C^k - 1)) - 2 + 7 levels(C) - 1 + 1,
//! and 8 or 16 for the bits of two or three classes (a single slot has no stages and no copy: neither 3 nor -2). This is the
//! count of weights that are not 0, less one for each that happens to be 0. The number of blocks comes from search, so there
//! is no worst-case bound: the builder compares with [`bounded`](super::bounded).

use super::context_map::{ContextMap, Fact};
use super::dyadic::Dyadic;
use super::exact_network::Channel::{O, U, V, Z};
use super::exact_network::{Channel, ExactNetwork, NetworkStage, Neuron, Readout, StagePurpose, SubLayer};
use super::halving::{Halving, MOST_SLOTS, overflow_bits};
use super::hash_search::{FactRun, HashedBlock, SearchSizes, search};
use crate::Result;
use crate::observe::{self, Observer};
use dashu_int::IBig;
use dashu_int::ops::BitTest;
use std::ops::Range;

/// p: hashes have the period 2^p.
const PERIOD_BITS: u32 = 14;
/// A: the hash function moves within about 2^A. More tries are different tries only if there are more slopes.
fn reach_bits(tries: u64) -> u32 {
    22 + (tries / 100_000).checked_ilog2().unwrap_or(0) / 2
}

/// The most classes: their bits must find room in the channels.
const MOST_CLASSES: usize = 3;
/// Tries per block while the sizes are being chosen.
const QUICK_TRIES: u64 = 1 << 12;
/// Facts that are used for that.
const SAMPLE: usize = 3_000;

/// The smallest network that the search finds.
pub fn build(
    map: &ContextMap,
    facts: &[Fact],
    labels: u32,
    tries: u64,
    seed: u64,
    observer: &dyn Observer,
) -> Result<ExactNetwork> {
    let sizes = best_sizes(facts, labels, tries, seed, observer)?;
    of_sizes(map, facts, labels, sizes, tries, seed, observer)
}

/// Like [`build`], with given numbers of classes and slots.
pub(super) fn of_sizes(
    map: &ContextMap,
    facts: &[Fact],
    labels: u32,
    (classes, slots): (usize, usize),
    tries: u64,
    seed: u64,
    observer: &dyn Observer,
) -> Result<ExactNetwork> {
    let (plan, classes) = (Halving::new(slots, PERIOD_BITS), split(facts.len(), classes));
    let effort = SearchSizes { tries, reach_bits: reach_bits(tries) };
    let blocks = search(facts, &classes, &plan, effort, seed, &report(observer, facts))?;
    Ok(assemble(map, facts, labels, &classes, &plan, &blocks))
}

/// Reports how many of the facts are done.
fn report<'a>(observer: &'a dyn Observer, facts: &'a [Fact]) -> impl Fn(usize) -> Result<()> + 'a {
    |done| observer.report(observe::Stage::Searching, done as u64, Some(facts.len() as u64))
}

/// The facts in a number of equal parts.
fn split(facts: usize, classes: usize) -> Vec<Range<usize>> {
    (0..classes).map(|j| j * facts / classes..(j + 1) * facts / classes).collect()
}

/// Parameters that the class bits cost once: six for each bit, and two to empty its channel.
fn bits_cost(classes: usize) -> usize {
    8 * (classes - 1)
}

/// The numbers of classes and of slots that cost least, by trying several with few tries and correcting for the tries to come.
fn best_sizes(
    facts: &[Fact],
    labels: u32,
    tries: u64,
    seed: u64,
    observer: &dyn Observer,
) -> Result<(usize, usize)> {
    let quick = QUICK_TRIES.min(tries);
    // The best of T tries holds about sqrt(2 S ln T / c) facts.
    let gain = ((quick.max(2) as f64).ln() / (tries.max(2) as f64).ln()).sqrt();
    // A sample of very many facts is as informative as all of them.
    let sample = &facts[..facts.len().min(SAMPLE)];
    let scale = facts.len() as f64 / sample.len() as f64;
    let mut best: Option<(f64, usize, usize)> = None;
    for classes in 1..=MOST_CLASSES.min(sample.len()) {
        let (mut slots, mut least, mut worse) = (1usize, f64::INFINITY, 0);
        while slots <= MOST_SLOTS && worse < 3 {
            let plan = Halving::new(slots, PERIOD_BITS);
            let fixed = (plan.parameters(labels) + bits_cost(classes)) as f64;
            // Not worth a search: the stages alone cost more than another network.
            if best.is_some_and(|b| fixed >= b.0) {
                break;
            }
            let effort = SearchSizes { tries: quick, reach_bits: reach_bits(tries) };
            let parts = split(sample.len(), classes);
            let blocks = search(sample, &parts, &plan, effort, seed, &|_| report(observer, facts)(0))?.len();
            let cost = fixed + (2 + classes) as f64 * scale * gain * blocks as f64;
            worse = if cost < least { 0 } else { worse + 1 };
            least = least.min(cost);
            if best.is_none_or(|b| cost < b.0) {
                best = Some((cost, classes, slots));
            }
            slots += (slots / 6).max(1);
        }
    }
    Ok(best.map_or((1, 1), |(_, classes, slots)| (classes, slots)))
}

/// The network of a plan and the blocks found for it.
fn assemble(
    map: &ContextMap,
    facts: &[Fact],
    labels: u32,
    classes: &[Range<usize>],
    plan: &Halving,
    blocks: &[HashedBlock],
) -> ExactNetwork {
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
    let mut lookup = bits(facts, classes);
    lookup.extend(lines.layers);
    if classes.len() > 1 {
        lookup.push(empty(O));
    }
    lookup.extend(ladder(&w, periodic - 1..folds));
    let mut shift = Vec::new();
    // tau = Q t / 2 for twice the threshold t.
    let tau = |twice: i64| Dyadic::new(&q * twice, 1);
    if let Some(first) = plan.stages.first() {
        let copy = vec![Neuron::simple(Z, 0, U, 1)];
        shift.push(SubLayer::Feed { neurons: copy, bias: vec![(U, -tau(first.twice_threshold))] });
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
        shift.push(SubLayer::Feed { neurons: vec![grow, turn], bias });
        shift.extend(ladder(&w, 0..overflow_bits(labels, stage.digits)));
    }
    let mut stages = map.stages(1);
    stages.push(NetworkStage::once(StagePurpose::Lookup, lookup));
    stages.push(NetworkStage::once(StagePurpose::Shift, shift));
    stages.push(NetworkStage::once(StagePurpose::Digit, digit_layers(labels, plan.slots)));
    ExactNetwork {
        tokens: map.tokens.clone(),
        positions: map.positions.clone(),
        stages,
        head: Readout { weight: Some((O, 1.into())), bias: Dyadic::default() },
    }
}

/// The channels of v_1 and v_2.
const BITS: [Channel; MOST_CLASSES - 1] = [O, V];

/// Empties a channel that holds a non-negative value.
fn empty(channel: Channel) -> SubLayer {
    SubLayer::of(vec![Neuron::simple(channel, 0, channel, -1)])
}

/// Whether the id is at least that of the first fact of each class but the first.
fn bits(facts: &[Fact], classes: &[Range<usize>]) -> Vec<SubLayer> {
    let mut layers = Vec::new();
    for (class, channel) in classes[1..].iter().zip(BITS) {
        if channel == V {
            // The remainder that the squares leave there.
            layers.push(empty(V));
        }
        let above = -IBig::from(facts[class.start].id);
        layers.push(SubLayer::of(vec![
            Neuron::simple(U, &above + 1, channel, 1),
            Neuron::simple(U, above, channel, -1),
        ]));
    }
    layers
}

/// Folds of Z with W 2^i, from the highest i to the lowest.
fn ladder(w: &IBig, powers: Range<usize>) -> impl Iterator<Item = SubLayer> {
    powers.rev().map(move |i| SubLayer::of(vec![Neuron::fold(Z, (w << i).into())]))
}

/// The levels of the halving of C: the digits below and above each threshold.
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

/// The label that [`digit_layers`] computes from a digit.
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
fn digit_layers(labels: u32, slots: usize) -> Vec<SubLayer> {
    let unit = IBig::from(labels).pow(slots - 1) * 2;
    let levels = levels(labels);
    let last = levels.len() - 1;
    let level = |(i, (below, above)): (usize, (u32, u32))| {
        let below: IBig = &unit * -i64::from(below);
        let mut second = Neuron::simple(Z, below.clone(), O, -i64::from(above));
        if i < last {
            second.output.push((Z, (-2).into()));
        }
        SubLayer::of(vec![Neuron::simple(Z, below + 1, O, i64::from(above)), second])
    };
    levels.into_iter().enumerate().map(level).collect()
}

/// The piecewise-linear lookup.
struct Lines {
    layers: Vec<SubLayer>,
    /// The largest H.
    highest: IBig,
}

impl Lines {
    fn new(facts: &[Fact], labels: u32, plan: &Halving, blocks: &[HashedBlock], q: &IBig) -> Self {
        // H at both ends of every run, and a multiple of the period that makes all of them positive.
        let mut ends: Vec<i128> = Vec::new();
        for (block, run) in blocks.iter().flat_map(|b| b.runs.iter().map(move |r| (b, r))) {
            if let [first, .., last] | [first @ last] = &facts[run.start..run.end] {
                ends.extend([run.at(first.id, block.slope), run.at(last.id, block.slope)]);
            }
        }
        let (low, high) = ends.iter().fold((0, 0), |(low, high), &h| (h.min(low), h.max(high)));
        // Rounded down, so at least as far up.
        let offset = -(low >> plan.period_bits << plan.period_bits);
        let inverse = inverse(labels);
        // T of every class: what its line would be at x = 0.
        let intercept = |slope: i64, run: &FactRun| {
            let c = IBig::from(run.value) - IBig::from(slope) * run.anchor + offset;
            q * c + word(&facts[run.start..run.end], slope, run, labels, plan, &inverse)
        };
        let mut layers = Vec::with_capacity(blocks.len());
        let mut last: Vec<IBig> = vec![IBig::ZERO; blocks.first().map_or(0, |b| b.runs.len())];
        let mut slope = 0;
        for block in blocks {
            let now: Vec<IBig> = block.runs.iter().map(|run| intercept(block.slope, run)).collect();
            let change = block.slope - slope;
            // The first line is the whole value, which is positive; the others are changes of slope.
            let sign = if layers.is_empty() { IBig::ONE } else { IBig::from(change.signum()) };
            let by: Vec<IBig> = now.iter().zip(&last).map(|(t, before)| &sign * (t - before)).collect();
            let mut input = vec![(U, (&sign * change * q).into())];
            input.extend(BITS.into_iter().zip(by.windows(2)).map(|(v, t)| (v, (&t[1] - &t[0]).into())));
            let bias = by.first().cloned().unwrap_or_default().into();
            layers.push(SubLayer::of(vec![Neuron { input, bias, output: vec![(Z, sign.into())] }]));
            (last, slope) = (now, block.slope);
        }
        Self { layers, highest: IBig::from(high + offset) }
    }
}

/// The digit that encodes each label.
fn inverse(labels: u32) -> Vec<u32> {
    let mut inverse = vec![0; labels as usize];
    for digit in 0..labels {
        inverse[label_of(digit, labels) as usize] = digit;
    }
    inverse
}

/// 2 (digits) + 1 for the facts of a run, filled from the top: whether a digit is stored mirrored depends on those above it.
fn word(facts: &[Fact], slope: i64, run: &FactRun, labels: u32, plan: &Halving, inverse: &[u32]) -> IBig {
    let mut wanted: Vec<Option<u32>> = vec![None; plan.slots];
    for fact in facts {
        let hash = run.at(fact.id, slope).rem_euclid(1 << plan.period_bits);
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

#[cfg(test)]
mod tests {
    use super::super::compiled::Compiled;
    use super::super::interpret;
    use super::*;
    use crate::observe::Silent;
    use proptest::prelude::*;

    /// A map with room for ids below `end`; its tables do not matter here.
    fn map(end: u64) -> ContextMap {
        ContextMap { tokens: vec![5], positions: vec![2], lambda: 1u8.into(), modulus: 2 * end + 1 }
    }

    /// The memory of a network behind tokens that are ids themselves, and that leaves them in V too, as a map leaves something
    /// there.
    fn memory(network: &ExactNetwork, facts: &[Fact]) -> ExactNetwork {
        let copy =
            NetworkStage::once(StagePurpose::Square, vec![SubLayer::of(vec![Neuron::simple(V, 0, U, 1)])]);
        let of_memory = |s: &&NetworkStage| {
            matches!(s.part, StagePurpose::Lookup | StagePurpose::Shift | StagePurpose::Digit)
        };
        ExactNetwork {
            tokens: facts.iter().map(|f| f.id).collect(),
            positions: vec![0],
            stages: [copy].into_iter().chain(network.stages.iter().filter(of_memory).cloned()).collect(),
            head: network.head.clone(),
        }
    }

    fn layers(network: &ExactNetwork, part: StagePurpose) -> Vec<&SubLayer> {
        network.stages.iter().filter(|s| s.part == part).flat_map(|s| &s.layers).collect()
    }

    /// The neurons of a feed-forward layer.
    fn neurons(layer: &SubLayer) -> &[Neuron] {
        match layer {
            SubLayer::Feed { neurons, .. } => neurons,
            SubLayer::Attend { .. } => panic!("attention in a memory"),
        }
    }

    fn folds(layer: &SubLayer) -> bool {
        matches!(neurons(layer), [n] if n.output == [(Z, (-2).into())])
    }

    /// The formula at the head of this file, and how many of the weights that it counts are 0.
    fn formula(
        network: &ExactNetwork,
        map: &ContextMap,
        labels: u32,
        classes: usize,
        slots: usize,
    ) -> (usize, usize) {
        let (lookup, shift) = (layers(network, StagePurpose::Lookup), layers(network, StagePurpose::Shift));
        let f1 = lookup.iter().filter(|l| folds(l)).count()
            + shift.iter().take_while(|l| neurons(l).len() < 2).filter(|l| folds(l)).count();
        let lines: Vec<&Neuron> = lookup
            .iter()
            .filter_map(|l| match neurons(l) {
                [n] if n.output[0].0 == Z && !folds(l) => Some(n),
                _ => None,
            })
            .collect();
        let steps = lookup.iter().filter(|l| neurons(l).len() == 2).flat_map(|l| neurons(l));
        let zeros = lines
            .iter()
            .copied()
            .chain(steps)
            .map(|n| n.input.iter().filter(|w| w.1.is_zero()).count() + usize::from(n.bias.is_zero()));
        let plan = Halving::new(slots, PERIOD_BITS);
        let stages: usize = plan.stages.iter().map(|s| 7 + 3 * overflow_bits(labels, s.digits)).sum();
        let once = if plan.stages.is_empty() { 0 } else { 3 + stages - 2 };
        let levels = (u32::BITS - (labels - 1).leading_zeros()) as usize;
        let count = 4 * map.squares()
            + 3 * map.folds()
            + 2
            + (2 + classes) * lines.len()
            + 3 * f1
            + once
            + 7 * levels
            - 1
            + 1
            + [0, 8, 16][classes - 1];
        (count, zeros.sum())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn with_any_number_of_classes_every_fact_is_found_and_the_formula_is_the_count(
            ids in prop::collection::btree_set(0u64..3000, 3..60), dense in any::<bool>(), drawn in prop::collection::vec(any::<u32>(), 60),
            labels in 2u32..12, slots in 1usize..25, classes in 1usize..=MOST_CLASSES, seed in any::<u64>()
        ) {
            let ids: Vec<u64> = if dense { (0..ids.len() as u64).collect() } else { ids.into_iter().collect() };
            let facts: Vec<Fact> = ids.iter().zip(&drawn).map(|(&id, y)| Fact { id, label: y % labels }).collect();
            let map = map(3000);
            let network = of_sizes(&map, &facts, labels, (classes, slots), 300, seed, &Silent).unwrap();
            let memory = memory(&network, &facts);
            let compiled = Compiled::new(&memory);
            for (token, fact) in (0u32..).zip(&facts) {
                let wanted = Some(i64::from(fact.label).into());
                prop_assert_eq!(&interpret::run(&memory, &[token], 0), &wanted);
                prop_assert_eq!(&compiled.run(&[token], 0), &wanted);
            }
            let (count, zeros) = formula(&network, &map, labels, classes, slots);
            prop_assert_eq!(network.tally().nonzero, count - zeros);
        }
    }

    #[test]
    fn the_class_bits_tell_the_classes_apart_and_are_gone_before_the_digits() {
        let facts: Vec<Fact> = (0..30).map(|i| Fact { id: 7 * i + 1, label: (i * i % 5) as u32 }).collect();
        let network = of_sizes(&map(300), &facts, 5, (3, 4), 200, 1, &Silent).unwrap();
        let memory = memory(&network, &facts);
        for (token, fact) in (0u32..).zip(&facts) {
            let mut seen = Vec::new();
            interpret::trace(&memory, &[token], 0, |layer, state| {
                let bits = [O, V].map(|c| interpret::channel(state, c).to_string());
                seen.push((layer.clone(), bits));
            });
            // The copy, v_1, V emptied, v_2.
            let class = fact.id / 7 / 10;
            assert_eq!(seen[3].1, [u64::from(class >= 1), u64::from(class >= 2)].map(|v| v.to_string()));
            let first_digit = layers(&network, StagePurpose::Digit)[0];
            let at = seen.iter().position(|(layer, _)| layer == first_digit).unwrap();
            assert_eq!(seen[at - 1].1[0], "0");
        }
    }
}
