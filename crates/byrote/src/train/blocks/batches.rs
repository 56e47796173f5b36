//! Batches of contexts that are evaluated one after the other: the warm-up of L-BFGS takes a step after each.
//!
//! The leaves of the trie, contexts that begin no other context, are dealt to the batches at random, and a batch has all contexts that
//! its leaves begin with: they are evaluated anyway. A context keeps *all* its next tokens, whoever says them in the corpus, so its
//! gradient vanishes at the floor, and so does the noise of the batches. A context that is in b of k batches has k / b times its loss in
//! each, so that the mean over the batches is exactly the loss over all contexts.

use super::trie::{Weighted, ordered, tokens_of};
use crate::dataset::Dataset;
use crate::num::Stream;

/// Divides the contexts of a dataset into `k` batches, or fewer if there are fewer leaves; each is listed in the order of the trie.
pub(super) fn batches(dataset: &Dataset, k: usize, seed: u64) -> Vec<Vec<Weighted>> {
    let order = ordered(dataset);
    let begins = |a: u32, b: u32| {
        let mut tokens = tokens_of(dataset, b);
        tokens_of(dataset, a).all(|token| tokens.next() == Some(token))
    };
    // A context directly precedes the first one that it begins.
    let leaves: Vec<usize> =
        (0..order.len()).filter(|&i| order.get(i + 1).is_none_or(|&next| !begins(order[i], next))).collect();
    let k = k.clamp(1, leaves.len().max(1));
    let mut dealt: Vec<usize> = (0..leaves.len()).map(|i| i % k).collect();
    let mut stream = Stream::new(seed, "warm-up", 0);
    for i in (1..dealt.len()).rev() {
        dealt.swap(i, stream.below(i as u64 + 1) as usize);
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); k];
    let mut seen = vec![0u32; dataset.len()];
    // The contexts on the way to the current one, each the beginning of the next, with the batches that list them already.
    let mut path: Vec<(u32, Vec<bool>)> = Vec::new();
    let mut next_leaf = leaves.iter().zip(dealt).peekable();
    for (i, &context) in order.iter().enumerate() {
        while path.last().is_some_and(|(last, _)| !begins(*last, context)) {
            path.pop();
        }
        path.push((context, vec![false; k]));
        let Some((_, batch)) = next_leaf.next_if(|(leaf, _)| **leaf == i) else { continue };
        for (context, listed) in &mut path {
            if !std::mem::replace(&mut listed[batch], true) {
                members[batch].push(*context);
                seen[*context as usize] += 1;
            }
        }
    }
    let factor = |context: u32| k as f64 / f64::from(seen[context as usize]);
    members.into_iter().map(|batch| batch.into_iter().map(|c| (c, factor(c))).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::examples;

    #[test]
    fn the_mean_over_the_batches_has_every_context_once() {
        let (stories, _) = examples::stories(40);
        let (text, _) = examples::text("a b c d e\na b c x\na b\nb a\nb a c\nc d\nd d d d d\n");
        // Contexts whose beginnings are no contexts themselves.
        let contexts =
            [(vec![1, 2], vec![(0, 1.0)]), (vec![1, 0, 2], vec![(1, 2.0)]), (vec![0], vec![(1, 1.0)])];
        let associations = Dataset::new(3, 3, contexts).unwrap();
        for dataset in [&*stories, &*text, &associations] {
            for k in [1, 2, 3, 4, 100] {
                let found = batches(dataset, k, 5);
                assert!(!found.is_empty() && found.len() <= k && found.iter().all(|batch| !batch.is_empty()));
                let mut factors = vec![0.0; dataset.len()];
                for batch in &found {
                    let place = |c: u32| ordered(dataset).iter().position(|&o| o == c);
                    assert!(
                        batch.windows(2).all(|w| place(w[0].0) < place(w[1].0)),
                        "in the order of the trie"
                    );
                    batch.iter().for_each(|&(c, factor)| factors[c as usize] += factor / found.len() as f64);
                }
                assert!(factors.iter().all(|f| (f - 1.0).abs() < 1e-12), "{factors:?}");
            }
        }
    }

    #[test]
    fn a_batch_has_the_beginnings_of_its_contexts_and_depends_on_the_seed() {
        let (dataset, _) = examples::stories(40);
        let found = batches(&dataset, 4, 1);
        for batch in &found {
            let listed: Vec<Vec<u32>> = batch.iter().map(|b| dataset.tokens_of(b.0 as usize)).collect();
            for tokens in &listed {
                assert!((1..tokens.len()).all(|n| listed.iter().any(|other| other[..] == tokens[..n])));
            }
        }
        assert_eq!(found, batches(&dataset, 4, 1));
        assert_ne!(found, batches(&dataset, 4, 2));
    }
}
