//! `byrote study`.

use crate::{Case, prose};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn lines(output: &std::process::Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_quick_study_ends_with_five_lines_and_one_page() {
    let case = Case::new();
    let output = case.run(["study", "--builtin", "60", "--quick", "--out", "s"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let verdict = lines(&output);
    let starts = ["Floor:", "Size:", "Closed form:", "Trained:", "Worst remembered:"];
    assert_eq!(verdict.len(), 5, "{verdict:?}");
    assert!(verdict.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{verdict:?}");
    assert!(verdict[2].contains("certified in exact arithmetic for all 232 contexts"), "{}", verdict[2]);
    assert!(verdict[2].contains(" nats per prediction above the floor ("), "{}", verdict[2]);
    let page = std::fs::read_to_string(case.path("s/report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    for place in ["bounds", "built", "trained", "worst"] {
        assert!(page.contains(&format!("id=\"{place}\"")), "{place}");
    }
    // No request leaves the page: addresses are only those of links that a reader follows.
    for word in ["src=\"http", "url(http", "@import", "rel=\"stylesheet"] {
        assert!(!page.contains(word), "{word}");
    }
    for figure in ["bounds", "training", "widths", "floor-by-length"] {
        for kind in ["svg", "png"] {
            assert!(case.path(&format!("s/figures/{figure}.{kind}")).exists(), "{figure}.{kind}");
        }
    }
    // The numbers of the page are those of the results.
    let results = std::fs::read_to_string(case.path("s/training/results.csv")).unwrap();
    let head: Vec<&str> = results.lines().next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|h| *h == name).unwrap();
    for row in results.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        let relative: f64 = fields[column("relative_gap")].parse().unwrap();
        let share = if relative > 1.0 { " times".to_owned() } else { format!("{:.2}%", 100.0 * relative) };
        assert!(page.contains(&share), "{row}");
    }
    // Again: nothing is trained twice, and the page is identical.
    let again = case.json(["study", "--builtin", "60", "--quick", "--out", "s"]);
    assert_eq!(again["verdict"], Value::from(verdict));
    assert_eq!(std::fs::read_to_string(case.path("s/training/results.csv")).unwrap(), results);
}

#[test]
fn odd_texts_are_studied_or_refused_with_a_reason() {
    let case = Case::new();
    case.file("empty.txt", "");
    case.file("one.txt", "a\n");
    case.file("names.txt", "anna\nhanna\njohanna\n");
    case.file("line.txt", "the cat sat on the mat\n");
    case.file("windows.txt", "the cat sat\r\nthe dog ran\r\n");
    case.file("markup.txt", "<script>alert(1)</script> & \"quotes\"\n<b>bold</b> text\n");
    case.file("binary.txt", [0xff, 0xfe, 0x00, 0x80, 0x0a]);
    let study = |file: &str, more: &[&str]| {
        case.run(["study", file, "--quick", "--quiet", "--out", "s"].iter().chain(more))
    };
    for (file, words) in [
        ("empty.txt", "no documents"),
        ("one.txt", "byrote: no context is followed by a token"),
        ("binary.txt", "UTF-8"),
        ("none.txt", "none.txt"),
    ] {
        let output = study(file, &[]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{file}: {error}");
        assert!(error.contains(words), "{file}: {error}");
    }
    for file in ["line.txt", "names.txt", "windows.txt", "markup.txt"] {
        let output = study(file, &[]);
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(lines(&output).len(), 5, "{file}");
        if file == "line.txt" {
            let floor = &lines(&output)[0];
            assert!(
                floor.starts_with("Floor: it is 0, because every context has one next token."),
                "{floor}"
            );
        }
    }
    let page = std::fs::read_to_string(case.path("s/report.html")).unwrap();
    assert!(!page.contains("<script>alert") && !page.contains("<b>bold"));
}

#[test]
fn a_large_text_is_built_and_trained_on_in_part() {
    let case = Case::new();
    case.file("prose.txt", prose(3_000));
    let found = case.json(["study", "prose.txt", "--quick", "--max-memory", "4M", "--out", "s", "--quiet"]);
    assert!(found["contexts"].as_u64().unwrap() > 15_000);
    assert_eq!(found["part"]["all"], false);
    assert!(found["part"]["contexts"].as_u64().unwrap() <= 3000);
    let page = std::fs::read_to_string(case.path("s/report.html")).unwrap();
    assert!(page.contains("id=\"part\""));
}

#[test]
fn standard_input_is_studied_as_a_file_is() {
    let case = Case::new();
    let text = "the cat sat\nthe dog ran\nthe cat ran\n";
    case.file("a.txt", text);
    case.file("in.txt", text);
    let of_file = case.run(["study", "a.txt", "--quick", "--out", "f", "--quiet"]);
    let input = std::fs::File::open(case.path("in.txt")).unwrap();
    let arguments = ["study", "-", "--quick", "--out", "s", "--quiet", "--list", "all.csv"];
    let of_input = case.command().args(arguments).stdin(input).output().unwrap();
    assert!(of_input.status.success(), "{}", String::from_utf8_lossy(&of_input.stderr));
    assert_eq!(lines(&of_input), lines(&of_file));
    // A requested list covers the whole text.
    case.json(["corpus", "a.txt", "--list", "whole.csv"]);
    let read = |name: &str| std::fs::read_to_string(case.path(name)).unwrap();
    assert_eq!(read("all.csv"), read("whole.csv"));
}

#[test]
fn a_study_leaves_runs_alone_that_are_not_its_own() {
    let case = Case::new();
    case.file(
        "plan.toml",
        "name = \"mine\"\n[corpus]\ndocuments = 5\n[model]\nd_mlp = 4\n[training]\nsteps = 5\n",
    );
    assert!(case.run(["sweep", "plan.toml", "--out", "s/training", "--quiet"]).status.success());
    let before = std::fs::read(case.path("s/training/journal.jsonl")).unwrap();
    let output = case.run(["study", "--builtin", "20", "--quick", "--out", "s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("belongs to a different run (mine, 1 job, by byrote ")
    );
    assert_eq!(std::fs::read(case.path("s/training/journal.jsonl")).unwrap(), before);
    // It sets aside its own runs of another corpus.
    for documents in ["20", "30"] {
        assert!(
            case.run(["study", "--builtin", documents, "--quick", "--out", "own", "--quiet"])
                .status
                .success()
        );
    }
    let jobs = |name: &str| std::fs::read_to_string(case.path(name)).unwrap();
    assert!(jobs("own/training-1/results.csv").contains(",stories,20,"));
    assert!(jobs("own/training/results.csv").contains(",stories,30,"));
    assert!(jobs("own/report-1.html").contains("--builtin 20"));
    // It sets aside training runs that another version of the program made of the same corpus, and keeps the closed forms.
    let manifest = jobs("own/training/manifest.toml");
    let plan = manifest.lines().find(|line| line.starts_with("plan = ")).unwrap();
    std::fs::write(case.path("own/training/manifest.toml"), manifest.replace(plan, "plan = \"0\"")).unwrap();
    let again = case.run(["study", "--builtin", "30", "--quick", "--out", "own"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(case.path("own/training-2").exists() && !case.path("own/models-2").exists());
    assert!(case.path("own/models/trained-16.safetensors").exists());
}

#[test]
fn two_studies_do_not_share_a_directory() {
    let case = Case::new();
    std::fs::create_dir(case.path("s")).unwrap();
    let held = byrote::output::lock(&case.path("s")).unwrap();
    let output = case.run(["study", "--builtin", "20", "--quick", "--out", "s"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
    drop(held);
    assert!(case.run(["study", "--builtin", "20", "--quick", "--out", "s", "--quiet"]).status.success());
}

#[test]
fn a_study_writes_down_how_its_text_was_read() {
    let case = Case::new();
    case.file("words.txt", "one\ntwo\nthree\nfour\nfive\n");
    let run = |arguments: &[&str]| {
        let all = [&["study", "--quick", "--quiet"][..], arguments].concat();
        assert!(case.run(all).status.success(), "{arguments:?}");
    };
    run(&["words.txt", "--out", "a", "--eos", "--n-ctx", "4"]);
    let results = std::fs::read_to_string(case.path("a/training/results.csv")).unwrap();
    let (head, row) = (results.lines().next().unwrap(), results.lines().nth(1).unwrap());
    // The corpus is quoted, because it has a comma.
    let row = row.replacen("\"words.txt, eos = true\"", "words.txt and eos", 1);
    let of = |name: &str| row.split(',').nth(head.split(',').position(|h| h == name).unwrap()).unwrap();
    assert_eq!((of("corpus"), of("tokenizer"), of("n_ctx")), ("words.txt and eos", "wordpunct", "4"));
    assert_eq!((of("mixer"), of("lr")), ("attention", "1"));
    run(&["--random", "50", "--out", "b"]);
    let results = std::fs::read_to_string(case.path("b/training/results.csv")).unwrap();
    assert!(results.contains(",random 1..8,50,"), "{results}");
    // The floor is 0: nothing is a share of it.
    let page = std::fs::read_to_string(case.path("b/report.html")).unwrap();
    assert!(page.contains("nats per prediction") && !page.contains("gap / floor"));
    let manifest = std::fs::read_to_string(case.path("b/training/manifest.toml")).unwrap();
    assert!(manifest.contains("byrote study --quick --quiet --random 50 --out b"), "{manifest}");
    // Its training runs have their own page, with that command.
    let drawn = case.json(["report", "b/training"]);
    assert_eq!(drawn["report_file"], "b/training/report.html");
    let page = std::fs::read_to_string(case.path("b/training/report.html")).unwrap();
    assert!(page.contains("byrote study --quick --quiet --random 50 --out b"));
}

#[test]
fn a_study_takes_what_fits_into_the_memory_given() {
    let case = Case::new();
    let all = case.json(["study", "--builtin", "200", "--quick", "--out", "a"]);
    let part = case.json(["study", "--builtin", "200", "--quick", "--max-memory", "2M", "--out", "b"]);
    let contexts = |study: &Value| study["part"]["contexts"].as_u64().unwrap();
    assert_eq!((contexts(&all), &all["part"]["all"]), (all["contexts"].as_u64().unwrap(), &true.into()));
    assert!(contexts(&part).pow(2) * 48 <= 2 << 20 && part["part"]["all"] == false, "{part}");
    let page = std::fs::read_to_string(case.path("b/report.html")).unwrap();
    assert!(!page.contains("of memory"));
}

/// Every file of a directory, with its bytes.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => out.extend(contents(&path)),
            false => drop(out.insert(path.clone(), std::fs::read(path).unwrap())),
        }
    }
    out
}

#[test]
fn the_report_of_a_study_is_drawn_again_byte_for_byte() {
    let case = Case::new();
    assert!(case.run(["study", "--builtin", "20", "--quick", "--out", "s", "--quiet"]).status.success());
    let before = contents(&case.path("s"));
    std::fs::remove_file(case.path("s/report.html")).unwrap();
    std::fs::remove_dir_all(case.path("s/figures")).unwrap();
    let drawn = case.json(["report", "s"]);
    assert_eq!(drawn["report_file"], "s/report.html");
    let after = contents(&case.path("s"));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (path, bytes) in &before {
        assert!(bytes == &after[path], "{} differs", path.display());
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_study_keeps_its_models_in_closed_form() {
    let case = Case::new();
    let arguments = ["study", "--builtin", "30", "--quick", "--out", "s", "--quiet", "--threads", "1"];
    let mut child = case.command().args(arguments).stderr(std::process::Stdio::null()).spawn().unwrap();
    // The journal begins with the training, after the models in closed form.
    let started = Instant::now();
    while !case.path("s/training/journal.jsonl").exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "the training does not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let built: Vec<PathBuf> = contents(&case.path("s"))
        .into_keys()
        .filter(|path| path.parent().is_some_and(|p| p.ends_with("models")))
        .collect();
    assert!(!built.is_empty() && case.path("s/closed_forms.json").exists());
    let changed = |path: &PathBuf| std::fs::metadata(path).unwrap().modified().unwrap();
    let times: Vec<_> = built.iter().map(changed).collect();
    let output = case.run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(built.iter().map(changed).collect::<Vec<_>>(), times, "a model was built again");
    // The interruption has left no trace in what was found.
    let whole = ["study", "--builtin", "30", "--quick", "--out", "whole", "--quiet", "--threads", "1"];
    assert_eq!(lines(&output), lines(&case.run(whole)));
}

#[test]
fn an_edited_study_is_refused_and_one_without_a_checksum_is_read() {
    let case = Case::new();
    assert!(case.run(["study", "--builtin", "20", "--quick", "--out", "s", "--quiet"]).status.success());
    let page = std::fs::read(case.path("s/report.html")).unwrap();
    let text = std::fs::read_to_string(case.path("s/study.json")).unwrap();
    let documents = "\"documents\": 20";
    assert!(text.contains(documents));
    case.file("s/study.json", text.replace(documents, "\"documents\": 21"));
    let output = case.run(["report", "s"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("study.json: the checksum does not match"), "{message}");
    let old = text[..text.rfind(",\n  \"checksum\"").unwrap()].to_owned() + "\n}\n";
    case.file("s/study.json", old);
    assert!(case.run(["report", "s", "--quiet"]).status.success());
    assert_eq!(std::fs::read(case.path("s/report.html")).unwrap(), page);
}

#[cfg(unix)]
#[test]
fn every_trained_model_is_stored_once() {
    use std::os::unix::fs::MetadataExt;
    let case = Case::new();
    let study = ["study", "--builtin", "20", "--quick", "--quiet", "--out", "s"];
    // The second run trains nothing.
    for _ in 0..2 {
        assert!(case.run(study).status.success());
        let of = |folder: &str| {
            let entries = std::fs::read_dir(case.path(folder)).unwrap().map(|e| e.unwrap());
            let trained = entries
                .filter(|e| folder != "s/models" || e.file_name().to_string_lossy().starts_with("trained-"));
            let mut inodes: Vec<u64> = trained.map(|e| e.metadata().unwrap().ino()).collect();
            inodes.sort_unstable();
            inodes
        };
        let (named, run) = (of("s/models"), of("s/training/models"));
        assert!(!named.is_empty());
        assert_eq!(named, run);
    }
}
