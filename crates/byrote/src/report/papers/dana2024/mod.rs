//! dana2024, figures 1 to 4: how many associations attention alone learns, against heads, head width, model width and parameters.
//!
//! Every pair of tokens is followed by one token, drawn at random: T0 = N^2 associations. Memory X and accuracy are related by
//! accuracy = 1/N + (1 - 1/N) X / T0, because an association that is not remembered is guessed.
//!
//! The authors' published program trains a model that differs from the one that the paper defines, and measures accuracy on the
//! batches of a fixed sample (docs/errata.md, E12 to E14). Every page therefore has three families of runs: the program, the paper's
//! model trained in the same way, and the paper's model trained with every association at every step. [`ablation`] takes the
//! differences one by one.
//!
//! Reference: L. Dana, M. S. Pydi, Y. Chevaleyre, arXiv:2411.10115 (2024), section 4.2, Corollary 2, appendix B; repository
//! leodana2000/Transformer_Attentional_Memory.

mod ablation;
mod depth;
mod equal_parameters;
mod scaling;
mod slopes;

use super::{Agreement, Claim, Paper, agreement, law_json};
use crate::Result;
use crate::fit::Point;
use crate::model::Preset;
use crate::report::averages::{Mean, Pairs, by_size};
use crate::report::numbers::thousands;
use crate::sweep::{JobRow, Record};
use crate::train::{Sampling, TrainSpec};
use byrote_figures::MarkerForm;
use byrote_figures::html::{Cell, Column, Section, Table};

/// Above this accuracy the memory is full, and no law of growth can hold.
const FULL_MEMORY: f64 = 0.9;

/// The page of a figure; `None` if it is not one of this paper's.
pub(super) fn figure(key: &str, record: &Record) -> Result<Option<Paper>> {
    match key {
        "dana2024-fig2b" => slopes::page(record).map(Some),
        "dana2024-fig3" => equal_parameters::page(record).map(Some),
        "dana2024-depth" => depth::page(record).map(Some),
        "dana2024-ablation" => Ok(Some(ablation::page(record))),
        _ => scaling::page(key, record),
    }
}

/// Which model was trained, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// The model of the authors' published program, trained and measured as there.
    Program,
    /// The model that the paper defines, trained in the same way.
    Paper,
    /// The model that the paper defines, trained with every association at every step.
    Whole,
}

impl Family {
    const ALL: [Family; 3] = [Family::Program, Family::Paper, Family::Whole];

    fn of(row: &JobRow) -> Self {
        match row.settings.model.preset {
            Some(Preset::Dana2024Published | Preset::Dana2024PublishedMlp) => Family::Program,
            _ if row.settings.training.batch.is_some() => Family::Paper,
            _ => Family::Whole,
        }
    }

    /// The rows of this family, in order.
    fn rows(self, record: &Record) -> Vec<&JobRow> {
        record.done().filter(|r| Family::of(r) == self).collect()
    }

    fn key(self) -> &'static str {
        match self {
            Family::Program => "published",
            Family::Paper => "paper",
            Family::Whole => "whole",
        }
    }

    /// A label.
    fn words(self) -> &'static str {
        match self {
            Family::Program => "the authors' program",
            Family::Paper => "the paper's model, same training",
            Family::Whole => "the paper's model, full batch",
        }
    }

    /// The same in a sentence.
    fn named(self) -> &'static str {
        match self {
            Family::Program => "the authors' program",
            Family::Paper => "the paper's model under the same training",
            Family::Whole => "the paper's model with full-batch training",
        }
    }

    fn form(self) -> MarkerForm {
        match self {
            Family::Program => MarkerForm::Circle,
            Family::Paper => MarkerForm::Square,
            Family::Whole => MarkerForm::Diamond,
        }
    }

    /// The accuracy that the page draws: as the authors' program measures it, or over all associations.
    fn accuracy(self, row: &JobRow) -> f64 {
        match self {
            Family::Program => over_last_batches(row).unwrap_or_else(|| over_all(row)),
            Family::Paper | Family::Whole => over_all(row),
        }
    }

    fn points(self, rows: &[&JobRow], size: fn(&JobRow) -> f64) -> Vec<Point> {
        rows.iter().map(|r| Point::new(size(r), self.accuracy(r), r.settings.seed)).collect()
    }
}

/// The accuracy over all associations, with the final weights.
fn over_all(row: &JobRow) -> f64 {
    row.result.as_ref().map_or(0.0, |r| r.accuracy)
}

/// The accuracy over the last 100 batches, each before its step.
fn over_last_batches(row: &JobRow) -> Option<f64> {
    row.result.as_ref()?.accuracy_last_batches
}

fn heads(row: &JobRow) -> f64 {
    row.n_heads as f64
}

fn d_model(row: &JobRow) -> f64 {
    row.settings.model.width() as f64
}

/// The means over seeds at every size, with the range.
fn means(points: &[Point]) -> (Pairs, Pairs) {
    by_size(points.iter().map(|p| (p.x, p.y)), Mean::Plain)
}

