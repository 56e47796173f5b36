//! What a model would lose in f32.
//!
//! A model trained in f32 loses nothing. A model built in closed form has slopes of many thousands and biases that cancel them,
//! or output weights that cancel each other, so rounding its weights to 24 bits can change its predictions. The loss is measured
//! by running the reference forward pass with the weights as they are and with the rounded weights on random contexts of all
//! lengths. It is an estimate; [`crate::certify`] proves bounds for a given corpus.

use crate::model::Model;
use crate::num::Stream;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

/// The number of random contexts on which the loss is measured.
pub const CONTEXTS: u64 = 256;

/// The largest change of a logit, relative to the largest logit or 1, with which a model may be written in f32.
pub const TOLERANCE: f64 = 1e-5;

/// The effect of rounding the weights to f32 on the logits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RoundingError {
    /// The largest change of a logit that was measured.
    pub max_logit_error: f64,
    /// The largest logit, in absolute value.
    pub max_logit: f64,
    /// The number of random contexts on which this was measured.
    pub contexts: u64,
}

impl RoundingError {
    /// The change relative to the largest logit, or to 1 if all logits are smaller.
    pub fn relative(&self) -> f64 {
        self.max_logit_error / self.max_logit.max(1.0)
    }

    /// Returns an error unless the relative change is within [`TOLERANCE`].
    pub fn checked(self) -> Result<()> {
        // Written so that NaN is refused.
        if self.relative() <= TOLERANCE {
            return Ok(());
        }
        let message = format!(
            "f32 cannot represent this model: rounding its weights to f32 changes a logit by {:.1e} on {} random \
             contexts, where the largest logit is {:.1e}; write it in f64, as it is stored",
            self.max_logit_error, self.contexts, self.max_logit
        );
        Err(Error::setting("precision", message))
    }
}

/// Measures how rounding the weights of a model to f32 changes its logits. Weights beyond the range of f32 give an infinite
/// change.
pub fn rounding_error(model: &Model) -> RoundingError {
    let Some(rounded) = model.rounded_to_f32() else {
        return RoundingError { max_logit_error: f64::INFINITY, max_logit: f64::INFINITY, contexts: 0 };
    };
    let shape = &model.config().shape;
    let found: Vec<(f64, f64)> = (0..CONTEXTS)
        .into_par_iter()
        .map(|i| {
            let mut stream = Stream::new(0, "rounding", i);
            // Every length in turn.
            let length = 1 + i % shape.n_ctx;
            let context: Vec<u32> = (0..length).map(|_| stream.below(shape.d_vocab) as u32).collect();
            let (exact, lossy) = (model.forward(&context), rounded.forward(&context));
            exact.iter().zip(&lossy).fold((0.0, 0.0), |(error, size), (a, b)| {
                (larger(error, (a - b).abs()), larger(size, a.abs()))
            })
        })
        .collect();
    let (max_logit_error, max_logit) =
        found.into_iter().fold((0.0, 0.0), |(e, s), (error, size)| (larger(e, error), larger(s, size)));
    RoundingError { max_logit_error, max_logit, contexts: CONTEXTS }
}

/// The larger of two numbers, or NaN if one is NaN.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Activation, Preset, Shape};

    fn shape() -> Shape {
        Shape {
            d_vocab: 7,
            n_ctx: 4,
            d_model: 8,
            d_mlp: 20,
            activation: Activation::Tanh,
            ..Shape::default()
        }
    }

    #[test]
    fn an_ordinary_model_loses_little() {
        let found = rounding_error(&Model::random(Preset::Madden2024.config(shape()), 1).unwrap());
        assert!(found.max_logit_error > 0.0 && found.relative() < 1e-6, "{found:?}");
        found.checked().unwrap();
    }

    #[test]
    fn weights_that_are_f32_already_lose_nothing() {
        let model = Model::random(Preset::Dana2024.config(shape()), 1).unwrap();
        let parameters = model.parameters().iter().map(|&x| f64::from(x as f32)).collect();
        let model = Model::new(*model.config(), parameters).unwrap();
        assert_eq!(rounding_error(&model).max_logit_error, 0.0);
    }

    #[test]
    fn weights_that_cancel_are_refused_with_their_error() {
        let model = Model::random(Preset::Madden2024.config(shape()), 1).unwrap();
        let mut parameters = model.parameters().to_vec();
        let place = |name| model.tensors().iter().find(|t| t.name == name).unwrap().range.clone();
        // Neurons in equal pairs, with output weights 1e8 x and x - 1e8 x.
        for neurons in [place("W_in"), place("b_in")] {
            parameters[neurons].as_chunks_mut::<2>().0.iter_mut().for_each(|[a, b]| *b = *a);
        }
        for pair in parameters[place("W_U")].chunks_mut(14) {
            let (plus, minus) = pair.split_at_mut(7);
            for (a, b) in plus.iter_mut().zip(minus) {
                (*a, *b) = (1e8 * *a, *a - 1e8 * *a);
            }
        }
        let found = rounding_error(&Model::new(*model.config(), parameters).unwrap());
        let refusal = found.checked().unwrap_err().to_string();
        assert!(refusal.contains("f32 cannot represent") && refusal.contains("random contexts"), "{refusal}");
        let mut parameters = model.parameters().to_vec();
        parameters[0] = 1e200;
        let found = rounding_error(&Model::new(*model.config(), parameters).unwrap());
        assert!(found.checked().is_err(), "{found:?}");
    }
}
