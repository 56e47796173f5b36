//! Evaluating texts that share beginnings, each beginning once.
//!
//! In a causal model a row depends on the tokens up to it only. Texts in lexicographic order are a walk in preorder through the tree
//! of their beginnings: a text continues the path of the one before it where the two part. The walk is cut into groups, each of
//! which repeats the path that it begins with, and groups are collected into batches, so memory does not grow with the texts.
//! The numbers are those of every text on its own, to the last bit.

use super::attention::Run;
use super::forward::{Batch, BlockNetwork, Group, Pool};
use super::network::{ROWS, not_finite};
use super::statistics::{Seen, Target};
use super::{Context, ContextScore, PositionScore, Sampling, Sequence};
use crate::Result;
use crate::observe::{Observer, Stage};
use std::mem::{replace, take};

/// A part of the walk, and what is asked of its rows.
struct Walk<W> {
    batch: Batch,
    /// The rows of the current path, by level; their tokens are in the batch.
    path: Vec<usize>,
    /// Where the current group begins.
    start: usize,
    runs: Vec<Run>,
    deepest: usize,
    /// Rows to be read, and what for.
    wanted: Vec<(usize, W)>,
}

impl<W> Walk<W> {
    fn new() -> Self {
        let (batch, path, runs, wanted) = (Batch::default(), Vec::new(), Vec::new(), Vec::new());
        Self { batch, path, start: 0, runs, deepest: 0, wanted }
    }

    /// How many tokens of a text are on the current path.
    fn shared(&self, text: &[u32]) -> usize {
        self.path.iter().zip(text).take_while(|&(&row, &token)| self.batch.tokens[row] == token).count()
    }

    /// Continues the path with a text.
    fn step(&mut self, text: &[u32]) {
        let level = self.shared(text);
        let row = self.batch.len();
        let more = text.len() - level;
        match self.runs.last_mut() {
            // The text continues the one before it.
            Some(run) if level == self.path.len() => run.rows.end += more,
            _ if more > 0 => self.runs.push(Run { rows: row..row + more, level }),
            _ => {}
        }
        self.path.truncate(level);
        self.path.extend(row..row + more);
        self.batch.tokens.extend_from_slice(&text[level..]);
        self.batch.positions.extend(level as u32..text.len() as u32);
        self.deepest = self.deepest.max(text.len());
    }

    /// Ends the current group.
    fn close(&mut self) {
        let rows = self.start..self.batch.len();
        if !rows.is_empty() {
            let (runs, levels) = (take(&mut self.runs), take(&mut self.deepest));
            self.batch.groups.push(Group { rows, runs, levels });
        }
        self.path.clear();
        self.start = self.batch.len();
    }
}

impl BlockNetwork {
    /// Walks through texts. `want` says which rows of a text's path are read, given the rows by level, and what for; `see` gets
    /// what the output reads in these rows.
    fn walk<W>(
        &self,
        texts: &[&[u32]],
        observer: &dyn Observer,
        mut want: impl FnMut(usize, &[usize], &mut Vec<(usize, W)>),
        mut see: impl FnMut(&[f32], Vec<W>, &Pool),
    ) -> Result<()> {
        let pool = Pool::default();
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&i| texts[i]);
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        // Groups share the threads in attention, and repeat little of each other.
        let most = ROWS.max(2 * longest);
        let group = (most / rayon::current_num_threads().max(4)).max(2 * longest);
        let mut walk = Walk::new();
        for (done, &i) in order.iter().enumerate().filter(|&(_, &i)| !texts[i].is_empty()) {
            let (shared, rows) = (walk.shared(texts[i]), walk.batch.len() - walk.start);
            let full = rows + texts[i].len() - shared > group;
            if rows > 0 && (full || (shared == 0 && 2 * rows > group)) {
                walk.close();
            }
            if walk.batch.len() + texts[i].len() > most || walk.wanted.len() >= 4 * most {
                self.flush(replace(&mut walk, Walk::new()), &pool, &mut see);
                observer.report(Stage::Evaluating, done as u64, Some(texts.len() as u64))?;
            }
            walk.step(texts[i]);
            want(i, &walk.path, &mut walk.wanted);
        }
        self.flush(walk, &pool, &mut see);
        observer.report(Stage::Evaluating, texts.len() as u64, Some(texts.len() as u64))
    }

    fn flush<W>(&self, mut walk: Walk<W>, pool: &Pool, see: &mut impl FnMut(&[f32], Vec<W>, &Pool)) {
        walk.close();
        let (rows, wanted): (Vec<usize>, Vec<W>) = walk.wanted.into_iter().unzip();
        let y = self.forward(&walk.batch, pool, &mut [walk.batch.paths(self)], &rows);
        see(&y, wanted, pool);
    }

    pub(super) fn score_contexts(
        &self,
        contexts: &[Context<'_>],
        observer: &dyn Observer,
    ) -> Result<Vec<ContextScore>> {
        let texts: Vec<&[u32]> = contexts.iter().map(|context| context.tokens).collect();
        let mut scores = vec![ContextScore::default(); contexts.len()];
        let want = |i: usize, path: &[usize], wanted: &mut Vec<(usize, usize)>| {
            wanted.extend(path.last().map(|&row| (row, i)));
        };
        let mut wrong = None;
        self.walk(&texts, observer, want, |y, wanted, pool| {
            let mut seen: Vec<Seen> = wanted.iter().map(|&i| Seen::of_tokens(contexts[i].next)).collect();
            self.see(y, &mut seen, pool);
            for (i, seen) in wanted.into_iter().zip(seen) {
                if !seen.moments.is_finite() {
                    wrong = first(wrong, (i, contexts[i].tokens.len()));
                }
                scores[i] = ContextScore {
                    log_probs: contexts[i].next.iter().map(|&token| seen.log_prob(token)).collect(),
                    top: seen.moments.top,
                    top_log_prob: seen.moments.log_prob(seen.moments.largest),
                };
            }
        })?;
        wrong.map_or(Ok(scores), |(context, position)| Err(not_finite(context, position)))
    }

    pub(super) fn score_shared(
        &self,
        sequences: &[Sequence<'_>],
        sampling: Sampling,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<PositionScore>>> {
        let texts: Vec<&[u32]> = sequences.iter().map(Sequence::read).collect();
        let mut scores: Vec<Vec<PositionScore>> = vec![Vec::new(); sequences.len()];
        let want = |i: usize, path: &[usize], wanted: &mut Vec<(usize, (usize, usize))>| {
            wanted.extend(sequences[i].scored.clone().map(|position| (path[position - 1], (i, position))));
        };
        let mut wrong = None;
        self.walk(&texts, observer, want, |y, wanted, pool| {
            let tokens: Vec<u32> =
                wanted.iter().map(|&(i, position)| sequences[i].tokens[position]).collect();
            let seen = |target: Target| Seen::of_target(target, sampling, self.weights.sizes.d_vocab);
            let mut seen: Vec<Seen> = self.logits(y, &tokens).into_iter().map(seen).collect();
            self.see(y, &mut seen, pool);
            for (at, seen) in wanted.into_iter().zip(seen) {
                match seen.score(sampling) {
                    Some(score) => scores[at.0].push(score),
                    None => wrong = first(wrong, at),
                }
            }
        })?;
        wrong.map_or(Ok(scores), |(sequence, position)| Err(not_finite(sequence, position)))
    }
}

/// The earlier of two places in the order of the texts, which is not that of the walk.
fn first(wrong: Option<(usize, usize)>, at: (usize, usize)) -> Option<(usize, usize)> {
    Some(wrong.map_or(at, |other| other.min(at)))
}
