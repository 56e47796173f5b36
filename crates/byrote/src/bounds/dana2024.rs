//! One layer of attention with nothing after it: how many contexts its heads can distinguish.
//!
//! The logits are W_U (x_S + sum over heads of W_O W_V A), where x_S embeds the last token with its position
//! and A is the attended average. So every context becomes a vector of H d_h numbers from the heads and d
//! from the skip connection, and as many contexts as those vectors have rank can each be given any point of R^d.
//!
//! * Theorem 1, sufficient: T_eps <= H d_h + d contexts are brought as close to the truth as the best map of
//!   rank d allows, up to C eps |WE| for an unknown C; exactly for eps = 0. The model has
//!   d (S + 2 omega + 4 d_h H) parameters. Below d = omega - 1 that is not the floor, so this does not
//!   contradict Lemma 1 of madden2024.
//! * Corollary 1 (row `dana2024-d2`), sufficient: width d = 2 holds H d_h + 2 associations; by Theorem 1 and
//!   Proposition 3 any d >= 2 holds H d_h + d.
//! * Corollary 2, an average: accuracy 1/omega + (1 - 1/omega) (H d_h + d) / T_0.
//! * Propositions 1 to 3 and Theorem 2 are in [`dana2024_encoder`](super::dana2024_encoder).
//! * Theorem 3, sufficient up to a constant: without full support, Theorem 1 with an error O(eps log 1/eps).
//! * Section 4.2 and Appendix B, empirical: growth as H d_h^2 for d_h <= d, as d^3 H for d_h = d, and about
//!   1.7 H d_h at d = 2.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | omega, S, d, d_h, H | N, S, d, d_h, H | tokens, length, widths, heads |
//! | T_eps, T_0 = n | T_eps, T_0 | contexts that carry at least 1 - eps of the predictions, all contexts |
//!
//! The paper defines T_eps with "greater than 1 - eps". We use "at least", which agrees with its own T_0 (no set of
//! contexts has a probability greater than 1) and differs only where a sum of counts hits 1 - eps exactly.
//!
//! Hypotheses. Attention alone (checked). All contexts of one length S >= 2 (checked; E7: a softmax over one
//! token is constant). d_h <= d is not required: a wider head counts as d. Contexts in general position: *not
//! checked*, so every capacity here is conditional (E11) and its row says "if in general position"; only the
//! rank that a builder finds decides. Corollary 2: contexts equally frequent (assumed).
//!
//! Full support (Assumption 2) is required for Theorem 1 only below d = omega - 1, where the best encoder does not
//! reach the floor. From there on it costs nothing: smoothed by any delta > 0 the distributions have it, the encoder
//! loses nothing, and delta may go to 0, so the loss gets arbitrarily close to the floor. A single next token per
//! context (Assumption 1) is not a hypothesis of the associations here: where a corpus contradicts itself, the label
//! is the most frequent next token, ties going to the smallest token id, and the row says so.
//!
//! Below d = omega - 1 Theorem 1 promises less than the distributions themselves, so its row then has a figure
//! instead of a number of contexts.
//!
//! Changed. The skip connection adds only min(d, distinct last tokens) (E4) and a head only min(d_h, d) (E5), so the
//! count used here is H min(d_h, d) + min(d, distinct last tokens). Even that is too much on structured sets (E11):
//! for all S-grams over b tokens a head adds min(d_h, d, b + S - 2), which is used where the corpus consists of all
//! S-grams of its vocabulary, and in Corollary 2 for a shape alone, which is about all of them. Corollary 2 is an
//! average over labels, not a bound (E8). Constants are explicit except for eps > 0 and for Theorem 3.
//!
//! Reference: L. Dana, M. S. Pydi, Y. Chevaleyre, arXiv:2411.10115 (version not marked; AISTATS 2025): eqs. (3),
//! (4), (17).

use super::row::{
    Bound, BoundKind, Findings, Judgement, Measured, MemorizationTask, Order, Side, counted, joined,
};
use super::situation::{CorpusFacts, Situation};
use crate::bibliography::DANA2024;
use crate::model::Shape;

