//! The distinct contexts of a corpus with their counts and next-token distributions: what models are trained on, built for
//! and measured against.
//!
//! The loss is a sum over *distinct contexts with counts*, never over repeated positions:
//!
//! ```text
//! loss = sum_i [ c_i lse(logits_i) - sum_g n_ig logits_ig ],    gap = loss - floor
//! ```
//!
//! Keys, values and queries depend only on a token and its position, so each such *place* is listed once, and a context is
//! a list of places. A dataset is checked when it is made and never changes afterwards; share it as an `Arc<Dataset>`.
//!
//! ```
//! use byrote::corpus::{Corpus, Options, Outputs, Source};
//! use byrote::dataset::Dataset;
//! use byrote::observe::Silent;
//!
//! // From a corpus that was read with its contexts ...
//! let source = Source::Stories { documents: 20, seed: 0 };
//! let outputs = Outputs::default().contexts(true);
//! let stories = Dataset::from_corpus(&Corpus::read(&source, &Options::default(), outputs, &Silent)?)?;
//! assert_eq!((stories.documents(), stories.n_ctx()), (20, 9));
//!
//! // ... or from contexts: tokens, and how often each next token follows.
//! let coin = Dataset::new(2, 1, [(vec![0], vec![(0, 1.0), (1, 1.0)]), (vec![1], vec![(0, 3.0)])])?;
//! assert_eq!((coin.len(), coin.predictions()), (2, 5.0));
//! assert!((coin.floor().0 - 2.0 * 2f64.ln()).abs() < 1e-15); // one context is a coin toss, the other is certain
//! # Ok::<(), byrote::Error>(())
//! ```

use crate::corpus::{Alphabet, ContextSet, Corpus, Key, Vocabulary};
use crate::model::{Config, ModelFile};
use crate::num::hash::Fnv;
use crate::units::Nats;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest vocabulary of contexts given as ids: every id has an entry in the vocabulary.
const MAX_IDS: u64 = 1 << 24;

/// Distinct contexts, counts and next tokens in flat arrays.
///
/// There is at least one context, and no context is listed twice. Every context has at least one next token; counts are
/// positive and sum to the count of the context; the next tokens of a context increase; all tokens are below
/// [`d_vocab`](Self::d_vocab), and no context is longer than [`n_ctx`](Self::n_ctx).
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// The distinct (token, position) pairs, in order.
    pub(crate) places: Vec<(u32, u32)>,
    /// Where the places of each context begin in `context_places`; one entry more than there are contexts.
    pub(crate) context_starts: Vec<usize>,
    /// The places of the contexts, end to end.
    pub(crate) context_places: Vec<u32>,
    /// How often each context occurs.
    pub(crate) counts: Vec<f64>,
    /// Where the next tokens of each context begin; one entry more than there are contexts.
    pub(crate) next_starts: Vec<usize>,
    /// Next tokens with how often they follow.
    pub(crate) next: Vec<(u32, f64)>,
    /// The lowest loss any model can reach.
    pub(crate) floor: Nats,
    /// A hash of the vocabulary, where the tokens have names: the same ids may be other words.
    names: u64,
    d_vocab: u64,
    n_ctx: u64,
    documents: u64,
    tokenizer: String,
    vocabulary: Arc<Vocabulary>,
}

/// A dataset is its own reference, so that functions can take `&Dataset`, `&Arc<Dataset>` or `Arc<Dataset>`.
impl AsRef<Dataset> for Dataset {
    fn as_ref(&self) -> &Dataset {
        self
    }
}

impl Dataset {
    /// The dataset of contexts over the tokens `0..d_vocab`, each given as its tokens and the counts of its next tokens.
    ///
    /// # Errors
    /// If there is no context, if a context is listed twice, is too long or lacks next tokens, if a token is not below
    /// `d_vocab`, or if `d_vocab` exceeds 2^24.
    pub fn new(
        d_vocab: u64,
        n_ctx: u64,
        contexts: impl IntoIterator<Item = (Vec<u32>, Vec<(u32, f64)>)>,
    ) -> Result<Self> {
        let vocabulary = ids(d_vocab)?;
        let mut made = Self::collect(contexts, d_vocab, n_ctx, Arc::new(vocabulary));
        made.floor = Nats((0..made.len()).map(|i| made.floor_of(i)).sum());
        made.checked()
    }

