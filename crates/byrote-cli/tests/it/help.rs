//! The help of every command, compared with the files in `tests/help/`.
//!
//! `BYROTE_BLESS=1 cargo test --release -p byrote-cli help` writes them anew; a change of the help is then visible in the
//! diff of a commit.

use crate::{Case, bless};
use std::collections::BTreeSet;
use std::path::Path;

/// The commands that a help text lists, one per line after `Commands:`.
pub fn commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let entries = list.take_while(|line| line.starts_with("  "));
    // A description that continues on the next line is indented further.
    let names =
        entries.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|&name| name != "help").map(str::to_owned).collect()
}

pub fn help(case: &Case, command: &[String]) -> String {
    let mut program = case.command();
    // Text is wrapped at the width of the terminal.
    let output = program.env("COLUMNS", "100").args(command).arg("--help").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The help of a command and of those below it, by the name of its file.
fn collect(case: &Case, command: &[String], out: &mut Vec<(String, String)>) {
    let text = help(case, command);
    let below = commands(&text);
    out.push((format!("{}.txt", [&["byrote".to_owned()], command].concat().join("-")), text));
    for name in below {
        collect(case, &[command, &[name]].concat(), out);
    }
}

#[test]
fn the_help_of_every_command_is_the_one_on_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let mut all = Vec::new();
    collect(&Case::new(), &[], &mut all);
    assert!(all.len() > 15, "{} commands", all.len());
    if bless() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        all.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
    }
    let on_file = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(on_file.collect::<BTreeSet<_>>(), names, "BYROTE_BLESS=1 writes them anew");
    for (name, text) in &all {
        let expected = std::fs::read_to_string(folder.join(name)).unwrap();
        for (line, (found, expected)) in (1..).zip(text.lines().zip(expected.lines())) {
            assert_eq!(found, expected, "{name}, line {line}; BYROTE_BLESS=1 writes it anew");
        }
        assert_eq!(text.lines().count(), expected.lines().count(), "{name}; BYROTE_BLESS=1 writes it anew");
    }
}
