//! Models in closed form.

use crate::corpus::Corpus;
use crate::error::OrRaise;
use crate::model::Model;
use crate::work::{self, How};
use byrote::any_model::AnyModel;
use byrote::construct::kajitsuka2024::{self, ExactFile, corpus_task};
use byrote::construct::madden2024::literal::literal;
use byrote::construct::{
    Dana2024Spec, Kajitsuka2024Spec, Madden2024Method, Madden2024Spec, dana2024, madden2024,
};
use byrote::corpus::{self, Source};
use byrote::dataset::Dataset;
use byrote::evaluate::{TOLERANCE, check_tolerance, evaluate};
use byrote::memory;
use byrote::model::{ModelFile, Precision};
use byrote::observe::Observer;
use byrote::report::json;
use byrote::setting::Keywords;
use byrote::units::Nats;
use byrote::{Error, Result};
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A construction that gives a transformer.
#[derive(Debug, Clone, Copy)]
enum Method {
    Madden2024(Madden2024Spec),
    Dana2024(Dana2024Spec),
}

/// Builds a transformer by the method of a paper. Returns it, unless the method only reports, and a report as JSON.
#[pyfunction]
#[pyo3(signature = (method, corpus, settings, *, seed=0, tol=None, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn build(
    py: Python<'_>,
    method: &str,
    corpus: &Bound<'_, Corpus>,
    settings: &str,
    seed: u64,
    tol: Option<f64>,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<(Option<Model>, String)> {
    let tolerance = tol.map_or(TOLERANCE, Nats);
    let read = || -> Result<Method> {
        let mut given = Keywords::parse(settings)?;
        let method = match method {
            "madden2024" => Method::Madden2024(given.take()?),
            _ => Method::Dana2024(given.take()?),
        };
        given.finish()?;
        check_tolerance(tolerance)?;
        match method {
            Method::Madden2024(spec) => spec.check()?,
            Method::Dana2024(spec) => spec.check()?,
        }
        Ok(method)
    };
    let method = read().or_raise(py)?;
    let held = corpus.get().held.clone();
    let (file, report) = work::run(py, How::new(threads, watch), move |watch| {
        let begun = Instant::now();
        let corpus = held.full(&**watch)?;
        let dataset = Dataset::from_corpus(&corpus)?;
        let memory = memory::for_matrices(held.spec.max_memory);
        let building = Instant::now();
        let (file, mut object) = match method {
            Method::Madden2024(spec) if spec.method == Madden2024Method::Literal => {
                let report = literal(&dataset, &spec.literal(seed)?, &**watch)?;
                (None, json::literal(&report))
            }
            Method::Madden2024(spec) => {
                let built = madden2024::build(&dataset, &spec.resolve(seed, memory)?, &**watch)?;
                let seconds = building.elapsed().as_secs_f64();
                measured("madden2024", built, seconds, (&corpus, &dataset), tolerance, &**watch)?
            }
            Method::Dana2024(spec) => {
                let built = dana2024::build(&dataset, &spec.resolve(seed, memory)?, &**watch)?;
                let seconds = building.elapsed().as_secs_f64();
                measured("dana2024", built, seconds, (&corpus, &dataset), tolerance, &**watch)?
            }
        };
        object["seed"] = json!(seed);
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        Ok((file, object.to_string()))
    })?;
    Ok((file.map(Model::from), report))
}

/// Evaluates what was built.
fn measured<R: Serialize>(
    method: &str,
    (model, report): (byrote::model::Model, R),
    seconds: f64,
    (corpus, dataset): (&corpus::Corpus, &Dataset),
    tolerance: Nats,
    observer: &dyn Observer,
) -> Result<(Option<ModelFile>, Value)> {
    let found = evaluate(&model, dataset, tolerance, 10, observer)?;
    let file = ModelFile {
        model,
        precision: Precision::F64,
        tokenizer: corpus.summary.tokenizer.clone(),
        vocabulary: corpus.vocabulary.clone(),
    };
    let mut object = json::construction(method, &file, &found, dataset, &report);
    object["window_sample"] = json!(corpus.window_sample());
    object["seconds_building"] = json!(seconds);
    Ok((Some(file), object))
}

/// Builds an exact network of kajitsuka2024 for a corpus, or for labelled sequences in a file. Returns it and a report as JSON.
#[pyfunction]
#[pyo3(signature = (corpus, settings, *, pairs=None, tokenizer=None, seed=0, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn build_exact(
    py: Python<'_>,
    corpus: Option<&Bound<'_, Corpus>>,
    settings: &str,
    pairs: Option<PathBuf>,
    tokenizer: Option<&str>,
    seed: u64,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<(Model, String)> {
    let read = || -> Result<_> {
        let mut given = Keywords::parse(settings)?;
        let spec: Kajitsuka2024Spec = given.take()?;
        given.finish()?;
        let tokenizer = tokenizer.map(str::parse).transpose()?.unwrap_or_default();
        Ok((spec, spec.resolve(seed)?, tokenizer))
    };
    let (spec, settings, tokenizer) = read().or_raise(py)?;
    let held = corpus.map(|corpus| corpus.get().held.clone());
    let (file, report) = work::run(py, How::new(threads, watch), move |watch| {
        let begun = Instant::now();
        let switches = spec.switches();
        let (labelled, contradictions, floor) = match (&pairs, &held) {
            (Some(path), _) => (kajitsuka2024::pairs::read(path, switches, &tokenizer)?, 0, Nats(0.0)),
            (None, Some(held)) => {
                let random = match held.spec.resolve()?.0 {
                    Source::Random(random) if switches.goal == kajitsuka2024::Goal::EveryPosition => {
                        Some(random)
                    }
                    _ => None,
                };
                match random {
                    Some(random) => (corpus_task::random_positions(&random, seed, switches)?, 0, Nats(0.0)),
                    None => {
                        let corpus = held.full(&**watch)?;
                        let (labelled, contradictions) = corpus_task::from_corpus(&corpus, switches)?;
                        (labelled, contradictions, corpus.summary.floor_nats)
                    }
                }
            }
            (None, None) => return Err(Error::setting("corpus", "give a corpus or `pairs`")),
        };
        let building = Instant::now();
        let built = kajitsuka2024::build(&labelled.samples, &settings, &**watch)?;
        let seconds = building.elapsed().as_secs_f64();
        let file = ExactFile {
            model: built.model.clone(),
            tokenizer: labelled.tokenizer.clone(),
            vocabulary: labelled.vocabulary.clone(),
            labels: labelled.labels.clone(),
        };
        let mut object = json::kajitsuka2024(&file, &labelled, contradictions, &built, floor);
        object["seed"] = json!(seed);
        object["seconds_building"] = json!(seconds);
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        Ok((file, object.to_string()))
    })?;
    Ok((Model { any: Arc::new(AnyModel::Exact(file)) }, report))
}
