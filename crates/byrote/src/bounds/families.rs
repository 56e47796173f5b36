//! For a corpus, the smallest model of each family that is known to hold it.
//!
//! A family is a kind of model with a recipe for its size. Its guarantee is *proved* for this corpus, *conditional*
//! on something that only a computation decides, or *unproved*, with the hypothesis that fails.
//!
//! | key | task | size for n contexts | rests on |
//! |---|---|---|---|
//! | `lookup` | distribution | n (omega - 1) numbers | nothing: a table |
//! | `madden2024-attention` | distribution | d = H = d_h = 1, m = n | Theorem 5 |
//! | `madden2024-attention-16` | distribution | d = 16, four heads of 4, m = n | Theorem 5 |
//! | `madden2024-average` | distribution | d = 1, m = n | Theorem 7 |
//! | `dana2024` | distribution | d = d_h = omega - 1, H = ceil((n - min(d, last)) / d) | Theorem 1, Prop. 2 |
//! | `lookup-labels` | association | n labels | nothing: a table |
//! | `dana2024-d2` | association | d = d_h = 2, H = ceil((n - min(2, last)) / 2) | Corollary 1 |
//! | `mahdavi2024` | association | d = d_h = S, H = ceil((n - 1) / (S - 1)) | Theorem 1 |
//! | `kajitsuka2024` | association | about sqrt n, in exact arithmetic | our construction |
//!
//! To hold a distribution means that the loss gets arbitrarily close to the floor. An association family stores one
//! label per context; where a corpus contradicts itself, that is the most frequent next token, ties going to the
//! smallest token id. Whether a theorem applies is not decided here: each family asks the row of its bound, so the
//! two cannot disagree. A corpus without contexts has no families, since there is nothing to store.

use super::row::{Bound, MemorizationTask, joined};
use super::situation::{CorpusFacts, Situation};
use super::{dana2024, kajitsuka2024, madden2024, mahdavi2024};
use crate::model::shape::serialize_count;
use crate::model::{Counting, Mixer, ParameterCount, Shape};
use serde::Serialize;

/// Whether a model of that size is known to hold the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// A theorem says so, and its hypotheses hold.
    Proved,
    /// It holds if the contexts are in general position, which the builder checks.
    Conditional,
    /// A hypothesis fails.
    Unproved,
}

/// The smallest model of one kind for a corpus.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Family {
    /// The name of the family.
    pub key: &'static str,
    /// A few words for a table.
    pub name: &'static str,
    /// What it stores.
    pub task: MemorizationTask,
    /// Its dimensions, where it is one of the one-layer models.
    pub shape: Option<Shape>,
    /// Its parameters, embedding included: all entries of all matrices (the dense count).
    #[serde(serialize_with = "serialize_count")]
    pub parameters: u128,
    /// Both counts, if the paper counts only weights that are not zero.
    pub counts: Option<ParameterCount>,
    /// Whether it is known to hold the corpus.
    pub guarantee: Guarantee,
    /// The condition, or the hypothesis that fails.
    pub reason: Option<String>,
    /// What a user should know before choosing it.
    pub note: Option<String>,
}

