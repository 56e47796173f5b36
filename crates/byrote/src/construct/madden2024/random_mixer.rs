//! The random mixer of madden2024, drawn so that it keeps contexts apart.
//!
//! Embedding and positions are standard normal. The entries of `W_Q W_K^T` have standard deviation 0.5 / d_model:
//! sharper attention settles on one token and maps different contexts to the same point, and flat attention (0) ignores
//! order. Values and output preserve the scale: `W_V` has variance 1 / d_model, `W_O` 1 / (heads d_head). The weights
//! of token averaging are at least 1 in absolute value, so that early tokens of long contexts count.

use crate::model::Config;
use crate::num::Stream;

/// The standard deviation of the entries of `W_Q W_K^T`, times d_model.
const SHARPNESS: f64 = 0.5;

/// Draws all parameters; those of the hidden layer and the output are 0. Each tensor has its own random stream.
pub(super) fn draw(config: &Config, seed: u64) -> Vec<f64> {
    let shape = &config.shape;
    let (d, heads, d_head) = (shape.d_model as f64, shape.n_heads as f64, shape.d_head as f64);
    let mut parameters = vec![0.0; config.n_parameters()];
    for tensor in config.tensors() {
        let mut stream = Stream::new(seed, tensor.name.part(), 0);
        let values = &mut parameters[tensor.range];
        let spread = match tensor.name.part() {
            "W_E" | "W_pos" => 1.0,
            // A sum of d_head products.
            "W_Q" | "W_K" => (SHARPNESS / (d * d_head.sqrt())).sqrt(),
            "W_V" => 1.0 / d.sqrt(),
            "W_O" => 1.0 / (heads * d_head).sqrt(),
            "u_pos" => {
                values.iter_mut().for_each(|u| {
                    let x = stream.normal();
                    *u = x + 1f64.copysign(x);
                });
                continue;
            }
            _ => continue,
        };
        values.iter_mut().for_each(|x| *x = spread * stream.normal());
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Preset, Shape};

    #[test]
    fn scores_have_the_spread_that_keeps_contexts_apart() {
        let shape = Shape { d_vocab: 9, d_model: 16, n_heads: 64, d_head: 4, d_mlp: 3, ..Shape::default() };
        let config = Preset::Madden2024.config(shape);
        let parameters = draw(&config, 1);
        let of = |name: &str| {
            let tensor = config.tensors().into_iter().find(|t| t.name == name).unwrap();
            parameters[tensor.range].to_vec()
        };
        let (q, k) = (of("W_Q"), of("W_K"));
        let mut square = 0.0;
        for head in 0..64 {
            for (i, j) in (0..16).flat_map(|i| (0..16).map(move |j| (i, j))) {
                let entry: f64 =
                    (0..4).map(|h| q[(head * 16 + i) * 4 + h] * k[(head * 16 + j) * 4 + h]).sum();
                square += entry * entry;
            }
        }
        let spread = (square / (64.0 * 256.0)).sqrt();
        assert!((spread * 16.0 / SHARPNESS - 1.0).abs() < 0.1, "{spread}");
        assert!(of("W_in").iter().chain(&of("W_U")).all(|&x| x == 0.0));
        let average = draw(&Preset::Average.config(shape), 1);
        let u_pos = Preset::Average.config(shape).tensors().into_iter().find(|t| t.name == "u_pos").unwrap();
        assert!(average[u_pos.range].iter().all(|u| u.abs() >= 1.0));
    }
}
