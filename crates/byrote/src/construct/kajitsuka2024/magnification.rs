//! How much the layers after the attention magnify a deviation of what the attention returns.
//!
//! The layers after the attention act on one position, and the output is a piecewise-linear function g of the channel that the
//! attention writes. Then |g(U + e) - g(U)| <= L |e| with L the largest slope of any piece. A bound on L comes from the weights
//! alone. A layer x <- x + W_out relu(W_in x + b) has the derivative I + W_out A W_in with a diagonal A of activities between 0
//! and 1, so its entries are at most
//!
//! ```text
//! s_ij = max over A of |[i = j] + sum_n a_n out_ni in_nj|
//! ```
//!
//! in absolute value, and L is at most |head| times the product of the matrices [s_ij], applied to the channel that deviates. A
//! fold has s = 1 (its slope is 1 or -1), so rows of folds cost nothing; what counts is the slope of the lookup, which is as large
//! as the words of the memory are long. The bound is computed without rounding.

use super::dyadic::Dyadic;
use super::exact_network::{Channel, ExactNetwork, Neuron, SubLayer};

/// L: an upper bound on the change of the output per unit of change of a channel after the last attention layer.
pub fn magnification(network: &ExactNetwork, from: Channel) -> Dyadic {
    let mut slopes: [Dyadic; 4] = std::array::from_fn(|i| i64::from(i == from.index()).into());
    let layers = || network.stages.iter().flat_map(|s| (0..s.times).flat_map(|_| &s.layers));
    let before = layers().filter(|l| matches!(l, SubLayer::Attend { .. })).count();
    let mut attentions = 0;
    for layer in layers() {
        match layer {
            SubLayer::Attend { .. } => attentions += 1,
            SubLayer::Feed { neurons, .. } if attentions == before => slopes = through(neurons, &slopes),
            SubLayer::Feed { .. } => {}
        }
    }
    match &network.head.weight {
        Some((channel, weight)) => product(&size(weight), &slopes[channel.index()]),
        None => Dyadic::default(),
    }
}

/// The slopes after a layer.
fn through(neurons: &[Neuron], slopes: &[Dyadic; 4]) -> [Dyadic; 4] {
    let mut after = slopes.clone();
    for to in Channel::ALL {
        if !neurons.iter().any(|n| n.output.iter().any(|(c, _)| *c == to)) {
            continue;
        }
        let mut sum = Dyadic::default();
        for from in Channel::ALL {
            sum.add_product(&largest_entry(neurons, from, to), &slopes[from.index()]);
        }
        after[to.index()] = sum;
    }
    after
}

/// s_ij for i = to, j = from: all positive terms active, or all negative ones.
fn largest_entry(neurons: &[Neuron], from: Channel, to: Channel) -> Dyadic {
    let own = Dyadic::from(i64::from(from == to));
    let (mut high, mut low) = (own.clone(), own);
    for neuron in neurons {
        let mut term = Dyadic::default();
        for (_, input) in neuron.input.iter().filter(|w| w.0 == from) {
            for (_, output) in neuron.output.iter().filter(|w| w.0 == to) {
                term.add_product(input, output);
            }
        }
        let end = if term.is_positive() { &mut high } else { &mut low };
        end.add(&term);
    }
    size(&high).max(size(&low))
}

/// |x|.
pub(super) fn size(x: &Dyadic) -> Dyadic {
    if x.is_positive() { x.clone() } else { -x.clone() }
}

/// x y.
pub(super) fn product(x: &Dyadic, y: &Dyadic) -> Dyadic {
    let mut product = Dyadic::default();
    product.add_product(x, y);
    product
}

#[cfg(test)]
mod tests {
    use super::super::exact_network::{NetworkStage, Readout, StagePurpose};
    use super::*;

    fn network(layers: Vec<SubLayer>) -> ExactNetwork {
        ExactNetwork {
            tokens: vec![0],
            positions: vec![0],
            stages: vec![NetworkStage::once(StagePurpose::Lookup, layers)],
            head: Readout { weight: Some((Channel::Z, (-3).into())), bias: 5.into() },
        }
    }

    #[test]
    fn folds_cost_nothing_and_a_lookup_costs_its_slope() {
        let fold = |c| SubLayer::of(vec![Neuron::fold(c, 7.into())]);
        let step = SubLayer::of(vec![
            Neuron::simple(Channel::U, 1, Channel::Z, 40),
            Neuron::simple(Channel::U, 0, Channel::Z, -40),
        ]);
        let layers = vec![fold(Channel::U), fold(Channel::U), step, fold(Channel::Z)];
        assert_eq!(magnification(&network(layers.clone()), Channel::U), 120.into());
        assert_eq!(magnification(&network(layers), Channel::Z), 3.into());
    }

    #[test]
    fn layers_before_the_attention_do_not_count() {
        let steep = SubLayer::of(vec![Neuron::simple(Channel::U, 0, Channel::Z, 1000)]);
        let attend = SubLayer::Attend { value: (Channel::U, 1.into()), output: (Channel::U, 2.into()) };
        let flat = SubLayer::of(vec![Neuron::simple(Channel::U, 0, Channel::Z, 2)]);
        assert_eq!(magnification(&network(vec![steep, attend, flat]), Channel::U), 6.into());
    }
}
