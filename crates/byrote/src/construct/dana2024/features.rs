//! Random embeddings and heads, and the resulting features.
//!
//! ```text
//! F = [ A_1 W_V^1 ; ... ; A_H W_V^H ; x_S ]        [H d_h + d, contexts], one column per context
//! ```
//!
//! with A_h the attention of head h read at the last token and x_S the embedded last token: the logits of a model
//! without a hidden layer are linear in these features. Embeddings and positions are standard normal, so the entries of
//! x have variance 2. `W_Q` and `W_K` are standard normal times sqrt(kappa / d); with the model's factor 1/sqrt(d_h)
//! the scores then have a standard deviation of 2 kappa: far enough from 0 that heads differ, close enough that they do
//! not all attend to a single token.
//!
//! `W_V` has orthonormal columns (rows if d_h > d): compared with a Gaussian matrix this reduces the condition number
//! of F by a factor of 10 at d_h = d, and changes little at d_h < d.
//!
//! The features come from the public forward pass, so the system that is solved is the one users see.

use crate::dataset::Dataset;
use crate::model::{Config, Preset, Shape};
use crate::num::Stream;
use crate::num::linear::{Mat, MatRef, Qr};
use crate::train::Evaluator;

/// The default spread of the scores.
pub const KAPPA: f64 = 5.0;
/// Features count as dependent if the part of one that is independent of the others, relative to their size, is below this.
pub const DEPENDENT: f64 = 1e-12;

/// The attention-only transformer of these dimensions.
pub fn config(d_vocab: u64, n_ctx: u64, d_model: u64, n_heads: u64, d_head: u64) -> Config {
    let shape = Shape { d_vocab, n_ctx, d_model, n_heads, d_head, d_mlp: 0, ..Shape::default() };
    Preset::Dana2024.config(shape)
}

/// The parameters of a draw; `W_O` and `W_U` are still 0.
///
/// Each tensor has its own stream, in which heads follow each other, so adding heads does not change the earlier ones.
pub fn draw(config: &Config, kappa: f64, seed: u64, index: u64) -> Vec<f64> {
    let shape = &config.shape;
    let (d, d_head) = (shape.d_model as usize, shape.d_head as usize);
    let score = (kappa / d as f64).sqrt();
    let mut parameters = vec![0.0; config.n_parameters()];
    for tensor in config.tensors() {
        let values = &mut parameters[tensor.range.clone()];
        let mut fill = |purpose: &str, factor: f64| {
            let mut stream = Stream::new(seed, purpose, index);
            values.iter_mut().for_each(|x| *x = factor * stream.normal());
        };
        match tensor.name.part() {
            "W_E" => fill("dana2024 W_E", 1.0),
            "W_pos" => fill("dana2024 W_pos", 1.0),
            "W_Q" => fill("dana2024 W_Q", score),
            "W_K" => fill("dana2024 W_K", score),
            "W_V" => {
                fill("dana2024 W_V", 1.0);
                values.chunks_exact_mut(d * d_head).for_each(|head| orthonormalise(head, d, d_head));
            }
            _ => {}
        }
    }
    parameters
}

/// Makes the columns of a row-major matrix orthonormal, or its rows if it is wider than high.
fn orthonormalise(values: &mut [f64], rows: usize, columns: usize) {
    let a = MatRef::from_row_major_slice(values, rows, columns);
    let q = match rows >= columns {
        true => Qr::of(a.to_owned()).orthonormal(),
        false => Qr::of(a.transpose().to_owned()).orthonormal().transpose().to_owned(),
    };
    for (i, row) in values.chunks_exact_mut(columns).enumerate() {
        row.iter_mut().enumerate().for_each(|(j, x)| *x = q[(i, j)]);
    }
}

