//! Documents with their canonical vocabulary, ready to be sorted.

use super::chunk::Chunk;
use super::count::layout::Positions;
use super::count::sort::Sorted;
use super::count::{Ends, Segment, Token, occurrences};
use super::options::Options;
use super::vocabulary::{Alphabet, Key, Vocabulary};

/// Documents with their canonical vocabulary, ready to be sorted.
pub(crate) struct Sealed<'c, T> {
    pub(crate) vocabulary: Vocabulary,
    segments: Vec<Segment<'c, T>>,
    seen: Vec<Positions>,
}

impl<'c> Sealed<'c, u32> {
    pub(super) fn new(chunks: &'c [Chunk], options: &Options) -> Self {
        let mut segments = Vec::new();
        let mut parts = Vec::new();
        for chunk in chunks {
            let segment =
                Segment { tokens: chunk.tokens.wide(), ends: Ends::At(&chunk.ends), rank: Vec::new() };
            let seen = occurrences(&segment, chunk.lexicon.size(&chunk.tokens), options.window.contexts);
            let (vocabulary, map) =
                chunk.lexicon.vocabulary(seen.len() as u32, |id| seen[id as usize].marks());
            segments.push(segment);
            parts.push((seen, vocabulary, map));
        }
        let vocabularies: Vec<&Vocabulary> = parts.iter().map(|(_, v, _)| v).collect();
        let (vocabulary, maps) = Vocabulary::union(&vocabularies);
        let mut by_rank = vec![Positions::default(); vocabulary.len()];
        for ((segment, (seen, _, map)), to_union) in segments.iter_mut().zip(&parts).zip(&maps) {
            let rank = |local: u32| to_union.get(local as usize).copied().unwrap_or(0);
            segment.rank = map.iter().map(|&local| rank(local)).collect();
            for (positions, &rank) in seen.iter().zip(&segment.rank) {
                if positions.marks().is_some() {
                    by_rank[rank as usize].union(*positions);
                }
            }
        }
        Self { vocabulary, segments, seen: by_rank }
    }
}

impl<'c, T: Token> Sealed<'c, T> {
    /// Documents of ids of an alphabet, all of whose tokens are in the vocabulary, wherever else they occur.
    pub(crate) fn from_ids(
        tokens: &'c [T],
        ends: Ends<'c>,
        alphabet: &Vocabulary,
        options: &Options,
    ) -> Self {
        let size = alphabet.len();
        let segment = Segment { tokens, ends, rank: (0..size as u32).collect() };
        let seen = occurrences(&segment, size, options.window.contexts);
        let vocabulary = alphabet.restricted(|id| Some(seen[id as usize].marks().unwrap_or(0)));
        Self { vocabulary, segments: vec![segment], seen }
    }

    /// Documents of equal length in one array of ids, all of them below `size`.
    pub(crate) fn from_rows(tokens: &'c [T], ends: Ends<'c>, size: usize, options: &Options) -> Self {
        let mut segment = Segment { tokens, ends, rank: vec![0; size] };
        let seen = occurrences(&segment, size, options.window.contexts);
        let mut vocabulary = Vocabulary::new(Alphabet::Id);
        let mut present = Vec::new();
        for (id, &positions) in seen.iter().enumerate() {
            if let Some(marks) = positions.marks() {
                segment.rank[id] = present.len() as u32;
                vocabulary.push(Key::Symbol(id as u32), marks);
                present.push(positions);
            }
        }
        Self { vocabulary, segments: vec![segment], seen: present }
    }

    pub(crate) fn sort(&'c self, options: &Options) -> Sorted<'c, T> {
        Sorted::new(&self.segments, options.window.kept(), &self.seen)
    }
}
