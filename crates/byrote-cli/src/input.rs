//! The corpus of a command: what is read, and what is written beside it.

use crate::args::Common;
use crate::progress::Terminal;
use crate::{interrupt, paths, spelling, ui};
use byrote::Result;
use byrote::corpus::{Corpus, CorpusSpec, Outputs, Reading};
use byrote::memory;
use byrote::output::OutputFile;
use clap::Args;
use std::path::{Path, PathBuf};

/// The corpus options, shared by every command that reads text.
#[derive(Debug, Clone, Args)]
pub struct CorpusInput {
    #[command(flatten)]
    pub spec: CorpusSpec,
    /// Write a summary of this shard, for --merge
    #[arg(long, value_name = "FILE", help_heading = "Corpus")]
    pub save: Option<PathBuf>,
    /// Write every context with its count and next tokens as CSV
    #[arg(long, value_name = "FILE", help_heading = "Corpus")]
    pub list: Option<PathBuf>,
}

impl CorpusInput {
    /// The same outputs for another spec.
    pub fn with(&self, spec: CorpusSpec) -> Self {
        Self { spec, save: self.save.clone(), list: self.list.clone() }
    }

    /// The same outputs, with the tokenizer and the window of a model where none are typed.
    pub fn for_model(&self, reading: &Reading<'_>) -> Result<Self> {
        Ok(self.with(reading.spec(&self.spec)?))
    }

    /// The spec with the seed of the command.
    pub fn seeded(&self, common: &Common) -> CorpusSpec {
        self.spec.clone().seed(common.seed)
    }

    /// The files that reading writes, by setting.
    pub fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        [("save", &self.save), ("list", &self.list)]
            .into_iter()
            .filter_map(|(name, path)| Some((name, path.as_deref()?)))
    }

    /// Refuses invalid settings, and outputs that would replace an input or each other. `more` are the command's own inputs
    /// and outputs. Called before anything is read.
    pub fn check<'a>(
        &'a self,
        inputs: impl IntoIterator<Item = &'a Path>,
        outputs: impl IntoIterator<Item = (&'static str, &'a Path)>,
    ) -> Result<()> {
        self.spec.resolve()?;
        let found = self.spec.inputs();
        let mut all: Vec<&Path> = found.iter().map(PathBuf::as_path).collect();
        for path in inputs {
            all.push(path);
        }
        paths::check(all, self.outputs().chain(outputs))
    }

    /// Reads the corpus, writing what --save and --list ask for; keeps the contexts if `contexts` is set.
    ///
    /// A corpus without documents is an error, except for a shard that is being saved: one of many may be empty.
    pub fn read(&self, common: &Common, contexts: bool) -> Result<Corpus> {
        self.check([], [])?;
        let mut spec = self.seeded(common);
        spec.max_memory = spec.max_memory.or_else(memory::share);
        let outputs = self.open_outputs()?.contexts(contexts);
        let corpus = Corpus::from_spec(&spec, outputs, &Terminal::new(common.quiet))?;
        if let Some(sample) = corpus.window_sample() {
            ui::note(common.quiet, &spelling::of_text(&sample.to_string()));
        }
        Ok(corpus)
    }

    /// Opens the files that were asked for.
    pub fn open_outputs(&self) -> Result<Outputs> {
        let open = |path: &Option<PathBuf>| {
            path.as_deref()
                .map(|path| {
                    interrupt::clean_up_beside(path);
                    OutputFile::create(path)
                })
                .transpose()
        };
        Ok(Outputs::default()
            .save(open(&self.save)?)
            .list(open(&self.list)?)
            .may_be_empty(self.save.is_some()))
    }
}
