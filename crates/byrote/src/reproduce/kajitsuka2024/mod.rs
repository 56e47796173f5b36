//! kajitsuka2024: parameters of the square-root construction against facts, the fold it is based on, and the sharpness of attention.

mod sharpness;

pub use sharpness::sharpness;

use super::{Job, Reproduced};
use crate::bounds::CorpusFacts;
use crate::bounds::families::{self, Guarantee};
use crate::bounds::information::label_bits_at_least;
use crate::bounds::kajitsuka2024_lower::lb_hardmax;
use crate::construct::kajitsuka2024::corpus_task::from_contexts;
use crate::construct::kajitsuka2024::crossing::measured_crossing;
use crate::construct::kajitsuka2024::{Built, Goal, MemoryKind, Settings, Switches, Visibility, build};
use crate::corpus::random::Associations;
use crate::corpus::{ContextRule, Corpus, Options, Outputs, Source, Window};
use crate::model::Counting;
use crate::observe::{Progress, Stage};
use crate::output::OutputFile;
use crate::report::papers::kajitsuka2024;
use crate::report::square_root_figures::{
    Crossings, LinearSize, ScalingRow, bits_figure, fold_figure, scaling_csv, scaling_figure,
};
use crate::report::text::TextTable;
use crate::units::{grouped, grouped_number};
use crate::{Error, Result, report};
use byrote_figures::Figure;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Facts of the small figure, and of the full one.
const SMALL: [usize; 9] = [10, 30, 100, 300, 350, 450, 1_000, 3_000, 10_000];
const FULL: [usize; 2] = [30_000, 100_000];
/// Documents of the built-in stories in the last row.
const STORIES: u64 = 1_000;
/// The linear-size constructions to compare with, by family, and their names in the figure.
const LINEAR: [(&str, &str); 3] = [
    ("madden2024-attention", "madden2024, width 1"),
    ("dana2024", "dana2024, full width"),
    ("dana2024-d2", "dana2024, width 2"),
];

