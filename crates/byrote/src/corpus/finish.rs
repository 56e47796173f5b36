//! The last step of counting: sorted documents, in memory or in runs on disk, become statistics, files and contexts.

use super::chunk::Dropped;
use super::contexts::{ContextSet, ContextSetBuilder};
use super::count::Token;
use super::count::sort::{RowVisitor, Sorted};
use super::count::trie_scan::{Scan, Scanned, scan};
use super::list::Lister;
use super::merge::{merge, union};
use super::options::Options;
use super::sorted_run::{Header, RunReader, RunWriter, save_shell};
use super::summary::Summary;
use super::vocabulary::Vocabulary;
use super::window::Window;
use super::{Corpus, Outputs};
use crate::observe::{Observer, Stage};
use crate::output::OutputFile;
use crate::{Error, Result};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;

/// Writes a run to an unnamed temporary file, which the system removes however the process ends.
pub(crate) fn write_run(
    options: &Options,
    header: &Header,
    vocabulary: &Vocabulary,
    rows: impl FnOnce(&mut RunWriter<&File>) -> Result<()>,
) -> Result<RunReader<File>> {
    let fail = |e| Error::io(&options.temp_dir, "write a temporary file in", e);
    let mut file = tempfile::tempfile_in(&options.temp_dir).map_err(fail)?;
    let mut writer = RunWriter::new(&file, header, vocabulary).map_err(fail)?;
    rows(&mut writer)?;
    writer.finish().map_err(fail)?;
    file.rewind().map_err(fail)?;
    RunReader::new(file, options.temp_dir.join("(temporary file)"))
}

/// Merges runs into one run on disk.
pub(crate) fn merge_to_run<R: Read>(
    mut runs: Vec<RunReader<R>>,
    header: &Header,
    total: Option<u64>,
    options: &Options,
    observer: &dyn Observer,
) -> Result<RunReader<File>> {
    let (vocabulary, maps) = union(&mut runs, options.max_memory)?;
    write_run(options, header, &vocabulary, |writer| merge(&mut runs, &maps, total, writer, observer))
}

/// The requested outputs besides the statistics.
struct Taps<'v> {
    save: Option<RunWriter<zstd::Encoder<'static, OutputFile>>>,
    list: Option<(Lister<'v>, OutputFile)>,
    contexts: Option<ContextSetBuilder>,
    may_be_empty: bool,
    save_path: PathBuf,
    observer: &'v dyn Observer,
    rows: u64,
    /// The number of rows, if they are to be reported.
    total: Option<u64>,
    stopped: bool,
}

impl<'v> Taps<'v> {
    fn new(
        outputs: Outputs,
        header: &Header,
        vocabulary: &'v Vocabulary,
        options: &Options,
        observer: &'v dyn Observer,
    ) -> Result<Self> {
        let rule = header.window.contexts;
        let save_path = outputs.save.as_ref().map_or_else(PathBuf::new, |o| o.path().to_path_buf());
        let save = match outputs.save {
            Some(out) => {
                let writer = save_shell(out).and_then(|shell| RunWriter::new(shell, header, vocabulary));
                Some(writer.map_err(|e| Error::io(&save_path, "write", e))?)
            }
            None => None,
        };
        let list = match outputs.list {
            Some(out) => Some((Lister::new(vocabulary, rule, &options.temp_dir)?, out)),
            None => None,
        };
        Ok(Self {
            save,
            list,
            contexts: outputs.contexts.then(|| ContextSetBuilder::new(rule, outputs.max_contexts)),
            may_be_empty: outputs.may_be_empty,
            save_path,
            observer,
            rows: 0,
            total: None,
            stopped: false,
        })
    }

    fn is_idle(&self) -> bool {
        self.save.is_none() && self.list.is_none() && self.contexts.is_none()
    }

