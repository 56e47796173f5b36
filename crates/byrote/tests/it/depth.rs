//! Models of blocks against numbers that PyTorch computed: losses, gradients, and 20 steps of Adam.

use byrote::dataset::Dataset;
use byrote::model::{
    Activation, Config, Mixer, Model, ModelSpec, Norm, Positions, Precision, Preset, TensorName,
};
use byrote::observe::Silent;
use byrote::train::{Evaluator, Limits, Optimizer, TrainSettings, Trainer};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CASES: [&str; 5] = ["gpt2-tied", "gpt2-untied", "llama", "attention-only", "average"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/depth").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(name)).unwrap()).unwrap()
}

/// The contexts of documents: every proper prefix of at most T tokens predicts the next token.
fn dataset(case: &str, golden: &Value) -> Arc<Dataset> {
    let n_ctx = golden["config"]["T"].as_u64().unwrap();
    let mut contexts: BTreeMap<Vec<u32>, BTreeMap<u32, f64>> = BTreeMap::new();
    for document in json(&format!("{case}.docs.json")).as_array().unwrap() {
        let tokens: Vec<u32> =
            document.as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect();
        for t in 1..tokens.len().min(n_ctx as usize + 1) {
            *contexts.entry(tokens[..t].to_vec()).or_default().entry(tokens[t]).or_default() += 1.0;
        }
    }
    let contexts = contexts.into_iter().map(|(tokens, next)| (tokens, next.into_iter().collect()));
    Arc::new(Dataset::new(golden["config"]["V"].as_u64().unwrap(), n_ctx, contexts).unwrap())
}

fn config(golden: &Value) -> Config {
    let of = &golden["config"];
    let number = |name: &str| of[name].as_u64().unwrap();
    let flag = |name: &str| of[name].as_bool().unwrap();
    let mlp = of["mlp"].as_str().unwrap();
    let mut spec = ModelSpec::default()
        .preset(if mlp == "none" { Preset::AttentionOnly } else { Preset::Gpt2 })
        .n_layers(number("L"))
        .d_model(number("d_model"))
        .n_heads(number("n_heads"))
        .d_head(number("d_head"))
        .norm(match of["norm"].as_str().unwrap() {
            "ln" => Norm::Layer,
            "rms" => Norm::Rms,
            _ => Norm::None,
        })
        .positions(if of["positions"] == "rope" { Positions::Rotary } else { Positions::Learned })
        .mixer(if of["mixer"] == "average" { Mixer::Average } else { Mixer::Attention })
        .attention_bias(flag("block_bias"))
        .mlp_bias(flag("block_bias"))
        .output_bias(flag("output_bias"))
        .tied(flag("tied"))
        .gated(mlp == "swiglu")
        .activation(if mlp == "swiglu" { Activation::Silu } else { Activation::GeluTanh });
    if mlp != "none" {
        spec = spec.d_mlp(number("d_mlp"));
    }
    let mut config = spec.resolve(number("V"), number("T")).unwrap();
    config.shape.blocks.as_mut().unwrap().norm_eps = of["eps"].as_f64().unwrap();
    config
}

fn model(case: &str, config: Config) -> Model {
    let bytes = std::fs::read(data(&format!("{case}.tl.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.len(), config.tensors().len(), "{case}");
    let mut parameters = Vec::new();
    for tensor in config.tensors() {
        let view = file.tensor(&tensor.name.to_string()).unwrap();
        assert_eq!(view.shape(), tensor.shape, "{}", tensor.name);
        let values = view.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b)));
        parameters.extend(values);
    }
    Model::new(config, parameters).unwrap()
}

fn golden(case: &str) -> (Value, Arc<Dataset>, Model) {
    let golden = json(&format!("{case}.json"));
    let (dataset, config) = (dataset(case, &golden), config(&golden));
    let model = model(case, config);
    (golden, dataset, model)
}

fn near(found: f64, golden: &Value, relative: f64, what: &str) {
    let golden = golden.as_f64().unwrap();
    assert!((found - golden).abs() <= relative * golden.abs(), "{what}: {found}, but PyTorch has {golden}");
}

#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    for case in CASES {
        let (golden, dataset, model) = golden(case);
        assert_eq!(golden["contexts"], dataset.len());
        assert_eq!(golden["parameters"], model.parameters().len());
        near(dataset.floor().0, &golden["floor_nats"], 1e-13, case);
        let mut gradient = vec![0.0; model.parameters().len()];
        let loss = Evaluator::new(*model.config(), &dataset).evaluate(model.parameters(), &mut gradient);
        near(loss, &golden["loss_nats"], 1e-12, case);
        for tensor in model.tensors() {
            let name = tensor.name.to_string();
            let values = &gradient[tensor.range.clone()];
            let norm = values.iter().map(|g| g * g).sum::<f64>().sqrt();
            match tensor.name.weight() {
                // A constant added to every key changes no softmax: the derivative is zero but for rounding.
                "b_K" => assert!(norm < 1e-9 && golden["gradient_norms"][&name].as_f64().unwrap() < 1e-9),
                _ => near(norm, &golden["gradient_norms"][&name], 1e-10, &format!("{case}, {name}")),
            }
            for entry in golden["gradient_entries"][&name].as_array().unwrap() {
                let found = values[entry[0].as_u64().unwrap() as usize];
                let expect = entry[1].as_f64().unwrap();
                assert!((found - expect).abs() <= 1e-10 * norm.max(1e-3), "{case}, {name}: {found} {expect}");
            }
        }
    }
}

/// The losses before each of 20 steps of Adam, and after the last.
fn trajectory(model: &Model, dataset: &Arc<Dataset>, precision: Precision) -> Vec<f64> {
    let settings = TrainSettings::new(Optimizer::Adam).rate(1e-3).precision(precision);
    let limits = Limits::new(Optimizer::Adam).steps(20).relative_gap(None).stall(None);
    let mut trainer = Trainer::new(model, dataset, settings, limits, &Silent).unwrap();
    trainer.run(&Silent).unwrap();
    trainer.curve().rows().iter().map(|row| row.loss.0).collect()
}

#[test]
fn twenty_steps_of_adam_are_those_of_pytorch() {
    for case in CASES {
        let (golden, dataset, model) = golden(case);
        for (precision, relative) in [(Precision::F64, 1e-10), (Precision::F32, 1e-6)] {
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| trajectory(&model, &dataset, precision))
            };
            let losses = run(1);
            let golden = golden["adam_losses_f64"].as_array().unwrap();
            for (step, (&found, golden)) in losses.iter().zip(golden).enumerate() {
                near(found, golden, relative, &format!("{case}, {precision}, step {step}"));
            }
            assert!(losses.len() >= golden.len());
            assert_eq!(losses, run(2), "{case}: two threads");
        }
    }
}

#[test]
fn names_of_tensors_in_blocks_compare_with_text() {
    let name = TensorName::in_block(10, "attn.W_Q");
    assert_eq!(name, "blocks.10.attn.W_Q");
    assert!(name != "blocks.1.attn.W_Q" && name != "attn.W_Q" && name != "blocks.10.attn.W_K");
}
