//! `byrote reproduce kajitsuka2024-scaling` and `kajitsuka2024-fold`.

use super::{Job, Made};
use crate::args::Common;
use crate::interrupt;
use crate::progress::Terminal;
use crate::reporting::{command_line, write_page};
use crate::ui::{Table, thousands, thousands_f64};
use byrote::bounds::CorpusFacts;
use byrote::bounds::families::{self, Guarantee};
use byrote::bounds::kajitsuka2024_lower::lb_hardmax;
use byrote::construct::kajitsuka2024::corpus_task::from_contexts;
use byrote::construct::kajitsuka2024::{Attention, Built, Goal, Memory, Method, Settings, Switches, build};
use byrote::corpus::random::Associations;
use byrote::corpus::{ContextRule, Corpus, Options, Outputs, Source, Window};
use byrote::figures::Figure;
use byrote::output::OutputFile;
use byrote::report::papers::kajitsuka2024;
use byrote::report::square_root_figures::{
    LinearSize, ScalingRow, bits_figure, crossover, fold_figure, scaling_csv, scaling_figure,
};
use byrote::{Error, Result};
use serde_json::json;
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
    let figures = [("scaling", scaling_figure(&rows)), ("bits", bits_figure(&rows))];
    let crossover = crossover(&rows);
    let json = json!({
        "seed": common.seed,
        "rows": rows,
        "stories": stories,
        "fewer_parameters_than_facts_from": crossover,
        "seconds": begun.elapsed().as_secs_f64(),
    });
    let drawn: Vec<Figure> = figures.iter().map(|f| f.1.clone()).collect();
    let page = kajitsuka2024::scaling(&rows, &stories, &drawn, &command_line())?;
    rows.push(stories);
    let table = job.out.join("scaling.csv");
    OutputFile::write(&table, scaling_csv(&rows).as_bytes())?;
    let mut files = vec![table];
    for (name, figure) in figures {
        files.extend(write(&figure, job.out, name)?);
    }
    files.push(write_page(job.out, &page)?);
    Ok(Made { text: human(&rows, crossover), json, files })
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
    let count = |b: &Built| b.model.network.tally().parameters as u64;
    let smaller = if count(&searched) <= count(&bounded) { &searched } else { &bounded };
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
        bounded: count(&bounded),
        guarantee: bounded.guarantee.unwrap_or(0) as u64,
        searched: count(&searched),
        embedding: 0,
        depth: 0,
        largest_weight_bits: 0,
        total_bits: 0,
        information_bits: n as f64 * (labels as f64).log2(),
        lower_bound: u64::try_from(lb_hardmax(n.into(), n.into(), facts.longest_context()))
            .unwrap_or(u64::MAX),
        linear,
    };
    debug_assert!(smaller.model.method != Method::Constant || labels == 1);
    row.weigh(smaller.model.network.tally(), smaller.model.network.embedding());
    Ok(row)
}

fn human(rows: &[ScalingRow], crossover: Option<u64>) -> String {
    let mut heads = vec![
        "data",
        "facts",
        "bounded",
        "guarantee",
        "searched",
        "P/sqrt N",
        "P/N",
        "layers",
        "bits",
        "labels' bits",
    ];
    heads.extend(LINEAR.map(|l| l.0));
    heads.push("lower bound");
    let mut table = Table::new(&heads, &[0]);
    for r in rows {
        let mut cells = vec![
            r.data.clone(),
            thousands(r.samples),
            thousands(r.bounded),
            thousands(r.guarantee),
            thousands(r.searched),
            format!("{:.1}", r.per_root()),
            format!("{:.3}", r.parameters() as f64 / r.samples as f64),
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
    if let Some(n) = crossover {
        let _ = writeln!(out, "\nFewer parameters than facts from N = {} of these sizes on.", thousands(n));
    }
    if rows.iter().flat_map(|r| &r.linear).any(|l| !l.proved) {
        out += "* its size for so many facts; its theorem is about contexts of one length.\n";
    }
    out += "Every fact was verified in exact arithmetic. Parameters (those of kajitsuka2024 without the embedding: 58 \
            scalars, 618 for the stories) are saved, not storage: the weights together have more bits than the labels.\n";
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