/// The condition of every capacity: only the rank found by a builder decides.
const GENERAL_POSITION: &str = "if in general position";

const NEEDS: &str = "a shape of attention alone, or a corpus whose contexts have one length";

/// Theorem 1 at eps = 0.
pub static THEOREM1: Bound = Bound {
    key: "dana2024-theorem1",
    name: "heads and skip connection, distributions",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "n >= H min(d_h, d) + min(d, last tokens), k = d (S + 2 omega + 4 d_h H)",
    statement: "Attention alone brings this many contexts in general position as close to their distributions as \
                rank d_model allows, and arbitrarily close from d_model = omega - 1 on.",
    needs: NEEDS,
    paper: &DANA2024,
    place: "Theorem 1 with E4, E5, E7, E11",
    judge: |s| {
        let shape = s.attention_only_shape()?;
        let Some(narrow) = shape.filter(|shape| shape.d_model < full_width(shape.d_vocab)) else {
            return judge_capacity(s, shape, s.contexts(), full_width);
        };
        s.corpus.as_ref().map_or(Ok(()), CorpusFacts::full_support)?;
        let (d, full) = (narrow.d_model, full_width(narrow.d_vocab));
        let wide = Shape { d_model: full, ..*narrow };
        let found = judge_capacity(s, Some(&wide), s.contexts(), full_width)?;
        Ok(Findings {
            contexts: None,
            shape_parameters: s.shape_parameters(),
            figure: Some(Measured {
                name: "contexts held as closely as rank d_model allows",
                side: None,
                unit: "",
                quantity: held(s, narrow).into(),
            }),
            note: Some(format!("reaches the floor only if d_model is at least {full} (it is {d})")),
            ..found
        })
    },
};

/// Corollary 1.
pub static D2: Bound = Bound {
    key: "dana2024-d2",
    name: "heads and skip connection, associations",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "n >= H min(d_h, d) + min(d, last tokens), k = d (S + 2 omega + 4 d_h H), d >= 2",
    statement: "Attention alone, from width two on, gives this many contexts in general position their next \
                token; width two needs the fewest parameters.",
    needs: NEEDS,
    paper: &DANA2024,
    place: "Corollary 1 with E4, E5, E7, E11",
    judge: |s| {
        let shape = s.attention_only_shape()?;
        if shape.is_some_and(|shape| shape.d_model < 2) {
            return Err("d_model must be at least 2".into());
        }
        let found = judge_capacity(s, shape, s.contexts(), |_| 2)?;
        Ok(Findings {
            note: joined(found.note, s.corpus.as_ref().and_then(CorpusFacts::labels_kept)),
            ..found
        })
    },
};

/// Corollary 2.
pub static COROLLARY2: Bound = Bound {
    key: "dana2024-corollary2",
    name: "accuracy, with the rest at chance",
    task: MemorizationTask::Association,
    kind: BoundKind::Estimate,
    order: Order::Exact,
    expression: "1/omega + (1 - 1/omega) min(1, (H min(d_h, d) + min(d, last tokens)) / n)",
    statement: "The accuracy, averaged over labels, when as many contexts as fit are held and the rest are right by \
                chance; a particular solution may do worse.",
    needs: "a shape of attention alone",
    paper: &DANA2024,
    place: "Corollary 2 with E8",
    judge: |s| {
        let shape = s.attention_only_shape()?;
        s.one_length_above_one()?;
        let all = |shape: &Shape| {
            let Shape { d_model, d_head, n_heads, d_vocab, n_ctx, .. } = *shape;
            let held = capacity_on_all_sequences(d_model, d_head, n_heads, d_vocab, n_ctx);
            (held, sequences(d_vocab, n_ctx))
        };
        let held_of = |shape| s.contexts().map_or(all(shape), |n| (held(s, shape), n.into()));
        Ok(Findings {
            shape_parameters: s.shape_parameters(),
            figure: shape
                .and_then(|shape| {
                    let (held, contexts) = held_of(shape);
                    accuracy(held, contexts, shape.d_vocab)
                })
                .map(|accuracy| Measured {
                    name: "accuracy",
                    side: Some(Side::About),
                    unit: "",
                    quantity: accuracy.into(),
                }),
            condition: Some(GENERAL_POSITION),
            note: match &s.corpus {
                Some(corpus) => corpus.labels_kept(),
                None => Some("over all sequences of n_ctx tokens (E11)".into()),
            },
            ..Findings::default()
        })
    },
};

