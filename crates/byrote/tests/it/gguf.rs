//! GGUF files: golden files with logits computed from the same quantized weights, the golden models of Hugging Face written as GGUF,
//! and files that are wrong.
//!
//! `data/gguf/` holds two small random models whose tensors have every type that byrote reads, with the logits of their last
//! positions, and two golden directories of Hugging Face as llama.cpp's `convert_hf_to_gguf.py` writes them (its look-up of the
//! splitting rule, which knows published tokenizers only, answers `gpt-2`).

use crate::gguf_writer::{Gguf, Value as Entry, array};
use byrote::any_model::AnyModel;
use byrote::corpus::Vocabulary;
use byrote::model::{
    Init, Model, ModelFile, ModelSpec, Precision, Preset, StoredAs, StoredModel, huggingface,
};
use byrote::model::{Norm, RotaryScaling};
use proptest::prelude::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect()
}

fn argmax(logits: &[f64]) -> usize {
    (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap()
}

#[test]
fn logits_of_the_golden_files_are_those_of_their_weights() {
    for (name, dtype, layers) in [("mixed", "f32 and others", 2), ("kquants", "q3_k and others", 1)] {
        let path = data("gguf").join(format!("{name}.gguf"));
        let stored = StoredModel::open(&path).unwrap();
        assert_eq!((stored.stored_as, stored.family.as_str()), (StoredAs::Gguf, "llama"));
        assert_eq!((stored.dtype.as_str(), stored.instruct), (dtype, false));
        assert_eq!(stored.start_token().unwrap(), None);
        assert_eq!(stored.config.shape.blocks.unwrap().n_layers, layers);
        let file = stored.to_model_file().unwrap();
        assert!(matches!(AnyModel::load(&path).unwrap(), AnyModel::OneLayer(read) if read == file));
        assert_eq!(file.precision, Precision::F32);
        let expected = read_json(&data("gguf").join(format!("{name}.expected.json")));
        let mut worst = 0f64;
        for case in expected["cases"].as_array().unwrap() {
            let context = ids(&case["ids"]);
            let logits = file.model.logits(&context).unwrap();
            for (a, b) in logits.iter().zip(case["last_logits"].as_array().unwrap()) {
                let b = b.as_f64().unwrap();
                assert!((a - b).abs() <= 1e-4 + 1e-5 * b.abs(), "{name}: {a} {b}");
                worst = worst.max((a - b).abs());
            }
            for (t, token) in ids(&case["argmax"]).into_iter().enumerate() {
                assert_eq!(argmax(&file.model.logits(&context[..=t]).unwrap()), token as usize, "{name}");
            }
        }
        println!("{name}: largest difference {worst:.1e}");
    }
}

#[test]
fn a_tensor_read_alone_is_that_of_the_whole_model() {
    for name in ["mixed", "kquants"] {
        let path = data("gguf").join(format!("{name}.gguf"));
        let (mut stored, whole) =
            (StoredModel::open(&path).unwrap(), StoredModel::open(&path).unwrap().to_model_file().unwrap());
        for tensor in whole.model.tensors() {
            let mut values = vec![f32::NAN; tensor.range.len()];
            stored.read(tensor, &mut values).unwrap();
            let expected = &whole.model.parameters()[tensor.range.clone()];
            assert!(values.iter().zip(expected).all(|(a, b)| f64::from(*a) == *b), "{}", tensor.name);
        }
    }
}

#[test]
fn the_tokenizer_in_the_file_is_that_of_the_directory_with_the_same_tokens() {
    let expected = read_json(&data("huggingface/gpt2/expected.json"));
    for name in ["mixed", "kquants"] {
        let stored = StoredModel::open(&data("gguf").join(format!("{name}.gguf"))).unwrap();
        for case in expected["tokenization"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            assert_eq!(stored.reading().tokens(text, false, None).unwrap(), ids(&case["ids"]), "{text:?}");
        }
        assert_eq!((stored.vocabulary.len(), stored.vocabulary.text(0)), (320, "<|endoftext|>".into()));
        assert!(stored.tokenizer.starts_with("tokenizer.json:"), "{}", stored.tokenizer);
    }
}

#[test]
fn files_of_the_converter_hold_the_weights_and_the_tokenizer_of_their_directories() {
    for (name, directory, dtype) in
        [("llama3", "llama3_bf16_sharded", "bf16 and others"), ("qwen2", "qwen2", "f32")]
    {
        let stored = StoredModel::open(&data("gguf").join(format!("{name}.gguf"))).unwrap();
        assert_eq!(stored.dtype, dtype);
        let read = stored.to_model_file().unwrap();
        let file = huggingface::load(&data("huggingface").join(directory)).unwrap();
        assert_eq!(read.model.parameters(), file.model.parameters(), "{name}");
        let frequencies =
            |file: &ModelFile| file.model.config().shape.blocks.unwrap().rotary.unwrap().frequencies();
        let (a, b) = (frequencies(&read), frequencies(&file));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-12 * b), "{name}: {a:?} {b:?}");
        for text in ["Hello, world", "  two spaces\n\nand 42 lines", "naïve café — ☃"] {
            let tokens = |file: &ModelFile| file.reading().tokens(text, false, None).unwrap();
            assert_eq!(tokens(&read), tokens(&file), "{name}: {text:?}");
        }
    }
}

