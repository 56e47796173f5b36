//! The statistics of a corpus: contexts, predictions and the floor.

use super::chunk::Dropped;
use super::count::tally::Tally;
use super::count::trie_scan::Scanned;
use super::options::PartOf;
use super::sorted_run::Header;
use super::vocabulary::VocabularySize;
use super::window::Window;
use super::windows::WindowSummary;
use crate::output::csv_text;
use crate::units::Nats;
use serde::{Deserialize, Serialize};

/// The contexts of one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LengthSummary {
    /// The length t of the contexts.
    pub length: u32,
    /// The number of distinct contexts.
    pub contexts: u64,
    /// The number of predictions they make.
    pub predictions: u64,
    /// Their contribution to the floor.
    pub floor_nats: Nats,
    /// The same per prediction; `None` if there are no predictions.
    #[serde(default)]
    pub floor_nats_per_prediction: Option<Nats>,
    /// The number of (context, next token) pairs.
    #[serde(default)]
    pub pairs: u64,
    /// The number of contexts with a single next token.
    #[serde(default)]
    pub deterministic_contexts: u64,
    /// The number of predictions that these make: what is determined by this many tokens.
    #[serde(default)]
    pub deterministic_predictions: u64,
    /// The number of contexts that occur once: places in the text that this many tokens identify.
    #[serde(default)]
    pub once: u64,
}

/// T_eps of dana2024: the fewest contexts that make up at least 1 - epsilon of the predictions.
///
/// The paper says "greater than 1 - epsilon". With "at least", T_0 is the number of all contexts, as the paper uses it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// The fraction of predictions left out.
    pub epsilon: f64,
    /// The number of contexts.
    pub contexts: u64,
}

/// The values of epsilon reported, in units of 1e-5.
pub(crate) const EPSILONS_1E5: [u32; 7] = [50_000, 20_000, 10_000, 5_000, 1_000, 100, 0];

/// The statistics of a corpus; serialized, the JSON object that `byrote corpus --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// The number of documents kept.
    pub documents: u64,
    /// The number of their tokens: at most T + 1 each.
    pub tokens: u64,
    /// The tokens of kept documents that lie beyond the first T + 1 and are therefore not counted.
    pub tokens_left_out: u64,
    /// The number of distinct tokens in them.
    pub d_vocab: u64,
    /// The longest context T.
    pub n_ctx: u32,
    /// The number of distinct contexts.
    pub contexts: u64,
    /// The number of predictions: occurrences of contexts followed by a token.
    pub predictions: u64,
    /// The lowest training loss that any model can reach, summed over all predictions.
    pub floor_nats: Nats,
    /// The floor per prediction; `None` if there are no predictions.
    pub floor_nats_per_prediction: Option<Nats>,
    /// The floor per prediction in bits.
    pub floor_bits_per_prediction: Option<f64>,
    /// The number of contexts with a single next token.
    pub deterministic_contexts: u64,
    /// The number of predictions that these make.
    #[serde(default)]
    pub deterministic_predictions: u64,
    /// The number of contexts that occur once.
    #[serde(default)]
    pub once: u64,
    /// By context length.
    pub by_length: Vec<LengthSummary>,
    /// T_eps.
    pub coverage: Vec<Coverage>,
    /// The number of distinct kept documents.
    pub sequences: u64,
    /// The number of distinct (context, next token) pairs.
    pub pairs: u64,
    /// The number of distinct tokens that follow some context.
    pub labels: u64,
    /// The number of distinct tokens that end some context.
    pub distinct_last_tokens: u64,
    /// The number of contexts that every token of the vocabulary follows at least once.
    pub full_support_contexts: u64,
    /// The documents not kept: without tokens, or too short for `exact_length`.
    pub dropped: Dropped,
    /// The tokenizer by name.
    pub tokenizer: String,
    /// The settings that turned the text into documents.
    pub window: Window,
    /// The part that was counted, if not all was: of windows, the contexts long enough to be in one part only; of summaries, one
    /// class of documents and tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<PartOf>,
    /// What is known only of windows, if the contexts are those of windows.
    #[serde(flatten)]
    pub windows: Option<WindowSummary>,
}

