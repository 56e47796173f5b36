//! The window sort: the starts of windows in the lexicographic order of the windows.
//!
//! Starts are first distributed by their first tokens, a *class* for each; classes are sorted one by one, in parallel. A class
//! is sorted by the next 64 bits of its windows; windows that agree in these form a group, which is sorted by the 64 bits
//! after them, and so on. The longest common prefix of neighbours follows from their keys, so no array of common prefixes
//! over the whole text is ever needed.

use super::text::{Code, Text};
use rayon::prelude::*;

/// A position in the text as it is stored: `u32` unless the text is larger.
pub(crate) trait Position: Copy + Send + Sync + 'static {
    fn new(position: usize) -> Self;
    fn get(self) -> usize;
}

impl Position for u32 {
    fn new(position: usize) -> Self {
        position as u32
    }
    fn get(self) -> usize {
        self as usize
    }
}

impl Position for u64 {
    fn new(position: usize) -> Self {
        position as u64
    }
    fn get(self) -> usize {
        self as usize
    }
}

/// A start in the order of the windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<P> {
    /// The key while the class is being sorted; then the length of the common prefix with the start before it, at most the
    /// depth of the sort.
    pub(crate) common: u64,
    pub(crate) position: P,
}

/// Sorts a class of windows that agree in their first `prefix` tokens by at most their first `depth` tokens. The order of
/// windows that agree in all of them is that of `starts`, or any other.
pub(crate) fn sort_class<C: Code, P: Position>(
    text: &Text<C>,
    starts: &mut [Start<P>],
    prefix: usize,
    depth: usize,
) {
    if let [only] = starts {
        only.common = prefix as u64;
        return;
    }
    let mut groups = vec![Group { first: 0, end: starts.len(), depth: prefix, common: prefix }];
    while let Some(group) = groups.pop() {
        refine(text, &mut starts[group.first..group.end], group, depth, &mut groups);
    }
}

/// Windows that agree in their first `depth` tokens and are not sorted further yet.
#[derive(Debug, Clone, Copy)]
struct Group {
    first: usize,
    end: usize,
    depth: usize,
    /// The common prefix of the first of them, once they are sorted, with the start before it.
    common: usize,
}

/// Sorts a group by its next key, and adds the groups that it leaves.
fn refine<C: Code, P: Position>(
    text: &Text<C>,
    starts: &mut [Start<P>],
    group: Group,
    depth: usize,
    groups: &mut Vec<Group>,
) {
    let room = depth - group.depth;
    for start in starts.iter_mut() {
        start.common = text.key(start.position.get() + group.depth, room);
    }
    starts.sort_unstable_by_key(|start| start.common);
    let (mut i, mut common, mut next) = (0, group.common, 0);
    while i < starts.len() {
        let key = starts[i].common;
        let mut end = i + 1;
        while end < starts.len() && starts[end].common == key {
            end += 1;
        }
        if end < starts.len() {
            next = group.depth + ((key ^ starts[end].common).leading_zeros() / C::BITS) as usize;
        }
        starts[i].common = common as u64;
        let equal = &mut starts[i..end];
        if equal.len() > 1 {
            let complete = if room <= C::PER_KEY {
                Some(C::until_end(key).map_or(room, |codes| codes.min(room)))
            } else {
                C::until_end(key)
            };
            match complete {
                // The same window.
                Some(codes) => {
                    equal[1..].iter_mut().for_each(|start| start.common = (group.depth + codes) as u64);
                }
                None => {
                    let group = Group { first: group.first + i, end: group.first + end, common, ..group };
                    extend(text, equal, group, depth, groups);
                }
            }
        }
        (i, common) = (end, next);
    }
}

/// Goes on with starts that agree in a whole key: sorts a pair at once, and adds more of them as a group.
fn extend<C: Code, P: Position>(
    text: &Text<C>,
    equal: &mut [Start<P>],
    group: Group,
    depth: usize,
    groups: &mut Vec<Group>,
) {
    let reached = group.depth + C::PER_KEY;
    if let [a, b] = equal {
        let (x, y) = (a.position.get() + reached, b.position.get() + reached);
        let (more, swap) = text.common(x, y, depth - reached);
        if swap {
            std::mem::swap(&mut a.position, &mut b.position);
        }
        b.common = (reached + more) as u64;
        return;
    }
    // Copies of a long passage agree in many keys: these are skipped at once.
    let [first, others @ ..] = &*equal else { return };
    let mut skip = depth - reached;
    for other in others {
        skip = text.common(first.position.get() + reached, other.position.get() + reached, skip).0;
        if skip < 4 * C::PER_KEY {
            skip = 0;
            break;
        }
    }
    if reached + skip == depth {
        equal[1..].iter_mut().for_each(|start| start.common = depth as u64);
        return;
    }
    groups.push(Group { depth: reached + skip, ..group });
}

/// Starts by class: those of class c are `positions[offsets[c]..offsets[c + 1]]`, in increasing order.
#[derive(Debug)]
pub(crate) struct Classes<P> {
    pub(crate) positions: Vec<P>,
    pub(crate) offsets: Vec<usize>,
}

/// The number of tokens that determine the class of a window: two of one byte, or one.
pub(crate) fn class_tokens<C: Code>() -> usize {
    if C::BITS == 8 { 2 } else { 1 }
}

/// The class of the window at a position.
#[inline]
pub(crate) fn class_of<C: Code>(text: &Text<C>, position: usize) -> usize {
    match class_tokens::<C>() {
        2 => (text.code(position) << 8 | text.code(position + 1)) as usize,
        _ => text.code(position) as usize,
    }
}

