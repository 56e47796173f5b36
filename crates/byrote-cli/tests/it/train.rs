//! `train`, `eval`, `predict` and `show`.

use crate::{Case, skipped};
use byrote::model::Preset;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A training of a second or less.
const SMALL: [&str; 7] = ["train", "--builtin", "20", "--d-model", "8", "--d-mlp", "24"];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().copied().chain(more.iter().copied()).collect()
}

fn has_fields(object: &Value, fields: &[&str]) {
    for field in fields {
        assert!(!object[field].is_null(), "{field} is missing in {object:#}");
    }
}

const SHARED_FIELDS: [&str; 18] = [
    "loss_nats_per_prediction",
    "loss_bits_per_prediction",
    "floor_nats_per_prediction",
    "floor_bits_per_prediction",
    "gap_nats_per_prediction",
    "gap_bits_per_prediction",
    "seed",
    "parameters",
    "parameters_by_kind",
    "contexts",
    "loss_nats",
    "floor_nats",
    "gap_nats",
    "memorized",
    "memorized_distribution",
    "max_kl_nats",
    "accuracy",
    "seconds",
];

fn has_temporary_files(directory: &Path) -> bool {
    let mut names = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name());
    names.any(|n| n.to_string_lossy().starts_with('.'))
}

#[test]
fn training_reaches_the_floor_and_eval_finds_the_same_numbers() {
    let case = Case::new();
    // Averaging does not saturate as attention can, so reaching the floor does not depend on rounding.
    let arguments = ["train", "--builtin", "20", "--preset", "average", "--d-mlp", "64", "--out", "run"];
    let trained = case.json(arguments.into_iter().chain(["--require-floor"]));
    has_fields(&trained, &SHARED_FIELDS);
    has_fields(&trained, &["optimizer", "steps", "stop", "curve_file", "milliseconds_per_step_median"]);
    assert_eq!((trained["stop"].as_str(), trained["optimizer"].as_str()), (Some("reached"), Some("lbfgs")));
    assert!(trained["gap_nats"].as_f64() <= trained["floor_nats"].as_f64().map(|f| 0.01 * f));
    let found = case.json(["eval", "run/model.safetensors", "--builtin", "20"]);
    has_fields(&found, &SHARED_FIELDS);
    has_fields(&found, &["method", "by_length", "worst"]);
    has_fields(&found["by_length"][0], &["gap_nats", "gap_nats_per_prediction"]);
    for field in ["loss_nats", "gap_nats", "memorized", "max_kl_nats", "accuracy", "contexts"] {
        assert_eq!(found[field], trained[field], "{field}");
    }
    assert_eq!(found["worst"].as_array().unwrap().len(), 10);
    assert!(found["worst"][0]["text"].is_string() && found["worst"][0]["next"].is_array());
    // The curve begins at the start and ends where training did.
    let curve = std::fs::read_to_string(case.path("run/curve.csv")).unwrap();
    let steps = trained["steps"].as_u64().unwrap();
    assert!(curve.starts_with(
        "step,evaluations,loss_nats,gap_nats,loss_nats_per_prediction,gap_nats_per_prediction\n0,1,"
    ));
    assert!(curve.lines().last().unwrap().starts_with(&format!("{steps},")));
    // Every table is a table.
    for arguments in [
        vec!["eval", "run/model.safetensors", "--builtin", "20"],
        vec!["show", "run/model.safetensors"],
        vec!["predict", "run/model.safetensors", "Once upon", "--builtin", "20"],
    ] {
        let output = case.run(arguments);
        assert!(output.status.success() && output.stdout.len() > 50);
    }
    let shown = case.json(["show", "run/model.safetensors"]);
    assert_eq!(shown["parameters"], trained["parameters"]);
    assert_eq!(shown["preset"], "average");
}

#[test]
fn no_steps_write_the_start_and_the_start_can_be_given() {
    let case = Case::new();
    let nothing = case.json(small(&["--steps", "0", "--out", "a"]));
    assert_eq!((nothing["steps"].as_u64(), nothing["stop"].as_str()), (Some(0), Some("steps")));
    let read = |name: &str| std::fs::read(case.path(name)).unwrap();
    assert_eq!(read("a/init.safetensors"), read("a/model.safetensors"));
    let adam = ["--optimizer", "adam", "--lr", "0.01", "--steps", "7"];
    case.json(small(&adam).into_iter().chain(["--out", "b"]));
    let from = ["train", "--builtin", "20", "--init", "a/init.safetensors", "--out", "c"];
    case.json(from.into_iter().chain(adam));
    assert_eq!(read("b/model.safetensors"), read("c/model.safetensors"));
    assert_eq!(read("a/init.safetensors"), read("c/init.safetensors"));
}

