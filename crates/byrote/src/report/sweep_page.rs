//! The report of a run directory: the plan, the results, and what they say about the size of models.
//!
//! It also works on an unfinished run, and says so. Measurements of one size and several seeds are shown as their mean with the
//! range; gaps are averaged on a logarithmic scale.

use super::averages::{Mean, Pairs, by_size};
use super::laws::Question;
use super::new_page;
use super::numbers::{brief, nats, references, thousands};
use crate::Result;
use crate::fit::{self, Direction, Law, Point, ResidualScale, Size, Threshold, ThresholdSettings, threshold};
use crate::model::{Mixer, Positions};
use crate::sweep::{JobRow, JobStatus, Record, to_csv};
use crate::train::{Sampling, Trained};
use byrote_figures::html::{Callout, Cell, Column, Exhibit, KeyFigure, Page, Prose, Section, Status, Table};
use byrote_figures::{Axis, Figure, Heat, Line, Points};
use serde_json::Value;
use std::collections::BTreeMap;

/// The level that counts as the floor.
pub(super) const LEVEL: f64 = 0.01;
/// The maximum number of curves in a figure.
const CURVES: usize = 8;
/// The maximum number of rows in the table; results.csv has all of them.
const ROWS: usize = 400;

/// Writes the page of a run directory; `command` reproduces it.
pub fn page(record: &Record, command: &str) -> Result<Page> {
    let title = if record.name.is_empty() { "A run" } else { record.name.as_str() };
    let mut page = new_page(Prose::new().name(title))
        .subtitle("A sweep: many training runs, compared with the floor of their texts.");
    page = page.section(state(record));
    if let Some(section) = gaps(record) {
        page = page.section(section);
    }
    for section in sizes(record)? {
        page = page.section(section);
    }
    Ok(finished(page, record, command, &["madden2024", "dana2024"]))
}

/// Adds the curves, the table of results and how to reproduce the page.
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
        .setting("time of all jobs together", format!("{} s", brief(record.seconds)));
    references(papers).into_iter().fold(page, Page::reference)
}

/// Every setting of the jobs with all of its values.
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

