//! Merging sorted runs into one order.

use super::count::sort::RowVisitor;
use super::run::RunReader;
use crate::corpus::{Observer, Phase, Progress};
use crate::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;

/// The next document of a run, in the ids of the merged vocabulary. Ordered by document, then by run.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    document: Vec<u32>,
    run: usize,
    count: u64,
}

/// Gives the rows of the merged order to the visitor; `maps` lead from each run's ids to the merged ones, `total` is the
/// number of documents where it is known.
pub(crate) fn merge<R: Read>(
    runs: &mut [RunReader<R>],
    maps: &[Vec<u32>],
    total: Option<u64>,
    visitor: &mut impl RowVisitor,
    observer: &dyn Observer,
) -> Result<()> {
    let mut heads = BinaryHeap::with_capacity(runs.len());
    let load = |runs: &mut [RunReader<R>], run: usize, mut document: Vec<u32>| -> Result<Option<Head>> {
        Ok(runs[run].advance()?.map(|count| {
            document.clear();
            document.extend(runs[run].document().iter().map(|&t| maps[run][t as usize]));
            Head { document, run, count }
        }))
    };
    for run in 0..runs.len() {
        heads.extend(load(runs, run, Vec::new())?.map(Reverse));
    }
    let mut before: Vec<u32> = Vec::new();
    let (mut rows, mut documents) = (0u64, 0u64);
    while let Some(Reverse(Head { document, run, mut count })) = heads.pop() {
        let mut spare = vec![(run, Vec::new())];
        while heads.peek().is_some_and(|Reverse(h)| h.document == document) {
            let Some(Reverse(same)) = heads.pop() else { break };
            count = count
                .checked_add(same.count)
                .ok_or_else(|| Error::format(runs[same.run].path(), "more than 2^64 documents"))?;
            spare.push((same.run, same.document));
        }
        let lcp = before.iter().zip(&document).take_while(|(a, b)| a == b).count();
        visitor.row(lcp, document.len(), count, |p| document[p]);
        spare[0].1 = std::mem::replace(&mut before, document);
        for (run, buffer) in spare {
            heads.extend(load(runs, run, buffer)?.map(Reverse));
        }
        (rows, documents) = (rows + 1, documents.saturating_add(count));
        if rows & 0xffff == 0 {
            if observer.should_stop() {
                return Err(Error::Interrupted);
            }
            observer.progress(&Progress { phase: Phase::Merging, done: documents, total, documents });
        }
    }
    Ok(())
}
