//! How much of a text an exact network has memorized, and how large the network is.
//!
//! An exact network answers with one label per context and gives it probability 1. It *memorizes* a context when its answer
//! is a most frequent next token, and is *certain* of it rightly when that is the only next token: only then is its loss finite,
//! and 0. The evaluation runs in exact arithmetic, so its counts are proven.

use super::build::{Built, Settings, build};
use super::corpus_task::{from_dataset, random_positions};
use super::exact_file::{ExactFile, Labels};
use super::exact_model::Answer;
use super::exact_network::StagePurpose;
use super::pairs::{self, Labelled, Switches};
use super::task::{Goal, Visibility};
use crate::corpus::{CorpusSpec, Reading, Source, TokenizerChoice};
use crate::dataset::Dataset;
use crate::model::{Counting, ParameterCount};
use crate::observe::{Counter, Observer, Stage};
use crate::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// How many contexts an exact network answers correctly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ExactEvaluation {
    /// Distinct contexts.
    pub contexts: u64,
    /// Predictions: contexts with their multiplicity.
    pub predictions: u64,
    /// Contexts answered with a most frequent next token.
    pub memorized: u64,
    /// Contexts answered with their only next token.
    #[serde(rename = "memorized_distribution")]
    pub certain: u64,
    /// Predictions that are right.
    #[serde(rename = "right_predictions")]
    pub right: u64,
    /// Contexts for which the network gives no label.
    pub without_label: u64,
}

impl ExactEvaluation {
    fn join(self, other: Self) -> Self {
        Self {
            contexts: self.contexts + other.contexts,
            predictions: self.predictions + other.predictions,
            memorized: self.memorized + other.memorized,
            certain: self.certain + other.certain,
            right: self.right + other.right,
            without_label: self.without_label + other.without_label,
        }
    }

    /// The fraction of the contexts that are memorized.
    pub fn accuracy(&self) -> f64 {
        self.memorized as f64 / self.contexts.max(1) as f64
    }

    /// The fraction of the predictions that are right.
    pub fn prediction_accuracy(&self) -> f64 {
        self.right as f64 / self.predictions.max(1) as f64
    }

    /// The training loss: 0 where every context is answered with its only next token, else infinite, which is `None`.
    pub fn loss_nats(&self) -> Option<f64> {
        (self.certain == self.contexts).then_some(0.0)
    }
}

/// Evaluates a network on contexts, which must be written in the ids of its vocabulary.
///
/// # Errors
/// When a context is longer than the network reads, or the observer asks to stop.
pub fn evaluate(file: &ExactFile, dataset: &Dataset, observer: &dyn Observer) -> Result<ExactEvaluation> {
    let ready = file.model.ready();
    let one = |i: usize| -> Result<ExactEvaluation> {
        let answer = ready.answer(&dataset.tokens_of(i), None)?.label().and_then(|y| file.labels.token(y));
        let next = dataset.next_of(i);
        let most = next.iter().fold(0.0f64, |m, n| m.max(n.1));
        let own = next.iter().find(|n| Some(n.0) == answer).map_or(0.0, |n| n.1);
        Ok(ExactEvaluation {
            contexts: 1,
            predictions: next.iter().map(|n| n.1).sum::<f64>() as u64,
            memorized: (own == most).into(),
            certain: (own == most && next.len() == 1).into(),
            right: own as u64,
            without_label: answer.is_none().into(),
        })
    };
    sum(dataset.len(), one, observer)
}

/// Samples that a thread evaluates at a time.
const LOT: usize = 64;

/// The sum of the evaluations of `n` samples.
fn sum(
    n: usize,
    one: impl Fn(usize) -> Result<ExactEvaluation> + Sync,
    observer: &dyn Observer,
) -> Result<ExactEvaluation> {
    let counter = Counter::new(observer, Stage::Evaluating, Some(n as u64));
    let lot = |lot: usize| -> Result<ExactEvaluation> {
        let samples = lot * LOT..((lot + 1) * LOT).min(n);
        counter.add(samples.len() as u64)?;
        samples.map(&one).try_fold(ExactEvaluation::default(), |all, found| Ok(all.join(found?)))
    };
    let lots = (0..n.div_ceil(LOT)).into_par_iter().map(lot);
    lots.try_reduce(ExactEvaluation::default, |a, b| Ok(a.join(b)))
}

