//! The contextual map: a context and a position become one integer, the id.
//!
//! Token t at position k starts as V = z_t + 2 u_k with distinct integers z_t < 2^q and u_k < 2^(q-1).
//!
//! **Square.** K layers of one neuron h = relu(V - 2^(K-i)), V -= 2h, U += M 2^(K-i) h give U = M f, f(v) = floor(v^2 / 4):
//! with v_i the value after i folds, v^2 = v_K + sum_i 2^(K-i+2) h_i and v_K = v mod 2. Since positions are even,
//! f(z + 2u) = floor(z^2/4) + z u + u^2, and the product z u makes the sum over a context depend on the order of its tokens.
//!
//! **Attention.** The uniform mean with output weight lambda, the least common multiple of the lengths that occur, leaves
//! U = M X, X = (lambda / n) sum_k f_k + f_i, an integer; f_i identifies the position i that is read.
//!
//! **Reduce.** Folds with M P 2^k / 2 for k = kappa-1, ..., 0 leave U = M x, x = dist(X, P Z), the id, below R = (P + 1) / 2.
//!
//! For two samples X - X' is a polynomial in one u_k with at most two roots, so a random table separates all pairs once
//! 2^(q-1) exceeds about 2 N^2; in practice far smaller ones do. The builder draws tables and tries moduli, the small ones first,
//! until no two samples with different labels share an id: correctness does not depend on probability. (Samples that share
//! both id and label are one fact for the memory.)
//!
//! | here | meaning |
//! |---|---|
//! | z_t, 2 u_k | `tokens`, `positions` |
//! | M | the multiplier: C for the scan, 1 for the table |
//! | K, kappa | `squares`, `folds` |
//! | P, lambda | `modulus`, `lambda` |
//!
//! Parameters: 4K + 2 + 3 kappa. Ours, in the tradition of G. Vardi, G. Yehudai, O. Shamir, "On the Optimal Memorization Power
//! of ReLU Neural Networks", arXiv:2110.03187, and T. Kajitsuka, I. Sato, arXiv:2409.17677.

use super::dyadic::Dyadic;
use super::exact_network::{Channel, NetworkStage, Neuron, StagePurpose, SubLayer};
use super::task::{Sample, Samples};
use crate::num::Stream;
use crate::observe::{self, Observer};
use crate::{Error, Result};
use dashu_int::ops::{BitTest, Gcd};
use dashu_int::{IBig, UBig};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// The tables and sizes of the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextMap {
    /// z_t.
    pub tokens: Vec<u64>,
    /// 2 u_k.
    pub positions: Vec<u64>,
    /// lambda.
    pub lambda: UBig,
    /// P, odd.
    pub modulus: u64,
}

/// An id with its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// x.
    pub id: u64,
    /// y.
    pub label: u32,
}

/// The effort of the search for a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Tables drawn.
    pub tables: u64,
    /// Moduli tried.
    pub moduli: u64,
}

/// Tables drawn before the codes get one more bit.
const TABLES_PER_SIZE: u64 = 24;
/// Moduli tried before they grow by 15%.
const MODULI_PER_SIZE: u32 = 300;
/// Codes longer than this are never needed.
const MOST_CODE_BITS: u32 = 60;
/// Ids are kept below this.
const MOST_MODULUS: u64 = 1 << 61;

impl ContextMap {
    /// The largest code.
    pub fn largest_code(&self) -> u64 {
        let largest = |table: &[u64]| table.iter().copied().max().unwrap_or(0);
        largest(&self.tokens) + largest(&self.positions)
    }

    /// K: the least with every code at most 2^K.
    pub fn squares(&self) -> usize {
        bits(self.largest_code().saturating_sub(1)).max(1)
    }

    /// No sum X exceeds this.
    pub fn bound(&self) -> UBig {
        let code = UBig::from(self.largest_code());
        (&code * &code / 4u8) * (&self.lambda + 1u8)
    }

    /// kappa: the least with P 2^kappa at least twice the bound.
    pub fn folds(&self) -> usize {
        folds(&self.bound(), self.modulus)
    }

    /// R: the number of possible ids.
    pub fn ids(&self) -> u64 {
        self.modulus.div_ceil(2)
    }

    /// f of a token at a position.
    fn code(&self, token: u32, position: usize) -> u128 {
        let v = u128::from(self.tokens[token as usize] + self.positions[position]);
        v * v / 4
    }

    /// X of a sample.
    fn sum(&self, samples: &Samples, sample: &Sample) -> UBig {
        let visible = samples.visible(sample);
        let all: u128 = visible.iter().enumerate().map(|(k, &t)| self.code(t, k)).sum();
        let read = sample.read as usize;
        &self.lambda / UBig::from(visible.len()) * all + self.code(visible[read], read)
    }

