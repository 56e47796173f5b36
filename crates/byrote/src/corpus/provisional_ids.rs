//! The provisional ids of a chunk, end to end.
//!
//! A text whose windows are counted is kept whole until its vocabulary is known, and what takes longest in reading it is that the
//! system clears the memory that its ids are written to. So ids are packed from time to time: one byte each while none is larger, then
//! two bytes, with a list of those that need more. Ids are given in the order in which tokens are met, so large ones are rare tokens.
//! Packing stops when the list would take as much memory as it saves.

use crate::num::huge_pages;
use std::ops::Range;

/// The number of new ids from which packing is worth while; so many still are in the fastest caches.
pub(crate) const BLOCK: usize = 1 << 15;

/// The most ids for which room is made at a time when there are many: in one step into huge pages.
const MANY: usize = 1 << 21;

/// Stands for an id that is in the list of larger ones.
const LARGER: u16 = u16::MAX;

/// The number of ids of two bytes from which one larger id among them costs no more than it saves.
const IDS_PER_LARGER: usize = size_of::<(usize, u32)>() / size_of::<u16>();

/// Provisional ids that grow at the end.
#[derive(Debug, Default)]
pub(crate) struct ProvisionalIds {
    packed: Packed,
    /// The ids after the packed ones; all ids if there are none.
    fresh: Vec<u32>,
    /// Whether ids are packed, as long as that saves memory.
    packs: bool,
    /// The number of ids for which room is made at a time when there are many.
    step: usize,
    /// Whether ids were taken away again.
    has_lost: bool,
}

#[derive(Debug)]
enum Packed {
    Byte(Vec<u8>),
    Short {
        ids: Vec<u16>,
        /// The larger ids with their places, in order.
        larger: Vec<(usize, u32)>,
    },
}

impl Default for Packed {
    fn default() -> Self {
        Self::Byte(Vec::new())
    }
}

impl Packed {
    fn len(&self) -> usize {
        match self {
            Self::Byte(ids) => ids.len(),
            Self::Short { ids, .. } => ids.len(),
        }
    }

    fn run(&self) -> IdRun<'_> {
        match self {
            Self::Byte(ids) => IdRun::Byte(ids),
            Self::Short { ids, larger } => IdRun::Short { ids, larger, start: 0 },
        }
    }
}

/// Ids in the type in which they are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IdRun<'a> {
    Byte(&'a [u8]),
    Short {
        ids: &'a [u16],
        /// The larger ids with their places, where `start` is the place of the first id.
        larger: &'a [(usize, u32)],
        start: usize,
    },
    Wide(&'a [u32]),
}

impl<'a> IdRun<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Byte(ids) => ids.len(),
            Self::Short { ids, .. } => ids.len(),
            Self::Wide(ids) => ids.len(),
        }
    }

    pub(crate) fn range(self, range: Range<usize>) -> Self {
        match self {
            Self::Byte(ids) => Self::Byte(&ids[range]),
            Self::Short { ids, larger, start } => {
                let (from, to) = (start + range.start, start + range.end);
                let index = |place| larger.partition_point(|&(at, _)| at < place);
                Self::Short { ids: &ids[range], larger: &larger[index(from)..index(to)], start: from }
            }
            Self::Wide(ids) => Self::Wide(&ids[range]),
        }
    }

    /// Marks the ids that occur.
    pub(crate) fn mark(self, seen: &mut [bool]) {
        match self {
            Self::Byte(ids) => ids.iter().for_each(|&id| seen[usize::from(id)] = true),
            Self::Short { ids, larger, .. } => {
                ids.iter().filter(|&&id| id != LARGER).for_each(|&id| seen[usize::from(id)] = true);
                larger.iter().for_each(|&(_, id)| seen[id as usize] = true);
            }
            Self::Wide(ids) => ids.iter().for_each(|&id| seen[id as usize] = true),
        }
    }

    /// Writes what a table has for every id.
    pub(crate) fn map<T: Copy>(self, table: &[T], target: &mut [T]) {
        match self {
            Self::Byte(ids) => {
                target.iter_mut().zip(ids).for_each(|(to, &id)| *to = table[usize::from(id)]);
            }
            Self::Short { ids, larger, start } => {
                target.iter_mut().zip(ids).for_each(|(to, &id)| *to = table[usize::from(id)]);
                larger.iter().for_each(|&(at, id)| target[at - start] = table[id as usize]);
            }
            Self::Wide(ids) => {
                target.iter_mut().zip(ids).for_each(|(to, &id)| *to = table[id as usize]);
            }
        }
    }

    /// Visits the ids in order, in blocks.
    pub(crate) fn each_block<E>(self, mut visit: impl FnMut(&[u32]) -> Result<(), E>) -> Result<(), E> {
        let mut block = [0u32; 1 << 10];
        let (mut rest, n) = (self, self.len());
        for start in (0..n).step_by(block.len()) {
            let now = rest.range(0..block.len().min(n - start));
            let block = &mut block[..now.len()];
            now.widen(block);
            visit(block)?;
            rest = rest.range(now.len()..rest.len());
        }
        Ok(())
    }

    fn widen(self, target: &mut [u32]) {
        match self {
            Self::Byte(ids) => target.iter_mut().zip(ids).for_each(|(to, &id)| *to = u32::from(id)),
            Self::Short { ids, larger, start } => {
                target.iter_mut().zip(ids).for_each(|(to, &id)| *to = u32::from(id));
                larger.iter().for_each(|&(at, id)| target[at - start] = id);
            }
            Self::Wide(ids) => target.copy_from_slice(ids),
        }
    }

    fn max(self) -> Option<u32> {
        match self {
            Self::Byte(ids) => ids.iter().max().map(|&id| u32::from(id)),
            Self::Short { ids, larger, .. } => match larger.iter().map(|&(_, id)| id).max() {
                None => ids.iter().max().map(|&id| u32::from(id)),
                most => most,
            },
            Self::Wide(ids) => ids.iter().max().copied(),
        }
    }
}

