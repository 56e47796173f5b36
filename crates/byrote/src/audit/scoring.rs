//! Scoring many sequences: identical ones once, in batches, with what is done on disk.

use super::score_file::ScoreFile;
use crate::Result;
use crate::dataset::Dataset;
use crate::inference::{Context, ContextScore, LanguageModel, PositionScore, Sampling, Sequence};
use crate::observe::{Observer, Stage};
use std::ops::Range;
use std::sync::Arc;

/// A sequence to score: position i of `scored` is predicted from the tokens before it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScoreUnit {
    /// The ids, a start token included.
    pub tokens: Vec<u32>,
    /// The first scored position.
    pub from: usize,
}

impl ScoreUnit {
    /// The positions to score.
    pub fn scored(&self) -> Range<usize> {
        self.from..self.tokens.len()
    }
}

/// Tokens per batch: enough rows to fill the products, few enough to stop soon.
const BATCH: usize = 1024;
/// Texts that are decoded together.
const DECODED: usize = 32;

/// A model at work.
pub struct Scorer<'a> {
    model: &'a dyn LanguageModel,
    sampling: Sampling,
    file: Option<&'a mut ScoreFile>,
    observer: &'a dyn Observer,
    /// Tokens of the distinct sequences so far, whether they were scored or found on disk.
    pub(super) evaluated: u64,
    /// Tokens that were run, and how many there are to run, as far as is known.
    pub(super) done: u64,
    total: u64,
}

impl<'a> Scorer<'a> {
    /// Prepares to score; what is scored goes to `file`, and what is there already is not scored again.
    pub fn new(
        model: &'a dyn LanguageModel,
        sampling: Sampling,
        file: Option<&'a mut ScoreFile>,
        observer: &'a dyn Observer,
    ) -> Self {
        Self { model, sampling, file, observer, evaluated: 0, done: 0, total: 0 }
    }

    /// The same as a part of more work, some of which is done.
    pub fn within(self, done: u64, total: u64) -> Self {
        Self { done, total, ..self }
    }

    /// The observer.
    pub fn observer(&self) -> &'a dyn Observer {
        self.observer
    }

    /// Scores sequences; units without a position to score have none.
    pub fn score(&mut self, units: &[ScoreUnit]) -> Result<Vec<Arc<[PositionScore]>>> {
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by(|&a, &b| units[a].cmp(&units[b]).then(a.cmp(&b)));
        // The first of its kind, for every unit.
        let mut first = vec![0; units.len()];
        let mut previous: Option<usize> = None;
        for &i in &order {
            first[i] = match previous {
                Some(p) if units[p] == units[i] => first[p],
                _ => i,
            };
            previous = Some(i);
        }
        let mut found: Vec<Option<Arc<[PositionScore]>>> = vec![None; units.len()];
        let mut waiting = Vec::new();
        for i in (0..units.len()).filter(|&i| first[i] == i) {
            self.evaluated += units[i].tokens.len() as u64;
            if units[i].scored().is_empty() {
                found[i] = Some(Arc::from([]));
            } else if let Some(scores) = self.file.as_deref().and_then(|file| file.find(&units[i])) {
                found[i] = Some(scores);
            } else {
                waiting.push(i);
            }
        }
        self.total =
            self.total.max(self.done + waiting.iter().map(|&i| units[i].tokens.len() as u64).sum::<u64>());
        let mut rest = waiting.as_slice();
        while !rest.is_empty() {
            let mut tokens = 0;
            let mut fits = |&i: &usize| {
                tokens += units[i].tokens.len();
                tokens <= BATCH
            };
            let n = rest.iter().take_while(|i| fits(i)).count().max(1);
            let (batch, later) = rest.split_at(n);
            rest = later;
            let sequences: Vec<Sequence<'_>> = batch
                .iter()
                .map(|&i| Sequence { tokens: &units[i].tokens, scored: units[i].scored() })
                .collect();
            let scores = self.model.score(&sequences, self.sampling)?;
            for (&i, scores) in batch.iter().zip(scores) {
                let scores: Arc<[PositionScore]> = scores.into();
                if let Some(file) = self.file.as_deref_mut() {
                    file.append(&units[i], &scores);
                }
                found[i] = Some(scores);
            }
            if let Some(file) = self.file.as_deref_mut() {
                file.flush()?;
            }
            let tokens: u64 = batch.iter().map(|&i| units[i].tokens.len() as u64).sum();
            self.done += tokens;
            self.observer.report(Stage::Auditing, self.done, Some(self.total))?;
        }
        Ok(first.iter().map(|&i| found[i].clone().unwrap_or_else(|| Arc::from([]))).collect())
    }

    /// Scores the distinct contexts of a dataset.
    pub fn contexts(&mut self, dataset: &Dataset) -> Result<Vec<ContextScore>> {
        self.evaluated += dataset.len() as u64;
        let tokens: Vec<Vec<u32>> = (0..dataset.len()).map(|i| dataset.tokens_of(i)).collect();
        let next: Vec<Vec<u32>> =
            (0..dataset.len()).map(|i| dataset.next_of(i).iter().map(|next| next.0).collect()).collect();
        let contexts: Vec<Context<'_>> =
            tokens.iter().zip(&next).map(|(tokens, next)| Context { tokens, next }).collect();
        let scores = self.model.score_contexts(&contexts, self.observer)?;
        self.done += dataset.len() as u64;
        Ok(scores)
    }

    /// Continues each prefix greedily, by as many tokens as it is given with.
    pub fn decode(&mut self, prefixes: &[(Vec<u32>, usize)]) -> Result<Vec<Vec<u32>>> {
        let mut order: Vec<usize> = (0..prefixes.len()).collect();
        // Those that take equally many steps together.
        order.sort_by(|&a, &b| prefixes[b].1.cmp(&prefixes[a].1).then(a.cmp(&b)));
        let mut found: Vec<Vec<u32>> = prefixes
            .iter()
            .map(|(prefix, n)| {
                self.file.as_deref().and_then(|file| file.find_decoded(prefix, *n)).unwrap_or_default()
            })
            .collect();
        order.retain(|&i| found[i].len() < prefixes[i].1);
        let tokens = |i: &usize| prefixes[*i].1 as u64;
        self.evaluated += prefixes.iter().map(|(_, n)| *n as u64).sum::<u64>();
        // How much will be decoded is not known in advance.
        self.total += order.iter().map(tokens).sum::<u64>();
        // A longer continuation than asked for might not fit the context of the model.
        let batches =
            order.chunk_by(|&a, &b| prefixes[a].1 == prefixes[b].1).flat_map(|same| same.chunks(DECODED));
        for batch in batches {
            let texts: Vec<&[u32]> = batch.iter().map(|&i| prefixes[i].0.as_slice()).collect();
            let n = batch.first().map_or(0, |&i| prefixes[i].1);
            for (&i, decoded) in batch.iter().zip(self.model.decode(&texts, n)?) {
                if let Some(file) = self.file.as_deref_mut() {
                    file.append_decoded(&prefixes[i].0, &decoded);
                }
                found[i] = decoded;
            }
            if let Some(file) = self.file.as_deref_mut() {
                file.flush()?;
            }
            let tokens = batch.iter().map(tokens).sum::<u64>();
            self.done += tokens;
            self.observer.report(Stage::Auditing, self.done, Some(self.total))?;
        }
        Ok(found)
    }
}
