//! The model options of the commands that make one.

use byrote::model::{Activation, Config, Hidden, Mixer, Positions, Preset, Shape};
use byrote::{Error, Result};
use clap::{Args, ValueEnum};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// madden2024, madden2024-experiment, dana2024, dana2024-mlp or average [default: madden2024-experiment]
    #[arg(long, value_name = "NAME", value_parser = |s: &str| s.parse::<Preset>().map_err(|e| e.to_string()))]
    pub preset: Option<Preset>,
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// How positions enter [default: as the preset]
    #[arg(long, value_name = "KIND")]
    pub positions: Option<PositionsArg>,
    /// Where the hidden layer leads [default: as the preset]
    #[arg(long, value_name = "WHERE")]
    pub hidden: Option<HiddenArg>,
    /// Biases of queries, keys, values and attention output [default: as the preset]
    #[arg(long, value_name = "BOOL")]
    pub attention_bias: Option<bool>,
    /// Divide attention scores by sqrt(d_head) [default: as the preset]
    #[arg(long, value_name = "BOOL")]
    pub scale_scores: Option<bool>,
    /// Skip connections [default: as the preset]
    #[arg(long, value_name = "BOOL")]
    pub skip: Option<bool>,
    /// A bias of the output [default: as the preset]
    #[arg(long, value_name = "BOOL")]
    pub output_bias: Option<bool>,
}

/// The dimensions of a model, shared by every command that takes one.
#[derive(Debug, Clone, Args)]
pub struct ShapeArgs {
    /// Width of the residual stream [default: 16]
    #[arg(long, allow_negative_numbers = true, value_name = "D")]
    pub d_model: Option<u64>,
    /// Attention heads [default: 1; in `bounds` 4]
    #[arg(long, allow_negative_numbers = true, value_name = "H")]
    pub n_heads: Option<u64>,
    /// Dimension of queries, keys and values of a head [default: d_model / n_heads, rounded up]
    #[arg(long, allow_negative_numbers = true, value_name = "D")]
    pub d_head: Option<u64>,
    /// Hidden neurons; 0 is attention alone [default: 512, or 0 where the preset has no hidden layer; in `bounds` 0]
    #[arg(long, allow_negative_numbers = true, value_name = "M")]
    pub d_mlp: Option<u64>,
    /// gelu, gelu-tanh, tanh, logistic, arctan, relu or erf [default: gelu]
    #[arg(long, value_name = "NAME", value_parser = |s: &str| s.parse::<Activation>().map_err(|e| e.to_string()))]
    pub activation: Option<Activation>,
    /// attention or average [default: as the preset; in `bounds` attention]
    #[arg(long, value_name = "NAME", value_parser = |s: &str| s.parse::<Mixer>().map_err(|e| e.to_string()))]
    pub mixer: Option<Mixer>,
}

impl ShapeArgs {
    /// Whether nothing of this was typed.
    pub fn is_empty(&self) -> bool {
        let sizes = [self.d_model, self.n_heads, self.d_head, self.d_mlp];
        sizes.iter().all(Option::is_none) && self.activation.is_none() && self.mixer.is_none()
    }

    /// The shape that was typed, with these numbers of heads and neurons where none were.
    pub fn shape(&self, d_vocab: u64, n_ctx: u64, n_heads: u64, d_mlp: u64) -> Shape {
        let (d_model, n_heads) = (self.d_model.unwrap_or(16), self.n_heads.unwrap_or(n_heads));
        Shape {
            d_vocab,
            n_ctx,
            d_model,
            n_heads,
            d_head: self.d_head.unwrap_or_else(|| d_model.div_ceil(n_heads.max(1))),
            d_mlp: self.d_mlp.unwrap_or(d_mlp),
            activation: self.activation.unwrap_or_default(),
            mixer: self.mixer.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PositionsArg {
    Sinusoidal,
    Learned,
    None,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum HiddenArg {
    Absent,
    Output,
    Residual,
}

impl ModelArgs {
    /// Whether nothing of this was typed.
    pub fn is_empty(&self) -> bool {
        let switches = [self.attention_bias, self.scale_scores, self.skip, self.output_bias];
        self.shape.is_empty()
            && switches.iter().all(Option::is_none)
            && self.preset.is_none()
            && self.positions.is_none()
            && self.hidden.is_none()
    }

    /// The model that was typed, with the preset and the defaults for what was not.
    pub fn config(&self, d_vocab: u64, n_ctx: u64) -> Result<Config> {
        let preset = self.preset.unwrap_or(Preset::Madden2024Experiment);
        let shape = self.shape.shape(d_vocab, n_ctx, 1, 512);
        let mut config = preset.config(shape);
        if let Some(typed) = self.shape.n_heads.filter(|&h| h != config.shape.n_heads) {
            let message =
                format!("{typed}; the preset {preset} has one head (--preset madden2024 has any number)");
            return Err(Error::setting("n_heads", message));
        }
        if let Some(mixer) = self.shape.mixer {
            config.shape.mixer = mixer;
        }
        if let Some(positions) = self.positions {
            config.positions = match positions {
                PositionsArg::Sinusoidal => Positions::Sinusoidal,
                PositionsArg::Learned => Positions::Learned,
                PositionsArg::None => Positions::None,
            };
        }
        if let Some(hidden) = self.hidden {
            config.hidden = match hidden {
                HiddenArg::Absent => Hidden::Absent,
                HiddenArg::Output => Hidden::Output,
                HiddenArg::Residual => Hidden::Residual,
            };
        }
        // Neurons are there where there is a hidden layer; a number that was typed is kept, so that a contradiction shows.
        config.shape.d_mlp = match (config.hidden, self.shape.d_mlp) {
            (_, Some(typed)) => typed,
            (Hidden::Absent, None) => 0,
            (_, None) => shape.d_mlp,
        };
        let switches = [
            (self.attention_bias, &mut config.attention_bias),
            (self.scale_scores, &mut config.scale_scores),
            (self.skip, &mut config.skip),
            (self.output_bias, &mut config.output_bias),
        ];
        for (typed, switch) in switches {
            *switch = typed.unwrap_or(*switch);
        }
        config.checked()
    }
}
