//! The network as data: a deep residual ReLU transformer of three or four channels, every weight a dyadic number.
//!
//! A token k of a context starts as V = tok[t_k] + pos[k], all other channels 0. Sub-layers act on it in order:
//!
//! - feed-forward: x <- x + W_out relu(W_in x + b_in) + b_out, token by token;
//! - attention, one head with W_Q = W_K = 0, so that the softmax weights are exactly 1/|visible|:
//!   to_i <- to_i + output * mean over the visible k of (value * from_k).
//!
//! The output is (head weight) * (head channel) + (head bias) at the position that is read. No LayerNorm.
//!
//! Parameters are counted under two conventions ([`Counting`](crate::model::Counting)), with D channels:
//!
//! - *nonzero*: entries of W_in, b_in, W_out, b_out, W_V, W_O and the head that are not 0, as kajitsuka2024 counts;
//! - *dense*: all entries, as madden2024 and dana2024 count. A feed-forward layer of h neurons has h (2 D + 1) + D of them,
//!   the attention head 4 D^2 (W_Q, W_K, W_V and W_O with d_head = D), the output D + 1.
//!
//! Skip connections are part of the architecture and have no parameters. The embedding, one scalar per token and per position,
//! and the table from labels to tokens are counted separately. A stage whose layers run several times (the looped
//! variant) counts its weights once.

use super::dyadic::Dyadic;
use crate::model::ParameterCount;
use serde::Serialize;
use std::fmt;

/// A channel of the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Channel {
    /// The code of token and position.
    V,
    /// The key register: the id of the context, later the remainder of it.
    U,
    /// The packed word of a block.
    Z,
    /// The label, digit by digit; only where four channels are used.
    O,
}

impl Channel {
    /// All channels in their order.
    pub const ALL: [Channel; 4] = [Channel::V, Channel::U, Channel::Z, Channel::O];

    /// Its place in the stream.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its letter in files.
    pub fn letter(self) -> char {
        ['V', 'U', 'Z', 'O'][self.index()]
    }

    /// The channel with a letter.
    pub fn of_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| letter.len() == 1 && letter.starts_with(c.letter()))
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}

/// A weight on a channel.
pub type Weight = (Channel, Dyadic);

/// One hidden neuron: `relu(sum of input weights * channels + bias)`, added to channels by the output weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neuron {
    /// A row of W_in.
    pub input: Vec<Weight>,
    /// Its entry of b_in.
    pub bias: Dyadic,
    /// A column of W_out.
    pub output: Vec<Weight>,
}

impl Neuron {
    /// `relu(channel + bias)` to one channel.
    pub fn simple(from: Channel, bias: impl Into<Dyadic>, to: Channel, out: impl Into<Dyadic>) -> Self {
        Self { input: vec![(from, 1.into())], bias: bias.into(), output: vec![(to, out.into())] }
    }

    /// x <- x - 2 relu(x - threshold): values above the threshold are mirrored at it.
    pub fn fold(channel: Channel, threshold: Dyadic) -> Self {
        Self::simple(channel, -threshold, channel, -2)
    }
}

/// A sub-layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubLayer {
    /// x <- x + W_out relu(W_in x + b_in) + b_out.
    Feed {
        /// The hidden neurons.
        neurons: Vec<Neuron>,
        /// b_out.
        bias: Vec<Weight>,
    },
    /// to <- to + output * mean(value * from).
    Attend {
        /// W_V: the channel read, and its weight.
        value: Weight,
        /// W_O: the channel written, and its weight.
        output: Weight,
    },
}

impl SubLayer {
    /// A feed-forward layer without output bias.
    pub fn of(neurons: Vec<Neuron>) -> Self {
        SubLayer::Feed { neurons, bias: Vec::new() }
    }

    /// Every weight that is stored, zero or not.
    pub fn weights(&self) -> Vec<&Dyadic> {
        match self {
            SubLayer::Attend { value, output } => vec![&value.1, &output.1],
            SubLayer::Feed { neurons, bias } => {
                let mut all: Vec<&Dyadic> = bias.iter().map(|w| &w.1).collect();
                for n in neurons {
                    all.extend(n.input.iter().chain(&n.output).map(|w| &w.1).chain([&n.bias]));
                }
                all
            }
        }
    }

    /// The number of weights that are not 0.
    pub fn nonzero(&self) -> usize {
        self.weights().into_iter().filter(|w| !w.is_zero()).count()
    }

    /// The number of entries of the layer's matrices and vectors in a network of `channels` channels.
    pub fn dense(&self, channels: usize) -> usize {
        match self {
            SubLayer::Attend { .. } => 4 * channels * channels,
            SubLayer::Feed { neurons, .. } => neurons.len() * (2 * channels + 1) + channels,
        }
    }

