//! How many contexts the heads and the skip connection can distinguish.
//!
//! The construction solves a linear system whose unknowns multiply the features F of the contexts (one column each):
//! the values of every head, then the embedded last token x_S = e(t_S) + pos_S. So it stores at most rank F of them in
//! general position,
//!
//! ```text
//! rank F <= H min(d_h, d) + min(d, skip),        skip = tokens + positions - components
//! ```
//!
//! where `skip` is the dimension spanned by the vectors e(t) + p(S) of the last tokens: the graph that joins a token t
//! and a length S wherever a context of length S ends in t determines it. With a single length it is the number of
//! distinct last tokens (E4). A head adds min(d_h, d), not d_h (E5). A context of one token has only itself as a key:
//! every head returns it unchanged, so such contexts span at most d dimensions together with the skip connection,
//! whatever H (E7). The bound is not always reached (E11): the rank of the features decides.
//!
//! dana2024 (arXiv:2411.10115), Theorem 1, Corollaries 1 and 2, with the corrections of docs/errata.md.

use crate::dataset::Dataset;
use serde::Serialize;
use std::collections::BTreeMap;

/// The properties of the contexts that determine the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Census {
    /// The number of contexts, T_0.
    pub contexts: usize,
    /// The number of distinct last tokens.
    pub distinct_last_tokens: usize,
    /// The dimension that the embedded last tokens span if d_model allows it.
    pub skip_rank: usize,
    /// The number of contexts of one token.
    pub one_token_contexts: usize,
    /// The length of the longest context.
    pub longest: usize,
}

impl Census {
    /// Counts the contexts of a dataset.
    pub fn of(dataset: &Dataset) -> Self {
        let mut last = BTreeMap::new();
        let (mut lengths, mut one_token_contexts, mut longest) = (BTreeMap::new(), 0, 0);
        for context in 0..dataset.len() {
            let places = dataset.places_of(context);
            longest = longest.max(places.len());
            one_token_contexts += usize::from(places.len() == 1);
            if let Some(&place) = places.last() {
                let (token, position) = dataset.places[place as usize];
                last.insert((token, position), ());
                lengths.insert(position, 0usize);
            }
        }
        let mut tokens: BTreeMap<u32, usize> = last.keys().map(|&(t, _)| (t, 0)).collect();
        // Tokens and positions as nodes of one graph, joined by union-find.
        let n_tokens = tokens.len();
        tokens.values_mut().zip(0..).for_each(|(node, i)| *node = i);
        lengths.values_mut().zip(n_tokens..).for_each(|(node, i)| *node = i);
        let mut parent: Vec<usize> = (0..n_tokens + lengths.len()).collect();
        let mut components = parent.len();
        for (token, position) in last.keys() {
            let (a, b) = (root(&mut parent, tokens[token]), root(&mut parent, lengths[position]));
            if a != b {
                parent[a] = b;
                components -= 1;
            }
        }
        Self {
            contexts: dataset.len(),
            distinct_last_tokens: n_tokens,
            skip_rank: parent.len() - components,
            one_token_contexts,
            longest,
        }
    }

    /// Returns the maximum number of contexts that a model can distinguish, H min(d_h, d) + min(d, skip); without the
    /// heads' part if every context has one token.
    pub fn capacity(&self, d_model: u64, n_heads: u64, d_head: u64) -> usize {
        let skip = self.skip_rank.min(d_model as usize);
        let heads = if self.longest > 1 { n_heads.saturating_mul(d_head.min(d_model)) } else { 0 };
        skip.saturating_add(usize::try_from(heads).unwrap_or(usize::MAX))
    }

    /// Returns the number of heads that the contexts need by this count, at least one.
    pub fn heads(&self, d_model: u64, d_head: u64) -> u64 {
        let rest = self.contexts.saturating_sub(self.skip_rank.min(d_model as usize)) as u64;
        rest.div_ceil(d_head.min(d_model).max(1)).max(1)
    }
}

