//! Every wrong input a user can make: exit code 2, one clear line, no partial output, nothing left behind.

use crate::{Case, skipped};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Runs a command that must fail, checks all of that and returns the message.
fn refused(case: &Case, arguments: &[&str], says: &str) -> String {
    let before = case.names();
    let all = ["corpus", "--save", "out.summary", "--list", "out.csv"];
    let output = case.run(all.iter().chain(arguments));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
    assert!(message.starts_with("byrote: ") && message.contains(says), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty());
    assert_eq!(case.names(), before, "{arguments:?} left something behind");
    // The same as JSON: one object on standard output, with the same message.
    let output = case.run(all.iter().chain(arguments).chain(&["--json"]));
    assert_eq!(output.status.code(), Some(2));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["error"]["message"].as_str().unwrap().contains(says), "{json}");
    for field in ["kind", "path", "line"] {
        assert!(json["error"].get(field).is_some(), "{field}");
    }
    assert_eq!(case.names(), before);
    message
}

#[test]
fn wrong_inputs_end_in_one_clear_line() {
    let case = Case::new();
    case.file("text.txt", "abab\nabac\n");
    case.file("bad.txt", b"ok\nab\xffcd\n");
    case.file("not.parquet", "this is no Parquet file at all");
    case.file("a.jsonl", "{\"text\": \"a b c\"}\n{\"text\": \"a b\"}\n");
    case.file("big.jsonl", "{\"text\": [1, 2]}\n{\"text\": [4294967296]}\n");
    case.file("bad.json", "{\"model\": 3}");
    case.file("cut.txt.gz", b"\x1f\x8b\x08\x00\x00");
    case.file("not.summary", "what?");
    case.file("flat.bin", [0u8; 8]);
    std::fs::create_dir(case.path("folder")).unwrap();
    for (arguments, says) in [
        (&["missing.txt"][..], "missing.txt"),
        (&["folder"], "directory"),
        (&["not.parquet"], "not a Parquet file"),
        (&["a.jsonl", "--field", "body"], "no field \"body\""),
        (&["big.jsonl"], "4294967296"),
        (&["text.txt", "--tokenizer", "bad.json"], "not a tokenizer.json"),
        (&["text.txt", "--tokenizer", "missing.json"], "missing.json"),
        (&["text.txt", "--n-ctx", "0"], "--n-ctx: must be at least 1 (got 0)"),
        (&["text.txt", "--n-ctx", "-1"], "--n-ctx"),
        (&["text.txt", "--n-ctx", "4294967295"], "--n-ctx"),
        (&["bad.txt"], "line 2: invalid UTF-8 at byte 5"),
        (&["cut.txt.gz"], "cut.txt.gz"),
        (&["--merge", "not.summary"], "not a shard summary"),
        (&["--merge", "missing.summary"], "missing.summary"),
        (&["flat.bin"], "--separator-id"),
        (&["text.txt", "--documents", "sentence"], "sentence"),
        (&["text.txt", "--max-memory", "lots"], "lots"),
        (&["text.txt", "--threads", "0"], "--threads"),
        (&["text.txt", "--temp-dir", "nowhere"], "nowhere"),
        (&["text.txt", "--builtin", "3"], "--builtin"),
        (&["text.txt", "--no-such-flag"], "--no-such-flag"),
        (&["text.txt", "--limit", "0"], "--limit"),
        (&["text.txt", "--lengths", "1..3"], "--lengths: does not apply to files"),
        (&["text.txt", "--labels", "3"], "--labels"),
        (&["text.txt", "--d-vocab", "3"], "--d-vocab"),
        (&["text.txt", "--dtype", "u32"], "--dtype"),
        (&["text.txt", "--separator-id", "3"], "--separator-id"),
        (&["--builtin", "5", "--documents", "file"], "--documents: does not apply to the built-in stories"),
        (&["--random", "5", "--tokenizer", "char"], "--tokenizer: does not apply to --random"),
        (&["--random", "1000000000000"], "--random"),
        (&["text.txt", "--list", "text.txt"], "--list"),
    ] {
        refused(&case, arguments, says);
    }
}

#[test]
fn a_corpus_without_documents_leaves_no_list() {
    let case = Case::new();
    case.file("text.txt", "abab\nabac\n");
    for arguments in [&["--exact-length", "--n-ctx", "50"][..], &["--n-ctx", "3", "--exact-length"]] {
        let output = case.run(["corpus", "text.txt", "--list", "out.csv"].iter().chain(arguments));
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("no documents"));
    }
    assert_eq!(case.names(), ["text.txt"]);
}

