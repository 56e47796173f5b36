//! Capacity bounds.

use crate::corpus::Corpus;
use crate::error::OrRaise;
use crate::work::{self, How};
use byrote::Result;
use byrote::bounds::SizeSpec;
use byrote::construct::dana2024::EncoderGap;
use byrote::dataset::Dataset;
use byrote::report::json::{self, BoundsResult};
use byrote::setting::Keywords;
use pyo3::prelude::*;

/// The bounds for a corpus, a model, or both, as JSON.
#[pyfunction]
#[pyo3(signature = (corpus, settings, *, d_vocab=None, n_ctx=None, encoder=Vec::new(), seed=0, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn bounds(
    py: Python<'_>,
    corpus: Option<&Bound<'_, Corpus>>,
    settings: &str,
    d_vocab: Option<u64>,
    n_ctx: Option<u32>,
    encoder: Vec<u64>,
    seed: u64,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let spec = || -> Result<SizeSpec> {
        let mut given = Keywords::parse(settings)?;
        let spec: SizeSpec = given.take()?;
        given.finish()?;
        spec.check()?;
        encoder.iter().try_for_each(|&d| EncoderGap::check(d))?;
        Ok(spec)
    };
    let spec = spec().or_raise(py)?;
    let held = corpus.map(|corpus| corpus.get().held.clone());
    work::run(py, How::new(threads, watch), move |watch| {
        let summary = held.as_ref().map(|held| held.summary());
        let situation = spec.situation(summary, d_vocab, n_ctx)?;
        let found = BoundsResult::new(&situation);
        let mut encoders = Vec::new();
        if let (Some(held), false) = (&held, encoder.is_empty()) {
            let dataset = Dataset::from_corpus(&*held.full(&**watch)?)?;
            for d in encoder {
                encoders.push(EncoderGap::search(&dataset, d, seed, &**watch)?);
            }
        }
        Ok(json::bounds(summary, &situation, &found, &encoders).to_string())
    })
}
