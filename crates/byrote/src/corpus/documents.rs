//! Documents in the chunks of several threads, in the order of the input.

use super::beginning::Listed;
use super::chunk::Chunk;
use super::lexicon::FIRST;
use super::provisional_ids::IdRun;
use super::stored_documents::StoredDocuments;
use super::vocabulary::{Alphabet, Vocabulary};
use rayon::prelude::*;
use std::ops::Range;

/// Some documents of a chunk.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) chunk: usize,
    pub(crate) documents: Range<usize>,
    /// Whether the last of them is only a piece of a document, which continues in the next stretch.
    pub(crate) continues: bool,
}

/// Documents in chunks, in the order of the input.
pub(crate) struct Documents {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) order: Vec<Stretch>,
}

impl Documents {
    /// The documents of chunks that are complete.
    pub(crate) fn new(mut chunks: Vec<Chunk>, order: Vec<Stretch>) -> Self {
        chunks.par_iter_mut().for_each(|chunk| chunk.tokens.pack());
        Self { chunks, order }
    }

    /// The number of tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.tokens.len()).sum()
    }

    /// The number of documents.
    pub(crate) fn len(&self) -> usize {
        let continued = self.order.iter().filter(|stretch| stretch.continues).count();
        self.chunks.iter().map(Chunk::len).sum::<usize>() - continued
    }

    /// The tokens that occur here or in documents that were stored before, and for each chunk the map from its provisional ids to
    /// their ids.
    pub(crate) fn alphabet(&self, stored: Option<&StoredDocuments>) -> (Vocabulary, Vec<Vec<u32>>) {
        let lists: Vec<(usize, Vec<Listed>)> = self
            .chunks
            .par_iter()
            .enumerate()
            .map(|(i, chunk)| {
                let size = chunk.lexicon.size(&chunk.tokens);
                if stored.is_none() && chunk.has_all_numbered() {
                    return (size, chunk.lexicon.listed(i as u32, FIRST..size as u32));
                }
                let mut seen = stored.map_or_else(Vec::new, |stored| stored.seen(i).to_vec());
                let size = size.max(seen.len());
                seen.resize(size, false);
                chunk.tokens.run().mark(&mut seen);
                (size, chunk.lexicon.listed(i as u32, (0..size as u32).filter(|&id| seen[id as usize])))
            })
            .collect();
        let alphabet = self.chunks.first().map_or(Alphabet::Word, |chunk| chunk.lexicon.alphabet());
        let (mut maps, lists): (Vec<Vec<u32>>, _) =
            lists.into_iter().map(|(size, listed)| (vec![0; size], listed)).unzip();
        let key = |chunk: u32, id: u32| self.chunks[chunk as usize].lexicon.key(id);
        let union = Vocabulary::merged(alphabet, lists, &key, |new, same| {
            same.iter().for_each(|&(_, chunk, id)| maps[chunk as usize][id as usize] = new);
            0
        });
        (union, maps)
    }

    /// The documents, in the order of the input, as runs of documents of one chunk.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.order.iter().map(|Stretch { chunk, documents, continues }| {
            let Chunk { tokens, ends, .. } = &self.chunks[*chunk];
            let start = if documents.start == 0 { 0 } else { ends[documents.start - 1] };
            let ends = &ends[documents.clone()];
            let end = ends.last().copied().unwrap_or(start);
            Run { chunk: *chunk, tokens: tokens.run().range(start..end), start, ends, continues: *continues }
        })
    }
}

/// Documents that follow each other in one chunk.
pub(crate) struct Run<'d> {
    pub(crate) chunk: usize,
    /// Their provisional ids, end to end.
    pub(crate) tokens: IdRun<'d>,
    /// The place of the tokens in the chunk, and those of the ends of the documents.
    start: usize,
    ends: &'d [usize],
    /// Whether the last document continues in the next run.
    continues: bool,
}

impl<'d> Run<'d> {
    /// The tokens of every document, and whether it ends with them.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (IdRun<'d>, bool)> + use<'d> {
        let (tokens, base, continues, n) = (self.tokens, self.start, self.continues, self.ends.len());
        let mut start = 0;
        self.ends.iter().enumerate().map(move |(i, end)| {
            let from = std::mem::replace(&mut start, end - base);
            (tokens.range(from..start), !(continues && i + 1 == n))
        })
    }

    /// The number of documents that end in it.
    pub(crate) fn len(&self) -> usize {
        self.ends.len() - usize::from(self.continues)
    }
}
