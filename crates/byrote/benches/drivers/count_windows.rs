//! Counts the full windows of a text of token ids, for the benchmark against other programs: `count_windows IDS.npy [--n-ctx T]
//! [--threads N] [--max-memory BYTES] [--libsais]` prints one line of JSON with the figures, the seconds from opening the file to
//! the figures, and the memory taken.
//!
//! With `--libsais`, the same figures come from a suffix array, its common prefixes and one pass over them with a stack: the
//! array and the prefixes by libsais on one thread, the pass below.
#![allow(clippy::print_stdout)]

use byrote::corpus::{ContextRule, Corpus, DocumentRule, Options, Outputs, Source, Window};
use byrote::observe::Silent;
use libsais::SuffixArrayConstruction;
use std::time::Instant;

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let (mut path, mut threads, mut n_ctx, mut libsais, mut max_memory) = (None, 2, 8, false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().ok_or("--threads N")?.parse()?,
            "--n-ctx" => n_ctx = arguments.next().ok_or("--n-ctx T")?.parse()?,
            "--max-memory" => max_memory = Some(arguments.next().ok_or("--max-memory BYTES")?.parse()?),
            "--libsais" => libsais = true,
            _ => path = Some(argument),
        }
    }
    let path = path
        .ok_or("usage: count_windows IDS.npy [--n-ctx T] [--threads N] [--max-memory BYTES] [--libsais]")?;
    let before = memory("VmRSS:").unwrap_or(0);
    let start = Instant::now();
    let found =
        if libsais { by_libsais(&path, n_ctx)? } else { by_byrote(path, n_ctx, threads, max_memory)? };
    let seconds = start.elapsed().as_secs_f64();
    let peak = memory("VmHWM:").map(|peak| peak.saturating_sub(before));
    println!(
        "{}",
        serde_json::json!({
            "tokens": found.tokens,
            "contexts": found.contexts,
            "predictions": found.predictions,
            "floor_nats": found.floor_nats,
            "seconds": seconds,
            "peak_bytes": peak,
        })
    );
    Ok(())
}

struct Found {
    tokens: u64,
    contexts: u64,
    predictions: u64,
    floor_nats: f64,
}

fn by_byrote(path: String, n_ctx: usize, threads: usize, max_memory: Option<u64>) -> Result<Found, AnyError> {
    let window = Window::default().n_ctx(n_ctx as u32).exact_length(true).contexts(ContextRule::Windows);
    let options = Options::default().window(window).documents(DocumentRule::File).max_memory(max_memory);
    let source = Source::Files(vec![path.into()]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let corpus = pool.install(|| Corpus::read(&source, &options, Outputs::default(), &Silent))?;
    let summary = corpus.summary;
    Ok(Found {
        tokens: summary.tokens,
        contexts: summary.contexts,
        predictions: summary.predictions,
        floor_nats: summary.floor_nats.0,
    })
}

fn by_libsais(path: &str, n_ctx: usize) -> Result<Found, AnyError> {
    let bytes = std::fs::read(path)?;
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    if !String::from_utf8_lossy(&bytes[..header]).contains("'<u2'") {
        return Err("an .npy of '<u2' is needed".into());
    }
    let text: Vec<u16> = bytes[header..].chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    drop(bytes);
    let wrong = |e| format!("libsais failed: {e:?}");
    let array = SuffixArrayConstruction::for_text(&text[..])
        .in_owned_buffer32()
        .single_threaded()
        .run()
        .map_err(wrong)?;
    let array = array.plcp_construction().single_threaded().run().map_err(wrong)?;
    Ok(count(text.len(), n_ctx, array.suffix_array(), array.plcp()))
}

/// The figures of full windows from the order of all suffixes, and from the common prefix of each with the one before it.
fn count(tokens: usize, n_ctx: usize, order: &[i32], common: &[i32]) -> Found {
    let full = n_ctx + 1;
    let logs: Vec<f64> = (0..4096u32).map(|n| f64::from(n.max(1)) * f64::from(n.max(1)).ln()).collect();
    let n_ln_n = |n: u64| logs.get(n as usize).copied().unwrap_or_else(|| n as f64 * (n as f64).ln());
    let (mut contexts, mut floor, mut windows) = (0u64, 0.0, 0u64);
    // The nodes on the path to the last window: depth, and the number of windows before the node.
    let mut path: Vec<(usize, u64)> = vec![(0, 0)];
    let mut close = |path: &mut Vec<(usize, u64)>, common: usize, windows: u64| {
        while let [.., (parent, _), (depth, first)] = path[..]
            && depth > common
        {
            let (above, through) = (parent.max(common), windows - first);
            path.pop();
            if parent < above {
                path.push((above, first));
            }
            // Contexts within an edge have one next token; they and the next tokens of the node above cancel but for one.
            let sum = n_ln_n(through);
            contexts += (depth - above - 1) as u64;
            floor -= if above == 0 { 0.0 } else { sum };
            if depth < full {
                contexts += 1;
                floor += sum;
            }
        }
    };
    let mut shared = full;
    for &start in order {
        let start = start as usize;
        shared = shared.min(common[start] as usize);
        if tokens - start < full {
            continue;
        }
        close(&mut path, shared, windows);
        if shared < full {
            path.push((full, windows));
        }
        windows += 1;
        shared = full;
    }
    close(&mut path, 0, windows);
    Found { tokens: tokens as u64, contexts, predictions: windows * n_ctx as u64, floor_nats: floor }
}

/// A size of this process in bytes, if the system reports it.
fn memory(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
