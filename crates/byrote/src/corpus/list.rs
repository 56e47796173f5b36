//! The list of all contexts as CSV, with counts and next tokens.
//!
//! One line per context, the shortest first, in lexicographic order within each length. A context is complete only after all
//! its continuations have been seen, so the lines of each length are set aside in a temporary file and copied together
//! at the end: memory does not grow with the corpus.

use super::count::sort::RowVisitor;
use super::vocabulary::Vocabulary;
use super::window::ContextRule;
use crate::observe::{Observer, Stage};
use crate::output::OutputFile;
use crate::{Error, Result};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

const COLUMNS: &str = "length,context,count,distinct_next,contradiction,next\n";

#[derive(Debug, Default)]
struct Node {
    token: u32,
    through: u64,
    ending: u64,
    next: Vec<(u32, u64)>,
}

/// Writes the list as a visitor of rows.
pub(crate) struct Lister<'a> {
    vocabulary: &'a Vocabulary,
    rule: ContextRule,
    path: Vec<Node>,
    spool: Spool,
}

impl<'a> Lister<'a> {
    pub(crate) fn new(vocabulary: &'a Vocabulary, rule: ContextRule, temp_dir: &Path) -> Result<Self> {
        Ok(Self { vocabulary, rule, path: Vec::new(), spool: Spool::new(temp_dir)? })
    }

    fn close(&mut self) {
        let Some(node) = self.path.pop() else { return };
        if let Some(parent) = self.path.last_mut() {
            parent.through += node.through;
            let weight = match self.rule {
                ContextRule::Prefixes | ContextRule::Windows => node.through,
                ContextRule::Full => node.ending,
            };
            if weight > 0 {
                parent.next.push((node.token, weight));
            }
        }
        if !node.next.is_empty() {
            let line = self.line(&node);
            self.spool.push(self.path.len(), line.as_bytes());
        }
    }

    fn line(&self, node: &Node) -> String {
        let tokens: Vec<String> =
            self.path.iter().chain([node]).map(|n| self.vocabulary.text(n.token)).collect();
        let mut next = node.next.clone();
        next.sort_by_key(|&(token, n)| (std::cmp::Reverse(n), token));
        let count: u64 = next.iter().map(|&(_, n)| n).sum();
        let pairs: Vec<(String, u64)> = next.iter().map(|&(t, n)| (self.vocabulary.text(t), n)).collect();
        format!(
            "{},{},{},{},{},{}\n",
            tokens.len(),
            quoted(&tokens.join(self.vocabulary.joiner())),
            count,
            pairs.len(),
            if pairs.len() > 1 { "yes" } else { "no" },
            quoted(&serde_json::to_string(&pairs).unwrap_or_default()),
        )
    }

    /// Writes the list into a file that is still to be committed.
    pub(crate) fn finish(mut self, mut out: OutputFile, observer: &dyn Observer) -> Result<OutputFile> {
        while !self.path.is_empty() {
            self.close();
        }
        out.write_all(COLUMNS.as_bytes()).map_err(|e| Error::io(out.path(), "write", e))?;
        self.spool.copy_to(&mut out, observer)?;
        Ok(out)
    }
}

impl RowVisitor for Lister<'_> {
    fn row(&mut self, lcp: usize, len: usize, count: u64, token: impl Fn(usize) -> u32) {
        while self.path.len() > lcp {
            self.close();
        }
        for p in lcp..len {
            self.path.push(Node { token: token(p), ..Node::default() });
        }
        if let Some(node) = self.path.last_mut() {
            node.through += count;
            node.ending += count;
        }
    }
}

/// Writes a CSV field (RFC 4180), always quoted: contexts contain commas, quotes and line endings. Counts beside it are
/// not quoted, and the csv crate has one rule for all fields of a file.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Texts sorted into a few bins on disk.
struct Spool {
    file: File,
    temp_dir: std::path::PathBuf,
    bins: Vec<Bin>,
    end: u64,
    error: Option<io::Error>,
}

#[derive(Default)]
struct Bin {
    buffer: Vec<u8>,
    /// The pieces on disk: offset and length.
    extents: Vec<(u64, usize)>,
}

const BIN_BYTES: usize = 1 << 16;

impl Spool {
    fn new(temp_dir: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(temp_dir)
            .map_err(|e| Error::io(temp_dir, "write a temporary file in", e))?;
        Ok(Self { file, temp_dir: temp_dir.to_path_buf(), bins: Vec::new(), end: 0, error: None })
    }

    fn push(&mut self, bin: usize, bytes: &[u8]) {
        if self.bins.len() <= bin {
            self.bins.resize_with(bin + 1, Bin::default);
        }
        let bin = &mut self.bins[bin];
        bin.buffer.extend_from_slice(bytes);
        if bin.buffer.len() >= BIN_BYTES {
            if self.error.is_none() {
                self.error = self.file.write_all(&bin.buffer).err();
                bin.extents.push((self.end, bin.buffer.len()));
                self.end += bin.buffer.len() as u64;
            }
            bin.buffer.clear();
        }
    }

    fn copy_to(mut self, out: &mut OutputFile, observer: &dyn Observer) -> Result<()> {
        let here = |e| Error::io(&self.temp_dir, "write a temporary file in", e);
        if let Some(e) = self.error {
            return Err(here(e));
        }
        let mut buffer = Vec::new();
        let mut copied = 0;
        for bin in &self.bins {
            for &(offset, length) in &bin.extents {
                observer.report(Stage::Listing, copied, Some(self.end))?;
                copied += length as u64;
                buffer.resize(length, 0);
                self.file.seek(SeekFrom::Start(offset)).map_err(here)?;
                self.file.read_exact(&mut buffer).map_err(here)?;
                out.write_all(&buffer).map_err(|e| Error::io(out.path(), "write", e))?;
            }
            out.write_all(&bin.buffer).map_err(|e| Error::io(out.path(), "write", e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::vocabulary::{Alphabet, Key};
    use crate::observe::Silent;

    #[test]
    fn the_worked_example_is_listed_with_its_contradictions() {
        let mut vocabulary = Vocabulary::new(Alphabet::Char);
        for c in ['a', 'b', '"'].into_iter().collect::<std::collections::BTreeSet<_>>() {
            vocabulary.push(Key::Symbol(u32::from(c)), 0);
        }
        let dir = tempfile::tempdir().unwrap();
        let mut lister = Lister::new(&vocabulary, ContextRule::Prefixes, dir.path()).unwrap();
        // ids: " = 0, a = 1, b = 2
        let documents: [&[u32]; 3] = [&[1, 2, 0], &[1, 2, 1], &[1, 2, 2]];
        for (lcp, d) in [0, 2, 2].into_iter().zip(documents) {
            lister.row(lcp, 3, 1 + u64::from(d[2] == 2), |p| d[p]);
        }
        let path = dir.path().join("list.csv");
        lister.finish(OutputFile::create(&path).unwrap(), &Silent).unwrap().commit().unwrap();
        let expect = format!(
            "{COLUMNS}1,\"a\",4,1,no,\"[[\"\"b\"\",4]]\"\n\
             2,\"ab\",4,3,yes,\"[[\"\"b\"\",2],[\"\"\\\"\"\"\",1],[\"\"a\"\",1]]\"\n"
        );
        assert_eq!(std::fs::read_to_string(path).unwrap(), expect);
    }
}