/// A model of the families that GGUF files have, as a GGUF file in f32. `pairs` says whether numbers that rotate together are
/// neighbours.
fn written(model: &Model, architecture: &str, pairs: bool) -> Gguf {
    let config = model.config();
    let shape = config.shape;
    let blocks = shape.blocks.unwrap();
    let rotary = blocks.rotary.unwrap();
    let (d, e, m) = (shape.d_model as usize, shape.d_head as usize, shape.d_mlp as usize);
    let key = |name: &str| format!("{architecture}.{name}");
    let mut file = Gguf::new()
        .set("general.architecture", architecture)
        .set(&key("context_length"), shape.n_ctx as u32)
        .set(&key("embedding_length"), d as u32)
        .set(&key("block_count"), blocks.n_layers as u32)
        .set(&key("feed_forward_length"), m as u32)
        .set(&key("attention.head_count"), shape.n_heads as u32)
        .set(&key("attention.head_count_kv"), blocks.n_kv_heads as u32)
        .set(&key("attention.key_length"), e as u32)
        .set(&key("attention.layer_norm_rms_epsilon"), blocks.norm_eps as f32)
        .set(&key("rope.freq_base"), rotary.theta as f32);
    if let Some(RotaryScaling::Llama3 { .. }) = rotary.scaling {
        let plain = byrote::model::Rotary { scaling: None, ..rotary };
        let factors: Vec<f32> =
            plain.frequencies().iter().zip(rotary.frequencies()).map(|(a, b)| (a / b) as f32).collect();
        file = file.tensor("rope_freqs.weight", &[factors.len()], &factors);
    }
    for tensor in model.tensors() {
        let values: Vec<f32> = model.parameters()[tensor.range.clone()].iter().map(|&x| x as f32).collect();
        let (block, part) = (tensor.name.block(), tensor.name.part());
        let name = match part {
            "embed.W_E" => "token_embd.weight",
            "unembed.W_U" => "output.weight",
            "ln_final.w" => "output_norm.weight",
            "ln1.w" => "attn_norm.weight",
            "ln2.w" => "ffn_norm.weight",
            "attn.W_Q" => "attn_q.weight",
            "attn.W_K" => "attn_k.weight",
            "attn.W_V" => "attn_v.weight",
            "attn.b_Q" => "attn_q.bias",
            "attn.b_K" => "attn_k.bias",
            "attn.b_V" => "attn_v.bias",
            "attn.W_O" => "attn_output.weight",
            "attn.b_O" => "attn_output.bias",
            "mlp.W_gate" => "ffn_gate.weight",
            "mlp.W_in" => "ffn_up.weight",
            "mlp.W_out" => "ffn_down.weight",
            "mlp.b_gate" => "ffn_gate.bias",
            "mlp.b_in" => "ffn_up.bias",
            "mlp.b_out" => "ffn_down.bias",
            other => panic!("{other}"),
        };
        let name = block.map_or(name.to_owned(), |block| format!("blk.{block}.{name}"));
        // Row 2 i + s of a head is number s e / 2 + i of it.
        let number =
            |row: usize| match pairs && matches!(part, "attn.W_Q" | "attn.W_K" | "attn.b_Q" | "attn.b_K") {
                true => row % 2 * (e / 2) + row / 2,
                false => row,
            };
        let (shape, stored): (Vec<usize>, Vec<f32>) = match (part, &tensor.shape[..]) {
            ("embed.W_E" | "ln1.w" | "ln2.w" | "ln_final.w", shape) => (shape.to_vec(), values),
            ("attn.W_Q" | "attn.W_K" | "attn.W_V", &[heads, d, e]) => {
                let at = |h: usize, row: usize, j: usize| values[(h * d + j) * e + number(row)];
                let rows =
                    (0..heads).flat_map(|h| (0..e).flat_map(move |row| (0..d).map(move |j| (h, row, j))));
                (vec![heads * e, d], rows.map(|(h, row, j)| at(h, row, j)).collect())
            }
            ("attn.b_Q" | "attn.b_K" | "attn.b_V", &[heads, e]) => {
                let rows = (0..heads).flat_map(|h| (0..e).map(move |row| (h, row)));
                (vec![heads * e], rows.map(|(h, row)| values[h * e + number(row)]).collect())
            }
            (_, [n]) => (vec![*n], values),
            (_, dims) => {
                let outputs = *dims.last().unwrap();
                let inputs = values.len() / outputs;
                let all = (0..outputs).flat_map(|o| (0..inputs).map(move |i| (o, i)));
                (vec![outputs, inputs], all.map(|(o, i)| values[i * outputs + o]).collect())
            }
        };
        file = file.tensor(&name, &shape, &stored);
    }
    file
}

