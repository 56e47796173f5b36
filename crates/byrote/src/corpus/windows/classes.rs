//! Classes: the starts of windows by their first tokens.

use super::order::Position;
use super::text::{Code, Text};
use crate::num::huge_pages::HugePageArray;
use rayon::prelude::*;
use std::ops::Range;

/// The number of tokens that determine the class of a window: two of one byte, or one.
pub(crate) fn class_tokens<C: Code>() -> usize {
    if C::BITS == 8 { 2 } else { 1 }
}

/// The class of the window at a position.
#[inline]
fn class_of<C: Code>(text: &Text<C>, position: usize) -> usize {
    match class_tokens::<C>() {
        2 => (text.code(position) << 8 | text.code(position + 1)) as usize,
        _ => text.code(position) as usize,
    }
}

/// The number of starts in every class; `is_start` says which positions are starts.
pub(crate) fn class_sizes<C: Code>(
    text: &Text<C>,
    codes: usize,
    is_start: &(impl Fn(usize) -> bool + Sync),
) -> Vec<usize> {
    let classes = if class_tokens::<C>() == 2 { codes << 8 } else { codes };
    let n = text.positions();
    let step = n.div_ceil(rayon::current_num_threads()).max(1 << 16);
    (0..n.div_ceil(step))
        .into_par_iter()
        .map(|part| {
            let mut sizes = vec![0; classes];
            for position in part * step..((part + 1) * step).min(n) {
                if text.code(position) != 0 && is_start(position) {
                    sizes[class_of(text, position)] += 1;
                }
            }
            sizes
        })
        .reduce_with(|mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        })
        .unwrap_or_else(|| vec![0; classes])
}

/// The starts of some classes, in increasing order within each.
#[derive(Debug)]
pub(crate) struct Classes<P> {
    range: Range<usize>,
    positions: HugePageArray<P>,
    /// Where each class starts, and the end of the last.
    offsets: Vec<usize>,
}

/// The starts of one class.
#[derive(Debug)]
pub(crate) struct Class<'c, P> {
    pub(crate) number: usize,
    pub(crate) positions: &'c mut [P],
}

impl<P: Position> Classes<P> {
    /// Distributes the starts of the classes in `range`, given the sizes of all.
    pub(crate) fn new<C: Code>(
        text: &Text<C>,
        sizes: &[usize],
        range: Range<usize>,
        is_start: &(impl Fn(usize) -> bool + Sync),
    ) -> Self {
        let mut offsets = vec![0; range.len() + 1];
        for (i, class) in range.clone().enumerate() {
            offsets[i + 1] = offsets[i] + sizes[class];
        }
        let total = offsets[range.len()];
        let mut positions = HugePageArray::zeroed(total);
        // Every thread reads the whole text and keeps the starts of its own classes, so that threads share no memory.
        let mut parts = Vec::new();
        let (mut rest, mut first) = (&mut positions[..], 0);
        let share = total.div_ceil(rayon::current_num_threads()).max(1);
        while first < range.len() {
            let until = offsets[first] + share;
            let end = offsets.partition_point(|&o| o < until).clamp(first + 1, range.len());
            let (own, others) = rest.split_at_mut(offsets[end] - offsets[first]);
            parts.push((first..end, own));
            (rest, first) = (others, end);
        }
        parts.into_par_iter().for_each(|(classes, own)| {
            let base = offsets[classes.start];
            let mut next: Vec<usize> = classes.clone().map(|i| offsets[i] - base).collect();
            let wanted = range.start + classes.start..range.start + classes.end;
            for position in 0..text.positions() {
                let class = class_of(text, position);
                if wanted.contains(&class) && text.code(position) != 0 && is_start(position) {
                    let slot = &mut next[class - wanted.start];
                    own[*slot] = P::new(position);
                    *slot += 1;
                }
            }
        });
        Self { range, positions, offsets }
    }

    /// The classes.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = Class<'_, P>> {
        let mut rest = &mut self.positions[..];
        self.range.clone().zip(self.offsets.windows(2)).map(move |(number, offsets)| {
            let (positions, others) = std::mem::take(&mut rest).split_at_mut(offsets[1] - offsets[0]);
            rest = others;
            Class { number, positions }
        })
    }
}