#[test]
fn a_summary_keeps_its_own_settings() {
    let case = Case::new();
    case.file("a.txt", "a b c\n");
    case.json(["corpus", "a.txt", "--save", "a.summary"]);
    for flag in [&["--n-ctx", "7"][..], &["--tokenizer", "char"], &["--limit", "1"], &["--bos"]] {
        refused(&case, &[&["--merge", "a.summary"], flag].concat(), flag[0]);
    }
}

#[test]
fn outputs_do_not_overwrite_each_other() {
    let case = Case::new();
    case.file("a.txt", "a b c\n");
    let output = case.run(["corpus", "a.txt", "--save", "same", "--list", "same"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(case.names(), ["a.txt"]);
}

#[cfg(unix)]
#[test]
fn a_list_goes_through_a_redirected_standard_output() {
    let case = Case::new();
    case.file("a.txt", "a b c\n");
    let script = "\"$0\" corpus a.txt --list /dev/stdout --quiet > out.txt && test -e /dev/stdout";
    let status = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_byrote")])
        .current_dir(case.path("."))
        .status()
        .unwrap();
    assert!(status.success());
    let text = std::fs::read_to_string(case.path("out.txt")).unwrap();
    assert!(text.contains("documents"), "{text}");
    assert_eq!(case.names(), ["a.txt", "out.txt"]);
}

#[test]
fn an_empty_file_says_so_but_an_empty_shard_may_be_saved() {
    let case = Case::new();
    case.file("empty.txt", "");
    let output = case.run(["corpus", "empty.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "byrote: no documents: the input is empty\n");
    let json = case.json(["corpus", "empty.txt", "--save", "empty.summary"]);
    assert_eq!((&json["documents"], &json["floor_nats_per_prediction"]), (&0.into(), &Value::Null));
    case.file("full.txt", "a b c\n");
    let full = case.json(["corpus", "full.txt", "--save", "full.summary"]);
    assert_eq!(case.json(["corpus", "--merge", "empty.summary", "full.summary"]), full);
}

#[test]
fn one_token_alone_is_a_corpus_without_contexts() {
    let case = Case::new();
    case.file("one.txt", "a");
    let json = case.json(["corpus", "one.txt"]);
    assert_eq!((&json["documents"], &json["contexts"], &json["d_vocab"]), (&1.into(), &0.into(), &1.into()));
    let table = case.run(["corpus", "one.txt"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("nothing is predicted"));
    assert!(case.run(["bounds", "one.txt"]).status.success());
}

#[test]
fn summaries_of_different_settings_do_not_merge() {
    let case = Case::new();
    case.file("a.txt", "a b c\n");
    case.json(["corpus", "a.txt", "--save", "a.summary"]);
    case.json(["corpus", "a.txt", "--save", "b.summary", "--n-ctx", "5"]);
    case.json(["corpus", "a.txt", "--save", "c.summary", "--tokenizer", "char"]);
    refused(&case, &["--merge", "a.summary", "b.summary"], "--n-ctx is 9 in one and 5 in the other");
    refused(&case, &["--merge", "a.summary", "c.summary"], "--tokenizer");
    let mut bytes = std::fs::read(case.path("a.summary")).unwrap();
    let last = bytes.len() - 6;
    bytes[last] ^= 1;
    case.file("damaged.summary", &bytes);
    refused(&case, &["--merge", "damaged.summary"], "damaged.summary");
    case.file("cut.summary", &bytes[..last]);
    refused(&case, &["--merge", "cut.summary"], "cut.summary");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_work() {
    let case = Case::new();
    case.file("a.txt", "a b c\n");
    std::fs::create_dir(case.path("folder")).unwrap();
    for target in ["folder", "no/such/place"] {
        for flag in ["--save", "--list"] {
            let output = case.run(["corpus", "a.txt", flag, target]);
            assert_eq!(output.status.code(), Some(2));
            assert!(String::from_utf8_lossy(&output.stderr).contains(target));
        }
    }
    assert_eq!(case.names(), ["a.txt", "folder"]);
}

/// Runs the program with a limit on the size of files, which acts like a full disk and needs no privileges.
#[cfg(unix)]
fn limited(case: &Case, kilobytes: u32, arguments: &str) -> std::process::Output {
    let script = format!("trap '' XFSZ; ulimit -f {kilobytes} && exec \"$0\" {arguments}");
    Command::new("bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_byrote")])
        .current_dir(case.path("."))
        .env("TMPDIR", case.path("."))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_loses_nothing() {
    let case = Case::new();
    case.json(["corpus", "--builtin", "60000", "--write", "stories.txt"]);
    let spilling = limited(&case, 100, "corpus stories.txt --max-memory 1M --list out.csv");
    let message = String::from_utf8_lossy(&spilling.stderr);
    assert_eq!(spilling.status.code(), Some(2), "{message}");
    assert!(message.lines().count() == 1 && message.contains("temporary file"), "{message}");
    for arguments in ["--list out.csv", "--save out.summary"] {
        let output = limited(&case, 100, &format!("corpus stories.txt {arguments}"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    let writing = limited(&case, 100, "corpus --builtin 60000 --write again.txt");
    assert_eq!(writing.status.code(), Some(2));
    let message = String::from_utf8_lossy(&writing.stderr);
    assert!(message.contains("again.txt: ") && !message.contains(".byrote-"), "{message}");
    assert_eq!(case.names(), ["stories.txt"]);
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new();
    let path = case.file("secret.txt", "a b c\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        skipped("this user may read everything");
        return;
    }
    refused(&case, &["secret.txt"], "secret.txt");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_with_130_and_leaves_nothing() {
    let case = Case::new();
    let mut child = case
        .command()
        .args(["corpus", "-", "--max-memory", "1M", "--save", "out.summary"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // An endless stream of words: the program must end even while it waits for more.
    let mut input = child.stdin.take().unwrap();
    let (reading, is_reading) = std::sync::mpsc::channel();
    let feeder = std::thread::spawn(move || {
        let line = "once upon a time there was a story without an end\n".repeat(1000);
        for round in 0.. {
            if std::io::Write::write_all(&mut input, line.as_bytes()).is_err() {
                break;
            }
            // More than a pipe can hold has been written, so the program is reading and handles signals.
            if round == 40 {
                reading.send(()).unwrap();
            }
        }
    });
    is_reading.recv().unwrap();
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let status = child.wait().unwrap();
    feeder.join().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(case.names().is_empty(), "{:?}", case.names());
}

#[test]
fn settings_are_refused_before_a_corpus_is_read() {
    let case = Case::new();
    assert!(
        case.run(["train", "--builtin", "5", "--steps", "0", "--out", "run", "--quiet"]).status.success()
    );
    let model = "run/model.safetensors";
    for (arguments, says) in [
        (&["corpus", "none.txt", "--n-ctx", "0"][..], "--n-ctx"),
        (&["bounds", "none.txt", "--d-model", "0"], "--d-model"),
        (&["bounds", "none.txt", "--plot", "a.txt"], "--plot"),
        (&["train", "none.txt", "--d-mlp", "0"], "--d-mlp"),
        (&["train", "none.txt", "--lr", "-1"], "--lr"),
        (&["train", "none.txt", "--lr", "-1e-300"], "--lr: must be"),
        (&["rank", "--scale", "1e300"], "--scale: must be at most 4096"),
        (&["train", "none.txt", "--tol", "-1"], "--tol"),
        (&["train", "none.txt", "--checkpoint-every", "-1"], "--checkpoint-every"),
        (&["eval", model, "none.txt", "--tol", "nan"], "--tol"),
        (&["eval", model, "none.txt", "--n-ctx", "1000"], "--n-ctx"),
        (&["build", "madden2024", "none.txt", "--gap", "0"], "--gap"),
        (&["build", "madden2024", "none.txt", "--tol", "-1"], "--tol"),
        (&["build", "dana2024", "none.txt", "--d-model", "0"], "--d-model"),
        (&["study", "none.txt", "--n-ctx", "0"], "--n-ctx"),
    ] {
        let output = case.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(says) && !message.contains("none.txt"), "{arguments:?}: {message}");
    }
}

#[test]
fn no_output_replaces_an_input() {
    let case = Case::new();
    let text = "a b c\na b d\nb c a\n";
    case.file("a.txt", text);
    case.file("orbit.csv", "1,0\n0,1\n1,0\n0,1\n");
    case.file("plan.toml", "[corpus]\npath = \"a.txt\"\n[model]\nd_mlp = 4\n[training]\nsteps = 1\n");
    std::fs::hard_link(case.path("a.txt"), case.path("hard.txt")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(case.path("a.txt"), case.path("soft.txt")).unwrap();
    let trained = case.run(["train", "a.txt", "--d-mlp", "4", "--steps", "1", "--out", "run", "--quiet"]);
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
    let model = "run/model.safetensors";
    let bytes = std::fs::read(case.path(model)).unwrap();
    for arguments in [
        &["build", "madden2024", "a.txt", "--out", "a.txt"][..],
        &["build", "madden2024", "a.txt", "--out", "hard.txt"],
        #[cfg(unix)]
        &["build", "dana2024", "a.txt", "--out", "soft.txt"],
        &["build", "kajitsuka2024", "a.txt", "--out", "./a.txt"],
        &["corpus", "a.txt", "--save", "a.txt"],
        &["corpus", "a.txt", "--list", "hard.txt"],
        &["bounds", "a.txt", "--list", "a.txt"],
        &["study", "a.txt", "--quick", "--list", "a.txt"],
        &["study", "a.txt", "--quick", "--out", "a.txt"],
        &["train", "a.txt", "--out", "a.txt"],
        &["train", "a.txt", "--init", model, "--out", "run"],
        &["eval", model, "a.txt", "--save", model],
        &["certify", model, "a.txt", "--list", model],
        &["predict", model, "a b", "a.txt", "--save", model],
        &["export", model, "--to", "onnx", "--out", model],
        &["incontext", "--file", "orbit.csv", "--csv", "orbit.csv"],
        &["sweep", "plan.toml", "--out", "plan.toml"],
        &["sweep", "plan.toml", "--out", "a.txt"],
    ] {
        let output = case.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains("would replace the input"), "{arguments:?}: {message}");
    }
    assert_eq!(std::fs::read_to_string(case.path("a.txt")).unwrap(), text);
    assert_eq!(std::fs::read(case.path(model)).unwrap(), bytes);
}

#[cfg(unix)]
#[test]
fn control_characters_of_file_names_are_escaped() {
    let case = Case::new();
    let name = "a\u{1b}[31m.txt";
    case.file(name, "a b c\na b d\n");
    for arguments in [
        &["corpus", name][..],
        &["bounds", name],
        &["corpus", name, "--list", "l\u{1b}.csv"],
        &["show", name],
    ] {
        let output = case.run(arguments);
        let all = [output.stdout, output.stderr].concat();
        assert!(!all.contains(&0x1b), "{arguments:?}: {}", String::from_utf8_lossy(&all));
        assert!(String::from_utf8_lossy(&all).contains("\\u{1b}"), "{arguments:?}");
    }
}

#[test]
fn tokens_beyond_the_window_are_counted() {
    let case = Case::new();
    case.file("a.txt", "a".repeat(1000));
    let arguments = ["corpus", "a.txt", "--tokenizer", "char", "--n-ctx", "256", "--documents", "file"];
    assert_eq!(case.json(arguments)["tokens_left_out"], 743);
    let text = String::from_utf8_lossy(&case.run(arguments).stdout).into_owned();
    assert!(text.contains("left out: 743 tokens beyond the window"), "{text}");
    assert!(text.contains("that sees only the preceding tokens of its own document"), "{text}");
}

#[test]
fn a_list_of_words_is_met_with_a_hint() {
    let case = Case::new();
    case.file("words.txt", "anna\nhanna\njohanna\n");
    case.file("one.txt", "anna\n");
    for [command, file] in
        [["corpus", "words.txt"], ["bounds", "words.txt"], ["corpus", "one.txt"], ["bounds", "one.txt"]]
    {
        let output = case.run([command, file]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && message.contains("hint: ") && message.contains("--tokenizer char"),
            "{message}"
        );
    }
}

#[test]
fn every_builder_meets_a_single_word_with_a_hint() {
    let case = Case::new();
    case.file("one.txt", "anna\n");
    for paper in ["madden2024", "dana2024", "kajitsuka2024"] {
        let output = case.run(["build", paper, "one.txt"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{paper}: {message}");
        assert!(
            message.contains("if every document is a single word, --tokenizer char"),
            "{paper}: {message}"
        );
    }
}

#[test]
fn values_are_refused_in_plain_words() {
    let case = Case::new();
    for (arguments, says) in [
        (&["corpus", "--builtin", "5", "--n-ctx", "two"][..], "expected a whole number of at least 0"),
        (&["train", "--builtin", "5", "--lr", "fast"], "expected a number"),
        (&["train", "--builtin", "5", "--lr", "inf"], "--lr: must be finite and above 0 (got inf)"),
        (
            &["train", "--builtin", "5", "--warmup-lr", "inf"],
            "--warmup-lr: must be finite and above 0 (got inf)",
        ),
        (
            &["train", "--builtin", "5", "--warmup-batches", "4"],
            "--warmup-batches: must be 1 for a model that is not made of blocks",
        ),
    ] {
        let output = case.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(says), "{arguments:?}: {message}");
    }
}

#[test]
fn a_missing_file_of_a_plan_is_reported_with_the_plan() {
    let case = Case::new();
    case.file("plan.toml", "[corpus]\npaths = \"none.txt\"\n[model]\nd_mlp = 4\n");
    let output = case.run(["sweep", "plan.toml", "--out", "new"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("plan.toml: [corpus] ") && message.contains("none.txt"), "{message}");
}

#[test]
fn a_token_that_the_initial_model_does_not_know_names_init() {
    let case = Case::new();
    case.file("a.txt", "a c a\nc a c\n");
    case.file("b.txt", "a b a\n");
    let made = case.run(["train", "a.txt", "--d-mlp", "4", "--steps", "0", "--out", "run", "--quiet"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let output = case.run(["train", "b.txt", "--init", "run/model.safetensors"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--init: has never seen the token \"b\""), "{message}");
}

#[test]
fn one_of_a_kind_is_not_plural() {
    let case = Case::new();
    case.file("a.txt", "a a a\n");
    let output = case.run(["bounds", "a.txt"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("a.txt: 2 contexts, 1 token, longest context 2"), "{text}");
    let output = case.run(["train", "a.txt", "--d-mlp", "4", "--steps", "0", "--quiet"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains(" 1 evaluations"), "{text}");
}

#[test]
fn no_result_replaces_one_of_another_kind() {
    let case = Case::new();
    case.file("a.txt", "the cat sat\nthe dog ran\nthe cat ran\n");
    case.file("plan.toml", "[corpus]\npath = \"a.txt\"\n[model]\nd_mlp = 4\n[training]\nsteps = 1\n");
    let sweep = &["sweep", "plan.toml", "--out"][..];
    let train = &["train", "a.txt", "--d-mlp", "4", "--steps", "1", "--out"][..];
    let study = &["study", "a.txt", "--quick", "--out"][..];
    let figure = &["reproduce", "sander2024-fig3", "--out"][..];
    for (kind, arguments) in [("sweep", sweep), ("train", train), ("study", study), ("figure", figure)] {
        let made = case.run(arguments.iter().chain(&[kind, "--quiet"]));
        assert!(made.status.success(), "{kind}: {}", String::from_utf8_lossy(&made.stderr));
    }
    let pages =
        || ["sweep", "study", "figure"].map(|d| std::fs::read(case.path(d).join("report.html")).unwrap());
    let before = (case.names(), pages());
    for (arguments, own) in [(sweep, "sweep"), (train, "train"), (study, "study"), (figure, "figure")] {
        for (directory, says) in [
            ("sweep", "holds a sweep; choose another directory"),
            ("train", "holds a training run; choose another directory"),
            ("study", "holds a study; choose another directory"),
            ("figure", "holds the report of something else; choose another directory"),
        ] {
            if directory == own {
                continue;
            }
            let output = case.run(arguments.iter().chain(&[directory]));
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{arguments:?} {directory}: {message}");
            assert_eq!(message, format!("byrote: --out: {directory} {says}\n"));
        }
    }
    assert!((case.names(), pages()) == before, "something was replaced");
}

#[test]
fn a_directory_that_cannot_be_used_is_refused_before_the_corpus_is_read() {
    let case = Case::new();
    case.file("n.txt", "a file\n");
    case.file("plan.toml", "[corpus]\npath = \"none.txt\"\n[model]\nd_mlp = 4\n[training]\nsteps = 1\n");
    let commands = [&["study", "none.txt"][..], &["train", "none.txt"], &["sweep", "plan.toml"]];
    for command in commands {
        for (out, says) in
            [("n.txt", "--out: n.txt is a file, not a directory"), ("/proc/nope", "/proc/nope")]
        {
            if out.starts_with("/proc") && !cfg!(target_os = "linux") {
                continue;
            }
            let output = case.run(command.iter().chain(&["--out", out]));
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{command:?}: {message}");
            assert!(message.contains(says) && !message.contains("none.txt"), "{command:?}: {message}");
        }
        // The corpus is missing: the directory that was made for the result is removed again.
        assert_eq!(case.run(command.iter().chain(&["--out", "new"])).status.code(), Some(2));
        assert!(!case.path("new").exists(), "{command:?}");
    }
    let output = case.run(["bounds", "none.txt", "--encoder", "0"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("--encoder") && !message.contains("none.txt"), "{message}");
}
