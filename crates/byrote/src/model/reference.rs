//! The slow f64 forward pass, the reference for every faster one.
//!
//! It processes one context at a time with plain loops, following the formulas in [`super::config`] (of blocks: in [`super::blocks`]).

use super::blocks::Norm;
use super::config::Hidden;
use super::shape::Mixer;
use super::weights::Model;
use crate::{Error, Result};

/// `v M`, plus `bias`: a row times a row-major matrix of `columns` columns.
pub(super) fn affine(v: &[f64], matrix: &[f64], columns: usize, bias: Option<&[f64]>) -> Vec<f64> {
    let mut out = bias.map_or_else(|| vec![0.0; columns], <[f64]>::to_vec);
    for (x, row) in v.iter().zip(matrix.chunks_exact(columns)) {
        for (o, w) in out.iter_mut().zip(row) {
            *o += x * w;
        }
    }
    out
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(super) fn add(a: &mut [f64], b: &[f64]) {
    a.iter_mut().zip(b).for_each(|(x, y)| *x += y);
}

impl Model {
    /// Returns the logits of the next token after a context.
    ///
    /// # Errors
    /// If the context is empty, is longer than `n_ctx`, or has a token outside the vocabulary; if a logit is not finite.
    pub fn logits(&self, context: &[u32]) -> Result<Vec<f64>> {
        let (n_ctx, d_vocab) = (self.config().shape.n_ctx, self.config().shape.d_vocab);
        let length = context.len() as u64;
        if length == 0 || length > n_ctx {
            let message = format!("must have from 1 to {n_ctx} tokens for this model (got {length})");
            return Err(Error::setting("context", message));
        }
        if let Some(token) = context.iter().find(|&&t| u64::from(t) >= d_vocab) {
            let message = format!("has the token {token}, but the model's vocabulary has {d_vocab} tokens");
            return Err(Error::setting("context", message));
        }
        let logits = self.forward(context);
        if logits.iter().all(|logit| logit.is_finite()) {
            return Ok(logits);
        }
        let by_zero = self.config().shape.blocks.is_some_and(|b| b.norm != Norm::None && b.norm_eps == 0.0);
        let or = if by_zero { ", or a normalization without eps divides by 0" } else { "" };
        Err(Error::setting(
            "model",
            format!("the logits are not finite because the weights are too large{or}"),
        ))
    }

    /// Like [`logits`](Self::logits), for a context that the model can read.
    pub(crate) fn forward(&self, context: &[u32]) -> Vec<f64> {
        if let Some(blocks) = &self.config().shape.blocks {
            return self.forward_blocks(blocks, context).pop().unwrap_or_default();
        }
        let shape = &self.config().shape;
        let (d, d_vocab, d_mlp) = (shape.d_model as usize, shape.d_vocab as usize, shape.d_mlp as usize);
        let x = self.embedded(context);
        let last = &x[x.len() - d..];
        let mut a = match shape.mixer {
            Mixer::Attention => {
                let out = self.attention(&self.read_by_attention(&x));
                self.tensor("W_up").map_or(out.clone(), |up| affine(&out, up, d, None))
            }
            Mixer::Average => {
                let mut sum = vec![0.0; d];
                for (u, x) in self.tensor("u_pos").unwrap_or_default().iter().zip(x.chunks_exact(d)) {
                    sum.iter_mut().zip(x).for_each(|(s, x)| *s += u * x);
                }
                sum
            }
            // Only in blocks.
            Mixer::None => vec![0.0; d],
        };
        if self.config().skip {
            add(&mut a, last);
        }
        let tensor = |name| self.tensor(name).unwrap_or_default();
        let hidden = |a: &[f64]| {
            let mut u = affine(a, tensor("W_in"), d_mlp, self.tensor("b_in"));
            u.iter_mut().for_each(|u| *u = shape.activation.value(*u));
            u
        };
        let y = match self.config().hidden {
            Hidden::Absent => a,
            Hidden::Output => hidden(&a),
            Hidden::Residual => {
                let mut y = affine(&hidden(&a), tensor("W_out"), d, self.tensor("b_out"));
                if self.config().skip {
                    add(&mut y, &a);
                }
                y
            }
        };
        affine(&y, tensor("W_U"), d_vocab, self.tensor("b_U"))
    }

    /// Token embeddings, plus positions if those are added here, `[length, d_model]`.
    fn embedded(&self, context: &[u32]) -> Vec<f64> {
        let d = self.config().shape.d_model as usize;
        let table = self.tensor("W_E").unwrap_or_default();
        let mut x: Vec<f64> =
            context.iter().flat_map(|&t| &table[t as usize * d..(t as usize + 1) * d]).copied().collect();
        if let Some(positions) = self.positions().filter(|_| !self.config().positions_in_attention) {
            add(&mut x, positions);
        }
        x
    }

    /// What attention reads, `[length, attention_width]`.
    fn read_by_attention(&self, x: &[f64]) -> Vec<f64> {
        let (d, width) = (self.config().shape.d_model as usize, self.config().attention_width() as usize);
        let mut read = match self.tensor("W_down") {
            Some(down) => x.chunks_exact(d).flat_map(|x| affine(x, down, width, None)).collect(),
            None => x.to_vec(),
        };
        if let Some(positions) = self.positions().filter(|_| self.config().positions_in_attention) {
            add(&mut read, positions);
        }
        read
    }

    /// The combined output of the heads for a context, `[attention_width]`, at its last token.
    fn attention(&self, x: &[f64]) -> Vec<f64> {
        let shape = &self.config().shape;
        let (d, d_head) = (self.config().attention_width() as usize, shape.d_head as usize);
        let mut out = self.tensor("b_O").map_or_else(|| vec![0.0; d], <[f64]>::to_vec);
        for head in 0..shape.n_heads as usize {
            let project = |weight: &str, bias: &str, x: &[f64]| {
                let size = d * d_head;
                let matrix = &self.tensor(weight).unwrap_or_default()[head * size..(head + 1) * size];
                let bias = self.tensor(bias).map(|b| &b[head * d_head..(head + 1) * d_head]);
                affine(x, matrix, d_head, bias)
            };
            let query = project("W_Q", "b_Q", &x[x.len() - d..]);
            let factor = self.config().score_factor();
            let scores: Vec<f64> =
                x.chunks_exact(d).map(|x| factor * dot(&query, &project("W_K", "b_K", x))).collect();
            let mut mixed = vec![0.0; d_head];
            for (weight, x) in softmax(&scores).iter().zip(x.chunks_exact(d)) {
                let value = project("W_V", "b_V", x);
                mixed.iter_mut().zip(&value).for_each(|(m, v)| *m += weight * v);
            }
            let size = d_head * d;
            let output = &self.tensor("W_O").unwrap_or_default()[head * size..(head + 1) * size];
            add(&mut out, &affine(&mixed, output, d, None));
        }
        out
    }
}

/// The logarithm of the sum of the exponentials.
pub fn log_sum_exp(logits: &[f64]) -> f64 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + logits.iter().map(|l| (l - largest).exp()).sum::<f64>().ln()
}

