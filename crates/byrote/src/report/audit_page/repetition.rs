//! What repetition does: windows by how often their suffix occurs, and strings that were inserted into the training text.

use super::runs::shown;
use super::{cell, percent};
use crate::audit::{Audit, CanaryFigures, DuplicateGroup};
use crate::report::numbers::{brief, thousands};
use byrote_figures::html::{Cell, Column, Exhibit, Prose, Section, Table};
use byrote_figures::{Axis, Figure, MarkerForm, Points};

/// The most canaries that are listed.
const LISTED: usize = 200;

/// Windows by duplicates; none if all windows occur equally often.
pub(super) fn duplicates(audit: &Audit) -> Option<Section> {
    let groups = audit.duplicates.as_slice();
    if groups.len() < 2 {
        return None;
    }
    let sampled = audit.known.sampled;
    let about = "What a model has met more often it knows better ([@carlini2023]). Windows run alone are grouped by how often \
                 the tokens of their suffix occur anywhere in the corpus; each distinct window counts once.";
    let about = match audit.known.hits {
        true => Prose::parse(about),
        false => Prose::new(),
    };
    Some(
        Section::new("Duplicates")
            .anchor("duplicates")
            .paragraph(about)
            .exhibit(
                Exhibit::new(duplicates_figure(groups, sampled))
                    .name("duplicates")
                    .alt("The share of windows that are extractable against how often their suffix occurs in the corpus.")
                    .caption("Bars are 95% intervals, where there are enough documents or windows for one."),
            )
            .table(duplicates_table(groups, sampled)),
    )
}

fn occurrences(group: &DuplicateGroup) -> String {
    match group.from == group.to {
        true => thousands(group.from),
        false => format!("{}\u{2013}{}", thousands(group.from), thousands(group.to)),
    }
}

fn duplicates_figure(groups: &[DuplicateGroup], sampled: bool) -> Figure {
    let points = |of: fn(&DuplicateGroup) -> f64| {
        groups.iter().enumerate().map(move |(i, group)| (i as f64, 100.0 * of(group))).collect::<Vec<_>>()
    };
    let errors = groups.iter().map(|group| {
        let share = 100.0 * group.share;
        // A resampled interval may leave out the share itself by a rounding.
        group.interval.map_or((share, share), |i| ((100.0 * i.low).min(share), (100.0 * i.high).max(share)))
    });
    let figure = Figure::new(
        "Extraction by repetition",
        Axis::named("occurrences of the suffix in the corpus", groups.iter().map(occurrences)),
        Axis::linear("share of windows (%)").from_zero(),
    )
    .points(Points::new("corpus", "extractable", points(|group| group.share)).with_errors(errors))
    .palette(super::colours())
    .size(900.0, 420.0);
    match sampled {
        true => figure.points(
            Points::new("sampled", "p_z of at least 0.001", points(|group| group.p_z_at_least_0_001))
                .form(MarkerForm::Diamond),
        ),
        false => figure,
    }
}

fn duplicates_table(groups: &[DuplicateGroup], sampled: bool) -> Table {
    let mut columns = vec![
        Column::right("occurrences"),
        Column::right("windows"),
        Column::right("extractable"),
        Column::right("share"),
        Column::right("95% interval"),
    ];
    columns.extend(sampled.then(|| Column::right("p_z \u{2265} 0.001")));
    columns.push(Column::right("teacher-forced accuracy"));
    let decoded = groups.iter().any(|group| group.mean_free_running_accuracy.is_some());
    columns.extend(decoded.then(|| Column::right("free-running accuracy")));
    columns.push(Column::right("extraction strength"));
    groups.iter().fold(
        Table::new("Windows run alone, by how often their suffix occurs.", columns),
        |table, g| {
            let mut cells: Vec<Cell> = vec![
                occurrences(g).into(),
                thousands(g.windows).into(),
                thousands(g.extractable).into(),
                percent(g.share).into(),
                cell(g.interval.map(|i| format!("{} to {}", percent(i.low), percent(i.high)))),
            ];
            cells.extend(sampled.then(|| Cell::from(percent(g.p_z_at_least_0_001))));
            cells.push(format!("{:.3}", g.mean_teacher_forced_accuracy).into());
            cells.extend(decoded.then(|| cell(g.mean_free_running_accuracy.map(|x| format!("{x:.3}")))));
            cells.push(format!("{:.3}", g.mean_extraction_strength).into());
            table.row(cells)
        },
    )
}