/// Says which jobs are done and which are not.
pub(super) fn state(record: &Record) -> Section {
    let done = record.done().count();
    let failed: Vec<&JobRow> = record.rows.iter().filter(|r| r.status == JobStatus::Failed).collect();
    let verdict = match (record.is_complete(), failed.is_empty()) {
        (true, _) => Callout::new(Status::Good, format!("All {} jobs are done.", thousands(done as u64))),
        (false, true) => Callout::new(
            Status::Caution,
            format!("{} of {} jobs are done: the run is not complete.", done, thousands(record.jobs as u64)),
        )
        .line("Run the same command again to resume."),
        (false, false) => Callout::new(
            Status::Bad,
            format!(
                "{} of {} jobs are done, {} failed{}.",
                done,
                thousands(record.jobs as u64),
                failed.len(),
                if record.rows.len() < record.jobs { ": the run is not complete" } else { "" }
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
    Section::new("The run").callout(verdict).key_figures([
        KeyFigure::new("jobs done", thousands(done as u64), format!("of {}", thousands(record.jobs as u64))),
        KeyFigure::new("within 1% of the floor", thousands(reached as u64), "jobs"),
        KeyFigure::new("sizes of corpora", corpora.len().to_string(), ""),
        KeyFigure::new("largest model", thousands(most), "parameters"),
    ])
}

/// Describes the kind of model and training of a row, leaving out its size and its seed.
pub(super) fn kind(row: &JobRow) -> String {
    let s = &row.settings;
    let mut words = vec![s.model.preset_or_default().to_string()];
    if let Some(n) = s.model.n_layers {
        words.push(format!("{n} layer{}", if n == 1 { "" } else { "s" }));
    }
    match s.model.mixer {
        Some(Mixer::None) => words.push("no mixer".into()),
        Some(mixer) => words.push(mixer.to_string()),
        None => {}
    }
    // The presets of blocks have activations of their own, or none at all.
    let blocks = s.model.preset_or_default().has_blocks();
    if s.model.activation.is_some() || !blocks {
        words.push(s.model.activation.unwrap_or_default().to_string());
    }
    if let Some(positions) = s.model.positions {
        words.push(match positions {
            Positions::None => "no positions".into(),
            other => format!("{other} positions"),
        });
    }
    if let Some(inside) = s.model.positions_in_attention {
        words.push(format!("positions in {}", if inside { "attention only" } else { "the residual stream" }));
    }
    if let Some(bottleneck) = s.model.bottleneck {
        words.push(if bottleneck { "bottleneck" } else { "no bottleneck" }.into());
    }
    words.push(match (s.training.batch, s.training.sampling) {
        (Some(batch), Sampling::Sample) => {
            format!("{}, batches of {batch} from a fixed sample", s.training.optimizer.name())
        }
        (Some(batch), _) => format!("{}, batches of {batch}", s.training.optimizer.name()),
        (None, _) => s.training.optimizer.name().to_owned(),
    });
    if s.training.train_only == Trained::FeedForward {
        words.push("feed-forward part only".into());
    }
    words.join(", ")
}

/// Names a row.
fn name(row: &JobRow) -> String {
    format!("{} contexts, {} parameters, seed {}", row.contexts, row.parameters, row.settings.seed)
}

/// The series of a run: rows that differ in size and seed alone, with a name that distinguishes them.
pub(super) fn series(record: &Record) -> Vec<(String, Vec<&JobRow>)> {
    let mut all: Vec<((String, u64), Vec<&JobRow>)> = Vec::new();
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

/// The gaps at every size: means of their logarithms, with the range.
pub(super) fn averaged(points: impl IntoIterator<Item = (f64, f64)>) -> (Pairs, Pairs) {
    by_size(points, Mean::OfLogarithms)
}

/// Whether every floor is above zero, so that gaps can be divided by it.
fn by_floor(record: &Record) -> bool {
    record.done().all(|r| r.floor_nats > 0.0)
}

/// The gap against parameters.
fn gaps(record: &Record) -> Option<Section> {
    let all = series(record);
    let y = match by_floor(record) {
        true => "gap / floor",
        false => "gap (nats per prediction)",
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
                .alt("The gap to the floor at the end of training against the number of parameters, one line per corpus.")
                .caption("Means over seeds, with the range. Below the 1% line the text is memorized almost as well as possible."),
        )
    })
}

/// The name of a setting, and how to read it.
pub(super) type SizeAxis = (&'static str, fn(&JobRow) -> f64);

/// The setting that varies, which measures the size of a model.
pub(super) fn size_axis(rows: &[&JobRow]) -> SizeAxis {
    let varies = |get: fn(&JobRow) -> f64| rows.windows(2).any(|w| get(w[0]) != get(w[1]));
    let axes: [SizeAxis; 4] = [
        ("hidden neurons", |r| r.d_mlp as f64),
        ("heads", |r| r.n_heads as f64),
        ("head width", |r| r.d_head as f64),
        ("model width", |r| r.settings.model.width() as f64),
    ];
    axes.into_iter().find(|a| varies(a.1)).unwrap_or(("parameters", |r| r.parameters as f64))
}

/// The gap by corpus and size as a map; `None` if it has a single row or column.
pub(super) fn map(rows: &[&JobRow], title: &str) -> Option<Figure> {
    let (label, size) = size_axis(rows);
    let columns = distinct(rows.iter().map(|r| r.contexts as f64));
    let heights = distinct(rows.iter().map(|r| size(r)));
    if columns.len() < 2 || heights.len() < 2 {
        return None;
    }
    let cell = |x: f64, y: f64| {
        let here = rows.iter().filter(|r| r.contexts as f64 == x && size(r) == y);
        let (means, _) = averaged(here.filter_map(|r| Some((0.0, r.gap_per_prediction()?))));
        means.first().map(|p| p.1)
    };
    let cells = heights.iter().map(|&y| columns.iter().map(|&x| cell(x, y)).collect()).collect();
    let heat = Heat::log("gap (nats per prediction)", columns, heights, cells);
    Some(Figure::new(title, Axis::log("distinct contexts"), Axis::log(label)).heat(heat))
}

fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// The smallest models within 1% of the floor, one per corpus.
pub(super) struct Smallest {
    /// The number of contexts, and the parameters if they are known.
    pub by_corpus: Vec<(u64, Threshold)>,
    /// Contexts and parameters, where they are known.
    pub points: Vec<Point>,
    /// The intervals of those parameters where both ends are known, else the parameters themselves.
    pub ends: Vec<(f64, f64)>,
}

/// Finds the size at which the gap falls to 1%, for every corpus.
pub(super) fn smallest(rows: &[&JobRow]) -> Result<Smallest> {
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
            scale: ResidualScale::Relative,
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
    /// Adds intervals to a figure of these points.
    pub fn with_intervals(&self, mut figure: Figure) -> Figure {
        if let Some(points) = figure.points.iter_mut().find(|p| p.points.len() == self.ends.len()) {
            points.errors.clone_from(&self.ends);
        }
        figure
    }

    /// Lists them as a table.
    pub fn table(&self, caption: &str) -> Table {
        let columns = [
            Column::right("contexts"),
            Column::right("parameters").unit("to 1% of the floor"),
            Column::left("95% interval"),
            Column::right("per context"),
        ];
        let size = |s: &Size| match s {
            Size::At { size } => thousands(size.round() as u64),
            Size::BelowSmallest { smallest } => format!("at most {}", thousands(*smallest as u64)),
            Size::AboveLargest { largest } => format!("more than {}", thousands(*largest as u64)),
        };
        self.by_corpus.iter().fold(Table::new(caption, columns), |table, (contexts, found)| {
            // An interval both of whose ends lie beyond the sizes tried says nothing more than the estimate.
            let interval = found.interval.as_ref().filter(|i| i.low.known().or(i.high.known()).is_some());
            let interval = interval.map(|i| match (&i.low, &i.high) {
                (Size::BelowSmallest { .. }, high) => format!("at most {}", size(high)),
                (low, Size::AboveLargest { .. }) => format!("at least {}", size(low)),
                (low, high) => format!("{} to {}", size(low), size(high)),
            });
            table.row([
                Cell::from(thousands(*contexts)),
                size(&found.size).into(),
                interval.map_or_else(Cell::none, Cell::from),
                found.size.known().map_or_else(Cell::none, |s| brief(s / *contexts as f64).into()),
            ])
        })
    }
}

/// The map and the smallest models of every kind, if several corpora were trained on.
fn sizes(record: &Record) -> Result<Vec<Section>> {
    let mut kinds: Vec<(String, Vec<&JobRow>)> = Vec::new();
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
                .caption("Darker is closer to the floor."),
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
                // A threshold is uncertain by a factor, so its errors are equal on the scale of ln y.
                scale: ResidualScale::Relative,
            };
            let answer = question.answer()?;
            let exhibit = Exhibit::new(found.with_intervals(answer.figure.clone()))
                .name(format!("smallest-{}", i + 1))
                .alt("Parameters needed to come within 1% of the floor against the number of contexts.")
                .caption("Between the sizes tried, the gap is interpolated on logarithmic scales.");
            section = question.show(section.exhibit(exhibit), &answer);
        }
        sections.push(section);
    }
    Ok(sections)
}

