//! The page of a sweep as a browser shows it.

#[path = "../../../byrote-figures/tests/it/probe.rs"]
pub(crate) mod probe;

use byrote::observe::Silent;
use byrote::report::sweep_page;
use byrote::sweep::{Corpora, Directory, Plan, Record, SweepOptions, run};
use probe::{browser, check_figures, check_page, probe, strings};

#[test]
fn the_page_of_a_run_shows_the_numbers_of_its_results() {
    let Some(chromium) = browser() else { return };
    let text = "name = \"run\"\nseeds = [0, 1]\n[corpus]\ndocuments = [10, 20, 30, 40]\n[model]\npreset = \"average\"\n\
                d_mlp = [4, 16, 64]\n[training]\nsteps = 80";
    let plan = Plan::parse(text, "run").unwrap();
    let corpora = Corpora::read(&plan.jobs, &Silent).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut directory = Directory::open(place.path(), &plan, &corpora).unwrap();
    run(&plan, &corpora, &mut directory, SweepOptions::default(), &Silent).unwrap();
    let record = Record::load(place.path()).unwrap();
    let page = sweep_page::page(&record, "byrote sweep run.toml").unwrap();
    for width in [1200, 500] {
        let seen = probe(&chromium, &page, width);
        check_page(&page, &seen);
        check_figures(&page, &seen);
        let results = std::fs::read_to_string(place.path().join("results.csv")).unwrap();
        let files: Vec<Vec<String>> = seen["csv"].as_array().unwrap().iter().map(strings).collect();
        assert!(files.iter().any(|f| f[0] == "results.csv" && f[1] == results), "the file behind the page");
        // The last table, cell by cell.
        let tables = seen["tables"].as_array().unwrap();
        let shown: Vec<Vec<String>> =
            tables.last().unwrap().as_array().unwrap().iter().map(strings).collect();
        let column = |name: &str| results.lines().next().unwrap().split(',').position(|h| h == name).unwrap();
        assert_eq!(shown.len(), results.lines().count() - 1);
        for (cells, line) in shown.iter().zip(results.lines().skip(1)) {
            let fields: Vec<&str> = line.split(',').collect();
            for (cell, name) in
                [(0, "contexts"), (4, "parameters"), (5, "seed"), (6, "steps"), (10, "memorized")]
            {
                assert_eq!(cells[cell].replace(',', ""), fields[column(name)], "{name}: {line}");
            }
            let gap: f64 = fields[column("gap_nats")].parse().unwrap();
            let shown: f64 = cells[9].replace(',', "").parse().unwrap();
            assert!((shown - gap).abs() <= 0.006 * gap.abs(), "{shown} for {gap}");
        }
    }
}
