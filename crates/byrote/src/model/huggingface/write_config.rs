//! [`Config`] to `config.json`.

use super::family::{Family, activation_name};
use super::rope;
use crate::model::{Blocks, Config, Precision, Shape};
use serde_json::{Map, Value, json};

/// Returns the fields of `config.json` for a model of this family.
pub(super) fn write(family: Family, config: &Config, precision: Precision) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    let shape = &config.shape;
    add("architectures", json!([family.architecture()]));
    add("model_type", json!(family.name()));
    // Version 4 of `transformers` knows only this name for the type of the weights; version 5 reads it too.
    add("torch_dtype", json!(if precision == Precision::F64 { "float64" } else { "float32" }));
    add("vocab_size", json!(shape.d_vocab));
    for name in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        add(name, Value::Null);
    }
    let act = json!(activation_name(shape.activation).unwrap_or_default());
    if let Some(blocks) = &shape.blocks {
        add("tie_word_embeddings", json!(blocks.tied));
        match family {
            Family::Gpt2 => gpt2(config, blocks, act, &mut fields),
            Family::GptNeox => gpt_neox(shape, blocks, act, &mut fields),
            Family::Llama | Family::Qwen2 => llama(family, shape, blocks, act, &mut fields),
        }
    }
    Value::Object(fields)
}

fn gpt2(config: &Config, blocks: &Blocks, act: Value, fields: &mut Map<String, Value>) {
    let shape = &config.shape;
    for (name, value) in [
        ("activation_function", act),
        ("layer_norm_epsilon", json!(blocks.norm_eps)),
        ("n_embd", json!(shape.d_model)),
        ("n_head", json!(shape.n_heads)),
        ("n_inner", json!(shape.d_mlp)),
        ("n_layer", json!(blocks.n_layers)),
        ("n_positions", json!(shape.n_ctx)),
        ("scale_attn_weights", json!(config.scale_scores)),
    ] {
        fields.insert(name.into(), value);
    }
}

/// What the families but GPT-2 have in common.
fn common(shape: &Shape, blocks: &Blocks, act: Value, fields: &mut Map<String, Value>) {
    for (name, value) in [
        ("hidden_act", act),
        ("hidden_size", json!(shape.d_model)),
        ("intermediate_size", json!(shape.d_mlp)),
        ("max_position_embeddings", json!(shape.n_ctx)),
        ("num_attention_heads", json!(shape.n_heads)),
        ("num_hidden_layers", json!(blocks.n_layers)),
    ] {
        fields.insert(name.into(), value);
    }
}

fn gpt_neox(shape: &Shape, blocks: &Blocks, act: Value, fields: &mut Map<String, Value>) {
    common(shape, blocks, act, fields);
    fields.insert("attention_bias".into(), json!(blocks.attention_output_bias));
    fields.insert("layer_norm_eps".into(), json!(blocks.norm_eps));
    fields.insert("use_parallel_residual".into(), json!(blocks.parallel));
    if let Some(rotary) = &blocks.rotary {
        fields.insert("rotary_pct".into(), json!(rope::share(shape.d_head, rotary.dims)));
        fields.insert("rotary_emb_base".into(), json!(rotary.theta));
        fields.insert("rope_scaling".into(), rope::scaling(rotary));
    }
}

fn llama(family: Family, shape: &Shape, blocks: &Blocks, act: Value, fields: &mut Map<String, Value>) {
    common(shape, blocks, act, fields);
    fields.insert("head_dim".into(), json!(shape.d_head));
    fields.insert("num_key_value_heads".into(), json!(blocks.n_kv_heads));
    fields.insert("rms_norm_eps".into(), json!(blocks.norm_eps));
    if family == Family::Llama {
        fields.insert("attention_bias".into(), json!(blocks.attention_output_bias));
        fields.insert("mlp_bias".into(), json!(blocks.mlp_bias));
    } else {
        fields.insert("use_sliding_window".into(), json!(false));
    }
    if let Some(rotary) = &blocks.rotary {
        rope::write(rotary, fields);
    }
}
