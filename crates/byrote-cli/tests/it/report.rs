//! `byrote report`, on sweeps and audits, and the figures that are sweeps.

#[path = "../../../byrote/examples/audit_any_model.rs"]
#[allow(dead_code)]
mod audit_any_model;

use crate::Case;
use audit_any_model::{Texts, audit};
use byrote::audit::AuditSpec;
use byrote::report::audit_page;

/// Twelve quick jobs.
const PLAN: &str = r#"
name = "quick"
seeds = [0, 1]
[corpus]
documents = [10, 20]
[model]
preset = "average"
d_mlp = [2, 8, 32]
[training]
steps = 60
"#;

fn page(case: &Case, directory: &str) -> String {
    std::fs::read_to_string(case.path(directory).join("report.html")).unwrap()
}

#[test]
fn a_sweep_ends_with_a_page_and_report_draws_the_same() {
    let case = Case::new();
    case.file("plan.toml", PLAN);
    let swept = case.json(["sweep", "plan.toml", "--out", "run"]);
    assert!(swept["report_file"].as_str().unwrap().ends_with("report.html"));
    let first = page(&case, "run");
    assert!(first.contains("All 12 jobs are done."));
    assert!(case.path("run/figures/gaps.svg").exists() && case.path("run/figures/gaps.csv").exists());
    let shown = case.json(["report", "run"]);
    assert_eq!((shown["done"].as_u64(), shown["complete"].as_bool()), (Some(12), Some(true)));
    assert_eq!(page(&case, "run"), first);
}

#[test]
fn half_a_run_has_a_page_that_says_so() {
    let case = Case::new();
    case.file("plan.toml", PLAN);
    assert!(case.run(["sweep", "plan.toml", "--out", "run", "--quiet"]).status.success());
    // As after a kill: five jobs done, the sixth line half written.
    let journal = case.path("run/journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let end = text.match_indices('\n').nth(5).unwrap().0 + 40;
    std::fs::write(&journal, &text[..end]).unwrap();
    let shown = case.json(["report", "run"]);
    assert_eq!((shown["done"].as_u64(), shown["complete"].as_bool()), (Some(5), Some(false)));
    assert!(page(&case, "run").contains("5 of 12 jobs are done: the run is not complete."));
    // Drawing changed nothing: the run continues.
    assert!(case.run(["sweep", "plan.toml", "--out", "run", "--quiet"]).status.success());
    assert!(page(&case, "run").contains("All 12 jobs are done."));
}

#[test]
fn failed_jobs_are_on_the_page() {
    let case = Case::new();
    case.file(
        "plan.toml",
        "name = \"bad\"\n[corpus]\ndocuments = 10\n[model]\npreset = \"dana2024\"\nd_mlp = [0, 5]\n",
    );
    assert_eq!(case.run(["sweep", "plan.toml", "--out", "run", "--quiet"]).status.code(), Some(1));
    assert!(page(&case, "run").contains("1 of 2 jobs are done, 1 failed."));
}

#[test]
fn an_audit_is_drawn_again_and_an_unfinished_one_says_so() {
    let case = Case::new();
    let texts = Texts::write(&case.path("texts")).unwrap();
    let spec = AuditSpec::default().prefix(10).suffix(10).lengths(4).windows(20);
    let audited = audit(&texts, spec, Some(&case.path("audit"))).unwrap();
    audit_page(&audited, "byrote audit model text", &case.path("audit")).unwrap();
    let first = page(&case, "audit");
    let shown = case.json(["report", "audit"]);
    assert_eq!((shown["name"].as_str(), shown["complete"].as_bool()), (Some("audit"), Some(true)));
    assert_eq!(shown["verdict"][0].as_str(), Some(audited.audit.verdict[0].as_str()));
    assert_eq!(page(&case, "audit"), first);
    let output = case.run(["report", "audit"]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(&audited.audit.verdict[0]));
    // As after a kill: scores, but no result yet.
    std::fs::remove_file(case.path("audit/audit.json")).unwrap();
    let output = case.run(["report", "audit"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("audit: the audit is not complete: run its command again to resume"), "{said}");
}

#[test]
fn what_is_no_run_directory_is_an_error() {
    let case = Case::new();
    std::fs::create_dir(case.path("empty")).unwrap();
    case.file("file.txt", "a b c\n");
    for (directory, says) in [
        ("empty", "is not a run directory"),
        ("nowhere", "nowhere: this directory does not exist"),
        ("file.txt", "file.txt: is a file, not a run directory"),
    ] {
        let output = case.run(["report", directory]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(says), "{directory}");
    }
}

#[test]
fn every_figure_is_listed_and_planned_in_minutes_and_hours() {
    let case = Case::new();
    let listed = case.json(["reproduce"]);
    let keys: Vec<&str> =
        listed["figures"].as_array().unwrap().iter().map(|f| f["figure"].as_str().unwrap()).collect();
    for key in [
        "madden2024-fig1",
        "madden2024-theorem1",
        "madden2024-mixers",
        "madden2024-depth",
        "dana2024-fig1a",
        "dana2024-fig1b",
        "dana2024-fig2a",
        "dana2024-fig2b",
        "dana2024-fig3",
        "dana2024-fig4",
        "dana2024-ablation",
        "dana2024-depth",
        "morris2025-small",
        "mixers",
        "kajitsuka2024-scaling",
        "kajitsuka2024-sharpness",
        "constructions",
        "sander2024-fig1",
        "sander2024-fig2",
        "sander2024-fig3",
        "sander2024-fig4",
        "sander2024-depth",
        "capacity",
    ] {
        assert!(keys.contains(&key), "{key}");
        let small = case.json(["reproduce", key, "--dry-run"]);
        let full = case.json(["reproduce", key, "--full", "--dry-run"]);
        if let (Some(small), Some(full)) =
            (small["estimated_seconds"].as_f64(), full["estimated_seconds"].as_f64())
        {
            assert!(small < 1800.0 && full > small && full < 86_400.0, "{key}: {small} and {full} seconds");
        }
    }
    assert!(!case.path("madden2024-fig1").exists(), "a dry run writes nothing");
}
