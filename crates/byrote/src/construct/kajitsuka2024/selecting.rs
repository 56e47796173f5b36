//! A network whose attention selects: what hardmax does, and softmax does nearly.
//!
//! The construction averages, so it needs no choice ([`context_map`](super::context_map)). This variant chooses. There is one head
//! per position o of contexts of n tokens, with the scores -beta (s - o)^2, and hardmax makes it return the code z of the token at
//! o. The heads have different output weights c_o, so that
//!
//! ```text
//! X = sum_o c_o z(t_o)
//! ```
//!
//! depends on the order of the tokens without any squares. X is reduced to an id and the memory is built as before; the layers
//! after the attention are an exact network of their own, which reads U = M X.
//!
//! A difference of two sums is a linear form in the c_o that is not 0, so random codes keep all contexts apart with good probability
//! once there are more than about N^2 of them; as before, tables and moduli are drawn until they do. A head has six weights: two for
//! its query (2 beta o, -beta), two for its keys (s, s^2), a value and c_o. It reads two numbers per position besides the codes.

use super::bounded::{self, Choices};
use super::build::{MemoryKind, Settings};
use super::compiled::Compiled;
use super::context_map::{
    ContextMap, Effort, Fact, Seen, Sums, bits, distinct, find_modulus, fold_id, folds, reduce,
};
use super::dyadic::Dyadic;
use super::exact_network::{ExactNetwork, StagePurpose, SubLayer};
use super::interpret::{State, answer, feed};
use super::rounding::with_rounding;
use super::searched;
use super::task::Samples;
use crate::num::Stream;
use crate::observe::{self, Counter, Observer};
use crate::{Error, Result};
use dashu_int::{IBig, UBig};
use rayon::prelude::*;

/// A network whose heads select one position each, with everything that follows the heads.
#[derive(Debug, Clone)]
pub struct SelectingNetwork {
    /// z_t.
    pub codes: Vec<u64>,
    /// c_o, by position.
    pub weights: Vec<u64>,
    /// M: what the layers behind expect X to be multiplied by.
    pub multiplier: u32,
    /// R: the number of possible ids.
    pub ids: u64,
    /// The layers behind the heads: they read U = M X.
    pub behind: ExactNetwork,
}

/// Tables drawn before the codes get one more bit, and the most bits.
const TABLES_PER_SIZE: u64 = 24;
const MOST_CODE_BITS: u32 = 28;

impl SelectingNetwork {
    /// Builds the network for facts whose contexts have one length, and verifies it with exact hardmax.
    ///
    /// # Errors
    /// When the contexts have several lengths or a single label, no codes are found, or the observer asks to stop.
    pub fn build(samples: &Samples, settings: &Settings, observer: &dyn Observer) -> Result<Self> {
        let wrong = |message: &str| Err(Error::setting("samples", message));
        let [length] = samples.lengths()[..] else {
            return wrong("selecting heads need contexts of one length; pad them");
        };
        if samples.only_label().is_some() {
            return wrong("all facts have the same label, so there is nothing to select");
        }
        let (codes, weights, modulus) = search(samples, length, settings.seed, observer)?;
        let sums = sums(samples, &codes, &weights);
        let mut facts: Vec<Fact> = samples
            .iter()
            .enumerate()
            .map(|(i, s)| Fact { id: fold_id(sums.residue(i, modulus), modulus), label: s.label })
            .collect();
        facts.sort_unstable();
        facts.dedup();
        // The memory depends on the ids alone: the stages of this map are replaced.
        let map =
            ContextMap { tokens: codes.clone(), positions: vec![0; length], lambda: UBig::ONE, modulus };
        let labels = samples.task().labels;
        let (multiplier, mut behind) = match settings.memory {
            Some(MemoryKind::Searched) => {
                let found = searched::build(&map, &facts, labels, settings.tries, settings.seed, observer)?;
                (1, found)
            }
            memory => {
                let looped = memory == Some(MemoryKind::Looped);
                let choices = Choices { lookup: settings.lookup, block: settings.block, looped };
                (labels, bounded::build(&map, &facts, labels, choices))
            }
        };
        let of_the_map = [StagePurpose::Square, StagePurpose::Attention, StagePurpose::Reduce];
        behind.stages.retain(|s| !of_the_map.contains(&s.part));
        let bound = bound(&codes, &weights);
        behind.stages.splice(0..0, reduce(multiplier, modulus, folds(&bound, modulus)));
        let network = Self { codes, weights, multiplier, ids: map.ids(), behind };
        network.verify(samples, observer)?;
        Ok(network)
    }

    /// The same network with its id rounded, so that deviations of the heads up to a quarter of an id are forgiven.
    pub fn rounded(mut self) -> Self {
        self.behind = with_rounding(&self.behind, self.multiplier, self.ids);
        self
    }

