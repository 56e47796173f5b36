//! Pictures of models on the corpus: how a closed form tells contexts apart, and how a network learns as a sequence is fed.

use crate::corpus_view::LoadedCorpus;
use byrote::any_model::AnyModel;
use byrote::dataset::Dataset;
use byrote::incontext::{Baseline, Input, Map, NetworkFile, Rows, Sequence, SequenceTask, errors_at};
use byrote::model::ModelFile;
use byrote::observe::Observer;
use byrote::report::json;
use byrote::train::{Evaluator, ProbePoint};
use byrote::{Error, Result};
use serde_json::{Value, json};

/// The most contexts of a picture.
const CONTEXTS: usize = 400;
/// The most rows and columns of a map of features.
const MAP: (usize, usize) = (60, 120);
/// Sequences of the demonstration, and their length.
const SEQUENCES: u64 = 10;
const LENGTH: usize = 120;

/// The picture of a model on the corpus.
pub fn of_model(model: &AnyModel, loaded: &LoadedCorpus) -> Result<Value> {
    match model {
        AnyModel::Exact(file) => {
            let mut object = json::exact_network(file);
            object["picture"] = json!("stages");
            Ok(object)
        }
        AnyModel::OneLayer(file) => {
            let dataset = Dataset::for_model(&loaded.corpus, file)?;
            match steps(file, &dataset)? {
                Some(steps) => Ok(steps),
                None => features(file, &dataset),
            }
        }
        _ => Err(Error::setting("kind", "there is no picture of this kind of model")),
    }
}

/// Evenly spread contexts.
fn sample(dataset: &Dataset, most: usize) -> Vec<usize> {
    let n = dataset.len();
    let kept = n.min(most);
    (0..kept).map(|i| i * n / kept).collect()
}

fn tensor<'a>(file: &'a ModelFile, name: &str) -> Option<(&'a [f64], Vec<usize>)> {
    let found = file.model.tensors().iter().find(|t| t.name == name)?;
    Some((&file.model.parameters()[found.range.clone()], found.shape.to_vec()))
}

/// A hidden layer that reads one direction only: contexts along a line, and a neuron's step between two of them. This is how
/// madden2024 tells contexts apart. None for any other model.
fn steps(file: &ModelFile, dataset: &Dataset) -> Result<Option<Value>> {
    if file.model.config().shape.blocks.is_some() {
        return Ok(None);
    }
    let (Some((weights, shape)), Some((biases, _))) = (tensor(file, "W_in"), tensor(file, "b_in")) else {
        return Ok(None);
    };
    let &[d, m] = &shape[..] else { return Ok(None) };
    let column = |j: usize| (0..d).map(move |i| weights[i * m + j]);
    let norm = |j: usize| column(j).map(|x| x * x).sum::<f64>().sqrt();
    let Some(first) = (0..m).find(|&j| norm(j) > 0.0) else { return Ok(None) };
    let direction: Vec<f64> = column(first).map(|x| x / norm(first)).collect();
    let along = |j: usize| column(j).zip(&direction).map(|(x, v)| x * v).sum::<f64>();
    if m < 2 || (0..m).any(|j| norm(j) - along(j).abs() > 1e-9 * norm(j)) {
        return Ok(None);
    }
    let shown = sample(dataset, CONTEXTS);
    let part = dataset.subset(&shown)?;
    let mixed =
        Evaluator::<f64, _>::of_model(&file.model, &part).rows(ProbePoint::Mixed, file.model.parameters());
    let mut contexts: Vec<(f64, usize)> = mixed
        .chunks_exact(d)
        .map(|row| row.iter().zip(&direction).map(|(x, v)| x * v).sum())
        .zip(shown)
        .collect();
    contexts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut thresholds: Vec<f64> =
        (0..m).filter(|&j| along(j) != 0.0).map(|j| -biases[j] / along(j)).collect();
    thresholds.sort_by(f64::total_cmp);
    let neurons = thresholds.len();
    let kept = neurons.min(CONTEXTS);
    let thresholds: Vec<f64> = (0..kept).map(|i| thresholds[i * neurons / kept]).collect();
    let point = |&(position, context): &(f64, usize)| json!({"position": position, "text": dataset.text_of(context), "count": dataset.counts()[context]});
    Ok(Some(json!({
        "picture": "steps",
        "contexts": contexts.iter().map(point).collect::<Vec<_>>(),
        "thresholds": thresholds,
        "neurons": neurons,
        "of_contexts": dataset.len(),
    })))
}

/// What the output layer reads, per context: a map of numbers.
fn features(file: &ModelFile, dataset: &Dataset) -> Result<Value> {
    let shown = sample(dataset, MAP.0);
    let part = dataset.subset(&shown)?;
    let rows =
        Evaluator::<f64, _>::of_model(&file.model, &part).rows(ProbePoint::Read, file.model.parameters());
    let width = rows.len() / shown.len().max(1);
    let columns: Vec<usize> = (0..width.min(MAP.1)).map(|i| i * width / width.min(MAP.1)).collect();
    let values: Vec<Vec<f64>> =
        rows.chunks_exact(width.max(1)).map(|row| columns.iter().map(|&j| row[j]).collect()).collect();
    Ok(json!({
        "picture": "features",
        "contexts": shown.iter().map(|&c| dataset.text_of(c)).collect::<Vec<_>>(),
        "columns": columns,
        "values": values,
        "of_contexts": dataset.len(),
        "of_features": width,
    }))
}

/// The error of a network as sequences are fed to it, beside simple predictions.
pub fn in_context(file: &NetworkFile, observer: &dyn Observer) -> Result<Value> {
    let network = &file.network;
    let d_in = network.w_e.len();
    let d = match file.input {
        Input::Vector => d_in,
        Input::WithDirection => d_in / 2,
        Input::WithSquare => d_in.saturating_sub(1),
    };
    if d < 2 {
        return Err(Error::setting("id", "vectors of one dimension have no sequences to learn"));
    }
    let length = LENGTH.min(network.n_ctx()).max(2);
    let task = SequenceTask::Linear(Map::Orthogonal);
    let known = byrote::incontext::sequences(task, d, length, 0, 0, SEQUENCES)?;
    let seen: Vec<Sequence> = known.iter().map(|x| x.first(length)).collect::<Result<_>>()?;
    let predict = |x: &Sequence| network.evaluate(&inputs(file.input, x)?, observer);
    let predictions: Vec<Rows> = seen.iter().map(predict).collect::<Result<_>>()?;
    let mut series =
        vec![json!({"key": "network", "label": "the network", "errors": errors_at(&predictions, &known)})];
    for baseline in Baseline::ALL {
        let predictions: Vec<Rows> =
            seen.iter().map(|x| baseline.predict(x, observer)).collect::<Result<_>>()?;
        series.push(json!({"key": baseline.key(), "label": baseline.label(), "errors": errors_at(&predictions, &known)}));
    }
    Ok(json!({
        "picture": "in-context", "task": "x_{t+1} = Q x_t with a random orthogonal Q per sequence", "sequences": SEQUENCES,
        "d": d, "series": series,
    }))
}

/// What a network reads of a sequence.
fn inputs(input: Input, x: &Sequence) -> Result<Rows> {
    let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut values = Vec::new();
    for row in x.iter() {
        values.extend_from_slice(row);
        match input {
            Input::Vector => {}
            Input::WithDirection => values.extend(row.iter().map(|x| x / norm(row))),
            Input::WithSquare => values.push(norm(row).powi(2)),
        }
    }
    Rows::new(values.len() / x.len(), values)
}