    /// Hidden neurons.
    pub fn width(&self) -> usize {
        match self {
            SubLayer::Feed { neurons, .. } => neurons.len(),
            SubLayer::Attend { .. } => 0,
        }
    }
}

/// The purpose of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StagePurpose {
    /// V to floor(V^2 / 4).
    Square,
    /// The sum over the context.
    Attention,
    /// The sum modulo P, up to sign: the id.
    Reduce,
    /// The word of the block that the id lies in.
    Lookup,
    /// The words of the block one after another, up to the one that matches.
    Scan,
    /// The slot of the id moves its digit to the top of the word.
    Shift,
    /// The top digit becomes the label.
    Digit,
    /// The output.
    Head,
}

impl StagePurpose {
    /// All parts in the order of the network.
    pub const ALL: [StagePurpose; 8] = [
        StagePurpose::Square,
        StagePurpose::Attention,
        StagePurpose::Reduce,
        StagePurpose::Lookup,
        StagePurpose::Scan,
        StagePurpose::Shift,
        StagePurpose::Digit,
        StagePurpose::Head,
    ];

    /// The name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            StagePurpose::Square => "square",
            StagePurpose::Attention => "attention",
            StagePurpose::Reduce => "reduce",
            StagePurpose::Lookup => "lookup",
            StagePurpose::Scan => "scan",
            StagePurpose::Shift => "shift",
            StagePurpose::Digit => "digit",
            StagePurpose::Head => "head",
        }
    }

    /// The part with a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
}

/// Layers with one purpose, run once or several times in a row with the same weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkStage {
    /// The purpose.
    pub part: StagePurpose,
    /// How many times the layers run.
    pub times: usize,
    /// The layers.
    pub layers: Vec<SubLayer>,
}

impl NetworkStage {
    /// Layers that are run once.
    pub fn once(part: StagePurpose, layers: Vec<SubLayer>) -> Self {
        Self { part, times: 1, layers }
    }
}

/// The output: `weight * channel + bias`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readout {
    /// The weight and its channel; `None` in a network with a single answer.
    pub weight: Option<Weight>,
    /// The bias.
    pub bias: Dyadic,
}

/// A whole network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExactNetwork {
    /// The number that each token adds to V; empty in a network with a single answer.
    pub tokens: Vec<u64>,
    /// The number that each position adds to V.
    pub positions: Vec<u64>,
    /// The stages in order.
    pub stages: Vec<NetworkStage>,
    /// The output.
    pub head: Readout,
}

/// Parameters and bits of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WeightTally {
    /// Weights that are not 0; every scalar of the embedding.
    pub nonzero: usize,
    /// Entries of all matrices and vectors.
    pub dense: usize,
    /// Sub-layers; those that run several times count each time.
    pub depth: usize,
    /// Bits in fixed-point notation with a sign, of all weights together.
    pub fixed_bits: usize,
    /// Bits as significand, power of two and signs, of all weights together.
    pub float_bits: usize,
    /// Bits of the longest weight, without its sign.
    pub largest_bits: usize,
}

impl WeightTally {
    fn add<'a>(&mut self, weights: impl IntoIterator<Item = &'a Dyadic>) {
        for weight in weights.into_iter().filter(|w| !w.is_zero()) {
            self.nonzero += 1;
            self.fixed_bits += 1 + weight.fixed_bits();
            self.float_bits += 1 + weight.float_bits();
            self.largest_bits = self.largest_bits.max(weight.fixed_bits());
        }
    }

    fn join(self, other: Self) -> Self {
        Self {
            nonzero: self.nonzero + other.nonzero,
            dense: self.dense + other.dense,
            depth: self.depth + other.depth,
            fixed_bits: self.fixed_bits + other.fixed_bits,
            float_bits: self.float_bits + other.float_bits,
            largest_bits: self.largest_bits.max(other.largest_bits),
        }
    }
}

impl ExactNetwork {
    /// A network that gives every context the same answer: one parameter, none for the answer 0.
    pub fn constant(answer: u32) -> Self {
        let head = Readout { weight: None, bias: i64::from(answer).into() };
        Self { head, ..Self::default() }
    }

    /// The parts that occur, in the order of the network, with their counts.
    pub fn tallies(&self) -> Vec<(StagePurpose, WeightTally)> {
        let channels = self.channels();
        let mut found: Vec<(StagePurpose, WeightTally)> = Vec::new();
        for part in StagePurpose::ALL {
            let mut tally = WeightTally::default();
            for stage in self.stages.iter().filter(|s| s.part == part) {
                tally.depth += stage.times * stage.layers.len();
                for layer in &stage.layers {
                    tally.add(layer.weights());
                    tally.dense += layer.dense(channels);
                }
            }
            if part == StagePurpose::Head {
                tally.dense = if self.head.weight.is_some() { channels + 1 } else { 1 };
                tally.add(self.head.weight.iter().map(|w| &w.1).chain([&self.head.bias]));
            }
            if tally != WeightTally::default() {
                found.push((part, tally));
            }
        }
        found
    }

