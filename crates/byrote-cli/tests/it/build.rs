//! `byrote build madden2024` and `byrote certify`.

use crate::{Case, names};
use serde_json::{Value, json};

fn text(output: &std::process::Output) -> (String, String) {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (of(&output.stdout), of(&output.stderr))
}

#[test]
fn the_built_in_corpus_is_built_and_certified_to_the_numbers_asked_for() {
    let case = Case::new();
    for (activation, error) in [("tanh", 1e-10), ("gelu", 1e-6)] {
        let built = case.json([
            "build",
            "madden2024",
            "--builtin",
            "1000",
            "--activation",
            activation,
            "--out",
            "m.safetensors",
        ]);
        let number = |key: &str| built[key].as_f64().unwrap();
        let contexts = number("contexts");
        assert!((2000.0..3500.0).contains(&contexts));
        assert!(number("max_logit_error") <= error, "{activation}: {}", built["max_logit_error"]);
        assert!(number("gap_nats") <= 1e-4);
        assert_eq!(built["memorized"], built["contexts"]);
        assert_eq!(built["memorized_distribution"], built["contexts"]);
        assert_eq!(built["method"], "madden2024");
        assert_eq!(built["retries"], 0);
        let kinds = built["parameters_by_kind"].as_object().unwrap();
        assert_eq!(kinds.values().map(|v| v.as_f64().unwrap()).sum::<f64>(), number("parameters"));
        // The files are read back, measured and certified.
        let seen = case.json(["eval", "m.safetensors"]);
        assert_eq!(seen["gap_nats"], built["gap_nats"]);
        let proven = case.json(["certify", "m.safetensors"]);
        assert_eq!(proven["verdict"], "certified");
        assert_eq!(proven["certified_contexts"], built["contexts"]);
        assert!(proven["min_margin_lower_bound"].as_f64().unwrap() > 0.0);
        let computed = &proven["floating_point"];
        assert_eq!((&computed["precision"], &computed["verdict"]), (&json!("f64"), &json!("certified")));
        assert_eq!(computed["certified_contexts"], proven["contexts"]);
        assert!(computed["min_margin_lower_bound"].as_f64() < proven["min_margin_lower_bound"].as_f64());
        assert_eq!(proven["floating_point_f32"]["precision"], "f32");
        assert!(proven["gap_nats_upper_bound"].as_f64().unwrap() >= number("gap_nats"));
        let each = proven["gap_nats_per_prediction_upper_bound"].as_f64().unwrap();
        assert!(each >= number("gap_nats_per_prediction") && each < 1e-3);
        assert_eq!(proven["injectivity"]["distinct_absolute_values"], true);
        assert!(proven["arithmetic"].is_string() && proven["contexts"] == built["contexts"]);
    }
    assert_eq!(case.names(), ["m.safetensors"]);
}

#[test]
fn names_are_built_and_certified_in_bounded_memory() {
    let case = Case::new();
    case.file("names.txt", names(1500));
    let corpus = ["--tokenizer", "char", "--n-ctx", "5"];
    let built =
        case.json(["build", "madden2024", "names.txt", "--out", "n.safetensors"].into_iter().chain(corpus));
    assert_eq!(built["solver"], "sorted");
    assert!(built["max_logit_error"].as_f64().unwrap() < 1e-10);
    let proven = case.json(["certify", "n.safetensors", "names.txt"]);
    assert_eq!(proven["verdict"], "certified");
}

#[test]
fn the_same_seed_gives_the_same_file_for_any_number_of_threads() {
    let case = Case::new();
    let file = |name: &str, more: &[&str]| {
        let fixed = ["build", "madden2024", "--builtin", "60", "--activation", "gelu", "--out", name];
        assert!(case.run(fixed.iter().chain(more)).status.success());
        std::fs::read(case.path(name)).unwrap()
    };
    let one = file("1", &["--threads", "1"]);
    assert!(one == file("2", &["--threads", "2"]));
    assert!(one != file("3", &["--seed", "1"]));
}

#[test]
fn a_trained_model_is_judged() {
    let case = Case::new();
    let train =
        ["train", "--builtin", "20", "--preset", "average", "--d-mlp", "64", "--out", "run", "--quiet"];
    assert!(case.run(train).status.success());
    let model = "run/model.safetensors";
    let seen = case.json(["eval", model, "--builtin", "20"]);
    let output = case.run(["certify", model, "--builtin", "20", "--json"]);
    let proven: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(proven["certified_contexts"].as_u64() <= seen["memorized"].as_u64());
    assert!(proven["gap_nats_upper_bound"].as_f64() >= seen["gap_nats"].as_f64());
    let certified = proven["verdict"] == "certified";
    assert_eq!(output.status.code(), Some(i32::from(!certified)));
    // The untrained model is refuted, with a counterexample.
    let output = case.run(["certify", "run/init.safetensors", "--builtin", "20"]);
    let (out, _) = text(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(out.contains("refuted by:"), "{out}");
}

#[test]
fn what_cannot_be_built_is_refused_and_nothing_is_written() {
    let case = Case::new();
    case.file("empty.txt", "");
    case.file("one.txt", "alone\n");
    let refused = |arguments: &[&str], words: &str| {
        let output = case.run(["build", "madden2024", "--out", "m"].iter().chain(arguments));
        let (out, error) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {out}");
        assert!(error.contains(words), "{arguments:?}: {error}");
        assert_eq!(case.names(), ["empty.txt", "one.txt"]);
    };
    refused(&["empty.txt"], "no documents");
    refused(&["one.txt"], "no context");
    refused(&["--builtin", "20", "--d-mlp", "5"], "5 neurons");
    refused(&["--builtin", "20", "--gap", "0"], "--gap");
    refused(&["--builtin", "20", "--gap", "nan"], "--gap");
    refused(&["--builtin", "20", "--d-model", "0"], "--d-model");
    refused(&["--builtin", "20", "--slack", "-1"], "--slack");
    refused(&["--builtin", "200", "--activation", "arctan", "--d-model", "1"], "logit");
    refused(&["--builtin", "200", "--activation", "gelu", "--max-memory", "1M"], "memory");
    let output = case.run(["build", "madden2024", "--builtin", "20", "--out", "nowhere/m"]);
    assert_eq!(output.status.code(), Some(2));
    let output = case.run(["build", "madden2024", "--builtin", "20", "--d-mlp", "5", "--json"]);
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["error"]["kind"], "refused");
}

#[test]
fn the_proof_as_it_stands_needs_bits() {
    let case = Case::new();
    case.file("few.txt", "a b c\na c b\nb a\n");
    let literal = ["build", "madden2024", "few.txt", "--method", "literal"];
    let report = case.json(literal);
    assert_eq!((&report["solver"], &report["certified_regular"]), (&"literal".into(), &true.into()));
    assert!(report["max_logit_error"].as_f64().unwrap() < 1e-6);
    assert!(report["bits"].as_u64().unwrap() >= 64);
    let refused = |more: &[&str], words: &str| {
        let output = case.run(literal.iter().chain(more));
        let (_, error) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(error.contains(words), "{more:?}: {error}");
    };
    refused(&["--out", "m"], "reported, not stored");
    refused(&["--activation", "relu"], "relu");
    let output =
        case.run(["build", "madden2024", "--builtin", "10", "--method", "literal", "--arithmetic", "f64"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(case.names(), ["few.txt"]);
}
