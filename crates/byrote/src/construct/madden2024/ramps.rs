//! Ramps along one direction: GELU and ReLU in one to three dimensions.
//!
//! With contexts sorted along a direction as in [`super::sorted`], neuron k is a ramp psi(z) = max(z, 0) that starts
//! halfway between x_(k-1) and x_(k) (GELU is a ramp to the last bit once |z| is above 9). The logits are then a
//! piecewise linear function of x. With S_k its slope after the start c_k of ramp k,
//!
//! ```text
//! S_k = (Y_(k) - f(c_k)) / (x_(k) - c_k)       f(c_(k+1)) = Y_(k) + S_k (c_(k+1) - x_(k))       V_k = (S_k - S_(k-1)) / slope_k
//! ```
//!
//! The error is about (machine precision) (range / smallest gap) |Y|, which is good enough for a few hundred contexts.

use super::sorted::Line;
use super::{Attempt, Draw, Solver};
use crate::Result;
use crate::model::Activation;
use crate::train::{Evaluator, ProbePoint};

/// From -20 to 20 across a gap.
const WIDTH: f64 = 40.0;

/// Whether the function is a ramp.
pub(super) fn applies(activation: Activation) -> bool {
    matches!(activation, Activation::Gelu | Activation::GeluTanh | Activation::Relu)
}

pub(super) fn solve(draw: &Draw<'_>) -> Result<Attempt> {
    let line = Line::best(draw)?;
    let mut parameters = draw.with_hidden(&line.neurons(WIDTH));
    let omega = draw.omega();
    let range = draw.output();
    let mut wanted = vec![0.0; draw.dataset.len() * omega];
    for (i, row) in wanted.chunks_exact_mut(omega).enumerate() {
        draw.targets.of(i).iter().for_each(|&(t, y)| row[t as usize] = y);
    }
    add_ramps(&line, &wanted, omega, &mut parameters[range.clone()]);
    let mut error = draw.error(&parameters);
    // One refinement: the ramps of the remaining error.
    let logits =
        Evaluator::<f64, _>::forward(draw.config, draw.dataset).rows(ProbePoint::Logits, &parameters);
    wanted.iter_mut().zip(&logits).for_each(|(w, l)| *w -= l);
    let mut refined = parameters.clone();
    add_ramps(&line, &wanted, omega, &mut refined[range]);
    let after = draw.error(&refined);
    if after < error {
        (parameters, error) = (refined, after);
    }
    Ok(Attempt {
        solver: Solver::Ramps,
        parameters,
        error,
        gain: None,
        relative_gap: Some(line.least.0),
        condition: None,
    })
}

/// Adds the output weights that give `wanted`, `[contexts, omega]`.
fn add_ramps(line: &Line, wanted: &[f64], omega: usize, output: &mut [f64]) {
    for token in 0..omega {
        // The value where the next ramp starts, and the slope before it.
        let (mut value, mut slope) = (0.0, 0.0);
        for (k, &(x, context)) in line.order.iter().enumerate() {
            let (start, steepness) = match k {
                0 => (x - line.range, WIDTH / line.range),
                _ => {
                    let gap = x - line.order[k - 1].0;
                    (line.order[k - 1].0 + 0.5 * gap, WIDTH / gap)
                }
            };
            let y = wanted[context * omega + token];
            let next = (y - value) / (x - start);
            output[k * omega + token] += (next - slope) / steepness;
            slope = next;
            if let Some(&(after, _)) = line.order.get(k + 1) {
                value = y + slope * 0.5 * (after - x);
            }
        }
    }
}
