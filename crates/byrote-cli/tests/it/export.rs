//! `byrote export`, and what other programs make of its files.

use crate::{Case, skipped};
use byrote::corpus::{Corpus, Options, Outputs, Source};
use byrote::dataset::Dataset;
use byrote::model::{Activation, Config, Model, ModelFile, Precision, Preset, Shape};
use byrote::observe::Silent;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// A Python that can import these modules: BYROTE_PYTHON, or `python3`.
pub fn python_with(modules: &str) -> Option<String> {
    let python = std::env::var("BYROTE_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        skipped(&format!("no Python with {modules} (BYROTE_PYTHON names one)"));
        return None;
    }
    Some(python)
}

fn shape() -> Shape {
    Shape { d_vocab: 9, n_ctx: 6, d_model: 8, n_heads: 2, d_head: 3, d_mlp: 40, ..Shape::default() }
}

/// A random model as a file.
fn random(case: &Case, name: &str, config: Config, precision: Precision, steepness: f64) -> ModelFile {
    let model = Model::random(config, 11).unwrap();
    let mut parameters = model.parameters().to_vec();
    for t in model.tensors().iter().filter(|t| ["W_in", "b_in"].contains(&t.name.part())) {
        parameters[t.range.clone()].iter_mut().for_each(|x| *x *= steepness);
    }
    if precision == Precision::F32 {
        parameters.iter_mut().for_each(|x| *x = f64::from(*x as f32));
    }
    let rows: Vec<u16> = (0..config.shape.d_vocab as u16).flat_map(|t| [t, t]).collect();
    let vocabulary = Corpus::from_rows(&rows, 2, 1).unwrap().vocabulary;
    let file = ModelFile {
        model: Model::new(config, parameters).unwrap(),
        precision,
        tokenizer: "ids".into(),
        vocabulary,
    };
    file.save(&case.path(name)).unwrap();
    file
}

const RUN: &str = r#"
import json, sys, numpy as np, onnxruntime
onnxruntime.set_default_logger_severity(3)
jobs = json.load(open(sys.argv[1]))
out = []
for job in jobs:
    session = onnxruntime.InferenceSession(job["file"], providers=["CPUExecutionProvider"])
    feed = {name: np.array(job[name], dtype=np.int64) for name in ("tokens", "lengths")}
    (logits,) = session.run(None, feed)
    out.append({"type": str(logits.dtype), "logits": logits.tolist()})
json.dump(out, sys.stdout)
"#;

const CONTEXTS: [&[u32]; 5] = [&[3], &[0, 8, 2, 1, 4, 4], &[5, 5], &[1, 2, 3, 7], &[6, 0, 8, 8, 1]];

/// A batch of these contexts, padded with an invalid token.
fn batch(contexts: &[&[u32]]) -> (Vec<Vec<i64>>, Vec<usize>) {
    let longest = contexts.iter().map(|c| c.len()).max().unwrap();
    let pad = |c: &&[u32]| {
        let mut row: Vec<i64> = c.iter().map(|&t| t.into()).collect();
        row.resize(longest, -3);
        row
    };
    (contexts.iter().map(pad).collect(), contexts.iter().map(|c| c.len()).collect())
}

