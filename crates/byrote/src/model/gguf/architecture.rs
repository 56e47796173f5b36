//! The architectures of GGUF files that byrote reads: their settings and where their weights are.
//!
//! `llama` and `qwen2` are the families of the same names, with keys `llama.context_length` and so on. With H heads of dimension e
//! and width d, tensors are stored as [out, in], as in Hugging Face's files, under other names:
//!
//! | tensor | shape there | ours |
//! |---|---|---|
//! | `token_embd.weight` | [d_vocab, d] | W_E |
//! | `blk.N.attn_norm.weight`, `blk.N.ffn_norm.weight`, `output_norm.weight` | [d] | ln1.w, ln2.w, ln_final.w |
//! | `blk.N.attn_q.weight`, `attn_k`, `attn_v` | [H e, d] | W_Q, W_K, W_V |
//! | `blk.N.attn_output.weight` | [d, H e] | W_O |
//! | `blk.N.ffn_gate.weight`, `ffn_up`, `ffn_down` | [d_mlp, d], [d_mlp, d], [d, d_mlp] | W_gate, W_in, W_out |
//! | `output.weight`; without it the output is the embedding | [d_vocab, d] | W_U |
//!
//! Rotary positions rotate number i of a head with number i + e / 2. In files of `llama` these two are neighbours, rows 2 i and 2 i + 1
//! of the head in `attn_q` and `attn_k`; in files of `qwen2` they are rows i and i + e / 2, as here.

use super::metadata::Metadata;
use crate::Result;
use crate::model::stored::{Foreign, Part, TensorFiles};
use crate::model::{Blocks, Config, Preset, Rotary, RotaryScaling, Shape, TensorName};

/// An architecture, by its name in `general.architecture`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    Llama,
    Qwen2,
}

/// The tensor of factors by which rotary frequencies are divided.
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";

