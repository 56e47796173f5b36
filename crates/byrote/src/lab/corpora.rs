//! The corpora of a plan, each read once.

use super::job::Job;
use crate::corpus::{Corpus, CorpusSpec, Outputs, Vocabulary};
use crate::observe::Observer;
use crate::train::Problem;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// A corpus as jobs need it.
#[derive(Debug)]
pub struct Material {
    /// Its contexts.
    pub problem: Problem,
    /// Its vocabulary's size.
    pub d_vocab: u64,
    /// The longest context it was read with.
    pub n_ctx: u64,
    /// Documents kept.
    pub documents: u64,
    /// The tokenizer's name.
    pub tokenizer: String,
    /// What the tokens are called.
    pub vocabulary: Vocabulary,
}

impl Material {
    /// What jobs need of a corpus that was read with its contexts.
    pub fn new(corpus: Corpus) -> Result<Self> {
        let contexts = corpus
            .contexts
            .filter(|c| !c.is_empty())
            .ok_or_else(|| Error::EmptyCorpus { message: "no context is followed by a token; if every document is a single word, `tokenizer = char` reads characters".into() })?;
        let names = corpus.vocabulary.fingerprint();
        Ok(Self {
            problem: Problem { names, ..Problem::new(&contexts, corpus.summary.floor_nats) },
            d_vocab: corpus.summary.d_vocab,
            n_ctx: u64::from(corpus.summary.n_ctx),
            documents: corpus.summary.documents,
            tokenizer: corpus.summary.tokenizer,
            vocabulary: corpus.vocabulary,
        })
    }
}

/// Corpora by their settings.
#[derive(Debug, Default)]
pub struct Corpora(BTreeMap<String, Material>);

impl Corpora {
    /// Reads what the jobs need.
    pub fn read(jobs: &[Job], observer: &dyn Observer) -> Result<Self> {
        let mut all = BTreeMap::new();
        for job in jobs {
            let key = key(&job.corpus);
            if all.contains_key(&key) {
                continue;
            }
            let outputs = Outputs { contexts: true, ..Outputs::default() };
            let corpus = Corpus::from_spec(&job.corpus, outputs, observer)?;
            all.insert(key, Material::new(corpus)?);
        }
        Ok(Self(all))
    }

    /// Those of jobs that share one corpus, which was read before.
    pub fn one(spec: &CorpusSpec, material: Material) -> Self {
        Self(BTreeMap::from([(key(spec), material)]))
    }

    /// That of a job.
    ///
    /// # Panics
    /// When the job is not among those that were read for.
    pub fn of(&self, job: &Job) -> &Material {
        &self.0[&key(&job.corpus)]
    }

    /// Settings and fingerprints, for a manifest.
    pub fn fingerprints(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(key, material)| (key.as_str(), material.problem.fingerprint()))
    }
}

fn key(spec: &CorpusSpec) -> String {
    // A struct of numbers and names always serialises.
    serde_json::to_string(spec).unwrap_or_default()
}
