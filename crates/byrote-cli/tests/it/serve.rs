//! `byrote serve` as its users run it: what it prints, how it ends, and the page in a real browser.
#![cfg(unix)]

use crate::Case;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// A server that is killed when it is dropped.
struct Running {
    child: Child,
    address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(case: &Case, arguments: &[&str]) -> Running {
    let mut command = case.command();
    command.arg("serve").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    Running { child, address: line.trim().to_owned() }
}

impl Running {
    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, "")
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", path, &body.to_string())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let own = self.address.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(own).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {own}\r\nConnection: close");
        let kind = "Content-Type: application/json";
        write!(stream, "{head}\r\n{kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// An answer, once it is as it should be.
    fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let found = self.get(path);
            if holds(&found) {
                return found;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// The corpus, once it is there.
    fn corpus(&self) -> Value {
        self.until("/api/corpus", |found| found["state"] != "loading")
    }
}

#[test]
fn it_prints_its_address_shows_the_numbers_of_the_program_and_ends_with_130() {
    let case = Case::new();
    let mut server = serve(&case, &["--builtin", "30"]);
    assert!(server.address.starts_with("http://127.0.0.1:"), "{}", server.address);
    assert_eq!(server.corpus()["summary"], case.json(["corpus", "--builtin", "30"]));
    assert!(Command::new("kill").args(["-INT", &server.child.id().to_string()]).status().unwrap().success());
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
    assert!(case.names().is_empty(), "{:?}", case.names());
}

#[test]
fn models_and_runs_are_shown_on_stories_and_on_random_sequences() {
    let case = Case::new();
    let run = ["train", "--builtin", "20", "--d-mlp", "8", "--steps", "5", "--out", "run"];
    assert!(case.run(run).status.success());
    for (corpus, more) in [(["--builtin", "20"], "run"), (["--random", "20"], "run/model.safetensors")] {
        let server = serve(&case, &[&corpus[..], &[more]].concat());
        assert_eq!(server.corpus()["summary"], case.json([&["corpus"], &corpus[..]].concat()), "{corpus:?}");
        assert_eq!(server.get("/api/models")["models"][0]["id"], "run/model.safetensors");
        if more == "run" {
            // It ended between two reports. Whoever has just reported is taken to run.
            let found = server.until("/api/runs", |found| found["runs"][0]["state"] != "running");
            let shown = &found["runs"][0];
            let evaluation = case.json(["eval", "run/model.safetensors", "--builtin", "20"]);
            assert_eq!((&shown["state"], &shown["step"]), (&json!("done"), &json!(5)), "{shown}");
            let gap = |found: &Value| found["gap_nats_per_prediction"].as_f64().unwrap();
            assert!((gap(shown) / gap(&evaluation) - 1.0).abs() < 1e-4, "{shown} {evaluation}");
        }
    }
}

#[test]
fn what_cannot_be_served_is_refused_before_it_listens() {
    let case = Case::new();
    let server = serve(&case, &["--builtin", "5"]);
    let port = server.address.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    case.file("text.txt", "a b\n");
    std::fs::create_dir(case.path("linked")).unwrap();
    std::fs::write(case.path("linked/own.txt"), "a b\n").unwrap();
    std::os::unix::fs::symlink("/etc", case.path("linked/out")).unwrap();
    for (arguments, says) in [
        (vec!["serve", "none.txt"], "cannot open none.txt: No such file"),
        (vec!["serve", "linked"], "linked/out: a link that leads out of its directory"),
        (vec!["serve", "-"], "standard input"),
        (vec!["serve", "--port", &port], "is used by another program"),
        (vec!["serve", "--host", "256.1.1.1"], "is not an address of this machine"),
        (vec!["serve", "--n-ctx", "0"], "--n-ctx"),
        (vec!["serve", "text.txt", "--builtin", "5"], "--builtin"),
        (vec!["serve", "text.txt", "--random", "5"], "--random"),
        (vec!["serve", "--port", "99999"], "port"),
    ] {
        let output = case.run(&arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(says) && message.lines().count() == 1, "{arguments:?}: {message}");
    }
}

#[test]
fn a_text_beside_its_audit_is_read_as_the_audit_read_it() {
    let case = Case::new();
    case.file("book.txt", "the cat sat on the mat\n\nand the dog sat on the cat\n".repeat(2));
    audited(&case, "book.txt", "20");
    for arguments in [&["audit", "book.txt"][..], &["audit", "book.txt", "--documents", "blank-line"]] {
        let server = serve(&case, arguments);
        assert_eq!(server.get("/api/audit?id=audit")["readable"], "all", "{arguments:?}");
        let found = server.get("/api/audit/document?id=audit&document=0");
        assert_eq!(found["whole"], true, "{arguments:?}: {found}");
    }
    // A text that has changed since is not marked with numbers of another one.
    case.file("book.txt", "the cat sat on the mat\n");
    let found = serve(&case, &["audit", "book.txt"]).get("/api/audit/document?id=audit&document=0");
    assert_eq!(found["whole"], false, "{found}");
}

#[test]
fn a_training_of_a_killed_server_can_be_resumed() {
    let case = Case::new();
    let arguments = ["--builtin", "30", "--runs", "trainings"];
    let mut server = serve(&case, &arguments);
    server.corpus();
    let settings = json!({
        "name": "long", "d_mlp": "8", "optimizer": "adam", "steps": "1000000000", "stop_relative_gap": "1e-12", "stall": "0",
    });
    assert_eq!(server.post("/api/run/start", &settings)["id"], "long");
    server.until("/api/run?id=long", |run| run["step"].as_u64() > Some(0));
    // Another server sees that it runs, and leaves it alone.
    let other = serve(&case, &arguments);
    other.corpus();
    let found = other.until("/api/run?id=long", |run| run["state"] == "running");
    assert!(found.get("controls").is_none(), "{found}");
    drop(other);
    // It is killed before its first checkpoint.
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = serve(&case, &arguments);
    server.corpus();
    let found = server.get("/api/run?id=long");
    assert_eq!(
        (&found["state"], &found["controls"]),
        (&json!("paused"), &json!(["resume", "stop"])),
        "{found}"
    );
    let control = |action: &str| server.post("/api/run/control", &json!({"id": "long", "action": action}));
    assert_eq!(control("resume")["state"], "running");
    // However soon it is stopped: it has not failed.
    control("stop");
    let found =
        server.until("/api/run?id=long", |run| run["state"] != "running" && run["state"] != "stopping");
    assert_eq!((&found["state"], &found["error"]), (&json!("done"), &Value::Null), "{found}");
}

/// A program on the path.
fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |n| folder.join(n)))
        .find(|p| p.is_file())
}