/// The smallest model of every family, distributions before associations.
pub fn smallest(corpus: &CorpusFacts) -> Vec<Family> {
    let &CorpusFacts { contexts: n, d_vocab: omega, .. } = corpus;
    if n == 0 {
        return Vec::new();
    }
    let length = corpus.longest_context();
    let alone = Situation { corpus: Some(corpus.clone()), ..Situation::default() };
    let by = |bound: &'static Bound| {
        let row = bound.evaluate(&alone);
        match (row.why_not, row.condition) {
            (Some(why_not), _) => (Guarantee::Unproved, Some(why_not)),
            (None, Some(condition)) => {
                (Guarantee::Conditional, Some(format!("{condition} (E11): the builder checks the rank")))
            }
            (None, None) => (Guarantee::Proved, None),
        }
    };
    let square = |d: u64| dana2024::sized_for(corpus, n, &dana2024::square(corpus, d));
    let practical = Shape { d_vocab: omega, n_ctx: length, d_mlp: n, ..Shape::default() };
    let narrowest = mahdavi2024::narrowest(omega, length);
    let proved = (Guarantee::Proved, None);
    let one_layer = |key, name, task, shape: Shape, known| {
        family(key, name, task, (Some(shape), shape.parameters().total()), known)
    };
    let table = |key, name, task, parameters| Family {
        note: Some("the keys that look up a context are not counted".into()),
        ..family(key, name, task, (None, parameters), proved.clone())
    };

    use MemorizationTask::{Association, Distribution};
    let mut families = vec![
        table("lookup", "a table of distributions", Distribution, madden2024::min_parameters(n, omega)),
        one_layer(
            "madden2024-attention",
            "attention, hidden layer, width 1",
            Distribution,
            madden2024::smallest(Mixer::Attention, n, omega, length),
            by(&madden2024::THEOREM5),
        ),
        one_layer(
            "madden2024-attention-16",
            "attention, hidden layer, width 16",
            Distribution,
            practical,
            by(&madden2024::THEOREM5),
        ),
        one_layer(
            "madden2024-average",
            "averaging, hidden layer, width 1",
            Distribution,
            madden2024::smallest(Mixer::Average, n, omega, length),
            by(&madden2024::THEOREM7),
        ),
        one_layer(
            "dana2024",
            "attention alone, width omega - 1",
            Distribution,
            square(dana2024::full_width(omega)),
            by(&dana2024::THEOREM1),
        ),
        table("lookup-labels", "a table of labels", Association, n.into()),
        one_layer("dana2024-d2", "attention alone, width 2", Association, square(2), by(&dana2024::D2)),
    ];
    if let Some(shape) = mahdavi2024::sized(n, length, &narrowest) {
        let name = "attention alone, as wide as the context";
        families.push(one_layer("mahdavi2024", name, Association, shape, by(&mahdavi2024::THEOREM1)));
    }
    families.push(square_root(corpus, by(&kajitsuka2024::EXACT)));
    for family in families.iter_mut().filter(|family| family.task == Association) {
        family.note = joined(family.note.take(), corpus.labels_kept());
    }
    families
}

/// The square-root construction of kajitsuka2024, with both of its parameter counts.
fn square_root(corpus: &CorpusFacts, known: (Guarantee, Option<String>)) -> Family {
    let &CorpusFacts { contexts: n, d_vocab: omega, .. } = corpus;
    let counts = kajitsuka2024::exact_parameters(n.into(), corpus.labels, omega, corpus.longest_context());
    Family {
        note: Some(format!("{}; {}", kajitsuka2024::EXACT_ONLY, kajitsuka2024::nonzero_note(&counts))),
        counts: Some(counts),
        ..family(
            "kajitsuka2024",
            "square-root construction",
            MemorizationTask::Association,
            (None, counts.total(Counting::Dense)),
            known,
        )
    }
}

