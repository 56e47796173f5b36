//! The lookup: from the id in U to the packed word of its block in Z.
//!
//! U holds C x, an integer multiple of C. Block b begins at theta_b = C x_b. There are two ways with the same result:
//!
//! **Steps**, 6 (B - 1) + 1 parameters. Z_1 by the output bias, then relu(U - theta + 1) - relu(U - theta) = [U >= theta] times
//! Z_b - Z_{b-1} for each further block.
//!
//! **Slopes**, 3 (B - 1) + 1 + 3 F. One neuron per block: Z is a piecewise-linear function of U whose slope changes at every
//! block, and whose value carries the word modulo Q = C 2^g, the least with Q / 2 >= max Z_b. With slopes s_1 = 0, s_b in
//! {-1, 0, 1}, s_b /= s_{b-1}, sg = sign(s_b - s_{b-1}), delta = |s_b - s_{b-1}|:
//!
//! ```text
//! relu(delta 2^g (U - theta_b) + phi_b) -> Z += sg,    phi_b = sg (Z_b - Z_{b-1}) mod Q.
//! ```
//!
//! U - theta_b is a multiple of C, so below the block the argument is at most -Q + phi_b < 0, and in it
//! Z = Q H(x) + Z_b with an integer H >= 0 once the output bias is Z_1 + Q offset. F folds with (Q/2) 2^(F-1), ..., Q/2 leave
//! dist(Z, Q) = Z_b. Each slope is chosen to bring H back to 0, so that |H| never exceeds about the longest block.
//!
//! *The fold count.* While H > 0 the slope is -1 or, where it was -1 already, 0 for one block; a change of slope adds at most
//! 1 to H. Two blocks together therefore never raise an H above 0, and from below one block raises it by at most
//! the ids it spans, R. The same holds with opposite signs, so H stays within R + 2 of 0 and F <= bl(R) + 4.

use super::blocks::Blocks;
use super::dyadic::Dyadic;
use super::exact_network::{Channel, NetworkStage, Neuron, StagePurpose, SubLayer};
use crate::setting::choices;
use dashu_int::ops::BitTest;
use dashu_int::{IBig, UBig};

/// The way in which the word of a block is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Two neurons per block.
    Steps,
    /// One neuron per block, and a few folds.
    Slopes,
}

choices!(Lookup, "lookup" { Steps = "steps", Slopes = "slopes" });

impl Lookup {
    /// Non-zero weights per block.
    pub fn per_block(self) -> usize {
        match self {
            Lookup::Steps => 6,
            Lookup::Slopes => 3,
        }
    }

    /// The stage.
    pub fn stage(self, blocks: &Blocks) -> NetworkStage {
        let layers = match self {
            Lookup::Steps => steps(blocks),
            Lookup::Slopes => slopes(blocks),
        };
        NetworkStage::once(StagePurpose::Lookup, layers)
    }
}

fn word(blocks: &Blocks, b: usize) -> IBig {
    IBig::from(blocks.packed[b].clone())
}

fn theta(blocks: &Blocks, b: usize) -> IBig {
    IBig::from(blocks.first[b]) * blocks.labels
}

/// One layer per list of neurons, the first with an output bias; a layer for the bias alone if there are no neurons.
fn with_bias(neurons: Vec<Vec<Neuron>>, bias: IBig) -> Vec<SubLayer> {
    let mut bias = vec![(Channel::Z, Dyadic::from(bias))];
    bias.retain(|(_, b)| !b.is_zero());
    let mut layers: Vec<SubLayer> = neurons.into_iter().map(SubLayer::of).collect();
    match layers.first_mut() {
        Some(SubLayer::Feed { bias: first, .. }) => *first = bias,
        _ => layers.push(SubLayer::Feed { neurons: Vec::new(), bias }),
    }
    layers
}

fn steps(blocks: &Blocks) -> Vec<SubLayer> {
    let pair = |b: usize| {
        let change = word(blocks, b) - word(blocks, b - 1);
        let above = -theta(blocks, b);
        vec![
            Neuron::simple(Channel::U, &above + 1, Channel::Z, change.clone()),
            Neuron::simple(Channel::U, above, Channel::Z, -change),
        ]
    };
    with_bias((1..blocks.len()).map(pair).collect(), word(blocks, 0))
}

/// The next slope: towards 0, but never the same twice.
fn next_slope(h: i128, slope: i8) -> i8 {
    let wanted = -(h.signum() as i8);
    match (wanted != slope, slope) {
        (true, _) => wanted,
        (false, 0) => 1,
        (false, _) => 0,
    }
}

/// The folds that [`Lookup::Slopes`] takes for blocks with these first and last ids; exact up to carries between words, which
/// only the built stage knows.
pub fn estimated_folds(first: &[u64], last: &[u64]) -> usize {
    let (mut h, mut low, mut high, mut slope) = (0i128, 0i128, 0i128, 0i8);
    for (b, (&x, &end)) in first.iter().zip(last).enumerate() {
        if b > 0 {
            slope = next_slope(h, slope);
        }
        let after = |x: u64, end: u64| i128::from(slope) * i128::from(end - x);
        for value in [h, h + after(x, end)] {
            (low, high) = (low.min(value), high.max(value));
        }
        h += first.get(b + 1).map_or(0, |&next| after(x, next));
    }
    (i128::BITS - (2 * (high - low)).leading_zeros()) as usize
}

