//! The softmax bottleneck: what the width of the output leaves, whatever the depth.
//!
//! Let the logits of a context be h W_U + b, where h has d entries, however many layers compute it. The rows of logits of n
//! contexts form the matrix H W_U + 1 b^T. A distribution fixes its logits up to a constant, so subtract from each row its mean:
//! what remains has rank at most
//!
//! ```text
//! r = d        without an output bias
//!   = d + 1    with one
//!   = d        behind a final LayerNorm, with or without one.
//! ```
//!
//! The last line: LayerNorm gives w (x - mean x) / sqrt(var x + eps) + c, whose first part lies in a fixed space of d - 1
//! dimensions, and c W_U + b is one more row.
//!
//! *Every* choice of positive distributions on n contexts includes one whose centred logarithms have rank min(n, omega - 1), since
//! they are arbitrary rows of omega - 1 free numbers. The matrices of rank at most r are closed, so such a choice is not even
//! approached if r < min(n, omega - 1). Hence, where r < omega - 1, the capacity in the sense of madden2024 (Definition 1) is at
//! most r.
//!
//! In words: an output that reads d numbers can only combine d + 1 patterns of logits. Real language models are far below
//! d = omega - 1, so they hold arbitrary *distributions* on very few contexts. *Associations* are not limited in this way: with
//! d = 2, tokens on a circle can each have the largest logit.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | d, omega, n | d, M, N | width, tokens, contexts |
//! | centred logits | F(A), the log-probabilities up to a shift of each row | what the output must produce |
//!
//! Hypotheses. The output is linear in d numbers (true of every shape here; for the one-layer models of madden2024 these are the
//! hidden neurons). Nothing else: the activation may be ReLU. Constants are explicit.
//!
//! Changed: the paper compares d with the rank of one given language; here it is every choice of distributions. The line on
//! LayerNorm is ours.
//!
//! Reference: Z. Yang, Z. Dai, R. Salakhutdinov, W. W. Cohen, arXiv:1711.03953 (version not marked; ICLR 2018), Corollary 1.

use super::row::{Bound, BoundKind, Findings, Judgement, Measured, MemorizationTask, Order, Side, grouped};
use super::situation::Situation;
use crate::bibliography::YANG2018;
use crate::model::Norm;

/// Corollary 1, for every choice of distributions.
pub static BOTTLENECK: Bound = Bound {
    key: "yang2018",
    name: "softmax bottleneck",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: "n <= d + 1 (d without output bias) if d + 1 < omega - 1",
    statement: "An output that reads fewer numbers than a distribution has free ones does not approach every choice of \
                distributions on more contexts than it reads numbers, whatever the depth; the most frequent next tokens are not \
                limited in this way. It says nothing about one given corpus.",
    needs: "a shape",
    paper: &YANG2018,
    place: "Corollary 1",
    judge,
};

/// The output of a model: the numbers it reads, and the largest rank of centred logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRank {
    /// How many numbers the output reads.
    pub width: u64,
    /// The largest rank of centred logits, if the vocabulary does not limit it.
    pub rank: u64,
}

impl OutputRank {
    /// The output of the model; `None` without a shape.
    pub fn of(situation: &Situation) -> Option<Self> {
        let shape = situation.shape?;
        let (width, bias) = match situation.blocks() {
            Some((config, blocks)) => {
                let centred = blocks.final_norm && blocks.norm == Norm::Layer;
                (shape.d_model, config.output_bias && !centred)
            }
            // The papers' models have no output bias.
            None if shape.has_hidden_layer() && shape.blocks.is_none() => (shape.d_mlp, false),
            // Switches that are not known may include one.
            None => (shape.d_model, shape.blocks.is_some()),
        };
        Some(Self { width, rank: width.saturating_add(u64::from(bias)) })
    }

    /// Whether distributions over this many tokens have more free numbers than the output has rank.
    pub fn limits(self, d_vocab: u64) -> bool {
        self.rank < d_vocab.saturating_sub(1)
    }
}

