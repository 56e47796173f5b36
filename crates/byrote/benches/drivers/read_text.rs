//! Times reading: `read_text FILE [--tokenizer NAME] [--contexts prefixes|windows] [--documents RULE] [--n-ctx T]
//! [--threads N] [--rounds N] [--count]` prints one line of JSON per round with the seconds from opening the file until all
//! of its tokens are in memory, ready to be sorted, and the processor time of all threads until then. Sorting is interrupted,
//! unless `--count` asks for the whole count.
#![allow(clippy::print_stdout)]

use byrote::Error;
use byrote::corpus::{Corpus, Options, Outputs, Source, Window};
use byrote::observe::{Observer, Progress, Stage};
use std::sync::OnceLock;
use std::time::Instant;

/// Notes when the stage after reading begins.
struct Reading {
    start: Instant,
    /// Processor time before.
    before: Option<f64>,
    /// The seconds of reading, and the processor time.
    seconds: OnceLock<(f64, Option<f64>)>,
    count: bool,
}

impl Observer for Reading {
    fn progress(&self, progress: &Progress<'_>) {
        if progress.stage != Stage::Reading {
            self.seconds.get_or_init(|| {
                let seconds = self.start.elapsed().as_secs_f64();
                (seconds, processor_time().zip(self.before).map(|(now, before)| now - before))
            });
        }
    }
    fn should_stop(&self) -> bool {
        !self.count && self.seconds.get().is_some()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut path, mut threads, mut rounds, mut count) = (None, 2, 1, false);
    let (mut options, mut window) = (Options::default(), Window::default());
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--tokenizer" => options.tokenizer = value()?.parse()?,
            "--documents" => options.documents = Some(value()?.parse()?),
            "--contexts" => window.contexts = value()?.parse()?,
            "--n-ctx" => window.n_ctx = value()?.parse()?,
            "--threads" => threads = value()?.parse()?,
            "--rounds" => rounds = value()?.parse()?,
            "--count" => count = true,
            _ => path = Some(argument),
        }
    }
    options.window = window;
    let source = Source::Files(vec![path.ok_or("usage: read_text FILE [--tokenizer NAME] ...")?.into()]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    for _ in 0..rounds {
        let before = processor_time();
        let observer = Reading { start: Instant::now(), before, seconds: OnceLock::new(), count };
        let done = pool.install(|| Corpus::read(&source, &options, Outputs::default(), &observer));
        let whole = observer.start.elapsed().as_secs_f64();
        let summary = match done {
            Ok(corpus) => Some(corpus.summary),
            Err(Error::Interrupted) => None,
            Err(error) => return Err(error.into()),
        };
        println!(
            "{}",
            serde_json::json!({
                "seconds": observer.seconds.get().map(|(seconds, _)| seconds),
                "cpu_seconds": observer.seconds.get().and_then(|(_, cpu)| *cpu),
                "whole_seconds": summary.as_ref().map(|_| whole),
                "documents": summary.as_ref().map(|s| s.documents),
                "tokens": summary.as_ref().map(|s| s.tokens),
                "contexts": summary.as_ref().map(|s| s.contexts),
                "floor_nats": summary.as_ref().map(|s| s.floor_nats),
                "peak_rss_bytes": peak_rss(),
            })
        );
    }
    Ok(())
}

/// The processor time of all threads in seconds, if the system reports it.
fn processor_time() -> Option<f64> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let line = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += line.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(nanoseconds as f64 / 1e9)
}

/// The peak resident size so far, if the system reports it.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
