//! sander2024, figure 1: how the layers act on a sequence.
//!
//! The caption: a first layer computes augmented tokens, a stack of n identical layers updates them, a projection reads the
//! estimate u^n_t of x_{t+1}. Here the network that does this is constructed and run at depths 1, 2, 4, ..., and the error
//! of every estimate is drawn by layer and position. Sequences, sizes and depths are ours; the caption has none.

use super::super::{Job, Reproduced};
use crate::incontext::construct::SHARPNESS;
use crate::incontext::experiment::plan;
use crate::incontext::{
    Attention, Kernel, Map, PredictionMethod, Rows, Sequence, SequenceTask, Step, TokenLayout, predict,
    squared_errors,
};
use crate::output::{OutputFile, csv_text};
use crate::report::papers::sander2024::layers::{self as pages, Case, Tokens};
use crate::report::text::TextTable;
use crate::{Result, report};
use serde_json::{Value, json};

/// The length of the sequences, and their dimension.
const LENGTH: usize = 40;
const DIMENSION: usize = 5;

/// The sequence whose tokens are shown, its dimension, and its layers.
const SHOWN: (usize, usize, u64) = (20, 4, 64);

fn cases() -> Result<Vec<(&'static str, SequenceTask, Kernel, Attention)>> {
    let linear = SequenceTask::Linear(Map::Orthogonal);
    Ok(vec![
        ("Linear sequence, linear kernel", linear, Kernel::LINEAR, Attention::Identity),
        ("Linear sequence, exp kernel", linear, Kernel::exp(1.0)?, Attention::Softmax),
        (
            "Period 10, exp kernel, beta 16",
            SequenceTask::Periodic(10, 10),
            Kernel::exp(16.0)?,
            Attention::Softmax,
        ),
    ])
}

pub fn fig1(job: &Job<'_>) -> Result<Reproduced> {
    let deepest: u32 = if job.full { 14 } else { 10 };
    let depths: Vec<u64> = (0..=deepest).map(|i| 1 << i).collect();
    let text = format!(
        "sander2024, figure 1: one sequence of {LENGTH} vectors, d = {DIMENSION}, at depths 1 to {}\n",
        1u64 << deepest
    );
    let about = json!({
        "full": job.full, "dry_run": job.dry_run, "length": LENGTH, "d": DIMENSION, "depths": depths, "seed": job.seed,
    });
    if job.dry_run {
        return Ok(Reproduced::new(text, about, Vec::new()));
    }
    let mut found = Vec::new();
    for (title, task, kernel, attention) in cases()? {
        found.push(case(job, title, task, (kernel, attention), &depths)?);
    }
    let tokens = tokens(job)?;
    let mut files = vec![job.out.join("sander2024-fig1.csv")];
    OutputFile::write(&files[0], csv(&found).as_bytes())?;
    files.push(report::write(job.out, &pages::fig1(&found, &tokens, job.full, job.command))?);
    let text = format!("{text}\n{}", table(&found));
    let mut json = about;
    json["cases"] = found.iter().map(as_json).collect();
    Ok(Reproduced::new(text, json, files))
}

/// Runs networks of all depths on one sequence.
fn case(
    job: &Job<'_>,
    title: &str,
    task: SequenceTask,
    (kernel, attention): (Kernel, Attention),
    depths: &[u64],
) -> Result<Case> {
    let known = task.generate(DIMENSION, LENGTH + 1, job.seed, 0)?;
    let seen = [known.first(LENGTH)?];
    let run = |method| predict(&seen, kernel, attention, method, job.observer);
    let eta = Step::Universal.resolve(&seen, kernel, attention, job.observer)?;
    let mut case = Case {
        title: title.into(),
        attention: attention.to_string(),
        eta,
        errors: Vec::new(),
        limit: squared_errors(&run(PredictionMethod::Direct)?.predictions[0], &known),
        agreement: 0.0,
    };
    for &layers in depths {
        let outcome = run(PredictionMethod::layers(layers))?;
        case.agreement = case.agreement.max(outcome.difference.unwrap_or(0.0));
        case.errors.push((layers, squared_errors(&outcome.predictions[0], &known)));
    }
    Ok(case)
}

/// The tokens of a short sequence after the first layer and after the last.
fn tokens(job: &Job<'_>) -> Result<Tokens> {
    let (length, d, layers) = SHOWN;
    let known = SequenceTask::Linear(Map::Orthogonal).generate(d, length + 1, job.seed, 0)?;
    let seen: Sequence = known.first(length)?;
    let all = std::slice::from_ref(&seen);
    let (kernel, attention) = (Kernel::LINEAR, Attention::Identity);
    let eta = Step::Spectral.resolve(all, kernel, attention, job.observer)?;
    let network = plan(all, kernel, attention, layers, eta, SHARPNESS)?.network()?;
    let (first, last) =
        (network.tokens_after(&seen, 1, job.observer)?, network.tokens_after(&seen, 2, job.observer)?);
    let token = TokenLayout::new(kernel, d);
    let part = |tokens: &Rows, from: usize| {
        Rows::whole(d, tokens.iter().flat_map(|row| row[from..from + d].iter().copied()).collect())
    };
    let next = Rows::whole(d, known.values()[d..].to_vec());
    Ok(Tokens {
        layers,
        parts: vec![
            ("x_t: the input".into(), part(&first, token.x())),
            ("x_(t-1), copied by the first layer".into(), part(&first, token.prev())),
            ("y_t: x_t, but 0 at t = 1".into(), part(&first, token.y())),
            ("u_t after the first layer: 0".into(), part(&first, token.u())),
            (format!("u_t after {layers} more layers"), part(&last, token.u())),
            ("x_(t+1): what u_t should be".into(), next),
        ],
    })
}

fn csv(cases: &[Case]) -> String {
    let rows = cases.iter().flat_map(|case| {
        case.errors.iter().flat_map(move |(layers, errors)| {
            errors.iter().zip(1..).map(move |(error, t)| {
                [case.title.clone(), layers.to_string(), format!("{t}"), format!("{error:e}")]
            })
        })
    });
    csv_text(["case", "layers", "t", "squared_error"], rows)
}

fn table(cases: &[Case]) -> String {
    let mut table =
        TextTable::new(&["mean squared error over t", "1 layer", "16", "256", "last", "limit"], &[0]);
    for case in cases {
        let at = |layers: u64| case.errors.iter().find(|e| e.0 >= layers).map(|e| pages::mean(&e.1));
        let last = case.errors.last().map(|e| pages::mean(&e.1));
        let mut cells = vec![case.title.clone()];
        let found = [at(1), at(16), at(256), last, Some(pages::mean(&case.limit))];
        cells.extend(found.map(|x| x.map_or("-".into(), |x| format!("{x:.4}"))));
        table.row(cells);
    }
    table.render()
}

fn as_json(case: &Case) -> Value {
    json!({
        "title": case.title, "attention": case.attention, "eta": case.eta,
        "explicit_vs_recursion_max_difference": case.agreement,
        "errors": case.errors.iter().map(|(layers, e)| json!({"layers": layers, "squared_errors": e})).collect::<Vec<_>>(),
        "limit": case.limit,
    })
}
