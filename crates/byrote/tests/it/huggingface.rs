//! Directories of Hugging Face, compared with what PyTorch and `transformers` compute from them.
//!
//! `data/huggingface/` holds small random models of every family with the logits that `transformers` 5.22 computes in f32;
//! `data/depth/` holds the same weights under our names and under those of Hugging Face, with the loss on a few documents.

use byrote::any_model::AnyModel;
use byrote::corpus::Vocabulary;
use byrote::model::reference::softmax;
use byrote::model::{Activation, Positions};
use byrote::model::{Config, Init, Mixer, Model, ModelFile, ModelSpec, Norm, Precision, Preset, huggingface};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

const MODELS: [&str; 7] =
    ["gpt2", "gpt2_oldnames", "gpt_neox", "gpt_neox_sequential", "llama", "llama3_bf16_sharded", "qwen2"];

fn load(name: &str) -> ModelFile {
    huggingface::load(&data("huggingface").join(name)).unwrap()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect()
}

fn argmax(logits: &[f64]) -> usize {
    (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap()
}

#[test]
fn logits_are_those_of_transformers() {
    for name in MODELS {
        let file = load(name);
        let expected = read_json(&data("huggingface").join(name).join("expected.json"));
        assert_eq!(json!(file.model.parameters().len()), expected["parameters"], "{name}");
        let mut worst = 0f64;
        for case in expected["cases"].as_array().unwrap() {
            let context = ids(&case["ids"]);
            let full = case["full"].as_bool().unwrap();
            let rows: Vec<Vec<f64>> = match full {
                true => case["logits"].as_array().unwrap().iter().map(numbers).collect(),
                false => vec![numbers(&case["last_logits"])],
            };
            let first = context.len() - rows.len();
            for (t, row) in rows.iter().enumerate() {
                let logits = file.model.logits(&context[..first + t + 1]).unwrap();
                assert_eq!(logits.len(), row.len());
                for (a, b) in logits.iter().zip(row) {
                    assert!((a - b).abs() <= 1e-4 + 1e-5 * b.abs(), "{name}: {a} {b}");
                    worst = worst.max((a - b).abs());
                }
            }
            if let Some(tokens) = case["argmax"].as_array() {
                for (t, token) in tokens.iter().enumerate() {
                    let logits = file.model.logits(&context[..=t]).unwrap();
                    assert_eq!(json!(argmax(&logits)), *token, "{name}, position {t}");
                }
            }
        }
        println!("{name}: largest difference {worst:.1e}");
    }
}

#[test]
fn texts_become_the_ids_of_transformers_also_from_a_file_of_our_own() {
    for name in MODELS {
        let file = load(name);
        let own = ModelFile::from_bytes(Path::new("memory"), &file.to_bytes().unwrap()).unwrap();
        assert_eq!(own, file, "{name}");
        let expected = read_json(&data("huggingface").join(name).join("expected.json"));
        for case in expected["tokenization"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            for file in [&file, &own] {
                assert_eq!(file.reading().tokens(text, false, None).unwrap(), ids(&case["ids"]), "{text:?}");
            }
        }
    }
}

/// A directory of the golden files named `name`.
fn depth_directory(place: &Path, name: &str) -> PathBuf {
    let directory = place.join(name);
    fs::create_dir(&directory).unwrap();
    for (from, to) in [("hf.config.json", "config.json"), ("hf.safetensors", "model.safetensors")] {
        fs::copy(data("depth").join(format!("{name}.{from}")), directory.join(to)).unwrap();
    }
    directory
}

#[test]
fn weights_are_the_same_under_both_names_and_give_the_golden_loss() {
    let place = tempfile::tempdir().unwrap();
    for name in ["gpt2-tied", "gpt2-untied", "llama"] {
        let file = huggingface::load(&depth_directory(place.path(), name)).unwrap();
        let bytes = fs::read(data("depth").join(format!("{name}.tl.safetensors"))).unwrap();
        let ours = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(ours.len(), file.model.tensors().len());
        for tensor in file.model.tensors() {
            let view = ours.tensor(&tensor.name.to_string()).unwrap();
            assert_eq!(view.shape(), tensor.shape, "{name}: {}", tensor.name);
            let values: Vec<f64> =
                view.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect();
            assert_eq!(values, file.model.parameters()[tensor.range.clone()], "{name}: {}", tensor.name);
        }
        let golden = read_json(&data("depth").join(format!("{name}.json")));
        let n_ctx = golden["config"]["T"].as_u64().unwrap() as usize;
        let mut loss = 0.0;
        for document in read_json(&data("depth").join(format!("{name}.docs.json"))).as_array().unwrap() {
            let tokens = ids(document);
            for t in 1..tokens.len().min(n_ctx + 1) {
                let probabilities: Vec<f64> = softmax(&file.model.logits(&tokens[..t]).unwrap());
                loss -= probabilities[tokens[t] as usize].ln();
            }
        }
        let expected = golden["loss_nats"].as_f64().unwrap();
        assert!((loss - expected).abs() <= 1e-10 * expected, "{name}: {loss} {expected}");
    }
}

#[test]
fn what_is_written_is_read_back() {
    let place = tempfile::tempdir().unwrap();
    let (out, precision) = (place.path().join("out"), Precision::F32);
    for name in MODELS {
        let file = load(name);
        let saved = huggingface::save(&file, &out, precision).unwrap();
        assert_eq!(saved.files.len(), 3);
        assert_eq!(huggingface::load(&out).unwrap(), file, "{name}");
        assert!(matches!(AnyModel::load(&out).unwrap(), AnyModel::OneLayer(read) if read == file));
        assert_eq!(fs::read_dir(&out).unwrap().count(), 3);
        let tokenizer = "tokenizer.json";
        let copied = fs::read(data("huggingface").join(name).join(tokenizer)).unwrap();
        assert_eq!(fs::read(out.join(tokenizer)).unwrap(), copied);
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "no temporary directory is left");
}

/// A model of a spec, with every parameter drawn: normalization and biases too.
fn drawn(spec: ModelSpec) -> ModelFile {
    let config = spec.resolve(11, 6).unwrap();
    let model = Model::drawn(config, 7, Init::Scaled).unwrap();
    let noise = (0..model.parameters().len()).map(|i| (i as f64 * 0.7).sin() * 0.125);
    let parameters = model.parameters().iter().zip(noise).map(|(x, n)| x + n).collect();
    ModelFile {
        model: Model::new(config, parameters).unwrap(),
        precision: Precision::F64,
        tokenizer: "ids".into(),
        vocabulary: Vocabulary::of_ids(11),
    }
}

#[test]
fn every_switch_that_a_family_has_survives_the_way_there_and_back() {
    let base = ModelSpec::default().n_layers(2).d_model(12).n_heads(4).d_mlp(10);
    let gpt2 = base.preset(Preset::Gpt2);
    let neox = base.preset(Preset::GptNeox).d_model(24);
    let llama = base.preset(Preset::Llama).d_head(6);
    let specs = [
        gpt2,
        gpt2.tied(false).scale_scores(false).activation(Activation::Relu),
        neox,
        neox.parallel(false).tied(true).rotary_dims(6),
        neox.attention_bias(false).rotary_dims(4).activation(Activation::Tanh),
        llama,
        llama.n_kv_heads(2).tied(true).attention_bias(true).mlp_bias(true),
        llama.n_kv_heads(1).activation(Activation::GeluTanh),
    ];
    let place = tempfile::tempdir().unwrap();
    for (i, spec) in specs.into_iter().enumerate() {
        let file = drawn(spec);
        let directory = place.path().join(i.to_string());
        huggingface::save(&file, &directory, Precision::F64).unwrap();
        assert_eq!(huggingface::load(&directory).unwrap(), file, "{spec:?}");
    }
}

#[test]
fn a_model_without_a_family_is_refused_with_the_reason() {
    let base = ModelSpec::default().n_layers(2).d_model(12).n_heads(4).d_mlp(10);
    let (gpt2, llama) = (base.preset(Preset::Gpt2), base.preset(Preset::Llama).d_head(6));
    let place = tempfile::tempdir().unwrap();
    let attention_only = ModelSpec::default().preset(Preset::AttentionOnly).d_model(12).n_heads(4);
    for (spec, reason) in [
        (ModelSpec::default(), "one-layer transformers"),
        (attention_only, "hidden layer in each block"),
        (base.preset(Preset::Averaging), "by attention"),
        (gpt2.mixer(Mixer::None), "by attention"),
        (gpt2.norm(Norm::None), "normalizes what a block reads"),
        (gpt2.norm(Norm::Rms), "both RMSNorm and learned positions"),
        (gpt2.positions(Positions::None), "has positions"),
        (gpt2.skip(false), "skip connections"),
        (gpt2.output_bias(true), "output bias"),
        (gpt2.d_head(5), "n_heads d_head = d_model"),
        (gpt2.n_kv_heads(2), "as many heads of keys"),
        (gpt2.gated(true), "no gated hidden layer"),
        (gpt2.mlp_bias(false), "has biases"),
        (gpt2.parallel(true), "one after the other"),
        (gpt2.activation(Activation::Erf), "no activation erf"),
        (llama.gated(false), "has a gated hidden layer"),
        (llama.rotary_dims(4), "rotates whole heads"),
        (llama.scale_scores(false), "divides attention scores"),
    ] {
        let file = drawn(spec);
        let directory = place.path().join("refused");
        let error = huggingface::save(&file, &directory, Precision::F64).unwrap_err();
        assert_eq!(error.setting_name(), Some("model"));
        assert!(error.to_string().contains(reason), "{error}");
        assert!(!directory.exists());
    }
}

#[test]
fn a_directory_with_other_files_is_not_replaced() {
    let place = tempfile::tempdir().unwrap();
    let (file, out) = (load("gpt2"), place.path().join("out"));
    fs::create_dir(&out).unwrap();
    huggingface::save(&file, &out, Precision::F32).unwrap();
    huggingface::save(&file, &out, Precision::F32).unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    let error = huggingface::save(&file, &out, Precision::F32).unwrap_err();
    assert!(error.to_string().contains("holds notes.txt"), "{error}");
    let error = huggingface::save(&file, &out.join("notes.txt"), Precision::F32).unwrap_err();
    assert!(error.to_string().contains("is a file, not a directory"), "{error}");
    let error = huggingface::save(&file, &place.path().join("no/where"), Precision::F32).unwrap_err();
    assert!(error.to_string().contains("its directory does not exist"), "{error}");
}

/// A copy of a golden directory that can be damaged.
struct Copy {
    place: tempfile::TempDir,
}

impl Copy {
    fn of(name: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(data("huggingface").join(name)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, place.path().join(path.file_name().unwrap())).unwrap();
        }
        Self { place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn set(self, key: &str, value: Value) -> Self {
        let mut config = read_json(&self.path("config.json"));
        config[key] = value;
        self.write("config.json", &serde_json::to_vec(&config).unwrap())
    }

    fn write(self, name: &str, bytes: &[u8]) -> Self {
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    fn remove(self, name: &str) -> Self {
        fs::remove_file(self.path(name)).unwrap();
        self
    }

    /// With the header of a safetensors file altered.
    fn header(self, name: &str, alter: impl Fn(&mut Value)) -> Self {
        let bytes = fs::read(self.path(name)).unwrap();
        let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: Value = serde_json::from_slice(&bytes[8..8 + size]).unwrap();
        alter(&mut header);
        let header = serde_json::to_vec(&header).unwrap();
        let all = [&(header.len() as u64).to_le_bytes(), &header[..], &bytes[8 + size..]].concat();
        self.write(name, &all)
    }

    fn error(&self) -> String {
        let error = huggingface::load(self.place.path()).unwrap_err();
        assert!(error.path().is_some_and(|path| path.starts_with(self.place.path())), "{error}");
        let error = error.to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }
}

#[test]
fn settings_that_are_not_computed_are_refused_by_name() {
    for (name, key, value, part) in [
        (
            "llama",
            "model_type",
            json!("mistral"),
            "\"mistral\" is not supported; byrote reads gpt2, gpt_neox, llama and qwen2",
        ),
        ("llama", "model_type", Value::Null, "model_type is missing"),
        (
            "llama",
            "architectures",
            json!(["LlamaForSequenceClassification"]),
            "LlamaForSequenceClassification",
        ),
        (
            "llama",
            "rope_scaling",
            json!({"rope_type": "yarn", "factor": 2.0}),
            "rope_scaling.rope_type: \"yarn\"",
        ),
        ("llama", "rope_scaling", json!({"type": "dynamic", "factor": 2.0}), "\"dynamic\" is not supported"),
        ("llama", "rope_scaling", json!({"type": "linear"}), "rope_scaling.factor: is missing"),
        ("llama", "rope_scaling", json!({"type": "linear", "factor": 0}), "must be finite and above 0"),
        ("llama", "rope_parameters", json!({"full_attention": {"rope_theta": 1.0}}), "differ by layer"),
        ("llama", "partial_rotary_factor", json!(0.5), "partial_rotary_factor: must be 1"),
        ("llama", "sliding_window", json!(8), "sliding_window: a sliding window"),
        ("qwen2", "use_sliding_window", json!(true), "use_sliding_window"),
        ("qwen2", "layer_types", json!(["full_attention", "sliding_attention"]), "sliding_attention"),
        ("llama", "attn_logit_softcapping", json!(50.0), "soft capping"),
        ("llama", "final_logit_softcapping", json!(30.0), "soft capping"),
        ("llama", "use_qk_norm", json!(true), "queries and keys"),
        ("llama", "num_local_experts", json!(8), "experts"),
        ("llama", "quantization_config", json!({"quant_method": "gptq"}), "quantized weights (gptq)"),
        ("gpt2", "scale_attn_by_inverse_layer_idx", json!(true), "scale_attn_by_inverse_layer_idx"),
        ("gpt2", "add_cross_attention", json!(true), "add_cross_attention"),
        ("gpt2", "activation_function", json!("quick_gelu"), "activation_function: \"quick_gelu\""),
        ("gpt2", "n_head", json!(5), "cannot be divided among 5"),
        ("gpt2", "n_embd", json!("32"), "n_embd: must be a whole number above 0 (got \"32\")"),
        ("gpt2", "n_layer", json!(0), "n_layer: must be a whole number above 0"),
        ("gpt2", "n_layer", json!(1u64 << 60), "n_layer: must be from 1 to"),
        ("gpt2", "n_embd", Value::Null, "n_embd is missing"),
        ("gpt2", "tie_word_embeddings", json!("yes"), "must be true or false"),
        ("gpt_neox", "rotary_pct", json!(2.0), "rotary_pct: must be even and from 2"),
        ("gpt_neox", "rotary_emb_base", json!(0), "rotary_emb_base"),
        ("llama", "num_key_value_heads", json!(3), "num_key_value_heads: must divide"),
        ("llama", "rms_norm_eps", json!(-1.0), "rms_norm_eps: must be finite"),
    ] {
        let error = Copy::of(name).set(key, value).error();
        assert!(error.contains(part) && error.contains("config.json"), "{key}: {error}");
    }
    for (bytes, part) in [(&b"{"[..], "not JSON"), (b"[]", "must hold a JSON object"), (b"\xff", "not JSON")]
    {
        assert!(Copy::of("gpt2").write("config.json", bytes).error().contains(part));
    }
}

#[test]
fn weights_that_contradict_the_configuration_are_refused_by_name() {
    const WEIGHTS: &str = "model.safetensors";
    let renamed = |from: &'static str, to: &'static str| {
        move |header: &mut Value| {
            let entry = header.as_object_mut().unwrap().remove(from).unwrap();
            header[to] = entry;
        }
    };
    let c_attn = "transformer.h.0.attn.c_attn.weight";
    let cases = [
        (Copy::of("gpt2").set("n_layer", json!(3)), "transformer.h.2.ln_1.weight is missing"),
        (Copy::of("gpt2").set("n_layer", json!(1)), "unexpected tensor \"transformer.h.1."),
        (
            Copy::of("gpt2").set("vocab_size", json!(321)),
            "wte.weight has shape [320, 32], but config.json needs [321, 32]",
        ),
        (Copy::of("gpt2").set("vocab_size", json!(1u64 << 30)), "wte.weight has shape"),
        (Copy::of("gpt2").set("n_inner", json!(64)), "mlp.c_fc.weight has shape"),
        (Copy::of("gpt2").set("tie_word_embeddings", json!(false)), "lm_head.weight is missing"),
        (Copy::of("llama").set("attention_bias", json!(true)), "q_proj.bias is missing"),
        (Copy::of("llama").set("head_dim", json!(16)), "q_proj.weight has shape"),
        (
            Copy::of("llama").set("model_type", json!("qwen2")).set("architectures", Value::Null),
            "q_proj.bias is missing",
        ),
        (
            Copy::of("qwen2").set("model_type", json!("llama")).set("architectures", Value::Null),
            "unexpected tensor",
        ),
        (Copy::of("gpt2").header(WEIGHTS, renamed(c_attn, "x")), "c_attn.weight is missing"),
        (
            Copy::of("gpt2").header(WEIGHTS, |h| h["transformer.wte.weight"]["dtype"] = json!("I32")),
            "has the type I32",
        ),
        (
            Copy::of("gpt2")
                .header(WEIGHTS, |h| h["transformer.wte.weight"]["shape"] = json!([1u64 << 40, 1u64 << 40])),
            "damaged",
        ),
        (
            Copy::of("gpt2")
                .header(WEIGHTS, |h| h["transformer.wte.weight"]["data_offsets"] = json!([0, 40960])),
            "damaged",
        ),
        (
            Copy::of("gpt2")
                .header(WEIGHTS, |h| h["transformer.wte.weight"]["data_offsets"][1] = json!(u64::MAX)),
            "damaged",
        ),
        (Copy::of("gpt2").write(WEIGHTS, b"\xff\xff\xff\xff\xff\xff\xff\x7f{}"), "not a safetensors file"),
        (Copy::of("gpt2").write(WEIGHTS, b""), "not a safetensors file"),
        (Copy::of("gpt2").remove(WEIGHTS), "has neither model.safetensors nor model.safetensors.index.json"),
        (
            Copy::of("gpt2").remove(WEIGHTS).write("pytorch_model.bin", b""),
            "byrote does not read pytorch_model.bin. Load it with from_pretrained",
        ),
        (Copy::of("gpt2").remove("config.json"), "has no config.json"),
        (Copy::of("gpt2").remove("config.json").write("init.safetensors", b""), "this training run"),
        (Copy::of("gpt2").write("tokenizer.json", b"{}"), "not a tokenizer.json"),
    ];
    for (copy, part) in cases {
        let error = copy.error();
        assert!(error.contains(part), "{part}: {error}");
    }
    let copy = Copy::of("gpt2");
    let mut bytes = fs::read(copy.path(WEIGHTS)).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = copy.write(WEIGHTS, &bytes).error();
    assert!(error.contains("contains NaN (first at entry"), "{error}");
    // The embedding is cut to fewer tokens than the tokenizer has.
    let small = Copy::of("gpt_neox").set("vocab_size", json!(328));
    assert!(huggingface::load(small.place.path()).is_ok());
    let held = load("gpt2").vocabulary.len();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let mut file = drawn(ModelSpec::default().n_layers(1).d_model(12).n_heads(4));
    file.vocabulary = Vocabulary::of_ids(11);
    huggingface::save(&file, &out, Precision::F32).unwrap();
    fs::copy(data("huggingface/gpt2/tokenizer.json"), out.join("tokenizer.json")).unwrap();
    let error = huggingface::load(&out).unwrap_err().to_string();
    assert!(
        error
            .contains(&format!("has token ids up to {}, but the model's vocabulary has 11 tokens", held - 1)),
        "{error}"
    );
}

#[test]
fn shards_are_checked_against_their_list() {
    const INDEX: &str = "model.safetensors.index.json";
    const NAME: &str = "llama3_bf16_sharded";
    let second = "model-00002-of-00002.safetensors";
    let listed = |tensor: &str, shard: &str| {
        let copy = Copy::of(NAME);
        let mut index = read_json(&copy.path(INDEX));
        index["weight_map"][tensor] = json!(shard);
        copy.write(INDEX, &serde_json::to_vec(&index).unwrap())
    };
    for (copy, part) in [
        (listed("model.norm.weight", "../model.safetensors"), "is not the name of a shard"),
        (listed("model.norm.weight", "/etc/passwd"), "is not the name of a shard"),
        (listed("model.norm.weight", "a\\b.safetensors"), "is not the name of a shard"),
        (listed("model.norm.weight", ".."), "is not the name of a shard"),
        (listed("model.norm.weight", "third.safetensors"), "the shard third.safetensors is missing"),
        (
            listed("model.norm.weight", "model-00001-of-00002.safetensors"),
            "the tensor model.norm.weight is missing",
        ),
        (listed("other", second), "the tensor other is missing"),
        (Copy::of(NAME).remove(second), "the shard model-00002-of-00002.safetensors is missing"),
        (Copy::of(NAME).write(INDEX, b"{}"), "not a list of shards"),
        (
            Copy::of(NAME).header(second, |h| {
                h["model.extra"] = json!({"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]})
            }),
            "unexpected tensor",
        ),
        (
            Copy::of(NAME).header(second, |h| {
                h["lm_head.weight"] = json!({"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]})
            }),
            "is also in model-00001",
        ),
    ] {
        let error = copy.error();
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn without_a_tokenizer_the_model_reads_ids() {
    let copy = Copy::of("gpt2").remove("tokenizer.json");
    let file = huggingface::load(copy.place.path()).unwrap();
    assert_eq!((file.tokenizer.as_str(), &file.vocabulary), ("ids", &Vocabulary::of_ids(320)));
    assert_eq!(file.reading().tokens("5, 3 9", false, None).unwrap(), [5, 3, 9]);
    assert!(file.reading().tokens("320", false, None).is_err());
    let config: &Config = file.model.config();
    assert_eq!(config.shape.n_ctx, 64);
}

#[test]
fn what_a_trainer_saves_beside_the_model_does_not_matter() {
    let copy = Copy::of("gpt2");
    for name in ["training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "pytorch_model.bin"] {
        fs::write(copy.path(name), b"PK\x03\x04").unwrap();
    }
    for name in ["generation_config.json", "trainer_state.json", "special_tokens_map.json", "vocab.json"] {
        fs::write(copy.path(name), b"{}").unwrap();
    }
    fs::create_dir(copy.path("checkpoint-500")).unwrap();
    assert_eq!(huggingface::load(copy.place.path()).unwrap(), load("gpt2"));
}

/// The message about a directory that is no model.
fn no_model(build: impl Fn(&Path)) -> String {
    let place = tempfile::tempdir().unwrap();
    build(place.path());
    let error = huggingface::load(place.path()).unwrap_err();
    assert_eq!(error.path(), Some(place.path()));
    error.to_string()
}

#[test]
fn a_directory_without_a_model_is_told_where_one_is() {
    let checkpoints = |names: &'static [&'static str]| {
        no_model(move |place| {
            names.iter().for_each(|name| fs::create_dir(place.join(name)).unwrap());
            fs::write(place.join("training_args.bin"), b"").unwrap();
        })
    };
    let error = checkpoints(&["checkpoint-1000", "checkpoint-500", "runs", "checkpoint-last"]);
    assert!(error.contains("give one of the checkpoints in it: checkpoint-500, checkpoint-1000"), "{error}");
    let error = checkpoints(&["checkpoint-7"]);
    assert!(error.contains("give the checkpoint in it, checkpoint-7"), "{error}");
    let error =
        checkpoints(&["checkpoint-1", "checkpoint-2", "checkpoint-3", "checkpoint-4", "checkpoint-10"]);
    assert!(error.contains("checkpoint-10, or one of 4 before it"), "{error}");
    let error = no_model(|place| {
        fs::create_dir_all(place.join("snapshots/0a1b")).unwrap();
        fs::write(place.join("snapshots/0a1b/config.json"), b"{}").unwrap();
    });
    assert!(error.contains("give snapshots/0a1b in it"), "{error}");
    let error = no_model(|place| fs::write(place.join("tiny.Q4_1.gguf"), b"").unwrap());
    assert!(error.contains("give a GGUF file in it, such as tiny.Q4_1.gguf"), "{error}");
    let error = no_model(|place| fs::write(place.join("adapter_config.json"), b"{}").unwrap());
    assert!(error.contains("holds an adapter (adapter_config.json)") && error.contains("merge"), "{error}");
    let error = no_model(|_| ());
    assert!(error.ends_with("so it is not a model directory of Hugging Face"), "{error}");
    // Transformers would load the adapter, whatever weights are beside it.
    assert!(Copy::of("llama").write("adapter_config.json", b"{}").error().contains("holds an adapter"));
}

#[test]
fn the_weights_alone_are_refused_with_the_directory_named() {
    let path = data("huggingface/gpt2/model.safetensors");
    let error = ModelFile::load(&path).unwrap_err().to_string();
    assert!(error.contains("not written by byrote") && error.contains("give its directory"), "{error}");
    let place = tempfile::tempdir().unwrap();
    let alone = place.path().join("model.safetensors");
    fs::copy(&path, &alone).unwrap();
    let error = ModelFile::load(&alone).unwrap_err().to_string();
    assert!(error.contains("not written by byrote") && !error.contains("directory"), "{error}");
}

#[test]
fn a_tokenizer_in_another_format_is_named_when_it_is_needed() {
    for name in ["tokenizer.model", "vocab.json"] {
        let copy = Copy::of("gpt2").remove("tokenizer.json").write(name, b"{}");
        let file = huggingface::load(copy.place.path()).unwrap();
        assert_eq!(file.reading().tokens("5 3", true, None).unwrap(), [5, 3]);
        let error = file.reading().tokens("Hello", false, None).unwrap_err();
        assert_eq!(error.setting_name(), Some("tokenizer"));
        let error = error.to_string();
        assert!(error.contains(&format!("{name}, which byrote does not read")), "{error}");
        assert!(error.contains("give the tokenizer.json of the same model"), "{error}");
    }
}