    /// The dataset of a corpus that was read with its contexts.
    pub fn from_corpus(corpus: &Corpus) -> Result<Self> {
        let contexts = corpus.contexts.as_ref().filter(|c| !c.is_empty()).ok_or_else(Error::no_contexts)?;
        let summary = &corpus.summary;
        let vocabulary = Arc::new(corpus.vocabulary.clone());
        let made = Self::collect(listed(contexts), summary.d_vocab, u64::from(summary.n_ctx), vocabulary);
        Self {
            floor: summary.floor_nats,
            names: corpus.vocabulary.fingerprint(),
            documents: summary.documents,
            tokenizer: summary.tokenizer.clone(),
            ..made
        }
        .checked()
    }

    /// Lists places and contexts; the floor is not known yet.
    fn collect(
        contexts: impl IntoIterator<Item = (Vec<u32>, Vec<(u32, f64)>)>,
        d_vocab: u64,
        n_ctx: u64,
        vocabulary: Arc<Vocabulary>,
    ) -> Self {
        let mut all: Vec<Vec<u32>> = Vec::new();
        let mut places = BTreeMap::new();
        let (mut counts, mut next_starts, mut next) = (Vec::new(), vec![0], Vec::new());
        for (tokens, followers) in contexts {
            places.extend(tokens.iter().copied().zip(0u32..).map(|place| (place, 0u32)));
            all.push(tokens);
            counts.push(followers.iter().map(|f| f.1).sum());
            next.extend(followers);
            next_starts.push(next.len());
        }
        for (index, number) in places.values_mut().zip(0..) {
            *index = number;
        }
        let (mut context_starts, mut context_places) = (vec![0], Vec::new());
        for tokens in &all {
            context_places.extend(tokens.iter().copied().zip(0u32..).map(|place| places[&place]));
            context_starts.push(context_places.len());
        }
        let places = places.into_keys().collect();
        let (floor, names, documents, tokenizer) = (Nats(0.0), 0, 0, "ids".into());
        Self {
            places,
            context_starts,
            context_places,
            counts,
            next_starts,
            next,
            floor,
            names,
            d_vocab,
            n_ctx,
            documents,
            tokenizer,
            vocabulary,
        }
    }

    /// The dataset if it keeps its promises, or an error that names the first context that does not.
    fn checked(self) -> Result<Self> {
        let wrong = |context: usize, what: String| {
            Err(Error::setting("contexts", format!("context {context} {what}")))
        };
        if self.is_empty() {
            return Err(Error::setting("contexts", "must be at least one (got none)"));
        }
        if let Some((first, second)) = self.duplicate() {
            return wrong(second, format!("is the same as context {first}"));
        }
        for i in 0..self.len() {
            let length = self.places_of(i).len() as u64;
            if length == 0 || length > self.n_ctx {
                return wrong(i, format!("must have from 1 to {} tokens (got {length})", self.n_ctx));
            }
            let next = self.next_of(i);
            if let Some(&(token, n)) = next.iter().find(|(_, n)| !(*n > 0.0 && n.is_finite())) {
                return wrong(i, format!("is followed by token {token} {n} times; counts must be positive"));
            }
            if next.is_empty() || !next.is_sorted_by(|a, b| a.0 < b.0) {
                return wrong(i, "needs next tokens, each listed once and in increasing order".into());
            }
        }
        let tokens = self.places.iter().map(|p| p.0).chain(self.next.iter().map(|n| n.0));
        if let Some(token) = tokens.max().filter(|&t| u64::from(t) >= self.d_vocab) {
            return Err(Error::setting(
                "d_vocab",
                format!("{} tokens, but there is a token {token}", self.d_vocab),
            ));
        }
        let floor: f64 = (0..self.len()).map(|i| self.floor_of(i)).sum();
        let off = (floor - self.floor.0).abs();
        if off.is_nan() || off > 1e-9 * floor.abs().max(1.0) {
            return Err(Error::setting(
                "floor",
                format!("{}, but the contexts have {floor} nats", self.floor),
            ));
        }
        Ok(self)
    }

