//! Runs a language model on sequences that another program sends, for the benchmark against other programs:
//! `audit_times MODEL [THREADS]` loads a model, prints one line of JSON with the seconds that took, and then answers every line
//! on standard input with a line on standard output.
//!
//! | request | what is timed |
//! |---|---|
//! | `{"kind": "score", "sequences": [[7, 2, ...], ...], "from": 1}` | all six numbers of every position from `from` on |
//! | `{"kind": "shared", ...}` | the same, common beginnings once |
//! | `{"kind": "contexts", ...}` | the probabilities of the next tokens after every distinct beginning of a sequence |
//! | `{"kind": "products", "rows": 128, "depth": 576, "width": 1536}` | products of that shape, on every thread |
//!
//! An answer holds the seconds, the sum of the log-probabilities or the operations, and the peak of memory so far.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use byrote::audit::Subject;
use byrote::bench_internals::{
    AlignedVec, Isa, Left, Panels, Product, Right, SimdKernel, TargetOrder, Update,
};
use byrote::bench_internals::{run, spread_stride};
use byrote::inference::{Context, LanguageModel, Sampling, Sequence};
use byrote::observe::Silent;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: audit_times MODEL [THREADS]")?;
    let threads = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let start = Instant::now();
    let subject = pool.install(|| Subject::load(Path::new(&path), None, None))?;
    let seconds = start.elapsed().as_secs_f64();
    let parameters = subject.facts.parameters;
    println!("{}", json!({"seconds": seconds, "parameters": parameters, "peak_bytes": peak_memory()}));
    let model = subject.model.ok_or("not a model")?;
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let mut answer = match request["kind"].as_str() {
            Some("products") => products(&request, threads)?,
            Some("contexts") => pool.install(|| contexts(&*model, &request))?,
            _ => pool.install(|| score(&*model, &request))?,
        };
        answer["peak_bytes"] = json!(peak_memory());
        println!("{answer}");
    }
    Ok(())
}

fn score(model: &dyn LanguageModel, request: &Value) -> Result<Value, AnyError> {
    let tokens: Vec<Vec<u32>> = serde_json::from_value(request["sequences"].clone())?;
    let from = request["from"].as_u64().unwrap_or(1) as usize;
    let sequences: Vec<Sequence<'_>> =
        tokens.iter().map(|tokens| Sequence { tokens, scored: from..tokens.len() }).collect();
    let start = Instant::now();
    let scores = match request["kind"].as_str() {
        Some("shared") => model.score_shared(&sequences, Sampling::default(), &Silent)?,
        _ => model.score(&sequences, Sampling::default())?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let sum: f64 = scores.iter().flatten().map(|score| score.log_prob).sum();
    Ok(json!({"seconds": seconds, "log_prob": sum}))
}

fn contexts(model: &dyn LanguageModel, request: &Value) -> Result<Value, AnyError> {
    let sequences: Vec<Vec<u32>> = serde_json::from_value(request["sequences"].clone())?;
    let mut next: BTreeMap<&[u32], BTreeMap<u32, u32>> = BTreeMap::new();
    for sequence in &sequences {
        for i in 1..sequence.len() {
            *next.entry(&sequence[..i]).or_default().entry(sequence[i]).or_default() += 1;
        }
    }
    let tokens: Vec<Vec<u32>> = next.values().map(|next| next.keys().copied().collect()).collect();
    let contexts: Vec<Context<'_>> =
        next.keys().zip(&tokens).map(|(tokens, next)| Context { tokens, next }).collect();
    let start = Instant::now();
    let scores = model.score_contexts(&contexts, &Silent)?;
    let seconds = start.elapsed().as_secs_f64();
    let counts = next.values().flat_map(BTreeMap::values);
    let log_probs = scores.iter().flat_map(|score| &score.log_probs);
    let sum: f64 = counts.zip(log_probs).map(|(&n, log_prob)| f64::from(n) * log_prob).sum();
    Ok(json!({"seconds": seconds, "log_prob": sum, "contexts": contexts.len()}))
}

/// One product `C = A B` of the given shape, with B packed.
struct Multiply<'a> {
    shape: [usize; 3],
    a: &'a [f32],
    b: &'a Panels<f32>,
    c: &'a mut [f32],
}

impl SimdKernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        let [rows, depth, width] = self.shape;
        isa.run(Product {
            target: self.c,
            order: TargetOrder::Rows(spread_stride(width)),
            update: Update::Replace,
            rows,
            depth,
            width,
            left: Left::rows(self.a, spread_stride(depth)),
            right: Right::Panels(self.b),
        });
    }
}

/// How often a product is repeated.
const REPEATS: usize = 200;

fn products(request: &Value, threads: usize) -> Result<Value, AnyError> {
    let size = |name: &str| request[name].as_u64().map(|n| n as usize).ok_or(format!("{name} is missing"));
    let shape @ [rows, depth, width] = [size("rows")?, size("depth")?, size("width")?];
    let mut b = Panels::<f32>::zeros(depth, width);
    b.set((0, 0), &vec![0.5; depth * width], width);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (mut a, mut c) = (
                    AlignedVec::zeros(rows * spread_stride(depth)),
                    AlignedVec::zeros(rows * spread_stride(width)),
                );
                a.fill(0.25);
                for _ in 0..REPEATS {
                    run(Multiply { shape, a: black_box(&a), b: &b, c: &mut c });
                }
                black_box(&c);
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let operations = 2.0 * (threads * REPEATS * rows * depth * width) as f64;
    Ok(json!({"seconds": seconds, "operations": operations}))
}

/// The largest memory of this process so far, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb << 10)
}
