//! Rounding the id: layers that forgive what the attention did not get quite right.
//!
//! After the attention and the folds U = M (x + e), with an integer id x < 2^b and e = 0 if the attention is exact. These layers
//! leave U = M x *exactly* for every |e| <= 1/4. They read the bits of x from the top: for k = b - 1, ..., 0
//!
//! ```text
//! s = (2 / M) (relu(U - M (2^k - 3/4)) - relu(U - M (2^k - 1/4))),    U <- U - M 2^k s,    Z <- Z + M 2^k s
//! ```
//!
//! Since x + e is never between 2^k - 3/4 and 2^k - 1/4, s is 0 or 1. What is left in U at the end is M e, which a last layer
//! removes while it moves Z to U. The cost is 8 b + 7 parameters, so O(log N), and the sharpness that the attention needs no
//! longer depends on the length of the weights (docs/derivations/kajitsuka2024.md).

use super::dyadic::Dyadic;
use super::exact_network::{Channel, ExactNetwork, NetworkStage, Neuron, StagePurpose, SubLayer};
use dashu_int::IBig;

/// The network with its id rounded after the folds; `multiplier` is M, and ids are below `ids`.
pub fn with_rounding(network: &ExactNetwork, multiplier: u32, ids: u64) -> ExactNetwork {
    let mut rounded = network.clone();
    let is_context = |s: &NetworkStage| {
        matches!(s.part, StagePurpose::Square | StagePurpose::Attention | StagePurpose::Reduce)
    };
    let after = rounded.stages.iter().rposition(is_context).map_or(0, |i| i + 1);
    rounded.stages.insert(after, NetworkStage::once(StagePurpose::Reduce, layers(multiplier, ids)));
    rounded
}

/// The parameters that rounding adds, all of them non-zero.
pub fn rounding_parameters(ids: u64) -> usize {
    8 * bits(ids) + 7
}

fn bits(ids: u64) -> usize {
    (u64::BITS - ids.saturating_sub(1).leading_zeros()) as usize
}

fn layers(multiplier: u32, ids: u64) -> Vec<SubLayer> {
    let m = IBig::from(multiplier);
    let bit = |k: usize| {
        // M (2^k - quarters / 4).
        let neuron = |quarters: u8, sign: i8| {
            let threshold = Dyadic::new(&m * ((IBig::ONE << (k + 2)) - quarters), 2);
            let weight = (IBig::ONE << (k + 1)) * sign;
            let output = vec![(Channel::U, Dyadic::from(-weight.clone())), (Channel::Z, weight.into())];
            Neuron { input: vec![(Channel::U, 1.into())], bias: -threshold, output }
        };
        SubLayer::of(vec![neuron(3, 1), neuron(1, -1)])
    };
    let negative = Neuron {
        input: vec![(Channel::U, (-1).into())],
        bias: Dyadic::default(),
        output: vec![(Channel::U, 1.into())],
    };
    let moved = Neuron {
        input: vec![(Channel::Z, 1.into())],
        bias: Dyadic::default(),
        output: vec![(Channel::U, 1.into()), (Channel::Z, (-1).into())],
    };
    let last = SubLayer::of(vec![Neuron::simple(Channel::U, 0, Channel::U, -1), negative, moved]);
    (0..bits(ids)).rev().map(bit).chain([last]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::exact_network::Readout;
    use super::super::interpret::{State, feed};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_deviation_up_to_a_quarter_is_removed(
            ids in 1u64..5_000, part in 0.0f64..1.0, e in -64i64..=64, multiplier in 1u32..30
        ) {
            let x = (part * ids as f64) as i64;
            // M (x + e / 256).
            let noisy = Dyadic::new(IBig::from(multiplier) * (256 * x + e), 8);
            let mut state: State = [9.into(), noisy, Dyadic::default(), Dyadic::default()];
            for layer in layers(multiplier, ids) {
                let SubLayer::Feed { neurons, bias } = layer else { unreachable!("no attention") };
                feed(&mut state, &neurons, &bias);
            }
            let exact = Dyadic::from(i64::from(multiplier) * x);
            prop_assert_eq!(state, [9.into(), exact, Dyadic::default(), Dyadic::default()]);
        }
    }

    #[test]
    fn rounding_costs_eight_parameters_per_bit_of_the_id() {
        let network = ExactNetwork {
            tokens: vec![0],
            positions: vec![0],
            stages: vec![
                NetworkStage::once(StagePurpose::Square, Vec::new()),
                NetworkStage::once(StagePurpose::Lookup, Vec::new()),
            ],
            head: Readout::default(),
        };
        for ids in [1, 2, 15, 16, 17, 1000] {
            let rounded = with_rounding(&network, 3, ids);
            assert_eq!(rounded.tally().nonzero, rounding_parameters(ids));
            assert_eq!(rounded.stages[1].part, StagePurpose::Reduce);
        }
        assert_eq!([15, 16, 17].map(rounding_parameters), [39, 39, 47]);
    }
}
