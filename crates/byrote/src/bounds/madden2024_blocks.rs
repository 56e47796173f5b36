//! Capacity adds over the blocks of a deep model: L blocks of m neurons hold any distributions on any L m contexts.
//!
//! Theorem 5 of madden2024 is about one layer whose m neurons feed the output. In a model of L blocks with skip connections, what
//! the hidden layers write into the residual stream adds up, so L blocks of m neurons serve as one hidden layer of L m neurons:
//!
//! * Distributions, sufficient: if d >= omega + (0, 1 or 2, see below), any distributions on any n <= L m contexts.
//! * Associations, sufficient: if d >= 3 + (0, 1 or 2), any next tokens on any n <= L m contexts.
//!
//! The construction (docs/derivations/depth.md has the proof): attention of the first block makes a number f of the context, kept in
//! one direction of the stream; all later attention is switched off; every hidden layer reads that direction and writes into the
//! others. Without normalization the outputs add exactly, and one linear solve gives any logits. With normalization before each
//! part, what a block reads depends on what earlier ones wrote, but only to second order in the size tau of what is written, while
//! the output may be as large as 1/tau. At tau = 0 the system is the linear one, and the implicit function theorem solves it for
//! small tau > 0.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | L, m, L m | 1, m, m | blocks, neurons per block, neurons |
//! | f | f | the mixed value of a context |
//! | d, omega | d, omega | width, tokens |
//!
//! Hypotheses, all checked. Skip connections around mixer and hidden layer. Attention with learned positions, or token averaging:
//! with rotary positions alone no capacity is above 1 ([`madden2024_positions`](super::madden2024_positions)). An activation that is analytic at 0 and not a polynomial there (not ReLU). Normalization, if
//! any, with eps > 0: with eps = 0, LayerNorm takes the stream {f u} to two points. Width: one direction for f and omega - 1 (two for
//! associations) to be written; LayerNorm loses one more, the mean, and with a tied output another, because f must be hidden from
//! the output by gains. Gated hidden layers count like others. In parallel blocks the first hidden layer does not see f and is not
//! counted.
//!
//! Constants are explicit. Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 3 to 7 with E2 and
//! E3; the extension to blocks is ours.

use super::deep::regular;
use super::madden2024::{analytic, at_least_two_tokens};
use super::row::{Bound, BoundKind, Findings, Judgement, MemorizationTask, Order, counted, grouped};
use super::situation::{CorpusFacts, Situation, WhyNot};
use crate::bibliography::MADDEN2024;
use crate::model::{Blocks, Config, Mixer, Norm, Positions, Shape};

const PLACE: &str = "Theorems 5 and 7, extended to blocks (docs/derivations/depth.md)";
const NEEDS: &str = "a model of blocks";

/// Any distributions.
pub static DISTRIBUTIONS: Bound = Bound {
    key: "madden2024-blocks",
    name: "one hidden neuron per context, over all blocks",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "n >= L m if d >= omega (LayerNorm: omega + 1, or omega + 2 with a tied output)",
    statement: "L blocks of m hidden neurons with skip connections, at least as wide as the vocabulary, reproduce any \
                distributions on any L m contexts, with or without normalization.",
    needs: NEEDS,
    paper: &MADDEN2024,
    place: PLACE,
    judge: |s| judge(s, |omega| omega.saturating_sub(1).max(1)),
};

/// Any next tokens.
pub static ASSOCIATIONS: Bound = Bound {
    key: "madden2024-blocks-associations",
    name: "one hidden neuron per context, over all blocks, next tokens",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "n >= L m if d >= 3 (LayerNorm: 4, or 5 with a tied output)",
    statement: "L blocks of m hidden neurons with skip connections give any L m contexts any next tokens, from width 3 to 5 \
                on, however large the vocabulary.",
    needs: NEEDS,
    paper: &MADDEN2024,
    place: PLACE,
    judge: |s| judge(s, |_| 2),
};

/// The blocks whose hidden neurons see the whole context.
pub fn counted_blocks(blocks: &Blocks) -> u64 {
    blocks.n_layers.saturating_sub(u64::from(blocks.parallel))
}

/// The least width at which `written` directions can be written.
pub fn least_width(blocks: &Blocks, written: u64) -> u64 {
    let lost = match (blocks.norm, blocks.tied) {
        (Norm::Layer, true) => 2,
        (Norm::Layer, false) => 1,
        (Norm::None | Norm::Rms, _) => 0,
    };
    written.saturating_add(1 + lost)
}

fn judge(s: &Situation, written: fn(u64) -> u64) -> Judgement {
    let Some((config, blocks)) = s.blocks() else {
        // A shape without blocks is the subject of Theorems 5 and 7 themselves.
        return match s.shape {
            Some(_) => Err("the model has one layer and no blocks".into()),
            None => Ok(Findings::default()),
        };
    };
    let shape = &config.shape;
    at_least_two_tokens(s)?;
    mixes(config)?;
    if !shape.has_hidden_layer() {
        return Err("the blocks have no hidden layer (d_mlp is 0)".into());
    }
    if !(config.skip && blocks.mlp_skip) {
        return Err("the mixers and the hidden layers need skip connections".into());
    }
    analytic(Some(shape))?;
    regular(blocks)?;
    if blocks.tied && blocks.norm != Norm::None && !blocks.final_norm {
        return Err("a tied output behind normalized blocks needs the gains of a final normalization".into());
    }
    let least = least_width(blocks, written(shape.d_vocab));
    if shape.d_model < least {
        return Err(format!(
            "d_model must be at least {} (it is {})",
            grouped(least),
            grouped(shape.d_model)
        ));
    }
    let layers = counted_blocks(blocks);
    if layers == 0 {
        return Err("in a single parallel block the hidden layer sees only the last token".into());
    }
    let sized = s.corpus.as_ref().and_then(|corpus| sized(config, layers, corpus));
    Ok(Findings {
        contexts: Some(u128::from(layers).saturating_mul(shape.d_mlp.into()).into()),
        shape_parameters: s.shape_parameters(),
        required_parameters: sized.map(|sized| sized.parameters_by_kind().total().into()),
        note: sized.map(|sized| {
            let d_mlp = grouped(sized.shape.d_mlp);
            format!("with {}, d_model {}, d_mlp {d_mlp}", counted(blocks.n_layers, "block"), shape.d_model)
        }),
        ..Findings::default()
    })
}

/// Whether the mixer can tell all contexts apart.
fn mixes(config: &Config) -> Result<(), WhyNot> {
    match (config.shape.mixer, config.positions) {
        (Mixer::None, _) => Err("without a mixer only the last token is seen".into()),
        (Mixer::Attention, Positions::Rotary | Positions::None) => Err(format!(
            "attention needs learned positions: with `positions = {}` a token and its repetition have equal logits",
            config.positions
        )),
        (Mixer::Attention | Mixer::Average, _) => Ok(()),
    }
}

/// The same model with as many neurons per block as the corpus needs.
fn sized(config: &Config, layers: u64, corpus: &CorpusFacts) -> Option<Config> {
    let d_mlp = corpus.contexts.div_ceil(layers).max(1);
    Config { shape: Shape { d_mlp, ..config.shape }, ..*config }.checked().ok()
}

#[cfg(test)]
mod tests;
