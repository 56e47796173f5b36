//! The tasks of this repository.
//!
//! ```text
//! cargo xtask check     format, lints, Rust tests; then the wheel in an environment of its own, and the Python tests
//! cargo xtask python    the second half alone; what follows is passed to pytest
//! cargo xtask wheel     build the wheel and print its path
//! ```
//!
//! The wheel is built with the profile and the target directory of the Rust tests, so dependencies compile once. Python comes from
//! `BYROTE_BASE_PYTHON`, or is `python3`. Without one, or if its packages cannot be installed, the second half is skipped, and says so;
//! `BYROTE_TEST_PYTHON=1` makes that an error. `BYROTE_TEST_TORCH=1` also installs torch and transformers, which are large, and requires
//! the tests that need them.
//!
//! The page of `byrote serve` is tested in Chromium. With `BYROTE_TEST_BROWSER=1`, or where `CI` is set, what that needs is installed with
//! apt-get, if this is root on a system that has it; otherwise those tests say that they are skipped. `BYROTE_TEST_BROWSER=1` makes that an
//! error.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

type Result<T = ()> = std::result::Result<T, String>;

/// What the tests of `to_torch` and of training in other libraries need.
const TORCH: [&str; 4] = ["torch", "transformers", "accelerate", "tensorboard"];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("check") => rust().and_then(|()| python(&[])),
        Some("python") => python(&arguments[1..]),
        Some("wheel") => environment().and_then(|found| match found {
            Some(environment) => wheel(&environment).map(|path| println!("{}", path.display())),
            None => Err("there is no Python to build the wheel with".into()),
        }),
        _ => Err("usage: cargo xtask check | python [PYTEST ARGUMENTS] | wheel".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command in the repository and reports how long it took.
fn run(program: impl AsRef<OsStr>, arguments: &[&str], settings: &[(&str, &str)]) -> Result {
    let shown = format!("{} {}", program.as_ref().to_string_lossy(), arguments.join(" "));
    eprintln!("xtask: {shown}");
    let started = Instant::now();
    let status =
        Command::new(program).args(arguments).envs(settings.iter().copied()).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => {
            eprintln!("xtask: done in {:.0} s", started.elapsed().as_secs_f64());
            Ok(())
        }
        Ok(status) => Err(format!("{shown} ended with {status}")),
        Err(error) => Err(format!("cannot run {shown}: {error}")),
    }
}

/// Installs what tests in a browser need, where that is wanted and possible. Without it those tests say that they are skipped.
fn browser() -> Result {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let needed = [
        (&["chromium", "chromium-browser", "google-chrome"][..], "chromium"),
        (&["node"], "nodejs"),
        (&["npm"], "npm"),
    ];
    let missing: Vec<&str> =
        needed.iter().filter(|(names, _)| !names.iter().any(is_there)).map(|(_, package)| *package).collect();
    let is_required = env::var_os("BYROTE_TEST_BROWSER").is_some_and(|value| value == "1");
    let is_wanted =
        is_required || env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    if missing.is_empty() || !is_wanted {
        return Ok(());
    }
    let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
    let install = [&["install", "-y", "-q", "--no-install-recommends"][..], &missing].concat();
    // The list of packages of a fresh machine is empty.
    let installed = run("apt-get", &["update", "-q"], &quiet).and_then(|()| run("apt-get", &install, &quiet));
    match installed {
        Err(message) if is_required => Err(format!("the page cannot be tested in a browser: {message}")),
        Err(message) => {
            eprintln!("SKIPPED: the page in a browser: {message}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Format, lints and Rust tests.
fn rust() -> Result {
    let cargo = |line: &str, settings: &[(&str, &str)]| {
        let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        run(program, &line.split(' ').collect::<Vec<_>>(), settings)
    };
    cargo("fmt --all --check", &[])?;
    cargo("clippy --release --workspace --all-targets -- -D warnings", &[])?;
    cargo("clippy --release -p byrote --no-default-features -- -D warnings", &[])?;
    cargo("clippy --release -p byrote --all-targets --features bench-internals,onnx -- -D warnings", &[])?;
    // The instruction sets are sealed: examples that only compile, or fail to, with the names that the first feature exports.
    // The second is tested in the same build of the library.
    cargo("test --release -p byrote --doc --features bench-internals,onnx num::simd", &[])?;
    cargo("test --release -p byrote --test onnx_runtime --features bench-internals,onnx", &[])?;
    browser()?;
    // The only run of the tests that move gigabytes.
    cargo("test --release --workspace", &[("BYROTE_TEST_HUGE", "1")])
}

/// A virtual environment with what the Python tests need; none if there is no Python.
fn environment() -> Result<Option<PathBuf>> {
    let python = env::var_os("BYROTE_BASE_PYTHON").unwrap_or_else(|| "python3".into());
    let usable = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
    let found = Command::new(&python).args(["-c", usable]).status();
    if !found.is_ok_and(|status| status.success()) {
        let name = python.to_string_lossy();
        return skipped(&format!("{name} is not a Python of at least 3.10 with venv and pip"));
    }
    let environment = target().join("python");
    let own = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !own.exists() {
        run(&python, &["-m", "venv", &environment.to_string_lossy()], &[])?;
    }
    let mut install = vec!["-m", "pip", "install", "--quiet", "-r", "python/requirements-dev.txt"];
    if env::var_os("BYROTE_TEST_TORCH").is_some_and(|value| value == "1") {
        install.extend(TORCH);
    }
    match run(&own, &install, &[]) {
        Ok(()) => Ok(Some(own)),
        Err(message) => skipped(&format!("its packages cannot be installed: {message}")),
    }
}

/// Says that there is no environment; an error if one is required.
fn skipped(why: &str) -> Result<Option<PathBuf>> {
    if env::var_os("BYROTE_TEST_PYTHON").is_some_and(|value| value == "1") {
        return Err(format!("the tests of the Python package cannot run: {why}"));
    }
    eprintln!("SKIPPED: the tests of the Python package: {why}");
    Ok(None)
}

/// Builds the wheel and returns its path.
fn wheel(python: &Path) -> Result<PathBuf> {
    let folder = target().join("wheels");
    // A wheel of another version must not be installed by mistake.
    let _ = std::fs::remove_dir_all(&folder);
    run(
        python,
        &["-m", "maturin", "build", "--release", "--locked", "--out", &folder.to_string_lossy()],
        &[],
    )?;
    let found = std::fs::read_dir(&folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let wheel =
        found.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    wheel.ok_or_else(|| format!("there is no wheel in {}", folder.display()))
}

/// Builds and installs the wheel, then runs the tests, the examples of the documentation, and the checks of types.
fn python(arguments: &[String]) -> Result {
    let Some(python) = environment()? else { return Ok(()) };
    let wheel = wheel(&python)?;
    run(
        &python,
        &["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", &wheel.to_string_lossy()],
        &[],
    )?;
    let mut tests = vec!["-m", "pytest", "-q", "python/tests"];
    tests.extend(arguments.iter().map(String::as_str));
    run(&python, &tests, &[])?;
    run(
        &python,
        &["-m", "pytest", "-q", "--doctest-modules", "--doctest-ignore-import-errors", "--pyargs", "byrote"],
        &[],
    )?;
    run(&python, &["-m", "mypy"], &[])?;
    run(&python, &["-m", "mypy.stubtest", "byrote._byrote"], &[])
}
