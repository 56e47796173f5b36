//! Runs: trainings and sweeps as they happen, and trainings that are started, paused and stopped from the page.

use crate::follow::{self, Point, Run};
use crate::places::Place;
use crate::query::Query;
use crate::state::{State, held};
use crate::trainings::{self, Request};
use crate::typed;
use byrote::model::ModelSpec;
use byrote::output::Holds;
use byrote::sweep::Record;
use byrote::train::TrainSpec;
use byrote::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most curves that are sent at once; a page asks for others by job.
const CURVES: usize = 60;
/// The most points per curve.
const POINTS: usize = 300;

/// `/api/runs`: everything that trains, or has trained.
pub fn list(state: &State, _: &Query) -> Result<Value> {
    follow::look(state);
    let places = state.places.directories();
    let runs = held(&state.runs);
    let mut all: Vec<(usize, Value)> = runs
        .iter()
        .filter_map(|run| {
            let at = places.iter().position(|place| place.path == run.place.path)?;
            Some((at, summary(state, run)))
        })
        .collect();
    all.sort_by_key(|(at, _)| *at);
    let all: Vec<Value> = all.into_iter().map(|(_, run)| run).collect();
    Ok(json!({
        "runs": all,
        "keeps_runs": state.places.keeps_runs,
        "directory": state.places.keeps_runs.then(|| state.places.runs.display().to_string()),
    }))
}

fn summary(state: &State, run: &Run) -> Value {
    let mut object = run.summary();
    add_own(state, &run.place, &mut object);
    object
}

/// What is known better of a training of this process.
pub fn add_own(state: &State, place: &Place, object: &mut Value) {
    if let Some(own) = trainings::shown(state, place) {
        object["state"] = json!(own.state);
        object["controls"] = json!(own.controls());
        object["error"] = json!(own.error);
        object["stop"] = json!(own.stop);
        if own.state != "running" {
            object["running"] = json!(0);
            object["eta_seconds"] = Value::Null;
        }
    }
}

/// `/api/run`: one run with its jobs and their curves.
pub fn show(state: &State, query: &Query) -> Result<Value> {
    let place = state.places.directory(query.required("id")?)?;
    follow::look(state);
    let runs = held(&state.runs);
    let run = runs.get(&place.path).ok_or_else(|| Error::setting("id", "this directory holds no run"))?;
    let mut object = summary(state, run);
    object["labels"] = json!(run.labels());
    object["command"] = json!(run.record.as_ref().and_then(|record| record.command.clone()));
    let rows = run.record.iter().flat_map(|record| &record.rows).map(|row| run.row(row));
    object["rows"] = json!(rows.collect::<Vec<_>>());
    object["settings"] = json!(state.trainings.settings(&place));
    object["has_model"] = json!(place.file("model.safetensors").is_some());
    // Those that run, then those that ended last.
    let mut jobs: Vec<usize> = run.running_jobs().collect();
    let ended = run.record.iter().flat_map(|record| record.rows.iter().rev());
    jobs.extend(ended.filter_map(|row| run.index.get(&row.job)).copied());
    if run.kind == Holds::Training {
        jobs = vec![0];
    }
    jobs.dedup();
    jobs.truncate(CURVES);
    let curves: BTreeMap<String, Value> =
        jobs.iter().map(|&job| (job.to_string(), curves(run, job))).collect();
    object["curves"] = json!(curves);
    Ok(object)
}

/// `/api/run/job`: one job: its settings, its result, its curve, the contexts it knows worst.
pub fn job(state: &State, query: &Query) -> Result<Value> {
    let place = state.places.directory(query.required("id")?)?;
    let runs = held(&state.runs);
    let run = runs.get(&place.path).ok_or_else(|| Error::setting("id", "this directory holds no run"))?;
    let index = query.number("job")?.unwrap_or(0) as usize;
    let record = run.record.as_ref();
    let settings = record.and_then(|record| record.planned.get(index));
    if settings.is_none() && (index > 0 || record.is_some()) {
        return Err(Error::setting("job", format!("there is no job {index}")));
    }
    let row =
        record.and_then(|record| record.rows.iter().find(|row| run.index.get(&row.job) == Some(&index)));
    Ok(json!({
        "index": index,
        "label": run.labels().get(index),
        "settings": settings,
        "row": row.map(|row| run.row(row)),
        "worst": row.and_then(|row| row.result.as_ref()).map(|result| &result.worst),
        "curves": curves(run, index),
    }))
}

/// The curves of a job: gap per prediction by steps, from its file once it has ended, and by seconds.
fn curves(run: &Run, job: usize) -> Value {
    let live: &[Point] = run.live.points.get(&job).map_or(&[], Vec::as_slice);
    let row =
        run.record.iter().flat_map(|record| &record.rows).find(|row| run.index.get(&row.job) == Some(&job));
    let inside = Place { path: run.folder.clone(), ..run.place.clone() };
    let stored = match (run.kind, row) {
        (Holds::Training, _) => training_curve(&inside),
        (_, Some(row)) if inside.file(format!("curves/{}.csv", row.job)).is_some() => {
            let each = row.predictions.max(1) as f64;
            Record::read_curve(&run.folder, &row.job)
                .map(|points| points.into_iter().map(|(step, gap)| (step, gap / each)).collect())
        }
        _ => None,
    };
    let steps: Vec<(f64, f64)> = match stored {
        Some(points) => points,
        None => live.iter().map(|point| (point.0 as f64, point.2)).collect(),
    };
    let seconds: Vec<(f64, f64)> = live.iter().map(|point| (point.1, point.2)).collect();
    json!({"steps": thinned(&steps), "seconds": thinned(&seconds)})
}

