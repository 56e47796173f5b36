//! The loss of a model of blocks and its gradient, evaluated on the trie of the contexts.
//!
//! Contexts that share a beginning share all work on it: everything is computed once per distinct prefix and block ([`trie`]).
//! There is no padding, and the loss is exact over all contexts with their counts. Chunks of the trie are divided into lanes,
//! whose number depends only on the dataset and the model; one thread takes a lane's chunks through all blocks and back, and
//! lanes are summed in order. So the result is identical to the last bit for any number of threads.

mod batches;
mod lane;
mod lane_gradient;
mod normalization;
#[cfg(test)]
mod tests;
mod tree_mixers;
mod trie;
mod weights;

use super::lane::ProbePoint;
use crate::dataset::Dataset;
use crate::model::{Blocks, Config};
use crate::num::gemm::Update;
use crate::num::optimize::Stopped;
use crate::num::real::Real;
use crate::num::simd::run;
use lane::{Backward, Embed, EmbedBack, Forward, Keep, Lane, Output, Read, ReadBack, Shared, Until};
use lane_gradient::{LaneGradient, gather};
use rayon::prelude::*;
pub(crate) use trie::prefixes;
use trie::{Chunk, Part, Weighted};
use weights::{Layout, Sizes, Weights};

/// The number of nodes that justifies a lane. It grows with the size of the gradient, which each lane writes and the sum reads,
/// up to a limit.
const LANE_NODES: usize = 96;
const LARGE_LANE_NODES: usize = 640;
const VALUES_PER_NODE: usize = 1024;
/// The maximum number of lanes, and the maximum number of values in the gradients of all lanes if there is more than one.
const MAX_LANES: usize = 16;
const MAX_VALUES: usize = 1 << 28;
/// Nodes per chunk, at most, unless paths are longer.
const CHUNK_NODES: usize = 192;
/// Batches are divided into as many lanes as a trie of this many times their nodes: a step on one is short, so that an idle thread costs
/// more than the sum over lanes does.
const BATCH_LANES: usize = 3;

/// Evaluates the loss and its gradient; owns all the memory it needs.
pub(super) struct BlocksEvaluator<T, D> {
    config: Config,
    blocks: Blocks,
    dataset: D,
    layout: Layout,
    s: Sizes,
    weights: Weights<T>,
    /// All contexts, and the batches that they are divided into, if they are.
    whole: Part,
    batches: Vec<Part>,
    /// Made for the first evaluation.
    lanes: Vec<Lane<T>>,
    backward: bool,
    memory: Option<u64>,
}

/// The number of lanes, a power of two, and of chunks per lane, given the number of nodes and the length of the longest path.
fn plan(nodes: usize, longest: usize, values: usize) -> (usize, usize) {
    let enough = (LANE_NODES + values / VALUES_PER_NODE).min(LARGE_LANE_NODES);
    let most = (nodes / enough).min(MAX_LANES).min(MAX_VALUES / values.max(1)).max(1);
    let lanes = 1usize << most.ilog2();
    (lanes, chunks_per_lane(nodes, lanes, longest))
}

fn chunks_per_lane(nodes: usize, lanes: usize, longest: usize) -> usize {
    // A chunk repeats up to a path of ancestors.
    let per_chunk = CHUNK_NODES.max(2 * longest);
    nodes.div_ceil(lanes).div_ceil(per_chunk).max(1)
}

/// The length of the longest context.
fn longest(dataset: &Dataset) -> usize {
    dataset.context_starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0)
}

impl<T: Real, D: AsRef<Dataset>> BlocksEvaluator<T, D> {
    /// `memory`: bytes that activations may take, if that is limited.
    pub(super) fn new(
        config: Config,
        blocks: Blocks,
        dataset: D,
        backward: bool,
        memory: Option<u64>,
    ) -> Self {
        let s = Sizes::new(&config, &blocks);
        let all = dataset.as_ref();
        let contexts: Vec<Weighted> = trie::ordered(all).into_iter().map(|context| (context, 1.0)).collect();
        let (longest, values) = (longest(all), LaneGradient::<T>::values(&config, s));
        let whole = trie::part(all, &contexts, |nodes| plan(nodes, longest, values));
        Self {
            layout: Layout::new(&config, &blocks),
            weights: Weights::new(&config, &blocks, s),
            whole,
            batches: Vec::new(),
            lanes: Vec::new(),
            backward,
            memory,
            s,
            config,
            blocks,
            dataset,
        }
    }

