//! The fast evaluator: computes the same function in far fewer operations.
//!
//! It compiles the network from the weights alone, without knowing what the stages are for. It recognizes three patterns and
//! keeps everything else as it is:
//!
//! - a *ladder*, folds x <- x - 2 relu(x - t) with t, t/2, ..., t/2^k: for 0 <= x <= 2t the result is the distance of x from the
//!   multiples of 2t/2^k, which is one remainder; a larger x becomes 2t - x, a smaller one is unchanged;
//! - a *table*, consecutive neurons that read one channel and write others: together a piecewise-linear function, evaluated by
//!   one search among its breakpoints and one multiplication;
//! - *independent* neurons of one layer, none of which reads what another one writes. They can be applied one after the other,
//!   so that ladders and tables extend across layers.
//!
//! It must agree with [`interpret`](super::interpret) on every input; the builder checks that on every sample.

use super::dyadic::Dyadic;
use super::exact_network::{Channel, ExactNetwork, Neuron, SubLayer, Weight};
use super::interpret::{State, answer, attend, feed, hidden, start};
use std::cmp::Ordering;

/// A compiled network.
#[derive(Debug)]
pub struct Compiled<'n> {
    network: &'n ExactNetwork,
    stages: Vec<(usize, Vec<Op>)>,
    attentions: usize,
}

#[derive(Debug)]
enum Op {
    Neuron(Neuron),
    Bias(Vec<Weight>),
    /// A layer whose neurons read what others write.
    Layer(Vec<Neuron>, Vec<Weight>),
    Ladder {
        channel: Channel,
        first: Dyadic,
        last: Dyadic,
    },
    Table(Table),
    Attend {
        value: Weight,
        output: Weight,
    },
}

/// A piecewise-linear function of one channel.
#[derive(Debug)]
struct Table {
    from: Channel,
    to: Vec<Channel>,
    /// `(w, b)` of the neurons in the order of their breakpoints -b / w.
    breaks: Vec<(Dyadic, Dyadic)>,
    /// Slope and intercept for each channel of `to`, by the number of active neurons.
    rows: Vec<Vec<(Dyadic, Dyadic)>>,
}

/// The fewest consecutive neurons that are worth a table.
const SHORTEST_TABLE: usize = 3;

impl<'n> Compiled<'n> {
    /// Compiles a network.
    pub fn new(network: &'n ExactNetwork) -> Self {
        let mut attentions = 0;
        let stages = network
            .stages
            .iter()
            .map(|stage| {
                let ops: Vec<Op> = stage.layers.iter().flat_map(serial).collect();
                attentions += stage.times * ops.iter().filter(|o| matches!(o, Op::Attend { .. })).count();
                (stage.times, merge_tables(merge_ladders(ops)))
            })
            .collect();
        Self { network, stages, attentions }
    }

    /// The output at position `read` of a visible context; `None` for a length that has not been memorized.
    ///
    /// # Panics
    /// When a token, the length or the position is beyond the network's tables: callers check queries.
    pub fn run(&self, tokens: &[u32], read: usize) -> Option<Dyadic> {
        let network = self.network;
        if network.tokens.is_empty() {
            return Some(answer(network, &State::default()));
        }
        let mut states: Vec<State> =
            tokens.iter().zip(&network.positions).map(|(&t, &p)| start(network, t, p)).collect();
        let (mut read, mut attentions) = (read, self.attentions);
        for (times, ops) in &self.stages {
            for _ in 0..*times {
                for op in ops {
                    if attentions == 0 && states.len() > 1 {
                        states.swap(0, read);
                        states.truncate(1);
                        read = 0;
                    }
                    match op {
                        Op::Attend { value, output } => {
                            attend(&mut states, value, output)?;
                            attentions -= 1;
                        }
                        op => states.iter_mut().for_each(|state| op.apply(state)),
                    }
                }
            }
        }
        Some(answer(network, &states[read]))
    }