#[test]
fn files_do_not_depend_on_the_number_of_threads() {
    let case = Case::new();
    for (threads, out) in [("1", "one"), ("2", "two"), ("3", "three")] {
        case.json(small(&["--threads", threads, "--out", out, "--warmup", "20"]));
    }
    let read = |name: &str| std::fs::read(case.path(name)).unwrap();
    for file in ["model.safetensors", "curve.csv", "init.safetensors"] {
        let one = read(&format!("one/{file}"));
        assert!(one == read(&format!("two/{file}")) && one == read(&format!("three/{file}")), "{file}");
    }
}

#[test]
fn a_model_of_blocks_reaches_the_floor_and_resumes_with_the_same_bytes() {
    let case = Case::new();
    let deep = |more: &[&'static str]| {
        let start = ["train", "--builtin", "40", "--preset", "gpt2", "--n-layers", "3", "--d-model", "16"];
        start.into_iter().chain(more.iter().copied()).collect::<Vec<_>>()
    };
    let whole = case.json(deep(&["--out", "whole"]));
    assert_eq!(whole["stop"], "reached");
    case.json(deep(&["--out", "parts", "--steps", "30", "--threads", "1"]));
    case.json(deep(&["--out", "parts", "--resume", "--threads", "2", "--max-memory", "1M"]));
    let read = |name: &str| std::fs::read(case.path(name)).unwrap();
    assert_eq!(read("whole/model.safetensors"), read("parts/model.safetensors"));
    // What is not for one layer is refused with the way out.
    let one_layer = vec!["train", "--builtin", "10", "--preset", "madden2024", "--n-layers", "2"];
    for (arguments, setting, way_out) in
        [(one_layer, "--n-layers", "gpt2"), (deep(&["--clip", "1"]), "--clip", "adam")]
    {
        let output = case.run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(setting) && error.contains(way_out) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn a_model_of_blocks_is_named_by_its_preset_and_layers() {
    let case = Case::new();
    let told = |arguments: &[&str]| {
        let output = case.run(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let short = ["--builtin", "5", "--steps", "3", "--out", "run"];
    let new = told(&[&["train", "--n-layers", "2", "--d-model", "4"][..], &short].concat());
    assert!(new.starts_with("gpt2, 2 layers\nbuilt-in stories (5): "), "{new}");
    assert!(new.lines().take(2).all(|line| line.chars().count() <= 80), "{new}");
    let again = ["train", "--init", "run/model.safetensors", "--builtin", "5", "--steps", "1"];
    assert!(told(&again).starts_with("2 layers\nbuilt-in stories (5): "));
}

#[test]
fn every_optimizer_and_preset_trains() {
    let case = Case::new();
    for preset in Preset::ALL.map(Preset::name) {
        let arguments = ["train", "--builtin", "10", "--d-model", "4", "--preset", preset, "--steps", "40"];
        let first = case.json(arguments[..7].iter().copied().chain(["--steps", "0"]));
        for more in [
            vec!["--warmup", "10"],
            vec!["--optimizer", "adam", "--lr", "0.01", "--schedule", "cosine"],
            vec!["--optimizer", "adamw", "--lr", "0.01", "--batch", "16"],
        ] {
            let trained = case.json(arguments.into_iter().chain(more.iter().copied()));
            assert!(trained["gap_nats"].as_f64() < first["gap_nats"].as_f64(), "{preset} {more:?}");
        }
    }
}

#[test]
fn a_model_that_is_too_small_says_no() {
    let case = Case::new();
    let arguments = ["train", "--builtin", "60", "--d-mlp", "4", "--steps", "300", "--require-floor"];
    let output = case.run(arguments.into_iter().chain(["--json"]));
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(["steps", "stalled"].contains(&found["stop"].as_str().unwrap()));
    assert_eq!(
        case.run(&arguments[..7]).status.code(),
        Some(0),
        "a negative answer is no error unless asked for"
    );
}

#[test]
fn divergence_is_told_and_the_last_good_weights_are_kept() {
    let case = Case::new();
    let output = case.run(small(&["--optimizer", "adam", "--lr", "1e38", "--out", "run", "--json"]));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["stop"], "diverged");
    assert!(found["stop_detail"]["tensor"].is_string() && found["stop_detail"]["step"].is_u64());
    assert!(case.run(["eval", "run/model.safetensors", "--builtin", "20"]).status.success());
    assert!(!case.path("run/checkpoint.safetensors").exists(), "nothing to go on from");
}

#[test]
fn the_same_ids_for_other_words_are_another_corpus() {
    let case = Case::new();
    case.file("a.txt", "a b c\na b d\nb c a\n");
    case.file("x.txt", "x y z\nx y zz\ny z x\n");
    let run = |text: &str, more: &[&str]| {
        case.run(["train", text, "--d-mlp", "4", "--steps", "3", "--out", "run"].iter().chain(more))
    };
    assert!(run("a.txt", &[]).status.success());
    assert!(run("a.txt", &["--resume"]).status.success());
    for (text, more, told) in [
        ("x.txt", &["--resume"][..], "another corpus"),
        ("a.txt", &["--resume", "--seed", "4"], "another --seed"),
        ("a.txt", &["--resume", "--warmup", "4"], "another --warmup"),
    ] {
        let output = run(text, more);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(told), "{output:?}");
    }
}

#[test]
fn start_and_end_tokens_are_remembered() {
    let case = Case::new();
    case.file("a.txt", "a b c\na b d\nb c a\n");
    let arguments =
        ["train", "a.txt", "--bos", "--eos", "--preset", "average", "--d-mlp", "64", "--out", "run"];
    let trained = case.json(arguments);
    let found = case.json(["eval", "run/model.safetensors", "a.txt"]);
    assert_eq!(found["contexts"], trained["contexts"]);
    assert_eq!(found["gap_nats"], trained["gap_nats"]);
    let next = case.json(["predict", "run/model.safetensors", "a b", "a.txt"]);
    assert_eq!(next["corpus_count"].as_f64(), Some(2.0));
    assert_eq!(next["texts"][0], "<bos>");
}

/// A run long enough to be killed, with a checkpoint after every step.
const LONG: [&str; 16] = [
    "train",
    "--builtin",
    "40",
    "--d-mlp",
    "16",
    "--stop-relative-gap",
    "0",
    "--stall",
    "0",
    "--steps",
    "400",
    "--warmup",
    "50",
    "--checkpoint-every",
    "0",
    "--quiet",
];

#[test]
fn killed_at_any_moment_it_resumes_to_the_same_bytes() {
    let case = Case::new();
    let whole: Vec<&str> = LONG.into_iter().chain(["--out", "whole"]).collect();
    assert!(case.run(&whole).status.success());
    let killed: Vec<&str> = LONG.into_iter().chain(["--out", "killed", "--resume"]).collect();
    let (mut kills, mut resumes) = (0, 0);
    for round in 0u64.. {
        let mut child = case.command().args(&killed).stdout(Stdio::null()).spawn().unwrap();
        // These times only decide where the run is killed.
        std::thread::sleep(Duration::from_millis(40 + 67 * (round * round % 7)));
        child.kill().unwrap();
        if child.wait().unwrap().success() || round == 12 {
            break;
        }
        kills += 1;
        resumes += u32::from(case.path("killed/checkpoint.safetensors").exists());
    }
    assert!(kills > 0 && resumes > 0, "{kills} kills, {resumes} of them after a checkpoint");
    assert!(case.run(&killed).status.success());
    for file in ["model.safetensors", "curve.csv", "init.safetensors"] {
        let read = |run: &str| std::fs::read(case.path(run).join(file)).unwrap();
        assert!(read("whole") == read("killed"), "{file} after {kills} kills");
    }
    // The four files of a run, its lock and what it said as it ran, and what kills left under temporary names.
    let names = std::fs::read_dir(case.path("killed")).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(names.filter(|n| !n.to_string_lossy().starts_with('.')).count(), 6);
}

#[test]
fn a_directory_in_use_is_refused() {
    let case = Case::new();
    std::fs::create_dir(case.path("run")).unwrap();
    let held = byrote::output::lock(&case.path("run")).unwrap();
    let output = case.run(small(&["--steps", "1", "--out", "run"]));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("another process"), "{message}");
    assert!(!case.path("run/init.safetensors").exists());
    drop(held);
    assert!(case.run(small(&["--steps", "1", "--out", "run"])).status.success());
}

#[test]
fn a_new_run_replaces_only_a_finished_one_with_the_same_settings() {
    let case = Case::new();
    let run = |more: &[&str]| case.run(small(&["--out", "run"]).into_iter().chain(more.iter().copied()));
    let read = |name: &str| std::fs::read(case.path(name)).unwrap();
    let refused = |more: &[&str], expected: &str| {
        let before = (read("run/checkpoint.safetensors"), read("run/init.safetensors"));
        let output = run(more);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("--out") && message.contains(expected), "{message}");
        assert!(before == (read("run/checkpoint.safetensors"), read("run/init.safetensors")));
    };
    let long = ["--stop-relative-gap", "0", "--stall", "0", "--checkpoint-every", "0", "--steps", "1000000"];
    let arguments: Vec<&str> = small(&["--out", "run"]).into_iter().chain(long).collect();
    let mut child =
        case.command().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !case.path("run/checkpoint.safetensors").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    refused(&["--steps", "1"], "--resume");
    assert!(run(&["--steps", "50", "--resume"]).status.success());
    let model = read("run/model.safetensors");
    // Another seed draws other stories.
    refused(&["--steps", "1", "--seed", "4"], "another corpus");
    assert!(run(&["--steps", "1"]).status.success());
    assert!(model != read("run/model.safetensors"), "it began at the first step");
}