/// What walks through the page: node, Chromium, and the script with what it needs installed beside it; none where that is impossible,
/// which is an error with `BYROTE_TEST_BROWSER=1`.
fn walker() -> Option<&'static (PathBuf, PathBuf, PathBuf)> {
    // Tests run at the same time; what is missing is installed once.
    static WALKER: OnceLock<Result<(PathBuf, PathBuf, PathBuf), &'static str>> = OnceLock::new();
    match WALKER.get_or_init(find_walker) {
        Ok(found) => Some(found),
        Err(why) => {
            let is_required = std::env::var_os("BYROTE_TEST_BROWSER").is_some_and(|value| value == "1");
            assert!(!is_required, "the page cannot be tested in a browser: {why}");
            // Bypasses the test harness, which captures the output of passing tests.
            let _ = writeln!(std::io::stderr(), "SKIPPED: the page in a browser ({why})");
            None
        }
    }
}

fn find_walker() -> Result<(PathBuf, PathBuf, PathBuf), &'static str> {
    let chromium = program(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]);
    let (Some(node), Some(npm), Some(chromium)) = (program(&["node"]), program(&["npm"]), chromium) else {
        return Err(
            "it needs node, npm and Chromium; BYROTE_TEST_BROWSER=1 cargo xtask check installs them on Debian",
        );
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../byrote-serve/tests/browser");
    // Kept between runs.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-browser");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["package.json", "walk.mjs"] {
        std::fs::copy(source.join(name), folder.join(name)).unwrap();
    }
    if !folder.join("node_modules/playwright-core").exists() {
        let installed = Command::new(npm)
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
            .current_dir(&folder)
            .env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1")
            .env("npm_config_cache", folder.join("cache"))
            .stdin(Stdio::null())
            .output();
        if !installed.is_ok_and(|output| output.status.success()) {
            return Err("playwright-core cannot be installed");
        }
    }
    Ok((node, chromium, folder.join("walk.mjs")))
}

