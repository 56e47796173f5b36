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

/// Writes a file into a directory of the case, which is created.
fn file_in(case: &Case, directory: &str, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(case.path(directory)).unwrap();
    case.file(&format!("{directory}/{name}"), bytes);
}

#[test]
fn directories_and_patterns_are_the_files_in_them() {
    let case = Case::new();
    file_in(&case, "data", "b.txt", "a b c\n");
    file_in(&case, "data", "a.txt", "a b d\n");
    file_in(&case, "data/sub", "c.text", "a b e\n");
    file_in(&case, "data/sub", ".hidden.txt", "x x x\n");
    file_in(&case, "data", "README.md", "not data\n");
    case.file("all.txt", "a b d\na b c\na b e\n");
    let all = corpus(&case, &["all.txt"]);
    for input in [&["data"][..], &["data/"], &["./data"], &["data/*.txt", "data/sub"], &["data/**/*.t*xt"]] {
        assert_eq!(corpus(&case, input), all, "{input:?}");
    }
    // In the byte order of paths: a.txt first.
    let first = corpus(&case, &["data", "--limit", "1", "--list", "list.csv"]);
    assert_eq!(first["documents"], 1);
    let list = std::fs::read_to_string(case.path("list.csv")).unwrap();
    assert!(list.contains("d") && !list.contains("\"\"c\"\""), "{list}");
    // A file that exists is taken literally.
    case.file("[ab].txt", "x y\n");
    case.file("a.txt", "a b c\n");
    assert_eq!(corpus(&case, &["[ab].txt"])["tokens"], 2);
    assert_eq!(corpus(&case, &["?.txt"])["tokens"], 3);
    // Every file, if the format is given.
    assert_eq!(corpus(&case, &["data", "--format", "text"])["documents"], 4);
    std::fs::create_dir(case.path("empty")).unwrap();
    file_in(&case, "other", "README.md", "not data\n");
    file_in(&case, "mixed", "a.txt", "a b\n");
    file_in(&case, "mixed", "b.bin", [0; 4]);
    for (arguments, says) in [
        (&["empty"][..], "empty: is a directory without files to read"),
        (&["empty", "--format", "text"], "empty: is a directory without files"),
        (&["other"], "other: is a directory without files to read"),
        (&["data/*.csv"], "data/*.csv: no file matches this pattern"),
        (&["nowhere/**"], "nowhere/**: no file matches this pattern"),
        (&["data/a**"], "not a pattern"),
        (&["mixed", "--documents", "file"], "count them separately"),
        (&["data", "--list", "data/a.txt"], "--list: data/a.txt would replace the input data/a.txt"),
        (&["data/*", "--list", "data/a.txt"], "would replace the input"),
    ] {
        refused(&case, arguments, says);
    }
    assert_eq!(std::fs::read_to_string(case.path("data/a.txt")).unwrap(), "a b d\n");
}

