//! A sweep over the size of a text, and the law that its measurements support.
//!
//!     cargo run --release -p byrote --example sweep_with_a_law
//!
//! How fast does the number of distinct contexts, which a model has to store, grow with the number of documents? Five seeds
//! are counted at eight sizes, and three laws compete. A law is supported only if the points reject the others; several or
//! none is an answer as well.
#![allow(clippy::print_stdout)]

use byrote::corpus::{Corpus, Options, Outputs, Source};
use byrote::fit::{CompareSettings, Law, LawVerdict, Point, Points, compare};
use byrote::observe::Silent;

fn main() -> byrote::Result<()> {
    let mut points = Vec::new();
    for documents in [50, 100, 150, 200, 300, 400, 600, 800] {
        for seed in 0..5 {
            let source = Source::Stories { documents, seed };
            let summary = Corpus::read(&source, &Options::default(), Outputs::default(), &Silent)?.summary;
            points.push(Point::new(documents as f64, summary.contexts as f64, seed));
        }
    }
    let laws = [Law::Linear, Law::Quadratic, Law::Power];
    let table = compare(&Points::new(points)?, &laws, &CompareSettings::default())?;
    match &table.verdict {
        LawVerdict::Supported { law } => {
            println!("the points support one law: {law}");
            // 95% intervals of its parameters, from resampled seeds.
            let intervals = table.row(*law).and_then(|row| row.replicates.as_ref()?.intervals.as_ref());
            for interval in intervals.into_iter().flatten() {
                println!(
                    "  {} = {:.4} ({:.4} to {:.4})",
                    interval.name, interval.value, interval.low, interval.high
                );
            }
        }
        LawVerdict::NotToldApart { laws } => println!("the points cannot distinguish {} laws", laws.len()),
        verdict => println!("the points support none of the laws: {verdict:?}"),
    }
    Ok(())
}
