//! The blocks of a decoder of many layers.
//!
//! With L blocks, a residual stream x_t per token of the context, and a mixer and a hidden layer per block:
//!
//! ```text
//! x_t = W_E[token_t] (+ W_pos[t])
//! for each block:  x_t += Mix(norm1(x))_t;   x_t += MLP(norm2(x_t))             one after the other, or
//!                  x_t += Mix(norm1(x))_t + MLP(norm2(x_t))                     in parallel
//! logits = norm_f(x_last) W_U (+ b_U)                                           W_U = W_E^T if tied
//! ```
//!
//! | part | formula |
//! |---|---|
//! | LayerNorm | w (x - mean x) / sqrt(var x + eps) + b |
//! | RMSNorm | w x / sqrt(mean x^2 + eps) |
//! | attention | every token attends to itself and to those before it; `n_kv_heads` heads of keys and values serve `n_heads` queries |
//! | rotary positions | the first `dims` numbers of every query and key are rotated by angles proportional to the position, from 0: number i with number i + dims / 2 |
//! | averaging | sum over s <= t of u_pos[s] y_s |
//! | MLP | psi(y W_in + b_in) W_out + b_out, or gated: (psi(y W_gate + b_gate) (y W_in + b_in)) W_out + b_out |
//!
//! GPT-2, GPT-NeoX and Llama are settings of these switches ([`super::Preset`]). A model of blocks sees every token of the
//! context in every block, so one block is not the one-layer transformer of the papers, which attends from the last token
//! only; without normalization and with skip connections the two compute the same.

use super::config::Config;
use super::shape::{Mixer, Shape};
use super::{Hidden, Positions};
use crate::setting::choices;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// How the residual stream is normalized before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Norm {
    /// Not at all.
    #[default]
    None,
    /// LayerNorm: mean 0 and variance 1, times a gain, plus a bias.
    Layer,
    /// RMSNorm: mean square 1, times a gain.
    Rms,
}

choices!(Norm, "norm" { None = "none", Layer = "layer", Rms = "rms" });

/// Rotary positions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotary {
    /// How many numbers of each query and key are rotated; the rest carries no position.
    pub dims: u64,
    /// The base of the frequencies theta^(-2i/dims).
    pub theta: f64,
    /// How the frequencies are scaled for long contexts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<RotaryScaling>,
}

/// Frequencies of rotary positions scaled for contexts longer than those first trained on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub enum RotaryScaling {
    /// Every frequency divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3: low frequencies divided by a factor, high ones kept, those between interpolated.
    Llama3 {
        /// The factor of the low frequencies.
        factor: f64,
        /// Wavelengths above the original context divided by this are low frequencies.
        low_freq_factor: f64,
        /// Wavelengths below the original context divided by this are high frequencies.
        high_freq_factor: f64,
        /// The context first trained on.
        original_n_ctx: u64,
    },
}

impl Rotary {
    /// Returns the angle per position of each rotated pair, `[dims / 2]`.
    pub fn frequencies(&self) -> Vec<f64> {
        let plain = (0..self.dims / 2).map(|i| self.theta.powf(-((2 * i) as f64) / self.dims as f64));
        plain.map(|f| self.scaled(f)).collect()
    }

    /// Whether every frequency is finite, found without computing all of them: they lie between the first and the last, or between
    /// these divided by the factor.
    fn is_finite(&self) -> bool {
        let last = self.theta.powf(-(self.dims.saturating_sub(2) as f64) / self.dims as f64);
        let factor = match self.scaling {
            None => 1.0,
            Some(RotaryScaling::Linear { factor } | RotaryScaling::Llama3 { factor, .. }) => factor,
        };
        [1.0, last].iter().all(|f| f.is_finite() && (f / factor).is_finite())
    }