    /// The counts of all parts together, without the embedding.
    pub fn tally(&self) -> WeightTally {
        self.tallies().into_iter().fold(WeightTally::default(), |sum, (_, tally)| sum.join(tally))
    }

    /// The embedding tables: every scalar counts, 0 or not.
    pub fn embedding(&self) -> WeightTally {
        let bits = |x: &u64| (u64::BITS - x.leading_zeros()) as usize;
        let all = || self.tokens.iter().chain(&self.positions);
        WeightTally {
            nonzero: all().count(),
            dense: all().count(),
            depth: 0,
            fixed_bits: all().map(bits).sum(),
            float_bits: all().map(bits).sum(),
            largest_bits: all().map(bits).max().unwrap_or(0),
        }
    }

    /// The parameters under both conventions; `label_table` is the size of the table that maps labels to tokens.
    pub fn parameters(&self, label_table: usize) -> ParameterCount {
        let tally = self.tally();
        ParameterCount {
            nonzero: tally.nonzero as u128,
            dense: tally.dense as u128,
            embedding: self.embedding().nonzero as u128,
            label_table: label_table as u128,
        }
    }

    /// The largest number of hidden neurons in a layer.
    pub fn width(&self) -> usize {
        self.layers().map(SubLayer::width).max().unwrap_or(0)
    }

    /// The channels in use, from the first to the last.
    pub fn channels(&self) -> usize {
        let written = self.layers().flat_map(|layer| match layer {
            SubLayer::Attend { output, .. } => vec![output.0],
            SubLayer::Feed { neurons, bias } => {
                neurons.iter().flat_map(|n| &n.output).chain(bias).map(|w| w.0).collect()
            }
        });
        written.map(|c| c.index() + 1).max().unwrap_or(1)
    }

    /// The number of distinct weights: the count if equal weights were shared.
    pub fn distinct_weights(&self) -> usize {
        let mut all: Vec<&Dyadic> =
            self.layers().flat_map(SubLayer::weights).filter(|w| !w.is_zero()).collect();
        all.extend(self.head.weight.iter().map(|w| &w.1));
        all.sort();
        all.dedup();
        all.len()
    }

    /// Every layer once, in order.
    pub fn layers(&self) -> impl Iterator<Item = &SubLayer> {
        self.stages.iter().flat_map(|s| &s.layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_the_weights_that_are_not_zero() {
        let fold = SubLayer::of(vec![Neuron::fold(Channel::U, Dyadic::new(87.into(), 1))]);
        assert_eq!(fold.nonzero(), 3);
        let read = SubLayer::of(vec![Neuron::simple(Channel::Z, 0, Channel::U, -1)]);
        assert_eq!(read.nonzero(), 2);
        let bias = SubLayer::Feed { neurons: Vec::new(), bias: vec![(Channel::Z, 0.into())] };
        assert_eq!(bias.nonzero(), 0);
    }

    #[test]
    fn weights_of_a_loop_count_once_and_its_depth_each_time() {
        let layers = vec![SubLayer::of(vec![Neuron::fold(Channel::Z, 4.into())])];
        let network = ExactNetwork {
            stages: vec![NetworkStage { part: StagePurpose::Scan, times: 5, layers }],
            head: Readout { weight: Some((Channel::U, (-1).into())), bias: Dyadic::default() },
            ..ExactNetwork::default()
        };
        let tally = network.tally();
        assert_eq!((tally.nonzero, tally.depth, network.width(), network.channels()), (4, 5, 1, 3));
        assert_eq!(tally.largest_bits, 3);
        // 1, -4, -2 and the head's -1: signs and 1 + 3 + 2 + 1 bits.
        assert_eq!(tally.fixed_bits, 4 + 7);
        assert_eq!(network.distinct_weights(), 4);
    }

    #[test]
    fn a_constant_costs_one_parameter_or_none() {
        assert_eq!([0, 7].map(|y| ExactNetwork::constant(y).tally().nonzero), [0, 1]);
    }

    #[test]
    fn parts_and_channels_are_found_by_name() {
        assert!(StagePurpose::ALL.into_iter().all(|p| StagePurpose::of_name(p.name()) == Some(p)));
        assert!(Channel::ALL.into_iter().all(|c| Channel::of_letter(&c.to_string()) == Some(c)));
        assert_eq!((StagePurpose::of_name("x"), Channel::of_letter("UU")), (None, None));
    }
}
