//! `byrote corpus`.

use crate::{Case, names, prose};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;

const TEXT: &str = "abab\nabac\nabb\n";

#[test]
fn the_worked_example_comes_out_as_json_csv_and_table() {
    let case = Case::new();
    let path = case.file("three.txt", TEXT);
    let arguments = ["corpus", path.to_str().unwrap(), "--tokenizer", "char", "--n-ctx", "3"];
    let json = case.json(arguments);
    for (field, value) in
        [("documents", 3), ("tokens", 11), ("d_vocab", 3), ("n_ctx", 3), ("contexts", 3), ("predictions", 8)]
    {
        assert_eq!(json[field], value, "{field}");
    }
    assert_eq!(json["deterministic_contexts"], 1);
    let floor = json["floor_nats"].as_f64().unwrap();
    assert!((floor - 3.295_836_866_004_329).abs() < 1e-15);
    assert_eq!(json["floor_nats_per_prediction"].as_f64().unwrap(), floor / 8.0);
    assert_eq!(json["floor_bits_per_prediction"].as_f64().unwrap(), floor / 8.0 / std::f64::consts::LN_2);
    assert_eq!(json["by_length"][1]["contexts"], 1);
    assert_eq!(json["coverage"][6]["epsilon"], 0.0);
    assert_eq!(json["coverage"][6]["contexts"], 3);

    let csv = case.run(arguments.iter().chain(&["--csv"]));
    let csv = String::from_utf8(csv.stdout).unwrap();
    let heads = "length,contexts,predictions,floor_nats,floor_nats_per_prediction,pairs,deterministic_contexts,\
                 deterministic_predictions,once\n";
    assert!(csv.starts_with(&format!("{heads}1,1,3,0,0,1,1,3,0\n")), "{csv}");
    assert!(csv.contains("\nall,3,8,3.29"), "{csv}");
    let table = String::from_utf8(case.run(arguments).stdout).unwrap();
    assert!(table.contains("contexts") && table.contains("3.2958"), "{table}");
}

#[test]
fn the_figures_of_a_list_of_names_are_those_of_a_plain_count() {
    let case = Case::new();
    let text = names(3000);
    case.file("names.txt", &text);
    // Prefixes of at most 15 letters, each with the letters that follow it.
    let mut next: BTreeMap<&str, BTreeMap<char, u64>> = BTreeMap::new();
    for name in text.lines() {
        for (t, letter) in name.char_indices().skip(1) {
            *next.entry(&name[..t]).or_default().entry(letter).or_default() += 1;
        }
    }
    let k_ln_k = |k: u64| k as f64 * (k as f64).ln();
    let count = |letters: &BTreeMap<char, u64>| letters.values().sum::<u64>();
    let floor: f64 =
        next.values().map(|l| k_ln_k(count(l)) - l.values().map(|&k| k_ln_k(k)).sum::<f64>()).sum();
    for threads in ["1", "2"] {
        let arguments = ["corpus", "names.txt", "--tokenizer", "char", "--n-ctx", "15"];
        let json = case.json(arguments.iter().chain(&["--threads", threads]));
        assert_eq!(json["documents"], 3000);
        assert_eq!(json["contexts"], next.len());
        assert_eq!(json["predictions"], next.values().map(count).sum::<u64>());
        assert_eq!(json["deterministic_contexts"], next.values().filter(|l| l.len() == 1).count());
        let found = json["floor_nats"].as_f64().unwrap();
        assert!((found / floor - 1.0).abs() < 1e-12, "{found} {floor}");
    }
}

#[test]
fn tokens_beyond_the_window_are_counted_and_reported() {
    let case = Case::new();
    case.file("a.txt", "abcdefgh\nabc\nabcde\n");
    let chars = ["--tokenizer", "char", "--n-ctx", "3"];
    let read = |more: &[&str]| case.json(["corpus", "a.txt"].iter().chain(&chars).chain(more));
    assert_eq!(read(&[])["tokens_left_out"], 5);
    assert_eq!(read(&["--bos"])["tokens_left_out"], 7);
    assert_eq!(read(&["--limit", "1"])["tokens_left_out"], 4);
    assert_eq!(read(&["--documents", "file"])["tokens_left_out"], 15);
    let table = case.run(["corpus", "a.txt"].iter().chain(&chars));
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("left out: 5 tokens beyond the window"), "{table}");
    // In shards, merged, and out of core; then ids.
    let text = prose(20_000);
    case.file("all.txt", &text);
    let lines: Vec<&str> = text.lines().collect();
    let mut shards = Vec::new();
    for (i, part) in lines.chunks(7_000).enumerate() {
        case.file("part.txt", part.join("\n"));
        shards.push(format!("{i}.summary"));
        case.json(["corpus", "part.txt", "--n-ctx", "4", "--save", &shards[i]]);
    }
    let whole = case.json(["corpus", "all.txt", "--n-ctx", "4"]);
    assert_eq!(whole["tokens_left_out"], 20_000 * 7);
    let merge = ["corpus", "--merge"].into_iter().chain(shards.iter().map(String::as_str));
    assert_eq!(case.json(merge), whole);
    assert_eq!(case.json(["corpus", "all.txt", "--n-ctx", "4", "--max-memory", "1M"]), whole);
    let ids: Vec<u8> = (0..1000u16).flat_map(u16::to_le_bytes).collect();
    case.file("ids.bin", ids);
    let chunks = case.json(["corpus", "ids.bin", "--documents", "chunk:100", "--n-ctx", "9"]);
    assert_eq!((&chunks["tokens"], &chunks["tokens_left_out"]), (&100.into(), &900.into()));
}

