//! The reference evaluator: every layer and every neuron in order, in exact arithmetic.
//!
//! It does not know what the layers mean. After the last attention layer it drops all positions but the one whose output is
//! requested, since the others are no longer read.

use super::dyadic::Dyadic;
use super::exact_network::{ExactNetwork, Neuron, SubLayer, Weight};
use dashu_int::IBig;
use dashu_int::ops::DivRem;

/// The channels of one position.
pub type State = [Dyadic; 4];

/// The output at position `read` of a context of tokens that are all visible to it; `None` if their number does not
/// divide the attention's weight, because no context of this length has been memorized.
///
/// # Panics
/// When a token, the length or the position is beyond the network's tables: callers check queries.
pub fn run(network: &ExactNetwork, tokens: &[u32], read: usize) -> Option<Dyadic> {
    trace(network, tokens, read, |_, _| ())
}

/// Like [`run`], but shows the state of the read position after every layer.
pub fn trace(
    network: &ExactNetwork,
    tokens: &[u32],
    read: usize,
    mut see: impl FnMut(&SubLayer, &State),
) -> Option<Dyadic> {
    let mut attentions = network
        .stages
        .iter()
        .map(|s| s.times * s.layers.iter().filter(|l| attends(l)).count())
        .sum::<usize>();
    let mut states: Vec<State> = match network.tokens.is_empty() {
        true => vec![State::default()],
        false => tokens.iter().zip(&network.positions).map(|(&t, &p)| start(network, t, p)).collect(),
    };
    let mut read = if network.tokens.is_empty() { 0 } else { read };
    if attentions == 0 {
        states.swap(0, read);
        states.truncate(1);
        read = 0;
    }
    for stage in &network.stages {
        for _ in 0..stage.times {
            for layer in &stage.layers {
                match layer {
                    SubLayer::Feed { neurons, bias } => {
                        states.iter_mut().for_each(|state| feed(state, neurons, bias));
                    }
                    SubLayer::Attend { value, output } => {
                        attend(&mut states, value, output)?;
                        attentions -= 1;
                        if attentions == 0 {
                            states.swap(0, read);
                            states.truncate(1);
                            read = 0;
                        }
                    }
                }
                see(layer, &states[read]);
            }
        }
    }
    Some(answer(network, &states[read]))
}

/// The state in which a token at a position starts.
pub(super) fn start(network: &ExactNetwork, token: u32, position: u64) -> State {
    let code = IBig::from(network.tokens[token as usize]) + position;
    [code.into(), Dyadic::default(), Dyadic::default(), Dyadic::default()]
}

/// The output at a position.
pub(super) fn answer(network: &ExactNetwork, state: &State) -> Dyadic {
    let mut out = network.head.bias.clone();
    if let Some((channel, weight)) = &network.head.weight {
        out.add_product(weight, &state[channel.index()]);
    }
    out
}

fn attends(layer: &SubLayer) -> bool {
    matches!(layer, SubLayer::Attend { .. })
}

/// All neurons see the state before the layer.
pub(super) fn feed(state: &mut State, neurons: &[Neuron], bias: &[Weight]) {
    let hidden: Vec<Option<Dyadic>> = neurons.iter().map(|n| hidden(state, n)).collect();
    for (neuron, hidden) in neurons.iter().zip(&hidden) {
        if let Some(hidden) = hidden {
            for (channel, weight) in &neuron.output {
                state[channel.index()].add_product(weight, hidden);
            }
        }
    }
    for (channel, weight) in bias {
        state[channel.index()].add(weight);
    }
}

/// The activation of a neuron, if it is above 0.
pub(super) fn hidden(state: &State, neuron: &Neuron) -> Option<Dyadic> {
    let mut sum = neuron.bias.clone();
    for (channel, weight) in &neuron.input {
        sum.add_product(weight, &state[channel.index()]);
    }
    sum.is_positive().then_some(sum)
}

/// Applies attention in which every position sees all others; `None` if their number does not divide the weight.
pub(super) fn attend(states: &mut [State], value: &Weight, output: &Weight) -> Option<()> {
    let mean = mean(states.iter().map(|s| &s[value.0.index()]), states.len(), &value.1, &output.1)?;
    for state in states {
        state[output.0.index()].add(&mean);
    }
    Some(())
}

/// output * value * (sum of the values) / n, where n divides the output weight.
fn mean<'a>(
    values: impl Iterator<Item = &'a Dyadic>,
    n: usize,
    value: &Dyadic,
    output: &Dyadic,
) -> Option<Dyadic> {
    let (share, rest) = output.integer()?.div_rem(IBig::from(n));
    if !rest.is_zero() {
        return None;
    }
    let mut sum = Dyadic::default();
    values.for_each(|x| sum.add_product(value, x));
    let mut mean = Dyadic::default();
    mean.add_product(&share.into(), &sum);
    Some(mean)
}

/// The value of a channel.
#[cfg(test)]
pub fn channel(state: &State, channel: super::exact_network::Channel) -> &Dyadic {
    &state[channel.index()]
}

#[cfg(test)]
mod tests {
    use super::super::exact_network::{Channel, NetworkStage, Readout, StagePurpose};
    use super::*;

    /// tok = [3, 5], pos = [0, 4]; U <- 2 V; U <- U + 6 mean(U).
    fn example() -> ExactNetwork {
        let double = SubLayer::of(vec![Neuron::simple(Channel::V, 0, Channel::U, 2)]);
        let attend = SubLayer::Attend { value: (Channel::U, 1.into()), output: (Channel::U, 6.into()) };
        ExactNetwork {
            tokens: vec![3, 5],
            positions: vec![0, 4, 0, 0, 0],
            stages: vec![
                NetworkStage::once(StagePurpose::Square, vec![double]),
                NetworkStage::once(StagePurpose::Attention, vec![attend]),
            ],
            head: Readout { weight: Some((Channel::U, (-1).into())), bias: 1.into() },
        }
    }

    #[test]
    fn a_small_network_gives_what_it_gives_by_hand() {
        // Codes 3 and 9, U = 6 and 18, mean 12: U = 6 + 72 = 78 and 18 + 72 = 90; outputs -77 and -89.
        assert_eq!(run(&example(), &[0, 1], 0), Some((-77).into()));
        assert_eq!(run(&example(), &[0, 1], 1), Some((-89).into()));
        // 3 divides 6, 4 does not: no context of four tokens has been memorized.
        assert_eq!(run(&example(), &[0, 0, 0], 0), Some((-(6 + 2 * (6 + 14 + 6) - 1)).into()));
        assert_eq!(run(&example(), &[0, 0, 0, 0], 0), None);
    }

    #[test]
    fn neurons_of_a_layer_see_the_state_before_it() {
        let neurons =
            vec![Neuron::simple(Channel::V, 0, Channel::U, 1), Neuron::simple(Channel::U, 1, Channel::V, 10)];
        let mut state = State::default();
        state[0] = 5.into();
        feed(&mut state, &neurons, &[(Channel::U, 100.into())]);
        assert_eq!([state[0].to_string(), state[1].to_string()], ["15", "105"]);
    }

    #[test]
    fn a_constant_network_reads_nothing() {
        assert_eq!(run(&ExactNetwork::constant(4), &[9, 9], 1), Some(4.into()));
    }
}