fn slopes(blocks: &Blocks) -> Vec<SubLayer> {
    let labels = UBig::from(blocks.labels);
    let most = blocks.packed.iter().max().cloned().unwrap_or_default() * 2u8;
    // The least g with C 2^g >= 2 max Z.
    let mut g = most.bit_len().saturating_sub(labels.bit_len());
    while &labels << g < most {
        g += 1;
    }
    let q = IBig::from(labels << g);
    let mut neurons = Vec::new();
    // H at the first id of the block, and the range it takes on ids.
    let (mut h, mut low, mut high, mut slope) = (IBig::ZERO, IBig::ZERO, IBig::ZERO, 0i8);
    for b in 0..blocks.len() {
        if b > 0 {
            let sign = i128::try_from(h.signum()).unwrap_or(0);
            let next = next_slope(sign, slope);
            let (sg, delta) = ((next - slope).signum(), (next - slope).unsigned_abs());
            slope = next;
            let change = IBig::from(sg) * (word(blocks, b) - word(blocks, b - 1));
            let carried = change.sign() == dashu_int::Sign::Negative;
            let phi = if carried { change + &q } else { change };
            if carried {
                h += sg;
            }
            let steep = IBig::from(delta) << g;
            neurons.push(vec![Neuron {
                bias: (phi - &steep * theta(blocks, b)).into(),
                input: vec![(Channel::U, steep.into())],
                output: vec![(Channel::Z, IBig::from(sg).into())],
            }]);
        }
        for value in [h.clone(), &h + IBig::from(slope) * (blocks.last[b] - blocks.first[b])] {
            low = low.min(value.clone());
            high = high.max(value);
        }
        if let Some(next) = blocks.first.get(b + 1) {
            h += IBig::from(slope) * (next - blocks.first[b]);
        }
    }
    let offset = -low;
    let mut layers = with_bias(neurons, word(blocks, 0) + &q * &offset);
    // 2^F Q / 2 >= Q H + Q / 2 >= Z.
    let highest: IBig = high + offset;
    let folds = (highest * 2u8).bit_len();
    let half = Dyadic::new(q, 1);
    layers.extend((0..folds).rev().map(|k| {
        let mut threshold = Dyadic::default();
        threshold.add_product(&Dyadic::power_of_two(k), &half);
        SubLayer::of(vec![Neuron::fold(Channel::Z, threshold)])
    }));
    layers
}

#[cfg(test)]
mod tests {
    use super::super::context_map::Fact;
    use super::super::interpret::{State, feed};
    use super::*;
    use proptest::prelude::*;

    /// Z after the stage, for an id.
    fn found(stage: &NetworkStage, labels: u32, id: u64) -> Dyadic {
        let mut state = State::default();
        state[Channel::U.index()] = (IBig::from(id) * labels).into();
        for layer in &stage.layers {
            let SubLayer::Feed { neurons, bias } = layer else { panic!("a lookup has no attention") };
            feed(&mut state, neurons, bias);
        }
        state[Channel::Z.index()].clone()
    }

    fn parameters(stage: &NetworkStage) -> usize {
        stage.layers.iter().map(SubLayer::nonzero).sum()
    }

    proptest! {
        #[test]
        fn every_id_finds_the_word_of_its_block(
            ids in prop::collection::btree_set(0u64..5000, 1..60), labels in 1u32..12, size in 1usize..10
        ) {
            let facts: Vec<Fact> =
                ids.iter().enumerate().map(|(i, &id)| Fact { id, label: (i as u32 * 7) % labels }).collect();
            let blocks = Blocks::new(&facts, labels, size, false);
            for lookup in Lookup::ALL {
                let stage = lookup.stage(&blocks);
                for fact in &facts {
                    let block = blocks.first.partition_point(|&x| x <= fact.id) - 1;
                    prop_assert_eq!(found(&stage, labels, fact.id), word(&blocks, block).into());
                }
                let folds = stage.layers.len().saturating_sub((blocks.len() - 1).max(1));
                let most = match lookup {
                    Lookup::Steps => 6 * (blocks.len() - 1) + 1,
                    Lookup::Slopes => 3 * (blocks.len() - 1) + 1 + 3 * folds,
                };
                prop_assert!(parameters(&stage) <= most);
                if lookup == Lookup::Slopes {
                    let range = facts[facts.len() - 1].id + 1;
                    prop_assert!(folds <= (u64::BITS - range.leading_zeros()) as usize + 4);
                    prop_assert!(folds.abs_diff(estimated_folds(&blocks.first, &blocks.last)) <= 2);
                } else {
                    prop_assert_eq!(folds, 0);
                }
            }
        }
    }
}
