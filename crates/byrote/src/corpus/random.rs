//! Distinct random sequences, each followed by a random label: the association task in its purest form.
//!
//! A sequence is drawn as follows: its length `l` uniformly in `A..=B`, then its `l` tokens uniformly in `0..d_vocab`;
//! if the sequence has been drawn before, length and tokens are drawn again. Its label is uniform in `0..labels`, from
//! a separate stream, so that labels do not depend on how often sequences were redrawn. The first `m` of `n`
//! associations are those of a draw of `m`.
//!
//! There are `S = sum_{l=A}^{B} d_vocab^l` sequences, and asking for more than `S` is an error. Up to `S` the draw
//! terminates: a length whose sequences have all been drawn is excluded (redraws would reject it anyway, so the
//! distribution is the same), and among the remaining lengths a draw is new with probability at least `(S - k) / (S L)`
//! after `k` sequences, with `L` the number of lengths. Drawing all `S` takes at most `L S (1 + ln S)` draws on average
//! (the coupon collector's problem), where `L <= log2(S) + 1` unless `d_vocab = 1`, and then every draw is new.

use std::ops::RangeInclusive;

use rustc_hash::FxHashSet;

use crate::error::{Error, Result};
use crate::num::Stream;

/// The largest number of sequences: they are held in memory to find duplicates.
pub const MAX_SEQUENCES: usize = 1 << 27;

/// The length of the longest sequence that can be requested.
pub const MAX_LENGTH: usize = 1 << 20;

/// Checked settings of a random association task; equal settings give equal tasks.
///
/// ```
/// use byrote::corpus::random::Associations;
///
/// let task = Associations::new(100, 20, 2..=4, 5, 7)?;
/// for tokens in task.draw() {
///     let (label, sequence) = tokens.split_last().expect("a label and at least one token");
///     assert!(*label < 5 && (2..=4).contains(&sequence.len()));
/// }
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Associations {
    n: usize,
    d_vocab: u32,
    lengths: RangeInclusive<usize>,
    labels: u32,
    seed: u64,
}

impl Associations {
    /// Describes `n` sequences over `d_vocab` tokens, of lengths in `lengths` (not counting the label), with labels in
    /// `0..labels`.
    ///
    /// # Errors
    /// [`Error::Setting`] with the name of the setting: `random` if `n` is 0 or above the number of distinct
    /// sequences, `d_vocab` if there is no token, `lengths` if the range is empty, includes 0 or exceeds
    /// [`MAX_LENGTH`], `labels` outside `1..=d_vocab`.
    pub fn new(
        n: usize,
        d_vocab: u32,
        lengths: RangeInclusive<usize>,
        labels: u32,
        seed: u64,
    ) -> Result<Self> {
        let (shortest, longest) = (*lengths.start(), *lengths.end());
        if n == 0 {
            return Err(Error::setting("random", "must be at least 1 (got 0)"));
        }
        if n > MAX_SEQUENCES {
            return Err(Error::setting("random", format!("must be at most {MAX_SEQUENCES} (got {n})")));
        }
        if d_vocab == 0 {
            return Err(Error::setting("d_vocab", "must be at least 1 (got 0)"));
        }
        if shortest == 0 {
            return Err(Error::setting(
                "lengths",
                format!("must start at 1 or above (got {shortest}..{longest})"),
            ));
        }
        if shortest > longest {
            let message = format!("{shortest}..{longest} is empty; write the shorter length first");
            return Err(Error::setting("lengths", message));
        }
        if longest > MAX_LENGTH {
            return Err(Error::setting(
                "lengths",
                format!("must end at {MAX_LENGTH} or below (got {shortest}..{longest})"),
            ));
        }
        if !(1..=d_vocab).contains(&labels) {
            let message =
                format!("must be from 1 to `d_vocab`, {d_vocab}, because labels are tokens (got {labels})");
            return Err(Error::setting("labels", message));
        }
        let available = count_sequences(d_vocab, &lengths);
        if available < n as u64 {
            let message = format!(
                "{n} distinct sequences, but {d_vocab} tokens at lengths {shortest}..{longest} make only \
                 {available}; lower `random`, or raise `d_vocab` or `lengths`"
            );
            return Err(Error::setting("random", message));
        }
        Ok(Associations { n, d_vocab, lengths, labels, seed })
    }

    /// Returns the number of sequences.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Returns the number of tokens to draw from; not all need occur.
    pub fn d_vocab(&self) -> u32 {
        self.d_vocab
    }

