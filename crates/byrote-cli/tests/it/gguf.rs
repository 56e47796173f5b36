//! GGUF files: `predict`, `eval`, `show`, `export` and `train --init`, and files that are refused.

use crate::Case;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../byrote/tests/data").join(name)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn a_gguf_file_predicts_text_and_ids() {
    let case = Case::new();
    let tokenization = read_json(&golden("huggingface/gpt2/expected.json"));
    for name in ["mixed", "kquants"] {
        let model = golden(&format!("gguf/{name}.gguf")).to_string_lossy().into_owned();
        let expected = read_json(&golden(&format!("gguf/{name}.expected.json")));
        for wanted in expected["cases"].as_array().unwrap() {
            let ids: Vec<String> =
                wanted["ids"].as_array().unwrap().iter().map(ToString::to_string).collect();
            let found = case.json(["predict", &model, "--ids", &ids.join(","), "--logits"]);
            let pairs = numbers(&found["logits"]).into_iter().zip(numbers(&wanted["last_logits"]));
            for (a, b) in pairs {
                assert!((a - b).abs() <= 1e-4 + 1e-5 * b.abs(), "{name}: {a} {b}");
            }
        }
        let text = case.json(["predict", &model, "Hello, world"]);
        assert_eq!(text["tokens"], tokenization["tokenization"][0]["ids"]);
    }
    assert_eq!(case.names(), [""; 0]);
}

#[test]
fn a_gguf_file_is_shown_evaluated_and_exported() {
    let case = Case::new();
    let model = golden("gguf/mixed.gguf").to_string_lossy().into_owned();
    let shown = case.json(["show", &model]);
    assert_eq!(shown["d_vocab"], json!(320));
    assert_eq!(shown["config"]["shape"]["blocks"]["n_kv_heads"], json!(2));
    let told = case.json(["export", &model, "--to", "huggingface", "--out", "llama"]);
    assert_eq!((&told["format"], &told["tokenizer"]), (&json!("huggingface"), &json!(true)));
    assert_eq!(case.json(["show", "llama"]), shown);
    // The same loss from the file and from the directory, to the last digit.
    case.file("text.txt", "the cat sat on the mat\nthe dog sat on the cat\n");
    let loss = |model: &str| {
        let found = case.json(["eval", model, "text.txt"]);
        (found["loss_nats"].clone(), found["floor_nats"].clone(), found["contexts"].clone())
    };
    let found = loss(&model);
    assert_eq!(found, loss("llama"));
    assert!(found.0.as_f64().unwrap() > found.1.as_f64().unwrap(), "{found:?}");
    // It is also where training can start.
    let trained =
        case.json(["train", "text.txt", "--init", &model, "--steps", "1", "--n-ctx", "8", "--out", "run"]);
    assert_eq!(trained["parameters"], shown["parameters"]);
}

#[test]
fn what_is_wrong_with_a_file_is_one_line_on_standard_error() {
    let case = Case::new();
    let whole = std::fs::read(golden("gguf/mixed.gguf")).unwrap();
    let replaced = |from: &[u8], to: &[u8]| {
        let at = whole.windows(from.len()).position(|part| part == from).unwrap();
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    case.file("cut.gguf", &whole[..whole.len() - 100]);
    case.file("half", &whole[..whole.len() / 2]);
    case.file("text.gguf", "Once upon a time");
    case.file("mamba.gguf", replaced(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba"));
    case.file("pre.gguf", replaced(b"gpt-2", b"gpt-9"));
    for (arguments, part) in [
        (&["show", "cut.gguf"][..], "cut.gguf: damaged or incomplete: blk.1.ffn_down.weight has"),
        (&["show", "half"], "half: damaged or incomplete"),
        (&["predict", "text.gguf", "a"], "text.gguf: not a GGUF file"),
        (
            &["eval", "mamba.gguf"],
            "general.architecture: \"mamba\" is not supported; of GGUF files byrote reads llama and qwen2",
        ),
        (&["predict", "pre.gguf", "a"], "tokenizer.ggml.pre = \"gpt-9\""),
        (
            &["predict", "pre.gguf", "a"],
            "--tokenizer: the model was made with a GGUF tokenizer that byrote cannot rebuild",
        ),
        (&["show", "missing.gguf"], "missing.gguf"),
    ] {
        let output = case.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(
            message.contains(part) && message.trim_end().lines().count() == 1,
            "{arguments:?}: {message}"
        );
    }
    // Ids are read all the same, and text through a tokenizer.json.
    assert_eq!(case.json(["predict", "pre.gguf", "--ids", "5,3"])["tokens"], json!([5, 3]));
    let tokenizer = golden("huggingface/gpt2/tokenizer.json").to_string_lossy().into_owned();
    let text = case.json(["predict", "pre.gguf", "Hello, world", "--tokenizer", &tokenizer]);
    let expected = read_json(&golden("huggingface/gpt2/expected.json"));
    assert_eq!(text["tokens"], expected["tokenization"][0]["ids"]);
}
