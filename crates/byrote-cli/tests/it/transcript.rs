//! The commands and outputs shown in README.md, run and compared.
//!
//! A block is either fenced with three backticks or indented by four spaces. One with a line that begins with `$ byrote` is
//! a transcript: each such line is run in order in a directory of its own (shared by the block), and what the program prints
//! is compared with the lines that follow it. `...` stands for any text within a line, or for any number of lines when it is
//! alone on its line. A command that nothing follows is run and must succeed. Text after ` # ` is a comment.
//!
//! What cannot be run in a fresh clone (the reader's own files, long runs) is fenced as `text skip`.

use crate::Case;
use std::path::Path;

#[derive(Debug, PartialEq)]
struct Command {
    /// The line of README.md, from 1.
    line: usize,
    typed: String,
    output: Vec<String>,
}

/// The transcripts of a page: the commands of each block.
fn transcripts(page: &str) -> Vec<Vec<Command>> {
    let mut blocks: Vec<Vec<(usize, String)>> = Vec::new();
    let (mut fence, mut indented): (Option<bool>, Option<Vec<(usize, String)>>) = (None, None);
    for (number, line) in (1..).zip(page.lines()) {
        if let Some(info) = line.strip_prefix("```") {
            blocks.extend(indented.take());
            fence = match fence {
                Some(_) => None,
                None => {
                    let is_read = !info.split([' ', ',']).any(|word| word == "skip");
                    blocks.push(Vec::new());
                    Some(is_read)
                }
            };
        } else if let Some(is_read) = fence {
            if is_read {
                blocks.last_mut().unwrap().push((number, line.to_owned()));
            }
        } else if let Some(text) = line.strip_prefix("    ") {
            indented.get_or_insert_default().push((number, text.to_owned()));
        } else if line.is_empty() {
            // A blank line may stand within an indented block.
            if let Some(block) = &mut indented {
                block.push((number, String::new()));
            }
        } else {
            blocks.extend(indented.take());
        }
    }
    blocks.extend(indented);
    let commands = |block: Vec<(usize, String)>| {
        let mut commands: Vec<Command> = Vec::new();
        for (line, text) in block {
            match text.strip_prefix("$ ") {
                Some(typed) => {
                    let typed = typed.split("  #").next().unwrap_or_default().trim_end().to_owned();
                    commands.push(Command { line, typed, output: Vec::new() });
                }
                None => {
                    if let Some(command) = commands.last_mut() {
                        command.output.push(text.trim_end().to_owned());
                    }
                }
            }
        }
        for command in &mut commands {
            while command.output.last().is_some_and(String::is_empty) {
                command.output.pop();
            }
        }
        commands
    };
    blocks.into_iter().map(commands).filter(|commands| !commands.is_empty()).collect()
}

/// Whether a line is as expected; `...` stands for anything.
fn line_fits(expected: &str, found: &str) -> bool {
    let mut parts = expected.split("...");
    let Some(mut rest) = found.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether lines are as expected; a line of `...` stands for any number of them.
fn fits(expected: &[String], found: &[&str]) -> bool {
    match expected {
        [] => found.is_empty(),
        [first, rest @ ..] if first.trim() == "..." => (0..=found.len()).any(|n| fits(rest, &found[n..])),
        [first, rest @ ..] => {
            found.first().is_some_and(|line| line_fits(first, line)) && fits(rest, &found[1..])
        }
    }
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = transcripts(&page);
    assert!(!blocks.is_empty(), "no transcript is left to check");
    for block in blocks {
        let case = Case::new();
        for Command { line, typed, output } in block {
            assert!(
                typed.starts_with("byrote "),
                "README.md, line {line}: only byrote is run; fence the block as `text skip`"
            );
            let script = format!("byrote() {{ \"$0\" \"$@\"; }}; {typed}");
            let mut shell = std::process::Command::new("bash");
            shell.args(["-c", &script, env!("CARGO_BIN_EXE_byrote")]).current_dir(case.path("."));
            let run = shell.stdin(std::process::Stdio::null()).output().unwrap();
            let printed = String::from_utf8_lossy(&run.stdout).into_owned();
            let problems = String::from_utf8_lossy(&run.stderr).into_owned();
            assert!(run.status.success(), "README.md, line {line}: {typed}: {problems}");
            let found: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
            assert!(
                output.is_empty() || fits(&output, &found),
                "README.md, line {line}: {typed} prints\n{printed}\nand not\n{}",
                output.join("\n")
            );
        }
    }
}

#[test]
fn transcripts_are_found_and_compared() {
    let page = "# x\n\n    $ byrote a  # note\n    one ...\n\n    two\n    $ byrote b\n\ntext\n\n```text skip\n$ byrote c\n```\n\n\
                ```console\n$ byrote d\n...\nlast\n```\n\n    not a transcript\n";
    let command = |line, typed: &str, output: &[&str]| Command {
        line,
        typed: typed.to_owned(),
        output: output.iter().map(|s| s.to_string()).collect(),
    };
    assert_eq!(
        transcripts(page),
        [
            vec![command(3, "byrote a", &["one ...", "", "two"]), command(7, "byrote b", &[])],
            vec![command(16, "byrote d", &["...", "last"])],
        ]
    );
    let fit = |expected: &[&str], found: &[&str]| {
        fits(&expected.iter().map(|s| s.to_string()).collect::<Vec<_>>(), found)
    };
    assert!(fit(&["a ... c ... e", "...", "z"], &["a b c d e", "x", "y", "z"]));
    assert!(fit(&["a", "...", "z"], &["a", "z"]) && fit(&["a ..."], &["a b"]));
    assert!(!fit(&["a ... c"], &["a b"]) && !fit(&["a"], &["a", "b"]) && !fit(&["ab", "..."], &["abc"]));
}