#[cfg(unix)]
#[test]
fn interrupted_it_saves_and_goes_on() {
    let case = Case::new();
    let arguments: Vec<&str> =
        LONG.into_iter().filter(|a| *a != "400").chain(["4000", "--out", "run"]).collect();
    // --steps and its value are the last but two: put them together again.
    let mut arguments: Vec<&str> =
        arguments.into_iter().filter(|a| *a != "--steps" && *a != "4000").collect();
    arguments.extend(["--steps", "100000"]);
    let mut child = case.command().args(&arguments).stdout(Stdio::null()).spawn().unwrap();
    while !case.path("run/checkpoint.safetensors").exists() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(case.path("run/model.safetensors").exists() && case.path("run/curve.csv").exists());
    let steps = arguments.len() - 1;
    arguments[steps] = "0";
    let resumed = case.json(arguments.iter().copied().chain(["--resume"]));
    let step = resumed["resumed_at_step"].as_u64().unwrap();
    assert!(step > 0 && resumed["steps"].as_u64() == Some(step));
    assert!(!has_temporary_files(&case.path("run")));
    // The same as a run with that limit from the beginning.
    let (there, other) = (step.to_string(), arguments.len() - 3);
    (arguments[steps], arguments[other]) = (&there, "other");
    case.json(&arguments);
    let read = |name: &str| std::fs::read(case.path(name)).unwrap();
    assert!(read("run/model.safetensors") == read("other/model.safetensors"));
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_last_checkpoint_usable() {
    let case = Case::new();
    let run = |out: &str, steps: &str, blocks: Option<u64>| {
        let mut command = Command::new("bash");
        // A limit on the size of files; with the signal ignored, the write fails.
        let limit = blocks.map_or(String::new(), |b| format!("trap '' XFSZ; ulimit -f {b}; "));
        command.arg("-c").arg(format!("{limit}exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_byrote"));
        command.current_dir(case.path("")).args(small(&["--stop-relative-gap", "0", "--stall", "0"]));
        command.args(["--memory", "50", "--warmup", "1", "--checkpoint-every", "0", "--steps", steps]);
        command.args(["--out", out, "--resume"]).output().unwrap()
    };
    assert!(run("run", "10", None).status.success());
    let good = std::fs::read(case.path("run/checkpoint.safetensors")).unwrap();
    // Checkpoints grow with every pair that is kept: there is room for this one, not for one of twice as many.
    let blocks = good.len() as u64 / 1024 + 2;
    let full = run("run", "40", Some(blocks));
    assert_eq!(full.status.code(), Some(2), "{}", String::from_utf8_lossy(&full.stderr));
    let told = String::from_utf8_lossy(&full.stderr).into_owned();
    assert!(
        told.contains("could not save a checkpoint at step") && told.contains("checkpoint.safetensors"),
        "{told}"
    );
    assert!(!has_temporary_files(&case.path("run")));
    // The checkpoint on disk is complete and leads to the result of an undisturbed run.
    assert!(run("run", "40", None).status.success());
    assert!(run("other", "40", None).status.success());
    let read = |name: &str| std::fs::read(case.path(name)).unwrap();
    assert!(read("run/model.safetensors") == read("other/model.safetensors"));
}

#[test]
fn wrong_input_is_told_in_one_line() {
    let case = Case::new();
    assert!(case.run(small(&["--steps", "1", "--out", "run"])).status.success());
    case.file("broken.safetensors", &std::fs::read(case.path("run/model.safetensors")).unwrap()[..1000]);
    case.file("one.txt", "word\n");
    case.file("quagga.txt", "quagga quagga\n");
    case.file("plain", "");
    let model = "run/model.safetensors";
    let long = "a a a a a a a a a a";
    for (arguments, expected) in [
        (vec!["eval", "missing.safetensors"], "missing.safetensors"),
        (vec!["eval", "broken.safetensors"], "not a safetensors file"),
        (vec!["eval", "one.txt"], "not a safetensors file"),
        (vec!["eval", model, "quagga.txt"], "quagga"),
        (vec!["eval", model, "--builtin", "20", "--tokenizer", "char"], "tokens"),
        (vec!["eval", model, "--builtin", "20", "--n-ctx", "12"], "--n-ctx"),
        (vec!["eval", model, "--builtin", "20", "--tol", "nan"], "--tol"),
        (vec!["predict", model, "quagga"], "quagga"),
        (vec!["predict", model, ""], "contains no token"),
        (vec!["predict", model, long], "at most 9"),
        (vec!["predict", model, "99999", "--ids"], "out of range"),
        (vec!["predict", model, "x", "--ids"], "not a token id"),
        (vec!["predict", model, "--ids", "99999"], "--ids: "),
        (vec!["predict", model, "--ids", ""], "--ids: contains no token"),
        (vec!["predict", model, "--ids", "-1"], "--ids: "),
        (vec!["show", "."], "directory"),
        (vec!["train", "one.txt"], "no context"),
        (vec!["train", "--d-mlp", "0"], "--d-mlp"),
        (vec!["train", "--n-heads", "2"], "must be 1"),
        (vec!["train", "--preset", "gpt2", "--d-mlp", "0"], "--hidden absent leaves the layer out"),
        (vec!["train", "--preset", "llama", "--d-model", "1"], "--d-head: must be at least 2"),
        (
            vec!["train", "--preset", "averaging", "--n-heads", "5"],
            "--n-heads: has no effect with --mixer average",
        ),
        (vec!["train", "--builtin", "20", "--d-mlp", "100000000"], "GiB"),
        (vec!["train", "--builtin", "20", "--d-mlp", "18446744073709551615"], "must be from"),
        (vec!["train", "--builtin", "20", "--d-head", "1000000000"], "GiB"),
        (vec!["train", "--lr", "-1"], "--lr"),
        (vec!["train", "--lr", "nan"], "--lr"),
        (vec!["train", "--batch", "5"], "--batch"),
        (vec!["train", "--optimizer", "adam", "--memory", "5"], "--memory"),
        (vec!["train", "--stall", "2"], "--stall"),
        (vec!["train", "--resume"], "--out"),
        (vec!["train", "--init", model, "--d-mlp", "5"], "--init"),
        (vec!["train", "--builtin", "20", "--out", "plain"], "plain"),
        (
            vec!["train", "--builtin", "20", "--init", model, "--out", "run", "--resume", "--lr", "2"],
            "would replace the input",
        ),
        (vec!["train", "--builtin", "21", "--d-mlp", "24", "--out", "run", "--resume"], "another corpus"),
    ] {
        let output = case.run(&arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(expected) && told.trim().lines().count() == 1, "{arguments:?}: {told}");
    }
}

#[test]
fn ids_of_a_random_corpus_are_predicted_from() {
    let case = Case::new();
    let corpus = ["--random", "30", "--d-vocab", "12", "--lengths", "2..3", "--labels", "4", "--seed", "3"];
    let trained = case.json(["train", "--preset", "average", "--out", "run"].into_iter().chain(corpus));
    assert_eq!(trained["stop"], "reached", "a floor of zero: nats per prediction");
    assert_eq!(trained["floor_nats"].as_f64(), Some(0.0));
    assert_eq!(trained["memorized"], trained["contexts"]);
    let found = case.json(["eval", "run/model.safetensors"].into_iter().chain(corpus));
    assert_eq!(found["gap_nats"], trained["gap_nats"]);
    let next = case.json(["predict", "run/model.safetensors", "3 5", "--top", "4"]);
    assert_eq!(next["next"].as_array().unwrap().len(), 4);
    assert_eq!(next["texts"], serde_json::json!(["3", "5"]));
}

/// A Python with torch: BYROTE_PYTHON, or `python3`.
fn python_with_torch() -> Option<String> {
    let python = std::env::var("BYROTE_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import torch, safetensors, numpy"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        skipped("no Python with torch, safetensors and numpy (BYROTE_PYTHON names one)");
        return None;
    }
    Some(python)
}

/// Documents as token ids, as the peers read them.
fn documents(case: &Case, model: &str) -> String {
    let words = {
        let bytes = std::fs::read(case.path(model)).unwrap();
        let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[8..8 + size]).unwrap();
        let metadata: Value =
            serde_json::from_str(header["__metadata__"]["byrote"].as_str().unwrap()).unwrap();
        metadata["vocabulary"]["words"].as_array().unwrap().clone()
    };
    let written = case.run(["corpus", "--builtin", "40", "--write", "docs.txt", "--quiet"]);
    assert!(written.status.success());
    let text = std::fs::read_to_string(case.path("docs.txt")).unwrap();
    let mut all = Vec::new();
    for line in text.lines() {
        // Words and punctuation, apart.
        let mut tokens: Vec<String> = Vec::new();
        let mut class = ' ';
        for c in line.chars() {
            let new = if c.is_whitespace() {
                ' '
            } else if c.is_alphanumeric() || c == '_' {
                'w'
            } else {
                'p'
            };
            match (new, new == class) {
                (' ', _) => {}
                (_, true) => tokens.last_mut().unwrap().push(c),
                (_, false) => tokens.push(c.into()),
            }
            class = new;
        }
        if tokens.len() >= 10 {
            let id = |t: &String| words.iter().position(|w| w == t).unwrap();
            all.push(tokens.iter().take(10).map(id).collect::<Vec<_>>());
        }
    }
    serde_json::to_string(&all).unwrap()
}

