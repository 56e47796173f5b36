//! What is memorized: samples of a visible context, a position to read at, and a label.
//!
//! | goal | attention | a sample for | its visible context |
//! |---|---|---|---|
//! | next | either | each sequence, read at its last position | the whole sequence |
//! | every position | bidirectional | each position of each sequence | the whole sequence |
//! | every position | causal | each position of each sequence | the tokens up to it |
//!
//! Equal samples are merged. The same context and position with two labels is a conflict, which no network can satisfy, and
//! an error. With padding every sequence is filled up to the longest length with one more token, so that the attention's
//! mean is always over the same number.

use crate::bounds::information::label_bits_at_least;
use crate::setting::choices;
use crate::units::{AtLeast, counted};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// What is labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// One label per sequence.
    #[default]
    Next,
    /// One label per position: sequence to sequence.
    EveryPosition,
}

choices!(Goal, "task" { Next = "next", EveryPosition = "every-position" | "s2s" });

/// What a position sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Visibility {
    /// Itself and everything before it.
    #[default]
    Causal,
    /// The whole sequence.
    Bidirectional,
}

choices!(Visibility, "attention" { Causal = "causal", Bidirectional = "bidirectional" });

/// The kind and size of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What is labelled.
    pub goal: Goal,
    /// What a position sees.
    pub attention: Visibility,
    /// Whether sequences are filled up to the longest length.
    pub padded: bool,
    /// w: tokens are 0..w-1.
    pub d_vocab: u32,
    /// T: the longest sequence.
    pub n_ctx: u32,
    /// C: labels are 0..C-1.
    pub labels: u32,
}

/// The longest context: beyond it the weight of the attention, the least common multiple of the lengths, becomes unmanageable.
pub const MAX_CONTEXT: u32 = 1 << 12;

impl Task {
    /// Checks that the task makes sense.
    pub fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::setting("task", message));
        match self {
            Self { labels: 0, .. } => wrong("the number of labels must be at least 1 (got 0)".into()),
            Self { d_vocab: 0, .. } => wrong("the vocabulary must have at least 1 token (got 0)".into()),
            Self { n_ctx: 0, .. } => wrong("the longest context must have at least 1 token (got 0)".into()),
            Self { n_ctx, .. } if *n_ctx > MAX_CONTEXT => {
                wrong(format!("contexts must have at most {MAX_CONTEXT} tokens (got {n_ctx})"))
            }
            Self { padded: true, goal: Goal::EveryPosition, attention: Visibility::Causal, .. } => wrong(
                "padding changes nothing where a position sees only what precedes it; leave it out".into(),
            ),
            _ => Ok(()),
        }
    }

    /// The tokens that a network of this task knows: the padding is one more.
    pub fn network_tokens(&self) -> usize {
        self.d_vocab as usize + usize::from(self.padded)
    }

    /// The context that the network sees for a query, and the position that is read. `position` is the position whose answer
    /// is wanted; it is the last one for [`Goal::Next`].
    pub fn query(&self, tokens: &[u32], position: usize) -> Result<(Vec<u32>, usize)> {
        let wrong = |message: String| Error::setting("tokens", message);
        if tokens.is_empty() {
            return Err(wrong("an empty context".into()));
        }
        if tokens.len() > self.n_ctx as usize {
            return Err(wrong(format!("{} tokens; this network reads at most {}", tokens.len(), self.n_ctx)));
        }
        if let Some(token) = tokens.iter().find(|&&t| t >= self.d_vocab) {
            return Err(wrong(format!(
                "token {token} is out of range: the largest token is {}",
                self.d_vocab - 1
            )));
        }
        if position >= tokens.len() {
            return Err(wrong(format!("position {position} of {} tokens", tokens.len())));
        }
        let mut seen = match (self.goal, self.attention) {
            (Goal::EveryPosition, Visibility::Causal) => tokens[..=position].to_vec(),
            _ => tokens.to_vec(),
        };
        let mut read = match self.goal {
            Goal::Next => seen.len() - 1,
            Goal::EveryPosition => position,
        };
        if self.padded {
            seen.resize(self.n_ctx as usize, self.d_vocab);
            if self.goal == Goal::Next {
                read = seen.len() - 1;
            }
        }
        Ok((seen, read))
    }
}

