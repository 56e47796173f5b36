//! Results as JSON objects: what the program prints with `--json` and what other front ends return.
//!
//! Results that are plain structs serialize themselves. Here are the objects that put several of them together.

mod bounds;
mod certificate;
mod construction;
mod evaluation;
mod incontext;
mod model;
mod rank;
mod study;
mod sweep;
mod training;

pub use bounds::{BoundsResult, bounds};
pub use certificate::certificate;
pub use construction::{construction, kajitsuka2024, literal};
pub use evaluation::{evaluation, exact_evaluation, exact_prediction};
pub use incontext::incontext;
pub use model::{exact_network, model, network};
pub use rank::rank;
pub use study::study;
pub use sweep::{jobs, sweep};
pub use training::training;

use serde_json::Value;

/// Adds the fields of one object to another.
fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}
