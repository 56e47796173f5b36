//! Whole jobs: studies, sweeps, laws, reports, reproduced figures, ranks, learning in context, exports.

use crate::arrays::is_aligned;
use crate::error::OrRaise;
use crate::model::Model;
use crate::work::{self, How};
use byrote::any_model::AnyModel;
use byrote::certify::rank::{self, RankSpec};
use byrote::corpus::CorpusSpec;
use byrote::export::{ExportFormat, export_model};
use byrote::fit::{
    self, CompareSettings, Direction, FitMethod, Law, Point, Points, ResidualScale, ThresholdSettings,
};
use byrote::incontext::{self, IncontextSpec};
use byrote::memory;
use byrote::model::Precision;
use byrote::observe::Observer;
use byrote::output::{Holds, claim, holds};
use byrote::report::{self, draw_audit, draw_study, draw_sweep, json};
use byrote::reproduce::{self, FIGURES, PaperFigure};
use byrote::setting::Keywords;
use byrote::study::{self, Study, StudyScale, StudySpec};
use byrote::sweep::{self, Corpora, Directory, Plan, SweepOptions, SweepOutcome};
use byrote::{Error, Result};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A whole study of a corpus; returns what the program prints, and the path of its report.
#[pyfunction(name = "study")]
#[pyo3(signature = (settings, *, scale="default", incontext=false, n_layers=None, out, command=None, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn run_study(
    py: Python<'_>,
    settings: &str,
    scale: &str,
    incontext: bool,
    n_layers: Option<u64>,
    out: PathBuf,
    command: Option<String>,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let spec = || -> Result<StudySpec> {
        let mut given = Keywords::parse(settings)?;
        let corpus: CorpusSpec = given.take()?;
        given.finish()?;
        let scale: StudyScale = scale.parse()?;
        let mut spec = StudySpec::default()
            .corpus(corpus)
            .scale(scale)
            .incontext(incontext)
            .memory(memory::for_matrices(None));
        spec.n_layers = n_layers;
        spec.check()?;
        Ok(spec)
    };
    let spec = spec().or_raise(py)?;
    work::run(py, How::new(threads, watch), move |watch| {
        let started = Instant::now();
        let study = study::run(&spec, &out, command.as_deref(), &**watch)?;
        let report = draw_study(&study, &out, &**watch)?;
        let mut object = json::study(&study);
        object["report_file"] = json!(report);
        object["seconds"] = json!(started.elapsed().as_secs_f64());
        Ok(object.to_string())
    })
}

/// The plan of a file, or of a text and its name.
pub(crate) fn plan(
    path: Option<&Path>,
    text: Option<&str>,
    name: &str,
    seed: u64,
    full: bool,
) -> Result<Plan> {
    let mut plan = match (path, text) {
        (Some(path), _) => Plan::load(path)?,
        (None, text) => Plan::parse(text.unwrap_or_default(), name)?,
    }
    .moved(seed);
    if full {
        plan.without_stops();
    }
    Ok(plan)
}

/// Runs a grid of training runs; returns what the program prints.
#[pyfunction(name = "sweep")]
#[pyo3(signature = (*, path=None, text=None, name="sweep", out=None, full=false, dry_run=false, fail_fast=false, keep_models=false,
                    checkpoint_every=None, seed=0, command=None, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn run_sweep(
    py: Python<'_>,
    path: Option<PathBuf>,
    text: Option<&str>,
    name: &str,
    out: Option<PathBuf>,
    full: bool,
    dry_run: bool,
    fail_fast: bool,
    keep_models: bool,
    checkpoint_every: Option<f64>,
    seed: u64,
    command: Option<String>,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut plan = plan(path.as_deref(), text, name, seed, full).or_raise(py)?;
    plan.command = command;
    let every = checkpoint_every.unwrap_or(SweepOptions::default().checkpoint_every);
    let options =
        SweepOptions::default().checkpoint_every(every).fail_fast(fail_fast).keep_models(keep_models);
    options.check().or_raise(py)?;
    let ended = work::run_to_end(py, How::new(threads, watch), move |watch| {
        let started = Instant::now();
        let out = out.unwrap_or_else(|| PathBuf::from(&plan.name));
        let _claim = (!dry_run).then(|| claim(&out, Holds::Sweep)).transpose()?;
        let corpora = Corpora::read(&plan.jobs, &**watch)?;
        if dry_run {
            return Ok(json::jobs(&plan, &corpora)?.to_string());
        }
        let mut directory = Directory::open(&out, &plan, &corpora)?;
        let outcome = sweep::run(&plan, &corpora, &mut directory, options, &**watch)?;
        finished(&plan.name, &out, &directory, &outcome, started, &**watch)
    })?;
    ended.done(py)
}