    /// Two contexts that are the same, if there are any.
    fn duplicate(&self) -> Option<(usize, usize)> {
        let key = |i: usize| (self.places_of(i).len(), self.places_of(i));
        // The contexts of a corpus come in this order, so they are only compared with their neighbours.
        if (1..self.len()).all(|i| key(i - 1) < key(i)) {
            return None;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|&i| key(i));
        order.windows(2).find(|w| key(w[0]) == key(w[1])).map(|w| (w[0], w[1]))
    }

    /// The same dataset with its tokens renamed to those of a vocabulary: token t becomes `names[t]`.
    pub(crate) fn renamed(mut self, names: &[u32], vocabulary: Arc<Vocabulary>) -> Result<Self> {
        let d_vocab = vocabulary.len() as u64;
        let mut taken = names.to_vec();
        taken.sort_unstable();
        if let Some(pair) = taken.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::setting("names", format!("two tokens are named {}", pair[0])));
        }
        let tokens = self.places.iter_mut().map(|p| &mut p.0).chain(self.next.iter_mut().map(|n| &mut n.0));
        for token in tokens {
            match names.get(*token as usize) {
                Some(&name) if u64::from(name) < d_vocab => *token = name,
                _ => {
                    return Err(Error::setting(
                        "names",
                        format!("token {token} has no name below {d_vocab}"),
                    ));
                }
            }
        }
        for next in self.next_starts.windows(2) {
            self.next[next[0]..next[1]].sort_by_key(|n| n.0);
        }
        if !self.places.is_sorted() {
            let mut order: Vec<usize> = (0..self.places.len()).collect();
            order.sort_by_key(|&p| self.places[p]);
            let mut number = vec![0u32; order.len()];
            order.iter().zip(0..).for_each(|(&p, n)| number[p] = n);
            self.places = order.iter().map(|&p| self.places[p]).collect();
            self.context_places.iter_mut().for_each(|p| *p = number[*p as usize]);
        }
        Self { d_vocab, vocabulary, ..self }.checked()
    }

    /// Returns the dataset of a corpus in the token ids of a model that is to read it.
    ///
    /// # Errors
    /// When the corpus holds a token that the model does not know, or a context longer than the model reads.
    pub fn for_model(corpus: &Corpus, file: &ModelFile) -> Result<Self> {
        let dataset = Self::from_corpus(corpus)?.in_vocabulary(&file.vocabulary)?;
        dataset.fits(file.model.config())?;
        Ok(dataset)
    }

    /// Returns the tokens that follow a context, with their counts; none if the context does not occur.
    ///
    /// ```
    /// use byrote::dataset::Dataset;
    /// let dataset = Dataset::new(3, 2, [(vec![0], vec![(1, 4.0)]), (vec![0, 1], vec![(0, 1.0), (2, 1.0)])])?;
    /// assert_eq!(dataset.next_after(&[0, 1]), [(0, 1.0), (2, 1.0)]);
    /// assert!(dataset.next_after(&[2]).is_empty());
    /// # Ok::<(), byrote::Error>(())
    /// ```
    pub fn next_after(&self, context: &[u32]) -> &[(u32, f64)] {
        let found = (0..self.len()).find(|&c| self.tokens_of(c) == context);
        found.map_or(&[], |c| self.next_of(c))
    }

    /// The same dataset in the token ids of another vocabulary, such as a model's.
    pub fn in_vocabulary(self, vocabulary: &Vocabulary) -> Result<Self> {
        if self.vocabulary.alphabet() != vocabulary.alphabet() {
            let word = |a: Alphabet| format!("{a:?}").to_lowercase();
            let message = format!(
                "the model reads {} tokens, but the corpus has {} tokens",
                word(vocabulary.alphabet()),
                word(self.vocabulary.alphabet())
            );
            return Err(Error::setting("tokenizer", message));
        }
        let names = self.vocabulary.ids_in(vocabulary).map_err(|id| {
            let token = self.vocabulary.text(id);
            Error::setting("model", format!("has never seen the token {token:?} of this corpus"))
        })?;
        let renamed = self.renamed(&names, Arc::new(vocabulary.clone()))?;
        Ok(Self { names: vocabulary.fingerprint(), ..renamed })
    }

    /// Whether a model of this configuration can read the dataset, or an error that says why not.
    pub fn fits(&self, config: &Config) -> Result<()> {
        let longest = self.context_starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0) as u64;
        if longest > config.shape.n_ctx {
            let message = format!("contexts of {longest} tokens for a model of {}", config.shape.n_ctx);
            return Err(Error::setting("n_ctx", message));
        }
        let tokens = self.places.iter().map(|p| p.0).chain(self.next.iter().map(|n| n.0));
        match tokens.max() {
            Some(token) if u64::from(token) >= config.shape.d_vocab => {
                let message = format!("token {token} for a model of {} tokens", config.shape.d_vocab);
                Err(Error::setting("d_vocab", message))
            }
            _ => Ok(()),
        }
    }

    /// These contexts alone, in this order; the floor is theirs.
    ///
    /// # Errors
    /// If there are none, if one does not exist, or if one is listed twice.
    pub fn subset(&self, contexts: &[usize]) -> Result<Self> {
        match contexts.iter().find(|&&c| c >= self.len()) {
            Some(c) => {
                Err(Error::setting("contexts", format!("there is no context {c} among {}", self.len())))
            }
            None => self.part(contexts).checked(),
        }
    }

    /// Like [`subset`](Self::subset), for distinct indices that are known to exist.
    pub(crate) fn part(&self, contexts: &[usize]) -> Self {
        let mut number = vec![0u32; self.places.len()];
        contexts.iter().flat_map(|&c| self.places_of(c)).for_each(|&p| number[p as usize] = 1);
        let places: Vec<_> =
            self.places.iter().zip(&number).filter(|&(_, &used)| used == 1).map(|(&p, _)| p).collect();
        for (n, next) in number.iter_mut().filter(|n| **n == 1).zip(0..) {
            *n = next;
        }
        let mut part = Self {
            places,
            context_starts: vec![0],
            context_places: Vec::new(),
            counts: Vec::with_capacity(contexts.len()),
            next_starts: vec![0],
            next: Vec::new(),
            floor: Nats(contexts.iter().map(|&c| self.floor_of(c)).sum()),
            names: self.names,
            d_vocab: self.d_vocab,
            n_ctx: self.n_ctx,
            documents: self.documents,
            tokenizer: self.tokenizer.clone(),
            vocabulary: self.vocabulary.clone(),
        };
        for &c in contexts {
            part.context_places.extend(self.places_of(c).iter().map(|&p| number[p as usize]));
            part.context_starts.push(part.context_places.len());
            part.counts.push(self.counts[c]);
            part.next.extend_from_slice(self.next_of(c));
            part.next_starts.push(part.next.len());
        }
        part
    }

    /// Like [`part`](Self::part), with other next tokens for each context.
    pub(crate) fn part_with(&self, contexts: &[usize], next: Vec<Vec<(u32, f64)>>) -> Self {
        let mut part = self.part(contexts);
        part.counts = next.iter().map(|next| next.iter().map(|n| n.1).sum()).collect();
        part.next_starts = std::iter::once(0)
            .chain(next.iter().scan(0, |end, next| {
                *end += next.len();
                Some(*end)
            }))
            .collect();
        part.next = next.concat();
        part.floor = Nats((0..part.len()).map(|i| part.floor_of(i)).sum());
        part
    }

    /// Returns the same contexts, each followed by only one token.
    pub(crate) fn with_one_next(&self, token: impl Fn(usize) -> u32) -> Self {
        let next = self.counts.iter().enumerate().map(|(i, &count)| (token(i), count)).collect();
        Self { next, next_starts: (0..=self.len()).collect(), floor: Nats(0.0), ..self.clone() }
    }

    /// Returns the contribution of a context to the floor: its count times the entropy of its next tokens.
    ///
    /// # Panics
    /// If there is no such context, as a slice does.
    pub fn floor_of(&self, context: usize) -> f64 {
        let count = self.counts[context];
        self.next_of(context).iter().map(|&(_, n)| n * (count / n).ln()).sum()
    }

    /// Returns a hash of the contexts, which identifies the dataset.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv::new();
        hash.write(&self.names.to_le_bytes());
        for &(token, position) in &self.places {
            hash.write(&token.to_le_bytes());
            hash.write(&position.to_le_bytes());
        }
        for context in 0..self.len() {
            for &place in self.places_of(context) {
                hash.write(&place.to_le_bytes());
            }
            hash.write(&u32::MAX.to_le_bytes());
            for &(token, n) in self.next_of(context) {
                hash.write(&token.to_le_bytes());
                hash.write(&n.to_bits().to_le_bytes());
            }
            hash.write(&u32::MAX.to_le_bytes());
        }
        hash.finish()
    }

    /// Returns the number of distinct contexts.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Always false: a dataset has at least one context.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the number of predictions: the sum of all counts.
    pub fn predictions(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// Returns the lowest loss that any model can reach, summed over all predictions.
    pub fn floor(&self) -> Nats {
        self.floor
    }

    /// The size of the vocabulary.
    pub fn d_vocab(&self) -> u64 {
        self.d_vocab
    }

    /// Returns the length of the longest context that the dataset was made for.
    pub fn n_ctx(&self) -> u64 {
        self.n_ctx
    }

    /// Returns the number of documents that were read; 0 if the contexts came from elsewhere.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The name of the tokenizer.
    pub fn tokenizer(&self) -> &str {
        &self.tokenizer
    }

    /// The tokens by id.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// How often each context occurs.
    pub fn counts(&self) -> &[f64] {
        &self.counts
    }

    /// The distinct (token, position) pairs.
    pub fn places(&self) -> &[(u32, u32)] {
        &self.places
    }

    /// Returns the places of a context, as indices into [`places`](Self::places).
    ///
    /// # Panics
    /// If there is no such context, as a slice does.
    pub fn places_of(&self, context: usize) -> &[u32] {
        &self.context_places[self.context_starts[context]..self.context_starts[context + 1]]
    }

    /// Returns the next tokens of a context with their counts.
    ///
    /// # Panics
    /// If there is no such context, as a slice does.
    pub fn next_of(&self, context: usize) -> &[(u32, f64)] {
        &self.next[self.next_starts[context]..self.next_starts[context + 1]]
    }

    /// Returns the tokens of a context.
    ///
    /// # Panics
    /// If there is no such context, as a slice does.
    pub fn tokens_of(&self, context: usize) -> Vec<u32> {
        self.places_of(context).iter().map(|&p| self.places[p as usize].0).collect()
    }

    /// Returns the tokens of a context as text.
    ///
    /// # Panics
    /// If there is no such context, as a slice does.
    pub fn text_of(&self, context: usize) -> String {
        let tokens: Vec<String> =
            self.tokens_of(context).into_iter().map(|t| self.vocabulary.text(t)).collect();
        tokens.join(self.vocabulary.joiner())
    }

    /// Returns the next tokens of a context as text, most frequent first, with their counts if there are several; at
    /// most `most` of them.
    ///
    /// # Panics
    /// If there is no such context, as a slice does.
    pub fn next_text_of(&self, context: usize, most: usize) -> String {
        let mut next = self.next_of(context).to_vec();
        next.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let text = |&(token, n): &(u32, f64)| match next.len() {
            1 => self.vocabulary.text(token),
            _ => format!("{} x{n}", self.vocabulary.text(token)),
        };
        let shown: Vec<String> = next.iter().take(most).map(text).collect();
        let more = if next.len() > most { format!(" +{}", next.len() - most) } else { String::new() };
        shown.join(", ") + &more
    }
}

