//! The explicitly constructed transformer: a first layer that builds augmented tokens, and n identical layers that each
//! take one step of gradient descent.
//!
//! A token consists of, in this order,
//!
//! ```text
//! 1    f_t = [t = 1]    t    t^2    u_t    x_t    (r_t)    prev_t    y_t
//! ```
//!
//! u_t (d numbers, initially 0) becomes the prediction; x_t is the vector; r_t holds whatever else the kernel needs
//! (nothing; x_t / |x_t| for the normalised linear kernel; |x_t|^2 for the normalised exp kernel); prev_t is the
//! kernel's part of the previous token; y_t = x_t for t >= 2. With xi_t the kernel's part of a token (x_t, x_t / |x_t|,
//! or (x_t, |x_t|^2)): prev_t = xi_{t-1}, and prev_1 = y_1 = 0.
//!
//! **The first layer** has two softmax heads whose scores depend only on positions:
//! 2 n s (t - o) - n s^2 = n (t - o)^2 - n (s - t + o)^2, largest at s = t - o. One copies x_t to y_t (o = 0), the other
//! xi_{t-1} to prev_t (o = 1), with an error of at most 2 e^-n max |x_s - x_{t-1}|. ReLU neurons follow:
//! c - [relu(c - B (1 - f)) - relu(-c - B (1 - f))] leaves c = y, prev unchanged for f = 0 and sets them to 0 for f = 1,
//! provided B is above all |c|; t and t^2, no longer needed, are subtracted from themselves. (Summed in the order of the
//! token, -B + B f is exactly 0 at t = 1, and so is y_1.)
//!
//! **Every other layer** has two heads, and adds eta times
//!
//! ```text
//! head 1   queries xi_t, keys prev_s, values  y_s     sum_{s <= t} k(x_t, x_{s-1}) x_s  =  sum_{s < t} k(x_t, x_s) x_{s+1}
//! head 2   queries xi_t, keys xi_s,   values -u_s     -sum_{s <= t} k(x_t, x_s) u_s
//! ```
//!
//! to u_t: one step u <- u - eta (L u - N y) of [`super::descent`]. Two details are essential. At s = 1 head 1 has no
//! earlier vector to compare with, so its value must be 0: y_1 = 0. And softmax divides by its own sum: head 1 must
//! have the sum of head 2, so its key at s = 1 must have the score that head 2 has at s = t. That is beta |x_t|^2 =
//! beta for vectors of norm 1: the key holds beta f_s, which multiplies the query's 1. For the normalised exp kernel,
//! exp(-beta |x_t - x_s|^2 / 2), it is 0 for vectors of any norm.
//!
//! | here | meaning | sander2024 |
//! |---|---|---|
//! | sharpness | n of the first layer | n in T_0^n, Proposition 1 |
//! | layers | n of the descent | n, Theorem 1 |
//! | eta | step | eta |
//!
//! Differences from the paper, as far as its abstract tells: the paper puts x_0 = 0 at a position 0; here the flag f
//! acts as a gate, so that all layers see the same positions. Reference: Sander and Peyre, arXiv 2410.03011,
//! Proposition 1, Theorem 1, figure 1.

use super::kernel::{Attention, Form, Kernel};
use super::network::{AttentionHead, HiddenLayer, Layer, Network};
use super::rows::Rows;
use crate::{Error, Result};

/// The sharpness at which the copies of the first layer are exact to the last digit.
pub const SHARPNESS: f64 = 40.0;

/// Describes the network to construct.
///
/// ```
/// use byrote::incontext::{Attention, Kernel, NetworkPlan};
/// let plan = NetworkPlan::new(3, 10, Kernel::exp(1.0)?, Attention::Softmax).layers(4).eta(1.5);
/// assert_eq!(plan.network()?.n_ctx(), 10);
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct NetworkPlan {
    /// The dimension of the vectors.
    pub d: usize,
    /// The length of the longest sequence.
    pub n_ctx: usize,
    /// The kernel.
    pub kernel: Kernel,
    /// The attention that computes it.
    pub attention: Attention,
    /// The number of descent layers.
    pub layers: u64,
    /// Their step size.
    pub eta: f64,
    /// How sharply the first layer copies.
    pub sharpness: f64,
    /// A bound on the inputs' magnitude.
    pub bound: f64,
}

/// The layout of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLayout {
    d: usize,
    /// The numbers of xi in addition to, or instead of, x.
    more: usize,
    /// Whether xi contains x, or consists of the additional numbers alone.
    with_x: bool,
}

