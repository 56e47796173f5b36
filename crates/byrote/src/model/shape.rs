//! The shape of a transformer: its dimensions, its blocks if it has many layers, and its number of parameters by kind.
//!
//! With omega = `d_vocab`, T = `n_ctx`, d = `d_model`, H = `n_heads`, d_h = `d_head`, m = `d_mlp`:
//!
//! | kind      | attention, hidden layer | averaging, hidden layer | attention only |
//! |-----------|-------------------------|-------------------------|----------------|
//! | embedding | omega d                 | omega d                 | omega d        |
//! | position  | T d                     | T                       | T d            |
//! | attention | 4 H d_h d               | 0                       | 4 H d_h d      |
//! | hidden    | m (d + 1)               | m (d + 1)               | 0              |
//! | output    | omega m                 | omega m                 | omega d        |
//!
//! The first column is the count after Theorem 5 of madden2024 with value and query dimensions both `d_head`
//! (there 2 m_0 (d_0 + d_1) d, where m_0 = H and d_0 = d_1 = d_h), the second the parameters of its Theorem
//! 7, the third the count of Theorem 1 of dana2024. These are the models as the papers define them: a bias
//! only in the hidden layer, learned positions, no LayerNorm. A model file with other switches counts its own
//! tensors, and so does a model of blocks ([`super::Config::parameters_by_kind`]).

use super::blocks::Blocks;
use crate::setting::choices;
use crate::{Error, Result};
use serde::{Deserialize, Serialize, Serializer};

/// The function applied to each hidden neuron.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// x Phi(x), Phi the normal distribution function.
    #[default]
    Gelu,
    /// The tanh approximation of GELU.
    GeluTanh,
    /// Hyperbolic tangent.
    Tanh,
    /// 1 / (1 + e^-x).
    Logistic,
    /// Inverse tangent.
    Arctan,
    /// max(x, 0).
    Relu,
    /// The error function.
    Erf,
    /// x / (1 + e^-x), also called swish.
    Silu,
}

choices!(Activation, "activation" {
    Gelu = "gelu",
    GeluTanh = "gelu-tanh" | "gelu_tanh",
    Tanh = "tanh",
    Logistic = "logistic",
    Arctan = "arctan",
    Relu = "relu",
    Erf = "erf",
    Silu = "silu",
});

impl Activation {
    /// Whether the derivative exists and is continuous everywhere. ReLU has a corner at 0.
    pub fn is_c1(self) -> bool {
        self != Activation::Relu
    }

    /// Whether there is a point where the function has a convergent Taylor series that is not a polynomial: the
    /// hypothesis of Theorems 5 and 7 of madden2024. ReLU is linear around every point except 0, where it is not
    /// analytic, so it has no such point; the others are analytic and nowhere polynomial.
    pub fn is_analytic_non_polynomial_somewhere(self) -> bool {
        self != Activation::Relu
    }
}

/// How the tokens of a context become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mixer {
    /// Softmax attention read at the last token.
    #[default]
    Attention,
    /// Token averaging: one learned weight per position.
    Average,
    /// No mixing: only the last token is seen. For models of blocks.
    None,
}

choices!(Mixer, "mixer" { Attention = "attention", Average = "average", None = "none" });

/// The dimensions and switches of a transformer. All fields are public on purpose: a shape is plain data.
///
/// ```
/// use byrote::model::Shape;
/// let shape = Shape { d_vocab: 780, d_mlp: 512, ..Shape::default() }.checked()?;
/// assert_eq!(shape.parameters().output, 780 * 512);
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Tokens in the vocabulary, omega.
    pub d_vocab: u64,
    /// Longest context, T.
    pub n_ctx: u64,
    /// Width of the residual stream, d.
    pub d_model: u64,
    /// Attention heads, H. Ignored for token averaging.
    pub n_heads: u64,
    /// Dimension of the queries, keys and values of a head. Ignored for token averaging.
    pub d_head: u64,
    /// Hidden neurons, m. Zero means no hidden layer: the output then reads the residual stream.
    pub d_mlp: u64,
    /// The function of the hidden neurons.
    pub activation: Activation,
    /// How the tokens are mixed.
    pub mixer: Mixer,
    /// The blocks of a model of many layers; `None` is the one-layer transformer of the papers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Blocks>,
}