/// The gap against steps, for the first seed of up to eight jobs.
fn curves(record: &Record) -> Option<Section> {
    let largest = record.done().map(|r| r.contexts).max()?;
    let seed = record.done().map(|r| r.settings.seed).min()?;
    let rows: Vec<&JobRow> =
        record.done().filter(|r| r.contexts == largest && r.settings.seed == seed).collect();
    let step = rows.len().div_ceil(CURVES).max(1);
    let mut figure =
        Figure::new("The gap while training", Axis::linear("steps"), Axis::log("gap (nats per prediction)"))
            .legend();
    let mut lines = 0;
    for row in rows.iter().rev().step_by(step) {
        let each = row.predictions.max(1) as f64;
        let points: Vec<(f64, f64)> =
            record.curves.get(&row.job)?.iter().filter(|p| p.1 > 0.0).map(|p| (p.0, p.1 / each)).collect();
        if points.len() > 1 {
            lines += 1;
            let label = format!("{} parameters", thousands(row.parameters));
            figure = figure.line(Line::new(format!("job {}", row.job), label, points));
        }
    }
    let first = rows.first()?;
    if first.floor_nats > 0.0 {
        let floor = first.floor_nats / first.predictions.max(1) as f64;
        figure = figure.horizontal(LEVEL * floor, "1% of the floor");
    }
    let caption = format!("The largest corpus, {} contexts, seed {seed}.", thousands(largest));
    (lines > 0).then(|| {
        Section::new("Training").anchor("curves").exhibit(
            Exhibit::new(figure)
                .name("curves")
                .alt("The gap to the floor against steps of training, one line per model.")
                .caption(caption),
        )
    })
}

/// All rows of results.csv.
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
        Column::right("gap").unit("nats per prediction"),
        Column::right("gap").unit("nats in total"),
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
            (Some(r), _) => Cell::status(if reached { Status::Good } else { Status::Neutral }, r.stop.name()),
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
            row.gap_per_prediction().map_or_else(Cell::none, |gap| nats(gap).into()),
            result.map_or_else(Cell::none, |r| nats(r.gap_nats).into()),
            number(result.map(|r| r.memorized)),
        ]);
    }
    table
}
