//! The switches of a transformer, its presets by paper and by family, and its tensors.
//!
//! A model of many layers is described in [`super::blocks`]; the one-layer transformer of the papers is
//!
//! ```text
//! x_s = W_E[t_s] + W_pos[s]                                         embedding and positions
//! z_h = sum_s softmax_s(q_h . k_hs / sqrt(d_head)) v_hs              attention of head h, read at the last token
//! a   = sum_h z_h W_O[h] + b_O  (+ x_last)                          mixer (and skip)
//!     = sum_s u_pos[s] x_s      (+ x_last)                          or token averaging
//! y   = psi(a W_in + b_in)                                          hidden layer to the output
//!     = psi(a W_in + b_in) W_out + b_out  (+ a)                     or back to the residual stream (and skip)
//! logits = y W_U + b_U                                              (y = a without a hidden layer)
//! ```
//!
//! with `q_h = r_last W_Q[h] + b_Q[h]`, and likewise for keys and values. Attention reads `r_s = x_s`, unless a switch says
//! otherwise: with `positions_in_attention` the positions are added to `r_s` alone and not to `x_s`, and with a `bottleneck` one
//! map that all heads share takes the residual stream to `d_head` dimensions and another takes their sum back,
//!
//! ```text
//! r_s = x_s W_down  (+ W_pos[s])
//! a   = (sum_h z_h W_O[h] + b_O) W_up  (+ x_last)
//! ```
//!
//! so that W_Q, W_K, W_V and W_O are square. Names and shapes follow TransformerLens, which has neither switch.
//!
//! ```
//! use byrote::model::{Config, Positions, Preset, Shape};
//!
//! let shape = Shape { d_vocab: 10, n_ctx: 3, d_model: 4, n_heads: 1, d_head: 4, d_mlp: 8, ..Shape::default() };
//! let config = Config { positions: Positions::None, ..Preset::Madden2024.config(shape) }.checked()?;
//! let names: Vec<String> = config.tensors().iter().map(|tensor| tensor.name.to_string()).collect();
//! assert_eq!(names, ["W_E", "W_Q", "W_K", "W_V", "W_O", "W_in", "b_in", "W_U"]);
//! # Ok::<(), byrote::Error>(())
//! ```

use super::blocks::{Blocks, Norm, Rotary};
use super::shape::{Activation, Mixer, ParametersByKind, Shape};
use super::tensor_name::TensorName;
use crate::setting::choices;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How a position enters the embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions {
    /// Fixed: `sin` and `cos` of the position at frequencies 10000^(-2i/d); no parameters.
    Sinusoidal,
    /// One learned vector per position.
    Learned,
    /// None.
    None,
    /// Queries and keys are rotated by their position ([`Rotary`]).
    Rotary,
}

choices!(Positions, "positions" {
    Sinusoidal = "sinusoidal",
    Learned = "learned",
    None = "none",
    Rotary = "rotary",
});

/// Where the hidden layer's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// There is no hidden layer.
    Absent,
    /// Straight to the logits (madden2024).
    Output,
    /// Back to the residual stream (dana2024's variant with an MLP).
    Residual,
}

choices!(Hidden, "hidden" { Absent = "absent", Output = "output", Residual = "residual" });

/// A transformer without its weights. All fields are public on purpose: a configuration is plain data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Its dimensions, activation, mixer and blocks.
    pub shape: Shape,
    /// How positions enter the embedding.
    pub positions: Positions,
    /// Whether queries, keys and values have biases, and the output of attention, where blocks do not say otherwise.
    pub attention_bias: bool,
    /// Whether scores are divided by sqrt(d_head).
    pub scale_scores: bool,
    /// Whether the mixer, and a hidden layer that returns to the residual stream, add to their input; in a model of blocks, only
    /// the mixer.
    pub skip: bool,
    /// Where the hidden layer's output goes.
    pub hidden: Hidden,
    /// Whether the output has a bias.
    pub output_bias: bool,
    /// Whether positions are added only to what attention reads, and not to the residual stream.
    #[serde(default, skip_serializing_if = "is_off")]
    pub positions_in_attention: bool,
    /// Whether one map to `d_head` dimensions and one map back are shared by all heads.
    #[serde(default, skip_serializing_if = "is_off")]
    pub bottleneck: bool,
    /// Whether a hidden layer that returns to the residual stream has an output bias.
    #[serde(default = "on", skip_serializing_if = "is_on")]
    pub residual_bias: bool,
}

