//! The construction with a worst-case guarantee: contextual map, lookup, scan.
//!
//! ```text
//! P = 4K + 3 kappa + 2 + 1  +  lookup  +  sum_{j<m} (3 L_j + 7) + 2,
//! lookup = 6 (B - 1) + 1  or  3 (B - 1) + 1 + 3 F
//! ```
//!
//! weights are not 0 (one less where an output bias or a threshold happens to be 0). The block size m is chosen for the data
//! among all m near the optimum, 1, N, and m_0 = isqrt(l N / b) + 1, where l is the 6 or 3 of the lookup and
//! b = 3 (1 + bl(C (R + 1))) + 7 is the maximum cost of a word. The dense count has its own constants; see
//! [`bounds::kajitsuka2024`](crate::bounds::kajitsuka2024).
//!
//! *Guarantee.* At m_0 both l (B - 1) < l N / m_0 and b (m_0 - 1) are at most sqrt(l b N), so for every data set
//!
//! ```text
//! P <= 2 sqrt(6 b N) + 4K + 3 kappa + 6                      with steps,
//! P <= 2 sqrt(3 b N) + 4K + 3 kappa + 3 (bl(R) + 4) + 6      with slopes.
//! ```

use super::blocks::{Blocks, Cut, widths};
use super::context_map::{ContextMap, Fact};
use super::dyadic::Dyadic;
use super::exact_network::{Channel, ExactNetwork, Readout};
use super::lookup::{Lookup, estimated_folds};
use super::word_scan;
use rayon::prelude::*;

/// Choices that the builder makes for the data unless they are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choices {
    /// The lookup.
    pub lookup: Option<Lookup>,
    /// m: facts per block.
    pub block: Option<usize>,
    /// One set of weights for all words but the first.
    pub looped: bool,
}

/// Facts per block of the looped variant by default: longer blocks only save lookups, and every additional word slows
/// down every answer.
const LOOPED_BLOCK: usize = 512;

/// Builds the network for facts whose ids this map computes.
pub fn build(map: &ContextMap, facts: &[Fact], labels: u32, choices: Choices) -> ExactNetwork {
    let lookups = choices.lookup.map_or_else(|| Lookup::ALL.to_vec(), |lookup| vec![lookup]);
    let networks = lookups.into_iter().map(|lookup| {
        let size = match choices.block {
            Some(size) => size.clamp(1, facts.len()),
            None if choices.looped => LOOPED_BLOCK.min(facts.len()),
            None => best_block(map, facts, labels, lookup),
        };
        with(map, facts, labels, lookup, size, choices.looped)
    });
    // Only a built network has an exact count. The first wins a tie.
    networks.min_by_key(|n| n.tally().nonzero).unwrap_or_default()
}

fn with(
    map: &ContextMap,
    facts: &[Fact],
    labels: u32,
    lookup: Lookup,
    size: usize,
    looped: bool,
) -> ExactNetwork {
    let looped = looped && Cut::new(facts.len(), size).words() > 1;
    let blocks = Blocks::new(facts, labels, size, looped);
    let mut stages = map.stages(labels);
    stages.push(lookup.stage(&blocks));
    stages.extend(if looped { word_scan::looped(&blocks) } else { word_scan::untied(&blocks) });
    ExactNetwork {
        tokens: map.tokens.clone(),
        positions: map.positions.clone(),
        stages,
        head: Readout { weight: Some((Channel::U, (-1).into())), bias: Dyadic::default() },
    }
}

/// b: the maximum cost of a word.
fn word_cost(map: &ContextMap, labels: u32) -> usize {
    let keys = u128::from(labels) * u128::from(map.ids() + 1);
    3 * (1 + (u128::BITS - keys.leading_zeros()) as usize) + 7
}

/// The maximum number of non-zero weights of the network for `facts` facts under a map.
pub fn guarantee(map: &ContextMap, facts: usize, labels: u32, lookup: Lookup) -> usize {
    let l = lookup.per_block();
    let variable = (4 * l * word_cost(map, labels) * facts).isqrt() + 1;
    let folds = match lookup {
        Lookup::Steps => 0,
        Lookup::Slopes => (u64::BITS - map.ids().leading_zeros()) as usize + 4,
    };
    variable + 4 * map.squares() + 3 * map.folds() + 3 * folds + 6
}

