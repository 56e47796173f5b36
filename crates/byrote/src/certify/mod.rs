//! What a model does, proven: a theorem about the stored numbers, not about how they were rounded on the way.
//!
//! The weights in a file are exact numbers, and with them the logits of every context. [`certify`] encloses each logit in an
//! interval that holds it for certain, whatever the rounding:
//!
//! - [`mixer`]: intervals with outward rounding ([`interval`]), a context at a time;
//! - [`function`]: activations and exponentials by Taylor tables whose error is bounded cell by cell, made from numbers of
//!   256 bits;
//! - [`layer`]: linear maps as compensated dot products (twice the working precision), with the radii carried along and an
//!   a-posteriori bound of what is left. The n x m matrix of features is never held: blocks of 16 contexts go through.
//!
//! From the enclosures follow ([`verdict`]), for every context, whether the largest logit of its top set is strictly above
//! all others, with a lower bound on the margin, and an upper bound on the gap to the floor. [`injective`] proves that the
//! mixer tells the contexts apart.
//!
//! Apart from that stands [`rank`]: rank and Kruskal rank of the hidden features psi(a b^T).

pub mod function;
pub mod injective;
pub mod interval;
pub mod layer;
pub mod mixer;
pub mod rank;
pub mod verdict;

pub use injective::Injectivity;
pub use verdict::{Certificate, Doubt, Verdict};

use crate::Result;
use crate::model::{Hidden, Model};
use crate::observe::{Counter, Observer, Stage};
use crate::train::Problem;
use function::Function;
use layer::{BLOCK, Block, Layer};
use mixer::Enclosures;
use rayon::prelude::*;
use verdict::{Finding, judge};

/// Hidden neurons that are worked off at a time: their features stay in the cache.
const NEURONS: usize = 1024;

/// Encloses every logit of the model on the problem and says what is proven.
pub fn certify(model: &Model, problem: &Problem, observer: &dyn Observer) -> Result<Certificate> {
    let config = model.config();
    problem.fits(config)?;
    let network = Network::new(model);
    let mixed = Enclosures::new(model, problem);
    let blocks: Vec<usize> = (0..problem.len()).step_by(BLOCK).collect();
    let counter = Counter::new(observer, Stage::Certifying, Some(problem.len() as u64));
    let findings: Vec<Vec<Finding>> = blocks
        .par_iter()
        .map(|&first| {
            let contexts = first..(first + BLOCK).min(problem.len());
            let logits = network.logits(&mixed.block(contexts.clone()));
            counter.add(contexts.len() as u64)?;
            Ok(contexts.map(|i| judge(problem, i, logits.row(i - first))).collect())
        })
        .collect::<Result<_>>()?;
    let findings = findings.concat();
    let injectivity = Injectivity::of(&mixed);
    Ok(Certificate::new(problem, &findings, injectivity))
}

/// Everything after the mixer.
struct Network {
    hidden: Option<(Layer, Function)>,
    /// Back to the stream.
    residual: Option<Layer>,
    /// The stream is added to what comes back.
    skip: bool,
    output: Layer,
}

impl Network {
    fn new(model: &Model) -> Self {
        let config = model.config();
        let shape = &config.shape;
        let (d, m, omega) = (shape.d_model as usize, shape.d_mlp as usize, shape.d_vocab as usize);
        let layer = |weight: &str, bias: &str, depth: usize, columns: usize, chunk: usize| {
            Layer::new(model.tensor(weight).unwrap_or_default(), model.tensor(bias), depth, columns, chunk)
        };
        let (hidden, residual) = match config.hidden {
            Hidden::Absent => (false, false),
            Hidden::Output => (true, false),
            Hidden::Residual => (true, true),
        };
        let read = if hidden && !residual { m } else { d };
        Self {
            hidden: hidden.then(|| (layer("W_in", "b_in", d, m, d.max(1)), Function::of(shape.activation))),
            residual: residual.then(|| layer("W_out", "b_out", m, d, NEURONS)),
            skip: config.skip,
            output: layer("W_U", "b_U", read, omega, if residual { d } else { NEURONS }),
        }
    }

    /// Enclosures of the logits from those of the mixer.
    fn logits(&self, mixed: &Block) -> Block {
        let Some((input, function)) = &self.hidden else {
            return self.output.apply(mixed);
        };
        // Straight to the output, or back to the stream.
        let next = self.residual.as_ref().unwrap_or(&self.output);
        let mut sums = next.start();
        let mut features = Block::zeros(NEURONS.min(input.columns()));
        for first in (0..input.columns()).step_by(NEURONS) {
            let neurons = first..(first + NEURONS).min(input.columns());
            input.apply_to(mixed, neurons.clone(), &mut features);
            features.map(neurons.len(), |z, radius| function.enclose(z, radius));
            next.add(&features, first / NEURONS, &mut sums);
        }
        let mut out = next.finish(sums);
        if self.residual.is_some() {
            if self.skip {
                out.add(mixed);
            }
            out = self.output.apply(&out);
        }
        out
    }
}

#[cfg(test)]
mod tests;