    /// Returns the lengths of the sequences, not counting the label.
    pub fn lengths(&self) -> RangeInclusive<usize> {
        self.lengths.clone()
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> u32 {
        self.labels
    }

    /// Iterates over the sequences: tokens, then the label.
    pub fn draw(&self) -> Draw {
        Draw {
            tokens: Stream::new(self.seed, "random sequences", 0),
            labels: Stream::new(self.seed, "random labels", 0),
            seen: Seen::new(self.d_vocab, *self.lengths.end()),
            drawn: 0,
            left: Vec::new(),
            exhausted: Vec::new(),
            settings: self.clone(),
        }
    }
}

/// `d_vocab^length`, at most `u64::MAX`.
fn count_of_length(d_vocab: u32, length: usize) -> u64 {
    // A length beyond u32 saturates, or is a power of one.
    u64::from(d_vocab).saturating_pow(u32::try_from(length).unwrap_or(u32::MAX))
}

/// The number of distinct sequences, at most `u64::MAX`.
fn count_sequences(d_vocab: u32, lengths: &RangeInclusive<usize>) -> u64 {
    if d_vocab == 1 {
        return (lengths.end() - lengths.start()) as u64 + 1;
    }
    let mut sum = 0u64;
    for length in lengths.clone() {
        sum = sum.saturating_add(count_of_length(d_vocab, length));
        if sum == u64::MAX {
            break;
        }
    }
    sum
}

/// The sequences drawn so far.
#[derive(Clone, Debug)]
enum Seen {
    /// By rank, if all ranks fit.
    Ranks { d_vocab: u64, ranks: FxHashSet<u64> },
    /// As sequences.
    Sequences(FxHashSet<Box<[u32]>>),
}

impl Seen {
    fn new(d_vocab: u32, longest: usize) -> Self {
        if count_sequences(d_vocab, &(1..=longest)) < u64::MAX {
            Seen::Ranks { d_vocab: u64::from(d_vocab), ranks: FxHashSet::default() }
        } else {
            Seen::Sequences(FxHashSet::default())
        }
    }

    /// Adds a sequence; returns false if it was already there.
    fn insert(&mut self, tokens: &[u32]) -> bool {
        match self {
            // Digits 1..=d_vocab instead of 0..d_vocab, so that each sequence has a unique number whatever its length.
            Seen::Ranks { d_vocab, ranks } => {
                ranks.insert(tokens.iter().fold(0, |rank, &token| rank * *d_vocab + u64::from(token) + 1))
            }
            Seen::Sequences(sequences) => !sequences.contains(tokens) && sequences.insert(tokens.into()),
        }
    }
}

/// The iterator of [`Associations::draw`].
#[derive(Clone, Debug)]
pub struct Draw {
    settings: Associations,
    tokens: Stream,
    labels: Stream,
    seen: Seen,
    drawn: usize,
    /// `(length, sequences not drawn yet)` of the lengths met so far, sorted by length.
    left: Vec<(usize, u64)>,
    /// The exhausted lengths, sorted.
    exhausted: Vec<usize>,
}

impl Draw {
    /// A length, uniform among those not exhausted.
    fn length(&mut self) -> usize {
        let lengths = &self.settings.lengths;
        let open = lengths.end() - lengths.start() + 1 - self.exhausted.len();
        let mut length = lengths.start() + self.tokens.below(open as u64) as usize;
        for &full in &self.exhausted {
            if length < full {
                break;
            }
            length += 1;
        }
        length
    }

    /// Records that one more sequence of this length is taken.
    fn take(&mut self, length: usize) {
        let slot = match self.left.binary_search_by_key(&length, |&(l, _)| l) {
            Ok(slot) => slot,
            Err(slot) => {
                self.left.insert(slot, (length, count_of_length(self.settings.d_vocab, length)));
                slot
            }
        };
        self.left[slot].1 -= 1;
        if self.left[slot].1 == 0 {
            let place = self.exhausted.partition_point(|&full| full < length);
            self.exhausted.insert(place, length);
        }
    }
}

impl Iterator for Draw {
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        if self.drawn == self.settings.n {
            return None;
        }
        let d_vocab = u64::from(self.settings.d_vocab);
        let mut tokens = Vec::new();
        loop {
            let length = self.length();
            tokens.clear();
            tokens.extend((0..length).map(|_| self.tokens.below(d_vocab) as u32));
            if self.seen.insert(&tokens) {
                break;
            }
        }
        self.take(tokens.len());
        self.drawn += 1;
        tokens.push(self.labels.below(u64::from(self.settings.labels)) as u32);
        Some(tokens)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.settings.n - self.drawn;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Draw {}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(
        n: usize,
        d_vocab: u32,
        lengths: RangeInclusive<usize>,
        labels: u32,
        seed: u64,
    ) -> Vec<Vec<u32>> {
        Associations::new(n, d_vocab, lengths, labels, seed).unwrap().draw().collect()
    }

    fn distinct_sequences(associations: &[Vec<u32>]) -> usize {
        let mut sequences: Vec<&[u32]> = associations.iter().map(|a| &a[..a.len() - 1]).collect();
        sequences.sort_unstable();
        sequences.dedup();
        sequences.len()
    }

    #[test]
    fn the_numbers_of_a_draw_never_change() {
        let expected: [&[u32]; 4] =
            [&[41, 10, 48, 3], &[21, 40, 23, 8], &[48, 33, 20, 17, 19, 9], &[13, 25, 39, 33, 9]];
        assert_eq!(drawn(4, 50, 2..=5, 10, 0), expected);
    }

