//! One point of a grid: a corpus, a model, a training run, a seed.
//!
//! A job's identity is a hash of its settings and of the corpus as it was read.

use super::corpora::Corpora;
use crate::corpus::{CorpusSpec, TokenizerChoice};
use crate::dataset::Dataset;
use crate::model::{Config, Hidden, Mixer, ModelSpec, Shape};
use crate::num::hash::fnv1a;
use crate::train::{Optimizer, TrainSpec, default_warmup_batches, default_warmup_rate};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// About how many operations per second training reaches, for estimates.
const PACE: f64 = 1e11;
/// About how many steps L-BFGS takes, for estimates: most runs need this many to come within 1% of the floor, or to stall.
const STEPS: f64 = 1500.0;

/// About how many seconds a block takes per distinct prefix and step, beside its products and with two threads, for estimates. In
/// small blocks normalization and hidden neurons take longer than the products. Fitted to the figures of docs/depth.md.
const SECONDS_PER_BLOCK: f64 = 4e-7;
/// The same of each head of attention.
const SECONDS_PER_HEAD: f64 = 1.5e-7;

/// One training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The corpus.
    #[serde(deserialize_with = "any_version")]
    pub corpus: CorpusSpec,
    /// The model.
    pub model: ModelSpec,
    /// The training settings.
    pub training: TrainSpec,
    /// The seed of the initial weights and the batches.
    pub seed: u64,
}

/// Reads a corpus as written by any version of the program.
fn any_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CorpusSpec, D::Error> {
    let written = Map::deserialize(deserializer)?;
    CorpusSpec::deserialize(Value::Object(modern(written))).map_err(serde::de::Error::custom)
}

/// Translates the corpus keys of plans and journals written by earlier versions.
///
/// `path` is now `paths`. A whole number for `documents` is a number of documents: of the file (`limit`), of the
/// built-in stories (`builtin`) or, if `lengths` asks for random sequences, of those (`random`). `read_as` described
/// the other keys in words and is dropped.
pub(super) fn modern(mut corpus: Map<String, Value>) -> Map<String, Value> {
    if corpus.remove("read_as").is_some()
        && corpus
            .get("tokenizer")
            .and_then(Value::as_str)
            .is_some_and(|t| t.parse::<TokenizerChoice>().is_err())
    {
        // A study wrote the name of its input, such as "ids".
        corpus.remove("tokenizer");
    }
    if let Some(path) = corpus.remove("path").filter(|p| !p.is_null()) {
        corpus.entry("paths").or_insert(path);
    }
    let has = |corpus: &Map<String, Value>, key: &str| {
        corpus.get(key).is_some_and(|v| !v.is_null() && *v != Value::Array(Vec::new()))
    };
    let files = has(&corpus, "paths") || has(&corpus, "merge");
    let random = has(&corpus, "random") || (has(&corpus, "lengths") && !files && !has(&corpus, "builtin"));
    let count = match corpus.get("documents").is_some_and(Value::is_number) {
        true => corpus.remove("documents"),
        false => None,
    };
    let key = match (files, random) {
        (true, _) => "limit",
        (_, true) => "random",
        _ => "builtin",
    };
    match count {
        Some(count) => {
            corpus.entry(key).or_insert(count);
        }
        None if random => {
            corpus.entry("random").or_insert(CorpusSpec::BUILTIN_DOCUMENTS.into());
        }
        None => {}
    }
    // Earlier versions wrote the default tokenizer even for random sequences.
    if random && corpus.get("tokenizer").is_some_and(|t| t == "wordpunct") {
        corpus.remove("tokenizer");
    }
    corpus
}

impl Job {
    /// Returns a unique name: a hash of the settings and of the corpus as it was read.
    pub fn id(&self, dataset: &Dataset) -> String {
        // A struct of numbers and names always serializes.
        let settings = serde_json::to_string(self).unwrap_or_default();
        let text = format!("{settings} {:016x}", dataset.fingerprint());
        format!("{:016x}", fnv1a(text.as_bytes()))
    }