    fn scaled(&self, frequency: f64) -> f64 {
        match self.scaling {
            None => frequency,
            Some(RotaryScaling::Linear { factor }) => frequency / factor,
            Some(RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_n_ctx }) => {
                let periods = original_n_ctx as f64 * frequency / std::f64::consts::TAU;
                if periods < low_freq_factor {
                    return frequency / factor;
                }
                if periods > high_freq_factor {
                    return frequency;
                }
                let kept = (periods - low_freq_factor) / (high_freq_factor - low_freq_factor);
                frequency * ((1.0 - kept) / factor + kept)
            }
        }
    }

    /// Returns cosines and sines of all positions below `n_ctx`, `[n_ctx, dims / 2]` each.
    pub fn tables(&self, n_ctx: usize) -> (Vec<f64>, Vec<f64>) {
        let frequencies = self.frequencies();
        (0..n_ctx)
            .flat_map(|p| frequencies.iter().map(move |f| p as f64 * f))
            .map(|a| (a.cos(), a.sin()))
            .unzip()
    }
}

/// The blocks of a model, apart from the dimensions that all blocks share ([`Shape`]) and the switches that one-layer
/// transformers have as well ([`Config`]). All fields are public on purpose: this is plain data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// The number of blocks, L.
    pub n_layers: u64,
    /// Heads of keys and values; each serves `n_heads / n_kv_heads` heads of queries.
    pub n_kv_heads: u64,
    /// How the stream is normalized before the mixer and the hidden layer read it.
    pub norm: Norm,
    /// The eps of the normalization.
    pub norm_eps: f64,
    /// Whether the stream is normalized before the output reads it.
    pub final_norm: bool,
    /// Whether the mixer and the hidden layer of a block read the same stream.
    pub parallel: bool,
    /// Whether the hidden layer is gated.
    pub gated: bool,
    /// Whether the output of attention has a bias.
    pub attention_output_bias: bool,
    /// Whether the hidden layer has biases.
    pub mlp_bias: bool,
    /// Whether the hidden layer adds to its input; `Config::skip` says it of the mixer.
    pub mlp_skip: bool,
    /// Whether the output is the transposed embedding.
    pub tied: bool,
    /// Rotary positions, with [`Positions::Rotary`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotary: Option<Rotary>,
}

impl Blocks {
    /// The most blocks of a model.
    pub const MAX_LAYERS: u64 = 1 << 12;

