//! The layers point one way: a file may use only what stands below it.

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom to the top; a module uses itself and what stands in a row before its own.
const LAYERS: &[&[&str]] = &[
    &["units", "bibliography"],
    &["error", "foreign"],
    &["observe"],
    &["num", "output"],
    &["corpus"],
    &["model"],
    &["bounds"],
    &["train"],
    &["evaluate"],
    &["construct", "incontext"],
    &["certify"],
    &["export"],
    &["lab", "fit"],
    &["report"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.contains(&module))
}

/// The top-level modules that the text of a file names through `crate::`.
fn used(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => {
                let mut depth = 0;
                let end = group.find(|c| {
                    depth += match c {
                        '{' => 1,
                        '}' => -1,
                        _ => 0,
                    };
                    depth < 0
                });
                group[..end.unwrap_or(0)].split(',').map(str::trim).collect()
            }
            None => vec![rest],
        };
        for name in names {
            let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            // `Error`, `Result` and macros are no modules.
            if name.chars().next().is_some_and(char::is_lowercase) {
                found.push(name);
            }
        }
    }
    found
}

fn files(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn layers_point_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&root, &mut all);
    assert!(all.len() > 50, "the sources are where the test looks for them");
    let mut wrong = Vec::new();
    for path in all {
        let relative = path.strip_prefix(&root).unwrap();
        let module = relative.iter().next().unwrap().to_string_lossy().replace(".rs", "");
        if module == "lib" {
            continue;
        }
        let Some(own) = layer(&module) else {
            panic!("{module} stands in no layer: give it one here and in ARCHITECTURE.md");
        };
        for name in used(&fs::read_to_string(&path).unwrap()) {
            match layer(&name) {
                Some(other) if name == module || other < own => {}
                _ => wrong.push(format!("{} uses {name}", relative.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_test_sees_groups_and_paths() {
    let text = "use crate::{Error, corpus::{a, b}, num::Dd};\nlet x: crate::report::Figure;";
    assert_eq!(used(text), ["corpus", "b", "num", "report"].map(String::from));
}
