//! `byrote serve` as its users run it: what it prints, how it ends, and the page in a real browser.
#![cfg(unix)]

use crate::Case;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
        let own = self.address.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(own).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// The corpus, once it is there.
    fn corpus(&self) -> Value {
        loop {
            let found = self.get("/api/corpus");
            if found["state"] != "loading" {
                return found;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
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
fn what_cannot_be_served_is_refused_before_it_listens() {
    let case = Case::new();
    let server = serve(&case, &["--builtin", "5"]);
    let port = server.address.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    for (arguments, says) in [
        (vec!["serve", "none.txt"], "none.txt"),
        (vec!["serve", "-"], "standard input"),
        (vec!["serve", "--port", &port], "is used by another program"),
        (vec!["serve", "--host", "256.1.1.1"], "is not an address of this machine"),
        (vec!["serve", "--n-ctx", "0"], "--n-ctx"),
        (vec!["serve", "--port", "99999"], "port"),
    ] {
        let output = case.run(&arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(says) && message.lines().count() == 1, "{arguments:?}: {message}");
    }
}

/// A program on the path.
fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |n| folder.join(n)))
        .find(|p| p.is_file())
}

/// The script that walks through the page, with what it needs installed beside it; none where that is impossible.
fn script(case: &Case) -> Option<(PathBuf, PathBuf, PathBuf)> {
    let skip = |why: &str| {
        // Bypasses the test harness, which captures the output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED: the page in a browser ({why})");
    };
    let chromium = program(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]);
    let (Some(node), Some(npm), Some(chromium)) = (program(&["node"]), program(&["npm"]), chromium) else {
        skip("it needs node, npm and Chromium");
        return None;
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
            .env("npm_config_cache", case.path("npm"))
            .stdin(Stdio::null())
            .output();
        if !installed.is_ok_and(|output| output.status.success()) {
            skip("playwright-core cannot be installed");
            return None;
        }
    }
    Some((node, chromium, folder.join("walk.mjs")))
}

#[test]
fn every_view_shows_the_numbers_of_the_program_in_a_browser() {
    let case = Case::new();
    let Some((node, chromium, walk)) = script(&case) else { return };
    let run = |arguments: &[&str]| {
        let output = case.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let corpus = case.json(["corpus", "--builtin", "60", "--write", "stories.txt"]);
    let word = "Once";
    let on = |more: &[&str]| case.json([more, &["stories.txt"]].concat());
    // A sweep that ends at the first job that fails, half finished.
    let plan = "seeds = [0, 1]\n[corpus]\nbuiltin = 40\n[model]\npreset = [\"average\", \"dana2024\"]\nd_model = 4\nd_mlp = 8\n\
                [training]\nsteps = 30\n";
    case.file("half.toml", plan);
    let output = case.run(["sweep", "half.toml", "--out", "half", "--fail-fast", "--threads", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let results = std::fs::read_to_string(case.path("half/results.csv")).unwrap();
    let done = results.lines().filter(|line| line.contains(",done,")).count();
    run(&["build", "madden2024", "stories.txt", "--out", "built.safetensors"]);
    run(&["train", "stories.txt", "--d-mlp", "32", "--steps", "60", "--out", "run"]);
    let text = "the cat sat on the mat and the dog sat on the cat and the mat was flat\n".repeat(2);
    case.file("book.txt", &text);
    let how = ["--documents", "file", "--tokenizer", "char"];
    let window =
        ["--contexts", "windows", "--n-ctx", "12", "--d-mlp", "64", "--steps", "300", "--out", "bookrun"];
    run(&[&["train", "book.txt"][..], &how, &window].concat());
    let audit = [
        "audit",
        "bookrun/model.safetensors",
        "book.txt",
        "--documents",
        "file",
        "--prefix",
        "4",
        "--suffix",
        "6",
    ];
    run(&[&audit[..], &["--out", "audit"]].concat());
    let mut audit: Value =
        serde_json::from_slice(&std::fs::read(case.path("audit/audit.json")).unwrap()).unwrap();
    audit["id"] = json!("audit");
    let mut corpus = corpus;
    corpus.as_object_mut().unwrap().remove("written");
    let server = serve(&case, &["stories.txt", "half", "run", "audit", "built.safetensors"]);
    assert_eq!(server.corpus()["summary"], on(&["corpus"]));
    let expected = json!({
        "corpus": corpus, "word": word,
        "bounds": on(&["bounds", "--d-model", "16", "--n-heads", "4", "--d-mlp", "512"]),
        "sweep": {"id": "half", "jobs": 4, "done": done, "rows": server.get("/api/run?id=half")["rows"]},
        "models": {
            "a": "built.safetensors", "b": "run/model.safetensors", "text": "Once upon",
            "next": case.json(["predict", "built.safetensors", "Once upon"])["next"],
            "evaluation": on(&["eval", "built.safetensors"]), "certificate": on(&["certify", "built.safetensors"]),
        },
        "audit": audit,
    });
    let port = server.address.trim_end_matches('/').rsplit(':').next().unwrap();
    let again = ["serve", "stories.txt", "half", "run", "audit", "built.safetensors", "--port", port];
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../byrote-serve/src/page");
    let settings = json!({
        "page": page, "chromium": chromium, "address": server.address, "expected": expected,
        "restart": {
            "program": env!("CARGO_BIN_EXE_byrote"), "args": again, "cwd": case.directory.path(), "pid": server.child.id(),
        },
        "shots": std::env::var_os("BYROTE_SHOTS").map(PathBuf::from),
    });
    let settings = case.file("settings.json", settings.to_string());
    let output = Command::new(node).arg(&walk).arg(settings).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
}