    /// Refuses what contradicts itself or the rest of the configuration.
    pub(super) fn check(&self, config: &Config) -> Result<()> {
        let refuse = |name, message: String| Err(Error::setting(name, message));
        let Shape { n_heads, d_head, mixer, .. } = config.shape;
        if !(1..=Self::MAX_LAYERS).contains(&self.n_layers) {
            return refuse(
                "n_layers",
                format!("must be from 1 to {} (got {})", Self::MAX_LAYERS, self.n_layers),
            );
        }
        let attention = mixer == Mixer::Attention;
        if attention && (self.n_kv_heads == 0 || !n_heads.is_multiple_of(self.n_kv_heads)) {
            return refuse(
                "n_kv_heads",
                format!("must divide `n_heads` = {n_heads} (got {})", self.n_kv_heads),
            );
        }
        if !(self.norm_eps >= 0.0 && self.norm_eps.is_finite()) {
            return refuse("norm_eps", format!("must be finite and at least 0 (got {})", self.norm_eps));
        }
        if self.final_norm && self.norm == Norm::None {
            return refuse("final_norm", "needs `norm = layer` or `norm = rms`".into());
        }
        if config.hidden == Hidden::Output {
            return refuse(
                "hidden",
                "a model of blocks needs `hidden = residual` or `hidden = absent`".into(),
            );
        }
        if self.parallel && !self.mlp_skip {
            let message = "must be on in parallel blocks: what the mixer adds to the stream would be lost";
            return refuse("mlp_skip", message.into());
        }
        if config.hidden == Hidden::Absent && (self.gated || self.parallel) {
            let name = if self.gated { "gated" } else { "parallel" };
            return refuse(name, "needs a hidden layer (`hidden = residual`)".into());
        }
        for (name, switch) in [
            ("positions_in_attention", config.positions_in_attention),
            ("bottleneck", config.bottleneck),
            ("positions", config.positions == Positions::Sinusoidal),
        ] {
            if switch {
                let message = if name == "positions" { "sinusoidal positions are" } else { "is" };
                return refuse(name, format!("{message} not available in a model of blocks"));
            }
        }
        match (config.positions == Positions::Rotary, self.rotary) {
            (true, Some(_)) if attention && d_head < 2 => {
                let message = format!(
                    "must be at least 2 with rotary positions (got {d_head}); unless given, it is `d_model` / `n_heads`"
                );
                refuse("d_head", message)
            }
            (true, None) if attention => {
                refuse("rotary", "is missing; `positions = rotary` needs its dims and theta".into())
            }
            (true, Some(r)) if attention => {
                if r.dims < 2 || r.dims > d_head || !r.dims.is_multiple_of(2) {
                    let message = format!("must be even and from 2 to `d_head` = {d_head} (got {})", r.dims);
                    return refuse("rotary_dims", message);
                }
                if !(r.theta > 0.0 && r.is_finite()) {
                    return refuse("rotary_theta", format!("must be finite and above 0 (got {})", r.theta));
                }
                Ok(())
            }
            (true, _) => refuse("positions", "rotary positions need attention".into()),
            (false, Some(_)) => refuse("positions", "must be rotary to have rotary settings".into()),
            (false, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelSpec, Preset};

    #[test]
    fn rotary_positions_name_what_they_lack() {
        let llama = ModelSpec::default().preset(Preset::Llama);
        for narrow in [llama.d_model(1), llama.d_model(4).n_heads(4)] {
            let error = narrow.check().unwrap_err();
            assert_eq!(error.setting_name(), Some("d_head"));
            assert!(error.to_string().contains("at least 2 with rotary positions (got 1)"), "{error}");
        }
        let mut config = llama.resolve(5, 3).unwrap();
        config.shape.blocks.as_mut().unwrap().rotary = None;
        let error = config.checked().unwrap_err();
        assert_eq!(error.setting_name(), Some("rotary"));
        assert!(error.to_string().contains("is missing"), "{error}");
        let error = llama.mixer(Mixer::Average).positions(Positions::Rotary).check().unwrap_err();
        assert!(error.to_string().contains("need attention"), "{error}");
    }

    #[test]
    fn frequencies_fall_from_one_by_equal_factors() {
        let rotary = Rotary { dims: 4, theta: 100.0, scaling: None };
        assert_eq!(rotary.frequencies(), [1.0, 0.1]);
        let (cos, sin) = rotary.tables(3);
        assert_eq!((cos.len(), cos[0], sin[1]), (6, 1.0, 0.0));
        assert!((sin[4] - 2f64.sin()).abs() < 1e-15 && (cos[5] - 0.2f64.cos()).abs() < 1e-15);
    }

    #[test]
    fn infinite_frequencies_are_noticed_without_computing_all() {
        let plain = Rotary { dims: 64, theta: 10_000.0, scaling: None };
        let linear = |factor| Rotary { scaling: Some(RotaryScaling::Linear { factor }), ..plain };
        for rotary in [plain, linear(1e-320), linear(8.0), Rotary { theta: f64::INFINITY, ..plain }] {
            assert_eq!(rotary.is_finite(), rotary.frequencies().iter().all(|f| f.is_finite()), "{rotary:?}");
        }
        assert!(
            !Rotary { theta: f64::NAN, ..plain }.is_finite()
                && !Rotary { theta: 1e-320, dims: 1 << 40, ..plain }.is_finite()
        );
        assert!(Rotary { dims: 1 << 40, ..plain }.is_finite());
    }

    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        let scaling = RotaryScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_n_ctx: 8192,
        };
        let plain = Rotary { dims: 64, theta: 500_000.0, scaling: None };
        let scaled = Rotary { scaling: Some(scaling), ..plain };
        let (a, b) = (plain.frequencies(), scaled.frequencies());
        assert_eq!(a[0], b[0]);
        assert_eq!(a[31] / 8.0, b[31]);
        assert!(a.iter().zip(&b).all(|(a, b)| *b <= *a && *b >= a / 8.0));
        let linear = Rotary { scaling: Some(RotaryScaling::Linear { factor: 2.0 }), ..plain };
        assert_eq!(linear.frequencies()[3], a[3] / 2.0);
    }
}