impl ProvisionalIds {
    /// No ids yet; `max_memory` is what all documents should take, in bytes.
    pub(crate) fn new(packs: bool, max_memory: Option<u64>) -> Self {
        let step = max_memory.map_or(MANY, |most| usize::try_from(most / 64).unwrap_or(MANY).min(MANY));
        Self { packs, step, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.packed.len() + self.fresh.len()
    }

    /// The bytes that the ids take.
    pub(crate) fn footprint(&self) -> usize {
        let packed = match &self.packed {
            Packed::Byte(ids) => ids.len(),
            Packed::Short { ids, larger } => size_of_val(&ids[..]) + size_of_val(&larger[..]),
        };
        packed + size_of_val(&self.fresh[..])
    }

    /// Whether all ids that were ever pushed are here.
    pub(crate) fn has_all(&self) -> bool {
        !self.has_lost
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.has_lost |= len < self.len();
        self.fresh.truncate(len.saturating_sub(self.packed.len()));
        match &mut self.packed {
            Packed::Byte(ids) => ids.truncate(len),
            Packed::Short { ids, larger } => {
                ids.truncate(len);
                larger.truncate(larger.partition_point(|&(at, _)| at < len));
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, id: u32) {
        self.fresh.push(id);
    }

    /// The vector that takes new ids.
    #[inline]
    pub(crate) fn fresh(&mut self) -> &mut Vec<u32> {
        &mut self.fresh
    }

    /// Makes room for about so many more ids, unless they will be packed.
    pub(crate) fn reserve(&mut self, more: usize) {
        if !self.packs {
            huge_pages::reserve(&mut self.fresh, more);
        }
    }

    /// Packs the new ids if there are many.
    #[inline]
    pub(crate) fn pack_many(&mut self) {
        if self.packs && self.fresh.len() >= BLOCK {
            self.pack();
        }
    }

    /// Packs the new ids, if that saves memory: then there are no new ones, or no packed ones.
    pub(crate) fn pack(&mut self) {
        if !self.packs {
            return;
        }
        let (most, step) = (IdRun::Wide(&self.fresh).max().unwrap_or(0), self.step);
        let room = |held: usize, more: usize| if held < 4 * BLOCK { more } else { more.max(step) };
        if let Packed::Byte(ids) = &self.packed
            && most > u32::from(u8::MAX)
        {
            let mut wider = Vec::new();
            huge_pages::reserve(&mut wider, ids.len() + self.fresh.len());
            wider.extend(ids.iter().map(|&id| u16::from(id)));
            self.packed = Packed::Short { ids: wider, larger: Vec::new() };
        }
        match &mut self.packed {
            Packed::Byte(ids) => {
                huge_pages::reserve(ids, room(ids.len(), self.fresh.len()));
                ids.extend(self.fresh.drain(..).map(|id| id as u8));
            }
            Packed::Short { ids, larger } => {
                huge_pages::reserve(ids, room(ids.len(), self.fresh.len()));
                if most >= u32::from(LARGER) {
                    let places = (ids.len()..).zip(&self.fresh);
                    larger
                        .extend(places.filter(|&(_, &id)| id >= u32::from(LARGER)).map(|(at, &id)| (at, id)));
                }
                ids.extend(self.fresh.drain(..).map(|id| id.min(u32::from(LARGER)) as u16));
                if larger.len() * IDS_PER_LARGER > ids.len() {
                    self.stop_packing();
                }
            }
        }
        // What a long part of a text took is not kept for the next one.
        if self.packs && self.fresh.capacity() > MANY {
            self.fresh = Vec::new();
        }
    }

    /// From now on, ids take four bytes each.
    fn stop_packing(&mut self) {
        self.packs = false;
        let packed = std::mem::take(&mut self.packed);
        huge_pages::reserve(&mut self.fresh, packed.len());
        self.fresh.resize(packed.len(), 0);
        packed.run().widen(&mut self.fresh);
    }

    /// All ids, once they have been packed.
    pub(crate) fn run(&self) -> IdRun<'_> {
        match self.packed.len() {
            0 => IdRun::Wide(&self.fresh),
            _ => self.packed.run(),
        }
    }

    /// All ids of a chunk that does not pack them.
    pub(crate) fn wide(&self) -> &[u32] {
        assert!(self.packed.len() == 0, "ids that were packed");
        &self.fresh
    }

    /// The largest id.
    pub(crate) fn max(&self) -> Option<u32> {
        self.packed.run().max().max(IdRun::Wide(&self.fresh).max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is done to ids.
    #[derive(Debug, Clone)]
    enum Step {
        Push(Vec<u32>),
        Pack,
        Truncate(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let ids = |most: u32| prop::collection::vec(0..most, 0..20).prop_map(Step::Push);
        // More than are widened at a time.
        let many = |most: u32| prop::collection::vec(0..most, 1020..1030).prop_map(Step::Push);
        let few_larger = prop_oneof![20 => 0u32..300, 1 => (1u32 << 16) - 2..(1 << 16) + 2];
        prop_oneof![
            4 => prop::collection::vec(few_larger, 0..40).prop_map(Step::Push),
            4 => ids(256),
            1 => many(256),
            1 => many(300),
            2 => ids(257),
            1 => ids(1 << 16),
            1 => ids((1 << 16) + 2),
            3 => Just(Step::Pack),
            1 => (0usize..2500).prop_map(Step::Truncate),
        ]
    }

    proptest! {
        #[test]
        fn packed_ids_are_the_ids_that_were_pushed(
            steps in prop::collection::vec(step(), 0..20),
            packs in any::<bool>(),
        ) {
            let (mut ids, mut expect, mut has_lost) = (ProvisionalIds::new(packs, None), Vec::new(), false);
            for step in steps {
                match step {
                    Step::Push(new) => {
                        new.iter().for_each(|&id| ids.push(id));
                        expect.extend(new);
                    }
                    Step::Pack => ids.pack(),
                    Step::Truncate(len) => {
                        ids.truncate(len);
                        has_lost |= len < expect.len();
                        expect.truncate(len);
                    }
                }
                prop_assert_eq!((ids.len(), ids.max()), (expect.len(), expect.iter().max().copied()));
            }
            ids.pack();
            let run = ids.run();
            prop_assert_eq!(run.len(), expect.len());
            let mut found = Vec::new();
            run.each_block(|block| { found.extend_from_slice(block); Ok::<(), ()>(()) }).unwrap();
            prop_assert_eq!(&found, &expect);
            let half = expect.len() / 2;
            let table: Vec<u32> = (0..(1 << 16) + 2).map(|id| id ^ 1).collect();
            let mut mapped = vec![0; expect.len() - half];
            run.range(half..expect.len()).map(&table, &mut mapped);
            prop_assert!(mapped.iter().zip(&expect[half..]).all(|(a, b)| a ^ 1 == *b));
            let mut seen = vec![false; (1 << 16) + 2];
            run.mark(&mut seen);
            prop_assert!((0..).zip(&seen).all(|(id, &seen)| seen == expect.contains(&id)));
            prop_assert_eq!(ids.has_all(), !has_lost);
        }
    }

    #[test]
    fn small_ids_take_one_byte_others_two_and_few_are_larger() {
        let mut ids = ProvisionalIds::new(true, None);
        let larger = u32::from(LARGER);
        for (new, footprint) in [
            (vec![255], 1),
            (vec![256], 4),
            (vec![3; 14], 32),
            (vec![larger - 1], 34),
            (vec![larger], 52),
            (vec![1 << 16; 2], 20 * 4),
        ] {
            new.into_iter().for_each(|id| ids.push(id));
            ids.pack();
            assert_eq!(ids.footprint(), footprint);
        }
    }
}