impl TokenLayout {
    /// The constant 1.
    pub const ONE: usize = 0;
    /// 1 at the first position, otherwise 0.
    pub const FLAG: usize = 1;
    /// t, until the first layer has run.
    pub const TIME: usize = 2;
    /// t^2, until the first layer has run.
    pub const SQUARE: usize = 3;

    /// The layout of the tokens of a kernel.
    pub fn new(kernel: Kernel, d: usize) -> Self {
        let more = kernel.input_width(d) - d;
        Self { d, more, with_x: kernel.form() != Form::Linear || more == 0 }
    }

    /// Where the prediction begins.
    pub fn u(self) -> usize {
        4
    }

    /// Where the vector begins.
    pub fn x(self) -> usize {
        self.u() + self.d
    }

    /// Where the kernel's part begins, and its length.
    pub fn xi(self) -> (usize, usize) {
        if self.with_x { (self.x(), self.d + self.more) } else { (self.x() + self.d, self.more) }
    }

    /// Where the kernel's part of the previous token begins.
    pub fn prev(self) -> usize {
        self.x() + self.d + self.more
    }

    /// Where the copy of x begins that is 0 at the first position.
    pub fn y(self) -> usize {
        self.prev() + self.xi().1
    }

    /// The width of a token.
    pub fn width(self) -> usize {
        self.y() + self.d
    }
}

/// A matrix that is zero except for the given entries.
fn entries(rows: usize, columns: usize, set: impl IntoIterator<Item = (usize, usize, f64)>) -> Rows {
    let mut out = Rows::zeros(rows, columns);
    for (i, j, x) in set {
        *out.at_mut(i, j) = x;
    }
    out
}

crate::setting::setters!(NetworkPlan {
    layers: plain(u64),
    eta: plain(f64),
    sharpness: plain(f64),
    bound: plain(f64),
});

impl NetworkPlan {
    /// Plans one descent layer with a step size of 1, for vectors of `d` numbers that are at most 1 and sequences of at most
    /// `n_ctx`.
    pub fn new(d: usize, n_ctx: usize, kernel: Kernel, attention: Attention) -> Self {
        Self { d, n_ctx, kernel, attention, layers: 1, eta: 1.0, sharpness: SHARPNESS, bound: 1.0 }
    }

    /// Constructs the network.
    pub fn network(&self) -> Result<Network> {
        self.kernel.goes_with(self.attention)?;
        if self.layers == 0 {
            return Err(Error::setting("layers", "must be at least 1 (got 0)"));
        }
        if !(self.sharpness > 0.0 && self.sharpness <= 1e3) {
            return Err(Error::setting(
                "sharpness",
                format!("must be above 0 and at most 1000 (got {})", self.sharpness),
            ));
        }
        if !(self.bound > 0.0 && self.bound < 1e200) {
            return Err(Error::setting(
                "sequence",
                format!("has coordinates up to {}; scale them to at most 1e200", self.bound),
            ));
        }
        let (d, token) = (self.d, TokenLayout::new(self.kernel, self.d));
        let width = token.width();
        let d_in = self.kernel.input_width(d);
        let position = |i: usize| {
            let t = (i + 1) as f64;
            let first = f64::from(u8::from(i == 0));
            [
                (TokenLayout::ONE, 1.0),
                (TokenLayout::FLAG, first),
                (TokenLayout::TIME, t),
                (TokenLayout::SQUARE, t * t),
            ]
            .map(|(j, x)| (i, j, x))
        };
        let layer = self.layer(token);
        Ok(Network {
            w_e: entries(d_in, width, (0..d_in).map(|i| (i, token.x() + i, 1.0))),
            w_pos: entries(self.n_ctx, width, (0..self.n_ctx).flat_map(position)),
            layers: vec![self.augment(token), layer],
            w_u: entries(width, d, (0..d).map(|i| (token.u() + i, i, 1.0))),
        })
    }