/// Writes a file and opens it.
fn open(file: &Gguf) -> byrote::Result<StoredModel> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model.gguf");
    fs::write(&path, file.bytes()).unwrap();
    // The file stays open, so that tensors can be read after its directory is gone.
    StoredModel::open(&path)
}

#[test]
fn golden_models_of_hugging_face_are_the_same_as_gguf() {
    for (name, architecture) in [("llama", "llama"), ("llama3_bf16_sharded", "llama"), ("qwen2", "qwen2")] {
        let file = huggingface::load(&data("huggingface").join(name)).unwrap();
        let read = open(&written(&file.model, architecture, architecture == "llama")).unwrap();
        assert_eq!((read.family.as_str(), read.dtype.as_str()), (architecture, "f32"));
        assert_eq!((read.tokenizer.as_str(), &read.vocabulary), ("ids", &Vocabulary::of_ids(320)));
        let read = read.to_model_file().unwrap();
        // Settings are stored in f32.
        let eps = f64::from(file.model.config().shape.blocks.unwrap().norm_eps as f32);
        assert_eq!(read.model.config().shape.blocks.unwrap().norm_eps, eps, "{name}");
        assert_eq!(read.model.parameters(), file.model.parameters(), "{name}");
        let frequencies = |model: &Model| model.config().shape.blocks.unwrap().rotary.unwrap().frequencies();
        let (a, b) = (frequencies(&read.model), frequencies(&file.model));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-12 * b), "{name}: {a:?} {b:?}");
        // Without the order of pairs the weights are others.
        let other = written(&file.model, architecture, architecture != "llama");
        assert_ne!(
            open(&other).unwrap().to_model_file().unwrap().model.parameters(),
            file.model.parameters()
        );
    }
}

/// A small model with every parameter drawn.
fn drawn(spec: ModelSpec) -> Model {
    let config = spec.resolve(11, 6).unwrap();
    let model = Model::drawn(config, 7, Init::Scaled).unwrap();
    let noise = (0..model.parameters().len()).map(|i| (i as f64 * 0.7).sin() * 0.125);
    let parameters = model.parameters().iter().zip(noise).map(|(x, n)| x + n).collect();
    Model::new(config, parameters).unwrap().rounded_to_f32().unwrap()
}

fn llama() -> ModelSpec {
    ModelSpec::default().preset(Preset::Llama).n_layers(2).d_model(12).n_heads(4).d_mlp(10).d_head(6)
}

#[test]
fn every_switch_of_the_family_is_read_back() {
    for spec in
        [llama(), llama().tied(true).n_kv_heads(2), llama().attention_bias(true).mlp_bias(true).n_kv_heads(1)]
    {
        let model = drawn(spec);
        for version in [2, 3] {
            for alignment in [8, 32, 64] {
                let mut file = written(&model, "llama", true).set("general.alignment", alignment as u32);
                (file.version, file.alignment) = (version, alignment);
                let read = open(&file).unwrap().to_model_file().unwrap();
                assert_eq!(read.model.parameters(), model.parameters(), "{spec:?}");
                let (a, b) = (read.model.config(), model.config());
                assert_eq!((a.attention_bias, a.shape.n_ctx), (b.attention_bias, b.shape.n_ctx));
                let (a, b) = (a.shape.blocks.unwrap(), b.shape.blocks.unwrap());
                assert_eq!((a.tied, a.mlp_bias, a.n_kv_heads), (b.tied, b.mlp_bias, b.n_kv_heads));
                assert_eq!(
                    (a.norm, a.gated, a.attention_output_bias),
                    (Norm::Rms, true, b.attention_output_bias)
                );
            }
        }
    }
}