/// One sample of [`Samples`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    start: usize,
    length: u32,
    /// The position that is read.
    pub read: u32,
    /// The label.
    pub label: u32,
}

impl Sample {
    /// The number of visible tokens.
    #[allow(clippy::len_without_is_empty)] // There is no empty context.
    pub fn len(&self) -> usize {
        self.length as usize
    }
}

/// Checked, distinct samples, in the order of their contexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    task: Task,
    tokens: Vec<u32>,
    list: Vec<Sample>,
    /// The number of samples that were merged with an equal one.
    pub duplicates: u64,
    label_table: usize,
}

/// An error in a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// The number of the sequence, from 0; `None` if the error is about all of them.
    pub sequence: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl From<Defect> for Error {
    fn from(defect: Defect) -> Self {
        let at = defect.sequence.map(|i| format!("sequence {}: ", i + 1)).unwrap_or_default();
        Error::setting("samples", format!("{at}{}", defect.message))
    }
}

impl Samples {
    /// Returns N log2 C, the number of bits that any memory of N samples with C labels must hold.
    pub fn information_bits(&self) -> AtLeast {
        label_bits_at_least(self.len() as u128, self.task().labels.into())
    }

    /// Checks sequences with their labels: one label for [`Goal::Next`], one per position for [`Goal::EveryPosition`].
    pub fn new<'a>(
        task: Task,
        sequences: impl IntoIterator<Item = (&'a [u32], &'a [u32])>,
    ) -> Result<Self, Defect> {
        task.check().map_err(|e| Defect { sequence: None, message: e.to_string() })?;
        let mut all = Self { task, tokens: Vec::new(), list: Vec::new(), duplicates: 0, label_table: 0 };
        let mut origin = Vec::new();
        for (number, (tokens, labels)) in sequences.into_iter().enumerate() {
            all.push(tokens, labels).map_err(|message| Defect { sequence: Some(number), message })?;
            origin.resize(all.list.len(), number);
        }
        if all.list.is_empty() {
            return Err(Defect { sequence: None, message: "nothing to memorize: no sequence".into() });
        }
        all.distinct(&origin)?;
        Ok(all)
    }

    fn push(&mut self, tokens: &[u32], labels: &[u32]) -> Result<(), String> {
        let Task { goal, n_ctx, d_vocab, .. } = self.task;
        if tokens.is_empty() {
            return Err("no token".into());
        }
        if tokens.len() > n_ctx as usize {
            return Err(format!("must have at most {n_ctx} tokens (got {})", tokens.len()));
        }
        if let Some(token) = tokens.iter().find(|&&t| t >= d_vocab) {
            return Err(format!("token {token} is out of range: the largest token is {}", d_vocab - 1));
        }
        if let Some(label) = labels.iter().find(|&&y| y >= self.task.labels) {
            return Err(format!(
                "label {label} is out of range: the largest label is {}",
                self.task.labels - 1
            ));
        }
        let wanted = match goal {
            Goal::Next => 1,
            Goal::EveryPosition => tokens.len(),
        };
        if labels.len() != wanted {
            let found = counted(labels.len() as u64, "label");
            let tokens = counted(tokens.len() as u64, "token");
            return Err(format!("{found} for {tokens} (expected {wanted})"));
        }
        let start = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        if self.task.padded {
            self.tokens.resize(start + n_ctx as usize, d_vocab);
        }
        let whole = (self.tokens.len() - start) as u32;
        for (position, &label) in (0u32..).zip(labels) {
            let (length, read) = match (goal, self.task.attention) {
                (Goal::Next, _) => (whole, whole - 1),
                (_, Visibility::Bidirectional) => (whole, position),
                (_, Visibility::Causal) => (position + 1, position),
            };
            self.list.push(Sample { start, length, read, label });
        }
        Ok(())
    }

    /// Sorts by context, merges equal samples, and finds conflicts. `origin` is the sequence of each sample.
    fn distinct(&mut self, origin: &[usize]) -> Result<(), Defect> {
        let Self { tokens, list, .. } = self;
        let of = |s: &Sample| &tokens[s.start..s.start + s.len()];
        let same = |a: &Sample, b: &Sample| (of(a), a.read) == (of(b), b.read);
        let mut order: Vec<usize> = (0..list.len()).collect();
        order.sort_by(|&i, &j| {
            let (a, b) = (&list[i], &list[j]);
            a.length.cmp(&b.length).then_with(|| of(a).cmp(of(b))).then(a.read.cmp(&b.read)).then(i.cmp(&j))
        });
        let mut conflicts: Vec<(usize, usize)> = Vec::new();
        let mut kept: Vec<usize> = Vec::with_capacity(order.len());
        for &i in &order {
            match kept.last() {
                Some(&j) if same(&list[i], &list[j]) => {
                    if list[i].label != list[j].label {
                        conflicts.push((origin[i], j));
                    }
                }
                _ => kept.push(i),
            }
        }
        if let Some(&(sequence, earlier)) = conflicts.iter().min() {
            let known = &list[earlier];
            let shown: Vec<String> = of(known).iter().take(12).map(u32::to_string).collect();
            let more = if known.len() > 12 { " ..." } else { "" };
            let message = format!(
                "a conflict: the context {}{more} read at position {} has the label {} in sequence {} and another here",
                shown.join(" "),
                known.read,
                known.label,
                origin[earlier] + 1
            );
            return Err(Defect { sequence: Some(sequence), message });
        }
        self.duplicates = (order.len() - kept.len()) as u64;
        self.list = kept.into_iter().map(|i| self.list[i]).collect();
        Ok(())
    }

    /// The same samples, whose labels become tokens through a table of this many entries.
    pub fn with_label_table(self, entries: usize) -> Self {
        Self { label_table: entries, ..self }
    }

    /// Entries of the table from labels to tokens; 0 where labels need none.
    pub fn label_table(&self) -> usize {
        self.label_table
    }

    /// The kind and size of the task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// N: the number of distinct samples.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Always `false`: there is at least one sample.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The samples.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Sample> {
        self.list.iter()
    }

    /// The samples as a slice.
    pub fn list(&self) -> &[Sample] {
        &self.list
    }

    /// The tokens that the network sees for a sample.
    pub fn visible(&self, sample: &Sample) -> &[u32] {
        &self.tokens[sample.start..sample.start + sample.len()]
    }

    /// The label that all samples share, if they do.
    pub fn only_label(&self) -> Option<u32> {
        let first = self.list.first()?.label;
        self.list.iter().all(|s| s.label == first).then_some(first)
    }

    /// The numbers of visible tokens that occur, in order.
    pub fn lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> = self.list.iter().map(Sample::len).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }
}