impl Default for Shape {
    /// The program's default: T = 9, d = 16 with four heads of 4, GELU, one token and one neuron.
    fn default() -> Self {
        Shape {
            d_vocab: 1,
            n_ctx: 9,
            d_model: 16,
            n_heads: 4,
            d_head: 4,
            d_mlp: 1,
            activation: Activation::Gelu,
            mixer: Mixer::Attention,
            blocks: None,
        }
    }
}

impl Shape {
    /// The largest dimension that [`checked`](Shape::checked) accepts; below it every parameter count is exact.
    pub const MAX_DIMENSION: u64 = 1 << 40;

    /// Returns this shape if its dimensions are in range, or an error that names the field.
    pub fn checked(self) -> Result<Self> {
        let heads = u64::from(self.mixer == Mixer::Attention);
        for (name, value, least) in [
            ("d_vocab", self.d_vocab, 1),
            ("n_ctx", self.n_ctx, 1),
            ("d_model", self.d_model, 1),
            ("n_heads", self.n_heads, heads),
            ("d_head", self.d_head, heads),
            ("d_mlp", self.d_mlp, 0),
        ] {
            if !(least..=Shape::MAX_DIMENSION).contains(&value) {
                let most = Shape::MAX_DIMENSION;
                return Err(Error::setting(name, format!("must be from {least} to {most} (got {value})")));
            }
        }
        if self.mixer == Mixer::None && self.blocks.is_none() {
            return Err(Error::setting("mixer", "none needs a model of blocks"));
        }
        Ok(self)
    }

    /// Whether a hidden layer feeds the output. Otherwise the output reads the residual stream, of rank
    /// `d_model`.
    pub fn has_hidden_layer(&self) -> bool {
        self.d_mlp > 0
    }

    /// Returns the number of parameters of each kind; see the table in the module documentation.
    ///
    /// Counts saturate instead of overflowing; no [`checked`](Shape::checked) shape gets that far.
    pub fn parameters(&self) -> ParametersByKind {
        let Shape { d_vocab, n_ctx, d_model, n_heads, d_head, d_mlp, .. } = *self;
        let (position, attention) = match self.mixer {
            Mixer::Attention => (product(&[n_ctx, d_model]), product(&[4, n_heads, d_head, d_model])),
            Mixer::Average => (product(&[n_ctx]), 0),
            Mixer::None => (0, 0),
        };
        ParametersByKind {
            embedding: product(&[d_vocab, d_model]),
            position,
            attention,
            hidden: product(&[d_mlp, d_model]).saturating_add(d_mlp.into()),
            output: product(&[d_vocab, if self.has_hidden_layer() { d_mlp } else { d_model }]),
            norm: 0,
        }
    }
}

fn product(factors: &[u64]) -> u128 {
    factors.iter().fold(1, |product: u128, &factor| product.saturating_mul(factor.into()))
}

/// The number of free real numbers of each kind in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ParametersByKind {
    /// `W_E`.
    #[serde(serialize_with = "serialize_count")]
    pub embedding: u128,
    /// `W_pos`, or `u_pos` for token averaging.
    #[serde(serialize_with = "serialize_count")]
    pub position: u128,
    /// `W_Q`, `W_K`, `W_V` and `W_O` of all heads.
    #[serde(serialize_with = "serialize_count")]
    pub attention: u128,
    /// `W_in` and `b_in`.
    #[serde(serialize_with = "serialize_count")]
    pub hidden: u128,
    /// `W_U`.
    #[serde(serialize_with = "serialize_count")]
    pub output: u128,
    /// Gains and biases of normalization.
    #[serde(serialize_with = "serialize_count", skip_serializing_if = "is_zero")]
    pub norm: u128,
}

// One-layer transformers have none.
fn is_zero(count: &u128) -> bool {
    *count == 0
}

impl ParametersByKind {
    /// Returns the total.
    pub fn total(&self) -> u128 {
        [self.position, self.attention, self.hidden, self.output, self.norm]
            .iter()
            .fold(self.embedding, |total, &kind| total.saturating_add(kind))
    }
}

