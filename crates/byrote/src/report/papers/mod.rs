//! The pages of the papers' figures: what the paper reports, what was measured, whether they agree.
//!
//! A figure is a sweep whose plan has the figure's name. Its page depends on the run directory alone, so an unfinished run
//! can be drawn, too.

pub mod constructions;
mod dana2024;
pub mod kajitsuka2024;
mod line_slope;
pub mod madden2024;
mod mixed_runs;
mod mixers;
mod morris2025;
pub mod sander2024;
#[cfg(test)]
mod tests;
pub mod trained_capacity;

use super::new_page;
use super::numbers::references;
use super::sweep_page;
use crate::Result;
use crate::fit::{Comparison, Law, Objection};
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Callout, Page, Section, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trained_capacity::Construction;

/// The findings of a figure, in three forms.
#[derive(Debug)]
pub struct Found {
    /// The page.
    pub page: Page,
    /// Its claims, one line each.
    pub lines: Vec<String>,
    /// Its results as JSON.
    pub json: Value,
}

/// The note on a page that is smaller than published.
const SMALL: &str =
    "This is the small version of the figure: it has fewer sizes, seeds or steps than published.";

/// The note on a page that is as large as published.
const AS_PUBLISHED: &str = "This is the full version of the figure, as large as published.";

/// The suffix of the names of plans that are as large as published.
pub const FULL: &str = "-full";

/// Writes the page of a run directory: the page of a figure if its name is one, else the page of a sweep. `constructions` are the
/// constructed models to compare with.
pub fn found(record: &Record, constructions: &[Construction]) -> Result<Found> {
    let (key, full) = match record.name.strip_suffix(FULL) {
        Some(key) => (key, true),
        None => (record.name.as_str(), false),
    };
    let seed = record.rows.iter().map(|r| r.settings.seed).min().filter(|&s| s > 0);
    let seed = seed.map_or(String::new(), |s| format!(" --seed {s}"));
    let typed = |otherwise: String| record.command.clone().unwrap_or(otherwise + &seed);
    let command = typed(format!("byrote reproduce {key}{}", if full { " --full" } else { "" }));
    // A user's own plan may have one of these common names, too.
    let of_sequences = record.rows.iter().all(|r| r.settings.corpus.lengths.is_some());
    let of_mixers = record.rows.iter().all(|r| r.settings.model.mixer.is_some());
    let paper = match key {
        "madden2024-fig1" => madden2024::fig1(record)?,
        "madden2024-mixers" => madden2024::mixers(record)?,
        "madden2024-depth" => madden2024::depth(record)?,
        "morris2025-small" => morris2025::page(record)?,
        "mixers" if of_mixers => mixers::page(record)?,
        "capacity" if of_sequences => trained_capacity::page(record, constructions)?,
        _ => match dana2024::figure(key, record)? {
            Some(paper) => paper,
            None => {
                let command = typed(format!("byrote sweep {}.toml", record.name));
                let page = sweep_page::page(record, &command)?;
                return Ok(Found { page, lines: Vec::new(), json: json!({}) });
            }
        },
    };
    let mut page =
        new_page(paper.title.clone()).subtitle(paper.subtitle.clone()).section(paper.answer(record, full));
    for section in paper.sections {
        page = page.section(section);
    }
    let page = sweep_page::finished(page, record, &command, paper.references);
    Ok(Found { page, lines: paper.claims.iter().map(Claim::line).collect(), json: paper.json })
}

/// The parts of a page.
struct Paper {
    title: String,
    subtitle: String,
    claims: Vec<Claim>,
    sections: Vec<Section>,
    json: Value,
    references: &'static [&'static str],
}

/// What a paper reports, what was measured, and whether they agree.
struct Claim {
    paper: String,
    measured: String,
    agrees: Agreement,
}

/// Whether a measurement supports a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    Yes,
    Nearly,
    No,
    /// There are too few measurements to decide, or the paper makes no claim.
    Open,
}

impl Agreement {
    fn words(self) -> &'static str {
        match self {
            Agreement::Yes => "they agree",
            Agreement::Nearly => "they nearly agree",
            Agreement::No => "they do not agree",
            Agreement::Open => "not decided",
        }
    }
}

impl Claim {
    fn new(paper: impl Into<String>, measured: impl Into<String>, agrees: Agreement) -> Self {
        Self { paper: paper.into(), measured: measured.into(), agrees }
    }

