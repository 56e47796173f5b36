//! `byrote audit`, as somebody who has fine-tuned a model would use it.

use crate::{Case, skipped};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../byrote/tests/data").join(name)
}

/// The path of a file of the small model whose training text is known.
fn canary(name: &str) -> String {
    data("canary").join(name).to_string_lossy().into_owned()
}

fn model() -> String {
    data("canary").to_string_lossy().into_owned()
}

const WINDOW: [&str; 6] = ["--prefix", "8", "--suffix", "16", "--bos", "0"];

/// The one line of an error, and that nothing was written.
#[track_caller]
fn refused(case: &Case, arguments: &[&str]) -> String {
    let before = case.names();
    let output = case.run(["audit"].iter().chain(arguments));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.trim().lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty());
    assert_eq!(case.names(), before, "{text}");
    text
}

#[test]
fn a_fine_tuned_model_is_audited_with_a_control_and_leaves_its_files() {
    let case = Case::new();
    let (model, corpus, held_out) = (model(), canary("corpus.txt"), canary("held_out.txt"));
    let arguments = ["audit", &model, &corpus, "--held-out", &held_out, "--out", "audit"];
    let found = case.json(arguments.iter().chain(&WINDOW));
    assert_eq!(found["model"]["parameters"], 129_792);
    assert_eq!((&found["model"]["family"], &found["model"]["dtype"]), (&"gpt2".into(), &"bf16".into()));
    assert_eq!(
        (&found["corpus"]["documents"], &found["corpus"]["distinct_documents"]),
        (&248.into(), &40.into())
    );
    assert_eq!(found["settings"]["start_token"], 0);
    assert!(found["windows"]["extractable"].as_u64() > Some(0));
    assert_eq!(found["held_out"]["windows"]["extractable"], 0);
    assert_eq!(found["auroc"]["loss"], 1.0);
    assert_eq!(found["verdict"].as_array().unwrap().len(), 5);
    let mut names: Vec<String> = std::fs::read_dir(case.path("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name != "lock")
        .collect();
    names.sort();
    for name in ["audit.json", "documents.csv", "report.html", "scores.bin", "strip.csv", "windows.csv"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    let saved: Value =
        serde_json::from_slice(&std::fs::read(case.path("audit/audit.json")).unwrap()).unwrap();
    assert_eq!(saved["bits"], found["bits"]);
    // Again: everything is found on disk, and nothing changes.
    let again = case.json(arguments.iter().chain(&WINDOW));
    assert_eq!(again["bits"], found["bits"]);
    assert_eq!(
        serde_json::from_slice::<Value>(&std::fs::read(case.path("audit/audit.json")).unwrap()).unwrap(),
        saved
    );
}

#[test]
fn the_verdict_is_five_lines_for_people() {
    let case = Case::new();
    let (model, corpus, held_out) = (model(), canary("corpus.txt"), canary("held_out.txt"));
    let output =
        case.run(["audit", &model, &corpus, "--held-out", &held_out, "--quiet"].iter().chain(&WINDOW));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in ["extractable", "held-out", "bits per byte", "no model can do better than"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Sentences are wrapped on a terminal; the table fits.
    assert!(text.lines().skip(6).all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_share_can_fail_a_build() {
    let case = Case::new();
    let (model, corpus) = (model(), canary("corpus.txt"));
    let with = |most: &str| {
        let arguments = ["audit", &model, &corpus, "--quiet", "--lengths", "0", "--fail-above", most];
        case.run(arguments.iter().chain(&WINDOW)).status.code()
    };
    assert_eq!((with("0.01"), with("0.99")), (Some(1), Some(0)));
    assert!(refused(&case, &[&model, &corpus, "--fail-above", "2"]).contains("--fail-above"));
}

#[test]
fn presets_run_with_their_conventions() {
    let case = Case::new();
    let (model, corpus) = (model(), canary("corpus.txt"));
    let with = |arguments: &[&str]| {
        let base = ["audit", &model, &corpus, "--lengths", "0", "--context", "window"];
        case.json(base.iter().chain(arguments))
    };
    let pythia = with(&["--preset", "pythia", "--prefix", "16", "--suffix", "16"]);
    assert_eq!(pythia["windows"]["count"], 248);
    assert!(pythia["windows"]["mean_free_running_accuracy"].is_f64());
    let goldfish = with(&["--preset", "goldfish", "--suffix", "16"]);
    assert_eq!(
        (&goldfish["windows"]["count"], &goldfish["settings"]["placement"]),
        (&248.into(), &"end".into())
    );
    assert!(goldfish["windows"]["mean_rouge_l"].is_f64());
    let cooper = with(&["--preset", "cooper", "--prefix", "8", "--suffix", "16", "--bos", "none"]);
    assert_eq!(cooper["settings"]["stride"], "chars:10");
    assert!(cooper["windows"]["coverage"]["p_z"].as_f64() > Some(0.0));
    let carlini = with(&["--preset", "carlini", "--prefix", "8", "--suffix", "16"]);
    assert_eq!(carlini["settings"]["stride"], "50");
}

#[test]
fn what_cannot_be_audited_is_refused_in_one_line() {
    let case = Case::new();
    let (model, corpus) = (model(), canary("corpus.txt"));
    // 50 + 50 tokens do not fit into this model, which reads 64.
    assert!(refused(&case, &[&model, &corpus]).contains("do not fit into a context of 64"));
    assert!(refused(&case, &[&model]).contains("name the text to audit"));
    case.file("empty.txt", "");
    assert!(refused(&case, &[&model, "empty.txt", "--prefix", "8", "--suffix", "8"]).contains("no tokens"));
    case.file("short.txt", "a b\nc\n");
    let short = refused(&case, &[&model, "short.txt", "--prefix", "8", "--suffix", "8"]);
    assert!(short.contains("every document is shorter than a window of 8 + 8 = 16 tokens"), "{short}");
    assert!(short.contains("--documents file"), "{short}");
    let short = refused(&case, &[&model, "short.txt", "--prefix", "8", "--suffix", "8", "--out", "new"]);
    assert!(short.contains("every document is shorter"), "{short}");
    case.file("letters.txt", "a\nb\n");
    case.file("nothing.jsonl", "{\"text\": \"a b c\", \"count\": 1}\n{\"text\": \"\", \"count\": 0}\n");
    case.file("bad.txt", b"caf\xe9 au lait\n");
    assert!(refused(&case, &[&model, "bad.txt", "--prefix", "1", "--suffix", "1"]).contains("invalid UTF-8"));
    case.file("ids.jsonl", "{\"text\": [1, 2, 399]}\n{\"text\": [1, 2, 400]}\n");
    assert!(refused(&case, &[&model, "ids.jsonl", "--prefix", "1", "--suffix", "1"]).contains("token 400"));
    for (arguments, part) in [
        (&["--bos", "400"][..], "not one of the model's 400 token ids"),
        (&["--bos", "perhaps"], "--bos"),
        (&["--stride", "0"], "--stride"),
        (&["--temperature", "0"], "--temperature"),
        (&["--top-k", "0"], "--top-k"),
        (&["--lengths", "65"], "--lengths"),
        (&["--n-ctx", "65"], "--n-ctx"),
        (&["--suffix", "0"], "--suffix"),
        (&["--max-memory", "1M"], "--max-memory"),
        (&["--canaries", "missing.jsonl"], "missing.jsonl"),
        (&["--held-out", "empty.txt"], "--held-out"),
        (&["--held-out", "letters.txt", "--bos", "none"], "--held-out: every document has a single token"),
        (
            &["--canaries", "nothing.jsonl"],
            "--canaries: canary 2 is too short to be predicted: it has 0 tokens",
        ),
        (
            &["--tokenizer", "byte"],
            "--tokenizer: must be a tokenizer.json, because the model reads token ids",
        ),
        (&["--out", "new", "--canaries", "nothing.jsonl"], "canary 2"),
    ] {
        let base = [model.as_str(), &corpus, "--prefix", "8", "--suffix", "8"];
        let kept: Vec<&str> = base.iter().chain(arguments).copied().collect();
        let kept = if arguments[0] == "--suffix" { [&base[..2], arguments].concat() } else { kept };
        let text = refused(&case, &kept);
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_model_that_byrote_has_trained_is_audited() {
    let case = Case::new();
    case.file("prose.txt", crate::prose(30));
    let trained = case.run([
        "train",
        "prose.txt",
        "--n-ctx",
        "12",
        "--d-mlp",
        "16",
        "--steps",
        "50",
        "--out",
        "run",
        "--quiet",
    ]);
    assert!(trained.status.success());
    let model = "run/model.safetensors";
    let window = ["--prefix", "3", "--suffix", "2", "--lengths", "4"];
    let found = case.json(["audit", model, "prose.txt"].iter().chain(&window));
    assert_eq!(found["corpus"]["documents"], 30);
    assert!(found["bits_per_byte"].as_f64() > Some(0.0));
    let eval = case.json(["eval", model, "prose.txt", "--n-ctx", "4"]);
    let (ours, theirs) = (found["gap"]["gap_nats"].as_f64().unwrap(), eval["gap_nats"].as_f64().unwrap());
    assert!((ours - theirs).abs() < 1e-3 * theirs, "{ours} and {theirs}");
}

#[test]
fn log_probabilities_stand_in_for_a_model() {
    let case = Case::new();
    case.file("ids.jsonl", "{\"text\": [5, 6, 7, 8]}\n{\"text\": [5, 6]}\n");
    case.file("scores.csv", "log_prob\n-1\n-1\n-2\n-4\n");
    let found = case.json(["audit", "scores.csv", "ids.jsonl", "--prefix", "1", "--suffix", "1"]);
    assert!((found["bits"].as_f64().unwrap() - 8.0 / std::f64::consts::LN_2).abs() < 1e-12);
    assert_eq!((&found["scored_tokens"], &found["token_hits"]), (&4.into(), &Value::Null));
    case.file("few.csv", "log_prob\n-1\n");
    assert!(
        refused(&case, &["few.csv", "ids.jsonl"])
            .contains("has 1 log-probabilities, but the text has 6 tokens")
    );
    case.file("text.txt", "words\n");
    assert!(refused(&case, &["scores.csv", "text.txt"]).contains("--tokenizer"));
    for (numbers, part) in [
        ("-1\n-inf\n-2\n-4\n", "entry 2 is -inf: a token that occurs in the text cannot have probability 0"),
        ("-1\n-1\nnan\n-4\n", "entry 3 is NaN; only the first token of a document may be unscored"),
        ("-1\n-1\n-2\n0.5\n", "entry 4 is 0.5: a log-probability is a number of at most 0"),
        ("-1\n-1\n-2\ninf\n", "entry 4 is inf: a log-probability is a number of at most 0"),
    ] {
        case.file("wrong.csv", format!("log_prob\n{numbers}"));
        let text = refused(&case, &["wrong.csv", "ids.jsonl", "--out", "audit"]);
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn log_probabilities_of_a_held_out_text_follow_those_of_the_corpus() {
    let case = Case::new();
    case.file("ids.jsonl", "{\"text\": [5, 6, 7]}\n");
    case.file("other.jsonl", "{\"text\": [5, 7, 6]}\n");
    // As many as either text has tokens, but they are the corpus's.
    case.file("scores.csv", "log_prob\n-1\n-1\n-2\n");
    let text = refused(&case, &["scores.csv", "ids.jsonl", "--held-out", "other.jsonl"]);
    assert!(text.contains("corpus and held-out text have 6 tokens in 2 documents"), "{text}");
    case.file("scores.csv", "log_prob\n-1\n-1\n-2\n-8\n-4\n-4\n");
    let found = case.json(["audit", "scores.csv", "ids.jsonl", "--held-out", "other.jsonl"]);
    let bits = |side: &Value| side["bits"].as_f64().unwrap() * std::f64::consts::LN_2;
    assert!((bits(&found) - 4.0).abs() < 1e-12 && (bits(&found["held_out"]) - 16.0).abs() < 1e-12);
}

#[test]
fn an_audit_says_how_much_there_is_to_evaluate() {
    let case = Case::new();
    let (model, corpus) = (model(), canary("corpus.txt"));
    let arguments = ["audit", &model, &corpus, "--lengths", "0", "--context", "document", "--out", "audit"];
    let told = |quiet: &[&str]| {
        let output = case.run(arguments.iter().chain(&WINDOW).chain(quiet));
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let first = told(&[]);
    let found: Value =
        serde_json::from_slice(&std::fs::read(case.path("audit/audit.json")).unwrap()).unwrap();
    let tokens = byrote::units::counted(found["evaluated_tokens"].as_u64().unwrap(), "token");
    assert!(first.contains(&format!("{tokens} to evaluate, which takes ")), "{first}");
    // The scores are there.
    assert!(told(&[]).contains("0 tokens to evaluate"));
    assert_eq!(told(&["--quiet"]), "");
}

#[cfg(not(feature = "onnx"))]
#[test]
fn an_onnx_file_is_refused_without_its_runtime() {
    let case = Case::new();
    case.file("model.onnx", "anything");
    let text = refused(&case, &["model.onnx", &canary("corpus.txt")]);
    assert!(text.contains("model.onnx: is an ONNX file, which this build of byrote cannot run"), "{text}");
    assert!(text.contains("feature `onnx`"), "{text}");
    assert!(refused(&case, &["none.onnx", &canary("corpus.txt")]).contains("none.onnx"));
}

#[test]
fn two_audits_are_compared() {
    let case = Case::new();
    let reference = data("canary_reference").to_string_lossy().into_owned();
    for (model, out) in [(&reference, "before"), (&model(), "after")] {
        let arguments = ["audit", model, &canary("corpus.txt"), "--out", out, "--quiet", "--lengths", "0"];
        assert!(case.run(arguments.iter().chain(&WINDOW)).status.success());
    }
    let compared = case.json(["audit", "--compare", "before", "after"]);
    assert!(compared["cheaper"].as_u64() > Some(10));
    let output = case.run(["audit", "--compare", "before", "after"]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("bits per byte"));
    assert!(refused(&case, &["--compare", "before", "nowhere"]).contains("nowhere"));
}

#[test]
fn a_pretrained_model_knows_a_licence_by_heart() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model = root.join("target/audit-demo/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !model.exists() {
        skipped("the audit of a pretrained model; python3 docs/audit_demo/run.py fetches it");
        return;
    }
    let case = Case::new();
    let bits = |text: &str, arguments: &[&str]| {
        let text = root.join(text);
        let base = [
            "audit",
            model.to_str().unwrap(),
            text.to_str().unwrap(),
            "--documents",
            "file",
            "--context",
            "document",
            "--bos",
            "0",
            "--prefix",
            "32",
            "--suffix",
            "8",
            "--lengths",
            "0",
        ];
        case.json(base.iter().chain(arguments))
    };
    let (licence, control) = (bits("LICENSE-MIT", &[]), bits("docs/audit_demo/control_licence.txt", &[]));
    assert_eq!((&licence["corpus"]["tokens"], &control["corpus"]["tokens"]), (&262.into(), &394.into()));
    assert_eq!(licence["longest_runs"][0]["tokens"], 23);
    assert!(licence["bits_per_byte"].as_f64() < Some(0.4) && control["bits_per_byte"].as_f64() > Some(1.1));
    assert_eq!(control["document_context"]["extractable"], 0);
}
