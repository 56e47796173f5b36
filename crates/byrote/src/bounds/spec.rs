//! Which model bounds are evaluated for: a shape, or any model of a number of parameters.

use super::{CorpusFacts, Situation};
use crate::corpus::{Summary, Window};
use crate::model::{Activation, Config, Hidden, Mixer, ModelSpec, Norm, Positions, Preset, Shape};
use crate::setting::setters;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The size of a model, as far as bounds ask for it.
///
/// A one-layer transformer is given by its dimensions alone. That is not a [`ModelSpec`], although the names are the same: bounds are
/// about shapes, and a model to train has a preset, which decides what is not given. A bound without a hidden layer (`d_mlp` 0) is
/// one about attention alone; a model is trained with one unless its preset has none. A model of blocks has a preset or a number of
/// layers; its dimensions, defaults and switches are those of the [`ModelSpec`].
///
/// ```
/// use byrote::bounds::SizeSpec;
/// let shape = SizeSpec::default().d_model(64).d_mlp(256).shape(Some(780), 9)?;
/// assert_eq!(shape.map(|s| (s.n_heads, s.d_head)), Some((4, 16)));
/// assert_eq!(SizeSpec::default().shape(None, 9)?, None);
/// let deep = SizeSpec::default().n_layers(4).d_model(64).model(Some(780), 9)?;
/// assert_eq!(deep.map(|m| m.shape.d_mlp), Some(256));
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Model"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SizeSpec {
    /// A family of models of blocks: gpt2, gpt-neox, llama, attention-only or averaging [default: gpt2 if `n_layers` is given, else
    /// a one-layer transformer]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Blocks of attention and hidden layer
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "L"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<u64>,
    /// Width of the residual stream [default: 16, or 64 in a model of blocks]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_model: Option<u64>,
    /// Attention heads [default: 4, or d_model / 16 in a model of blocks]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "H"))]
    pub n_heads: Option<u64>,
    /// Dimension of the queries, keys and values of each head [default: d_model / n_heads, rounded up]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_head: Option<u64>,
    /// Hidden neurons; 0 means attention only [default: 0; in a model of blocks 4 d_model, gated 8/3 d_model]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "M"))]
    pub d_mlp: Option<u64>,
    /// The function of the hidden neurons [default: gelu, or as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub activation: Option<Activation>,
    /// How the tokens of a context become one vector [default: attention, or as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub mixer: Option<Mixer>,
    /// How blocks normalize what they read [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KIND"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// How positions enter a model of blocks [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KIND"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<Positions>,
    /// Skip connections of a model of blocks [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<bool>,
    /// Use the embedding as output matrix of a model of blocks [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tied: Option<bool>,
    /// Output bias of a model of blocks [default: as the preset]
    #[cfg_attr(feature = "clap", arg(long, value_name = "BOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bias: Option<bool>,
    /// Instead of a shape: a model of any kind with this many parameters
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "K", conflicts_with_all = [
            "preset", "n_layers", "d_model", "n_heads", "d_head", "d_mlp", "activation", "mixer", "norm", "positions", "skip", "tied",
            "output_bias",
        ])
    )]
    pub parameters: Option<u64>,
    /// Bits per parameter, for the limits that count bits
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "B", default_value_t = BITS)
    )]
    pub bits_per_parameter: u32,
    /// Arithmetic operations per prediction, for the bound that depends on them
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "T"))]
    pub operations: Option<u64>,
}

setters!(SizeSpec {
    preset: some(Preset),
    n_layers: some(u64),
    d_model: some(u64),
    n_heads: some(u64),
    d_head: some(u64),
    d_mlp: some(u64),
    activation: some(Activation),
    mixer: some(Mixer),
    norm: some(Norm),
    positions: some(Positions),
    skip: some(bool),
    tied: some(bool),
    output_bias: some(bool),
    parameters: some(u64),
    bits_per_parameter: plain(u32),
    operations: some(u64),
});

/// The default number of bits per parameter.
const BITS: u32 = 32;

impl Default for SizeSpec {
    fn default() -> Self {
        Self {
            preset: None,
            n_layers: None,
            d_model: None,
            n_heads: None,
            d_head: None,
            d_mlp: None,
            activation: None,
            mixer: None,
            norm: None,
            positions: None,
            skip: None,
            tied: None,
            output_bias: None,
            parameters: None,
            bits_per_parameter: BITS,
            operations: None,
        }
    }
}

impl SizeSpec {
    /// Whether a shape is given.
    pub fn has_shape(&self) -> bool {
        let sizes = [self.d_model, self.n_heads, self.d_head, self.d_mlp];
        let choices = self.activation.is_some() || self.mixer.is_some();
        sizes.iter().any(Option::is_some) || choices || self.has_blocks() || self.switch_of_blocks().is_some()
    }

    /// Whether it is a model of blocks.
    pub fn has_blocks(&self) -> bool {
        self.preset.is_some() || self.n_layers.is_some()
    }

