//! Steps along one direction: for functions that saturate exponentially, with no system to solve and any d_model.
//!
//! Let x_(1) < ... < x_(n) be the contexts along a direction p, r their range, lo and hi the two limits of psi, and s
//! the width of its transition. Neuron 1 is always at hi. Neuron k >= 2 steps halfway between x_(k-1) and x_(k), with
//! slope s / (x_(k) - x_(k-1)), so that psi is lo or hi to the last bit at every context. Then
//!
//! ```text
//! V_k = (Y_(k) - Y_(k-1)) / (hi - lo),  k >= 2        V_1 = (Y_(1) - lo sum_{k >= 2} V_k) / hi
//! ```
//!
//! gives the logits Y exactly. The matrix of features is a step matrix, whose condition number is about 0.63 n; rows of
//! V are as sparse as two neighbouring targets. The best of 16 random directions is used. The cost is one sort, and the
//! entries of V.
//!
//! These parameters are covered by Theorem 5 as stated (d_model = 1 embedded in d_model, m = n, free w and b); only the
//! proof's "w near 0, all b equal" is dropped. arctan is not supported: its tail 1/z never reaches its limits.

use super::{Attempt, Draw, KEY, Solver};
use crate::error::Refusal;
use crate::model::Activation;
use crate::num::Stream;
use crate::{Error, Result};

const DIRECTIONS: u64 = 16;

/// A relative gap below this is a collision: forward passes that round differently must not fall on different sides of
/// a step.
const LEAST_GAP: f64 = 1e-13;

/// How a function steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    lo: f64,
    hi: f64,
    /// The step takes the argument from -width / 2 to width / 2.
    width: f64,
}

impl Step {
    /// The step of an activation that reaches its limits in double precision.
    pub fn of(activation: Activation) -> Option<Step> {
        match activation {
            // 1 - tanh 20 = 8.5e-18.
            Activation::Tanh => Some(Step { lo: -1.0, hi: 1.0, width: 40.0 }),
            // e^-40 = 4.2e-18.
            Activation::Logistic => Some(Step { lo: 0.0, hi: 1.0, width: 80.0 }),
            // erfc 7 = 4.2e-23.
            Activation::Erf => Some(Step { lo: -1.0, hi: 1.0, width: 14.0 }),
            _ => None,
        }
    }
}

/// Contexts along a direction.
pub(super) struct Line {
    pub(super) direction: Vec<f64>,
    /// The contexts in increasing order, with their positions.
    pub(super) order: Vec<(f64, usize)>,
    pub(super) range: f64,
    /// The smallest gap divided by the range, and its place: after this many contexts.
    pub(super) least: (f64, usize),
}

impl Line {
    /// The direction, out of 16, whose smallest gap is largest.
    pub(super) fn best(draw: &Draw<'_>) -> Result<Line> {
        let moments = draw.moments();
        let mut best: Option<Line> = None;
        // In one dimension there is only one direction.
        let directions = if draw.d() == 1 { 1 } else { DIRECTIONS };
        for index in 0..directions {
            let mut stream = Stream::new(draw.seed, "direction", index);
            let drawn: Vec<f64> = moments.iter().map(|_| stream.normal()).collect();
            let length = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
            let direction =
                drawn.iter().zip(&moments).map(|(x, (_, spread))| x / (length * spread)).collect();
            let line = Line::along(draw, direction);
            if best.as_ref().is_none_or(|b| line.least.0 > b.least.0) {
                best = Some(line);
            }
        }
        match best {
            Some(line) if line.least.0 >= LEAST_GAP => Ok(line),
            Some(Line { order, least: (relative_gap, at), .. }) => {
                let (first, second) = (order[at - 1].1, order[at].1);
                let refusal = Refusal::Collision { first, second, relative_gap };
                Err(Error::Refused { builder: KEY, refusal })
            }
            None => Err(Error::EmptyCorpus { message: "no context is followed by a token".into() }),
        }
    }

    fn along(draw: &Draw<'_>, direction: Vec<f64>) -> Line {
        let along = |i: usize| draw.mixed(i).iter().zip(&direction).map(|(h, p)| h * p).sum::<f64>();
        let mut order: Vec<(f64, usize)> = (0..draw.dataset.len()).map(|i| (along(i), i)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let range = order[order.len() - 1].0 - order[0].0;
        // One context, or all at one point; the latter is a gap of 0.
        let range = if range > 0.0 { range } else { 1.0 };
        let gaps = order.windows(2).map(|w| (w[1].0 - w[0].0) / range);
        let least = gaps.zip(1..).fold((1.0, 0), |m, g| if g.0 < m.0 { g } else { m });
        Line { direction, order, range, least }
    }

    /// Neurons with transition `width` across each gap: the first always on, neuron k between contexts k - 1 and k.
    pub(super) fn neurons(&self, width: f64) -> Vec<(Vec<f64>, f64)> {
        let mut neurons = Vec::with_capacity(self.order.len());
        let mut add = |slope: f64, centre: f64| {
            neurons.push((self.direction.iter().map(|p| slope * p).collect(), -slope * centre));
        };
        add(width / self.range, self.order[0].0 - self.range);
        for pair in self.order.windows(2) {
            let gap = pair[1].0 - pair[0].0;
            add(width / gap, pair[0].0 + 0.5 * gap);
        }
        neurons
    }
}

pub(super) fn solve(draw: &Draw<'_>) -> Result<Attempt> {
    let Some(step) = Step::of(draw.config.shape.activation) else {
        return Err(Error::setting(
            "activation",
            "must saturate (tanh, logistic or erf) for a construction with steps",
        ));
    };
    let line = Line::best(draw)?;
    let mut parameters = draw.with_hidden(&line.neurons(step.width));
    let (omega, jump) = (draw.omega(), step.hi - step.lo);
    let output = &mut parameters[draw.output()];
    let mut sum = vec![0.0; omega];
    for (k, pair) in line.order.windows(2).enumerate() {
        let row = &mut output[(k + 1) * omega..(k + 2) * omega];
        draw.targets.of(pair[1].1).iter().for_each(|&(t, y)| row[t as usize] += y);
        draw.targets.of(pair[0].1).iter().for_each(|&(t, y)| row[t as usize] -= y);
        for &(t, _) in draw.targets.of(pair[1].1) {
            row[t as usize] /= jump;
            sum[t as usize] += row[t as usize];
        }
        for &(t, _) in draw.targets.of(pair[0].1) {
            // The tokens of both contexts are done.
            if draw.targets.of(pair[1].1).binary_search_by_key(&t, |e| e.0).is_err() {
                row[t as usize] /= jump;
                sum[t as usize] += row[t as usize];
            }
        }
    }
    let first = &mut output[..omega];
    draw.targets.of(line.order[0].1).iter().for_each(|&(t, y)| first[t as usize] = y);
    first.iter_mut().zip(&sum).for_each(|(v, sum)| *v = (*v - step.lo * sum) / step.hi);
    Ok(Attempt {
        solver: Solver::Sorted,
        error: draw.error(&parameters),
        parameters,
        gain: None,
        relative_gap: Some(line.least.0),
        condition: None,
    })
}