#[test]
fn onnx_runtime_computes_the_logits_of_the_reference() {
    let Some(python) = python_with("onnxruntime, numpy") else { return };
    let case = Case::new();
    let (mut jobs, mut expected) = (Vec::new(), Vec::new());
    for preset in Preset::ALL {
        for activation in Activation::ALL {
            // Steep neurons saturate, as those of built models do.
            for (precision, steepness) in
                [(Precision::F32, 1.0), (Precision::F64, 1.0), (Precision::F64, 40.0)]
            {
                let config = preset.config(Shape { activation, ..shape() });
                let name = format!("{preset}-{activation}-{precision:?}-{steepness}");
                let file = random(&case, &format!("{name}.safetensors"), config, precision, steepness);
                let (model, out) = (format!("{name}.safetensors"), format!("{name}.onnx"));
                let told = case.json(["export", &model, "--to", "onnx", "--out", &out]);
                assert_eq!(told["precision"], json!(precision));
                // Batches of five and of one, of the longest length and of less.
                for contexts in [&CONTEXTS[..], &CONTEXTS[2..3]] {
                    let (tokens, lengths) = batch(contexts);
                    jobs.push(json!({"file": case.path(&out), "tokens": tokens, "lengths": lengths}));
                    let logits: Vec<Vec<f64>> =
                        contexts.iter().map(|c| file.model.logits(c).unwrap()).collect();
                    expected.push((name.clone(), precision, logits));
                }
            }
        }
    }
    let script = case.file("run.py", RUN);
    let list = case.file("jobs.json", serde_json::to_string(&jobs).unwrap());
    let output = Command::new(&python).arg(script).arg(list).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.len(), expected.len());
    let mut worst = [0f64; 2];
    for (found, (name, precision, logits)) in found.iter().zip(&expected) {
        let (kind, tolerance, which) = match precision {
            Precision::F32 => ("float32", 1e-5, 0),
            Precision::F64 => ("float64", 1e-9, 1),
        };
        assert_eq!(found["type"], kind, "{name}");
        for (row, expected) in found["logits"].as_array().unwrap().iter().zip(logits) {
            let row = row.as_array().unwrap();
            assert_eq!(row.len(), expected.len());
            for (a, b) in row.iter().zip(expected) {
                let difference = (a.as_f64().unwrap() - b).abs();
                assert!(difference <= tolerance, "{name}: {difference:e}");
                worst[which] = worst[which].max(difference);
            }
        }
    }
    println!("largest differences: f32 {:.1e}, f64 {:.1e}", worst[0], worst[1]);
}

#[test]
fn models_of_blocks_are_exported_and_certified() {
    let case = Case::new();
    // The tokens of the built-in stories, as many as the corpus has.
    let source = Source::Stories { documents: 3, seed: 0 };
    let corpus =
        Corpus::read(&source, &Options::default(), Outputs::default().contexts(true), &Silent).unwrap();
    let shape = Shape {
        d_vocab: corpus.vocabulary.len() as u64,
        n_ctx: 9,
        d_model: 8,
        n_heads: 2,
        d_head: 4,
        d_mlp: 6,
        ..Shape::default()
    };
    for preset in Preset::ALL.into_iter().filter(|preset| preset.has_blocks()) {
        let model = Model::random(preset.config(shape), 2).unwrap();
        let file = ModelFile {
            model,
            precision: Precision::F64,
            tokenizer: "wordpunct".into(),
            vocabulary: corpus.vocabulary.clone(),
        };
        file.save(&case.path("m.safetensors")).unwrap();
        let told = case.json(["export", "m.safetensors", "--to", "onnx", "--out", "m.onnx"]);
        assert_eq!(told["precision"], "f64", "{preset}");
        let output = case.run(["certify", "m.safetensors", "--builtin", "3", "--json"]);
        assert_eq!(output.status.code(), Some(1), "an untrained model memorizes nothing");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["verdict"], "refuted", "{preset}");
        assert_eq!(found["undecided_contexts"], 0, "{preset}");
        assert!(found["not_available"].as_str().unwrap().contains("rounding errors"), "{preset}");
        let text =
            String::from_utf8(case.run(["certify", "m.safetensors", "--builtin", "3"]).stdout).unwrap();
        assert!(text.contains("not available") && !text.contains("in f32:"), "{text}");
    }
}

