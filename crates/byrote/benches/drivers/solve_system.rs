//! The dense system of `byrote build madden2024 --activation gelu`, for `benches/peers/solve_peers.py`.
//!
//!     solve_system write DIR DOCUMENTS    features.bin [n, m] and targets.bin [n, omega] as f64, row by row; sizes on stdout
//!     solve_system time DOCUMENTS         seconds of factoring, solving and one refinement, on stdout
//!
//! Each line that `time` reads on its standard input is answered by one measurement, so that another program can be
//! measured in between.
#![allow(clippy::print_stdout)]

use byrote::bench_internals::{System, to_rows};
use byrote::construct::madden2024::Settings;
use byrote::corpus::{Corpus, Options, Outputs, Source};
use byrote::dataset::Dataset;
use byrote::model::Activation;
use byrote::observe::Silent;
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

fn system(documents: u64) -> Result<System, Box<dyn Error>> {
    let outputs = Outputs::default().contexts(true);
    let corpus =
        Corpus::read(&Source::Stories { documents, seed: 0 }, &Options::default(), outputs, &Silent)?;
    let dataset = Dataset::from_corpus(&corpus)?;
    let settings = Settings::default().activation(Activation::Gelu);
    Ok(System::first(&dataset, &settings)?)
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", directory, documents] => {
            let system = system(documents.parse()?)?;
            let directory = Path::new(directory);
            std::fs::write(directory.join("features.bin"), bytes(&system.features))?;
            std::fs::write(directory.join("targets.bin"), bytes(&to_rows(system.wanted.as_ref())))?;
            println!("{} {} {}", system.rows(), system.columns(), system.wanted.ncols());
        }
        ["time", documents] => {
            let system = system(documents.parse()?)?;
            println!("ready");
            for line in std::io::stdin().lock().lines() {
                line?;
                let started = Instant::now();
                let (v, _) = system.solve(1, &Silent)?;
                let seconds = started.elapsed().as_secs_f64();
                println!("{seconds} {:e}", v[(0, 0)]);
                std::io::stdout().flush()?;
            }
        }
        _ => return Err("write DIR DOCUMENTS, or time DOCUMENTS".into()),
    }
    Ok(())
}
