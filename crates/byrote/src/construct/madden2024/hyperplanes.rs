//! Random hyperplanes halfway between two contexts, and one linear system: for functions that do not saturate.
//!
//! With the mixer's coordinates standardised over the contexts,
//!
//! ```text
//! w_k = gain (random unit vector)        b_k = -w_k . (h_i + h_j) / 2
//! ```
//!
//! where i runs through a random order of the contexts and j is another one: every neuron separates two contexts. (A
//! hyperplane through a context leaves zero rows for ReLU; equal or random biases give condition numbers of 1e12 and
//! more.) The standardisation is folded into W_in and b_in before the public forward pass computes the features Phi.
//! Then Phi V = Y is solved, with columns scaled by powers of two:
//!
//! - m = n: LU with partial pivoting and one refinement;
//! - m > n: V <- V + Phi^T G^-1 (Y - Phi V) with G = Phi Phi^T + rho (tr G / n) I, rho = 1e-14, factored once.
//!
//! Gains 8, 32, 128 and 512 are tried in order.

use super::{Attempt, Draw, KEY, Settings, Solver};
use crate::dataset::Dataset;
use crate::error::Refusal;
use crate::model::Config;
use crate::num::Stream;
use crate::num::linear::{Lu, Mat, MatRef, factor, from_rows, product, subtract_product};
use crate::observe::Observer;
use crate::train::{Evaluator, ProbePoint};
use crate::{Error, Result};

const GAINS: [f64; 4] = [8.0, 32.0, 128.0, 512.0];
const RIDGE: f64 = 1e-14;
/// The numbers of refinements of a square and of a wide system.
const REFINEMENTS: (usize, usize) = (1, 30);

/// Refuses systems that do not fit in memory.
pub(super) fn check_memory(config: &Config, dataset: &Dataset, settings: &Settings) -> Result<()> {
    let n = dataset.len() as u64;
    let (m, omega) = (config.shape.d_mlp, config.shape.d_vocab);
    // Features, factors, their copy while the features are collected; targets, outputs, residuals, parameters.
    let needed = 8 * (2 * n * m + n * n + 4 * m * omega);
    if needed > settings.max_memory {
        let advice = "an activation that saturates (tanh, logistic, erf) needs no such matrix";
        let refusal = Refusal::Memory { needed, available: settings.max_memory, advice };
        return Err(Error::Refused { builder: KEY, refusal });
    }
    Ok(())
}

pub(super) fn solve(draw: &Draw<'_>, tolerance: f64) -> Result<Attempt> {
    let mut best: Option<Attempt> = None;
    for gain in GAINS {
        let attempt = attempt(draw, Solver::Pairs, gain, neurons(draw, gain))?;
        let better = best.as_ref().is_none_or(|b| b.error.is_nan() || attempt.error < b.error);
        if better {
            best = Some(attempt);
        }
        if best.as_ref().is_some_and(|b| b.error <= tolerance) {
            break;
        }
    }
    best.ok_or_else(|| Error::setting("gain", "none"))
}

/// The hidden layer for one gain.
pub(super) fn neurons(draw: &Draw<'_>, gain: f64) -> Vec<(Vec<f64>, f64)> {
    let (n, d) = (draw.dataset.len(), draw.d());
    let moments = draw.moments();
    let mut stream = Stream::new(draw.seed, "pairs", gain as u64);
    let mut order: Vec<usize> = (0..n).collect();
    (0..draw.neurons())
        .map(|k| {
            if k % n == 0 {
                for i in (1..n).rev() {
                    order.swap(i, stream.below(i as u64 + 1) as usize);
                }
            }
            let i = order[k % n];
            let other = if n > 1 { (i + 1 + stream.below(n as u64 - 1) as usize) % n } else { i };
            let drawn: Vec<f64> = (0..d).map(|_| stream.normal()).collect();
            let length = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
            // If w is the weight of the standardised coordinates, that of the raw ones is w / spread.
            let w: Vec<f64> =
                drawn.iter().zip(&moments).map(|(x, (_, spread))| gain * x / (length * spread)).collect();
            let (a, b) = (draw.mixed(i), draw.mixed(other));
            let middle = w.iter().zip(a.iter().zip(b)).map(|(w, (a, b))| w * 0.5 * (a + b)).sum::<f64>();
            // A single context would lie on its own hyperplane.
            (w, if n > 1 { -middle } else { gain - middle })
        })
        .collect()
}

/// Phi V = Y, its columns scaled.
pub struct System {
    /// The scaled features of the contexts, row by row.
    pub features: Vec<f64>,
    /// Target logits.
    pub wanted: Mat<f64>,
    /// The factors of the rows of V at the end.
    scales: Vec<f64>,
}

impl System {
    /// The first system that [`super::build`] solves for these settings, for benchmarks.
    #[cfg(feature = "bench-internals")]
    pub fn first(dataset: &Dataset, settings: &Settings) -> Result<Self> {
        let config = super::config(dataset, settings)?;
        let targets = super::Targets::new(dataset, settings.gap)?;
        let draw = Draw::new(config, dataset, &targets, settings.seed, &crate::observe::Silent)?;
        Ok(Self::of(&draw, &draw.with_hidden(&neurons(&draw, GAINS[0]))))
    }

