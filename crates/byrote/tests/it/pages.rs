//! The documentation: every link leads to a file, and no placeholder remains.

use std::fs;
use std::path::{Path, PathBuf};

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

/// The targets of `[text](target)`, including images.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '#']).next())
}

#[test]
fn links_lead_to_files_and_no_place_is_left_open() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)).to_vec();
    pages(&root.join("docs"), &mut found);
    assert!(found.len() > 5, "{found:?}");
    let mut wrong = Vec::new();
    for page in &found {
        let text = fs::read_to_string(page).unwrap();
        let folder = page.parent().unwrap();
        let elsewhere = |t: &str| t.is_empty() || t.contains("://") || t.starts_with("mailto:");
        for target in targets(&text).filter(|t| !elsewhere(t) && !folder.join(t).exists()) {
            wrong.push(format!("{}: {target} is not there", page.display()));
        }
        for mark in ["@@", "TODO", "FIXME", "XXX", "SPEEDTABLE"] {
            if text.contains(mark) {
                wrong.push(format!("{}: {mark}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
