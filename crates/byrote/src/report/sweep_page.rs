//! The report of a run directory: what was planned, what came out, and what it says of sizes.
//!
//! It works on half a run, and says so. Measurements of one size and several seeds are shown as their mean with the range;
//! gaps are averaged by their logarithms.

use super::averages::{Mean, Pairs, by_size};
use super::laws::Question;
use super::new_page;
use super::numbers::{brief, nats, references, thousands};
use crate::Result;
use crate::fit::{self, Direction, Law, Point, Scale, Size, Threshold, ThresholdSettings, threshold};
use crate::lab::{Record, Row, Status as JobStatus, to_csv};
use crate::train::Trained;
use byrote_figures::html::{Cell, Column, Exhibit, KeyFigure, Page, Prose, Section, Status, Table, Verdict};
use byrote_figures::{Axis, Figure, Heat, Line, Points};
use serde_json::Value;
use std::collections::BTreeMap;

/// The level that counts as the floor.
pub(super) const LEVEL: f64 = 0.01;
/// Curves in a figure, at most.
const CURVES: usize = 8;
/// Rows of the table, at most; the file behind it has all.
const ROWS: usize = 400;

/// The page of a run directory, and the command that made it.
pub fn page(record: &Record, command: &str) -> Result<Page> {
    let title = if record.name.is_empty() { "A run" } else { record.name.as_str() };
    let mut page = new_page(title).subtitle("A sweep of trainings, from its run directory.");
    page = page.section(state(record));
    if let Some(section) = gaps(record) {
        page = page.section(section);
    }
    for section in sizes(record)? {
        page = page.section(section);
    }
    Ok(finished(page, record, command, &["madden2024", "dana2024"]))
}

/// Curves, the table of results, how to make it again.
pub(super) fn finished(mut page: Page, record: &Record, command: &str, papers: &[&str]) -> Page {
    if let Some(section) = curves(record) {
        page = page.section(section);
    }
    if !record.rows.is_empty() {
        page = page.section(Section::new("All results").anchor("results").table(table(record)));
    }
    page = page.command(command.to_owned());
    for (name, values) in settings(record) {
        page = page.setting(name, values);
    }
    page = page
        .setting("version", record.version.clone())
        .setting("machine", record.machine.clone())
        .setting("time of all jobs", format!("{} s", brief(record.seconds)));
    references(papers).into_iter().fold(page, Page::reference)
}

/// Every setting of the jobs with the values it takes.
fn settings(record: &Record) -> Vec<(String, String)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for row in &record.rows {
        let job = row.settings.filled(row.d_vocab, row.n_ctx);
        let Ok(Value::Object(parts)) = serde_json::to_value(job) else { continue };
        let flat = parts.iter().flat_map(|(part, value)| match value {
            Value::Object(fields) => {
                fields.iter().map(|(k, v)| (format!("{part}.{k}"), v)).collect::<Vec<_>>()
            }
            value => vec![(part.clone(), value)],
        });
        for (name, value) in flat {
            let value = match value {
                Value::Null => "none".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            match all.iter_mut().find(|s| s.0 == name) {
                Some(found) if found.1.contains(&value) => {}
                Some(found) => found.1.push(value),
                None => all.push((name, vec![value])),
            }
        }
    }
    all.into_iter().map(|(name, values)| (name, values.join(", "))).collect()
}

/// What is done, and what is not.
pub(super) fn state(record: &Record) -> Section {
    let done = record.done().count();
    let failed: Vec<&Row> = record.rows.iter().filter(|r| r.status == JobStatus::Failed).collect();
    let verdict = match (record.is_complete(), failed.is_empty()) {
        (true, _) => Verdict::new(Status::Good, format!("All {} jobs are done.", thousands(done as u64))),
        (false, true) => Verdict::new(
            Status::Caution,
            format!(
                "{} of {} jobs are done: this is a part of the run.",
                done,
                thousands(record.jobs as u64)
            ),
        )
        .line("The same command goes on where it ended."),
        (false, false) => Verdict::new(
            Status::Bad,
            format!(
                "{} of {} jobs are done, {} failed{}.",
                done,
                thousands(record.jobs as u64),
                failed.len(),
                if record.rows.len() < record.jobs { ": this is a part of the run" } else { "" }
            ),
        ),
    };
    let verdict = failed
        .iter()
        .take(5)
        .fold(verdict, |v, row| v.line(format!("{}: {}", name(row), row.error.clone().unwrap_or_default())));
    let reached = record.done().filter(|r| r.relative_gap().is_some_and(|g| g <= LEVEL)).count();
    let corpora: BTreeMap<u64, ()> = record.rows.iter().map(|r| (r.contexts, ())).collect();
    let most = record.rows.iter().map(|r| r.parameters).max().unwrap_or(0);
    Section::new("The run").verdict(verdict).key_figures([
        KeyFigure::new("jobs done", thousands(done as u64), format!("of {}", thousands(record.jobs as u64))),
        KeyFigure::new("within 1% of the floor", thousands(reached as u64), "jobs"),
        KeyFigure::new("sizes of corpora", corpora.len().to_string(), ""),
        KeyFigure::new("largest model", thousands(most), "parameters"),
    ])
}

