//! `config.json` to [`Config`].
//!
//! Fields that change nothing in a forward pass (dropout, initialization, generation) are ignored. Settings that would change it,
//! and that byrote does not compute, are refused by name.

use super::family::{Family, activation, activation_names};
use super::rope;
use super::settings::{Settings, short};
use crate::Result;
use crate::model::{Blocks, Config, Hidden, Mixer, Norm, Positions, Shape};
use serde_json::Value;
use std::path::Path;

/// Reads the architecture and the configuration of a model.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<(Family, Config)> {
    let settings = Settings::parse(path, bytes)?;
    let family = family(&settings)?;
    refuse_switches(&settings, family)?;
    let config = match family {
        Family::Gpt2 => gpt2(&settings)?,
        Family::GptNeox => gpt_neox(&settings)?,
        Family::Llama | Family::Qwen2 => llama(&settings, family)?,
    };
    let config = config.checked().map_err(|e| settings.error(in_keys(family, &e.to_string())))?;
    Ok((family, config))
}

/// The message of an error about settings, with the names that they have in the files of a family.
fn in_keys(family: Family, message: &str) -> String {
    let gpt2 = family == Family::Gpt2;
    let or = |own: &'static str, other: &'static str| if gpt2 { own } else { other };
    let (eps, dims, theta) = match family {
        Family::Gpt2 => ("layer_norm_epsilon", "rotary_dims", "rotary_theta"),
        Family::GptNeox => ("layer_norm_eps", "rotary_pct", "rotary_emb_base"),
        Family::Llama | Family::Qwen2 => ("rms_norm_eps", "partial_rotary_factor", "rope_theta"),
    };
    let keys = [
        ("d_vocab", "vocab_size"),
        ("n_ctx", or("n_positions", "max_position_embeddings")),
        ("d_model", or("n_embd", "hidden_size")),
        ("n_heads", or("n_head", "num_attention_heads")),
        ("n_layers", or("n_layer", "num_hidden_layers")),
        ("d_mlp", or("n_inner", "intermediate_size")),
        ("n_kv_heads", "num_key_value_heads"),
        ("d_head", "head_dim"),
        ("norm_eps", eps),
        ("rotary_dims", dims),
        ("rotary_theta", theta),
    ];
    keys.iter().fold(message.to_owned(), |text, (setting, key)| {
        let text = match text.strip_prefix(&format!("{setting}: ")) {
            Some(rest) => format!("{key}: {rest}"),
            None => text,
        };
        text.replace(&format!("`{setting}`"), key)
    })
}

fn family(settings: &Settings) -> Result<Family> {
    let Some(name) = settings.text("model_type")? else {
        let message = format!("model_type is missing; byrote reads {}", Family::supported());
        return Err(settings.error(message));
    };
    let Some(family) = Family::ALL.into_iter().find(|family| family.name() == name) else {
        let message = format!("{name:?} is not supported; byrote reads {}", Family::supported());
        return Err(settings.wrong("model_type", &message));
    };
    // Older GPT-2 files have the class without a head, whose output is the embedding all the same.
    let known =
        |class: &str| class == family.architecture() || (family == Family::Gpt2 && class == "GPT2Model");
    match settings.get("architectures").and_then(Value::as_array).and_then(|list| list.first()) {
        Some(Value::String(class)) if !known(class) => {
            let message = format!(
                "{class:?} is not supported; of the family {name} byrote reads {}",
                family.architecture()
            );
            Err(settings.wrong("architectures", &message))
        }
        _ => Ok(family),
    }
}