/// Draws the report of a sweep; returns what the program prints.
pub(crate) fn finished(
    name: &str,
    out: &Path,
    directory: &Directory,
    outcome: &SweepOutcome,
    started: Instant,
    observer: &dyn Observer,
) -> Result<String> {
    let record = directory.to_record();
    let report = report::draw_record(&record, out, observer)?;
    let mut object = json::sweep(name, out, outcome, &record);
    object["results_file"] = json!(out.join("results.csv"));
    object["report_file"] = json!(report);
    object["seconds"] = json!(started.elapsed().as_secs_f64());
    Ok(object.to_string())
}

/// Points of a fit.
fn points(
    x: &PyReadonlyArray1<'_, f64>,
    y: &PyReadonlyArray1<'_, f64>,
    group: &PyReadonlyArray1<'_, u64>,
) -> Result<Points> {
    let aligned = is_aligned(x) && is_aligned(y) && is_aligned(group);
    let (true, Ok(x), Ok(y), Ok(group)) = (aligned, x.as_slice(), y.as_slice(), group.as_slice()) else {
        return Err(Error::setting("x", "must be contiguous and aligned, like y and group"));
    };
    if x.len() != y.len() || x.len() != group.len() {
        return Err(Error::setting("y", format!("{} values for {} sizes", y.len(), x.len())));
    }
    Points::new(x.iter().zip(y).zip(group).map(|((&x, &y), &group)| Point::new(x, y, group)))
}

fn scale(relative: bool) -> ResidualScale {
    if relative { ResidualScale::Relative } else { ResidualScale::Plain }
}

/// Compares laws through points; returns the comparison as JSON.
#[pyfunction]
#[pyo3(signature = (x, y, group, laws, *, relative=false, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn compare_laws(
    py: Python<'_>,
    x: PyReadonlyArray1<'_, f64>,
    y: PyReadonlyArray1<'_, f64>,
    group: PyReadonlyArray1<'_, u64>,
    laws: Vec<String>,
    relative: bool,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let points = points(&x, &y, &group).or_raise(py)?;
    let laws = laws.iter().map(|name| name.parse()).collect::<Result<Vec<Law>>>().or_raise(py)?;
    work::run(py, How::new(threads, watch), move |_| {
        let method = FitMethod::default().scale(scale(relative));
        let found = fit::compare(&points, &laws, &CompareSettings::default().method(method))?;
        Ok(json!(found).to_string())
    })
}

/// The smallest size at which y reaches a level; as JSON.
#[pyfunction]
#[pyo3(signature = (x, y, group, level, *, rises=false, relative=false, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn threshold(
    py: Python<'_>,
    x: PyReadonlyArray1<'_, f64>,
    y: PyReadonlyArray1<'_, f64>,
    group: PyReadonlyArray1<'_, u64>,
    level: f64,
    rises: bool,
    relative: bool,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let points = points(&x, &y, &group).or_raise(py)?;
    let direction = if rises { Direction::Rising } else { Direction::Falling };
    work::run(py, How::new(threads, watch), move |_| {
        let settings = ThresholdSettings::new(level, direction).scale(scale(relative));
        let found = fit::threshold(&points, &settings)?;
        Ok(json!(found).to_string())
    })
}

/// Draws the report of a directory again; returns what the program prints.
#[pyfunction]
#[pyo3(signature = (directory, *, threads=None, watch=None))]
pub fn draw_report(
    py: Python<'_>,
    directory: PathBuf,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    work::run(py, How::new(threads, watch), move |watch| {
        let object = if holds(&directory) == Some(Holds::Audit) {
            let (audit, report) = draw_audit(&directory, &**watch)?;
            json!({"name": "audit", "verdict": audit.verdict, "complete": true, "report_file": report})
        } else if directory.join(study::FILE).exists() {
            let study = Study::load(&directory)?;
            let report = draw_study(&study, &directory, &**watch)?;
            let (jobs, failed) = (study.trained.len(), study.failed());
            json!({"name": "study", "jobs": jobs, "done": jobs - failed, "failed": failed, "complete": failed == 0,
                   "report_file": report})
        } else {
            let (record, report) = draw_sweep(&directory, &**watch)?;
            let (jobs, done) = (record.jobs, record.done().count());
            json!({"name": record.name, "jobs": jobs, "done": done, "failed": record.rows.len() - done,
                   "complete": done == jobs, "report_file": report})
        };
        Ok(object.to_string())
    })
}

