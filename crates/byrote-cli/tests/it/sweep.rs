//! `byrote sweep`.

use crate::Case;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Twelve jobs.
const PLAN: &str = r#"
name = "widths"
seeds = [0, 1]
[corpus]
documents = [10, 30]
[model]
preset = "average"
d_mlp = [4, 8, 40]
[training]
steps = 120
stop_relative_gap = 1e-6
stall = 0.0
"#;

fn results(case: &Case, directory: &str) -> String {
    std::fs::read_to_string(case.path(directory).join("results.csv")).unwrap()
}

fn start(case: &Case, arguments: &[&str]) -> Child {
    case.command().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until a condition holds; the limit is only there so that a bug does not hang.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lines(case: &Case, file: &str) -> usize {
    std::fs::read_to_string(case.path(file)).map_or(0, |t| t.lines().count())
}

#[test]
fn a_killed_sweep_goes_on_to_the_same_bytes() {
    let case = Case::new();
    case.file("plan.toml", PLAN);
    assert!(case.run(["sweep", "plan.toml", "--out", "whole", "--quiet"]).status.success());
    let whole = results(&case, "whole");
    assert_eq!(whole.lines().count(), 13);
    for threads in ["1", "2"] {
        let out = format!("cut{threads}");
        let arguments =
            ["sweep", "plan.toml", "--out", &out, "--threads", threads, "--checkpoint-every", "0", "--quiet"];
        // Killed several times: after some jobs have finished and while checkpoints are being written.
        for over in [1, 4, 8] {
            let mut child = start(&case, &arguments);
            let journal = format!("{out}/journal.jsonl");
            let done = || {
                let text = std::fs::read_to_string(case.path(&journal)).unwrap_or_default();
                text.lines().filter(|l| l.contains("\"over\"")).count()
            };
            wait_for("jobs are over", || done() >= over);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // A crash in the middle of a line.
        let journal = case.path(&out).join("journal.jsonl");
        let mut text = std::fs::read_to_string(&journal).unwrap();
        text.push_str("{\"event\":\"over\",\"ti");
        std::fs::write(&journal, text).unwrap();
        let output = case.run(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(results(&case, &out), whole, "{threads} threads");
        let left: Vec<_> = std::fs::read_dir(case.path(&out).join("checkpoints")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(std::fs::read_dir(case.path(&out).join("curves")).unwrap().count(), 12);
        // Once more: all jobs are done, and nothing changes.
        assert!(case.run(arguments).status.success());
        assert_eq!(results(&case, &out), whole);
    }
}

#[test]
fn a_second_process_is_told_who_is_at_work() {
    let case = Case::new();
    let slow = PLAN.replace("steps = 120", "steps = 100000000\noptimizer = \"adam\"");
    case.file("plan.toml", slow);
    let mut child = start(&case, &["sweep", "plan.toml", "--out", "run"]);
    wait_for("it has begun", || lines(&case, "run/journal.jsonl") > 0);
    let output = case.run(["sweep", "plan.toml", "--out", "run"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains(&format!("process {}", child.id())), "{message}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_job_that_fails_is_a_row_and_not_the_end() {
    let case = Case::new();
    // Attention alone has no neurons: a contradiction that shows when the job runs.
    let plan =
        "seeds = [0]\n[corpus]\ndocuments = 10\n[model]\npreset = [\"dana2024\", \"average\"]\nd_mlp = 64";
    case.file("plan.toml", plan);
    let output = case.run(["sweep", "plan.toml", "--out", "run", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["jobs"], &told["done"], &told["failed"]), (&2.into(), &1.into(), &1.into()));
    let csv = results(&case, "run");
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert!(rows[0].contains(",failed,") && rows[0].contains("without a hidden layer"), "{}", rows[0]);
    assert!(rows[1].contains(",done,"));
    let output = case.run(["sweep", "plan.toml", "--out", "fast", "--fail-fast", "--threads", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(results(&case, "fast").lines().count(), 2);
}

#[test]
fn another_plan_does_not_go_into_the_same_directory() {
    let case = Case::new();
    case.file("a.toml", "[corpus]\ndocuments = 5\n[model]\npreset = \"average\"\nd_mlp = 8");
    case.file("b.toml", "[corpus]\ndocuments = 6\n[model]\npreset = \"average\"\nd_mlp = 8");
    assert!(case.run(["sweep", "a.toml", "--out", "run"]).status.success());
    let before = results(&case, "run");
    let output = case.run(["sweep", "b.toml", "--out", "run"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("belongs to a different run"));
    assert_eq!(results(&case, "run"), before);
}

#[test]
fn plans_are_listed_and_mistakes_are_explained() {
    let case = Case::new();
    case.file("plan.toml", PLAN);
    let listed = case.json(["sweep", "plan.toml", "--dry-run"]);
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 12);
    assert!(listed["jobs"][0]["parameters"].as_u64().unwrap() > 0);
    assert!(listed["estimated_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(case.names(), ["plan.toml"]);
    case.file("bad.toml", "[model]\nd_mpl = 3");
    let output = case.run(["sweep", "bad.toml"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("bad.toml, line 2") && message.contains("d_mlp"), "{message}");
    assert_eq!(case.run(["sweep", "none.toml"]).status.code(), Some(2));
    for (text, says) in [
        ("", "the plan is empty"),
        ("# nothing\n", "the plan is empty"),
        ("name = \"mine\"\n[model]\n", "the plan is empty"),
        ("[model]\nd_mlp = [1000000000000]\n", "odd.toml, line 2: [model]"),
        ("name = \"../../evil\"\n[corpus]\ndocuments = 5\n", "name"),
        ("name = \"\"\n[corpus]\ndocuments = 5\n", "name"),
        ("[corpus]\ndocuments = 1000000000000\n", "must be at most"),
    ] {
        case.file("odd.toml", text);
        for more in [&["--dry-run"][..], &[]] {
            let output = case.run(["sweep", "odd.toml"].iter().chain(more));
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{text}: {message}");
            assert!(message.contains(says), "{text}: {message}");
        }
    }
    assert_eq!(case.names(), ["bad.toml", "odd.toml", "plan.toml"]);
}

#[test]
fn tables_fit_into_80_columns() {
    let case = Case::new();
    case.file("plan.toml", PLAN);
    for more in [&["--dry-run"][..], &[]] {
        let output = case.run(["sweep", "plan.toml", "--out", "run"].iter().chain(more));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.lines().count() > 12, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn an_edited_journal_is_detected() {
    let case = Case::new();
    case.file("plan.toml", "[corpus]\ndocuments = 5\n[model]\nd_mlp = 4\n[training]\nsteps = 7\n");
    assert!(case.run(["sweep", "plan.toml", "--out", "run", "--quiet"]).status.success());
    let text = std::fs::read_to_string(case.path("run/journal.jsonl")).unwrap();
    let edited = text.replace("\"steps\":7,\"evaluations\"", "\"steps\":8,\"evaluations\"");
    assert_ne!(text, edited, "{text}");
    case.file("run/journal.jsonl", edited);
    for command in ["report", "sweep"] {
        let arguments = if command == "report" {
            vec!["report", "run"]
        } else {
            vec!["sweep", "plan.toml", "--out", "run"]
        };
        let output = case.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("the checksum does not match"), "{command}");
    }
}

#[test]
fn losses_are_shown_per_prediction_first() {
    let case = Case::new();
    case.file(
        "plan.toml",
        "[corpus]\ndocuments = 10\n[model]\nd_mlp = [1, 8]\n[training]\nsteps = 3\nstall = 0.0\n",
    );
    let found = case.json(["sweep", "plan.toml", "--out", "run"]);
    let text = results(&case, "run");
    let head: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    // Columns keep their places: new ones come last.
    let last = ["loss_nats_per_prediction", "gap_nats_per_prediction", "accuracy_last_batches", "positions"];
    assert_eq!(head[head.len() - 9..head.len() - 5], last);
    assert_eq!(head[head.len() - 3..], ["n_layers", "norm", "tied"]);
    let column = |name: &str| head.iter().position(|h| *h == name).unwrap();
    for (line, row) in text.lines().skip(1).zip(found["rows"].as_array().unwrap()) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |name: &str| fields[column(name)].parse::<f64>().unwrap();
        for name in ["loss", "gap"] {
            let each = number(&format!("{name}_nats_per_prediction"));
            assert_eq!(each, number(&format!("{name}_nats")) / number("predictions"));
            assert_eq!(row[format!("{name}_nats_per_prediction")], each);
        }
    }
    let shown = String::from_utf8(case.run(["sweep", "plan.toml", "--out", "run"]).stdout).unwrap();
    assert!(shown.contains("gap / prediction") && shown.lines().all(|l| l.chars().count() <= 80), "{shown}");
    let curve = std::fs::read_dir(case.path("run/curves")).unwrap().next().unwrap().unwrap().path();
    assert!(std::fs::read_to_string(curve).unwrap().contains("gap_nats_per_prediction"));
}
