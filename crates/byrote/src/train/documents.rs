//! The documents behind a dataset, for batches of documents.
//!
//! A model of blocks evaluates a document's contexts together, so batches of documents share more work than batches of
//! contexts. A dataset lists contexts, but the documents can be told from it: with n(u, g) how often token g follows context u,
//! and c(ug) how often that is a context itself, n(u, g) - c(ug) documents end with g after u.

use crate::dataset::Dataset;
use std::collections::BTreeMap;

/// The documents of a dataset.
pub(super) struct Documents {
    /// The last context and the last token of each distinct document, and how many documents there are up to this one.
    ends: Vec<(u32, u32, u64)>,
    /// The context that each context continues by one token.
    parents: Vec<Option<u32>>,
    /// Whether every prefix of a document predicts its next token, and not the whole document alone.
    prefixes: bool,
}

impl Documents {
    /// The documents of a dataset, or `None` if its contexts are not those of whole documents.
    pub(super) fn of(dataset: &Dataset) -> Option<Self> {
        let places: BTreeMap<&[u32], u32> =
            (0..dataset.len()).map(|i| (dataset.places_of(i), i as u32)).collect();
        let parent =
            |i: usize| dataset.places_of(i).split_last().and_then(|(_, before)| places.get(before).copied());
        let parents: Vec<Option<u32>> = (0..dataset.len()).map(parent).collect();
        // How often each context is continued by each token within a longer context.
        let mut continued: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        for (i, parent) in parents.iter().enumerate() {
            if let (Some(parent), Some(&place)) = (parent, dataset.places_of(i).last()) {
                let token = dataset.places[place as usize].0;
                *continued.entry((*parent, token)).or_default() += dataset.counts[i];
            }
        }
        for prefixes in [true, false] {
            let (mut ends, mut total, mut predictions) = (Vec::new(), 0u64, 0.0);
            let mut is_whole = true;
            for i in 0..dataset.len() {
                for &(token, n) in dataset.next_of(i) {
                    let within = if prefixes {
                        continued.get(&(i as u32, token)).copied().unwrap_or(0.0)
                    } else {
                        0.0
                    };
                    let here = n - within;
                    is_whole &= here >= 0.0 && here.fract() == 0.0;
                    if here > 0.0 {
                        total += here as u64;
                        ends.push((i as u32, token, total));
                        predictions += here * if prefixes { dataset.places_of(i).len() as f64 } else { 1.0 };
                    }
                }
            }
            if is_whole && predictions == dataset.predictions() {
                return Some(Self { ends, parents, prefixes });
            }
        }
        None
    }

    /// The number of documents.
    pub(super) fn len(&self) -> usize {
        self.ends.last().map_or(0, |end| end.2 as usize)
    }

    /// The dataset of some of the documents; one may be listed several times.
    pub(super) fn part(&self, dataset: &Dataset, documents: &[usize]) -> Dataset {
        let mut next: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
        for &document in documents {
            let at = self.ends.partition_point(|end| end.2 <= document as u64);
            let Some(&(mut context, mut token, _)) = self.ends.get(at) else { continue };
            loop {
                *next.entry(context).or_default().entry(token).or_default() += 1.0;
                let Some(parent) = self.parents[context as usize].filter(|_| self.prefixes) else { break };
                let last = dataset.places_of(context as usize).last();
                token = last.map_or(token, |&place| dataset.places[place as usize].0);
                context = parent;
            }
        }
        let contexts: Vec<usize> = next.keys().map(|&context| context as usize).collect();
        let next = next.into_values().map(|next| next.into_iter().collect()).collect();
        dataset.part_with(&contexts, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::examples;

    #[test]
    fn all_documents_together_are_the_dataset() {
        for text in ["a b c\na b c\na b\nb a c a\nc\na b d\n", "a b\n", "x y z\nx y z\n"] {
            let (dataset, _) = examples::text(text);
            let documents = Documents::of(&dataset).unwrap();
            let lines = text.lines().filter(|line| line.len() > 1).count();
            assert_eq!(documents.len(), lines);
            let all: Vec<usize> = (0..lines).collect();
            let part = documents.part(&dataset, &all);
            assert_eq!((&part.counts, &part.next), (&dataset.counts, &dataset.next));
            assert!((part.floor.0 - dataset.floor.0).abs() < 1e-12);
            let predictions: f64 = all.iter().map(|&i| documents.part(&dataset, &[i]).predictions()).sum();
            assert_eq!(predictions, dataset.predictions());
        }
    }

    #[test]
    fn associations_are_documents_with_one_prediction() {
        let contexts = [(vec![0, 1], vec![(2, 1.0)]), (vec![1, 1], vec![(0, 2.0)])];
        let dataset = Dataset::new(3, 2, contexts).unwrap();
        let documents = Documents::of(&dataset).unwrap();
        assert_eq!((documents.len(), documents.prefixes), (3, false));
        let part = documents.part(&dataset, &[1, 2]);
        assert_eq!((part.len(), part.predictions()), (1, 2.0));
    }

    #[test]
    fn contexts_that_are_not_those_of_documents_are_noticed() {
        // The second is seen more often than its beginning.
        let contexts = [(vec![0], vec![(1, 1.0)]), (vec![0, 1], vec![(2, 3.0)])];
        assert!(Documents::of(&Dataset::new(3, 2, contexts).unwrap()).is_none_or(|d| !d.prefixes));
        let contexts = [(vec![0], vec![(1, 0.5)])];
        assert!(Documents::of(&Dataset::new(3, 2, contexts).unwrap()).is_none());
    }
}