/// The number of starts in every class; `starts` says which positions are starts.
pub(crate) fn class_sizes<C: Code>(
    text: &Text<C>,
    classes: usize,
    is_start: &(impl Fn(usize) -> bool + Sync),
) -> Vec<usize> {
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

impl<P: Position> Classes<P> {
    /// Distributes the starts of the classes in `range`, whose sizes are known.
    pub(crate) fn new<C: Code>(
        text: &Text<C>,
        sizes: &[usize],
        range: std::ops::Range<usize>,
        is_start: &(impl Fn(usize) -> bool + Sync),
    ) -> Self {
        let mut offsets = vec![0; range.len() + 1];
        for (i, class) in range.clone().enumerate() {
            offsets[i + 1] = offsets[i] + sizes[class];
        }
        let total = offsets[range.len()];
        let mut positions = vec![P::new(0); total];
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
        Self { positions, offsets }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::text;
    use super::*;
    use proptest::prelude::*;

    /// The starts of all classes in order, and the common prefix of each with the one before it in its class.
    fn sorted<C: Code>(text: &Text<C>, codes: usize, depth: usize) -> Vec<(usize, Option<u64>)> {
        let n = if class_tokens::<C>() == 2 { codes << 8 } else { codes };
        let all = |_| true;
        let classes = Classes::<u32>::new(text, &class_sizes(text, n, &all), 0..n, &all);
        let mut sorted = Vec::new();
        for class in classes.offsets.windows(2) {
            let positions = &classes.positions[class[0]..class[1]];
            let mut starts: Vec<_> =
                positions.iter().map(|&position| Start { common: 0, position }).collect();
            if starts.first().is_some_and(|start| text.room(start.position as usize) >= class_tokens::<C>()) {
                sort_class(text, &mut starts, class_tokens::<C>(), depth);
            }
            let common = |i: usize| (i > 0).then(|| starts[i].common);
            sorted.extend((0..starts.len()).map(|i| (starts[i].position as usize, common(i))));
        }
        sorted
    }

    proptest! {
        #[test]
        fn the_order_and_common_prefixes_are_those_of_libsais(
            tokens in prop_oneof![
                prop::collection::vec(0u32..2, 1..300),
                prop::collection::vec(0u32..200, 1..300),
                prop::collection::vec(0u32..3, 1..40).prop_map(|period| period.repeat(7)),
            ],
        ) {
            let depth = tokens.len();
            let suffixes: Vec<u16> = tokens.iter().map(|&token| token as u16).collect();
            let array = libsais::SuffixArrayConstruction::for_text(&suffixes[..]);
            let array = array.in_owned_buffer32().single_threaded().run().unwrap();
            let array = array.plcp_construction().single_threaded().run().unwrap();
            let expect = array.suffix_array().iter().map(|&start| (start as usize, array.plcp()[start as usize] as u64));
            let expect: Vec<_> = expect.collect();
            let documents = [tokens];
            let found = [
                sorted(&text::<u8>(&documents), 202, depth),
                sorted(&text::<u16>(&documents), 202, depth),
                sorted(&text::<u32>(&documents), 202, depth),
            ];
            for found in found {
                prop_assert_eq!(found.len(), expect.len());
                for ((start, common), expect) in found.into_iter().zip(&expect) {
                    prop_assert_eq!((start, common.unwrap_or(expect.1)), *expect);
                }
            }
        }

        #[test]
        fn classes_are_sorted_as_windows_are(
            documents in prop::collection::vec(prop::collection::vec(0u32..3, 1..40), 1..6),
            depth in 2usize..40,
        ) {
            fn check<C: Code>(documents: &[Vec<u32>], depth: usize) -> Result<(), TestCaseError> {
                let text = text::<C>(documents);
                let window = |s: usize| text.codes(s..s + text.room(s).min(depth)).iter().map(|c| c.get()).collect::<Vec<_>>();
                let n = 4 << if class_tokens::<C>() == 2 { 8 } else { 0 };
                let all = |_| true;
                let sizes = class_sizes(&text, n, &all);
                let classes = Classes::<u32>::new(&text, &sizes, 0..n, &all);
                let prefix = class_tokens::<C>();
                let mut sorted = Vec::new();
                for class in 0..n {
                    let positions = &classes.positions[classes.offsets[class]..classes.offsets[class + 1]];
                    let mut starts: Vec<_> = positions.iter().map(|&position| Start { common: 0, position }).collect();
                    if !starts.is_empty() && text.room(starts[0].position as usize) >= prefix {
                        sort_class(&text, &mut starts, prefix, depth);
                        for pair in starts.windows(2) {
                            let (a, b) = (window(pair[0].position as usize), window(pair[1].position as usize));
                            let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
                            prop_assert_eq!(pair[1].common, common as u64);
                        }
                    }
                    sorted.extend(starts.iter().map(|s| s.position as usize));
                }
                let windows: Vec<_> = sorted.iter().map(|&s| window(s)).collect();
                prop_assert!(windows.is_sorted());
                sorted.sort_unstable();
                prop_assert_eq!(sorted.len(), text.tokens());
                sorted.dedup();
                prop_assert_eq!(sorted.len(), text.tokens());
                Ok(())
            }
            check::<u8>(&documents, depth)?;
            check::<u16>(&documents, depth)?;
            check::<u32>(&documents, depth)?;
        }
    }
}
