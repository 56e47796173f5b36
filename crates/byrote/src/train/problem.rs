//! A set of contexts as a trainer reads it.
//!
//! The loss is a sum over *distinct contexts with counts*, never over repeated positions:
//!
//! ```text
//! loss = sum_i [ c_i lse(logits_i) - sum_g n_ig logits_ig ],    gap = loss - floor
//! ```
//!
//! Keys, values and queries depend only on a token and its position, so each such *place* is listed once, and a context is
//! a list of places.

use crate::corpus::ContextSet;
use crate::model::Config;
use crate::num::hash::Fnv;
use crate::units::Nats;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Contexts, counts and next tokens in flat arrays.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The distinct (token, position) pairs, in order.
    pub places: Vec<(u32, u32)>,
    /// Where the places of each context begin in `context_places`; one entry more than there are contexts.
    pub context_starts: Vec<usize>,
    /// The places of the contexts, end to end.
    pub context_places: Vec<u32>,
    /// How often each context occurs.
    pub counts: Vec<f64>,
    /// Where the next tokens of each context begin; one entry more than there are contexts.
    pub next_starts: Vec<usize>,
    /// Next tokens with how often they follow.
    pub next: Vec<(u32, f64)>,
    /// The lowest loss any model can reach.
    pub floor: Nats,
    /// A hash of what the tokens are called, where that is known: the same ids may be other words.
    pub names: u64,
}

impl Problem {
    /// The problem of a set of contexts, whose floor is known.
    pub fn new(contexts: &ContextSet, floor: Nats) -> Self {
        let mut all: Vec<Vec<u32>> = Vec::with_capacity(contexts.len());
        let mut places = BTreeMap::new();
        let (mut counts, mut next_starts, mut next) = (Vec::new(), vec![0], Vec::new());
        for context in contexts.iter() {
            let mut tokens = Vec::new();
            context.tokens(&mut tokens);
            places.extend(tokens.iter().copied().zip(0u32..).map(|place| (place, 0u32)));
            all.push(tokens);
            counts.push(context.count() as f64);
            next.extend(context.next().map(|(token, n)| (token, n as f64)));
            next_starts.push(next.len());
        }
        for (index, number) in places.values_mut().zip(0..) {
            *index = number;
        }
        let (mut context_starts, mut context_places) = (vec![0], Vec::new());
        for tokens in &all {
            context_places.extend(tokens.iter().copied().zip(0u32..).map(|place| places[&place]));
            context_starts.push(context_places.len());
        }
        let places = places.into_keys().collect();
        Self { places, context_starts, context_places, counts, next_starts, next, floor, names: 0 }
    }

    /// The same problem with its tokens renamed: token t becomes `names[t]`.
    pub fn renamed(mut self, names: &[u32]) -> Self {
        self.places.iter_mut().for_each(|(token, _)| *token = names[*token as usize]);
        self.next.iter_mut().for_each(|(token, _)| *token = names[*token as usize]);
        self
    }

