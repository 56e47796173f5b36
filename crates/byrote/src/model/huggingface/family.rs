//! The architectures of `transformers` that byrote reads and writes.
//!
//! | `model_type` | blocks |
//! |---|---|
//! | `gpt2` | LayerNorm, learned positions, biases everywhere, plain hidden layer |
//! | `gpt_neox` (Pythia) | LayerNorm, rotary positions on a part of each head, attention and hidden layer in parallel or not |
//! | `llama` (SmolLM, TinyLlama, ...) | RMSNorm, rotary positions, shared heads of keys and values, gated hidden layer |
//! | `qwen2` | as `llama`, with biases of queries, keys and values |

use crate::model::{Activation, Config, Hidden, Mixer, Norm, Positions};

/// An architecture, by its `model_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// GPT-2.
    Gpt2,
    /// GPT-NeoX, Pythia.
    GptNeox,
    /// Llama.
    Llama,
    /// Qwen2: Llama with biases of queries, keys and values.
    Qwen2,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 4] = [Family::Gpt2, Family::GptNeox, Family::Llama, Family::Qwen2];

    /// Returns the `model_type` in `config.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Gpt2 => "gpt2",
            Family::GptNeox => "gpt_neox",
            Family::Llama => "llama",
            Family::Qwen2 => "qwen2",
        }
    }

    /// Returns the class of `transformers` that predicts the next token.
    pub const fn architecture(self) -> &'static str {
        match self {
            Family::Gpt2 => "GPT2LMHeadModel",
            Family::GptNeox => "GPTNeoXForCausalLM",
            Family::Llama => "LlamaForCausalLM",
            Family::Qwen2 => "Qwen2ForCausalLM",
        }
    }

    /// The families as a list for messages.
    pub(super) fn supported() -> String {
        let names = Self::ALL.map(Family::name);
        format!("{} and {}", names[..3].join(", "), names[3])
    }

    /// Returns the family of a model, or why it belongs to none.
    pub fn of(config: &Config) -> Result<Self, String> {
        let no = |reason: &str| Err(reason.to_owned());
        let Some(blocks) = &config.shape.blocks else {
            return no(
                "the one-layer transformers of the papers have no architecture there; those of blocks do (`preset = gpt2`, gpt-neox, llama)",
            );
        };
        let shape = &config.shape;
        for (holds, reason) in [
            (shape.mixer == Mixer::Attention, "every architecture there mixes tokens by attention"),
            (config.hidden == Hidden::Residual, "every architecture there has a hidden layer in each block"),
            (config.skip && blocks.mlp_skip, "every architecture there has skip connections"),
            (blocks.norm != Norm::None, "every architecture there normalizes what a block reads"),
            (blocks.final_norm, "every architecture there normalizes what the output reads"),
            (!config.output_bias, "no architecture there has an output bias"),
            (config.positions != Positions::None, "every architecture there has positions"),
        ] {
            if !holds {
                return no(reason);
            }
        }
        let family = match (config.positions == Positions::Rotary, blocks.norm == Norm::Layer) {
            (false, true) => Family::Gpt2,
            (true, true) => Family::GptNeox,
            (true, false) if config.attention_bias && !blocks.attention_output_bias => Family::Qwen2,
            (true, false) => Family::Llama,
            (false, false) => return no("no architecture there has both RMSNorm and learned positions"),
        };
        let name = family.name();
        let scaled = config.scale_scores || family == Family::Gpt2;
        if !scaled {
            return Err(format!("{name} divides attention scores by sqrt(d_head)"));
        }
        if activation_name(shape.activation).is_none() {
            return Err(format!("`transformers` has no activation {}", shape.activation));
        }
        match family {
            Family::Gpt2 | Family::GptNeox => {
                let biases = config.attention_bias == blocks.attention_output_bias
                    && (config.attention_bias || family == Family::GptNeox)
                    && blocks.mlp_bias;
                for (holds, reason) in [
                    (!blocks.gated, "has no gated hidden layer"),
                    (
                        blocks.n_kv_heads == shape.n_heads,
                        "has as many heads of keys and values as of queries",
                    ),
                    (shape.n_heads * shape.d_head == shape.d_model, "needs n_heads d_head = d_model"),
                    (biases, "has biases in attention and hidden layer"),
                    (
                        !blocks.parallel || family == Family::GptNeox,
                        "computes a block's parts one after the other",
                    ),
                ] {
                    if !holds {
                        return Err(format!("{name} {reason}"));
                    }
                }
            }
            Family::Llama | Family::Qwen2 => {
                let whole_heads = blocks.rotary.is_some_and(|r| r.dims == shape.d_head);
                let biases = match family {
                    Family::Qwen2 => !blocks.mlp_bias,
                    _ => config.attention_bias == blocks.attention_output_bias,
                };
                for (holds, reason) in [
                    (blocks.gated, "has a gated hidden layer"),
                    (!blocks.parallel, "computes a block's parts one after the other"),
                    (whole_heads, "rotates whole heads"),
                    (biases, "does not have biases in these places"),
                ] {
                    if !holds {
                        return Err(format!("{name} {reason}"));
                    }
                }
            }
        }
        Ok(family)
    }
}

/// Activations by their names in `transformers`; the first name of each is written.
const ACTIVATIONS: [(&str, Activation); 11] = [
    ("gelu", Activation::Gelu),
    ("gelu_new", Activation::GeluTanh),
    ("silu", Activation::Silu),
    ("relu", Activation::Relu),
    ("tanh", Activation::Tanh),
    ("sigmoid", Activation::Logistic),
    ("gelu_python", Activation::Gelu),
    ("gelu_fast", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu_accurate", Activation::GeluTanh),
    ("swish", Activation::Silu),
];

/// The activation that has a name.
pub(super) fn activation(name: &str) -> Option<Activation> {
    ACTIVATIONS.iter().find(|(known, _)| *known == name).map(|(_, activation)| *activation)
}

/// The names of all activations, for messages.
pub(super) fn activation_names() -> String {
    ACTIVATIONS.map(|(name, _)| name).join(", ")
}

/// The name of an activation.
pub(super) fn activation_name(activation: Activation) -> Option<&'static str> {
    ACTIVATIONS.iter().find(|(_, known)| *known == activation).map(|(name, _)| *name)
}
