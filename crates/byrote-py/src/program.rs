//! The program inside the package, and what the package asks about itself.

use crate::error::OrRaise;
use crate::work::{self, How};
use byrote::Error;
use byrote::audit::{AuditSpec, TextSpec};
use byrote::bounds::SizeSpec;
use byrote::certify::rank::RankSpec;
use byrote::construct::{Dana2024Spec, Kajitsuka2024Spec, Madden2024Spec};
use byrote::corpus::CorpusSpec;
use byrote::corpus::builtin::Stories;
use byrote::incontext::IncontextSpec;
use byrote::memory;
use byrote::model::ModelSpec;
use byrote::observe::Observer;
use byrote::setting;
use byrote::study::StudySpec;
use byrote::train::TrainSpec;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::process::ExitCode;

/// The version of the package.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// About how much memory a built-in story takes while it is handed over, once as text of Rust and once as text of Python.
const STORY: u64 = 1 << 10;

/// Built-in stories, as text.
#[pyfunction]
#[pyo3(signature = (documents, *, seed=0))]
pub fn builtin_stories(py: Python<'_>, documents: u64, seed: u64) -> PyResult<Vec<String>> {
    let most = memory::free().map_or(u64::MAX >> 10, |free| free / STORY).max(1 << 16);
    if documents > most {
        let message = format!(
            "{documents} stories do not fit in memory together, at most {most} do; byrote.Corpus(builtin={documents}) reads them one by one"
        );
        return Err(Error::setting("documents", message)).or_raise(py);
    }
    work::run(py, How::default(), move |watch| {
        let stories = Stories::new(seed).documents(documents);
        stories.map(|story| watch.check().map(|()| story)).collect()
    })
}

/// The names of the settings of a spec.
#[pyfunction]
pub fn fields(spec: &str) -> PyResult<Vec<&'static str>> {
    Ok(match spec {
        "corpus" => setting::fields::<CorpusSpec>(),
        "model" => setting::fields::<ModelSpec>(),
        "train" => setting::fields::<TrainSpec>(),
        "size" => setting::fields::<SizeSpec>(),
        "madden2024" => setting::fields::<Madden2024Spec>(),
        "dana2024" => setting::fields::<Dana2024Spec>(),
        "kajitsuka2024" => setting::fields::<Kajitsuka2024Spec>(),
        "rank" => setting::fields::<RankSpec>(),
        "incontext" => setting::fields::<IncontextSpec>(),
        "text" => setting::fields::<TextSpec>(),
        "audit" => setting::fields::<AuditSpec>(),
        "study" => setting::fields::<StudySpec>(),
        other => return Err(PyValueError::new_err(format!("there is no spec {other}"))),
    }
    .to_vec())
}

/// The known name nearest to a misspelled one, if any is near.
#[pyfunction]
pub fn nearest(name: &str, known: Vec<String>) -> Option<String> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    setting::nearest(name, &known).map(str::to_owned)
}

/// Runs the program with these arguments, the first of which is its name; returns its exit code.
#[pyfunction]
pub fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| byrote_cli::run(arguments.into_iter()));
    // An exit code does not tell its number.
    (0..=u8::MAX).find(|&n| ExitCode::from(n) == code).unwrap_or(2)
}
