//! kajitsuka2024: how sharp a softmax must be in place of hardmax, and how even in place of the mean.
//!
//! The paper names hardmax in its lower bound only; the statement, its constants and the experiment are ours
//! (docs/derivations/kajitsuka2024.md).

use super::super::{Job, Reproduced};
use super::write;
use crate::Result;
use crate::construct::kajitsuka2024::{
    ExactNetwork, MemoryKind, SelectingNetwork, Settings, Sharpness, build, evenness, random_facts_of,
    rounding_parameters, sharpness as sharp,
};
use crate::observe::{Progress, Stage};
use crate::output::{OutputFile, csv_text};
use crate::report;
use crate::report::papers::kajitsuka2024::sharpness::{self as pages, Limit, SharpnessRow};
use crate::report::text::TextTable;
use crate::units::grouped;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Facts of the small figure, and of the full one.
const SMALL: [usize; 10] = [30, 60, 100, 200, 300, 600, 1_000, 3_000, 6_000, 10_000];
const FULL: [usize; 1] = [30_000];
/// The length of the contexts.
const LENGTH: usize = 8;
const MEMORIES: [(&str, MemoryKind); 2] =
    [("bounded", MemoryKind::Bounded), ("searched", MemoryKind::Searched)];

pub fn sharpness(job: &Job<'_>) -> Result<Reproduced> {
    let sizes: Vec<usize> = SMALL.iter().chain(if job.full { &FULL[..] } else { &[] }).copied().collect();
    let list: Vec<String> = sizes.iter().map(|&n| grouped(n as u64)).collect();
    let about = format!(
        "Networks for {} random facts: contexts of {LENGTH} tokens out of 50, one of 10 labels each.",
        list.join(", ")
    );
    let mut json = json!({"full": job.full, "dry_run": job.dry_run, "seed": job.seed, "samples": sizes, "length": LENGTH});
    if job.dry_run {
        return Ok(Reproduced::new(about + "\n", json, Vec::new()));
    }
    let mut rows = Vec::new();
    for &n in &sizes {
        measure(n, job, &mut rows)?;
    }
    let (page, found) = pages::sharpness(&rows, &about, job.full, job.command)?;
    let path = job.out.join("sharpness.csv");
    OutputFile::write(&path, csv(&rows).as_bytes())?;
    job.observer.progress(&Progress::new(Stage::Drawing, 0, None));
    let mut files = vec![path];
    for (name, figure) in pages::figures(&rows) {
        files.extend(write(&figure, job.out, name)?);
    }
    files.push(report::write(job.out, &page)?);
    let text = human(&rows, &about, &found);
    json["rows"] = json!(rows);
    json["laws"] = found;
    Ok(Reproduced::new(text, json, files))
}

/// Both memories for one number of facts, with both kinds of attention.
fn measure(n: usize, job: &Job<'_>, rows: &mut Vec<SharpnessRow>) -> Result<()> {
    let samples = random_facts_of(n, LENGTH..=LENGTH, job.seed)?;
    for (memory, kind) in MEMORIES {
        let settings = Settings { seed: job.seed, memory: Some(kind), ..Settings::default() };
        let mut add = |limit, network: &ExactNetwork, ids, [plain, rounded]: [Sharpness; 2]| {
            let tally = network.tally();
            rows.push(SharpnessRow {
                samples: samples.len() as u64,
                memory,
                limit,
                largest_weight_bits: tally.largest_bits as u64,
                plain,
                rounded,
                parameters: tally.nonzero as u64,
                rounding_parameters: rounding_parameters(ids) as u64,
            });
        };
        let network = SelectingNetwork::build(&samples, &settings, job.observer)?;
        let of = |rounded| sharp(&network, &samples, rounded, job.observer);
        add(Limit::Selecting, &network.behind, network.ids, [of(false)?, of(true)?]);
        let built = build(&samples, &settings, job.observer)?;
        let of = |rounded| evenness(&built, &samples, rounded, job.observer);
        add(Limit::Uniform, &built.model.network, built.ids, [of(false)?, of(true)?]);
    }
    Ok(())
}

fn csv(rows: &[SharpnessRow]) -> String {
    let columns = [
        "samples",
        "memory",
        "attention",
        "largest_weight_bits",
        "magnification_bits",
        "measured_bits",
        "sufficient_bits",
        "rounded_measured_bits",
        "rounded_sufficient_bits",
        "parameters_nonzero",
        "rounding_parameters",
    ];
    let fields = |r: &SharpnessRow| {
        let numbers = [
            r.largest_weight_bits,
            r.plain.magnification_bits,
            r.plain.measured_bits,
            r.plain.sufficient_bits,
            r.rounded.measured_bits,
            r.rounded.sufficient_bits,
            r.parameters,
            r.rounding_parameters,
        ];
        let mut fields = vec![r.samples.to_string(), r.memory.to_owned(), r.limit.name().to_owned()];
        fields.extend(numbers.map(|x| x.to_string()));
        fields
    };
    csv_text(columns, rows.iter().map(fields))
}

fn human(rows: &[SharpnessRow], about: &str, found: &Value) -> String {
    let heads = [
        "facts",
        "memory",
        "attention",
        "longest weight",
        "magnified",
        "needed (bound)",
        "id rounded (bound)",
        "parameters",
        "rounding",
    ];
    let mut table = TextTable::new(&heads, &[1, 2]);
    for r in rows {
        table.row([
            grouped(r.samples),
            r.memory.to_owned(),
            r.limit.name().to_owned(),
            format!("{} bits", grouped(r.largest_weight_bits)),
            format!("2^{}", r.plain.magnification_bits),
            pages::in_words(r, false),
            pages::in_words(r, true),
            grouped(r.parameters),
            format!("+{}", r.rounding_parameters),
        ]);
    }
    let mut out = format!("{about}\n\n{}\n", table.render());
    for line in found["lines"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "{line}");
    }
    out += "Selecting: the least beta of the scores -beta (s - o)^2. Uniform: the largest eps for scores of eps at every other position \
            and 0 elsewhere, an upper bound on what is tolerable, since other patterns may fail earlier. Bisection finds a border \
            between right and wrong, which is not proved to be the only one. The softmax is \
            computed to 96 bits more than the layers behind it magnify, everything else exactly.\n";
    out
}