/// Walks through the views in Chromium. `name` is that of its screenshots.
fn walk(case: &Case, name: &str, server: &Running, restart: Option<&[&str]>, expected: &Value) {
    let Some((node, chromium, script)) = walker() else { return };
    // A sweep of another process in a directory that is served, which the script interrupts half way.
    let sweep = case.path("all").exists().then(|| {
        // Two jobs end soon and the third never does, so that however slow the browser is, it finds the sweep half finished.
        let plan = "seeds = [0, 1]\n[corpus]\nbuiltin = 40\n[model]\nd_mlp = [4, 8]\n\
                    [training]\noptimizer = \"adam\"\nsteps = [6000, 1000000000]\nstop_relative_gap = 1e-9\nstall = 0\n";
        case.file("half.toml", plan);
        json!({
            "program": env!("CARGO_BIN_EXE_byrote"), "cwd": case.directory.path(), "id": "half", "jobs": 8,
            "args": ["sweep", "half.toml", "--out", "all/half", "--threads", "1", "-q"], "results": case.path("all/half/results.csv"),
        })
    });
    let restart = restart.map(|arguments| {
        let port = server.address.trim_end_matches('/').rsplit(':').next().unwrap();
        let arguments = [&["serve"], arguments, &["--port", port]].concat();
        json!({
            "program": env!("CARGO_BIN_EXE_byrote"), "args": arguments,
            "cwd": case.directory.path(), "pid": server.child.id(),
        })
    });
    let shots = std::env::var_os("BYROTE_SHOTS").map(|folder| PathBuf::from(folder).join(name));
    shots.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../byrote-serve/src/page");
    let settings = json!({
        "page": page, "chromium": chromium, "address": server.address, "expected": expected, "sweep": sweep, "restart": restart,
        "shots": shots,
    });
    let settings = case.file("settings.json", settings.to_string());
    let output = Command::new(node).arg(script).arg(settings).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {said}");
}

