//! A transformer that memorizes a text in closed form, and a proof that its stored weights do.
//!
//!     cargo run --release -p byrote --example build_and_certify
//!
//! The weights come from a formula and one linear solve (Madden et al. 2024), without training. The certificate encloses
//! every logit in an interval, so its statements are theorems about the stored numbers, not measurements.
#![allow(clippy::print_stdout)]

use byrote::certify::certify;
use byrote::construct::madden2024::{Settings, build};
use byrote::corpus::{Corpus, Options, Outputs, Source};
use byrote::dataset::Dataset;
use byrote::observe::Silent;
use byrote::units::significant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outputs = Outputs::default().contexts(true);
    let source = Source::Stories { documents: 100, seed: 0 };
    let corpus = Corpus::read(&source, &Options::default(), outputs, &Silent)?;
    let dataset = Dataset::from_corpus(&corpus)?;

    let (model, report) = build(&dataset, &Settings::default(), &Silent)?;
    println!("{} parameters for {} contexts", model.parameters().len(), dataset.len());
    println!(
        "largest logit error {:.1e}, {:.2} neurons per context",
        report.max_logit_error, report.neurons_per_context
    );

    let proof = certify(&model, &dataset, &Silent)?;
    println!("proven: {} of {} contexts are memorized", proof.certified_contexts, proof.contexts);
    println!("proven: every margin is at least {:.6}", proof.min_margin_lower_bound);
    println!(
        "proven: at most {} nats per prediction above the floor",
        significant(proof.gap_nats_per_prediction_upper_bound, 3)
    );
    Ok(())
}
