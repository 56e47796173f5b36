//! Building and verifying: nothing leaves here that has not answered every sample exactly.

use super::bounded::{self, Choices};
use super::compiled::Compiled;
use super::context_map::{ContextMap, Effort};
use super::interpret;
use super::lookup::Lookup;
use super::model::{Method, Model};
use super::network::Network;
use super::searched;
use super::task::Samples;
use crate::{Error, Result};
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is asked of the builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Everything random.
    pub seed: u64,
    /// Which memory; the smaller one where none is named.
    pub memory: Option<Memory>,
    /// The lookup of the bounded memory; the cheaper one where none is named.
    pub lookup: Option<Lookup>,
    /// Facts a block of the bounded memory; the best where none is named.
    pub block: Option<usize>,
    /// Hashes tried a block by the search.
    pub tries: u64,
}

/// The memories that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// With a worst-case guarantee.
    Bounded,
    /// The same with tied weights.
    Looped,
    /// Found by search.
    Searched,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 0, memory: None, lookup: None, block: None, tries: 100_000 }
    }
}

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Ids for the contexts.
    Map,
    /// Hashes for the blocks.
    Search,
    /// Every sample through both evaluators.
    Verify,
}

/// Watches a build.
pub trait Watch: Sync {
    /// Sees how far a step is; `false` asks to stop.
    fn look(&self, step: Step, done: usize, total: usize) -> bool;
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn look(&self, _: Step, _: usize, _: usize) -> bool {
        true
    }
}

/// A verified model and how it came about.
#[derive(Debug, Clone)]
pub struct Built {
    /// The model.
    pub model: Model,
    /// Samples, each answered exactly by both evaluators.
    pub verified: usize,
    /// Different (id, label) pairs: what the memory holds.
    pub facts: usize,
    /// R: how many ids there can be.
    pub ids: u64,
    /// What the search for the ids took.
    pub effort: Effort,
    /// What the bounded memory never exceeds on any data with this map.
    pub guarantee: Option<usize>,
    /// Parameters of the memories that were built, embedding apart.
    pub candidates: Vec<(Method, usize)>,
}

/// Builds the network and verifies it on every sample.
pub fn build(samples: &Samples, settings: &Settings, watch: &dyn Watch) -> Result<Built> {
    let task = *samples.task();
    if let Some(label) = samples.only_label() {
        let network = Network::constant(label);
        let candidates = vec![(Method::Constant, network.tally().parameters)];
        let model = Model { task, method: Method::Constant, network };
        let verified = verify(&model.network, samples, watch)?;
        let effort = Effort::default();
        return Ok(Built { model, verified, facts: 1, ids: 1, effort, guarantee: None, candidates });
    }
    proceed(watch, Step::Map, 0, 1)?;
    let (map, effort) = ContextMap::search(samples, settings.seed)?;
    let facts = map.facts(samples);
    let choices = Choices {
        lookup: settings.lookup,
        block: settings.block,
        looped: settings.memory == Some(Memory::Looped),
    };
    let mut networks = Vec::new();
    if settings.memory != Some(Memory::Searched) {
        let method = if choices.looped { Method::Looped } else { Method::Bounded };
        networks.push((method, bounded::build(&map, &facts, task.labels, choices)));
    }
    if matches!(settings.memory, None | Some(Memory::Searched)) {
        let look = |done: usize, total: usize| watch.look(Step::Search, done, total);
        let found = searched::build(&map, &facts, task.labels, settings.tries, settings.seed, &look);
        networks.push((Method::Searched, found.ok_or(Error::Interrupted)?));
    }
    let candidates: Vec<(Method, usize)> = networks.iter().map(|(m, n)| (*m, n.tally().parameters)).collect();
    let smallest = networks.into_iter().min_by_key(|(_, n)| n.tally().parameters);
    let Some((method, network)) = smallest else {
        return Err(Error::setting("--method", "no memory was built"));
    };
    let verified = verify(&network, samples, watch)?;
    let guarantee = Lookup::ALL
        .map(|lookup| bounded::guarantee(&map, facts.len(), task.labels, lookup))
        .into_iter()
        .min();
    let model = Model { task, method, network };
    let (ids, facts) = (map.ids(), facts.len());
    Ok(Built { model, verified, facts, ids, effort, guarantee, candidates })
}

fn proceed(watch: &dyn Watch, step: Step, done: usize, total: usize) -> Result<()> {
    if watch.look(step, done, total) { Ok(()) } else { Err(Error::Interrupted) }
}

/// Samples that one task of the pool verifies.
const LOT: usize = 64;

/// Runs every sample through both evaluators; how many there were, or the first that is wrong.
pub fn verify(network: &Network, samples: &Samples, watch: &dyn Watch) -> Result<usize> {
    let compiled = Compiled::new(network);
    let done = AtomicUsize::new(0);
    let total = samples.len();
    samples.list().par_chunks(LOT).try_for_each(|lot| {
        for sample in lot {
            let (seen, read) = (samples.visible(sample), sample.read as usize);
            let wanted = Some(i64::from(sample.label).into());
            let honest = interpret::run(network, seen, read);
            let fast = compiled.run(seen, read);
            if honest != wanted || fast != wanted {
                let show = |x: Option<super::Dyadic>| x.map_or("nothing".into(), |x| x.to_string());
                return Err(Error::setting(
                    "samples",
                    format!(
                        "a bug in the construction: the context {seen:?} has the label {}, the network says {}, its \
                         compiled form {}",
                        sample.label,
                        show(honest),
                        show(fast)
                    ),
                ));
            }
        }
        let before = done.fetch_add(lot.len(), Ordering::Relaxed);
        proceed(watch, Step::Verify, before + lot.len(), total)
    })?;
    Ok(total)
}
