//! Contexts that a model of blocks gives the same logits, whatever its weights: its capacity is 1.
//!
//! * With attention and rotary positions, or none: contexts that repeat one token, such as (a) and (a, a).
//! * Without a mixer: contexts of one length that end in the same token, such as (a, c) and (b, c).
//!
//! So no two of them can be given different distributions, nor different most frequent next tokens, at any depth and with any
//! number of parameters. As such contexts exist from T = 2 on, the capacity in the sense of madden2024 (Definition 1: the largest n
//! such that *any* n contexts can be given any distributions) is 1.
//!
//! The proof, by induction over the blocks: all tokens of (a, ..., a) enter the first block as the same vector. If they enter a block
//! as the same vector, then so do the values of every head; attention averages equal values, whatever the scores, and adds the same
//! vector to every token; normalization and hidden layer work on each token alone. Without a mixer, nothing does anything else.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | T, omega | T, omega | longest context, tokens |
//! | capacity | Definition 1 | the n above |
//!
//! Hypotheses, all checked: a model of blocks with attention and rotary positions or none, or without a mixer; T >= 2; omega >= 2.
//! Nothing else matters: normalization, skip connections, biases, shared heads, the activation. For a given corpus one thing is
//! assumed, and the row states it as its condition: that two of its contexts are of this kind. Where the lengths exclude it, the row
//! does not apply. Constants are explicit.
//!
//! The statement is ours (docs/derivations/depth.md, "Positions"). Reference for the capacity: L. Madden, C. Fox, C.
//! Thrampoulidis, arXiv:2405.13718v1 (2024), Definition 1.

use super::madden2024::at_least_two_tokens;
use super::row::{Bound, BoundKind, Findings, Judgement, MemorizationTask, Order};
use super::situation::{CorpusFacts, Situation, WhyNot};
use crate::bibliography::MADDEN2024;
use crate::model::{Config, Mixer, Positions};

const EXPRESSION: &str = "n <= 1 if T >= 2";
const NEEDS: &str = "a model of blocks";
const PLACE: &str = "Definition 1, with a remark of ours (docs/derivations/depth.md)";

/// Any distributions.
pub static DISTRIBUTIONS: Bound = Bound {
    key: "madden2024-positions",
    name: "contexts with equal logits",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Necessary,
    order: Order::Exact,
    expression: EXPRESSION,
    statement: "Attention with rotary positions or none gives a token and its repetition equal logits, whatever the depth, \
                so not any two contexts can be given any distributions; nor can they without a mixer.",
    needs: NEEDS,
    paper: &MADDEN2024,
    place: PLACE,
    judge,
};

/// Any next tokens.
pub static ASSOCIATIONS: Bound = Bound {
    key: "madden2024-positions-associations",
    name: "contexts with equal logits, next tokens",
    task: MemorizationTask::Association,
    statement: "Attention with rotary positions or none gives a token and its repetition equal logits, whatever the depth, \
                so not any two contexts can be given any next tokens; nor can they without a mixer.",
    ..DISTRIBUTIONS
};

/// Contexts that a model gives the same logits, whatever its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alike {
    /// Those that repeat one token: attention averages equal values.
    Repetitions(Positions),
    /// Those of one length that end in the same token: nothing mixes the tokens.
    Endings,
}

impl Alike {
    /// The contexts that this model confuses, if it confuses any.
    pub(super) fn of(config: &Config) -> Option<Self> {
        match (config.shape.mixer, config.positions) {
            (Mixer::None, _) => Some(Self::Endings),
            (Mixer::Attention, positions @ (Positions::Rotary | Positions::None)) => {
                Some(Self::Repetitions(positions))
            }
            (Mixer::Attention | Mixer::Average, _) => None,
        }
    }