// Files of models without the later switches stay as they are.
fn is_off(switch: &bool) -> bool {
    !*switch
}

fn is_on(switch: &bool) -> bool {
    *switch
}

fn on() -> bool {
    true
}

/// A model of a paper, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// madden2024, equation (2): learned positions, unscaled scores, a hidden layer that leads straight to the output.
    Madden2024,
    #[default]
    /// madden2024, section 7: one head, biases, scaled scores, sinusoidal positions, GELU, an output bias.
    Madden2024Experiment,
    /// dana2024: attention only, with a skip connection.
    Dana2024,
    /// dana2024 with a hidden layer in the residual stream.
    Dana2024Mlp,
    /// dana2024 as in the authors' published program: positions in attention only, and a bottleneck where `d_model` and `d_head`
    /// differ.
    Dana2024Published,
    /// The model with a hidden layer of that program: one head, no bias after the hidden layer.
    Dana2024PublishedMlp,
    /// madden2024, Theorem 7: token averaging and a hidden layer.
    Average,
    /// Blocks of GPT-2: LayerNorm before each part, learned positions, tanh-GELU, biases, tied output.
    Gpt2,
    /// Blocks of GPT-NeoX (Pythia): attention and hidden layer in parallel, a quarter of each head rotary, untied output.
    GptNeox,
    /// Blocks of Llama: RMSNorm, rotary positions, a hidden layer gated by SiLU, no biases, untied output.
    Llama,
    /// Blocks of attention alone: dana2024's model with many layers.
    AttentionOnly,
    /// Blocks of GPT-2 with token averaging in place of attention.
    Averaging,
}

choices!(Preset, "preset" {
    Madden2024 = "madden2024",
    Madden2024Experiment = "madden2024-experiment",
    Dana2024 = "dana2024",
    Dana2024Mlp = "dana2024-mlp",
    Dana2024Published = "dana2024-published",
    Dana2024PublishedMlp = "dana2024-published-mlp",
    Average = "average",
    Gpt2 = "gpt2",
    GptNeox = "gpt-neox",
    Llama = "llama",
    AttentionOnly = "attention-only",
    Averaging = "averaging",
});

impl Preset {
    /// The one-layer transformers of the papers.
    pub const ONE_LAYER: [Preset; 7] = [
        Preset::Madden2024,
        Preset::Madden2024Experiment,
        Preset::Dana2024,
        Preset::Dana2024Mlp,
        Preset::Dana2024Published,
        Preset::Dana2024PublishedMlp,
        Preset::Average,
    ];

    /// Whether the model consists of blocks, of which there can be any number.
    pub fn has_blocks(self) -> bool {
        !Self::ONE_LAYER.contains(&self)
    }

    /// Returns the model of this preset in a shape. What the preset fixes (mixer, one head, no hidden layer) overrides
    /// the shape. A model of blocks has as many as the shape says, or one.
    pub fn config(self, shape: Shape) -> Config {
        if self.has_blocks() {
            return self.of_blocks(shape);
        }
        let shape = Shape { blocks: None, ..shape };
        let plain = Config {
            shape,
            positions: Positions::Learned,
            attention_bias: false,
            scale_scores: false,
            skip: false,
            hidden: Hidden::Output,
            output_bias: false,
            positions_in_attention: false,
            bottleneck: false,
            residual_bias: true,
        };
        let attention = Shape { mixer: Mixer::Attention, ..shape };
        match self {
            Preset::Madden2024 => Config { shape: attention, ..plain },
            Preset::Madden2024Experiment => Config {
                shape: Shape { n_heads: 1, ..attention },
                positions: Positions::Sinusoidal,
                attention_bias: true,
                scale_scores: true,
                output_bias: true,
                ..plain
            },
            Preset::Dana2024 => Config {
                shape: Shape { d_mlp: 0, ..attention },
                scale_scores: true,
                skip: true,
                hidden: Hidden::Absent,
                ..plain
            },
            Preset::Dana2024Mlp => {
                Config { shape: attention, scale_scores: true, skip: true, hidden: Hidden::Residual, ..plain }
            }
            Preset::Dana2024Published | Preset::Dana2024PublishedMlp => {
                let mlp = self == Preset::Dana2024PublishedMlp;
                let base = if mlp { Preset::Dana2024Mlp } else { Preset::Dana2024 };
                let config = base.config(Shape { n_heads: if mlp { 1 } else { shape.n_heads }, ..shape });
                Config {
                    positions_in_attention: true,
                    bottleneck: shape.d_model != shape.d_head,
                    residual_bias: !mlp,
                    ..config
                }
            }
            _ => Config {
                shape: Shape { mixer: Mixer::Average, ..shape },
                positions: Positions::None,
                ..plain
            },
        }
    }