/// The probabilities that belong to the logits.
pub fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.into_iter().map(|e| e / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Activation, Config, Positions, Preset, Shape};

    fn shape() -> Shape {
        Shape { d_vocab: 2, n_ctx: 2, d_model: 1, n_heads: 1, d_head: 1, d_mlp: 1, ..Shape::default() }
    }

    #[test]
    fn attention_weighs_as_worked_by_hand() {
        // d = 1, z = (1, 2), u = (.5, -.5), context (2, 1): x = (2.5, .5), scores against x_last = .5 are 1.25 and
        // .25, so the result is (2.5 e^1.25 + .5 e^.25) / (e^1.25 + e^.25) = 1.9621171572600096.
        let config = Config {
            hidden: Hidden::Absent,
            shape: Shape { d_mlp: 0, ..shape() },
            ..Preset::Madden2024.config(shape())
        };
        // W_E, W_pos, W_Q, W_K, W_V, W_O, W_U
        let parameters = vec![1.0, 2.0, 0.5, -0.5, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0];
        let model = Model::new(config, parameters).unwrap();
        let logits = model.logits(&[1, 0]).unwrap();
        assert!((logits[0] - 1.962_117_157_260_009_6).abs() < 1e-15, "{logits:?}");
        assert_eq!(logits[1], -logits[0]);
    }

    #[test]
    fn switches_do_what_they_say() {
        let tanh = Shape { activation: Activation::Tanh, ..shape() };
        let config = Config { positions: Positions::None, ..Preset::Madden2024.config(tanh) };
        // One token alone is attended to fully: a = x W_V W_O. W_E, W_Q, W_K, W_V, W_O, W_in, b_in, W_U.
        let parameters = vec![3.0, 5.0, 1.0, 1.0, 0.5, 2.0, 0.1, 0.2, 1.0, 4.0];
        let plain = Model::new(config, parameters.clone()).unwrap().logits(&[0]).unwrap();
        let hidden = (0.1f64 * 3.0 + 0.2).tanh();
        assert_eq!(plain, [hidden, 4.0 * hidden]);
        let skipped = Model::new(Config { skip: true, ..config }, parameters).unwrap().logits(&[0]).unwrap();
        let hidden = (0.1f64 * 6.0 + 0.2).tanh();
        assert_eq!(skipped, [hidden, 4.0 * hidden]);
        // Averaging: u = (0.5, -1), context (0, 1): a = 0.5 * 3 - 5. W_E, u_pos, W_in, b_in, W_U.
        let average = Preset::Average.config(tanh);
        let parameters = vec![3.0, 5.0, 0.5, -1.0, 0.1, 0.2, 1.0, 4.0];
        let averaged = Model::new(average, parameters).unwrap().logits(&[0, 1]).unwrap();
        assert_eq!(averaged[0], (0.1f64 * (0.5 * 3.0 - 5.0) + 0.2).tanh());
    }

    #[test]
    fn softmax_and_log_sum_exp_survive_large_logits() {
        assert_eq!(softmax(&[1000.0, 1000.0]), [0.5, 0.5]);
        assert!((log_sum_exp(&[1000.0, 1000.0]) - 1000.0 - 2f64.ln()).abs() < 1e-12);
        assert_eq!(softmax(&[0.0, f64::NEG_INFINITY]), [1.0, 0.0]);
    }

    #[test]
    fn a_context_that_the_model_cannot_read_is_refused() {
        let config = Preset::Madden2024.config(Shape { d_vocab: 3, n_ctx: 2, d_mlp: 2, ..Shape::default() });
        let model = Model::random(config, 0).unwrap();
        assert_eq!(model.logits(&[2, 0]).unwrap().len(), 3);
        for (context, says) in
            [(&[][..], "(got 0)"), (&[0, 1, 2], "from 1 to 2 tokens"), (&[3], "the token 3")]
        {
            let error = model.logits(context).unwrap_err();
            assert_eq!(error.setting_name(), Some("context"));
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn a_normalization_that_overflows_or_divides_by_zero_is_an_error() {
        use crate::model::{ModelSpec, Norm, Preset};
        let config = ModelSpec::default().preset(Preset::Gpt2).d_model(4).tied(false).resolve(5, 3).unwrap();
        let model = Model::random(config, 0).unwrap();
        for norm in [Norm::Layer, Norm::Rms] {
            let config =
                ModelSpec::default().preset(Preset::Gpt2).d_model(4).norm(norm).resolve(5, 3).unwrap();
            let huge = Model::random(config, 0).unwrap();
            let parameters = huge.parameters().iter().map(|x| 1e160 * x).collect();
            let error = Model::new(config, parameters).unwrap().logits(&[1]).unwrap_err();
            assert!(error.to_string().contains("not finite because the weights are too large"), "{error}");
        }
        let embedding = model.parameters().len().min(20);
        let mut parameters = model.parameters().to_vec();
        parameters[..embedding].iter_mut().for_each(|x| *x *= 1e160);
        assert!(Model::new(config, parameters).unwrap().logits(&[1, 2]).is_err());
        let mut config = config;
        config.shape.blocks.as_mut().unwrap().norm_eps = 0.0;
        let zeros = Model::new(config, vec![0.0; config.n_parameters()]).unwrap();
        let error = zeros.logits(&[1]).unwrap_err().to_string();
        assert!(error.ends_with("or a normalization without eps divides by 0"), "{error}");
    }
}
