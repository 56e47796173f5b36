//! Models in closed form.

use super::evaluation::evaluation;
use super::extend;
use crate::construct::kajitsuka2024::{Built, ExactFile, Labelled};
use crate::construct::madden2024::literal::LiteralReport;
use crate::dataset::Dataset;
use crate::evaluate::Evaluation;
use crate::model::{Counting, ModelFile};
use crate::units::Nats;
use serde::Serialize;
use serde_json::{Value, json};

/// A model in closed form: its evaluation, and what its builder reports.
pub fn construction(
    method: &str,
    file: &ModelFile,
    found: &Evaluation,
    dataset: &Dataset,
    report: &impl Serialize,
) -> Value {
    let mut object = evaluation(&file.model, found, dataset, &file.vocabulary);
    object["method"] = json!(method);
    extend(&mut object, json!(report));
    object
}

/// The literal construction of madden2024, which is reported and not stored.
pub fn literal(report: &LiteralReport) -> Value {
    let mut object = json!(report);
    object["method"] = json!("madden2024");
    object["solver"] = json!("literal");
    object
}

/// An exact network of kajitsuka2024; `floor` is that of the corpus, if there is one.
pub fn kajitsuka2024(
    file: &ExactFile,
    labelled: &Labelled,
    contradictions: u64,
    built: &Built,
    floor: Nats,
) -> Value {
    let mut object = json!(file.size());
    let samples = labelled.samples.len();
    let deterministic = contradictions == 0;
    object["method"] = json!("kajitsuka2024");
    object["memory"] = json!(built.model.method.name());
    object["contexts"] = json!(samples);
    object["samples"] = json!(samples);
    object["verified"] = json!(built.verified);
    object["duplicates"] = json!(labelled.samples.duplicates);
    object["contradictions"] = json!(contradictions);
    object["facts"] = json!(built.facts);
    object["ids"] = json!(built.ids);
    object["retries"] = json!(built.effort.tables.saturating_sub(1));
    object["guarantee"] = json!(built.guarantee);
    // The block size is chosen for the fewest non-zero weights, so there is no such guarantee for the dense count.
    object["guarantee_counting"] = json!(built.guarantee.map(|_| Counting::Nonzero));
    let candidates = built.candidates.iter().map(|(m, p)| {
        let [nonzero, dense] = Counting::ALL.map(|c| p.total(c));
        json!({"memory": m.name(), "parameters": nonzero, "parameters_dense": dense})
    });
    object["candidates"] = json!(candidates.collect::<Vec<_>>());
    object["information_bits"] = json!(labelled.samples.information_bits());
    object["memorized"] = json!(built.verified);
    object["accuracy"] = json!(1.0);
    // The network gives its answer probability 1, so its loss is 0 where there is one next token and infinite, which JSON
    // writes as null, elsewhere.
    object["memorized_distribution"] = json!(samples as u64 - contradictions);
    object["loss_nats"] = if deterministic { json!(0.0) } else { Value::Null };
    object["gap_nats"] = if deterministic { json!(0.0) } else { Value::Null };
    object["max_kl_nats"] = if deterministic { json!(0.0) } else { Value::Null };
    object["floor_nats"] = json!(floor);
    object["max_logit_error"] = json!(0.0);
    object
}