/// Evaluates a network on labelled sequences. Tokens and labels are matched by their text.
///
/// # Errors
/// When the data hold a token that the network does not know, or the observer asks to stop.
pub fn evaluate_labelled(
    file: &ExactFile,
    data: &Labelled,
    observer: &dyn Observer,
) -> Result<ExactEvaluation> {
    let ids = data.vocabulary.ids_in(&file.vocabulary).map_err(|token| {
        let message = format!("the model has never seen the token {:?}", data.vocabulary.text(token));
        Error::setting("tokens", message)
    })?;
    let ready = file.model.ready();
    let one = |i: usize| -> Result<ExactEvaluation> {
        let sample = &data.samples.list()[i];
        let tokens: Vec<u32> = data.samples.visible(sample).iter().map(|&t| ids[t as usize]).collect();
        let answer = ready.answer(&tokens, Some(sample.read as usize))?.label();
        let wanted = data.labels.text(sample.label, &data.vocabulary);
        let right = u64::from(answer.is_some_and(|y| file.label_text(y) == wanted));
        let without_label = u64::from(answer.is_none());
        Ok(ExactEvaluation {
            contexts: 1,
            predictions: 1,
            memorized: right,
            certain: right,
            right,
            without_label,
        })
    };
    sum(data.samples.len(), one, observer)
}

impl ExactFile {
    /// The text of a label.
    pub fn label_text(&self, label: u32) -> String {
        self.labels.text(label, &self.vocabulary)
    }

    /// The answers for a sequence: one at its last token, or one per position for a sequence-to-sequence network.
    pub fn answers(&self, tokens: &[u32]) -> Result<Vec<(usize, Answer)>> {
        let ready = self.model.ready();
        let last = tokens.len().saturating_sub(1);
        let positions = match self.model.task.goal {
            Goal::Next => last..=last,
            Goal::EveryPosition => 0..=last,
        };
        positions.map(|p| Ok((p, ready.answer(tokens, Some(p))?))).collect()
    }

    /// How the network reads text.
    pub fn reading(&self) -> Reading<'_> {
        let n_ctx = u64::from(self.model.task.n_ctx);
        Reading { tokenizer: &self.tokenizer, vocabulary: &self.vocabulary, n_ctx }
    }

    /// The labelled sequences that a spec gives to the network: those of a file, or random ones with one label per position,
    /// drawn with the seed of the spec.
    pub fn labelled(&self, spec: &CorpusSpec) -> Result<Labelled> {
        let task = &self.model.task;
        let switches = Switches { goal: task.goal, attention: task.attention, padded: false };
        if let (Labels::Tokens(_), Some(_)) = (&self.labels, spec.random)
            && let Source::Random(associations) = spec.resolve()?.0
        {
            return random_positions(&associations, spec.seed, switches);
        }
        let [path] = &spec.paths[..] else {
            let message =
                "this network was built from labelled sequences: name one file of them, .jsonl or .tsv";
            return Err(Error::setting("paths", message));
        };
        let choice = match self.tokenizer.as_str() {
            "ids" => TokenizerChoice::default(),
            name => spec.tokenizer.clone().or_else(|| name.parse().ok()).unwrap_or_default(),
        };
        pairs::read(path, switches, &choice)
    }

    /// The size of the network.
    pub fn size(&self) -> NetworkSize {
        NetworkSize::new(&self.model.network, self.parameters())
    }
}

/// The size of an exact network in parameters, layers and bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NetworkSize {
    /// Non-zero parameters, embedding and label table included.
    pub parameters: u128,
    /// Dense parameters, embedding and label table included.
    pub parameters_dense: u128,
    /// The convention of `parameters`, `parameters_by_kind` and `parameters_by_part`: non-zero.
    pub counting: Counting,
    /// Non-zero parameters by the kind of tensor they would be in a transformer.
    pub parameters_by_kind: BTreeMap<&'static str, u128>,
    /// Non-zero parameters by the part of the construction.
    pub parameters_by_part: BTreeMap<&'static str, u128>,
    /// Dense parameters by the part of the construction.
    pub parameters_dense_by_part: BTreeMap<&'static str, u128>,
    /// Sub-layers that are run one after the other.
    pub depth: usize,
    /// The largest number of neurons in a layer.
    pub width: usize,
    /// Channels of the residual stream.
    pub channels: usize,
    /// Distinct numbers among the weights.
    pub distinct_weights: usize,
    /// Bits of the longest weight.
    pub largest_weight_bits: usize,
    /// Bits of all weights in fixed-point notation.
    pub total_bits: usize,
    /// Bits of all weights as significand and power of two.
    pub total_bits_as_powers_of_two: usize,
}

