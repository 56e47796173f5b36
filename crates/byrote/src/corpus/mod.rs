//! A corpus: documents, their distinct contexts, the floor.
//!
//! ```text
//! files -> slabs (read/) -> tokens (tokenizer/, chunk) -> sorted documents (count/) -> figures (summary)
//!                                       |                        |-> ContextSet (contexts)
//!                                       '-> runs on disk (sorted_run, merge) -'
//! ```
//!
//! The terms (document, context, count, floor, ...) are defined in `docs/definitions.md`.
//!
//! ```
//! use byrote::corpus::{Corpus, Options, Outputs, Source, TokenizerChoice, Window};
//! use byrote::observe::Silent;
//!
//! let dir = tempfile::tempdir()?;
//! let path = dir.path().join("three.txt");
//! std::fs::write(&path, "abab\nabac\nabb\n")?;
//! let options = Options::default().window(Window::default().n_ctx(3)).tokenizer(TokenizerChoice::Char);
//! let corpus = Corpus::read(&Source::Files(vec![path]), &options, Outputs::default(), &Silent)?;
//! assert_eq!((corpus.summary.contexts, corpus.summary.predictions), (3, 8));
//! assert!((corpus.summary.floor_nats.0 - 3.295836866).abs() < 1e-9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod builtin;
pub(crate) mod contexts;
pub(crate) mod count;
pub(crate) mod first_documents;
pub(crate) mod options;
pub mod random;
pub(crate) mod reading;
pub(crate) mod spec;
mod stored_documents;
pub(crate) mod summary;
pub mod tokenizer;
pub(crate) mod vocabulary;
pub(crate) mod window;
pub(crate) mod windows;

mod beginning;
mod chunk;
mod collect;
mod documents;
mod figures_file;
mod finish;
mod in_memory;
mod lexicon;
mod list;
mod loss;
mod merge;
pub(crate) mod parts;
mod provisional_ids;
pub(crate) mod read;
mod sealed;
mod short_words;
mod slab_documents;
mod sorted_run;
pub(crate) mod whole_documents;

pub use chunk::Dropped;
pub use contexts::{Context, ContextSet};
pub use first_documents::FirstDocuments;
pub use in_memory::{FlatIds, IdSlice, RowId};
pub use loss::{Loss, LossReading, PositionReading};
pub use options::{DocumentRule, Format, IdType, Options, PartOf, Split};
pub use parts::split_summary;
pub use reading::Reading;
pub use spec::CorpusSpec;
pub use summary::{Coverage, LengthSummary, Summary};
pub use tokenizer::{Encoded, Tokenizer, TokenizerChoice, TokenizerJson};
pub use vocabulary::{Alphabet, Key, Vocabulary};
pub use whole_documents::{DocumentBody, WholeDocument, whole_documents};
pub use window::{ContextRule, MAX_N_CTX, Window};
pub use windows::{FloorPoint, Passage, Repeats, ShortestUnique, WindowSample, WindowSummary};

use crate::observe::{Detail, Observer, Progress, Silent, Stage};
use crate::output::OutputFile;
use crate::{Error, Result};
use builtin::Stories;
use chunk::Chunk;
use collect::{Collector, MAX_RUNS};
use finish::{merge_runs, merge_to_run};
use random::Associations;
use read::input::Input;
use read::{Content, Holds, Reader, Slab, slab_bytes};
use sorted_run::Header;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where documents come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// Files, directories (all files in them) and patterns such as `data/*.txt`, read one after the other; `-` is standard
    /// input.
    Files(Vec<PathBuf>),
    /// Files held in memory, read one after the other.
    Memory(Vec<MemoryFile>),
    /// Built-in stories.
    Stories {
        /// The number of stories.
        documents: u64,
        /// The seed of the grammar.
        seed: u64,
    },
    /// Random sequences, each followed by a random label.
    Random(Associations),
    /// Shard summaries written by [`Outputs::save`].
    Summaries(Vec<PathBuf>),
}

/// A file held in memory.
#[derive(Debug, Clone)]
pub struct MemoryFile {
    /// Its name: the extension determines the format, as for files on disk, and messages use it.
    pub name: PathBuf,
    /// Its contents.
    pub bytes: Arc<[u8]>,
}