    /// The first layer.
    fn augment(&self, token: TokenLayout) -> Layer {
        let (width, n) = (token.width(), self.sharpness);
        let (xi, side) = token.xi();
        let wide = side.max(self.d);
        let copy = |back: f64, from: usize, to: usize, length: usize| AttentionHead {
            w_q: entries(
                width,
                2,
                [
                    (TokenLayout::TIME, 0, 2.0 * n),
                    (TokenLayout::ONE, 0, -2.0 * n * back),
                    (TokenLayout::ONE, 1, -n),
                ],
            ),
            w_k: entries(width, 2, [(TokenLayout::TIME, 0, 1.0), (TokenLayout::SQUARE, 1, 1.0)]),
            // Both heads are as wide as the wider one.
            w_v: entries(width, wide, (0..length).map(|i| (from + i, i, 1.0))),
            w_o: entries(wide, width, (0..length).map(|i| (i, to + i, 1.0))),
        };
        // A power of two keeps -B + B f exact.
        let bound = 2.0 * self.bound.log2().ceil().exp2();
        let gated: Vec<usize> = (token.prev()..token.width()).collect();
        let neurons = 2 * gated.len() + 2;
        let (mut w_in, mut w_out) = (Rows::zeros(width, neurons), Rows::zeros(neurons, width));
        for (g, &c) in gated.iter().enumerate() {
            for (neuron, sign) in [(2 * g, 1.0), (2 * g + 1, -1.0)] {
                *w_in.at_mut(TokenLayout::ONE, neuron) = -bound;
                *w_in.at_mut(TokenLayout::FLAG, neuron) = bound;
                *w_in.at_mut(c, neuron) = sign;
                *w_out.at_mut(neuron, c) = -sign;
            }
        }
        for (neuron, c) in [(neurons - 2, TokenLayout::TIME), (neurons - 1, TokenLayout::SQUARE)] {
            *w_in.at_mut(c, neuron) = 1.0;
            *w_out.at_mut(neuron, c) = -1.0;
        }
        Layer {
            attention: Attention::Softmax,
            step: 1.0,
            heads: vec![copy(0.0, token.x(), token.y(), self.d), copy(1.0, xi, token.prev(), side)],
            hidden: Some(HiddenLayer { w_in, w_out }),
            repeat: 1,
        }
    }

