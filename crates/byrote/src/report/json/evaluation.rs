//! How well a model knows a corpus.

use crate::construct::kajitsuka2024::{Answer, ExactEvaluation, ExactFile};
use crate::corpus::Vocabulary;
use crate::dataset::Dataset;
use crate::evaluate::Evaluation;
use crate::model::Model;
use crate::units::Nats;
use serde_json::{Value, json};

/// Adds the losses per prediction, in nats and in bits.
pub(super) fn add_per_prediction(object: &mut Value, loss: Nats, floor: Nats, gap: Nats, predictions: u64) {
    for (name, total) in [("loss", loss), ("floor", floor), ("gap", gap)] {
        let each = total.per(predictions);
        object[format!("{name}_nats_per_prediction")] = json!(each);
        object[format!("{name}_bits_per_prediction")] = json!(each.map(Nats::bits));
    }
}

/// An evaluation, with the texts of the worst contexts and the size of the model.
pub fn evaluation(model: &Model, found: &Evaluation, dataset: &Dataset, vocabulary: &Vocabulary) -> Value {
    // A struct of numbers and lists: it always serialises.
    let mut object = serde_json::to_value(found).unwrap_or(Value::Null);
    object["parameters"] = json!(model.parameters().len());
    object["parameters_by_kind"] = json!(model.config().parameters_by_kind());
    object["relative_gap"] = json!((found.floor_nats.0 > 0.0).then(|| found.gap_nats.0 / found.floor_nats.0));
    add_per_prediction(&mut object, found.loss_nats, found.floor_nats, found.gap_nats, found.predictions);
    if let Some(worst) = object["worst"].as_array_mut() {
        for (row, w) in worst.iter_mut().zip(&found.worst) {
            row["text"] = json!(dataset.text_of(w.context));
            row["tokens"] = json!(dataset.tokens_of(w.context));
            row["next"] = json!(
                dataset
                    .next_of(w.context)
                    .iter()
                    .map(|&(t, n)| json!({"token": t, "text": vocabulary.text(t), "count": n}))
                    .collect::<Vec<_>>()
            );
            row["predicted_text"] = json!(vocabulary.text(w.predicted));
        }
    }
    object
}

/// The evaluation of an exact network, whose loss is zero or infinite.
pub fn exact_evaluation(file: &ExactFile, found: &ExactEvaluation, floor: Nats) -> Value {
    let mut object = json!(file.size());
    object["contexts"] = json!(found.contexts);
    object["predictions"] = json!(found.predictions);
    object["memorized"] = json!(found.memorized);
    object["memorized_distribution"] = json!(found.certain);
    object["accuracy"] = json!(found.accuracy());
    object["prediction_accuracy"] = json!(found.prediction_accuracy());
    object["without_label"] = json!(found.without_label);
    object["floor_nats"] = json!(floor);
    for name in ["loss_nats", "gap_nats", "max_kl_nats"] {
        object[name] = json!(found.loss_nats());
    }
    object
}

/// The answers of an exact network to a text.
pub fn exact_prediction(file: &ExactFile, tokens: &[u32], answers: &[(usize, Answer)]) -> Value {
    let next = answers.iter().map(|(p, answer)| {
        json!({
            "position": p,
            "label": answer.label(),
            "text": answer.label().map(|y| file.label_text(y)),
            "token": answer.label().and_then(|y| file.labels.token(y)),
            "answer": match answer {
                Answer::Label(_) => "label",
                Answer::Nonsense(_) => "nonsense",
                Answer::UnknownLength => "unknown length",
            },
        })
    });
    let texts: Vec<String> = tokens.iter().map(|&t| file.vocabulary.text(t)).collect();
    json!({"tokens": tokens, "texts": texts, "next": next.collect::<Vec<Value>>()})
}
