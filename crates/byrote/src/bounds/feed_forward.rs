//! What the bounds for feed-forward networks share: they are about points of R^d, not about contexts.
//!
//! To use such a network on text, something must first turn every context into a point, as the mixer of a
//! transformer does. None of these papers counts the parameters of that map, so each of these rows carries the
//! condition that the points are already given. A shape of a transformer gets no number from them.

use super::row::{Findings, Judgement, Quantity, counted};
use super::situation::Situation;

/// The condition of a theorem about points in general position.
pub(super) const IN_GENERAL_POSITION: &str =
    "if the contexts are already points in general position (mapping them to points is not counted)";

/// The condition of a theorem about points that keep a distance from each other.
pub(super) const SEPARATED: &str =
    "if the contexts are already well-separated points (mapping them to points is not counted)";

/// The inputs that give a theorem with explicit sizes a number.
pub(super) const NEEDS_CORPUS: &str = "a corpus (it is about points, not about a transformer)";

/// The inputs that give a theorem about the number of parameters alone a number.
pub(super) const NEEDS_SIZE: &str = "a corpus, or a parameter count";

/// The dimension of the points: the width of the shape, or the program's default.
pub(super) fn dimension(s: &Situation) -> u64 {
    s.shape.unwrap_or_default().d_model
}

/// A two-layer network with this many neurons and this many parameters, for points of the situation's dimension.
pub(super) fn two_layers(s: &Situation, neurons: Option<u64>, parameters: fn(u64, u64) -> u128) -> Findings {
    let d = dimension(s);
    Findings {
        required_parameters: neurons.map(|h| parameters(h, d).into()),
        condition: neurons.map(|_| IN_GENERAL_POSITION),
        note: neurons.map(|h| format!("{} on points of dimension {d}", counted(h, "neuron"))),
        ..Findings::default()
    }
}

/// An order of growth: the parameters that n points take, and the points that k parameters label.
pub(super) fn order(
    s: &Situation,
    condition: &'static str,
    parameters: fn(f64) -> f64,
    points: fn(f64) -> f64,
) -> Judgement {
    Ok(Findings {
        contexts: s.parameters.map(|k| Quantity::Real(points(k as f64))),
        required_parameters: s.contexts().map(|n| Quantity::Real(parameters(n as f64))),
        condition: Some(condition),
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::super::{BoundKind, CorpusFacts, Situation, evaluate};

    #[test]
    fn no_network_on_points_is_said_to_suffice_without_its_condition() {
        let keys = [
            "baum1988",
            "bubeck2020",
            "madden2023",
            "yun2019",
            "vershynin2020",
            "park2021",
            "vardi2022",
            "sontag1997",
        ];
        let corpus = of_corpus(CorpusFacts { labels: 2, ..bigrams(1000) });
        let size = Situation { parameters: Some(1000), ..Situation::default() };
        for situation in [corpus, size] {
            let rows = evaluate(&situation);
            for key in keys {
                let row = rows.iter().find(|row| row.bound.key == key).unwrap();
                let words =
                    if row.bound.kind == BoundKind::Necessary { "must label" } else { "is not counted" };
                assert!(!row.applies() || row.condition.unwrap().contains(words), "{key}");
            }
        }
    }
}
