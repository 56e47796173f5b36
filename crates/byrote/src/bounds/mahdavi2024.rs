//! Attention alone, counted by the attention patterns of its heads: about H times the context length.
//!
//! Theorem 1, sufficient: H heads memorize H (r - 1) + 1 examples, r = min(S, d_h). In words: a head that can
//! choose freely among r tokens settles r - 1 examples, and the output matrix adds one more.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | S | n | context length |
//! | d, d_h, H | d, d_h, H | widths, heads |
//! | n | T | examples |
//!
//! Hypotheses. Attention alone (checked). One context length S <= d (checked), so that the tokens of a
//! context can be linearly independent (its Assumption 2, assumed of the embedding). Any S queries are linearly
//! independent (its Assumption 1): here the query is the embedded last token, so two contexts with the same last
//! token violate it (checked through the number of distinct last tokens; for a shape alone the row carries it as a
//! condition). A context with several next tokens counts with its most frequent one, and the row says so.
//! Constants are explicit.
//!
//! Changed: nothing. dana2024 quotes this bound as H (d_h - 1) + 1, which presupposes S >= d_h, and with the rank of
//! the queries in place of S. Parameters are counted as in dana2024, so that the two can be compared:
//! d (S + 2 omega + 4 d_h H). The paper gives its examples real output vectors; here an output is a code for the
//! next token, so width two is enough for the output.
//!
//! Reference: S. Mahdavi, R. Liao, C. Thrampoulidis, arXiv:2306.02010v3 (ICLR 2024), Theorem 1, Assumptions 1
//! and 2.

use super::row::{Bound, BoundKind, Findings, Judgement, MemorizationTask, Order, grouped, joined};
use super::situation::{CorpusFacts, Situation};
use crate::bibliography::MAHDAVI2024;
use crate::model::Shape;

/// Theorem 1.
pub static THEOREM1: Bound = Bound {
    key: "mahdavi2024",
    name: "heads times context length",
    task: MemorizationTask::Association,
    kind: BoundKind::Sufficient,
    order: Order::Exact,
    expression: "n >= H (min(S, d_h) - 1) + 1, k = d (S + 2 omega + 4 d_h H)",
    statement: "Attention alone over contexts no longer than d_model holds H (r - 1) + 1 associations, where r is \
                the smaller of context length and head width.",
    needs: "a shape of attention alone, or a corpus whose contexts have one length",
    paper: &MAHDAVI2024,
    place: "Theorem 1",
    judge,
};

/// H (min(S, d_h) - 1) + 1.
pub fn capacity(n_heads: u64, d_head: u64, length: u64) -> u128 {
    u128::from(n_heads) * u128::from(d_head.min(length).saturating_sub(1)) + 1
}

/// `like` with as many heads, at least one, as `n` contexts of `length` need; `None` where heads add nothing.
pub fn sized(n: u64, length: u64, like: &Shape) -> Option<Shape> {
    let per_head = like.d_head.min(length).saturating_sub(1);
    (per_head > 0).then(|| Shape {
        n_heads: n.saturating_sub(1).div_ceil(per_head).max(1),
        d_mlp: 0,
        ..*like
    })
}

/// The narrowest shape the theorem allows, one head: width and head as long as the context.
pub fn narrowest(omega: u64, length: u64) -> Shape {
    Shape {
        d_vocab: omega,
        n_ctx: length,
        d_model: length,
        d_head: length,
        n_heads: 1,
        d_mlp: 0,
        ..Shape::default()
    }
}

fn judge(s: &Situation) -> Judgement {
    let shape = s.attention_only_shape()?;
    let length = s.one_length_above_one()?;
    if let Some((shape, length)) = shape.zip(length).filter(|(shape, length)| *length > shape.d_model) {
        return Err(format!(
            "contexts must not be longer than d_model {}, but they have {length} tokens",
            shape.d_model
        ));
    }
    if let Some(corpus) = s.corpus.as_ref().filter(|corpus| corpus.distinct_last_tokens < corpus.contexts) {
        let (last, all) = (grouped(corpus.distinct_last_tokens), grouped(corpus.contexts));
        return Err(format!(
            "queries must differ, but {all} contexts end in only {last} different tokens (Assumption 1)"
        ));
    }
    let sized = s.corpus.as_ref().zip(length).and_then(|(corpus, length)| {
        let like = shape.copied().unwrap_or_else(|| narrowest(corpus.d_vocab, length));
        sized(corpus.contexts, length, &like)
    });
    Ok(Findings {
        contexts: shape.zip(length).map(|(m, length)| capacity(m.n_heads, m.d_head, length).into()),
        shape_parameters: shape.and(s.shape_parameters()),
        required_parameters: sized.map(|sized| sized.parameters().total().into()),
        condition: s.corpus.is_none().then_some("if no two contexts have the same last token"),
        note: {
            let quoted = shape.copied().or(sized).map(|model| {
                let quoted = capacity(model.n_heads, model.d_head, u64::MAX);
                format!("dana2024 quotes H (d_h - 1) + 1 = {}", grouped(quoted))
            });
            joined(quoted, s.corpus.as_ref().and_then(CorpusFacts::labels_kept))
        },
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::LengthFacts;
    use super::super::situation::examples::*;
    use super::*;

    #[test]
    fn a_head_settles_one_example_less_than_its_rank() {
        assert_eq!(capacity(20, 10, 2), 21); // bigrams: 20 * 1 + 1, not 20 * 9 + 1 = 181
        assert_eq!(capacity(20, 10, 50), 181);
        assert_eq!(capacity(3, 1, 50), 1);
        assert_eq!(capacity(u64::MAX, u64::MAX, 0), 1);
    }

    #[test]
    fn the_row_shows_both_readings() {
        let row = THEOREM1.evaluate(&of_shape(attention_only(10, 10, 20)));
        assert_eq!(row.contexts.unwrap().count(), Some(21));
        assert_eq!(row.note.unwrap(), "dana2024 quotes H (d_h - 1) + 1 = 181");
        assert_eq!(row.condition, Some("if no two contexts have the same last token"));
    }

    #[test]
    fn contexts_longer_than_the_model_or_with_equal_last_tokens_are_refused() {
        let long = Shape { n_ctx: 11, ..attention_only(10, 10, 20) };
        assert!(THEOREM1.evaluate(&of_shape(long)).why_not.unwrap().contains("d_model 10, but they have 11"));
        assert!(
            THEOREM1
                .evaluate(&of_corpus(bigrams(60)))
                .why_not
                .unwrap()
                .contains("60 contexts end in only 50")
        );
    }

    #[test]
    fn a_corpus_with_distinct_queries_is_sized() {
        // 41 contexts of 5 tokens over 50: heads of rank 5 settle 4 each, 10 heads; d = 5:
        // 5 (5 + 100 + 4 * 5 * 10) = 1,525.
        let by_length = vec![LengthFacts { length: 5, contexts: 41 }];
        let row = THEOREM1.evaluate(&of_corpus(CorpusFacts { by_length, ..bigrams(41) }));
        assert_eq!(row.required_parameters.unwrap().count(), Some(1525));
        assert_eq!(
            (row.condition, row.note.unwrap().as_str()),
            (None, "dana2024 quotes H (d_h - 1) + 1 = 41")
        );
        assert_eq!(sized(41, 1, &narrowest(50, 1)), None);
    }
}
