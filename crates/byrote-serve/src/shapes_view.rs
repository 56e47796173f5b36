//! What fits? Parameters by kind, every bound that applies, and the corpus as a point, for a shape that is being tried.

use crate::query::Query;
use crate::state::{CorpusState, State};
use crate::typed;
use byrote::bounds::SizeSpec;
use byrote::bounds::curve::picture;
use byrote::report::json::{self, BoundsResult};
use byrote::setting::Keywords;
use byrote::{Error, Result};
use serde_json::{Map, Value, json};

/// The names in the address that are not settings of the shape.
const OTHERS: [&str; 3] = ["d_vocab", "n_ctx", "corpus"];

/// `/api/shapes`: the JSON of `byrote bounds`, and the lines of its picture. With `corpus=1` the corpus that is loaded is compared.
pub fn shapes(state: &State, query: &Query) -> Result<Value> {
    let settings = query.settings(&OTHERS);
    let checked = |settings: &Map<String, Value>| size(settings)?.check();
    let size =
        size(&settings).map_err(|error| typed::reworded(error, &settings, |other| checked(other).err()))?;
    size.check().map_err(at_field)?;
    let loaded = match (query.get("corpus"), state.corpus_state()) {
        (Some("1"), CorpusState::Ready(loaded)) => Some(loaded),
        _ => None,
    };
    let summary = loaded.as_ref().map(|l| l.corpus.whole.as_deref().unwrap_or(&l.corpus.summary));
    let n_ctx = query.number("n_ctx")?;
    let n_ctx = n_ctx.map(u32::try_from).transpose();
    let n_ctx = n_ctx.map_err(|_| Error::setting("n_ctx", "is too large"))?;
    let situation = size.situation(summary, query.number("d_vocab")?, n_ctx).map_err(at_field)?;
    let found = BoundsResult::new(&situation);
    let count = situation.parameter_count();
    let corpus = situation.corpus.as_ref();
    let known =
        corpus.map(|c| u128::from(c.contexts.max(1)).saturating_mul(u128::from(c.d_vocab.max(2) - 1)));
    // Two decades around what is known, and at least a hundred to a hundred million.
    let most = count.into_iter().chain(known).max().unwrap_or(1).saturating_mul(100).max(100_000_000);
    let mut object = json::bounds(None, &situation, &found, &[]);
    object["picture"] = json!(picture(&situation, 100, most));
    object["corpus"] =
        json!(corpus.map(|c| json!({"contexts": c.contexts, "d_vocab": c.d_vocab, "n_ctx": c.n_ctx})));
    Ok(object)
}

fn size(settings: &Map<String, Value>) -> Result<SizeSpec> {
    let mut keywords = Keywords::parse(&Value::Object(settings.clone()).to_string())?;
    let size = keywords.take()?;
    keywords.finish()?;
    Ok(size)
}

/// The page has no field for the whole model, whose width matters most.
fn at_field(error: Error) -> Error {
    match error {
        Error::Setting { name: "model", message } => {
            Error::setting("d_model", format!("the model {message}"))
        }
        other => other,
    }
}