    /// The state of a token at a position before the first attention layer.
    pub fn before_attention(&self, token: u32, position: usize) -> State {
        let mut state = start(self.network, token, self.network.positions[position]);
        let first = self.ops().take_while(|op| !matches!(op, Op::Attend { .. }));
        first.for_each(|op| op.apply(&mut state));
        state
    }

    /// The output of a position, given its state after the last attention layer.
    pub fn after_attention(&self, mut state: State) -> Dyadic {
        let mut attentions = self.attentions;
        for op in self.ops() {
            match op {
                Op::Attend { .. } => attentions -= 1,
                op if attentions == 0 => op.apply(&mut state),
                _ => {}
            }
        }
        answer(self.network, &state)
    }

    /// All operations in order, those of a loop each time.
    fn ops(&self) -> impl Iterator<Item = &Op> {
        self.stages.iter().flat_map(|(times, ops)| (0..*times).flat_map(move |_| ops))
    }
}

impl Op {
    fn apply(&self, state: &mut State) {
        match self {
            Op::Neuron(neuron) => {
                if let Some(hidden) = hidden(state, neuron) {
                    for (channel, weight) in &neuron.output {
                        state[channel.index()].add_product(weight, &hidden);
                    }
                }
            }
            Op::Bias(bias) => bias.iter().for_each(|(channel, b)| state[channel.index()].add(b)),
            Op::Layer(neurons, bias) => feed(state, neurons, bias),
            Op::Ladder { channel, first, last } => {
                let x = &mut state[channel.index()];
                if let Some(folded) = ladder(x, first, last) {
                    *x = folded;
                }
            }
            Op::Table(table) => table.apply(state),
            Op::Attend { .. } => unreachable!("attention is not token by token"),
        }
    }
}

/// The result of all folds together, where they change x.
fn ladder(x: &Dyadic, first: &Dyadic, last: &Dyadic) -> Option<Dyadic> {
    if x <= last {
        return None;
    }
    let exponent = x.exponent().max(first.exponent()).max(last.exponent());
    let at = |d: &Dyadic, more: usize| d.mantissa() << (exponent - d.exponent() + more);
    let (x, top, period) = (at(x, 0), at(first, 1), at(last, 1));
    if x > top {
        return Some(Dyadic::new(top - x, exponent));
    }
    let low = x % &period;
    let high = period - &low;
    Some(Dyadic::new(low.min(high), exponent))
}

impl Table {
    fn new(from: Channel, mut neurons: Vec<Neuron>, bias: Vec<Weight>) -> Self {
        let mut to: Vec<Channel> = neurons.iter().flat_map(|n| &n.output).chain(&bias).map(|w| w.0).collect();
        to.sort_unstable();
        to.dedup();
        // -b/w < -b'/w' where b' w < b w', as all w are above 0.
        neurons.sort_by(|m, n| product(&n.bias, &m.input[0].1).cmp(&product(&m.bias, &n.input[0].1)));
        let zero = || (Dyadic::default(), Dyadic::default());
        let mut row: Vec<(Dyadic, Dyadic)> = to.iter().map(|_| zero()).collect();
        let place = |c: Channel| to.iter().position(|&t| t == c);
        for (channel, b) in &bias {
            if let Some(i) = place(*channel) {
                row[i].1.add(b);
            }
        }
        let mut rows = vec![row.clone()];
        for neuron in &neurons {
            for (channel, out) in &neuron.output {
                if let Some(i) = place(*channel) {
                    row[i].0.add_product(out, &neuron.input[0].1);
                    row[i].1.add_product(out, &neuron.bias);
                }
            }
            rows.push(row.clone());
        }
        let breaks = neurons.into_iter().map(|n| (n.input[0].1.clone(), n.bias)).collect();
        Self { from, to, breaks, rows }
    }

    fn apply(&self, state: &mut State) {
        let x = state[self.from.index()].clone();
        let active = self.breaks.partition_point(|(w, b)| {
            let mut sum = b.clone();
            sum.add_product(w, &x);
            sum.is_positive()
        });
        for (channel, (slope, intercept)) in self.to.iter().zip(&self.rows[active]) {
            let target = &mut state[channel.index()];
            target.add_product(slope, &x);
            target.add(intercept);
        }
    }
}