fn judge(s: &Situation) -> Judgement {
    let (Some(output), Some(omega)) = (OutputRank::of(s), s.vocabulary()) else {
        return Ok(Findings::default());
    };
    let free = omega.saturating_sub(1);
    if !output.limits(omega) {
        return Err(format!(
            "the output is not a bottleneck: it reads {} numbers, and a distribution over {} tokens has {} free ones",
            grouped(output.width),
            grouped(omega),
            grouped(free)
        ));
    }
    let rank = s.contexts().map_or(free, |n| n.min(free));
    Ok(Findings {
        contexts: Some(output.rank.into()),
        shape_parameters: s.shape_parameters(),
        figure: Some(Measured {
            name: "width for every choice of distributions",
            side: Some(Side::AtLeast),
            unit: "",
            quantity: rank.saturating_sub(output.rank - output.width).into(),
        }),
        note: Some(format!(
            "the output reads {} numbers; the most frequent next tokens are not limited by this",
            grouped(output.width)
        )),
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use crate::model::{Config, Model, ModelSpec, Preset, Shape};
    use crate::num::Stream;
    use byrote_linear::{Svd, from_rows};

    fn rank_of(config: Config) -> u64 {
        OutputRank::of(&Situation::default().of_model(config)).unwrap().rank
    }

    /// The logits of all contexts of up to three tokens, each row centred; the number of singular values above rounding.
    fn measured_rank(config: Config, seed: u64) -> usize {
        // No bias is 0 and no gain 1.
        let mut stream = Stream::new(seed, "bottleneck", 0);
        let parameters = (0..config.n_parameters()).map(|_| 0.7 * stream.normal()).collect();
        let model = Model::new(config, parameters).unwrap();
        let omega = config.shape.d_vocab as u32;
        let mut contexts: Vec<Vec<u32>> = (0..omega).map(|t| vec![t]).collect();
        for length in 1..3 {
            let longer: Vec<Vec<u32>> = contexts
                .iter()
                .filter(|c| c.len() == length)
                .flat_map(|c| (0..omega).map(|t| [c.as_slice(), &[t]].concat()))
                .collect();
            contexts.extend(longer.into_iter().step_by(7));
        }
        let centred = |context: &Vec<u32>| {
            let logits = model.logits(context).unwrap();
            let mean = logits.iter().sum::<f64>() / logits.len() as f64;
            logits.into_iter().map(move |x| x - mean)
        };
        let rows: Vec<f64> = contexts.iter().flat_map(centred).collect();
        Svd::of(from_rows(&rows, omega as usize)).unwrap().rank(1e-11)
    }

    #[test]
    fn random_deep_models_have_centred_logits_of_exactly_this_rank() {
        for preset in [Preset::Gpt2, Preset::GptNeox, Preset::Llama, Preset::AttentionOnly, Preset::Averaging]
        {
            for output_bias in [false, true] {
                for (n_layers, d_model) in [(1, 4), (3, 5)] {
                    let spec = ModelSpec::default().preset(preset).n_layers(n_layers).d_model(d_model);
                    let config = spec.n_heads(1).output_bias(output_bias).resolve(12, 3).unwrap();
                    assert_eq!(rank_of(config), measured_rank(config, 5) as u64, "{preset} {output_bias}");
                }
            }
        }
    }

    #[test]
    fn a_final_layer_norm_takes_back_what_a_bias_adds() {
        let rank = |preset, bias| {
            let spec = ModelSpec::default().preset(preset).n_layers(2).d_model(8).output_bias(bias);
            rank_of(spec.resolve(100, 3).unwrap())
        };
        assert_eq!((rank(Preset::Gpt2, false), rank(Preset::Gpt2, true)), (8, 8));
        assert_eq!((rank(Preset::Llama, false), rank(Preset::Llama, true)), (8, 9));
        assert_eq!((rank(Preset::AttentionOnly, false), rank(Preset::AttentionOnly, true)), (8, 9));
    }

    #[test]
    fn the_row_applies_below_omega_minus_one_and_meets_theorem_5() {
        let row = |shape: Shape| BOTTLENECK.evaluate(&of_shape(shape));
        let narrow = Shape { d_vocab: 100, d_mlp: 98, ..Shape::default() };
        assert_eq!(row(narrow).contexts.unwrap().count(), Some(98));
        assert_eq!(row(narrow).figure.unwrap().value.count(), Some(99));
        // One neuron more, and Theorem 5 gives any 99 contexts any distributions.
        assert!(row(Shape { d_mlp: 99, ..narrow }).why_not.unwrap().contains("not a bottleneck"));
        assert_eq!(row(Shape { d_mlp: 0, ..narrow }).contexts.unwrap().count(), Some(16));
        assert!(BOTTLENECK.evaluate(&of_corpus(stories())).why_not.unwrap().starts_with("needs a shape"));
        let few = BOTTLENECK.evaluate(&both(bigrams(30), Shape { n_ctx: 2, ..attention_only(5, 5, 2) }));
        assert_eq!(few.figure.unwrap().value.count(), Some(30));
    }
}