    /// Divides the contexts into `k` [batches], or fewer if there are few contexts, for [`Self::evaluate_batch_while`].
    pub(super) fn divide(&mut self, k: usize, seed: u64) {
        let all = self.dataset.as_ref();
        let (longest, values) = (longest(all), LaneGradient::<T>::values(&self.config, self.s));
        // No more lanes than all contexts have: each takes memory.
        let most = self.whole.lanes.len();
        let batch = |contexts: Vec<Weighted>| {
            trie::part(all, &contexts, |nodes| {
                let lanes = plan(BATCH_LANES * nodes, longest, values).0.min(most);
                (lanes, chunks_per_lane(nodes, lanes, longest))
            })
        };
        self.batches = batches::batches(all, k, seed).into_iter().map(batch).collect();
        self.lanes.clear();
    }

    /// The number of batches.
    pub(super) fn n_batches(&self) -> usize {
        self.batches.len()
    }

    /// Makes the lanes for everything that is evaluated.
    fn make_lanes(&mut self) {
        let Self { config, blocks, whole, batches, s, backward, memory, .. } = self;
        let parts = || std::iter::once(&*whole).chain(&*batches);
        let n = parts().map(|part| part.lanes.len()).max().unwrap_or(1);
        let keep = match backward {
            false => Keep::Nothing,
            true => {
                let rows = parts().flat_map(|part| &part.chunks).map(Chunk::len).max().unwrap_or(0);
                let longest = longest(self.dataset.as_ref());
                let bytes = Lane::<T>::bytes(rows, longest, blocks, *s, Keep::All) * n;
                if memory.is_some_and(|most| bytes as u64 > most) { Keep::Streams } else { Keep::All }
            }
        };
        let lane = |i: usize| {
            let chunks: Vec<&Chunk> =
                parts().filter_map(|part| Some(&part.chunks[part.lanes.get(i)?.clone()])).flatten().collect();
            Lane::new(&chunks, config, blocks, *s, keep)
        };
        // In parallel: clearing the memory takes as long as a few steps.
        self.lanes = (0..n).into_par_iter().map(lane).collect();
    }

    /// Returns the loss, and writes the gradient if there is one to write.
    pub(super) fn evaluate_while(
        &mut self,
        parameters: &[T],
        gradient: Option<&mut [T]>,
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        self.evaluate_part(None, parameters, gradient, go_on)
    }

    /// The same of one of the batches that the contexts are [divided](Self::divide) into. The mean over the batches is the loss.
    pub(super) fn evaluate_batch_while(
        &mut self,
        batch: usize,
        parameters: &[T],
        gradient: &mut [T],
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        self.evaluate_part(Some(batch), parameters, Some(gradient), go_on)
    }

    fn evaluate_part(
        &mut self,
        batch: Option<usize>,
        parameters: &[T],
        gradient: Option<&mut [T]>,
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        let n = self.layout.n;
        assert!(parameters.len() == n, "{} parameters for a model of {n}", parameters.len());
        let back = gradient.is_some();
        assert!(self.backward || !back, "a gradient of an evaluator that only goes forward");
        let ask = || if go_on() { Ok(()) } else { Err(Stopped) };
        ask()?;
        let (lanes, part, shared) = self.parts(batch, parameters);
        let used = lanes.len();
        lanes.par_iter_mut().zip(&part.lanes).try_for_each(|(lane, chunks)| {
            lane.start();
            for (chunk, update) in part.chunks[chunks.clone()].iter().zip(Updates::default()) {
                forward(lane, shared, chunk, ask)?;
                let mut until = if back { Until::Gradient(update) } else { Until::Loss };
                // A chunk without contexts to predict from still clears what the last evaluation left.
                let empty = back.then_some(0..0).filter(|_| chunk.scored.is_empty());
                for rows in lane.row_blocks(chunk).chain(empty) {
                    ask()?;
                    run(Output { lane, shared, chunk, rows, until });
                    until = if back { Until::Gradient(Update::Add) } else { Until::Loss };
                }
                if back {
                    backward(lane, shared, chunk, update, ask)?;
                }
            }
            Ok(())
        })?;
        if let Some(gradient) = gradient {
            assert!(gradient.len() == n, "{} derivatives for a model of {n}", gradient.len());
            gather(gradient, &self.layout, &self.lanes[..used], self.s);
        }
        Ok(self.lanes[..used].iter().map(|lane| lane.loss).sum())
    }

