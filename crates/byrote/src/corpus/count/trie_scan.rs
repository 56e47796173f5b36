//! One scan over sorted documents: every trie node is opened and closed once.
//!
//! Most nodes belong to the tail of a single document, below its last branching: such a chain is closed as a whole.
//! Chains of documents that occur once, by far the most common, are closed by two entries of a difference array.
//!
//! The scan processes parts of the order in parallel. A part knows the longest common prefix of its first document with
//! the document before it; the nodes on that prefix began in an earlier part, so when one of them closes here, its
//! incomplete figures are set aside ([`Scan::inherited`]) and [`Scan::append`] completes them. All figures are
//! integers, so any division into parts gives the same result.

use super::Token;
use super::sort::{RowVisitor, Sorted};
use super::tally::Tally;
use crate::corpus::window::ContextRule;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The statistics so far of the trie node at some depth of the current path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Node {
    /// The number of documents through it.
    through: u64,
    /// The number of documents that end at it.
    ending: u64,
    /// The sum of the weights of its complete children: its count as a context.
    count: u64,
    /// The number of complete children of positive weight, that is, of distinct next tokens.
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

/// The nodes that only the last row has opened: depths `from..=len`, passed by `count` documents, all ending at `len`.
#[derive(Debug, Clone, Copy, Default)]
struct Tail {
    from: usize,
    len: usize,
    count: u64,
}

/// The scan of a part of the sorted documents.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    rule: ContextRule,
    /// Tallies by context length, from 1.
    by_length: Vec<Tally>,
    /// The open nodes at depths 1, 2, ..., down to where the last row branched off.
    path: Vec<Node>,
    /// The nodes of the last row below that.
    tail: Tail,
    /// Contexts of depth d that occur once: the sum of the entries up to d.
    once: Vec<i64>,
    /// The number of nodes of the path that began in an earlier part.
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
    pub(crate) fn new(rule: ContextRule) -> Self {
        Self {
            rule,
            by_length: Vec::new(),
            path: Vec::new(),
            tail: Tail::default(),
            once: Vec::new(),
            borrowed: 0,
            entry: 0,
            inherited: Vec::new(),
            rows: 0,
            documents: 0,
            tokens: 0,
        }
    }

    /// The tally of contexts of this length.
    #[inline]
    fn tally(&mut self, length: usize) -> &mut Tally {
        if self.by_length.len() < length {
            self.by_length.resize_with(length, Tally::default);
        }
        &mut self.by_length[length - 1]
    }

    /// Closes the deepest node of the path.
    #[inline]
    fn close(&mut self) {
        let Some(node) = self.path.pop() else { return };
        let depth = self.path.len() + 1;
        if depth <= self.borrowed {
            self.borrowed -= 1;
            self.inherited.push(node);
            return;
        }
        if node.next > 0 {
            self.tally(depth).context(node.count, node.next);
        }
        self.add_child(node.through, node.ending);
    }

    /// Adds a complete child to the deepest node of the path.
    #[inline]
    fn add_child(&mut self, through: u64, ending: u64) {
        let depth = self.path.len();
        let weight = match self.rule {
            ContextRule::Prefixes | ContextRule::Windows => through,
            ContextRule::Full => ending,
        };
        if let Some(parent) = self.path.last_mut() {
            parent.through += through;
            if weight > 0 {
                parent.count += weight;
                parent.next += 1;
                self.tally(depth).next_counts.add(weight);
            }
        }
    }

    /// Closes the nodes of the tail below depth `lcp`; those above it become branching points and join the path.
    #[inline]
    fn close_tail(&mut self, lcp: usize) {
        let Tail { from, len, count } = std::mem::take(&mut self.tail);
        if count == 0 {
            return;
        }
        if lcp >= from {
            self.path.resize(lcp.min(len), Node::default());
            if lcp >= len {
                if let Some(end) = self.path.last_mut() {
                    end.through += count;
                    end.ending += count;
                }
                return;
            }
        }
        let first = from.max(lcp + 1);
        // Contexts first..len, each followed only by the next node of the chain.
        let contexts = match self.rule {
            ContextRule::Prefixes | ContextRule::Windows => first..len,
            ContextRule::Full => (len - 1).max(first)..len,
        };
        if count == 1 {
            if self.once.len() <= len {
                self.once.resize(len + 1, 0);
            }
            self.once[contexts.start] += 1;
            self.once[contexts.end] -= 1;
        } else {
            for depth in contexts {
                self.unary(depth, count, 1);
            }
        }
        self.add_child(count, if first == len { count } else { 0 });
    }

    /// Adds `times` contexts of a length that occur `count` times each, always before the same token.
    fn unary(&mut self, length: usize, count: u64, times: u64) {
        self.tally(length).unary_contexts(count, times);
    }

    #[inline]
    fn take(&mut self, lcp: usize, len: usize, count: u64) {
        if self.rows == 0 {
            self.entry = lcp;
            self.borrowed = lcp;
            self.path.resize(lcp, Node::default());
        }
        self.close_tail(lcp);
        while self.path.len() > lcp {
            self.close();
        }
        self.tail = Tail { from: lcp + 1, len, count };
        self.rows += 1;
        self.documents += count;
        self.tokens += count * len as u64;
    }

    /// Continues with the scan of the following part.
    pub(crate) fn append(&mut self, next: Scan) {
        if next.rows == 0 {
            return;
        }
        if self.rows == 0 {
            *self = next;
            return;
        }
        self.close_tail(next.entry);
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
        self.tail = next.tail;
        if self.once.len() < next.once.len() {
            self.once.resize(next.once.len(), 0);
        }
        for (mine, theirs) in self.once.iter_mut().zip(&next.once) {
            *mine += theirs;
        }
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

    /// Closes the open nodes and returns the statistics.
    pub(crate) fn finish(mut self) -> Scanned {
        self.close_tail(0);
        while !self.path.is_empty() {
            self.close();
        }
        let mut open = 0;
        for (depth, change) in std::mem::take(&mut self.once).into_iter().enumerate() {
            open += change;
            if open > 0 {
                self.unary(depth, 1, open as u64);
            }
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

/// The result of a complete scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scanned {
    /// The number of distinct documents.
    pub(crate) rows: u64,
    /// The number of documents.
    pub(crate) documents: u64,
    /// The number of their tokens.
    pub(crate) tokens: u64,
    /// The tallies by context length, from 1 to the longest that occurs.
    pub(crate) by_length: Vec<Tally>,
}

impl Scanned {
    /// The number of contexts.
    pub(crate) fn contexts(&self) -> u64 {
        self.by_length.iter().map(|tally| tally.contexts).sum()
    }
}

/// Scans all parts in parallel.
pub(crate) fn scan<T: Token>(sorted: &Sorted<'_, T>, rule: ContextRule) -> Scanned {
    let parts: Vec<Scan> = (0..sorted.parts())
        .into_par_iter()
        .map(|part| {
            let mut scan = Scan::new(rule);
            sorted.visit(part, &mut scan);
            scan
        })
        .collect();
    let mut whole = Scan::new(rule);
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
        let mut scan = Scan::new(rule);
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
            let (mut joined, mut start) = (Scan::new(rule), 0);
            for end in cuts {
                joined.append(run(&rows[start..end], rule));
                start = end;
            }
            prop_assert_eq!(joined.finish(), whole);
        }
    }
}
