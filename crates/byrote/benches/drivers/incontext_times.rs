//! Times forward substitution or the recursion on a sequence from a file, for the benchmark against NumPy and SciPy:
//! `incontext_times SEQUENCE.npy direct|recursion [--beta B] [--copies K] [--threads N] [--out PREDICTIONS.bin]` prints
//! one line of JSON with the seconds of one run after a warm-up. `--copies` runs that many sequences at once, and the
//! seconds are those of all of them.
#![allow(clippy::print_stdout)]

use byrote::incontext::{Kernel, Over, Rows, Sequence, direct_all, recursion_all, sequence_file};
use byrote::observe::Silent;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut path, mut method, mut beta, mut copies, mut threads, mut out) = (None, None, None, 1, 2, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--beta" => beta = Some(arguments.next().ok_or("--beta B")?.parse()?),
            "--copies" => copies = arguments.next().ok_or("--copies K")?.parse()?,
            "--threads" => threads = arguments.next().ok_or("--threads N")?.parse()?,
            "--out" => out = Some(arguments.next().ok_or("--out FILE")?),
            _ if path.is_none() => path = Some(argument),
            _ => method = Some(argument),
        }
    }
    let sequences =
        sequence_file::read(path.ok_or("usage: incontext_times SEQUENCE.npy direct|recursion")?.as_ref())?;
    let sequences: Vec<Sequence> = (0..copies).flat_map(|_| sequences.clone()).collect();
    let kernel = beta.map_or(Ok(Kernel::LINEAR), Kernel::exp)?;
    let run = |sequences: &[Sequence]| -> byrote::Result<Vec<Rows>> {
        match method.as_deref() {
            Some("recursion") => recursion_all(sequences, kernel, Over::Query, &Silent),
            _ => direct_all(sequences, kernel, Over::Query, &Silent),
        }
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    // As for its peers, the threads are running and the code has run once.
    pool.install(|| run(&sequences))?;
    let start = Instant::now();
    let predictions = pool.install(|| run(&sequences))?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(out) = out {
        let bytes: Vec<u8> = predictions[0].values().iter().flat_map(|x| x.to_le_bytes()).collect();
        std::fs::write(out, bytes)?;
    }
    println!("{}", serde_json::json!({ "seconds": seconds, "sequences": sequences.len() }));
    Ok(())
}
