//! The distinct beginnings of a set of contexts.
//!
//! In a causal model what happens at a position depends on the tokens up to it, so contexts that share a beginning share its
//! enclosures: there is one per node of the trie and block.

use crate::dataset::Dataset;
use std::collections::BTreeMap;

/// A node: the last token of a beginning, and the beginning without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The token.
    pub token: u32,
    /// Its position, from 0.
    pub position: usize,
    /// The node before it; none for the first position.
    pub parent: Option<usize>,
}

/// The nodes of all contexts, each after its parent.
#[derive(Debug, Default)]
pub struct Trie {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The last node of each context.
    pub ends: Vec<usize>,
}

impl Trie {
    /// The trie of the contexts of a dataset.
    pub fn of(dataset: &Dataset) -> Self {
        let mut trie = Self::default();
        let mut known: BTreeMap<(Option<usize>, u32), usize> = BTreeMap::new();
        for context in 0..dataset.len() {
            let mut parent = None;
            for (position, token) in dataset.tokens_of(context).into_iter().enumerate() {
                let next = trie.nodes.len();
                let node = *known.entry((parent, token)).or_insert(next);
                if node == next {
                    trie.nodes.push(Node { token, position, parent });
                }
                parent = Some(node);
            }
            trie.ends.push(parent.unwrap_or_default());
        }
        trie
    }

    /// The nodes from the first position to this one.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(Some(node), |&n| self.nodes[n].parent).collect();
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_shared() {
        let next = || vec![(0, 1.0)];
        let contexts =
            [(vec![1], next()), (vec![1, 2], next()), (vec![1, 2, 0], next()), (vec![2, 0, 0], next())];
        let trie = Trie::of(&Dataset::new(3, 3, contexts).unwrap());
        assert_eq!((trie.nodes.len(), trie.ends.len()), (6, 4));
        for (context, end) in trie.ends.iter().enumerate() {
            let path = trie.path(*end);
            assert!(path.iter().enumerate().all(|(s, &n)| trie.nodes[n].position == s), "{context}");
        }
        let long = trie.path(trie.ends[2]);
        assert_eq!(long.iter().map(|&n| trie.nodes[n].token).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
