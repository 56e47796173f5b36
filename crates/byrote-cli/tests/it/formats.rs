//! What corpora look like: shards, directories, patterns, and files of other programs.

use crate::{Case, prose};
use serde_json::Value;

/// Runs a command that must fail in one line that contains `says`.
fn refused(case: &Case, arguments: &[&str], says: &str) {
    let output = case.run(["corpus"].iter().chain(arguments));
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
    assert!(message.contains(says), "{arguments:?}: {message}");
}

/// The figures of an input, as JSON.
fn corpus(case: &Case, arguments: &[&str]) -> Value {
    case.json(["corpus"].iter().chain(arguments))
}

#[test]
fn shards_of_any_input_merge_to_the_whole() {
    let case = Case::new();
    let lines = prose(3_001);
    case.file("all.txt", &lines);
    case.file("more.txt", "\n\nshort\nw1 w2 w3\n\n");
    // Longer than a slab, so that it comes in parts.
    case.file("long.txt", format!("{}\n{lines}", "word, ".repeat(1_500_000)));
    let json: Vec<Value> =
        lines.lines().map(|line| serde_json::json!({"n": {"m": line}, "text": line})).collect();
    let json: String = json.iter().map(|record| format!("{record}\n\n")).collect();
    case.file("all.jsonl", json);
    let ids: Vec<u8> = (0..10_007u16).flat_map(|i| (i % 97).to_le_bytes()).collect();
    case.file("ids.bin", ids);
    for (i, input) in [
        &["all.txt", "more.txt", "--exact-length", "--eos"][..],
        &["long.txt", "--n-ctx", "4"],
        &["all.jsonl"],
        &["ids.bin", "--separator-id", "3"],
        &["ids.bin", "--documents", "chunk:7"],
        &["all.txt", "more.txt", "--documents", "chunk:7", "--n-ctx", "5"],
        &["more.txt", "all.txt", "--max-memory", "1M"],
        &["--builtin", "500"],
    ]
    .into_iter()
    .enumerate()
    {
        let whole = corpus(&case, &[input, &["--save", "whole.summary"]].concat());
        let mut names = Vec::new();
        let mut documents = Vec::new();
        for shard in ["1/3", "2/3", "3/3"] {
            let name = format!("{i}-{}.summary", &shard[..1]);
            let threads = &shard[..1];
            let more = ["--shard", shard, "--save", &name, "--threads", threads];
            documents.push(corpus(&case, &[input, &more].concat())["documents"].as_u64().unwrap());
            names.push(name);
        }
        let merge: Vec<&str> = names.iter().map(String::as_str).collect();
        let merged = corpus(&case, &[&["--save", "merged.summary", "--merge"], &merge[..]].concat());
        assert_eq!(merged, whole, "{input:?}");
        let bytes = |name: &str| std::fs::read(case.path(name)).unwrap();
        assert_eq!(bytes("merged.summary"), bytes("whole.summary"), "{input:?}");
        assert!(documents.iter().all(|&n| n > 0), "{input:?}: {documents:?}");
    }
}

#[test]
fn a_shard_takes_documents_in_turn_before_any_filter() {
    let case = Case::new();
    case.file("a.txt", "a b c\n\nd e f\nd e g\nx\n");
    let of = |more: &[&str]| corpus(&case, &[&["a.txt", "--n-ctx", "2"], more].concat());
    let second = of(&["--shard", "2/2"]);
    assert_eq!((&second["documents"], &second["dropped"]["empty"]), (&1.into(), &1.into()));
    let first = of(&["--shard", "1/2"]);
    assert_eq!((&first["documents"], &first["tokens"]), (&3.into(), &7.into()));
    assert_eq!(of(&["--shard", "1/2", "--limit", "2"])["tokens"], 6);
    assert_eq!(of(&["--shard", "1/1"]), of(&[]));
    // The windows of some of the documents.
    let windows = ["--contexts", "windows", "--shard", "1/2"];
    assert_eq!(of(&windows)["tokens"], 7);
    let refuse = |more: &[&str], says: &str| refused(&case, &[&["a.txt"], more].concat(), says);
    for wrong in ["0/2", "3/2", "2", "a/b"] {
        refuse(&["--shard", wrong], "--shard");
        refuse(&["--shard", wrong], "is not a part such as 2/8");
    }
    refuse(&[&windows[..], &["--join"]].concat(), "--shard: cannot be combined with --join");
    refuse(&[&windows[..], &["--save", "a.summary"]].concat(), "divide the windows with --range");
    refused(&case, &["--merge", "a.summary", "--shard", "1/2"], "--shard: does not apply to --merge");
    // A shard without documents may be saved, but is nothing to count.
    refuse(&["--shard", "8/8"], "no documents");
    assert_eq!(of(&["--shard", "8/8", "--save", "empty.summary"])["documents"], 0);
}
