//! Models: what they hold, what they predict beside the corpus, where they are worst, what is proven of them.

use crate::corpus_view::LoadedCorpus;
use crate::picture;
use crate::places::ModelPlace;
use crate::query::Query;
use crate::state::{State, held};
use crate::tasks;
use byrote::any_model::AnyModel;
use byrote::certify::certify;
use byrote::construct::kajitsuka2024 as exact;
use byrote::corpus::{Reading, Vocabulary};
use byrote::dataset::Dataset;
use byrote::evaluate::{TOLERANCE, evaluate};
use byrote::observe::Observer;
use byrote::report::json;
use byrote::{Error, Result, memory, predict};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// The most models that are held.
const HELD: usize = 4;
/// How many bad contexts are listed.
const WORST: usize = 50;
/// The most tokens that are listed.
const MOST_NEXT: u64 = 200;

/// Models that were loaded, the last one used last.
#[derive(Debug, Default)]
pub struct Models(Mutex<Vec<Loaded>>);

#[derive(Debug)]
struct Loaded {
    path: PathBuf,
    changed: Option<SystemTime>,
    model: Arc<AnyModel>,
}

impl Models {
    /// Loads a model, unless it is held.
    pub fn get(&self, place: &ModelPlace) -> Result<Arc<AnyModel>> {
        // A file that was found must still be where it was found.
        let real = std::fs::canonicalize(&place.path).map_err(|e| Error::io(&place.path, "open", e))?;
        if place.inside.as_ref().is_some_and(|inside| !real.starts_with(inside)) {
            return Err(Error::format(&place.path, "leads out of its directory"));
        }
        let changed = real.metadata().and_then(|m| m.modified()).ok();
        let mut held = held(&self.0);
        if let Some(at) = held.iter().position(|l| l.path == real && l.changed == changed) {
            let found = held.remove(at);
            let model = found.model.clone();
            held.push(found);
            return Ok(model);
        }
        drop(held);
        let size = size(&real);
        if memory::free().is_some_and(|free| size > free / 3) {
            return Err(Error::format(&place.path, "is too large for the memory that is free"));
        }
        let model = Arc::new(AnyModel::load(&real)?);
        let mut held = crate::state::held(&self.0);
        held.retain(|l| l.path != real);
        if held.len() >= HELD {
            held.remove(0);
        }
        held.push(Loaded { path: real, changed, model: model.clone() });
        Ok(model)
    }
}

/// The bytes of a file, or of the files of a directory.
fn size(path: &Path) -> u64 {
    let of = |path: &Path| path.metadata().map_or(0, |m| if m.is_file() { m.len() } else { 0 });
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| of(&entry.path()));
    of(path) + inside.sum::<u64>()
}

fn model(state: &State, query: &Query) -> Result<(ModelPlace, Arc<AnyModel>)> {
    let place = state.places.model(query.required("id")?)?;
    let model = state.models.get(&place)?;
    Ok((place, model))
}

/// `/api/models`: all models.
pub fn list(state: &State, _: &Query) -> Result<Value> {
    let row = |place: &ModelPlace| json!({"id": place.id, "name": place.name, "bytes": size(&place.path)});
    Ok(json!({"models": state.places.models().iter().map(row).collect::<Vec<_>>()}))
}

/// `/api/model`: the JSON of `byrote show`, without the list of tensors.
pub fn show(state: &State, query: &Query) -> Result<Value> {
    let (place, model) = model(state, query)?;
    let mut object = match &*model {
        AnyModel::OneLayer(file) => json::model(file),
        AnyModel::InContext(file) => json::network(file),
        AnyModel::Exact(file) => json::exact_network(file),
        _ => json!({}),
    };
    object["id"] = json!(place.id);
    object["name"] = json!(place.name);
    object["describes"] = json!(model.kind());
    object["reads"] = json!(match &*model {
        AnyModel::OneLayer(_) => "tokens",
        AnyModel::Exact(_) => "labels",
        _ => "vectors",
    });
    Ok(object)
}