/// The outputs besides the statistics. Files are opened before the work begins and renamed to their final names after it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Outputs {
    /// Keep the set of contexts in memory.
    pub contexts: bool,
    /// Give up on the set of contexts if there are many more than this; of windows, draw so few that there are not more.
    pub max_contexts: Option<u64>,
    /// Draw so few windows that the product of contexts and vocabulary is not more than this.
    pub max_work: Option<u64>,
    /// Keep the first documents too, up to this many tokens, so that a part of the corpus can be counted without reading it
    /// again.
    pub head: Option<usize>,
    /// Write a shard summary.
    pub save: Option<OutputFile>,
    /// Write every context as a line of CSV.
    pub list: Option<OutputFile>,
    /// Accept a corpus without documents: one shard of many may be empty.
    pub may_be_empty: bool,
}

crate::setting::setters!(Outputs {
    contexts: plain(bool),
    max_contexts: into(impl Into<Option<u64>>),
    max_work: into(impl Into<Option<u64>>),
    head: into(impl Into<Option<usize>>),
    save: into(impl Into<Option<OutputFile>>),
    list: into(impl Into<Option<OutputFile>>),
    may_be_empty: plain(bool),
});

/// The statistics of a corpus, its vocabulary and, if requested, its contexts.
#[derive(Debug)]
pub struct Corpus {
    /// The statistics.
    pub summary: Summary,
    /// The tokens by id.
    pub vocabulary: Vocabulary,
    /// The contexts, if requested.
    pub contexts: Option<ContextSet>,
    /// The first documents, if requested.
    pub head: Option<FirstDocuments>,
    /// The statistics of all windows, if contexts of windows were requested: everything else is then about those windows whose
    /// contexts are kept.
    pub whole: Option<Box<Summary>>,
}

impl Corpus {
    /// Reads a corpus.
    pub fn read(
        source: &Source,
        options: &Options,
        outputs: Outputs,
        observer: &dyn Observer,
    ) -> Result<Self> {
        options.window.check()?;
        match source {
            Source::Files(paths) => {
                let paths = read::files::expand(paths, options.format)?;
                let sizes =
                    paths.iter().map(|p| std::fs::metadata(p).ok().filter(|m| m.is_file()).map(|m| m.len()));
                let total_bytes = sizes.sum::<Option<u64>>();
                read_files(paths.iter().map(|p| (p, None)), total_bytes, options, outputs, observer)
            }
            Source::Memory(files) => {
                let total_bytes = files.iter().map(|f| f.bytes.len() as u64).sum();
                let files = files.iter().map(|f| (&f.name, Some(&f.bytes)));
                read_files(files, Some(total_bytes), options, outputs, observer)
            }
            Source::Stories { documents, seed } => {
                read_stories(*documents, *seed, options, outputs, observer)
            }
            Source::Random(associations) => read_random(associations, options, outputs, observer),
            Source::Summaries(paths) => read_summaries(paths, options, outputs, observer),
        }
    }

    /// Returns which windows the contexts are of, if they are those of windows.
    pub fn window_sample(&self) -> Option<WindowSample> {
        let whole = self.whole.as_ref()?;
        Some(WindowSample {
            windows: self.summary.documents,
            of: whole.windows.as_ref()?.windows,
            floor_nats_per_prediction: self.summary.floor_nats_per_prediction,
            floor_nats_per_prediction_of_all: whole.floor_nats_per_prediction,
        })
    }
}