    #[test]
    fn sequences_are_distinct_and_within_the_settings() {
        let associations = drawn(5000, 12, 2..=6, 3, 1);
        assert_eq!((associations.len(), distinct_sequences(&associations)), (5000, 5000));
        for tokens in &associations {
            let (label, sequence) = tokens.split_last().unwrap();
            assert!(*label < 3 && (2..=6).contains(&sequence.len()) && sequence.iter().all(|&t| t < 12));
        }
    }

    #[test]
    fn equal_settings_give_equal_draws_and_a_longer_draw_begins_with_the_shorter() {
        assert_eq!(drawn(300, 9, 1..=5, 9, 4), drawn(300, 9, 1..=5, 9, 4));
        assert_eq!(drawn(300, 9, 1..=5, 9, 4)[..200], drawn(200, 9, 1..=5, 9, 4));
        assert_ne!(drawn(300, 9, 1..=5, 9, 4), drawn(300, 9, 1..=5, 9, 5));
        // Labels have a separate stream: other sequences, the same labels.
        let labels =
            |d_vocab| drawn(300, d_vocab, 3..=5, 9, 4).iter().map(|a| a[a.len() - 1]).collect::<Vec<_>>();
        assert_eq!(labels(9), labels(10));
    }

    #[test]
    fn every_sequence_there_is_can_be_drawn() {
        for (d_vocab, lengths, all) in
            [(1000, 1..=1, 1000), (2, 1..=12, 8190), (300, 1..=2, 90_300), (1, 1..=700, 700), (1, 5..=5, 1)]
        {
            let associations = drawn(all, d_vocab, lengths.clone(), 1, 2);
            assert_eq!(distinct_sequences(&associations), all);
            let error = Associations::new(all + 1, d_vocab, lengths, 1, 2).unwrap_err();
            assert!(error.to_string().contains(&format!("make only {all};")), "{error}");
        }
    }

    #[test]
    fn lengths_are_uniform_until_one_is_exhausted() {
        let associations = drawn(30_000, 3, 39..=41, 2, 6);
        for length in 39..=41 {
            let count = associations.iter().filter(|a| a.len() == length + 1).count();
            assert!((count as f64 - 10_000.0).abs() < 400.0, "length {length}: {count}");
        }
        let associations = drawn(20_003, 3, 1..=12, 2, 6);
        let count = |length: usize| associations.iter().filter(|a| a.len() == length + 1).count();
        assert_eq!([count(1), count(2), count(3)], [3, 9, 27]);
        assert!(count(12) > count(11) && count(11) > count(10));
    }

    #[test]
    fn sequences_too_many_to_rank_are_told_apart_too() {
        assert!(
            matches!(Seen::new(2, 62), Seen::Ranks { .. }) && matches!(Seen::new(2, 64), Seen::Sequences(_))
        );
        for mut seen in [Seen::new(2, 62), Seen::new(2, 64)] {
            let sequences: [&[u32]; 6] = [&[0], &[1], &[0, 0], &[0, 1], &[1; 62], &[0; 62]];
            assert!(sequences.iter().all(|sequence| seen.insert(sequence)));
            assert!(sequences.iter().all(|sequence| !seen.insert(sequence)));
        }
    }

    #[test]
    fn labels_are_uniform() {
        let associations = drawn(40_000, 1000, 4..=4, 4, 3);
        for label in 0..4 {
            let count = associations.iter().filter(|a| a[4] == label).count();
            assert!((count as f64 - 10_000.0).abs() < 450.0, "label {label}: {count}");
        }
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn settings_out_of_range_are_refused_by_the_name_of_their_option() {
        let name = |n, d_vocab, lengths, labels| match Associations::new(n, d_vocab, lengths, labels, 0) {
            Err(Error::Setting { name, .. }) => name,
            other => panic!("{other:?}"),
        };
        assert_eq!(name(0, 10, 1..=2, 3), "random");
        assert_eq!(name(111, 10, 1..=2, 3), "random");
        assert_eq!(name(5, 0, 1..=2, 3), "d_vocab");
        assert_eq!(name(5, 10, 0..=2, 3), "lengths");
        assert_eq!(name(5, 10, 3..=2, 3), "lengths");
        assert_eq!(name(5, 10, 1..=MAX_LENGTH + 1, 3), "lengths");
        assert_eq!(name(5, 10, 1..=2, 0), "labels");
        assert_eq!(name(5, 10, 1..=2, 11), "labels");
    }

    #[test]
    fn counts_saturate_instead_of_overflowing() {
        assert_eq!(count_sequences(u32::MAX, &(1..=MAX_LENGTH)), u64::MAX);
        assert_eq!(count_sequences(2, &(63..=63)), 1 << 63);
        assert_eq!(count_sequences(2, &(63..=64)), u64::MAX);
        assert_eq!(count_sequences(1, &(1..=MAX_LENGTH)), MAX_LENGTH as u64);
        assert_eq!(count_sequences(10, &(1..=3)), 1110);
        assert_eq!(drawn(10, u32::MAX, 100..=200, u32::MAX, 0).len(), 10);
    }
}
