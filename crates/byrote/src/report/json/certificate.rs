//! What a model was proven to do.

use crate::certify::Certificate;
use crate::dataset::Dataset;
use crate::model::Model;
use serde_json::{Value, json};

/// A certificate, with the text of the context that is in doubt.
pub fn certificate(model: &Model, found: &Certificate, dataset: &Dataset) -> Value {
    let mut object = json!(found);
    if let Some(doubt) = &found.doubt {
        object["doubt"]["text"] = json!(dataset.text_of(doubt.context));
        object["doubt"]["tokens"] = json!(dataset.tokens_of(doubt.context));
    }
    object["parameters"] = json!(model.parameters().len());
    object
}