#[test]
fn losses_are_those_of_pytorch_from_the_same_weights() {
    let Some(python) = python_with_torch() else { return };
    let case = Case::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for preset in ["madden2024-experiment", "dana2024", "dana2024-mlp"] {
        for (precision, tolerance) in [("f64", 1e-9), ("f32", 1e-4)] {
            let arguments = [
                "train",
                "--builtin",
                "40",
                "--exact-length",
                "--preset",
                preset,
                "--d-model",
                "8",
                "--optimizer",
                "adam",
                "--lr",
                "0.01",
                "--steps",
                "20",
                "--stop-relative-gap",
                "0",
                "--precision",
                precision,
                "--out",
                "run",
            ];
            case.json(arguments);
            case.file("docs.json", documents(&case, "run/init.safetensors"));
            let curve = std::fs::read_to_string(case.path("run/curve.csv")).unwrap();
            let ours: Vec<f64> =
                curve.lines().skip(1).map(|l| l.split(',').nth(2).unwrap().parse().unwrap()).collect();
            let script = root.join("benches/peers/torch_step.py");
            for mode in ["positions", "contexts", "tuned"] {
                let mut command = Command::new(&python);
                command.current_dir(case.path("")).arg(&script);
                command.args(["--docs", "docs.json", "--weights", "run/init.safetensors"]);
                command.args(["--steps", "20", "--lr", "0.01", "--mode", mode]);
                if precision == "f64" {
                    command.arg("--f64");
                }
                let output = command.output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
                let losses = theirs["losses"].as_array().unwrap();
                assert_eq!(losses.len(), 20);
                for (step, (a, b)) in ours.iter().zip(losses).enumerate() {
                    let b = b.as_f64().unwrap();
                    assert!(
                        (a - b).abs() < tolerance * b,
                        "{preset} {precision} {mode} step {step}: {a} {b}"
                    );
                }
            }
        }
    }
}
