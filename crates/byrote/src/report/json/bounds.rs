//! Bounds for a corpus, a model, or both.

use crate::bounds::families::{self, Family};
use crate::bounds::{self, BoundRow, BoundsVerdict, Situation};
use crate::construct::dana2024::EncoderGap;
use crate::corpus::Summary;
use serde_json::{Value, json};

/// Everything that bounds say of a situation.
#[derive(Debug)]
pub struct BoundsResult {
    /// One row per bound.
    pub rows: Vec<BoundRow>,
    /// The smallest models that are guaranteed to suffice, if no model is given.
    pub families: Vec<Family>,
    /// The answer in a sentence.
    pub verdict: BoundsVerdict,
}

impl BoundsResult {
    /// Evaluates all bounds.
    pub fn new(situation: &Situation) -> Self {
        let families = match (&situation.corpus, situation.parameter_count()) {
            (Some(facts), None) => families::smallest(facts),
            _ => Vec::new(),
        };
        Self { rows: bounds::evaluate(situation), families, verdict: bounds::verdict(situation) }
    }
}

/// The bounds of a situation; `encoders` are the gaps that were searched for.
pub fn bounds(
    summary: Option<&Summary>,
    situation: &Situation,
    found: &BoundsResult,
    encoders: &[EncoderGap],
) -> Value {
    json!({
        "corpus": summary,
        "shape": situation.shape,
        "model": situation.model,
        "parameters": situation.parameter_count().map(count),
        "parameters_by_kind": situation.parameters_by_kind(),
        "rows": found.rows,
        "smallest_models": found.families,
        "verdict": found.verdict,
        "encoders": encoders,
    })
}

/// A count as a JSON number: an integer where it fits into 64 bits, a float above.
fn count(k: u128) -> Value {
    u64::try_from(k).map_or_else(|_| json!(k as f64), |k| json!(k))
}