/// The block size with the fewest non-zero weights.
fn best_block(map: &ContextMap, facts: &[Fact], labels: u32, lookup: Lookup) -> usize {
    let n = facts.len();
    let l = lookup.per_block();
    let near = (l * n / 50).isqrt().max(1);
    let guaranteed = (l * n / word_cost(map, labels)).isqrt() + 1;
    let mut sizes: Vec<usize> = (near / 3..=3 * near + 3).chain([1, n, guaranteed]).collect();
    // Sizes that give the same number of blocks give the same partition.
    sizes.iter_mut().for_each(|m| *m = Cut::new(n, (*m).clamp(1, n)).words());
    sizes.sort_unstable();
    sizes.dedup();
    let cost = |&size: &usize| {
        let cut = Cut::new(n, size);
        let words = widths(facts, labels, cut, false);
        let scan: usize = words[..words.len() - 1].iter().map(|l| 3 * l + 7).sum();
        let folds = match lookup {
            Lookup::Steps => 0,
            Lookup::Slopes => {
                let ends = |end: fn(&[Fact]) -> Option<&Fact>| {
                    cut.blocks(facts).filter_map(end).map(|f| f.id).collect::<Vec<u64>>()
                };
                estimated_folds(&ends(<[Fact]>::first), &ends(<[Fact]>::last))
            }
        };
        (scan + l * cut.count() + 3 * folds, size)
    };
    sizes.par_iter().map(cost).min().map_or(1, |(_, size)| size)
}

#[cfg(test)]
mod tests {
    use super::super::exact_network::{StagePurpose, SubLayer};
    use super::super::interpret::{channel, trace};
    use super::super::task::examples::samples;
    use super::super::task::{Goal, Samples, Task, Visibility};
    use super::*;
    use crate::bounds::kajitsuka2024::{IdMap, ub_params};
    use crate::model::Counting;
    use proptest::prelude::*;

    const DATA: [(&[u32], &[u32]); 5] =
        [(&[0], &[2]), (&[1], &[0]), (&[0, 1], &[1]), (&[1, 0], &[2]), (&[1, 1], &[1])];

    fn golden() -> (Samples, ContextMap) {
        let task = Task {
            goal: Goal::Next,
            attention: Visibility::Causal,
            padded: false,
            d_vocab: 2,
            n_ctx: 2,
            labels: 3,
        };
        let map = ContextMap { tokens: vec![10, 8], positions: vec![4, 8], lambda: 2u8.into(), modulus: 29 };
        (samples(task, &DATA), map)
    }

    #[test]
    fn the_golden_example_is_reproduced_number_by_number() {
        let (samples, map) = golden();
        let facts = map.facts(&samples);
        let blocks = Blocks::new(&facts, 3, 3, false);
        assert_eq!(blocks.packed[0], 2087u32.into());
        assert_eq!(&blocks.packed[1] - &blocks.packed[0], 4169u32.into());
        assert_eq!(blocks.first[1] * 3, 24);
        assert_eq!((blocks.widths, blocks.rest, blocks.shift), (vec![6, 4, 3], vec![7, 3, 0], vec![8, 4, 0]));
        let choices = Choices { lookup: Some(Lookup::Steps), block: Some(3), looped: false };
        let network = build(&map, &facts, 3, choices);
        assert_eq!(network.tally().nonzero, 91);
        assert_eq!((network.width(), network.channels()), (2, 3));
        // Query (0, 1): U and Z at the read position after every layer.
        let mut seen = Vec::new();
        let out = trace(&network, &[0, 1], 1, |layer, state| {
            let [u, z] = [Channel::U, Channel::Z].map(|c| channel(state, c).to_string());
            seen.push((matches!(layer, SubLayer::Attend { .. }), u, z));
        });
        assert_eq!(out, Some(1.into()));
        let u = |i: usize| seen[i].1.as_str();
        let z = |i: usize| seen[i].2.as_str();
        assert_eq!(u(4), "192"); // after five squares: f = 64
        assert!(seen[5].0);
        assert_eq!([5, 6, 7, 8, 9, 10].map(u), ["531", "531", "165", "165", "9", "9"]);
        assert_eq!(z(11), "2087"); // lookup
        // Word 1: six folds, end read, kill; then word 2: four folds, end read, kill; then the last read.
        assert_eq!((u(18), z(18), u(19), z(19)), ("1", "39", "1", "39"));
        assert_eq!((u(24), z(24)), ("-1", "7"));
        assert_eq!((u(25), z(25), u(26), z(26)), ("-1", "-9", "-1", "-9"));
        assert_eq!(seen.len(), 27);
        assert_eq!(network.tally().depth, 27);
    }

