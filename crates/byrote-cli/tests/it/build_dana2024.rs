//! `byrote build dana2024`, and `byrote bounds --encoder`.

use crate::Case;
use serde_json::Value;

/// Random pairs of 50 tokens, each with a random label.
fn pairs(count: &str) -> Vec<&str> {
    vec!["build", "dana2024", "--random", count, "--lengths", "2..2", "--labels", "50"]
}

#[test]
fn associations_at_capacity_are_memorized_and_the_file_says_so() {
    let case = Case::new();
    for (d, d_h, h, contexts, seed) in
        [("2", "2", "50", "102", "1"), ("10", "10", "20", "210", "2"), ("10", "4", "50", "210", "3")]
    {
        let shape =
            ["--d-model", d, "--d-head", d_h, "--n-heads", h, "--seed", seed, "--out", "m.safetensors"];
        let built = case.json(pairs(contexts).iter().chain(&shape));
        assert_eq!((&built["method"], &built["solver"]), (&"dana2024".into(), &"exact".into()));
        assert_eq!((&built["accuracy"], &built["memorized"]), (&1.0.into(), &built["contexts"]));
        assert_eq!(built["capacity"].to_string(), contexts);
        // d (S + 2 N + 4 d_h H)
        let [d, d_h, h] = [d, d_h, h].map(|x| x.parse::<u64>().unwrap());
        assert_eq!(built["parameters"], d * (2 + 100 + 4 * d_h * h));
        assert!(
            built["gap_nats"].as_f64().unwrap() <= 5e-5 && built["max_logit_error"].as_f64().unwrap() < 1e-3
        );
        for field in [
            "seed",
            "floor_nats",
            "loss_nats",
            "retries",
            "seconds",
            "parameters_by_kind",
            "corollary2_accuracy",
        ] {
            assert!(built.get(field).is_some(), "{field}");
        }
        // The stored model is the one that was measured.
        let random = &pairs(contexts)[2..];
        let eval = ["eval", "m.safetensors", "--seed", seed];
        let found = case.json(eval.iter().chain(random));
        assert_eq!(found["gap_nats"], built["gap_nats"]);
        assert_eq!(found["accuracy"], 1.0);
    }
    let shown = case.json(["show", "m.safetensors"]);
    assert!(shown.to_string().contains("f64"), "{shown}");
}

#[test]
fn one_more_than_capacity_is_refused_under_exact_and_refitted_by_default() {
    let case = Case::new();
    let shape = ["--d-model", "10", "--n-heads", "20"];
    let output = case.run(pairs("211").iter().chain(&shape).chain(&["--method", "exact", "--json"]));
    assert_eq!(output.status.code(), Some(2));
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["error"]["kind"], "refused");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("211 contexts, but at most 210"), "{message}");

    let refitted = case.json(pairs("211").iter().chain(&shape));
    assert_eq!(refitted["solver"], "refit");
    let cut = case.json(pairs("211").iter().chain(&shape).chain(&["--method", "truncate"]));
    assert_eq!((&cut["solver"], &cut["stored"]), (&"truncate".into(), &210.into()));
    let gap = |json: &Value| json["gap_nats"].as_f64().unwrap();
    assert!(gap(&refitted) < gap(&cut), "{} {}", gap(&refitted), gap(&cut));
}

#[test]
fn text_is_stored_with_heads_as_needed_and_refused_where_one_token_contexts_do_not_fit() {
    let case = Case::new();
    let built = case.json(["build", "dana2024", "--builtin", "30", "--out", "m.safetensors"]);
    assert_eq!((&built["solver"], &built["task"]), (&"exact".into(), &"distribution".into()));
    let (gap, encoder) =
        (built["gap_nats"].as_f64().unwrap(), built["encoder"]["gap_nats"].as_f64().unwrap());
    assert!((gap - encoder).abs() < 1e-6 && gap < 0.01, "{gap} {encoder}");
    assert!(built["n_heads"].as_u64().unwrap() > 1 && built["accuracy"] == 1.0);

    let output = case.run(["build", "dana2024", "--builtin", "30", "--d-model", "2", "--method", "exact"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && message.contains("contexts of one token"), "{message}");
    assert!(message.contains("--contexts full"), "{message}");
    assert!(
        case.run(["build", "dana2024", "--builtin", "30", "--d-model", "2", "--n-heads", "3"])
            .status
            .success()
    );
}

#[test]
fn the_same_seed_writes_the_same_bytes_for_any_number_of_threads() {
    let case = Case::new();
    for threads in ["1", "2"] {
        let out = format!("m{threads}.safetensors");
        let args =
            ["build", "dana2024", "--builtin", "20", "--d-model", "20", "--threads", threads, "--out", &out];
        assert!(case.run(args).status.success());
    }
    let read = |name: &str| std::fs::read(case.path(name)).unwrap();
    assert_eq!(read("m1.safetensors"), read("m2.safetensors"));
}

#[test]
fn an_encoder_of_enough_rank_is_no_bottleneck_and_a_narrow_one_is_an_estimate() {
    let case = Case::new();
    let json =
        case.json(["bounds", "--builtin", "20", "--encoder", "1", "--encoder", "3", "--encoder", "2000"]);
    let rows = json["encoders"].as_array().unwrap();
    let gap = |i: usize| rows[i]["gap_nats"].as_f64().unwrap();
    assert_eq!(rows.iter().map(|r| r["d_model"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3, 2000]);
    assert!(gap(0) > 1.02 * gap(1) && gap(1) > gap(2) && gap(2) <= 5e-5, "{} {} {}", gap(0), gap(1), gap(2));
    assert_eq!(
        rows.iter().map(|r| r["estimate"].as_bool().unwrap()).collect::<Vec<_>>(),
        [true, true, false]
    );
    // One dimension has no room for codes of many tokens; random codes need more than 128 ln(omega + 1).
    assert_eq!(rows[0]["theorem2"], Value::Null);
    assert_eq!(rows[1]["theorem2"]["paper_nats"], Value::Null);
    assert!(rows[2]["theorem2"]["paper_nats"].as_f64().is_some());
    let text = String::from_utf8(case.run(["bounds", "--builtin", "20", "--encoder", "3"]).stdout).unwrap();
    assert!(text.contains("an estimate"), "{text}");
    let output = case.run(["bounds", "--builtin", "20", "--encoder", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(case.json(["bounds", "--builtin", "20"])["encoders"], Value::Array(Vec::new()));
}
