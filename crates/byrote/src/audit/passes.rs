//! The passes of a model over documents and windows.
//!
//! *Document context*: a position is predicted from everything before it in its document. A document longer than the model reads is
//! cut into pieces of `n_ctx` tokens that overlap by half, so that a position sees at least min(its place, n_ctx / 2) tokens. One pass
//! serves all windows. *Window context*: a window is run alone, from position 0 of the model.

use super::collection::AuditDocument;
use super::document_score::ScoredDocument;
use super::scoring::{ScoreUnit, Scorer};
use super::spec::AuditSettings;
use super::tally::DecodedScore;
use super::window_score::WindowScore;
use super::windows::AuditWindow;
use crate::Result;
use crate::inference::PositionScore;

/// The pieces of all documents, and how many each document has.
pub(super) struct Pieces {
    pub(super) units: Vec<ScoreUnit>,
    counts: Vec<usize>,
}

impl Pieces {
    pub(super) fn new(documents: &[AuditDocument], settings: &AuditSettings) -> Self {
        let cut: Vec<Vec<ScoreUnit>> = documents
            .iter()
            .map(|document| pieces(&document.ids, settings.start(), settings.n_ctx))
            .collect();
        let counts = cut.iter().map(Vec::len).collect();
        Self { units: cut.into_iter().flatten().collect(), counts }
    }

    /// How many of these documents, copies included, are longer than the model reads.
    pub(super) fn cut(&self, documents: &[AuditDocument]) -> u64 {
        documents.iter().zip(&self.counts).filter(|(_, n)| **n > 1).map(|(document, _)| document.copies).sum()
    }
}

/// Runs the model over documents.
pub(super) fn documents(
    pieces: &Pieces,
    settings: &AuditSettings,
    scorer: &mut Scorer<'_>,
) -> Result<Vec<ScoredDocument>> {
    let Pieces { units, counts } = pieces;
    let mut scores = scorer.score(units)?.into_iter();
    let first = usize::from(settings.start_token.is_none());
    let mut join = |n: usize| ScoredDocument {
        first,
        scores: scores.by_ref().take(n).flat_map(|part| part.to_vec()).collect::<Vec<PositionScore>>(),
    };
    Ok(counts.iter().map(|&n| join(n)).collect())
}

/// The pieces of a document of any length: every position is scored in one of them.
fn pieces(ids: &[u32], front: &[u32], n_ctx: usize) -> Vec<ScoreUnit> {
    let mut found = Vec::new();
    let (mut start, mut done) = (0, 0);
    while done < ids.len() {
        // A later piece begins in the middle of the text, where no start token belongs.
        let head = if start == 0 { front } else { &[] };
        let end = ids.len().min(start + n_ctx.saturating_sub(head.len()).max(1));
        let tokens = [head, &ids[start..end]].concat();
        let from = (done - start + head.len()).max(1);
        if from < tokens.len() {
            found.push(ScoreUnit { tokens, from });
        }
        done = end;
        start = done - (n_ctx / 2).min(done);
    }
    found
}

/// Runs the model over windows, each alone, and decodes those with a miss if that is asked for.
pub(super) fn windows(
    windows: &[AuditWindow],
    settings: &AuditSettings,
    scorer: &mut Scorer<'_>,
) -> Result<(Vec<WindowScore>, Vec<Option<DecodedScore>>)> {
    let units: Vec<ScoreUnit> = windows.iter().map(|window| window.unit(settings.start())).collect();
    let scores = scorer.score(&units)?;
    let judged: Vec<WindowScore> = windows
        .iter()
        .zip(&scores)
        .map(|(window, scores)| WindowScore::new(window.suffix(), scores, settings.margin))
        .collect();
    if !settings.decode {
        return Ok((judged, vec![None; windows.len()]));
    }
    // Up to the first miss, decoding gives the suffix; then the token that the model prefers.
    let begun = |i: usize| -> Vec<u32> {
        let (score, suffix): (&WindowScore, &[u32]) = (&judged[i], windows[i].suffix());
        let wrong = scores[i].get(score.first as usize).map(|s: &PositionScore| s.top);
        suffix[..score.first as usize].iter().copied().chain(wrong).collect()
    };
    let prefixes: Vec<(Vec<u32>, usize)> = (0..windows.len())
        .map(|i| {
            let given = [&units[i].tokens[..units[i].from], &begun(i)].concat();
            let left = windows[i].suffix().len() - begun(i).len();
            (given, left)
        })
        .collect();
    let decoded = scorer.decode(&prefixes)?;
    let compare =
        |i: usize| Some(DecodedScore::new(&[begun(i), decoded[i].clone()].concat(), windows[i].suffix()));
    let compared = (0..windows.len()).map(compare).collect();
    Ok((judged, compared))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(ids: &[u32], front: &[u32], n_ctx: usize) -> Vec<(Vec<u32>, usize)> {
        pieces(ids, front, n_ctx).into_iter().map(|unit| (unit.tokens, unit.from)).collect()
    }

    #[test]
    fn a_short_document_is_one_piece() {
        assert_eq!(plain(&[1, 2, 3], &[], 8), [(vec![1, 2, 3], 1)]);
        assert_eq!(plain(&[1, 2, 3], &[0], 8), [(vec![0, 1, 2, 3], 1)]);
        assert_eq!(plain(&[1], &[0], 8), [(vec![0, 1], 1)]);
        assert!(plain(&[1], &[], 8).is_empty() && plain(&[], &[0], 8).is_empty());
    }

    #[test]
    fn pieces_overlap_by_half_and_score_every_position_once() {
        let ids: Vec<u32> = (0..23).collect();
        for (front, first) in [(vec![], 1), (vec![99], 0)] {
            for n_ctx in [4, 5, 8, 22, 23, 24] {
                let mut scored = Vec::new();
                for (tokens, from) in plain(&ids, &front, n_ctx) {
                    assert!(tokens.len() <= n_ctx);
                    for (at, &token) in tokens.iter().enumerate().skip(from) {
                        let position = token as usize;
                        assert!(
                            at >= position.min(n_ctx / 2),
                            "position {position} sees {at} tokens of {n_ctx}"
                        );
                        scored.push(position);
                    }
                }
                assert_eq!(scored, (first..23).collect::<Vec<_>>(), "n_ctx {n_ctx}");
            }
        }
    }
}
