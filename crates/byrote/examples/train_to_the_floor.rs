//! A one-layer transformer trained until its loss is within 1% of the floor.
//!
//!     cargo run --release -p byrote --example train_to_the_floor
//!
//! The loss is summed over all predictions of the text. The gap is the loss minus the floor: what the model has not yet
//! memorized. Training stops for a reason, which is printed at the end.
#![allow(clippy::print_stdout)]

use byrote::corpus::{Corpus, Options, Outputs, Source};
use byrote::dataset::Dataset;
use byrote::model::{Model, Preset, Shape};
use byrote::observe::Silent;
use byrote::train::{Limits, Optimizer, TrainSettings, Trainer};
use byrote::units::Nats;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outputs = Outputs::default().contexts(true);
    let source = Source::Stories { documents: 100, seed: 0 };
    let corpus = Corpus::read(&source, &Options::default(), outputs, &Silent)?;
    let dataset = Arc::new(Dataset::from_corpus(&corpus)?);

    let shape = Shape {
        d_vocab: dataset.d_vocab(),
        n_ctx: dataset.n_ctx(),
        d_model: 16,
        n_heads: 1,
        d_head: 16,
        d_mlp: 64,
        ..Shape::default()
    };
    let start = Model::random(Preset::Madden2024Experiment.config(shape), 0)?;
    let limits = Limits::new(Optimizer::Lbfgs); // within 1% of the floor, or no more progress
    let mut trainer = Trainer::new(&start, &dataset, TrainSettings::new(Optimizer::Lbfgs), limits, &Silent)?;
    println!("start: {:.4} nats per prediction", trainer.loss().0 / dataset.predictions());
    let stop = trainer.run(&Silent)?;
    println!("end:   {:.4} nats per prediction", trainer.loss().0 / dataset.predictions());
    println!("floor: {:.4} nats per prediction", Nats(dataset.floor().0 / dataset.predictions()).at_least());
    println!(
        "gap:   {:.2}% of the floor, stopped because: {stop:?}",
        100.0 * trainer.gap().0 / dataset.floor().0
    );
    Ok(())
}