/// Reads files by name, or their contents if they are in memory; `total_bytes` is the size of all of them.
fn read_files<'f>(
    files: impl Iterator<Item = (&'f PathBuf, Option<&'f Arc<[u8]>>)>,
    total_bytes: Option<u64>,
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    let (by_word, by_letter) = (Tokenizer::load(&options.tokenizer)?, Tokenizer::Char);
    let letters = Options { tokenizer: TokenizerChoice::Char, ..options.clone() };
    let read = Arc::new(AtomicU64::new(0));
    let mut collector: Option<Collector<'_>> = None;
    let mut first: Option<(&PathBuf, Holds)> = None;
    let mut formats = Vec::new();
    for (path, held) in files {
        let input = Input::open(path, held, options, read.clone())?;
        let format = input.format;
        formats.push(format);
        let (holds, mut reader) = read::open(path, options, input)?;
        // An empty file holds neither text nor ids.
        let Some(holds) = holds else { continue };
        match first {
            None => first = Some((path, holds)),
            Some((other, before)) if before != holds => {
                let (ids, text) = if holds == Holds::Ids { (path, other) } else { (other, path) };
                return Err(Error::format(
                    path,
                    format!(
                        "{} contains token ids and {} contains text; count them separately",
                        ids.display(),
                        text.display()
                    ),
                ));
            }
            Some(_) => {}
        }
        let mut slab = Slab::default();
        if !reader.fill(&mut slab)? {
            continue;
        }
        let collector = collector.get_or_insert_with(|| {
            let is_list = holds == Holds::Text
                && options.letters_of_words
                && is_list_of_words(&slab, options, &by_word);
            let (options, tokenizer) = if is_list { (&letters, &by_letter) } else { (options, &by_word) };
            let alphabet = holds.alphabet(tokenizer.alphabet());
            Collector::new(options, tokenizer, Stories::new(0), alphabet, observer).with_head(outputs.head)
        });
        if drive(&mut *reader, slab, collector, observer, &read, total_bytes)? {
            break;
        }
        if format == Format::Parquet {
            // Read at random offsets, so counted as a whole.
            read.fetch_add(std::fs::metadata(path).map_or(0, |m| m.len()), Ordering::Relaxed);
        }
    }
    if options.dtype.is_some() && !formats.contains(&Format::Bin) {
        return Err(Error::setting("dtype", "applies only to .bin files, and none was given"));
    }
    if options.separator_id.is_some() && !formats.iter().any(|f| matches!(f, Format::Bin | Format::Npy)) {
        return Err(Error::setting(
            "separator_id",
            "applies only to .bin and .npy files, and none was given",
        ));
    }
    let collector = collector
        .unwrap_or_else(|| Collector::new(options, &by_word, Stories::new(0), by_word.alphabet(), observer));
    collector.finish(outputs)
}

/// Whether every document of a slab is a single word, and one of them is longer than a letter. A document that cannot be read
/// is none: reading it says why.
fn is_list_of_words(slab: &Slab, options: &Options, by_word: &Tokenizer) -> bool {
    if matches!(slab.content, Content::Part { .. }) {
        return false;
    }
    let window = Window { exact_length: false, ..options.window };
    let stories = Stories::new(0);
    let documents =
        slab.documents.len().min(usize::try_from(options.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX));
    // More tokens than documents: one has two.
    let has_contexts = |tokenizer: &Tokenizer| -> Result<bool> {
        let mut chunk = Chunk::new(tokenizer.alphabet(), &Options { window, ..options.clone() });
        for i in 0..documents {
            slab_documents::document(options, tokenizer, &stories, &mut chunk, slab, i)?;
            if chunk.tokens.len() > chunk.len() {
                return Ok(true);
            }
        }
        Ok(false)
    };
    matches!(has_contexts(by_word), Ok(false)) && matches!(has_contexts(&Tokenizer::Char), Ok(true))
}

/// Reads the next slab while this one is tokenized, beginning with `slab`; returns `true` when the limit is reached.
fn drive(
    reader: &mut dyn Reader,
    mut slab: Slab,
    collector: &mut Collector<'_>,
    observer: &dyn Observer,
    read: &AtomicU64,
    total_bytes: Option<u64>,
) -> Result<bool> {
    let mut next = Slab::default();
    let mut more = true;
    while more {
        next.clear();
        let (taken, filled) = rayon::join(|| collector.take(&slab), || reader.fill(&mut next));
        if taken?.is_break() {
            return Ok(true);
        }
        let progress = Progress::new(Stage::Reading, read.load(Ordering::Relaxed), total_bytes);
        observer.progress(&progress.with(Detail::Documents(collector.kept())));
        more = filled?;
        std::mem::swap(&mut slab, &mut next);
    }
    Ok(false)
}

fn read_stories(
    documents: u64,
    seed: u64,
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    let tokenizer = Tokenizer::load(&options.tokenizer)?;
    let alphabet = tokenizer.alphabet();
    let mut collector =
        Collector::new(options, &tokenizer, Stories::new(seed), alphabet, observer).with_head(outputs.head);
    let mut slab = Slab { content: Content::Stories, ..Slab::default() };
    let batch = (slab_bytes(options) / 256) as u64;
    let mut start = 0;
    while start < documents {
        let n = batch.min(documents - start);
        slab.first_line = start + 1;
        slab.documents.resize(n as usize, 0..0);
        if collector.take(&slab)?.is_break() {
            break;
        }
        start += n;
        observer.progress(&Progress::new(Stage::Generating, start, Some(documents)));
    }
    collector.finish(outputs)
}

