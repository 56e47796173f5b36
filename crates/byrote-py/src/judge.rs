//! What a model knows of a corpus: proven, measured, asked.

use crate::corpus::Corpus;
use crate::error::OrRaise;
use crate::model::Model;
use crate::work::{self, How};
use byrote::any_model::AnyModel;
use byrote::certify::certify as prove;
use byrote::construct::kajitsuka2024::{self, ExactFile, Goal, Labels};
use byrote::dataset::Dataset;
use byrote::evaluate::{TOLERANCE, check_tolerance, evaluate as measure};
use byrote::report::json;
use byrote::units::Nats;
use byrote::{Error, Result};
use pyo3::prelude::*;
use serde_json::json;
use std::time::Instant;

/// Proves what a model memorizes of a corpus; returns the certificate as JSON.
#[pyfunction]
#[pyo3(signature = (model, corpus, *, threads=None, watch=None))]
pub fn certify(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    corpus: &Bound<'_, Corpus>,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let exact = "byrote.evaluate runs it without rounding, so its counts are proven";
    model.get().transformer(exact).or_raise(py)?;
    let (any, held) = (model.get().any.clone(), corpus.get().held.clone());
    work::run(py, How::new(threads, watch), move |watch| {
        let AnyModel::OneLayer(file) = &*any else { return Err(Error::Interrupted) };
        let corpus = held.full(&**watch)?;
        let dataset = Dataset::for_model(&corpus, file)?;
        let started = Instant::now();
        let found = prove(&file.model, &dataset, &**watch)?;
        let mut object = json::certificate(&file.model, &found, &dataset);
        object["seconds"] = json!(started.elapsed().as_secs_f64());
        object["window_sample"] = json!(corpus.window_sample());
        Ok(object.to_string())
    })
}

/// Measures a model on a corpus; returns the evaluation as JSON.
#[pyfunction]
#[pyo3(signature = (model, corpus, *, tol=None, worst=10, seed=0, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn evaluate(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    corpus: &Bound<'_, Corpus>,
    tol: Option<f64>,
    worst: usize,
    seed: u64,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let tolerance = tol.map_or(TOLERANCE, Nats);
    check_tolerance(tolerance).or_raise(py)?;
    model.get().reading(py)?;
    let (any, held) = (model.get().any.clone(), corpus.get().held.clone());
    work::run(py, How::new(threads, watch), move |watch| {
        let corpus = held.full(&**watch)?;
        let started = Instant::now();
        let mut object = match &*any {
            AnyModel::OneLayer(file) => {
                let dataset = Dataset::for_model(&corpus, file)?;
                let found = measure(&file.model, &dataset, tolerance, worst, &**watch)?;
                let mut object = json::evaluation(&file.model, &found, &dataset, &file.vocabulary);
                object["window_sample"] = json!(corpus.window_sample());
                object
            }
            AnyModel::Exact(file) => {
                is_of_tokens(file)?;
                let dataset = Dataset::from_corpus(&corpus)?.in_vocabulary(&file.vocabulary)?;
                let found = kajitsuka2024::evaluate(file, &dataset, &**watch)?;
                json::exact_evaluation(file, &found, corpus.summary.floor_nats)
            }
            other => return Err(Error::setting("model", format!("is {}", other.kind()))),
        };
        object["method"] = json!("eval");
        object["seed"] = json!(seed);
        object["seconds"] = json!(started.elapsed().as_secs_f64());
        Ok(object.to_string())
    })
}

/// Refuses an exact network that was not built for the next tokens of a corpus.
fn is_of_tokens(file: &ExactFile) -> Result<()> {
    match (&file.labels, file.model.task.goal) {
        (Labels::Tokens(_), Goal::Next) => Ok(()),
        _ => {
            let message =
                "was built for labelled sequences; `byrote eval` on the command line checks it on their file";
            Err(Error::setting("model", message))
        }
    }
}

/// The next-token distribution of a model for a text or for ids, beside that of a corpus; as JSON, with all logits if asked for.
#[pyfunction]
#[pyo3(signature = (model, *, text=None, ids=None, corpus=None, top=10, logits=false, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn predict(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    text: Option<&str>,
    ids: Option<Vec<u32>>,
    corpus: Option<&Bound<'_, Corpus>>,
    top: usize,
    logits: bool,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let reading = model.get().reading(py)?;
    let tokens = match (text, ids) {
        (Some(text), _) => reading.tokens(text, false, None).or_raise(py)?,
        (None, Some(ids)) => {
            let listed: Vec<String> = ids.iter().map(u32::to_string).collect();
            reading.tokens(&listed.join(" "), true, None).or_raise(py)?
        }
        (None, None) => return Err(Error::setting("text", "contains no token")).or_raise(py),
    };
    let (any, held) = (model.get().any.clone(), corpus.map(|corpus| corpus.get().held.clone()));
    work::run(py, How::new(threads, watch), move |watch| match &*any {
        AnyModel::OneLayer(file) => {
            byrote::predict::check_context(file, &tokens)?;
            let dataset = match held {
                Some(held) => Some(Dataset::for_model(&*held.full(&**watch)?, file)?),
                None => None,
            };
            let found = byrote::predict::predict(file, &tokens, top, dataset.as_ref())?;
            let mut object = json!(found);
            if logits {
                object["logits"] = json!(found.logits);
            }
            Ok(object.to_string())
        }
        AnyModel::Exact(file) => {
            if logits {
                return Err(Error::setting(
                    "logits",
                    "an exact network answers with a label and has no logits",
                ));
            }
            if held.is_some() {
                return Err(Error::setting(
                    "corpus",
                    "exact networks are compared with a corpus by byrote.evaluate only",
                ));
            }
            if tokens.is_empty() {
                return Err(Error::setting("text", "contains no token"));
            }
            let answers = file.answers(&tokens).map_err(|e| match e {
                Error::Setting { name: "tokens", message } => Error::setting("text", message),
                other => other,
            })?;
            Ok(json::exact_prediction(file, &tokens, &answers).to_string())
        }
        other => Err(Error::setting("model", format!("is {}", other.kind()))),
    })
}
