//! The floor of a text: the lowest training loss that any next-token model can reach on it.
//!
//!     cargo run --release -p byrote --example floor_of_a_text [FILE]
//!
//! Without a file, 1,000 built-in stories are read. Identical contexts that are followed by different tokens make some loss
//! unavoidable; a model whose training loss equals the floor has memorized everything there is to memorize.
#![allow(clippy::print_stdout)]

use byrote::corpus::{Corpus, Options, Outputs, Source};
use byrote::observe::Silent;

fn main() -> byrote::Result<()> {
    let source = match std::env::args_os().nth(1) {
        Some(file) => Source::Files(vec![file.into()]),
        None => Source::Stories { documents: 1000, seed: 0 },
    };
    let summary = Corpus::read(&source, &Options::default(), Outputs::default(), &Silent)?.summary;
    println!("documents            {}", summary.documents);
    println!("predictions          {}", summary.predictions);
    println!("distinct contexts    {}  (that a model has to distinguish)", summary.contexts);
    println!("with one next token  {}  (can be predicted without loss)", summary.deterministic_contexts);
    if let Some(floor) = summary.floor_nats_per_prediction {
        println!(
            "floor                {:.4} nats, {:.4} bits per prediction",
            floor.at_least(),
            floor.bits_at_least()
        );
    }
    // The longer the context, the fewer surprises are left.
    for length in &summary.by_length {
        println!("  contexts of {:2} tokens: {:6} distinct", length.length, length.contexts);
    }
    Ok(())
}