    /// The system of a hidden layer, which is among the parameters.
    fn of(draw: &Draw<'_>, parameters: &[f64]) -> Self {
        let mut features =
            Evaluator::<f64, _>::forward(draw.config, draw.dataset).rows(ProbePoint::Read, parameters);
        let scales = scale_columns(&mut features, draw.neurons());
        let mut wanted = Mat::zeros(draw.dataset.len(), draw.omega());
        for i in 0..draw.dataset.len() {
            draw.targets.of(i).iter().for_each(|&(t, y)| wanted[(i, t as usize)] = y);
        }
        Self { features, wanted, scales }
    }

    /// The number of contexts.
    #[cfg(feature = "bench-internals")]
    pub fn rows(&self) -> usize {
        self.wanted.nrows()
    }

    /// The number of neurons.
    pub fn columns(&self) -> usize {
        self.scales.len()
    }

    /// Returns V, solved with at most this many refinements, and the factors of a square system.
    pub fn solve(&self, refinements: usize, observer: &dyn Observer) -> Result<(Mat<f64>, Option<Lu>)> {
        let features = from_rows(&self.features, self.columns());
        let (n, m) = (features.nrows(), features.ncols());
        if n == m {
            let lu = factor(features.to_owned(), observer)?;
            let v = refine(features, &self.wanted, refinements, observer, |residual| {
                lu.solve(residual);
                None
            })?;
            return Ok((v, Some(lu)));
        }
        let mut gram = product(features, features.transpose());
        let ridge = RIDGE * (0..n).map(|i| gram[(i, i)]).sum::<f64>() / n as f64;
        (0..n).for_each(|i| gram[(i, i)] += ridge);
        // Symmetric and positive definite: LU with pivoting is as stable, and needs no second path for a negative
        // pivot.
        let lu = factor(gram, observer)?;
        let v = refine(features, &self.wanted, refinements, observer, |residual| {
            lu.solve(residual);
            Some(product(features.transpose(), residual.as_ref()))
        })?;
        Ok((v, None))
    }
}

/// The output for a hidden layer.
pub(super) fn attempt(
    draw: &Draw<'_>,
    solver: Solver,
    gain: f64,
    neurons: Vec<(Vec<f64>, f64)>,
) -> Result<Attempt> {
    let (n, m, omega) = (draw.dataset.len(), draw.neurons(), draw.omega());
    let mut parameters = draw.with_hidden(&neurons);
    let system = System::of(draw, &parameters);
    let refinements = if n == m { REFINEMENTS.0 } else { REFINEMENTS.1 };
    let (v, lu) = system.solve(refinements, draw.observer)?;
    let condition = lu.map(|lu| lu.condition());
    let scales = system.scales;
    drop((system.features, system.wanted));
    for (row, (k, scale)) in parameters[draw.output()].chunks_exact_mut(omega).zip(scales.iter().enumerate())
    {
        row.iter_mut().enumerate().for_each(|(token, x)| *x = v[(k, token)] * scale);
    }
    let finite = parameters.iter().all(|x| x.is_finite());
    Ok(Attempt {
        solver,
        error: if finite { draw.error(&parameters) } else { f64::NAN },
        parameters,
        gain: Some(gain),
        relative_gap: None,
        condition,
    })
}

/// Divides each column by a power of two near its largest entry; returns the factors for the rows of V.
fn scale_columns(features: &mut [f64], columns: usize) -> Vec<f64> {
    let mut largest = vec![0f64; columns];
    for row in features.chunks_exact(columns) {
        largest.iter_mut().zip(row).for_each(|(l, x)| *l = l.max(x.abs()));
    }
    let scales: Vec<f64> = largest
        .iter()
        .map(|&l| if l > 0.0 && l.is_finite() { (-l.log2().floor()).exp2() } else { 1.0 })
        .collect();
    for row in features.chunks_exact_mut(columns) {
        row.iter_mut().zip(&scales).for_each(|(x, s)| *x *= s);
    }
    scales
}

fn largest(a: &Mat<f64>) -> f64 {
    let columns = (0..a.ncols())
        .map(|j| a.col(j).iter().fold(0f64, |m, x| if x.is_nan() { *x } else { m.max(x.abs()) }));
    columns.fold(0.0, |m, x| if x.is_nan() || m.is_nan() { f64::NAN } else { m.max(x) })
}

/// Solves, then solves for the residual, `most` times or until it stops decreasing. `solve` replaces the residual by
/// its solution, or returns the solution if it has another shape.
fn refine(
    features: MatRef<'_, f64>,
    wanted: &Mat<f64>,
    most: usize,
    observer: &dyn Observer,
    solve: impl Fn(&mut Mat<f64>) -> Option<Mat<f64>>,
) -> Result<Mat<f64>> {
    let mut residual = wanted.clone();
    let first = solve(&mut residual);
    let mut v = first.unwrap_or(residual);
    let mut error = f64::INFINITY;
    for _ in 0..most {
        observer.check()?;
        let mut left = wanted.clone();
        subtract_product(&mut left, features, v.as_ref());
        let now = largest(&left);
        // Below rounding there is nothing to gain.
        if now.is_nan() || now > 0.5 * error {
            break;
        }
        error = now;
        let step = solve(&mut left);
        v += step.as_ref().unwrap_or(&left);
    }
    Ok(v)
}
