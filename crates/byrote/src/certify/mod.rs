//! Proofs that a model memorizes a corpus.
//!
//! The weights in a file are exact numbers, and so are the logits that they give for every context. [`certify`] encloses each
//! logit in an interval that is proven to contain it:
//!
//! - [`mixer_enclosure`]: interval arithmetic with outward rounding ([`interval`]), one context at a time;
//! - [`activation_enclosure`]: activations and exponentials from Taylor tables, which are computed with 256 bits and have a
//!   proven error in every cell;
//! - [`layer`]: linear maps as compensated dot products (twice the working precision) with a bound on the remaining error.
//!   The n x m matrix of features is never stored: contexts are processed in blocks of 16.
//!
//! A model of blocks is enclosed with more digits, because radii grow from block to block ([`blocks`]).
//!
//! [`verdict`] draws the conclusions. A context is certified if the largest logit of its top set (its most frequent next tokens)
//! is proven to be strictly above all other logits. The certificate also has a lower bound on the margin and an upper bound on the
//! gap to the floor. [`injective`] proves that the mixer maps different contexts to different vectors.
//!
//! All this is about real arithmetic on the stored weights. What a program computes differs by rounding errors, which
//! [`floating`] bounds for evaluation in f64 and in f32 in any order of summation. [`Certificate::floating_point`] is the verdict
//! on computed logits, which is not available for models of blocks. docs/derivations/certificates.md has the derivation.
//!
//! ```
//! use byrote::certify::{Verdict, certify};
//! use byrote::construct::madden2024::{Settings, build};
//! use byrote::corpus::{Corpus, Options, Outputs, Source};
//! use byrote::dataset::Dataset;
//! use byrote::observe::Silent;
//!
//! // Ten short stories, memorized by a transformer whose weights are computed in closed form.
//! let source = Source::Stories { documents: 10, seed: 0 };
//! let outputs = Outputs::default().contexts(true);
//! let corpus = Corpus::read(&source, &Options::default(), outputs, &Silent)?;
//! let dataset = Dataset::from_corpus(&corpus)?;
//! let (model, _) = build(&dataset, &Settings::default(), &Silent)?;
//!
//! let proof = certify(&model, &dataset, &Silent)?;
//! assert_eq!(proof.verdict, Verdict::Certified);
//! assert_eq!(proof.floating_point.verdict, Verdict::Certified);
//! println!("every margin is at least {:.4}", proof.min_margin_lower_bound);
//! println!("computed in f64, at least {:.4}", proof.floating_point.min_margin_lower_bound);
//! # Ok::<(), byrote::Error>(())
//! ```
//!
//! [`rank`] is independent of the rest: it certifies the rank and Kruskal rank of the hidden features psi(a b^T).

pub mod activation_enclosure;
pub mod blocks;
pub mod floating;
pub mod injective;
pub mod interval;
pub mod layer;
pub mod mixer_enclosure;
pub mod rank;
pub mod verdict;

pub use injective::Injectivity;
pub use verdict::{Certificate, FloatingPoint, UncertifiedContext, Verdict};

use crate::Result;
use crate::dataset::Dataset;
use crate::model::{Hidden, Model};
use crate::observe::{Counter, Observer, Stage};
use activation_enclosure::EnclosedActivation;
use blocks::DeepEnclosures;
use layer::{BLOCK, Block, Entry, LinearLayer};
use mixer_enclosure::Enclosures;
use rayon::prelude::*;
use verdict::{Finding, judge};

/// Hidden neurons that are processed at a time, so that their features stay in the cache.
const NEURONS: usize = 1024;

/// Encloses every logit of the model on the dataset and returns what is proven.
pub fn certify(model: &Model, dataset: &Dataset, observer: &dyn Observer) -> Result<Certificate> {
    let config = model.config();
    dataset.fits(config)?;
    if let Some(blocks) = &config.shape.blocks {
        let DeepEnclosures { stream, logits } = DeepEnclosures::new(model, blocks, dataset, observer)?;
        let findings: Vec<Finding> =
            logits.iter().enumerate().map(|(i, row)| judge(dataset, i, row.iter().copied())).collect();
        let read = Enclosures::of_entries(config.shape.d_model as usize, stream);
        return Ok(Certificate::of_blocks(dataset, &findings, Injectivity::of(&read)));
    }
    let network = Network::new(model);
    let mixed = Enclosures::new(model, dataset, observer)?;
    let blocks: Vec<usize> = (0..dataset.len()).step_by(BLOCK).collect();
    let counter = Counter::new(observer, Stage::Certifying, Some(dataset.len() as u64));
    let findings: Vec<Vec<Finding>> = blocks
        .par_iter()
        .map(|&first| {
            let contexts = first..(first + BLOCK).min(dataset.len());
            let logits = network.logits(&mixed.block(contexts.clone()));
            counter.add(contexts.len() as u64)?;
            Ok(contexts.map(|i| judge(dataset, i, logits.row(i - first))).collect())
        })
        .collect::<Result<_>>()?;
    let findings = findings.concat();
    let injectivity = Injectivity::of(&mixed);
    Ok(Certificate::new(dataset, &findings, injectivity))
}

/// Everything after the mixer.
struct Network {
    hidden: Option<(LinearLayer, EnclosedActivation)>,
    /// The layer back to the residual stream.
    residual: Option<LinearLayer>,
    /// Whether the stream is added to the output of that layer.
    skip: bool,
    output: LinearLayer,
}

impl Network {
    fn new(model: &Model) -> Self {
        let config = model.config();
        let shape = &config.shape;
        let (d, m, omega) = (shape.d_model as usize, shape.d_mlp as usize, shape.d_vocab as usize);
        let layer = |weight: &str, bias: &str, depth: usize, columns: usize, chunk: usize| {
            LinearLayer::new(
                model.tensor(weight).unwrap_or_default(),
                model.tensor(bias),
                depth,
                columns,
                chunk,
            )
        };
        let (hidden, residual) = match config.hidden {
            Hidden::Absent => (false, false),
            Hidden::Output => (true, false),
            Hidden::Residual => (true, true),
        };
        let read = if hidden && !residual { m } else { d };
        Self {
            hidden: hidden
                .then(|| (layer("W_in", "b_in", d, m, d.max(1)), EnclosedActivation::of(shape.activation))),
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
        // Either straight to the output or back to the stream.
        let next = self.residual.as_ref().unwrap_or(&self.output);
        let mut sums = next.start();
        let mut features = Block::zeros(NEURONS.min(input.columns()));
        for first in (0..input.columns()).step_by(NEURONS) {
            let neurons = first..(first + NEURONS).min(input.columns());
            input.apply_to(mixed, neurons.clone(), &mut features);
            features.map(neurons.len(), |z| {
                let (centre, radius) = function.enclose(z.centre, z.radius);
                Entry { centre, radius, errors: function.errors(z.centre, z.radius, z.errors) }
            });
            next.add(&features, first / NEURONS, &mut sums);
        }
        let mut out = next.finish(sums);
        if let Some(residual) = &self.residual {
            if self.skip {
                out.add_skip(mixed, residual.gammas());
            }
            out = self.output.apply(&out);
        }
        out
    }
}

#[cfg(test)]
mod tests;