    /// The model of a preset with blocks.
    fn of_blocks(self, shape: Shape) -> Config {
        let gpt2 = Blocks {
            n_layers: shape.blocks.map_or(1, |b| b.n_layers),
            n_kv_heads: shape.n_heads,
            norm: Norm::Layer,
            norm_eps: 1e-5,
            final_norm: true,
            parallel: false,
            gated: false,
            attention_output_bias: true,
            mlp_bias: true,
            mlp_skip: true,
            tied: true,
            rotary: None,
        };
        let rotary = |dims: u64| Some(Rotary { dims: dims & !1, theta: 10_000.0, scaling: None });
        let blocks = match self {
            Preset::GptNeox => {
                Blocks { parallel: true, tied: false, rotary: rotary((shape.d_head / 4).max(2)), ..gpt2 }
            }
            Preset::Llama => Blocks {
                norm: Norm::Rms,
                norm_eps: 1e-6,
                gated: true,
                attention_output_bias: false,
                mlp_bias: false,
                tied: false,
                rotary: rotary(shape.d_head),
                ..gpt2
            },
            Preset::AttentionOnly => Blocks {
                norm: Norm::None,
                final_norm: false,
                attention_output_bias: false,
                mlp_bias: false,
                tied: false,
                ..gpt2
            },
            _ => gpt2,
        };
        let shape = Shape {
            d_mlp: if self == Preset::AttentionOnly { 0 } else { shape.d_mlp },
            activation: match self {
                Preset::Llama => Activation::Silu,
                Preset::GptNeox => Activation::Gelu,
                _ => Activation::GeluTanh,
            },
            mixer: if self == Preset::Averaging { Mixer::Average } else { Mixer::Attention },
            blocks: Some(blocks),
            ..shape
        };
        Config {
            shape,
            positions: if blocks.rotary.is_some() { Positions::Rotary } else { Positions::Learned },
            attention_bias: blocks.attention_output_bias,
            scale_scores: true,
            skip: true,
            hidden: if shape.d_mlp == 0 { Hidden::Absent } else { Hidden::Residual },
            output_bias: false,
            positions_in_attention: false,
            bottleneck: false,
            residual_bias: true,
        }
    }
}

/// The purpose of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TensorKind {
    /// `W_E`.
    Embedding,
    /// `W_pos`, `u_pos`.
    Position,
    /// Queries, keys, values and attention output.
    Attention,
    /// `W_in`, `b_in`, `W_out`, `b_out`.
    Hidden,
    /// `W_U`, `b_U`.
    Output,
    /// Gains and biases of normalization.
    Norm,
}

/// A tensor of a model: its name, its shape, and its location among the parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The name, as in TransformerLens.
    pub name: TensorName,
    /// The dimensions, row-major.
    pub shape: Vec<usize>,
    /// The purpose.
    pub kind: TensorKind,
    /// Its range in the vector of all parameters.
    pub range: Range<usize>,
}

impl Config {
    /// Returns this configuration if it is valid, or an error that names the invalid switch.
    pub fn checked(self) -> Result<Self> {
        self.shape.checked()?;
        let hidden = self.hidden != Hidden::Absent;
        if hidden != (self.shape.d_mlp > 0) {
            let message = match hidden {
                true => {
                    "must be at least 1 with a hidden layer (got 0); `hidden = absent` leaves the layer out"
                        .to_owned()
                }
                false => {
                    let one_layer = if self.shape.blocks.is_none() { "`hidden = output` or " } else { "" };
                    format!(
                        "must be 0 without a hidden layer (got {}); {one_layer}`hidden = residual` adds one",
                        self.shape.d_mlp
                    )
                }
            };
            return Err(Error::setting("d_mlp", message));
        }
        for (name, switch) in
            [("positions_in_attention", self.positions_in_attention), ("bottleneck", self.bottleneck)]
        {
            if switch && self.shape.mixer != Mixer::Attention {
                return Err(Error::setting(name, "needs `mixer = attention`"));
            }
        }
        match self.shape.blocks {
            Some(blocks) => blocks.check(&self)?,
            None if self.positions == Positions::Rotary => {
                return Err(Error::setting("positions", "rotary positions need a model of blocks"));
            }
            None => {}
        }
        let total = self.tensor_sizes().iter().try_fold(0u64, |sum, (_, shape, _)| {
            let size = shape.iter().try_fold(1u64, |size, &d| size.checked_mul(d))?;
            sum.checked_add(size)
        });
        match total {
            Some(total) if total <= 1 << 36 => Ok(self),
            _ => Err(Error::setting("model", "has more than 2^36 parameters")),
        }
    }

