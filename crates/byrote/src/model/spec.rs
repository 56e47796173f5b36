//! Describes a model: a preset of a paper or a family, its dimensions, its switches.

use super::{Activation, Blocks, Config, Hidden, Init, Mixer, Norm, Positions, Preset, Rotary, Shape};
use crate::setting::setters;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A model before its corpus is known. Anything not given follows the preset, or the default named below.
///
/// ```
/// use byrote::model::{ModelSpec, Preset};
/// let config = ModelSpec::default().preset(Preset::Dana2024).d_model(32).n_heads(4).resolve(780, 9)?;
/// assert_eq!((config.shape.d_head, config.shape.d_mlp), (8, 0));
/// assert!(ModelSpec::default().d_model(0).resolve(780, 9).is_err());
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Model"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSpec {
    /// The model of a paper or a family [default: madden2024-experiment, or gpt2 if `n_layers` is given]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub preset: Option<Preset>,
    /// Blocks of attention and hidden layer, for gpt2, gpt-neox, llama, attention-only and averaging [default: 1]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "L"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<u64>,
    /// Width of the residual stream [default: 16, or 64 in a model of blocks]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_model: Option<u64>,
    /// Attention heads [default: 1, or d_model / 16 in a model of blocks]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "H"))]
    pub n_heads: Option<u64>,
    /// Dimension of the queries, keys and values of each head [default: d_model / n_heads, rounded up]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_head: Option<u64>,
    /// Hidden neurons, where there is a hidden layer [default: 512, or 0 if the preset has none; in a model of blocks 4 d_model, gated
    /// 8/3 d_model]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "M"))]
    pub d_mlp: Option<u64>,
    /// The function of the hidden neurons [default: gelu, or as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub activation: Option<Activation>,
    /// How the tokens of a context become one vector [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub mixer: Option<Mixer>,
    /// How positions enter the embedding [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KIND"))]
    pub positions: Option<Positions>,
    /// Where the output of the hidden layer goes [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHERE"))]
    pub hidden: Option<Hidden>,
    /// Biases of the queries, keys, values and attention output [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    pub attention_bias: Option<bool>,
    /// Divide attention scores by sqrt(d_head) [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    pub scale_scores: Option<bool>,
    /// Skip connections [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    pub skip: Option<bool>,
    /// Output bias [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    pub output_bias: Option<bool>,
    /// Add positions only to what attention reads, not to the residual stream [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions_in_attention: Option<bool>,
    /// Share one map to d_head dimensions and one map back among all heads [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<bool>,
    /// Heads of keys and values, shared by the heads of queries [default: n_heads]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "H"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_kv_heads: Option<u64>,
    /// How blocks normalize what they read [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KIND"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// Let attention and hidden layer of a block read the same stream [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<bool>,
    /// Gate the hidden layer of a block [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gated: Option<bool>,
    /// Skip connection around the hidden layer of a block [default: as `skip`]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mlp_skip: Option<bool>,
    /// Biases of the hidden layer of a block [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mlp_bias: Option<bool>,
    /// Use the embedding as output matrix of a model of blocks [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tied: Option<bool>,
    /// Numbers of each query and key that carry rotary positions [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotary_dims: Option<u64>,
    /// How the initial weights are drawn; by default as PyTorch's modules do, or scaled in a model of blocks. The program has no
    /// flag for this: its `--init` names a file.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Init>,
}

setters!(ModelSpec {
    preset: some(Preset),
    n_layers: some(u64),
    d_model: some(u64),
    n_heads: some(u64),
    d_head: some(u64),
    d_mlp: some(u64),
    activation: some(Activation),
    mixer: some(Mixer),
    positions: some(Positions),
    hidden: some(Hidden),
    attention_bias: some(bool),
    scale_scores: some(bool),
    skip: some(bool),
    output_bias: some(bool),
    positions_in_attention: some(bool),
    bottleneck: some(bool),
    n_kv_heads: some(u64),
    norm: some(Norm),
    parallel: some(bool),
    gated: some(bool),
    mlp_skip: some(bool),
    mlp_bias: some(bool),
    tied: some(bool),
    rotary_dims: some(u64),
    init: some(Init),
});