#[test]
fn a_summary_of_an_older_format_is_refused_with_its_number() {
    let case = Case::new();
    case.file("old.summary", b"byrote\0\x01and more");
    let output = case.run(["corpus", "--merge", "old.summary"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("format 1; this version reads format 2"), "{message}");
}

#[test]
fn a_list_of_words_without_contexts_comes_with_a_hint() {
    let case = Case::new();
    case.file("names.txt", "emma\nolivia\n");
    let hint = |more: &[&str]| {
        let output = case.run(["corpus", "names.txt"].iter().chain(more));
        String::from_utf8_lossy(&output.stderr).contains("try --tokenizer char")
    };
    assert!(hint(&[]) && hint(&["--json"]));
    assert!(!hint(&["--quiet"]) && !hint(&["--tokenizer", "char"]));
}

#[test]
fn the_built_in_corpus_is_like_the_papers() {
    let case = Case::new();
    let json = case.json(["corpus", "--exact-length", "--n-ctx", "9", "--tokenizer", "wordpunct"]);
    assert_eq!(json["documents"], 1000);
    let (contexts, tokens) = (json["contexts"].as_u64().unwrap(), json["d_vocab"].as_u64().unwrap());
    assert!((2_000..=3_500).contains(&contexts), "{contexts}");
    assert!((300..=900).contains(&tokens), "{tokens}");
    assert_eq!(case.json(["corpus", "--builtin", "1000", "--exact-length"]), json);
    assert_ne!(case.json(["corpus", "--exact-length", "--seed", "1"]), json);
}

#[test]
fn stories_written_out_count_as_stories_made() {
    let case = Case::new();
    let written = case.json(["corpus", "--builtin", "5000", "--write", "stories.txt", "--seed", "7"]);
    let mut made = case.json(["corpus", "--builtin", "5000", "--seed", "7"]);
    made["written"] = written["written"].clone();
    assert_eq!(written, made);
    let text = std::fs::read_to_string(case.path("stories.txt")).unwrap();
    assert_eq!(text.lines().count(), 5000);
    assert_eq!(written["written"]["bytes"], text.len());
    let mut read = case.json(["corpus", "stories.txt"]);
    read["written"] = written["written"].clone();
    assert_eq!(read, made);
    assert_eq!(case.names(), ["stories.txt"]);
}

#[test]
fn standard_input_is_read() {
    let case = Case::new();
    let mut child = case
        .command()
        .args(["corpus", "-", "--tokenizer", "char", "--n-ctx", "3", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(TEXT.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["contexts"], &json["predictions"]), (&3.into(), &8.into()));
}

#[test]
fn shards_merge_to_the_whole() {
    let case = Case::new();
    case.json(["corpus", "--builtin", "300", "--write", "all.txt"]);
    let text = std::fs::read_to_string(case.path("all.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (i, part) in lines.chunks(77).enumerate() {
        let name = format!("{i}.txt");
        case.file(&name, part.join("\n"));
        case.json(["corpus", &name, "--eos", "--save", &format!("{i}.summary")]);
    }
    let whole = case.json(["corpus", "all.txt", "--eos", "--save", "all.summary"]);
    let shards = ["0.summary", "1.summary", "2.summary", "3.summary"];
    let merged = case.json(["corpus", "--save", "merged.summary", "--merge"].iter().chain(&shards));
    assert_eq!(merged, whole);
    // A merged summary is the summary of the whole, byte by byte.
    let bytes = |name: &str| std::fs::read(case.path(name)).unwrap();
    assert_eq!(bytes("merged.summary"), bytes("all.summary"));
    let list = |source: &[&str], name: &str| {
        case.json(["corpus", "--list", name].iter().chain(source));
        std::fs::read_to_string(case.path(name)).unwrap()
    };
    assert_eq!(list(&["--merge", "all.summary"], "a.csv"), list(&["all.txt", "--eos"], "b.csv"));
}

#[test]
fn parts_of_a_merge_add_up_to_the_merge() {
    let case = Case::new();
    let common = ["corpus", "--builtin", "300", "--eos", "--bos"];
    for i in ["1", "2", "3"] {
        let (shard, file) = (format!("{i}/3"), format!("{i}.summary"));
        case.json(common.iter().copied().chain(["--shard", &shard, "--save", &file]));
    }
    let merge = ["corpus", "--merge", "1.summary", "2.summary", "3.summary"];
    for i in ["1", "2", "3", "4"] {
        let (range, file) = (format!("{i}/4"), format!("{i}.part"));
        let part = case.json(merge.iter().copied().chain(["--range", &range, "--save", &file]));
        assert_eq!(part["range"], range);
    }
    let parts = ["corpus", "--merge", "4.part", "1.part", "2.part", "3.part"];
    assert_eq!(case.json(parts), case.json(common));
    let shown = case.run(merge.iter().copied().chain(["--range", "2/4", "--save", "2.part"]));
    assert!(String::from_utf8(shown.stdout).unwrap().contains("part 2/4 of them"));
    for (arguments, message) in [
        (&["corpus", "--merge", "1.part", "2.part", "3.part"][..], "part 4/4 is missing"),
        (&["corpus", "--merge", "1.summary", "--range", "1/2"], "--range: needs --save"),
        (&["corpus", "--merge", "1.part", "--range", "1/2", "--save", "x"], "are parts already"),
    ] {
        let output = case.run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn more_summaries_than_are_open_at_a_time_merge() {
    let case = Case::new();
    let names: Vec<String> = (0..150).map(|i| format!("{i}.summary")).collect();
    let mut text = String::new();
    for (i, name) in names.iter().enumerate() {
        let line = format!("a b{} c\n", i % 7);
        text += &line;
        case.file("one.txt", &line);
        case.json(["corpus", "one.txt", "--save", name]);
    }
    case.file("all.txt", text);
    let merged = case.json(["corpus", "--merge"].iter().copied().chain(names.iter().map(String::as_str)));
    assert_eq!(merged, case.json(["corpus", "all.txt"]));
}

#[test]
fn the_list_names_every_context_and_marks_contradictions() {
    let case = Case::new();
    let path = case.file("three.txt", TEXT);
    case.json([
        "corpus",
        path.to_str().unwrap(),
        "--tokenizer",
        "char",
        "--n-ctx",
        "3",
        "--list",
        "list.csv",
    ]);
    let list = std::fs::read_to_string(case.path("list.csv")).unwrap();
    let expect = "length,context,count,distinct_next,contradiction,next\n\
                  1,\"a\",3,1,no,\"[[\"\"b\"\",3]]\"\n\
                  2,\"ab\",3,2,yes,\"[[\"\"a\"\",2],[\"\"b\"\",1]]\"\n\
                  3,\"aba\",2,2,yes,\"[[\"\"b\"\",1],[\"\"c\"\",1]]\"\n";
    assert_eq!(list, expect);
}

#[test]
fn the_figures_do_not_depend_on_threads_or_memory() {
    let case = Case::new();
    case.json(["corpus", "--builtin", "40000", "--write", "stories.txt"]);
    let run = |arguments: &[&str]| {
        let output = case.run(["corpus", "stories.txt", "--json"].iter().chain(arguments));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let one = run(&["--threads", "1"]);
    assert_eq!(run(&["--threads", "2"]), one);
    assert_eq!(run(&["--threads", "3", "--max-memory", "1M"]), one);
}

#[test]
fn random_associations_need_no_file() {
    let case = Case::new();
    let json =
        case.json(["corpus", "--random", "200", "--d-vocab", "30", "--lengths", "2..3", "--labels", "4"]);
    assert_eq!((&json["contexts"], &json["n_ctx"]), (&200.into(), &3.into()));
    assert_eq!(json["deterministic_contexts"], 200);
    assert!(json["labels"].as_u64().unwrap() <= 4);
    let too_many = case.run(["corpus", "--random", "200", "--d-vocab", "3", "--lengths", "2..3"]);
    assert_eq!(too_many.status.code(), Some(2));
}

#[test]
fn completions_are_printed_for_every_shell() {
    let case = Case::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = case.run(["completions", shell]);
        assert!(output.status.success() && output.stdout.len() > 1000, "{shell}");
    }
    let object = case.json(["completions", "bash"]);
    assert!(object["script"].as_str().unwrap().contains("byrote"));
}

#[test]
fn help_and_version_are_no_errors() {
    let case = Case::new();
    for arguments in [&["--help"][..], &["--version"], &["corpus", "--help"], &["bounds", "--help"]] {
        let output = case.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let case = Case::new();
    let mut child = case.command().args(["corpus", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_floor_of_every_length_is_given_per_prediction() {
    let case = Case::new();
    case.file("a.txt", "a b c\na b d\na c d\n");
    let found = case.json(["corpus", "a.txt"]);
    for row in found["by_length"].as_array().unwrap() {
        let number = |name: &str| row[name].as_f64().unwrap();
        assert_eq!(
            number("floor_nats_per_prediction"),
            number("floor_nats") / number("predictions"),
            "{row}"
        );
    }
}