/// The figures of papers that can be reproduced, with what they show.
#[pyfunction]
pub fn figures() -> Vec<(&'static str, &'static str)> {
    FIGURES.iter().map(|figure| (figure.key, figure.description)).collect()
}

/// Reproduces a paper's figure; returns what the program prints.
#[pyfunction(name = "reproduce")]
#[pyo3(signature = (figure, *, out=None, full=false, dry_run=false, seed=0, command=None, threads=None, watch=None))]
#[allow(clippy::too_many_arguments)] // The keywords of a Python call.
pub fn reproduce_figure(
    py: Python<'_>,
    figure: &str,
    out: Option<PathBuf>,
    full: bool,
    dry_run: bool,
    seed: u64,
    command: Option<String>,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let figure = PaperFigure::by_key(figure).or_raise(py)?;
    work::run(py, How::new(threads, watch), move |watch| {
        let made = match dry_run {
            true => reproduce::preview(figure, full, seed, &**watch)?,
            false => {
                let out = out.unwrap_or_else(|| PathBuf::from(figure.key));
                reproduce::run(figure, full, seed, &out, command.as_deref(), &**watch)?
            }
        };
        let mut object = made.json;
        object["figure"] = json!(figure.key);
        object["files"] = made.files.iter().map(|f| json!(f.to_string_lossy())).collect();
        Ok(object.to_string())
    })
}

/// The certified rank of a matrix of features; as JSON.
#[pyfunction(name = "rank")]
#[pyo3(signature = (settings, *, seed=0, threads=None, watch=None))]
pub fn certify_rank(
    py: Python<'_>,
    settings: &str,
    seed: u64,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let matrix = || -> Result<_> {
        let mut given = Keywords::parse(settings)?;
        let spec: RankSpec = given.take()?;
        given.finish()?;
        spec.resolve(seed)
    };
    let matrix = matrix().or_raise(py)?;
    work::run(py, How::new(threads, watch), move |watch| {
        let found = rank::certify(&matrix.psi, &matrix.a, &matrix.b, &**watch)?;
        let mut object = json::rank(&matrix, &found);
        object["seed"] = json!(seed);
        Ok(object.to_string())
    })
}

/// Learning in context; returns what the program prints, and the network if there is one.
#[pyfunction(name = "incontext")]
#[pyo3(signature = (settings, *, seed=0, threads=None, watch=None))]
pub fn run_incontext(
    py: Python<'_>,
    settings: &str,
    seed: u64,
    threads: Option<usize>,
    watch: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Model>)> {
    let spec = || -> Result<IncontextSpec> {
        let mut given = Keywords::parse(settings)?;
        let spec: IncontextSpec = given.take()?;
        given.finish()?;
        spec.check()?;
        Ok(spec)
    };
    let spec = spec().or_raise(py)?;
    let (text, network) = work::run(py, How::new(threads, watch), move |watch| {
        let found = incontext::run(&spec, seed, &**watch)?;
        let mut object = json::incontext(&found);
        object["seed"] = json!(seed);
        Ok((object.to_string(), found.outcome.layers.map(|layers| layers.file)))
    })?;
    Ok((text, network.map(|file| Model { any: Arc::new(AnyModel::InContext(file)) })))
}

/// Writes a model for other programs; returns what the program prints.
#[pyfunction]
#[pyo3(signature = (model, to, out, *, precision=None))]
pub fn export(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    to: &str,
    out: PathBuf,
    precision: Option<&str>,
) -> PyResult<String> {
    let any = model.get().any.clone();
    let to: ExportFormat = to.parse().or_raise(py)?;
    let precision: Option<Precision> = precision.map(str::parse).transpose().or_raise(py)?;
    work::run(py, How::default(), move |_| Ok(export_model(&any, to, &out, precision)?.json.to_string()))
}
