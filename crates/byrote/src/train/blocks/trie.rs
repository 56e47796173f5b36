//! The trie of the contexts, cut into chunks that can be evaluated on their own.
//!
//! In a causal model the residual stream at a token depends on the tokens up to it only. So contexts that share a beginning
//! share all work on it: there is one *node* per distinct prefix of a context, and a node attends to its ancestors and itself.
//!
//! Nodes are listed in preorder, children in the order of their tokens. A chunk is a range of nodes with the ancestors of its
//! first node in front; these are evaluated again, but their own predictions belong to another chunk.

use crate::dataset::Dataset;
use crate::num::aligned::padded;
use std::ops::Range;

/// No parent.
pub(super) const NONE: u32 = u32::MAX;

/// Distinct prefixes of contexts, in preorder.
struct Nodes {
    tokens: Vec<u32>,
    /// The number of tokens of the prefix.
    depths: Vec<u32>,
    parents: Vec<u32>,
    /// The context of the dataset that ends here, or [`NONE`].
    contexts: Vec<u32>,
    /// What the loss of that context is multiplied by.
    factors: Vec<f64>,
}

impl Nodes {
    /// The prefixes of some contexts, listed [in order](ordered).
    fn new(dataset: &Dataset, contexts: &[Weighted]) -> Self {
        let tokens_of = |i: u32| tokens_of(dataset, i);
        let mut nodes = Self {
            tokens: Vec::new(),
            depths: Vec::new(),
            parents: Vec::new(),
            contexts: Vec::new(),
            factors: Vec::new(),
        };
        // The nodes on the way to the last context.
        let mut path: Vec<u32> = Vec::new();
        for &(context, factor) in contexts {
            let same = path.iter().zip(tokens_of(context));
            let shared = same.take_while(|&(&node, token)| nodes.tokens[node as usize] == token).count();
            path.truncate(shared);
            for token in tokens_of(context).skip(shared) {
                let node = nodes.tokens.len() as u32;
                nodes.tokens.push(token);
                nodes.parents.push(path.last().copied().unwrap_or(NONE));
                path.push(node);
                nodes.depths.push(path.len() as u32);
                nodes.contexts.push(NONE);
                nodes.factors.push(0.0);
            }
            if let Some(&node) = path.last() {
                nodes.contexts[node as usize] = context;
                nodes.factors[node as usize] = factor;
            }
        }
        nodes
    }

    fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Where to cut near `at`, between `from` and `to`: at the shallowest node, which has the fewest ancestors to repeat.
    fn cut(&self, from: usize, at: usize, to: usize) -> usize {
        (from..to).min_by_key(|&i| (self.depths[i], i.abs_diff(at))).unwrap_or(at)
    }

    /// The same between two lanes, which may wait for each other: neither should have many more nodes than the other, repeated ones
    /// included.
    fn cut_evenly(&self, from: usize, at: usize, to: usize) -> usize {
        (from..to).min_by_key(|&i| self.depths[i] as usize + i.abs_diff(at)).unwrap_or(at)
    }

    /// The chunk of a range of nodes.
    fn chunk(&self, range: Range<usize>) -> Chunk {
        let mut ancestors = Vec::new();
        let mut parent = self.parents.get(range.start).copied().unwrap_or(NONE);
        while parent != NONE {
            ancestors.push(parent as usize);
            parent = self.parents[parent as usize];
        }
        ancestors.reverse();
        let repeated = ancestors.len();
        let mut chunk = Chunk::default();
        let mut path: Vec<u32> = Vec::new();
        for (row, node) in ancestors.into_iter().chain(range).enumerate() {
            let depth = self.depths[node];
            path.truncate(depth as usize - 1);
            chunk.tokens.push(self.tokens[node]);
            chunk.depths.push(depth);
            chunk.parents.push(path.last().copied().unwrap_or(NONE));
            path.push(row as u32);
            chunk.weight_starts.push(chunk.weights);
            chunk.weights += padded(depth as usize);
            if row >= repeated && self.contexts[node] != NONE {
                chunk.scored.push((row as u32, self.contexts[node]));
                chunk.factors.push(self.factors[node]);
            }
        }
        chunk.deepest = chunk.depths.iter().copied().max().unwrap_or(0) as usize;
        chunk
    }
}

/// A range of nodes with the ancestors of the first one in front.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) tokens: Vec<u32>,
    /// From 1.
    pub(super) depths: Vec<u32>,
    /// Rows of this chunk.
    pub(super) parents: Vec<u32>,
    /// Rows that are contexts to predict from, with their index in the dataset.
    pub(super) scored: Vec<(u32, u32)>,
    /// What the loss of each of these is multiplied by.
    pub(super) factors: Vec<f64>,
    /// Where the attention weights of each row begin, for one head, and their number: whole lines per row.
    pub(super) weight_starts: Vec<usize>,
    pub(super) weights: usize,
    /// The largest depth.
    pub(super) deepest: usize,
}

