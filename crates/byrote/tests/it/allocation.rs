//! A training step allocates nothing: all memory is allocated before the second step.

use allocation_counter::{AllocationInfo, measure};
use byrote::corpus::{Corpus, Options, Outputs, Source};
use byrote::dataset::Dataset;
use byrote::model::{Config, Model, Precision, Preset, Shape};
use byrote::observe::Silent;
use byrote::train::{Evaluator, Limits, Optimizer, TrainSettings, Trainer};
use std::sync::Arc;

fn stories() -> (Arc<Dataset>, Vec<Config>) {
    let outputs = Outputs::default().contexts(true);
    let source = Source::Stories { documents: 200, seed: 0 };
    let corpus = Corpus::read(&source, &Options::default(), outputs, &Silent).unwrap();
    let shape = Shape {
        d_vocab: corpus.summary.d_vocab,
        n_ctx: 9,
        d_model: 8,
        n_heads: 2,
        d_head: 4,
        d_mlp: 24,
        ..Shape::default()
    };
    let dataset = Arc::new(Dataset::from_corpus(&corpus).unwrap());
    (dataset, Preset::ALL.into_iter().map(|preset| preset.config(shape)).collect())
}

/// On one thread, the one whose allocations are counted.
fn alone(work: impl FnOnce() -> AllocationInfo + Send) -> AllocationInfo {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

#[test]
fn loss_and_gradient_allocate_nothing() {
    let (dataset, configs) = stories();
    for config in configs {
        let model = Model::random(config, 1).unwrap();
        let mut gradient = model.parameters().to_vec();
        let mut evaluator = Evaluator::new(config, &dataset);
        let mut evaluate = || assert!(evaluator.evaluate(model.parameters(), &mut gradient) > 0.0);
        let found = alone(|| {
            // Models of blocks take their memory with the first evaluation, when it is known into which batches they are divided.
            evaluate();
            measure(|| (0..10).for_each(|_| evaluate()))
        });
        assert_eq!(found.count_total, 0, "{config:?}");
    }
}

#[test]
fn steps_allocate_nothing_that_grows_with_the_model() {
    let (dataset, configs) = stories();
    for (method, config) in [Optimizer::Adam, Optimizer::AdamW, Optimizer::Lbfgs].into_iter().zip(configs) {
        let model = Model::random(config, 1).unwrap();
        let settings = TrainSettings::new(method).precision(Precision::F64);
        let limits = Limits::new(method).steps(1000).relative_gap(None).stall(None);
        let found = alone(|| {
            let mut trainer = Trainer::new(&model, &dataset, settings, limits, &Silent).unwrap();
            // Past the warm-up of L-BFGS, and until its memory is full.
            (0..400).for_each(|_| assert!(trainer.advance(&Silent).is_none()));
            measure(|| (0..50).for_each(|_| assert!(trainer.advance(&Silent).is_none())))
        });
        if method == Optimizer::Lbfgs {
            // Small lists with a number or two per stored pair, but never a vector of parameters.
            let vector = 8 * config.n_parameters() as u64;
            assert!(found.bytes_max < vector / 4, "{found:?} beside vectors of {vector} bytes");
        } else {
            // The curve grows from time to time.
            assert!(found.count_total <= 1, "{method:?}: {found:?} in 50 steps");
        }
    }
}

#[test]
fn steps_of_a_warm_up_with_batches_allocate_nothing() {
    let (dataset, configs) = stories();
    for config in configs.into_iter().filter(|config| config.shape.blocks.is_some()) {
        let model = Model::random(config, 1).unwrap();
        let settings = TrainSettings::new(Optimizer::Lbfgs);
        let limits = Limits::new(Optimizer::Lbfgs).relative_gap(None).stall(None);
        let found = alone(|| {
            let mut trainer = Trainer::new(&model, &dataset, settings, limits, &Silent).unwrap();
            (0..50).for_each(|_| assert!(trainer.advance(&Silent).is_none()));
            measure(|| (0..100).for_each(|_| assert!(trainer.advance(&Silent).is_none())))
        });
        // The curve grows from time to time.
        assert!(found.count_total <= 2, "{config:?}: {found:?} in 100 steps");
    }
}
