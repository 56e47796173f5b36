//! A model: its configuration and its parameters, in one vector.
//!
//! Optimizers see the vector; everything else sees tensors by name. Fixed positions are not parameters: they are
//! computed from the configuration, or kept as stored in a file.

use super::Shape;
use super::config::{Config, Positions, Tensor, TensorKind};
use crate::num::Stream;
use crate::setting::choices;
use crate::{Error, Result};

/// A transformer with its weights in f64.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    config: Config,
    tensors: Vec<Tensor>,
    parameters: Vec<f64>,
    /// Fixed positions, `[n_ctx, position_width]`; empty unless the positions are sinusoidal.
    sinusoids: Vec<f64>,
}

impl Model {
    /// Creates a model with these parameters, in the order of [`Config::tensors`].
    pub fn new(config: Config, parameters: Vec<f64>) -> Result<Self> {
        let config = config.checked()?;
        let tensors = config.tensors();
        let expected = tensors.last().map_or(0, |t| t.range.end);
        if parameters.len() != expected {
            let message = format!("must have {expected} values (got {})", parameters.len());
            return Err(Error::setting("parameters", message));
        }
        if let Some(t) = tensors.iter().find(|t| parameters[t.range.clone()].iter().any(|x| !x.is_finite())) {
            return Err(Error::setting(
                "parameters",
                format!("{} contains a number that is not finite", t.name),
            ));
        }
        Ok(Self { sinusoids: config.sinusoids(), config, tensors, parameters })
    }

    /// Returns this model with the fixed positions stored in its file. Every computation with the model uses exactly
    /// these numbers, which may differ from [`Config::sinusoids`] by the rounding of the program that wrote the file:
    /// at most [`Model::POSITION_TOLERANCE`].
    pub fn with_stored_positions(mut self, positions: Vec<f64>) -> Result<Self> {
        let differ = |(a, b): (&f64, &f64)| (a - b).abs() > Self::POSITION_TOLERANCE || a.is_nan();
        if positions.len() != self.sinusoids.len() || positions.iter().zip(&self.sinusoids).any(differ) {
            return Err(Error::setting(
                "W_pos",
                "differs from the sinusoidal positions of the configuration",
            ));
        }
        self.sinusoids = positions;
        Ok(self)
    }

    /// Returns this model with other parameters, in the order of [`Config::tensors`].
    pub fn with_parameters(&self, parameters: Vec<f64>) -> Result<Self> {
        Ok(Self { sinusoids: self.sinusoids.clone(), ..Self::new(self.config, parameters)? })
    }

    /// Returns this model with every number rounded to f32, or `None` if one is outside the range of f32.
    pub fn rounded_to_f32(&self) -> Option<Self> {
        let rounded = |values: &[f64]| values.iter().map(|&x| f64::from(x as f32)).collect::<Vec<f64>>();
        let model = Self {
            parameters: rounded(&self.parameters),
            sinusoids: rounded(&self.sinusoids),
            ..self.clone()
        };
        model.parameters.iter().all(|x| x.is_finite()).then_some(model)
    }

    /// The largest accepted difference between a stored sinusoidal position and the exact sine or cosine.
    pub const POSITION_TOLERANCE: f64 = 1e-6;

    /// Draws a model at random, as PyTorch's modules do by default: embeddings and learned positions from the standard
    /// normal distribution, every other weight and bias uniformly in +-1/sqrt(fan-in), where the fan-in of a bias is
    /// that of its weight. Averaging weights `u_pos` are normal.
    ///
    /// Models of blocks are drawn by [`Init::Scaled`] instead.
    ///
    /// Each tensor has a separate random stream, addressed by the seed and its name.
    pub fn random(config: Config, seed: u64) -> Result<Self> {
        Self::drawn(config, seed, Init::default_for(&config))
    }

    /// Draws a model at random with the given method.
    pub fn drawn(config: Config, seed: u64, init: Init) -> Result<Self> {
        let config = config.checked()?;
        let tensors = config.tensors();
        let mut parameters = vec![0.0; tensors.last().map_or(0, |t| t.range.end)];
        for tensor in &tensors {
            let mut stream = Stream::new(seed, &tensor.name.to_string(), 0);
            let values = &mut parameters[tensor.range.clone()];
            match init.law(&config, tensor) {
                Law::Constant(value) => values.fill(value),
                Law::Normal(deviation) => values.iter_mut().for_each(|x| *x = deviation * stream.normal()),
                Law::Uniform(bound) => {
                    values.iter_mut().for_each(|x| *x = bound * (2.0 * stream.unit() - 1.0))
                }
            }
        }
        Self::new(config, parameters)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the tensors with their ranges in [`Model::parameters`].
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns all parameters.
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// Returns the values of a tensor, row-major; `None` if the model has no such tensor.
    pub fn tensor(&self, name: &str) -> Option<&[f64]> {
        self.tensors.iter().find(|t| t.name == name).map(|t| &self.parameters[t.range.clone()])
    }

    /// Returns the position vectors, `[n_ctx, position_width]`, learned or fixed, or `None` if the model has none.
    pub fn positions(&self) -> Option<&[f64]> {
        match self.config.positions {
            Positions::Learned => self.tensor("W_pos").or_else(|| self.tensor("pos_embed.W_pos")),
            Positions::Sinusoidal => Some(&self.sinusoids),
            Positions::None | Positions::Rotary => None,
        }
    }
}

/// How the weights of a model are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Init {
    /// Like PyTorch's modules by default: see [`Model::random`].
    #[default]
    Pytorch,
    /// Like the published program of dana2024: tables uniformly in +-1/sqrt(width), queries, keys and values of a head by
    /// Xavier's rule for the three together, uniformly in +-sqrt(6 / (width + 3 d_head)), its output in +-1/sqrt(d_head),
    /// everything else like PyTorch.
    Dana2024,
    /// Like GPT-2: normal with standard deviation 0.02, what a block writes to the residual stream divided by sqrt(2 n_layers),
    /// gains 1, biases 0. For models of blocks.
    Gpt2,
    /// Normal with standard deviation 1 / sqrt(fan-in), tables 1 / sqrt(d_model), what a block writes divided by
    /// sqrt(2 n_layers), gains 1, biases 0: a better start than GPT-2's for full-batch training to the floor. For models of
    /// blocks.
    Scaled,
}