/// The curve of a training that has ended.
fn training_curve(inside: &Place) -> Option<Vec<(f64, f64)>> {
    let path = inside.file("curve.csv")?;
    let mut reader = csv::Reader::from_path(path).ok()?;
    let heads = reader.headers().ok()?.clone();
    let column = |name: &str| heads.iter().position(|head| head == name);
    let (step, gap) = (column("step")?, column("gap_nats_per_prediction")?);
    let rows = reader.records().filter_map(|row| row.ok());
    Some(rows.filter_map(|row| Some((row.get(step)?.parse().ok()?, row.get(gap)?.parse().ok()?))).collect())
}

/// At most so many points, evenly spread, with the first and the last.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let n = points.len();
    if n <= POINTS {
        return points.to_vec();
    }
    (0..POINTS).map(|i| points[i * (n - 1) / (POINTS - 1)]).collect()
}

/// `/api/run/form`: the settings of a training, as the specs describe them.
pub fn form(state: &State, _: &Query) -> Result<Value> {
    let loaded = state.corpus().ok();
    Ok(json!({
        "model": fields::<ModelSpec>(),
        "training": fields::<TrainSpec>(),
        "corpus": loaded.map(|l| l.spec.title()),
        "keeps_runs": state.places.keeps_runs,
    }))
}

/// Names, help, choices and defaults of a spec's settings: those of the command line.
fn fields<T: clap::Args>() -> Vec<Value> {
    let command = T::augment_args(clap::Command::new("settings"));
    let field = |arg: &clap::Arg| {
        let choices: Vec<String> =
            arg.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
        let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
        let (help, described) =
            without_default(&arg.get_help().map(|help| help.to_string()).unwrap_or_default());
        let value = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        json!({
            "name": arg.get_id().as_str(),
            "help": typed::help(&help, value),
            "choices": choices,
            "default": default.or(described),
        })
    };
    command.get_arguments().filter(|arg| arg.get_long().is_some()).map(field).collect()
}

/// A help text without its `[default: ...]` at the end, and what that says.
fn without_default(help: &str) -> (String, Option<String>) {
    let found = help.split_once(" [default: ").filter(|(_, rest)| !rest.contains("[default: "));
    match found.and_then(|(text, rest)| Some((text, rest.strip_suffix(']')?))) {
        Some((text, default)) => (text.to_owned(), Some(default.replace('`', ""))),
        None => (help.to_owned(), None),
    }
}

/// `/api/run/check`: whether a training could be started, and how large it would be.
pub fn check(state: &Arc<State>, _: &Query, body: &Value) -> Result<Value> {
    Request::new(body)?.check(state)
}

/// `/api/run/start`: starts a training.
pub fn start(state: &Arc<State>, _: &Query, body: &Value) -> Result<Value> {
    let request = Request::new(body)?;
    request.check(state)?;
    let id = trainings::start(state, request)?;
    Ok(json!({"id": id}))
}

/// `/api/run/control`: pauses, resumes or stops a training that was started from a page.
pub fn control(state: &Arc<State>, _: &Query, body: &Value) -> Result<Value> {
    let id = body["id"].as_str().ok_or_else(|| Error::setting("id", "is missing"))?;
    let place = state.places.directory(id)?;
    let action = body["action"].as_str().unwrap_or_default();
    trainings::control(state, &place, action)?;
    Ok(json!({"id": id, "state": trainings::shown(state, &place).map(|own| own.state)}))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_that_of_the_command_line() {
        let fields = fields::<TrainSpec>();
        let lr = fields.iter().find(|field| field["name"] == "lr").unwrap();
        assert!(lr["help"].as_str().unwrap().contains("rate of adam"), "{lr}");
        let optimizer = fields.iter().find(|field| field["name"] == "optimizer").unwrap();
        assert_eq!(
            (optimizer["default"].as_str(), optimizer["choices"].as_array().unwrap().len()),
            (Some("lbfgs"), 3)
        );
    }

    #[test]
    fn a_default_stands_in_the_field_and_not_in_its_help() {
        let (help, default) = without_default("Attention heads [default: 1, or d_model / 16]");
        assert_eq!((help.as_str(), default.as_deref()), ("Attention heads", Some("1, or d_model / 16")));
        for whole in ["Bits", "Rate [default: 1]; length [default: 2]", "Rate [default: 1] or so"] {
            assert_eq!(without_default(whole), (whole.to_owned(), None));
        }
        let heads = fields::<ModelSpec>().into_iter().find(|field| field["name"] == "n_heads").unwrap();
        assert!(heads["default"].as_str().unwrap().starts_with('1'), "{heads}");
    }

    #[test]
    fn thinning_keeps_the_ends() {
        let points: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i), 0.0)).collect();
        let thin = thinned(&points);
        assert_eq!((thin.len(), thin[0].0, thin[POINTS - 1].0), (POINTS, 0.0, 999.0));
        assert_eq!(thinned(&points[..2]), points[..2]);
    }
}
