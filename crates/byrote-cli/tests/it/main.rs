//! Tests of the program as its users run it.
#![allow(clippy::unwrap_used)]

mod bounds;
mod build;
mod build_dana2024;
mod corpus;
mod errors;
mod export;
mod incontext;
mod kajitsuka2024;
mod memory;
mod rank;
mod report;
mod study;
mod sweep;
mod train;

use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program, in a directory of its own.
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

/// Data beside the project, where it is there; otherwise the test says that it is skipped.
fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !path.exists() {
        skipped(&format!("{name} is not beside the project"));
        return None;
    }
    Some(path)
}

/// Whether tests that move gigabytes should run: only with `BYROTE_TEST_HUGE=1`, as in `.ci/run`.
fn huge_tests() -> bool {
    let wanted = std::env::var_os("BYROTE_TEST_HUGE").is_some_and(|value| value == "1");
    if !wanted {
        skipped("a test that moves gigabytes; set BYROTE_TEST_HUGE=1 to run it");
    }
    wanted
}

/// Reports that a test was skipped, on standard error directly: the test harness hides the output of passing tests.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