choices!(Init, "init" { Pytorch = "pytorch", Dana2024 = "dana2024", Gpt2 = "gpt2", Scaled = "scaled" });

/// The distribution of the initial values of a tensor.
enum Law {
    Constant(f64),
    /// Normal with this standard deviation.
    Normal(f64),
    /// Uniform between plus and minus this bound.
    Uniform(f64),
}

impl Init {
    /// The method that is used for a model where none is given.
    pub fn default_for(config: &Config) -> Self {
        if config.shape.blocks.is_some() { Init::Scaled } else { Init::Pytorch }
    }

    fn law(self, config: &Config, tensor: &Tensor) -> Law {
        let Shape { d_model, d_head, n_ctx, blocks, .. } = config.shape;
        let weight = tensor.name.weight();
        if tensor.kind == TensorKind::Norm {
            return Law::Constant(f64::from(u8::from(weight == "w")));
        }
        let root = |n: u64| 1.0 / (n as f64).sqrt();
        match (self, weight) {
            (Init::Gpt2 | Init::Scaled, name) if name.starts_with("b_") => Law::Constant(0.0),
            (Init::Gpt2 | Init::Scaled, "u_pos") => Law::Normal(1.0 / n_ctx as f64),
            (Init::Gpt2 | Init::Scaled, name) => {
                let deviation = match self {
                    Init::Gpt2 => 0.02,
                    _ => root(fan_in(config, name).unwrap_or(d_model)),
                };
                let writes = matches!(name, "W_O" | "W_out");
                let written = blocks.filter(|_| writes).map_or(1, |b| 2 * b.n_layers);
                Law::Normal(deviation * root(written))
            }
            (Init::Dana2024, "W_E") => Law::Uniform(root(d_model)),
            (Init::Dana2024, "W_pos") => Law::Uniform(root(config.position_width())),
            (Init::Dana2024, "W_Q" | "W_K" | "W_V") => {
                Law::Uniform((6.0 / (config.attention_width() + 3 * d_head) as f64).sqrt())
            }
            (Init::Dana2024, "W_O") => Law::Uniform(root(d_head)),
            (_, name) => fan_in(config, name).map_or(Law::Normal(1.0), |n| Law::Uniform(root(n))),
        }
    }
}

/// The number of inputs of each unit of a layer; `None` for lookup tables.
fn fan_in(config: &Config, tensor: &str) -> Option<u64> {
    let shape = &config.shape;
    match tensor {
        "W_E" | "W_pos" | "u_pos" => None,
        "W_Q" | "b_Q" | "W_K" | "b_K" | "W_V" | "b_V" | "W_up" => Some(config.attention_width()),
        "W_O" | "b_O" => Some(shape.n_heads * shape.d_head),
        "W_out" | "b_out" => Some(shape.d_mlp),
        "W_U" | "b_U" if config.hidden == super::Hidden::Output => Some(shape.d_mlp),
        _ => Some(shape.d_model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Preset, Shape};

    fn config() -> Config {
        let shape = Shape { d_vocab: 50, d_mlp: 100, n_heads: 2, d_head: 8, ..Shape::default() };
        Preset::Madden2024.config(shape)
    }

    #[test]
    fn random_weights_have_the_spread_of_their_layer() {
        let model = Model::random(config(), 3).unwrap();
        let moments = |name: &str| {
            let values = model.tensor(name).unwrap();
            let square = values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64;
            (square, values.iter().fold(0f64, |m, x| m.max(x.abs())))
        };
        let (square, _) = moments("W_E");
        assert!((square - 1.0).abs() < 0.2, "{square}");
        // Uniform in +-1/sqrt(m): variance 1 / (3 m), m = 100.
        let (square, largest) = moments("W_U");
        assert!((square * 300.0 - 1.0).abs() < 0.1 && largest <= 0.1 && largest > 0.099);
        let (_, largest) = moments("W_in");
        assert!(largest <= 0.25 && largest > 0.245);
    }

    #[test]
    fn the_same_seed_gives_the_same_weights_and_another_others() {
        let draw = |seed| Model::random(config(), seed).unwrap();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        // A tensor does not depend on which other tensors the model has.
        let biased =
            Model::random(Config { output_bias: true, attention_bias: true, ..config() }, 1).unwrap();
        assert_eq!(draw(1).tensor("W_U"), biased.tensor("W_U"));
    }

    #[test]
    fn wrong_numbers_of_parameters_and_nan_are_refused() {
        let n = config().n_parameters();
        assert!(Model::new(config(), vec![0.0; n - 1]).is_err());
        let mut parameters = vec![0.0; n];
        parameters[n - 1] = f64::NAN;
        let error = Model::new(config(), parameters).unwrap_err();
        assert!(error.to_string().contains("W_U"), "{error}");
    }
}