    /// Returns every tensor of the model with its shape, in storage order.
    fn tensor_sizes(&self) -> Vec<(TensorName, Vec<u64>, TensorKind)> {
        match &self.shape.blocks {
            Some(blocks) => self.tensor_sizes_of(blocks),
            None => self.one_layer_tensor_sizes(),
        }
    }

    /// The tensors of a model of blocks.
    fn tensor_sizes_of(&self, blocks: &Blocks) -> Vec<(TensorName, Vec<u64>, TensorKind)> {
        let Shape { d_vocab, n_ctx, d_model: d, n_heads, d_head, d_mlp: m, mixer, .. } = self.shape;
        let mut all = Vec::new();
        let mut add = |condition: bool, name, shape, kind| {
            if condition {
                all.push((name, shape, kind));
            }
        };
        add(true, TensorName::of("embed.W_E"), vec![d_vocab, d], TensorKind::Embedding);
        let learned = self.positions == Positions::Learned;
        add(learned, TensorName::of("pos_embed.W_pos"), vec![n_ctx, d], TensorKind::Position);
        let (normed, centred) = (blocks.norm != Norm::None, blocks.norm == Norm::Layer);
        let (attention, mixed) = (mixer == Mixer::Attention, mixer != Mixer::None);
        let kv = blocks.n_kv_heads;
        let hidden = self.hidden == Hidden::Residual;
        for block in 0..blocks.n_layers as u32 {
            let of = |part| TensorName::in_block(block, part);
            add(normed && mixed, of("ln1.w"), vec![d], TensorKind::Norm);
            add(centred && mixed, of("ln1.b"), vec![d], TensorKind::Norm);
            add(mixer == Mixer::Average, of("attn.u_pos"), vec![n_ctx], TensorKind::Position);
            let bias = attention && self.attention_bias;
            for (weight, b, heads) in [
                ("attn.W_Q", "attn.b_Q", n_heads),
                ("attn.W_K", "attn.b_K", kv),
                ("attn.W_V", "attn.b_V", kv),
            ] {
                add(attention, of(weight), vec![heads, d, d_head], TensorKind::Attention);
                add(bias, of(b), vec![heads, d_head], TensorKind::Attention);
            }
            add(attention, of("attn.W_O"), vec![n_heads, d_head, d], TensorKind::Attention);
            let bias = attention && blocks.attention_output_bias;
            add(bias, of("attn.b_O"), vec![d], TensorKind::Attention);
            add(normed && hidden, of("ln2.w"), vec![d], TensorKind::Norm);
            add(centred && hidden, of("ln2.b"), vec![d], TensorKind::Norm);
            let (gated, bias) = (hidden && blocks.gated, hidden && blocks.mlp_bias);
            add(gated, of("mlp.W_gate"), vec![d, m], TensorKind::Hidden);
            add(gated && bias, of("mlp.b_gate"), vec![m], TensorKind::Hidden);
            add(hidden, of("mlp.W_in"), vec![d, m], TensorKind::Hidden);
            add(bias, of("mlp.b_in"), vec![m], TensorKind::Hidden);
            add(hidden, of("mlp.W_out"), vec![m, d], TensorKind::Hidden);
            add(bias, of("mlp.b_out"), vec![d], TensorKind::Hidden);
        }
        let normed = blocks.final_norm && normed;
        add(normed, TensorName::of("ln_final.w"), vec![d], TensorKind::Norm);
        add(normed && centred, TensorName::of("ln_final.b"), vec![d], TensorKind::Norm);
        add(!blocks.tied, TensorName::of("unembed.W_U"), vec![d, d_vocab], TensorKind::Output);
        add(self.output_bias, TensorName::of("unembed.b_U"), vec![d_vocab], TensorKind::Output);
        all
    }