/// Says which families a reported law describes.
fn described(law: &str, found: &[(Family, Agreement)]) -> Option<String> {
    let part = |agreement: Agreement, verb: &str| {
        let families: Vec<&str> = found.iter().filter(|f| f.1 == agreement).map(|f| f.0.named()).collect();
        let and = if agreement == Agreement::No { " or " } else { " and " };
        (!families.is_empty()).then(|| format!("{verb} {}", families.join(and)))
    };
    let parts: Vec<String> = [
        part(Agreement::Yes, "describes"),
        part(Agreement::Nearly, "nearly describes"),
        part(Agreement::No, "does not describe"),
        part(Agreement::Open, "is not decided for"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| format!("{law} {}.", parts.join("; it ")))
}

/// The means of both accuracies at every size, for every family.
fn accuracies(record: &Record, x: &str, size: fn(&JobRow) -> f64) -> Table {
    type Measure = fn(&JobRow) -> Option<f64>;
    let (all, last): (Measure, Measure) = (|r| Some(over_all(r)), over_last_batches);
    let measured: [(Family, &str, Measure); 5] = [
        (Family::Program, "last 100 batches", last),
        (Family::Program, "all associations", all),
        (Family::Paper, "last 100 batches", last),
        (Family::Paper, "all associations", all),
        (Family::Whole, "all associations", all),
    ];
    let columns = measured.map(|(family, unit, _)| Column::right(family.words()).unit(unit));
    let caption = "Mean accuracy over the seeds, measured in two ways.";
    let mut table = Table::new(caption, [Column::right(x)].into_iter().chain(columns));
    let curves = measured.map(|(family, _, of)| {
        let rows = family.rows(record);
        by_size(rows.iter().filter_map(|r| Some((size(r), of(r)?))), Mean::Plain).0
    });
    let mut sizes: Vec<f64> = curves.iter().flatten().map(|p| p.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for x in sizes {
        let cell = |curve: &Pairs| match curve.iter().find(|p| p.0 == x) {
            Some(p) => Cell::from(format!("{:.3}", p.1)),
            None => Cell::none(),
        };
        table = table.row([Cell::from(thousands(x as u64))].into_iter().chain(curves.iter().map(cell)));
    }
    table
}

/// Describes the three families.
fn protocols(record: &Record) -> Section {
    let contexts = record.rows.first().map_or(0, |r| r.contexts);
    let tokens = record.rows.first().map_or(0, |r| r.d_vocab);
    let list = Family::ALL.into_iter().filter_map(|family| {
        let rows = family.rows(record);
        let mut seeds: Vec<u64> = rows.iter().map(|r| r.settings.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let seeds = match seeds.len() {
            1 => "1 seed".to_owned(),
            n => format!("{n} seeds"),
        };
        let first = rows.first()?;
        Some(match family {
            Family::Program => format!(
                "The authors' program: {}. Positions are added only to what attention reads. Where d and d_h differ, one map \
                 to d_h dimensions and one map back are shared by all heads, whose matrices are d_h by d_h. Accuracy is \
                 averaged over the last 100 batches, each measured before its step. {seeds}.",
                batches(&first.settings.training)
            ),
            Family::Paper => format!(
                "The paper's model, same training: every head has its own maps between d and d_h dimensions, and positions are \
                 added to the embeddings. Accuracy is measured over all associations, with the final weights. {seeds}."
            ),
            Family::Whole => format!(
                "The paper's model, full batch: every association at every step, L-BFGS after a warm-up by Adam. Accuracy is \
                 measured over all associations. {seeds}."
            ),
        })
    });
    Section::new("How it was trained")
        .anchor("protocols")
        .paragraph(format!(
            "Every pair of {tokens} tokens is followed by one token drawn at random: {} associations. All runs share them, as in \
             the authors' program, so ranges and intervals show what initial weights and the order of the batches change.",
            thousands(contexts)
        ))
        .list(list)
        .note(
            "Appendix B of the paper describes another training than the program has: 10 epochs of 1,000 batches of 1,024 pairs \
             at a rate of 1e-3, and two seeds.",
        )
}

/// Describes training with batches.
fn batches(training: &TrainSpec) -> String {
    let size = thousands(training.batch.unwrap_or(0) as u64);
    let steps = training.steps.unwrap_or(training.optimizer.default_steps());
    let rates = format!(
        "Adam at a rate that falls from {:e} to {:e}",
        training.lr.unwrap_or(0.0),
        training.last_lr.unwrap_or(0.0)
    );
    match (training.sampling, training.sample) {
        (Sampling::Sample, Some(sample)) if sample > 0 => format!(
            "{} batches of {size} pairs are drawn with replacement once and visited in {} epochs, in a new order each time, with \
             {rates}, once per epoch",
            thousands(sample),
            thousands(steps / sample)
        ),
        _ => format!("{} batches of {size} pairs, with {rates}", thousands(steps)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_is_said_to_describe_what_agrees_with_it() {
        use Agreement::{No, Yes};
        let found = [(Family::Program, Yes), (Family::Paper, No), (Family::Whole, No)];
        assert_eq!(
            described("The law", &found).unwrap(),
            "The law describes the authors' program; it does not describe the paper's model under the same training or the \
             paper's model with full-batch training."
        );
        assert_eq!(described("The law", &[]), None);
    }
}
