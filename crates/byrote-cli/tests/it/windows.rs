//! `--contexts windows`: the floor of real training.

use crate::{Case, names, prose};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;

/// The windows of every line, each as a line of its own.
fn written_out(text: &str, n_ctx: usize, exact: bool) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        for start in 0..line.len() {
            let end = line.len().min(start + n_ctx + 1);
            if end - start == n_ctx + 1 || !exact {
                lines += &line[start..end];
                lines.push('\n');
            }
        }
    }
    lines
}

/// Fields that describe the text, or that only windows have.
fn without_the_text(mut json: Value) -> Value {
    let object = json.as_object_mut().unwrap();
    let own =
        ["windows", "window_tokens", "stride", "distinct_windows", "joined", "token_entropy_nats", "curve"];
    let repeats = ["repeats", "longest_repeat", "longest_repeats", "shortest_unique"];
    for name in
        ["documents", "tokens", "tokens_left_out", "window", "dropped"].iter().chain(&own).chain(&repeats)
    {
        object.remove(*name);
    }
    json
}

#[test]
fn windows_have_the_figures_of_documents_that_are_windows() {
    let case = Case::new();
    let text = names(300);
    case.file("text.txt", &text);
    for (n_ctx, exact) in [(3, true), (3, false), (7, true), (30, false)] {
        case.file("windows.txt", written_out(&text, n_ctx, exact));
        let n = n_ctx.to_string();
        let common = ["--tokenizer", "char", "--n-ctx", &n];
        let exact_length = if exact { &["--exact-length"][..] } else { &[] };
        let windows =
            ["corpus", "text.txt", "--contexts", "windows"].iter().chain(&common).chain(exact_length);
        let documents = ["corpus", "windows.txt"].iter().chain(&common);
        let (found, expect) = (case.json(windows), case.json(documents));
        assert_eq!(found["windows"], expect["documents"]);
        assert_eq!(found["window_tokens"], expect["tokens"]);
        assert_eq!(found["tokens"], text.lines().map(str::len).sum::<usize>());
        assert_eq!(without_the_text(found), without_the_text(expect));
    }
}

#[test]
fn one_stream_has_as_many_full_windows_as_starts_that_leave_room() {
    let case = Case::new();
    case.file("text.txt", "abracadabra");
    let ids: Vec<u8> = "abracadabra".bytes().flat_map(|b| u16::from(b).to_le_bytes()).collect();
    case.file("ids.bin", ids);
    let common = ["--contexts", "windows", "--exact-length", "--n-ctx", "3"];
    let of_text = ["corpus", "text.txt", "--documents", "file", "--tokenizer", "char"];
    let json = case.json(of_text.iter().chain(&common));
    assert_eq!((&json["windows"], &json["contexts"]), (&8.into(), &19.into()));
    let floor = 4.0 * 4f64.ln() - 2.0 * 2f64.ln();
    assert!((json["floor_nats"].as_f64().unwrap() - floor).abs() < 1e-14);
    // Ids are one document if nothing else is said; documents that are joined are one too.
    let mut ids = case.json(["corpus", "ids.bin"].iter().chain(&common));
    assert_eq!(ids["by_length"], json["by_length"]);
    case.file("parts.txt", "abra\ncad\nabra\n");
    let joined = ["corpus", "parts.txt", "--tokenizer", "char", "--join"];
    ids = case.json(joined.iter().chain(&common));
    assert_eq!((&ids["by_length"], &ids["joined"]), (&json["by_length"], &true.into()));
    // Half of the characters; blocks; every other token.
    let half = case.json(of_text.iter().chain(&common).chain(&["--split", "0..0.5"]));
    assert_eq!((&half["tokens"], &half["windows"]), (&5.into(), &2.into()));
    let every = case.json(of_text.iter().chain(&common).chain(&["--stride", "2"]));
    assert_eq!((&every["windows"], &every["stride"]), (&4.into(), &2.into()));
    let blocks = ["corpus", "text.txt", "--documents", "chunk:4", "--tokenizer", "char"];
    let blocks = case.json(blocks.iter().chain(&common));
    assert_eq!((&blocks["documents"], &blocks["windows"]), (&3.into(), &2.into()));
}