    /// The ids of all samples, in their order.
    pub fn ids_of(&self, samples: &Samples) -> Vec<u64> {
        let p = self.modulus;
        let sums = Sums::of(self, samples);
        (0..samples.len()).map(|i| fold_id(sums.residue(i, p), p)).collect()
    }

    /// The facts of all samples in the order of their ids, each once.
    pub fn facts(&self, samples: &Samples) -> Vec<Fact> {
        let labels = samples.iter().map(|s| s.label);
        let mut facts: Vec<Fact> =
            self.ids_of(samples).into_iter().zip(labels).map(|(id, label)| Fact { id, label }).collect();
        facts.sort_unstable();
        facts.dedup();
        facts
    }

    /// The stages that compute `multiplier` times the id in U.
    pub fn stages(&self, multiplier: u32) -> Vec<NetworkStage> {
        let m = IBig::from(multiplier);
        let k = self.squares();
        let square = (1..=k)
            .map(|i| {
                let power = Dyadic::power_of_two(k - i);
                let output = vec![(Channel::V, (-2).into()), (Channel::U, (&m << (k - i)).into())];
                SubLayer::of(vec![Neuron { input: vec![(Channel::V, 1.into())], bias: -power, output }])
            })
            .collect();
        let lambda = IBig::from(self.lambda.clone());
        let attend = SubLayer::Attend { value: (Channel::U, 1.into()), output: (Channel::U, lambda.into()) };
        let mut stages = vec![
            NetworkStage::once(StagePurpose::Square, square),
            NetworkStage::once(StagePurpose::Attention, vec![attend]),
        ];
        stages.extend(reduce(multiplier, self.modulus, self.folds()));
        stages
    }

    /// Draws tables and tries moduli until samples with different labels have different ids.
    ///
    /// # Errors
    /// When the codes would become too long, or the observer asks to stop.
    pub fn search(samples: &Samples, seed: u64, observer: &dyn Observer) -> Result<(Self, Effort)> {
        let task = samples.task();
        let n = samples.len() as u64;
        let lambda = samples.lengths().iter().fold(UBig::ONE, |l, &n| {
            let n = UBig::from(n);
            let gcd = (&l).gcd(&n);
            l * (n / gcd)
        });
        // 2^q tokens and 2^(q-1) positions at least.
        let least = bits(task.network_tokens() as u64 - 1).max(bits(u64::from(task.n_ctx) - 1) + 1).max(1);
        let mut q = least.max(bits(n) * 5 / 8) as u32;
        let mut effort = Effort::default();
        while q <= MOST_CODE_BITS {
            for _ in 0..TABLES_PER_SIZE {
                let mut stream = Stream::new(seed, "kajitsuka2024 codes", effort.tables);
                effort.tables += 1;
                observer.report(observe::Stage::Mapping, effort.tables + effort.moduli, None)?;
                let tokens = distinct(task.network_tokens(), 1 << q, &mut stream);
                let positions = distinct(task.n_ctx as usize, 1 << (q - 1), &mut stream);
                let positions = positions.into_iter().map(|u| 2 * u).collect();
                let mut map = Self { tokens, positions, lambda: lambda.clone(), modulus: 1 };
                let sums = Sums::of(&map, samples);
                let mut seen = Seen::default();
                if !seen.separates(samples, |i| sums.fingerprint(i)) {
                    continue;
                }
                let bound = map.bound();
                let found =
                    find_modulus(samples, &sums, (&bound, &lambda), &mut seen, &mut effort, observer)?;
                if let Some(modulus) = found {
                    map.modulus = modulus;
                    return Ok((map, effort));
                }
            }
            q += 1;
        }
        Err(Error::setting("samples", format!("no codes of {MOST_CODE_BITS} bits distinguish {n} contexts")))
    }
}

/// The folds that reduce `multiplier` times a sum in U to the distance of the sum from the multiples of the modulus.
pub(super) fn reduce(multiplier: u32, modulus: u64, folds: usize) -> Option<NetworkStage> {
    let mp = IBig::from(multiplier) * modulus;
    let fold = |k| SubLayer::of(vec![Neuron::fold(Channel::U, Dyadic::new(&mp << k, 1))]);
    let layers: Vec<SubLayer> = (0..folds).rev().map(fold).collect();
    (!layers.is_empty()).then(|| NetworkStage::once(StagePurpose::Reduce, layers))
}

/// The least number of folds that covers sums up to a bound: P 2^kappa is at least twice the bound.
pub(super) fn folds(bound: &UBig, modulus: u64) -> usize {
    let twice = bound * 2u8;
    let mut folds = twice.bit_len().saturating_sub(bits(modulus));
    if UBig::from(modulus) << folds < twice {
        folds += 1;
    }
    folds
}