impl Architecture {
    const ALL: [Self; 2] = [Self::Llama, Self::Qwen2];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
        }
    }

    /// The architecture of a file.
    pub(super) fn read(metadata: &Metadata) -> Result<Self> {
        const KEY: &str = "general.architecture";
        let Some(name) = metadata.text(KEY)? else {
            return Err(metadata.error(format!("{KEY} is missing")));
        };
        if metadata.text("general.type")? == Some("adapter") {
            return Err(metadata.error("is an adapter, not a model; merge it into its model first"));
        }
        if let Some(parts) = metadata.count("split.count")?.filter(|&parts| parts > 1) {
            let message =
                format!("is one of {parts} parts of a model; join them first, with llama-gguf-split");
            return Err(metadata.error(message));
        }
        Self::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(" and ");
            metadata.wrong(KEY, &format!("{name:?} is not supported; of GGUF files byrote reads {names}"))
        })
    }

    /// The configuration, from the metadata and from what tensors there are. `factors` reads [`ROPE_FACTORS`].
    pub(super) fn config(
        self,
        metadata: &Metadata,
        tensors: &TensorFiles,
        factors: &[f32],
    ) -> Result<Config> {
        let key = |name: &str| format!("{}.{name}", self.name());
        self.refuse(metadata)?;
        let d_model = metadata.size(&key("embedding_length"))?;
        let n_heads = metadata.size(&key("attention.head_count"))?;
        let d_head = match metadata.count(&key("attention.key_length"))? {
            Some(given) => given,
            None if d_model.is_multiple_of(n_heads) => d_model / n_heads,
            None => {
                let message = format!("{n_heads} heads cannot share a width of {d_model}");
                return Err(metadata.wrong(&key("attention.head_count"), &message));
            }
        };
        for name in ["attention.value_length", "rope.dimension_count"] {
            if let Some(other) = metadata.count(&key(name))?.filter(|&other| other != d_head) {
                let message = format!("must be {d_head}, the dimension of a head (got {other})");
                return Err(metadata.wrong(&key(name), &message));
            }
        }
        let shape = Shape {
            d_vocab: tensors.entry("token_embd.weight")?.shape.first().map_or(0, |&n| n as u64),
            n_ctx: metadata.size(&key("context_length"))?,
            d_model,
            n_heads,
            d_head,
            d_mlp: metadata.size(&key("feed_forward_length"))?,
            ..Shape::default()
        };
        let plain = Preset::Llama.config(shape);
        let theta = metadata.number(&key("rope.freq_base"))?.unwrap_or(10_000.0);
        let rotary = Rotary { dims: d_head, theta, scaling: self.scaling(metadata)? };
        let norm_eps = metadata.number(&key("attention.layer_norm_rms_epsilon"))?;
        let has = |name: &str| tensors.has(&format!("blk.0.{name}.bias"));
        let blocks = plain.shape.blocks.map(|blocks| -> Result<Blocks> {
            Ok(Blocks {
                n_layers: metadata.size(&key("block_count"))?,
                n_kv_heads: metadata.count(&key("attention.head_count_kv"))?.unwrap_or(n_heads),
                norm_eps: norm_eps.ok_or_else(|| {
                    metadata.error(format!("{} is missing", key("attention.layer_norm_rms_epsilon")))
                })?,
                attention_output_bias: has("attn_output"),
                mlp_bias: has("ffn_up"),
                tied: !tensors.has("output.weight"),
                rotary: Some(with_factors(metadata, rotary, factors)?),
                ..blocks
            })
        });
        let shape = Shape { blocks: blocks.transpose()?, ..plain.shape };
        let attention_bias = self == Self::Qwen2 || has("attn_q");
        let config = Config { shape, attention_bias, ..plain };
        config.checked().map_err(|e| metadata.error(e.to_string()))
    }

    /// Refuses settings that change what the model computes in a way that byrote does not.
    fn refuse(self, metadata: &Metadata) -> Result<()> {
        let key = |name: &str| format!("{}.{name}", self.name());
        for (name, what) in [
            ("expert_count", "experts are"),
            ("attention.max_alibi_bias", "ALiBi is"),
            ("attention.clamp_kqv", "clamping of queries, keys and values is"),
            ("attention.scale", "another scale of attention scores is"),
            ("attn_logit_softcapping", "soft capping is"),
            ("final_logit_softcapping", "soft capping is"),
            ("logit_scale", "a scale of the logits is"),
            ("residual_scale", "a scale of the residual stream is"),
            ("embedding_scale", "a scale of the embedding is"),
        ] {
            let name = key(name);
            if let Some(value) = metadata.number(&name)?.filter(|&value| value != 0.0) {
                return Err(metadata.wrong(&name, &format!("{what} not supported (got {value})")));
            }
        }
        let (window, longest) = (key("attention.sliding_window"), metadata.count(&key("context_length"))?);
        match metadata.count(&window)?.filter(|&n| n > 0 && longest.is_some_and(|longest| n < longest)) {
            Some(n) => Err(metadata.wrong(&window, &format!("a sliding window is not supported (got {n})"))),
            None => Ok(()),
        }
    }

    /// How rotary frequencies are scaled.
    fn scaling(self, metadata: &Metadata) -> Result<Option<RotaryScaling>> {
        let key = |name: &str| format!("{}.rope.{name}", self.name());
        let (kind, factor) = (key("scaling.type"), key("scaling.factor"));
        // Older files have the factor alone, under another name.
        let old = metadata.number(&key("scale_linear"))?;
        let given = metadata.number(&factor)?.or(old).filter(|&factor| factor != 0.0 && factor != 1.0);
        let linear =
            |factor: f64| match factor > 0.0 && factor.is_finite() {
                true => Ok(Some(RotaryScaling::Linear { factor })),
                false => Err(metadata
                    .wrong(&key("scaling.factor"), &format!("must be finite and above 0 (got {factor})"))),
            };
        match (metadata.text(&kind)?, given) {
            (Some("none"), _) | (None | Some("linear"), None) => Ok(None),
            (None | Some("linear"), Some(factor)) => linear(factor),
            (Some(other), _) => {
                Err(metadata
                    .wrong(&kind, &format!("{other:?} is not supported; byrote reads none and linear")))
            }
        }
    }

    /// The tensors of a model.
    pub(super) fn layout(self, config: &Config) -> Vec<Foreign> {
        let shape = &config.shape;
        let Some(blocks) = &shape.blocks else { return Vec::new() };
        let sizes =
            [shape.d_model, shape.d_vocab, shape.d_mlp, shape.d_head, shape.n_heads, blocks.n_kv_heads];
        let [d, d_vocab, m, e, heads, kv] = sizes.map(|n| n as usize);
        let mut all =
            vec![Foreign::same("token_embd.weight".into(), TensorName::of("embed.W_E"), &[d_vocab, d])];
        for block in 0..blocks.n_layers as u32 {
            let of = |part| TensorName::in_block(block, part);
            let name = |part: &str| format!("blk.{block}.{part}");
            all.push(Foreign::same(name("attn_norm.weight"), of("ln1.w"), &[d]));
            for (part, weight, bias, heads, rotated) in [
                ("attn_q", "attn.W_Q", "attn.b_Q", heads, true),
                ("attn_k", "attn.W_K", "attn.b_K", kv, true),
                ("attn_v", "attn.W_V", "attn.b_V", kv, false),
            ] {
                let pairs = rotated && self == Self::Llama;
                let (weight, bias) = projection(of(weight), of(bias), [heads, d, e], pairs);
                all.push(Foreign {
                    name: name(&format!("{part}.weight")),
                    shape: vec![heads * e, d],
                    parts: vec![weight],
                });
                if config.attention_bias {
                    all.push(Foreign {
                        name: name(&format!("{part}.bias")),
                        shape: vec![heads * e],
                        parts: vec![bias],
                    });
                }
            }
            all.push(Foreign::transposed(name("attn_output.weight"), of("attn.W_O"), heads * e, d));
            if blocks.attention_output_bias {
                all.push(Foreign::same(name("attn_output.bias"), of("attn.b_O"), &[d]));
            }
            all.push(Foreign::same(name("ffn_norm.weight"), of("ln2.w"), &[d]));
            for (part, weight, bias, inputs, outputs) in [
                ("ffn_gate", "mlp.W_gate", "mlp.b_gate", d, m),
                ("ffn_up", "mlp.W_in", "mlp.b_in", d, m),
                ("ffn_down", "mlp.W_out", "mlp.b_out", m, d),
            ] {
                all.push(Foreign::transposed(name(&format!("{part}.weight")), of(weight), inputs, outputs));
                if blocks.mlp_bias {
                    all.push(Foreign::same(name(&format!("{part}.bias")), of(bias), &[outputs]));
                }
            }
        }
        all.push(Foreign::same("output_norm.weight".into(), TensorName::of("ln_final.w"), &[d]));
        if !blocks.tied {
            all.push(Foreign::transposed("output.weight".into(), TensorName::of("unembed.W_U"), d, d_vocab));
        }
        all
    }
}