/// The default width of the residual stream, without blocks and with them.
const D_MODEL: u64 = 16;
const D_MODEL_OF_BLOCKS: u64 = 64;
/// The default dimension of a head in a model of blocks.
const D_HEAD_OF_BLOCKS: u64 = 16;
/// The default number of hidden neurons.
const D_MLP: u64 = 512;

impl ModelSpec {
    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the preset, given or by default.
    pub fn preset_or_default(&self) -> Preset {
        match (self.preset, self.n_layers) {
            (Some(preset), _) => preset,
            (None, Some(_)) => Preset::Gpt2,
            (None, None) => Preset::default(),
        }
    }

    /// Returns the width of the residual stream, given or by default.
    pub fn width(&self) -> u64 {
        self.d_model.unwrap_or(if self.preset_or_default().has_blocks() {
            D_MODEL_OF_BLOCKS
        } else {
            D_MODEL
        })
    }

    /// Returns the same with the preset, the dimensions, the activation and the mixer filled in; unchanged if they are
    /// invalid.
    #[must_use]
    pub fn filled(mut self, d_vocab: u64, n_ctx: u64) -> Self {
        let Ok(Config { shape, .. }) = self.resolve(d_vocab, n_ctx) else { return self };
        self.preset = Some(self.preset_or_default());
        self.n_layers = shape.blocks.map(|blocks| blocks.n_layers);
        self.d_model = Some(shape.d_model);
        self.n_heads = Some(shape.n_heads);
        self.d_head = Some(shape.d_head);
        self.d_mlp = Some(shape.d_mlp);
        self.activation = Some(shape.activation);
        self.mixer = Some(shape.mixer);
        self
    }

    /// Makes every check that does not need a corpus, and refuses what was given without any effect.
    pub fn check(&self) -> Result<()> {
        let mixer = self.resolve(1, 1)?.shape.mixer;
        if mixer == Mixer::Attention {
            return Ok(());
        }
        // One head is accepted: plans that compare mixers give it to all of them.
        let idle = |given: Option<u64>| given.is_some_and(|n| n != 1);
        for (name, given) in
            [("n_heads", self.n_heads), ("d_head", self.d_head), ("n_kv_heads", self.n_kv_heads)]
        {
            if idle(given) {
                let message =
                    format!("has no effect with `mixer = {mixer}`, which has no heads; leave it out");
                return Err(Error::setting(name, message));
            }
        }
        Ok(())
    }

    /// Returns the model for a given vocabulary size and longest context.
    pub fn resolve(&self, d_vocab: u64, n_ctx: u64) -> Result<Config> {
        let preset = self.preset_or_default();
        if preset.has_blocks() {
            return self.resolve_blocks(d_vocab, n_ctx);
        }
        self.refuse_settings_of_blocks()?;
        let (d_model, n_heads) = (self.width(), self.n_heads.unwrap_or(1));
        let shape = Shape {
            d_vocab,
            n_ctx,
            d_model,
            n_heads,
            d_head: self.d_head.unwrap_or_else(|| d_model.div_ceil(n_heads.max(1))),
            d_mlp: self.d_mlp.unwrap_or(D_MLP),
            activation: self.activation.unwrap_or_default(),
            mixer: Mixer::default(),
            blocks: None,
        };
        let mut config = preset.config(shape);
        if let Some(given) = self.n_heads.filter(|&h| h != config.shape.n_heads) {
            let message = format!(
                "must be {} with `preset = {preset}` (got {given}); `preset = madden2024` takes any number",
                config.shape.n_heads
            );
            return Err(Error::setting("n_heads", message));
        }
        let set = |given: Option<bool>, switch: &mut bool| *switch = given.unwrap_or(*switch);
        set(self.attention_bias, &mut config.attention_bias);
        set(self.scale_scores, &mut config.scale_scores);
        set(self.skip, &mut config.skip);
        set(self.output_bias, &mut config.output_bias);
        set(self.positions_in_attention, &mut config.positions_in_attention);
        set(self.bottleneck, &mut config.bottleneck);
        config.shape.mixer = self.mixer.unwrap_or(config.shape.mixer);
        config.positions = self.positions.unwrap_or(config.positions);
        config.hidden = self.hidden.unwrap_or(config.hidden);
        // A given number is kept even without a hidden layer, so that the contradiction is reported.
        config.shape.d_mlp = match (config.hidden, self.d_mlp) {
            (_, Some(given)) => given,
            (Hidden::Absent, None) => 0,
            (_, None) => shape.d_mlp,
        };
        config.checked()
    }

