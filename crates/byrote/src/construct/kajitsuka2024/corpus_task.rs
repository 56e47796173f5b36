//! The association task of a corpus: every context is labelled with its most frequent next token.
//!
//! A context with several next tokens is contradictory; its most frequent next token is its label, the smallest id in a tie.
//! Labels are the tokens that some context is labelled with, numbered in the order of their ids.

use super::exact_file::Labels;
use super::pairs::{Labelled, Switches};
use super::task::{Goal, Samples};
use crate::corpus::random::Associations;
use crate::corpus::{Alphabet, ContextSet, Corpus, Key, Vocabulary};
use crate::dataset::Dataset;
use crate::num::Stream;
use crate::{Error, Result};

/// Samples of a corpus.
#[derive(Debug, Clone)]
pub struct CorpusTask {
    /// The samples.
    pub samples: Samples,
    /// The labels.
    pub labels: Labels,
    /// Contexts with more than one next token.
    pub contradictions: u64,
}

/// The samples of a set of contexts over `d_vocab` tokens.
pub fn from_contexts(contexts: &ContextSet, d_vocab: usize, switches: Switches) -> Result<CorpusTask> {
    let (mut tokens, mut contradictions) = (Vec::new(), 0);
    let mut list: Vec<(Vec<u32>, u32)> = Vec::with_capacity(contexts.len());
    for context in contexts.iter() {
        context.tokens(&mut tokens);
        let Some(&label) = context.top_set().first() else { continue };
        contradictions += u64::from(context.next().nth(1).is_some());
        list.push((tokens.clone(), label));
    }
    from_list(list, contradictions, d_vocab, switches)
}

/// The samples of a corpus that was read with its contexts, and the number of contexts with more than one next token.
pub fn from_corpus(corpus: &Corpus, switches: Switches) -> Result<(Labelled, u64)> {
    let contexts = corpus.contexts.as_ref().filter(|c| !c.is_empty()).ok_or_else(Error::no_contexts)?;
    let task = from_contexts(contexts, corpus.vocabulary.len(), switches)?;
    let labelled = Labelled {
        samples: task.samples,
        labels: task.labels,
        vocabulary: corpus.vocabulary.clone(),
        tokenizer: corpus.summary.tokenizer.clone(),
    };
    Ok((labelled, task.contradictions))
}

/// The samples of a dataset.
pub fn from_dataset(dataset: &Dataset, switches: Switches) -> Result<CorpusTask> {
    let top = |context: usize| {
        let next = dataset.next_of(context).iter();
        next.min_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))).map(|n| (dataset.tokens_of(context), n.0))
    };
    let list = (0..dataset.len()).filter_map(top).collect();
    let contradictions = (0..dataset.len()).filter(|&c| dataset.next_of(c).len() > 1).count() as u64;
    from_list(list, contradictions, dataset.d_vocab() as usize, switches)
}

fn from_list(
    mut list: Vec<(Vec<u32>, u32)>,
    contradictions: u64,
    d_vocab: usize,
    switches: Switches,
) -> Result<CorpusTask> {
    if switches.goal == Goal::EveryPosition {
        let message = "a text has no labels per position; every prefix of a document is a context already, which is the \
                       causal task; give `pairs` or `random`";
        return Err(Error::setting("task", message));
    }
    let mut taken: Vec<u32> = list.iter().map(|l| l.1).collect();
    taken.sort_unstable();
    taken.dedup();
    for (_, label) in &mut list {
        *label = taken.partition_point(|t| t < label) as u32;
    }
    let n_ctx = list.iter().map(|l| l.0.len()).max().unwrap_or(1);
    let task = switches.task(d_vocab.max(1), n_ctx, taken.len().max(1));
    let pairs = list.iter().map(|(s, l)| (&s[..], std::slice::from_ref(l)));
    let labels = Labels::Tokens(taken);
    let samples = Samples::new(task, pairs)?.with_label_table(labels.table_entries());
    Ok(CorpusTask { samples, labels, contradictions })
}

/// Random sequences with a random label at every position.
pub fn random_positions(associations: &Associations, seed: u64, switches: Switches) -> Result<Labelled> {
    let c = associations.labels();
    let mut list: Vec<(Vec<u32>, Vec<u32>)> = Vec::with_capacity(associations.n());
    for (i, mut sequence) in (0u64..).zip(associations.draw()) {
        sequence.pop();
        let mut stream = Stream::new(seed, "random position labels", i);
        let labels = sequence.iter().map(|_| stream.below(c.into()) as u32).collect();
        list.push((sequence, labels));
    }
    let n_ctx = list.iter().map(|l| l.0.len()).max().unwrap_or(1);
    let task = switches.task(associations.d_vocab() as usize, n_ctx, c as usize);
    let samples = Samples::new(task, list.iter().map(|(s, l)| (&s[..], &l[..])))?;
    let mut vocabulary = Vocabulary::new(Alphabet::Id);
    for id in 0..associations.d_vocab() {
        let fits = vocabulary.push(Key::Symbol(id), 0);
        debug_assert!(fits, "ids in order");
    }
    Ok(Labelled { samples, vocabulary, labels: Labels::Tokens((0..c).collect()), tokenizer: "ids".into() })
}

#[cfg(test)]
mod tests {
    use super::super::task::Visibility;
    use super::*;
    use crate::corpus::{Corpus, Options, Outputs, Source};
    use crate::observe::Silent;

    const NEXT: Switches = Switches { goal: Goal::Next, attention: Visibility::Causal, padded: false };

    #[test]
    fn the_most_frequent_token_wins_and_ties_go_to_the_smallest() {
        // Ids 0..=4 stand for 1, 2, 5, 7, 9: after 1 always 2; after 1 2 once 9, once 7.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.txt");
        std::fs::write(&path, "1 2 9\n1 2 7\n5 5 5\n").unwrap();
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let corpus = Corpus::read(&Source::Files(vec![path]), &Options::default(), outputs, &Silent).unwrap();
        let same = from_dataset(&Dataset::from_corpus(&corpus).unwrap(), NEXT).unwrap();
        let contexts = corpus.contexts.unwrap();
        let task = from_contexts(&contexts, corpus.vocabulary.len(), NEXT).unwrap();
        assert_eq!(format!("{task:?}"), format!("{same:?}"));
        assert_eq!((task.contradictions, task.samples.len()), (1, 4));
        // Taken: 2 (id 1), 5 (id 2), 7 (id 3).
        assert_eq!(task.labels, Labels::Tokens(vec![1, 2, 3]));
        assert_eq!((task.samples.label_table(), Labels::Tokens(vec![0, 1]).table_entries()), (3, 0));
        let found: Vec<(Vec<u32>, u32)> =
            task.samples.iter().map(|s| (task.samples.visible(s).to_vec(), s.label)).collect();
        assert_eq!(found, [(vec![0], 0), (vec![2], 1), (vec![0, 1], 2), (vec![2, 2], 1)]);
        let each = Switches { goal: Goal::EveryPosition, ..NEXT };
        assert!(from_contexts(&contexts, 5, each).unwrap_err().to_string().contains("pairs"));
    }

    #[test]
    fn random_sequences_have_one_label_per_position() {
        let associations = Associations::new(10, 50, 8..=8, 10, 3).unwrap();
        let each =
            Switches { goal: Goal::EveryPosition, attention: Visibility::Bidirectional, padded: false };
        let task = random_positions(&associations, 3, each).unwrap();
        assert_eq!((task.samples.len(), task.samples.lengths()), (80, vec![8]));
    }
}