/// Computes F with the public forward pass.
pub fn features(config: &Config, parameters: &[f64], dataset: &Dataset) -> Mat<f64> {
    let rows = (config.shape.n_heads * config.shape.d_head + config.shape.d_model) as usize;
    let values = Evaluator::<f64, _>::forward(*config, dataset)
        .for_each_attended(parameters, Vec::new, |all: &mut Vec<f64>, _, heads, last| {
            all.extend_from_slice(heads);
            all.extend_from_slice(last);
        })
        .concat();
    MatRef::from_column_major_slice(&values, rows, dataset.len()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::dana2024::capacity::Census;
    use crate::construct::dana2024::examples::*;
    use crate::num::linear::{rank, to_rows};

    fn rank_of(dataset: &Dataset, d_vocab: u64, (d, d_h, h): (u64, u64, u64), seed: u64) -> usize {
        let config = config(d_vocab, 8, d, h, d_h);
        rank(features(&config, &draw(&config, KAPPA, seed, 0), dataset).as_ref(), 1e-11)
    }

    #[test]
    fn values_are_orthonormal_and_scores_spread_as_documented() {
        for (d, d_h) in [(6, 4), (4, 4), (3, 5)] {
            let config = config(60, 2, d, 3, d_h);
            let model = crate::model::Model::new(config, draw(&config, 5.0, 1, 0)).unwrap();
            let (rows, columns) = (d as usize, d_h as usize);
            for head in model.tensor("W_V").unwrap().chunks_exact(rows * columns) {
                let a = MatRef::from_row_major_slice(head, rows, columns);
                let gram = if rows >= columns { a.transpose() * a } else { a * a.transpose() };
                let error = to_rows((&gram - Mat::<f64>::identity(gram.nrows(), gram.ncols())).as_ref());
                assert!(error.iter().all(|x| x.abs() < 1e-14));
            }
        }
        // Scores x W_Q W_K^T y / sqrt(d_h) over many pairs: standard deviation 2 kappa.
        let config = config(400, 2, 16, 30, 16);
        let model = crate::model::Model::new(config, draw(&config, 3.0, 2, 0)).unwrap();
        let (w_q, w_k) = (model.tensor("W_Q").unwrap(), model.tensor("W_K").unwrap());
        let mut stream = Stream::new(3, "test", 0);
        let mut square = 0.0;
        for head in 0..30 {
            let x: Vec<f64> = (0..16).map(|_| 2f64.sqrt() * stream.normal()).collect();
            let y: Vec<f64> = (0..16).map(|_| 2f64.sqrt() * stream.normal()).collect();
            let project = |v: &[f64], w: &[f64], j: usize| -> f64 {
                (0..16).map(|i| v[i] * w[head * 256 + i * 16 + j]).sum()
            };
            let score: f64 = (0..16).map(|j| project(&x, w_q, j) * project(&y, w_k, j)).sum::<f64>() / 4.0;
            square += score * score / 30.0;
        }
        assert!((3.0..12.0).contains(&square.sqrt()), "{}", square.sqrt());
    }

    #[test]
    fn more_heads_leave_the_others_as_they_were() {
        let (few, more) = (config(9, 2, 4, 2, 3), config(9, 2, 4, 5, 3));
        let draws = [few, more].map(|c| crate::model::Model::new(c, draw(&c, KAPPA, 7, 1)).unwrap());
        for name in ["W_E", "W_Q", "W_K", "W_V"] {
            let [a, b] = [0, 1].map(|i| draws[i].tensor(name).unwrap());
            assert_eq!(a, &b[..a.len()], "{name}");
        }
        assert_ne!(draw(&few, KAPPA, 7, 1), draw(&few, KAPPA, 7, 2));
    }

    #[test]
    fn e4_the_skip_adds_distinct_last_tokens_and_no_more() {
        for (distinct, expect) in [(1, 41), (3, 43), (9, 49), (10, 50)] {
            for seed in 0..3 {
                let dataset = pairs_ending_in(50, distinct, 50);
                assert_eq!(rank_of(&dataset, 50, (10, 4, 10), seed), expect, "{distinct} {seed}");
            }
        }
    }

    #[test]
    fn e5_a_wide_head_adds_only_d_model() {
        let dataset = associations(50, 2, 120, 3);
        for ((d, d_h, h), expect) in [((2, 5, 19), 40), ((4, 6, 10), 44), ((4, 4, 10), 44), ((1, 2, 1), 2)] {
            assert_eq!(rank_of(&dataset, 50, (d, d_h, h), 1), expect, "{d} {d_h} {h}");
        }
    }

    #[test]
    fn e7_contexts_of_one_token_span_d_model_whatever_the_heads() {
        let dataset = of_contexts(24, (0..24).map(|t| (vec![t], 1.0, vec![(t, 1.0)])));
        assert_eq!(rank_of(&dataset, 24, (4, 4, 5), 1), 4);
        let two = of_contexts(2, (0..2).map(|t| (vec![t], 1.0, vec![(t, 1.0)])));
        assert_eq!(rank_of(&two, 2, (1, 1, 2), 1), 1);
    }

    #[test]
    fn e11_structured_sets_have_less_rank_than_the_count() {
        // (t, t), d = d_h = H = 2. A head only moves along pos_1 - pos_2. Four of them: the heads alone have rank 3,
        // where Lemma 2 says 4. Six of them: 2 * 1 + 2 = 4 with the skip connection, where the count says 6.
        let twins = |n: u32| of_contexts(n.into(), (0..n).map(|t| (vec![t, t], 1.0, vec![(t, 1.0)])));
        assert_eq!(Census::of(&twins(6)).capacity(2, 2, 2), 6);
        for seed in 0..5 {
            let config = config(4, 8, 2, 2, 2);
            let f = features(&config, &draw(&config, KAPPA, seed, 0), &twins(4));
            assert_eq!(rank(f.as_ref().get(..4, ..), 1e-11), 3);
            assert_eq!(rank_of(&twins(6), 6, (2, 2, 2), seed), 4);
        }
        // All S-grams over b tokens: H min(d_h, d, b + S - 2) + min(d, b).
        for (b, s, d, h, expect) in [(2u32, 3usize, 8, 1, 5), (4, 2, 10, 2, 12)] {
            let dataset = all_grams(b, s);
            assert_eq!(rank_of(&dataset, b.into(), (d, d, h), 1), expect, "{b} {s}");
        }
    }

    #[test]
    fn e6_a_head_of_lambda_identity_need_not_read_the_last_token() {
        // d = 1, x_1 = 2, x_2 = 1: scores 2 lambda and lambda. W_E = (1, 0), W_pos = (1, 1).
        let config = config(2, 2, 1, 1, 1);
        let dataset = of_contexts(2, [(vec![0, 1], 1.0, vec![(0, 1.0)])].into_iter());
        let parameters = [1.0, 0.0, 1.0, 1.0, 1e3, 1.0, 1.0, 0.0, 0.0, 0.0];
        let f = features(&config, &parameters, &dataset);
        assert_eq!((f[(0, 0)], f[(1, 0)]), (2.0, 1.0));
    }
}