/// The first modulus, coprime to lambda and to the number of labels, that keeps different labels apart; `None` if it would be too
/// long. No sum is above `bound`.
pub(super) fn find_modulus(
    samples: &Samples,
    sums: &Sums,
    (bound, lambda): (&UBig, &UBig),
    seen: &mut Seen,
    effort: &mut Effort,
    observer: &dyn Observer,
) -> Result<Option<u64>> {
    let n = samples.len() as u128;
    let largest = bound * 2u8 + 1u8;
    // N^2 / (2 ln 300); 2 ln 300 = 11.4.
    let start = (2 * n).max(n * n * 10 / 114);
    let Some(start) = u64::try_from(start).ok().filter(|&p| p < MOST_MODULUS) else { return Ok(None) };
    let mut p = start | 1;
    let coprime = |p: u64| {
        let lambda = u64::try_from(lambda % UBig::from(p)).unwrap_or(0);
        gcd(p, lambda) == 1 && gcd(p, u64::from(samples.task().labels)) == 1
    };
    let mut failures = 0;
    loop {
        if UBig::from(p) >= largest {
            // No sum is folded: the id is the sum itself.
            return Ok(u64::try_from(&largest).ok());
        }
        if coprime(p) {
            effort.moduli += 1;
            observer.report(observe::Stage::Mapping, effort.tables + effort.moduli, None)?;
            if seen.separates(samples, |i| u128::from(fold_id(sums.residue(i, p), p))) {
                return Ok(Some(p));
            }
            failures += 1;
        }
        p = match failures == MODULI_PER_SIZE {
            true => {
                failures = 0;
                (p + p / 100 * 15).max(p + 2) | 1
            }
            false => p + 2,
        };
        if p >= MOST_MODULUS {
            return Ok(None);
        }
    }
}

/// X of all samples.
pub(super) enum Sums {
    Short(Vec<u64>),
    Long(Vec<UBig>),
}

impl Sums {
    fn of(map: &ContextMap, samples: &Samples) -> Self {
        let shares: Vec<u128> = match map.bound().bit_len() <= 64 {
            // lambda / n by n.
            true => {
                let lambda = u128::try_from(&map.lambda).unwrap_or(0);
                (0..=u128::from(samples.task().n_ctx)).map(|n| lambda / n.max(1)).collect()
            }
            false => {
                let sums = samples.list().par_iter().map(|s| map.sum(samples, s)).collect();
                return Sums::Long(sums);
            }
        };
        let short = |s: &Sample| {
            let visible = samples.visible(s);
            let all: u128 = visible.iter().enumerate().map(|(k, &t)| map.code(t, k)).sum();
            let read = s.read as usize;
            (shares[visible.len()] * all + map.code(visible[read], read)) as u64
        };
        Sums::Short(samples.list().par_iter().with_min_len(1 << 12).map(short).collect())
    }

    /// X mod p.
    pub(super) fn residue(&self, i: usize, p: u64) -> u64 {
        match self {
            Sums::Short(sums) => sums[i] % p,
            Sums::Long(sums) => u64::try_from(&sums[i] % UBig::from(p)).unwrap_or(0),
        }
    }

    /// A number that differs for different sums, up to a coincidence that the search for the modulus would detect.
    fn fingerprint(&self, i: usize) -> u128 {
        match self {
            Sums::Short(sums) => u128::from(sums[i]),
            Sums::Long(sums) => u128::try_from(&sums[i] % UBig::from((1u128 << 127) - 1)).unwrap_or(0),
        }
    }
}

/// Checks whether some key belongs to two labels; stops at the first one.
#[derive(Default)]
pub(super) struct Seen(FxHashMap<u128, u32>);

impl Seen {
    pub(super) fn separates(&mut self, samples: &Samples, key: impl Fn(usize) -> u128) -> bool {
        self.0.clear();
        samples.iter().enumerate().all(|(i, s)| *self.0.entry(key(i)).or_insert(s.label) == s.label)
    }
}

/// min(r, p - r): the distance of a number with residue r from the multiples of p.
pub(super) fn fold_id(r: u64, p: u64) -> u64 {
    r.min(p - r)
}

