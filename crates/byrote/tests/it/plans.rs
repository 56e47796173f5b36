//! Plans: the documentation lists every key, and the plans of the project are read.

use byrote::corpus::CorpusSpec;
use byrote::model::ModelSpec;
use byrote::setting::fields;
use byrote::sweep::Plan;
use byrote::train::TrainSpec;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_documentation_lists_every_key_and_no_other() {
    let text = std::fs::read_to_string(root().join("docs/plans.md")).unwrap();
    for (section, known) in [
        ("## `[corpus]`", fields::<CorpusSpec>()),
        ("## `[model]`", fields::<ModelSpec>()),
        ("## `[training]`", fields::<TrainSpec>()),
    ] {
        let from = text.find(section).unwrap() + section.len();
        let part = text[from..].split("\n## ").next().unwrap();
        let listed: Vec<&str> =
            part.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        assert_eq!(listed, known, "{section}");
    }
}

#[test]
fn the_plans_of_the_project_are_read() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("plans")).unwrap() {
        let path = entry.unwrap().path();
        let plan = Plan::load(&path).unwrap();
        assert!(!plan.jobs.is_empty(), "{}", path.display());
        seen += 1;
    }
    assert!(seen > 10);
}