    /// The number of predictions whose token had the largest logit when the loss was last evaluated, over all contexts.
    pub(super) fn hits(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.hits).sum()
    }

    pub(super) fn dataset(&self) -> &Dataset {
        self.dataset.as_ref()
    }

    /// Visits what the output reads, or the logits, of every context, in the order of the trie.
    pub(super) fn for_each_row_while<S: Send>(
        &mut self,
        layer: ProbePoint,
        parameters: &[T],
        go_on: impl Fn() -> bool + Sync,
        start: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, usize, &[T]) + Sync,
    ) -> Vec<S> {
        assert!(layer != ProbePoint::Mixed, "a model of blocks mixes in every block");
        let mut states: Vec<S> = self.whole.lanes.iter().map(|_| start()).collect();
        let ask = || if go_on() { Ok(()) } else { Err(Stopped) };
        let (lanes, part, shared) = self.parts(None, parameters);
        lanes.par_iter_mut().zip(&part.lanes).zip(&mut states).for_each(|((lane, chunks), state)| {
            for chunk in &part.chunks[chunks.clone()] {
                if forward(lane, shared, chunk, ask).is_err() {
                    return;
                }
                if layer == ProbePoint::Read {
                    let rows = lane.read(chunk.scored.len(), shared.s).zip(&chunk.scored);
                    rows.for_each(|(row, &(_, context))| visit(state, context as usize, row));
                    continue;
                }
                for rows in lane.row_blocks(chunk) {
                    if !go_on() {
                        return;
                    }
                    run(Output { lane, shared, chunk, rows: rows.clone(), until: Until::Logits });
                    let rows = lane.logits(rows.len(), shared.s).zip(&chunk.scored[rows]);
                    rows.for_each(|(row, &(_, context))| visit(state, context as usize, row));
                }
            }
        });
        states
    }

    /// The lanes of a batch or of all contexts, its chunks, and the weights for all of them.
    fn parts<'a>(
        &'a mut self,
        batch: Option<usize>,
        parameters: &'a [T],
    ) -> (&'a mut [Lane<T>], &'a Part, Shared<'a, T>) {
        if self.lanes.is_empty() {
            self.make_lanes();
        }
        let Self { config, blocks, dataset, layout, s, weights, whole, batches, lanes, .. } = self;
        weights.pack(parameters, layout, *s);
        let part = batch.map_or(&*whole, |batch| &batches[batch]);
        let lanes = &mut lanes[..part.lanes.len()];
        let tables = (&parameters[layout.w_e.clone()], &parameters[layout.w_pos.clone()]);
        let dataset = (*dataset).as_ref();
        (lanes, part, Shared { config, blocks, dataset, weights, tables, s: *s })
    }
}

/// Replaces for the first chunk of a lane, adds for the others.
#[derive(Default)]
struct Updates(bool);

impl Iterator for Updates {
    type Item = Update;
    fn next(&mut self) -> Option<Update> {
        Some(if std::mem::replace(&mut self.0, true) { Update::Add } else { Update::Replace })
    }
}

/// Takes a chunk to what the output reads.
fn forward<T: Real>(
    lane: &mut Lane<T>,
    shared: Shared<'_, T>,
    chunk: &Chunk,
    ask: impl Fn() -> Result<(), Stopped>,
) -> Result<(), Stopped> {
    run(Embed { lane, shared, chunk });
    for block in 0..shared.blocks.n_layers as usize {
        ask()?;
        run(Forward { lane, shared, chunk, block });
    }
    run(Read { lane, shared, chunk });
    Ok(())
}

/// Takes a chunk from the derivatives of what the output reads to those of all weights.
fn backward<T: Real>(
    lane: &mut Lane<T>,
    shared: Shared<'_, T>,
    chunk: &Chunk,
    update: Update,
    ask: impl Fn() -> Result<(), Stopped>,
) -> Result<(), Stopped> {
    run(ReadBack { lane, shared, chunk });
    for block in (0..shared.blocks.n_layers as usize).rev() {
        ask()?;
        if lane.rewind(block) {
            run(Forward { lane, shared, chunk, block });
        }
        run(Backward { lane, shared, chunk, block, update });
    }
    run(EmbedBack { lane, chunk, s: shared.s });
    Ok(())
}