/// Theorem 3.
pub static THEOREM3: Bound = Bound {
    key: "dana2024-theorem3",
    name: "heads and skip connection, without full support",
    task: MemorizationTask::Distribution,
    kind: BoundKind::Sufficient,
    order: Order::UpToConstant,
    expression: "T_eps <= H min(d_h, d) + min(d, last tokens), error O(eps log 1/eps)",
    statement: "Where some tokens never follow, attention alone that holds the T_eps most frequent contexts \
                is off by at most an unknown constant times eps log 1/eps.",
    needs: NEEDS,
    paper: &DANA2024,
    place: "Theorem 3, eq. (17)",
    judge: |s| {
        let shape = s.attention_only_shape()?;
        let coverage = s.corpus.iter().flat_map(|corpus| &corpus.coverage).filter(|c| c.epsilon > 0.0);
        let finest = coverage.min_by(|a, b| a.epsilon.total_cmp(&b.epsilon));
        let mut found = judge_capacity(s, shape, finest.map(|c| c.contexts), |_| Shape::default().d_model)?;
        if let (Some(finest), Some(note)) = (finest, &mut found.note) {
            note.push_str(&format!(", eps {}", finest.epsilon));
        }
        Ok(found)
    },
};

/// Section 4.2 and Appendix B.
pub static EMPIRICAL: Bound = Bound {
    key: "dana2024-empirical",
    name: "attention alone, trained",
    task: MemorizationTask::Association,
    kind: BoundKind::Empirical,
    order: Order::UpToConstant,
    expression: "1.7 H d_h at d = 2; c H d_h^2 for d_h < d; c d^3 H for d_h = d",
    statement: "Trained on random bigrams, attention alone held more than is proved: its accuracy grew linearly \
                in H, quadratically in d_h and, where d_h = d, cubically in d.",
    needs: "a shape of attention alone",
    paper: &DANA2024,
    place: "section 4.2, Appendix B",
    judge: |s| {
        let Some(shape) = s.attention_only_shape()? else { return Ok(Findings::default()) };
        if shape.d_head > shape.d_model && shape.d_model != 2 {
            return Err(format!("measured only for d_head <= d_model = {}", shape.d_model));
        }
        if let Some(length) = s.one_length_above_one()?.filter(|&length| length != 2) {
            return Err(format!("measured only on contexts of two tokens; these have {length}"));
        }
        Ok(Findings {
            contexts: Some(empirical(shape).into()),
            shape_parameters: s.shape_parameters(),
            ..Findings::default()
        })
    },
};

/// The width from which the output matrix is not a bottleneck (Proposition 2): omega - 1, at least 1.
pub fn full_width(omega: u64) -> u64 {
    omega.saturating_sub(1).max(1)
}

/// H min(d_h, d) + min(d, distinct last tokens): how many contexts of one length can have independent
/// features.
pub fn capacity(d_model: u64, d_head: u64, n_heads: u64, distinct_last: u64) -> u128 {
    u128::from(n_heads) * u128::from(d_head.min(d_model)) + u128::from(d_model.min(distinct_last))
}

/// The same where the contexts are all sequences of `length` over `tokens` tokens: the heads see only
/// differences between positions, which span `tokens` + `length` - 2 dimensions (E11).
pub fn capacity_on_all_sequences(d_model: u64, d_head: u64, n_heads: u64, tokens: u64, length: u64) -> u128 {
    capacity(d_model, d_head.min(span(tokens, length)), n_heads, tokens)
}

fn span(tokens: u64, length: u64) -> u64 {
    tokens.saturating_add(length).saturating_sub(2)
}

