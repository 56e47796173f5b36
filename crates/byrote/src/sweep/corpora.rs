//! The corpora of a plan, each read once.

use super::job::Job;
use crate::corpus::{Corpus, CorpusSpec, Outputs};
use crate::dataset::Dataset;
use crate::observe::Observer;
use crate::train::prefixes;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Corpora by their settings.
#[derive(Debug, Default)]
pub struct Corpora(BTreeMap<String, Held>);

/// A corpus and what is computed of it on demand.
#[derive(Debug)]
struct Held {
    dataset: Arc<Dataset>,
    prefixes: OnceLock<usize>,
}

impl From<Arc<Dataset>> for Held {
    fn from(dataset: Arc<Dataset>) -> Self {
        Self { dataset, prefixes: OnceLock::new() }
    }
}

impl Corpora {
    /// Reads the corpora that the jobs need.
    pub fn read(jobs: &[Job], observer: &dyn Observer) -> Result<Self> {
        let mut all = BTreeMap::new();
        for job in jobs {
            let key = key(&job.corpus);
            if all.contains_key(&key) {
                continue;
            }
            let outputs = Outputs { contexts: true, ..Outputs::default() };
            let corpus = Corpus::from_spec(&job.corpus, outputs, observer)?;
            all.insert(key, Arc::new(Dataset::from_corpus(&corpus)?).into());
        }
        Ok(Self(all))
    }

    /// Returns the corpus of jobs that share one, which has been read before.
    pub fn one(spec: &CorpusSpec, dataset: Arc<Dataset>) -> Self {
        Self(BTreeMap::from([(key(spec), dataset.into())]))
    }

    /// Returns the corpus of a job; an error if it was not read.
    pub fn of(&self, job: &Job) -> Result<&Arc<Dataset>> {
        Ok(&self.held(job)?.dataset)
    }

    /// Returns the number of distinct beginnings of the contexts of a job, each of which blocks evaluate once.
    pub(super) fn prefixes_of(&self, job: &Job) -> Result<usize> {
        let held = self.held(job)?;
        Ok(*held.prefixes.get_or_init(|| prefixes(&held.dataset)))
    }

    fn held(&self, job: &Job) -> Result<&Held> {
        let missing = || Error::setting("corpus", "the corpus of this job was not read");
        self.0.get(&key(&job.corpus)).ok_or_else(missing)
    }

    /// Returns settings and fingerprints, for a manifest.
    pub fn fingerprints(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(key, held)| (key.as_str(), held.dataset.fingerprint()))
    }
}

fn key(spec: &CorpusSpec) -> String {
    // A struct of numbers and names always serializes.
    serde_json::to_string(spec).unwrap_or_default()
}