/// Settings that change the forward pass in a way that byrote does not compute.
fn refuse_switches(settings: &Settings, family: Family) -> Result<()> {
    if let Some(value) = settings.get("quantization_config") {
        let method = value.get("quant_method").and_then(Value::as_str).unwrap_or("quantized");
        let message =
            format!("quantized weights ({method}) are not supported; byrote reads f32, f16 and bf16");
        return Err(settings.wrong("quantization_config", &message));
    }
    for (name, what) in [
        ("scale_attn_by_inverse_layer_idx", "scores that depend on the layer are"),
        ("add_cross_attention", "attention to an encoder is"),
        ("is_encoder_decoder", "an encoder is"),
        ("use_sliding_window", "a sliding window is"),
        ("qk_norm", "normalization of queries and keys is"),
        ("use_qk_norm", "normalization of queries and keys is"),
        ("qk_layernorm", "normalization of queries and keys is"),
        ("alibi", "ALiBi is"),
    ] {
        if settings.switch(name)? == Some(true) {
            return Err(settings.wrong(name, &format!("{what} not supported")));
        }
    }
    // Qwen2 files state a window even where `use_sliding_window` says that none is used.
    let window = if family == Family::Qwen2 { "" } else { "sliding_window" };
    for (name, what) in [
        ("attn_logit_softcapping", "soft capping is"),
        ("final_logit_softcapping", "soft capping is"),
        ("num_local_experts", "experts are"),
        ("num_experts", "experts are"),
        ("n_routed_experts", "experts are"),
        (window, "a sliding window is"),
    ] {
        if let Some(value) = settings.get(name).filter(|value| value.as_f64() != Some(0.0)) {
            return Err(settings.wrong(name, &format!("{what} not supported (got {})", short(value))));
        }
    }
    let layers = settings.get("layer_types").and_then(Value::as_array);
    match layers.and_then(|all| all.iter().find(|kind| *kind != "full_attention")) {
        Some(kind) => Err(settings.wrong("layer_types", &format!("{} is not supported", short(kind)))),
        None => Ok(()),
    }
}

/// The dimensions that all families have, by their names in GPT-2 and in the others.
struct Sizes {
    d_vocab: u64,
    n_ctx: u64,
    d_model: u64,
    n_heads: u64,
    n_layers: u64,
}

impl Sizes {
    fn read(settings: &Settings, family: Family) -> Result<Self> {
        // Both spellings are read everywhere, as in `transformers`; the family's own comes first, for messages.
        let count = |gpt2: &str, other: &str| {
            settings.count(&if family == Family::Gpt2 { [gpt2, other] } else { [other, gpt2] })
        };
        Ok(Self {
            d_vocab: settings.count(&["vocab_size"])?,
            n_ctx: count("n_positions", "max_position_embeddings")?,
            d_model: count("n_embd", "hidden_size")?,
            n_heads: count("n_head", "num_attention_heads")?,
            n_layers: count("n_layer", "num_hidden_layers")?,
        })
    }

    /// The dimension of a head where it is that of the stream divided by the number of heads.
    fn d_head(&self, settings: &Settings) -> Result<u64> {
        if !self.d_model.is_multiple_of(self.n_heads) {
            let message = format!(
                "a width of {} cannot be divided among {} attention heads",
                self.d_model, self.n_heads
            );
            return Err(settings.error(message));
        }
        Ok(self.d_model / self.n_heads)
    }

    /// A model of these dimensions.
    fn config(&self, settings: &Settings, act: &str, default: &str, parts: Parts) -> Result<Config> {
        let name = settings.text(act)?.unwrap_or(default);
        let activation = activation(name).ok_or_else(|| {
            settings.wrong(act, &format!("{name:?} is not supported; byrote reads {}", activation_names()))
        })?;
        Ok(Config {
            shape: Shape {
                d_vocab: self.d_vocab,
                n_ctx: self.n_ctx,
                d_model: self.d_model,
                n_heads: self.n_heads,
                d_head: parts.d_head,
                d_mlp: parts.d_mlp,
                activation,
                mixer: Mixer::Attention,
                blocks: Some(parts.blocks),
            },
            positions: if parts.blocks.rotary.is_some() { Positions::Rotary } else { Positions::Learned },
            attention_bias: parts.attention_bias,
            scale_scores: true,
            skip: true,
            hidden: Hidden::Residual,
            output_bias: false,
            positions_in_attention: false,
            bottleneck: false,
            residual_bias: true,
        })
    }
}

/// What differs between the families.
struct Parts {
    d_head: u64,
    d_mlp: u64,
    attention_bias: bool,
    blocks: Blocks,
}

fn gpt2(settings: &Settings) -> Result<Config> {
    let sizes = Sizes::read(settings, Family::Gpt2)?;
    let blocks = Blocks {
        n_layers: sizes.n_layers,
        n_kv_heads: sizes.n_heads,
        norm: Norm::Layer,
        norm_eps: settings.number(&["layer_norm_epsilon"])?.unwrap_or(1e-5),
        final_norm: true,
        parallel: false,
        gated: false,
        attention_output_bias: true,
        mlp_bias: true,
        mlp_skip: true,
        tied: settings.switch("tie_word_embeddings")?.unwrap_or(true),
        rotary: None,
    };
    let d_mlp = settings.count_if_any(&["n_inner"])?.unwrap_or(sizes.d_model.saturating_mul(4));
    let parts = Parts { d_head: sizes.d_head(settings)?, d_mlp, attention_bias: true, blocks };
    let scale_scores = settings.switch("scale_attn_weights")?.unwrap_or(true);
    Ok(Config { scale_scores, ..sizes.config(settings, "activation_function", "gelu_new", parts)? })
}