    /// Returns the same job with every default filled in, for a corpus with this vocabulary and window. Invalid
    /// settings are left as they are.
    #[must_use]
    pub fn filled(&self, d_vocab: u64, n_ctx: u64) -> Self {
        let mut job = self.clone();
        job.corpus.n_ctx = job.corpus.n_ctx.or(u32::try_from(n_ctx).ok());
        job.model = self.model.filled(d_vocab, n_ctx);
        job.training = self.training.filled();
        if let Ok(config) = self.model.resolve(d_vocab, n_ctx)
            && job.training.optimizer == Optimizer::Lbfgs
        {
            let batches = job.training.warmup_batches.unwrap_or_else(|| default_warmup_batches(&config));
            job.training.warmup_lr.get_or_insert(default_warmup_rate(&config, batches));
            if config.shape.blocks.is_some() {
                job.training.warmup_batches = Some(batches);
            }
        }
        job
    }

    /// Estimates the operations of one step: multiplications and additions of the output layer, the hidden layer and
    /// attention, once forward and twice backward.
    pub fn operations(&self, config: &Config, dataset: &Dataset) -> f64 {
        let Shape { d_vocab, d_model, n_heads, d_head, d_mlp, mixer, .. } = config.shape;
        if let Some(blocks) = config.shape.blocks {
            // Every weight but those of the tables once per context, scores and mixtures once per token of a context.
            let kinds = config.parameters_by_kind();
            let weights = kinds.attention + kinds.hidden + u128::from(d_model * d_vocab);
            let heads =
                if mixer == Mixer::Attention { (blocks.n_layers * n_heads * d_head) as f64 } else { 0.0 };
            return 6.0
                * (dataset.len() as f64 * weights as f64
                    + 2.0 * heads * dataset.context_places.len() as f64);
        }
        let read = match config.hidden {
            Hidden::Output => d_mlp,
            _ => d_model,
        };
        let contexts = dataset.len() as f64;
        let heads = if mixer == Mixer::Attention { (n_heads * d_head) as f64 } else { 0.0 };
        let layers = (read * d_vocab + d_model * d_mlp) as f64 + heads * d_model as f64;
        // Keys, values and queries once per place, scores and mixtures once per token of a context.
        let places = 3.0 * heads * (dataset.places.len() as u64 * d_model) as f64;
        6.0 * (contexts * layers + places + 2.0 * heads * dataset.context_places.len() as f64)
    }

    /// Estimates how many seconds the job takes with all threads; 0 for a job that cannot run.
    pub fn estimated_seconds(&self, corpora: &Corpora) -> f64 {
        let Ok(dataset) = corpora.of(self) else { return 0.0 };
        let Ok(config) = self.model.resolve(dataset.d_vocab(), dataset.n_ctx()) else { return 0.0 };
        let TrainSpec { optimizer, steps, stall, batch, .. } = self.training;
        let given = steps.unwrap_or(optimizer.default_steps()) as f64;
        // Without a check for stalls, or with Adam, all steps are taken.
        let steps = if optimizer == Optimizer::Lbfgs && stall > 0.0 { given.min(STEPS) } else { given };
        let share = batch.map_or(1.0, |batch| share_of_a_batch(&config, dataset, batch as f64));
        let prefixes = config.shape.blocks.map_or(0, |_| corpora.prefixes_of(self).unwrap_or(0));
        steps * (1e-4 + share * (self.operations(&config, dataset) / PACE + overhead(&config, prefixes)))
    }
}

/// Estimates the seconds that the blocks of a model take beside their products, per step; 0 for a one-layer transformer.
fn overhead(config: &Config, prefixes: usize) -> f64 {
    let Shape { n_heads, mixer, blocks: Some(blocks), .. } = config.shape else { return 0.0 };
    let heads = if mixer == Mixer::Attention { n_heads as f64 } else { 0.0 };
    (prefixes as f64 * blocks.n_layers as f64) * (SECONDS_PER_BLOCK + heads * SECONDS_PER_HEAD)
}