    /// What the model does, as a clause.
    pub(super) fn clause(self) -> &'static str {
        match self {
            Self::Repetitions(Positions::None) => {
                "without positions, attention gives contexts that repeat one token, such as (a) and (a, a), equal logits \
                 whatever the weights"
            }
            Self::Repetitions(_) => {
                "with rotary positions, attention gives contexts that repeat one token, such as (a) and (a, a), equal logits \
                 whatever the weights"
            }
            Self::Endings => {
                "without a mixer, contexts of one length that end in the same token, such as (a, c) and (b, c), have equal \
                 logits whatever the weights"
            }
        }
    }

    /// Whether a corpus may have two such contexts, and if so, the condition that it has.
    fn condition(self, corpus: &CorpusFacts) -> Result<&'static str, WhyNot> {
        match (self, corpus.one_length()) {
            (Self::Repetitions(_), Ok(length)) => Err(format!(
                "all contexts have {length} tokens, so none is a longer repetition of another's token"
            )),
            (Self::Repetitions(_), Err(_)) => Ok("if two contexts repeat one and the same token"),
            (Self::Endings, Ok(1)) => {
                Err("all contexts have one token, and no two end in the same one".into())
            }
            (Self::Endings, _) => Ok("if two contexts of one length end in the same token"),
        }
    }
}

