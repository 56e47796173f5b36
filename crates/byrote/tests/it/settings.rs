//! The library names settings by their fields; flags belong to the program.

use std::fs;
use std::path::{Path, PathBuf};

/// The pages of figures show the command that draws them.
const SHOWS_COMMANDS: &[&str] = &["report/papers/mod.rs"];

fn sources(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The lines, from 1, of string literals with `--` before a letter.
fn lines_with_flags(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let (mut at, mut inside) = (0, false);
    while at < bytes.len() {
        let rest = &bytes[at..];
        match (inside, rest[0]) {
            (false, b'/') if rest.starts_with(b"//") => {
                at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                continue;
            }
            // A quote as a character, not as the beginning of a string.
            (false, b'\'') if rest.starts_with(b"'\"'") => at += 2,
            (false, b'\'') if rest.starts_with(b"'\\\"'") => at += 3,
            (_, b'"') => inside = !inside,
            (true, b'\\') => at += 1,
            (true, b'-') if rest.starts_with(b"--") && rest.get(2).is_some_and(u8::is_ascii_lowercase) => {
                found.push(1 + text[..at].matches('\n').count());
            }
            _ => {}
        }
        at += 1;
    }
    found
}

#[test]
fn no_message_of_the_library_names_a_flag() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    sources(&root, &mut all);
    let mut wrong = Vec::new();
    for path in all {
        let relative = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        if SHOWS_COMMANDS.contains(&relative.as_str()) {
            continue;
        }
        // Tests may quote what earlier versions wrote.
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in lines_with_flags(code) {
            wrong.push(format!("{relative}:{line}"));
        }
    }
    assert!(wrong.is_empty(), "name the field, and other settings in backticks: {wrong:#?}");
}

#[test]
fn the_scan_sees_literals_only() {
    let text = "// --a\nlet x = \"--b\"; let c = '\"'; // \"--d\n\"\\\"--e\" - --f \"a---b ---\"";
    assert_eq!(lines_with_flags(text), [2, 3, 3]);
}