/// Runs a command that must succeed.
fn run(case: &Case, arguments: &[&str]) {
    let output = case.run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A model of a text, character by character, and its audit; returns the audit.
fn audited(case: &Case, text: &str, steps: &str) -> Value {
    let how = ["--documents", "file", "--tokenizer", "char", "--contexts", "windows", "--n-ctx", "12"];
    let model = ["--d-mlp", "64", "--steps", steps, "--out", "bookrun"];
    run(case, &[&["train", text][..], &how, &model].concat());
    let how = ["--documents", "file", "--prefix", "4", "--suffix", "6", "--out", "audit"];
    run(case, &[&["audit", "bookrun/model.safetensors", text][..], &how].concat());
    let mut audit: Value =
        serde_json::from_slice(&std::fs::read(case.path("audit/audit.json")).unwrap()).unwrap();
    audit["id"] = json!("audit");
    audit
}

/// What `byrote certify` says of a model that memorizes only a part: exit code 1, "the answer is no".
fn certificate(case: &Case, model: &str) -> Value {
    let output = case.run(["certify", model, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const SHAPE: [&str; 6] = ["--d-model", "16", "--n-heads", "4", "--d-mlp", "512"];

#[test]
fn every_view_shows_the_numbers_of_the_program_in_a_browser() {
    if walker().is_none() {
        return;
    }
    let case = Case::new();
    run(&case, &["corpus", "--builtin", "60", "--write", "stories.txt"]);
    run(&case, &["build", "madden2024", "stories.txt", "--out", "built.safetensors"]);
    run(&case, &["train", "stories.txt", "--d-mlp", "32", "--steps", "60", "--out", "run"]);
    // A sweep that ended at the first job that failed.
    let plan = "seeds = [0, 1]\n[corpus]\nbuiltin = 40\n[model]\npreset = [\"average\", \"dana2024\"]\nd_model = 4\nd_mlp = 8\n\
                [training]\nsteps = 30\n";
    case.file("failed.toml", plan);
    let output = case.run(["sweep", "failed.toml", "--out", "failed", "--fail-fast", "--threads", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let text = "the cat sat on the mat and the dog sat on the cat and the mat was flat\n".repeat(2);
    case.file("book.txt", &text);
    let audit = audited(&case, "book.txt", "300");
    std::fs::create_dir(case.path("all")).unwrap();
    run(&case, &["build", "kajitsuka2024", "stories.txt", "--out", "exact.txt"]);
    // The sequences that the page feeds to such a network.
    let learner = ["--task", "linear", "--d", "4", "--length", "120", "--sequences", "10", "--layers", "40"];
    let learned = case.json([&["incontext"], &learner[..], &["--save", "learner.safetensors"]].concat());
    let arguments = [
        "stories.txt",
        "all",
        "failed",
        "run",
        "audit",
        "built.safetensors",
        "exact.txt",
        "learner.safetensors",
    ];
    let server = serve(&case, &arguments);
    let on = |more: &[&str]| case.json([more, &["stories.txt"]].concat());
    assert_eq!(server.corpus()["summary"], on(&["corpus"]));
    let expected = json!({
        "corpus": on(&["corpus"]), "word": "Once", "bounds": on(&[&["bounds"], &SHAPE[..]].concat()),
        "models": {
            "a": "built.safetensors", "b": "run/model.safetensors", "text": "Once upon",
            "next": case.json(["predict", "built.safetensors", "Once upon"])["next"],
            "evaluation": on(&["eval", "built.safetensors"]), "certificate": on(&["certify", "built.safetensors"]),
        },
        "others": {
            "exact": "exact.txt", "evaluation": on(&["eval", "exact.txt"]),
            "stages": case.json(["show", "exact.txt"])["stages"].as_array().unwrap().len(),
            "network": "learner.safetensors", "errors": learned["errors"],
        },
        "audit": audit,
    });
    walk(&case, "stories", &server, Some(&arguments), &expected);
}

#[test]
fn the_built_in_corpus_is_walked_without_a_path_and_beside_models() {
    if walker().is_none() {
        return;
    }
    let case = Case::new();
    let mut expected = json!({
        "corpus": case.json(["corpus"]), "word": "Once", "bounds": case.json([&["bounds", "--builtin", "1000"], &SHAPE[..]].concat()), "empty": true,
    });
    let server = serve(&case, &[]);
    assert_eq!(server.corpus()["summary"], expected["corpus"]);
    walk(&case, "builtin-alone", &server, None, &expected);
    drop(server);
    // The same with something in every view.
    run(&case, &["train", "--d-mlp", "16", "--steps", "20", "--out", "run"]);
    case.file("book.txt", "a rose is a rose is a rose\n".repeat(3));
    expected["audit"] = audited(&case, "book.txt", "200");
    let model = "run/model.safetensors";
    expected["models"] = json!({
        "a": model, "text": "Once upon", "next": case.json(["predict", model, "Once upon"])["next"],
        "evaluation": case.json(["eval", model]), "certificate": certificate(&case, model),
    });
    expected["empty"] = json!(false);
    std::fs::create_dir(case.path("all")).unwrap();
    let server = serve(&case, &["all", "run", "audit"]);
    assert_eq!(server.corpus()["summary"], expected["corpus"]);
    walk(&case, "builtin", &server, None, &expected);
}

#[test]
fn a_sample_of_windows_is_walked_and_said_to_be_one() {
    if walker().is_none() {
        return;
    }
    let case = Case::new();
    case.file(
        "page.txt",
        "It was the best of times, it was the worst of times, it was the age of wisdom.\n".repeat(20),
    );
    let how =
        ["page.txt", "--documents", "file", "--tokenizer", "char", "--contexts", "windows", "--n-ctx", "8"];
    let server = serve(&case, &[&how[..], &["--windows", "300"]].concat());
    let corpus = case.json([&["corpus"], &how[..]].concat());
    assert_eq!(server.corpus()["summary"], corpus);
    assert_eq!(server.get("/api/corpus")["sample"], json!({"windows": 300, "of": corpus["windows"]}));
    let bounds = case.json([&["bounds"], &how[..], &SHAPE].concat());
    walk(&case, "windows", &server, None, &json!({"corpus": corpus, "bounds": bounds, "word": "t"}));
}

#[test]
fn real_texts_are_walked_where_they_are() {
    if walker().is_none() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["names.txt", "shakespeare.txt", "wikitext2-valid.txt"] {
        let path = root.join("../shared/data").join(name);
        let Ok(text) = std::fs::read_to_string(&path) else {
            let _ = writeln!(std::io::stderr(), "SKIPPED: the page on {name} (it is not in ../shared/data)");
            continue;
        };
        let case = Case::new();
        case.file(name, &text);
        let part: String =
            text.lines().filter(|line| line.len() > 3).take(12).map(|line| format!("{line}\n")).collect();
        case.file("part.txt", &part);
        let audit = audited(&case, "part.txt", "60");
        std::fs::create_dir(case.path("all")).unwrap();
        let how = ["--tokenizer", "char", "--n-ctx", "12"];
        let server = serve(&case, &[&[name, "all", "bookrun", "audit"], &how[..]].concat());
        let corpus = case.json([&["corpus", name], &how[..]].concat());
        assert_eq!(server.corpus()["summary"], corpus);
        let model = "bookrun/model.safetensors";
        let word: String = part.chars().take(2).collect();
        let expected = json!({
            "corpus": corpus, "bounds": case.json([&["bounds", name], &how[..], &SHAPE].concat()), "word": word,
            "models": {"a": model, "text": word, "next": case.json(["predict", model, &word])["next"]},
            "audit": audit,
        });
        walk(&case, name, &server, None, &expected);
    }
}