pub fn scaling(job: &Job<'_>) -> Result<Reproduced> {
    let sizes: Vec<usize> = SMALL.iter().chain(if job.full { &FULL[..] } else { &[] }).copied().collect();
    if job.dry_run {
        let list: Vec<String> = sizes.iter().map(|&n| grouped(n as u64)).collect();
        let text =
            format!("two networks each for {} random facts and for {STORIES} stories\n", list.join(", "));
        return Ok(Reproduced::new(text, json!({"samples": sizes, "stories": STORIES}), Vec::new()));
    }
    let begun = Instant::now();
    let mut rows = Vec::new();
    for &n in &sizes {
        let source = Source::Random(Associations::new(n, 50, 1..=8, 10, job.seed)?);
        let window = Window { n_ctx: 8, contexts: ContextRule::Full, ..Window::default() };
        rows.push(row(format!("random {n}"), &source, window, job)?);
    }
    let source = Source::Stories { documents: STORIES, seed: job.seed };
    let stories = row(format!("stories {STORIES}"), &source, Window::default(), job)?;
    let crossings = crossings(job)?;
    let figures = [("scaling", scaling_figure(&rows, &crossings)), ("bits", bits_figure(&rows))];
    let drawn: Vec<Figure> = figures.iter().map(|f| f.1.clone()).collect();
    let (page, found) = kajitsuka2024::scaling(&rows, &stories, &crossings, &drawn, job.full, job.command)?;
    let json = json!({
        "seed": job.seed,
        "rows": rows,
        "stories": stories,
        "fewer_parameters_than_facts_from": crossings,
        "laws": found,
        "seconds": begun.elapsed().as_secs_f64(),
    });
    let lines: Vec<&str> =
        found["lines"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let text = human(&rows, &stories, &lines);
    rows.push(stories);
    let table = job.out.join("scaling.csv");
    OutputFile::write(&table, scaling_csv(&rows).as_bytes())?;
    job.observer.progress(&Progress::new(Stage::Drawing, 0, None));
    let mut files = vec![table];
    for (name, figure) in figures {
        files.extend(write(&figure, job.out, name)?);
    }
    files.push(report::write(job.out, &page)?);
    Ok(Reproduced::new(text, json, files))
}

/// From how many facts on there are fewer parameters than facts, for each convention.
fn crossings(job: &Job<'_>) -> Result<Crossings> {
    let of = |counting| Ok::<u64, Error>(measured_crossing(counting, job.seed, job.observer)? as u64);
    Ok(Crossings { nonzero: of(Counting::Nonzero)?, dense: of(Counting::Dense)? })
}

/// Both memories for one data set.
fn row(data: String, source: &Source, window: Window, job: &Job<'_>) -> Result<ScalingRow> {
    let options = Options { window, ..Options::default() };
    let outputs = Outputs { contexts: true, ..Outputs::default() };
    let corpus = Corpus::read(source, &options, outputs, job.observer)?;
    let Some(contexts) = &corpus.contexts else {
        return Err(Error::EmptyCorpus { message: "no context is followed by a token".into() });
    };
    let switches = Switches { goal: Goal::Next, attention: Visibility::Causal, padded: false };
    let task = from_contexts(contexts, corpus.vocabulary.len(), switches)?;
    let built = |memory: MemoryKind| -> Result<Built> {
        let settings = Settings { seed: job.seed, memory: Some(memory), ..Settings::default() };
        build(&task.samples, &settings, job.observer)
    };
    let (bounded, searched) = (built(MemoryKind::Bounded)?, built(MemoryKind::Searched)?);
    let n = task.samples.len() as u64;
    let labels = u64::from(task.samples.task().labels);
    let facts = CorpusFacts::from(&corpus.summary);
    let families = families::smallest(&facts);
    let linear = LINEAR.iter().filter_map(|&(key, name)| {
        let family = families.iter().find(|f| f.key == key)?;
        Some(LinearSize {
            key: key.to_owned(),
            name: name.to_owned(),
            parameters: u64::try_from(family.parameters).unwrap_or(u64::MAX),
            proved: family.guarantee == Guarantee::Proved,
        })
    });
    let linear = linear.collect();
    let mut row = ScalingRow {
        data,
        samples: n,
        labels,
        bounded: bounded.parameters(),
        guarantee: bounded.guarantee.and_then(|g| u64::try_from(g).ok()).unwrap_or(0),
        searched: searched.parameters(),
        depth: 0,
        largest_weight_bits: 0,
        total_bits: 0,
        information_bits: label_bits_at_least(n.into(), labels),
        lower_bound: u64::try_from(lb_hardmax(n.into(), n.into(), facts.longest_context()))
            .unwrap_or(u64::MAX),
        linear,
    };
    let smaller = if *row.smaller() == row.searched { &searched } else { &bounded };
    let (tally, embedding) = (smaller.model.network.tally(), smaller.model.network.embedding());
    row.depth = tally.depth as u64;
    row.largest_weight_bits = tally.largest_bits as u64;
    row.total_bits = (tally.fixed_bits + embedding.fixed_bits) as u64;
    Ok(row)
}

fn human(rows: &[ScalingRow], stories: &ScalingRow, lines: &[&str]) -> String {
    let mut heads = vec![
        "data",
        "facts",
        "bounded",
        "(dense)",
        "guarantee",
        "searched",
        "(dense)",
        "P/sqrt N",
        "P/N",
        "dense/N",
        "layers",
        "bits",
        "labels' bits",
    ];
    heads.extend(LINEAR.map(|l| l.0));
    heads.push("lower bound");
    let mut table = TextTable::new(&heads, &[0]);
    for r in rows.iter().chain([stories]) {
        let per_fact = |counting| format!("{:.3}", r.parameters(counting) as f64 / r.samples as f64);
        let mut cells = vec![
            r.data.clone(),
            grouped(r.samples),
            grouped(r.bounded.total(Counting::Nonzero)),
            grouped(r.bounded.total(Counting::Dense)),
            grouped(r.guarantee),
            grouped(r.searched.total(Counting::Nonzero)),
            grouped(r.searched.total(Counting::Dense)),
            format!("{:.1}", r.per_root(Counting::Nonzero)),
            per_fact(Counting::Nonzero),
            per_fact(Counting::Dense),
            grouped(r.depth),
            grouped(r.total_bits),
            grouped_number(r.information_bits, 0),
        ];
        for (key, _) in LINEAR {
            let mark = |l: &LinearSize| if l.proved { "" } else { "*" };
            cells.push(r.linear(key).map_or("-".into(), |l| format!("{}{}", grouped(l.parameters), mark(l))));
        }
        cells.push(grouped(r.lower_bound));
        table.row(cells);
    }
    let mut out = table.render();
    out.push('\n');
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
    if rows.iter().flat_map(|r| &r.linear).any(|l| !l.proved) {
        out += "* the size it would have; its theorem is about contexts of one length.\n";
    }
    out += "P counts weights that are not 0, as kajitsuka2024 does; dense counts all entries, as madden2024 and dana2024 do. Both \
            include the embedding and the table from labels to tokens. Every fact was verified in exact arithmetic. \
            The guarantee, in non-zero parameters, holds for any labels of these contexts with the ids found. Parameters are \
            saved, not storage: the weights together have more bits than the labels.\n";
    out
}

fn write(figure: &Figure, directory: &Path, name: &str) -> Result<[PathBuf; 2]> {
    let files = ["svg", "png"].map(|kind| directory.join(format!("{name}.{kind}")));
    files.iter().try_for_each(|path| report::write_figure(path, figure))?;
    Ok(files)
}

pub fn fold(job: &Job<'_>) -> Result<Reproduced> {
    let figure = fold_figure();
    let files = if job.dry_run { Vec::new() } else { write(&figure, job.out, "fold")?.to_vec() };
    let text = "one, two and three folds of the numbers 0 to 16\n".into();
    Ok(Reproduced::new(text, json!({"lines": figure.lines}), files))
}