/// Inserted strings; none if none were given.
pub(super) fn canaries(audit: &Audit) -> Option<Section> {
    let canaries = audit.canaries.as_ref()?;
    let others = canaries.canaries.iter().filter(|canary| canary.count == 0).count();
    let mut about = "Canaries are strings that were inserted into the training text a known number of times ([@carlini2019]). One is \
                     *extracted* if greedy decoding continues its first half with the rest."
        .to_owned();
    about += &match others {
        0 => " None of them was left out of the training text, so that there is no exposure.".to_owned(),
        n => format!(
            " *Exposure* compares an inserted one with the {} that were never inserted: it is {} if the model finds it likelier than \
             all of them, and 0 if it finds it the least likely.",
            thousands(n as u64),
            brief(((n + 1) as f64).log2())
        ),
    };
    let mut section = Section::new("Canaries").anchor("canaries").paragraph(Prose::parse(&about));
    if let Some(figure) = canaries_figure(canaries) {
        section = section.exhibit(
            Exhibit::new(figure)
                .name("canaries")
                .alt("The bits of every canary against how often it was inserted.")
                .caption("Every canary is a point; those that greedy decoding extracts are diamonds."),
        );
    }
    Some(section.table(groups(canaries)).table(list(canaries)))
}

fn canaries_figure(canaries: &CanaryFigures) -> Option<Figure> {
    let names = canaries.by_count.iter().map(|group| thousands(group.count));
    let place = |count: u64| canaries.by_count.iter().position(|group| group.count == count);
    let points = |extracted: bool| -> Vec<(f64, f64)> {
        let chosen = canaries.canaries.iter().filter(|c| c.extracted == extracted && c.bits.is_finite());
        chosen.filter_map(|c| Some((place(c.count)? as f64, c.bits))).collect()
    };
    let figure = Figure::new(
        "What canaries cost",
        Axis::named("times inserted", names),
        Axis::linear("bits").from_zero(),
    )
    .palette(super::colours())
    .size(900.0, 420.0);
    let series = [
        (false, "held-out", "not extracted", MarkerForm::Circle),
        (true, "corpus", "extracted", MarkerForm::Diamond),
    ];
    let figure =
        series.into_iter().fold(figure, |figure, (extracted, key, label, form)| match points(extracted) {
            points if points.is_empty() => figure,
            points => figure.points(Points::new(key, label, points).form(form)),
        });
    (!figure.points.is_empty()).then_some(figure)
}

fn groups(canaries: &CanaryFigures) -> Table {
    let columns = [
        Column::right("times inserted"),
        Column::right("canaries"),
        Column::right("extracted"),
        Column::right("mean bits"),
        Column::right("mean exposure"),
    ];
    canaries.by_count.iter().fold(
        Table::new("Canaries by how often they were inserted.", columns),
        |table, g| {
            table.row([
                Cell::from(thousands(g.count)),
                thousands(g.canaries).into(),
                thousands(g.extracted).into(),
                format!("{:.1}", g.mean_bits).into(),
                cell(g.mean_exposure.map(|x| format!("{x:.2}"))),
            ])
        },
    )
}

fn list(canaries: &CanaryFigures) -> Table {
    let with_text = canaries.canaries.iter().any(|canary| canary.text.is_some());
    let mut columns = vec![
        Column::right("number"),
        Column::right("times inserted"),
        Column::right("bits"),
        Column::right("exposure"),
    ];
    columns.push(Column::left("extracted"));
    columns.extend(with_text.then(|| Column::left("text")));
    let all = canaries.canaries.len();
    let caption = match all > LISTED {
        true => {
            format!("The first {LISTED} of {} canaries, in the order of their file.", thousands(all as u64))
        }
        false => "All canaries, in the order of their file.".to_owned(),
    };
    let listed = canaries.canaries.iter().take(LISTED).zip(1u64..);
    listed.fold(Table::new(caption, columns), |table, (canary, number)| {
        let mut cells: Vec<Cell> = vec![
            thousands(number).into(),
            thousands(canary.count).into(),
            format!("{:.1}", canary.bits).into(),
            cell(canary.exposure.map(|x| format!("{x:.2}"))),
            (if canary.extracted { "yes" } else { "no" }).into(),
        ];
        if with_text {
            let text = canary.text.as_deref().unwrap_or_default();
            cells.push(Prose::new().quote(shown(text)).into());
        }
        table.row(cells)
    })
}
