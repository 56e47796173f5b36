//! The set of distinct contexts with counts and next-token distributions: the input of everything after the corpus.
//!
//! The set is stored as the prefix trie of the documents, one level per context length. The nodes of a level are in
//! lexicographic order, and the children of a node are adjacent in the next level, so a context's next-token
//! distribution *is* a slice of that level: no context is stored twice, and no distribution is stored separately from
//! the contexts it leads to.

use super::count::sort::RowVisitor;
use super::window::ContextRule;
use crate::num::hash::Fnv;

/// The trie nodes of one depth, in lexicographic order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Level {
    /// The last token of each node's prefix.
    token: Vec<u32>,
    /// How often the prefix counts as a continuation of its parent: the number of documents through it or, under
    /// [`ContextRule::Full`], the number that end at it.
    weight: Vec<u64>,
    /// The node of the level above.
    parent: Vec<u32>,
    /// Where the children begin in the level below; one entry more than there are nodes.
    children: Vec<u32>,
}

/// Distinct contexts with counts and sparse next-token distributions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSet {
    levels: Vec<Level>,
    contexts: usize,
}

/// One context of a [`ContextSet`].
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    set: &'a ContextSet,
    level: usize,
    node: usize,
}

impl ContextSet {
    /// Returns the number of contexts.
    pub fn len(&self) -> usize {
        self.contexts
    }

    /// Whether there are no contexts.
    pub fn is_empty(&self) -> bool {
        self.contexts == 0
    }

    /// Returns a hash of the contexts and their counts, which identifies the set together with its vocabulary.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv::new();
        for level in &self.levels {
            hash.write(&(level.token.len() as u64).to_le_bytes());
            for ((token, weight), parent) in level.token.iter().zip(&level.weight).zip(&level.parent) {
                hash.write(&token.to_le_bytes());
                hash.write(&weight.to_le_bytes());
                hash.write(&parent.to_le_bytes());
            }
        }
        hash.finish()
    }

    /// Returns the tokens that contexts begin with, each with how often it begins one that is followed by a token.
    pub fn first_tokens(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let first = self.levels.first().map_or(0, |level| level.token.len());
        let contexts = (0..first).map(move |node| Context { set: self, level: 0, node });
        contexts.map(move |c| (self.levels[0].token[c.node], c.count()))
    }

    /// Returns the node of these tokens; none if no document begins with them. It is a context if its count is not 0.
    pub fn find(&self, tokens: &[u32]) -> Option<Context<'_>> {
        let mut among = 0..self.levels.first()?.token.len();
        let mut found = None;
        for (level, token) in tokens.iter().enumerate() {
            let own = self.levels.get(level)?;
            // The children of a node are in the order of their tokens.
            let node = among.start + own.token[among].binary_search(token).ok()?;
            among = own.children[node] as usize..own.children[node + 1] as usize;
            found = Some(Context { set: self, level, node });
        }
        found
    }

    /// Iterates over the contexts, shortest first, in lexicographic order within a length.
    pub fn iter(&self) -> impl Iterator<Item = Context<'_>> {
        let all = (0..self.levels.len())
            .flat_map(move |level| (0..self.levels[level].token.len()).map(move |node| (level, node)));
        all.map(move |(level, node)| Context { set: self, level, node }).filter(|c| c.count() > 0)
    }
}

impl<'a> Context<'a> {
    /// Returns the number of tokens.
    #[allow(clippy::len_without_is_empty)] // The empty context is not a context.
    pub fn len(&self) -> usize {
        self.level + 1
    }

    /// Whether the context ends with these tokens.
    pub fn ends_with(&self, tokens: &[u32]) -> bool {
        if tokens.len() > self.len() {
            return false;
        }
        let mut node = self.node;
        let levels = self.set.levels[..=self.level].iter().rev();
        levels.zip(tokens.iter().rev()).all(|(level, &token)| {
            let is_same = level.token[node] == token;
            node = level.parent[node] as usize;
            is_same
        })
    }

    /// Writes the tokens into `out`, replacing its contents.
    pub fn tokens(&self, out: &mut Vec<u32>) {
        out.clear();
        let mut node = self.node;
        for level in self.set.levels[..=self.level].iter().rev() {
            out.push(level.token[node]);
            node = level.parent[node] as usize;
        }
        out.reverse();
    }

    /// Returns the next tokens in the order of their ids, each with its count.
    pub fn next(&self) -> impl Iterator<Item = (u32, u64)> + 'a {
        let range = self.set.levels[self.level].children[self.node] as usize
            ..self.set.levels[self.level].children[self.node + 1] as usize;
        let below = self.set.levels.get(self.level + 1);
        range
            .filter_map(move |i| below.map(|below| (below.token[i], below.weight[i])))
            .filter(|&(_, weight)| weight > 0)
    }

    /// Returns how often the context occurs followed by a token.
    pub fn count(&self) -> u64 {
        self.next().map(|(_, n)| n).sum()
    }

    /// Returns the most frequent next tokens: several in case of a tie.
    pub fn top_set(&self) -> Vec<u32> {
        let largest = self.next().map(|(_, n)| n).max();
        self.next().filter(|&(_, n)| Some(n) == largest).map(|(t, _)| t).collect()
    }
}