#[cfg(test)]
pub(super) mod examples {
    use super::*;

    /// A task of small sequences.
    pub fn task(goal: Goal, attention: Visibility, padded: bool) -> Task {
        Task { goal, attention, padded, d_vocab: 3, n_ctx: 3, labels: 4 }
    }

    /// Samples from sequences that are right.
    pub fn samples(task: Task, sequences: &[(&[u32], &[u32])]) -> Samples {
        Samples::new(task, sequences.iter().copied()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::examples::*;
    use super::*;

    fn defect(task: Task, sequences: &[(&[u32], &[u32])]) -> String {
        Error::from(Samples::new(task, sequences.iter().copied()).unwrap_err()).to_string()
    }

    #[test]
    fn what_cannot_be_memorized_is_refused() {
        let next = task(Goal::Next, Visibility::Causal, false);
        for (sequences, says) in [
            (&[] as &[(&[u32], &[u32])], "no sequence"),
            (&[(&[], &[0])], "sequence 1: no token"),
            (&[(&[0], &[0]), (&[0, 1, 2, 0], &[0])], "sequence 2: must have at most 3 tokens (got 4)"),
            (&[(&[3], &[0])], "token 3 is out of range: the largest token is 2"),
            (&[(&[0], &[4])], "label 4 is out of range: the largest label is 3"),
            (&[(&[0], &[])], "0 labels for 1 token (expected 1)"),
            (&[(&[0, 1], &[1]), (&[1], &[0]), (&[0, 1], &[2])], "sequence 3: a conflict: the context 0 1"),
        ] {
            assert!(defect(next, sequences).contains(says), "{}", defect(next, sequences));
        }
        let each = task(Goal::EveryPosition, Visibility::Bidirectional, false);
        assert!(defect(each, &[(&[0, 1], &[0])]).contains("1 label for 2 tokens (expected 2)"));
        for wrong in [Task { labels: 0, ..next }, Task { d_vocab: 0, ..next }, Task { n_ctx: 0, ..next }] {
            assert!(Samples::new(wrong, [(&[0u32][..], &[0u32][..])]).is_err());
        }
        assert!(Samples::new(Task { n_ctx: MAX_CONTEXT + 1, ..next }, [(&[0u32][..], &[0u32][..])]).is_err());
        let useless = task(Goal::EveryPosition, Visibility::Causal, true);
        assert!(defect(useless, &[(&[0], &[0])]).contains("padding changes nothing"));
    }

    #[test]
    fn equal_samples_are_merged() {
        let next = task(Goal::Next, Visibility::Causal, false);
        let all = samples(next, &[(&[0, 1], &[1]), (&[2], &[0]), (&[0, 1], &[1])]);
        assert_eq!((all.len(), all.duplicates, all.lengths()), (2, 1, vec![1, 2]));
        assert_eq!(all.only_label(), None);
        assert_eq!(samples(next, &[(&[2], &[3]), (&[1], &[3])]).only_label(), Some(3));
    }

    #[test]
    fn a_shared_prefix_conflicts_only_where_the_rest_is_not_seen() {
        let sequences: [(&[u32], &[u32]); 2] = [(&[0, 1], &[0, 1]), (&[0, 2], &[3, 1])];
        let causal = task(Goal::EveryPosition, Visibility::Causal, false);
        assert!(
            defect(causal, &sequences).contains("sequence 2: a conflict: the context 0 read at position 0")
        );
        let both = samples(task(Goal::EveryPosition, Visibility::Bidirectional, false), &sequences);
        assert_eq!(both.len(), 4);
        let agreeing = samples(causal, &[(&[0, 1], &[0, 1]), (&[0, 2], &[0, 2])]);
        assert_eq!((agreeing.len(), agreeing.duplicates), (3, 1));
    }

    #[test]
    fn queries_see_what_samples_see() {
        let causal = task(Goal::EveryPosition, Visibility::Causal, false);
        assert_eq!(causal.query(&[0, 1, 2], 1).unwrap(), (vec![0, 1], 1));
        let padded = task(Goal::Next, Visibility::Causal, true);
        assert_eq!(padded.query(&[2], 0).unwrap(), (vec![2, 3, 3], 2));
        let all = samples(padded, &[(&[2], &[1])]);
        assert_eq!(all.visible(&all.list()[0]), [2, 3, 3]);
        let wrong = |tokens: &[u32], at| padded.query(tokens, at).unwrap_err().to_string();
        assert!(wrong(&[], 0).contains("empty"));
        assert!(wrong(&[3], 0).contains("token 3"), "the padding is not a token of a query");
        assert!(wrong(&[0, 0, 0, 0], 0).contains("4 tokens"));
        assert!(wrong(&[0], 1).contains("position 1"));
    }
}