fn gpt_neox(settings: &Settings) -> Result<Config> {
    let sizes = Sizes::read(settings, Family::GptNeox)?;
    let d_head = sizes.d_head(settings)?;
    let rotated = rope::dims(d_head, rope::partial(settings)?.unwrap_or(0.25));
    let bias = settings.switch("attention_bias")?.unwrap_or(true);
    let blocks = Blocks {
        n_layers: sizes.n_layers,
        n_kv_heads: sizes.n_heads,
        norm: Norm::Layer,
        norm_eps: settings.number(&["layer_norm_eps"])?.unwrap_or(1e-5),
        final_norm: true,
        parallel: settings.switch("use_parallel_residual")?.unwrap_or(true),
        gated: false,
        attention_output_bias: bias,
        mlp_bias: true,
        mlp_skip: true,
        tied: settings.switch("tie_word_embeddings")?.unwrap_or(false),
        rotary: Some(rope::read(settings, rotated)?),
    };
    let d_mlp = settings.count(&["intermediate_size"])?;
    sizes.config(settings, "hidden_act", "gelu", Parts { d_head, d_mlp, attention_bias: bias, blocks })
}

fn llama(settings: &Settings, family: Family) -> Result<Config> {
    let sizes = Sizes::read(settings, family)?;
    let d_head = match settings.count_if_any(&["head_dim"])? {
        Some(given) => given,
        None => sizes.d_head(settings)?,
    };
    if let Some(share) = rope::partial(settings)?.filter(|&share| share != 1.0) {
        let message = format!("must be 1 in the family {} (got {share})", family.name());
        return Err(settings.wrong("partial_rotary_factor", &message));
    }
    let qwen2 = family == Family::Qwen2;
    let bias = settings.switch("attention_bias")?.filter(|_| !qwen2).unwrap_or(false);
    let blocks = Blocks {
        n_layers: sizes.n_layers,
        n_kv_heads: settings.count_if_any(&["num_key_value_heads"])?.unwrap_or(sizes.n_heads),
        norm: Norm::Rms,
        norm_eps: settings.number(&["rms_norm_eps"])?.unwrap_or(1e-6),
        final_norm: true,
        parallel: false,
        gated: true,
        attention_output_bias: bias,
        mlp_bias: settings.switch("mlp_bias")?.filter(|_| !qwen2).unwrap_or(false),
        mlp_skip: true,
        tied: settings.switch("tie_word_embeddings")?.unwrap_or(false),
        rotary: Some(rope::read(settings, d_head)?),
    };
    let d_mlp = settings.count(&["intermediate_size"])?;
    let parts = Parts { d_head, d_mlp, attention_bias: bias || qwen2, blocks };
    sizes.config(settings, "hidden_act", "silu", parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_keys_of_the_file() {
        let llama = |more: &str| {
            let text = format!(
                r#"{{"model_type": "llama", "vocab_size": 8, "max_position_embeddings": 4, "hidden_size": 8,
                    "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 8, {more}}}"#
            );
            read(Path::new("config.json"), text.as_bytes()).err().unwrap().to_string()
        };
        let heads = llama(r#""num_key_value_heads": 3"#);
        assert!(
            heads.contains("num_key_value_heads: must divide num_attention_heads = 4 (got 3)"),
            "{heads}"
        );
        let eps = llama(r#""rms_norm_eps": -1"#);
        assert!(eps.contains("rms_norm_eps: must be finite"), "{eps}");
        let narrow = llama(r#""head_dim": 1"#);
        assert!(
            narrow.contains("head_dim: ") && narrow.contains("hidden_size / num_attention_heads"),
            "{narrow}"
        );
        let gpt2 = r#"{"model_type": "gpt2", "vocab_size": 8, "n_positions": 4, "n_embd": 4, "n_head": 1, "n_layer": 9999}"#;
        let layers = read(Path::new("config.json"), gpt2.as_bytes()).err().unwrap().to_string();
        assert!(layers.contains("n_layer: must be from 1"), "{layers}");
    }
}