fn product(a: &Dyadic, b: &Dyadic) -> Dyadic {
    let mut sum = Dyadic::default();
    sum.add_product(a, b);
    sum
}

/// A layer as a sequence of operations, where no neuron reads what an earlier one writes.
fn serial(layer: &SubLayer) -> Vec<Op> {
    match layer {
        SubLayer::Attend { value, output } => {
            vec![Op::Attend { value: value.clone(), output: output.clone() }]
        }
        SubLayer::Feed { neurons, bias } => {
            let disturbs = |a: &Neuron, b: &Neuron| a.output.iter().any(|(c, _)| reads(b, *c));
            let apart = (0..neurons.len()).all(|j| (0..j).all(|i| !disturbs(&neurons[i], &neurons[j])));
            if !apart {
                return vec![Op::Layer(neurons.clone(), bias.clone())];
            }
            let bias = (!bias.is_empty()).then(|| Op::Bias(bias.clone()));
            neurons.iter().cloned().map(Op::Neuron).chain(bias).collect()
        }
    }
}

fn reads(neuron: &Neuron, channel: Channel) -> bool {
    neuron.input.iter().any(|(c, _)| *c == channel)
}

/// The channel and threshold of a neuron that folds.
fn fold(op: &Op) -> Option<(Channel, Dyadic)> {
    let Op::Neuron(Neuron { input, bias, output }) = op else { return None };
    match (&input[..], &output[..]) {
        ([(from, one)], [(to, two)])
            if from == to && *one == 1.into() && *two == (-2).into() && (-bias.clone()).is_positive() =>
        {
            Some((*from, -bias.clone()))
        }
        _ => None,
    }
}

fn merge_ladders(ops: Vec<Op>) -> Vec<Op> {
    let mut merged: Vec<Op> = Vec::with_capacity(ops.len());
    for op in ops {
        let Some((channel, threshold)) = fold(&op) else {
            merged.push(op);
            continue;
        };
        match merged.last_mut() {
            Some(Op::Ladder { channel: c, last, .. })
                if *c == channel && *last == product(&threshold, &2.into()) =>
            {
                *last = threshold;
            }
            _ => merged.push(Op::Ladder { channel, first: threshold.clone(), last: threshold }),
        }
    }
    merged
}

/// The channel that an operation of a table reads: `Ok` for a neuron, `Err` for a bias on other channels.
fn belongs(op: &Op, table: Option<Channel>) -> Option<Channel> {
    match op {
        Op::Neuron(n) => match &n.input[..] {
            [(c, w)] if w.is_positive() && n.output.iter().all(|(o, _)| o != c) => {
                (table.is_none() || table == Some(*c)).then_some(*c)
            }
            _ => None,
        },
        Op::Bias(bias) => table.filter(|c| bias.iter().all(|(b, _)| b != c)),
        _ => None,
    }
}