/// Built models have slopes up to 1e10 and outputs that cancel: what they memorize must survive another order of summation.
#[test]
fn onnx_runtime_computes_the_logits_of_built_models() {
    let Some(python) = python_with("onnxruntime, numpy") else { return };
    let case = Case::new();
    let outputs = Outputs::default().contexts(true);
    let stories = Source::Stories { documents: 40, seed: 0 };
    let corpus = Corpus::read(&stories, &Options::default(), outputs, &Silent).unwrap();
    let dataset = Arc::new(Dataset::from_corpus(&corpus).unwrap());
    let contexts: Vec<Vec<u32>> = (0..dataset.len()).map(|i| dataset.tokens_of(i)).collect();
    let contexts: Vec<&[u32]> = contexts.iter().map(Vec::as_slice).collect();
    let (tokens, lengths) = batch(&contexts);
    let (mut jobs, mut models) = (Vec::new(), Vec::new());
    for (name, arguments) in [
        ("steps", &["madden2024"][..]),
        ("logistic", &["madden2024", "--activation", "logistic", "--mixer", "average", "--d-model", "1"]),
        ("erf", &["madden2024", "--activation", "erf"]),
        ("gelu", &["madden2024", "--activation", "gelu"]),
        ("arctan", &["madden2024", "--activation", "arctan", "--mixer", "average"]),
        ("attention", &["dana2024"]),
    ] {
        let (model, out) = (format!("{name}.safetensors"), format!("{name}.onnx"));
        let fixed = ["--builtin", "40", "--out", &model];
        case.json(["build"].iter().chain(arguments).chain(&fixed));
        let told = case.json(["export", &model, "--to", "onnx", "--out", &out]);
        assert_eq!(told["precision"], "f64", "{name}");
        jobs.push(json!({"file": case.path(&out), "tokens": tokens, "lengths": lengths}));
        models.push((name, ModelFile::load(&case.path(&model)).unwrap().model));
    }
    let script = case.file("run.py", RUN);
    let list = case.file("jobs.json", serde_json::to_string(&jobs).unwrap());
    let output = Command::new(&python).arg(script).arg(list).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    for (found, (name, model)) in found.iter().zip(&models) {
        let rows = found["logits"].as_array().unwrap();
        assert_eq!(rows.len(), contexts.len());
        for (row, context) in rows.iter().zip(&contexts) {
            for (a, b) in row.as_array().unwrap().iter().zip(model.logits(context).unwrap()) {
                let difference = (a.as_f64().unwrap() - b).abs();
                assert!(difference <= 1e-9, "{name} {context:?}: {difference:e}");
            }
        }
    }
}