fn root(parent: &mut [usize], mut node: usize) -> usize {
    while parent[node] != node {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    node
}

/// Corollary 2's figure, 1/N + (1 - 1/N) X / T_0 with X = min(capacity, T_0): the accuracy of a model that stores X
/// contexts and guesses the rest, averaged over random labels. It is not a guarantee (E8).
pub fn corollary2(capacity: usize, contexts: usize, d_vocab: u64) -> f64 {
    let chance = 1.0 / d_vocab as f64;
    let stored = capacity.min(contexts) as f64 / contexts.max(1) as f64;
    chance + (1.0 - chance) * stored
}

/// The contexts from the most frequent to the rarest; ties in the order of the dataset.
pub fn by_frequency(dataset: &Dataset) -> Vec<usize> {
    let mut order: Vec<usize> = (0..dataset.len()).collect();
    order.sort_by(|&a, &b| dataset.counts[b].total_cmp(&dataset.counts[a]).then(a.cmp(&b)));
    order
}

/// T_eps: the smallest number of contexts whose counts add up to at least 1 - eps of all.
pub fn t_epsilon(dataset: &Dataset, epsilon: f64) -> usize {
    let enough = (1.0 - epsilon - 1e-12) * dataset.predictions();
    let mut sum = 0.0;
    let order = by_frequency(dataset);
    order
        .iter()
        .position(|&context| {
            sum += dataset.counts[context];
            sum >= enough
        })
        .map_or(order.len(), |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::dana2024::examples::*;
    use crate::dataset::examples::letters;

    #[test]
    fn the_skip_adds_the_distinct_last_tokens_and_a_head_min_of_its_dimensions() {
        // E4: d = 10, d_h = 4, H = 10, T_0 = 50 with 1, 3, 9, 10 distinct last tokens: 41, 43, 49, 50.
        for (distinct, capacity) in [(1, 41), (3, 43), (9, 49), (10, 50), (30, 50)] {
            let census = Census::of(&pairs_ending_in(50, distinct, 50));
            assert_eq!(census.distinct_last_tokens, distinct as usize);
            assert_eq!(census.capacity(10, 10, 4), capacity, "{distinct}");
        }
        // E5: (d, d_h, H) = (2, 5, 19): 40, not 97; (4, 6, 10): 44, not 64.
        let census = Census::of(&pairs_ending_in(50, 50, 200));
        assert_eq!((census.capacity(2, 19, 5), census.capacity(4, 10, 6)), (40, 44));
    }

    #[test]
    fn lengths_add_a_dimension_unless_they_are_apart() {
        // a -> b, ab -> c: last tokens (a, 1), (b, 2), two components: rank 2.
        let (dataset, _) = letters("abc");
        assert_eq!(Census::of(&dataset).skip_rank, 2);
        // a, ab, b, ba: (a,1) (b,2) (b,1) (a,2): a cycle of four vectors that spans three dimensions.
        let (dataset, _) = letters("abc bac");
        let census = Census::of(&dataset);
        assert_eq!((census.contexts, census.skip_rank, census.distinct_last_tokens), (4, 3, 2));
        assert_eq!((census.one_token_contexts, census.longest), (2, 2));
    }

    #[test]
    fn one_token_contexts_have_the_skip_alone() {
        // E7: S = 1, d = 4, H = 5, 24 tokens.
        let dataset = of_contexts(24, (0..24).map(|t| (vec![t], 1.0, vec![(t, 1.0)])));
        let census = Census::of(&dataset);
        assert_eq!((census.capacity(4, 5, 4), census.one_token_contexts), (4, 24));
    }

    #[test]
    fn corollary_2_has_the_values_of_the_paper_s_setting() {
        // N = 50, T_0 = 2500: X = 210 gives 1/50 + 49/50 * 210/2500 = 0.10232; X = 1040 gives 0.42768.
        assert!((corollary2(210, 2500, 50) - 0.10232).abs() < 1e-15);
        assert!((corollary2(1040, 2500, 50) - 0.42768).abs() < 1e-15);
        assert_eq!(corollary2(9999, 2500, 50), 1.0);
    }

    #[test]
    fn t_epsilon_counts_the_most_frequent_first() {
        let counts = [1.0, 5.0, 3.0, 1.0];
        let dataset = of_contexts(5, (0..4u32).map(|t| (vec![t, 0], counts[t as usize], vec![(0, 1.0)])));
        assert_eq!(by_frequency(&dataset), [1, 2, 0, 3]);
        assert_eq!([0.0, 0.1, 0.2, 0.5, 1.0].map(|e| t_epsilon(&dataset, e)), [4, 3, 2, 1, 1]);
    }
}
