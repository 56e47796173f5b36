//! Sweeps as text.

use super::{TextTable, duration};
use crate::Result;
use crate::report::numbers::{nats, share_of_floor};
use crate::sweep::{Corpora, JobRow, Plan, SweepOutcome};
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
    let heads = [
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
    let mut table = TextTable::new(&heads, &[7]);
    for row in rows.iter().take(100) {
        let result = row.result.as_ref();
        table.row(vec![
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
        ]);
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

/// Shows the jobs of a plan before they run: their sizes and about how long each takes.
pub fn jobs(plan: &Plan, corpora: &Corpora) -> Result<String> {
    let heads =
        ["job", "documents", "contexts", "preset", "d_model", "d_mlp", "parameters", "seed", "about (s)"];
    let mut table = TextTable::new(&heads, &[0, 3]);
    for job in plan.jobs.iter().take(200) {
        let dataset = corpora.of(job)?;
        let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx());
        table.row([
            job.id(dataset),
            grouped(dataset.documents()),
            grouped(dataset.len() as u64),
            job.model.preset.unwrap_or_default().to_string(),
            job.model.width().to_string(),
            job.model.d_mlp.map_or(String::new(), grouped),
            config.map_or_else(|error| error.to_string(), |c| grouped(c.n_parameters() as u64)),
            job.seed.to_string(),
            format!("{:.1}", job.estimated_seconds(corpora)),
        ]);
    }
    let mut out = table.fitted(&[1, 4, 3, 2]);
    if plan.jobs.len() > 200 {
        out += &format!("... {} more: see `json`\n", plan.jobs.len() - 200);
    }
    let (n, seconds) = (grouped(plan.jobs.len() as u64), plan.estimated_seconds(corpora));
    let jobs = if plan.jobs.len() == 1 { "job" } else { "jobs" };
    Ok(out + &format!("\n{n} {jobs}, about {}\n", duration(seconds)))
}
