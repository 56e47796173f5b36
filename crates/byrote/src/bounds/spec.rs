//! Which model bounds are evaluated for: a shape, or any model of a number of parameters.

use crate::model::{Activation, Mixer, Shape};
use crate::setting::setters;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The size of a model, as far as bounds ask for it.
///
/// Not a [`ModelSpec`](crate::model::ModelSpec), although the names of the dimensions are the same: bounds are about shapes, and
/// a model to train has a preset, which decides what is not given. A bound without a hidden layer (`d_mlp` 0) is one about
/// attention alone; a model is trained with one unless its preset has none.
///
/// ```
/// use byrote::bounds::SizeSpec;
/// let shape = SizeSpec::default().d_model(64).d_mlp(256).shape(Some(780), 9)?;
/// assert_eq!(shape.map(|s| (s.n_heads, s.d_head)), Some((4, 16)));
/// assert_eq!(SizeSpec::default().shape(None, 9)?, None);
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Model"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SizeSpec {
    /// Width of the residual stream [default: 16]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_model: Option<u64>,
    /// Attention heads [default: 4]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "H"))]
    pub n_heads: Option<u64>,
    /// Dimension of the queries, keys and values of each head [default: d_model / n_heads, rounded up]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "D"))]
    pub d_head: Option<u64>,
    /// Hidden neurons; 0 means attention only [default: 0]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "M"))]
    pub d_mlp: Option<u64>,
    /// The function of the hidden neurons [default: gelu]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub activation: Option<Activation>,
    /// How the tokens of a context become one vector [default: attention]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub mixer: Option<Mixer>,
    /// Instead of a shape: a model of any kind with this many parameters
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "K", conflicts_with_all = ["d_model", "n_heads", "d_head", "d_mlp", "activation", "mixer"])
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
    d_model: some(u64),
    n_heads: some(u64),
    d_head: some(u64),
    d_mlp: some(u64),
    activation: some(Activation),
    mixer: some(Mixer),
    parameters: some(u64),
    bits_per_parameter: plain(u32),
    operations: some(u64),
});

/// The default number of bits per parameter.
const BITS: u32 = 32;

impl Default for SizeSpec {
    fn default() -> Self {
        Self {
            d_model: None,
            n_heads: None,
            d_head: None,
            d_mlp: None,
            activation: None,
            mixer: None,
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
        sizes.iter().any(Option::is_some) || self.activation.is_some() || self.mixer.is_some()
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
        };
        shape.checked().map(Some)
    }
}