/// `like` with as many heads, at least one, as `n` contexts need.
pub fn sized(n: u64, distinct_last: u64, like: &Shape) -> Shape {
    let per_head = like.d_head.min(like.d_model).max(1);
    let by_heads = n.saturating_sub(like.d_model.min(distinct_last));
    Shape { n_heads: by_heads.div_ceil(per_head).max(1), d_mlp: 0, ..*like }
}

/// Corollary 2: the mean accuracy when `held` of `contexts` are memorized and the others guessed.
pub fn accuracy(held: u128, contexts: u128, omega: u64) -> Option<f64> {
    let chance = 1.0 / omega as f64;
    (contexts > 0 && omega > 0).then(|| chance + (1.0 - chance) * held.min(contexts) as f64 / contexts as f64)
}

fn empirical(shape: &Shape) -> f64 {
    let [d, d_h, heads] = [shape.d_model, shape.d_head, shape.n_heads].map(|x| x as f64);
    if shape.d_model == 2 {
        1.7 * heads * d_h
    } else if shape.d_head == shape.d_model {
        d * d * d * heads
    } else {
        heads * d_h * d_h
    }
}

/// omega^S.
fn sequences(omega: u64, length: u64) -> u128 {
    u128::from(omega).saturating_pow(u32::try_from(length).unwrap_or(u32::MAX))
}

fn all_sequences(corpus: &CorpusFacts) -> bool {
    u128::from(corpus.contexts) == sequences(corpus.d_vocab, corpus.longest_context())
}

/// The capacity of a shape on the corpus, or on any contexts its vocabulary allows.
fn held(s: &Situation, shape: &Shape) -> u128 {
    let Shape { d_model, d_head, n_heads, d_vocab, .. } = *shape;
    match &s.corpus {
        Some(corpus) if all_sequences(corpus) => {
            capacity_on_all_sequences(d_model, d_head, n_heads, corpus.d_vocab, corpus.longest_context())
        }
        Some(corpus) => capacity(d_model, d_head, n_heads, corpus.distinct_last_tokens),
        None => capacity(d_model, d_head, n_heads, d_vocab),
    }
}

/// `like` with as many heads as `n` contexts of this corpus need, given how much a head adds on it.
pub(super) fn sized_for(corpus: &CorpusFacts, n: u64, like: &Shape) -> Shape {
    let span = if all_sequences(corpus) { span(corpus.d_vocab, corpus.longest_context()) } else { u64::MAX };
    let effective = Shape { d_head: like.d_head.min(span), ..*like };
    Shape { d_head: like.d_head, ..sized(n, corpus.distinct_last_tokens, &effective) }
}

/// The representative of the family at this width: heads as wide as the model, sized for the corpus.
pub(super) fn square(corpus: &CorpusFacts, d: u64) -> Shape {
    Shape {
        d_vocab: corpus.d_vocab,
        n_ctx: corpus.longest_context(),
        d_model: d,
        d_head: d,
        d_mlp: 0,
        ..Shape::default()
    }
}

