//! Directories of Hugging Face: `predict`, `show` and `export`, and what `transformers` makes of them.

use crate::Case;
use crate::export::{blocks, python_with};
use byrote::corpus::Vocabulary;
use byrote::model::{Activation, Model, ModelFile, ModelSpec, Precision, Preset, Rotary, RotaryScaling};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../byrote/tests/data/huggingface").join(name)
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// The arguments of a prediction with all logits.
fn logits(case: &Case, model: &str, ids: &[u64]) -> Vec<f64> {
    let ids = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    numbers(&case.json(["predict", model, "--ids", &ids, "--logits"])["logits"])
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn a_directory_predicts_and_is_shown_and_exported() {
    let case = Case::new();
    for (name, heads) in [("gpt2", 4), ("llama3_bf16_sharded", 2), ("qwen2", 2)] {
        let directory = golden(name).to_string_lossy().into_owned();
        let expected: Value =
            serde_json::from_slice(&std::fs::read(golden(name).join("expected.json")).unwrap()).unwrap();
        for case_of in expected["cases"].as_array().unwrap() {
            let ids: Vec<u64> =
                case_of["ids"].as_array().unwrap().iter().map(|i| i.as_u64().unwrap()).collect();
            let last = match case_of["full"].as_bool().unwrap() {
                true => numbers(case_of["logits"].as_array().unwrap().last().unwrap()),
                false => numbers(&case_of["last_logits"]),
            };
            let found = logits(&case, &directory, &ids);
            assert!(found.iter().zip(&last).all(|(a, b)| (a - b).abs() <= 1e-4 + 1e-5 * b.abs()), "{name}");
        }
        let text = case.json(["predict", &directory, "Hello, world"]);
        assert_eq!(text["tokens"], expected["tokenization"][0]["ids"]);
        assert!(text.get("logits").is_none());

        let shown = case.json(["show", &directory]);
        assert_eq!(shown["parameters"], expected["parameters"]);
        assert_eq!(shown["config"]["shape"]["blocks"]["n_kv_heads"], heads);
        assert!(shown["parameters_by_kind"]["norm"].as_u64().unwrap() > 0);

        let told = case.json(["export", &directory, "--to", "huggingface", "--out", "copy"]);
        assert_eq!((&told["format"], &told["tokenizer"]), (&json!("huggingface"), &json!(true)));
        assert_eq!(case.json(["show", "copy"]), shown);
        assert_eq!(case.names(), ["copy"]);
    }
    let shown = case.run(["show".as_ref(), golden("llama").as_os_str()]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    for part in [
        "4 of 8 for queries, 2 for keys and values",
        "rotary, 8 of 8 per head, theta 100000",
        "RMSNorm in front of each part and of the output, eps 1e-5",
        "88 neurons, silu, gated",
        "normalization",
        "blocks.*.attn.W_K",
        "the embedding",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let table =
        case.run(["predict".as_ref(), golden("gpt2").as_os_str(), "Hello".as_ref(), "--logits".as_ref()]);
    assert!(String::from_utf8_lossy(&table.stdout).lines().next().unwrap().contains("logit"));
}

#[test]
fn what_cannot_be_read_or_written_is_one_line_on_standard_error() {
    let case = Case::new();
    std::fs::create_dir(case.path("empty")).unwrap();
    model(ModelSpec::default().preset(Preset::Averaging).d_model(8).n_heads(2))
        .save(&case.path("a"))
        .unwrap();
    for (arguments, part) in [
        (&["show", "empty"][..], "has no config.json"),
        (&["predict", "empty", "a"], "has no config.json"),
        (&["eval", "empty"], "has no config.json"),
        (&["train", "--init", "empty"], "has no config.json"),
        (&["export", "a", "--to", "huggingface", "--out", "b"], "mixes tokens by attention"),
        (&["export", "a", "--to", "huggingface", "--out", "a"], "would replace the input"),
    ] {
        let output = case.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(
            message.contains(part) && message.trim_end().lines().count() == 1,
            "{arguments:?}: {message}"
        );
    }
    assert!(!case.path("b").exists());
}

/// A model with every parameter drawn, normalization and biases too.
fn model(spec: ModelSpec) -> ModelFile {
    with_rotary(spec, |_| {})
}

fn with_rotary(spec: ModelSpec, change: impl Fn(&mut Rotary)) -> ModelFile {
    let mut config = spec.resolve(23, 12).unwrap();
    if let Some(rotary) = config.shape.blocks.as_mut().and_then(|b| b.rotary.as_mut()) {
        change(rotary);
    }
    let drawn = Model::random(config, 5).unwrap();
    let noise = (0..drawn.parameters().len()).map(|i| (i as f64 * 0.7).sin() * 0.25);
    let parameters = drawn.parameters().iter().zip(noise).map(|(x, n)| f64::from((x + n) as f32)).collect();
    ModelFile {
        model: Model::new(config, parameters).unwrap(),
        precision: Precision::F32,
        tokenizer: "ids".into(),
        vocabulary: Vocabulary::of_ids(23),
    }
}

/// Prints the logits after each token, computed in f32, and refuses to load a model with missing or unused weights.
const RUN: &str = r#"
import json, sys, torch
from transformers import AutoModelForCausalLM
out = []
for directory in sys.argv[1:]:
    model, info = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], (directory, info)
    model = model.to(torch.float32).eval()
    with torch.no_grad():
        out.append(model(torch.tensor([[5, 3, 9, 0, 22, 3, 3]])).logits[0].tolist())
json.dump(out, sys.stdout)
"#;

#[test]
fn transformers_loads_what_is_written_and_computes_the_same_logits() {
    let Some(python) = python_with("torch, transformers") else { return };
    let case = Case::new();
    let base = ModelSpec::default().n_layers(2).d_model(24).n_heads(4).d_mlp(40);
    let (gpt2, neox) = (base.preset(Preset::Gpt2), base.preset(Preset::GptNeox).d_model(32));
    let llama = base.preset(Preset::Llama).d_head(8);
    let llama3 = RotaryScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_n_ctx: 64,
    };
    let mut qwen2 = llama.attention_bias(true).n_kv_heads(2).resolve(23, 12).unwrap();
    qwen2.shape.blocks.as_mut().unwrap().attention_output_bias = false;
    let parameters =
        (0..qwen2.n_parameters()).map(|i| f64::from(((i as f64 * 0.7).sin() * 0.4) as f32)).collect();
    let qwen2 = ModelFile { model: Model::new(qwen2, parameters).unwrap(), ..model(gpt2) };
    let models = [
        ("gpt2", model(gpt2)),
        ("gpt2-untied", model(gpt2.tied(false).activation(Activation::Gelu).scale_scores(false))),
        ("neox", model(neox)),
        ("neox-sequential", model(neox.parallel(false).rotary_dims(6).attention_bias(false))),
        ("neox-tied", model(neox.tied(true).activation(Activation::GeluTanh))),
        ("llama", model(llama.n_kv_heads(2))),
        ("llama-biases", model(llama.attention_bias(true).mlp_bias(true).tied(true))),
        (
            "llama-linear",
            with_rotary(llama, |r| {
                (r.theta, r.scaling) = (500.0, Some(RotaryScaling::Linear { factor: 4.0 }))
            }),
        ),
        ("llama3", with_rotary(llama, |r| r.scaling = Some(llama3))),
        ("qwen2", qwen2),
    ];
    for (name, file) in &models {
        file.save(&case.path("model.safetensors")).unwrap();
        case.json(["export", "model.safetensors", "--to", "huggingface", "--out", name]);
    }
    let script = case.file("run.py", RUN);
    let directories = models.iter().map(|(name, _)| case.path(name));
    let output = Command::new(&python).arg(script).args(directories).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<Vec<Value>> = serde_json::from_slice(&output.stdout).unwrap();
    for ((name, file), rows) in models.iter().zip(&found) {
        let tokens = [5, 3, 9, 0, 22, 3, 3];
        let mut worst = 0f64;
        for (t, row) in rows.iter().enumerate() {
            let own = file.model.logits(&tokens[..=t]).unwrap();
            let size = own.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
            worst = worst.max(largest_difference(&own, &numbers(row)) / size);
        }
        println!("{name}: largest difference {worst:.1e}");
        assert!(worst <= 1e-5, "{name}: {worst:e}");
    }
}

#[test]
fn the_page_on_hugging_face_does_what_it_says() {
    let Some(python) = python_with("torch, transformers") else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/huggingface.md");
    let page = std::fs::read_to_string(page).unwrap();
    let program = blocks(&page, "python");
    assert_eq!(program.len(), 1);
    let case = Case::new();
    model(ModelSpec::default().n_layers(2)).save(&case.path("m")).unwrap();
    case.json(["export", "m", "--to", "huggingface", "--out", "my-gpt2"]);
    let script = case.file("page.py", &program[0]);
    let output = Command::new(&python).current_dir(case.path("")).arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let top = &case.json(["predict", "m", "--ids", "5,3,9"])["next"][0]["token"];
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), top.to_string());
}