    fn check_stop(&self) -> Result<()> {
        if self.stopped || self.observer.should_stop() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Completes every file before renaming any of them, so that an error leaves none behind.
    fn finish(self, scanned: &Scanned, dropped: Dropped, window: Window) -> Result<Option<ContextSet>> {
        self.check_stop()?;
        if scanned.documents == 0 && !self.may_be_empty {
            return Err(empty_corpus(dropped, window));
        }
        let mut complete = Vec::new();
        if let Some(writer) = self.save {
            let out = writer.finish().and_then(|shell| shell.finish());
            complete.push(out.map_err(|e| Error::io(&self.save_path, "write", e))?);
        }
        if let Some((lister, out)) = self.list {
            complete.push(lister.finish(out, self.observer)?);
        }
        complete.iter_mut().try_for_each(OutputFile::complete)?;
        self.observer.check()?;
        complete.into_iter().try_for_each(OutputFile::commit)?;
        Ok(self.contexts.and_then(ContextSetBuilder::finish))
    }
}

/// The error for a corpus without documents.
pub(super) fn empty_corpus(dropped: Dropped, window: Window) -> Error {
    let message = match (dropped.empty, dropped.short) {
        (0, 0) => "no documents: the input is empty".into(),
        (empty, 0) => format!("no documents: {empty} read, none of which has a token"),
        (empty, short) => format!(
            "no documents: {} read, {short} of them shorter than the {} tokens that `exact_length` requires",
            empty + short,
            window.kept()
        ),
    };
    Error::EmptyCorpus { message }
}

impl RowVisitor for Taps<'_> {
    fn row(&mut self, lcp: usize, len: usize, count: u64, token: impl Fn(usize) -> u32) {
        self.rows += 1;
        if self.rows & 0xfff == 0 {
            let report = match self.total {
                // Merging reports by itself.
                None => self.observer.check(),
                total => self.observer.report(Stage::Counting, self.rows, total),
            };
            self.stopped |= report.is_err();
        }
        if self.stopped {
            return;
        }
        if let Some(save) = &mut self.save {
            save.row(lcp, len, count, &token);
        }
        if let Some((list, _)) = &mut self.list {
            list.row(lcp, len, count, &token);
        }
        if let Some(contexts) = &mut self.contexts {
            contexts.row(lcp, len, count, &token);
        }
    }
}

/// Scans sorted documents and produces the requested outputs.
pub(crate) fn finish_sorted<T: Token>(
    sorted: &Sorted<'_, T>,
    vocabulary: &Vocabulary,
    header: Header,
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    let mut taps = Taps::new(outputs, &header, vocabulary, options, observer)?;
    taps.check_stop()?;
    let scanned = scan(sorted, header.window.contexts);
    if !taps.is_idle() {
        taps.total = Some(scanned.rows);
        for part in 0..sorted.parts() {
            sorted.visit(part, &mut taps);
            taps.check_stop()?;
        }
    }
    let contexts = taps.finish(&scanned, header.dropped, header.window)?;
    Ok(corpus(&scanned, vocabulary.clone(), header, contexts))
}

/// A scan that also passes its rows to the outputs.
struct Tapped<'t, 'v> {
    scan: Scan,
    taps: &'t mut Taps<'v>,
}

impl RowVisitor for Tapped<'_, '_> {
    fn row(&mut self, lcp: usize, len: usize, count: u64, token: impl Fn(usize) -> u32) {
        self.scan.row(lcp, len, count, &token);
        self.taps.row(lcp, len, count, &token);
    }
}

/// Merges spilled or saved runs, scans them and produces the requested outputs.
pub(crate) fn merge_runs<R: Read>(
    mut runs: Vec<RunReader<R>>,
    header: Header,
    names: impl FnOnce(&mut Vocabulary),
    total: Option<u64>,
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    let (mut vocabulary, maps) = union(&mut runs, options.max_memory)?;
    names(&mut vocabulary);
    let mut taps = Taps::new(outputs, &header, &vocabulary, options, observer)?;
    let mut tapped = Tapped { scan: Scan::new(header.window.contexts), taps: &mut taps };
    merge(&mut runs, &maps, total, &mut tapped, observer)?;
    let scanned = tapped.scan.finish();
    let contexts = taps.finish(&scanned, header.dropped, header.window)?;
    Ok(corpus(&scanned, vocabulary, header, contexts))
}

fn corpus(scanned: &Scanned, vocabulary: Vocabulary, header: Header, contexts: Option<ContextSet>) -> Corpus {
    let summary = Summary::new(scanned, vocabulary.size(), header);
    Corpus { summary, vocabulary, contexts, head: None, whole: None }
}
