//! One pass over the windows of a class in their order: every node of their trie that branches, or at which a window ends, is
//! opened and closed once, whatever the length of the windows.

/// Receives the trie of the windows of a class, compacted: nodes of one child at which no window ends lie on edges.
pub(crate) trait TrieVisitor {
    /// The nodes of depths `p + 1..=q`, each with `through` windows through it; all but the last have one child, and no window
    /// ends at them. A window branches or ends at the node of depth `p`, unless that is above the class.
    fn edge(&mut self, p: usize, q: usize, through: u64);
    /// A node that is a context: how often a token follows, and how many different ones.
    fn context(&mut self, depth: usize, count: u64, next: u64);
}

/// A node on the path to the last window at which windows branch or end.
#[derive(Debug, Clone, Copy)]
struct Node {
    depth: usize,
    /// The number of windows of the class before it.
    first: u64,
    /// The number of windows that end at it.
    ended: u64,
    /// The number of complete children.
    children: u64,
}

/// The pass over one class.
#[derive(Debug)]
pub(crate) struct TriePass {
    path: Vec<Node>,
    windows: u64,
}

impl TriePass {
    /// A pass over a class of windows that share `depth` tokens.
    pub(crate) fn new(depth: usize) -> Self {
        Self { path: vec![Node { depth, first: 0, ended: 0, children: 0 }], windows: 0 }
    }

    /// The next window: the length of its common prefix with the one before it, and its own.
    #[inline]
    pub(crate) fn window(&mut self, common: usize, length: usize, visitor: &mut impl TrieVisitor) {
        self.close(common, visitor);
        match self.path.last_mut() {
            Some(last) if last.depth == length => last.ended += 1,
            _ => self.path.push(Node { depth: length, first: self.windows, ended: 1, children: 0 }),
        }
        self.windows += 1;
    }

    /// Closes the nodes deeper than `common`.
    fn close(&mut self, common: usize, visitor: &mut impl TrieVisitor) {
        while let [.., parent, node] = self.path[..]
            && node.depth > common
        {
            let through = self.windows - node.first;
            let p = common.max(parent.depth);
            visitor.edge(p, node.depth, through);
            if node.children > 0 {
                visitor.context(node.depth, through - node.ended, node.children);
            }
            self.path.pop();
            if parent.depth < p {
                self.path.push(Node { depth: p, first: node.first, ended: 0, children: 0 });
            }
            if let Some(parent) = self.path.last_mut() {
                parent.children += 1;
            }
        }
    }

    /// Ends the class, and returns the number of its windows.
    pub(crate) fn finish(mut self, visitor: &mut impl TrieVisitor) -> u64 {
        self.close(0, visitor);
        if let Some(root) = self.path.first()
            && root.children > 0
        {
            visitor.context(root.depth, self.windows - root.ended, root.children);
        }
        self.windows
    }
}