    /// Runs every sample with exact hardmax through both evaluators.
    pub fn verify(&self, samples: &Samples, observer: &dyn Observer) -> Result<()> {
        let compiled = Compiled::new(&self.behind);
        let counter = Counter::new(observer, observe::Stage::Verifying, Some(samples.len() as u64));
        samples.list().par_chunks(64).try_for_each(|lot| {
            for sample in lot {
                let visible = samples.visible(sample);
                let codes =
                    visible.iter().zip(&self.weights).map(|(&t, &c)| IBig::from(self.codes[t as usize]) * c);
                let sum = codes.sum::<IBig>() * self.multiplier;
                let state = self.state(visible[sample.read as usize], sum.into());
                let mut slow = state.clone();
                for layer in self.behind.stages.iter().flat_map(|s| (0..s.times).flat_map(|_| &s.layers)) {
                    if let SubLayer::Feed { neurons, bias } = layer {
                        feed(&mut slow, neurons, bias);
                    }
                }
                let wanted = Dyadic::from(i64::from(sample.label));
                if answer(&self.behind, &slow) != wanted || compiled.after_attention(state) != wanted {
                    let message =
                        format!("a bug in the construction: the context {visible:?} is answered wrong");
                    return Err(Error::setting("samples", message));
                }
            }
            counter.add(lot.len() as u64)
        })
    }

    /// The state of the position that is read, given what the heads add to U.
    pub(super) fn state(&self, token: u32, heads: Dyadic) -> State {
        let code = IBig::from(self.codes[token as usize]);
        [code.into(), heads, Dyadic::default(), Dyadic::default()]
    }
}

/// No sum exceeds this.
fn bound(codes: &[u64], weights: &[u64]) -> UBig {
    let largest = codes.iter().copied().max().unwrap_or(0);
    weights.iter().map(|&c| UBig::from(c)).sum::<UBig>() * largest
}

/// X of all samples; below 2^64, since codes and weights have at most 28 bits and there are at most 2^8 of them.
fn sums(samples: &Samples, codes: &[u64], weights: &[u64]) -> Sums {
    let sum = |tokens: &[u32]| tokens.iter().zip(weights).map(|(&t, &c)| codes[t as usize] * c).sum();
    Sums::Short(samples.iter().map(|s| sum(samples.visible(s))).collect())
}

/// Codes, weights and a modulus that give different ids to samples with different labels.
fn search(
    samples: &Samples,
    length: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<(Vec<u64>, Vec<u64>, u64)> {
    if length > 1 << 8 {
        return Err(Error::setting(
            "samples",
            format!("contexts must have at most 256 tokens (got {length})"),
        ));
    }
    let task = samples.task();
    let least =
        bits(task.network_tokens() as u64 - 1).max(bits(length as u64)).max(bits(samples.len() as u64));
    let mut effort = Effort::default();
    for q in (least as u32).max(1)..=MOST_CODE_BITS {
        for _ in 0..TABLES_PER_SIZE {
            let mut stream = Stream::new(seed, "kajitsuka2024 selecting", effort.tables);
            effort.tables += 1;
            observer.report(observe::Stage::Mapping, effort.tables + effort.moduli, None)?;
            let codes = distinct(task.network_tokens(), 1 << q, &mut stream);
            let weights: Vec<u64> =
                distinct(length, 1 << q, &mut stream).into_iter().map(|c| c + 1).collect();
            let sums = sums(samples, &codes, &weights);
            let mut seen = Seen::default();
            if !seen.separates(samples, |i| u128::from(sums.residue(i, u64::MAX))) {
                continue;
            }
            let bounds = (&bound(&codes, &weights), &UBig::ONE);
            if let Some(modulus) = find_modulus(samples, &sums, bounds, &mut seen, &mut effort, observer)? {
                return Ok((codes, weights, modulus));
            }
        }
    }
    let message = format!("no codes of {MOST_CODE_BITS} bits distinguish {} contexts", samples.len());
    Err(Error::setting("samples", message))
}

#[cfg(test)]
mod tests {
    use super::super::crossing::{random_facts, random_facts_of};
    use super::*;
    use crate::observe::Silent;

    #[test]
    fn selected_tokens_are_memorized_in_any_order() {
        for memory in [MemoryKind::Bounded, MemoryKind::Searched, MemoryKind::Looped] {
            let settings = Settings { memory: Some(memory), tries: 200, ..Settings::default() };
            let samples = random_facts_of(80, 3..=3, 1).unwrap();
            let network = SelectingNetwork::build(&samples, &settings, &Silent).unwrap();
            assert_eq!((network.weights.len(), network.codes.len()), (3, 50));
            // Another weight makes it fail: verification is not vacuous.
            let mut wrong = network.clone();
            wrong.weights.swap(0, 1);
            assert!(wrong.verify(&samples, &Silent).is_err());
        }
    }

    #[test]
    fn several_lengths_are_refused() {
        let samples = random_facts(30, 0).unwrap();
        let error = SelectingNetwork::build(&samples, &Settings::default(), &Silent).unwrap_err();
        assert!(error.to_string().contains("one length"), "{error}");
    }
}
