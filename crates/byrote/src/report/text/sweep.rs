//! Sweeps as text.

use super::{TextTable, duration};
use crate::Result;
use crate::report::numbers::{nats, share_of_floor};
use crate::sweep::{Corpora, Job, JobRow, Plan, SweepOutcome};
use crate::units::{grouped, grouped_number};

/// Shows the results of a sweep: how it ended, and its first hundred rows.
pub fn results(plan: &Plan, rows: &[JobRow], outcome: &SweepOutcome) -> String {
    let mut out = format!(
        "{}: {} of {} jobs done, {} failed\n\n",
        plan.name,
        grouped(outcome.done as u64),
        grouped(outcome.jobs as u64),
        outcome.failed
    );
    let mut heads = vec![
        "documents",
        "contexts",
        "d_model",
        "d_mlp",
        "parameters",
        "seed",
        "steps",
        "stop",
        "gap / prediction",
        "gap / floor",
        "gap (nats)",
        "memorized",
    ];
    let varied = varied(rows.iter().take(100).map(|row| &row.settings));
    heads.extend(varied.iter().map(|(name, _)| name.as_str()));
    let mut table = TextTable::new(&heads, &[7]);
    for (i, row) in rows.iter().enumerate().take(100) {
        let result = row.result.as_ref();
        let mut cells = vec![
            grouped(row.documents),
            grouped(row.contexts),
            row.settings.model.width().to_string(),
            grouped(row.d_mlp),
            grouped(row.parameters),
            row.settings.seed.to_string(),
            result.map_or(String::new(), |r| grouped(r.steps)),
            result.map_or_else(|| "failed".to_owned(), |r| r.stop.to_string()),
            row.gap_per_prediction().map_or(String::new(), nats),
            row.relative_gap().filter(|_| row.floor_nats > 0.0).map_or(String::new(), share_of_floor),
            result.map_or(String::new(), |r| grouped_number(r.gap_nats, 3)),
            result.map_or(String::new(), |r| grouped(r.memorized)),
        ];
        cells.extend(varied.iter().map(|(_, values)| values[i].clone()));
        table.row(cells);
    }
    out += &table.fitted(&[0, 10, 2, 4, 11, 5]);
    let failed = rows.iter().filter_map(|row| Some((row, row.error.as_ref()?)));
    for (row, error) in failed.take(20) {
        out += &format!("{} neurons, seed {}: {error}\n", grouped(row.d_mlp), row.settings.seed);
    }
    if rows.len() > 100 {
        out += &format!("... {} more in results.csv\n", rows.len() - 100);
    }
    out
}

/// The settings in which jobs differ, beyond those that have columns of their own, with their values.
fn varied<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Vec<(String, Vec<String>)> {
    const SHOWN: [&str; 5] = ["documents", "builtin", "d_model", "d_mlp", "seed"];
    let jobs: Vec<serde_json::Value> =
        jobs.into_iter().map(|job| serde_json::to_value(job).unwrap_or_default()).collect();
    let Some(first) = jobs.first() else { return Vec::new() };
    let settings = ["corpus", "model", "training"].into_iter().flat_map(|part| {
        let names = first[part].as_object().into_iter().flat_map(|object| object.keys());
        names.map(move |name| (part, name))
    });
    settings
        .filter(|(_, name)| !SHOWN.contains(&name.as_str()))
        .map(|(part, name)| (name.clone(), jobs.iter().map(|job| &job[part][name]).collect::<Vec<_>>()))
        .filter(|(_, values)| values.iter().any(|value| *value != values[0]))
        .map(|(name, values)| (name, values.into_iter().map(in_a_cell).collect()))
        .collect()
}

/// A setting as it is written in a plan, without quotes; nothing for one that is left out.
fn in_a_cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Shows the jobs of a plan before they run: their sizes and about how long each takes.
pub fn jobs(plan: &Plan, corpora: &Corpora) -> Result<String> {
    let mut heads =
        vec!["job", "documents", "contexts", "preset", "d_model", "d_mlp", "parameters", "seed", "about (s)"];
    let varied = varied(plan.jobs.iter().take(200));
    heads.extend(varied.iter().map(|(name, _)| name.as_str()));
    let mut table = TextTable::new(&heads, &[0, 3]);
    for (i, job) in plan.jobs.iter().enumerate().take(200) {
        let dataset = corpora.of(job)?;
        let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx());
        let d_mlp = config.as_ref().map_or(job.model.d_mlp, |c| Some(c.shape.d_mlp));
        let mut cells = vec![
            job.id(dataset),
            grouped(dataset.documents()),
            grouped(dataset.len() as u64),
            job.model.preset.unwrap_or_default().to_string(),
            job.model.width().to_string(),
            d_mlp.map_or(String::new(), grouped),
            config.map_or_else(|error| error.to_string(), |c| grouped(c.n_parameters() as u64)),
            job.seed.to_string(),
            format!("{:.1}", job.estimated_seconds(corpora)),
        ];
        cells.extend(varied.iter().map(|(_, values)| values[i].clone()));
        table.row(cells);
    }
    let mut out = table.fitted(&[1, 4, 3, 2]);
    if plan.jobs.len() > 200 {
        out += &format!("... {} more: see `json`\n", plan.jobs.len() - 200);
    }
    let (n, seconds) = (grouped(plan.jobs.len() as u64), plan.estimated_seconds(corpora));
    let jobs = if plan.jobs.len() == 1 { "job" } else { "jobs" };
    Ok(out + &format!("\n{n} {jobs}, about {}\n", duration(seconds.max(1.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_vary_have_a_column() {
        let text = "[corpus]\nbuiltin = [5, 6]\n[model]\nd_mlp = 4\n[training]\noptimizer = \"adam\"\nlr = [0.01, 0.1]\n";
        let plan = Plan::parse(text, "rates").unwrap();
        let found = varied(&plan.jobs);
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["lr"]);
        let mut rates = found[0].1.clone();
        rates.sort();
        assert_eq!(rates, ["0.01", "0.01", "0.1", "0.1"]);
    }
}
