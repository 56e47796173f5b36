//! What follows from scoring positions alone: decoding, and the distributions of contexts. Models that can share work between
//! sequences do these better.

use super::{Context, ContextScore, LanguageModel, PositionScore, Sampling, Sequence};
use crate::Result;
use crate::observe::{Observer, Stage};

/// Contexts or sequences that are scored together.
const TOGETHER: usize = 256;

pub(super) fn decode(
    model: &(impl LanguageModel + ?Sized),
    prefixes: &[&[u32]],
    n: usize,
) -> Result<Vec<Vec<u32>>> {
    let mut texts: Vec<Vec<u32>> = prefixes.iter().map(|prefix| prefix.to_vec()).collect();
    for _ in 0..n {
        // Scoring any token at the next position tells the most likely one.
        texts.iter_mut().for_each(|text| text.push(0));
        let sequences: Vec<Sequence<'_>> =
            texts.iter().map(|text| Sequence { tokens: text, scored: text.len() - 1..text.len() }).collect();
        let tops: Vec<u32> =
            model.score(&sequences, Sampling::default())?.iter().map(|scores| scores[0].top).collect();
        for (text, top) in texts.iter_mut().zip(tops) {
            let last = text.len() - 1;
            text[last] = top;
        }
    }
    Ok(texts.into_iter().zip(prefixes).map(|(text, prefix)| text[prefix.len()..].to_vec()).collect())
}

pub(super) fn score_contexts(
    model: &(impl LanguageModel + ?Sized),
    contexts: &[Context<'_>],
    observer: &dyn Observer,
) -> Result<Vec<ContextScore>> {
    let total = Some(contexts.len() as u64);
    let mut found = Vec::with_capacity(contexts.len());
    for contexts in contexts.chunks(TOGETHER) {
        // Without a next token, any token tells the most likely one.
        let next =
            |context: &Context<'_>| if context.next.is_empty() { vec![0] } else { context.next.to_vec() };
        let texts: Vec<Vec<u32>> = contexts
            .iter()
            .flat_map(|context| next(context).into_iter().map(|token| [context.tokens, &[token]].concat()))
            .collect();
        let sequences: Vec<Sequence<'_>> =
            texts.iter().map(|text| Sequence { tokens: text, scored: text.len() - 1..text.len() }).collect();
        let scores = model.score(&sequences, Sampling::default())?;
        let mut scores = scores.into_iter().zip(&texts);
        for context in contexts {
            let own: Vec<(PositionScore, u32)> = scores
                .by_ref()
                .take(context.next.len().max(1))
                .map(|(scores, text)| (scores[0], text[text.len() - 1]))
                .collect();
            let (score, token) = own[0];
            found.push(ContextScore {
                log_probs: own.iter().take(context.next.len()).map(|(score, _)| score.log_prob).collect(),
                top: score.top,
                top_log_prob: score.log_prob - if score.top == token { 0.0 } else { score.margin },
            });
        }
        observer.report(Stage::Evaluating, found.len() as u64, total)?;
    }
    Ok(found)
}

pub(super) fn score_shared(
    model: &(impl LanguageModel + ?Sized),
    sequences: &[Sequence<'_>],
    sampling: Sampling,
    observer: &dyn Observer,
) -> Result<Vec<Vec<PositionScore>>> {
    let total = Some(sequences.len() as u64);
    let mut found = Vec::with_capacity(sequences.len());
    for sequences in sequences.chunks(TOGETHER) {
        found.extend(model.score(sequences, sampling)?);
        observer.report(Stage::Evaluating, found.len() as u64, total)?;
    }
    Ok(found)
}