    #[test]
    fn left_to_itself_the_builder_takes_blocks_of_one() {
        let (samples, map) = golden();
        let steps = Choices { lookup: Some(Lookup::Steps), ..Choices::default() };
        assert_eq!(build(&map, &map.facts(&samples), 3, steps).tally().nonzero, 65);
    }

    #[test]
    fn the_formula_is_the_count() {
        let (samples, map) = golden();
        let network = build(
            &map,
            &map.facts(&samples),
            3,
            Choices { lookup: Some(Lookup::Steps), block: Some(3), looped: false },
        );
        let of = |part: StagePurpose| network.tallies().into_iter().find(|t| t.0 == part).unwrap().1.nonzero;
        // K = 5, kappa = 5, B = 2, L = (6, 4, -).
        assert_eq!(
            [StagePurpose::Square, StagePurpose::Attention, StagePurpose::Reduce].map(of),
            [20, 2, 15]
        );
        assert_eq!(
            [StagePurpose::Lookup, StagePurpose::Scan, StagePurpose::Head].map(of),
            [7, (18 + 7) + (12 + 7) + 2, 1]
        );
    }

    proptest! {
        #[test]
        fn the_dense_count_keeps_the_bound_of_its_row(
            ids in prop::collection::btree_set(0u64..4000, 2..300), labels in 2u32..12
        ) {
            let map = ContextMap { tokens: vec![5], positions: vec![2], lambda: 1u8.into(), modulus: 8001 };
            let facts: Vec<Fact> =
                ids.into_iter().enumerate().map(|(i, id)| Fact { id, label: (i as u32 * 7 + 3) % labels }).collect();
            let sizes = IdMap {
                ids: map.ids().into(),
                id_bits: u64::BITS - map.ids().leading_zeros(),
                square_layers: map.squares() as u32,
                fold_layers: map.folds() as u32,
            };
            let keys = u64::from(labels) * (map.ids() + 1);
            let word = 10 * (1 + (u64::BITS - keys.leading_zeros()) as usize) + 30;
            let size = (17 * facts.len() / word).isqrt() + 1;
            let dense = with(&map, &facts, labels, Lookup::Steps, size, false).tally().dense as u128;
            let most = ub_params(Counting::Dense, facts.len() as u128, labels.into(), &sizes);
            prop_assert!(dense <= most, "{dense} entries, at most {most}");
        }

        #[test]
        fn the_formula_is_the_count_on_any_data(
            ids in prop::collection::btree_set(0u64..4000, 2..80), labels in 2u32..12, size in 1usize..30, looped in any::<bool>()
        ) {
            let map = ContextMap { tokens: vec![5], positions: vec![2], lambda: 1u8.into(), modulus: 8001 };
            let label = |i: usize| (i as u32 * 7 + 3) % labels;
            let facts: Vec<Fact> =
                ids.into_iter().enumerate().map(|(i, id)| Fact { id, label: label(i) }).collect();
            for lookup in Lookup::ALL {
                let network = with(&map, &facts, labels, lookup, size, looped);
                let tied = looped && Cut::new(facts.len(), size).words() > 1;
                let blocks = Blocks::new(&facts, labels, size, tied);
                let (steps, m) = (lookup.per_block() * (blocks.len() - 1), blocks.words());
                let stage = lookup.stage(&blocks);
                let folds = stage.layers.len() - (blocks.len() - 1).max(1);
                // The output bias of the first layer is the word of the first block where that is not 0.
                let biased = |l: &SubLayer| matches!(l, SubLayer::Feed { bias, .. } if !bias.is_empty());
                let bias = stage.layers.iter().any(biased);
                let scan = match tied {
                    true => (3 * blocks.widths[0] + 7) + (3 * blocks.widths[1] + 9),
                    false => blocks.widths[..m - 1].iter().map(|l| 3 * l + 7).sum::<usize>() + 2,
                };
                let count = 4 * map.squares() + 3 * map.folds() + 2 + 1 + steps + usize::from(bias) + 3 * folds + scan;
                prop_assert_eq!(network.tally().nonzero, count);
            }
        }
    }
}
