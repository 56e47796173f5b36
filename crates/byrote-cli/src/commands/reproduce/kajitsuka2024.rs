//! `byrote reproduce kajitsuka2024-scaling` and `kajitsuka2024-fold`.

use super::{Job, Made};
use crate::args::Common;
use crate::exact::grouped;
use crate::interrupt;
use crate::progress::Terminal;
use crate::reporting::{command_line, write_page};
use crate::ui::{Table, thousands, thousands_f64};
use byrote::bounds::CorpusFacts;
use byrote::bounds::families::{self, Guarantee};
use byrote::bounds::kajitsuka2024_lower::lb_hardmax;
use byrote::construct::kajitsuka2024::corpus_task::from_contexts;
use byrote::construct::kajitsuka2024::crossing::measured_crossing;
use byrote::construct::kajitsuka2024::{Attention, Built, Goal, Memory, Settings, Switches, build};
use byrote::corpus::random::Associations;
use byrote::corpus::{ContextRule, Corpus, Options, Outputs, Source, Window};
use byrote::figures::Figure;
use byrote::model::Counting;
use byrote::output::OutputFile;
use byrote::report::papers::kajitsuka2024;
use byrote::report::square_root_figures::{
    Crossings, LinearSize, ScalingRow, bits_figure, fold_figure, scaling_csv, scaling_figure,
};
use byrote::{Error, Result};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Facts of the small figure, and of the full one.
const SMALL: [usize; 9] = [10, 30, 100, 300, 350, 450, 1_000, 3_000, 10_000];
const FULL: [usize; 2] = [30_000, 100_000];
/// Documents of the built-in stories in the last row.
const STORIES: u64 = 1_000;
/// The linear-size constructions beside it, by family, and their names in the figure.
const LINEAR: [(&str, &str); 3] = [
    ("madden2024-attention", "madden2024, width 1"),
    ("dana2024", "dana2024, full width"),
    ("dana2024-d2", "dana2024, width 2"),
];

pub fn scaling(job: &Job<'_>) -> Result<Made> {
    let sizes: Vec<usize> = SMALL.iter().chain(if job.full { &FULL[..] } else { &[] }).copied().collect();
    if job.dry_run {
        let list: Vec<String> = sizes.iter().map(|&n| thousands(n as u64)).collect();
        return Ok(Made {
            text: format!(
                "two networks each for {} random facts and for {STORIES} stories\n",
                list.join(", ")
            ),
            json: json!({"samples": sizes, "stories": STORIES}),
            files: Vec::new(),
        });
    }
    let common = job.common;
    interrupt::clean_up_beside(&job.out.join("scaling.csv"));
    let begun = Instant::now();
    let mut rows = Vec::new();
    for &n in &sizes {
        let source = Source::Random(Associations::new(n, 50, 1..=8, 10, common.seed)?);
        let window = Window { n_ctx: 8, contexts: ContextRule::Full, ..Window::default() };
        rows.push(row(format!("random {n}"), &source, window, common)?);
    }
    let source = Source::Stories { documents: STORIES, seed: common.seed };
    let stories = row(format!("stories {STORIES}"), &source, Window::default(), common)?;
    let crossings = crossings(common)?;
    let figures = [("scaling", scaling_figure(&rows, &crossings)), ("bits", bits_figure(&rows))];
    let drawn: Vec<Figure> = figures.iter().map(|f| f.1.clone()).collect();
    let (page, found) = kajitsuka2024::scaling(&rows, &stories, &crossings, &drawn, &command_line())?;
    let json = json!({
        "seed": common.seed,
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
    let mut files = vec![table];
    for (name, figure) in figures {
        files.extend(write(&figure, job.out, name)?);
    }
    files.push(write_page(job.out, &page)?);
    Ok(Made { text, json, files })
}

/// From how many facts on there are fewer parameters than facts, for each convention.
fn crossings(common: &Common) -> Result<Crossings> {
    let observer = Terminal::new(common.quiet);
    let of = |counting| Ok::<u64, Error>(measured_crossing(counting, common.seed, &observer)? as u64);
    Ok(Crossings { nonzero: of(Counting::Nonzero)?, dense: of(Counting::Dense)? })
}

/// Both memories for one data set.
fn row(data: String, source: &Source, window: Window, common: &Common) -> Result<ScalingRow> {
    let observer = Terminal::new(common.quiet);
    let options = Options { window, ..Options::default() };
    let outputs = Outputs { contexts: true, ..Outputs::default() };
    let corpus = Corpus::read(source, &options, outputs, &observer)?;
    let Some(contexts) = &corpus.contexts else {
        return Err(Error::EmptyCorpus { message: "no context is followed by a token".into() });
    };
    let switches = Switches { goal: Goal::Next, attention: Attention::Causal, padded: false };
    let task = from_contexts(contexts, corpus.vocabulary.len(), switches)?;
    let built = |memory: Memory| -> Result<Built> {
        let settings = Settings { seed: common.seed, memory: Some(memory), ..Settings::default() };
        build(&task.samples, &settings, &observer)
    };
    let (bounded, searched) = (built(Memory::Bounded)?, built(Memory::Searched)?);
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
        information_bits: n as f64 * (labels as f64).log2(),
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
    let mut table = Table::new(&heads, &[0]);
    for r in rows.iter().chain([stories]) {
        let per_fact = |counting| format!("{:.3}", r.parameters(counting) as f64 / r.samples as f64);
        let mut cells = vec![
            r.data.clone(),
            thousands(r.samples),
            grouped(r.bounded.total(Counting::Nonzero)),
            grouped(r.bounded.total(Counting::Dense)),
            thousands(r.guarantee),
            grouped(r.searched.total(Counting::Nonzero)),
            grouped(r.searched.total(Counting::Dense)),
            format!("{:.1}", r.per_root(Counting::Nonzero)),
            per_fact(Counting::Nonzero),
            per_fact(Counting::Dense),
            thousands(r.depth),
            thousands(r.total_bits),
            thousands_f64(r.information_bits, 0),
        ];
        for (key, _) in LINEAR {
            let mark = |l: &LinearSize| if l.proved { "" } else { "*" };
            cells.push(
                r.linear(key).map_or("-".into(), |l| format!("{}{}", thousands(l.parameters), mark(l))),
            );
        }
        cells.push(thousands(r.lower_bound));
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
            Parameters are saved, not storage: the weights together have more bits than the labels.\n";
    out
}

fn write(figure: &Figure, directory: &Path, name: &str) -> Result<[PathBuf; 2]> {
    let files = ["svg", "png"].map(|kind| directory.join(format!("{name}.{kind}")));
    OutputFile::write(&files[0], figure.to_svg()?.as_bytes())?;
    OutputFile::write(&files[1], &figure.to_png(2.0)?)?;
    Ok(files)
}

pub fn fold(job: &Job<'_>) -> Result<Made> {
    let figure = fold_figure();
    let files = if job.dry_run { Vec::new() } else { write(&figure, job.out, "fold")?.to_vec() };
    Ok(Made {
        text: "one, two and three folds of the numbers 0 to 16\n".into(),
        json: json!({"lines": figure.lines}),
        files,
    })
}
