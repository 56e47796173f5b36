//! Documents on disk, in the order of the input: for texts whose windows are counted and that do not fit in memory.

use super::chunk::Chunk;
use super::documents::Documents;
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Documents whose tokens are in a file without a name, as the provisional ids of their chunks.
pub(crate) struct StoredDocuments {
    file: BufWriter<File>,
    directory: PathBuf,
    /// The chunk and the number of tokens of what was written at once.
    runs: Vec<(usize, usize)>,
    /// The tokens before the end of every document that has ended.
    ends: Vec<usize>,
    tokens: usize,
    /// The provisional ids that occur, by chunk.
    seen: Vec<Vec<bool>>,
}

impl StoredDocuments {
    pub(crate) fn new(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory).map_err(|e| Error::io(directory, "write to", e))?;
        let file = BufWriter::with_capacity(1 << 16, file);
        let (runs, ends, seen) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { file, directory: directory.to_path_buf(), runs, ends, tokens: 0, seen })
    }

    fn failed(&self) -> impl Fn(std::io::Error) -> Error + use<> {
        let directory = self.directory.clone();
        move |e| Error::io(&directory, "write to a temporary file in", e)
    }

    /// Adds documents, whose chunks keep their lexicons.
    pub(crate) fn push(&mut self, documents: &Documents) -> Result<()> {
        let failed = self.failed();
        self.seen.resize(documents.chunks.len().max(self.seen.len()), Vec::new());
        for (seen, Chunk { lexicon, tokens, .. }) in self.seen.iter_mut().zip(&documents.chunks) {
            let size = lexicon.size(tokens).max(seen.len());
            seen.resize(size, false);
            tokens.run().mark(seen);
        }
        for run in documents.runs() {
            for (tokens, ends) in run.documents() {
                tokens.each_block(|ids| {
                    let mut ids = ids.iter().map(|id| id.to_le_bytes());
                    ids.try_for_each(|id| self.file.write_all(&id)).map_err(&failed)
                })?;
                self.tokens += tokens.len();
                if ends {
                    self.ends.push(self.tokens);
                }
            }
            self.runs.push((run.chunk, run.tokens.len()));
        }
        Ok(())
    }

    /// The number of tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// The tokens before the end of every document.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Whether the last document has not ended yet.
    pub(crate) fn is_open(&self) -> bool {
        self.ends.last().copied().unwrap_or(0) < self.tokens
    }

    /// Ends the last document.
    pub(crate) fn end_document(&mut self) {
        self.ends.push(self.tokens);
    }

    /// The provisional ids of a chunk that occur.
    pub(crate) fn seen(&self, chunk: usize) -> &[bool] {
        self.seen.get(chunk).map_or(&[], |seen| &seen[..])
    }

    /// Gives all tokens in order: the chunk and the provisional ids of some.
    pub(crate) fn each(&mut self, mut take: impl FnMut(usize, &[u32]) -> std::io::Result<()>) -> Result<()> {
        let failed = self.failed();
        self.file.flush().map_err(&failed)?;
        let mut file = self.file.get_ref();
        file.seek(SeekFrom::Start(0)).map_err(&failed)?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut ids = vec![0u32; 1 << 14];
        for &(chunk, tokens) in &self.runs {
            let mut left = tokens;
            while left > 0 {
                let n = left.min(ids.len());
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut ids[..n]);
                file.read_exact(bytes).map_err(&failed)?;
                ids[..n].iter_mut().for_each(|id| *id = u32::from_le(*id));
                take(chunk, &ids[..n]).map_err(&failed)?;
                left -= n;
            }
        }
        Ok(())
    }
}