fn refused(file: &Gguf) -> String {
    refused_bytes(&file.bytes())
}

fn refused_bytes(bytes: &[u8]) -> String {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    let error = match StoredModel::open(&path) {
        Err(error) => error,
        Ok(stored) => stored.to_model_file().unwrap_err(),
    };
    assert_eq!(error.path(), Some(&*path), "{error}");
    let error = error.to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn settings_that_are_not_computed_are_refused_by_name() {
    let file = written(&drawn(llama()), "llama", true);
    for (key, value, part) in [
        (
            "general.architecture",
            Entry::from("mamba"),
            "\"mamba\" is not supported; of GGUF files byrote reads llama and qwen2",
        ),
        ("general.type", Entry::from("adapter"), "merge it into its model first"),
        ("split.count", Entry::from(3), "is one of 3 parts of a model"),
        ("general.alignment", Entry::from(48), "general.alignment: must be a power of two (got 48)"),
        ("llama.expert_count", Entry::from(8), "llama.expert_count: experts are not supported (got 8)"),
        ("llama.attention.sliding_window", Entry::from(4), "a sliding window is not supported (got 4)"),
        ("llama.attention.scale", Entry::from(0.5f32), "llama.attention.scale"),
        ("llama.final_logit_softcapping", Entry::from(30f32), "soft capping"),
        (
            "llama.rope.scaling.type",
            Entry::from("yarn"),
            "llama.rope.scaling.type: \"yarn\" is not supported",
        ),
        ("llama.rope.scaling.factor", Entry::from(-2f32), "must be finite and above 0 (got -2)"),
        ("llama.rope.freq_base", Entry::from(0f32), "rotary_theta"),
        ("llama.rope.dimension_count", Entry::from(4), "must be 6, the dimension of a head (got 4)"),
        ("llama.attention.value_length", Entry::from(4), "llama.attention.value_length: must be 6"),
        (
            "llama.attention.head_count",
            Entry::from("four"),
            "llama.attention.head_count: must be a whole number (got \"four\")",
        ),
        ("llama.attention.head_count", Entry::from(vec![4, 4]), "must be a whole number (got an array)"),
        ("llama.attention.head_count", Entry::from(0), "must be above 0"),
        ("llama.attention.head_count_kv", Entry::from(3), "n_kv_heads: must divide"),
        ("llama.attention.layer_norm_rms_epsilon", Entry::from(-1f32), "norm_eps"),
        ("llama.block_count", Entry::from(3), "blk.2.attn_norm.weight is missing"),
        ("llama.block_count", Entry::from(1), "unexpected tensor \"blk.1."),
        ("llama.block_count", Entry::from(u32::MAX), "n_layers: must be from 1 to"),
        (
            "llama.embedding_length",
            Entry::from(24),
            "token_embd.weight has shape [11, 12], but the metadata needs [11, 24]",
        ),
        ("llama.feed_forward_length", Entry::from(1 << 20), "ffn_gate.weight has shape"),
    ] {
        let error = refused(&file.clone().set(key, value));
        assert!(error.contains(part), "{key}: {error}");
    }
    for key in [
        "general.architecture",
        "llama.context_length",
        "llama.embedding_length",
        "llama.block_count",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ] {
        let error = refused(&file.clone().without(key));
        assert!(error.contains(&format!("{key} is missing")), "{error}");
    }
    // A window longer than the context is never used, and a linear factor is.
    let linear =
        file.clone().set("llama.attention.sliding_window", 4096).set("llama.rope.scaling.factor", 4f32);
    let config = open(&linear).unwrap().config;
    let scaling = config.shape.blocks.unwrap().rotary.unwrap().scaling;
    assert_eq!(scaling, Some(RotaryScaling::Linear { factor: 4.0 }));
    let factors = file.clone().tensor("rope_freqs.weight", &[3], &[1.0, 1.5, 2.0]);
    assert!(refused(&factors).contains("other than those of Llama 3"));
    let wide = file.tensor("rope_freqs.weight", &[1, 3], &[1.0; 3]);
    assert!(refused(&wide).contains("rope_freqs.weight has shape [1, 3]"));
}

#[test]
fn tensors_that_are_wrong_are_refused_by_name() {
    let file = written(&drawn(llama()), "llama", true);
    let name = "blk.1.ffn_up.weight";
    let altered = |alter: &dyn Fn(&mut crate::gguf_writer::Tensor)| refused(&file.clone().alter(name, alter));
    for (error, part) in [
        (altered(&|t| t.kind = 23), "blk.1.ffn_up.weight has the type IQ4_XS; byrote reads F32, F16"),
        (altered(&|t| t.kind = 99), "has the type 99;"),
        (altered(&|t| t.kind = 8), "which is impossible for q8_0"),
        (altered(&|t| t.sizes = vec![10, 12]), "has shape [12, 10], but the metadata needs [10, 12]"),
        (altered(&|t| t.sizes = vec![]), "has 0 dimensions; it must have 1 to 4"),
        (altered(&|t| t.sizes = vec![1; 5]), "has 5 dimensions"),
        (altered(&|t| t.sizes = vec![12, 0]), "has a dimension of 0"),
        (altered(&|t| t.sizes = vec![1 << 40, 1 << 40]), "impossible for f32"),
        (altered(&|t| t.sizes = vec![1 << 30, 1 << 30]), "damaged or incomplete"),
        (altered(&|t| t.offset = Some(u64::MAX - 31)), "damaged or incomplete"),
        (
            altered(&|t| t.offset = Some(1 << 40)),
            "damaged or incomplete: blk.1.ffn_up.weight has 480 B at offset",
        ),
        (altered(&|t| t.offset = Some(3)), "not a multiple of 32"),
        (altered(&|t| t.offset = Some(0)), "overlap"),
        (altered(&|t| t.name = "blk.1.ffn_down.weight".into()), "has two tensors blk.1.ffn_down.weight"),
        (altered(&|t| t.name = "x".repeat(70_000)), "the name of a tensor of 70000 bytes"),
        (
            altered(&|t| t.bytes[4..8].copy_from_slice(&f32::NAN.to_le_bytes())),
            "blk.1.ffn_up.weight contains NaN (first at entry 1)",
        ),
        (refused(&file.clone().drop_tensor(name)), "the tensor blk.1.ffn_up.weight is missing"),
        (refused(&file.clone().drop_tensor("token_embd.weight")), "the tensor token_embd.weight is missing"),
        (
            refused(&file.clone().tensor("blk.0.attn_q_norm.weight", &[1], &[1.0])),
            "unexpected tensor \"blk.0.attn_q_norm.weight\"",
        ),
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let file = written(&drawn(llama()), "llama", true);
    let bytes = file.bytes();
    let at = |position: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[position..position + value.len()].copy_from_slice(value);
        refused_bytes(&bytes)
    };
    let most = u64::MAX.to_le_bytes();
    let nested = (0..6).fold(array(4, 0, Vec::new()), |inner, _| array(9, 1, inner.1));
    for (error, part) in [
        (refused_bytes(b""), "not a GGUF file"),
        (refused_bytes(b"GGU"), "not a GGUF file"),
        (at(0, b"GGML"), "not a GGUF file"),
        (at(4, &[1, 0, 0, 0]), "has GGUF version 1; byrote reads versions 2 and 3"),
        (at(4, &[0, 0, 0, 3]), "is big endian"),
        (at(8, &most), "tensors; byrote reads at most"),
        (at(16, &most), "entries of metadata; byrote reads at most"),
        (at(16, &60_000u64.to_le_bytes()), "damaged"),
        (at(24, &most), "a key of 18446744073709551615 bytes"),
        (at(24, &60_000u64.to_le_bytes()), "a key takes 60000 bytes, but"),
        (at(32, &[0xff]), "a key is not text in UTF-8"),
        (refused(&file.clone().set("a", Entry(13, vec![]))), "a has the unknown type 13"),
        (refused(&file.clone().set("a", Entry(7, vec![2]))), "a is 2, neither true nor false"),
        (refused(&file.clone().set("a", Entry(8, most.to_vec()))), "a of 18446744073709551615 bytes"),
        (refused(&file.clone().set("a", array(4, usize::MAX, vec![]))), "a takes 18446744073709551615 bytes"),
        (refused(&file.clone().set("a", array(8, 1 << 60, vec![]))), "a takes"),
        (refused(&file.clone().set("a", array(9, 1 << 60, vec![]))), "damaged"),
        (refused(&file.clone().set("a", array(14, 1, vec![]))), "values of the unknown type 14"),
        (refused(&file.clone().set("a", nested)), "nests arrays more than 4 deep"),
        (
            refused(&file.clone().set("a", Entry(8, [&1u64.to_le_bytes()[..], &[0xff]].concat()))),
            "a is not text in UTF-8",
        ),
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let mut twice = file.clone();
    twice.entries.push(twice.entries[0].clone());
    assert!(refused(&twice).contains("the key general.architecture occurs twice"));
    // Every truncation is noticed, by the header or by the last tensor.
    for length in (0..bytes.len()).step_by(7) {
        refused_bytes(&bytes[..length]);
    }
    // Values of every type are read, also where nothing asks for them.
    let all = [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)];
    let mut whole = file.clone();
    for (kind, width) in all {
        whole = whole.set(&format!("a{kind}"), Entry(kind, vec![0; width]));
        whole = whole.set(&format!("b{kind}"), array(kind, 3, vec![0; 3 * width]));
    }
    whole = whole.set("c", array(9, 1, array(9, 1, array(8, 0, vec![]).1).1));
    assert!(open(&whole).is_ok());
}

#[test]
fn a_sparse_file_takes_no_memory_for_what_it_claims() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("model.gguf");
    let start = written(&drawn(llama()), "llama", true).set("a", array(0, 1 << 36, vec![])).bytes();
    fs::write(&path, start).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    let error = StoredModel::open(&path).unwrap_err().to_string();
    assert!(error.contains("its header has more than 256.0 MiB, at a"), "{error}");
}