#[cfg(unix)]
#[test]
fn directories_that_cannot_be_read_are_named() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let case = Case::new();
    file_in(&case, "data", "a.txt", "a b c\n");
    symlink(case.path("data"), case.path("data/loop")).unwrap();
    refused(&case, &["data"], "data/loop: is a link that leads back to data");
    std::fs::remove_file(case.path("data/loop")).unwrap();
    symlink("nowhere", case.path("data/b.txt")).unwrap();
    refused(&case, &["data"], "data/b.txt");
    std::fs::remove_file(case.path("data/b.txt")).unwrap();
    std::fs::create_dir(case.path("data/secret")).unwrap();
    std::fs::set_permissions(case.path("data/secret"), PermissionsExt::from_mode(0o0)).unwrap();
    // The superuser can read it all the same.
    match std::fs::read_dir(case.path("data/secret")) {
        Err(_) => refused(&case, &["data"], "cannot read data/secret"),
        Ok(_) => crate::skipped("a directory that cannot be read; the superuser reads all of them"),
    }
    std::fs::set_permissions(case.path("data/secret"), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn a_field_may_be_within_an_object() {
    let case = Case::new();
    case.file("a.jsonl", "{\"meta\": {\"text\": \"a b c\", \"n\": 1}}\n{\"meta\": {\"text\": \"a b d\"}}\n");
    case.file(
        "dot.jsonl",
        "{\"meta\": {\"text\": \"x\"}, \"meta.text\": \"a b c\"}\n{\"meta.text\": \"a b d\"}\n",
    );
    case.file(
        "ids.jsonl",
        "{\"meta\": {\"ids\": [1, 2, 3]}}\n{\"meta\": null}\n{\"meta\": {\"ids\": [1, 2, 4]}}\n",
    );
    case.file("plain.txt", "a b c\na b d\n");
    let plain = corpus(&case, &["plain.txt"]);
    for name in ["a.jsonl", "dot.jsonl"] {
        assert_eq!(corpus(&case, &[name, "--field", "meta.text"]), plain, "{name}");
    }
    let ids = corpus(&case, &["ids.jsonl", "--field", "meta.ids"]);
    assert_eq!((&ids["documents"], &ids["dropped"]["empty"]), (&2.into(), &1.into()));
    assert_eq!((&ids["contexts"], &ids["tokenizer"]), (&plain["contexts"], &"ids".into()));
    for (field, says) in [
        ("meta.body", "no field \"meta.body\"; the record has meta.text, meta.n; choose one with --field"),
        ("meta", "a text or an array of token ids"),
        ("meta.text.more", "no field \"meta.text.more\""),
        ("meta.n", "a text or an array of token ids"),
    ] {
        refused(&case, &["a.jsonl", "--field", field], says);
    }
    case.file("cut.jsonl", "{\"meta\": {\"text\": \"a b c\"");
    refused(&case, &["cut.jsonl", "--field", "meta.text"], "EOF");
}

/// An index as Megatron-LM writes it.
fn index(code: u8, sizes: &[i32], pointers: &[i64], bounds: &[i64]) -> Vec<u8> {
    let mut bytes = [b"MMIDIDX\0\0", &1u64.to_le_bytes()[..], &[code]].concat();
    bytes.extend((sizes.len() as u64).to_le_bytes());
    bytes.extend((bounds.len() as u64).to_le_bytes());
    bytes.extend(sizes.iter().flat_map(|n| n.to_le_bytes()));
    bytes.extend(pointers.iter().chain(bounds).flat_map(|n| n.to_le_bytes()));
    bytes
}

#[test]
fn ids_with_an_index_are_documents() {
    let case = Case::new();
    let ids: Vec<u8> = [1u16, 2, 3, 1, 2, 4, 1, 2, 4, 9].iter().flat_map(|id| id.to_le_bytes()).collect();
    case.file("x.bin", &ids);
    // 1 2 3; nothing; 1 2 4 1, of two sequences; 2 4 9
    case.file("x.idx", index(8, &[3, 1, 3, 3], &[0, 6, 8, 14], &[0, 1, 1, 3, 4]));
    case.file(
        "same.jsonl",
        "{\"text\": [1,2,3]}\n{\"text\": []}\n{\"text\": [1,2,4,1]}\n{\"text\": [2,4,9]}\n",
    );
    let same = corpus(&case, &["same.jsonl"]);
    for input in ["x.bin", "x.idx", "x.*", "./x.idx"] {
        assert_eq!(corpus(&case, &[input]), same, "{input}");
    }
    assert_eq!(corpus(&case, &["x.bin", "x.idx"]), same, "as a shell expands x.*");
    let windows = ["--contexts", "windows", "--n-ctx", "2"];
    assert_eq!(
        corpus(&case, &[&["x.bin"], &windows[..]].concat()),
        corpus(&case, &[&["same.jsonl"], &windows[..]].concat())
    );
    for flag in
        [&["--dtype", "u16"][..], &["--separator-id", "3"], &["--documents", "file"], &["--split", "0..0.5"]]
    {
        refused(
            &case,
            &[&["x.bin"], flag].concat(),
            &format!("{}: does not apply to x.bin, which has an index: x.idx", flag[0]),
        );
    }
    // Lies, each in one line that names the index.
    let good = index(8, &[10], &[0], &[0, 1]);
    for (bytes, says) in [
        (Vec::new(), "not an index of ids"),
        (b"what?".to_vec(), "not an index of ids"),
        (vec![0; 100], "not an index of ids"),
        (good[..20].to_vec(), "cut short"),
        (good[..good.len() - 1].to_vec(), "but this one has 61"),
        ([&good[..18], &[255; 16], &good[34..]].concat(), "but this one has 62"),
        (index(7, &[10], &[0], &[0, 1]), "floating-point"),
        (index(8, &[11], &[0], &[0, 1]), "ends at byte 22, but x.bin has 20 bytes"),
        (index(8, &[i32::MAX], &[0], &[0, 1]), "but x.bin has 20 bytes"),
        (index(8, &[9], &[0], &[0, 1]), "ends at byte 18 of x.bin, which has 20 bytes"),
        (
            index(8, &[5, 5], &[0, 4], &[0, 2]),
            "sequence 1 starts at byte 4, but the one before ends at byte 10",
        ),
        (index(8, &[10], &[0], &[0, 7]), "document 1 ends before sequence 7"),
    ] {
        case.file("x.idx", bytes);
        refused(&case, &["x.bin"], says);
        refused(&case, &["x.bin"], "x.idx: ");
    }
    case.file("big.bin", (1u64 << 32).to_le_bytes());
    case.file("big.idx", index(5, &[1], &[0], &[0, 1]));
    refused(&case, &["big.bin"], "id number 0 is 4294967296");
    case.file("alone.idx", &good);
    refused(&case, &["alone.idx"], "alone.bin does not exist");
}

#[test]
fn arrow_streams_and_files_are_read() {
    let case = Case::new();
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/arrow");
    for name in ["stream", "file", "many-columns-file", "truncated", "lists", "empty"] {
        case.file(&format!("{name}.arrow"), std::fs::read(seeds.join(name)).unwrap());
    }
    case.file(
        "same.jsonl",
        "{\"text\":\"abab\"}\n{\"text\":\"abac\"}\n{\"text\":null}\n{\"text\":\"abb\"}\n".repeat(2),
    );
    let chars = ["--tokenizer", "char"];
    let same = corpus(&case, &[&["same.jsonl"], &chars[..]].concat());
    for name in ["stream.arrow", "file.arrow", "many-columns-file.arrow"] {
        assert_eq!(corpus(&case, &[&[name], &chars[..]].concat()), same, "{name}");
    }
    let nested = ["many-columns-file.arrow", "--field", "meta.text", "--tokenizer", "char"];
    assert_eq!(corpus(&case, &nested)["documents"], 4);
    assert_eq!(corpus(&case, &["lists.arrow", "--field", "ids"])["contexts"], same["contexts"]);
    let none = "no column \"text\"; the columns are ids; choose one with --field";
    refused(&case, &["lists.arrow"], none);
    refused(&case, &["truncated.arrow"], "truncated.arrow");
    refused(&case, &["empty.arrow"], "not an Arrow file or stream: it is empty");
    refused(&case, &["stream.arrow", "--documents", "line"], "each record of stream.arrow is a document");
}