/// Theorem 1 and its relatives for `n` contexts; without a shape, `width` gives the width for a vocabulary.
fn judge_capacity(s: &Situation, shape: Option<&Shape>, n: Option<u64>, width: fn(u64) -> u64) -> Judgement {
    s.one_length_above_one()?;
    let sized = s.corpus.as_ref().zip(n).map(|(corpus, n)| {
        let like = shape.copied().unwrap_or_else(|| square(corpus, width(corpus.d_vocab)));
        sized_for(corpus, n, &like)
    });
    Ok(Findings {
        contexts: shape.map(|shape| held(s, shape).into()),
        shape_parameters: shape.and(s.shape_parameters()),
        required_parameters: sized.map(|sized| sized.parameters().total().into()),
        condition: Some(GENERAL_POSITION),
        note: sized
            .map(|m| format!("with d_model {}, {} of {}", m.d_model, counted(m.n_heads, "head"), m.d_head)),
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::situation::examples::*;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn capacity_counts_the_rank_of_heads_and_skip() {
        assert_eq!(capacity(10, 10, 20, 50), 210); // 20 * 10 + 10
        assert_eq!(capacity(16, 16, 64, 50), 1040); // 64 * 16 + 16
        // E4, (d, d_h, H) = (10, 4, 10): 40 from the heads, one more for each distinct last token up to 10.
        assert_eq!([1, 3, 9, 10, 11].map(|last| capacity(10, 4, 10, last)), [41, 43, 49, 50, 50]);
        // E5: a head wider than the model is as wide as the model; 19 * 2 + 2 and 10 * 4 + 4.
        assert_eq!((capacity(2, 5, 19, 50), capacity(4, 6, 10, 50)), (40, 44));
        // E11: all pairs over 3 tokens, d = d_h = 8, H = 2: a head adds 3 + 2 - 2 = 3, the skip 3.
        assert_eq!(capacity_on_all_sequences(8, 8, 2, 3, 2), 9);
    }

    #[test]
    fn theorem_1_holds_210_contexts_at_10_10_20() {
        let row = THEOREM1.evaluate(&of_shape(attention_only(10, 10, 20)));
        assert_eq!((row.contexts, row.figure.unwrap().value.count()), (None, Some(210)));
        assert_eq!(row.shape_parameters.unwrap().count(), Some(9020)); // 10 (2 + 100 + 4 * 200)
        assert_eq!(row.note.unwrap(), "reaches the floor only if d_model is at least 49 (it is 10)");
        assert_eq!(row.condition, Some("if in general position"));
        let wide = THEOREM1.evaluate(&of_shape(attention_only(49, 10, 20)));
        assert_eq!(wide.contexts.unwrap().count(), Some(249)); // 20 * 10 + 49
    }

    #[test]
    fn theorem_1_sizes_the_heads_for_a_corpus() {
        // 300 bigrams. Width 49, heads of 10: ceil(251 / 10) = 26 heads, 49 (102 + 4 * 260) = 55,958.
        // d = d_h = omega - 1 = 49: ceil(251 / 49) = 6 heads, 49 (102 + 4 * 6 * 49) = 62,622.
        let corpus = CorpusFacts { full_support_contexts: 300, ..bigrams(300) };
        let row = THEOREM1.evaluate(&both(corpus.clone(), attention_only(10, 10, 20)));
        assert_eq!(row.required_parameters.unwrap().count(), Some(55_958));
        assert_eq!((row.contexts, row.figure.unwrap().value.count()), (None, Some(210)));
        let alone = THEOREM1.evaluate(&of_corpus(bigrams(300)));
        assert_eq!(alone.required_parameters.unwrap().count(), Some(62_622));
    }

    #[test]
    fn every_hypothesis_can_fail_with_its_reason() {
        let why = |bound: &'static Bound, s: Situation| bound.evaluate(&s).why_not.unwrap();
        assert!(why(&THEOREM1, both(bigrams(300), attention_only(10, 9, 8))).contains("300 lack some"));
        assert!(THEOREM1.evaluate(&both(bigrams(300), attention_only(49, 9, 8))).applies());
        assert!(why(&THEOREM3, of_corpus(stories())).contains("1 to 9"));
        let contradictory = CorpusFacts { deterministic_contexts: 299, ..bigrams(300) };
        let note = D2.evaluate(&of_corpus(contradictory)).note.unwrap();
        assert!(note.ends_with("1 contradictory context keeps its most frequent next token"), "{note}");
        let long = Shape { n_ctx: 3, ..attention_only(4, 4, 10) };
        assert!(why(&EMPIRICAL, of_shape(long)).contains("two tokens; these have 3"));
        assert!(why(&D2, of_shape(attention_only(1, 1, 1))).contains("at least 2"));
        assert!(why(&THEOREM1, of_shape(Shape::default())).contains("hidden layer"));
        assert!(
            why(&THEOREM1, of_shape(Shape { n_ctx: 1, ..attention_only(4, 4, 4) })).contains("they have 1")
        );
        assert!(
            why(&EMPIRICAL, of_shape(attention_only(4, 6, 10))).contains("only for d_head <= d_model = 4")
        );
        let longer = CorpusFacts { by_length: vec![], n_ctx: 3, ..bigrams(9) };
        assert!(why(&D2, both(longer, attention_only(2, 2, 9))).contains("contexts of 3 tokens"));
    }

    #[test]
    fn width_two_holds_the_associations_of_corollary_1() {
        // n = 102, S = 2, omega = 50: 50 heads of 2; 2 (2 + 100 + 4 * 100) = 1,004.
        let row = D2.evaluate(&both(bigrams(102), attention_only(2, 2, 50)));
        assert_eq!(row.contexts.unwrap().count(), Some(102));
        assert_eq!(row.shape_parameters.unwrap().count(), Some(1004));
        assert_eq!(row.required_parameters.unwrap().count(), Some(1004));
    }

    #[test]
    fn corollary_2_gives_the_published_accuracies() {
        // omega = 50, T_0 = 2500: 0.02 + 0.98 * 210 / 2500 = 0.10232; 0.02 + 0.98 * 1040 / 2500 = 0.42768.
        for (d, heads, expected) in [(10, 20, 0.10232), (16, 64, 0.42768)] {
            let shape = attention_only(d, d, heads);
            for situation in [of_shape(shape), both(bigrams(2500), shape)] {
                let figure = COROLLARY2.evaluate(&situation).figure.unwrap();
                assert!((figure.value.number().unwrap() - expected).abs() < 1e-12);
            }
        }
        // Three tokens, d = d_h = 8, H = 1: the 9 pairs have rank 3 + 3, not 8 + 3 (E11); 1/3 + 2/3 * 6/9.
        let few = Shape { d_vocab: 3, ..attention_only(8, 8, 1) };
        let figure = COROLLARY2.evaluate(&of_shape(few)).figure.unwrap();
        assert!((figure.value.number().unwrap() - 7.0 / 9.0).abs() < 1e-12);
        assert_eq!(accuracy(9, 3, 7), Some(1.0));
        assert_eq!((accuracy(0, 0, 50), accuracy(0, 5, 0)), (None, None));
    }

    #[test]
    fn theorem_3_and_the_experiments_are_orders_only() {
        let row = THEOREM3.evaluate(&both(bigrams(300), attention_only(10, 10, 20)));
        assert_eq!((row.contexts.unwrap().number(), row.contexts.unwrap().order_of()), (None, Some(210.0)));
        // T_0.1 = 270: 26 heads, 10 (102 + 4 * 260) = 11,420.
        assert_eq!(row.required_parameters.unwrap().order_of(), Some(11_420.0));
        assert!(row.note.unwrap().ends_with("eps 0.1"));
        let held = |d, d_h, heads| EMPIRICAL.evaluate(&of_shape(attention_only(d, d_h, heads))).contexts;
        assert_eq!(held(2, 5, 20).unwrap().order_of(), Some(170.0)); // 1.7 * 20 * 5
        assert_eq!(held(10, 4, 20).unwrap().order_of(), Some(320.0)); // 20 * 16
        assert_eq!(held(10, 10, 20).unwrap().order_of(), Some(20_000.0)); // 1000 * 20
    }

    proptest! {
        #[test]
        fn capacity_never_falls_in_any_size_and_sizing_reaches_it(
            d in 1u64..500, d_h in 1u64..500, heads in 1u64..500, last in 1u64..500, n in 1u64..100_000,
        ) {
            let c = capacity(d, d_h, heads, last);
            prop_assert!(capacity(d + 1, d_h, heads, last) >= c && capacity(d, d_h + 1, heads, last) >= c);
            prop_assert!(capacity(d, d_h, heads + 1, last) > c && capacity(d, d_h, heads, last + 1) >= c);
            let shape = sized(n, last, &attention_only(d, d_h, heads));
            prop_assert!(capacity(d, d_h, shape.n_heads, last) >= n.into());
            prop_assert!(shape.n_heads == 1 || capacity(d, d_h, shape.n_heads - 1, last) < n.into());
        }

        #[test]
        fn formulas_take_any_number([a, b, c, d] in prop::array::uniform4(any_size())) {
            capacity(a, b, c, d);
            capacity_on_all_sequences(a, b, c, d, a);
            prop_assert!(sized(a, b, &attention_only(c, d, a)).n_heads >= 1);
        }
    }
}
