//! Reading, tokenizing and counting, each on its own: `cargo bench -p byrote`.
#![allow(clippy::unwrap_used, missing_docs)]

use byrote::Stream;
use byrote::corpus::builtin::Stories;
use byrote::corpus::{Corpus, Options, Outputs, Source, TokenizerChoice};
use byrote::observe::Silent;
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use std::io::Write;
use std::path::PathBuf;

fn main() {
    divan::main();
}

/// A hundred thousand stories in a file, and their size.
fn stories() -> (tempfile::TempDir, PathBuf, u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stories.txt");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for story in Stories::new(0).documents(100_000) {
        writeln!(out, "{story}").unwrap();
    }
    out.flush().unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    (directory, path, size)
}

/// Plain reading of the same file, as the limit.
#[divan::bench]
fn read_only(bencher: Bencher) {
    let (_directory, path, size) = stories();
    bencher.counter(BytesCount::new(size)).bench(|| black_box(std::fs::read(&path).unwrap().len()));
}

#[divan::bench(args = ["byte", "char", "whitespace", "wordpunct"])]
fn read_tokenize_count(bencher: Bencher, tokenizer: &str) {
    let (_directory, path, size) = stories();
    let tokenizer: TokenizerChoice = tokenizer.parse().unwrap();
    let options = Options::default().tokenizer(tokenizer);
    let source = Source::Files(vec![path]);
    bencher
        .counter(BytesCount::new(size))
        .bench(|| Corpus::read(&source, &options, Outputs::default(), &Silent).unwrap().summary.contexts);
}

/// Windows that keep whole stories, so that every byte is tokenized.
#[divan::bench(args = [9, 31, 99])]
fn longer_windows(bencher: Bencher, n_ctx: u32) {
    let (_directory, path, size) = stories();
    let mut options = Options::default();
    options.window.n_ctx = n_ctx;
    let source = Source::Files(vec![path]);
    bencher
        .counter(BytesCount::new(size))
        .bench(|| Corpus::read(&source, &options, Outputs::default(), &Silent).unwrap().summary.contexts);
}

#[divan::bench(args = [100, 5_000, 60_000])]
fn count_ids_in_memory(bencher: Bencher, d_vocab: u64) {
    let mut stream = Stream::new(0, "bench", 0);
    let ids: Vec<u16> = (0..5_000_000).map(|_| (stream.unit().powi(4) * d_vocab as f64) as u16).collect();
    bencher
        .counter(ItemsCount::new(ids.len()))
        .bench(|| Corpus::from_rows(&ids, 10, 9).unwrap().summary.contexts);
}

#[divan::bench]
fn write_stories(bencher: Bencher) {
    bencher.counter(ItemsCount::new(10_000u64)).bench(|| {
        let mut text = String::new();
        (0..10_000).for_each(|i| Stories::new(0).write(i, &mut text));
        text.len()
    });
}