    fn line(&self) -> String {
        format!("Reported: {} Measured: {} So {}.", self.paper, self.measured, self.agrees.words())
    }
}

impl Paper {
    /// Writes the page of a figure that is not a sweep; `full` if it is as large as published.
    fn into_page(self, full: bool, command: &str) -> Page {
        self.into_page_with(SMALL, full, command)
    }

    /// The same, with a note of its own for the version that is not full.
    fn into_page_with(self, small: &str, full: bool, command: &str) -> Page {
        let mut section = Section::new("What it shows");
        if !full {
            section = section.note(small);
        }
        let shown = self.shown(section);
        let mut page = new_page(self.title).subtitle(self.subtitle).section(shown);
        for section in self.sections {
            page = page.section(section);
        }
        references(self.references).into_iter().fold(page.command(command), Page::reference)
    }

    /// Shows the state of the run and every claim.
    fn answer(&self, record: &Record, full: bool) -> Section {
        let mut section = sweep_page::state(record);
        "What it shows".clone_into(&mut section.title);
        self.shown(section.note(if full { AS_PUBLISHED } else { SMALL }))
    }

    fn shown(&self, mut section: Section) -> Section {
        for claim in &self.claims {
            let status = match claim.agrees {
                Agreement::Yes => Status::Good,
                Agreement::Nearly => Status::Caution,
                Agreement::No => Status::Bad,
                Agreement::Open => Status::Neutral,
            };
            section = section.callout(
                Callout::new(status, super::numbers::sentence(claim.agrees.words()))
                    .line(format!("Reported: {}", claim.paper))
                    .line(format!("Measured: {}", claim.measured)),
            );
        }
        section
    }
}

/// The number of blocks of a row's model; 1 for the one-layer models of the papers.
fn n_layers(row: &JobRow) -> u64 {
    row.settings.model.n_layers.unwrap_or(1)
}

/// The rows that are done, by the number of blocks of their models.
fn by_depth(record: &Record) -> BTreeMap<u64, Vec<&JobRow>> {
    let mut all: BTreeMap<u64, Vec<&JobRow>> = BTreeMap::new();
    record.done().for_each(|row| all.entry(n_layers(row)).or_default().push(row));
    all
}

/// "1 layer", "2 layers".
fn layers(n: u64) -> String {
    format!("{n} layer{}", if n == 1 { "" } else { "s" })
}

/// Decides whether one of these laws is supported. "Nearly" means that the first of them nevertheless explains 95% of
/// the variance, or that one of them fits best and only the scatter of the points counts against it.
fn agreement(comparison: &Comparison, laws: &[Law]) -> Agreement {
    if comparison.verdict.laws().iter().any(|law| laws.contains(law)) {
        return Agreement::Yes;
    }
    let explained = |law: &Law| comparison.row(*law)?.fit.as_ref()?.r_squared;
    let scattered = |law: &&Law| {
        let Some(row) = comparison.row(**law) else { return false };
        let noisy = |d: &Objection| matches!(d, Objection::LowRSquared { r_squared } if *r_squared >= 0.5);
        row.delta == Some(0.0) && row.doubts.iter().all(noisy)
    };
    if laws.iter().any(|law| scattered(&law)) {
        return Agreement::Nearly;
    }
    match laws.first().and_then(explained) {
        Some(r) if r >= 0.95 => Agreement::Nearly,
        Some(_) if comparison.n_sizes >= comparison.settings.criteria.least_sizes => Agreement::No,
        _ => Agreement::Open,
    }
}

/// The comparison of laws, with their parameters, as JSON.
fn law_json(comparison: &Comparison) -> Value {
    json!({
        "verdict": comparison.verdict,
        "sentence": comparison.sentence,
        "scale": comparison.settings.method.scale,
        "assumption": comparison.assumption,
        "laws": comparison.rows.iter().map(|row| json!({
            "law": row.law,
            "parameters": row.fit.as_ref().map(|f| &f.parameters),
            "intervals": row.replicates.as_ref().and_then(|r| r.intervals.as_ref()),
            "r_squared": row.fit.as_ref().and_then(|f| f.r_squared),
            "aicc_above_best": row.delta,
        })).collect::<Vec<_>>(),
    })
}