    /// A one-layer model has none of these.
    fn refuse_settings_of_blocks(&self) -> Result<()> {
        let preset = self.preset_or_default();
        for (name, given) in [
            ("n_layers", self.n_layers.filter(|&n| n != 1).is_some()),
            ("n_kv_heads", self.n_kv_heads.is_some()),
            ("norm", self.norm.is_some_and(|n| n != Norm::None)),
            ("parallel", self.parallel == Some(true)),
            ("gated", self.gated == Some(true)),
            ("mlp_skip", self.mlp_skip.is_some()),
            ("mlp_bias", self.mlp_bias.is_some()),
            ("tied", self.tied == Some(true)),
            ("rotary_dims", self.rotary_dims.is_some()),
        ] {
            if given {
                let message = format!(
                    "needs a model of blocks, but `preset = {preset}` has one layer; `preset = gpt2` has any number"
                );
                return Err(Error::setting(name, message));
            }
        }
        Ok(())
    }

    fn resolve_blocks(&self, d_vocab: u64, n_ctx: u64) -> Result<Config> {
        let preset = self.preset_or_default();
        let d_model = self.width();
        let n_heads = self.n_heads.unwrap_or((d_model / D_HEAD_OF_BLOCKS).max(1));
        let shape = Shape {
            d_vocab,
            n_ctx,
            d_model,
            n_heads,
            d_head: self.d_head.unwrap_or_else(|| d_model.div_ceil(n_heads.max(1))),
            d_mlp: 4 * d_model,
            ..Shape::default()
        };
        let mut config = preset.config(shape);
        let Some(mut blocks) = config.shape.blocks else { return config.checked() };
        blocks.n_layers = self.n_layers.unwrap_or(1);
        blocks.n_kv_heads = self.n_kv_heads.unwrap_or(n_heads);
        let set = |given: Option<bool>, switch: &mut bool| *switch = given.unwrap_or(*switch);
        set(self.attention_bias, &mut config.attention_bias);
        set(self.attention_bias, &mut blocks.attention_output_bias);
        set(self.scale_scores, &mut config.scale_scores);
        set(self.skip, &mut config.skip);
        set(self.skip, &mut blocks.mlp_skip);
        set(self.output_bias, &mut config.output_bias);
        set(self.positions_in_attention, &mut config.positions_in_attention);
        set(self.bottleneck, &mut config.bottleneck);
        set(self.parallel, &mut blocks.parallel);
        set(self.gated, &mut blocks.gated);
        set(self.mlp_skip, &mut blocks.mlp_skip);
        set(self.mlp_bias, &mut blocks.mlp_bias);
        set(self.tied, &mut blocks.tied);
        if let Some(norm) = self.norm {
            (blocks.norm, blocks.final_norm) = (norm, norm != Norm::None);
        }
        config.shape.activation = self.activation.unwrap_or(config.shape.activation);
        config.shape.mixer = self.mixer.unwrap_or(config.shape.mixer);
        config.hidden = self.hidden.unwrap_or(config.hidden);
        config.shape.d_mlp = match (config.hidden, self.d_mlp) {
            (_, Some(given)) => given,
            (Hidden::Absent, None) => 0,
            (_, None) if blocks.gated => (8 * d_model).div_ceil(3).next_multiple_of(8),
            (_, None) => 4 * d_model,
        };
        // Other mixers than attention have nothing to rotate.
        let unfit = config.positions == Positions::Rotary && config.shape.mixer != Mixer::Attention;
        let by_preset = if unfit { Positions::Learned } else { config.positions };
        config.positions = self.positions.unwrap_or(by_preset);
        blocks.rotary = self.rotary(&config, &blocks);
        config.shape.blocks = Some(blocks);
        config.checked()
    }