/// Saves random models as `transformers` does, some in halves and in shards, and prints their logits in f32.
const MAKE: &str = r#"
import json, sys, torch
from pathlib import Path
from transformers import (AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, LlamaConfig, Qwen2Config)
place = Path(sys.argv[1])
common = dict(vocab_size=23, bos_token_id=0, eos_token_id=0, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=16, intermediate_size=40)
configs = {
    "gpt2": GPT2Config(vocab_size=23, n_positions=16, n_embd=24, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0),
    "gpt2-untied": GPT2Config(vocab_size=23, n_positions=16, n_embd=24, n_layer=2, n_head=4, n_inner=30,
                              activation_function="relu", tie_word_embeddings=False, bos_token_id=0, eos_token_id=0),
    "neox": GPTNeoXConfig(**common, hidden_size=32),
    "neox-sequential": GPTNeoXConfig(**common, hidden_size=32, use_parallel_residual=False, hidden_act="gelu_fast",
                                     attention_bias=False, tie_word_embeddings=True),
    "llama": LlamaConfig(**common, hidden_size=24, num_key_value_heads=2, head_dim=8),
    "llama-biases": LlamaConfig(**common, hidden_size=32, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**common, hidden_size=32, num_key_value_heads=2),
}
out = []
for name, config in configs.items():
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
        for dtype, shards in [(torch.float32, None), (torch.bfloat16, "4KB"), (torch.float16, None)]:
            directory = place / f"{name}-{str(dtype)[6:]}"
            model.to(dtype).save_pretrained(directory, **({"max_shard_size": shards} if shards else {}))
            # Loaded anew in f32: a model converted in place would keep rotary frequencies that were rounded on the way.
            again = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
            logits = again(torch.tensor([[5, 3, 9, 0, 22, 3, 3]])).logits[0, -1].tolist()
            out.append({"directory": str(directory), "logits": logits})
json.dump(out, sys.stdout)
"#;

#[test]
fn what_transformers_saves_is_read_with_the_same_logits() {
    let Some(python) = python_with("torch, transformers") else { return };
    let case = Case::new();
    let script = case.file("make.py", MAKE);
    let output = Command::new(&python).arg(script).arg(case.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.len(), 21);
    for saved in found {
        let (directory, expected) = (saved["directory"].as_str().unwrap(), numbers(&saved["logits"]));
        let own = logits(&case, directory, &[5, 3, 9, 0, 22, 3, 3]);
        let size = own.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
        let worst = largest_difference(&own, &expected) / size;
        println!("{directory}: largest difference {worst:.1e}");
        assert!(worst <= 1e-5, "{directory}: {worst:e}");
    }
}