/// A file with a tokenizer of `tokens`.
fn with_tokenizer(tokens: &[&str], types: &[i32]) -> Gguf {
    let config = llama().resolve(tokens.len() as u64, 6).unwrap();
    let model = Model::random(config, 0).unwrap().rounded_to_f32().unwrap();
    written(&model, "llama", true)
        .set("tokenizer.ggml.tokens", tokens.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>())
        .set("tokenizer.ggml.token_type", types.to_vec())
}

fn tokens(model: &StoredModel, text: &str) -> Vec<String> {
    let ids = model.reading().tokens(text, false, None).unwrap();
    ids.iter().map(|&id| model.vocabulary.text(id)).collect()
}

#[test]
fn pieces_are_cut_by_the_rule_that_the_file_names() {
    // Tokens for every stand-in of the bytes used here, and the pieces as merges would build them.
    let vocabulary: Vec<&str> =
        "Ġ|Ċ|1|2|3|4|a|b|.|'|S|12|123|1234|Ġ1|Ġ12|Ġa|Ġab|ab|'S|..|.Ċ|.a|ĊĊ|ĠĠ|<e>|<u>".split('|').collect();
    let merges = [
        "1 2", "12 3", "123 4", "Ġ 1", "Ġ1 2", "Ġ a", "Ġa b", "a b", "' S", ". .", ". Ċ", ". a", "Ċ Ċ", "Ġ Ġ",
    ];
    let types: Vec<i32> = vocabulary
        .iter()
        .map(|t| match *t {
            "<e>" => 3,
            "<u>" => 4,
            _ => 1,
        })
        .collect();
    let file = with_tokenizer(&vocabulary, &types)
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.merges", merges.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>());
    for (pre, text, expected) in [
        ("gpt-2", "ab 1234 ab", vec!["ab", "Ġ", "1234", "Ġab"]),
        ("gpt-2", "1234", vec!["1234"]),
        ("smollm", "ab 1234", vec!["ab", "Ġ", "1", "2", "3", "4"]),
        ("llama-bpe", "1234", vec!["123", "4"]),
        ("llama-bpe", " 12", vec!["Ġ", "12"]),
        ("llama-bpe", ".a'S", vec![".a", "'S"]),
        ("llama-bpe", "..\n\na", vec!["..", "ĊĊ", "a"]),
        ("llama3", "123", vec!["123"]),
        ("qwen2", "12'S", vec!["1", "2", "'S"]),
        ("qwen2", " a.\n", vec!["Ġa", ".Ċ"]),
        ("default", "a1234..", vec!["a", "123", "4", ".."]),
        ("default", " 12.a", vec!["Ġ", "12", ".", "a"]),
        ("gpt-2", ".a\n\n  ab", vec![".", "a", "ĊĊ", "Ġ", "Ġab"]),
        ("gpt-2", "a<e>a<u>", vec!["a", "<e>", "a", "<u>"]),
    ] {
        let model =
            open(&file.clone().set("tokenizer.ggml.pre", pre).set("tokenizer.ggml.bos_token_id", 0)).unwrap();
        assert_eq!(tokens(&model, text), expected, "{pre}: {text:?}");
    }
    let pre = file.set("tokenizer.ggml.pre", "gpt-2");
    for (file, part) in [
        (pre.clone().without("tokenizer.ggml.merges"), "tokenizer.ggml.merges is missing"),
        (
            pre.clone().set("tokenizer.ggml.merges", vec!["a c".to_owned()]),
            "\"a c\" (number 0) does not join two tokens",
        ),
        (pre.clone().set("tokenizer.ggml.merges", vec!["ab".to_owned()]), "does not join"),
        (pre.clone().set("tokenizer.ggml.merges", vec![3]), "must be a list of strings (got an array)"),
        (pre.clone().set("tokenizer.ggml.token_type", vec![1; 3]), "3 types for 27 tokens"),
        (
            pre.clone().set("tokenizer.ggml.tokens", vec!["a".to_owned(); 27]),
            "the tokens 0 and 1 are both \"a\"",
        ),
        (
            pre.clone().set("tokenizer.ggml.tokens", (0..28).map(|i| i.to_string()).collect::<Vec<_>>()),
            "has 28 tokens, but the model's vocabulary has 27 tokens",
        ),
        (pre.clone().set("tokenizer.ggml.add_bos_token", true), "tokenizer.ggml.bos_token_id: is missing"),
        (
            pre.clone().set("tokenizer.ggml.add_bos_token", true).set("tokenizer.ggml.bos_token_id", 27),
            "there is no token 27",
        ),
    ] {
        let error = refused(&file);
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_tokenizer_that_cannot_be_rebuilt_is_refused_when_it_is_needed() {
    let file = with_tokenizer(&["a", "b"], &[1, 1])
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.merges", Vec::<String>::new());
    for (file, part) in [
        (file.clone().set("tokenizer.ggml.pre", "tekken"), "tokenizer.ggml.pre = \"tekken\""),
        (file.clone(), "tokenizer.ggml.pre is missing"),
        (file.clone().set("tokenizer.ggml.model", "t5"), "tokenizer.ggml.model = \"t5\""),
        (
            file.clone()
                .set("tokenizer.ggml.model", "llama")
                .set("tokenizer.ggml.bos_token_id", 0)
                .set("tokenizer.ggml.remove_extra_whitespaces", true),
            "tokenizer.ggml.remove_extra_whitespaces",
        ),
    ] {
        let model = open(&file).unwrap();
        assert_eq!(model.vocabulary.text(1), "b");
        assert_eq!(model.reading().tokens("1 0", true, None).unwrap(), [1, 0]);
        let error = model.reading().tokens("a", false, None).unwrap_err();
        assert_eq!(error.setting_name(), Some("tokenizer"));
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains("give the tokenizer.json of the same model"), "{error}");
        let given: byrote::corpus::TokenizerChoice =
            data("huggingface/gpt2/tokenizer.json").to_str().unwrap().parse().unwrap();
        assert!(model.reading().tokens("!", false, Some(&given)).is_ok());
    }
}

#[test]
fn the_start_token_is_what_the_file_adds() {
    let file = with_tokenizer(&["a", "b", "<s>"], &[1, 1, 3])
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.pre", "gpt-2")
        .set("tokenizer.ggml.bos_token_id", 2)
        .set("tokenizer.ggml.merges", Vec::<String>::new());
    let start = |file: &Gguf| open(file).unwrap().start_token().unwrap();
    assert_eq!(start(&file), None);
    assert_eq!(start(&file.clone().set("tokenizer.ggml.add_bos_token", true)), Some(2));
    assert_eq!(start(&file.clone().set("tokenizer.ggml.pre", "llama-bpe")), Some(2));
    let switched_off =
        file.clone().set("tokenizer.ggml.pre", "llama-bpe").set("tokenizer.ggml.add_bos_token", false);
    assert_eq!(start(&switched_off), None);
    assert!(!open(&file).unwrap().instruct);
    assert!(open(&file.clone().set("tokenizer.chat_template", "{{ messages }}")).unwrap().instruct);
    // The tokenizer.json puts it there too, so that a directory written from the model has it.
    let model = open(&file.set("tokenizer.ggml.add_bos_token", true)).unwrap().to_model_file().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("copy");
    huggingface::save(&model, &directory, Precision::F32).unwrap();
    let copy = StoredModel::open(&directory).unwrap();
    assert_eq!((copy.start_token().unwrap(), copy.to_model_file().unwrap()), (Some(2), model));
}

#[test]
fn sentence_piece_merges_by_score_and_falls_back_to_bytes() {
    let vocabulary = [
        "<unk>",
        "<s>",
        "</s>",
        "<0x0A>",
        "<0xC3>",
        "<0xA9>",
        "\u{2581}",
        "a",
        "b",
        "c",
        "\u{2581}a",
        "ab",
        "bc",
        "\u{2581}ab",
        "abc",
    ];
    let types = [2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let scores = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -9.0, -10.0, -11.0, -12.0, -3.0, -2.0, -1.0, -4.0, -5.0];
    let file = with_tokenizer(&vocabulary, &types)
        .set("tokenizer.ggml.model", "llama")
        .set("tokenizer.ggml.bos_token_id", 1)
        .set("tokenizer.ggml.scores", scores.to_vec());
    let model = open(&file).unwrap();
    assert_eq!(model.start_token().unwrap(), Some(1));
    for (text, expected) in [
        // "bc" has the largest score, then "\u{2581}a".
        ("abc", vec!["\u{2581}a", "bc"]),
        ("ab", vec!["\u{2581}ab"]),
        ("cab ab", vec!["\u{2581}", "c", "ab", "\u{2581}ab"]),
        ("a\né", vec!["\u{2581}a", "<0x0A>", "<0xC3>", "<0xA9>"]),
        ("<s>a", vec!["<s>", "\u{2581}a"]),
    ] {
        assert_eq!(tokens(&model, text), expected, "{text:?}");
    }
    let bare = open(&file.clone().set("tokenizer.ggml.add_space_prefix", false)).unwrap();
    assert_eq!(tokens(&bare, "abc ab"), ["abc", "\u{2581}ab"]);
    let error = refused(&file.clone().set("tokenizer.ggml.scores", vec![0f32; 3]));
    assert!(error.contains("must be 15 numbers (got 3)"), "{error}");
    let error = refused(&file.without("tokenizer.ggml.scores"));
    assert!(error.contains("tokenizer.ggml.scores is missing"), "{error}");
}

#[test]
fn a_gguf_file_becomes_a_file_of_byrote_and_a_directory() {
    let file = StoredModel::open(&data("gguf/mixed.gguf")).unwrap().to_model_file().unwrap();
    let place = tempfile::tempdir().unwrap();
    let own = place.path().join("own.safetensors");
    file.save(&own).unwrap();
    assert_eq!(ModelFile::load(&own).unwrap(), file);
    let directory = place.path().join("llama");
    huggingface::save(&file, &directory, Precision::F32).unwrap();
    assert_eq!(huggingface::load(&directory).unwrap(), file);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn a_damaged_file_is_refused_or_read_but_never_panics(
        at in prop::collection::vec((0usize..1 << 16, any::<u8>()), 1..6), cut in prop::option::of(0usize..1 << 16)
    ) {
        let mut bytes = written(&drawn(llama()), "llama", true)
            .set("tokenizer.ggml.model", "gpt2")
            .set("tokenizer.ggml.pre", "gpt-2")
            .set("tokenizer.ggml.tokens", ["a", "b", "ab"].map(str::to_owned).to_vec())
            .set("tokenizer.ggml.merges", vec!["a b".to_owned()])
            .bytes();
        // Most of the file is numbers; the header is what can lie.
        let header = bytes.len() - bytes.len() / 2;
        for (at, to) in at {
            bytes[at % header] = to;
        }
        if let Some(cut) = cut {
            let n = bytes.len();
            bytes.truncate(cut % n);
        }
        byrote::fuzzing::gguf(&bytes);
    }
}
