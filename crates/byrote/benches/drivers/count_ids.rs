//! Counts documents of token ids held in memory, for the benchmark against DuckDB and Polars: `count_ids DOCUMENTS.npy
//! [--threads N]` prints one line of JSON with the figures, the seconds spent counting, and the peak memory.
#![allow(clippy::print_stdout)]

use byrote::corpus::Corpus;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut path, mut threads, mut rounds) = (None, 2, 1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().ok_or("--threads N")?.parse()?,
            "--rounds" => rounds = arguments.next().ok_or("--rounds N")?.parse()?,
            _ => path = Some(argument),
        }
    }
    let bytes = std::fs::read(path.ok_or("usage: count_ids DOCUMENTS.npy [--threads N] [--rounds N]")?)?;
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    if !String::from_utf8_lossy(&bytes[..header]).contains("'<u2'") {
        return Err("an .npy of '<u2' is needed".into());
    }
    let ids: Vec<u16> = bytes[header..].chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    drop(bytes);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    // As for its peers, the threads are running and the code has run once on a few documents.
    pool.install(|| Corpus::from_rows(&ids[..ids.len().min(10_000)], 10, 9))?;
    for _ in 0..rounds {
        let start = Instant::now();
        let summary = pool.install(|| Corpus::from_rows(&ids, 10, 9))?.summary;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{}",
            serde_json::json!({
                "contexts": summary.contexts,
                "predictions": summary.predictions,
                "deterministic_contexts": summary.deterministic_contexts,
                "floor_nats": summary.floor_nats,
                "seconds": seconds,
                "peak_rss_bytes": peak_rss(),
            })
        );
    }
    Ok(())
}

/// The peak resident size so far, if the system reports it.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