/// What sets a row apart from others of another corpus or another kind of model, besides its size and its seed.
pub(super) fn kind(row: &Row) -> String {
    let s = &row.settings;
    let mut words = vec![s.model.preset.to_string()];
    if let Some(mixer) = s.model.mixer {
        words.push(mixer.to_string());
    }
    words.push(s.model.activation.to_string());
    words.push(match s.training.batch {
        Some(batch) => format!("{}, batches of {batch}", s.training.optimizer.name()),
        None => s.training.optimizer.name().to_owned(),
    });
    if s.training.train_only == Trained::FeedForward {
        words.push("feed-forward part only".into());
    }
    words.join(", ")
}

/// A row in a few words.
fn name(row: &Row) -> String {
    format!("{} contexts, {} parameters, seed {}", row.contexts, row.parameters, row.settings.seed)
}

/// The series of a run: rows that differ by size and seed alone, with a name that tells them apart.
pub(super) fn series(record: &Record) -> Vec<(String, Vec<&Row>)> {
    let mut all: Vec<((String, u64), Vec<&Row>)> = Vec::new();
    for row in record.done() {
        let key = (kind(row), row.contexts);
        match all.iter_mut().find(|s| s.0 == key) {
            Some(found) => found.1.push(row),
            None => all.push((key, vec![row])),
        }
    }
    let kinds: BTreeMap<String, ()> = all.iter().map(|s| (s.0.0.clone(), ())).collect();
    let corpora: BTreeMap<u64, ()> = all.iter().map(|s| (s.0.1, ())).collect();
    let name = |(kind, contexts): (String, u64)| match (kinds.len() > 1, corpora.len() > 1) {
        (true, true) => format!("{kind}: {} contexts", thousands(contexts)),
        (true, false) => kind,
        _ => format!("{} contexts", thousands(contexts)),
    };
    all.into_iter().map(|(key, rows)| (name(key), rows)).collect()
}

/// Gaps at every size: means of their logarithms, with the range.
pub(super) fn averaged(points: impl IntoIterator<Item = (f64, f64)>) -> (Pairs, Pairs) {
    by_size(points, Mean::OfLogarithms)
}

/// Whether every floor is above zero, so that gaps can be told by it.
fn by_floor(record: &Record) -> bool {
    record.done().all(|r| r.floor_nats > 0.0)
}

/// The gap against parameters.
fn gaps(record: &Record) -> Option<Section> {
    let all = series(record);
    let y = match by_floor(record) {
        true => "gap by floor",
        false => "gap (nats a prediction)",
    };
    let mut figure =
        Figure::new("The gap against the size of the model", Axis::log("parameters"), Axis::log(y));
    let mut drawn = false;
    for (i, (label, rows)) in all.iter().enumerate() {
        let points = rows.iter().filter_map(|r| Some((r.parameters as f64, r.relative_gap()?)));
        let (means, ends) = averaged(points);
        drawn |= means.len() > 1;
        let key = format!("series {i}");
        figure = figure
            .line(Line::new(key.clone(), label.clone(), means.clone()))
            .points(Points::new(key, "", means).with_errors(ends));
    }
    let figure = figure.horizontal(LEVEL, "1%");
    drawn.then(|| {
        Section::new("Gaps").anchor("gaps").exhibit(
            Exhibit::new(figure)
                .name("gaps")
                .alt("The gap to the floor at the end of training against the number of parameters, a line a corpus.")
                .caption("Means over seeds, with the range. Below the line of 1% the text is memorized as well as it can be."),
        )
    })
}

