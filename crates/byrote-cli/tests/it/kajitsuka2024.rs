//! `byrote build kajitsuka2024`, and `show`, `predict` and `eval` on what it writes; `byrote reproduce`.

use crate::Case;
use serde_json::Value;

fn error(case: &Case, arguments: &[&str]) -> String {
    let output = case.run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

const FIELDS: [&str; 21] = [
    "method",
    "parameters_dense",
    "parameters_dense_by_part",
    "counting",
    "memory",
    "seed",
    "parameters",
    "parameters_by_kind",
    "parameters_by_part",
    "contexts",
    "floor_nats",
    "memorized",
    "memorized_distribution",
    "accuracy",
    "seconds",
    "depth",
    "width",
    "largest_weight_bits",
    "total_bits",
    "information_bits",
    "retries",
];

/// A number below a million with a comma between its thousands.
fn grouped(number: &Value) -> String {
    match number.as_u64().unwrap() {
        n if n < 1000 => n.to_string(),
        n => format!("{},{:03}", n / 1000, n % 1000),
    }
}

fn sum(object: &Value) -> u64 {
    object.as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum()
}

#[test]
fn random_facts_are_built_written_shown_and_evaluated() {
    let case = Case::new();
    for method in ["bounded", "searched", "looped"] {
        let arguments = ["build", "kajitsuka2024", "--random", "400", "--method", method, "--tries", "2000"];
        let built = case.json(arguments.into_iter().chain(["--out", "m.byrote"]));
        for field in FIELDS {
            assert!(!built[field].is_null(), "{field} is missing in {built:#}");
        }
        assert_eq!((built["samples"].as_u64(), built["verified"].as_u64()), (Some(400), Some(400)));
        assert_eq!(built["memory"], method);
        assert_eq!(built["parameters"].as_u64(), Some(sum(&built["parameters_by_part"])));
        assert_eq!(built["parameters"].as_u64(), Some(sum(&built["parameters_by_kind"])));
        assert_eq!(built["parameters_dense"].as_u64(), Some(sum(&built["parameters_dense_by_part"])));
        assert_eq!(
            (built["counting"].as_str(), &built["parameters_by_part"]["label_table"]),
            (Some("nonzero"), &0.into())
        );
        assert_eq!(built["loss_nats"], 0.0);
        let shown = case.json(["show", "m.byrote"]);
        for field in
            ["parameters", "parameters_dense", "parameters_by_part", "depth", "width", "total_bits", "memory"]
        {
            assert_eq!(shown[field], built[field], "{field}");
        }
        let found = case.json(["eval", "m.byrote", "--random", "400"]);
        assert_eq!((found["memorized"].as_u64(), found["contexts"].as_u64()), (Some(400), Some(400)));
        assert_eq!(found["accuracy"], 1.0);
    }
    for command in [vec!["show", "m.byrote"], vec!["eval", "m.byrote", "--random", "400"]] {
        let output = case.run(command);
        assert!(output.status.success() && output.stdout.len() > 100);
    }
    // Text and JSON give the same totals.
    let json = case.json(["show", "m.byrote"]);
    let text = String::from_utf8(case.run(["show", "m.byrote"]).stdout).unwrap();
    let line = format!(
        "{} non-zero ({} counting zeros)",
        grouped(&json["parameters"]),
        grouped(&json["parameters_dense"])
    );
    assert!(text.contains(&line), "{line} in {text}");
    assert_eq!(case.names(), ["m.byrote"]);
}

#[test]
fn parameters_are_the_same_in_text_json_and_show() {
    let case = Case::new();
    let arguments = ["build", "kajitsuka2024", "--random", "300", "--out", "m.txt"];
    let text = String::from_utf8(case.run(arguments).stdout).unwrap();
    let json = case.json(arguments);
    let shown = String::from_utf8(case.run(["show", "m.txt"]).stdout).unwrap();
    let shown_json = case.json(["show", "m.txt"]);
    let (nonzero, dense) = (grouped(&json["parameters"]), grouped(&json["parameters_dense"]));
    assert!(text.contains(&format!("{nonzero} non-zero parameters ({dense} dense)")), "{text}");
    assert!(shown.contains(&format!("{nonzero} non-zero ({dense} counting zeros)")), "{shown}");
    for field in ["parameters", "parameters_dense", "parameters_by_part", "parameters_dense_by_part"] {
        assert_eq!(shown_json[field], json[field], "{field}");
    }
    // The table of stages adds up to both counts, in the text of both commands.
    for text in [text, shown] {
        let rows = text.lines().skip_while(|l| !l.starts_with("stage")).skip(1).take_while(|l| !l.is_empty());
        let number = |text: &str| text.replace(',', "").parse::<u64>().unwrap();
        let (mut first, mut second) = (0, 0);
        for row in rows {
            let cells: Vec<&str> = row.split_whitespace().collect();
            (first, second) = (first + number(cells[1]), second + number(cells[2]));
        }
        assert_eq!(
            (json["parameters"].as_u64(), json["parameters_dense"].as_u64()),
            (Some(first), Some(second))
        );
    }
}

#[test]
fn the_stories_are_memorized_and_the_network_speaks_words() {
    let case = Case::new();
    let built = case.json(["build", "kajitsuka2024", "--builtin", "100", "--out", "m", "--tries", "500"]);
    assert_eq!(built["verified"], built["contexts"]);
    assert!(built["contradictions"].as_u64().unwrap() > 0);
    assert!(
        built["parameters_by_part"]["label_table"].as_u64() > Some(0),
        "labels of a text become tokens by a table"
    );
    assert!(built["loss_nats"].is_null(), "a certain answer to an uncertain question has an infinite loss");
    let found = case.json(["eval", "m", "--builtin", "100"]);
    assert_eq!((&found["memorized"], &found["contexts"]), (&built["contexts"], &built["contexts"]));
    assert_eq!(found["memorized_distribution"], built["memorized_distribution"]);
    let said = case.json(["predict", "m", "Once upon a"]);
    assert_eq!((&said["next"][0]["text"], &said["next"][0]["answer"]), (&"time".into(), &"label".into()));
    assert!(error(&case, &["predict", "m", "zyzzyva"]).contains("never seen the token"));
    assert!(error(&case, &["predict", "m", ""]).contains("no token"));
    let long = ["Once"; 10].join(" ");
    assert!(error(&case, &["predict", "m", &long]).contains("at most 9"));
    assert!(error(&case, &["eval", "m", "--builtin", "100", "--n-ctx", "20"]).contains("at most 9"));
    // The kind of a model file is recognized by its content.
    let trained = case.run(["train", "--builtin", "20", "--steps", "0", "--out", "run"]);
    assert!(trained.status.success());
    assert!(case.run(["show", "run/model.safetensors"]).status.success());
}

#[test]
fn labelled_sequences_come_from_files_and_conflicts_are_errors() {
    let case = Case::new();
    let facts = "the cat\tnoun\nthe\tarticle\ncat the\tnonsense\nran\tverb\n";
    case.file("facts.tsv", facts);
    let built = case.json(["build", "kajitsuka2024", "--pairs", "facts.tsv", "--out", "m"]);
    assert_eq!((built["samples"].as_u64(), built["contradictions"].as_u64()), (Some(4), Some(0)));
    for (text, label) in [("the cat", "noun"), ("cat the", "nonsense"), ("ran", "verb")] {
        assert_eq!(case.json(["predict", "m", text])["next"][0]["text"], label);
    }
    assert_eq!(case.json(["eval", "m", "facts.tsv"])["accuracy"], 1.0);
    case.file("conflict.tsv", format!("{facts}ran\tnoun\n"));
    let message = error(&case, &["build", "kajitsuka2024", "--pairs", "conflict.tsv", "--out", "n"]);
    assert!(message.contains("conflict.tsv, line 5: a conflict"), "{message}");
    assert!(error(&case, &["eval", "m"]).contains("labelled sequences"));
    // Sequence to sequence, both ways, with ids.
    case.file(
        "tags.jsonl",
        "{\"sequence\": [5, 6, 5], \"label\": [\"a\", \"b\", \"c\"]}\n{\"sequence\": [6], \"label\": [1]}\n",
    );
    for attention in ["causal", "bidirectional"] {
        let arguments =
            ["build", "kajitsuka2024", "--pairs", "tags.jsonl", "--task", "s2s", "--attention", attention];
        let built = case.json(arguments.into_iter().chain(["--out", "s"]));
        assert_eq!(built["verified"].as_u64(), Some(4));
        let said = case.json(["predict", "s", "5 6 5"]);
        let texts: Vec<&str> =
            said["next"].as_array().unwrap().iter().map(|n| n["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["a", "b", "c"]);
        assert_eq!(case.json(["eval", "s", "tags.jsonl"])["accuracy"], 1.0);
    }
    assert_eq!(case.names(), ["conflict.tsv", "facts.tsv", "m", "s", "tags.jsonl"]);
}

#[test]
fn sequence_to_sequence_padding_and_other_switches_work_together() {
    let case = Case::new();
    let base = ["build", "kajitsuka2024", "--random", "60", "--tries", "200"];
    let of = |more: &[&'static str]| case.json(base.into_iter().chain(more.iter().copied()));
    let task = ["--lengths", "8..8", "--task", "s2s", "--attention", "bidirectional", "--out", "s2s"];
    let s2s = of(&task);
    assert_eq!((s2s["samples"].as_u64(), s2s["verified"].as_u64()), (Some(480), Some(480)));
    let found = case.json(["eval", "s2s", "--random", "60", "--lengths", "8..8"]);
    assert_eq!((found["contexts"].as_u64(), found["memorized"].as_u64()), (Some(480), Some(480)));
    // Sequences that it has not memorized.
    let other = case.json(["eval", "s2s", "--random", "60", "--lengths", "8..8", "--seed", "1"]);
    assert!(other["memorized"].as_u64() < Some(200), "{other}");
    assert!(error(&case, &["eval", "s2s", "--random", "60", "--d-vocab", "60"]).contains("never seen"));
    let padded = of(&["--pad", "--method", "bounded"]);
    let plain = of(&["--method", "bounded"]);
    assert!(padded["parameters_by_part"]["reduce"].as_u64() < plain["parameters_by_part"]["reduce"].as_u64());
    let steps = of(&["--method", "bounded", "--lookup", "steps", "--block", "60"]);
    assert!(steps["depth"].as_u64() > plain["depth"].as_u64());
    // One label: nothing to remember.
    let constant = of(&["--labels", "1"]);
    assert_eq!((constant["memory"].as_str(), constant["parameters"].as_u64()), (Some("constant"), Some(0)));
    // The same seed, the same bytes, whatever the threads.
    for (threads, name) in [("1", "a"), ("3", "b")] {
        of(&["--threads", threads, "--out", name]);
    }
    assert_eq!(std::fs::read(case.path("a")).unwrap(), std::fs::read(case.path("b")).unwrap());
}

#[test]
fn wrong_options_and_damaged_files_are_one_line() {
    let case = Case::new();
    case.file("empty.jsonl", "");
    let build = |more: &[&str]| {
        let arguments: Vec<&str> = ["build", "kajitsuka2024"].iter().chain(more).copied().collect();
        error(&case, &arguments)
    };
    for (arguments, says) in [
        (&["--random", "20", "--tries", "0"][..], "--tries: must be from 1 to"),
        (&["--random", "20", "--method", "bounded", "--block", "0"], "--block: must be at least 1 (got 0)"),
        (&["--random", "20", "--block", "3"], "--method"),
        (&["--random", "20", "--lookup", "steps", "--method", "searched"], "--lookup"),
        (&["--random", "20", "--task", "s2s", "--pad"], "padding changes nothing"),
        (&["--builtin", "20", "--task", "s2s"], "--task: a text has no labels"),
        (&["--pairs", "empty.jsonl"], "nothing to memorize"),
        (&["--pairs", "nowhere.tsv"], "cannot open nowhere.tsv"),
        (&["--random", "20", "--out", "no/where"], "cannot write no/where"),
        (&["--random", "20", "--method", "magic"], "magic"),
    ] {
        assert!(build(arguments).contains(says), "{}", build(arguments));
    }
    assert!(case.run(["build", "kajitsuka2024", "--random", "20", "--out", "m"]).status.success());
    let good = std::fs::read(case.path("m")).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    case.file("bad", &bad);
    case.file("short", &good[..good.len() / 2]);
    for command in ["show", "eval"] {
        assert!(error(&case, &[command, "bad"]).contains("damaged"));
        assert!(error(&case, &[command, "short"]).contains("cut short"));
    }
    // What needs tensors is refused with the reason.
    for (arguments, says) in [
        (&["certify", "m", "--random", "20"][..], "byrote eval"),
        (&["export", "m", "--to", "onnx", "--out", "m.onnx"], "no floating-point format"),
        (&["train", "--init", "m", "--random", "20"], "cannot be trained"),
    ] {
        let message = error(&case, arguments);
        assert!(message.contains("an exact network") && message.contains(says), "{message}");
    }
    assert!(error(&case, &["show", "nowhere"]).contains("cannot read nowhere"));
}

#[test]
fn figures_are_listed_and_drawn() {
    let case = Case::new();
    let listed = case.json(["reproduce"]);
    assert!(listed["figures"].as_array().unwrap().iter().any(|f| f["figure"] == "kajitsuka2024-scaling"));
    let planned = case.json(["reproduce", "kajitsuka2024-scaling", "--full", "--dry-run"]);
    assert_eq!(planned["samples"].as_array().unwrap().last().unwrap(), 100_000);
    assert!(case.run(["reproduce", "kajitsuka2024-fold", "--out", "f"]).status.success());
    let drawn = std::fs::read_to_string(case.path("f/fold.svg")).unwrap();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/img/fold.svg");
    assert!(drawn == std::fs::read_to_string(kept).unwrap(), "docs/img/fold.svg is drawn by this command");
    assert!(error(&case, &["reproduce", "nothing"]).contains("madden2024-fig1"));
}