/// The expected share of all contexts that one batch evaluates.
fn share_of_a_batch(config: &Config, dataset: &Dataset, batch: f64) -> f64 {
    let (contexts, documents) = (dataset.len() as f64, dataset.documents() as f64);
    if config.shape.blocks.is_none() || documents == 0.0 {
        return (batch / contexts).min(1.0);
    }
    // A batch misses a context if all the documents that have it are among the others.
    let others = documents - batch.min(documents);
    let missed = |count: f64| {
        let mut probability = 1.0;
        let mut j = 0.0;
        while j < count && probability > 1e-12 {
            probability *= ((others - j) / (documents - j)).max(0.0);
            j += 1.0;
        }
        probability
    };
    dataset.counts.iter().map(|&count| 1.0 - missed(count)).sum::<f64>() / contexts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::examples::stories;
    use crate::model::Preset;
    use crate::observe::Silent;
    use crate::sweep::Plan;
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn a_batch_of_documents_has_more_contexts_than_its_share_of_the_documents() {
        let (dataset, d_vocab) = stories(100);
        let share = |preset: Preset, batch: f64| {
            let config = ModelSpec::default().preset(preset).resolve(d_vocab, 9).unwrap();
            share_of_a_batch(&config, &dataset, batch)
        };
        assert_eq!((share(Preset::Gpt2, 100.0), share(Preset::Gpt2, 1000.0)), (1.0, 1.0));
        // More than a tenth of all contexts, and fewer than ten times the nine of a document.
        let ten = share(Preset::Gpt2, 10.0) * dataset.len() as f64;
        assert!((34.0..90.0).contains(&ten), "{ten}");
        let one = share(Preset::Gpt2, 1.0) * dataset.len() as f64;
        assert!((one - 9.0).abs() < 1e-9, "a document has 9 contexts, not {one}");
        assert_eq!(share(Preset::Madden2024, 33.7) * dataset.len() as f64, 33.7);
    }

    /// The times are those of docs/depth.md, on two idle cores.
    #[test]
    fn estimates_of_deep_figures_are_within_a_factor_of_two() {
        for (key, seconds) in [("dana2024-depth", 120.0), ("mixers", 480.0), ("madden2024-depth", 420.0)] {
            let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
            let plan = Plan::load(&plans.join(format!("{key}.toml"))).unwrap();
            let corpora = Corpora::read(&plan.jobs, &Silent).unwrap();
            let estimate = plan.estimated_seconds(&corpora);
            assert!(estimate > seconds / 2.0 && estimate < seconds * 2.0, "{key}: {estimate} seconds");
        }
    }

    #[test]
    fn only_blocks_take_time_beside_their_products() {
        let of = |preset: Preset, n_layers: Option<u64>| {
            let spec = ModelSpec { n_layers, n_heads: Some(1), ..ModelSpec::default().preset(preset) };
            overhead(&spec.resolve(10, 3).unwrap(), 1000)
        };
        assert_eq!(of(Preset::Madden2024Experiment, None), 0.0);
        assert!(of(Preset::Gpt2, Some(2)) == 2.0 * of(Preset::Gpt2, Some(1)));
        assert!(of(Preset::Averaging, Some(1)) < of(Preset::Gpt2, Some(1)));
    }

    fn read(corpus: Value) -> CorpusSpec {
        let Value::Object(map) = corpus else { panic!("an object") };
        CorpusSpec::deserialize(Value::Object(modern(map))).unwrap()
    }

    #[test]
    fn corpora_of_earlier_versions_are_read() {
        assert_eq!(read(json!({"path": "a.txt", "documents": 5})), CorpusSpec::files(["a.txt"]).limit(5));
        assert_eq!(read(json!({"documents": 5, "path": null})), CorpusSpec::default().builtin(5));
        let random = read(json!({"documents": 5, "lengths": "1..2", "tokenizer": "wordpunct"}));
        assert_eq!((random.random, random.tokenizer), (Some(5), None));
        assert_eq!(read(json!({"lengths": "1..2"})).random, Some(1000));
        assert_eq!(read(json!({"read_as": "--random 50", "documents": 50})).builtin, Some(50));
        let rule = read(json!({"paths": ["a.txt"], "documents": "file"}));
        assert_eq!((rule.limit, rule.documents.map(|d| d.to_string())), (None, Some("file".into())));
    }
}