    fn one_layer_tensor_sizes(&self) -> Vec<(TensorName, Vec<u64>, TensorKind)> {
        let Shape { d_vocab, n_ctx, d_model: d, n_heads: h, d_head, d_mlp: m, .. } = self.shape;
        let mut all = vec![(TensorName::of("W_E"), vec![d_vocab, d], TensorKind::Embedding)];
        let mut add = |condition: bool, name, shape, kind| {
            if condition {
                all.push((TensorName::of(name), shape, kind));
            }
        };
        let attention = self.shape.mixer == Mixer::Attention;
        let bias = attention && self.attention_bias;
        let (read, positions) = (self.attention_width(), self.position_width());
        add(self.positions == Positions::Learned, "W_pos", vec![n_ctx, positions], TensorKind::Position);
        add(!attention, "u_pos", vec![n_ctx], TensorKind::Position);
        add(self.bottleneck, "W_down", vec![d, read], TensorKind::Attention);
        for (weight, b) in [("W_Q", "b_Q"), ("W_K", "b_K"), ("W_V", "b_V")] {
            add(attention, weight, vec![h, read, d_head], TensorKind::Attention);
            add(bias, b, vec![h, d_head], TensorKind::Attention);
        }
        add(attention, "W_O", vec![h, d_head, read], TensorKind::Attention);
        add(bias, "b_O", vec![read], TensorKind::Attention);
        add(self.bottleneck, "W_up", vec![read, d], TensorKind::Attention);
        let hidden = self.hidden != Hidden::Absent;
        add(hidden, "W_in", vec![d, m], TensorKind::Hidden);
        add(hidden, "b_in", vec![m], TensorKind::Hidden);
        let residual = self.hidden == Hidden::Residual;
        add(residual, "W_out", vec![m, d], TensorKind::Hidden);
        add(residual && self.residual_bias, "b_out", vec![d], TensorKind::Hidden);
        let read = if self.hidden == Hidden::Output { m } else { d };
        add(true, "W_U", vec![read, d_vocab], TensorKind::Output);
        add(self.output_bias, "b_U", vec![d_vocab], TensorKind::Output);
        all
    }

    /// Returns the tensors with their ranges in the vector of all parameters, for a [`Config::checked`] configuration.
    pub fn tensors(&self) -> Vec<Tensor> {
        let mut start = 0;
        self.tensor_sizes()
            .into_iter()
            .map(|(name, shape, kind)| {
                let shape: Vec<usize> = shape.into_iter().map(|d| d as usize).collect();
                let end = start + shape.iter().product::<usize>();
                Tensor { name, shape, kind, range: std::mem::replace(&mut start, end)..end }
            })
            .collect()
    }

    /// Returns the number of parameters.
    pub fn n_parameters(&self) -> usize {
        self.tensors().last().map_or(0, |t| t.range.end)
    }

    /// Returns the number of parameters of each kind.
    pub fn parameters_by_kind(&self) -> ParametersByKind {
        let of = |kind| self.tensors().iter().filter(|t| t.kind == kind).map(|t| t.range.len() as u128).sum();
        ParametersByKind {
            embedding: of(TensorKind::Embedding),
            position: of(TensorKind::Position),
            attention: of(TensorKind::Attention),
            hidden: of(TensorKind::Hidden),
            output: of(TensorKind::Output),
            norm: of(TensorKind::Norm),
        }
    }

    /// Returns the width of what attention reads and writes: `d_model`, or `d_head` with a bottleneck.
    pub fn attention_width(&self) -> u64 {
        if self.bottleneck { self.shape.d_head } else { self.shape.d_model }
    }

    /// Returns the width of a position vector: that of what it is added to.
    pub fn position_width(&self) -> u64 {
        if self.positions_in_attention { self.attention_width() } else { self.shape.d_model }
    }

    /// Returns the factor of the attention scores.
    pub fn score_factor(&self) -> f64 {
        if self.scale_scores { 1.0 / (self.shape.d_head as f64).sqrt() } else { 1.0 }
    }

