//! One scan over sorted documents: every trie node is opened and closed once.
//!
//! The scan works on parts of the order, side by side. A part knows the longest common prefix of its first document
//! with the document before it; the nodes on that prefix began in an earlier part, so when one of them closes here,
//! its incomplete figures are set aside ([`Scan::inherited`]) and [`Scan::append`] completes them. All figures are
//! integers, so any cut into parts gives the same result.

use super::sort::{RowVisitor, Sorted};
use super::tally::Tally;
use super::Token;
use crate::corpus::window::ContextRule;
use rayon::prelude::*;

/// What is known so far of the trie node at some depth of the current path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Node {
    /// Documents through it.
    through: u64,
    /// Documents that end at it.
    ending: u64,
    /// The sum of the weights of its complete children: its count as a context.
    count: u64,
    /// Complete children of positive weight: distinct next tokens.
    next: u64,
}

impl Node {
    fn absorb(&mut self, other: Node) {
        self.through += other.through;
        self.ending += other.ending;
        self.count += other.count;
        self.next += other.next;
    }
}

/// The scan of a part of the sorted documents.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    rule: ContextRule,
    d_vocab: u64,
    /// Tallies by context length, from 1.
    by_length: Vec<Tally>,
    /// The open nodes at depths 1, 2, ....
    path: Vec<Node>,
    /// How many nodes of the path began in an earlier part.
    borrowed: usize,
    /// The longest common prefix of the first row with the row before it.
    entry: usize,
    /// Nodes from an earlier part that closed here: depths `entry`, `entry - 1`, ....
    inherited: Vec<Node>,
    rows: u64,
    documents: u64,
    tokens: u64,
}

impl Scan {
    pub(crate) fn new(rule: ContextRule, d_vocab: usize) -> Self {
        Self {
            rule,
            d_vocab: d_vocab as u64,
            by_length: Vec::new(),
            path: Vec::new(),
            borrowed: 0,
            entry: 0,
            inherited: Vec::new(),
            rows: 0,
            documents: 0,
            tokens: 0,
        }
    }

    /// Closes the deepest open node.
    #[inline]
    fn close(&mut self) {
        let Some(node) = self.path.pop() else { return };
        let depth = self.path.len() + 1;
        if depth <= self.borrowed {
            self.borrowed -= 1;
            self.inherited.push(node);
            return;
        }
        if self.by_length.len() < depth {
            self.by_length.resize_with(depth, Tally::default);
        }
        if node.next > 0 {
            self.by_length[depth - 1].context(node.count, node.next, self.d_vocab);
        }
        if let Some(parent) = self.path.last_mut() {
            parent.through += node.through;
            let weight = match self.rule {
                ContextRule::Prefixes => node.through,
                ContextRule::Full => node.ending,
            };
            if weight > 0 {
                parent.count += weight;
                parent.next += 1;
                self.by_length[depth - 2].next_counts.add(weight);
            }
        }
    }

    #[inline]
    fn take(&mut self, lcp: usize, len: usize, count: u64) {
        if self.rows == 0 {
            self.entry = lcp;
            self.borrowed = lcp;
            self.path.resize(lcp, Node::default());
        }
        while self.path.len() > lcp {
            self.close();
        }
        self.path.resize(len, Node::default());
        if let Some(node) = self.path.last_mut() {
            node.through += count;
            node.ending += count;
        }
        self.rows += 1;
        self.documents += count;
        self.tokens += count * len as u64;
    }

    /// Goes on with the scan of the part after this one.
    pub(crate) fn append(&mut self, next: Scan) {
        if next.rows == 0 {
            return;
        }
        if self.rows == 0 {
            *self = next;
            return;
        }
        while self.path.len() > next.entry {
            self.close();
        }
        for node in next.inherited {
            if let Some(open) = self.path.last_mut() {
                open.absorb(node);
            }
            self.close();
        }
        for (open, node) in self.path.iter_mut().zip(&next.path) {
            open.absorb(*node);
        }
        self.path.extend(next.path.into_iter().skip(next.borrowed));
        if self.by_length.len() < next.by_length.len() {
            self.by_length.resize_with(next.by_length.len(), Tally::default);
        }
        for (mine, theirs) in self.by_length.iter_mut().zip(&next.by_length) {
            mine.merge(theirs);
        }
        self.rows += next.rows;
        self.documents += next.documents;
        self.tokens += next.tokens;
    }

    /// Closes what is open and gives the figures.
    pub(crate) fn finish(mut self) -> Scanned {
        while !self.path.is_empty() {
            self.close();
        }
        while self.by_length.last().is_some_and(|t| t.contexts == 0) {
            self.by_length.pop();
        }
        Scanned { rows: self.rows, documents: self.documents, tokens: self.tokens, by_length: self.by_length }
    }
}

impl RowVisitor for Scan {
    #[inline]
    fn row(&mut self, lcp: usize, len: usize, count: u64, _: impl Fn(usize) -> u32) {
        self.take(lcp, len, count);
    }
}

/// What a complete scan yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// Distinct documents.
    pub(crate) rows: u64,
    /// Documents.
    pub(crate) documents: u64,
    /// Their tokens.
    pub(crate) tokens: u64,
    /// By context length, from 1 to the longest that occurs.
    pub(crate) by_length: Vec<Tally>,
}

/// Scans all parts side by side.
pub(crate) fn scan<T: Token>(sorted: &Sorted<'_, T>, rule: ContextRule, d_vocab: usize) -> Scanned {
    let parts: Vec<Scan> = (0..sorted.parts())
        .into_par_iter()
        .map(|part| {
            let mut scan = Scan::new(rule, d_vocab);
            sorted.visit(part, &mut scan);
            scan
        })
        .collect();
    let mut whole = Scan::new(rule, d_vocab);
    for part in parts {
        whole.append(part);
    }
    whole.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Rows = Vec<(usize, usize, u64)>;

    fn rows(documents: &[Vec<u32>]) -> Rows {
        let mut sorted: BTreeMap<&[u32], u64> = BTreeMap::new();
        for d in documents {
            *sorted.entry(d).or_insert(0) += 1;
        }
        let mut before: &[u32] = &[];
        sorted
            .into_iter()
            .map(|(d, n)| {
                let lcp = before.iter().zip(d).take_while(|(a, b)| a == b).count();
                before = d;
                (lcp, d.len(), n)
            })
            .collect()
    }

    fn run(rows: &[(usize, usize, u64)], rule: ContextRule) -> Scan {
        let mut scan = Scan::new(rule, 3);
        rows.iter().for_each(|&(lcp, len, n)| scan.take(lcp, len, n));
        scan
    }

    proptest! {
        #[test]
        fn any_cut_into_parts_gives_the_same_figures(
            documents in prop::collection::vec(prop::collection::vec(0u32..3, 1..6), 1..30),
            cuts in prop::collection::vec(0usize..30, 0..4),
            full: bool,
        ) {
            let rule = if full { ContextRule::Full } else { ContextRule::Prefixes };
            let rows = rows(&documents);
            let whole = run(&rows, rule).finish();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(rows.len())).collect();
            cuts.push(rows.len());
            cuts.sort_unstable();
            let (mut joined, mut start) = (Scan::new(rule, 3), 0);
            for end in cuts {
                joined.append(run(&rows[start..end], rule));
                start = end;
            }
            prop_assert_eq!(joined.finish(), whole);
        }
    }
}
