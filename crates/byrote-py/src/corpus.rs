//! A corpus: counted once without its contexts, and once more with them if something needs those.

use crate::arrays::{IdArray, Texts};
use crate::error::OrRaise;
use crate::model::Model;
use crate::work::{self, How, Watch};
use byrote::corpus::{self, CorpusSpec, FlatIds, IdSlice, Loss, LossReading, Options, Outputs, Summary};
use byrote::memory;
use byrote::observe::Observer;
use byrote::output::OutputFile;
use byrote::setting::Keywords;
use byrote::{Error, Result};
use numpy::PyArray1;
use pyo3::prelude::*;
use serde_json::json;
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Where the documents are.
#[derive(Debug)]
pub enum Given {
    /// Where the spec says: files, built-in stories, random sequences, summaries.
    Spec,
    /// In memory, as texts.
    Texts(Texts),
    /// In memory, as ids, one array per document.
    Ids(Vec<IdArray>),
    /// In memory, as ids in one array.
    Flat(IdArray, Layout),
}

impl Given {
    /// The error if counting the same documents again gives something else.
    fn changed(&self) -> Error {
        let (name, what) = match self {
            Self::Spec => ("paths", "the files have"),
            Self::Texts(_) => ("texts", "the list has"),
            Self::Ids(_) | Self::Flat(..) => ("ids", "the array has"),
        };
        Error::setting(name, format!("{what} changed since this corpus was counted; make a new Corpus"))
    }
}

/// Where documents are in one array.
#[derive(Debug)]
pub enum Layout {
    /// Of equal length.
    Rows(usize),
    /// Between offsets.
    Offsets(IdArray),
}

/// A corpus with where it came from.
#[derive(Debug)]
pub struct Held {
    /// How it is read.
    pub spec: CorpusSpec,
    given: Given,
    title: String,
    /// Counted without contexts.
    plain: corpus::Corpus,
    /// Counted with contexts, once something has needed them.
    full: Full,
}

/// A corpus with its contexts, counted at most once per process.
///
/// The lock is held while they are counted. A process that is forked meanwhile has a copy of the lock that nobody will open, so every
/// process has a lock of its own.
#[derive(Debug)]
struct Full {
    process: u32,
    found: Mutex<Option<Arc<corpus::Corpus>>>,
    /// The one of a process that was forked from this one. This process never touches it.
    forked: OnceLock<Box<Full>>,
}

impl Full {
    fn new(found: Option<Arc<corpus::Corpus>>) -> Self {
        Self { process: process::id(), found: Mutex::new(found), forked: OnceLock::new() }
    }

    /// The one of this process.
    fn own(&self) -> &Self {
        if self.process == process::id() {
            return self;
        }
        let known = || self.found.try_lock().ok().and_then(|found| found.clone());
        self.forked.get_or_init(|| Box::new(Self::new(known()))).own()
    }
}

impl Held {
    fn read(
        spec: CorpusSpec,
        given: Given,
        title: Option<String>,
        outputs: Outputs,
        observer: &dyn Observer,
    ) -> Result<Self> {
        // What is read from standard input cannot be read again.
        let once = matches!(given, Given::Spec) && spec.reads_standard_input();
        let found = count(&spec, &given, outputs.contexts(once), observer)?;
        let title = title.unwrap_or_else(|| spec.title());
        let held = |plain, full| Self { spec: spec.clone(), given, title, plain, full: Full::new(full) };
        if !once {
            return Ok(held(found, None));
        }
        let summary = found.whole.as_deref().unwrap_or(&found.summary).clone();
        let plain = corpus::Corpus {
            summary,
            vocabulary: found.vocabulary.clone(),
            contexts: None,
            head: None,
            whole: None,
        };
        Ok(held(plain, Some(Arc::new(found))))
    }

    /// The statistics of all of it.
    pub fn summary(&self) -> &Summary {
        self.plain.whole.as_deref().unwrap_or(&self.plain.summary)
    }

    /// The tokens by id.
    pub fn vocabulary(&self) -> &corpus::Vocabulary {
        &self.plain.vocabulary
    }

    /// The corpus with its contexts; those of windows are drawn.
    pub fn full(&self, observer: &dyn Observer) -> Result<Arc<corpus::Corpus>> {
        let mut full = self.full.own().found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = &*full {
            return Ok(full.clone());
        }
        let read = count(&self.spec, &self.given, Outputs::default().contexts(true), observer)?;
        if read.whole.as_deref().unwrap_or(&read.summary) != &self.plain.summary {
            return Err(self.given.changed());
        }
        Ok(full.insert(Arc::new(read)).clone())
    }
}

