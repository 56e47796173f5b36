//! Merging sorted runs into one order: first their vocabularies, then their documents.

use super::count::sort::RowVisitor;
use super::sorted_run::RunReader;
use super::vocabulary::{Alphabet, Arena, Vocabulary};
use crate::observe::{Observer, Stage};
use crate::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;

/// The union of the vocabularies of runs, read token by token, and the map from each run's ids to the union's.
///
/// `budget` is the memory that the union and the maps may take.
pub(crate) fn union<R: Read>(
    runs: &mut [RunReader<R>],
    budget: Option<u64>,
) -> Result<(Vocabulary, Vec<Vec<u32>>)> {
    let alphabet = runs.first().map_or(Alphabet::Word, |r| r.header.alphabet);
    let mut union = Vocabulary::new(alphabet);
    let mut names = Arena::default();
    let mut with_names = false;
    let mut maps: Vec<Vec<u32>> = runs.iter().map(|_| Vec::new()).collect();
    let mut heads = Vec::with_capacity(runs.len());
    for run in runs.iter_mut() {
        heads.push(run.next_token()?);
    }
    while let Some(least) = heads.iter().flatten().min_by(|a, b| a.key().cmp(&b.key())).cloned() {
        let id = union.len() as u32;
        let mut marks = 0;
        for (i, head) in heads.iter_mut().enumerate() {
            if head.as_ref().is_some_and(|h| h.key() == least.key()) {
                marks |= head.as_ref().map_or(0, |h| h.marks);
                maps[i].push(id);
                *head = runs[i].next_token()?;
                if head.as_ref().is_some_and(|h| h.key() <= least.key()) {
                    return Err(runs[i].damaged("the vocabulary is out of order"));
                }
            }
        }
        union.push(least.key(), marks);
        if let Some(name) = &least.name {
            with_names = true;
            names.push(name);
        }
        if id & 0xffff == 0xffff {
            check_memory(&union, &maps, budget)?;
        }
    }
    check_memory(&union, &maps, budget)?;
    if with_names {
        union.set_name_list(names);
    }
    Ok((union, maps))
}

fn check_memory(union: &Vocabulary, maps: &[Vec<u32>], budget: Option<u64>) -> Result<()> {
    let held = union.footprint() + maps.iter().map(|m| m.len() * 4).sum::<usize>();
    match budget {
        Some(budget) if held as u64 > budget.max(1 << 24) => Err(Error::setting(
            "max_memory",
            format!(
                "{} different tokens alone take more; allow more, or use `tokenizer = char` or `tokenizer = byte`",
                union.len()
            ),
        )),
        _ => Ok(()),
    }
}

/// More documents than anyone can store; up to this number the tokens of all documents are counted in 64 bits.
const MOST_DOCUMENTS: u64 = 1 << 43;

/// The next document of a run, in the ids of the merged vocabulary. Ordered by document, then by run.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NextDocument {
    document: Vec<u32>,
    run: usize,
    count: u64,
}

/// Passes the rows of the merged order to the visitor; `maps` translate each run's ids to the merged ones, `total` is
/// the number of documents if it is known.
pub(crate) fn merge<R: Read>(
    runs: &mut [RunReader<R>],
    maps: &[Vec<u32>],
    total: Option<u64>,
    visitor: &mut impl RowVisitor,
    observer: &dyn Observer,
) -> Result<()> {
    let mut heads = BinaryHeap::with_capacity(runs.len());
    let load =
        |runs: &mut [RunReader<R>], run: usize, mut document: Vec<u32>| -> Result<Option<NextDocument>> {
            Ok(runs[run].advance()?.map(|count| {
                document.clear();
                document.extend(runs[run].document().iter().map(|&t| maps[run][t as usize]));
                NextDocument { document, run, count }
            }))
        };
    for run in 0..runs.len() {
        heads.extend(load(runs, run, Vec::new())?.map(Reverse));
    }
    let mut before: Vec<u32> = Vec::new();
    let (mut rows, mut documents) = (0u64, 0u64);
    while let Some(Reverse(NextDocument { document, run, mut count })) = heads.pop() {
        let mut spare = vec![(run, Vec::new())];
        while heads.peek().is_some_and(|Reverse(h)| h.document == document) {
            let Some(Reverse(same)) = heads.pop() else { break };
            count = count.saturating_add(same.count);
            spare.push((same.run, same.document));
        }
        documents = documents.saturating_add(count);
        if documents > MOST_DOCUMENTS {
            return Err(Error::format(runs[run].path(), "an impossible number of documents"));
        }
        let lcp = before.iter().zip(&document).take_while(|(a, b)| a == b).count();
        visitor.row(lcp, document.len(), count, |p| document[p]);
        spare[0].1 = std::mem::replace(&mut before, document);
        for (run, buffer) in spare {
            heads.extend(load(runs, run, buffer)?.map(Reverse));
        }
        rows += 1;
        if rows & 0xffff == 0 {
            observer.report(Stage::Merging, documents, total)?;
        }
    }
    Ok(())
}