pub(super) fn bits(n: u64) -> usize {
    (u64::BITS - n.leading_zeros()) as usize
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `count` distinct numbers below `end`, in random order (Floyd's sampling, then shuffled by the order of drawing).
pub(super) fn distinct(count: usize, end: u64, stream: &mut Stream) -> Vec<u64> {
    let mut taken = rustc_hash::FxHashSet::default();
    let mut drawn = Vec::with_capacity(count);
    while drawn.len() < count {
        let number = stream.below(end);
        if taken.insert(number) {
            drawn.push(number);
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::super::exact_network::{ExactNetwork, Readout};
    use super::super::interpret;
    use super::super::task::examples::*;
    use super::super::task::{Goal, Visibility};
    use super::*;
    use crate::observe::Silent;

    /// tok = [10, 8], pos = [4, 8], lambda = 2, P = 29.
    pub fn golden() -> ContextMap {
        ContextMap { tokens: vec![10, 8], positions: vec![4, 8], lambda: 2u8.into(), modulus: 29 }
    }

    #[test]
    fn the_sizes_of_the_golden_example_come_out() {
        let map = golden();
        assert_eq!((map.largest_code(), map.squares(), map.folds(), map.ids()), (18, 5, 5, 15));
        assert_eq!(map.bound(), UBig::from(243u8)); // 81 * 3
        let stages = map.stages(3);
        let thresholds: Vec<String> = stages[2]
            .layers
            .iter()
            .map(|l| match l {
                SubLayer::Feed { neurons, .. } => (-neurons[0].bias.clone()).to_string(),
                SubLayer::Attend { .. } => panic!("an attention layer among the folds"),
            })
            .collect();
        assert_eq!(thresholds, ["696", "348", "174", "87", "87*2^-1"]);
    }

    #[test]
    fn the_layers_compute_the_ids() {
        let sequences: [(&[u32], &[u32]); 5] =
            [(&[0], &[2]), (&[1], &[0]), (&[0, 1], &[1]), (&[1, 0], &[2]), (&[1, 1], &[1])];
        let mut task = task(Goal::Next, Visibility::Causal, false);
        (task.d_vocab, task.n_ctx) = (2, 2);
        let samples = samples(task, &sequences);
        let map = golden();
        let network = ExactNetwork {
            tokens: map.tokens.clone(),
            positions: map.positions.clone(),
            stages: map.stages(3),
            head: Readout { weight: Some((Channel::U, 1.into())), bias: Dyadic::default() },
        };
        for (sample, id) in samples.iter().zip(map.ids_of(&samples)) {
            let found = interpret::run(&network, samples.visible(sample), sample.read as usize);
            assert_eq!(found, Some((3 * id as i64).into()));
        }
        // f = (49, 64), U = 192 + (147 + 192) = 531 = 18 * 29 + 9: the id of (0, 1) is 3.
        assert_eq!(map.ids_of(&samples)[2], 3);
    }

    #[test]
    fn the_search_keeps_labels_apart_whatever_the_order() {
        // All orders of four tokens have the same sum of codes and differ in the products.
        let mut sequences = Vec::new();
        for a in 0..4u32 {
            for b in (0..4).filter(|&b| b != a) {
                for c in (0..4).filter(|&c| c != a && c != b) {
                    sequences.push((vec![a, b, c, 6 - a - b - c], vec![(sequences.len() % 5) as u32]));
                }
            }
        }
        let task = crate::construct::kajitsuka2024::Task {
            d_vocab: 4,
            n_ctx: 4,
            labels: 5,
            ..task(Goal::Next, Visibility::Causal, false)
        };
        let pairs = sequences.iter().map(|(s, l)| (&s[..], &l[..]));
        let samples = Samples::new(task, pairs).unwrap();
        let (map, effort) = ContextMap::search(&samples, 3, &Silent).unwrap();
        assert_eq!(map, ContextMap::search(&samples, 3, &Silent).unwrap().0);
        assert!(effort.tables >= 1 && effort.moduli >= 1);
        let facts = map.facts(&samples);
        assert!(facts.windows(2).all(|f| f[0].id < f[1].id), "{facts:?}");
        assert!(facts.last().unwrap().id < map.ids());
    }

    #[test]
    fn long_sums_agree_with_short_ones() {
        let task = task(Goal::EveryPosition, Visibility::Bidirectional, false);
        let samples = samples(task, &[(&[0, 1, 2], &[0, 1, 2]), (&[2, 2, 1], &[3, 1, 0])]);
        let map = ContextMap {
            tokens: vec![5, 900, 77],
            positions: vec![2, 40, 1000],
            lambda: 3u8.into(),
            modulus: 1001,
        };
        let Sums::Short(short) = Sums::of(&map, &samples) else { panic!("the bound is short") };
        let long: Vec<UBig> = samples.iter().map(|s| map.sum(&samples, s)).collect();
        assert_eq!(short.iter().map(|&x| UBig::from(x)).collect::<Vec<_>>(), long);
        let (a, b) = (Sums::Short(short), Sums::Long(long));
        for i in 0..samples.len() {
            assert_eq!(a.residue(i, 1001), b.residue(i, 1001));
            assert_eq!(a.fingerprint(i), b.fingerprint(i));
        }
    }
}