/// Writes a count as a JSON number: an integer up to 2^64, a float above, where `serde_json` integers end.
pub(crate) fn serialize_count<S: Serializer>(
    count: &u128,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    match u64::try_from(*count) {
        Ok(count) => serializer.serialize_u64(count),
        Err(_) => serializer.serialize_f64(*count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The running example of madden2024: omega = 1000, T = 9, d = 16, one head of 16, m = 2637.
    const STORIES: Shape = Shape {
        d_vocab: 1000,
        n_ctx: 9,
        d_model: 16,
        n_heads: 1,
        d_head: 16,
        d_mlp: 2637,
        activation: Activation::Gelu,
        mixer: Mixer::Attention,
        blocks: None,
    };

    #[test]
    fn the_count_of_theorem_5_comes_out_by_hand() {
        // omega m = 2,637,000; m (d+1) = 2637 * 17 = 44,829; 2 m_0 (d_0+d_1) d = 2*1*32*16 = 1,024;
        // (omega + T) d = 1009 * 16 = 16,144; together 2,698,997.
        let p = STORIES.parameters();
        assert_eq!((p.output, p.hidden, p.attention), (2_637_000, 44_829, 1_024));
        assert_eq!((p.embedding, p.position), (16_000, 144));
        assert_eq!(p.total(), 2_698_997);
    }

    #[test]
    fn the_count_of_theorem_7_comes_out_by_hand() {
        // d omega + T + d m + m + m omega = 16,000 + 9 + 42,192 + 2,637 + 2,637,000 = 2,697,838.
        assert_eq!(Shape { mixer: Mixer::Average, ..STORIES }.parameters().total(), 2_697_838);
    }

    #[test]
    fn the_count_of_attention_only_comes_out_by_hand() {
        // dana2024, omega = 50, S = 2, (d, d_h, H) = (10, 10, 20): d (S + 2 omega + 4 d_h H) = 10 (2 + 100 +
        // 800).
        let shape =
            Shape { d_vocab: 50, n_ctx: 2, d_model: 10, n_heads: 20, d_head: 10, d_mlp: 0, ..STORIES };
        assert_eq!(shape.parameters().total(), 9_020);
        assert!(!shape.has_hidden_layer());
    }

    #[test]
    fn a_dimension_out_of_range_names_its_field() {
        let field = |shape: Shape| shape.checked().unwrap_err().to_string();
        assert!(field(Shape { d_model: 0, ..STORIES }).starts_with("d_model: must be from 1 to"));
        assert!(field(Shape { n_heads: 0, ..STORIES }).starts_with("n_heads:"));
        assert!(field(Shape { d_mlp: u64::MAX, ..STORIES }).starts_with("d_mlp:"));
        assert!(Shape { d_mlp: 0, ..STORIES }.checked().is_ok());
        assert!(Shape { n_heads: 0, d_head: 0, mixer: Mixer::Average, ..STORIES }.checked().is_ok());
    }

    #[test]
    fn names_go_through_text_and_json_unchanged() {
        for activation in Activation::ALL {
            assert_eq!(activation.to_string().parse::<Activation>().unwrap(), activation);
            assert_eq!(serde_json::to_string(&activation).unwrap(), format!("{:?}", activation.name()));
        }
        assert_eq!("gelu_tanh".parse::<Activation>().unwrap(), Activation::GeluTanh);
        assert_eq!(serde_json::from_str::<Activation>("\"gelu_tanh\"").unwrap(), Activation::GeluTanh);
        assert!("swish".parse::<Activation>().unwrap_err().to_string().contains("gelu, gelu-tanh, tanh"));
        assert_eq!("average".parse::<Mixer>().unwrap(), Mixer::Average);
        assert!("mean".parse::<Mixer>().is_err());
        let json = serde_json::to_string(&STORIES).unwrap();
        assert_eq!(serde_json::from_str::<Shape>(&json).unwrap(), STORIES);
    }

    #[test]
    fn only_relu_has_a_corner_and_is_piecewise_polynomial() {
        for activation in Activation::ALL {
            assert_eq!(activation.is_c1(), activation != Activation::Relu);
            assert_eq!(activation.is_analytic_non_polynomial_somewhere(), activation != Activation::Relu);
        }
    }

    proptest! {
        #[test]
        fn counting_never_panics_and_a_checked_shape_is_counted_exactly(
            dims in prop::array::uniform6(prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 1u64..100_000]),
            average in any::<bool>(),
        ) {
            let [d_vocab, n_ctx, d_model, n_heads, d_head, d_mlp] = dims;
            let mixer = if average { Mixer::Average } else { Mixer::Attention };
            let shape = Shape { d_vocab, n_ctx, d_model, n_heads, d_head, d_mlp, mixer, ..STORIES };
            let total = shape.parameters().total();
            prop_assert!(serde_json::to_value(shape.parameters()).is_ok());
            if shape.checked().is_ok() {
                prop_assert!(total < u128::MAX);
            }
        }
    }
}