impl Chunk {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// A context, by its index in the dataset, and what its loss is multiplied by.
pub(super) type Weighted = (u32, f64);

pub(super) fn tokens_of(dataset: &Dataset, context: u32) -> impl Iterator<Item = u32> {
    dataset.places_of(context as usize).iter().map(|&place| dataset.places[place as usize].0)
}

/// All contexts of a dataset in the order of the trie: each directly follows its beginnings.
pub(super) fn ordered(dataset: &Dataset) -> Vec<u32> {
    let tokens: Vec<u32> =
        dataset.context_places.iter().map(|&place| dataset.places[place as usize].0).collect();
    let of = |context: u32| {
        &tokens[dataset.context_starts[context as usize]..dataset.context_starts[context as usize + 1]]
    };
    let mut order: Vec<u32> = (0..dataset.len() as u32).collect();
    order.sort_by(|&a, &b| of(a).cmp(of(b)));
    order
}

/// The number of distinct beginnings of the contexts: the nodes of the trie.
pub(crate) fn prefixes(dataset: &Dataset) -> usize {
    let contexts: Vec<Weighted> = ordered(dataset).into_iter().map(|context| (context, 1.0)).collect();
    Nodes::new(dataset, &contexts).len()
}

/// Contexts whose trie is evaluated together: its chunks, and those of each lane.
pub(super) struct Part {
    pub(super) chunks: Vec<Chunk>,
    pub(super) lanes: Vec<Range<usize>>,
}

/// Cuts the trie of some contexts, listed [in order](ordered), into a number of chunks per lane, for a number of lanes.
pub(super) fn part(dataset: &Dataset, contexts: &[Weighted], plan: impl Fn(usize) -> (usize, usize)) -> Part {
    let nodes = Nodes::new(dataset, contexts);
    let n = nodes.len();
    let (n_lanes, per_lane) = plan(n);
    let total = n_lanes * per_lane;
    let step = n.div_ceil(total.max(1)).max(1);
    let mut cuts = vec![0];
    for i in 1..total {
        // A chunk may be up to half longer or shorter for a good cut.
        let (at, last) = (i * step, cuts[cuts.len() - 1]);
        let (from, to) = ((at - step / 4).max(last + 1), (at + step / 4 + 1).min(n));
        cuts.push(if from >= to {
            n.min(at).max(last)
        } else if i.is_multiple_of(per_lane) {
            nodes.cut_evenly(from, at, to)
        } else {
            nodes.cut(from, at, to)
        });
    }
    cuts.push(n);
    let chunks = cuts.windows(2).map(|w| nodes.chunk(w[0]..w[1])).collect();
    let lanes = (0..n_lanes).map(|lane| lane * per_lane..(lane + 1) * per_lane).collect();
    Part { chunks, lanes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::examples;

    /// Every context is scored once, below its tokens, whatever the chunks.
    fn check(dataset: &Dataset, lanes: usize, per_lane: usize) {
        let all: Vec<Weighted> = ordered(dataset).into_iter().map(|context| (context, 1.0)).collect();
        let Part { chunks, lanes: ranges } = part(dataset, &all, |_| (lanes, per_lane));
        assert_eq!((chunks.len(), ranges.len()), (lanes * per_lane, lanes));
        let mut scored = Vec::new();
        for chunk in &chunks {
            for row in 0..chunk.len() {
                let parent = chunk.parents[row];
                let depth = if parent == NONE { 0 } else { chunk.depths[parent as usize] };
                assert!(chunk.depths[row] == depth + 1 && (parent == NONE || (parent as usize) < row));
            }
            for &(row, context) in &chunk.scored {
                let (mut row, mut tokens) = (row, Vec::new());
                while row != NONE {
                    tokens.push(chunk.tokens[row as usize]);
                    row = chunk.parents[row as usize];
                }
                tokens.reverse();
                assert_eq!(tokens, dataset.tokens_of(context as usize));
                scored.push(context);
            }
        }
        scored.sort_unstable();
        assert_eq!(scored, (0..dataset.len() as u32).collect::<Vec<_>>());
    }

    #[test]
    fn chunks_score_every_context_once() {
        let (dataset, _) = examples::text("a b c d e\na b c x\na b\nb a\nb a c\nc\nd d d d d\n");
        for (lanes, per_lane) in [(1, 1), (1, 2), (2, 2), (3, 5), (4, 9)] {
            check(&dataset, lanes, per_lane);
        }
        // Contexts whose beginnings are no contexts themselves, out of order.
        let contexts =
            [(vec![1, 2], vec![(0, 1.0)]), (vec![1, 0, 2], vec![(1, 2.0)]), (vec![0], vec![(1, 1.0)])];
        let dataset = Dataset::new(3, 3, contexts).unwrap();
        assert_eq!(prefixes(&dataset), 5, "1, 1 0, 1 0 2, 1 2 and 0");
        for (lanes, per_lane) in [(1, 1), (2, 1), (1, 7)] {
            check(&dataset, lanes, per_lane);
        }
    }
}
