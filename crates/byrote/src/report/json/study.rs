//! Studies.

use crate::study::Study;
use serde_json::{Value, json};

/// What a study says in short.
pub fn study(study: &Study) -> Value {
    json!({
        "verdict": study.verdict(),
        "contexts": study.summary.contexts,
        "floor_nats": study.summary.floor_nats,
        "floor_nats_per_prediction": study.summary.floor_nats_per_prediction,
        "floor_bits_per_prediction": study.summary.floor_bits_per_prediction,
        "tokens_left_out": study.summary.tokens_left_out,
        "part": {
            "documents": study.part.documents,
            "contexts": study.part.contexts,
            "all": study.part.is_all,
        },
        "threshold_d_mlp": study.threshold().map(|t| t.row.d_mlp),
    })
}
