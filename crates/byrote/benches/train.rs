//! Evaluations of the loss and its gradient, ten at a time: `cargo bench -p byrote --bench train`.
//!
//! Ten, because a trainer stays inside its thread pool, and entering one takes as long as a small step. The counted
//! items are the floating-point operations of the three products with `W_U`, 6 n m omega in total, so that the printed
//! rate is comparable to the output of `cargo run --release --example fma_peak`.
#![allow(clippy::unwrap_used, missing_docs)]

use byrote::bench_internals::Real;
use byrote::corpus::{Corpus, Options, Outputs, Source};
use byrote::dataset::Dataset;
use byrote::model::{Config, Model, Preset, Shape};
use byrote::observe::Silent;
use byrote::train::Evaluator;
use divan::Bencher;
use divan::counter::ItemsCount;
use std::sync::Arc;

fn main() {
    divan::main();
}

const STEPS: u64 = 10;

/// Documents, d_mlp, threads.
type Case = (u64, u64, usize);
const CASES: [Case; 6] =
    [(100, 16, 1), (100, 16, 2), (1000, 64, 1), (1000, 64, 2), (1000, 512, 1), (1000, 512, 2)];

fn dataset(documents: u64, d_mlp: u64) -> (Config, Arc<Dataset>) {
    let outputs = Outputs::default().contexts(true);
    let source = Source::Stories { documents, seed: 0 };
    let corpus = Corpus::read(&source, &Options::default(), outputs, &Silent).unwrap();
    let dataset = Arc::new(Dataset::from_corpus(&corpus).unwrap());
    let shape = Shape {
        d_vocab: corpus.summary.d_vocab,
        n_ctx: 9,
        d_model: 16,
        n_heads: 1,
        d_head: 16,
        d_mlp,
        ..Shape::default()
    };
    (Preset::Madden2024Experiment.config(shape), dataset)
}

fn evaluate<T: Real>(bencher: Bencher, (documents, d_mlp, threads): Case) {
    let (config, dataset) = dataset(documents, d_mlp);
    let model = Model::random(config, 0).unwrap();
    let parameters: Vec<T> = model.parameters().iter().map(|&x| T::from_f64(x)).collect();
    let mut gradient = parameters.clone();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let flops = STEPS * 6 * dataset.len() as u64 * d_mlp * config.shape.d_vocab;
    let mut evaluator = Evaluator::new(config, &dataset);
    bencher.counter(ItemsCount::new(flops)).bench_local(|| {
        pool.install(|| (0..STEPS).map(|_| evaluator.evaluate(&parameters, &mut gradient)).sum::<f64>())
    });
}

#[divan::bench(args = CASES, sample_count = 20, min_time = 1)]
fn ten_steps_f32(bencher: Bencher, case: Case) {
    evaluate::<f32>(bencher, case);
}

#[divan::bench(args = CASES, sample_count = 20, min_time = 1)]
fn ten_steps_f64(bencher: Bencher, case: Case) {
    evaluate::<f64>(bencher, case);
}