    /// Whether a model of this configuration can read the problem, or an error that says why not.
    pub fn fits(&self, config: &Config) -> Result<()> {
        let longest = self.context_starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0) as u64;
        if longest > config.shape.n_ctx {
            let message = format!("contexts of {longest} tokens for a model of {}", config.shape.n_ctx);
            return Err(Error::setting("n_ctx", message));
        }
        let tokens = self.places.iter().map(|p| p.0).chain(self.next.iter().map(|n| n.0));
        match tokens.max() {
            Some(token) if u64::from(token) >= config.shape.d_vocab => {
                let message = format!("token {token} for a model of {} tokens", config.shape.d_vocab);
                Err(Error::setting("d_vocab", message))
            }
            _ => Ok(()),
        }
    }

    /// The part of the problem that these contexts are; its floor is theirs.
    pub fn subset(&self, contexts: &[usize]) -> Self {
        let mut number = vec![0u32; self.places.len()];
        contexts.iter().flat_map(|&c| self.places_of(c)).for_each(|&p| number[p as usize] = 1);
        let places: Vec<_> =
            self.places.iter().zip(&number).filter(|&(_, &used)| used == 1).map(|(&p, _)| p).collect();
        for (n, next) in number.iter_mut().filter(|n| **n == 1).zip(0..) {
            *n = next;
        }
        let mut part = Self {
            places,
            context_starts: vec![0],
            context_places: Vec::new(),
            counts: Vec::with_capacity(contexts.len()),
            next_starts: vec![0],
            next: Vec::new(),
            floor: Nats(contexts.iter().map(|&c| self.floor_of(c)).sum()),
            names: self.names,
        };
        for &c in contexts {
            part.context_places.extend(self.places_of(c).iter().map(|&p| number[p as usize]));
            part.context_starts.push(part.context_places.len());
            part.counts.push(self.counts[c]);
            part.next.extend_from_slice(self.next_of(c));
            part.next_starts.push(part.next.len());
        }
        part
    }

    /// The part of the floor that is a context's: its count times the entropy of its next tokens.
    pub fn floor_of(&self, context: usize) -> f64 {
        let count = self.counts[context];
        self.next_of(context).iter().map(|&(_, n)| n * (count / n).ln()).sum()
    }

    /// A number that tells this problem from any other.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv::new();
        hash.write(&self.names.to_le_bytes());
        for &(token, position) in &self.places {
            hash.write(&token.to_le_bytes());
            hash.write(&position.to_le_bytes());
        }
        for context in 0..self.len() {
            for &place in self.places_of(context) {
                hash.write(&place.to_le_bytes());
            }
            hash.write(&u32::MAX.to_le_bytes());
            for &(token, n) in self.next_of(context) {
                hash.write(&token.to_le_bytes());
                hash.write(&n.to_bits().to_le_bytes());
            }
            hash.write(&u32::MAX.to_le_bytes());
        }
        hash.finish()
    }

    /// How many contexts.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is nothing to learn.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many predictions.
    pub fn predictions(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// The places of a context.
    pub fn places_of(&self, context: usize) -> &[u32] {
        &self.context_places[self.context_starts[context]..self.context_starts[context + 1]]
    }

    /// The next tokens of a context.
    pub fn next_of(&self, context: usize) -> &[(u32, f64)] {
        &self.next[self.next_starts[context]..self.next_starts[context + 1]]
    }

    /// The tokens of a context.
    pub fn tokens_of(&self, context: usize) -> Vec<u32> {
        self.places_of(context).iter().map(|&p| self.places[p as usize].0).collect()
    }
}

/// Small problems for tests.
#[cfg(test)]
pub(crate) mod examples {
    use super::Problem;
    use crate::corpus::{Corpus, Options, Outputs, Source, Window};
    use crate::observe::Silent;

    /// The problem of a source, contexts of up to `n_ctx` tokens, and its vocabulary's size.
    pub(crate) fn of(source: &Source, n_ctx: u32) -> (Problem, u64) {
        let options = Options { window: Window { n_ctx, ..Window::default() }, ..Options::default() };
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let corpus = Corpus::read(source, &options, outputs, &Silent).unwrap();
        let problem = Problem::new(&corpus.contexts.unwrap(), corpus.summary.floor_nats);
        (problem, corpus.summary.d_vocab)
    }

    /// That of the built-in stories, contexts of up to 9 tokens.
    pub(crate) fn stories(documents: u64) -> (Problem, u64) {
        of(&Source::Stories { documents, seed: 0 }, 9)
    }

    /// That of a text, a document a line.
    pub(crate) fn text(text: &str) -> (Problem, u64) {
        let file = tempfile::Builder::new().suffix(".txt").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        of(&Source::Files(vec![file.path().to_path_buf()]), 9)
    }

    /// That of documents of single-letter tokens: `"abc abd"` is two of three tokens.
    pub(crate) fn letters(documents: &str) -> (Problem, u64) {
        let line = |d: &str| d.chars().map(String::from).collect::<Vec<_>>().join(" ");
        text(&documents.split(' ').map(line).collect::<Vec<_>>().join("\n"))
    }
}
