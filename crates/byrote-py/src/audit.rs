//! Audits of language models: by path, or through a Python function.

use crate::arrays::values;
use crate::corpus::Corpus;
use crate::error::OrRaise;
use crate::work::{self, How, Watch};
use byrote::audit::{self, AuditJob, AuditSpec, ModelFacts, Subject, TextSpec, TextTokens};
use byrote::corpus::{Alphabet, Tokenizer, TokenizerChoice};
use byrote::inference::{LanguageModel, PositionScore, Sampling, Sequence};
use byrote::memory;
use byrote::report::audit_page;
use byrote::setting::Keywords;
use byrote::{Error, Result};
use numpy::{PyArray1, PyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A language model that Python runs.
struct PythonModel {
    /// Takes sequences of ids and the positions to score; returns one array of logits per sequence, a row per position.
    function: Arc<Py<PyAny>>,
    watch: Arc<Watch>,
    d_vocab: u64,
    n_ctx: u64,
}

impl LanguageModel for PythonModel {
    fn d_vocab(&self) -> u64 {
        self.d_vocab
    }

    fn n_ctx(&self) -> u64 {
        self.n_ctx
    }

    fn score(&self, sequences: &[Sequence<'_>], sampling: Sampling) -> Result<Vec<Vec<PositionScore>>> {
        let asked: Vec<(Vec<i64>, usize)> = sequences
            .iter()
            .map(|s| {
                let read = if s.scored.is_empty() { &[][..] } else { &s.tokens[..s.scored.end - 1] };
                (read.iter().map(|&id| i64::from(id)).collect(), s.scored.len())
            })
            .collect();
        let (function, d_vocab) = (self.function.clone(), self.d_vocab as usize);
        let rows = self.watch.in_python(move |py| logits(py, &function, asked, d_vocab))?;
        let scored: Vec<Result<Vec<PositionScore>>> = sequences
            .par_iter()
            .zip(rows)
            .enumerate()
            .map(|(number, (sequence, rows))| {
                let positions = sequence.scored.clone().zip(rows.chunks_exact(d_vocab));
                positions
                    .map(|(position, row)| {
                        let score =
                            PositionScore::of_logits(row.to_vec(), sequence.tokens[position], sampling);
                        score.ok_or_else(|| {
                            let message = format!(
                                "the logits at position {position} of sequence {number} are not finite"
                            );
                            Error::setting("model", message)
                        })
                    })
                    .collect()
            })
            .collect();
        scored.into_iter().collect()
    }
}

/// Asks Python for logits.
fn logits(
    py: Python<'_>,
    function: &Py<PyAny>,
    asked: Vec<(Vec<i64>, usize)>,
    d_vocab: usize,
) -> PyResult<Vec<Vec<f32>>> {
    let expected: Vec<usize> = asked.iter().map(|(_, rows)| *rows).collect();
    let given: Vec<_> = asked.into_iter().map(|(ids, rows)| (PyArray1::from_vec(py, ids), rows)).collect();
    let answers: Vec<Bound<'_, PyAny>> = function.call1(py, (given,))?.extract(py)?;
    if answers.len() != expected.len() {
        return Err(PyValueError::new_err("the model must return logits for every sequence"));
    }
    let one = |(answer, rows): (Bound<'_, PyAny>, usize)| -> PyResult<Vec<f32>> {
        let array = answer.cast::<PyArray2<f32>>().map_err(|_| {
            PyTypeError::new_err("logits must be a numpy array [positions, d_vocab] of float32")
        })?;
        if array.shape() != [rows, d_vocab] {
            let message = format!("logits must have shape [{rows}, {d_vocab}] (got {:?})", array.shape());
            return Err(PyValueError::new_err(message));
        }
        values(array)
    };
    answers.into_iter().zip(expected).map(one).collect()
}

/// What is audited.
enum Audited {
    Path(PathBuf),
    Function(Arc<Py<PyAny>>, Box<Described>),
}

/// What Python says of its model.
struct Described {
    facts: ModelFacts,
    start_token: Option<u32>,
    corpus: Option<Arc<crate::corpus::Held>>,
}

impl Described {
    fn new(facts: &str, start_token: Option<u32>, corpus: Option<Arc<crate::corpus::Held>>) -> Result<Self> {
        let facts = serde_json::from_str(facts).map_err(|e| Error::setting("model", e.to_string()))?;
        Ok(Self { facts, start_token, corpus })
    }

    /// How text becomes ids: by the tokenizer that is given, or as the corpus was read.
    fn tokens(&self, given: Option<&TokenizerChoice>) -> Result<TextTokens> {
        let loaded = given.map(Tokenizer::load).transpose()?;
        let Some(held) = &self.corpus else {
            return match loaded {
                Some(tokenizer) if tokenizer.alphabet() != Alphabet::Id => {
                    let message = "a model of bytes, characters or words needs `vocabulary`, the corpus that its ids come from";
                    Err(Error::setting("tokenizer", message))
                }
                tokenizer => Ok(TextTokens { tokenizer, vocabulary: None }),
            };
        };
        let choice = TokenizerChoice::built_in(&held.summary().tokenizer);
        let own = choice.or_else(|| held.spec.tokenizer.clone());
        let tokenizer = match (loaded, own) {
            (Some(given), _) => Some(given),
            (None, Some(own)) => Some(Tokenizer::load(&own)?),
            (None, None) => None,
        };
        Ok(TextTokens { tokenizer, vocabulary: Some(held.vocabulary().clone()) })
    }
}

/// Audits a model on a text; returns the audit as JSON.
#[pyfunction(name = "audit")]
#[pyo3(signature = (settings, *, path=None, function=None, facts=None, start_token=None, vocabulary=None, reference=None,
                    held_out=Vec::new(), canaries=None, seed=0, out=None, command="", threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn audit_model(
    py: Python<'_>,
    settings: &str,
    path: Option<PathBuf>,
    function: Option<Py<PyAny>>,
    facts: Option<&str>,
    start_token: Option<u32>,
    vocabulary: Option<&Bound<'_, Corpus>>,
    reference: Option<PathBuf>,
    held_out: Vec<PathBuf>,
    canaries: Option<PathBuf>,
    seed: u64,
    out: Option<PathBuf>,
    command: &str,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let corpus = vocabulary.map(|corpus| corpus.get().held.clone());
    let read = || -> Result<(AuditJob, Audited)> {
        let mut given = Keywords::parse(settings)?;
        let (text, spec): (TextSpec, AuditSpec) = (given.take()?, given.take()?);
        given.finish()?;
        let job = AuditJob::default().text(text).spec(spec).held_out(held_out).canaries(canaries).seed(seed);
        let audited = match (path, function, facts) {
            (Some(path), ..) => Audited::Path(path),
            (None, Some(function), Some(facts)) => {
                Audited::Function(Arc::new(function), Box::new(Described::new(facts, start_token, corpus)?))
            }
            _ => return Err(Error::setting("model", "name a model")),
        };
        Ok((job, audited))
    };
    let (job, audited) = read().or_raise(py)?;
    let command = command.to_owned();
    work::run(py, How::new(threads, watch), move |watch| {
        let started = Instant::now();
        let max_memory = job.spec.max_memory.or_else(memory::free);
        let subject = match audited {
            Audited::Path(path) => Subject::load(&path, job.text.tokenizer.as_ref(), max_memory)?,
            Audited::Function(function, described) => {
                let tokens = described.tokens(job.text.tokenizer.as_ref())?;
                let facts = described.facts;
                let (d_vocab, n_ctx) = (facts.d_vocab, facts.n_ctx.unwrap_or(1 << 20));
                let model = PythonModel { function, watch: watch.clone(), d_vocab, n_ctx };
                Subject::new(facts, Box::new(model), tokens, described.start_token)
            }
        };
        let reference = reference.map(|path| subject.load_reference(&path, max_memory)).transpose()?;
        let found = audit::run(&subject, reference.as_ref(), &job, out.as_deref(), &**watch)?;
        let report = out.as_deref().map(|out| audit_page(&found, &command, out)).transpose()?;
        let mut object = serde_json::to_value(&found.audit).unwrap_or(Value::Null);
        object["seconds"] = json!(started.elapsed().as_secs_f64());
        object["report_file"] = json!(report);
        Ok(object.to_string())
    })
}

/// Compares two audits of the same text, by their directories; as JSON.
#[pyfunction]
pub fn compare_audits(py: Python<'_>, before: PathBuf, after: PathBuf) -> PyResult<String> {
    work::run(py, How::default(), move |_| {
        let compared = audit::compare(&audit::Audit::load(&before)?, &audit::Audit::load(&after)?)?;
        Ok(json!(compared).to_string())
    })
}
