//! One pass over the windows of a class in their order: every node of their trie that branches, or at which a window ends, is
//! opened and closed once, whatever the length of the windows.

/// Receives the trie of the windows of a class, in pieces of edges that may be cut anywhere. Windows that are not kept are
/// part of the trie, but are counted only in [`TrieVisitor::edge_of_all`].
pub(crate) trait TrieVisitor {
    /// The nodes of depths `p + 1..=q`, each with `through` windows through it; all but the last have one child, and no window
    /// ends at them. The node of depth `p` is a context that is reported, unless it is above the class.
    fn edge(&mut self, p: usize, q: usize, through: u64);
    /// An edge with one window, which ends at `q`.
    fn leaf(&mut self, p: usize, q: usize);
    /// A node that is a context: how often a token follows, and how many different ones.
    fn context(&mut self, depth: usize, count: u64, next: u64);
    /// An edge with the number of windows through it that are kept or not, unless that is one.
    fn edge_of_all(&mut self, p: usize, q: usize, through: u64);
}

/// A window in the order of all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// The length of its common prefix with the window before it, and with the one after it.
    pub(crate) common: usize,
    pub(crate) next: usize,
    pub(crate) length: usize,
    pub(crate) is_kept: bool,
}

/// A node on the path to the last window at which windows branch or end.
#[derive(Debug, Clone, Copy)]
struct Node {
    depth: usize,
    /// The number of windows of the class before it, and of those that are kept.
    first: u64,
    first_kept: u64,
    /// The number of kept windows that end at it.
    ended: u64,
    /// The number of children through which kept windows go.
    children: u64,
}

/// The pass over one class.
#[derive(Debug)]
pub(crate) struct TriePass {
    path: Vec<Node>,
    windows: u64,
    kept: u64,
}

impl TriePass {
    /// A pass over a class of windows that share `depth` tokens.
    pub(crate) fn new(depth: usize) -> Self {
        let mut pass = Self { path: Vec::new(), windows: 0, kept: 0 };
        pass.open(depth, 0, 0);
        pass
    }

    /// Opens a node through which the next window goes.
    #[inline]
    fn open(&mut self, depth: usize, ended: u64, children: u64) {
        self.path.push(Node { depth, first: self.windows, first_kept: self.kept, ended, children });
    }

    /// The next window.
    #[inline]
    pub(crate) fn window(&mut self, row: Row, visitor: &mut impl TrieVisitor) {
        if self.path.last().is_some_and(|last| last.depth > row.common) {
            self.close(row.common, visitor);
        }
        let kept = u64::from(row.is_kept);
        let branch = row.common.max(row.next);
        if row.length > branch {
            // Nothing else comes of this window below where it leaves its neighbours.
            match self.path.last_mut() {
                Some(last) if row.next <= row.common => last.children += kept,
                _ => self.open(row.next, 0, kept),
            }
            if row.is_kept {
                visitor.leaf(branch, row.length);
            }
        } else {
            match self.path.last_mut() {
                Some(last) if last.depth == row.length => last.ended += kept,
                _ => self.open(row.length, kept, 0),
            }
        }
        self.windows += 1;
        self.kept += kept;
    }

    /// Closes the nodes deeper than `common`.
    fn close(&mut self, common: usize, visitor: &mut impl TrieVisitor) {
        while let [.., parent, node] = self.path[..]
            && node.depth > common
        {
            let kept = self.kept - node.first_kept;
            let p = common.max(parent.depth);
            visitor.edge_of_all(p, node.depth, self.windows - node.first);
            if kept > 0 {
                visitor.edge(p, node.depth, kept);
            }
            if node.children > 0 {
                visitor.context(node.depth, kept - node.ended, node.children);
            }
            self.path.pop();
            if parent.depth < p {
                self.path.push(Node { depth: p, ended: 0, children: 0, ..node });
            }
            if let Some(parent) = self.path.last_mut() {
                parent.children += u64::from(kept > 0);
            }
        }
    }

    /// Ends the class.
    pub(crate) fn finish(mut self, visitor: &mut impl TrieVisitor) -> Root {
        self.close(0, visitor);
        let (ended, children) = self.path.first().map_or((0, 0), |root| (root.ended, root.children));
        Root { kept: self.kept, ended, children }
    }
}

/// The windows of a class that are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Root {
    pub(crate) kept: u64,
    /// Those that have no more tokens than all share.
    pub(crate) ended: u64,
    /// The number of different next tokens of the others.
    pub(crate) children: u64,
}
