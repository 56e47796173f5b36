//! The fast forward pass, compared with the numbers that `transformers` computed.
//!
//! `data/huggingface/` holds small random models of every family. For each position of some sequences, `next` has the statistics
//! of the next token by PyTorch in f32.

use byrote::inference::{LanguageModel, Network, PositionScore, Sampling, Sequence};
use byrote::model::huggingface;
use serde_json::Value;
use std::path::Path;

const MODELS: [&str; 7] =
    ["gpt2", "gpt2_oldnames", "gpt_neox", "gpt_neox_sequential", "llama", "llama3_bf16_sharded", "qwen2"];

fn near(found: f64, expected: &Value, what: &str) {
    // A probability of 0 is null.
    let expected = expected.as_f64().unwrap_or(f64::NEG_INFINITY);
    let equal = found == expected || (found - expected).abs() <= 1e-4 + 1e-5 * expected.abs();
    assert!(equal, "{what}: {found}, but PyTorch has {expected}");
}

#[test]
fn scores_are_those_of_transformers() {
    for name in MODELS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/huggingface").join(name);
        let network = Network::from_model(&huggingface::load(&directory).unwrap().model).unwrap();
        let expected: Value =
            serde_json::from_slice(&std::fs::read(directory.join("expected.json")).unwrap()).unwrap();
        let cases: Vec<&Value> =
            expected["cases"].as_array().unwrap().iter().filter(|case| case.get("next").is_some()).collect();
        assert!(cases.len() >= 4, "{name}");
        let ids = |case: &Value| -> Vec<u32> {
            case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
        };
        let texts: Vec<Vec<u32>> = cases.iter().map(|case| ids(case)).collect();
        let sequences: Vec<Sequence<'_>> =
            texts.iter().map(|tokens| Sequence { tokens, scored: 1..tokens.len() }).collect();
        let scores = network.score(&sequences, Sampling { top_k: 40, temperature: 1.0 }).unwrap();
        for (case, scores) in cases.iter().zip(&scores) {
            let next = &case["next"];
            assert_eq!(next["log_prob"].as_array().unwrap().len(), scores.len());
            for (i, score) in scores.iter().enumerate() {
                let PositionScore { log_prob, log_prob_sampled, margin, mean_log_prob, sd_log_prob, .. } =
                    *score;
                for (found, key) in [
                    (log_prob, "log_prob"),
                    (log_prob_sampled, "log_prob_top40"),
                    (margin, "margin"),
                    (mean_log_prob, "mean_log_prob"),
                    (sd_log_prob, "sd_log_prob"),
                ] {
                    near(found, &next[key][i], &format!("{name}, {key} at {i}"));
                }
                assert_eq!(next["rank"][i], score.rank, "{name} at {i}");
                assert_eq!(case["argmax"][i], score.top, "{name} at {i}");
            }
        }
    }
}