#[test]
fn ranges_add_up_to_the_whole_and_only_to_it() {
    let case = Case::new();
    case.file("text.txt", prose(40));
    let mut arguments = vec!["corpus", "text.txt", "--contexts", "windows", "--n-ctx", "20"];
    for (tokenizer, exact) in [("char", true), ("wordpunct", false)] {
        arguments.truncate(6);
        arguments.extend(["--tokenizer", tokenizer]);
        arguments.extend(exact.then_some("--exact-length"));
        let whole = case.json(&arguments);
        for i in 1..=3 {
            let (part, file) = (format!("{i}/3"), format!("{i}.range"));
            let more = ["--range", &part, "--save", &file];
            let json = case.json(arguments.iter().chain(&more));
            assert_eq!(json["range"], part);
        }
        assert_eq!(case.json(["corpus", "--merge", "3.range", "1.range", "2.range"]), whole);
        let again = case.path("2.range");
        let bytes = std::fs::read(&again).unwrap();
        let more = ["--range", "2/3", "--save", "2.range", "--threads", "1"];
        case.json(arguments.iter().chain(&more));
        assert_eq!(std::fs::read(&again).unwrap(), bytes, "threads do not change a file");
        for (files, message) in [
            (&["1.range", "2.range"][..], "part 3/3 is missing"),
            (&["1.range", "2.range", "2.range", "3.range"], "both are part 2/3"),
        ] {
            let output = case.run(["corpus", "--merge"].iter().chain(files));
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2));
            assert!(error.contains(message), "{error}");
        }
    }
    case.json([
        "corpus",
        "text.txt",
        "--contexts",
        "windows",
        "--n-ctx",
        "19",
        "--range",
        "2/3",
        "--save",
        "2.range",
    ]);
    let output = case.run(["corpus", "--merge", "1.range", "2.range", "3.range"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("their settings differ"));
    let cut = std::fs::read(case.path("1.range")).unwrap();
    case.file("1.range", &cut[..cut.len() / 2]);
    let output = case.run(["corpus", "--merge", "1.range", "2.range", "3.range"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
}

#[test]
fn a_loss_is_compared_with_the_floor() {
    let case = Case::new();
    case.file("text.txt", "abracadabra".repeat(20));
    let text = ["corpus", "text.txt", "--documents", "file", "--tokenizer", "char", "--contexts", "windows"];
    let more = ["--exact-length", "--n-ctx", "3"];
    let arguments: Vec<&str> = text.into_iter().chain(more).collect();
    let loss = &case.json(arguments.iter().chain(&["--loss", "1.5"]))["loss"];
    let floor = loss["floor_nats_per_prediction"].as_f64().unwrap();
    assert!((loss["gap_nats_per_prediction"].as_f64().unwrap() - (1.5 - floor)).abs() < 1e-15);
    assert_eq!(loss["is_below_floor"], false);
    assert_eq!(loss["equivalent_n_ctx"], Value::Null);
    let loss = &case.json(arguments.iter().chain(&["--loss", "0.01"]))["loss"];
    assert_eq!((&loss["is_below_floor"], &loss["equivalent_n_ctx"]), (&true.into(), &3.into()));
    let loss = &case.json(arguments.iter().chain(&["--loss", "2,1,0"]))["loss"];
    assert_eq!(loss["by_position"][2]["is_below_floor"], true);
    assert_eq!(loss["by_position"][0]["is_below_floor"], false);
    assert_eq!(loss["loss_nats_per_prediction"], 1.0);
    let table = case.run(arguments.iter().chain(&["--loss", "1.5"]));
    assert!(String::from_utf8(table.stdout).unwrap().contains("unmemorized"));
}

#[test]
fn models_work_on_windows_that_are_drawn() {
    let case = Case::new();
    case.file("text.txt", names(400).replace('\n', " "));
    let windows = ["--contexts", "windows", "--exact-length", "--windows", "40"];
    let train =
        ["train", "text.txt", "--documents", "file", "--tokenizer", "char", "--n-ctx", "6", "--d-mlp", "8"];
    let trained = case.json(train.iter().chain(&windows).chain(&["--steps", "20", "--out", "run"]));
    let sample = &trained["window_sample"];
    assert_eq!(sample["windows"], 40);
    assert_eq!(sample["floor_nats_per_prediction"], trained["floor_nats_per_prediction"]);
    let all = [
        "corpus",
        "text.txt",
        "--documents",
        "file",
        "--tokenizer",
        "char",
        "--n-ctx",
        "6",
        "--exact-length",
    ];
    let all = case.json(all.iter().chain(&["--contexts", "windows"]));
    assert_eq!(sample["floor_nats_per_prediction_of_all"], all["floor_nats_per_prediction"]);
    assert_eq!(sample["of"], all["windows"]);
    let eval = ["eval", "run/model.safetensors", "text.txt", "--documents", "file"];
    let found = case.json(eval.iter().chain(&windows));
    assert_eq!((&found["loss_nats"], &found["contexts"]), (&trained["loss_nats"], &trained["contexts"]));
    for length in found["by_length"].as_array().unwrap() {
        let number = |field: &str| length[field].as_f64().unwrap();
        assert!(number("gap_nats") >= 0.0, "{length}");
        assert!(number("loss_nats_per_prediction") >= number("floor_nats_per_prediction"), "{length}");
        let sum = number("floor_nats") + number("gap_nats");
        assert!((number("loss_nats") - sum).abs() <= 1e-12 * sum, "{length}");
    }
    // The model knows every token of the text, so it can be evaluated on other windows of it, and on all.
    for seed in ["1", "2", "3", "4"] {
        let other = case.json(eval.iter().chain(&windows).chain(&["--seed", seed]));
        assert_ne!(other["floor_nats"], found["floor_nats"]);
    }
    let every = case.json(eval.iter().chain(&windows[..3]).chain(&["--windows", "1000000"]));
    assert_eq!(every["predictions"], all["predictions"]);
    let built =
        ["build", "madden2024", "text.txt", "--documents", "file", "--tokenizer", "char", "--n-ctx", "6"];
    let built = case.json(built.iter().chain(&windows));
    assert_eq!((&built["memorized"], &built["window_sample"]), (&built["contexts"], sample));
}

#[test]
fn settings_that_have_no_windows_are_refused_in_one_line() {
    let case = Case::new();
    case.file("text.txt", "ab\ncd\n");
    case.file("one.txt", "a");
    case.file("empty.txt", "");
    let windows = ["--contexts", "windows"];
    for (arguments, message) in [
        (&["corpus", "text.txt", "--stride", "2"][..], "applies only to windows"),
        (&["corpus", "text.txt", "--join"], "applies only to windows"),
        (&["corpus", "text.txt", "--contexts", "windows", "--stride", "0"], "must be at least 1"),
        (
            &["corpus", "text.txt", "--contexts", "windows", "--n-ctx", "4294967295"],
            "must be at most 4294967293",
        ),
        (&["corpus", "text.txt", "--contexts", "windows", "--range", "1/2"], "needs --save"),
        (&["corpus", "text.txt", "--contexts", "windows", "--range", "3/2"], "not a part"),
        (&["corpus", "text.txt", "--contexts", "windows", "--split", "0.9..0.1"], "is empty"),
        (&["corpus", "one.txt", "--contexts", "windows", "--exact-length"], "the text has 1"),
        (&["corpus", "text.txt", "--contexts", "windows", "--exact-length"], "longest of 2 documents has 1"),
        (&["corpus", "empty.txt", "--contexts", "windows"], "the input is empty"),
        (&["corpus", "--random", "5", "--contexts", "windows"], "no windows"),
        (&["corpus", "text.txt", "--contexts", "windows", "--windows", "5"], "that --list writes"),
        (
            &["corpus", "text.txt", "--contexts", "windows", "--shard", "1/2", "--save", "a.summary"],
            "divide the windows with --range",
        ),
    ] {
        let output = case.run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    case.file("blank.txt", "  \n");
    let output = case.run(["corpus", "blank.txt", "--documents", "file"].iter().chain(&windows));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no windows: the text has no tokens"));
    let one = case.json(["corpus", "one.txt"].iter().chain(&windows));
    assert_eq!((&one["windows"], &one["contexts"]), (&1.into(), &0.into()));
}

#[test]
fn any_ids_may_be_in_a_text() {
    let case = Case::new();
    // The codes of ends of documents and of tokens are others than the ids, whatever these are.
    let renamed = |ids: [u32; 3]| [0, 1, 2, 0, 1, 0, 0, 2].map(|i: usize| ids[i]);
    let same = renamed([7, 8, 9]).map(|id| format!("{id}")).join(",");
    case.file("same.jsonl", format!("{{\"text\": [{same}]}}\n"));
    let more = ["--contexts", "windows", "--n-ctx", "3"];
    let expect = case.json(["corpus", "same.jsonl"].iter().chain(&more))["by_length"].clone();
    for ids in [[0, 254, 255], [0, 1, 0xffff], [0xffff, 0xfffe, 0], [u32::MAX, 0, 0x10000]] {
        let listed = renamed(ids).map(|id| format!("{id}")).join(",");
        case.file("ids.jsonl", format!("{{\"text\": [{listed}]}}\n"));
        assert_eq!(case.json(["corpus", "ids.jsonl"].iter().chain(&more))["by_length"], expect, "{ids:?}");
    }
    // A separator inside of ids ends a document, and no window has it.
    case.file("ids.bin", [1u16, 2, 0, 1, 2].map(u16::to_le_bytes).concat());
    let found = case.json(["corpus", "ids.bin", "--separator-id", "0"].iter().chain(&more));
    assert_eq!(
        (&found["documents"], &found["d_vocab"], &found["windows"]),
        (&2.into(), &2.into(), &4.into())
    );
    case.file("large.jsonl", "{\"text\": [1, 4294967296]}\n");
    let output = case.run(["corpus", "large.jsonl"].iter().chain(&more));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.contains("4294967296"), "{error}");
}

#[test]
fn a_study_of_windows_says_which_it_used() {
    let case = Case::new();
    case.file("text.txt", prose(300));
    let text = ["study", "text.txt", "--documents", "file", "--contexts", "windows", "--exact-length"];
    let output = case.run(text.iter().chain(&["--n-ctx", "12", "--quick", "--out", "study"]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("its own window") && shown.contains("windows, drawn at random"), "{shown}");
    let page = std::fs::read_to_string(case.path("study/report.html")).unwrap();
    assert!(page.contains("floor-by-window") && page.contains("occur more than once"));
}

#[test]
fn listed_windows_leave_the_figures_those_of_all() {
    let case = Case::new();
    case.file("text.txt", "the cat sat on the mat and the cat ran after the rat on the mat");
    let how = ["--documents", "file", "--contexts", "windows", "--n-ctx", "3"];
    let plain = case.json([&["corpus", "text.txt"], &how[..]].concat());
    let listed = [&["corpus", "text.txt"], &how[..], &["--windows", "4", "--list", "some.csv"]].concat();
    let mut with_list = case.json(listed);
    let sample = with_list.as_object_mut().unwrap().remove("window_sample").unwrap();
    assert_eq!(with_list, plain);
    assert_eq!((sample["windows"].as_u64(), &sample["of"]), (Some(4), &plain["windows"]));
    let rows = std::fs::read_to_string(case.path("some.csv")).unwrap().lines().count() as u64;
    assert!(rows > 1 && rows <= 4 * 3 + 1, "{rows} rows");
}

#[test]
fn what_says_nothing_is_said_plainly() {
    let case = Case::new();
    case.file("one.txt", "a");
    let output = case.run(["corpus", "one.txt", "--documents", "file", "--contexts", "windows"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("nothing is predicted") && !text.contains("By position"), "{text}");
    case.file("ids.bin", [1, 0, 2, 0, 1, 0]);
    let note = |id| String::from_utf8(case.run(["corpus", "ids.bin", "--separator-id", id]).stderr).unwrap();
    let hint = "hint: the id 9 does not occur, so every file is one document; check --separator-id\n";
    assert_eq!((note("9").as_str(), note("2").as_str()), (hint, ""));
    let output = case.run(["corpus", "--builtin", "20", "--loss", "1e300"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("e301 bytes unmemorized"), "{text}");
}

/// The figures that an independent program found, to all digits of a double.
#[test]
fn real_texts_have_their_published_figures_where_they_are() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("windows_of_real_texts.json")).unwrap();
    for expected in cases {
        // For example "shakespeare char train90 full stride 257".
        let name: Vec<&str> = expected["name"].as_str().unwrap().split(' ').collect();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        let text = data.join(name[0]).with_extension("txt");
        if !text.exists() {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: the windows of {} (it is not in ../shared/data)",
                name[0]
            );
            continue;
        }
        let n_ctx = expected["n_ctx"].to_string();
        let mut arguments = vec!["corpus", text.to_str().unwrap(), "--tokenizer", name[1], "--n-ctx", &n_ctx];
        arguments.extend(["--contexts", "windows"]);
        let says = |word: &str| name.contains(&word);
        for (applies, more) in [
            (!says("lines"), &["--documents", "file"][..]),
            (says("train90"), &["--split", "0..0.9"]),
            (says("full"), &["--exact-length"]),
            (says("stride"), &["--stride", name[name.len() - 1]]),
        ] {
            arguments.extend(more.iter().filter(|_| applies));
        }
        for memory in [&[][..], &["--max-memory", "4M"]] {
            let found = Case::new().json(arguments.iter().chain(memory));
            let floor =
                |figures: &Value| figures["floor_nats"].to_string().trim_matches('"').parse::<f64>().unwrap();
            let (is, should) = (floor(&found), floor(&expected));
            assert!((is - should).abs() <= f64::EPSILON * should, "{arguments:?}: floor {is}, not {should}");
            for (figure, value) in expected.as_object().unwrap() {
                if !["name", "floor_nats"].contains(&figure.as_str()) {
                    assert_eq!(found[figure], *value, "{figure} of {arguments:?} {memory:?}");
                }
            }
        }
    }
}