/// Counts a corpus.
fn count(
    spec: &CorpusSpec,
    given: &Given,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<corpus::Corpus> {
    let mut spec = spec.clone();
    spec.max_memory = spec.max_memory.or_else(memory::share);
    let options = match given {
        Given::Spec => return corpus::Corpus::from_spec(&spec, outputs, observer),
        Given::Texts(texts) => {
            let options = spec.resolve_in_memory("texts")?;
            return corpus::Corpus::from_texts(texts.iter(), &options, outputs, observer);
        }
        Given::Ids(_) | Given::Flat(..) => spec.resolve_in_memory("ids")?,
    };
    match given {
        Given::Ids(arrays) => {
            corpus::Corpus::from_ids(arrays.iter().map(IdArray::slice), &options, outputs, observer)
        }
        Given::Flat(ids, layout) => flat(ids.slice(), layout, &options, outputs, observer),
        Given::Spec | Given::Texts(_) => unreachable!("returned above"),
    }
}

fn flat(
    ids: IdSlice<'_>,
    layout: &Layout,
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<corpus::Corpus> {
    let documents = match layout {
        Layout::Rows(length) => FlatIds::Rows(*length),
        Layout::Offsets(offsets) => match offsets.offsets() {
            Some(offsets) => FlatIds::Offsets(offsets),
            None => return Err(Error::setting("offsets", "must be of type uint64")),
        },
    };
    macro_rules! of {
        ($($variant:ident),+) => {
            match ids {
                IdSlice::U16(ids) => corpus::Corpus::from_flat_ids(ids, documents, options, outputs, observer),
                IdSlice::U32(ids) => corpus::Corpus::from_flat_ids(ids, documents, options, outputs, observer),
                $(IdSlice::$variant(ids) => {
                    let ranges = documents.ranges(ids.len())?;
                    let slices = ranges.map(|range| IdSlice::$variant(&ids[range]));
                    corpus::Corpus::from_ids(slices, options, outputs, observer)
                })+
            }
        };
    }
    of!(U8, U64, I8, I16, I32, I64)
}

/// A corpus: distinct contexts, counts and the floor.
#[pyclass(frozen, module = "byrote._byrote")]
pub struct Corpus {
    /// What is held.
    pub held: Arc<Held>,
}

#[pymethods]
impl Corpus {
    /// Reads files, built-in stories, random sequences or summaries, as a model reads them if one is given.
    #[staticmethod]
    #[pyo3(signature = (settings, *, model=None, save=None, list=None, threads=None, watch=None))]
    fn read(
        py: Python<'_>,
        settings: &str,
        model: Option<&Bound<'_, Model>>,
        save: Option<PathBuf>,
        list: Option<PathBuf>,
        threads: Option<usize>,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut spec = spec(py, settings)?;
        if let Some(model) = model {
            spec = model.get().reading(py)?.spec(&spec).or_raise(py)?;
        }
        start(py, spec, Given::Spec, None, (save, list), How::new(threads, watch))
    }

    /// Counts texts, each of which is a document.
    #[staticmethod]
    #[pyo3(signature = (texts, settings, *, title, threads=None, watch=None))]
    fn from_texts(
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        settings: &str,
        title: String,
        threads: Option<usize>,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let given = Given::Texts(Texts::new(texts)?);
        start(py, spec(py, settings)?, given, Some(title), (None, None), How::new(threads, watch))
    }

    /// Counts documents of ids, one array each.
    #[staticmethod]
    #[pyo3(signature = (arrays, settings, *, title, threads=None, watch=None))]
    fn from_arrays(
        py: Python<'_>,
        arrays: Vec<Bound<'_, PyAny>>,
        settings: &str,
        title: String,
        threads: Option<usize>,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let given = Given::Ids(arrays.iter().map(IdArray::new).collect::<PyResult<_>>()?);
        start(py, spec(py, settings)?, given, Some(title), (None, None), How::new(threads, watch))
    }

    /// Counts documents of ids that lie in one array: of equal length, or between offsets.
    #[staticmethod]
    #[pyo3(signature = (ids, settings, *, title, length=None, offsets=None, threads=None, watch=None))]
    #[allow(clippy::too_many_arguments)] // The keywords of a Python call.
    fn from_flat(
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        settings: &str,
        title: String,
        length: Option<usize>,
        offsets: Option<&Bound<'_, PyAny>>,
        threads: Option<usize>,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let ids = IdArray::new(ids)?;
        let layout = match offsets {
            Some(offsets) => Layout::Offsets(IdArray::new(offsets)?),
            None => Layout::Rows(length.unwrap_or(0)),
        };
        let given = Given::Flat(ids, layout);
        start(py, spec(py, settings)?, given, Some(title), (None, None), How::new(threads, watch))
    }

    /// The statistics as JSON.
    fn summary(&self) -> String {
        json!(self.held.summary()).to_string()
    }

    /// The settings as JSON.
    fn settings(&self) -> String {
        json!(self.held.spec).to_string()
    }

    /// A few words about it.
    fn title(&self) -> &str {
        &self.held.title
    }

    /// The tokens by id, as text.
    fn vocabulary(&self) -> Vec<String> {
        let vocabulary = &self.held.plain.vocabulary;
        (0..vocabulary.len() as u32).map(|id| vocabulary.text(id)).collect()
    }

    /// What a training loss means, as JSON.
    fn read_loss(&self, py: Python<'_>, loss: &str) -> PyResult<String> {
        let loss: Loss = loss.parse().or_raise(py)?;
        Ok(json!(LossReading::new(&loss, self.held.summary()).or_raise(py)?).to_string())
    }

    /// What to try if the text was not read as it was meant to be.
    fn hint(&self) -> Option<String> {
        self.held.spec.hint(self.held.summary())
    }

    /// The contexts: texts, where the tokens of each begin, all tokens, counts, where the next tokens of each begin, all next tokens and
    /// their counts.
    #[pyo3(signature = (*, threads=None, watch=None))]
    #[allow(clippy::type_complexity)] // Seven columns.
    fn contexts<'py>(
        &self,
        py: Python<'py>,
        threads: Option<usize>,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<(
        Vec<String>,
        Bound<'py, PyArray1<i64>>,
        Bound<'py, PyArray1<u32>>,
        Bound<'py, PyArray1<i64>>,
        Bound<'py, PyArray1<i64>>,
        Bound<'py, PyArray1<u32>>,
        Bound<'py, PyArray1<i64>>,
    )> {
        let held = self.held.clone();
        let found = work::run(py, How::new(threads, watch), move |watch| columns(&held, watch))?;
        let Columns { texts, starts, tokens, counts, next_starts, next, next_counts } = found;
        Ok((
            texts,
            PyArray1::from_vec(py, starts),
            PyArray1::from_vec(py, tokens),
            PyArray1::from_vec(py, counts),
            PyArray1::from_vec(py, next_starts),
            PyArray1::from_vec(py, next),
            PyArray1::from_vec(py, next_counts),
        ))
    }
}

#[derive(Default)]
struct Columns {
    texts: Vec<String>,
    starts: Vec<i64>,
    tokens: Vec<u32>,
    counts: Vec<i64>,
    next_starts: Vec<i64>,
    next: Vec<u32>,
    next_counts: Vec<i64>,
}

fn columns(held: &Held, watch: &Arc<Watch>) -> Result<Columns> {
    let corpus = held.full(&**watch)?;
    let dataset = byrote::dataset::Dataset::from_corpus(&corpus)?;
    let mut columns = Columns { starts: vec![0], next_starts: vec![0], ..Columns::default() };
    for i in 0..dataset.len() {
        columns.texts.push(dataset.text_of(i));
        columns.tokens.extend(dataset.tokens_of(i));
        columns.starts.push(columns.tokens.len() as i64);
        let mut count = 0.0;
        for &(token, n) in dataset.next_of(i) {
            columns.next.push(token);
            columns.next_counts.push(n as i64);
            count += n;
        }
        columns.counts.push(count as i64);
        columns.next_starts.push(columns.next.len() as i64);
    }
    Ok(columns)
}

/// The spec of a call.
pub(crate) fn spec(py: Python<'_>, settings: &str) -> PyResult<CorpusSpec> {
    let read = || -> Result<CorpusSpec> {
        let mut given = Keywords::parse(settings)?;
        let spec = given.take()?;
        given.finish()?;
        Ok(spec)
    };
    read().or_raise(py)
}

fn start(
    py: Python<'_>,
    spec: CorpusSpec,
    given: Given,
    title: Option<String>,
    (save, list): (Option<PathBuf>, Option<PathBuf>),
    how: How,
) -> PyResult<Corpus> {
    let held = work::run(py, how, move |watch| {
        if matches!(given, Given::Spec) {
            spec.resolve()?;
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(OutputFile::create).transpose();
        let outputs = Outputs::default().save(open(&save)?).list(open(&list)?).may_be_empty(save.is_some());
        Held::read(spec, given, title, outputs, &**watch)
    })?;
    Ok(Corpus { held: Arc::new(held) })
}
