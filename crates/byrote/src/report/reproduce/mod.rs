//! The pages of the papers' figures: what the paper reports, what was measured, whether they agree.
//!
//! A figure is a sweep whose plan has the figure's name; its page follows from the run directory alone, so that it can be
//! drawn again from half a run.

pub mod capacity;
mod dana2024;
mod madden2024;

use super::html::{Page, Section, Status, Verdict};
use super::sweep;
use crate::Result;
use crate::fit::{Comparison, Law};
use crate::lab::Record;
use capacity::Construction;
use serde_json::{Value, json};

/// What a figure shows.
#[derive(Debug)]
pub struct Found {
    /// The page.
    pub page: Page,
    /// The same in a few lines.
    pub lines: Vec<String>,
    /// The same for programs.
    pub json: Value,
}

/// The ending of the names of plans that are as large as published.
pub const FULL: &str = "-full";

/// The page of a run directory: that of a figure where its name is one, else that of any sweep. `constructions` are what was
/// written down beside it.
pub fn found(record: &Record, constructions: &[Construction]) -> Result<Found> {
    let (key, full) = match record.name.strip_suffix(FULL) {
        Some(key) => (key, true),
        None => (record.name.as_str(), false),
    };
    let command = format!("byrote reproduce {key}{}", if full { " --full" } else { "" });
    let paper = match key {
        "madden2024-fig1" => madden2024::fig1(record)?,
        "capacity" => capacity::page(record, constructions)?,
        _ => match dana2024::figure(key, record)? {
            Some(paper) => paper,
            None => {
                let command = format!("byrote sweep {key}.toml");
                let page = sweep::page(record, &command)?;
                return Ok(Found { page, lines: Vec::new(), json: json!({}) });
            }
        },
    };
    let mut page =
        Page::new(paper.title.clone()).subtitle(paper.subtitle.clone()).section(paper.answer(record));
    for section in paper.sections {
        page = page.section(section);
    }
    let page = sweep::finished(page, record, &command, paper.references);
    Ok(Found { page, lines: paper.claims.iter().map(Claim::line).collect(), json: paper.json })
}

/// A page before it is put together.
struct Paper {
    title: String,
    subtitle: String,
    claims: Vec<Claim>,
    sections: Vec<Section>,
    json: Value,
    references: &'static [&'static str],
}

/// What a paper says, what was found, and whether the two agree.
struct Claim {
    paper: String,
    measured: String,
    agrees: Agreement,
}

/// Whether a measurement bears a claim out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    Yes,
    Nearly,
    No,
    /// There is not enough to say, or nothing was claimed.
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
    /// What is done, and every claim.
    fn answer(&self, record: &Record) -> Section {
        let mut section = sweep::state(record);
        "What it shows".clone_into(&mut section.title);
        for claim in &self.claims {
            let status = match claim.agrees {
                Agreement::Yes => Status::Good,
                Agreement::Nearly => Status::Caution,
                Agreement::No => Status::Bad,
                Agreement::Open => Status::Neutral,
            };
            section = section.verdict(
                Verdict::new(status, super::words::sentence(claim.agrees.words()))
                    .line(format!("Reported: {}", claim.paper))
                    .line(format!("Measured: {}", claim.measured)),
            );
        }
        section
    }
}

/// Whether one of these laws is supported; nearly, where the first of them explains 95% of the variance all the same.
fn agreement(comparison: &Comparison, laws: &[Law]) -> Agreement {
    if comparison.verdict.laws().iter().any(|law| laws.contains(law)) {
        return Agreement::Yes;
    }
    let explained = |law: &Law| comparison.row(*law)?.fit.as_ref()?.r_squared;
    match laws.first().and_then(explained) {
        Some(r) if r >= 0.95 => Agreement::Nearly,
        Some(_) if comparison.n_sizes >= comparison.settings.criteria.least_sizes => Agreement::No,
        _ => Agreement::Open,
    }
}

/// The laws that are supported, with their parameters, for programs.
fn law_json(comparison: &Comparison) -> Value {
    json!({
        "verdict": comparison.verdict,
        "sentence": comparison.sentence,
        "laws": comparison.rows.iter().map(|row| json!({
            "law": row.law,
            "parameters": row.fit.as_ref().map(|f| &f.parameters),
            "intervals": row.replicates.as_ref().and_then(|r| r.intervals.as_ref()),
            "r_squared": row.fit.as_ref().and_then(|f| f.r_squared),
            "aicc_above_best": row.delta,
        })).collect::<Vec<_>>(),
    })
}