/// Where a projection to heads and its bias are; with `pairs`, numbers that are rotated together are neighbours.
fn projection(weight: TensorName, bias: TensorName, [heads, d, e]: [usize; 3], pairs: bool) -> (Part, Part) {
    match pairs {
        // Number k = s e / 2 + i of a head is row 2 i + s.
        true => (
            Part::new(weight, 0, [(heads, e * d), (d, 1), (2, d), (e / 2, 2 * d)]),
            Part::new(bias, 0, [(heads, e), (2, 1), (e / 2, 2)]),
        ),
        false => {
            (Part::new(weight, 0, [(heads, e * d), (d, 1), (e, d)]), Part::new(bias, 0, [(heads * e, 1)]))
        }
    }
}

/// The rotary positions whose frequencies are the plain ones divided by `factors`, which files of Llama 3 hold in place of the
/// numbers they were computed from.
fn with_factors(metadata: &Metadata, rotary: Rotary, factors: &[f32]) -> Result<Rotary> {
    if factors.iter().all(|&factor| factor == 1.0) {
        return Ok(rotary);
    }
    let largest = factors.iter().copied().fold(0.0, f32::max);
    // The context first trained on is not stored; it is a power of two.
    let candidates = (4..=24).map(|power| RotaryScaling::Llama3 {
        factor: f64::from(largest),
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_n_ctx: 1 << power,
    });
    // A head may claim to be of any size; the factors are there.
    let plain = if factors.len() as u64 == rotary.dims / 2 { rotary.frequencies() } else { Vec::new() };
    let found = candidates.map(|scaling| Rotary { scaling: Some(scaling), ..rotary }).find(|candidate| {
        let agree = |((plain, scaled), &factor): ((&f64, &f64), &f32)| {
            (plain / scaled - f64::from(factor)).abs() <= 1e-5 * f64::from(factor)
        };
        !plain.is_empty() && plain.iter().zip(&candidate.frequencies()).zip(factors).all(agree)
    });
    match found {
        Some(found) if rotary.scaling.is_none() => Ok(found),
        _ => Err(metadata.error(format!(
            "{ROPE_FACTORS} holds factors of rotary frequencies other than those of Llama 3, which are not supported"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    #[test]
    fn numbers_that_rotate_together_are_neighbours_in_llama() {
        let name = TensorName::of("W");
        let (weight, bias) = projection(name, name, [2, 3, 4], true);
        // Head 1, input 2: numbers 0, 1, 2, 3 are rows 4, 6, 5, 7.
        let indices: Vec<usize> = weight.indices().collect();
        let own = |h: usize, j: usize, k: usize| indices[(h * 3 + j) * 4 + k];
        assert_eq!([0, 1, 2, 3].map(|k| own(1, 2, k)), [4, 6, 5, 7].map(|row| row * 3 + 2));
        assert_eq!(bias.indices().collect::<Vec<_>>(), [0, 2, 1, 3, 4, 6, 5, 7]);
        let (weight, bias) = projection(name, name, [2, 3, 4], false);
        let indices: Vec<usize> = weight.indices().collect();
        assert_eq!([0, 1, 2, 3].map(|k| indices[(3 + 2) * 4 + k]), [4, 5, 6, 7].map(|row| row * 3 + 2));
        assert!(bias.indices().eq(0..8));
    }

    #[test]
    fn the_settings_of_llama_3_are_found_from_its_factors() {
        let metadata = Metadata::new(Path::new("a.gguf"), BTreeMap::new());
        let plain = Rotary { dims: 64, theta: 500_000.0, scaling: None };
        let scaling = RotaryScaling::Llama3 {
            factor: 32.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_n_ctx: 8192,
        };
        let llama = Rotary { scaling: Some(scaling), ..plain };
        let factors: Vec<f32> =
            plain.frequencies().iter().zip(llama.frequencies()).map(|(a, b)| (a / b) as f32).collect();
        assert_eq!(with_factors(&metadata, plain, &factors).unwrap(), llama);
        assert_eq!(with_factors(&metadata, plain, &[1.0; 32]).unwrap(), plain);
        assert_eq!(with_factors(&metadata, plain, &[]).unwrap(), plain);
        let mut other = factors.clone();
        other[10] *= 1.01;
        assert!(with_factors(&metadata, plain, &other).is_err());
        assert!(with_factors(&metadata, plain, &factors[1..]).is_err());
        assert!(with_factors(&metadata, plain, &[f32::NAN; 32]).is_err());
    }
}