    /// A descent layer and its number of repetitions.
    fn layer(&self, token: TokenLayout) -> Layer {
        let (width, d) = (token.width(), self.d);
        let (xi, side) = token.xi();
        // Entries of queries and keys besides those of the vectors, as (token, column, value).
        let scale = match self.kernel.form() {
            Form::Linear => 1.0,
            Form::Exp { beta } => beta.sqrt(),
        };
        // The part of xi that is multiplied; in the normalised exp kernel, |x|^2 follows it.
        let own = side.min(d);
        let d_head = own + 2;
        let mut query: Vec<(usize, usize, f64)> = (0..own).map(|i| (xi + i, i, scale)).collect();
        let keys = |from: usize, first: bool| {
            let mut set: Vec<(usize, usize, f64)> = (0..own).map(|i| (from + i, i, scale)).collect();
            if let Form::Exp { beta } = self.kernel.form() {
                if self.kernel.is_normalised() {
                    // -beta |x_s|^2 / 2 and -beta / 2, which multiply 1 and |x_t|^2; at the first key of head 1
                    // everything is 0.
                    set.push((from + own, own, -0.5 * beta));
                    set.push((TokenLayout::ONE, own + 1, -0.5 * beta));
                    if first {
                        set.push((TokenLayout::FLAG, own + 1, 0.5 * beta));
                    }
                } else if first && self.attention == Attention::Softmax {
                    set.push((TokenLayout::FLAG, own, beta));
                }
            }
            entries(width, d_head, set)
        };
        query.push((TokenLayout::ONE, own, 1.0));
        if side > own {
            query.push((xi + own, own + 1, 1.0));
        }
        let head = |w_k: Rows, from: usize, sign: f64| AttentionHead {
            w_q: entries(width, d_head, query.clone()),
            w_k,
            w_v: entries(width, d, (0..d).map(|i| (from + i, i, sign))),
            w_o: entries(d, width, (0..d).map(|i| (i, token.u() + i, 1.0))),
        };
        Layer {
            attention: self.attention,
            step: self.eta,
            heads: vec![
                head(keys(token.prev(), true), token.y(), 1.0),
                head(keys(xi, false), token.u(), -1.0),
            ],
            hidden: None,
            repeat: self.layers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::descent::{Until, descend};
    use super::super::direct::direct;
    use super::super::kernel::Over;
    use super::super::sequence::Sequence;
    use super::super::sequence_task::{Map, SequenceTask};
    use super::*;
    use crate::observe::Silent;
    use proptest::prelude::*;

    fn exp(beta: f64) -> Kernel {
        Kernel::exp(beta).unwrap()
    }

    fn plan(x: &Sequence, kernel: Kernel, attention: Attention, layers: u64, eta: f64) -> NetworkPlan {
        let bound = kernel.inputs(x).unwrap().values().iter().fold(0.0f64, |most, x| most.max(x.abs()));
        NetworkPlan { d: x.d(), n_ctx: x.len(), kernel, attention, layers, eta, sharpness: SHARPNESS, bound }
    }

    fn run(plan: &NetworkPlan, network: &Network, x: &Sequence) -> Rows {
        network.evaluate(&plan.kernel.inputs(x).unwrap(), &Silent).unwrap()
    }

    fn cases() -> [(Kernel, Attention, f64, Map); 6] {
        let (turn, shrink) = (Map::Orthogonal, Map::Contractive(0.995));
        [
            (Kernel::LINEAR, Attention::Identity, 1.0 / 60.0, turn),
            (exp(1.0), Attention::Exp, 1.0 / (60.0 * 1f64.exp()), turn),
            (exp(1.0), Attention::Softmax, 1.0, turn),
            (exp(4.0), Attention::Softmax, 1.9, turn),
            (exp(2.0).normalised(), Attention::Softmax, 1.0, shrink),
            (Kernel::LINEAR.normalised(), Attention::Identity, 1.0 / 60.0, shrink),
        ]
    }

    #[test]
    fn the_network_runs_the_descent() {
        for (kernel, attention, eta, map) in cases() {
            let x = SequenceTask::Linear(map).generate(7, 60, 2, 0).unwrap();
            let plan = plan(&x, kernel, attention, 300, eta);
            let network = plan.network().unwrap();
            network.check().unwrap();
            let found = run(&plan, &network, &x);
            let expect = descend(&x, kernel, attention, eta, Until::layers(300), &Silent).unwrap();
            let gap = found.max_difference(&expect.predictions);
            assert!(gap < 1e-13, "{kernel} {attention}: {gap}");
            assert_eq!(found.row(0), [0.0; 7], "u_1 = 0");
        }
    }

    #[test]
    fn deep_networks_reach_forward_substitution() {
        for (kernel, attention, eta, map) in cases() {
            let x = SequenceTask::Linear(map).generate(5, 40, 6, 0).unwrap();
            let plan = plan(&x, kernel, attention, 4000, eta);
            let found = run(&plan, &plan.network().unwrap(), &x);
            let gap = found.max_difference(&direct(&x, kernel, Over::Query, &Silent).unwrap());
            assert!(gap < 1e-10, "{kernel} {attention}: {gap}");
        }
    }

    #[test]
    fn the_first_layer_copies_as_sharply_as_asked() {
        let x = SequenceTask::Linear(Map::Orthogonal).generate(4, 50, 2, 0).unwrap();
        for (sharpness, at_most) in [(5.0, 2.7e-2), (10.0, 1.9e-4), (20.0, 8.3e-9), (40.0, 4e-16)] {
            let plan = NetworkPlan { sharpness, ..plan(&x, exp(1.0), Attention::Softmax, 1, 1.0) };
            let token = TokenLayout::new(plan.kernel, 4);
            let network = plan.network().unwrap();
            let tokens = network.tokens(&x, 1, &Silent).unwrap();
            let mut worst = 0.0f64;
            for t in 0..50 {
                let row = tokens.row(t);
                assert_eq!(row[..4], [1.0, f64::from(u8::from(t == 0)), 0.0, 0.0]);
                assert_eq!(row[token.x()..token.x() + 4], *x.row(t));
                for i in 0..4 {
                    let (y, prev) = if t == 0 { (0.0, 0.0) } else { (x.at(t, i), x.at(t - 1, i)) };
                    let gap = (row[token.y() + i] - y).abs().max((row[token.prev() + i] - prev).abs());
                    worst = worst.max(gap);
                    assert!(t > 0 || gap == 0.0, "nothing before the first");
                }
            }
            // At most 2 e^-n times the largest distance, 2, and not much better than that.
            assert!(worst <= at_most && (sharpness > 30.0 || worst > 0.05 * at_most), "{sharpness}: {worst}");
        }
    }

    /// How far a network with one deliberate mistake is from the correct result.
    fn harm(
        kernel: Kernel,
        attention: Attention,
        eta: f64,
        break_it: impl Fn(&mut Network, TokenLayout),
    ) -> f64 {
        let x = SequenceTask::Linear(Map::Orthogonal).generate(5, 40, 6, 0).unwrap();
        let plan = plan(&x, kernel, attention, 2000, eta);
        let mut network = plan.network().unwrap();
        break_it(&mut network, TokenLayout::new(kernel, 5));
        run(&plan, &network, &x).max_difference(&direct(&x, kernel, Over::Query, &Silent).unwrap())
    }

    #[test]
    fn without_the_first_key_softmax_is_wrong() {
        let forget = |network: &mut Network, _: TokenLayout| {
            let keys = &mut network.layers[1].heads[0].w_k;
            *keys.at_mut(TokenLayout::FLAG, 5) = 0.0;
        };
        assert!(harm(exp(1.0), Attention::Softmax, 1.0, forget) > 0.05);
        // Exp attention has no such key, and needs none.
        assert!(harm(exp(1.0), Attention::Exp, 0.01, forget) < 1e-9);
    }

    #[test]
    fn a_first_value_that_is_not_zero_is_wrong() {
        let keep = |network: &mut Network, token: TokenLayout| {
            let hidden = network.layers[0].hidden.as_mut().unwrap();
            let n = token.width();
            for neuron in 0..hidden.w_out.len() {
                for c in token.y()..n {
                    *hidden.w_out.at_mut(neuron, c) = 0.0;
                }
            }
        };
        assert!(harm(exp(1.0), Attention::Softmax, 1.0, keep) > 0.05);
        assert!(harm(exp(1.0), Attention::Exp, 0.01, keep) > 0.05);
        // The linear kernel with a zero vector before the first one is not affected.
        assert!(harm(Kernel::LINEAR, Attention::Identity, 0.02, keep) < 1e-9);
    }

    #[test]
    fn a_value_one_step_too_early_is_wrong() {
        // Head 1 with its own key instead of the previous one: it pairs k(x_t, x_s) with x_s.
        let early = |network: &mut Network, _: TokenLayout| {
            let layer = &mut network.layers[1];
            layer.heads[0].w_k = layer.heads[1].w_k.clone();
        };
        for (kernel, attention, eta) in [
            (Kernel::LINEAR, Attention::Identity, 0.02),
            (exp(1.0), Attention::Exp, 0.01),
            (exp(1.0), Attention::Softmax, 1.0),
        ] {
            assert!(harm(kernel, attention, eta, early) > 0.5, "{kernel} {attention}");
        }
    }

    #[test]
    fn wrong_pairs_and_sizes_are_refused() {
        let x = SequenceTask::Nonlinear.generate(3, 10, 0, 0).unwrap();
        let good = plan(&x, exp(1.0), Attention::Softmax, 5, 1.0);
        for (plan, says) in [
            (NetworkPlan { attention: Attention::Identity, ..good }, "attention"),
            (NetworkPlan { kernel: Kernel::LINEAR, ..good }, "attention"),
            (NetworkPlan { layers: 0, ..good }, "layers"),
            (NetworkPlan { sharpness: f64::NAN, ..good }, "sharpness"),
            (NetworkPlan { bound: f64::INFINITY, ..good }, "scale"),
        ] {
            let error = plan.network().unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_comes_later_changes_nothing(seed in any::<u64>(), n in 3usize..90, at in 1usize..90, case in 0usize..6) {
            let at = 1 + at % (n - 1);
            let (kernel, attention, eta, map) = cases()[case];
            let x = SequenceTask::Linear(map).generate(3, n, seed, 0).unwrap();
            let plan = NetworkPlan { bound: 4.0, ..plan(&x, kernel, attention, 6, eta) };
            let network = plan.network().unwrap();
            let mut other = (*x).clone();
            other.values_mut()[at * 3..].iter_mut().for_each(|x| *x = 0.7 - *x);
            let other = Sequence::new(other).unwrap();
            let bits = |x: &Sequence| -> Vec<u64> {
                run(&plan, &network, x).values()[..at * 3].iter().map(|x| x.to_bits()).collect()
            };
            prop_assert_eq!(bits(&x), bits(&other));
        }

        #[test]
        fn the_three_ways_agree(seed in any::<u64>(), d in 1usize..5, n in 2usize..25, beta in 0.3f64..6.0) {
            let x = SequenceTask::Nonlinear.generate(d, n, seed, 0).unwrap();
            let kernel = exp(beta);
            let exact = direct(&x, kernel, Over::Query, &Silent).unwrap();
            let plan = plan(&x, kernel, Attention::Softmax, 1500, 1.0);
            let found = run(&plan, &plan.network().unwrap(), &x);
            let scale = exact.values().iter().fold(1.0f64, |most, x| most.max(x.abs()));
            prop_assert!(found.max_difference(&exact) < 1e-10 * scale, "{}", found.max_difference(&exact));
        }
    }
}