/// `/api/model/predict`: the next tokens of a model beside those of the corpus, after a text or after tokens of the corpus.
pub fn predict(state: &State, query: &Query) -> Result<Value> {
    let (_, model) = model(state, query)?;
    let loaded = state.corpus().ok();
    let top = query.number("top")?.unwrap_or(15).min(MOST_NEXT) as usize;
    match &*model {
        AnyModel::OneLayer(file) => {
            let (tokens, own) = tokens(query, &file.reading(), loaded.as_deref())?;
            predict::check_context(file, &tokens)?;
            let next = own
                .as_deref()
                .zip(loaded.as_deref())
                .and_then(|(own, loaded)| next(loaded, own, &file.vocabulary));
            let shape = file.model.config().shape;
            // The one context that is asked about, so that the comparison is the library's.
            let here = next
                .map(|next| Dataset::new(shape.d_vocab, shape.n_ctx, [(tokens.clone(), next)]))
                .transpose()?;
            let found = predict::predict(file, &tokens, top, here.as_ref())?;
            let mut object = json!(found);
            object["entropy_nats"] = json!(entropy(&found.logits));
            object["kind"] = json!("distribution");
            Ok(object)
        }
        AnyModel::Exact(file) => {
            let (tokens, _) = tokens(query, &file.reading(), loaded.as_deref())?;
            if tokens.is_empty() {
                return Err(Error::setting("text", "contains no token"));
            }
            let mut object = json::exact_prediction(file, &tokens, &file.answers(&tokens)?);
            object["kind"] = json!("label");
            Ok(object)
        }
        _ => Err(Error::setting("id", "this model reads vectors, not text")),
    }
}

/// The entropy of a distribution given by logits.
fn entropy(logits: &[f64]) -> f64 {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logits.iter().map(|z| (z - most).exp());
    let total: f64 = weights.clone().sum();
    let mean: f64 = logits.iter().zip(weights).map(|(z, w)| (z - most) * w / total).sum();
    total.ln() - mean
}

/// The tokens of a query in the ids of a model, and in those of the corpus, if it has them.
fn tokens(
    query: &Query,
    reading: &Reading<'_>,
    loaded: Option<&LoadedCorpus>,
) -> Result<(Vec<u32>, Option<Vec<u32>>)> {
    if query.get("tokens").is_some() {
        let loaded = loaded.ok_or_else(|| Error::setting("tokens", "need a corpus"))?;
        let own = loaded.tokens(query)?;
        let unknown = |id: u32| {
            let token = loaded.corpus.vocabulary.text(id);
            Error::setting("text", format!("the model has never seen the token {token:?}"))
        };
        let ids =
            own.iter().map(|&id| in_vocabulary(loaded, id, reading.vocabulary).ok_or_else(|| unknown(id)));
        return Ok((ids.collect::<Result<_>>()?, Some(own)));
    }
    let text = query.get("text").unwrap_or_default();
    let ids = reading.tokens(text, false, None)?;
    let own = loaded.and_then(|loaded| loaded.tokens(query).ok());
    Ok((ids, own))
}

/// A token of the corpus in another vocabulary.
fn in_vocabulary(loaded: &LoadedCorpus, id: u32, vocabulary: &Vocabulary) -> Option<u32> {
    let own = &loaded.corpus.vocabulary;
    vocabulary.id(own.key(id)).filter(|_| own.alphabet() == vocabulary.alphabet())
}

/// The next tokens of a context of the corpus, in the ids of a model; none if it does not occur, or one is unknown to the model.
fn next(loaded: &LoadedCorpus, tokens: &[u32], vocabulary: &Vocabulary) -> Option<Vec<(u32, f64)>> {
    let found = loaded.corpus.contexts.as_ref()?.find(tokens)?;
    let mut next: Vec<(u32, f64)> = found
        .next()
        .map(|(id, n)| Some((in_vocabulary(loaded, id, vocabulary)?, n as f64)))
        .collect::<Option<_>>()?;
    next.sort_by_key(|n| n.0);
    (!next.is_empty()).then_some(next)
}

