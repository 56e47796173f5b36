//! The rank of the features of neurons.

use crate::certify::rank::{FeatureMatrix, RankCertificate, RankRange, RankTheorem};
use serde_json::{Value, json};

/// The rank and the Kruskal rank of a matrix, with what the theorems say of it.
pub fn rank(matrix: &FeatureMatrix, found: &RankCertificate) -> Value {
    let FeatureMatrix { psi, a, b, .. } = matrix;
    json!({
        "psi": psi,
        "m": a.len(),
        "n": b.len(),
        "verdict": verdict(found),
        "rank": found.rank.value(),
        "rank_interval": found.rank,
        "kruskal_rank": found.kruskal.value(),
        "kruskal_rank_interval": found.kruskal,
        "rank_of_any_weights": found.rank_of_any_weights,
        "rank_by": found.rank_by,
        "kruskal_rank_by": found.kruskal_by,
        "bits": found.bits,
        "corrected": theorem(&found.theorems.corrected),
        "published": theorem(&found.theorems.published),
        "a": a,
        "b": b,
    })
}

fn verdict(found: &RankCertificate) -> &'static str {
    match (found.rank.value(), found.kruskal.value()) {
        (Some(_), Some(_)) => "certified",
        (Some(_), None) => "rank-certified",
        (None, _) => "undecided",
    }
}

fn theorem(theorem: &RankTheorem) -> Value {
    json!({
        "rank": theorem.rank.and_then(RankRange::value),
        "kruskal_rank": theorem.kruskal.and_then(RankRange::value),
        "place": theorem.place,
    })
}