#[test]
fn onnx_s_own_checker_accepts_the_files() {
    let Some(python) = python_with("onnx") else { return };
    let case = Case::new();
    for preset in Preset::ONE_LAYER {
        random(&case, "a.safetensors", preset.config(shape()), Precision::F64, 1.0);
        case.json(["export", "a.safetensors", "--to", "onnx", "--out", "a.onnx"]);
        let check = "import onnx; onnx.checker.check_model(onnx.load('a.onnx'), full_check=True)";
        let output = Command::new(&python).current_dir(case.path("")).args(["-c", check]).output().unwrap();
        assert!(output.status.success(), "{preset}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_trained_model_is_written_as_it_is_stored() {
    let case = Case::new();
    case.json(["train", "--builtin", "20", "--d-mlp", "16", "--steps", "5", "--out", "run"]);
    let arguments = ["export", "run/model.safetensors", "--to", "onnx", "--out"];
    let told = case.json(arguments.iter().chain(&["a.onnx"]));
    assert_eq!(
        (&told["format"], &told["precision"], &told["rounding"]),
        (&json!("onnx"), &json!("f32"), &Value::Null)
    );
    assert_eq!(told["bytes"].as_u64(), Some(std::fs::metadata(case.path("a.onnx")).unwrap().len()));
    let human = case.run(arguments.iter().chain(&["b.onnx"]));
    let text = String::from_utf8(human.stdout).unwrap();
    assert!(text.contains("lengths [batch]") && text.contains("f32, stored as f32"), "{text}");
    assert_eq!(std::fs::read(case.path("a.onnx")).unwrap(), std::fs::read(case.path("b.onnx")).unwrap());
    let wide = case.json(arguments.iter().chain(&["c.onnx", "--precision", "f64"]));
    assert_eq!((&wide["precision"], &wide["stored_precision"]), (&json!("f64"), &json!("f32")));
}

#[test]
fn f32_is_refused_with_the_error_it_would_make() {
    let case = Case::new();
    let config = Preset::Average.config(Shape { activation: Activation::Tanh, ..shape() });
    random(&case, "gentle.safetensors", config, Precision::F64, 1.0);
    // Neurons with their step at the context (0), as built models have them: f32 cannot say on which side it is.
    let mut steep = random(&case, "steep.safetensors", config, Precision::F64, 1e7);
    let model = &steep.model;
    let tensor = |name| model.tensor(name).unwrap();
    let mixed: Vec<f64> = tensor("W_E")[..8].iter().map(|x| x * tensor("u_pos")[0]).collect();
    let mut parameters = model.parameters().to_vec();
    let bias = model.tensors().iter().find(|t| t.name == "b_in").unwrap().range.clone();
    for (k, b) in parameters[bias].iter_mut().enumerate() {
        *b = -mixed.iter().zip(tensor("W_in").chunks(40)).map(|(a, row)| a * row[k]).sum::<f64>();
    }
    steep.model = Model::new(config, parameters).unwrap();
    steep.save(&case.path("steep.safetensors")).unwrap();
    let arguments = |model| ["export", model, "--to", "onnx", "--precision", "f32", "--out", "a.onnx"];
    let told = case.json(arguments("gentle.safetensors"));
    assert!(told["rounding"]["max_logit_error"].as_f64().unwrap() < 1e-6);
    std::fs::remove_file(case.path("a.onnx")).unwrap();
    let refused = case.run(arguments("steep.safetensors"));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(message.contains("f32 cannot represent this model") && message.lines().count() == 1, "{message}");
    assert!(!case.names().contains(&"a.onnx".into()), "nothing is written");
    let wide = case.json(["export", "steep.safetensors", "--to", "onnx", "--out", "a.onnx"]);
    assert_eq!(wide["precision"], "f64");
}

#[test]
fn what_is_no_model_is_refused() {
    let case = Case::new();
    case.file("text.safetensors", "no model");
    for (arguments, says) in [
        (&["export", "text.safetensors", "--to", "onnx", "--out", "a.onnx"][..], "not a safetensors file"),
        (&["export", "none.safetensors", "--to", "onnx", "--out", "a.onnx"], "cannot read"),
        (&["export", "text.safetensors", "--to", "torch", "--out", "a.onnx"], "torch"),
        (&["export", "text.safetensors", "--to", "onnx"], "--out"),
    ] {
        let output = case.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(message.contains(says) && message.lines().count() == 1, "{arguments:?}: {message}");
    }
    assert_eq!(case.names(), ["text.safetensors"]);
}

/// The code blocks of a page in one language.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut parts = page.split("```");
    parts.next();
    // Inside and outside alternate.
    let inside = parts.step_by(2).filter_map(|block| block.split_once('\n'));
    inside.filter(|(head, _)| *head == language).map(|(_, body)| body.to_owned()).collect()
}

#[test]
fn the_page_on_loading_does_what_it_says() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/loading.md")).unwrap();
    let case = Case::new();
    let (shell, python_blocks) = (blocks(&page, "sh"), blocks(&page, "python"));
    assert_eq!((shell.len(), python_blocks.len()), (1, 2));
    for line in shell[0].lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "byrote");
        let output = case.run(&words[1..]);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let Some(python) = python_with("torch, safetensors, onnxruntime, numpy") else { return };
    let program = case.file("page.py", python_blocks.join("\n"));
    let output = Command::new(&python).current_dir(case.path("")).arg(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The likeliest word, once by hand and once from the batch.
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[1].starts_with(&format!("['{}'", lines[0])), "{text}");
}