fn family(
    key: &'static str,
    name: &'static str,
    task: MemorizationTask,
    (shape, parameters): (Option<Shape>, u128),
    (guarantee, reason): (Guarantee, Option<String>),
) -> Family {
    Family { key, name, task, shape, parameters, counts: None, guarantee, reason, note: None }
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use proptest::prelude::*;

    fn find(families: &[Family], key: &str) -> Family {
        families.iter().find(|family| family.key == key).unwrap().clone()
    }

    #[test]
    fn the_stories_are_held_by_the_hidden_layer_and_the_square_root() {
        let families = smallest(&stories());
        let parameters = |key| find(&families, key).parameters;
        assert_eq!(parameters("lookup"), 2_634_363); // 2637 * 999
        assert_eq!(parameters("madden2024-attention"), 2_643_287);
        assert_eq!(parameters("madden2024-average"), 2_643_283);
        // 2,637,000 + 2637 * 17 + 4 * 16 * 16 + 1009 * 16
        assert_eq!(parameters("madden2024-attention-16"), 2_698_997);
        // n = 2637, C = 900, omega = 1000, T = 9: U = 13,907,547 (24 bits), K = 26, kappa = 24 + 4 + 3 = 31;
        // 900 * 13,907,548 has 34 bits, b = 112, sqrt(24 * 112 * 2637) = 2662.4;
        // 2662 + 104 + 93 + 6 = 2865 non-zero; b = 10 * 35 + 30 = 380, sqrt(68 * 380 * 2637) = 8254.7;
        // 8254 + 570 + 53 = 8877 dense; 1001 + 9 scalars of the embedding, 900 labels.
        let counts = find(&families, "kajitsuka2024").counts.unwrap();
        assert_eq!(
            (counts.nonzero, counts.dense, counts.embedding, counts.label_table),
            (2865, 8877, 1010, 900)
        );
        assert_eq!(parameters("kajitsuka2024"), 10_787);
        for key in ["madden2024-attention", "madden2024-average", "kajitsuka2024", "lookup"] {
            assert_eq!(find(&families, key).guarantee, Guarantee::Proved);
        }
        let dana = find(&families, "dana2024");
        assert_eq!(dana.guarantee, Guarantee::Unproved);
        assert!(dana.reason.unwrap().contains("1 to 9 tokens"));
        assert!(
            find(&families, "kajitsuka2024")
                .note
                .unwrap()
                .ends_with("637 contradictory contexts keep their most frequent next token")
        );
    }

    #[test]
    fn bigrams_are_held_by_attention_alone_if_in_general_position() {
        let families = smallest(&bigrams(300));
        // d = d_h = 49: ceil((300 - 49) / 49) = 6 heads; 49 (2 + 100 + 4 * 49 * 6) = 62,622.
        let dana = find(&families, "dana2024");
        assert_eq!((dana.parameters, dana.guarantee), (62_622, Guarantee::Conditional));
        assert_eq!(dana.shape.map(|shape| (shape.d_model, shape.n_heads)), Some((49, 6)));
        // d = d_h = 2: ceil(298 / 2) = 149 heads; 2 (2 + 100 + 4 * 298) = 2,588.
        assert_eq!(find(&families, "dana2024-d2").parameters, 2_588);
        let mahdavi = find(&families, "mahdavi2024");
        assert!(mahdavi.reason.unwrap().contains("300 contexts end in only 50"));
        assert_eq!(find(&families, "dana2024-d2").note, None);
    }

    #[test]
    fn a_family_costs_and_promises_what_its_row_says() {
        let keys = [
            ("dana2024", &dana2024::THEOREM1),
            ("dana2024-d2", &dana2024::D2),
            ("madden2024-attention", &madden2024::THEOREM5),
            ("kajitsuka2024", &kajitsuka2024::EXACT),
        ];
        // 2,500 bigrams over 50 tokens are all there are, so the heads add less than their width (E11).
        for corpus in [bigrams(300), bigrams(2500), CorpusFacts { deterministic_contexts: 1, ..bigrams(60) }]
        {
            let families = smallest(&corpus);
            for (key, bound) in keys {
                let (family, row) = (find(&families, key), bound.evaluate(&of_corpus(corpus.clone())));
                assert_eq!(row.required_parameters.unwrap().count(), Some(family.parameters), "{key}");
                assert_eq!(row.condition.is_some(), family.guarantee == Guarantee::Conditional, "{key}");
            }
        }
        assert_eq!(smallest(&CorpusFacts { contexts: 0, ..bigrams(1) }), []);
    }

    proptest! {
        #[test]
        fn every_corpus_gets_its_families(corpus in any_corpus()) {
            for family in smallest(&corpus) {
                prop_assert!(serde_json::to_value(&family).is_ok());
                prop_assert!((family.guarantee == Guarantee::Proved) == family.reason.is_none());
            }
        }

        #[test]
        fn no_family_for_distributions_undercuts_a_table(
            n in 1u64..100_000, omega in 2u64..10_000, t in 1u64..50,
        ) {
            let corpus = CorpusFacts { contexts: n, d_vocab: omega, n_ctx: t, ..stories() };
            for family in smallest(&corpus) {
                if family.task == MemorizationTask::Distribution && family.guarantee == Guarantee::Proved {
                    prop_assert!(family.parameters >= madden2024::min_parameters(n, omega), "{}", family.key);
                }
            }
        }
    }
}
