//! One Ctrl-C ends any command soon, with exit code 130. What has nothing to keep writes no file.
#![cfg(target_os = "linux")]

use crate::{Case, prose};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The processor time that a process has used, in hundredths of a second.
fn used(child: &Child) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The name of the program, in parentheses, is the second field.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// Processor time that a command may use after the signal, in hundredths of a second: a second on each of two threads, with a
/// margin. The clock is no measure on a machine that does other things.
const SOON: u64 = 300;

/// Starts a command, sends it a signal in the middle of its work, expects it to end soon, and returns what it said. The other
/// limits are there so that a bug does not hang the tests: without an answer to the signal, every one of these commands takes
/// minutes.
fn ends_soon(case: &Case, arguments: &[&str], signal: &str) -> String {
    let mut child =
        case.command().args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while used(&child) < 40 {
        assert!(started.elapsed() < Duration::from_secs(120), "{arguments:?} does not begin");
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?} is over too soon");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let (asked, used_before) = (Instant::now(), used(&child));
    while child.try_wait().unwrap().is_none() {
        let more = used(&child).saturating_sub(used_before);
        if more > SOON || asked.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{arguments:?} does not stop");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{arguments:?}: {message}");
    assert!(message.contains("stopping; press Ctrl-C again to force\n"), "{arguments:?}: {message}");
    message
}

/// A command that ends soon and writes nothing.
fn is_stopped(case: &Case, arguments: &[&str], signal: &str) -> String {
    let before = case.names();
    let message = ends_soon(case, arguments, signal);
    assert_eq!(case.names(), before, "{arguments:?}");
    message
}

#[test]
fn a_study_that_is_ended_says_that_it_can_be_resumed() {
    let case = Case::new();
    std::fs::create_dir(case.path("s")).unwrap();
    // One very long read that only the watchdog ends, or closed forms that are cut: either says so.
    let message = is_stopped(&case, &["study", "--random", "134217728", "--out", "s"], "-INT");
    assert!(message.ends_with("run the same command again to resume\n"), "{message}");
}

#[test]
fn ranks_and_encoders_stop() {
    let case = Case::new();
    is_stopped(&case, &["rank", "--n", "1024"], "-INT");
    is_stopped(&case, &["bounds", "--encoder", "64"], "-INT");
}

#[test]
fn builders_stop_and_write_nothing() {
    let case = Case::new();
    case.file("prose.txt", prose(700));
    let madden = ["build", "madden2024", "prose.txt", "--activation", "gelu", "--out", "m.safetensors"];
    is_stopped(&case, &madden, "-INT");
    let dana = [
        "build",
        "dana2024",
        "--random",
        "4000",
        "--lengths",
        "2..2",
        "--d-vocab",
        "100",
        "--out",
        "d.safetensors",
    ];
    is_stopped(&case, &dana, "-TERM");
    let kajitsuka = ["build", "kajitsuka2024", "--random", "200000", "--out", "k"];
    is_stopped(&case, &kajitsuka, "-INT");
}

#[test]
fn corpora_stop_while_they_are_counted_and_listed() {
    let case = Case::new();
    is_stopped(&case, &["corpus", "--random", "134217728"], "-INT");
    is_stopped(&case, &["corpus", "--builtin", "20000000", "--list", "all.csv"], "-TERM");
    is_stopped(&case, &["corpus", "--builtin", "100000000", "--write", "stories.txt"], "-INT");
}

#[test]
fn networks_in_context_stop() {
    let case = Case::new();
    is_stopped(&case, &["incontext", "--d", "4096", "--csv", "errors.csv"], "-INT");
}

#[test]
fn training_stops_within_a_step_and_resumes() {
    let case = Case::new();
    let train = ["train", "--builtin", "20000", "--d-mlp", "2048", "--threads", "1"];
    is_stopped(&case, &train, "-INT");
    let kept: Vec<&str> = train.into_iter().chain(["--out", "run", "--resume"]).collect();
    ends_soon(&case, &kept, "-TERM");
    ends_soon(&case, &kept, "-INT");
}

#[test]
fn sweeps_stop_within_a_step_and_resume() {
    let case = Case::new();
    case.file("wide.toml", "[corpus]\ndocuments = [10000, 20000]\n[model]\nd_mlp = 2048\n");
    ends_soon(&case, &["sweep", "wide.toml", "--out", "run"], "-INT");
    ends_soon(&case, &["sweep", "wide.toml", "--out", "run"], "-TERM");
    assert!(case.path("run/manifest.toml").exists());
}

#[test]
fn evaluations_and_certificates_stop() {
    let case = Case::new();
    let train = ["train", "--builtin", "20000", "--d-mlp", "2048", "--steps", "1", "--out", "run"];
    assert!(case.run(train).status.success());
    is_stopped(&case, &["eval", "run/model.safetensors", "--builtin", "20000"], "-INT");
    is_stopped(&case, &["certify", "run/model.safetensors", "--builtin", "20000"], "-TERM");
}