/// What can be computed of a model.
const KINDS: [&str; 4] = ["evaluate", "certify", "picture", "incontext"];

fn key(state: &State, id: &str, kind: &str) -> Result<String> {
    if !KINDS.contains(&kind) {
        return Err(Error::setting("kind", format!("must be one of {}", KINDS.join(", "))));
    }
    let place = state.places.model(id)?;
    // A model that has changed since is computed again.
    let changed = place.path.metadata().and_then(|m| m.modified()).ok();
    let changed = changed
        .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
        .map_or(0, |d| d.as_millis());
    Ok(format!("{kind} {id} {changed}"))
}

/// `/api/model/task`: where a computation is, or its result.
pub fn task(state: &State, query: &Query) -> Result<Value> {
    let key = key(state, query.required("id")?, query.required("kind")?)?;
    let mut object = state.tasks.state(&key);
    object["key"] = json!(key);
    Ok(object)
}

/// `/api/model/task`: starts a computation.
pub fn start_task(state: &Arc<State>, _: &Query, body: &Value) -> Result<Value> {
    let text = |name: &'static str| body[name].as_str().ok_or_else(|| Error::setting(name, "is missing"));
    let (id, kind) = (text("id")?.to_owned(), text("kind")?.to_owned());
    let key = key(state, &id, &kind)?;
    let place = state.places.model(&id)?;
    tasks::start(state, key.clone(), move |state, observer| {
        let model = state.models.get(&place)?;
        let loaded = || state.corpus();
        match (&*model, kind.as_str()) {
            (AnyModel::InContext(file), "incontext" | "evaluate") => picture::in_context(file, observer),
            (AnyModel::InContext(_), _) => {
                Err(Error::setting("kind", "this network reads vectors, not text"))
            }
            (_, "incontext") => Err(Error::setting("kind", "this model does not learn in context")),
            (_, "evaluate") => evaluated(&model, &*loaded()?, observer),
            (_, "certify") => certified(&model, &place, &*loaded()?, observer),
            _ => picture::of_model(&model, &*loaded()?),
        }
    })?;
    let mut object = state.tasks.state(&key);
    object["key"] = json!(key);
    Ok(object)
}

/// The JSON of `byrote eval`.
fn evaluated(model: &AnyModel, loaded: &LoadedCorpus, observer: &dyn Observer) -> Result<Value> {
    match model {
        AnyModel::Exact(file) => {
            let dataset = Dataset::from_corpus(&loaded.corpus)?.in_vocabulary(&file.vocabulary)?;
            let found = exact::evaluate(file, &dataset, observer)?;
            Ok(json::exact_evaluation(file, &found, loaded.corpus.summary.floor_nats))
        }
        AnyModel::OneLayer(file) => {
            let dataset = Dataset::for_model(&loaded.corpus, file)?;
            let found = evaluate(&file.model, &dataset, TOLERANCE, WORST, observer)?;
            Ok(json::evaluation(&file.model, &found, &dataset, &file.vocabulary))
        }
        _ => Err(Error::setting("kind", "this model cannot be evaluated on text")),
    }
}

/// The JSON of `byrote certify`.
fn certified(
    model: &AnyModel,
    place: &ModelPlace,
    loaded: &LoadedCorpus,
    observer: &dyn Observer,
) -> Result<Value> {
    match model {
        AnyModel::OneLayer(file) => {
            let dataset = Dataset::for_model(&loaded.corpus, file)?;
            let found = certify(&file.model, &dataset, observer)?;
            Ok(json::certificate(&file.model, &found, &dataset))
        }
        other => {
            Err(other
                .refused(&place.path, "it is evaluated without rounding, so its counts are proven already"))
        }
    }
}