impl NetworkSize {
    fn new(network: &super::ExactNetwork, count: ParameterCount) -> Self {
        let (tally, embedding) = (network.tally(), network.embedding());
        let tables = [("embedding", count.embedding), ("label_table", count.label_table)];
        let by_part = |counting: Counting| {
            let parts = network.tallies().into_iter().map(|(part, tally)| match counting {
                Counting::Nonzero => (part.name(), tally.nonzero as u128),
                Counting::Dense => (part.name(), tally.dense as u128),
            });
            tables.into_iter().chain(parts).collect::<BTreeMap<_, _>>()
        };
        let parts = by_part(Counting::Nonzero);
        let of = |part: StagePurpose| parts.get(part.name()).copied().unwrap_or(0);
        let (attention, output) = (of(StagePurpose::Attention), of(StagePurpose::Head));
        let parameters_by_kind = BTreeMap::from([
            ("embedding", network.tokens.len() as u128),
            ("position", network.positions.len() as u128),
            ("attention", attention),
            ("hidden", count.nonzero - attention - output),
            ("output", output),
            ("label_table", count.label_table),
        ]);
        Self {
            parameters: count.total(Counting::Nonzero),
            parameters_dense: count.total(Counting::Dense),
            counting: Counting::Nonzero,
            parameters_by_kind,
            parameters_dense_by_part: by_part(Counting::Dense),
            parameters_by_part: parts,
            depth: tally.depth,
            width: network.width(),
            channels: network.channels(),
            distinct_weights: network.distinct_weights(),
            largest_weight_bits: tally.largest_bits.max(embedding.largest_bits),
            total_bits: tally.fixed_bits + embedding.fixed_bits,
            total_bits_as_powers_of_two: tally.float_bits + embedding.float_bits,
        }
    }
}

/// Builds the network of the most frequent next tokens of a dataset, and verifies it; also returns its labels.
pub fn build_for(dataset: &Dataset, seed: u64, observer: &dyn Observer) -> Result<(Built, Labels)> {
    let switches = Switches { goal: Goal::Next, attention: Visibility::Causal, padded: false };
    let task = from_dataset(dataset, switches)?;
    let built = build(&task.samples, &Settings { seed, ..Settings::default() }, observer)?;
    Ok((built, task.labels))
}

#[cfg(test)]
mod tests {
    use super::super::corpus_task::from_contexts;
    use super::*;
    use crate::corpus::{Corpus, Options, Outputs, Source};
    use crate::observe::Silent;

    fn stories(documents: u64) -> (ExactFile, Dataset, Built) {
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let source = Source::Stories { documents, seed: 0 };
        let corpus = Corpus::read(&source, &Options::default(), outputs, &Silent).unwrap();
        let dataset = Dataset::from_corpus(&corpus).unwrap();
        let contexts = corpus.contexts.unwrap();
        let switches = Switches { goal: Goal::Next, attention: Visibility::Causal, padded: false };
        let task = from_contexts(&contexts, corpus.vocabulary.len(), switches).unwrap();
        let built = build(&task.samples, &Settings::default(), &Silent).unwrap();
        let file = ExactFile {
            model: built.model.clone(),
            tokenizer: corpus.summary.tokenizer,
            vocabulary: corpus.vocabulary,
            labels: task.labels,
        };
        (file, dataset, built)
    }

    #[test]
    fn a_built_network_memorizes_every_context_and_is_certain_where_it_can_be() {
        let (file, dataset, built) = stories(50);
        let found = evaluate(&file, &dataset, &Silent).unwrap();
        assert_eq!((found.contexts, found.memorized), (dataset.len() as u64, built.verified as u64));
        let deterministic = (0..dataset.len()).filter(|&i| dataset.next_of(i).len() == 1).count() as u64;
        assert_eq!((found.certain, found.without_label), (deterministic, 0));
        assert_eq!((found.accuracy(), found.loss_nats()), (1.0, None));
    }

    #[test]
    fn the_built_in_text_counts_its_label_table_and_both_conventions() {
        let (file, _, built) = stories(1_000);
        let count = file.parameters();
        assert_eq!(count, built.parameters(), "one definition for what is built and what is stored");
        assert_eq!((count.nonzero, count.dense), (985, 3_454));
        assert_eq!((count.embedding, count.label_table), (618, 411));
        let size = file.size();
        assert_eq!((size.parameters, size.parameters_dense), (2_014, 4_483));
        assert_eq!(size.parameters_by_part.values().sum::<u128>(), size.parameters);
        assert_eq!(size.parameters_by_kind.values().sum::<u128>(), size.parameters);
        assert_eq!(size.parameters_dense_by_part.values().sum::<u128>(), size.parameters_dense);
    }
}
