//! Tests of the program as its users run it.
#![allow(clippy::unwrap_used)]

mod audit;
mod bounds;
mod build;
mod build_dana2024;
mod corpus;
mod errors;
mod export;
mod formats;
mod gguf;
mod help;
mod hostile;
mod huggingface;
mod incontext;
mod interrupt;
mod kajitsuka2024;
mod memory;
mod papers;
mod rank;
mod report;
mod serve;
mod study;
mod sweep;
mod train;
mod transcript;
mod windows;

use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The program, run in a temporary directory.
struct Case {
    directory: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byrote"));
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command.env("TMPDIR", self.directory.path());
        command
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Runs with --json and parses what it prints.
    fn json<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Value {
        let output = self.command().args(arguments).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The names of the files in the directory.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Whether files of expected output are to be written anew.
fn bless() -> bool {
    std::env::var_os("BYROTE_BLESS").is_some()
}

/// Whether tests that move gigabytes should run: only with `BYROTE_TEST_HUGE=1`, as in `.ci/run`.
fn huge_tests() -> bool {
    let wanted = std::env::var_os("BYROTE_TEST_HUGE").is_some_and(|value| value == "1");
    if !wanted {
        skipped("a test that moves gigabytes; set BYROTE_TEST_HUGE=1 to run it");
    }
    wanted
}

/// Made-up names, one per line: many share their first letters, few are equal.
fn names(n: usize) -> String {
    let mut numbers = numbers();
    let mut name = || {
        let syllables =
            ["an", "bel", "ca", "da", "el", "fi", "ga", "jo", "li", "ma", "no", "ra", "sa", "ti", "vi"];
        (0..2 + numbers(3)).map(|_| syllables[numbers(syllables.len())]).collect::<String>()
    };
    (0..n).map(|_| name() + "\n").collect()
}

/// Lines of a dozen words of a vocabulary of 500: almost every prefix of four words and more is distinct.
fn prose(n: usize) -> String {
    let mut numbers = numbers();
    let mut line = || (0..12).map(|_| format!("w{}", numbers(500))).collect::<Vec<_>>().join(" ");
    (0..n).map(|_| line() + "\n").collect()
}

/// Pseudo-random numbers below a bound, the same in every run.
fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 1u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    }
}

/// Reports on standard error that a test could not do its work; the test harness would swallow what it prints.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
