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
use crate::units::Nats;
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
        Self { places, context_starts, context_places, counts, next_starts, next, floor }
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