/// The vocabulary of the ids `0..d_vocab`.
fn ids(d_vocab: u64) -> Result<Vocabulary> {
    if d_vocab > MAX_IDS {
        return Err(Error::setting("d_vocab", format!("must be at most {MAX_IDS} (got {d_vocab})")));
    }
    let mut vocabulary = Vocabulary::new(Alphabet::Id);
    (0..d_vocab as u32).for_each(|id| {
        vocabulary.push(Key::Symbol(id), 0);
    });
    Ok(vocabulary)
}

/// The contexts of a set, each with its next tokens.
fn listed(contexts: &ContextSet) -> impl Iterator<Item = (Vec<u32>, Vec<(u32, f64)>)> {
    contexts.iter().map(|context| {
        let mut tokens = Vec::new();
        context.tokens(&mut tokens);
        (tokens, context.next().map(|(token, n)| (token, n as f64)).collect())
    })
}

/// Small datasets for tests.
#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::corpus::{Options, Outputs, Source, Window};
    use crate::observe::Silent;

    /// The dataset of a source, contexts of up to `n_ctx` tokens, and its vocabulary's size.
    pub(crate) fn of(source: &Source, n_ctx: u32) -> (Arc<Dataset>, u64) {
        let options = Options { window: Window { n_ctx, ..Window::default() }, ..Options::default() };
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let corpus = Corpus::read(source, &options, outputs, &Silent).unwrap();
        (Arc::new(Dataset::from_corpus(&corpus).unwrap()), corpus.summary.d_vocab)
    }

    /// That of the built-in stories, contexts of up to 9 tokens.
    pub(crate) fn stories(documents: u64) -> (Arc<Dataset>, u64) {
        of(&Source::Stories { documents, seed: 0 }, 9)
    }

    /// That of a text, one document per line.
    pub(crate) fn text(text: &str) -> (Arc<Dataset>, u64) {
        let file = tempfile::Builder::new().suffix(".txt").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        of(&Source::Files(vec![file.path().to_path_buf()]), 9)
    }

    /// That of documents of single-letter tokens: `"abc abd"` is two of three tokens.
    pub(crate) fn letters(documents: &str) -> (Arc<Dataset>, u64) {
        let line = |d: &str| d.chars().map(String::from).collect::<Vec<_>>().join(" ");
        text(&documents.split(' ').map(line).collect::<Vec<_>>().join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Contexts = Vec<(Vec<u32>, Vec<(u32, f64)>)>;

    fn contexts() -> impl Strategy<Value = Contexts> {
        let next = prop::collection::btree_map(0u32..6, 1u32..50, 1..5);
        let next = next.prop_map(|map| map.into_iter().map(|(t, n)| (t, f64::from(n))).collect());
        let distinct = prop::collection::btree_map(prop::collection::vec(0u32..6, 1..5), next, 1..20);
        distinct.prop_map(|map| map.into_iter().collect::<Contexts>()).prop_shuffle()
    }

    proptest! {
        #[test]
        fn a_dataset_gives_back_the_contexts_it_was_made_of(contexts in contexts()) {
            let made = Dataset::new(6, 4, contexts.clone()).unwrap();
            prop_assert_eq!(made.len(), contexts.len());
            for (i, (tokens, next)) in contexts.iter().enumerate() {
                prop_assert_eq!(&made.tokens_of(i), tokens);
                prop_assert_eq!(made.next_of(i), &next[..]);
                prop_assert_eq!(made.counts()[i], next.iter().map(|n| n.1).sum::<f64>());
            }
            prop_assert!(made.floor().0 >= 0.0);
        }

        #[test]
        fn parts_share_the_floor_out(contexts in contexts()) {
            let made = Dataset::new(6, 4, contexts).unwrap();
            let (even, odd): (Vec<usize>, Vec<usize>) = (0..made.len()).partition(|i| i % 2 == 0);
            let parts = [even, odd].map(|part| made.part(&part));
            let floor: f64 = parts.iter().map(|p| p.floor().0).sum();
            prop_assert!((floor - made.floor().0).abs() <= 1e-9 * floor.max(1.0));
            prop_assert!(parts.iter().all(|p| p.is_empty() || p.clone().checked().is_ok()));
            prop_assert!(made.subset(&[made.len()]).is_err());
        }

        #[test]
        fn renaming_tokens_keeps_the_floor(contexts in contexts()) {
            let made = Dataset::new(6, 4, contexts).unwrap();
            let names = [12, 11, 15, 10, 14, 13];
            let moved = made.clone().renamed(&names, Arc::new(ids(16).unwrap())).unwrap();
            prop_assert!((moved.floor().0 - made.floor().0).abs() <= 1e-12 * made.floor().0.max(1.0));
            prop_assert_ne!(moved.fingerprint(), made.fingerprint());
            prop_assert_eq!((moved.d_vocab(), moved.vocabulary().len()), (16, 16));
            prop_assert!(moved.places().is_sorted());
            for i in 0..made.len() {
                let tokens: Vec<u32> = made.tokens_of(i).iter().map(|&t| names[t as usize]).collect();
                prop_assert_eq!(moved.tokens_of(i), tokens);
                let mut next: Vec<_> = made.next_of(i).iter().map(|&(t, n)| (names[t as usize], n)).collect();
                next.sort_by_key(|n| n.0);
                prop_assert_eq!(moved.next_of(i), &next[..]);
            }
            let refused = |names: &[u32], d_vocab| {
                made.clone().renamed(names, Arc::new(ids(d_vocab).unwrap())).is_err()
            };
            prop_assert!(refused(&[], 6), "no names");
            prop_assert!(refused(&[0, 1, 2, 3, 4, 0], 6), "two tokens of one name");
            prop_assert!(refused(&[6, 7, 8, 9, 10, 11], 6), "names beyond the vocabulary");
        }
    }

    #[test]
    fn a_dataset_needs_distinct_contexts_and_at_least_one() {
        let refused = |made: Result<Dataset>| made.unwrap_err().to_string();
        assert!(refused(Dataset::new(2, 1, [])).contains("at least one"));
        let next = || vec![(0, 1.0)];
        let twice = [(vec![1, 0], next()), (vec![0], next()), (vec![1], next()), (vec![1, 0], next())];
        assert!(refused(Dataset::new(2, 2, twice.clone())).contains("context 3 is the same as context 0"));
        // In another order, and a prefix of another context, is no repetition.
        let made = Dataset::new(2, 2, twice[..3].to_vec()).unwrap();
        assert!(refused(made.subset(&[])).contains("at least one"));
        assert!(refused(made.subset(&[0, 2, 0])).contains("context 2 is the same as context 0"));
        assert_eq!(made.subset(&[2, 0]).unwrap().tokens_of(1), [1, 0]);
    }

    #[test]
    fn a_huge_vocabulary_of_ids_is_refused_before_it_is_listed() {
        let refused = Dataset::new(u64::MAX, 1, [(vec![0], vec![(0, 1.0)])]).unwrap_err();
        assert_eq!(refused.setting_name(), Some("d_vocab"));
    }

    #[test]
    fn contexts_that_break_a_promise_are_refused() {
        let refused = |d_vocab, n_ctx, contexts: Contexts| {
            Dataset::new(d_vocab, n_ctx, contexts).unwrap_err().to_string()
        };
        for (d_vocab, n_ctx, context, says) in [
            (2, 1, (vec![0, 1], vec![(0, 1.0)]), "tokens (got 2)"),
            (2, 1, (vec![], vec![(0, 1.0)]), "tokens (got 0)"),
            (2, 1, (vec![0], vec![]), "needs next tokens"),
            (2, 1, (vec![0], vec![(1, 1.0), (0, 1.0)]), "increasing order"),
            (2, 1, (vec![0], vec![(1, 1.0), (1, 1.0)]), "increasing order"),
            (2, 1, (vec![0], vec![(0, -1.0)]), "positive"),
            (2, 1, (vec![0], vec![(0, f64::NAN)]), "positive"),
            (1, 1, (vec![0], vec![(1, 1.0)]), "token 1"),
            (1, 1, (vec![3], vec![(0, 1.0)]), "token 3"),
        ] {
            let message = refused(d_vocab, n_ctx, vec![context]);
            assert!(message.contains(says), "{message}");
        }
        let (stories, _) = examples::stories(3);
        let wrong = Dataset { floor: Nats(stories.floor.0 + 0.1), ..(*stories).clone() };
        assert!(wrong.checked().unwrap_err().to_string().contains("floor"));
    }
}