fn merge_tables(ops: Vec<Op>) -> Vec<Op> {
    let mut merged = Vec::with_capacity(ops.len());
    let mut ops = ops.into_iter().peekable();
    while let Some(op) = ops.next() {
        let Some(channel) = belongs(&op, None) else {
            merged.push(op);
            continue;
        };
        let mut run = vec![op];
        while let Some(next) = ops.next_if(|op| belongs(op, Some(channel)).is_some()) {
            run.push(next);
        }
        if run.len().cmp(&SHORTEST_TABLE) == Ordering::Less {
            merged.extend(run);
            continue;
        }
        let (mut neurons, mut bias) = (Vec::new(), Vec::new());
        for op in run {
            match op {
                Op::Neuron(n) => neurons.push(n),
                Op::Bias(b) => bias.extend(b),
                _ => unreachable!("only neurons and biases belong to a table"),
            }
        }
        merged.push(Op::Table(Table::new(channel, neurons, bias)));
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::super::exact_network::{NetworkStage, Readout, StagePurpose};
    use super::super::interpret;
    use super::*;
    use proptest::prelude::*;

    fn dyadic() -> impl Strategy<Value = Dyadic> {
        (-40i64..40, 0usize..3).prop_map(|(a, e)| Dyadic::new(a.into(), e))
    }

    fn channel() -> impl Strategy<Value = Channel> {
        prop::sample::select(Channel::ALL.to_vec())
    }

    fn neuron() -> impl Strategy<Value = Neuron> {
        let weights = || prop::collection::vec((channel(), dyadic()), 1..3);
        let any =
            (weights(), dyadic(), weights()).prop_map(|(input, bias, output)| Neuron { input, bias, output });
        let step = (channel(), channel(), dyadic(), dyadic())
            .prop_map(|(from, to, bias, out)| Neuron::simple(from, bias, to, out));
        prop_oneof![any, step]
    }

    fn layers() -> impl Strategy<Value = Vec<SubLayer>> {
        let free =
            (prop::collection::vec(neuron(), 0..3), prop::collection::vec((channel(), dyadic()), 0..2))
                .prop_map(|(neurons, bias)| vec![SubLayer::Feed { neurons, bias }]);
        let folds = (channel(), 0usize..5, 1usize..5).prop_map(|(c, top, k)| {
            (0..k).map(|i| SubLayer::of(vec![Neuron::fold(c, Dyadic::new((5 << top).into(), i))])).collect()
        });
        let table = (channel(), prop::collection::vec((channel(), dyadic(), dyadic()), 3..7)).prop_map(
            |(from, steps)| {
                let of = |(to, bias, out)| SubLayer::of(vec![Neuron::simple(from, bias, to, out)]);
                steps.into_iter().map(of).collect()
            },
        );
        let attend = (channel(), channel(), -9i64..9).prop_map(|(a, b, w)| {
            vec![SubLayer::Attend { value: (a, 1.into()), output: (b, (w * 6).into()) }]
        });
        prop_oneof![4 => free, 3 => folds, 2 => table, 1 => attend]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]
        #[test]
        fn whatever_the_network_both_evaluators_agree(
            stages in prop::collection::vec((prop::collection::vec(layers(), 1..5), 1usize..3), 1..5),
            tokens in prop::collection::vec(0u32..3, 1..5), read in 0usize..4, head in channel()
        ) {
            let network = ExactNetwork {
                tokens: vec![3, 50, 7],
                positions: vec![0, 4, 90, 31],
                stages: stages
                    .into_iter()
                    .map(|(l, times)| NetworkStage { part: StagePurpose::Scan, times, layers: l.concat() })
                    .collect(),
                head: Readout { weight: Some((head, (-1).into())), bias: 3.into() },
            };
            let read = read % tokens.len();
            let honest = interpret::run(&network, &tokens, read);
            prop_assert_eq!(honest, Compiled::new(&network).run(&tokens, read));
        }
    }

    #[test]
    fn folds_and_steps_are_recognised() {
        let folds =
            (0..4).rev().map(|k| SubLayer::of(vec![Neuron::fold(Channel::Z, Dyadic::power_of_two(k))]));
        let steps = (0..9).map(|i| SubLayer::of(vec![Neuron::simple(Channel::U, -i, Channel::Z, i)]));
        let network = ExactNetwork {
            tokens: vec![0],
            positions: vec![0],
            stages: vec![NetworkStage::once(StagePurpose::Lookup, steps.chain(folds).collect())],
            head: Readout::default(),
        };
        let compiled = Compiled::new(&network);
        assert!(matches!(compiled.stages[0].1[..], [Op::Table(_), Op::Ladder { .. }]), "{compiled:?}");
    }

    #[test]
    fn a_ladder_is_a_triangle_wave() {
        // Thresholds 8, 4, 2: period 4, up to 16; beyond it the first fold alone.
        let fold = |x: i64| ladder(&x.into(), &8.into(), &2.into()).unwrap_or(x.into());
        let found: Vec<String> = (-2..20).map(|x| fold(x).to_string()).collect();
        let wanted = [-2, -1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, -1, -2, -3];
        assert_eq!(found, wanted.map(|x: i64| x.to_string()));
    }
}