    fn rotary(&self, config: &Config, blocks: &Blocks) -> Option<Rotary> {
        let default = Rotary { dims: config.shape.d_head & !1, theta: 10_000.0, scaling: None };
        let rotary = blocks.rotary.unwrap_or(default);
        let rotary = Rotary { dims: self.rotary_dims.unwrap_or(rotary.dims), ..rotary };
        (config.positions == Positions::Rotary || self.rotary_dims.is_some()).then_some(rotary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_follows_the_preset() {
        let config = ModelSpec::default().resolve(10, 5).unwrap();
        assert_eq!((config.shape.d_model, config.shape.n_heads, config.shape.d_mlp), (16, 1, 512));
        assert_eq!(config.positions, Positions::Sinusoidal);
        let config = ModelSpec::default().preset(Preset::Average).skip(true).resolve(10, 5).unwrap();
        assert_eq!((config.shape.mixer, config.skip), (Mixer::Average, true));
    }

    #[test]
    fn heads_without_attention_are_refused_where_they_are_given() {
        let message = |spec: ModelSpec| spec.check().unwrap_err().to_string();
        let averaging = ModelSpec::default().preset(Preset::Averaging);
        assert!(message(averaging.n_heads(5)).starts_with("n_heads: has no effect with `mixer = average`"));
        let gpt2 = ModelSpec::default().preset(Preset::Gpt2).mixer(Mixer::None);
        assert!(message(gpt2.n_kv_heads(3)).starts_with("n_kv_heads: "));
        assert!(message(ModelSpec::default().preset(Preset::Average).d_head(3)).starts_with("d_head: "));
        assert!(averaging.n_heads(1).check().is_ok());
        // Filled in, heads are there whatever the mixer.
        assert!(averaging.filled(10, 3).resolve(10, 3).is_ok());
    }

    #[test]
    fn a_missing_hidden_layer_is_reported_with_what_suits_the_model() {
        let message = |spec: ModelSpec| spec.check().unwrap_err().to_string();
        let gpt2 = ModelSpec::default().preset(Preset::Gpt2);
        assert!(message(gpt2.d_mlp(0)).contains("`hidden = absent` leaves the layer out"));
        let absent = message(gpt2.hidden(Hidden::Absent).d_mlp(5));
        assert!(absent.contains("`hidden = residual` adds one") && !absent.contains("output"), "{absent}");
        let dana = message(ModelSpec::default().preset(Preset::Dana2024).d_mlp(5));
        assert!(dana.contains("`hidden = output` or `hidden = residual`"), "{dana}");
    }

    #[test]
    fn contradictions_name_their_field() {
        let name = |spec: ModelSpec| spec.check().unwrap_err().setting_name();
        assert_eq!(name(ModelSpec::default().n_heads(2)), Some("n_heads"));
        assert_eq!(name(ModelSpec::default().preset(Preset::Dana2024).d_mlp(8)), Some("d_mlp"));
        assert_eq!(name(ModelSpec::default().hidden(Hidden::Output).d_mlp(0)), Some("d_mlp"));
        assert_eq!(name(ModelSpec::default().d_model(0)), Some("d_model"));
    }
}