    /// A setting that only models of blocks have.
    fn switch_of_blocks(&self) -> Option<&'static str> {
        let switches = [
            ("norm", self.norm.is_some()),
            ("positions", self.positions.is_some()),
            ("skip", self.skip.is_some()),
            ("tied", self.tied.is_some()),
            ("output_bias", self.output_bias.is_some()),
        ];
        switches.into_iter().find_map(|(name, given)| given.then_some(name))
    }

    /// Makes every check that needs no corpus.
    pub fn check(&self) -> Result<()> {
        if self.parameters.is_some() && self.has_shape() {
            return Err(Error::setting("parameters", "cannot be combined with a shape"));
        }
        if !(1..=1 << 20).contains(&self.bits_per_parameter) {
            let message = format!("must be from 1 to {} (got {})", 1 << 20, self.bits_per_parameter);
            return Err(Error::setting("bits_per_parameter", message));
        }
        self.shape(Some(1), 1).map(|_| ())
    }

    /// The situation that bounds are evaluated for: this model and a corpus, or one of them. Where `d_vocab` and `n_ctx` are not given,
    /// they are those of the corpus.
    pub fn situation(
        &self,
        summary: Option<&Summary>,
        d_vocab: Option<u64>,
        n_ctx: Option<u32>,
    ) -> Result<Situation> {
        if d_vocab == Some(0) {
            return Err(Error::setting("d_vocab", "must be at least 1 (got 0)"));
        }
        let n_ctx = n_ctx.or(summary.map(|s| s.n_ctx)).unwrap_or(Window::default().n_ctx);
        let n_ctx = u64::from(n_ctx);
        let size = d_vocab.or(summary.map(|s| s.d_vocab));
        Ok(Situation::default()
            .corpus(summary.map(CorpusFacts::from))
            .of_model(self.model(size, n_ctx)?)
            .shape(self.shape(size, n_ctx)?)
            .parameters(self.parameters)
            .d_vocab(d_vocab)
            .n_ctx(self.parameters.map(|_| n_ctx))
            .operations(self.operations)
            .bits_per_parameter(self.bits_per_parameter))
    }

    /// The shape for a vocabulary and a longest context, with defaults for what is not given; `None` if nothing is.
    pub fn shape(&self, d_vocab: Option<u64>, n_ctx: u64) -> Result<Option<Shape>> {
        if !self.has_shape() {
            return Ok(None);
        }
        let d_vocab = d_vocab.ok_or_else(|| {
            Error::setting(
                "d_vocab",
                "a shape needs the size of its vocabulary, or a corpus such as `builtin = 1000`",
            )
        })?;
        if self.has_blocks() {
            return self.of_blocks(d_vocab, n_ctx).map(|config| Some(config.shape));
        }
        if let Some(name) = self.switch_of_blocks() {
            return Err(Error::setting(name, "needs a model of blocks; add `n_layers` or `preset`"));
        }
        let (d_model, n_heads) = (self.d_model.unwrap_or(16), self.n_heads.unwrap_or(4));
        let shape = Shape {
            d_vocab,
            n_ctx,
            d_model,
            n_heads,
            d_head: self.d_head.unwrap_or_else(|| d_model.div_ceil(n_heads.max(1))),
            d_mlp: self.d_mlp.unwrap_or(0),
            activation: self.activation.unwrap_or_default(),
            mixer: self.mixer.unwrap_or_default(),
            blocks: None,
        };
        shape.checked().map(Some)
    }

    /// The model of blocks for a vocabulary and a longest context; `None` if it is not one.
    pub fn model(&self, d_vocab: Option<u64>, n_ctx: u64) -> Result<Option<Config>> {
        match d_vocab.filter(|_| self.has_blocks()) {
            Some(d_vocab) => self.of_blocks(d_vocab, n_ctx).map(Some),
            None => self.shape(d_vocab, n_ctx).map(|_| None),
        }
    }

    fn of_blocks(&self, d_vocab: u64, n_ctx: u64) -> Result<Config> {
        if let Some(preset) = self.preset.filter(|p| !p.has_blocks()) {
            let message = format!(
                "`{preset}` has one layer, which is given by its dimensions alone, without a preset; gpt2, gpt-neox, llama, \
                 attention-only and averaging have blocks"
            );
            return Err(Error::setting("preset", message));
        }
        let spec = ModelSpec {
            preset: self.preset,
            n_layers: self.n_layers,
            d_model: self.d_model,
            n_heads: self.n_heads,
            d_head: self.d_head,
            d_mlp: self.d_mlp,
            activation: self.activation,
            mixer: self.mixer,
            norm: self.norm,
            positions: self.positions,
            skip: self.skip,
            tied: self.tied,
            output_bias: self.output_bias,
            hidden: (self.d_mlp == Some(0)).then_some(Hidden::Absent),
            ..ModelSpec::default()
        };
        spec.resolve(d_vocab, n_ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_make_a_model_of_blocks_with_the_defaults_of_training() {
        let spec = SizeSpec::default().n_layers(4).d_model(64);
        let config = spec.model(Some(780), 9).unwrap().unwrap();
        assert_eq!(config, ModelSpec::default().n_layers(4).d_model(64).resolve(780, 9).unwrap());
        assert_eq!(spec.shape(Some(780), 9).unwrap(), Some(config.shape));
        let alone = SizeSpec::default().n_layers(2).d_mlp(0).model(Some(9), 3).unwrap().unwrap();
        assert_eq!((alone.hidden, alone.shape.d_mlp), (Hidden::Absent, 0));
        assert_eq!(SizeSpec::default().d_model(64).model(Some(780), 9).unwrap(), None);
    }

    #[test]
    fn contradictions_name_their_field() {
        let name = |spec: SizeSpec| spec.check().unwrap_err().setting_name();
        assert_eq!(name(SizeSpec::default().norm(Norm::Rms)), Some("norm"));
        assert_eq!(name(SizeSpec::default().preset(Preset::Dana2024)), Some("preset"));
        assert_eq!(name(SizeSpec::default().n_layers(0)), Some("n_layers"));
        assert_eq!(name(SizeSpec::default().n_layers(2).parameters(5)), Some("parameters"));
    }
}