impl Summary {
    /// Returns the figures by context length as CSV, with the totals in the last row.
    pub fn to_csv(&self) -> String {
        let row = |length: String, counts: [u64; 2], floor: Nats, per: Option<Nats>, others: [u64; 4]| {
            let [contexts, predictions] = counts.map(|n| n.to_string());
            let per = per.map_or(String::new(), |nats| nats.0.to_string());
            let [pairs, deterministic, predicted, once] = others.map(|n| n.to_string());
            [length, contexts, predictions, floor.0.to_string(), per, pairs, deterministic, predicted, once]
        };
        let lengths = self.by_length.iter().map(|l| {
            let others = [l.pairs, l.deterministic_contexts, l.deterministic_predictions, l.once];
            let counts = [l.contexts, l.predictions];
            row(l.length.to_string(), counts, l.floor_nats, l.floor_nats_per_prediction, others)
        });
        let others = [self.pairs, self.deterministic_contexts, self.deterministic_predictions, self.once];
        let counts = [self.contexts, self.predictions];
        let all = row("all".into(), counts, self.floor_nats, self.floor_nats_per_prediction, others);
        let heads = [
            "length",
            "contexts",
            "predictions",
            "floor_nats",
            "floor_nats_per_prediction",
            "pairs",
            "deterministic_contexts",
            "deterministic_predictions",
            "once",
        ];
        csv_text(heads, lengths.chain([all]))
    }

    pub(crate) fn new(scanned: &Scanned, vocabulary: VocabularySize, header: Header) -> Self {
        let Header { window, tokenizer, dropped, tokens_left_out, .. } = header;
        let mut all = Tally::default();
        scanned.by_length.iter().for_each(|t| all.merge(t));
        let floor = all.floor();
        Self {
            documents: scanned.documents,
            tokens: scanned.tokens,
            tokens_left_out,
            d_vocab: vocabulary.tokens,
            n_ctx: window.n_ctx,
            contexts: all.contexts,
            predictions: all.predictions,
            floor_nats: floor,
            floor_nats_per_prediction: floor.per(all.predictions),
            floor_bits_per_prediction: floor.per(all.predictions).map(Nats::bits),
            deterministic_contexts: all.deterministic,
            deterministic_predictions: all.deterministic_predictions,
            once: all.once(),
            by_length: (1..)
                .zip(&scanned.by_length)
                .map(|(length, t)| LengthSummary {
                    length,
                    contexts: t.contexts,
                    predictions: t.predictions,
                    floor_nats: t.floor(),
                    floor_nats_per_prediction: t.floor().per(t.predictions),
                    pairs: t.pairs,
                    deterministic_contexts: t.deterministic,
                    deterministic_predictions: t.deterministic_predictions,
                    once: t.once(),
                })
                .collect(),
            coverage: EPSILONS_1E5
                .iter()
                .map(|&e| Coverage { epsilon: f64::from(e) / 1e5, contexts: all.coverage(e) })
                .collect(),
            sequences: scanned.rows,
            pairs: all.pairs,
            labels: vocabulary.labels,
            distinct_last_tokens: vocabulary.last_tokens,
            full_support_contexts: all.full_support(vocabulary.tokens),
            dropped,
            tokenizer,
            window,
            range: None,
            windows: None,
        }
    }

    /// What to try if there are no predictions because every document is a single token, as in a list of words.
    ///
    /// ```
    /// use byrote::corpus::{Corpus, MemoryFile, Options, Outputs, Source};
    /// use byrote::observe::Silent;
    /// let names = MemoryFile { name: "names.txt".into(), bytes: b"emma\nolivia\n".as_slice().into() };
    /// let corpus = Corpus::read(&Source::Memory(vec![names]), &Options::default(), Outputs::default(), &Silent)?;
    /// assert_eq!(corpus.summary.contexts, 0);
    /// assert!(corpus.summary.hint().is_some_and(|hint| hint.contains("`tokenizer = char`")));
    /// # Ok::<(), byrote::Error>(())
    /// ```
    pub fn hint(&self) -> Option<&'static str> {
        let words = matches!(self.tokenizer.as_str(), "wordpunct" | "whitespace");
        (self.contexts == 0 && self.documents > 0 && words)
            .then_some("every document is a single token, so nothing is predicted; try `tokenizer = char`")
    }

    /// Returns the number of contexts with more than one next token.
    pub fn contradictions(&self) -> u64 {
        self.contexts - self.deterministic_contexts
    }
}
