//! Activations and softmax means of balls.
//!
//! Functions are computed at the centre with BITS bits after the point ([`crate::num::precise`], within one unit) and widened by the
//! radius times the largest slope.
//!
//! The mean of values v_s with weights a_s proportional to e^(score_s): if scores are off by at most eps_s, the weights are proportional
//! to a_s (1 + t_s) with |t_s| <= tau_s = e^eps_s - 1, and
//!
//! ```text
//! mean' - mean = sum_s a_s t_s (v_s - mean) / (1 + sum_r a_r t_r) + what the radii of the values add,
//! ```
//!
//! which is at most sum_s a_s (tau_s |v_s - mean| + (1 + tau_s) r_s) / (1 - max tau). If scores are not known that well, a mean still
//! never leaves its values.

use super::ball::{BITS, Ball, UNIT, WIDER};
use crate::model::Activation;
use crate::num::precise::{Dyadic, IBig, LARGEST, Precise, to_f64};

/// Arguments beyond this are treated as far away: half of what [`Precise`] takes.
const FAR: f64 = LARGEST as f64 / 2.0;

/// 2^-140 per unit of what is computed, which covers the roundings of the integers of a mean.
const ROUNDING: f64 = 1.0 / ((1u64 << 60) as f64 * (1u64 << 60) as f64 * (1u64 << 20) as f64);

/// psi of a ball.
pub fn activation(function: Activation, precise: &Precise, x: &Ball) -> Ball {
    if !x.is_known() {
        return Ball::UNKNOWN;
    }
    if x.hi.abs() > FAR {
        // e^-2048 and its multiples by numbers below 1e300 are below 1e-500.
        return match function {
            Activation::Gelu | Activation::GeluTanh | Activation::Silu | Activation::Relu => {
                let slope = slope(function);
                let limit = if x.hi > 0.0 { *x } else { Ball::exact(0.0) };
                Ball::new(limit.hi, limit.lo, (slope * x.radius + 1e-300) * WIDER)
            }
            Activation::Tanh | Activation::Erf => {
                Ball::new(1f64.copysign(x.hi), 0.0, x.radius * 1.13 * WIDER + 1e-300)
            }
            Activation::Logistic => Ball::new(f64::from(u8::from(x.hi > 0.0)), 0.0, x.radius + 1e-300),
            Activation::Arctan => Ball::UNKNOWN,
        };
    }
    let value = function.precise(precise, &x.centre());
    Ball::of_fixed(&value, (slope(function) * x.radius + 2.0 * UNIT) * WIDER)
}

/// The largest slope anywhere.
fn slope(function: Activation) -> f64 {
    match function {
        Activation::Gelu | Activation::GeluTanh | Activation::Erf => 1.13,
        Activation::Silu => 1.1,
        Activation::Tanh | Activation::Arctan | Activation::Relu => 1.0,
        Activation::Logistic => 0.25,
    }
}

/// A vector with its centres as integers.
#[derive(Debug, Clone)]
pub struct FixedVector {
    /// The balls.
    pub balls: Vec<Ball>,
    fixed: Vec<IBig>,
}

impl FixedVector {
    /// Prepares a vector.
    pub fn new(balls: Vec<Ball>) -> Self {
        let fixed = balls.iter().map(Ball::fixed).collect();
        Self { balls, fixed }
    }
}

/// A score: its centre in units of 2^-BITS, and how far it may be off.
pub struct Score {
    centre: IBig,
    radius: f64,
}

/// The scores of a head: scalar products over `d_head` coordinates, divided by the square root of that number if `scaled`.
pub struct Scores {
    /// The square root of d_head in units of 2^-BITS, or 1.
    root: IBig,
    factor: f64,
}

impl Scores {
    /// Scores of this kind.
    pub fn new(d_head: usize, scaled: bool) -> Self {
        use dashu_base::SquareRoot;
        let root = match scaled {
            true => (dashu_int::UBig::from(d_head) << (2 * BITS)).sqrt().into(),
            false => IBig::ONE << BITS,
        };
        let factor = if scaled { 1.0 / (d_head as f64).sqrt() } else { 1.0 };
        Self { root, factor: factor * WIDER }
    }

    /// The score of a query at `from` and a key at `to`, over `width` coordinates.
    pub fn of(&self, query: &FixedVector, from: usize, key: &FixedVector, to: usize, width: usize) -> Score {
        let mut sum = IBig::ZERO;
        let mut spread = 0.0;
        for i in 0..width {
            let (q, k) = (&query.balls[from + i], &key.balls[to + i]);
            sum += &query.fixed[from + i] * &key.fixed[to + i];
            // Rounding down to units widens the boxes.
            let (r, s) = (q.radius + 2.0 * UNIT, k.radius + 2.0 * UNIT);
            spread += (q.size() + UNIT) * s + (k.size() + UNIT) * r + r * s;
        }
        let centre = sum / &self.root;
        let rounding = ROUNDING * (1.0 + to_f64(&centre, BITS).abs());
        Score { radius: (self.factor * spread + rounding) * WIDER, centre }
    }
}

/// The means of `width` coordinates of `values`, from `at`, with softmax weights.
pub fn mean(
    precise: &Precise,
    scores: &[Score],
    values: &[&FixedVector],
    at: usize,
    width: usize,
) -> Vec<Ball> {
    let Some(largest) = scores.iter().map(|s| &s.centre).max() else { return vec![Ball::UNKNOWN; width] };
    let far = -(IBig::from(LARGEST - 96) << BITS);
    let exponential = |score: &Score| {
        let below = &score.centre - largest;
        // e^-4000 is far below a unit.
        if below < far { IBig::ZERO } else { precise.exp(&Dyadic::new(below, -(BITS as isize))) }
    };
    let parts: Vec<IBig> = scores.iter().map(exponential).collect();
    let total: IBig = parts.iter().sum();
    let whole = to_f64(&total, BITS);
    let weights: Vec<f64> = parts.iter().map(|p| to_f64(p, BITS) / whole * WIDER).collect();
    let most = scores.iter().fold(0.0, |m: f64, s| if s.radius <= m { m } else { s.radius });
    // tau of each score, if all are small. Written so that what is not a number is not small.
    let taus: Option<Vec<f64>> =
        (most <= 0.25).then(|| scores.iter().map(|s| (s.radius + s.radius * s.radius) * WIDER).collect());
    (at..at + width)
        .map(|j| {
            let centre = parts.iter().zip(values).map(|(p, v)| p * &v.fixed[j]).sum::<IBig>() / &total;
            let middle = to_f64(&centre, BITS);
            let balls = || values.iter().map(|v| v.balls[j]);
            let size = balls().fold(0.0, |m: f64, v| m.max(v.size()));
            let apart = |v: Ball| (v.hi - middle).abs() + v.lo.abs() + 4.0 * f64::EPSILON * (size + UNIT);
            let reach = |v: Ball| v.radius + 2.0 * UNIT;
            let spread = match &taus {
                Some(taus) => {
                    let terms = balls().zip(taus).zip(&weights);
                    let sum: f64 =
                        terms.map(|((v, t), w)| (w + UNIT) * (t * apart(v) + (1.0 + t) * reach(v))).sum();
                    sum / (1.0 - taus.iter().copied().fold(0.0, f64::max))
                }
                None => balls().fold(0.0, |m: f64, v| {
                    let wide = apart(v) + reach(v);
                    if wide <= m { m } else { wide }
                }),
            };
            let rounding = ROUNDING * scores.len() as f64 * (1.0 + size);
            Ball::of_fixed(&centre, (spread + rounding) * WIDER)
        })
        .collect()
}