    /// Returns the fixed positional encodings, `[n_ctx, position_width]`: column 2i is sin(p w), column 2i + 1 is cos(p w)
    /// with w = 10000^(-2i/d), for p from 0. Empty for any other kind of position.
    ///
    /// The values are rounded to f32, so that a model has the same positions whether it is trained, stored or evaluated in f32
    /// or in f64.
    pub fn sinusoids(&self) -> Vec<f64> {
        if self.positions != Positions::Sinusoidal {
            return Vec::new();
        }
        let d = self.position_width() as usize;
        let at = |p: usize, c: usize| {
            let angle = p as f64 * 10_000f64.powf(-((c - c % 2) as f64) / d as f64);
            let value = if c.is_multiple_of(2) { angle.sin() } else { angle.cos() };
            f64::from(value as f32)
        };
        (0..self.shape.n_ctx as usize).flat_map(|p| (0..d).map(move |c| at(p, c))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        d_vocab: 780,
        n_ctx: 9,
        d_model: 16,
        n_heads: 3,
        d_head: 5,
        d_mlp: 64,
        activation: Activation::Gelu,
        mixer: Mixer::Attention,
        blocks: None,
    };

    #[test]
    fn presets_count_as_their_papers_do() {
        let count = |preset: Preset| preset.config(SHAPE).checked().unwrap().n_parameters() as u128;
        assert_eq!(count(Preset::Madden2024), SHAPE.parameters().total());
        assert_eq!(count(Preset::Average), Shape { mixer: Mixer::Average, ..SHAPE }.parameters().total());
        assert_eq!(count(Preset::Dana2024), Shape { d_mlp: 0, ..SHAPE }.parameters().total());
        // One head of 5 with biases: 780*16 + 4*16*5 + 3*5 + 16 + 16*64 + 64 + 64*780 + 780 = 64,619.
        assert_eq!(count(Preset::Madden2024Experiment), 64_619);
        // Attention alone, and 16*64 + 64 + 64*16 + 16 for the hidden layer.
        assert_eq!(count(Preset::Dana2024Mlp), count(Preset::Dana2024) + 2_128);
        // E, U and P [9, 5]; W_down and W_up; three heads with four 5 x 5 matrices each.
        assert_eq!(count(Preset::Dana2024Published), 2 * 780 * 16 + 9 * 5 + 2 * 16 * 5 + 3 * 4 * 25);
        // One head, and 16*64 + 64 + 64*16 without an output bias.
        assert_eq!(count(Preset::Dana2024PublishedMlp), 2 * 780 * 16 + 9 * 5 + 2 * 16 * 5 + 4 * 25 + 2_112);
        // Where d_model = d_head there is no bottleneck.
        let square = Preset::Dana2024Published.config(Shape { d_head: 16, ..SHAPE });
        assert_eq!(square.n_parameters() as u64, 16 * (9 + 2 * 780 + 4 * 16 * 3));
        for preset in Preset::ALL {
            let config = preset.config(SHAPE);
            assert_eq!(config.parameters_by_kind().total(), count(preset));
            assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
        }
    }

    #[test]
    fn tensors_follow_each_other_without_gaps() {
        for preset in Preset::ALL {
            let tensors = preset.config(SHAPE).tensors();
            assert_eq!(tensors[0].range.start, 0);
            assert!(tensors.windows(2).all(|w| w[0].range.end == w[1].range.start));
            assert!(tensors.iter().all(|t| t.shape.iter().product::<usize>() == t.range.len()));
        }
    }

    #[test]
    fn a_hidden_layer_and_its_neurons_come_together() {
        let config = Preset::Madden2024.config(SHAPE);
        assert!(Config { shape: Shape { d_mlp: 0, ..SHAPE }, ..config }.checked().is_err());
        assert!(Config { hidden: Hidden::Absent, ..config }.checked().is_err());
        let huge = Shape { d_vocab: 1 << 40, d_model: 1 << 40, ..SHAPE };
        assert!(Config { shape: huge, ..config }.checked().is_err());
    }

    #[test]
    fn sinusoids_begin_with_zero_and_one() {
        let sinusoids = Preset::Madden2024Experiment.config(SHAPE).sinusoids();
        assert_eq!(sinusoids.len(), 9 * 16);
        assert_eq!(sinusoids[..4], [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(sinusoids[16..18], [1f64.sin(), 1f64.cos()].map(|x| f64::from(x as f32)));
        assert!(Preset::Madden2024.config(SHAPE).sinusoids().is_empty());
    }
}