/// A setting by name, and how to read it.
pub(super) type SizeAxis = (&'static str, fn(&Row) -> f64);

/// How the sizes of models are told on an axis of their own: the setting that varies.
pub(super) fn size_axis(rows: &[&Row]) -> SizeAxis {
    let varies = |get: fn(&Row) -> f64| rows.windows(2).any(|w| get(w[0]) != get(w[1]));
    let axes: [SizeAxis; 4] = [
        ("hidden neurons", |r| r.d_mlp as f64),
        ("heads", |r| r.n_heads as f64),
        ("width of a head", |r| r.d_head as f64),
        ("width of the model", |r| r.settings.model.d_model as f64),
    ];
    axes.into_iter().find(|a| varies(a.1)).unwrap_or(("parameters", |r| r.parameters as f64))
}

/// The gap by corpus and by size as a map; `None` where it would be a line.
pub(super) fn map(rows: &[&Row], title: &str) -> Option<Figure> {
    let (label, size) = size_axis(rows);
    let columns = distinct(rows.iter().map(|r| r.contexts as f64));
    let heights = distinct(rows.iter().map(|r| size(r)));
    if columns.len() < 2 || heights.len() < 2 {
        return None;
    }
    let cell = |x: f64, y: f64| {
        let here = rows.iter().filter(|r| r.contexts as f64 == x && size(r) == y);
        let (means, _) = averaged(here.filter_map(|r| Some((0.0, r.result.as_ref()?.gap_nats))));
        means.first().map(|p| p.1)
    };
    let cells = heights.iter().map(|&y| columns.iter().map(|&x| cell(x, y)).collect()).collect();
    let heat = Heat::log("gap (nats)", columns, heights, cells);
    Some(Figure::new(title, Axis::log("distinct contexts"), Axis::log(label)).heat(heat))
}

fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// The smallest models within 1% of the floor, a corpus each.
pub(super) struct Smallest {
    /// Contexts, and what is known of the parameters.
    pub by_corpus: Vec<(u64, Threshold)>,
    /// Contexts and parameters, where they are known.
    pub points: Vec<Point>,
    /// The intervals of those parameters, where both ends are known; else the parameters themselves.
    pub ends: Vec<(f64, f64)>,
}

/// Where the gap falls to 1%, for every corpus.
pub(super) fn smallest(rows: &[&Row]) -> Result<Smallest> {
    let mut by_corpus = Vec::new();
    let (mut points, mut ends) = (Vec::new(), Vec::new());
    for contexts in distinct(rows.iter().map(|r| r.contexts as f64)) {
        let here = rows.iter().filter(|r| r.contexts as f64 == contexts);
        let gaps: Vec<Point> = here
            .filter_map(|r| {
                let gap = r.relative_gap().filter(|g| *g > 0.0)?;
                Some(Point::new(r.parameters as f64, gap, r.settings.seed))
            })
            .collect();
        let Ok(gaps) = fit::Points::new(gaps) else { continue };
        let settings = ThresholdSettings {
            level: LEVEL,
            direction: Direction::Falling,
            scale: Scale::Relative,
            bootstrap: fit::Bootstrap::default(),
        };
        let found = threshold(&gaps, &settings)?;
        if let Some(size) = found.size.known() {
            points.push(Point::new(contexts, size, 0));
            let interval = found.interval.as_ref().and_then(|i| Some((i.low.known()?, i.high.known()?)));
            ends.push(interval.map_or((size, size), |(low, high)| (low.min(size), high.max(size))));
        }
        by_corpus.push((contexts as u64, found));
    }
    Ok(Smallest { by_corpus, points, ends })
}

impl Smallest {
    /// The measurements of a figure that was drawn of these points, with their intervals.
    pub fn with_intervals(&self, mut figure: Figure) -> Figure {
        if let Some(points) = figure.points.iter_mut().find(|p| p.points.len() == self.ends.len()) {
            points.errors.clone_from(&self.ends);
        }
        figure
    }

    /// As a table.
    pub fn table(&self, caption: &str) -> Table {
        let columns = [
            Column::right("contexts"),
            Column::right("parameters").unit("to 1% of the floor"),
            Column::left("95% interval"),
            Column::right("a context"),
        ];
        let size = |s: &Size| match s {
            Size::At { size } => thousands(size.round() as u64),
            Size::BelowSmallest { smallest } => format!("at most {}", thousands(*smallest as u64)),
            Size::AboveLargest { largest } => format!("above {}", thousands(*largest as u64)),
        };
        self.by_corpus.iter().fold(Table::new(caption, columns), |table, (contexts, found)| {
            let interval = found.interval.as_ref().map(|i| format!("{} to {}", size(&i.low), size(&i.high)));
            table.row([
                Cell::from(thousands(*contexts)),
                size(&found.size).into(),
                interval.map_or_else(Cell::none, Cell::from),
                found.size.known().map_or_else(Cell::none, |s| brief(s / *contexts as f64).into()),
            ])
        })
    }
}

/// The map and the smallest models of every kind, where several corpora were trained on.
fn sizes(record: &Record) -> Result<Vec<Section>> {
    let mut kinds: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in record.done() {
        match kinds.iter_mut().find(|k| k.0 == kind(row)) {
            Some(found) => found.1.push(row),
            None => kinds.push((kind(row), vec![row])),
        }
    }
    let mut sections = Vec::new();
    for (i, (kind, rows)) in kinds.iter().enumerate() {
        let title = format!("Contexts and size: {kind}");
        let Some(figure) = map(rows, "The gap by corpus and size") else { continue };
        let mut section = Section::new(title).anchor(format!("sizes-{}", i + 1)).exhibit(
            Exhibit::new(figure)
                .name(format!("map-{}", i + 1))
                .alt("The gap to the floor by the number of contexts and the size of the model.")
                .caption("Darker is nearer to the floor."),
        );
        let found = smallest(rows)?;
        section = section.table(found.table("The smallest model within 1% of the floor."));
        if let Ok(points) = fit::Points::new(found.points.iter().copied())
            && points.sizes().len() > 2
        {
            let question = Question {
                name: "smallest",
                title: "The smallest model against contexts",
                x: Axis::linear("distinct contexts"),
                y: Axis::linear("parameters to 1% of the floor").from_zero(),
                points: &points,
                laws: &[Law::Proportional, Law::Linear, Law::Quadratic, Law::Power],
                drawn: Law::Linear,
            };
            let answer = question.answer()?;
            let exhibit = Exhibit::new(found.with_intervals(answer.figure.clone()))
                .name(format!("smallest-{}", i + 1))
                .alt("Parameters needed to come within 1% of the floor against the number of contexts.")
                .caption("Between the sizes tried, the gap is interpolated on logarithms.");
            section = question.show(section.exhibit(exhibit), &answer);
        }
        sections.push(section);
    }
    Ok(sections)
}

/// Gaps against steps, for the first seed of up to eight jobs.
fn curves(record: &Record) -> Option<Section> {
    let largest = record.done().map(|r| r.contexts).max()?;
    let seed = record.done().map(|r| r.settings.seed).min()?;
    let rows: Vec<&Row> =
        record.done().filter(|r| r.contexts == largest && r.settings.seed == seed).collect();
    let step = rows.len().div_ceil(CURVES).max(1);
    let mut figure =
        Figure::new("The gap while training", Axis::linear("steps"), Axis::log("gap to the floor (nats)"))
            .legend();
    let mut lines = 0;
    for row in rows.iter().rev().step_by(step) {
        let points: Vec<(f64, f64)> =
            record.curves.get(&row.job)?.iter().copied().filter(|p| p.1 > 0.0).collect();
        if points.len() > 1 {
            lines += 1;
            let label = format!("{} parameters", thousands(row.parameters));
            figure = figure.line(Line::new(format!("job {}", row.job), label, points));
        }
    }
    let floor = rows.first()?.floor_nats;
    if floor > 0.0 {
        figure = figure.horizontal(LEVEL * floor, "1% of the floor");
    }
    let caption = format!("The largest corpus, {} contexts, seed {seed}.", thousands(largest));
    (lines > 0).then(|| {
        Section::new("Training").anchor("curves").exhibit(
            Exhibit::new(figure)
                .name("curves")
                .alt("The gap to the floor against steps of training, a line a model.")
                .caption(caption),
        )
    })
}

/// All rows, as results.csv has them.
fn table(record: &Record) -> Table {
    let columns = [
        Column::right("contexts"),
        Column::left("model"),
        Column::right("neurons"),
        Column::right("heads"),
        Column::right("parameters"),
        Column::right("seed"),
        Column::right("steps"),
        Column::left("ended"),
        Column::right("gap").unit("nats"),
        Column::right("memorized"),
    ];
    let caption = match record.rows.len() > ROWS {
        true => Prose::parse(&format!("The first {ROWS} of {} rows of `results.csv`.", record.rows.len())),
        false => Prose::parse("The rows of `results.csv`."),
    };
    let mut table = Table::new(caption, columns).csv("results.csv", to_csv(&record.rows));
    for row in record.rows.iter().take(ROWS) {
        let result = row.result.as_ref();
        let number = |x: Option<u64>| x.map_or_else(Cell::none, |n| thousands(n).into());
        let reached = row.relative_gap().is_some_and(|g| g <= LEVEL);
        let ended = match (result, &row.error) {
            (Some(r), _) => {
                Cell::status(if reached { Status::Good } else { Status::Neutral }, r.stop.clone())
            }
            (None, error) => Cell::status(Status::Bad, error.clone().unwrap_or_else(|| "failed".into())),
        };
        table = table.row([
            Cell::from(thousands(row.contexts)),
            kind(row).into(),
            thousands(row.d_mlp).into(),
            thousands(row.n_heads).into(),
            thousands(row.parameters).into(),
            row.settings.seed.to_string().into(),
            number(result.map(|r| r.steps)),
            ended,
            result.map_or_else(Cell::none, |r| nats(r.gap_nats).into()),
            number(result.map(|r| r.memorized)),
        ]);
    }
    table
}