fn read_random(
    associations: &Associations,
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    let longest = *associations.lengths().end();
    if longest > options.window.n_ctx as usize {
        return Err(Error::setting(
            "n_ctx",
            format!("{} would cut sequences of {longest} tokens", options.window.n_ctx),
        ));
    }
    let tokenizer = Tokenizer::Byte; // Ids are taken as they are.
    let mut collector =
        Collector::new(options, &tokenizer, Stories::new(0), Alphabet::Id, observer).with_head(outputs.head);
    let mut slab = Slab { content: Content::Ids, first_line: 1, path: "random".into(), ..Slab::default() };
    let total = associations.n() as u64;
    for (sequence, drawn) in associations.draw().zip(0u64..) {
        if drawn.is_multiple_of(1 << 14) {
            observer.report(Stage::Generating, drawn, Some(total))?;
        }
        let start = slab.ids.len();
        slab.ids.extend_from_slice(&sequence);
        slab.documents.push(start..slab.ids.len());
    }
    let _ = collector.take(&slab)?;
    collector.finish(outputs)
}

fn read_summaries(
    paths: &[PathBuf],
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    let Some(first) = paths.first() else {
        return Err(Error::setting("merge", "needs at least one summary"));
    };
    let is_range_file = windows::is_range_file(first)?;
    if !options.range.is_all() && (is_range_file || parts::is_part_file(first)?) {
        return Err(Error::setting("range", "applies to summaries, and these files are parts already"));
    }
    if is_range_file {
        return windows::merge(paths, outputs, observer);
    }
    if parts::is_part_file(first)? {
        return parts::merge(paths, outputs, observer);
    }
    if !options.range.is_all() {
        return parts::count(paths, options, outputs, observer);
    }
    let (header, runs) = open_summaries(paths, options, observer)?;
    merge_runs(runs, header, |_| (), None, options, outputs, observer)
}

/// Opens shard summaries, in which only the documents of `options.range` are read; many are merged on disk first.
fn open_summaries(
    paths: &[PathBuf],
    options: &Options,
    observer: &dyn Observer,
) -> Result<(Header, Vec<sorted_run::AnyRun>)> {
    let mut first: Option<(Header, &PathBuf)> = None;
    // Many files are merged in groups, so that few are open at a time.
    let mut groups = Vec::new();
    for group in paths.chunks(MAX_RUNS) {
        let mut runs = Vec::with_capacity(group.len());
        for path in group {
            let run = sorted_run::open_saved(path)?.only(options.range);
            match &mut first {
                None => first = Some((run.header.clone(), path)),
                Some((header, left)) => header.join(&run.header).map_err(|message| Error::Incompatible {
                    left: left.to_path_buf(),
                    right: path.clone(),
                    message,
                })?,
            }
            runs.push(run);
        }
        let Some((header, _)) = &first else { break };
        if paths.len() <= MAX_RUNS {
            return Ok((header.clone(), runs));
        }
        groups.push(merge_to_run(runs, header, None, options, observer)?.boxed());
        if groups.len() == MAX_RUNS {
            groups = vec![merge_to_run(groups, header, None, options, observer)?.boxed()];
        }
    }
    match first {
        Some((header, _)) => Ok((header, groups)),
        None => Err(Error::setting("merge", "needs at least one summary")),
    }
}

/// Reads a shard summary, or the uncompressed run inside one, from memory.
pub(crate) fn read_summary_bytes(bytes: &[u8]) -> Result<Corpus> {
    let path = Path::new("memory");
    let bytes = Box::new(io::Cursor::new(bytes.to_vec()));
    let run = match bytes.get_ref().starts_with(b"byrote") {
        true => sorted_run::read_saved(bytes, path)?,
        false => sorted_run::RunReader::<Box<dyn io::Read + Send>>::new(bytes, path.to_path_buf())?,
    };
    let (header, options) = (run.header.clone(), Options::default());
    let outputs = Outputs { contexts: true, ..Outputs::default() };
    merge_runs(vec![run], header, |_| (), None, &options, outputs, &Silent)
}
