//! Large texts under a memory limit.

use crate::{Case, huge_tests, skipped};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

/// Writes `size` bytes of lines of a dozen words, most of them distinct, to `out`.
fn lines(mut out: impl Write, size: usize, n_words: usize) {
    let words: Vec<String> = (0..n_words).map(|i| format!("w{i}")).collect();
    let (mut state, mut written) = (1u64, 0);
    let mut block = String::new();
    while written < size {
        block.clear();
        while block.len() < 1 << 20 {
            for i in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Few words at the beginning of a line, so that contexts are shared; then all of them.
                let range = if i < 4 { 40 } else { words.len() as u64 };
                block.push_str(&words[((state >> 33) % range) as usize]);
                block.push(if i == 11 { '\n' } else { ' ' });
            }
        }
        if out.write_all(block.as_bytes()).is_err() {
            return; // The program has exited, and its exit code says why.
        }
        written += block.len();
    }
}

/// Counts lines through a pipe. Returns the results and, where the system reports it, the peak memory.
fn count(case: &Case, size: usize, n_words: usize, arguments: &[&str]) -> (Value, Option<u64>) {
    let mut child = case
        .command()
        .args(["corpus", "-", "--json"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || lines(input, size, n_words));
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    while child.try_wait().unwrap().is_none() {
        let high = std::fs::read_to_string(&status).ok().and_then(|s| {
            let line = s.lines().find(|l| l.starts_with("VmHWM:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
        peak = high.map(|kib| kib * 1024).or(peak);
        std::thread::sleep(Duration::from_millis(2));
    }
    feeder.join().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    (serde_json::from_slice(&output.stdout).unwrap(), peak)
}

#[test]
fn a_gigabyte_fits_into_256_megabytes() {
    if !huge_tests() {
        return;
    }
    let case = Case::new();
    let (bounded, peak) = count(&case, 1 << 30, 5_000, &["--max-memory", "256M"]);
    match peak {
        Some(peak) => assert!(peak < 400_000_000, "peak of {peak} bytes"),
        None => skipped("the system does not report peak memory"),
    }
    assert!(bounded["documents"].as_u64().unwrap() > 10_000_000);
    let (free, _) = count(&case, 1 << 30, 5_000, &["--max-memory", "1T"]);
    assert_eq!(bounded, free);
    assert!(case.names().is_empty());
}

#[test]
fn many_words_and_many_runs_fit_into_16_megabytes() {
    // A text of many times the memory given, in many runs.
    let case = Case::new();
    let (bounded, peak) = count(&case, 48 << 20, 60_000, &["--max-memory", "16M"]);
    if let Some(peak) = peak {
        assert!(peak < 120_000_000, "peak of {peak} bytes");
    }
    assert_eq!(bounded, count(&case, 48 << 20, 60_000, &["--max-memory", "1T"]).0);
}

#[test]
fn many_words_and_many_runs_fit_into_64_megabytes() {
    if !huge_tests() {
        return;
    }
    let case = Case::new();
    let (bounded, peak) = count(&case, 200 << 20, 300_000, &["--max-memory", "64M"]);
    if let Some(peak) = peak {
        assert!(peak < 200_000_000, "peak of {peak} bytes");
    }
    assert_eq!(bounded, count(&case, 200 << 20, 300_000, &["--max-memory", "1T"]).0);
}