/// Builds the set from sorted rows.
#[derive(Debug)]
pub(crate) struct ContextSetBuilder {
    rule: ContextRule,
    levels: Vec<Level>,
    /// The number of trie nodes above which the builder gives up.
    max_nodes: u64,
    nodes: u64,
}

impl ContextSetBuilder {
    /// Creates a builder that gives up when there are certainly more than `max_contexts` contexts.
    pub(crate) fn new(rule: ContextRule, max_contexts: Option<u64>) -> Self {
        // Every node that is not a context ends a path, so a trie has at most one such node per (context, next token) pair;
        // a factor of 64 leaves room for contexts with many next tokens without holding a whole large corpus.
        let max_nodes = max_contexts.map_or(u64::MAX, |n| n.saturating_mul(64));
        Self { rule, levels: Vec::new(), max_nodes, nodes: 0 }
    }

    /// Returns the set, unless the builder gave up.
    pub(crate) fn finish(mut self) -> Option<ContextSet> {
        if self.nodes > self.max_nodes {
            return None;
        }
        let ends: Vec<u32> = (1..=self.levels.len())
            .map(|below| self.levels.get(below).map_or(0, |l| l.token.len() as u32))
            .collect();
        for (level, end) in self.levels.iter_mut().zip(ends) {
            level.children.push(end);
        }
        let mut set = ContextSet { levels: self.levels, contexts: 0 };
        set.contexts = set.iter().count();
        Some(set)
    }
}

impl RowVisitor for ContextSetBuilder {
    fn row(&mut self, lcp: usize, len: usize, count: u64, token: impl Fn(usize) -> u32) {
        self.nodes += (len - lcp) as u64;
        if self.nodes > self.max_nodes {
            self.levels = Vec::new();
            return;
        }
        if self.levels.len() < len {
            self.levels.resize_with(len, Level::default);
        }
        for p in lcp..len {
            let parent = if p == 0 { 0 } else { self.levels[p - 1].token.len() as u32 - 1 };
            let below = self.levels.get(p + 1).map_or(0, |l| l.token.len() as u32);
            let level = &mut self.levels[p];
            level.token.push(token(p));
            level.weight.push(0);
            level.parent.push(parent);
            level.children.push(below);
        }
        let from = match self.rule {
            ContextRule::Prefixes | ContextRule::Windows => 0,
            ContextRule::Full => len - 1,
        };
        for level in &mut self.levels[from..len] {
            if let Some(weight) = level.weight.last_mut() {
                *weight += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(rule: ContextRule, rows: &[(usize, &[u32], u64)]) -> ContextSet {
        let mut builder = ContextSetBuilder::new(rule, None);
        for &(lcp, d, count) in rows {
            builder.row(lcp, d.len(), count, |p| d[p]);
        }
        builder.finish().unwrap()
    }

    type Listed = Vec<(Vec<u32>, u64, Vec<(u32, u64)>)>;

    fn list(set: &ContextSet) -> Listed {
        let mut tokens = Vec::new();
        set.iter()
            .map(|c| {
                c.tokens(&mut tokens);
                (tokens.clone(), c.count(), c.next().collect())
            })
            .collect()
    }

    #[test]
    fn the_worked_example_has_three_contexts() {
        // abab, abac, abb with a = 0, b = 1, c = 2.
        let rows: [(usize, &[u32], u64); 3] =
            [(0, &[0, 1, 0, 1], 1), (3, &[0, 1, 0, 2], 1), (2, &[0, 1, 1], 1)];
        let prefixes = set(ContextRule::Prefixes, &rows);
        assert_eq!(
            list(&prefixes),
            [
                (vec![0], 3, vec![(1, 3)]),
                (vec![0, 1], 3, vec![(0, 2), (1, 1)]),
                (vec![0, 1, 0], 2, vec![(1, 1), (2, 1)]),
            ]
        );
        for context in prefixes.iter() {
            let mut tokens = Vec::new();
            context.tokens(&mut tokens);
            let found = prefixes.find(&tokens).unwrap();
            assert_eq!((found.len(), found.count()), (context.len(), context.count()));
            assert!(found.ends_with(&tokens[1..]) && found.ends_with(&tokens) && !found.ends_with(&[2]));
        }
        assert_eq!(prefixes.first_tokens().collect::<Vec<_>>(), [(0, 3)]);
        assert!(prefixes.find(&[1]).is_none() && prefixes.find(&[]).is_none());
        assert_eq!(prefixes.find(&[0, 1, 1]).map(|c| c.count()), Some(0), "the end of a document");
        assert!(prefixes.find(&[0, 1, 1, 0]).is_none());
        let top: Vec<_> = prefixes.iter().map(|c| c.top_set()).collect();
        assert_eq!(top, [vec![1], vec![0], vec![1, 2]]);
        let full = set(ContextRule::Full, &rows);
        assert_eq!(prefixes.fingerprint(), set(ContextRule::Prefixes, &rows).fingerprint());
        assert_ne!(prefixes.fingerprint(), full.fingerprint());
        assert_ne!(prefixes.fingerprint(), set(ContextRule::Prefixes, &rows[..2]).fingerprint());
        assert_eq!(list(&full), [(vec![0, 1], 1, vec![(1, 1)]), (vec![0, 1, 0], 2, vec![(1, 1), (2, 1)])]);
    }
}