fn judge(s: &Situation) -> Judgement {
    let Some((config, _)) = s.blocks() else {
        return match s.shape {
            Some(_) => Err("the model has one layer and no blocks".into()),
            None => Ok(Findings::default()),
        };
    };
    at_least_two_tokens(s)?;
    let Some(alike) = Alike::of(config) else {
        return Err(match config.shape.mixer {
            Mixer::Average => "the weights of token averaging depend on the position".into(),
            _ => format!("with `positions = {}` a token and its repetition differ", config.positions),
        });
    };
    if config.shape.n_ctx < 2 {
        return Err("the model reads one token, so all its contexts differ in the last one".into());
    }
    Ok(Findings {
        contexts: Some(1u64.into()),
        shape_parameters: s.shape_parameters(),
        condition: s.corpus.as_ref().map(|corpus| alike.condition(corpus)).transpose()?,
        note: Some(alike.clause().into()),
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::super::{BoundsAnswer, LengthFacts, verdict};
    use super::*;
    use crate::model::{Activation, Model, ModelSpec, Norm, Preset, Shape};
    use crate::num::Stream;

    fn deep(preset: Preset) -> ModelSpec {
        ModelSpec::default().preset(preset).n_layers(3).d_model(16).n_heads(2).d_head(4)
    }

    fn situation(spec: ModelSpec, n_ctx: u64) -> Situation {
        Situation::default().of_model(spec.resolve(20, n_ctx).unwrap())
    }

    /// The models that confuse some contexts.
    fn confused() -> Vec<ModelSpec> {
        let gpt2 = deep(Preset::Gpt2);
        vec![
            deep(Preset::Llama),
            deep(Preset::Llama).n_kv_heads(1).norm(Norm::None).activation(Activation::Relu),
            deep(Preset::GptNeox),
            gpt2.positions(Positions::None),
            gpt2.positions(Positions::None).skip(false).output_bias(true).tied(false),
            deep(Preset::AttentionOnly).positions(Positions::Rotary),
            gpt2.mixer(Mixer::None),
            gpt2.mixer(Mixer::None).positions(Positions::None).mlp_skip(false),
        ]
    }

    #[test]
    fn these_models_hold_every_choice_on_one_context_only() {
        for spec in confused() {
            for bound in [&DISTRIBUTIONS, &ASSOCIATIONS] {
                let row = bound.evaluate(&situation(spec, 8));
                assert_eq!(
                    (row.contexts.unwrap().count(), row.condition),
                    (Some(1), None),
                    "{:?}",
                    row.why_not
                );
                assert!(bound.evaluate(&situation(spec, 1)).why_not.unwrap().contains("reads one token"));
            }
        }
        for (spec, why) in [
            (deep(Preset::Gpt2), "`positions = learned`"),
            (deep(Preset::Averaging), "token averaging"),
            (deep(Preset::Averaging).positions(Positions::None), "token averaging"),
        ] {
            assert!(DISTRIBUTIONS.evaluate(&situation(spec, 8)).why_not.unwrap().contains(why));
        }
        let paper = of_shape(Shape::default());
        assert!(DISTRIBUTIONS.evaluate(&paper).why_not.unwrap().contains("no blocks"));
        assert_eq!(DISTRIBUTIONS.evaluate(&Situation::default()).why_not.unwrap(), "needs a model of blocks");
    }

    /// The logits of a model with random weights, no bias 0 and no gain 1.
    fn random_logits(spec: ModelSpec, contexts: [&[u32]; 2]) -> [Vec<f64>; 2] {
        let config = spec.resolve(20, 8).unwrap();
        let mut stream = Stream::new(3, "alike", 0);
        let parameters = (0..config.n_parameters()).map(|_| 0.5 * stream.normal()).collect();
        let model = Model::new(config, parameters).unwrap();
        contexts.map(|context| model.logits(context).unwrap())
    }

    #[test]
    fn the_contexts_of_the_row_have_equal_logits_and_others_do_not() {
        let apart = |[a, b]: [Vec<f64>; 2]| {
            a.iter().zip(&b).map(|(a, b)| (a - b).abs() / (1.0 + a.abs())).fold(0.0, f64::max)
        };
        for (case, spec) in confused().into_iter().enumerate() {
            let (equal, other): ([&[u32]; 2], [&[u32]; 2]) = match Alike::of(&spec.resolve(20, 8).unwrap()) {
                Some(Alike::Repetitions(_)) => ([&[7], &[7, 7, 7]], [&[7], &[2, 7]]),
                Some(Alike::Endings) => ([&[1, 2, 7], &[3, 1, 7]], [&[1, 7], &[1, 2]]),
                None => panic!("case {case}"),
            };
            assert!(apart(random_logits(spec, equal)) < 1e-11, "case {case}");
            assert!(apart(random_logits(spec, other)) > 1e-3, "case {case}");
        }
        for spec in [deep(Preset::Gpt2), deep(Preset::Averaging).positions(Positions::None)] {
            assert!(apart(random_logits(spec, [&[7], &[7, 7]])) > 1e-3);
        }
    }

    #[test]
    fn a_corpus_makes_the_row_conditional_or_excludes_it() {
        let on = |corpus: CorpusFacts, spec: ModelSpec| {
            let config = spec.resolve(1000, 9).unwrap();
            DISTRIBUTIONS.evaluate(&of_corpus(corpus).of_model(config))
        };
        let (llama, none) = (deep(Preset::Llama), deep(Preset::Gpt2).mixer(Mixer::None));
        let several = on(stories(), llama);
        assert_eq!(several.contexts.unwrap().count(), Some(1));
        assert!(several.condition.unwrap().contains("repeat one and the same token"));
        assert!(on(bigrams(9), llama).why_not.unwrap().contains("all contexts have 2 tokens"));
        assert!(on(bigrams(9), none).condition.unwrap().contains("end in the same token"));
        let unigrams = CorpusFacts { by_length: vec![LengthFacts { length: 1, contexts: 9 }], ..bigrams(9) };
        assert!(on(unigrams, none).why_not.unwrap().contains("one token"));
    }

    #[test]
    fn the_verdict_names_the_contexts() {
        let alone = verdict(&situation(deep(Preset::GptNeox), 8)).sentence;
        assert!(alone.contains("on more than 1 context: with rotary positions, attention gives"), "{alone}");
        let small = CorpusFacts {
            contexts: 3,
            d_vocab: 3,
            n_ctx: 2,
            by_length: [(1, 1), (2, 2)].map(|(length, contexts)| LengthFacts { length, contexts }).into(),
            ..stories()
        };
        let config = deep(Preset::Llama).resolve(3, 2).unwrap();
        let both = verdict(&of_corpus(small).of_model(config));
        assert_eq!(both.answer, BoundsAnswer::NotEveryChoice);
        assert!(
            both.sentence.starts_with("not guaranteed: with rotary positions, attention"),
            "{}",
            both.sentence
        );
        // Where Lemma 1 is about the corpus as well, it comes first.
        let tiny = ModelSpec::default().preset(Preset::Llama).d_model(4).n_heads(1).resolve(1000, 9).unwrap();
        let many = verdict(&of_corpus(stories()).of_model(tiny)).sentence;
        assert!(many.contains("Lemma 1") && many.contains("besides, with rotary positions"), "{many}");
        assert!(!many.contains("cannot") && !both.sentence.contains("cannot"));
    }
}
